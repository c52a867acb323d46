/* SPDX-License-Identifier: BSD-3-Clause */
/* Transport properties, version-two-08 §4. */
#include <criterion/criterion.h>

#include "core/wire/props.h"
#include "tests/lib/bytes.h"

static struct rr_props props;	/* what decode() found */
static uint32_t used;		/* bytes */

/* Decodes an exact-size copy of buf[0..len) into props. */
static enum rr_wire_rc decode(const uint8_t *buf, uint32_t len)
{
	uint8_t *p = edged(buf, len);
	struct rr_rcur c;

	memset(&props, 0xee, sizeof(props));
	rr_rcur_init(&c, p, len);
	rr_props_get(&c, &props);
	used = (uint32_t)(c.p - p);
	edge_back();
	return c.rc;
}

#define DECODE(...) ({ uint8_t b_[1024]; decode(b_, WORDS(b_, __VA_ARGS__)); })

static void expect_defaults(void)
{
	cr_assert_eq(props.value[RR_PROP_RBSIZ], 4096);
	cr_assert_eq(props.value[RR_PROP_BRS], RR_RVREQSUP_INLINE);
	cr_assert_eq(props.value[RR_PROP_DONE], 0);
}

Test(wire_props, an_empty_set_means_the_defaults)
{
	cr_assert_eq(DECODE(0), RR_WIRE_OK);
	cr_assert_eq(props.given, 0);
	expect_defaults();
}

Test(wire_props, data_of_no_length_is_the_default_and_counts_as_given)
{
	cr_assert_eq(DECODE(3, 2, 0, 1, 0, 0x52444d01, 0), RR_WIRE_OK);
	cr_assert_eq(props.given, 1 << RR_PROP_RBSIZ | 1 << RR_PROP_BRS | 1 << RR_PROP_DONE);
	expect_defaults();
}

Test(wire_props, values_come_in_any_order)
{
	cr_assert_eq(DECODE(3, 0x52444d01, 4, 1, 2, 4, 2, 1, 4, 65536), RR_WIRE_OK);
	cr_assert_eq(props.value[RR_PROP_RBSIZ], 65536);
	cr_assert_eq(props.value[RR_PROP_BRS], RR_RVREQSUP_GENL);
	cr_assert_eq(props.value[RR_PROP_DONE], 1);
	cr_assert_eq(used, 4 + 3 * 12);
}

Test(wire_props, of_one_that_comes_twice_the_later_counts)
{
	cr_assert_eq(DECODE(2, 1, 4, 1024, 1, 4, 2048), RR_WIRE_OK);
	cr_assert_eq(props.value[RR_PROP_RBSIZ], 2048);
}

Test(wire_props, unknown_ones_are_skipped_without_error)
{
	cr_assert_eq(DECODE(3, 99, 0, 0xffffffff, 12, 7, 8, 9, 1, 4, 8192), RR_WIRE_OK);
	cr_assert_eq(props.unknown, 2);
	cr_assert_eq(props.given, 1 << RR_PROP_RBSIZ);
	cr_assert_eq(props.value[RR_PROP_RBSIZ], 8192);
}

/* RFC 4506 §4.10: what fills up to four is not looked at */
Test(wire_props, unknown_data_is_skipped_with_what_fills_it_up)
{
	for (uint32_t len = 5; len <= 8; len++) {
		cr_assert_eq(DECODE(2, 99, len, 7, 0x0000ffff, 1, 4, 8192), RR_WIRE_OK);
		cr_assert_eq(props.value[RR_PROP_RBSIZ], 8192);
	}
}

/* req: version-two-08 4.1 #2 */
Test(wire_props, a_known_one_has_the_length_of_its_type)
{
	for (uint32_t id = 1; id <= 2; id++)
		for (uint32_t len = 1; len <= 8; len++)
			cr_assert_eq(DECODE(1, id, len, 1, 1) == RR_WIRE_OK, len == 4);
}

/* req: version-two-08 4.1 #2 */
Test(wire_props, a_value_that_its_type_does_not_have_is_refused)
{
	cr_assert_eq(DECODE(1, 2, 4, 2), RR_WIRE_OK);
	cr_assert_eq(DECODE(1, 2, 4, 3), RR_WIRE_BAD_XDR);
	cr_assert_eq(DECODE(1, 2, 4, 0xffffffff), RR_WIRE_BAD_XDR);
	cr_assert_eq(DECODE(1, 0x52444d01, 4, 1), RR_WIRE_OK);
	cr_assert_eq(DECODE(1, 0x52444d01, 4, 2), RR_WIRE_BAD_XDR);
	cr_assert_eq(DECODE(1, 1, 4, 0), RR_WIRE_OK);
	cr_assert_eq(DECODE(1, 1, 4, 0xffffffff), RR_WIRE_OK);
}

