/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of this process that spin: how many at once, how each does it, and what it notices
 * meanwhile. */
#include <sched.h>
#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/base/cpus.h"
#include "core/base/os.h"
#include "core/conn/conn.h"

#define SEATS		64u
/* from one look at the clock to the next: the CPU was another's */
#define LOST		(500 * RR_USEC)
#define HOGGED	(2 * RR_MSEC)	/* … by somebody who has other things to do than RPC */
#define NOBODY	RR_USEC			/* … and it was ours all the time */
#define JUST	(40 * RR_MSEC)

/* Who spins has a seat, which says until when: one that was left without a word (a signal
 * handler that jumped away, a fork) is free after that. */
static _Atomic uint64_t seat[SEATS];

/* For how long something is not done again that was no good: from min to max. */
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

/* Unless it was taken for left. Who takes it at this moment is not counted, once. */
static void get_up(struct rr_spin *s)
{
	if (atomic_load_explicit(&seat[s->seat], memory_order_relaxed) == s->end)
		atomic_store_explicit(&seat[s->seat], 0, memory_order_relaxed);
}

/* --- who else wants the CPU --- */

/* Twice as long if it has just been so. */
static void begin_spell(struct spell *p, rr_time now)
{
	rr_time began = atomic_load_explicit(&p->began, memory_order_relaxed);
	rr_time last = atomic_load_explicit(&p->length, memory_order_relaxed);
	rr_time next = now < began + 4 * last ? rr_min(2 * last, p->max) : p->min;

	atomic_store_explicit(&p->length, next, memory_order_relaxed);
	atomic_store_explicit(&p->began, now, memory_order_relaxed);
}

/* Reads the clock: the time that has passed. */
static rr_time read_clock(struct rr_spin *s)
{
	rr_time before = s->now;

	s->now = rr_now();
	return s->now - before;
}

static void spin_a_moment(struct rr_spin *s)
{
	rr_relax();
	if (unlikely(read_clock(s) > LOST))
		s->lost = true;
}

/* Once more only if somebody has run meanwhile, and soon let go again. */
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

/* Does it last, or its first part if that is shorter? */
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

/* Whose time slice ends while he spins has lost nothing if what he waited for was there when he
 * came back. */
void rr_spin_end(struct rr_spin *s, bool paid)
{
	if (s->seated)
		get_up(s);
	s->seated = false;
	if (s->lost && !paid)
		begin_spell(&crowded, s->now);
}
