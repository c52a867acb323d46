/* SPDX-License-Identifier: BSD-3-Clause */
/* rdmarpc-dump: writes what carried connections carry as pcapng, for Wireshark and tshark. This
 * file finds processes, asks each for a capture and empties the rings in turn; tools/dump has
 * the rest. One thread does it all, with a look every LOOK ms: packets wait in the rings
 * meanwhile, and are dropped and counted if a ring is full. */

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/conf.h"
#include "tools/dump/extcap.h"
#include "tools/dump/show.h"
#include "tools/places.h"

#define LOOK 20            /* ms between two looks for packets */
#define SCAN 10            /* looks between two searches for processes */
#define OLD (600 * RR_SEC) /* a connection silent for this long is forgotten */
#define TAPS 4096u         /* processes at a time */

static const char usage[] =
    "usage: rdmarpc-dump [-p PID]... [-C COMMAND]... [--program N] [-w FILE|-] [-c COUNT] "
    "[filter]\n"
    "  -p, --pid=PID          this process, and what it forks meanwhile (default: all)\n"
    "  -C, --command=NAME     processes of this name, also those to come\n"
    "      --program=N        calls of this program, by number or name, and their replies\n"
    "  -w, --write=FILE       where to; - or nothing: standard output, which is no terminal\n"
    "  -c, --count=COUNT      ends after so many records\n"
    "  -s, --snaplen=BYTES    of each record only so many (default: all)\n"
    "  -B, --buffer=KIB       memory for each process's packets (default: 4096)\n"
    "      --as=rpc|rdma|wire records, in TCP segments; or RPC-over-RDMA messages, in RoCEv2 "
    "packets:\n"
    "                         with headers of version 1, which tshark knows, or as they went\n"
    "  -q, --quiet            says nothing\n"
    "      --version          prints the version\n"
    "filter: host ADDRESS, port N, program N, calls, replies; all must be true\n";

struct dump_options {
	int *pids;
	const char **comms;
	uint32_t npids, ncomms;
	const char *file;
	bool quiet, wire;
	struct rr_tap_wish wish;
	struct rr_filter filter;
	uint64_t count;
};

/* A process in the table. Pids are used again, and a process may go on as another program:
 * times tell them apart. */
struct tapped {
	struct rr_tap tap;
	uint64_t ticks, since_ns; /* the process's start, its segment's */
	uint32_t interface;       /* NONE: it has none yet */
};
#define NONE UINT32_MAX

struct dump {
	const struct dump_options *o;
	struct rr_show show;
	struct tapped *tapped[TAPS];
	uint32_t ntaps;
	uint64_t dropped;
	bool found; /* there has been a process to capture */
};

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

/* The clock that the captured processes use. */
static uint64_t dump_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * RR_SEC + (uint64_t)ts.tv_nsec;
}

/* --- processes --- */

/* A process is wanted if its pid or its name was given; without either every process is. */
static bool is_to_tap(const struct dump_options *o, const struct rr_proc *p)
{
	for (uint32_t i = 0; i < o->npids; i++)
		if (o->pids[i] == p->pid)
			return true;
	for (uint32_t i = 0; i < o->ncomms; i++)
		if (!strcmp(o->comms[i], p->comm))
			return true;
	return !o->npids && !o->ncomms;
}

static bool is_tapped(const struct dump *d, int pid)
{
	for (uint32_t i = 0; i < d->ntaps; i++)
		if (d->tapped[i]->tap.pid == pid)
			return true;
	return false;
}

/* Is a capture asked for or under way? */
static bool is_capturing(const struct rr_tap *t)
{
	return t->state == RR_TAP_WAITS || t->state == RR_TAP_RUNS;
}

/* Says why a process cannot be captured. If no process was named, only one that another reader
 * captures is worth a message: processes of other users can always be there. */
