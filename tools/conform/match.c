/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares what came with what was expected. The bytes are the peer's: every length is checked
 * against what is left before it is used. A comparison also notes which bytes it has looked at
 * (heeds()), so that rr_probe() can tell a forgotten comparison from a word that the case
 * leaves open. */
#include "core/base/compiler.h"
#include "tools/conform/wire.h"

/* One comparison, and where it says why it failed. For a body: p is the next byte, start and
 * end its limits. */
struct cmp {
	struct rr_env *e;
	char *why;
	size_t cap;
	const uint8_t *start, *p, *end;	/* of a body */
};

#define NO(c, ...) (snprintf((c)->why, (c)->cap, __VA_ARGS__), false)

/* --- which bytes are looked at, for rr_probe() --- */

/* Notes for n bytes how they are compared. Bytes outside of the buffer that is probed, which
 * are memory of the tool's own, are ignored. Bytes of which nothing is noted count as compared
 * exactly. */
static void heeds(struct cmp *c, const uint8_t *at, size_t n, uint8_t how)
{
	const struct rr_heeded *h = c->e->heeded;

	if (h && n && at >= h->buf && at + n <= h->buf + h->len)
		memset(h->how + (at - h->buf), how, n);
}

/* Does the pattern allow one value only? */
static bool says_one(struct cmp *c, const struct rr_pat *pat)
{
	return !pat->any && pat->n == 1 && !pat->alt[0].open &&
	       rr_env_eval(c->e, &pat->alt[0].lo) == rr_env_eval(c->e, &pat->alt[0].hi);
}

/* Does the pattern allow any value? "0.." does as well. */
static bool says_nothing(struct cmp *c, const struct rr_pat *pat)
{
	return pat->any ||
	       (pat->n == 1 && pat->alt[0].open && rr_env_eval(c->e, &pat->alt[0].lo) == 0);
}

/* Notes for a word what its pattern leaves open. */
static void heeds_pat(struct cmp *c, const uint8_t *at, const struct rr_pat *pat)
{
	if (c->e->heeded)
		heeds(c, at, 4, says_nothing(c, pat) ? RR_HEED_NONE :
				says_one(c, pat) ? RR_HEED_EXACT : RR_HEED_RANGE);
}

static bool word_is(struct cmp *c, const char *what, const struct rr_pat *pat, uint64_t v)
{
	char text[96];

	if (rr_env_match(c->e, pat, v))
		return true;
	rr_env_print(c->e, pat, text, sizeof(text));
	return NO(c, "%s is %llu (0x%llx), expected %s", what, (unsigned long long)v,
		  (unsigned long long)v, text);
}

static bool word_equals(struct cmp *c, const char *what, uint64_t want, uint64_t v)
{
	return v == want || NO(c, "%s is %llu (0x%llx), expected %llu", what,
			       (unsigned long long)v,
			       (unsigned long long)v, (unsigned long long)want);
}

/* Compares a field with the case's pattern; if the case does not give one, with `other`, which
 * is what is right in general. */
static bool is_or(struct cmp *c, const struct rr_field *f, const char *name, uint64_t other,
		  uint64_t v)
{
	const struct rr_pat *pat = rr_field_pat(f, name);

	return pat ? word_is(c, name, pat, v) : word_equals(c, name, other, v);
}

/* --- bodies --- */

/* Takes the next n bytes of a body. Returns false, with a reason, if there are not so many. */
static bool match_take(struct cmp *c, const char *what, uint32_t n, const uint8_t **at)
{
	if ((size_t)(c->end - c->p) < n)
		return NO(c, "%s: only %zu bytes are left, not %u", what,
			  (size_t)(c->end - c->p), n);
	*at = c->p;
	c->p += n;
	return true;
}

static bool match_get(struct cmp *c, const char *what, uint32_t *v)
{
	const uint8_t *at;

	if (!match_take(c, what, 4, &at))
		return false;
	*v = rr_word(at);
	return true;
}

