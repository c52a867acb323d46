/* SPDX-License-Identifier: BSD-3-Clause */
/* What the anchor of a carried connection shows, and what this end makes of it, with a kernel and a provider that are
 * played. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/conn_played.h"

static struct rr_os os;
static struct rr_share *sh;
static int fd;

/* What the kernel shows. */
static struct {
	short anchor, wake;	/* poll() */
	uint8_t bytes[300];	/* recv() */
	int have, fails;	/* … or this errno */
	int so_error;		/* getsockopt() */
	int peeks, takes, sends, asked, breaks;
	uint8_t sent[64];
	int send_fails;
} k;

static int shown(struct pollfd *q, nfds_t n, int timeout)
{
	cr_assert_eq(timeout, 0, "nobody may wait here");
	return played_shows(q, n, fd, k.anchor, k.wake);
}

static ssize_t hears(int at, void *buf, size_t len, int flags)
{
	size_t n = rr_min(len, (size_t)k.have);

	cr_assert_eq(at, fd);
	cr_assert(flags & MSG_DONTWAIT);
	if (k.fails) {
		errno = k.fails;
		return -1;
	}
	memcpy(buf, k.bytes, n);
	if (flags & MSG_PEEK) {
		k.peeks++;
	} else {
		k.takes++;
		memmove(k.bytes, k.bytes + n, sizeof(k.bytes) - n);
		k.have -= (int)n;
	}
	return (ssize_t)n;
}

static ssize_t says(int at, const void *buf, size_t len, int flags)
{
	cr_assert_eq(at, fd);
	cr_assert(flags & MSG_DONTWAIT && flags & MSG_NOSIGNAL);
	k.sends++;
	if (k.send_fails) {
		errno = k.send_fails;
		return -1;
	}
	memcpy(k.sent, buf, rr_min(len, sizeof(k.sent)));
	return (ssize_t)len;
}

static int option(int at, int level, int name, void *val, socklen_t *len)
{
	if (at != fd || level != SOL_SOCKET || name != SO_ERROR)
		return getsockopt(at, level, name, val, len);
	k.asked++;
	memcpy(val, &k.so_error, sizeof(int));
	return 0;
}

static int ends(int at, int how)
{
	if (at == fd)
		k.breaks++;
	(void)how;
	return 0;
}

static void begin_as(bool direct)
{
	sh = play(direct);
	fd = p.client.fd;
	os = *rr_os;
	os.poll = shown;
	os.recv = hears;
	os.send = says;
	os.getsockopt = option;
	os.shutdown = ends;
	rr_os = &os;
}

static void begin(void)
{
	begin_as(true);
}

TestSuite(conn_anchor, .init = begin, .timeout = 60);

static void looks(rr_time now)
{
	rr_anchor_check(sh, fd, now);
}

/* As it was. */
static void afresh(void)
{
	memset(&k, 0, sizeof(k));
	sh->link = RR_LINK_UP;
	sh->rx.end = RR_ENDS_NOT;
	sh->rx.way = RR_WAY_IN_RDMA;
	sh->tx.way = RR_WAY_OUT_RDMA;
	sh->rx.shut = false;
	sh->err = 0;
	sh->hint = 0;
	pl.polls = 0;
}

static void mark(uint64_t records)
{
	rr_nego_put_mark(k.bytes, sh->token, records);
	k.have = RR_MARK_LEN;
	k.anchor = POLLIN;
}

Test(conn_anchor, a_look_is_noted)
{
	sh->rx.checked = 0;
	sh->rx.since = 9;
	looks(1234);
	cr_assert(sh->rx.checked == 1234 && sh->rx.since == 0);
	cr_assert(k.peeks == 0 && rr_link_is_up(sh) && sh->hint == 0 && pl.drains == 0);
}

