/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of a connection that have no reply yet: from them procedures are counted and timed.
 * Reading the counts is rdmarpc-stat's. Under the connection's lock.
 *
 * Each direction has a table of RR_CALLS entries, found by XID. If the table is full, a new
 * call replaces an older one, which is then neither timed nor counted as answered: so calls
 * that never get a reply do not block the table. The first entries lie in the head, so that an
 * idle connection remembers a call that takes long; the others go with the tables. If there is
 * only one call, as is usual, it is in the first entry and not linked anywhere (RR_CALLS_SOLO).
 *
 * What is usual has a short way: count_usual_call() and count_usual_reply() judge a message
 * before they change anything, and what they refuse is left to note_call() and note_reply(),
 * which handle every case. */

#include <string.h>

#include "core/base/compiler.h"
#include "core/base/tally.h"
#include "core/base/ticks.h"
#include "core/base/unconfirmed.h"
#include "core/conn/base/base.h"

_Static_assert(RR_CALLS <= UINT8_MAX && RR_CALLS % 64 == 0, "an index and none fit a byte");
_Static_assert(RR_CALLS_HEAD < 64, "one word has them");

/* Is a message too long for one Send, if nothing of it goes in chunks? */
static RR_INLINE bool is_long(uint32_t len, uint32_t most)
{
	return len + RR_ENG_PLAIN_HDR > most;
}

static struct rr_call_open *open_entry(struct rr_share *sh, bool server, unsigned i)
{
	return i < RR_CALLS_HEAD ? &sh->calls[server].head[i]
				 : &sh->tables->call[server][i - RR_CALLS_HEAD];
}

static uint8_t *xid_chain(struct rr_calls *t, uint32_t xid)
{
	return &t->chain[(xid * 2654435761u) >> 26];
}

/* The link that points to the entry of this XID; *link is 0 if there is none. A process that
 * was killed in the middle of a change may have left an entry unlinked, but never a loop. */
static uint8_t *link_of(struct rr_share *sh, bool server, uint32_t xid)
{
	uint8_t *at = xid_chain(&sh->calls[server], xid);

	for (unsigned n = 0; *at && n < RR_CALLS; n++) {
		struct rr_call_open *c = open_entry(sh, server, *at - 1u);

		if (c->xid == xid)
			break;
		at = &c->next;
	}
	return at;
}

static unsigned push_out_open(struct rr_share *sh, bool server)
{
	struct rr_calls *t = &sh->calls[server];
	unsigned i = t->victim++ % RR_CALLS;
	struct rr_call_open *c = open_entry(sh, server, i);
	uint8_t *at = xid_chain(t, c->xid);

	for (unsigned n = 0; *at && n < RR_CALLS; n++) {
		if (*at == i + 1) {
			*at = c->next;
			break;
		}
		at = &open_entry(sh, server, *at - 1u)->next;
	}
	return i;
}

static unsigned free_open(struct rr_share *sh, bool server)
{
	struct rr_calls *t = &sh->calls[server];

	for (unsigned w = 0; w < rr_array_size(t->live); w++)
		if (~t->live[w])
			return w * 64 + (unsigned)__builtin_ctzll(~t->live[w]);
	return push_out_open(sh, server);
}

/* --- calls --- */

#define UNIT 64u
_Static_assert(sizeof(struct rr_stat_tally) % UNIT == 0 && RR_STAT_SIZE / UNIT <= UINT16_MAX,
	       "16 bits say where a tally is");
_Static_assert(offsetof(struct rr_stat_seg, conn[RR_STAT_OWN]) % UNIT == 0, "the same");

/* The place of a tally in the segment, in units; 0: none. */
static uint16_t tally_place(struct rr_stat_seg *seg, int tally)
{
	return tally < 0 ? 0
			 : (uint16_t)(((char *)rr_tally_at(seg, tally) - (char *)seg) / UNIT);
}

static RR_INLINE struct rr_stat_tally *at_place(struct rr_stat_seg *seg, uint16_t place)
{
	return (struct rr_stat_tally *)((char *)seg + (size_t)place * UNIT);
}

static RR_INLINE bool is_same_procedure(const struct rr_call_open *c, const struct rr_rpc *rpc)
{
	return c->procedure == rpc->proc && c->version == rpc->vers && c->program == rpc->prog;
}

/* The call that was in this entry before was most likely of the same procedure, so this is
 * rare. */
