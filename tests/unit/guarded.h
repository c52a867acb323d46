/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GUARDED_H
#define GUARDED_H

/* In the place of scratch.h: memory of exactly the size that was asked for, dirty, and with a guard behind it. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"

enum { DIRT = 0xa5, GUARD = 64 };
struct piece { size_t size; void *align; unsigned char mem[]; };
static int pieces;
static bool no_memory;

static inline void *take_played(size_t size)
{
	struct piece *m = no_memory ? NULL : malloc(sizeof(*m) + size + GUARD);

	if (!m)
		return NULL;
	m->size = size;
	memset(m->mem, DIRT, size + GUARD);
	pieces++;
	return m->mem;
}

static inline void assert_within(const void *mem)
{
	const struct piece *m = container_of((unsigned char (*)[])(uintptr_t)mem, struct piece, mem);

	for (int i = 0; i < GUARD; i++)
		cr_assert_eq(m->mem[m->size + (size_t)i], DIRT, "byte %d behind the arrays was written", i);
}

static inline void give_played(void *mem)
{
	assert_within(mem);
	pieces--;
	free(container_of((unsigned char (*)[])mem, struct piece, mem));
}

#endif
