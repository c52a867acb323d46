/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "core/wire/cmdata.h"
#include "tests/lib/bytes.h"

static struct rr_cmdata got;

static uint32_t get(const uint8_t *buf, uint32_t len)
{
	uint8_t *p = edged(buf, len);
	uint32_t at;

	memset(&got, 0xee, sizeof(got));
	at = rr_cmdata_get(p, len, &got);
	edge_back();
	return at;
}

/* RFC 8797 §5.1 */
static void expect_defaults(const uint8_t *buf, uint32_t len)
{
	cr_assert_eq(get(buf, len), 0);
	cr_assert_not(got.present);
	cr_assert_not(got.remote_inv);
	cr_assert_eq(got.send_size, 1024);
	cr_assert_eq(got.recv_size, 1024);
}

/* RFC 8797 §4: identifier, version 1, R, send size, receive size */
static const uint8_t good[8] = { 0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 7 };

/* req: rfc8797 4 #2 */
Test(wire_cmdata, says_what_the_peer_sends_and_takes)
{
	cr_assert_eq(get(good, 8), 8);
	cr_assert(got.present);
	cr_assert(got.remote_inv);
	cr_assert_eq(got.send_size, 4096);
	cr_assert_eq(got.recv_size, 8192);
}

/* req: rfc8797 4 #2 */
Test(wire_cmdata, is_written_as_it_is_read)
{
	struct rr_cmdata d;
	uint8_t b[8];

	d = (struct rr_cmdata){ .remote_inv = true, .send_size = 4096, .recv_size = 8192 };
	rr_cmdata_put(&d, b);
	cr_assert_arr_eq(b, good, 8);
	d = (struct rr_cmdata){ .send_size = 1024, .recv_size = 262144 };
	rr_cmdata_put(&d, b);
	cr_assert_arr_eq(b, ((uint8_t[]){ 0xf6, 0xab, 0x0e, 0x18, 1, 0, 0, 0xff }), 8);
}

/* RFC 8797 §4.2 */
Test(wire_cmdata, sizes_are_rounded_down_and_held_in_range)
{
	static const uint32_t rows[][2] = {
		{ 0, 1024 }, { 1, 1024 }, { 1024, 1024 }, { 2047, 1024 }, { 2048, 2048 },
		{ 4095, 3072 }, { 262143, 261120 }, { 262144, 262144 }, { 262145, 262144 },
		{ UINT32_MAX, 262144 },
	};
	uint8_t b[8];

	for (size_t i = 0; i < rr_array_size(rows); i++) {
		struct rr_cmdata d = { .send_size = rows[i][0], .recv_size = rows[i][0] };

		rr_cmdata_put(&d, b);
		cr_assert_eq(get(b, 8), 8);
		cr_assert_eq(got.send_size, rows[i][1]);
		cr_assert_eq(got.recv_size, rows[i][1]);
	}
}

/* req: rfc8166 3.3.3 #4; rfc8797 5.1 #1 */
Test(wire_cmdata, none_or_too_little_of_it_means_the_defaults)
{
	expect_defaults(good, 0);
	for (uint32_t n = 1; n < 8; n++)
		expect_defaults(good, n);
}

/* req: rfc8797 5.2 #1 */
Test(wire_cmdata, another_magic_or_version_means_the_defaults)
{
	uint8_t b[8];

	for (uint32_t bit = 0; bit < 40; bit++) {
		memcpy(b, good, 8);
		b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		expect_defaults(b, 8);
	}
}

/* RFC 8797 §4 */
/* req: rfc8797 4 #3 */
Test(wire_cmdata, reserved_flags_are_ignored)
{
	uint8_t b[8];

	memcpy(b, good, 8);
	b[5] = 0xfe;
	cr_assert_eq(get(b, 8), 8);
	cr_assert(got.present);
	cr_assert_not(got.remote_inv);
	b[5] = 0xff;
	get(b, 8);
	cr_assert(got.remote_inv);
}

/* InfiniBand pads a REQ's private data to 56 bytes; MPAv2 puts its own words in front. */
Test(wire_cmdata, padding_and_prefixes_of_any_length_are_passed_over)
{
	for (uint32_t at = 0; at <= 48; at++) {
		uint8_t b[56];

		memset(b, 0, sizeof(b));
		memcpy(b + at, good, 8);
		cr_assert_eq(get(b, sizeof(b)), at + 8);
		cr_assert_eq(got.recv_size, 8192);
		memset(b, 0xf6, at);	/* looks like the beginning */
		cr_assert_eq(get(b, sizeof(b)), at + 8);
	}
}

/* req: rfc8797 5.2 #1 */
Test(wire_cmdata, an_identifier_cut_by_the_end_is_not_found)
{
	for (uint32_t n = 0; n < 8; n++) {
		uint8_t b[16] = { 0 };

		memcpy(b + 8, good, n);
		expect_defaults(b, 8 + n);
	}
}
