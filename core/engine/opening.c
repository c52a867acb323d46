/* SPDX-License-Identifier: BSD-3-Clause */

/* The opening: what the two ends say to each other before the app's first message, in dialects
 * that have such a thing. The side that has connected asks, the other answers, and until that
 * is over the app's messages are not taken. It takes a bounded time: without an answer the
 * connection is given up.
 *
 * In version 2 it is the choice of the version and RDMA2_CONNPROP (version-two-08 §4, §5.3.4,
 * §7), which are here; for draft02 see conf_rdma.c. */

#include "core/engine/engine_int.h"
#include "core/wire/cursor.h"
#include "core/wire/v2.h"

void rr_open_over(struct rr_eng *e)
{
	e->opening = RR_OPEN_OVER;
	e->open_until = RR_TIME_NEVER;
}

static void say_opening(struct rr_eng *e, struct rr_in *in)
{
	in->state = RR_IN_OPENING;
	rr_list_add(&e->control, &e->ins, in);
}

/* The tables are still empty, so there is an entry. */
/* req: version-two-08 7 #1 */
void rr_open_begin(struct rr_eng *e)
{
	rr_open_over(e);
	if (!e->traits->opening)
		return;
	e->opening = e->traits->opening->begin(e);
	if (e->opening != RR_OPEN_ASKED)
		return;
	e->open_until = e->now + RR_ENG_OPENING;
	say_opening(e, rr_in_own(e, RR_OPEN_XID));
}

void rr_open_next_op(struct rr_eng *e, const struct rr_in *in, struct rr_op *op)
{
	e->traits->opening->say(e, in, op);
}

void rr_open_tick(struct rr_eng *e)
{
	if (e->now >= e->open_until)
		rr_eng_fail(e, RR_WHY_NO_ANSWER);
}

void rr_open_answer(struct rr_eng *e, struct rr_in *in)
{
	rr_in_repost(e, in);
	say_opening(e, in);
}

/* What still waits to be said has no meaning any more. */
static void unsay(struct rr_eng *e)
{
	struct rr_in *in = rr_list_head(&e->control, &e->ins);

	while (in) {
		struct rr_in *next = in->n.next ? rr_table_at(&e->ins, in->n.next) : NULL;

		if (in->state == RR_IN_OPENING) {
			rr_list_del(&e->control, &e->ins, in);
			rr_table_put(&e->ins, in);
		}
		in = next;
	}
}

static bool fall_back(struct rr_eng *e, uint32_t vers)
{
	if (!rr_eng_fall_back(e, vers))
		return false;
	unsay(e);
	rr_open_over(e);
	return true;
}

/* version-two-08 §7.3: calls are answered in their own version. The side that has connected has
 * chosen the version when its first message arrives. */
/* req: version-two-08 7.3 #2 */
void rr_open_version(struct rr_eng *e, const uint8_t *buf, uint32_t len)
{
	uint32_t vers = len < RR_PREFIX_LEN ? e->codec->version : rr_be32(buf + 4);

	if (e->opening != RR_OPEN_AWAITED || vers == e->codec->version)
		return;
	fall_back(e, vers);
}

bool rr_open_heard(struct rr_eng *e, struct rr_in *in, enum rr_wire_rc rc, uint32_t have)
{
	return e->traits->opening && e->traits->opening->hear(e, in, rc, have);
}

/* --- version 2 ------------------------------------------------------------------------- */

static uint32_t reverse_support(const struct rr_eng *e)
{
	if (!e->p.connector)
		/* what it sends in that direction it also accepts */
		return RR_RVREQSUP_GENL;
	if (e->p.bc_credits == 0)
		return RR_RVREQSUP_NONE;
	return e->p.caps & RR_CAP_REVERSE_CHUNKS ? RR_RVREQSUP_GENL : RR_RVREQSUP_INLINE;
}

/* §5.3.4: everything there is to know about us; far less than the 1024 bytes that any peer can
 * receive. */
/* req: version-two-08 3.2 #4, 5.2 #1, 5.3.4 #1 #3 */
static void say_props(struct rr_eng *e, const struct rr_in *in, struct rr_op *op)
{
	bool reply = in->dir == RR_DIR_CALL;
	struct rr_props *p = &e->tmp->tx.props;

	rr_msg_init(&e->tmp->tx, RR_CONNPROP, in->n.xid, e->codec->version,
		    reply ? rr_resp_grant(e) : e->cr.asked);
	e->tmp->tx.dir = reply ? RR_DIR_REPLY : RR_DIR_CALL;
	rr_props_init(p);
	rr_props_set(p, RR_PROP_RBSIZ, e->p.inline_recv);
	rr_props_set(p, RR_PROP_BRS, reverse_support(e));
	if (e->p.caps & RR_CAP_RELIABLE_REPLY && !e->p.no_done)
		rr_props_set(p, RR_PROP_DONE, 1);
	rr_tx_encode(e, op);
}

/* Takes the peer's properties; for a peer that says none these are the defaults. They are taken
 * once only, because none of them can change later (§5.3.4). */
