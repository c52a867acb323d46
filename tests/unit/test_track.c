/* SPDX-License-Identifier: BSD-3-Clause */
/* Records that go by on TCP are counted at their marks, in whatever pieces they come. */
#include <criterion/criterion.h>
#include <string.h>

#include "core/conn/base/track.h"

static struct rr_track t;
static uint8_t bytes[256];
static size_t len;

static void fragment(uint32_t n, bool last)
{
	rr_rm_put(bytes + len, n, last);
	memset(bytes + len + RR_RM_HDR, 0xaa, n);
	len += RR_RM_HDR + n;
}

static void over(size_t from, size_t n)
{
	const struct iovec iov = { bytes + from, n };

	rr_track_over(&t, &iov, 1, n);
}

Test(track, records_are_counted_when_they_end)
{
	fragment(10, true);
	over(0, 3);
	cr_assert(t.records == 0 && !rr_track_at_boundary(&t) && t.bytes == 3);
	over(3, 10);
	cr_assert(t.records == 0 && !rr_track_at_boundary(&t) && t.bytes == 13);
	over(13, 1);
	cr_assert(t.records == 1 && rr_track_at_boundary(&t) && t.bytes == 14);
	cr_assert_eq(t.ours, 0);
}

Test(track, several_records_in_one_piece)
{
	fragment(10, true);
	fragment(3, false);
	fragment(4, true);
	fragment(1, true);
	over(0, len);
	cr_assert(t.records == 3 && rr_track_at_boundary(&t) && t.bytes == len);
}

/* An empty last fragment ends the record, too, though no byte follows by which that could be told. */
Test(track, an_empty_fragment_ends_a_record)
{
	fragment(5, false);
	fragment(0, true);
	over(0, len);
	cr_assert(t.records == 1 && rr_track_at_boundary(&t));
	fragment(0, true);
	over(len - 4, 4);
	cr_assert(t.records == 2 && rr_track_at_boundary(&t));
	fragment(0, false);
	over(len - 4, 4);
	cr_assert(t.records == 2 && !rr_track_at_boundary(&t));
}

Test(track, byte_by_byte_it_is_the_same)
{
	fragment(7, false);
	fragment(0, true);
	fragment(2, true);
	for (size_t i = 0; i < len; i++)
		over(i, 1);
	cr_assert(t.records == 2 && rr_track_at_boundary(&t) && t.bytes == len);
}

/* The pieces that are named may hold more than has gone by. */
Test(track, no_byte_counts_that_has_not_gone_by)
{
	struct iovec all[5] = { { bytes, 14 }, { bytes, 6 }, { bytes + 6, 0 }, { bytes + 6, 20 }, { NULL, 8 } };
	struct iovec *iov = all + 1;

	fragment(10, true);
	fragment(2, true);
	rr_track_over(&t, iov, 4, 14);
	cr_assert(t.records == 1 && rr_track_at_boundary(&t) && t.bytes == 14);
	iov[0] = (struct iovec){ bytes + 14, 5 };
	rr_track_over(&t, iov, 1, 5);
	cr_assert(t.records == 1 && t.bytes == 19 && t.rm.left == 1);
	rr_track_over(&t, iov, 0, 1);
	cr_assert(t.records == 1 && t.bytes == 20 && t.rm.left == 1, "no piece, no byte to look at");
}

Test(track, how_much_may_be_read)
{
	fragment(10, true);
	cr_assert_eq(rr_track_most(&t, NULL, 0), 4, "a header, of which nothing is known");
	cr_assert_eq(rr_track_most(&t, bytes, 1), 1);
	cr_assert_eq(rr_track_most(&t, bytes, 3), 3);
	cr_assert_eq(rr_track_most(&t, bytes, 4), 14, "header and fragment");
	cr_assert_eq(rr_track_most(&t, bytes, 50), 14);
	over(0, 1);
	cr_assert_eq(rr_track_most(&t, NULL, 0), 3, "the rest of the header");
	cr_assert_eq(rr_track_most(&t, bytes + 1, 2), 2);
	cr_assert_eq(rr_track_most(&t, bytes + 1, 3), 3);
	cr_assert_eq(rr_track_most(&t, bytes + 1, 4), 3);
	cr_assert_eq(rr_track_most(&t, bytes + 1, 13), 3);
	over(1, 3);
	cr_assert_eq(rr_track_most(&t, NULL, 0), 10, "the rest of the fragment");
	cr_assert_eq(rr_track_most(&t, bytes + 4, 10), 10);
	over(4, 9);
	cr_assert_eq(rr_track_most(&t, bytes + 13, 1), 1);
}
