/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages that the app reads while they are still being fetched: what it finds, and when, and what becomes of
 * their memory. Provider and peer are played; each RDMA Read ends, and its bytes come, when a test says so. */
#include <netinet/in.h>

#include "core/base/capture.h"
#include "tests/lib/bytes.h"
#include "tests/unit/conn_played.h"

#define NOMSG	1u
#define DONE	3u
#define HANDLE	0x77u

TestSuite(pull_early, .timeout = 60);

static struct rr_share *sh;
static uint8_t hdr[16][256];	/* receives of the client */
static unsigned receives;
static uint8_t *waits[NOTES];	/* where the bytes of a Read belong */

/* A Read brings its bytes when it ends, not before: until then other bytes are there. */
static int later_read(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg, uint32_t off,
		      uint64_t cookie)
{
	unsigned i = pl.reads % NOTES;
	int rc = played_read(qp, local, len, seg, off, cookie);

	if (rc >= 0) {
		waits[i] = local;
		pl.read[i].off = (uint32_t)seg->offset + off;
		memset(local, 0xee, len);
	}
	return rc;
}

static void begin(uint32_t piece)
{
	sh = play(false);
	sh->delays = true;
	sh->qp->read_piece = piece;
	pl.ops.read = later_read;
	pl.on_send.first = 0;
	pl.window = 64;
	rr_eng_window(sh->eng, 64);
	receives = 0;
	cr_assert(sh->pool.used == 0 && sh->rx.bytes == 0);
}

/* --- the peer ------------------------------------------------------------------------------ */

static void completes(const struct rr_wc *wc, int n)
{
	memcpy(pl.wc, wc, (size_t)n * sizeof(*wc));
	pl.batch[0] = n;
	pl.batches = 1;
	pl.polls = pl.given = 0;
	rr_drv_progress(sh);
}

static void arrives(const uint8_t *bytes, uint32_t len)
{
	unsigned i = receives++;

	cr_assert(i < rr_array_size(hdr) && len <= sizeof(hdr[0]));
	memcpy(hdr[i], bytes, len);
	completes(&(struct rr_wc){ .op = RR_WC_RECV, .cookie = i, .buf = hdr[i], .len = len }, 1);
}

/* The message in out lies in the peer's memory from `at` on, in segments of `each` bytes (0: in one); a header with
 * this XID comes. */
static uint32_t lies(uint32_t xid, uint32_t at, size_t rec, uint32_t each)
{
	uint32_t len = (uint32_t)rec - RR_RM_HDR, n;
	uint8_t h[256];

	memcpy(pl.peers + at, out + RR_RM_HDR, len);
	n = WORDS(h, xid, 1, 32, NOMSG);
	for (uint32_t off = 0; off < len;) {
		uint32_t l = rr_min(each ? each : len, len - off);

		n += WORDS(h + n, 1, 0, HANDLE, l, 0, at + off);
		off += l;
	}
	n += WORDS(h + n, 0, 0, 0);
	arrives(h, n);
	return len;
}

/* A reply of so many bytes, in one segment. Returns how long the record is, which is in out. */
static size_t reply_lies(size_t len)
{
	size_t n = rr_test_reply(out, 9, len, 3);

	lies(9, 1000, n, 0);
	return n;
}

/* These Reads end, in one batch, the first with this status. */
static void end(unsigned first, unsigned n, int status)
{
	struct rr_wc wc[RR_POLL_BATCH];

	cr_assert_leq(n, (unsigned)rr_array_size(wc));
	for (unsigned i = 0; i < n; i++) {
		const struct note *r = &pl.read[(first + i) % NOTES];

		wc[i] = (struct rr_wc){ .op = RR_WC_READ, .cookie = r->cookie, .status = i ? 0 : status };
		if (!wc[i].status)
			memcpy(waits[(first + i) % NOTES], pl.peers + r->off, r->len);
	}
	completes(wc, (int)n);
}

