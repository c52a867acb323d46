/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/engine/engine_int.h"
#include "core/wire/cursor.h"

/* --- set-up ---------------------------------------------------------------------------- */

struct sizes {
	uint32_t calls, serves, ins, txs, ops, serve_segs, in_segs;
};

/* req: slides - #4; version-two-08 1 #1 */
static uint32_t asked_of(const struct rr_eng_params *p)
{
	return p->connector ? p->credits : p->bc_credits;
}

static uint32_t granted_of(const struct rr_eng_params *p)
{
	return p->connector ? p->bc_credits : p->credits;
}

/* req: rfc8166 3.3.1 #3 #4; slides - #5; draft-02 6 #1 */
uint32_t rr_eng_recvs(const struct rr_eng_params *p)
{
	const struct rr_traits *t = rr_traits_of(rr_codec_first(p->dialect));
	bool pulls = (p->caps & RR_CAP_RELIABLE_REPLY) || t->read_replies;

	/* the openings' own word comes while no other control message does: it is one of those */
	return p->credits + p->bc_credits + (pulls ? RR_ENG_SHOWN : 0) + RR_ENG_CONTROL;
}

static uint32_t bounded(uint32_t n)
{
	return rr_min(n, RR_POOL_MAX);
}

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

/* With ring credits the calls without reply are not limited by a grant; see rr_req_send(). */
static void table_sizes(const struct rr_eng_params *p, struct sizes *s)
{
	bool ring = p->caps & RR_CAP_RING_CREDITS;
	uint32_t recvs = p->recvs ? p->recvs : rr_eng_recvs(p);
	uint32_t max_segs = rr_min(p->max_segs, RR_OP_MAX_SEGS);

	s->calls = bounded(rr_max(asked_of(p), ring ? 16u : 1u));
	/* Strict, each message that is being pulled has one until its head says what it is. */
	s->serves = bounded(granted_of(p) + (ring ? 64u : asked_of(p) + 16u));
	s->ins = bounded(2 * rr_min(recvs, RR_POOL_MAX) + RR_ENG_SHOWN + 16);
	s->txs = bounded(s->calls + s->serves + 16);
	s->ops = pow2(4 * (s->calls + s->serves + s->ins + s->txs + RR_ENG_SHOWN));
	s->serve_segs = rr_min(rr_min(p->max_chunks, RR_MAX_SEGS) * max_segs, RR_MAX_SEGS);
	s->in_segs = rr_min(rr_min(p->max_chunks, RR_MAX_SEGS) * max_segs, RR_OP_MAX_SEGS);
}

static void *carve(uint8_t *base, size_t *off, size_t n)
{
	void *at = base ? base + *off : NULL;

	*off += rr_align(n, (size_t)RR_CACHELINE);
	return at;
}

static void carve_pool(struct rr_pool *pool, uint8_t *base, size_t *off, uint32_t n, size_t size)
{
	pool->n = (uint16_t)n;
	pool->stride = (uint32_t)rr_align(size, (size_t)16);
	pool->base = carve(base, off, (size_t)n * pool->stride);
}

static void carve_map(struct rr_xmap *map, uint8_t *base, size_t *off, uint32_t n)
{
	uint32_t heads = pow2(2 * n + 2);

	map->heads = carve(base, off, heads * sizeof(*map->heads));
	map->bits = (uint32_t)__builtin_ctz(heads);
}

/* The tables behind the engine at base; base NULL only reckons. */
static size_t lay_out(struct rr_eng *e, uint8_t *base, const struct rr_eng_params *p)
{
	struct sizes s;
	size_t off = 0;

	table_sizes(p, &s);
	carve(base, &off, sizeof(*e));
	carve_pool(&e->calls, base, &off, s.calls, sizeof(struct rr_call));
	carve_map(&e->call_map, base, &off, s.calls);
	carve_pool(&e->serves, base, &off, s.serves,
		   sizeof(struct rr_serve) + s.serve_segs * sizeof(struct rr_seg));
	carve_map(&e->serve_map, base, &off, s.serves);
	carve_pool(&e->shown, base, &off, RR_ENG_SHOWN, sizeof(struct rr_shown));
	carve_pool(&e->ins, base, &off, s.ins,
		   sizeof(struct rr_in) + s.in_segs * sizeof(struct rr_seg));
	carve_pool(&e->txs, base, &off, s.txs, sizeof(struct rr_tx));
	e->ops = carve(base, &off, s.ops * sizeof(*e->ops));
	e->ops_cap = s.ops;
	e->in_segs = s.in_segs;
	return off;
}

