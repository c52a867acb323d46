/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the configuration as the library reads it, and where each part of it comes from;
 * checks a file. The library's own parser reads it (config/), with a listener that is told of
 * each value: so nothing can be understood differently here. */

#include "tools/settings.h"

#include <arpa/inet.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/internal.h"
#include "config/rundir.h"
#include "core/base/stats.h"

#define ENV_CONF	"RDMARPC_CONF="

/* Where option i has its value from; empty: it has the default. */
static char (*origins)[PATH_MAX + 32];
static struct rr_conf conf;

/* A rule that counts. */
struct counted {
	struct rr_rule rule;
	char command[RR_CONF_COMMAND + 1];
	char origin[PATH_MAX + 32];
};
static struct counted *counted;
static uint32_t ncounted, nproblems;

/* --- listening while it is read --- */

/* An option may be set more than once; the last one counts, and overwrites the origin. */
static void note_option(const struct rr_where *at, const char *name, const struct rr_option *o)
{
	char *to = origins[o - rr_options];

	if (at->file)
		snprintf(to, sizeof(*origins), "%s:%u", at->file, at->line);
	else
		snprintf(to, sizeof(*origins), "environment, %s", name);
}

/* Rules come in the order in which they are tried. There are RR_CONF_RULES at most, and as many
 * places in `counted`. */
static void note_rule(const struct rr_where *at, const struct rr_rule *r,
		      struct rr_text command)
{
	struct counted *k = &counted[ncounted++];

	k->rule = *r;
	snprintf(k->command, sizeof(k->command), "%.*s", (int)command.len, command.p);
	snprintf(k->origin, sizeof(k->origin), "%s:%u", at->file, at->line);
}

static void comment_problem(const char *line, unsigned len)
{
	nproblems++;
	printf("# problem: %.*s\n", (int)len, line);
}

static void print_problem(const char *line, unsigned len)
{
	nproblems++;
	printf("%.*s\n", (int)len, line);
}

static void ignore_option(const struct rr_where *at, const char *name,
			  const struct rr_option *o)
{
	(void)at, (void)name, (void)o;
}

static void ignore_rule(const struct rr_where *at, const struct rr_rule *r,
			struct rr_text command)
{
	(void)at, (void)r, (void)command;
}

static const struct rr_conf_listener printing = { note_option, note_rule, comment_problem };
static const struct rr_conf_listener checking = { ignore_option, ignore_rule, print_problem };

/* --- writing it down --- */

/* Prints a line as a configuration file has it, with its origin as a comment. A value that is
 * empty or has a blank or a '#' needs quotes. */
static void put_option(const struct rr_option *o)
{
	char text[RR_CONF_TEXT + 16], line[2 * RR_CONF_TEXT + 32];
	const char *origin = origins[o - rr_options];

	rr_option_text(&conf, o, text, sizeof(text));
	snprintf(line, sizeof(line), !*text || strpbrk(text, " #") ? "%s = \"%s\"" : "%s = %s",
		 o->name, text);
	printf("%-39s # %s\n", line, *origin ? origin : "default");
}

/* Options are printed in the order of options.def, with its section titles. */
static void put_options(void)
{
	uint32_t i = 0;

#define RR_SECTION(title)	printf("\n# " title "\n");
#define RR_OPTION(name, ...)	put_option(&rr_options[i++]);
#include "config/options.def"
#undef RR_OPTION
#undef RR_SECTION
}

static void print_address(const struct rr_rule *r)
{
	char text[INET6_ADDRSTRLEN];

	if (r->family)
		printf("address = %s/%u\n",
		       inet_ntop(r->family == 4 ? AF_INET : AF_INET6, r->address, text,
				 sizeof(text)),
		       r->prefix);
}

static void put_rule(const struct counted *k)
{
	static const char *const modes[] = { "auto", "tcp", "require" };
	const struct rr_rule *r = &k->rule;

	printf("\n%-39s # %s%s\n", "[rule]", k->origin, r->other ? "; another command's" : "");
	if (r->role)
		printf("role = %s\n", r->role == 's' ? "server" : "client");
	if (*k->command)
		printf("command = \"%s\"\n", k->command);
	print_address(r);
	if (r->has_port && r->port_lo == r->port_hi)
		printf("port = %u\n", r->port_lo);
	else if (r->has_port)
		printf("port = %u-%u\n", r->port_lo, r->port_hi);
	if (r->has_program)
		printf("program = %u\n", r->program);
	printf("mode = %s\n", modes[r->mode]);
	if (r->has_dialect)
		printf("dialect = %s\n", rr_dialect_names[r->dialect]);
	if (r->has_native && r->native)
		printf("native = %u\n", r->native);
	else if (r->has_native)
		printf("native = on\n");
}

/* Sets the listener and makes room for what it notes. Returns false, and says so, if there is
 * no memory; the caller then counts one problem. */
static bool begin_block(const struct rr_conf_listener *listener)
{
	origins = calloc(rr_noptions, sizeof(*origins));
	counted = calloc(RR_CONF_RULES, sizeof(*counted));
	rr_conf_listener = listener;
	ncounted = nproblems = 0;
	if (origins && counted)
		return true;
	fputs("rdmarpc-run: out of memory\n", stderr);
	nproblems = 1;
	return false;
}

static void end_block(void)
{
	rr_conf_listener = NULL;
	free(origins);
	free(counted);
}

/* Takes a program's names, by which rules on commands judge: its own and that of its file. */
static void be_called(const char *name)
{
	const char *slash = strrchr(name, '/');

	program_invocation_short_name = (char *)(uintptr_t)(slash ? slash + 1 : name);
	prctl(PR_SET_NAME, program_invocation_short_name);
}

