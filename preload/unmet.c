/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection of one call costs a server almost nothing: it has no struct rr_conn, no entry in
 * the statistics, and the kernel is asked what TCP alone would ask, and once more, by MSG_PEEK,
 * whether the first bytes are an offer. It is met, which makes its connection, with whatever is
 * not a call as each has: an offer, a second call, a call that came in parts, an option, a
 * registration with epoll, fork(), a second thread; and when a wait finds it older than
 * RR_UNMET_MOST, so that rdmarpc-stat shows what stays.
 *
 * Only one thread is here at a time, because a process with several has no unmet connections.
 * A signal handler that finds this thread at work on the same one leaves it to TCP for good. */

#include "preload/unmet.h"

#include <errno.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/conn/conn.h"
#include "preload/appmem.h"
#include "preload/sock.h"

#define REPLY	4096u	/* a longer reply may not find room at once */

bool rr_unmet_begin(struct rr_sock *so)
{
	if (!__libc_single_threaded || !rr_conn_may_wait())
		return false;
	so->unmet = (struct rr_unmet){ .since = rr_now_coarse() };
	atomic_fetch_or_explicit(&so->flags, RR_SOCK_UNMET, memory_order_relaxed);
	atomic_fetch_add_explicit(&rr_unmet_n, 1, memory_order_relaxed);
	return true;
}

/* Begins to work on so. False: a handler has interrupted who does. */
static bool begin_work(struct rr_sock *so)
{
	if (!(atomic_fetch_or_explicit(&so->flags, RR_SOCK_MEETING, memory_order_relaxed) &
	      RR_SOCK_MEETING))
		return true;
	atomic_fetch_or_explicit(&so->flags, RR_SOCK_PLAIN, memory_order_relaxed);
	return false;
}

static void end_work(struct rr_sock *so)
{
	atomic_fetch_and_explicit(&so->flags, ~(uint32_t)RR_SOCK_MEETING, memory_order_relaxed);
}

