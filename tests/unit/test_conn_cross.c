/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection that has not crossed yet, with a kernel and a provider that are played: what of the bytes on TCP is the
 * app's, when a direction crosses, and what an end or an error on TCP means. */
#include "tests/unit/conn_played.h"

static struct rr_share *sh;
static int fd;

/* The kernel's socket (the Makefile wraps these). */
static struct {
	uint8_t bytes[4096];	/* in its queue */
	size_t have;
	int rc;			/* what a read of nothing returns: 0 or -errno */
	short poll, wake;
	int so_error;
	ssize_t takes;		/* of a write, so many; or -errno */
	int sends, flags, breaks;
	size_t asked;
	bool no_info;
	int64_t unread;
	bool unwritable;
} k;

ssize_t __real_rr_queue_send(int at, const struct iovec *iov, int n, int flags);
ssize_t __wrap_rr_queue_send(int at, const struct iovec *iov, int n, int flags);
ssize_t __real_rr_queue_recv(int at, const struct iovec *iov, int n, size_t skip, size_t most, int flags);
ssize_t __wrap_rr_queue_recv(int at, const struct iovec *iov, int n, size_t skip, size_t most, int flags);
size_t __real_rr_queue_bytes(int at);
size_t __wrap_rr_queue_bytes(int at);
size_t __real_rr_queue_peek_at(int at, size_t off, uint8_t *buf, size_t len);
size_t __wrap_rr_queue_peek_at(int at, size_t off, uint8_t *buf, size_t len);
bool __real_rr_queue_info(int at, struct tcp_info *i);
bool __wrap_rr_queue_info(int at, struct tcp_info *i);
int64_t __real_rr_queue_unread(const struct tcp_info *i, const struct rr_track *in_, int at);
int64_t __wrap_rr_queue_unread(const struct tcp_info *i, const struct rr_track *in_, int at);
bool __real_rr_eng_writable(const struct rr_eng *e);
bool __wrap_rr_eng_writable(const struct rr_eng *e);

ssize_t __wrap_rr_queue_send(int at, const struct iovec *iov, int n, int flags)
{
	if (!fd || at != fd)
		return __real_rr_queue_send(at, iov, n, flags);
	k.sends++;
	k.flags = flags;
	return k.takes < 0 ? k.takes : rr_min(k.takes, (ssize_t)rr_iov_total(iov, n));
}

ssize_t __wrap_rr_queue_recv(int at, const struct iovec *iov, int n, size_t skip, size_t most, int flags)
{
	size_t got = 0;

	if (!fd || at != fd)
		return __real_rr_queue_recv(at, iov, n, skip, most, flags);
	k.asked = most;
	if (!k.have)
		return k.rc;
	for (int i = 0; i < n; i++)
		for (size_t b = 0; b < iov[i].iov_len; b++) {
			if (skip) {
				skip--;
				continue;
			}
			if (got == most || got == k.have)
				break;
			((uint8_t *)iov[i].iov_base)[b] = k.bytes[got++];
		}
	if (!(flags & MSG_PEEK)) {
		memmove(k.bytes, k.bytes + got, sizeof(k.bytes) - got);
		k.have -= got;
	}
	return (ssize_t)got;
}

size_t __wrap_rr_queue_bytes(int at)
{
	if (!fd || at != fd)
		return __real_rr_queue_bytes(at);
	return k.have;
}

size_t __wrap_rr_queue_peek_at(int at, size_t off, uint8_t *buf, size_t len)
{
	size_t n = off < k.have ? rr_min(len, k.have - off) : 0;

	if (!fd || at != fd)
		return __real_rr_queue_peek_at(at, off, buf, len);
	memcpy(buf, k.bytes + off, n);
	return n;
}

bool __wrap_rr_queue_info(int at, struct tcp_info *i)
{
	if (!fd || at != fd)
		return __real_rr_queue_info(at, i);
	(void)i;
	return !k.no_info;
}

int64_t __wrap_rr_queue_unread(const struct tcp_info *i, const struct rr_track *in_, int at)
{
	if (!fd || at != fd)
		return __real_rr_queue_unread(i, in_, at);
	cr_assert(i && in_ == &sh->rx.before);
	return k.unread;
}

