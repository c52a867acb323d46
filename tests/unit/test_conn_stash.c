/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that nobody reads move into memory of ours (core/conn/carried/driver.c, rr_drv_stash()): those that hold receives, and those that
 * are still the peer's. */

#include <errno.h>

#include "core/base/compiler.h"
#include "tests/lib/fakepair.h"

#define INLINE	16384u
#define SHORT	10000u	/* in a receive, more than two pages of ours */
#define LONGER	20000u	/* in the peer's memory */
#define ODD	16u
#define BLANK	0xa5
#define OLD	(100 * RR_SEC)

static struct rr_share *sh;
static uint8_t stream[1 << 20];
static size_t sent;
static uint32_t kept[RR_POOL_BUFS], nkept;
static int (*read_as_usual)(struct rr_qp *, void *, uint32_t, const struct rr_seg *, uint32_t, uint64_t);

TestSuite(conn_stash, .timeout = 60);

static void open_pair(void)
{
	rr_test_setup();
	rr_test_params.inline_size = INLINE;
	rr_test_params.eng.credits = 8;
	rr_test_params.eng.bc_credits = 2;
	open_over(&(struct rr_fake_conf){ .direct = true, .eager = true, .ring = true }, 7);
	l.ops.send_note = NULL;		/* messages come whole: see test_conn_advance.c */
	send_one(&p.client, &p.server, rr_test_call(out, 1, 10, 1));
	send_one(&p.server, &p.client, rr_test_reply(out, 1, 10, 1));
	sh = p.server.c->share;
	cr_assert_eq(sh->pool.used, 0);
	memset(sh->pool.mem, BLANK, (size_t)sh->pool.npages * RR_POOL_PAGE);
}

static void keep(size_t len)
{
	int64_t b = rr_pool_alloc(&sh->pool, len);

	cr_assert_geq(b, 0);
	kept[nkept++] = (uint32_t)b;
}

/* Of what is free no two pages are together. */
static void take_every_other_page(void)
{
	uint32_t gap[ODD];

	for (uint32_t i = 0; i < ODD; i++) {
		int64_t b = rr_pool_alloc(&sh->pool, 1);

		cr_assert_geq(b, 0);
		gap[i] = (uint32_t)b;
		keep(1);
	}
	keep((size_t)(sh->pool.npages - sh->pool.used) * RR_POOL_PAGE);
	for (uint32_t i = 0; i < ODD; i++)
		rr_pool_free(&sh->pool, gap[i]);
}

static void give_pages_back(void)
{
	while (nkept)
		rr_pool_free(&sh->pool, kept[--nkept]);
}

/* Nobody has written to the pages that are somebody else's. */
static void assert_kept(void)
{
	for (uint32_t i = 0; i < nkept; i++) {
		size_t room;
		const uint8_t *at = rr_pool_at(&sh->pool, kept[i], 0, &room);

		for (size_t k = 0; k < room; k++)
			cr_assert_eq(at[k], BLANK, "byte %zu of buffer %u", k, i);
	}
}

/* A call that the server's app does not read. False: there is no room for it. */
static bool send_call(size_t len)
{
	size_t n = rr_test_call(stream + sent, 100, len, (unsigned)sent);
	ssize_t rc = rr_end_try_send(&p.client, stream + sent, n);

	if (rc == -EAGAIN)
		return false;
	cr_assert_eq(rc, (ssize_t)n);
	sent += n;
	while (rr_fake_busy(&l)) {	/* who asks for bytes to read is content with those that there are */
		rr_end_poll(&p.server, POLLOUT);
		rr_end_poll(&p.client, POLLOUT);
	}
	return true;
}

static const struct rr_rx_ent *message(uint32_t i)
{
	return &sh->rx.ent[(sh->rx.head + i) % RR_RX_ENTS];
}

/* So many short ones that the one at the front has to move. */
static void send_until_moved(void)
{
	uint32_t more = sh->qp->recvs;

	while (more-- && !message(0)->stashed)
		cr_assert(send_call(100));
}

/* Calls that are not answered stay exposed; but all of that has been read. */
static void settle_server(void)
{
	struct rr_share *c = p.client.c->share;
	struct rr_seg seg;

	cr_assert_eq(sh->pool.used, 0);
	cr_assert_eq(sh->rx.stash, 0);
	cr_assert_eq(sh->rx.held, 0);
	for (uint32_t i = 0; rr_fake_key(c->qp, i, &seg); i++)
		cr_assert(l.ops.consumed(c->qp, seg.handle));
	for (uint32_t i = 0; i < RR_PULLS; i++)
		cr_assert_not(sh->pull[i].used);
}

