/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses and sorts the processes and connections that are shown. Nothing is copied but the
 * array of processes: connections and tallies are rearranged where they are. */
#include "tools/stat/select.h"

#include <err.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stat/figures.h"

/* --- options --- */

static const char *const sort_names[] = {
	[RR_SORT_PID] = "pid",	 [RR_SORT_UID] = "uid",	    [RR_SORT_COMMAND] = "command",
	[RR_SORT_SINCE] = "since", [RR_SORT_CONNECTIONS] = "connections",
	[RR_SORT_CALLS] = "calls", [RR_SORT_RATE] = "rate", [RR_SORT_BYTES] = "bytes",
	[RR_SORT_P50] = "p50",	 [RR_SORT_P99] = "p99",
};

/* The message lists the names by hand; it must agree with sort_names. */
enum rr_sort rr_select_sort(const char *arg)
{
	for (unsigned i = RR_SORT_PID; i < rr_array_size(sort_names); i++)
		if (!strcmp(arg, sort_names[i]))
			return (enum rr_sort)i;
	errx(2, "--sort: '%s' is none of pid, uid, command, since, connections, calls, rate, "
	     "bytes, p50, p99", arg);
}

uint16_t rr_select_port(const char *arg)
{
	char *end;
	unsigned long v = strtoul(arg, &end, 10);

	if (*arg < '0' || *arg > '9' || *end || v < 1 || v > UINT16_MAX)
		errx(2, "--port: '%s' is not a port (1..65535)", arg);
	return (uint16_t)v;
}

/* A name is looked up only if it does not begin with a digit, so that a number never depends on
 * /etc/rpc. */
uint32_t rr_select_program(const char *arg)
{
	struct rpcent *e = *arg < '0' || *arg > '9' ? getrpcbyname(arg) : NULL;
	unsigned long v;
	char *end;

	if (e)
		return (uint32_t)e->r_number;
	v = strtoul(arg, &end, 0);
	if (*arg < '0' || *arg > '9' || *end || v < 1 || v > UINT32_MAX)
		errx(2, "--program: '%s' is neither a number nor a name of /etc/rpc", arg);
	return (uint32_t)v;
}

/* --- leaving out --- */

bool rr_select_filters(const struct rr_select *s)
{
	return s->command || s->port || s->program;
}

/* Has the address ("1.2.3.4:111" or "[::1]:111") this port? */
static bool has_port(const char *address, uint16_t port)
{
	const char *colon = strrchr(address, ':');

	return colon && strtoul(colon + 1, NULL, 10) == port;
}

/* All conditions must hold. The port may be at either end. */
static bool conn_is_wanted(const struct rr_select *s, const struct rr_proc_conn *c)
{
	return (!s->port || has_port(c->local, s->port) || has_port(c->peer, s->port)) &&
	       (!s->program || c->program == s->program);
}

/* Moves the wanted connections to the front; returns how many. They are swapped and not
 * overwritten, because all of them still belong to the reading. */
static uint32_t front_conns(const struct rr_select *s, struct rr_proc *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->nconns; i++)
		if (conn_is_wanted(s, &p->conns[i])) {
			struct rr_proc_conn c = p->conns[n];

			p->conns[n++] = p->conns[i];
			p->conns[i] = c;
		}
	return n;
}

/* Moves the wanted tallies to the front, in their order; returns how many. The others are
 * lost. */
static uint32_t front_tallies(const struct rr_select *s, struct rr_proc *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->ntallies; i++)
		if (!s->program ||
		    (p->tallies[i].program == s->program && !p->tallies[i].others)) {
			if (i != n)
				p->tallies[n] = p->tallies[i];
			n++;
		}
	return n;
}

/* Appends p if it is wanted. If connections are chosen by port or program, a process without
 * any such connection is left out, unless tallies of the program are to be shown. The pointers
 * are shared with p. */
