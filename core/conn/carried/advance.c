/* SPDX-License-Identifier: BSD-3-Clause */
/* Advances: pieces of a long message that the peer may read before the message is sent. An app
 * copies a record into its library's buffer and from there into ours, often in several writes.
 * Without advances the other end can begin to copy when the last byte is there. With them both
 * ends copy at the same time, as with TCP.
 *
 * The message itself follows as ever, with all of its bytes, and the engines know nothing of
 * this. An advance is a hint that the sender may leave out and the receiver may pass over: then
 * its bytes come with the message. What the receiving app has been given of a message it is not
 * given again (inbox.c). It sees the record's fragments as the sending app has written them,
 * but those of which it was not told in time are joined to one.
 *
 * Who has told of bytes cannot give them back to the app. So its write() counts them as taken,
 * whatever comes next. If that is the hatch, and not the message, it says once more all that
 * was told.
 *
 * A peer that sleeps, or would rather sleep than look for the next piece, is told nothing: a
 * wake-up costs more than the copy of a piece. Nor is one on this CPU, which can copy nothing
 * meanwhile. Under the connection's lock. */

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/carried/carried.h"
#include "core/wire/advance.h"

_Static_assert(RR_ADVANCES_MAX <= RR_PROV_NOTE, "a provider can send it");
_Static_assert(RR_ADVANCE_SEGS == RR_BUF_EARLY, "a segment for each key");

/* Fewer bytes are not worth a note, nor are few beside those that were told of before. */
#define LEAST	8192u
#define SHARE	16u

/* Can the peer use advances, and would the note not overtake an earlier message? */
static bool is_useful(struct rr_share *sh)
{
	return sh->ep.caps & RR_CAP_ADVANCES && sh->ep.dialect == RR_DIALECT_V1 &&
	       rr_drv_has_notes(sh) && rr_stream_is_usual(sh) && !rr_eng_unsent(sh->eng) &&
	       rr_tell_peer_looks(sh);
}

/* Will the peer read the message from our memory when it is sent? If it is no RPC message, it
 * will not go by RDMA. */
static bool will_be_read(const struct rr_share *sh, const uint8_t *head, size_t have)
{
	struct rr_rpc rpc;

	return rr_rpc_peek(head, (uint32_t)rr_min(have, (size_t)sh->tx.len), &rpc) &&
	       rr_eng_exposes(sh->eng, &rpc, sh->tx.len);
}

/* The next piece: the rest of a fragment that was begun, or all those that have ended since, or
 * what there is of the one that the app is in. Returns its length. */
static uint32_t next_piece(const struct rr_share *sh, uint32_t *mark)
{
	const struct rr_told *t = &sh->tables->told;
	uint32_t more = sh->tx.len - t->len;

	*mark = 0;
	if (t->left)
		return rr_min(t->left, more);
	if (t->len < t->frag_at)
		return *mark = t->frag_at - t->len;
	*mark = t->frag_mark;
	return more;
}

/* Finds the segment of the piece: in what the peer has a key to, or in what it now gets one to.
 * That may hold less than the whole piece. */
static bool segment_for(struct rr_share *sh, uint32_t len, struct rr_seg *seg)
{
	struct rr_told *t = &sh->tables->told;

	if (!t->nsegs || t->len - t->seg_at == t->seg[t->nsegs - 1].length) {
		size_t room;
		uint8_t *from = rr_pool_at(&sh->pool, sh->tx.buf, t->len, &room);

		if (!rr_expose_early(sh, sh->tx.buf, from, (uint32_t)room, &t->seg[t->nsegs]))
			return false;
		t->nsegs++;
		t->seg_at = t->len;
	}
	*seg = t->seg[t->nsegs - 1];
	seg->offset += t->len - t->seg_at;
	seg->length = rr_min(len, t->seg_at + seg->length - t->len);
	return true;
}

static bool tell_piece(struct rr_share *sh, uint32_t xid)
{
	struct rr_told *t = &sh->tables->told;
	struct rr_advance a = { .xid = xid, .at = t->len };
	uint32_t len = next_piece(sh, &a.mark);
	uint8_t note[RR_ADVANCE_LEN];

	if (!segment_for(sh, len, &a.seg))
		return false;
	rr_advance_put(&a, note);
	if (rr_drv_hint(sh, RR_IMM_ADVANCE, note, sizeof(note)) != 1)
		return false;
	if (a.mark) {
		t->left = a.mark & ~RR_RM_LAST;
		t->last = a.mark & RR_RM_LAST;
	}
	t->left -= a.seg.length;
	t->len += a.seg.length;
	rr_count(sh->qp->count, RR_C_advances_sent, 1);
	return true;
}

bool rr_advance_tell(struct rr_share *sh)
{
	struct rr_told *t = &sh->tables->told;
	uint32_t more = sh->tx.len - t->len, was = t->len;
	const uint8_t *head;
	size_t have;

	if (more < LEAST || more < t->len / SHARE || !is_useful(sh))
		return false;
	head = rr_pool_at(&sh->pool, sh->tx.buf, 0, &have);
	if (!t->len && !will_be_read(sh, head, have))
		return false;
	while (t->len < sh->tx.len && tell_piece(sh, rr_be32(head)))
		;
	if (t->len == was)
		return false;
	rr_drv_kick(sh);
	return true;
}

int rr_advance_hatch(struct rr_share *sh)
{
	const struct rr_told *t = &sh->tables->told;
	struct rr_advances all = {
		.len = t->len, .mark = t->left | (t->last ? RR_RM_LAST : 0), .nsegs = t->nsegs
	};
	uint8_t note[RR_ADVANCES_MAX];
	size_t have;

	if (!t->len)
		return rr_drv_say(sh, RR_IMM_HATCH);
	all.xid = rr_be32(rr_pool_at(&sh->pool, sh->tx.buf, 0, &have));
	memcpy(all.seg, t->seg, sizeof(all.seg));
	all.seg[t->nsegs - 1].length = t->len - t->seg_at;
	return rr_drv_say_more(sh, RR_IMM_HATCH, note, rr_advances_put(&all, note));
}
