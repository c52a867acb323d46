/* SPDX-License-Identifier: BSD-3-Clause */
/* Lookups against churning give and take on a few numbers. What a lookup gives must be alive, hold
 * still, and be the socket of that number. */

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/file.h"
#include "tests/lib/fdtable_fakes.h"

enum { NUMBERS = 4, FIRST = 600, READERS = 3, ROUNDS = 60000 };

static int anchor;
static _Atomic bool stop;
static _Atomic long hits, wrong;

/* The number goes into flags before the socket is given, so a reader can tell. */
static void *churn(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct rr_file *f;
	bool last;

	for (int i = 0; i < ROUNDS; i++) {
		int fd = FIRST + rand_r(&seed) % NUMBERS;
		struct rr_sock *so;

		if (rand_r(&seed) & 1) {
			so = rr_sock_new(anchor);
			assert(so);
			atomic_store_explicit(&so->flags, (uint32_t)fd << 8, memory_order_relaxed);
			rr_fdt_give(fd, &so->f);
		} else {
			f = rr_fdt_take(fd, &last);
			if (f)
				rr_file_put(f);
		}
	}
	return NULL;
}

static void *look(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	while (!atomic_load(&stop)) {
		int fd = FIRST + rand_r(&seed) % NUMBERS;
		struct rr_sock *so = rr_fdt_sock(fd);

		if (!so)
			continue;
		hits++;
		if (atomic_load_explicit(&so->flags, memory_order_relaxed) != (uint32_t)fd << 8 ||
		    !atomic_load(&so->f.refs))
			wrong++;
		rr_file_put(&so->f);
	}
	return NULL;
}

int main(void)
{
	pthread_t readers[READERS], writers[2];
	int left = 0;
	bool last;

	anchor = socket(AF_INET, SOCK_STREAM, 0);
	for (uintptr_t i = 0; i < READERS; i++)
		pthread_create(&readers[i], NULL, look, (void *)(i + 1));
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&writers[i], NULL, churn, (void *)(i + 100));
	for (int i = 0; i < 2; i++)
		pthread_join(writers[i], NULL);
	stop = true;
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	for (int fd = FIRST; fd < FIRST + NUMBERS; fd++) {
		struct rr_file *f = rr_fdt_take(fd, &last);

		if (!f)
			continue;
		left++;
		if (!last || atomic_load(&f->refs) != 1)
			wrong++;
		rr_file_put(f);
	}
	printf("%ld hits, %ld wrong, %d left at the end\n", (long)hits, (long)wrong, left);
	close(anchor);
	return wrong || !hits ? 1 : 0;
}
