/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of calls without a reply against a list that is searched from end to end, and what is counted of each. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hist.h"
#include "core/base/tally.h"
#include "core/conn/base/base.h"

enum { MOST = 1000, PROCS = 3, XIDS = 400, PROGRAM = 100003 };

static struct rr_stat_seg *seg;
static struct rr_tables tables;
static struct rr_share sh;
static uint8_t head[2048];

/* What is expected of a procedure. */
static struct expected {
	uint64_t calls, resent, arguments, long_arguments, results, long_results, errors, replies;
} want[2][PROCS];
static uint64_t client_replies;
static struct entry {
	bool open;
	uint32_t xid;
	int proc;
} entry[2][RR_CALLS];
static uint32_t victim[2];
static bool solo[2];

static void begin(void)
{
	seg = calloc(1, RR_STAT_SIZE);
	rr_stats_init(seg, 1, 1, NULL, NULL);
	sh.seg = seg;
	sh.tables = &tables;
	sh.ep.inline_send = sh.ep.inline_recv = MOST;
}

TestSuite(calls, .init = begin, .timeout = 60);

static uint32_t open_now(bool server)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < RR_CALLS; i++)
		n += entry[server][i].open;
	return n;
}

static int find(bool server, uint32_t xid)
{
	for (int i = 0; i < (int)RR_CALLS; i++)
		if (entry[server][i].open && entry[server][i].xid == xid)
			return i;
	return -1;
}

static struct rr_rpc rpc_of(uint32_t xid, bool call, int proc)
{
	return (struct rr_rpc){ .xid = xid, .type = call ? RR_RPC_CALL : RR_RPC_REPLY, .prog = call ? PROGRAM : 0,
				.vers = call ? 3 : 0, .proc = call ? (uint32_t)proc : 0 };
}

static void passes(bool server, struct rr_rpc rpc, uint32_t len)
{
	if ((rpc.type == RR_RPC_CALL) == server) {
		struct rr_rx_ent e = { .ptr = head, .len = len, .from = RR_FROM_RECV, .since = UINT64_MAX };

		rr_calls_delivered(&sh, &rpc, &e);
	} else {
		struct rr_eng_out out = { .rpc = rpc, .head = head, .have = rr_min(len, 2048u), .len = len };

		rr_calls_sent(&sh, &out);
	}
}

static bool is_too_long(uint32_t len)
{
	return len + RR_ENG_PLAIN_HDR > MOST;
}

static void call(bool server, uint32_t xid, int proc, uint32_t len)
{
	struct expected *w = &want[server][proc];
	bool none = !open_now(server);
	int i = find(server, xid);

	passes(server, rpc_of(xid, true, proc), len);
	w->calls++;
	w->arguments += len;
	w->long_arguments += is_too_long(len);
	if (i >= 0) {
		w->resent += entry[server][i].proc == proc;
		solo[server] = false;
	} else {
		for (i = 0; i < (int)RR_CALLS && entry[server][i].open; i++)
			;
		if (i == (int)RR_CALLS)
			i = (int)(victim[server]++ % RR_CALLS);
		solo[server] = none;
	}
	entry[server][i] = (struct entry){ true, xid, proc };
}

static void reply(bool server, uint32_t xid, uint32_t status, uint32_t len)
{
	int i = find(server, xid);

	memset(head, 0, sizeof(head));
	head[3] = 1;
	head[7] = 1;
	head[23] = (uint8_t)status;
	passes(server, rpc_of(xid, false, 0), len);
	if (i < 0)
		return;
	want[server][entry[server][i].proc].replies++;
	want[server][entry[server][i].proc].results += len;
	want[server][entry[server][i].proc].long_results += is_too_long(len);
	want[server][entry[server][i].proc].errors += status != 0;
	client_replies += !server;
	entry[server][i].open = false;
	solo[server] = false;
}

static void counts_are_right(bool server)
{
	const uint32_t n = open_now(server);

	cr_assert_eq(rr_calls_open(&sh.calls[server]), solo[server] ? RR_CALLS_SOLO : n);
	for (int p = 0; p < PROCS; p++) {
		const struct expected *w = &want[server][p];
		int at = rr_tally_find(seg, server, PROGRAM, 3, (uint32_t)p, false);
		const struct rr_stat_tally *t = at < 0 ? NULL : rr_tally_at(seg, at);
		uint64_t replies = 0, sampled = 0;

		if (!t) {
			cr_assert(w->calls == 0);
			continue;
		}
		for (unsigned i = 0; i < RR_STAT_HIST; i++) {
			replies += t->hist[i];
			sampled += seg->hist[i];
		}
		cr_assert(t->calls == w->calls && t->resent == w->resent && t->arguments == w->arguments);
		cr_assert(t->long_arguments == w->long_arguments && t->results == w->results);
		cr_assert(t->long_results == w->long_results && t->errors == w->errors && replies == w->replies);
		cr_assert_eq(sampled, (client_replies + 7) / 8);
	}
}

