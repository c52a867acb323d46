/* SPDX-License-Identifier: BSD-3-Clause */
/* rdmarpc-stat --openmetrics: OpenMetrics 1.0 text. It uses only types that the older
 * Prometheus text format has as well (counter, gauge, histogram), since node-exporter reads
 * files in that format. */
#include "tools/stat/print.h"

#include <err.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stat/figures.h"
#include "tools/stat/names.h"

/* The histogram's buckets end at powers of two of nanoseconds, from 1 us to 1 s, where the
 * segment's finer buckets end, too. */
#define OM_FIRST	10u
#define OM_LAST		30u

static const struct {
	const char *group, *name, *help;
} om_counters[] = {
#define RR_COUNTER(group, name, help) { #group, #name, help },
#include "core/base/counters.def"
#undef RR_COUNTER
};

/* What is shown under one set of labels. */
struct om_series {
	struct rr_proc sum;	/* conns are not used; the tallies are our own */
	uint64_t open[RR_CARRIER_COUNT];	/* connections of living processes */
};

struct om_all {
	struct om_series *s;
	uint32_t n;
};

/* --- one series for each set of labels --- */

/* Have both the same labels? In OpenMetrics a set of labels may appear only once in a
 * family. */
static bool om_same(const struct rr_proc *a, const struct rr_proc *b)
{
	return a->pid == b->pid && a->uid == b->uid && !strcmp(a->comm, b->comm);
}

/* Adds counts. Both are whatever the owner of a segment wrote, so a sum stays at the largest
 * number instead of wrapping. */
static uint64_t om_plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void om_add(uint64_t *sum, const uint64_t *v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sum[i] = om_plus(sum[i], v[i]);
}

static void om_add_tally(struct rr_proc *sum, const struct rr_proc_tally *t)
{
	struct rr_proc_tally *to = rr_proc_tally_of(sum, t);

	om_add(to->count, t->count, rr_array_size(t->count));
	om_add(to->hist, t->hist, RR_STAT_HIST);
}

/* Adds what a series keeps for itself: tallies by procedure, and open connections by
 * carrier. */
static void om_add_own(struct om_series *s, const struct rr_proc *p)
{
	uint64_t open[RR_CARRIER_COUNT];

	for (uint32_t i = 0; i < p->ntallies; i++)
		om_add_tally(&s->sum, &p->tallies[i]);
	rr_fig_open(p, open);
	if (p->alive)
		om_add(s->open, open, RR_CARRIER_COUNT);
}

/* Begins a series with p. The tallies are copied, because rr_proc_tally_of() grows them;
 * everything else that is a pointer belongs to p still. */
static void om_take(struct om_series *s, const struct rr_proc *p)
{
	*s = (struct om_series){ .sum = *p };
	s->sum.tallies = NULL;
	s->sum.ntallies = 0;
	om_add_own(s, p);
}

/* Adds p to a series. Living processes with the same labels are of different PID namespaces and
 * are added up. Of dead ones the last is shown, if none lives. */
static void om_fold(struct om_series *s, const struct rr_proc *p)
{
	if (!s->sum.alive) {
		free(s->sum.tallies);
		om_take(s, p);
		return;
	}
	if (!p->alive)
		return;
	om_add_own(s, p);
	om_add(s->sum.carriers, p->carriers, RR_CARRIER_COUNT);
	om_add(s->sum.reasons, p->reasons, RR_STAT_REASONS);
	om_add(s->sum.count, p->count, RR_C_COUNT);
	om_add(s->sum.hist, p->hist, RR_STAT_HIST);
}

/* Makes the series of all processes. all must be sorted: the living first, the dead by age. The
 * caller frees the tallies and s. */
static struct om_all om_collect(const struct rr_procs *all)
{
	struct om_all m = { calloc(all->n + 1, sizeof(*m.s)), 0 };

	if (!m.s)
		err(1, NULL);
	for (uint32_t i = 0; i < all->n; i++) {
		uint32_t k = 0;

		while (k < m.n && !om_same(&m.s[k].sum, &all->p[i]))
			k++;
		if (k < m.n)
			om_fold(&m.s[k], &all->p[i]);
		else
			om_take(&m.s[m.n++], &all->p[i]);
	}
	return m;
}

/* --- lines --- */

