/* SPDX-License-Identifier: BSD-3-Clause */
/* What two ends agree to speak, and that they do. */

#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/base/stats_abi.h"
#include "core/ulb/ulb.h"
#include "tests/lib/connpair.h"

static struct rr_stat_seg *seg;
static struct rr_pair p;
static uint8_t out[1 << 20], in[1 << 20];

/* What each end's rule says: by server. */
static enum rr_dialect wanted[2];
static enum rr_mode modes[2];
static uint32_t asked[2];	/* the program that the rule was asked for; 0 none */

static enum rr_dialect dialect(bool server, const struct sockaddr *local, const struct sockaddr *peer,
			       const uint32_t *prog)
{
	cr_assert(local->sa_family == AF_INET && peer->sa_family == AF_INET);
	asked[server] = prog ? *prog : 0;
	return wanted[server];
}

static enum rr_mode mode(bool server, const struct sockaddr *local, const struct sockaddr *peer)
{
	(void)local;
	(void)peer;
	return modes[server];
}

static void setup(void)
{
	seg = rr_test_segment(true);
	rr_test_params.dialect = dialect;
	rr_test_params.mode = mode;
	rr_test_params.stats = rr_test_segment;
	rr_test_setup();
	rr_pair_open(&p);
}

static void teardown(void)
{
	rr_pair_close(&p);
}

TestSuite(conn_dialects, .init = setup, .fini = teardown, .timeout = 60);

static ssize_t pass(struct rr_end *from, struct rr_end *to, size_t n)
{
	ssize_t rc = rr_end_send(from, to, out, n);

	if (rc != (ssize_t)n)
		return rc;
	rc = rr_end_recv(to, from, in, n);
	if (rc == (ssize_t)n)
		cr_assert_arr_eq(in, out, n);
	return rc;
}

/* A call and its reply with so many bytes each: 0, or how it failed. */
static int round_trip(struct rr_end *from, struct rr_end *to, uint32_t xid, size_t call, size_t reply)
{
	size_t n = rr_test_call(out, xid, call, xid);
	ssize_t rc = pass(from, to, n);

	if (rc != (ssize_t)n)
		return (int)rc;
	n = rr_test_reply(out, xid, reply, xid + 1);
	rc = pass(to, from, n);
	return rc == (ssize_t)n ? 0 : (int)rc;
}

/* What is spoken, as rdmarpc-stat has it: the two ends' entries, which are the only ones. */
static const char *spoken(void)
{
	cr_assert_eq(seg->conn[0].dialect, seg->conn[1].dialect);
	cr_assert_eq(seg->conn[0].version, seg->conn[1].version);
	return rr_dialect_name(seg->conn[0].dialect);
}

static const enum rr_dialect all[] = {
	RR_DIALECT_V1, RR_DIALECT_V2, RR_DIALECT_DRAFT02, RR_DIALECT_SLIDES,
};
#define PAIRS (sizeof(all) / sizeof(*all) * 4)

Test(conn_dialects, what_both_rules_want_is_spoken_else_v1)
{
	for (unsigned i = 0; i < PAIRS; i++) {
		wanted[0] = all[i / 4];
		wanted[1] = all[i % 4];
		cr_assert_eq(round_trip(&p.client, &p.server, 1, 100, 100), 0, "%u", i);
		cr_assert_str_eq(spoken(), wanted[0] == wanted[1] ? rr_dialect_names[wanted[0]] : "v1");
		rr_pair_close(&p);
		rr_pair_open(&p);
	}
}

static void speak(enum rr_dialect d)
{
	rr_pair_close(&p);
	rr_pair_open(&p);
	wanted[0] = wanted[1] = d;
}

Test(conn_dialects, both_ends_say_for_which_program_they_are)
{
	cr_assert_eq(round_trip(&p.client, &p.server, 1, 100, 100), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(seg->conn[i].program, 0x20005244, "%d", i);
}

Test(conn_dialects, records_of_every_size_pass_unaltered)
{
	static const size_t size[] = { 0, 900, 4024, 4028, 4032, 4036, 60001 };
	static const size_t n = sizeof(size) / sizeof(*size);

	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		speak(all[i]);
		for (uint32_t k = 0; k < n * n; k++) {
			cr_assert_eq(round_trip(&p.client, &p.server, k, size[k / n], size[k % n]), 0,
				     "%s: %zu, %zu", rr_dialect_names[i], size[k / n], size[k % n]);
			if (k / n < 3 && k % n < 3)
				cr_assert_eq(round_trip(&p.server, &p.client, k, size[k / n], size[k % n]),
					     0, "%s: %zu, %zu back", rr_dialect_names[i], size[k / n],
					     size[k % n]);
		}
		cr_assert_str_eq(spoken(), rr_dialect_names[i]);
		cr_assert_eq(seg->conn[0].count.v[RR_C_hatches] + seg->conn[1].count.v[RR_C_hatches], 0,
			     "%s: back to TCP", rr_dialect_names[i]);
	}
}

