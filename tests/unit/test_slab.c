/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that connections live in, and those that are gone over. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "core/conn/conn.h"
#include "core/base/os.h"
#include "core/conn/base/base.h"

#define SLAB	64u

static struct rr_conn *seen[4 * SLAB];
static uint32_t nseen;

static void see(struct rr_conn *c, void *ctx)
{
	cr_assert_eq(ctx, seen);
	seen[nseen++] = c;
}

static uint32_t most = UINT32_MAX;

static bool see_marked(struct rr_conn *c, void *ctx)
{
	see(c, ctx);
	return nseen < most;
}

static uint32_t carried(void)
{
	nseen = 0;
	cr_assert(rr_conn_each_carried(see, seen));
	return nseen;
}

static uint32_t in_use(void)
{
	nseen = 0;
	cr_assert(rr_slab_each(RR_MARK_IN_USE, see_marked, seen));
	return nseen;
}

/* Runs f() in another thread, for a lock is not its holder's to try. */
static void *elsewhere(void *f)
{
	((void (*)(void))(uintptr_t)f)();
	return NULL;
}

static void in_thread(void (*f)(void))
{
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, elsewhere, (void *)(uintptr_t)f), 0);
	pthread_join(t, NULL);
}

Test(slab, a_connection_begins_with_nothing)
{
	struct rr_conn *c = rr_slab_get(true, 7), zero, *d;

	cr_assert(c && c->index == 0 && c->face.server && c->fd == 7 && c->owner == (int32_t)rr_pid() && c->lowat == 1);
	cr_assert(c->refs == 1 && c->face.state == RR_S_FREE);
	memset(&zero, 0, sizeof(zero));
	memset(&c->lock, 0xff, sizeof(*c) - offsetof(struct rr_conn, lock));
	c->face.changed = true;
	c->face.relayed = true;
	c->own_word = true;
	c->rest = 5;
	c->sleepers = 6;
	rr_slab_put(c);
	d = rr_slab_get(false, 8);
	cr_assert(d == c && d->index == 0 && !d->face.server && d->fd == 8 && d->owner == (int32_t)rr_pid());
	cr_assert(!d->face.changed && !d->face.relayed && !d->own_word && !d->rest && !d->sleepers && d->refs == 1);
	cr_assert(d->lowat == 1 && d->face.state == RR_S_FREE);
	d->lowat = 0;
	d->fd = 0;
	d->owner = 0;
	cr_assert_eq(memcmp(&d->lock, &zero.lock, offsetof(struct rr_conn, heard) - offsetof(struct rr_conn, lock)), 0);
}

Test(slab, each_has_its_place_for_good)
{
	struct rr_conn *c[3 * SLAB];

	cr_assert_null(rr_slab_at(0));
	for (uint32_t i = 0; i < 3 * SLAB; i++) {
		c[i] = rr_slab_get(false, (int)i);
		cr_assert(c[i] && c[i]->index == i);
		cr_assert_eq(rr_slab_at(i), c[i]);
		for (uint32_t k = 0; k < i; k++)
			cr_assert_neq(c[k], c[i]);
		c[i]->prog = i;
	}
	cr_assert_null(rr_slab_at(3 * SLAB));
	for (uint32_t i = 0; i < 3 * SLAB; i++)
		cr_assert(c[i]->prog == i && c[i]->fd == (int)i && c[i]->index == i);
	rr_slab_put(c[70]);
	rr_slab_put(c[5]);
	cr_assert_eq(rr_slab_get(false, 1), c[5], "the one that was used last");
	cr_assert_eq(rr_slab_get(false, 1), c[70]);
	cr_assert_eq(rr_slab_get(false, 1)->index, 3 * SLAB);
	cr_assert_not_null(rr_slab_at(3 * SLAB));
	cr_assert_null(rr_slab_at(4 * SLAB));
}

