/* SPDX-License-Identifier: BSD-3-Clause */
/* rdmarpc-stat: shows what the library has done in each process, from the segments in the run
 * directories. This file reads the arguments and goes from one reading to the next;
 * tools/segment.c reads segments, tools/stat prints them. The processes are not asked and
 * notice nothing, except for --log-level, which writes one word into their segments. */

#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/conf.h"
#include "config/rundir.h"
#include "tools/places.h"
#include "tools/stat/baseline.h"
#include "tools/stat/ending.h"
#include "tools/stat/print.h"
#include "tools/stat/screen.h"
#include "tools/stat/select.h"
#include "tools/stat/stop.h"

static const char usage[] =
	"usage: rdmarpc-stat [--json] [--list] [--procedures] [--watch[=seconds]]\n"
	"                    [--command=name] [--port=number] [--program=name]\n"
	"                    [--sort=key] [pid]...\n"
	"       rdmarpc-stat --openmetrics [pid]...\n"
	"       rdmarpc-stat --reset [pid]...\n"
	"       rdmarpc-stat --stop | --start\n"
	"       rdmarpc-stat --log-level=level [pid]...\n"
	"  -j, --json             print JSON\n"
	"  -l, --list             and each connection (also with pids)\n"
	"  -w, --watch[=seconds]  again and again (default: every second)\n"
	"      --command=name     only processes of that name\n"
	"      --port=number      only connections with that port at one end\n"
	"      --program=name     only connections for that program, or its number\n"
	"      --sort=key         by pid, uid, command, since, connections, calls, rate, "
	"bytes, p50, p99\n"
	"  -P, --procedures       calls, sizes and times by procedure, sent and received\n"
	"      --openmetrics      print OpenMetrics text, for Prometheus\n"
	"      --reset            tables count from now on, for this user\n"
	"      --total            tables count since the start nevertheless\n"
	"      --stop             no new upgrades on this host until --start\n"
	"      --log-level=level  processes log off, error, warn, info, debug; configured: as "
	"at their start\n"
	"      --version          prints the version\n";

struct options {
	bool json, list, procedures, openmetrics, stop, start, reset, total;
	const char *run_dir;	/* option run_dir */
	uint32_t log_level;	/* as in the segment; UINT32_MAX: not asked for */
	struct rr_select select;
	double watch;		/* seconds between two tables; 0: one table */
	int *pids;
	uint32_t npids;
};

/* --- showing --- */

/* Reads everything once: removes what long dead processes have left, reads the living and the
 * dead, finds out how the dead have ended, and subtracts what --reset has noted. The caller
 * frees the result by rr_procs_fini(). */
static struct rr_procs read_all(const struct rr_places *places, const struct options *o)
{
	struct rr_procs all = { 0 };

	for (uint32_t i = 0; i < places->n; i++)
		rr_rundir_sweep(places->dir[i], true);
	rr_places_read(places, &all, o->pids, o->npids);
	rr_procs_sort(&all);
	rr_endings(&all, o->watch > 0);
	/* --reset does not count for output that programs read: it must never go back. Nor do
	 * connections that may still be carried. */
	if (!o->json && !o->openmetrics && !o->total)
		rr_baseline_apply(places, &all);
	rr_procs_add_undecided(&all, !o->json && !o->openmetrics);
	return all;
}

/* If nothing is shown, perhaps the wrong places were searched: says which on standard error,
 * because programs may read standard output. Returns 1 if a directory cannot be used: there is
 * something wrong with it, or it was named (option run_dir) and does not exist. */
static int tell_places(const struct rr_places *places, const char *run_dir, bool any)
{
	const char *fault;
	bool bad;
	int rc = 0;

	if (!any)
		warnx("no process with the library is seen");
	for (uint32_t i = 0; i < places->n; i++) {
		fault = rr_places_fault(places, i);
		bad = fault && (*run_dir || strcmp(fault, RR_RUNDIR_MISSING));
		rc |= bad;
		if (bad)
			warnx("%s: %s", places->dir[i], fault);
		else if (!any)
			warnx("looked in %s%s%s", places->dir[i], fault ? ", which " : "",
			      fault ? fault : "");
	}
	if (!any && geteuid())
		warnx("other users' processes, and those with statistics in memory, only root "
		      "sees");
	return rc;
}

/* Returns 1 if a pid that was asked for is not there. */
static int missing(const struct rr_procs *all, const struct options *o)
{
	int rc = 0;

	for (uint32_t i = 0; i < o->npids; i++) {
		bool found = false;

		for (uint32_t k = 0; k < all->n; k++)
			found |= all->p[k].pid == o->pids[i];
		if (!found)
			warnx("process %d: nothing is known of it", o->pids[i]);
		rc |= !found;
	}
	return rc;
}

/* --- the level of logs --- */

/* Writes the wanted level into the segments of this user's processes, for root of all. Returns
 * the exit status: 1 if a process was asked for and is not there, or none was told. */
