/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads of this process that spin: how many at once, how a spin goes, and what it notices
 * about others that want the CPU. How long to spin is decided in spin.c. */
#include <sched.h>
#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/base/cpus.h"
#include "core/base/os.h"
#include "core/base/ticks.h"
#include "core/conn/conn.h"

#define SEATS		64u
/* Time between two looks at the clock: the CPU was given to somebody else. */
#define LOST		(500 * RR_USEC)
#define HOGGED	(2 * RR_MSEC)	/* … who has other things to do than RPC */
#define NOBODY	RR_USEC			/* … or to nobody: it was ours all the time */
#define JUST	(40 * RR_MSEC)

/* A spinning thread takes a seat, which says until when it is taken. A seat that was abandoned
 * (by a signal handler that jumped away, or a fork) is free again after that. */
static _Atomic uint64_t seat[SEATS];

/* For how long something that did no good is not tried again: between min and max. */
struct spell {
	_Atomic uint64_t began, length;
	rr_time min, max;
};
static struct spell crowded = { .min = 10 * RR_MSEC, .max = RR_SEC };
static struct spell hogged = { .min = 100 * RR_MSEC, .max = 5 * RR_SEC };

/* --- seats --- */

static bool take_seat(_Atomic uint64_t *it, uint64_t was, uint64_t until)
{
	return atomic_compare_exchange_strong_explicit(it, &was, until, memory_order_relaxed,
						       memory_order_relaxed);
}

static bool sit_down(struct rr_spin *s)
{
	for (s->seat = 0; s->seat < s->cpus && s->seat < SEATS; s->seat++) {
		uint64_t until = atomic_load_explicit(&seat[s->seat], memory_order_relaxed);

		if (until <= s->now && take_seat(&seat[s->seat], until, s->end))
			return true;
	}
	return false;
}

/* Frees the seat, unless another thread has taken it for an abandoned one. A thread that takes
 * it at this very moment goes uncounted, which does no harm. */
static void get_up(struct rr_spin *s)
{
	if (atomic_load_explicit(&seat[s->seat], memory_order_relaxed) == s->end)
		atomic_store_explicit(&seat[s->seat], 0, memory_order_relaxed);
}

/* --- who else wants the CPU --- */

/* The spell lasts twice as long as the last one if that ended only recently. */
static void begin_spell(struct spell *p, rr_time now)
{
	rr_time began = atomic_load_explicit(&p->began, memory_order_relaxed);
	rr_time last = atomic_load_explicit(&p->length, memory_order_relaxed);
	rr_time next = now < began + 4 * last ? rr_min(2 * last, p->max) : p->min;

	atomic_store_explicit(&p->length, next, memory_order_relaxed);
	atomic_store_explicit(&p->began, now, memory_order_relaxed);
}

static void begin_clock(struct rr_spin *s)
{
	s->stamp = s->now;
	if (s->clock)
		s->stamp = rr_ticks_stamp(s->clock);
	s->stamp_began = s->stamp;
}

/* Reads the clock and returns the time since it was last read. */
static rr_time read_clock(struct rr_spin *s)
{
	rr_time before = s->now;

	if (!s->clock) {
		s->now = s->stamp = rr_now();
		return s->now - before;
	}
	s->stamp = rr_ticks_again(s->clock, s->stamp_began);
	s->now = s->began + rr_ticks_between(s->clock, s->stamp_began, s->stamp);
	return s->now - before;
}

static void spin_a_moment(struct rr_spin *s)
{
	rr_relax();
	if (unlikely(read_clock(s) > LOST))
		s->lost = true;
}

/* Yields the CPU. Goes on yielding only if somebody has run meanwhile, and soon let go
 * again. */
static void give_way(struct rr_spin *s)
{
	rr_time took;

	sched_yield();
	took = read_clock(s);
	s->yields--;
	if (took > HOGGED)
		begin_spell(&hogged, s->now);
	if (took > HOGGED || took < NOBODY)
		s->yields = 0;
}

/* Is the spell still on? Only the first `most` of it count. */
static bool lasts(struct spell *p, rr_time now, rr_time most)
{
	rr_time length = atomic_load_explicit(&p->length, memory_order_relaxed);

	return now <
	       atomic_load_explicit(&p->began, memory_order_relaxed) + rr_min(length, most);
}

/* --- one spin --- */

void rr_spin_look_around(struct rr_spin *s)
{
	s->now = rr_now();
	s->cpu = rr_cpu_here();
	s->cpus = rr_cpus(s->now);
	for (uint32_t i = 0; i < s->cpus && i < SEATS; i++)
		s->spinners += atomic_load_explicit(&seat[i], memory_order_relaxed) > s->now;
	s->crowded = lasts(&crowded, s->now, RR_TIME_NEVER);
	s->hogged = lasts(&hogged, s->now, RR_TIME_NEVER);
	s->just_hogged = s->hogged && lasts(&hogged, s->now, JUST);
}

bool rr_spin_begin(struct rr_spin *s, rr_time deadline)
{
	if (!s->want && !s->yields)
		return false;
	s->began = s->now;
	begin_clock(s);
	s->end = rr_min(deadline, s->now + s->want);
	s->seated = s->want && sit_down(s);
	if (!s->seated)
		s->end = s->now;
	return s->seated || s->yields;
}

bool rr_spin_on(struct rr_spin *s)
{
	if (s->yields)
		give_way(s);
	else if (s->now < s->end)
		spin_a_moment(s);
	else
		return false;
	return true;
}

bool rr_spin_longer(struct rr_spin *s, rr_time deadline)
{
	uint64_t was = s->end;

	s->end = rr_min(deadline, s->now + s->want);
	return s->want && s->seated && s->now < deadline &&
	       take_seat(&seat[s->seat], was, s->end);
}

/* A thread whose time slice ended while it was spinning has lost nothing if what it waited for
 * was there when it came back; `paid` says so. */
void rr_spin_end(struct rr_spin *s, bool paid)
{
	if (s->seated)
		get_up(s);
	s->seated = false;
	if (s->lost && !paid)
		begin_spell(&crowded, s->now);
}