Test(conn_anchor, an_end_mark_is_taken_whole_or_not_at_all)
{
	for (int have = 1; have < (int)RR_MARK_LEN; have++) {
		afresh();
		mark(7);
		k.have = have;
		looks(1);
		cr_assert(sh->rx.end == RR_ENDS_NOT && k.takes == 0 && k.peeks == 1, "%d", have);
		cr_assert(rr_link_is_up(sh));
	}
	afresh();
	mark(7);
	looks(1);
	cr_assert(sh->rx.end == RR_ENDS_FIN_MARKED && sh->rx.promised == 7, "and the end comes behind it");
	cr_assert(k.takes == 1 && k.have == 0);
	cr_assert_eq(sh->hint, RR_HINT_IN);
}

Test(conn_anchor, without_an_end_behind_it_a_mark_is_no_end)
{
	mark(7);
	k.fails = 0;
	k.have = RR_MARK_LEN + 5;
	memcpy(k.bytes + RR_MARK_LEN, sh->token, 5);
	looks(1);
	cr_assert(sh->rx.end == RR_ENDS_MARKED && sh->rx.promised == 7 && k.have == 5 && k.peeks == 2);
}

/* The FIN comes right behind it, and who spins is to see that; but a peer that sends none makes nobody
 * look for ever. */
Test(conn_anchor, behind_a_mark_an_end_is_looked_for_at_once)
{
	int n;

	mark(7);
	k.have = RR_MARK_LEN + 5;
	memcpy(k.bytes + RR_MARK_LEN, sh->token, 5);
	looks(1);
	for (n = 1; !rr_rx_looked_at(sh) && sh->hint == RR_HINT_IN; n++) {
		cr_assert_leq(n, 64);
		sh->hint = 0;
		looks(1);
	}
	cr_assert_eq(n, 65);
	cr_assert(rr_rx_looked_at(sh) && sh->hint == 0 && sh->rx.end == RR_ENDS_MARKED);
	k.have = 0;
	looks(1);
	cr_assert(sh->rx.end == RR_ENDS_FIN_MARKED && sh->hint == RR_HINT_IN);
}

Test(conn_anchor, no_more_than_three_are_looked_at)
{
	mark(1);
	for (int i = 0; i < 6; i++)
		rr_nego_put_mark(k.bytes + i * RR_MARK_LEN, sh->token, (uint64_t)i);
	k.have = 6 * RR_MARK_LEN;
	looks(1);
	cr_assert_eq(k.peeks, 3);
	cr_assert_eq(sh->rx.promised, 2);
}

/* Bytes that are neither ours nor behind a hatch. */
Test(conn_anchor, other_bytes_are_against_the_protocol)
{
	k.anchor = POLLIN;
	k.have = 1;
	k.bytes[0] = (uint8_t)~sh->token[0];
	looks(1);
	cr_assert(rr_link_is_dead(sh) && sh->err == ECONNRESET && reported(sh) == RR_R_PROTOCOL && k.takes == 0);
	afresh();
	mark(7);
	k.bytes[RR_TOKEN_LEN - 1] ^= 1;
	looks(1);
	cr_assert(rr_link_is_dead(sh));
}

/* Between hosts a hatch may come later than the bytes behind it. */
Test(conn_anchor, by_a_device_other_bytes_wait_for_the_hatch, .init = NULL)
{
	begin_as(false);
	k.anchor = POLLIN;
	k.have = 30;
	k.bytes[0] = (uint8_t)~sh->token[0];
	looks(1);
	cr_assert(rr_link_is_up(sh) && k.takes == 0 && pl.polls == 1);
}

Test(conn_anchor, bytes_behind_a_hatch_are_the_apps)
{
	pl.wc[0] = (struct rr_wc){ .op = RR_WC_RECV, .has_imm = true, .imm = RR_IMM_HATCH };
	pl.batch[0] = 1;
	pl.batches = 1;
	k.anchor = POLLIN;
	k.have = 30;
	k.bytes[0] = (uint8_t)~sh->token[0];
	looks(1);
	cr_assert(rr_link_is_up(sh) && k.takes == 0 && k.peeks == 1);
	cr_assert_eq(sh->rx.way, RR_WAY_IN_HATCHED);
	looks(1);
	cr_assert_eq(k.peeks, 1, "nothing is looked at any more");
}

