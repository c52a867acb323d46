/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the messages that a case describes, byte for byte: also those that no implementation
 * would send. What the case does not say has its usual value. Nothing is checked here but that
 * memory exists and sizes stay within RR_BODY_MAX. */
#include "core/base/compiler.h"
#include "tools/conform/wire.h"

/* The value of a field, or `other` if the case does not give it. */
static uint32_t value(struct rr_env *e, const struct rr_field *fields, const char *name,
		      uint64_t other)
{
	const struct rr_pat *pat = rr_field_pat(fields, name);

	return (uint32_t)(pat ? rr_env_eval(e, &pat->alt[0].lo) : other);
}

/* --- bodies --- */

/* An authenticator of RFC 5531 §8.2: flavor, length, body. Only AUTH_SYS has a body here; a
 * case that needs another writes it as words. */
static void put_auth(struct rr_bytes *out, uint32_t flavor)
{
	/* AUTH_SYS: stamp, machine "conf", uid, gid, no groups */
	static const uint32_t sys[] = { 0, 4, 0x636f6e66, 0, 0, 0 };

	rr_bytes_word(out, flavor);
	rr_bytes_word(out, flavor == 1 ? sizeof(sys) : 0);
	for (size_t i = 0; flavor == 1 && i < rr_array_size(sys); i++)
		rr_bytes_word(out, sys[i]);
}

static void make_rpc_call(struct rr_env *e, const struct rr_item *it, struct rr_bytes *out)
{
	const struct rr_field *f = it->fields;

	rr_bytes_word(out, value(e, f, "xid", rr_env_num(e, "xid")));
	rr_bytes_word(out, value(e, f, "type", 0));
	rr_bytes_word(out, value(e, f, "rpcvers", 2));
	rr_bytes_word(out, value(e, f, "prog", rr_env_num(e, "program")));
	rr_bytes_word(out, value(e, f, "vers", rr_env_num(e, "version")));
	rr_bytes_word(out, value(e, f, "proc", 0));
	put_auth(out, value(e, f, "cred", 0));
	put_auth(out, 0);
}

/* Only an accepted reply has a verifier (RFC 5531 §9). In a denied one `accept` stands for the
 * reason of the denial, which is at the same place. */
static void make_rpc_reply(struct rr_env *e, const struct rr_item *it, struct rr_bytes *out)
{
	const struct rr_field *f = it->fields;
	uint32_t stat = value(e, f, "stat", 0), accept = value(e, f, "accept", 0);

	rr_bytes_word(out, value(e, f, "xid", rr_env_num(e, "xid")));
	rr_bytes_word(out, value(e, f, "type", 1));
	rr_bytes_word(out, stat);
	if (stat == 0)
		put_auth(out, 0);
	rr_bytes_word(out, accept);
	if (rr_field_pat(f, "low"))
		rr_bytes_word(out, value(e, f, "low", 0));
	if (rr_field_pat(f, "high"))
		rr_bytes_word(out, value(e, f, "high", 0));
}

static void put_zeroes(struct rr_bytes *out, uint32_t n)
{
	static const uint8_t zero[4];

	rr_bytes_add(out, zero, n);
}

static void put_pattern(struct rr_bytes *out, uint32_t len)
{
	uint8_t *p = rr_bytes_more(out, len);

	for (uint32_t i = 0; i < len; i++)
		p[i] = rr_pattern(i);
}

static void put_fill(struct rr_bytes *out, uint32_t len, int byte)
{
	if (len)
		memset(rr_bytes_more(out, len), byte, len);
}

static void put_copy(struct rr_env *e, const struct rr_segspec *s, struct rr_bytes *out)
{
	uint32_t len;
	const uint8_t *p = rr_env_bytes(e, s, &len);

	rr_bytes_add(out, p, len);
}

/* Appends one line's part of a body. Lengths come from a case and its variables, which the peer
 * can set: so they are bounded before anything is made. */