/* Takes the next word and compares it as is_or() does. */
static bool next_is(struct cmp *c, const struct rr_field *f, const char *name, uint64_t other)
{
	const struct rr_pat *pat = rr_field_pat(f, name);
	uint32_t v;

	if (!match_get(c, name, &v))
		return false;
	if (pat)
		heeds_pat(c, c->p - 4, pat);
	return is_or(c, f, name, other, v);
}

/* Skips an authenticator: flavor, length and body. A body of more than 400 bytes, which RFC
 * 5531 §8.2 does not allow, is taken for one of 400. The flavor is compared if the case asks
 * for it; the body may be anything. */
static bool auth(struct cmp *c, const struct rr_field *f, const char *name)
{
	const struct rr_pat *pat = rr_field_pat(f, name);
	const uint8_t *at = c->p, *body;
	uint32_t flavor, len;

	if (!match_get(c, name, &flavor) || (pat && !word_is(c, name, pat, flavor)) ||
	    !match_get(c, name, &len) ||
	    !match_take(c, name, rr_align(rr_min(len, 400u), 4u), &body))
		return false;
	heeds(c, at, (size_t)(c->p - at), RR_HEED_NONE);
	if (pat)
		heeds_pat(c, at, pat);
	return true;
}

/* The words of a call in the order of RFC 5531 §9. The XID, program and version are those of
 * the case unless it says otherwise. */
static bool is_call(struct cmp *c, const struct rr_item *it)
{
	const struct rr_field *f = it->fields;

	return next_is(c, f, "xid", rr_env_num(c->e, "xid")) && next_is(c, f, "type", 0) &&
	       next_is(c, f, "rpcvers", 2) &&
		       next_is(c, f, "prog", rr_env_num(c->e, "program")) &&
	       next_is(c, f, "vers", rr_env_num(c->e, "version")) &&
		       next_is(c, f, "proc", 0) &&
	       auth(c, f, "cred") && auth(c, NULL, "verf");
}

/* A denied reply has no verifier. What follows the status depends on it; the case says how much
 * of that it expects. */
static bool is_reply(struct cmp *c, const struct rr_item *it)
{
	const struct rr_field *f = it->fields;

	if (!next_is(c, f, "xid", rr_env_num(c->e, "xid")) || !next_is(c, f, "type", 1) ||
	    !next_is(c, f, "stat", 0))
		return false;
	if (rr_word(c->p - 4) == 0 && !auth(c, NULL, "verf"))
		return false;
	return next_is(c, f, "accept", 0) &&
	       (!rr_field_pat(f, "low") || next_is(c, f, "low", 0)) &&
	       (!rr_field_pat(f, "high") || next_is(c, f, "high", 0));
}

static bool bytes_are(struct cmp *c, const char *what, const uint8_t *want, uint32_t len)
{
	const uint8_t *at;

	if (!match_take(c, what, len, &at))
		return false;
	for (uint32_t i = 0; i < len; i++)
		if (at[i] != want[i])
			return NO(c, "%s: byte %u is 0x%02x, expected 0x%02x", what, i, at[i],
				  want[i]);
	return true;
}

static bool is_pattern(struct cmp *c, uint32_t len)
{
	const uint8_t *at;

	if (!match_take(c, "pattern", len, &at))
		return false;
	for (uint32_t i = 0; i < len; i++)
		if (at[i] != rr_pattern(i))
			return NO(c, "pattern: byte %u is 0x%02x, expected 0x%02x", i, at[i],
				  rr_pattern(i));
	return true;
}

static bool is_fill(struct cmp *c, uint32_t len, uint8_t byte)
{
	const uint8_t *at;

	if (!match_take(c, "fill", len, &at))
		return false;
	for (uint32_t i = 0; i < len; i++)
		if (at[i] != byte)
			return NO(c, "fill: byte %u is 0x%02x, expected 0x%02x", i, at[i],
				  byte);
	return true;
}

/* A counted opaque: its length, its bytes, and padding, which must be zeroes (RFC 4506
 * §4.10). */
