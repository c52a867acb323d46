/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that a forked native connection has in the parent (family/relay.c): it moves bytes
 * between the app's socket and the queue pair. Once it has taken over, it is the only user of
 * the connection in this process. It calls the functions of conn.h as the app would, but with
 * -1 as fd, because it has no descriptor of the app's. */

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/enter.h"

#define ROOM	65536u
#define HELD_MS	50	/* poll interval: sometimes no descriptor reports room again */

/* Bytes on their way: [at, end). */
struct pipe {
	uint32_t at, end;
	uint8_t buf[ROOM];
};

struct relay {
	struct rr_conn *c;
	int far;
	bool over;		/* the peer's stream has ended, the app's has not yet */
	bool half;		/* the app writes no more */
	bool deaf;		/* the app reads no more: the peer's bytes are dropped */
	struct pipe in, out;	/* to the app; from the app */
};

/* Moves what the peer has sent to the app. 0, or -errno: the connection is lost. */
static int pump_in(struct relay *r)
{
	struct pipe *p = &r->in;

	for (int i = 0; i < 16 && !r->deaf; i++) {
		struct iovec iov = { p->buf, ROOM };
		ssize_t n;

		if (p->at == p->end && !r->over) {
			n = rr_conn_recv(r->c, -1, &iov, 1, 0);
			if (n < 0)
				return n == -EAGAIN ? 0 : (int)n;
			if (!n) {
				r->over = true;
				rr_os->shutdown(r->far, SHUT_WR);
			}
			p->at = 0;
			p->end = (uint32_t)n;
		}
		if (p->at == p->end)
			return 0;
		n = rr_os->send(r->far, p->buf + p->at, p->end - p->at,
				MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			r->deaf = true;
		else
			p->at += (uint32_t)n;
	}
	return 0;
}

/* Have all processes of the app closed the socket, or have both ends finished writing? */
static bool gone(const struct relay *r)
{
	return rr_anchor_poll(r->far, 0);
}

/* Moves what the app has written to the peer. 1: nobody on the app's side is left. */
static int pump_out(struct relay *r)
{
	struct pipe *p = &r->out;
	int on = 1;

	for (int i = 0; i < 16; i++) {
		struct iovec iov;
		ssize_t n;

		if (p->at == p->end) {
			if (r->half)
				return gone(r);
			n = rr_os->recv(r->far, p->buf, ROOM, MSG_DONTWAIT);
			if (n < 0)
				return errno == EAGAIN ? 0 : -errno;
			r->half = !n;
			if (!n)
				continue;
			p->at = 0;
			p->end = (uint32_t)n;
			/* The app may hold back the rest of its record until we acknowledge
			 * (Nagle). */
			rr_os->setsockopt(r->far, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
		}
		iov = (struct iovec){ p->buf + p->at, p->end - p->at };
		n = r->over ? (ssize_t)iov.iov_len : rr_conn_send(r->c, -1, &iov, 1, 0);
		if (n < 0)
			return n == -EAGAIN ? 0 : (int)n;
		p->at += (uint32_t)n;
	}
	return 0;
}

/* Sleeps until there may be something to do. */
static void sleep_for(struct relay *r)
{
	bool full = r->in.at != r->in.end && !r->deaf, held = r->out.at != r->out.end;
	unsigned want = (full || r->deaf ? 0 : POLLIN) | (held ? POLLOUT : 0);
	short app = (short)((held || r->half ? 0 : POLLIN) | (full ? POLLOUT : 0));
	/* That the app is gone does not matter before it can be acted on. */
	struct pollfd p[3] = { { held && !full ? -1 : r->far, app, 0 } };
	rr_time until = RR_TIME_NEVER, now;
	int n = 0, ms = -1;

	if (!r->over) {
		if (rr_conn_arm(r->c, -1, want))
			return;
		n = rr_conn_fds(r->c, -1, want, p + 1, &until);
	}
	if (until != RR_TIME_NEVER) {
		now = rr_now();
		ms = until > now ? (int)rr_min((until - now) / RR_MSEC + 1, (rr_time)60000) : 0;
	}
	if (held && (ms < 0 || ms > HELD_MS))
		ms = HELD_MS;
	rr_os->poll(p, (nfds_t)n + 1, ms);
	if (!r->over)
		rr_conn_disarm(r->c, -1);
}

/* Sleeps until another process wants the connection or this one has closed it, or until the
 * app's end is shut down, after which neither could be seen any more. False: it will not be
 * relayed. */
static bool wanted(struct relay *r)
{
	struct pollfd p = { r->far, RR_RELAY_WANTED, 0 };
	struct rr_lock *l;
	bool yes;

	while (rr_os->poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	if (rr_conn_hold(r->c, &l) < 0)
		return false;
	yes = rr_relay_take_over(r->c);
	rr_lock_drop(l);
	return yes;
}

static void end(struct relay *r, int rc)
{
	struct rr_conn *c = r->c;

	munmap(r, sizeof(*r));
	/* Not closed: a child that is just being forked closes this number. */
	if (rc < 0 && c->share)
		rr_loopback_reset(c->share->far);
	rr_conn_free(c);
}

static void *run_relay(void *arg)
{
	struct relay *r = arg;
	int rc, on = 1;

	/* Records are written in the pieces in which they were read: do not wait for more. */
	rr_os->setsockopt(r->far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	rc = wanted(r) ? 0 : 1;
	while (!rc) {
		rc = pump_in(r);
		if (!rc)
			rc = pump_out(r);
		if (!rc)
			sleep_for(r);
	}
	end(r, rc);
	return NULL;
}

/* Makes a close of the app's socket distinguishable from a shutdown(): see family/relay.c. */
static void tell_close(const struct rr_conn *c)
{
	int fd = rr_cp->fd_of ? rr_cp->fd_of(c) : c->fd, reset = -1;

	rr_os->setsockopt(fd, IPPROTO_TCP, TCP_LINGER2, &reset, sizeof(reset));
}

bool rr_relay_forks(struct rr_conn *c)
{
	struct relay *r;

	if (!rr_relay_may(c))
		return false;
	if (c->relay)
		return true;
	r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r == MAP_FAILED)
		return true;	/* without a relay the child's calls go nowhere */
	r->c = c;
	r->far = c->share->far;
	c->relay = true;
	tell_close(c);
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	if (rr_thread(run_relay, r)) {
		rr_warn("fd %d: no thread to relay a native connection to forked processes: it "
			"is reset", c->fd);
		end(r, -ENOMEM);
	}
	return true;
}
