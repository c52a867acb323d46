/* SPDX-License-Identifier: BSD-3-Clause */
/* What the app reads and is told of while offers and answers ride along, call by call. */
#include "tests/unit/ride_played.h"

TestSuite(ride_reads, .init = begin, .timeout = 60);

static size_t apps(size_t len, uint8_t seed)
{
	rr_rm_put(k.queue + k.n, (uint32_t)len, true);
	memset(k.queue + k.n + RR_RM_HDR, seed, len);
	k.n += RR_RM_HDR + len;
	return RR_RM_HDR + len;
}

static void ours(enum rr_nego what, uint8_t len, bool crossing)
{
	memset(k.queue + k.n, 0, len);
	k.queue[k.n] = 0xc0;
	k.queue[k.n + 1] = len;
	k.queue[k.n + 2] = (uint8_t)what;
	k.queue[k.n + 3] = crossing;
	k.n += len;
}

static uint8_t got[8192];
static size_t done;

static ssize_t reads_into(size_t len, int flags)
{
	struct iovec iov[2] = { { got, len / 2 }, { got + len / 2, len - len / 2 } };

	memset(got, 0xee, sizeof(got));
	return rr_ride_recv(&c, FD, iov, 2, flags, &done);
}

Test(ride_reads, the_apps_records_are_read_up_to_what_is_ours)
{
	size_t a = apps(100, 1), b = apps(0, 0);

	b += apps(60, 2);
	ours(RR_NEGO_OURS, 40, false);
	apps(30, 3);
	k.takes = RR_RIDE_OVER;
	cr_assert_eq(reads_into(4000, 0), RR_RIDE_OVER);
	cr_assert(done == a + b && got[a - 1] == 1 && got[a + b - 1] == 2 && got[a + b] == 0xee);
	cr_assert(c.in.records == 3 && c.in.bytes == a + b && k.counts == 3);
	cr_assert(k.answers_taken == 1 && k.taken == RR_NEGO_OURS && k.taken_need == 40 && k.n == 34);
	cr_assert_eq(reads_into(4000, 0), 34);
}

Test(ride_reads, where_nothing_is_looked_for_one_read_takes_it_all)
{
	static const struct {
		enum rr_conn_st st;
		bool server, looks;
	} rows[] = { { RR_S_WATCH, false, false }, { RR_S_WATCH, true, true }, { RR_S_ASKED, false, true }, { RR_S_SWALLOW, false, true },
		     { RR_S_MEETING, false, false }, { RR_S_HEARD, true, false }, { RR_S_SAID, true, false } };

	for (size_t i = 0; i < rr_array_size(rows); i++) {
		size_t n;

		afresh(rows[i].st, rows[i].server);
		n = apps(100, 1);
		n += apps(60, 2);
		cr_assert_eq(reads_into(4000, 0), (ssize_t)n);
		cr_assert(k.reads == (rows[i].looks ? 2 : 1) && k.peeks == (rows[i].looks ? 2 : 0), "row %zu: %u %u", i, k.reads, k.peeks);
		cr_assert(k.counts == k.reads && c.in.records == 2);
	}
}

Test(ride_reads, a_record_that_is_all_there_is_read_once)
{
	size_t n = apps(100, 1);

	cr_assert_eq(reads_into(4000, 0), (ssize_t)n);
	cr_assert(k.reads == 1 && k.peeks == 1 && k.sizes == 0 && !c.whole && !c.most);
	apps(100, 1);
	c.lowat = 2;
	cr_assert_eq(reads_into(4000, 0), (ssize_t)n);
	cr_assert(k.reads == 2 && k.sizes == 1);
}

