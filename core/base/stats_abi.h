/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STATS_ABI_H
#define RR_STATS_ABI_H

/* The layout of the statistics segment: one file for each process in the run directory (or a
 * memfd if there is none), written by the library and read by rdmarpc-stat. The process holds a
 * lock on it while it lives (config/rundir.h). Fixed-width, the same for 32- and 64-bit
 * programs. The file is sparse: an entry that was never used occupies nothing. Readers trust no
 * number in it. Bump RR_STAT_VERSION on any change except appended counters and reasons, and
 * new fields in former padding, which reads as zero from a process that does not know them. */

#include "core/base/capture_abi.h"
#include "core/base/compiler.h"
#include "core/base/hist.h"
#include "core/base/stats.h"

#define RR_STAT_MAGIC	0x72726d6164720a01ull	/* says endianness too */
#define RR_STAT_VERSION	2u	/* 1: without the lock */
#define RR_STAT_CONNS	4096u	/* entries ... */
/* ... that connections have to themselves; all further ones share the last */
#define RR_STAT_OWN	3616u
#define RR_STAT_TALLIES	64u	/* procedures, in the memory of the entries from there on */
#define RR_STAT_COUNTERS 60u	/* room for counters.def to grow */
#define RR_STAT_REASONS	64u
#define RR_STAT_HIST	RR_HIST_BUCKETS
#define RR_STAT_ADDR	56u	/* "[IPv6]:port" and its NUL fit */

enum rr_carrier { RR_CARRIER_NONE, RR_CARRIER_TCP, RR_CARRIER_SHM, RR_CARRIER_VERBS,
		  RR_CARRIER_COUNT };

enum rr_conn_state {	/* what rdmarpc-stat prints as state */
	RR_CS_FREE, RR_CS_NEW, RR_CS_OFFERED, RR_CS_ANSWERED, RR_CS_CARRIED, RR_CS_DRAINING,
	RR_CS_TCP, RR_CS_DEAD, RR_CS_NATIVE, RR_CS_LISTENING, RR_CS_COUNT
};

/* Why a connection is on TCP, or has ended. Append only. */
enum rr_reason {
#define RR_REASON(name, text) RR_R_##name,
#include "core/base/reasons.def"
#undef RR_REASON
	RR_R_COUNT
};

struct rr_stat_conn {
	_Atomic uint32_t used;		/* 0: free, 1: in use; written last */
	_Atomic int32_t fd;
	_Atomic uint32_t state;		/* enum rr_conn_state */
	_Atomic uint32_t carrier;	/* enum rr_carrier */
	_Atomic uint32_t reason;	/* enum rr_reason */
	uint32_t server;		/* 1: accepted, 0: connected */
	/* "1.2.3.4:111", "[::1]:111"; or what rr_stats_addr_read() reads. */
	char local[RR_STAT_ADDR], peer[RR_STAT_ADDR];
	uint64_t since_ns;		/* CLOCK_REALTIME */
	struct rr_counters count;
	uint64_t room[RR_STAT_COUNTERS - RR_C_COUNT];
	/* The program of the first call; 0: not known. A client knows it, and a server of
	 * carried connections does. */
	_Atomic uint32_t program;
	/* The process at the other end, by its number in this process's PID namespace; 0: not
	 * known, or none on this host. */
	_Atomic uint32_t peer_pid;
	/* What a carried connection speaks: enum rr_dialect + 1, and the number of its version.
	 * Zeroes: not known. */
	_Atomic uint32_t dialect, version;
};

/* What a tally counts. The first two have no key: they count all other calls, those that this
 * process has sent and those that it has received. */
struct rr_tally_key {
	_Atomic uint32_t program, version, procedure;
	_Atomic uint32_t server;	/* 1: calls that were received */
};
#define RR_TALLY_OTHERS	2u

/* The calls of one procedure and their replies, as far as they went by RPC-over-RDMA. All
 * threads of the process, and forked children that have its connections, add atomically. */
struct rr_stat_tally {
	_Atomic uint64_t calls;
	/* Replies that are denied, or accepted without success. */
	_Atomic uint64_t errors;
	/* Calls with the XID of a call that has no reply yet; they are counted in calls,
	 * too. */
	_Atomic uint64_t resent;
	/* Bytes of messages, and the number of messages that are too large for one Send. */
	_Atomic uint64_t arguments, results;
	_Atomic uint64_t long_arguments, long_results;
	_Atomic uint64_t room[41];
	/* From a call's sending to its reply's arrival; server: from a call's arrival to its
	 * reply's sending. */
	_Atomic uint64_t hist[RR_STAT_HIST];
};

/* Received calls of a procedure that has no tally yet, since the app has not replied to any
 * (core/base/unconfirmed.c). The last such entry has no key: it counts those of all other
 * procedures. */
struct rr_stat_unconfirmed {
	struct rr_tally_key key;
	_Atomic uint64_t calls;		/* 0: the entry is free */
	_Atomic uint64_t arguments, long_arguments;
};
#define RR_STAT_UNCONFIRMED 9u

/* What the last upgrade that was tried has shown of each provider, by its number in offers, and
 * of a native peer's port, which has the number of no provider; only with option ask_peer.
 * Reasons are enum rr_reason, and 0 is none. */
