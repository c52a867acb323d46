/* SPDX-License-Identifier: BSD-3-Clause */
/* The data calls by their names: each is rr_data_recv() or rr_data_send(), or libc's. */

#include "preload/wrap.h"

#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/diag.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "preload/data.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/sock.h"

/* One buffer, as the pieces that the data calls take. */
#define PIECE(buf, n)	(&(struct iovec){ (void *)(uintptr_t)(buf), (n) })

/* --- read, write and their vectors --- */

/* By read() and write() the libraries of rdma-core reach their devices and channels, under a
 * connection's lock: no place to be cancelled at. */
static ssize_t kernel_read(int fd, void *buf, size_t n)
{
	return unlikely(rr_ownfd_is(fd)) ? syscall(SYS_read, fd, buf, n) :
	       rr_real.read(fd, buf, n);
}

static ssize_t kernel_write(int fd, const void *buf, size_t n)
{
	rr_refused_fn *refused;
	ssize_t r = unlikely(rr_ownfd_is(fd)) ? syscall(SYS_write, fd, buf, n) :
		    rr_real.write(fd, buf, n);

	if (likely(r >= 0) || errno != EACCES || !(refused = rr_refused))
		return r;
	return refused(fd, buf, n);
}

/* read() of no bytes is 0 at once, unlike recv(). */
ssize_t rr_wrap_read(int fd, void *buf, size_t n)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) || !n ||
	    (r = rr_data_recv(fd, PIECE(buf, n), 1, 0)) == RR_CONN_KERNEL)
		return kernel_read(fd, buf, n);
	return rr_ret(r);
}

ssize_t rr_wrap_write(int fd, const void *buf, size_t n)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) ||
	    (r = rr_data_send(fd, PIECE(buf, n), 1, 0)) == RR_CONN_KERNEL)
		return kernel_write(fd, buf, n);
	return rr_ret(r);
}

static bool empty(const struct iovec *iov, int n)
{
	for (int i = 0; !rr_bad_ptr(iov) && i < n && n <= IOV_MAX; i++)
		if (iov[i].iov_len)
			return false;
	return true;
}

ssize_t rr_wrap_readv(int fd, const struct iovec *iov, int n)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) || empty(iov, n) ||
	    (r = rr_data_recv(fd, iov, n, 0)) == RR_CONN_KERNEL)
		return rr_real.readv(fd, iov, n);
	return rr_ret(r);
}

/* Of no bytes it is 0 at once, unlike write(). */
ssize_t rr_wrap_writev(int fd, const struct iovec *iov, int n)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) || empty(iov, n) ||
	    (r = rr_data_send(fd, iov, n, 0)) == RR_CONN_KERNEL)
		return rr_real.writev(fd, iov, n);
	return rr_ret(r);
}

/* At offset -1 these are readv() and writev(); at any other a socket has ESPIPE. RWF_NOWAIT is
 * MSG_DONTWAIT; the other flags that it takes say nothing to a socket. The flags for a message;
 * -1: it is the kernel's. */
static int vector_flags(int fd, const struct iovec *iov, int n, off64_t off, int flags)
{
	const int known = RWF_NOWAIT | RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND;

	if (likely(!rr_fdt_has(fd)) || off != -1 || flags & ~known || empty(iov, n))
		return -1;
	return flags & RWF_NOWAIT ? MSG_DONTWAIT : 0;
}

static ssize_t recv_vector(int fd, const struct iovec *iov, int n, off64_t off, int flags)
{
	int how = vector_flags(fd, iov, n, off, flags);

	return how < 0 ? RR_CONN_KERNEL : rr_data_recv(fd, iov, n, how);
}

static ssize_t send_vector(int fd, const struct iovec *iov, int n, off64_t off, int flags)
{
	int how = vector_flags(fd, iov, n, off, flags);

	return how < 0 ? RR_CONN_KERNEL : rr_data_send(fd, iov, n, how);
}

