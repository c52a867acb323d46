/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a waiter spins: what it has learned of its sleeps, and what the two ends tell each other. */
#include <sched.h>

#include "core/base/cpus.h"
#include "core/base/os.h"
#include "core/base/ticks.h"
#include "core/conn/enter.h"
#include "core/prov/shm/shm_int.h"
#include "tests/unit/conn_pair.h"

#define AGO	(3 * RR_SEC)
enum { SPIN = 10 * RR_MSEC, TRIAL = 4 * SPIN };	/* so long that a busy machine's pauses are short */

static void begin(void)
{
	rr_test_params.spin = rr_test_params.spin_worth = SPIN;
	setup();
	carried();
}

TestSuite(conn_spin, .init = begin, .fini = teardown, .timeout = 60);

/* As if the peer's thread were on a CPU that this one never is on. */
static void peer_is_on(struct rr_end *e, uint32_t cpu)
{
	struct rr_qp *qp = e->c->share->qp;

	qp->ops->tell(qp, RR_TELL_CPU, cpu);
}

static struct rr_spin asked(struct rr_end *e)
{
	struct rr_spin s = { 0 };

	e->c->share->active = rr_now();
	rr_conn_spin(e->c, &s);
	return s;
}

static rr_time budget(void)
{
	peer_is_on(&p.server, 100000);
	return asked(&p.client).want;
}

/* A thread of this end has slept for so long, as it finds, and no bell woke it. When the last one rang is said in 32 bits,
 * which come round every four seconds. */
static void has_slept(struct rr_end *e, rr_time t)
{
	struct rr_shm *q = rr_shm_of(e->c->share->qp);

	atomic_store(&q->own.ctl->rung, (uint32_t)(rr_now() - AGO));
	e->c->share->spun = 0;
	e->c->share->armed_at = rr_now() - t;
	atomic_fetch_add(&e->c->sleepers, 1);
	rr_conn_disarm(e->c, e->fd);
}

static void slept(rr_time t)
{
	has_slept(&p.client, t);
}

/* The same, where a bell woke it. */
static void was_woken(rr_time t)
{
	struct rr_shm *q = rr_shm_of(p.client.c->share->qp);

	atomic_store(&q->own.ctl->rung, (uint32_t)(rr_now() - RR_USEC));
	p.client.c->share->spun = 0;
	p.client.c->share->armed_at = rr_now() - t;
	atomic_fetch_add(&p.client.c->sleepers, 1);
	rr_conn_disarm(p.client.c, p.client.fd);
}

static uint32_t near_misses_until_it_tries(void)
{
	uint32_t n = 0;

	while (budget() <= SPIN && n < 10000) {
		slept(2 * SPIN);
		n++;
	}
	return n;
}

Test(conn_spin, long_sleeps_end_it_and_short_ones_bring_it_back)
{
	cr_assert_eq(budget(), SPIN);
	for (int i = 0; i < 40; i++)
		slept(RR_SEC);
	cr_assert_eq(budget(), 0);
	slept(0);
	cr_assert_eq(budget(), SPIN);
}

Test(conn_spin, ends_that_only_wait_for_each_others_wake_ups_try_without)
{
	int tries = 1;

	cr_assert_geq(near_misses_until_it_tries(), 32);
	while (budget() > SPIN)
		tries++;
	cr_assert_eq(tries, 16);	/* the first ended the loop above */
	cr_assert_eq(budget(), SPIN);
}

Test(conn_spin, what_was_no_use_is_tried_half_as_often)
{
	near_misses_until_it_tries();
	slept(2 * SPIN);	/* in spite of the try */
	cr_assert_leq(budget(), SPIN / 2);
	cr_assert_geq(near_misses_until_it_tries(), 63);
}

/* What two ends do for each other takes longer where both have slept than where both are awake:
 * copies, on a CPU that had gone to rest. */
Test(conn_spin, who_slept_while_the_peer_was_at_work_tries_without)
{
	uint32_t n;

	for (n = 0; n < 1000 && budget() <= SPIN; n++)
		was_woken(2 * SPIN);
	cr_assert_eq(n, 1000, "of a peer that did nothing the wake-up is known");
	for (n = 0; n < 1000 && budget() <= SPIN; n++) {
		rr_tell_moved(p.server.c->share);
		was_woken(2 * SPIN);
	}
	cr_assert_eq(n, 32);
}