static void put_item(struct rr_env *e, const struct rr_item *it, struct rr_bytes *out)
{
	uint32_t a;
	uint64_t v;

	if (it->kind < RR_I_RPC_CALL || it->kind >= RR_I_AT)
		return;	/* no part of the body; its positions may be marked later */
	a = (uint32_t)rr_env_eval(e, &it->a);
	v = it->pat.n ? rr_env_eval(e, &it->pat.alt[0].lo) : 0;
	if (a > RR_BODY_MAX || out->len > RR_BODY_MAX) {
		e->too_long = true;
		return;
	}
	switch (it->kind) {
	case RR_I_RPC_CALL: make_rpc_call(e, it, out); break;
	case RR_I_RPC_REPLY: make_rpc_reply(e, it, out); break;
	case RR_I_U64: rr_bytes_word(out, (uint32_t)(v >> 32)); /* fall through */
	case RR_I_U32: rr_bytes_word(out, (uint32_t)v); break;
	case RR_I_HEX: rr_bytes_add(out, it->bytes, it->len); break;
	case RR_I_STRING:
		rr_bytes_word(out, it->len);
		rr_bytes_add(out, it->bytes, it->len);
		put_zeroes(out, -it->len & 3);
		break;
	case RR_I_OPAQUE:
		rr_bytes_word(out, a);
		put_pattern(out, a);
		put_zeroes(out, -a & 3);
		break;
	case RR_I_PATTERN: put_pattern(out, a); break;
	case RR_I_FILL: put_fill(out, a, (int)rr_env_eval(e, &it->b)); break;
	case RR_I_COPY: put_copy(e, it->segs, out); break;
	case RR_I_MARK: rr_env_set(e, it->name, out->len); break;
	default: break;
	}
}

void rr_make_body(struct rr_env *e, const struct rr_item *items, struct rr_bytes *out)
{
	for (const struct rr_item *it = items; it; it = it->next)
		put_item(e, it, out);
}

/* --- chunk lists --- */

/* Adds the segments that one word stands for. Returns false if the name stands for none, or
 * there are too many. A part of memory is always in its first segment; a filled chunk gets its
 * bytes from the first segment on, the others become empty. */
static bool add_segments(struct rr_env *e, const struct rr_segspec *s, struct rr_chunk *ch)
{
	const struct rr_var *v = s->name ? rr_env_find(e, s->name) : NULL;
	uint64_t num[3];

	for (int i = 0; i < 3; i++)
		num[i] = rr_env_eval(e, &s->num[i]);
	if (ch->n + (v ? v->chunk.n : 1) > RR_CHUNK_SEGS || (s->name && (!v || !v->chunk.n)))
		return false;
	if (!s->name) {
		ch->seg[ch->n++] = (struct rr_seg){ (uint32_t)num[0], (uint32_t)num[1],
						    num[2] };
		return true;
	}
	for (uint32_t i = 0; i < (s->part ? 1 : v->chunk.n); i++) {
		struct rr_seg seg = v->chunk.seg[i];

		if (s->part) {
			seg.offset += num[0];
			seg.length = (uint32_t)(s->to_end ? seg.length - num[0] : num[1]);
		} else if (s->filled) {
			seg.length = (uint32_t)rr_min(num[0], (uint64_t)seg.length);
			num[0] -= seg.length;
		}
		ch->seg[ch->n++] = seg;
	}
	return true;
}

/* A plain segment: handle, length, 64-bit offset (RFC 8166 §3.4.3). */
static void make_seg(struct rr_bytes *out, const struct rr_seg *s)
{
	rr_bytes_word(out, s->handle);
	rr_bytes_word(out, s->length);
	rr_bytes_word(out, (uint32_t)(s->offset >> 32));
	rr_bytes_word(out, (uint32_t)s->offset);
}

/* Writes the segments of a line: those of a Read chunk each after its position, others after
 * their count. */
static bool put_segs(struct rr_env *e, const struct rr_item *it, struct rr_chunk *ch,
		     struct rr_bytes *out)
{
	struct rr_chunk all = { 0 };

