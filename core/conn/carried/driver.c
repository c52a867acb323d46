/* SPDX-License-Identifier: BSD-3-Clause */
/* The one loop between engine and provider: carries out what the engine asks for, and tells it
 * what has happened. It makes no decisions about the protocol, which are the engine's. Under
 * the connection's lock. */

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/carried/carried.h"
#include "core/wire/advance.h"

#define MAX_IOV	(1 + RR_BUF_EXTS + RR_OP_MAX_PARTS)
#define STALE_PULL	(100 * RR_MSEC)	/* an unread reliable reply this old is moved, too */

/* The pieces of a call with its own bytes, a Write chunk and a Reply chunk. */
_Static_assert(3 * RR_BUF_EXTS <= RR_PROV_PIECES,
	       "a provider has room for them before their post");

/* Describes the payload of buf[off..off+len) in iov; returns how many entries. */
static int buf_iov(struct rr_share *sh, uint32_t buf, size_t off, size_t len, struct iovec *iov)
{
	int n = 0;

	while (len && n < (int)RR_BUF_EXTS) {
		size_t room;
		uint8_t *p = rr_pool_at(&sh->pool, buf, off, &room);
		size_t take = rr_min(room, len);

		iov[n++] = (struct iovec){ p, take };
		off += take;
		len -= take;
	}
	return n;
}

static const uint8_t zeroes[RR_PAD_MAX];	/* padding */

static void post_send(struct rr_share *sh, const struct rr_op *op, const struct iovec *iov,
		      int n, rr_time now)
{
	uint64_t cookie = op->id ? rr_drv_cookie(RR_FOR_ENGINE, op->id) : 0;
	int rc;

	rr_count(sh->qp->count, RR_C_copied, op->hdr_len + op->len);
	if (rr_cap_asked())
		rr_tap_posted(sh, iov, n);
	rc = sh->qp->ops->send(sh->qp, iov, n, cookie, op->inv_handle);
	if (unlikely(rc != 1 || op->id))
		rr_drv_posted(sh, op->id, rc, now);
	if (!rr_drv_direct(sh))	/* its queue may be full, however much the peer can take */
		rr_eng_window(sh->eng, sh->qp->ops->window(sh->qp));
}

/* Sends a message that lies in the app's memory. */
static void send_app(struct rr_share *sh, const struct rr_op *op, const struct rr_app_iov *app,
		     rr_time now)
{
	assert(app->iov);	/* it is sent within the call that brought it */
	app->iov[0] = (struct iovec){ (void *)op->hdr, op->hdr_len };
	post_send(sh, op, app->iov, app->n, now);
}

/* Kept out of run_ops(), so that only Sends need stack for the array. */
static RR_NOINLINE void send_own(struct rr_share *sh, const struct rr_op *op, rr_time now)
{
	struct iovec iov[MAX_IOV];
	int n = 0;

	iov[n++] = (struct iovec){ (void *)op->hdr, op->hdr_len };
	for (uint32_t i = 0; unlikely(i < op->nparts); i++) {
		if (op->parts[i].off == RR_PART_ZEROES)
			iov[n++] = (struct iovec){ (void *)zeroes, op->parts[i].len };
		else
			n += buf_iov(sh, op->buf, op->parts[i].off, op->parts[i].len, iov + n);
	}
	if (op->len && !op->nparts)
		n += buf_iov(sh, op->buf, op->off, op->len, iov + n);
	post_send(sh, op, iov, n, now);
}

/* Memory is short: frees what calls hold that the peer has read but will never answer (libtirpc
 * batching, client time-outs). */
void rr_drv_reclaim(struct rr_share *sh)
{
	rr_time now = rr_now_coarse();

	if (!(sh->ep.caps & RR_CAP_RING_CREDITS))
		return;
	for (uint32_t i = 0; i < sh->pool.fresh_buf; i++) {
		if (rr_expose_consumed(sh, &sh->pool.buf[i])) {
			rr_eng_consumed(sh->eng, i, now);
			rr_drv_run(sh, now);
		}
	}
}

/* RDMA Writes of a buffer into the peer's segments, one for each piece that is contiguous on
 * both sides. */
