/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides how long to spin. Nothing here asks the system or the clock. */
#include "core/conn/base/spin.h"

#include "core/base/compiler.h"

#define LEAST	(2 * RR_USEC)	/* less is not worth beginning */
#define THREADS	8u

/* Does the peer run on this CPU? Then spinning keeps it from running. */
static bool on_my_cpu(const struct rr_spin_in *in)
{
	return in->cpu && in->cpu == in->peer_cpu;
}

/* Does the peer have to wake first, and will it be asleep again the next time? Then the wait is
 * as long as its wake-up, and spinning saves at most our own. Otherwise staying awake is how
 * both ends get out of sleeping. */
static bool is_asleep(const struct rr_spin_in *in)
{
	return in->peer == RR_PEER_SLEEPS && !in->peer_spins && in->worth < in->bound;
}

rr_time rr_spin_time(const struct rr_spin_in *in)
{
	if (on_my_cpu(in) || in->crowded || in->spinners + in->serving >= in->cpus)
		return 0;
	if (in->spun)
		return in->at_work ? rr_min(in->worth, in->bound - rr_min(in->bound, in->spun))
				   : 0;
	if (is_asleep(in) && in->learned <= in->bound)
		return 0;
	return in->worth ? in->learned : 0;
}

uint32_t rr_spin_yields(const struct rr_spin_in *in)
{
	/* The kernel usually runs next whom we have just woken. */
	if (on_my_cpu(in) && in->peer == RR_PEER_SLEEPS)
		return in->learned && !in->spun && !in->just_hogged;
	if (in->spun || in->hogged || !in->learned)
		return 0;
	return in->spinners >= in->cpus ? THREADS : on_my_cpu(in) || in->crowded;
}

rr_time rr_spin_learn(const struct rr_spin_in *in, const struct rr_spin_wait *w)
{
	rr_time turn = w->took - rr_min(w->took, w->wakes);

	if (turn < (w->at_work ? in->bound : in->worth))
		return in->worth;
	return in->learned < LEAST ? 0 : rr_min(in->learned, in->worth) / 2;
}
