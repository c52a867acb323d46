/* SPDX-License-Identifier: BSD-3-Clause */
/* The statistics segment, as its writer sees it: takes and returns entries of connections
 * without a lock, and names what is in them. Reading it is in tools/segment.c.
 *
 * Memory of the segment's file is allocated before it is written to (back_entry()): on a full
 * file system the app would otherwise get a SIGBUS from a library that only wanted to count. */

#include "core/base/stats_abi.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core/base/log.h"
#include "core/base/pages.h"


#define LAST	(RR_STAT_CONNS - 1)
#define RAW	8		/* where in the room for its text an address stands as it is */

_Static_assert(RAW + sizeof(struct sockaddr_in6) <= RR_STAT_ADDR, "an address fits");

/* Connections count here if there is no segment. */
static struct rr_stat_conn nowhere;

rr_stats_room_fn *_Atomic rr_stats_room;

const char rr_release[16] = RR_VERSION;

/* Times in the segment are of the wall clock, so that readers need not know when the host
 * booted. */
static uint64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * RR_SEC + (uint64_t)ts.tv_nsec;
}

/* Copies a text that may be cut, and clears what is behind it. from may be NULL. */
static void set_text(char *to, size_t size, const char *from)
{
	size_t n = from ? strnlen(from, size - 1) : 0;

	if (n)
		memcpy(to, from, n);
	memset(to + n, 0, size - n);
}

void rr_stats_init(struct rr_stat_seg *seg, int pid, uint64_t start_ticks, const char *comm,
		   const char *exe)
{
	seg->version = RR_STAT_VERSION;
	seg->size = RR_STAT_SIZE;
	seg->ncounters = RR_C_COUNT;
	seg->nconns = RR_STAT_CONNS;
	seg->nreasons = RR_R_COUNT;
	seg->nhist = RR_STAT_HIST;
	seg->conn_size = sizeof(struct rr_stat_conn);
	seg->pid = pid;
	seg->start_ticks = start_ticks;
	seg->created_ns = wall_ns();
	seg->has_log = rr_log_has_sink();
	seg->backed = RR_STAT_SIZE;
	seg->ntallies = RR_STAT_TALLIES;
	seg->tally_size = sizeof(struct rr_stat_tally);
	set_text(seg->comm, sizeof(seg->comm), comm);
	set_text(seg->exe, sizeof(seg->exe), exe);
	set_text(seg->release, sizeof(seg->release), rr_release);
	/* Pairs with the acquire of a reader that maps the file. */
	atomic_store_explicit(&seg->magic, RR_STAT_MAGIC, memory_order_release);
}

/* Takes the lowest free entry; returns the shared last one if there is none. So short-lived
 * connections stay in the first page or two. The map is read once and then follows the exchange
 * that failed. */
static uint32_t take_entry(struct rr_stat_seg *seg)
{
	for (uint32_t w = 0; w < (RR_STAT_OWN + 63) / 64; w++) {
		uint64_t map = atomic_load_explicit(&seg->taken[w], memory_order_relaxed);

		while (~map) {
			uint32_t bit = (uint32_t)__builtin_ctzll(~map);

			if (w * 64 + bit >= RR_STAT_OWN)
				return LAST;
			/* Pairs with the release in put_entry_back(). */
			if (atomic_compare_exchange_weak_explicit(&seg->taken[w], &map,
					map | UINT64_C(1) << bit, memory_order_acquire,
					memory_order_relaxed))
				return w * 64 + bit;
		}
	}
	return LAST;
}

static void put_entry_back(struct rr_stat_seg *seg, uint32_t i)
{
	/* Pairs with the acquire in take_entry(). */
	atomic_fetch_and_explicit(&seg->taken[i / 64], ~(UINT64_C(1) << i % 64),
				  memory_order_release);
}

bool rr_stats_allocate(struct rr_stat_seg *seg, size_t off, size_t len)
{
	rr_stats_room_fn *room = atomic_load_explicit(&rr_stats_room, memory_order_relaxed);
	int saved = errno;
	bool ok = !madvise((char *)seg + off, len, MADV_POPULATE_WRITE) ||
		  (errno == EINVAL && room && room(off, len));

	errno = saved;
	return ok;
}