Test(ride_reads, there_is_no_more_than_the_app_has_room_for)
{
	size_t n = apps(100, 1);

	apps(100, 2);
	cr_assert_eq(reads_into(n - 10, 0), (ssize_t)n - 10);
	cr_assert(k.reads == 1 && k.sizes == 0 && got[n - 10] == 0xee);
	cr_assert_eq(reads_into(4000, 0), 10 + (ssize_t)n);
	cr_assert(k.reads == 3 && c.in.records == 2);
	n = apps(100, 1);
	apps(100, 2);
	cr_assert_eq(reads_into(n, 0), (ssize_t)n);
	cr_assert_eq(k.reads, 4);
}

Test(ride_reads, a_short_read_is_the_last)
{
	apps(100, 1);
	apps(100, 2);
	k.most = 50;
	cr_assert_eq(reads_into(4000, 0), 50);
	cr_assert(k.reads == 1 && k.sizes == 0);
}

Test(ride_reads, a_mark_that_comes_in_parts)
{
	apps(100, 1);
	k.n = 2;
	cr_assert_eq(reads_into(4000, 0), 2);
	memset(k.queue, 0, 2);
	k.queue[1] = 100;
	k.n = 2;
	cr_assert_eq(reads_into(4000, 0), 2);
	cr_assert(c.in.rm.left == 100 && k.peeks == 1, "within a mark nobody looks");
	c.in.rm.have = 1;
	c.in.rm.left = 0;
	c.in.rm.in_record = false;
	c.in.rm.last = false;
	k.reads = 0;
	apps(0, 0);
	reads_into(3, 0);
	cr_assert_eq(k.reads, 1);
}

Test(ride_reads, what_happens_behind_bytes_that_were_read_is_told_next)
{
	size_t n = apps(100, 1);

	c.lowat = 2;	/* it looks again */
	ours(RR_NEGO_OURS, 40, false);
	k.takes = -ECONNRESET;
	cr_assert_eq(reads_into(4000, 0), (ssize_t)n);
	cr_assert_eq(k.answers_taken, 1);
	afresh(RR_S_ASKED, false);
	n = apps(100, 1);
	ours(RR_NEGO_OURS, 40, false);
	k.takes = RR_RIDE_OVER;
	cr_assert_eq(reads_into(4000, 0), RR_RIDE_OVER);
	cr_assert_eq(done, n);
}

Test(ride_reads, a_kept_error_comes_first)
{
	apps(100, 1);
	c.kept = ETIMEDOUT;
	cr_assert_eq(reads_into(4000, 0), -ETIMEDOUT);
	cr_assert(c.kept == 0 && k.reads == 0 && done == 0);
}

Test(ride_reads, a_refused_read_is_the_apps_where_nothing_was_said)
{
	k.then = EPERM;
	cr_assert_eq(reads_into(4000, 0), -EPERM);
	afresh(RR_S_WATCH, true);
	k.then = EPERM;
	cr_assert_eq(reads_into(4000, 0), RR_CONN_KERNEL);
	cr_assert(rr_conn_st(&c) == RR_S_TCP && k.why == RR_R_KERNEL_ONLY);
	afresh(RR_S_WATCH, false);
	cr_assert_eq(reads_into(4000, 0), -EAGAIN);
	cr_assert_eq(k.becomes, 0);
}

/* --- what stands at the front --- */

Test(ride_reads, an_end_without_an_answer_is_remembered)
{
	k.then = 0;
	cr_assert_eq(reads_into(4000, 0), 0);
	cr_assert(k.ours_said == 1 && !k.ours && c.most == 1);
	afresh(RR_S_ASKED, false);
	k.then = ECONNRESET;
	cr_assert_eq(reads_into(4000, 0), -ECONNRESET);
	cr_assert_eq(k.ours_said, 1);
	afresh(RR_S_ASKED, false);
	k.then = ETIMEDOUT;
	cr_assert_eq(reads_into(4000, 0), -ETIMEDOUT);
	cr_assert_eq(k.ours_said, 0);
	afresh(RR_S_ASKED, false);
	k.then = 0;
	c.shut_rd = true;
	cr_assert_eq(reads_into(4000, 0), 0);
	cr_assert(k.ours_said == 0 && c.most == 0, "bytes may come yet");
	afresh(RR_S_WATCH, true);
	k.then = 0;
	cr_assert_eq(reads_into(4000, 0), 0);
	cr_assert_eq(k.ours_said, 0);
}

