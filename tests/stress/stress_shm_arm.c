/* SPDX-License-Identifier: BSD-3-Clause */
/* Who armed in vain is rung for: one thread arms while the other sends and kicks, as close
 * together as can be, over and over. When arm() said "nothing there", a bell must have been
 * rung by the time that kick() returns. Needs the full fences on both sides. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)

static struct shm_pair p;
#define ROUNDS	500000u
#define TIME	(3 * RR_SEC)	/* but no longer than that, on a busy machine */

static _Atomic unsigned go, kicked;

/* Until *what is value, or all is over. */
static bool wait_for(_Atomic unsigned *what, unsigned value)
{
	for (unsigned n = 1;; n++) {
		unsigned v = atomic_load_explicit(what, memory_order_acquire);

		if (v == value || v == UINT_MAX)
			return v == value;
		if (n % 1000 == 0)
			sched_yield();
	}
}

static void delay(unsigned n)
{
	while (n--)
		__asm__ volatile("");
}

static void *sender(void *arg)
{
	(void)arg;
	for (unsigned i = 1; wait_for(&go, i); i++) {
		if (ops->send_imm(p.c, i, 0) != 1)
			abort();
		ops->kick(p.c);
		atomic_store_explicit(&kicked, i, memory_order_release);
	}
	return NULL;
}

static bool swallow_bell(void)
{
	char c;

	return recv(p.s->wake_fd, &c, 1, MSG_DONTWAIT) == 1;
}

int main(void)
{
	rr_time end = rr_now() + TIME;
	unsigned lag = 0, armed = 0, i;
	struct rr_wc wc;
	pthread_t t;

	shm_pair_open(&p, 4);
	pthread_create(&t, NULL, sender, NULL);
	for (i = 1; i <= ROUNDS && rr_now() < end; i++) {
		int rc;

		atomic_store_explicit(&go, i, memory_order_release);
		delay(lag);
		rc = ops->arm(p.s, RR_ARM_RECV);
		wait_for(&kicked, i);
		if (rc == 0 && !swallow_bell()) {
			fprintf(stderr, "round %u: armed, and nobody rang\n", i);
			return 1;
		}
		/* keeps the two as close as they can be */
		armed += rc == 0;
		lag = rc == 0 ? lag + 1 : lag - (lag > 0);
		swallow_bell();
		ops->disarm(p.s);
		if (ops->poll(p.s, &wc, 1) != 1)
			abort();
		ops->repost(p.s, wc.cookie);
	}
	atomic_store_explicit(&go, UINT_MAX, memory_order_release);
	pthread_join(t, NULL);
	shm_pair_close(&p);
	printf("%u rounds, %u times armed before the send\n", i - 1, armed);
	return 0;
}
