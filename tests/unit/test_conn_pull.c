/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages in the peer's memory, and memory of ours that the peer uses, against a provider and an engine that are
 * played: which posts are made, in which order, and what the engine is told of them. */
#include "tests/unit/conn_played.h"

/* --- what the engine is told (the Makefile wraps these) --- */

static struct heard {
	uint32_t id, n, buf;
	int status;
	uint8_t head[256];
	struct rr_seg segs[RR_BUF_EXTS];
} head, pulled, exposed, done;
static unsigned heads, fronts, pulleds, exposeds, dones;

void __wrap_rr_eng_head(struct rr_eng *e, uint32_t id, int status, const uint8_t *at, uint32_t n, rr_time now);
void __wrap_rr_eng_front(struct rr_eng *e, uint32_t id, const uint8_t *at, uint32_t n, rr_time now);
void __wrap_rr_eng_pulled(struct rr_eng *e, uint32_t id, int status, rr_time now);
void __wrap_rr_eng_exposed(struct rr_eng *e, uint32_t id, int status, uint32_t buf, const struct rr_seg *segs, uint32_t n,
			   rr_time now);
void __wrap_rr_eng_done(struct rr_eng *e, uint32_t id, int status, rr_time now);

void __wrap_rr_eng_head(struct rr_eng *e, uint32_t id, int status, const uint8_t *at, uint32_t n, rr_time now)
{
	(void)e;
	(void)now;
	heads++;
	head = (struct heard){ .id = id, .status = status, .n = n };
	memcpy(head.head, at ? at : head.head, rr_min((size_t)n, sizeof(head.head)));
}

void __wrap_rr_eng_front(struct rr_eng *e, uint32_t id, const uint8_t *at, uint32_t n, rr_time now)
{
	__wrap_rr_eng_head(e, id, 0, at, n, now);
	heads--;
	fronts++;
}

void __wrap_rr_eng_pulled(struct rr_eng *e, uint32_t id, int status, rr_time now)
{
	(void)e;
	(void)now;
	pulleds++;
	pulled = (struct heard){ .id = id, .status = status };
}

void __wrap_rr_eng_exposed(struct rr_eng *e, uint32_t id, int status, uint32_t buf, const struct rr_seg *segs, uint32_t n,
			   rr_time now)
{
	(void)e;
	(void)now;
	exposeds++;
	exposed = (struct heard){ .id = id, .status = status, .buf = buf, .n = n };
	cr_assert_leq(n, RR_BUF_EXTS);
	for (uint32_t i = 0; i < n; i++)
		exposed.segs[i] = segs[i];
}

void __wrap_rr_eng_done(struct rr_eng *e, uint32_t id, int status, rr_time now)
{
	(void)e;
	(void)now;
	dones++;
	done = (struct heard){ .id = id, .status = status };
}

TestSuite(conn_pull, .timeout = 60);

static struct rr_share *sh;
static struct rr_seg segs[8];

/* Segments of these lengths, at places in the peer's memory that do not touch. */
static uint32_t lay(uint32_t n, const uint32_t *len)
{
	for (uint32_t i = 0, at = 64; i < n; at += len[i] + 64, i++)
		segs[i] = (struct rr_seg){ .handle = 100 + i, .length = len[i], .offset = at };
	return n;
}

#define LAY(...) lay(sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, (uint32_t[]){ __VA_ARGS__ })

static struct rr_op pull_op(uint32_t id, uint32_t nsegs, uint32_t len)
{
	return (struct rr_op){ .code = RR_OP_PULL, .id = id, .segs = segs, .nsegs = nsegs, .len = len, .head = 40 };
}

/* --- where it lies ------------------------------------------------------------------------ */

static void is_read(unsigned i, uint32_t handle, uint32_t off, uint32_t len)
{
	cr_assert_eq(pl.read[i].handle, handle, "%u: %u", i, pl.read[i].handle);
	cr_assert_eq(pl.read[i].off, off, "%u: %u", i, pl.read[i].off);
	cr_assert_eq(pl.read[i].len, len, "%u: %u", i, pl.read[i].len);
}

Test(conn_pull, a_part_is_read_from_the_segments_that_have_it)
{
	struct rr_pull q = { .nsegs = LAY(10, 20, 30) };
	uint8_t to[64], want[64];

	sh = play(true);
	pl.on_read.first = 0;	/* no less than 0 is a failure */
	memcpy(q.segs, segs, sizeof(segs[0]) * q.nsegs);
	for (int i = 0, at = 0; i < 3; at += (int)segs[i].length, i++)
		memcpy(want + at, pl.peers + segs[i].offset, segs[i].length);
	for (uint32_t off = 0; off <= 60; off++)
		for (uint32_t len = 0; off + len <= 60; len++) {
			memset(to, 0, sizeof(to));
			cr_assert_eq(rr_drv_read_pull(sh, &q, off, to, len), 0);
			cr_assert_eq(memcmp(to, want + off, len), 0, "%u+%u", off, len);
			cr_assert_eq(to[len], 0);
		}
	pl.reads = 0;
	cr_assert_eq(rr_drv_read_pull(sh, &q, 9, to, 2), 0);
	is_read(0, 100, 9, 1);
	is_read(1, 101, 0, 1);
	cr_assert_eq(pl.reads, 2);
	cr_assert_eq(pl.read[0].cookie, 0, "nobody waits for it");
	pl.reads = 0;
	cr_assert_eq(rr_drv_read_pull(sh, &q, 10, to, 20), 0);
	is_read(0, 101, 0, 20);
	cr_assert_eq(pl.reads, 1);
	cr_assert_eq(rr_drv_read_pull(sh, &q, 0, to, 0), 0);
	q.segs[3] = (struct rr_seg){ .length = 64 };	/* is not one of them */
	cr_assert_eq(rr_drv_read_pull(sh, &q, 0, to, 61), -EPROTO);
	cr_assert_eq(rr_drv_read_pull(sh, &q, 60, to, 1), -EPROTO);
	pl.reads = 0;
	pl.on_read.i = 1;
	pl.on_read.then = -EIO;
	cr_assert_eq(rr_drv_read_pull(sh, &q, 0, to, 60), -EIO);
	cr_assert_eq(pl.reads, 2, "no more after that");
}

