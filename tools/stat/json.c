/* SPDX-License-Identifier: BSD-3-Clause */
/* rdmarpc-stat --json: prints processes, connections and counters as one JSON object. Names and
 * meanings are an interface: they may be added to, but not changed (rdmarpc-stat(1)). Numbers
 * of 64 bits are printed as they are; whoever reads them as doubles loses the last digits. */
#include "tools/stat/print.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "tools/stat/figures.h"
#include "tools/stat/names.h"

static const struct {
	const char *group, *name;
} counters[] = {
#define RR_COUNTER(group, name, help) { #group, #name },
#include "core/base/counters.def"
#undef RR_COUNTER
};

/* Prints "name":"text". Texts are printable ASCII already (segment.c, reasons.def), except
 * names of directories; anything else becomes '?', because JSON has to be valid UTF-8. */
static void print_json_text(FILE *to, const char *name, const char *text)
{
	fprintf(to, "\"%s\":\"", name);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', to);
		fputc((unsigned char)*text < ' ' || (unsigned char)*text >= 0x7f ? '?' : *text,
		      to);
	}
	fputc('"', to);
}

/* Prints a time since 1970 as ISO 8601, in UTC and whole seconds. An owner of a segment can
 * write a time that gmtime_r() refuses; then the text is empty. */
static void json_time(FILE *to, const char *name, uint64_t ns)
{
	time_t t = (time_t)(ns / RR_SEC);
	char buf[40] = "";
	struct tm tm;

	if (gmtime_r(&t, &tm))
		strftime(buf, sizeof(buf), "%Y-%m-%dT%H:%M:%SZ", &tm);
	print_json_text(to, name, buf);
}

/* Prints the counters of one group as an object, in the order of counters.def. */
static void json_group(FILE *to, const uint64_t *v, const char *group)
{
	const char *comma = "";

	fprintf(to, "\"%s\":{", group);
	for (unsigned i = 0; i < RR_C_COUNT; i++) {
		if (strcmp(counters[i].group, group))
			continue;
		fprintf(to, "%s\"%s\":%" PRIu64, comma, counters[i].name, v[i]);
		comma = ",";
	}
	fputc('}', to);
}

/* Has an earlier counter begun the group of counter i? New counters are appended to
 * counters.def whatever their group, so that the members of a group are not side by side. */
static bool seen(unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (!strcmp(counters[k].group, counters[i].group))
			return true;
	return false;
}

static void json_groups(FILE *to, const uint64_t *v)
{
	for (unsigned i = 0; i < RR_C_COUNT; i++) {
		if (seen(i))
			continue;
		if (i)
			fputc(',', to);
		json_group(to, v, counters[i].group);
	}
}

/* Only reasons that have occurred are listed. Index 0 is a connection without a reason. */
static void json_reasons(FILE *to, const struct rr_proc *p)
{
	const char *comma = "";

	fputs("\"tcp_reasons\":{", to);
	for (unsigned i = 0; i <= RR_R_COUNT; i++) {
		uint64_t n = rr_fig_reason(p->reasons, i);

		if (!n)
			continue;
		fprintf(to, "%s\"%s\":%" PRIu64, comma, i ? rr_reason_text(i) : "none", n);
		comma = ",";
	}
	fputc('}', to);
}

/* Quantiles are computed from the buckets of a histogram, and are as exact as those; 0 means
 * that nothing was measured. */
static void json_latency(FILE *to, const uint64_t hist[RR_STAT_HIST])
{
	fprintf(to, "\"latency_ns\":{\"count\":%" PRIu64 ",\"p50\":%" PRIu64 ",\"p90\":%" PRIu64
		",\"p99\":%" PRIu64 ",\"max\":%" PRIu64 "}", rr_fig_sum(hist, RR_STAT_HIST),
		rr_hist_quantile(hist, 0.5), rr_hist_quantile(hist, 0.9),
		rr_hist_quantile(hist, 0.99), rr_hist_max(hist));
}

static void json_conn(FILE *to, const struct rr_proc_conn *c)
{
	fprintf(to, "{\"fd\":%d,", c->fd);
	print_json_text(to, "role", c->server ? "server" : "client");
	fputc(',', to);
	print_json_text(to, "local", c->local);
	fputc(',', to);
	print_json_text(to, "peer", c->peer);
	fputc(',', to);
	print_json_text(to, "carrier", rr_carrier_name(c->carrier));
	fputc(',', to);
	print_json_text(to, "state", rr_state_name(c->state));
	fputc(',', to);
	print_json_text(to, "dialect", rr_dialect_name(c->dialect));
	fprintf(to, ",\"version\":%u,\"program\":%u,\"peer_pid\":%u,", c->version, c->program,
		c->peer_pid);
	print_json_text(to, "reason", rr_reason_text(c->reason));
	fputc(',', to);
	json_time(to, "since", c->since_ns);
	fputc(',', to);
	json_group(to, c->count, "rpcs");
	fputc(',', to);
	json_group(to, c->count, "bytes");
	fputc('}', to);
}

