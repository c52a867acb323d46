/* SPDX-License-Identifier: BSD-3-Clause */
/* rdmarpc-run: starts a program with librpcrdma_shim.so preloaded. It becomes the program by
 * exec and leaves no process behind, except for the guard of --register. Everything that can be
 * checked is checked before, since the library itself never stops a program. Also prints and
 * checks the configuration, and writes drop-ins for systemd. */

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/conf.h"
#include "config/internal.h"
#include "tools/library.h"
#include "tools/program.h"
#include "tools/settings.h"
#include "tools/unit.h"
#ifdef RR_HAVE_TIRPC
#include "tools/run/rpcb_guard.h"
#include "tools/run/resolve.h"
#include "tools/run/rpcb.h"
#endif

#define TIRPC	"libtirpc.so.3"

static const char usage[] =
	"usage: rdmarpc-run [-c file] [-o option=value]... [--tirpc] "
	"[--register[=program,...]]\n"
	"                   [--resolve host,...]... [--] program [argument]...\n"
	"       rdmarpc-run [-c file] [-o option=value]... --print-config [program]\n"
	"       rdmarpc-run --print-config --pid=pid | --check-config=file\n"
	"       rdmarpc-run [-c file] [-o option=value]... [--tirpc] [--root=directory]\n"
	"                   --unit=name [--print | --install | --remove]\n"
	"  -c, --config file     configuration file (default " RR_CONF_FILE ")\n"
	"  -o, --option o=value  sets an option of rdmarpc.conf(5)\n"
	"      --tirpc           preloads " TIRPC " too, for programs that use libc's RPC\n"
	"      --register[=program,...]  registers with rpcbind for RDMA what the program does "
	"for TCP\n"
	"      --resolve host,...    asks hosts' rpcbind where they serve RDMA\n"
	"      --print-config    prints the settings in force and where each comes from\n"
	"      --pid=pid         ... of a running process\n"
	"      --unit=name       a service of systemd: its drop-in is printed,\n"
	"      --install         ... written, or\n"
	"      --remove          ... removed, below\n"
	"      --root=directory  ... that directory\n"
	"      --check-config=file   prints what is wrong in a configuration file\n"
	"      --version         prints the version\n";

