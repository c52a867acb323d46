/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_FLOWS_H
#define RR_CONN_FLOWS_H

/* The state of both streams of a carried connection; streams.h asks about it. Under the
 * connection's lock. */

#include "core/conn/base/track.h"
#include "core/conn/base/ways.h"
#include "core/engine/engine.h"
#include "core/wire/advance.h"
#include "core/wire/recmark.h"

/* A power of two: the most receives (twice 1024 credits) plus buffers. */
#define RR_RX_ENTS	4096u
#define RR_RX_FIRST	(RR_RX_ENTS - 16u)	/* where an empty queue begins */

enum rr_piece { RR_PIECE_WHOLE, RR_PIECE_MORE, RR_PIECE_LAST };

/* A message on its way to the app, or a piece of one that came in advances (advance.c). */
struct rr_rx_ent {
	union {
		const uint8_t *ptr;	/* RR_FROM_RECV */
		uint64_t at;		/* RR_RX_ADVANCE: the segment's offset */
	};
	uint32_t ref;		/* receive token, buffer, index of a pull, or handle */
	uint32_t off;		/* where in what ref names the payload begins */
	uint32_t len;		/* payload bytes … */
	uint32_t lead;		/* … of which so many precede the record mark */
	uint32_t mark;		/* the record mark that the app sees; 0: none */
	uint8_t from;		/* enum rr_from, or RR_RX_… */
	uint8_t piece;		/* enum rr_piece */
	bool stashed;
	bool reply;
	rr_time since;
};
#define RR_RX_ADVANCE	0xfd	/* in the peer's memory, which keeps it for the message */
#define RR_RX_PART	0xfe	/* as RR_FROM_BUF, but the last `missing` bytes are to come */
#define RR_RX_HATCH	0xff	/* the peer's bytes after this entry come by TCP */

/* Bytes that the app reads of an entry. */
static inline uint32_t rr_rx_size(const struct rr_rx_ent *e)
{
	return e->len + (e->mark ? RR_RM_HDR : 0);
}

/* What the peer can read of the record that is being collected. */
struct rr_told {
	uint32_t len;		/* payload bytes … */
	uint32_t left;		/* … and how many their last fragment lacks, … */
	bool last;		/* … which is the record's last */
	uint32_t frag_at;	/* where the app's last fragment begins, … */
	uint32_t frag_mark;	/* … and its record mark */
	/* What the peer has keys to, in order, and which byte of the record the last one begins
	 * with. */
	struct rr_seg seg[RR_ADVANCE_SEGS];
	uint32_t nsegs, seg_at;
};

/* What is queued, as advances, of the peer's next message. */
struct rr_ahead {
	uint32_t len;		/* payload bytes … */
	uint32_t left;		/* … and how many their last fragment lacks, … */
	bool last;		/* … which is the record's last */
	uint32_t xid;
};
#define RR_IN_PIECES	256u	/* pieces in the queue, at most */

/* The app's bytes, outbound. */
struct rr_tx {
	struct rr_rm rm;
	uint32_t buf;		/* collects the current record; RR_BUF_NONE */
	uint32_t len;		/* payload bytes collected */
	uint32_t want;		/* room that could not be had; 0: nothing is missing */
	bool full;		/* no record may begin until the peer has taken others */
	uint64_t records;	/* sent by RDMA */
	enum rr_way_out way;
	struct rr_track before;	/* what went by TCP before the crossing */
	/* What was collected before the hatch and must go out by TCP first, flush_len bytes:
	 * flush_rest bytes that continue a fragment of which the peer has a part, a fragment,
	 * then the rest of a fragment header. */
	uint32_t flush_len, flush_off, flush_rest;
	uint8_t flush_hdr[4], flush_tail[4];
	uint8_t flush_ntail;
};

struct rr_rx {
	uint32_t head, tail;	/* free-running */
	uint32_t off;		/* bytes of the head entry already read, its mark included */
	uint32_t lowat;		/* the app's SO_RCVLOWAT */
	uint64_t bytes;		/* ready for the app to read */
	uint32_t missing;	/* bytes of the last entry that are still being fetched */
	struct rr_ahead ahead;
	uint32_t in_pieces;	/* entries that are not whole messages */
	bool begun;		/* the app has read a piece of a message, not its last one */
	uint64_t stash;		/* bytes held in our own memory to free receives */
	uint32_t held;		/* entries that hold a receive */
	uint64_t records;	/* received by RDMA, a further piece of one counting as one … */
	uint64_t pieces;	/* … of which there were so many */
	enum rr_way_in way;
	enum rr_in_end end;
	bool shut;		/* SHUT_RD was called; the peer is not told */
	struct rr_track before;	/* what the app has read of the bytes that came by TCP */
	/* At a record boundary: how many bytes belong to the next record; 0: not known yet. */
	size_t most;
	uint32_t until;		/* records that come by TCP before the crossing */
	uint64_t promised;	/* records that come by RDMA, says the end mark */
	rr_time checked;	/* when the anchor was last looked at … */
	uint32_t since;		/* … and messages that have come since then */
	uint32_t hurried;	/* looks that were made because the FIN had to follow at once */
	struct rr_rx_ent *ent;	/* RR_RX_ENTS of them, up to the engine */
};

#endif