/* Names are those of well-known programs; unknown ones are empty, and the numbers are there
 * always. */
static void json_tally(FILE *to, const struct rr_proc_tally *t)
{
	const char *program = NULL, *procedure = NULL;

	if (!t->others) {
		program = rr_name_program(t->program, t->version);
		procedure = rr_name_procedure(t->program, t->version, t->procedure);
	}
	fputc('{', to);
	print_json_text(to, "side", t->server ? "server" : "client");
	fprintf(to,
		",\"others\":%s,\"program\":%" PRIu32 ",\"version\":%" PRIu32
		",\"procedure\":%" PRIu32 ",",
		t->others ? "true" : "false", t->program, t->version, t->procedure);
	print_json_text(to, "program_name", program ? program : "");
	fputc(',', to);
	print_json_text(to, "procedure_name", procedure ? procedure : "");
	fprintf(to,
		",\"calls\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"resent\":%" PRIu64
		",\"argument_bytes\":%" PRIu64 ",\"result_bytes\":%" PRIu64
		",\"long_arguments\":%" PRIu64 ",\"long_results\":%" PRIu64 ",",
		t->calls, t->errors, t->resent, t->arguments, t->results, t->long_arguments,
		t->long_results);
	json_latency(to, t->hist);
	fputc('}', to);
}

static void json_tallies(FILE *to, const struct rr_proc *p)
{
	fputs(",\"procedures\":[", to);
	for (uint32_t i = 0; i < p->ntallies; i++) {
		if (i)
			fputc(',', to);
		json_tally(to, &p->tallies[i]);
	}
	fputc(']', to);
}

/* Connections that are open, or were when the process died, by what carries them. */
static void json_open(FILE *to, const struct rr_proc *p)
{
	uint64_t open[RR_CARRIER_COUNT];

	rr_fig_open(p, open);
	fprintf(to, "\"open\":{\"shm\":%" PRIu64 ",\"verbs\":%" PRIu64 ",\"tcp\":%" PRIu64
		",\"none\":%" PRIu64 "},", open[RR_CARRIER_SHM], open[RR_CARRIER_VERBS],
		open[RR_CARRIER_TCP], open[RR_CARRIER_NONE]);
}

static void json_proc(FILE *to, const struct rr_proc *p)
{
	static const char *const ends[] = {
		[RR_END_UNKNOWN] = "", [RR_END_EXIT] = "exit", [RR_END_SIGNAL] = "signal",
		[RR_END_CRASH] = "crash", [RR_END_LEFT] = "left",
	};

	fprintf(to, "{\"pid\":%d,", p->pid);
	print_json_text(to, "comm", p->comm);
	fputc(',', to);
	print_json_text(to, "exe", p->exe);
	fputc(',', to);
	print_json_text(to, "release", p->release);
	fprintf(to, ",\"uid\":%u,\"verified\":%s,\"alive\":%s,\"ended\":%s,", p->uid,
		p->verified ? "true" : "false", p->alive ? "true" : "false",
		p->ended ? "true" : "false");
	print_json_text(to, "end", p->ended ? "" : ends[p->end]);
	fprintf(to, ",\"end_code\":%d,", p->end_code);
	json_time(to, "since", p->since_ns);
	fprintf(to,
		",\"connections\":{\"shm\":%" PRIu64 ",\"verbs\":%" PRIu64 ",\"tcp\":%" PRIu64
		"},", p->carriers[RR_CARRIER_SHM], p->carriers[RR_CARRIER_VERBS],
		p->carriers[RR_CARRIER_TCP]);
	json_open(to, p);
	json_reasons(to, p);
	fputc(',', to);
	json_groups(to, p->count);
	fputc(',', to);
	json_latency(to, p->hist);
	fputs(",\"list\":[", to);
	for (uint32_t i = 0; i < p->nconns; i++) {
		if (i)
			fputc(',', to);
		json_conn(to, &p->conns[i]);
	}
	fputc(']', to);
	json_tallies(to, p);
	fputc('}', to);
}

/* Directories in which segments were looked for, each with what is wrong with it, or "". */
static void json_places(FILE *to, const struct rr_places *places)
{
	const char *fault;

	fputs(",\"directories\":[", to);
	for (uint32_t i = 0; i < places->n; i++) {
		fault = rr_places_fault(places, i);
		fputs(i ? ",{" : "{", to);
		print_json_text(to, "path", places->dir[i]);
		fputc(',', to);
		print_json_text(to, "fault", fault ? fault : "");
		fputc('}', to);
	}
	fputc(']', to);
}

void rr_print_json(FILE *to, const struct rr_procs *all, const struct rr_places *places,
		   bool stopped)
{
	fputs("{\"version\":1,\"release\":\"" RR_VERSION "\",", to);
	fprintf(to, "\"stopped\":%s,\"processes\":[", stopped ? "true" : "false");
	for (uint32_t i = 0; i < all->n; i++) {
		if (i)
			fputc(',', to);
		json_proc(to, &all->p[i]);
	}
	fputc(']', to);
	json_places(to, places);
	fputs("}\n", to);
}
