/* SPDX-License-Identifier: BSD-3-Clause */
/* What is counted of the procedures that a connection's calls are of. Both ends are in this
 * process, and count into one segment. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/base/cpus.h"
#include "core/base/os.h"
#include "core/base/tally.h"
#include "core/conn/base/base.h"
#include "core/conn/carried/carried.h"
#include "tests/unit/conn_pair.h"

#define PROGRAM	0x20005244u	/* of rr_test_call() */

static struct rr_stat_seg *the_seg;	/* of both ends */

static void start(void)
{
	the_seg = rr_test_segment(true);
	rr_test_params.stats = rr_test_segment;
	setup();
	carried();
	memset((void *)&the_seg->conn[RR_STAT_OWN], 0, RR_STAT_TALLIES * sizeof(struct rr_stat_tally));
}

TestSuite(conn_calls, .init = start, .fini = teardown, .timeout = 60);

static const struct rr_stat_tally *tally(bool server, uint32_t program, uint32_t procedure)
{
	static const struct rr_stat_tally none;
	int i = rr_tally_find(the_seg, server, program, 1, procedure, false);

	return i < 0 ? &none : rr_tally_at(the_seg, i);
}

static const struct rr_stat_tally *others(bool server)
{
	return rr_tally_at(the_seg, server);
}

/* Calls that were received, of a procedure that has no tally yet. */
static uint64_t unconfirmed(uint32_t program, uint32_t procedure)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < RR_STAT_UNCONFIRMED - 1; i++)
		if (the_seg->unconfirmed[i].key.program == program &&
		    the_seg->unconfirmed[i].key.procedure == procedure)
			n += the_seg->unconfirmed[i].calls;
	return n;
}

static uint64_t timed(const struct rr_stat_tally *t)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < RR_STAT_HIST; i++)
		n += t->hist[i];
	return n;
}

