/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/ulb_msg.h"

static struct msg m;

/* --- messages as they were ------------------------------------------------------------- */

static void one_arg(const struct vector *v, uint32_t pos, uint32_t len)
{
	from_vector(&m, v);
	cr_assert_eq(look_part(&m, m.n, v->len, 0), RR_ULB_OK);
	cr_assert_eq(call.nargs, 1);
	cr_assert_eq(call.nresults, 0);
	cr_assert_eq(call.len, v->len);
	is_item(&call.args[0], pos, len);
}

static void one_result(const struct vector *v, uint32_t max)
{
	from_vector(&m, v);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nargs, 0);
	cr_assert_eq(call.nresults, 1);
	cr_assert_eq(call.results[0], max);
	cr_assert_eq(call.reply_max, call.reply_rest + max + rr_ulb_pad(max));
}

Test(ulb_call, the_data_of_a_write_is_eligible)
{
	one_arg(&v3_write_call, 116, 13);
	one_arg(&v40_write_call, 148, 13);
	one_arg(&v41_write_call, 176, 100000);
}

Test(ulb_call, the_path_of_a_symlink_is_eligible)
{
	one_arg(&v3_symlink_call, 136, 11);
	one_arg(&v40_symlink_call, 140, 11);
}

Test(ulb_call, the_data_of_a_read_may_have_a_write_chunk_of_its_count)
{
	one_result(&v3_read_call, 13);
	one_result(&v40_read_call, 13);
	one_result(&v41_read_call, 100000);
}

Test(ulb_call, the_path_of_a_readlink_may_have_a_write_chunk)
{
	one_result(&v3_readlink_call, 4096);
	one_result(&v40_readlink_call, 4096);
}

Test(ulb_call, a_readdir_has_no_eligible_result_but_a_bound)
{
	from_vector(&m, &v3_readdirplus_call);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nresults, 0);
	/* status, attributes, cookie verifier, maxcount, eof */
	cr_assert_eq(call.reply_max, HEADER + 4 + 88 + 8 + rr_be32(m.b + m.n - 4) + 4);
}

Test(ulb_call, create_session_says_how_large_replies_will_be)
{
	from_vector(&m, &v41_create_session_call);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.fore_max, 1 << 20);
	cr_assert_eq(call.back_max, 4096);
	from_vector(&m, &v41_exchange_id_call);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.fore_max, 0);
}

/* --- version 2 -------------------------------------------------------------------------- */

static void begin_v2(uint32_t proc)
{
	begin_call(&m, NFS, 2, proc);
	add_words(&m, 8);	/* file handle */
}

Test(ulb_call, v2_write)
{
	begin_v2(8);
	W(&m, 0, 4096, 5);
	add_opaque(&m, 5);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nargs, 1);
	is_item(&call.args[0], 40 + 32 + 16, 5);
	cr_assert_eq(call.reply_max, HEADER + 4 + 68);
}

Test(ulb_call, v2_symlink_has_its_path_before_its_attributes)
{
	begin_v2(13);
	add_opaque(&m, 3);
	add_opaque(&m, 9);
	add_words(&m, 8);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nargs, 1);
	is_item(&call.args[0], 40 + 32 + 8 + 4, 9);
	cr_assert_eq(call.reply_max, HEADER + 8);	/* not less than PROG_MISMATCH */
}

Test(ulb_call, v2_read_and_readlink)
{
	begin_v2(6);
	W(&m, 0, 8192, 0);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nresults, 1);
	cr_assert_eq(call.results[0], 8192);
	cr_assert_eq(call.reply_max, HEADER + 4 + 68 + 4 + 8192);
	cr_assert_eq(call.reply_rest, HEADER + 4 + 68 + 4);
	begin_v2(5);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.results[0], 1024);
}

/* --- edges ------------------------------------------------------------------------------- */

static void v3_write(uint32_t len)
{
	begin_call(&m, NFS, 3, 7);
	add_opaque(&m, 8);
	W(&m, 0, 0, len, 2);
	add_opaque(&m, len);
}

static void v3_read(uint32_t count)
{
	begin_call(&m, NFS, 3, 6);
	add_opaque(&m, 8);
	W(&m, 0, 0, count);
}

#define DATA	72u	/* position of the data of v3_write() */

