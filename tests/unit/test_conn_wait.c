/* SPDX-License-Identifier: BSD-3-Clause */
/* What a wait asks spin.c, and what it makes of the answer: what is known of the peer and the answers are played. */
#include <criterion/criterion.h>

#include "core/base/stats.h"
#include "core/conn/base/spin.h"
#include "core/conn/carried/carried.h"
#include "tests/lib/connpair.h"

#define BOUND	(100 * RR_USEC)
#define START	(1000 * RR_SEC)
#define IDLE	(20 * RR_MSEC)

static struct rr_share sh;
static struct rr_conn c;
static struct rr_qp qp;
static struct rr_counters counts;

/* --- what is played (the Makefile wraps these) --- */

static struct {
	struct rr_spin_in in;		/* what spin.c was asked last */
	const struct rr_spin_in *from;
	struct rr_spin_wait w;
	rr_time time, learn, worth, wakes, looked, slept;
	uint32_t yields, doing, around, tells;
	enum rr_peer_is peer;
	bool at_work;
} k;

rr_time __wrap_rr_spin_time(const struct rr_spin_in *in);
uint32_t __wrap_rr_spin_yields(const struct rr_spin_in *in);
rr_time __wrap_rr_spin_learn(const struct rr_spin_in *in, const struct rr_spin_wait *w);
void __wrap_rr_spin_look_around(struct rr_spin *s);
void __wrap_rr_tell_look(struct rr_share *s, struct rr_spin_in *in);
rr_time __wrap_rr_tell_wakes(struct rr_share *s, rr_time now, rr_time slept);
void __wrap_rr_tell_doing(struct rr_share *s, uint32_t doing);

rr_time __wrap_rr_spin_time(const struct rr_spin_in *in)
{
	k.in = *in;
	k.from = in;
	return k.time;
}

uint32_t __wrap_rr_spin_yields(const struct rr_spin_in *in)
{
	cr_assert_eq(in, k.from);
	return k.yields;
}

rr_time __wrap_rr_spin_learn(const struct rr_spin_in *in, const struct rr_spin_wait *w)
{
	k.in = *in;
	k.w = *w;
	return k.learn;
}

void __wrap_rr_spin_look_around(struct rr_spin *s)
{
	k.around++;
	s->now = START;
	s->cpu = 3;
	s->cpus = 4;
	s->spinners = 2;
	s->crowded = true;
	s->just_hogged = true;
}

void __wrap_rr_tell_look(struct rr_share *s, struct rr_spin_in *in)
{
	cr_assert_eq(s, &sh);
	in->worth = k.worth;
	in->peer = k.peer;
	in->at_work = k.at_work;
}

rr_time __wrap_rr_tell_wakes(struct rr_share *s, rr_time now, rr_time slept)
{
	cr_assert_eq(s, &sh);
	k.looked = now;
	k.slept = slept;
	return k.wakes;
}

void __wrap_rr_tell_doing(struct rr_share *s, uint32_t doing)
{
	cr_assert_eq(s, &sh);
	k.tells++;
	k.doing = doing;
}

static void begin(void)
{
	rr_test_params.spin = BOUND;
	rr_test_setup();
	qp.count = &counts;
	sh.qp = &qp;
	c.share = &sh;
	c.face.state = RR_S_CARRIED;
	sh.active = START;
	k.worth = BOUND / 2;
}

TestSuite(conn_wait, .init = begin, .timeout = 60);

/* --- how long to spin --- */

static struct rr_spin asked(struct rr_spin s)
{
	rr_conn_spin(&c, &s);
	return s;
}

Test(conn_wait, spin_is_told_what_there_is_to_know)
{
	struct rr_spin s;

	sh.spin = 7000;
	sh.calls[1].open = 5;
	k.peer = RR_PEER_SLEEPS;
	k.time = 9000;
	s = asked((struct rr_spin){ 0 });
	cr_assert(k.around == 1 && s.want == 9000 && !s.enough && s.count == &counts && !s.clock && !s.yields);
	cr_assert(k.in.bound == BOUND && k.in.learned == 7000 && k.in.spun == 0 && k.in.peer == RR_PEER_SLEEPS);
	cr_assert(k.in.cpu == 3 && k.in.cpus == 4 && k.in.spinners == 2 && k.in.serving == 5);
	cr_assert(k.in.crowded && !k.in.hogged && k.in.just_hogged && k.in.worth == BOUND / 2);
	cr_assert_eq(sh.spun, 9000);
	s = asked((struct rr_spin){ .now = START, .cpu = 8, .cpus = 9, .hogged = true });
	cr_assert(k.around == 1 && k.in.cpu == 8 && k.in.cpus == 9 && k.in.spinners == 0);
	cr_assert(!k.in.crowded && k.in.hogged && !k.in.just_hogged);
}

