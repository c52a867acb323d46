/* SPDX-License-Identifier: BSD-3-Clause */

/* The peer's calls and our replies. Which parts of them travel in chunks is decided in
 * reduce_call.c and reduce_reply.c.
 *
 * Strict: every call without reply has an entry, and there are no more of them than we have
 * granted. With ring credits only calls that offered chunks have one, because nothing else has
 * to be known for the reply; when the table is full the oldest is forgotten. */

#include "core/engine/engine_int.h"

/* RFC 8166 §3.3.1: never more than receives are posted for, never more than was asked for,
 * never zero. draft-02 §3.8: at least two, for a call and its RDMA_DONE. */
/* req: rfc8166 3.3.1 #2; draft-02 3.3 #2 #4, 3.8 #3 */
uint32_t rr_resp_grant(const struct rr_eng *e)
{
	return rr_max(rr_min(e->requested, e->grant_max), e->grant_min);
}

/* req: rfc8167 5.3 #1 */
bool rr_resp_takes_chunks(const struct rr_eng *e)
{
	return !e->p.connector || e->reverse_chunks;
}

static bool write_chunk_fits(const struct rr_eng *e, const struct rr_wchunk *w)
{
	return w->nsegs <= e->p.max_segs;
}

/* version-two-08 §5.3.3: notes which kind of chunks there is too much of. */
/* req: version-two-08 5.3.3 #6 #10 #13 */
bool rr_resp_within_limits(const struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch,
			   uint32_t reads)
{
	uint32_t most = e->p.max_chunks, others = ch->has_reply;
	bool ok = !ch->has_reply || write_chunk_fits(e, &ch->reply);

	if (reads + others > most)
		return rr_in_wrong(in, RR_ERR_READ_CHUNKS, most - rr_min(others, most), 0);
	others += reads;
	if (ch->nwrites + others > most)
		return rr_in_wrong(in, RR_ERR_WRITE_CHUNKS, most - others, 0);
	for (uint32_t i = 0; i < ch->nwrites; i++)
		ok &= write_chunk_fits(e, &ch->writes[i]);
	return ok || rr_in_wrong(in, RR_ERR_SEGMENTS, e->p.max_segs, 0);
}

/* In the reverse direction there may be no chunks at all; version-two-08 §5.3.3 has no error
 * for a Reply chunk alone. */
/* req: version-two-08 5.3.3 #7 #11 */
bool rr_resp_takes(const struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch)
{
	if (rr_resp_takes_chunks(e))
		return true;
	if (ch->nreads)
		return rr_in_wrong(in, RR_ERR_READ_CHUNKS, 0, 0);
	if (ch->nwrites)
		return rr_in_wrong(in, RR_ERR_REPLY_RESOURCE, 0, 0);
	return !ch->has_reply || rr_in_wrong(in, RR_ERR_BAD_XDR, 0, 0);
}

static bool keeps(const struct rr_eng *e, const struct rr_chunks *ch)
{
	return !e->ring || ch->nwrites || ch->has_reply;
}

static void serve_unmap(struct rr_eng *e, struct rr_serve *s)
{
	rr_xmap_del(&e->serve_map, &e->serves, s);
	rr_list_del(&e->served, &e->serves, s);
	e->serving--;
	e->reducing -= s->rec.reduce;
}

static void serve_put(struct rr_eng *e, struct rr_serve *s)
{
	if (!s)
		return;
	serve_unmap(e, s);
	rr_table_put(&e->serves, s);
}

/* With ring credits the oldest call that offered chunks makes room: its reply, if it ever
 * comes, does without them. A strict peer gets none, and the caller fails the connection. */
static struct rr_serve *serve_new(struct rr_eng *e)
{
	struct rr_serve *s = rr_table_get(&e->serves);

	if (likely(s) || !e->ring)
		return s;
	serve_put(e, rr_list_head(&e->served, &e->serves));
	return rr_table_get(&e->serves);
}

