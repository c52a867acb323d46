/* SPDX-License-Identifier: BSD-3-Clause */

/* Reliable replies (draft-cel-nfsv4-rpcrdma-reliable-reply-00), and replies by Read chunk
 * (draft-02 §3.8, §5.2), which are the same on the wire: a reply that no resource of the
 * requester can hold is exposed by us for the requester to pull, until RDMA_DONE says that it
 * was pulled. If RDMA_DONE does not come, the memory is fenced after a while and only then
 * freed; a peer with the library may take as long as it likes. When a reply goes this way is
 * decided in responder.c. */

#include "core/engine/engine_int.h"

/* Is there room for one more? A single reply may exceed the budget, or it could never be
 * sent. */
bool rr_rel_room(const struct rr_eng *e, uint32_t len)
{
	return e->shown.used < e->shown.n &&
	       (!e->exposed || (uint64_t)e->exposed + len <= e->p.max_exposed);
}

int rr_rel_reserve(struct rr_eng *e, uint32_t xid, uint32_t len, struct rr_shown **out)
{
	struct rr_shown *s = rr_rel_room(e, len) ? rr_table_get(&e->shown) : NULL;

	if (!s) {
		e->pressure = true;
		e->refused = len;
		return -EAGAIN;
	}
	s->n.xid = xid;
	s->mem.state = RR_MEM_NONE;
	s->mem.len = len;
	e->exposed += len;
	*out = s;
	return 0;
}

void rr_rel_sent(struct rr_eng *e, struct rr_shown *s)
{
	s->since = e->now;
	rr_list_add(&e->shown_sent, &e->shown, s);
}

static void put_shown(struct rr_eng *e, struct rr_shown *s)
{
	rr_eng_release(e, s->mem.buf);
	e->exposed -= s->mem.len;
	e->pressure = false;
	rr_table_put(&e->shown, s);
}

static void fence_shown(struct rr_eng *e, struct rr_shown *s)
{
	rr_list_del(&e->shown_sent, &e->shown, s);
	if (rr_mem_fence(e, &s->mem, rr_id(RR_K_INV_SHOWN, &s->n)))
		put_shown(e, s);
}

/* req: reliable-reply-00 - #8 */
bool rr_rel_key_gone(struct rr_eng *e, uint32_t handle)
{
	struct rr_shown *s = rr_list_head(&e->shown_sent, &e->shown);

	while (s && !rr_mem_key_gone(&s->mem, handle))
		s = s->n.next ? rr_table_at(&e->shown, s->n.next) : NULL;
	return s;
}

void rr_rel_fenced(struct rr_eng *e, struct rr_shown *s)
{
	if (s->mem.state == RR_MEM_FENCING)
		put_shown(e, s);
}

static struct rr_shown *find_shown(struct rr_eng *e, uint32_t xid)
{
	struct rr_shown *s = rr_list_head(&e->shown_sent, &e->shown);

	while (s && s->n.xid != xid)
		s = s->n.next ? rr_table_at(&e->shown, s->n.next) : NULL;
	return s;
}

/* RFC 8166 §4.6.2 and the draft agree: a DONE for something that we do not expose is
 * dropped. */
/* req: rfc8166 4.6.2 #2; reliable-reply-00 - #5; draft-02 3.8 #2; version-two-08 5.2 #2 */
void rr_rel_done_received(struct rr_eng *e, struct rr_in *in)
{
	struct rr_shown *s = find_shown(e, in->n.xid);

	/* where DONE is a header type of its own, we do not have that type */
	if (!e->pulls) {
		rr_in_wrong(in, RR_ERR_INVAL_HTYPE, 0, 0);
		if (e->traits->directed)
			rr_in_unfit(e, in, in->dir);
		else
			rr_in_discard(e, in);
		return;
	}
	rr_eng_count(e, s ? RR_C_done_received : RR_C_late_done);
	if (s)
		fence_shown(e, s);
	rr_in_drop(e, in);
}

/* How long to wait for DONE. A peer with the library pulls a reply when its app reads it,
 * however late: on TCP, too, unread bytes stay, and their number is bounded.
 *
 * req: reliable-reply-00 i #3 */
static rr_time done_patience(const struct rr_eng *e)
{
	if (e->p.patient)
		return RR_TIME_NEVER;
	return e->pressure ? e->p.done_timeout_pressure : e->p.done_timeout;
}

rr_time rr_rel_deadline(const struct rr_eng *e)
{
	const struct rr_shown *s = rr_list_head(&e->shown_sent, &e->shown);

	if (!s || s->since > RR_TIME_NEVER - done_patience(e))
		return RR_TIME_NEVER;
	return s->since + done_patience(e);
}

/* req: reliable-reply-00 i #3 */
void rr_rel_tick(struct rr_eng *e)
{
	struct rr_shown *s;

	while ((s = rr_list_head(&e->shown_sent, &e->shown)) && e->now >= rr_rel_deadline(e)) {
		rr_eng_count(e, RR_C_done_timeouts);
		fence_shown(e, s);
	}
}
