/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls whose argument data is in Read chunks (RFC 8166 §3.4.5, §6.1), and replies whose
 * results are (draft-02 §3.4).
 *
 * A message is judged by its payload stream before anything of a Read chunk is fetched: is each
 * chunk where the binding has an item, and does it have that item's length? Only then does the
 * driver put the message together (RR_OP_COMPOSE). */

#include "core/engine/engine_int.h"

/* The smallest position in the Read list above last; 0: there is none. */
static uint32_t next_position(const struct rr_chunks *ch, uint32_t last)
{
	uint32_t next = 0;

	for (uint32_t i = 0; i < ch->nreads; i++) {
		uint32_t pos = ch->reads[i].position;

		if (pos > last && (next == 0 || pos < next))
			next = pos;
	}
	return next;
}

/* Appends the segments at pos, in list order, to those of `in`. Returns their bytes. RFC 8166
 * §3.4.5 does not require that a chunk's segments follow each other in the list. */
static uint64_t take_chunk(struct rr_in *in, const struct rr_chunks *ch, uint32_t pos)
{
	uint64_t len = 0;

	for (uint32_t i = 0; i < ch->nreads; i++) {
		if (ch->reads[i].position != pos)
			continue;
		in->segs[in->nall++] = ch->reads[i].seg;
		len += ch->reads[i].seg.length;
	}
	return len;
}

/* A call that is longer than we allow has no error of its own (version-two-08 §5.3.3). */
/* req: version-two-08 5.3.3 #13 */
static bool read_chunk_fits(const struct rr_eng *e, struct rr_in *in, uint64_t len,
			    uint32_t nsegs)
{
	if (nsegs > e->p.max_segs)
		return rr_in_wrong(in, RR_ERR_SEGMENTS, e->p.max_segs, 0);
	return len <= e->p.max_msg || rr_in_wrong(in, RR_ERR_SYSTEM, 0, 0);
}

/* Notes which limit the segments exceed, for which there is no room. */
/* req: version-two-08 5.3.3 #6 #13 */
static bool name_too_many(const struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch)
{
	for (uint32_t i = 1; i < ch->nreads; i++)
		if (ch->reads[i].position != ch->reads[0].position)
			return rr_in_wrong(in, RR_ERR_READ_CHUNKS, e->p.max_chunks, 0);
	return rr_in_wrong(in, RR_ERR_SEGMENTS, e->p.max_segs, 0);
}

/* Takes the Read chunks at positions other than zero, the smallest first. */
/* req: version-two-08 5.3.3 #6 */
static bool take_parts(const struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch,
		       uint64_t *total)
{
	for (uint32_t pos = 0; (pos = next_position(ch, pos));) {
		uint32_t first = in->nall;
		uint64_t len;

		if (in->nparts == rr_array_size(in->parts))
			return rr_in_wrong(in, RR_ERR_READ_CHUNKS, in->nparts, 0);
		len = take_chunk(in, ch, pos);
		if (!read_chunk_fits(e, in, len, in->nall - first))
			return false;
		in->parts[in->nparts++] = (struct rr_range){ pos, (uint32_t)len };
		*total += rr_ulb_padded((uint32_t)len);
	}
	return true;
}

/* Sorts the Read list into `in`: the Position-Zero Read chunk first, then the others by
 * position. All counts and sums are the peer's, and each is checked before the next step relies
 * on it. */
static bool take_list(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch)
{
	uint64_t total;

	if (ch->nreads > e->in_segs)
		return name_too_many(e, in, ch);
	total = take_chunk(in, ch, 0);
	in->nsegs = in->nall;
	if (!read_chunk_fits(e, in, total, in->nsegs))
		return false;
	if (in->nsegs)
		in->len = (uint32_t)total;
	if (!take_parts(e, in, ch, &total) || !read_chunk_fits(e, in, total, 0))
		return false;
	in->room = (uint32_t)total;
	return rr_resp_within_limits(e, in, ch, in->nparts + (in->nsegs > 0));
}

/* req: rfc8267 6.4.2 #2 #3 */
bool rr_reads_take(struct rr_eng *e, struct rr_in *in, const struct rr_chunks *ch)
{
	bool ok = ch->nreads ? take_list(e, in, ch) : rr_resp_within_limits(e, in, ch, 0);

	if (!ok)
		rr_eng_count(e, RR_C_chunk_limits);
	return ok;
}

/* Gives the parts the lengths of the items that they hold. What a chunk has beyond that is
 * padding (RFC 8166 §3.4.5.2), which is not fetched, because it must be zeroes. False: there is
 * padding, and the dialect does not allow it. */
