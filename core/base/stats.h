/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STATS_H
#define RR_STATS_H

/* Counters. Each connection counts into its own entry of the process's statistics segment
 * (stats_abi.h). Only the holder of the connection's lock writes, so counting is a plain add,
 * and readers see whole words. */

#include <stdatomic.h>
#include <sys/socket.h>

#include "core/base/types.h"

enum rr_counter {
#define RR_COUNTER(group, name, help) RR_C_##name,
#include "core/base/counters.def"
#undef RR_COUNTER
	RR_C_COUNT
};

struct rr_counters {
	_Atomic uint64_t v[RR_C_COUNT];
};

static inline void rr_count(struct rr_counters *c, enum rr_counter which, uint64_t n)
{
	uint64_t v = atomic_load_explicit(&c->v[which], memory_order_relaxed);

	atomic_store_explicit(&c->v[which], v + n, memory_order_relaxed);
}

struct rr_stat_seg;
struct rr_stat_conn;
enum rr_carrier;
enum rr_conn_state;
enum rr_reason;

/* Everything below: no lock, no system call except a madvise() in some claims,
 * async-signal-safe, any thread. seg may be NULL (no segment): then nothing is recorded. */

/* Turns size bytes of zeroed memory (RR_STAT_SIZE) into an empty segment of this process. comm
 * and exe may be NULL. The magic number is written last and publishes it. */
void rr_stats_init(struct rr_stat_seg *seg, int pid, uint64_t start_ticks, const char *comm,
		   const char *exe);

/* Allocates bytes of the segment's file if the kernel has no MADV_POPULATE_WRITE (Linux 5.14).
 * NULL: there is no such file, and its memory need not be allocated. */
typedef bool rr_stats_room_fn(size_t off, size_t len);
extern rr_stats_room_fn *_Atomic rr_stats_room;

/* Allocates memory for these pages of the segment's file, in either way. errno stays as it
 * was. */
bool rr_stats_allocate(struct rr_stat_seg *seg, size_t off, size_t len);

/* An entry for a connection, in state RR_CS_NEW; never NULL. If the segment (or its file
 * system) is full, the last entry is shared, and its counts may miss some. */
struct rr_stat_conn *rr_stats_claim(struct rr_stat_seg *seg, int fd, bool server);

/* Sets the addresses, when they are known; NULL leaves one unchanged. The raw way leaves it to
 * readers to make text of them (stats_abi.h); earlier releases see none then. */
void rr_stats_addr(struct rr_stat_conn *e, const struct sockaddr *local,
		   const struct sockaddr *peer);
void rr_stats_addr_raw(struct rr_stat_conn *e, const struct sockaddr *local,
		       const struct sockaddr *peer);

/* Sets the connection's state. Each arrival at a carrier counts once in carriers[], and for TCP
 * in reasons[] as well. */
void rr_stats_state(struct rr_stat_seg *seg, struct rr_stat_conn *e, enum rr_conn_state state,
		    enum rr_carrier carrier, enum rr_reason reason);

/* Sets what the connection speaks from now on. */
void rr_stats_dialect(struct rr_stat_conn *e, enum rr_dialect dialect, uint32_t version);

/* Sets which process is at the other end, by its number in this process's PID namespace. */
void rr_stats_peer_pid(struct rr_stat_conn *e, uint32_t pid);

/* Sets the program of a call on the connection; 0: not known. The first one stays. */
void rr_stats_program(struct rr_stat_conn *e, uint32_t program);

/* Counts a connection that stays on TCP and never gets an entry, with the reason. */
void rr_stats_tcp(struct rr_stat_seg *seg, enum rr_reason reason);

/* The counters of an entry: what rr_count() and the engine take. */
struct rr_counters *rr_stats_counters(struct rr_stat_conn *e);

/* Adds the entry's counts to the retired ones and frees it: once for each claim, after the last
 * rr_count() into it. seg is the segment it was claimed from. */
void rr_stats_release(struct rr_stat_seg *seg, struct rr_stat_conn *e);

/* Counts a call that was answered after ns. */
void rr_stats_latency(struct rr_stat_seg *seg, uint64_t ns);

/* What rdmarpc-stat prints; "?" for an invalid number. */
const char *rr_carrier_name(unsigned carrier);
const char *rr_state_name(unsigned state);
const char *rr_reason_text(unsigned reason);
const char *rr_dialect_name(unsigned dialect);	/* as in struct rr_stat_conn; "" if not known */

extern const char rr_release[16];	/* of this library */

/* Names of enum rr_dialect, as in the configuration; NULL after the last. */
extern const char *const rr_dialect_names[];

/* "1.2.3.4:111", "[::1]:111" (a mapped IPv4 address as IPv4), "" for other families; always
 * terminated within size. Returns buf. */
char *rr_addr_text(const struct sockaddr *sa, char *buf, unsigned size);

#endif
