/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and writing. Whatever the call's name, it becomes an iovec array for the connection;
 * what the connection does not want goes to libc's function unchanged, and without a reference
 * held: that is where threads are cancelled. */

#include "preload/data.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>

#include "core/base/diag.h"
#include "core/base/iov.h"
#include "core/base/os.h"
#include "preload/appmem.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/wrap.h"

/* --- iovecs --- */

enum { CUT = 4 };	/* pieces of a rest that begins within one, on the caller's stack */

/* How many bytes they are, or what the kernel would refuse before it looks at the socket's
 * data. */
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

/* --- waiting --- */

static void put_file(void *f)
{
	rr_file_put(f);
}

/* May this call sleep? And until when? Asked only when it is about to. */
static bool may_block(int fd, int flags)
{
	return !(flags & MSG_DONTWAIT) && rr_wait_allowed(fd);
}

/* One call's patience. until: 0 not yet known. */
struct patience {
	bool asked;
	rr_time since, until;
};

/* Counted from when the call began to wait. */
static rr_time patience_end(int fd, int option, rr_time since)
{
	rr_time end = rr_wait_deadline(fd, option);

	return end == RR_TIME_NEVER ? end : end - (rr_now() - since);
}

/* May this call wait at all? Then p->until says how long. */
static bool starts_waiting(int fd, int option, int flags, struct patience *p)
{
	if (!p->asked) {
		if (!may_block(fd, flags))
			return false;
		p->asked = true;
		p->since = rr_now();
	}
	if (!p->until)
		p->until = patience_end(fd, option, p->since);
	return true;
}

static int sleep_a_little(struct rr_sock *so)
{
	int rc;

	pthread_cleanup_push(put_file, &so->f);
	rc = rr_real.poll(NULL, 0, 1) < 0 ? -EINTR : 0;
	pthread_cleanup_pop(0);
	return rc;
}

/* Waits for want. 0 try again; -EAGAIN, -EINTR: that is the call's result. A cancellation
 * point, which drops the caller's reference. Most answers come within a nap, and what long
 * sleeps need to know costs system calls. */
static int wait_for_data(struct rr_sock *so, int fd, unsigned want, int flags,
			 struct patience *p)
{
	int option = want == POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO, rc;

	if (!p->asked) {
		if (!may_block(fd, flags))
			return -EAGAIN;
		p->asked = true;
		p->since = rr_now();
		rc = rr_wait_nap(so, fd, want, option);
		if (rc != -EAGAIN)
			return rc;
	}
	if (!p->until)
		p->until = patience_end(fd, option, p->since);
	if (p->until != RR_TIME_NEVER && rr_now() >= p->until)
		return -EAGAIN;
	if (!rr_file_verify(&so->f, fd))
		return RR_CONN_KERNEL;
	/* If it is cancelled, it gives our reference back itself. */
	return rr_wait_one(so, fd, want, p->until);
}

/* How a call ends that got so many bytes before r: an error after them is the next call's. */
static ssize_t so_far(struct rr_conn *c, size_t got, ssize_t r)
{
	if (got && r < 0 && r != -EAGAIN && r != -EINTR && r != RR_CONN_KERNEL)
		rr_conn_keep_error(c, (int)-r);
	return got ? (ssize_t)got : r;
}

/* The connection's answer to a handler that interrupted a call on it. */
static ssize_t reentered(int fd, int flags)
{
	return may_block(fd, flags) ? -EINTR : -EAGAIN;
}

/* --- receiving --- */

static ssize_t recv_once(struct rr_sock *so, struct rr_conn *c, int fd, struct rr_iov *at,
			 int flags)
{
	struct iovec room[CUT];
	int n;
	const struct iovec *iov = rr_iov_rest(at, room, CUT, &n);
	ssize_t r = rr_conn_recv(c, fd, iov, n, flags);

	rr_sock_after(so, c);
	return r;
}

