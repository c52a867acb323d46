/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections over a provider that finishes nothing inside the call, as hardware does: strict
 * credits, completions late and in any order, nothing reachable but registered memory. */

#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "tests/lib/fakepair.h"

static bool rings;	/* receives are counted, as between two of ours on a device */
static uint32_t piece;	/* long messages are read in such pieces */

static void open_pair(bool reorder, uint32_t delay, bool reliable, uint64_t seed)
{
	rr_test_setup();
	rr_test_params.reliable_replies = reliable;
	open_over(&(struct rr_fake_conf){ .reorder = reorder, .delay = delay, .eager = true, .ring = rings,
					   .piece = piece }, seed);
}

TestSuite(conn_async, .timeout = 60);

static void round_trip(uint32_t xid, size_t call, size_t reply)
{
	send_one(&p.client, &p.server, rr_test_call(out, xid, call, xid));
	send_one(&p.server, &p.client, rr_test_reply(out, xid, reply, xid + 1));
}

static void every_size(bool reorder, uint32_t delay, bool reliable, size_t most)
{
	static const size_t size[] = { 0, 1, 100, 3990, 4020, 4024, 4028, 4036, 8192, 65537, 300000 };

	open_pair(reorder, delay, reliable, 5);
	for (size_t i = 0; i < rr_array_size(size); i++)
		for (size_t j = 0; j < rr_array_size(size); j += 3)
			round_trip((uint32_t)(i * 100 + j + 7), size[i], rr_min(size[j], most));
	cr_assert(rr_conn_is_carried(p.client.c));
	cr_assert_eq(p.client.c->share->qp->ops, &l.ops);
	settle();
	close_pair();
}

Test(conn_async, records_of_every_size_pass_unaltered)
{
	every_size(false, 0, true, SIZE_MAX);
}

Test(conn_async, completions_late_and_in_any_order_change_nothing)
{
	every_size(true, 20, true, SIZE_MAX);
}

Test(conn_async, pieces_of_every_size_make_the_same_message)
{
	static const uint32_t of[] = { 1000, 4096, 10000, 70000 };

	for (unsigned i = 0; i < 2 * rr_array_size(of); i++) {
		rings = i % 3;
		piece = of[i / 2];
		every_size(i % 2, 20, true, SIZE_MAX);
	}
}

Test(conn_async, replies_come_by_reply_chunk_without_reliable_replies)
{
	every_size(true, 5, false, 60000);	/* fits the default Reply chunk */
}

/* A long message is fetched while a short one behind it is here already. */
Test(conn_async, messages_arrive_in_the_order_in_which_they_were_written)
{
	size_t n = 0;

	for (int how = 0; how < 3; how++) {
		n = 0;
		piece = how ? 7000 : 0;
		open_pair(how < 2, 30, true, 9);
		round_trip(1, 0, 0);
		for (uint32_t i = 0; i < 24; i++)
			n += rr_test_call(out + n, 10 + i, i % 3 ? 20 : 60000, i);
		for (size_t sent = 0, got = 0; got < n;) {
			ssize_t k = sent < n ? rr_end_try_send(&p.client, out + sent, rr_min(n - sent, (size_t)9000)) : 0;

			cr_assert(k >= 0 || k == -EAGAIN);
			sent += k > 0 ? (size_t)k : 0;
			k = rr_end_try_recv(&p.server, in + got, sizeof(in) - got, 0);
			cr_assert(k > 0 || k == -EAGAIN);
			got += k > 0 ? (size_t)k : 0;
		}
		cr_assert_eq(memcmp(in, out, n), 0);
		close_pair();
	}
}

/* As many long replies as there are credits, all of them to be pulled before one is here. */
Test(conn_async, as_many_pulls_as_calls_are_under_way)
{
	const uint32_t calls = rr_test_params.eng.credits;
	size_t n = 0, got = 0;

	open_pair(true, 3000, true, 13);
	round_trip(1, 0, 0);
	for (uint32_t i = 0; i < calls; i++) {
		n = rr_test_call(out, 10 + i, 10, i);
		cr_assert_eq(rr_end_send(&p.client, &p.server, out, n), (ssize_t)n);
		cr_assert_eq(rr_end_recv(&p.server, &p.client, in, n), (ssize_t)n);
	}
	n = 0;
	for (uint32_t i = 0; i < calls; i++)
		n += rr_test_reply(out + n, 10 + i, 20000, i);
	for (size_t sent = 0; got < n;) {
		ssize_t k = sent < n ? rr_end_try_send(&p.server, out + sent, n - sent) : 0;

		cr_assert(k >= 0 || k == -EAGAIN);
		sent += k > 0 ? (size_t)k : 0;
		k = rr_end_try_recv(&p.client, in + got, n - got, 0);
		cr_assert(k > 0 || k == -EAGAIN);
		got += k > 0 ? (size_t)k : 0;
	}
	cr_assert_eq(memcmp(in, out, n), 0);
	close_pair();
}

