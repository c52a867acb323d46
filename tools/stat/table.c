/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the table of rdmarpc-stat: a line for each process, indented lines for what is unusual
 * about it, and with --list a line for each connection. People read it; programs should read
 * --json, since columns may change. */
#include "tools/stat/print.h"

#include <inttypes.h>
#include <netdb.h>
#include <string.h>

#include "tools/stat/figures.h"

/* Why connections are on TCP: one line for all reasons that have occurred, or none. */
static void table_reasons(FILE *to, const struct rr_proc *p)
{
	const char *sep = "        tcp: ";

	for (unsigned i = 1; i <= RR_R_COUNT; i++) {
		uint64_t n = rr_fig_reason(p->reasons, i);

		if (!n)
			continue;
		fprintf(to, "%s%" PRIu64 " %s", sep, n, rr_reason_text(i));
		sep = ", ";
	}
	if (*sep == ',')
		fputc('\n', to);
}

/* How a process ended that has not said so itself; nothing if that is not known. */
static void table_end(FILE *to, const struct rr_proc *p)
{
	if (p->alive || p->ended)
		return;
	if (p->end == RR_END_SIGNAL || p->end == RR_END_CRASH)
		fprintf(to, "        end: signal %d, %s\n", p->end_code,
			strsignal(p->end_code));
	else if (p->end == RR_END_EXIT)
		fprintf(to, "        end: _exit(%d)\n", p->end_code);
	else if (p->end == RR_END_LEFT)
		fputs("        end: the process goes on without the library\n", to);
}

/* Prints the CPU time that waiting has cost, and how often that saved a sleep. The two counters
 * are read at different times, so the second may be larger; then it is cut. */
static void table_spins(FILE *to, const struct rr_proc *p)
{
	uint64_t spins = p->count[RR_C_spins], paid = p->count[RR_C_spins_paid];
	char a[16], b[16];

	if (!spins)
		return;
	paid = rr_min(paid, spins);
	fprintf(to, "        spun: %s in %s waits, of which %.1f %% saved a sleep\n",
		rr_fig_time(p->count[RR_C_spun_ns], a), rr_fig_number(spins, b),
		100 * (double)paid / (double)spins);
}

/* --- connections --- */

/* Widths of the address columns. IPv6 addresses may need more than the usual width, and all
 * lines must have the same. */
struct widths {
	int local, peer;
};

static struct widths conn_widths(const struct rr_procs *all)
{
	struct widths w = { 21, 21 };

	for (uint32_t i = 0; i < all->n; i++)
		for (uint32_t k = 0; k < all->p[i].nconns; k++) {
			w.local = rr_max(w.local, (int)strlen(all->p[i].conns[k].local));
			w.peer = rr_max(w.peer, (int)strlen(all->p[i].conns[k].peer));
		}
	return w;
}

static void table_conn_header(FILE *to, const struct widths *w, bool watched)
{
	fprintf(to, "     FD   %-*s    %-*s %7s %-5s %-9s %7s %7s %-7s %-10s %s\n", w->local,
		"LOCAL", w->peer, "PEER", "PEERPID", "VIA", "STATE",
		watched ? "CALLS/S" : "CALLS", watched ? "BYTES/S" : "BYTES", "DIALECT",
		"PROGRAM", "REASON");
}

/* What a column shows: a total or, with --watch, a rate, which the first table does not know
 * yet. secs is 0 without --watch. */
static const char *total_or_rate(uint64_t total, uint64_t new, const struct rr_procs *before,
				 double secs, char buf[16])
{
	if (secs > 0 && !before)
		return "-";
	return rr_fig_number(secs > 0 ? (uint64_t)((double)new / secs) : total, buf);
}

/* The program's name on this host, or its number in buf; "-" if it is not known. */
static const char *program_name(uint32_t program, char buf[16])
{
	struct rpcent *e = NULL;

	if (program && program <= INT32_MAX)
		e = getrpcbynumber((int)program);
	snprintf(buf, 16, program ? "%" PRIu32 : "-", program);
	return e ? e->r_name : buf;
}

/* Names the dialect; for version 2 it says if the peer knows only version 1. */
static const char *dialect_name(const struct rr_proc_conn *c)
{
	if (c->dialect == RR_DIALECT_V2 + 1 && c->version == 1)
		return "v2/v1";
	return c->dialect ? rr_dialect_name(c->dialect) : "-";
}

