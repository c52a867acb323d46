/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RUNDIR_TEST_H
#define RUNDIR_TEST_H

/* For tests of the run directory: one of their own, and names in it. */

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/rundir.h"

static char top[64], dir[96];

static inline void make(void)
{
	strcpy(top, "/tmp/rr-run-XXXXXX");
	cr_assert(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/d", top);
}

static inline void clean(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", top);
	cr_assert_eq(system(cmd), 0);
}

static inline void touch(const char *name)
{
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_CREAT | O_WRONLY, 0644);
	cr_assert_geq(fd, 0);
	close(fd);
}

static inline bool exists(const char *name)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !access(path, F_OK);
}

static inline unsigned entries(void)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

/* A pid that was ours and is nobody's. */
static inline int dead_pid(void)
{
	pid_t p = fork();

	if (!p)
		_exit(0);
	waitpid(p, NULL, 0);
	return p;
}

/* Is there a file of name with a time behind it? */
static inline bool retired(const char *name)
{
	DIR *d = opendir(dir);
	struct rr_segname s;
	struct dirent *e;
	bool found = false;

	while ((e = readdir(d)))
		if (!strncmp(e->d_name, name, strlen(name)) && rr_segname_parse(e->d_name, &s))
			found |= s.died + 60 > (uint64_t)time(NULL);
	closedir(d);
	return found;
}

#endif