Test(conn_anchor, nothing_to_read_is_nothing)
{
	static const int errors[] = { EAGAIN, EINTR };

	for (int i = 0; i < 2; i++) {
		afresh();
		k.anchor = POLLIN;
		k.fails = errors[i];
		looks(1);
		cr_assert(sh->rx.end == RR_ENDS_NOT && !sh->err);
	}
}

Test(conn_anchor, a_fin_is_an_end_and_an_error_is_a_reset)
{
	k.anchor = POLLIN | POLLRDHUP;
	looks(1);
	cr_assert(sh->rx.end == RR_ENDS_FIN && !sh->err && k.asked == 0 && sh->hint == RR_HINT_IN);
	cr_assert_eq(pl.polls, 1, "what was posted before it");
	afresh();
	k.anchor = POLLIN;
	k.fails = ETIMEDOUT;
	looks(1);
	cr_assert(sh->rx.end == RR_ENDS_RESET && sh->err == ETIMEDOUT && !rr_link_is_dead(sh));
	afresh();
	k.anchor = POLLIN;
	k.fails = ECONNRESET;
	sh->err = EPIPE;
	looks(1);
	cr_assert_eq(sh->err, EPIPE, "the first error counts");
	afresh();
	sh->rx.end = RR_ENDS_MARKED;
	k.anchor = POLLIN;
	k.fails = ECONNRESET;
	looks(1);
	cr_assert_eq(sh->rx.end, RR_ENDS_RESET, "what was promised does not come");
}

Test(conn_anchor, a_reset_by_our_own_shutdown_is_an_end)
{
	for (int i = 0; i < 4; i++) {
		afresh();
		sh->rx.shut = i & 1;
		sh->tx.way = i & 2 ? RR_WAY_OUT_RDMA_SHUT : RR_WAY_OUT_RDMA;
		sh->rx.end = RR_ENDS_MARKED;
		k.anchor = POLLIN;
		k.fails = ECONNRESET;
		looks(1);
		cr_assert_eq(sh->rx.end, i == 3 ? RR_ENDS_FIN : RR_ENDS_RESET);
		cr_assert_eq(sh->err, i == 3 ? 0 : ECONNRESET);
	}
}

Test(conn_anchor, behind_the_fin_the_socket_is_asked_for_an_error)
{
	k.anchor = POLLIN | POLLERR;
	k.so_error = ECONNRESET;
	looks(1);
	cr_assert(k.asked == 1 && sh->rx.end == RR_ENDS_RESET && sh->err == ECONNRESET);
	looks(1);
	cr_assert_eq(k.asked, 1);
	afresh();
	k.anchor = POLLIN | POLLERR;
	looks(1);
	cr_assert(k.asked == 1 && sh->rx.end == RR_ENDS_FIN && !sh->err);
	afresh();
	k.anchor = POLLIN | POLLERR;
	k.fails = EAGAIN;
	k.so_error = ETIMEDOUT;
	looks(1);
	cr_assert(k.asked == 1 && sh->rx.end == RR_ENDS_RESET && sh->err == ETIMEDOUT, "nor before a FIN");
	afresh();
	k.anchor = POLLIN;
	k.so_error = ECONNRESET;
	looks(1);
	cr_assert_eq(k.asked, 0, "there is none");
	afresh();
	k.anchor = POLLIN | POLLERR;
	k.so_error = ECONNRESET;
	sh->tx.way = RR_WAY_OUT_RDMA_SHUT;
	looks(1);
	cr_assert(k.asked == 0 && !sh->err, "our own end mark may be the cause");
	afresh();
	mark(sh->rx.records + 1);
	k.anchor = POLLIN | POLLERR;
	k.so_error = ECONNRESET;
	looks(1);
	cr_assert(k.asked == 0 && sh->rx.end == RR_ENDS_FIN_MARKED, "the app has yet to get a record");
	afresh();
	mark(sh->rx.records);
	k.anchor = POLLIN | POLLERR;
	k.so_error = ECONNRESET;
	looks(1);
	cr_assert(k.asked == 1 && sh->rx.end == RR_ENDS_RESET_MARKED);
}