/* --- the app ------------------------------------------------------------------------------- */

/* There are so many bytes to read, and no more. */
static void here(uint64_t n)
{
	bool in_now = rr_end_poll(&p.client, POLLIN) & POLLIN;

	cr_assert_eq(in_now, n > 0, "%d with %llu bytes", in_now, (unsigned long long)n);
	cr_assert_eq(rr_conn_inq(p.client.c, p.client.fd), (int)n, "%d, not %llu", rr_conn_inq(p.client.c, p.client.fd),
		     (unsigned long long)n);
	if (!rr_rx_has_ended(sh))
		cr_assert_eq(rr_conn_peek(p.client.c, POLLIN), n > 0);
	if (!n)
		cr_assert_eq(rr_end_try_recv(&p.client, in, 1, 0), -EAGAIN);
}

/* One read of `ask` bytes brings n, which are those of out from `at` on. */
static void reads(size_t at, size_t ask, size_t n, int flags)
{
	ssize_t got = rr_end_try_recv(&p.client, in, ask, flags);

	cr_assert_eq(got, (ssize_t)n, "%zd, not %zu", got, n);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(in[i], out[at + i], "byte %zu is %u", at + i, in[i]);
}

static void is_said(unsigned sends, uint32_t what)
{
	cr_assert_eq(pl.sends, sends, "%u", pl.sends);
	if (sends)
		cr_assert_eq(rr_be32(pl.sent + 12), what);
}

/* Nothing of it is held any more. */
static void is_over(void)
{
	cr_assert(sh->pool.used == 0 && sh->pull_bytes == 0 && sh->rx.stash == 0 && sh->rx.missing == 0);
	for (unsigned i = 0; i < RR_PULLS; i++)
		cr_assert_not(sh->pull[i].used);
	cr_assert(rr_link_is_up(sh) && sh->rx.head == sh->rx.tail);
}

/* ------------------------------------------------------------------------------------------- */

Test(pull_early, the_app_reads_what_is_here)
{
	uint64_t came, now;
	size_t n;

	begin(4096);
	n = reply_lies(14000);
	cr_assert_eq(pl.reads, 4);
	here(0);
	came = rr_conn_came(p.client.c);
	end(0, 1, 0);
	here(4 + 4096);
	now = rr_conn_came(p.client.c);
	cr_assert_neq(now, came);
	cr_assert_eq(sh->rx.stash + sh->pull_bytes, n - 4, "it is counted once");
	reads(0, 2, 2, 0);
	reads(2, 3000, 3000, MSG_PEEK);
	reads(2, sizeof(in), 4098, MSG_PEEK);
	reads(2, 1000, 1000, 0);
	here(3098);
	reads(1002, sizeof(in), 3098, 0);
	here(0);
	cr_assert_eq(pl.consumes, 0);
	is_said(0, 0);
	/* A further piece is news, also for who waits for edges. */
	end(1, 1, 0);
	cr_assert_neq(rr_conn_came(p.client.c), now);
	here(4096);
	end(2, 1, 0);
	here(8192);
	reads(4100, 5000, 5000, 0);
	here(3192);
	is_said(0, 0);
	cr_assert_eq(pl.consumes, 0);
	end(3, 1, 0);
	cr_assert_eq(pl.consumes, 1);
	is_said(1, DONE);
	reads(9100, sizeof(in), n - 9100, MSG_PEEK);
	cr_assert_neq(sh->pool.used, 0);
	reads(9100, sizeof(in), n - 9100, 0);
	here(0);
	is_over();
}

