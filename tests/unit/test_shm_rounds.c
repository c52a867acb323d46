/* SPDX-License-Identifier: BSD-3-Clause */
/* How far each round goes through the ring of the shm provider. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"

#define ops	(&rr_prov_shm)
#define RECVS	64u
#define WHOLE	(1u << 27)	/* a round there is whole, and so in each 2^28 positions */

static struct shm_pair p;
static struct rr_shm *c, *s;	/* c sends, s receives */
static uint32_t said, heard;

static void init(void)
{
	shm_pair_open(&p, RECVS);
	c = rr_shm_of(p.c);
	s = rr_shm_of(p.s);
	said = heard = 0;
}

static void fini(void)
{
	shm_pair_close(&p);
}

static void say(uint32_t n)
{
	while (n--) {
		struct iovec iov = { &said, sizeof(said) };

		cr_assert_eq(ops->send(p.c, &iov, 1, 0, 0), 1);
		said++;
	}
}

/* The next message; its slot, which is held. */
static uint64_t hear(void)
{
	struct rr_wc wc;

	cr_assert_eq(ops->poll(p.s, &wc, 1), 1, "%u", heard);
	cr_assert(wc.op == RR_WC_RECV && wc.len == sizeof(heard) && !memcmp(wc.buf, &heard, sizeof(heard)), "%u", heard);
	heard++;
	return wc.cookie;
}

static void answer(uint32_t n)
{
	while (n--)
		ops->repost(p.s, hear());
}

/* Both ends stand at a position, as after many messages; the ring is as trim() leaves it. */
static void be_at(uint32_t pos)
{
	c->tx_pos = c->tx_tail = s->rx_tail = pos;
	atomic_store(&s->rx_pos, pos);
	atomic_store(&s->own.ctl->tail, pos);
	memset(s->own.ring, 0, s->own.geo.slots * sizeof(*s->own.ring));
	memset(s->slot, 0, sizeof(s->slot));
	memset(c->slot, 0, sizeof(c->slot));
}

Test(shm_rounds, who_keeps_up_goes_through_eight_slots, .init = init, .fini = fini)
{
	for (uint32_t i = 0; i < 1000; i++) {
		cr_assert(c->tx_pos == i / 8 * 64 + i % 8 && s->rx_pos == c->tx_pos, "%u", i);
		say(1);
		cr_assert_eq(s->own.ring[i % 8].len, sizeof(said) | (i % 8 == 7 ? RR_SHM_LAST : 0u));
		answer(1);
		cr_assert(s->rx_tail == s->rx_pos && rr_shm_tx_idle(c), "%u", i);
	}
	cr_assert(c->tx_slots == 8 && s->rx_slots == 8 && s->own.ring[8].seq == 0);
}

/* Who has given back half of the round has made room for the next one. */
Test(shm_rounds, a_round_goes_on_while_more_than_half_of_it_is_under_way, .init = init, .fini = fini)
{
	static const struct { uint32_t slots, under_way; bool ends; } row[] = {
		{ 8, 4, true }, { 8, 5, false }, { 7, 1, false }, { 9, 1, false }, { 16, 8, true }, { 16, 9, false },
		{ 24, 12, true }, { 24, 13, false }, { 56, 28, true }, { 56, 29, false }, { 64, 1, true }, { 64, 64, true },
	};

	for (size_t i = 0; i < rr_array_size(row); i++) {
		uint32_t pos = 10 * 64 + row[i].slots - 1;

		be_at(pos);
		s->own.ctl->tail = pos + 1 - row[i].under_way;
		say(1);
		cr_assert_eq(c->tx_pos, row[i].ends ? 11 * 64 : pos + 1, "%zu", i);
		answer(1);
		cr_assert(s->rx_pos == c->tx_pos && rr_shm_tx_idle(c), "%zu", i);
	}
}

/* As many slots as are needed; and few ones again when they no longer are. */
Test(shm_rounds, who_falls_behind_has_more_and_then_fewer, .init = init, .fini = fini)
{
	say(40);
	cr_assert_eq(c->tx_pos, 40);
	answer(39);
	for (int i = 0; i < 8; i++) {
		say(1);
		answer(1);
	}
	cr_assert_eq(c->tx_pos, 64);
	answer(1);
	for (int i = 0; i < 16; i++) {
		say(1);
		answer(1);
	}
	cr_assert_eq(c->tx_pos, 3 * 64);
	cr_assert(c->tx_slots == 48 && s->rx_slots == 48);
}

