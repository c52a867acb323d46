/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes a message apart: header, chunk lists, and where the body begins. The bytes are the
 * peer's, so nothing is believed: a word beyond the end reads as 0 and marks the message as
 * bad, and counts are bounded by the arrays that they fill. */
#include "tools/conform/wire.h"

struct reading {
	const uint8_t *p, *end, *start;
	bool bad;
};

/* Beyond the end p does not move, so what follows reads as zeroes, which end every list. */
static uint32_t next_word(struct reading *c)
{
	if (c->end - c->p < 4) {
		c->bad = true;
		return 0;
	}
	c->p += 4;
	return rr_word(c->p - 4);
}

/* The position of the next word in the message. */
static uint32_t place(const struct reading *c)
{
	return (uint32_t)(c->p - c->start);
}

static struct rr_seg see_seg(struct reading *c)
{
	uint32_t handle = next_word(c), length = next_word(c);
	uint64_t high = next_word(c);

	return (struct rr_seg){ handle, length, high << 32 | next_word(c) };
}

/* Is there one more item? Optional data has 0 or 1 before it. */
static bool more(struct reading *c)
{
	uint32_t w = next_word(c);

	c->bad |= w > 1;
	return w == 1 && !c->bad;
}

/* A counted array of plain segments (RFC 8166 §4.3). `at` is where the segments begin. */
static void get_chunk(struct reading *c, struct rr_chunk *ch)
{
	uint32_t n = next_word(c);

	ch->n = 0;
	ch->at = place(c);
	c->bad |= n > RR_CHUNK_SEGS;
	for (uint32_t i = 0; i < n && !c->bad; i++)
		ch->seg[ch->n++] = see_seg(c);
}

/* Reads the three lists in their order: Read list, Write list, Reply chunk (RFC 8166 §4.3).
 * More chunks than there is room for make the message bad: no case needs so many. */
static void see_lists(struct reading *c, struct rr_seen *s)
{
	s->lists_at = place(c);
	while (more(c)) {
		if (s->nreads == RR_CHUNK_SEGS) {
			c->bad = true;
			return;
		}
		s->read[s->nreads].position = next_word(c);
		s->read[s->nreads].at = place(c);
		s->read[s->nreads++].seg = see_seg(c);
	}
	while (more(c)) {
		if (s->nwrites == RR_SENT_CHUNKS) {
			c->bad = true;
			return;
		}
		get_chunk(c, &s->write[s->nwrites++]);
	}
	s->has_reply = more(c);
	if (s->has_reply)
		get_chunk(c, &s->reply);
	s->lists_end = place(c);
}

/* How many words follow an error's code: RFC 8166 §4.5; version-two-08 §6.4. */
static uint32_t error_arm_words(enum rr_dialect d, uint32_t code)
{
	static const uint8_t words[] = { 0, 2, 0, 0, 1, 1, 1, 2, 1, 0 };

	if (d != RR_DIALECT_V2)
		return code == 1 ? 2 : 0;
	return code < sizeof(words) ? words[code] : 0;
}

static void see_error(struct reading *c, enum rr_dialect d, struct rr_seen *s)
{
	s->err_at = place(c);
	s->err = next_word(c);
	s->narm = error_arm_words(d, s->err);
	for (uint32_t i = 0; i < s->narm; i++)
		s->arm[i] = next_word(c);
}

/* A server without version 2 says so in version 1's form. Version 2's own errors of one word
 * have the same length: they have the flag RESPONSE where version 1 has its code, and their
 * code where version 1 has the lowest version. */
static bool is_v1_error(enum rr_dialect d, const uint8_t *buf, uint32_t len)
{
	return d == RR_DIALECT_V2 && len == 28 && rr_word(buf + 12) == 4 &&
	       rr_word(buf + 16) == 1 && error_arm_words(d, rr_word(buf + 20)) != 1;
}

/* The kind with this number in the dialect; RR_K_OTHER if it has none. */
static enum rr_msg_kind kind_of(enum rr_dialect d, uint32_t proc)
{
	uint32_t number;

	for (uint32_t k = 0; k < RR_K_OTHER; k++)
		if (rr_kind_number(d, (enum rr_msg_kind)k, &number) && number == proc)
			return (enum rr_msg_kind)k;
	return RR_K_OTHER;
}

