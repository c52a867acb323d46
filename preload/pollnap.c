/* SPDX-License-Identifier: BSD-3-Clause */
/* poll() of one fd whose connection may rest: most waits of a client. The thread sleeps on the
 * connection's wake-up fd, without the arrays of ready_poll.c, which goes on where the first
 * sleep brings nothing. After 10 ms neither code nor data is in a cache, so a way that touches
 * less of both is worth having. */
#include <errno.h>
#include <pthread.h>

#include "core/base/os.h"
#include "preload/ready.h"
#include "preload/real.h"

/* Bounds the first sleep, which verifies neither the fd number nor the anchor. */
#define NAP_MOST (RR_SEC / 4)

struct nap {
	struct rr_sock *so;
	struct rr_conn *c;
	struct pollfd *p;	/* the app's */
	int cancel;
};

/* Cleanup handler of a thread that is cancelled in its sleep. */
static void nap_cancelled(void *arg)
{
	struct nap *w = arg;

	rr_conn_rested(w->c);
	rr_file_put(&w->so->f);
}

/* Sleeps on `wake`. A cancellation point. Returns 1: it rang, and the connection no longer
 * rests; 0: the app's time is over; -EINTR; RR_POLL_ON. */
static int sleep_at_rest(struct nap *w, int wake, rr_time deadline)
{
	struct pollfd p = { wake, POLLIN, 0 };
	rr_time now = rr_now();
	rr_time end = rr_min(deadline, rr_min(rr_conn_idle(now), now + NAP_MOST));
	struct timespec ts;
	int rc;

	pthread_cleanup_push(nap_cancelled, w);
	rr_cancel_back(w->cancel);
	rc = rr_real_sleep(&p, 1, rr_left(&ts, now, end), NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &w->cancel);
	pthread_cleanup_pop(0);
	if (rc > 0) {
		rr_conn_disarm(w->c, w->p->fd);
		rr_ep_activate(w->so);
		return 1;
	}
	rr_conn_rested(w->c);
	if (rc < 0)
		return errno == EINTR ? -EINTR : RR_POLL_ON;
	return end == deadline ? 0 : RR_POLL_ON;
}

/* Asks the connection, which has news. 1: the entry is ready; RR_POLL_ON: it is not, or another
 * file has the number by now. */
static int ask_one(const struct nap *w)
{
	int fd = w->p->fd;
	int r = rr_sock_poll(w->so, w->c, fd, (unsigned short)w->p->events, 0);

	if (r <= 0 || !rr_sock_at(w->so, fd) || !rr_sock_check(w->so, fd))
		return RR_POLL_ON;
	w->p->revents = (short)r;
	return 1;
}

static int nap(struct nap *w, rr_time deadline)
{
	int wake, rc;

	if (!rr_conn_may_rest(w->c))
		return RR_POLL_ON;
	wake = rr_conn_rest(w->c);
	if (wake < 0) {
		if (rr_wait_spin(w->c, POLLIN, deadline))
			return ask_one(w);
		if (rr_conn_arm(w->c, w->p->fd, POLLIN))
			return RR_POLL_ON;
		wake = rr_conn_rests(w->c);
		if (wake < 0) {
			rr_conn_disarm(w->c, w->p->fd);
			rr_ep_activate(w->so);
			return RR_POLL_ON;
		}
	}
	rc = sleep_at_rest(w, wake, deadline);
	return rc == 1 ? ask_one(w) : rc;
}

int rr_poll_nap(struct pollfd *p, rr_time deadline)
{
	struct nap w = { .p = p };
	int rc = RR_POLL_ON, saved = errno;

	if (rr_ev_want((unsigned short)p->events) != POLLIN)
		return rc;
	w.cancel = rr_cancel_off();
	w.c = rr_conn_met(p->fd, &w.so);
	if (w.c) {
		p->revents = 0;
		rc = nap(&w, deadline);
		rr_file_put(&w.so->f);
	}
	rr_cancel_back(w.cancel);
	errno = saved;
	return rc;
}