	for (const struct rr_segspec *s = it->segs; s; s = s->next)
		if (!add_segments(e, s, &all))
			return false;
	if (it->kind != RR_I_READ)
		rr_bytes_word(out, all.n);
	for (uint32_t i = 0; i < all.n; i++) {
		if (it->kind == RR_I_READ) {
			rr_bytes_word(out, 1);
			rr_bytes_word(out, (uint32_t)rr_env_eval(e, &it->a));
		}
		make_seg(out, &all.seg[i]);
	}
	if (ch)
		*ch = all;
	return true;
}

/* Where the chunks of a line are remembered, so that match.c can tell whether a reply returns
 * them; NULL: they are not. */
static struct rr_chunk *remembered(struct rr_sent *sent, enum rr_item_kind kind)
{
	if (kind == RR_I_WRITE && sent->nwrites < RR_SENT_CHUNKS)
		return &sent->write[sent->nwrites++];
	if (kind != RR_I_REPLY)
		return NULL;
	sent->has_reply = true;
	return &sent->reply;
}

/* Writes one of the three lists of a header. The Read and Write lists end with a word of 0; the
 * Reply chunk is optional data, with a 0 only if it is not there (RFC 8166 §4.3). */
static bool put_list(struct rr_env *e, const struct rr_item *items, enum rr_item_kind kind,
		     struct rr_sent *sent, struct rr_bytes *out)
{
	bool any = false;

	for (const struct rr_item *it = items; it; it = it->next) {
		if (it->kind != kind)
			continue;
		any = true;
		if (kind != RR_I_READ)
			rr_bytes_word(out, 1);
		if (!put_segs(e, it, remembered(sent, kind), out))
			return false;
	}
	if (kind != RR_I_REPLY || !any)
		rr_bytes_word(out, 0);
	return true;
}

/* Messages are remembered by XID in a ring; the oldest is overwritten. */
static bool make_lists(struct rr_env *e, const struct rr_step *s, uint32_t xid,
		       struct rr_bytes *out)
{
	struct rr_sent *sent = &e->sent[e->nsent++ % RR_SENT];

	memset(sent, 0, sizeof(*sent));
	sent->xid = xid;
	return put_list(e, s->items, RR_I_READ, sent, out) &&
	       put_list(e, s->items, RR_I_WRITE, sent, out) &&
	       put_list(e, s->items, RR_I_REPLY, sent, out);
}

/* Properties of version 2: their number, then each with its id and its value as opaque. A value
 * is one word, or the bytes that the case gives. */
static void put_props(struct rr_env *e, enum rr_msg_kind kind, const struct rr_item *items,
		      struct rr_bytes *out)
{
	uint32_t n = 0;

	for (const struct rr_item *it = items; it; it = it->next)
		n += it->kind == RR_I_PROP;
	if (n || kind == RR_K_CONNPROP)
		rr_bytes_word(out, n);
	for (const struct rr_item *it = items; it; it = it->next) {
		if (it->kind != RR_I_PROP)
			continue;
		rr_bytes_word(out, (uint32_t)rr_env_eval(e, &it->a));
		rr_bytes_word(out, it->lens ? 4 : it->len);
		if (it->lens)
			rr_bytes_word(out, (uint32_t)rr_env_eval(e, &it->lens->pat.alt[0].lo));
		rr_bytes_add(out, it->bytes, it->len);
		put_zeroes(out, -it->len & 3);
	}
}

/* --- headers --- */

/* The layout is that of the version that the message claims, which a case may choose. */
static enum rr_dialect layout(struct rr_env *e, const struct rr_step *s)
{
	return rr_layout(e->dialect,
			 value(e, s->fields, "vers", rr_dialect_version(e->dialect)));
}

/* The words with which every header begins. Version 2 has a fifth, the flags: RESPONSE is set
 * by the end that answers, and in errors. */
static void put_prefix(struct rr_env *e, const struct rr_step *s, uint32_t number,
		       struct rr_bytes *out)
{
	const struct rr_field *f = s->fields;
	bool response = e->role == RR_REQUESTER || s->kind == RR_K_ERROR;

