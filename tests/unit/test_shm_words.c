/* SPDX-License-Identifier: BSD-3-Clause */
/* Each word of a shm connection's shared memory that one end writes, and what the other end makes of it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "core/base/os.h"
#include "core/base/pages.h"
#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)
#define MEM_MAX	(UINT64_C(1) << 30)

/* --- how a region is laid out ---------------------------------------------------------------------------------- */

static int geo(uint32_t size, uint32_t recvs, uint64_t mem)
{
	struct rr_shm_geo g;

	return rr_shm_geo_init(&g, size, recvs, mem);
}

Test(shm_words, numbers_of_a_region_have_bounds)
{
	cr_assert(geo(1024, 1, 0) == 0 && geo(262144, 1, 0) == 0 && geo(1024, 4096, 0) == 0 && geo(1024, 1, MEM_MAX) == 0);
	cr_assert_eq(geo(1023, 1, 0), -EINVAL);
	cr_assert_eq(geo(262145, 1, 0), -EINVAL);
	cr_assert_eq(geo(1024, 0, 0), -EINVAL);
	cr_assert_eq(geo(1024, 4097, 0), -EINVAL);
	cr_assert_eq(geo(1024, 1, MEM_MAX + RR_PAGE), -EINVAL);
	cr_assert_eq(geo(1024, 1, 1), -EINVAL);
	cr_assert_eq(geo(1024, 1, RR_PAGE - 1), -EINVAL);
	cr_assert_eq(geo(1024, 1, RR_PAGE), 0);
}

Test(shm_words, the_parts_of_a_region_lie_one_behind_the_other)
{
	static const struct {
		uint32_t size, recvs, slots, stride;
	} rows[] = {
		{ 1024, 1, 1, 1088 }, { 1025, 2, 2, 1088 }, { 1088, 3, 4, 1088 }, { 1089, 4, 4, 1216 },
		{ 4096, 5, 8, 4160 }, { 4096, 8, 8, 4160 }, { 4160, 9, 16, 4160 }, { 262144, 4096, 4096, 262208 },
	};

	for (size_t i = 0; i < rr_array_size(rows); i++) {
		struct rr_shm_geo g;
		size_t ring = 384 + 4 * rows[i].slots;

		cr_assert_eq(rr_shm_geo_init(&g, rows[i].size, rows[i].recvs, 3 * RR_PAGE), 0);
		cr_assert(g.recv_size == rows[i].size && g.recvs == rows[i].recvs && g.mem_size == 3 * RR_PAGE);
		cr_assert_eq(g.slots, rows[i].slots);
		cr_assert_eq(g.stride, rows[i].stride);
		cr_assert(g.ring_off >= ring && g.ring_off < ring + 64 && g.ring_off % 64 == 0);
		cr_assert_eq(g.keys_off, rr_align(g.ring_off + (size_t)320 * g.slots, (size_t)RR_PAGE));
		cr_assert_eq(g.long_off, g.keys_off + 1024 * 32);
		cr_assert_eq(g.long_len, rr_align((size_t)g.stride * g.slots, (size_t)RR_PAGE));
		cr_assert_eq(g.mem_off, g.long_off + g.long_len);
		cr_assert_eq(g.total, g.mem_off + 3 * RR_PAGE);
	}
}

Test(shm_words, the_smaller_ring_counts)
{
	struct rr_shm_geo a, b, was;

	rr_shm_geo_init(&a, 1024, 5, 0);
	rr_shm_geo_init(&b, 4096, 100, 0);
	was = b;
	rr_shm_geo_agree(&a, &b);
	cr_assert(a.recvs == 5 && b.recvs == 5 && a.slots == 8 && b.slots == 8);
	cr_assert(b.total == was.total && b.stride == was.stride && a.recv_size == 1024 && b.recv_size == 4096);
	rr_shm_geo_init(&b, 4096, 3, 0);
	rr_shm_geo_agree(&a, &b);
	cr_assert(a.recvs == 3 && b.recvs == 3 && a.slots == 4 && b.slots == 4);
}

Test(shm_words, how_much_of_a_peers_is_borne)
{
	struct rr_shm_geo g = { .total = 1 };

	cr_assert_eq(rr_shm_geo_bearable(&g), 160u << 20);
	g.total = 40u << 20;
	cr_assert_eq(rr_shm_geo_bearable(&g), 160u << 20);
	g.total++;
	cr_assert_eq(rr_shm_geo_bearable(&g), (160u << 20) + 4);
}

/* --- messages -------------------------------------------------------------------------------------------------- */

static struct shm_pair p;
static struct rr_shm *c, *s;
static uint8_t bytes[4096];

