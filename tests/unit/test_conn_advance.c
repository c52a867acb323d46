/* SPDX-License-Identifier: BSD-3-Clause */
/* Advances: a long record can be read before its app has written its end. What is read is what was written, by whatever
 * way the rest comes; and a peer that tells of what it has not is found out. */

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "core/base/cpus.h"
#include "core/base/os.h"
#include "core/conn/enter.h"
#include "core/wire/advance.h"
#include "tests/unit/advances.h"

TestSuite(conn_advance, .init = setup, .fini = teardown, .timeout = 60);

/* --- what can be read when ------------------------------------------------------------------ */

Test(conn_advance, a_record_is_read_while_it_is_written)
{
	size_t n, have = 0;

	carried();
	n = rr_test_call(out, 2, 300000, 2);
	for (size_t at = 0, to; at < n; at = to) {
		to = rr_min(at + 50000, n);
		put(&p.client, at, to);
		have = get(&p.server, have);
		cr_assert(have <= to && have + 20000 >= to, "%zu of %zu", have, to);
	}
	cr_assert_eq(have, n, "a single fragment stays one");
	cr_assert_gt(told(&p.client), 6);
	cr_assert_eq(told(&p.client), counted(&p.server, RR_C_advances_received));
	one_way(&p.server, &p.client, rr_test_reply(out, 2, 10, 1));
}

Test(conn_advance, so_is_a_reply_in_fragments)
{
	size_t n, have = 0;

	carried();
	one_way(&p.client, &p.server, rr_test_call(out, 2, 10, 1));
	n = in_fragments(rr_test_reply(out, 2, 1 << 20, 2), 65532);
	for (size_t at = 0, to; at < n; at = to) {
		to = rr_min(at + 65536, n);
		put(&p.server, at, to);
		have = get(&p.client, have);
		cr_assert(to == n || have >= to - 65536, "%zu of %zu", have, to);
	}
	cr_assert_eq(have, n, "each fragment is as it was");
	cr_assert_gt(told(&p.server), 15);
}

Test(conn_advance, small_fragments_are_joined)
{
	size_t n;
	ssize_t len;

	carried();
	n = in_fragments(rr_test_call(out, 2, 100000, 2), 1000);
	cr_assert_eq(rr_end_send(&p.client, NULL, out, n), (ssize_t)n);
	cr_assert_gt(told(&p.client), 3);
	len = rr_end_recv_record(&p.server, &p.client, in, sizeof(in));
	n = rr_test_call(out, 2, 100000, 2);
	cr_assert_eq(len, (ssize_t)n - 4);
	cr_assert_eq(memcmp(in, out + 4, n - 4), 0);
}

Test(conn_advance, marks_may_come_in_any_pieces)
{
	size_t n, have = 0;

	carried();
	n = in_fragments(rr_test_call(out, 2, 60000, 2), 9001);
	for (size_t at = 0, to; at < n; at = to) {
		to = rr_min(at + 1 + at % 13, n);
		put(&p.client, at, to);
	}
	while (have < n) {	/* a few bytes at a time, and each of them twice */
		ssize_t got = rr_end_try_recv(&p.server, in + have, 1 + have % 7, MSG_PEEK);

		cr_assert_gt(got, 0);
		cr_assert_eq(memcmp(in + have, out + have, (size_t)got), 0);
		memset(in + have, 0, (size_t)got);
		cr_assert_eq(rr_end_try_recv(&p.server, in + have, (size_t)got, 0), got);
		have += (size_t)got;
	}
	cr_assert_eq(memcmp(in, out, n), 0);
	cr_assert_gt(told(&p.client), 3);
}

Test(conn_advance, readable_means_that_there_are_bytes)
{
	size_t n, have;

	carried();
	n = rr_test_call(out, 2, 100000, 2);
	put(&p.client, 0, 5000);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0, "not worth a note");
	put(&p.client, 5000, 30000);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), POLLIN);
	have = get(&p.server, 0);
	cr_assert_eq(rr_conn_inq(p.server.c, p.server.fd), 0);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	put(&p.client, 30000, n);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), POLLIN);
	cr_assert_eq(get(&p.server, have), n);
}

