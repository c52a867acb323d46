/* SPDX-License-Identifier: BSD-3-Clause */
/* hostile client PORT SEED SECONDS | hostile server PORT SEED: a peer that upgrades and speaks as any other,
 * by the library's own code, while a second thread overwrites the memory that both ends share, as fast as it
 * can: control words, keys, slots, headers, bodies, and whole pages (MADV_REMOVE).
 *
 * What is overwritten on connection n, and with what, follows from SEED + n; only how far the ends have come
 * by then is the scheduler's. A server ends on SIGTERM. The last line on stdout says how much there was and
 * which seed the last connection had. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/conn/enter.h"
#include "core/prov/shm/shm_int.h"
#include "tests/lib/bytes.h"
#include "tests/lib/connpair.h"
#include "tests/lib/rpc.h"

#define BODY_MAX	100000u
#define PATIENCE_MS	50	/* that a call waits for its reply: the peer may have lost the connection */

static uint64_t seed;		/* of the connection that is spoken on now */
static unsigned long connections, carried, calls, replies;
static volatile sig_atomic_t over;

/* --- what is overwritten --- */

/* "Ours" is what this process may write by the protocol, "theirs" what the peer alone should. A class that the
 * peer need not notice comes first: its connections live long and get deep. */
enum kind {
	ACCESSING,	/* in both control pages */
	ARMED,
	CONSUMED,	/* in the keys of both */
	BODIES,		/* of messages, transport headers among them, in both rings */
	CHUNKS,		/* memory that keys name */
	HARMLESS,	/* those above */
	WINDOW = HARMLESS,	/* reposted, tail, freed[] */
	KEYS,		/* handle, rights, offset, length */
	SLOTS,		/* seq, len, arg, skip */
	ANY_WORD,		/* any word before the rings */
	PAGES,		/* MADV_REMOVE */
	KINDS
};
static const char *const names[KINDS] = {
	"accessing", "armed", "consumed", "bodies", "chunks", "window", "keys", "slots", "words", "pages",
};
static unsigned long done[KINDS];

struct mutator {
	struct rr_shm_view view[2];	/* mappings of this file's own: the library may unmap its own at any time */
	uint8_t plan[8];		/* enum kind; as many as there are, some twice */
	unsigned nap_every;		/* mutations; 0 never */
	uint64_t rng;
	sem_t go, stopped;
	_Atomic bool stop;
};
static struct mutator mut;

static void put_word(void *at, uint32_t v)
{
	atomic_store_explicit((_Atomic uint32_t *)at, v, memory_order_relaxed);
}

/* Mostly a word that could pass where it is written: near is a position or a number that is true now. */
static uint32_t evil(uint64_t r, uint32_t near)
{
	uint32_t n = (uint32_t)(r >> 8);

	switch (r & 7) {
	case 0: return n;
	case 1: return 0;
	case 2: return near + n % 64;
	case 3: return near - n % 64;
	case 4: return rr_shm_seq(near + n % 256);
	case 5: return n % 5000;
	case 6: return RR_SHM_INV | n % 4096;
	default: return UINT32_MAX - n % 16;
	}
}

static uint32_t any_handle(const struct rr_shm_view *v, uint64_t r)
{
	struct rr_shm_key *k = &v->keys[r >> 20 & (r & 1 ? 3 : RR_SHM_KEYS - 1)];

	return atomic_load_explicit(&k->handle, memory_order_relaxed);
}

/* A position near which the next messages lie. */
static uint32_t tail_of(const struct rr_shm_view *v)
{
	return atomic_load_explicit(&v->ctl->tail, memory_order_relaxed);
}

static void hit_window(struct rr_shm_view *v, uint64_t r, uint64_t w)
{
	uint32_t back = atomic_load_explicit(&v->ctl->reposted, memory_order_relaxed);

	switch (r >> 4 & 3) {
	case 0: put_word(&v->ctl->reposted, evil(w, back)); break;
	case 1: put_word(&v->ctl->tail, evil(w, tail_of(v))); break;
	default: put_word(&v->freed[r >> 20 & (v->geo.slots - 1)], evil(w, back));
	}
}

static void hit_key(struct rr_shm_view *v, uint64_t r, uint64_t w)
{
	struct rr_shm_key *k = &v->keys[r >> 20 & (r & 1 ? 3 : RR_SHM_KEYS - 1)];

	switch (r >> 4 & 3) {
	case 0: put_word(&k->handle, evil(w, any_handle(v, r))); break;
	case 1: put_word(&k->rights, (uint32_t)w & 3); break;
	case 2: atomic_store_explicit(&k->offset, w >> (r >> 40 & 63), memory_order_relaxed); break;
	default: put_word(&k->length, evil(w, BODY_MAX));
	}
}