/* Makes sure that entry i has memory, because the first write to a page of a file on a full
 * file system raises SIGBUS. What is backed ends with a page, as the header does. */
static bool back_entry(struct rr_stat_seg *seg, uint32_t i)
{
	uint32_t have = atomic_load_explicit(&seg->backed, memory_order_relaxed);
	uint32_t end = (uint32_t)((char *)&seg->conn[i + 1] - (char *)seg), page = RR_PAGE;
	bool ok;

	if (end <= have)
		return true;
	end = rr_align(end, page);
	ok = rr_stats_allocate(seg, have, end - have);
	while (ok && have < end &&
	       !atomic_compare_exchange_weak_explicit(&seg->backed, &have, end,
			memory_order_relaxed, memory_order_relaxed))
		;
	return ok;
}

/* An entry with memory; the shared one always has some. */
static struct rr_stat_conn *find_entry(struct rr_stat_seg *seg)
{
	uint32_t i = take_entry(seg);

	if (i != LAST && unlikely(!back_entry(seg, i))) {
		put_entry_back(seg, i);
		i = LAST;
	}
	return &seg->conn[i];
}

struct rr_stat_conn *rr_stats_claim(struct rr_stat_seg *seg, int fd, bool server)
{
	struct rr_stat_conn *e = seg ? find_entry(seg) : &nowhere;

	atomic_store_explicit(&e->fd, fd, memory_order_relaxed);
	atomic_store_explicit(&e->state, RR_CS_NEW, memory_order_relaxed);
	atomic_store_explicit(&e->carrier, RR_CARRIER_NONE, memory_order_relaxed);
	atomic_store_explicit(&e->reason, RR_R_NONE, memory_order_relaxed);
	atomic_store_explicit(&e->dialect, 0, memory_order_relaxed);
	atomic_store_explicit(&e->program, 0, memory_order_relaxed);
	atomic_store_explicit(&e->peer_pid, 0, memory_order_relaxed);
	if (e == &nowhere)
		return e;
	if (e != &seg->conn[LAST]) {	/* the shared one has no addresses */
		e->server = server;
		e->local[0] = e->local[1] = e->peer[0] = e->peer[1] = '\0';
		e->since_ns = wall_ns();
	}
	/* Pairs with the acquire of a reader of the list. */
	atomic_store_explicit(&e->used, 1, memory_order_release);
	return e;
}

void rr_stats_addr(struct rr_stat_conn *e, const struct sockaddr *local,
		   const struct sockaddr *peer)
{
	if (e == &nowhere)
		return;
	if (local)
		rr_addr_text(local, e->local, sizeof(e->local));
	if (peer)
		rr_addr_text(peer, e->peer, sizeof(e->peer));
}

/* An address as it is, behind an empty text. */
static void put_raw(char to[RR_STAT_ADDR], const struct sockaddr *sa)
{
	if (!sa)
		return;
	memcpy(to + RAW, sa, sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						       : sizeof(struct sockaddr_in));
	to[0] = '\0';
	to[1] = 1;
}

void rr_stats_addr_raw(struct rr_stat_conn *e, const struct sockaddr *local,
		       const struct sockaddr *peer)
{
	if (e == &nowhere)
		return;
	put_raw(e->local, local);
	put_raw(e->peer, peer);
}

void rr_stats_addr_read(const char from[RR_STAT_ADDR], char to[RR_STAT_ADDR])
{
	struct sockaddr_in6 sa;

	memcpy(to, from, RR_STAT_ADDR);
	to[RR_STAT_ADDR - 1] = '\0';
	if (to[0] || !to[1])
		return;
	memcpy(&sa, to + RAW, sizeof(sa));
	rr_addr_text((const struct sockaddr *)&sa, to, RR_STAT_ADDR);
}

/* Threads of the process and forked children add to the same numbers. */
static void add_atomic(_Atomic uint64_t *v, uint64_t n)
{
	if (n)
		atomic_fetch_add_explicit(v, n, memory_order_relaxed);
}

