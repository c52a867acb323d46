/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads go to sleep on connections of which the kernel has the first word, while others take
 * these away where they find that nobody sleeps: nobody is left asleep on one that is gone. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os.h"
#include "core/conn/base/base.h"

#define WAITERS	3
#define CONNS	8u
#define TIME	(2 * RR_SEC)

static struct rr_conn *conn[CONNS];
static pthread_mutex_t lock[CONNS];	/* the connection's */
static _Atomic uint32_t gone[CONNS];	/* odd: it is another's than the kernel's now */
static _Atomic uint64_t slept, again, taken;
static atomic_bool over;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static void work(unsigned n)
{
	for (volatile unsigned i = 0; i < n; i++)
		;
}

/* Once asleep, what it sleeps on stays. */
static void sleep_on(const bool *mine)
{
	for (int i = 0; i < 20; i++)
		for (unsigned k = 0; k < CONNS; k++)
			must(!mine[k] || !(atomic_load(&gone[k]) & 1), "taken from a sleeper");
	atomic_fetch_add(&slept, 1);
}

/* A wait on all of them that was paused, without a look at any. */
static struct rr_plainwait *resumed(bool *mine)
{
	uint32_t n;
	struct rr_plainwait *w = rr_plainwait_resume(0, &n);

	if (!w)
		return NULL;
	if (n < CONNS || !rr_plainwait_is_sure(w)) {
		rr_plainwait_end(w);
		return NULL;
	}
	memset(mine, true, CONNS);
	atomic_fetch_add(&again, 1);
	return w;
}

static struct rr_plainwait *begun(bool *mine)
{
	struct rr_plainwait *w = NULL;

	for (unsigned k = 0; k < CONNS; k++)
		if ((mine[k] = rr_plainwait_add(&w, conn[k])))
			rr_plainwait_note(w, (int)k);
	if (!w || rr_plainwait_is_sure(w))
		return w;
	for (unsigned k = 0; k < CONNS; k++) {
		if (!mine[k] || rr_plainwait_stays(conn[k]))
			continue;
		mine[k] = false;
		rr_plainwait_leave(w, conn[k]);
	}
	return w;
}

static void *waiter(void *arg)
{
	bool mine[CONNS];

	while (!atomic_load(&over)) {
		struct rr_plainwait *w = resumed(mine);

		if (!w)
			w = begun(mine);
		if (!w)
			continue;
		sleep_on(mine);
		if (memchr(mine, false, CONNS))
			rr_plainwait_end(w);
		else
			rr_plainwait_pause(w, 0);
		work(1000);
	}
	return arg;
}

/* An upgrade, and then another connection in its place. */
static void take(unsigned k)
{
	pthread_mutex_lock(&lock[k]);
	if (!rr_plainwait_has(conn[k])) {
		atomic_fetch_add(&gone[k], 1);
		rr_conn_turn(conn[k], RR_S_HEARD);
		atomic_fetch_add(&taken, 1);
		atomic_fetch_add(&gone[k], 1);
		rr_conn_turn(conn[k], RR_S_NEW);
	}
	atomic_store(&conn[k]->own_word, false);	/* as rr_conn_arm() does */
	pthread_mutex_unlock(&lock[k]);
}

/* Now and then it does nothing for a while: waits go on. */
static void *taker(void *arg)
{
	for (unsigned k = 0; !atomic_load(&over); k++) {
		take(k % CONNS);
		work(k % 7 ? 0 : 20000);
	}
	return arg;
}

int main(void)
{
	pthread_t t[WAITERS + 1];
	rr_time end = rr_now() + TIME;

	for (unsigned k = 0; k < CONNS; k++) {
		pthread_mutex_init(&lock[k], NULL);
		conn[k] = rr_slab_get(true, 3);
		rr_conn_turn(conn[k], RR_S_NEW);
	}
	for (int i = 0; i <= WAITERS; i++)
		pthread_create(&t[i], NULL, i ? waiter : taker, NULL);
	while (rr_now() < end)
		rr_os_nap(10 * RR_MSEC);
	atomic_store(&over, true);
	for (int i = 0; i <= WAITERS; i++)
		pthread_join(t[i], NULL);
	must(slept > 1000 && again > 1000 && taken > 1000, "too little happened");
	return 0;
}
