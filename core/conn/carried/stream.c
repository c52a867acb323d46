/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts between the app's byte stream and whole RPC messages. Under the connection's lock.
 *
 * Outbound, what is accepted is posted: the write that brings a record's last byte takes that
 * byte only if the message can be sent now. So nothing that the app has handed over waits in
 * this process, and nothing is lost when it exits. A record that lies whole in the app's memory
 * goes straight from there into the peer's receive; others are collected in chunk memory.
 *
 * Inbound, a message becomes a record of one fragment. Its bytes are copied once, from where
 * they lie (a receive, our memory, the peer's memory), into the app's buffer.
 *
 * Chunks, credits and headers are the engine's; posting is driver.c's. */

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/diag.h"
#include "core/base/os.h"
#include "core/conn/carried/carried.h"

/* --- outbound ------------------------------------------------------------------------ */

static void sent(struct rr_share *sh)
{
	sh->tx.records++;
	if (unlikely(sh->trimmed))
		/* A connection that only sends would otherwise never be looked at. */
		rr_idle_wake(sh, rr_now_coarse());
}

/* The app may answer a call of which it has read only the header, and with the reply the peer
 * takes its memory back: what has not been read is fetched first. False: it has yet to come. */
static RR_NOINLINE bool reply_leaves_call(struct rr_share *sh, uint32_t xid)
{
	if (rr_rx_is_ahead(sh) && sh->rx.ahead.xid == xid)
		rr_drv_progress(sh);
	if (rr_rx_is_ahead(sh) && sh->rx.ahead.xid == xid)
		return false;
	rr_drv_stash_first(sh);
	return true;
}

/* Gives a message to the engine. If the engine does not take it, processes what has arrived and
 * tries again; and once more, because the first attempt may have made the engine fence what a
 * forgotten call had exposed. Returns 0; 1: the message can no longer go from the app's memory;
 * -EALREADY: it answers a call that is not complete; or what rr_eng_send() returns. */
static int engine_send(struct rr_share *sh, const struct rr_eng_out *out,
		       const struct rr_app_iov *app)
{
	/* Only short messages go from the app's memory. */
	bool is_short = app || rr_eng_is_short(sh->eng, out->rpc.type, out->len);
	rr_time now = is_short ? sh->active : rr_now_coarse();
	int rc;

	if (unlikely(sh->rx.off || sh->rx.begun) && out->rpc.type == RR_RPC_REPLY &&
	    !reply_leaves_call(sh, out->rpc.xid))
		return -EALREADY;
	if (likely(app) && rr_drv_send_plain(sh, out, app, now)) {
		if (rr_cap_asked())
			rr_tap_sent(sh, out, app);
		rr_calls_sent(sh, out);
		sent(sh);
		return 0;
	}
	rc = rr_eng_send(sh->eng, out, now);
	for (int i = 0; unlikely(rc == -EAGAIN) && i < 2; i++) {
		now = rr_now_coarse();
		rr_drv_run(sh, now);
		rr_drv_progress(sh);
		rr_drv_reclaim(sh);
		if (app && !rr_eng_is_short(sh->eng, out->rpc.type, out->len))
			return 1;
		rc = rr_link_is_dead(sh) ? -ECONNRESET : rr_eng_send(sh->eng, out, now);
	}
	if (unlikely(rc == -EAGAIN))
		rr_count(sh->qp->count, RR_C_credit_stalls, 1);
	if (rc)
		return rc;
	/* Counted before the message is posted: after that the buffer may be another
	 * message's. */
	rr_calls_sent(sh, out);
	if (rr_cap_asked())
		rr_tap_sent(sh, out, app);
	if (app)
		rr_drv_run_app(sh, app, now);
	else
		rr_drv_run(sh, now);
	sent(sh);
	return 0;
}

/* A message goes from the app's memory only if it lies in fewer pieces than this. */
#define APP_PIECES	17

/* If a whole short record lies at the cursor, sends it from there. 0: sent; 1: there is no such
 * record; -EAGAIN; or why it cannot be carried: -EMSGSIZE; -EPROTO: it is not ONC RPC;
 * -EALREADY: see engine_send(). */
static int send_short(struct rr_share *sh, struct rr_iov *c)
{
	uint8_t head[RR_RM_HDR + RR_RPC_PEEK];
	struct iovec piece[1 + APP_PIECES];
	struct rr_app_iov app = { piece, 1 };
	struct rr_eng_out out = { .buf = RR_BUF_APP };
	const uint8_t *p = head;
	uint32_t mark;
	size_t n;
	int rc;

	if (c->left < RR_RM_HDR)
		return 1;
	if (likely(c->n == 1)) {
		p = (const uint8_t *)c->iov->iov_base + c->skip;
		n = c->left;
	} else {
		n = rr_iov_piece(c, &p);
	}
	if (n < sizeof(head)) {
		n = rr_iov_copy(head, sizeof(head), c->iov, c->n, c->skip);
		p = head;
	}
	mark = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	out.len = mark & ~RR_RM_LAST;
	if (!(mark & RR_RM_LAST) || c->left < (size_t)RR_RM_HDR + out.len)
		return 1;
	if (!rr_rpc_peek(p + RR_RM_HDR, (uint32_t)rr_min(n - RR_RM_HDR, (size_t)out.len),
			 &out.rpc))
		return -EPROTO;
	if (!rr_eng_is_short(sh->eng, out.rpc.type, out.len))
		return 1;
	out.head = p + RR_RM_HDR;
	out.have = (uint32_t)rr_min(n - RR_RM_HDR, (size_t)out.len);
	if (likely(c->n == 1))
		piece[app.n++] = (struct iovec){
			(uint8_t *)c->iov->iov_base + c->skip + RR_RM_HDR, out.len
		};
	else
		app.n += rr_iov_cut(c->iov, c->n, c->skip + RR_RM_HDR, out.len, piece + 1,
				    APP_PIECES);
	if (app.n == 1 + APP_PIECES)
		return 1;	/* there may be more pieces */
	rc = engine_send(sh, &out, &app);
	if (rc == 0)
		rr_iov_skip(c, RR_RM_HDR + (size_t)out.len);
	return rc;
}

/* Would the record that begins at the cursor be accepted, once the app has written its end? */
static bool would_take(struct rr_share *sh, const struct rr_iov *c)
{
	uint32_t type = sh->ep.connector ? RR_RPC_CALL : RR_RPC_REPLY;
	uint8_t head[RR_RM_HDR + 8];	/* up to the message's type */

	if (rr_iov_copy(head, sizeof(head), c->iov, c->n, c->skip) == sizeof(head))
		type = head[sizeof(head) - 1];
	return rr_stream_may_begin(sh) && rr_eng_would_take(sh->eng, type, rr_now_coarse());
}

/* Sends the complete record in tx.buf. Returns as send_short(). */
static int submit(struct rr_share *sh)
{
	struct rr_eng_out out = { .buf = sh->tx.buf, .len = sh->tx.len };
	size_t room;

	if (sh->tx.buf == RR_BUF_NONE)
		return -EPROTO;	/* an empty record */
	out.head = rr_pool_at(&sh->pool, sh->tx.buf, 0, &room);
	out.have = (uint32_t)rr_min(room, (size_t)out.len);
	if (!rr_rpc_peek(out.head, out.have, &out.rpc))
		return -EPROTO;
	return engine_send(sh, &out, NULL);
}

/* Makes room for `need` payload bytes of the current record. */
static int make_room(struct rr_share *sh, size_t need)
{
	int rc;

	if (need > sh->ep.max_msg)
		return -EMSGSIZE;
	rc = rr_stream_try_room(sh, need);
	if (rc == -EAGAIN) {
		rr_drv_progress(sh);
		rr_drv_reclaim(sh);
		rc = rr_stream_try_room(sh, need);
	}
	if (rc == -EAGAIN)
		rr_count(sh->qp->count, RR_C_memory_stalls, 1);
	sh->tx.want = rc == -EAGAIN ? (uint32_t)need : 0;
	return rc == -ENOMEM ? -EMSGSIZE : rc;
}

static void collect(struct rr_share *sh, const uint8_t *p, size_t n)
{
	rr_count(sh->qp->count, RR_C_copied, n);
	if (n >= RR_LARGE)
		rr_tell_moved(sh);
	while (n) {
		size_t room;
		uint8_t *to = rr_pool_at(&sh->pool, sh->tx.buf, sh->tx.len, &room);
		size_t take = rr_min(room, n);

		memcpy(to, p, take);
		sh->tx.len += (uint32_t)take;
		p += take;
		n -= take;
	}
}

/* The state that a write may have to go back to. */
struct snap {
	struct rr_rm rm;
	uint32_t len, frag_at, frag_mark;
	struct rr_iov at;
};

static struct snap snap_here(const struct rr_share *sh, const struct rr_iov *c)
{
	const struct rr_told *t = &sh->tables->told;

	return (struct snap){ sh->tx.rm, sh->tx.len, t->frag_at, t->frag_mark, *c };
}

/* Takes the next bytes of a record that is being collected, from p, where the cursor c stands.
 * 0: go on; 1: a record has ended; -errno: this step has taken nothing. */
static int collect_step(struct rr_share *sh, struct rr_iov *c, const uint8_t *p, size_t have)
{
	struct rr_tx *tx = &sh->tx;
	struct rr_rm before = tx->rm;
	size_t n;
	enum rr_rm_what what = rr_rm_next(&tx->rm, p, have, &n);
	int rc;

	if (what == RR_RM_FRAGMENT) {
		rc = tx->rm.left ? make_room(sh, (size_t)tx->len + tx->rm.left) : 0;
		if (rc == -EAGAIN) {
			tx->rm = before;
			return rc;
		}
		rr_iov_skip(c, n);
		if (rc)
			return rc;
		sh->tables->told.frag_at = tx->len;
		sh->tables->told.frag_mark = tx->rm.left | (tx->rm.last ? RR_RM_LAST : 0);
		if (!tx->rm.last || tx->rm.left)
			return 0;
		/* an empty last fragment ends the record */
		what = rr_rm_next(&tx->rm, NULL, 0, &n);
		return what == RR_RM_RECORD;
	}
	if (what != RR_RM_MORE)
		collect(sh, p, n);
	rr_iov_skip(c, n);
	return what == RR_RM_RECORD;
}

static void record_done(struct rr_share *sh)
{
	sh->tx.buf = RR_BUF_NONE;
	sh->tx.len = 0;
	sh->tables->told = (struct rr_told){ 0 };
}

/* Goes back to the state `was`: the bytes taken since then are the app's again. */
static void take_bytes_back(struct rr_share *sh, struct rr_iov *c, const struct snap *was)
{
	sh->tx.rm = was->rm;
	sh->tx.len = was->len;
	sh->tables->told.frag_at = was->frag_at;
	sh->tables->told.frag_mark = was->frag_mark;
	*c = was->at;
	/* Within a fragment whose mark came with an earlier call, the room for its bytes
	 * stays. */
	if (sh->tx.len == 0 && !sh->tx.rm.left && sh->tx.buf != RR_BUF_NONE) {
		/* It may have a key, although no note could be sent. */
		rr_expose_drop(sh, sh->tx.buf);
		record_done(sh);
	}
}

static bool not_carriable(int rc)
{
	return rc == -EMSGSIZE || rc == -EPROTO || rc == -EALREADY;
}

/* Opens the hatch. -EMSGSIZE: from here on the app's bytes are the kernel's; or why that is not
 * possible. */
static int to_tcp(struct rr_share *sh, int rc)
{
	rc = rr_hatch_open(sh, rc == -EPROTO ? RR_R_NOT_RPC :
			   rc == -EALREADY ? RR_R_ANSWERED_EARLY : RR_R_TOO_LARGE);
	return rc ? rc : -EMSGSIZE;
}

/* Collects until the data ends, a record was sent, or it cannot go on. If the record cannot be
 * carried, the bytes of this call go back to the app: it has yet to write the rest of the
 * record, and that write also pushes out what was collected earlier (rr_hatch_flush()). */
static int send_collected(struct rr_share *sh, struct rr_iov *c)
{
	struct snap was = snap_here(sh, c);
	const uint8_t *p;
	size_t have;

	while ((have = rr_iov_piece(c, &p)) > 0) {
		int rc = collect_step(sh, c, p, rr_min(have, (size_t)RR_LARGE));
		bool ended = rc == 1;

		if (ended)
			rc = submit(sh);
		if (not_carriable(rc) || (ended && rc == -EAGAIN)) {
			take_bytes_back(sh, c, &was);
			return rc == -EAGAIN ? rc : to_tcp(sh, rc);
		}
		if (rc)
			return rc;
		if (ended) {
			record_done(sh);
			return 0;
		}
		if (rr_advance_tell(sh))
			was = snap_here(sh, c);
	}
	return 0;
}

/* The peer is gone. Unless it has reset the connection, the first write still succeeds, as on
 * TCP, where only the peer's answer is the reset: servers that do not handle SIGPIPE rely on
 * that. */
static ssize_t to_nobody(struct rr_share *sh, int fd, size_t total)
{
	rr_anchor_check(sh, fd, rr_now_coarse());
	if (sh->err)
		return -rr_stream_error(sh);
	if (rr_stream_peer_unsure(sh))
		return -EAGAIN;
	return rr_link_void(sh) ? (ssize_t)total : -EPIPE;
}

/* Handles what has to come before the app's bytes can go by RDMA. RR_CROSSED: they can now;
 * else the result for the app. */
static RR_NOINLINE ssize_t send_unusual(struct rr_share *sh, int fd, const struct iovec *iov,
					int n, size_t total)
{
	if (rr_rx_is_early(sh) && !rr_tx_is_early(sh) && rr_anchor_poll(fd, 0) & POLLERR)
		rr_cross_error(sh, fd);
	if (sh->err)
		return -rr_stream_error(sh);
	rr_hatch_answer(sh);
	if (rr_tx_is_early(sh)) {
		ssize_t rc = rr_cross_send(sh, fd, iov, n, 0);

		if (rc != RR_CROSSED)
			return rc;
	}
	if (rr_tx_is_tcp(sh))
		return rr_hatch_flush(sh, fd);
	if (rr_link_is_dead(sh) || rr_rx_is_reset(sh) || rr_tx_is_shut(sh))
		return -EPIPE;
	if (rr_link_is_lost(sh) && total)
		return to_nobody(sh, fd, total);
	return RR_CROSSED;
}

ssize_t rr_stream_send(struct rr_share *sh, int fd, const struct iovec *iov, int n)
{
	size_t total = rr_iov_total(iov, n);
	struct rr_iov c = rr_iov_begin(iov, n, total);
	int rc = 0;

	if (unlikely(!rr_stream_is_usual(sh))) {
		ssize_t sent = send_unusual(sh, fd, iov, n, total);

		if (sent != RR_CROSSED)
			return sent;
	}
	if (!total)
		return 0;
	while (c.left && rc == 0) {
		if (likely(rr_rm_at_boundary(&sh->tx.rm))) {
			rc = send_short(sh, &c);
			if (rc == 0)
				continue;
			if (not_carriable(rc))
				rc = to_tcp(sh, rc);
			if (rc < 0)
				break;
			/* Does not begin a record that could not end: that would copy megabytes
			 * for nothing. */
			if (!would_take(sh, &c)) {
				rr_drv_progress(sh);
				if (!would_take(sh, &c)) {
					rc = -EAGAIN;
					break;
				}
			}
		}
		rc = send_collected(sh, &c);
	}
	if (unlikely(!rr_tx_is_rdma(sh)))
		rr_diag("record that cannot be carried: TCP from here on", fd);
	rr_drv_kick(sh);
	if (c.left < total)
		return (ssize_t)(total - c.left);
	if (rc == -EMSGSIZE)
		return rr_hatch_flush(sh, fd);
	return sh->err ? -rr_stream_error(sh) : rc;
}

/* --- inbound ------------------------------------------------------------------------- */

/* Copies payload bytes [off, off+len) of a message to dst. */
static int ent_copy(struct rr_share *sh, const struct rr_rx_ent *e, uint32_t off, uint8_t *dst,
		    uint32_t len)
{
	rr_count(sh->qp->count, RR_C_copied, len);
	if (len >= RR_LARGE)
		rr_tell_moved(sh);
	switch (e->from) {
	case RR_FROM_RECV:
		memcpy(dst, e->ptr + off, len);
		return 0;
	case RR_FROM_PULL:
	case RR_RX_ADVANCE:
		return rr_pull_entry(sh, e, off, dst, len);
	default:
		while (len) {
			size_t room;
			uint8_t *p = rr_pool_at(&sh->pool, e->ref, e->off + off, &room);
			uint32_t take = (uint32_t)rr_min(room, (size_t)len);

			memcpy(dst, p, take);
			dst += take;
			off += take;
			len -= take;
		}
		return 0;
	}
}

static void ent_release(struct rr_share *sh, const struct rr_rx_ent *e)
{
	sh->rx.in_pieces -= e->piece != RR_PIECE_WHOLE;
	sh->rx.begun = e->piece == RR_PIECE_MORE;
	switch (e->from) {
	case RR_FROM_RECV:
		sh->rx.held--;
		rr_drv_repost(sh, e->ref);
		break;
	case RR_FROM_PULL:
		sh->rx.held--;
		rr_drv_pull_done(sh, e->ref, 0);
		break;
	case RR_FROM_BUF:
		if (e->stashed)
			sh->rx.stash -= e->len;
		rr_pool_free(&sh->pool, e->ref);
		break;
	}
}

/* Copies bytes [at, ...) of entry e, with its record mark, to dst[0..len). Returns how many, or
 * -errno. */
static ssize_t ent_bytes(struct rr_share *sh, const struct rr_rx_ent *e, uint32_t at,
			 uint8_t *dst, size_t len)
{
	uint32_t hdr = e->mark ? RR_RM_HDR : 0, off;
	uint8_t mark[RR_RM_HDR];
	size_t n = 0, take;
	int rc = 0;

	if (unlikely(at < e->lead)) {
		n = rr_min(len, (size_t)(e->lead - at));
		rc = ent_copy(sh, e, at, dst, (uint32_t)n);
		at += (uint32_t)n;
	}
	if (likely(at == e->lead && hdr && len - n >= RR_RM_HDR)) {
		rr_rm_put(dst + n, e->mark & ~RR_RM_LAST, e->mark & RR_RM_LAST);
		n += RR_RM_HDR;
		at += RR_RM_HDR;
	} else if (at >= e->lead && at < e->lead + hdr) {
		rr_rm_put(mark, e->mark & ~RR_RM_LAST, e->mark & RR_RM_LAST);
		while (at < e->lead + hdr && n < len)
			dst[n++] = mark[at++ - e->lead];
	}
	if (n < len && at >= e->lead + hdr && !rc) {
		off = at - hdr;
		take = rr_min(len - n, (size_t)(e->len - off));
		rc = take ? ent_copy(sh, e, off, dst + n, (uint32_t)take) : 0;
		n += take;
	}
	return rc ? rc : (ssize_t)n;
}

/* How many bytes there are from `at` on of an entry that is not a whole message. */
static size_t part_left(const struct rr_share *sh, const struct rr_rx_ent *e, uint32_t at)
{
	return e->from == RR_RX_HATCH ? 0 : rr_rx_size(e) - sh->rx.missing - at;
}

/* A place in the inbound queue. */
struct rx_pos {
	uint32_t ent;
	uint32_t off;
};

/* Fills one buffer from the queue. Returns how many bytes were copied, or -errno. */
static ssize_t fill(struct rr_share *sh, struct rx_pos *pos, uint8_t *dst, size_t len,
		    bool peek)
{
	size_t n = 0;

	while (n < len && pos->ent != sh->rx.tail) {
		struct rr_rx_ent *e = &sh->rx.ent[pos->ent % RR_RX_ENTS];
		size_t most = len - n;
		ssize_t got;

		if (unlikely(e->from >= RR_RX_PART)) {
			most = rr_min(most, part_left(sh, e, pos->off));
			if (!most)
				break;
		}
		got = ent_bytes(sh, e, pos->off, dst + n, most);
		if (got < 0)
			return n ? (ssize_t)n : got;
		n += (size_t)got;
		pos->off += (uint32_t)got;
		if (pos->off == rr_rx_size(e)) {
			if (!peek)
				ent_release(sh, e);
			pos->ent++;
			pos->off = 0;
		}
		if (!peek) {
			sh->rx.head = pos->ent;
			sh->rx.off = pos->off;
			sh->rx.bytes -= (size_t)got;
		}
	}
	return (ssize_t)n;
}

/* The app is about to read from TCP. A thread that sleeps in the kernel hears nothing by RDMA,
 * so what the peer has asked for is done first; and while our own direction is not TCP's, it
 * matters whether the provider's peer is gone. */
static ssize_t by_tcp(struct rr_share *sh, int fd)
{
	if (unlikely(rr_link_is_dead(sh) && sh->err))
		return -rr_stream_error(sh);
	rr_hatch_answer(sh);
	if (unlikely(sh->called_back))
		return -EAGAIN;
	rr_keep_leave(sh, fd);
	if (!rr_prov_matters(sh) || rr_anchor_poll(fd, POLLIN | POLLRDHUP))
		return RR_CONN_KERNEL;
	rr_hint_none(sh);
	rr_anchor_check(sh, fd, rr_now_coarse());
	return sh->err ? -rr_stream_error(sh) : -EAGAIN;
}

static ssize_t nothing_there(struct rr_share *sh, int fd)
{
	if (rr_stream_next_is_tcp(sh))
		return by_tcp(sh, fd);
	/* EPIPE means a reset after the FIN, and is for writers only. */
	if (sh->err && sh->err != EPIPE)
		return -rr_stream_error(sh);
	if (rr_link_is_dead(sh) || rr_rx_is_shut(sh) || rr_stream_is_over(sh))
		return 0;
	return -EAGAIN;
}

/* Copies what has arrived to the app. */
static ssize_t take_arrived(struct rr_share *sh, const struct iovec *iov, int n, bool peek)
{
	struct rx_pos pos = { sh->rx.head, sh->rx.off };
	size_t total = 0;
	ssize_t rc = 0;

	for (int i = 0; i < n; i++) {
		if (!iov[i].iov_len)
			continue;
		rc = fill(sh, &pos, iov[i].iov_base, iov[i].iov_len, peek);
		if (rc < 0)
			break;
		total += (size_t)rc;
		if ((size_t)rc < iov[i].iov_len)
			break;
	}
	if (!peek) {
		if (!sh->rx.bytes)
			rr_hint_read(sh);
		rr_drv_kick(sh);
		rr_idle_warm(sh);
	}
	if (rc < 0) {
		rr_drv_fail(sh, ECONNRESET, RR_R_PEER_DIED);
		return total ? (ssize_t)total : -rr_stream_error(sh);
	}
	return (ssize_t)total;
}

/* Reads what has come by TCP before the crossing, and after it what has come by RDMA. */
static ssize_t recv_early(struct rr_share *sh, int fd, const struct iovec *iov, int n,
			  int flags)
{
	struct iovec rest[APP_PIECES];
	size_t done;
	ssize_t rc = rr_cross_recv(sh, fd, iov, n, flags, &done), more = 0;

	if (rc != RR_CROSSED || !done)
		return rc;
	n = rr_iov_cut(iov, n, done, SIZE_MAX, rest, APP_PIECES);
	if (n && sh->rx.bytes)
		more = take_arrived(sh, rest, n, flags & MSG_PEEK);
	return (ssize_t)done + rr_max(more, (ssize_t)0);
}

/* RR_CROSSED: go on with what has come by RDMA. */
static RR_NOINLINE ssize_t recv_tcp(struct rr_share *sh, int fd, const struct iovec *iov, int n,
				    int flags)
{
	ssize_t rc = RR_CROSSED;

	if (rr_rx_is_early(sh))
		rc = recv_early(sh, fd, iov, n, flags);
	if (rc == RR_CROSSED && rr_rx_is_tcp(sh)) {
		rr_drv_progress(sh);
		rc = by_tcp(sh, fd);
	}
	return rc;
}

ssize_t rr_stream_recv(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags)
{
	if (unlikely(rr_rx_is_read_by_tcp(sh))) {
		ssize_t rc = recv_tcp(sh, fd, iov, n, flags);

		if (rc != RR_CROSSED)
			return rc;
	}
	if (!sh->rx.bytes)
		rr_drv_progress(sh);
	if (unlikely(!sh->rx.bytes)) {
		rr_time now = rr_now_coarse();

		rr_hint_none(sh);
		if (rr_anchor_is_due(sh, POLLRDHUP, now) || rr_link_is_lost(sh))
			rr_anchor_check(sh, fd, now);
		if (!sh->rx.bytes)
			return nothing_there(sh, fd);
	}
	return take_arrived(sh, iov, n, flags & MSG_PEEK);
}
