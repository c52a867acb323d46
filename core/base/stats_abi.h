/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STATS_ABI_H
#define RR_STATS_ABI_H

/* Layout of the statistics segment: one file per process in the run directory, written
 * by the shim, read by rdmarpc-stat. Fixed-width, the same for 32- and 64-bit programs.
 * The file is sparse: an entry that was never used occupies nothing. Readers trust no
 * number in it. Bump RR_STAT_VERSION on any change but appended counters. */

#include "core/base/stats.h"

#define RR_STAT_MAGIC	0x72726d6164720a01ull	/* says endianness too */
#define RR_STAT_VERSION	1u
#define RR_STAT_CONNS	4096u	/* entries; connections beyond share the last one */
#define RR_STAT_REASONS	64u
#define RR_STAT_HIST	256u	/* latency buckets, hist.h */

enum rr_carrier { RR_CARRIER_NONE, RR_CARRIER_TCP, RR_CARRIER_SHM, RR_CARRIER_VERBS, RR_CARRIER_COUNT };

enum rr_conn_state {	/* what rdmarpc-stat prints as state */
	RR_CS_FREE, RR_CS_NEW, RR_CS_OFFERED, RR_CS_ANSWERED, RR_CS_CARRIED, RR_CS_DRAINING,
	RR_CS_TCP, RR_CS_DEAD, RR_CS_COUNT
};

/* Why a connection is on TCP, or ended. Append only. */
enum rr_reason {
#define RR_REASON(name, text) RR_R_##name,
#include "core/base/reasons.def"
#undef RR_REASON
	RR_R_COUNT
};

struct rr_stat_conn {
	_Atomic uint32_t used;		/* 0 free, 1 in use; written last */
	int32_t fd;
	_Atomic uint32_t state;		/* enum rr_conn_state */
	_Atomic uint32_t carrier;	/* enum rr_carrier */
	_Atomic uint32_t reason;	/* enum rr_reason */
	uint32_t server;		/* 1: accepted, 0: connected */
	char local[56], peer[56];	/* "1.2.3.4:111", "[::1]:111" */
	uint64_t since_ns;		/* CLOCK_REALTIME */
	struct rr_counters count;
	uint8_t pad[640 - 144 - sizeof(struct rr_counters)];
};

struct rr_stat_seg {
	uint64_t magic;			/* written last */
	uint32_t version;
	uint32_t size;			/* of the whole file */
	uint32_t ncounters, nconns, nreasons, nhist;
	uint32_t conn_size;
	int32_t pid;
	uint64_t start_ticks;		/* field 22 of /proc/PID/stat: tells a pid's lives apart */
	uint64_t created_ns;		/* CLOCK_REALTIME */
	char comm[32];
	char exe[96];
	_Atomic uint64_t carriers[RR_CARRIER_COUNT]; /* connections since start, by where they ended up */
	_Atomic uint64_t reasons[RR_STAT_REASONS];
	_Atomic uint32_t ended;		/* 1: the process exited in order */
	uint32_t pad0;
	struct rr_counters retired;	/* sums of closed connections; atomic adds */
	_Atomic uint64_t hist[RR_STAT_HIST]; /* call to reply, as seen by the requester */
	uint8_t pad[4096 - 1024];	/* room; conn[] starts at a page */
};

#endif
