/* SPDX-License-Identifier: BSD-3-Clause */

/* Makes an engine: how much of everything its parameters require, where that lies in the memory
 * that it was given, and what it speaks at the start. The opening may change the latter
 * (agree.c). */

#include "core/engine/engine_int.h"

struct sizes {
	uint32_t calls, serves, ins, txs, ops, serve_segs, in_segs;
};

/* The credits that we ask for as requester, which the peer's half grants: the forward ones for
 * the side that has connected, the reverse ones for the other. */
/* req: slides - #4; version-two-08 1 #1 */
static uint32_t asked_of(const struct rr_eng_params *p)
{
	return p->connector ? p->credits : p->bc_credits;
}

static uint32_t granted_of(const struct rr_eng_params *p)
{
	return p->connector ? p->bc_credits : p->credits;
}

/* req: rfc8166 3.3.1 #3 #4; slides - #5; draft-02 6 #1, 3.8 #2 */
uint32_t rr_eng_recvs(const struct rr_eng_params *p)
{
	const struct rr_traits *t = rr_traits_of(rr_codec_first(p->dialect));
	bool pulls = (p->caps & RR_CAP_RELIABLE_REPLY) || t->read_replies;

	/* The word of an opening comes when no other control message does, so it counts as one
	 * of those. */
	return p->credits + p->bc_credits + (pulls ? RR_ENG_SHOWN : 0) + RR_ENG_CONTROL;
}

/* The receives for control messages stay; the others are shared in the proportion of the
 * credits, with one for the reverse direction at least. */
void rr_eng_fit(struct rr_eng_params *p, uint32_t recvs)
{
	uint32_t all = p->credits + p->bc_credits, others = rr_eng_recvs(p) - all;
	uint32_t left = rr_max(recvs, others + 2) - others;

	if (all <= left)
		return;
	p->bc_credits = rr_max(left * p->bc_credits / all, 1u);
	p->credits = left - p->bc_credits;
}

static uint32_t bounded(uint32_t n)
{
	return rr_min(n, RR_TABLE_MAX);
}

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

/* With ring credits no grant limits the calls without reply; see requester.c. */
static void table_sizes(const struct rr_eng_params *p, struct sizes *s)
{
	bool ring = p->caps & RR_CAP_RING_CREDITS;
	uint32_t recvs = p->recvs ? p->recvs : rr_eng_recvs(p);
	uint32_t max_segs = rr_min(p->max_segs, RR_OP_MAX_SEGS);

	s->calls = bounded(rr_max(asked_of(p), ring ? 16u : 1u));
	/* Strict: each message that is being pulled has one until its head shows what it is. */
	s->serves = bounded(granted_of(p) + (ring ? 64u : asked_of(p) + 16u));
	s->ins = bounded(2 * rr_min(recvs, RR_TABLE_MAX) + RR_ENG_SHOWN + 16);
	s->txs = bounded(s->calls + s->serves + 16);
	s->ops = pow2(4 * (s->calls + s->serves + s->ins + s->txs + RR_ENG_SHOWN));
	s->serve_segs = rr_min(rr_min(p->max_chunks, RR_MAX_SEGS) * max_segs, RR_MAX_SEGS);
	s->in_segs = rr_min(rr_min(p->max_chunks, RR_MAX_SEGS) * max_segs, RR_OP_MAX_SEGS);
}

/* A piece of n bytes on cache lines of its own. With base NULL only *off counts. */
static void *carve(uint8_t *base, size_t *off, size_t n)
{
	void *at = (void *)((uintptr_t)base + *off);	/* without base nobody looks at it */

	*off += rr_align(n, (size_t)RR_CACHELINE);
	return at;
}

static void carve_table(struct rr_table *table, uint8_t *base, size_t *off, uint32_t n,
			size_t size)
{
	table->n = (uint16_t)n;
	table->stride = (uint32_t)rr_align(size, (size_t)16);
	table->base = carve(base, off, (size_t)n * table->stride);
}