Test(ride_reads, half_an_answer_is_kept_from_the_app)
{
	ours(RR_NEGO_OURS, 40, false);
	k.n = 1;
	cr_assert_eq(reads_into(4000, 0), -EAGAIN);
	k.withheld = 0;
	k.n = 20;
	cr_assert_eq(reads_into(4000, 0), -EAGAIN);
	cr_assert(k.withheld == 1 && k.n == 20);
	k.not_seen_all = true;
	c.part_since = 5;
	cr_assert_eq(reads_into(4000, 0), -EAGAIN);
	cr_assert_eq(k.withheld, 2, "who has waited already does not ask again");
	c.face.state = RR_S_SWALLOW;
	cr_assert_eq(reads_into(4000, 0), -EAGAIN);
	cr_assert_eq(k.withheld, 2, "however long it takes");
	k.n = 0;
	ours(RR_NEGO_OURS, 254, false);	/* half of the longest */
	cr_assert_eq(reads_into(4000, 0), -EAGAIN);
}

Test(ride_reads, what_may_not_be_kept_is_read)
{
	ours(RR_NEGO_OURS, 40, false);
	k.n = 20;
	k.not_seen_all = true;
	cr_assert_eq(reads_into(4000, 0), 20);
	cr_assert(k.withheld == 0 && k.lowat == 0);
	afresh(RR_S_ASKED, false);
	ours(RR_NEGO_OURS, 40, false);
	k.n = 20;
	k.lets_by = true;
	c.part_since = 5;
	c.lowat = 1;
	c.lowat_set = true;
	cr_assert_eq(reads_into(4000, 0), 20);
	cr_assert(k.withheld == 1 && c.part_since == 0 && k.lowat == 1);
}

Test(ride_reads, an_answer_that_is_too_long_is_skipped)
{
	ours(RR_NEGO_OURS, 255, false);
	cr_assert_eq(reads_into(4000, 0), RR_RIDE_OVER);
	cr_assert(c.skipping && rr_conn_st(&c) == RR_S_SWALLOW && k.why == RR_R_NO_SHIM && k.withheld == 0);
	k.skips = -EAGAIN;
	cr_assert_eq(reads_into(4000, 0), -EAGAIN);
	k.queue[0] = 0;		/* its rest */
	c.in.rm.in_record = true;
	c.in.rm.left = 100;
	cr_assert_eq(rr_ride_inq(&c, FD), 0);
	cr_assert_eq(k.skipped, 2);
	afresh(RR_S_WATCH, true);
	ours(RR_NEGO_OURS, 255, false);
	cr_assert_eq(reads_into(4000, 0), 255);
	cr_assert_not(c.skipping);
}

Test(ride_reads, a_refusal_is_an_answer)
{
	static const enum rr_nego some[] = { RR_NEGO_DECLINED, RR_NEGO_ELSEWHERE, RR_NEGO_ONE_HOST };

	for (size_t i = 0; i < rr_array_size(some); i++) {
		afresh(RR_S_ASKED, false);
		ours(some[i], 40, false);
		k.takes = RR_RIDE_OVER;
		cr_assert_eq(reads_into(4000, 0), RR_RIDE_OVER);
		cr_assert(k.taken == some[i] && k.taken_need == 40);
	}
}

Test(ride_reads, an_offer_is_taken_or_left_to_the_app)
{
	for (int i = 0; i < 4; i++) {
		afresh(RR_S_WATCH, true);
		ours(RR_NEGO_OURS, 40, i != 1);
		k.stopped = i == 2;
		k.not_seen_all = i == 3;
		k.takes = -EAGAIN;
		cr_assert_eq(reads_into(4000, 0), i ? 40 : -EAGAIN, "%d", i);
		cr_assert_eq(k.offers_taken, !i);
		cr_assert(i || (k.taken_xid == 0x77 && k.taken_need == 40));
	}
}

