/* SPDX-License-Identifier: BSD-3-Clause */
/* How a spin goes: seats, clocks, and what it notices of others, by a clock that the test sets. */
#include <criterion/criterion.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/ticks.h"
#include "core/conn/conn.h"

#define MS	RR_MSEC
#define US	RR_USEC
#define NOW	(1000 * RR_SEC)

static rr_time at = NOW, look_takes, yield_takes;	/* 0: the real clock */

int clock_gettime(clockid_t which, struct timespec *ts)
{
	if (!at || which != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, which, ts);
	at += look_takes;
	*ts = (struct timespec){ .tv_sec = (time_t)(at / RR_SEC), .tv_nsec = (long)(at % RR_SEC) };
	return 0;
}

int sched_yield(void)
{
	at += yield_takes;
	return 0;
}

static struct rr_spin spin_at(rr_time now, rr_time want, uint32_t cpus)
{
	return (struct rr_spin){ .now = now, .want = want, .cpus = cpus };
}

Test(spinning, each_that_spins_has_a_seat)
{
	struct rr_spin a = spin_at(1000, 50, 2), b = spin_at(1049, 50, 2), c = spin_at(1049, 50, 2);

	cr_assert(rr_spin_begin(&a, RR_TIME_NEVER));
	cr_assert(a.seated && a.seat == 0 && a.began == 1000 && a.end == 1050 && a.stamp == 1000 && a.stamp_began == 1000);
	cr_assert(rr_spin_begin(&b, RR_TIME_NEVER));
	cr_assert(b.seated && b.seat == 1 && b.end == 1099);
	cr_assert_not(rr_spin_begin(&c, RR_TIME_NEVER), "there are no more CPUs");
	cr_assert(!c.seated && c.end == c.now);
	c = spin_at(1050, 50, 2);
	cr_assert(rr_spin_begin(&c, RR_TIME_NEVER), "one that was abandoned");
	cr_assert(c.seated && c.seat == 0 && c.end == 1100);
	rr_spin_end(&a, true);
	cr_assert_not(a.seated);
	a = spin_at(1060, 50, 2);
	cr_assert_not(rr_spin_begin(&a, RR_TIME_NEVER), "it is another's now");
	rr_spin_end(&c, true);
	a = spin_at(1060, 50, 2);
	cr_assert(rr_spin_begin(&a, RR_TIME_NEVER));
	cr_assert_eq(a.seat, 0);
	rr_spin_end(&a, true);
	rr_spin_end(&b, true);
}

Test(spinning, there_are_so_many_seats)
{
	struct rr_spin s;

	for (uint32_t i = 0; i < 64; i++) {
		s = spin_at(1000, 50, 100);
		cr_assert(rr_spin_begin(&s, RR_TIME_NEVER));
		cr_assert_eq(s.seat, i);
	}
	s = spin_at(1000, 50, 100);
	cr_assert_not(rr_spin_begin(&s, RR_TIME_NEVER));
	s = spin_at(1000, 50, 100);
	s.yields = 1;
	cr_assert(rr_spin_begin(&s, RR_TIME_NEVER), "it can give way");
	cr_assert_not(s.seated);
	rr_spin_end(&s, true);
	s = spin_at(1000, 50, 0);
	cr_assert_not(rr_spin_begin(&s, RR_TIME_NEVER));
}

Test(spinning, who_wants_nothing_does_not_begin)
{
	struct rr_spin s = spin_at(1000, 0, 2);

	cr_assert_not(rr_spin_begin(&s, RR_TIME_NEVER));
	s.yields = 3;
	cr_assert(rr_spin_begin(&s, RR_TIME_NEVER));
	cr_assert(!s.seated && s.end == 1000 && s.began == 1000);
	s = spin_at(1000, 50, 2);
	cr_assert(rr_spin_begin(&s, 1020));
	cr_assert(s.seated && s.end == 1020, "no longer than there is time");
}

