/* SPDX-License-Identifier: BSD-3-Clause */

/* The engine's entrances: which operation comes next, and which file handles each event. What a
 * message means is decided in the files that engine_int.h lists. */

#include "core/engine/engine_int.h"
#include "core/wire/cursor.h"

static bool take_failure(struct rr_eng *e, struct rr_op *op)
{
	if (e->told)
		return false;
	e->told = true;
	op->code = RR_OP_FAIL;
	op->why = e->failed;
	return true;
}

/* What was queued, and what has arrived completely, is still handed out when the connection
 * fails. */
bool rr_eng_next_op(struct rr_eng *e, struct rr_op *op)
{
	if (rr_eng_nothing_to_do(e))
		return false;
	*op = (struct rr_op){ .buf = RR_BUF_NONE };
	if (rr_eng_next_queued(e, op) || rr_in_next_op(e, op))
		return true;
	if (unlikely(e->failed))
		return take_failure(e, op);
	if (rr_ctl_next_op(e, op) || rr_tx_next_op(e, op))
		return true;
	/* A header that cannot be encoded has just failed the connection. */
	return unlikely(e->failed) && take_failure(e, op);
}

/* --- events ---------------------------------------------------------------------------- */

/* The app's message was refused and waits for room. */
static void stall(struct rr_eng *e, bool call)
{
	e->stalled = true;
	e->stalled_call = call;
	if (call)
		rr_req_stalled(e);
}

int rr_eng_send(struct rr_eng *e, const struct rr_eng_out *out, rr_time now)
{
	int rc;

	e->now = now;
	if (unlikely(e->failed))
		return -ECONNRESET;
	if (unlikely(out->len > e->p.max_msg))
		return -EMSGSIZE;
	if (unlikely(e->opening) ||
	    (unlikely(e->unsent.head) && rr_eng_is_short(e, out->rpc.type, out->len)))
		/* its bytes may be in the app's memory: at once or not at all */
		rc = -EAGAIN;
	else
		rc = out->rpc.type == RR_RPC_CALL ? rr_req_send(e, out) : rr_resp_send(e, out);
	e->stalled = false;
	if (unlikely(rc == -EAGAIN))
		stall(e, out->rpc.type == RR_RPC_CALL);
	return rc;
}

static bool room_for(const struct rr_eng *e, bool call)
{
	if (e->failed)
		return true;	/* the app must fetch the error */
	if (e->unsent.head || e->opening)
		return false;
	return call ? rr_req_writable(e) : rr_resp_writable(e);
}

bool rr_eng_writable(const struct rr_eng *e)
{
	return room_for(e, e->stalled ? e->stalled_call : e->p.connector);
}

/* A peer with which reliable replies are agreed sends no chunk except at Position Zero. */
bool rr_eng_may_pull(const struct rr_eng *e, bool together)
{
	return !(together && e->reliable) && (e->pulls || rr_resp_takes_chunks(e));
}

uint32_t rr_eng_shown(const struct rr_eng *e)
{
	return e->shown.used;
}

/* A peer of plain messages gets no chunks at other positions, and none are offered to it. */
bool rr_eng_exposes(const struct rr_eng *e, const struct rr_rpc *rpc, uint32_t len)
{
	if (!e->simple || (uint64_t)len + e->hdr.min <= e->p.inline_send)
		return false;
	return rpc->type == RR_RPC_CALL ? rr_req_may_use_chunks(e) && !e->reads_barred :
	       rr_resp_exposes(e, rpc->xid);
}

bool rr_eng_would_take(struct rr_eng *e, uint32_t type, rr_time now)
{
	bool call = type == RR_RPC_CALL, yes = room_for(e, call);

	e->now = now;
	if (!yes)
		stall(e, call);
	return yes;
}

/* Is it a MSG without chunks? RR_ENG_RX_HEAD bytes of the header are there. */
static bool has_no_chunks(const struct rr_eng *e, const uint8_t *h)
{
	const uint8_t *lists = h + e->traits->lists;

	return (rr_be32(h + 12) | rr_be32(lists) | rr_be32(lists + 4) |
		rr_be32(lists + 8)) == 0;
}

/* Copies what will be judged, because the peer may still write to buf: all of a header with
 * chunks; of a message without chunks only what is looked at. */