Test(conn_advance, who_sleeps_is_not_woken_for_it)
{
	size_t n;

	carried();
	n = rr_test_call(out, 2, 100000, 2);
	cr_assert_eq(rr_conn_arm(p.server.c, p.server.fd, POLLIN), 0);
	put(&p.client, 0, 90000);
	cr_assert_eq(told(&p.client), 0);
	cr_assert(!bell_rings(p.server.c));
	put(&p.client, 90000, n);
	cr_assert(bell_rings(p.server.c));
	rr_conn_disarm(p.server.c, p.server.fd);
	cr_assert_eq(get(&p.server, 0), n);
}

/* Writes a call while the server says this of itself; how many pieces it is told of. */
static uint64_t told_who(uint32_t xid, uint32_t doing, uint32_t cpu)
{
	struct rr_qp *qp = p.server.c->share->qp;
	uint64_t before = told(&p.client);
	size_t n = rr_test_call(out, xid, 100000, xid);

	qp->ops->tell(qp, RR_TELL_DOING, doing);
	qp->ops->tell(qp, RR_TELL_CPU, cpu);
	put(&p.client, 0, n);
	cr_assert_eq(get(&p.server, 0), n);
	return told(&p.client) - before;
}

Test(conn_advance, who_looks_and_can_copy_meanwhile_is_told)
{
	cpu_set_t one;
	uint32_t here;

	carried();
	here = rr_cpu_here();
	cr_assert_neq(here, 0);
	CPU_ZERO(&one);
	CPU_SET(here - 1, &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	cr_assert_gt(told_who(2, RR_DOES_RUN | RR_DOES_SPIN, here + 1), 0);
	cr_assert_gt(told_who(3, RR_DOES_RUN | RR_DOES_SPIN, 0), 0, "it may be anywhere");
	cr_assert_gt(told_who(4, 0, 0), 0, "nothing is known of it");
	cr_assert_eq(told_who(5, RR_DOES_RUN, here + 1), 0, "it will sleep when it waits");
	cr_assert_eq(told_who(6, RR_DOES_SLEEP | RR_DOES_SPIN, here + 1), 0);
	cr_assert_eq(told_who(7, RR_DOES_RUN | RR_DOES_SPIN, here), 0, "it can copy nothing now");
}

/* Others that are sent meanwhile hold the peer's receives, not notes. */
Test(conn_advance, who_does_not_look_is_told_little)
{
	size_t n, total = 0;
	uint32_t recvs;

	carried();
	recvs = p.client.c->share->qp->peer_recvs;
	for (uint32_t xid = 2; xid < 30; xid++) {
		n = rr_test_call(out, xid, 100000, xid);
		if (rr_end_try_send(&p.client, out, n) != (ssize_t)n)
			break;
		total += n;
	}
	cr_assert_leq(told(&p.client), recvs / 8 + 1);
	for (uint32_t xid = 2; total; xid++) {
		n = rr_test_call(out, xid, 100000, xid);
		cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n);
		cr_assert_eq(memcmp(in, out, n), 0);
		total -= n;
	}
}

Test(conn_advance, short_records_and_those_that_are_no_rpc_are_not_told_of)
{
	size_t n;

	carried();
	n = in_fragments(rr_test_call(out, 2, 3000, 2), 500);
	cr_assert_eq(rr_end_send(&p.client, NULL, out, n), (ssize_t)n);
	cr_assert_gt(rr_end_recv_record(&p.server, NULL, in, sizeof(in)), 3000);
	memset(out, 7, 100000);
	rr_rm_put(out, 100000, true);
	put(&p.client, 0, 50000);
	cr_assert_eq(told(&p.client), 0);
	cr_assert_eq(rr_end_send(&p.client, &p.server, out + 50000, 50004), 50004);
	cr_assert_eq(rr_end_recv_record(&p.server, &p.client, in, sizeof(in)), 100000);
	cr_assert_eq(memcmp(in, out + 4, 100000), 0);
}

/* --- calls and their replies ---------------------------------------------------------------- */

/* A server may refuse a call when it has seen the header. The reply goes by TCP: by RDMA it would give the call's memory
 * back to the client, be the rest of it read or not. */
