/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections at rest in the array of a poll() or select(): their wake-up fds stand in the
 * kernel's array in place of the app's fds, or one epoll set stands for all of them
 * (restset.h). How the wait goes is ready_poll.c's. */

#include "preload/pollrest.h"

#include "core/base/os.h"
#include "preload/real.h"
#include "preload/restset.h"

enum {
	SPREAD = 16,		/* members of the set that rang, looked at in one go */
};
/* Each wait looks at the connections at rest if nobody has for this long. */
#define REST_MOST	(60 * RR_SEC)

void rr_slot_wakes(struct rr_work *w, struct rr_slot *s)
{
	if (s->listed)
		return;
	s->listed = true;
	s->next = w->awake;
	w->awake = s;
}

/* --- at rest --- */

void rr_pollrest_put(struct rr_work *w, struct rr_slot *s, int wake)
{
	struct rr_sock *so = rr_slot_sock(s);
	bool joined = w->set && rr_restset_join(so, wake);

	if (joined && so->slot != (uint32_t)(s - w->slots))
		so->slot = (uint32_t)(s - w->slots);
	w->kern[s->at] = (struct pollfd){ joined ? -1 : wake, POLLIN, 0 };
	s->rests = true;
	w->resting++;
}

/* Is the connection at rest since before this call? Then its wake-up fd takes the app's place.
 * Not if the app also waits to write, nor if its number has not been verified for long: the
 * call that reads or writes by that number verifies it. */
bool rr_pollrest_finds(struct rr_work *w, struct rr_slot *s, rr_time now)
{
	struct rr_sock *so = rr_slot_sock(s);
	int wake;

	if (rr_slot_want(w, s) & POLLOUT || !(rr_slot_want(w, s) & POLLIN) ||
	    atomic_load_explicit(&so->flags, memory_order_relaxed) & RR_SOCK_STDIO ||
	    now > atomic_load_explicit(&so->verified, memory_order_relaxed) + REST_MOST)
		return false;
	wake = rr_conn_rest(s->conn);
	if (wake >= 0)
		rr_pollrest_put(w, s, wake);
	return wake >= 0;
}

/* The connection no longer rests, for this thread: the slot is asked from now on. rang: its
 * wake-up fd was readable. */
void rr_pollrest_leaves(struct rr_work *w, struct rr_slot *s, bool rang)
{
	s->rests = false;
	w->resting--;
	rr_slot_wakes(w, s);
	w->kern[s->at] = (struct pollfd){ -1, w->fds[s->at].events, 0 };
	if (!rang) {
		rr_conn_rested(s->conn);
		return;
	}
	rr_conn_disarm(s->conn, w->fds[s->at].fd);
	rr_ep_activate(rr_slot_sock(s));
}

/* The slot is no longer plain: the kernel has spoken of it. */
static void not_plain(struct rr_work *w, struct rr_slot *s)
{
	rr_plainwait_leave(w->plainwait, s->conn);
	s->plain = false;
	w->plain--;
}

bool rr_plain_leaves(struct rr_work *w, struct rr_slot *s)
{
	struct rr_file *f = rr_fdt_get(w->fds[s->at].fd);

	if (f != s->file || rr_file_conn(f) != s->conn) {
		if (f)
			rr_file_put(f);
		rr_slot_drop(w, s);
		return false;
	}
	not_plain(w, s);
	rr_slot_wakes(w, s);
	rr_ep_activate(rr_slot_sock(s));
	return true;
}

/* Goes on without the set: each member gets an entry of its own, or is asked. */
void rr_pollrest_without(struct rr_work *w)
{
	w->set = false;
	rr_restset_give();
	for (struct rr_slot *s = w->slots; s < w->slots + w->nslots; s++) {
		struct pollfd *k = &w->kern[s->at];

		if (!s->rests || k->fd >= 0)
			continue;
		k->fd = rr_conn_wake_fd(s->conn);
		if (k->fd < 0)
			rr_pollrest_leaves(w, s, false);
	}
}

/* The slot of a member of the set; NULL: the member is not in this array. */
static struct rr_slot *rest_slot(struct rr_work *w, const struct rr_sock *so)
{
	struct rr_slot *s = w->slots + so->slot, *end = w->slots + w->nslots;