	rr_bytes_word(out, value(e, f, "xid", rr_env_num(e, "xid")));
	rr_bytes_word(out, value(e, f, "vers", rr_dialect_version(e->dialect)));
	rr_bytes_word(out, value(e, f, "credit", rr_env_num(e, "credits")));
	rr_bytes_word(out, value(e, f, "proc", number));
	if (layout(e, s) == RR_DIALECT_V2 || rr_field_pat(f, "flags"))
		rr_bytes_word(out, value(e, f, "flags", response));
}

/* Words that are written only if the case names them, in the order of names. */
static void put_named(struct rr_env *e, const struct rr_step *s, const char *const *names,
		      struct rr_bytes *out)
{
	for (; *names; names++)
		if (rr_field_pat(s->fields, *names))
			rr_bytes_word(out, value(e, s->fields, *names, 0));
}

/* A kind without lists gets some if the case gives chunks all the same. */
static bool has_lists(const struct rr_step *s)
{
	for (const struct rr_item *it = s->items; it; it = it->next)
		if (it->kind == RR_I_READ || it->kind == RR_I_WRITE || it->kind == RR_I_REPLY)
			return true;
	return rr_kind_has_lists(s->kind);
}

/* A raw message has no header at all. The lists are remembered under the first word, which is
 * the XID that was really written. */
static bool put_header(struct rr_env *e, const struct rr_step *s, struct rr_bytes *out)
{
	static const char *const arms[] = { "err", "low", "high", "limit", "chunk", "needed",
					    NULL };
	uint32_t number;

	if (s->kind == RR_K_RAW)
		return true;
	rr_kind_number(e->dialect, s->kind, &number);
	put_prefix(e, s, number, out);
	if (s->kind == RR_K_MSGP) {
		rr_bytes_word(out, value(e, s->fields, "align", 0));
		rr_bytes_word(out, value(e, s->fields, "thresh", 0));
	}
	put_named(e, s, arms, out);
	if (layout(e, s) == RR_DIALECT_V2 && has_lists(s))
		rr_bytes_word(out, value(e, s->fields, "inv", 0));
	put_props(e, s->kind, s->items, out);
	return !has_lists(s) || make_lists(e, s, rr_word(out->p), out);
}

/* Changes the message that is made already: shortens it or overwrites a word. An offset beyond
 * its end is ignored. */
static void change_bytes(struct rr_env *e, const struct rr_item *it, struct rr_bytes *out)
{
	uint64_t a = rr_env_eval(e, &it->a);
	uint32_t b = (uint32_t)rr_env_eval(e, &it->b);

	if (it->kind == RR_I_CUT && a < out->len)
		out->len = (size_t)a;
	if (it->kind == RR_I_AT && a + 4 <= out->len)
		for (int i = 0; i < 4; i++)
			out->p[a + (uint64_t)i] = (uint8_t)(b >> (24 - 8 * i));
}

/* The body is made before the header, because a mark in it may be the position of a Read
 * chunk. */
bool rr_make_message(struct rr_env *e, const struct rr_step *s, struct rr_bytes *out, char *why,
		     size_t cap)
{
	struct rr_bytes body = { 0 };
	uint32_t number;
	bool ok;

	out->len = 0;
	if (s->kind < RR_K_OTHER && !rr_field_pat(s->fields, "proc") &&
	    !rr_kind_number(e->dialect, s->kind, &number)) {
		snprintf(why, cap, "dialect %s has no %s", rr_dialect_names[e->dialect],
			 rr_kind_names[s->kind]);
		return false;
	}
	/* The body repeats the XID. */
	if (s->kind != RR_K_RAW && rr_field_pat(s->fields, "xid"))
		rr_env_set(e, "xid", value(e, s->fields, "xid", 0));
	rr_make_body(e, s->items, &body);	/* first, since its marks are positions in the
						 * lists */
	ok = put_header(e, s, out);
	rr_bytes_add(out, body.p, body.len);
	rr_bytes_free(&body);
	for (const struct rr_item *it = s->items; it; it = it->next)
		change_bytes(e, it, out);
	if (!ok)
		snprintf(why, cap, "a segment of what is not exposed");
	return ok;
}