/* In the shared entry the carrier is that of the connection that came last, so a change of it
 * says nothing; but each connection becomes carried only once. */
static bool arrives(const struct rr_stat_seg *seg, const struct rr_stat_conn *e,
		    enum rr_conn_state state)
{
	return e == &seg->conn[LAST] && (state == RR_CS_CARRIED || state == RR_CS_NATIVE);
}

/* A connection that changes its carrier counts at the new one. Without a segment only the entry
 * is set. */
void rr_stats_state(struct rr_stat_seg *seg, struct rr_stat_conn *e, enum rr_conn_state state,
		    enum rr_carrier carrier, enum rr_reason reason)
{
	uint32_t before = atomic_exchange_explicit(&e->carrier, carrier, memory_order_relaxed);
	uint32_t was = atomic_exchange_explicit(&e->state, state, memory_order_relaxed);

	atomic_store_explicit(&e->reason, reason, memory_order_relaxed);
	if (!seg || carrier == RR_CARRIER_NONE ||
	    rr_stat_is_undecided(seg, e, state, carrier) ||
	    (carrier == before && !rr_stat_is_undecided(seg, e, was, before) &&
	     !arrives(seg, e, state)))
		return;
	add_atomic(&seg->carriers[carrier], 1);
	if (carrier == RR_CARRIER_TCP)
		add_atomic(&seg->reasons[reason], 1);
}

void rr_stats_dialect(struct rr_stat_conn *e, enum rr_dialect dialect, uint32_t version)
{
	atomic_store_explicit(&e->dialect, (uint32_t)dialect + 1, memory_order_relaxed);
	atomic_store_explicit(&e->version, version, memory_order_relaxed);
}

void rr_stats_peer_pid(struct rr_stat_conn *e, uint32_t pid)
{
	atomic_store_explicit(&e->peer_pid, pid, memory_order_relaxed);
}

void rr_stats_program(struct rr_stat_conn *e, uint32_t program)
{
	if (program && !atomic_load_explicit(&e->program, memory_order_relaxed))
		atomic_store_explicit(&e->program, program, memory_order_relaxed);
}

void rr_stats_tcp(struct rr_stat_seg *seg, enum rr_reason reason)
{
	if (!seg)
		return;
	add_atomic(&seg->carriers[RR_CARRIER_TCP], 1);
	add_atomic(&seg->reasons[reason], 1);
}

struct rr_counters *rr_stats_counters(struct rr_stat_conn *e)
{
	return &e->count;
}

/* A count is taken out of the entry first and then added to the retired ones: a reader that
 * sums both may miss it for a moment, but never sees it twice. */
void rr_stats_release(struct rr_stat_seg *seg, struct rr_stat_conn *e)
{
	uint32_t i;

	if (!seg || e == &nowhere)
		return;
	for (i = 0; i < RR_C_COUNT; i++) {
		if (atomic_load_explicit(&e->count.v[i], memory_order_relaxed))
			add_atomic(&seg->retired.v[i],
				   atomic_exchange_explicit(&e->count.v[i], 0,
							    memory_order_relaxed));
	}
	i = (uint32_t)(e - seg->conn);
	if (i == LAST)		/* others may be using it */
		return;
	if (rr_stat_is_undecided(seg, e, e->state, e->carrier) && e->reason < RR_STAT_REASONS)
		rr_stats_tcp(seg, (enum rr_reason)e->reason);
	atomic_store_explicit(&e->used, 0, memory_order_relaxed);
	put_entry_back(seg, i);
}

void rr_stats_latency(struct rr_stat_seg *seg, uint64_t ns)
{
	if (seg)
		add_atomic(&seg->hist[rr_hist_bucket(ns)], 1);
}

const char *rr_carrier_name(unsigned carrier)
{
	static const char *const name[] = { "none", "tcp", "shm", "verbs" };

	_Static_assert(rr_array_size(name) == RR_CARRIER_COUNT, "a name each");
	return carrier < RR_CARRIER_COUNT ? name[carrier] : "?";
}

