/* SPDX-License-Identifier: BSD-3-Clause */
#include "preload/init.h"

#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "preload/guard.h"
#include "preload/rawos.h"
#include "preload/real.h"
#include "preload/setup.h"
#include "preload/sock.h"

/* --- stage 3: at the first TCP socket --- */

static void bind_real(void)
{
	rr_real_bind();
	rr_os = &rr_raw_os;
}

static void (*const stages[])(void) = {
	bind_real,	/* everything after this makes system calls through it */
	rr_setup_conf,
	rr_setup_log,	/* from here on mistakes can be told */
	rr_setup_conn,
};

enum { NOT_YET = 0, DONE = -1 };

static _Atomic pid_t core;	/* NOT_YET, DONE, or the thread that is doing it */
static bool started;		/* stage 1 is over */

bool rr_init_core(void)
{
	pid_t was = atomic_load_explicit(&core, memory_order_acquire), me;
	int saved = errno;

	if (likely(was == DONE))
		return true;
	/* In .preinit_array libc has no environment yet; later, clearenv() may have left none. */
	if (!started && !environ)
		return false;
	me = (pid_t)syscall(SYS_gettid);
	for (;;) {
		was = NOT_YET;
		if (atomic_compare_exchange_strong(&core, &was, me))
			break;
		if (was == DONE || was == me)
			return was == DONE;
		sched_yield();	/* another thread reads a file: it will not be long */
	}
	for (size_t i = 0; i < rr_array_size(stages); i++)
		stages[i]();
	atomic_store_explicit(&core, DONE, memory_order_release);
	errno = saved;
	return true;
}

void rr_init_fork_child(void)
{
	if (atomic_load_explicit(&core, memory_order_relaxed) != DONE)
		atomic_store_explicit(&core, NOT_YET, memory_order_relaxed);
}

/* --- stage 1: at exec --- */

/* A server started by inetd has its connection as 0, 1 and 2. Every exec pays for this look, so
 * it does not bind the next definitions: by system call. */
static void inherit_stdio(void)
{
	socklen_t len = sizeof(int);
	int proto = 0;

	if (syscall(SYS_getsockopt, 0, SOL_SOCKET, SO_PROTOCOL, &proto, &len) < 0 ||
	    proto != IPPROTO_TCP || !rr_sock_inherit(0))
		return;
	rr_sock_dup(0, 1);
	rr_sock_dup(0, 2);
}

/* atol() without a locale. */
static long number(const char *s)
{
	long n = 0;

	while (*s >= '0' && *s <= '9' && n < INT32_MAX)
		n = n * 10 + (*s++ - '0');
	return n;
}

/* One started by systemd has its connection (Accept=yes) or its listeners from 3 on (sd_listen_fds(3)). */
static void inherit_listen_fds(void)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	long n;

	if (!pid || !fds || number(pid) != getpid())
		return;
	n = number(fds);
	for (int fd = 3; fd < 3 + n && fd < 1024; fd++)
		rr_sock_inherit(fd);
}

__attribute__((constructor)) static void rr_init(void)
{
	int saved = errno;

	started = true;
	rr_process_init();
	inherit_stdio();
	inherit_listen_fds();
	errno = saved;
}
