/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that sleep where of some connections the kernel has the first word: which they are.
 *
 * A poll() of a thousand such connections must not touch a counter of each. So the wait has a
 * number, and of each connection a bit by its index; whoever is about to take a connection away
 * from the kernel looks for it in the bits of all waits. Both sides write first and look then:
 * the wait its bits and then rr_conn.own_word, the other side own_word and then the bits; with
 * the fences between, one of the two sees the other. That it need not look at each connection
 * a second time, a wait compares how often anybody has looked for sleepers at all. */

#include <pthread.h>
#include <signal.h>

#include "core/base/compiler.h"
#include "core/conn/base/plainwait.h"
#include "core/conn/base/state.h"

enum {
	WAITS = 32,		/* of more threads each connection counts its own sleepers */
	ROWS = 512,		/* of 64 connections; those beyond do so, too */
};

struct rr_plainwait {
	_Atomic uintptr_t owner;	/* pthread_self(); 0 free */
	_Atomic uintptr_t frame;	/* where on its stack the wait began; 0 between two */
	uint32_t looks;			/* how often sleepers were looked for until then */
	uint32_t first, end;		/* rows in use; end 0: none */
};

static struct rr_plainwait waits[WAITS];
/* Each wait's bits are written by its thread alone. */
static _Atomic uint64_t bits[ROWS][WAITS];
static _Atomic uint32_t looks;

/* Only its own thread calls this. */
static void set_bit(const struct rr_plainwait *w, const struct rr_conn *c, bool on)
{
	_Atomic uint64_t *word = &bits[c->index / 64][w - waits];
	uint64_t bit = UINT64_C(1) << c->index % 64;
	uint64_t was = atomic_load_explicit(word, memory_order_relaxed);

	atomic_store_explicit(word, on ? was | bit : was & ~bit, memory_order_release);
}

static void clear(struct rr_plainwait *w)
{
	for (uint32_t row = w->first; row < w->end; row++)
		atomic_store_explicit(&bits[row][w - waits], 0, memory_order_release);
	w->end = 0;
}

static bool on_other_stack(void)
{
	stack_t alt;

	return !sigaltstack(NULL, &alt) && alt.ss_flags & SS_ONSTACK;
}

/* This thread's: has a signal handler interrupted it, and are we in that? Else the handler has
 * left by siglongjmp(), and the stack where it began is ours again. */
static bool was_left(const struct rr_plainwait *w, uintptr_t here)
{
	uintptr_t frame = atomic_load_explicit(&w->frame, memory_order_relaxed);

	return frame && frame <= here && !on_other_stack();
}

/* From here on, until it begins anew, no handler takes it for one that was left. */
static void is_between(struct rr_plainwait *w)
{
	atomic_store_explicit(&w->frame, 0, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
}

static struct rr_plainwait *begin(void)
{
	uintptr_t me = (uintptr_t)pthread_self(), here = (uintptr_t)__builtin_frame_address(0);
	uint32_t home = (uint32_t)(me >> 12) * 2654435769u >> 16;

	for (uint32_t i = 0; i < WAITS; i++) {
		struct rr_plainwait *w = &waits[(home + i) % WAITS];
		uintptr_t owner = atomic_load_explicit(&w->owner, memory_order_relaxed);

		if (owner == me && was_left(w, here)) {
			is_between(w);
			clear(w);
		} else if (owner || !atomic_compare_exchange_strong(&w->owner, &owner, me)) {
			continue;
		}
		w->looks = atomic_load_explicit(&looks, memory_order_acquire);
		atomic_store_explicit(&w->frame, here, memory_order_relaxed);
		return w;
	}
	return NULL;
}

bool rr_plainwait_stays(const struct rr_conn *c)
{
	return rr_conn_begins(c) && !rr_conn_relayed(c, 0) &&
	       /* pairs with the release in rr_conn_has_word() */
	       !atomic_load_explicit(&c->own_word, memory_order_acquire);
}

bool rr_plainwait_add(struct rr_plainwait **at, const struct rr_conn *c)
{
	struct rr_plainwait *w = *at;
	uint32_t row;

	if (!rr_plainwait_stays(c) || (row = c->index / 64) >= ROWS)
		return false;
	/* Asked after the count of looks was taken, or an upgrade may be between the two. */
	if (!w && (!(w = *at = begin()) || !rr_plainwait_stays(c)))
		return false;
	w->first = w->end ? rr_min(w->first, row) : row;
	w->end = rr_max(w->end, row + 1);
	set_bit(w, c, true);
	return true;
}

bool rr_plainwait_is_sure(struct rr_plainwait *w)
{
	uint32_t was = w->looks;

	/* pairs with the fence in rr_plainwait_has() */
	atomic_thread_fence(memory_order_seq_cst);
	w->looks = atomic_load_explicit(&looks, memory_order_acquire);
	return w->looks == was;
}

void rr_plainwait_leave(struct rr_plainwait *w, const struct rr_conn *c)
{
	set_bit(w, c, false);
}

void rr_plainwait_end(struct rr_plainwait *w)
{
	if (!w)
		return;
	is_between(w);
	clear(w);
	atomic_store_explicit(&w->owner, 0, memory_order_release);
}

bool rr_plainwait_has(struct rr_conn *c)
{
	uint32_t row = c->index / 64;
	uint64_t any = 0;

	rr_conn_has_word(c);
	atomic_fetch_add_explicit(&looks, 1, memory_order_acq_rel);
	/* pairs with the fence in rr_plainwait_is_sure() */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; row < ROWS && i < WAITS; i++)
		/* pairs with the release of who leaves */
		any |= atomic_load_explicit(&bits[row][i], memory_order_acquire);
	return any >> c->index % 64 & 1;
}

void rr_plainwait_forked(void)
{
	for (uint32_t i = 0; i < WAITS; i++)
		rr_plainwait_end(&waits[i]);
}
