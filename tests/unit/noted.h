/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_NOTED_H
#define RR_TEST_NOTED_H

#include <criterion/criterion.h>

#include "preload/looks.h"
#include "preload/pollrest.h"

/* Is a look at an array that this process polls remembered, since this was last asked? */
static inline bool is_noted(void)
{
	struct rr_work w = { .n = 2, .others = 1, .listeners = 1 };
	bool was = rr_looks_last(&w);

	rr_looks_note(&w);
	cr_assert(rr_looks_last(&w));
	return was;
}

#endif
