/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes and decodes struct rr_hello as tagged fields (hello.h). The bytes come from the peer,
 * so each length is checked before it is used; whether the values make sense is for the caller
 * to judge. */

#include <assert.h>

#include "core/nego/hello.h"

#define FIELD_HDR	4u

/* Tags are never reused: 2 was the host's identity without a key. */
enum { TAG_TOKEN = 1, TAG_PROV = 3, TAG_HOST = 4, TAG_ENDS = 5, TAG_RELEASE = 6, TAG_LACK = 7,
       TAG_WORDS = 16 };

/* Fields of one word have the tags from TAG_WORDS on, in this order; append only. */
static const uint16_t word_at[] = {
	offsetof(struct rr_hello, caps),
	offsetof(struct rr_hello, inline_size),
	offsetof(struct rr_hello, recvs),
	offsetof(struct rr_hello, credits),
	offsetof(struct rr_hello, bc_credits),
	offsetof(struct rr_hello, max_msg),
	offsetof(struct rr_hello, dialects),
	offsetof(struct rr_hello, asks),
};

/* Room for the value of a new field, for the caller to fill in; NULL if it does not fit. */
static uint8_t *put_field(struct rr_wcur *c, uint32_t tag, uint32_t len)
{
	uint8_t *p = rr_wcur_take(c, FIELD_HDR + rr_align(len, 4u));

	if (!p)
		return NULL;
	rr_put_be32(p, tag << 16 | len);
	memset(p + FIELD_HDR + len, 0, rr_align(len, 4u) - len);
	return p + FIELD_HDR;
}

static void put_bytes(struct rr_wcur *c, uint32_t tag, const uint8_t *bytes, uint32_t len)
{
	uint8_t *p = put_field(c, tag, len);

	if (p)
		memcpy(p, bytes, len);
}

/* An unknown identity is not written: a missing field counts as zeroes. */
static void put_ident(struct rr_wcur *c, uint32_t tag, const uint8_t id[RR_IDENT])
{
	static const uint8_t unknown[RR_IDENT];

	if (memcmp(id, unknown, RR_IDENT) != 0)
		put_bytes(c, tag, id, RR_IDENT);
}

/* Zeroes are not written: a missing word counts as zero. */
static void put_word(struct rr_wcur *c, uint32_t i, const struct rr_hello *h)
{
	uint8_t *p;
	uint32_t v;

	memcpy(&v, (const uint8_t *)h + word_at[i], 4);
	p = v ? put_field(c, TAG_WORDS + i, 4) : NULL;
	if (p)
		rr_put_be32(p, v);
}

/* One field for each provider. The length of the address follows from the field's. */
static void put_prov(struct rr_wcur *c, uint8_t id, const struct rr_prov_addr *addr)
{
	uint8_t *p;

	assert(addr->len <= RR_PROV_ADDR);
	p = put_field(c, TAG_PROV, 1 + addr->len);
	if (!p)
		return;
	p[0] = id;
	memcpy(p + 1, addr->bytes, addr->len);
}

/* Only for a client that asks. If nothing is lacking the field is left out. */
static void put_release_and_lack(struct rr_wcur *c, const struct rr_hello *h)
{
	uint32_t len = 0;
	uint8_t *p;

	while (len < RR_NEGO_RELEASE - 1 && h->release[len])
		len++;
	if (!len)
		return;
	put_bytes(c, TAG_RELEASE, (const uint8_t *)h->release, len);
	p = h->nlack ? put_field(c, TAG_LACK, 2 * h->nlack) : NULL;
	for (uint32_t i = 0; p && i < h->nlack; i++) {
		p[2 * i] = h->lack[i].id;
		p[2 * i + 1] = h->lack[i].why;
	}
}

void rr_hello_put_told(struct rr_wcur *c, const struct rr_hello *h)
{
	assert(h->nlack <= RR_NEGO_PROVS);
	put_bytes(c, TAG_TOKEN, h->token, sizeof(h->token));
	put_release_and_lack(c, h);
}

/* A cursor that is full remembers that; the caller asks once, at the end. */
void rr_hello_put(struct rr_wcur *c, const struct rr_hello *h)
{
	assert(h->nprov <= RR_NEGO_PROVS && h->nlack <= RR_NEGO_PROVS);
	put_bytes(c, TAG_TOKEN, h->token, sizeof(h->token));
	put_ident(c, TAG_HOST, h->host);
	put_ident(c, TAG_ENDS, h->ends);
	for (uint32_t i = 0; i < rr_array_size(word_at); i++)
		put_word(c, i, h);
	for (uint32_t i = 0; i < h->nprov; i++)
		put_prov(c, h->prov[i].id, &h->prov[i].addr);
	put_release_and_lack(c, h);
}

