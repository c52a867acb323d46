/* SPDX-License-Identifier: BSD-3-Clause */
/* req: rfc8166 3.3.1 #3 #4, 4.6.1 #1 */

/* Two apps that are client and server of each other, over two engines and the fake
 * provider, under many seeds: every dialect, every size around the thresholds, both directions with
 * equal XIDs, replies in any order, calls that nobody answers, RDMA_DONEs that never come,
 * memory that runs short, a connection that is lost at any step.
 *
 *   sim_rpc              seeds from 1 on until SIM_RPCS of the environment are done, or else so many
 *                        RPCs as take about 40 seconds
 *   sim_rpc SEED         that one
 *   sim_rpc SEED COUNT   COUNT RPCs, seeds from SEED on */

#ifdef __SANITIZE_ADDRESS__
#define ENOUGH	"300000"
#else
#define ENOUGH	"1500000"
#endif

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/engine/reply_size.h"
#include "core/wire/ccp.h"
#include "tests/lib/twopeers.h"

#define PER_SEED	4000u
#define SERVING		256u

/* What is spoken, by the connecting side and by the other. */
static const struct speech {
	const char *name;
	enum rr_dialect dialect[2];
	bool reliable;		/* reliable replies may be agreed */
	bool general;		/* so may chunks in reverse calls */
	uint32_t hdr;		/* of a message without chunks */
	bool resends;		/* errors may be answered by sending the call again */
	bool native;		/* nothing was agreed: strict, and no reverse call before the peer has spoken */
} speeches[] = {
	{ .name = "v1", .dialect = { RR_DIALECT_V1, RR_DIALECT_V1 }, .hdr = 28,
	  .reliable = true, .general = true },
	{ .name = "v2", .dialect = { RR_DIALECT_V2, RR_DIALECT_V2 }, .hdr = 36,
	  .reliable = true, .general = true, .resends = true },
	{ .name = "v2 to v1", .dialect = { RR_DIALECT_V2, RR_DIALECT_V1 }, .hdr = 28,
	  .general = true, .native = true },
	{ .name = "draft02", .dialect = { RR_DIALECT_DRAFT02, RR_DIALECT_DRAFT02 }, .hdr = 28,
	  .reliable = true },
	{ .name = "slides", .dialect = { RR_DIALECT_SLIDES, RR_DIALECT_SLIDES }, .hdr = 28 },
};
#define SPEECHES rr_array_size(speeches)

struct app {
	uint32_t next_xid, ncalls;
	struct tp_msg todo[SERVING];	/* calls to be answered */
	uint32_t ntodo;
	struct tp_msg next[2];		/* by type: a message that was not taken yet */
	bool waiting[2];
};

struct run {
	struct tp *tp;
	const struct speech *sp;
	struct app app[2];
	bool heard;		/* who was connected to has had a message */
	uint32_t target, rpcs, never;
	uint32_t max_call[2], max_reply[2];	/* by side that sends it */
};

static uint32_t between(struct tp *tp, uint32_t lo, uint32_t hi)
{
	return lo >= hi ? lo : lo + (uint32_t)(tp_random(tp) % (hi - lo + 1));
}

static uint32_t pick(struct tp *tp, const uint32_t *of, uint32_t n)
{
	return of[tp_random(tp) % n];
}
#define PICK(tp, ...) pick((tp), (const uint32_t[]){ __VA_ARGS__ }, \
			   rr_array_size(((const uint32_t[]){ __VA_ARGS__ })))

/* --- a scenario from a seed ------------------------------------------------------------ */

static void scenario_engine(struct tp *rng, struct rr_eng_params *p, struct tp_conf *c)
{
	*p = (struct rr_eng_params){
		.credits = PICK(rng, 1, 2, 4, 16, 64),
		.bc_credits = PICK(rng, 1, 2, 8),
		.max_msg = 128 << 10,
		.max_chunks = 4, .max_segs = 8,
		.max_exposed = PICK(rng, 20000, 70000, 1 << 20),
		.done_timeout = 4 * RR_MSEC, .done_timeout_pressure = 2 * RR_MSEC,
	};
	if (c->link.ring)
		p->recvs = PICK(rng, 2, 3, 5, 16, 100);
}

