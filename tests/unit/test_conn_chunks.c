/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections between peers that agree on nothing beyond RFC 8166: data in Read chunks and Write
 * chunks becomes part of its message, whatever the provider. And a peer played by hand, for
 * what our own requester never sends. */

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "tests/lib/bytes.h"
#include "tests/lib/fakepair.h"

#define READ	6u
#define WRITE	7u
#define READDIR	16u
#define FH	32u

static void open_pair(const struct rr_fake_conf *conf)
{
	struct rr_fake_conf c = *conf;

	rr_test_setup();
	rr_test_params.reliable_replies = false;
	c.eager = true;
	open_over(&c, 17);
}

TestSuite(conn_chunks, .timeout = 60);

static uint64_t counted(enum rr_counter c)
{
	return p.server.c->share->qp->count->v[c];
}

/* --- messages ----------------------------------------------------------------------------- */

static uint32_t put_data(uint8_t *at, uint32_t len, uint32_t seed)
{
	uint64_t rng = seed;
	uint32_t n = WORDS(at, len);

	rng_bytes(&rng, at + n, len);
	memset(at + n + len, 0, -len & 3);
	return n + len + (-len & 3);
}

static size_t finish(uint8_t *rec, uint32_t n)
{
	rr_rm_put(rec, n, true);
	return n + RR_RM_HDR;
}

static uint32_t begin(uint8_t *m, uint32_t xid, uint32_t proc)
{
	uint32_t n = WORDS(m, xid, 0, 2, 100003, 3, proc, 0, 0, 0, 0, FH);

	memset(m + n, 'h', FH);
	return n + FH;
}

static size_t write_call(uint8_t *rec, uint32_t xid, uint32_t len)
{
	uint8_t *m = rec + RR_RM_HDR;
	uint32_t n = begin(m, xid, WRITE);

	n += WORDS(m + n, 0, 0, len, 2);
	n += put_data(m + n, len, xid);
	return finish(rec, n);
}

static size_t write_reply(uint8_t *rec, uint32_t xid, uint32_t len)
{
	return finish(rec, WORDS(rec + RR_RM_HDR, xid, 1, 0, 0, 0, 0, 0, 0, 0, len, 2, 3, 4));
}

static size_t read_call(uint8_t *rec, uint32_t xid, uint32_t count)
{
	uint8_t *m = rec + RR_RM_HDR;
	uint32_t n = begin(m, xid, READ);

	return finish(rec, n + WORDS(m + n, 0, 0, count));
}

static size_t read_reply(uint8_t *rec, uint32_t xid, uint32_t len)
{
	uint8_t *m = rec + RR_RM_HDR;
	uint32_t n = WORDS(m, xid, 1, 0, 0, 0, 0, 0, 0, len, 1);

	return finish(rec, n + put_data(m + n, len, xid));
}

static void write_one(uint32_t xid, uint32_t len)
{
	send_one(&p.client, &p.server, write_call(out, xid, len));
	send_one(&p.server, &p.client, write_reply(out, xid, len));
}

static void read_one(uint32_t xid, uint32_t count, uint32_t len)
{
	send_one(&p.client, &p.server, read_call(out, xid, count));
	send_one(&p.server, &p.client, read_reply(out, xid, len));
}

/* --- between two of ours ------------------------------------------------------------------- */

static const struct rr_fake_conf provider[] = {
	{ .delay = 0 },
	{ .reorder = true, .delay = 20 },
	{ .direct = true },
	{ .direct = true, .ring = true },
	{ .direct = true, .ring = true, .delay = 20, .eager = true },
	{ .inv = true },
	{ .inv = true, .reorder = true, .delay = 20 },
};

ParameterizedTestParameters(conn_chunks, data_of_every_size_passes_unaltered)
{
	return cr_make_param_array(const struct rr_fake_conf, (void *)provider, rr_array_size(provider));
}

