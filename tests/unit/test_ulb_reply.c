/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/ulb_msg.h"

static struct msg m;

#define V3_READ		6u
#define V3_READLINK	5u

static struct rr_ulb_rec rec_of(uint32_t vers, uint32_t proc)
{
	begin_call(&m, NFS, vers, proc);
	add_words(&m, 40);
	if (vers == 4) {
		m.n = 40;
		W(&m, 0, 0, 0);
	}
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert(call.rec.reduce);
	return call.rec;
}

static struct rr_ulb_rec rec_of_vector(const struct vector *v)
{
	from_vector(&m, v);
	cr_assert_eq(look_part(&m, m.n, v->len, 0), RR_ULB_OK);
	return call.rec;
}

/* --- messages as they were ------------------------------------------------------------- */

static void one_item(const struct vector *c, const struct vector *r, uint32_t pos, uint32_t len)
{
	struct rr_ulb_rec rec = rec_of_vector(c);
	uint32_t max = call.reply_max, rest = call.reply_rest;
	uint8_t *p;
	struct rr_ulb_view v;

	from_vector(&m, r);
	p = edged(m.b, m.n);
	v = (struct rr_ulb_view){ .buf = p, .have = m.n, .len = r->len };
	cr_assert_eq(rr_ulb_reply(&rec, &v, &reply), RR_ULB_OK);
	edge_back();
	cr_assert_eq(reply.nitems, 1);
	is_item(&reply.items[0], pos, len);
	cr_assert_eq(reply.items[0].chunk, RR_ULB_INLINE);
	cr_assert_eq(reply.len, r->len);
	cr_assert_leq(r->len, max);
	cr_assert_leq(r->len - rr_align(len, 4u), rest);
}

Test(ulb_reply, the_data_of_a_read_is_found)
{
	one_item(&v3_read_call, &v3_read_reply, 128, 13);
	one_item(&v40_read_call, &v40_read_reply, 60, 13);
	one_item(&v41_read_call, &v41_read_reply, 104, 100000);
}

Test(ulb_reply, the_path_of_a_readlink_is_found)
{
	one_item(&v3_readlink_call, &v3_readlink_reply, 120, 14);
	one_item(&v40_readlink_call, &v40_readlink_reply, 176, 14);
}

/* req: rfc8166 3.4.2 #1 */
Test(ulb_reply, other_replies_are_walked_and_have_nothing_and_stay_within_their_bounds)
{
	static const struct vector *const pairs[][2] = {
		{ &v3_write_call, &v3_write_reply }, { &v3_symlink_call, &v3_symlink_reply },
		{ &v3_readdirplus_call, &v3_readdirplus_reply }, { &v40_write_call, &v40_write_reply },
		{ &v40_symlink_call, &v40_symlink_reply }, { &v41_open_call, &v41_open_reply },
		{ &v41_exchange_id_call, &v41_exchange_id_reply },
		{ &v41_create_session_call, &v41_create_session_reply },
		{ &v41_write_call, &v41_write_reply },
	};

	for (uint32_t i = 0; i < rr_array_size(pairs); i++) {
		struct rr_ulb_rec rec = rec_of_vector(pairs[i][0]);

		cr_assert_leq(pairs[i][1]->len, call.reply_max, "%u", i);
		if (pairs[i][1]->n * 4 != pairs[i][1]->len)
			continue;
		from_vector(&m, pairs[i][1]);
		cr_assert_eq(look_reply(&rec, &m, NULL, 0), RR_ULB_OK, "%u", i);
		cr_assert_eq(reply.nitems, 0);
		m.n -= 4;		/* so it is walked to its end */
		cr_assert_eq(look_reply(&rec, &m, NULL, 0), RR_ULB_NONE, "%u", i);
	}
}

/* --- version 3 --------------------------------------------------------------------------- */

/* Position of the data. */
static uint32_t v3_read_reply_of(uint32_t len, uint32_t verf, bool attributes)
{
	begin_reply(&m, verf);
	W(&m, 0, attributes);
	add_words(&m, attributes ? 21 : 0);
	W(&m, len, 1);
	add_opaque(&m, len);
	return m.n - rr_align(len, 4u);
}

Test(ulb_reply, verifiers_and_absent_attributes_move_the_data)
{
	struct rr_ulb_rec rec = rec_of(3, V3_READ);

	for (uint32_t verf = 0; verf <= 404; verf++) {
		uint32_t pos = v3_read_reply_of(100, verf, verf & 1);
		enum rr_ulb_rc rc = look_reply(&rec, &m, NULL, 0);

		cr_assert_eq(rc, verf <= 400 ? RR_ULB_OK : RR_ULB_NONE, "%u", verf);
		if (verf <= 400)
			is_item(&reply.items[0], pos, 100);
	}
}