Test(conn_anchor, the_end_of_the_providers_peer_is_seen_on_the_wake_up_fd)
{
	k.wake = POLLRDHUP;
	looks(1);
	cr_assert(pl.drains == 1 && rr_link_is_up(sh) && k.peeks == 0 && sh->rx.end == RR_ENDS_NOT);
	pl.drained = -ECONNRESET;
	k.anchor = POLLIN | POLLRDHUP;
	looks(1);
	cr_assert(pl.drains == 2 && sh->link == RR_LINK_LOST && sh->rx.end == RR_ENDS_FIN && k.breaks == 0);
}

/* The wake-up fd may tell that the peer has gone before its last messages were taken in: they count. */
Test(conn_anchor, what_came_before_the_peer_went_counts)
{
	pl.wc[0] = (struct rr_wc){ .op = RR_WC_RECV, .has_imm = true, .imm = RR_IMM_HATCH };
	pl.batch[0] = 1;
	pl.batches = 1;
	sh->tx.way = RR_WAY_OUT_TCP;
	sh->link = RR_LINK_LOST;
	sh->lost_at = 1000;
	looks(RR_SEC * 1000);
	cr_assert(!rr_link_is_dead(sh) && sh->rx.way == RR_WAY_IN_HATCHED);
}

/* For a while the anchor may yet tell how. */
static void outlives(enum rr_link link, rr_time grace)
{
	afresh();
	sh->link = link;
	sh->lost_at = 1000;
	looks(1000 + grace);
	cr_assert(!rr_link_is_dead(sh) && k.breaks == 0);
	looks(1001 + grace);
	cr_assert(rr_link_is_dead(sh) && sh->err == ECONNRESET && reported(sh) == RR_R_PEER_DIED && k.breaks == 1);
}

Test(conn_anchor, an_anchor_outlives_the_provider_for_a_while)
{
	outlives(RR_LINK_LOST, 100 * RR_MSEC);
	outlives(RR_LINK_MORE, 5 * RR_SEC);
	outlives(RR_LINK_VOID, 5 * RR_SEC);
	afresh();
	looks(RR_SEC * 1000);
	cr_assert_not(rr_link_is_dead(sh), "it is not lost");
	for (int end = RR_ENDS_MARKED; end <= RR_ENDS_RESET_MARKED; end++) {
		afresh();
		sh->link = RR_LINK_LOST;
		sh->lost_at = 1000;
		sh->rx.end = (enum rr_in_end)end;
		sh->rx.promised = sh->rx.records;
		looks(RR_SEC * 1000);
		cr_assert_not(rr_link_is_dead(sh), "%d", end);
	}
	afresh();
	sh->link = RR_LINK_LOST;
	sh->lost_at = 1000;
	sh->rx.way = RR_WAY_IN_TCP;
	sh->tx.way = RR_WAY_OUT_TCP;
	looks(RR_SEC * 1000);
	cr_assert_not(rr_link_is_dead(sh), "the provider is of no matter");
}

Test(conn_anchor, records_that_cannot_come_any_more_are_a_loss)
{
	afresh();
	sh->link = RR_LINK_LOST;
	sh->lost_at = 1000;
	sh->rx.end = RR_ENDS_FIN_MARKED;
	sh->rx.promised = sh->rx.records + 1;
	looks(1000);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_PEER_DIED && k.breaks == 0);
	afresh();
	sh->link = RR_LINK_LOST;
	sh->lost_at = 1000;
	sh->rx.way = RR_WAY_IN_HATCHING;
	looks(1000);
	cr_assert(rr_link_is_dead(sh));
	afresh();
	sh->rx.way = RR_WAY_IN_HATCHING;
	looks(1000);
	cr_assert_not(rr_link_is_dead(sh));
	sh->rx.end = RR_ENDS_FIN_MARKED;
	looks(1000);
	cr_assert_not(rr_link_is_dead(sh), "they may come");
}

