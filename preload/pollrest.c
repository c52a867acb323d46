/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections at rest in an array of poll() or select(): the wake-up fd stands in place of
 * the app's. */

#include "preload/pollrest.h"

#include "core/base/os.h"
#include "preload/restset.h"

enum {
	SPIN_LOOK = 4000,	/* ns between looks at the kernel's fds … */
	SPIN_LOOK_EACH = 250,	/* … and for each that is to be looked at */
	MANY = 64,
	SPREAD = 16,		/* members of the set that rang, looked at in one go */
	EMPTY = 32,		/* entries that cost the kernel as much as one with a
				 * descriptor */
};
/* any wait looks at what rests, if that was not done for so long */
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

/* A connection that was at rest before this call. Who reads or writes by that number will
 * look at what it is. */
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

/* It rests no more, for this thread. */
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

/* Without the set: each has its own entry, or is asked. */
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

/* The slot of a member of the set; NULL: it is not in this array. */
static struct rr_slot *rest_slot(struct rr_work *w, const struct rr_sock *so)
{
	struct rr_slot *s = w->slots + so->slot, *end = w->slots + w->nslots;

	if (likely(so->slot < w->nslots && s->file == &so->f && s->rests))
		return s;
	for (s = w->slots; s < end && (s->file != &so->f || !s->rests); s++)
		;
	return s < end ? s : NULL;
}

/* One handful of members that rang. False: there are no more that are not known yet. */
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

/* The kernel's answer for the set becomes one for its members. Those of other arrays, and
 * those that do not rest any more and have yet to be read from, are in nobody's way: they
 * join again. */
void rr_pollrest_spread(struct rr_work *w)
{
	struct pollfd *k = &w->kern[w->n];

	if (!w->set || !k->revents)
		return;
	while (spread_some(w))	/* the kernel begins with those that it has not told of */
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

/* Nothing has happened on it for a while: whatever does will show on its wake-up fd. */
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

/* What rests is looked at: its number may be another file's by now, closed where nobody can
 * see it, and its anchor may have ended while the peer lives. */
void rr_pollrest_verify(struct rr_work *w)
{
	w->verify = RR_TIME_NEVER;
	for (struct rr_slot *s = w->slots; s < w->slots + w->nslots; s++) {
		if (!s->file || !s->rests)
			continue;
		rr_pollrest_leaves(w, s, false);
		if (!rr_file_verify(s->file, w->fds[s->at].fd))
			rr_slot_drop(w, s);
	}
}

/* --- asking the kernel about many: one look at a thousand takes longer than a call of RPC,
 * so there is some time between two while some connections always have news --- */

static _Atomic uint64_t asked[8];	/* about which array, and when (us) */

static uint64_t array_tag(const struct rr_work *w)
{
	return ((uintptr_t)w->fds >> 4 ^ w->n << 20) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
}

/* What the kernel has to look at, about. */
static nfds_t kernels(const struct rr_work *w)
{
	return w->others + w->plain + (w->set ? w->n / EMPTY : w->resting);
}

rr_time rr_look_gap(const struct rr_work *w)
{
	return SPIN_LOOK + SPIN_LOOK_EACH * (rr_time)kernels(w);
}

/* When the kernel was last asked about this array of many; 0 long ago. */
rr_time rr_looked_at(const struct rr_work *w)
{
	uint64_t tag = array_tag(w), word;

	if (kernels(w) < MANY)
		return 0;
	word = atomic_load_explicit(&asked[tag % 8], memory_order_relaxed);
	return (word & 0xffffff) != tag ? 0 : (word >> 24) * RR_USEC;
}

void rr_look_note(const struct rr_work *w)
{
	uint64_t tag = array_tag(w);

	if (kernels(w) >= MANY)
		atomic_store_explicit(&asked[tag % 8], rr_now() / RR_USEC << 24 | tag,
				      memory_order_relaxed);
}

bool rr_looked_just_now(const struct rr_work *w)
{
	rr_time at = rr_looked_at(w);

	return at && rr_now() < at + rr_look_gap(w);
}

void rr_pollrest_start(struct rr_work *w, nfds_t ours)
{
	w->set = ours >= MANY && rr_restset_take();
	if (w->set)
		w->kern[w->n] = (struct pollfd){ rr_restset_fd(), POLLIN, 0 };
}
