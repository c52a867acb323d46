/* SPDX-License-Identifier: BSD-3-Clause */
/* Which threads sleep on connections for which the kernel has the first word. Sleeping itself
 * is the caller's matter (preload/ready_plain.c).
 *
 * A poll() of a thousand such connections must not touch a counter in each. So every wait has a
 * number, and sets a bit by the index of each connection that it covers. Whoever is about to
 * take a connection away from the kernel looks for the connection's bit in all waits. Both
 * sides write first and then look: the wait writes its bits and looks at rr_conn.own_word, the
 * other side writes own_word and looks at the bits. Because of the fences between, at least one
 * of the two sees the other. To avoid visiting each connection a second time, a wait only
 * checks whether anybody has looked for sleepers since it began.
 *
 * Nor must the next poll() visit all of them again, as each has its own lines of the cache. So
 * between two poll() calls a wait pauses: it keeps its bits, which count only while a thread
 * sleeps on them, and for which fds they stand. It holds good as long as those fds have the
 * files that they had, which its caller counts, and no connection has stirred, of which any may
 * be one of them. */

#include <pthread.h>
#include <signal.h>

#include "core/base/compiler.h"
#include "core/conn/base/plainwait.h"
#include "core/conn/base/state.h"

enum {
	WAITS = 32,		/* further threads are counted by each connection */
	ROWS = 512,		/* of 64 connections; the others count their sleepers, too */
	FDS = 16384,		/* that a wait remembers */
};
#define PAUSED	((uintptr_t)1)	/* as owner: whoever comes may have it */

struct rr_plainwait {
	_Atomic uintptr_t owner;	/* pthread_self(), or PAUSED; 0 free */
	_Atomic uintptr_t frame;	/* where on its stack the wait began; 0 between two */
	uint32_t stirs;			/* rr_plainwait_stirs when the wait began */
	uint32_t first, end;		/* rows in use; end 0: none */
	uint32_t files;			/* see rr_plainwait_pause() */
	/* fds in its entry of fdbits, and words there that are in use */
	uint32_t nfds, words;
	bool forgets;			/* it covers others, too */
};

static struct rr_plainwait waits[WAITS];
/* The bits of a wait are written by its own thread only. */
static _Atomic uint64_t bits[ROWS][WAITS];
static uint64_t fdbits[WAITS][FDS / 64];
_Atomic uint32_t rr_plainwait_stirs;

/* Only the thread that owns w calls this. */
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
	memset(fdbits[w - waits], 0, w->words * sizeof(fdbits[0][0]));
	w->nfds = w->words = 0;
	w->forgets = false;
}

static bool on_other_stack(void)
{
	stack_t alt;

	return !sigaltstack(NULL, &alt) && alt.ss_flags & SS_ONSTACK;
}

/* Was w, which this thread owns, abandoned? If its frame lies at or below the current one, then
 * a signal handler left the wait by siglongjmp(), and its stack is in use again. Otherwise we
 * are in a handler that interrupted the wait, and it is still needed. */
static bool was_left(const struct rr_plainwait *w, uintptr_t here)
{
	uintptr_t frame = atomic_load_explicit(&w->frame, memory_order_relaxed);

	return frame && frame <= here && !on_other_stack();
}

