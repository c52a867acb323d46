/* SPDX-License-Identifier: BSD-3-Clause */
/* Idle connections: what they keep, and that nobody notices what they gave back. */

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/enter.h"
#include "tests/lib/connpair.h"

#define PAIRS	12

static struct rr_pair pair[PAIRS], *p = &pair[0];
static uint8_t out[2 << 20], in[2 << 20];

static void setup(void)
{
	rr_test_setup();
	rr_pair_open(p);
}

static void teardown(void)
{
	rr_pair_close(p);
}

TestSuite(conn_idle, .init = setup, .fini = teardown, .timeout = 60);

/* --- traffic --- */

static void pass(struct rr_end *from, struct rr_end *to, size_t n)
{
	cr_assert_eq(rr_end_send(from, to, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(to, from, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
}

static void call(struct rr_pair *q, uint32_t xid, size_t len)
{
	pass(&q->client, &q->server, rr_test_call(out, xid, len, xid));
}

static void reply(struct rr_pair *q, uint32_t xid, size_t len)
{
	pass(&q->server, &q->client, rr_test_reply(out, xid, len, xid));
}

static const size_t size[] = { 0, 100, 4000, 70000, 1000000 };

static void traffic(struct rr_pair *q)
{
	static uint32_t xid;

	for (size_t i = 0; i < rr_array_size(size); i++)
		for (size_t j = 0; j < rr_array_size(size); j++) {
			call(q, ++xid, size[i]);
			reply(q, xid, size[j]);
		}
	cr_assert(rr_conn_is_carried(q->client.c) && rr_conn_is_carried(q->server.c));
	rr_end_poll(&q->server, POLLIN);	/* takes the last RDMA_DONE */
}

/* --- what is kept --- */

static unsigned int pages(const struct rr_end *e)
{
	struct rr_share *sh = e->c->share;
	static unsigned char there[4096];
	unsigned int n = 0;

	cr_assert_leq(sh->size / RR_PAGE, sizeof(there));
	cr_assert_eq(mincore(sh, sh->size, there), 0);
	for (size_t i = 0; i < sh->size / RR_PAGE; i++)
		n += there[i] & 1;
	return n;
}

/* Looks until nothing is due at this time any more. Returns when a thread is to wake up for the next look. */
static rr_time look_all(rr_time now)
{
	rr_time next;

	while ((next = rr_conn_idle(now)) < now + rr_test_params.idle_trim / 4)
		now = next;	/* there are more than a look trims */
	return next;
}

/* Everything that is due in an hour is done now. */
static void an_hour_passes(void)
{
	look_all(rr_now() + 3600 * RR_SEC);
}

Test(conn_idle, an_idle_connection_keeps_two_pages_a_side)
{
	for (int round = 0; round < 3; round++) {
		traffic(p);
		cr_assert_gt(pages(&p->client), 5);
		cr_assert_gt(pages(&p->server), 5);
		an_hour_passes();
		cr_assert_leq(pages(&p->client), 2, "%u", pages(&p->client));
		cr_assert_leq(pages(&p->server), 2, "%u", pages(&p->server));
	}
}

static void assert_two_pages(void)
{
	cr_assert_leq(pages(&p->client), 2, "%u", pages(&p->client));
	cr_assert_leq(pages(&p->server), 2, "%u", pages(&p->server));
}

/* An app that waits where we cannot see it gives nothing back after its last calls. */
Test(conn_idle, short_calls_touch_no_third_page)
{
	uint32_t xid = 1;

	traffic(p);
	an_hour_passes();
	for (; xid < 300; xid++) {
		call(p, xid, 100);
		reply(p, xid, 100);
	}
	assert_two_pages();
	/* More than the page has room for: the queue of messages goes on elsewhere. */
	for (uint32_t i = 0; i < 24; i++) {
		size_t n = rr_test_call(out, xid + i, 10, 0);

		cr_assert_eq(rr_end_send(&p->client, &p->server, out, n), (ssize_t)n);
	}
	for (uint32_t i = 0; i < 24; i++) {
		size_t n = rr_test_call(out, xid + i, 10, 0);

		cr_assert_eq(rr_end_recv(&p->server, &p->client, in, n), (ssize_t)n);
		cr_assert_eq(memcmp(in, out, n), 0);
		reply(p, xid + i, 10);
	}
	cr_assert_gt(pages(&p->server), 2);
	an_hour_passes();
	assert_two_pages();
}

/* Waiting, or looking whether something is there, brings nothing back. */
Test(conn_idle, asking_an_idle_connection_costs_no_page)
{
	struct pollfd fds[2];
	rr_time until;

	traffic(p);
	an_hour_passes();
	cr_assert_eq(rr_end_poll(&p->client, POLLIN | POLLOUT), POLLOUT);
	cr_assert_eq(rr_end_try_recv(&p->client, in, 1, 0), -EAGAIN);
	cr_assert_eq(rr_conn_inq(p->client.c, p->client.fd), 0);
	rr_conn_fds(p->client.c, p->client.fd, POLLIN, fds, &until);
	cr_assert_eq(rr_conn_arm(p->client.c, p->client.fd, POLLIN), 0);
	rr_conn_disarm(p->client.c, p->client.fd);
	cr_assert_leq(pages(&p->client), 2, "%u", pages(&p->client));
}

Test(conn_idle, when_all_is_given_back_nobody_looks_any_more)
{
	traffic(p);
	cr_assert_neq(rr_conn_idle(rr_now()), RR_TIME_NEVER);
	an_hour_passes();
	cr_assert_eq(rr_conn_idle(rr_now()), RR_TIME_NEVER);
	traffic(p);
	cr_assert_neq(rr_conn_idle(rr_now()), RR_TIME_NEVER);
}

static bool count(struct rr_conn *c, void *n)
{
	(void)c;
	++*(int *)n;
	return true;
}

static int looked_at(void)
{
	int n = 0;

	cr_assert(rr_slab_each(RR_MARK_IN_USE, count, &n));
	return n;
}

Test(conn_idle, what_was_given_back_is_not_touched_when_others_are_looked_at)
{
	rr_test_params.idle_trim = 1000 * RR_SEC;	/* nothing goes by itself on a busy machine */
	for (int i = 1; i < PAIRS; i++) {
		rr_pair_open(&pair[i]);
		traffic(&pair[i]);
	}
	cr_expect_eq(looked_at(), 2 * (PAIRS - 1));
	an_hour_passes();
	cr_expect_eq(looked_at(), 0);
	traffic(&pair[1]);
	cr_expect_eq(looked_at(), 2);
	for (int i = 1; i < PAIRS; i++)
		rr_pair_close(&pair[i]);
	cr_expect_eq(looked_at(), 0);
}

/* --- what must not be lost --- */

Test(conn_idle, a_message_that_nobody_has_read_stays)
{
	traffic(p);
	for (size_t i = 0; i < rr_array_size(size); i++) {
		size_t n = rr_test_call(out, 7, size[i], 7);

		cr_assert_eq(rr_end_send(&p->client, &p->server, out, n), (ssize_t)n);
		an_hour_passes();
		cr_assert_eq(rr_end_recv(&p->server, NULL, in, 4), 4);	/* and half read */
		an_hour_passes();
		cr_assert_eq(rr_end_recv(&p->server, NULL, in + 4, n - 4), (ssize_t)n - 4);
		cr_assert_eq(memcmp(in, out, n), 0);
		reply(p, 7, 10);
		an_hour_passes();
	}
}

Test(conn_idle, half_a_record_stays)
{
	size_t n, at[] = { 2, 30, 3000, 50044 };

	traffic(p);
	n = rr_test_call(out, 9, 50000, 9);
	cr_assert_eq(n, 50044);
	an_hour_passes();
	for (size_t i = 0, done = 0; i < rr_array_size(at); done = at[i++]) {
		cr_assert_eq(rr_end_send(&p->client, NULL, out + done, at[i] - done),
			     (ssize_t)(at[i] - done));
		an_hour_passes();
	}
	cr_assert_eq(rr_end_recv(&p->server, &p->client, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
}

Test(conn_idle, calls_without_reply_are_answered_later)
{
	traffic(p);
	for (uint32_t xid = 1; xid < 30; xid++)
		call(p, xid, size[xid % rr_array_size(size)]);
	an_hour_passes();
	for (uint32_t xid = 1; xid < 30; xid++)
		reply(p, xid, size[(xid + 2) % rr_array_size(size)]);
	traffic(p);
}

Test(conn_idle, one_of_many_connections_gives_back_only_its_own)
{
	srand(3);
	for (int i = 1; i < PAIRS; i++)
		rr_pair_open(&pair[i]);
	for (uint32_t xid = 1; xid < 400; xid++) {
		struct rr_pair *q = &pair[rand() % PAIRS];

		call(q, xid, size[(size_t)rand() % rr_array_size(size)]);
		if (rand() % 2)
			rr_conn_idle(rr_now() + (rr_time)(rand() % 4) * RR_SEC);
		reply(q, xid, size[(size_t)rand() % rr_array_size(size)]);
	}
	for (int i = 1; i < PAIRS; i++)
		rr_pair_close(&pair[i]);
}

/* More often than there are buffers. */
Test(conn_idle, no_buffer_is_lost_with_the_tables)
{
	for (uint32_t xid = 1; xid < 1200; xid += 2) {
		for (uint32_t i = 0; i < 4; i++)
			call(p, xid + i % 2 + i * 10000, 5000);
		for (uint32_t i = 0; i < 4; i++)
			reply(p, xid + i % 2 + i * 10000, 10);
		an_hour_passes();
	}
	cr_assert_eq(rr_pool_alloc(&p->client.c->share->pool, 1), 0, "the first is free again");
}

/* --- who gives it back --- */

/* An app that waits where we cannot see it sleeps in no call of ours. */
Test(conn_idle, taking_up_a_connection_gives_back_what_others_have)
{
	rr_test_params.idle_trim = RR_MSEC;
	traffic(p);
	for (int i = 0; pages(&p->client) + pages(&p->server) > 4 && i < 1000; i++) {
		rr_pair_open(&pair[1]);
		call(&pair[1], 1, 10);
		rr_pair_close(&pair[1]);
		usleep(10000);
	}
	cr_assert_leq(pages(&p->client), 2);
	cr_assert_leq(pages(&p->server), 2);
}

Test(conn_idle, a_connection_that_is_busy_now_is_looked_at_again)
{
	struct rr_lock *l;

	traffic(p);
	cr_assert_eq(rr_conn_hold(p->client.c, &l), RR_S_CARRIED);
	an_hour_passes();
	cr_assert_gt(pages(&p->client), 5);
	rr_lock_drop(l);
	cr_assert_leq(pages(&p->server), 2);
	an_hour_passes();
	cr_assert_gt(pages(&p->client), 5, "not yet: it may be busy for long");
	rr_conn_idle(rr_now() + 7200 * RR_SEC);
	cr_assert_leq(pages(&p->client), 2);
}

/* Nothing comes in that would make anybody look at it. */
Test(conn_idle, a_connection_that_only_sends_gives_back_again)
{
	size_t n;

	traffic(p);
	for (uint32_t xid = 1; xid < 4; xid++) {
		an_hour_passes();
		cr_assert(p->client.c->share->trimmed);
		n = rr_test_call(out, xid, 100, xid);
		cr_assert_eq(rr_end_send(&p->client, NULL, out, n), (ssize_t)n);
		cr_assert_not(p->client.c->share->trimmed);
	}
}

/* Each trim that was soon followed by use makes the next one come later. */
Test(conn_idle, a_connection_that_comes_back_soon_is_given_more_time)
{
	static const unsigned int times[] = { 1, 2, 4, 8, 8 };
	rr_time trim = rr_test_params.idle_trim = 1000 * RR_SEC;

	for (size_t i = 0; i < rr_array_size(times); i++) {
		traffic(p);
		rr_conn_idle(rr_now() + times[i] * trim - trim / 10);
		cr_assert_gt(pages(&p->client), 5, "%u", times[i]);
		rr_conn_idle(rr_now() + (times[i] + 1) * trim);
		cr_assert_leq(pages(&p->client), 2, "%u", times[i]);
	}
	p->client.c->share->active -= 9 * trim;		/* it was really idle for once */
	traffic(p);
	rr_conn_idle(rr_now() + trim + trim / 2);
	cr_assert_leq(pages(&p->client), 2);
}

/* With a call now and then, a sleep that lasts until the next look would end once more for each. */
Test(conn_idle, calls_that_come_before_the_time_is_over_twice_cause_no_wakeup_of_their_own)
{
	rr_time trim = rr_test_params.idle_trim = 1000 * RR_SEC, now;

	traffic(p);
	now = rr_now();
	for (int i = 0; i < 20; i++) {
		rr_time next = now + trim - trim / 10;

		cr_assert_gt(rr_conn_idle(now), next, "%d: a sleeper is up again by then", i);
		now = next;
		p->client.c->share->active = p->server.c->share->active = now;	/* as by a call */
	}
	cr_assert_leq(rr_conn_idle(now), now + 2 * trim + trim / 10, "the last one is the end");
}

/* --- a few stay as they are --- */

static struct rr_pair many[40];

/* Opens n of them, with a call and its reply on each. */
static void open_many(int n)
{
	if (sizeof(long) < 8)
		cr_skip_test("addresses of 32 bits do not hold so many");
	for (int i = 0; i < n; i++) {
		rr_pair_open(&many[i]);
		call(&many[i], 1, 10);
		reply(&many[i], 1, 10);
		cr_assert(rr_conn_is_carried(many[i].client.c));
	}
}

static void close_many(int n)
{
	for (int i = 0; i < n; i++)
		rr_pair_close(&many[i]);
}

static int trimmed(int n)
{
	int k = 0;

	for (int i = 0; i < n; i++)
		k += many[i].client.c->share->trimmed + many[i].server.c->share->trimmed;
	return k;
}

static int staying(void)
{
	return (int)rr_slab_count(RR_MARK_STAYS);
}

Test(conn_idle, few_idle_connections_keep_what_short_calls_need_and_nobody_looks_at_them)
{
	enum { MANY = 5 };

	rr_test_params.idle_trim = 1000 * RR_SEC;
	rr_test_params.idle_stay = 2 * MANY;
	open_many(MANY);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(look_all(rr_now() + 1000000 * RR_SEC), RR_TIME_NEVER);
		cr_assert_eq(trimmed(MANY), 0);
		cr_assert_eq(staying(), 2 * MANY);
		call(&many[1], 2, 10);
		reply(&many[1], 2, 10);
		cr_assert_eq(rr_conn_idle(rr_now()), RR_TIME_NEVER, "nor after a call");
	}
	close_many(MANY);
	cr_assert_eq(staying(), 0);
}

Test(conn_idle, more_than_may_stay_take_turns)
{
	enum { MANY = 5, STAY = 4 };
	rr_time trim = rr_test_params.idle_trim = 1000 * RR_SEC, now, next;

	rr_test_params.idle_stay = STAY;
	open_many(MANY);
	now = rr_now() + trim + trim / 10;
	next = look_all(now);
	cr_assert_eq(staying(), STAY);
	cr_assert_eq(trimmed(MANY), 2 * MANY - STAY);
	cr_assert_gt(next, now + 60 * trim);
	cr_assert_lt(next, now + 70 * trim);
	for (int i = 0; i < MANY; i++)
		if (!many[i].client.c->share->trimmed)
			many[i].client.c->share->active = next - 2 * trim;	/* as by a call */
	look_all(next);
	for (int i = 0; i < MANY; i++)
		cr_assert_eq(many[i].client.c->share->stays, !many[i].client.c->share->trimmed);
	cr_assert_eq(staying() + trimmed(MANY), 2 * MANY);
	cr_assert_lt(staying(), STAY, "those of which nobody has heard for long have made room");
	call(&many[MANY - 1], 2, 10);
	reply(&many[MANY - 1], 2, 10);
	look_all(next + 2 * trim);
	cr_assert(many[MANY - 1].client.c->share->stays && many[MANY - 1].server.c->share->stays);
	close_many(MANY);
}

Test(conn_idle, long_messages_are_not_kept)
{
	rr_test_params.idle_stay = 4;
	traffic(p);
	an_hour_passes();
	cr_assert_eq(staying(), 0);
	assert_two_pages();
	call(p, 1, 3000);	/* goes inline, but not in a slot */
	reply(p, 1, 10);
	an_hour_passes();
	cr_assert(p->client.c->share->trimmed, "it made the memory of the other's slots");
	call(p, 1, 100);
	reply(p, 1, 100);
	an_hour_passes();
	cr_assert_eq(staying(), 2);
}

Test(conn_idle, what_a_child_gets_does_not_stay)
{
	rr_test_params.idle_stay = 4;
	call(p, 1, 100);
	reply(p, 1, 100);
	an_hour_passes();
	cr_assert_eq(staying(), 2);
	rr_conn_forked(p->client.c);
	call(p, 1, 100);
	reply(p, 1, 100);
	cr_assert_eq(staying(), 1);
	an_hour_passes();
	cr_assert(p->client.c->share->trimmed && !p->server.c->share->trimmed);
}

/* --- many --- */

/* Several threads sleep, and each wakes when it was told to, but not at the same time. */
Test(conn_idle, threads_that_only_sleep_do_not_keep_one_another_from_it)
{
	enum { MANY = 40, THREADS = 4 };
	rr_time trim = rr_test_params.idle_trim, start, now, wakes[THREADS];
	int calls = 0;

	open_many(MANY);
	start = rr_now() + trim + trim / 10;
	for (int i = 0; i < THREADS; i++)
		wakes[i] = start + (rr_time)i * 700 * RR_USEC;
	for (now = start; now < start + trim / 2 && trimmed(MANY) < 2 * MANY; now += 100 * RR_USEC)
		for (int i = 0; i < THREADS; i++)
			if (now >= wakes[i]) {
				wakes[i] = rr_conn_idle(now);
				calls++;
			}
	cr_assert_eq(trimmed(MANY), 2 * MANY);
	cr_assert_lt(calls, 40, "%d", calls);
	close_many(MANY);
}

/* Threads that are always about to wait for something: some are trimmed all the same, from time to time. */
Test(conn_idle, where_nobody_ever_sleeps_idle_ones_are_given_back_too)
{
	enum { MANY = 20, LOOK = 16 };
	rr_time trim = rr_test_params.idle_trim, now;
	int last = 0;

	open_many(MANY);
	now = rr_now() + trim + trim / 10;
	for (rr_time end = now + trim; now < end; now += RR_MSEC) {
		int k;

		rr_conn_idle(now);
		k = trimmed(MANY);
		cr_assert_leq(k - last, LOOK);
		last = k;
	}
	cr_assert_eq(last, 2 * MANY);
	close_many(MANY);
}

/* A thousand are not trimmed in one look, and none while a thread may be about to wait for a reply: when it has slept for
 * a moment some are, and the next ones follow soon. */
Test(conn_idle, of_many_that_are_idle_the_rest_is_not_kept_waiting)
{
	enum { MANY = 40, LOOK = 16 };
	rr_time trim = rr_test_params.idle_trim = 1000 * RR_SEC, now;

	open_many(MANY);
	now = rr_now() + trim + trim / 10;
	cr_assert_eq(rr_conn_idle(now), now + 2 * RR_MSEC);
	for (int i = 0; i < 3; i++) {
		now += RR_MSEC;
		cr_assert_gt(rr_conn_idle(now), now + trim / 10, "others go to sleep meanwhile");
	}
	for (int i = 0; i < 2; i++) {
		now += 10 * RR_SEC;
		cr_assert_eq(rr_conn_idle(now), now + 2 * RR_MSEC, "they do so later");
	}
	cr_assert_eq(trimmed(MANY), 0);
	now += 2 * RR_MSEC;
	for (int n = LOOK; n < 2 * MANY; n += LOOK) {
		cr_assert_leq(rr_conn_idle(now), now + trim / 64, "there are more than a look trims");
		cr_assert_eq(trimmed(MANY), n);
		now += trim / 64;
	}
	cr_assert_geq(rr_conn_idle(now), now + trim / 2);
	for (int i = 0; i < MANY; i++)
		cr_assert_leq(pages(&many[i].client), 2, "%d", i);
	close_many(MANY);
}

/* A child and its parent have the same connection. */
Test(conn_idle, what_one_process_gave_back_no_other_misses)
{
	int st;

	traffic(p);
	for (int round = 0; round < 4; round++) {
		pid_t pid;

		rr_conn_fork_prepare();
		rr_conn_forked(p->client.c);
		rr_conn_forked(p->server.c);
		pid = fork();
		if (pid == 0) {
			rr_conn_fork_child();
			if (round & 1)
				an_hour_passes();
			traffic(p);
			if (round & 2)
				an_hour_passes();
			_exit(0);
		}
		rr_conn_fork_parent();
		cr_assert_eq(waitpid(pid, &st, 0), pid);
		cr_assert_eq(st, 0);
		traffic(p);
		an_hour_passes();
		cr_assert_leq(pages(&p->client), 2);
	}
}

static bool look_within(struct rr_conn *c, void *arg)
{
	(void)c;
	*(rr_time *)arg = rr_idle_look(rr_now() + 100 * RR_SEC);
	return true;
}

/* As another thread may be at that moment. */
Test(conn_idle, a_look_that_finds_somebody_going_over_the_connections_comes_again)
{
	rr_time next = 0;

	traffic(p);
	cr_assert_neq(atomic_load(&rr_idle_next), 0);
	cr_assert(rr_slab_each(RR_MARK_IN_USE, look_within, &next));
	cr_assert_neq(next, RR_TIME_NEVER);
	cr_assert_neq(atomic_load(&rr_idle_next), 0);
}

Test(conn_idle, where_nothing_is_due_no_connection_is_looked_at)
{
	traffic(p);
	atomic_store(&rr_idle_next, 0);
	cr_assert_eq(rr_idle_look(rr_now() + 100 * RR_SEC), RR_TIME_NEVER);
	cr_assert_not(p->client.c->share->trimmed);
	cr_assert_eq(atomic_load(&rr_idle_next), 0);
}

/* More than lie beside the engine. */
Test(conn_idle, replies_that_wait_for_the_app_keep_their_tables)
{
	struct rr_share *sh;
	size_t n;

	traffic(p);
	sh = p->client.c->share;
	for (uint32_t i = 0; i < 24; i++) {
		n = rr_test_call(out, 1000 + i, 100, i);
		cr_assert_eq(rr_end_send(&p->client, &p->server, out, n), (ssize_t)n);
	}
	for (uint32_t i = 0; i < 24; i++) {
		n = rr_test_call(out, 1000 + i, 100, i);
		cr_assert_eq(rr_end_recv(&p->server, NULL, in, n), (ssize_t)n);
		n = rr_test_reply(out, 1000 + i, 100, i);
		cr_assert_eq(rr_end_send(&p->server, NULL, out, n), (ssize_t)n);
	}
	cr_assert_eq(rr_end_poll(&p->client, POLLIN), POLLIN);
	cr_assert_geq(sh->rx.tail - sh->rx.head, 24);
	rr_idle_look(rr_now() + 100 * RR_SEC);
	cr_assert(sh->trimmed);
	for (uint32_t i = 0; i < 24; i++) {
		n = rr_test_reply(out, 1000 + i, 100, i);
		cr_assert_eq(rr_end_recv(&p->client, NULL, in, n), (ssize_t)n);
		cr_assert_eq(memcmp(in, out, n), 0, "%u", i);
	}
}

/* With a few pages nothing is gained. */
Test(conn_idle, few_pages_that_are_kept_are_not_counted)
{
	struct rr_share *sh;

	rr_test_params.warm_memory = 0;
	traffic(p);
	sh = p->client.c->share;
	rr_idle_trim(sh);
	cr_assert_eq(sh->pool.used, 0);
	sh->pool.peak = 64;
	rr_idle_count_warm(sh);
	cr_assert_eq(sh->pool.peak, 64);
	cr_assert_eq(sh->warm, 0);
	sh->pool.peak = 65;
	rr_idle_count_warm(sh);
	cr_assert_eq(sh->pool.peak, 0, "given back");
}

/* All connections of the process count, each with what it keeps now. */
Test(conn_idle, what_all_keep_together_has_a_limit)
{
	struct rr_share *a, *b;

	traffic(p);
	a = p->client.c->share;
	b = p->server.c->share;
	rr_idle_trim(a);
	rr_idle_trim(b);
	cr_assert(a->pool.used == 0 && b->pool.used == 0);
	rr_test_params.warm_memory = 200 * RR_POOL_PAGE;
	a->pool.peak = 100;
	rr_idle_count_warm(a);
	a->pool.peak = 160;
	rr_idle_count_warm(a);
	cr_assert(a->pool.peak == 160 && a->warm == 160, "what it kept before is not counted again");
	b->pool.peak = 65;
	rr_idle_count_warm(b);
	cr_assert(b->pool.peak == 0 && b->warm == 0, "given back");
	cr_assert(a->pool.peak == 160 && a->warm == 160, "by the one that went over it");
	rr_idle_trim(a);
	b->pool.peak = 200;
	rr_idle_count_warm(b);
	cr_assert_eq(b->warm, 200);
}
