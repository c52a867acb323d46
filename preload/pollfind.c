/* SPDX-License-Identifier: BSD-3-Clause */
/* The arrays of a poll() or select(): which of the app's entries are ours, and what the kernel
 * is given.
 *
 * A long array is mostly the array of the call before, with the same connections at rest in it.
 * So the arrays of the last wait that had the set of resting connections are kept, and those
 * connections stay members of the standing wait. If the app's entries are the same, and neither
 * the fd table nor a member has changed since, only the entries that did not stand are looked
 * up again: what a wait costs the library then is one comparison of two arrays. */

#include <string.h>

#include "core/base/os.h"
#include "preload/pollrest.h"
#include "preload/real.h"
#include "preload/restset.h"
#include "preload/scratch.h"

/* For so long the fds of members need not be verified. */
#define KEEP_MOST	(60 * RR_SEC)

/* Belongs to the thread that holds the set. mem NULL: nothing is kept. */
static struct rr_work kept;
/* How many entries the kept array has, for who does not hold the set; 0: nothing is kept. */
static _Atomic nfds_t kept_n;

/* --- which entries are ours --- */

/* Has the kernel the first word about the slot's connection? Then it is noted in
 * w->plainwait. */
static bool slot_is_plain(struct rr_work *w, struct rr_slot *s)
{
	struct rr_conn *c = rr_file_conn(s->file);

	if (!c || !rr_plainwait_add(&w->plainwait, c))
		return false;
	s->conn = c;
	s->plain = true;
	w->plain++;
	return true;
}

/* Is the slot, which is referenced, ours to answer? */
static bool slot_is_ours(struct rr_work *w, struct rr_slot *s, rr_time now)
{
	int fd = w->fds[s->at].fd;
	struct rr_sock *so;

	if (s->file->kind == RR_KIND_EPOLL) {
		rr_ep_show_nested();
		return rr_ep_managed(s->file);
	}
	so = container_of(s->file, struct rr_sock, f);
	s->conn = rr_sock_conn(so);
	return s->conn && (rr_pollrest_finds(w, s, now) || rr_sock_check(so, fd));
}

/* Makes *s the slot of entry s->at, whose file is peeked. False: the entry is the kernel's. */
static bool fill_slot(struct rr_work *w, struct rr_slot *s, rr_time now)
{
	if (slot_is_plain(w, s) || rr_pollrest_stands(w, s, now))
		return true;
	s->file = rr_fdt_get(w->fds[s->at].fd);
	if (!s->file)
		return false;
	if (slot_is_ours(w, s, now))
		return true;
	w->listeners += rr_file_listens(s->file);
	rr_file_put(s->file);
	s->file = NULL;
	return false;
}

/* Looks the app's entry `at` up. It gets slot number `slot` if it is ours; RR_NO_SLOT: the next
 * one. */
static void look_up_entry(struct rr_work *w, uint32_t at, uint32_t slot, rr_time now)
{
	int fd = w->fds[at].fd;
	struct rr_file *f = rr_fdt_peek(fd);
	uint32_t n = slot == RR_NO_SLOT ? (uint32_t)w->nslots : slot;
	struct rr_slot *s;

	w->fds[at].revents = 0;
	if (fd < 0 && w->set)	/* without it the kernel judges the length of the array */
		return;
	if (slot != RR_NO_SLOT)
		w->slots[slot].file = NULL;
	if (f && n < w->ours) {
		s = &w->slots[n];
		*s = (struct rr_slot){ .file = f, .at = at };
		if (fill_slot(w, s, now)) {
			w->nslots += slot == RR_NO_SLOT;
			if (!s->standing && !s->k)
				s->k = rr_work_add(w, at, n);
			return;
		}
		s->file = NULL;
	}
	w->others += fd >= 0;
	rr_work_add(w, at, slot);
}

/* --- the arrays --- */

static size_t find_size(nfds_t n, nfds_t ours, bool seen)
{
	return ours * sizeof(struct rr_slot) +
	       (n + 1 + 2 * ours + (seen ? n : 0)) * sizeof(struct pollfd) +
	       (n + 1) * sizeof(struct rr_place);
}

size_t rr_pollfind_size(nfds_t n, nfds_t ours)
{
	return find_size(n, ours, ours >= RR_POLL_MANY);
}

static void lay_out(struct rr_work *w, void *mem)
{
	w->slots = mem;
	w->kern = (struct pollfd *)(void *)(w->slots + w->ours);
	w->places = (struct rr_place *)(void *)(w->kern + w->n + 1 + 2 * w->ours);
	w->seen = (struct pollfd *)(void *)(w->places + w->n + 1);
}

static void forget_kept(void)
{
	kept.mem = NULL;
	atomic_store_explicit(&kept_n, 0, memory_order_relaxed);
}