ssize_t rr_wrap_preadv2(int fd, const struct iovec *iov, int n, __off_t off, int flags)
{
	ssize_t r = recv_vector(fd, iov, n, off, flags);

	return r == RR_CONN_KERNEL ? rr_real.preadv2(fd, iov, n, off, flags) : rr_ret(r);
}

ssize_t rr_wrap_preadv64v2(int fd, const struct iovec *iov, int n, off64_t off, int flags)
{
	ssize_t r = recv_vector(fd, iov, n, off, flags);

	return r == RR_CONN_KERNEL ? rr_real.preadv64v2(fd, iov, n, off, flags) : rr_ret(r);
}

ssize_t rr_wrap_pwritev2(int fd, const struct iovec *iov, int n, __off_t off, int flags)
{
	ssize_t r = send_vector(fd, iov, n, off, flags);

	return r == RR_CONN_KERNEL ? rr_real.pwritev2(fd, iov, n, off, flags) : rr_ret(r);
}

ssize_t rr_wrap_pwritev64v2(int fd, const struct iovec *iov, int n, off64_t off, int flags)
{
	ssize_t r = send_vector(fd, iov, n, off, flags);

	return r == RR_CONN_KERNEL ? rr_real.pwritev64v2(fd, iov, n, off, flags) : rr_ret(r);
}

/* --- recv --- */

ssize_t rr_wrap_recv(int fd, void *buf, size_t n, int flags)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) ||
	    (r = rr_data_recv(fd, PIECE(buf, n), 1, flags)) == RR_CONN_KERNEL)
		return rr_real.recv(fd, buf, n, flags);
	return rr_ret(r);
}

ssize_t rr_wrap_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr,
			 socklen_t *len)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) ||
	    (r = rr_data_recv(fd, PIECE(buf, n), 1, flags)) == RR_CONN_KERNEL)
		return rr_real.recvfrom(fd, buf, n, flags, addr, len);
	if (r >= 0 && addr && len)
		*len = 0;	/* TCP names nobody */
	return rr_ret(r);
}

/* What a received message says beside its bytes: TCP has no name and no control data. */
static void no_ancillary(struct msghdr *msg, int flags)
{
	if (msg->msg_name)
		msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
}

static ssize_t recv_msg(int fd, struct msghdr *msg, int flags)
{
	ssize_t r;

	if (rr_bad_ptr(msg) || msg->msg_iovlen > IOV_MAX)
		return RR_CONN_KERNEL;
	r = rr_data_recv(fd, msg->msg_iov, (int)msg->msg_iovlen, flags);
	if (r >= 0)
		no_ancillary(msg, flags);
	return r;
}

static ssize_t send_msg(int fd, const struct msghdr *msg, int flags)
{
	if (rr_bad_ptr(msg) || msg->msg_iovlen > IOV_MAX)
		return RR_CONN_KERNEL;
	return rr_data_send(fd, msg->msg_iov, (int)msg->msg_iovlen, flags);
}

ssize_t rr_wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) || (r = recv_msg(fd, msg, flags)) == RR_CONN_KERNEL)
		return rr_real.recvmsg(fd, msg, flags);
	return rr_ret(r);
}

/* The connection has become TCP's between two messages: what the kernel gives of the rest. An
 * error of the socket is the next call's. */
static ssize_t kernels_messages(int fd, struct mmsghdr *msgs, unsigned n, int flags,
				rr_time end)
{
	struct pollfd p = { fd, 0, 0 };
	struct timespec ts;
	int r = 0, saved = errno;

	if (rr_real.poll(&p, 1, 0) <= 0 || !(p.revents & POLLERR))
		r = rr_real.recvmmsg(fd, msgs, n, flags, rr_left(&ts, rr_now(), end));
	errno = saved;
	return rr_max(r, 0);
}

