/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_NEGO_H
#define RR_NEGO_H

/* How two shims find each other in-band: one RPC call on the app's own TCP connection, to
 * our program number, and its reply (docs/PROTOCOL.md). Bytes in, bytes out; no I/O.
 *
 * The offer is one fragment, one write, 4-byte aligned, at most RR_OFFER_MAX bytes with its
 * record mark: real servers reset on several fragments, on odd lengths, on 16 KiB. Fields are
 * tagged (type, length, value); unknown ones are skipped, so versions may differ. */

#include "core/base/types.h"
#include "core/prov/prov.h"

#define RR_OFFER_MAX	512u
#define RR_ANSWER_MAX	512u
#define RR_NEGO_PROVS	4u
#define RR_IDENT	16u		/* core/base/ident.h */
#define RR_NEGO_VERSION	2u

/* A provider, and where it is reached by it. */
struct rr_nego_prov {
	uint8_t id;			/* struct rr_prov_ops.id */
	struct rr_prov_addr addr;
};

/* What both say. */
struct rr_hello {
	uint32_t version;		/* of this exchange: RR_NEGO_VERSION */
	uint32_t caps;			/* enum rr_cap; the answer holds the agreed ones */
	uint32_t inline_size;		/* the sender's receive size */
	uint32_t recvs;			/* receives it keeps posted */
	uint32_t credits, bc_credits;
	uint32_t max_msg;		/* longest RPC message it takes */
	uint32_t dialects;		/* rr_dialects(); the answer has the one that was
					 * chosen */
	uint8_t token[RR_TOKEN_LEN];	/* the offer's; the answer repeats it */
	uint8_t host[RR_IDENT];		/* offer: which host it comes from … */
	uint8_t ends[RR_IDENT];		/* … and by which TCP connection, as the client sees
					 * it */
	uint32_t nprov;			/* offer: those on offer, in order; answer: the choice,
					 * 1 */
	struct rr_nego_prov prov[RR_NEGO_PROVS];
};

/* Up to four dialects, the preferred one first, a byte for each from the highest on: enum
 * rr_dialect + 1. 0: who knows of no others speaks RR_DIALECT_V1. */
static inline uint32_t rr_dialects_add(uint32_t dialects, enum rr_dialect d)
{
	uint32_t shift = 24;

	while (shift && dialects >> shift & 0xff)
		shift -= 8;
	return dialects | ((uint32_t)d + 1) << shift;
}

/* The first of those offered that is among ours, into *d; false: there is none. */
bool rr_dialects_choose(uint32_t offered, uint32_t ours, enum rr_dialect *d);

/* --- offering side --- */

/* Is the app's first write the start of an ONC RPC stream? */
enum rr_sniff {
	RR_SNIFF_RPC,		/* record mark, xid, CALL, RPC version 2 */
	RR_SNIFF_SHORT,		/* under 16 bytes: cannot tell, so no */
	RR_SNIFF_TLS,		/* a call of flavour AUTH_TLS */
	RR_SNIFF_OTHER,
};
enum rr_sniff rr_sniff(const uint8_t *buf, size_t len);

/* Writes the offer, record mark included; its length, or 0 if it does not fit cap or
 * RR_OFFER_MAX (three addresses of full length do). */
uint32_t rr_nego_put_offer(const struct rr_hello *h, uint32_t program, uint32_t xid,
			   uint8_t *buf, uint32_t cap);

enum rr_nego {
	RR_NEGO_OTHER,		/* not ours: these bytes are the app's */
	RR_NEGO_PART,		/* may be ours; *need bytes at least are needed to go on */
	RR_NEGO_OURS,		/* ours, *need bytes long, record mark included; h is filled
				 * in */
	RR_NEGO_NO,		/* reply to our offer: no shim there, *need bytes long */
	RR_NEGO_DECLINED,	/* reply to our offer: a shim that declines, *need bytes long
				 * … */
	RR_NEGO_ELSEWHERE,	/* … since it sees other addresses than we do */
	RR_NEGO_ONE_HOST,	/* … since both are on one host, and it cannot reach our
				 * socket */
};

/* Is buf[0..len), at a record boundary, the reply to our offer xid? A reply of one or of
 * several fragments, accepted or denied, whatever its body: it is ours by its xid. So no
 * call with this xid of the app's own may be outstanding.
 *
 * *need grows from the first header to the judged words to the end of the (known) record,
 * so a caller reads up to *need and asks again with all the bytes. A shim's answer has at
 * most RR_ANSWER_MAX bytes: RR_NEGO_PART with a larger *need says that the xid did match
 * and that the verdict can only be RR_NEGO_NO; the caller, who need not store that much,
 * takes it as such and skips to the record's end with rr_rm_next() from buf on.
 *
 * h is filled in for RR_NEGO_OURS only; the caller compares h->token with its own. An answer
 * with our magic that makes no sense is RR_NEGO_DECLINED. */
enum rr_nego rr_nego_get_answer(const uint8_t *buf, size_t len, uint32_t xid,
				struct rr_hello *h, uint32_t *need);

/* --- answering side --- */

/* Is buf[0..len), the first bytes of a connection, an offer? Checked strictly: every fixed
 * byte of it must be right, so that an app's own bytes are never swallowed. RR_NEGO_PART as
 * long as what is there is right. h and *xid are filled in for RR_NEGO_OURS only; h->nprov is
 * 0 if no address in it is in a form we know. Its numbers are the peer's: bound them. */
enum rr_nego rr_nego_get_offer(const uint8_t *buf, size_t len, uint32_t program,
			       uint32_t *xid, struct rr_hello *h, uint32_t *need);

/* Writes the answer that chooses h->prov[0]; h->nprov is 1. Its length, or 0 if cap is too
 * small; RR_ANSWER_MAX is enough for any. */
uint32_t rr_nego_put_answer(const struct rr_hello *h, uint32_t xid, uint8_t *buf, uint32_t cap);

/* The same that declines: no is RR_NEGO_DECLINED, which says no more than that,
 * RR_NEGO_ELSEWHERE, or RR_NEGO_ONE_HOST, which is only for clients that have shown to be on
 * this host. */
uint32_t rr_nego_put_refusal(enum rr_nego no, uint32_t xid, uint8_t *buf, uint32_t cap);

/* --- the end mark: last bytes of a carried direction on the TCP connection --- */

/* "So many records were sent by RDMA before this": RR_MARK_LEN bytes. The token, which
 * nobody else knows, is what makes it one. */
#define RR_MARK_LEN	24u
void rr_nego_put_mark(uint8_t out[RR_MARK_LEN], const uint8_t token[RR_TOKEN_LEN],
		      uint64_t records);
bool rr_nego_get_mark(const uint8_t *buf, const uint8_t token[RR_TOKEN_LEN], uint64_t *records);

#endif