bool __wrap_rr_eng_writable(const struct rr_eng *e)
{
	return !k.unwritable && __real_rr_eng_writable(e);
}

static struct rr_os os;

static int shown(struct pollfd *q, nfds_t n, int timeout)
{
	cr_assert_eq(timeout, 0, "nobody may wait here");
	return played_shows(q, n, fd, k.poll, k.wake);
}

static ssize_t peeks(int at, void *buf, size_t len, int flags)
{
	cr_assert(at == fd && flags == (MSG_PEEK | MSG_DONTWAIT));
	if (!k.have) {
		errno = k.rc ? -k.rc : EAGAIN;	/* of old */
		return k.rc ? -1 : 0;
	}
	memcpy(buf, k.bytes, rr_min(len, k.have));
	return (ssize_t)rr_min(len, k.have);
}

static int option(int at, int level, int name, void *val, socklen_t *len)
{
	if (at != fd || level != SOL_SOCKET || name != SO_ERROR)
		return getsockopt(at, level, name, val, len);
	memcpy(val, &k.so_error, sizeof(int));
	k.so_error = 0;
	return 0;
}

static int ends(int at, int how)
{
	k.breaks += at == fd;
	(void)how;
	return 0;
}

static void afresh(void)
{
	struct rr_conn c = { .fd = fd };

	memset(&k, 0, sizeof(k));
	k.rc = -EAGAIN;
	k.takes = 1 << 20;
	sh->link = RR_LINK_UP;
	sh->rx.end = RR_ENDS_NOT;
	sh->rx.way = RR_WAY_IN_RDMA;
	sh->tx.way = RR_WAY_OUT_RDMA;
	sh->rx.shut = false;
	sh->rx.most = 9;
	sh->rx.until = 0;
	sh->ep.connector = true;
	sh->err = 0;
	sh->hint = 0;
	pl.says = 0;
	rr_cross_begin(sh, &c);
}

static void begin(void)
{
	sh = play(true);
	fd = p.client.fd;
	os = *rr_os;
	os.poll = shown;
	os.recv = peeks;
	os.getsockopt = option;
	os.shutdown = ends;
	rr_os = &os;
	afresh();
}

TestSuite(conn_cross, .init = begin, .timeout = 60);

Test(conn_cross, both_directions_begin_by_tcp)
{
	struct rr_conn c = { .in.records = 4, .out.records = 5 };

	rr_cross_begin(sh, &c);
	cr_assert(sh->rx.before.records == 4 && sh->tx.before.records == 5 && sh->rx.most == 0);
	cr_assert(rr_tx_is_early(sh) && rr_rx_is_uncrossed(sh) && sh->hint == RR_HINT_EARLY);
}

Test(conn_cross, a_connection_may_stay_on_tcp_if_the_peer_need_not_help)
{
	for (int i = 0; i < 16; i++) {
		bool may = (i & 3) && i < 4;

		afresh();
		sh->ep.connector = i & 1;
		sh->link = i & 2 ? RR_LINK_LOST : RR_LINK_UP;
		if (i & 4)
			sh->tx.way = RR_WAY_OUT_RDMA;
		if (i & 8)
			sh->rx.way = RR_WAY_IN_CROSSING;
		sh->hint |= RR_HINT_AHEAD;
		cr_assert_eq(rr_cross_never(sh), may, "%d", i);
		cr_assert_eq(rr_tx_is_tcp(sh) && rr_rx_is_tcp(sh), may);
		if (!may)
			continue;
		cr_assert_eq(sh->hint, RR_HINT_IN);
		cr_assert_eq(reported(sh), i & 2 ? RR_R_PEER_CHOSE_TCP : RR_R_KERNEL_ONLY);
		cr_assert_eq(atomic_load(&sh->st->state), RR_CS_DRAINING);
	}
}

/* --- out ------------------------------------------------------------------------------------- */