static enum rr_ulb_rc reduced_read(uint32_t len, uint32_t written)
{
	struct rr_ulb_rec rec = rec_of(3, V3_READ);
	uint32_t pos = v3_read_reply_of(len, 0, true);
	struct rr_ulb_chunk c = { 0, written };

	if (written)
		cut(&m, pos, rr_align(len, 4u));
	return look_reply(&rec, &m, &c, 1);
}

Test(ulb_reply, a_write_chunk_holds_the_data_without_padding)
{
	static const uint32_t lens[] = { 1, 2, 3, 4, 4095, 4096, 4097 };

	for (uint32_t i = 0; i < rr_array_size(lens); i++) {
		cr_assert_eq(reduced_read(lens[i], lens[i]), RR_ULB_OK);
		cr_assert_eq(reply.nitems, 1);
		is_item(&reply.items[0], 24 + 4 + 88 + 12, lens[i]);
		cr_assert(reply.items[0].placed);
		cr_assert_eq(reply.items[0].chunk, 0);
		cr_assert_eq(reply.len, 128 + rr_align(lens[i], 4u));
		cr_assert_eq(reduced_read(lens[i], lens[i] + 1), RR_ULB_VIOLATION);
		if (lens[i] > 1)
			cr_assert_eq(reduced_read(lens[i], lens[i] - 1), RR_ULB_VIOLATION);
	}
}

Test(ulb_reply, data_in_the_stream_although_there_was_a_chunk_is_told)
{
	cr_assert_eq(reduced_read(100, 0), RR_ULB_OK);
	cr_assert_eq(reply.nitems, 1);
	cr_assert_eq(reply.items[0].chunk, 0);
	cr_assert_not(reply.items[0].placed);
	cr_assert_eq(reply.items[0].len, 100);
}

Test(ulb_reply, a_read_of_no_bytes_leaves_its_chunk_unused)
{
	cr_assert_eq(reduced_read(0, 0), RR_ULB_OK);
	cr_assert_eq(reply.items[0].len, 0);
	cr_assert_eq(reduced_read(0, 8), RR_ULB_VIOLATION);
}

Test(ulb_reply, an_error_has_no_item_and_leaves_its_chunk_unused)
{
	struct rr_ulb_rec rec = rec_of(3, V3_READ);
	struct rr_ulb_chunk c = { 0, 0 };

	begin_reply(&m, 0);
	W(&m, 5, 0);
	cr_assert_eq(look_reply(&rec, &m, &c, 1), RR_ULB_OK);
	cr_assert_eq(reply.nitems, 0);
	c.len = 4;
	cr_assert_eq(look_reply(&rec, &m, &c, 1), RR_ULB_VIOLATION);
}

Test(ulb_reply, a_reply_without_results_has_no_item)
{
	struct rr_ulb_rec rec = rec_of(3, V3_READ);
	struct rr_ulb_chunk c = { 0, 8 };
	static const uint32_t replies[][6] = {
		{ 7, 1, 1, 0, 2, 2 },		/* denied */
		{ 7, 1, 0, 0, 0, 1 },		/* PROG_UNAVAIL */
		{ 7, 1, 0, 0, 0, 4 },		/* GARBAGE_ARGS */
		{ 7, 1, 2, 0, 0, 0 },		/* neither accepted nor denied */
		{ 7, 0, 0, 0, 0, 0 },		/* a call */
	};

	for (uint32_t i = 0; i < rr_array_size(replies); i++) {
		m.n = put_words(m.b, replies[i], 6);
		W(&m, 0, 0, 8, 1);	/* what would be the result of a READ */
		add_opaque(&m, 8);
		cr_assert_eq(look_reply(&rec, &m, NULL, 0), RR_ULB_OK);
		cr_assert_eq(reply.nitems, 0);
		cr_assert_eq(look_reply(&rec, &m, &c, 1), RR_ULB_VIOLATION);
	}
}

Test(ulb_reply, a_reply_cut_anywhere_has_no_item)
{
	struct rr_ulb_rec rec = rec_of(3, V3_READ);
	uint32_t len;

	v3_read_reply_of(8, 0, true);
	len = m.n;
	for (m.n = 0; m.n < len; m.n++) {
		look_reply(&rec, &m, NULL, 0);
		cr_assert_eq(reply.nitems, 0, "%u", m.n);
	}
}