static void op_write(struct rr_share *sh, const struct rr_op *op, rr_time now)
{
	uint64_t done = rr_drv_cookie(RR_FOR_ENGINE, op->id);
	size_t off = op->off, left = op->len;
	int rc = 1;

	for (uint32_t i = 0; i < op->nsegs && left && rc >= 0; i++) {
		uint32_t in_seg = 0;

		while (in_seg < op->segs[i].length && left && rc >= 0) {
			size_t room;
			uint8_t *p = rr_pool_at(&sh->pool, op->buf, off, &room);
			uint32_t take = (uint32_t)rr_min(rr_min(room, left),
							 (size_t)(op->segs[i].length - in_seg));

			/* A queue pair works in order: the last one posted is the last to
			 * complete. */
			rc = sh->qp->ops->write(sh->qp, p, take, &op->segs[i], in_seg,
						left == take ? done : 0);
			in_seg += take;
			off += take;
			left -= take;
		}
	}
	rr_drv_posted(sh, op->id, rc, now);
}

/* The peer has written a reply's data in its place: puts the rest of the reply around it. */
static void op_place(struct rr_share *sh, const struct rr_op *op, const uint8_t *recv)
{
	const struct rr_range *r = &op->parts[0];
	const uint8_t *stream = recv + op->off;
	uint32_t pad = rr_ulb_pad(r->len), end = op->at + r->off + r->len;

	rr_count(sh->qp->count, RR_C_copied, op->stream);
	rr_pool_fill(&sh->pool, op->buf, op->at, stream, r->off);
	rr_pool_fill(&sh->pool, op->buf, end, NULL, pad);
	rr_pool_fill(&sh->pool, op->buf, end + pad, stream + r->off, op->stream - r->off);
}

/* Removes padding from a message, in place. */
static void unpad(uint8_t *at, const struct rr_op *op)
{
	uint32_t from, to = op->parts[0].off;

	for (uint32_t i = 0, past = 0; i < op->nparts; i++) {
		uint32_t end = i + 1 < op->nparts ? op->parts[i + 1].off : UINT32_MAX;

		past += op->parts[i].len;
		from = to + past;
		end = rr_min(end, op->len + past);
		memmove(at + to, at + from, end - from);
		to += end - from;
	}
}

/* Hands a message to the app's queue. The statistics and a capture must see it first. */
static void deliver(struct rr_share *sh, const struct rr_rpc *rpc, struct rr_rx_ent *e)
{
	rr_calls_delivered(sh, rpc, e);
	if (unlikely(!atomic_load_explicit(&sh->heard, memory_order_relaxed))) {
		atomic_store_explicit(&sh->heard, true, memory_order_relaxed);
		rr_report_first(sh, rpc);
	}
	if (rr_cap_asked())
		rr_tap_delivered(sh, e, rr_drv_read_pull);
	if (unlikely(rr_rx_is_ahead(sh)) && !rr_stream_rest(sh, rpc->xid, e))
		rr_drv_fail(sh, ECONNRESET, RR_R_PROTOCOL);
	rr_stream_push(sh, e);
}

static void op_deliver(struct rr_share *sh, const struct rr_op *op, const uint8_t *recv,
		       rr_time now)
{
	struct rr_rx_ent e = {
		.from = (uint8_t)op->from, .len = op->len,
		.reply = op->rpc.type == RR_RPC_REPLY, .since = now,
	};
	uint32_t missing = 0;

	switch (op->from) {
	case RR_FROM_RECV:
		if (unlikely(op->nparts))
			unpad((uint8_t *)recv + op->off, op);
		e.ref = op->token;
		e.ptr = recv + op->off;
		break;
	case RR_FROM_BUF:
		e.ref = op->buf;
		e.off = op->off;
		break;
	case RR_FROM_PULL:
		missing = rr_pull_deliver(sh, op->id, &e, now);
		break;
	}
	deliver(sh, &op->rpc, &e);
	if (missing)
		rr_stream_lacks(sh, missing);
}

static void op_release(struct rr_share *sh, const struct rr_op *op)
{
	if (op->buf == RR_BUF_NONE) {
		rr_pull_drop(sh, op->id);
	} else if (op->buf != RR_BUF_APP) {
		rr_expose_drop(sh, op->buf);
	}
}