Test(ulb_call, every_length_of_padding_is_right)
{
	for (uint32_t len = 0; len <= 9; len++) {
		v3_write(len);
		cr_assert_eq(look(&m), RR_ULB_OK);
		cr_assert_eq(call.nargs, 1);
		is_item(&call.args[0], DATA, len);
		cr_assert_eq(call.len, DATA + rr_align(len, 4u));
	}
}

Test(ulb_call, a_length_beyond_the_message_is_garbage)
{
	static const uint32_t lens[] = { 9, 12, 1 << 20, 0x7fffffff, 0xfffffff0, 0xfffffffc,
					 0xfffffffd, 0xffffffff };

	for (uint32_t i = 0; i < rr_array_size(lens); i++) {
		v3_write(8);
		rr_put_be32(m.b + DATA - 4, lens[i]);
		cr_assert_eq(look(&m), RR_ULB_NONE, "%u", lens[i]);
		is_nothing();
	}
}

Test(ulb_call, a_message_cut_anywhere_is_garbage)
{
	v3_write(8);
	for (uint32_t n = 0; n < m.n; n++) {
		cr_assert_eq(look_part(&m, n, n, 0), RR_ULB_NONE, "%u", n);
		is_nothing();
	}
}

Test(ulb_call, words_behind_the_arguments_do_not_matter)
{
	v3_write(8);
	W(&m, 1);
	cr_assert_eq(look(&m), RR_ULB_OK);
	is_item(&call.args[0], DATA, 8);
}

Test(ulb_call, of_data_that_is_still_to_come_only_the_length_must_be_there)
{
	v3_write(8);
	rr_put_be32(m.b + DATA - 4, 1 << 20);
	for (uint32_t have = 0; have <= DATA; have++) {
		bool seen = have >= DATA;
		enum rr_ulb_rc rc = look_part(&m, have, DATA + (1 << 20), 0);

		cr_assert_eq(rc, have >= 40 ? RR_ULB_OK : RR_ULB_NONE, "%u", have);
		cr_assert_eq(call.nargs, seen, "%u", have);
	}
	is_item(&call.args[0], DATA, 1 << 20);
	cr_assert_eq(call.len, DATA + (1 << 20));
}

Test(ulb_call, a_count_that_is_still_to_come_leaves_the_reply_without_bound)
{
	v3_read(100);
	cr_assert_eq(look_part(&m, m.n - 4, m.n, 0), RR_ULB_OK);
	cr_assert_eq(call.reply_max, RR_ULB_UNKNOWN);
	cr_assert_eq(call.results[0], RR_ULB_UNKNOWN);
	cr_assert_eq(call.reply_rest, HEADER + 4 + 88 + 8 + 4);
}

Test(ulb_call, counts_up_to_the_largest)
{
	static const uint32_t counts[] = { 0, 1, 4, 4097, 1 << 20, 0x7fffffff };

	for (uint32_t i = 0; i < rr_array_size(counts); i++) {
		v3_read(counts[i]);
		cr_assert_eq(look(&m), RR_ULB_OK);
		cr_assert_eq(call.results[0], counts[i]);
		cr_assert_eq(call.reply_rest, HEADER + 4 + 88 + 8 + 4);
		cr_assert_eq(call.reply_max, call.reply_rest + rr_align(counts[i], 4u));
	}
	for (uint32_t c = 0xffffffff - 8; c != 0; c++) {
		v3_read(c);
		cr_assert_eq(look(&m), RR_ULB_OK);
		cr_assert_eq(call.reply_max, RR_ULB_UNKNOWN);
		cr_assert_eq(call.results[0], c);
	}
}

Test(ulb_call, credentials_up_to_four_hundred_bytes)
{
	for (uint32_t len = 0; len <= 404; len++) {
		m.n = 0;
		W(&m, 7, 0, 2, NFS, 3, 7, RR_AUTH_SYS);
		add_opaque(&m, len);
		W(&m, RR_AUTH_NONE);
		add_opaque(&m, 7);
		add_opaque(&m, 8);
		W(&m, 0, 0, 6, 0);
		add_opaque(&m, 6);
		cr_assert_eq(look(&m), len <= 400 ? RR_ULB_OK : RR_ULB_NONE, "%u", len);
		if (len <= 400)
			is_item(&call.args[0], m.n - 8, 6);
	}
}

Test(ulb_call, what_is_no_call_has_no_binding)
{
	v3_write(8);
	rr_put_be32(m.b + 4, 1);
	cr_assert_eq(look(&m), RR_ULB_NONE);
	is_nothing();
	v3_write(8);
	rr_put_be32(m.b + 8, 3);
	cr_assert_eq(look(&m), RR_ULB_NONE);
	is_nothing();
}