/* Up to n messages, and after one none once it is past end: their number, or as recv_msg(). */
static ssize_t recv_msgs(int fd, struct mmsghdr *msgs, unsigned n, int flags, rr_time end)
{
	int one = flags & ~MSG_WAITFORONE;
	unsigned i;

	for (i = 0; i < n && i < IOV_MAX; i++) {
		ssize_t r = recv_msg(fd, &msgs[i].msg_hdr, one);

		if (r == RR_CONN_KERNEL && i)
			return i + kernels_messages(fd, msgs + i, n - i, one, end);
		if (r < 0)
			return i ? (ssize_t)i : r;
		msgs[i].msg_len = (unsigned)r;
		if (flags & MSG_WAITFORONE)
			one |= MSG_DONTWAIT;
		if (end != RR_TIME_NEVER && rr_now() >= end)
			return i + 1;
	}
	return (ssize_t)i;
}

/* The kernel looks at the time-out only between messages, and so does this; and at the socket's
 * error before all of them. */
int rr_wrap_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags,
		     struct timespec *timeout)
{
	struct rr_sock *so;
	struct rr_conn *c;
	rr_time end;
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) ||
	    (timeout && (rr_bad_ptr(timeout) || !rr_timespec_ok(timeout))) ||
	    !(c = rr_conn_at(fd, &so)))
		return rr_real.recvmmsg(fd, msgs, n, flags, timeout);
	r = rr_conn_take_error(c, fd);
	rr_file_put(&so->f);
	if (r && r != RR_CONN_KERNEL)
		return (int)rr_ret(r < 0 ? r : -r);
	end = rr_deadline(timeout);
	r = recv_msgs(fd, msgs, n, flags, end);
	if (r == RR_CONN_KERNEL)
		return rr_real.recvmmsg(fd, msgs, n, flags, timeout);
	if (timeout && r > 0)
		rr_left(timeout, rr_now(), end);
	return (int)rr_ret(r);
}

/* --- send --- */

ssize_t rr_wrap_send(int fd, const void *buf, size_t n, int flags)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) ||
	    (r = rr_data_send(fd, PIECE(buf, n), 1, flags)) == RR_CONN_KERNEL)
		return rr_real.send(fd, buf, n, flags);
	return rr_ret(r);
}

/* On a connected TCP socket the kernel does not look at the address. */
ssize_t rr_wrap_sendto(int fd, const void *buf, size_t n, int flags,
		       const struct sockaddr *addr, socklen_t len)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) ||
	    (r = rr_data_send(fd, PIECE(buf, n), 1, flags)) == RR_CONN_KERNEL)
		return rr_real.sendto(fd, buf, n, flags, addr, len);
	return rr_ret(r);
}

ssize_t rr_wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) || (r = send_msg(fd, msg, flags)) == RR_CONN_KERNEL)
		return rr_real.sendmsg(fd, msg, flags);
	return rr_ret(r);
}

static size_t length(const struct msghdr *msg)
{
	size_t sum = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++)
		sum += msg->msg_iov[i].iov_len;
	return sum;
}

/* As kernels_messages(). What fails behind a message that was sent nobody hears of, as in the
 * kernel. */
static int kernel_sends(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	int saved = errno, r = rr_real.sendmmsg(fd, msgs, n, flags);

	errno = saved;
	return rr_max(r, 0);
}

/* Behind a message that was sent in part comes its rest, and so nothing more now. */
int rr_wrap_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	struct rr_sock *so;
	unsigned i;
	ssize_t r = 0;

	if (likely(!rr_conn_at(fd, &so)))
		goto kernel;
	rr_file_put(&so->f);
	for (i = 0; i < n && i < IOV_MAX; i++) {
		r = send_msg(fd, &msgs[i].msg_hdr, flags);
		if (r < 0)
			break;
		msgs[i].msg_len = (unsigned)r;
		if ((size_t)r < length(&msgs[i].msg_hdr)) {
			i++;
			break;
		}
	}
	if (r == RR_CONN_KERNEL && i)
		return (int)i + kernel_sends(fd, msgs + i, n - i, flags);
	if (i || n == 0)
		return (int)i;
	if (r != RR_CONN_KERNEL)
		return (int)rr_ret(r);