Test(slab, without_memory_there_is_none)
{
	struct rlimit old, none = { 0, 0 };
	struct rr_conn *last = NULL;

	for (uint32_t i = 0; i < SLAB; i++)
		last = rr_slab_get(false, 1);
	cr_assert_eq(last->index, SLAB - 1);
	cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
	none.rlim_max = old.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
	last = rr_slab_get(false, 1);
	setrlimit(RLIMIT_AS, &old);
	cr_assert_null(last);
	cr_assert_null(rr_slab_at(SLAB));
	cr_assert_eq(rr_slab_get(false, 1)->index, SLAB);
}

Test(slab, those_that_are_carried_are_gone_over)
{
	struct rr_conn *c[SLAB + 2];

	cr_assert_eq(carried(), 0);
	for (uint32_t i = 0; i < SLAB + 2; i++)
		c[i] = rr_slab_get(false, 1);
	rr_slab_carried(c[0]);
	rr_slab_carried(c[SLAB - 1]);
	rr_slab_carried(c[SLAB]);
	rr_slab_carried(c[SLAB + 1]);
	rr_conn_turn(c[1], RR_S_FORKED);
	cr_assert(c[0]->face.state == RR_S_CARRIED && c[0]->face.changed);
	cr_assert_eq(carried(), 4);
	cr_assert(seen[0] == c[0] && seen[1] == c[SLAB - 1] && seen[2] == c[SLAB] && seen[3] == c[SLAB + 1]);
	cr_assert_eq(in_use(), 4);
	for (most = 1; most < 4; most++)
		cr_assert_eq(in_use(), most, "they are gone over as long as is asked for");
	most = UINT32_MAX;
	cr_assert(seen[0] == c[0] && seen[1] == c[SLAB - 1] && seen[2] == c[SLAB] && seen[3] == c[SLAB + 1]);
	rr_slab_unmark(c[SLAB - 1]->index, RR_MARK_IN_USE);
	rr_slab_unmark(c[SLAB]->index, RR_MARK_IN_USE);
	cr_assert_eq(carried(), 4);
	cr_assert_eq(in_use(), 2);
	cr_assert(seen[0] == c[0] && seen[1] == c[SLAB + 1]);
	rr_slab_mark(SLAB, RR_MARK_IN_USE);
	rr_slab_mark(1, RR_MARK_IN_USE);
	cr_assert_eq(in_use(), 3, "one that is not carried is none");
	cr_assert(seen[0] == c[0] && seen[1] == c[SLAB] && seen[2] == c[SLAB + 1]);
	rr_slab_end(c[0]);
	cr_assert_eq(c[0]->face.state, RR_S_FREE);
	cr_assert_eq(carried(), 3);
	cr_assert_eq(in_use(), 2);
	rr_conn_turn(c[0], RR_S_CARRIED);
	cr_assert_eq(in_use(), 2, "its memory is not in use any more");
	rr_conn_turn(c[0], RR_S_FREE);
	rr_slab_put(c[SLAB]);
	cr_assert_eq(carried(), 2);
}

static struct rr_conn *next_silent(uint32_t from)
{
	return rr_slab_next(from, RR_MARK_SILENT);
}

