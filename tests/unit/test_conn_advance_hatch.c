/* SPDX-License-Identifier: BSD-3-Clause */
/* A message of which a part was told of, and that does not come: its direction goes back to TCP, or its app ends. The
 * peer reads what it was told of, once, and then the rest. */

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/os.h"
#include "core/conn/enter.h"
#include "core/wire/advance.h"
#include "tests/unit/advances.h"
#include "tests/unit/copies.h"

TestSuite(conn_advance_hatch, .init = setup, .fini = teardown, .timeout = 60);

/* --- the client's own --------------------------------------------------------------------------- */

static void small_messages(void)
{
	rr_test_params.eng.max_msg = 200000;
	setup();
}

/* What is too long shows in a fragment's mark. */
Test(conn_advance_hatch, a_record_that_proves_too_long_goes_on_by_tcp, .init = small_messages)
{
	size_t n, have = 0;

	carried();
	n = in_fragments(rr_test_call(out, 2, 500000, 2), 65532);
	for (size_t at = 0, to; at < n; at = to) {
		to = rr_min(at + 65536, n);
		cr_assert_eq(rr_end_send(&p.client, &p.server, out + at, to - at), (ssize_t)(to - at));
		have = get(&p.server, have);
	}
	cr_assert_eq(have, n);
	cr_assert_gt(told(&p.client), 3);
	cr_assert_eq(counted(&p.client, RR_C_hatches), 1);
	one_way(&p.client, &p.server, rr_test_call(out, 3, 100000, 1));
	one_way(&p.server, &p.client, rr_test_reply(out, 3, 100000, 1));
}

/* A process that cannot use RDMA asks its peer to go back at once: within a fragment, of which more or less was told. */
static void goes_back_within(size_t first, size_t second, size_t fragment)
{
	size_t n, have;

	carried();
	second = rr_max(first, second);
	n = in_fragments(rr_test_call(out, 2, 300000, 2), fragment);
	put(&p.client, 0, first);
	have = get(&p.server, 0);
	if (second > first)
		put(&p.client, first, second);
	cr_assert_eq(rr_drv_say(p.server.c->share, RR_IMM_BACK), 1);
	cr_assert_eq(rr_end_poll(&p.client, POLLIN), 0);
	cr_assert_eq(rr_end_send(&p.client, &p.server, out + second, n - second), (ssize_t)(n - second));
	cr_assert_gt(told(&p.client), 0);
	cr_assert_eq(counted(&p.client, RR_C_hatches), 1);
	while (have < n)
		have = get(&p.server, have);
}

Test(conn_advance_hatch, the_way_back_opens_where_all_is_told)
{
	goes_back_within(100000, 0, 400000);
}

Test(conn_advance_hatch, and_where_bytes_of_the_fragment_are_not_told)
{
	goes_back_within(100000, 103000, 400000);
}

Test(conn_advance_hatch, and_between_fragments)
{
	goes_back_within(65540, 0, 65536);
}

Test(conn_advance_hatch, and_within_a_mark)
{
	goes_back_within(65540, 65542, 65536);
}

/* 2 bytes of the fragment are not told, and of the next one there are 5,000. */
Test(conn_advance_hatch, and_within_the_next_fragment)
{
	size_t n, have;
	ssize_t len;

	carried();
	n = in_fragments(rr_test_call(out, 2, 300000, 2), 40000);
	put(&p.client, 0, 40002);
	have = get(&p.server, 0);
	put(&p.client, 40002, 45000);
	cr_assert_eq(rr_drv_say(p.server.c->share, RR_IMM_BACK), 1);
	cr_assert_eq(rr_end_poll(&p.client, POLLIN), 0);
	cr_assert_eq(rr_end_send(&p.client, &p.server, out + 45000, n - 45000), (ssize_t)(n - 45000));
	cr_assert_eq(counted(&p.client, RR_C_hatches), 1);
	/* The second fragment comes in two: the collected part of it has a mark of its own. */
	cr_assert_eq(rr_end_recv(&p.server, &p.client, in + have, 40004 - have), (ssize_t)(40004 - have));
	cr_assert_eq(memcmp(in, out, 40004), 0);
	len = rr_end_recv_record(&p.server, &p.client, in, sizeof(in));
	n = rr_test_call(out, 2, 300000, 2) - 4;
	cr_assert_eq(len, (ssize_t)n - 40000);
	cr_assert_eq(memcmp(in, out + 4 + 40000, (size_t)len), 0);
}

