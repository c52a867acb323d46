/* SPDX-License-Identifier: BSD-3-Clause */
/* What concerns all fds at once: fork, closing ranges, who owns the tables. */

#include "preload/wrap.h"

#include <pthread.h>
#include <sys/resource.h>

#include "core/base/ownfd.h"
#include "preload/guard.h"
#include "preload/init.h"
#include "preload/real.h"
#include "preload/restset.h"
#include "preload/sock.h"
#include "preload/statseg.h"

/* --- whose call it is --- */

/* The process whose tables these are. A vfork child sees them, but has another pid. */
static _Atomic pid_t owner;

/* Depth of rr_guard_enter() by thread. A pthread key and not __thread: general-dynamic TLS needs
 * ld.so's __tls_get_addr (one more NEEDED), initial-exec marks the library STATIC_TLS. */
static pthread_key_t guard_key;
static _Atomic bool guard_used;
static pthread_once_t guard_once = PTHREAD_ONCE_INIT;

static void make_guard(void)
{
	if (!pthread_key_create(&guard_key, NULL))
		atomic_store_explicit(&guard_used, true, memory_order_release);
}

static uintptr_t guard_depth(void)
{
	if (likely(!atomic_load_explicit(&guard_used, memory_order_acquire)))
		return 0;
	return (uintptr_t)pthread_getspecific(guard_key);
}

void rr_guard_enter(void)
{
	pthread_once(&guard_once, make_guard);
	pthread_setspecific(guard_key, (void *)(guard_depth() + 1));
}

void rr_guard_leave(void)
{
	pthread_setspecific(guard_key, (void *)(guard_depth() - 1));
}

bool rr_may_track(void)
{
	pid_t pid = atomic_load_explicit(&owner, memory_order_relaxed);

	if (unlikely(!pid)) {
		rr_process_init();	/* somebody's constructor ran before ours */
		return !guard_depth();
	}
	return pid == getpid() && !guard_depth();
}

/* --- fork --- */

/* Is fd the lowest number of f, so that each file is told of once? */
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

/* arg: what to tell each connection, once. */
static void tell(int fd, struct rr_file *f, void *arg)
{
	void (*const *what)(struct rr_conn *) = arg;
	struct rr_conn *c;

	if (f->kind != RR_KIND_SOCK || !lowest(fd, f))
		return;
	c = atomic_load_explicit(&container_of(f, struct rr_sock, f)->conn, memory_order_acquire);
	if (c)
		(*what)(c);
}

static void before_fork(void)
{
	static void (*const forked)(struct rr_conn *) = rr_conn_forked;
	int saved = errno;

	rr_ep_fork_prepare();
	rr_conn_fork_prepare();
	rr_fdt_each(tell, (void *)(uintptr_t)&forked);
	errno = saved;
}

static void after_in_parent(void)
{
	int saved = errno;

	rr_conn_fork_parent();
	rr_ep_fork_parent();
	errno = saved;
}

/* Threads of the parent that were within accept() are not here. */
static void nobody_accepts(int fd, struct rr_file *f, void *arg)
{
	(void)fd;
	(void)arg;
	if (f->kind == RR_KIND_SOCK)
		atomic_fetch_and_explicit(&container_of(f, struct rr_sock, f)->flags,
					  ~(uint32_t)RR_SOCK_ACCEPTING, memory_order_relaxed);
}

static void after_in_child(void)
{
	int saved = errno;

	atomic_store_explicit(&owner, getpid(), memory_order_relaxed);
	rr_real_fork_child();
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

/* The handlers hear of every fork(), libc's own included, but not whether it worked. */
pid_t rr_wrap_fork(void)
{
	static void (*const failed)(struct rr_conn *) = rr_conn_fork_failed;
	pid_t pid = rr_real.fork();
	int saved = errno;

	if (unlikely(pid < 0)) {
		rr_fdt_each(tell, (void *)(uintptr_t)&failed);
		errno = saved;
	}
	return pid;
}

/* Its parent ends by libc's own _exit(), which nobody sees, and takes its queue pairs with it. */
int rr_wrap_daemon(int nochdir, int noclose)
{
	int saved = errno;

	if (rr_may_track())
		rr_conn_daemon();
	errno = saved;
	return rr_real.daemon(nochdir, noclose);
}

/* --- giving up privileges --- */

/* What takes them is done before. */
static void still_root(void)
{
	static void (*const early)(struct rr_conn *) = rr_conn_early;
	int saved = errno;

	if (rr_conn_any_early() && rr_may_track() && geteuid() == 0)
		rr_fdt_each(tell, (void *)(uintptr_t)&early);
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

/* --- close_range, closefrom --- */

/* The tracked fds of [first, last], in our sense. */
static void close_tracked(unsigned first, unsigned last)
{
	for (int fd = rr_fdt_next((int)first); fd >= 0 && (unsigned)fd <= last;
	     fd = rr_fdt_next(fd + 1))
		rr_wrap_close(fd);
}

/* The kernel's close_range() on all of [first, last] that is not ours. */
static int close_others(unsigned first, unsigned last, int flags)
{
	int fd = first <= INT32_MAX ? rr_ownfd_next((int)first) : -1;

	for (; fd >= 0 && (unsigned)fd <= last; fd = rr_ownfd_next(fd + 1)) {
		if ((unsigned)fd > first && rr_real.close_range(first, (unsigned)fd - 1, flags) < 0)
			return -1;
		first = (unsigned)fd + 1;
	}
	return first > last ? 0 : rr_real.close_range(first, last, flags);
}

int rr_wrap_close_range(unsigned first, unsigned last, int flags)
{
	int saved = errno, rc, cancel;

	/* Only marks them, or fails; or makes an fd table for this thread alone, of which our
	 * table of the process's fds should not hear. */
	if (flags || first > last || !rr_may_track())
		return rr_real.close_range(first, last, flags);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);	/* unlike in close() */
	if (first <= INT32_MAX)
		close_tracked(first, last);
	rc = close_others(first, last, flags);
	pthread_setcancelstate(cancel, NULL);
	if (!rc)
		errno = saved;
	return rc;
}

/* One past the highest number that an fd can have. */
static int fd_limit(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0 || lim.rlim_max > 1u << 20)
		return 1 << 20;
	return (int)lim.rlim_max;
}

/* Before Linux 5.9, and where a sandbox knows no close_range(): one by one. */
void rr_wrap_closefrom(int low)
{
	int saved = errno;

	if (low < 0)
		low = 0;
	if (rr_wrap_close_range((unsigned)low, ~0U, 0) < 0)
		for (int fd = low, limit = fd_limit(); fd < limit; fd++)
			rr_wrap_close(fd);
	errno = saved;
}