Test(conn_pull, a_direct_provider_fetches_the_head_alone)
{
	struct rr_op op = pull_op(5, LAY(30, 500), 530);
	struct rr_rx_ent e = { .from = RR_FROM_PULL };

	sh = play(true);
	rr_pull_begin(sh, &op, 1);
	cr_assert_eq(heads, 1);
	cr_assert(head.id == 5 && head.status == 0 && head.n == 40);
	cr_assert_eq(memcmp(head.head, pl.peers + segs[0].offset, 30), 0);
	cr_assert_eq(memcmp(head.head + 30, pl.peers + segs[1].offset, 10), 0);
	cr_assert_eq(sh->pull_bytes, 0);
	cr_assert_eq(pl.consumes, 0);
	rr_pull_deliver(sh, 5, &e, 1);
	cr_assert_eq(e.from, RR_FROM_PULL);
	cr_assert(e.ref == 0 && sh->pull[0].used && sh->pull[0].len == 530 && !e.stashed);
	cr_assert_eq(pulleds, 0);
	op = pull_op(6, 2, 20);
	op.segs = segs + 1;
	op.nsegs = 1;
	rr_pull_begin(sh, &op, 1);
	cr_assert(head.id == 6 && head.n == 20, "no more than there is");
	rr_pull_deliver(sh, 6, &e, 1);
	cr_assert_eq(e.ref, 1);
	rr_pull_done(sh, 0, -3, 1);
	cr_assert_not(sh->pull[0].used);
	cr_assert(pulleds == 1 && pulled.id == 5 && pulled.status == -3);
	cr_assert_eq(pl.consumes, 2);
	cr_assert(pl.consumed[0].handle == 100 && pl.consumed[1].handle == 101);
	cr_assert(sh->pull[1].used);
}

Test(conn_pull, a_head_that_cannot_be_read_is_no_message)
{
	struct rr_op op = pull_op(5, LAY(100), 100);

	sh = play(true);
	pl.on_read.i = 0;
	pl.on_read.then = -EIO;
	rr_pull_begin(sh, &op, 1);
	cr_assert(heads == 1 && head.id == 5 && head.status == -EIO && head.n == 0);
	cr_assert_not(sh->pull[0].used);
}

Test(conn_pull, there_are_so_many_pulls_and_no_more)
{
	struct rr_op op = pull_op(1, LAY(100), 100);

	sh = play(true);
	for (op.id = 1; op.id <= RR_PULLS; op.id++) {
		rr_pull_begin(sh, &op, 1);
		cr_assert(head.id == op.id && head.status == 0);
	}
	rr_pull_begin(sh, &op, 1);
	cr_assert(head.id == op.id && head.status == -ENOBUFS && head.n == 0);
	op.from = RR_FROM_RECV;
	rr_pull_compose(sh, &op, pl.peers, 1);
	cr_assert(pulleds == 1 && pulled.id == op.id && pulled.status == -ENOBUFS);
	op.id = 7777;
	rr_pull_compose(sh, &op, NULL, 1);
	cr_assert(pulleds == 2 && pulled.id == 7777 && pulled.status == -ENOBUFS);
	rr_pull_drop(sh, 9999);
	rr_pull_drop(sh, 3);
	cr_assert_not(sh->pull[2].used);
	cr_assert(sh->pull[1].used && sh->pull[3].used);
	op.id = 3;
	rr_pull_begin(sh, &op, 1);
	cr_assert(head.status == 0 && sh->pull[2].used);
}

/* --- into our own memory ------------------------------------------------------------------ */

#define COOKIE(pull) rr_drv_cookie(RR_FOR_PULL, (pull))

/* The nth Read of a pull ends. */
static void ends(uint32_t pull, uint32_t nth, int status)
{
	rr_pull_read(sh, pull + nth * RR_PULLS, status, 1);
}

