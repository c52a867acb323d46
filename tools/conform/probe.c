/* SPDX-License-Identifier: BSD-3-Clause */
/* Does an expectation look at everything that came, except for what it leaves open? Each byte
 * of what came is changed and the comparison is made again, in memory and without the peer. So
 * a forgotten comparison is found. What a case leaves open is noted where its words are read
 * (struct rr_heeded). */
#include "core/base/compiler.h"
#include "tools/conform/wire.h"

#define PROBES	2048u	/* changes of one piece of memory; of a message each byte is changed */

/* A comparison that is made again and again. */
struct probing {
	struct rr_env *e;
	const struct rr_step *s;
	uint8_t *buf, *how;		/* what came, to be changed; enum of struct rr_heeded */
	uint32_t len;
	/* Copies of the variables, since a comparison gives names to what it finds. */
	struct rr_var *is[64], was[64];
	uint32_t nvars;
};

/* Beyond 64 variables the newest are saved, those in front; cases have far fewer. */
static void save_vars(struct probing *b)
{
	for (struct rr_var *v = b->e->vars; v && b->nvars < rr_array_size(b->is); v = v->next) {
		b->is[b->nvars] = v;
		b->was[b->nvars++] = *v;
	}
}

/* Puts the values back. Variables that a comparison has made remain in the list. */
static void restore_vars(const struct probing *b)
{
	for (uint32_t i = 0; i < b->nvars; i++)
		*b->is[i] = b->was[i];
	b->e->missing = NULL;
}

/* Is the changed message still what the step expects? */
static bool still_matches(const struct probing *b)
{
	char why[384];
	bool ok = b->s->what == RR_E_MESSAGE ?
		rr_match_message(b->e, b->s, b->buf, b->len, why, sizeof(why)) :
		rr_match_body(b->e, b->s->items, b->buf, b->len, why, sizeof(why));

	restore_vars(b);
	return ok;
}

/* Is a change noticed in a word for which the case gives a range? One of these values is
 * outside of it. */
static bool range_noticed(const struct probing *b, uint32_t at)
{
	static const uint32_t to[] = { 0, UINT32_MAX, 0x7f7f7f7f };
	uint8_t was[4];
	bool noticed = false;

	memcpy(was, b->buf + at, 4);
	for (uint32_t i = 0; i < rr_array_size(to) && !noticed; i++) {
		memcpy(b->buf + at, &to[i], 4);
		noticed = !still_matches(b);
	}
	memcpy(b->buf + at, was, 4);
	return noticed;
}

/* 0x55 changes half of the bits, so the byte is another one in any case. */
static bool byte_noticed(const struct probing *b, uint32_t at)
{
	bool noticed;

	b->buf[at] ^= 0x55;
	noticed = !still_matches(b);
	b->buf[at] ^= 0x55;
	return noticed;
}

/* Is a change at this place noticed, if it has to be? A range that is cut by the end of the
 * buffer cannot be tried. */
static bool place_noticed(const struct probing *b, uint32_t at)
{
	switch (b->how[at]) {
	case RR_HEED_EXACT:
		return byte_noticed(b, at);
	case RR_HEED_RANGE:
		return at + 4 > b->len || range_noticed(b, at);
	default:
		return true;
	}
}

/* Changes all that must be compared, place by place. Returns false if the change at *at was not
 * noticed. Of a message each byte is changed; of memory, which may be large, some thousand
 * places. */
static bool change_all(const struct probing *b, uint32_t *probed, uint32_t *at)
{
	uint32_t stride = b->s->what == RR_E_MESSAGE ? 1 : 1 + b->len / PROBES;

	for (*at = 0; *at < b->len; *at += b->how[*at] == RR_HEED_RANGE ? 4 : stride) {
		*probed += b->how[*at] != RR_HEED_NONE;
		if (!place_noticed(b, *at))
			return false;
	}
	return true;
}

/* The first comparison is with what really came and fills in `how`. If it does not match, the
 * case fails anyway, and there is nothing to probe. Without memory nothing is probed. */
bool rr_probe(struct rr_env *e, const struct rr_step *s, const uint8_t *buf, uint32_t len,
	      uint32_t *probed, uint32_t *at)
{
	struct probing *b = calloc(1, sizeof(*b));
	uint8_t *copy = calloc(2, (size_t)len + 1);
	bool ok = true;

	if (b && copy) {
		struct rr_heeded heeded = { copy, copy + len + 1, len };

		*b = (struct probing){ e, s, copy, heeded.how, len, .nvars = 0 };
		if (len)
			memcpy(copy, buf, len);
		save_vars(b);
		e->heeded = &heeded;
		ok = still_matches(b);
		e->heeded = NULL;
		ok = !ok || change_all(b, probed, at);
	}
	free(b);
	free(copy);
	return ok;
}

/* --- chunks --- */

/* The Read segments with one position are a chunk. Returns where the next chunk begins. */
static uint32_t behind_chunk(const struct rr_seen *m, uint32_t at)
{
	uint32_t i = at;

	while (i < m->nreads && m->read[i].position == m->read[at].position)
		i++;
	return i;
}

/* Do the steps read or write the memory of this name, other than to be refused? */
static bool is_used(const struct rr_step *s, const char *name)
{
	for (; s; s = s->next) {
		bool moves = (s->op == RR_STEP_PULL || s->op == RR_STEP_PUSH) && !s->refused;

		if ((moves && !strcmp(s->name, name)) || (s->body && is_used(s->body, name)))
			return true;
	}
	return false;
}

/* Walks through the lines and the message's lists side by side. *at is where the first segment
 * of the chunk begins that a line names. */
bool rr_probe_kept(struct rr_env *e, const struct rr_step *s, const uint8_t *buf, uint32_t len,
		   uint32_t *at)
{
	struct rr_seen m;
	uint32_t reads = 0, writes = 0;

	if (s->what != RR_E_MESSAGE || rr_seen_read(e->dialect, buf, len, &m))
		return false;
	for (const struct rr_item *it = s->items; it; it = it->next) {
		*at = 0;
		if (it->kind == RR_I_READ) {
			*at = reads < m.nreads ? m.read[reads].at : 0;
			reads = behind_chunk(&m, reads);
		} else if (it->kind == RR_I_WRITE && writes < m.nwrites) {
			*at = m.write[writes].n ? m.write[writes].at : 0;
			writes++;
		} else if (it->kind == RR_I_REPLY && m.has_reply) {
			*at = m.reply.n ? m.reply.at : 0;
		}
		if (it->name && *at && is_used(s, it->name))
			return true;
	}
	return false;
}
