/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells rdmarpc-stat and the log what has become of a connection. The counters of messages and
 * procedures are counted elsewhere (calls.c, core/base/tally.c). */

#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/stats.h"
#include "core/conn/base/base.h"
#include "core/conn/base/who.h"

/* A client process gets a segment once so many of its connections have ended without one. */
#define UNSEEN_MAX	3u

/* `rdmarpc-stat --log-level` writes the level that it wants into the segment. The process takes
 * it up with the next news of a connection. */
static void follow(struct rr_stat_seg *seg)
{
	rr_log_follow(seg ? atomic_load_explicit(&seg->log_level, memory_order_relaxed) : 0);
}

/* Clients of which this process had no segment to count them in: those that ended after few
 * calls, and those that a rule had left to TCP. */
static _Atomic uint32_t unseen, unseen_policy;

static uint32_t all_unseen(void)
{
	return atomic_load_explicit(&unseen, memory_order_relaxed) +
	       atomic_load_explicit(&unseen_policy, memory_order_relaxed);
}

static void count_each(struct rr_stat_seg *seg, _Atomic uint32_t *unseen_ones,
		       enum rr_reason why)
{
	uint32_t n = atomic_exchange_explicit(unseen_ones, 0, memory_order_relaxed);

	while (n--)
		rr_stats_tcp(seg, why);
}

static void count_unseen(struct rr_stat_seg *seg)
{
	if (likely(!all_unseen()))
		return;
	count_each(seg, &unseen, RR_R_FEW_CALLS);
	count_each(seg, &unseen_policy, RR_R_POLICY);
}

static void begin_entry(struct rr_conn *c, int fd, bool make)
{
	c->seg = rr_cp->stats ? rr_cp->stats(make) : NULL;
	follow(c->seg);
	c->st = rr_stats_claim(c->seg, fd, c->face.server);
	if (c->seg)
		count_unseen(c->seg);
}

void rr_report_open(struct rr_conn *c, int fd)
{
	begin_entry(c, fd, true);
}

/* Making a segment takes as long as a call, and a process that makes a call or two is gone
 * before anybody could look at it. So the first clients of a process are not entered, unless it
 * logs. */
static bool clients_are_seen(void)
{
	return all_unseen() >= UNSEEN_MAX ||
	       atomic_load_explicit(&rr_log_level, memory_order_relaxed) >= RR_LOG_INFO;
}

void rr_report_client(struct rr_conn *c, int fd)
{
	begin_entry(c, fd, clients_are_seen());
}

/* Where clients for this reason are counted as long as there is no segment; NULL: nowhere. */
static _Atomic uint32_t *unseen_for(enum rr_reason why)
{
	return why == RR_R_POLICY ? &unseen_policy : why == RR_R_FEW_CALLS ? &unseen : NULL;
}

void rr_report_none(bool server, enum rr_reason why)
{
	_Atomic uint32_t *later = server || clients_are_seen() ? NULL : unseen_for(why);
	struct rr_stat_seg *seg = rr_cp->stats ? rr_cp->stats(!later) : NULL;

	if (!seg && later)
		atomic_fetch_add_explicit(later, 1, memory_order_relaxed);
	if (!seg)
		return;
	count_unseen(seg);
	rr_stats_tcp(seg, why);
}

/* Those were the parent's. */
void rr_report_forked(void)
{
	atomic_store_explicit(&unseen, 0, memory_order_relaxed);
	atomic_store_explicit(&unseen_policy, 0, memory_order_relaxed);
}

/* From here on the connection has an entry. A forked child that finds out what becomes of a
 * connection reports it in its own name, because its parent's entry may be gone. */
void rr_report_adopt(struct rr_conn *c)
{
	if (c->owner == (int32_t)rr_pid() && c->seg)
		return;
	c->owner = (int32_t)rr_pid();
	rr_report_open(c, c->fd);
}

static bool is_carrier(enum rr_carrier carrier)
{
	return carrier == RR_CARRIER_SHM || carrier == RR_CARRIER_VERBS;
}