/* Calls offer memory for their replies. */
static void scenario_offers(struct rr_eng_params *p, struct tp_conf *c, bool reliable)
{
	p->reply_chunk = 33000;
	p->reply_chunk_max = 128 << 10;
	p->reply_chunks = reliable ? RR_REPLY_CHUNKS_BOUNDED : RR_REPLY_CHUNKS_AUTO;
	p->done_timeout = 500 * RR_MSEC;
	c->mem_size = 4 << 20;	/* Reply chunks of unanswered calls stay */
	if (!reliable && c->link.ring)
		c->scarce = 0;	/* a call without its Reply chunk would be refused */
}

#define CCP_ROOM	356u	/* for headers, in what CCP says of a receive */

/* RDMA_MSGP and CCP. */
static void scenario_draft02(struct tp *rng, struct tp_conf *c)
{
	bool ccp = tp_random(rng) % 2;

	for (int i = 0; i < 2; i++) {
		struct rr_eng_params *p = &c->eng[i];

		p->pad_thresh = PICK(rng, 0, 1, 100, 1000);
		p->pad_align = PICK(rng, 0, 64, 100, 512);
		p->ccp_prog = ccp ? RR_CCP_PROG : 0;
		p->rdma_reads = PICK(rng, 1, 3, 16);
	}
}

/* Who is connected to has less room. */
static void scenario_smaller(struct tp_conf *c)
{
	struct rr_eng_params *p = c->eng;

	p[0].inline_send = p[1].inline_send = p[1].inline_recv = 1024;
	p[0].inline_peer = p[1].inline_peer = 1024;
}

static const struct speech *scenario(struct tp_conf *c, uint64_t seed)
{
	struct tp rng = { .rng = seed * UINT64_C(0x9e3779b97f4a7c15) | 1 };
	bool ring, reliable, general, invalidate, offers;
	const struct speech *sp;
	uint32_t size;

	for (int i = 0; i < 8; i++)
		tp_random(&rng);
	sp = &speeches[tp_random(&rng) % SPEECHES];
	ring = tp_random(&rng) % 2 && !sp->native;
	reliable = tp_random(&rng) % 3 > 0 && sp->reliable;
	general = (reliable || tp_random(&rng) % 2) && sp->general;
	*c = (struct tp_conf){
		.seed = seed, .mem_size = PICK(&rng, 1 << 20, 2 << 20),
		.link = { .ring = ring, .direct = tp_random(&rng) % 2, .reorder = tp_random(&rng) % 2,
			  .delay = PICK(&rng, 0, 3, 20) },
		.scarce = PICK(&rng, 0, 0, 20),
		.slow = PICK(&rng, 0, 30),
		.lose_done = PICK(&rng, 0, 0, 5),
		.quiet = PICK(&rng, 0, 10),
	};
	scenario_engine(&rng, &c->eng[0], c);
	scenario_engine(&rng, &c->eng[1], c);
	size = PICK(&rng, 1024, 4096);
	invalidate = tp_random(&rng) % 2;
	offers = !reliable || tp_random(&rng) % 4 == 0;
	c->resent = sp->resends && !ring && !reliable && tp_random(&rng) % 4;
	for (int i = 0; i < 2; i++) {
		struct rr_eng_params *p = &c->eng[i], *peer = &c->eng[!i];

		p->dialect = sp->dialect[i];
		p->caps = (ring ? RR_CAP_RING_CREDITS : 0) | (reliable ? RR_CAP_RELIABLE_REPLY : 0) |
			  (general ? RR_CAP_REVERSE_CHUNKS : 0);
		p->inline_send = p->inline_recv = size;
		p->invalidate = p->invited = invalidate;
		if (c->resent)
			p->max_segs = 2;	/* exposures have up to four */
		if (offers)
			scenario_offers(p, c, reliable);
		/* what each side asks for the other must be able to take */
		p->recvs = ring ? p->recvs : rr_max(rr_eng_recvs(p), rr_eng_recvs(peer));
	}
	if (sp->dialect[0] == RR_DIALECT_DRAFT02)
		scenario_draft02(&rng, c);
	if (tp_random(&rng) % 3 == 0)
		scenario_smaller(c);
	return sp;
}