Test(conn_anchor, behind_the_hatch_the_app_may_have_bytes_to_read)
{
	afresh();
	sh->rx.way = RR_WAY_IN_TCP;
	sh->link = RR_LINK_LOST;
	sh->lost_at = 1000;
	k.anchor = POLLIN;
	looks(2000);
	cr_assert(sh->link == RR_LINK_MORE && sh->lost_at == 2000 && sh->rx.end == RR_ENDS_NOT && k.peeks == 0);
	k.anchor = POLLIN | POLLRDHUP;
	looks(3000);
	cr_assert(sh->rx.end == RR_ENDS_FIN && sh->lost_at == 3000);
	afresh();
	sh->rx.way = RR_WAY_IN_TCP;
	sh->link = RR_LINK_LOST;
	sh->lost_at = 1000;
	looks(2000);
	cr_assert(sh->link == RR_LINK_LOST && sh->lost_at == 1000, "there is nothing");
	afresh();
	sh->rx.way = RR_WAY_IN_TCP;
	k.anchor = POLLIN | POLLRDHUP;
	looks(2000);
	cr_assert(rr_link_is_up(sh) && sh->rx.end == RR_ENDS_NOT);
}

Test(conn_anchor, of_a_connection_that_is_over_nothing_is_looked_at)
{
	afresh();
	sh->link = RR_LINK_FAILED;
	mark(3);
	looks(7);
	cr_assert(k.peeks == 0 && sh->rx.checked == 7);
	afresh();
	sh->rx.way = RR_WAY_IN_TCP;
	sh->tx.way = RR_WAY_OUT_TCP;
	k.wake = POLLIN;
	looks(8);
	cr_assert(pl.drains == 0 && sh->rx.checked == 8);
}

/* --- our own end -------------------------------------------------------------------------- */

Test(conn_anchor, the_peer_is_told_to_look)
{
	rr_anchor_note(sh);
	cr_assert(pl.says == 1 && pl.said[0].imm == RR_IMM_NOTE && pl.kicks == 1);
	sh->link = RR_LINK_LOST;
	rr_anchor_note(sh);
	cr_assert_eq(pl.says, 1);
	sh->link = RR_LINK_FAILED;
	rr_anchor_note(sh);
	cr_assert_eq(pl.says, 1);
	sh->link = RR_LINK_UP;
	sh->qp->native = true;
	rr_anchor_note(sh);
	cr_assert_eq(pl.says, 1);
}

Test(conn_anchor, our_end_mark_says_how_many_records_there_are)
{
	uint64_t n = 0;

	sh->tx.records = 12;
	cr_assert(rr_anchor_mark(sh, fd));
	cr_assert(k.sends == 1 && rr_nego_get_mark(k.sent, sh->token, &n) && n == 12);
	cr_assert(rr_tx_is_shut(sh) && pl.says == 1);
	cr_assert_not(rr_anchor_mark(sh, fd));
	cr_assert_eq(k.sends, 1, "once");
	afresh();
	k.send_fails = EPIPE;
	cr_assert(rr_anchor_mark(sh, fd));
	cr_assert(rr_tx_is_shut(sh) && pl.says == 2);
}

Test(conn_anchor, where_the_kernel_carries_it_a_fin_says_it_all)
{
	sh->tx.way = RR_WAY_OUT_TCP;
	cr_assert_not(rr_anchor_mark(sh, fd));
	cr_assert_eq(sh->tx.way, RR_WAY_OUT_TCP);
	sh->tx.way = RR_WAY_OUT_RDMA;
	sh->link = RR_LINK_FAILED;
	cr_assert_not(rr_anchor_mark(sh, fd));
	cr_assert_eq(sh->tx.way, RR_WAY_OUT_RDMA);
	sh->link = RR_LINK_UP;
	sh->tx.way = RR_WAY_OUT_EARLY;
	cr_assert_not(rr_anchor_mark(sh, fd));
	cr_assert_eq(sh->tx.way, RR_WAY_OUT_EARLY_SHUT);
	sh->tx.way = RR_WAY_OUT_RDMA;
	sh->qp->native = true;
	cr_assert(rr_anchor_mark(sh, fd));
	cr_assert_eq(sh->tx.way, RR_WAY_OUT_RDMA_SHUT);
	cr_assert(k.sends == 0 && pl.says == 0);
}

/* --- the loss of a native peer ------------------------------------------------------------- */