/* Where all completions are there at once, nothing differs from a message that is judged whole. */
Test(pull_early, what_is_here_at_once_is_one_message)
{
	uint64_t came;
	uint32_t kicks;
	size_t n;

	begin(4096);
	n = reply_lies(14000);
	came = sh->rx.records;
	kicks = pl.kicks;
	end(0, 4, 0);
	cr_assert(sh->rx.records == came + 1 && sh->rx.pieces == 0 && pl.kicks == kicks + 1 && pl.consumes == 1);
	cr_assert_eq(sh->rx.ent[(sh->rx.tail - 1) % RR_RX_ENTS].from, RR_FROM_BUF);
	is_said(1, DONE);
	reads(0, sizeof(in), n, 0);
	is_over();
}

Test(pull_early, a_piece_that_is_out_of_turn_waits)
{
	size_t n;

	begin(4096);
	n = reply_lies(14000);
	end(1, 1, 0);
	here(0);
	end(0, 1, 0);
	here(0);
	end(3, 1, 0);
	here(0);
	end(2, 1, 0);
	reads(0, sizeof(in), n, 0);
	is_over();
	/* The front that was here before stays. */
	lies(9, 1000, n, 0);
	end(4, 1, 0);
	here(4100);
	end(6, 1, 0);
	end(5, 1, 0);
	here(4100);
	end(7, 1, 0);
	here(n);
	reads(0, sizeof(in), n, 0);
	is_over();
}

Test(pull_early, so_few_are_no_news_for_who_wants_more)
{
	size_t n;

	begin(4096);
	rr_rx_set_lowat(sh, 6000);
	n = reply_lies(14000);
	end(0, 1, 0);
	cr_assert_eq(rr_end_poll(&p.client, POLLIN) & POLLIN, 0);
	end(1, 1, 0);
	cr_assert_neq(rr_end_poll(&p.client, POLLIN) & POLLIN, 0);
	reads(0, 8000, 8000, 0);
	cr_assert_eq(rr_end_poll(&p.client, POLLIN) & POLLIN, 0);
	end(2, 2, 0);
	cr_assert_neq(rr_end_poll(&p.client, POLLIN) & POLLIN, 0);
	reads(8000, sizeof(in), n - 8000, 0);
	is_over();
}

/* --- what comes behind it ------------------------------------------------------------------ */

Test(pull_early, what_comes_behind_it_waits)
{
	size_t n, m, k;
	uint8_t b[400];

	begin(4096);
	n = reply_lies(7000);
	m = rr_test_reply(out + n, 10, 9000, 4);
	memmove(out + 50000, out, n);		/* lies() takes it from the front */
	memmove(out, out + n, m);
	lies(10, 20000, m, 0);
	memmove(out + n, out, m);
	memmove(out, out + 50000, n);
	k = rr_test_reply(out + n + m, 11, 60, 5);
	memcpy(b + WORDS(b, 11, 1, 32, 0, 0, 0, 0), out + n + m + 4, k - 4);
	arrives(b, (uint32_t)(28 + k - 4));
	cr_assert_eq(pl.reads, 5);
	here(0);
	end(2, 3, 0);		/* the second one is here before the first */
	here(0);
	end(0, 1, 0);
	here(4100);
	reads(0, sizeof(in), 4100, 0);
	here(0);
	end(1, 1, 0);
	here(n + m + k - 4100);
	reads(4100, sizeof(in), n + m + k - 4100, 0);
	is_over();
}

Test(pull_early, two_are_read_one_after_the_other)
{
	size_t n, at = 0;

	begin(4096);
	n = reply_lies(6000);
	lies(9, 1000, n, 0);
	memcpy(out + n, out, n);
	cr_assert_eq(pl.reads, 4);
	for (unsigned i = 0; i < 4; i++) {
		size_t some = i % 2 ? n - 4100 : 4100;

		end(i, 1, 0);
		here(some);
		reads(at, sizeof(in), some, 0);
		at += some;
		here(0);
	}
	is_over();
}

