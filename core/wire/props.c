/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes and decodes transport properties; the table has a row for each that we know. */

#include "core/wire/cursor.h"
#include "core/wire/props.h"

#define ITEM_MIN	8u	/* which, length of the data */
#define VALUE_LEN	4u

static const struct {
	uint32_t id;		/* rpcrdma2_propid */
	uint32_t dflt;
	uint32_t max;		/* largest value of its type */
} rows[RR_PROP_N] = {
	[RR_PROP_RBSIZ]	= { 1, 4096, UINT32_MAX },
	[RR_PROP_BRS]	= { 2, RR_RVREQSUP_INLINE, RR_RVREQSUP_GENL },
	[RR_PROP_DONE]	= { 0x52444d01, 0, 1 },
};

void rr_props_init(struct rr_props *p)
{
	p->given = p->unknown = 0;
	for (uint32_t i = 0; i < RR_PROP_N; i++)
		p->value[i] = rows[i].dflt;
}

/* req: version-two-08 4.1 #1 #2 */
static void get_value(struct rr_rcur *c, struct rr_props *p, uint32_t i, uint32_t len)
{
	uint32_t v = rows[i].dflt;

	if (len == VALUE_LEN)
		v = rr_get_u32(c);
	else if (len != 0)
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
	if (v > rows[i].max)
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
	rr_props_set(p, i, v);
}

static void get_item(struct rr_rcur *c, struct rr_props *p)
{
	uint32_t id = rr_get_u32(c), len = rr_get_u32(c);

	for (uint32_t i = 0; i < RR_PROP_N; i++)
		if (id == rows[i].id) {
			get_value(c, p, i, len);
			return;
		}
	p->unknown++;
	rr_rcur_take(c, len);
	rr_rcur_take(c, -len & 3);
}

/* Ends with the first item that is not there, whatever number the peer has given. */
void rr_props_get(struct rr_rcur *c, struct rr_props *p)
{
	uint32_t n = rr_get_u32(c);

	rr_props_init(p);
	while (n-- && c->rc == RR_WIRE_OK)
		get_item(c, p);
}

static uint32_t count_props(const struct rr_props *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < RR_PROP_N; i++)
		n += p->given >> i & 1;
	return n;
}

void rr_props_put(struct rr_wcur *c, const struct rr_props *p)
{
	rr_put_u32(c, count_props(p));
	for (uint32_t i = 0; i < RR_PROP_N; i++) {
		if (!(p->given & 1u << i))
			continue;
		rr_put_u32(c, rows[i].id);
		rr_put_u32(c, VALUE_LEN);
		rr_put_u32(c, p->value[i]);
	}
}

uint32_t rr_props_size(const struct rr_props *p)
{
	return 4 + count_props(p) * (ITEM_MIN + VALUE_LEN);
}

/* --- subsets --- */

bool rr_propsubset_has(const struct rr_propsubset *s, uint32_t n)
{
	return n / 32 < s->nwords && s->word[n / 32] >> n % 32 & 1;
}

void rr_propsubset_get(struct rr_rcur *c, struct rr_propsubset *s)
{
	uint32_t n = rr_get_u32(c);

	s->nwords = 0;
	if (n > rr_rcur_left(c) / 4)
		rr_rcur_fail(c, RR_WIRE_BAD_XDR);
	else if (n > RR_PROPSUBSET_WORDS)
		rr_rcur_fail(c, RR_WIRE_TOO_MANY);
	else
		while (s->nwords < n)
			s->word[s->nwords++] = rr_get_u32(c);
}

void rr_propsubset_put(struct rr_wcur *c, const struct rr_propsubset *s)
{
	rr_put_u32(c, s->nwords);
	for (uint32_t i = 0; i < s->nwords; i++)
		rr_put_u32(c, s->word[i]);
}
