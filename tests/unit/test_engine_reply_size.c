/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "core/engine/reply_size.h"

static struct rr_sizes s;

Test(engine_reply_size, the_largest_reply_of_a_procedure_is_remembered)
{
	cr_assert_eq(rr_sizes_get(&s, 100003, 3, 1), 0);
	rr_sizes_seen(&s, 100003, 3, 1, 500);
	rr_sizes_seen(&s, 100003, 3, 1, 100);
	rr_sizes_seen(&s, 100003, 3, 2, 7);
	cr_assert_eq(rr_sizes_get(&s, 100003, 3, 1), 500);
	cr_assert_eq(rr_sizes_get(&s, 100003, 3, 2), 7);
	cr_assert_eq(rr_sizes_get(&s, 100003, 4, 1), 0);
}

/* RFC 8166 §4.5.3: version 1 does not say how much was needed */
Test(engine_reply_size, too_small_doubles_up_to_the_maximum_and_then_gives_up)
{
	cr_assert(rr_sizes_too_small(&s, 1, 1, 1, 4096, 10000));
	cr_assert_eq(rr_sizes_get(&s, 1, 1, 1), 8192);
	cr_assert(rr_sizes_too_small(&s, 1, 1, 1, 8192, 10000));
	cr_assert_eq(rr_sizes_get(&s, 1, 1, 1), 10000);
	cr_assert_not(rr_sizes_too_small(&s, 1, 1, 1, 10000, 10000));
}

Test(engine_reply_size, the_table_is_bounded_and_forgets)
{
	uint32_t known = 0;

	for (uint32_t i = 0; i < 100000; i++)
		rr_sizes_seen(&s, i, 1, 1, 64);
	for (uint32_t i = 0; i < 100000; i++)
		known += rr_sizes_get(&s, i, 1, 1) == 64;
	cr_assert_leq(known, RR_SIZES_SLOTS);
	cr_assert_gt(known, 0);
	cr_assert_eq(rr_sizes_get(&s, 99999, 1, 1), 64);
}

/* One that finds no free slot takes the place of one other, whose size it does not have. */
Test(engine_reply_size, one_is_forgotten_for_another)
{
	uint32_t n = 0, known;

	for (uint32_t had = 0, i = 0; i < 3 * RR_SIZES_SLOTS; i++) {
		rr_sizes_seen(&s, i, 1, 1, 10 + i);
		cr_assert_eq(rr_sizes_get(&s, i, 1, 1), 10 + i);
		known = 0;
		for (uint32_t k = 0; k <= i; k++) {
			uint32_t size = rr_sizes_get(&s, k, 1, 1);

			cr_assert(size == 0 || size == 10 + k, "%u: %u", k, size);
			known += size != 0;
		}
		cr_assert(known == had || known == had + 1, "%u of %u", known, had);
		n += known == had;
		had = known;
	}
	cr_assert_gt(n, RR_SIZES_SLOTS);
}

/* The header is reckoned at its fixed worst case: 28, and a Reply chunk of 8 segments. */
Test(engine_reply_size, the_bound_holds_to_the_byte)
{
	for (uint32_t n = 1024 - 164 - 4; n <= 1024 - 164 + 4; n++)
		cr_assert_eq(rr_reply_fits_inline(n, 1024), n <= 1024 - 164, "%u", n);
	cr_assert_not(rr_reply_fits_inline(UINT32_MAX, 1024));
}
