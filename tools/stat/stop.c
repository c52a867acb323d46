/* SPDX-License-Identifier: BSD-3-Clause */
/* rdmarpc-stat --stop and --start: the files that hold back new upgrades. A library looks for
 * the file before it upgrades a connection; connections that are carried already stay so. The
 * file's content does not matter, only its name and owner. */
#include "tools/stat/stop.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/rundir.h"
#include "tools/stat/ownfile.h"

/* Does nothing if the wish is fulfilled already. Root's file is that of the whole host. */
void rr_stop_set(const char *configured, bool on)
{
	char place[RR_RUN_PATH], name[RR_RUN_NAME], path[RR_RUN_PATH + RR_RUN_NAME];
	char hidden[RR_RUN_NAME];
	uid_t me = geteuid();
	int dir;

	if (!rr_rundir_find(configured, getenv("XDG_RUNTIME_DIR"), place) ||
	    (dir = rr_rundir_open(place, NULL)) < 0)
		errx(1, "no run directory that can be used");
	rr_rundir_stop_name(me, name);
	snprintf(path, sizeof(path), "%s/%s", place, name);
	if (!on && rr_rundir_stopped(place, me) && unlinkat(dir, name, 0))
		err(1, "%s", path);
	if (on && !rr_rundir_stopped(place, me)) {
		close(rr_ownfile_make(dir, RR_RUN_STOP, hidden));
		rr_ownfile_put(dir, hidden, path, name);
	}
	close(dir);
}

/* Root's stop file in the host's directory counts for everybody. */
bool rr_stop_any(const struct rr_places *places)
{
	uid_t me = geteuid();

	for (uint32_t i = 0; i < places->n; i++)
		if (rr_rundir_stopped(places->dir[i], me))
			return true;
	return rr_rundir_stopped(places->host, 0);
}
