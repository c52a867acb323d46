/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the app's bytes and messages: which records go from the app's memory, what becomes of those that cannot go
 * now, and how what has arrived is read, in pieces of every size. Provider and engine are played. */
#include "tests/unit/conn_played.h"

/* --- the engine (the Makefile wraps these) --- */

static struct {
	bool on;		/* else the real one */
	int sends;		/* calls of rr_eng_send() */
	int says[8];		/* … and what they return */
	struct rr_eng_out out;	/* … the last of them */
	rr_time now;
	uint8_t head[64];
	int plains, takes;
	bool plain, full;
	uint32_t longest;	/* of short messages */
	int shorts, short_until; /* … until so many questions */
	uint32_t type;
} en;
static int looked;	/* at the anchor */

bool __real_rr_eng_send_plain(struct rr_eng *e, const struct rr_eng_out *o, rr_time now, uint8_t *hdr);
bool __wrap_rr_eng_send_plain(struct rr_eng *e, const struct rr_eng_out *o, rr_time now, uint8_t *hdr);
int __real_rr_eng_send(struct rr_eng *e, const struct rr_eng_out *o, rr_time now);
int __wrap_rr_eng_send(struct rr_eng *e, const struct rr_eng_out *o, rr_time now);
bool __real_rr_eng_is_short(const struct rr_eng *e, uint32_t type, uint32_t len);
bool __wrap_rr_eng_is_short(const struct rr_eng *e, uint32_t type, uint32_t len);
bool __real_rr_eng_would_take(struct rr_eng *e, uint32_t type, rr_time now);
bool __wrap_rr_eng_would_take(struct rr_eng *e, uint32_t type, rr_time now);
void __real_rr_anchor_check(struct rr_share *s, int fd, rr_time now);
void __wrap_rr_anchor_check(struct rr_share *s, int fd, rr_time now);

bool __wrap_rr_eng_send_plain(struct rr_eng *e, const struct rr_eng_out *o, rr_time now, uint8_t *hdr)
{
	if (!en.on)
		return __real_rr_eng_send_plain(e, o, now, hdr);
	en.plains++;
	return en.plain;
}

int __wrap_rr_eng_send(struct rr_eng *e, const struct rr_eng_out *o, rr_time now)
{
	if (!en.on)
		return __real_rr_eng_send(e, o, now);
	en.out = *o;
	en.now = now;
	memcpy(en.head, o->head, rr_min(o->have, 64u));
	return en.says[en.sends++];
}

bool __wrap_rr_eng_is_short(const struct rr_eng *e, uint32_t type, uint32_t len)
{
	if (!en.on)
		return __real_rr_eng_is_short(e, type, len);
	return en.shorts++ < en.short_until && len <= en.longest;
}

bool __wrap_rr_eng_would_take(struct rr_eng *e, uint32_t type, rr_time now)
{
	if (!en.on)
		return __real_rr_eng_would_take(e, type, now);
	en.takes++;
	en.type = type;
	return !en.full;
}

void __wrap_rr_anchor_check(struct rr_share *s, int fd, rr_time now)
{
	looked++;
	__real_rr_anchor_check(s, fd, now);
}

TestSuite(conn_stream, .timeout = 60);

static struct rr_share *sh;
static int fd;

static void begin(void)
{
	sh = play(true);
	fd = p.client.fd;
	memset(&en, 0, sizeof(en));
	en.longest = 4000;
	en.short_until = INT32_MAX;
}

static void again(void)
{
	rr_pair_close(&p);
	memset(&pl, 0, sizeof(pl));
	en.on = false;
	begin();
}

static ssize_t writes(const void *buf, size_t n)
{
	return rr_stream_send(sh, fd, &(struct iovec){ (void *)(uintptr_t)buf, n }, 1);
}

/* --- out ----------------------------------------------------------------------------------- */

/* A copy of these bytes, with others behind it. */
static struct iovec apart(unsigned int i, const uint8_t *bytes, size_t n)
{
	static uint8_t at[3][128];

	memset(at[i], 0xee, sizeof(at[i]));
	memcpy(at[i], bytes, n);
	return (struct iovec){ at[i], n };
}

