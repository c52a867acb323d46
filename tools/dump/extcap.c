/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers what Wireshark asks of a program that captures for it (extcap). Wireshark runs the
 * program several times: for the list of interfaces, the link type and the settings of one, and
 * at last to capture into a pipe. Each answer is lines of a fixed form on standard output. */
#include "tools/dump/extcap.h"

#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/conf.h"
#include "tools/dump/filter.h"
#include "tools/places.h"

#define FILTER_WORDS 32
#define ALL "rdmarpc" /* the interface of all processes; with -PID appended, of one */

static bool is_alone(const char *interface)
{
	return !strncmp(interface, ALL "-", strlen(ALL "-"));
}

/* Lists an interface for all processes, and one for each living process of which the kernel has
 * confirmed the pid: rdmarpc-dump captures no others. */
static void say_interfaces(void)
{
	static struct rr_conf conf;
	struct rr_places places;
	struct rr_procs all = {0};

	rr_conf_load(&conf, environ);
	rr_places_find(&places, conf.run_dir);
	rr_places_read(&places, &all, NULL, 0);
	rr_procs_sort(&all);
	puts("extcap {version=" RR_VERSION "}{display=RPC-over-RDMA}");
	puts("interface {value=" ALL "}{display=RPC-over-RDMA: all processes}");
	for (uint32_t i = 0; i < all.n; i++) {
		const struct rr_proc *p = &all.p[i];

		/* Braces have a meaning in these lines, so the name ends before one. */
		if (p->alive && p->verified)
			printf("interface {value=%s-%d}{display=RPC-over-RDMA: %.*s[%d]}\n",
			       ALL, p->pid, (int)strcspn(p->comm, "{}"), p->comm, p->pid);
	}
	rr_procs_fini(&all);
	rr_places_fini(&places);
}

/* Lists what can be configured for an interface. */
static void say_config(void)
{
	puts("arg {number=0}{call=--as}{display=Shown as}"
	     "{tooltip=What packets are made of}{type=selector}");
	puts("value {arg=0}{value=rpc}{display=RPC messages, in TCP}{default=true}");
	puts("value {arg=0}{value=rdma}{display=RPC-over-RDMA messages, in RoCEv2}"
	     "{default=false}");
	puts("value {arg=0}{value=wire}{display=the same, with headers as they went}"
	     "{default=false}");
}

/* Cuts a filter into its words, `most` at most, and ends them with a NULL. Returns how many. */
static int filter_words(char *filter, char **words, int most)
{
	int n = 0;

	for (char *w = strtok(filter, " \t"); w; w = strtok(NULL, " \t")) {
		if (n == most)
			errx(2, "filter: more than %d words", most);
		words[n++] = w;
	}
	words[n] = NULL;
	return n;
}

/* Judges what the user is writing into the field for a capture filter. Whatever comes on
 * standard output is a fault of it; rr_filter_word() ends the program with a message. */
static void check_filter(char *filter)
{
	char *words[FILTER_WORDS + 1];
	struct rr_filter f = {0};
	int n = filter_words(filter, words, FILTER_WORDS);

	dup2(STDOUT_FILENO, STDERR_FILENO);
	for (int i = 0; i < n;)
		i += rr_filter_word(&f, words[i], words[i + 1]);
}

/* Turns Wireshark's arguments (capture this interface into this pipe) into those of
 * rdmarpc-dump. Returns their number; *argv becomes an array in static memory. `as` and filter
 * may be NULL. */
static int as_ours(char ***argv, char *interface, char *fifo, char *as, char *filter)
{
	static char *args[9 + FILTER_WORDS];
	int n = 0;

	if (!interface || !fifo)
		errx(2, "--capture needs --extcap-interface and --fifo");
	args[n++] = (*argv)[0];
	args[n++] = (char *)"-q";
	args[n++] = (char *)"-w";
	args[n++] = fifo;
	if (is_alone(interface)) {
		args[n++] = (char *)"-p";
		args[n++] = interface + strlen(ALL "-");
	}
	if (as) {
		args[n++] = (char *)"--as";
		args[n++] = as;
	}
	if (filter)
		n += filter_words(filter, args + n, FILTER_WORDS);
	*argv = args;
	return n;
}

enum { INTERFACES, INTERFACE, DLTS, CONFIG, CAPTURE, FIFO, AS, FILTER, OTHER };

/* Only argv[1] decides whether the arguments are Wireshark's. Its version needs no answer and
 * is ignored. optind is set back, since main() parses what as_ours() has made. */
int rr_extcap(int argc, char ***argv)
{
	static const struct option longs[] = {
		{"extcap-interfaces", no_argument, NULL, INTERFACES},
		{"extcap-interface", required_argument, NULL, INTERFACE},
		{"extcap-dlts", no_argument, NULL, DLTS},
		{"extcap-config", no_argument, NULL, CONFIG},
		{"capture", no_argument, NULL, CAPTURE},
		{"fifo", required_argument, NULL, FIFO},
		{"as", required_argument, NULL, AS},
		{"extcap-version", required_argument, NULL, OTHER},
		{"extcap-capture-filter", required_argument, NULL, FILTER},
		{0}};
	char *interface = NULL, *fifo = NULL, *as = NULL, *filter = NULL;
	bool asked[OTHER + 1] = {false};
	int c;

	if (argc < 2 ||
	    (strncmp((*argv)[1], "--extcap-", 9) && strcmp((*argv)[1], "--capture")))
		return argc;
	while ((c = getopt_long(argc, *argv, "", longs, NULL)) != -1) {
		if (c == '?')
			exit(2);
		asked[c] = true;
		if (c == INTERFACE)
			interface = optarg;
		if (c == FIFO)
			fifo = optarg;
		if (c == AS)
			as = optarg;
		if (c == FILTER)
			filter = optarg;
	}
	optind = 0;
	if (asked[CAPTURE])
		return as_ours(argv, interface, fifo, as, filter);
	if (asked[INTERFACES])
		say_interfaces();
	else if (asked[DLTS])
		puts("dlt {number=101}{name=RAW}{display=Raw IP}");
	else if (asked[CONFIG])
		say_config();
	else if (filter)
		check_filter(filter);
	exit(0);
}