/* Reads what follows the fixed words of a header, by its kind. Of other kinds nothing is known,
 * and the rest is their body. */
static void see_body(struct reading *c, enum rr_dialect d, struct rr_seen *s)
{
	switch (s->kind) {
	case RR_K_MSGP:
		s->align = next_word(c);
		s->thresh = next_word(c);
		see_lists(c, s);
		break;
	case RR_K_MSG: case RR_K_NOMSG:
		if (d == RR_DIALECT_V2)
			s->inv = next_word(c);
		/* fall through */
	case RR_K_BCALL: case RR_K_BRPLY:
		see_lists(c, s);
		break;
	case RR_K_ERROR:
		see_error(c, d, s);
		break;
	default:
		break;
	}
}

/* The header's version decides on the layout, since a peer of version 2 may fall back. s is
 * filled in even if the message is bad. */
const char *rr_seen_read(enum rr_dialect d, const uint8_t *buf, uint32_t len, struct rr_seen *s)
{
	struct reading c;

	memset(s, 0, sizeof(*s));
	if (len < 16)
		return "shorter than any header";
	c = (struct reading){ buf, buf + len, buf, false };
	s->xid = next_word(&c);
	s->vers = next_word(&c);
	s->credit = next_word(&c);
	s->proc = next_word(&c);
	s->size = len;
	d = rr_layout(d, s->vers);
	s->kind = kind_of(d, s->proc);
	if (is_v1_error(d, buf, len)) {
		s->flags = 1;
		d = RR_DIALECT_V1;
	} else if (d == RR_DIALECT_V2) {
		s->flags = next_word(&c);
		s->v2 = true;
	}
	see_body(&c, d, s);
	s->body = c.p;
	s->body_len = (uint32_t)(c.end - c.p);
	return c.bad ? "a header that cannot be decoded" : NULL;
}

/* A word of a header by its name: its value, and where in the message it is. */
struct named_word {
	const char *name;
	bool is;			/* the message has it */
	uint32_t v, at;
};

#define NOWHERE	UINT32_MAX	/* it is not written, and counts as 0 */

/* An error's code decides which words follow it (its arm). `limit` and `needed` are the last
 * word of an arm. */
static bool find_word(const struct rr_seen *s, const char *name, struct named_word *out)
{
	bool inv = s->v2 && (s->kind == RR_K_MSG || s->kind == RR_K_NOMSG);
	bool msgp = s->kind == RR_K_MSGP, one = s->narm == 1, two = s->narm == 2;
	uint32_t last = s->narm ? s->arm[s->narm - 1] : 0, arm = s->err_at + 4;
	const struct named_word words[] = {
		{ "xid", true, s->xid, 0 },
		{ "vers", true, s->vers, 4 },
		{ "credit", true, s->credit, 8 },
		{ "proc", true, s->proc, 12 },
		{ "flags", true, s->flags, s->v2 ? 16 : NOWHERE },
		{ "inv", true, s->inv, inv ? 20 : NOWHERE },
		{ "align", true, s->align, msgp ? 16 : NOWHERE },
		{ "thresh", true, s->thresh, msgp ? 20 : NOWHERE },
		{ "err", s->kind == RR_K_ERROR, s->err, s->err_at },
		{ "low", s->err == 1 && two, s->arm[0], arm },
		{ "high", s->err == 1 && two, s->arm[1], arm + 4 },
		{ "limit", one, s->arm[0], arm },
		{ "chunk", s->err == 7 && two, s->arm[0], arm },
		{ "needed", s->narm > 0, last, s->err_at + 4 * s->narm },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (words[i].is && !strcmp(words[i].name, name)) {
			*out = words[i];
			return true;
		}
	return false;
}

bool rr_seen_field(const struct rr_seen *s, const char *name, uint32_t *v)
{
	struct named_word w;

	if (!find_word(s, name, &w))
		return false;
	*v = w.v;
	return true;
}

bool rr_seen_at(const struct rr_seen *s, const char *name, uint32_t *at)
{
	struct named_word w;

	if (!find_word(s, name, &w) || w.at == NOWHERE)
		return false;
	*at = w.at;
	return true;
}
