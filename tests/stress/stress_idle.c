/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads call on connections of their own, pausing now and then, while others give the memory of
 * whatever connection is not in use at that moment back to the system: no byte is altered, and
 * nobody waits for ever. Now and then a connection ends and another takes its place. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "tests/lib/connpair.h"

#define CALLERS	3
#define PAIRS	4
#define CALLS	1500u

static atomic_bool over;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;	/* for the test's own port */

struct caller {
	unsigned rnd;
	struct rr_pair pair[PAIRS];
	uint8_t out[200000], in[200000];
};

static unsigned rnd(struct caller *k)
{
	k->rnd = k->rnd * 1664525u + 1013904223u;
	return k->rnd >> 8;
}

static void pass(struct caller *k, struct rr_end *from, struct rr_end *to, size_t n)
{
	ssize_t sent = rr_end_send(from, to, k->out, n);
	ssize_t got = sent == (ssize_t)n ? rr_end_recv(to, from, k->in, n) : 0;

	if (got == (ssize_t)n && memcmp(k->in, k->out, n) == 0)
		return;
	fprintf(stderr, "%zu bytes: sent %zd, received %zd\n", n, sent, got);
	abort();
}

static size_t any_size(struct caller *k)
{
	static const size_t most[] = { 10, 200, 6000, 150000 };

	return rnd(k) % most[rnd(k) % rr_array_size(most)];
}

static void reopen(struct rr_pair *p, bool was_open)
{
	pthread_mutex_lock(&opening);
	if (was_open)
		rr_pair_close(p);
	rr_pair_open(p);
	pthread_mutex_unlock(&opening);
}

static void *caller(void *arg)
{
	struct caller *k = arg;

	for (int i = 0; i < PAIRS; i++)
		reopen(&k->pair[i], false);
	for (uint32_t xid = 1; xid <= CALLS; xid++) {
		struct rr_pair *p = &k->pair[rnd(k) % PAIRS];

		pass(k, &p->client, &p->server, rr_test_call(k->out, xid, any_size(k), xid));
		pass(k, &p->server, &p->client, rr_test_reply(k->out, xid, any_size(k), xid));
		if (rnd(k) % 100 == 0)
			reopen(p, true);
	}
	for (int i = 0; i < PAIRS; i++)
		rr_pair_close(&k->pair[i]);
	return NULL;
}

static void *trimmer(void *arg)
{
	rr_time ahead = RR_SEC;

	(void)arg;
	while (!atomic_load(&over)) {
		static const struct timespec nap = { 0, 20000 };

		rr_conn_idle(rr_now() + ahead);
		ahead += RR_SEC;
		nanosleep(&nap, NULL);
	}
	return NULL;
}

int main(void)
{
	static struct caller k[CALLERS];
	pthread_t call[CALLERS], trim[2];

	rr_test_setup();
	for (int i = 0; i < 2; i++)
		pthread_create(&trim[i], NULL, trimmer, NULL);
	for (unsigned i = 0; i < CALLERS; i++) {
		k[i].rnd = i + 1;
		pthread_create(&call[i], NULL, caller, &k[i]);
	}
	for (int i = 0; i < CALLERS; i++)
		pthread_join(call[i], NULL);
	atomic_store(&over, true);
	for (int i = 0; i < 2; i++)
		pthread_join(trim[i], NULL);
	return 0;
}