Test(conn_stream, a_short_record_goes_from_the_apps_memory_however_it_lies_there)
{
	size_t n;

	begin();
	n = rr_test_call(out, 9, 60, 1);
	for (size_t a = 0; a <= n; a++)
		for (size_t b = a; b <= n; b += 13) {
			struct iovec iov[] = { apart(0, out, a), { NULL, 0 }, apart(1, out + a, b - a),
					       apart(2, out + b, n - b) };
			uint64_t records = sh->tx.records;

			pl.sends = 0;
			cr_assert_eq(rr_stream_send(sh, fd, iov, 4), (ssize_t)n, "%zu %zu", a, b);
			cr_assert(pl.sends == 1 && sh->tx.buf == RR_BUF_NONE);
			cr_assert_eq(pl.sent_len, n - 4 + RR_ENG_PLAIN_HDR);
			cr_assert_eq(memcmp(pl.sent + RR_ENG_PLAIN_HDR, out + 4, n - 4), 0);
			cr_assert_eq(sh->tx.records, records + 1);
			if (records > 15) {	/* there are so many credits */
				again();
				rr_test_call(out, 9, 60, 1);
			}
		}
}

/* One piece for the header is there already. */
Test(conn_stream, in_many_pieces_it_is_collected)
{
	struct iovec iov[20];
	size_t n;

	begin();
	for (int pieces = 15; pieces <= 18; pieces++) {
		again();
		en.on = true;
		n = rr_test_call(out, 9, 60, 1);
		iov[0] = (struct iovec){ out, 4 };
		for (int i = 1; i < pieces; i++)
			iov[i] = (struct iovec){ out + 3 + i, 1 };
		iov[pieces] = (struct iovec){ out + 3 + pieces, n - 3 - (size_t)pieces };
		/* The mark is none of the message, so it lies in `pieces` pieces. */
		cr_assert_eq(rr_stream_send(sh, fd, iov, pieces + 1), (ssize_t)n);
		cr_assert_eq(en.sends, 1);
		cr_assert_eq(en.out.len, n - 4);
		cr_assert_eq(memcmp(en.head, out + 4, rr_min(en.out.have, 60u)), 0);
		cr_assert_eq(en.out.buf == RR_BUF_APP, pieces <= 16, "%d", pieces);
		cr_assert_eq(en.plains, pieces <= 16);
		cr_assert_eq(en.out.rpc.xid, 9);
	}
}

Test(conn_stream, what_the_engine_does_not_take_is_tried_twice_more_after_a_look)
{
	uint64_t stalls;
	size_t n;

	begin();
	en.on = true;
	n = rr_test_call(out, 9, 60, 1);
	stalls = sh->qp->count->v[RR_C_credit_stalls];
	en.says[0] = en.says[1] = -EAGAIN;
	sh->active = 4711;
	cr_assert_eq(writes(out, n), (ssize_t)n);
	cr_assert(en.sends == 3 && pl.polls == 2 && en.plains == 1);
	cr_assert_neq(en.now, 4711);
	cr_assert_eq(sh->qp->count->v[RR_C_credit_stalls], stalls);
	en.says[3] = en.says[4] = en.says[5] = en.says[6] = -EAGAIN;
	sh->tx.records = 50;
	cr_assert_eq(writes(out, n), -EAGAIN);
	cr_assert_eq(en.sends, 6);
	cr_assert_eq(sh->qp->count->v[RR_C_credit_stalls], stalls + 1);
	cr_assert(sh->tx.records == 50 && sh->tx.buf == RR_BUF_NONE && rr_rm_at_boundary(&sh->tx.rm));
}

Test(conn_stream, a_connection_that_fails_meanwhile_takes_nothing_more)
{
	size_t n;

	begin();
	en.on = true;
	n = rr_test_call(out, 9, 60, 1);
	en.says[0] = -EAGAIN;
	pl.batch[0] = -EIO;
	pl.batches = 1;
	cr_assert_eq(writes(out, n), -ECONNRESET);
	cr_assert_eq(en.sends, 1, "the engine is not asked again");
	cr_assert(rr_link_is_dead(sh) && sh->err == 0, "and that is told once");
	cr_assert_eq(writes(out, n), -EPIPE);
}

