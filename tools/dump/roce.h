/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ROCE_H
#define RR_ROCE_H

/* RoCEv2 packets (InfiniBand Architecture, volume 1, chapter 9 and annex A17) and the messages
 * of its connection manager (chapter 12, annex A11). Pure: no system call and no state. */

#include "tools/dump/frames.h"

#define RR_ROCE_MTU 4096u /* bytes of payload in one packet, at most */
#define RR_ROCE_MOST (RR_FRAME_HEADERS + 32 + RR_ROCE_MTU + 8)
#define RR_ROCE_MAD 256u /* bytes of a management datagram */

enum rr_roce_opcode {
	RR_ROCE_SEND_FIRST = 0x00,
	RR_ROCE_SEND_MIDDLE = 0x01,
	RR_ROCE_SEND_LAST = 0x02,
	RR_ROCE_SEND_ONLY = 0x04,
	RR_ROCE_WRITE_FIRST = 0x06,
	RR_ROCE_WRITE_MIDDLE = 0x07,
	RR_ROCE_WRITE_LAST = 0x08,
	RR_ROCE_WRITE_ONLY = 0x0a,
	RR_ROCE_READ = 0x0c,
	RR_ROCE_READ_FIRST = 0x0d, /* of its responses */
	RR_ROCE_READ_MIDDLE = 0x0e,
	RR_ROCE_READ_LAST = 0x0f,
	RR_ROCE_READ_ONLY = 0x10,
	RR_ROCE_DATAGRAM = 0x64,
};

struct rr_roce {
	uint8_t from[16], to[16]; /* IPv4 as mapped */
	uint8_t opcode;           /* enum rr_roce_opcode */
	bool last;                /* the last packet of its message, which its receiver must
				   * acknowledge */
	uint32_t qpn, psn;        /* the receiver's queue pair, the number of the packet */
	uint8_t ext[16];          /* the headers after the base header ... */
	uint32_t next;            /* ... and their length */
	const uint8_t *payload;   /* captured of len bytes, at most RR_ROCE_MTU */
	uint32_t len, captured;
};

/* Fill in ext: for an RDMA Read or the first packet of an RDMA Write; for a response; for a
 * datagram. */
void rr_roce_reth(struct rr_roce *r, uint64_t offset, uint32_t handle, uint32_t len);
void rr_roce_aeth(struct rr_roce *r, uint32_t msn);
void rr_roce_deth(struct rr_roce *r, uint32_t qkey, uint32_t qpn);

/* Writes the packet to out, which has room for RR_ROCE_MOST. Returns how many bytes; *whole
 * includes what was not captured. */
uint32_t rr_roce_packet(const struct rr_roce *r, uint8_t *out, uint32_t *whole);

/* A connection as RDMA CM sets it up, between IP addresses. Index 0 is the client's, 1 the
 * server's. */
struct rr_roce_cm {
	uint8_t addr[2][16];
	uint16_t port[2];
	uint32_t qpn[2], psn[2], id; /* psn: number of the first packet; id: unique to the
				      * connection */
	uint8_t data[2][8];          /* private data: RFC 8797 */
	uint32_t ndata;              /* 8, or 0 none */
};

/* ConnectRequest, ConnectReply, ReadyToUse. */
void rr_roce_request(const struct rr_roce_cm *c, uint8_t mad[RR_ROCE_MAD]);
void rr_roce_reply(const struct rr_roce_cm *c, uint8_t mad[RR_ROCE_MAD]);
void rr_roce_ready(const struct rr_roce_cm *c, uint8_t mad[RR_ROCE_MAD]);

#endif
