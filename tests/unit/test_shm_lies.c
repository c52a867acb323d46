/* SPDX-License-Identifier: BSD-3-Clause */
/* What a peer can write into shared memory, word by word, and what becomes of it: here the
 * server's end lies to the client's. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)

static struct shm_pair p;
static struct rr_shm *c, *s;
static struct rr_wc wc;

static void init(void)
{
	shm_pair_open(&p, 5);	/* of 8 slots */
	c = container_of(p.c, struct rr_shm, qp);
	s = container_of(p.s, struct rr_shm, qp);
}

static void fini(void)
{
	shm_pair_close(&p);
}

static void lost(void)
{
	cr_assert_eq(ops->peek(p.c, RR_ARM_RECV), true);
	cr_assert_eq(ops->poll(p.c, &wc, 1), -EPROTO);
	cr_assert_eq(ops->poll(p.c, &wc, 1), -EPROTO, "it sticks");
	cr_assert_eq(ops->send_imm(p.c, 1, 0), -EPROTO);
	cr_assert_eq(ops->window(p.c), 0);
}

/* A record at the client's position pos. */
static void forge(uint32_t pos, uint32_t len, uint32_t arg)
{
	struct rr_shm_slot *slot = rr_shm_slot(&s->peer, pos);

	atomic_store(&slot->len, len);
	atomic_store(&slot->arg, arg);
	atomic_store(&slot->seq, rr_shm_seq(pos));
}

Test(shm_lies, a_length_beyond_the_receive, .init = init, .fini = fini)
{
	forge(0, 4096, 0);
	cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
	cr_assert_eq(wc.len, 4096);
	forge(1, 4097, 0);
	lost();
}

Test(shm_lies, the_longest_length, .init = init, .fini = fini)
{
	forge(0, RR_SHM_LEN_MASK, 0);
	lost();
}

Test(shm_lies, flags_that_do_not_exist, .init = init, .fini = fini)
{
	forge(0, 1u << 31 | 4, 0);
	lost();
}

Test(shm_lies, immediate_data_with_a_payload, .init = init, .fini = fini)
{
	forge(0, RR_SHM_IMM | 4, 0);
	lost();
}

Test(shm_lies, a_note_that_is_too_long, .init = init, .fini = fini)
{
	forge(0, RR_SHM_NOTE | (RR_PROV_NOTE + 1), 0);
	lost();
}

Test(shm_lies, a_note_that_invalidates, .init = init, .fini = fini)
{
	forge(0, RR_SHM_NOTE | RR_SHM_INV | 4, 0);
	lost();
}

Test(shm_lies, immediate_data_that_is_a_note, .init = init, .fini = fini)
{
	forge(0, RR_SHM_NOTE | RR_SHM_IMM, 0);
	lost();
}

Test(shm_lies, immediate_data_that_invalidates, .init = init, .fini = fini)
{
	forge(0, RR_SHM_IMM | RR_SHM_INV, 0);
	lost();
}

Test(shm_lies, a_position_of_another_slot, .init = init, .fini = fini)
{
	atomic_store(&rr_shm_slot(&s->peer, 0)->seq, rr_shm_seq(3));
	lost();
}

Test(shm_lies, a_word_that_is_no_position, .init = init, .fini = fini)
{
	atomic_store(&rr_shm_slot(&s->peer, 0)->seq, 16);
	lost();
}

Test(shm_lies, a_skip_of_another_slot, .init = init, .fini = fini)
{
	atomic_store(&rr_shm_slot(&s->peer, 0)->skip, rr_shm_seq(1));
	lost();
}

Test(shm_lies, nothing_but_skips, .init = init, .fini = fini)
{
	for (uint32_t i = 0; i < 8; i++)
		atomic_store(&rr_shm_slot(&s->peer, i)->skip, rr_shm_seq(i + 8000));
	lost();
}

Test(shm_lies, more_messages_than_receives, .init = init, .fini = fini)
{
	for (uint32_t i = 0; i < 6; i++)
		forge(i, 4, 0);
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
	lost();
}

Test(shm_lies, a_message_over_one_that_is_held, .init = init, .fini = fini)
{
	for (uint32_t i = 0; i < 8; i++) {
		forge(i, 4, 0);
		cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
		if (i)
			ops->repost(p.c, wc.cookie);
	}
	forge(8, 4, 0);
	lost();
}

Test(shm_lies, messages_before_a_lie_are_delivered, .init = init, .fini = fini)
{
	struct rr_wc many[4];

	ops->send_imm(p.s, 1, 0);
	ops->send_imm(p.s, 2, 0);
	forge(2, 5000, 0);
	cr_assert_eq(ops->poll(p.c, many, 4), 2);
	lost();
}

Test(shm_lies, receives_given_back_that_were_never_used, .init = init, .fini = fini)
{
	ops->send_imm(p.c, 1, 0);
	ops->send_imm(p.c, 2, 0);
	ops->send_imm(p.c, 3, 0);
	atomic_store(&s->own.ctl->reposted, 4);
	cr_assert_eq(ops->window(p.c), 0);
	lost();
}