/* The peer goes back to TCP: what it has sent before is read to its end first. */
Test(pull_early, a_hatch_behind_it_waits)
{
	size_t n;

	begin(4096);
	n = reply_lies(6000);
	end(0, 1, 0);
	completes(&(struct rr_wc){ .op = RR_WC_RECV, .cookie = receives, .has_imm = true, .imm = RR_IMM_HATCH }, 1);
	cr_assert_eq(sh->rx.way, RR_WAY_IN_HATCHING);
	reads(0, sizeof(in), 4100, 0);
	cr_assert_eq(rr_end_try_recv(&p.client, in, 1, 0), -EAGAIN);
	cr_assert_not(rr_rx_is_tcp(sh));
	end(1, 1, 0);
	cr_assert_eq(sh->rx.way, RR_WAY_IN_HATCHED);
	reads(4100, sizeof(in), n - 4100, 0);
	cr_assert_eq(rr_end_try_recv(&p.client, in, 1, 0), -EAGAIN);
	cr_assert(rr_rx_is_tcp(sh));
}

/* --- memory -------------------------------------------------------------------------------- */

Test(pull_early, memory_is_kept_until_the_last_read_has_ended)
{
	uint32_t used;
	begin(4096);
	reply_lies(14000);
	used = sh->pool.used;
	cr_assert_eq(used, 4);
	for (unsigned i = 0; i < 4; i++) {
		end(i, 1, 0);
		cr_assert_eq(sh->pool.used, used);
		cr_assert_gt(rr_end_try_recv(&p.client, in, sizeof(in), 0), 0);
		cr_assert_eq(sh->pool.used, i < 3 ? used : 0);
	}
	is_over();
}

/* A second message has its turn when there is room, which the first one holds until it is read. */
Test(pull_early, where_memory_is_short_the_next_one_waits_for_the_app)
{
	size_t n;

	begin(4096);
	cr_assert_geq(rr_pool_alloc(&sh->pool, (size_t)(sh->pool.npages - 5) * RR_POOL_PAGE), 0);
	n = reply_lies(14000);
	lies(9, 1000, n, 0);
	cr_assert(pl.reads == 4 && sh->pulls_short == 1);
	end(0, 3, 0);
	reads(0, sizeof(in), 4 + 3 * 4096, 0);
	cr_assert_eq(pl.reads, 4);
	end(3, 1, 0);
	cr_assert_eq(pl.reads, 4);
	reads(4 + 3 * 4096, sizeof(in), n - (4 + 3 * 4096), 0);
	here(0);
	cr_assert(pl.reads == 8 && sh->pulls_short == 0);
	end(4, 4, 0);
	reads(0, sizeof(in), n, 0);
	cr_assert(sh->pull_bytes == 0 && sh->rx.stash == 0);
}

/* Nor is it taken for idle, or given back to the system. */
static unsigned held, asked;

static void trims(struct rr_qp *qp, bool (*used)(void *ctx, size_t off, size_t len), void *ctx)
{
	for (size_t off = 0; off < qp->mem_size; off += RR_POOL_PAGE, asked++)
		held += used(ctx, off, RR_POOL_PAGE);
}

Test(pull_early, it_is_not_idle)
{
	size_t n;

	begin(4096);
	n = reply_lies(14000);
	end(0, 1, 0);
	reads(0, sizeof(in), 4100, 0);
	pl.ops.trim = trims;
	sh->trimmed = false;
	sh->active = 1;
	atomic_store(&rr_idle_next, 1);
	rr_idle_look(rr_now());
	cr_assert_gt(asked, 0);
	cr_assert_eq(held, 4);
	for (unsigned i = 1; i < 4; i++)
		end(i, 1, 0);
	reads(4100, sizeof(in), n - 4100, 0);
	is_over();
}

static const struct rr_prov_ops *real;
static unsigned closes;

/* The device goes: until now it may have written there. */
static void closing(struct rr_qp *qp)
{
	cr_assert(pl.disconnects && sh->pool.used == 4);
	closes++;
	real->close(qp);
}