static bool is_counted(struct cmp *c, const struct rr_item *it, uint32_t len)
{
	uint32_t n;

	if (!match_get(c, "length", &n) || !word_equals(c, "length", len, n))
		return false;
	if (it->kind == RR_I_OPAQUE ? !is_pattern(c, len) : !bytes_are(c, "string", it->bytes,
								       len))
		return false;
	return is_fill(c, -len & 3, 0);
}

static bool is_copy(struct cmp *c, const struct rr_segspec *s)
{
	uint32_t len;
	const uint8_t *want = rr_env_bytes(c->e, s, &len);

	return bytes_are(c, "copy", want, len);
}

static bool is_number(struct cmp *c, const struct rr_item *it)
{
	uint32_t high = 0, low;

	if ((it->kind == RR_I_U64 && !match_get(c, "u64", &high)) || !match_get(c, "u32", &low))
		return false;
	heeds_pat(c, c->p - 4, &it->pat);
	if (it->kind == RR_I_U64)	/* of a range only the lower half is compared */
		heeds(c, c->p - 8, 4, says_one(c, &it->pat) ? RR_HEED_EXACT : RR_HEED_NONE);
	return word_is(c, it->kind == RR_I_U64 ? "u64" : "u32", &it->pat,
		       (uint64_t)high << 32 | low);
}

/* Compares the next bytes of the body with one line. Lines that are no part of a body match. */
static bool item_matches(struct cmp *c, const struct rr_item *it)
{
	uint32_t a = (uint32_t)rr_env_eval(c->e, &it->a);
	const uint8_t *at;

	switch (it->kind) {
	case RR_I_RPC_CALL: return is_call(c, it);
	case RR_I_RPC_REPLY: return is_reply(c, it);
	case RR_I_U32: case RR_I_U64: return is_number(c, it);
	case RR_I_HEX: return bytes_are(c, "hex", it->bytes, it->len);
	case RR_I_STRING: return is_counted(c, it, it->len);
	case RR_I_OPAQUE: return is_counted(c, it, a);
	case RR_I_PATTERN: return is_pattern(c, a);
	case RR_I_FILL: return is_fill(c, a, (uint8_t)rr_env_eval(c->e, &it->b));
	case RR_I_COPY: return is_copy(c, it->segs);
	case RR_I_SKIP: return match_take(c, "skip", a, &at) &&
		(heeds(c, at, a, RR_HEED_NONE), true);
	case RR_I_MARK: rr_env_set(c->e, it->name, (uint64_t)(c->p - c->start)); return true;
	case RR_I_REST:
		heeds(c, c->p, (size_t)(c->end - c->p), RR_HEED_NONE);
		c->p = c->end;
		return true;
	default: return true;
	}
}

static bool is_body(enum rr_item_kind kind)
{
	return kind >= RR_I_RPC_CALL && kind <= RR_I_REST;
}

/* Compares a body with all lines. Without any line about it the body may be anything; with one
 * it must end where the lines do. The reason of a failure names the line. */
static bool body_matches(struct cmp *c, const struct rr_item *items, const uint8_t *buf,
			 uint32_t len)
{
	static const uint8_t nothing[1];
	bool any = false;

	c->start = c->p = len ? buf : nothing;
	c->end = c->p + len;
	for (const struct rr_item *it = items; it; it = it->next) {
		any |= is_body(it->kind);
		if (!item_matches(c, it)) {
			size_t n = strlen(c->why);

			snprintf(c->why + n, c->cap - n, " (line %d)", it->line);
			return false;
		}
	}
	if (!any)
		heeds(c, c->p, len, RR_HEED_NONE);
	if (any && c->p != c->end)
		return NO(c, "%zu bytes more than expected", (size_t)(c->end - c->p));
	return true;
}

bool rr_match_body(struct rr_env *e, const struct rr_item *items, const uint8_t *buf,
		   uint32_t len, char *why, size_t cap)
{
	struct cmp c = { .e = e, .why = why, .cap = cap };

	return body_matches(&c, items, buf, len);
}