static int set_levels(const struct rr_places *places, const struct options *o)
{
	struct rr_procs all = { 0 };
	uint32_t done = 0;
	int rc;

	rr_places_read(places, &all, o->pids, o->npids);
	rc = missing(&all, o);
	for (uint32_t i = 0; i < all.n; i++) {
		const struct rr_proc *p = &all.p[i];

		if (!p->alive || !p->verified || (p->uid != geteuid() && geteuid()))
			continue;
		if (!rr_segment_set_level(places, p, o->log_level)) {
			warn("process %d", p->pid);
			rc = 1;
			continue;
		}
		if (!p->has_log)
			warnx("process %d (%s) has no log: log_to and log_file are read when "
			      "it starts",
			      p->pid, p->comm);
		done++;
	}
	if (!done && !rc)
		tell_places(places, o->run_dir, false);
	rr_procs_fini(&all);
	return rc || !done;
}

/* Reads all processes, not only those that were asked for, because the others keep what was
 * noted of them before. */
static int reset_counts(const struct rr_places *places, const struct options *o)
{
	struct rr_procs all = { 0 };
	int rc;

	rr_places_read(places, &all, NULL, 0);
	rc = missing(&all, o);
	if (!rc)
		rr_baseline_save(places, o->run_dir, &all, o->pids, o->npids);
	rr_procs_fini(&all);
	return rc;
}

/* Shows everything once. secs is 0, or with --watch how long ago `before` was read. Returns
 * whether there was a process to show. */
static bool show_all(FILE *to, const struct rr_places *places, const struct options *o,
		     struct rr_procs *all, const struct rr_procs *before, double secs)
{
	struct rr_procs some = rr_select(all, &o->select, before);
	bool stopped = rr_stop_any(places), any = some.n;

	if (o->openmetrics)
		rr_print_openmetrics(to, &some, places, stopped);
	else if (o->json)
		rr_print_json(to, &some, places, stopped);
	else if (o->procedures)
		rr_print_procedures(to, &some);
	else
		rr_print_table(to, &some, before, secs, o->list || o->npids, stopped);
	free(some.p);
	if (fflush(to) || ferror(to))
		err(1, "standard output");
	return any;
}

/* Draws by way of memory: the screen needs the whole text, to scroll and to draw it again. */
static void draw_all(const struct rr_places *places, const struct options *o,
		     struct rr_procs *all, const struct rr_procs *before, double secs)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		err(1, NULL);
	show_all(to, places, o, all, before, secs);
	fclose(to);
	rr_screen_draw(text);
	free(text);
}

