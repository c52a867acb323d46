/* SPDX-License-Identifier: BSD-3-Clause */
/* Options, names and other properties of an fd: fcntl(), ioctl(), getsockopt(), setsockopt(),
 * getsockname(), getpeername(). The kernel answers almost all of them, since the fd is its TCP
 * socket; this file adds what the kernel cannot know of a carried or native connection, and
 * spares a system call where the answer is known and cannot change. */

#include "preload/wrap.h"

#include <limits.h>
#include <string.h>

#include "preload/appmem.h"
#include "preload/guard.h"
#include "preload/io.h"
#include "preload/real.h"
#include "preload/sock.h"

/* Only the commands that duplicate fd concern the fd table. */
int rr_wrap_fcntl(int fd, int cmd, void *arg)
{
	int rc = rr_real.fcntl(fd, cmd, arg), saved = errno;

	if (likely(cmd != F_DUPFD && cmd != F_DUPFD_CLOEXEC) || rc < 0)
		return rc;
	if (rr_fdt_has(fd) || rr_fdt_has(rc))
		rr_sock_dup(fd, rc);
	errno = saved;
	return rc;
}

/* The kernel answers first: where it has written, the app's pointer is good. */
int rr_wrap_ioctl(int fd, unsigned long cmd, void *arg)
{
	int rc = rr_real.ioctl(fd, cmd, arg), saved = errno, n;
	struct rr_sock *so;
	struct rr_conn *c;

	if (likely(cmd != FIONREAD) || rc < 0 || !(c = rr_conn_at(fd, &so)))
		return rc;
	n = rr_conn_inq(c, fd);
	rr_sock_after(so, c);
	rr_file_put(&so->f);
	errno = saved;
	if (n == RR_CONN_KERNEL)	/* and what was not the app's has been taken out */
		return rr_real.ioctl(fd, cmd, arg);
	if (n == -EDEADLK)
		n = 0;	/* a signal handler within a call on fd: no bytes, as poll() says too */
	if (n < 0)
		return (int)rr_ret(n);
	memcpy(arg, &n, sizeof(n));	/* Python passes a buffer that is not aligned */
	return rc;
}

/* Stores an int as the kernel does in a buffer of *len bytes: cut, if that is smaller. */
static void give_int(int value, void *val, socklen_t *len)
{
	if (*len > sizeof(value))
		*len = sizeof(value);
	memcpy(val, &value, *len);
}

/* SO_ERROR. An error that has been taken cannot be put back, so the kernel is asked for
 * something else first: where it has written, the app's pointers are good. */
static int take_error(struct rr_conn *c, int fd, void *val, socklen_t *len)
{
	int err;

	if (rr_real.getsockopt(fd, SOL_SOCKET, SO_TYPE, val, len))
		return -1;
	err = rr_conn_take_error(c, fd);
	if (err == RR_CONN_KERNEL)
		return rr_real.getsockopt(fd, SOL_SOCKET, SO_ERROR, val, len);
	give_int(err < 0 ? -err : err, val, len);
	return 0;
}

/* Can the answer, of so many bytes, be written where the app wants it, without the kernel? It
 * takes a length for a signed one. */
static bool may_give(const void *to, const socklen_t *len, socklen_t size)
{
	return rr_appmem_is_on_stack(len, sizeof(*len)) && *len >= size && *len <= INT_MAX &&
	       rr_appmem_is_on_stack(to, size);
}

/* SO_TYPE. What is in the fd table was made, or accepted, as a stream. */
static bool give_type(int fd, void *val, socklen_t *len)
{
	struct rr_sock *so = rr_fdt_sock(fd);
	bool may = so && may_give(val, len, sizeof(int)) && rr_sock_check(so, fd);

	if (may)
		give_int(SOCK_STREAM, val, len);
	if (so)
		rr_file_put(&so->f);
	return may;
}