bool rr_resp_keep(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch)
{
	struct rr_serve *s;

	if (!keeps(e, ch))
		return true;
	s = serve_new(e);
	if (!s) {
		rr_eng_fail(e, RR_WHY_OVERRUN);
		rr_in_drop(e, in);
		return false;
	}
	s->n.xid = in->n.xid;
	s->rec = (struct rr_ulb_rec){ 0 };
	s->nwrites = ch->nwrites;
	s->nsegs = ch->nsegs;
	rr_inv_keep(e, s, in, ch);
	s->has_reply = ch->has_reply;
	s->reply = ch->reply;
	memcpy(s->writes, ch->writes, ch->nwrites * sizeof(*s->writes));
	memcpy(s->segs, ch->segs, ch->nsegs * sizeof(*s->segs));
	in->serve = s->n.idx;
	return true;
}

/* The size of the reply's header, which must repeat the call's chunks. */
static uint32_t header_size(struct rr_eng *e, const struct rr_serve *s)
{
	if (!s || !(s->nwrites || s->has_reply))
		return e->hdr.min;
	rr_msg_init(&e->tmp->tx, RR_MSG, 0, e->codec->version, 1);
	e->tmp->tx.ch.nwrites = s->nwrites;
	e->tmp->tx.ch.nsegs = s->nsegs;
	e->tmp->tx.ch.has_reply = s->has_reply;
	e->tmp->tx.ch.reply = s->reply;
	memcpy(e->tmp->tx.ch.writes, s->writes, s->nwrites * sizeof(*s->writes));
	return e->codec->size(&e->tmp->tx);
}

/* req: rfc8167 4.1 #1 */
bool rr_resp_call(struct rr_eng *e, struct rr_in *in)
{
	struct rr_serve *s;

	e->requested = in->credit;
	if (!in->serve)
		return true;
	if (!e->ring && e->serving >= e->grant_max) {
		rr_eng_fail(e, RR_WHY_OVERRUN);
		return false;
	}
	s = rr_table_at(&e->serves, in->serve);
	rr_xmap_add(&e->serve_map, &e->serves, s);
	rr_list_add(&e->served, &e->serves, s);
	e->serving++;
	e->reducing += s->rec.reduce;
	e->hdr_returned = rr_max(e->hdr_returned, header_size(e, s));
	in->serve = 0;
	return true;
}

/* --- replies --------------------------------------------------------------------------- */

/* A reply was refused because its call is still being fetched. No message is so long. */
#define UNFETCHED	UINT32_MAX

void rr_resp_fetched(struct rr_eng *e)
{
	if (e->refused == UNFETCHED)
		e->refused = 0;
}

/* Has the app this call already, while the rest of it is still being fetched? From the reply
 * the peer would conclude that its memory is not read any more. */
static bool is_being_fetched(const struct rr_eng *e, uint32_t xid)
{
	const struct rr_in *in = rr_list_head(&e->arrived, &e->ins);

	return in && in->state == RR_IN_PULLING && in->n.xid == xid &&
	       in->rpc.type == RR_RPC_CALL;
}

static bool has_room(const struct rr_eng *e, uint32_t refused)
{
	return refused != UNFETCHED && rr_rel_room(e, refused);
}

bool rr_resp_writable(const struct rr_eng *e)
{
	return rr_tx_room(e) && (!e->refused || has_room(e, e->refused));
}

static uint32_t reply_capacity(const struct rr_serve *s)
{
	return s && s->has_reply ? rr_writes_room(s, &s->reply) : 0;
}

static void queue_reply(struct rr_eng *e, const struct rr_eng_out *out, struct rr_serve *s,
			enum rr_tx_form form)
{
	struct rr_out *t = rr_tx_new(e, out, form);

	if (!s)
		return;
	serve_unmap(e, s);
	t->serve = s->n.idx;
}

/* req: reliable-reply-00 - #1 */
/* reduced: the placed parts go to the Write chunks, and the rest is exposed. */
static int send_reliable(struct rr_eng *e, const struct rr_eng_out *out, struct rr_serve *s,
			 bool reduced)
{
	struct rr_shown *shown;
	struct rr_out *t;
	int rc = rr_rel_reserve(e, out->rpc.xid, out->len, &shown);

	if (rc)
		return rc;
	t = rr_tx_new(e, out, RR_TX_RELIABLE);
	if (reduced) {
		serve_unmap(e, s);
		t->serve = s->n.idx;
	} else {
		serve_put(e, s);
	}
	t->shown = shown->n.idx;
	t->state = RR_TX_SETUP;
	return 0;
}

