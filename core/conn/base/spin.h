/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_SPIN_H
#define RR_CONN_SPIN_H

/* How long a waiting thread looks at memory before it sleeps: costs and observations in,
 * nanoseconds out; pure. A spin is worth at most what it saves, which is a sleep and a wake-up,
 * and only where it takes nobody's CPU. When in doubt, sleep: that is what TCP does.
 *
 * What is known of the peer is what the peer says. If it lies, this end spins in vain, within
 * its own bounds, or sleeps. */

#include "core/base/types.h"

enum rr_peer_is {
	RR_PEER_UNKNOWN,	/* the provider or the peer does not tell */
	RR_PEER_RUNS,
	RR_PEER_SLEEPS,		/* it has yet to wake for what we have sent */
};

struct rr_spin_in {
	rr_time bound;		/* never longer than this: spin_us */
	rr_time worth;		/* what a sleep and a wake-up cost; at most bound */
	rr_time learned;	/* rr_spin_learn(); longer than bound only on trial */
	rr_time spun;		/* in this wait so far */
	uint32_t cpu, peer_cpu;	/* CPU that each last ran on, from 1; 0: unknown */
	uint32_t cpus;		/* CPUs that threads of this process may spin on */
	uint32_t spinners;	/* threads that spin now, without the caller */
	uint32_t serving;	/* the peer's calls on which threads of ours are at work */
	enum rr_peer_is peer;
	bool peer_spins;	/* it would spin for our next message rather than sleep */
	bool at_work;		/* the peer has moved bytes of this connection meanwhile */
	bool crowded;		/* others want our CPU: a spinning thread just lost it */
	bool hogged;		/* … and keep it for long: found lately by one that yielded */
	bool just_hogged;	/* … found at this very moment */
};

/* How long to spin (on); 0: sleep. */
rr_time rr_spin_time(const struct rr_spin_in *in);

/* How often to yield the CPU instead, because somebody had better run on it now: the peer, or
 * threads of this process that wait as the caller does, one after the other. That may bring
 * what is waited for without the cost of a sleep and a wake-up. */
uint32_t rr_spin_yields(const struct rr_spin_in *in);

/* A wait that ended in a sleep. */
struct rr_spin_wait {
	rr_time took;		/* since it began, spinning included */
	rr_time wakes;		/* of this, wake-ups of both ends, which spinning avoids */
	bool at_work;
};

/* Returns the new value of `learned` after such a wait. */
rr_time rr_spin_learn(const struct rr_spin_in *in, const struct rr_spin_wait *w);

#endif
