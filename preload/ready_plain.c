/* SPDX-License-Identifier: BSD-3-Clause */
/* poll() where of all connections of ours the kernel has the first word: as long as none is
 * carried, that is most waits of clients and of servers of a few. The kernel sleeps on the
 * app's own array; only what it says of ours is looked at. */
#include <errno.h>
#include <pthread.h>

#include "core/base/os.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/wrap.h"

struct plain {
	struct rr_sock *so;
	struct rr_conn *conn;
	struct pollfd *p;
};

struct plains {
	struct plain of[RR_POLL_PLAIN];
	unsigned n;
	int cancel;
};

static void wake_all(struct plains *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		rr_conn_disarm(w->of[i].conn, w->of[i].p->fd);
		rr_ep_activate(w->of[i].so);
	}
}

static void put_all(struct plains *w)
{
	for (unsigned i = 0; i < w->n; i++)
		rr_file_put(&w->of[i].so->f);
}

static void plain_cancelled(void *arg)
{
	wake_all(arg);
	put_all(arg);
}

/* False: it takes more than that. */
static bool add_plain(struct plains *w, struct pollfd *p)
{
	struct rr_file *f = p->fd < 0 ? NULL : rr_fdt_get(p->fd);
	struct rr_sock *so = f && f->kind != RR_KIND_EPOLL ? container_of(f, struct rr_sock, f)
							   : NULL;
	struct rr_conn *c = so ? rr_sock_conn(so) : NULL;
	bool others = so && (!c || !rr_sock_check(so, p->fd));

	if (!others && c && w->n < RR_POLL_PLAIN && rr_conn_arm_plain(c)) {
		w->of[w->n++] = (struct plain){ so, c, p };
		return true;
	}
	if (f)
		rr_file_put(f);
	return !f || others;
}

static bool add_all(struct plains *w, struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (!add_plain(w, &fds[i]))
			return false;
	return w->n > 0;
}

static int sleep_plain(struct plains *w, struct pollfd *fds, nfds_t n,
		       const struct timespec *left, const sigset_t *mask)
{
	int rc;

	pthread_cleanup_push(plain_cancelled, w);
	rr_cancel_back(w->cancel);
	rc = rr_real.ppoll(fds, n, left, mask);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &w->cancel);
	pthread_cleanup_pop(0);
	return rc < 0 ? -errno : rc;
}

/* What the kernel said of one of ours, which may know better: it may have been an offer, taken
 * in by now. How many entries that are ready this makes less. */
static int ask_plain(struct plain *s)
{
	unsigned told = (unsigned short)s->p->revents;
	int r;

	if (!told || !rr_sock_at(s->so, s->p->fd))
		return 0;
	r = rr_sock_poll(s->so, s->conn, s->p->fd, (unsigned short)s->p->events,
			 rr_ask_told(told));
	if (r > 0 && !rr_sock_check(s->so, s->p->fd))
		return 0;
	if (r == RR_CONN_KERNEL)
		r = rr_still_told(s->conn, s->p, s->p->revents);
	s->p->revents = r > 0 ? (short)r : 0;
	return r <= 0;
}

int rr_poll_plain(struct pollfd *fds, nfds_t n, rr_time deadline, const sigset_t *mask)
{
	struct plains w = { .n = 0 };
	int rc = RR_POLL_ON, saved = errno;
	rr_time now, until;
	struct timespec ts;

	w.cancel = rr_cancel_off();
	if (add_all(&w, fds, n)) {
		now = rr_now();
		until = rr_min(deadline, rr_conn_idle(now));
		rc = sleep_plain(&w, fds, n, rr_left(&ts, now, until), mask);
		wake_all(&w);
		for (unsigned i = 0; rc > 0 && i < w.n; i++)
			rc -= ask_plain(&w.of[i]);
		if (!rc && deadline && (until < deadline || rr_now() < deadline))
			rc = RR_POLL_ON;
	} else {
		wake_all(&w);
	}
	put_all(&w);
	rr_cancel_back(w.cancel);
	errno = saved;
	return rc;
}