/* The first reply of a procedure confirms it to a server. */
static void confirm(bool server)
{
	for (int p = 0; p < PROCS; p++) {
		call(server, 1, p, 100);
		reply(server, 1, 0, 24);
	}
	counts_are_right(server);
}

/* Few XIDs, so that they meet; now many calls are open, now few. */
static void happens(bool server, bool by_counter)
{
	seg->clock.rate = by_counter ? UINT64_C(1) << 32 : 0;
	confirm(server);
	for (int step = 0; step < 6000; step++) {
		uint32_t xid = (uint32_t)rand() % XIDS * 2654435761u;
		uint32_t len = (uint32_t)(rand() % 3 ? 40 : MOST - RR_ENG_PLAIN_HDR - 2) + (uint32_t)rand() % 5;
		bool fill = step / 1000 & 1;

		if (rand() % 8 < (fill ? 6 : 2))
			call(server, xid, rand() % 7 ? 0 : rand() % PROCS, len);
		else
			reply(server, xid, rand() % 5 ? 0 : 1 + (uint32_t)rand() % 5, len);
		if (step % 16 == 0)
			counts_are_right(server);
	}
	for (uint32_t i = 0; i < RR_CALLS; i++)
		if (entry[server][i].open)
			reply(server, entry[server][i].xid, 0, 24);
	counts_are_right(server);
	for (unsigned i = 0; i < 64; i++)
		cr_assert_eq(sh.calls[server].chain[i], 0);
	for (int i = 0; i < 20; i++) {	/* one after the other, as is usual */
		call(server, (uint32_t)i, 0, 40);
		counts_are_right(server);
		reply(server, (uint32_t)i + (i & 1), 0, 24);
		reply(server, (uint32_t)i, 0, 24);
		counts_are_right(server);
	}
}

Test(calls, of_a_client)
{
	srand(1);
	happens(false, false);
}

Test(calls, of_a_server)
{
	srand(2);
	happens(true, false);
}

#ifdef __x86_64__
Test(calls, of_a_client_by_the_cpus_counter)
{
	srand(3);
	happens(false, true);
}

Test(calls, of_a_server_by_the_cpus_counter)
{
	srand(4);
	happens(true, true);
}
#endif

Test(calls, both_at_once)
{
	srand(5);
	happens(false, false);
	happens(true, false);
	counts_are_right(false);
}

/* XID number n of those that meet in the first chain. */
static uint32_t of_one_chain(unsigned n)
{
	uint32_t xid = 0;

	for (;; xid++)
		if (!(xid * 2654435761u >> 26) && !n--)
			return xid;
}

/* The table is full, and all of it hangs at one place: each call is found there, and no other. */
Test(calls, all_in_one_chain)
{
	srand(6);
	confirm(false);
	for (unsigned i = 0; i < RR_CALLS; i++)
		call(false, of_one_chain(i), 0, 40);
	counts_are_right(false);
	reply(false, of_one_chain(RR_CALLS), 0, 24);
	counts_are_right(false);
	call(false, of_one_chain(RR_CALLS + 1), 0, 40);	/* in place of the first, which is the last there */
	reply(false, of_one_chain(0), 0, 24);
	counts_are_right(false);
	for (unsigned i = 1; i < RR_CALLS + 2; i++)
		reply(false, of_one_chain(i), 0, 24);
	counts_are_right(false);
	cr_assert_eq(sh.calls[0].chain[0], 0);
}

/* A procedure for which there is no place is counted with the others: a client's in the first tally of all. */
Test(calls, where_there_is_no_place_the_others_count)
{
	const struct rr_stat_tally *t;

	seg->tallies_taken = ~(uint64_t)3;	/* all but those of the others */
	passes(false, rpc_of(5, true, 0), 40);
	t = rr_tally_at(seg, rr_tally_others(seg, false));
	cr_assert_eq(t, rr_tally_at(seg, 0));
	cr_assert_eq(t->calls, 1);
	memset(head, 0, sizeof(head));
	head[7] = 1;
	passes(false, rpc_of(5, false, 0), 24);
	cr_assert_eq(t->results, 24);
}

/* There is no memory for these, either: nothing is counted, and nothing else is written. */
Test(calls, where_there_is_no_memory_nothing_counts)
{
	static struct rr_stat_seg was;

	seg->tallies_taken = ~(uint64_t)0;
	was = *seg;
	for (int i = 0; i < 2; i++) {
		passes(i, rpc_of(5, true, 0), 40);
		passes(i, rpc_of(5, false, 0), 24);
	}
	cr_assert_eq(memcmp(&was, seg, offsetof(struct rr_stat_seg, hist)), 0);
}