Test(spinning, a_spin_may_go_on)
{
	struct rr_spin s = spin_at(1000, 50, 1), other;

	cr_assert_not(rr_spin_longer(&s, RR_TIME_NEVER), "it has no seat");
	cr_assert(rr_spin_begin(&s, RR_TIME_NEVER));
	s.now = 1040;
	cr_assert(rr_spin_longer(&s, RR_TIME_NEVER));
	cr_assert_eq(s.end, 1090);
	cr_assert(rr_spin_longer(&s, 1060));
	cr_assert_eq(s.end, 1060);
	cr_assert_not(rr_spin_longer(&s, 1040), "there is no time");
	s = spin_at(2000, 50, 1);
	cr_assert(rr_spin_begin(&s, RR_TIME_NEVER));
	s.want = 0;
	cr_assert_not(rr_spin_longer(&s, RR_TIME_NEVER));
	s = spin_at(3000, 50, 1);
	cr_assert(rr_spin_begin(&s, RR_TIME_NEVER));
	other = spin_at(3050, 50, 1);
	cr_assert(rr_spin_begin(&other, RR_TIME_NEVER));
	s.now = 3060;
	cr_assert_not(rr_spin_longer(&s, RR_TIME_NEVER), "the seat is another's");
}

Test(spinning, time_passes)
{
	struct rr_spin s = spin_at(NOW, RR_SEC, 1);

	cr_assert(rr_spin_begin(&s, RR_TIME_NEVER));
	look_takes = 500 * US;
	cr_assert(rr_spin_on(&s));
	cr_assert(s.now == NOW + 500 * US && s.stamp == s.now && s.began == NOW && !s.lost);
	look_takes++;
	cr_assert(rr_spin_on(&s));
	cr_assert(s.now == NOW + 1000 * US + 1 && s.lost, "somebody else had the CPU");
	look_takes = 0;
	cr_assert(rr_spin_on(&s));
	cr_assert(s.lost, "it stays so");
	s.now = s.end - 1;
	cr_assert(rr_spin_on(&s));
	s.now = s.end;
	cr_assert_not(rr_spin_on(&s));
	rr_spin_end(&s, true);
}

static struct rr_ticks unknown;

Test(spinning, a_clock_that_is_not_the_cpus_is_the_kernels)
{
	struct rr_spin s = spin_at(NOW, RR_SEC, 1);

	s.clock = &unknown;
	at = NOW + 100;
	cr_assert(rr_spin_begin(&s, RR_TIME_NEVER));
	cr_assert(s.stamp == NOW + 100 && s.stamp_began == NOW + 100 && s.began == NOW);
	at = NOW + 130;
	cr_assert(rr_spin_on(&s));
	cr_assert(s.stamp == NOW + 130 && s.stamp_began == NOW + 100 && s.now == NOW + 30);
	rr_spin_end(&s, true);
}

/* Gives way once, to nobody or to somebody who has the CPU for so long. */
static uint32_t gives_way(rr_time took)
{
	struct rr_spin s = { .yields = 5, .now = at, .end = at + RR_SEC };

	yield_takes = took;
	cr_assert(rr_spin_on(&s));
	cr_assert(s.now == at && !s.lost);
	return s.yields;
}

static bool is_hogged(void)
{
	struct rr_spin s = { 0 };

	rr_spin_look_around(&s);
	cr_assert(s.now == at && !s.crowded);
	return s.hogged;
}

Test(spinning, who_gives_way_goes_on_while_that_is_of_use)
{
	cr_assert_eq(gives_way(US - 1), 0, "there was nobody");
	cr_assert_eq(gives_way(US), 4);
	cr_assert_eq(gives_way(2 * MS), 4);
	cr_assert_not(is_hogged());
	cr_assert_eq(gives_way(2 * MS + 1), 0);
	cr_assert(is_hogged());
}

Test(spinning, who_gives_way_does_not_spin_yet)
{
	struct rr_spin s = { .yields = 2, .now = NOW, .end = NOW - 1 };

	yield_takes = 10 * US;
	cr_assert(rr_spin_on(&s) && s.yields == 1);
	cr_assert(rr_spin_on(&s) && s.yields == 0);
	cr_assert_not(rr_spin_on(&s));
}

/* --- spells ---------------------------------------------------------------------------------------------------- */

enum { CROWDED = 1, HOGGED = 2, JUST = 4 };

