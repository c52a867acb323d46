/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKEPAIR_H
#define FAKEPAIR_H

/* A pair of connections over the fake provider, one in a program. */

#include <criterion/criterion.h>
#include <string.h>

#include "core/conn/enter.h"
#include "core/prov/fake/fake.h"
#include "tests/lib/connpair.h"

static struct rr_pair p;
static struct rr_fake_link l;
static uint8_t out[3 << 20], in[3 << 20];

/* After rr_test_setup() and what the test wants of rr_test_params. */
static inline void open_over(const struct rr_fake_conf *conf, uint64_t seed)
{
	rr_fake_link_init(&l, conf, seed);
	rr_prov_only(&l.ops);
	rr_pair_open(&p);
}

/* Nothing may ever be done that hardware would not allow. */
static inline void close_pair(void)
{
	cr_assert_eq(l.violations, 0);
	cr_assert_eq(l.rnr, 0);
	rr_pair_close(&p);
}

/* The first n bytes of out go from one end to the other. */
static inline void send_one(struct rr_end *from, struct rr_end *to, size_t n)
{
	cr_assert_eq(rr_end_send(from, to, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(to, from, in, n), (ssize_t)n, "record of %zu", n);
	cr_assert_eq(memcmp(in, out, n), 0, "record of %zu", n);
}

/* All keys and buffers come back, if not at once. */
static inline void settle(void)
{
	struct rr_share *c = p.client.c->share, *s = p.server.c->share;

	for (int i = 0; i < 2000; i++) {
		rr_end_poll(&p.client, POLLIN | POLLOUT);
		rr_end_poll(&p.server, POLLIN | POLLOUT);
	}
	cr_assert_eq(rr_fake_keys(c->qp), 0);
	cr_assert_eq(rr_fake_keys(s->qp), 0);
	cr_assert_eq(c->pool.used, 0);
	cr_assert_eq(s->pool.used, 0);
	cr_assert_eq(c->pull_bytes + s->pull_bytes, 0);
	cr_assert_eq(c->rx.stash + s->rx.stash, 0);
}

#endif
