/* SPDX-License-Identifier: BSD-3-Clause */

/* Plans a call for a peer without reliable replies: how its arguments travel, and which memory
 * it offers for its reply (RFC 8166 §3.5, §6.2; RFC 8267). With reliable replies only the
 * latter is planned, and only if the configuration wants it. Which items may travel apart is
 * core/ulb's knowledge.
 *
 * There is at most one Read chunk, with no Position-Zero Read chunk beside it, and for the
 * reply either a Write chunk or a Reply chunk: servers are known that accept more and get it
 * wrong, and one key is what a server can invalidate with its reply. */

#include "core/engine/engine_int.h"

/* --- the reply --------------------------------------------------------------------------- */

/* RFC 8166 §3.3.2: does the reply fit into what we receive and the peer sends? Its header
 * exceeds version 1's by as much as the shortest header of its dialect does. */
/* req: rfc8166 3.3.3 #4 */
static bool fits_inline(const struct rr_eng *e, uint32_t bound)
{
	uint32_t most = rr_min(e->p.inline_recv, e->p.inline_peer);

	return rr_reply_fits_inline(bound, most - (e->hdr.min - RR_V1_HDR_MIN));
}

/* Plans a Write chunk for the first eligible result, if everything else is sure to fit inline.
 * Any other result may go into it if the first leaves it unused (RFC 8166 §4.3.2.2). */
/* req: rfc8166 3.4.6 #1, 3.4.6.2 #1, 4.3.2.2 #2; rfc8267 6.4.2 #1 */
static bool write_chunk(const struct rr_eng *e, const struct rr_ulb_call *call,
			struct rr_plan *p)
{
	uint64_t rest = call->reply_rest;
	uint32_t most;

	if (call->nresults == 0)
		return false;
	most = call->results[0];
	for (uint32_t i = 1; i < call->nresults; i++) {
		rest += rr_ulb_padded(call->results[i]);
		most = rr_max(most, call->results[i]);
	}
	if (rest >= RR_ULB_UNKNOWN || !fits_inline(e, (uint32_t)rest) ||
	    rr_ulb_padded(most) > e->chunk_most)
		return false;
	p->write = most;
	p->around = rr_align((uint32_t)rest, 4u);
	return true;
}

/* Bytes of results whose length is known although the reply's is not. */
static uint64_t known_results(const struct rr_ulb_call *call)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < call->nresults; i++)
		if (call->results[i] != RR_ULB_UNKNOWN)
			sum += rr_ulb_padded(call->results[i]);
	return sum;
}

/* NULL procedures (RFC 5531 §12.1) return nothing, except those that make a security
 * context. */
static bool returns_nothing(const struct rr_rpc *rpc, const struct rr_ulb_rec *rec)
{
	return rpc->proc == 0 && !(rpc->cred_flavor == RR_RPCSEC_GSS && rec->gss_proc != 0);
}

/* Replies of a procedure may grow, so twice the largest seen is expected. Less than the default
 * is never offered, however short all replies have been: a longer one would be lost, and the
 * connection with it (RFC 8166 §4.3.3 asks for a chunk wherever a reply may be too long). */
static uint32_t reply_guess(const struct rr_eng *e, const struct rr_rpc *rpc,
			    const struct rr_ulb_call *call)
{
	uint32_t seen = 0;

	if (e->p.sizes)
		seen = rr_sizes_get(e->p.sizes, rpc->prog, rpc->vers, rpc->proc);
	seen = rr_min(seen, UINT32_MAX / 2) * 2;
	return (uint32_t)rr_min(rr_max((uint64_t)seen, e->p.reply_chunk + known_results(call)),
				(uint64_t)e->chunk_most);
}

/* How many bytes of Reply chunk to offer. */
static uint32_t reply_chunk(const struct rr_eng *e, const struct rr_rpc *rpc,
			    const struct rr_ulb_call *call)
{
	if (e->p.reply_chunks == RR_REPLY_CHUNKS_NEVER)
		return 0;
	if (call->reply_max != RR_ULB_UNKNOWN)
		return rr_min(call->reply_max, e->chunk_most);
	if (e->pulls || e->p.reply_chunks == RR_REPLY_CHUNKS_BOUNDED ||
	    returns_nothing(rpc, &call->rec))
		return 0;
	return reply_guess(e, rpc, call);
}

/* req: rfc8166 4.3.3 #1 */
static void plan_reply(const struct rr_eng *e, const struct rr_rpc *rpc,
		       const struct rr_ulb_call *call, struct rr_plan *p)
{
	p->bounded = call->reply_max != RR_ULB_UNKNOWN;
	if (!fits_inline(e, call->reply_max) && !write_chunk(e, call, p))
		p->reply = reply_chunk(e, rpc, call);
}

/* --- the arguments ------------------------------------------------------------------------ */

/* Chooses the largest item, if the rest then fits into left bytes. */
/* req: rfc8166 3.4.2 #1; rfc8267 6.4.2 #1 */
static void plan_item(const struct rr_eng_out *out, const struct rr_ulb_call *call,
		      uint32_t left, struct rr_plan *p)
{
	const struct rr_ulb_item *most = call->args;

	for (uint32_t i = 1; i < call->nargs; i++)
		if (call->args[i].len > most->len)
			most = &call->args[i];
	if (call->nargs == 0 || out->len - rr_ulb_padded(most->len) > left)
		return;
	p->item = (struct rr_range){ most->pos, most->len };
	p->fits = true;
}

void rr_plan(const struct rr_eng *e, const struct rr_eng_out *out, struct rr_plan *p)
{
	struct rr_ulb_view v = { .buf = out->head, .have = out->have, .len = out->len };
	uint32_t hdr = e->hdr.min;
	struct rr_ulb_call call;

	*p = (struct rr_plan){ .fits = (uint64_t)out->len + hdr <= e->p.inline_send };
	if (likely(!e->plans || !rr_req_may_use_chunks(e)))
		return;
	rr_ulb_call(&v, e->session, &call);
	p->rec = call.rec;
	p->idempotent = call.idempotent;
	p->session = call.fore_max;
	if (e->chunk_most)
		plan_reply(e, &out->rpc, &call, p);
	hdr += (p->reply ? e->hdr.reply : 0) + (p->write ? e->hdr.write : 0);
	p->fits = (uint64_t)out->len + hdr <= e->p.inline_send;
	if (!p->fits && !e->reliable && !e->reads_barred &&
	    hdr + e->hdr.read < e->p.inline_send)
		plan_item(out, &call, e->p.inline_send - hdr - e->hdr.read, p);
}
