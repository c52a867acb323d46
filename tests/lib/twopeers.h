/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TWOPEERS_H
#define RR_TWOPEERS_H

/* Two engines, one clock, the fake provider between them, and a plain driver for each.
 * Every message's bytes follow from its number, so that the receiver can tell whether it is
 * the one that must come now, whole and unaltered. The first thing that goes wrong is kept
 * in tp.error. */

#include "core/engine/engine.h"
#include "core/prov/fake/fake.h"

#define TP_BUFS		512u
#define TP_PENDS	1024u
#define TP_PULLS	512u
#define TP_LOG		4096u
#define TP_BLOCK	512u

/* A procedure below TP_NFS3 is one of a program without binding, and its messages are noise. From there
 * on it is one of NFSv3 (TP_NFS3 + 6: READ), with messages as they are, data included. */
#define TP_NFS3		1000u
#define TP_READ		(TP_NFS3 + 6)
#define TP_WRITE	(TP_NFS3 + 7)
#define TP_READDIR	(TP_NFS3 + 16)
#define TP_NO_DATA	UINT32_MAX	/* a READ that fails */

struct tp_msg {
	uint32_t xid, type, proc, len;
	uint32_t data;		/* NFS: bytes of data in it, or asked for by it */
	uint64_t seed;
};

/* Messages in the order in which they were written. */
struct tp_queue {
	struct tp_msg msg[TP_LOG];
	uint32_t head, tail;
};

struct tp_buf {
	bool used;
	uint8_t *at;
	uint32_t len, nkeys;
	uint32_t keys[8];
};

struct tp_pend {
	uint32_t id;
	uint32_t left;		/* completions still to come; 0 free */
	uint32_t pull;		/* index + 1 */
	uint32_t fenced;	/* buffer + 1 whose keys are gone after this */
	uint8_t *hdr;
	int status;
};

struct tp_pull {
	bool used, headed, reading, pulled, delivered, starved, composing;
	bool early;		/* it is judged while the rest is read */
	uint32_t id, buf, len, head, room, nsegs;
	uint64_t seq;
	const uint8_t *recv;	/* composing: where its stream is, if not in buf */
	uint32_t stream, nparts;
	struct rr_range parts[RR_OP_MAX_PARTS];
	struct rr_seg segs[RR_OP_MAX_SEGS];
	struct tp_msg msg;
};

struct tp_conf {
	struct rr_fake_conf link;
	struct rr_eng_params eng[2];	/* 0 connects; count is set by tp_new() */
	uint32_t mem_size;
	uint64_t seed;
	uint32_t lose_done;	/* of 100 RDMA_DONEs are never sent */
	uint32_t scarce;	/* of 100 exposures find no memory at first */
	uint32_t slow;		/* of 100 steps the app does not read */
	uint32_t quiet;		/* of 100 steps an engine with nothing to do loses its tables */
	bool resent;		/* calls may be refused, and come again */
};

struct tp_peer {
	struct tp *tp;
	int side;
	struct rr_eng *eng;
	struct rr_qp *qp;
	struct rr_counters count;
	enum rr_eng_why failed;
	bool dead, starved;
	uint32_t npulls, nstarved, next_buf, next_pend;
	uint32_t brief;		/* buffer + 1 of a message that was called short, until its Send */
	uint64_t pull_seq;
	uint32_t free_blocks;
	struct tp_buf buf[TP_BUFS];
	struct tp_pend pend[TP_PENDS];
	struct tp_pull pull[TP_PULLS];
	uint8_t *blocks;	/* of qp->mem, in use */
	uint32_t nblocks, next_block;
	const uint8_t *recv[TP_BUFS];
	uint32_t held[TP_BUFS], nheld;	/* receives that the app has not read */
	struct tp_queue sent;	/* accepted by the engine, not delivered to the other side */
	struct tp_queue inbox;
	uint64_t nsent;
	uint32_t nquiet;	/* how often the engine's tables were lost */
	uint32_t outstanding;	/* our calls that the other side has not answered */
	bool answered;		/* one was */
};

struct tp {
	struct tp_conf conf;
	struct rr_fake_link link;
	struct tp_peer peer[2];
	rr_time now;
	uint64_t rng;
	char error[160];
};

struct tp *tp_new(const struct tp_conf *conf);
void tp_free(struct tp *tp);

/* The app of this side writes a message of len bytes (NFS: with so much data, but for
 * the results of READDIR); what rr_eng_send() said, or -ENOBUFS. */
int tp_send(struct tp *tp, int side, uint32_t type, uint32_t xid, uint32_t proc, uint32_t len);

/* Next message that has been delivered, whole. */
bool tp_recv(struct tp *tp, int side, struct tp_msg *out);

/* Messages sent to this side that its app has not taken. */
uint32_t tp_unread(const struct tp *tp, int side);

/* A little time passes. */
void tp_step(struct tp *tp);

/* Steps until nothing moves any more, at most n times; false if something still does. */
bool tp_settle(struct tp *tp, uint32_t n);

/* Nothing queued, held or exposed on either side, except calls without reply. */
bool tp_all_released(const struct tp *tp);

uint64_t tp_random(struct tp *tp);

#endif