/* --- chunks --- */

/* Gives the chunk a name, under which later steps read, write or return it. Nothing of it has
 * been pulled yet. */
static void keep_chunk(struct cmp *c, const char *name, const struct rr_chunk *ch)
{
	struct rr_var *v = rr_env_var(c->e, name);

	v->mem = v->theirs = true;
	v->chunk = *ch;
	v->at = NULL;
	v->len = 0;
}

/* Compares a chunk that the peer returns with the one that was sent: the same segments, but for
 * the lengths, which the line gives and which may not grow (RFC 8166 §3.4.6). A requester's
 * chunk is not returned but offered: the line gives it a name, and it may be anything. */
static bool returned(struct cmp *c, const char *what, const struct rr_item *it,
		     const struct rr_chunk *sent, const struct rr_chunk *got)
{
	const struct rr_field *len = it->lens;

	if (it->name) {
		heeds(c, c->start + got->at, 16 * got->n, RR_HEED_NONE);
		keep_chunk(c, it->name, got);
		return true;
	}
	if (!sent)
		return NO(c, "%s that was not offered", what);
	if (got->n != sent->n)
		return NO(c, "%s of %u segments, %u were offered", what, got->n, sent->n);
	for (uint32_t i = 0; i < got->n; i++, len = len ? len->next : NULL) {
		const struct rr_seg *g = &got->seg[i], *s = &sent->seg[i];

		if (g->handle != s->handle || g->offset != s->offset)
			return NO(c,
				  "%s, segment %u: handle and offset are not those that were "
				  "offered", what, i);
		if (g->length > s->length)
			return NO(c, "%s, segment %u: %u bytes, of %u that were offered", what,
				  i, g->length, s->length);
		if (len)
			heeds_pat(c, c->start + got->at + 16 * i + 4, &len->pat);
		if (len && !word_is(c, what, &len->pat, g->length))
			return false;
	}
	return !len || NO(c, "%s of %u segments, fewer than expected", what, got->n);
}

/* The chunks of the last message that was sent with this XID; NULL if there were none, or too
 * many messages since. */
static const struct rr_sent *sent_with(struct rr_env *e, uint32_t xid)
{
	for (uint32_t i = e->nsent; i > 0 && i + RR_SENT > e->nsent; i--)
		if (e->sent[(i - 1) % RR_SENT].xid == xid)
			return &e->sent[(i - 1) % RR_SENT];
	return NULL;
}

/* Compares the Read segments of one line: those that follow each other with the same position
 * are one chunk. *at moves behind them. */
static bool read_matches(struct cmp *c, const struct rr_item *it, const struct rr_seen *s,
			 uint32_t *at)
{
	struct rr_chunk ch = { 0 };
	uint32_t position;

	if (*at == s->nreads)
		return NO(c, "fewer Read chunks than expected");
	position = s->read[*at].position;
	while (*at < s->nreads && s->read[*at].position == position) {
		heeds_pat(c, c->start + s->read[*at].at - 4, &it->pat);
		heeds(c, c->start + s->read[*at].at, 16, RR_HEED_NONE);
		ch.seg[ch.n++] = s->read[(*at)++].seg;
	}
	if (!word_is(c, "position of a Read chunk", &it->pat, position))
		return false;
	if (it->name)
		keep_chunk(c, it->name, &ch);
	return true;
}

static bool write_matches(struct cmp *c, const struct rr_item *it, const struct rr_seen *s,
			  const struct rr_sent *sent, uint32_t i)
{
	if (i >= s->nwrites)
		return NO(c, "fewer Write chunks than expected");
	return returned(c, "a Write chunk", it, sent &&
			i < sent->nwrites ? &sent->write[i] : NULL, &s->write[i]);
}

static bool reply_matches(struct cmp *c, const struct rr_item *it, const struct rr_seen *s,
			  const struct rr_sent *sent)
{
	if (!s->has_reply)
		return NO(c, "no Reply chunk");
	return returned(c, "the Reply chunk", it, sent && sent->has_reply ? &sent->reply : NULL,
			&s->reply);
}