static void carve_map(struct rr_xmap *map, uint8_t *base, size_t *off, uint32_t n)
{
	uint32_t heads = pow2(2 * n + 2);

	map->heads = carve(base, off, heads * sizeof(*map->heads));
	map->bits = (uint32_t)__builtin_ctz(heads);
}

/* Lays the tables out behind the engine at base, first those that plain messages use (plain.c).
 * If base is NULL only the size matters. */
static size_t lay_out_tables(struct rr_eng_tables *t, uint8_t *base,
			     const struct rr_eng_params *p)
{
	struct sizes s;
	size_t off = 0;

	table_sizes(p, &s);
	carve(base, &off, sizeof(struct rr_eng));
	carve_map(&t->call_map, base, &off, s.calls);
	carve_table(&t->calls, base, &off, s.calls, sizeof(struct rr_call));
	t->tmp = carve(base, &off, sizeof(*t->tmp));
	carve_table(&t->serves, base, &off, s.serves,
		   sizeof(struct rr_serve) + s.serve_segs * sizeof(struct rr_seg));
	carve_map(&t->serve_map, base, &off, s.serves);
	carve_table(&t->shown, base, &off, RR_ENG_SHOWN, sizeof(struct rr_shown));
	carve_table(&t->ins, base, &off, s.ins,
		   sizeof(struct rr_in) + s.in_segs * sizeof(struct rr_seg));
	carve_table(&t->txs, base, &off, s.txs, sizeof(struct rr_out));
	t->ops = carve(base, &off, s.ops * sizeof(*t->ops));
	t->ops_cap = s.ops;
	t->in_segs = s.in_segs;
	return off;
}

size_t rr_eng_size(const struct rr_eng_params *p)
{
	struct rr_eng_tables t = { 0 };

	return lay_out_tables(&t, NULL, p);
}

/* Version 1 has no opening: whoever upgraded the connection has agreed on what there is (RFC
 * 8166 §4.6.2). */
static void agreed_before(struct rr_eng *e)
{
	bool reliable = e->p.caps & RR_CAP_RELIABLE_REPLY && e->traits->reliable;

	rr_eng_agreed(e, reliable, reliable || rr_eng_may_reverse(e));
	e->reverse_reads = e->reliable;
}

/* mem is all zeroes, which is also what "empty" means for each table. */
struct rr_eng *rr_eng_init(void *mem, const struct rr_eng_params *p, rr_time now)
{
	const struct rr_codec *codec = rr_codec_first(p->dialect);
	struct rr_eng *e = mem;

	if (!codec)
		return NULL;
	lay_out_tables(&e->tables, mem, p);
	e->p = *p;
	e->p.max_segs = rr_min(p->max_segs, RR_OP_MAX_SEGS);
	e->p.max_chunks = rr_min(p->max_chunks, RR_MAX_SEGS);
	e->p.inline_peer = p->inline_peer ? p->inline_peer : p->inline_recv;
	e->count = p->count;
	e->now = now;
	e->ring = e->paced = p->caps & RR_CAP_RING_CREDITS;
	e->reads_max = p->pulls;
	e->mute = asked_of(p) == 0 && !e->ring;
	e->retry_at = RR_TIME_NEVER;
	rr_credits_reset(&e->cr, asked_of(p));
	rr_eng_speak(e, codec, rr_traits_of(codec));
	rr_pad_to(e, p->pad_align);
	if (e->traits->opening != &rr_opening_ccp)
		e->p.ccp_prog = 0;
	e->grant_min = e->traits->read_replies && !p->connector ? 2 : 1;
	e->grant_max = e->requested = rr_max(granted_of(p), e->grant_min);
	if (e->traits->opening)
		rr_eng_agreed(e, false, false);
	else
		agreed_before(e);
	rr_open_begin(e);
	return e;
}