static void op_fail(struct rr_share *sh, const struct rr_op *op)
{
	static const enum rr_reason why[] = {
		[RR_WHY_NONE] = RR_R_INTERNAL, [RR_WHY_ERR_CHUNK] = RR_R_ERR_CHUNK,
		[RR_WHY_ERR_VERS] = RR_R_NO_DIALECT, [RR_WHY_PROTOCOL] = RR_R_PROTOCOL,
		[RR_WHY_PROVIDER] = RR_R_PEER_DIED, [RR_WHY_CREDITS] = RR_R_CREDITS,
		[RR_WHY_OVERRUN] = RR_R_PROTOCOL, [RR_WHY_TOO_LARGE] = RR_R_SIZE_KNOWN,
		[RR_WHY_NO_ANSWER] = RR_R_NO_DIALECT, [RR_WHY_REFUSED] = RR_R_ERR_CHUNK,
		[RR_WHY_DEVICE] = RR_R_DEVICE,
	};

	/* The app will connect again and make the same call. */
	if (op->why == RR_WHY_TOO_LARGE || op->why == RR_WHY_REFUSED)
		rr_drv_remember(sh, RR_R_SIZE_KNOWN);
	if (op->why == RR_WHY_NO_ANSWER || op->why == RR_WHY_ERR_VERS)
		rr_drv_remember(sh, RR_R_NO_DIALECT);
	rr_drv_fail(sh, ECONNRESET, why[op->why]);
}

/* The bytes of a receive. On a DIRECT provider a delivery is delayed only by a message that
 * waits for memory or for a fence, so most of the time it is the receive that is being judged
 * (wc). */
static const uint8_t *recv_of(const struct rr_share *sh, uint32_t token, const struct rr_wc *wc)
{
	if (likely(wc && wc->cookie == token))
		return wc->buf;
	return token < RR_RECVS ? sh->tables->recv_at[token] : NULL;
}

/* Carries out all operations. wc: the receive that is being judged, or NULL. True: there were
 * some. */
static bool run_ops(struct rr_share *sh, const struct rr_app_iov *app, const struct rr_wc *wc,
		rr_time now)
{
	struct rr_op op;
	bool any = false;

	while (rr_eng_next_op(sh->eng, &op)) {
		any = true;
		switch (op.code) {
		case RR_OP_SEND:
			if (op.len && op.buf == RR_BUF_APP)
				send_app(sh, &op, app, now);
			else
				send_own(sh, &op, now);
			break;
		case RR_OP_EXPOSE:
			rr_expose(sh, &op, now);
			break;
		case RR_OP_WRITE:
			op_write(sh, &op, now);
			break;
		case RR_OP_PULL:
			rr_pull_begin(sh, &op, now);
			break;
		case RR_OP_COMPOSE:
			rr_pull_compose(sh, &op, op.from == RR_FROM_RECV ?
					recv_of(sh, op.token, wc) : NULL, now);
			break;
		case RR_OP_PLACE:
			op_place(sh, &op, recv_of(sh, op.token, wc));
			break;
		case RR_OP_INVALIDATE:
			rr_expose_fence(sh, &op, now);
			break;
		case RR_OP_DELIVER:
			op_deliver(sh, &op, recv_of(sh, op.token, wc), now);
			break;
		case RR_OP_RELEASE:
			op_release(sh, &op);
			break;
		case RR_OP_REPOST:
			rr_drv_repost(sh, op.token);
			break;
		case RR_OP_FAIL:
			op_fail(sh, &op);
			break;
		case RR_OP_NONE:
			break;
		}
	}
	if (unlikely(rr_rx_hatch_is_due(sh)))
		rr_stream_hatch_in_turn(sh);
	return any;
}

static const struct rr_app_iov no_app;	/* nothing is sent from the app's memory */

bool rr_drv_run(struct rr_share *sh, rr_time now)
{
	return run_ops(sh, &no_app, NULL, now);
}

void rr_drv_run_app(struct rr_share *sh, const struct rr_app_iov *app, rr_time now)
{
	run_ops(sh, app, NULL, now);
}

void rr_drv_begin(struct rr_share *sh, rr_time now)
{
	rr_eng_window(sh->eng, sh->qp->ops->window(sh->qp));
	if (rr_drv_run(sh, now))
		rr_drv_kick(sh);
}

bool rr_drv_send_plain(struct rr_share *sh, const struct rr_eng_out *out,
		       const struct rr_app_iov *app, rr_time now)
{
	uint8_t hdr[RR_ENG_PLAIN_HDR];
	struct rr_op op = {
		.buf = RR_BUF_APP, .len = out->len, .hdr = hdr, .hdr_len = sizeof(hdr)
	};

	if (!rr_eng_send_plain(sh->eng, out, now, hdr))
		return false;
	app->iov[0] = (struct iovec){ hdr, sizeof(hdr) };
	post_send(sh, &op, app->iov, app->n, now);
	return true;
}

