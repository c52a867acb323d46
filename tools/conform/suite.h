/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONFORM_SUITE_H
#define RR_CONFORM_SUITE_H

/* Cases from files and directories, and what is known about a peer. */

#include "tools/conform/results.h"

struct rr_suite {
	struct rr_case **c;
	uint32_t n;
};

/* Adds the case of a file, or of each *.case below a directory. False: err says why. */
bool rr_suite_add(struct rr_suite *s, const char *path, char *err, size_t cap);
void rr_suite_free(struct rr_suite *s);

/* Known differences of a peer: lines "CASE: REASON", with CASE as in rr_case.name. If such a
 * case fails, it becomes RR_DIFFERS with the reason. If it passes, that is a failure: the list
 * is no longer true. */
struct rr_known {
	struct rr_known *next;
	char *name, *reason;
};

bool rr_known_read(struct rr_known **k, const char *path, char *err, size_t cap);
void rr_known_apply(const struct rr_known *k, struct rr_result *r);
void rr_known_free(struct rr_known *k);

/* Plays all cases; their results are in r, in order. Returns NULL, or why not. */
const char *rr_suite_run(const struct rr_suite *s, const struct rr_options *o,
			 const struct rr_known *k, struct rr_results *r);

/* What a self-test has come to. */
struct rr_tested {
	uint32_t lies, believed;	/* lies told, and those that were not noticed */
	uint32_t changes;		/* changes of what came, each of which was noticed */
	uint32_t failed;		/* cases that fail though nobody lies, which shows
					 * nothing */
};

/* Shows that each case can fail. Each of its expectations in turn is shown something else than
 * what came, and the case must fail there. The peer must pass, but for known differences. What
 * goes unnoticed is printed to the log. */
const char *rr_suite_self_test(const struct rr_suite *s, const struct rr_options *o,
			       const struct rr_known *k, FILE *log, struct rr_tested *t);

#endif
