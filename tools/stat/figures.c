/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums and differences of counters, as tables show them and sort by them. */
#include "tools/stat/figures.h"

#include <stddef.h>

uint64_t rr_fig_calls(const uint64_t *count)
{
	return count[RR_C_calls_sent] + count[RR_C_calls_received];
}

uint64_t rr_fig_bytes(const uint64_t *count)
{
	return count[RR_C_sent] + count[RR_C_received];
}

uint64_t rr_fig_connections(const struct rr_proc *p)
{
	return p->carriers[RR_CARRIER_SHM] + p->carriers[RR_CARRIER_VERBS] +
	       p->carriers[RR_CARRIER_TCP];
}

const struct rr_proc *rr_fig_earlier(const struct rr_procs *before, const struct rr_proc *p)
{
	for (uint32_t i = 0; before && i < before->n; i++)
		if (before->p[i].pid == p->pid && before->p[i].ticks == p->ticks)
			return &before->p[i];
	return NULL;
}

uint64_t rr_fig_new_calls(const struct rr_procs *before, const struct rr_proc *p)
{
	const struct rr_proc *was = rr_fig_earlier(before, p);
	uint64_t now = rr_fig_calls(p->count), then = was ? rr_fig_calls(was->count) : 0;

	return now < then ? now : now - then;
}

uint64_t rr_fig_new_quantile(const struct rr_procs *before, const struct rr_proc *p,
			     double share)
{
	const struct rr_proc *was = rr_fig_earlier(before, p);
	uint64_t hist[RR_STAT_HIST];

	for (unsigned i = 0; i < RR_STAT_HIST; i++) {
		uint64_t then = was ? was->hist[i] : 0;

		hist[i] = p->hist[i] < then ? p->hist[i] : p->hist[i] - then;
	}
	return rr_hist_quantile(hist, share);
}
