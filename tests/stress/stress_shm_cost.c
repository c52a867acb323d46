/* SPDX-License-Identifier: BSD-3-Clause */
/* What a short message costs, printed, never judged: CPU time per side of a stream one way
 * between two pinned threads, and the round trip of a ping-pong. */
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

static struct shm_pair p;
static uint32_t messages = 300000;

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

static void send_one(struct rr_qp *qp)
{
	static uint8_t b[72];
	struct iovec iov[2] = { { b, 28 }, { b + 28, 44 } };

	while (ops->send(qp, iov, 2, 0, 0) != 1)
		rr_relax();
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
	struct rr_wc wc[16];
	uint64_t start;

	(void)arg;
	pin(1);
	start = cpu_ns();
	for (uint32_t got = 0; got < messages;) {
		int n = ops->poll(p.s, wc, 16);

		for (int i = 0; i < n; i++)
			ops->repost(p.s, wc[i].cookie);
		if (n)
			ops->kick(p.s);
		got += (uint32_t)n;
	}
	printf("stream: receiver %.0f ns of CPU per message\n",
	       (double)(cpu_ns() - start) / messages);
	return NULL;
}

static void *echo(void *arg)
{
	(void)arg;
	pin(1);
	for (uint32_t i = 0; i < messages; i++) {
		receive_one(p.s);
		send_one(p.s);
		ops->kick(p.s);
	}
	return NULL;
}

static void stream(void)
{
	pthread_t t;
	uint64_t start;

	pthread_create(&t, NULL, receiver, NULL);
	start = cpu_ns();
	for (uint32_t i = 0; i < messages; i++) {
		send_one(p.c);
		ops->kick(p.c);
	}
	printf("stream: sender %.0f ns of CPU per message\n",
	       (double)(cpu_ns() - start) / messages);
	pthread_join(t, NULL);
}

static void pingpong(void)
{
	pthread_t t;
	uint64_t start;

	pthread_create(&t, NULL, echo, NULL);
	start = rr_now();
	for (uint32_t i = 0; i < messages; i++) {
		send_one(p.c);
		ops->kick(p.c);
		receive_one(p.c);
	}
	printf("ping-pong: %.0f ns per round trip\n", (double)(rr_now() - start) / messages);
	pthread_join(t, NULL);
}

/* Both ends in one thread: what the code itself takes, without a cache line moving. */
static void alone(void)
{
	uint64_t start = cpu_ns();

	for (uint32_t i = 0; i < messages; i++) {
		send_one(p.c);
		receive_one(p.s);
	}
	printf("one thread: %.0f ns for send + poll + repost\n",
	       (double)(cpu_ns() - start) / messages);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		messages = (uint32_t)atoi(argv[1]);
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