/* MSG_TRUNC with MSG_PEEK: how many bytes there are, want at most. */
static ssize_t recv_would_discard(struct rr_sock *so, struct rr_conn *c, int fd, size_t want,
				  int flags)
{
	char one;
	struct iovec iov = { &one, rr_min(want, sizeof(one)) };
	ssize_t r = rr_conn_recv(c, fd, &iov, 1, flags & ~MSG_TRUNC);
	int inq = r > 0 ? rr_conn_inq(c, fd) : 0;

	rr_sock_after(so, c);
	return inq > 0 ? (ssize_t)rr_min(want, (size_t)inq) : r;
}

static int queued(int fd)
{
	int n = 0;

	return rr_real.ioctl(fd, FIONREAD, &n) ? 0 : n;
}

static ssize_t discard_rest(int fd, size_t n, int flags)
{
	int saved = errno;
	ssize_t r = queued(fd) ? rr_real.recv(fd, NULL, n, flags | MSG_DONTWAIT) : 0;

	errno = saved;
	return rr_max(r, (ssize_t)0);
}

/* MSG_TRUNC: TCP throws the bytes away instead of copying them. */
static ssize_t recv_discard(struct rr_sock *so, struct rr_conn *c, int fd, size_t want,
			    int flags)
{
	char scratch[1024];
	size_t got = 0;
	ssize_t r;

	if (flags & MSG_PEEK)
		return recv_would_discard(so, c, fd, want, flags);
	do {
		struct iovec iov = { scratch, rr_min(sizeof(scratch), want - got) };

		r = rr_conn_recv(c, fd, &iov, 1, flags & ~MSG_TRUNC);
		rr_sock_after(so, c);
		if (r == RR_CONN_KERNEL && got)	/* TCP's from here on; what fails is the next
						 * call's */
			r = discard_rest(fd, want - got, flags);
		if (r > 0)
			got += (size_t)r;
	} while (r > 0 && got < want);
	return so_far(c, got, r);
}

/* Are there no more bytes to come than are there? */
static bool no_more_comes(struct rr_conn *c, int fd)
{
	struct pollfd p = { fd, POLLRDHUP, 0 };
	int bits = rr_conn_poll(c, fd, POLLIN | POLLRDHUP);

	if (bits == RR_CONN_KERNEL)
		bits = rr_real.poll(&p, 1, 0) > 0 ? (unsigned short)p.revents : 0;
	return bits > 0 && bits & (POLLRDHUP | POLLHUP | POLLERR);
}

/* MSG_PEEK with MSG_WAITALL: until that much is there. The bytes stay, so POLLIN is no news:
 * looked at again every millisecond. */
static bool peek_more(struct rr_sock *so, struct rr_conn *c, int fd, size_t want, ssize_t have,
		      int flags, struct patience *p)
{
	int inq;

	if (have <= 0 || (size_t)have >= want)
		return false;
	if (!starts_waiting(fd, SO_RCVTIMEO, flags, p))
		return false;
	inq = rr_conn_inq(c, fd);
	if (inq < 0 || no_more_comes(c, fd))
		return false;
	return inq > have || (rr_now() < p->until && !sleep_a_little(so));
}

static ssize_t recv_some(struct rr_sock *so, struct rr_conn *c, int fd, struct rr_iov *at,
			 int flags)
{
	if (flags & MSG_TRUNC)
		return recv_discard(so, c, fd, at->left, flags);
	return recv_once(so, c, fd, at, flags);
}

/* What is left at the cursor, for the kernel. */
static struct msghdr rest_of(const struct rr_iov *at, struct iovec room[CUT])
{
	int n;
	const struct iovec *iov = rr_iov_rest(at, room, CUT, &n);

	return (struct msghdr){ .msg_iov = (struct iovec *)(uintptr_t)iov,
				.msg_iovlen = (size_t)n };
}