/* The lines that begin a family. All its samples must follow before the next family begins. */
static void om_family(FILE *to, const char *name, const char *type, const char *help)
{
	fprintf(to, "# TYPE rdmarpc_%s %s\n# HELP rdmarpc_%s %s\n", name, type, name, help);
}

/* Prints a label's value: UTF-8, with a backslash, a quote and a newline written as two
 * characters. Anything else that is not printable ASCII becomes '?'. */
static void om_text(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\\n", to);
		else if (*text == '"' || *text == '\\')
			fprintf(to, "\\%c", *text);
		else
			fputc((unsigned char)*text < ' ' || (unsigned char)*text >= 0x7f ?
				      '?' : *text, to);
	}
}

/* Prints a sample up to its value. label is one more label, or NULL. */
static void om_sample(FILE *to, const char *name, const struct rr_proc *p, const char *label,
		      const char *value)
{
	fprintf(to, "rdmarpc_%s{pid=\"%d\",command=\"", name, p->pid);
	om_text(to, p->comm);
	fprintf(to, "\",uid=\"%u\"", p->uid);
	if (label) {
		fprintf(to, ",%s=\"", label);
		om_text(to, value);
		fputc('"', to);
	}
	fputs("} ", to);
}

static void om_number(FILE *to, uint64_t v)
{
	fprintf(to, "%" PRIu64 "\n", v);
}

static void om_seconds(FILE *to, uint64_t ns)
{
	fprintf(to, "%" PRIu64 ".%09" PRIu64 "\n", ns / RR_SEC, ns % RR_SEC);
}

/* --- families --- */

/* What is of the host and not of a process. A directory that does not exist is no fault here:
 * nothing has needed it yet. */
static void om_host(FILE *to, const struct rr_places *places, bool stopped)
{
	const char *fault;

	om_family(to, "stopped", "gauge", "1: new upgrades are stopped on this host");
	fprintf(to, "rdmarpc_stopped %d\n", stopped);
	om_family(to, "directory_usable", "gauge",
		  "0: something is wrong with a run directory that exists");
	for (uint32_t i = 0; i < places->n; i++) {
		fault = rr_places_fault(places, i);
		if (fault && !strcmp(fault, RR_RUNDIR_MISSING))
			continue;
		fputs("rdmarpc_directory_usable{directory=\"", to);
		om_text(to, places->dir[i]);
		fprintf(to, "\"} %d\n", !fault);
	}
}

/* A process has a sample for each state, one of which is 1: so a query can count processes by
 * state. "died" is an end by a signal, or one of which nothing is known. */
static void om_processes(FILE *to, const struct om_all *m)
{
	om_family(to, "process_state", "gauge",
		  "1 for the state that the process is in: live, ended in order, left, died");
	for (uint32_t i = 0; i < m->n; i++) {
		const struct rr_proc *p = &m->s[i].sum;

		om_sample(to, "process_state", p, "state", "live");
		om_number(to, p->alive);
		om_sample(to, "process_state", p, "state", "ended");
		om_number(to, !p->alive && (p->ended || p->end == RR_END_EXIT));
		om_sample(to, "process_state", p, "state", "left");
		om_number(to, !p->alive && p->end == RR_END_LEFT);
		om_sample(to, "process_state", p, "state", "died");
		om_number(to, !p->alive && !p->ended && p->end != RR_END_EXIT &&
				      p->end != RR_END_LEFT);
	}
	om_family(to, "process_release", "gauge",
		  "1, with the release of the process's library");
	for (uint32_t i = 0; i < m->n; i++) {
		om_sample(to, "process_release", &m->s[i].sum, "release",
			  m->s[i].sum.release);
		om_number(to, 1);
	}
	om_family(to, "process_start_time_seconds", "gauge",
		  "when the process made its statistics segment, since 1970");
	for (uint32_t i = 0; i < m->n; i++) {
		om_sample(to, "process_start_time_seconds", &m->s[i].sum, NULL, NULL);
		om_seconds(to, m->s[i].sum.since_ns);
	}
}

/* "connections" counts since the start, "open_connections" what there is now. Reasons that
 * never occurred are left out: most of them are rare, and each would be a series for each
 * process. */