/* Its header has become longer, for example. */
Test(conn_stream, a_message_that_is_short_no_more_is_collected)
{
	size_t n;

	begin();
	en.on = true;
	n = rr_test_call(out, 9, 60, 1);
	en.says[0] = -EAGAIN;
	en.short_until = 1;
	cr_assert_eq(writes(out, n), (ssize_t)n);
	cr_assert(en.sends == 2 && en.takes == 1 && en.out.buf != RR_BUF_APP);
	cr_assert_eq(sh->tx.buf, RR_BUF_NONE);
}

Test(conn_stream, the_engines_clock_is_that_of_the_last_message_for_short_ones)
{
	size_t n;

	begin();
	en.on = true;
	sh->active = 4711;
	n = rr_test_call(out, 9, 60, 1);
	cr_assert_eq(writes(out, n), (ssize_t)n);
	cr_assert_eq(en.now, 4711);
	n = rr_test_call(out, 9, 60, 1);
	cr_assert_eq(writes(out, 20), 20);
	cr_assert_eq(writes(out + 20, n - 20), (ssize_t)n - 20);
	cr_assert(en.sends == 2 && en.now == 4711, "short, though it was collected");
	n = rr_test_call(out, 9, 9000, 1);
	cr_assert_eq(writes(out, n), (ssize_t)n);
	cr_assert(en.sends == 3 && en.now != 4711);
}

Test(conn_stream, an_idle_connection_that_sends_is_idle_no_more)
{
	size_t n;

	begin();
	n = rr_test_call(out, 9, 60, 1);
	sh->trimmed = true;
	cr_assert_eq(writes(out, n), (ssize_t)n);
	cr_assert_not(sh->trimmed);
	en.on = true;
	sh->trimmed = true;
	cr_assert_eq(writes(out, n), (ssize_t)n);
	cr_assert_not(sh->trimmed);
}

Test(conn_stream, a_record_is_begun_only_if_it_can_end)
{
	size_t n;

	begin();
	en.on = true;
	en.full = true;
	n = rr_test_call(out, 9, 9000, 1);
	cr_assert_eq(writes(out, n), -EAGAIN);
	cr_assert(en.takes == 2 && en.type == RR_RPC_CALL && pl.polls == 1 && sh->tx.buf == RR_BUF_NONE);
	n = rr_test_reply(out, 9, 9000, 1);
	en.takes = 0;
	cr_assert_eq(writes(out, n), -EAGAIN);
	cr_assert(en.takes == 2 && en.type == RR_RPC_REPLY);
	cr_assert_eq(writes(out, 12), -EAGAIN);
	cr_assert_eq(en.type, RR_RPC_REPLY);
	cr_assert_eq(writes(out, 11), -EAGAIN);
	cr_assert_eq(en.type, RR_RPC_CALL, "a client's");
	sh->ep.connector = false;
	cr_assert_eq(writes(out, 11), -EAGAIN);
	cr_assert_eq(en.type, RR_RPC_REPLY, "a server's");
	en.full = false;
	en.takes = 0;
	cr_assert_eq(writes(out, 3), 3);
	cr_assert_eq(en.takes, 1);
	en.full = true;
	cr_assert_eq(writes(out + 3, 10), 10, "what is begun goes on");
	cr_assert_eq(en.takes, 1);
	cr_assert(sh->tx.buf != RR_BUF_NONE && sh->tx.len == 9);
}