/* Is it a plain message? Then it goes to the app at once. */
static bool received_plain(struct rr_share *sh, const struct rr_wc *wc, rr_time now)
{
	struct rr_rx_ent e = {
		.from = RR_FROM_RECV, .since = now, .ref = (uint32_t)wc->cookie
	};
	struct rr_rpc rpc;

	if (wc->has_imm || wc->has_inv ||
	    !rr_eng_recv_plain(sh->eng, wc->buf, wc->len, now, &rpc))
		return false;
	e.ptr = wc->buf + RR_ENG_PLAIN_HDR;
	e.len = wc->len - RR_ENG_PLAIN_HDR;
	e.reply = rpc.type == RR_RPC_REPLY;
	deliver(sh, &rpc, &e);
	return true;
}

static void advanced(struct rr_share *sh, const struct rr_wc *wc, rr_time now)
{
	struct rr_advance a;

	if (!(sh->ep.caps & RR_CAP_ADVANCES) || !rr_advance_get(wc->buf, wc->len, &a) ||
	    !rr_stream_advance(sh, &a, now))
		rr_drv_fail(sh, ECONNRESET, RR_R_PROTOCOL);
}

static void hatched(struct rr_share *sh, const struct rr_wc *wc)
{
	struct rr_advances *ahead = &sh->tables->ahead;

	if (!rr_stream_hatch(sh))
		return;
	if (wc->len && (!(sh->ep.caps & RR_CAP_ADVANCES) ||
			!rr_advances_get(wc->buf, wc->len, ahead)))
		return rr_drv_fail(sh, ECONNRESET, RR_R_PROTOCOL);
	rr_eng_hatched(sh->eng);
	rr_stream_hatch_in_turn(sh);
}

static void received(struct rr_share *sh, const struct rr_wc *wc, rr_time now)
{
	if (unlikely(wc->has_inv))
		rr_expose_key_gone(sh, wc->inv_handle);
	if (likely(!wc->has_imm)) {
		if (sh->delays || unlikely(sh->pulls_short))
			sh->tables->recv_at[wc->cookie % RR_RECVS] = wc->buf;
		rr_eng_recv(sh->eng, (uint32_t)wc->cookie, wc->buf, wc->len,
			    wc->has_inv ? wc->inv_handle : 0, now);
		run_ops(sh, &no_app, wc, now);
		if (unlikely(sh->fences) && wc->cookie < RR_RECVS)
			sh->tables->recv_at[wc->cookie] = wc->buf;
		return;
	}
	if (wc->imm == RR_IMM_HATCH)
		hatched(sh, wc);
	if (wc->imm == RR_IMM_ADVANCE)
		advanced(sh, wc, now);
	if (wc->imm == RR_IMM_NOTE) {	/* the anchor has something to say */
		rr_rx_look_again(sh);
		rr_hint(sh, RR_HINT_IN);
	}
	if ((wc->imm & 0xffff0000u) == RR_IMM_CROSS)
		rr_cross_told(sh, wc->imm);
	/* After the hatch an app sleeps in the kernel, where it would not hear RR_IMM_BACK. */
	sh->called_back |= wc->imm == RR_IMM_BACK ||
			   (wc->imm == RR_IMM_HATCH && !rr_conn_shareable(sh));
	sh->qp->ops->repost(sh->qp, wc->cookie);
}

/* A work request has completed. A message for a peer that is gone counts as sent, and bytes
 * that were to come from it do not come any more. */
static void completed(struct rr_share *sh, const struct rr_wc *wc, rr_time now)
{
	uint32_t which = (uint32_t)wc->cookie;
	int status = wc->status;

	if (unlikely(wc->op == RR_WC_PROBE))
		return rr_keep_answer(sh, status);
	if (status == -ECONNRESET) {
		rr_drv_lost(sh);
		status = 0;
	}
	switch (wc->cookie >> 32) {
	case RR_FOR_ENGINE:
		rr_eng_done(sh->eng, which, status, now);
		break;
	case RR_FOR_PULL:
		rr_pull_read(sh, which, wc->status, now);
		break;
	case RR_FOR_FENCE:
		rr_expose_fenced(sh, which, now);
		break;
	default:
		break;
	}
}

void rr_drv_drain(struct rr_share *sh)
{
	sh->rung = false;
	if (!rr_link_is_lost(sh) && sh->qp->ops->drain(sh->qp) < 0)
		rr_drv_lost(sh);
}