Test(pull_early, a_close_leaves_the_memory_to_the_device)
{
	begin(4096);
	reply_lies(14000);
	end(0, 1, 0);
	reads(0, sizeof(in), 4100, 0);
	real = p.server.c->share->qp->ops;
	pl.ops.close = closing;
	pl.ops.settle = NULL;
	rr_end_close(&p.client);
	cr_assert_eq(closes, 1);
	rr_end_close(&p.server);
}

static unsigned taps;

/* A capture, which the Makefile puts in the place of the real one, sees a message when it is delivered. */
void __wrap_rr_tap_delivered(struct rr_share *s, const struct rr_rx_ent *e, rr_tap_read *read);
void __wrap_rr_tap_received(struct rr_share *s, const struct rr_wc *wc);
void __wrap_rr_tap_posted(struct rr_share *s, const struct iovec *iov, int n);

void __wrap_rr_tap_delivered(struct rr_share *s, const struct rr_rx_ent *e, rr_tap_read *read)
{
	(void)read;
	taps += e->from == RR_FROM_BUF;
	if (e->from == RR_RX_PART)
		return;
	for (uint32_t i = 0; i < e->len; i++)
		cr_assert_eq(*rr_pool_at(&s->pool, e->ref, e->off + i, &(size_t){ 0 }), out[RR_RM_HDR + i]);
}

void __wrap_rr_tap_received(struct rr_share *s, const struct rr_wc *wc)
{
	(void)s;
	(void)wc;
}

void __wrap_rr_tap_posted(struct rr_share *s, const struct iovec *iov, int n)
{
	(void)s;
	(void)iov;
	(void)n;
}

Test(pull_early, who_captures_sees_whole_messages)
{
	static struct rr_cap_desk desk;
	size_t n;

	begin(4096);
	rr_cap_own(&desk);
	atomic_store(&desk.ask, 1);
	n = rr_test_reply(out, 9, 14000, 3);
	lies(9, 1000, n, 4096);
	end(0, 3, 0);
	here(0);
	end(3, 1, 0);
	here(n);
	cr_assert_eq(taps, 1);
	reads(0, sizeof(in), n, 0);
	is_over();
	/* One that begins while a message is being fetched does without that. */
	atomic_store(&desk.ask, 0);
	lies(9, 1000, n, 4096);
	atomic_store(&desk.ask, 1);
	end(4, 1, 0);
	here(4100);
	end(5, 3, 0);
	reads(0, sizeof(in), n, 0);
	cr_assert_eq(taps, 1);
	is_over();
}

/* --- its end ------------------------------------------------------------------------------- */

/* The bytes that are here, then the error, then the end, as from TCP. */
static void ends_within(size_t at, size_t n)
{
	cr_assert_neq(rr_end_poll(&p.client, POLLIN) & POLLIN, 0);
	if (n)
		reads(at, sizeof(in), n, 0);
	cr_assert_eq(rr_end_try_recv(&p.client, in, 10, 0), -ECONNRESET);
	cr_assert_eq(rr_end_try_recv(&p.client, in, 10, 0), 0);
	cr_assert(rr_link_is_dead(sh));
}

Test(pull_early, a_read_that_fails_is_the_end)
{
	begin(4096);
	reply_lies(14000);
	end(0, 1, 0);
	reads(0, 100, 100, 0);
	/* What a device says of the others is of no matter then. */
	end(1, 3, -EACCES);
	cr_assert_eq(reported(sh), RR_R_PROTOCOL);
	is_said(0, 0);
	cr_assert_eq(pl.consumes, 0);
	cr_assert_eq(sh->rx.bytes, 4000);
	ends_within(100, 4000);
}

Test(pull_early, one_that_cannot_be_posted_is_the_end)
{
	begin(4096);
	pl.on_read.i = 2;
	pl.on_read.then = -EAGAIN;
	reply_lies(14000);
	cr_assert_eq(sh->pulls_short, 1);
	pl.on_read.then = -EIO;
	end(0, 1, 0);
	cr_assert_eq(reported(sh), RR_R_DEVICE);
	ends_within(0, 4100);
}