ParameterizedTest(const struct rr_fake_conf *conf, conn_chunks, data_of_every_size_passes_unaltered)
{
	static const uint32_t size[] = { 0, 1, 100, 3411, 3412, 3413, 3990, 3996, 3997, 4096, 4099,
					 8192, 65537, 300002 };
	uint32_t xid = 10;

	open_pair(conf);
	for (size_t i = 0; i < rr_array_size(size); i++) {
		write_one(xid++, size[i]);
		read_one(xid++, size[i], size[i]);
		read_one(xid++, 300002, size[i]);
	}
	cr_assert(rr_conn_is_carried(p.client.c));
	cr_assert_geq(counted(RR_C_read_chunks_received), 5);
	cr_assert_geq(counted(RR_C_write_chunks_sent), 14);
	cr_assert_eq(counted(RR_C_write_chunks_sent), counted(RR_C_write_chunks_received));
	cr_assert_eq(counted(RR_C_reply_chunks_sent), 0);
	cr_assert_eq(counted(RR_C_err_chunk_sent), 0);
	/* a chunk that no data went to is invalidated, too */
	cr_assert_eq(counted(RR_C_invalidations_sent) >= counted(RR_C_read_chunks_received) +
		     counted(RR_C_write_chunks_sent), conf->inv);
	settle();
	close_pair();
}

/* A reply whose data goes to a Write chunk cannot be sent from the app's memory: it is written later. */
Test(conn_chunks, a_short_reply_may_be_written_to_a_chunk)
{
	open_pair(&provider[1]);
	read_one(5, 60000, 0);
	read_one(6, 60000, 40);
	cr_assert_eq(counted(RR_C_write_chunks_sent), 1);
	close_pair();
}

static size_t readdir_call(uint8_t *rec, uint32_t xid, uint32_t count)
{
	uint8_t *m = rec + RR_RM_HDR;
	uint32_t n = begin(m, xid, READDIR);

	return finish(rec, n + WORDS(m + n, 0, 0, 0, 0, count));
}

static size_t opaque_reply(uint8_t *rec, uint32_t xid, uint32_t len)
{
	uint8_t *m = rec + RR_RM_HDR;
	uint32_t n = WORDS(m, xid, 1, 0, 0, 0, 0);
	uint64_t rng = xid;

	rng_bytes(&rng, m + n, len - n);
	return finish(rec, len);
}

/* Nor can one that goes to the Reply chunk of its call since that, returned, leaves no room inline. */
Test(conn_chunks, replies_around_the_inline_threshold_pass_beside_reliable_replies)
{
	rr_test_setup();
	rr_test_params.eng.reply_chunks = RR_REPLY_CHUNKS_BOUNDED;
	open_over(&(struct rr_fake_conf){ .direct = true, .ring = true, .eager = true }, 17);
	for (uint32_t len = 4096 - 64; len < 4096 + 16; len += 4) {
		send_one(&p.client, &p.server, readdir_call(out, len, 8000));
		send_one(&p.server, &p.client, opaque_reply(out, len, len));
	}
	cr_assert_gt(counted(RR_C_reply_chunks_sent), 0);
	cr_assert(rr_conn_is_carried(p.client.c));
	settle();
	close_pair();
}

#define CALLS	20u
#define LONG	900001u

/* A long call, and a short one behind it that must not overtake it. */
static size_t two_calls(uint8_t *to, size_t i)
{
	size_t n = write_call(to, (uint32_t)(100 + i), LONG);

	return n + read_call(to + n, (uint32_t)(200 + i), 10);
}