Test(conn_wait, a_spin_that_has_begun_counts_what_it_has_spun)
{
	k.time = 500;
	asked((struct rr_spin){ .began = START - 3000, .now = START, .spinners = 6 });
	cr_assert(k.in.spun == 3000 && k.in.spinners == 0, "it is one of them");
	cr_assert_eq(sh.spun, 3500);
}

Test(conn_wait, the_connection_that_asks_for_most_decides)
{
	struct rr_stat_seg *seg = rr_test_segment(true);
	struct rr_counters other;
	struct rr_spin s = { .now = START, .want = 600, .count = &other };

	k.time = 600;
	s = asked(s);
	cr_assert(s.want == 600 && s.count == &other && !s.yields);
	k.time = 601;
	k.yields = 9;
	sh.seg = seg;
	s = asked(s);
	cr_assert(s.want == 601 && s.count == &counts && s.clock == &seg->clock && !s.yields && !s.enough);
	k.time = k.worth = 602;
	s = asked(s);
	cr_assert(s.enough, "it is worth no more");
	k.time = 1;
	s.enough = false;
	s = asked(s);
	cr_assert(s.want == 602 && !s.yields && !s.enough);
}

Test(conn_wait, who_does_not_spin_may_yield)
{
	struct rr_spin s = { .now = START, .yields = 4 };

	k.yields = 3;
	cr_assert_eq(asked(s).yields, 4);
	k.yields = 5;
	s = asked(s);
	cr_assert(s.yields == 5 && s.want == 0 && !s.count && !s.enough);
	cr_assert_eq(sh.spun, 0);
}

Test(conn_wait, what_was_quiet_for_20_ms_is_not_spun_for)
{
	k.time = 500;
	cr_assert_eq(asked((struct rr_spin){ .now = START + IDLE }).want, 500);
	cr_assert_eq(asked((struct rr_spin){ .now = START + IDLE + 1 }).want, 0);
}

/* What comes by TCP does not show in memory. */
Test(conn_wait, where_bytes_may_come_by_tcp_nobody_spins)
{
	static const struct {
		uint32_t hint;
		bool spins;
	} rows[] = { { 0, true }, { RR_HINT_IN, true }, { RR_HINT_EARLY, false }, { RR_HINT_EARLY | RR_HINT_IN, false },
		     { RR_HINT_EARLY | RR_HINT_AHEAD, true }, { RR_HINT_AHEAD, true } };

	k.time = 500;
	for (size_t i = 0; i < rr_array_size(rows); i++) {
		sh.hint = rows[i].hint;
		cr_assert_eq(asked((struct rr_spin){ .now = START }).want, rows[i].spins ? 500 : 0, "row %zu", i);
	}
}

Test(conn_wait, of_one_that_is_not_carried_nobody_asks)
{
	struct rr_spin s = { .now = START, .stamp = 5 };

	k.time = 500;
	c.face.state = RR_S_TCP;
	c.share = NULL;
	cr_assert_eq(asked(s).want, 0);
	rr_conn_seen(&c, &s);
	c.face.state = RR_S_CARRIED;
	c.face.relayed = true;
	cr_assert_eq(asked(s).want, 0);
	rr_conn_seen(&c, &s);
	cr_assert_eq(k.around, 0);
}

Test(conn_wait, what_a_spin_has_seen_is_noted)
{
	rr_conn_seen(&c, &(struct rr_spin){ .now = START, .stamp = 5 });
	cr_assert(sh.seen == 5 && sh.seen_at == START);
}

Test(conn_wait, calls_that_nobody_works_on_are_not_counted)
{
	sh.calls[0].open = 50;
	sh.calls[1].open = RR_CALLS_SOLO;
	asked((struct rr_spin){ .now = START });
	cr_assert_eq(k.in.serving, 1);
	sh.calls[1].stale = 1;
	asked((struct rr_spin){ .now = START });
	cr_assert(k.in.serving == 0 && sh.calls[1].stale == 1);
	sh.calls[1].open = 4;
	asked((struct rr_spin){ .now = START });
	cr_assert(k.in.serving == 3 && sh.calls[1].stale == 1);
	/* replies to some of those that had been given up */
	sh.calls[1].stale = 6;
	asked((struct rr_spin){ .now = START });
	cr_assert(k.in.serving == 0 && sh.calls[1].stale == 4);
	sh.calls[1].open = 7;
	asked((struct rr_spin){ .now = START });
	cr_assert_eq(k.in.serving, 3);
}

/* --- a trial --- */