Test(pull_early, where_the_queue_was_full_it_goes_on)
{
	size_t n;

	begin(4096);
	pl.on_read.i = 2;
	pl.on_read.then = -EAGAIN;
	n = reply_lies(14000);
	end(0, 1, 0);
	here(4100);
	end(1, 1, 0);
	here(8196);
	reads(0, sizeof(in), 8196, 0);
	pl.reads = 2;
	pl.on_read.i = UINT32_MAX;
	here(0);
	cr_assert_eq(pl.reads, 4);
	end(2, 1, 0);
	end(3, 1, 0);
	reads(8196, sizeof(in), n - 8196, 0);
	is_over();
}

/* The peer's device is gone, before or after its end shows on the anchor: that is no end of the stream. */
Test(pull_early, a_peer_that_is_lost_is_the_end)
{
	for (int how = 0; how < 6; how++) {
		memset(&pl, 0, sizeof(pl));
		begin(4096);
		reply_lies(14000);
		end(0, 1, 0);
		reads(0, 100, 100, 0);
		if (how % 3 == 0)
			rr_way_in_fin(sh);
		if (how % 3 == 1)
			rr_way_in_marked(sh, sh->rx.records - sh->rx.pieces);
		if (how < 3) {
			/* what a device says of those behind it is of no matter */
			end(1, 3, -ECONNRESET);
		} else {	/* no completion comes */
			pl.drained = -ECONNRESET;
			rr_drv_drain(sh);
		}
		if (how % 3 == 2)
			rr_way_in_fin(sh);
		cr_assert(rr_link_is_lost(sh));
		ends_within(100, 4000);
		cr_assert_eq(reported(sh), RR_R_PEER_DIED);
		cr_assert_eq(pl.consumes, 0);
		rr_pair_close(&p);
	}
}

/* What has completed counts, although the peer is gone since. */
Test(pull_early, what_had_come_before_the_peer_was_lost_is_read)
{
	size_t n;

	begin(4096);
	n = reply_lies(14000);
	end(0, 1, 0);
	rr_way_in_fin(sh);
	pl.drained = -ECONNRESET;
	rr_drv_drain(sh);
	reads(0, 4100, 4100, 0);
	end(1, 3, 0);
	reads(4100, sizeof(in), n - 4100, 0);
	cr_assert_eq(rr_end_try_recv(&p.client, in, 10, 0), 0);
	cr_assert_not(rr_link_is_dead(sh));
}

/* The peer has ended its stream behind the message. */
Test(pull_early, the_end_of_the_stream_is_behind_it)
{
	for (int marked = 0; marked < 2; marked++) {
		uint64_t came;
		size_t n;

		memset(&pl, 0, sizeof(pl));
		begin(4096);
		came = sh->rx.records - sh->rx.pieces;
		n = reply_lies(14000);
		end(0, 1, 0);
		if (marked)
			rr_way_in_marked(sh, came + 2);
		rr_way_in_fin(sh);
		reads(0, sizeof(in), 4100, 0);
		here(0);
		end(1, 1, 0);
		end(2, 1, 0);
		reads(4100, sizeof(in), 8192, 0);
		here(0);
		end(3, 1, 0);
		reads(12292, sizeof(in), n - 12292, 0);
		if (marked) {		/* one more is promised */
			here(0);
			lies(9, 1000, n, 0);
			end(4, 4, 0);
			reads(0, sizeof(in), n, 0);
		}
		cr_assert_eq(rr_end_try_recv(&p.client, in, 10, 0), 0);
		rr_pair_close(&p);
	}
}

/* --- what the engine thinks of it ---------------------------------------------------------- */

