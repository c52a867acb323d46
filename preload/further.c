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

/* A call that goes on. */
struct further {
	struct rr_sock *so;
	struct rr_conn *c;
	int fd, flags;		/* as the app gave them */
	unsigned news;		/* POLLIN or POLLOUT: what it waits for */
	bool all;		/* it goes on until it has got all that it wants */
	bool back;		/* the connection has gone back to TCP, so the kernel has the
				 * rest */
	size_t want, got;
	size_t seen;		/* what was there when its stream had ended (peek_more()) */
	struct rr_iov at;	/* what is left */
	struct patience patience;
};

/* The socket's time-out for the call. */
static int timeout_option(const struct further *f)
{
	return f->news == POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO;
}

/* May this call wait at all? Asks once. */
static bool begins_to_wait(struct further *f)
{
	struct patience *p = &f->patience;

	if (p->asked)
		return true;
	if (!may_block(f->fd, f->flags))
		return false;
	p->asked = true;
	p->since = rr_now();
	return true;
}

/* Until when the call waits. Its time-out counts from when it began to. */
static rr_time wait_end(struct further *f)
{
	struct patience *p = &f->patience;

	if (p->until)
		return p->until;
	p->until = rr_wait_deadline(f->fd, timeout_option(f));
	if (p->until != RR_TIME_NEVER)
		p->until -= rr_now() - p->since;
	return p->until;
}

static int sleep_a_little(struct rr_sock *so)
{
	int rc;

	pthread_cleanup_push(put_file, &so->f);
	rc = rr_real.poll(NULL, 0, 1) < 0 ? -EINTR : 0;
	pthread_cleanup_pop(0);
	return rc;
}

/* Waits for news. 0: try again; -EAGAIN, -EINTR: the result of the call; RR_CONN_KERNEL: fd is
 * another file now. A cancellation point: a cancelled thread gives the caller's reference back.
 * A nap comes first, because most answers come within one, and what a long sleep needs to know
 * costs system calls. */
static int wait_for_news(struct further *f)
{
	bool first = !f->patience.asked;
	int rc;

	if (!begins_to_wait(f))
		return -EAGAIN;
	if (first) {
		rc = rr_wait_nap(f->so, f->fd, f->news, timeout_option(f));
		if (rc != -EAGAIN)
			return rc;
	}
	if (wait_end(f) != RR_TIME_NEVER && rr_now() >= wait_end(f))
		return -EAGAIN;
	if (!rr_file_verify(&f->so->f, f->fd))
		return RR_CONN_KERNEL;
	/* If it is cancelled, it gives our reference back itself. */
	return rr_wait_one(f->so, f->fd, f->news, wait_end(f));
}

/* The result of a call whose last attempt returned r: what it got before, if that is anything.
 * An error after bytes is kept for the next call. */
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

/* Makes the call with what is left. */
static ssize_t try_again(conn_call call, struct further *f, int flags)
{
	struct iovec room[CUT];
	int n;
	const struct iovec *iov = rr_iov_rest(&f->at, room, CUT, &n);
	ssize_t r = call(f->c, f->fd, iov, n, flags);

	rr_sock_after(f->so, f->c);
	return r;
}

/* The last attempt returned *r: waits if that is what the call has to do. Returns true if there
 * is to be another attempt; else the call is over, and *r its result. */
static bool goes_on(struct further *f, ssize_t *r)
{
	if (*r == -EDEADLK)
		*r = reentered(f->fd, f->flags);
	if (*r == RR_CONN_KERNEL && f->got) {
		f->back = true;
		return true;
	}
	if (*r == -EAGAIN && !f->back) {
		*r = wait_for_news(f);
		if (!*r)
			return true;
		/* recv() of no bytes waits, too, but is content however the wait ends */
		if (f->news == POLLIN && !f->want && f->patience.asked)
			*r = 0;
	}
	if (*r <= 0) {
		*r = so_far(f->c, f->got, *r);
		return false;
	}
	f->got += (size_t)*r;
	if (f->all && f->got < f->want) {
		rr_iov_skip(&f->at, (size_t)*r);
		return true;
	}
	*r = (ssize_t)f->got;
	return false;
}

