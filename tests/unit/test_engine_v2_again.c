/* SPDX-License-Identifier: BSD-3-Clause */

/* version-two-08 §5.3.3: what a requester does about errors */

#include "tests/unit/engine_v2.h"

#define NFS(x, proc)		(x), 0, 2, 100003, 3, (proc), 0, 0, 0, 0
#define NFS_READ(x, count)	NFS(x, 6), 4, 1, 0, 0, (count)
#define NFS_WRITE(x, count)	NFS(x, 7), 4, 1, 0, 0, (count), 0, (count)
#define NFS_READDIR(x, count)	NFS(x, 16), 4, 1, 0, 0, 0, 0, (count)

static uint8_t msg[8192];

static int send_words(uint32_t len)
{
	int rc;

	one_clear(&o);
	rc = one_send_bytes(&o, msg, len);
	return rc;
}

static int send_read(uint32_t xid, uint32_t count)
{
	return send_words(WORDS(msg, NFS_READ(xid, count)));
}

static int send_write(uint32_t xid, uint32_t count)
{
	return send_words(WORDS(msg, NFS_WRITE(xid, count)) + count);
}

static int send_lookup(uint32_t xid)
{
	return send_words(WORDS(msg, NFS(xid, 3), 4, 1, 4, 0x61616161));
}

static void refused(uint32_t xid, uint32_t err, uint32_t a, uint32_t b)
{
	static const uint8_t words[] = { 0, 2, 0, 0, 1, 1, 1, 2, 1, 0, 0 };
	uint8_t buf[64];
	uint32_t n = WORDS(buf, xid, 2, 50, ERROR, REPLY, err);

	if (err == REPLY_RESOURCE)
		n += WORDS(buf + n, b);
	else if (words[err] > 0)
		n += WORDS(buf + n, a);
	if (words[err] > 1)
		n += WORDS(buf + n, b);
	one_clear(&o);
	one_recv(&o, buf, n, 0);
}

static void was_given_up(enum rr_eng_why why)
{
	cr_assert_eq(v2_failed(), why, "%u", v2_failed());
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
}

/* The engine has forgotten all of it when the reply is there. */
static void is_answered(uint32_t xid, uint32_t released)
{
	one_clear(&o);
	ONE_RECV(&o, INLINE(xid, REPLY), A_REPLY(xid));
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), released, "%u", one_count(&o, RR_OP_RELEASE));
	cr_assert_eq(one_info(&o).inflight, 0);
}

static uint32_t word_of_send(uint32_t w)
{
	return one_word(&o, 0, w);
}

/* --- Read chunks --- */

/* req: version-two-08 5.3.3 #8 */
Test(engine_v2_again, where_no_read_chunks_are_taken_all_of_it_is_one_at_position_zero)
{
	v2_begin(0, true);
	cr_assert_eq(send_write(5, 4000), 0);
	cr_assert_eq(word_of_send(3), MSG);
	refused(5, READ_CHUNKS, 0, 0);
	cr_assert_eq(v2_failed(), RR_WHY_NONE);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_lt(one_op(&o, RR_OP_INVALIDATE, 0), one_op(&o, RR_OP_EXPOSE, 0));
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	uint32_t want[] = { 5, 2, 8, NOMSG, CALL, 0, 1, 0 };
	for (uint32_t w = 0; w < 8; w++)
		cr_assert_eq(word_of_send(w), want[w], "word %u", w);
	cr_assert_eq(word_of_send(9), 4068);	/* the whole message */
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->off, 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, 0);
	is_answered(5, 1);
	one_fini(&o);
}

/* req: version-two-08 5.3.3 #9 */
Test(engine_v2_again, a_call_at_position_zero_is_given_up)
{
	v2_begin(0, true);
	cr_assert_eq(send_words(WORDS(msg, NFS(5, 7), 9999) + 3000), 0);
	cr_assert_eq(word_of_send(3), NOMSG);
	refused(5, READ_CHUNKS, 0, 0);
	was_given_up(RR_WHY_REFUSED);
	one_fini(&o);
}