static void read_all(void)
{
	cr_assert_eq(rr_end_recv(&p.server, &p.client, in, sent), (ssize_t)sent);
	cr_assert_eq(memcmp(in, stream, sent), 0);
	give_pages_back();
	settle_server();
	close_pair();
}

/* Behind its last byte a message has touched nothing. */
static void assert_no_more(const struct rr_rx_ent *e)
{
	size_t room, end = rr_pool_room(&sh->pool, e->ref);

	for (size_t off = e->len; off < end; off++)
		cr_assert_eq(*rr_pool_at(&sh->pool, e->ref, off, &room), BLANK, "byte %zu", off);
}

static void move_in_pieces(size_t len, enum rr_from from)
{
	uint32_t held;

	open_pair();
	take_every_other_page();
	cr_assert(send_call(len));
	cr_assert_eq(message(0)->from, from);
	rr_drv_stash(sh, message(0)->since + OLD);
	cr_assert_eq(message(0)->from, from, "there is no need yet");
	send_until_moved();
	cr_assert(message(0)->stashed);
	cr_assert_eq(message(0)->from, RR_FROM_BUF);
	cr_assert_gt(sh->pool.buf[message(0)->ref].nexts, 1);
	assert_no_more(message(0));
	assert_kept();
	cr_assert_eq(sh->rx.stash, message(0)->len);
	held = sh->rx.tail - sh->rx.head - 1;
	cr_assert_eq(sh->rx.held, held);
	cr_assert_eq(held, sh->qp->recvs / 2, "no more than has to");
	read_all();
}

Test(conn_stash, what_lies_in_a_receive_moves_whole_into_memory_in_pieces)
{
	move_in_pieces(SHORT, RR_FROM_RECV);
}

Test(conn_stash, what_lies_with_the_peer_moves_whole_into_memory_in_pieces)
{
	move_in_pieces(LONGER, RR_FROM_PULL);
}

Test(conn_stash, receives_of_what_has_moved_are_the_peers_again)
{
	uint32_t n = 0;

	open_pair();
	while (send_call(100))
		cr_assert_lt(n++, 10000);
	cr_assert_gt(n, 3 * sh->qp->recvs, "%u messages by %u receives", n, sh->qp->recvs);
	read_all();
}

static int reads;	/* that go well yet */

static int read_a_few(struct rr_qp *qp, void *dst, uint32_t len, const struct rr_seg *src, uint32_t off, uint64_t cookie)
{
	return reads-- > 0 ? read_as_usual(qp, dst, len, src, off, cookie) : -EIO;
}

/* It is there for who reads it, as what is behind it. */
Test(conn_stash, what_cannot_be_fetched_now_stays_where_it_is)
{
	uint32_t used, keys;

	open_pair();
	take_every_other_page();
	read_as_usual = l.ops.read;
	cr_assert(send_call(LONGER));
	cr_assert(send_call(SHORT));
	used = sh->pool.used;
	keys = rr_fake_keys(p.client.c->share->qp);
	l.ops.read = read_a_few;
	for (uint32_t i = 0; i < sh->qp->recvs / 2 + 2; i++) {
		reads = 2;
		cr_assert(send_call(100));
		cr_assert_eq(message(0)->from, RR_FROM_PULL);
		cr_assert_not(message(0)->stashed);
		cr_assert_eq(message(1)->from, RR_FROM_RECV, "none before its turn");
		cr_assert_eq(sh->pool.used, used);
		cr_assert_eq(sh->rx.stash, 0);
	}
	cr_assert_lt(reads, 0, "it was tried");
	cr_assert_eq(sh->rx.held, sh->rx.tail - sh->rx.head);
	cr_assert_eq(rr_fake_keys(p.client.c->share->qp), keys);
	l.ops.read = read_as_usual;
	rr_drv_stash(sh, 0);
	cr_assert_eq(sh->rx.held, sh->qp->recvs / 2, "all that has to");
	read_all();
}

