/* SPDX-License-Identifier: BSD-3-Clause */
/* What a read or write does that its connection could not serve at once: it waits and tries
 * again, and finishes by TCP if the connection goes back there in the middle of the call. The
 * first attempt is io.c's. */

#include "preload/further.h"

#include <errno.h>
#include <pthread.h>

#include "core/base/os.h"
#include "preload/ready.h"
#include "preload/real.h"

enum { CUT = 4 };	/* pieces of a rest that begins within one, on the caller's stack */

/* --- waiting --- */

static void put_file(void *f)
{
	rr_file_put(f);
}

/* May this call sleep? That costs a system call, so it is asked only when the call is about
 * to. */
static bool may_block(int fd, int flags)
{
	return !(flags & MSG_DONTWAIT) && rr_wait_allowed(fd);
}

/* How long one call waits. All zeroes: it has not waited yet. */
struct patience {
	bool asked;		/* it may sleep, … */
	rr_time since;		/* has waited since then, … */
	rr_time until;		/* and waits until then; 0: not known yet */
};

/* The time-out counts from when the call began to wait. */
static rr_time patience_end(int fd, int option, rr_time since)
{
	rr_time end = rr_wait_deadline(fd, option);

	return end == RR_TIME_NEVER ? end : end - (rr_now() - since);
}

/* May this call wait at all? If so, p->until says how long. */
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

/* Waits for want. 0: try again; -EAGAIN, -EINTR: the result of the call; RR_CONN_KERNEL: fd is
 * another file now. A cancellation point: a cancelled thread gives the caller's reference back.
 * A nap comes first, because most answers come within one, and what a long sleep needs to know
 * costs system calls. */
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

/* The result of a call that got so many bytes before its last attempt returned r. An error
 * after bytes is kept for the next call. */
static ssize_t so_far(struct rr_conn *c, size_t got, ssize_t r)
{
	if (got && r < 0 && r != -EAGAIN && r != -EINTR && r != RR_CONN_KERNEL)
		rr_conn_keep_error(c, (int)-r);
	return got ? (ssize_t)got : r;
}

/* The result for a signal handler that has interrupted another call on the connection. */
static ssize_t reentered(int fd, int flags)
{
	return may_block(fd, flags) ? -EINTR : -EAGAIN;
}

/* rr_conn_recv() or rr_conn_send() */
typedef ssize_t (*conn_call)(struct rr_conn *c, int fd, const struct iovec *iov, int n,
			     int flags);

/* Makes the call with what is left at the cursor. */
static ssize_t try_again(conn_call call, struct rr_sock *so, struct rr_conn *c, int fd,
			 const struct rr_iov *at, int flags)
{
	struct iovec room[CUT];
	int n;
	const struct iovec *iov = rr_iov_rest(at, room, CUT, &n);
	ssize_t r = call(c, fd, iov, n, flags);

	rr_sock_after(so, c);
	return r;
}

/* --- a call that has got something, and whose connection has gone back to TCP since --- */

/* How many bytes the kernel has for fd. */
static int queued(int fd)
{
	int n = 0;

	return rr_real.ioctl(fd, FIONREAD, &n) ? 0 : n;
}

/* What is left at the cursor, as the kernel takes it. */
static struct msghdr rest_of(const struct rr_iov *at, struct iovec room[CUT])
{
	int n;
	const struct iovec *iov = rr_iov_rest(at, room, CUT, &n);

	return (struct msghdr){ .msg_iov = (struct iovec *)(uintptr_t)iov,
				.msg_iovlen = (size_t)n };
}

/* Sends the rest. Returns how many bytes the kernel took; 0 and -errno end the call. An error
 * of the socket is left for the next call, as if the kernel had made all of this one: poll()
 * does not consume it. */
static ssize_t send_rest(struct rr_sock *so, int fd, const struct rr_iov *at, int flags)
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

/* The same for a receive, which waits as long as the call may. */
static ssize_t recv_rest(struct rr_sock *so, int fd, const struct rr_iov *at, int flags,
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
	k = rr_real_sleep(&p, 1, rr_left(&ts, rr_now(), waits ? patience->until : 0), NULL);
	pthread_cleanup_pop(0);
	if (k < 0)
		return -errno;
	if ((!k || p.revents & POLLERR) && !queued(fd))
		return 0;
	r = rr_real.recvmsg(fd, &msg, (flags & ~MSG_WAITALL) | MSG_DONTWAIT);
	return r < 0 ? -errno : r;
}

/* --- receiving --- */

/* MSG_TRUNC with MSG_PEEK: returns how many bytes there are, at most want. */
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

/* The connection has become TCP's in the middle: discards what the kernel has of the rest. An
 * error is left for the next call. */
static ssize_t discard_rest(int fd, size_t n, int flags)
{
	int saved = errno;
	ssize_t r = queued(fd) ? rr_real.recv(fd, NULL, n, flags | MSG_DONTWAIT) : 0;

	errno = saved;
	return rr_max(r, (ssize_t)0);
}

RR_NOINLINE ssize_t rr_further_discard(struct rr_sock *so, struct rr_conn *c, int fd,
				       size_t want, int flags)
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
		if (r == RR_CONN_KERNEL && got)
			r = discard_rest(fd, want - got, flags);
		if (r > 0)
			got += (size_t)r;
	} while (r > 0 && got < want);
	return so_far(c, got, r);
}

/* Have all bytes come that ever will? */
static bool no_more_comes(struct rr_conn *c, int fd)
{
	struct pollfd p = { fd, POLLRDHUP, 0 };
	int bits = rr_conn_poll(c, fd, POLLIN | POLLRDHUP);

	if (bits == RR_CONN_KERNEL)
		bits = rr_real.poll(&p, 1, 0) > 0 ? (unsigned short)p.revents : 0;
	return bits > 0 && bits & (POLLRDHUP | POLLHUP | POLLERR);
}

/* MSG_PEEK with MSG_WAITALL waits until `want` bytes are there, of which the call has seen
 * `have`. True: look again. The bytes stay where they are, so POLLIN is no news, and the
 * connection is looked at every millisecond. */
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

static ssize_t recv_some(struct rr_sock *so, struct rr_conn *c, int fd,
			 const struct rr_iov *at, int flags)
{
	if (flags & MSG_TRUNC)
		return rr_further_discard(so, c, fd, at->left, flags);
	return try_again(rr_conn_recv, so, c, fd, at, flags);
}

RR_NOINLINE ssize_t rr_further_recv(struct rr_sock *so, struct rr_conn *c, int fd,
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
			if (!want && p.asked)
				r = 0;	/* recv() of no bytes waits, too, but is content
					 * however the wait ends */
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

/* --- sending --- */

/* A blocking send goes on until everything is written, or something happens. */
RR_NOINLINE ssize_t rr_further_send(struct rr_sock *so, struct rr_conn *c, int fd,
				    struct rr_iov at, int flags, ssize_t r)
{
	size_t want = at.left, got = 0;
	struct patience p = { 0 };
	bool back = false;

	for (;; r = back ? send_rest(so, fd, &at, flags | MSG_NOSIGNAL) :
			   try_again(rr_conn_send, so, c, fd, &at, flags)) {
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
		}
		if (r <= 0)
			return so_far(c, got, r);
		got += (size_t)r;
		if (got >= want)
			return (ssize_t)got;
		rr_iov_skip(&at, (size_t)r);
	}
}