static uint32_t snapshot(struct rr_eng *e, const uint8_t *buf, uint32_t len)
{
	uint32_t n = rr_min(len, RR_ENG_RX_HEAD);

	memcpy(e->tmp->rxbuf, buf, n);
	if (n == len || has_no_chunks(e, e->tmp->rxbuf))
		return n;
	n = rr_min(len, RR_ENG_RX_MAX);
	memcpy(e->tmp->rxbuf, buf, n);
	return n;
}

/* req: rfc8166 4.6.1 #2 */
static void dispatch(struct rr_eng *e, struct rr_in *in, const uint8_t *live, uint32_t len,
		     uint32_t have)
{
	const struct rr_msg *m = &e->tmp->rx;

	switch (m->type) {
	case RR_MSG:
		rr_in_msg(e, in, m, live, len, have);
		break;
	case RR_MSGP:
		if (e->traits->padding)
			rr_in_msg(e, in, m, live, len, have);
		else	/* RFC 8166 §4.6.1 */
			rr_in_refuse(e, in, m->dir, RR_ERR_CHUNK);
		break;
	case RR_NOMSG:
		rr_in_nomsg(e, in, m);
		break;
	case RR_ERROR:
		rr_ctl_error_received(e, in, m);
		break;
	case RR_DONE:
		rr_rel_done_received(e, in);
		break;
	case RR_HTYPE_OTHER:
	case RR_CONNPROP:
		rr_in_refuse(e, in, m->dir, RR_ERR_CHUNK);
		break;
	}
}

/* A Send With Invalidate has really taken a key away, whatever the message says. This is
 * checked now: a key that is made later is another one, even if it has the same number. */
/* req: reliable-reply-00 - #9 */
static bool key_is_gone(struct rr_eng *e, uint32_t handle)
{
	return rr_req_key_gone(e, handle) || rr_rel_key_gone(e, handle);
}

/* req: rfc8166 4.5.2 #1 */
/* Notes what an answer to this header has to say. The codec's limits are those of its tables;
 * ours may be lower. */
/* req: version-two-08 4.1 #1 #2, 5.2 #2, 5.3.3 #3 #4 #5 */
static void name_fault(const struct rr_eng *e, struct rr_in *in, enum rr_wire_rc rc)
{
	uint32_t most = e->tmp->rx.err == RR_ERR_SEGMENTS ? e->p.max_segs : e->p.max_chunks;

	if (!e->traits->full_errors)
		rr_in_wrong(in, rc == RR_WIRE_BAD_VERS ? RR_ERR_VERS : RR_ERR_CHUNK, 0, 0);
	else if (rc == RR_WIRE_TOO_MANY)
		rr_in_wrong(in, e->tmp->rx.err, rr_min(e->tmp->rx.limit, most), 0);
	else
		rr_in_wrong(in, e->tmp->rx.err, 0, 0);
}

void rr_eng_recv(struct rr_eng *e, uint32_t token, const uint8_t *buf, uint32_t len,
		 uint32_t inv, rr_time now)
{
	enum rr_wire_rc rc;
	struct rr_in *in;
	uint32_t have;

	e->now = now;
	if (unlikely(e->failed))
		return;
	if (unlikely(inv) && !key_is_gone(e, inv)) {
		rr_eng_fail(e, RR_WHY_PROTOCOL);
		return;
	}
	in = rr_in_new(e, token);
	if (unlikely(!in)) {
		rr_eng_fail(e, RR_WHY_OVERRUN);
		return;
	}
	have = snapshot(e, buf, len);
	if (unlikely(e->opening))
		rr_open_version(e, e->tmp->rxbuf, have);
	rc = e->codec->decode(e->tmp->rxbuf, have, &e->tmp->rx);
	if (unlikely(rc == RR_WIRE_DISCARD)) {
		rr_in_discard(e, in);
		return;
	}
	in->n.xid = e->tmp->rx.xid;
	in->vers = e->tmp->rx.vers;
	in->credit = e->tmp->rx.credit;
	in->dir = e->tmp->rx.dir;
	if (unlikely(e->opening || e->tmp->rx.type == RR_CONNPROP) &&
	    rr_open_heard(e, in, rc, have))
		return;
	if (likely(rc == RR_WIRE_OK)) {
		dispatch(e, in, buf, len, have);
		return;
	}
	if (rc == RR_WIRE_TOO_MANY)
		rr_eng_count(e, RR_C_chunk_limits);
	name_fault(e, in, rc);
	rr_in_unfit(e, in, in->dir);
}