/* SO_ERROR and the options that we use ourselves are answered for the connection. */
static int get_option_at(int fd, int level, int name, void *val, socklen_t *len)
{
	struct rr_sock *so;
	bool error = level == SOL_SOCKET && name == SO_ERROR;
	struct rr_conn *c = rr_conn_at_if(fd, &so, error);
	int rc;

	if (c && error) {
		rc = take_error(c, fd, val, len);
	} else {
		rc = rr_real.getsockopt(fd, level, name, val, len);
		if (c && !rc)
			rr_conn_getopt(c, level, name, val, len);
	}
	if (c)
		rr_file_put(&so->f);
	return rc;
}

/* libtirpc asks for the type of each connection, its server twice. */
int rr_wrap_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	bool type = level == SOL_SOCKET && name == SO_TYPE;

	return type && give_type(fd, val, len) ? 0 : get_option_at(fd, level, name, val, len);
}

/* Is val memory, if we need what is there? The kernel says what is wrong if it is not. */
static bool is_memory_if_needed(int level, int name, const void *val)
{
	return level != SOL_SOCKET || name != SO_RCVLOWAT ||
	       rr_appmem_readable(RR_PIECE(val, sizeof(int)), 1);
}

int rr_wrap_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	struct rr_sock *so;
	struct rr_conn *c = val ? rr_conn_at_if(fd, &so, level == SOL_SOCKET) : NULL;
	int r, saved = errno;

	if (c) {
		/* Zero-copy notifications come from the kernel alone. */
		if (level == SOL_SOCKET && name == SO_ZEROCOPY && !rr_conn_let_go(c)) {
			rr_file_put(&so->f);
			return (int)rr_ret(-EOPNOTSUPP);
		}
		errno = saved;
		r = is_memory_if_needed(level, name, val) &&
		    rr_conn_setopt(c, level, name, val, len) ? 0 :
		    rr_real.setsockopt(fd, level, name, val, len);
		if (!r)
			rr_conn_opt_set(c, fd, level, name);
		rr_sock_after(so, c);
		rr_file_put(&so->f);
		return r;
	}
	return rr_real.setsockopt(fd, level, name, val, len);
}

/* The socket at fd, with a reference, if core/conn knows its names or wants to; NULL: not, or
 * another file has the number by now. */
static struct rr_sock *named_at(int fd)
{
	struct rr_sock *so = rr_fdt_sock(fd);

	if (!so || ((rr_unmet_is(so) || rr_sock_conn(so)) && rr_sock_check(so, fd)))
		return so;
	rr_file_put(&so->f);
	return NULL;
}

/* getsockname() of so, whose own address the kernel has told before: it stays the same while it
 * is connected. */
static bool give_name(struct rr_sock *so, struct sockaddr *addr, socklen_t *len)
{
	struct sockaddr_in6 own;
	socklen_t n = rr_unmet_is(so) ? rr_unmet_name(so, &own) : 0;

	if (!n || !may_give(addr, len, n))
		return false;
	memcpy(addr, &own, n);
	*len = n;
	return true;
}

/* getsockname(), or getpeername() with peer. The kernel knows a native connection by loopback
 * addresses only, so core/conn answers for it. For any other connection core/conn keeps what
 * the kernel has said, to tell the peer (it may be behind a proxy). */
static int get_name(int fd, bool peer, struct sockaddr *addr, socklen_t *len)
{
	bool wants = addr && rr_fdt_has(fd) && !rr_bad_ptr(len);
	struct rr_sock *so = wants ? named_at(fd) : NULL;
	struct rr_conn *c = so ? rr_sock_conn(so) : NULL;
	socklen_t room = so ? *len : 0;
	bool given = c ? rr_conn_name(c, peer, addr, len) :
			 so && !peer && give_name(so, addr, len);
	int rc = 0;

	if (!given)
		rc = (peer ? rr_real.getpeername : rr_real.getsockname)(fd, addr, len);
	if (so && !rc && *len <= room)
		rr_sock_hears(so, peer, addr, *len);
	if (so)
		rr_file_put(&so->f);
	return rc;
}

int rr_wrap_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	return get_name(fd, false, addr, len);
}

int rr_wrap_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	return get_name(fd, true, addr, len);
}
