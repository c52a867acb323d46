/* SPDX-License-Identifier: BSD-3-Clause */
/* An fd's life, from socket() to close(): which fds enter the fd table, and when they leave it.
 * accept() is accept.c's, close_range() ranges.c's. */

#include "preload/wrap.h"

#include <netinet/in.h>
#include <pthread.h>

#include "core/base/capture.h"
#include "core/base/diag.h"
#include "core/base/ownfd.h"
#include "preload/epset.h"
#include "preload/guard.h"
#include "preload/init.h"
#include "preload/looks.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/restset.h"
#include "preload/sock.h"
#include "preload/statseg.h"

/* --- fds that come --- */

/* Makes an entry for fd and puts it into the table. Returns it with a reference for the caller;
 * NULL: no memory, and fd stays plain TCP. */
static struct rr_sock *track(int fd, uint32_t flags)
{
	struct rr_sock *so = rr_sock_new(fd);

	if (!so)
		return NULL;
	atomic_store_explicit(&so->flags, flags, memory_order_relaxed);
	rr_file_hold(&so->f);
	rr_fdt_give(fd, &so->f);
	return so;
}

static bool is_tcp(int domain, int type, int protocol)
{
	return (domain == AF_INET || domain == AF_INET6) &&
	       (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM &&
	       (protocol == 0 || protocol == IPPROTO_TCP);
}

int rr_wrap_socket(int domain, int type, int protocol)
{
	int fd = rr_real.socket(domain, type, protocol);
	struct rr_sock *so;

	if (fd < 0 || !rr_may_track())
		return fd;
	rr_fdt_evict(fd);
	if (!is_tcp(domain, type, protocol))
		return fd;
	/* Here and not at connect() or accept(), because daemons give up their privileges in
	 * between. */
	rr_init_core();
	so = track(fd, 0);
	if (so)
		rr_file_put(&so->f);
	return fd;
}

int rr_wrap_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	return rr_real.bind(fd, addr, len);
}

int rr_wrap_bindresvport(int fd, struct sockaddr_in *sin)
{
	return rr_real.bindresvport(fd, sin);
}

/* fd listens: clients of this host learn that its connections can be carried, and a rule may
 * let native peers reach it, too. */
static void announce(struct rr_sock *so, int fd)
{
	struct rr_conn *c, *none = NULL;

	if (!atomic_load_explicit(&so->serves, memory_order_relaxed))
		atomic_store_explicit(&so->serves, rr_conn_serves(fd), memory_order_relaxed);
	if (!atomic_load_explicit(&so->conn, memory_order_acquire) &&
	    (c = rr_conn_listener(fd))) {
		if (atomic_compare_exchange_strong(&so->conn, &none, c))
			rr_ep_sock_conn(so);
		else
			rr_conn_free(c);
	}
}

/* announce(), and the statistics segment is made. errno is left alone. */
static void meet_listener(struct rr_sock *so, int fd)
{
	int saved = errno;

	if (rr_may_track() && rr_init_core()) {
		rr_statseg_get(true);	/* rdmarpc-stat shows a server while it waits, too */
		announce(so, fd);
	}
	errno = saved;
}

int rr_wrap_listen(int fd, int backlog)
{
	int rc = rr_real.listen(fd, backlog);
	struct rr_sock *so = rc < 0 ? NULL : rr_fdt_sock(fd);

	if (so) {
		atomic_fetch_or_explicit(&so->flags, RR_SOCK_LISTENER, memory_order_relaxed);
		meet_listener(so, fd);
		rr_file_put(&so->f);
	}
	return rc;
}

void rr_sock_accepted(int fd)
{
	if (rr_init_core())
		rr_sock_adopt(fd, NULL);
}

bool rr_sock_adopt(int fd, struct rr_conn *c)
{
	struct rr_sock *so = track(fd, RR_SOCK_ACCEPTED);

	if (!so)
		return false;
	if (!c && !rr_unmet_begin(so, NULL, 0))
		c = rr_conn_server(fd);
	if (c) {
		atomic_store_explicit(&so->conn, c, memory_order_release);
		rr_ep_sock_conn(so);
	}
	rr_file_put(&so->f);
	return true;
}

