/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of options: how text becomes a field of struct rr_conf and back, and what is
 * allowed. */

#include <string.h>

#include "config/internal.h"
#include "core/base/stats.h"

const struct rr_option rr_options[] = {
#define RR_SECTION(title)
#define RR_OPTION(name, type, def, min, max, help) \
	{ #name, def, RR_OPT_##type, min, max, offsetof(struct rr_conf, name) },
#include "config/options.def"
#undef RR_OPTION
#undef RR_SECTION
};
const uint32_t rr_noptions = rr_array_size(rr_options);

static const char *const mode_names[] = { "auto", "tcp", "require", NULL };
static const char *const profile_names[] = { "balanced", "latency", "thrift", NULL };
static const char *const policy_names[] = { "auto", "never", "bounded", NULL };
static const char *const place_names[] = { "file", "syslog", "journal", NULL };
static const char *const level_names[] = { "off", "error", "warn", "info", "debug", NULL };

bool rr_text_is(struct rr_text t, const char *word)
{
	return strlen(word) == t.len && !memcmp(word, t.p, t.len);
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

bool rr_text_is_nocase(struct rr_text t, const char *word)
{
	if (strlen(word) != t.len)
		return false;
	for (uint32_t i = 0; i < t.len; i++)
		if (lower(t.p[i]) != word[i])
			return false;
	return true;
}

/* Options are few and looked up at the start only, so a walk will do. */
const struct rr_option *rr_option_find(struct rr_text name)
{
	for (uint32_t i = 0; i < rr_noptions; i++)
		if (rr_text_is(name, rr_options[i].name))
			return &rr_options[i];
	return NULL;
}

/* --- numbers --- */

/* The number that *t begins with; *t is moved past it. False: there is none, or it is too
 * large. */
static bool take_digits(struct rr_text *t, uint64_t *v)
{
	unsigned base = 10, digits = 0;

	if (t->len > 2 && t->p[0] == '0' && lower(t->p[1]) == 'x') {
		base = 16;
		t->p += 2;
		t->len -= 2;
	}
	for (*v = 0; t->len; t->p++, t->len--, digits++) {
		char c = lower(*t->p);
		unsigned d = c >= '0' && c <= '9' ? (unsigned)(c - '0')
			     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 99;

		if (d >= base)
			break;
		if (__builtin_mul_overflow(*v, base, v) || __builtin_add_overflow(*v, d, v))
			return false;
	}
	return digits > 0;
}

bool rr_value_number(struct rr_text t, uint64_t *v)
{
	return take_digits(&t, v) && !t.len;
}

/* A suffix and what it multiplies by. A list of units ends with NULL, and the smallest comes
 * first. */
struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{ "", 1 }, { "k", 1 << 10 }, { "m", 1 << 20 }, { "g", 1 << 30 }, { NULL, 0 },
};
static const struct unit time_units[] = {
	{ "ns", 1 }, { "us", RR_USEC }, { "ms", RR_MSEC }, { "s", RR_SEC }, { NULL, 0 },
};

/* Parses a number with a unit, perhaps with blanks between the two; bare is the factor of a
 * number without a unit. False: t is no such number, or the product does not fit into 64
 * bits. */
static bool value_units(struct rr_text t, const struct unit *u, uint64_t bare, uint64_t *v)
{
	if (!take_digits(&t, v))
		return false;
	while (t.len && *t.p == ' ') {
		t.p++;
		t.len--;
	}
	if (!t.len)
		return !__builtin_mul_overflow(*v, bare, v);
	for (; u->name; u++)
		if (rr_text_is_nocase(t, u->name))
			return !__builtin_mul_overflow(*v, u->factor, v);
	return false;
}

/* The unit of an option's numbers without a suffix, and of its bounds, in ns. */
static uint64_t time_factor(enum rr_opt_type type)
{
	return type == RR_OPT_US ? RR_USEC : type == RR_OPT_MS ? RR_MSEC : RR_SEC;
}

/* --- names of values --- */

/* The index of t in names, whatever its case; -1: it is none of them. */
static int word_index(struct rr_text t, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (rr_text_is_nocase(t, names[i]))
			return i;
	return -1;
}

bool rr_value_mode(struct rr_text t, enum rr_mode *mode)
{
	int i = word_index(t, mode_names);

	if (i < 0)
		return false;
	*mode = (enum rr_mode)i;
	return true;
}

bool rr_value_dialect(struct rr_text t, uint8_t *dialect)
{
	int i = word_index(t, rr_dialect_names);

	if (i < 0)
		return false;
	*dialect = (uint8_t)i;
	return true;
}

/* Words for off and on alternate, so the lowest bit of the index is the value. */
static bool value_bool(struct rr_text t, bool *v)
{
	static const char *const names[] = { "off", "on", "no", "yes", "false", "true", "0",
					     "1", NULL };
	int i = word_index(t, names);

	if (i < 0)
		return false;
	*v = i & 1;
	return true;
}

/* --- options --- */

/* The names of an enumeration's values; NULL: the type is no enumeration. */
static const char *const *words_of(enum rr_opt_type type)
{
	return type == RR_OPT_MODE ? mode_names : type == RR_OPT_DIALECT ? rr_dialect_names :
	       type == RR_OPT_PROFILE ? profile_names : type == RR_OPT_POLICY ? policy_names :
	       type == RR_OPT_LEVEL ? level_names : type == RR_OPT_PLACE ? place_names : NULL;
}

/* The names stand in the order of the enumeration, whose fields all have the size of int. */
static const char *set_word(void *field, enum rr_opt_type type, struct rr_text t)
{
	int i = word_index(t, words_of(type));

	if (i < 0)
		return type == RR_OPT_MODE ? "not a mode" :
		       type == RR_OPT_DIALECT ? "not a dialect" :
		       type == RR_OPT_PROFILE ? "not a profile" :
			       type == RR_OPT_POLICY ? "not a policy" :
		       type == RR_OPT_PLACE ? "not a place" : "not a level";
	memcpy(field, &i, sizeof(i));
	return NULL;
}

static bool is_count(const struct rr_option *o)
{
	return o->type == RR_OPT_COUNT || o->type == RR_OPT_AFTER;
}

/* req: rfc8166 3.3.3 #3 */
static const char *set_number_option(void *field, const struct rr_option *o, struct rr_text t)
{
	uint64_t v, unit = 1;
	bool ok;

	if (o->type == RR_OPT_AFTER && rr_text_is_nocase(t, "auto")) {
		*(uint32_t *)field = UINT32_MAX;
		return NULL;
	}
	if (is_count(o)) {
		ok = rr_value_number(t, &v);
	} else if (o->type == RR_OPT_SIZE) {
		ok = value_units(t, size_units, 1, &v);
	} else {
		unit = time_factor(o->type);
		ok = value_units(t, time_units, unit, &v);
	}
	if (!ok)
		return is_count(o) ? "not a number" :
		       o->type == RR_OPT_SIZE ? "not a size" : "not a time";
	if (v < o->min * unit || v > o->max * unit)
		return "not in range";
	if (is_count(o) || o->type == RR_OPT_SIZE)
		*(uint32_t *)field = (uint32_t)v;
	else
		*(rr_time *)field = v;
	return NULL;
}

/* Relative paths are refused: a daemon that changes its directory would give them another
 * meaning. */
static const char *set_path(char *field, const struct rr_option *o, struct rr_text t)
{
	bool word = !strcmp(o->name, "log_file") && rr_text_is(t, "stderr");

	if (t.len && t.p[0] != '/' && !word)
		return "not an absolute path";
	if (t.len >= RR_CONF_TEXT)
		return "not short enough";
	if (memchr(t.p, '\0', t.len))
		return "not a path";
	if (t.len)
		memcpy(field, t.p, t.len);
	field[t.len] = '\0';
	return NULL;
}

const char *rr_option_set(struct rr_conf *c, const struct rr_option *o, struct rr_text t)
{
	void *field = (char *)c + o->offset;

	switch (o->type) {
	case RR_OPT_BOOL:
		return value_bool(t, field) ? NULL : "not on or off";
	case RR_OPT_MODE: case RR_OPT_DIALECT: case RR_OPT_PROFILE: case RR_OPT_POLICY:
	case RR_OPT_LEVEL: case RR_OPT_PLACE:
		return set_word(field, o->type, t);
	case RR_OPT_PATH:
		return set_path(field, o, t);
	default:
		return set_number_option(field, o, t);
	}
}

void rr_option_default(struct rr_conf *c, const struct rr_option *o)
{
	rr_option_set(c, o, (struct rr_text){ o->def, (uint32_t)strlen(o->def) });
}

/* Writes v in the largest unit of which it is a whole number; returns the length. */
static unsigned put_size(char *buf, unsigned size, uint32_t v)
{
	if (v && !(v % (1 << 30)))
		return rr_fmt(buf, size, "%ug", v >> 30);
	if (v && !(v % (1 << 20)))
		return rr_fmt(buf, size, "%um", v >> 20);
	if (v && !(v % (1 << 10)))
		return rr_fmt(buf, size, "%uk", v >> 10);
	return rr_fmt(buf, size, "%u", v);
}

/* The names, separated by commas. */
static void put_words(char *buf, unsigned size, const char *const *names)
{
	unsigned n = 0;

	for (; *names; names++)
		n += rr_fmt(buf + n, size - n, n ? ", %s" : "%s", *names);
}

char *rr_option_allowed(const struct rr_option *o, char *buf, unsigned size)
{
	unsigned n;

	switch (o->type) {
	case RR_OPT_BOOL:
		rr_fmt(buf, size, "on, off");
		break;
	case RR_OPT_MODE: case RR_OPT_DIALECT: case RR_OPT_PROFILE: case RR_OPT_POLICY:
	case RR_OPT_LEVEL: case RR_OPT_PLACE:
		put_words(buf, size, words_of(o->type));
		break;
	case RR_OPT_PATH:
		rr_fmt(buf, size, "a path from /, of at most %u bytes%s", RR_CONF_TEXT - 1,
		       strcmp(o->name, "log_file") ? "" : ", or stderr");
		break;
	case RR_OPT_COUNT:
		rr_fmt(buf, size, o->min > 65536 ? "0x%x..0x%x" : "%u..%u", o->min, o->max);
		break;
	case RR_OPT_AFTER:
		rr_fmt(buf, size, "auto, %u..%u", o->min, o->max);
		break;
	case RR_OPT_SIZE:
		n = put_size(buf, size, o->min);
		n += rr_fmt(buf + n, size - n, "..");
		put_size(buf + n, size - n, o->max);
		break;
	default:
		rr_fmt(buf, size, "%u..%u %s", o->min, o->max,
		       o->type == RR_OPT_US ? "us" : o->type == RR_OPT_MS ? "ms" : "s");
	}
	return buf;
}

/* v in the largest unit of which it is a whole number: 1500us, 2ms, 0. */
static void format_time(char *buf, unsigned size, rr_time v)
{
	const struct unit *u = &time_units[3];

	while (v % u->factor)
		u--;
	rr_fmt(buf, size, v ? "%lu%s" : "%lu", (unsigned long)(v / u->factor), u->name);
}

/* The text is such that rr_option_set() makes the same value of it. */
char *rr_option_text(const struct rr_conf *c, const struct rr_option *o, char *buf,
		     unsigned size)
{
	const void *field = (const char *)c + o->offset;
	uint32_t n;

	if (o->type == RR_OPT_PATH) {
		rr_fmt(buf, size, "%s", (const char *)field);
	} else if (o->type == RR_OPT_BOOL) {
		rr_fmt(buf, size, "%s", *(const bool *)field ? "on" : "off");
	} else if (o->type == RR_OPT_US || o->type == RR_OPT_MS || o->type == RR_OPT_S) {
		format_time(buf, size, *(const rr_time *)field);
	} else {
		memcpy(&n, field, sizeof(n));
		if (words_of(o->type))
			rr_fmt(buf, size, "%s", words_of(o->type)[n]);
		else if (o->type == RR_OPT_SIZE)
			put_size(buf, size, n);
		else if (o->type == RR_OPT_AFTER && n > o->max)
			rr_fmt(buf, size, "auto");
		else
			rr_fmt(buf, size, o->min > 65536 ? "0x%x" : "%u", n);
	}
	return buf;
}

/* --- the name that was probably meant --- */

#define NAME_MAX_LEN 32u

/* The edit distance (Levenshtein) between a and b, upper and lower case alike. b has at most
 * NAME_MAX_LEN characters. One row of the usual table is kept: row[j] is the distance between
 * what was seen of a and the first j characters of b. */
static uint32_t name_distance(struct rr_text a, const char *b)
{
	uint32_t row[NAME_MAX_LEN + 1] = { 0 }, nb = (uint32_t)strlen(b);

	for (uint32_t j = 0; j <= nb; j++)
		row[j] = j;
	for (uint32_t i = 0; i < a.len; i++) {
		uint32_t diagonal = row[0];

		row[0] = i + 1;
		for (uint32_t j = 0; j < nb; j++) {
			uint32_t change = diagonal + (lower(a.p[i]) != b[j]);

			diagonal = row[j + 1];
			row[j + 1] = rr_min(change, rr_min(diagonal, row[j]) + 1);
		}
	}
	return row[nb];
}

/* Makes name the best if it is nearer than *least. */
static void nearer(struct rr_text t, const char *name, const char **best, uint32_t *least)
{
	uint32_t d;

	if (t.len > NAME_MAX_LEN || strlen(name) > NAME_MAX_LEN)
		return;
	d = name_distance(t, name);
	if (d < *least) {
		*least = d;
		*best = name;
	}
}

/* Longer names may differ in more letters: up to a third of them, and one more. */
const char *rr_nearest(struct rr_text t, const char *const *names)
{
	uint32_t least = t.len / 3 + 2;
	const char *best = NULL;

	for (; *names; names++)
		nearer(t, *names, &best, &least);
	return best;
}

const char *rr_option_nearest(struct rr_text t)
{
	uint32_t least = t.len / 3 + 2;
	const char *best = NULL;

	for (uint32_t i = 0; i < rr_noptions; i++)
		nearer(t, rr_options[i].name, &best, &least);
	return best;
}