static void init(void)
{
	shm_pair_open(&p, 5);
	c = rr_shm_of(p.c);
	s = rr_shm_of(p.s);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
}

static void fini(void)
{
	shm_pair_close(&p);
}

TestSuite(shm_msg, .init = init, .fini = fini);

static int send_n(size_t n, uint32_t inv)
{
	struct iovec iov = { bytes, n };

	return ops->send(p.c, &iov, 1, 99, inv);
}

static struct rr_wc next(void)
{
	struct rr_wc wc;

	memset(&wc, 0xff, sizeof(wc));
	cr_assert_eq(ops->poll(p.s, &wc, 1), 1);
	return wc;
}

Test(shm_msg, a_send_fills_in_its_slot)
{
	struct rr_shm_slot *at = s->own.ring;

	at[1].skip = 77;
	cr_assert_eq(send_n(10, 0), 1);
	cr_assert(at[0].seq == 1 && at[0].len == 10 && at[0].arg == 0 && at[0].skip == 0);
	cr_assert_eq(memcmp(at[0].data, bytes, 10), 0);
	cr_assert(c->tx_pos == 1 && c->tx_sent == 1 && c->slot[0].tx_used == 1 && c->tx_made == 0);
	cr_assert_eq(c->unkicked, RR_ARM_RECV);
	cr_assert_eq(send_n(304, 0), 1);
	cr_assert(at[1].seq == 3 && at[1].len == 304 && at[1].skip == 0 && !memcmp(at[1].data, bytes, 304));
	cr_assert_eq(c->tx_made, 0);
	cr_assert_eq(send_n(305, 0), 1);
	cr_assert(at[2].seq == 5 && at[2].len == 305);
	cr_assert_eq(memcmp(s->own.longs + 2 * s->own.geo.stride, bytes, 305), 0);
	cr_assert_gt(c->tx_made, 0);
	cr_assert_eq(ops->send_imm(p.c, 0x1234, 5), 1);
	cr_assert(at[3].seq == 7 && at[3].len == RR_SHM_IMM && at[3].arg == 0x1234);
	cr_assert(c->tx_pos == 4 && c->tx_sent == 4);
	cr_assert_eq(send_n(0, 0), 1);
	cr_assert(at[4].seq == 9 && at[4].len == 0);
	cr_assert_eq(send_n(1, 0), -EAGAIN);
	cr_assert_eq(ops->send_imm(p.c, 1, 5), -EAGAIN);
	cr_assert(c->tx_pos == 5 && c->tx_sent == 5);
}

Test(shm_msg, a_note_has_both)
{
	struct rr_wc wc;

	cr_assert_eq(ops->send_note(p.c, 0x4321, bytes, RR_PROV_NOTE), 1);
	wc = next();
	cr_assert(wc.op == RR_WC_RECV && wc.has_imm && wc.imm == 0x4321 && !wc.has_inv && wc.len == RR_PROV_NOTE);
	cr_assert_eq(memcmp(wc.buf, bytes, RR_PROV_NOTE), 0);
	ops->repost(p.s, wc.cookie);
	for (int i = 0; i < 5; i++)
		ops->send_note(p.c, i, bytes, 1);
	cr_assert_eq(ops->send_note(p.c, 5, bytes, 1), -EAGAIN);
	wc = next();
	cr_assert(wc.imm == 0 && wc.len == 1);
	rr_shm_fail(c, -EPROTO);
	cr_assert_eq(ops->send_note(p.c, 6, bytes, 1), -EPROTO);
}

Test(shm_msg, a_receive_says_what_came)
{
	struct rr_seg seg;
	struct rr_wc wc;

	cr_assert_eq(ops->expose(p.s, p.s->mem, 100, RR_RIGHT_READ, &seg), 0);
	send_n(304, 0);
	send_n(305, seg.handle);
	ops->send_imm(p.c, 0x1234, 0);
	wc = next();
	cr_assert(wc.op == RR_WC_RECV && wc.status == 0 && wc.cookie == 0 && wc.len == 304 && !wc.has_imm && !wc.has_inv);
	cr_assert(wc.buf == s->own.ring[0].data && wc.imm == 0 && wc.inv_handle == 0);
	wc = next();
	cr_assert(wc.op == RR_WC_RECV && wc.status == 0 && wc.cookie == 1 && wc.len == 305 && !wc.has_imm && wc.has_inv);
	cr_assert(wc.inv_handle == seg.handle && wc.buf == s->own.longs + s->own.geo.stride && wc.imm == 0);
	wc = next();
	cr_assert(wc.op == RR_WC_RECV && wc.status == 0 && wc.cookie == 2 && wc.len == 0 && wc.has_imm && !wc.has_inv);
	cr_assert(wc.imm == 0x1234 && wc.inv_handle == 0);
	cr_assert(s->rx_held == 3 && s->rx_pos == 3 && s->rx_tail == 0);
	cr_assert(s->slot[0].rx_seq == 1 && s->slot[0].rx_last == 1 && s->slot[2].rx_seq == 5 && s->slot[3].rx_seq == 0);
	cr_assert_eq(s->unkicked, 0);
}

