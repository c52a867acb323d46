/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads rdmarpc.conf: lines of `key = value`, sections [rule], comments from # to the end of
 * the line. A value may stand in double quotes. Options come before the first section.
 *
 * The same parser reads rules from environment variables. Whether an option's value is right is
 * judged by value.c, which rule a connection falls under by policy.c. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/internal.h"

#define LINE_SIZE	1024u
#define FILE_SIZE	(256u * 1024)

/* OPTIONS counts the lines of options.def. */
enum {
	OPTIONS = 0
#define RR_SECTION(title)
#define RR_OPTION(...) + 1
#include "config/options.def"
#undef RR_OPTION
#undef RR_SECTION
	, RULE_KEYS = 8
};

enum section { SECTION_OPTIONS, SECTION_RULE, SECTION_UNKNOWN };

/* The state of a text that is being read. A file arrives in pieces, so a line is collected
 * before it is taken apart. */
struct parser {
	struct rr_conf *c;
	struct rr_where at;
	enum section section;
	/* The rule being read: */
	struct rr_rule rule;
	struct rr_where rule_at;
	bool rule_bad, has_mode;
	char command[RR_CONF_COMMAND];
	uint32_t command_len;
	/* What has been read: for each option and each key of this rule the line it was on, 0
	 * for none; and for each rule of this text its line and whether it has a command.
	 * `before` counts the rules that c had already. */
	uint32_t option_line[OPTIONS], key_line[RULE_KEYS];
	uint32_t before;
	struct { uint32_t line : 31, command : 1; } read[RR_CONF_RULES];
	/* The line being read: */
	char line[LINE_SIZE];
	uint32_t len;
	bool too_long;
};

static const char *const rule_keys[RULE_KEYS + 1] = { "role", "port", "address", "program",
						      "command", "mode",
					 "dialect", "native", NULL };

/* --- the keys of a rule. Each function returns NULL, or what is wrong with the value. --- */

static const char *rule_role(struct rr_rule *r, struct rr_text t)
{
	if (rr_text_is_nocase(t, "client"))
		r->role = 'c';
	else if (rr_text_is_nocase(t, "server"))
		r->role = 's';
	else
		return "not a role (allowed: client, server)";
	return NULL;
}

/* A port; 0 is none. */
static bool port_number(struct rr_text t, uint16_t *port)
{
	uint64_t v;

	if (!rr_value_number(t, &v) || !v || v > 65535)
		return false;
	*port = (uint16_t)v;
	return true;
}

static const char *rule_port(struct rr_rule *r, struct rr_text t)
{
	const char *dash = memchr(t.p, '-', t.len);
	struct rr_text lo = t, hi = t;

	if (dash) {
		lo.len = (uint32_t)(dash - t.p);
		hi = (struct rr_text){ dash + 1, t.len - lo.len - 1 };
	}
	r->has_port = true;
	if (!port_number(lo, &r->port_lo) || !port_number(hi, &r->port_hi) ||
	    r->port_lo > r->port_hi)
		return "not a port (allowed: 1..65535, or a range as 600-1023)";
	return NULL;
}

static const char *rule_program(struct rr_rule *r, struct rr_text t)
{
	uint64_t v;

	r->has_program = true;
	if (!rr_value_number(t, &v) || v > UINT32_MAX)
		return "not an RPC program number (allowed: 0..0xffffffff)";
	r->program = (uint32_t)v;
	return NULL;
}

/* Stores the command pattern and compares it with this process's name. A rule for another
 * command is kept, so that tools can show it, but never matches. */
static const char *rule_command(struct parser *p, struct rr_text t)
{
	if (!t.len || t.len > RR_CONF_COMMAND)
		return "not a command name (allowed: 1..64 bytes, * and ? match any)";
	p->rule.other = !rr_conf_is_command(t);
	memcpy(p->command, t.p, t.len);
	p->command_len = t.len;
	return NULL;
}

/* "on" leaves the port 0, which stands for the usual one. */
static const char *rule_native(struct rr_rule *r, struct rr_text t)
{
	r->has_native = true;
	if (rr_text_is_nocase(t, "on") || port_number(t, &r->native))
		return NULL;
	return "not a port (allowed: 1..65535, or on for the usual one)";
}

static const char *rule_dialect(struct rr_rule *r, struct rr_text t)
{
	r->has_dialect = true;
	return rr_value_dialect(t, &r->dialect) ? NULL :
	       "not a dialect (allowed: v1, v2, draft02, slides)";
}