static void say_why(const struct dump *d, const struct rr_tap *t)
{
	if (d->o->npids || d->o->ncomms || (!d->o->quiet && t->state == RR_TAP_BUSY))
		warnx("%s[%d]: %s", t->comm, t->pid, t->why);
}

/* Asks the process for a capture. One that refuses is kept in the table as well, so that it is
 * not asked again at each search. */
static void add_tap(struct dump *d, const struct rr_proc *p)
{
	struct tapped *t = malloc(sizeof(*t));

	if (!t)
		err(1, NULL);
	rr_tap_open(&t->tap, p->pid, p->comm, &d->o->wish);
	if (t->tap.state != RR_TAP_WAITS)
		say_why(d, &t->tap);
	else
		d->found = true;
	t->ticks = p->ticks;
	t->since_ns = p->since_ns;
	t->interface = NONE;
	d->tapped[d->ntaps++] = t;
}

static bool is_still_there(const struct tapped *t, const struct rr_procs *all)
{
	for (uint32_t i = 0; i < all->n; i++) {
		const struct rr_proc *p = &all->p[i];

		if (p->alive && p->verified && p->pid == t->tap.pid && p->ticks == t->ticks &&
		    p->since_ns == t->since_ns)
			return true;
	}
	return false;
}

/* Looks at processes that are not captured. Nothing else tells when such a process has ended,
 * or when its other reader has left. */
static void look_again(struct dump *d, const struct rr_procs *all)
{
	for (uint32_t i = 0; i < d->ntaps; i++) {
		struct tapped *t = d->tapped[i];

		if (is_capturing(&t->tap))
			continue;
		if (!is_still_there(t, all))
			t->tap.state = RR_TAP_ENDED;
		else if (rr_tap_retry(&t->tap, &d->o->wish))
			d->found = true;
	}
}

/* Looks for processes to capture. If names were given, all processes must be read, since
 * another one of that name may have come. */
static void scan(struct dump *d, const char *run_dir)
{
	struct rr_places places;
	struct rr_procs all = {0};

	rr_places_find(&places, run_dir);
	rr_places_read(&places, &all, d->o->ncomms ? NULL : d->o->pids,
		       d->o->ncomms ? 0 : d->o->npids);
	look_again(d, &all);
	for (uint32_t i = 0; i < all.n && d->ntaps < TAPS; i++) {
		const struct rr_proc *p = &all.p[i];

		if (p->alive && p->verified && is_to_tap(d->o, p) && !is_tapped(d, p->pid))
			add_tap(d, p);
	}
	rr_procs_fini(&all);
	rr_places_fini(&places);
}

/* --- packets --- */

/* Takes what a ring has. A process gets an interface in the file with its first packet, so that
 * silent ones do not appear. */
static void drain_tap(struct dump *d, struct tapped *of)
{
	struct rr_tap *t = &of->tap;
	bool capturing = is_capturing(t);
	struct rr_tap_packet *p;
	char name[48];

	rr_tap_step(t, &d->o->wish);
	if (capturing && (t->state == RR_TAP_BUSY || t->state == RR_TAP_REFUSED))
		say_why(d, t);
	while ((p = rr_tap_take(t))) {
		if (of->interface == NONE) {
			snprintf(name, sizeof(name), "rdmarpc:%d", t->pid);
			of->interface = rr_pcapng_interface(&d->show.out, name, t->comm);
		}
		rr_show_add(&d->show, t, of->interface, p);
	}
}

/* Ends a capture, writes its totals and takes it out of the table. */
static void end_tap(struct dump *d, uint32_t i, uint64_t now)
{
	struct tapped *of = d->tapped[i];
	struct rr_tap *t = &of->tap;

	rr_tap_close(t);
	if (of->interface != NONE)
		rr_pcapng_totals(&d->show.out, of->interface, now, t->packets, t->dropped);
	d->dropped += t->dropped;
	rr_talks_left(&d->show.talks, t->pid);
	free(of);
	d->tapped[i] = d->tapped[--d->ntaps];
}

