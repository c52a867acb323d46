/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_FIGURES_H
#define RR_STAT_FIGURES_H

/* What rdmarpc-stat computes from the counters of a process or connection. Sums may wrap:
 * counters are whatever the owner of a segment wrote. */

#include "tools/segment.h"

/* Calls and bytes of both directions. count is that of a rr_proc or rr_proc_conn. */
uint64_t rr_fig_calls(const uint64_t *count);
uint64_t rr_fig_bytes(const uint64_t *count);

/* Connections since start, of all carriers. */
uint64_t rr_fig_connections(const struct rr_proc *p);

/* How many of its connections in the reading are open, by carrier; listeners are none. */
void rr_fig_open(const struct rr_proc *p, uint64_t open[RR_CARRIER_COUNT]);

/* The same process in an earlier reading; NULL: it was not there. before may be NULL. */
const struct rr_proc *rr_fig_earlier(const struct rr_procs *before, const struct rr_proc *p);

/* Calls since that reading; all calls if the process was not there or has fewer now. */
uint64_t rr_fig_new_calls(const struct rr_procs *before, const struct rr_proc *p);

/* Likewise bytes. */
uint64_t rr_fig_new_bytes(const struct rr_procs *before, const struct rr_proc *p);

/* Fills in new_calls and new_bytes of each of its connections. */
void rr_fig_conns(const struct rr_procs *before, struct rr_proc *p);

/* A quantile (ns) of the time from call to reply, of calls timed since that reading; of all
 * calls if before is NULL. 0: there were none. */
uint64_t rr_fig_new_quantile(const struct rr_procs *before, const struct rr_proc *p,
			     double share);

/* Sum of n numbers. */
uint64_t rr_fig_sum(const uint64_t *v, unsigned n);
/* How many connections are on TCP for that reason; RR_R_COUNT: for those of a later release. */
uint64_t rr_fig_reason(const uint64_t reasons[RR_STAT_REASONS], unsigned reason);

/* Texts for tables, in buf or constant. A number takes five characters with its unit (six where
 * 99.95 is rounded to 100.0); "-" stands for no time. */
const char *rr_fig_number(uint64_t v, char buf[16]);
const char *rr_fig_time(uint64_t ns, char buf[16]);

/* A pid in parentheses is only its owner's word, or is of another PID namespace. */
const char *rr_fig_pid(const struct rr_proc *p, char buf[16]);

/* The process at the other end, likewise; "-": not known. */
const char *rr_fig_peer_pid(const struct rr_proc *p, const struct rr_proc_conn *c,
			    char buf[16]);

/* At most five characters: live, ended, or how it has ended. */
const char *rr_fig_state(const struct rr_proc *p);

#endif
