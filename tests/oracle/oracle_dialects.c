/* SPDX-License-Identifier: BSD-3-Clause */
/* req: draft-02 4.2 #1; slides - #1 */
/* What dialects draft02 and slides have more than version 1 against rpcgen's codecs: the
 * error with eight words, and the two header types of reverse messages. */
#include "core/wire/v1.h"
#include "oracle/rpcrdma_draft02.h"
#include "oracle/rpcrdma_slides.h"
#include "tests/lib/msgs.h"
#include "tests/oracle/oracle.h"

#define ROUNDS	4000
#define BUF	256u

/* Decodes len bytes as a T, and has it freed. The bytes used, 0 if malformed. */
#define XDR_IN(T, buf, len, out) ({ \
	XDR x_; \
	memset((out), 0, sizeof(*(out))); \
	xdrmem_create(&x_, (char *)(uintptr_t)(buf), (len), XDR_DECODE); \
	uint32_t used_ = xdr_##T(&x_, (out)) ? xdr_getpos(&x_) : 0; \
	used_; \
})

#define XDR_OUT(T, in, buf) ({ \
	XDR x_; \
	xdrmem_create(&x_, (char *)(buf), BUF, XDR_ENCODE); \
	check(xdr_##T(&x_, (in))); \
	xdr_getpos(&x_); \
})

static void spoil(uint64_t *seed, uint8_t *buf, uint32_t len)
{
	uint8_t *p = buf + 4 * rng_below(seed, len / 4);

	if (rng_below(seed, 2))
		rr_put_be32(p, rng_below(seed, 8));
	else
		p[3] ^= (uint8_t)rng_next(seed);
}

/* --- draft02 --- */

static void compare_error(const uint8_t *buf, uint32_t len)
{
	static struct rr_msg m;
	uint8_t *p = tight(buf, len);
	struct draft_errmsg e;
	uint32_t used = XDR_IN(draft_errmsg, p, len, &e);
	bool legal = used && e.rdma_vers == 1 && e.rdma_proc == RDMA_ERROR;
	enum rr_wire_rc rc = rr_draft02_codec.decode(p, len, &m);

	if (rc != RR_WIRE_OK || m.type != RR_ERROR) {
		check(!legal);
	} else {
		check(legal && used == m.hdr_len);
		check(m.xid == e.rdma_xid && m.credit == e.rdma_credit);
		check(m.err == e.rdma_error.err);
		if (m.err == ERR_VERS) {
			check(m.vers_low == e.rdma_error.draft_error_u.range.rdma_vers_low);
			check(m.vers_high == e.rdma_error.draft_error_u.range.rdma_vers_high);
		}
	}
	free(p);
}

static void errors(uint64_t *seed)
{
	struct draft_errmsg e = { (uint32_t)rng_next(seed), 1, (uint32_t)rng_next(seed), RDMA_ERROR,
				  { .err = rng_below(seed, 5) } };
	uint8_t buf[BUF];
	uint32_t len;

	rng_bytes(seed, &e.rdma_error.draft_error_u, sizeof(e.rdma_error.draft_error_u));
	len = XDR_OUT(draft_errmsg, &e, buf);
	compare_error(buf, len);
	compare_error(buf, rng_below(seed, len));
	for (int k = 0; k < 4; k++) {
		spoil(seed, buf, len);
		compare_error(buf, len);
	}
}

/* --- slides --- */

static bool reverse_of(const struct slides_msg *s)
{
	return s->rdma_vers == 1 && (s->rdma_proc == RDMA_BCALL || s->rdma_proc == RDMA_BRPLY);
}

static bool no_chunks(const rpc_rdma_header *h)
{
	return !h->rdma_reads && !h->rdma_writes && !h->rdma_reply;
}

static void compare_reverse(const uint8_t *buf, uint32_t len)
{
	static struct rr_msg m;
	uint8_t *p = tight(buf, len);
	struct slides_msg s;
	uint32_t used = XDR_IN(slides_msg, p, len, &s);
	bool legal = used && reverse_of(&s) && no_chunks(&s.rdma_msg);
	enum rr_wire_rc rc = rr_slides_codec.decode(p, len, &m);

	if (rc != RR_WIRE_OK || !m.reverse) {
		check(!legal);
	} else {
		check(legal && used == m.hdr_len && m.type == RR_MSG);
		check(m.xid == s.rdma_xid && m.credit == s.rdma_credit);
		check(m.dir == (s.rdma_proc == RDMA_BCALL ? RR_DIR_CALL : RR_DIR_REPLY));
	}
	xdr_free((xdrproc_t)xdr_slides_msg, (char *)&s);
	free(p);
}

static void reverses(uint64_t *seed)
{
	struct slides_msg s = { .rdma_vers = 1 };
	uint8_t ours[BUF], theirs[BUF];
	struct rr_msg m;
	uint32_t len;

	rr_msg_init(&m, RR_MSG, (uint32_t)rng_next(seed), 1, (uint32_t)rng_next(seed));
	m.reverse = true;
	m.dir = rng_below(seed, 2) ? RR_DIR_CALL : RR_DIR_REPLY;
	s.rdma_xid = m.xid;
	s.rdma_credit = m.credit;
	s.rdma_proc = m.dir == RR_DIR_CALL ? RDMA_BCALL : RDMA_BRPLY;
	len = XDR_OUT(slides_msg, &s, theirs);
	check(rr_slides_codec.encode(&m, ours, sizeof(ours)) == len);
	check(memcmp(ours, theirs, len) == 0);
	compare_reverse(ours, len);
	compare_reverse(ours, rng_below(seed, len));
	memset(ours + len, 0, 64);
	for (int k = 0; k < 4; k++) {
		spoil(seed, ours, len);
		compare_reverse(ours, len + 64);
	}
}

int main(void)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t seed = round_seed = i;

		errors(&seed);
		reverses(&seed);
	}
	printf("%d headers\n", 2 * ROUNDS);
	return 0;
}
