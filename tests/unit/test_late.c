/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes that are not for the app, and what is sent along with its own, step by step. */
#include "tests/unit/late_played.h"

TestSuite(late, .init = begin, .timeout = 60);

static void puts_bytes(size_t n)
{
	for (size_t i = 0; i < n; i++)
		k.queue[k.n++] = (uint8_t)(i + 1);
}

/* --- taken out of the queue --- */

Test(late, exactly_so_many_bytes_are_taken_out)
{
	puts_bytes(300);
	cr_assert(rr_upgrade_consume(FD, 290));
	cr_assert(k.n == 10 && k.recvs == 3 && k.asked == 290 - 2 * 128);
	puts_bytes(200);
	k.most = 50;
	cr_assert(rr_upgrade_consume(FD, 200));
	cr_assert(k.n == 10 && k.recvs == 3 + 4);
	cr_assert(rr_upgrade_consume(FD, 0));
	cr_assert_eq(k.recvs, 7);
	k.most = 1;
	cr_assert(rr_upgrade_consume(FD, 3));
	cr_assert_eq(k.n, 7);
}

Test(late, what_another_reader_has_taken_is_not_there)
{
	puts_bytes(10);
	cr_assert_not(rr_upgrade_consume(FD, 11));
	k.then = 0;
	cr_assert_not(rr_upgrade_consume(FD, 1));
	puts_bytes(11);
	cr_assert(rr_upgrade_consume(FD, 11));
}

Test(late, a_look_leaves_everything_in_its_place)
{
	uint8_t buf[20];

	puts_bytes(30);
	cr_assert(rr_upgrade_look(FD, buf, sizeof(buf)) == 20 && buf[19] == 20 && k.n == 30 && k.peeks == 1);
	k.n = 0;
	cr_assert_eq(rr_upgrade_look(FD, buf, sizeof(buf)), -EAGAIN);
	k.then = 0;
	cr_assert_eq(rr_upgrade_look(FD, buf, sizeof(buf)), 0);
}

/* recv() would take it. */
Test(late, an_error_stays_pending)
{
	uint8_t buf[20];
	bool gone = true;

	cr_assert_eq(rr_upgrade_peek(FD, buf, sizeof(buf), &gone), -EAGAIN);
	cr_assert(!gone && k.peeks == 1);
	k.anchor = POLLHUP;
	puts_bytes(5);
	cr_assert_eq(rr_upgrade_peek(FD, buf, sizeof(buf), &gone), 5);
	cr_assert_not(gone);
	k.anchor = POLLERR | POLLHUP;
	cr_assert_eq(rr_upgrade_peek(FD, buf, sizeof(buf), &gone), 5);
	cr_assert(gone && k.peeks == 3);
	k.n = 0;
	cr_assert_eq(rr_upgrade_peek(FD, buf, sizeof(buf), &gone), -EIO);
	cr_assert(gone && k.peeks == 3, "it is not read");
}

/* --- half of it --- */

Test(late, half_an_offer_is_kept_from_the_app_for_a_second)
{
	cr_assert(rr_upgrade_withholds(&c, 100, 20));
	cr_assert(c.part_since == START && c.own_word && k.lowat == 100);
	now += RR_SEC - 1;
	c.own_word = false;
	cr_assert(rr_upgrade_withholds(&c, 40, 40));
	cr_assert(k.lowat == 41 && c.part_since == START && !c.own_word, "more than there is");
	cr_assert(rr_upgrade_withholds(&c, 43, 41));
	cr_assert_eq(k.lowat, 43);
	cr_assert(rr_upgrade_withholds(&c, 42, 41));
	cr_assert_eq(k.lowat, 42);
	now++;
	k.lowat = 0;
	cr_assert_not(rr_upgrade_withholds(&c, 100, 50));
	cr_assert_eq(k.lowat, 0);
}

/* --- a reply that is no answer --- */

static void puts_fragment(size_t n, bool last)
{
	rr_rm_put(k.queue + k.n, (uint32_t)n, last);
	k.n += RR_RM_HDR;
	puts_bytes(n);
}

static void is_skipped(void)
{
	cr_assert_eq(rr_upgrade_skip(&c, FD), RR_RIDE_OVER);
	cr_assert(k.becomes == 1 && k.st == RR_S_TCP && k.why == RR_R_NO_SHIM);
}

Test(late, a_reply_to_the_offer_is_read_away)
{
	puts_fragment(100, false);
	puts_fragment(600, true);
	puts_fragment(20, true);	/* the app's */
	is_skipped();
	cr_assert_eq(k.n, 24);
}

Test(late, its_last_fragment_may_be_empty)
{
	puts_fragment(100, false);
	puts_fragment(0, true);
	puts_bytes(7);
	is_skipped();
	cr_assert_eq(k.n, 7);
	afresh();
	puts_fragment(100, false);
	puts_fragment(0, true);
	is_skipped();
	cr_assert_eq(k.n, 0, "nothing needs to come behind it");
}