Test(conn_anchor, a_native_peer_that_leaves_ends_its_stream)
{
	int far[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, far), 0);
	os.shutdown = shutdown;
	rr_drv_lost(sh);
	cr_assert_eq(sh->rx.end, RR_ENDS_NOT, "that is the anchor's to say");
	afresh();
	sh->qp->native = true;
	sh->far = -1;
	rr_drv_lost(sh);
	cr_assert_eq(sh->rx.end, RR_ENDS_FIN);
	afresh();
	sh->far = far[0];
	sh->relayed = true;
	rr_drv_lost(sh);
	cr_assert_eq(recv(far[1], k.bytes, 1, MSG_DONTWAIT), -1, "the relay does it");
	afresh();
	sh->relayed = false;
	rr_drv_lost(sh);
	cr_assert_eq(recv(far[1], k.bytes, 1, MSG_DONTWAIT), 0);
	cr_assert_eq(send(far[1], "x", 1, MSG_NOSIGNAL), 1, "only one half of it");
}

/* --- the hatch ----------------------------------------------------------------------------- */

/* What goes by TCP before the app's bytes, for a record of which `len` bytes were collected, within a fragment of which
 * `left` are to come, or within a mark of which `have` bytes have come. */
static void flushes(uint32_t len, uint32_t left, bool last, uint32_t have)
{
	static uint8_t want[9000];
	size_t n = 0, at = 0;

	afresh();
	sh->tx.rm = (struct rr_rm){ .left = left, .last = last, .have = (uint8_t)have };
	sh->tx.buf = RR_BUF_NONE;
	sh->tx.len = len;
	if (len) {
		sh->tx.buf = (uint32_t)rr_pool_alloc(&sh->pool, len);
		rr_pool_fill(&sh->pool, sh->tx.buf, 0, pl.peers, len);
		rr_rm_put(want, len, false);
		memcpy(want + 4, pl.peers, len);
		n = 4 + len;
	}
	for (uint32_t i = 0; i < have; i++)
		sh->tx.rm.hdr[i] = want[n++] = (uint8_t)(0x80 + i);
	if (left) {
		rr_rm_put(want + n, left, last);
		n += 4;
	}
	cr_assert_eq(rr_hatch_open(sh, RR_R_TOO_LARGE), 0);
	cr_assert(rr_tx_is_tcp(sh) && sh->tx.flush_len == n && sh->tx.flush_off == 0, "%zu", n);
	while (at < n) {
		uint32_t was = sh->tx.flush_off;

		k.send_fails = 0;
		if (at % 3 == 1) {
			k.send_fails = EWOULDBLOCK;
			cr_assert_eq(rr_hatch_flush(sh, fd), -EAGAIN);
			cr_assert(sh->tx.flush_off == was && sh->tx.len == len);
			k.send_fails = EPIPE;
			cr_assert_eq(rr_hatch_flush(sh, fd), -EPIPE);
			k.send_fails = 0;
		}
		(void)rr_hatch_flush(sh, fd);
		cr_assert_gt(sh->tx.flush_off, was);
		at = sh->tx.flush_off;
	}
	cr_assert_eq(rr_hatch_flush(sh, fd), RR_CONN_KERNEL);
	cr_assert_eq(sh->tx.buf, RR_BUF_NONE);
}

static uint8_t stream[20000];
static size_t streamed, at_once;

static ssize_t streams(int at, const void *buf, size_t len, int flags)
{
	cr_assert(at == fd && flags == (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE));
	if (k.send_fails) {
		errno = k.send_fails;
		return -1;
	}
	len = rr_min(len, at_once);
	memcpy(stream + streamed, buf, len);
	streamed += len;
	return (ssize_t)len;
}

