/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "core/base/compiler.h"
#include "tests/lib/oneside.h"
#include "tests/unit/ulb_msg.h"

/* What the requester makes of upper-layer bindings with a peer that is plain RFC 8166 (Linux' server):
 * Read chunks for its arguments, a Write chunk or a Reply chunk of the right size for the
 * reply, and how data in a Write chunk becomes part of the message. */

#define MSG	0
#define NOMSG	1
#define FH	32u
#define XID	7u

static struct one o;
static struct msg m;

static void start(void)
{
	one_init(&o, 0, true);
}

static void finish(void)
{
	one_fini(&o);
}

#define CASE(name) Test(engine_offers, name, .init = start, .fini = finish)

static void again(void)
{
	finish();
	start();
}

/* RFC 1813 §3.3.6, §3.3.7, §3.3.16 */
static void read3(uint32_t count)
{
	begin_call(&m, NFS, 3, 6);
	add_opaque(&m, FH);
	W(&m, 0, 0, count);
}

static uint32_t write3(uint32_t len)
{
	begin_call(&m, NFS, 3, 7);
	add_opaque(&m, FH);
	W(&m, 0, 0, len, 2);
	add_opaque(&m, len);
	return m.n - len - rr_ulb_pad(len);
}

static void readdir3(uint32_t count)
{
	begin_call(&m, NFS, 3, 16);
	add_opaque(&m, FH);
	W(&m, 0, 0, 0, 0, count);
}

static void compound(uint32_t minor, uint32_t ops)
{
	begin_call(&m, NFS, 4, 1);
	W(&m, 0, minor, ops);
}

static uint32_t write4(uint32_t len)
{
	W(&m, 38, 1, 2, 3, 4, 0, 0, 2);
	add_opaque(&m, len);
	return m.n - len - rr_ulb_pad(len);
}

static void read4(uint32_t count)
{
	W(&m, 25, 1, 2, 3, 4, 0, 0, count);
}

static void call_out(void)
{
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
}

/* The bound that the binding knows. */
static const struct rr_ulb_call *bound(void)
{
	cr_assert_eq(look(&m), RR_ULB_OK);
	return &call;
}

static const struct rr_op *exposed(uint32_t n)
{
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), n, "%u exposures", one_count(&o, RR_OP_EXPOSE));
	return one_op(&o, RR_OP_EXPOSE, 0);
}

#define HEADER_IS(...) do { \
	const uint32_t want[] = { __VA_ARGS__ }; \
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1); \
	for (uint32_t w = 0; w < rr_array_size(want); w++) \
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u is %x", w, one_word(&o, 0, w)); \
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, sizeof(want)); \
} while (0)

/* --- the reply ---------------------------------------------------------------------------- */

/* req: rfc8166 3.4.6 #1, 3.4.6.2 #1 */
CASE(a_read_offers_a_write_chunk_of_what_it_asks_for)
{
	const struct rr_op *ex;
	uint32_t around;

	read3(8193);
	around = bound()->reply_rest;
	call_out();
	ex = exposed(1);
	cr_assert_eq(ex->buf, RR_BUF_NEW);
	cr_assert_eq(ex->rights, RR_RIGHT_WRITE);
	cr_assert_eq(ex->len, 8193);
	cr_assert_eq(ex->off, around);
	cr_assert_eq(ex->room, 8196 + 2 * around);
	HEADER_IS(XID, 1, 8, MSG, 0, 1, 1, 0x100, 8193, 0, 0x5000 + around, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, m.n);
}

/* req: rfc8166 4.3.3 #1 */
CASE(what_surely_fits_inline_offers_nothing_to_the_byte)
{
	uint32_t around;

	read3(0);
	around = bound()->reply_max;
	for (uint32_t count = 1024 - 164 - around - 4; count <= 1024 - 164 - around + 4; count++) {
		again();
		read3(count);
		call_out();
		exposed(bound()->reply_max > 1024 - 164);
		cr_assert_eq(one_word(&o, 0, 5), bound()->reply_max > 1024 - 164);
	}
}

