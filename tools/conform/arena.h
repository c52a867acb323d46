/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONFORM_ARENA_H
#define RR_CONFORM_ARENA_H

/* Memory that is freed all at once. Out of memory, the program ends. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct rr_arena {
	void **block;
	uint32_t n, room;
};

/* Memory of n bytes, zeroed. */
void *rr_arena_get(struct rr_arena *a, size_t n);
char *rr_arena_text(struct rr_arena *a, const char *s, size_t n);
void rr_arena_free(struct rr_arena *a);

#endif
