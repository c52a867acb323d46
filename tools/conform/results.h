/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONFORM_RESULTS_H
#define RR_CONFORM_RESULTS_H

#include "tools/conform/run.h"

enum rr_format { RR_TEXT, RR_JSON, RR_JUNIT };

struct rr_results {
	struct rr_result *result;	/* in the order of documents and sections */
	uint32_t n;
	const char *peer;		/* the peer, as it was named */
	enum rr_dialect dialect;
	bool skipped;			/* also show skipped cases */
};

/* Sorts the results by document and section. */
void rr_results_sort(struct rr_results *r);
void rr_results_print(const struct rr_results *r, enum rr_format format, FILE *to);
/* How many results have this verdict; unless level is negative, of that level only. */
uint32_t rr_results_count(const struct rr_results *r, enum rr_verdict v, int level);

#endif