static void drain_all(struct dump *d)
{
	for (uint32_t i = 0; i < d->ntaps; i++)
		drain_tap(d, d->tapped[i]);
}

/* Drops taps of processes that have ended, once all that they said has been shown. What their
 * peers said to them is shown before, too: once one end is forgotten, the other is shown in its
 * place. */
static void reap(struct dump *d, uint64_t now)
{
	for (uint32_t i = 0; i < d->ntaps;) {
		if (d->tapped[i]->tap.state != RR_TAP_ENDED) {
			i++;
			continue;
		}
		drain_all(d);
		rr_show_until(&d->show, UINT64_MAX);
		end_tap(d, i, now);
	}
}

/* Can nothing more come? If pids were named, the program ends with the last of them; otherwise
 * a new process may come at any time. */
static bool is_done(const struct dump *d)
{
	const struct rr_show *s = &d->show;

	if (stopped || ferror(s->out.f) || (s->most && s->shown == s->most))
		return true;
	if (!d->o->npids || d->o->ncomms || !d->found)
		return false;
	for (uint32_t i = 0; i < d->ntaps; i++)
		if (is_capturing(&d->tapped[i]->tap))
			return false;
	return true;
}

/* The reader of our output may have gone while there is nothing to write: looks for that while
 * it pauses. */
static void pause_and_look(struct dump *d)
{
	struct pollfd p = {fileno(d->show.out.f), 0, 0};

	if (poll(&p, 1, LOOK) > 0 && p.revents & (POLLERR | POLLHUP | POLLNVAL))
		stopped = 1;
}

/* What is shown in a round was taken in the round before, or is older than that round: by then
 * packets of the same time have come from all processes, and can be sorted. */
static void capture_all(struct dump *d, const char *run_dir)
{
	uint64_t before = 0, now;

	for (uint32_t round = 0; !is_done(d); round++) {
		if (round % SCAN == 0) {
			scan(d, run_dir);
			if (!d->found && d->o->npids)
				break;
		}
		now = dump_now();
		drain_all(d);
		rr_show_until(&d->show, before);
		reap(d, now);
		fflush(d->show.out.f);
		before = now;
		if (round % 3000 == 0)
			rr_talks_expire(&d->show.talks, now - OLD);
		pause_and_look(d);
	}
	drain_all(d);
	rr_show_end(&d->show);
	while (d->ntaps)
		end_tap(d, 0, dump_now());
}

/* --- options --- */

/* Parses an option's decimal number, or ends the program with status 2. */
static uint64_t number_arg(const char *what, const char *arg, uint64_t least, uint64_t most)
{
	char *end;
	uint64_t v = strtoull(arg, &end, 10);

	if (end == arg || *end || *arg == '-' || v < least || v > most)
		errx(2, "%s: '%s' is not a number from %" PRIu64 " to %" PRIu64, what, arg,
		     least, most);
	return v;
}

static void want_pid(struct dump_options *o, const char *arg)
{
	o->pids = rr_grow_array(o->pids, o->npids + 1, sizeof(*o->pids));
	o->pids[o->npids++] = (int)number_arg("--pid", arg, 1, INT32_MAX);
}

static void want_comm(struct dump_options *o, const char *arg)
{
	o->comms = rr_grow_array(o->comms, o->ncomms + 1, sizeof(*o->comms));
	o->comms[o->ncomms++] = arg;
}

/* --buffer is in KiB; a ring's size is a power of two, so it is rounded up. */
static uint32_t order_of(const char *arg)
{
	uint64_t bytes = number_arg("--buffer", arg, 64, 1u << (RR_CAP_ORDER_MAX - 10)) * 1024;
	uint32_t order = RR_CAP_ORDER_MIN;

	while (UINT64_C(1) << order < bytes)
		order++;
	return order;
}