Test(shm_msg, a_receive_that_is_given_back_is_published)
{
	struct rr_shm_ctl *ctl = c->peer.ctl;

	for (int i = 0; i < 3; i++)
		send_n(1, 0);
	for (int i = 0; i < 3; i++)
		next();
	ops->repost(p.s, 1);
	cr_assert(ctl->reposted == 1 && ctl->tail == 0 && c->peer.freed[1] == 3 && c->peer.freed[0] == 0);
	cr_assert(s->slot[1].rx_seq == 0 && s->slot[1].rx_last == 3 && s->rx_held == 2 && s->rx_tail == 0);
	cr_assert_eq(s->unkicked, RR_ARM_SEND);
	ops->repost(p.s, 0);
	cr_assert(ctl->reposted == 2 && ctl->tail == 2 && c->peer.freed[0] == 1 && s->rx_held == 1);
	ops->repost(p.s, 2);
	cr_assert(ctl->reposted == 3 && ctl->tail == 3 && c->peer.freed[2] == 5 && s->rx_held == 0);
	cr_assert(ops->peek(p.c, RR_ARM_SEND));
	cr_assert_eq(ops->window(p.c), 5);
	cr_assert_not(ops->peek(p.c, RR_ARM_SEND));
	cr_assert(rr_shm_tx_idle(c));
}

Test(shm_msg, nothing_is_left_only_if_all_is_given_back)
{
	cr_assert(rr_shm_tx_idle(c));
	send_n(1, 0);
	cr_assert_not(rr_shm_tx_idle(c));
	next();
	cr_assert_not(rr_shm_tx_idle(c));
	ops->repost(p.s, 0);
	cr_assert(rr_shm_tx_idle(c));
	s->own.ctl->tail = 0;
	cr_assert_not(rr_shm_tx_idle(c), "a slot is being read, as it seems");
	s->own.ctl->tail = 1;
	atomic_store(&c->lost, true);
	cr_assert_not(rr_shm_tx_idle(c));
}

Test(shm_msg, a_slot_that_is_held_is_passed_over)
{
	for (int i = 0; i < 5; i++)
		send_n(1, 0);
	for (int i = 0; i < 5; i++)
		next();
	for (uint32_t i = 1; i < 5; i++)
		ops->repost(p.s, i);
	for (uint32_t i = 5; i < 8; i++)
		cr_assert_eq(send_n(1, 0), 1);
	for (uint32_t i = 5; i < 8; i++) {
		cr_assert_eq(next().cookie, i);
		ops->repost(p.s, i);
	}
	cr_assert_eq(send_n(2, 0), 1);
	cr_assert(s->own.ring[0].skip == rr_shm_seq(8) && s->own.ring[0].seq == 1);
	cr_assert(s->own.ring[1].seq == rr_shm_seq(9) && s->own.ring[1].skip == 0);
	cr_assert(c->tx_pos == 10 && c->tx_sent == 9 && c->slot[1].tx_used == rr_shm_seq(9));
	cr_assert(ops->peek(p.s, RR_ARM_RECV));
	cr_assert_eq(next().cookie, 1);
	cr_assert(s->rx_pos == 10 && s->rx_tail == 2 && s->rx_held == 2);
}

Test(shm_msg, what_failed_posts_nothing)
{
	atomic_store(&c->err, -EPROTO);
	cr_assert_eq(send_n(1, 0), -EPROTO);
	cr_assert_eq(ops->send_imm(p.c, 1, 0), -EPROTO);
	cr_assert_eq(ops->window(p.c), 0);
	cr_assert_eq(ops->poll(p.c, &(struct rr_wc){ 0 }, 1), -EPROTO);
	atomic_store(&c->err, 0);
	atomic_store(&c->lost, true);
	cr_assert_eq(send_n(1, 0), -ECONNRESET);
	cr_assert_eq(ops->send_imm(p.c, 1, 0), -ECONNRESET);
	cr_assert_eq(ops->window(p.c), 0);
	cr_assert(c->tx_pos == 0 && c->unkicked == 0);
	cr_assert(ops->peek(p.c, 0));
	cr_assert_eq(ops->poll(p.c, &(struct rr_wc){ 0 }, 1), -ECONNRESET);
	cr_assert_eq(c->err, -ECONNRESET);
}