struct field {
	uint32_t tag, len;
	const uint8_t *value;
};

/* The next field; false at the end, or with the cursor failed if the field is longer than what
 * is left or its padding is not zero. */
static bool get_field(struct rr_rcur *c, struct field *f)
{
	uint32_t word, padded;

	if (rr_rcur_left(c) == 0)
		return false;
	word = rr_get_u32(c);
	f->tag = word >> 16;
	f->len = word & 0xffff;
	f->value = c->p;
	padded = rr_align(f->len, 4u);
	if (rr_rcur_left(c) < padded) {
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
		return false;
	}
	for (uint32_t i = f->len; i < padded; i++)
		if (f->value[i] != 0)
			rr_rcur_fail(c, RR_WIRE_BAD_XDR);
	if (c->rc == RR_WIRE_OK)
		c->p += padded;
	return c->rc == RR_WIRE_OK;
}

/* False: the length is not the one that this tag has. */
static bool get_field_bytes(const struct field *f, uint8_t *out, uint32_t len)
{
	if (f->len != len)
		return false;
	memcpy(out, f->value, len);
	return true;
}

/* Takes one provider's address. An address longer than ours, or one too many, is skipped
 * without error: a newer peer may have it. False: malformed. */
static bool get_prov(const struct field *f, struct rr_hello *h)
{
	if (f->len < 1)
		return false;
	if (f->len - 1 > RR_PROV_ADDR || h->nprov == RR_NEGO_PROVS)
		return true;
	h->prov[h->nprov].id = f->value[0];
	h->prov[h->nprov].addr.len = (uint16_t)(f->len - 1);
	memcpy(h->prov[h->nprov].addr.bytes, f->value + 1, f->len - 1);
	h->nprov++;
	return true;
}

/* The text is the peer's: its length is checked here, and it may have any characters. */
static bool get_release(const struct field *f, struct rr_hello *h)
{
	if (f->len == 0 || f->len >= RR_NEGO_RELEASE)
		return false;
	memcpy(h->release, f->value, f->len);
	return true;
}

/* Pairs of a provider and a reason. Those that are too many are skipped, as providers are. */
static bool get_lack(const struct field *f, struct rr_hello *h)
{
	h->nlack = rr_min(f->len / 2, RR_NEGO_PROVS);
	for (uint32_t i = 0; i < h->nlack; i++)
		h->lack[i] = (struct rr_nego_lack){ f->value[2 * i], f->value[2 * i + 1] };
	return f->len % 2 == 0;
}

static bool get_field_word(const struct field *f, struct rr_hello *h)
{
	uint32_t v;

	if (f->len != 4)
		return false;
	v = rr_be32(f->value);
	memcpy((uint8_t *)h + word_at[f->tag - TAG_WORDS], &v, 4);
	return true;
}

/* A tag that is not known comes from a newer peer, and is skipped. */
static bool is_known_tag(uint32_t tag)
{
	return tag == TAG_TOKEN || (tag >= TAG_PROV && tag <= TAG_LACK) ||
	       (tag >= TAG_WORDS && tag < TAG_WORDS + rr_array_size(word_at));
}

static bool get_known(const struct field *f, struct rr_hello *h)
{
	switch (f->tag) {
	case TAG_TOKEN:
		return get_field_bytes(f, h->token, sizeof(h->token));
	case TAG_HOST:
		return get_field_bytes(f, h->host, sizeof(h->host));
	case TAG_ENDS:
		return get_field_bytes(f, h->ends, sizeof(h->ends));
	case TAG_PROV:
		return get_prov(f, h);
	case TAG_RELEASE:
		return get_release(f, h);
	case TAG_LACK:
		return get_lack(f, h);
	default:
		return get_field_word(f, h);
	}
}

/* A hello without a token is none. A known field that comes twice could mean two things, so it
 * makes the hello malformed; only providers may repeat, and their order counts. */
bool rr_hello_get(struct rr_rcur *c, struct rr_hello *h)
{
	uint32_t seen = 0;	/* a bit for each known tag but TAG_PROV */
	struct field f;

	memset(h, 0, sizeof(*h));
	while (get_field(c, &f)) {
		if (!is_known_tag(f.tag))
			continue;
		if (!get_known(&f, h) || seen & 1u << f.tag)
			return false;
		if (f.tag != TAG_PROV)
			seen |= 1u << f.tag;
	}
	return c->rc == RR_WIRE_OK && seen & 1u << TAG_TOKEN;
}