static void hit_slot(struct rr_shm_view *v, uint64_t r, uint64_t w)
{
	uint32_t tail = tail_of(v), most = r >> 28 & 1 ? 8 : 64;
	struct rr_shm_slot *s = rr_shm_slot(v, (r >> 29 & 1 ? tail : 0) + (uint32_t)(r >> 20) % most);

	switch (r >> 4 & 3) {
	case 0: put_word(&s->seq, evil(w, tail)); break;
	case 1: put_word(&s->len, evil(w, v->geo.recv_size) | (w >> 60 & 1 ? RR_SHM_LAST : 0u)); break;
	case 2: put_word(&s->arg, w & 1 ? any_handle(v, r) : evil(w, tail)); break;
	default: put_word(&s->skip, evil(w, tail));
	}
}

static void hit_body(struct rr_shm_view *v, uint64_t r, uint64_t w)
{
	uint32_t pos = (uint32_t)(r >> 20);
	bool in_slot = r & 3;
	/* The header's words are at the front. */
	uint32_t at = (uint32_t)(r >> 40) % (r & 4 ? 120 : in_slot ? RR_SHM_SHORT : v->geo.recv_size) & ~3u;

	put_word((in_slot ? rr_shm_slot(v, pos)->data : rr_shm_long(v, pos)) + at, w & 1 ? htonl(evil(w >> 1, 1)) : (uint32_t)w);
}

static void hit_chunk(struct rr_shm_view *v, uint64_t r, uint64_t w)
{
	/* The pool gives out low addresses first. */
	uint64_t span = r & 3 ? 1u << 18 : v->geo.mem_size;

	put_word(v->mem + (r >> 4) % span / 4 * 4, w & 1 ? htonl(evil(w >> 1, 1)) : (uint32_t)w);
}

static void hit_pages(struct rr_shm_view *v, uint64_t r, uint64_t w)
{
	size_t at = (r >> 8) % (v->geo.total / RR_PAGE), n = 1 + w % (r & 1 ? 4 : v->geo.total / RR_PAGE);

	if (r & 2)
		at %= 64;
	n = rr_min(n, v->geo.total / RR_PAGE - at);
	madvise((uint8_t *)v->berth.at + at * RR_PAGE, n * RR_PAGE, MADV_REMOVE);
}

static void mutate(struct mutator *m)
{
	uint64_t r = rng_next(&m->rng), w = rng_next(&m->rng);
	enum kind kind = m->plan[r >> 60 & 7];
	struct rr_shm_view *v = &m->view[r >> 3 & 1];

	r >>= 4;
	/* One system call costs as much as many words. */
	if (kind == PAGES && w >> 56)
		kind = CHUNKS;
	done[kind]++;
	switch (kind) {
	case ACCESSING: put_word(&v->ctl->accessing, r & 7 ? any_handle(v, r) : evil(w, 0)); break;
	case ARMED: put_word(&v->ctl->armed, r & 7 ? (uint32_t)w & 3 : (uint32_t)w); break;
	case CONSUMED: put_word(&v->keys[r >> 20 & 3].consumed, any_handle(v, r)); break;
	case BODIES: hit_body(v, r, w); break;
	case CHUNKS: hit_chunk(v, r, w); break;
	case WINDOW: hit_window(v, r, w); break;
	case KEYS: hit_key(v, r, w); break;
	case SLOTS: hit_slot(v, r, w); break;
	case PAGES: hit_pages(v, r, w); break;
	default: put_word((uint32_t *)v->berth.at + (r >> 4) % (v->geo.ring_off / 4), evil(w, 8));
	}
}

/* SIGTERM may interrupt it. */
static void await(sem_t *s)
{
	while (sem_wait(s))
		;
}

static void *mutator_thread(void *arg)
{
	struct mutator *m = arg;

	for (;;) {
		await(&m->go);
		for (unsigned n = 1; !atomic_load_explicit(&m->stop, memory_order_relaxed); n++) {
			mutate(m);
			if (m->nap_every && n % m->nap_every == 0)
				usleep(50);
		}
		sem_post(&m->stopped);
	}
	return NULL;
}

