/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys, RDMA Read and Write of the shm provider. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/os.h"
#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)

static struct shm_pair p;
static struct rr_seg seg;
static uint8_t b[8192];

static void init(void)
{
	shm_pair_open(&p, 4);
	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(i * 31 >> 3);
	memset(p.c->mem, 0xee, 1 << 16);
	memcpy(p.c->mem + 5000, b, 1000);
}

static void fini(void)
{
	shm_pair_close(&p);
}

static void expose(enum rr_rights rights)
{
	cr_assert_eq(ops->expose(p.c, p.c->mem + 5000, 1000, rights, &seg), 0);
	cr_assert_neq(seg.handle, 0);
	cr_assert_eq(seg.length, 1000);
}

Test(shm_keys, read_gets_what_is_exposed, .init = init, .fini = fini)
{
	uint8_t got[1000] = { 0 };

	expose(RR_RIGHT_READ);
	cr_assert_eq(ops->read(p.s, got, 1000, &seg, 0, 0), 1);
	cr_assert_arr_eq(got, b, 1000);
	cr_assert_eq(ops->read(p.s, got, 10, &seg, 990, 0), 1);
	cr_assert_arr_eq(got, b + 990, 10);
	cr_assert_eq(ops->read(p.s, got, 0, &seg, 1000, 0), 1);
}

Test(shm_keys, write_changes_only_its_bytes, .init = init, .fini = fini)
{
	expose(RR_RIGHT_WRITE);
	cr_assert_eq(ops->write(p.s, "xyz", 3, &seg, 997, 0), 1);
	cr_assert_arr_eq(p.c->mem + 5997, "xyz\xee", 4);
	cr_assert_arr_eq(p.c->mem + 5000, b, 997);
}

/* req: rfc8166 8.1 #1 */
Test(shm_keys, rights_are_only_those_given, .init = init, .fini = fini)
{
	uint8_t got[4];

	expose(RR_RIGHT_WRITE);
	cr_assert_eq(ops->read(p.s, got, 4, &seg, 0, 0), -EACCES);
	expose(RR_RIGHT_READ);
	cr_assert_eq(ops->write(p.s, got, 4, &seg, 0, 0), -EACCES);
	expose(RR_RIGHT_READ | RR_RIGHT_WRITE);
	cr_assert_eq(ops->write(p.s, "abcd", 4, &seg, 0, 0), 1);
	cr_assert_eq(ops->read(p.s, got, 4, &seg, 0, 0), 1);
	cr_assert_arr_eq(got, "abcd", 4);
}

/* req: rfc8166 8.1 #1 */
Test(shm_keys, nothing_outside_of_the_segment_is_reached, .init = init, .fini = fini)
{
	static const struct { uint64_t offset; uint32_t length, off, len; } bad[] = {
		{ 5000, 1000, 0, 1001 }, { 5000, 1000, 1000, 1 }, { 5000, 1000, 1001, 0 },
		{ 5000, 1000, UINT32_MAX, 2 }, { 5000, UINT32_MAX, 2, UINT32_MAX - 2 },
		{ 4999, 1000, 0, 1 }, { 4999, 2000, 0, 1000 }, { 5001, 1000, 0, 1000 },
		{ UINT64_MAX, 1000, 0, 1 }, { UINT64_MAX - 10, 1000, 11, 4 },
		{ UINT64_C(1) << 63, 1000, 0, 1 }, { UINT64_MAX - 4095, UINT32_MAX, 9096, 1 },
		{ 5000, 500, 400, 101 },	/* the message says less than is exposed */
	};
	uint8_t got[2000];

	expose(RR_RIGHT_READ | RR_RIGHT_WRITE);
	for (size_t i = 0; i < rr_array_size(bad); i++) {
		struct rr_seg s = { seg.handle, bad[i].length, bad[i].offset };

		cr_assert_eq(ops->read(p.s, got, bad[i].len, &s, bad[i].off, 0), -EACCES, "%zu",
			     i);
		cr_assert_eq(ops->write(p.s, b, bad[i].len, &s, bad[i].off, 0), -EACCES, "%zu",
			     i);
	}
}