Test(ulb_call, a_flavor_that_is_not_known_may_change_the_arguments)
{
	static const uint32_t known[] = { 0, 1, 2, 3 };

	for (uint32_t i = 0; i < 300; i++) {
		v3_write(8);
		rr_put_be32(m.b + 24, i);
		cr_assert_eq(look(&m), i < rr_array_size(known) ? RR_ULB_OK : RR_ULB_NONE, "%u", i);
		cr_assert_eq(call.rec.flavor, rr_min(i, 255u));
	}
}

Test(ulb_call, the_peeked_bytes_tell_the_procedure_whatever_the_credential)
{
	for (uint32_t len = 20; len <= 400; len += 4) {
		m.n = 0;
		W(&m, 7, 0, 2, NFS, 3, 6, RR_RPCSEC_GSS, len, 1, 0, 99, 1);
		add_words(&m, len / 4 - 4);
		W(&m, RR_RPCSEC_GSS);
		add_opaque(&m, 400);
		add_opaque(&m, 64);
		W(&m, 0, 0, 4096);
		cr_assert_eq(look_part(&m, RR_ULB_PEEK, m.n, 0), RR_ULB_OK);
		cr_assert(call.rec.reduce);
		cr_assert_eq(call.rec.proc, 6);
		cr_assert_eq(call.rec.gss_service, 1);
	}
	cr_assert_eq(look_part(&m, RR_ULB_PEEK - 4, m.n, 0), RR_ULB_NONE);
}

/* --- programs ----------------------------------------------------------------------------- */

Test(ulb_call, every_program_is_chosen_by_its_number_and_version)
{
	static const struct { uint32_t prog, vers; } bound[] = {
		{ 100003, 2 }, { 100003, 3 }, { 100003, 4 }, { 0x40000000, 1 }, { 100227, 2 },
		{ 100227, 3 }, { 100005, 1 }, { 100005, 3 }, { 100021, 1 }, { 100021, 3 },
		{ 100021, 4 }, { 100024, 1 }, { 100000, 2 }, { 100000, 3 }, { 100000, 4 },
	};

	for (uint32_t i = 0; i < rr_array_size(bound); i++) {
		cr_assert(rr_ulb_has(bound[i].prog, bound[i].vers));
		begin_call(&m, bound[i].prog, bound[i].vers, 0);
		cr_assert_eq(look(&m), RR_ULB_OK);
		cr_assert_eq(call.reply_max, HEADER + 8);	/* NULL */
	}
	cr_assert_not(rr_ulb_has(100003, 1));
	cr_assert_not(rr_ulb_has(100003, 5));
	cr_assert_not(rr_ulb_has(100004, 2));
}

Test(ulb_call, other_programs_and_procedures_have_no_binding)
{
	static const uint32_t p[][3] = { { 100004, 2, 1 }, { 100003, 5, 1 }, { 100003, 3, 22 },
		{ 100003, 3, 0xffffffff }, { 100003, 4, 2 }, { 100021, 4, 16 }, { 100000, 2, 4 } };

	for (uint32_t i = 0; i < rr_array_size(p); i++) {
		begin_call(&m, p[i][0], p[i][1], p[i][2]);
		add_words(&m, 20);
		cr_assert_eq(look(&m), RR_ULB_NONE, "%u", i);
		is_nothing();
	}
}

static uint32_t bound_of(uint32_t prog, uint32_t vers, uint32_t proc)
{
	begin_call(&m, prog, vers, proc);
	add_words(&m, 30);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nargs + call.nresults, 0);
	return call.reply_max;
}

Test(ulb_call, the_helpers_have_bounds_and_nothing_eligible)
{
	/* GETACL: attributes, mask, twice a count and 1024 entries */
	cr_assert_eq(bound_of(100227, 3, 1), HEADER + 4 + 88 + 4 + 2 * (8 + 1024 * 12));
	cr_assert_eq(bound_of(100227, 2, 4), HEADER + 4 + 68 + 4);
	cr_assert_eq(bound_of(100005, 3, 1), HEADER + 4 + 68 + 4 + 32 * 4);
	cr_assert_eq(bound_of(100021, 4, 1), HEADER + 1028 + 4 + 8 + 1028 + 16);
	cr_assert_eq(bound_of(100024, 1, 2), HEADER + 8);
	cr_assert_eq(bound_of(100000, 4, 3), HEADER + 4 + 256);
}

