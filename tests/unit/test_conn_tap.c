/* SPDX-License-Identifier: BSD-3-Clause */
/* What a capture sees of a connection: the records of both ends, from wherever they lie. */
#include "preload/rawos.h"
#include "tests/lib/cap_reader.h"
#include "tests/unit/conn_pair.h"

static struct rr_cap_desk desk;
static struct cap_reader reader = { .fd = -1 };
static uint8_t got[1 << 20];

static void begin(void)
{
	setup();
	rr_os = &rr_raw_os;
	rr_cap_own(&desk);
	carried();
	cap_ask(&desk, 7, 21);
}

TestSuite(conn_tap, .init = begin, .fini = teardown, .timeout = 60);

/* The record in out, once as it went and once as it came. */
static void is_seen(size_t n, uint8_t sender)
{
	bool went = false, came = false;
	struct rr_cap_packet h;

	if (reader.fd < 0)
		cap_attach(&reader, &desk);
	while (cap_take(&reader, &h, got, sizeof(got))) {
		if (h.kind != RR_CAP_RECORD)
			continue;
		cr_assert(h.len == n - 4 && h.captured == h.len, "%u of %u bytes, not %zu", h.captured, h.len, n - 4);
		cr_assert_eq(memcmp(got, out + 4, n - 4), 0);
		if (h.flags & RR_CAP_OUT)
			went = (h.flags & RR_CAP_SERVER) == sender;
		else
			came = (h.flags & RR_CAP_SERVER) != sender;
	}
	cr_assert(went && came, "%d %d", went, came);
}

Test(conn_tap, records_are_seen_as_the_app_wrote_and_read_them)
{
	static const size_t len[] = { 4, 100, 900, 5000, 200000 };

	for (uint32_t i = 0; i < rr_array_size(len); i++) {
		size_t n = rr_test_call(out, 10 + i, len[i], i);

		one_way(&p.client, &p.server, n);
		is_seen(n, 0);
		n = rr_test_reply(out, 10 + i, len[i], i);
		one_way(&p.server, &p.client, n);
		is_seen(n, RR_CAP_SERVER);
	}
}

/* It is collected in memory of ours. */
Test(conn_tap, a_record_in_pieces_is_seen_whole)
{
	size_t n = rr_test_call(out, 10, 300, 1);

	for (size_t at = 0; at < n; at += 30)
		cr_assert_eq(rr_end_send(&p.client, &p.server, out + at, rr_min((size_t)30, n - at)),
			     (ssize_t)rr_min((size_t)30, n - at));
	cr_assert_eq(rr_end_recv(&p.server, &p.client, in, n), (ssize_t)n);
	is_seen(n, 0);
}
