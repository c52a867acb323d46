/* SPDX-License-Identifier: BSD-3-Clause */
/* accept(): what the kernel has, and what has come in by a listener's other door. */

#include "preload/wrap.h"

#include <sys/syscall.h>

#include "core/base/os.h"
#include "preload/data.h"
#include "preload/guard.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/sock.h"

/* accept() on listener returned fd. The listener may be unknown (inherited across exec).
 * may: rr_may_track(). */
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

/* --- native --- */

#define DEFER	(5 * RR_MSEC)	/* for another process to take it */

/* A native connection: entered into the table, and its peer named. */
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

static bool kernel_has_one(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return rr_real.poll(&p, 1, 0) != 0;
}

/* What the kernel has, in a blocking call that is not to block: of the threads that are woken
 * for one connection one gets so far at a time. RR_CONN_KERNEL: none of that, any more. */
static int accept_there(struct rr_sock *so, int fd, struct sockaddr *addr, socklen_t *len,
			int flags)
{
	int got = RR_CONN_KERNEL;

	if (atomic_fetch_or_explicit(&so->flags, RR_SOCK_ACCEPTING, memory_order_acq_rel) &
	    RR_SOCK_ACCEPTING)
		return got;
	/* no cancellation point, which would leave the mark */
	if (kernel_has_one(fd))
		got = (int)syscall(SYS_accept4, fd, addr, len, flags);
	if (got == -1)
		got = -errno;
	atomic_fetch_and_explicit(&so->flags, ~(uint32_t)RR_SOCK_ACCEPTING,
				  memory_order_release);
	return got < 0 ? got : accepted(fd, got, true);
}

static bool socket_blocks(int fd)
{
	int fl = rr_real.fcntl(fd, F_GETFL);

	return fl >= 0 && !(fl & O_NONBLOCK);
}

/* RR_CONN_KERNEL: the plain call, whatever it does. */
static int accept_either(struct rr_sock *so, struct rr_conn *l, int fd, struct sockaddr *addr,
			 socklen_t *len, int flags)
{
	rr_time until = 0;
	struct rr_conn *c;
	int rc;

	for (;;) {
		rc = rr_conn_accept(l, fd, flags, &c);
		rr_sock_after(so, l);
		rr_sock_dry(so, POLLIN);	/* who comes next is another edge */
		if (rc >= 0)
			return accept_native(rc, c, addr, len);
		if (rc == -EDEADLK)
			return -EINTR;
		if (rc != -EAGAIN)
			return rc;
		if (!socket_blocks(fd))
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

/* RR_CONN_KERNEL: libc's call. */
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
	l = atomic_load_explicit(&so->flags, memory_order_relaxed) & RR_SOCK_LISTENER ?
		rr_sock_conn(so) : NULL;
	rc = l ? accept_either(so, l, fd, addr, len, flags) : RR_CONN_KERNEL;
	rr_file_put(&so->f);
	if (rc >= 0 || rc == RR_CONN_KERNEL)
		errno = saved;
	return rc;
}

/* No descriptor for the app: is there one of ours to give instead? */
static bool found_room(int rc)
{
	return unlikely(rc < 0) && errno == EMFILE && rr_may_track() && rr_conn_scarce();
}

int rr_wrap_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	bool may = rr_may_track();
	int rc = may ? accept_call(fd, addr, len, 0) : RR_CONN_KERNEL;

	if (rc != RR_CONN_KERNEL)
		return (int)rr_ret(rc);
	rc = rr_real.accept(fd, addr, len);
	if (found_room(rc))
		rc = rr_real.accept(fd, addr, len);
	return accepted(fd, rc, may);
}

int rr_wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	bool may = rr_may_track();
	int rc = may ? accept_call(fd, addr, len, flags) : RR_CONN_KERNEL;

	if (rc != RR_CONN_KERNEL)
		return (int)rr_ret(rc);
	rc = rr_real.accept4(fd, addr, len, flags);
	if (found_room(rc))
		rc = rr_real.accept4(fd, addr, len, flags);
	return accepted(fd, rc, may);
}
