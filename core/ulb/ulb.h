/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ULB_H
#define RR_ULB_H

/* Upper-layer bindings (RFC 8166 §6, RFC 8267): which items of an RPC message may be moved in
 * chunks of their own, and how large its reply can get. The binding is chosen for each call by
 * the program and version that it names, never for a connection (RFC 8166 §6.3).
 *
 * Pure and bounded: the time is linear in the bytes that are there, and nothing is kept between
 * calls except struct rr_ulb_rec. The caller keeps that for each XID, because a reply names
 * neither its procedure nor its security service. The bytes may come from anybody.
 *
 *   requester                                  responder
 *   call:  what may be a Read chunk, how       call:  do the Read chunks stand where they
 *          large the reply can get, which             may? what is to be kept for the reply
 *          results may have Write chunks
 *   reply: where the Write chunks' bytes       reply: which of its bytes go into which
 *          belong                                     Write chunk
 *
 * A program is added as a file with a table (binding.h) and a line in bindings.def. */

#include "core/base/types.h"

#define RR_ULB_ITEMS	16u		/* items of one message, at most */
#define RR_ULB_UNKNOWN	UINT32_MAX	/* no bound is known */
/* so many bytes of a call, or all of it, are enough for its rec to be right */
#define RR_ULB_PEEK	440u
#define RR_ULB_INLINE	UINT16_MAX	/* struct rr_ulb_item.chunk: the item has no chunk */

/* What is kept of a call until its reply. Plain bytes, so that it may lie in memory that a
 * family of processes shares. All zero: no binding, nothing may be reduced. */
struct rr_ulb_rec {
	uint8_t binding;	/* index into the registry, plus one; 0 none */
	uint8_t proc;
	uint8_t flavor;		/* of the credential; 255 any above 254 */
	uint8_t gss_proc;	/* RPCSEC_GSS: 0 DATA; 255 any above 254 */
	uint8_t gss_service;	/* RPCSEC_GSS: 1 none, 2 integrity, 3 privacy */
	bool reduce;		/* the binding and the security service allow chunks */
};

/* A DDP-eligible item. */
struct rr_ulb_item {
	uint32_t pos;		/* XDR position: bytes from the start of the RPC message,
				 * before anything was reduced (RFC 8166 §3.4.5). A multiple
				 * of four. */
	uint32_t len;		/* bytes of data, without the roundup padding behind it */
	/* index of its chunk in struct rr_ulb_view.chunks; RR_ULB_INLINE if it has none */
	uint16_t chunk;
	bool placed;		/* its bytes are in that chunk, and not in the stream */
	bool early;		/* optional-data before it is absent */
};

/* XDR roundup padding behind len bytes (RFC 4506 §4.10). */
static inline uint32_t rr_ulb_pad(uint32_t len)
{
	return -len & 3;
}

/* The length of an item together with its padding. */
static inline uint64_t rr_ulb_padded(uint32_t len)
{
	return (uint64_t)len + rr_ulb_pad(len);
}

/* A chunk that came with a message. */
struct rr_ulb_chunk {
	uint32_t pos;		/* Read chunk: its Position, not zero. Write chunk: not looked
				 * at */
	uint32_t len;		/* its segments' lengths together; of a returned Write chunk:
				 * what was written */
};

/* An RPC message, or as much of it as has arrived. */
struct rr_ulb_view {
	const uint8_t *buf;
	uint32_t have;		/* bytes at buf; fewer than len while the rest is still to
				 * come */
	/* bytes of the Payload stream itself, without what the chunks hold */
	uint32_t len;
	bool reads;		/* of a reply: chunks are Read chunks, as of a call (draft-02
				 * §3.4) */
	const struct rr_ulb_chunk *chunks; /* of a call: Read chunks other than the
					    * Position-Zero one, by ascending position, whose
					    * data is not in the stream. Of a reply: the
					    * returned Write list in its order; none for a reply
					    * that the own app has written. */
	uint32_t nchunks;
};

enum rr_ulb_rc {
	/* walked; a COMPOUND perhaps only up to an operation that is not in the table */
	RR_ULB_OK,
	/* no binding, or bytes that do not match it, or too few of them: nothing is eligible,
	 * no bound is known */
	RR_ULB_NONE,
	RR_ULB_VIOLATION,	/* a chunk stands where none may, or with a wrong length (RFC
				 * 8166 §6.1). A call is answered by ERR_CHUNK and not executed;
				 * the RPC that such a reply belongs to has failed */
};