/* --- a call that has got something, and whose connection has gone back to TCP since --- */

/* How many bytes the kernel has for fd. */
static int queued(int fd)
{
	int n = 0;

	return rr_real.ioctl(fd, FIONREAD, &n) ? 0 : n;
}

/* What is left, as the kernel takes it. */
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
static ssize_t send_rest(struct further *f)
{
	struct iovec room[CUT];
	struct msghdr msg = rest_of(&f->at, room);
	struct pollfd p = { f->fd, 0, 0 };
	ssize_t r = 0;

	if (rr_real.poll(&p, 1, 0) > 0 && p.revents & POLLERR)
		return 0;
	pthread_cleanup_push(put_file, &f->so->f);
	r = rr_real.sendmsg(f->fd, &msg, f->flags | MSG_NOSIGNAL);
	pthread_cleanup_pop(0);
	return r < 0 ? -errno : r;
}

/* The same for a receive, which waits as long as the call may. */
static ssize_t recv_rest(struct further *f)
{
	rr_time until = begins_to_wait(f) ? wait_end(f) : 0;
	struct iovec room[CUT];
	struct msghdr msg = rest_of(&f->at, room);
	struct pollfd p = { f->fd, POLLIN, 0 };
	struct timespec ts;
	ssize_t r;
	int k;

	pthread_cleanup_push(put_file, &f->so->f);
	k = rr_real_sleep(&p, 1, rr_left(&ts, rr_now(), until), NULL);
	pthread_cleanup_pop(0);
	if (k < 0)
		return -errno;
	if ((!k || p.revents & POLLERR) && !queued(f->fd))
		return 0;
	r = rr_real.recvmsg(f->fd, &msg, (f->flags & ~MSG_WAITALL) | MSG_DONTWAIT);
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
	ssize_t r = queued(fd) ? rr_real.recv(fd, NULL, n, flags | MSG_DONTWAIT) : 0;

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

/* MSG_PEEK with MSG_WAITALL waits until all bytes are there that the call wants; it has seen
 * `have` of them. True: look again. The bytes stay where they are, so POLLIN is no news, and
 * the connection is looked at every millisecond. */
static bool peek_more(struct further *f, ssize_t have)
{
	bool over;
	int inq;

	if (have <= 0 || (size_t)have >= f->want)
		return false;
	if (!begins_to_wait(f))
		return false;
	over = no_more_comes(f->c, f->fd);
	/* Asked after that: bytes may have come just before the end. */
	inq = rr_conn_inq(f->c, f->fd);
	if (inq < 0 || (over && (size_t)have <= f->seen))
		return false;
	if (over)
		f->seen = (size_t)have;
	return inq > have || (!over && rr_now() < wait_end(f) && !sleep_a_little(f->so));
}

static ssize_t recv_some(struct further *f)
{
	int flags = f->flags & ~MSG_WAITALL;

	if (flags & MSG_TRUNC)
		return rr_further_discard(f->so, f->c, f->fd, f->at.left, flags);
	return try_again(rr_conn_recv, f, flags);
}

RR_NOINLINE ssize_t rr_further_recv(struct rr_sock *so, struct rr_conn *c, int fd,
				    struct rr_iov at, int flags, ssize_t r)
{
	bool all = flags & MSG_WAITALL, peeks = flags & MSG_PEEK;
	struct further f = { .so = so, .c = c, .fd = fd, .flags = flags, .news = POLLIN,
			     .all = all && !peeks, .want = at.left, .at = at };

	while ((all && peeks && peek_more(&f, r)) || goes_on(&f, &r))
		r = f.back ? recv_rest(&f) : recv_some(&f);
	return r;
}

/* --- sending --- */

/* A blocking send goes on until everything is written, or something happens. */
RR_NOINLINE ssize_t rr_further_send(struct rr_sock *so, struct rr_conn *c, int fd,
				    struct rr_iov at, int flags, ssize_t r)
{
	struct further f = { .so = so, .c = c, .fd = fd, .flags = flags, .news = POLLOUT,
			     .all = true, .want = at.left, .at = at };

	while (goes_on(&f, &r))
		r = f.back ? send_rest(&f) : try_again(rr_conn_send, &f, flags);
	return r;
}
