/* SPDX-License-Identifier: BSD-3-Clause */
/* The data calls by their names. Whatever a call's name, it becomes an iovec array for the
 * connection (rr_io_recv(), rr_io_send()), which most often can serve it at once; if not,
 * further.c goes on. What the connection does not want goes to libc's function unchanged, and
 * without a reference held: that is where threads are cancelled. */

#include "preload/io.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/diag.h"
#include "core/base/iov.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "preload/appmem.h"
#include "preload/further.h"
#include "preload/looks.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/wrap.h"

/* --- what they become --- */

/* Returns how many bytes the pieces have; or the -errno by which the kernel refuses them before
 * it looks at the socket's data. */
static inline ssize_t vet(const struct iovec *iov, int n)
{
	size_t sum = 0;

	if (n && rr_bad_ptr(iov))
		return -EFAULT;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len && rr_bad_ptr(iov[i].iov_base))
			return -EFAULT;
		if (iov[i].iov_len > SSIZE_MAX - sum)
			return -EINVAL;
		sum += iov[i].iov_len;
	}
	return (ssize_t)sum;
}

ssize_t rr_io_recv(int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_sock *so;
	struct rr_conn *c;
	int saved = errno;
	ssize_t r, want;

	if (flags & (MSG_OOB | MSG_ERRQUEUE))
		return RR_CONN_KERNEL;
	pthread_testcancel();	/* as libc's: even if there is no need to wait */
	if (rr_unmet_any() && rr_unmet_recv(fd, iov, n, flags, &r))
		return r;
	c = rr_conn_at(fd, &so);
	if (!c)
		return RR_CONN_KERNEL;
	r = want = flags & MSG_TRUNC ? (ssize_t)rr_iov_total(iov, n) : vet(iov, n);
	if (want >= 0) {
		r = unlikely(flags & MSG_TRUNC) ?
			    rr_further_discard(so, c, fd, (size_t)want, flags & ~MSG_WAITALL) :
			    rr_conn_recv(c, fd, iov, n, flags & ~MSG_WAITALL);
		rr_sock_after(so, c);
		if (unlikely(r <= 0 || (flags & MSG_WAITALL && r < want)))
			r = rr_further_recv(so, c, fd, rr_iov_begin(iov, n, (size_t)want),
					    flags, r);
	}
	if (r < want && (r >= 0 || r == -EAGAIN))
		rr_sock_dry(so, POLLIN);
	rr_file_put(&so->f);
	errno = saved;
	return r;
}

/* A write with these flags came to r: raises SIGPIPE in this thread where the kernel does. */
static void sigpipe_if(ssize_t r, int flags)
{
	if (r == -EPIPE && !(flags & MSG_NOSIGNAL))
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGPIPE);
}

/* Urgent data has no place among RPC records, and the peer's library would take it for bytes of
 * ours on the anchor. */
static ssize_t refuse_urgent(struct rr_conn *c, int fd)
{
	bool free = rr_conn_let_go(c);

	if (!free)
		rr_diag("send of urgent data: EOPNOTSUPP", fd);
	return free ? RR_CONN_KERNEL : -EOPNOTSUPP;
}

ssize_t rr_io_send(int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_sock *so;
	struct rr_conn *c;
	int saved = errno;
	ssize_t r = 0, want;

	pthread_testcancel();
	if (rr_unmet_any() && rr_unmet_send(fd, iov, n, flags, &r)) {
		sigpipe_if(r, flags);
		errno = saved;
		return r;
	}
	c = rr_conn_at(fd, &so);
	if (!c)
		return r ? r : RR_CONN_KERNEL;
	want = vet(iov, n);
	if (want < 0) {
		r = want;
	} else {
		if (!r)
			r = unlikely(flags & MSG_OOB) ? refuse_urgent(c, fd) :
							rr_conn_send(c, fd, iov, n, flags);
		rr_sock_after(so, c);
		if (unlikely(r != want))
			r = rr_further_send(so, c, fd, rr_iov_begin(iov, n, (size_t)want),
					    flags, r);
		if (unlikely(rr_conn_is_within(c)))
			rr_looks_forget();
	}
	if (r < want && (r >= 0 || r == -EAGAIN))
		rr_sock_dry(so, POLLOUT);
	rr_file_put(&so->f);
	sigpipe_if(r, flags);
	errno = saved;
	return r;
}

/* --- read, write and their vectors --- */