kernel:
	return rr_real.sendmmsg(fd, msgs, n, flags);
}

/* --- files to sockets --- */

enum { COPY = 4096, COPY_LITTLE = 512 };	/* of the caller's stack, which may be
						 * PTHREAD_STACK_MIN */

/* sendfile() to a connection: a copy loop. Only as much of the file is consumed as was sent. */
static ssize_t copy_file(int out, int in, off64_t *off, size_t n)
{
	off64_t at = off ? *off : rr_real.lseek64(in, 0, SEEK_CUR);
	size_t room = rr_fits_stack(COPY) ? COPY : COPY_LITTLE, done = 0;
	ssize_t r = 0, want;
	char buf[room];

	if (at < 0)
		return -EINVAL;		/* not a file */
	while (done < n) {
		want = pread64(in, buf, rr_min(n - done, room), at);
		if (want <= 0) {
			r = want < 0 ? (errno == ESPIPE ? -EINVAL : -errno) : 0;
			break;
		}
		r = rr_data_send(out, PIECE(buf, (size_t)want), 1, 0);
		if (r <= 0)
			break;
		done += (size_t)r;
		at += r;
		if (r < want)
			break;
	}
	if (!done)
		return r;
	if (off)
		*off = at;
	else
		rr_real.lseek64(in, at, SEEK_SET);
	return (ssize_t)done;
}

/* RR_CONN_KERNEL: it is the kernel's. */
static ssize_t send_file(int out, int in, off64_t *off, size_t n)
{
	struct rr_sock *so;
	int saved = errno;
	ssize_t r;

	if (likely(!rr_conn_at(out, &so)))
		return RR_CONN_KERNEL;
	rr_file_put(&so->f);
	r = copy_file(out, in, off, n);
	errno = saved;
	return r;
}

ssize_t rr_wrap_sendfile64(int out, int in, off64_t *off, size_t n)
{
	ssize_t r = send_file(out, in, off, n);

	return r == RR_CONN_KERNEL ? rr_real.sendfile64(out, in, off, n) : rr_ret(r);
}

ssize_t rr_wrap_sendfile(int out, int in, __off_t *off, size_t n)
{
	off64_t wide = off ? *off : 0;
	ssize_t r = send_file(out, in, off ? &wide : NULL, n);

	if (r == RR_CONN_KERNEL)
		return rr_real.sendfile(out, in, off, n);
	if (off)
		*off = (__off_t)wide;
	return rr_ret(r);
}

/* A carried connection cannot be spliced, as many files cannot: EINVAL, and callers copy. Nor
 * one whose upgrade is under way. With one of which nothing was said yet the kernel can do so
 * for ever. True: make the call. */
static bool may_splice(int fd)
{
	struct rr_sock *so;
	struct rr_conn *c = rr_conn_at(fd, &so);
	bool free;

	if (likely(!c))
		return true;
	free = rr_conn_let_go(c);
	rr_sock_after(so, c);
	rr_diag(free ? "splice: TCP from here on" : "splice: EINVAL", fd);
	rr_file_put(&so->f);
	return free;
}

ssize_t rr_wrap_splice(int in, off64_t *in_off, int out, off64_t *out_off, size_t n,
		       unsigned flags)
{
	if (!may_splice(in) || !may_splice(out))
		return rr_ret(-EINVAL);
	return rr_real.splice(in, in_off, out, out_off, n, flags);
}

/* A socket has ESPIPE, carried or not. */
__off_t rr_wrap_lseek(int fd, __off_t off, int whence)
{
	return rr_real.lseek(fd, off, whence);
}

off64_t rr_wrap_lseek64(int fd, off64_t off, int whence)
{
	return rr_real.lseek64(fd, off, whence);
}