/* The bytes of a reply that are not placed. */
static uint32_t stream_of(const struct rr_eng_out *out, const struct rr_serve *s)
{
	return s ? s->stream : out->len;
}

/* RFC 8166 §4.5.3: there is no way to convey the reply. If the connection can go back to TCP,
 * the driver does that; otherwise the peer is told. */
/* req: reliable-reply-00 - #2; version-two-08 5.3.3 #14 #15 #16 #17 #18 */
static int cannot_convey(struct rr_eng *e, const struct rr_eng_out *out, struct rr_serve *s)
{
	bool write = s && s->short_chunk;
	enum rr_errcode err = write ? RR_ERR_WRITE_RESOURCE : RR_ERR_REPLY_RESOURCE;
	uint32_t chunk = write ? s->short_chunk : 0,
			 needed = write ? s->short_len : stream_of(out, s);

	if (e->p.caps & RR_CAP_HATCH)
		return -EMSGSIZE;
	if (!rr_ctl_error_for(e, out->rpc.xid, err, chunk, needed))
		return -EAGAIN;
	serve_put(e, s);
	rr_eng_release(e, out->buf);
	return 0;
}

/* A reply to no call is dropped: a strict peer has no receive for it. */
static int unasked(struct rr_eng *e, const struct rr_eng_out *out)
{
	rr_eng_count(e, RR_C_unknown_xid);
	rr_eng_release(e, out->buf);
	return 0;
}

/* Is there something to write, and does the header have room for a Read list that is broken up
 * by what is written? */
static bool may_be_reduced(const struct rr_eng *e, const struct rr_serve *s, uint32_t hdr)
{
	return s && s->nplaced &&
	       hdr + e->hdr.read + e->hdr.read / RR_ENG_SEGS * s->nplaced <= e->p.inline_send;
}

/* Does the peer accept Read chunks in a reply of ours? */
/* req: draft-02 6.2 #3; reliable-reply-00 - #10 */
static bool may_show(const struct rr_eng *e)
{
	return e->pulls && !e->reads_barred && (!e->p.connector || e->reverse_reads);
}

bool rr_resp_exposes(const struct rr_eng *e, uint32_t xid)
{
	return may_show(e) && !rr_xmap_find(&e->serve_map, &e->serves, xid);
}

/* The order of preference is fixed: the call's own resources come first (reliable-reply-00: the
 * responder's chunk only if they are too small). A peer with which reliable replies are agreed
 * gets its chunks back only if they fit. A Write chunk that is too small counts as none for
 * such a peer; to others only ERR_CHUNK can be said (RFC 8166 §4.5.3). */
/* req: rfc8166 3.5.3 #1 #3; reliable-reply-00 i #2; draft-02 3.3 #1, 3.4 #3, 3.7 #1, 5.2 #1 */
int rr_resp_send(struct rr_eng *e, const struct rr_eng_out *out)
{
	struct rr_serve *s = rr_xmap_find(&e->serve_map, &e->serves, out->rpc.xid);
	uint32_t hdr = header_size(e, s), stream;
	bool fits;

	e->refused = 0;
	if (unlikely(is_being_fetched(e, out->rpc.xid))) {
		e->refused = UNFETCHED;
		return -EAGAIN;
	}
	if (!e->ring && !s)
		return unasked(e, out);
	if (!rr_tx_room(e))
		return -EAGAIN;
	fits = !s || rr_writes_plan(s, out);
	stream = stream_of(out, s);
	if (fits && hdr + stream <= e->p.inline_send) {
		queue_reply(e, out, s, RR_TX_INLINE);
	} else if (fits && hdr <= e->p.inline_send && stream <= reply_capacity(s)) {
		queue_reply(e, out, s, RR_TX_REPLY_CHUNK);
	} else if (e->reliable && may_show(e) && e->hdr.min + out->len <= e->p.inline_send) {
		serve_put(e, s);
		queue_reply(e, out, NULL, RR_TX_INLINE);
	} else if (may_show(e)) {
		return send_reliable(e, out, s, fits && may_be_reduced(e, s, hdr));
	} else {
		return cannot_convey(e, out, s);
	}
	return 0;
}
