/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks for this process's run directories once. How one is judged is config/rundir.c's. */

#include "preload/rundirs.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/rundir.h"
#include "core/base/compiler.h"
#include "core/base/log.h"

struct run_dirs {
	char own[RR_RUN_PATH], meet[RR_RUN_PATH];
};

static const char *configured_dir = "";

void rr_rundirs_setup(const char *configured)
{
	configured_dir = configured;
}

/* Nothing fails without a run directory, so nobody would notice. */
static void warn_of_rundirs(const char *xdg)
{
	char dir[RR_RUN_PATH];
	const char *fault;

	for (unsigned n = 0; rr_rundir_place(configured_dir, xdg, geteuid(), n, dir); n++) {
		fault = rr_rundir_fault(dir);
		rr_warn("run directory %s: %s; statistics are kept in memory", dir,
			fault ? fault : "cannot be used");
	}
}

/* Several threads may look at the same time, and one of them may never come to an end, because
 * the process is forked: each has room of its own, and the first result stands. Who finds no
 * room left does without directories, this time. */
static const struct run_dirs *find_dirs(void)
{
	static const struct run_dirs nowhere;
	static struct run_dirs room[8];
	static _Atomic uint32_t taken;
	static const struct run_dirs *_Atomic found;
	const struct run_dirs *d = atomic_load_explicit(&found, memory_order_acquire);
	const char *xdg;
	int saved = errno;
	uint32_t n;

	if (likely(d != NULL))
		return d;
	n = atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed);
	if (n >= rr_array_size(room))
		return &nowhere;
	xdg = secure_getenv("XDG_RUNTIME_DIR");
	rr_rundir_find(configured_dir, xdg, room[n].own);
	rr_rundir_meet(configured_dir, room[n].own, room[n].meet);
	/* Pairs with the acquire at the top. */
	if (atomic_compare_exchange_strong_explicit(&found, &d, &room[n], memory_order_acq_rel,
						    memory_order_acquire)) {
		d = &room[n];
		if (!d->own[0])
			warn_of_rundirs(xdg);
	}
	errno = saved;
	return d;
}

const char *rr_rundirs_own(void)
{
	return find_dirs()->own;
}

const char *rr_rundirs_meet(void)
{
	return find_dirs()->meet;
}