static void drop_kept(void)
{
	if (!kept.mem)
		return;
	rr_standing_dissolve();
	rr_scratch_give(kept.mem);
	forget_kept();
}

static void set_kern(struct rr_work *w)
{
	w->kern[0] = (struct pollfd){ w->set ? rr_restset_fd() : -1, POLLIN, 0 };
	w->nk = 1;
	w->inner = -1;
}

bool rr_pollfind(struct rr_work *w, nfds_t ours, void *stack)
{
	rr_time now = rr_now_coarse();
	void *mem = stack;

	w->ours = ours;
	if (ours >= RR_POLL_MANY && rr_pollrest_take(w))
		drop_kept();
	if (!mem)
		mem = w->mem = rr_scratch_take(rr_pollfind_size(w->n, ours));
	if (!mem) {
		if (w->set)
			rr_pollrest_give(w);
		return false;
	}
	lay_out(w, mem);
	w->found = now;
	w->changes = rr_fdt_changes();
	set_kern(w);
	for (nfds_t i = 0; i < w->n; i++) {
		if (w->set)
			w->seen[i] = (struct pollfd){ w->fds[i].fd, w->fds[i].events, 0 };
		look_up_entry(w, (uint32_t)i, RR_NO_SLOT, now);
	}
	return true;
}

/* --- the same array again --- */

/* Are the app's entries those that were seen? Clears revents if they are. */
static bool is_same(struct pollfd *fds, const struct pollfd *seen, nfds_t n)
{
	uint64_t was, is, other = 0, told = 0;
	const struct pollfd all = { -1, -1, 0 };
	uint64_t mask;

	_Static_assert(sizeof(all) == sizeof(mask), "an entry is one word");
	memcpy(&mask, &all, sizeof(mask));
	for (nfds_t i = 0; i < n; i++) {
		memcpy(&was, &seen[i], sizeof(was));
		memcpy(&is, &fds[i], sizeof(is));
		other |= (is ^ was) & mask;
		told |= is & ~mask;
	}
	if (other)
		return false;
	for (nfds_t i = 0; told && i < n; i++)
		fds[i].revents = 0;
	return true;
}

/* Is what is kept right for this array still? */
static bool is_right(struct rr_work *w, rr_time now)
{
	return kept.mem && kept.n == w->n && kept.ceased == w->ceased &&
	       kept.life == rr_restset_life() && kept.changes == rr_fdt_changes() &&
	       now < kept.found + KEEP_MOST && is_same(w->fds, kept.seen, w->n);
}

bool rr_pollfind_again(struct rr_work *w)
{
	rr_time now = rr_now_coarse();
	struct rr_work call = *w;
	nfds_t open;

	/* Most processes keep nothing, and need no set. */
	if (atomic_load_explicit(&kept_n, memory_order_relaxed) != w->n || !rr_pollrest_take(w))
		return false;
	if (!is_right(w, now)) {
		rr_pollrest_give(w);
		return false;
	}
	*w = kept;
	forget_kept();
	w->fds = call.fds;
	w->mask = call.mask;
	w->deadline = call.deadline;
	w->cancel = call.cancel;
	open = w->nk;
	set_kern(w);
	/* in place: no entry is written before it was read */
	for (nfds_t k = 1; k < open; k++)
		look_up_entry(w, w->places[k].at, w->places[k].slot, now);
	return true;
}

/* The wait is over, and nothing is held but by members: keeps the arrays, with the places of
 * those entries that do not stand. */
static void keep(struct rr_work *w)
{
	nfds_t open = 1;

	for (nfds_t k = 1; k < w->nk; k++) {
		struct rr_slot *s = rr_work_slot(w, k);

		if (s && s->standing)
			s->k = 0;
		else
			w->places[open++] = w->places[k];
	}
	kept = (struct rr_work){
		.n = w->n, .ours = w->ours, .kern = w->kern, .places = w->places, .nk = open,
		.slots = w->slots, .nslots = w->nslots, .resting = w->standing,
		.standing = w->standing, .set = true, .seen = w->seen, .changes = w->changes,
		.ceased = w->ceased, .found = w->found, .life = rr_restset_life(),
		.verified = w->verified, .mem = w->mem,
	};
	atomic_store_explicit(&kept_n, w->n, memory_order_relaxed);
}

void rr_pollfind_end(struct rr_work *w)
{
	for (nfds_t k = 1; k < w->nk; k++) {
		struct rr_slot *s = rr_work_slot(w, k);

		if (!s || s->standing)
			continue;
		if (s->rests)
			rr_conn_rested(s->conn);
		if (s->file && !s->plain)
			rr_file_put(s->file);
	}
	rr_plainwait_end(w->plainwait);
	if (w->inner >= 0)
		rr_real.close(w->inner);
	if (w->set) {
		keep(w);
		w->mem = NULL;
		rr_pollrest_give(w);
	}
	if (w->mem)
		rr_scratch_give(w->mem);
}
