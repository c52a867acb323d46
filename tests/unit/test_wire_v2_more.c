/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "core/wire/chunks.h"
#include "tests/lib/bytes.h"

/* version-two-08 §9.1: a header type more is a row more, and no other line of the codec. Here one of two words, which
 * struct rr_msg has room for already. */

#define MORE	0x77u

static void get_more(struct rr_rcur *c, struct rr_msg *m)
{
	m->align = rr_get_u32(c);
	m->thresh = rr_get_u32(c);
}

static void put_more(struct rr_wcur *c, const struct rr_msg *m)
{
	rr_put_u32(c, m->align);
	rr_put_u32(c, m->thresh);
}

static uint32_t size_more(const struct rr_msg *m)
{
	(void)m;
	return 8;
}

#define RR_V2_MORE_HTYPES { MORE, RR_MSGP, get_more, put_more, size_more },
#define rr_v2_codec more_codec
#include "core/wire/v2.c"
#undef rr_v2_codec

extern const struct rr_codec rr_v2_codec;

Test(wire_v2_more, a_header_type_more_is_a_row_more)
{
	uint8_t buf[64];
	uint32_t len = WORDS(buf, 5, 2, 20, MORE, 0, 64, 1000);
	struct rr_msg m;

	cr_assert_eq(more_codec.decode(buf, len, &m), RR_WIRE_OK);
	cr_assert_eq(m.type, RR_MSGP);
	cr_assert_eq(m.align, 64);
	cr_assert_eq(m.thresh, 1000);
	cr_assert_eq(m.hdr_len, len);
	cr_assert_eq(more_codec.size(&m), len);
	memset(buf, 0, sizeof(buf));
	cr_assert_eq(more_codec.encode(&m, buf, sizeof(buf)), len);
	cr_assert_eq(rr_be32(buf + 12), MORE);
	cr_assert_eq(rr_be32(buf + 24), 1000);
	cr_assert_eq(more_codec.decode(buf, len - 1, &m), RR_WIRE_BAD_XDR);
}

Test(wire_v2_more, which_the_others_answer_by_inval_htype)
{
	uint8_t buf[64];
	uint32_t len = WORDS(buf, 5, 2, 20, MORE, 0, 64, 1000);
	struct rr_msg m;

	cr_assert_eq(rr_v2_codec.decode(buf, len, &m), RR_WIRE_BAD_HTYPE);
	cr_assert_eq(m.err, RR_ERR_INVAL_HTYPE);
	cr_assert_eq(more_codec.decode(buf, WORDS(buf, 5, 2, 20, 0x78, 0), &m), RR_WIRE_BAD_HTYPE);
}
