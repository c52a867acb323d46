/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHM_SETUP_H
#define SHM_SETUP_H

/* For tests of how a shm connection comes to be: a pair that is not connected yet and a run
 * directory. When a test is over, no descriptor, mapping or file of it is left. */

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/mapped.h"
#include "tests/lib/shm_pair.h"

static struct shm_pair p;
static char dir[64];
static int fds, maps;

static inline void init(void)
{
	maps = shared_maps();
	shm_pair_init(&p, 4096, 8);
	strcpy(dir, "/tmp/rr-shm-XXXXXX");
	cr_assert(mkdtemp(dir));
	cr_assert_eq(chmod(dir, 01777), 0);
	fds = open_fds();
}

static inline int files_in(const char *d)
{
	DIR *h = opendir(d);
	int n = -2;

	while (readdir(h))
		n++;
	closedir(h);
	return n;
}

static inline void fini(void)
{
	shm_pair_close(&p);
	cr_assert(open_fds_get_to(fds), "a descriptor leaked");
	cr_assert_eq(shared_maps(), maps, "%d mappings leaked", shared_maps() - maps);
	cr_assert_eq(files_in(dir), 0);
	rmdir(dir);
}

#endif
