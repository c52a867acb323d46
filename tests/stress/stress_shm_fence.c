/* SPDX-License-Identifier: BSD-3-Clause */
/* Once invalidate() has returned, the peer's writes are over, however it was timed: one
 * side writes into a segment as fast as it can, until it is told that the key is gone; the
 * other takes the key away at random moments, clears the memory and finds it still clear. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)
#define SIZE 20000

static struct shm_pair p;
static unsigned rounds = 800;
static unsigned long writes;

static void fail(const char *what, int rc)
{
	fprintf(stderr, "%s: %d\n", what, rc);
	abort();
}

static void get_segment(struct rr_seg *seg)
{
	struct rr_wc wc;
	int n;

	while ((n = ops->poll(p.s, &wc, 1)) == 0)
		rr_relax();
	if (n < 0)
		fail("poll", n);
	memcpy(seg, wc.buf, sizeof(*seg));
	ops->repost(p.s, wc.cookie);
}

static void *writer(void *arg)
{
	static uint8_t ones[SIZE];

	(void)arg;
	memset(ones, 0xff, sizeof(ones));
	for (unsigned i = 0; i < rounds; i++) {
		struct rr_seg seg;
		int rc;

		get_segment(&seg);
		while ((rc = ops->write(p.s, ones, SIZE, &seg, 0, 0)) == 1)
			writes++;
		if (rc != -EACCES)
			fail("write", rc);
	}
	return NULL;
}

static void all_clear(void)
{
	for (int look = 0; look < 3; look++)
		for (size_t i = 0; i < SIZE; i++)
			if (p.c->mem[i])
				fail("written after the key was taken back", (int)i);
}

int main(void)
{
	struct rr_seg seg;
	struct iovec iov = { &seg, sizeof(seg) };
	pthread_t t;

	srand(5);
	shm_pair_open(&p, 4);
	pthread_create(&t, NULL, writer, NULL);
	for (unsigned i = 0; i < rounds; i++) {
		if (ops->expose(p.c, p.c->mem, SIZE, RR_RIGHT_WRITE, &seg))
			fail("expose", 0);
		while (ops->send(p.c, &iov, 1, 0, 0) != 1)
			rr_relax();
		for (int spin = rand() % 3000; spin; spin--)
			rr_relax();
		if (ops->invalidate(p.c, seg.handle, 0) != 1)
			fail("invalidate", 0);
		memset(p.c->mem, 0, SIZE);
		all_clear();
	}
	pthread_join(t, NULL);
	shm_pair_close(&p);
	printf("%u keys, %lu writes\n", rounds, writes);
	return writes == 0;
}