Test(slab, those_with_a_mark_are_found)
{
	static const uint32_t with[] = { 0, 5, SLAB - 1, SLAB, 3 * SLAB - 1 };
	struct rr_conn *c[3 * SLAB];
	uint32_t n = sizeof(with) / sizeof(with[0]);

	cr_assert_null(next_silent(0));
	for (uint32_t i = 0; i < 3 * SLAB; i++)
		c[i] = rr_slab_get(true, 1);
	cr_assert_null(next_silent(0));
	for (uint32_t i = 0; i < n; i++)
		rr_slab_mark(with[i], RR_MARK_SILENT);
	rr_slab_mark(7, RR_MARK_GUEST);
	cr_assert_eq(rr_slab_count(RR_MARK_SILENT), n);
	cr_assert_eq(rr_slab_count(RR_MARK_GUEST), 1);
	cr_assert_eq(rr_slab_count(RR_MARK_ENTERS), 0);
	for (uint32_t i = 0; i < n; i++) {
		cr_assert_eq(next_silent(i ? with[i - 1] + 1 : 0), c[with[i]]);
		cr_assert_eq(next_silent(with[i]), c[with[i]]);
	}
	cr_assert_null(next_silent(3 * SLAB));
	rr_slab_unmark(SLAB - 1, RR_MARK_SILENT);
	cr_assert_eq(next_silent(6), c[SLAB]);
	rr_slab_mark(SLAB, RR_MARK_ENTERS);
	rr_slab_end(c[SLAB]);
	cr_assert_eq(next_silent(6), c[3 * SLAB - 1], "marks end with the connection");
	cr_assert_eq(rr_slab_count(RR_MARK_ENTERS), 0);
	cr_assert_eq(rr_slab_count(RR_MARK_SILENT), 3);
}

static void ends_are_held(void)
{
	nseen = 0;
	cr_assert_not(rr_conn_each_carried(see, seen));
	cr_assert_not(rr_slab_each(RR_MARK_IN_USE, see_marked, seen));
	cr_assert_eq(nseen, 0);
}

static void ends_are_free(void)
{
	cr_assert_eq(carried(), 1);
	cr_assert_eq(in_use(), 1);
	cr_assert(rr_slab_hold_ends());
	rr_slab_let_ends();
}

Test(slab, while_ends_are_held_none_is_gone_over)
{
	struct rr_conn *c = rr_slab_get(false, 1);

	rr_slab_carried(c);
	cr_assert(rr_slab_hold_ends());
	in_thread(ends_are_held);
	cr_assert_not(rr_slab_hold_ends(), "a handler that has interrupted the holder");
	rr_slab_end(c);
	cr_assert_eq(c->face.state, RR_S_CARRIED);
	rr_slab_let_ends();
	in_thread(ends_are_free);
	in_thread(ends_are_free);
	cr_assert_eq(carried(), 1);
	rr_slab_end(c);
	cr_assert_eq(carried(), 0);
	cr_assert(rr_slab_hold_ends(), "it was let go");
}

Test(slab, a_handler_that_interrupted_the_holder_gets_none)
{
	struct rr_conn *c = rr_slab_get(false, 1);

	cr_assert(rr_slab_hold());
	cr_assert_not(rr_slab_hold());
	cr_assert_null(rr_slab_get(false, 1));
	rr_slab_carried(c);
	cr_assert_eq(c->face.state, RR_S_CARRIED);
	cr_assert_not(rr_slab_hold(), "it is held still");
	rr_slab_put(c);
	cr_assert_eq(c->face.state, RR_S_FREE);
	cr_assert_not(rr_slab_hold());
	rr_slab_let();
	cr_assert_neq(rr_slab_get(false, 1), c, "its memory is lost");
	cr_assert(rr_slab_hold(), "it was let go");
	rr_slab_let();
	rr_slab_carried(c);
	cr_assert(rr_slab_hold(), "it was let go");
	rr_slab_let();
	rr_slab_put(c);
	cr_assert(rr_slab_hold(), "it was let go");
}

Test(slab, locks_of_a_parents_threads_are_free_in_the_child)
{
	cr_assert(rr_slab_hold() && rr_slab_hold_ends());
	rr_conn_fork_child();
	cr_assert(rr_slab_hold() && rr_slab_hold_ends());
}

/* --- ref.c ----------------------------------------------------------------------------------------------------- */

Test(slab, a_reference_to_what_is_ending_is_none)
{
	struct rr_conn *c = rr_slab_get(false, 1);

	cr_assert(rr_conn_keep(c));
	cr_assert_eq(c->refs, 2);
	atomic_store(&c->refs, 0);
	cr_assert_not(rr_conn_keep(c));
	cr_assert_eq(c->refs, 0);
}
