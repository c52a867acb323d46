/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads make connections, of which some are never heard of after their offer, while others withdraw whatever answer has not
 * been taken up at that moment: both ends go on by the same way, and no call is lost. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os.h"
#include "tests/lib/connpair.h"

#define CALLERS	3
#define CONNS	700u

static atomic_bool over;
static atomic_uint ways[2];	/* TCP, carried */

struct caller {
	uint8_t out[300], in[300];
};

static void pass(struct caller *k, struct rr_end *from, struct rr_end *to, size_t n)
{
	ssize_t sent = rr_end_send(from, to, k->out, n);
	ssize_t got = sent == (ssize_t)n ? rr_end_recv(to, from, k->in, n) : 0;

	if (got == (ssize_t)n && memcmp(k->in, k->out, n) == 0)
		return;
	fprintf(stderr, "%zu bytes: sent %zd, received %zd\n", n, sent, got);
	abort();
}

static void talk(struct caller *k, struct rr_pair *p, uint32_t xid, size_t n)
{
	pass(k, &p->client, &p->server, n);
	pass(k, &p->server, &p->client, rr_test_reply(k->out, xid, 100, xid));
	if (rr_conn_is_carried(p->client.c) != rr_conn_is_carried(p->server.c)) {
		fprintf(stderr, "the ends do not agree\n");
		abort();
	}
	atomic_fetch_add(&ways[rr_conn_is_carried(p->client.c)], 1);
}

static void *caller(void *arg)
{
	struct caller *k = arg;

	for (uint32_t xid = 1; xid <= CONNS; xid++) {
		size_t n = rr_test_call(k->out, xid, 100, xid);
		struct rr_pair p;

		rr_pair_open(&p);
		rr_end_try_send(&p.client, k->out, n);		/* its offer */
		rr_end_poll(&p.server, POLLIN);			/* the answer */
		if (xid % 3 == 0)
			sched_yield();
		if (xid % 50)
			talk(k, &p, xid, n);
		rr_pair_close(&p);
	}
	return NULL;
}

static void *withdrawer(void *arg)
{
	rr_time ahead = 3600 * RR_SEC;

	(void)arg;
	while (!atomic_load(&over)) {
		rr_conn_scarce();
		rr_conn_idle(rr_now() + ahead);
		ahead += RR_SEC;
		sched_yield();
	}
	return NULL;
}

int main(void)
{
	static struct caller k[CALLERS];
	pthread_t call[CALLERS], end[2];

	rr_test_setup();
	for (int i = 0; i < 2; i++)
		pthread_create(&end[i], NULL, withdrawer, NULL);
	for (int i = 0; i < CALLERS; i++)
		pthread_create(&call[i], NULL, caller, &k[i]);
	for (int i = 0; i < CALLERS; i++)
		pthread_join(call[i], NULL);
	atomic_store(&over, true);
	for (int i = 0; i < 2; i++)
		pthread_join(end[i], NULL);
	fprintf(stderr, "by TCP %u, carried %u\n", atomic_load(&ways[0]), atomic_load(&ways[1]));
	return !atomic_load(&ways[0]) || !atomic_load(&ways[1]);
}