/* A Send of the connection's own has been posted, if rc is not negative: the engine counts its
 * own only. */
static int said_own(struct rr_share *sh, int rc)
{
	if (rc >= 0)
		rr_eng_window(sh->eng, sh->qp->ops->window(sh->qp));
	return rc;
}

int rr_drv_say(struct rr_share *sh, uint32_t imm)
{
	return said_own(sh, sh->qp->ops->send_imm(sh->qp, imm, 0));
}

int rr_drv_say_more(struct rr_share *sh, uint32_t imm, const void *note, uint32_t len)
{
	return said_own(sh, sh->qp->ops->send_note(sh->qp, imm, note, len));
}

int rr_drv_hint(struct rr_share *sh, uint32_t imm, const void *note, uint32_t len)
{
	uint32_t recvs = sh->qp->peer_recvs;

	if (sh->qp->ops->window(sh->qp) <= recvs - recvs / 8)
		return -EAGAIN;
	return rr_drv_say_more(sh, imm, note, len);
}

void rr_drv_probe(struct rr_share *sh)
{
	rr_keep_asked(sh, sh->qp->ops->probe ? sh->qp->ops->probe(sh->qp) : -EOPNOTSUPP);
}

/* Messages wait for memory to be fetched into. That memory may be held only by calls that the
 * peer has read, and the peer may not answer them before its own message has got through. */
static RR_NOINLINE void pull_short(struct rr_share *sh, rr_time now)
{
	uint32_t used;

	rr_pull_again(sh, now);
	if (!sh->pulls_short)
		return;
	used = sh->pool.used;
	rr_drv_reclaim(sh);
	if (sh->pool.used < used)
		rr_pull_again(sh, now);
}

static void take_in(struct rr_share *sh, const struct rr_wc *wc, int n, rr_time now)
{
	bool plain = true;

	for (int i = 0; i < n; i++) {
		if (rr_cap_asked() && wc[i].op == RR_WC_RECV && !wc[i].has_imm)
			rr_tap_received(sh, &wc[i]);
		if (likely(wc[i].op == RR_WC_RECV && received_plain(sh, &wc[i], now)))
			continue;
		plain = false;
		if (wc[i].op == RR_WC_RECV)
			received(sh, &wc[i], now);
		else
			completed(sh, &wc[i], now);
	}
	if (unlikely(!plain))
		rr_drv_run(sh, now);
}

/* Takes in no more than may have been there when it began: a peer that keeps sending what leads
 * to nothing must not keep this thread in here. Its next messages are found by whoever is about
 * to sleep. */
rr_time rr_drv_progress(struct rr_share *sh)
{
	uint32_t rounds = 1 + sh->qp->recvs / RR_POLL_BATCH;
	const struct rr_prov_ops *ops = sh->qp->ops;
	struct rr_wc wc[RR_POLL_BATCH];
	rr_time now = 0;
	bool ran = false;	/* operations ran that the peer may be asleep for */
	int n = 0;

	/* A process may have died in the middle of changing it. */
	if (unlikely(rr_link_is_dead(sh)))
		return 0;
	for (; rounds && !rr_link_is_dead(sh) && rr_rx_has_room(sh, RR_POLL_BATCH); rounds--) {
		n = ops->poll(sh->qp, wc, RR_POLL_BATCH);
		if (n <= 0)
			break;
		now = rr_now_coarse();
		rr_rx_count(sh, (uint32_t)n);
		rr_idle_used(sh, now);
		atomic_store_explicit(&sh->active, now, memory_order_relaxed);
		if (now != sh->cpu_told)
			rr_tell_cpu(sh, now);
		take_in(sh, wc, n, now);
		if (n < RR_POLL_BATCH)
			break;
	}
	if (unlikely(sh->pulls_short)) {
		now = now ? now : rr_now_coarse();
		pull_short(sh, now);
		ran |= rr_drv_run(sh, now);
	}
	if (unlikely(n < 0 && !rr_link_is_lost(sh))) {
		if (n == -ECONNRESET)
			rr_drv_lost(sh);
		else
			rr_drv_broken(sh, n);
		if (!rr_drv_direct(sh)) {
			rr_expose_all_fenced(sh, rr_now_coarse());
			ran |= rr_drv_run(sh, rr_now_coarse());
		}
	}
	if (unlikely(!rr_eng_writable(sh->eng) || rr_stream_waits(sh))) {
		rr_eng_window(sh->eng, ops->window(sh->qp));
		ran |= rr_drv_run(sh, now ? now : rr_now_coarse());
		if (!rr_eng_writable(sh->eng) || (rr_stream_waits(sh) && !rr_stream_room(sh)))
			rr_drv_reclaim(sh);
	}
	if (unlikely(rr_eng_deadline(sh->eng) != RR_TIME_NEVER)) {
		if (!now)
			now = rr_now_coarse();
		if (now >= rr_eng_deadline(sh->eng)) {
			rr_eng_tick(sh->eng, now);
			ran |= rr_drv_run(sh, now);
		}
	}
	if (unlikely(rr_rx_is_crowded(sh)))
		rr_drv_stash(sh, now ? now : rr_now_coarse());
	if (n > 0 || ran)
		ops->kick(sh->qp);
	rr_calls_unsee(sh);
	return now;
}