/* A process that has used up its budget fetches one at a time. */
Test(conn_async, long_calls_that_nobody_reads_are_not_all_fetched)
{
	size_t n = 0, got = 0;

	open_pair(true, 5, true, 17);
	round_trip(1, 0, 0);
	rr_test_params.process_budget = 0;
	for (uint32_t i = 0; i < 3; i++) {
		size_t one = rr_test_call(out + n, 10 + i, 20000, i);

		cr_assert_eq(rr_end_send(&p.client, &p.server, out + n, one), (ssize_t)one);
		n += one;
	}
	for (int i = 0; i < 1000; i++) {
		rr_end_poll(&p.server, POLLIN);
		rr_end_poll(&p.client, POLLIN);
	}
	cr_assert_leq(p.server.c->share->pool.used, 20000 / RR_POOL_PAGE + 1);
	while (got < n) {
		ssize_t k = rr_end_try_recv(&p.server, in + got, n - got, 0);

		cr_assert(k > 0 || k == -EAGAIN);
		got += k > 0 ? (size_t)k : 0;
		rr_end_poll(&p.client, POLLIN);
	}
	cr_assert_eq(memcmp(in, out, n), 0);
	close_pair();
}

/* What waits for memory to be fetched into takes that of calls which the peer has read, answered or not. */
Test(conn_async, a_long_reply_finds_room_beside_calls_that_nobody_answers)
{
	size_t n;

	rings = true;
	open_pair(true, 10, true, 21);
	round_trip(1, 0, 0);
	for (uint32_t i = 0; i < 3; i++)
		send_one(&p.client, &p.server, rr_test_call(out, 2 + i, 900000, i));
	n = rr_test_reply(out, 2, 900000, 7);
	for (size_t sent = 0, got = 0, tries = 0; got < n; tries++) {
		ssize_t k = sent < n ? rr_end_try_send(&p.server, out + sent, n - sent) : 0;

		cr_assert(k >= 0 || k == -EAGAIN);
		sent += k > 0 ? (size_t)k : 0;
		k = rr_end_try_recv(&p.client, in + got, n - got, 0);
		cr_assert(k > 0 || k == -EAGAIN);
		got += k > 0 ? (size_t)k : 0;
		rr_end_poll(&p.server, POLLIN);
		cr_assert_lt(tries, 100000, "%zu of %zu bytes", got, n);
	}
	cr_assert_eq(memcmp(in, out, n), 0);
	close_pair();
}

#define CALLS	20u
#define LONG	900000u

/* As much of CALLS long calls as can be written now, from byte *sent of them all on. */
static void write_some(size_t each, size_t *sent)
{
	static size_t made = SIZE_MAX;
	ssize_t k;

	if (*sent == each * CALLS)
		return;
	if (made != *sent / each) {
		made = *sent / each;
		rr_test_call(out, (uint32_t)(100 + made), LONG, 1);
	}
	k = rr_end_try_send(&p.client, out + *sent % each, each - *sent % each);
	cr_assert(k > 0 || k == -EAGAIN);
	*sent += k > 0 ? (size_t)k : 0;
}