/* RFC 8166 §3.3.2: a reply that we could receive may be more than the peer sends at once. */
/* req: rfc8166 3.3.3 #4, 4.3.3 #1 */
Test(engine_offers, what_the_peer_does_not_send_inline_has_a_chunk)
{
	static const struct { uint32_t peer, most; } row[] = { { 0, 4096 }, { 1024, 1024 }, { 8192, 4096 } };

	for (size_t i = 0; i < rr_array_size(row); i++) {
		for (uint32_t over = 0; over < 2; over++) {
			one_params(&o, 0, true);
			o.p.inline_recv = 4096;
			o.p.inline_peer = row[i].peer;
			one_start(&o);
			readdir3(0);
			readdir3(row[i].most - 164 - bound()->reply_max + 4 * over);
			call_out();
			exposed(over);
			finish();
		}
	}
}

/* req: rfc8166 4.3.3 #1 */
CASE(a_reply_of_which_nothing_is_eligible_has_a_reply_chunk_of_its_bound)
{
	const struct rr_op *ex;

	readdir3(8000);
	call_out();
	ex = exposed(1);
	cr_assert_eq(ex->len, bound()->reply_max);
	cr_assert_eq(ex->off, 0);
	cr_assert_eq(ex->room, ex->len);
	HEADER_IS(XID, 1, 8, MSG, 0, 0, 1, 1, 0x100, bound()->reply_max, 0, 0x5000);
}

CASE(no_reply_chunk_is_larger_than_configured)
{
	readdir3(1 << 20);
	call_out();
	cr_assert_eq(exposed(1)->len, o.p.reply_chunk_max);
}

/* What else the reply brings may not fit inline beside the Write chunk: then everything is in the
 * Reply chunk, since one key is what a server can invalidate. */
CASE(either_a_write_chunk_or_a_reply_chunk_is_offered)
{
	compound(0, 2);
	read4(8192);
	read4(400);
	call_out();
	cr_assert_eq(exposed(1)->len, bound()->reply_max);
	HEADER_IS(XID, 1, 8, MSG, 0, 0, 1, 1, 0x100, bound()->reply_max, 0, 0x5000);
}

CASE(the_write_chunk_is_for_the_first_of_several_items)
{
	compound(0, 2);
	read4(8192);
	read4(100);
	call_out();
	cr_assert_eq(exposed(1)->len, 8192);
	cr_assert_eq(exposed(1)->off, bound()->reply_rest + 100);
	HEADER_IS(XID, 1, 8, MSG, 0, 1, 1, 0x100, 8192, 0, 0x5000 + bound()->reply_rest + 100, 0, 0);
}

/* req: rfc8166 3.4.6 #1 */
CASE(an_item_longer_than_any_chunk_has_a_reply_chunk)
{
	read3(o.p.reply_chunk_max + 1);
	call_out();
	cr_assert_eq(exposed(1)->len, o.p.reply_chunk_max);
	cr_assert_eq(one_word(&o, 0, 5), 0);
}

CASE(null_offers_nothing_but_what_makes_a_security_context_does)
{
	begin_call(&m, NFS, 3, 0);
	call_out();
	exposed(0);
	again();
	begin_gss(&m, 3, 1, 1, 1);	/* RPCSEC_GSS_INIT */
	add_opaque(&m, 400);
	call_out();
	cr_assert_eq(exposed(1)->len, o.p.reply_chunk);
	cr_assert_eq(one_word(&o, 0, 6), 1);
	again();
	begin_gss(&m, 3, 1, 0, 1);	/* RPCSEC_GSS_DATA */
	call_out();
	exposed(0);
}

/* A program that has no binding, too. */
CASE(a_security_context_of_any_program_has_a_reply_chunk)
{
	begin_gss(&m, 3, 1, 1, 1);
	rr_put_be32(m.b + 12, 0x20005244);
	call_out();
	cr_assert_eq(exposed(1)->len, o.p.reply_chunk);
	again();
	begin_call(&m, 0x20005244, 1, 0);
	call_out();
	exposed(0);
}