static void answered_early(bool read_at_once)
{
	size_t n, have, len;
	static uint8_t reply[200], got[200];

	carried();
	n = rr_test_call(out, 2, 200000, 2);
	put(&p.client, 0, 100000);
	have = get(&p.server, 0);
	cr_assert_gt(have, 50000);
	len = rr_test_reply(reply, 2, 20, 5);
	cr_assert_eq(rr_end_send(&p.server, NULL, reply, len), (ssize_t)len);
	cr_assert_eq(counted(&p.server, RR_C_hatches), 1);
	if (!read_at_once)
		put(&p.client, 100000, n);
	cr_assert_eq(rr_end_recv(&p.client, NULL, got, len), (ssize_t)len);
	cr_assert_eq(memcmp(got, reply, len), 0);
	if (read_at_once)
		put(&p.client, 100000, n);
	cr_assert_eq(get(&p.server, have), n);
	for (uint32_t xid = 3; xid < 300; xid++) {
		one_way(&p.client, &p.server, rr_test_call(out, xid, 20000, 1));
		one_way(&p.server, &p.client, rr_test_reply(out, xid, 20000, 1));
	}
	cr_assert(rr_conn_is_carried(p.client.c) && rr_conn_is_carried(p.server.c));
}

Test(conn_advance, a_reply_may_come_before_the_call_is_complete)
{
	answered_early(true);
}

Test(conn_advance, and_be_read_behind_it)
{
	answered_early(false);
}

/* Others may be answered meanwhile. */
Test(conn_advance, a_reply_to_an_earlier_call_goes_as_ever)
{
	size_t n, have, len;
	static uint8_t reply[200], got[200];

	carried();
	one_way(&p.client, &p.server, rr_test_call(out, 2, 10, 2));
	n = rr_test_call(out, 3, 200000, 2);
	put(&p.client, 0, 100000);
	have = get(&p.server, 0);
	len = rr_test_reply(reply, 2, 20, 5);
	cr_assert_eq(rr_end_send(&p.server, NULL, reply, len), (ssize_t)len);
	cr_assert_eq(rr_end_recv(&p.client, NULL, got, len), (ssize_t)len);
	cr_assert_eq(counted(&p.server, RR_C_hatches), 0);
	cr_assert_eq(p.server.c->share->rx.stash, 0);
	put(&p.client, 100000, n);
	cr_assert_eq(get(&p.server, have), n);
}

/* The reply gives the call's memory back to the client. */
Test(conn_advance, what_was_not_read_before_the_reply_is_there_after_it)
{
	static const size_t read_first[] = { 40, 40000, 150000 };

	carried();
	for (uint32_t i = 0; i < rr_array_size(read_first); i++) {
		size_t n = in_fragments(rr_test_call(out, 2 + i, 200000, i), 30000), len;
		static uint8_t reply[200];

		put(&p.client, 0, 100000);
		cr_assert_eq(rr_end_recv(&p.server, NULL, in, 40), 40);
		put(&p.client, 100000, n);
		cr_assert_eq(rr_end_recv(&p.server, NULL, in + 40, read_first[i] - 40), (ssize_t)read_first[i] - 40);
		len = rr_test_reply(reply, 2 + i, 20, 5);
		cr_assert_eq(rr_end_send(&p.server, NULL, reply, len), (ssize_t)len);
		cr_assert_eq(rr_end_recv(&p.client, NULL, in + sizeof(in) / 2, len), (ssize_t)len);
		cr_assert_eq(p.client.c->share->pool.used, 0);
		cr_assert_eq(get(&p.server, read_first[i]), n);
		cr_assert_eq(p.server.c->share->pool.used, 0);
		cr_assert_eq(p.server.c->share->rx.stash, 0);
		cr_assert_eq(p.server.c->share->rx.in_pieces, 0);
	}
	cr_assert(rr_conn_is_carried(p.client.c) && rr_conn_is_carried(p.server.c));
}

/* Pieces lie in the memory that the peer keeps for the message. */
Test(conn_advance, what_is_unread_for_long_is_moved_with_its_pieces)
{
	struct rr_share *sh;
	size_t n, have;

	carried();
	sh = p.client.c->share;
	one_way(&p.client, &p.server, rr_test_call(out, 2, 10, 2));
	n = in_fragments(rr_test_reply(out, 2, 200000, 2), 30000);
	put(&p.server, 0, 80000);
	have = 1000;
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, have), (ssize_t)have);
	rr_drv_progress(sh);
	rr_drv_stash(sh, rr_now() + RR_SEC);
	cr_assert_eq(sh->rx.stash, 0, "it is not complete");
	put(&p.server, 80000, n);
	rr_drv_progress(sh);
	rr_drv_stash(sh, rr_now() + RR_SEC);
	cr_assert_geq(sh->rx.stash, 200000);
	rr_end_poll(&p.server, POLLIN);
	cr_assert_eq(p.server.c->share->pool.used, 0);
	cr_assert_eq(get(&p.client, have), n);
	cr_assert_eq(sh->rx.stash, 0);
	cr_assert_eq(sh->pool.used, 0);
}

