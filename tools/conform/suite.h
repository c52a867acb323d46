/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONFORM_SUITE_H
#define RR_CONFORM_SUITE_H

/* The cases of files and directories, and what is known of a peer. */

#include "tools/conform/report.h"

struct rr_suite {
	struct rr_case **c;
	uint32_t n;
};

/* Adds the case of a file, or of every *.case below a directory. False: err says why. */
bool rr_suite_add(struct rr_suite *s, const char *path, char *err, size_t cap);
void rr_suite_free(struct rr_suite *s);

/* Differences of a peer that are known: lines "CASE: REASON", CASE as in rr_case.name. A
 * failure of such a case becomes RR_DIFFERS, with the reason; a pass becomes a failure: the
 * list is not true any more. */
struct rr_known {
	struct rr_known *next;
	char *name, *reason;
};

bool rr_known_read(struct rr_known **k, const char *path, char *err, size_t cap);
void rr_known_apply(const struct rr_known *k, struct rr_result *r);
void rr_known_free(struct rr_known *k);

/* Plays all cases; results are in r, in order. NULL, or why not. */
const char *rr_suite_run(const struct rr_suite *s, const struct rr_options *o,
			 const struct rr_known *k, struct rr_report *r);

/* What a self-test came to. */
struct rr_tested {
	uint32_t lies, believed;	/* told, and of them not noticed */
	uint32_t changes;		/* of what came, each of which was noticed */
	uint32_t failed;		/* cases that fail though nobody lies: nothing is shown
					 * of those */
};

/* Shows that each case can fail: each of its expectations, in turn, is shown something else
 * than came, and the case must fail there. Against a peer that passes, but for what is known.
 * Prints what did not, to the log. */
const char *rr_suite_self_test(const struct rr_suite *s, const struct rr_options *o,
			       const struct rr_known *k, FILE *log, struct rr_tested *t);

#endif
