/* SPDX-License-Identifier: BSD-3-Clause */
/* The process: which process owns the tables, what happens at fork(), and what must be done
 * before privileges are given up. */

#include "preload/wrap.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include "core/base/capture.h"
#include "core/base/os.h"
#include "preload/guard.h"
#include "preload/init.h"
#include "preload/real.h"
#include "preload/restset.h"
#include "preload/sock.h"
#include "preload/statseg.h"

/* --- whose call it is --- */

/* The process whose tables these are. A vfork() child sees them, but has another pid. */
static _Atomic pid_t owner;

/* The thread that has lent this memory to a child by vfork() and has not been seen since. Its
 * child has the same pthread_self(). */
#define NOBODY	((uintptr_t)0)
#define LENT	UINTPTR_MAX	/* several threads, clone(), or whoever it was */
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
#define AT_FIRST NOBODY		/* twice.S tells */
#else
#define AT_FIRST LENT
#endif
static _Atomic uintptr_t lender = AT_FIRST;

static void lends(uintptr_t who)
{
	uintptr_t was = NOBODY;

	if (!atomic_compare_exchange_strong_explicit(&lender, &was, who, memory_order_relaxed,
						     memory_order_relaxed) && was != who)
		atomic_store_explicit(&lender, LENT, memory_order_relaxed);
}

pid_t (*rr_lends(void))(void)
{
	lends((uintptr_t)pthread_self());
	rr_real_bind_twice();
	return rr_real.vfork;
}

/* Takes what libc's takes; what a caller has not passed is not looked at. */
int rr_wrap_clone(int (*fn)(void *), void *stack, int flags, void *arg, pid_t *ptid, void *tls,
		  pid_t *ctid)
{
	if ((flags & (CLONE_VM | CLONE_THREAD)) == CLONE_VM)
		lends(LENT);
	return rr_real.clone(fn, stack, flags, arg, ptid, tls, ctid);
}

/* getpid(), by a system call only where this memory may be lent. */
static pid_t who_calls(void)
{
	uintptr_t lent = atomic_load_explicit(&lender, memory_order_relaxed);
	pid_t pid;

	if (likely(lent == NOBODY) || (lent != LENT && lent != (uintptr_t)pthread_self()))
		return rr_pid();
	pid = getpid();
	/* A parent runs again when its child has memory of its own, or has ended. */
	if (lent != LENT && pid == atomic_load_explicit(&owner, memory_order_relaxed))
		atomic_compare_exchange_strong_explicit(&lender, &lent, NOBODY,
							memory_order_relaxed,
							memory_order_relaxed);
	return pid;
}

/* May this call change the tables? Not in a vfork() child, whose memory is its parent's, nor
 * within a call into a plugin (guard.h). */
bool rr_may_track(void)
{
	pid_t pid = atomic_load_explicit(&owner, memory_order_relaxed);

	if (unlikely(!pid)) {
		rr_process_init();	/* a constructor of another library ran before ours */
		return !rr_guard_depth();
	}
	return pid == who_calls() && !rr_guard_depth();
}

/* --- fork --- */

/* Is fd the lowest number of f? A file with several numbers is thus reported once. */
static bool lowest(int fd, const struct rr_file *f)
{
	struct rr_file *g;

	if (atomic_load_explicit(&f->fds, memory_order_relaxed) < 2)
		return true;
	for (int i = rr_fdt_next(0); i >= 0 && i < fd; i = rr_fdt_next(i + 1)) {
		g = rr_fdt_get(i);
		if (g)
			rr_file_put(g);
		if (g == f)
			return false;
	}
	return true;
}

/* rr_fdt_each()'s function: calls *arg for each connection, once. */
static void tell_conn(int fd, struct rr_file *f, void *arg)
{
	void (*const *what)(struct rr_conn *) = arg;
	struct rr_conn *c;

	if (f->kind != RR_KIND_SOCK || !lowest(fd, f))
		return;
	c = atomic_load_explicit(&container_of(f, struct rr_sock, f)->conn,
				 memory_order_acquire);
	if (c)
		(*what)(c);
}