Test(shm_rounds, a_message_that_is_held_is_passed_over_until_it_is_given_back, .init = init, .fini = fini)
{
	uint64_t held;

	say(3);
	answer(2);
	held = hear();
	for (int i = 0; i < 300; i++) {
		say(1);
		answer(1);
		cr_assert_leq(s->rx_pos - s->rx_tail, 64);
	}
	cr_assert_eq(c->tx_slots, 64, "what is behind it is not known to be free");
	cr_assert_eq(s->slot[2].rx_seq, rr_shm_seq(2));
	ops->repost(p.s, held);
	while (c->tx_pos % 64) {
		say(1);
		answer(1);
	}
	for (uint32_t at = c->tx_pos, i = 0; i < 800; i++) {
		cr_assert_eq(c->tx_pos, at + i / 8 * 64 + i % 8);
		say(1);
		answer(1);
	}
}

/* No word may become as old as 2^30 positions. */
Test(shm_rounds, now_and_then_one_is_whole, .init = init, .fini = fini)
{
	static const uint32_t whole[] = { WHOLE, WHOLE + (1u << 28), 0u - WHOLE };

	for (size_t i = 0; i < rr_array_size(whole); i++) {
		be_at(whole[i] - 64);
		for (uint32_t n = 0; n < 8 + 64 + 8; n++) {
			cr_assert_eq(c->tx_pos, whole[i] + (n < 8 ? n - 64 : n - 8), "%zu %u", i, n);
			say(1);
			answer(1);
		}
		cr_assert_eq(c->tx_pos, whole[i] + 128, "%zu", i);
	}
}

/* As a model says, in rounds of any length, also where positions begin anew. */
Test(shm_rounds, receives_given_back_in_any_order_are_never_lost, .init = init, .fini = fini)
{
	static const uint32_t start[] = { 0, WHOLE - 640, (1u << 31) - 6400, 0u - 6400 };

	srand(7);
	for (size_t i = 0; i < rr_array_size(start); i++) {
		uint64_t held[RECVS];
		uint32_t n = 0, most = 1;
		uint32_t shortest = 64, at;

		be_at(start[i]);
		for (uint32_t step = 0; step < 200000; step++) {
			if (step % 1000 == 0)
				most = 1 + (uint32_t)rand() % (step % 3000 ? 5 : RECVS);
			switch (rand() % 3) {
			case 0:
				if (said - heard + n >= most)
					break;
				cr_assert_geq(ops->window(p.c), 1);
				at = c->tx_pos;
				say(1);
				if ((c->tx_pos ^ at) & ~63u)
					shortest = rr_min(shortest, at % 64 + 1);
				break;
			case 1:
				if (said != heard)
					held[n++] = hear();
				break;
			default:
				if (n) {
					uint32_t k = (uint32_t)rand() % n;

					ops->repost(p.s, held[k]);
					held[k] = held[--n];
				}
			}
		}
		while (said != heard)
			held[n++] = hear();
		while (n)
			ops->repost(p.s, held[--n]);
		cr_assert_eq(shortest, 8);
		cr_assert(rr_shm_tx_idle(c));
	}
}

/* A peer that ends each round at once: its own messages lie over each other, and no others. */
Test(shm_rounds, one_that_ends_at_once_does_no_harm, .init = init, .fini = fini)
{
	struct rr_wc wc;

	for (uint32_t i = 0; i < 100; i++) {
		struct rr_shm_slot *slot = rr_shm_slot(&c->peer, i * 64);

		slot->len = RR_SHM_IMM | RR_SHM_LAST;
		slot->arg = i;
		slot->seq = rr_shm_seq(i * 64);
		cr_assert_eq(ops->poll(p.s, &wc, 1), 1);
		cr_assert(wc.has_imm && wc.imm == i && wc.cookie == 0);
		cr_assert_leq(s->rx_pos - s->rx_tail, 64);
		if (i < 99)
			ops->repost(p.s, 0);
	}
	rr_shm_slot(&c->peer, 0)->seq = rr_shm_seq(100 * 64);
	cr_assert_eq(ops->poll(p.s, &wc, 1), -EPROTO, "a message over one that is held");
}
