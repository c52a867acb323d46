/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/prov/fake/fake.h"

static void disconnect(void);
#define CASE(name) Test(fake, name, .fini = disconnect)

static struct rr_fake_link l;
static struct rr_qp *a, *b;

static void connect_pair(bool direct, bool ring)
{
	struct rr_prov_params p = { .recv_size = 64, .recvs = 2, .mem_size = 4096 };
	struct rr_prov_addr offer, answer;

	rr_fake_link_init(&l, &(struct rr_fake_conf){ .direct = direct, .ring = ring }, 1);
	a = calloc(1, l.ops.qp_size(&p));
	b = calloc(1, l.ops.qp_size(&p));
	cr_assert_eq(l.ops.prepare(a, &p, &offer), 0);
	cr_assert_eq(l.ops.establish(a), -EAGAIN);
	cr_assert_eq(l.ops.answer(b, &p, &offer, &answer), 0);
	cr_assert_eq(l.ops.join(a, &answer), 0);
	cr_assert_eq(l.ops.establish(a), 0);
}

static void disconnect(void)
{
	struct rr_qp *ends[] = { a, b };

	for (int i = 0; i < 2; i++) {
		ends[i]->ops->close(ends[i]);
		free(ends[i]);
	}
}

static int say(struct rr_qp *qp, const char *text)
{
	struct iovec iov = { (void *)(uintptr_t)text, strlen(text) };

	return qp->ops->send(qp, &iov, 1, 7, 0);
}

static void steps(int n)
{
	while (n--)
		rr_fake_step(&l);
}

CASE(sends_arrive_in_order_in_posted_receives)
{
	struct rr_wc wc[4];

	connect_pair(true, true);
	cr_assert_eq(say(a, "one"), 1);
	cr_assert_eq(say(a, "two"), 1);
	cr_assert_eq(b->ops->poll(b, wc, 4), 2);
	cr_assert_eq(memcmp(wc[0].buf, "one", 3), 0);
	cr_assert_eq(memcmp(wc[1].buf, "two", 3), 0);
}

CASE(with_a_ring_a_full_peer_is_waited_for)
{
	struct rr_wc wc[4];

	connect_pair(true, true);
	say(a, "one");
	say(a, "two");
	cr_assert_eq(a->ops->window(a), 0);
	cr_assert_eq(say(a, "three"), -EAGAIN);
	b->ops->poll(b, wc, 1);
	b->ops->repost(b, wc[0].cookie);
	cr_assert_eq(a->ops->window(a), 1);
	cr_assert_eq(l.rnr, 0);
}

CASE(without_a_ring_a_send_without_receive_loses_the_connection)
{
	connect_pair(false, false);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(say(a, "x"), 0);
	steps(20);
	cr_assert_eq(l.rnr, 1);
	cr_assert_eq(say(a, "x"), -ECONNRESET);
}

static int rdma_read(uint32_t len, uint32_t off, const struct rr_seg *seg)
{
	return a->ops->read(a, a->mem, len, seg, off, 9);
}

CASE(only_what_a_key_allows_can_be_read)
{
	struct rr_seg seg, bad;

	connect_pair(true, true);
	memcpy(b->mem + 100, "secret", 6);
	cr_assert_eq(b->ops->expose(b, b->mem + 100, 6, RR_RIGHT_READ, &seg), 0);
	cr_assert_not(b->ops->consumed(b, seg.handle));
	cr_assert_eq(rdma_read(3, 3, &seg), 1);
	cr_assert_eq(memcmp(a->mem, "ret", 3), 0);
	cr_assert_eq(rdma_read(3, 0, &seg), 1);
	cr_assert_not(b->ops->consumed(b, seg.handle));
	a->ops->consume(a, &seg);
	cr_assert(b->ops->consumed(b, seg.handle));
	bad = seg;
	bad.handle++;
	cr_assert_eq(rdma_read(1, 0, &bad), -ECONNRESET);
	cr_assert_eq(l.violations, 1);
}

CASE(a_byte_beyond_the_key_is_a_violation)
{
	struct rr_seg seg;

	connect_pair(true, true);
	b->ops->expose(b, b->mem, 6, RR_RIGHT_READ, &seg);
	cr_assert_eq(rdma_read(6, 1, &seg), -ECONNRESET);
	cr_assert_eq(l.violations, 1);
}

CASE(a_right_that_was_not_given_is_a_violation)
{
	struct rr_seg seg;

	connect_pair(true, true);
	b->ops->expose(b, b->mem, 6, RR_RIGHT_READ, &seg);
	cr_assert_eq(a->ops->write(a, a->mem, 6, &seg, 0, 1), -ECONNRESET);
}

CASE(after_invalidation_nothing_is_reachable_and_a_second_one_is_a_violation)
{
	struct rr_seg seg;

	connect_pair(true, true);
	b->ops->expose(b, b->mem, 6, RR_RIGHT_READ, &seg);
	cr_assert_eq(rr_fake_keys(b), 1);
	cr_assert_eq(b->ops->invalidate(b, seg.handle, 1), 1);
	cr_assert_eq(rr_fake_keys(b), 0);
	cr_assert_eq(b->ops->invalidate(b, seg.handle, 1), -ECONNRESET);
	cr_assert_eq(l.violations, 1);
}

CASE(a_send_can_take_a_key_of_the_peer)
{
	struct iovec iov = { (void *)(uintptr_t)"x", 1 };
	struct rr_seg seg;
	struct rr_wc wc;

	connect_pair(true, true);
	b->ops->expose(b, b->mem, 6, RR_RIGHT_WRITE, &seg);
	cr_assert_eq(a->ops->send(a, &iov, 1, 0, seg.handle), 1);
	cr_assert_eq(b->ops->poll(b, &wc, 1), 1);
	cr_assert(wc.has_inv);
	cr_assert_eq(wc.inv_handle, seg.handle);
	cr_assert_eq(rr_fake_keys(b), 0);
}

CASE(memory_that_is_not_registered_cannot_be_the_target_of_a_read)
{
	struct rr_seg seg;
	char local[8];

	connect_pair(false, false);
	b->ops->expose(b, b->mem, 6, RR_RIGHT_READ, &seg);
	cr_assert_eq(a->ops->read(a, local, 6, &seg, 0, 1), -EFAULT);
}

CASE(a_lost_connection_is_reported_after_what_had_arrived)
{
	struct rr_wc wc;

	connect_pair(true, true);
	say(a, "one");
	rr_fake_break(&l);
	cr_assert_eq(b->ops->poll(b, &wc, 1), 1);
	cr_assert_eq(b->ops->poll(b, &wc, 1), -ECONNRESET);
	cr_assert_eq(a->ops->poll(a, &wc, 1), -ECONNRESET);
}

CASE(the_same_seed_does_the_same)
{
	uint64_t first;

	connect_pair(false, false);
	steps(100);
	first = l.rng;
	disconnect();
	connect_pair(false, false);
	steps(100);
	cr_assert_eq(l.rng, first);
}
