/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CAPTURE_H
#define RR_CAPTURE_H

/* The process's side of a capture (capture_abi.h): packets go into a bounded ring, which the
 * process makes when a reader asks. Nothing here waits: if the ring is full, a packet is
 * dropped and counted. A forked child goes on writing to the ring that its parent made before
 * the fork. Everything here may be called by any thread, and is async-signal-safe. */

#include "core/base/capture_abi.h"
#include "core/base/compiler.h"
#include "core/base/types.h"

/* Where a reader may ask at present; never NULL. */
extern struct rr_cap_desk *_Atomic rr_cap_desk;

/* Does anybody want packets? This is all that a message costs while nobody does. */
static inline bool rr_cap_asked(void)
{
	struct rr_cap_desk *d = atomic_load_explicit(&rr_cap_desk, memory_order_relaxed);

	return unlikely(atomic_load_explicit(&d->ask, memory_order_relaxed));
}

/* Sets the desk of this process, in memory that stays mapped: readers may ask from now on. In a
 * forked child that writes to its parent's ring this takes effect when that capture has
 * ended. */
void rr_cap_own(struct rr_cap_desk *desk);

/* Before a fork: makes the ring if a reader has asked for it, so that the child has it, too. */
void rr_cap_forks(void);

/* In a forked child: it has no desk of its own yet. */
void rr_cap_forked(void);

/* The app wants the number fd. True: it was the ring's, and the capture has ended. */
bool rr_cap_move_fd(int fd);

/* The addresses of both ends of a connection, and its carrier, in the form that packets
 * have. */
struct rr_cap_ends {
	uint8_t carrier;
	uint8_t addr[2][16];
	uint16_t port[2];
};
struct sockaddr;
/* which: 0 for our end, 1 for the peer's. Families other than IPv4 and IPv6 become zeroes. */
void rr_cap_end_set(struct rr_cap_ends *e, unsigned which, const struct sockaddr *sa);

/* A packet being written. The caller fills in what it is and calls rr_cap_begin(). */
struct rr_cap_pen {
	/* As in struct rr_cap_packet. */
	enum rr_cap_kind kind;
	uint8_t flags, dialect;
	uint32_t len, most; /* bytes of payload; of these at most so many, 0 as many as the
			       reader wants */
	uint32_t recv_size, send_size;
	const struct rr_cap_ends *ends;
	/* Private to capture.c. */
	struct rr_cap_ring *ring;
	uint64_t at,
	    begin; /* where the next byte goes, and where the packet begins; free-running */
	uint32_t left, size; /* payload bytes to come; bytes of the whole packet */
};

/* Begins a packet, after making the ring if a reader has asked for one. False: nothing is to be
 * written. After true, rr_cap_end() must follow. */
bool rr_cap_begin(struct rr_cap_pen *p);
/* Does the reader want transport messages whole? Only after rr_cap_asked(). */
bool rr_cap_wants_rdma(void);
/* Writes the next n bytes of the payload, except what exceeds the reader's wish. */
void rr_cap_put(struct rr_cap_pen *p, const void *from, size_t n);
/* The place for the next bytes of the payload, *n of them, to be written there; 0: no more are
 * wanted. */
uint8_t *rr_cap_room(struct rr_cap_pen *p, uint32_t *n);
/* Completes the packet; if not good, makes it void. */
void rr_cap_end(struct rr_cap_pen *p, bool good);

#endif