/* req: rfc8166 3.4.5.2 #2; draft-02 3.4 #4 */
static bool without_padding(const struct rr_eng *e, struct rr_in *in,
			    const struct rr_ulb_item *items)
{
	struct rr_seg *s = in->segs + in->nsegs;
	uint32_t item = 0;

	for (uint32_t i = 0; i < in->nparts; i++) {
		uint32_t in_chunk = in->parts[i].len, left;

		while (!items[item].placed || items[item].chunk != i)
			item++;
		if (e->traits->exact_reads && in_chunk != items[item].len)
			return false;
		left = in->parts[i].len = items[item].len;
		for (; in_chunk; s++) {
			in_chunk -= s->length;
			s->length = rr_min(s->length, left);
			left -= s->length;
		}
	}
	return true;
}

/* Lays the stream out around the parts. False: it does not reach all of them, or leaves too
 * little in front of them. */
static bool lay_out_call(const struct rr_eng *e, struct rr_in *in, uint32_t stream)
{
	uint32_t least = in->rpc.type == RR_RPC_CALL ? RR_RPC_PEEK : RR_RPC_REPLY_PEEK;
	uint64_t at = 0;	/* in the message */
	uint32_t left = stream;

	for (uint32_t i = 0; i < in->nparts; i++) {
		const struct rr_range *p = &in->parts[i];

		if (p->off < least || p->off < at || p->off - at > left)
			return false;
		left -= (uint32_t)(p->off - at);
		at = p->off + rr_ulb_padded(p->len);
	}
	if (at + left > e->p.max_msg)
		return false;
	in->stream = stream;
	in->len = (uint32_t)(at + left);
	return true;
}

static void view_chunks(const struct rr_in *in, struct rr_ulb_chunk *chunks)
{
	for (uint32_t i = 0; i < in->nparts; i++)
		chunks[i] = (struct rr_ulb_chunk){ in->parts[i].off, in->parts[i].len };
}

/* May Read chunks be where no binding has an item? */
static bool anywhere(const struct rr_eng *e, const struct rr_rpc *rpc)
{
	return e->p.lenient_read_chunks ||
	       (e->traits->unbound_reads && !rr_ulb_has(rpc->prog, rpc->vers));
}

/* A call without a binding may have Read chunks where the dialect or the configuration says so.
 * The parts then are as long as the chunks. */
/* req: rfc8166 3.4.4.4 #1, 3.4.5 #1, 6.1 #3; draft-02 3.4 #1 */
bool rr_reads_judge(struct rr_eng *e, struct rr_in *in, const uint8_t *stream, uint32_t have,
		    uint32_t len)
{
	struct rr_ulb_chunk chunks[RR_ULB_ITEMS];
	struct rr_ulb_view v = {
		.buf = stream, .have = have, .len = len, .chunks = chunks,
		       .nchunks = in->nparts,
	};
	struct rr_serve *s = in->serve ? rr_table_at(&e->serves, in->serve) : NULL;
	struct rr_ulb_call call;
	enum rr_ulb_rc rc;

	view_chunks(in, chunks);
	rc = rr_ulb_call(&v, 0, &call);
	if (s && s->nwrites)
		s->rec = call.rec;
	if (!in->nparts)
		return true;
	if (rc == RR_ULB_OK ? !without_padding(e, in, call.args) : !anywhere(e, &in->rpc))
		return false;
	return lay_out_call(e, in, len);
}

/* If the binding allows no part of the results to be reduced, or there is none, parts are
 * accepted at any position: the peer must know what it has taken out. */
/* req: draft-02 3.4 #1 */
bool rr_reads_judge_reply(struct rr_eng *e, const struct rr_call *c, struct rr_in *in,
			  const uint8_t *stream, uint32_t len)
{
	struct rr_ulb_chunk chunks[RR_ULB_ITEMS];
	struct rr_ulb_view v = {
		.buf = stream, .have = len, .len = len,
		.chunks = chunks, .nchunks = in->nparts, .reads = true,
	};
	struct rr_ulb_reply r;

	view_chunks(in, chunks);
	if (!rr_rpc_peek(stream, len, &in->rpc) || in->rpc.type != RR_RPC_REPLY)
		return false;
	if (c->rec.reduce && (rr_ulb_reply(&c->rec, &v, &r) != RR_ULB_OK ||
			      !without_padding(e, in, r.items)))
		return false;
	return lay_out_call(e, in, len);
}

void rr_reads_compose(struct rr_eng *e, struct rr_in *in)
{
	in->from = RR_FROM_PULL;
	in->composing = true;
	in->state = RR_IN_COMPOSE;
	rr_in_read(e, in, RR_OP_COMPOSE);
}