/* --- the apps -------------------------------------------------------------------------- */

static uint32_t any_size(struct run *r, uint32_t min, uint32_t max)
{
	struct tp *tp = r->tp;
	uint32_t edge = tp->conf.eng[0].inline_send - r->sp->hdr, n;

	switch (tp_random(tp) % 20) {
	case 0: case 1: case 2:
		n = between(tp, edge - 4, edge + 4);
		break;
	case 3:
		n = between(tp, min, 4 * edge);
		break;
	case 4:
		n = between(tp, min, 32768);
		break;
	default:
		n = between(tp, min, 300);
		break;
	}
	return rr_max(rr_min(n, max), min);
}

/* What a READ brings may be less than it asked for; READDIR has a count of its own. */
static uint32_t nfs_size(struct run *r, int side, const struct tp_msg *call)
{
	uint32_t most = call->proc == TP_READ ? 128 : 24;

	most = r->max_reply[side] - rr_min(most, r->max_reply[side]);
	if (call->proc == TP_WRITE)
		return call->data;
	if (call->proc == TP_READ && tp_random(r->tp) % 8 == 0)
		return PICK(r->tp, TP_NO_DATA, 0, 1);
	return rr_min(call->proc == TP_READ && tp_random(r->tp) % 2 ? call->data :
		      between(r->tp, call->proc == TP_READ ? 0 : 24, call->data), most);
}

/* The procedure says how large the reply is, so that what was learned holds. */
static uint32_t reply_size(struct run *r, int side, const struct tp_msg *call)
{
	uint32_t n, proc = call->proc;

	if (proc >= TP_NFS3)
		return nfs_size(r, side, call);
	if (r->tp->conf.eng[0].caps & RR_CAP_RELIABLE_REPLY)
		return any_size(r, 24, r->max_reply[side]);
	switch (proc) {
	case 0:
		n = between(r->tp, 24, 200);
		break;
	case 1:
		n = between(r->tp, 200, 399);
		break;
	case 2:
		n = between(r->tp, r->tp->conf.eng[0].inline_send - 36, r->tp->conf.eng[0].inline_send);
		break;
	default:
		n = between(r->tp, 16500, 33000);
		break;
	}
	return rr_min(n, r->max_reply[side]);
}

static void write_it(struct run *r, int side, uint32_t type)
{
	struct app *a = &r->app[side];
	const struct tp_msg *m = &a->next[type];
	int rc = tp_send(r->tp, side, type, m->xid, m->proc, m->len);

	if (rc && rc != -EAGAIN && rc != -ENOBUFS && rc != -ECONNRESET && !r->tp->error[0])
		snprintf(r->tp->error, sizeof(r->tp->error), "side %d: send of %u bytes: %d", side,
			 m->len, rc);
	a->waiting[type] = rc != 0;
	r->rpcs += rc == 0 && type == RR_RPC_REPLY;
}

static void answer_one(struct run *r, int side)
{
	struct app *a = &r->app[side];
	uint32_t i = (uint32_t)(tp_random(r->tp) % a->ntodo);

	a->next[RR_RPC_REPLY] = a->todo[i];
	a->todo[i] = a->todo[--a->ntodo];
	a->next[RR_RPC_REPLY].len = reply_size(r, side, &a->next[RR_RPC_REPLY]);
	write_it(r, side, RR_RPC_REPLY);
}

static void call_one(struct run *r, int side)
{
	struct app *a = &r->app[side];

	a->next[RR_RPC_CALL] = (struct tp_msg){
		.xid = a->next_xid++, .proc = (uint32_t)(tp_random(r->tp) % 4),
		.len = any_size(r, 40, r->max_call[side]),
	};
	if (tp_random(r->tp) % 3 == 0) {
		struct tp_msg *m = &a->next[RR_RPC_CALL];

		m->proc = PICK(r->tp, TP_READ, TP_WRITE, TP_READDIR);
		m->len = rr_max(rr_min(m->len, r->max_call[side] - 100), 24u);
	}
	a->ncalls++;
	write_it(r, side, RR_RPC_CALL);
}