/* The libraries of rdma-core call read() and write() for their devices and channels, which are
 * descriptors of ours. They do so under a connection's lock, so they must not be cancelled
 * there: the system call itself is no cancellation point. */
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
	    (r = rr_io_recv(fd, RR_PIECE(buf, n), 1, 0)) == RR_CONN_KERNEL)
		return kernel_read(fd, buf, n);
	return rr_ret(r);
}

ssize_t rr_wrap_write(int fd, const void *buf, size_t n)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) ||
	    (r = rr_io_send(fd, RR_PIECE(buf, n), 1, 0)) == RR_CONN_KERNEL)
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
	    (r = rr_io_recv(fd, iov, n, 0)) == RR_CONN_KERNEL)
		return rr_real.readv(fd, iov, n);
	return rr_ret(r);
}

/* writev() of no bytes is 0 at once, unlike write(). */
ssize_t rr_wrap_writev(int fd, const struct iovec *iov, int n)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) || empty(iov, n) ||
	    (r = rr_io_send(fd, iov, n, 0)) == RR_CONN_KERNEL)
		return rr_real.writev(fd, iov, n);
	return rr_ret(r);
}

/* At offset -1 preadv2() and pwritev2() are readv() and writev(); at any other a socket has
 * ESPIPE. RWF_NOWAIT is MSG_DONTWAIT; the other known flags mean nothing to a socket. Returns
 * the flags as those of recv() and send(); -1: the call is the kernel's. */
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

	return how < 0 ? RR_CONN_KERNEL : rr_io_recv(fd, iov, n, how);
}

static ssize_t send_vector(int fd, const struct iovec *iov, int n, off64_t off, int flags)
{
	int how = vector_flags(fd, iov, n, off, flags);

	return how < 0 ? RR_CONN_KERNEL : rr_io_send(fd, iov, n, how);
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
	    (r = rr_io_recv(fd, RR_PIECE(buf, n), 1, flags)) == RR_CONN_KERNEL)
		return rr_real.recv(fd, buf, n, flags);
	return rr_ret(r);
}

ssize_t rr_wrap_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr,
			 socklen_t *len)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) ||
	    (r = rr_io_recv(fd, RR_PIECE(buf, n), 1, flags)) == RR_CONN_KERNEL)
		return rr_real.recvfrom(fd, buf, n, flags, addr, len);
	if (r >= 0 && addr && len)
		*len = 0;	/* TCP names nobody */
	return rr_ret(r);
}

/* Fills in what a received message says beside its bytes: TCP has no name and no control
 * data. */
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
	r = rr_io_recv(fd, msg->msg_iov, (int)msg->msg_iovlen, flags);
	if (r >= 0)
		no_ancillary(msg, flags);
	return r;
}

static ssize_t send_msg(int fd, const struct msghdr *msg, int flags)
{
	if (rr_bad_ptr(msg) || msg->msg_iovlen > IOV_MAX)
		return RR_CONN_KERNEL;
	return rr_io_send(fd, msg->msg_iov, (int)msg->msg_iovlen, flags);
}

ssize_t rr_wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) || (r = recv_msg(fd, msg, flags)) == RR_CONN_KERNEL)
		return rr_real.recvmsg(fd, msg, flags);
	return rr_ret(r);
}

/* The connection has become TCP's between two messages: returns how many of the others the
 * kernel gives. An error of the socket is left for the next call. */
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

/* Receives up to n messages, and no further one once it is later than `end`. Returns their
 * number; if there is none, as recv_msg(). */
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

/* As the kernel does, this looks at the socket's error before all messages, and at the time-out
 * only between two of them. */
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
	    (r = rr_io_send(fd, RR_PIECE(buf, n), 1, flags)) == RR_CONN_KERNEL)
		return rr_real.send(fd, buf, n, flags);
	return rr_ret(r);
}

/* On a connected TCP socket the kernel does not look at the address. */
ssize_t rr_wrap_sendto(int fd, const void *buf, size_t n, int flags,
		       const struct sockaddr *addr, socklen_t len)
{
	ssize_t r;

	if (likely(!rr_fdt_has(fd)) ||
	    (r = rr_io_send(fd, RR_PIECE(buf, n), 1, flags)) == RR_CONN_KERNEL)
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

/* As kernels_messages(). An error that comes after a message was sent is not reported, as in
 * the kernel. */
static int kernel_sends(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	int saved = errno, r = rr_real.sendmmsg(fd, msgs, n, flags);

	errno = saved;
	return rr_max(r, 0);
}

/* Stops after a message that was sent only in part, because its rest must go before the next
 * one. */
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
