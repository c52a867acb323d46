/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/stat/figures.h"

#include <criterion/criterion.h>
#include <string.h>

Test(figures, a_number_is_rounded_to_five_characters_at_most)
{
	static const struct { uint64_t v; const char *text; } c[] = {
		{ 0, "0" }, { 99999, "99999" }, { 100000, "100k" },
		{ 999499, "999k" }, { 999500, "1.0M" }, { 999999, "1.0M" }, { 1000000, "1.0M" },
		{ 99949999, "99.9M" }, { 99950000, "100M" }, { 99999999, "100M" }, { 100000000, "100M" },
		{ 999499999, "999M" }, { 999500000, "1.0G" }, { 99949999999, "99.9G" }, { 99950000000, "100G" },
		{ UINT64_MAX, "18.4E" },
	};
	char buf[16];

	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++)
		cr_assert_str_eq(rr_fig_number(c[i].v, buf), c[i].text);
	/* Around each round number. */
	for (uint64_t round = 10; round < UINT64_MAX / 10; round *= 10)
		for (uint64_t off = 0; off < round / 1000 + 100; off += round / 100000 + 1)
			cr_assert_leq(strlen(rr_fig_number(round - off, buf)), 5, "%s of %lu", buf,
				      (unsigned long)(round - off));
}

Test(figures, a_time_is_rounded_to_no_more_digits_than_its_unit_has)
{
	static const struct { uint64_t ns; const char *text; } c[] = {
		{ 0, "-" }, { 1, "0.0us" }, { 999949, "999.9us" }, { 999950, "1.00ms" },
		{ 9994999, "9.99ms" }, { 9995000, "10ms" }, { 9999999, "10ms" }, { 10000000, "10ms" },
		{ 9999499999, "9999ms" }, { 9999500000, "10s" }, { 9999999999, "10s" }, { 10000000000, "10s" },
	};
	char buf[16];

	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++)
		cr_assert_str_eq(rr_fig_time(c[i].ns, buf), c[i].text);
}
