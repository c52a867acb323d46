/* SPDX-License-Identifier: BSD-3-Clause */
/* The tool as a server that does everything right, for a requester that is judged. It knows
 * the laboratory program only, and calls that are short: what is beyond that a case answers
 * itself. */
#include "tools/conform/run_int.h"

/* Returns a Write or Reply chunk of the call as unused: the same segments with lengths of 0
 * (RFC 8166 §4.3.2.2). */
static void put_chunk(struct rr_bytes *out, const struct rr_chunk *ch)
{
	rr_bytes_word(out, 1);
	rr_bytes_word(out, ch->n);
	for (uint32_t i = 0; i < ch->n; i++) {
		rr_bytes_word(out, ch->seg[i].handle);
		rr_bytes_word(out, 0);
		rr_bytes_word(out, (uint32_t)(ch->seg[i].offset >> 32));
		rr_bytes_word(out, (uint32_t)ch->seg[i].offset);
	}
}

/* Writes the head of a reply to s: an RDMA_MSG that leaves the call's chunks unused, and an RPC
 * reply that is accepted and successful, without results yet. */
static void put_answer(struct rr_run *r, const struct rr_seen *s)
{
	const uint32_t prefix[] = { s->xid, s->vers, r->o->link.credits, 0, 1, 0 };
	bool v2 = rr_layout(r->env.dialect, s->vers) == RR_DIALECT_V2;

	r->out.len = 0;
	for (uint32_t i = 0; i < (v2 ? 6 : 4); i++)
		rr_bytes_word(&r->out, prefix[i]);
	rr_bytes_word(&r->out, 0);
	for (uint32_t i = 0; i < s->nwrites; i++)
		put_chunk(&r->out, &s->write[i]);
	rr_bytes_word(&r->out, 0);
	if (s->has_reply)
		put_chunk(&r->out, &s->reply);
	else
		rr_bytes_word(&r->out, 0);
	for (uint32_t i = 0; i < 6; i++)
		rr_bytes_word(&r->out, i == 0 ? s->xid : i == 1);
}

/* Answers as the laboratory program does, which a requester's caller calls: ECHO (procedure 1)
 * returns its arguments, other procedures have no results. 40 bytes is the shortest RPC header
 * of a call. What is no sound call gets no answer, and the caller's own timeout tells. */
static void answer_call(struct rr_run *r, const struct rr_message *m)
{
	struct rr_seen s;

	if (rr_seen_read(r->env.dialect, m->bytes, m->len, &s) || s.kind != RR_K_MSG ||
	    s.body_len < 40)
		return;
	put_answer(r, &s);
	if (rr_word(s.body + 20) == 1)
		rr_bytes_add(&r->out, s.body + 40, s.body_len - 40);
	rr_link_send(&r->link, r->out.p, (uint32_t)r->out.len, 0);
}

/* Waits in short steps, because the end of the command is not an event of the connection. Its
 * connection may end before the command does. Four timeouts are for commands that make several
 * calls. */
bool rr_run_serve(struct rr_run *r, const struct rr_step *s)
{
	int line = s ? s->line : 0;
	char want[64] = "0";
	rr_time until = rr_now() + 4 * r->o->timeout * RR_MSEC;

	while (!rr_caller_ended(&r->caller) && rr_now() < until) {
		const struct rr_message *m = r->connected ? rr_link_recv(&r->link, 20) : NULL;

		if (m && !rr_run_opens(r, s, m))
			answer_call(r, m);
		else if (!m && (!r->connected || r->link.closed))
			rr_os_nap(5 * RR_MSEC);
	}
	if (rr_run_meets(r, s, RR_LIE_ANY)) {
		r->r->lied = true;
		r->caller.status ^= 0x155;
	}
	if (r->caller.status < 0)
		return rr_run_fail(r, line, "the caller does not end");
	if (s ? rr_env_match(&r->env, &s->fields->pat,
			     (uint64_t)r->caller.status) : r->caller.status == 0)
		return true;
	if (s)
		rr_env_print(&r->env, &s->fields->pat, want, sizeof(want));
	return rr_run_fail(r, line, "the caller ended with status %d, expected %s",
			   r->caller.status, want);
}