/* --- Read chunks ------------------------------------------------------------------------ */

static enum rr_ulb_rc write_with_chunk(uint32_t len, uint32_t pos, uint32_t chunk_len)
{
	struct rr_ulb_chunk c = { pos, chunk_len };

	v3_write(len);
	cut(&m, DATA, len + rr_ulb_pad(len));
	return look_chunks(&m, &c, 1);
}

Test(ulb_call, a_read_chunk_at_the_data_is_right_with_padding_and_without)
{
	cr_assert_eq(write_with_chunk(4097, DATA, 4097), RR_ULB_OK);
	is_item(&call.args[0], DATA, 4097);
	cr_assert(call.args[0].placed);
	cr_assert_eq(call.args[0].chunk, 0);
	cr_assert_eq(call.len, DATA + 4100);
	cr_assert_eq(write_with_chunk(4097, DATA, 4100), RR_ULB_OK);
	cr_assert_eq(write_with_chunk(4096, DATA, 4096), RR_ULB_OK);
}

/* req: rfc8166 3.4.5.2 #3 */
Test(ulb_call, a_read_chunk_of_another_length_is_a_violation)
{
	static const uint32_t wrong[] = { 0, 4093, 4096, 4098, 4099, 4101, 0xffffffff };

	for (uint32_t i = 0; i < rr_array_size(wrong); i++) {
		cr_assert_eq(write_with_chunk(4097, DATA, wrong[i]), RR_ULB_VIOLATION);
		is_nothing();
	}
}

Test(ulb_call, a_read_chunk_anywhere_else_is_a_violation)
{
	for (uint32_t pos = 0; pos < 200; pos += 4) {
		if (pos == DATA)
			continue;
		cr_assert_eq(write_with_chunk(16, pos, 16), RR_ULB_VIOLATION, "%u", pos);
		is_nothing();
	}
}

Test(ulb_call, a_read_chunk_that_ends_beyond_all_positions_is_a_violation)
{
	for (uint32_t less = 0; less < 100; less++) {
		struct rr_ulb_chunk c = { DATA, 0xffffffff - less };

		v3_write(0);
		rr_put_be32(m.b + DATA - 4, c.len);
		cr_assert_eq(look_chunks(&m, &c, 1),
			     less < DATA + 3 ? RR_ULB_VIOLATION : RR_ULB_OK, "%u", less);
	}
}

/* Behind the arguments may be bytes that are no word. */
Test(ulb_call, the_longest_message_is_of_as_many_bytes_as_a_length_can_say)
{
	for (uint32_t behind = 0; behind < 4; behind++) {
		struct rr_ulb_chunk c = { DATA, -(DATA + 4) };
		struct rr_ulb_view v = { .buf = m.b, .have = DATA + 4 + behind, .chunks = &c, .nchunks = 1 };

		v3_write(0);
		rr_put_be32(m.b + DATA - 4, c.len);
		v.len = v.have;
		cr_assert_eq(rr_ulb_call(&v, 0, &call), RR_ULB_VIOLATION, "%u", behind);
		v.len = v.have -= 4;
		cr_assert_eq(rr_ulb_call(&v, 0, &call), RR_ULB_OK, "%u", behind);
		cr_assert_eq(call.len, UINT32_MAX - 3 + behind);
	}
}

Test(ulb_call, what_stands_behind_an_item_counts_for_the_length_of_the_message)
{
	uint32_t pos = 40 + 32 + 8 + 4;
	struct rr_ulb_chunk c = { pos, 0 };

	for (uint32_t less = 0; less < 200; less += 4) {
		begin_v2(13);
		add_opaque(&m, 3);
		c.len = 0xfffffffc - less;
		W(&m, c.len);
		add_words(&m, 8);
		cr_assert_eq(look_chunks(&m, &c, 1),
			     less < pos + 32 - 3 ? RR_ULB_VIOLATION : RR_ULB_OK, "%u", less);
		cr_assert(call.len == 0 || call.len == pos + c.len + 32);
	}
}