Test(conn_anchor, what_was_collected_goes_out_before_what_follows)
{
	static const struct { uint32_t len, left, have; bool last; } of[] = {
		{ 0, 0, 0, false }, { 0, 0, 3, false }, { 0, 500, 0, true }, { 100, 0, 0, false }, { 100, 0, 2, false },
		{ 100, 500, 0, false }, { 5000, 500, 0, true }, { 8192, 1, 0, true },
	};
	uint64_t hatches = sh->qp->count->v[RR_C_hatches];

	os.send = streams;
	for (unsigned i = 0; i < rr_array_size(of); i++)
		for (at_once = 1; at_once < 10000; at_once *= 7) {
			uint8_t want[4];
			const uint8_t *s = stream;
			uint32_t used = sh->pool.used;

			streamed = 0;
			flushes(of[i].len, of[i].left, of[i].last, of[i].have);
			cr_assert_eq(sh->pool.used, used);
			if (of[i].len) {
				rr_rm_put(want, of[i].len, false);
				cr_assert_eq(memcmp(s, want, 4), 0);
				cr_assert_eq(memcmp(s + 4, pl.peers, of[i].len), 0, "%u %zu", i, at_once);
				s += 4 + of[i].len;
			}
			if (of[i].left) {
				rr_rm_put(want, of[i].left, of[i].last);
				cr_assert_eq(memcmp(s, want, 4), 0);
				s += 4;
			}
			for (uint32_t b = 0; b < of[i].have; b++)
				cr_assert_eq(*s++, 0x80 + b);
			cr_assert_eq((size_t)(s - stream), streamed);
			hatches++;
			cr_assert_eq(sh->qp->count->v[RR_C_hatches], hatches);
			cr_assert_eq(reported(sh), RR_R_HATCH);
		}
}

Test(conn_anchor, a_hatch_is_opened_now_or_later_or_ends_it_all)
{
	afresh();
	pl.on_say.first = -EAGAIN;
	cr_assert_eq(rr_hatch_open(sh, RR_R_TOO_LARGE), -EAGAIN);
	cr_assert(rr_tx_is_rdma(sh) && rr_link_is_up(sh));
	pl.on_say.first = 0;
	pl.kicks = pl.says = 0;
	cr_assert_eq(rr_hatch_open(sh, RR_R_FORKED), 0);
	cr_assert(rr_tx_is_tcp(sh) && pl.kicks == 1 && pl.says == 1 && pl.said[0].imm == RR_IMM_HATCH);
	cr_assert_eq(reported(sh), RR_R_FORKED);
	afresh();
	pl.on_say.first = -EIO;
	cr_assert_eq(rr_hatch_open(sh, RR_R_TOO_LARGE), -ECONNRESET);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_DEVICE && rr_tx_is_rdma(sh));
	afresh();
	pl.on_say.first = -ECONNRESET;
	cr_assert_eq(rr_hatch_open(sh, RR_R_TOO_LARGE), -ECONNRESET);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_PEER_DIED);
	afresh();
	pl.on_say.first = 0;
	pl.says = 0;
	sh->ep.caps &= ~(uint32_t)RR_CAP_HATCH;
	cr_assert_eq(rr_hatch_open(sh, RR_R_TOO_LARGE), -ECONNRESET);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_TOO_LARGE && pl.says == 0);
}

Test(conn_anchor, who_is_called_back_follows_if_that_is_possible)
{
	afresh();
	sh->called_back = true;
	pl.on_say.first = -EAGAIN;
	rr_hatch_answer(sh);
	cr_assert(sh->called_back && rr_tx_is_rdma(sh), "later");
	pl.on_say.first = 0;
	rr_hatch_answer(sh);
	cr_assert(!sh->called_back && rr_tx_is_tcp(sh));
	pl.says = 0;
	for (int i = 0; i < 5; i++) {
		afresh();
		sh->called_back = true;
		sh->ep.caps |= RR_CAP_HATCH;
		if (i == 0)
			sh->tx.way = RR_WAY_OUT_TCP;
		else if (i == 1)
			sh->tx.way = RR_WAY_OUT_RDMA_SHUT;
		else if (i == 2)
			sh->link = RR_LINK_LOST;
		else if (i == 3)
			sh->link = RR_LINK_FAILED;
		else
			sh->ep.caps &= ~(uint32_t)RR_CAP_HATCH;
		rr_hatch_answer(sh);
		cr_assert(!sh->called_back && pl.says == 0, "%d", i);
	}
	afresh();
	rr_hatch_answer(sh);
	cr_assert(rr_tx_is_rdma(sh) && pl.says == 0, "nobody has called");
}