Test(conn_wait, on_trial_each_wait_spins_four_times_as_long)
{
	sh.spin = 7000;
	sh.tries = 2;
	asked((struct rr_spin){ .now = START, .began = START - 5 });
	cr_assert(k.in.learned == 4 * BOUND && sh.tries == 2, "the wait goes on");
	asked((struct rr_spin){ .now = START });
	cr_assert(k.in.learned == 4 * BOUND && sh.tries == 1);
	asked((struct rr_spin){ .now = START });
	cr_assert(k.in.learned == 4 * BOUND && sh.tries == 0);
	asked((struct rr_spin){ .now = START });
	cr_assert(k.in.learned == 7000 && sh.tries == 0);
}

/* --- what is learned --- */

static void woke_after(rr_time slept)
{
	sh.armed_at = START - slept;
	rr_wait_learn(&sh, START);
}

Test(conn_wait, a_wait_is_told_with_its_spin)
{
	sh.spin = 300;
	sh.spun = 700;
	k.wakes = 55;
	k.at_work = true;
	k.learn = 200;
	sh.tries = 9;
	sh.calls[1].open = 3;
	woke_after(10000);
	cr_assert(k.in.bound == BOUND && k.in.learned == 300 && k.in.spun == 10700 && k.in.worth == BOUND / 2);
	cr_assert(k.w.took == 10700 && k.w.wakes == 55 && k.w.at_work);
	cr_assert(k.looked == START && k.slept == 10000);
	cr_assert(sh.spin == 200 && sh.armed_at == 0 && sh.tries == 0 && sh.near == 1 && sh.calls[1].stale == 0);
	cr_assert(k.tells == 1 && k.doing == RR_DOES_RUN);
	rr_wait_learn(&sh, START + 5);
	cr_assert(k.tells == 1 && sh.spin == 200, "nobody has slept");
}

Test(conn_wait, a_sleep_of_more_than_20_ms_gives_calls_up)
{
	sh.calls[1].open = RR_CALLS_SOLO;
	woke_after(IDLE);
	cr_assert_eq(sh.calls[1].stale, 0);
	woke_after(IDLE + 1);
	cr_assert_eq(sh.calls[1].stale, 1);
	sh.calls[1].open = 3;
	woke_after(IDLE + 1);
	cr_assert_eq(sh.calls[1].stale, 3);
}

/* How many near misses it takes until the next attempt. */
static uint32_t misses(void)
{
	uint32_t n = 0;

	sh.tries = 0;
	while (!sh.tries && n < 100000) {
		woke_after(4 * BOUND - 1);
		n++;
	}
	return n;
}

Test(conn_wait, after_each_attempt_the_next_takes_twice_as_many_near_misses)
{
	k.learn = 10;
	sh.spin = 10;
	for (uint32_t want = 32; want <= 4096; want *= 2) {
		cr_assert_eq(misses(), want);
		cr_assert(sh.tries == 16 && sh.spin == k.worth && sh.near == 0);
		sh.spin = 10;
	}
	cr_assert_eq(misses(), 4096, "it goes no further");
	cr_assert_eq(sh.attempts, 7);
}

Test(conn_wait, what_is_learned_begins_it_anew)
{
	sh.near = sh.attempts = 3;
	k.learn = 10;
	sh.spin = 10;
	woke_after(100);
	cr_assert(sh.near == 4 && sh.attempts == 3, "it has learned nothing");
	k.learn = 11;
	woke_after(100);
	cr_assert(sh.near == 0 && sh.attempts == 0 && sh.spin == 11);
}

Test(conn_wait, a_long_sleep_is_no_near_miss)
{
	woke_after(4 * BOUND);
	cr_assert_eq(sh.near, 0);
	woke_after(4 * BOUND - 1);
	cr_assert_eq(sh.near, 1);
}

Test(conn_wait, where_wake_ups_are_known_only_work_is_a_near_miss)
{
	k.wakes = 1;
	woke_after(100);
	cr_assert_eq(sh.near, 0);
	k.at_work = true;
	woke_after(100);
	cr_assert_eq(sh.near, 1);
	k.wakes = 0;
	k.at_work = false;
	woke_after(100);
	cr_assert_eq(sh.near, 2);
}

/* --- statistics --- */

static uint64_t counted(enum rr_counter which)
{
	return atomic_load(&counts.v[which]);
}

Test(conn_wait, spins_are_counted_for_the_connection_that_asked)
{
	struct rr_spin s = { .began = 100, .now = 350 };

	rr_conn_spun(&s, true);
	s.count = &counts;
	rr_conn_spun(&s, true);
	rr_conn_spun(&s, false);
	cr_assert_eq(counted(RR_C_spins), 2);
	cr_assert_eq(counted(RR_C_spins_paid), 1);
	cr_assert_eq(counted(RR_C_spun_ns), 500);
}
