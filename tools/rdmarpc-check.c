/* SPDX-License-Identifier: BSD-3-Clause */
/* rdmarpc-check: would calls to a server be carried by RDMA, and if not, why not? This file
 * reads the arguments and prints the report; what is looked at is in tools/check. The program
 * is also the child that makes the calls (probe_child.c), and the one that asks the loader for
 * a library (local.c). */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/stats.h"
#include "tools/check/check.h"
#include "tools/library.h"
#include "tools/settings.h"

static const char usage[] =
	"usage: rdmarpc-check [option]... [HOST[:PORT] [PROGRAM[:VERSION]]]\n"
	"  HOST:PORT              a server; without PORT rpcbind is asked where PROGRAM is\n"
	"  PROGRAM                a name of /etc/rpc or a number; without it rpcbind is asked "
	"what "
	"is at PORT\n"
	"                         Without HOST only this host is looked at.\n"
	"  -p, --pid=pid          looks at a running process, too\n"
	"  -n, --command=name     as a program of that name, whose rules count\n"
	"  -c, --calls=n          measures so many calls (2000)\n"
	"  -t, --timeout=seconds  for each step (5)\n"
	"  -j, --json             prints JSON\n"
	"  -v, --verbose          and the settings in force, and what the library logged\n"
	"      --version          prints the version\n";

/* Exit statuses. */
enum { CARRIED, STAYS_ON_TCP, USAGE, NO_ANSWER };

struct check_args {
	struct rr_check_peer peer;
	int pid;
	bool json, verbose;
};

/* Parses an option's number, or ends the program. */
static long number_of(const char *what, const char *text, long least, long most)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 0);
	if (errno || end == text || *end || v < least || v > most)
		errx(USAGE, "%s: '%s' is no number from %ld to %ld", what, text, least, most);
	return v;
}

/* Parses HOST, HOST:PORT, [HOST]:PORT, or an IPv6 address alone: one with several colons and no
 * brackets has no port. arg is changed. */
static void set_host(struct rr_check_peer *p, char *arg)
{
	char *colon = strrchr(arg, ':'), *close = strchr(arg, ']');

	if (arg[0] == '[' && close) {
		*close = '\0';
		arg++;
		colon = close[1] == ':' ? close + 1 : NULL;
	} else if (colon && strchr(arg, ':') != colon) {
		colon = NULL;
	}
	if (colon) {
		*colon = '\0';
		p->port = (uint16_t)number_of("port", colon + 1, 1, 65535);
	}
	if (!*arg)
		errx(USAGE, "no host before the port");
	p->host = arg;
}

/* Parses PROGRAM[:VERSION]. Version 0 means any. */
static void set_callee(struct rr_check_peer *p, char *arg)
{
	char *colon = strchr(arg, ':');
	struct rpcent *e;

	if (colon) {
		*colon = '\0';
		p->vers = (uint32_t)number_of("version", colon + 1, 0, INT_MAX);
	}
	e = getrpcbyname(arg);
	p->prog =
		e ? (uint32_t)e->r_number : (uint32_t)number_of("program", arg, 1, UINT32_MAX);
}

static void parse_arguments(struct check_args *a, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "pid", required_argument, NULL, 'p' },
		{ "command", required_argument, NULL, 'n' },
		{ "calls", required_argument, NULL, 'c' },
		{ "timeout", required_argument, NULL, 't' },
		{ "json", no_argument, NULL, 'j' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "p:n:c:t:jvh", longs, NULL)) != -1) {
		switch (c) {
		case 'p': a->pid = (int)number_of("--pid", optarg, 1, INT_MAX); break;
		case 'n': a->peer.command = optarg; break;
		case 'c':
			a->peer.calls = (unsigned)number_of("--calls", optarg, 1, 100000);
			break;
		case 't':
			a->peer.timeout_ms = 1000 * (int)number_of("--timeout", optarg, 1, 600);
			break;
		case 'j': a->json = true; break;
		case 'v': a->verbose = true; break;
		case 'V': puts("rdmarpc-check " RR_VERSION); exit(0);
		case 'h': fputs(usage, stdout); exit(0);
		default: fputs(usage, stderr); exit(USAGE);
		}
	}
	if (argc - optind > 2) {
		fputs(usage, stderr);
		exit(USAGE);
	}
	if (optind < argc)
		set_host(&a->peer, argv[optind]);
	if (optind + 1 < argc)
		set_callee(&a->peer, argv[optind + 1]);
	if (a->peer.host && !a->peer.port && !a->peer.prog)
		errx(USAGE, "%s: which port or which program?", a->peer.host);
}

/* --- output --- */

static void json_probe(const char *name, const struct rr_probe *p)
{
	printf("\"%s\":{\"calls\":%u,\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64 ",\"error\":",
	       name, p->calls, p->p50, p->p99);
	rr_check_json_text(stdout, p->error);
	putchar('}');
}