Test(ride_reads, within_a_record_nobody_looks)
{
	apps(100, 1);
	reads_into(50, 0);
	memset(k.queue, 0xc0, 54);
	cr_assert_eq(reads_into(54, 0), 54);
	cr_assert(k.peeks == 1 && c.in.records == 1);
}

/* --- looks of the app's --- */

Test(ride_reads, a_look_passes_over_what_is_ours)
{
	size_t a = apps(100, 1), b;

	ours(RR_NEGO_OURS, 40, false);
	b = apps(60, 2);
	cr_assert_eq(reads_into(4000, MSG_PEEK), (ssize_t)(a + b));
	cr_assert(got[a - 1] == 1 && got[a + RR_RM_HDR] == 2 && got[a + b] == 0xee && k.n == a + 40 + b && !c.whole);
	cr_assert_eq(reads_into(a + 10, MSG_PEEK), (ssize_t)a + 10);
	cr_assert_eq(got[a + RR_RM_HDR], 2);
	cr_assert_eq(reads_into(a, MSG_PEEK), (ssize_t)a);
	cr_assert_eq(reads_into(a - 10, MSG_PEEK), (ssize_t)a - 10);
	k.most = a + 30;
	cr_assert_eq(reads_into(4000, MSG_PEEK), (ssize_t)a);
	k.most = a - 3;
	cr_assert_eq(reads_into(4000, MSG_PEEK), (ssize_t)a - 3);
	k.most = SIZE_MAX;
	k.n = a + 20;
	cr_assert_eq(reads_into(4000, MSG_PEEK), (ssize_t)a, "half of it");
	cr_assert_eq(got[a], 0xee);
	cr_assert(k.reads == 0 && k.counts == 0 && c.in.bytes == 0);
}

Test(ride_reads, a_look_where_nothing_is_ours_shows_it_all)
{
	size_t n = apps(100, 1);

	ours(RR_NEGO_OURS, 40, false);
	cr_assert_eq(reads_into(4000, MSG_PEEK), (ssize_t)n);
	afresh(RR_S_ASKED, false);
	n = apps(500, 1);
	cr_assert_eq(reads_into(4000, MSG_PEEK), (ssize_t)n, "not as far as the look before");
	cr_assert(got[n - 1] == 1 && !c.whole && c.most == n && done == 0);
	n += apps(60, 2);
	cr_assert_eq(reads_into(4000, MSG_PEEK), (ssize_t)n);
	cr_assert_eq(got[n - 1], 2);
}

Test(ride_reads, a_look_that_fails_says_why)
{
	apps(100, 1);
	ours(RR_NEGO_OURS, 40, false);
	reads_into(4000, MSG_PEEK);	/* at the front, for the search, and for the app */
	k.bad_peek = k.peeks;
	k.peeks = 0;
	c.most = 0;
	k.then = ENOMEM;
	cr_assert_eq(reads_into(4000, MSG_PEEK), -ENOMEM);
	k.peeks = 0;
	c.most = 0;
	k.then = 0;
	cr_assert_eq(reads_into(4000, MSG_PEEK), 0, "an errno of old is none");
	afresh(RR_S_ASKED, false);
	cr_assert_eq(reads_into(4000, MSG_PEEK), -EAGAIN);
	ours(RR_NEGO_OURS, 40, false);
	k.takes = RR_RIDE_OVER;
	cr_assert_eq(reads_into(4000, MSG_PEEK), RR_RIDE_OVER);
}