/* sent bytes of iov have gone since the reply that is noted. Of a caller that works on it. */
static struct rr_conn *meet(struct rr_sock *so, int fd, const struct iovec *iov, int n,
			    size_t sent)
{
	const struct rr_unmet *u = &so->unmet;
	struct rr_conn_passed passed = { .in = u->in, .out = u->out, .next = u->next,
					 .alone = u->alone, .err = u->err };
	struct rr_conn *c = NULL;

	for (int i = 0; i < 2; i++) {
		passed.end[i] = (const struct sockaddr *)&u->end[i];
		passed.len[i] = u->told[i];
	}
	if (rr_unmet_is(so) && rr_unmet_unmark(so))
		c = rr_conn_server_after(fd, &passed);
	if (c) {
		if (sent)
			rr_conn_went_out(c, iov, n, sent);
		atomic_store_explicit(&so->conn, c, memory_order_release);
		rr_ep_sock_conn(so);
	}
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

void rr_unmet_hears(int fd, bool peer, const struct sockaddr *addr, socklen_t len)
{
	struct rr_sock *so = rr_fdt_sock(fd);

	if (!so)
		return;
	if (rr_unmet_is(so) && len <= sizeof(so->unmet.end[0])) {
		memcpy(&so->unmet.end[peer], addr, len);
		so->unmet.told[peer] = (uint8_t)len;
	}
	rr_file_put(&so->f);
}

/* --- what the queue holds --- */

/* Is it known, or known now, what stands at the front of the queue, and is it the app's first
 * call, or the peer's end? If not, it is time to meet. That a second call is the app's is noted
 * for its connection. */
static bool look(struct rr_unmet *u, int fd)
{
	uint8_t buf[RR_CONN_FIRST];
	ssize_t n;

	if (u->next || u->ended || u->err)
		return !u->next || !u->in;
	n = syscall(SYS_recvfrom, fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT, NULL, NULL);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		u->err = errno;	/* the kernel does not tell it again */
	u->ended = n == 0;
	if (n > 0)
		u->next = (uint32_t)rr_conn_first_call(buf, (size_t)n);
	u->alone = u->next && u->next == (size_t)n && u->next < sizeof(buf);
	return (u->next && !u->in) || u->ended || u->err;
}

/* The result of a read that is known to find the call, or -errno. */
static ssize_t take_call(struct rr_sock *so, int fd, void *buf)
{
	struct rr_unmet *u = &so->unmet;
	ssize_t r;

	if (u->ended)
		return 0;
	if (u->err) {
		r = -u->err;
		u->err = 0;
		return r;
	}
	r = syscall(SYS_recvfrom, fd, buf, u->next, MSG_DONTWAIT, NULL, NULL);
	if (r == (ssize_t)u->next) {
		u->in = u->next;
		u->next = 0;
	} else if (r > 0) {	/* somebody else has read, whom we did not see */
		atomic_fetch_or_explicit(&so->flags, RR_SOCK_PLAIN, memory_order_relaxed);
	}
	return r < 0 ? -errno : r;
}

bool rr_unmet_recv(int fd, const struct iovec *iov, int n, int flags, ssize_t *rc)
{
	int saved = errno;
	struct rr_sock *so;
	bool mine;

	if (flags || n != 1 || rr_bad_ptr(iov) || !(so = work_at(fd)))
		return false;
	mine = look(&so->unmet, fd) && so->unmet.next <= iov->iov_len;
	if (mine)
		*rc = take_call(so, fd, iov->iov_base);
	end_and_put(so);
	errno = saved;
	return mine && *rc != -EAGAIN;
}

/* --- the reply --- */

bool rr_unmet_send(int fd, const struct iovec *iov, int n, int flags, ssize_t *rc)
{
	int saved = errno;
	struct rr_unmet *u;
	struct rr_sock *so;
	ssize_t r = -1;

	if (flags & ~MSG_NOSIGNAL || n != 1 || rr_bad_ptr(iov) || iov->iov_len > REPLY ||
	    !(so = work_at(fd)))
		return false;
	u = &so->unmet;
	if (u->in && !u->out && !u->next && !u->ended && !u->err) {
		r = syscall(SYS_sendto, fd, iov->iov_base, iov->iov_len,
			    MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
		*rc = r < 0 ? -errno : r;
		/* The kernel has read them, so they can be. */
		if (r > 0 && (size_t)r == iov->iov_len &&
		    rr_conn_is_record(iov->iov_base, (size_t)r))
			u->out = (uint32_t)r;
		else if (r > 0)
			meet(so, fd, iov, n, (size_t)r);
	} else {
		*rc = -EAGAIN;
	}
	end_and_put(so);
	errno = saved;
	return *rc != -EAGAIN;
}

/* --- waits --- */

bool rr_unmet_stays(struct rr_sock *so)
{
	return __libc_single_threaded && rr_now_coarse() - so->unmet.since < RR_UNMET_MOST;
}

bool rr_unmet_told(const struct pollfd *p)
{
	int saved = errno;
	struct rr_sock *so;
	bool known;

	if (p->revents & ~(POLLIN | POLLRDNORM) || !(so = work_at(p->fd)))
		return false;
	known = look(&so->unmet, p->fd);
	so->unmet.looked = rr_now_coarse();
	end_and_put(so);
	errno = saved;
	return known;
}

bool rr_unmet_seen(const struct pollfd *p)
{
	struct rr_sock *so;
	bool seen;

	if (!p->events || p->events & ~(POLLIN | POLLRDNORM) || !(so = rr_fdt_sock(p->fd)))
		return false;
	seen = rr_unmet_is(so) && (so->unmet.next || so->unmet.ended) &&
	       so->unmet.looked == rr_now_coarse();
	rr_file_put(&so->f);
	return seen;
}