static void om_connections(FILE *to, const struct om_all *m)
{
	om_family(to, "connections", "counter", "connections that came to each carrier");
	for (uint32_t i = 0; i < m->n; i++)
		for (unsigned k = RR_CARRIER_TCP; k < RR_CARRIER_COUNT; k++) {
			om_sample(to, "connections_total", &m->s[i].sum, "carrier",
				  rr_carrier_name(k));
			om_number(to, m->s[i].sum.carriers[k]);
		}
	om_family(to, "open_connections", "gauge",
		  "connections that are open, by what carries them (none: not known yet)");
	for (uint32_t i = 0; i < m->n; i++)
		for (unsigned k = 0; k < RR_CARRIER_COUNT; k++) {
			om_sample(to, "open_connections", &m->s[i].sum, "carrier",
				  rr_carrier_name(k));
			om_number(to, m->s[i].open[k]);
		}
	om_family(to, "tcp_connections", "counter",
		  "connections that stayed on or went back to TCP, and why");
	for (uint32_t i = 0; i < m->n; i++)
		for (unsigned k = 0; k <= RR_R_COUNT; k++) {
			uint64_t n = rr_fig_reason(m->s[i].sum.reasons, k);

			if (!n)
				continue;
			om_sample(to, "tcp_connections_total", &m->s[i].sum, "reason",
				  k ? rr_reason_text(k) : "none");
			om_number(to, n);
		}
}

/* Prints a counter of counters.def. OpenMetrics wants base units: nanoseconds are shown in
 * seconds, and named so. A counter's sample has "_total" behind the family's name. */
static void om_counter(FILE *to, const struct om_all *m, unsigned c)
{
	char name[80], sample[96];
	size_t len = strlen(om_counters[c].name);
	bool ns = len > 3 && !strcmp(om_counters[c].name + len - 3, "_ns");

	snprintf(name, sizeof(name), "%s_%.*s%s", om_counters[c].group,
		 (int)(ns ? len - 3 : len), om_counters[c].name, ns ? "_seconds" : "");
	snprintf(sample, sizeof(sample), "%s_total", name);
	om_family(to, name, "counter", om_counters[c].help);
	for (uint32_t i = 0; i < m->n; i++) {
		om_sample(to, sample, &m->s[i].sum, NULL, NULL);
		(ns ? om_seconds : om_number)(to, m->s[i].sum.count[c]);
	}
}

/* --- histograms --- */

/* The labels of a tally, or none. */
struct om_labels {
	const struct rr_proc *p;
	const struct rr_proc_tally *t;
};

static void om_procedure(FILE *to, const struct rr_proc_tally *t)
{
	const char *program, *procedure;

	fprintf(to, ",side=\"%s\",program=\"", t->server ? "server" : "client");
	if (t->others) {
		fputs("others\",version=\"\",procedure=\"\"", to);
		return;
	}
	program = rr_name_program(t->program, t->version);
	procedure = rr_name_procedure(t->program, t->version, t->procedure);
	if (program)
		fputs(program, to);
	else
		fprintf(to, "%" PRIu32, t->program);
	fprintf(to, "\",version=\"%" PRIu32 "\",procedure=\"", t->version);
	if (procedure)
		fprintf(to, "%s\"", procedure);
	else
		fprintf(to, "%" PRIu32 "\"", t->procedure);
}

/* As om_sample(), with the labels of l. suffix follows the name; le is the bucket's upper end,
 * or NULL. */
static void om_labelled(FILE *to, const char *name, const char *suffix,
			const struct om_labels *l, const char *le)
{
	fprintf(to, "rdmarpc_%s%s{pid=\"%d\",command=\"", name, suffix, l->p->pid);
	om_text(to, l->p->comm);
	fprintf(to, "\",uid=\"%u\"", l->p->uid);
	if (l->t)
		om_procedure(to, l->t);
	if (le)
		fprintf(to, ",le=\"%s\"", le);
	fputs("} ", to);
}

/* Prints a histogram: the buckets, which are cumulative, then count and sum. step is by how
 * many powers of two one bucket's end is above the last. The segment has finer buckets without
 * a sum, so the sum is an estimate: each call counts as the middle of its bucket. */
