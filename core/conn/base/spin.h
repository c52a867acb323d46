/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_SPIN_H
#define RR_CONN_SPIN_H

/* How long a waiting thread looks at memory before it sleeps: costs and observations in,
 * nanoseconds out. Pure. A spin is worth at most what it saves, a sleep and a wake-up, and only
 * where it takes nobody's CPU; when in doubt, sleep: that is what TCP does.
 *
 * What is known of the peer is its own word. A lie makes its reader spin in vain, within bounds
 * of the reader's own, or sleep. */

#include "core/base/types.h"

enum rr_peer_is {
	RR_PEER_UNKNOWN,	/* the provider cannot tell, or the peer does not */
	RR_PEER_RUNS,
	RR_PEER_SLEEPS,		/* and has yet to wake for what we sent it */
};

struct rr_spin_in {
	rr_time bound;		/* longest of all: spin_us */
	rr_time worth;		/* of a sleep and a wake-up; at most bound */
	rr_time learned;	/* rr_spin_learn(); longer only on trial */
	rr_time spun;		/* in this wait, so far */
	uint32_t cpu, peer_cpu;	/* last run on, from 1; 0 unknown */
	uint32_t cpus;		/* that threads of this process may spin on */
	uint32_t spinners;	/* that do so now, the caller not counted */
	enum rr_peer_is peer;
	bool peer_spins;	/* would spin for our next message, and so not sleep */
	bool at_work;		/* the peer has moved bytes of this connection meanwhile */
	bool crowded;		/* somebody else wants our CPU: who spun lost it just now */
	bool hogged;		/* … and keeps it for long: who gave way found that lately … */
	bool just_hogged;	/* … or at this very moment */
};

/* How long to spin on; 0 sleep. */
rr_time rr_spin_time(const struct rr_spin_in *in);

/* How often to give way instead, because there is somebody who had better run on this CPU now:
 * the peer, or threads of this process that wait as the caller does, one after the other. It
 * may bring what is waited for without the price of a sleep and a wake-up. */
uint32_t rr_spin_yields(const struct rr_spin_in *in);

/* A wait that ended in a sleep. */
struct rr_spin_wait {
	rr_time took;		/* from its beginning, spinning and all */
	rr_time wakes;		/* of this, those of both ends: spinning, there are none */
	bool at_work;
};

/* learned, after it. */
rr_time rr_spin_learn(const struct rr_spin_in *in, const struct rr_spin_wait *w);

#endif