Test(conn_pull, a_message_is_fetched_piece_by_piece_and_judged_when_its_front_is_there)
{
	struct rr_op op = pull_op(5, LAY(5000, 3000, 4000), 12000);
	struct rr_rx_ent e = { .from = RR_FROM_PULL, .len = 12000 };
	uint64_t stash;
	uint32_t used;

	sh = play(false);
	used = sh->pool.used;
	rr_pull_begin(sh, &op, 1);
	cr_assert_eq(heads, 0);
	cr_assert_eq(sh->pull_bytes, 12000);
	cr_assert_eq(sh->pool.used, used + 3);
	cr_assert_eq(pl.reads, 3);
	is_read(0, 100, 0, 5000);
	is_read(1, 101, 0, 3000);
	is_read(2, 102, 0, 4000);
	cr_assert_eq((const uint8_t *)pl.read[1].local - (const uint8_t *)pl.read[0].local, 5000);
	cr_assert_eq((const uint8_t *)pl.read[2].local - (const uint8_t *)pl.read[1].local, 3000);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(pl.read[i].cookie, COOKIE(0) + (uint64_t)i * RR_PULLS);
	cr_assert_eq(sh->pull[0].pending, 3);
	ends(0, 0, 0);
	cr_assert(fronts == 1 && head.id == 5 && head.status == 0 && head.n == 5000);
	cr_assert_eq(memcmp(head.head, pl.peers + segs[0].offset, sizeof(head.head)), 0);
	ends(0, 1, 0);
	cr_assert(heads == 0 && fronts == 1 && pl.consumes == 0 && pulleds == 0);
	cr_assert_eq(sh->pull[0].front, 8000);
	ends(0, 2, 0);
	cr_assert(heads == 0 && fronts == 1 && pulleds == 1 && pulled.id == 5 && pulled.status == 0);
	cr_assert_eq(pl.consumes, 3);
	stash = sh->rx.stash;
	rr_pull_deliver(sh, 5, &e, 2);
	cr_assert_eq(e.from, RR_FROM_BUF);
	cr_assert(e.stashed && e.ref == sh->pull[0].buf);
	cr_assert_eq(sh->rx.stash, stash + 12000);
	cr_assert_eq(sh->pull_bytes, 0);
	cr_assert_not(sh->pull[0].used);
	cr_assert(pulleds == 1 && pulled.id == 5 && pulled.status == 0);
	cr_assert_eq(sh->pool.used, used + 3, "the app reads it there");
}

/* The Reads of a provider that finishes within the call. */
Test(conn_pull, a_message_that_is_wanted_whole_is_here_at_once_where_reads_finish_in_the_call)
{
	struct rr_op op = pull_op(5, LAY(100, 60), 160);
	uint32_t used;

	sh = play(true);
	used = sh->pool.used;
	op.room = 9000;
	rr_pull_begin(sh, &op, 1);
	cr_assert(heads == 1 && head.id == 5 && head.n == 160 && sh->pull[0].pending == 0);
	cr_assert_eq(memcmp(head.head + 100, pl.peers + segs[1].offset, 60), 0);
	cr_assert_eq(sh->pull_bytes, 9000);
	cr_assert_eq(sh->pool.used, used + 3);
	rr_pull_drop(sh, 5);
	cr_assert_eq(sh->pool.used, used, "refused");
	cr_assert_eq(sh->pull_bytes, 0);
	cr_assert_not(sh->pull[0].used);
}

Test(conn_pull, room_is_no_less_than_the_message)
{
	struct rr_op op = pull_op(5, LAY(5000), 5000);

	sh = play(true);
	op.room = 10;
	rr_pull_begin(sh, &op, 1);
	cr_assert_eq(sh->pull_bytes, 5000);
}

Test(conn_pull, where_the_queue_is_full_it_goes_on_later)
{
	struct rr_op op = pull_op(5, LAY(5000, 3000, 4000), 12000);

	sh = play(false);
	pl.on_read.i = 1;
	pl.on_read.then = -EAGAIN;
	rr_pull_begin(sh, &op, 1);
	cr_assert_eq(pl.reads, 2);
	cr_assert_eq(sh->pulls_short, 1);
	cr_assert(sh->pull[0].asked == 5000 && sh->pull[0].pending == 1);
	ends(0, 0, 0);
	cr_assert(heads == 0 && fronts == 1 && head.n == 5000, "the rest has not been asked for");
	pl.reads = 0;
	rr_pull_again(sh, 1);
	cr_assert_eq(sh->pulls_short, 1, "it is as full as before");
	cr_assert_eq(pl.reads, 2);
	is_read(0, 101, 0, 3000);
	pl.reads = 0;
	pl.on_read.i = UINT32_MAX;
	rr_pull_again(sh, 1);
	cr_assert_eq(sh->pulls_short, 0);
	cr_assert_eq(pl.reads, 1);
	is_read(0, 102, 0, 4000);
	cr_assert_eq(sh->pull[0].pending, 2);
	rr_pull_again(sh, 1);
	cr_assert_eq(pl.reads, 1, "nothing is short");
	ends(0, 1, 0);
	cr_assert_eq(pulleds, 0);
	ends(0, 2, 0);
	cr_assert(heads == 0 && fronts == 1 && pulleds == 1 && pulled.id == 5 && pulled.status == 0);
}

