/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives of the shm provider. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/pages.h"
#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)
#define MANY	512u	/* receives of the greatest size, which a peer still maps */

static struct shm_pair p;

static void fini(void)
{
	shm_pair_close(&p);
}

static int send_bytes(struct rr_qp *qp, const void *b, size_t n)
{
	struct iovec iov = { (void *)b, n };

	return ops->send(qp, &iov, 1, 0, 0);
}

static int send_num(struct rr_qp *qp, uint32_t v)
{
	return send_bytes(qp, &v, sizeof(v));
}

/* The next message of qp, a number; its buffer. */
static uint64_t expect_num(struct rr_qp *qp, uint32_t v)
{
	struct rr_wc wc;
	uint32_t got;

	cr_assert_eq(ops->poll(qp, &wc, 1), 1);
	cr_assert_eq(wc.op, RR_WC_RECV);
	cr_assert_eq(wc.status, 0);
	cr_assert_eq(wc.len, sizeof(got));
	memcpy(&got, wc.buf, sizeof(got));
	cr_assert_eq(got, v, "got %u, not %u", got, v);
	return wc.cookie;
}

Test(shm_ring, messages_of_any_size_arrive_whole_and_in_order, .fini = fini)
{
	uint8_t out[3 * 4096], *copy = malloc(4096);

	shm_pair_open(&p, 8);
	srand(1);
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)rand();
	for (int round = 0; round < 20000; round++) {
		size_t n = (size_t)rand() % 4097, cut = n ? (size_t)rand() % n : 0;
		const uint8_t *from = out + rand() % 4096;
		struct iovec iov[3] = {
			{ (void *)from, cut }, { NULL, 0 }, { (void *)(from + cut), n - cut },
		};
		struct rr_qp *a = round & 1 ? p.c : p.s, *b = round & 1 ? p.s : p.c;
		struct rr_wc wc;

		cr_assert_eq(ops->send(a, iov, 3, 0, 0), 1);
		cr_assert_eq(ops->poll(b, &wc, 1), 1);
		cr_assert_eq(wc.len, n);
		memcpy(copy, wc.buf, n);
		cr_assert_arr_eq(copy, from, n);
		ops->repost(b, wc.cookie);
	}
	free(copy);
}

Test(shm_ring, a_message_longer_than_the_peers_receive_is_refused, .fini = fini)
{
	static uint8_t big[4097];
	struct iovec wrap[2] = { { big, SIZE_MAX }, { big, 2 } };

	shm_pair_open(&p, 4);
	cr_assert_eq(p.c->send_size, 4096);
	cr_assert_eq(send_bytes(p.c, big, 4096), 1);
	cr_assert_eq(send_bytes(p.c, big, 4097), -EMSGSIZE);
	cr_assert_eq(ops->send(p.c, wrap, 2, 0, 0), -EMSGSIZE);
}

/* Ends of other sizes than each other. */
static void open_unlike(uint32_t csize, uint32_t crecvs, uint32_t ssize, uint32_t srecvs)
{
	shm_pair_init(&p, csize, crecvs);
	p.sp.recv_size = ssize;
	p.sp.recvs = srecvs;
	shm_qp_free(p.s, &p.cp);
	p.s = shm_qp_new(&p.sp);
	cr_assert_eq(shm_pair_connect(&p), 0);
}

Test(shm_ring, the_smaller_of_both_sides_sizes_counts, .fini = fini)
{
	static uint8_t b[65536];

	open_unlike(1024, 5, 65536, 3);
	cr_assert_eq(p.c->send_size, 1024);
	cr_assert_eq(p.s->send_size, 1024);
	cr_assert_eq(p.c->peer_send, 1024);
	cr_assert_eq(p.c->peer_recvs, 3);
	cr_assert_eq(p.c->recvs, 3);
	cr_assert_eq(ops->window(p.c), 3);
	cr_assert_eq(ops->window(p.s), 3);
	cr_assert_eq(send_bytes(p.c, b, 1024), 1);
	cr_assert_eq(send_bytes(p.c, b, 1025), -EMSGSIZE);
	cr_assert_eq(send_bytes(p.s, b, 1025), -EMSGSIZE);
}