Test(conn_stream, bytes_that_are_not_taken_are_the_apps_again)
{
	size_t n;

	begin();
	en.on = true;
	n = rr_test_call(out, 9, 9000, 1);
	en.says[0] = en.says[1] = en.says[2] = -EAGAIN;
	cr_assert_eq(writes(out, n), -EAGAIN);
	cr_assert(sh->tx.buf == RR_BUF_NONE && sh->tx.len == 0 && rr_rm_at_boundary(&sh->tx.rm) && en.sends == 3);
	cr_assert_eq(sh->pool.used, 0);
	/* Within a fragment whose mark went before, the room stays. */
	cr_assert_eq(writes(out, 4), 4);
	cr_assert_neq(sh->tx.buf, RR_BUF_NONE);
	en.says[3] = en.says[4] = en.says[5] = -EAGAIN;
	cr_assert_eq(writes(out + 4, n - 4), -EAGAIN);
	cr_assert(sh->tx.buf != RR_BUF_NONE && sh->tx.len == 0 && sh->tx.rm.left == n - 4);
	/* Of two records the first goes. */
	cr_assert_eq(writes(out + 4, n - 4), (ssize_t)n - 4);
	cr_assert_eq(en.out.len, n - 4);
	cr_assert_eq(sh->tx.buf, RR_BUF_NONE);
	memcpy(out + n, out, n);
	en.sends = 0;
	en.says[0] = 0;
	en.says[1] = en.says[2] = en.says[3] = -EAGAIN;
	cr_assert_eq(writes(out, 2 * n), (ssize_t)n);
	cr_assert_eq(en.sends, 4);
}

Test(conn_stream, a_record_in_pieces_is_put_together)
{
	size_t n;

	begin();
	for (size_t step = 1; step < 60; step += 7) {
		n = rr_test_call(out, 9, 60, 1);
		pl.sends = 0;
		for (size_t at = 0; at < n; at += step) {
			cr_assert_eq(pl.sends, 0);
			cr_assert_eq(writes(out + at, rr_min(step, n - at)), (ssize_t)rr_min(step, n - at));
		}
		cr_assert(pl.sends == 1 && memcmp(pl.sent + pl.sent_len - (n - 4), out + 4, n - 4) == 0);
	}
}

Test(conn_stream, copies_are_counted_and_long_ones_told_of)
{
	uint64_t copied;
	uint32_t moved;
	size_t n;

	begin();
	en.on = true;
	n = rr_test_call(out, 9, 40000, 1);
	moved = sh->moved;
	copied = sh->qp->count->v[RR_C_copied];
	cr_assert_eq(writes(out, 4 + 16383), 4 + 16383);
	cr_assert_eq(sh->moved, moved);
	cr_assert_eq(writes(out + 4 + 16383, 16384), 16384);
	cr_assert_eq(sh->moved, moved + 1);
	cr_assert_eq(writes(out + 4 + 16383 + 16384, n - 4 - 16383 - 16384), (ssize_t)n - 4 - 16383 - 16384);
	cr_assert_eq(sh->qp->count->v[RR_C_copied], copied + n - 4);
}

Test(conn_stream, room_that_cannot_be_had_is_remembered)
{
	int64_t b[2000];
	int had = 0;
	size_t n;

	begin();
	en.on = true;
	n = rr_test_call(out, 9, 9000, 1);
	cr_assert_eq(writes(out, 3), 3);
	for (size_t len = 1 << 20; len; len /= 2)
		while (had < 1000 && (b[had] = rr_pool_alloc(&sh->pool, len)) >= 0)
			had++;
	cr_assert_eq(writes(out + 3, 1), -EAGAIN);
	cr_assert_eq(sh->tx.want, n - 4);
	cr_assert_eq(sh->tx.rm.have, 3, "the mark's last byte is the app's");
	cr_assert_eq(pl.polls, 1, "it has looked for more");
	while (had)
		rr_pool_free(&sh->pool, (uint32_t)b[--had]);
	cr_assert_eq(writes(out + 3, 1), 1);
	cr_assert(sh->tx.want == 0 && sh->tx.rm.left == n - 4);
}

/* The longest message is sent, one that is longer goes by TCP. */
Test(conn_stream, the_size_limit_is_the_limit)
{
	uint32_t longest;
	size_t n;

	begin();
	en.on = true;
	sh->ep.max_msg = longest = 50000;
	n = rr_test_call(out, 9, longest - 40, 1);
	cr_assert_eq(writes(out, n), (ssize_t)n);
	cr_assert(en.sends == 1 && rr_tx_is_rdma(sh));
	n = rr_test_call(out, 9, longest - 39, 1);
	cr_assert_eq(writes(out, n), RR_CONN_KERNEL);
	cr_assert(rr_tx_is_tcp(sh) && en.sends == 1 && pl.says == 1 && pl.said[0].imm == RR_IMM_HATCH);
	cr_assert_eq(reported(sh), RR_R_HATCH);
}

