/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TALKS_H
#define RR_TALKS_H

/* What is known of each connection from its packets: how many bytes have gone each way, in
 * which chunks messages went, and which calls are of the wanted program. If both ends are
 * captured, one of them is shown. */

#include "tools/dump/process_tap.h"

#define RR_TALK_NOTES 64u   /* messages whose chunks are remembered; a power of two */
#define RR_TALK_CALLS 4096u /* calls of the program that is looked for; the same */

enum rr_talk_chunk {
	RR_CHUNK_WHOLE = 1, /* a Read chunk at position zero */
	RR_CHUNK_READ = 2,
	RR_CHUNK_WRITE = 4,
	RR_CHUNK_REPLY = 8,
	RR_CHUNK_PADDED = 16, /* RDMA_MSGP */
};

struct rr_talk_note {
	uint32_t xid;
	uint8_t out, chunks, version;
	bool used;
};

struct rr_talk_call {
	uint32_t xid;
	bool used;
};

struct rr_msg;
struct rr_codec;
struct rr_talk_wait;

struct rr_talk {
	struct rr_talk *next; /* in its bucket */
	uint8_t addr[2][16];  /* of the end that is shown, and of the other */
	uint16_t port[2];
	int pid;         /* the process from whose tap it is shown; 0: that has ended, and the
			  * next to come takes its place */
	uint64_t last;   /* ns of its last packet */
	uint32_t seq[2]; /* next byte sent, received by the end that is shown */
	struct rr_talk_note note[RR_TALK_NOTES];
	struct rr_talk_call *calls; /* NULL none yet */
	/* Used by rdma.c, by side: 0 the client's, 1 the server's. */
	uint32_t number; /* unique to the connection */
	uint32_t psn[2]; /* number of the next packet with a request of this side */
	uint32_t msn[2]; /* of the last message that this side has taken */
	bool set_up;     /* its set-up exchange has been shown */
	struct rr_talk_wait *waiting;
};

struct rr_talks {
	struct rr_talk *bucket[4096];
	uint32_t n, numbers;
};

/* The connection of packet p, which came from pid's tap. NULL: the connection is shown from its
 * other end. */
struct rr_talk *rr_talks_get(struct rr_talks *all, const struct rr_cap_packet *p, int pid);

/* The tap of pid has ended. */
void rr_talks_left(struct rr_talks *all, int pid);

/* Forgets connections without a packet since ns. */
void rr_talks_expire(struct rr_talks *all, uint64_t ns);

/* The codec for a transport message: that of the header's version in the packet's dialect, or
 * version 1's if the dialect has no such version. Both ends may have fallen back to that. */
const struct rr_codec *rr_talk_codec(const struct rr_tap_packet *p);

/* The chunks that a message has: enum rr_talk_chunk. */
uint8_t rr_talk_kinds(const struct rr_msg *m);

/* Learns from a transport message. */
void rr_talk_learn(struct rr_talk *t, const struct rr_tap_packet *p);

/* The chunks (enum rr_talk_chunk) in which the message with this xid went. */
uint32_t rr_talk_chunks(const struct rr_talk *t, uint32_t xid, bool out);

/* The first notes a call of the wanted program; the second asks whether the reply with this xid
 * is to such a call. */
void rr_talk_call(struct rr_talk *t, uint32_t xid);
bool rr_talk_answers(struct rr_talk *t, uint32_t xid);

#endif