/* RFC 8267 §6.2.2 */
static void unbounded(void)
{
	compound(1, 2);
	W(&m, 53, 0, 0, 0, 0, 1, 2, 3, 0);	/* SEQUENCE */
	W(&m, 9, 1, 1 << 12);		/* GETATTR of the ACL */
	call_out();
}

CASE(the_largest_session_bounds_what_has_no_bound)
{
	unbounded();
	cr_assert_eq(exposed(1)->len, o.p.reply_chunk, "nothing is known");
	again();
	o.p.reply_chunk_max = 1 << 20;
	finish();
	one_start(&o);
	for (uint32_t i = 0; i < 2; i++) {
		from_vector(&m, &v41_create_session_call);
		rr_put_be32(m.b + 4 * 25, 30000 - i);	/* ca_maxresponsesize, fore channel */
		call_out();
		ONE_RECV(&o, 2, 1, 4, MSG, 0, 0, 0, A_REPLY(2));
	}
	one_clear(&o);
	unbounded();
	cr_assert_eq(exposed(1)->len, 30000);
}

CASE(learned_sizes_are_those_of_replies_without_bound)
{
	static struct rr_sizes sizes;

	finish();
	one_params(&o, 0, true);
	o.p.sizes = &sizes;
	one_start(&o);
	read3(8192);
	call_out();
	ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, XID, 1, 0, 0, 0, 0, 70, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(rr_sizes_get(&sizes, NFS, 3, 6), 0);
	one_clear(&o);
	read3(8192);
	call_out();
	ONE_RECV(&o, XID, 1, 4, 4, 2);
	/* the next one would be no other: connections to this peer had better stay on TCP */
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_REFUSED);
	cr_assert_eq(rr_sizes_get(&sizes, NFS, 3, 6), 0);
}

Test(engine_offers, with_reliable_replies_nothing_is_offered)
{
	one_init(&o, RR_CAP_RELIABLE_REPLY, true);
	read3(8192);
	call_out();
	exposed(0);
	one_fini(&o);
}

/* RFC 8167 §5.3 */
Test(engine_offers, a_reverse_call_offers_nothing)
{
	one_init(&o, 0, false);
	read3(8192);
	call_out();
	exposed(0);
	write3(2000);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), -EMSGSIZE);
	one_fini(&o);
}

/* --- the policy ---------------------------------------------------------------------------- */

static void with_policy(uint32_t caps, bool connector, enum rr_reply_chunks policy)
{
	one_params(&o, caps, connector);
	o.p.reply_chunks = policy;
	one_start(&o);
}

Test(engine_offers, the_bounded_policy_offers_what_the_binding_knows_beside_reliable_replies)
{
	const struct rr_op *ex;

	with_policy(RR_CAP_RELIABLE_REPLY, true, RR_REPLY_CHUNKS_BOUNDED);
	readdir3(8192);
	call_out();
	ex = exposed(1);
	cr_assert_eq(ex->rights, RR_RIGHT_WRITE);
	cr_assert_eq(ex->len, bound()->reply_max);
	ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, A_REPLY(XID));
	one_clear(&o);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, 99, 40), 0);	/* who knows? */
	exposed(0);
	one_fini(&o);
}

Test(engine_offers, beside_reliable_replies_a_long_call_is_pulled_whole)
{
	with_policy(RR_CAP_RELIABLE_REPLY, true, RR_REPLY_CHUNKS_BOUNDED);
	write3(5001);
	call_out();
	cr_assert_eq(exposed(1)->len, m.n);
	cr_assert_eq(one_word(&o, 0, 3), NOMSG);
	cr_assert_eq(one_word(&o, 0, 5), 0, "not at position zero");
	one_fini(&o);
}

