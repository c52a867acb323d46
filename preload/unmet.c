/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection of a few calls costs almost nothing: it has no struct rr_conn and no entry in
 * the statistics, and the kernel is asked what TCP alone would ask; a server asks once more for
 * each call, by MSG_PEEK, whether it is an offer. It is met, which makes its connection, when a
 * client's call comes that an offer may go with, and with whatever is not a call and its reply
 * in turn, as each connection has them: an offer, a second call before the reply, a call that
 * comes in parts, an option, a registration with epoll, fork(), a second thread; and when a
 * wait finds it older than RR_UNMET_MOST, so that rdmarpc-stat shows what stays.
 *
 * A process with several threads has no unmet connections but those that it had before its
 * second one, and these are met with the next call for them, by whichever thread comes first;
 * the others wait until it has the connection. A signal handler that finds its own thread at
 * work on the same one leaves it to TCP for good. */

#include "preload/unmet.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/conn/conn.h"
#include "preload/appmem.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/sock.h"

/* Not a client's where its epoll set or stream would have to be told afterwards. */
bool rr_unmet_begin(struct rr_sock *so, const struct sockaddr *peer, socklen_t len)
{
	struct rr_conn_passed past;

	if (!__libc_single_threaded ||
	    atomic_load_explicit(&so->watches, memory_order_relaxed) ||
	    atomic_load_explicit(&so->flags, memory_order_relaxed) & RR_SOCK_STDIO ||
	    !rr_conn_may_wait(&past, !peer, peer, len))
		return false;
	so->unmet = (struct rr_unmet){ .since = rr_now_coarse(), .past = past };
	atomic_fetch_or_explicit(&so->flags, RR_SOCK_UNMET, memory_order_relaxed);
	atomic_fetch_add_explicit(&rr_unmet_n, 1, memory_order_relaxed);
	return true;
}

static void leave(struct rr_sock *so)
{
	atomic_fetch_or_explicit(&so->flags, RR_SOCK_PLAIN, memory_order_relaxed);
}

/* Another thread works on so. It makes the connection, since this one is there, and waits for
 * nobody meanwhile. It may need this CPU. */
static void await_worker(void)
{
	static const struct timespec brief = { .tv_nsec = 20000 };
	int cancel = rr_cancel_off();

	nanosleep(&brief, NULL);
	rr_cancel_back(cancel);
}

/* Begins to work on so. False: a handler has interrupted who does. */
static bool begin_work(struct rr_sock *so)
{
	uintptr_t me = (uintptr_t)pthread_self(), who = 0;

	while (!atomic_compare_exchange_weak_explicit(&so->unmet.worker, &who, me,
						      memory_order_acquire,
						      memory_order_relaxed)) {
		if (who == me) {
			leave(so);
			return false;
		}
		if (who)
			await_worker();
		who = 0;
	}
	return true;
}

static void end_work(struct rr_sock *so)
{
	atomic_store_explicit(&so->unmet.worker, 0, memory_order_release);
}

/* Since what is noted, `went` bytes of iov have gone out, or `came` have come in. Of a caller
 * that works on it. The mark goes last, so that other threads find the one or the other. */
static struct rr_conn *meet(struct rr_sock *so, int fd, const struct iovec *iov, size_t went,
			    size_t came)
{
	struct rr_conn *c = NULL;

	if (!rr_unmet_is(so))
		return rr_sock_conn(so);
	c = rr_conn_after(fd, &so->unmet.past);
	if (c) {
		if (went)
			rr_conn_went_out(c, iov, 1, went);
		if (came)
			rr_conn_came_in(c, iov, 1, came);
		atomic_store_explicit(&so->conn, c, memory_order_release);
	}
	rr_unmet_unmark(so);
	if (c)
		rr_ep_sock_conn(so);
	return rr_sock_conn(so);
}

struct rr_conn *rr_unmet_meet(struct rr_sock *so, int fd)
{
	int saved = errno;
	struct rr_conn *c;

	if (!begin_work(so))
		return NULL;
	c = meet(so, fd, NULL, 0, 0);
	end_work(so);
	errno = saved;
	return c;
}

static void meet_each(int fd, struct rr_file *f, void *arg RR_UNUSED)
{
	if (rr_unmet_file(f))
		rr_unmet_meet(container_of(f, struct rr_sock, f), fd);
}

void rr_unmet_meet_all(void)
{
	if (rr_unmet_any())
		rr_fdt_each(meet_each, NULL);
}