#define RR_STAT_PROVS	4u
enum { RR_TOLD_NATIVE, RR_TOLD_SHM, RR_TOLD_VERBS };
struct rr_stat_told {
	char release[16];			/* of the server's library; "": not told */
	_Atomic uint8_t offered[RR_STAT_PROVS];	/* 1: was in the offer, or dialled */
	_Atomic uint8_t here[RR_STAT_PROVS];	/* why it could not be used at this end … */
	_Atomic uint8_t there[RR_STAT_PROVS];	/* … and, as the server says, at the other */
	uint8_t pad[4];
};

/* Private to the writer: what it knows of the CPU's counter (ticks.h). */
struct rr_ticks {
	_Atomic uint64_t rate;	/* ns of a tick times 2^32; 0: rr_now() is used */
	uint64_t ticks, ns;	/* readings of the counter and of rr_now() at one moment */
	_Atomic uint32_t state;
	uint32_t pad;
};

struct rr_stat_seg {
	_Atomic uint64_t magic;		/* written last */
	uint32_t version;
	uint32_t size;			/* of the whole file */
	uint32_t ncounters, nconns, nreasons, nhist;
	uint32_t conn_size;
	int32_t pid;			/* in the PID namespace of the process */
	/* field 22 of /proc/PID/stat: tells processes with the same pid apart */
	uint64_t start_ticks;
	uint64_t created_ns;		/* CLOCK_REALTIME */
	char comm[32];
	char exe[96];
	/* How many connections have come to each carrier since the start. A connection that was
	 * carried and later went back to TCP counts in both. */
	_Atomic uint64_t carriers[RR_CARRIER_COUNT];
	_Atomic uint64_t reasons[RR_STAT_REASONS]; /* for those on TCP: why */
	_Atomic uint32_t ended;		/* 1: the process exited normally */
	_Atomic uint32_t backed;	/* so many bytes from the start certainly have memory */
	struct rr_counters retired;	/* sums of closed connections; atomic adds */
	uint64_t room[RR_STAT_COUNTERS + 2 - RR_C_COUNT];
	/* Times from call to reply, as seen by the requester, for every eighth call. Tallies
	 * have all. */
	_Atomic uint64_t hist[RR_STAT_HIST];
	/* private to the writer: entries that are not free */
	_Atomic uint64_t taken[RR_STAT_CONNS / 64];
	struct rr_cap_desk capture;
	/* Tallies; 0 in a library without them. A tally that is ready has its key and memory;
	 * one that is only taken may never get them. */
	uint32_t ntallies, tally_size;
	_Atomic uint64_t tallies_taken, tallies_ready;
	struct rr_tally_key key[RR_STAT_TALLIES];
	struct rr_ticks clock;
	struct rr_stat_unconfirmed unconfirmed[RR_STAT_UNCONFIRMED];
	_Atomic uint32_t unconfirmed_held;	/* 1: somebody looks for an entry */
	uint32_t unconfirmed_pad;
	struct rr_stat_told told;
	/* conn[] starts at a page */
	uint8_t pad[8192 - 5840 - 32 - 24 - 16 * RR_STAT_TALLIES - 32 -
		    40 * RR_STAT_UNCONFIRMED - 8 - 32 - 16 - 8];
	char release[16];		/* of the library; "": before 0.2 */
	/* The level that rdmarpc-stat wants: enum rr_log_level + 1; 0: as configured. */
	_Atomic uint32_t log_level;
	uint32_t has_log;		/* 1: lines go somewhere */
	struct rr_stat_conn conn[];
};

#define RR_STAT_SIZE	(8192u + RR_STAT_CONNS * 640u)

/* Is entry e, in that state, a connection by TCP of which more may become? It is not in the
 * sums until that is decided. In the entry that many share nobody would know that it is still
 * to be counted, so those are counted at once. */
static inline bool rr_stat_is_undecided(const struct rr_stat_seg *seg,
					const struct rr_stat_conn *e, uint32_t state,
					uint32_t carrier)
{
	return state == RR_CS_NEW && carrier == RR_CARRIER_TCP &&
	       e != &seg->conn[RR_STAT_CONNS - 1];
}

_Static_assert(sizeof(struct rr_stat_conn) == 640, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_conn, count) == 144, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_conn, program) == 624, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_seg, start_ticks) == 40, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_seg, carriers) == 184, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_seg, retired) == 736, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_seg, hist) == 1232, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_seg, release) == 8168, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_seg, log_level) == 8184, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_seg, capture) == 5840, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_seg, ntallies) == 5872, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_seg, unconfirmed) == 6952, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_seg, told) == 7320, "the same on every ABI");
_Static_assert(sizeof(struct rr_stat_told) == 32, "the same on every ABI");
_Static_assert(sizeof(struct rr_stat_unconfirmed) == 40, "the same on every ABI");
_Static_assert(sizeof(struct rr_stat_tally) == 4480, "the same on every ABI");
_Static_assert(offsetof(struct rr_stat_tally, hist) == 384, "the same on every ABI");
_Static_assert(RR_STAT_OWN * 640 + RR_STAT_TALLIES * 4480 <= (RR_STAT_CONNS - 1) * 640, "room");
_Static_assert(RR_STAT_OWN * 640 % 4096 == 0, "tallies start at a page");
_Static_assert(sizeof(struct rr_stat_seg) == 8192, "conn[] starts at a page");
_Static_assert(RR_C_COUNT < RR_STAT_COUNTERS && RR_R_COUNT <= RR_STAT_REASONS, "room");

/* Makes text of an entry's address, in whichever way it is there; "": none. */
void rr_stats_addr_read(const char from[RR_STAT_ADDR], char to[RR_STAT_ADDR]);

#endif
