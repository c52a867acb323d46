/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps about memory: what the peer may use, and what is the peer's. The tool's memory lies in
 * that of the connection (rr_link_memory()) and ends with it. */
#include "tools/conform/run_int.h"

#include <errno.h>

/* The memory is filled before it is exposed, because a peer may read it at once. `xid` is set
 * first: the contents may be a whole call, which must have the XID of the message that names
 * it. */
bool rr_step_memory(struct rr_run *r, const struct rr_step *s)
{
	struct rr_var *v = rr_env_var(&r->env, s->name);
	int rc = 0;

	if (!rr_run_connected(r))
		return false;
	if (r->o->role == RR_RESPONDER)
		rr_env_set(&r->env, "xid", r->next_xid);	/* of the message that will name
								 * it */
	r->out.len = 0;
	rr_make_body(&r->env, s->items, &r->out);
	v->mem = true;
	v->len = s->a.n ? (uint32_t)rr_run_eval(r, &s->a) : (uint32_t)r->out.len;
	v->at = rr_link_memory(&r->link, v->len);
	if (!v->at || r->out.len > v->len)
		return rr_run_fail(r, s->line, "%s: %u bytes do not fit", s->name, v->len);
	if (r->out.len)
		memcpy(v->at, r->out.p, r->out.len);
	if (s->rights) {
		rc = rr_link_expose(&r->link, v->at, v->len, s->rights, &v->chunk.seg[0]);
		v->chunk.n = 1;
	}
	return !rc || rr_run_fail(r, s->line, "%s cannot be exposed: %s", s->name,
				  strerror(-rc));
}

/* The variable that stands for memory or for a chunk of the peer's. NULL: there is none, and
 * the case has failed. */
struct rr_var *rr_run_memory(struct rr_run *r, const struct rr_step *s)
{
	struct rr_var *v = rr_env_find(&r->env, s->name);

	if (v && v->mem)
		return v;
	rr_run_fail(r, s->line, "%s is no memory", s->name);
	return NULL;
}

bool rr_step_withdraw(struct rr_run *r, const struct rr_step *s)
{
	struct rr_var *v = rr_run_memory(r, s);

	if (!v)
		return false;
	if (v->chunk.n && rr_link_withdraw(&r->link, v->chunk.seg[0].handle))
		return rr_run_fail(r, s->line, "%s cannot be withdrawn", s->name);
	return true;
}

/* The bytes of a chunk. The lengths are the peer's, so the sum is cut where it would not
 * fit. */
static uint32_t chunk_len(const struct rr_chunk *ch)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < ch->n; i++)
		n += ch->seg[i].length;
	return (uint32_t)rr_min(n, (uint64_t)UINT32_MAX);
}

/* Judges an RDMA Read or Write of the peer's memory. -EACCES: the peer has no such memory (any
 * more). A device ends the connection for that; where the connection goes on (shm), it is ended
 * here. */
static bool judge_access(struct rr_run *r, const struct rr_step *s, const char *what, int rc)
{
	if (!s->refused)
		return !rc || rr_run_fail(r, s->line, "%s %s: %s", what, s->name,
					  strerror(-rc));
	if (rr_run_meets(r, s, RR_LIE_ANY)) {
		r->r->lied = true;
		rc = 0;
	}
	if (rc != -EACCES)
		return rr_run_fail(r, s->line, "%s %s, of which it should be refused: %s", what,
				   s->name, rc ? strerror(-rc) : "it was done");
	rr_link_close(&r->link);
	r->connected = false;
	return r->closed_well = true;
}

/* The whole chunk is read; a later `expect memory` looks at it. */
bool rr_step_pull(struct rr_run *r, const struct rr_step *s)
{
	struct rr_var *v = rr_run_memory(r, s);

	if (!v)
		return false;
	v->len = chunk_len(&v->chunk);
	v->at = rr_link_memory(&r->link, v->len);
	if (!v->at)
		return rr_run_fail(r, s->line, "%s: %u bytes do not fit", s->name, v->len);
	return judge_access(r, s, "RDMA Read of", rr_link_read(&r->link, v->at, &v->chunk));
}

/* If the peer is to refuse, all of the chunk is written to, so that every segment's right is
 * tried. */
bool rr_step_push(struct rr_run *r, const struct rr_step *s)
{
	struct rr_var *v = rr_run_memory(r, s);
	uint32_t len;
	uint8_t *at;

	if (!v)
		return false;
	r->out.len = 0;
	rr_make_body(&r->env, s->items, &r->out);
	len = s->refused ? chunk_len(&v->chunk) : (uint32_t)r->out.len;
	at = rr_link_memory(&r->link, len);
	if (!at)
		return rr_run_fail(r, s->line, "%u bytes do not fit", len);
	if (r->out.len)
		memcpy(at, r->out.p, r->out.len);
	return judge_access(r, s, "RDMA Write to", rr_link_write(&r->link, at, len, &v->chunk));
}