/* The unmet connection at fd, with a reference, for a caller that works on it now; NULL: there
 * is none. */
static struct rr_sock *work_at(int fd)
{
	struct rr_sock *so = rr_fdt_sock(fd);

	if (!so)
		return NULL;
	if (rr_unmet_is(so) && __libc_single_threaded && rr_sock_check(so, fd) &&
	    begin_work(so))
		return so;
	rr_file_put(&so->f);
	return NULL;
}

static void end_and_put(struct rr_sock *so)
{
	end_work(so);
	rr_file_put(&so->f);
}

void rr_unmet_hears(struct rr_sock *so, bool peer, const struct sockaddr *addr, socklen_t len)
{
	struct rr_conn_passed *past = &so->unmet.past;

	if (len > sizeof(past->end[0]))
		return;
	memcpy(&past->end[peer], addr, len);
	past->len[peer] = (uint8_t)len;
	past->given &= !peer;
}

/* A client's socket may be connected once more. */
socklen_t rr_unmet_name(struct rr_sock *so, struct sockaddr_in6 *own)
{
	const struct rr_conn_passed *past = &so->unmet.past;

	*own = past->end[0];
	return past->server ? past->len[0] : 0;
}

/* --- what is read ------------------------------------------------------------------------- */

/* A filter that allows the app's own call may refuse ours: then all are the app's. */
static bool is_refused(struct rr_sock *so, ssize_t r)
{
	bool is = r < 0 && rr_os_is_filtered(errno);

	if (is)
		leave(so);
	return is;
}

/* Has each call that has gone by its reply? */
static bool in_turn(const struct rr_unmet *u)
{
	return u->past.nin == u->past.nout;
}

/* Server. Is it known, or known now, what stands at the front of the queue, and is it a call of
 * the app's in its turn, or the peer's end? If not, it is time to meet. That a call is the
 * app's is noted for its connection. */
static bool look(struct rr_sock *so, int fd)
{
	struct rr_unmet *u = &so->unmet;
	uint8_t buf[RR_CONN_FIRST];
	ssize_t n;

	if (u->past.next || u->ended || u->past.err)
		return !u->past.next || in_turn(u);
	n = syscall(SYS_recvfrom, fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT, NULL, NULL);
	if (is_refused(so, n))
		return false;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		u->past.err = errno;	/* the kernel does not tell it again */
	u->ended = n == 0;
	if (n > 0)
		u->past.next = (uint32_t)rr_conn_first_call(&u->past, buf, (size_t)n);
	u->past.alone = u->past.next && u->past.next == (size_t)n && u->past.next < sizeof(buf);
	return (u->past.next && in_turn(u)) || u->ended || u->past.err;
}

/* Returns the bytes that were read, or -errno; -EAGAIN also where it is another's to read. */
static ssize_t take_bytes(struct rr_sock *so, int fd, void *buf, size_t len)
{
	ssize_t r = syscall(SYS_recvfrom, fd, buf, len, MSG_DONTWAIT, NULL, NULL);

	return is_refused(so, r) ? -EAGAIN : r < 0 ? -errno : r;
}

static ssize_t take_call(struct rr_sock *so, int fd, const struct iovec *to)
{
	struct rr_unmet *u = &so->unmet;
	ssize_t r;

	if (!look(so, fd) || u->past.next > to->iov_len)
		return -EAGAIN;
	if (u->ended)
		return 0;
	if (u->past.err) {
		r = -u->past.err;
		u->past.err = 0;
		return r;
	}
	r = take_bytes(so, fd, to->iov_base, u->past.next);
	if (r == (ssize_t)u->past.next) {
		rr_conn_note_in(&u->past, u->past.next);
		u->past.next = 0;
	} else if (r > 0) {	/* somebody else has read, whom we did not see */
		leave(so);
	}
	return r;
}

/* A client that has not waited for its reply meets: it may have to wait now. */
static ssize_t take_reply(struct rr_sock *so, int fd, const struct iovec *to)
{
	struct rr_unmet *u = &so->unmet;
	ssize_t r;

	if (!u->ready)
		return -EAGAIN;
	u->ready = false;
	r = take_bytes(so, fd, to->iov_base, to->iov_len);
	if (r > 0 && !rr_conn_first_came(&u->past, to->iov_base, (size_t)r))
		meet(so, fd, to, 0, (size_t)r);
	return r;
}

