/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SEGMENT_HOLDER_H
#define SEGMENT_HOLDER_H

/* For tests of the run directory: a process that holds a segment, and who is seen to hold
 * one. */

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include "tests/unit/rundir.h"

/* A process that holds file name of dir, as a living one does; killed by its caller.
 * in_space: in a PID namespace of its own. */
static inline int holder_of(const char *name, bool in_space)
{
	char path[200], c;
	int ready[2];
	pid_t p;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(pipe(ready), 0);
	p = fork();
	if (!p) {
		int fd = open(path, O_RDWR | O_CREAT, 0644);

		if (in_space && (unshare(CLONE_NEWPID) || (p = fork()) != 0)) {
			close(ready[1]);
			waitpid(p, NULL, 0);
			_exit(0);
		}
		if (in_space)	/* end_holder() ends the one between */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (rr_segment_hold(fd))
			(void)!write(ready[1], "", 1);
		close(ready[1]);
		pause();
		_exit(0);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &c, 1), 1, "not held");
	close(ready[0]);
	return p;
}

static inline void end_holder(int p)
{
	kill(p, SIGKILL);
	waitpid(p, NULL, 0);
}

/* The pid that rr_segment_holder() tells of this file of dir. */
static inline int holder_seen(const char *name)
{
	char path[200];
	int fd, holder;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY);
	cr_assert_geq(fd, 0);
	holder = rr_segment_holder(fd);
	close(fd);
	return holder;
}

#endif