/* Messages that have come are delivered before the end. */
Test(shm_msg, the_end_comes_last)
{
	struct rr_wc wc[5];

	send_n(1, 0);
	send_n(2, 0);
	send_n(3, 0);
	atomic_store(&s->lost, true);
	cr_assert_eq(ops->poll(p.s, wc, 2), 2);
	cr_assert(wc[0].len == 1 && wc[1].len == 2 && !s->err);
	cr_assert_eq(ops->poll(p.s, wc, 5), 1);
	cr_assert_eq(s->err, 0);
	cr_assert_eq(ops->poll(p.s, wc, 0), 0, "who asks for nothing gets nothing");
	cr_assert_eq(ops->poll(p.s, wc, 5), -ECONNRESET);
	cr_assert_eq(s->err, -ECONNRESET);
}

Test(shm_msg, what_is_not_asked_for_is_not_peeked_at)
{
	send_n(1, 0);
	cr_assert(ops->peek(p.s, RR_ARM_RECV) && ops->peek(p.s, RR_ARM_RECV | RR_ARM_SEND));
	cr_assert_not(ops->peek(p.s, RR_ARM_SEND));
	cr_assert_not(ops->peek(p.c, RR_ARM_RECV | RR_ARM_SEND));
	ops->repost(p.s, next().cookie);
	cr_assert(ops->peek(p.c, RR_ARM_SEND) && !ops->peek(p.c, RR_ARM_RECV));
	atomic_store(&c->err, -EPROTO);
	cr_assert(ops->peek(p.c, RR_ARM_RECV));
}

/* --- pages made in advance ------------------------------------------------------------------------------------- */

Test(shm_words, pages_are_made_for_as_many_as_were_used)
{
	shm_pair_open(&p, 64);
	c = rr_shm_of(p.c);
	s = rr_shm_of(p.s);
	cr_assert_eq(send_n(305, 0), 1);
	cr_assert_eq(c->tx_made, 3);
	send_n(305, 0);
	cr_assert_eq(c->tx_made, 3);
	for (int n = 2; n < 9; n++)
		send_n(304, 0);
	cr_assert_eq(c->tx_made, 3, "for short ones none are made");
	send_n(305, 0);
	cr_assert_eq(c->tx_made, 13);
	for (int n = 10; n < 12; n++)
		send_n(305, 0);
	cr_assert_eq(c->tx_made, 13);
	send_n(305, 0);
	cr_assert_eq(c->tx_made, 26);
	for (int n = 13; n < 26; n++)
		send_n(305, 0);
	cr_assert_eq(c->tx_made, 42, "no more than so many at a time");
	for (int n = 26; n < 58; n++)
		send_n(305, 0);
	cr_assert_eq(c->tx_made, 64, "no further than the ring");
	shm_pair_close(&p);
}

/* --- keys ------------------------------------------------------------------------------------------------------ */

Test(shm_msg, a_key_says_what_it_is_for)
{
	struct rr_shm_key *k = s->own.keys;
	struct rr_seg seg, more;
	uint32_t gen = s->key_gen ? s->key_gen : 1;

	k[0].consumed = 7;
	cr_assert_eq(ops->expose(p.s, p.s->mem + 5, 100, RR_RIGHT_WRITE, &seg), 0);
	cr_assert(seg.handle == gen << RR_SHM_KEY_BITS && seg.length == 100 && seg.offset == 5);
	cr_assert(k->handle == seg.handle && k->rights == RR_RIGHT_WRITE && k->offset == 5 && k->length == 100 && !k->consumed);
	cr_assert(s->key_fresh == 1 && s->key_live == 1 && s->key_free == 0 && s->key[0].live && s->key[0].handle == seg.handle);
	cr_assert_eq(ops->expose(p.s, p.s->mem, 0, RR_RIGHT_READ, &more), 0);
	cr_assert_eq(more.handle & (RR_SHM_KEYS - 1), 1);
	cr_assert_eq(more.handle >> RR_SHM_KEY_BITS, (gen + 1) & (UINT32_MAX >> RR_SHM_KEY_BITS));
	cr_assert(s->key_fresh == 2 && s->key_live == 2);
	cr_assert_eq(ops->invalidate(p.s, seg.handle, 1), 1);
	cr_assert(k->handle == 0 && !s->key[0].live && s->key_live == 1 && s->key_free == 1);
	cr_assert_eq(ops->invalidate(p.s, seg.handle, 1), 1);
	cr_assert(s->key_live == 1 && s->key_free == 1);
	cr_assert_eq(ops->invalidate(p.s, 0, 1), 1);
	cr_assert_eq(ops->expose(p.s, p.s->mem, 1, RR_RIGHT_READ, &seg), 0);
	cr_assert_eq(seg.handle & (RR_SHM_KEYS - 1), 0, "the one that was freed last");
	cr_assert(s->key_free == 0 && s->key_fresh == 2 && s->key_live == 2);
	atomic_store(&s->err, -EPROTO);
	cr_assert_eq(ops->expose(p.s, p.s->mem, 1, RR_RIGHT_READ, &more), -EPROTO);
	cr_assert_eq(s->key_live, 2);
}