static void set_procedure(struct rr_share *sh, bool server, struct rr_call_open *c,
			  const struct rr_rpc *rpc)
{
	c->program = rpc->prog;
	c->version = rpc->vers;
	c->procedure = rpc->proc;
	c->tally = tally_place(
	    sh->seg, rr_tally_find(sh->seg, server, rpc->prog, rpc->vers, rpc->proc, !server));
}

/* came: a stamp; 0 now. */
static void fill_open(struct rr_share *sh, bool server, struct rr_call_open *c,
		      const struct rr_rpc *rpc, uint32_t len, uint64_t came)
{
	c->xid = rpc->xid;
	c->len = len;
	c->unconfirmed = 0;
	if (!is_same_procedure(c, rpc) || !c->tally)
		set_procedure(sh, server, c, rpc);
	if (!c->tally && server)
		c->unconfirmed = rr_unconfirmed_add(sh->seg, rpc->prog, rpc->vers, rpc->proc,
						    len, is_long(len, sh->ep.inline_recv));
	c->stamp = came ? came : rr_ticks_stamp(&sh->seg->clock);
}

static RR_INLINE void add_call(struct rr_stat_seg *seg, uint16_t place, uint32_t len,
			       bool too_long)
{
	struct rr_stat_tally *a = at_place(seg, place);

	rr_tally_add(&a->calls, 1);
	rr_tally_add(&a->arguments, len);
	if (unlikely(too_long))
		rr_tally_add(&a->long_arguments, 1);
}

static void chain_in(struct rr_calls *t, struct rr_call_open *c, unsigned i)
{
	uint8_t *head = xid_chain(t, c->xid);

	t->live[i / 64] |= UINT64_C(1) << i % 64;
	c->next = *head;
	*head = (uint8_t)(i + 1);
}

/* Opens an entry while others are open. */
static struct rr_call_open *open_beside(struct rr_share *sh, bool server,
					const struct rr_rpc *rpc, uint32_t len, uint64_t came)
{
	struct rr_calls *t = &sh->calls[server];
	struct rr_call_open *c;
	uint8_t *at;
	unsigned i;

	if (rr_calls_open(t) == RR_CALLS_SOLO) {
		rr_calls_set_open(t, 1);
		chain_in(t, &t->head[0], 0);
	}
	at = link_of(sh, server, rpc->xid);
	if (unlikely(*at)) {
		c = open_entry(sh, server, *at - 1u);
		if (!is_same_procedure(c, rpc)) /* the XID was reused for another call */
			fill_open(sh, server, c, rpc, len, came);
		else if (c->tally)
			rr_tally_add(&at_place(sh->seg, c->tally)->resent, 1);
		return c;
	}
	i = free_open(sh, server);
	c = open_entry(sh, server, i);
	fill_open(sh, server, c, rpc, len, came);
	chain_in(t, c, i);
	rr_calls_set_open(t, rr_min(rr_calls_open(t) + 1, RR_CALLS));
	return c;
}

static RR_NOINLINE void note_call(struct rr_share *sh, bool server, const struct rr_rpc *rpc,
				  uint32_t len, uint32_t most, uint64_t came)
{
	struct rr_calls *t = &sh->calls[server];
	struct rr_call_open *c = &t->head[0];

	if (!rr_calls_open(t)) {
		rr_calls_set_open(t, RR_CALLS_SOLO);
		fill_open(sh, server, c, rpc, len, came);
	} else {
		c = open_beside(sh, server, rpc, len, came);
	}
	if (c->tally)
		add_call(sh->seg, c->tally, len, is_long(len, most));
}

/* Usual: a short call while no other is open, of the same procedure as the last one. */
static RR_INLINE bool count_usual_call(struct rr_share *sh, bool server,
				       const struct rr_rpc *rpc, uint32_t len, uint32_t most,
				       uint64_t came)
{
	struct rr_calls *t = &sh->calls[server];
	struct rr_call_open *c = &t->head[0];

	if (unlikely(rr_calls_open(t) || !is_same_procedure(c, rpc) || !c->tally ||
		     is_long(len, most) || !came))
		return false;
	rr_calls_set_open(t, RR_CALLS_SOLO);
	c->xid = rpc->xid;
	c->stamp = came;
	add_call(sh->seg, c->tally, len, false);
	return true;
}

/* --- replies --- */

