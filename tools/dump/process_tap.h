/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_DUMP_TAP_H
#define RR_DUMP_TAP_H

/* Captures of a process (core/base/capture_abi.h): asks for one at the process's desk, opens
 * its ring and takes packets out. What the process writes is bounded, and copied before it is
 * judged; nothing that it does can make this program wait. */

#include <sys/types.h>

#include "core/base/capture_abi.h"
#include "core/base/types.h"

struct rr_tap_wish {
	uint32_t order;   /* of the ring's size, a power of two */
	uint32_t snaplen; /* 0 all */
	uint32_t wishes;  /* enum rr_cap_wish */
};

/* A packet as it came, in memory of this program. */
struct rr_tap_packet {
	struct rr_cap_packet h;
	uint8_t stream[]; /* room for a record mark, then h.captured bytes of payload */
};
#define RR_TAP_MARK 4u

static inline uint8_t *rr_tap_data(const struct rr_tap_packet *p)
{
	return (uint8_t *)p->stream + RR_TAP_MARK;
}

enum rr_tap_state {
	RR_TAP_WAITS, /* the process has sent and received nothing since it was asked */
	RR_TAP_RUNS,
	RR_TAP_BUSY,    /* another reader captures it */
	RR_TAP_REFUSED, /* see why */
	RR_TAP_ENDED,   /* the process has ended */
};

struct rr_tap {
	int pid;         /* the pid as this process sees it ... */
	int32_t own_pid; /* ... and as the captured process does */
	char comm[32];
	enum rr_tap_state state;
	const char *why;
	uint64_t packets, dropped;
	/* Private to process_tap.c: */
	int seg, fd; /* -1 */
	uint32_t ask;
	uint64_t lost_before; /* dropped in rings that are gone */
	struct rr_cap_ring *ring;
	uint32_t size;
	uint64_t tail;
};

/* Finds the segment of process pid and asks for a capture. */
void rr_tap_open(struct rr_tap *t, int pid, const char *comm, const struct rr_tap_wish *w);

/* Asks a process again that another reader captured, if that reader has left. True: it has been
 * asked. */
bool rr_tap_retry(struct rr_tap *t, const struct rr_tap_wish *w);

/* Sees how far the capture has come. Afterwards rr_tap_take() returns what there is. */
void rr_tap_step(struct rr_tap *t, const struct rr_tap_wish *w);

/* The next packet, which the caller frees; NULL: there is none now. */
struct rr_tap_packet *rr_tap_take(struct rr_tap *t);

/* Ends the capture; may be called for one that has ended. */
void rr_tap_close(struct rr_tap *t);

#endif