/* What the engine wants to see may be more than one Read brings, or the whole message. */
Test(conn_pull, it_is_judged_when_as_much_is_there_as_the_engine_wants)
{
	struct rr_op op = pull_op(5, LAY(30, 9, 1, 100), 140);

	sh = play(false);
	rr_pull_begin(sh, &op, 1);
	ends(0, 0, 0);
	ends(0, 1, 0);
	cr_assert(heads + fronts == 0);
	ends(0, 2, 0);
	cr_assert(fronts == 1 && head.id == 5 && head.n == 40);
	op.id = 6;
	op.head = 140;
	rr_pull_begin(sh, &op, 1);
	for (int i = 0; i < 4; i++) {
		cr_assert(heads == 0);
		ends(1, (uint32_t)i, 0);
	}
	cr_assert(heads == 1 && fronts == 1 && head.id == 6 && head.n == 140 && pulleds == 0);
	op.id = 7;
	op.head = 40;
	op.room = 9000;
	rr_pull_begin(sh, &op, 1);
	for (int i = 0; i < 4; i++) {
		cr_assert(heads == 1, "it is put together, and judged as a whole");
		ends(2, (uint32_t)i, 0);
	}
	cr_assert(heads == 2 && fronts == 1 && head.id == 7 && head.n == 140 && pulleds == 0);
}

/* A device that does not keep the order that it should keep: nothing is taken for there that is not. */
Test(conn_pull, what_comes_out_of_turn_waits_for_the_whole_message)
{
	static const struct { unsigned turn[4]; uint32_t front[3]; } of[] = {
		{ { 1, 0, 2, 3 }, { 0, 0, 0 } }, { { 0, 2, 1, 3 }, { 100, 100, 100 } }, { { 0, 1, 3, 2 }, { 100, 300, 300 } },
		{ { 3, 2, 1, 0 }, { 0, 0, 0 } },
	};

	sh = play(false);
	for (uint32_t i = 0; i < rr_array_size(of); i++) {
		struct rr_op op = pull_op(5 + i, LAY(100, 200, 300, 400), 1000);

		heads = fronts = pulleds = 0;
		rr_pull_begin(sh, &op, 1);
		for (unsigned k = 0; k < 3; k++) {
			ends(i, of[i].turn[k], 0);
			cr_assert_eq(sh->pull[i].front, of[i].front[k], "%u, %u: %u", i, k, sh->pull[i].front);
			cr_assert(pulleds == 0 && heads == 0 && fronts == (of[i].front[k] > 0));
		}
		ends(i, of[i].turn[3], 0);
		cr_assert(sh->pull[i].front == 1000 && heads + fronts == 1 && pulleds == fronts);
	}
}

Test(conn_pull, a_provider_says_in_which_pieces_to_read)
{
	struct rr_op op = pull_op(5, LAY(5000, 3000, 4000), 12000);
	static const uint32_t want[][3] = { { 100, 0, 2048 }, { 100, 2048, 2048 }, { 100, 4096, 904 }, { 101, 0, 2048 },
					    { 101, 2048, 952 }, { 102, 0, 2048 }, { 102, 2048, 1952 } };

	sh = play(false);
	sh->qp->read_piece = 2048;
	rr_pull_begin(sh, &op, 1);
	cr_assert_eq(pl.reads, rr_array_size(want));
	for (unsigned i = 0; i < pl.reads; i++)
		is_read(i, want[i][0], want[i][1], want[i][2]);
	for (unsigned i = 0; i < pl.reads; i++) {
		cr_assert_eq(pulleds, 0);
		ends(0, i, 0);
		if (i < 6)
			cr_assert_eq(sh->pull[0].front, want[i][1] + want[i][2] + (i > 4 ? 8000 : i > 2 ? 5000 : 0));
	}
	cr_assert(fronts == 1 && pulleds == 1);
	/* What is judged as a whole is not wanted in pieces. */
	pl.reads = 0;
	op.id = 6;
	op.room = 12000;
	rr_pull_begin(sh, &op, 1);
	cr_assert_eq(pl.reads, 3);
}

Test(conn_pull, a_read_that_fails_fails_its_message)
{
	struct rr_op op = pull_op(5, LAY(5000, 3000), 8000);

	sh = play(false);
	rr_pull_begin(sh, &op, 1);
	rr_pull_read(sh, 0, -EIO, 1);
	cr_assert(heads == 1 && head.id == 5 && head.status == -EIO && head.n == 0);
	cr_assert_eq(sh->pull[0].pending, 1);
	rr_pull_read(sh, 0, -ECONNRESET, 1);
	cr_assert_eq(heads, 1, "of a connection that is gone nothing is said here");
	cr_assert_eq(sh->pull[0].pending, 0);
	cr_assert_eq(pl.consumes, 0);
}

Test(conn_pull, a_read_that_cannot_be_posted_fails_its_message)
{
	struct rr_op op = pull_op(5, LAY(5000), 5000);

	sh = play(false);
	pl.on_read.i = 0;
	pl.on_read.then = -EIO;
	rr_pull_begin(sh, &op, 1);
	cr_assert(heads == 1 && head.id == 5 && head.status == -EIO);
	cr_assert_eq(sh->pulls_short, 0);
	cr_assert(rr_link_is_up(sh));
	pl.on_read.then = -ECONNRESET;
	op.id = 6;
	rr_pull_begin(sh, &op, 1);
	cr_assert_eq(heads, 1);
	cr_assert(rr_link_is_lost(sh));
}