Test(engine_v2_again, so_is_one_whose_chunks_are_no_more_than_are_taken)
{
	v2_begin(0, true);
	send_write(5, 4000);
	refused(5, READ_CHUNKS, 1, 0);
	was_given_up(RR_WHY_REFUSED);
	one_fini(&o);
}

Test(engine_v2_again, what_is_refused_again_and_again_is_given_up)
{
	v2_begin(0, true);
	send_write(5, 4000);
	refused(5, READ_CHUNKS, 0, 0);
	refused(5, READ_CHUNKS, 0, 0);
	was_given_up(RR_WHY_REFUSED);
	one_fini(&o);
}

/* --- segments --- */

Test(engine_v2_again, fewer_segments_are_asked_for)
{
	v2_params(0, true);
	o.nsegs = 4;
	v2_start(1);
	send_write(5, 4000);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->max_segs, 0);
	o.nsegs = 2;
	refused(5, SEGMENTS, 2, 0);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->max_segs, 2);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(word_of_send(6 + 2 * 6), 0);	/* the list ends behind two */
	cr_assert_eq(word_of_send(3), MSG);		/* the rest fits inline, as before */
	cr_assert_eq(o.count.v[RR_C_resends], 1);
	is_answered(5, 1);
	one_fini(&o);
}

Test(engine_v2_again, what_cannot_have_fewer_segments_is_given_up)
{
	v2_params(0, true);
	o.nsegs = 4;
	v2_start(1);
	send_write(5, 4000);
	refused(5, SEGMENTS, 2, 0);
	was_given_up(RR_WHY_TOO_LARGE);
	one_fini(&o);
	v2_begin(0, true);
	send_write(5, 4000);
	refused(5, SEGMENTS, 1, 0);	/* it had one */
	was_given_up(RR_WHY_REFUSED);
	one_fini(&o);
	v2_begin(0, true);
	send_write(5, 4000);
	refused(5, SEGMENTS, 0, 0);	/* none are left to ask for */
	was_given_up(RR_WHY_REFUSED);
	one_fini(&o);
}

/* What an error says nothing of stays as it was, and nothing is left of an error to another call before, whose
 * entry this one has. */
Test(engine_v2_again, with_fewer_segments_all_else_is_as_before)
{
	v2_params(0, true);
	o.nsegs = 4;
	v2_start(1);
	send_write(5, 4000);
	refused(5, READ_CHUNKS, 0, 0);
	cr_assert_eq(word_of_send(3), NOMSG);
	is_answered(5, 1);
	send_write(6, 4000);
	o.nsegs = 2;
	refused(6, SEGMENTS, 2, 0);
	cr_assert_eq(word_of_send(3), MSG);
	is_answered(6, 1);
	o.nsegs = 4;
	send_words(WORDS(msg, NFS_READDIR(7, 3000)));
	uint32_t len = one_op(&o, RR_OP_EXPOSE, 0)->len;
	o.nsegs = 2;
	refused(7, SEGMENTS, 2, 0);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->len, len);
	cr_assert_eq(word_of_send(8), 1);	/* a Reply chunk */
	is_answered(7, 2);
	o.nsegs = 4;
	send_read(8, 2000);
	o.nsegs = 2;
	refused(8, SEGMENTS, 2, 0);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->len, 2000);
	cr_assert_eq(word_of_send(7), 1);	/* a Write chunk */
	one_fini(&o);
}

/* --- room for the reply --- */

Test(engine_v2_again, a_longer_write_chunk_for_a_call_that_may_be_executed_twice)
{
	v2_begin(0, true);
	send_read(5, 2000);
	refused(5, WRITE_RESOURCE, 1, 2400);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 0)->len, 2400);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->buf, one_op(&o, RR_OP_INVALIDATE, 0)->buf);
	cr_assert_eq(word_of_send(0), 5);
	cr_assert_eq(word_of_send(10), 2400);
	one_fini(&o);
}

