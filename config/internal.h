/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONF_INTERNAL_H
#define RR_CONF_INTERNAL_H

/* Shared between the files of config/: options, values, problems. */

#include "config/conf.h"

enum rr_opt_type {
	RR_OPT_BOOL, RR_OPT_COUNT, RR_OPT_AFTER, RR_OPT_SIZE, RR_OPT_US, RR_OPT_MS, RR_OPT_S,
		RR_OPT_MODE,
	RR_OPT_DIALECT, RR_OPT_PROFILE, RR_OPT_POLICY, RR_OPT_LEVEL, RR_OPT_PLACE, RR_OPT_PATH,
};

struct rr_option {
	const char *name;
	const char *def;
	enum rr_opt_type type;
	uint32_t min, max;
	uint32_t offset;	/* in struct rr_conf */
};

extern const struct rr_option rr_options[];
extern const uint32_t rr_noptions;

/* Text that is not terminated. */
struct rr_text {
	const char *p;
	uint32_t len;
};

bool rr_text_is(struct rr_text t, const char *word);		/* are they equal? */
/* The same, whatever the case of t; word is in lower case. */
bool rr_text_is_nocase(struct rr_text t, const char *word);

/* The option of that name, or NULL. */
const struct rr_option *rr_option_find(struct rr_text name);

/* Sets option o of c from text. Returns NULL, or what is wrong with the text ("not a
 * number"). */
const char *rr_option_set(struct rr_conf *c, const struct rr_option *o, struct rr_text text);
void rr_option_default(struct rr_conf *c, const struct rr_option *o);

/* Writes the value of o in c to buf as a file would have it ("64k"); returns buf. */
char *rr_option_text(const struct rr_conf *c, const struct rr_option *o, char *buf,
		     unsigned size);

/* Writes the values that o allows to buf ("1k..64k", "on, off"); returns buf. */
char *rr_option_allowed(const struct rr_option *o, char *buf, unsigned size);

/* Is t as a whole an unsigned number, decimal or 0x, of at most 2^64-1? */
bool rr_value_number(struct rr_text t, uint64_t *v);
bool rr_value_mode(struct rr_text t, enum rr_mode *mode);
bool rr_value_dialect(struct rr_text t, uint8_t *dialect);

/* The name in names (NULL-terminated) with the least edit distance to t, if it is near enough
 * to be meant; else NULL. */
const char *rr_nearest(struct rr_text t, const char *const *names);
const char *rr_option_nearest(struct rr_text t);

/* Where a setting stands: file and position, or the environment (file NULL). */
struct rr_where {
	const char *file;
	uint32_t line, column;
};

/* What a tool hears while a configuration is read: each value that counts and where it stands;
 * each rule that counts, with its command's pattern (empty: none); each problem. In the library
 * nobody listens. */
struct rr_conf_listener {
	void (*option)(const struct rr_where *at, const char *name, const struct rr_option *o);
	void (*rule)(const struct rr_where *at, const struct rr_rule *r,
		     struct rr_text command);
	void (*problem)(const char *line, unsigned len);
};
extern const struct rr_conf_listener *rr_conf_listener;

/* Notes a problem: "FILE:LINE:COLUMN: text". */
void rr_conf_problem(struct rr_conf *c, const struct rr_where *at, const char *fmt, ...)
	RR_PRINTF(3, 4);

/* Sets option o from text. If text is wrong, notes the problem and sets the default. name is
 * the option's name as it was written. */
void rr_conf_assign(struct rr_conf *c, const struct rr_where *at, const char *name,
		    const struct rr_option *o, struct rr_text text);

/* Reads one file. must: the file's absence is a problem. */
void rr_conf_file(struct rr_conf *c, const char *path, bool must);
/* The same for bytes in memory, for which path is the name. */
void rr_conf_bytes(struct rr_conf *c, const char *path, const char *bytes, size_t len);

/* Reads rules as text, from the variable of that name: "key=value key=value; key=value ...".
 * Keys, checks and problems are those of a file. */
void rr_conf_rules(struct rr_conf *c, const char *name, const char *text, size_t len);

void rr_conf_environ(struct rr_conf *c, char **envp);

/* Does a apply to all connections that b applies to, their commands aside? */
bool rr_rule_covers(const struct rr_rule *a, const struct rr_rule *b);

/* Does the pattern (with * and ?) match this process's name: the last part of argv[0], or
 * comm? */
bool rr_conf_is_command(struct rr_text pattern);
/* Does the pattern, which ends at `end`, match s? */
bool rr_glob(const char *pattern, const char *end, const char *s);

#endif