/* A second mapping of the same memory. */
static bool map_again(struct rr_shm_view *v, const struct rr_shm_view *of)
{
	ptrdiff_t by;

	*v = *of;
	v->berth.at = mremap(of->berth.at, 0, of->geo.total, MREMAP_MAYMOVE);
	if (v->berth.at == MAP_FAILED)
		return false;
	by = (uint8_t *)v->berth.at - (uint8_t *)of->berth.at;
	v->ctl = v->berth.at;
	v->freed = (void *)((uint8_t *)of->freed + by);
	v->keys = (void *)((uint8_t *)of->keys + by);
	v->ring = (void *)((uint8_t *)v->ring + by);
	v->longs += by;
	v->mem += by;
	return true;
}

static void make_plan(struct mutator *m)
{
	static const unsigned naps[] = { 0, 0, 0, 1, 16, 256, 4096, 65536 };
	uint32_t first = rng_below(&m->rng, KINDS), how = rng_below(&m->rng, 3);

	for (unsigned i = 0; i < rr_array_size(m->plan); i++)
		m->plan[i] = (uint8_t)(how == 0 ? first :	/* one kind alone */
				       rng_below(&m->rng, how == 1 ? KINDS : HARMLESS));
	m->nap_every = naps[rng_below(&m->rng, rr_array_size(naps))];
}

static bool begin_mutating(struct rr_conn *c)
{
	struct rr_shm *q;

	if (!rr_conn_is_carried(c))
		return false;
	q = rr_shm_of(c->share->qp);
	if (!map_again(&mut.view[0], &q->own) || !map_again(&mut.view[1], &q->peer))
		exit(2);
	carried++;
	mut.rng = seed;
	make_plan(&mut);
	atomic_store(&mut.stop, false);
	sem_post(&mut.go);
	return true;
}

static void end_mutating(void)
{
	atomic_store(&mut.stop, true);
	await(&mut.stopped);
	for (int i = 0; i < 2; i++)
		munmap(mut.view[i].berth.at, mut.view[i].geo.total);
}

/* --- what is said meanwhile --- */

static uint8_t record[BODY_MAX + 64];

static bool wait_a_bit(int *tries)
{
	usleep(100);
	return ++*tries < PATIENCE_MS * 10 && !over;
}

static bool say(struct rr_end *e, size_t len)
{
	int tries = 0;

	for (size_t at = 0; at < len;) {
		ssize_t n = rr_end_try_send(e, record + at, len - at);

		if (n > 0)
			at += (size_t)n;
		else if (n != -EAGAIN || !wait_a_bit(&tries))
			return false;
	}
	return true;
}

/* A whole record into record[] behind its mark: its bytes without that, or 0. */
static size_t hear(struct rr_end *e)
{
	size_t at = 0, want = 4;
	int tries = 0;

	while (at < want) {
		ssize_t n = rr_end_try_recv(e, record + at, want - at, 0);

		if (n > 0) {
			at += (size_t)n;
			if (at == 4 && want == 4)
				want += ntohl(*(uint32_t *)(void *)record) & ~RR_RM_LAST;
			if (want > sizeof(record))
				return 0;
		} else if (n != -EAGAIN || !wait_a_bit(&tries)) {
			return 0;
		}
	}
	return at - 4;
}

static size_t put_call(uint64_t *rng, uint32_t xid)
{
	static const uint32_t sizes[] = { 0, 100, 1000, 3000, 5000, 20000, BODY_MAX };
	uint32_t body = sizes[rng_below(rng, rr_array_size(sizes))];
	uint32_t n = WORDS(record + 4, xid, 0, 2, 0x20000001, 1, 0, 0, 0, 0, 0);

	memset(record + 4 + n, (int)xid, body);
	rr_put_be32(record, RR_RM_LAST | (n + body));
	return 4 + n + body;
}

static bool call(struct rr_end *e, uint64_t *rng, uint32_t xid)
{
	uint32_t batch = rng_below(rng, 8) ? 1 : 1 + rng_below(rng, 40), i;

	for (i = 0; i < batch; i++) {
		if (!say(e, put_call(rng, xid + i)))
			return false;
		calls++;
	}
	for (i = rng_below(rng, 16) ? 0 : batch / 2; i < batch; i++) {	/* some replies nobody reads */
		if (!hear(e))
			return false;
		replies++;
	}
	return true;
}

static bool answer(struct rr_end *e)
{
	size_t n = hear(e);
	uint32_t body = n > 40 ? (uint32_t)n - 40 : 0;

	if (n < 40)
		return false;
	calls++;
	memmove(record + 28, record + 44, body);
	WORDS(record + 8, 1, 0, 0, 0, 0);
	rr_put_be32(record, RR_RM_LAST | (24 + body));
	if (!say(e, 28 + body))
		return false;
	replies++;
	return true;
}