/* req: version-two-08 5.3.3 #12 */
Test(engine_v2_again, a_reply_chunk_in_place_of_write_chunks_that_are_not_taken)
{
	v2_begin(0, true);
	send_read(5, 2000);
	cr_assert_eq(word_of_send(7), 1);		/* a Write chunk */
	refused(5, REPLY_RESOURCE, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	cr_assert_eq(word_of_send(7), 0);
	cr_assert_eq(word_of_send(8), 1);		/* a Reply chunk */
	cr_assert_geq(word_of_send(11), 2000 + 24 + 400 + 100);
	is_answered(5, 2);
	one_fini(&o);
}

/* A READ that may not be executed twice: RPCSEC_GSS takes the same message once only. */
static int send_gss_read(uint32_t xid)
{
	return send_words(WORDS(msg, xid, 0, 2, 100003, 3, 6, 6, 20, 1, 0, 1, 1, 0, 0, 0, 4, 1, 0, 0, 2000));
}

Test(engine_v2_again, a_call_that_gss_protects_is_not_executed_twice)
{
	static const uint32_t err[] = { WRITE_CHUNKS, WRITE_RESOURCE, REPLY_RESOURCE };

	for (size_t i = 0; i < rr_array_size(err); i++) {
		v2_begin(0, true);
		cr_assert_eq(send_gss_read(5), 0);
		cr_assert_eq(word_of_send(7), 1);
		refused(5, err[i], 1, 4000);
		was_given_up(err[i] == WRITE_CHUNKS ? RR_WHY_REFUSED : RR_WHY_TOO_LARGE);
		one_fini(&o);
	}
}

Test(engine_v2_again, what_has_no_write_chunk_gets_none)
{
	v2_begin(0, true);
	send_lookup(5);
	refused(5, WRITE_RESOURCE, 1, 3000);
	was_given_up(RR_WHY_TOO_LARGE);
	one_fini(&o);
	v2_begin(0, true);
	send_lookup(5);
	refused(5, WRITE_CHUNKS, 0, 0);
	was_given_up(RR_WHY_REFUSED);
	one_fini(&o);
}

/* The most that may be offered, and a word more; and no more than there is. */
Test(engine_v2_again, a_write_chunk_has_its_limits)
{
	static const uint32_t needed[] = { 65536, 65537, 2000 };

	for (size_t i = 0; i < rr_array_size(needed); i++) {
		v2_begin(0, true);
		send_read(5, 2000);
		refused(5, WRITE_RESOURCE, 1, needed[i]);
		if (i == 0)
			cr_assert_eq(word_of_send(10), 65536);
		else
			was_given_up(RR_WHY_TOO_LARGE);
		one_fini(&o);
	}
}

Test(engine_v2_again, a_reply_chunk_of_all_that_may_be_offered)
{
	v2_begin(0, true);
	send_words(WORDS(msg, NFS_READDIR(5, 3000)));
	refused(5, REPLY_RESOURCE, 0, 65536);
	cr_assert_eq(word_of_send(11), 65536);
	one_fini(&o);
}

/* A message is kept only where another attempt could come of it. */
Test(engine_v2_again, what_could_not_be_sent_again_is_given_back_with_its_send)
{
	v2_begin(0, true);
	send_words(WORDS(msg, 5, 0, 2, 0x20000001, 1, 0, 0, 0, 0, 0));	/* NULL */
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	send_words(WORDS(msg, 6, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0));	/* has a Reply chunk */
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	send_gss_read(7);						/* has a Write chunk */
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
	one_fini(&o);
	v2_params(0, true);
	o.p.reply_chunk = 0;
	v2_start(1);
	send_lookup(5);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1, "nothing can be offered for its reply");
	one_fini(&o);
}

Test(engine_v2_again, what_was_kept_leaves_nothing_behind)
{
	v2_begin(0, true);
	for (uint32_t x = 1; x < 400; x++) {
		cr_assert_eq(send_lookup(x), 0, "%u", x);
		is_answered(x, 1);
	}
	one_fini(&o);
}

/* The window counts those that are sent again as it counts others. */
Test(engine_v2_again, what_is_sent_again_has_left_the_queue_when_it_is_sent)
{
	v2_begin(0, true);
	rr_eng_window(o.e, 64);
	send_lookup(5);
	refused(5, REPLY_RESOURCE, 0, 3000);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	rr_eng_window(o.e, 5);
	cr_assert(rr_eng_writable(o.e));
	rr_eng_window(o.e, 4);		/* kept for control messages */
	cr_assert_not(rr_eng_writable(o.e));
	one_fini(&o);
}