Test(wire_props, a_count_beyond_the_message_is_refused)
{
	cr_assert_eq(DECODE(1), RR_WIRE_BAD_XDR);
	cr_assert_eq(DECODE(2, 1, 4, 1), RR_WIRE_BAD_XDR);
	cr_assert_eq(DECODE(0xffffffff, 1, 4, 1), RR_WIRE_BAD_XDR);
	cr_assert_eq(DECODE(0x20000001, 1, 4, 1), RR_WIRE_BAD_XDR);
}

/* req: version-two-08 4.1 #2 */
Test(wire_props, data_beyond_the_message_is_refused)
{
	static const uint32_t lens[] = { 5, 8, 9, 0x7fffffff, 0xfffffffd, 0xffffffff };

	for (size_t i = 0; i < rr_array_size(lens); i++) {
		cr_assert_eq(DECODE(1, 99, lens[i], 7), RR_WIRE_BAD_XDR);
		cr_assert_eq(DECODE(1, 1, lens[i], 7), RR_WIRE_BAD_XDR);
	}
}

Test(wire_props, a_set_cut_anywhere_is_never_whole)
{
	uint8_t buf[64];
	uint32_t len = WORDS(buf, 3, 1, 4, 8192, 99, 6, 7, 8, 2, 4, 1);

	cr_assert_eq(decode(buf, len), RR_WIRE_OK);
	for (uint32_t n = 0; n < len; n++)
		cr_assert_eq(decode(buf, n), RR_WIRE_BAD_XDR);
}

Test(wire_props, what_is_given_is_encoded_in_the_order_of_the_table)
{
	uint8_t buf[64], want[64];
	struct rr_wcur c;
	uint32_t len = WORDS(want, 2, 1, 4, 1024, 0x52444d01, 4, 1);

	rr_props_init(&props);
	rr_props_set(&props, RR_PROP_DONE, 1);
	rr_props_set(&props, RR_PROP_RBSIZ, 1024);
	rr_wcur_init(&c, buf, sizeof(buf));
	rr_props_put(&c, &props);
	cr_assert_eq(c.p - buf, len);
	cr_assert_eq(rr_props_size(&props), len);
	cr_assert_arr_eq(buf, want, len);
}

/* --- subsets --- */

static enum rr_wire_rc subset(const uint8_t *buf, uint32_t len, struct rr_propsubset *s)
{
	uint8_t *p = edged(buf, len);
	struct rr_rcur c;

	memset(s, 0xee, sizeof(*s));
	rr_rcur_init(&c, p, len);
	rr_propsubset_get(&c, s);
	edge_back();
	return c.rc;
}

/* §4.1: bit N mod 32 of word N div 32 */
Test(wire_props, a_subset_is_bits_by_place)
{
	uint8_t buf[32];
	uint32_t len = WORDS(buf, 2, 1u << 3, 1u << 31 | 1);
	struct rr_propsubset s;

	cr_assert_eq(subset(buf, len, &s), RR_WIRE_OK);
	for (uint32_t n = 0; n < 300; n++)
		cr_assert_eq(rr_propsubset_has(&s, n), n == 3 || n == 32 || n == 63, "%u", n);
	cr_assert_not(rr_propsubset_has(&s, UINT32_MAX));
	for (uint32_t n = 0; n < len; n++)
		cr_assert_eq(subset(buf, n, &s), RR_WIRE_BAD_XDR);
}

Test(wire_props, a_subset_has_a_limit)
{
	uint8_t buf[64], again[64];
	struct rr_propsubset s;
	struct rr_wcur c;

	cr_assert_eq(subset(buf, WORDS(buf, 5, 0, 0, 0, 0, 0), &s), RR_WIRE_TOO_MANY);
	cr_assert_eq(subset(buf, WORDS(buf, 0xffffffff, 0), &s), RR_WIRE_BAD_XDR);
	for (uint32_t n = 5; n <= 16; n++)	/* of which four are there */
		cr_assert_eq(subset(buf, WORDS(buf, n, 0, 0, 0, 0), &s), RR_WIRE_BAD_XDR, "%u", n);
	cr_assert_eq(subset(buf, WORDS(buf, 4, 1, 2, 3, 4), &s), RR_WIRE_OK);
	rr_wcur_init(&c, again, sizeof(again));
	rr_propsubset_put(&c, &s);
	cr_assert_eq(c.p - again, 20);
	cr_assert_arr_eq(again, buf, 20);
}