Test(shm_keys, a_key_table_that_lies_reaches_nothing_outside_of_mem, .init = init, .fini = fini)
{
	struct rr_shm *c = container_of(p.c, struct rr_shm, qp);
	struct rr_seg s = { 0, 0, 0 };
	uint8_t got[16];

	expose(RR_RIGHT_READ | RR_RIGHT_WRITE);
	s = seg;
	s.length = 16;
	for (s.offset = (1 << 20) - 15; s.offset; s.offset = s.offset < UINT64_MAX - 7 ?
	     UINT64_MAX - 7 : 0) {
		struct rr_shm_key *k = &c->own.keys[seg.handle & (RR_SHM_KEYS - 1)];

		k->offset = s.offset;
		k->length = 16;
		cr_assert_eq(ops->read(p.s, got, 16, &s, 0, 0), -EACCES);
		k->offset = 0;
		k->length = UINT32_MAX;
		cr_assert_eq(ops->write(p.s, got, 16, &s, 0, 0), -EACCES);
	}
}

Test(shm_keys, an_unknown_key_reaches_nothing, .init = init, .fini = fini)
{
	uint8_t got[4];

	expose(RR_RIGHT_READ);
	for (uint32_t bit = 0; bit < 32; bit++) {
		struct rr_seg s = seg;

		s.handle ^= 1u << bit;
		cr_assert_eq(ops->read(p.s, got, 4, &s, 0, 0), -EACCES);
	}
}

Test(shm_keys, handle_0_does_not_match_an_empty_place, .init = init, .fini = fini)
{
	struct rr_seg zero;

	do {
		expose(RR_RIGHT_READ);
	} while (seg.handle % RR_SHM_KEYS);
	zero = seg;
	zero.handle = 0;
	cr_assert_eq(ops->invalidate(p.c, seg.handle, 0), 1);
	cr_assert_eq(ops->read(p.s, b, 4, &zero, 0, 0), -EACCES);
}

Test(shm_keys, an_invalidated_key_reaches_nothing_even_when_its_place_is_used_again,
     .init = init, .fini = fini)
{
	struct rr_seg old;
	uint8_t got[4];

	expose(RR_RIGHT_READ);
	old = seg;
	cr_assert_eq(ops->invalidate(p.c, old.handle, 0), 1);
	cr_assert_eq(ops->read(p.s, got, 4, &old, 0, 0), -EACCES);
	expose(RR_RIGHT_READ);
	cr_assert_neq(seg.handle, old.handle);
	cr_assert_eq(seg.handle % RR_SHM_KEYS, old.handle % RR_SHM_KEYS);
	cr_assert_eq(ops->read(p.s, got, 4, &old, 0, 0), -EACCES);
	cr_assert_eq(ops->invalidate(p.c, old.handle, 0), 1, "needs nothing");
	cr_assert_eq(ops->read(p.s, got, 4, &seg, 0, 0), 1);
}

Test(shm_keys, what_lies_outside_of_mem_cannot_be_exposed, .init = init, .fini = fini)
{
	size_t n = p.c->mem_size;

	cr_assert_eq(ops->expose(p.c, p.c->mem - 1, 1, RR_RIGHT_READ, &seg), -EINVAL);
	cr_assert_eq(ops->expose(p.c, p.c->mem + n, 1, RR_RIGHT_READ, &seg), -EINVAL);
	cr_assert_eq(ops->expose(p.c, p.c->mem + n - 1, 2, RR_RIGHT_READ, &seg), -EINVAL);
	cr_assert_eq(ops->expose(p.c, b, 1, RR_RIGHT_READ, &seg), -EINVAL);
	cr_assert_eq(ops->expose(p.c, p.c->mem + n - 1, 1, RR_RIGHT_READ, &seg), 0);
	cr_assert_eq(ops->read(p.s, b, 1, &seg, 0, 0), 1);
	cr_assert_eq(ops->expose(p.c, p.c->mem, (uint32_t)n, RR_RIGHT_READ, &seg), 0);
}

Test(shm_keys, keys_are_finite_and_all_come_back, .init = init, .fini = fini)
{
	static uint32_t h[RR_SHM_KEYS];

	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < RR_SHM_KEYS; i++) {
			expose(RR_RIGHT_READ);
			h[i] = seg.handle;
		}
		cr_assert_eq(ops->expose(p.c, p.c->mem, 1, RR_RIGHT_READ, &seg), -EAGAIN);
		for (uint32_t i = 0; i < RR_SHM_KEYS; i++)
			cr_assert_eq(ops->invalidate(p.c, h[i * 7 % RR_SHM_KEYS], 0), 1);
	}
}