/* *end[0] is our own address, *end[1] the peer's; NULL: not known. */
static void find_ends(struct rr_conn *c, const struct sockaddr *end[2])
{
	end[0] = rr_ends_own(c);
	end[1] = rr_ends_peer(c);
	for (int i = 0; i < 2; i++)
		if (!end[i]->sa_family)
			end[i] = NULL;
}

void rr_report_ends(struct rr_conn *c)
{
	const struct sockaddr *end[2];

	find_ends(c, end);
	rr_stats_addr(c->st, end[0], end[1]);
}

/* A connection of which nothing is decided may be over with its first call, before anybody
 * looks at its entry: its addresses stand there as they are, and readers make text of them. */
static void report_ends(struct rr_conn *c, enum rr_conn_state st, enum rr_carrier carrier)
{
	const struct sockaddr *end[2];

	find_ends(c, end);
	if (st == RR_CS_NEW)
		rr_stats_addr_raw(c->st, end[0], end[1]);
	else
		rr_stats_addr(c->st, end[0], end[1]);
	if (is_carrier(carrier)) {
		c->share->ends.carrier = (uint8_t)carrier;
		for (unsigned i = 0; i < 2; i++)
			rr_cap_end_set(&c->share->ends, i, end[i]);
	}
}

/* Logs one line for each state that an operator may want to know of. */
static RR_NOINLINE void log_state(struct rr_conn *c, enum rr_conn_state st,
				  enum rr_carrier carrier, enum rr_reason why)
{
	bool rdma = carrier == RR_CARRIER_SHM || carrier == RR_CARRIER_VERBS;
	char program[24] = "";

	if (c->prog)
		rr_fmt(program, sizeof(program), ", program %u", c->prog);
	rr_who_info(c->fd, c->st, "%s: %s, %s%s%s", program, rr_state_name(st),
		    rr_carrier_name(carrier), rdma ? ", " : why ? ": " : "",
		    rdma ? rr_dialect_names[c->share->ep.dialect]
			 : why ? rr_reason_text(why) : "");
}

void rr_report(struct rr_conn *c, enum rr_conn_state st, enum rr_carrier carrier,
	       enum rr_reason why)
{
	report_ends(c, st, carrier);
	follow(c->seg);
	rr_stats_state(c->seg, c->st, st, carrier, why);
	rr_stats_program(c->st, c->prog);
	if (is_carrier(carrier)) {
		rr_report_dialect(c->share);
		rr_stats_peer_pid(c->st, c->share->qp->peer_pid);
	}
	if (unlikely(atomic_load_explicit(&rr_log_level, memory_order_relaxed) >= RR_LOG_INFO))
		log_state(c, st, carrier, why);
}

void rr_report_dialect(struct rr_share *sh)
{
	struct rr_eng_info i;

	rr_eng_info(sh->eng, &i);
	if (i.fell_back)
		rr_who_info(atomic_load_explicit(&sh->st->fd, memory_order_relaxed), sh->st,
			    ": the peer does not speak dialect %s: falls back to version %u",
			    rr_dialect_names[sh->ep.dialect], i.version);
	rr_stats_dialect(sh->st, sh->ep.dialect, i.version);
}

void rr_report_first(struct rr_share *sh, const struct rr_rpc *rpc)
{
	rr_report_dialect(sh);
	if (rpc->type == RR_RPC_CALL)
		rr_stats_program(sh->st, rpc->prog);
}

/* A carried connection's state; the carrier stays what it was. */
void rr_report_share(struct rr_share *sh, enum rr_conn_state st, enum rr_reason why)
{
	uint32_t carrier = atomic_load_explicit(&sh->st->carrier, memory_order_relaxed);

	rr_stats_state(sh->seg, sh->st, st, (enum rr_carrier)carrier, why);
}

void rr_report_close(struct rr_conn *c)
{
	if (!c->seg)
		atomic_fetch_add_explicit(&unseen, 1, memory_order_relaxed);
	rr_stats_release(c->seg, c->st);
	c->st = NULL;
}