/* The peer is told only when nothing reads its memory any more; until then that holds up what comes behind. */
Test(pull_early, one_that_is_refused_by_its_front_is_fetched_to_its_end)
{
	uint8_t b[400];
	size_t n, k;

	begin(4096);
	n = rr_test_reply(out, 9, 14000, 3);
	lies(8, 1000, n, 0);	/* the header has another XID */
	k = rr_test_reply(out, 11, 60, 5);
	memcpy(b + WORDS(b, 11, 1, 32, 0, 0, 0, 0), out + 4, k - 4);
	arrives(b, (uint32_t)(28 + k - 4));
	for (unsigned i = 0; i < 4; i++) {
		here(0);
		is_said(0, 0);
		cr_assert(sh->pull[0].used && sh->pool.used == 4 && sh->pull_bytes == n - 4 && pl.consumes == 0);
		end(i, 1, 0);
	}
	is_said(1, DONE);
	cr_assert(!sh->pull[0].used && sh->pool.used == 0 && sh->pull_bytes == 0 && pl.consumes == 1);
	reads(0, sizeof(in), k, 0);
	is_over();
}

/* The peer takes a call's memory back when the reply comes. */
Test(pull_early, the_reply_to_it_waits_for_the_rest)
{
	uint8_t reply[200];
	size_t n, r;

	begin(4096);
	r = rr_test_reply(reply, 9, 40, 5);
	n = rr_test_call(out, 9, 14000, 3);
	lies(9, 1000, n, 0);
	cr_assert_eq(pl.reads, 4);
	end(0, 1, 0);
	reads(0, sizeof(in), 4100, 0);
	cr_assert_neq(rr_end_poll(&p.client, POLLOUT) & POLLOUT, 0);
	cr_assert_eq(rr_end_try_send(&p.client, reply, r), -EAGAIN);
	cr_assert_eq(rr_end_poll(&p.client, POLLOUT) & POLLOUT, 0);
	is_said(0, 0);
	end(1, 3, 0);
	cr_assert_neq(rr_end_poll(&p.client, POLLOUT) & POLLOUT, 0);
	cr_assert_eq(rr_end_try_send(&p.client, reply, r), (ssize_t)r);
	is_said(1, 0);
	reads(4100, sizeof(in), n - 4100, 0);
	is_over();
}

/* --- many sizes ---------------------------------------------------------------------------- */

static uint64_t rng;

static uint32_t chance(uint32_t n)
{
	rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(rng >> 33) % n;
}

/* Messages of any length, in segments and pieces of any length, and reads of any length between completions. */
Test(pull_early, every_split_makes_the_same_message)
{
	begin(0);
	rng = 11;
	for (int i = 0; i < 400; i++) {
		size_t n = rr_test_reply(out, 9, chance(4) ? chance(30000) : chance(300), (unsigned)i), got = 0, came = 0;
		uint32_t each = chance(2) ? 0 : 3000 + chance(9000), first = pl.reads = 0;

		sh->qp->read_piece = chance(3) ? 500 + chance(9000) : 0;
		receives = 0;
		if (n / (sh->qp->read_piece ? sh->qp->read_piece : n) + 12 >= NOTES)
			continue;
		lies(9, chance(500000), n, each);
		while (got < n) {
			uint32_t left = pl.reads - first, batch = rr_min(1 + chance(3), left);
			size_t want = chance(3) ? 1 + chance(5000) : sizeof(in);
			ssize_t k;

			if (left && chance(2)) {
				for (uint32_t j = 0; j < batch; j++)
					came += pl.read[first + j].len;
				end(first, batch, 0);
				first += batch;
			}
			k = rr_end_try_recv(&p.client, in, want, 0);
			if (k < 0) {
				cr_assert_eq(k, -EAGAIN);
				cr_assert(came < RR_RPC_PEEK || came + 4 == got, "%zu of %zu are here", got, came + 4);
				continue;
			}
			cr_assert_eq((size_t)k, rr_min(want, came + 4 - got));
			cr_assert_eq(memcmp(in, out + got, (size_t)k), 0);
			got += (size_t)k;
		}
		is_over();
	}
}