static void table_conn(FILE *to, const struct rr_proc *p, const struct rr_proc_conn *c,
		       const struct widths *w, const struct rr_procs *before, double secs)
{
	char b[3][16], program[16];

	fprintf(to, "  fd %-4d %-*s %s %-*s %7s %-5s %-9s %7s %7s %-7s %-10s %s\n", c->fd,
		w->local, c->local[0] ? c->local : "-", c->server ? "<-" : "->", w->peer,
		c->peer[0] ? c->peer : "-", rr_fig_peer_pid(p, c, b[0]),
		rr_carrier_name(c->carrier), rr_state_name(c->state),
		total_or_rate(rr_fig_calls(c->count), c->new_calls, before, secs, b[1]),
		total_or_rate(rr_fig_bytes(c->count), c->new_bytes, before, secs, b[2]),
		dialect_name(c), program_name(c->program, program),
		c->reason ? rr_reason_text(c->reason) : "-");
}

/* --- processes --- */

/* Open connections, and in *carried how many of them are carried. A dead process has none. */
static uint64_t open_conns(const struct rr_proc *p, uint64_t *carried)
{
	uint64_t open[RR_CARRIER_COUNT];

	*carried = 0;
	if (!p->alive)
		return 0;
	rr_fig_open(p, open);
	*carried = open[RR_CARRIER_SHM] + open[RR_CARRIER_VERBS];
	return rr_fig_sum(open, RR_CARRIER_COUNT);
}

static void table_proc(FILE *to, const struct rr_proc *p)
{
	char b[11][16];
	uint64_t carried;

	fprintf(to, "%7s %5u %-15.15s %-5s %5s %6s %6s %6s %8s %8s %6s %8s %8s",
		rr_fig_pid(p, b[0]), p->uid, p->comm, rr_fig_state(p),
		rr_fig_number(open_conns(p, &carried), b[1]),
		rr_fig_number(p->carriers[RR_CARRIER_SHM], b[2]),
		rr_fig_number(p->carriers[RR_CARRIER_VERBS], b[3]),
		rr_fig_number(p->carriers[RR_CARRIER_TCP], b[4]),
		rr_fig_number(p->count[RR_C_calls_sent], b[5]),
		rr_fig_number(p->count[RR_C_calls_received], b[6]),
		rr_fig_number(rr_fig_bytes(p->count), b[7]),
		rr_fig_time(rr_hist_quantile(p->hist, 0.5), b[8]),
		rr_fig_time(rr_hist_quantile(p->hist, 0.99), b[9]));
	fprintf(to, " %8s\n", p->release[0] ? p->release : "-");
}

/* A line of at most 80 columns. */
static void table_proc_watched(FILE *to, const struct rr_proc *p,
			       const struct rr_procs *before, double secs)
{
	char b[7][16];
	uint64_t carried, open = open_conns(p, &carried);

	fprintf(to, "%7s %5u %-15.15s %-5s %5s %5s %7s %7s %7s %7s\n", rr_fig_pid(p, b[0]),
		p->uid, p->comm, rr_fig_state(p), rr_fig_number(open, b[1]),
		rr_fig_number(carried, b[2]),
		total_or_rate(0, rr_fig_new_calls(before, p), before, secs, b[3]),
		total_or_rate(0, rr_fig_new_bytes(before, p), before, secs, b[4]),
		rr_fig_time(rr_fig_new_quantile(before, p, 0.5), b[5]),
		rr_fig_time(rr_fig_new_quantile(before, p, 0.99), b[6]));
}

static void table_header(FILE *to, bool watched)
{
	if (watched)
		fprintf(to, "%7s %5s %-15s %-5s %5s %5s %7s %7s %7s %7s\n", "PID", "UID",
			"COMMAND", "STATE", "OPEN", "RDMA", "CALLS/S", "BYTES/S", "P50", "P99");
	else
		fprintf(to, "%7s %5s %-15s %-5s %5s %6s %6s %6s %8s %8s %6s %8s %8s %8s\n",
			"PID", "UID", "COMMAND", "STATE", "OPEN", "SHM", "VERBS", "TCP",
			"CALLSOUT", "CALLSIN", "BYTES", "P50", "P99", "RELEASE");
}

/* With --watch the columns are fewer and show rates, so that a line fits an 80-column
 * terminal. */
void rr_print_table(FILE *to, const struct rr_procs *all, const struct rr_procs *before,
		    double secs, bool list, bool stopped)
{
	struct widths w = conn_widths(all);

	if (stopped)
		fputs("new upgrades are stopped on this host\n", to);
	table_header(to, secs > 0);
	if (list)
		table_conn_header(to, &w, secs > 0);
	for (uint32_t i = 0; i < all->n; i++) {
		if (secs > 0)
			table_proc_watched(to, &all->p[i], before, secs);
		else
			table_proc(to, &all->p[i]);
		table_end(to, &all->p[i]);
		table_reasons(to, &all->p[i]);
		table_spins(to, &all->p[i]);
		for (uint32_t k = 0; list && k < all->p[i].nconns; k++)
			table_conn(to, &all->p[i], &all->p[i].conns[k], &w, before, secs);
	}
}