Test(conn_advance_hatch, an_app_that_ends_within_a_record_leaves_what_it_has_written)
{
	size_t have, more;
	ssize_t rc;

	carried();
	rr_test_call(out, 2, 200000, 2);
	put(&p.client, 0, 100000);
	have = get(&p.server, 0);
	cr_assert_gt(have, 90000);
	put(&p.client, 100000, 150000);
	rr_end_close(&p.client);
	while ((rc = rr_end_try_recv(&p.server, in + have, sizeof(in) - have, 0)) > 0 || rc == -EAGAIN)
		have += rc > 0 ? (size_t)rc : 0;
	more = have;
	cr_assert(rc == 0 || rc == -ECONNRESET, "%zd", rc);
	cr_assert(more > 140000 && more <= 150000, "%zu", more);
	cr_assert_eq(memcmp(in, out, more), 0);
}

/* --- what was passed over ------------------------------------------------------------------------ */

/* The client's notes, of a call in its memory. */
static struct rr_advance piece;
static struct rr_advances all;
static uint8_t note[RR_ADVANCES_MAX + 4];
#define PIECE	20000u
#define TOLD	50000u

/* It has told of PIECE bytes of TOLD. The record is in out, n bytes long. */
static size_t told_in_part(size_t fragment)
{
	struct rr_qp *qp;
	struct rr_seg seg;
	size_t n;

	carried();
	qp = p.client.c->share->qp;
	cr_assert_eq(qp->ops->expose(qp, qp->mem, 65536, RR_RIGHT_READ, &seg), 0);
	n = rr_test_call(out, 2, 100000, 1);
	memcpy(qp->mem, out + RR_RM_HDR, 65536);
	n = in_fragments(n, fragment);
	piece = (struct rr_advance){ .xid = 2, .seg = seg, .mark = rr_be32(out) };
	piece.seg.length = PIECE;
	rr_advance_put(&piece, note);
	cr_assert_eq(qp->ops->send_note(qp, RR_IMM_ADVANCE, note, RR_ADVANCE_LEN), 1);
	all = (struct rr_advances){ .xid = 2, .len = TOLD, .nsegs = 2, .seg = { seg, seg } };
	all.seg[0].length = 30000;
	all.seg[1].offset += 30000;
	all.seg[1].length = 20000;
	return n;
}

static void open_hatch(uint32_t len)
{
	struct rr_qp *qp = p.client.c->share->qp;

	cr_assert_eq(qp->ops->send_note(qp, RR_IMM_HATCH, note, len), 1);
	rr_drv_progress(p.server.c->share);
}

static void by_tcp(const uint8_t *bytes, size_t n)
{
	cr_assert_eq(rr_os->send(p.client.fd, bytes, n, 0), (ssize_t)n);
}

static void reads(const uint8_t *bytes, size_t n)
{
	memset(in, 0, n);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, bytes, n), 0);
}

Test(conn_advance_hatch, what_was_passed_over_is_read_before_the_hatch)
{
	size_t n = told_in_part(1 << 20);

	all.mark = RR_RM_LAST | (uint32_t)(n - RR_RM_HDR - TOLD);
	open_hatch(rr_advances_put(&all, note));
	by_tcp(out + RR_RM_HDR + TOLD, n - RR_RM_HDR - TOLD);
	reads(out, n);
}

/* Of the second of three fragments 5,000 bytes are to come. */
Test(conn_advance_hatch, in_a_fragment_that_ends_where_the_last_one_does)
{
	uint8_t mark[RR_RM_HDR];

	told_in_part(30000);
	all.mark = 5000;
	open_hatch(rr_advances_put(&all, note));
	rr_test_call(out, 2, 100000, 1);
	rr_rm_put(mark, 30000, false);
	reads(mark, RR_RM_HDR);
	reads(out + RR_RM_HDR, 30000);
	rr_rm_put(mark, TOLD - 30000 + 5000, false);
	reads(mark, RR_RM_HDR);
	reads(out + RR_RM_HDR + 30000, TOLD - 30000);
	by_tcp(out, 100);
	reads(out, 100);
}

Test(conn_advance_hatch, nothing_is_read_twice)
{
	told_in_part(30000);
	all.len = PIECE;
	all.nsegs = 1;
	all.seg[0].length = PIECE;
	all.mark = 30000 - PIECE;
	open_hatch(rr_advances_put(&all, note));
	reads(out, RR_RM_HDR + PIECE);
	by_tcp(out + RR_RM_HDR + PIECE, 50000);
	reads(out + RR_RM_HDR + PIECE, 50000);
}

