/* SPDX-License-Identifier: BSD-3-Clause */
/* rdmarpc-stat --stop and --start: the files that hold back new upgrades. */
#include "tools/stat/stop.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "config/rundir.h"

/* A new file with a name of no meaning, to be put in place at once. */
static void make_hidden(int dir, char name[RR_RUN_NAME])
{
	int fd = -1;

	for (unsigned i = 0; fd < 0 && i < 100; i++) {
		snprintf(name, RR_RUN_NAME, "." RR_RUN_STOP ".%08lx", random());
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0644);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0)
		err(1, "%s", name);
	close(fd);
}

/* Puts our file in the place of whatever others may have put there, of any kind, in one step.
 * Where the directory is sticky only root may do that; what comes out is removed as far as that
 * goes. */
static void put_stop(int dir, const char *path, const char *name)
{
	char hidden[RR_RUN_NAME];

	srandom((unsigned)getpid() ^ (unsigned)time(NULL));
	make_hidden(dir, hidden);
	if (!renameat2(dir, hidden, dir, name, RENAME_NOREPLACE))
		return;
	if (errno == EEXIST && !renameat2(dir, hidden, dir, name, RENAME_EXCHANGE)) {
		if (unlinkat(dir, hidden, 0))
			unlinkat(dir, hidden, AT_REMOVEDIR);
		return;
	}
	warn("%s", path);
	unlinkat(dir, hidden, 0);
	errx(1, "%s belongs to somebody else", path);
}

void rr_stop_set(const char *configured, bool on)
{
	char place[RR_RUN_PATH], name[RR_RUN_NAME], path[RR_RUN_PATH + RR_RUN_NAME];
	uid_t me = geteuid();
	int dir;

	if (!rr_rundir_find(configured, getenv("XDG_RUNTIME_DIR"), place) ||
	    (dir = rr_rundir_open(place, NULL)) < 0)
		errx(1, "no run directory that can be used");
	rr_rundir_stop_name(me, name);
	snprintf(path, sizeof(path), "%s/%s", place, name);
	if (!on && rr_rundir_stopped(place, me) && unlinkat(dir, name, 0))
		err(1, "%s", path);
	if (on && !rr_rundir_stopped(place, me))
		put_stop(dir, path, name);
	close(dir);
}

bool rr_stop_any(const struct rr_places *places)
{
	uid_t me = geteuid();

	for (uint32_t i = 0; i < places->n; i++)
		if (rr_rundir_stopped(places->dir[i], me))
			return true;
	return rr_rundir_stopped(places->host, 0);
}