Test(conn_stream, a_hatch_that_cannot_open_yet_is_waited_for)
{
	size_t n;

	begin();
	en.on = true;
	sh->ep.max_msg = 50000;
	pl.on_say.first = -EAGAIN;
	n = rr_test_call(out, 9, 60000, 1);
	cr_assert_eq(writes(out, n), -EAGAIN);
	cr_assert(rr_tx_is_rdma(sh) && rr_rm_at_boundary(&sh->tx.rm));
	en.says[0] = -EMSGSIZE;
	n = rr_test_call(out, 9, 60, 1);
	cr_assert_eq(writes(out, n), -EAGAIN);
	pl.on_say.first = 0;
	en.sends = 0;
	cr_assert_eq(writes(out, n), RR_CONN_KERNEL);
	cr_assert(rr_tx_is_tcp(sh));
}

/* --- out, when something is unusual --------------------------------------------------------- */

Test(conn_stream, who_writes_to_nobody_is_told_the_second_time)
{
	size_t n;

	begin();
	n = rr_test_call(out, 9, 60, 1);
	sh->link = RR_LINK_LOST;
	sh->lost_at = rr_now_coarse();
	cr_assert_eq(writes(out, n), -EAGAIN, "the anchor will tell");
	cr_assert_eq(looked, 1);
	sh->rx.end = RR_ENDS_FIN;
	cr_assert_eq(writes(out, 0), 0);
	cr_assert_eq(sh->link, RR_LINK_LOST);
	cr_assert_eq(writes(out, n), (ssize_t)n);
	cr_assert_eq(sh->link, RR_LINK_VOID);
	cr_assert_eq(writes(out, n), -EPIPE);
	sh->err = ETIMEDOUT;
	cr_assert_eq(writes(out, n), -ETIMEDOUT);
	cr_assert_eq(writes(out, n), -EPIPE, "once");
	cr_assert_eq(pl.sends, 0);
}

Test(conn_stream, who_may_not_write_is_told)
{
	size_t n;

	begin();
	n = rr_test_call(out, 9, 60, 1);
	sh->tx.way = RR_WAY_OUT_RDMA_SHUT;
	cr_assert_eq(writes(out, n), -EPIPE);
	sh->tx.way = RR_WAY_OUT_RDMA;
	sh->rx.end = RR_ENDS_RESET;
	cr_assert_eq(writes(out, n), -EPIPE);
	sh->rx.end = RR_ENDS_NOT;
	sh->link = RR_LINK_FAILED;
	cr_assert_eq(writes(out, n), -EPIPE);
	sh->err = ECONNRESET;
	cr_assert_eq(writes(out, n), -ECONNRESET);
	sh->link = RR_LINK_UP;
	sh->err = ECONNRESET;
	cr_assert_eq(writes(out, n), -ECONNRESET);
	cr_assert_eq(writes(out, n), (ssize_t)n);
	sh->tx.way = RR_WAY_OUT_TCP;
	cr_assert_eq(writes(out, n), RR_CONN_KERNEL);
	cr_assert_eq(pl.sends, 1);
	sh->tx.way = RR_WAY_OUT_RDMA;
	sh->called_back = true;
	cr_assert_eq(writes(out, n), RR_CONN_KERNEL);
	cr_assert(rr_tx_is_tcp(sh) && !sh->called_back);
}

static struct rr_os os;
static int errors_taken;

static int shows_error(struct pollfd *q, nfds_t n, int timeout)
{
	(void)timeout;
	for (nfds_t i = 0; i < n; i++)
		q[i].revents = POLLERR;
	return (int)n;
}

static int tells_error(int at, int level, int name, void *val, socklen_t *len)
{
	if (level != SOL_SOCKET || name != SO_ERROR)
		return getsockopt(at, level, name, val, len);
	errors_taken++;
	memcpy(val, &(int){ ECONNRESET }, sizeof(int));
	return 0;
}

