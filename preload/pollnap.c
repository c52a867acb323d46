/* SPDX-License-Identifier: BSD-3-Clause */
/* poll() of few fds, one of which is a connection that may rest while the others are the
 * kernel's: most waits of a client, and those of a server with one client. The thread sleeps
 * on the connection's wake-up fd in place of its own, without the arrays of ready_poll.c, which
 * goes on where the first sleep brings nothing. After 10 ms neither code nor data is in a
 * cache, so a way that touches less of both is worth having. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/base/os.h"
#include "preload/naps.h"
#include "preload/ready.h"
#include "preload/real.h"

struct nap {
	struct pollfd *fds;	/* the app's */
	nfds_t n;
	struct pollfd *p;	/* the connection's, of these */
	struct rr_sock *so;
	struct rr_conn *c;
	int cancel;
};

/* Cleanup handler of a thread that is cancelled in its sleep. */
static void nap_cancelled(void *arg)
{
	struct nap *w = arg;

	rr_conn_rested(w->c);
	rr_file_put(&w->so->f);
}

/* Asks the connection, which has news. Returns whether its entry is ready: not if another file
 * has the number by now. */
static bool ask_one(const struct nap *w)
{
	int fd = w->p->fd;
	int r = rr_sock_poll(w->so, w->c, fd, (unsigned short)w->p->events, 0);

	if (r <= 0 || !rr_sock_at(w->so, fd) || !rr_sock_check(w->so, fd))
		return false;
	w->p->revents = (short)r;
	return true;
}

/* The kernel has reported `ready` entries of k, which it was given. Returns how many are ready
 * for the app, or RR_POLL_ON. */
static int nap_ended(const struct nap *w, const struct pollfd *k, int ready)
{
	bool rang = k[w->p - w->fds].revents;

	for (nfds_t i = 0; i < w->n; i++)
		if (&w->fds[i] != w->p)
			w->fds[i].revents = k[i].revents;
	if (!rang) {
		rr_conn_rested(w->c);
		return ready;
	}
	rr_conn_disarm_later(w->c, w->p->fd);
	rr_ep_activate(w->so);
	ready -= !ask_one(w);
	return ready ? ready : RR_POLL_ON;
}

/* Sleeps on `wake` and the kernel's fds. A cancellation point. Returns as rr_poll_nap(); the
 * connection is left. */
static int sleep_at_rest(struct nap *w, int wake, rr_time deadline)
{
	struct pollfd k[RR_NAP_FEW];
	rr_time now = rr_now(), over = rr_min(now + rr_nap_time(), rr_conn_idle(now));
	rr_time end = rr_min(deadline, over);
	struct timespec ts;
	int rc;

	memcpy(k, w->fds, w->n * sizeof(*k));
	k[w->p - w->fds] = (struct pollfd){ wake, POLLIN, 0 };
	pthread_cleanup_push(nap_cancelled, w);
	rr_cancel_back(w->cancel);
	rc = rr_real_sleep(k, w->n, rr_left(&ts, now, end), NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &w->cancel);
	pthread_cleanup_pop(0);
	if (rc > 0) {
		rr_nap_had_news(now);
		return nap_ended(w, k, rc);
	}
	if (!rc && rr_nap_has_missed(w->p->fd, end - now)) {
		rr_conn_disarm(w->c, w->p->fd);
		rr_ep_activate(w->so);
		return RR_POLL_ON;
	}
	rr_conn_rested(w->c);
	if (rc < 0)
		return errno == EINTR ? -EINTR : RR_POLL_ON;
	return end == deadline ? 0 : RR_POLL_ON;
}

/* May there be something without a sleep? Spins for it where that pays; but where the kernel
 * would have to be asked in between, that is not for here. */
static bool may_have_news(const struct nap *w, rr_time deadline)
{
	struct rr_spin spin = { 0 };

	if (w->n == 1)
		return rr_wait_spin(w->c, POLLIN, deadline);
	rr_conn_spin(w->c, &spin);
	return spin.want || spin.yields || rr_conn_peek(w->c, POLLIN);
}

static int nap(struct nap *w, rr_time deadline)
{
	int wake;

	if (!rr_conn_may_rest(w->c))
		return RR_POLL_ON;
	wake = rr_conn_rest(w->c);
	if (wake < 0) {
		if (may_have_news(w, deadline))
			return w->n == 1 && ask_one(w) ? 1 : RR_POLL_ON;
		if (rr_conn_arm(w->c, w->p->fd, POLLIN))
			return RR_POLL_ON;
		wake = rr_conn_rests(w->c);
		if (wake < 0) {
			rr_conn_disarm(w->c, w->p->fd);
			rr_ep_activate(w->so);
			return RR_POLL_ON;
		}
	}
	return sleep_at_rest(w, wake, deadline);
}

/* Has f, which has a number in the app's array, nothing to do with a connection of ours? */
static bool is_none_of_ours(struct rr_file *f)
{
	bool unmet = f && rr_unmet_file(f);	/* before its connection is looked for */

	return !f || (f->kind == RR_KIND_SOCK && !unmet && !rr_file_conn(f));
}

/* The only entry that is not the kernel's; NULL: there is none, or more than one. */
static struct pollfd *only_ours(struct pollfd *fds, nfds_t n)
{
	struct pollfd *p = NULL;

	for (nfds_t i = 0; i < n; i++) {
		if (is_none_of_ours(rr_fdt_peek(fds[i].fd)))
			continue;
		if (p)
			return NULL;
		p = &fds[i];
	}
	return p;
}

int rr_poll_nap(struct pollfd *fds, nfds_t n, rr_time deadline)
{
	struct nap w = { .fds = fds, .n = n, .p = n == 1 ? fds : only_ours(fds, n) };
	int rc = RR_POLL_ON, saved = errno;

	if (!w.p || rr_ev_want((unsigned short)w.p->events) != POLLIN)
		return rc;
	w.cancel = rr_cancel_off();
	w.c = rr_conn_met(w.p->fd, &w.so);
	if (w.c) {
		for (nfds_t i = 0; i < n; i++)
			fds[i].revents = 0;
		rc = nap(&w, deadline);
		rr_file_put(&w.so->f);
	}
	rr_cancel_back(w.cancel);
	errno = saved;
	return rc;
}