/* Pages of a view's ring that exist, but for the first, which has the control words too; and of its long payloads. */
static size_t ring_pages(const struct rr_shm_view *v)
{
	size_t at = rr_align(v->geo.ring_off, (size_t)RR_PAGE), len = v->geo.mem_off - at, n = len / RR_PAGE, there = 0;
	unsigned char *vec = malloc(n);

	cr_assert_eq(mincore((uint8_t *)v->berth.at + at, len, vec), 0);
	for (size_t i = 0; i < n; i++)
		there += vec[i] & 1;
	free(vec);
	return there;
}

/* A payload of 4096 bytes lies in two pages at most, slots of 320 in 10. */
Test(shm_ring, what_a_greedy_peers_ring_takes_up_is_ours_to_say, .fini = fini)
{
	static uint8_t b[4096];
	struct rr_wc wc;

	open_unlike(RR_SHM_RECV_MAX, MANY, 4096, 100);
	for (uint32_t i = 0; i < 3 * MANY; i++) {
		cr_assert_eq(send_bytes(p.s, b, sizeof(b)), 1);
		cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
		ops->repost(p.c, wc.cookie);
	}
	cr_assert_leq(ring_pages(&rr_shm_of(p.s)->peer), 2 * 128 + 10);
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_eq(send_bytes(p.s, b, sizeof(b)), 1);
	cr_assert_eq(send_bytes(p.s, b, 1), -EAGAIN);
}

static bool unused(void *ctx, size_t off, size_t len)
{
	(void)ctx, (void)off, (void)len;
	return false;
}

/* The boundary between what lies in a slot and what does not, each byte at its place. */
Test(shm_ring, short_and_long_payloads_arrive_in_turn, .fini = fini)
{
	static uint8_t b[RR_SHM_SHORT + 2];
	struct rr_wc wc;

	shm_pair_open(&p, 5);
	for (uint32_t i = 0; i < 40; i++) {
		uint32_t len = RR_SHM_SHORT + 2 - i % 4 - (i % 8 > 5 ? RR_SHM_SHORT - 3 : 0);

		memset(b, (int)i + 1, sizeof(b));
		cr_assert_eq(send_bytes(p.s, b, len), 1);
		cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
		cr_assert_eq(wc.len, len);
		cr_assert_eq(memcmp(wc.buf, b, len), 0);
		ops->repost(p.c, wc.cookie);
	}
}

/* Who has one call under way at a time is not to pay for pages, however long it lasts. */
Test(shm_ring, short_messages_one_by_one_lie_in_one_page, .fini = fini)
{
	static uint8_t b[RR_SHM_SHORT];
	struct rr_wc wc;

	shm_pair_open(&p, 200);
	for (uint32_t i = 0; i < 1000; i++) {
		cr_assert_eq(send_bytes(p.s, b, sizeof(b)), 1);
		cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
		ops->repost(p.c, wc.cookie);
	}
	cr_assert_eq(ring_pages(&rr_shm_of(p.s)->peer), 0);
}

/* Of the slots from here on those whose long payload's first page exists. */
static uint32_t slots_made(const struct rr_shm *q)
{
	const struct rr_shm_view *v = &q->peer;
	uint32_t n = 0;

	while (n < v->geo.slots) {
		uintptr_t at = (uintptr_t)rr_shm_long(v, q->tx_pos + n);
		unsigned char there;

		at &= ~(uintptr_t)(RR_PAGE - 1);
		cr_assert_eq(mincore((void *)at, RR_PAGE, &there), 0);
		if (!(there & 1))
			break;
		n++;
	}
	return n;
}

