/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ONESIDE_H
#define RR_ONESIDE_H

/* One engine, its peer played by hand: bytes in, operations out. Operations are carried out
 * at once unless a test holds them back. */

#include "core/engine/engine.h"
#include "core/engine/reply_size.h"
#include "tests/lib/bytes.h"

#define ONE_OPS		512u

struct one {
	struct rr_eng *e;
	struct rr_eng_params p;
	struct rr_counters count;
	rr_time now;
	struct rr_op op[ONE_OPS];	/* all that came out since one_clear() */
	struct rr_seg segs[ONE_OPS][8];	/* of WRITE, PULL and COMPOSE */
	struct rr_range parts[ONE_OPS][4]; /* of SEND and COMPOSE */
	uint8_t hdr[ONE_OPS][512];	/* of SEND */
	uint32_t nops;
	uint32_t next_handle, next_buf, next_token;
	uint32_t nsegs;			/* segments of an exposure; 1 */
	bool hold_invalidate, hold_expose, hold_send;
	bool no_memory;			/* EXPOSE finds none */
	bool never;			/* and never will */
};

/* caps as enum rr_cap; connector: the client's side. Window 64 where ring credits are on. */
void one_init(struct one *o, uint32_t caps, bool connector);
/* The same with o->p changed by the test in between: one_params(), one_start(). */
void one_params(struct one *o, uint32_t caps, bool connector);
void one_start(struct one *o);
void one_fini(struct one *o);

void one_clear(struct one *o);
void one_run(struct one *o);
/* The peer's bytes arrive; inv 0 or the handle it invalidated. */
void one_recv(struct one *o, const uint8_t *buf, uint32_t len, uint32_t inv);
/* The app writes; what rr_eng_send() said. */
int one_send(struct one *o, uint32_t type, uint32_t xid, uint32_t len);
void one_done(struct one *o, const struct rr_op *op);

/* The same with a message whose bytes are there; rpc is read from them. */
int one_send_bytes(struct one *o, const uint8_t *msg, uint32_t len);

/* Operations of this code since one_clear(): how many, and the i-th, from 0; NULL. */
uint32_t one_count(const struct one *o, enum rr_opcode code);
const struct rr_op *one_op(const struct one *o, enum rr_opcode code, uint32_t i);
/* Word w of the header of the i-th Send. */
uint32_t one_word(const struct one *o, uint32_t i, uint32_t w);

struct rr_eng_info one_info(const struct one *o);

/* Words, and n bytes of msg behind them, arrive. */
#define ONE_RECV_WITH(o, msg, n, ...) do { \
	static uint8_t recv_buf[20000]; \
	uint32_t recv_n = WORDS(recv_buf, __VA_ARGS__); \
	memcpy(recv_buf + recv_n, (msg), (n)); \
	one_recv((o), recv_buf, recv_n + (n), 0); \
} while (0)

#define ONE_RECV(o, ...) do { \
	uint8_t recv_buf[4096]; \
	one_recv((o), recv_buf, WORDS(recv_buf, __VA_ARGS__), 0); \
} while (0)

/* RFC 5531: a NULL call of NFSv3, 40 bytes; an accepted reply, 24 bytes. */
#define NULL_CALL(x)	(x), 0, 2, 100003, 3, 0, 0, 0, 0, 0
#define A_CALL(x)	(x), 0, 2, 100003, 3, 1, 0, 0, 0, 0
#define A_REPLY(x)	(x), 1, 0, 0, 0, 0

#endif