/* Only what still lacks something is looked at when there may be room again. */
Test(conn_pull, what_is_complete_or_gone_is_not_begun_again)
{
	struct rr_op op = pull_op(5, LAY(5000), 5000);

	sh = play(true);
	op.room = 5000;
	rr_pull_begin(sh, &op, 1);	/* is judged */
	op.id = 6;
	op.room = 0;
	rr_pull_begin(sh, &op, 1);	/* lies in the peer's memory until the app reads it */
	op.id = 7;
	op.room = 5000;
	pl.on_read.i = 0;
	pl.on_read.then = -EIO;
	rr_pull_begin(sh, &op, 1);
	rr_pull_drop(sh, 7);
	cr_assert_eq(heads, 3);
	pl.on_read.i = UINT32_MAX;
	pl.reads = pl.consumes = 0;
	sh->pulls_short = 1;
	rr_pull_again(sh, 1);
	cr_assert(heads == 3 && pl.reads == 0 && pl.consumes == 0 && sh->pulls_short == 0);
}

Test(conn_pull, without_memory_it_waits)
{
	struct rr_op op = pull_op(5, LAY(100), 100);
	int64_t all;

	sh = play(false);
	all = rr_pool_alloc(&sh->pool, (size_t)(sh->pool.npages - sh->pool.used) * RR_POOL_PAGE);
	rr_pull_begin(sh, &op, 1);
	cr_assert(sh->pulls_short == 1 && pl.reads == 0 && sh->pull_bytes == 0);
	rr_pool_free(&sh->pool, (uint32_t)all);
	rr_pull_again(sh, 1);
	cr_assert(sh->pulls_short == 0 && pl.reads == 1 && sh->pull_bytes == 100);
}

/* What arrives has its turn in the order of its arrival. */
Test(conn_pull, memory_is_given_in_turn_and_within_bounds)
{
	struct rr_op op = pull_op(1, LAY(4096), 4096);
	uint32_t used;

	sh = play(false);
	used = sh->pool.used;
	rr_rx_stash(sh, (uint32_t)rr_own_ahead() - 8192);
	rr_pull_begin(sh, &op, 1);
	op.id = 2;
	rr_pull_begin(sh, &op, 1);
	cr_assert_eq(sh->pool.used, used + 2, "just what may be");
	op.id = 3;
	rr_pull_begin(sh, &op, 1);
	cr_assert_eq(sh->pool.used, used + 2);
	cr_assert(sh->pulls_short == 1 && sh->pull[2].buf == RR_BUF_NONE && pl.reads == 2);
	cr_assert_eq(sh->pull_bytes, 8192, "what has none does not count");
	op.id = 4;
	op.len = 1;
	rr_pull_begin(sh, &op, 1);
	cr_assert_eq(sh->pulls_short, 2);
	sh->rx.stash -= 100;	/* enough for the last one, which comes behind the third */
	rr_pull_again(sh, 1);
	cr_assert_eq(sh->pulls_short, 2);
	sh->rx.stash -= 3996;
	rr_pull_again(sh, 1);
	cr_assert_eq(sh->pulls_short, 1);
	cr_assert(sh->pull[2].buf != RR_BUF_NONE && sh->pull[3].buf == RR_BUF_NONE);
	sh->rx.stash -= 1;
	rr_pull_again(sh, 1);
	cr_assert_eq(sh->pulls_short, 0);
	cr_assert_eq(sh->pull[3].asked, 1);
}

Test(conn_pull, one_message_alone_gets_what_it_needs)
{
	struct rr_op op;
	uint32_t len;

	sh = play(false);
	len = (uint32_t)rr_own_ahead() / 4096 * 4096 + 4096;
	segs[0] = (struct rr_seg){ .handle = 1, .length = len };
	op = pull_op(1, 1, len);
	pl.on_read.i = 0;
	pl.on_read.then = -EAGAIN;	/* its bytes are of no matter */
	rr_pull_begin(sh, &op, 1);
	cr_assert_eq(sh->pull_bytes, len);
	op = pull_op(2, 1, 1);
	rr_pull_begin(sh, &op, 1);
	cr_assert_eq(sh->pull[1].buf, RR_BUF_NONE, "not beside it");
}

/* --- Read chunks -------------------------------------------------------------------------- */

/* The message as it must become: the parts come from the segments one after another, zeroes up to a multiple of four
 * behind each, and the payload stream is what stands around them. */
static void composed(const struct rr_op *op, const uint8_t *stream, const uint8_t *fetched)
{
	static uint8_t want[100000], is[100000];
	uint32_t at = 0, from = 0, got = 0;

	memset(want, 0, sizeof(want));
	for (uint32_t i = 0; i < op->nparts; i++) {
		const struct rr_range *r = &op->parts[i];

		memcpy(want + at, stream + from, r->off - at);
		from += r->off - at;
		memcpy(want + r->off, fetched + got, r->len);
		got += r->len;
		at = r->off + rr_align(r->len, 4u);
	}
	memcpy(want + at, stream + from, op->len - at);
	cr_assert_eq(from + op->len - at, op->stream);
	for (uint32_t off = 0; off < op->len;) {
		size_t room;
		uint8_t *q = rr_pool_at(&sh->pool, sh->pull[0].buf, off, &room);

		memcpy(is + off, q, rr_min(room, (size_t)(op->len - off)));
		off += (uint32_t)rr_min(room, (size_t)(op->len - off));
	}
	for (uint32_t i = 0; i < op->len; i++)
		cr_assert_eq(is[i], want[i], "byte %u of %u is %u, not %u", i, op->len, is[i], want[i]);
}