/* recvmsg() with many pieces, of which so many go to the kernel in one call. */
Test(ride_reads, a_look_into_many_pieces_has_none_of_ours)
{
	struct iovec iov[40];

	apps(100, 1);
	ours(RR_NEGO_OURS, 40, false);
	apps(60, 2);
	for (int i = 0; i < 20; i++)
		iov[i] = (struct iovec){ got + i * 6, 6 };
	memset(got, 0xee, sizeof(got));
	cr_assert_eq(rr_ride_recv(&c, FD, iov, 20, MSG_PEEK, &done), 6 * RR_IOV_CUT);
	cr_assert(got[RR_RM_HDR] == 1 && got[6 * RR_IOV_CUT - 1] == 1 && got[6 * RR_IOV_CUT] == 0xee);
	for (int i = 0; i < 40; i++)
		iov[i] = (struct iovec){ got + (i < 11 ? i * 10 : 99 + i), i < 11 ? 10 : 1 };
	memset(got, 0xee, sizeof(got));
	cr_assert_eq(rr_ride_recv(&c, FD, iov, 40, MSG_PEEK, &done), 104 + 6 + 19);
	cr_assert(got[103] == 1 && got[104 + RR_RM_HDR] == 2 && got[104 + 24] == 2 && got[104 + 25] == 0xee);
}

Test(ride_reads, who_asks_how_many_there_are_may_wait_for_more)
{
	size_t n = apps(100, 1);

	cr_assert_eq(rr_ride_inq(&c, FD), (int)n);
	cr_assert_not(c.whole);
}

/* They came when the look was over. */
Test(ride_reads, bytes_that_have_just_come_may_be_ours)
{
	ours(RR_NEGO_OURS, 40, false);
	k.blind = 1;
	cr_assert_eq(rr_ride_inq(&c, FD), 0);
	cr_assert(k.sizes == 2 && k.answers_taken == 0);
	afresh(RR_S_ASKED, false);
	apps(100, 1);
	ours(RR_NEGO_OURS, 40, false);
	k.hidden = 40;
	cr_assert_eq(rr_ride_inq(&c, FD), 104);
	k.n = 104;
	apps(60, 2);
	ours(RR_NEGO_OURS, 40, false);
	cr_assert_eq(rr_ride_inq(&c, FD), 104 + 64);
}

/* Another reader has taken them meanwhile. */
Test(ride_reads, bytes_that_are_gone_are_not_ours)
{
	size_t a = apps(100, 1), b;

	ours(RR_NEGO_OURS, 40, false);
	b = apps(60, 2);
	k.bad_peek = 3;		/* the front, the record's mark, and then the next */
	cr_assert_eq(rr_ride_inq(&c, FD), (int)(a + 40 + b));
	cr_assert_eq(k.peeks, 4);
}

Test(ride_reads, bytes_of_ours_are_not_counted)
{
	size_t a = apps(100, 1), b;

	ours(RR_NEGO_OURS, 40, false);
	b = apps(60, 2);
	c.whole = true;
	cr_assert_eq(rr_ride_inq(&c, FD), (int)(a + b));
	cr_assert_not(c.whole);
	k.n = a + 20;
	cr_assert_eq(rr_ride_inq(&c, FD), (int)a);
	k.n = a;
	cr_assert_eq(rr_ride_inq(&c, FD), (int)a);
	k.n = 0;
	cr_assert_eq(rr_ride_inq(&c, FD), 0);
	afresh(RR_S_ASKED, false);
	ours(RR_NEGO_OURS, 40, false);
	k.n = 20;
	cr_assert_eq(rr_ride_inq(&c, FD), 0);
	k.n = 40;
	k.takes = RR_RIDE_OVER;
	cr_assert_eq(rr_ride_inq(&c, FD), RR_RIDE_OVER);
}

Test(ride_reads, where_nobody_looks_out_all_are_the_apps)
{
	afresh(RR_S_MEETING, false);
	ours(RR_NEGO_OURS, 40, false);
	cr_assert_eq(rr_ride_inq(&c, FD), 40);
}