/* The kernel's error is the app's while what comes is still the kernel's. */
Test(conn_stream, an_error_of_the_kernels_is_told_to_writers_before_what_comes_has_crossed)
{
	size_t n;

	begin();
	n = rr_test_call(out, 9, 60, 1);
	os = *rr_os;
	os.poll = shows_error;
	os.getsockopt = tells_error;
	rr_os = &os;
	sh->tx.way = RR_WAY_OUT_RDMA_SHUT;
	cr_assert_eq(writes(out, n), -EPIPE);
	cr_assert(!errors_taken && !sh->err);
	sh->tx.way = RR_WAY_OUT_RDMA;
	sh->rx.way = RR_WAY_IN_EARLY;
	cr_assert_eq(writes(out, n), -ECONNRESET);
	cr_assert_eq(errors_taken, 1);
}

/* --- in ------------------------------------------------------------------------------------ */

static const uint32_t lens[] = { 0, 1, 40, 4097, 300 };
enum { COME = 10, BYTES = 2 * (0 + 1 + 40 + 4097 + 300 + 5 * 4) };

/* As many messages as there are lengths, twice: from a receive, a buffer and the peer's memory in turn. */
static void come(uint8_t *want)
{
	static uint8_t recv_bytes[8192];
	size_t n = 0;

	for (uint32_t i = 0; i < sizeof(recv_bytes); i++)
		recv_bytes[i] = (uint8_t)(i * 3 + 1);
	for (uint32_t i = 0; i < COME; i++) {
		struct rr_rx_ent e = { .len = lens[i % 5], .from = (uint8_t)(i % 3), .ref = 100 + i };
		const uint8_t *bytes = recv_bytes + i;

		if (e.from == RR_FROM_RECV) {
			e.ptr = bytes;
		} else if (e.from == RR_FROM_BUF) {
			e.ref = (uint32_t)rr_pool_alloc(&sh->pool, e.len + 5u);
			e.off = 5;
			rr_pool_fill(&sh->pool, e.ref, 5, bytes, e.len);
			e.stashed = i % 2;
			if (e.stashed)
				sh->rx.stash += e.len;
		} else {
			e.ref = i;
			sh->pull[i] = (struct rr_pull){ .used = true, .id = 500 + i, .len = e.len, .nsegs = 1 };
			sh->pull[i].segs[0] = (struct rr_seg){ .handle = i, .length = e.len, .offset = i * 10000 };
			memcpy(pl.peers + i * 10000, bytes, e.len);
		}
		rr_rm_put(want + n, e.len, true);
		memcpy(want + n + 4, bytes, e.len);
		n += 4 + e.len;
		rr_stream_push(sh, &e);
	}
	cr_assert_eq(n, BYTES);
}

Test(conn_stream, what_has_come_is_read_in_pieces_of_every_size)
{
	static const size_t steps[] = { 1, 2, 3, 4, 5, 7, 44, 48, 4096, 4101, 5000, BYTES, 20000 };
	static uint8_t want[BYTES], got[2 * BYTES], peeked[2 * BYTES];

	begin();
	for (unsigned s = 0; s < rr_array_size(steps); s++) {
		uint32_t used = sh->pool.used;
		uint64_t copied;

		come(want);
		copied = sh->qp->count->v[RR_C_copied];
		pl.reposts = pl.consumes = pl.kicks = 0;
		cr_assert_eq(sh->rx.bytes, BYTES);
		for (size_t at = 0; at < BYTES;) {
			size_t n = rr_min(steps[s], BYTES - at);
			struct iovec iov[] = { { got + at, n / 3 }, { NULL, 0 }, { got + at + n / 3, steps[s] - n / 3 } };
			unsigned was = pl.reposts;

			cr_assert_eq(rr_stream_recv(sh, fd, &(struct iovec){ peeked, steps[s] }, 1, MSG_PEEK), (ssize_t)n);
			cr_assert_eq(memcmp(peeked, want + at, n), 0);
			cr_assert_eq(pl.reposts, was);
			cr_assert_eq(rr_stream_recv(sh, fd, iov, 3, 0), (ssize_t)n, "%zu at %zu", steps[s], at);
			at += n;
			cr_assert_eq(sh->rx.bytes, BYTES - at);
			cr_assert_eq(!!(sh->hint & RR_HINT_BYTES), at < BYTES);
		}
		cr_assert_eq(memcmp(got, want, BYTES), 0);
		cr_assert_eq(pl.reposts, 4);
		cr_assert_eq(pl.reposted, 109);
		cr_assert_eq(pl.consumes, 3);
		cr_assert(sh->rx.held == 0 && sh->rx.stash == 0 && sh->pool.used == used && pl.kicks > 0);
		cr_assert_geq(sh->qp->count->v[RR_C_copied] - copied, (uint64_t)BYTES - 40);
		for (uint32_t i = 0; i < COME; i++)
			cr_assert_not(sh->pull[i].used);
	}
	cr_assert_eq(rr_stream_recv(sh, fd, &(struct iovec){ got, 1 }, 1, 0), -EAGAIN);
	cr_assert_eq(sh->rx.off, 0);
}

