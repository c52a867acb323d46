/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/bytes.h"
#include "tests/lib/msgs.h"

static struct rr_seg random_seg(uint64_t *seed)
{
	return (struct rr_seg){ .handle = (uint32_t)rng_next(seed),
				.length = (uint32_t)rng_next(seed), .offset = rng_next(seed) };
}

/* Mostly a few, sometimes up to the limit. */
static uint32_t random_count(uint64_t *seed, uint32_t limit)
{
	return rng_below(seed, (rng_below(seed, 8) ? rr_min(limit, 4u) : limit) + 1);
}

static void random_wchunk(uint64_t *seed, struct rr_chunks *ch, struct rr_wchunk *w)
{
	w->first = ch->nsegs;
	w->nsegs = (uint16_t)random_count(seed, RR_MAX_SEGS - ch->nsegs);
	for (uint32_t i = 0; i < w->nsegs; i++)
		ch->segs[ch->nsegs++] = random_seg(seed);
}

static void random_chunks(uint64_t *seed, struct rr_chunks *ch)
{
	ch->nreads = (uint16_t)random_count(seed, RR_MAX_SEGS);
	for (uint32_t i = 0; i < ch->nreads; i++) {
		ch->reads[i].position = (uint32_t)rng_next(seed) & ~3u;
		ch->reads[i].seg = random_seg(seed);
	}
	ch->nwrites = (uint16_t)random_count(seed, RR_MAX_WRITE_CHUNKS);
	for (uint32_t i = 0; i < ch->nwrites; i++)
		random_wchunk(seed, ch, &ch->writes[i]);
	ch->has_reply = rng_below(seed, 2);
	if (ch->has_reply)
		random_wchunk(seed, ch, &ch->reply);
}

void msg_random(uint64_t *seed, struct rr_msg *m)
{
	enum rr_htype type = rng_below(seed, RR_HTYPE_OTHER);

	rr_msg_init(m, type, (uint32_t)rng_next(seed), 1, (uint32_t)rng_next(seed));
	if (type == RR_ERROR) {
		m->err = RR_ERR_VERS + rng_below(seed, 2);
		if (m->err == RR_ERR_VERS) {
			m->vers_low = (uint32_t)rng_next(seed);
			m->vers_high = (uint32_t)rng_next(seed);
		}
		return;
	}
	if (type == RR_DONE)
		return;
	if (type == RR_MSGP) {
		m->align = (uint32_t)rng_next(seed);
		m->thresh = (uint32_t)rng_next(seed);
	}
	random_chunks(seed, &m->ch);
	if (type == RR_NOMSG && m->ch.nreads == 0 && m->ch.nwrites == 0)
		m->ch.has_reply = true;
}

static void random_arm(uint64_t *seed, struct rr_msg *m)
{
	static const uint8_t has[] = {	/* bit i: arm[i] */
		[RR_ERR_VERS] = 3, [RR_ERR_READ_CHUNKS] = 1, [RR_ERR_WRITE_CHUNKS] = 1,
		[RR_ERR_SEGMENTS] = 1, [RR_ERR_WRITE_RESOURCE] = 3, [RR_ERR_REPLY_RESOURCE] = 2,
	};

	m->err = rng_below(seed, 8) ? 1 + rng_below(seed, RR_ERR_SYSTEM) : (uint32_t)rng_next(seed);
	for (uint32_t i = 0; i < 2; i++)
		if (m->err < rr_array_size(has) && has[m->err] >> i & 1)
			m->arm[i] = (uint32_t)rng_next(seed);
}

static void random_props(uint64_t *seed, struct rr_props *p)
{
	rr_props_init(p);
	if (rng_below(seed, 2))
		rr_props_set(p, RR_PROP_RBSIZ, (uint32_t)rng_next(seed));
	if (rng_below(seed, 2))
		rr_props_set(p, RR_PROP_BRS, rng_below(seed, RR_RVREQSUP_GENL + 1));
	if (rng_below(seed, 2))
		rr_props_set(p, RR_PROP_DONE, rng_below(seed, 2));
}

void msg_random_v2(uint64_t *seed, struct rr_msg *m)
{
	static const enum rr_htype types[] = { RR_MSG, RR_NOMSG, RR_ERROR, RR_CONNPROP, RR_DONE };
	enum rr_htype type = types[rng_below(seed, rr_array_size(types))];

	rr_msg_init(m, type, (uint32_t)rng_next(seed), 2, (uint32_t)rng_next(seed));
	m->dir = rng_below(seed, 2) ? RR_DIR_CALL : RR_DIR_REPLY;
	switch (type) {
	case RR_ERROR:
		m->dir = RR_DIR_REPLY;
		random_arm(seed, m);
		break;
	case RR_CONNPROP:
		random_props(seed, &m->props);
		break;
	case RR_DONE:
		m->dir = RR_DIR_CALL;
		break;
	default:
		m->inv_handle = (uint32_t)rng_next(seed);
		random_chunks(seed, &m->ch);
		if (type == RR_NOMSG && m->ch.nreads == 0 && m->ch.nwrites == 0)
			m->ch.has_reply = true;
	}
}

void msg_random_slides(uint64_t *seed, struct rr_msg *m)
{
	if (rng_below(seed, 3)) {
		msg_random(seed, m);
		return;
	}
	rr_msg_init(m, RR_MSG, (uint32_t)rng_next(seed), 1, (uint32_t)rng_next(seed));
	m->reverse = true;
	m->dir = rng_below(seed, 2) ? RR_DIR_CALL : RR_DIR_REPLY;
}

static bool seg_equal(const struct rr_seg *a, const struct rr_seg *b)
{
	return a->handle == b->handle && a->length == b->length && a->offset == b->offset;
}

static bool wchunk_equal(const struct rr_chunks *a, const struct rr_wchunk *wa,
			 const struct rr_chunks *b, const struct rr_wchunk *wb)
{
	if (wa->nsegs != wb->nsegs)
		return false;
	for (uint32_t i = 0; i < wa->nsegs; i++)
		if (!seg_equal(&a->segs[wa->first + i], &b->segs[wb->first + i]))
			return false;
	return true;
}

static bool chunks_equal(const struct rr_chunks *a, const struct rr_chunks *b)
{
	if (a->nreads != b->nreads || a->nwrites != b->nwrites || a->has_reply != b->has_reply)
		return false;
	for (uint32_t i = 0; i < a->nreads; i++)
		if (a->reads[i].position != b->reads[i].position ||
		    !seg_equal(&a->reads[i].seg, &b->reads[i].seg))
			return false;
	for (uint32_t i = 0; i < a->nwrites; i++)
		if (!wchunk_equal(a, &a->writes[i], b, &b->writes[i]))
			return false;
	return !a->has_reply || wchunk_equal(a, &a->reply, b, &b->reply);
}

static bool props_equal(const struct rr_props *a, const struct rr_props *b)
{
	return a->given == b->given && memcmp(a->value, b->value, sizeof(a->value)) == 0;
}

bool msg_equal(const struct rr_msg *a, const struct rr_msg *b)
{
	return a->xid == b->xid && a->vers == b->vers && a->credit == b->credit &&
	       a->type == b->type && a->dir == b->dir && a->reverse == b->reverse &&
	       a->inv_handle == b->inv_handle && a->err == b->err && a->vers_low == b->vers_low &&
	       a->vers_high == b->vers_high && a->align == b->align &&
	       a->thresh == b->thresh &&
	       (a->type != RR_CONNPROP || props_equal(&a->props, &b->props)) &&
	       chunks_equal(&a->ch, &b->ch);
}