/* One object for each carrier. Nothing is known of them if the server was not reached. */
static void json_carriers(const struct rr_check_peer *p)
{
	static const char *const states[] = { "untried", "failed", "used" };

	fputs(",\"carriers\":[", stdout);
	for (int by = 0; by < RR_BY_COUNT && p->end != RR_PEER_UNREACHED; by++) {
		printf("%s{\"carrier\":\"%s\",\"state\":\"%s\",\"here\":", by ? "," : "",
		       rr_by_names[by], states[p->by[by].state]);
		rr_check_json_text(stdout, p->by[by].here);
		fputs(",\"there\":", stdout);
		rr_check_json_text(stdout, p->by[by].there);
		putchar('}');
	}
	putchar(']');
}

/* What was found of the peer, with the steps. Before the connection was seen, its carrier is
 * "none" and the other names are empty. */
static void json_peer(const struct rr_check_peer *p, const struct rr_findings *steps)
{
	static const char *const ends[] = { "unreached", "tcp", "carried" };
	const struct rr_probe *c = &p->carried;

	fputs(",\"peer\":{\"address\":", stdout);
	rr_check_json_text(stdout, p->address);
	printf(",\"program\":%u,\"program_version\":%u,\"end\":\"%s\",\"carrier\":\"%s\","
	       "\"dialect\":\"%s\",\"reason\":",
	       p->prog, p->vers, ends[p->end],
	       c->seen ? rr_carrier_name(c->conn.carrier) : "none",
	       c->seen ? rr_dialect_name(c->conn.dialect) : "");
	rr_check_json_text(stdout, c->seen ? rr_reason_text(c->conn.reason) : "");
	putchar(',');
	json_probe("tcp", &p->tcp);
	putchar(',');
	json_probe("with_library", c);
	fputs(",\"release\":", stdout);
	rr_check_json_text(stdout, p->release);
	json_carriers(p);
	fputs(",\"steps\":", stdout);
	rr_findings_json(stdout, steps);
	putchar('}');
}

static void print_more(const struct rr_check_peer *p)
{
	puts("settings in force");
	fflush(stdout);
	rr_settings_print(p->command, environ);
	if (*p->carried.log)
		printf("what the library logged\n%s", p->carried.log);
}

/* The exit status, which scripts read: without a peer only problems of this host count. */
static int status_of(const struct rr_check_peer *p, const struct rr_findings *local)
{
	if (!p->host)
		return rr_any(local, RR_V_FAIL) ? STAYS_ON_TCP : CARRIED;
	return p->end == RR_PEER_CARRIED ? CARRIED
	       : p->end == RR_PEER_TCP   ? STAYS_ON_TCP
					 : NO_ANSWER;
}

static void report(const struct check_args *a, const struct rr_findings *local,
		   const struct rr_findings *steps)
{
	char title[128];

	if (a->json) {
		printf("{\"version\":1,\"release\":\"" RR_VERSION "\",\"status\":%d,\"local\":",
		       status_of(&a->peer, local));
		rr_findings_json(stdout, local);
		if (a->peer.host)
			json_peer(&a->peer, steps);
		puts("}");
		return;
	}
	rr_findings_print(stdout, "this host", local);
	if (a->peer.host) {
		snprintf(title, sizeof(title), "%s", a->peer.address);
		rr_findings_print(stdout, title, steps);
	}
	if (a->verbose)
		print_more(&a->peer);
}

/* With RR_PROBE_ARG alone this process was started by by_bare_name(), and says what the loader
 * gave it; with more arguments it is the child of a probe. */
int main(int argc, char **argv)
{
	struct check_args a = { .peer = { .timeout_ms = 5000, .calls = 2000 } };
	struct rr_findings local = { 0 }, steps = { 0 };
	char library[PATH_MAX], loaded[PATH_MAX];
	int status;

	if (argc == 2 && !strcmp(argv[1], RR_PROBE_ARG)) {
		rr_check_mapped(0, loaded, sizeof(loaded));
		fputs(loaded, stdout);
		return 0;
	}
	if (argc > 2 && !strcmp(argv[1], RR_PROBE_ARG))
		return rr_probe_main(argc, argv);
	parse_arguments(&a, argc, argv);
	if (!rr_library_find(library))
		library[0] = '\0';
	a.peer.library = library;
	rr_check_local(&local, library, a.pid);
	if (a.peer.host)
		rr_check_peer(&steps, &a.peer);
	report(&a, &local, &steps);
	status = status_of(&a.peer, &local);
	free(local.f);
	free(steps.f);
	if (fflush(stdout) || ferror(stdout))
		err(USAGE, "standard output");
	return status;
}
