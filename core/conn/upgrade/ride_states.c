/* SPDX-License-Identifier: BSD-3-Clause */
/* What a connection with an upgrade that rides along (ride.c) does in each of its states when
 * time passes, records go by, its process forks, or the app needs one of our descriptor
 * numbers. Each function is for one state; core/conn/kinds.c says which state has which. Bytes
 * are not handled here. */

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"

#define WATCHED		64u	/* records of the app in which an offer may come */
#define PATIENCE	64u	/* records of either direction without an answer */
#define LATE		256u	/* the same, until nothing can be the answer any more */

/* The peer has not answered, or its answer no longer counts. If it still comes, it is
 * swallowed, because it is not the app's. */
void rr_ride_leave(struct rr_conn *c, enum rr_reason why)
{
	rr_carrier_free(c->share);
	c->share = NULL;
	rr_conn_become(c, RR_S_SWALLOW, why);
}

int rr_ride_orphan(struct rr_conn *c)
{
	rr_share_unmap(c->share);
	c->share = NULL;
	rr_conn_become(c, RR_S_TCP, RR_R_FORKED);
	return 0;
}

/* --- time passes -------------------------------------------------------------------------- */

void rr_asked_step(struct rr_conn *c, int fd RR_UNUSED)
{
	if (rr_now() >= c->deadline)
		rr_ride_leave(c, RR_R_TIMEOUT);
}

void rr_meeting_step(struct rr_conn *c, int fd RR_UNUSED)
{
	rr_offer_join(c);
}

void rr_heard_step(struct rr_conn *c, int fd RR_UNUSED)
{
	if (rr_now() >= c->deadline)
		rr_upgrade_fails(c, RR_R_ABANDONED);
}

void rr_said_step(struct rr_conn *c, int fd RR_UNUSED)
{
	rr_answer_rides(c);
}

bool rr_said_joined(struct rr_conn *c)
{
	if (c->owner == (int32_t)rr_pid())
		rr_answer_rides(c);
	return rr_conn_is_carried(c);
}

/* --- records go by ------------------------------------------------------------------------ */

static void count_watched(struct rr_conn *c)
{
	if (unlikely(!c->seg) && c->out.records > 1)
		/* its second call: it is reported now */
		rr_conn_become(c, RR_S_WATCH, RR_R_FEW_CALLS);
	if ((c->face.server ? c->in.records : c->out.records) >= WATCHED)
		rr_conn_become(c, RR_S_TCP, c->face.server ? RR_R_NO_OFFER : RR_R_FEW_CALLS);
}

static void count_asked(struct rr_conn *c)
{
	if (c->in.records - c->asked_in >= PATIENCE ||
	    c->out.records - c->asked_out >= PATIENCE)
		rr_ride_leave(c, RR_R_NOT_ANSWERED);
}

static void count_late(struct rr_conn *c)
{
	if (c->in.records - c->asked_in >= LATE && rr_track_at_boundary(&c->in))
		rr_conn_become(c, RR_S_TCP, RR_R_TIMEOUT);
}

/* How many records may go by before we stop looking. This table is separate from kinds.c
 * because a call that reads several records may pass from one state into the next, whereas a
 * row of kinds.c is for the state in which a call has entered. */
static void (*const count[RR_S_COUNT])(struct rr_conn *c) = {
	[RR_S_WATCH] = count_watched,
	[RR_S_ASKED] = count_asked,
	[RR_S_SWALLOW] = count_late,
};

void rr_ride_count(struct rr_conn *c)
{
	enum rr_conn_st st = rr_conn_st(c);

	if (count[st])
		count[st](c);
}

/* --- it cannot go on ---------------------------------------------------------------------- */

/* Withdraws the answer. If the client has taken it up already, the connection becomes carried
 * as soon as the provider says so. */
static void end_said(struct rr_conn *c, enum rr_reason why)
{
	if (rr_answer_withdraw(c))
		rr_upgrade_fails(c, why);
	else
		rr_answer_rides(c);
}

/* The process forks: this process will not see what its child reads and writes. What was said
 * to the peer cannot be taken back, but an offer or an answer that has not gone yet need not
 * go. */

void rr_watch_forks(struct rr_conn *c)
{
	c->looked = 0;	/* the child may read what was seen */
	if (!c->face.server)
		rr_upgrade_fails(c, RR_R_FORKED);
}

void rr_heard_forks(struct rr_conn *c)
{
	rr_upgrade_fails(c, RR_R_FORKED);
}

void rr_said_forks(struct rr_conn *c)
{
	end_said(c, RR_R_FORKED);
}

void rr_asked_yield(struct rr_conn *c)
{
	rr_ride_leave(c, RR_R_NO_FDS);
}

void rr_heard_yield(struct rr_conn *c)
{
	rr_upgrade_fails(c, RR_R_NO_FDS);
}

/* If the client has joined, the connection is carried, and its descriptor can be moved then. */
void rr_said_yield(struct rr_conn *c)
{
	end_said(c, RR_R_NO_FDS);
}