Test(engine_offers, what_was_offered_is_fenced_before_a_reply_that_is_pulled_instead)
{
	uint8_t head[24];
	uint32_t id;

	with_policy(RR_CAP_RELIABLE_REPLY, true, RR_REPLY_CHUNKS_BOUNDED);
	readdir3(8192);
	call_out();
	o.hold_invalidate = true;
	ONE_RECV(&o, XID, 1, 4, NOMSG, 1, 0, 0x21, 9000, 0, 16, 0, 0, 0);
	id = one_op(&o, RR_OP_PULL, 0)->id;
	WORDS(head, A_REPLY(XID));
	rr_eng_head(o.e, id, 0, head, 24, o.now);
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	one_done(&o, one_op(&o, RR_OP_INVALIDATE, 0));
	one_run(&o);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->from, RR_FROM_PULL);
	one_fini(&o);
}

Test(engine_offers, the_bounded_policy_offers_nothing_where_nothing_is_known)
{
	with_policy(0, true, RR_REPLY_CHUNKS_BOUNDED);
	cr_assert_eq(one_send(&o, RR_RPC_CALL, XID, 40), 0);
	exposed(0);
	one_clear(&o);
	ONE_RECV(&o, XID, 1, 4, 4, 2);	/* it will not be more next time */
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_TOO_LARGE);
	one_fini(&o);
}

Test(engine_offers, the_never_policy_offers_write_chunks_alone)
{
	with_policy(0, true, RR_REPLY_CHUNKS_NEVER);
	readdir3(8192);
	call_out();
	exposed(0);
	ONE_RECV(&o, XID, 1, 4, 4, 2);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_TOO_LARGE);
	one_fini(&o);
	with_policy(0, true, RR_REPLY_CHUNKS_NEVER);
	read3(8192);
	call_out();
	exposed(1);
	one_fini(&o);
}

/* RFC 8167 §5.3 */
Test(engine_offers, a_reverse_call_has_chunks_where_that_is_agreed)
{
	one_init(&o, RR_CAP_REVERSE_CHUNKS, false);
	readdir3(8192);
	call_out();
	cr_assert_eq(exposed(1)->len, bound()->reply_max);
	ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, A_REPLY(XID));
	one_clear(&o);
	write3(5001);
	call_out();
	cr_assert_eq(exposed(1)->len, 5001);
	cr_assert_neq(one_word(&o, 0, 5), 0, "the data alone");
	one_fini(&o);
}

/* --- the arguments ------------------------------------------------------------------------- */

static void sent_part(uint32_t i, uint32_t off, uint32_t len)
{
	const struct rr_op *s = one_op(&o, RR_OP_SEND, 0);

	cr_assert_lt(i, s->nparts);
	cr_assert_eq(o.parts[s - o.op][i].off, off);
	cr_assert_eq(o.parts[s - o.op][i].len, len);
}

/* req: rfc8166 3.4.4.1 #1 #2, 3.4.4.4 #2, 3.4.5.2 #1 */
CASE(data_that_does_not_fit_goes_into_a_read_chunk_without_padding)
{
	uint32_t pos = write3(5001);
	const struct rr_op *ex;

	call_out();
	ex = exposed(1);
	cr_assert_eq(ex->buf, 1000);
	cr_assert_eq(ex->off, pos);
	cr_assert_eq(ex->len, 5001);
	cr_assert_eq(ex->rights, RR_RIGHT_READ);
	HEADER_IS(XID, 1, 8, MSG, 1, pos, 0x100, 5001, 0, 0x5000 + pos, 0, 0, 0);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, pos);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->nparts, 1);
	sent_part(0, 0, pos);
	cr_assert_eq(o.count.v[RR_C_read_chunks_sent], 1);
}

CASE(data_that_fits_is_inline_to_the_byte)
{
	uint32_t fixed = write3(0);

	for (uint32_t len = 1024 - 28 - fixed - 4; len <= 1024 - 28 - fixed + 4; len++) {
		again();
		write3(len);
		call_out();
		exposed(m.n > 1024 - 28);
		cr_assert_eq(one_word(&o, 0, 4), m.n > 1024 - 28, "%u bytes", m.n);
	}
}