Test(shm_msg, what_can_be_exposed_ends_with_mem)
{
	uint8_t *end = p.s->mem + p.s->mem_size;
	struct rr_seg seg;

	cr_assert_eq(ops->expose(p.s, end, 0, RR_RIGHT_READ, &seg), 0);
	cr_assert_eq(ops->expose(p.s, end, 1, RR_RIGHT_READ, &seg), -EINVAL);
	cr_assert_eq(ops->expose(p.s, end - 1, 1, RR_RIGHT_READ, &seg), 0);
	cr_assert_eq(ops->expose(p.s, end - 1, 2, RR_RIGHT_READ, &seg), -EINVAL);
	cr_assert_eq(ops->expose(p.s, end + 1, 0, RR_RIGHT_READ, &seg), -EINVAL);
	cr_assert_eq(ops->expose(p.s, p.s->mem - 1, 1, RR_RIGHT_READ, &seg), -EINVAL);
}

Test(shm_msg, while_it_copies_the_peer_says_under_which_key)
{
	struct rr_seg seg;

	ops->expose(p.s, p.s->mem, 100, RR_RIGHT_READ, &seg);
	cr_assert_not(ops->is_copying(p.s));
	s->own.ctl->accessing = seg.handle;
	cr_assert(ops->is_copying(p.s));
	cr_assert_not(ops->is_copying(p.c));
	cr_assert_eq(ops->read(p.c, bytes, 100, &seg, 0, 0), 1);
	cr_assert_eq(s->own.ctl->accessing, 0);
	s->own.ctl->accessing = 5;
	cr_assert_eq(ops->read(p.c, bytes, 101, &seg, 0, 0), -EACCES);
	cr_assert_eq(s->own.ctl->accessing, 0);
	cr_assert_eq(ops->write(p.c, bytes, 1, &seg, 0, 0), -EACCES);
	seg.handle = 0;
	cr_assert_eq(ops->read(p.c, bytes, 1, &seg, 0, 0), -EACCES);
}

Test(shm_msg, what_failed_copies_nothing_but_what_a_dead_peer_left)
{
	struct rr_seg seg;

	memset(p.s->mem, 9, 3);
	ops->expose(p.s, p.s->mem, 3, RR_RIGHT_READ | RR_RIGHT_WRITE, &seg);
	atomic_store(&c->err, -ECONNRESET);
	cr_assert_eq(ops->read(p.c, bytes, 3, &seg, 0, 0), 1);
	cr_assert(bytes[0] == 9 && bytes[2] == 9 && bytes[3] != 9);
	cr_assert_eq(ops->write(p.c, bytes, 1, &seg, 0, 0), -ECONNRESET);
	atomic_store(&c->err, -EPROTO);
	cr_assert_eq(ops->read(p.c, bytes, 1, &seg, 0, 0), -EPROTO);
}

Test(shm_msg, a_segment_lies_within_what_the_key_covers)
{
	struct rr_seg seg, part;

	ops->expose(p.s, p.s->mem + 100, 50, RR_RIGHT_READ, &seg);
	part = seg;
	part.offset = 110;
	part.length = 40;
	cr_assert_eq(ops->read(p.c, bytes, 40, &part, 0, 0), 1);
	cr_assert_eq(ops->read(p.c, bytes, 0, &part, 40, 0), 1);
	cr_assert_eq(ops->read(p.c, bytes, 1, &part, 39, 0), 1);
	cr_assert_eq(ops->read(p.c, bytes, 1, &part, 40, 0), -EACCES);
	cr_assert_eq(ops->read(p.c, bytes, 0, &part, 41, 0), -EACCES);
	part.length = 41;
	cr_assert_eq(ops->read(p.c, bytes, 41, &part, 0, 0), -EACCES);
	cr_assert_eq(ops->read(p.c, bytes, 0, &part, 41, 0), -EACCES);
	part.offset = 99;
	cr_assert_eq(ops->read(p.c, bytes, 1, &part, 0, 0), -EACCES);
	cr_assert_eq(ops->read(p.c, bytes, 1, &part, 1, 0), 1);
	part.offset = UINT64_MAX;
	cr_assert_eq(ops->read(p.c, bytes, 1, &part, 1, 0), -EACCES);
	s->own.keys[0].length = (uint32_t)p.s->mem_size - 100;
	cr_assert_eq(ops->read(p.c, bytes, 1, &seg, 0, 0), 1);
	s->own.keys[0].length++;
	cr_assert_eq(ops->read(p.c, bytes, 1, &seg, 0, 0), -EACCES);
	s->own.keys[0].length = 0;
	s->own.keys[0].offset = p.s->mem_size;
	seg.offset = p.s->mem_size;
	cr_assert_eq(ops->read(p.c, bytes, 0, &seg, 0, 0), 1);
	s->own.keys[0].offset = p.s->mem_size + 1;
	seg.offset = p.s->mem_size + 1;
	cr_assert_eq(ops->read(p.c, bytes, 0, &seg, 0, 0), -EACCES);
}