Test(conn_cross, the_crossing_says_how_many_records_went)
{
	uint64_t crossings = sh->qp->count->v[RR_C_crossings];

	sh->tx.before.records = 0x12345;
	cr_assert_eq(rr_cross_now(sh), 0);
	cr_assert(pl.says == 1 && pl.said[0].imm == (RR_IMM_CROSS | 0x2345));
	cr_assert(rr_tx_is_rdma(sh) && sh->hint == (RR_HINT_EARLY | RR_HINT_AHEAD));
	cr_assert_eq(sh->qp->count->v[RR_C_crossings], crossings + 1);
	afresh();
	sh->tx.before.rm.in_record = true;
	cr_assert_eq(rr_cross_now(sh), -EAGAIN);
	cr_assert(pl.says == 0 && rr_tx_is_early(sh));
	sh->tx.before.rm.in_record = false;
	pl.on_say.first = -EAGAIN;
	cr_assert_eq(rr_cross_now(sh), -EAGAIN);
	pl.on_say.first = -EIO;
	cr_assert_eq(rr_cross_now(sh), -EIO);
	cr_assert(rr_tx_is_early(sh) && sh->hint == RR_HINT_EARLY);
	pl.on_say.first = 0;
	cr_assert_eq(rr_cross_now(sh), 0, "its completion is to come");
}

static ssize_t sends(size_t n)
{
	return rr_cross_send(sh, fd, &(struct iovec){ out, n }, 1, 5);
}

Test(conn_cross, a_record_crosses_if_all_is_well)
{
	size_t n = rr_test_call(out, 7, 100, 1);

	cr_assert_eq(sends(n), RR_CROSSED);
	cr_assert(rr_tx_is_rdma(sh) && k.sends == 0);
	for (int i = 0; i < 8; i++) {
		afresh();
		pl.on_say.first = 1;
		sh->ep.max_msg = 1 << 20;
		switch (i) {
		case 0: sh->tx.before.rm.have = 1; break;
		case 1: sh->ep.connector = false; break;
		case 2: k.unwritable = true; break;
		case 3: sh->ep.max_msg = (uint32_t)n - 5; break;
		case 4: k.poll = POLLERR; break;
		case 5: k.poll = POLLHUP; break;
		case 6: pl.on_say.first = -EAGAIN; break;
		case 7: k.takes = 10; break;
		}
		cr_assert_eq(sends(i == 7 ? 3 : n), i == 7 ? 3 : (ssize_t)n, "%d", i);
		cr_assert(rr_tx_is_early(sh) && k.sends == 1 && k.flags == 5);
		if (i > 0 && i < 7)
			cr_assert(sh->tx.before.records == 1 && sh->tx.before.bytes == n);
	}
	afresh();
	pl.on_say.first = 1;
	sh->ep.max_msg = (uint32_t)n - 4;
	cr_assert_eq(sends(4), RR_CROSSED, "the mark says it");
	afresh();
	sh->ep.connector = false;
	sh->rx.way = RR_WAY_IN_CROSSING;
	cr_assert_eq(sends(n), RR_CROSSED, "the server follows");
	/* What the kernel does not take is not counted. */
	afresh();
	k.unwritable = true;
	k.takes = 30;
	cr_assert_eq(sends(n), 30);
	cr_assert(sh->tx.before.bytes == 30 && sh->tx.before.records == 0);
	k.takes = -EAGAIN;
	cr_assert_eq(sends(n), -EAGAIN);
	cr_assert_eq(sh->tx.before.bytes, 30);
}

Test(conn_cross, who_cannot_write_any_more_is_told)
{
	size_t n = rr_test_call(out, 7, 100, 1);

	sh->link = RR_LINK_FAILED;
	cr_assert_eq(sends(n), -EPIPE);
	afresh();
	sh->link = RR_LINK_LOST;
	cr_assert_eq(sends(n), RR_CONN_KERNEL);
	cr_assert(rr_tx_is_tcp(sh));
	afresh();
	sh->link = RR_LINK_LOST;
	sh->rx.way = RR_WAY_IN_CROSSING;
	cr_assert_eq(sends(n), (ssize_t)n, "by TCP");
	cr_assert(rr_tx_is_early(sh));
	afresh();
	sh->tx.way = RR_WAY_OUT_EARLY_SHUT;
	cr_assert_eq(sends(n), -EPIPE);
	k.so_error = ECONNRESET;
	cr_assert_eq(sends(n), -ECONNRESET);
	cr_assert(sh->rx.end == RR_ENDS_RESET && k.sends == 0);
	cr_assert_eq(sends(n), -EPIPE);
}