/* Leaves single pages free, no two of them together, but for what unscatter() gives back. */
static uint32_t rest;

static void scatter(void)
{
	int64_t b[14], all;

	for (int i = 0; i < 14; i++)
		b[i] = rr_pool_alloc(&sh->pool, 1);
	all = rr_pool_alloc(&sh->pool, (size_t)(sh->pool.npages - sh->pool.used) * RR_POOL_PAGE);
	cr_assert_geq(all, 0);
	rest = (uint32_t)all;
	for (int i = 0; i < 14; i += 2)
		rr_pool_free(&sh->pool, (uint32_t)b[i]);
}

static void unscatter(void)
{
	rr_pool_free(&sh->pool, rest);
}

static const struct {
	uint32_t nparts, nsegs, len;
	struct rr_range parts[3];
	uint32_t seg[4];
} messages[] = {
	{ 1, 1, 220, { { 100, 20 } }, { 20 } },
	{ 1, 2, 223, { { 100, 21 } }, { 1, 20 } },
	{ 2, 1, 300, { { 40, 7 }, { 200, 60 } }, { 67 } },
	{ 2, 3, 300, { { 40, 7 }, { 48, 60 } }, { 6, 2, 59 } },
	{ 1, 1, 124, { { 100, 22 } }, { 22 } },
	{ 1, 2, 9000, { { 200, 8000 } }, { 4096, 3904 } },
	{ 3, 4, 20000, { { 4000, 97 }, { 4200, 9001 }, { 14000, 3 } }, { 50, 60, 8990, 1 } },
};

static void compose(unsigned which, bool scattered, bool in_recv)
{
	static uint8_t stream[30000], fetched[30000];
	struct rr_op op = { .id = 5, .segs = segs, .nsegs = messages[which].nsegs, .len = messages[which].len, .off = 3,
			    .parts = messages[which].parts, .nparts = messages[which].nparts,
			    .from = in_recv ? RR_FROM_RECV : RR_FROM_PULL };

	sh = play(true);
	if (scattered)
		scatter();
	op.stream = op.len;
	for (uint32_t i = 0; i < op.nparts; i++)
		op.stream -= rr_align(op.parts[i].len, 4u);
	for (uint32_t i = 0; i < op.stream + 3; i++)
		stream[i] = (uint8_t)(i * 11 + 5);
	if (!in_recv) {		/* the stream is itself in the peer's memory, and is fetched first */
		struct rr_op first = pull_op(5, 1, op.stream);

		segs[0] = (struct rr_seg){ .handle = 1, .length = op.stream, .offset = 0 };
		first.room = op.len;
		memcpy(pl.peers, stream + 3, op.stream);
		rr_pull_begin(sh, &first, 1);
		cr_assert(heads == 1 && head.status == 0);
	}
	lay(op.nsegs, messages[which].seg);
	for (uint32_t i = 0, at = 0; i < op.nsegs; at += segs[i].length, i++) {
		segs[i].offset += 100000;
		memcpy(fetched + at, pl.peers + segs[i].offset, segs[i].length);
	}
	pl.consumes = 0;
	rr_pull_compose(sh, &op, in_recv ? stream : NULL, 1);
	cr_assert(pulleds == 1 && pulled.id == 5 && pulled.status == 0, "%u %d", pulleds, pulled.status);
	cr_assert_eq(pl.consumes, op.nsegs);
	cr_assert_eq(sh->pull[0].len, op.len);
	cr_assert_eq(sh->pull[0].stream, 0);
	composed(&op, stream + 3, fetched);
	rr_pull_drop(sh, 5);
	cr_assert_eq(sh->pull_bytes, 0);
}

Test(conn_pull, what_read_chunks_have_is_put_into_its_place)
{
	for (unsigned i = 0; i < rr_array_size(messages); i++)
		for (int how = 0; how < 4; how++) {
			pulleds = heads = 0;
			memset(&pl, 0, sizeof(pl));
			compose(i, how & 1, how & 2);
			rr_pair_close(&p);
		}
}

Test(conn_pull, chunks_that_cannot_be_read_fail_the_whole_message)
{
	static const struct rr_range part = { 100, 20 };
	struct rr_op op = { .id = 5, .segs = segs, .nsegs = LAY(20), .len = 220, .parts = &part, .nparts = 1,
			    .from = RR_FROM_RECV, .stream = 200 };
	uint64_t copied;

	sh = play(false);
	copied = sh->qp->count->v[RR_C_copied];
	rr_pull_compose(sh, &op, pl.peers, 1);
	cr_assert_eq(sh->qp->count->v[RR_C_copied], copied + 200);
	cr_assert(pulleds == 0 && sh->pull_bytes == 220 && sh->pull[0].fetch == 20);
	rr_pull_read(sh, 0, -EIO, 1);
	cr_assert(pulleds == 1 && pulled.id == 5 && pulled.status == -EIO);
	cr_assert_eq(heads, 0);
}

/* --- what is exposed ---------------------------------------------------------------------- */

static uint32_t filled(size_t len)
{
	int64_t b = rr_pool_alloc(&sh->pool, len);

	cr_assert_geq(b, 0);
	return (uint32_t)b;
}