static void add_wanted(struct rr_procs *to, const struct rr_select *s, struct rr_proc *p,
		       const struct rr_procs *before)
{
	uint32_t n;

	if (s->command && strcmp(p->comm, s->command))
		return;
	n = front_conns(s, p);
	if (s->procedures)
		p->ntallies = front_tallies(s, p);
	if (!n && (s->port || (s->program && !(s->procedures && p->ntallies))))
		return;
	rr_fig_conns(before, p);
	to->p[to->n] = *p;
	to->p[to->n++].nconns = n;
}

/* --- sorting --- */

struct order {
	enum rr_sort by;
	const struct rr_procs *before;
};

/* Compares for ascending order. Figures are passed the other way round, so that the largest
 * comes first. */
static int least_first(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_key(const struct order *o, const struct rr_proc *a, const struct rr_proc *b)
{
	switch (o->by) {
	case RR_SORT_UID: return least_first(a->uid, b->uid);
	case RR_SORT_COMMAND: return strcmp(a->comm, b->comm);
	case RR_SORT_SINCE: return least_first(a->since_ns, b->since_ns);
	case RR_SORT_CONNECTIONS:
		return least_first(rr_fig_connections(b), rr_fig_connections(a));
	case RR_SORT_CALLS:
		return least_first(rr_fig_calls(b->count), rr_fig_calls(a->count));
	case RR_SORT_RATE:
		return least_first(rr_fig_new_calls(o->before, b),
				   rr_fig_new_calls(o->before, a));
	case RR_SORT_BYTES:
		return least_first(rr_fig_bytes(b->count), rr_fig_bytes(a->count));
	case RR_SORT_P50:
		return least_first(rr_fig_new_quantile(o->before, b, 0.5),
				   rr_fig_new_quantile(o->before, a, 0.5));
	case RR_SORT_P99:
		return least_first(rr_fig_new_quantile(o->before, b, 0.99),
				   rr_fig_new_quantile(o->before, a, 0.99));
	case RR_SORT_NONE:
	case RR_SORT_PID: break;
	}
	return 0;
}

/* For qsort_r(): the living first, then by key, then by pid and age, so that equal ones do not
 * change places from one reading to the next. */
static int by_order(const void *x, const void *y, void *order)
{
	const struct rr_proc *a = x, *b = y;
	int d = b->alive - a->alive;

	if (!d)
		d = by_key(order, a, b);
	if (!d)
		d = least_first((uint64_t)a->pid, (uint64_t)b->pid);
	return d ? d : least_first(a->since_ns, b->since_ns);
}

static int by_conn(const void *x, const void *y, void *order)
{
	const struct rr_proc_conn *a = x, *b = y;
	const struct order *o = order;

	if (o->by == RR_SORT_BYTES)
		return least_first(rr_fig_bytes(b->count), rr_fig_bytes(a->count));
	if (o->by == RR_SORT_RATE)
		return least_first(b->new_calls, a->new_calls);
	return least_first(rr_fig_calls(b->count), rr_fig_calls(a->count));
}

static void sort_all(struct rr_procs *all, struct order *o)
{
	qsort_r(all->p, all->n, sizeof(*all->p), by_order, o);
	if (o->by != RR_SORT_CALLS && o->by != RR_SORT_BYTES && o->by != RR_SORT_RATE)
		return;
	for (uint32_t i = 0; i < all->n; i++) {
		struct rr_proc *p = &all->p[i];

		if (p->nconns)
			qsort_r(p->conns, p->nconns, sizeof(*p->conns), by_conn, o);
	}
}

struct rr_procs rr_select(struct rr_procs *all, const struct rr_select *s,
			  const struct rr_procs *before)
{
	struct rr_procs some = { .p = calloc(all->n + 1, sizeof(*some.p)) };
	struct order o = { s->sort, before };

	if (!some.p)
		err(1, NULL);
	for (uint32_t i = 0; i < all->n; i++)
		add_wanted(&some, s, &all->p[i], before);
	if (s->sort)
		sort_all(&some, &o);
	return some;
}
