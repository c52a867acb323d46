/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_FIGURES_H
#define RR_STAT_FIGURES_H

/* What rdmarpc-stat makes of the counters of a process or connection. Sums may wrap: counters
 * are what the owner of a segment wrote. */

#include "tools/segment.h"

/* Calls and bytes of both directions, of a rr_proc's or rr_proc_conn's count. */
uint64_t rr_fig_calls(const uint64_t *count);
uint64_t rr_fig_bytes(const uint64_t *count);

/* Connections since start, by all carriers. */
uint64_t rr_fig_connections(const struct rr_proc *p);

/* The same process in an earlier reading; NULL: it was not there. before may be NULL. */
const struct rr_proc *rr_fig_earlier(const struct rr_procs *before, const struct rr_proc *p);

/* Calls since that reading; all of them if it was not there, or has more than now. */
uint64_t rr_fig_new_calls(const struct rr_procs *before, const struct rr_proc *p);

/* A quantile of the time from a call to its reply, of the calls that were timed since that
 * reading, ns; of all of them if before is NULL. 0: there were none. */
uint64_t rr_fig_new_quantile(const struct rr_procs *before, const struct rr_proc *p,
			     double share);

/* Sum of n numbers. */
uint64_t rr_fig_sum(const uint64_t *v, unsigned n);

/* Texts for tables, in buf, which is returned, or constant. Of a number four characters at most
 * before the unit; "-" for no time. */
const char *rr_fig_number(uint64_t v, char buf[16]);
const char *rr_fig_time(uint64_t ns, char buf[16]);

/* A pid that is only its owner's word, or means something in another PID namespace, is in
 * parentheses. */
const char *rr_fig_pid(const struct rr_proc *p, char buf[16]);

/* Five characters at most: live, ended, or how it has ended. */
const char *rr_fig_state(const struct rr_proc *p);

#endif