/* --- in --------------------------------------------------------------------------------------- */

/* Puts records of these lengths, marks included, into the kernel's queue. */
static size_t come(unsigned records, size_t each)
{
	for (unsigned i = 0; i < records; i++) {
		rr_test_reply(k.bytes + k.have, i, each - 28, i);
		k.have += each;
	}
	return k.have;
}

static void mark_comes(void)
{
	rr_nego_put_mark(k.bytes + k.have, sh->token, 0);
	k.have += RR_MARK_LEN;
}

static uint8_t got[4096];
static size_t done;

static ssize_t reads(size_t n, int flags)
{
	return rr_cross_recv(sh, fd, &(struct iovec){ got, n }, 1, flags, &done);
}

Test(conn_cross, what_comes_by_tcp_is_read_record_by_record)
{
	static const size_t steps[] = { 1, 3, 4, 5, 40, 99, 100, 101, 150, 300, 1000 };
	static uint8_t want[400];

	for (unsigned s = 0; s < rr_array_size(steps); s++)
		for (int crosses = 0; crosses < 2; crosses++) {
			size_t at = 0;

			afresh();
			come(3, 100);
			memcpy(want, k.bytes, 300);
			if (crosses) {
				mark_comes();
				rr_cross_told(sh, RR_IMM_CROSS | 3);
			}
			while (at < 300) {
				size_t n = rr_min(steps[s], 300 - at);
				ssize_t rc;

				cr_assert_eq(reads(steps[s], MSG_PEEK), crosses ? RR_CROSSED : (ssize_t)n, "%zu at %zu", n, at);
				cr_assert(done == n && !memcmp(got, want + at, n));
				rc = reads(steps[s], 0);
				cr_assert_gt(k.asked, 0, "who has what was asked for asks for nothing more");
				cr_assert_eq(done, n, "%zu of %zu at %zu", done, n, at);
				cr_assert_eq(rc, crosses && at + n == 300 ? RR_CROSSED : (ssize_t)n);
				cr_assert_eq(memcmp(got, want + at, n), 0);
				at += n;
				cr_assert_eq(sh->rx.before.records, at / 100);
			}
			cr_assert_eq(k.have, crosses ? RR_MARK_LEN : 0);
			cr_assert_eq(sh->rx.way, crosses ? RR_WAY_IN_RDMA : RR_WAY_IN_EARLY);
			if (crosses)
				cr_assert(!(sh->hint & (RR_HINT_EARLY | RR_HINT_AHEAD)) && sh->hint & RR_HINT_IN);
			else
				cr_assert_eq(reads(10, 0), -EAGAIN);
		}
}

Test(conn_cross, a_read_that_ends_where_the_direction_crosses_has_its_bytes_alone)
{
	for (size_t n = 299; n <= 1000; n = n < 301 ? n + 1 : n + 699) {
		struct iovec v = { got, n };

		afresh();
		come(3, 100);
		mark_comes();
		rr_cross_told(sh, RR_IMM_CROSS | 3);
		cr_assert_eq(rr_stream_recv(sh, fd, &v, 1, MSG_PEEK), (ssize_t)rr_min(n, (size_t)300));
		cr_assert_eq(rr_stream_recv(sh, fd, &v, 1, 0), (ssize_t)rr_min(n, (size_t)300));
		cr_assert_eq(sh->rx.way, n < 300 ? RR_WAY_IN_CROSSING : RR_WAY_IN_RDMA);
	}
}