static void take_in(struct run *r, int side)
{
	struct app *a = &r->app[side];
	struct tp_msg m;

	while (a->ntodo < SERVING && tp_recv(r->tp, side, &m)) {
		r->heard |= side == 1;
		if (m.type == RR_RPC_REPLY)
			continue;
		if (r->never && tp_random(r->tp) % 100 < r->never)
			r->rpcs++;
		else
			a->todo[a->ntodo++] = m;
	}
}

static void act(struct run *r, int side)
{
	struct app *a = &r->app[side];

	take_in(r, side);
	for (int n = 0; n < 6; n++) {
		uint32_t type = tp_random(r->tp) % 2;

		if (a->waiting[type])
			write_it(r, side, type);
		else if (type == RR_RPC_REPLY && a->ntodo)
			answer_one(r, side);
		else if (type == RR_RPC_CALL && a->ncalls < r->target &&
			 (side == 0 || r->heard || !r->sp->native))
			call_one(r, side);
	}
}

/* --- a run ----------------------------------------------------------------------------- */

static void limits(struct run *r)
{
	const struct rr_eng_params *p = &r->tp->conf.eng[0];

	for (int side = 0; side < 2; side++)
		r->max_call[side] = r->max_reply[side] = 33000;
	if (!(p->caps & RR_CAP_REVERSE_CHUNKS))	/* reverse calls and their replies are inline */
		r->max_call[1] = r->max_reply[0] = p->inline_send - r->sp->hdr -
						     (p->ccp_prog ? CCP_ROOM : 0);
}

static bool busy(const struct run *r)
{
	for (int s = 0; s < 2; s++)
		if (r->app[s].ncalls < r->target || r->app[s].ntodo || tp_unread(r->tp, s) || r->app[s].waiting[0] || r->app[s].waiting[1])
			return true;
	return false;
}

static bool dead(const struct tp *tp)
{
	return tp->peer[0].dead && tp->peer[1].dead;
}

/* RDMA_DONEs that were lost are waited for until their time is over; memory of calls that
 * nobody answered comes back when the peer has read it. */
static bool wind_down(struct run *r)
{
	struct tp *tp = r->tp;

	if (!tp_settle(tp, 200000) || dead(tp))
		return dead(tp);
	for (int i = 0; i < 60000 && !tp->error[0]; i++) {
		struct tp_msg m;

		tp->peer[0].starved = tp->peer[1].starved = r->never > 0;
		while (tp_recv(tp, 0, &m) || tp_recv(tp, 1, &m))
			;
		tp_step(tp);
		if (tp_all_released(tp) && !rr_fake_busy(&tp->link))
			return true;
	}
	/* Reply chunks of unanswered calls stay until they are pushed out */
	return r->never && tp->conf.eng[0].reply_chunk;
}

static bool go(struct run *r, bool will_break)
{
	struct tp *tp = r->tp;
	uint64_t limit = 400000;

	while (busy(r) && !tp->error[0] && !dead(tp) && --limit) {
		act(r, 0);
		act(r, 1);
		tp_step(tp);
	}
	if (!tp->error[0] && dead(tp) && !will_break)
		snprintf(tp->error, sizeof(tp->error), "connection lost: %d %d",
			 tp->peer[0].failed, tp->peer[1].failed);
	if (!tp->error[0] && !limit)
		snprintf(tp->error, sizeof(tp->error), "no progress");
	if (!tp->error[0] && !wind_down(r) && !tp->error[0])
		snprintf(tp->error, sizeof(tp->error), "memory or messages left over");
	return !tp->error[0];
}

static void describe(const struct run *r)
{
	for (int s = 0; s < 2; s++) {
		const struct tp_peer *p = &r->tp->peer[s];
		const struct app *a = &r->app[s];
		struct rr_eng_info i;

		rr_eng_info(p->eng, &i);
		printf("  side %d: calls %u todo %u waiting %d/%d; granted %u inflight %u serving %u "
		       "exposed %u window %u; unread %u held %u pulls %u starved %u blocks %u/%u keys %u%s\n",
		       s, a->ncalls, a->ntodo, a->waiting[0], a->waiting[1], i.granted, i.inflight,
		       i.serving, i.exposed, i.window, p->sent.tail - p->sent.head, p->nheld, p->npulls,
		       p->nstarved, p->free_blocks, p->nblocks, rr_fake_keys(p->qp),
		       p->dead ? " dead" : "");
	}
}

