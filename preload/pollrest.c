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
	LOOK_MOST = 512,	/* connections verified in one go: 1 to 6 ms */
};
/* A wait that lasts this long looks at all connections at rest, once, if they are not too many
 * for one look. Where looks find nothing the next one comes later, at LOOK_NEXT at the latest:
 * a server with a call every few seconds would wake up for one after each. */
#define LOOK_SOON	RR_SEC
/* If they are too many, at the next of them each time this has passed. */
#define LOOK_NEXT	(30 * RR_SEC)
/* Each wait looks at the connections at rest if nobody has for this long. */
#define REST_MOST	(60 * RR_SEC)

static _Atomic uint32_t calm;	/* rounds of looks since one has found something */

void rr_slot_wakes(struct rr_work *w, struct rr_slot *s)
{
	if (s->listed)
		return;
	s->listed = true;
	s->next = w->awake;
	w->awake = s;
}

/* --- the set --- */

bool rr_pollrest_take(struct rr_work *w)
{
	w->set = rr_restset_take();
	if (w->set)
		w->ceased = rr_standing_begin();
	return w->set;
}

void rr_pollrest_give(struct rr_work *w)
{
	w->set = false;
	rr_standing_end();
	rr_restset_give();
}

/* --- at rest --- */

/* The slot's connection, which rests, is a member of the standing wait from now on. False: it
 * is not. */
static bool stands(struct rr_work *w, struct rr_slot *s, struct rr_conn *c)
{
	if (!rr_conn_stands(c, (uint32_t)(s - w->slots)))
		return false;
	s->conn = c;
	s->rests = s->standing = true;
	w->resting++;
	w->standing++;
	return true;
}

/* The slot stands no longer; its connection may be another's by now. */
static void stands_no_more(struct rr_work *w, struct rr_slot *s)
{
	if (rr_standing_at(s->conn) == (uint32_t)(s - w->slots))
		rr_standing_part(s->conn);
	s->standing = false;
	w->standing--;
}

/* The same, and it does not rest either. */
static void neither_stands_nor_rests(struct rr_work *w, struct rr_slot *s)
{
	stands_no_more(w, s);
	s->rests = false;
	w->resting--;
}

/* A slot that held no reference gets one. False: its fd is no longer what it was, and the slot
 * is the kernel's. */
static bool get_file(struct rr_work *w, struct rr_slot *s)
{
	struct rr_file *f = rr_fdt_get(w->fds[s->at].fd);

	if (f == s->file && rr_file_conn(f) == s->conn)
		return true;
	if (f)
		rr_file_put(f);
	rr_slot_drop(w, s);
	return false;
}

/* A slot that stands gets a reference and is counted, as others at rest. False as for
 * get_file(). */
static bool stands_alone(struct rr_work *w, struct rr_slot *s)
{
	if (!get_file(w, s))
		return false;
	rr_conn_sleeps(s->conn);
	stands_no_more(w, s);
	return true;
}

void rr_pollrest_put(struct rr_work *w, struct rr_slot *s, int wake)
{
	if (w->set && rr_restset_join(rr_slot_sock(s), wake) && stands(w, s, s->conn)) {
		rr_conn_rested(s->conn);
		rr_file_put(s->file);
		wake = -1;
	} else {
		s->rests = true;
		w->resting++;
	}
	if (s->k || wake >= 0)
		*rr_slot_kern(w, s) = (struct pollfd){ wake, POLLIN, 0 };
}

/* May the connection rest as far as the app's call goes? Not if the app also waits to write,
 * nor if its number has not been verified for long: the call that reads or writes by that
 * number verifies it. */
static bool slot_may_rest(const struct rr_work *w, const struct rr_slot *s, rr_time now)
{
	const struct rr_sock *so = rr_slot_sock(s);
	unsigned want = rr_slot_want(w, s);

	return want & POLLIN && !(want & POLLOUT) &&
	       !(atomic_load_explicit(&so->flags, memory_order_relaxed) & RR_SOCK_STDIO) &&
	       now <= atomic_load_explicit(&so->verified, memory_order_relaxed) + REST_MOST;
}

bool rr_pollrest_finds(struct rr_work *w, struct rr_slot *s, rr_time now)
{
	int wake = slot_may_rest(w, s, now) ? rr_conn_rest(s->conn) : -1;

	if (wake >= 0)
		rr_pollrest_put(w, s, wake);
	return wake >= 0;
}

bool rr_pollrest_stands(struct rr_work *w, struct rr_slot *s, rr_time now)
{
	struct rr_conn *c = w->set ? rr_file_conn(s->file) : NULL;
	int fd = w->fds[s->at].fd;

	if (!c || !slot_may_rest(w, s, now) ||
	    !rr_restset_has(rr_slot_sock(s), rr_conn_rests(c)) || !stands(w, s, c))
		return false;
	if (likely(rr_fdt_peek(fd) == s->file && rr_file_conn(s->file) == c))
		return true;
	neither_stands_nor_rests(w, s);
	return false;
}

/* The connection no longer rests, for this thread: the slot is asked from now on. rang: its
 * wake-up fd was readable, or its anchor has news. */