/* Compares the chunk lists. Each chunk needs a line, and a chunk without a line must not be
 * there. "lists any" ends the comparison. */
static bool lists_match(struct cmp *c, const struct rr_item *items, const struct rr_seen *s)
{
	const struct rr_sent *sent = sent_with(c->e, s->xid);
	uint32_t reads = 0, writes = 0, replies = 0;
	bool ok = true;

	for (const struct rr_item *it = items; it && ok; it = it->next) {
		if (it->kind == RR_I_LISTS) {
			heeds(c, c->start + s->lists_at, s->lists_end - s->lists_at,
			      RR_HEED_NONE);
			return true;
		}
		if (it->kind == RR_I_READ)
			ok = read_matches(c, it, s, &reads);
		else if (it->kind == RR_I_WRITE)
			ok = write_matches(c, it, s, sent, writes++);
		else if (it->kind == RR_I_REPLY)
			ok = reply_matches(c, it, s, sent), replies++;
	}
	if (!ok)
		return false;
	if (reads != s->nreads)
		return NO(c, "a Read list, or more of it than expected");
	if (writes != s->nwrites)
		return NO(c, "a Write list, or more of it than expected");
	return replies || !s->has_reply || NO(c, "a Reply chunk");
}

/* --- properties --- */

/* Finds property id among those of a CONNPROP: *v is its value as a word (0 if it has another
 * length), *at where the value is. The lengths are the peer's: one that reaches beyond the body
 * ends the search. */
static bool find_prop(const struct rr_seen *s, uint32_t id, uint32_t *v, const uint8_t **at)
{
	const uint8_t *p = s->body + 4, *end = s->body + s->body_len;

	while (s->body_len >= 4 && end - p >= 8) {
		uint32_t len = rr_word(p + 4);

		if (len > (size_t)(end - p - 8))
			return false;
		if (rr_word(p) == id) {
			*v = len == 4 ? rr_word(p + 8) : 0;
			*at = p + 8;
			return true;
		}
		p += rr_min((size_t)(end - p), (size_t)8 + rr_align((size_t)len, (size_t)4));
	}
	return false;
}

/* Properties that the case does not name may be there as well; a peer may know more than the
 * case. */
static bool props_match(struct cmp *c, const struct rr_item *items, const struct rr_seen *s)
{
	heeds(c, s->body, s->body_len, RR_HEED_NONE);
	for (const struct rr_item *it = items; it; it = it->next) {
		uint32_t id = (uint32_t)rr_env_eval(c->e, &it->a), v;
		const uint8_t *at;

		if (it->kind != RR_I_PROP)
			continue;
		if (!find_prop(s, id, &v, &at))
			return NO(c, "property %u is not there", id);
		if (it->lens)
			heeds_pat(c, at, &it->lens->pat);
		if (it->lens && !word_is(c, "property", &it->lens->pat, v))
			return false;
	}
	return true;
}

/* --- headers --- */

/* Notes which words before the lists may have any value: where a pattern says so, and where a
 * case cannot say anything. */
static void heeds_header(struct cmp *c, const struct rr_step *step, const struct rr_seen *s)
{
	static const struct { const char *name; uint8_t how; } unsaid[] = {
		{ "credit", RR_HEED_RANGE }, { "inv", RR_HEED_NONE }, { "align", RR_HEED_NONE },
		{ "thresh", RR_HEED_NONE },
		{ "xid", RR_HEED_NONE },	/* the last: a requester's own */
	};
	size_t n = rr_array_size(unsaid) - (c->e->role == RR_RESPONDER);
	uint32_t at;

	for (size_t i = 0; i < n; i++)
		if (rr_seen_at(s, unsaid[i].name, &at))
			heeds(c, c->start + at, 4, unsaid[i].how);
	for (const struct rr_field *f = step->fields; f; f = f->next)
		if (rr_seen_at(s, f->name, &at))
			heeds_pat(c, c->start + at, &f->pat);
}

