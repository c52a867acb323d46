/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is freed all at once. A case and the variables of a run each have an arena, so
 * that nothing that is parsed or bound has to be freed piece by piece. Each piece is an
 * allocation of its own: a sanitizer then sees a read beyond its end. */

#include "tools/conform/arena.h"

#include <err.h>

void *rr_arena_get(struct rr_arena *a, size_t n)
{
	if (a->n == a->room) {
		a->room = 2 * a->room + 16;
		a->block = reallocarray(a->block, a->room, sizeof(*a->block));
		if (!a->block)
			err(3, NULL);
	}
	a->block[a->n] = calloc(1, n);
	if (!a->block[a->n])
		err(3, NULL);
	return a->block[a->n++];
}

/* A copy of s[0..n) with a NUL behind it, which s need not have. */
char *rr_arena_text(struct rr_arena *a, const char *s, size_t n)
{
	char *t = rr_arena_get(a, n + 1);

	memcpy(t, s, n);
	return t;
}

void rr_arena_free(struct rr_arena *a)
{
	while (a->n)
		free(a->block[--a->n]);
	free(a->block);
	*a = (struct rr_arena){ 0 };
}