size_t rr_eng_size(const struct rr_eng_params *p)
{
	struct rr_eng e;

	return lay_out(&e, NULL, p);
}

static void header_sizes(struct rr_eng *e)
{
	rr_msg_init(&e->tx, RR_MSG, 0, e->codec->version, 1);
	e->hdr_min = e->hdr_returned = e->codec->size(&e->tx);
	e->tx.ch.nreads = RR_ENG_SEGS;
	e->hdr_read = e->codec->size(&e->tx) - e->hdr_min;
	e->tx.ch.nreads = 0;
	e->tx.ch.has_reply = true;
	e->tx.ch.reply.nsegs = e->tx.ch.nsegs = RR_ENG_SEGS;
	e->hdr_reply = e->codec->size(&e->tx) - e->hdr_min;
	e->tx.ch.has_reply = false;
	e->tx.ch.nwrites = 1;
	e->tx.ch.writes[0] = e->tx.ch.reply;
	e->hdr_write = e->codec->size(&e->tx) - e->hdr_min;
}

static void speak(struct rr_eng *e, const struct rr_codec *codec)
{
	e->codec = codec;
	e->traits = rr_traits_of(codec);
	header_sizes(e);
}

void rr_eng_agreed(struct rr_eng *e, bool reliable, bool reverse_chunks)
{
	e->reliable = reliable && e->p.caps & RR_CAP_RELIABLE_REPLY && e->traits->reliable;
	e->pulls = e->reliable || e->traits->read_replies;
	e->reverse_chunks = reverse_chunks;
	e->chunk_most = 0;
	e->plans = !e->reliable || e->p.reply_chunks == RR_REPLY_CHUNKS_BOUNDED;
	if (e->plans && e->p.reply_chunk && rr_req_may_use_chunks(e))
		e->chunk_most = rr_min(e->p.reply_chunk_max, e->p.max_msg);
}

static bool may_reverse(const struct rr_eng *e)
{
	return e->p.caps & RR_CAP_REVERSE_CHUNKS && e->traits->general;
}

/* Version 1 has no opening: whoever upgraded the connection has agreed on what there is (RFC 8166 §4.6.2). */
static void agreed_before(struct rr_eng *e)
{
	bool reliable = e->p.caps & RR_CAP_RELIABLE_REPLY && e->traits->reliable;

	rr_eng_agreed(e, reliable, reliable || may_reverse(e));
	e->reverse_reads = e->reliable;
}

bool rr_eng_fall_back(struct rr_eng *e, uint32_t vers)
{
	const struct rr_codec *codec = rr_codec_find(vers, RR_DIALECT_V1);

	if (!codec || !e->traits->falls_back || e->p.no_fallback)
		return false;
	speak(e, codec);
	rr_eng_agreed(e, false, may_reverse(e));	/* nothing was: it is not one of ours */
	e->fell_back = true;
	return true;
}

struct rr_eng *rr_eng_init(void *mem, const struct rr_eng_params *p, rr_time now)
{
	const struct rr_codec *codec = rr_codec_first(p->dialect);
	struct rr_eng *e = mem;

	if (!codec)
		return NULL;

	lay_out(e, mem, p);
	e->p = *p;
	e->p.max_segs = rr_min(p->max_segs, RR_OP_MAX_SEGS);
	e->p.max_chunks = rr_min(p->max_chunks, RR_MAX_SEGS);
	e->count = p->count;
	e->now = now;
	e->ring = p->caps & RR_CAP_RING_CREDITS;
	e->mute = asked_of(p) == 0 && !e->ring;
	e->retry_at = RR_TIME_NEVER;
	rr_credits_reset(&e->cr, asked_of(p));
	speak(e, codec);
	rr_pad_to(e, p->pad_align);
	if (e->traits->opening != &rr_opening_ccp)
		e->p.ccp_prog = 0;
	e->grant_min = e->traits->read_replies && !p->connector ? 2 : 1;
	e->grant_max = e->requested = rr_max(granted_of(p), e->grant_min);
	if (e->traits->opening)
		rr_eng_agreed(e, false, false);
	else
		agreed_before(e);
	rr_open_begin(e);
	return e;
}