Test(shm_keys, generations_wrap_without_handle_0, .init = init, .fini = fini)
{
	struct rr_shm *c = container_of(p.c, struct rr_shm, qp);

	c->key_gen = (1u << 22) - 2;
	for (int i = 0; i < 4; i++) {
		expose(RR_RIGHT_READ);
		cr_assert_neq(seg.handle >> RR_SHM_KEY_BITS, 0);
		cr_assert_eq(ops->read(p.s, b, 4, &seg, 0, 0), 1);
		ops->invalidate(p.c, seg.handle, 0);
	}
}

Test(shm_keys, handles_of_every_index_are_more_than_an_index, .init = init, .fini = fini)
{
	struct rr_shm *c = container_of(p.c, struct rr_shm, qp);

	for (uint32_t i = 0; i < 4; i++) {
		c->key_gen = i << 22;
		expose(RR_RIGHT_READ);
		cr_assert_eq(seg.handle >> RR_SHM_KEY_BITS, 1, "%u", i);
	}
}

Test(shm_keys, send_with_invalidate_takes_the_key_before_the_message_is_seen,
     .init = init, .fini = fini)
{
	struct iovec iov = { b, 10 };
	struct rr_wc wc;

	expose(RR_RIGHT_READ);
	cr_assert_eq(ops->send(p.s, &iov, 1, 0, seg.handle), 1);
	cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
	cr_assert_eq(wc.has_inv, true);
	cr_assert_eq(wc.inv_handle, seg.handle);
	cr_assert_eq(wc.len, 10);
	cr_assert_eq(ops->read(p.s, b, 4, &seg, 0, 0), -EACCES);
	cr_assert_eq(ops->invalidate(p.c, seg.handle, 0), 1);
}

Test(shm_keys, a_peer_that_invalidates_what_is_not_exposed_loses_the_connection,
     .init = init, .fini = fini)
{
	struct iovec iov = { b, 10 };
	struct rr_wc wc;

	expose(RR_RIGHT_READ);
	cr_assert_eq(ops->send(p.s, &iov, 1, 0, 0), 1);
	cr_assert_eq(ops->send(p.s, &iov, 1, 0, seg.handle + 1), 1);
	cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
	cr_assert_eq(ops->poll(p.c, &wc, 1), -EPROTO);
	cr_assert_eq(ops->poll(p.c, &wc, 1), -EPROTO);
	cr_assert_eq(ops->send(p.c, &iov, 1, 0, 0), -EPROTO);
	cr_assert_eq(ops->expose(p.c, p.c->mem, 1, RR_RIGHT_READ, &seg), -EPROTO);
}

Test(shm_keys, consumed_when_the_reader_says_so, .init = init, .fini = fini)
{
	expose(RR_RIGHT_READ);
	cr_assert_eq(ops->read(p.s, b, 1000, &seg, 0, 0), 1);
	cr_assert_eq(ops->consumed(p.c, seg.handle), false);
	cr_assert_eq(ops->read(p.s, b, 1000, &seg, 0, 0), 1);
	ops->consume(p.s, &seg);
	cr_assert_eq(ops->consumed(p.c, seg.handle), true);
	ops->invalidate(p.c, seg.handle, 0);
	cr_assert_eq(ops->consumed(p.c, seg.handle), false);
	expose(RR_RIGHT_READ);
	cr_assert_eq(ops->consumed(p.c, seg.handle), false);
}

/* The peer writes it: that it copies under handle; 0 that it does no more. */
static void peer_copies(uint32_t handle)
{
	container_of(p.s, struct rr_shm, qp)->peer.ctl->accessing = handle;
}

/* How often this thread has gone to sleep. */
static long sleeps(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nvcsw;
}

static void completes(uint64_t cookie)
{
	struct rr_wc wc = { .cookie = 0 };

	cr_assert_eq(ops->peek(p.c, RR_ARM_RECV), true);
	cr_assert_eq(ops->arm(p.c, RR_ARM_RECV), 1);
	cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
	cr_assert_eq(wc.op, RR_WC_INVALIDATE);
	cr_assert_eq(wc.status, 0);
	cr_assert_eq(wc.cookie, cookie);
}

static void nothing_completes(void)
{
	struct rr_wc wc;

	cr_assert_eq(ops->poll(p.c, &wc, 1), 0);
	cr_assert_eq(ops->peek(p.c, RR_ARM_RECV), false);
	cr_assert_eq(ops->arm(p.c, RR_ARM_RECV), 0);
	ops->disarm(p.c);
}