Test(late, as_much_of_it_as_there_is)
{
	puts_fragment(100, true);
	k.n -= 50;
	cr_assert_eq(rr_upgrade_skip(&c, FD), -EAGAIN);
	cr_assert(k.n == 0 && k.becomes == 0);
	puts_bytes(51);
	is_skipped();
	cr_assert_eq(k.n, 1);
}

Test(late, an_end_or_an_error_is_the_apps)
{
	k.then = 0;
	cr_assert_eq(rr_upgrade_skip(&c, FD), 0);
	k.then = ECONNRESET;
	cr_assert_eq(rr_upgrade_skip(&c, FD), 0);
	k.anchor = POLLERR;
	k.no_bytes = true;
	cr_assert_eq(rr_upgrade_skip(&c, FD), 0);
	cr_assert_eq(k.becomes, 0);
}

Test(late, a_reply_of_many_fragments_is_not_read_in_one_call)
{
	for (int i = 0; i < 20; i++)
		puts_fragment(1, false);
	cr_assert_eq(rr_upgrade_skip(&c, FD), -EAGAIN);
	cr_assert_eq(k.n, 20 * 5 - 8 * 5, "16 reads: 8 headers, 8 bytes");
	cr_assert_eq(rr_upgrade_skip(&c, FD), -EAGAIN);
	cr_assert_eq(rr_upgrade_skip(&c, FD), -EAGAIN);
	cr_assert_eq(k.n, 0);
}

/* --- sent along --- */

static uint8_t ours[50], apps[2][100];
static struct iovec iov[2] = { { apps[0], 100 }, { apps[1], 60 } };

static ssize_t goes_along(ssize_t sends)
{
	afresh();
	k.sends = sends;
	c.out.ours = 1000;
	return rr_ride_send_along(&c, FD, ours, 50, iov, 2, 0x77);
}

Test(late, ours_goes_in_front_of_the_apps)
{
	cr_assert_eq(goes_along(210), 160);
	cr_assert(k.sent_n == 3 && k.flags == 0x77 && k.sent[0].iov_base == ours && k.sent[0].iov_len == 50);
	cr_assert(k.sent[1].iov_base == apps[0] && k.sent[1].iov_len == 100 && k.sent[2].iov_base == apps[1] && k.sent[2].iov_len == 60);
	cr_assert(c.out.ours == 1050 && k.passes == 1 && k.passed == 160 && k.fails == 0 && k.breaks == 0);
	cr_assert_eq(goes_along(51), 1);
	cr_assert(c.out.ours == 1050 && k.passed == 1);
	cr_assert_eq(goes_along(50), 0);
	cr_assert(c.out.ours == 1050 && k.passes == 1 && k.passed == 0 && k.fails == 0);
}

Test(late, where_nothing_goes_nothing_has_gone)
{
	cr_assert_eq(goes_along(-EAGAIN), -EAGAIN);
	cr_assert(c.out.ours == 1000 && k.passes == 0 && k.fails == 0 && k.breaks == 0);
}

Test(late, half_of_ours_breaks_the_connection)
{
	static const ssize_t some[] = { 0, 1, 49 };

	for (size_t i = 0; i < rr_array_size(some); i++) {
		cr_assert_eq(goes_along(some[i]), -ECONNRESET);
		cr_assert(k.breaks == 1 && k.fails == 1 && k.why == RR_R_INTERNAL && k.passes == 0 && c.out.ours == 1000);
	}
}

Test(late, many_pieces_are_cut)
{
	struct iovec many[RR_IOV_CUT + 5];

	for (int i = 0; i < RR_IOV_CUT + 5; i++)
		many[i] = (struct iovec){ apps[0] + i % 90, 1 };
	k.sends = -EAGAIN;
	rr_ride_send_along(&c, FD, ours, 50, many, RR_IOV_CUT + 5, 0);
	cr_assert(k.sent_n == RR_IOV_CUT && k.sent[0].iov_base == ours && k.sent[RR_IOV_CUT - 1].iov_base == many[RR_IOV_CUT - 2].iov_base);
}

/* A retransmission is no new byte, and a FIN counts as one that was received. */
Test(late, who_counts_as_the_kernel_does_has_seen_all)
{
	c.out.bytes = 100;
	c.out.ours = 20;
	k.info.tcpi_bytes_sent = 90;
	k.info.tcpi_bytes_retrans = 5;
	k.info.tcpi_notsent_bytes = 35;
	k.unread = 1;
	cr_assert(rr_ride_seen_all(&c, FD));
	k.unread = 2;
	cr_assert_not(rr_ride_seen_all(&c, FD));
	k.unread = -3;
	cr_assert(rr_ride_seen_all(&c, FD));
	k.info.tcpi_notsent_bytes = 36;
	cr_assert_not(rr_ride_seen_all(&c, FD));
	k.info.tcpi_bytes_retrans = 6;
	cr_assert(rr_ride_seen_all(&c, FD));
	k.no_info = true;
	cr_assert_not(rr_ride_seen_all(&c, FD));
}