Test(ride_reads, nor_are_those_of_the_longest_answer)
{
	size_t a = apps(100, 1), b;

	ours(RR_NEGO_OURS, 254, false);
	memset(k.queue + k.n, 0, RR_ANSWER_MAX - 254);
	k.n += RR_ANSWER_MAX - 254;
	b = apps(60, 2);
	cr_assert_eq(rr_ride_inq(&c, FD), (int)(a + b));
}

/* Fragments, empty ones among them, and a record of which the first half has been read. */
Test(ride_reads, ours_is_found_behind_records_of_any_form)
{
	size_t a;

	a = apps(100, 1);
	k.queue[0] = 0;		/* not the last */
	a += apps(0, 0);
	a += apps(50, 1);
	k.queue[a - 54] = 0;
	a += apps(0, 0);
	k.queue[a - 4] = 0;
	a += apps(7, 1);
	ours(RR_NEGO_OURS, 40, false);
	a += apps(9, 1);
	cr_assert_eq(rr_ride_inq(&c, FD), (int)a);
	reads_into(60, 0);
	cr_assert_eq(rr_ride_inq(&c, FD), (int)a - 60);
	/* within a record of the app's nothing is ours */
	memset(k.queue, 0xc0, 40);
	cr_assert_eq(rr_ride_inq(&c, FD), (int)a - 60);
}

Test(ride_reads, what_was_let_by_is_the_apps)
{
	ours(RR_NEGO_OURS, 40, false);
	k.n = 20;
	k.lets_by = true;
	cr_assert_eq(rr_ride_inq(&c, FD), 20);
	cr_assert_eq(rr_ride_inq(&c, FD), 20);
	c.most = 10;
	cr_assert_eq(rr_ride_inq(&c, FD), 20);
}

Test(ride_reads, the_search_has_a_bound)
{
	for (int i = 62; i < 66; i++) {
		int n = 0;

		afresh(RR_S_ASKED, false);
		for (int j = 0; j < i; j++)
			n += (int)apps(10, 1);
		ours(RR_NEGO_OURS, 40, false);
		cr_assert_eq(rr_ride_inq(&c, FD), n + (i < 64 ? 0 : 40), "%d", i);
	}
	for (int i = 126; i < 130; i++) {
		afresh(RR_S_ASKED, false);
		for (int j = 0; j < i; j++)
			apps(0, 1);
		ours(RR_NEGO_OURS, 40, false);
		cr_assert_eq(rr_ride_inq(&c, FD), 4 * i + (i < 128 ? 0 : 40), "%d", i);
	}
	for (int i = 65530; i < 65534; i++) {
		afresh(RR_S_ASKED, false);
		apps((size_t)i, 1);
		ours(RR_NEGO_OURS, 40, false);
		cr_assert_eq(rr_ride_inq(&c, FD), i + 4 + (i + 4 < 65536 ? 0 : 40), "%d", i);
	}
}

/* --- readiness --- */

#define IN	(POLLIN | POLLRDNORM)

Test(ride_reads, what_is_plain_is_the_kernels)
{
	afresh(RR_S_WATCH, true);
	apps(100, 1);
	cr_assert_eq(rr_ride_poll(&c, FD, IN | RR_ASK_FIRST), RR_CONN_KERNEL);
	cr_assert_eq(k.peeks, 0);
	cr_assert_eq(rr_ride_poll(&c, FD, POLLOUT), RR_CONN_KERNEL);
	cr_assert_eq(k.peeks, 0);
	cr_assert_eq(rr_ride_poll(&c, FD, POLLIN), RR_CONN_KERNEL);
	cr_assert(k.peeks == 1 && c.most == 104 && c.looked == 0 && k.sizes == 1);
	cr_assert_eq(rr_ride_poll(&c, FD, POLLIN), RR_CONN_KERNEL);
	cr_assert_eq(k.sizes, 1, "it has been looked at");
	c.kept = 1;
	rr_ride_poll(&c, FD, IN | RR_ASK_FIRST);
	cr_assert_eq(k.polls, 1);
}

