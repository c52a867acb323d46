/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that claim, count and release entries of one segment, and one that reads it as
 * rdmarpc-stat does: no count is lost, none is seen twice, no entry is two threads'. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/base/stats_abi.h"

#define THREADS	4
#define ROUNDS	5000

static struct rr_stat_seg *seg;
static _Atomic int owner[RR_STAT_CONNS];
static _Atomic bool stop;

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static void *worker(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		struct rr_stat_conn *e = rr_stats_claim(seg, i, false);
		long n = e - seg->conn;

		if (atomic_exchange(&owner[n], 1))
			fail("two threads own an entry");
		for (int k = 0; k < 10; k++)
			rr_count(rr_stats_counters(e), RR_C_calls_sent, 1);
		rr_stats_state(seg, e, RR_CS_CARRIED, RR_CARRIER_SHM, RR_R_NONE);
		atomic_store(&owner[n], 0);
		rr_stats_release(seg, e);
	}
	return NULL;
}

static uint64_t sum(void)
{
	uint64_t n = 0;

	/* Retired first: a count moves from an entry to there, so one that moves meanwhile is
	 * missed, never seen twice. */
	n += atomic_load(&seg->retired.v[RR_C_calls_sent]);
	for (unsigned i = 0; i < RR_STAT_CONNS; i++)
		n += atomic_load(&seg->conn[i].count.v[RR_C_calls_sent]);
	return n;
}

static void *reader(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		if (sum() > (uint64_t)THREADS * ROUNDS * 10)
			fail("a count is seen twice");
	return NULL;
}

int main(void)
{
	pthread_t t[THREADS], r;

	seg = mmap(NULL, RR_STAT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (seg == MAP_FAILED)
		return 1;
	rr_stats_init(seg, 1, 1, "stress", NULL);
	pthread_create(&r, NULL, reader, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, worker, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	atomic_store(&stop, true);
	pthread_join(r, NULL);
	if (sum() != (uint64_t)THREADS * ROUNDS * 10)
		fail("a count is lost");
	if (seg->carriers[RR_CARRIER_SHM] != (uint64_t)THREADS * ROUNDS)
		fail("an arrival is lost");
	for (unsigned i = 0; i < RR_STAT_CONNS; i++)
		if (seg->conn[i].used)
			fail("an entry is left");
	return 0;
}
