/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/open_fds.h"

#include <dirent.h>
#include <unistd.h>

#include "core/prov/prov.h"

int dir_entries(const char *of)
{
	DIR *d = opendir(of);
	int n = -2;	/* "." and ".." */

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

int open_fds(void)
{
	rr_prov_spare();
	return dir_entries("/proc/self/fd") - 1;	/* without the directory's own */
}

bool open_fds_get_to(int n)
{
	for (int i = 0; i < 10000 && open_fds() != n; i++)
		usleep(1000);
	return open_fds() == n;
}