/* Most replies are accepted, without a verifier, and successful: these words are all zero. */
static RR_INLINE bool is_plain_success(const uint8_t *p, size_t have)
{
	uint32_t word[3];

	if (unlikely(have < 24))
		return false;
	memcpy(&word[0], p + 8, 4);
	memcpy(&word[1], p + 16, 8);
	return !(word[0] | word[1] | word[2]);
}

/* The first call of a procedure by a peer. It only gets a tally of its own once the app has
 * confirmed by its reply that the procedure exists, so that a peer cannot fill the table with
 * invented ones; until then it is counted as unconfirmed. The next call in this entry looks the
 * tally up itself. */
static RR_COLD uint16_t first_call(struct rr_share *sh, struct rr_call_open *c,
				   enum rr_rpc_end v)
{
	bool too_long = is_long(c->len, sh->ep.inline_recv);
	uint16_t place;
	int tally = rr_tally_find(sh->seg, true, c->program, c->version, c->procedure,
				  v != RR_RPC_REFUSED);

	if (c->unconfirmed)
		rr_unconfirmed_take(sh->seg, c->unconfirmed, c->len, too_long);
	c->unconfirmed = 0;
	if (tally < 0)
		tally = rr_tally_others(sh->seg, true);
	place = tally_place(sh->seg, tally);
	if (place)
		add_call(sh->seg, place, c->len, too_long);
	return place;
}

/* Takes the call's entry out of the table; NULL: there is none. */
static struct rr_call_open *close_beside(struct rr_share *sh, bool server, uint32_t xid)
{
	struct rr_calls *t = &sh->calls[server];
	uint8_t *at = link_of(sh, server, xid);
	unsigned i = *at - 1u;
	struct rr_call_open *c;

	if (unlikely(!*at))
		return NULL;
	c = open_entry(sh, server, i);
	*at = c->next;
	t->live[i / 64] &= ~(UINT64_C(1) << i % 64);
	rr_calls_set_open(t, rr_calls_open(t) - (rr_calls_open(t) > 0));
	return c;
}

static RR_INLINE void add_reply(struct rr_stat_seg *seg, uint16_t place, uint32_t len,
				bool too_long, enum rr_rpc_end v, uint64_t ns)
{
	struct rr_stat_tally *a = at_place(seg, place);

	rr_tally_add(&a->hist[rr_hist_bucket(ns)], 1);
	rr_tally_add(&a->results, len);
	if (unlikely(too_long))
		rr_tally_add(&a->long_results, 1);
	if (unlikely(v != RR_RPC_DONE))
		rr_tally_add(&a->errors, 1);
}

/* Older readers of the segment have no tallies; they see the times of each eighth call. */
static RR_INLINE void sample(struct rr_share *sh, uint64_t ns)
{
	if ((sh->calls[0].replies++ & 7) == 0)
		rr_stats_latency(sh->seg, ns);
}

static RR_NOINLINE void note_reply(struct rr_share *sh, bool server, uint32_t xid, uint32_t len,
				   bool too_long, enum rr_rpc_end v, uint64_t came)
{
	struct rr_calls *t = &sh->calls[server];
	struct rr_call_open *c = &t->head[0];
	uint16_t place;
	uint64_t ns;

	if (rr_calls_open(t) == RR_CALLS_SOLO) {
		if (c->xid != xid)
			return;
		rr_calls_set_open(t, 0);
	} else {
		c = close_beside(sh, server, xid);
		if (!c)
			return;
	}
	if (!came || !rr_ticks_in_order(c->stamp, came))
		came = rr_ticks_again(&sh->seg->clock, c->stamp);
	ns = rr_ticks_between(&sh->seg->clock, c->stamp, came);
	place = c->tally;
	if (!place && server)
		place = first_call(sh, c, v);
	if (place)
		add_reply(sh->seg, place, len, too_long, v, ns);
	if (!server)
		sample(sh, ns);
}