	if (likely(so->slot < w->nslots && s->file == &so->f && s->rests))
		return s;
	for (s = w->slots; s < end && (s->file != &so->f || !s->rests); s++)
		;
	return s < end ? s : NULL;
}

/* Looks at one handful of members that rang. False: no more are to be found. */
static bool spread_some(struct rr_work *w)
{
	struct rr_sock *who[SPREAD];
	int n = rr_restset_rang(who, SPREAD), fresh = 0;
	bool intact = n >= 0;

	for (int i = 0; i < n; i++) {
		struct rr_slot *s = rest_slot(w, who[i]);

		if (s) {
			fresh += !w->kern[s->at].revents;
			w->kern[s->at].revents = POLLIN;
		} else if (intact) {
			intact = rr_restset_leave(who[i]);
		}
	}
	if (!intact)
		rr_pollrest_without(w);
	return intact && n == SPREAD && fresh;
}

/* Turns the kernel's answer for the set into answers for its members. Members that rang and
 * stand in another array, or do not rest any more, are taken out of the set, since they would
 * keep it readable; they join again at their next rest. */
void rr_pollrest_spread(struct rr_work *w)
{
	struct pollfd *k = &w->kern[w->n];

	if (!w->set || !k->revents)
		return;
	while (spread_some(w))	/* the kernel begins with those it has not reported yet */
		;
	*k = (struct pollfd){ w->set ? rr_restset_fd() : -1, POLLIN, 0 };
}

void rr_slot_drop(struct rr_work *w, struct rr_slot *s)
{
	if (!s->file)
		return;
	if (s->rests)
		rr_pollrest_leaves(w, s, false);
	if (s->plain)
		not_plain(w, s);
	else
		rr_file_put(s->file);
	s->file = NULL;
	s->kernel = false;
	w->others++;
	w->kern[s->at].fd = w->fds[s->at].fd;
}

/* Nothing has happened on the connection for a while: puts it to rest, if it can be. */
void rr_pollrest_tires(struct rr_work *w, struct rr_slot *s)
{
	unsigned want = rr_slot_want(w, s);
	int fd = w->fds[s->at].fd, wake;

	if (!s->conn || want & POLLOUT || !(want & POLLIN) || !rr_conn_is_quiet(s->conn) ||
	    rr_conn_arm(s->conn, fd, want))
		return;
	wake = rr_conn_rests(s->conn);
	if (wake >= 0) {
		rr_pollrest_put(w, s, wake);
		return;
	}
	rr_conn_disarm(s->conn, fd);
	rr_ep_activate(rr_slot_sock(s));
}

/* Asks the kernel about the app's own entries in one go. False: it does not say. What it leaves
 * in revents is overwritten by the look that follows. */
static bool ask_anchors(struct rr_work *w)
{
	return w->resting && rr_real.poll(w->fds, w->n, 0) >= 0;
}

/* Checks that the number of the set is still the set's. Where it was closed unseen, the
 * connections at rest would ring for nobody. */
static void verify_set(struct rr_work *w)
{
	struct rr_sock *one;

	if (w->set && rr_restset_rang(&one, 1) < 0)
		rr_pollrest_without(w);
}

/* Verifies the connections at rest. The number of one may be another file's by now, closed
 * where we cannot see it, and an anchor may have ended while the peer lives. The cost is one
 * fstat() for each and one poll() for all: a connection whose anchor has nothing to report goes
 * on resting. */
void rr_pollrest_verify(struct rr_work *w)
{
	bool asked = ask_anchors(w);

	w->verify = RR_TIME_NEVER;
	verify_set(w);
	for (struct rr_slot *s = w->slots; s < w->slots + w->nslots; s++) {
		const struct pollfd *p = &w->fds[s->at];
		bool same;

		if (!s->file || !s->rests)
			continue;
		same = rr_file_verify(s->file, p->fd);
		if (same && asked && !p->revents)
			continue;
		rr_pollrest_leaves(w, s, false);
		if (!same)
			rr_slot_drop(w, s);
	}
}

void rr_pollrest_start(struct rr_work *w, nfds_t ours)
{
	w->set = ours >= RR_POLL_MANY && rr_restset_take();
	if (w->set)
		w->kern[w->n] = (struct pollfd){ rr_restset_fd(), POLLIN, 0 };
}