/* --- how it begins ------------------------------------------------------------------------- */

Test(conn_anchor, what_was_agreed_on_is_in_force)
{
	const struct rr_end *ends_of[] = { &p.client, &p.server };

	for (int i = 0; i < 2; i++) {
		struct rr_conn *c = ends_of[i]->c;
		struct rr_share *s = c->share;

		cr_assert_eq(s->ep.connector, i == 0);
		cr_assert(s->ep.inline_send == s->qp->send_size && s->ep.inline_recv == s->qp->recv_size);
		cr_assert_eq(s->ep.inline_peer, s->qp->peer_send);
		cr_assert(s->ep.invalidate == s->qp->peer_inv && s->ep.invited == s->qp->own_inv);
		cr_assert(s->ep.recvs && s->ep.recvs <= s->qp->recvs);
		cr_assert(s->ep.max_msg && s->ep.max_msg <= s->qp->mem_size / 2);
		cr_assert_not(s->delays, "pulls finish in the call");
		cr_assert(s->seg == c->seg && s->st == c->st && s->qp->count == rr_stats_counters(c->st));
		cr_assert_eq(s->qp->count->v[RR_C_upgraded], 1);
		cr_assert_eq(s->index, c->index);
		cr_assert(c->ring > 0 && s->patience > 0 && !s->trimmed);
		if (i == 0)
			cr_assert_eq(memcmp(&s->peer, &c->peer, sizeof(c->peer)), 0);
		else
			cr_assert_eq(s->peer.sin6_family, 0);
		cr_assert(rr_tx_is_rdma(s) && s->rx.way == RR_WAY_IN_RDMA && !s->rx.shut);
		cr_assert(rr_conn_st(c) == RR_S_CARRIED && reported(s) == RR_R_NONE);
	}
}

/* --- its lock ------------------------------------------------------------------------------ */

static void *dies_with_it(void *lock)
{
	return (void *)(intptr_t)rr_lock_take(lock);
}

/* In a child that ends: the lock is left as it is. */
static void left_by_the_dead(struct rr_lock *l)
{
	pid_t pid = fork();

	if (!pid) {
		rr_lock_forked();
		dies_with_it(l);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

Test(conn_anchor, what_the_dead_left_half_done_is_forgotten)
{
	struct rr_lock *l;

	afresh();
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_BUF, .len = 10 });
	sh->rx.off = 3;
	sh->back.tail = sh->back.head + 5;
	sh->tx.buf = 4;
	sh->tx.flush_len = 9;
	sh->tx.flush_off = 3;
	left_by_the_dead(&sh->lock);
	cr_assert_eq(rr_conn_hold(p.client.c, &l), RR_S_CARRIED);
	cr_assert_eq(l, &sh->lock);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_INTERNAL && sh->err == ECONNRESET && k.breaks == 1);
	cr_assert(rr_rx_is_empty(sh) && sh->rx.bytes == 0 && sh->rx.off == 0 && rr_handback_bytes(sh) == 0);
	cr_assert(sh->tx.buf == RR_BUF_NONE && sh->tx.flush_len == 0 && sh->tx.flush_off == 0);
	cr_assert_eq(rr_conn_hold(p.client.c, &(struct rr_lock *){ NULL }), -EDEADLK);
	cr_assert_eq(rr_lock_try(l), -EDEADLK, "this thread has it still");
	rr_lock_drop(l);
	cr_assert_eq(rr_conn_hold(p.client.c, &l), RR_S_CARRIED);
	rr_lock_drop(l);
}

Test(conn_anchor, a_thread_of_ours_that_gets_the_lock_of_the_dead_fails_the_connection)
{
	afresh();
	rr_share_hold(sh);
	cr_assert(rr_link_is_up(sh));
	rr_lock_drop(&sh->lock);
	left_by_the_dead(&sh->lock);
	rr_share_hold(sh);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_INTERNAL);
	rr_lock_drop(&sh->lock);
}
