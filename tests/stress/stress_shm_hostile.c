/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that scribbles over everything that is shared, all the time, while we use the
 * connection in every way: the worst that happens is an error. For ASan and UBSan. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)

static struct shm_pair p;
static unsigned long calls, errors;

static bool no(void *ctx, size_t off, size_t len)
{
	(void)ctx;
	(void)off;
	(void)len;
	return false;
}

static uint32_t any32(void)
{
	return (uint32_t)rand() << 16 ^ (uint32_t)rand();
}

/* Mostly words that could pass: near positions, small numbers. */
static uint32_t evil(void)
{
	switch (rand() % 6) {
	case 0: return any32();
	case 1: return rr_shm_seq((uint32_t)rand() % 64);
	case 2: return (uint32_t)rand() % 5000;
	case 3: return RR_SHM_INV | (uint32_t)rand() % 64;
	case 4: return 0;
	default: return UINT32_MAX - (uint32_t)rand() % 16;
	}
}

static void scribble(unsigned seed, int blunt)
{
	struct rr_shm *q = container_of(p.s, struct rr_shm, qp);
	struct rr_shm_view *v[2] = { &q->own, &q->peer };

	srand(seed);
	for (;;) {
		struct rr_shm_view *w = v[rand() & 1];
		size_t at = (size_t)rand() % (w->geo.mem_off / 4);
		struct rr_shm_slot *s = rr_shm_slot(w, (uint32_t)rand());

		if (blunt)
			atomic_store((_Atomic uint32_t *)w->berth.at + at, evil());
		atomic_store(&s->len, evil());
		atomic_store(&s->arg, evil());
		atomic_store(&s->seq, evil());
		if (rand() % 4 == 0)
			atomic_store(&s->skip, evil());
		if (rand() % 16 == 0)
			ops->kick(p.s);
		if (rand() % 1000 == 0)
			ops->trim(p.s, no, NULL);
	}
}

static void note(int rc)
{
	calls++;
	if (rc >= 0)
		return;
	errors++;
	if (rc != -EPROTO && rc != -EAGAIN && rc != -EACCES && rc != -ETIMEDOUT) {
		fprintf(stderr, "unexpected error %d\n", rc);
		abort();
	}
}

static void receive(void)
{
	static uint8_t copy[RR_SHM_RECV_MAX];
	struct rr_wc wc[4];
	int n = ops->poll(p.c, wc, 4);

	note(n);
	for (int i = 0; i < n; i++) {
		if (wc[i].len > p.c->recv_size)
			abort();
		memcpy(copy, wc[i].buf, wc[i].len);
		ops->repost(p.c, wc[i].cookie);
	}
}

static void access_memory(void)
{
	static uint8_t b[1 << 16];
	struct rr_seg seg;
	struct rr_seg bad = { evil(), evil(), evil() };

	note(ops->read(p.c, b, (uint32_t)rand() % sizeof(b), &bad, evil(), 0));
	note(ops->write(p.c, b, (uint32_t)rand() % sizeof(b), &bad, evil(), 0));
	if (!ops->expose(p.c, p.c->mem + rand() % 1000, (uint32_t)rand() % 5000, 3, &seg)) {
		ops->consumed(p.c, seg.handle);
		note(ops->invalidate(p.c, seg.handle, 0));
	}
}

static void use(void)
{
	static uint8_t b[4096];
	struct iovec iov = { b, (size_t)rand() % 4097 };

	for (int i = 0; i < 3000; i++) {
		note(ops->send(p.c, &iov, 1, 0, 0));
		receive();
		access_memory();
		if (ops->window(p.c) > p.c->peer_recvs)
			abort();
		ops->peek(p.c, RR_ARM_RECV | RR_ARM_SEND);
		ops->arm(p.c, RR_ARM_RECV | RR_ARM_SEND);
		ops->kick(p.c);
		note(ops->drain(p.c));
		if (i % 64 == 0)
			ops->trim(p.c, no, NULL);
		/* as if it had not been noticed: go on as deep as possible */
		atomic_store(&container_of(p.c, struct rr_shm, qp)->err, 0);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100;

	for (int round = 0; round < rounds; round++) {
		pid_t pid;

		shm_pair_open(&p, 8);
		pid = fork();
		if (pid == 0)
			scribble((unsigned)round, round % 2);
		srand((unsigned)round + 1000);
		use();
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		shm_pair_close(&p);
	}
	printf("%lu calls, %lu errors\n", calls, errors);
	return errors == 0;
}