/* req: rfc8166 6.1 #1 */
Test(ulb_reply, without_a_binding_or_under_gss_services_nothing_is_eligible)
{
	struct rr_ulb_rec rec = rec_of(3, V3_READ), none = { 0 };
	struct rr_ulb_chunk c = { 0, 8 };

	v3_read_reply_of(8, 0, true);
	cr_assert_eq(look_reply(&none, &m, NULL, 0), RR_ULB_NONE);
	cr_assert_eq(look_reply(&none, &m, &c, 1), RR_ULB_VIOLATION);
	rec.reduce = false;
	cr_assert_eq(look_reply(&rec, &m, NULL, 0), RR_ULB_NONE);
	cr_assert_eq(look_reply(&rec, &m, &c, 1), RR_ULB_VIOLATION);
	rec.binding = 255;
	rec.reduce = true;
	cr_assert_eq(look_reply(&rec, &m, NULL, 0), RR_ULB_NONE);
	cr_assert_eq(reply.nitems, 0);
}

/* --- version 2 --------------------------------------------------------------------------- */

Test(ulb_reply, v2_read_and_readlink)
{
	struct rr_ulb_rec rec = rec_of(2, 6);

	begin_reply(&m, 0);
	W(&m, 0);
	add_words(&m, 17);
	add_opaque(&m, 6);
	cr_assert_eq(look_reply(&rec, &m, NULL, 0), RR_ULB_OK);
	is_item(&reply.items[0], 24 + 4 + 68 + 4, 6);
	rec = rec_of(2, 5);
	begin_reply(&m, 0);
	W(&m, 0);
	add_opaque(&m, 9);
	cr_assert_eq(look_reply(&rec, &m, NULL, 0), RR_ULB_OK);
	is_item(&reply.items[0], 24 + 4 + 4, 9);
}

/* --- COMPOUND --------------------------------------------------------------------------- */

static struct rr_ulb_rec v4;
static uint32_t pos[8];

/* A COMPOUND of READs that return these lengths, with other results between them. */
static void reads(const uint32_t *len, uint32_t n)
{
	v4 = rec_of(4, 1);
	begin_reply(&m, 0);
	W(&m, 0);
	add_opaque(&m, 3);
	W(&m, 2 * n);
	for (uint32_t i = 0; i < n; i++) {
		W(&m, 22, 0, 25, 0, 1);		/* PUTFH, READ: status, eof */
		add_opaque(&m, len[i]);
		pos[i] = m.n - rr_align(len[i], 4u);
	}
}

/* Takes out those items whose bit is set. */
static void reduce(const uint32_t *len, uint32_t n, uint32_t which)
{
	while (n--) {
		if (which & 1u << n)
			cut(&m, pos[n], rr_align(len[n], 4u));
	}
}

Test(ulb_reply, each_read_of_a_compound_is_found)
{
	static const uint32_t len[] = { 7, 0, 4097 };

	reads(len, 3);
	cr_assert_eq(look_reply(&v4, &m, NULL, 0), RR_ULB_OK);
	cr_assert_eq(reply.nitems, 3);
	for (uint32_t i = 0; i < 3; i++)
		is_item(&reply.items[i], pos[i], len[i]);
}

/* req: rfc8267 6.4.1 #1 */
Test(ulb_reply, the_next_read_has_the_next_chunk)
{
	static const uint32_t len[] = { 7, 10, 5 };
	struct rr_ulb_chunk c[] = { { 0, 7 }, { 0, 10 } };

	reads(len, 3);
	reduce(len, 3, 3);
	cr_assert_eq(look_reply(&v4, &m, c, 2), RR_ULB_OK);
	for (uint32_t i = 0; i < 3; i++) {
		is_item(&reply.items[i], pos[i], len[i]);
		cr_assert_eq(reply.items[i].placed, i < 2);
		cr_assert_eq(reply.items[i].chunk, i < 2 ? i : RR_ULB_INLINE);
	}
	cr_assert_eq(reply.len, pos[2] + 8);
	c[0].len = 10;
	c[1].len = 7;
	cr_assert_eq(look_reply(&v4, &m, c, 2), RR_ULB_VIOLATION);
	reads(len, 2);
	reduce(len, 2, 2);
	cr_assert_eq(look_reply(&v4, &m, c, 1), RR_ULB_VIOLATION, "it is not the second one's");
}

Test(ulb_reply, an_empty_chunk_keeps_its_read_in_the_stream)
{
	static const uint32_t len[] = { 7, 10 };
	struct rr_ulb_chunk c[] = { { 0, 0 }, { 0, 10 } };

	reads(len, 2);
	reduce(len, 2, 2);
	cr_assert_eq(look_reply(&v4, &m, c, 2), RR_ULB_OK);
	cr_assert_not(reply.items[0].placed);
	cr_assert_eq(reply.items[0].chunk, 0);
	cr_assert(reply.items[1].placed);
	cr_assert_eq(reply.items[1].chunk, 1);
}