Test(conn_spin, long_sleeps_are_no_reason_to_try)
{
	for (int i = 0; i < 10000; i++)
		slept(RR_SEC);
	cr_assert_eq(budget(), 0);
}

Test(conn_spin, no_one_spins_for_what_was_idle_for_long)
{
	struct rr_spin s = { 0 };

	p.client.c->share->active = rr_now() - RR_SEC;
	rr_conn_spin(p.client.c, &s);
	cr_assert_eq(s.want, 0);
	cr_assert_eq(s.yields, 0);
}

/* --- by which clock --- */

static struct rr_spin spun_by(struct rr_ticks *clock)
{
	struct rr_spin s;

	peer_is_on(&p.server, 100000);
	s = asked(&p.client);
	s.clock = clock;
	cr_assert(rr_spin_begin(&s, RR_TIME_NEVER));
	cr_assert(rr_spin_on(&s));
	rr_spin_end(&s, true);
	return s;
}

Test(conn_spin, without_statistics_a_spin_reads_the_kernels_clock)
{
	struct rr_spin s = spun_by(NULL);

	cr_assert_eq(s.stamp, s.now);
	cr_assert(s.now >= s.began && s.now <= rr_now());
}

Test(conn_spin, so_it_does_where_statistics_have_no_other)
{
	static struct rr_ticks unknown;
	struct rr_spin s = spun_by(&unknown);

	cr_assert(s.now >= s.began && s.now <= rr_now());
	cr_assert(rr_ticks_in_order(s.stamp_began, s.stamp));
	cr_assert_eq(s.now - s.began, s.stamp - s.stamp_began);
}

#ifdef __x86_64__
Test(conn_spin, a_spin_reads_the_cpus_counter_where_statistics_do)
{
	static struct rr_ticks known = { .rate = UINT64_C(3) << 32 };
	struct rr_spin s = spun_by(&known);

	cr_assert(s.stamp & s.stamp_began & RR_TICKS_OF_CPU);
	cr_assert_eq(s.now - s.began, 3 * (s.stamp - s.stamp_began));
}
#endif

/* --- what the ends tell each other --- */

static void on_one_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

Test(conn_spin, no_one_spins_against_a_peer_on_its_own_cpu)
{
	struct rr_spin s;

	on_one_cpu();
	asked(&p.server);	/* where it says on which CPU it is */
	s = asked(&p.client);
	cr_assert_eq(s.want, 0);
	cr_assert_gt(s.yields, 0);
	cr_assert(rr_spin_begin(&s, RR_TIME_NEVER));
	for (int i = 0; rr_spin_on(&s); i++)
		cr_assert_lt(i, 100, "giving way has no end");
	cr_assert(!s.seated);
	rr_spin_end(&s, false);
}

Test(conn_spin, a_server_tells_its_cpu_where_it_takes_a_call)
{
	struct rr_peer_look l;

	cr_assert_eq(rr_end_send(&p.client, &p.server, out, rr_test_call(out, 2, 10, 1)), 54);
	cr_assert(rr_end_poll(&p.server, POLLIN) & POLLIN);
	p.client.c->share->qp->ops->observe(p.client.c->share->qp, 0, &l);
	cr_assert_gt(l.cpu, 0);
}

Test(conn_spin, a_server_that_only_reads_does_so_too)
{
	struct rr_peer_look l;
	uint8_t got[54];

	cr_assert_eq(rr_end_send(&p.client, &p.server, out, rr_test_call(out, 2, 10, 1)), 54);
	p.server.c->share->cpu_told = 0;	/* a tick of the clock later */
	peer_is_on(&p.server, 100000);
	cr_assert_eq(rr_end_try_recv(&p.server, got, sizeof(got), 0), 54);
	p.client.c->share->qp->ops->observe(p.client.c->share->qp, 0, &l);
	cr_assert_lt(l.cpu, 100000);
}

