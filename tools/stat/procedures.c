/* SPDX-License-Identifier: BSD-3-Clause */
/* rdmarpc-stat --procedures: which procedures each process has called, and for which it was
 * called. Only calls that went by RDMA are tallied. Sizes are averages for a call. */
#include "tools/stat/print.h"

#include <inttypes.h>
#include <netdb.h>

#include "tools/stat/figures.h"
#include "tools/stat/names.h"

static const char *procedure_text(const struct rr_proc_tally *t, char buf[80])
{
	const char *program = rr_name_program(t->program, t->version);
	const char *procedure = rr_name_procedure(t->program, t->version, t->procedure);
	char a[16], b[16];

	if (t->others)
		return "others";
	snprintf(a, sizeof(a), "%" PRIu32, t->program);
	snprintf(b, sizeof(b), "%" PRIu32, t->procedure);
	snprintf(buf, 80, "%s v%" PRIu32 " %s", program ? program : a, t->version,
		 procedure ? procedure : b);
	return buf;
}

/* An average, rounded down; 0 if there is nothing to divide by. */
static uint64_t per_call(uint64_t sum, uint64_t n)
{
	return n ? sum / n : 0;
}

/* Arguments are divided by calls but results by replies, since a call may have no reply yet.
 * The histogram has one entry for each reply. */
static void procedure_line(FILE *to, const struct rr_proc_tally *t)
{
	uint64_t replies = rr_fig_sum(t->hist, RR_STAT_HIST);
	char b[11][16], name[80];

	fprintf(to, "  %-30s %7s %6s %6s %7s %7s %6s %6s %8s %8s %8s %8s\n",
		procedure_text(t, name), rr_fig_number(t->calls, b[0]),
		rr_fig_number(t->errors, b[1]), rr_fig_number(t->resent, b[2]),
		rr_fig_number(per_call(t->arguments, t->calls), b[3]),
		rr_fig_number(per_call(t->results, replies), b[4]),
		rr_fig_number(t->long_arguments, b[5]), rr_fig_number(t->long_results, b[6]),
		rr_fig_time(rr_hist_quantile(t->hist, 0.5), b[7]),
		rr_fig_time(rr_hist_quantile(t->hist, 0.9), b[8]),
		rr_fig_time(rr_hist_quantile(t->hist, 0.99), b[9]),
		rr_fig_time(rr_hist_max(t->hist), b[10]));
}

static void procedure_header(FILE *to, bool server)
{
	fprintf(to, "  %-30s %7s %6s %6s %7s %7s %6s %6s %8s %8s %8s %8s\n",
		server ? "RECEIVED, SERVICE TIME" : "SENT, ROUND TRIP", "CALLS", "ERRORS",
		"RESENT", "ARGS/C", "RES/C", "LONG-A", "LONG-R", "P50", "P90", "P99", "MAX");
}

/* Tallies are sorted with sent calls first (rr_proc_tally_order()), so a header is due when the
 * side changes. */
static void procedures_of(FILE *to, const struct rr_proc *p)
{
	char pid[16];

	fprintf(to, "%s %s, %s", rr_fig_pid(p, pid), p->comm, rr_fig_state(p));
	fputs(p->ntallies ? ":\n" : ": no calls by RDMA\n", to);
	for (uint32_t i = 0; i < p->ntallies; i++) {
		if (!i || p->tallies[i].server != p->tallies[i - 1].server)
			procedure_header(to, p->tallies[i].server);
		procedure_line(to, &p->tallies[i]);
	}
}

void rr_print_procedures(FILE *to, const struct rr_procs *all)
{
	for (uint32_t i = 0; i < all->n; i++)
		procedures_of(to, &all->p[i]);
}
