/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints what a short message costs, and judges nothing: the CPU time of each side of a one-way
 * stream between two pinned threads, and the round trip of a ping-pong. The best of several
 * batches counts, because a thread spins while the other one is not running. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)
#define BATCH 5000u

static struct shm_pair p;
static unsigned batches = 40;

/* The cheapest batch so far. */
struct best {
	uint64_t (*clock)(void);
	uint64_t start, ns;
};

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * RR_SEC + (uint64_t)ts.tv_nsec;
}

static void batch_begins(struct best *b)
{
	b->start = b->clock();
}

static void batch_ends(struct best *b)
{
	uint64_t ns = b->clock() - b->start;

	if (!b->ns || ns < b->ns)
		b->ns = ns;
}

static void tell(const char *what, const struct best *b)
{
	printf("%s: %.0f ns\n", what, (double)b->ns / BATCH);
}

static void send_one(struct rr_qp *qp)
{
	static uint8_t b[72];
	struct iovec iov[2] = { { b, 28 }, { b + 28, 44 } };

	while (ops->send(qp, iov, 2, 0, 0) != 1)
		rr_relax();
	ops->kick(qp);
}

static void receive_one(struct rr_qp *qp)
{
	struct rr_wc wc;

	while (ops->poll(qp, &wc, 1) != 1)
		rr_relax();
	ops->repost(qp, wc.cookie);
	ops->kick(qp);
}

static void *receiver(void *arg)
{
	struct best b = { .clock = cpu_ns };

	(void)arg;
	pin(1);
	for (unsigned i = 0; i < batches; i++) {
		batch_begins(&b);
		for (unsigned n = 0; n < BATCH; n++)
			receive_one(p.s);
		batch_ends(&b);
	}
	tell("stream, receiver's CPU per message", &b);
	return NULL;
}

static void *echo(void *arg)
{
	(void)arg;
	pin(1);
	for (unsigned i = 0; i < batches * BATCH; i++) {
		receive_one(p.s);
		send_one(p.s);
	}
	return NULL;
}

static void stream(void)
{
	struct best b = { .clock = cpu_ns };
	pthread_t t;

	pthread_create(&t, NULL, receiver, NULL);
	for (unsigned i = 0; i < batches; i++) {
		batch_begins(&b);
		for (unsigned n = 0; n < BATCH; n++)
			send_one(p.c);
		batch_ends(&b);
	}
	tell("stream, sender's CPU per message", &b);
	pthread_join(t, NULL);
}

static void pingpong(void)
{
	struct best b = { .clock = rr_now };
	pthread_t t;

	pthread_create(&t, NULL, echo, NULL);
	for (unsigned i = 0; i < batches; i++) {
		batch_begins(&b);
		for (unsigned n = 0; n < BATCH; n++) {
			send_one(p.c);
			receive_one(p.c);
		}
		batch_ends(&b);
	}
	tell("ping-pong, time per round trip", &b);
	pthread_join(t, NULL);
}

/* Both ends in one thread: what the code itself takes, without a cache line moving. */
static void alone(void)
{
	struct best b = { .clock = cpu_ns };

	for (unsigned i = 0; i < batches; i++) {
		batch_begins(&b);
		for (unsigned n = 0; n < BATCH; n++) {
			send_one(p.c);
			receive_one(p.s);
		}
		batch_ends(&b);
	}
	tell("one thread, send + poll + repost + kicks", &b);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		batches = (unsigned)atoi(argv[1]);
	shm_pair_open(&p, 32);
	pin(0);
	alone();
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		stream();
		pingpong();
	}
	shm_pair_close(&p);
	return 0;
}