/* req: reliable-reply-00 - #10 */
static void take_props(struct rr_eng *e, const struct rr_props *p)
{
	uint32_t most = rr_max(e->p.inline_send_max, e->p.inline_send);

	e->p.inline_send = rr_min(p->value[RR_PROP_RBSIZ], most);
	/* §4.2.1: decides about the need for a Reply chunk */
	e->p.inline_peer = p->value[RR_PROP_RBSIZ];
	if (e->p.inline_send < RR_V2_FIRST_MAX)
		rr_eng_fail(e, RR_WHY_PROTOCOL);
	e->mute |= !e->p.connector && p->value[RR_PROP_BRS] == RR_RVREQSUP_NONE;
	rr_eng_agreed(e, p->value[RR_PROP_DONE] == 1 && !e->p.no_done,
		      e->p.connector ? reverse_support(e) == RR_RVREQSUP_GENL
				     : p->value[RR_PROP_BRS] == RR_RVREQSUP_GENL);
	e->reverse_reads = p->value[RR_PROP_BRS] == RR_RVREQSUP_GENL;
	e->infer = e->p.connector && !(p->given & 1u << RR_PROP_BRS);
	e->props_known = true;
}

/* The peer's reverse calls show that it accepts chunks (§4.2.2). */
void rr_open_infer(struct rr_eng *e, const struct rr_chunks *ch)
{
	e->reverse_reads |= ch->nreads || ch->nwrites || ch->has_reply;
}

static void take_defaults(struct rr_eng *e)
{
	struct rr_props p;

	rr_props_init(&p);
	take_props(e, &p);
	rr_open_over(e);
}

/* Is this the answer to our question? */
static bool is_answer(const struct rr_eng *e, const struct rr_in *in)
{
	return e->opening == RR_OPEN_ASKED && in->dir == RR_DIR_REPLY &&
	       in->n.xid == RR_OPEN_XID;
}

/* Properties have arrived. The first ones count: nothing that the peer says later changes
 * them. */
/* req: version-two-08 5.3.4 #4 */
static void props_arrived(struct rr_eng *e, struct rr_in *in)
{
	if (in->dir == RR_DIR_REPLY && !is_answer(e, in)) {	/* to nothing that was said */
		rr_in_discard(e, in);
		return;
	}
	if (!e->props_known)
		take_props(e, &e->tmp->rx.props);
	if (in->dir == RR_DIR_CALL) {
		e->requested = in->credit;
		if (e->opening == RR_OPEN_AWAITED)
			rr_open_over(e);
		rr_open_answer(e, in);
	} else {
		rr_credits_grant(&e->cr, in->credit, e->traits->zero_grants);
		rr_open_over(e);
		rr_in_drop(e, in);
	}
}

/* §7.2: a peer that does not speak version 2 says what it speaks. One that does, but does not
 * know properties, is taken to have the defaults. */
static void hear_refused(struct rr_eng *e, struct rr_in *in)
{
	const struct rr_msg *m = &e->tmp->rx;
	bool v1 = m->err == RR_ERR_VERS && m->vers_low <= 1 && m->vers_high >= 1;

	if (m->err == RR_ERR_VERS)
		rr_eng_count(e, RR_C_err_vers_received);
	if (m->err == RR_ERR_INVAL_HTYPE)
		take_defaults(e);
	else if (!v1 || !fall_back(e, 1))
		rr_eng_fail(e, m->err == RR_ERR_VERS ? RR_WHY_ERR_VERS : RR_WHY_PROTOCOL);
	rr_in_drop(e, in);
}

/* The answer cannot be parsed: nothing may be said to that (§5.3.3), so the connection is given
 * up. */
static void spoilt(struct rr_eng *e, struct rr_in *in)
{
	rr_eng_fail(e, RR_WHY_PROTOCOL);
	rr_in_drop(e, in);
}

/* req: version-two-08 4.1 #1 #2, 5.2 #1 */
static bool hear_v2(struct rr_eng *e, struct rr_in *in, enum rr_wire_rc rc,
		    RR_UNUSED uint32_t have)
{
	if (e->tmp->rx.type == RR_CONNPROP && rc == RR_WIRE_OK)
		props_arrived(e, in);
	else if (e->tmp->rx.type == RR_CONNPROP && is_answer(e, in))
		spoilt(e, in);
	else if (e->tmp->rx.type == RR_ERROR && rc == RR_WIRE_OK && is_answer(e, in))
		hear_refused(e, in);
	else {
		if (e->opening == RR_OPEN_AWAITED && rc == RR_WIRE_OK && in->dir == RR_DIR_CALL)
			take_defaults(e);
		return false;
	}
	return true;
}

static enum rr_open_state begin_v2(const struct rr_eng *e)
{
	return e->p.connector ? RR_OPEN_ASKED : RR_OPEN_AWAITED;
}

const struct rr_opening rr_opening_v2 = { .begin = begin_v2, .say = say_props,
					  .hear = hear_v2 };