struct rr_ulb_call {
	struct rr_ulb_rec rec;
	uint32_t len;		/* the message's length with its chunks put back; only after
				 * OK */
	uint32_t nargs;
	struct rr_ulb_item args[RR_ULB_ITEMS];	/* eligible arguments, by ascending position */

	/* Executing the call twice does no harm: it changes nothing, and a server that has seen
	 * it before does not drop it, as an NFS session or RPCSEC_GSS would (RFC 2203
	 * §5.3.3.1). */
	bool idempotent;

	/* Bounds of the reply in bytes, from the RPC header on and with the largest verifier
	 * (RFC 8166 §8.2.2.2); RR_ULB_UNKNOWN. */
	uint32_t reply_max;	/* if nothing is reduced */
	/* if all of results[] are; one that is not adds its padded length */
	uint32_t reply_rest;

	/* Eligible results: the largest length of each, without padding, in the order in which
	 * Write chunks are matched with them (RFC 8267 §6.4.1). RR_ULB_UNKNOWN: no bound. */
	uint32_t nresults;
	uint32_t results[RR_ULB_ITEMS];

	/* CREATE_SESSION: the ca_maxresponsesize that the call asks for in the fore and in the
	 * back channel; 0 for any other call. They bound all later replies of the session (RFC
	 * 8267 §6.2.2, §6.5.2), and the caller passes them as session_max from then on. */
	uint32_t fore_max, back_max;
};

struct rr_ulb_reply {
	uint32_t len;		/* the message's length with its chunks put back; only after
				 * OK */
	uint32_t nitems;
	struct rr_ulb_item items[RR_ULB_ITEMS];	/* eligible results, by ascending position */
};

/* Looks at a call. session_max is the largest reply that any session of this connection allows
 * in the call's direction, RR_ULB_UNKNOWN or 0 if there is no session. It applies only to calls
 * that name a session.
 *
 * *out is written whatever the result. After anything but RR_ULB_OK, nothing in it is eligible,
 * its bounds are unknown and out->rec allows nothing; flavor, gss_proc and gss_service are
 * right as far as the header could be read.
 *
 * With have < len, an item is eligible only if its length word lies within have, and no bound
 * is known if the bound depends on what lies beyond. If a word beyond have is needed to judge
 * the chunks, the result is RR_ULB_NONE. */
enum rr_ulb_rc rr_ulb_call(const struct rr_ulb_view *v, uint32_t session_max,
			   struct rr_ulb_call *out);

/* Looks at the reply to the call of which rec was kept.
 *
 * Without chunks (the responder's reply, before it is reduced): items[i] is meant for Write
 * chunk i.
 *
 * With chunks (the requester's, as it arrived): where each chunk belongs. An item that has a
 * chunk, is not placed and has a length other than zero is in the stream although a chunk was
 * provided for it, which is right only if that chunk was empty (RFC 8166 §6.1, §4.3.2.3). */
enum rr_ulb_rc rr_ulb_reply(const struct rr_ulb_rec *rec, const struct rr_ulb_view *v,
			    struct rr_ulb_reply *out);

/* RDMA_MSGP (draft-02 §3.5): padding in front of the data of each opaque<> or string<> of
 * arguments or results that has thresh bytes or more, so that the data starts at a multiple of
 * align. What precedes arguments and results, including credential and verifier, is never
 * padded. */
struct rr_ulb_padding {
	uint32_t align, thresh;	/* the peer's numbers: any value */
	/* offset of the message in its Send, which alignment counts from */
	uint32_t base;
	/* the padding is in the message, and at[] says where; false: at[] says where it is to
	 * be inserted */
	bool there;
	uint32_t n;
	struct { uint32_t pos, len; } at[RR_ULB_ITEMS];	/* bytes of the message as it is,
							 * ascending */
	struct rr_ulb_rec rec;	/* of a call: as struct rr_ulb_call has it */
};

/* Walks a call, or the reply to the call of which rec was kept; all of it must be there,
 * without chunks. Anything but RR_ULB_OK means that padding can neither be found nor inserted:
 * an item is unknown to the binding or hidden by security, or there is more padding than at[]
 * holds. */
enum rr_ulb_rc rr_ulb_pad_call(const struct rr_ulb_view *v, struct rr_ulb_padding *p);
enum rr_ulb_rc rr_ulb_pad_reply(const struct rr_ulb_rec *rec, const struct rr_ulb_view *v,
				struct rr_ulb_padding *p);

/* Is there any binding for this program and version? */
bool rr_ulb_has(uint32_t prog, uint32_t vers);

#endif
