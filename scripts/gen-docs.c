/* SPDX-License-Identifier: BSD-3-Clause */
/* gen-docs example: rdmarpc.conf.example. gen-docs man FILE.in: the page, with lines @OPTIONS@,
 * @COUNTERS@ and @REASONS@ replaced by what the tables say. */

#include <stdio.h>
#include <string.h>

#include "config/internal.h"
#include "core/base/stats_abi.h"

struct line {
	const char *section;	/* or an option: */
	const char *name, *help;
};

static const struct line lines[] = {
#define RR_SECTION(title) { title, NULL, NULL },
#define RR_OPTION(name, type, def, min, max, help) { NULL, #name, help },
#include "config/options.def"
#undef RR_OPTION
#undef RR_SECTION
};

/* Wraps text at 78 columns, each line begun by lead. */
static void wrap(const char *lead, const char *text)
{
	size_t room = 78 - strlen(lead);

	while (*text) {
		size_t n = strlen(text);

		if (n > room)
			for (n = room; n && text[n] != ' '; n--)
				;
		printf("%s%.*s\n", lead, (int)n, text);
		text += n;
		text += *text == ' ';
	}
}

static const struct rr_option *option(const char *name)
{
	return rr_option_find((struct rr_text){ name, (uint32_t)strlen(name) });
}

static void example(void)
{
	char allowed[80];

	printf("# rdmarpc.conf: options of librpcrdma_shim.so. See rdmarpc.conf(5).\n"
	       "#\n"
	       "# Made from config/options.def by `make docs`. Every option is shown with its\n"
	       "# default. RDMARPC_<NAME> in the environment overrides <name> here.\n");
	for (size_t i = 0; i < rr_array_size(lines); i++) {
		if (lines[i].section) {
			printf("\n#\n# %s\n#\n", lines[i].section);
			continue;
		}
		putchar('\n');
		wrap("# ", lines[i].help);
		printf("# Allowed: %s.\n#%s =%s%s\n", rr_option_allowed(option(lines[i].name), allowed,
		       sizeof(allowed)), lines[i].name, *option(lines[i].name)->def ? " " : "",
		       option(lines[i].name)->def);
	}
	printf("\n#\n# Rules. The first whose keys all match a connection decides; after them, option\n"
	       "# mode. Keys: role (client, server), port (of the server; also a range), address\n"
	       "# (of the peer; also a network), program (of the first call; clients only),\n"
	       "# command (name of the process; * and ? match any), mode (auto, tcp, require),\n"
	       "# dialect (v1, v2, draft02, slides), native (RDMA CM port of the same server, or on for\n"
	       "# the usual one).\n#\n"
	       "\n#[rule]\n#port = 111\n#mode = tcp\n"
	       "\n#[rule]\n#role = client\n#address = 192.0.2.0/24\n#program = 100003\n#mode = require\n"
	       "\n#[rule]\n#port = 2049\n#native = 20049\n");
}

/* A sentence a line: what mandoc asks for. Leading dots and quotes would be requests. */
static void mdoc_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '.' && text[1] == ' ') {
			printf(".\n");
			text++;
		} else if (*text == '\\') {
			printf("\\e");
		} else {
			putchar(*text);
		}
	}
	putchar('\n');
}

static void man_options(void)
{
	char allowed[80];

	for (size_t i = 0; i < rr_array_size(lines); i++) {
		const struct rr_option *o;

		if (lines[i].section) {
			printf("%s.Ss %s\n.Bl -tag -width Ds\n", i ? ".El\n" : "", lines[i].section);
			continue;
		}
		o = option(lines[i].name);
		printf(".It Cm %s Li = Ar %s\n", o->name, *o->def ? o->def : "\\(dq\\(dq");
		mdoc_text(lines[i].help);
		printf("Allowed: %s.\n", rr_option_allowed(o, allowed, sizeof(allowed)));
	}
	printf(".El\n");
}

static const struct {
	const char *group, *name, *help;
} counters[] = {
#define RR_COUNTER(group, name, help) { #group, #name, help },
#include "core/base/counters.def"
#undef RR_COUNTER
};

static void man_counters(void)
{
	for (size_t i = 0; i < rr_array_size(counters); i++) {
		printf(".It Va %s.%s\n", counters[i].group, counters[i].name);
		mdoc_text(counters[i].help);
	}
}

static void man_reasons(void)
{
	for (unsigned i = 1; i < RR_R_COUNT; i++)
		printf(".It\n%s\n", rr_reason_text(i));
}

static int man(const char *path)
{
	FILE *f = fopen(path, "r");
	char buf[1024];

	if (!f) {
		perror(path);
		return 1;
	}
	while (fgets(buf, sizeof(buf), f)) {
		if (!strcmp(buf, "@OPTIONS@\n"))
			man_options();
		else if (!strcmp(buf, "@COUNTERS@\n"))
			man_counters();
		else if (!strcmp(buf, "@REASONS@\n"))
			man_reasons();
		else
			fputs(buf, stdout);
	}
	fclose(f);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "example")) {
		example();
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "man"))
		return man(argv[2]);
	fprintf(stderr, "usage: gen-docs example | man file.in\n");
	return 2;
}