/* What looks like the place of the mark may be the app's still. */
Test(conn_cross, before_the_end_mark_all_bytes_are_the_apps)
{
	come(3, 100);
	rr_cross_told(sh, RR_IMM_CROSS | 3);
	cr_assert_eq(sh->rx.way, RR_WAY_IN_CROSSING);
	cr_assert(reads(1000, MSG_PEEK) == RR_CROSSED && done == 300);
	k.have = RR_MARK_LEN - 1;
	cr_assert(reads(1000, MSG_PEEK) == RR_CROSSED && done == RR_MARK_LEN - 1);
	k.have = RR_MARK_LEN;
	cr_assert(reads(1000, MSG_PEEK) == RR_CROSSED && done == RR_MARK_LEN);
	mark_comes();
	cr_assert(reads(1000, MSG_PEEK) == RR_CROSSED && done == RR_MARK_LEN);
}

/* Between hosts the announcement may come after the end mark. */
Test(conn_cross, an_end_mark_is_not_the_apps)
{
	come(1, 100);
	mark_comes();
	cr_assert_eq(reads(1000, 0), 100);
	cr_assert_eq(k.have, RR_MARK_LEN);
	cr_assert_eq(reads(1000, 0), -EAGAIN);
	k.have = 7;	/* the first of its bytes */
	cr_assert_eq(reads(1000, 0), -EAGAIN);
	cr_assert_eq(reads(1000, MSG_PEEK), -EAGAIN);
	cr_assert_eq(done, 0);
	k.have = 1;
	cr_assert_eq(reads(1000, 0), -EAGAIN);
	cr_assert_eq(sh->rx.most, 0);
	k.have = RR_MARK_LEN;
	pl.wc[0] = (struct rr_wc){ .op = RR_WC_RECV, .has_imm = true, .imm = RR_IMM_CROSS | 1 };
	pl.batch[0] = 0;
	pl.batch[1] = 1;
	pl.batches = 2;
	pl.polls = 0;
	cr_assert_eq(reads(1000, 0), RR_CROSSED);
	cr_assert(done == 0 && k.have == RR_MARK_LEN && sh->rx.way == RR_WAY_IN_RDMA);
}

Test(conn_cross, before_its_last_record_the_direction_has_not_crossed)
{
	rr_cross_told(sh, RR_IMM_CROSS | 2);
	come(1, 100);
	cr_assert_eq(reads(1000, 0), 100);
	cr_assert_eq(sh->rx.way, RR_WAY_IN_CROSSING);
	cr_assert_eq(reads(1000, 0), -EAGAIN);
	come(1, 100);
	cr_assert_eq(reads(50, 0), 50);
	cr_assert_eq(sh->rx.way, RR_WAY_IN_CROSSING);
	cr_assert_eq(reads(1000, 0), RR_CROSSED);
	cr_assert_eq(done, 50);
}

Test(conn_cross, ends_and_errors_are_noted)
{
	k.rc = 0;
	cr_assert_eq(reads(10, 0), 0);
	cr_assert_eq(sh->rx.end, RR_ENDS_FIN);
	afresh();
	k.rc = -EINTR;
	cr_assert_eq(reads(10, 0), -EINTR);
	cr_assert_eq(sh->rx.end, RR_ENDS_NOT);
	k.rc = -ETIMEDOUT;
	cr_assert_eq(reads(10, 0), -ETIMEDOUT);
	cr_assert_eq(sh->rx.end, RR_ENDS_RESET);
	afresh();
	sh->err = ECONNRESET;	/* which was taken from the kernel */
	cr_assert_eq(reads(10, 0), -ECONNRESET);
	cr_assert_eq(reads(10, 0), -EAGAIN);
	sh->err = EPIPE;
	cr_assert_eq(reads(10, 0), -EAGAIN);
	cr_assert_eq(sh->err, EPIPE);
	/* What came before is told first. */
	afresh();
	come(1, 100);
	k.rc = 0;
	cr_assert_eq(reads(1000, 0), 100);
	cr_assert_eq(sh->rx.end, RR_ENDS_NOT);
	/* A link that is lost: the direction never crosses. */
	afresh();
	sh->link = RR_LINK_LOST;
	cr_assert_eq(reads(10, 0), RR_CROSSED);
	cr_assert(rr_rx_is_tcp(sh));
	afresh();
	sh->link = RR_LINK_LOST;
	sh->tx.way = RR_WAY_OUT_RDMA;
	sh->lost_at = 1;
	cr_assert_eq(reads(10, 0), -ECONNRESET);
	cr_assert(rr_link_is_dead(sh));
}