static void answer_both(size_t i)
{
	static uint8_t reply[400], got[400];
	size_t n = write_reply(reply, (uint32_t)(100 + i), LONG);

	n += read_reply(reply + n, (uint32_t)(200 + i), 10);
	cr_assert_eq(rr_end_send(&p.server, &p.client, reply, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(&p.client, &p.server, got, n), (ssize_t)n);
	cr_assert_eq(memcmp(reply, got, n), 0);
}

/* More than the server's memory holds: it takes what it can, in order, and the rest later. */
ParameterizedTestParameters(conn_chunks, a_slow_reader_gets_every_write_in_the_end)
{
	return cr_make_param_array(const struct rr_fake_conf, (void *)provider, rr_array_size(provider));
}

ParameterizedTest(const struct rr_fake_conf *conf, conn_chunks, a_slow_reader_gets_every_write_in_the_end)
{
	size_t each = two_calls(out, 0), sent = 0, got = 0;

	open_pair(conf);
	read_one(1, 10, 10);
	for (int i = 0; got < each * CALLS; i++) {
		ssize_t k = -EAGAIN;

		two_calls(out, sent / each);
		if (sent < each * CALLS)
			k = rr_end_try_send(&p.client, out + sent % each, each - sent % each);
		cr_assert(k > 0 || k == -EAGAIN);
		sent += k > 0 ? (size_t)k : 0;
		rr_end_poll(&p.server, POLLIN);
		if (i < 300)
			continue;
		k = rr_end_try_recv(&p.server, in + got % each, each - got % each, 0);
		cr_assert(k > 0 || k == -EAGAIN);
		got += k > 0 ? (size_t)k : 0;
		if (k <= 0 || got % each)
			continue;
		two_calls(out, got / each - 1);
		cr_assert_eq(memcmp(in, out, each), 0, "call %zu", got / each);
		answer_both(got / each - 1);	/* a call keeps its memory until then */
	}
	close_pair();
}

/* The link is lost in the midst of it: what is delivered is right, and the rest is an error. */
Test(conn_chunks, a_loss_at_any_step_truncates_nothing)
{
	for (uint64_t at = 1; at < 300; at += 5) {
		size_t n, got = 0;
		ssize_t k = -EAGAIN;

		open_pair(&(struct rr_fake_conf){ .reorder = true, .delay = 6 });
		read_one(1, 10, 10);
		l.break_at = l.step + at;
		n = write_call(out, 2, 50001);
		n += read_call(out + n, 3, 20000);
		for (size_t sent = 0; (k > 0 || k == -EAGAIN) && got < n;) {
			k = sent < n ? rr_end_try_send(&p.client, out + sent, n - sent) : 0;
			sent += k > 0 ? (size_t)k : 0;
			if (l.broken && k < 0 && k != -EAGAIN)
				break;
			k = rr_end_try_recv(&p.server, in + got, n - got, 0);
			got += k > 0 ? (size_t)k : 0;
		}
		cr_assert_eq(memcmp(in, out, got), 0);
		cr_assert(got == n || l.broken);
		rr_pair_close(&p);
	}
}

/* A native peer has no TCP to go back to. */
static void ends_without_hatch(const void *rec, size_t n, enum rr_reason why)
{
	open_pair(&provider[0]);
	read_one(1, 10, 10);
	p.client.c->share->ep.caps &= ~(uint32_t)RR_CAP_HATCH;
	cr_assert_eq(rr_end_send(&p.client, &p.server, rec, n), -ECONNRESET);
	cr_assert_eq(p.client.c->share->st->reason, why);
	cr_assert_eq(rr_end_try_send(&p.client, rec, n), -EPIPE);
	rr_pair_close(&p);
}

Test(conn_chunks, without_hatch_a_record_that_cannot_be_carried_ends_the_connection)
{
	static const uint8_t junk[24] = { 0x80, 0, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8 };
	size_t n = write_call(out, 5, 1 << 20);

	ends_without_hatch(out, n, RR_R_TOO_LARGE);
	ends_without_hatch(junk, sizeof(junk), RR_R_NOT_RPC);
}

/* --- a peer played by hand ------------------------------------------------------------------- */

/* What the client's end exposes: pieces of its chunk memory, one behind the other. */
static uint8_t *mem;
static size_t mem_used;

static struct rr_seg show(const void *bytes, uint32_t len)
{
	struct rr_qp *qp = p.client.c->share->qp;
	struct rr_seg seg;

	if (!mem)
		mem = qp->mem + qp->mem_size / 2;
	memcpy(mem + mem_used, bytes, len);
	cr_assert_eq(qp->ops->expose(qp, mem + mem_used, len, RR_RIGHT_READ, &seg), 0);
	mem_used += len;
	return seg;
}

static uint32_t read_seg(uint8_t *at, uint32_t pos, struct rr_seg s)
{
	return WORDS(at, 1, pos, s.handle, s.length, (uint32_t)(s.offset >> 32), (uint32_t)s.offset);
}

static void send_raw(uint8_t *msg, uint32_t n)
{
	struct rr_qp *qp = p.client.c->share->qp;
	struct iovec iov = { msg, n };

	cr_assert_geq(qp->ops->send(qp, &iov, 1, 0, 0), 0);
	qp->ops->kick(qp);
}

/* A COMPOUND of three WRITEs: the record, and where the data of each is. */
static size_t three_writes(uint8_t *rec, uint32_t xid, const uint32_t len[3], uint32_t pos[3])
{
	uint8_t *m = rec + RR_RM_HDR;
	uint32_t n = WORDS(m, xid, 0, 2, 100003, 4, 1, 0, 0, 0, 0, 0, 0, 3);

	for (uint32_t i = 0; i < 3; i++) {
		n += WORDS(m + n, 38, 1, 2, 3, 4, 0, 0, 2);
		pos[i] = n + 4;
		n += put_data(m + n, len[i], xid + i);
	}
	return finish(rec, n);
}

/* The record's Payload stream without the data of the first and the third. */
static uint32_t reduced(const uint8_t *rec, size_t n, const uint32_t len[3], const uint32_t pos[3],
			uint8_t *to)
{
	const uint8_t *m = rec + RR_RM_HDR;
	uint32_t second = pos[0] + ((len[0] + 3) & ~3u), end = pos[2] + ((len[2] + 3) & ~3u), k;

	memcpy(to, m, pos[0]);
	k = pos[0];
	memcpy(to + k, m + second, pos[2] - second);
	k += pos[2] - second;
	memcpy(to + k, m + end, n - RR_RM_HDR - end);
	return k + (uint32_t)(n - RR_RM_HDR) - end;
}

/* The first chunk in three segments, the third with padding that is not zero; both listed
 * backwards. */
static uint32_t read_list(uint8_t *at, const uint8_t *m, const uint32_t len[3], const uint32_t pos[3])
{
	static uint8_t third[200000];
	uint32_t n = 0;

	memcpy(third, m + pos[2], len[2]);
	memset(third + len[2], 0xff, -len[2] & 3);
	n += read_seg(at + n, pos[2], show(third, len[2] + (-len[2] & 3)));
	n += read_seg(at + n, pos[0], show(m + pos[0], 5));
	n += read_seg(at + n, pos[0], show(m + pos[0] + 5, 4091));
	n += read_seg(at + n, pos[0], show(m + pos[0] + 4096, len[0] - 4096));
	return n;
}

/* No five pages of a pool lie together any more: longer buffers are in several pieces. */
static void break_up(struct rr_pool *pool)
{
	int64_t hole[RR_POOL_BUFS], n = 0;

	while ((hole[n] = rr_pool_alloc(pool, 5 * RR_POOL_PAGE)) >= 0) {
		n++;
		if (rr_pool_alloc(pool, 1) < 0)
			break;
	}
	memset(pool->mem, 0xee, (size_t)pool->npages * RR_POOL_PAGE);
	while (n-- > 0)
		rr_pool_free(pool, (uint32_t)hole[n]);
}

static void composed(const struct rr_fake_conf *conf, bool at_zero, bool pieces)
{
	static uint8_t stream[200000];
	const uint32_t len[3] = { 20001, at_zero ? 9001 : 301, 100002 };
	uint32_t pos[3], hdr, k;
	uint8_t msg[4096];
	uint64_t had;
	size_t n;

	open_pair(conf);
	mem = NULL;
	mem_used = 0;
	read_one(1, 10, 10);
	had = counted(RR_C_read_chunks_received);
	if (pieces)
		break_up(&p.server.c->share->pool);
	n = three_writes(out, 77, len, pos);
	k = reduced(out, n, len, pos, stream);
	hdr = WORDS(msg, 77, 1, 8, at_zero);
	hdr += read_list(msg + hdr, out + RR_RM_HDR, len, pos);
	if (at_zero)
		hdr += read_seg(msg + hdr, 0, show(stream, k));
	hdr += WORDS(msg + hdr, 0, 0, 0);
	if (!at_zero) {
		memcpy(msg + hdr, stream, k);
		hdr += k;
	}
	send_raw(msg, hdr);
	cr_assert_eq(rr_end_recv(&p.server, &p.client, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	cr_assert_gt(counted(RR_C_read_chunks_received), had);
	close_pair();
}

ParameterizedTestParameters(conn_chunks, several_chunks_are_put_where_they_belong)
{
	return cr_make_param_array(const struct rr_fake_conf, (void *)provider, rr_array_size(provider));
}

ParameterizedTest(const struct rr_fake_conf *conf, conn_chunks, several_chunks_are_put_where_they_belong)
{
	composed(conf, false, false);
	composed(conf, false, true);
}

ParameterizedTestParameters(conn_chunks, a_stream_at_position_zero_makes_room_for_them)
{
	return cr_make_param_array(const struct rr_fake_conf, (void *)provider, rr_array_size(provider));
}

ParameterizedTest(const struct rr_fake_conf *conf, conn_chunks, a_stream_at_position_zero_makes_room_for_them)
{
	composed(conf, true, false);
	composed(conf, true, true);
}

ParameterizedTestParameters(conn_chunks, data_passes_through_memory_in_pieces)
{
	return cr_make_param_array(const struct rr_fake_conf, (void *)provider, rr_array_size(provider));
}

ParameterizedTest(const struct rr_fake_conf *conf, conn_chunks, data_passes_through_memory_in_pieces)
{
	open_pair(conf);
	read_one(1, 10, 10);
	settle();
	break_up(&p.client.c->share->pool);
	break_up(&p.server.c->share->pool);
	write_one(2, 130001);
	read_one(3, 130001, 130001);
	read_one(4, 130001, 50001);
	close_pair();
}

/* RFC 8166 §6.1: refused, and nothing of it is kept */
ParameterizedTestParameters(conn_chunks, a_chunk_in_the_wrong_place_is_refused)
{
	return cr_make_param_array(const struct rr_fake_conf, (void *)provider, rr_array_size(provider));
}

ParameterizedTest(const struct rr_fake_conf *conf, conn_chunks, a_chunk_in_the_wrong_place_is_refused)
{
	uint8_t msg[400], stream[200];
	uint32_t hdr, k;

	open_pair(conf);
	read_one(1, 10, 10);
	k = begin(stream, 78, WRITE);
	k += WORDS(stream + k, 0, 0, 5000, 2, 5000);
	hdr = WORDS(msg, 78, 1, 8, 1);
	hdr += read_seg(msg + hdr, 0, show(stream, k));
	hdr += read_seg(msg + hdr, k + 4, show(out, 5000));
	hdr += WORDS(msg + hdr, 0, 0, 0);
	send_raw(msg, hdr);
	for (int i = 0; i < 500 && !counted(RR_C_err_chunk_sent); i++)
		cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -EAGAIN);
	cr_assert_eq(counted(RR_C_err_chunk_sent), 1);
	write_one(80, 10000);
	cr_assert_eq(p.server.c->share->pull_bytes, 0);
	close_pair();
}