/* In a process of its own: n spells begin, one every `apart`, the last one so long ago. What is noticed then? */
static int found_after(bool hogs, int n, rr_time apart, rr_time ago)
{
	int st;

	if (!fork()) {
		struct rr_spin s = { 0 };

		for (int i = n - 1; i >= 0; i--) {
			rr_time begins = NOW - (rr_time)i * apart;
			struct rr_spin l = { .lost = true, .now = begins };

			if (hogs) {
				at = begins - 3 * MS;
				gives_way(3 * MS);
			} else {
				rr_spin_end(&l, false);
			}
		}
		at = NOW + ago;
		rr_spin_look_around(&s);
		_exit((s.crowded ? CROWDED : 0) | (s.hogged ? HOGGED : 0) | (s.just_hogged ? JUST : 0));
	}
	wait(&st);
	cr_assert(WIFEXITED(st));
	return WEXITSTATUS(st);
}

Test(spinning, spells_grow_longer_while_they_come_often)
{
	static const struct {
		int n;
		rr_time apart, lasts;
	} rows[] = {
		{ 1, 0, 10 * MS }, { 2, 1, 20 * MS }, { 3, 1, 40 * MS }, { 7, 1, 640 * MS }, { 8, 1, RR_SEC }, { 9, 1, RR_SEC },
		{ 2, 40 * MS - 1, 20 * MS }, { 2, 40 * MS, 10 * MS },
	};

	cr_assert_eq(found_after(false, 0, 0, 0), 0);
	for (size_t i = 0; i < rr_array_size(rows); i++) {
		cr_expect_eq(found_after(false, rows[i].n, rows[i].apart, rows[i].lasts - 1), CROWDED, "%zu", i);
		cr_expect_eq(found_after(false, rows[i].n, rows[i].apart, rows[i].lasts), 0, "%zu", i);
	}
}

Test(spinning, who_keeps_the_cpu_is_remembered)
{
	cr_assert_eq(found_after(true, 1, 0, 0), HOGGED | JUST);
	cr_assert_eq(found_after(true, 1, 0, 40 * MS - 1), HOGGED | JUST);
	cr_assert_eq(found_after(true, 1, 0, 40 * MS), HOGGED);
	cr_assert_eq(found_after(true, 1, 0, 100 * MS - 1), HOGGED);
	cr_assert_eq(found_after(true, 1, 0, 100 * MS), 0);
	cr_assert_eq(found_after(true, 2, MS, 200 * MS - 1), HOGGED);
	cr_assert_eq(found_after(true, 2, MS, 200 * MS), 0);
	cr_assert_eq(found_after(true, 8, MS, 5 * RR_SEC - 1), HOGGED);
	cr_assert_eq(found_after(true, 8, MS, 5 * RR_SEC), 0);
}

/* A thread that has lost the CPU and found what it waited for has lost nothing. */
Test(spinning, what_has_paid_is_no_spell)
{
	struct rr_spin s = { .lost = true, .now = NOW }, look = { 0 };

	rr_spin_end(&s, true);
	rr_spin_look_around(&look);
	cr_assert_not(look.crowded);
	s.lost = false;
	rr_spin_end(&s, false);
	rr_spin_look_around(&look);
	cr_assert_not(look.crowded);
	s.lost = true;
	rr_spin_end(&s, false);
	rr_spin_look_around(&look);
	cr_assert(look.crowded && !look.hogged && !look.just_hogged && look.now == NOW);
}

/* As many as there are CPUs are counted, whoever has taken a seat until later. */
Test(spinning, who_spins_is_counted)
{
	struct rr_spin s = spin_at(NOW, 50, 64), look = { 0 };
	uint32_t cpus;

	rr_spin_look_around(&look);
	cpus = look.cpus;
	cr_assert_eq(look.spinners, 0);
	if (!cpus)
		cr_skip("less than one CPU");
	cr_assert(rr_spin_begin(&s, RR_TIME_NEVER));
	at = NOW + 49;
	look.spinners = 0;
	rr_spin_look_around(&look);
	cr_assert_eq(look.spinners, 1);
	at = NOW + 50;
	look.spinners = 0;
	rr_spin_look_around(&look);
	cr_assert_eq(look.spinners, 0);
	at = NOW;
	for (uint32_t i = 1; i < 64; i++) {
		s = spin_at(NOW, 50, 64);
		cr_assert(rr_spin_begin(&s, RR_TIME_NEVER));
	}
	look.spinners = 0;
	rr_spin_look_around(&look);
	cr_assert_eq(look.spinners, rr_min(cpus, 64u));
}