static void set_as(struct dump_options *o, const char *arg)
{
	o->wire = !strcmp(arg, "wire");
	o->wish.wishes = o->wire || !strcmp(arg, "rdma") ? RR_CAP_RDMA : 0;
	if (!o->wish.wishes && strcmp(arg, "rpc"))
		errx(2, "--as: '%s' is none of: rpc, rdma, wire", arg);
}

enum { OPT_PROGRAM = 256, OPT_AS, OPT_VERSION };

static void parse_args(struct dump_options *o, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"pid", required_argument, NULL, 'p'},
	    {"command", required_argument, NULL, 'C'},
	    {"program", required_argument, NULL, OPT_PROGRAM},
	    {"write", required_argument, NULL, 'w'},
	    {"count", required_argument, NULL, 'c'},
	    {"snaplen", required_argument, NULL, 's'},
	    {"buffer", required_argument, NULL, 'B'},
	    {"as", required_argument, NULL, OPT_AS},
	    {"quiet", no_argument, NULL, 'q'},
	    {"version", no_argument, NULL, OPT_VERSION},
	    {"help", no_argument, NULL, 'h'},
	    {0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "p:C:w:c:s:B:qh", longs, NULL)) != -1) {
		switch (c) {
		case 'p':
			want_pid(o, optarg);
			break;
		case 'C':
			want_comm(o, optarg);
			break;
		case OPT_PROGRAM:
			rr_filter_word(&o->filter, "program", optarg);
			break;
		case 'w':
			o->file = optarg;
			break;
		case 'c':
			o->count = number_arg("--count", optarg, 1, INT64_MAX);
			break;
		case 's':
			o->wish.snaplen =
			    (uint32_t)number_arg("--snaplen", optarg, 1, INT32_MAX);
			break;
		case 'B':
			o->wish.order = order_of(optarg);
			break;
		case OPT_AS:
			set_as(o, optarg);
			break;
		case 'q':
			o->quiet = true;
			break;
		case OPT_VERSION:
			puts("rdmarpc-dump " RR_VERSION);
			exit(0);
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	while (optind < argc)
		optind += rr_filter_word(&o->filter, argv[optind], argv[optind + 1]);
}

/* A terminal cannot show pcapng. The buffer is flushed once a round. */
static FILE *output(const struct dump_options *o)
{
	bool named = o->file && strcmp(o->file, "-");
	FILE *f = named ? fopen(o->file, "we") : stdout;

	if (!f)
		err(1, "%s", o->file);
	if (!named && isatty(STDOUT_FILENO))
		errx(2, "standard output is a terminal: -w FILE, or | tshark -r -");
	setvbuf(f, NULL, _IOFBF, 1 << 16);
	return f;
}

/* A broken pipe is no error: the reader (head, tshark -c) has seen enough. */
int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal};
	struct dump_options o = {.wish = {.order = 22}};
	static struct rr_conf conf;
	static struct dump d;
	bool bad;

	argc = rr_extcap(argc, &argv);
	parse_args(&o, argc, argv);
	rr_conf_load(&conf, environ);
	d.o = &o;
	d.show.filter = o.filter;
	d.show.most = o.count;
	d.show.rdma = o.wish.wishes & RR_CAP_RDMA;
	d.show.wire = o.wire;
	rr_pcapng_begin(&d.show.out, output(&o));
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	capture_all(&d, conf.run_dir);
	bad = fflush(d.show.out.f) || ferror(d.show.out.f);
	if (bad && errno != EPIPE)
		err(1, "%s", o.file ? o.file : "standard output");
	if (o.npids && !d.found)
		errx(1, "no such process could be captured");
	if (!o.quiet)
		fprintf(stderr, "%llu %s, %llu packets dropped\n",
			(unsigned long long)d.show.shown, d.show.rdma ? "messages" : "records",
			(unsigned long long)d.dropped);
	return 0;
}
