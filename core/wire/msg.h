/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_MSG_H
#define RR_MSG_H

/* One transport header, whatever its version: what the codecs decode into and encode from, and
 * the only form of a header that the engine knows, plain messages aside (v1.h). */

#include <string.h>

#include "core/wire/props.h"

/* Limits of one message. All its chunks draw on one pool of segments, so that a
 * header needs no allocation and a hostile one costs no more than a good one. */
#define RR_MAX_SEGS		128u	/* segments, all chunks together */
#define RR_MAX_WRITE_CHUNKS	16u

/* Part of a Read chunk: a segment and the XDR position it belongs at
 * (RFC 8166 §4.3.1). Position zero means the whole RPC message. */
struct rr_read_seg {
	uint32_t position;
	struct rr_seg seg;
};

/* A Write chunk or Reply chunk (RFC 8166 §4.3.2, §4.3.3): nsegs segments from
 * first on, in struct rr_chunks.segs. nsegs 0 is an empty chunk. */
struct rr_wchunk {
	uint16_t first;
	uint16_t nsegs;
};

/* Which limit a message exceeds. */
enum rr_over {
	RR_OVER_READS,		/* segments of Read chunks */
	RR_OVER_WRITES,		/* Write chunks */
	RR_OVER_SEGS,		/* segments of Write chunks and Reply chunk */
};

struct rr_chunks {
	uint16_t nreads;
	uint16_t nwrites;
	uint16_t nsegs;		/* used of segs[], by Write chunks and Reply chunk */
	bool has_reply;
	uint8_t over;		/* after RR_WIRE_TOO_MANY: enum rr_over */
	struct rr_wchunk reply;
	struct rr_wchunk writes[RR_MAX_WRITE_CHUNKS];
	struct rr_read_seg reads[RR_MAX_SEGS];
	struct rr_seg segs[RR_MAX_SEGS];
};

/* Header types by meaning; the codec knows their numbers. */
enum rr_htype {
	RR_MSG,			/* the RPC message follows the header */
	RR_NOMSG,		/* it is in a Position-Zero Read chunk or a Reply chunk */
	RR_ERROR,
	RR_MSGP,		/* padded; only draft02 accepts it (RFC 8166 §4.6.1) */
	RR_DONE,		/* pull completion; RFC 8166 §4.6.2 */
	RR_HTYPE_OTHER,		/* a procedure number the dialect does not have */
	RR_CONNPROP,		/* version-two-08 §5.3.4 */
};

/* What an RDMA_ERROR says: RFC 8166 §4.5, and from 3 on version-two-08 §6.4. A number
 * that is none of these can come in dialects whose errors may be extended. */
enum rr_errcode {
	RR_ERR_VERS		= 1,
	RR_ERR_CHUNK		= 2,
	RR_ERR_BAD_XDR		= RR_ERR_CHUNK,
	RR_ERR_INVAL_HTYPE	= 3,
	RR_ERR_READ_CHUNKS	= 4,
	RR_ERR_WRITE_CHUNKS	= 5,
	RR_ERR_SEGMENTS		= 6,
	RR_ERR_WRITE_RESOURCE	= 7,
	RR_ERR_REPLY_RESOURCE	= 8,
	RR_ERR_SYSTEM		= 9,
};

/* What a transport header itself says about its direction: whose XID and which kind of
 * credit are in it. In version 1 only the RPC message knows (RFC 8167 §4.1). */
enum rr_dir {
	RR_DIR_UNKNOWN,
	RR_DIR_CALL,		/* the sender's XID, credits asked for */
	RR_DIR_REPLY,		/* the receiver's XID, credits granted */
};

struct rr_msg {
	uint32_t xid;
	uint32_t vers;
	uint32_t credit;	/* requested in calls, granted in replies */
	enum rr_htype type;
	/* From here to props rr_msg_init() makes everything zero, at once. */
	uint32_t proc;		/* the number on the wire */
	uint32_t hdr_len;	/* bytes of header; an RPC message may follow */
	uint8_t dir;		/* enum rr_dir; version 1 sends none and finds none */
	bool reverse;		/* slides: RDMA_BCALL or RDMA_BRPLY, by dir */
	uint32_t inv_handle;	/* version 2: what Send With Invalidate may name; 0 = none */
	/* RR_ERROR */
	uint32_t err;		/* enum rr_errcode */
	union {			/* all zero where err has no more to say */
		uint32_t arm[2];
		struct { uint32_t vers_low, vers_high; };	/* RR_ERR_VERS */
		uint32_t limit;		/* RR_ERR_READ_CHUNKS, _WRITE_CHUNKS, _SEGMENTS */
		struct {
			uint32_t chunk;		/* _WRITE_RESOURCE: from 1; 0 = unknown */
			uint32_t needed;	/* _WRITE_RESOURCE, _REPLY_RESOURCE: bytes */
		};
	};
	/* RR_MSGP */
	uint32_t align, thresh;
	/* RR_CONNPROP */
	struct rr_props props;
	struct rr_chunks ch;
};

/* How a message has to be treated, after its header has been decoded. */
enum rr_wire_rc {
	RR_WIRE_OK = 0,
	RR_WIRE_DISCARD,	/* too short to answer, or an error that cannot be decoded:
				 * RFC 8166 §4.5 */
	RR_WIRE_BAD_VERS,	/* xid, vers, credit are valid: ERR_VERS */
	RR_WIRE_BAD_XDR,	/* xid, vers, credit, proc are valid: ERR_CHUNK */
	RR_WIRE_TOO_MANY,	/* well-formed as far as read, above our limits: ERR_CHUNK */
	RR_WIRE_BAD_HTYPE,	/* version 2: a header type that we do not have */
};

/* An empty header: no chunks. Leaves the segment arrays and the properties as they are. */
static inline void rr_msg_init(struct rr_msg *m, enum rr_htype type, uint32_t xid,
			       uint32_t vers, uint32_t credit)
{
	m->xid = xid;
	m->vers = vers;
	m->credit = credit;
	m->type = type;
	memset((uint8_t *)m + offsetof(struct rr_msg, proc), 0,
	       offsetof(struct rr_msg, props) - offsetof(struct rr_msg, proc));
	m->ch.nreads = m->ch.nwrites = m->ch.nsegs = 0;
	m->ch.has_reply = false;
	m->ch.reply.first = m->ch.reply.nsegs = 0;
}

#endif