Test(conn_stream, long_copies_to_the_app_are_told_of)
{
	static uint8_t got[40000];
	uint64_t copied;
	uint32_t moved;

	begin();
	moved = sh->moved;
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_RECV, .ptr = pl.peers, .len = 39000 });
	copied = sh->qp->count->v[RR_C_copied];
	cr_assert_eq(rr_stream_recv(sh, fd, &(struct iovec){ got, 4 + 16383 }, 1, 0), 4 + 16383);
	cr_assert_eq(sh->moved, moved);
	cr_assert_eq(rr_stream_recv(sh, fd, &(struct iovec){ got, 16384 }, 1, 0), 16384);
	cr_assert_eq(sh->moved, moved + 1);
	cr_assert_eq(sh->qp->count->v[RR_C_copied], copied + 16383 + 16384);
}

Test(conn_stream, what_the_peer_takes_away_is_a_loss)
{
	uint8_t got[200];

	begin();
	sh->pull[1] = (struct rr_pull){ .used = true, .len = 50, .nsegs = 1 };
	sh->pull[1].segs[0].length = 50;
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_RECV, .ptr = pl.peers, .len = 20 });
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_PULL, .ref = 1, .len = 50 });
	pl.on_read.i = 0;
	pl.on_read.then = -EIO;
	cr_assert_eq(rr_stream_recv(sh, fd, &(struct iovec){ got, 200 }, 1, 0), 24, "what came before it is there");
	cr_assert(rr_link_is_up(sh) && sh->rx.off == 0);
	cr_assert_eq(rr_stream_recv(sh, fd, &(struct iovec){ got, 4 }, 1, 0), 4);
	cr_assert_eq(rr_stream_recv(sh, fd, &(struct iovec){ got, 200 }, 1, 0), -ECONNRESET);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_PEER_DIED && sh->err == 0);
}

Test(conn_stream, in_a_later_buffer_a_loss_is_told_next_time)
{
	uint8_t got[200];
	struct iovec iov[] = { { got, 24 }, { got + 24, 100 } };

	begin();
	sh->pull[1] = (struct rr_pull){ .used = true, .len = 50, .nsegs = 1 };
	sh->pull[1].segs[0].length = 50;
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_RECV, .ptr = pl.peers, .len = 24 });
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_PULL, .ref = 1, .len = 50 });
	pl.on_read.i = 0;
	pl.on_read.then = -EIO;
	cr_assert_eq(rr_stream_recv(sh, fd, iov, 2, 0), 28);
	cr_assert_eq(rr_stream_recv(sh, fd, &(struct iovec){ got, 4 }, 1, 0), 4);
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_RECV, .ptr = pl.peers, .len = 24 });
	cr_assert_eq(rr_stream_recv(sh, fd, iov, 2, 0), -ECONNRESET);
}

Test(conn_stream, when_there_is_nothing_the_anchor_is_looked_at_now_and_then)
{
	uint8_t got[10];
	struct iovec iov = { got, 10 };

	begin();
	sh->hint = RR_HINT_IN | RR_HINT_LOST;
	sh->rx.checked = rr_now_coarse() + RR_SEC;	/* just now */
	pl.polls = 0;
	looked = 0;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), -EAGAIN);
	cr_assert(pl.polls == 1 && sh->hint == RR_HINT_LOST);
	sh->rx.checked = 0;
	looked = 0;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), -EAGAIN);
	cr_assert_eq(looked, 1);
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_RECV, .ptr = pl.peers, .len = 24 });
	sh->rx.checked = 0;
	pl.polls = 0;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), 10);
	cr_assert(looked == 1 && pl.polls == 0, "there was something");
}