/* Copies one message that holds a receive into our own memory. False: there is no room. */
static bool stash_one(struct rr_share *sh, struct rr_rx_ent *e)
{
	struct rr_rx_ent was;
	int64_t buf;
	size_t off = 0;

	if (!rr_budget_stash(sh, e->len))
		return false;
	buf = rr_pool_alloc(&sh->pool, e->len);
	if (buf < 0)
		return false;
	while (off < e->len) {
		size_t room;
		uint8_t *to = rr_pool_at(&sh->pool, (uint32_t)buf, off, &room);
		size_t take = rr_min(room, e->len - off);

		if (e->from == RR_FROM_RECV) {
			memcpy(to, e->ptr + off, take);
		} else if (rr_pull_entry(sh, e, (uint32_t)off, to, (uint32_t)take) < 0) {
			rr_pool_free(&sh->pool, (uint32_t)buf);
			return false;
		}
		off += take;
	}
	was = *e;
	rr_stream_moved(sh, e, (uint32_t)buf);
	if (was.from == RR_FROM_RECV)
		rr_drv_repost(sh, was.ref);
	else if (was.from == RR_FROM_PULL)
		rr_drv_pull_done(sh, was.ref, 0);
	rr_count(sh->qp->count, RR_C_copied, e->len);
	return true;
}

/* The last of the *n entries of the message that begins with the ith. NULL: it is not complete,
 * or there is none. */
static const struct rr_rx_ent *message_at(struct rr_share *sh, uint32_t i, uint32_t *n)
{
	const struct rr_rx_ent *e;

	*n = 0;
	do
		e = rr_rx_nth(sh, i + (*n)++);
	while (e && e->piece == RR_PIECE_MORE);
	return e;
}

/* The same for a message of n entries, the pieces first: they lie in memory that the peer keeps
 * for the last one. */
static bool stash_message(struct rr_share *sh, uint32_t i, uint32_t n)
{
	struct rr_rx_ent *e;

	for (; n && (e = rr_rx_nth(sh, i)); i++, n--)
		if (!e->stashed && !stash_one(sh, e))
			return false;
	return true;
}

/* A slow app must not keep the receives that control messages and other replies need, nor a
 * responder's memory. So messages that wait for the app are moved into our own memory, within a
 * budget.
 *
 * This happens when half of the receives are held, and not after some time: until then an
 * unread reply stays with its responder, just as unread bytes stay in a socket buffer, and
 * pulling it before the app reads would copy it once more. The draft of reliable replies sets
 * no time for a pull; it lets the responder take a chunk back, and ours does so after
 * done_timeout_s. */
void rr_drv_stash(struct rr_share *sh, rr_time now)
{
	const struct rr_rx_ent *e;
	uint32_t n;

	for (uint32_t i = 0; (e = message_at(sh, i, &n)); i += n) {
		bool slot = (e->from == RR_FROM_RECV || e->from == RR_FROM_PULL) &&
			    rr_rx_is_crowded(sh);
		bool stale = e->from == RR_FROM_PULL && e->reply && now - e->since > STALE_PULL;

		if ((slot || stale) && !stash_message(sh, i, n))
			return;
	}
	rr_drv_kick(sh);
}

void rr_drv_stash_first(struct rr_share *sh)
{
	uint32_t n;
	const struct rr_rx_ent *e = message_at(sh, 0, &n);

	if (e && e->from == RR_FROM_PULL)
		stash_message(sh, 0, n);
}

void rr_drv_pull_done(struct rr_share *sh, uint32_t pull, int status)
{
	rr_time now = rr_now_coarse();

	rr_pull_done(sh, pull, status, now);
	rr_drv_run(sh, now);
}