Test(conn_dialects, long_reverse_calls_and_their_replies_pass_unaltered)
{
	static const size_t size[] = { 100, 5000, 100000 };

	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		speak(all[i]);
		cr_assert_eq(round_trip(&p.client, &p.server, 1, 100, 100), 0);
		for (uint32_t k = 0; k < 9; k++)
			cr_assert_eq(round_trip(&p.server, &p.client, k, size[k / 3], size[k % 3]), 0,
				     "%s: %zu, %zu", rr_dialect_names[i], size[k / 3], size[k % 3]);
	}
}

Test(conn_dialects, the_version_that_is_spoken_is_told)
{
	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		speak(all[i]);
		cr_assert_eq(round_trip(&p.client, &p.server, 1, 100, 100), 0);
		cr_assert_eq(seg->conn[0].version, all[i] == RR_DIALECT_V2 ? 2 : 1);
	}
}

Test(conn_dialects, the_client_asks_its_rules_with_the_program_of_the_call)
{
	wanted[0] = wanted[1] = RR_DIALECT_V1;
	cr_assert_eq(round_trip(&p.client, &p.server, 1, 100, 100), 0);
	cr_assert_eq(asked[0], 0x20005244);
	cr_assert_eq(asked[1], 0);
}

Test(conn_dialects, who_requires_rdma_requires_its_dialect)
{
	for (int strict = 0; strict < 2; strict++) {
		wanted[strict] = RR_DIALECT_V2;
		wanted[!strict] = RR_DIALECT_V1;
		modes[strict] = RR_MODE_REQUIRE;
		modes[!strict] = RR_MODE_AUTO;
		rr_pair_close(&p);
		rr_pair_open(&p);
		cr_assert_neq(round_trip(&p.client, &p.server, 1, 100, 100), 0, "%d", strict);
		cr_assert_not(rr_conn_is_carried(p.client.c));
		cr_assert_str_eq(spoken(), "");
	}
}

/* RFC 1813 §3.3.7 */
static size_t write_call(uint32_t xid, uint32_t len)
{
	uint32_t w[] = { 0x80000000u + 72 + len + rr_ulb_pad(len), xid, 0, 2, 100003, 3, 7, 0, 0, 0, 0, 8, 1, 2, 0, 0, len, 2, len };

	for (size_t i = 0; i < sizeof(w) / 4; i++)
		w[i] = htobe32(w[i]);
	memcpy(out, w, sizeof(w));
	for (uint32_t i = 0; i < len; i++)
		out[sizeof(w) + i] = (uint8_t)(i * 7 + len);
	memset(out + sizeof(w) + len, 0, rr_ulb_pad(len));
	return sizeof(w) + len + rr_ulb_pad(len);
}

/* RDMA_MSGP: what the app reads has no padding any more. */
Test(conn_dialects, padded_calls_of_draft02_pass_unaltered)
{
	rr_test_params.eng.ccp_prog = 100417;
	rr_test_params.eng.rdma_reads = 4;
	rr_test_params.eng.pad_thresh = 64;
	for (uint32_t align = 1; align <= 4096; align *= 4) {
		rr_test_params.eng.pad_align = align;
		rr_test_setup();
		speak(RR_DIALECT_DRAFT02);
		for (uint32_t len = 60; len < 5000; len += 211) {
			ssize_t n = (ssize_t)write_call(len, len);

			cr_assert_eq(pass(&p.client, &p.server, (size_t)n), n, "%u, %u", align, len);
			n = (ssize_t)rr_test_reply(out, len, 100, 1);
			cr_assert_eq(pass(&p.server, &p.client, (size_t)n), n);
		}
		cr_assert_str_eq(spoken(), "draft02");
	}
}

/* A server that serves one RDMA Read at a time: the second long reply waits for the first, and the short
 * ones behind it in their receives. */
Test(conn_dialects, what_waits_behind_a_message_that_is_pulled_later_is_still_there)
{
	static const size_t size[] = { 70001, 60001, 100, 200 };
	size_t n = 0, k;

	rr_test_params.eng.ccp_prog = 100417;
	rr_test_params.eng.rdma_reads = 1;
	rr_test_setup();
	speak(RR_DIALECT_DRAFT02);
	cr_assert_eq(round_trip(&p.client, &p.server, 1, 100, 100), 0);
	for (uint32_t i = 0; i < 4; i++) {
		k = rr_test_call(out, 10 + i, 100, i);
		cr_assert_eq(pass(&p.client, &p.server, k), (ssize_t)k);
	}
	for (uint32_t i = 0; i < 4; i++) {
		k = rr_test_reply(out + n, 10 + i, size[i], i);
		cr_assert_eq(rr_end_send(&p.server, NULL, out + n, k), (ssize_t)k);
		n += k;
	}
	cr_assert_eq(rr_end_recv(&p.client, &p.server, in, n), (ssize_t)n);
	cr_assert_arr_eq(in, out, n);
}