const char *rr_state_name(unsigned state)
{
	static const char *const name[] = { "free", "new", "offered", "answered", "carried",
					    "draining", "tcp", "dead", "native", "listening" };

	_Static_assert(rr_array_size(name) == RR_CS_COUNT, "a name each");
	return state < RR_CS_COUNT ? name[state] : "?";
}

const char *rr_reason_text(unsigned reason)
{
	static const char *const text[] = {
#define RR_REASON(name, text) text,
#include "core/base/reasons.def"
#undef RR_REASON
	};

	return reason < RR_R_COUNT ? text[reason] : "a reason that only another release knows";
}

const char *const rr_dialect_names[] = { "v1", "v2", "draft02", "slides", NULL };

const char *rr_dialect_name(unsigned dialect)
{
	if (!dialect)
		return "";
	return dialect < rr_array_size(rr_dialect_names) ? rr_dialect_names[dialect - 1] : "?";
}

/* Returns where the longest run of at least two zero groups begins, which RFC 5952 §4.2 wants
 * shortened, and its length; -1: there is none. Of two runs of the same length the first
 * counts. */
static int zero_run(const uint8_t a[16], int *len)
{
	int best = -1, start = -1;

	*len = 1;
	for (int g = 0; g <= 8; g++) {
		if (g < 8 && !a[2 * g] && !a[2 * g + 1]) {
			if (start < 0)
				start = g;
			continue;
		}
		if (start >= 0 && g - start > *len) {
			best = start;
			*len = g - start;
		}
		start = -1;
	}
	return best;
}

/* Writes "[address]:port" with the address as RFC 5952 wants it: lower case, no leading zeroes,
 * the longest run of zeroes as "::". */
static char *text6(const uint8_t a[16], unsigned port, char *buf, unsigned size)
{
	int len, run = zero_run(a, &len);
	unsigned n = rr_fmt(buf, size, "[");

	for (int g = 0; g < 8; g++) {
		if (g == run) {
			n += rr_fmt(buf + n, size - n, "::");
			g += len - 1;
			continue;
		}
		n += rr_fmt(buf + n, size - n, g && g != run + len ? ":%x" : "%x",
			    (unsigned)(a[2 * g] << 8 | a[2 * g + 1]));
	}
	rr_fmt(buf + n, size - n, "]:%u", port);
	return buf;
}

/* Writes v so that it ends before `end`. Returns where it begins. */
static char *put_decimal(char *end, unsigned v)
{
	do {
		*--end = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	return end;
}

/* From its end to its beginning, as division gives the digits, and without a format string,
 * because each connection does this twice. */
static char *text4(const uint8_t a[4], unsigned port, char *buf, unsigned size)
{
	char text[sizeof("255.255.255.255:65535")], *const end = text + sizeof(text), *at;
	size_t n;

	at = put_decimal(end, port);
	for (int i = 4; i-- > 0;) {
		*--at = i < 3 ? '.' : ':';
		at = put_decimal(at, a[i]);
	}
	n = rr_min((size_t)(end - at), (size_t)size - 1);
	memcpy(buf, at, n);
	buf[n] = '\0';
	return buf;
}

/* Not inet_ntop(), which uses snprintf(): that is neither async-signal-safe nor independent of
 * the app's locale. */
char *rr_addr_text(const struct sockaddr *sa, char *buf, unsigned size)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff };
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	const uint8_t *a;
	unsigned port;

	buf[0] = '\0';
	if (sa->sa_family == AF_INET) {
		memcpy(&in, sa, sizeof(in));
		a = (const uint8_t *)&in.sin_addr;
		port = ntohs(in.sin_port);
	} else if (sa->sa_family == AF_INET6) {
		memcpy(&in6, sa, sizeof(in6));
		a = in6.sin6_addr.s6_addr;
		port = ntohs(in6.sin6_port);
		if (memcmp(a, mapped, sizeof(mapped)))
			return text6(a, port, buf, size);
		a += 12;
	} else {
		return buf;
	}
	return text4(a, port, buf, size);
}