/* Compares fields that must be right even if the case does not give them. */
static bool prefix_matches(struct cmp *c, const struct rr_step *step, const struct rr_seen *s)
{
	bool response = c->e->role == RR_RESPONDER;
	struct rr_env *e = c->e;

	if (response && !is_or(c, step->fields, "xid", rr_env_num(e, "xid"), s->xid))
		return false;
	if (!is_or(c, step->fields, "vers", rr_dialect_version(e->dialect), s->vers))
		return false;
	if (rr_layout(e->dialect, s->vers) == RR_DIALECT_V2 &&
	    !is_or(c, step->fields, "flags", response, s->flags))
		return false;
	if (!rr_field_pat(step->fields, "credit") && s->credit == 0)
		return NO(c, "credit is 0");
	return true;
}

/* The value of a field: a word of the message, its size, or the handle that it invalidated. */
static bool find_field(const struct cmp *c, const struct rr_seen *s, const char *name,
		       uint32_t *v)
{
	if (!strcmp(name, "size"))
		*v = s->size;
	else if (!strcmp(name, "invalidated"))
		*v = c->e->invalidated;
	else
		return rr_seen_field(s, name, v);
	return true;
}

/* Compares the fields that the case gives. A field that this message does not have is a failure
 * too. */
static bool fields_match(struct cmp *c, const struct rr_step *step, const struct rr_seen *s)
{
	for (const struct rr_field *f = step->fields; f; f = f->next) {
		uint32_t v;

		if (!find_field(c, s, f->name, &v))
			return NO(c, "there is no field %s", f->name);
		if (!word_is(c, f->name, &f->pat, v))
			return false;
	}
	return true;
}

/* The order matters for the reason that is reported: first whether it is a message at all, then
 * its kind, then the words. `grant` and `xid` are set for the steps that follow. */
bool rr_match_message(struct rr_env *e, const struct rr_step *step, const uint8_t *buf,
		      uint32_t len, char *why, size_t cap)
{
	struct cmp c = { .e = e, .why = why, .cap = cap };
	struct rr_seen s;
	const char *bad = rr_seen_read(e->dialect, buf, len, &s);

	c.start = buf;
	if (step->kind == RR_K_RAW)
		return body_matches(&c, step->items, buf, len);
	if (bad)
		return NO(&c, "%s", bad);
	if (s.kind != step->kind && !rr_field_pat(step->fields, "proc"))
		return NO(&c, "%s came, expected %s", rr_kind_names[s.kind],
			  rr_kind_names[step->kind]);
	if (!fields_match(&c, step, &s) || !prefix_matches(&c, step, &s))
		return false;
	heeds_header(&c, step, &s);
	rr_env_set(e, "grant", s.credit);
	rr_env_set(e, "xid", s.xid);
	if (s.kind == RR_K_CONNPROP)
		return props_match(&c, step->items, &s);
	if (rr_kind_has_lists(s.kind) && !lists_match(&c, step->items, &s))
		return false;
	if (s.kind == RR_K_ERROR && s.body_len)
		return NO(&c, "%u bytes behind the error", s.body_len);
	return body_matches(&c, step->items, s.body, s.body_len);
}

void rr_match_describe(enum rr_dialect d, const uint8_t *buf, uint32_t len, char *out,
		       size_t cap)
{
	struct rr_seen s;
	const char *bad = rr_seen_read(d, buf, len, &s);

	if (bad)
		snprintf(out, cap, "%u bytes, %s", len, bad);
	else if (s.kind == RR_K_ERROR)
		snprintf(out, cap, "error xid=0x%x vers=%u err=%u", s.xid, s.vers, s.err);
	else
		snprintf(out, cap,
			 "%s xid=0x%x vers=%u credit=%u, %u Read segments, %u Write chunks%s, "
			 "%u bytes behind",
			 rr_kind_names[s.kind], s.xid, s.vers, s.credit, s.nreads, s.nwrites,
			 s.has_reply ? ", a Reply chunk" : "", s.body_len);
}
