/* SPDX-License-Identifier: BSD-3-Clause */
/* rdmarpc-conform: judges an RPC-over-RDMA peer by the documents. This file reads the
 * arguments; suite.c plays the cases. */
#include <arpa/inet.h>
#include <err.h>
#include <getopt.h>
#include <netdb.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "tools/conform/suite.h"

#ifndef RR_CASEDIR
#define RR_CASEDIR "/usr/local/share/rdmarpc/conform"
#endif

static const char usage[] =
	"usage: rdmarpc-conform [option]... PEER [CASE]...\n"
	"  PEER  shm://HOST:PORT   a TCP server with the library, by an upgrade\n"
	"        rdma://HOST:PORT  any RPC-over-RDMA peer\n"
	"  CASE  a file or a directory (default: " RR_CASEDIR ")\n"
	"  -d, --dialect=NAME      v1, v2, draft02, slides (v1)\n"
	"  -r, --requester=COMMAND the peer is a requester: listens at PEER; COMMAND VERB N "
	"makes it call\n"
	"  -p, --program=N[:V]     whose NULL is called (100003:3)\n"
	"  -s, --serves=NAME,...   what else the peer serves: lab, nfs3, nfs4, reverse, tight\n"
	"  -k, --known=FILE        differences that are known, CASE: REASON\n"
	"  -f, --format=NAME       text, json, junit (text)\n"
	"  -o, --output=FILE       instead of standard output\n"
	"  -v, --verbose           and the cases that were skipped\n"
	"      --check             only reads the cases\n"
	"      --self-test         shows that each case can fail\n"
	"      --strict[=NAME]     of alternatives only those that are NAME's (rdmarpc)\n"
	"      --patience=MS       the peer waits so long for a reply of its own to be pulled\n"
	"      --credits=N --recv-size=N --offer=PROGRAM --timeout=MS --silence=MS\n"
	"      --version\n";

struct arguments {
	struct rr_options o;
	struct rr_suite suite;
	struct rr_known *known;
	const char *peer;
	enum rr_format format;
	FILE *to;
	bool verbose, check, self_test;
};

/* --- arguments --- */

static uint32_t read_number(const char *option, const char *text, uint32_t least, uint32_t most)
{
	char *end;
	unsigned long v = strtoul(text, &end, 0);

	if (end == text || *end || v < least || v > most)
		errx(2, "--%s: '%s' is no number from %u to %u", option, text, least, most);
	return (uint32_t)v;
}

/* The index of text in names; ends the program if it is none of them. */
static uint32_t which_of(const char *option, const char *text, const char *const *names,
			 uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(text, names[i]))
			return i;
	errx(2, "--%s: there is no '%s'", option, text);
}

/* N or N:V; without a version 1. */
static void set_program(struct rr_options *o, char *text)
{
	char *colon = strchr(text, ':');

	if (colon)
		*colon = '\0';
	o->program = read_number("program", text, 0, UINT32_MAX);
	o->version = colon ? read_number("program", colon + 1, 0, UINT32_MAX) : 1;
}

/* Names of targets, separated by commas; text is cut at them. */
static void set_serves(struct rr_options *o, char *text)
{
	for (char *name; (name = strsep(&text, ","));)
		o->targets |= 1u << which_of("serves", name, rr_target_names, RR_TARGETS);
}

/* Parses HOST:PORT, with brackets around an IPv6 address, and takes the first address of the
 * host. */
static void resolve_peer(const char *peer, const char *where, struct sockaddr_storage *out)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	char host[256];
	const char *colon = strrchr(where, ':');
	size_t len = colon ? (size_t)(colon - where) : 0;
	int rc;

	if (!colon || len >= sizeof(host))
		errx(2, "%s: should be shm://HOST:PORT or rdma://HOST:PORT", peer);
	if (len > 1 && where[0] == '[' && where[len - 1] == ']') {
		where++;
		len -= 2;
	}
	snprintf(host, sizeof(host), "%.*s", (int)len, where);
	rc = getaddrinfo(host, colon + 1, &hints, &found);
	if (rc)
		errx(2, "%s: %s", peer, gai_strerror(rc));
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
}

/* The scheme says how connections are made: shm:// by an upgrade, rdma:// by RDMA CM. */
static void set_peer(struct arguments *a, const char *peer)
{
	a->peer = peer;
	if (!strncmp(peer, "shm://", 6))
		a->o.link.way = RR_WAY_UPGRADE;
	else if (!strncmp(peer, "rdma://", 7))
		a->o.link.way = RR_WAY_NATIVE;
	else
		errx(2, "%s: should be shm://HOST:PORT or rdma://HOST:PORT", peer);
	resolve_peer(peer, strchr(peer, ':') + 3, &a->o.link.addr);
}

enum {
	CHECK = 256, SELF_TEST, CREDITS, RECV_SIZE, OFFER, TIMEOUT, SILENCE, PATIENCE, STRICT,
	VERSION
};

static const struct option longs[] = {
	{ "dialect", required_argument, NULL, 'd' },
		{ "requester", required_argument, NULL, 'r' },
	{ "program", required_argument, NULL, 'p' }, { "serves", required_argument, NULL, 's' },
	{ "known", required_argument, NULL, 'k' }, { "format", required_argument, NULL, 'f' },
	{ "output", required_argument, NULL, 'o' }, { "verbose", no_argument, NULL, 'v' },
	{ "check", no_argument, NULL, CHECK }, { "self-test", no_argument, NULL, SELF_TEST },
	{ "credits", required_argument, NULL, CREDITS },
		{ "recv-size", required_argument, NULL, RECV_SIZE },
	{ "offer", required_argument, NULL, OFFER },
		{ "timeout", required_argument, NULL, TIMEOUT },
	{ "silence", required_argument, NULL, SILENCE },
		{ "patience", required_argument, NULL, PATIENCE },
	{ "strict", optional_argument, NULL, STRICT },
	{ "version", no_argument, NULL, VERSION },
	{ "help", no_argument, NULL, 'h' }, { 0 },
};

