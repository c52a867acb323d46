/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes a connection's state, along with what must change at the same time. Which state comes
 * next is decided on the floors above. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/base.h"
#include "core/conn/base/who.h"

/* What statistics and log are told when a connection enters a state; nothing, if the state has
 * no row. A carried connection is reported by report_carried(), according to its queue pair. */
static const struct told {
	enum rr_conn_state shown;
	enum rr_carrier carrier;
	bool is_tcp_for_good;	/* not allowed by a rule of mode 'require' */
} told[RR_S_COUNT] = {
	[RR_S_WATCH] = { RR_CS_NEW, RR_CARRIER_TCP, false },
	[RR_S_SWALLOW] = { RR_CS_TCP, RR_CARRIER_TCP, true },
	[RR_S_TCP] = { RR_CS_TCP, RR_CARRIER_TCP, true },
	[RR_S_REFUSED] = { RR_CS_DEAD, RR_CARRIER_NONE, false },
};

static void report_carried(struct rr_conn *c, enum rr_reason why)
{
	rr_report(c, c->share->qp->native ? RR_CS_NATIVE : RR_CS_CARRIED,
		  rr_carrier_kind(c->share), why);
}

void rr_conn_lowat(struct rr_conn *c, int bytes)
{
	rr_os->setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
	c->lowat_set = bytes != c->lowat;
}

/* Once the connection is carried, the option is the family's: any process of it may set it. */
static void share_lowat(struct rr_conn *c)
{
	socklen_t len = sizeof(c->lowat);
	int saved = errno;

	if (atomic_load_explicit(&c->forked, memory_order_relaxed) &&
	    rr_os->getsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &c->lowat, &len))
		errno = saved;
	rr_rx_set_lowat(c->share, c->lowat);
}

/* Called under the lock that belongs to the state it leaves. */
void rr_conn_become(struct rr_conn *c, enum rr_conn_st st, enum rr_reason why)
{
	if (unlikely(c->lowat_set))
		rr_conn_lowat(c, c->lowat);
	rr_half_leave(c);
	if (told[st].is_tcp_for_good && c->require) {
		st = RR_S_REFUSED;
		rr_report_ends(c);
		rr_who_err(c->fd, c->st, ": refused: %s, and its rule is 'require'",
			   rr_reason_text(why));
		why = RR_R_REQUIRED;
		rr_anchor_break(c->fd);
	}
	rr_report_adopt(c);
	if (st == RR_S_CARRIED) {
		share_lowat(c);
		c->face.within = c->share->qp->peer_pid == (uint32_t)rr_pid();
		report_carried(c, why);
		return rr_slab_carried(c);
	}
	if (told[st].shown)
		rr_report(c, told[st].shown, told[st].carrier, why);
	rr_conn_turn(c, st);
}