Test(ulb_call, chunks_of_a_message_that_is_not_all_here_are_not_judged)
{
	struct rr_ulb_chunk c = { DATA, 8 };
	struct rr_ulb_view v = { .buf = m.b, .have = DATA - 8, .chunks = &c, .nchunks = 1 };

	v3_write(8);
	v.len = DATA;
	cr_assert_eq(rr_ulb_call(&v, 0, &call), RR_ULB_NONE);
	is_nothing();
	v.have = DATA;
	cr_assert_eq(rr_ulb_call(&v, 0, &call), RR_ULB_OK);
}

Test(ulb_call, a_second_read_chunk_is_a_violation)
{
	struct rr_ulb_chunk c[] = { { DATA, 8 }, { DATA, 8 } };

	v3_write(8);
	cut(&m, DATA, 8);
	cr_assert_eq(look_chunks(&m, c, 1), RR_ULB_OK);
	cr_assert_eq(look_chunks(&m, c, 2), RR_ULB_VIOLATION);
	c[1].pos = DATA + 8;
	cr_assert_eq(look_chunks(&m, c, 2), RR_ULB_VIOLATION);
	c[1].pos = 40;
	cr_assert_eq(look_chunks(&m, c, 2), RR_ULB_VIOLATION);
}

Test(ulb_call, a_read_chunk_may_stand_before_other_arguments)
{
	struct rr_ulb_chunk c = { 40 + 32 + 8 + 4, 9 };

	begin_v2(13);
	add_opaque(&m, 3);
	add_opaque(&m, 9);
	add_words(&m, 8);
	cut(&m, c.pos, 12);
	cr_assert_eq(look_chunks(&m, &c, 1), RR_ULB_OK);
	is_item(&call.args[0], c.pos, 9);
	cr_assert_eq(call.len, c.pos + 12 + 32);
	cut(&m, m.n - 4, 4);
	cr_assert_eq(look_chunks(&m, &c, 1), RR_ULB_VIOLATION);
}

Test(ulb_call, a_read_chunk_for_what_has_no_binding_is_a_violation)
{
	static const uint32_t p[][3] = { { 100004, 2, 1 }, { 100227, 3, 2 }, { 100003, 3, 1 },
		{ 100003, 3, 30 }, { 100005, 3, 1 }, { 100003, 2, 16 } };
	struct rr_ulb_chunk c = { 60, 16 };

	for (uint32_t i = 0; i < rr_array_size(p); i++) {
		begin_call(&m, p[i][0], p[i][1], p[i][2]);
		add_words(&m, 20);
		cr_assert_eq(look_chunks(&m, &c, 1), RR_ULB_VIOLATION, "%u", i);
		is_nothing();
	}
}

/* --- RPCSEC_GSS ------------------------------------------------------------------------- */

static void gss_write(uint32_t gss_vers, uint32_t gss_proc, uint32_t service)
{
	begin_gss(&m, 3, gss_vers, gss_proc, service);
	set_proc(&m, 7);
	if (service == 2)
		W(&m, 48, 99);		/* databody_integ: its length, the sequence number */
	add_opaque(&m, 8);
	W(&m, 0, 0, 9, 2);
	add_opaque(&m, 9);
	add_opaque(&m, 28);		/* checksum */
}

Test(ulb_call, authentication_alone_leaves_data_eligible)
{
	for (uint32_t vers = 1; vers <= 3; vers++) {
		gss_write(vers, 0, 1);
		cr_assert_eq(look(&m), RR_ULB_OK);
		cr_assert_eq(call.nargs, 1);
		is_item(&call.args[0], 24 + 8 + 28 + 8 + 12 + 12 + 16 + 4, 9);
		cr_assert(call.rec.reduce);
		cr_assert_eq(call.rec.flavor, RR_RPCSEC_GSS);
		cr_assert_eq(call.rec.gss_service, 1);
	}
}

/* req: rfc8166 8.2.2.3 #1 */
Test(ulb_call, nothing_is_eligible_under_integrity_and_privacy)
{
	struct rr_ulb_chunk c = { 112, 9 };

	for (uint32_t service = 2; service <= 5; service++) {
		gss_write(1, 0, service);
		cr_assert_eq(look(&m), RR_ULB_OK);
		cr_assert_eq(call.nargs, 0);
		cr_assert_not(call.rec.reduce);
		cr_assert_eq(call.rec.gss_service, service);
		cr_assert_eq(look_chunks(&m, &c, 1), RR_ULB_VIOLATION);
	}
}

