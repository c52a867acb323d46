/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums and differences of counters, for tables and for sorting, and their short texts. Pure,
 * but for geteuid(). Counters are whatever a segment's owner has written, so a difference never
 * assumes that the later reading is larger. */
#include "tools/stat/figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t rr_fig_calls(const uint64_t *count)
{
	return count[RR_C_calls_sent] + count[RR_C_calls_received];
}

uint64_t rr_fig_bytes(const uint64_t *count)
{
	return count[RR_C_sent] + count[RR_C_received];
}

/* A connection that was carried and then went back to TCP counts twice, as in the segment. */
uint64_t rr_fig_connections(const struct rr_proc *p)
{
	return p->carriers[RR_CARRIER_SHM] + p->carriers[RR_CARRIER_VERBS] +
	       p->carriers[RR_CARRIER_TCP];
}

/* The carrier is whatever stands in the segment. */
void rr_fig_open(const struct rr_proc *p, uint64_t open[RR_CARRIER_COUNT])
{
	memset(open, 0, RR_CARRIER_COUNT * sizeof(*open));
	for (uint32_t i = 0; i < p->nconns; i++)
		if (p->conns[i].state != RR_CS_LISTENING &&
		    p->conns[i].carrier < RR_CARRIER_COUNT)
			open[p->conns[i].carrier]++;
}

/* The start time tells a process from a later one with the same pid. */
const struct rr_proc *rr_fig_earlier(const struct rr_procs *before, const struct rr_proc *p)
{
	for (uint32_t i = 0; before && i < before->n; i++)
		if (before->p[i].pid == p->pid && before->p[i].ticks == p->ticks)
			return &before->p[i];
	return NULL;
}

static uint64_t new_since(uint64_t now, uint64_t then)
{
	return now < then ? now : now - then;
}

uint64_t rr_fig_new_calls(const struct rr_procs *before, const struct rr_proc *p)
{
	const struct rr_proc *was = rr_fig_earlier(before, p);

	return new_since(rr_fig_calls(p->count), was ? rr_fig_calls(was->count) : 0);
}

uint64_t rr_fig_new_bytes(const struct rr_procs *before, const struct rr_proc *p)
{
	const struct rr_proc *was = rr_fig_earlier(before, p);

	return new_since(rr_fig_bytes(p->count), was ? rr_fig_bytes(was->count) : 0);
}

static bool is_same_conn(const struct rr_proc_conn *a, const struct rr_proc_conn *b)
{
	return a->since_ns == b->since_ns && a->server == b->server &&
	       !strcmp(a->local, b->local) && !strcmp(a->peer, b->peer);
}

/* Both readings have the connections in nearly the same order, so the search goes on where the
 * last one has ended. */
void rr_fig_conns(const struct rr_procs *before, struct rr_proc *p)
{
	const struct rr_proc *was = rr_fig_earlier(before, p);
	uint32_t at = 0, n = was ? was->nconns : 0;

	for (uint32_t i = 0; i < p->nconns; i++) {
		struct rr_proc_conn *c = &p->conns[i];
		const struct rr_proc_conn *then = NULL;

		for (uint32_t k = 0; k < n && !then; k++, at = (at + 1) % n)
			if (is_same_conn(c, &was->conns[at]))
				then = &was->conns[at];
		c->new_calls = new_since(rr_fig_calls(c->count),
					 then ? rr_fig_calls(then->count) : 0);
		c->new_bytes = new_since(rr_fig_bytes(c->count),
					 then ? rr_fig_bytes(then->count) : 0);
	}
}

/* The quantile of the differences: buckets are subtracted one by one, so that what was slow
 * long ago does not weigh on what is shown now. */
uint64_t rr_fig_new_quantile(const struct rr_procs *before, const struct rr_proc *p,
			     double share)
{
	const struct rr_proc *was = rr_fig_earlier(before, p);
	uint64_t hist[RR_STAT_HIST];

	for (unsigned i = 0; i < RR_STAT_HIST; i++)
		hist[i] = new_since(p->hist[i], was ? was->hist[i] : 0);
	return rr_hist_quantile(hist, share);
}

uint64_t rr_fig_sum(const uint64_t *v, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += v[i];
	return sum;
}

uint64_t rr_fig_reason(const uint64_t reasons[RR_STAT_REASONS], unsigned reason)
{
	if (reason < RR_R_COUNT)
		return reasons[reason];
	return rr_fig_sum(reasons + RR_R_COUNT, RR_STAT_REASONS - RR_R_COUNT);
}

/* --- texts --- */

/* The limits of both functions are a little below a round number where rounding would add a
 * digit: 99950 k would be 100.0M, and 999950 ns 1000.0us. */

/* Units are powers of 1000. Numbers below 100000 are exact; larger ones have a unit, and one
 * decimal place below 100 units: five characters at most. */
const char *rr_fig_number(uint64_t v, char buf[16])
{
	static const char units[] = " kMGTPE";	/* by integers: i386 rounds otherwise */
	uint64_t unit = 1000, tenths;
	unsigned u = 1;

	if (v < 100000) {
		snprintf(buf, 16, "%" PRIu64, v);
		return buf;
	}
	for (; v / (unit / 2) >= 1999 && u < sizeof(units) - 2; u++)
		unit *= 1000;
	tenths = v / (unit / 10) + (v % (unit / 10) >= unit / 20);
	if (tenths < 1000)
		snprintf(buf, 16, "%" PRIu64 ".%" PRIu64 "%c", tenths / 10, tenths % 10,
			 units[u]);
	else
		snprintf(buf, 16, "%u%c", (unsigned)(v / unit + (v % unit >= unit / 2)),
			 units[u]);
	return buf;
}

const char *rr_fig_time(uint64_t ns, char buf[16])
{
	if (!ns)
		snprintf(buf, 16, "-");
	else if (ns < 999950)
		snprintf(buf, 16, "%.1fus", (double)ns / 1e3);
	else if (ns < 9995000)
		snprintf(buf, 16, "%.2fms", (double)ns / 1e6);
	else if (ns < 9999500000)
		snprintf(buf, 16, "%.0fms", (double)ns / 1e6);
	else
		snprintf(buf, 16, "%.0fs", (double)ns / 1e9);
	return buf;
}

/* A dead process's pid is known only from its segment. That is believed if the segment's owner
 * is root or the user who looks. */
const char *rr_fig_pid(const struct rr_proc *p, char buf[16])
{
	bool believed = p->verified || (!p->alive && (p->uid == 0 || p->uid == geteuid()));

	snprintf(buf, 16, believed ? "%d" : "(%d)", p->pid);
	return buf;
}

const char *rr_fig_peer_pid(const struct rr_proc *p, const struct rr_proc_conn *c,
			    char buf[16])
{
	bool believed = p->same_pids || (!p->alive && (p->uid == 0 || p->uid == geteuid()));

	if (!c->peer_pid)
		return "-";
	snprintf(buf, 16, believed ? "%u" : "(%u)", c->peer_pid);
	return buf;
}

const char *rr_fig_state(const struct rr_proc *p)
{
	static const char *const ends[] = {
		[RR_END_UNKNOWN] = "died", [RR_END_EXIT] = "ended", [RR_END_SIGNAL] = "kill",
		[RR_END_CRASH] = "crash", [RR_END_LEFT] = "left",
	};

	return p->alive ? "live" : p->ended ? "ended" : ends[p->end];
}