/* A call that fits beside its Read chunk fits there again. For every length of what is around the item. */
Test(engine_v2_again, what_fitted_inline_before_stays_there)
{
	uint32_t stayed = 0, moved = 0;

	for (uint32_t around = 0; around <= 800; around += 4) {
		uint32_t cred = around < 400 ? around : 400, verf = around - cred, n;

		v2_params(0, true);
		o.nsegs = 4;
		v2_start(1);
		memset(msg, 0, sizeof(msg));
		n = WORDS(msg, NFS(5, 7)) - 16;
		n += WORDS(msg + n, 1, cred) + cred;
		n += WORDS(msg + n, 0, verf) + verf;
		n += WORDS(msg + n, 4, 1, 0, 0, 4000, 0, 4000);
		cr_assert_eq(send_words(n + 4000), 0);
		if (word_of_send(3) == MSG) {
			o.nsegs = 2;
			refused(5, SEGMENTS, 2, 0);
			cr_assert_eq(word_of_send(3), MSG, "%u", around);
			stayed++;
		} else {
			moved++;
		}
		one_fini(&o);
	}
	cr_assert_gt(stayed, 10);
	cr_assert_gt(moved, 10);
}

/* Each answer shows that the peer lives, an error as well. */
Test(engine_v2_again, an_error_ends_the_wait_for_a_credit)
{
	uint32_t x = 1;

	v2_begin(0, true);
	while (send_lookup(x) == 0)
		x++;
	cr_assert_lt(rr_eng_deadline(o.e), RR_TIME_NEVER);
	refused(1, REPLY_RESOURCE, 0, 3000);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	cr_assert_eq(rr_eng_deadline(o.e), RR_TIME_NEVER);
	one_fini(&o);
}

Test(engine_v2_again, a_longer_reply_chunk)
{
	v2_begin(0, true);
	send_words(WORDS(msg, NFS_READDIR(5, 3000)));
	refused(5, REPLY_RESOURCE, 0, 9998);
	cr_assert_eq(word_of_send(11), 10000);
	one_fini(&o);
}

Test(engine_v2_again, a_reply_chunk_for_a_call_that_had_none)
{
	v2_begin(0, true);
	send_lookup(5);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);	/* kept */
	refused(5, REPLY_RESOURCE, 0, 3000);
	cr_assert_eq(word_of_send(11), 3000);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, 56);
	is_answered(5, 2);
	one_fini(&o);
}

Test(engine_v2_again, nothing_where_nothing_more_is_needed)
{
	v2_begin(0, true);
	send_lookup(5);
	refused(5, REPLY_RESOURCE, 0, 0);
	was_given_up(RR_WHY_TOO_LARGE);
	one_fini(&o);
}

Test(engine_v2_again, what_no_longer_fits_inline_beside_it_is_a_long_call)
{
	uint32_t n;

	v2_begin(0, true);
	n = WORDS(msg, NFS(5, 3), 4, 1, 900);
	cr_assert_eq(send_words(n + 900), 0);
	cr_assert_eq(word_of_send(3), MSG);
	refused(5, REPLY_RESOURCE, 0, 3000);
	cr_assert_eq(word_of_send(3), NOMSG);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 2);
	is_answered(5, 2);
	one_fini(&o);
}

Test(engine_v2_again, write_chunks_without_a_number_are_replaced_as_well)
{
	v2_begin(0, true);
	send_read(5, 2000);
	refused(5, WRITE_CHUNKS, 0, 0);
	cr_assert_eq(word_of_send(7), 0);
	cr_assert_eq(word_of_send(8), 1);
	one_fini(&o);
}

Test(engine_v2_again, a_call_that_may_not_be_executed_twice_is_given_up)
{
	v2_begin(0, true);
	send_words(WORDS(msg, 5, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0));
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	refused(5, REPLY_RESOURCE, 0, 9000);
	was_given_up(RR_WHY_TOO_LARGE);
	one_fini(&o);
}