/* --- the ring of queued operations ----------------------------------------------------- */

void rr_eng_push(struct rr_eng *e, enum rr_opcode code, uint32_t id, uint32_t buf, uint32_t inv,
		 uint16_t in)
{
	struct rr_qop *q;

	if (unlikely(e->ops_tail - e->ops_head == e->ops_cap)) {
		rr_eng_fail(e, RR_WHY_OVERRUN);	/* more receives than were posted */
		return;
	}
	q = &e->ops[e->ops_tail++ & (e->ops_cap - 1)];
	*q = (struct rr_qop){ .code = code, .id = id, .buf = buf, .inv = inv, .in = in };
}

static void fill_pull(const struct rr_eng *e, const struct rr_in *in, struct rr_op *op)
{
	const struct rr_serve *s = in->serve ? rr_pool_at(&e->serves, in->serve) : NULL;

	op->segs = in->segs;
	op->nsegs = in->nsegs;
	op->len = in->len;
	op->room = in->nparts ? in->room : 0;
	op->head = op->room ? in->len : s && s->nwrites ? RR_ULB_PEEK : RR_RPC_PEEK;
}

static void fill_compose(const struct rr_in *in, struct rr_op *op)
{
	op->from = in->nsegs ? RR_FROM_PULL : RR_FROM_RECV;
	op->token = in->token;
	op->off = in->off;
	op->stream = in->stream;
	op->len = in->len;
	op->parts = in->parts;
	op->nparts = in->nparts;
	op->segs = in->segs + in->nsegs;
	op->nsegs = (uint32_t)in->nall - in->nsegs;
}

static bool take_queued(struct rr_eng *e, struct rr_op *op)
{
	const struct rr_qop *q;

	if (e->ops_head == e->ops_tail)
		return false;
	q = &e->ops[e->ops_head++ & (e->ops_cap - 1)];
	op->code = q->code;
	op->id = q->id;
	op->buf = q->buf;
	op->inv_handle = q->inv;
	if (q->code == RR_OP_REPOST)
		op->token = q->buf;
	if (q->code == RR_OP_PULL)
		fill_pull(e, rr_pool_at(&e->ins, q->in), op);
	if (q->code == RR_OP_COMPOSE)
		fill_compose(rr_pool_at(&e->ins, q->in), op);
	if (e->ops_head == e->ops_tail)
		e->ops_head = e->ops_tail = 0;	/* touches little memory while idle */
	return true;
}

void rr_eng_fail(struct rr_eng *e, enum rr_eng_why why)
{
	if (e->failed == RR_WHY_NONE)
		e->failed = why;
}

static bool take_failure(struct rr_eng *e, struct rr_op *op)
{
	if (e->told)
		return false;
	e->told = true;
	op->code = RR_OP_FAIL;
	op->why = e->failed;
	return true;
}

/* What was queued and what has arrived whole still counts when the connection fails. */
bool rr_eng_next_op(struct rr_eng *e, struct rr_op *op)
{
	*op = (struct rr_op){ .buf = RR_BUF_NONE };
	if (take_queued(e, op) || rr_in_next_op(e, op))
		return true;
	if (unlikely(e->failed))
		return take_failure(e, op);
	if (rr_ctl_next_op(e, op) || rr_tx_next_op(e, op))
		return true;
	/* a header that cannot be encoded has just failed us */
	return unlikely(e->failed) && take_failure(e, op);
}

/* --- exposed memory -------------------------------------------------------------------- */

bool rr_mem_set(struct rr_mem *m, uint32_t buf, uint32_t len, const struct rr_seg *segs, uint32_t n)
{
	uint64_t sum = 0;

	if (n == 0 || n > RR_ENG_SEGS)
		return false;
	for (uint32_t i = 0; i < n; i++)
		sum += segs[i].length;
	if (sum != len)
		return false;
	memcpy(m->segs, segs, n * sizeof(*segs));
	m->nsegs = n;
	m->buf = buf;
	m->len = len;
	m->gone = 0;
	m->state = RR_MEM_LIVE;
	return true;
}