Test(conn_stash, what_finds_no_memory_stays_where_it_is)
{
	open_pair();
	take_every_other_page();
	rr_pool_free(&sh->pool, kept[--nkept]);
	for (uint32_t free = sh->pool.npages - sh->pool.used; free > 1; free--)
		keep(1);
	cr_assert(send_call(SHORT));
	for (uint32_t i = 0; i < sh->qp->recvs / 2 + 2; i++) {
		cr_assert(send_call(100));
		cr_assert_eq(message(0)->from, RR_FROM_RECV);
		cr_assert_eq(message(1)->from, RR_FROM_RECV, "none before its turn");
	}
	read_all();
}

static int kicks;

static void count_kick(struct rr_qp *qp)
{
	(void)qp;
	kicks++;
}

/* A reply is the responder's memory until it is fetched: an app that does not read must not have it for ever. */
Test(conn_stash, a_reply_that_nobody_reads_is_fetched_after_a_while)
{
	struct rr_share *c;
	uint64_t copied;
	size_t n, more;

	open_pair();
	c = p.client.c->share;
	send_one(&p.client, &p.server, rr_test_call(out, 2, 10, 2));
	send_one(&p.client, &p.server, rr_test_call(out, 3, 10, 2));
	n = rr_test_reply(out, 2, LONGER, 3);
	more = rr_test_reply(out + n, 3, 100, 4);
	cr_assert_eq(rr_end_try_send(&p.server, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_try_send(&p.server, out + n, more), (ssize_t)more);
	n += more;
	while (rr_fake_busy(&l)) {
		rr_end_poll(&p.client, POLLOUT);
		rr_end_poll(&p.server, POLLOUT);
	}
	sh = c;
	cr_assert_eq(message(0)->from, RR_FROM_PULL);
	cr_assert_eq(rr_fake_keys(p.server.c->share->qp), 1);
	copied = c->qp->count->v[RR_C_copied];
	rr_drv_stash(c, message(0)->since + RR_SEC / 100);
	cr_assert_eq(message(0)->from, RR_FROM_PULL);
	cr_assert_eq(c->qp->count->v[RR_C_copied], copied);
	l.ops.kick = count_kick;
	rr_drv_stash(c, message(0)->since + OLD);
	cr_assert_eq(message(0)->from, RR_FROM_BUF);
	cr_assert_eq(message(1)->from, RR_FROM_RECV);
	cr_assert_gt(kicks, 0, "the peer may sleep for it");
	cr_assert(message(0)->stashed);
	cr_assert_geq(c->qp->count->v[RR_C_copied] - copied, message(0)->len);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	settle();
	close_pair();
}

static void answer_within_a_call(size_t first, size_t len)
{
	size_t n;

	open_pair();
	cr_assert(send_call(len));
	cr_assert_eq(rr_end_try_recv(&p.server, in, first, 0), (ssize_t)first);
	n = rr_test_reply(out, 100, 10, 7);
	cr_assert_eq(rr_end_send(&p.server, &p.client, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(&p.client, &p.server, in + sent, n), (ssize_t)n);
	cr_assert_eq(memcmp(in + sent, out, n), 0);
	cr_assert(send_call(len), "and goes on");
	cr_assert_eq(rr_end_recv(&p.server, &p.client, in + first, sent - first), (ssize_t)(sent - first));
	cr_assert_eq(memcmp(in, stream, sent), 0);
	close_pair();
}

/* A server may know the answer from a call's header (a procedure that it does not have). With the reply the peer takes
 * its memory back, where the rest of the call lies. */
Test(conn_stash, a_call_that_is_answered_before_it_is_read_is_read_to_its_end)
{
	answer_within_a_call(100, LONGER);
	sent = 0;
	answer_within_a_call(4, LONGER);
	sent = 0;
	answer_within_a_call(LONGER, LONGER);
	sent = 0;
	answer_within_a_call(100, SHORT);
}

Test(conn_stash, an_answer_that_finds_no_memory_for_the_call_goes_nevertheless)
{
	size_t n;

	open_pair();
	cr_assert(send_call(LONGER));
	while (sh->pool.used < sh->pool.npages)
		keep(1);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 100, 0), 100);
	n = rr_test_reply(out, 100, 10, 7);
	cr_assert_eq(rr_end_send(&p.server, &p.client, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(&p.client, &p.server, in, n), (ssize_t)n);
	give_pages_back();
	close_pair();
}