/* req: rfc8166 4.3.2.2 #1 */
Test(ulb_reply, a_read_of_no_bytes_may_take_its_chunk_or_leave_it_to_the_next)
{
	static const uint32_t len[] = { 0, 10 };
	struct rr_ulb_chunk taken[] = { { 0, 0 }, { 0, 10 } }, left[] = { { 0, 10 }, { 0, 0 } };

	reads(len, 2);
	reduce(len, 2, 2);
	cr_assert_eq(look_reply(&v4, &m, taken, 2), RR_ULB_OK);
	cr_assert_eq(reply.items[1].chunk, 1);
	cr_assert_eq(look_reply(&v4, &m, left, 2), RR_ULB_OK);
	cr_assert_eq(reply.items[0].chunk, RR_ULB_INLINE);
	cr_assert_eq(reply.items[1].chunk, 0);
	cr_assert(reply.items[1].placed);
}

Test(ulb_reply, chunks_of_more_than_a_message_can_hold_are_a_violation)
{
	static const uint32_t len[] = { 0, 0 };
	struct rr_ulb_chunk c[] = { { 0, 0x80000000 }, { 0, 0x7ffffff0 } };

	reads(len, 2);
	rr_put_be32(m.b + pos[0] - 4, c[0].len);
	rr_put_be32(m.b + pos[1] - 4, c[1].len);
	cr_assert_eq(look_reply(&v4, &m, c, 2), RR_ULB_VIOLATION);
	cr_assert_eq(reply.len, 0);
	c[1].len = 0x7fff0000;
	rr_put_be32(m.b + pos[1] - 4, c[1].len);
	cr_assert_eq(look_reply(&v4, &m, c, 2), RR_ULB_OK);
	cr_assert_eq(reply.len, m.n + 0xffff0000);
}

Test(ulb_reply, a_chunk_that_no_item_needs_must_be_unused)
{
	static const uint32_t len[] = { 4 };
	struct rr_ulb_chunk c[] = { { 0, 4 }, { 0, 0 } };

	reads(len, 1);
	reduce(len, 1, 1);
	cr_assert_eq(look_reply(&v4, &m, c, 2), RR_ULB_OK);
	c[1].len = 4;
	cr_assert_eq(look_reply(&v4, &m, c, 2), RR_ULB_VIOLATION);
}

Test(ulb_reply, a_failed_read_has_no_item_and_behind_unknown_results_there_are_none)
{
	v4 = rec_of(4, 1);
	begin_reply(&m, 0);
	W(&m, 5, 0, 2, 22, 0, 25, 5);
	cr_assert_eq(look_reply(&v4, &m, NULL, 0), RR_ULB_OK);
	cr_assert_eq(reply.nitems, 0);
	begin_reply(&m, 0);
	W(&m, 0, 0, 3, 25, 0, 1, 4, 9, 10044, 0, 25, 0, 1, 4, 9);
	cr_assert_eq(look_reply(&v4, &m, NULL, 0), RR_ULB_OK);
	cr_assert_eq(reply.nitems, 1);
}

/* --- replies with Read chunks (reliable replies) ------------------------------------------ */

static enum rr_ulb_rc read_chunk(struct rr_ulb_chunk c, uint32_t at, uint32_t len)
{
	struct rr_ulb_rec rec = rec_of(3, V3_READ);
	struct rr_ulb_view v = { .buf = m.b, .chunks = &c, .nchunks = 1, .reads = true };

	cr_assert_eq(v3_read_reply_of(len, 0, false), at);
	cut(&m, at, rr_align(len, 4u));
	v.have = v.len = m.n;
	return rr_ulb_reply(&rec, &v, &reply);
}

Test(ulb_reply, data_may_be_in_a_read_chunk_at_its_place)
{
	uint32_t at = 24 + 4 + 4 + 8 + 4;

	cr_assert_eq(read_chunk((struct rr_ulb_chunk){ at, 9 }, at, 9), RR_ULB_OK);
	is_item(&reply.items[0], at, 9);
	cr_assert(reply.items[0].placed);
	cr_assert_eq(reply.len, at + 12);
	cr_assert_eq(read_chunk((struct rr_ulb_chunk){ at, 12 }, at, 9), RR_ULB_OK);	/* with padding */
	cr_assert_eq(read_chunk((struct rr_ulb_chunk){ at + 4, 9 }, at, 9), RR_ULB_VIOLATION);
	cr_assert_eq(read_chunk((struct rr_ulb_chunk){ at + 4, 0 }, at, 0), RR_ULB_VIOLATION);
}

Test(ulb_reply, an_item_knows_whether_optional_data_before_it_is_absent)
{
	struct rr_ulb_rec rec = rec_of(3, V3_READ);

	for (int attributes = 0; attributes < 2; attributes++) {
		v3_read_reply_of(8, 0, attributes);
		cr_assert_eq(look_reply(&rec, &m, NULL, 0), RR_ULB_OK);
		cr_assert_eq(reply.items[0].early, !attributes);
	}
}