static void little_stash(void)
{
	rr_test_params.max_stash = 100000;
	setup();
}

/* What is moved of a message is moved for itself. */
Test(conn_advance, and_as_far_as_there_is_room, .init = little_stash)
{
	struct rr_share *sh;
	size_t n;

	carried();
	sh = p.client.c->share;
	one_way(&p.client, &p.server, rr_test_call(out, 2, 10, 2));
	n = in_fragments(rr_test_reply(out, 2, 200000, 2), 30000);
	put(&p.server, 0, n);
	rr_drv_progress(sh);
	for (int i = 0; i < 3; i++)
		rr_drv_stash(sh, rr_now() + RR_SEC);
	cr_assert(sh->rx.stash > 50000 && sh->rx.stash <= 100000, "%zu", (size_t)sh->rx.stash);
	rr_end_poll(&p.server, POLLIN);
	cr_assert_neq(p.server.c->share->pool.used, 0);
	cr_assert_eq(get(&p.client, 0), n);
	cr_assert_eq(sh->rx.stash, 0);
	rr_end_poll(&p.server, POLLIN);
	cr_assert_eq(p.server.c->share->pool.used, 0);
}

/* Once by each end. In a process without statistics its connections count together. */
Test(conn_advance, each_byte_is_copied_as_often_as_ever)
{
	size_t n, have = 0;
	uint64_t before;

	carried();
	before = counted(&p.server, RR_C_copied);
	n = in_fragments(rr_test_call(out, 2, 300000, 2), 40000);
	for (size_t at = 0; at < n; at += 40004) {
		put(&p.client, at, rr_min(at + 40004, n));
		have = get(&p.server, have);
	}
	cr_assert_eq(have, n);
	before = counted(&p.server, RR_C_copied) - before;
	cr_assert(before >= 2 * 300040 && before <= 2 * 300040 + 200, "%zu", (size_t)before);
}

Test(conn_advance, memory_comes_back_when_nobody_answers)
{
	carried();
	for (uint32_t xid = 2; xid < 400; xid++) {
		size_t n = in_fragments(rr_test_call(out, xid, 200000, xid), 30000);

		cr_assert_eq(rr_end_send(&p.client, &p.server, out, 90000), 90000);
		cr_assert_eq(rr_end_recv(&p.server, NULL, in, 30000), 30000);
		cr_assert_eq(rr_end_send(&p.client, &p.server, out + 90000, n - 90000), (ssize_t)n - 90000);
		cr_assert_eq(rr_end_recv(&p.server, NULL, in + 30000, n - 30000), (ssize_t)n - 30000);
		cr_assert_eq(memcmp(in, out, n), 0);
	}
	cr_assert(rr_conn_is_carried(p.client.c) && rr_conn_is_carried(p.server.c));
}

/* A peer may take a key back by itself, of the piece or of the message. */
Test(conn_advance, a_key_less)
{
	for (int which = 0; which < 2; which++) {
		struct rr_buf *b;
		uint32_t other;
		size_t n;

		carried();
		n = rr_test_call(out, 2, 100000, 2);
		cr_assert_eq(rr_end_send(&p.client, NULL, out, n), (ssize_t)n);
		b = p.client.c->share->pool.buf;
		while (!b->nkeys)
			b++;
		cr_assert(b->early == 1 && b->nkeys == 2);
		other = b->key[!which];
		rr_expose_key_gone(p.client.c->share, b->key[which]);
		cr_assert(b->early == (uint32_t)which && b->nkeys == 1 && b->key[0] == other);
		teardown();
		setup();
	}
}

static struct rr_prov_ops some_notes;
static int (*real_note)(struct rr_qp *, uint32_t, const void *, uint32_t);
static int notes_left;

static int note_while_there_is_room(struct rr_qp *qp, uint32_t imm, const void *note, uint32_t len)
{
	return notes_left-- > 0 ? real_note(qp, imm, note, len) : -EAGAIN;
}

static void little_exposed(void)
{
	rr_test_params.eng.max_exposed = 65536;
	setup();
}

