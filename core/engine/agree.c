/* SPDX-License-Identifier: BSD-3-Clause */

/* What is spoken: the codec and its traits, and what both sides have agreed on. It is set at
 * the start and changed by the opening, which decides what to agree on. */

#include <stdatomic.h>

#include "core/engine/queues.h"

/* Those of the first codec that was asked for, which is nearly always the only one: so an
 * engine that sends only plain messages never touches its scratch memory. `of` is written last,
 * and only once. */
static struct {
	struct rr_hdr_sizes sizes;
	_Atomic(const struct rr_codec *) of;
	atomic_flag taken;
} known = { .taken = ATOMIC_FLAG_INIT };

static void calculate(struct rr_hdr_sizes *s, const struct rr_codec *codec, struct rr_msg *m)
{
	rr_msg_init(m, RR_MSG, 0, codec->version, 1);
	s->min = codec->size(m);
	m->ch.nreads = RR_ENG_SEGS;
	s->read = codec->size(m) - s->min;
	m->ch.nreads = 0;
	m->ch.has_reply = true;
	m->ch.reply.nsegs = m->ch.nsegs = RR_ENG_SEGS;
	s->reply = codec->size(m) - s->min;
	m->ch.has_reply = false;
	m->ch.nwrites = 1;
	m->ch.writes[0] = m->ch.reply;
	s->write = codec->size(m) - s->min;
}

/* What each kind of chunk adds to a header of this codec if it has as many segments as we ever
 * use. Whether a message fits is decided by these, before its header is built. */
static void header_sizes(struct rr_eng *e)
{
	if (atomic_load_explicit(&known.of, memory_order_acquire) == e->codec) {
		e->hdr = known.sizes;
	} else {
		calculate(&e->hdr, e->codec, &e->tmp->tx);
		if (!atomic_flag_test_and_set_explicit(&known.taken, memory_order_relaxed)) {
			known.sizes = e->hdr;
			atomic_store_explicit(&known.of, e->codec, memory_order_release);
		}
	}
	e->hdr_returned = e->hdr.min;
}

void rr_eng_speak(struct rr_eng *e, const struct rr_codec *codec,
		  const struct rr_traits *traits)
{
	e->codec = codec;
	e->traits = traits;
	header_sizes(e);
}

/* Derives how messages may travel from what was agreed on, which the dialect has, from the
 * parameters and from the dialect. The results stand in flags, so that nobody has to ask for
 * all of that with each message. */
void rr_eng_agreed(struct rr_eng *e, bool reliable, bool reverse_chunks)
{
	e->reliable = reliable && e->p.caps & RR_CAP_RELIABLE_REPLY;
	e->pulls = e->reliable || e->traits->read_replies;
	e->reverse_chunks = reverse_chunks;
	e->chunk_most = 0;
	e->plans = !e->reliable || e->p.reply_chunks == RR_REPLY_CHUNKS_BOUNDED;
	if (e->plans && e->p.reply_chunk && rr_req_may_use_chunks(e))
		e->chunk_most = rr_min(e->p.reply_chunk_max, e->p.max_msg);
	e->simple = e->ring && e->reliable && !e->plans && e->traits->plain;
}

bool rr_eng_may_reverse(const struct rr_eng *e)
{
	return e->p.caps & RR_CAP_REVERSE_CHUNKS && e->traits->general;
}

/* From then on the engine is as if that version had been spoken from the start; the caller ends
 * the opening. */
bool rr_eng_fall_back(struct rr_eng *e, uint32_t vers)
{
	const struct rr_codec *codec = rr_codec_find(vers, RR_DIALECT_V1);

	if (!codec || !e->traits->falls_back || e->p.no_fallback)
		return false;
	rr_eng_speak(e, codec, e->traits->falls_back);
	/* nothing was agreed: it is not one of ours */
	rr_eng_agreed(e, false, rr_eng_may_reverse(e));
	e->fell_back = true;
	return true;
}