bool rr_unmet_recv(int fd, const struct iovec *iov, int n, int flags, ssize_t *rc)
{
	int saved = errno;
	struct rr_sock *so;

	if (flags || n != 1 || rr_bad_ptr(iov) || !(so = work_at(fd)))
		return false;
	*rc = (so->unmet.past.server ? take_call : take_reply)(so, fd, iov);
	end_and_put(so);
	errno = saved;
	return *rc != -EAGAIN;
}

/* --- what is written ---------------------------------------------------------------------- */

/* May the app write so much now: the reply to the call that it has read, or a call? */
static bool may_go_so(const struct rr_unmet *u, size_t len)
{
	const struct rr_conn_passed *p = &u->past;

	if (!rr_conn_may_be_whole(len))
		return false;
	if (!p->server)
		return in_turn(u) && p->nout + 1 < p->offers;
	return !in_turn(u) && !p->next && !p->err && !u->ended;
}

/* The kernel has read what it has sent, so it can be looked at. */
static ssize_t put_record(struct rr_sock *so, int fd, const struct iovec *iov)
{
	ssize_t r = syscall(SYS_sendto, fd, iov->iov_base, iov->iov_len,
			    MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);

	if (r < 0)
		return is_refused(so, r) ? -EAGAIN : -errno;
	if ((size_t)r < iov->iov_len ||
	    !rr_conn_first_went(&so->unmet.past, iov->iov_base, (size_t)r))
		meet(so, fd, iov, (size_t)r, 0);
	return r;
}

bool rr_unmet_send(int fd, const struct iovec *iov, int n, int flags, ssize_t *rc)
{
	int saved = errno;
	struct rr_sock *so;
	ssize_t r;

	if (flags & ~MSG_NOSIGNAL || n != 1 || rr_bad_ptr(iov) || !(so = work_at(fd)))
		return false;
	r = may_go_so(&so->unmet, iov->iov_len) ? put_record(so, fd, iov) : -EAGAIN;
	end_and_put(so);
	errno = saved;
	if (r != -EAGAIN)
		*rc = r;
	return r < 0 ? r != -EAGAIN : (size_t)r == iov->iov_len;
}

/* --- waits -------------------------------------------------------------------------------- */

static bool is_young(const struct rr_unmet *u, rr_time now)
{
	return now - u->since < RR_UNMET_MOST;
}

bool rr_unmet_stays(struct rr_sock *so)
{
	return __libc_single_threaded && is_young(&so->unmet, rr_now_coarse());
}

/* Client. Is what has come the reply to its call, or the end in its place? */
static bool is_replied(struct rr_unmet *u)
{
	u->ready = !in_turn(u);
	return u->ready;
}

bool rr_unmet_told(const struct pollfd *p)
{
	int saved = errno;
	struct rr_sock *so;
	bool known;

	if (p->revents & ~(POLLIN | POLLRDNORM) || !(so = work_at(p->fd)))
		return false;
	known = so->unmet.past.server ? look(so, p->fd) : is_replied(&so->unmet);
	so->unmet.looked = rr_now_coarse();
	end_and_put(so);
	errno = saved;
	return known;
}

/* Was there something when the kernel was asked in this tick? libtirpc asks again before each
 * read. */
static bool has_seen(const struct rr_unmet *u, rr_time now)
{
	return (u->past.next || u->ended) && u->looked == now;
}

int rr_unmet_poll(struct pollfd *p, int *timeout)
{
	struct rr_file *f = rr_fdt_peek(p->fd);
	/* With one thread nobody else changes it. */
	struct rr_unmet *u = f && __libc_single_threaded && rr_unmet_file(f) ?
			     &container_of(f, struct rr_sock, f)->unmet : NULL;
	int max = RR_UNMET_MOST / RR_MSEC;
	int ms = *timeout < 0 ? max : rr_min(*timeout, max);
	rr_time now;
	int r;

	if (!u || !p->events || p->events & ~(POLLIN | POLLRDNORM))
		return RR_POLL_ON;
	now = rr_now_coarse();
	if (has_seen(u, now)) {
		p->revents = p->events;
		return 1;
	}
	if (!is_young(u, now) || rr_conn_idle(now) < now + (rr_time)ms * RR_MSEC)
		return RR_POLL_ON;
	r = rr_real.poll(p, 1, ms);
	if (r < 0 || (r ? rr_unmet_told(p) : ms == *timeout))
		return r;
	if (*timeout > 0)
		*timeout -= r ? rr_min(ms, (int)((rr_now_coarse() - now) / RR_MSEC)) : ms;
	return RR_POLL_ON;
}