bool rr_mem_key_gone(struct rr_mem *m, uint32_t handle)
{
	uint32_t i = 0;

	if (m->state != RR_MEM_LIVE || m->gone)
		return false;
	while (i < m->nsegs && m->segs[i].handle != handle)
		i++;
	if (i == m->nsegs)
		return false;
	m->gone = handle;
	if (m->nsegs == 1)
		m->state = RR_MEM_FENCED;
	return true;
}

bool rr_mem_fence(struct rr_eng *e, struct rr_mem *m, uint32_t id)
{
	if (m->state != RR_MEM_LIVE)
		return m->state != RR_MEM_FENCING;
	m->state = RR_MEM_FENCING;
	rr_eng_push(e, RR_OP_INVALIDATE, id, m->buf, m->gone, 0);
	return false;
}

/* --- events ---------------------------------------------------------------------------- */

/* The app's message was refused: it waits for room. */
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
		rc = -EAGAIN;	/* its bytes may be the app's own: at once or not at all */
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
		return true;	/* the error is there to be fetched */
	if (e->unsent.head || e->opening)
		return false;
	return call ? rr_req_writable(e) : rr_resp_writable(e);
}

bool rr_eng_writable(const struct rr_eng *e)
{
	return room_for(e, e->stalled ? e->stalled_call : e->p.connector);
}

uint32_t rr_eng_shown(const struct rr_eng *e)
{
	return e->shown.used;
}

bool rr_eng_would_take(struct rr_eng *e, uint32_t type, rr_time now)
{
	bool call = type == RR_RPC_CALL, yes = room_for(e, call);

	e->now = now;
	if (!yes)
		stall(e, call);
	return yes;
}

bool rr_eng_is_short(const struct rr_eng *e, uint32_t type, uint32_t len)
{
	uint32_t hdr = e->hdr_returned;

	if (unlikely(type == RR_RPC_CALL ? e->chunk_most | e->pad_align : e->reducing))
		return false;
	if (type == RR_RPC_CALL)
		hdr = e->hdr_min;
	return (uint64_t)len + hdr <= e->p.inline_send;
}

/* Is it a MSG without chunks? Of the header RR_ENG_RX_HEAD bytes are there. */
static bool is_plain(const struct rr_eng *e, const uint8_t *h)
{
	const uint8_t *lists = h + e->traits->lists;

	return (rr_be32(h + 12) | rr_be32(lists) | rr_be32(lists + 4) | rr_be32(lists + 8)) == 0;
}

/* Copies what will be judged: the peer may still write to buf. All of a header with chunks;
 * of a message without, no more than is looked at. */
static uint32_t snapshot(struct rr_eng *e, const uint8_t *buf, uint32_t len)
{
	uint32_t n = rr_min(len, RR_ENG_RX_HEAD);

	memcpy(e->rxbuf, buf, n);
	if (n == len || is_plain(e, e->rxbuf))
		return n;
	n = rr_min(len, RR_ENG_RX_MAX);
	memcpy(e->rxbuf, buf, n);
	return n;
}