/* Not for a connection of one long call or two; and never more than have been used. */
Test(shm_ring, who_goes_on_sending_has_pages_made_in_advance, .fini = fini)
{
	static uint8_t b[RR_SHM_SHORT + 1];
	struct rr_wc wc;
	uint32_t ahead = 0;

	shm_pair_open(&p, 200);
	cr_assert_eq(rr_shm_of(p.s)->peer.geo.slots, 256);
	for (int round = 0; round < 2; round++) {
		while (rr_shm_of(p.s)->tx_pos % 256) {
			cr_assert_eq(send_num(p.s, 1), 1);
			cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
			ops->repost(p.c, wc.cookie);
		}
		for (uint32_t i = 1; i <= 200; i++) {
			cr_assert_eq(send_bytes(p.s, b, sizeof(b)), 1);
			ahead = slots_made(rr_shm_of(p.s));
			cr_assert_leq(ahead, rr_min(i, 16u), "%u: %u", i, ahead);
			cr_assert(i != 2 || ahead == 0);
			cr_assert(i != 12 || ahead > 8);
			cr_assert_leq(ring_pages(&rr_shm_of(p.s)->peer), 2 * i + 2 + i / 12 + 1);
		}
		while (ops->poll(p.c, &wc, 1) == 1)
			ops->repost(p.c, wc.cookie);
		ops->trim(p.s, unused, NULL);
		cr_assert_leq(ring_pages(&rr_shm_of(p.s)->peer), 1);
	}
}

/* What the peer fills its own region with, for us to take away again and again, is its own matter. */
Test(shm_ring, no_more_of_a_greedy_peers_ring_is_taken_away_than_we_use, .fini = fini)
{
	static uint8_t b[RR_SHM_SHORT + 1];
	struct rr_shm_view *v;
	struct rr_wc wc;

	open_unlike(RR_SHM_RECV_MAX, MANY, 4096, 100);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 100; i++)
			cr_assert_eq(send_bytes(p.s, b, sizeof(b)), 1);
		while (ops->poll(p.c, &wc, 1) == 1)
			ops->repost(p.c, wc.cookie);
	}
	v = &rr_shm_of(p.c)->own;
	cr_assert_geq(ring_pages(v), 100);
	for (uint32_t i = 0; i < 128; i++)	/* behind what any Send reaches */
		v->longs[(size_t)i * v->geo.stride + 16 * RR_PAGE] = 1;
	v->longs[400 * (size_t)v->geo.stride] = 1;
	ops->trim(p.s, unused, NULL);
	cr_assert_eq(ring_pages(v), 129);
	cr_assert_eq(send_num(p.s, 1), 1);
	cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
}

Test(shm_ring, the_longest_receive_can_be_filled, .fini = fini)
{
	static const size_t size[] = { 131071, 131072, 131073, RR_SHM_RECV_MAX - 1, RR_SHM_RECV_MAX };
	uint8_t *b = malloc(RR_SHM_RECV_MAX);
	struct rr_wc wc;

	open_unlike(RR_SHM_RECV_MAX, 4, RR_SHM_RECV_MAX, 4);
	for (size_t i = 0; i < RR_SHM_RECV_MAX; i++)
		b[i] = (uint8_t)(i * 7 + i / 255);
	for (size_t i = 0; i < rr_array_size(size); i++) {
		cr_assert_eq(send_bytes(p.c, b, size[i]), 1);
		cr_assert_eq(ops->poll(p.s, &wc, 1), 1, "%zu bytes", size[i]);
		cr_assert_eq(wc.len, size[i]);
		cr_assert_eq(memcmp(wc.buf, b, size[i]), 0);
		ops->repost(p.s, wc.cookie);
	}
	cr_assert_eq(send_bytes(p.c, b, RR_SHM_RECV_MAX + 1), -EMSGSIZE);
	free(b);
}