Test(engine_v2_again, but_the_next_of_its_procedure_offers_what_was_needed)
{
	struct rr_sizes sizes = { 0 };

	v2_params(0, true);
	o.p.sizes = &sizes;
	v2_start(1);
	send_words(WORDS(msg, 5, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0));
	refused(5, REPLY_RESOURCE, 0, 9000);
	was_given_up(RR_WHY_ERR_CHUNK);
	cr_assert_eq(rr_sizes_get(&sizes, 0x20000001, 1, 1), 9000);
	one_fini(&o);
}

/* The size of an error's reply is remembered only where it says something: not for a call whose bound is known, not
 * without a length, and not for more than may ever be offered. */
static void nothing_is_learnt(uint32_t prog, uint32_t proc, uint32_t needed, enum rr_eng_why why)
{
	struct rr_sizes sizes = { 0 };

	v2_params(0, true);
	o.p.sizes = &sizes;
	v2_start(1);
	if (prog == 100003)
		send_words(WORDS(msg, NFS_READDIR(5, 3000)));
	else
		send_words(WORDS(msg, 5, 0, 2, prog, 1, proc, 0, 0, 0, 0));
	refused(5, REPLY_RESOURCE, 0, needed);
	cr_assert_eq(v2_failed(), why);
	cr_assert_eq(rr_sizes_get(&sizes, prog, prog == 100003 ? 3 : 1, proc), 0);
	one_fini(&o);
}

Test(engine_v2_again, nothing_is_learnt_where_there_is_nothing_to_learn)
{
	nothing_is_learnt(100003, 16, 5000, RR_WHY_NONE);	/* it is sent again, with so much */
	nothing_is_learnt(0x20000001, 1, 0, RR_WHY_TOO_LARGE);
	nothing_is_learnt(0x20000001, 1, 65537, RR_WHY_TOO_LARGE);
}

Test(engine_v2_again, the_largest_that_may_be_offered_is_learnt)
{
	struct rr_sizes sizes = { 0 };

	v2_params(0, true);
	o.p.sizes = &sizes;
	v2_start(1);
	send_words(WORDS(msg, 5, 0, 2, 0x20000001, 1, 1, 0, 0, 0, 0));
	refused(5, REPLY_RESOURCE, 0, 65536);
	was_given_up(RR_WHY_ERR_CHUNK);
	cr_assert_eq(rr_sizes_get(&sizes, 0x20000001, 1, 1), 65536);
	one_fini(&o);
}

/* Room is kept for a Reply chunk of as many segments as there may be: no call is put into a chunk that fits beside it,
 * and none is inline that may not. For every length at which it was inline at first. */
Test(engine_v2_again, what_fits_inline_beside_the_new_chunk_stays_there)
{
	uint32_t stayed = 0, moved = 0;

	for (uint32_t len = 0; len <= 1024; len += 4) {
		uint32_t n, hdr = 9 * 4 + 4;	/* without chunks, and how many segments the Reply chunk has */

		v2_begin(0, true);
		hdr += 16 * o.p.max_segs;
		n = WORDS(msg, NFS(5, 3), 4, 1, len) + len;
		cr_assert_eq(send_words(n), 0);
		if (word_of_send(3) == MSG) {
			refused(5, REPLY_RESOURCE, 0, 3000);
			cr_assert_eq(v2_failed(), RR_WHY_NONE);
			cr_assert_eq(word_of_send(3), hdr + n <= o.p.inline_send ? MSG : NOMSG, "%u + %u", hdr, n);
			stayed += word_of_send(3) == MSG;
			moved += word_of_send(3) == NOMSG;
		}
		one_fini(&o);
	}
	cr_assert_gt(stayed, 100);
	cr_assert_gt(moved, 10);
}

Test(engine_v2_again, more_than_may_be_offered_is_given_up)
{
	v2_begin(0, true);
	send_words(WORDS(msg, NFS_READDIR(5, 3000)));
	refused(5, REPLY_RESOURCE, 0, 65537);
	was_given_up(RR_WHY_TOO_LARGE);
	one_fini(&o);
}

Test(engine_v2_again, an_error_without_a_length_says_nothing_new)
{
	v2_begin(0, true);
	send_words(WORDS(msg, NFS_READDIR(5, 3000)));
	refused(5, REPLY_RESOURCE, 0, 0);
	was_given_up(RR_WHY_TOO_LARGE);
	one_fini(&o);
	v2_begin(0, true);
	send_read(5, 2000);
	refused(5, WRITE_RESOURCE, 0, 0);
	was_given_up(RR_WHY_TOO_LARGE);
	one_fini(&o);
}

