/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers what a requester may say before its first call, as a server without wishes would:
 * version 2's properties by the default ones (version-two-08 §5.3.4), and the Connection
 * Configuration Protocol by PROG_UNAVAIL (draft-02 §6). A case about these says so and answers
 * itself. */
#include "tools/conform/wire.h"

#define CCP	100417u

/* Does an alternative of s expect what opens a connection? A raw message may be anything, so it
 * counts; so does a call whose program is asked for. */
static bool is_asked_for(const struct rr_step *s)
{
	for (; s; s = s->other) {
		if (s->kind == RR_K_CONNPROP || s->kind == RR_K_RAW)
			return true;
		for (const struct rr_item *it = s->items; it; it = it->next)
			if (it->kind == RR_I_RPC_CALL && rr_field_pat(it->fields, "prog"))
				return true;
	}
	return false;
}

/* Is it a call (word 1 is 0) of the protocol's program? 24 bytes reach to the procedure. */
static bool is_ccp(const struct rr_seen *s)
{
	return s->kind == RR_K_MSG && s->body_len >= 24 && rr_word(s->body + 4) == 0 &&
	       rr_word(s->body + 12) == CCP;
}

/* The answer is made by the same function as a case's messages, from a step that is put
 * together here. Returns false if the message is none of an opening: then it is the case's. */
bool rr_make_opening(struct rr_env *e, const struct rr_step *s, const uint8_t *buf,
		     uint32_t len,
		    struct rr_bytes *out)
{
	struct rr_step answer = { .op = RR_STEP_SEND, .kind = RR_K_CONNPROP };
	struct rr_field accept = { .name = "accept", .pat.n = 1 };
	struct rr_field one = { .name = "credit", .pat.n = 1 };
	struct rr_item rpc = { .kind = RR_I_RPC_REPLY, .fields = &accept };
	struct rr_seen seen;
	char why[160];

	if (e->role != RR_REQUESTER || is_asked_for(s) ||
	    rr_seen_read(e->dialect, buf, len, &seen))
		return false;
	if (e->dialect == RR_DIALECT_DRAFT02 && is_ccp(&seen)) {
		/* PROG_UNAVAIL */
		accept.pat.alt[0].lo = (struct rr_expr){ .n = 1, .t[0].value = 1 };
		one.pat.alt[0].lo = (struct rr_expr){ .n = 1, .t[0].value = 1 };
		answer.kind = RR_K_MSG;
		answer.fields = &one;	/* one credit: only the case's own first reply makes
					 * the grant */
		answer.items = &rpc;
	} else if (seen.kind != RR_K_CONNPROP || seen.flags & 1) {
		return false;
	}
	rr_env_set(e, "xid", seen.xid);
	return rr_make_message(e, &answer, out, why, sizeof(why));
}