/* Options that name a file. One that cannot be read or written ends the program before any case
 * is played. */
static void set_files(struct arguments *a, int c)
{
	char why[512];

	if (c == 'k' && !rr_known_read(&a->known, optarg, why, sizeof(why)))
		errx(2, "%s", why);
	if (c == 'o') {
		a->to = fopen(optarg, "we");
		if (!a->to)
			err(2, "%s", optarg);
	}
}

static void set_conform_number(struct rr_options *o, int c)
{
	switch (c) {
	case CREDITS: o->link.credits = read_number("credits", optarg, 1, 4096); break;
	case RECV_SIZE: o->link.recv_size = read_number("recv-size", optarg, 1024,
							RR_LINK_RECV); break;
	case OFFER: o->link.program = read_number("offer", optarg, 0, UINT32_MAX); break;
	case TIMEOUT: o->timeout = read_number("timeout", optarg, 1, 600000); break;
	case SILENCE: o->silence = read_number("silence", optarg, 1, 600000); break;
	case PATIENCE: o->patience = read_number("patience", optarg, 1, 600000); break;
	default: break;
	}
}

/* Options that only store a number are left to set_conform_number(). */
static void set_conform_option(struct arguments *a, int c)
{
	static const char *const formats[] = { "text", "json", "junit" };

	switch (c) {
	case 'd': a->o.dialect = (enum rr_dialect)which_of("dialect", optarg, rr_dialect_names,
							   4); break;
	case 'f': a->format = (enum rr_format)which_of("format", optarg, formats, 3); break;
	case 'r':
		a->o.role = RR_REQUESTER;
		a->o.caller = optarg;
		break;
	case 'p': set_program(&a->o, optarg); break;
	case 's': set_serves(&a->o, optarg); break;
	case 'k': case 'o': set_files(a, c); break;
	case 'v': a->verbose = true; break;
	case CHECK: a->check = true; break;
	case SELF_TEST: a->self_test = true; break;
	case STRICT: a->o.strict = optarg ? optarg : "rdmarpc"; break;
	case VERSION: puts("rdmarpc-conform " RR_VERSION); exit(0);
	case 'h': fputs(usage, stdout); exit(0);
	case '?': fputs(usage, stderr); exit(2);
	default: set_conform_number(&a->o, c);
	}
}

/* Adds a file, or all cases below a directory. A case that cannot be parsed ends the
 * program. */
static void add_cases(struct arguments *a, const char *path)
{
	char why[512];

	if (!rr_suite_add(&a->suite, path, why, sizeof(why)))
		errx(2, "%s", why);
}

/* With --check there is no peer, and all arguments are cases. */
static void parse_conform_args(struct arguments *a, int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "d:r:p:s:k:f:o:vh", longs, NULL)) != -1)
		set_conform_option(a, c);
	if (!a->check) {
		if (optind == argc) {
			fputs(usage, stderr);
			exit(2);
		}
		set_peer(a, argv[optind++]);
	}
	if (optind == argc)
		add_cases(a, RR_CASEDIR);
	for (; optind < argc; optind++)
		add_cases(a, argv[optind]);
}

/* --- what is done --- */

/* Returns 1 if a lie was believed or a case failed honestly. */
static int self_test(struct arguments *a)
{
	struct rr_tested t = { 0 };
	const char *why = rr_suite_self_test(&a->suite, &a->o, a->known, a->to, &t);

	if (why)
		errx(3, "%s: %s", a->peer, why);
	fprintf(a->to, "%u lies, %u of them not noticed; %u changes of what came\n", t.lies,
		t.believed, t.changes);
	return t.believed || t.failed;
}

/* Returns the exit status: a failed MUST weighs more than a peer that was not reached. */
static int judge_peer(struct arguments *a)
{
	struct rr_results r = { .peer = a->peer, .dialect = a->o.dialect,
			       .skipped = a->verbose };
	const char *why = rr_suite_run(&a->suite, &a->o, a->known, &r);
	int rc;

	if (why)
		errx(3, "%s: %s", a->peer, why);
	rr_results_print(&r, a->format, a->to);
	rc = rr_results_count(&r, RR_FAIL, RR_MUST) ? 1 :
	     rr_results_count(&r, RR_UNREACHED, -1) ? 3 : 0;
	for (uint32_t i = 0; i < r.n; i++)
		free(r.result[i].trace);
	free(r.result);
	return rc;
}

int main(int argc, char **argv)
{
	struct arguments a = {
		.o = {
			.link = { .recv_size = RR_LINK_RECV, .recvs = RR_LINK_RECVS,
				  .credits = 32, .program = 0x2052444d },
			.targets = 1u << RR_T_NULL, .program = 100003, .version = 3,
				   .timeout = 3000, .silence = 200,
		},
		.to = stdout,
	};
	int rc = 0;

	parse_conform_args(&a, argc, argv);
	if (a.check)
		fprintf(a.to, "%u cases\n", a.suite.n);
	else
		rc = a.self_test ? self_test(&a) : judge_peer(&a);
	if (fflush(a.to) || ferror(a.to))
		err(3, "the report");
	rr_suite_free(&a.suite);
	rr_known_free(a.known);
	return rc;
}