/* Four decimal numbers with dots between, none with a zero before it: to some that is octal. */
static bool address4(struct rr_text t, uint8_t a[16])
{
	uint64_t v;

	for (unsigned i = 0; i < 4; i++) {
		const char *dot = i < 3 ? memchr(t.p, '.', t.len) : t.p + t.len;
		struct rr_text part = { t.p, dot ? (uint32_t)(dot - t.p) : 0 };

		if (!dot || !rr_value_number(part, &v) || v > 255 ||
		    (part.len > 1 && *part.p == '0'))
			return false;
		a[i] = (uint8_t)v;
		t.len -= part.len + (i < 3);
		t.p = dot + 1;
	}
	return true;
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
	       c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Parses an IPv6 address (RFC 4291 §2.2) into a: groups of up to four hex digits, one "::" for
 * a run of zeroes, and perhaps an IPv4 address at the end. n counts the bytes that are there,
 * gap is where in them the "::" stands (99: nowhere). At the end what is behind the gap is
 * moved to the end of the address. */
static bool address6(struct rr_text t, uint8_t a[16])
{
	unsigned n = 0, gap = 99;
	const char *p = t.p, *end = t.p + t.len;

	if (t.len >= 2 && p[0] == ':' && p[1] == ':') {
		gap = 0;
		p += 2;
	}
	while (p < end) {
		struct rr_text rest = { p, (uint32_t)(end - p) };
		unsigned v = 0, digits = 0;

		if (n <= 12 && memchr(p, '.', rest.len)) {
			const char *colon = memchr(p, ':', rest.len);

			if (!colon) {
				if (!address4(rest, a + n))
					return false;
				n += 4;
				break;
			}
		}
		for (; p < end && digits < 4 && hex(*p) >= 0; p++, digits++)
			v = v << 4 | (unsigned)hex(*p);
		if (!digits || n == 16)
			return false;
		a[n++] = (uint8_t)(v >> 8);
		a[n++] = (uint8_t)v;
		if (p == end)
			break;
		if (*p++ != ':' || p == end)
			return false;
		if (*p == ':') {
			if (gap != 99)
				return false;
			gap = n;
			p++;
		}
	}
	if (gap == 99)
		return n == 16;
	if (n > 14)
		return false;
	memmove(a + 16 - (n - gap), a + gap, n - gap);
	memset(a + gap, 0, 16 - n);
	return true;
}

/* Parses HOST or HOST/PREFIX. A colon tells the families apart. Without a prefix all bits
 * count. */
static const char *rule_address(struct rr_rule *r, struct rr_text t)
{
	static const char wrong[] = "not an address (allowed: IPv4 or IPv6, with /prefix for a "
				    "network)";
	const char *slash = memchr(t.p, '/', t.len);
	struct rr_text host = t, bits = t;
	uint64_t prefix;

	if (slash) {
		host.len = (uint32_t)(slash - t.p);
		bits = (struct rr_text){ slash + 1, t.len - host.len - 1 };
	}
	if (memchr(host.p, ':', host.len))
		r->family = address6(host, r->address) ? 6 : 0;
	else
		r->family = address4(host, r->address) ? 4 : 0;
	prefix = r->family == 6 ? 128 : 32;
	if (!r->family || (slash && (!rr_value_number(bits, &prefix) ||
				     prefix > (r->family == 6 ? 128 : 32))))
		return wrong;
	r->prefix = (uint8_t)prefix;
	return NULL;
}

/* Stores the value of a key that rule_keys has; returns NULL, or what is wrong. */
static const char *rule_key(struct parser *p, struct rr_text key, struct rr_text value)
{
	if (rr_text_is(key, "role"))
		return rule_role(&p->rule, value);
	if (rr_text_is(key, "port"))
		return rule_port(&p->rule, value);
	if (rr_text_is(key, "address"))
		return rule_address(&p->rule, value);
	if (rr_text_is(key, "program"))
		return rule_program(&p->rule, value);
	if (rr_text_is(key, "command"))
		return rule_command(p, value);
	if (rr_text_is(key, "native"))
		return rule_native(&p->rule, value);
	if (rr_text_is(key, "dialect"))
		return rule_dialect(&p->rule, value);
	p->has_mode = true;
	return rr_value_mode(value, &p->rule.mode) ? NULL :
	       "not a mode (allowed: auto, tcp, require)";
}

/* --- lines --- */

/* Why a rule with 'native' cannot work; NULL: it can. */
static const char *native_wrong(const struct rr_rule *r)
{
	if (r->has_program)
		return "and 'program': the first call comes too late for it";
	if (r->mode == RR_MODE_TCP)
		return "and mode 'tcp'";
	if (r->native && r->port_lo != r->port_hi)
		return "for several ports: only 'native = on' can be";
	return NULL;
}

/* Notes that the rule can never decide, for tools that check a configuration; in the library
 * nothing is said. Only rules of the same text are compared: rules from the environment are
 * meant to stand before and behind those of the file. */
static void remark_if_covered(struct parser *p)
{
	struct rr_conf *c = p->c;

	for (uint32_t i = p->before; rr_conf_listener && i < c->nrules; i++) {
		if (!p->read[i].command && rr_rule_covers(&c->rules[i], &p->rule)) {
			rr_conf_problem(c, &p->rule_at,
					"rule never counts: the one at line %u comes first and "
					"applies to all that this one does", p->read[i].line);
			return;
		}
	}
}

/* Appends the rule, which is complete and valid; there is room for it. A tool is told the rule
 * and its command separately, because struct rr_rule has no copy of the command. */
static void add_rule(struct parser *p)
{
	struct rr_conf *c = p->c;

	remark_if_covered(p);
	p->read[c->nrules].line = p->rule_at.line & INT32_MAX;
	p->read[c->nrules].command = p->command_len > 0;
	c->rules[c->nrules++] = p->rule;
	if (rr_conf_listener)
		rr_conf_listener->rule(&p->rule_at, &p->rule,
				       (struct rr_text){ p->command, p->command_len });
}

/* Ends the rule that is being read, if there is one. A rule with a mistake is left out as a
 * whole: without one of its keys it would match too much. A native rule without a port is
 * NFS's. */
static void end_rule(struct parser *p)
{
	if (p->section != SECTION_RULE || p->rule_bad)
		return;
	if (p->rule.has_native && !p->rule.has_port) {
		p->rule.has_port = true;
		p->rule.port_lo = p->rule.port_hi = RR_CONF_NFS;
	}
	if (!p->has_mode && !p->rule.has_native && !p->rule.has_dialect)
		rr_conf_problem(p->c, &p->rule_at, "rule without 'mode'; rule ignored");
	else if (p->rule.has_native && native_wrong(&p->rule))
		rr_conf_problem(p->c, &p->rule_at, "rule with 'native' %s; rule ignored",
				native_wrong(&p->rule));
	else if (p->rule.has_program && p->rule.role == 's')
		rr_conf_problem(p->c, &p->rule_at,
				"rule with 'program' for role 'server': only "
				"the client knows the program in time; rule ignored");
	else if (p->c->nrules == RR_CONF_RULES)
		rr_conf_problem(p->c, &p->rule_at, "more than %u rules; rule ignored",
				RR_CONF_RULES);
	else
		add_rule(p);
}

/* Begins a section, after the rule that the last section may hold has been ended. Keys in a
 * section of an unknown name are skipped, because nobody knows what they mean. */
static void begin_section(struct parser *p, struct rr_text name)
{
	end_rule(p);
	p->section = SECTION_UNKNOWN;
	if (!rr_text_is(name, "rule")) {
		rr_conf_problem(p->c, &p->at,
				"unknown section [%.*s] (allowed: [rule]); ignored",
				(int)rr_min(name.len, 64u), name.p);
		return;
	}
	p->section = SECTION_RULE;
	p->rule = (struct rr_rule){ 0 };
	p->rule_at = p->at;
	p->rule_bad = p->has_mode = false;
	p->command_len = 0;
	memset(p->key_line, 0, sizeof(p->key_line));
}

/* The key's index in rule_keys; -1: no such key. */
static int rule_key_at(struct rr_text key)
{
	for (int k = 0; k < RULE_KEYS; k++)
		if (rr_text_is(key, rule_keys[k]))
			return k;
	return -1;
}

/* Remembers the line of an option or key, and notes a repetition for tools. */
static void note_line(struct parser *p, const char *what, const char *name, uint32_t *line)
{
	if (*line && rr_conf_listener)
		rr_conf_problem(p->c, &p->at, "%s '%s' again, after line %u; this one counts",
				what, name, *line);
	*line = p->at.line;
}

/* Notes a key that rules do not have, with what was probably meant. The rule is left out. */
static void unknown_rule_key(struct parser *p, struct rr_text key)
{
	const char *near = rr_nearest(key, rule_keys);

	if (rr_option_find(key))
		rr_conf_problem(p->c, &p->at,
				"option '%.*s' inside a rule: options stand before "
				"the first [rule]; rule ignored", (int)key.len, key.p);
	else
		rr_conf_problem(p->c, &p->at, "unknown key '%.*s'%s%s%s (allowed: role, port, "
				"address, program, command, mode, dialect, native); rule "
				"ignored", (int)rr_min(key.len, 64u), key.p,
				near ? ", did you mean '" : "",
				near ? near : "", near ? "'?" : "");
	p->rule_bad = true;
}

/* Takes in one key of a rule. column is that of the value, for a problem with it. */
static void in_rule(struct parser *p, struct rr_text key, struct rr_text value, uint32_t column)
{
	int k = rule_key_at(key);
	const char *wrong;

	if (k < 0) {
		unknown_rule_key(p, key);
		return;
	}
	note_line(p, "key", rule_keys[k], &p->key_line[k]);
	wrong = rule_key(p, key, value);
	if (!wrong)
		return;
	p->rule_bad = true;
	p->at.column = column;
	rr_conf_problem(p->c, &p->at, "key '%.*s': '%.*s' is %s; rule ignored", (int)key.len,
			key.p, (int)rr_min(value.len, 64u), value.p, wrong);
}

/* One option; a wrong value leaves the default. */
static void in_options(struct parser *p, struct rr_text key, struct rr_text value,
		       uint32_t column)
{
	const struct rr_option *o = rr_option_find(key);
	const char *near;

	if (o) {
		note_line(p, "option", o->name, &p->option_line[o - rr_options]);
		p->at.column = column;
		rr_conf_assign(p->c, &p->at, o->name, o, value);
		return;
	}
	near = rr_option_nearest(key);
	rr_conf_problem(p->c, &p->at, "unknown option '%.*s'%s%s%s; ignored",
			(int)rr_min(key.len, 64u), key.p, near ? ", did you mean '" : "",
			near ? near : "", near ? "'?" : "");
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct rr_text trim_text(const char *from, const char *to)
{
	while (from < to && is_space(*from))
		from++;
	while (from < to && is_space(to[-1]))
		to--;
	return (struct rr_text){ from, (uint32_t)(to - from) };
}

/* Where the line's comment begins; `end` if it has none. A comment begins with a # that stands
 * outside of quotes, at the beginning of the line or after a space. So a # within a value needs
 * no quotes. */
static const char *comment(const char *line, const char *end)
{
	bool quoted = false;

	for (const char *p = line; p < end; p++) {
		if (*p == '"')
			quoted = !quoted;
		else if (*p == '#' && !quoted && (p == line || is_space(p[-1])))
			return p;
	}
	return end;
}

/* Takes one complete line apart. Quotes are taken off a value only if they enclose all of
 * it. */
static void take_line(struct parser *p)
{
	const char *end = comment(p->line, p->line + p->len), *equals;
	struct rr_text t = trim_text(p->line, end), key, value;

	if (!t.len)
		return;
	p->at.column = (uint32_t)(t.p - p->line) + 1;
	if (t.p[0] == '[' && t.p[t.len - 1] == ']') {
		begin_section(p, trim_text(t.p + 1, t.p + t.len - 1));
		return;
	}
	equals = memchr(t.p, '=', t.len);
	if (!equals || equals == t.p) {
		rr_conf_problem(p->c, &p->at, "'%.*s' is neither 'key = value' nor '[rule]'; "
				"ignored", (int)rr_min(t.len, 64u), t.p);
		return;
	}
	key = trim_text(t.p, equals);
	value = trim_text(equals + 1, t.p + t.len);
	if (value.len >= 2 && value.p[0] == '"' && value.p[value.len - 1] == '"') {
		value.p++;
		value.len -= 2;
	}
	if (p->section == SECTION_RULE)
		in_rule(p, key, value, (uint32_t)(value.p - p->line) + 1);
	else if (p->section == SECTION_OPTIONS)
		in_options(p, key, value, (uint32_t)(value.p - p->line) + 1);
}

/* A line that is too long is ignored as a whole; half of a value could mean something else. */
static void end_line(struct parser *p)
{
	p->at.column = 1;
	if (p->too_long)
		rr_conf_problem(p->c, &p->at, "line longer than %u bytes; ignored", LINE_SIZE);
	else
		take_line(p);
	p->at.line++;
	p->len = 0;
	p->too_long = false;
}

/* Takes n more bytes of the file. Lines may be split between calls. */
static void feed(struct parser *p, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] == '\n')
			end_line(p);
		else if (p->len == LINE_SIZE)
			p->too_long = true;
		else
			p->line[p->len++] = bytes[i];
	}
}

