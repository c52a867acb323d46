/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PROV_FAKE_H
#define RR_PROV_FAKE_H

/* A provider for tests: two queue pairs in one process, joined by a link that is driven
 * step by step and draws all its chances from one seed. It is strict where hardware is
 * strict: a Send without posted receive, a wrong key, a byte out of bounds or a right that
 * was not given ends the connection, and is counted so that a test can say "never". */

#include "core/prov/prov.h"

struct rr_fake_conf {
	bool direct;		/* everything finishes inside the post call, as on shm: with
				 * delay, but invalidate() */
	bool ring;		/* window() knows the peer's posted receives */
	bool reorder;		/* independent completions in any order, late RDMA Reads */
	uint32_t delay;		/* most steps that something may take */
	bool inv;		/* both sides take Send With Invalidate */
	bool eager;		/* every poll() is a step: nobody else makes them */
	uint32_t piece;		/* read_piece */
};

struct rr_fake_link {
	struct rr_prov_ops ops;	/* what the queue pairs of this link use */
	struct rr_fake_conf conf;
	struct rr_fake_qp *end[2]; /* offering, answering */
	uint64_t rng;
	uint64_t step;
	uint64_t break_at;	/* the connection is lost in this step; 0 never */
	bool broken;
	uint32_t rnr;		/* Sends that found no receive */
	uint32_t violations;	/* accesses that no key allowed */
};

/* A link for one connection. The queue pairs made by ops->prepare() and ops->answer() from
 * now on, in this process, belong to it. */
void rr_fake_link_init(struct rr_fake_link *l, const struct rr_fake_conf *conf, uint64_t seed);

/* Lets a little of what was posted happen. */
void rr_fake_step(struct rr_fake_link *l);

/* Is anything posted that has not completed, or arrived that was not polled? */
bool rr_fake_busy(const struct rr_fake_link *l);

/* Loses the connection now. */
void rr_fake_break(struct rr_fake_link *l);

/* Keys of this end that the peer could use now. */
uint32_t rr_fake_keys(const struct rr_qp *qp);
/* The n-th of them, as its owner has told the peer; false: there are fewer. */
bool rr_fake_key(const struct rr_qp *qp, uint32_t n, struct rr_seg *out);

#endif