static void answer(uint32_t xid)
{
	uint8_t buf[200], got[200];
	size_t n = rr_test_reply(buf, xid, 100, 1);

	cr_assert_eq(rr_end_send(&p.server, &p.client, buf, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(&p.client, &p.server, got, n), (ssize_t)n);
	cr_assert_eq(memcmp(buf, got, n), 0);
}

/* More than the receiver's memory holds: it takes what it can, in order, and the rest later. */
Test(conn_async, a_slow_reader_gets_everything_in_the_end)
{
	static uint8_t want[LONG + 64];
	size_t each = rr_test_call(want, 100, LONG, 1), sent = 0, got = 0;

	open_pair(true, 10, true, 11);
	round_trip(1, 0, 0);
	for (int i = 0; i < 2000; i++) {
		write_some(each, &sent);
		rr_end_poll(&p.server, POLLIN);
	}
	cr_assert(sent >= 2 * each && sent < each * CALLS, "%zu", sent);
	while (got < each * CALLS) {
		size_t at = got % each;
		ssize_t k = rr_end_try_recv(&p.server, in + at, each - at, 0);

		cr_assert(k > 0 || k == -EAGAIN);
		got += k > 0 ? (size_t)k : 0;
		if (k > 0 && got % each == 0) {
			rr_test_call(want, (uint32_t)(100 + got / each - 1), LONG, 1);
			cr_assert_eq(memcmp(in, want, each), 0, "call %zu", got / each);
			/* A call keeps its memory until it is answered. */
			answer((uint32_t)(100 + got / each - 1));
		}
		write_some(each, &sent);
	}
	close_pair();
}

/* However much of the memory is free: what the app sends has to fit beside it. */
Test(conn_async, what_nobody_reads_takes_no_more_than_half_of_the_memory)
{
	const size_t one = 300000, most = rr_align(one + 64, (size_t)RR_POOL_PAGE);
	size_t sent = 0, used;

	open_pair(true, 10, true, 19);
	round_trip(1, 0, 0);
	for (uint32_t i = 0; i < 6; i++) {
		size_t n = rr_test_call(out, 10 + i, one, i);

		cr_assert_eq(rr_end_send(&p.client, &p.server, out, n), (ssize_t)n);
		sent += n;
	}
	for (int i = 0; i < 3000; i++) {
		rr_end_poll(&p.server, POLLIN);
		rr_end_poll(&p.client, POLLIN);
	}
	used = (size_t)p.server.c->share->pool.used * RR_POOL_PAGE;
	cr_assert_leq(used, rr_own_ahead());
	cr_assert_gt(used + most, rr_own_ahead(), "and of that all");
	for (size_t got = 0; got < sent;) {
		ssize_t k = rr_end_try_recv(&p.server, in, rr_min(sizeof(in), sent - got), 0);

		cr_assert(k > 0 || k == -EAGAIN);
		got += k > 0 ? (size_t)k : 0;
		rr_end_poll(&p.client, POLLIN);
	}
	close_pair();
}

/* The link is lost in the midst of it: what is delivered is right, and the rest is an error. */
Test(conn_async, a_loss_at_any_step_truncates_nothing)
{
	for (uint64_t at = 1; at < 400; at += 7) {
		size_t n, got = 0;
		ssize_t k = -EAGAIN;

		open_pair(true, 6, true, at);
		round_trip(1, 0, 0);
		l.break_at = l.step + at;
		n = rr_test_call(out, 2, 50000, 1);
		n += rr_test_call(out + n, 3, 50, 2);
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

Test(conn_async, what_was_written_before_the_end_is_read_before_it)
{
	size_t n;

	open_pair(true, 8, true, 21);
	round_trip(1, 0, 0);
	n = rr_test_call(out, 2, 3000, 1);
	cr_assert_eq(rr_end_send(&p.client, &p.server, out, n), (ssize_t)n);
	rr_conn_shutdown(p.client.c, p.client.fd, SHUT_WR);
	shutdown(p.client.fd, SHUT_WR);
	cr_assert_eq(rr_end_recv(&p.server, &p.client, in, n + 1), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	close_pair();
}

/* --- fork, where only the maker of a connection can use it ------------------------------ */

/* The fake's own knows nothing of processes. */
static void close_here(struct rr_qp *qp)
{
	(void)qp;
}

/* A forked child runs this; what it returned. */
static int in_child(int (*run)(void))
{
	int st = -1;
	pid_t pid;

	l.ops.caps &= ~(uint32_t)RR_PROV_FAMILY;
	rr_conn_fork_prepare();
	rr_conn_forked(p.client.c);
	rr_conn_forked(p.server.c);
	pid = fork();
	if (pid == 0) {
		l.ops.close = close_here;
		rr_conn_fork_child();
		_exit(run());
	}
	rr_conn_fork_parent();
	cr_assert_eq(waitpid(pid, &st, 0), pid);
	return st;
}

static int only_closes(void)
{
	rr_conn_close(p.client.c, p.client.fd);
	return 0;
}

Test(conn_async, a_child_that_closes_leaves_it_to_its_parent)
{
	open_pair(false, 0, true, 3);
	round_trip(1, 100, 60000);
	cr_assert_eq(in_child(only_closes), 0);
	round_trip(2, 100, 60000);
	cr_assert_not(rr_conn_forks);
	settle();
	close_pair();
}

static ssize_t record;

static int writes(void)
{
	struct rr_share *sh = p.client.c->share;
	ssize_t n = -EAGAIN;

	/* It has asked, and nobody has answered yet. */
	sh->back.since = 1;
	sh->back.again = RR_TIME_NEVER;
	if (rr_end_try_send(&p.client, out, (size_t)record) != -EAGAIN)
		return 2;
	sh->back.since = sh->back.again = 0;
	for (int i = 0; n == -EAGAIN && i < 50000; i++) {
		n = rr_end_try_send(&p.client, out, (size_t)record);
		rr_os_nap(RR_MSEC);
	}
	for (int i = 0; sh->back.busy && i < 50000; i++)
		rr_os_nap(RR_MSEC);	/* the link is for one thread at a time */
	return n != record;
}

/* What waits for children: a signal may come to that thread, too. */
static ssize_t interrupted_once(int fd, struct msghdr *m, int flags)
{
	static _Atomic bool was;

	if (flags & MSG_CMSG_CLOEXEC && !atomic_exchange(&was, true)) {
		errno = EINTR;
		return -1;
	}
	return recvmsg(fd, m, flags);
}

/* Nothing of what is under way is lost, either way. */
Test(conn_async, a_child_that_uses_it_takes_it_back_to_tcp)
{
	static struct rr_os os;
	size_t n;

	open_pair(false, 0, true, 3);
	os = *rr_os;
	os.recvmsg = interrupted_once;
	rr_os = &os;
	round_trip(1, 100, 60000);
	send_one(&p.client, &p.server, rr_test_call(out, 4, 100, 1));
	n = rr_test_reply(out, 4, 500, 1);
	cr_assert_eq(rr_end_send(&p.server, &p.client, out, n), (ssize_t)n);
	record = (ssize_t)rr_test_call(out, 2, 70000, 1);
	cr_assert_eq(in_child(writes), 0);
	cr_assert_eq(rr_end_recv(&p.client, &p.server, in, n), (ssize_t)n);
	cr_assert(rr_tx_is_tcp(p.client.c->share));
	cr_assert_eq(rr_end_recv(&p.server, &p.client, in, (size_t)record), record);
	cr_assert_eq(memcmp(in, out, (size_t)record), 0);
	rr_end_poll(&p.server, POLLIN);
	cr_assert(rr_tx_is_tcp(p.server.c->share), "the peer goes back, too");
	round_trip(3, 100, 60000);
	cr_assert(rr_conn_forks, "what connects next must be such that children can use it");
	cr_assert_not(rr_link_is_dead(p.client.c->share) || rr_link_is_dead(p.server.c->share));
	close_pair();
}

static enum rr_arm armed_for;

static int note_arm(struct rr_qp *qp, enum rr_arm what)
{
	(void)qp;
	armed_for = what;
	return 0;
}

static int no_room(struct rr_qp *qp, uint32_t imm, uint64_t cookie)
{
	(void)qp, (void)imm, (void)cookie;
	return -EAGAIN;
}

/* The peer wants to go back to TCP, and cannot be told yet that this end does: what it still sends comes meanwhile. */
Test(conn_async, who_is_called_back_and_sleeps_hears_of_messages_and_of_room)
{
	int (*say)(struct rr_qp *, uint32_t, uint64_t);
	struct rr_share *sh;

	open_pair(false, 0, true, 3);
	round_trip(1, 100, 100);
	sh = p.client.c->share;
	say = l.ops.send_imm;
	l.ops.send_imm = no_room;
	l.ops.arm = note_arm;
	cr_assert_eq(rr_conn_arm(p.client.c, p.client.fd, POLLIN), 0);
	cr_assert_eq(armed_for, RR_ARM_RECV);
	rr_conn_disarm(p.client.c, p.client.fd);
	sh->called_back = true;
	cr_assert_eq(rr_conn_arm(p.client.c, p.client.fd, POLLIN), 0);
	cr_assert_eq(armed_for, RR_ARM_RECV | RR_ARM_SEND);
	rr_conn_disarm(p.client.c, p.client.fd);
	cr_assert(sh->called_back);
	l.ops.send_imm = say;
	rr_end_poll(&p.client, POLLIN);
	cr_assert_not(sh->called_back);
	cr_assert(rr_tx_is_tcp(sh));
	close_pair();
}

/* out[0..n) goes from the client to the server, of which off bytes are on their way. */
static void goes_on(size_t off, size_t n)
{
	for (size_t got = 0; got < n;) {
		ssize_t k = off < n ? rr_end_try_send(&p.client, out + off, n - off) : 0;

		cr_assert(k >= 0 || k == -EAGAIN);
		off += k > 0 ? (size_t)k : 0;
		k = rr_end_try_recv(&p.server, in + got, n - got, 0);
		cr_assert(k > 0 || k == -EAGAIN);
		got += k > 0 ? (size_t)k : 0;
	}
	cr_assert_eq(memcmp(in, out, n), 0);
}

static void above_the_limit(bool family)
{
	size_t n;

	rr_test_setup();
	open_over(&(struct rr_fake_conf){ .ring = true, .eager = true }, 3);
	if (!family)
		l.ops.caps &= ~(uint32_t)RR_PROV_FAMILY;
	round_trip(1, 100, 60000);
	n = rr_test_call(out, 2, (2 << 20) + 13, 1);
	goes_on(0, n);
	cr_assert(rr_tx_is_tcp(p.client.c->share));
	cr_assert_eq(rr_tx_is_tcp(p.server.c->share), !family);
	round_trip(3, 100, 60000);
	close_pair();
}

/* The owner may be asked to bring it back when the peer sleeps where it hears nothing. */
Test(conn_async, what_one_process_has_comes_back_both_ways)
{
	above_the_limit(true);
	above_the_limit(false);
}

/* Long calls, of which the server has fetched none, and behind them what opens the hatch. */
static size_t hatch_behind_long_calls(uint32_t delay)
{
	size_t n = 0;

	rr_test_setup();
	open_over(&(struct rr_fake_conf){ .ring = true, .eager = true, .delay = delay }, 7);
	l.ops.caps &= ~(uint32_t)RR_PROV_FAMILY;
	round_trip(1, 0, 0);
	for (uint32_t i = 0; i < 6; i++)
		n += rr_test_call(out + n, 10 + i, 60000, i);
	n += rr_test_call(out + n, 20, (2 << 20) + 13, 1);
	return n + rr_test_call(out + n, 21, 100, 2);
}

Test(conn_async, what_is_still_fetched_comes_before_what_is_behind_the_hatch)
{
	for (uint32_t delay = 1; delay <= 1000; delay *= 10) {
		goes_on(0, hatch_behind_long_calls(delay));
		cr_assert(rr_tx_is_tcp(p.client.c->share) && rr_tx_is_tcp(p.server.c->share));
		close_pair();
	}
}

Test(conn_async, what_cannot_be_fetched_any_more_is_a_reset_behind_the_hatch_too)
{
	size_t n = hatch_behind_long_calls(1000), off = 0;
	ssize_t k = 0;

	while (!rr_rx_hatch_is_due(p.server.c->share)) {
		k = off < n ? rr_end_try_send(&p.client, out + off, n - off) : 0;
		cr_assert(k >= 0 || k == -EAGAIN);
		off += k > 0 ? (size_t)k : 0;
		k = rr_end_try_recv(&p.server, in, sizeof(in), 0);
		cr_assert(k > 0 || k == -EAGAIN);
	}
	rr_end_poll(&p.server, POLLIN);		/* answers the hatch */
	cr_assert(rr_rx_hatch_is_due(p.server.c->share) && rr_tx_is_tcp(p.server.c->share));
	rr_fake_break(&l);
	for (int i = 0; i < 2000 && ((k = rr_end_try_recv(&p.server, in, sizeof(in), 0)) == -EAGAIN || k > 0); i++)
		usleep(1000);
	cr_assert_eq(k, -ECONNRESET, "%zd", k);
	close_pair();
}

/* Two ways, and nothing says which is the shorter one. */
Test(conn_async, what_comes_by_tcp_before_the_hatch_waits_for_it)
{
	size_t n, sent;

	open_pair(false, 0, true, 17);
	round_trip(1, 0, 0);
	settle();
	n = rr_test_call(out, 9, 2 << 20, 3);
	l.conf.eager = false;
	sent = (size_t)rr_end_try_send(&p.client, out, n);
	cr_assert(sent > 0 && sent <= n);
	for (int i = 0; i < 30; i++) {
		cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -EAGAIN);
		cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
		usleep(2000);
	}
	l.conf.eager = true;
	goes_on(sent, n);
	close_pair();
}

/* --- close() with a call under way -------------------------------------------------------- */

static size_t fetched;

static pthread_t app;
static _Atomic bool app_slept;

/* Where who sees to it would sleep, its peer reads; and that is not the app. */
static int peer_reads(struct rr_qp *qp, enum rr_arm what)
{
	ssize_t k = rr_end_try_recv(&p.server, in + fetched, sizeof(in) - fetched, 0);

	(void)qp, (void)what;
	app_slept |= pthread_equal(pthread_self(), app);
	fetched += k > 0 ? (size_t)k : 0;
	return 1;
}

static void (*provider_close)(struct rr_qp *qp);
static _Atomic uint32_t closed;

static void close_counted(struct rr_qp *qp)
{
	provider_close(qp);
	closed++;
}

static bool nothing_posted(struct rr_qp *qp, rr_time most)
{
	(void)qp, (void)most;
	return true;
}

Test(conn_async, a_long_call_is_fetched_before_its_sender_is_gone)
{
	size_t n;

	rr_test_setup();
	open_over(&(struct rr_fake_conf){ .delay = 30, .eager = true, .ring = true }, 5);
	round_trip(1, 0, 0);
	n = rr_test_call(out, 2, 60000, 2);
	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n);
	l.ops.arm = peer_reads;
	l.ops.settle = nothing_posted;
	provider_close = l.ops.close;
	l.ops.close = close_counted;
	app = pthread_self();
	rr_end_close(&p.client);
	while (!closed)		/* a fake link is for one thread at a time */
		usleep(100);
	cr_assert_eq(fetched, n);
	cr_assert_eq(memcmp(in, out, n), 0);
	cr_assert(!app_slept);
	rr_pair_close(&p);
}

static _Atomic int looks;

/* The peer never reads. */
static int nobody_reads(struct rr_qp *qp, enum rr_arm what)
{
	(void)qp, (void)what;
	app_slept |= pthread_equal(pthread_self(), app);
	return looks++ >= 0;
}

static void ended(struct rr_qp *qp)
{
	(void)qp;
	looks = INT_MIN;
}

Test(conn_async, close_does_not_wait_for_a_peer_that_does_not_fetch)
{
	size_t n;

	rr_test_setup();
	open_over(&(struct rr_fake_conf){ .delay = 30, .eager = true, .ring = true }, 5);
	round_trip(1, 0, 0);
	n = rr_test_call(out, 2, 60000, 2);
	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n);
	l.ops.arm = nobody_reads;
	l.ops.settle = nothing_posted;
	l.ops.disconnect = ended;
	app = pthread_self();
	rr_conn_close(p.client.c, p.client.fd);
	cr_assert(!app_slept);
	cr_assert(p.client.c->lingers);
	cr_assert_geq(looks, 0, "its peer may still fetch it");
	while (p.client.c->lingers)
		usleep(1000);
	rr_pair_close(&p);
	cr_assert_lt(looks, 0);
}

/* --- a device that fails ---------------------------------------------------------------- */

static int poll_error;

static int failing_poll(struct rr_qp *qp, struct rr_wc *wc, int n)
{
	(void)qp, (void)wc, (void)n;
	return poll_error;
}

Test(conn_async, the_reason_tells_a_broken_device_from_a_broken_rule)
{
	static const struct { int err; uint8_t reason; } of[] = { { -EIO, RR_R_DEVICE }, { -EPROTO, RR_R_PROTOCOL } };
	uint8_t byte;

	for (size_t i = 0; i < rr_array_size(of); i++) {
		open_pair(false, 0, true, 7);
		round_trip(1, 0, 0);
		poll_error = of[i].err;
		l.ops.poll = failing_poll;
		cr_assert_eq(rr_end_try_recv(&p.client, &byte, 1, 0), -ECONNRESET);
		cr_assert_eq(p.client.c->share->st->reason, of[i].reason);
		rr_pair_close(&p);
	}
}
