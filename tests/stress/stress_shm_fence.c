/* SPDX-License-Identifier: BSD-3-Clause */
/* Once invalidate() has completed, the peer's writes are over, however it was timed: one
 * side writes into a segment as fast as it can, until it is told that the key is gone; the
 * other takes the key away at random moments, clears the memory and finds it still clear.
 * Then both at once: the one begins its only write while the other takes the key away. Either
 * of them must see the other, which takes a fence on both sides. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)
#define SIZE	2000
#define ROUNDS	8000u
#define TIME	(3 * RR_SEC)	/* but no longer than that, on a busy machine */

static struct shm_pair p;
static unsigned long writes, later;

static void fail(const char *what, int rc)
{
	fprintf(stderr, "%s: %d\n", what, rc);
	abort();
}

/* The next segment to write to; false: there are no more. */
static bool get_segment(struct rr_seg *seg)
{
	struct rr_wc wc;
	int n;

	while ((n = ops->poll(p.s, &wc, 1)) == 0)
		rr_relax();
	if (n < 0)
		fail("poll", n);
	memcpy(seg, wc.buf, sizeof(*seg));
	ops->repost(p.s, wc.cookie);
	return seg->handle != 0;
}

static void put_segment(struct rr_seg *seg)
{
	struct iovec iov = { seg, sizeof(*seg) };

	while (ops->send(p.c, &iov, 1, 0, 0) != 1)
		rr_relax();
}

static void *writer(void *arg)
{
	static uint8_t ones[SIZE];
	struct rr_seg seg;

	(void)arg;
	memset(ones, 0xff, sizeof(ones));
	while (get_segment(&seg)) {
		int rc;

		while ((rc = ops->write(p.s, ones, SIZE, &seg, 0, 0)) == 1)
			writes++;
		if (rc != -EACCES)
			fail("write", rc);
	}
	return NULL;
}

/* Until a write is under way. That is a race: for nothing but the timing. */
__attribute__((no_sanitize("thread"))) static void wait_for_write(void)
{
	_Atomic uint8_t *first = (_Atomic uint8_t *)p.c->mem;

	for (unsigned n = 1; !atomic_load_explicit(first, memory_order_relaxed); n++)
		if (n % 1000 == 0)
			sched_yield();
}

static void all_clear(void)
{
	for (int look = 0; look < 3; look++)
		for (size_t i = 0; i < SIZE; i++)
			if (p.c->mem[i])
				fail("written after the key was taken back", (int)i);
}

/* Most writes end while it looks. */
static void take_back(uint32_t handle)
{
	struct rr_wc wc = { .op = RR_WC_RECV };
	int rc = ops->invalidate(p.c, handle, handle);

	if (rc == 1)
		return;
	if (rc)
		fail("invalidate", rc);
	later++;
	while ((rc = ops->poll(p.c, &wc, 1)) == 0)
		sched_yield();
	if (rc != 1 || wc.op != RR_WC_INVALIDATE || wc.cookie != handle)
		fail("completion", rc);
}

/* --- at the same moment --- */

#define FIRST	64u	/* bytes: a copy that is over when it has begun */
#define STARTS	400000u

static struct rr_seg shown;
static _Atomic uint32_t go, gone;	/* the round that began, that the writer has ended */

static void wait_for_round(_Atomic uint32_t *at, uint32_t round)
{
	for (unsigned n = 1; atomic_load_explicit(at, memory_order_acquire) != round; n++) {
		rr_relax();
		if (n % 1000 == 0)
			sched_yield();
	}
}

/* Some cycles, or some hundred. */
static void idle(unsigned *chance)
{
	*chance = *chance * 1103515245 + 12345;
	for (unsigned n = *chance >> 16 & 31; n; n--)
		rr_relax();
	for (unsigned n = *chance >> 21 & 63; n; n--)
		__asm__ volatile("");
}

static void *starter(void *arg)
{
	static uint8_t ones[FIRST];
	unsigned chance = 1;

	(void)arg;
	memset(ones, 0xff, sizeof(ones));
	for (uint32_t round = 1;; round++) {
		int rc;

		wait_for_round(&go, round);
		if (!shown.handle)
			return NULL;
		idle(&chance);
		rc = ops->write(p.s, ones, FIRST, &shown, 0, 0);
		if (rc == 1)
			writes++;
		else if (rc != -EACCES)
			fail("write", rc);
		atomic_store_explicit(&gone, round, memory_order_release);
	}
}

static unsigned both_at_once(void)
{
	rr_time end = rr_now() + TIME;
	unsigned chance = 2;
	uint32_t round;
	pthread_t t;

	pthread_create(&t, NULL, starter, NULL);
	for (round = 1; round < STARTS && rr_now() < end; round++) {
		if (ops->expose(p.c, p.c->mem, FIRST, RR_RIGHT_WRITE, &shown))
			fail("expose", 0);
		atomic_store_explicit(&go, round, memory_order_release);
		idle(&chance);
		take_back(shown.handle);
		memset(p.c->mem, 0, FIRST);
		wait_for_round(&gone, round);
		for (size_t i = 0; i < FIRST; i++)
			if (p.c->mem[i])
				fail("begun before and written after the key was taken back", (int)i);
	}
	shown.handle = 0;
	atomic_store_explicit(&go, round, memory_order_release);
	pthread_join(t, NULL);
	return round - 1;
}

int main(void)
{
	rr_time end = rr_now() + TIME;
	struct rr_seg seg;
	unsigned rounds;
	pthread_t t;

	srand(5);
	shm_pair_open(&p, 4);
	pthread_create(&t, NULL, writer, NULL);
	for (rounds = 0; rounds < ROUNDS && rr_now() < end; rounds++) {
		if (ops->expose(p.c, p.c->mem, SIZE, RR_RIGHT_WRITE, &seg))
			fail("expose", 0);
		put_segment(&seg);
		wait_for_write();
		for (int spin = rand() % 300; spin; spin--)
			rr_relax();
		take_back(seg.handle);
		memset(p.c->mem, 0, SIZE);
		all_clear();
	}
	seg.handle = 0;
	put_segment(&seg);
	pthread_join(t, NULL);
	printf("%u keys, %lu of them later, %lu writes\n", rounds, later, writes);
	writes = later = 0;
	rounds = both_at_once();
	printf("at once: %u keys, %lu of them later, %lu writes\n", rounds, later, writes);
	shm_pair_close(&p);
	return 0;
}