/* A reply that cannot be sent yet, of which so many pieces could be told. */
static void refused_at_its_end(int notes)
{
	struct rr_qp *qp;
	size_t n, done, first;

	carried();
	one_way(&p.client, &p.server, rr_test_call(out, 10, 10, 1));
	one_way(&p.client, &p.server, rr_test_call(out, 11, 10, 1));
	qp = p.server.c->share->qp;
	some_notes = *qp->ops;
	real_note = some_notes.send_note;
	some_notes.send_note = note_while_there_is_room;
	qp->ops = &some_notes;
	notes_left = 0;
	first = rr_test_reply(out, 10, 60000, 1);
	put(&p.server, 0, first);
	notes_left = notes;
	n = in_fragments(rr_test_reply(out, 11, 100000, 2), 20000);
	done = (size_t)rr_max(rr_end_try_send(&p.server, out, n), (ssize_t)0);
	cr_assert(done < n && (done > 0) == (notes > 0), "%zu", done);
	cr_assert_eq(rr_end_try_send(&p.server, out + done, n - done), -EAGAIN);
	if (!notes)
		cr_assert_eq(p.server.c->share->tables->told.nsegs, 0, "a key to memory that was given back");
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, first), (ssize_t)first);
	cr_assert_eq(rr_end_send(&p.server, &p.client, out + done, n - done), (ssize_t)(n - done));
	cr_assert_eq(rr_end_recv_record(&p.client, &p.server, in, sizeof(in)),
		     (ssize_t)rr_test_reply(out, 11, 100000, 2) - 4);
	cr_assert_eq(memcmp(in, out + 4, 100024), 0);
	cr_assert(rr_conn_is_carried(p.client.c) && rr_conn_is_carried(p.server.c));
}

Test(conn_advance, what_was_told_of_is_taken, .init = little_exposed)
{
	for (int notes = 0; notes < 9; notes++) {
		refused_at_its_end(notes);
		teardown();
		setup();
	}
}

/* --- lies ------------------------------------------------------------------------------------- */

/* What the client says next, if it says it of the first bytes of its memory. */
static struct rr_advance lie;
static uint8_t lie_note[RR_ADVANCE_LEN + 4];

static void lies(void)
{
	struct rr_qp *qp;

	setup();
	carried();
	qp = p.client.c->share->qp;
	cr_assert_eq(qp->ops->expose(qp, qp->mem, 65536, RR_RIGHT_READ, &lie.seg), 0);
	rr_test_call(qp->mem, 2, 65000, 1);
	lie.xid = 2;
	lie.mark = 60000;
	lie.seg.length = 20000;
}

static void tell_lie(uint32_t len)
{
	struct rr_qp *qp = p.client.c->share->qp;

	rr_advance_put(&lie, lie_note);
	cr_assert_eq(qp->ops->send_note(qp, RR_IMM_ADVANCE, lie_note, len), 1);
	rr_drv_progress(p.server.c->share);
}

/* What had come before can be read. */
static void found_out(void)
{
	ssize_t n;

	cr_assert(rr_link_is_dead(p.server.c->share));
	while ((n = rr_end_try_recv(&p.server, in, sizeof(in), 0)) > 0)
		;
	cr_assert_eq(n, -ECONNRESET);
}

static void found_out_by_reading(void)
{
	cr_assert_eq(rr_end_try_recv(&p.server, in, sizeof(in), 0), -ECONNRESET);
	cr_assert(rr_link_is_dead(p.server.c->share));
}

static void not_yet(void)
{
	cr_assert(rr_link_is_up(p.server.c->share));
}

Test(conn_advance, a_note_of_another_length, .init = lies)
{
	tell_lie(RR_ADVANCE_LEN - 1);
	found_out();
}

Test(conn_advance, a_longer_note, .init = lies)
{
	tell_lie(RR_ADVANCE_LEN + 1);
	found_out();
}

Test(conn_advance, a_note_that_was_not_agreed_on, .init = lies)
{
	p.server.c->share->ep.caps &= ~(uint32_t)RR_CAP_ADVANCES;
	tell_lie(RR_ADVANCE_LEN);
	found_out();
}

Test(conn_advance, a_piece_without_bytes, .init = lies)
{
	lie.seg.length = 0;
	tell_lie(RR_ADVANCE_LEN);
	found_out();
}

Test(conn_advance, a_piece_that_begins_no_fragment, .init = lies)
{
	lie.mark = 0;
	tell_lie(RR_ADVANCE_LEN);
	found_out();
}

Test(conn_advance, a_piece_longer_than_its_fragment, .init = lies)
{
	lie.mark = 19999;
	tell_lie(RR_ADVANCE_LEN);
	found_out();
}