static void put(uint8_t *to, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* How long e would spin for `other`, which is on another CPU and has always been quick. */
static rr_time spin_of(struct rr_end *e, struct rr_end *other)
{
	struct rr_qp *there = other->c->share->qp;
	struct rr_spin s = { 0 };

	there->ops->tell(there, RR_TELL_CPU, 100000);
	e->c->share->active = rr_now();
	atomic_store(&e->c->share->spin, RR_MSEC);
	rr_conn_spin(e->c, &s);
	return s.want;
}

static void call(uint32_t xid, uint32_t program, uint32_t procedure, size_t len)
{
	size_t n = rr_test_call(out, xid, len, xid);

	put(out + 4 + 12, program);
	put(out + 4 + 20, procedure);
	one_way(&p.client, &p.server, n);
}

/* status: of an accepted reply; UINT32_MAX: denied. */
static void reply(uint32_t xid, uint32_t status, size_t len)
{
	size_t n = rr_test_reply(out, xid, len, xid);

	put(out + 4 + 8, status == UINT32_MAX);
	put(out + 4 + 20, status == UINT32_MAX ? 0 : status);
	one_way(&p.server, &p.client, n);
}

static void is(const struct rr_stat_tally *t, uint64_t calls, uint64_t errors, uint64_t replies)
{
	cr_assert_eq(t->calls, calls, "calls %lu, not %lu", t->calls, calls);
	cr_assert_eq(t->errors, errors, "errors %lu, not %lu", t->errors, errors);
	cr_assert_eq(timed(t), replies, "replies %lu, not %lu", timed(t), replies);
}

static void are(uint32_t procedure, uint64_t calls, uint64_t errors, uint64_t replies)
{
	is(tally(false, PROGRAM, procedure), calls, errors, replies);
	is(tally(true, PROGRAM, procedure), calls, errors, replies);
}

/* A test that is made twice: by rr_now(), and by the CPU's counter, which alone takes the short
 * way of counting what is sent. */
#define BY_BOTH_CLOCKS(name)                                \
	static void name(void);                             \
	Test(conn_calls, name)                              \
	{                                                   \
		name();                                     \
	}                                                   \
	Test(conn_calls, name##_by_the_cpus_counter)        \
	{                                                   \
		the_seg->clock.rate = UINT64_C(1) << 32;    \
		name();                                     \
	}                                                   \
	static void name(void)

BY_BOTH_CLOCKS(every_call_is_counted_and_timed_at_both_ends_by_its_procedure)
{
	for (uint32_t x = 100; x < 150; x++) {
		call(x, PROGRAM, x % 5, x);
		reply(x, 0, 0);
	}
	for (uint32_t i = 0; i < 5; i++)
		are(i, 10, 0, 10);
	cr_assert_eq(the_seg->tallies_ready & 3, 0, "no others");
}

BY_BOTH_CLOCKS(sizes_are_of_the_messages_and_long_is_what_one_send_does_not_hold)
{
	const struct rr_stat_tally *t = tally(true, PROGRAM, 2);

	call(6, PROGRAM, 2, 0);
	reply(6, 0, 0);
	call(7, PROGRAM, 2, 100);
	reply(7, 0, 200000);
	call(8, PROGRAM, 2, 300000);
	reply(8, 0, 8);
	for (unsigned server = 0; server < 2; server++) {
		t = tally(server, PROGRAM, 2);
		is(t, 3, 0, 3);
		cr_assert_eq(t->arguments, 40 + 40 + 100 + 40 + 300000);
		cr_assert_eq(t->results, 24 + 24 + 200000 + 24 + 8);
		cr_assert_eq(t->long_arguments, 1);
		cr_assert_eq(t->long_results, 1);
	}
}

BY_BOTH_CLOCKS(failures_are_counted_by_what_the_reply_says)
{
	call(1, PROGRAM, 1, 0);
	reply(1, 0, 0);		/* there is such a procedure */
	call(2, PROGRAM, 1, 0);
	reply(2, 4, 0);		/* GARBAGE_ARGS */
	call(3, PROGRAM, 1, 0);
	reply(3, 5, 0);		/* SYSTEM_ERR */
	call(4, PROGRAM, 1, 0);
	reply(4, UINT32_MAX, 0);
	are(1, 4, 3, 4);
}

/* The server's app has not said that there are such. */
BY_BOTH_CLOCKS(a_peer_that_makes_procedures_up_fills_no_table)
{
	uint64_t before = the_seg->tallies_taken;

	for (uint32_t x = 1; x <= 300; x++) {
		call(x, PROGRAM + x, x, 0);
		reply(x, x % 2 ? 1 : UINT32_MAX, 0);
	}
	is(others(true), 300, 300, 300);
	for (unsigned i = 0; i < RR_STAT_UNCONFIRMED; i++)
		cr_assert_eq(the_seg->unconfirmed[i].calls, 0);
	for (int i = RR_TALLY_OTHERS; i < (int)RR_STAT_TALLIES; i++)
		if (!(before >> i & 1) && the_seg->tallies_ready >> i & 1)
			cr_assert_eq(the_seg->key[i].server, 0, "its own calls a client knows");
}

BY_BOTH_CLOCKS(replies_out_of_order_find_their_calls)
{
	for (uint32_t x = 0; x < 40; x++)
		call(x * 64, PROGRAM, 1, 0);	/* some of one chain */
	are(1, 40, 0, 0);
	for (uint32_t x = 0; x < 40; x++)
		reply((x * 7 % 40) * 64, 0, 0);
	are(1, 40, 0, 40);
	call(5, PROGRAM, 1, 0);
	reply(5, 0, 0);
	are(1, 41, 0, 41);
}

BY_BOTH_CLOCKS(a_call_that_is_never_answered_is_a_call_without_a_time)
{
	call(1, PROGRAM, 3, 0);
	for (uint32_t x = 2; x < 20; x++) {
		call(x, PROGRAM, 1, 0);
		reply(x, 0, 0);
	}
	are(1, 18, 0, 18);
	is(tally(false, PROGRAM, 3), 1, 0, 0);
	is(tally(true, PROGRAM, 3), 0, 0, 0);	/* it is no procedure yet */
	cr_assert_eq(unconfirmed(PROGRAM, 3), 1);
	reply(1, 0, 0);
	are(3, 1, 0, 1);
	cr_assert_eq(unconfirmed(PROGRAM, 3), 0);
}

BY_BOTH_CLOCKS(calls_of_a_procedure_that_never_replies_are_counted_where_readers_see_them)
{
	for (uint32_t x = 1; x <= 3 * RR_CALLS; x++)	/* most are pushed out */
		call(x, PROGRAM, 3, 4);
	call(1, PROGRAM, 4, 300000);
	cr_assert_eq(unconfirmed(PROGRAM, 3), 3 * RR_CALLS);
	cr_assert_eq(the_seg->unconfirmed[0].arguments, 3 * RR_CALLS * 44);
	cr_assert_eq(the_seg->unconfirmed[0].long_arguments, 0);
	cr_assert_eq(unconfirmed(PROGRAM, 4), 1);
	cr_assert_eq(the_seg->unconfirmed[1].long_arguments, 1);
	rr_calls_idle(p.server.c->share);
	cr_assert_eq(unconfirmed(PROGRAM, 3), 3 * RR_CALLS);
	is(tally(true, PROGRAM, 3), 0, 0, 0);
}

/* Each is in the last entry as long as it has no reply, and nowhere afterwards. */
BY_BOTH_CLOCKS(more_procedures_without_a_reply_than_entries_are_counted_together)
{
	for (uint32_t x = 1; x <= 100; x++)
		call(x, PROGRAM + x, 3, 0);
	for (unsigned i = 0; i < RR_STAT_UNCONFIRMED - 1; i++)
		cr_assert_eq(the_seg->unconfirmed[i].calls, 1);
	cr_assert_eq(the_seg->unconfirmed[RR_STAT_UNCONFIRMED - 1].calls, 101 - RR_STAT_UNCONFIRMED);
	for (uint32_t x = 1; x <= 100; x++)
		reply(x, 1, 0);
	for (unsigned i = 0; i < RR_STAT_UNCONFIRMED; i++) {
		cr_assert_eq(the_seg->unconfirmed[i].calls, 0);
		cr_assert_eq(the_seg->unconfirmed[i].arguments, 0);
	}
	call(1, PROGRAM, 4, 0);		/* an entry is used again */
	cr_assert_eq(unconfirmed(PROGRAM, 4), 1);
}

BY_BOTH_CLOCKS(whoever_finds_the_entries_held_counts_with_the_rest)
{
	the_seg->unconfirmed_held = 1;
	call(1, PROGRAM, 4, 0);
	cr_assert_eq(the_seg->unconfirmed[RR_STAT_UNCONFIRMED - 1].calls, 1);
	reply(1, 0, 0);
	cr_assert_eq(the_seg->unconfirmed[RR_STAT_UNCONFIRMED - 1].calls, 0);
	are(4, 1, 0, 1);
}

BY_BOTH_CLOCKS(replies_to_no_call_are_not_counted)
{
	reply(77, 0, 0);
	for (uint32_t x = 1; x < 3; x++) {
		call(x, PROGRAM, 1, 0);
		reply(77, 0, 8);
		reply(x, 0, 0);
		reply(x, 0, 8);
	}
	are(1, 2, 0, 2);
	for (unsigned server = 0; server < 2; server++)
		cr_assert_eq(tally(server, PROGRAM, 1)->results, 2 * 24);
}

BY_BOTH_CLOCKS(a_call_sent_again_is_counted_as_such)
{
	call(9, PROGRAM, 1, 0);
	reply(9, 0, 0);
	call(5, PROGRAM, 1, 0);
	call(5, PROGRAM, 1, 0);
	reply(5, 0, 0);
	are(1, 3, 0, 2);
	cr_assert_eq(tally(false, PROGRAM, 1)->resent, 1);
	cr_assert_eq(tally(true, PROGRAM, 1)->resent, 1);
	call(5, PROGRAM, 1, 0);		/* the same number is a new call by now */
	reply(5, 0, 0);
	cr_assert_eq(tally(true, PROGRAM, 1)->resent, 1);
}

BY_BOTH_CLOCKS(an_xid_that_has_another_meaning_is_no_call_sent_again)
{
	call(5, PROGRAM, 2, 0);
	call(5, PROGRAM, 1, 0);
	reply(5, 0, 0);
	is(tally(false, PROGRAM, 2), 1, 0, 0);
	is(tally(false, PROGRAM, 1), 1, 0, 1);
	cr_assert_eq(tally(false, PROGRAM, 1)->resent + tally(false, PROGRAM, 2)->resent, 0);
}

/* More than there is room for: the others are still counted, and those that are left timed. */
Test(conn_calls, calls_that_push_others_out_leave_the_table_whole)
{
	struct rr_share *sh = p.server.c->share;
	const unsigned n = 3 * RR_CALLS;

	call(1, PROGRAM, 1, 0);
	reply(1, 0, 0);
	for (uint32_t x = 2; x < 2 + n; x++)
		call(x, PROGRAM, 1, 0);
	cr_assert_eq(sh->calls[1].open, RR_CALLS);
	cr_assert_eq(tally(true, PROGRAM, 1)->calls, 1 + n);
	for (uint32_t x = 2; x < 2 + n; x++)
		reply(x, 0, 0);
	cr_assert_eq(sh->calls[1].open, 0);
	cr_assert_eq(timed(tally(true, PROGRAM, 1)), 1 + RR_CALLS);
	for (uint32_t x = 1; x < 4; x++) {	/* one after the other needs no table */
		call(x, PROGRAM, 1, 0);
		cr_assert_eq(sh->calls[1].open, RR_CALLS_SOLO);
		reply(x, 0, 0);
		cr_assert_eq(sh->calls[1].open, 0);
	}
	for (unsigned i = 0; i < 64; i++)
		cr_assert_eq(sh->calls[1].chain[i], 0);
}

/* The other way round: the server's calls, the client's replies. */
Test(conn_calls, calls_against_the_direction_are_counted_as_well)
{
	size_t n = rr_test_call(out, 4711, 0, 1);

	put(out + 4 + 12, 0x40000000);
	one_way(&p.server, &p.client, n);
	one_way(&p.client, &p.server, rr_test_reply(out, 4711, 0, 1));
	is(tally(false, 0x40000000, 1), 1, 0, 1);
	is(tally(true, 0x40000000, 1), 1, 0, 1);
}

/* A call that takes its time: its connection is idle meanwhile. */
Test(conn_calls, an_idle_connection_keeps_the_calls_that_are_under_way)
{
	call(1, PROGRAM, 1, 0);
	reply(1, 0, 0);
	for (unsigned n = 1; n < RR_CALLS_HEAD; n++) {
		for (uint32_t x = 1; x <= n; x++)
			call(x << 20, PROGRAM, 1, 0);
		for (unsigned i = 0; i < 2; i++)
			rr_calls_idle((i ? &p.client : &p.server)->c->share);
		memset(p.server.c->share->tables->call, 0xff, sizeof(p.server.c->share->tables->call));
		for (uint32_t x = n; x; x--)
			reply(x << 20, 0, 0);
	}
	are(1, 1 + 28, 0, 1 + 28);
}

Test(conn_calls, those_beyond_the_head_are_let_go_when_it_is_idle)
{
	struct rr_share *sh = p.server.c->share;

	for (uint32_t x = 1; x <= 2 * RR_CALLS_HEAD; x++)
		call(x, PROGRAM, 1, 0);
	rr_calls_idle(sh);
	cr_assert_eq(sh->calls[1].open, RR_CALLS_HEAD);
	for (uint32_t x = 1; x <= 2 * RR_CALLS_HEAD; x++)
		reply(x, 0, 0);
	cr_assert_eq(timed(tally(true, PROGRAM, 1)), RR_CALLS_HEAD);
	cr_assert_eq(sh->calls[1].open, 0);
	for (unsigned w = 0; w < rr_array_size(sh->calls[1].live); w++)
		cr_assert_eq(sh->calls[1].live[w], 0);	/* others may have their places */
}

/* --- when a message came, by the spin that found it --- */

static uint64_t client_stamp(void)
{
	return p.client.c->share->calls[0].head[0].stamp;
}

/* The reply to call 2 is under way; the client's spin has looked at its clock: when, and what that said. */
static void reply_is_seen(rr_time at, uint64_t stamp)
{
	struct rr_spin s = { .now = at, .stamp = stamp };
	size_t n = rr_test_reply(out, 2, 0, 2);

	cr_assert_eq(rr_end_send(&p.server, &p.client, out, n), (ssize_t)n);
	rr_conn_seen(p.client.c, &s);
}

static void take_reply(void)
{
	size_t n = rr_test_reply(out, 2, 0, 2);

	cr_assert_eq(rr_end_recv(&p.client, &p.server, in, n), (ssize_t)n);
}

static uint64_t took_a_second(void)
{
	return tally(false, PROGRAM, 1)->hist[rr_hist_bucket(RR_SEC)];
}

Test(conn_calls, a_reply_came_when_the_spin_that_found_it_last_looked)
{
	call(2, PROGRAM, 1, 0);
	reply_is_seen(rr_now() + RR_SEC, client_stamp() + RR_SEC);
	take_reply();
	are(1, 1, 0, 1);
	cr_assert_eq(took_a_second(), 1);
	call(2, PROGRAM, 1, 0);
	reply(2, 0, 0);		/* which nobody spun for */
	are(1, 2, 0, 2);
	cr_assert_eq(took_a_second(), 1);
}

Test(conn_calls, a_call_came_when_the_spin_that_found_it_last_looked)
{
	struct rr_spin s = { .now = rr_now() + RR_SEC, .stamp = rr_now() - 100 * RR_SEC };
	uint64_t n = 0;

	rr_conn_seen(p.server.c, &s);
	call(2, PROGRAM, 1, 0);
	reply(2, 0, 0);
	for (unsigned i = rr_hist_bucket(100 * RR_SEC); i < RR_STAT_HIST; i++)
		n += tally(true, PROGRAM, 1)->hist[i];
	cr_assert_eq(n, 1);
}

Test(conn_calls, a_look_of_before_the_last_tick_says_nothing)
{
	call(2, PROGRAM, 1, 0);
	reply_is_seen(rr_now() - RR_SEC, client_stamp() + RR_SEC);
	take_reply();
	are(1, 1, 0, 1);
	cr_assert_eq(took_a_second(), 0);
}

Test(conn_calls, nor_does_one_of_before_the_call)
{
	call(2, PROGRAM, 1, 0);
	reply_is_seen(rr_now() + RR_SEC, client_stamp() - 1);
	take_reply();
	are(1, 1, 0, 1);
	cr_assert_eq(tally(false, PROGRAM, 1)->hist[0], 0);
}

Test(conn_calls, nor_does_one_that_found_another_message)
{
	struct rr_spin s = { .now = rr_now() + RR_SEC, .stamp = rr_now() + RR_SEC };

	call(2, PROGRAM, 1, 0);
	rr_conn_seen(p.client.c, &s);
	rr_conn_poll(p.client.c, p.client.fd, POLLIN);
	cr_assert_eq(p.client.c->share->seen_at, 0);
	reply(2, 0, 0);
	are(1, 1, 0, 1);
}

/* --- threads at work --- */

/* So many calls as there are CPUs come without a reply, the first with this XID. Meanwhile the thread that waits for them
 * spins. Returns how many there are. */
static uint32_t at_work_on_all_cpus(uint32_t xid)
{
	uint32_t cpus = rr_cpus(rr_now());

	if (!cpus || cpus > 32)
		cr_skip("of so many CPUs that it takes as many calls");
	rr_test_params.spin = rr_test_params.spin_worth = RR_MSEC;
	for (uint32_t n = 0; n < cpus; n++) {
		cr_assert_gt(spin_of(&p.server, &p.client), 0, "%u of %u", n, cpus);
		call(xid + n, PROGRAM, 5, 100);
	}
	return cpus;
}

/* The thread that waits for calls leaves the CPUs to those that are at work on what has come. */
Test(conn_calls, a_server_at_work_on_all_cpus_does_not_spin)
{
	at_work_on_all_cpus(10);
	cr_assert_eq(spin_of(&p.server, &p.client), 0);
	cr_assert_gt(spin_of(&p.client, &p.server), 0, "its own calls are not its work");
	reply(10, 0, 24);
	cr_assert_gt(spin_of(&p.server, &p.client), 0);
}

/* A program may never reply to a call, or much later: who slept long meanwhile knows that nobody is at work on it. */
Test(conn_calls, calls_that_nobody_replies_to_do_not_end_spinning)
{
	struct rr_share *sh = p.server.c->share;
	uint32_t n = at_work_on_all_cpus(10);

	sh->armed_at = rr_now() - RR_SEC;
	rr_wait_learn(sh, rr_now());
	at_work_on_all_cpus(100);
	cr_assert_eq(spin_of(&p.server, &p.client), 0);
	for (uint32_t i = 0; i < n; i++)	/* late replies */
		reply(10 + i, 0, 24);
	cr_assert_gt(spin_of(&p.server, &p.client), 0);
	reply(100, 0, 24);
	at_work_on_all_cpus(200);
	cr_assert_eq(spin_of(&p.server, &p.client), 0, "they are forgotten");
}
