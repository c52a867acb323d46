/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONF_INTERNAL_H
#define RR_CONF_INTERNAL_H

/* Between the files of config/: options, values, problems. */

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

/* A piece of text that is not terminated. */
struct rr_text {
	const char *p;
	uint32_t len;
};

bool rr_text_is(struct rr_text t, const char *word);		/* equal */
bool rr_text_is_nocase(struct rr_text t, const char *word);	/* word in lower case */

/* The option of that name, or NULL. */
const struct rr_option *rr_option_find(struct rr_text name);

/* Sets option o of c from text: NULL, or what is wrong with it ("not a number"). */
const char *rr_option_set(struct rr_conf *c, const struct rr_option *o, struct rr_text text);
void rr_option_default(struct rr_conf *c, const struct rr_option *o);

/* The value of o in c as it would be written, "64k": into buf; returns it. */
char *rr_option_text(const struct rr_conf *c, const struct rr_option *o, char *buf,
		     unsigned size);

/* "1k..64k", "on, off": into buf; returns it. */
char *rr_option_allowed(const struct rr_option *o, char *buf, unsigned size);

/* Unsigned number, decimal or 0x: all of t. false: it is none, or above 2^64-1. */
bool rr_value_number(struct rr_text t, uint64_t *v);
bool rr_value_mode(struct rr_text t, enum rr_mode *mode);
bool rr_value_dialect(struct rr_text t, uint8_t *dialect);

/* The name in names (NULL-terminated) nearest to t by edit distance, if it is near enough to
 * be meant; else NULL. */
const char *rr_nearest(struct rr_text t, const char *const *names);
const char *rr_option_nearest(struct rr_text t);

/* Where something stands: file and position, or the environment (file NULL). */
struct rr_where {
	const char *file;
	uint32_t line, column;
};

/* What a tool hears while a configuration is read: each value that counts and where it stands,
 * each rule that counts, with its command's pattern (empty: none), each problem. In the library
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

/* Sets option o from text, or notes what is wrong and sets the default. name: as it was
 * written. */
void rr_conf_assign(struct rr_conf *c, const struct rr_where *at, const char *name,
		    const struct rr_option *o, struct rr_text text);

/* Reads one file. must: it is a problem if it does not exist. */
void rr_conf_file(struct rr_conf *c, const char *path, bool must);
/* The same for bytes at hand; at->line is that of the first. */
void rr_conf_bytes(struct rr_conf *c, const char *path, const char *bytes, size_t len);

/* Rules as text, of the variable of that name: "key=value key=value; key=value ...". Same keys,
 * same checks and same problems as in a file. */
void rr_conf_rules(struct rr_conf *c, const char *name, const char *text, size_t len);

void rr_conf_environ(struct rr_conf *c, char **envp);

/* Do all connections that b applies to fall under a as well, commands aside? */
bool rr_rule_covers(const struct rr_rule *a, const struct rr_rule *b);

/* Is the process called so? pattern with * and ?, against argv[0]'s last part and comm. */
bool rr_conf_is_command(struct rr_text pattern);
bool rr_glob(const char *pattern, const char *end, const char *s);

#endif