Test(conn_cross, a_read_of_nothing_asks_for_the_end)
{
	come(1, 100);
	cr_assert_eq(reads(0, 0), 0);
	cr_assert(k.have == 100 && sh->rx.end == RR_ENDS_NOT);
	k.have = 0;
	cr_assert_eq(reads(0, 0), -EAGAIN);
	k.rc = 0;
	cr_assert_eq(reads(0, 0), 0);
	cr_assert_eq(sh->rx.end, RR_ENDS_FIN);
}

/* --- readiness ---------------------------------------------------------------------------------- */

#define IN	(POLLIN | POLLRDNORM)

Test(conn_cross, readiness_is_the_kernels_without_what_is_ours)
{
	k.poll = IN | POLLPRI;
	come(1, 100);
	cr_assert_eq(rr_cross_in_bits(sh, fd, k.poll), IN | POLLPRI);
	cr_assert_eq(rr_cross_inq(sh, fd), 100);
	k.have = 0;
	k.poll = 0;
	cr_assert_eq(rr_cross_in_bits(sh, fd, k.poll), 0);
	cr_assert_eq(rr_cross_inq(sh, fd), 0);
	afresh();
	mark_comes();
	k.poll = IN;
	cr_assert_eq(rr_cross_in_bits(sh, fd, k.poll), 0, "an end mark alone");
	k.poll = IN | POLLRDHUP;
	cr_assert_eq(rr_cross_in_bits(sh, fd, k.poll), IN | POLLRDHUP);
	k.poll = IN | POLLHUP;
	cr_assert_eq(rr_cross_in_bits(sh, fd, k.poll), IN | POLLHUP);
	k.poll = IN | POLLERR;
	cr_assert_eq(rr_cross_in_bits(sh, fd, k.poll), IN, "the error is looked for elsewhere");
	rr_cross_told(sh, RR_IMM_CROSS);
	cr_assert_eq(rr_cross_in_bits(sh, fd, k.poll), 0);
	cr_assert_eq(sh->rx.way, RR_WAY_IN_RDMA);
	afresh();
	rr_cross_told(sh, RR_IMM_CROSS);
	cr_assert_eq(rr_cross_inq(sh, fd), RR_CROSSED);
}

Test(conn_cross, bytes_of_both_ways_count_for_the_low_water_mark)
{
	rr_cross_told(sh, RR_IMM_CROSS | 1);
	come(1, 100);
	mark_comes();
	cr_assert_eq(rr_cross_inq(sh, fd), 100);
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_RECV, .ptr = pl.peers, .len = 46 });
	cr_assert_eq(rr_cross_inq(sh, fd), 150);
	sh->rx.lowat = 150;
	cr_assert_eq(rr_cross_in_bits(sh, fd, k.poll), IN);
	sh->rx.lowat = 151;
	cr_assert_eq(rr_cross_in_bits(sh, fd, k.poll), 0);
	sh->rx.lowat = 1;
	cr_assert_eq(rr_cross_in_bits(sh, fd, k.poll), 0, "the kernel says it");
	sh->rx.lowat = 150;
	sh->rx.way = RR_WAY_IN_EARLY;
	cr_assert_eq(rr_cross_in_bits(sh, fd, k.poll), 0);
	cr_assert_eq(rr_cross_inq(sh, fd), 100 + (int)RR_MARK_LEN, "before the crossing no mark can come");
	sh->rx.lowat = 1;
}

/* --- loss ---------------------------------------------------------------------------------------- */