Test(ride_reads, a_pending_error_is_not_read)
{
	k.then = ECONNRESET;
	cr_assert_eq(rr_ride_poll(&c, FD, POLLIN), RR_CONN_KERNEL);
	cr_assert(k.peeks == 0 && k.sizes == 1);
	cr_assert_eq(rr_ride_poll(&c, FD, POLLIN | RR_ASK_TOLD), RR_CONN_KERNEL);
	cr_assert_eq(k.peeks, 1, "there is none, it was told");
}

Test(ride_reads, what_the_kernel_has_said_is_noted)
{
	apps(100, 1);
	rr_ride_poll(&c, FD, POLLIN | RR_ASK_TOLD);
	cr_assert(c.looked && c.whole);
	c.looked = 0;
	rr_ride_poll(&c, FD, POLLIN | RR_ASK_FIRST);
	cr_assert(c.whole && !c.looked);
	rr_ride_poll(&c, FD, POLLIN);
	cr_assert_not(c.whole);
	rr_ride_poll(&c, FD, POLLIN | RR_ASK_TOLD);
	cr_assert_not(c.whole, "it does not come back");
	afresh(RR_S_ASKED, false);
	rr_ride_poll(&c, FD, POLLIN | RR_ASK_TOLD);
	cr_assert_eq(c.looked, 0);
}

Test(ride_reads, a_kept_error_shows)
{
	c.kept = ECONNRESET;
	k.shows = POLLOUT;
	cr_assert_eq(rr_ride_poll(&c, FD, POLLIN | POLLOUT), POLLOUT | POLLERR);
	cr_assert_eq(c.kept, ECONNRESET);
}

Test(ride_reads, half_an_answer_wakes_nobody)
{
	ours(RR_NEGO_OURS, 40, false);
	k.n = 20;
	k.shows = IN | POLLOUT;
	cr_assert_eq(rr_ride_poll(&c, FD, IN | POLLOUT), POLLOUT);
	k.n = 0;
	ours(RR_NEGO_OURS, 40, false);
	k.takes = RR_RIDE_OVER;
	cr_assert_eq(rr_ride_poll(&c, FD, IN), RR_RIDE_OVER);
}

Test(ride_reads, fewer_bytes_than_the_app_waits_for_wake_nobody)
{
	size_t a = apps(100, 1);

	ours(RR_NEGO_OURS, 40, false);
	c.lowat = (int)a + 1;
	k.shows = IN | POLLOUT;
	cr_assert_eq(rr_ride_poll(&c, FD, IN | POLLOUT), POLLOUT);
	k.n = a + 20;
	cr_assert_eq(rr_ride_poll(&c, FD, IN | POLLOUT), POLLOUT);
	cr_assert_eq(rr_ride_poll(&c, FD, POLLOUT), RR_CONN_KERNEL);
	c.lowat = (int)a;
	cr_assert_eq(rr_ride_poll(&c, FD, IN), RR_CONN_KERNEL);
	c.lowat = 1000;
	k.shows = POLLRDHUP;
	cr_assert_eq(rr_ride_poll(&c, FD, IN), RR_CONN_KERNEL);
	k.shows = POLLHUP;
	cr_assert_eq(rr_ride_poll(&c, FD, IN), RR_CONN_KERNEL);
	k.shows = POLLERR;
	cr_assert_eq(rr_ride_poll(&c, FD, IN), RR_CONN_KERNEL);
	k.shows = 0;
	c.lowat = 2;
	k.n = 1;
	cr_assert_eq(rr_ride_poll(&c, FD, IN), 0);
	c.face.state = RR_S_MEETING;
	cr_assert_eq(rr_ride_poll(&c, FD, IN), RR_CONN_KERNEL, "it is the kernel's option there");
}
