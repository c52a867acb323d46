/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_FUZZ_H
#define RR_TEST_FUZZ_H

/* A fuzz target is one tests/fuzz/fuzz_NAME.c with this function; mk/fuzz.mk finds it.
 * data is an exact-size heap block. Properties are checked with fuzz_check(). */

#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The first n bytes of data moved to the end of a heap block of size bytes, so that ASan
 * sees a read beyond them: for judging every prefix without a block for each. */
static inline const uint8_t *fuzz_prefix(uint8_t *block, size_t size, const uint8_t *data, size_t n)
{
	return n ? memcpy(block + size - n, data, n) : block + size;
}

#define fuzz_check(cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #cond); \
		abort(); \
	} \
} while (0)

#endif