/* The last line may have no newline. */
static void end_file(struct parser *p)
{
	if (p->len)
		end_line(p);
	end_rule(p);
}

static void init_parser(struct parser *p, struct rr_conf *c, const char *path)
{
	*p = (struct parser){ .c = c, .at = { path, 1, 1 }, .section = SECTION_OPTIONS,
			      .before = c->nrules };
}

void rr_conf_bytes(struct rr_conf *c, const char *path, const char *bytes, size_t len)
{
	struct parser p;

	init_parser(&p, c, path);
	feed(&p, bytes, len);
	end_file(&p);
}

/* --- rules in the environment: separated by ';', with spaces between their keys --- */

/* One word of a rule, key=value, at p->at.column. */
static void parse_pair(struct parser *p, struct rr_text word)
{
	const char *equals = memchr(word.p, '=', word.len);
	struct rr_text key = { word.p, equals ? (uint32_t)(equals - word.p) : 0 }, value;

	if (!key.len) {
		rr_conf_problem(p->c, &p->at, "'%.*s' is not 'key=value'; rule ignored",
				(int)rr_min(word.len, 64u), word.p);
		p->rule_bad = true;
		return;
	}
	value = (struct rr_text){ equals + 1, word.len - key.len - 1 };
	in_rule(p, key, value, p->at.column + key.len + 1);
}

