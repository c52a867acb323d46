/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that count calls of more procedures than there are tallies for, and take the same new
 * ones at the same time: no call is lost, every ready tally has its key. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/base/tally.h"

#define THREADS	 4
#define ROUNDS	 20000
#define PROGRAMS 40u

static struct rr_stat_seg *seg;

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static void *count_calls(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t k = i % PROGRAMS;
		int t = rr_tally_find(seg, k & 1, 1000 + k, k % 3, k % 7, true);

		if (t < 0 || t >= (int)RR_STAT_TALLIES)
			fail("no tally");
		if (t >= (int)RR_TALLY_OTHERS && seg->key[t].program != 1000 + k)
			fail("another key's tally");
		rr_tally_add(&rr_tally_at(seg, t)->calls, 1);
	}
	return NULL;
}

static uint64_t sum(void)
{
	uint64_t ready = atomic_load_explicit(&seg->tallies_ready, memory_order_acquire), n = 0;

	for (int i = 0; i < (int)RR_STAT_TALLIES; i++)
		if (ready >> i & 1)
			n += atomic_load(&rr_tally_at(seg, i)->calls);
	return n;
}

int main(void)
{
	pthread_t t[THREADS];

	seg = mmap(NULL, RR_STAT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	if (seg == MAP_FAILED)
		return 1;
	rr_stats_init(seg, 1, 1, "stress", NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, count_calls, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	if (sum() != (uint64_t)THREADS * ROUNDS)
		fail("a call is lost");
	return 0;
}