/* RFC 8267 §6.4.2: one Read chunk */
/* req: rfc8166 3.4.2 #1, 3.4.5 #1 */
CASE(the_largest_of_several_items_goes_and_what_is_around_it_stays)
{
	uint32_t pos;

	compound(0, 3);
	write4(101);
	pos = write4(3002);
	write4(102);
	call_out();
	cr_assert_eq(exposed(1)->off, pos);
	cr_assert_eq(exposed(1)->len, 3002);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->nparts, 2);
	sent_part(0, 0, pos);
	sent_part(1, pos + 3004, m.n - pos - 3004);
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->len, m.n - 3004);
}

CASE(a_call_that_one_chunk_does_not_make_short_is_at_position_zero_whole)
{
	compound(0, 2);
	write4(3000);
	write4(2000);
	call_out();
	cr_assert_eq(exposed(1)->len, m.n);
	cr_assert_eq(exposed(1)->off, 0);
	HEADER_IS(XID, 1, 8, NOMSG, 1, 0, 0x100, m.n, 0, 0x5000, 0, 0, 0);
}

/* The largest Read chunk that we make is reckoned with, to the byte. */
CASE(what_is_left_of_the_call_must_fit)
{
	const uint32_t most = 1024 - 28 - 8 * 24;
	uint32_t fixed;

	compound(0, 2);
	write4(0);
	write4(0);
	fixed = m.n;
	for (uint32_t len = most - fixed - 4; len <= most - fixed + 4; len += 4) {
		again();
		o.nsegs = 8;
		compound(0, 2);
		write4(5000);
		write4(len);
		call_out();
		cr_assert_eq(one_word(&o, 0, 3), fixed + len <= most ? MSG : NOMSG);
	}
}

/* RFC 8166 §8.2.2.3 */
/* req: rfc8166 6.1 #1, 8.2.2.3 #1 */
CASE(nothing_is_reduced_under_integrity)
{
	begin_gss(&m, 3, 1, 0, 2);
	set_proc(&m, 7);
	W(&m, 5072, 99);
	add_opaque(&m, FH);
	W(&m, 0, 0, 5000, 2);
	add_opaque(&m, 5000);
	call_out();
	cr_assert_eq(exposed(2)->len, m.n);
	cr_assert_eq(one_word(&o, 0, 3), NOMSG);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 1)->len, bound()->reply_max);
}

/* Read chunk and Write chunk in one call */
CASE(a_call_may_have_both)
{
	compound(0, 2);
	write4(3000);
	read4(4000);
	call_out();
	cr_assert_eq(exposed(2)->rights, RR_RIGHT_READ);
	cr_assert_eq(one_op(&o, RR_OP_EXPOSE, 1)->rights, RR_RIGHT_WRITE);
	cr_assert_eq(one_word(&o, 0, 3), MSG);
	cr_assert_eq(one_word(&o, 0, 4), 1);
	cr_assert_eq(one_word(&o, 0, 11), 1);
}

/* The Send gathers from the buffer, and the peer reads from it. */
CASE(a_reduced_call_is_released_when_it_is_fenced_and_its_send_has_ended)
{
	for (int first = 0; first < 2; first++) {
		again();
		o.hold_send = true;
		write3(5000);
		call_out();
		if (first == 0)
			one_done(&o, one_op(&o, RR_OP_SEND, 0));
		else
			ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, A_REPLY(XID));
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), 0);
		if (first == 0)
			ONE_RECV(&o, XID, 1, 4, MSG, 0, 0, 0, A_REPLY(XID));
		else
			one_done(&o, one_op(&o, RR_OP_SEND, 0));
		one_run(&o);
		cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1);
		cr_assert_eq(one_op(&o, RR_OP_RELEASE, 0)->buf, 1000);
		cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
		cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
	}
}