static struct rr_seg copied;
static uint32_t during;
static uint8_t *guarded;

static void faults(int sig)
{
	(void)sig;
	during = s->own.ctl->accessing;
	mprotect(guarded, RR_PAGE, PROT_READ | PROT_WRITE);
}

/* The app's memory is touched in the middle of the copy, which the other end must be able to see. */
Test(shm_msg, the_key_is_named_before_the_copy_begins)
{
	struct sigaction old, catch = { .sa_handler = faults };

	guarded = mmap(NULL, RR_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ops->expose(p.s, p.s->mem, 100, RR_RIGHT_READ | RR_RIGHT_WRITE, &copied);
	sigaction(SIGSEGV, &catch, &old);
	cr_assert_eq(ops->read(p.c, guarded, 100, &copied, 0, 0), 1);
	cr_assert_eq(during, copied.handle);
	during = 0;
	mprotect(guarded, RR_PAGE, PROT_NONE);
	cr_assert_eq(ops->write(p.c, guarded, 100, &copied, 0, 0), 1);
	sigaction(SIGSEGV, &old, NULL);
	cr_assert_eq(during, copied.handle);
	munmap(guarded, RR_PAGE);
}

Test(shm_msg, no_more_completions_than_there_is_room_for)
{
	struct rr_seg a, b;
	struct rr_wc wc[3];

	memset(wc, 0xee, sizeof(wc));
	ops->expose(p.s, p.s->mem, 100, RR_RIGHT_READ, &a);
	ops->expose(p.s, p.s->mem, 100, RR_RIGHT_READ, &b);
	s->own.ctl->accessing = a.handle;
	cr_assert_eq(ops->invalidate(p.s, a.handle, 11), 0);
	cr_assert(s->fencing == a.handle && !s->key[0].live && s->own.keys[0].handle == 0 && s->key_free == 0);
	s->own.ctl->accessing = b.handle;
	cr_assert_eq(ops->invalidate(p.s, b.handle, 12), 0);
	cr_assert_eq(s->fencing, a.handle);
	cr_assert(ops->peek(p.s, 0));
	s->own.ctl->accessing = 0;
	cr_assert_eq(ops->poll(p.s, wc, 1), 1);
	cr_assert(wc[0].op == RR_WC_INVALIDATE && wc[0].status == 0 && wc[0].cookie == 12 && wc[0].len == 0);
	cr_assert_eq(wc[1].cookie, UINT64_C(0xeeeeeeeeeeeeeeee));
	cr_assert_eq(s->key_free, 2);
	send_n(5, 0);
	cr_assert_eq(ops->poll(p.s, wc, 3), 2);
	cr_assert(wc[0].op == RR_WC_INVALIDATE && wc[0].cookie == 11 && wc[1].op == RR_WC_RECV && wc[1].len == 5);
	cr_assert(s->fencing == 0 && s->fence_list == 0 && s->key_free == 1);
	cr_assert_not(ops->peek(p.s, 0));
	cr_assert_eq(ops->poll(p.s, wc, 3), 0);
}

/* What lies below the peer's tail is free, whatever else is known of it. */
Test(shm_msg, a_slot_below_the_tail_is_free)
{
	for (int i = 0; i < 8; i++) {
		send_n(1, 0);
		ops->repost(p.s, next().cookie);
	}
	for (int i = 0; i < 8; i++)
		c->slot[i].tx_used = 0xfff;
	cr_assert_eq(c->tx_tail, 0);
	cr_assert_eq(send_n(1, 0), 1);
	cr_assert(c->tx_pos == 9 && c->tx_tail == 8 && s->own.ring[0].skip == 0);
	cr_assert_eq(next().cookie, 0);
}

/* --- what each tells the other --------------------------------------------------------------------------------- */

Test(shm_msg, each_end_tells_the_other_of_itself)
{
	struct rr_shm_ctl *ctl = s->own.ctl;
	struct rr_peer_look look;

	ops->tell(p.s, RR_TELL_CPU, 3);
	ops->tell(p.s, RR_TELL_DOING, 4);
	ops->tell(p.s, RR_TELL_WOKE, 5);
	ops->tell(p.s, RR_TELL_WORK, 6);
	cr_assert(ctl->cpu == 3 && ctl->doing == 4 && ctl->woke == 5 && ctl->work == 6);
	ops->observe(p.c, 8, &look);
	cr_assert(look.cpu == 3 && look.doing == 4 && look.woke == 5 && look.work == 6);
	cr_assert_eq(c->own.ctl->cpu, 8);
	ops->observe(p.c, 0, &look);
	cr_assert_eq(c->own.ctl->cpu, 8);
	ops->observe(p.s, 0, &look);
	cr_assert_eq(look.cpu, 8);
	ops->tell(p.s, RR_TELL_CPU, 0);
	cr_assert_eq(ctl->cpu, 0);
}

Test(shm_msg, who_arms_is_rung)
{
	struct pollfd fd = { p.s->wake_fd, POLLIN, 0 };
	rr_time before;

	ops->kick(p.c);
	cr_assert_eq(ops->arm(p.s, RR_ARM_RECV), 0);
	cr_assert_eq(s->own.ctl->armed, RR_ARM_RECV);
	send_n(1, 0);
	before = rr_now();
	ops->kick(p.c);
	cr_assert(s->own.ctl->armed == 0 && c->unkicked == 0);
	cr_assert_eq(poll(&fd, 1, 0), 1);
	cr_assert_eq(p.counts.v[RR_C_wakeups_sent], 1);
	cr_assert_leq((uint32_t)(s->own.ctl->rung - (uint32_t)before), (uint32_t)(rr_now() - before));
	cr_assert_eq(ops->rung(p.s, s->own.ctl->rung + UINT64_C(5)), 5);
	cr_assert_eq(ops->drain(p.s), 0);
	cr_assert_eq(poll(&fd, 1, 0), 0);
	cr_assert_eq(ops->arm(p.s, RR_ARM_RECV), 1, "there is a message");
	cr_assert_eq(s->own.ctl->armed, 0);
	cr_assert_eq(ops->arm(p.s, RR_ARM_SEND), 0);
	send_n(1, 0);
	ops->kick(p.c);
	cr_assert(s->own.ctl->armed == RR_ARM_SEND && poll(&fd, 1, 0) == 0, "it waits for something else");
	ops->disarm(p.s);
	cr_assert_eq(s->own.ctl->armed, 0);
}

Test(shm_msg, who_counts_nothing_rings_as_well)
{
	struct pollfd fd = { p.s->wake_fd, POLLIN, 0 };

	p.c->count = NULL;
	ops->arm(p.s, RR_ARM_RECV);
	send_n(1, 0);
	errno = 77;
	ops->kick(p.c);
	cr_assert_eq(errno, 77);
	cr_assert_eq(poll(&fd, 1, 0), 1);
	cr_assert_eq(p.counts.v[RR_C_wakeups_sent], 0);
}

/* Before it is ready none of this does anything. */
Test(shm_words, of_what_is_not_ready_there_is_nothing_to_say)
{
	struct rr_peer_look look = { 1, 1, 1, 1 };

	shm_pair_init(&p, 4096, 5);
	c = rr_shm_of(p.c);
	c->unkicked = 3;
	cr_assert_not(ops->peek(p.c, RR_ARM_RECV | RR_ARM_SEND));
	ops->kick(p.c);
	cr_assert_eq(c->unkicked, 3);
	cr_assert_eq(ops->arm(p.c, RR_ARM_RECV), 0);
	ops->disarm(p.c);
	ops->tell(p.c, RR_TELL_CPU, 1);
	ops->observe(p.c, 5, &look);
	cr_assert(look.cpu == 0 && look.doing == 0 && look.woke == 0 && look.work == 0);
	cr_assert_not(ops->is_copying(p.c));
	cr_assert_eq(ops->drain(p.c), 0);
	ops->rouse(p.c);
	cr_assert_not(c->roused);
	ops->disconnect(p.c);
	cr_assert_not(c->ended);
	ops->trim(p.c, NULL, NULL);
	shm_qp_free(p.c, &p.cp);
	shm_qp_free(p.s, &p.sp);
}

Test(shm_msg, who_is_roused_has_not_lost_its_peer)
{
	struct pollfd fd = { p.s->wake_fd, POLLIN, 0 };

	errno = 77;
	ops->rouse(p.s);
	cr_assert_eq(errno, 77);
	cr_assert(s->roused && poll(&fd, 1, 0) == 1);
	cr_assert_eq(ops->drain(p.s), 0);
	cr_assert_not(s->lost);
	cr_assert_eq(ops->drain(p.c), 0);
	cr_assert_not(c->lost, "nobody told it");
	ops->disconnect(p.c);
	cr_assert(c->ended);
	cr_assert_eq(ops->drain(p.s), -ECONNRESET);
	cr_assert(s->lost);
}

Test(shm_msg, who_is_left_hears_of_it)
{
	errno = EINTR;		/* of before */
	cr_assert_eq(ops->drain(p.s), 0);
	ops->disconnect(p.c);
	cr_assert(c->ended && errno == EINTR);
	cr_assert_eq(ops->drain(p.s), -ECONNRESET);
	cr_assert(s->lost && errno == EINTR);
	cr_assert_eq(ops->drain(p.s), -ECONNRESET);
}

static int interrupted;

static ssize_t late_recvmsg(int fd, struct msghdr *m, int flags)
{
	if (interrupted++ == 0) {
		errno = EINTR;
		return -1;
	}
	return recvmsg(fd, m, flags);
}

static ssize_t late_recv(int fd, void *buf, size_t n, int flags)
{
	if (interrupted++ == 0) {
		errno = EINTR;
		return -1;
	}
	return recv(fd, buf, n, flags);
}

static ssize_t no_recvmsg(int fd, struct msghdr *m, int flags)
{
	(void)fd;
	(void)m;
	(void)flags;
	errno = EBADF;
	return -1;
}

static ssize_t no_recv(int fd, void *buf, size_t n, int flags)
{
	(void)buf;
	(void)n;
	return no_recvmsg(fd, NULL, flags);
}

Test(shm_msg, a_bell_is_read_again_after_a_signal)
{
	struct pollfd fd = { p.s->wake_fd, POLLIN, 0 };
	struct rr_os os = *rr_os;

	cr_assert_eq(send(p.c->wake_fd, "", 1, 0), 1);
	os.recvmsg = late_recvmsg;
	os.recv = late_recv;
	rr_os = &os;
	cr_assert_eq(ops->drain(p.s), 0);
	shm_use_libc();
	cr_assert_eq(poll(&fd, 1, 0), 0);
	os.recvmsg = no_recvmsg;
	os.recv = no_recv;
	rr_os = &os;
	cr_assert_eq(ops->drain(p.s), -ECONNRESET, "another error is the end");
	shm_use_libc();
}

static int bell_flags, bell_fd;
static size_t bell_len;

static ssize_t note_send(int fd, const void *buf, size_t n, int flags)
{
	(void)buf;
	bell_fd = fd;
	bell_len = n;
	bell_flags = flags;
	errno = EAGAIN;
	return -1;
}

static int no_shutdown(int fd, int how)
{
	(void)fd;
	(void)how;
	errno = EIO;
	return -1;
}

Test(shm_msg, errno_is_left_alone_by_who_shuts_the_bell)
{
	struct rr_os os = *rr_os;

	os.shutdown = no_shutdown;
	rr_os = &os;
	errno = 77;
	ops->rouse(p.s);
	cr_assert_eq(errno, 77);
	ops->disconnect(p.s);
	cr_assert_eq(errno, 77);
	shm_use_libc();
}

Test(shm_msg, a_bell_neither_waits_nor_kills)
{
	struct rr_os os = *rr_os;

	os.send = note_send;
	rr_os = &os;
	ops->arm(p.s, RR_ARM_RECV);
	send_n(1, 0);
	errno = 77;
	ops->kick(p.c);
	shm_use_libc();
	cr_assert(bell_fd == p.c->wake_fd && bell_len == 1 && bell_flags == (MSG_DONTWAIT | MSG_NOSIGNAL) && errno == 77);
}

/* Where the kernel lets no descriptors in, none can be in the socket once it has been empty. */
Test(shm_msg, bells_are_looked_at_until_none_is_left)
{
	s->refusing = s->plain = false;
	cr_assert_eq(ops->drain(p.s), 0);
	cr_assert_not(s->plain, "the kernel lets them in");
	s->refusing = true;
	cr_assert_eq(ops->drain(p.s), 0);
	cr_assert(s->plain);
	s->plain = false;
	cr_assert_eq(send(p.c->wake_fd, "", 1, 0), 1);
	cr_assert_eq(send(p.c->wake_fd, "", 1, 0), 1);
	cr_assert_eq(ops->drain(p.s), 0);
	cr_assert_not(s->plain, "there is one more");
	cr_assert_eq(ops->drain(p.s), 0);
	cr_assert(s->plain);
	cr_assert_eq(send(p.c->wake_fd, "", 1, 0), 1);
	cr_assert_eq(ops->drain(p.s), 0);
	cr_assert_eq(recv(p.s->wake_fd, bytes, 1, MSG_DONTWAIT), -1);
}