/* An integer socket option of fd; 0 also if fd is no socket. */
static int get_option(int fd, int name)
{
	socklen_t len = sizeof(int);
	int value = 0;

	return rr_real.getsockopt(fd, SOL_SOCKET, name, &value, &len) ? 0 : value;
}

bool rr_speaks_tcp(int fd)
{
	return get_option(fd, SO_PROTOCOL) == IPPROTO_TCP;
}

/* fd was made a listener before exec: enters it. False: no memory. */
static bool listener(int fd)
{
	struct rr_sock *so = track(fd, RR_SOCK_LISTENER);

	if (!so)
		return false;
	meet_listener(so, fd);
	rr_file_put(&so->f);
	return true;
}

bool rr_sock_inherit(int fd)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	int saved = errno;
	bool ok = rr_speaks_tcp(fd);

	if (ok && !rr_real.getpeername(fd, (struct sockaddr *)&peer, &len))
		rr_sock_accepted(fd);
	else
		ok = ok && get_option(fd, SO_ACCEPTCONN) && listener(fd);
	errno = saved;
	return ok;
}

void rr_sock_hears(struct rr_sock *so, bool peer, const struct sockaddr *addr, socklen_t len)
{
	struct rr_conn *c = rr_sock_conn(so);

	if (c)
		rr_conn_named(c, peer, addr, len);
	else if (rr_unmet_is(so))
		rr_unmet_hears(so, peer, addr, len);
}

void rr_sock_plain(struct rr_sock *so)
{
	struct rr_conn *c = atomic_load_explicit(&so->conn, memory_order_acquire);

	if ((!c && !rr_unmet_is(so)) ||
	    atomic_fetch_or_explicit(&so->flags, RR_SOCK_PLAIN, memory_order_acq_rel) &
	    RR_SOCK_PLAIN)
		return;
	if (c) {
		rr_conn_vanished(c);
		rr_sock_sync(so);
	}
}

/* The kernel has accepted this connect(), so addr is readable. Makes the connection, once a
 * socket; what is connected again is met. */
static void connecting(struct rr_sock *so, int fd, const struct sockaddr *addr, socklen_t len)
{
	struct rr_conn *c;

	if (!rr_init_core())
		return;
	if (atomic_fetch_or_explicit(&so->flags, RR_SOCK_CONNECTING, memory_order_acq_rel) &
	    RR_SOCK_CONNECTING) {
		if (rr_unmet_is(so))
			rr_unmet_meet(so, fd);
		return;
	}
	c = rr_unmet_begin(so, addr, len) ? NULL : rr_conn_client(fd, addr, len);
	if (!c)
		return;
	atomic_store_explicit(&so->conn, c, memory_order_release);
	rr_ep_sock_conn(so);
}

/* The connection by which so reaches a native peer: made now if this is the first connect() and
 * a rule sends it there, or made by an earlier connect(). NULL: connect() is the kernel's. */
static struct rr_conn *dial(struct rr_sock *so, int fd, const struct sockaddr *addr,
			    socklen_t len)
{
	struct rr_conn *c = atomic_load_explicit(&so->conn, memory_order_acquire), *none = NULL;

	if (c || addr->sa_family == AF_UNSPEC || !rr_init_core())
		return rr_sock_conn(so);
	c = rr_conn_dial(fd, addr, len);
	if (!c)
		return NULL;
	if (!atomic_compare_exchange_strong(&so->conn, &none, c)) {
		rr_conn_free(c);	/* another thread's connect() was first */
		return none;
	}
	atomic_fetch_or_explicit(&so->flags, RR_SOCK_CONNECTING, memory_order_acq_rel);
	rr_ep_sock_conn(so);
	return c;
}

/* The app stops waiting (time-out or signal) before the provider has decided; dialing goes on.
 * Returns connect()'s result. */
static int leave_dialing(struct rr_conn *c, int fd, int rc)
{
	int now = rr_conn_dialed(c, fd, false);

	return now == -EALREADY ? (rc == -EAGAIN ? -EINPROGRESS : rc) : now;
}