/* Of each word of a reply, and of one that is cut short. */
Test(calls, what_is_a_success)
{
	static const struct {
		int at;
		uint32_t len, errors;
	} rows[] = { { 11, 24, 1 }, { 8, 24, 1 }, { 23, 24, 1 }, { 20, 24, 1 }, { 0, 24, 0 } };
	uint64_t errors = 0;

	confirm(false);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct rr_stat_tally *t = rr_tally_at(seg, rr_tally_find(seg, false, PROGRAM, 3, 0, false));

		call(false, 5, 0, 40);
		memset(head, 0, sizeof(head));
		head[7] = 1;
		head[rows[i].at] |= (uint8_t)(rows[i].at ? 1 : 0);
		passes(false, rpc_of(5, false, 0), rows[i].len);
		entry[0][0].open = false;
		solo[0] = false;
		errors += rows[i].errors;
		cr_assert_eq(t->errors, errors, "row %zu", i);
	}
}

/* When a message came may be known from a spin, which counts once, and if it is not of an older tick. */
Test(calls, how_long_a_reply_took)
{
	const struct rr_stat_tally *t;
	struct rr_rx_ent e = { .ptr = head, .len = 24, .from = RR_FROM_RECV, .since = 100 };
	struct rr_rpc rpc = rpc_of(5, false, 0);

	confirm(false);
	t = rr_tally_at(seg, rr_tally_find(seg, false, PROGRAM, 3, 0, false));
	memset(head, 0, sizeof(head));
	head[7] = 1;
	for (int status = 0; status < 2; status++) {	/* by the usual way, and by the other */
		uint64_t was = t->hist[rr_hist_bucket(20 * RR_SEC)];

		head[23] = (uint8_t)status;
		passes(false, rpc_of(5, true, 0), 40);
		sh.seen = sh.calls[0].head[0].stamp + 20 * RR_SEC;
		sh.seen_at = 100;
		rr_calls_delivered(&sh, &rpc, &e);
		cr_assert_eq(t->hist[rr_hist_bucket(20 * RR_SEC)], was + 1);
		cr_assert_eq(sh.seen_at, 0);
		passes(false, rpc_of(5, true, 0), 40);
		sh.seen = sh.calls[0].head[0].stamp + 20 * RR_SEC;
		rr_calls_delivered(&sh, &rpc, &e);
		cr_assert_eq(t->hist[rr_hist_bucket(20 * RR_SEC)], was + 1, "it counts once");
		passes(false, rpc_of(5, true, 0), 40);
		sh.seen_at = 99;
		rr_calls_delivered(&sh, &rpc, &e);
		cr_assert_eq(t->hist[rr_hist_bucket(20 * RR_SEC)], was + 1, "it is of an older tick");
		cr_assert_eq(sh.seen_at, 99);
		passes(false, rpc_of(5, true, 0), 40);
		sh.seen = sh.calls[0].head[0].stamp - 20 * RR_SEC;
		sh.seen_at = 100;
		rr_calls_delivered(&sh, &rpc, &e);
		cr_assert_eq(t->hist[rr_hist_bucket(20 * RR_SEC)], was + 1, "of before the call");
	}
}

/* The part of a reply that is not here yet is not looked at. */
Test(calls, where_the_head_of_a_reply_is)
{
	static uint8_t mem[2 * RR_POOL_PAGE];
	const struct rr_stat_tally *t;
	struct rr_rpc rpc = rpc_of(5, false, 0);
	struct rr_rx_ent e = { .len = 24, .from = RR_FROM_BUF, .off = 100, .since = UINT64_MAX };
	uint64_t errors;
	size_t len;

	confirm(false);
	t = rr_tally_at(seg, rr_tally_find(seg, false, PROGRAM, 3, 0, false));
	rr_pool_init(&sh.pool, &tables.pool, mem, sizeof(mem));
	e.ref = (uint32_t)rr_pool_alloc(&sh.pool, 1000);
	memset(head, 0, sizeof(head));
	head[7] = 1;
	for (int status = 0; status < 2; status++) {
		head[23] = (uint8_t)status;
		memcpy(rr_pool_at(&sh.pool, e.ref, 100, &len), head, 24);
		errors = t->errors;
		passes(false, rpc_of(5, true, 0), 40);
		rr_calls_delivered(&sh, &rpc, &e);
		cr_assert_eq(t->errors, errors + (uint64_t)status);
		cr_assert_eq(rr_calls_open(&sh.calls[0]), 0);
	}
	e = (struct rr_rx_ent){ .len = 24, .from = RR_FROM_PULL, .ptr = head, .since = UINT64_MAX };
	errors = t->errors;
	passes(false, rpc_of(5, true, 0), 40);
	rr_calls_delivered(&sh, &rpc, &e);
	cr_assert(t->errors == errors && rr_calls_open(&sh.calls[0]) == 0);
}

Test(calls, without_statistics_nothing_is_noted)
{
	sh.seg = NULL;
	passes(false, rpc_of(5, true, 0), 40);
	passes(true, rpc_of(5, true, 0), 40);
	cr_assert(!rr_calls_open(&sh.calls[0]) && !rr_calls_open(&sh.calls[1]));
}