static bool ends_word(char c)
{
	return is_space(c) || c == ';' || c == '\n';
}

/* Each rule is a section, so that the checks and messages are those of a file. Rules are
 * separated by ';' or a newline; columns count from the beginning of the variable. */
void rr_conf_rules(struct rr_conf *c, const char *name, const char *text, size_t len)
{
	const char *end = text + len, *p = text, *word;
	struct parser ps;
	bool inside = false;

	for (init_parser(&ps, c, name); p < end; p++) {
		if (ends_word(*p)) {
			inside = inside && is_space(*p);
			continue;
		}
		ps.at.column = (uint32_t)(p - text) + 1;
		if (!inside)
			begin_section(&ps, (struct rr_text){ "rule", 4 });
		inside = true;
		for (word = p; p + 1 < end && !ends_word(p[1]); p++)
			;
		parse_pair(&ps, (struct rr_text){ word, (uint32_t)(p + 1 - word) });
	}
	end_rule(&ps);
}

/* --- files. Read by system call, because read() and close() may be the preload library's.
 * --- */

static const char no_file[] = "no such file";

/* Opens a regular file for reading. Returns its descriptor, or -1 and the reason in *wrong. */
static int open_file(const char *path, const char **wrong)
{
	struct stat st;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path,
			      O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0) {
		*wrong = errno == ENOENT ? no_file : errno == EACCES ? "permission denied" :
			 "cannot be opened";
		return -1;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	*wrong = "not a regular file";
	syscall(SYS_close, fd);
	return -1;
}

/* The size is bounded, because the path may be anything that the caller names. A problem with
 * the file as a whole has no line. */
void rr_conf_file(struct rr_conf *c, const char *path, bool must)
{
	struct rr_where nowhere = { 0 };
	struct parser p;
	const char *wrong;
	char buf[512];
	size_t total = 0;
	long n;
	int fd = open_file(path, &wrong);

	if (fd < 0) {
		if (must || strcmp(wrong, no_file))
			rr_conf_problem(c, &nowhere, "%s: %s; using defaults", path, wrong);
		return;
	}
	init_parser(&p, c, path);
	while ((n = syscall(SYS_read, fd, buf, sizeof(buf))) > 0) {
		feed(&p, buf, (size_t)n);
		total += (size_t)n;
		if (total >= FILE_SIZE) {
			rr_conf_problem(c, &nowhere,
					"%s: longer than %u bytes; the rest is ignored",
					path, FILE_SIZE);
			break;
		}
	}
	if (n < 0)
		rr_conf_problem(c, &nowhere, "%s: cannot be read (error %d)", path, errno);
	end_file(&p);
	syscall(SYS_close, fd);
}