/* --- others --- */

/* req: version-two-08 5.3.3 #19 */
Test(engine_v2_again, other_errors_are_final)
{
	static const uint32_t final[] = { SYSTEM, BAD_XDR, INVAL_HTYPE, 10 };

	for (uint32_t i = 0; i < 4; i++) {
		v2_begin(0, true);
		send_read(5, 2000);
		refused(5, final[i], 0, 0);
		was_given_up(RR_WHY_REFUSED);
		one_fini(&o);
	}
}

/* req: version-two-08 5.3.3 #2 */
Test(engine_v2_again, credits_in_an_error_are_ignored)
{
	v2_begin(0, true);
	send_read(5, 2000);
	ONE_RECV(&o, 5, 2, 1, ERROR, REPLY, WRITE_RESOURCE, 1, 2400);
	cr_assert_eq(v2_failed(), RR_WHY_NONE);
	cr_assert_eq(one_info(&o).granted, 8);
	cr_assert_eq(one_info(&o).inflight, 1);
	one_fini(&o);
}

Test(engine_v2_again, an_error_for_nothing_is_discarded)
{
	v2_begin(0, true);
	refused(5, SYSTEM, 0, 0);
	cr_assert_eq(v2_failed(), RR_WHY_NONE);
	send_read(6, 2000);
	o.hold_invalidate = true;
	refused(6, WRITE_RESOURCE, 1, 2400);
	refused(6, WRITE_RESOURCE, 1, 2400);	/* it is not out again yet */
	cr_assert_eq(v2_failed(), RR_WHY_NONE);
	one_fini(&o);
}

Test(engine_v2_again, nothing_is_exposed_anew_before_the_first_exposures_are_fenced)
{
	struct rr_op inv;

	v2_begin(0, true);
	send_read(5, 2000);
	o.hold_invalidate = true;
	refused(5, WRITE_RESOURCE, 1, 2400);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	inv = *one_op(&o, RR_OP_INVALIDATE, 0);
	one_done(&o, &inv);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 1);
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1);
	one_fini(&o);
}

Test(engine_v2_again, a_send_that_completes_late_keeps_its_buffer_until_then)
{
	struct rr_op first;

	v2_begin(0, true);
	o.hold_send = true;
	send_lookup(5);
	first = *one_op(&o, RR_OP_SEND, 0);
	refused(5, REPLY_RESOURCE, 0, 3000);
	is_answered(5, 1);		/* the Reply chunk; two Sends are still to complete */
	one_done(&o, &first);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	one_done(&o, &first);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 2);
	one_fini(&o);
}

Test(engine_v2_again, with_ring_credits_nothing_is_kept_and_nothing_sent_again)
{
	v2_begin(RR_CAP_RING_CREDITS, true);
	send_lookup(5);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
	refused(5, REPLY_RESOURCE, 0, 3000);
	was_given_up(RR_WHY_TOO_LARGE);
	one_fini(&o);
}

Test(engine_v2_again, with_reliable_replies_a_long_call_may_still_have_too_many_segments)
{
	v2_params(RR_CAP_RELIABLE_REPLY, true);
	o.nsegs = 3;
	v2_start(1);
	send_write(5, 4000);
	cr_assert_eq(word_of_send(3), NOMSG);
	o.nsegs = 1;
	refused(5, SEGMENTS, 1, 0);
	cr_assert_eq(word_of_send(3), NOMSG);
	is_answered(5, 1);
	one_fini(&o);
}

Test(engine_v2_again, who_always_wants_it_otherwise_gets_it_four_times)
{
	v2_begin(0, true);
	send_lookup(5);
	for (uint32_t i = 1; i < 4; i++) {
		refused(5, REPLY_RESOURCE, 0, 3000 * i);
		cr_assert_eq(one_count(&o, RR_OP_SEND), 1, "%u", i);
	}
	refused(5, REPLY_RESOURCE, 0, 12000);
	was_given_up(RR_WHY_TOO_LARGE);
	one_fini(&o);
}
