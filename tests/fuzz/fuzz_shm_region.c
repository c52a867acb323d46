/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that writes anything anywhere in the shared regions, between our calls on them. The
 * input is a program: an op per byte, its operands after it, zeroes past the end. */
#include "core/base/os.h"
#include "core/prov/shm/shm_int.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)

struct prog {
	const uint8_t *p;
	size_t len;
};

static struct shm_pair pair;
static struct rr_shm *us;
static uint32_t handle;

static uint32_t get(struct prog *g, unsigned bytes)
{
	uint32_t v = 0;

	for (; bytes; bytes--) {
		v = v << 8 | (g->len ? *g->p : 0);
		if (g->len) {
			g->p++;
			g->len--;
		}
	}
	return v;
}

static void note(int rc)
{
	fuzz_check(rc >= -4095 && rc <= 16);
}

/* Any word, but the one that makes us wait for a copy. */
static void poke_word(struct prog *g)
{
	struct rr_shm_view *v = get(g, 1) & 1 ? &us->own : &us->peer;
	size_t at = get(g, 2) * sizeof(uint32_t) % v->geo.mem_off;

	if (at != offsetof(struct rr_shm_ctl, accessing))
		atomic_store((_Atomic uint32_t *)(void *)((char *)v->berth.at + at), get(g, 4));
}

/* A record near where we look next. */
static void poke_slot(struct prog *g)
{
	uint32_t pos = atomic_load(&us->rx_pos) + get(g, 1) % 16, how = get(g, 1);
	struct rr_shm_slot *s = rr_shm_slot(&us->own, pos);

	atomic_store(&s->len, get(g, 4));
	atomic_store(&s->arg, how & 1 ? handle : get(g, 4));
	atomic_store(how & 2 ? &s->skip : &s->seq,
		     how & 4 ? get(g, 4) : rr_shm_seq(pos + (how >> 3) * us->own.geo.slots));
}

static void receive(struct prog *g)
{
	struct rr_wc wc[4];
	int n = ops->poll(pair.c, wc, 1 + (int)get(g, 1) % 4);
	bool keep = get(g, 1) & 1;

	note(n);
	for (int i = 0; i < n; i++) {
		fuzz_check(wc[i].op == RR_WC_RECV && wc[i].len <= pair.c->recv_size);
		fuzz_check(wc[i].buf >= (uint8_t *)us->own.ring && wc[i].buf + wc[i].len <= us->own.mem);
		if (!keep)
			ops->repost(pair.c, wc[i].cookie);
	}
	fuzz_check(us->rx_held <= pair.c->recvs);
}

static void send_one(struct prog *g)
{
	size_t len = get(g, 2) % (pair.c->send_size + 2u);
	uint8_t *b = calloc(1, len + 1);
	struct iovec iov = { b, len };

	note(ops->send(pair.c, &iov, 1, 0, get(g, 1) & 1 ? handle : 0));
	fuzz_check(ops->window(pair.c) <= pair.c->peer_recvs);
	free(b);
}

static void poke_key(struct prog *g)
{
	struct rr_shm_key *k = &us->peer.keys[get(g, 1)];

	atomic_store(&k->handle, get(g, 2));
	atomic_store(&k->rights, get(g, 1));
	atomic_store(&k->offset, (uint64_t)get(g, 4) << 32 | get(g, 4));
	atomic_store(&k->length, get(g, 4));
}

static void copy(struct prog *g)
{
	bool write = get(g, 1) & 1;
	struct rr_seg seg = { .handle = get(g, 2), .length = get(g, 4) };
	uint32_t len = get(g, 2), off;
	uint8_t *b = calloc(1, len + 1);
	int rc;

	seg.offset = (uint64_t)get(g, 4) << 32 | get(g, 4);
	off = get(g, 4);
	rc = write ? ops->write(pair.c, b, len, &seg, off, 0) :
		ops->read(pair.c, b, len, &seg, off, 0);
	note(rc);
	if (rc == 1)
		fuzz_check(seg.offset + off <= us->peer.geo.mem_size &&
			   len <= us->peer.geo.mem_size - (seg.offset + off));
	free(b);
}

static void expose(struct prog *g)
{
	struct rr_seg seg;

	if (ops->expose(pair.c, pair.c->mem + get(g, 2), get(g, 2), RR_RIGHT_READ, &seg) == 0)
		handle = seg.handle;
}

static void sleep_a_bit(void)
{
	ops->peek(pair.c, RR_ARM_RECV | RR_ARM_SEND);
	ops->kick(pair.c);
	note(ops->arm(pair.c, RR_ARM_RECV | RR_ARM_SEND));
	note(ops->drain(pair.c));
}

/* The peer as it should be. */
static void honest(struct prog *g)
{
	struct rr_wc wc;

	ops->send_imm(pair.s, get(g, 1), 0);
	if (ops->poll(pair.s, &wc, 1) == 1)
		ops->repost(pair.s, wc.cookie);
}

static void step(struct prog *g)
{
	switch (get(g, 1) % 10) {
	case 0: poke_word(g); break;
	case 1: poke_slot(g); break;
	case 2: receive(g); break;
	case 3: send_one(g); break;
	case 4: poke_key(g); break;
	case 5: copy(g); break;
	case 6: expose(g); break;
	case 7: note(ops->invalidate(pair.c, handle, 0)); break;
	case 8: sleep_a_bit(); break;
	case 9: honest(g); break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct prog g = { data, len };

	shm_pair_open(&pair, 5);
	us = container_of(pair.c, struct rr_shm, qp);
	handle = 0;
	while (g.len)
		step(&g);
	shm_pair_close(&pair);
	return 0;
}
