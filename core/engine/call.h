/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ENGINE_CALL_H
#define RR_ENGINE_CALL_H

/* A call of ours, from its entry in the table to the end of the wait for its reply. Calls of
 * every kind take these steps in requester.c, those that expose nothing in plain.c. */

#include "core/engine/queues.h"

/* The oldest call with this XID whose Send was handed out; NULL: there is none. */
static inline struct rr_call *rr_call_find(const struct rr_eng *e, uint32_t xid)
{
	struct rr_call *c = rr_xmap_find(&e->call_map, &e->calls, xid);

	return c && c->sent ? c : NULL;
}

/* An entry for a call that is about to be sent, which takes a credit. NULL: every entry is in
 * use. The caller fills in what its plan says. */
static inline struct rr_call *rr_call_open(struct rr_eng *e, const struct rr_rpc *rpc)
{
	struct rr_call *c = rr_table_get(&e->calls);

	if (!c)
		return NULL;
	c->n.xid = rpc->xid;
	c->sent = c->bare = c->kept = c->again = false;
	c->tries = 0;
	c->max_segs = 0;
	c->in = 0;
	c->prog = rpc->prog;
	c->vers = rpc->vers;
	c->proc = rpc->proc;
	c->args.state = c->reply.state = c->write.state = RR_MEM_NONE;
	c->args.len = c->reply.len = c->write.len = 0;
	c->tx = 0;
	rr_xmap_add(&e->call_map, &e->calls, c);
	rr_credits_take(&e->cr);
	return c;
}

/* The peer cannot, or can no longer, access the arguments of c: with ring credits c may be
 * forgotten. */
static inline void rr_call_make_bare(struct rr_eng *e, struct rr_call *c)
{
	if (!e->ring || c->bare)
		return;
	c->bare = true;
	rr_list_add(&e->bare, &e->calls, c);
}

/* The Send of c was handed out. From now on a reply may come, and c may be forgotten unless it
 * exposes something that the peer may still have to read. */
static inline void rr_call_sent(struct rr_eng *e, struct rr_call *c)
{
	c->sent = true;
	c->dones = e->cr.dones;
	c->since = e->now;
	if (c->args.state == RR_MEM_NONE)
		rr_call_make_bare(e, c);
}

/* Nobody waits for the reply to c any more. */
static inline void rr_call_unlink(struct rr_eng *e, struct rr_call *c)
{
	rr_xmap_del(&e->call_map, &e->calls, c);
	if (c->bare)
		rr_list_del(&e->bare, &e->calls, c);
	c->bare = false;
}

#endif