/* The connection went back to TCP in the middle of a call that has got something: what the
 * kernel takes or gives of the rest; 0 or -errno end the call. An error of the socket is the
 * next call's, as if the kernel had made all of this one, and poll() leaves it there. */
static ssize_t send_rest(struct rr_sock *so, int fd, struct rr_iov *at, int flags)
{
	struct iovec room[CUT];
	struct msghdr msg = rest_of(at, room);
	struct pollfd p = { fd, 0, 0 };
	ssize_t r = 0;

	if (rr_real.poll(&p, 1, 0) > 0 && p.revents & POLLERR)
		return 0;
	pthread_cleanup_push(put_file, &so->f);
	r = rr_real.sendmsg(fd, &msg, flags);
	pthread_cleanup_pop(0);
	return r < 0 ? -errno : r;
}

static ssize_t recv_rest(struct rr_sock *so, int fd, struct rr_iov *at, int flags,
			 struct patience *patience)
{
	bool waits = starts_waiting(fd, SO_RCVTIMEO, flags, patience);
	struct iovec room[CUT];
	struct msghdr msg = rest_of(at, room);
	struct pollfd p = { fd, POLLIN, 0 };
	struct timespec ts;
	ssize_t r;
	int k;

	pthread_cleanup_push(put_file, &so->f);
	k = rr_real.ppoll(&p, 1, rr_left(&ts, rr_now(), waits ? patience->until : 0), NULL);
	pthread_cleanup_pop(0);
	if (k < 0)
		return -errno;
	if ((!k || p.revents & POLLERR) && !queued(fd))
		return 0;
	r = rr_real.recvmsg(fd, &msg, (flags & ~MSG_WAITALL) | MSG_DONTWAIT);
	return r < 0 ? -errno : r;
}

/* A receive to whose first attempt the connection has said r: goes on with it. */
static RR_NOINLINE ssize_t receive_further(struct rr_sock *so, struct rr_conn *c, int fd,
					   struct rr_iov at, int flags, ssize_t r)
{
	size_t want = at.left, got = 0;
	struct patience p = { 0 };
	bool all = (flags & (MSG_WAITALL | MSG_PEEK)) == MSG_WAITALL, back = false;

	for (;; r = back ? recv_rest(so, fd, &at, flags, &p) :
			   recv_some(so, c, fd, &at, flags & ~MSG_WAITALL)) {
		if (r == -EDEADLK)
			r = reentered(fd, flags);
		if (r == RR_CONN_KERNEL && got) {
			back = true;
			continue;
		}
		if (r == -EAGAIN && !back) {
			r = wait_for_data(so, fd, POLLIN, flags, &p);
			if (!r)
				continue;
			if ((r == RR_CONN_KERNEL && got) || (!want && p.asked))
				r = 0;	/* recv() of no bytes waits, and has them however that
					 * ends */
		} else if (r > 0 && (flags & MSG_PEEK) && (flags & MSG_WAITALL)) {
			if (peek_more(so, c, fd, want, r, flags, &p))
				continue;
		}
		if (r <= 0)
			return so_far(c, got, r);
		got += (size_t)r;
		if (!all || got >= want)
			return (ssize_t)got;
		rr_iov_skip(&at, (size_t)r);
	}
}

ssize_t rr_data_recv(int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_sock *so;
	struct rr_conn *c;
	int saved = errno;
	ssize_t r, want;

	if ((flags & (MSG_OOB | MSG_ERRQUEUE)) || n < 0 || n > IOV_MAX)
		return RR_CONN_KERNEL;
	pthread_testcancel();	/* as libc's: even if there is no need to wait */
	c = rr_conn_at(fd, &so);
	if (!c)
		return RR_CONN_KERNEL;
	r = want = flags & MSG_TRUNC ? (ssize_t)rr_iov_total(iov, n) : vet(iov, n);
	if (want >= 0) {
		r = unlikely(flags & MSG_TRUNC) ?
			    recv_discard(so, c, fd, (size_t)want, flags & ~MSG_WAITALL) :
			    rr_conn_recv(c, fd, iov, n, flags & ~MSG_WAITALL);
		rr_sock_after(so, c);
		if (unlikely(r <= 0 || (flags & MSG_WAITALL && r < want)))
			r = receive_further(so, c, fd, rr_iov_begin(iov, n, (size_t)want),
					    flags, r);
	}
	if (r < want && (r >= 0 || r == -EAGAIN))
		rr_sock_dry(so, POLLIN);
	rr_file_put(&so->f);
	errno = saved;
	return r;
}