/* req: rfc8166 4.5.4 #1 */
Test(shm_keys, a_copy_under_way_is_not_waited_for, .init = init, .fini = fini)
{
	long before;

	expose(RR_RIGHT_WRITE);
	peer_copies(seg.handle);
	before = sleeps();
	cr_assert_eq(ops->invalidate(p.c, seg.handle, 77), 0);
	nothing_completes();
	cr_assert_eq(sleeps(), before);
	cr_assert_eq(ops->write(p.s, "x", 1, &seg, 0, 0), -EACCES);
	peer_copies(seg.handle);
	nothing_completes();
	peer_copies(0);
	completes(77);
	nothing_completes();
}

Test(shm_keys, a_key_belongs_to_nobody_while_the_peer_copies_under_it, .init = init, .fini = fini)
{
	struct rr_seg first;

	expose(RR_RIGHT_WRITE);
	first = seg;
	peer_copies(first.handle);
	cr_assert_eq(ops->invalidate(p.c, first.handle, 77), 0);
	cr_assert_eq(ops->invalidate(p.c, first.handle, 78), 1, "needs nothing");
	for (uint32_t i = 1; i < RR_SHM_KEYS; i++) {
		expose(RR_RIGHT_WRITE);
		cr_assert_neq(seg.handle % RR_SHM_KEYS, first.handle % RR_SHM_KEYS);
	}
	cr_assert_eq(ops->expose(p.c, p.c->mem, 1, RR_RIGHT_READ, &seg), -EAGAIN);
	peer_copies(0);
	completes(77);
	expose(RR_RIGHT_WRITE);
	cr_assert_eq(seg.handle % RR_SHM_KEYS, first.handle % RR_SHM_KEYS);
}

/* The word names one: so the others are over. */
Test(shm_keys, a_peer_that_copies_under_one_key_after_the_other, .init = init, .fini = fini)
{
	struct rr_wc wc[4];
	uint32_t h[3];

	for (uint64_t i = 0; i < 3; i++) {
		expose(RR_RIGHT_WRITE);
		h[i] = seg.handle;
		peer_copies(h[i]);
		cr_assert_eq(ops->invalidate(p.c, h[i], 10 + i), 0);
	}
	cr_assert_eq(ops->poll(p.c, wc, 4), 2);
	cr_assert_eq(wc[0].cookie + wc[1].cookie, 21);
	peer_copies(h[0]);
	completes(12);
	nothing_completes();
}

Test(shm_keys, completions_and_messages_share_a_poll, .init = init, .fini = fini)
{
	struct iovec iov = { b, 10 };
	struct rr_wc wc[4];

	for (uint64_t i = 0; i < 2; i++) {
		expose(RR_RIGHT_WRITE);
		peer_copies(seg.handle);
		cr_assert_eq(ops->invalidate(p.c, seg.handle, 10 + i), 0);
		cr_assert_eq(ops->send(p.s, &iov, 1, 0, 0), 1);
	}
	peer_copies(0);
	cr_assert_eq(ops->poll(p.c, wc, 3), 3);
	cr_assert_eq(wc[0].op, RR_WC_INVALIDATE);
	cr_assert_eq(wc[1].op, RR_WC_INVALIDATE);
	cr_assert_eq(wc[2].op, RR_WC_RECV);
	cr_assert_eq(ops->poll(p.c, wc, 3), 1);
	cr_assert_eq(wc[0].op, RR_WC_RECV);
}

/* req: rfc8166 4.5.4 #1 */
Test(shm_keys, a_copy_that_never_ends_costs_the_connection_not_the_fence, .init = init,
     .fini = fini)
{
	struct rr_shm *c = container_of(p.c, struct rr_shm, qp);
	struct rr_wc wc;

	expose(RR_RIGHT_WRITE);
	peer_copies(seg.handle);	/* as a stopped peer would leave it */
	cr_assert_eq(ops->invalidate(p.c, seg.handle, 77), 0);
	nothing_completes();
	c->fence_end = rr_now_coarse();
	cr_assert_eq(ops->poll(p.c, &wc, 1), -ETIMEDOUT);
	cr_assert_eq(ops->expose(p.c, p.c->mem, 1, RR_RIGHT_READ, &seg), -ETIMEDOUT);
	cr_assert_eq(ops->peek(p.c, RR_ARM_RECV), true);
}