Test(shm_lies, receives_given_back_that_were_never_used_seen_by_a_send)
{
	shm_pair_open(&p, 4);
	c = container_of(p.c, struct rr_shm, qp);
	s = container_of(p.s, struct rr_shm, qp);
	for (uint32_t i = 0; i < 4; i++)
		ops->send_imm(p.c, i, 0);
	atomic_store(&s->own.ctl->reposted, 5);
	cr_assert_eq(ops->send_imm(p.c, 4, 0), -EPROTO);
	lost();
	fini();
}

Test(shm_lies, receives_taken_back, .init = init, .fini = fini)
{
	for (uint32_t i = 0; i < 4; i++)
		ops->send_imm(p.c, i, 0);
	atomic_store(&s->own.ctl->reposted, 2);
	cr_assert_eq(ops->window(p.c), 3);
	ops->send_imm(p.c, 4, 0);
	atomic_store(&s->own.ctl->reposted, 1);
	cr_assert_eq(ops->window(p.c), 0);
	lost();
}

Test(shm_lies, receives_given_back_without_their_slots)
{
	shm_pair_open(&p, 4);	/* of 4 slots */
	c = container_of(p.c, struct rr_shm, qp);
	s = container_of(p.s, struct rr_shm, qp);
	for (uint32_t i = 0; i < 4; i++)
		ops->send_imm(p.c, i, 0);
	atomic_store(&s->own.ctl->reposted, 1);
	cr_assert_eq(ops->send_imm(p.c, 4, 0), -EPROTO);
	lost();
	fini();
}

Test(shm_lies, a_tail_from_the_future_or_the_past_frees_nothing, .init = init, .fini = fini)
{
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(ops->send_imm(p.c, i, 0), 1);
	for (uint32_t i = 0; i < 5; i++) {
		cr_assert_eq(ops->poll(p.s, &wc, 1), 1);
		ops->repost(p.s, wc.cookie);
	}
	for (uint32_t i = 0; i < 40; i++) {
		atomic_store(&s->own.ctl->tail, i & 1 ? 1u << 31 : 1u << 20);
		cr_assert_eq(ops->send_imm(p.c, i, 0), 1, "freed[] still tells the truth");
		cr_assert_eq(ops->poll(p.s, &wc, 1), 1);
		cr_assert_eq(wc.imm, i);
		ops->repost(p.s, wc.cookie);
	}
}

/* --- not lies, but ages --- */

Test(shm_ages, a_message_held_for_2_30_positions_is_no_message_to_come, .init = init,
     .fini = fini)
{
	uint32_t later = (1u << 30) + 8;

	ops->send_imm(p.s, 1, 0);
	cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
	atomic_store(&c->rx_pos, later);
	c->rx_tail = later - 8;
	cr_assert_eq(ops->poll(p.c, &wc, 1), 0);
	cr_assert_eq(c->rx_pos, later);
}

Test(shm_ages, what_is_less_than_2_30_positions_ahead_is_to_come, .init = init, .fini = fini)
{
	struct rr_shm_slot *slot = rr_shm_slot(&s->peer, 0);

	for (int skips = 0; skips < 2; skips++) {
		_Atomic uint32_t *word = skips ? &slot->skip : &slot->seq;

		atomic_store(&c->rx_pos, 0);
		atomic_store(word, rr_shm_seq(1u << 30));
		cr_assert_eq(ops->poll(p.c, &wc, 1), 0);
		cr_assert_eq(c->rx_pos, 0, "it lies behind");
		atomic_store(word, rr_shm_seq((1u << 30) - 8));
		cr_assert_eq(ops->poll(p.c, &wc, 1), 0);
		cr_assert_eq(c->rx_pos, 1, "the slot was passed over");
		atomic_store(word, 0);
	}
}

Test(shm_ages, a_skip_does_not_stay_behind_to_be_mistaken_for_one_to_come)
{
	uint64_t held;

	shm_pair_open(&p, 2);
	s = container_of(p.s, struct rr_shm, qp);
	ops->send_imm(p.s, 0, 0);
	ops->send_imm(p.s, 1, 0);
	ops->poll(p.c, &wc, 1);
	held = wc.cookie;
	ops->poll(p.c, &wc, 1);
	ops->repost(p.c, wc.cookie);
	ops->send_imm(p.s, 2, 0);
	cr_assert_neq(rr_shm_slot(&s->peer, 0)->skip, 0);
	ops->repost(p.c, held);
	ops->send_imm(p.s, 3, 0);
	cr_assert_eq(rr_shm_slot(&s->peer, 0)->skip, 0);
	fini();
}

Test(shm_ages, a_message_held_for_long_does_not_make_the_next_repost_slow, .init = init,
     .fini = fini)
{
	ops->send_imm(p.s, 0, 0);
	ops->poll(p.c, &wc, 1);
	for (uint32_t i = 0; i < 1000; i++) {
		ops->send_imm(p.s, i, 0);
		ops->poll(p.c, &wc, 1);
		ops->repost(p.c, wc.cookie);
		cr_assert_leq(c->rx_pos - c->rx_tail, 8);
	}
}