Test(conn_cross, an_error_may_be_our_own_doing)
{
	struct { enum rr_way_out tx; enum rr_way_in rx; bool shut, fin, yes; } of[] = {
		{ RR_WAY_OUT_RDMA, RR_WAY_IN_CROSSING, true, true, false },
		{ RR_WAY_OUT_EARLY_SHUT, RR_WAY_IN_EARLY, true, true, false },
		{ RR_WAY_OUT_EARLY_SHUT, RR_WAY_IN_CROSSING, true, false, true },
		{ RR_WAY_OUT_EARLY_SHUT, RR_WAY_IN_CROSSING, false, true, false },
		{ RR_WAY_OUT_RDMA_SHUT, RR_WAY_IN_EARLY, false, true, true },
		{ RR_WAY_OUT_RDMA_SHUT, RR_WAY_IN_EARLY, false, false, false },
	};

	for (unsigned i = 0; i < rr_array_size(of); i++) {
		afresh();
		sh->tx.way = of[i].tx;
		sh->rx.way = of[i].rx;
		sh->rx.shut = of[i].shut;
		k.unread = of[i].fin;
		k.so_error = ETIMEDOUT;
		cr_assert_eq(rr_cross_is_ours(sh, fd), of[i].yes, "%u", i);
		rr_cross_error(sh, fd);
		cr_assert_eq(sh->err, of[i].yes ? 0 : ETIMEDOUT);
		cr_assert_eq(sh->rx.end, of[i].yes ? RR_ENDS_NOT : RR_ENDS_RESET);
	}
	afresh();
	sh->tx.way = RR_WAY_OUT_RDMA_SHUT;
	k.no_info = true;
	cr_assert(rr_cross_is_ours(sh, fd), "if it cannot be known");
	rr_cross_error(sh, fd);
	cr_assert(sh->err == 0 && sh->rx.end == RR_ENDS_NOT, "there is none");
	afresh();
	k.so_error = ETIMEDOUT;
	sh->err = EPIPE;
	rr_cross_error(sh, fd);
	cr_assert(sh->err == EPIPE && sh->rx.end == RR_ENDS_RESET);
}

Test(conn_cross, the_end_of_a_peer_is_looked_for)
{
	sh->link = RR_LINK_FAILED;
	k.wake = POLLRDHUP;
	pl.drains = 0;
	rr_cross_check(sh, fd, 1);
	cr_assert_eq(pl.drains, 0);
	afresh();
	k.wake = POLLRDHUP;
	rr_cross_check(sh, fd, 1);
	cr_assert(pl.drains == 1 && rr_link_is_up(sh) && rr_tx_is_early(sh));
	pl.drained = -ECONNRESET;
	rr_cross_check(sh, fd, 1);
	cr_assert(rr_link_is_lost(sh) && rr_tx_is_tcp(sh) && rr_rx_is_tcp(sh));
	/* An error is TCP's to tell while our direction is TCP's. */
	afresh();
	k.poll = POLLERR;
	k.so_error = ETIMEDOUT;
	rr_cross_check(sh, fd, 1);
	cr_assert_eq(sh->err, 0);
	sh->tx.way = RR_WAY_OUT_RDMA;
	rr_cross_check(sh, fd, 1);
	cr_assert_eq(sh->err, ETIMEDOUT);
}

Test(conn_cross, who_has_crossed_and_hears_nothing_has_lost_the_connection)
{
	for (int i = 0; i < 4; i++) {
		afresh();
		sh->link = RR_LINK_LOST;
		sh->lost_at = 1000;
		sh->rx.way = RR_WAY_IN_CROSSING;
		sh->tx.way = i == 0 ? RR_WAY_OUT_EARLY : i == 1 ? RR_WAY_OUT_TCP : RR_WAY_OUT_RDMA;
		k.poll = i == 2 ? POLLIN : 0;
		rr_cross_check(sh, fd, 1000 + 100 * RR_MSEC);
		cr_assert_not(rr_link_is_dead(sh));
		rr_cross_check(sh, fd, 1001 + 100 * RR_MSEC);
		cr_assert_eq(rr_link_is_dead(sh), i == 3, "%d", i);
		cr_assert_eq(k.breaks, i == 3);
		cr_assert_eq(sh->link, i == 2 ? RR_LINK_MORE : i == 3 ? RR_LINK_FAILED_LOST : RR_LINK_LOST);
	}
	cr_assert(sh->err == ECONNRESET && reported(sh) == RR_R_PEER_DIED);
}