/* Two calls, and a reply to the first that waits: the server claims that it still copies that call. Its length. */
static size_t a_reply_waits(void)
{
	size_t n;

	call_is_held();
	one_way(&p.client, &p.server, rr_test_call(out, 3, 10, 1));
	n = rr_test_reply(out, 2, 60000, 1);
	put(&p.server, 0, n);
	return n;
}

Test(conn_advance_hatch, a_client_that_waits_takes_up_all_of_it)
{
	size_t first = a_reply_waits(), n;
	uint64_t of_first = told(&p.server);
	ssize_t len;

	n = in_fragments(rr_test_reply(out, 3, 300000, 2), 70000);
	put(&p.server, 0, 200000);
	cr_assert_eq(rr_drv_say(p.client.c->share, RR_IMM_BACK), 1);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	cr_assert_eq(counted(&p.server, RR_C_hatches), 1);
	cr_assert_gt(told(&p.server), of_first);
	rr_drv_progress(p.client.c->share);
	cr_assert_eq(counted(&p.client, RR_C_advances_received), of_first);

	copies(&p.client, 0);
	cr_assert_eq(rr_end_recv_record(&p.client, &p.server, in, sizeof(in)), (ssize_t)first - RR_RM_HDR);
	cr_assert_eq(rr_end_send(&p.server, &p.client, out + 200000, n - 200000), (ssize_t)(n - 200000));
	len = rr_end_recv_record(&p.client, &p.server, in, sizeof(in));
	n = rr_test_reply(out, 3, 300000, 2);
	cr_assert_eq(len, (ssize_t)n - RR_RM_HDR);
	cr_assert_eq(memcmp(in, out + RR_RM_HDR, (size_t)len), 0);
}

/* --- lies about it ------------------------------------------------------------------------------- */

/* What was told of before can still be read. */
static void found_out(uint32_t len)
{
	ssize_t n;

	open_hatch(len);
	cr_assert(rr_link_is_dead(p.server.c->share));
	while ((n = rr_end_try_recv(&p.server, in, sizeof(in), 0)) > 0)
		;
	cr_assert_eq(n, -ECONNRESET);
}

static void a_lie(void)
{
	setup();
	told_in_part(60000);
	all.mark = 10000;
}

Test(conn_advance_hatch, the_truth, .init = a_lie)
{
	open_hatch(rr_advances_put(&all, note));
	cr_assert(rr_link_is_up(p.server.c->share));
}

Test(conn_advance_hatch, no_word_of_it, .init = a_lie)
{
	found_out(0);
}

Test(conn_advance_hatch, a_part_of_a_segment, .init = a_lie)
{
	found_out(rr_advances_put(&all, note) - 1);
}

Test(conn_advance_hatch, no_segment, .init = a_lie)
{
	rr_advances_put(&all, note);
	found_out(RR_ADVANCE_LEN - 16);
}

Test(conn_advance_hatch, less_than_was_told_of, .init = a_lie)
{
	all.nsegs = 1;
	all.len = all.seg[0].length = PIECE - 1;
	found_out(rr_advances_put(&all, note));
}

Test(conn_advance_hatch, segments_that_are_longer, .init = a_lie)
{
	all.len--;
	found_out(rr_advances_put(&all, note));
}

Test(conn_advance_hatch, more_than_a_message_holds, .init = a_lie)
{
	all.seg[1].length = p.server.c->share->ep.max_msg;
	all.len = 30000 + all.seg[1].length;
	found_out(rr_advances_put(&all, note));
}

Test(conn_advance_hatch, another_message, .init = a_lie)
{
	all.xid++;
	found_out(rr_advances_put(&all, note));
}

Test(conn_advance_hatch, a_fragment_that_is_longer_than_its_mark, .init = a_lie)
{
	all.mark++;
	found_out(rr_advances_put(&all, note));
}

Test(conn_advance_hatch, a_fragment_that_is_longer_than_any, .init = a_lie)
{
	all.mark = 0x7fffffff;
	found_out(rr_advances_put(&all, note));
}

Test(conn_advance_hatch, what_was_not_agreed_on, .init = a_lie)
{
	rr_drv_progress(p.server.c->share);
	p.server.c->share->ep.caps &= ~(uint32_t)RR_CAP_ADVANCES;
	found_out(rr_advances_put(&all, note));
}
