/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FRAMES_H
#define RR_FRAMES_H

/* Makes IP packets around bytes that went another way. Pure: no system call and no state. */

#include "core/base/types.h"

#define RR_FRAME_HEADERS 128u /* bytes before the payload, at most */
#define RR_FRAME_MOST 61440u  /* bytes of payload in one packet */

struct rr_frame_end {
	uint8_t addr[16]; /* IPv4 as mapped */
	uint16_t port;
};

struct rr_frame {
	struct rr_frame_end from, to;
	uint32_t seq, ack;      /* TCP's */
	const uint8_t *payload; /* captured of len bytes */
	uint32_t len, captured;
};

/* Writes a TCP segment with PSH and ACK, headers and what was captured of the payload, to out,
 * which has room for RR_FRAME_HEADERS and the payload. Returns how many bytes; *whole includes
 * what was not captured. Checksums are right if everything was captured. */
uint32_t rr_frame_tcp(const struct rr_frame *f, uint8_t *out, uint32_t *whole);

/* The same as a UDP datagram. */
uint32_t rr_frame_udp(const struct rr_frame *f, uint8_t *out, uint32_t *whole);

#endif
