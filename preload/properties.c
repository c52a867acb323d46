/* SPDX-License-Identifier: BSD-3-Clause */
/* Options, names and other properties of an fd: fcntl(), ioctl(), getsockopt(), setsockopt(),
 * getsockname(), getpeername(). The kernel answers almost all of them, since the fd is its TCP
 * socket; this file adds what the kernel cannot know of a carried or native connection. */

#include "preload/wrap.h"

#include <string.h>

#include "preload/guard.h"
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

int rr_wrap_ioctl(int fd, unsigned long cmd, void *arg)
{
	struct rr_sock *so;
	struct rr_conn *c;
	int n;

	if (cmd == FIONREAD && arg && (c = rr_conn_at(fd, &so))) {
		n = rr_conn_inq(c, fd);
		rr_sock_after(so, c);
		rr_file_put(&so->f);
		if (n == -EDEADLK)
			n = 0;	/* a signal handler within a call on fd: no bytes, as poll()
				 * says too */
		if (n >= 0) {
			memcpy(arg, &n, sizeof(n));	/* Python passes a buffer that is not
							 * aligned */
			return 0;
		}
		if (n != RR_CONN_KERNEL)
			return (int)rr_ret(n);
	}
	return rr_real.ioctl(fd, cmd, arg);
}

/* Stores an int as the kernel does in a buffer of *len bytes: cut, if that is smaller. */
static void give_int(int value, void *val, socklen_t *len)
{
	if (*len > sizeof(value))
		*len = sizeof(value);
	memcpy(val, &value, *len);
}

/* SO_ERROR and the options that we use ourselves are answered for the connection. */
int rr_wrap_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct rr_sock *so;
	struct rr_conn *c = val && len && (int)*len >= 0 ? rr_conn_at(fd, &so) : NULL;
	bool ours = false;
	int err;

	if (c) {
		if (level == SOL_SOCKET && name == SO_ERROR) {
			err = rr_conn_take_error(c, fd);
			ours = err != RR_CONN_KERNEL;
			if (ours)
				give_int(err < 0 ? -err : err, val, len);
		} else
			ours = rr_conn_getopt(c, level, name, val, len);
		rr_file_put(&so->f);
	}
	return ours ? 0 : rr_real.getsockopt(fd, level, name, val, len);
}

int rr_wrap_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	struct rr_sock *so;
	struct rr_conn *c = val ? rr_conn_at(fd, &so) : NULL;
	int r;

	if (c) {
		/* Zero-copy notifications come from the kernel alone. */
		if (level == SOL_SOCKET && name == SO_ZEROCOPY && !rr_conn_let_go(c)) {
			rr_file_put(&so->f);
			return (int)rr_ret(-EOPNOTSUPP);
		}
		r = rr_conn_setopt(c, level, name, val, len) ? 0 :
		    rr_real.setsockopt(fd, level, name, val, len);
		if (!r)
			rr_conn_opt_set(c, fd, level, name);
		rr_sock_after(so, c);
		rr_file_put(&so->f);
		return r;
	}
	return rr_real.setsockopt(fd, level, name, val, len);
}

/* getsockname(), or getpeername() with peer. The kernel knows a native connection by loopback
 * addresses only, so core/conn answers for it. For any other connection core/conn keeps what
 * the kernel has said, to tell the peer (it may be behind a proxy). */
static int get_name(int fd, bool peer, struct sockaddr *addr, socklen_t *len)
{
	struct rr_sock *so;
	struct rr_conn *c = addr && len ? rr_conn_at(fd, &so) : NULL;
	socklen_t room = c ? *len : 0;
	int rc = 0;

	if (!c || !rr_conn_name(c, peer, addr, len))
		rc = (peer ? rr_real.getpeername : rr_real.getsockname)(fd, addr, len);
	if (!c)
		return rc;
	if (!rc && *len <= room)
		rr_conn_named(c, peer, addr, *len);
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