static struct rr_op expose_op(uint32_t buf, uint32_t off, uint32_t len)
{
	return (struct rr_op){ .code = RR_OP_EXPOSE, .id = 9, .buf = buf, .off = off, .len = len, .room = len,
			       .rights = RR_RIGHT_READ };
}

Test(conn_pull, a_buffer_is_exposed_piece_by_piece)
{
	struct rr_op op;
	struct rr_buf *b;
	uint32_t buf;

	sh = play(true);
	scatter();
	buf = filled(12000);
	b = &sh->pool.buf[buf];
	cr_assert_eq(b->nexts, 3);
	op = expose_op(buf, 10, 9000);
	rr_expose(sh, &op, 1);
	cr_assert(exposeds == 1 && exposed.id == 9 && exposed.status == 0 && exposed.buf == buf && exposed.n == 3);
	cr_assert(pl.expose[0].len == 4086 && pl.expose[1].len == 4096 && pl.expose[2].len == 818);
	cr_assert_eq((const void *)pl.expose[0].local, rr_pool_at(&sh->pool, buf, 10, &(size_t){ 0 }));
	cr_assert_eq((const void *)pl.expose[2].local, rr_pool_at(&sh->pool, buf, 8192, &(size_t){ 0 }));
	cr_assert_eq(pl.expose[0].imm, RR_RIGHT_READ);
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert_eq(exposed.segs[i].handle, 1000 + i);
		cr_assert_eq(b->key[i], 1000 + i);
	}
	cr_assert_eq(b->nkeys, 3);
	pl.unread = 1001;
	cr_assert_not(rr_expose_consumed(sh, b));
	pl.unread = 0;
	cr_assert(rr_expose_consumed(sh, b));
	/* The peer has taken one back itself. */
	rr_expose_key_gone(sh, 5);
	cr_assert_eq(b->nkeys, 3);
	rr_expose_key_gone(sh, 1001);
	cr_assert(b->nkeys == 2 && b->key[0] == 1000 && b->key[1] == 1002);
	rr_expose_drop(sh, buf);
	cr_assert_eq(pl.invalidates, 2);
	cr_assert(pl.gone[0].handle == 1000 && pl.gone[1].handle == 1002);
	cr_assert_eq(pl.gone[0].cookie, rr_drv_cookie(RR_FOR_FENCE, buf));
	cr_assert_eq(b->nkeys, 0);
	cr_assert_eq(filled(1), buf, "it is free");
	cr_assert_not(rr_expose_consumed(sh, b), "without a key nobody has read it");
	cr_assert_eq(sh->fences, 0);
}

Test(conn_pull, few_segments_are_had_by_gathering)
{
	struct rr_op op;
	uint32_t buf;

	sh = play(true);
	scatter();
	buf = filled(12000);
	op = expose_op(buf, 0, 12000);
	op.max_segs = 3;
	rr_expose(sh, &op, 1);
	cr_assert_eq(exposed.n, 3, "that is few enough");
	rr_expose_fence(sh, &op, 1);
	unscatter();
	op.max_segs = 2;
	rr_expose(sh, &op, 1);
	cr_assert(exposeds == 2 && exposed.n == 1 && exposed.segs[0].length == 12000);
	cr_assert_eq(sh->pool.buf[buf].nkeys, 1);
}

Test(conn_pull, memory_for_a_reply_is_had_or_not)
{
	uint64_t stalls;
	struct rr_op op;
	uint32_t used;

	sh = play(true);
	op = expose_op(RR_BUF_NEW, 0, 5000);
	used = sh->pool.used;
	stalls = sh->qp->count->v[RR_C_memory_stalls];
	rr_expose(sh, &op, 1);
	cr_assert(exposed.status == 0 && exposed.n == 1 && exposed.segs[0].length == 5000);
	cr_assert_eq(sh->pool.used, used + 2);
	cr_assert_eq(sh->qp->count->v[RR_C_memory_stalls], stalls);
	op.room = UINT32_MAX;
	rr_expose(sh, &op, 1);
	cr_assert(exposeds == 2 && exposed.id == 9 && exposed.status == -ENOMEM && exposed.buf == RR_BUF_NONE && !exposed.n);
	cr_assert_eq(sh->qp->count->v[RR_C_memory_stalls], stalls + 1);
	cr_assert_eq(pl.exposes, 1);
}

Test(conn_pull, a_key_that_cannot_be_had_takes_the_others_back)
{
	struct rr_op op;
	uint32_t used, buf;

	sh = play(true);
	scatter();
	used = sh->pool.used;
	pl.on_expose.i = 2;
	pl.on_expose.then = -EAGAIN;
	op = expose_op(RR_BUF_NEW, 0, 12000);
	rr_expose(sh, &op, 1);
	cr_assert(exposeds == 1 && exposed.status == -EAGAIN && exposed.buf == RR_BUF_NONE && exposed.n == 0);
	cr_assert_eq(pl.exposes, 3, "none behind it");
	cr_assert_eq(pl.invalidates, 2);
	cr_assert_eq(sh->pool.used, used, "nobody has the new buffer");
	buf = filled(12000);
	pl.exposes = pl.invalidates = 0;
	op = expose_op(buf, 0, 12000);
	rr_expose(sh, &op, 1);
	cr_assert(exposeds == 2 && exposed.status == -EAGAIN);
	cr_assert_eq(pl.invalidates, 2);
	cr_assert_eq(sh->pool.buf[buf].nkeys, 0);
	cr_assert_eq(sh->pool.used, used + 3, "the message is still there");
}