uint32_t rr_settings_print(const char *name, char **envp)
{
	if (!begin_block(&printing))
		return nproblems;
	if (name)
		be_called(name);
	rr_conf_load(&conf, envp);
	put_options();
	for (uint32_t i = 0; i < ncounted; i++)
		put_rule(&counted[i]);
	end_block();
	return nproblems;
}

uint32_t rr_settings_check(const char *file)
{
	char *envp[] = { NULL, NULL };

	if (!begin_block(&checking))
		return nproblems;
	if (asprintf(&envp[0], ENV_CONF "%s", file) >= 0) {
		rr_conf_load(&conf, envp);
		free(envp[0]);
	}
	end_block();
	return nproblems;
}

/* --- of a running process --- */

/* Reads the whole file /proc/PID/NAME, with a zero byte added; NULL: it cannot be read. */
static char *read_proc_file(int pid, const char *name, size_t *len)
{
	char path[64], *all = NULL, *more;
	size_t n = 1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	f = fopen(path, "re");
	for (*len = 0; f && n; *len += n) {
		more = realloc(all, *len + 4097);
		if (!more)
			break;
		all = more;
		n = fread(all + *len, 1, 4096, f);
		all[*len + n] = '\0';
	}
	if (f)
		fclose(f);
	return all;
}

/* Was the process started with more rights than its caller had? The library then ignores the
 * environment. The auxiliary vector is read in words of this program's size. */
static bool is_secure(int pid)
{
	size_t len, at = 0;
	char *auxv = read_proc_file(pid, "auxv", &len);
	unsigned long pair[2] = { 0 };
	bool secure = false;

	for (; auxv && at + sizeof(pair) <= len; at += sizeof(pair)) {
		memcpy(pair, auxv + at, sizeof(pair));
		secure |= pair[0] == AT_SECURE && pair[1];
	}
	free(auxv);
	return secure;
}

/* Does the process see another file system (chroot, container)? */
static bool other_root(int pid)
{
	struct stat ours, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	return !stat("/", &ours) && !stat(path, &its) &&
	       (ours.st_dev != its.st_dev || ours.st_ino != its.st_ino);
}

/* Makes an array of the variables, each of which a zero byte ends, with room for one more. */
static char **split_variables(char *text, size_t len)
{
	size_t n = 0;
	char **all;

	for (size_t i = 0; i < len; i++)
		n += !text[i];
	all = calloc(n + 3, sizeof(*all));
	n = 0;
	for (char *p = text; all && p < text + len; p += strlen(p) + 1)
		all[n++] = p;
	return all;
}

/* The file that the process reads, as seen from here, which the caller frees. A process in a
 * container has files of its own, which /proc/PID/root leads to. */
static char *conf_of(int pid, char **envp)
{
	const char *path = RR_CONF_FILE;
	char *ours;

	for (char **e = envp; *e; e++)
		if (!strncmp(*e, ENV_CONF, sizeof(ENV_CONF) - 1) && (*e)[sizeof(ENV_CONF) - 1])
			path = *e + sizeof(ENV_CONF) - 1;
	if (!other_root(pid))
		return strdup(path);
	return asprintf(&ours, "/proc/%d/root%s", pid, path) < 0 ? NULL : ours;
}

/* When the process started: its start time counts from boot, and the clock of ticks says how
 * long ago that was. */
static time_t started(int pid)
{
	struct timespec up;
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);

	clock_gettime(CLOCK_BOOTTIME, &up);
	return time(NULL) - up.tv_sec + (time_t)(rr_proc_ticks(pid) / hz);
}

/* Warns of what makes the output a guess: a process without the library, or a file that was
 * changed since the process read it. */
static void say_what_differs(int pid, const char *file)
{
	struct stat st;
	size_t len;
	char *maps = read_proc_file(pid, "maps", &len);

	if (maps && !strstr(maps, "librpcrdma_shim.so"))
		printf("# process %d has not loaded librpcrdma_shim.so: this is what it would "
		       "be told\n", pid);
	if (!stat(file, &st) && st.st_mtime > started(pid))
		printf("# %s is younger than process %d: what that has read is not known\n",
		       file, pid);
	free(maps);
}

/* Prints the settings for process pid, with its environment but its file's name as seen from
 * here. envp has room for one more. */
static void print_of(int pid, char **envp, const char *file)
{
	char comm[32], *var = NULL;
	size_t n = 0;

	say_what_differs(pid, file);
	while (envp[n] && strncmp(envp[n], ENV_CONF, sizeof(ENV_CONF) - 1))
		n++;
	if (!access(file, F_OK) && asprintf(&var, ENV_CONF "%s", file) >= 0)
		envp[n] = var;
	rr_proc_comm(pid, comm, sizeof(comm));
	rr_settings_print(comm, envp);
	free(var);
}

int rr_settings_print_pid(int pid)
{
	size_t len;
	char *text = read_proc_file(pid, "environ", &len), **envp, *file;

	if (!text) {
		fprintf(stderr, "rdmarpc-run: process %d: %s\n", pid, strerror(errno));
		return -1;
	}
	if (is_secure(pid)) {
		printf("# process %d has more rights than its caller: its environment does not "
		       "count\n", pid);
		len = 0;
	}
	envp = split_variables(text, len);
	file = envp ? conf_of(pid, envp) : NULL;
	if (file)
		print_of(pid, envp, file);
	free(file);
	free(envp);
	free(text);
	return file ? 0 : -1;
}