/* Usual: a short success, of the only open call, which came before it by the same clock. */
static RR_INLINE bool count_usual_reply(struct rr_share *sh, bool server, uint32_t xid,
					uint32_t len, uint32_t most, const uint8_t *p,
					size_t have, uint64_t came)
{
	struct rr_calls *t = &sh->calls[server];
	struct rr_call_open *c = &t->head[0];
	uint64_t ns;

	if (unlikely(rr_calls_open(t) != RR_CALLS_SOLO || c->xid != xid || !c->tally ||
		     is_long(len, most) || !is_plain_success(p, have) ||
		     !rr_ticks_in_order(c->stamp, came)))
		return false;
	rr_calls_set_open(t, 0);
	ns = rr_ticks_between(&sh->seg->clock, c->stamp, came);
	add_reply(sh->seg, c->tally, len, false, RR_RPC_DONE, ns);
	if (!server)
		sample(sh, ns);
	return true;
}

/* --- */

static RR_NOINLINE void reply_sent(struct rr_share *sh, const struct rr_eng_out *out)
{
	note_reply(sh, true, out->rpc.xid, out->len, is_long(out->len, sh->ep.inline_send),
		   rr_rpc_end(out->head, out->have), 0);
}

void rr_calls_sent(struct rr_share *sh, const struct rr_eng_out *out)
{
	const struct rr_rpc *rpc = &out->rpc;
	uint32_t most = sh->ep.inline_send;
	uint64_t now;

	if (unlikely(!sh->seg))
		return;
	now = rr_ticks_stamp(&sh->seg->clock);
	if (rpc->type == RR_RPC_CALL) {
		if (!count_usual_call(sh, false, rpc, out->len, most, now))
			note_call(sh, false, rpc, out->len, most, now);
	} else if (!count_usual_reply(sh, true, rpc->xid, out->len, most, out->head, out->have,
				      now)) {
		reply_sent(sh, out);
	}
}

/* When what is delivered came, a stamp. The spin that found it has left one, which counts once.
 * Otherwise it is now: nobody spun, or the kernel's clock has ticked since then, and the thread
 * may have been without its CPU. */
static RR_INLINE uint64_t take_seen(struct rr_share *sh, rr_time tick)
{
	if (atomic_load_explicit(&sh->seen_at, memory_order_relaxed) < tick)
		return rr_ticks_stamp(&sh->seg->clock);
	atomic_store_explicit(&sh->seen_at, 0, memory_order_relaxed);
	return atomic_load_explicit(&sh->seen, memory_order_relaxed);
}

/* A reply that is still in the peer's memory, wholly or in part, is not fetched for this: one
 * that long is not a refusal. */
static RR_NOINLINE void reply_delivered(struct rr_share *sh, uint32_t xid,
					const struct rr_rx_ent *e, uint64_t came)
{
	const uint8_t *p = e->ptr;
	size_t have = e->len; /* of which so many are at p */

	if (e->from == RR_FROM_BUF)
		p = rr_pool_at(&sh->pool, e->ref, e->off, &have);
	else if (e->from != RR_FROM_RECV)
		have = 0;
	have = rr_min(have, (size_t)e->len);
	note_reply(sh, false, xid, e->len, is_long(e->len, sh->ep.inline_recv),
		   rr_rpc_end(p, (uint32_t)have), came);
}

void rr_calls_delivered(struct rr_share *sh, const struct rr_rpc *rpc,
			const struct rr_rx_ent *e)
{
	uint32_t most = sh->ep.inline_recv;
	uint64_t came;

	if (unlikely(!sh->seg))
		return;
	came = take_seen(sh, e->since);
	if (rpc->type == RR_RPC_CALL) {
		if (!count_usual_call(sh, true, rpc, e->len, most, came))
			note_call(sh, true, rpc, e->len, most, came);
	} else if (unlikely(e->from != RR_FROM_RECV) ||
		   !count_usual_reply(sh, false, rpc->xid, e->len, most, e->ptr, e->len,
				      came)) {
		reply_delivered(sh, rpc->xid, e, came);
	}
}

void rr_calls_idle(struct rr_share *sh)
{
	const uint64_t kept = (UINT64_C(1) << RR_CALLS_HEAD) - 1;

	for (unsigned s = 0; s < 2; s++) {
		struct rr_calls *t = &sh->calls[s];
		uint64_t live = t->live[0] & kept;

		if (rr_calls_open(t) == RR_CALLS_SOLO)
			continue;
		memset(t->live, 0, sizeof(t->live));
		memset(t->chain, 0, sizeof(t->chain));
		for (unsigned i = 0; i < RR_CALLS_HEAD; i++)
			if (live >> i & 1)
				chain_in(t, &t->head[i], i);
		rr_calls_set_open(t, (uint32_t)__builtin_popcountll(live));
	}
}