/* What was done, in all. */
struct done {
	uint64_t rpcs, quiet, read_chunks, write_chunks, resends, by[SPEECHES];
};

static void count(const struct run *r, struct done *d)
{
	d->rpcs += r->rpcs;
	d->by[r->sp - speeches] += r->rpcs;
	for (int s = 0; s < 2; s++) {
		const struct tp_peer *p = &r->tp->peer[s];

		d->quiet += p->nquiet;
		d->read_chunks += p->count.v[RR_C_read_chunks_received];
		d->write_chunks += p->count.v[RR_C_write_chunks_received];
		d->resends += p->count.v[RR_C_resends];
	}
}

static bool simulate(uint64_t seed, struct done *done)
{
	struct run r = { .target = PER_SEED / 2 };
	struct rr_sizes sizes;
	struct tp_conf c;
	bool will_break, ok;

	memset(&sizes, 0, sizeof(sizes));
	r.sp = scenario(&c, seed);
	if (seed % 2)
		c.eng[0].sizes = &sizes;
	r.tp = tp_new(&c);
	limits(&r);
	r.never = c.link.ring && seed % 3 == 0 ? 10 : 0;
	if (r.never && c.eng[0].reply_chunk)
		r.never = 1;
	will_break = seed % 5 == 0;
	if (will_break)
		r.tp->link.break_at = 1 + tp_random(r.tp) % 3000;
	r.app[0].next_xid = r.app[1].next_xid = (uint32_t)seed;
	ok = go(&r, will_break);
	if (!ok)
		printf("seed %llu: %s\n  (%s, %s %s%s%s%s, credits %u/%u recvs %u/%u, step %llu, %u rpcs)\n",
		       (unsigned long long)seed, r.tp->error, r.sp->name, c.link.ring ? "ring" : "strict",
		       c.eng[0].caps & RR_CAP_RELIABLE_REPLY ? "reliable" : "reply chunks",
		       c.eng[0].caps & RR_CAP_REVERSE_CHUNKS ? " general" : "",
		       c.link.direct ? " direct" : "", c.link.reorder ? " reorder" : "",
		       c.eng[0].credits, c.eng[1].credits, c.eng[0].recvs, c.eng[1].recvs,
		       (unsigned long long)r.tp->link.step, r.rpcs);
	if (!ok && getenv("SIM_VERBOSE"))
		describe(&r);
	count(&r, done);
	tp_free(r.tp);
	return ok;
}

static bool report(const struct done *d, uint64_t seeds, bool all)
{
	bool ok = d->read_chunks && d->write_chunks && d->resends;

	printf("%llu RPCs (", (unsigned long long)d->rpcs);
	for (size_t i = 0; i < SPEECHES; i++) {
		printf("%s%s %llu", i ? ", " : "", speeches[i].name, (unsigned long long)d->by[i]);
		ok &= d->by[i] > 0;
	}
	printf("), %llu seeds, %llu times idle, %llu by Read chunks, %llu by Write chunks, "
	       "%llu sent again\n",
	       (unsigned long long)seeds, (unsigned long long)d->quiet,
	       (unsigned long long)d->read_chunks, (unsigned long long)d->write_chunks,
	       (unsigned long long)d->resends);
	if (all && !ok)
		printf("FAIL: a dialect, chunks, or another try were never used\n");
	return ok || !all;
}

int main(int argc, char **argv)
{
	const char *enough = getenv("SIM_RPCS");

	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, seeds = 0;
	struct done done = { 0 };
	uint64_t want = argc > 2 ? strtoull(argv[2], NULL, 0) :
			argc > 1 ? 1 : strtoull(enough && *enough ? enough : ENOUGH, NULL, 0);

	for (; done.rpcs < want; seed++, seeds++) {
		if (!simulate(seed, &done)) {
			printf("FAIL: replay with: sim_rpc %llu\n", (unsigned long long)seed);
			return 1;
		}
		if (argc == 2)
			break;
	}
	return report(&done, seeds, argc == 1) ? 0 : 1;
}