Test(shm_keys, each_copy_has_its_own_time, .init = init, .fini = fini)
{
	struct rr_shm *c = container_of(p.c, struct rr_shm, qp);
	uint32_t first;

	expose(RR_RIGHT_WRITE);
	first = seg.handle;
	peer_copies(first);
	cr_assert_eq(ops->invalidate(p.c, first, 77), 0);
	expose(RR_RIGHT_WRITE);
	peer_copies(seg.handle);
	c->fence_end = 1;
	cr_assert_eq(ops->invalidate(p.c, seg.handle, 78), 0);
	completes(77);
	nothing_completes();
	peer_copies(0);
	completes(78);
}

Test(shm_keys, of_a_peer_that_is_gone_no_copy_is_under_way, .init = init, .fini = fini)
{
	struct rr_wc wc;

	expose(RR_RIGHT_WRITE);
	peer_copies(seg.handle);
	cr_assert_eq(ops->invalidate(p.c, seg.handle, 77), 0);
	ops->disconnect(p.s);
	cr_assert_eq(ops->drain(p.c), -ECONNRESET);
	completes(77);
	cr_assert_eq(ops->poll(p.c, &wc, 1), -ECONNRESET);
}

/* Who has sent it cannot be copying. */
Test(shm_keys, a_peer_that_invalidates_what_it_copies_under_loses_the_connection,
     .init = init, .fini = fini)
{
	struct iovec iov = { b, 10 };
	struct rr_wc wc;

	expose(RR_RIGHT_READ);
	cr_assert_eq(ops->send(p.s, &iov, 1, 0, seg.handle), 1);
	peer_copies(seg.handle);
	cr_assert_eq(ops->poll(p.c, &wc, 1), -EPROTO);
}

Test(shm_keys, a_copy_under_another_key_is_not_waited_for, .init = init, .fini = fini)
{
	uint32_t first;

	expose(RR_RIGHT_WRITE);
	first = seg.handle;
	expose(RR_RIGHT_WRITE);
	peer_copies(first);
	cr_assert_eq(ops->invalidate(p.c, seg.handle, 0), 1);
}

static bool none_used(void *ctx, size_t off, size_t len)
{
	(void)ctx;
	(void)off;
	(void)len;
	return false;
}

static bool all_used(void *ctx, size_t off, size_t len)
{
	return !none_used(ctx, off, len);
}

Test(shm_keys, a_key_that_is_out_can_be_taken_back_after_trim, .init = init, .fini = fini)
{
	struct rr_seg first;

	expose(RR_RIGHT_READ);
	ops->invalidate(p.c, seg.handle, 0);
	expose(RR_RIGHT_READ);
	first = seg;
	ops->trim(p.c, all_used, NULL);
	cr_assert_eq(ops->read(p.s, b, 4, &first, 0, 0), 1);
	expose(RR_RIGHT_READ);
	cr_assert_eq(ops->read(p.s, b, 4, &first, 0, 0), 1);
	cr_assert_eq(ops->invalidate(p.c, first.handle, 0), 1);
	cr_assert_eq(ops->read(p.s, b, 4, &first, 0, 0), -EACCES);
	cr_assert_eq(ops->read(p.s, b, 4, &seg, 0, 0), 1);
}

Test(shm_keys, a_handle_does_not_come_again_after_trim, .init = init, .fini = fini)
{
	uint32_t was;

	expose(RR_RIGHT_READ);
	was = seg.handle;
	ops->invalidate(p.c, was, 0);
	for (int i = 0; i < 3; i++) {
		ops->trim(p.c, none_used, NULL);
		expose(RR_RIGHT_READ);
		cr_assert_neq(seg.handle, was);
		cr_assert_eq(ops->invalidate(p.c, was, 0), 1);
		cr_assert_eq(ops->read(p.s, b, 4, &seg, 0, 0), 1, "an old handle took a new key");
		ops->invalidate(p.c, seg.handle, 0);
	}
}

/* What the tables know of it must stay. */
Test(shm_keys, a_key_that_is_copied_under_can_be_taken_back_after_trim, .init = init, .fini = fini)
{
	expose(RR_RIGHT_READ);
	peer_copies(seg.handle);
	cr_assert_eq(ops->invalidate(p.c, seg.handle, 77), 0);
	ops->trim(p.c, none_used, NULL);
	peer_copies(0);
	completes(77);
	ops->trim(p.c, none_used, NULL);
	expose(RR_RIGHT_READ);
	cr_assert_eq(ops->read(p.s, b, 4, &seg, 0, 0), 1);
}
