/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_ULB_MSG_H
#define RR_TEST_ULB_MSG_H

/* RPC messages for the tests of core/ulb: built word by word, reduced by hand, looked at from
 * exact-size blocks. */

#include <criterion/criterion.h>

#include "core/ulb/ulb.h"
#include "core/wire/rpc.h"
#include "tests/unit/ulb_vectors.h"

#define NFS	100003u

struct msg {
	uint32_t n;
	uint8_t b[16384];
};

static struct rr_ulb_call call;
static struct rr_ulb_reply reply;

#define W(m, ...) ((m)->n += WORDS((m)->b + (m)->n, __VA_ARGS__))

/* Length word, len bytes, padding that is not zero. */
static RR_UNUSED void add_opaque(struct msg *m, uint32_t len)
{
	W(m, len);
	memset(m->b + m->n, 'x', len);
	memset(m->b + m->n + len, 0xff, rr_ulb_pad(len));
	m->n += len + rr_ulb_pad(len);
}

static RR_UNUSED void begin_call(struct msg *m, uint32_t prog, uint32_t vers, uint32_t proc)
{
	m->n = 0;
	W(m, 7, 0, 2, prog, vers, proc, RR_AUTH_NONE, 0, RR_AUTH_NONE, 0);
}

/* RFC 2203 §5.3.1: a credential with a handle of five bytes, a verifier of three words */
static RR_UNUSED void begin_gss(struct msg *m, uint32_t vers, uint32_t gss_vers,
				uint32_t gss_proc, uint32_t service)
{
	m->n = 0;
	W(m, 7, 0, 2, NFS, vers, 0, RR_RPCSEC_GSS, 28, gss_vers, gss_proc, 99, service);
	add_opaque(m, 5);
	W(m, RR_RPCSEC_GSS);
	add_opaque(m, 12);
}

static RR_UNUSED void set_proc(struct msg *m, uint32_t proc)
{
	rr_put_be32(m->b + 20, proc);
}

static RR_UNUSED void begin_reply(struct msg *m, uint32_t verf)
{
	m->n = 0;
	W(m, 7, 1, 0, RR_AUTH_NONE);
	add_opaque(m, verf);
	W(m, 0);
}

static RR_UNUSED void add_words(struct msg *m, uint32_t n)
{
	while (n--)
		W(m, 1);
}

static RR_UNUSED void from_vector(struct msg *m, const struct vector *v)
{
	m->n = put_words(m->b, v->w, v->n);
}

/* Takes n bytes out at pos: what reduction does. */
static RR_UNUSED void cut(struct msg *m, uint32_t pos, uint32_t n)
{
	memmove(m->b + pos, m->b + pos + n, m->n - pos - n);
	m->n -= n;
}

/* The stream of m, of which have bytes are here and len are to come in all. */
static RR_UNUSED enum rr_ulb_rc look_part(const struct msg *m, uint32_t have, uint32_t len,
					  uint32_t session_max)
{
	uint8_t *p = edged(m->b, have);
	struct rr_ulb_view v = { .buf = p, .have = have, .len = len };
	enum rr_ulb_rc rc;

	memset(&call, 0xee, sizeof(call));
	rc = rr_ulb_call(&v, session_max, &call);
	edge_back();
	return rc;
}

static RR_UNUSED enum rr_ulb_rc look(const struct msg *m)
{
	return look_part(m, m->n, m->n, 0);
}

static RR_UNUSED enum rr_ulb_rc look_chunks(const struct msg *m, const struct rr_ulb_chunk *c,
					    uint32_t n)
{
	uint8_t *p = edged(m->b, m->n);
	struct rr_ulb_view v = { .buf = p, .have = m->n, .len = m->n, .chunks = c, .nchunks = n };
	enum rr_ulb_rc rc;

	memset(&call, 0xee, sizeof(call));
	rc = rr_ulb_call(&v, 0, &call);
	edge_back();
	return rc;
}

static RR_UNUSED enum rr_ulb_rc look_reply(const struct rr_ulb_rec *rec, const struct msg *m,
					   const struct rr_ulb_chunk *c, uint32_t n)
{
	uint8_t *p = edged(m->b, m->n);
	struct rr_ulb_view v = { .buf = p, .have = m->n, .len = m->n, .chunks = c, .nchunks = n };
	enum rr_ulb_rc rc;

	memset(&reply, 0xee, sizeof(reply));
	rc = rr_ulb_reply(rec, &v, &reply);
	edge_back();
	return rc;
}

static RR_UNUSED void is_item(const struct rr_ulb_item *it, uint32_t pos, uint32_t len)
{
	cr_assert_eq(it->pos, pos, "%u, not %u", it->pos, pos);
	cr_assert_eq(it->len, len, "%u, not %u", it->len, len);
	cr_assert_eq(it->pos % 4, 0);
}

/* Nothing may be reduced, nothing is known. */
static RR_UNUSED void is_nothing(void)
{
	cr_assert_eq(call.nargs, 0);
	cr_assert_eq(call.nresults, 0);
	cr_assert_eq(call.reply_max, RR_ULB_UNKNOWN);
	cr_assert_eq(call.reply_rest, RR_ULB_UNKNOWN);
	cr_assert_not(call.rec.reduce);
	cr_assert_eq(call.rec.binding, 0);
}

/* RPC header of a reply with the largest verifier (RFC 5531 §8.2). */
#define HEADER	424u

#endif