Test(shm_ring, no_send_without_a_posted_receive, .fini = fini)
{
	uint64_t buf;

	shm_pair_open(&p, 5);	/* not a power of two */
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(send_num(p.c, i), 1);
	cr_assert_eq(ops->window(p.c), 0);
	cr_assert_eq(send_num(p.c, 5), -EAGAIN);
	cr_assert_eq(ops->send_imm(p.c, 5, 0), -EAGAIN);
	buf = expect_num(p.s, 0);
	cr_assert_eq(send_num(p.c, 5), -EAGAIN, "received is not yet given back");
	ops->repost(p.s, buf);
	cr_assert_eq(ops->window(p.c), 1);
	cr_assert_eq(send_num(p.c, 5), 1);
	cr_assert_eq(send_num(p.c, 6), -EAGAIN);
	for (uint32_t i = 1; i < 6; i++)
		ops->repost(p.s, expect_num(p.s, i));
	cr_assert_eq(ops->window(p.c), 5);
}

Test(shm_ring, held_messages_keep_only_their_own_receive, .fini = fini)
{
	uint64_t held[3];
	uint32_t next = 0;

	shm_pair_open(&p, 4);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(send_num(p.c, next), 1);
		held[i] = expect_num(p.s, next++);
	}
	for (int round = 0; round < 100; round++, next++) {
		cr_assert_eq(ops->window(p.c), 1);
		cr_assert_eq(send_num(p.c, next), 1, "round %d", round);
		ops->repost(p.s, expect_num(p.s, next));
	}
	for (int i = 2; i >= 0; i--)
		ops->repost(p.s, held[i]);
	cr_assert_eq(ops->window(p.c), 4);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(send_num(p.c, i), 1);
	for (uint32_t i = 0; i < 4; i++)
		ops->repost(p.s, expect_num(p.s, i));
}

Test(shm_ring, a_skip_that_was_overwritten_is_understood, .fini = fini)
{
	uint64_t a, b;

	shm_pair_open(&p, 2);
	send_num(p.c, 0);
	send_num(p.c, 1);
	a = expect_num(p.s, 0);
	b = expect_num(p.s, 1);
	ops->repost(p.s, b);
	cr_assert_eq(send_num(p.c, 2), 1);	/* passes over the first slot */
	ops->repost(p.s, a);
	cr_assert_eq(send_num(p.c, 3), 1);	/* in it, before the skip was seen */
	a = expect_num(p.s, 2);
	b = expect_num(p.s, 3);
	ops->repost(p.s, a);
	ops->repost(p.s, b);
	cr_assert_eq(ops->window(p.c), 2);
}

/* A model: a list of what is under way and what is held. */
static void random_traffic(uint32_t recvs, unsigned seed, int steps)
{
	static struct { uint64_t buf; } held[4096];
	uint32_t sent = 0, got = 0, nheld = 0, room;

	srand(seed);
	for (int i = 0; i < steps; i++) {
		switch (rand() % 3) {
		case 0:
			room = recvs - (sent - got + nheld);
			cr_assert_eq(ops->window(p.c) > 0, room > 0);
			if (room) {
				cr_assert_leq(ops->window(p.c), room);
				cr_assert_eq(send_num(p.c, sent++), 1);
			} else {
				cr_assert_eq(send_num(p.c, sent), -EAGAIN);
			}
			break;
		case 1:
			cr_assert_eq(ops->peek(p.s, RR_ARM_RECV) || sent == got, 1);
			if (sent == got) {
				struct rr_wc wc;

				cr_assert_eq(ops->poll(p.s, &wc, 1), 0);
			} else {
				held[nheld++].buf = expect_num(p.s, got++);
			}
			break;
		case 2:
			if (nheld) {
				uint32_t k = (uint32_t)rand() % nheld;

				ops->repost(p.s, held[k].buf);
				held[k] = held[--nheld];
			}
		}
	}
}

Test(shm_ring, receives_given_back_in_any_order_are_never_lost, .fini = fini)
{
	shm_pair_open(&p, 7);
	random_traffic(7, 1, 300000);
}

static bool none_used(void *ctx, size_t off, size_t len)
{
	(void)ctx;
	(void)off;
	(void)len;
	return false;
}

/* So many receives that most of the tables can go: the receiver's while it holds nothing, the
 * sender's when nothing is under way. */