static double clock_secs(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void pause_for(double secs)
{
	struct timespec pause = { .tv_sec = (time_t)secs };

	pause.tv_nsec = (long)((secs - (double)pause.tv_sec) * 1e9);
	nanosleep(&pause, NULL);
}

/* Reads and shows until the program ends. The last reading is kept, since rates are
 * differences. Time is measured and not assumed: a reading itself takes some, and a stopped
 * program much. */
static void watch_all(const struct rr_places *places, const struct options *o)
{
	struct rr_procs before = { 0 }, now;
	double then = 0, secs;
	bool screen;

	now = read_all(places, o);
	/* Without the processes that were asked for there is nothing to wait for. */
	if (o->npids && !now.n)
		exit(missing(&now, o));
	screen = !o->json && rr_screen_begin();
	for (bool first = true;; first = false) {
		secs = clock_secs() - then;	/* the program may have been stopped
						 * meanwhile */
		then += secs;
		if (!first)
			now = read_all(places, o);
		if (screen) {
			draw_all(places, o, &now, first ? NULL : &before, secs);
		} else {
			if (!first && !o->json)
				putchar('\n');
			show_all(stdout, places, o, &now, first ? NULL : &before, secs);
		}
		rr_procs_fini(&before);
		before = now;
		(screen ? rr_screen_wait : pause_for)(o->watch);
	}
}

/* --- options --- */

/* The argument of --watch in seconds; NULL is one second. The comparison is written so that NaN
 * fails it. */
static double seconds(const char *arg)
{
	char *end;
	double v = arg ? strtod(arg, &end) : 1;

	if (arg && (end == arg || *end || !(v >= 0.01 && v <= 86400)))
		errx(2, "--watch: '%s' is not a number of seconds (0.01..86400)", arg);
	return v;
}

/* The level as it is in the segment: 0 for the configured one, else 1 + the level. */
static uint32_t log_level(const char *arg)
{
	static const char *const names[] = { "configured", "off",  "error",
					     "warn",       "info", "debug" };

	for (uint32_t i = 0; i < rr_array_size(names); i++)
		if (!strcmp(arg, names[i]))
			return i;
	errx(2, "--log-level: '%s' is none of configured, off, error, warn, info, debug", arg);
}

static void add_pid(struct options *o, const char *arg)
{
	char *end;
	long pid = strtol(arg, &end, 10);

	if (end == arg || *end || pid < 1 || pid > INT32_MAX)
		errx(2, "'%s' is not a pid", arg);
	o->pids = rr_grow_array(o->pids, o->npids + 1, sizeof(*o->pids));
	o->pids[o->npids++] = (int)pid;
}

enum {
	OPT_COMMAND = 256, OPT_PORT, OPT_PROGRAM, OPT_SORT, OPT_OPENMETRICS, OPT_STOP,
	OPT_START, OPT_VERSION, OPT_LOG_LEVEL, OPT_RESET, OPT_TOTAL
};

/* Refuses options that contradict each other, instead of ignoring one of them. */
static void check_together(const struct options *o)
{
	bool acts = o->stop || o->start || o->reset || o->log_level != UINT32_MAX;

	if (o->stop + o->start + o->reset + (o->log_level != UINT32_MAX) > 1)
		errx(2, "one of --stop, --start, --reset and --log-level at a time");
	if (o->reset && (o->json || o->list || o->procedures || o->openmetrics || o->total ||
			 o->watch > 0))
		errx(2, "--reset shows nothing");
	if (o->total && (o->json || o->openmetrics))
		errx(2, "--total: only for tables; --json and --openmetrics count since the "
			"start");
	if (o->openmetrics && (o->json || o->list || o->procedures || o->watch > 0))
		errx(2, "--openmetrics shows all, once: without --json, --list, --procedures "
			"and --watch");
	if (o->procedures && o->list)
		errx(2, "--procedures or --list, not both");
	if ((o->openmetrics || acts) && (rr_select_filters(&o->select) || o->select.sort))
		errx(2, "--command, --port, --program and --sort choose what is shown, by "
		     "the table or --json");
	if (o->select.sort == RR_SORT_RATE && !(o->watch > 0))
		errx(2, "--sort=rate: only with --watch");
}

static void parse_stat_args(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "list", no_argument, NULL, 'l' },
		{ "procedures", no_argument, NULL, 'P' },
		{ "watch", optional_argument, NULL, 'w' },
		{ "command", required_argument, NULL, OPT_COMMAND },
		{ "port", required_argument, NULL, OPT_PORT },
		{ "program", required_argument, NULL, OPT_PROGRAM },
		{ "sort", required_argument, NULL, OPT_SORT },
		{ "openmetrics", no_argument, NULL, OPT_OPENMETRICS },
		{ "reset", no_argument, NULL, OPT_RESET },
		{ "total", no_argument, NULL, OPT_TOTAL },
		{ "stop", no_argument, NULL, OPT_STOP },
		{ "start", no_argument, NULL, OPT_START },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ "help", no_argument, NULL, 'h' },
		{ "log-level", required_argument, NULL, OPT_LOG_LEVEL },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "jlPw::h", longs, NULL)) != -1) {
		switch (c) {
		case 'j': o->json = true; break;
		case 'l': o->list = true; break;
		case 'P': o->procedures = o->select.procedures = true; break;
		case 'w': o->watch = seconds(optarg); break;
		case OPT_COMMAND: o->select.command = optarg; break;
		case OPT_PORT: o->select.port = rr_select_port(optarg); break;
		case OPT_PROGRAM: o->select.program = rr_select_program(optarg); break;
		case OPT_SORT: o->select.sort = rr_select_sort(optarg); break;
		case OPT_OPENMETRICS: o->openmetrics = true; break;
		case OPT_RESET: o->reset = true; break;
		case OPT_TOTAL: o->total = true; break;
		case OPT_STOP: o->stop = true; break;
		case OPT_START: o->start = true; break;
		case OPT_LOG_LEVEL: o->log_level = log_level(optarg); break;
		case OPT_VERSION:
			puts("rdmarpc-stat " RR_VERSION);
			exit(0);
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	for (; optind < argc; optind++)
		add_pid(o, argv[optind]);
	check_together(o);
}

/* The exit status is 1 if a pid was asked for of which nothing is known, or if a run directory
 * cannot be used; scripts rely on that. */
int main(int argc, char **argv)
{
	static struct rr_conf conf;
	struct options o = { .log_level = UINT32_MAX };
	struct rr_places places;
	struct rr_procs all;
	bool any;
	int rc;

	parse_stat_args(&o, argc, argv);
	rr_conf_load(&conf, environ);
	if (o.stop || o.start) {
		rr_stop_set(conf.run_dir, o.stop);
		return 0;
	}
	o.run_dir = conf.run_dir;
	rr_places_find(&places, conf.run_dir);
	if (o.reset)
		return reset_counts(&places, &o);
	if (o.log_level != UINT32_MAX)
		return set_levels(&places, &o);
	if (o.watch > 0)
		watch_all(&places, &o);
	all = read_all(&places, &o);
	any = show_all(stdout, &places, &o, &all, NULL, 0);
	rc = missing(&all, &o);
	/* OpenMetrics has a gauge for it, which would never be read if the status were 1. */
	if (!o.npids)
		rc |= tell_places(&places, o.run_dir, all.n) && !o.openmetrics;
	if (all.n && !any)
		warnx("none of the %u processes that are seen is one that was asked for",
		      all.n);
	rr_procs_fini(&all);
	rr_places_fini(&places);
	free(o.pids);
	return rc;
}