/* Who is told of the peer's end by the provider looks a twentieth of the time. */
Test(conn_stream, how_often_that_is_depends_on_the_provider)
{
	uint8_t got[10];
	struct iovec iov = { got, 10 };

	begin();
	for (int i = 0; i < 6; i++) {
		bool tells = i < 3;

		pl.ops.caps = tells ? pl.ops.caps | RR_PROV_TELLS :
				      pl.ops.caps & ~(uint32_t)RR_PROV_TELLS;
		sh->link = i % 3 == 2 ? RR_LINK_LOST : RR_LINK_UP;
		sh->rx.checked = rr_now_coarse() - (i % 3 == 1 ? 30 : 10) * RR_MSEC;
		looked = 0;
		rr_stream_recv(sh, fd, &iov, 1, 0);
		cr_assert_eq(looked, i != 0, "%d", i);
	}
	sh->link = RR_LINK_UP;
}

Test(conn_stream, the_end_of_what_comes_is_told_in_its_turn)
{
	uint8_t got[10];
	struct iovec iov = { got, 10 };

	begin();
	sh->rx.shut = true;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), 0);
	sh->rx.shut = false;
	sh->rx.end = RR_ENDS_FIN;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), 0);
	sh->err = ECONNRESET;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), -ECONNRESET);
	sh->err = EPIPE;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), 0);
	cr_assert_eq(sh->err, EPIPE, "is for writers");
	sh->err = 0;
	sh->rx.end = RR_ENDS_FIN_MARKED;
	sh->rx.promised = sh->rx.records + 1;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), -EAGAIN);
	sh->rx.end = RR_ENDS_NOT;
	sh->link = RR_LINK_FAILED;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), 0);
}

static void from_tcp(void)
{
	begin();
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_RECV, .ptr = pl.peers, .len = 2 });
	sh->rx.way = RR_WAY_IN_HATCHING;
	rr_stream_hatch_in_turn(sh);
	cr_assert_eq(sh->rx.way, RR_WAY_IN_HATCHED);
}

Test(conn_stream, behind_the_hatch_the_kernel_has_what_comes)
{
	uint8_t got[10];
	struct iovec iov = { got, 10 };

	from_tcp();
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, MSG_PEEK), 6);
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), 6);
	sh->tx.way = RR_WAY_OUT_TCP;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), RR_CONN_KERNEL);
	cr_assert(sh->rx.way == RR_WAY_IN_TCP && rr_rx_is_empty(sh));
	pl.polls = 0;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), RR_CONN_KERNEL);
	cr_assert_eq(pl.polls, 1, "what the peer has asked for is seen first");
	sh->called_back = true;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), RR_CONN_KERNEL);
	cr_assert_not(sh->called_back);
	sh->link = RR_LINK_FAILED;
	sh->err = ECONNRESET;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), -ECONNRESET);
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), RR_CONN_KERNEL);
}

/* Our own direction goes by RDMA yet. */
Test(conn_stream, behind_the_hatch_the_provider_may_matter)
{
	uint8_t got[10];
	struct iovec iov = { got, 10 };

	from_tcp();
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), 6);
	looked = 0;
	sh->hint = RR_HINT_IN;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), -EAGAIN);
	cr_assert(looked >= 1 && sh->hint == 0);
	cr_assert_eq(send(p.server.fd, "x", 1, 0), 1);
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), RR_CONN_KERNEL, "there is something");
	cr_assert_eq(recv(fd, got, 1, 0), 1);
	sh->err = ETIMEDOUT;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), -ETIMEDOUT);
	sh->called_back = true;
	pl.on_say.first = -EAGAIN;
	cr_assert_eq(rr_stream_recv(sh, fd, &iov, 1, 0), -EAGAIN, "this end must follow, and cannot yet");
	cr_assert(sh->called_back);
}