Test(shm_ring, tables_that_were_given_back_are_not_missed, .fini = fini)
{
	shm_pair_open(&p, 2000);
	for (unsigned round = 0; round < 200; round++) {
		static uint64_t held[2000];
		uint32_t n = (uint32_t)rand() % 2000, k = 0;

		for (uint32_t i = 0; i < n; i++)
			cr_assert_eq(send_num(p.c, i), 1);
		for (uint32_t i = 0; i < n; i++)
			held[i] = expect_num(p.s, i);
		ops->trim(p.s, none_used, NULL);
		for (uint32_t i = n; i-- > 0; k++) {
			ops->repost(p.s, held[i]);
			if (k % 300 == 0)
				ops->trim(p.c, none_used, NULL);
		}
		if (round % 2)
			ops->trim(p.s, none_used, NULL);
		if (round % 3)
			ops->trim(p.c, none_used, NULL);
		cr_assert_eq(ops->window(p.c), 2000);
	}
}

Test(shm_ring, one_receive_is_enough, .fini = fini)
{
	shm_pair_open(&p, 1);
	random_traffic(1, 2, 20000);
}

Test(shm_ring, positions_wrap, .fini = fini)
{
	struct rr_shm *c, *s;

	shm_pair_open(&p, 4);
	c = container_of(p.c, struct rr_shm, qp);
	s = container_of(p.s, struct rr_shm, qp);
	/* as after 2^31 - 10 messages, then after 2^32 - 10; the ring is as trim() leaves it */
	for (uint32_t start = (1u << 31) - 10; start; start = start >> 31 ? 0 : 0u - 10) {
		c->tx_pos = start;
		c->tx_reposted = start;
		c->tx_tail = start;
		s->rx_tail = s->rx_reposted = start;
		atomic_store(&c->tx_sent, start);
		atomic_store(&s->rx_pos, start);
		atomic_store(&s->own.ctl->reposted, start);
		atomic_store(&s->own.ctl->tail, start);
		memset(s->own.ring, 0, s->own.geo.slots * sizeof(*s->own.ring));
		random_traffic(4, 3, 5000);
		for (uint32_t i = 0; i < 4; i++) {
			struct rr_wc wc;

			if (s->slot[i].rx_seq)
				ops->repost(p.s, i);
			while (ops->poll(p.s, &wc, 1) == 1)
				ops->repost(p.s, wc.cookie);
		}
	}
}

Test(shm_ring, immediate_data_comes_in_order_with_messages, .fini = fini)
{
	struct rr_wc wc[4];

	shm_pair_open(&p, 4);
	send_num(p.c, 1);
	cr_assert_eq(ops->send_imm(p.c, 0xdeadbeef, 0), 1);
	cr_assert_eq(ops->send_imm(p.c, 0, 0), 1);
	cr_assert_eq(ops->poll(p.s, wc, 4), 3);
	cr_assert_eq(wc[0].has_imm, false);
	cr_assert_eq(wc[1].has_imm, true);
	cr_assert_eq(wc[1].imm, 0xdeadbeef);
	cr_assert_eq(wc[1].len, 0);
	cr_assert_eq(wc[2].has_imm, true);
	cr_assert_eq(wc[2].imm, 0);
	cr_assert_eq(ops->window(p.c), 1);
}

Test(shm_ring, an_empty_message_is_a_message, .fini = fini)
{
	struct rr_wc wc;

	shm_pair_open(&p, 2);
	cr_assert_eq(ops->send(p.c, NULL, 0, 0, 0), 1);
	cr_assert_eq(ops->poll(p.s, &wc, 1), 1);
	cr_assert_eq(wc.len, 0);
	cr_assert_eq(wc.has_imm, false);
}

Test(shm_ring, window_says_the_exact_number, .fini = fini)
{
	struct rr_wc wc;

	shm_pair_open(&p, 16);
	for (uint32_t i = 0; i < 12; i++)
		send_num(p.c, i);
	for (uint32_t left = 4; left < 16; left++) {
		cr_assert_eq(ops->window(p.c), left);
		cr_assert_eq(ops->poll(p.s, &wc, 1), 1);
		ops->repost(p.s, wc.cookie);
	}
}
