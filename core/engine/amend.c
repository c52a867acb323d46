/* SPDX-License-Identifier: BSD-3-Clause */

/* Errors in answer to a call: finds out what the call would have needed (version-two-08
 * §5.3.3), and decides whether again.c sends it again with that. */

#include "core/engine/engine_int.h"

/* A call is sent this often at most, in case a responder finds fault with it each time. */
#define TRIES	4u

static bool by_whole(struct rr_call *c, const struct rr_out *t)
{
	c->next.whole = true;
	return t->form == RR_TX_READ_CHUNK;
}

static uint32_t segs_of(const struct rr_mem *m)
{
	return m->state == RR_MEM_NONE ? 0 : m->nsegs;
}

static bool by_fewer_segments(struct rr_call *c, uint32_t limit)
{
	uint32_t had = rr_max(segs_of(&c->args),
			      rr_max(segs_of(&c->reply), segs_of(&c->write)));

	c->max_segs = limit;
	return limit && limit < had;
}

/* Uses a Reply chunk and no Write chunk, for a reply of which `needed` bytes go there plus
 * those that would have gone to the Write chunk. */
static bool by_reply_chunk(const struct rr_eng *e, struct rr_call *c, uint32_t needed)
{
	uint64_t placed = c->write.len ? c->around + rr_ulb_padded(c->write.len) : 0;
	uint64_t size = rr_max(rr_align((uint64_t)needed, (uint64_t)4), placed);

	c->next.write = 0;
	c->next.reply = (uint32_t)size;
	return size > c->reply.len && size <= e->chunk_most;
}

/* There is one Write chunk, so its index in the error says nothing new. */
static bool by_write_chunk(const struct rr_eng *e, struct rr_call *c, uint32_t needed)
{
	c->next.write = needed;
	return needed > c->write.len && c->write.len && rr_ulb_padded(needed) <= e->chunk_most;
}

/* req: version-two-08 5.3.3 #8 #9 #12 */
static bool amend(const struct rr_eng *e, struct rr_call *c, const struct rr_out *t,
		  const struct rr_msg *m)
{
	switch (m->err) {
	case RR_ERR_READ_CHUNKS:
		return m->limit == 0 && by_whole(c, t);
	case RR_ERR_SEGMENTS:
		return by_fewer_segments(c, m->limit);
	case RR_ERR_WRITE_CHUNKS:
		return c->idempotent && by_reply_chunk(e, c, 0);
	case RR_ERR_WRITE_RESOURCE:
		return c->idempotent && by_write_chunk(e, c, m->needed);
	case RR_ERR_REPLY_RESOURCE:
		return c->idempotent && by_reply_chunk(e, c, m->needed);
	default:
		return false;
	}
}

/* Learns what the next call of this procedure should offer. */
static enum rr_eng_why learn_size(struct rr_eng *e, const struct rr_call *c,
				  const struct rr_msg *m)
{
	bool size = m->err == RR_ERR_WRITE_RESOURCE || m->err == RR_ERR_REPLY_RESOURCE;

	if (!size)
		return RR_WHY_REFUSED;
	if (c->bounded || !e->p.sizes || m->needed == 0 || m->needed > e->chunk_most)
		return RR_WHY_TOO_LARGE;
	rr_sizes_seen(e->p.sizes, c->prog, c->vers, c->proc, m->needed);
	return RR_WHY_ERR_CHUNK;
}

/* The app's call cannot be answered by an error of RPC's own. If it is not sent again, the app
 * sees what TCP would show it: a lost connection. */
/* req: version-two-08 5.3.3 #2 #19 */
enum rr_eng_why rr_amend_error(struct rr_eng *e, struct rr_call *c, const struct rr_msg *m)
{
	enum rr_eng_why why = learn_size(e, c, m);

	e->starved = 0;
	c->next.reply = c->reply.len;
	c->next.write = c->write.len;
	c->next.whole = false;
	if (!c->kept || ++c->tries == TRIES || !amend(e, c, rr_again_tx(e, c), m))
		return why;
	rr_req_withdraw(e, c);
	return RR_WHY_NONE;
}