static void fail(int status, const char *fmt, ...) RR_PRINTF(2, 3) __attribute__((noreturn));
/* Prints a message and ends the program. */
static void fail(int status, const char *fmt, ...)
{
	va_list ap;

	fputs("rdmarpc-run: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(status);
}

/* --- options --- */

/* Checks -o NAME=VALUE as the library would, and passes it on in the environment, which counts
 * more than the file. A mistake is told here, where the user sees it; the library could only
 * log it. */
static void set_run_option(const char *arg)
{
	const char *equals = strchr(arg, '=');
	struct rr_text name = { arg,
				equals ? (uint32_t)(equals - arg) : (uint32_t)strlen(arg) };
	const struct rr_option *o = rr_option_find(name);
	char var[64] = "RDMARPC_", allowed[80];
	static struct rr_conf scratch;
	const char *wrong, *near;
	size_t n = strlen(var);

	if (!o) {
		near = rr_option_nearest(name);
		fail(RR_EXIT_OURS, "no option '%.*s'%s%s%s", (int)name.len, name.p,
		     near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
	}
	if (!equals)
		fail(RR_EXIT_OURS, "option '%s' without a value: -o %s=value", o->name,
		     o->name);
	wrong = rr_option_set(&scratch, o,
			      (struct rr_text){ equals + 1, (uint32_t)strlen(equals + 1) });
	if (wrong)
		fail(RR_EXIT_OURS, "option '%s': '%s' is %s (allowed: %s)", o->name, equals + 1,
		     wrong, rr_option_allowed(o, allowed, sizeof(allowed)));
	for (const char *p = o->name; *p && n < sizeof(var) - 1; p++)
		var[n++] = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
	setenv(var, equals + 1, 1);
	rr_unit_variable(var, equals + 1);
}

/* Makes the file's name absolute, since the program may change its directory before the file is
 * read. */
static void set_config(const char *file)
{
	char path[PATH_MAX];

	if (!realpath(file, path) || access(path, R_OK))
		fail(RR_EXIT_OURS, "%s: %s", file, strerror(errno));
	setenv("RDMARPC_CONF", path, 1);
	rr_unit_variable("RDMARPC_CONF", path);
}

static int set_pid(const char *arg)
{
	char *end;
	long pid = strtol(arg, &end, 10);

	if (pid <= 0 || pid > INT_MAX || *end)
		fail(RR_EXIT_OURS, "--pid: '%s' is no process id", arg);
	return (int)pid;
}

static struct rr_conf conf;

/* Prints the problems that the library would log. The program runs all the same. */
static void warn_of_problems(void)
{
	rr_conf_load(&conf, environ);
	for (char *line = conf.problems, *end; (end = strchr(line, '\n')); line = end + 1)
		fprintf(stderr, "rdmarpc-run: warning: %.*s\n", (int)(end - line), line);
}

/* --- the library --- */

/* LD_PRELOAD separates names by spaces and colons and knows no quoting. */
static void find_library(char out[PATH_MAX])
{
	if (!rr_library_find(out))
		fail(RR_EXIT_OURS, "%s is %s", RR_LIBRARY, rr_library_places());
	if (strpbrk(out, " :"))
		fail(RR_EXIT_OURS, "%s: a path with a space or colon cannot be preloaded", out);
}

/* The library comes first, before what the caller preloads: then its functions are the ones
 * that are called. libtirpc is opened once to see that it is there. */
static void set_preload(const char *library, bool tirpc)
{
	const char *old = getenv("LD_PRELOAD");
	char *value;

	if (tirpc && !dlopen(TIRPC, RTLD_LAZY | RTLD_LOCAL))
		fail(RR_EXIT_OURS, "--tirpc: %s", dlerror());
	if (asprintf(&value, "%s%s%s%s", library, tirpc ? ":" TIRPC : "", old &&
		     *old ? ":" : "", old ? old : "") < 0)
		fail(RR_EXIT_OURS, "out of memory");
	setenv("LD_PRELOAD", value, 1);
	free(value);
}

/* Chooses the library for the program. If two are installed, it is judged by the one of its
 * word size; what is preloaded is then the name that stands for both, because the program may
 * start others. */
static void pick_library(const char *path, const char *library, char preload[PATH_MAX])
{
	char why[3 * PATH_MAX], both[PATH_MAX], other[PATH_MAX], no[3 * PATH_MAX];
	int rc = rr_program_check(path, library, why, sizeof(why));
	bool pair = rr_library_pair(library, both, other);

	if (rc && pair && !rr_program_check(path, other, no, sizeof(no))) {
		rc = 0;
		memcpy(why, no, sizeof(why));
	}
	if (rc)
		fail(rc, "%s", why);
	if (*why)
		fprintf(stderr, "rdmarpc-run: warning: %s\n", why);
	snprintf(preload, PATH_MAX, "%s", pair ? both : library);
}

/* --- rpcbind --- */

#ifdef RR_HAVE_TIRPC
static struct rr_guard_set guarded;
static bool registers;
static char *hosts;		/* separated by commas */

/* programs is NULL for --register without a list: then all programs count. */
static void set_register(const char *programs)
{
	const char *bad = programs ? rr_guard_programs(&guarded, programs) : NULL;

	if (bad)
		fail(RR_EXIT_OURS, "--register: '%s' is no RPC program", bad);
	registers = true;
}

/* Appends to the list of hosts; the option may be given more than once. */
static void set_resolve(const char *names)
{
	char *more;

	if (!*names || *names == ',' || strstr(names, ",,") || names[strlen(names) - 1] == ',')
		fail(RR_EXIT_OURS, "--resolve: '%s' is no list of hosts", names);
	if (asprintf(&more, "%s%s%s", hosts ? hosts : "", hosts ? "," : "", names) < 0)
		fail(RR_EXIT_OURS, "out of memory");
	free(hosts);
	hosts = more;
}

static int ask_rules(const char *address)
{
	return rr_resolve_ask(address);
}

/* Appends rules to what the caller has put into the variable. */
static void set_rules(const char *variable, const char *rules)
{
	const char *old = getenv(variable);
	char *value;

	if (asprintf(&value, "%s%s%s", old ? old : "", old ? "; " : "", rules) < 0)
		fail(RR_EXIT_OURS, "out of memory");
	setenv(variable, value, 1);
	free(value);
}

/* A host that gives no rules is only a warning: its connections stay as they would be without
 * --resolve. */
static void resolve_all(const char *library, const char *mode)
{
	static struct rr_rules rules;

	for (char *host = strtok(hosts, ","); host; host = strtok(NULL, ",")) {
		const char *why = rr_resolve(host, library, mode, &rules);

		if (why)
			fprintf(stderr,
				"rdmarpc-run: warning: --resolve %s: %s; it is not asked for "
				"RDMA\n", host, why);
	}
	if (rules.n)
		set_rules("RDMARPC_RULES", rules.text);
}

/* Starts the guard, and a rule that makes the program's listeners native ones. The rule comes
 * last, so that any other rule about a listener decides first. */
static void guard(const char *program, const char *mode)
{
	const char *slash = strrchr(program, '/'), *missing = rr_rpcb_missing();
	char rule[64];
	int rc;

	if (missing)
		fprintf(stderr, "rdmarpc-run: warning: --register: no rpcbind yet (%s)\n",
			missing);
	if (conf.mode != RR_MODE_TCP) {		/* for connections that no other rule matches */
		snprintf(rule, sizeof(rule), "role=server port=1-65535 native=on%s%s",
			 mode ? " mode=" : "", mode ? mode : "");
		set_rules("RDMARPC_LAST_RULES", rule);
	}
	rc = rr_guard_start(&guarded, slash ? slash + 1 : program);
	if (rc)
		fprintf(stderr,
			"rdmarpc-run: warning: --register: nobody can watch the program: %s\n",
			strerror(-rc));
}

/* Registers the program's listeners with rpcbind (--register), and makes rules of what hosts
 * have registered (--resolve). */
static void meet_rpcbind(const char *library, const char *program)
{
	const char *mode;

	if (!hosts && !registers)
		return;
	rr_conf_load(&conf, environ);
	mode = conf.mode == RR_MODE_REQUIRE ? "require" : NULL;
	if (hosts)
		resolve_all(library, mode);
	if (registers)
		guard(program, mode);
}
#else
static void no_tirpc(const char *option) __attribute__((noreturn));
static void no_tirpc(const char *option)
{
	fail(RR_EXIT_OURS, "%s: built without libtirpc, which it needs", option);
}

static void set_register(const char *programs)
{
	(void)programs;
	no_tirpc("--register");
}

static void set_resolve(const char *names)
{
	(void)names;
	no_tirpc("--resolve");
}

static int ask_rules(const char *address)
{
	(void)address;
	no_tirpc("--ask");
}

static void meet_rpcbind(const char *library, const char *program)
{
	(void)library, (void)program;
}
#endif

/* --- units of systemd --- */

static int drop_in(enum rr_unit_what what, const char *name, const char *root, bool tirpc)
{
	char library[PATH_MAX], preload[PATH_MAX + sizeof(TIRPC) + 1];

	find_library(library);
	snprintf(preload, sizeof(preload), "%s%s", library, tirpc ? ":" TIRPC : "");
	return rr_unit(what, name, root, preload, library);
}

/* A script without #! is run by the shell, as execvp(3) does. */
static void run_program(const char *path, char **argv)
{
	execv(path, argv);
	if (errno == ENOEXEC) {
		int n = 0;
		char **sh;

		while (argv[n])
			n++;
		sh = calloc((size_t)n + 2, sizeof(*sh));
		if (!sh)
			fail(RR_EXIT_OURS, "out of memory");
		sh[0] = (char *)(uintptr_t)"/bin/sh";
		sh[1] = (char *)(uintptr_t)path;
		for (int i = 1; i < n; i++)
			sh[i + 1] = argv[i];
		execv(sh[0], sh);
	}
	fail(errno == ENOENT ? RR_EXIT_MISSING : RR_EXIT_CANNOT, "%s: %s", path,
	     strerror(errno));
}

/* The order matters: rules of --resolve and --register are in the environment before
 * warn_of_problems() reads it, and LD_PRELOAD is set last, so that processes that this program
 * starts itself do not get it. */
int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
			{ "option", required_argument, NULL, 'o' },
		{ "tirpc", no_argument, NULL, 't' }, { "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
			{ "register", optional_argument, NULL, 'r' },
		{ "resolve", required_argument, NULL, 'R' },
			{ "ask", required_argument, NULL, 'a' },
		{ "print-config", no_argument, NULL, 'p' },
			{ "pid", required_argument, NULL, 'i' },
		{ "check-config", required_argument, NULL, 'k' },
		{ "unit", required_argument, NULL, 'u' },
			{ "root", required_argument, NULL, 'T' },
		{ "print", no_argument, NULL, 'P' }, { "install", no_argument, NULL, 'I' },
		{ "remove", no_argument, NULL, 'M' }, { 0 },
	};
	char path[PATH_MAX], library[PATH_MAX], preload[PATH_MAX];
	bool tirpc = false, print = false;
	enum rr_unit_what what = RR_UNIT_PRINT;
	const char *why, *unit = NULL, *root = "";
	int c, rc, pid = 0;

	while ((c = getopt_long(argc, argv, "+c:o:h", longs, NULL)) != -1) {
		switch (c) {
		case 'c':
			set_config(optarg);
			break;
		case 'o':
			set_run_option(optarg);
			break;
		case 't':
			tirpc = true;
			break;
		case 'r':
			set_register(optarg);
			break;
		case 'R':
			set_resolve(optarg);
			break;
		case 'a':
			return ask_rules(optarg);
		case 'p':
			print = true;
			break;
		case 'i':
			pid = set_pid(optarg);
			break;
		case 'u':
			unit = optarg;
			break;
		case 'T':
			root = optarg;
			break;
		case 'P':
		case 'I':
		case 'M':
			what = c == 'I' ? RR_UNIT_INSTALL : c == 'M' ? RR_UNIT_REMOVE :
			       RR_UNIT_PRINT;
			break;
		case 'k':
			return rr_settings_check(optarg) != 0;
		case 'V':
			puts("rdmarpc-run " RR_VERSION);
			return 0;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return RR_EXIT_OURS;
		}
	}
	if (unit)
		return drop_in(what, unit, root, tirpc);
	if (print && pid)
		return rr_settings_print_pid(pid) != 0;
	if (print)
		return rr_settings_print(argv[optind], environ) != 0;
	if (optind == argc || pid) {
		fputs(usage, stderr);
		return RR_EXIT_OURS;
	}
	find_library(library);
	rc = rr_program_find(argv[optind], path, sizeof(path), &why);
	if (rc)
		fail(rc, "%s: %s", argv[optind], why);
	pick_library(path, library, preload);
	meet_rpcbind(library, argv[optind]);
	warn_of_problems();
	set_preload(preload, tirpc);
	run_program(path, argv + optind);
}
