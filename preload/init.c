/* SPDX-License-Identifier: BSD-3-Clause */
/* Start-up at the first TCP socket (stage 3 of init.h). What runs at exec is in start.c. */

#include "preload/init.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "preload/rawos.h"
#include "preload/setup.h"

/* --- stage 3: at the first TCP socket --- */

static void set_os(void)
{
	rr_os = &rr_raw_os;
}

static void (*const stages[])(void) = {
	set_os,		/* everything after this makes system calls through it */
	rr_setup_conf,
	rr_setup_log,	/* from here on mistakes can be told */
	rr_setup_conn,
};

enum { NOT_YET = 0, DONE = -1 };

static _Atomic pid_t core;	/* NOT_YET, DONE, or the id of the thread that is doing it */
static bool started;		/* the constructor has run */

/* See init.h. The thread that changes NOT_YET to its own id does the stage, the others wait for
 * it. The acquire pairs with the release at its end: a thread that sees DONE sees all that was
 * set up. */
bool rr_init_core(void)
{
	pid_t was = atomic_load_explicit(&core, memory_order_acquire), me;
	int saved = errno;

	if (likely(was == DONE))
		return true;
	/* Within .preinit_array libc has no environment yet. Later, clearenv() may have left
	 * none, which is no reason to wait. */
	if (!started && !environ)
		return false;
	me = (pid_t)syscall(SYS_gettid);
	for (;;) {
		was = NOT_YET;
		if (atomic_compare_exchange_strong(&core, &was, me))
			break;
		if (was == DONE || was == me)
			return was == DONE;
		sched_yield();	/* another thread reads the configuration: it will not be
				 * long */
	}
	for (size_t i = 0; i < rr_array_size(stages); i++)
		stages[i]();
	atomic_store_explicit(&core, DONE, memory_order_release);
	errno = saved;
	return true;
}

void rr_init_started(void)
{
	started = true;
}

/* The thread that was doing the stage may have been another one of the parent's, which the
 * child does not have. */
void rr_init_fork_child(void)
{
	if (atomic_load_explicit(&core, memory_order_relaxed) != DONE)
		atomic_store_explicit(&core, NOT_YET, memory_order_relaxed);
}