/* req: rfc8166 4.6.1 #2 */
static void dispatch(struct rr_eng *e, struct rr_in *in, const uint8_t *live, uint32_t len,
		     uint32_t have)
{
	const struct rr_msg *m = &e->rx;

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

static struct rr_in *in_new(struct rr_eng *e, uint32_t token)
{
	struct rr_in *in = rr_pool_get(&e->ins);

	if (!in)
		return NULL;
	in->from = RR_FROM_RECV;
	in->held = true;
	in->pulled = in->done_due = in->credit_due = in->placing = false;
	in->composing = in->credit_kept = false;
	in->reading = false;
	in->waits = RR_OP_NONE;
	in->npads = 0;
	in->serve = 0;
	in->token = token;
	in->buf = RR_BUF_NONE;
	in->off = in->len = 0;
	in->nsegs = in->nall = in->nparts = 0;
	return in;
}

/* A Send With Invalidate has really taken a key, whatever the message says. Judged now: a
 * key that is made later is another one, even under the same number. */
static bool key_gone(struct rr_eng *e, uint32_t handle)
{
	return rr_req_key_gone(e, handle) || rr_rel_key_gone(e, handle);
}

/* req: rfc8166 4.5.2 #1 */
/* What an answer to this header has to say. The codec's limits are those of its tables, ours may be
 * less. */
/* req: version-two-08 4.1 #1 #2, 5.2 #2, 5.3.3 #3 #4 #5 */
static void name_fault(const struct rr_eng *e, struct rr_in *in, enum rr_wire_rc rc)
{
	uint32_t most = e->rx.err == RR_ERR_SEGMENTS ? e->p.max_segs : e->p.max_chunks;

	if (!e->traits->full_errors)
		rr_in_wrong(in, rc == RR_WIRE_BAD_VERS ? RR_ERR_VERS : RR_ERR_CHUNK, 0, 0);
	else if (rc == RR_WIRE_TOO_MANY)
		rr_in_wrong(in, e->rx.err, rr_min(e->rx.limit, most), 0);
	else
		rr_in_wrong(in, e->rx.err, 0, 0);
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
	if (unlikely(inv) && !key_gone(e, inv)) {
		rr_eng_fail(e, RR_WHY_PROTOCOL);
		return;
	}
	in = in_new(e, token);
	if (unlikely(!in)) {
		rr_eng_fail(e, RR_WHY_OVERRUN);
		return;
	}
	have = snapshot(e, buf, len);
	if (unlikely(e->opening))
		rr_open_version(e, e->rxbuf, have);
	rc = e->codec->decode(e->rxbuf, have, &e->rx);
	if (unlikely(rc == RR_WIRE_DISCARD)) {
		rr_in_discard(e, in);
		return;
	}
	in->n.xid = e->rx.xid;
	in->vers = e->rx.vers;
	in->credit = e->rx.credit;
	in->dir = e->rx.dir;
	if (unlikely(e->opening || e->rx.type == RR_CONNPROP) && rr_open_heard(e, in, rc, have))
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

/* Some of the window stays for control messages: a peer whose app does not read must
 * still be told DONE, or neither side gets on. */
void rr_eng_window(struct rr_eng *e, uint32_t sends)
{
	e->window = sends;
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

/* The entry that an operation's id names; NULL if it is over. */
static void *entry_of(const struct rr_eng *e, uint32_t id, enum rr_kind *kind)
{
	uint16_t idx = (id >> 16) & RR_POOL_MAX, gen = (uint16_t)id;

	*kind = (enum rr_kind)(id >> 28);
	switch (*kind) {
	case RR_K_SEND:
	case RR_K_WRITE:
	case RR_K_EXPOSE:
		return rr_pool_find(&e->txs, idx, gen);
	case RR_K_PULL:
		return rr_pool_find(&e->ins, idx, gen);
	case RR_K_INV_ARGS:
	case RR_K_INV_REPLY:
	case RR_K_INV_WRITE:
		return rr_pool_find(&e->calls, idx, gen);
	case RR_K_INV_SHOWN:
		return rr_pool_find(&e->shown, idx, gen);
	default:
		return NULL;
	}
}

/* req: rfc8166 4.5.4 #1 #2 */
void rr_eng_done(struct rr_eng *e, uint32_t id, int status, rr_time now)
{
	enum rr_kind kind;
	void *entry = entry_of(e, id, &kind);

	e->now = now;
	if (!entry || e->failed)
		return;
	if (unlikely(status < 0)) {
		rr_eng_fail(e, RR_WHY_PROVIDER);
		return;
	}
	if (likely(kind == RR_K_SEND || kind == RR_K_WRITE)) {
		rr_tx_done(e, entry);
		return;
	}
	retry_exposures(e);	/* memory or a key has come free */
	if (kind == RR_K_INV_SHOWN)
		rr_rel_fenced(e, entry);
	else if (kind == RR_K_INV_ARGS || kind == RR_K_INV_REPLY || kind == RR_K_INV_WRITE)
		rr_req_fenced(e, entry, kind);
}

/* --- idle ------------------------------------------------------------------------------ */

/* Lists and maps hold live entries only: with empty pools they are empty. */
size_t rr_eng_quiet(struct rr_eng *e)
{
	struct rr_pool *pools[] = { &e->calls, &e->serves, &e->shown, &e->ins, &e->txs };
	uint32_t used = e->ops_tail - e->ops_head;

	for (size_t i = 0; i < rr_array_size(pools); i++)
		used += pools[i]->used;
	if (used)
		return 0;
	for (size_t i = 0; i < rr_array_size(pools); i++)
		rr_pool_reset(pools[i]);
	return offsetof(struct rr_eng, rx);
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
