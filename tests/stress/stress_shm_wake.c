/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends that send at random, hold some messages, and sleep whenever there is nothing to
 * do: no message is lost, altered or late, and no wake-up is lost (a sleep that times out).
 * Once with two threads (for TSan), once with two processes. Each end sends as many messages
 * as the other and stops when it has sent and received them all. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)
#define HOLD 3

struct end {
	struct rr_qp *qp;
	uint32_t messages;	/* to send and to receive */
	uint32_t sent, got;
	uint32_t rnd;
	uint64_t held[HOLD];
	unsigned nheld;
	unsigned sleeps;
};

static void fail(const char *what, int rc)
{
	fprintf(stderr, "%s: %d (%s)\n", what, rc, strerror(rc < 0 ? -rc : 0));
	abort();
}

static uint32_t rnd(struct end *e)
{
	e->rnd = e->rnd * 1664525 + 1013904223;
	return e->rnd >> 8;
}

static uint8_t byte_of(uint32_t n, uint32_t i)
{
	return (uint8_t)(n * 131 + i * 7 + 1);
}

static bool send_some(struct end *e)
{
	uint8_t b[600];
	bool any = false;

	for (uint32_t k = rnd(e) % 4; k && e->sent < e->messages; k--) {
		uint32_t len = 4 + rnd(e) % (sizeof(b) - 4), window = ops->window(e->qp);
		struct iovec iov = { b, len };
		int rc;

		memcpy(b, &e->sent, 4);
		for (uint32_t i = 4; i < len; i++)
			b[i] = byte_of(e->sent, i);
		rc = ops->send(e->qp, &iov, 1, 0, 0);
		if (window && rc != 1)
			fail("send within the window", rc);
		if (rc == -EAGAIN)
			break;
		if (rc != 1)
			fail("send", rc);
		e->sent++;
		any = true;
	}
	return any;
}

static void check(struct end *e, const struct rr_wc *wc)
{
	uint32_t n;

	memcpy(&n, wc->buf, 4);
	if (wc->len < 4 || n != e->got)
		fail("out of order", (int)n);
	for (uint32_t i = 4; i < wc->len; i++)
		if (wc->buf[i] != byte_of(n, i))
			fail("altered", (int)i);
	e->got++;
}

static bool receive_some(struct end *e)
{
	struct rr_wc wc[4];
	int n = ops->poll(e->qp, wc, 4);

	if (n < 0)
		fail("poll", n);
	for (int i = 0; i < n; i++) {
		unsigned k = rnd(e) % HOLD;

		check(e, &wc[i]);
		if (e->nheld < HOLD) {
			e->held[e->nheld++] = wc[i].cookie;
			continue;
		}
		ops->repost(e->qp, e->held[k]);
		e->held[k] = wc[i].cookie;
	}
	return n > 0;
}

static void sleep_for(struct end *e)
{
	enum rr_arm what = RR_ARM_RECV | (e->sent < e->messages ? RR_ARM_SEND : 0);
	struct pollfd pfd = { .fd = e->qp->wake_fd, .events = POLLIN };
	int rc;

	ops->kick(e->qp);
	if (e->sent < e->messages && ops->peek(e->qp, RR_ARM_SEND))
		return;
	if (ops->arm(e->qp, what))
		return;
	e->sleeps++;
	rc = poll(&pfd, 1, 100000);
	if (rc == 0)
		fail("a wake-up was lost", 0);
	ops->disarm(e->qp);
	rc = ops->drain(e->qp);
	if (rc && e->got < e->messages && !ops->peek(e->qp, RR_ARM_RECV))
		fail("drain", rc);
}

static void *run(void *arg)
{
	struct end *e = arg;

	while (e->sent < e->messages || e->got < e->messages) {
		bool any = send_some(e);

		any |= receive_some(e);
		if (rnd(e) % 8 == 0)
			ops->kick(e->qp);
		if (!any)
			sleep_for(e);
	}
	while (e->nheld)
		ops->repost(e->qp, e->held[--e->nheld]);
	ops->kick(e->qp);
	return NULL;
}

static void report(const char *how, const struct end *e)
{
	printf("%s: %u messages each way, %u sleeps\n", how, e->got, e->sleeps);
}

int main(void)
{
	static struct shm_pair p;
	struct end c, s;
	pthread_t t;
	int st;

	shm_pair_open(&p, 8);
	c = (struct end){ .qp = p.c, .messages = 100000, .rnd = 1 };
	s = (struct end){ .qp = p.s, .messages = 100000, .rnd = 2 };
	pthread_create(&t, NULL, run, &s);
	run(&c);
	pthread_join(t, NULL);
	report("threads", &c);
	shm_pair_close(&p);

	shm_pair_open(&p, 8);
	c = (struct end){ .qp = p.c, .messages = 100000, .rnd = 3 };
	s = (struct end){ .qp = p.s, .messages = 100000, .rnd = 4 };
	if (fork() == 0) {
		run(&s);
		_exit(0);
	}
	run(&c);
	wait(&st);
	if (st)
		fail("child", st);
	report("processes", &c);
	shm_pair_close(&p);
	return 0;
}