/* Until the wait begins anew, no signal handler will take it for an abandoned one. */
static void is_between(struct rr_plainwait *w)
{
	atomic_store_explicit(&w->frame, 0, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
}

/* Where a thread looks for a wait first. */
static uint32_t home_of(uintptr_t thread)
{
	return ((uint32_t)(thread >> 12) * 2654435769u >> 16) % WAITS;
}

/* A free wait, or the one that this thread has abandoned. NULL: all are taken. */
static struct rr_plainwait *begin(void)
{
	uintptr_t me = (uintptr_t)pthread_self(), here = (uintptr_t)__builtin_frame_address(0);
	uint32_t home = home_of(me);

	for (uint32_t i = 0; i < WAITS; i++) {
		struct rr_plainwait *w = &waits[(home + i) % WAITS];
		uintptr_t owner = atomic_load_explicit(&w->owner, memory_order_relaxed);

		if (owner == me && was_left(w, here))
			is_between(w);
		else if (owner > PAUSED ||
			 !atomic_compare_exchange_strong(&w->owner, &owner, me))
			continue;
		clear(w);
		w->stirs = atomic_load_explicit(&rr_plainwait_stirs, memory_order_acquire);
		atomic_store_explicit(&w->frame, here, memory_order_relaxed);
		return w;
	}
	return NULL;
}

struct rr_plainwait *rr_plainwait_resume(uint32_t files, uint32_t *n)
{
	uintptr_t me = (uintptr_t)pthread_self(), owner = PAUSED;
	struct rr_plainwait *w = &waits[home_of(me)];

	if (atomic_load_explicit(&w->owner, memory_order_relaxed) != PAUSED ||
	    !atomic_compare_exchange_strong(&w->owner, &owner, me))
		return NULL;
	atomic_store_explicit(&w->frame, (uintptr_t)__builtin_frame_address(0),
			      memory_order_relaxed);
	*n = w->nfds;
	if (w->files == files &&
	    w->stirs == atomic_load_explicit(&rr_plainwait_stirs, memory_order_acquire))
		return w;
	rr_plainwait_end(w);
	return NULL;
}

bool rr_plainwait_stays(const struct rr_conn *c)
{
	return rr_conn_is_kernels(c) &&
	       /* Pairs with the release in rr_conn_has_word(). */
	       !atomic_load_explicit(&c->own_word, memory_order_acquire);
}

bool rr_plainwait_add(struct rr_plainwait **at, const struct rr_conn *c)
{
	struct rr_plainwait *w = *at;
	uint32_t row;

	if (!rr_plainwait_stays(c) || (row = c->index / 64) >= ROWS)
		return false;
	/* The connection is asked again after the count of stirs was taken, because an upgrade
	 * may have begun between the two. */
	if (!w && (!(w = *at = begin()) || !rr_plainwait_stays(c)))
		return false;
	w->first = w->end ? rr_min(w->first, row) : row;
	w->end = rr_max(w->end, row + 1);
	set_bit(w, c, true);
	return true;
}

bool rr_plainwait_is_sure(struct rr_plainwait *w)
{
	uint32_t was = w->stirs;

	/* Pairs with the fence in rr_plainwait_has(). */
	atomic_thread_fence(memory_order_seq_cst);
	w->stirs = atomic_load_explicit(&rr_plainwait_stirs, memory_order_acquire);
	return w->stirs == was;
}

void rr_plainwait_note(struct rr_plainwait *w, int fd)
{
	uint32_t word = (uint32_t)fd / 64;

	if (word >= FDS / 64) {
		w->forgets = true;
		return;
	}
	w->nfds += !rr_plainwait_knows(w, fd);
	fdbits[w - waits][word] |= UINT64_C(1) << fd % 64;
	w->words = rr_max(w->words, word + 1);
}

bool rr_plainwait_knows(const struct rr_plainwait *w, int fd)
{
	uint32_t word = (uint32_t)fd / 64;

	return word < w->words && fdbits[w - waits][word] >> fd % 64 & 1;
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

void rr_plainwait_pause(struct rr_plainwait *w, uint32_t files)
{
	uintptr_t me = (uintptr_t)pthread_self();

	if (!w || w->forgets || w != &waits[home_of(me)] ||
	    atomic_load_explicit(&w->owner, memory_order_relaxed) != me)
		return rr_plainwait_end(w);
	is_between(w);
	w->files = files;
	atomic_store_explicit(&w->owner, PAUSED, memory_order_release);
}

/* Does a thread sleep on the ith wait? */
static bool is_slept_on(uint32_t i)
{
	return atomic_load_explicit(&waits[i].frame, memory_order_relaxed);
}

bool rr_plainwait_has(struct rr_conn *c)
{
	uint32_t row = c->index / 64;

	rr_conn_has_word(c);
	/* Pairs with the fence in rr_plainwait_is_sure(). */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; row < ROWS && i < WAITS; i++) {
		/* Pairs with the release in set_bit() and clear(). */
		uint64_t word = atomic_load_explicit(&bits[row][i], memory_order_acquire);

		if (unlikely(word >> c->index % 64 & 1) && is_slept_on(i))
			return true;
	}
	return false;
}

void rr_plainwait_forked(void)
{
	for (uint32_t i = 0; i < WAITS; i++)
		rr_plainwait_end(&waits[i]);
}