/* The pthread_atfork() handlers: this one takes the locks that the child must find in order,
 * the other two let go of them. */
static void before_fork(void)
{
	static void (*const nears)(struct rr_conn *) = rr_conn_fork_nears;
	static void (*const forked)(struct rr_conn *) = rr_conn_forked;
	int saved = errno;

	rr_unmet_meet_all();
	rr_cap_forks();
	rr_fdt_each(tell_conn, (void *)(uintptr_t)&nears);
	rr_ep_fork_prepare();
	rr_conn_fork_prepare();
	rr_fdt_each(tell_conn, (void *)(uintptr_t)&forked);
	errno = saved;
}

/* In the opposite order of before_fork(). */
static void after_in_parent(void)
{
	int saved = errno;

	rr_conn_fork_parent();
	rr_ep_fork_parent();
	errno = saved;
}

/* Threads of the parent that were within accept() do not exist in the child. */
static void nobody_accepts(int fd, struct rr_file *f, void *arg)
{
	(void)fd;
	(void)arg;
	if (f->kind == RR_KIND_SOCK)
		atomic_fetch_and_explicit(&container_of(f, struct rr_sock, f)->flags,
					  ~(uint32_t)RR_SOCK_ACCEPTING, memory_order_relaxed);
}

/* From here on the tables are this process's own copy, and calls of the child may change them
 * (rr_may_track()). */
static void after_in_child(void)
{
	int saved = errno;

	atomic_store_explicit(&owner, getpid(), memory_order_relaxed);
	atomic_store_explicit(&lender, AT_FIRST, memory_order_relaxed);
	rr_init_fork_child();
	rr_statseg_fork_child();
	rr_conn_fork_child();
	rr_ep_fork_child();
	rr_restset_fork_child();
	rr_fdt_each(nobody_accepts, NULL);
	errno = saved;
}

void rr_process_init(void)
{
	pid_t none = 0;

	if (atomic_compare_exchange_strong(&owner, &none, getpid()))
		pthread_atfork(before_fork, after_in_parent, after_in_child);
}

/* The pthread_atfork() handlers run at every fork(), libc's own included, but do not learn
 * whether it worked. This wrapper tells the connections if it did not. */
pid_t rr_wrap_fork(void)
{
	static void (*const failed)(struct rr_conn *) = rr_conn_fork_failed;
	pid_t pid = rr_real.fork();
	int saved = errno;

	if (unlikely(pid < 0)) {
		rr_fdt_each(tell_conn, (void *)(uintptr_t)&failed);
		errno = saved;
	}
	return pid;
}

/* daemon()'s parent ends by libc's own _exit(), which nobody can see, and its queue pairs end
 * with it. So what only this process can use goes back to TCP first. */
int rr_wrap_daemon(int nochdir, int noclose)
{
	int saved = errno;

	if (rr_may_track())
		rr_conn_daemon();
	errno = saved;
	return rr_real.daemon(nochdir, noclose);
}

/* --- giving up privileges --- */

/* Root is about to go: what takes its rights (a listener on an RDMA port below 1024) is done
 * before. */
static void still_root(void)
{
	static void (*const early)(struct rr_conn *) = rr_conn_early;
	int saved = errno;

	if (rr_conn_any_early() && rr_may_track() && geteuid() == 0)
		rr_fdt_each(tell_conn, (void *)(uintptr_t)&early);
	errno = saved;
}

int rr_wrap_setuid(uid_t uid)
{
	still_root();
	return rr_real.setuid(uid);
}

int rr_wrap_seteuid(uid_t euid)
{
	still_root();
	return rr_real.seteuid(euid);
}

int rr_wrap_setreuid(uid_t ruid, uid_t euid)
{
	still_root();
	return rr_real.setreuid(ruid, euid);
}

int rr_wrap_setresuid(uid_t ruid, uid_t euid, uid_t suid)
{
	still_root();
	return rr_real.setresuid(ruid, euid, suid);
}