/* Armed and asleep, as the peer sees it; and whether it would have to be woken the next time. */
Test(conn_spin, a_peer_that_sleeps_each_time_is_not_spun_for)
{
	rr_test_params.spin_worth = SPIN / 2;
	cr_assert_eq(rr_conn_arm(p.server.c, p.server.fd, POLLIN), 0);
	cr_assert_gt(budget(), 0, "it sleeps this time only");
	rr_conn_disarm(p.server.c, p.server.fd);
	for (int i = 0; i < 40; i++)
		has_slept(&p.server, RR_SEC);
	cr_assert_gt(budget(), 0, "it is awake");
	cr_assert_eq(rr_conn_arm(p.server.c, p.server.fd, POLLIN), 0);
	cr_assert_eq(budget(), 0);
	rr_conn_disarm(p.server.c, p.server.fd);
	cr_assert_gt(budget(), 0);
}

Test(conn_spin, a_peer_that_moves_bytes_is_waited_for_longer)
{
	struct rr_spin s;

	rr_test_params.spin_worth = SPIN / 4;
	atomic_store(&p.client.c->share->spin, rr_test_params.spin_worth);
	peer_is_on(&p.server, 100000);
	s = asked(&p.client);
	cr_assert_eq(s.want, SPIN / 4);
	s.began = s.now;
	s.now += SPIN / 4;
	s.want = 0;
	rr_conn_spin(p.client.c, &s);
	cr_assert_eq(s.want, 0, "it did nothing");
	rr_tell_moved(p.server.c->share);
	rr_conn_spin(p.client.c, &s);
	cr_assert_eq(s.want, SPIN / 4);
	s.now = s.began + SPIN;
	rr_tell_moved(p.server.c->share);
	s.want = 0;
	rr_conn_spin(p.client.c, &s);
	cr_assert_eq(s.want, 0, "the bound");
}

/* --- threads --- */

Test(conn_spin, who_jumps_out_of_a_spin_does_not_count_for_ever)
{
	rr_test_params.spin = rr_test_params.spin_worth = RR_MSEC;
	atomic_store(&p.client.c->share->spin, RR_MSEC);
	for (uint32_t i = 0; i < 4; i++) {
		struct rr_spin s;

		peer_is_on(&p.server, 100000);
		s = asked(&p.client);
		rr_spin_begin(&s, RR_TIME_NEVER);
		cr_assert(s.seated || !s.cpus || s.spinners);
	}
	rr_os_nap(10 * RR_MSEC);
	cr_assert_eq(asked(&p.client).spinners, 0);
}

Test(conn_spin, no_more_spin_than_there_are_cpus)
{
	struct rr_spin s[65];
	uint32_t n = 0, cpus;

	rr_test_params.spin = rr_test_params.spin_worth = RR_SEC;
	atomic_store(&p.client.c->share->spin, RR_SEC);
	cpus = rr_cpus(rr_now());
	if (!cpus || cpus > 63)
		cr_skip("of so many CPUs that it takes as many threads");
	for (; n <= cpus; n++) {
		peer_is_on(&p.server, 100000);
		s[n] = asked(&p.client);
		if (!rr_spin_begin(&s[n], RR_TIME_NEVER) || !s[n].seated)
			break;
	}
	cr_assert_eq(n, cpus);
	cr_assert_eq(s[n].want, 0);
	cr_assert_gt(s[n].yields, 0, "a thread of ours may be what it waits for");
	cr_assert_eq(s[n].spinners, cpus);
	rr_spin_end(&s[0], true);
	cr_assert_eq(budget(), RR_SEC, "there is room again");
}

/* A wait may find news of a connection that has gone back to TCP meanwhile. */
Test(conn_spin, of_one_that_is_not_carried_nothing_is_noted)
{
	struct rr_spin s = { .now = rr_now(), .stamp = 7 };
	struct rr_pair q;

	rr_pair_open(&q);
	cr_assert(!rr_conn_is_carried(q.client.c) && !q.client.c->share);
	rr_conn_seen(q.client.c, &s);
	rr_conn_seen(p.client.c, &s);
	cr_assert_eq(p.client.c->share->seen, 7);
	rr_pair_close(&q);
}