Test(ulb_call, integrity_hides_no_count_but_privacy_does)
{
	for (uint32_t service = 1; service <= 3; service++) {
		begin_gss(&m, 3, 1, 0, service);
		set_proc(&m, 6);
		if (service == 2)
			W(&m, 40, 99);
		add_opaque(&m, 8);
		W(&m, 0, 0, 4096);
		cr_assert_eq(look(&m), RR_ULB_OK);
		cr_assert_eq(call.nresults, service == 1);
		if (service == 3)
			cr_assert_eq(call.reply_max, RR_ULB_UNKNOWN);
		else
			cr_assert_eq(call.reply_max, HEADER + 4 + 88 + 8 + 4 + 4096 +
						     (service == 2 ? 528 : 0));
		cr_assert(service == 1 || call.reply_rest == call.reply_max);
	}
}

Test(ulb_call, privacy_leaves_bounds_that_need_no_argument)
{
	begin_gss(&m, 3, 1, 0, 3);
	set_proc(&m, 1);
	add_opaque(&m, 60);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.reply_max, HEADER + 4 + 84 + 528);
}

/* req: rfc8166 8.2.2 #1 */
Test(ulb_call, control_messages_of_gss_are_not_what_their_procedure_says)
{
	struct rr_ulb_chunk c = { 112, 9 };

	for (uint32_t gss_proc = 1; gss_proc <= 5; gss_proc++) {
		gss_write(1, gss_proc, 1);
		cr_assert_eq(look(&m), RR_ULB_OK);
		cr_assert_eq(call.nargs + call.nresults, 0);
		cr_assert_not(call.rec.reduce);
		cr_assert_eq(call.rec.gss_proc, gss_proc);
		cr_assert_eq(call.len, m.n);
		cr_assert_eq(call.reply_max, gss_proc == 3 ? HEADER + 8 : RR_ULB_UNKNOWN);
		cr_assert_eq(look_chunks(&m, &c, 1), RR_ULB_VIOLATION);
	}
	gss_write(1, 0xffffffff, 1);
	look(&m);
	cr_assert_eq(call.rec.gss_proc, 255);
	gss_write(1, 3, 1);
	rr_put_be32(m.b + 12, 0x20000001);	/* of a program that nobody knows nothing is */
	cr_assert_eq(look(&m), RR_ULB_NONE);
	cr_assert_eq(call.reply_max, RR_ULB_UNKNOWN);
}

/* req: rfc8166 8.2.2 #1 */
Test(ulb_call, a_gss_credential_that_cannot_be_read_is_no_binding)
{
	gss_write(4, 0, 1);
	cr_assert_eq(look(&m), RR_ULB_NONE);
	gss_write(0, 0, 1);
	cr_assert_eq(look(&m), RR_ULB_NONE);
	v3_write(8);
	rr_put_be32(m.b + 24, RR_RPCSEC_GSS);	/* without a body */
	cr_assert_eq(look(&m), RR_ULB_NONE);
	is_nothing();
}

/* req: rfc8166 8.2.2 #1 */
Test(ulb_call, a_gss_credential_has_room_for_its_words)
{
	for (uint32_t len = 16; len <= 24; len++) {
		m.n = 0;
		W(&m, 7, 0, 2, NFS, 3, 6, RR_RPCSEC_GSS, len, 1, 0, 99, 1);
		add_words(&m, (len - 13) / 4);
		W(&m, RR_AUTH_NONE, 0, 0, 0, 0, 100);
		cr_assert_eq(look(&m), len < 20 ? RR_ULB_NONE : RR_ULB_OK, "%u", len);
		cr_assert_eq(call.nresults, len >= 20);
		cr_assert(len < 20 || call.results[0] == 100, "%u", len);
		cr_assert_not(call.idempotent);		/* the sequence number has been seen */
	}
}

Test(ulb_call, what_changes_nothing_may_be_executed_twice)
{
	static const struct { uint32_t proc; bool twice; } row[] = {
		{ 1, true }, { 2, false }, { 3, true }, { 8, false }, { 12, false }, { 18, true }, { 21, false },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		begin_call(&m, NFS, 3, row[i].proc);
		look(&m);
		cr_assert_eq(call.idempotent, row[i].twice, "procedure %u", row[i].proc);
	}
	from_vector(&m, &v3_read_call);
	look(&m);
	cr_assert(call.idempotent);
	from_vector(&m, &v3_write_call);
	look(&m);
	cr_assert_not(call.idempotent);
	begin_call(&m, 0x20000001, 1, 1);
	look(&m);
	cr_assert_not(call.idempotent);
}
