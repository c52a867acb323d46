/* SPDX-License-Identifier: BSD-3-Clause */
/* accept() and accept4(): returns a TCP connection that the kernel has accepted, or a native
 * connection that has come in by the listener's RDMA side (its door).
 *
 * Which native connections there are is known to core/conn; this file only takes them, enters
 * what was accepted into the fd table, and waits where the app's call may block. */

#include "preload/wrap.h"

#include <sys/syscall.h>

#include "core/base/os.h"
#include "preload/appmem.h"
#include "preload/guard.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/sock.h"

/* Enters fd, which accept() on listener has just returned, into the fd table. Returns fd. may
 * is what rr_may_track() said before the call. The listener may be unknown to us (inherited
 * across exec): then the kernel is asked whether fd is a TCP socket. errno is left alone. */
static int accepted(int listener, int fd, bool may)
{
	struct rr_sock *so;
	int saved = errno;
	bool known;

	if (fd < 0 || !may)
		return fd;
	rr_fdt_evict(fd);
	so = rr_fdt_sock(listener);
	known = so != NULL;
	if (so)
		rr_file_put(&so->f);
	if (known || rr_speaks_tcp(fd))
		rr_sock_accepted(fd);
	errno = saved;
	return fd;
}

/* The room that the app has for the peer's address; 0 also if fd is no listener of ours. */
static socklen_t room_for_name(int fd, const struct sockaddr *addr, const socklen_t *len)
{
	return addr && rr_fdt_has(fd) && !rr_bad_ptr(len) ? *len : 0;
}

/* The kernel has told the app the peer's address, if there was room for it: then core/conn need
 * not ask for it. Returns fd. */
static int tells_name(int fd, const struct sockaddr *addr, const socklen_t *len, socklen_t room)
{
	struct rr_sock *so = room && fd >= 0 && *len <= room ? rr_fdt_sock(fd) : NULL;

	if (so) {
		rr_sock_hears(so, true, addr, *len);
		rr_file_put(&so->f);
	}
	return fd;
}

/* --- native --- */

#define DEFER	(5 * RR_MSEC)	/* how long another process of the family gets to take what the
				 * kernel has */

/* Enters a native connection into the table under fd and gives its peer's name to the app.
 * Takes over c. Returns fd, or -ENOMEM after everything has been closed again. */
static int accept_native(int fd, struct rr_conn *c, struct sockaddr *addr, socklen_t *len)
{
	rr_fdt_evict(fd);
	if (!rr_sock_adopt(fd, c)) {
		rr_conn_close(c, fd);
		rr_conn_free(c);
		rr_real.close(fd);
		return -ENOMEM;
	}
	if (addr && len)
		rr_conn_name(c, true, addr, len);
	return fd;
}

/* Would accept() on fd return without sleeping? */
static bool kernel_has_one(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return rr_real.poll(&p, 1, 0) != 0;
}

/* Accepts what the kernel has, for a blocking call that must not block in the kernel, where it
 * would not hear of a native connection. One incoming connection wakes several threads; only
 * one thread at a time gets past the mark RR_SOCK_ACCEPTING, so that what it saw by poll() no
 * other thread takes before its accept4(). Returns the fd, -errno, or RR_CONN_KERNEL if the
 * connection is gone or another thread is at it: the caller waits on. */
static int accept_there(struct rr_sock *so, int fd, struct sockaddr *addr, socklen_t *len,
			int flags)
{
	int got = RR_CONN_KERNEL;

	if (atomic_fetch_or_explicit(&so->flags, RR_SOCK_ACCEPTING, memory_order_acq_rel) &
	    RR_SOCK_ACCEPTING)
		return got;
	/* syscall() is no cancellation point; a cancelled thread would leave the mark set. */
	if (kernel_has_one(fd))
		got = (int)syscall(SYS_accept4, fd, addr, len, flags);
	if (got == -1)
		got = -errno;
	atomic_fetch_and_explicit(&so->flags, ~(uint32_t)RR_SOCK_ACCEPTING,
				  memory_order_release);
	return got < 0 ? got : accepted(fd, got, true);
}

/* accept() on a listener l that has a door. Returns an fd, -errno, or RR_CONN_KERNEL: the
 * caller makes the plain call, since fd does not block or no native connection comes in by this
 * process. */
static int accept_either(struct rr_sock *so, struct rr_conn *l, int fd, struct sockaddr *addr,
			 socklen_t *len, int flags)
{
	rr_time until = 0;
	struct rr_conn *c;
	int rc;

	for (;;) {
		rc = rr_conn_accept(l, fd, flags, &c);
		rr_sock_after(so, l);
		rr_sock_dry(so, POLLIN);	/* the next connection to come is a new edge */
		if (rc >= 0)
			return accept_native(rc, c, addr, len);
		if (rc == -EDEADLK)
			return -EINTR;
		if (rc != -EAGAIN)
			return rc;
		if (!rr_wait_allowed(fd))
			return RR_CONN_KERNEL;
		if (rr_conn_defers(l) && kernel_has_one(fd))
			rr_os_nap(DEFER);
		rc = accept_there(so, fd, addr, len, flags);
		if (rc != RR_CONN_KERNEL)
			return rc;
		if (!until)
			until = rr_wait_deadline(fd, SO_RCVTIMEO);
		rc = rr_wait_one(so, fd, POLLIN, until);
		if (rc)
			return rc;
	}
}

/* accept4() where fd is a listener with a door: as accept_either(). RR_CONN_KERNEL for all
 * other fds, and for flags that the kernel has to refuse. */
static int accept_call(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct rr_sock *so;
	struct rr_conn *l;
	int rc, saved = errno;

	if (likely(!rr_fdt_has(fd)) || flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC))
		return RR_CONN_KERNEL;
	so = rr_fdt_sock(fd);
	if (!so)
		return RR_CONN_KERNEL;
	l = rr_sock_listens(so) ? rr_sock_conn(so) : NULL;
	rc = l ? accept_either(so, l, fd, addr, len, flags) : RR_CONN_KERNEL;
	rr_file_put(&so->f);
	if (rc >= 0 || rc == RR_CONN_KERNEL)
		errno = saved;
	return rc;
}

/* accept() failed with EMFILE: could a descriptor of our own be given back, so that the caller
 * may try again? */
static bool found_room(int rc)
{
	return unlikely(rc < 0) && errno == EMFILE && rr_may_track() && rr_conn_scarce();
}

int rr_wrap_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	socklen_t room = room_for_name(fd, addr, len);
	bool may = rr_may_track();
	int rc = may ? accept_call(fd, addr, len, 0) : RR_CONN_KERNEL;

	if (rc != RR_CONN_KERNEL)
		return (int)rr_ret(rc);
	rc = rr_real.accept(fd, addr, len);
	if (found_room(rc))
		rc = rr_real.accept(fd, addr, len);
	return tells_name(accepted(fd, rc, may), addr, len, room);
}

int rr_wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	socklen_t room = room_for_name(fd, addr, len);
	bool may = rr_may_track();
	int rc = may ? accept_call(fd, addr, len, flags) : RR_CONN_KERNEL;

	if (rc != RR_CONN_KERNEL)
		return (int)rr_ret(rc);
	rc = rr_real.accept4(fd, addr, len, flags);
	if (found_room(rc))
		rc = rr_real.accept4(fd, addr, len, flags);
	return tells_name(accepted(fd, rc, may), addr, len, room);
}