static void expose_two(uint32_t *a, uint32_t *b)
{
	struct rr_op op;

	sh = play(true);
	scatter();
	*a = filled(8192);
	*b = filled(100);
	op = expose_op(*a, 0, 8192);
	rr_expose(sh, &op, 1);
	op = expose_op(*b, 0, 100);
	rr_expose(sh, &op, 1);
	pl.on_gone.first = 0;	/* completions follow */
}

Test(conn_pull, a_fence_is_over_when_its_last_key_is)
{
	struct rr_op op = { .id = 21 };
	uint32_t a, b;

	expose_two(&a, &b);
	op.buf = a;
	rr_expose_fence(sh, &op, 1);
	cr_assert(sh->fences == 2 && dones == 0 && sh->fences_since);
	cr_assert_eq(sh->pool.buf[a].fence_id, 21);
	sh->fences_since = 1;
	op = (struct rr_op){ .id = 22, .buf = b };
	rr_expose_fence(sh, &op, 1);
	cr_assert_eq(sh->fences, 3);
	cr_assert_eq(sh->fences_since, 1, "since there are any");
	rr_expose_fenced(sh, a, 1);
	cr_assert(dones == 0 && sh->fences == 2);
	rr_expose_fenced(sh, b, 1);
	cr_assert(dones == 1 && done.id == 22 && done.status == 0 && sh->fences == 1);
	rr_expose_fenced(sh, b, 1);
	cr_assert(dones == 1 && sh->fences == 1, "one that is not awaited");
	rr_expose_fenced(sh, a, 1);
	cr_assert(dones == 2 && done.id == 21 && sh->fences == 0);
	cr_assert_eq(sh->pool.buf[a].fence_id, 0);
	op = (struct rr_op){ .id = 23, .buf = a };
	rr_expose_fence(sh, &op, 1);
	cr_assert(dones == 3 && done.id == 23 && done.status == 0, "without keys at once");
}

Test(conn_pull, a_buffer_is_free_when_its_last_key_is_taken_back)
{
	uint32_t a, b, used;

	expose_two(&a, &b);
	used = sh->pool.used;
	rr_expose_drop(sh, a);
	cr_assert(sh->pool.used == used && sh->pool.buf[a].dying);
	rr_expose_fenced(sh, a, 1);
	cr_assert_eq(sh->pool.used, used);
	rr_expose_fenced(sh, a, 1);
	cr_assert_eq(sh->pool.used, used - 2);
	cr_assert_not(sh->pool.buf[a].dying);
	cr_assert_eq(dones, 0, "the engine has not asked");
}

Test(conn_pull, of_a_connection_that_is_gone_every_key_is_gone)
{
	struct rr_op op = { .id = 21 };
	uint32_t a, b, used;

	expose_two(&a, &b);
	used = sh->pool.used;
	op.buf = b;
	rr_expose_fence(sh, &op, 1);
	rr_expose_drop(sh, a);
	cr_assert_eq(sh->fences, 3);
	rr_expose_all_fenced(sh, 1);
	cr_assert_eq(sh->fences, 0);
	cr_assert(dones == 1 && done.id == 21);
	cr_assert_eq(sh->pool.used, used - 2);
	rr_expose_all_fenced(sh, 1);
	cr_assert(dones == 1 && sh->fences == 0 && sh->pool.used == used - 2);
}

Test(conn_pull, a_key_that_cannot_be_taken_back_is_the_end)
{
	uint32_t a, b;

	expose_two(&a, &b);
	pl.on_gone.first = -ECONNRESET;
	rr_expose_drop(sh, a);
	cr_assert(rr_link_is_lost(sh) && !rr_link_is_dead(sh));
	cr_assert_eq(sh->fences, 0);
	pl.on_gone.first = -EIO;
	rr_expose_drop(sh, b);
	cr_assert(rr_link_is_dead(sh));
}

Test(conn_pull, fences_are_looked_at_soon_and_then_less_often)
{
	rr_time due, now;

	sh = play(true);
	cr_assert_eq(rr_drv_fence_due(sh), RR_TIME_NEVER);
	sh->fences = 1;
	now = rr_now();
	sh->fences_since = now + RR_SEC;	/* the coarse clock may stand still */
	due = rr_drv_fence_due(sh);
	cr_assert(due >= now + RR_MSEC && due <= rr_now() + RR_MSEC);
	now = rr_now();
	sh->fences_since = now - 100 * RR_MSEC;
	due = rr_drv_fence_due(sh);
	cr_assert(due >= now + 25 * RR_MSEC && due <= rr_now() + (rr_now() - sh->fences_since) / 4);
	now = rr_now();
	sh->fences_since = now - RR_SEC;
	due = rr_drv_fence_due(sh);
	cr_assert(due >= now + 50 * RR_MSEC && due <= rr_now() + 50 * RR_MSEC);
	pl.ops.caps &= ~(uint32_t)RR_PROV_DIRECT;
	cr_assert_eq(rr_drv_fence_due(sh), RR_TIME_NEVER, "a completion tells");
}