Test(conn_advance, a_piece_with_the_last_byte_of_all, .init = lies)
{
	lie.mark = RR_RM_LAST | 20000;
	tell_lie(RR_ADVANCE_LEN);
	found_out();
}

Test(conn_advance, a_piece_beyond_the_longest_message, .init = lies)
{
	lie.mark = 0x7fffffff;
	lie.seg.length = 0x7ffffffe;
	tell_lie(RR_ADVANCE_LEN);
	found_out();
}

Test(conn_advance, a_piece_that_begins_beyond_it, .init = lies)
{
	lie.at = 0xffffff00;
	tell_lie(RR_ADVANCE_LEN);
	found_out();
}

Test(conn_advance, a_piece_that_comes_twice, .init = lies)
{
	tell_lie(RR_ADVANCE_LEN);
	not_yet();
	tell_lie(RR_ADVANCE_LEN);
	found_out();
}

Test(conn_advance, a_fragment_within_another, .init = lies)
{
	tell_lie(RR_ADVANCE_LEN);
	lie.at = 20000;
	tell_lie(RR_ADVANCE_LEN);
	found_out();
}

Test(conn_advance, a_fragment_that_is_continued_too_far, .init = lies)
{
	tell_lie(RR_ADVANCE_LEN);
	lie.at = 20000;
	lie.mark = 0;
	lie.seg.length = 40001;
	tell_lie(RR_ADVANCE_LEN);
	found_out();
}

Test(conn_advance, a_piece_of_another_message, .init = lies)
{
	tell_lie(RR_ADVANCE_LEN);
	lie.at = 20000;
	lie.mark = 0;
	lie.xid = 3;
	tell_lie(RR_ADVANCE_LEN);
	found_out();
}

Test(conn_advance, a_piece_behind_a_gap_is_passed_over, .init = lies)
{
	lie.at = 1;
	tell_lie(RR_ADVANCE_LEN);
	not_yet();
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -EAGAIN);
	one_way(&p.client, &p.server, rr_test_call(out, 2, 30000, 1));
}

Test(conn_advance, pieces_for_ever_are_passed_over, .init = lies)
{
	lie.mark = 0x7fffffff;
	lie.seg.length = 1;
	for (uint32_t i = 0; i < 3 * RR_IN_PIECES; i++, lie.at++, lie.mark = 0)
		tell_lie(RR_ADVANCE_LEN);
	not_yet();
	cr_assert_eq(rr_end_try_recv(&p.server, in, sizeof(in), 0), (ssize_t)(RR_RM_HDR + RR_IN_PIECES));
}

Test(conn_advance, a_piece_that_cannot_be_read, .init = lies)
{
	lie.seg.handle++;
	tell_lie(RR_ADVANCE_LEN);
	not_yet();
	found_out_by_reading();
}

/* The message that was announced does not come, but another one, or less of it. */
static void other_message(uint32_t xid, size_t len, bool ours)
{
	size_t n = rr_test_call(out, xid, len, 1);

	tell_lie(RR_ADVANCE_LEN);
	not_yet();
	p.client.c->share->ep.caps &= ~(uint32_t)RR_CAP_ADVANCES;
	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n);
	rr_drv_progress(p.server.c->share);
	if (ours)
		not_yet();
	else
		found_out();
}

Test(conn_advance, the_message_that_was_announced, .init = lies)
{
	other_message(2, 60000, true);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, 60048), 60048, "two fragments, of 60,000 and 40 bytes");
	cr_assert_eq(memcmp(in, "\0\0\xea\x60", 4), 0);
	cr_assert_eq(memcmp(in + 4 + 60000, "\x80\0\0\x28", 4), 0);
}

Test(conn_advance, another_message_than_was_announced, .init = lies)
{
	other_message(3, 60000, false);
}

Test(conn_advance, a_message_shorter_than_what_was_read_of_it, .init = lies)
{
	other_message(2, 19000, false);
}

Test(conn_advance, a_message_shorter_than_the_fragment_that_was_begun, .init = lies)
{
	other_message(2, 50000, false);
}

Test(conn_advance, a_short_message_in_place_of_a_long_one, .init = lies)
{
	other_message(2, 100, false);
}

Test(conn_advance, a_message_longer_than_its_last_fragment, .init = lies)
{
	lie.mark |= RR_RM_LAST;
	other_message(2, 60000, false);
}