/* Some of the window is reserved for control messages: a peer whose app does not read must
 * still be told DONE, or neither side gets on. */
void rr_eng_window(struct rr_eng *e, uint32_t sends)
{
	e->window = sends;
	e->paced = true;
	if (likely(sends <= e->window_max))
		return;
	e->window_max = sends;
	e->reserve = sends < 2 ? 0 : rr_max(rr_min(sends / 4, RR_ENG_CONTROL), 1u);
}

void rr_eng_hatched(struct rr_eng *e)
{
	e->hatched = true;
	e->chunk_most = 0;
}

bool rr_eng_arriving(const struct rr_eng *e)
{
	return e->arrived.head;
}

bool rr_eng_unsent(const struct rr_eng *e)
{
	return e->unsent.head;
}

rr_time rr_eng_deadline(const struct rr_eng *e)
{
	if (e->failed)
		return RR_TIME_NEVER;
	return rr_min(rr_min(e->retry_at, rr_rel_deadline(e)),
		      rr_min(rr_req_deadline(e), e->open_until));
}

static void retry_exposures(struct rr_eng *e)
{
	e->short_of_memory = false;
	e->retry_at = RR_TIME_NEVER;
}

void rr_eng_tick(struct rr_eng *e, rr_time now)
{
	e->now = now;
	if (e->failed)
		return;
	if (now >= e->retry_at)
		retry_exposures(e);
	rr_rel_tick(e);
	rr_req_tick(e);
	rr_open_tick(e);
}

/* The entry that an operation's id names; NULL: it is over. */
static void *entry_of(const struct rr_eng *e, uint32_t id, enum rr_op_kind *kind)
{
	uint16_t idx = (id >> 16) & RR_TABLE_MAX, gen = (uint16_t)id;

	*kind = (enum rr_op_kind)(id >> 28);
	switch (*kind) {
	case RR_K_SEND:
	case RR_K_WRITE:
	case RR_K_EXPOSE:
		return rr_table_find(&e->txs, idx, gen);
	case RR_K_PULL:
		return rr_table_find(&e->ins, idx, gen);
	case RR_K_INV_ARGS:
	case RR_K_INV_REPLY:
	case RR_K_INV_WRITE:
		return rr_table_find(&e->calls, idx, gen);
	case RR_K_INV_SHOWN:
		return rr_table_find(&e->shown, idx, gen);
	default:
		return NULL;
	}
}

/* req: rfc8166 4.5.4 #1 #2 */
void rr_eng_done(struct rr_eng *e, uint32_t id, int status, rr_time now)
{
	enum rr_op_kind kind;
	void *entry = entry_of(e, id, &kind);

	e->now = now;
	if (!entry || e->failed)
		return;
	if (unlikely(status < 0)) {
		rr_eng_fail_op(e, status);
		return;
	}
	if (likely(kind == RR_K_SEND || kind == RR_K_WRITE)) {
		rr_tx_done(e, entry);
		return;
	}
	retry_exposures(e);	/* memory or a key has become free */
	if (kind == RR_K_INV_SHOWN)
		rr_rel_fenced(e, entry);
	else if (kind == RR_K_INV_ARGS || kind == RR_K_INV_REPLY || kind == RR_K_INV_WRITE)
		rr_req_fenced(e, entry, kind);
}

/* --- idle ------------------------------------------------------------------------------ */

/* Lists and maps contain live entries only, so with empty tables they are empty. */
size_t rr_eng_quiet(struct rr_eng *e)
{
	struct rr_table *tables[] = { &e->calls, &e->serves, &e->shown, &e->ins, &e->txs };
	uint32_t used = e->ops_tail - e->ops_head;

	for (size_t i = 0; i < rr_array_size(tables); i++)
		used += tables[i]->used;
	if (used)
		return 0;
	for (size_t i = 0; i < rr_array_size(tables); i++)
		rr_table_reset(tables[i]);
	return sizeof(*e);
}

void rr_eng_info(const struct rr_eng *e, struct rr_eng_info *out)
{
	*out = (struct rr_eng_info){
		.granted = rr_credits_limit(&e->cr),
		.inflight = e->cr.inflight,
		.serving = e->serving,
		.exposed = e->exposed,
		.window = e->window,
		.version = e->codec->version,
		.opening = e->opening != RR_OPEN_OVER,
		.fell_back = e->fell_back,
	};
}
