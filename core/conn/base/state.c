/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection's state: changing it, and what else changes with it. */

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/base.h"
#include "core/conn/base/who.h"

static enum rr_conn_state shown_state(enum rr_conn_st st)
{
	switch (st) {
	case RR_S_OFFERED: case RR_S_JOINING: case RR_S_ASKED: case RR_S_MEETING:
		return RR_CS_OFFERED;
	case RR_S_ANSWERED: case RR_S_HEARD: case RR_S_SAID: return RR_CS_ANSWERED;
	case RR_S_CARRIED: return RR_CS_CARRIED;
	case RR_S_SWALLOW: case RR_S_TCP: case RR_S_WATCH: return RR_CS_TCP;
	case RR_S_REFUSED: return RR_CS_DEAD;
	case RR_S_LISTEN: return RR_CS_LISTENING;
	default: return RR_CS_NEW;
	}
}

void rr_conn_lowat(struct rr_conn *c, int bytes)
{
	rr_os->setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
	c->lowat_set = bytes != c->lowat;
}

/* Under the lock of the state that it leaves. */
void rr_conn_become(struct rr_conn *c, enum rr_conn_st st, enum rr_reason why)
{
	enum rr_carrier carrier = RR_CARRIER_NONE;

	if (unlikely(c->lowat_set))
		rr_conn_lowat(c, c->lowat);
	rr_half_leave(c);
	if ((st == RR_S_TCP || st == RR_S_SWALLOW) && c->require) {
		st = RR_S_REFUSED;
		rr_report_ends(c);
		rr_err(RR_WHO ": refused: %s, and its rule is 'require'",
		       RR_WHO_OF(c->fd, c->st), rr_reason_text(why));
		why = RR_R_REQUIRED;
		rr_anchor_break(c->fd);
	}
	if (st == RR_S_TCP || st == RR_S_SWALLOW || st == RR_S_WATCH)
		carrier = RR_CARRIER_TCP;
	if (st == RR_S_CARRIED) {
		carrier = c->share->qp->ops->id == 2 ? RR_CARRIER_VERBS : RR_CARRIER_SHM;
	}
	rr_report_adopt(c);
	if (st == RR_S_CARRIED || carrier == RR_CARRIER_TCP || st == RR_S_REFUSED)
		rr_report(c, st == RR_S_CARRIED && c->share->qp->native ? RR_CS_NATIVE :
			  shown_state(st),
			  carrier, why);
	if (st == RR_S_CARRIED)
		return rr_slab_carried(c);
	rr_conn_turn(c, st);
}

bool rr_conn_is_tcp(const struct rr_conn *c)
{
	return rr_conn_st(c) == RR_S_TCP;
}

bool rr_conn_is_kernels(const struct rr_conn *c)
{
	return rr_conn_begins(c);
}

bool rr_conn_is_carried(const struct rr_conn *c)
{
	return rr_conn_st(c) == RR_S_CARRIED && !rr_conn_relayed(c, 0);
}

bool rr_conn_changed(struct rr_conn *c)
{
	return atomic_load_explicit(&c->changed, memory_order_relaxed) &&
	       atomic_exchange_explicit(&c->changed, false, memory_order_acquire);
}
