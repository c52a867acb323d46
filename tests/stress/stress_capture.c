/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that write packets of many sizes, and a reader in another thread that comes, reads, leaves and comes again:
 * what is read is whole, each thread's packets come in order, and of what was said every packet was read or dropped. */

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "preload/rawos.h"
#include "tests/lib/cap_reader.h"
#include "core/base/os.h"

enum { WRITERS = 3, MOST = 3000, TURNS = 8 };

static struct rr_cap_desk desk;
static const struct rr_cap_ends ends;
static _Atomic bool stop;
static _Atomic uint64_t taken;
static uint64_t heard, lost;

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static void *writer(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg;
	unsigned seed = me;
	uint8_t b[MOST];

	for (uint32_t i = 1; !atomic_load(&stop); i++) {
		uint32_t n = (uint32_t)rand_r(&seed) % MOST;
		struct rr_cap_pen p = { .kind = RR_CAP_RECORD, .len = n, .recv_size = me, .send_size = i, .ends = &ends };

		memset(b, (int)(me + i), n);
		if (!rr_cap_asked() || !rr_cap_begin(&p))
			continue;
		rr_cap_put(&p, b, n);
		rr_cap_end(&p, true);
		atomic_fetch_add(&taken, 1);
	}
	return NULL;
}

static void check(const struct rr_cap_packet *h, const uint8_t *b, uint64_t *last)
{
	if (!h->recv_size || h->recv_size > WRITERS || h->kind != RR_CAP_RECORD || h->len >= MOST || h->captured != h->len)
		fail("a packet's head is torn");
	for (uint32_t i = 0; i < h->captured; i++)
		if (b[i] != (uint8_t)(h->recv_size + h->send_size))
			fail("a packet is torn");
	if (h->send_size <= last[h->recv_size - 1])
		fail("a thread's packets are out of order");
	last[h->recv_size - 1] = h->send_size;
}

static void drain(struct cap_reader *r, uint64_t *last)
{
	struct rr_cap_packet h;
	uint8_t b[MOST];

	while (cap_take(r, &h, b, sizeof(b))) {
		check(&h, b, last);
		heard++;
	}
}

static void await(uint32_t number)
{
	while (atomic_load_explicit(&desk.given, memory_order_acquire) != number) {
		/* a capture that ended meanwhile has taken the wish with it */
		if (!atomic_load(&desk.ask))
			cap_ask(&desk, number, 16);
		rr_relax();
	}
}

static void turn(uint32_t number)
{
	uint64_t last[WRITERS] = { 0 };
	struct cap_reader r;

	cap_ask(&desk, number, 16);
	await(number);
	cap_attach(&r, &desk);
	for (int i = 0; i < 2000; i++)
		drain(&r, last);
	atomic_store(&r.ring->open, number % 2 ? 2 : 1);
	if (number % 2 == 0)
		cap_die(&r);
	while (!atomic_load(&r.ring->ended))
		drain(&r, last);
	drain(&r, last);
	lost += atomic_load(&r.ring->dropped);
	munmap(r.ring, (size_t)RR_CAP_HEAD + r.ring->size);
	if (r.fd >= 0)
		cap_die(&r);
}

int main(void)
{
	pthread_t t[WRITERS];

	rr_os = &rr_raw_os;
	rr_cap_own(&desk);
	for (uintptr_t i = 0; i < WRITERS; i++)
		pthread_create(&t[i], NULL, writer, (void *)(i + 1));
	for (uint32_t n = 1; n <= TURNS; n++)
		turn(n);
	atomic_store(&stop, true);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(t[i], NULL);
	if (!heard || heard > atomic_load(&taken))
		fail("nothing was heard, or more than was said");
	printf("%llu packets read, %llu taken, %llu dropped\n", (unsigned long long)heard,
	       (unsigned long long)atomic_load(&taken), (unsigned long long)lost);
	return 0;
}
