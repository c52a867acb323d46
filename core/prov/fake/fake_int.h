/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PROV_FAKE_INT_H
#define RR_PROV_FAKE_INT_H

/* What the files of the provider for tests share: fake.c sets up, hands out completions and has
 * the table of operations; fake_post.c queues operations, fake_run.c executes them, fake_keys.c
 * knows the memory that the peer may use, and fake_link.c is what both ends have in common. */

#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/prov/fake/fake.h"

#define FAKE_KEYS	256u
#define FAKE_QUEUE	512u
#define FAKE_IOVS	32

struct fake_key {
	uint32_t handle;
	uint32_t len;
	const uint8_t *local;
	uint64_t base;		/* offset of its first byte, as the peer names it */
	uint64_t read;		/* bytes that the peer has read, and knows it; direct: all, once
				 * it reads no more */
	enum rr_rights rights;
	bool live;
};

/* A posted operation, and later its completion. */
struct fake_wqe {
	struct rr_wc wc;
	uint64_t due;		/* the completion shows from this step on */
	bool silent;		/* done inside the post call: no completion */
	struct iovec iov[FAKE_IOVS];
	int niov;
	uint8_t *copy;		/* of pieces that the poster gets back at once */
	void *local;
	uint32_t len, off;
	struct rr_seg seg;
};

struct rr_fake_qp {
	struct rr_qp qp;
	struct rr_fake_link *link;
	struct rr_fake_qp *peer;
	bool joined;		/* the offering side has decided */
	uint8_t *bufs;
	struct fake_key keys[FAKE_KEYS];
	uint32_t next_key;
	/* posted: executed in order, except Reads, which may linger */
	struct fake_wqe sq[FAKE_QUEUE], cq[FAKE_QUEUE];
	uint32_t nsq, ncq;
	/* receives */
	uint32_t posted[FAKE_QUEUE], nposted;
	struct rr_wc rq[FAKE_QUEUE];
	uint32_t nrq;
};

static inline struct rr_fake_qp *rr_fake_of(struct rr_qp *qp)
{
	return container_of(qp, struct rr_fake_qp, qp);
}

/* --- fake_link.c --- */
uint64_t rr_fake_chance(struct rr_fake_link *l);
bool rr_fake_lost(const struct rr_fake_qp *q);
void rr_fake_violate(struct rr_fake_qp *q);

/* --- fake_keys.c --- */
int rr_fake_expose(struct rr_qp *qp, const void *local, uint32_t len, enum rr_rights rights,
		   struct rr_seg *out);
bool rr_fake_consumed(struct rr_qp *qp, uint32_t handle);
void rr_fake_consume(struct rr_qp *qp, const struct rr_seg *seg);
/* Where w reads or writes the peer's memory; NULL, and the link is broken: it may not. */
uint8_t *rr_fake_reach(struct rr_fake_qp *q, const struct fake_wqe *w, enum rr_rights right);
/* w has completed. If it is a Read, the peer may know that. */
void rr_fake_has_read(struct rr_fake_qp *q, const struct fake_wqe *w);
void rr_fake_kill_key(struct rr_fake_qp *q, uint32_t handle);

/* --- fake_run.c --- */
void rr_fake_run(struct rr_fake_qp *q, struct fake_wqe *w);
void rr_fake_complete(struct rr_fake_qp *q, struct fake_wqe *w);

/* --- fake_post.c: as prov.h has them --- */
int rr_fake_send(struct rr_qp *qp, const struct iovec *iov, int niov, uint64_t cookie,
		 uint32_t inv);
int rr_fake_send_imm(struct rr_qp *qp, uint32_t imm, uint64_t cookie);
int rr_fake_send_note(struct rr_qp *qp, uint32_t imm, const void *note, uint32_t len);
int rr_fake_read(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg,
		 uint32_t off, uint64_t cookie);
int rr_fake_write(struct rr_qp *qp, const void *local, uint32_t len, const struct rr_seg *seg,
		  uint32_t off, uint64_t cookie);
int rr_fake_invalidate(struct rr_qp *qp, uint32_t handle, uint64_t cookie);
uint32_t rr_fake_window(struct rr_qp *qp);

#endif
