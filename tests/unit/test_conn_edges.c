/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong at the edges of a connection: each test is named after what went wrong. */

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/conn/conn_int.h"
#include "tests/lib/connpair.h"

static struct rr_pair p;
static uint8_t out[3 << 20], in[3 << 20];

static void setup(void)
{
	rr_test_setup();
	rr_pair_open(&p);
}

static void teardown(void)
{
	rr_pair_close(&p);
}

TestSuite(conn_edges, .init = setup, .fini = teardown, .timeout = 60);

static void one_way(struct rr_end *from, struct rr_end *to, size_t n)
{
	cr_assert_eq(rr_end_send(from, to, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(to, from, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
}

static void carried(void)
{
	one_way(&p.client, &p.server, rr_test_call(out, 1, 10, 1));
	one_way(&p.server, &p.client, rr_test_reply(out, 1, 10, 1));
	cr_assert(rr_conn_is_carried(p.client.c) && rr_conn_is_carried(p.server.c));
}

/* want[0..n) is received while the sender's app does nothing at all. */
static void arrives_alone(struct rr_end *to, const uint8_t *want, size_t n)
{
	cr_assert_eq(rr_end_recv(to, NULL, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, want, n), 0);
}

/* --- the hatch --- */

static void small_chunks(void)
{
	rr_test_params.reliable_replies = false;
	rr_test_params.reply_chunk = 1024;
	rr_test_params.reply_chunk_max = 2048;
	setup();
}

/* What was accepted before the hatch is on its way when the call returns that accepts the record's
 * last byte: its writer may never call again before it has an answer. */
Test(conn_edges, a_reply_that_opens_the_hatch_is_sent_whole, .init = small_chunks)
{
	size_t n;

	carried();
	one_way(&p.client, &p.server, rr_test_call(out, 2, 10, 1));
	n = rr_test_reply(out, 2, 20000, 2);
	cr_assert_eq(rr_end_send(&p.server, NULL, out, n), (ssize_t)n);
	arrives_alone(&p.client, out, n);
}

Test(conn_edges, a_record_in_pieces_that_is_no_rpc_is_sent_whole)
{
	static uint8_t want[208];
	size_t n = 204;

	carried();
	memset(out, 0x5a, n);
	memcpy(out, "\x80\0\0\xc8", 4);
	for (size_t off = 0; off < n; off += 51)
		cr_assert_eq(rr_end_send(&p.client, NULL, out + off, 51), 51);
	/* what was collected, as one fragment, and the rest */
	memset(want, 0x5a, sizeof(want));
	memcpy(want, "\0\0\0\x95", 4);
	memcpy(want + 153, "\x80\0\0\x33", 4);
	arrives_alone(&p.server, want, sizeof(want));
}
