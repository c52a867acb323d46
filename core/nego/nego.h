/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_NEGO_H
#define RR_NEGO_H

/* How two shims discover each other in-band: one RPC call to our own program number on the
 * app's TCP connection, and its reply (docs/PROTOCOL.md). Encodes, decodes and judges bytes;
 * does no I/O.
 *
 * The offer is one fragment in one write, 4-byte aligned, and at most RR_OFFER_MAX bytes long
 * including its record mark, because real servers reset the connection when a call comes in
 * several fragments, has an odd length or is as long as 16 KiB. Its fields are tagged (type,
 * length, value) and unknown ones are skipped, so that the two shims may be of different
 * versions. */

#include "core/base/types.h"
#include "core/prov/prov.h"

#define RR_OFFER_MAX	512u
#define RR_ANSWER_MAX	512u
#define RR_NEGO_PROVS	4u
#define RR_IDENT	16u		/* core/base/ident.h */
#define RR_NEGO_VERSION	2u
#define RR_NEGO_RELEASE	16u	/* with its NUL */

/* One provider, and the address at which its owner can be reached through it. */
struct rr_nego_prov {
	uint8_t id;			/* struct rr_prov_ops.id */
	struct rr_prov_addr addr;
};

/* A provider of the offer that the server cannot use, and why. */
struct rr_nego_lack {
	uint8_t id;			/* struct rr_prov_ops.id */
	uint8_t why;			/* enum rr_reason; a peer's may be any number */
};

/* What offer and answer both contain. */
struct rr_hello {
	uint32_t version;		/* of this exchange: RR_NEGO_VERSION */
	uint32_t caps;			/* enum rr_cap; the answer holds the agreed ones */
	uint32_t inline_size;		/* the sender's receive size */
	uint32_t recvs;			/* receives it keeps posted */
	uint32_t credits, bc_credits;
	uint32_t max_msg;		/* longest RPC message it takes */
	uint32_t dialects;		/* rr_dialects(); the answer has the one that was
					 * chosen */
	uint32_t asks;			/* offer: not 0, to be told … */
	/* … which release of the library answers, and what it lacks. A server that does not
	 * tell leaves the release empty, and then no answer has either of them. */
	char release[RR_NEGO_RELEASE];
	uint32_t nlack;
	struct rr_nego_lack lack[RR_NEGO_PROVS];
	uint8_t token[RR_TOKEN_LEN];	/* the offer's; the answer repeats it */
	uint8_t host[RR_IDENT];		/* offer: which host it comes from … */
	uint8_t ends[RR_IDENT];		/* … and by which TCP connection, as the client sees
					 * it */
	uint32_t nprov;			/* offer: those on offer, in order; answer: the choice,
					 * 1 */
	struct rr_nego_prov prov[RR_NEGO_PROVS];
};

/* A set of up to four dialects, the preferred one first: one byte for each, from the most
 * significant byte down, which holds enum rr_dialect + 1. An empty set (0) comes from a peer
 * that knows no dialects, and stands for RR_DIALECT_V1. */
static inline uint32_t rr_dialects_add(uint32_t dialects, enum rr_dialect d)
{
	uint32_t shift = 24;

	while (shift && dialects >> shift & 0xff)
		shift -= 8;
	return dialects | ((uint32_t)d + 1) << shift;
}

/* Chooses the first of the offered dialects that is also one of ours; false if there is
 * none. */
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

/* Writes the offer, record mark included. Returns its length, or 0 if that exceeds cap
 * or RR_OFFER_MAX (three addresses of full length fit). */
uint32_t rr_nego_put_offer(const struct rr_hello *h, uint32_t program, uint32_t xid,
			   uint8_t *buf, uint32_t cap);

enum rr_nego {
	RR_NEGO_OTHER,		/* not ours: these bytes are the app's */
	RR_NEGO_PART,		/* may be ours; *need bytes at least are needed to go on */
	RR_NEGO_OURS,		/* ours, *need bytes long, record mark included; h is filled
				 * in */
	RR_NEGO_NO,		/* reply to our offer: no shim there, *need bytes long */
	/* a shim's reply to our offer that declines, *need bytes long: */
	RR_NEGO_DECLINED,	/* without a reason */
	RR_NEGO_ELSEWHERE,	/* it sees other addresses of this connection than we do */
	RR_NEGO_ONE_HOST,	/* both ends are on one host, and it cannot reach our socket */
};

/* Is buf[0..len), at a record boundary, the reply to our offer xid? Any reply with this xid is,
 * in one fragment or several, accepted or denied, whatever its body. So the app must have no
 * call of its own outstanding with the same xid.
 *
 * *need grows from the first record header to the words that decide and on to the end of the
 * record, once that is known, so a caller reads up to *need bytes and asks again with all of
 * them. A shim's answer has at most RR_ANSWER_MAX bytes. RR_NEGO_PART with a larger *need
 * therefore means that the xid matched and that the verdict can only be RR_NEGO_NO: the caller
 * need not store that much, but takes it for RR_NEGO_NO and skips to the record's end with
 * rr_rm_next(), from buf on.
 *
 * h is filled in for RR_NEGO_OURS; the caller compares h->token with its own. For a shim's
 * refusals only what it tells is (release, lack); all else is meaningless. An answer with our
 * magic that makes no sense is RR_NEGO_DECLINED. */
enum rr_nego rr_nego_get_answer(const uint8_t *buf, size_t len, uint32_t xid,
				struct rr_hello *h, uint32_t *need);

/* --- answering side --- */

/* Is buf[0..len), the first bytes of a connection, an offer? Every fixed byte must match, so
 * that an app's own bytes are never swallowed; RR_NEGO_PART as long as the bytes that are there
 * do. h and *xid are filled in for RR_NEGO_OURS only; h->nprov is 0 if none of the addresses
 * has a form that we know. The numbers in h are the peer's: the caller has to bound them. */
enum rr_nego rr_nego_get_offer(const uint8_t *buf, size_t len, uint32_t program,
			       uint32_t *xid, struct rr_hello *h, uint32_t *need);

/* Writes the answer that chooses h->prov[0]; h->nprov must be 1. Returns its length, or 0 if
 * cap is too small; RR_ANSWER_MAX bytes are enough for any. */
uint32_t rr_nego_put_answer(const struct rr_hello *h, uint32_t xid, uint8_t *buf, uint32_t cap);

/* Writes an answer that declines. no is the reason: RR_NEGO_DECLINED, which gives none,
 * RR_NEGO_ELSEWHERE, or RR_NEGO_ONE_HOST, which only a client may be told that has proved to be
 * on this host. tell: has what a client that asks is told, with its token; NULL, or without a
 * release: nothing. */
uint32_t rr_nego_put_refusal(enum rr_nego no, uint32_t xid, const struct rr_hello *tell,
			     uint8_t *buf, uint32_t cap);

/* --- the end mark: last bytes of a carried direction on the TCP connection --- */

/* "This many records went by RDMA before this point": RR_MARK_LEN bytes. It is recognised by
 * the token, which nobody but the two ends knows. */
#define RR_MARK_LEN	24u
void rr_nego_put_mark(uint8_t out[RR_MARK_LEN], const uint8_t token[RR_TOKEN_LEN],
		      uint64_t records);
bool rr_nego_get_mark(const uint8_t *buf, const uint8_t token[RR_TOKEN_LEN], uint64_t *records);

#endif