static void om_histogram(FILE *to, const char *name, const struct om_labels *l,
			 const uint64_t *hist, unsigned step)
{
	uint64_t count = 0;
	double sum = 0;
	unsigned i = 0;
	char le[32];

	for (unsigned shift = OM_FIRST; shift <= OM_LAST; shift += step) {
		for (; i < RR_STAT_HIST && rr_hist_low(i) < UINT64_C(1) << shift; i++)
			count = om_plus(count, hist[i]);
		snprintf(le, sizeof(le), "%.9f", (double)(UINT64_C(1) << shift) / 1e9);
		om_labelled(to, name, "_bucket", l, le);
		om_number(to, count);
	}
	for (; i < RR_STAT_HIST; i++)
		count = om_plus(count, hist[i]);
	om_labelled(to, name, "_bucket", l, "+Inf");
	om_number(to, count);
	om_labelled(to, name, "_count", l, NULL);
	om_number(to, count);
	for (i = 0; i < RR_STAT_HIST; i++)	/* each counts as the middle of its bucket */
		sum += (double)hist[i] * (double)(rr_hist_low(i) + rr_hist_low(i + 1)) / 2e9;
	om_labelled(to, name, "_sum", l, NULL);
	fprintf(to, "%.9f\n", sum);
}

/* --- procedures --- */

static const struct {
	const char *name, *help;
	size_t at;
} om_tallies[] = {
	{ "procedure_calls", "calls by procedure, sent (client) or received (server)",
	  offsetof(struct rr_proc_tally, calls) },
	{ "procedure_errors", "replies that are denied, or accepted without success",
	  offsetof(struct rr_proc_tally, errors) },
	{ "procedure_resent", "calls that were sent again, as calls counted too",
	  offsetof(struct rr_proc_tally, resent) },
	{ "procedure_argument_bytes", "bytes of calls, RPC headers included",
	  offsetof(struct rr_proc_tally, arguments) },
	{ "procedure_result_bytes", "bytes of replies, RPC headers included",
	  offsetof(struct rr_proc_tally, results) },
	{ "procedure_long_arguments", "calls that are too large for one Send",
	  offsetof(struct rr_proc_tally, long_arguments) },
	{ "procedure_long_results", "replies that are too large for one Send",
	  offsetof(struct rr_proc_tally, long_results) },
};

/* Families of the tallies. Their histograms have every second bucket only (step 2), because
 * there may be many procedures for each process. */
static void om_procedures(FILE *to, const struct om_all *m)
{
	for (unsigned k = 0; k < rr_array_size(om_tallies); k++) {
		om_family(to, om_tallies[k].name, "counter", om_tallies[k].help);
		for (uint32_t i = 0; i < m->n; i++)
			for (uint32_t n = 0; n < m->s[i].sum.ntallies; n++) {
				const struct rr_proc *p = &m->s[i].sum;
				const struct rr_proc_tally *t = &p->tallies[n];
				uint64_t v;

				memcpy(&v, (const char *)t + om_tallies[k].at, sizeof(v));
				om_labelled(to, om_tallies[k].name, "_total",
					    &(struct om_labels){ p, t }, NULL);
				om_number(to, v);
			}
	}
	om_family(to, "procedure_latency_seconds", "histogram",
		  "time from a call to its reply (client), or of its service (server)");
	for (uint32_t i = 0; i < m->n; i++)
		for (uint32_t n = 0; n < m->s[i].sum.ntallies; n++) {
			const struct rr_proc *p = &m->s[i].sum;

			om_histogram(to, "procedure_latency_seconds",
				     &(struct om_labels){ p, &p->tallies[n] },
				     p->tallies[n].hist, 2);
		}
}

/* "# EOF" must be the last line: a reader sees by it that nothing is missing. */
void rr_print_openmetrics(FILE *to, const struct rr_procs *all, const struct rr_places *places,
			  bool stopped)
{
	struct om_all m = om_collect(all);

	om_host(to, places, stopped);
	om_processes(to, &m);
	om_connections(to, &m);
	for (unsigned c = 0; c < RR_C_COUNT; c++)
		om_counter(to, &m, c);
	om_family(to, "rpc_latency_seconds", "histogram",
		  "time from a call to its reply");
	for (uint32_t i = 0; i < m.n; i++)
		om_histogram(to, "rpc_latency_seconds",
			     &(struct om_labels){ &m.s[i].sum, NULL }, m.s[i].sum.hist, 1);
	om_procedures(to, &m);
	fputs("# EOF\n", to);
	for (uint32_t i = 0; i < m.n; i++)
		free(m.s[i].sum.tallies);
	free(m.s);
}
