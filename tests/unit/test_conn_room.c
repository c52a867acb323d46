/* SPDX-License-Identifier: BSD-3-Clause */
/* How a connection's memory is shared out (core/conn/base/room.c): whatever is on its way and offered for replies, the longest
 * message can be fetched, and the longest can be written. Else two ends wait for each other for ever. */

#include <errno.h>

#include "core/base/compiler.h"
#include "tests/lib/bytes.h"
#include "tests/lib/fakepair.h"

#define MSG	(15u * 4096 + 100)
#define BUFS	64u

static struct rr_share *sh;
static uint64_t rng;
static uint32_t buf[BUFS], nbufs;

TestSuite(conn_room, .timeout = 60);

static void open_pair(bool direct, bool reliable, bool reverse)
{
	rr_test_setup();
	rr_test_params.eng.max_msg = rr_test_params.eng.reply_chunk_max = MSG;
	rr_test_params.memory = 2 * MSG;
	rr_test_params.max_stash = 65536;
	rr_test_params.reliable_replies = reliable;
	rr_test_params.reverse_chunks = reverse;
	open_over(&(struct rr_fake_conf){ .eager = true, .ring = true, .direct = direct }, 3);
	send_one(&p.client, &p.server, rr_test_call(out, 1, 10, 1));
	send_one(&p.server, &p.client, rr_test_reply(out, 1, 10, 1));
	sh = p.client.c->share;
	cr_assert_eq(sh->pool.used, 0);
}

static uint32_t rnd(uint32_t most)
{
	return (uint32_t)(rng_next(&rng) % most);
}

/* There is room for one of so many bytes; it is given back. */
static bool fits(size_t len)
{
	int64_t b = rr_pool_alloc(&sh->pool, len);

	if (b >= 0)
		rr_pool_free(&sh->pool, (uint32_t)b);
	return b >= 0;
}

static void release(uint32_t i)
{
	rr_pool_free(&sh->pool, buf[i]);
	buf[i] = buf[--nbufs];
}

static int64_t offer(size_t len)
{
	return rr_pool_alloc_below(&sh->pool, len, rr_room_reply(sh));
}

/* The record that is written gets longer, to len bytes, if it may. */
static bool write_to(size_t len)
{
	int64_t b;

	if (sh->tx.buf == RR_BUF_NONE) {
		b = rr_pool_alloc_below(&sh->pool, len, rr_room_out(sh));
		if (b < 0)
			return false;
		sh->tx.buf = (uint32_t)b;
	} else if (rr_pool_grow(&sh->pool, sh->tx.buf, len, rr_room_out(sh))) {
		return false;
	}
	rr_pool_outbound(&sh->pool, sh->tx.buf);
	return true;
}

static void written(void)
{
	if (sh->tx.buf == RR_BUF_NONE)
		return;
	buf[nbufs++] = sh->tx.buf;
	sh->tx.buf = RR_BUF_NONE;
}

static void step(void)
{
	uint32_t what = rnd(4);
	int64_t b;

	if (what == 0 && nbufs < BUFS) {
		b = offer(1 + rnd(rnd(2) ? 4096 : MSG));
		if (b >= 0)
			buf[nbufs++] = (uint32_t)b;
	} else if (what == 1 && nbufs) {
		release(rnd(nbufs));
	} else if (what == 2) {
		write_to(1 + rnd(MSG));
	} else if (nbufs < BUFS) {
		written();
	}
}

Test(conn_room, the_longest_can_always_be_fetched_and_alone_be_written)
{
	open_pair(false, false, true);
	for (int i = 0; i < 50000; i++) {
		step();
		cr_assert(fits(MSG), "step %d: of %u pages %u are out, %u used", i, sh->pool.npages, sh->pool.out,
			  sh->pool.used);
		if (!sh->pool.out) {
			cr_assert(write_to(MSG), "step %d: nothing is written any more", i);
			written();
		}
	}
	written();
	while (nbufs)
		release(0);
	cr_assert_eq(sh->pool.used + sh->pool.out, 0);
	close_pair();
}

/* What is set aside comes on top: calls are offered as much as there was. */
Test(conn_room, what_is_set_aside_is_not_taken_from_what_calls_offer)
{
	size_t sum = 0;
	int64_t b;

	open_pair(false, false, true);
	while (b = offer(MSG), b >= 0) {
		buf[nbufs++] = (uint32_t)b;
		sum += MSG;
	}
	cr_assert_eq(b, -EAGAIN);
	cr_assert_geq(sum, 2 * MSG);
	cr_assert(write_to(MSG));
	cr_assert(fits(MSG));
	written();
	while (nbufs)
		release(0);
	cr_assert_eq(offer(sh->qp->mem_size - MSG), -ENOMEM);
	close_pair();
}

/* Where nothing is fetched into memory, calls may offer all of it. */
Test(conn_room, who_fetches_nothing_sets_nothing_aside)
{
	static const struct { bool direct, reliable; } how[] = { { false, false }, { true, true } };

	for (size_t i = 0; i < rr_array_size(how); i++) {
		int64_t b;

		open_pair(how[i].direct, how[i].reliable, false);
		cr_assert_eq(rr_room_out(sh), sh->qp->mem_size);
		b = offer(sh->qp->mem_size);
		cr_assert_geq(b, 0);
		cr_assert_eq(sh->pool.used, sh->pool.npages);
		rr_pool_free(&sh->pool, (uint32_t)b);
		close_pair();
	}
}
