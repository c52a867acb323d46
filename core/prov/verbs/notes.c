/* SPDX-License-Identifier: BSD-3-Clause */
/* What two of ours tell each other below the protocol, by Sends with immediate data: how many
 * receives were given back, and which chunks were read. When to ask is decided by the
 * callers. */
#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/prov/verbs/queue.h"
#include "core/wire/cursor.h"

/* --- saying ---------------------------------------------------------------------------- */

/* Sends a note. False: there is no room. The last slot is left for a message, whose sender was
 * told that there is one. */
static bool send_note(struct rr_qp *qp, struct rr_vq *v, uint32_t what)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = htobe32(RR_VERBS_NOTE | what) };
	uint32_t n = what & RR_VERBS_READ ? rr_min(v->nkept, RR_VERBS_TELL) : 0;
	uint8_t handles[4 * RR_VERBS_TELL];
	struct iovec iov = { handles, 4 * n };
	bool last = v->slot_head - v->slot_tail + 1 >= v->sends;

	for (uint32_t i = 0; i < n; i++)
		rr_put_be32(handles + 4 * i, v->kept[i]);
	if (rr_verbs_usable(v) || (n && last) ||
	    rr_verbs_post_send_wr(qp, v, &wr, &iov, n > 0, 0) < 0)
		return false;
	v->nkept -= n;
	memmove(v->kept, v->kept + n, v->nkept * sizeof(v->kept[0]));
	return true;
}

/* A quarter is late enough for notes to be rare, and early enough for the peer to go on. */
static bool count_is_due(const struct rr_qp *qp, const struct rr_vq *v)
{
	return v->untold >= rr_max(qp->recvs / 4, 1u);
}

/* v->chain has one place more than binds may take, so a note fits behind them. */
void rr_verbs_notes_chain(struct rr_qp *qp, struct rr_vq *v)
{
	if (!count_is_due(qp, v) || v->nchain > RR_VERBS_CHAIN)
		return;
	v->chain[v->nchain++] = (struct ibv_send_wr){
		.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32(RR_VERBS_NOTE | v->untold),
	};
	v->untold = 0;
}

void rr_verbs_notes_count(struct rr_qp *qp, struct rr_vq *v, bool waits)
{
	if ((waits ? v->untold >= rr_max(qp->recvs / 3, 1u) : count_is_due(qp, v)) &&
	    send_note(qp, v, v->untold))
		v->untold = 0;
}

void rr_verbs_notes_ask_read(struct rr_qp *qp, struct rr_vq *v)
{
	if (!v->asking)
		v->asking = send_note(qp, v, RR_VERBS_ASK);
}

/* A caller that wants to know is short of memory, so the peer is asked. */
bool rr_verbs_notes_consumed(struct rr_qp *qp, uint32_t handle)
{
	struct rr_vq *v = rr_verbs_of(qp);
	const bool *read = rr_verbs_usable(v) ? NULL : rr_verbs_keys_mark(v, handle);

	if (!read || *read || qp->native)
		return read && *read;
	rr_verbs_notes_ask_read(qp, v);
	return false;
}

/* Notes that a handle was read to its end. If the peer never acknowledges, the oldest is
 * dropped. */
void rr_verbs_notes_keep(struct rr_vq *v, uint32_t handle)
{
	if (v->nkept == RR_VERBS_KEPT)
		memmove(v->kept, v->kept + 1, --v->nkept * sizeof(v->kept[0]));
	if (!v->nkept)
		v->kept_age = 0;
	v->kept[v->nkept++] = handle;
}

/* At most one such note is on its way. The next waits until the peer has acknowledged the last
 * one; if that does not come for long, the handles are forgotten, because they may mean
 * something else by now (see RR_VERBS_AGE). */
void rr_verbs_notes_tell_read(struct rr_qp *qp, struct rr_vq *v)
{
	bool old = v->kept_age >= RR_VERBS_AGE;

	if (!v->nkept)
		return;
	if (!v->told && (v->asked || old)) {
		v->told = send_note(qp, v, RR_VERBS_READ);
		v->asked &= !v->told;
	} else if (old) {
		v->nkept = 0;
	}
}

/* --- hearing --------------------------------------------------------------------------- */

/* Processes the handles in a note. Searching for each takes a while, so no more are looked for
 * than were exposed. */
static void hear_handles(struct rr_vq *v, const struct rr_wc *wc)
{
	uint32_t n = rr_min(rr_min(wc->len / 4, RR_VERBS_TELL), v->shown);

	v->shown -= n;
	for (uint32_t i = 0; i < n; i++)
		rr_verbs_keys_read(v, rr_be32(wc->buf + 4 * i));
	v->asking = false;
}

/* The note is the peer's word. A count beyond the receives that it can have given back ends the
 * connection: believing it would make us send into receives that are not there. The receive is
 * posted again here, since the caller never hears of it. */
bool rr_verbs_notes_is_one(struct rr_qp *qp, struct rr_vq *v, const struct rr_wc *wc)
{
	uint32_t n = wc->imm & RR_VERBS_COUNT;
	int rc;

	if (!wc->has_imm || (wc->imm & 0xffff0000u) != RR_VERBS_NOTE)
		return false;
	if (n > qp->peer_recvs - v->window) {
		rr_verbs_fail(v, -EPROTO);
		return true;
	}
	v->window += n;
	v->asked |= !!(wc->imm & RR_VERBS_ASK);
	v->told &= !(wc->imm & RR_VERBS_HEARD);
	if (wc->imm & RR_VERBS_READ)
		hear_handles(v, wc);
	rc = rr_verbs_post_recv(qp, v, (uint32_t)wc->cookie);
	if (rc)
		rr_verbs_fail(v, rc);
	else if (wc->imm & RR_VERBS_READ)
		send_note(qp, v, RR_VERBS_HEARD);
	return true;
}
