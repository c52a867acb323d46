/* SPDX-License-Identifier: BSD-3-Clause */
/* poll() where the kernel has the first word about all connections of ours. As long as none is
 * carried these are most waits of clients and servers. The kernel sleeps on the app's own
 * array, and only connections that it reports are asked. */
#include <errno.h>
#include <pthread.h>

#include "core/base/os.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/wrap.h"

struct plain {
	struct rr_plainwait *wait;	/* NULL: no entry has a connection of ours */
	uint32_t files;			/* rr_fdt_losses() before it began */
	bool unmet;			/* one has not been met */
	int cancel;
};

/* Is the kernel's word enough for fd? A connection is noted in w->wait. */
static bool is_plain(struct plain *w, int fd)
{
	struct rr_file *f = rr_fdt_peek(fd);
	bool unmet = f && rr_unmet_file(f);	/* before its connection is looked for */
	struct rr_conn *c = rr_file_conn(f);

	if (c) {
		if (!rr_plainwait_add(&w->wait, c))
			return false;
		rr_plainwait_note(w->wait, fd);
		return true;
	}
	if (!unmet)
		return !f || f->kind == RR_KIND_SOCK;
	w->unmet = true;
	return rr_unmet_stays(container_of(f, struct rr_sock, f));
}

/* Is it enough for all entries? Those that a paused wait knows are not looked at; all of them
 * have to be here. */
static bool are_plain(struct plain *w, const struct pollfd *fds, nfds_t n, uint32_t known)
{
	for (nfds_t i = 0; i < n; i++) {
		if (known && rr_plainwait_knows(w->wait, fds[i].fd))
			known--;
		else if (!is_plain(w, fds[i].fd))
			return false;
	}
	return !known;
}

static bool is_sure(const struct plain *w)
{
	return !w->wait || rr_plainwait_is_sure(w->wait);
}

/* May the thread sleep on the array as it is? An upgrade may take a connection away from the
 * kernel while the array is read. So, if rr_plainwait_is_sure() says no, all of it is asked a
 * second time. */
static bool may_sleep(struct plain *w, const struct pollfd *fds, nfds_t n)
{
	uint32_t known;

	w->files = rr_fdt_losses();
	w->wait = rr_plainwait_resume(w->files, &known);
	if (w->wait) {
		if (are_plain(w, fds, n, known) && is_sure(w))
			return true;
		rr_plainwait_end(w->wait);
		w->wait = NULL;
		w->unmet = false;
	}
	return are_plain(w, fds, n, 0) && (is_sure(w) || are_plain(w, fds, n, 0));
}

/* Cleanup handler of a thread that is cancelled in its sleep. */
static void plain_cancelled(void *arg)
{
	rr_plainwait_end(((struct plain *)arg)->wait);
}

/* Sleeps in the kernel on the app's own array. A cancellation point. */
static int sleep_plain(struct plain *w, struct pollfd *fds, nfds_t n,
		       const struct timespec *left, const sigset_t *mask)
{
	int rc;

	pthread_cleanup_push(plain_cancelled, w);
	rr_cancel_back(w->cancel);
	rc = rr_real_sleep(fds, n, left, mask);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &w->cancel);
	pthread_cleanup_pop(0);
	return rc < 0 ? -errno : rc;
}

/* The kernel has reported p, a connection of ours, which may know better: the bytes may have
 * been an offer that it has taken in. Corrects p->revents. Returns 1 if p is not ready after
 * all. */
static int ask_plain(struct pollfd *p)
{
	unsigned told = (unsigned short)p->revents;
	struct rr_sock *so;
	struct rr_conn *c;
	int r;

	if (rr_unmet_any() && rr_unmet_told(p))
		return 0;
	c = rr_conn_at(p->fd, &so);
	if (!c)
		return 0;
	rr_ep_activate(so);
	r = rr_sock_poll(so, c, p->fd, (unsigned short)p->events, rr_ask_told(told));
	if (r == RR_CONN_KERNEL)
		r = rr_still_told(c, p, p->revents);
	rr_file_put(&so->f);
	p->revents = r > 0 ? (short)r : 0;
	return r <= 0;
}

/* Of the `ready` entries that the kernel reported, how many are ready for the app. */
static int ask_all(struct pollfd *fds, nfds_t n, int ready)
{
	int left = ready;

	for (nfds_t i = 0; left > 0 && i < n; i++) {
		if (!fds[i].revents)
			continue;
		left--;
		if (rr_fdt_has(fds[i].fd))
			ready -= ask_plain(&fds[i]);
	}
	return ready;
}

/* RR_POLL_ON also follows a sleep that was ended for the sake of idle connections, or by news
 * that was not for the app. */
RR_NOINLINE int rr_poll_plain(struct pollfd *fds, nfds_t n, rr_time deadline,
			      const sigset_t *mask)
{
	struct plain w = { .wait = NULL };
	int rc = RR_POLL_ON, saved = errno;
	struct timespec ts;
	rr_time now, until;

	w.cancel = rr_cancel_off();
	if (may_sleep(&w, fds, n)) {
		now = rr_now();
		until = rr_min(deadline, rr_conn_idle(now));
		if (w.unmet)
			until = rr_min(until, now + RR_UNMET_MOST);
		rc = sleep_plain(&w, fds, n, rr_left(&ts, now, until), mask);
		rr_plainwait_pause(w.wait, w.files);
		if (rc > 0)
			rc = ask_all(fds, n, rc);
		if (!rc && deadline && (until < deadline || rr_now() < deadline))
			rc = RR_POLL_ON;
	} else {
		rr_plainwait_end(w.wait);
	}
	rr_cancel_back(w.cancel);
	errno = saved;
	return rc;
}
