/* SPDX-License-Identifier: BSD-3-Clause */

/* Entries of messages from the peer, from arrival to release: the receive that a message lies
 * in, and its turn to be read and delivered. What a message means is judged in inbound.c. */

#include "core/engine/queues.h"

/* Entries are used again without being cleared, so what a message does not set when it is
 * judged is set here. */
struct rr_in *rr_in_new(struct rr_eng *e, uint32_t token)
{
	struct rr_in *in = rr_table_get(&e->ins);

	if (!in)
		return NULL;
	in->from = RR_FROM_RECV;
	in->held = true;
	in->pulled = in->done_due = in->credit_due = in->placing = false;
	in->composing = in->credit_kept = in->fetching = false;
	in->refused = RR_DIR_UNKNOWN;
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

/* No receive belongs to such an entry, so there is none to give back. */
struct rr_in *rr_in_own(struct rr_eng *e, uint32_t xid)
{
	struct rr_in *in = rr_table_get(&e->ins);

	if (!in)
		return NULL;
	in->n.xid = xid;
	in->vers = e->codec->version;
	in->dir = RR_DIR_UNKNOWN;
	in->held = false;
	in->serve = 0;
	in->inv = 0;
	return in;
}

void rr_in_forget_chunks(struct rr_eng *e, struct rr_in *in)
{
	if (in->serve)
		rr_table_put(&e->serves, rr_table_at(&e->serves, in->serve));
	in->serve = 0;
}

/* A receive is given back once; later calls do nothing. */
void rr_in_repost(struct rr_eng *e, struct rr_in *in)
{
	if (!in->held)
		return;
	in->held = false;
	rr_eng_push(e, RR_OP_REPOST, 0, in->token, 0, 0);
}

void rr_in_drop(struct rr_eng *e, struct rr_in *in)
{
	rr_in_forget_chunks(e, in);
	rr_in_repost(e, in);
	rr_table_put(&e->ins, in);
}

void rr_in_discard(struct rr_eng *e, struct rr_in *in)
{
	rr_eng_count(e, RR_C_discarded);
	rr_in_drop(e, in);
}

void rr_in_arrive(struct rr_eng *e, struct rr_in *in, enum rr_in_state state)
{
	in->state = state;
	rr_list_add(&e->arrived, &e->ins, in);
}

/* --- reading the peer's memory ------------------------------------------------------------ */

/* The limit is the peer's or the driver's. A message beyond it stays in the queue of deliveries
 * with the operation noted in waits, and rr_in_read_over() begins it. */
/* req: draft-02 6.2 #2 */
void rr_in_read(struct rr_eng *e, struct rr_in *in, enum rr_opcode code)
{
	if (e->reads_max && !in->reading) {
		if (unlikely(e->reading >= e->reads_max)) {
			in->waits = (uint8_t)code;
			e->waiting++;
			return;
		}
		in->reading = true;
		e->reading++;
	}
	rr_eng_push(e, code, rr_id(RR_K_PULL, &in->n), RR_BUF_NONE, 0, in->n.idx);
}

/* The message that is to be delivered first goes next. */
void rr_in_read_over(struct rr_eng *e, struct rr_in *in)
{
	struct rr_in *next = rr_list_head(&e->arrived, &e->ins);
	enum rr_opcode code;

	if (!in->reading)
		return;
	in->reading = false;
	e->reading--;
	if (likely(!e->waiting))
		return;
	while (next && !next->waits)
		next = next->n.next ? rr_table_at(&e->ins, next->n.next) : NULL;
	if (!next)
		return;
	e->waiting--;
	code = (enum rr_opcode)next->waits;
	next->waits = RR_OP_NONE;
	rr_in_read(e, next, code);
}