CASE(a_read_chunk_waits_for_a_key)
{
	o.no_memory = true;
	write3(5000);
	call_out();
	cr_assert_eq(one_count(&o, RR_OP_SEND), 0);
	o.no_memory = false;
	o.now = rr_eng_deadline(o.e);
	rr_eng_tick(o.e, o.now);
	one_run(&o);
	cr_assert_eq(one_word(&o, 0, 4), 1);
}

/* --- data in the Write chunk ---------------------------------------------------------------- */

static uint32_t around;

/* A READ of 8193 bytes is out: key 0x100, offset 0x5000 + around. */
static void read_out(void)
{
	read3(8193);
	around = bound()->reply_rest;
	call_out();
	one_clear(&o);
}

/* A successful READ's reply, its data taken out; the position of that */
static uint32_t read_reply(uint32_t len)
{
	begin_reply(&m, 0);
	W(&m, 0, 1);
	add_words(&m, 21);
	W(&m, len, 1, len);
	return m.n;
}

static void receive(uint32_t inv, const uint32_t *hdr, size_t n)
{
	static uint8_t b[20000];
	uint32_t len = put_words(b, hdr, n);

	memcpy(b + len, m.b, m.n);
	one_recv(&o, b, len + m.n, inv);
}

/* A transport header, and the stream m. */
#define REPLY(inv, ...) \
	receive((inv), (const uint32_t[]){ XID, 1, 4, __VA_ARGS__ }, \
		rr_array_size(((const uint32_t[]){ XID, 1, 4, __VA_ARGS__ })))

/* … with a Write list of one chunk of one segment of ours, of so many bytes */
#define WRITTEN(len)	MSG, 0, 1, 1, 0x100, (len), 0, 0x5000 + around, 0, 0

static void is_placed(uint32_t pos, uint32_t len)
{
	const struct rr_op *p = one_op(&o, RR_OP_PLACE, 0), *d = one_op(&o, RR_OP_DELIVER, 0);

	cr_assert_not_null(p);
	cr_assert_eq(p->off, 52, "where the stream is in the receive");
	cr_assert_eq(p->stream, m.n);
	cr_assert_eq(p->at, around - pos);
	cr_assert_eq(p->nparts, 1);
	cr_assert_eq(o.parts[p - o.op][0].off, pos);
	cr_assert_eq(o.parts[p - o.op][0].len, len);
	cr_assert_eq(p->len, m.n + len + rr_ulb_pad(len));
	cr_assert_eq(d->from, RR_FROM_BUF);
	cr_assert_eq(d->buf, p->buf);
	cr_assert_eq(d->off, p->at);
	cr_assert_eq(d->len, p->len);
	cr_assert_lt(p, one_op(&o, RR_OP_REPOST, 0), "the stream is still in it");
	cr_assert_lt(p, d);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1, "of the call only");
	cr_assert_eq(o.count.v[RR_C_write_chunks_received], 1);
}

CASE(data_in_the_write_chunk_is_placed_when_it_is_fenced)
{
	uint32_t pos;

	read_out();
	pos = read_reply(5001);
	o.hold_invalidate = true;
	o.hold_send = true;
	REPLY(0, WRITTEN(5001));
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_count(&o, RR_OP_PLACE), 0);
	cr_assert_eq(one_count(&o, RR_OP_REPOST), 0);
	one_done(&o, one_op(&o, RR_OP_INVALIDATE, 0));
	one_run(&o);
	o.op[o.nops++] = (struct rr_op){ .code = RR_OP_RELEASE };	/* went with its Send, before */
	is_placed(pos, 5001);
}

CASE(a_key_that_the_peer_has_invalidated_is_not_invalidated_again)
{
	read_out();
	read_reply(5000);
	REPLY(0x100, WRITTEN(5000));
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	cr_assert_eq(one_count(&o, RR_OP_PLACE), 1);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 1);
}