/* connect() to a native peer. Returns 0 or -errno, or RR_CONN_KERNEL: the kernel's. */
static int connect_native(struct rr_sock *so, int fd, const struct sockaddr *addr,
			  socklen_t len)
{
	bool first = !atomic_load_explicit(&so->conn, memory_order_relaxed), wait;
	struct rr_conn *c = dial(so, fd, addr, len);
	rr_time until;
	int rc;

	if (!c || addr->sa_family == AF_UNSPEC)
		return RR_CONN_KERNEL;
	wait = rr_wait_allowed(fd);
	rc = rr_conn_dialed(c, fd, wait);
	until = rc == -EALREADY && wait ? rr_wait_deadline(fd, SO_SNDTIMEO) : 0;
	while (rc == -EALREADY && wait) {
		rc = rr_wait_one(so, fd, POLLOUT, until);
		if (rc)
			rc = leave_dialing(c, fd, rc);
		else
			rc = rr_conn_dialed(c, fd, true);
	}
	rr_sock_after(so, c);
	return rc == -EALREADY && first ? -EINPROGRESS : rc;
}

int rr_wrap_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	int rc = RR_CONN_KERNEL, saved = errno;
	bool ours = unlikely(rr_fdt_has(fd)) && rr_may_track();
	struct rr_sock *so = ours && !rr_bad_ptr(addr) ? rr_fdt_sock(fd) : NULL;

	if (so) {
		rc = connect_native(so, fd, addr, len);
		rr_file_put(&so->f);
		if (rc != RR_CONN_KERNEL) {
			errno = saved;
			return (int)rr_ret(rc);
		}
	}
	errno = saved;
	rc = rr_real.connect(fd, addr, len);
	saved = errno;
	if (likely(!ours) || (rc < 0 && saved != EINPROGRESS && saved != EINTR))
		return rc;
	rr_looks_forget();
	so = rr_fdt_sock(fd);
	if (so) {
		/* connect(AF_UNSPEC) disconnects a socket; carrying ends with it. */
		if (addr->sa_family == AF_UNSPEC) {
			rr_diag("connect to AF_UNSPEC: TCP from here on", fd);
			rr_sock_plain(so);
		} else {
			connecting(so, fd, addr, len);
		}
		rr_file_put(&so->f);
	}
	errno = saved;
	return rc;
}

/* --- duplicates of an fd --- */

void rr_sock_dup(int of, int fd)
{
	struct rr_file *f;

	if (!rr_may_track())
		return;
	rr_fdt_evict(fd);
	f = rr_fdt_get(of);
	if (!f)
		return;
	/* Another thread may have closed `of` and used its number again meanwhile. */
	if (atomic_load_explicit(&f->fds, memory_order_acquire) && rr_file_verify(f, fd))
		rr_fdt_give(fd, f);
	else
		rr_file_put(f);
}

int rr_wrap_dup(int fd)
{
	int to = rr_real.dup(fd), saved = errno;

	if (to >= 0 && (rr_fdt_has(fd) || rr_fdt_has(to)))
		rr_sock_dup(fd, to);
	errno = saved;
	return to;
}

/* The app wants the number `to`, which is a descriptor of ours: moves ours to another number.
 * False: it cannot be moved. */
static bool makes_way(int to)
{
	if (rr_conn_move_fd(to)) {
		rr_ep_wake_moved(to);
		return true;
	}
	return rr_ep_move_fd(to) || rr_logsink_move_fd(to) || rr_statseg_move_fd(to) ||
	       rr_cap_move_fd(to) || rr_restset_move(to);
}

/* dup2() and dup3(), which close `to` unless they fail: then it must not have been closed
 * here. */
static int dup_onto(int fd, int to, int flags, bool three)
{
	struct rr_file *was;
	int rc, saved = errno;

	if (unlikely(rr_ownfd_is(to)) && rr_may_track()) {
		if (!makes_way(to))
			return (int)rr_ret(-EBUSY);	/* as Linux answers for a number that is
							 * being opened */
		errno = saved;
	}
	if (!rr_fdt_has(fd) && !rr_fdt_has(to))
		return three ? rr_real.dup3(fd, to, flags) : rr_real.dup2(fd, to);
	was = fd != to && rr_fdt_has(to) && rr_real.fcntl(fd, F_GETFD) >= 0 &&
	      !(flags & ~O_CLOEXEC) ? rr_sock_closing(to) : NULL;
	errno = saved;
	rc = three ? rr_real.dup3(fd, to, flags) : rr_real.dup2(fd, to);
	saved = errno;
	if (was)
		rr_file_put(was);
	if (rc >= 0 && fd != to)
		rr_sock_dup(fd, to);
	errno = saved;
	return rc;
}