/* One connection: honest until it is carried, honest in what it says ever after. */
static void speak(struct rr_end *e, bool server)
{
	uint64_t rng = seed ^ 0x5eed;
	uint32_t rounds = 1 + rng_below(&rng, 100), i = 0;
	bool on, mutating;

	connections++;
	for (on = true; on && !rr_conn_is_carried(e->c) && i < 3; i++)
		on = server ? answer(e) : call(e, &rng, i * 64);
	mutating = on && begin_mutating(e->c);
	for (; on && mutating && i < rounds && !over; i++)
		on = server ? answer(e) : call(e, &rng, i * 64);
	/* Not all ends are orderly ones. */
	if (!on && rng_below(&rng, 2)) {
		struct linger now = { 1, 0 };

		setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	}
	if (mutating && rng_below(&rng, 2)) {
		end_mutating();
		mutating = false;
	}
	rr_end_close(e);
	if (mutating)
		end_mutating();
}

/* --- the two roles --- */

/* Other sizes than the peer's, too. */
static void pick_parameters(void)
{
	static const uint32_t sizes[] = { 1024, 4096, 16384 }, credits[] = { 4, 32, 128 };
	uint64_t rng = seed ^ 0xc0f;

	rr_test_params.inline_size = sizes[rng_below(&rng, 3)];
	rr_test_params.eng.credits = credits[rng_below(&rng, 3)];
	rr_test_params.memory = 1u << (20 + rng_below(&rng, 5));
}

static void as_client(const struct sockaddr_in *to)
{
	struct rr_end e = { .fd = rpc_connect(to) };

	if (e.fd < 0) {
		fprintf(stderr, "hostile: seed %llu: connect: %s\n", (unsigned long long)seed - 1, strerror(errno));
		exit(3);
	}
	e.c = rr_conn_client(e.fd, (const struct sockaddr *)to, sizeof(*to));
	speak(&e, false);
}

static int ended[2];	/* a pipe, readable from SIGTERM on: a wait that is about to begin sees it, too */

static void stop_it(int sig)
{
	(void)sig;
	over = 1;
	if (write(ended[1], "", 1) != 1)
		_exit(2);
}

static void as_server(int listener)
{
	struct pollfd p[2] = { { .fd = listener, .events = POLLIN }, { .fd = ended[0], .events = POLLIN } };
	struct rr_end e = { .fd = -1 };

	if (poll(p, 2, -1) > 0 && p[0].revents)
		e.fd = accept(listener, NULL, NULL);
	if (e.fd < 0)
		return;
	e.c = rr_conn_server(e.fd);
	speak(&e, true);
}

static int report(uint64_t last)
{
	unsigned long all = 0;

	for (unsigned i = 0; i < KINDS; i++)
		all += done[i];
	printf("mutations %lu connections %lu carried %lu calls %lu replies %lu seed %llu", all, connections,
	       carried, calls, replies, (unsigned long long)last);
	for (unsigned i = 0; i < KINDS; i++)
		printf(" %s %lu", names[i], done[i]);
	putchar('\n');
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a;
	bool server = argc == 4 && !strcmp(argv[1], "server");
	struct sigaction sa = { .sa_handler = stop_it };
	uint64_t first;
	time_t end = 0;
	pthread_t t;
	int fd = -1;

	if (!server && (argc != 5 || strcmp(argv[1], "client")))
		return 64;
	a = rpc_address("127.0.0.1", atoi(argv[2]));
	first = strtoull(argv[3], NULL, 0);
	if (pipe(ended))
		return 2;
	sigaction(SIGTERM, &sa, NULL);
	rr_test_params.program = 0x2052444d;	/* the default of option program */
	rr_test_params.negative_time = 0;
	rr_test_setup();
	sem_init(&mut.go, 0, 0);
	sem_init(&mut.stopped, 0, 0);
	if (pthread_create(&t, NULL, mutator_thread, &mut))
		return 2;
	if (server && (fd = rpc_listen(&a)) < 0)
		return 2;
	if (!server)
		end = time(NULL) + atoi(argv[4]);
	for (seed = first; !over && (server || time(NULL) < end); seed++) {
		pick_parameters();
		if (server)
			as_server(fd);
		else
			as_client(&a);
	}
	return report(seed - 1);
}