CASE(several_segments_may_be_filled_in_part)
{
	o.nsegs = 2;
	read_out();
	read_reply(5000);
	REPLY(0, MSG, 0, 1, 2, 0x100, 4096, 0, 0x5000 + around, 0x101, 904, 0, 0x5000 + around + 4096, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_PLACE), 1);
}

/* RFC 8166 §4.3.2.2: a server may place a later item in the chunk that the first left unused. */
/* req: rfc8166 4.3.2.2 #2 */
CASE(the_write_chunk_holds_the_largest_item_that_may_come_into_it)
{
	compound(0, 2);
	read4(300);
	read4(380);
	call_out();
	cr_assert_eq(exposed(1)->len, 380);
	around = exposed(1)->off;
	cr_assert_eq(around, bound()->reply_rest + 380);
	HEADER_IS(XID, 1, 8, MSG, 0, 1, 1, 0x100, 380, 0, 0x5000 + around, 0, 0);
	one_clear(&o);
	begin_reply(&m, 0);
	W(&m, 0, 0, 2, 25, 0, 1, 0, 25, 0, 1, 380);
	o.op[o.nops++] = (struct rr_op){ .code = RR_OP_RELEASE };	/* went with its Send, before */
	REPLY(0, WRITTEN(380));
	is_placed(m.n, 380);
}

static void is_plain(void)
{
	const struct rr_op *d = one_op(&o, RR_OP_DELIVER, 0);

	cr_assert_not_null(d);
	cr_assert_eq(d->from, RR_FROM_RECV);
	cr_assert_eq(d->len, m.n);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_eq(one_count(&o, RR_OP_RELEASE), 1, "of the chunk");
	cr_assert_eq(one_count(&o, RR_OP_FAIL), 0);
}

/* req: rfc8166 4.3.2.2 #4; draft-02 3.4 #5 */
CASE(an_unused_chunk_goes_back)
{
	read_out();
	begin_reply(&m, 0);
	W(&m, 70, 0);
	REPLY(0, WRITTEN(0));
	is_plain();
	again();
	read_out();
	read_reply(0);
	REPLY(0, WRITTEN(0));
	is_plain();
}

/* Servers are known that do not return what they did not use. */
/* req: rfc8166 4.3.2.2 #4 */
CASE(a_chunk_that_is_not_returned_was_not_used)
{
	read_out();
	m.n = 0;
	W(&m, XID, 1, 1, 1, 2);
	REPLY(0, MSG, 0, 0, 0);
	is_plain();
}

CASE(the_longest_reply_fits_the_buffer)
{
	uint32_t pos;

	read_out();
	begin_reply(&m, 400);
	W(&m, 0, 1);
	add_words(&m, 21);
	W(&m, 8193, 1, 8193);
	pos = m.n;
	REPLY(0, WRITTEN(8193));
	cr_assert_eq(one_op(&o, RR_OP_PLACE, 0)->at, around - pos);
	cr_assert_eq(one_op(&o, RR_OP_DELIVER, 0)->len, pos + 8196);
}

static void is_failed(void)
{
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(one_count(&o, RR_OP_PLACE), 0);
	cr_assert_eq(one_op(&o, RR_OP_FAIL, 0)->why, RR_WHY_PROTOCOL);
}

/* RFC 8166 §6.1, §3.4.6.2 */
#define FAILS(name, len, ...) CASE(name) \
{ \
	read_out(); \
	read_reply(len); \
	REPLY(0, __VA_ARGS__); \
	is_failed(); \
}

FAILS(more_bytes_than_the_item_has_are_a_violation, 5000, WRITTEN(5004))
/* req: rfc8166 3.4.6.2 #3 */
FAILS(fewer_bytes_than_the_item_has_are_a_violation, 5000, WRITTEN(4999))
/* req: rfc8166 3.4.6.2 #3 */
FAILS(padding_in_the_chunk_is_a_violation, 4999, WRITTEN(5000))
/* req: rfc8166 3.4.6 #1 */
FAILS(more_bytes_than_were_offered_are_a_violation, 8194, WRITTEN(8194))
FAILS(a_chunk_for_another_key_is_a_violation, 5000,
      MSG, 0, 1, 1, 0x101, 5000, 0, 0x5000 + around, 0, 0)