int rr_wrap_dup2(int fd, int to)
{
	return dup_onto(fd, to, 0, false);
}

int rr_wrap_dup3(int fd, int to, int flags)
{
	return dup_onto(fd, to, flags, true);
}

/* stdio will read and write fd by libc-internal calls, and close it some day, all unseen by
 * us. */
FILE *rr_wrap_fdopen(int fd, const char *mode)
{
	struct rr_sock *so = rr_fdt_sock(fd);
	int saved = errno;
	struct rr_conn *c;

	if (so) {
		atomic_fetch_or_explicit(&so->flags, RR_SOCK_STDIO, memory_order_relaxed);
		rr_file_is_at(&so->f, fd);	/* later fd may be another file's */
		rr_fdt_change();
		if (rr_unmet_is(so))
			rr_unmet_meet(so, fd);
		c = rr_sock_conn(so);
		if (c && !rr_conn_let_go(c))
			rr_diag("fdopen: what the stream reads and writes is not carried", fd);
		if (c)
			rr_sock_after(so, c);
		rr_file_put(&so->f);
	}
	errno = saved;
	return rr_real.fdopen(fd, mode);
}

/* --- fds that go --- */

int rr_wrap_shutdown(int fd, int how)
{
	struct rr_sock *so;
	struct rr_conn *c = how < SHUT_RD || how > SHUT_RDWR ? NULL : rr_conn_at(fd, &so);
	int rc, saved = errno;

	if (!c)
		return rr_real.shutdown(fd, how);
	rc = rr_conn_shutdown(c, fd, how);
	rr_looks_forget();
	rr_sock_after(so, c);
	rr_file_put(&so->f);
	if (rc < 0 && rc != RR_CONN_KERNEL)
		return (int)rr_ret(rc == -EDEADLK ? -EINTR : rc);
	if (rc != 1)
		return rr_real.shutdown(fd, how);
	rr_real.shutdown(fd, how);
	errno = saved;
	return 0;
}

struct rr_file *rr_sock_closing(int fd)
{
	struct rr_file *f;
	struct rr_sock *so;
	struct rr_conn *c;
	bool last;

	if (!rr_may_track())
		return NULL;
	f = rr_fdt_take(fd, &last);
	if (!f || !last || f->kind != RR_KIND_SOCK)
		return f;
	so = container_of(f, struct rr_sock, f);
	rr_ep_sock_gone(so, fd);
	c = rr_sock_conn(so);
	if (!c)
		c = atomic_load_explicit(&so->conn, memory_order_acquire);
	else if (!rr_conn_is_kernels(c) && !rr_file_verify(f, fd)) {
		rr_conn_vanished(c);	/* fd is another file's by now, and no end mark must be
					 * written on it */
		c = NULL;
	}
	if (c) {
		rr_conn_close(c, fd);
		rr_looks_forget();
	}
	return f;
}

int rr_wrap_close(int fd)
{
	struct rr_file *f;
	int rc, cancel, saved = errno;

	if (likely(!rr_fdt_has(fd))) {
		if (unlikely(rr_ownfd_is(fd)) && rr_may_track())
			return (int)rr_ret(-EBADF);	/* for the app, a descriptor of ours
							 * does not exist */
		return rr_real.close(fd);
	}
	pthread_testcancel();	/* a thread cancelled halfway would leave the fd half closed */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	/* Before the kernel's close(), after which another thread may get the number for a new
	 * file. */
	f = rr_sock_closing(fd);
	errno = saved;
	rc = rr_real.close(fd);
	if (f) {
		saved = errno;
		rr_file_put(f);
		errno = saved;
	}
	pthread_setcancelstate(cancel, NULL);
	return rc;
}