/* --- sending --- */

static ssize_t send_once(struct rr_sock *so, struct rr_conn *c, int fd, struct rr_iov *at,
			 int flags)
{
	struct iovec room[CUT];
	int n;
	const struct iovec *iov = rr_iov_rest(at, room, CUT, &n);
	ssize_t r = rr_conn_send(c, fd, iov, n, flags);

	rr_sock_after(so, c);
	return r;
}

/* A send to whose first attempt the connection has said r. A blocking one goes on until
 * everything is written, or something happens. */
static RR_NOINLINE ssize_t send_further(struct rr_sock *so, struct rr_conn *c, int fd,
					struct rr_iov at, int flags, ssize_t r)
{
	size_t want = at.left, got = 0;
	struct patience p = { 0 };
	bool back = false;

	for (;; r = back ? send_rest(so, fd, &at, flags | MSG_NOSIGNAL) :
			   send_once(so, c, fd, &at, flags)) {
		if (r == -EDEADLK)
			r = reentered(fd, flags);
		if (r == RR_CONN_KERNEL && got) {
			back = true;
			continue;
		}
		if (r == -EAGAIN && !back) {
			r = wait_for_data(so, fd, POLLOUT, flags, &p);
			if (!r)
				continue;
			if (r == RR_CONN_KERNEL && got)
				return (ssize_t)got;
		}
		if (r <= 0)
			return so_far(c, got, r);
		got += (size_t)r;
		if (got >= want)
			return (ssize_t)got;
		rr_iov_skip(&at, (size_t)r);
	}
}

/* As the kernel sends it: to this thread. */
static void sigpipe(void)
{
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGPIPE);
}

/* Urgent data has no place among RPC records; on the anchor it would be taken for ours. */
static ssize_t refuse_urgent(struct rr_conn *c, int fd)
{
	bool free = rr_conn_let_go(c);

	if (!free)
		rr_diag("send of urgent data: EOPNOTSUPP", fd);
	return free ? RR_CONN_KERNEL : -EOPNOTSUPP;
}

ssize_t rr_data_send(int fd, const struct iovec *iov, int n, int flags)
{
	struct rr_sock *so;
	struct rr_conn *c;
	int saved = errno;
	ssize_t r, want;

	if (n < 0 || n > IOV_MAX)
		return RR_CONN_KERNEL;
	pthread_testcancel();
	c = rr_conn_at(fd, &so);
	if (!c)
		return RR_CONN_KERNEL;
	r = want = vet(iov, n);
	if (want > 0 && unlikely(rr_conn_sniffs(c)) && !rr_appmem_readable(iov, n))
		r = want = -EFAULT;
	if (want >= 0) {
		r = unlikely(flags & MSG_OOB) ? refuse_urgent(c, fd) :
						rr_conn_send(c, fd, iov, n, flags);
		rr_sock_after(so, c);
		if (unlikely(r != want) && !(flags & MSG_OOB))
			r = send_further(so, c, fd, rr_iov_begin(iov, n, (size_t)want), flags,
					 r);
	}
	if (r < want && (r >= 0 || r == -EAGAIN))
		rr_sock_dry(so, POLLOUT);
	rr_file_put(&so->f);
	if (r == -EPIPE && !(flags & MSG_NOSIGNAL))
		sigpipe();
	errno = saved;
	return r;
}