FAILS(a_chunk_at_another_offset_is_a_violation, 5000, MSG, 0, 1, 1, 0x100, 5000, 0, 0x5000, 0, 0)
FAILS(a_chunk_with_more_segments_is_a_violation, 5000,
      MSG, 0, 1, 2, 0x100, 5000, 0, 0x5000 + around, 0x101, 0, 0, 0, 0, 0)
/* req: rfc8166 6.1 #4 */
FAILS(more_chunks_than_were_offered_are_a_violation, 5000,
      MSG, 0, 1, 1, 0x100, 5000, 0, 0x5000 + around, 1, 0, 0, 0)

/* req: rfc8166 6.1 #4 */
CASE(bytes_for_a_result_without_data_are_a_violation)
{
	read_out();
	begin_reply(&m, 0);
	W(&m, 70, 0);
	REPLY(0, WRITTEN(5000));
	is_failed();
}

/* req: rfc8166 6.1 #5 */
CASE(data_that_is_inline_although_there_is_a_chunk_is_a_violation)
{
	read_out();
	read_reply(8);
	add_words(&m, 2);
	REPLY(0, WRITTEN(0));
	is_failed();
}

/* Whatever the bound said: what lies around the data must have room there. */
CASE(a_reply_longer_than_its_bound_is_a_violation)
{
	compound(0, 1);
	read4(8000);
	around = bound()->reply_rest;
	call_out();
	one_clear(&o);
	begin_reply(&m, 0);
	W(&m, 0);
	add_opaque(&m, around);		/* a longer tag than that of the call */
	W(&m, 1, 25, 0, 1, 5000);
	REPLY(0, WRITTEN(5000));
	is_failed();
}

CASE(a_write_list_that_nobody_asked_for_is_discarded)
{
	readdir3(8000);
	call_out();
	one_clear(&o);
	read_reply(5000);
	REPLY(0, MSG, 0, 1, 1, 0x100, 5000, 0, 0x5000, 0, 0);
	cr_assert_eq(one_count(&o, RR_OP_DELIVER), 0);
	cr_assert_eq(o.count.v[RR_C_discarded], 1);
}

Test(engine_offers, of_a_peer_that_has_gone_back_to_tcp_nothing_is_awaited)
{
	one_init(&o, RR_CAP_RING_CREDITS, true);
	for (uint32_t i = 0; i < 40; i++) {
		read3(8193);
		if (one_send_bytes(&o, m.b, m.n) == -EAGAIN)
			break;
	}
	rr_eng_hatched(o.e);
	one_clear(&o);
	read3(8193);
	while (one_send_bytes(&o, m.b, m.n) == -EAGAIN)	/* the oldest is forgotten */
		cr_assert_gt(one_count(&o, RR_OP_INVALIDATE), 0);
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), 0);
	one_fini(&o);
}

/* With ring credits: the peer may still write to a chunk of a call that was forgotten. */
Test(engine_offers, a_write_chunk_is_fenced_before_its_call_is_forgotten)
{
	one_params(&o, RR_CAP_RING_CREDITS, true);
	one_start(&o);
	for (uint32_t i = 0; i < 40; i++) {
		read3(8193);
		if (one_send_bytes(&o, m.b, m.n) == -EAGAIN)
			break;
	}
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 0);
	o.now += 11 * RR_SEC;
	one_clear(&o);
	read3(8193);
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), -EAGAIN);
	cr_assert_eq(one_count(&o, RR_OP_INVALIDATE), 1);
	cr_assert_lt(one_op(&o, RR_OP_INVALIDATE, 0), one_op(&o, RR_OP_RELEASE, 0));
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
	one_fini(&o);
}