void rr_pollrest_leaves(struct rr_work *w, struct rr_slot *s, bool rang)
{
	if (s->standing && !stands_alone(w, s))
		return;
	s->rests = false;
	w->resting--;
	rr_slot_wakes(w, s);
	*rr_slot_kern(w, s) = (struct pollfd){ -1, w->fds[s->at].events, 0 };
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
	if (!get_file(w, s))
		return false;
	not_plain(w, s);
	rr_slot_wakes(w, s);
	rr_ep_activate(rr_slot_sock(s));
	return true;
}

/* Goes on without the set: each member gets an entry of its own, or is asked. */
void rr_pollrest_without(struct rr_work *w)
{
	for (struct rr_slot *s = w->slots; s < w->slots + w->nslots; s++) {
		int wake;

		if (!s->standing || !stands_alone(w, s))
			continue;
		wake = rr_conn_wake_fd(s->conn);
		if (wake >= 0)
			*rr_slot_kern(w, s) = (struct pollfd){ wake, POLLIN, 0 };
		else
			rr_pollrest_leaves(w, s, false);
	}
	rr_pollrest_give(w);
}

/* The slot of a member of the set; NULL: the member is not in this array. */
static struct rr_slot *rest_slot(struct rr_work *w, struct rr_sock *so)
{
	const struct rr_conn *c = rr_sock_conn(so);
	uint32_t at = c ? rr_standing_at(c) : RR_NO_SLOT;
	struct rr_slot *s = &w->slots[at];

	return at < w->nslots && s->file == &so->f && s->standing ? s : NULL;
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
			fresh += !rr_slot_kern(w, s)->revents;
			rr_slot_kern(w, s)->revents = POLLIN;
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
	struct pollfd *k = &w->kern[0];

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
	if (s->standing) {
		neither_stands_nor_rests(w, s);
	} else {
		if (s->rests)
			rr_pollrest_leaves(w, s, false);
		if (s->plain)
			not_plain(w, s);
		else
			rr_file_put(s->file);
	}
	s->file = NULL;
	s->kernel = false;
	w->others++;
	*rr_slot_kern(w, s) = (struct pollfd){ w->fds[s->at].fd, w->fds[s->at].events, 0 };
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

/* Checks that the number of the set is still the set's. Where it was closed unseen, the
 * connections at rest would ring for nobody. */
static void verify_set(struct rr_work *w)
{
	struct rr_sock *one;

	if (w->set && rr_restset_rang(&one, 1) < 0)
		rr_pollrest_without(w);
}

/* The next slot at rest that is to be verified, from *at on; NULL: none. */
static struct rr_slot *next_at_rest(struct rr_work *w, nfds_t *at)
{
	while (*at < w->nslots) {
		struct rr_slot *s = &w->slots[(*at)++];

		if (s->file && s->rests)
			return s;
	}
	return NULL;
}

/* Asks the kernel about the anchors of the next slots at rest, LOOK_MOST at most, into p.
 * Returns how many; 0 also where it does not say. */
static nfds_t ask_anchors(struct rr_work *w, struct pollfd *p)
{
	nfds_t n = 0, at = w->verified;
	struct rr_slot *s;

	while (n < LOOK_MOST && (s = next_at_rest(w, &at)))
		p[n++] = w->fds[s->at];
	return rr_real.poll(p, n, 0) < 0 ? 0 : n;
}

rr_time rr_pollrest_look(const struct rr_work *w, rr_time now)
{
	uint32_t n = rr_min(atomic_load_explicit(&calm, memory_order_relaxed), 8u);

	if (w->resting > LOOK_MOST)
		return now + LOOK_NEXT;
	return now + rr_min(LOOK_SOON << n, LOOK_NEXT);
}

/* Two threads may count one for two: then the next look comes sooner. */
static void note_look(bool found)
{
	uint32_t n = atomic_load_explicit(&calm, memory_order_relaxed);

	atomic_store_explicit(&calm, found ? 0 : n + 1, memory_order_relaxed);
}

/* When to verify those that this look has left; if none are left, the round is over. */
static rr_time next_look(struct rr_work *w)
{
	if (w->verified < w->nslots)
		return rr_now() + LOOK_NEXT;
	w->verified = 0;
	return RR_TIME_NEVER;
}

/* The number of a connection at rest may be another file's by now, closed where we cannot see
 * it, and an anchor may have ended while the peer lives. The cost is one fstat() for each, and
 * one poll() for LOOK_MOST of them: a connection whose anchor has nothing to report goes on
 * resting. */
void rr_pollrest_verify(struct rr_work *w)
{
	struct pollfd *p;
	struct rr_slot *s;
	nfds_t n, i = 0;
	bool found = false;

	verify_set(w);
	/* where the fds to sleep on were, behind what entries may be added now */
	p = w->kern + w->nk + rr_min(w->nslots, (nfds_t)LOOK_MOST);
	n = ask_anchors(w, p);
	for (; i < LOOK_MOST && (s = next_at_rest(w, &w->verified)); i++) {
		int fd = w->fds[s->at].fd;
		bool same = rr_file_verify(s->file, fd);

		if (same && i < n && !p[i].revents)
			continue;
		found = true;
		rr_pollrest_leaves(w, s, same);		/* which has the anchor looked at */
		if (!same)
			rr_slot_drop(w, s);
	}
	note_look(found);
	w->verify = next_look(w);
}
