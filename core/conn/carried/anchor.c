/* SPDX-License-Identifier: BSD-3-Clause */
/* The anchor of a carried connection: the app's TCP connection while its bytes go another way.
 * It shows when the peer's stream ends (end mark, FIN, reset), and tells the peer when ours
 * does. No payload passes here. Under the connection's lock. */

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/who.h"
#include "core/conn/carried/carried.h"

/* When a process dies, the provider's end goes a little before the anchor's. If the anchor
 * outlives it by more than this, the peer has lost the provider but kept its socket (exec). */
#define GRACE	(100 * RR_MSEC)
#define SLOW	(5 * RR_SEC)	/* the same for a FIN behind bytes that found no room */

static void was_reset(struct rr_share *sh, int err)
{
	rr_way_in_reset(sh);
	if (!sh->err)
		sh->err = err;
}

/* After the FIN recv() does not report an error, so the socket is asked. Not called after our
 * own end mark, which may have caused the error. */
static void look_for_error(struct rr_share *sh, int fd)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (!rr_os->getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) && err)
		was_reset(sh, err);
}

/* Looks at the bytes on the anchor: an end mark, or the app's bytes after a hatch. True: look
 * again. */
static bool take_mark(struct rr_share *sh, int fd)
{
	uint8_t buf[RR_MARK_LEN];
	uint64_t promised;
	ssize_t n = rr_os->recv(fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT);

	if (n == 0) {
		rr_way_in_fin(sh);
		return false;
	}
	if (n < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return false;
		/* The peer's end mark consists of bytes, which cause a reset if we have shut
		 * both directions. */
		if (rr_rx_is_shut(sh) && rr_tx_is_shut(sh))
			rr_way_in_fin(sh);
		else
			was_reset(sh, errno);
		rr_way_in_unmarked(sh);
		return false;
	}
	/* A hatch is posted before the first byte goes by TCP, but between two hosts it may
	 * arrive after it. */
	rr_drv_progress(sh);
	if (rr_rx_is_hatched(sh))
		return false;
	if (memcmp(buf, sh->token, rr_min((size_t)n, (size_t)RR_TOKEN_LEN))) {
		if (rr_drv_direct(sh))
			rr_drv_fail(sh, ECONNRESET, RR_R_PROTOCOL);
		return false;
	}
	if (n < (ssize_t)RR_MARK_LEN)
		return false;	/* the rest is on its way */
	rr_nego_get_mark(buf, sh->token, &promised);
	rr_way_in_marked(sh, promised);
	return rr_os->recv(fd, buf, RR_MARK_LEN, MSG_DONTWAIT) == (ssize_t)RR_MARK_LEN;
}

/* The peer has said how many records there are, and some have yet to arrive. */
static bool more_to_come(const struct rr_share *sh)
{
	return rr_rx_has_ended(sh) && !rr_stream_is_over(sh);
}

/* Polls both ends of the peer: p[0] is the anchor, p[1] shows whether the provider's peer is
 * gone. Threads may sleep for the doorbell that is consumed here, but the end wakes them as
 * well. */
static bool look_at_ends(struct rr_share *sh, struct pollfd p[2])
{
	bool any = rr_os->poll(p, 2, 0) > 0;

	if (any && p[1].revents)
		rr_drv_drain(sh);
	return any && p[0].revents;
}

/* The provider's peer is gone, and the anchor has not shown an end for too long: fails the
 * connection. A peer that has sent an end mark is closing, and may take its time with the
 * FIN. */
static void outlived(struct rr_share *sh, int fd, rr_time now)
{
	if (!rr_link_is_lost(sh) || rr_rx_has_ended(sh) || rr_rx_is_marked(sh) ||
	    !rr_prov_matters(sh) ||
	    now - sh->lost_at <= (rr_link_has_just_gone(sh) ? GRACE : SLOW))
		return;
	rr_drv_fail(sh, ECONNRESET, RR_R_PEER_DIED);
	rr_anchor_break(fd);
}

/* After the hatch, `bits` are about the app's own stream. As long as the app has bytes to read,
 * a FIN may still be on its way. */
static void look_behind(struct rr_share *sh, unsigned bits, rr_time now)
{
	if (!rr_link_is_lost(sh) || !bits)
		return;
	rr_link_has_more(sh);
	if (bits & ~(unsigned)POLLIN)
		rr_way_in_fin(sh);
	sh->lost_at = now;
}

/* The peer has told that it ends before it has: its FIN comes some microseconds after the mark.
 * A thread that spins is awake for it, but the anchor is not among what it looks at. */
static void hurry(struct rr_share *sh)
{
	if (!rr_rx_hurries(sh))
		return;
	rr_rx_look_again(sh);
	rr_hint(sh, RR_HINT_IN);
}

void rr_anchor_check(struct rr_share *sh, int fd, rr_time now)
{
	struct pollfd p[2] = { { fd, POLLIN | POLLRDHUP, 0 },
			       { rr_qp_end_fd(sh->qp), POLLRDHUP, 0 } };

	rr_rx_look(sh, now);
	if (unlikely(rr_rx_is_early(sh)))
		return rr_cross_check(sh, fd, now);
	if (rr_link_is_dead(sh) || !rr_prov_matters(sh))
		return;
	if (look_at_ends(sh, p) && !rr_rx_is_hatched(sh)) {
		for (int i = 0; i < 3 && take_mark(sh, fd); i++)
			;
		if (rr_rx_has_ended(sh))
			rr_drv_progress(sh);	/* what was posted before the FIN */
		/* The app hears of an error only after everything that has yet to arrive. */
		if (p[0].revents & POLLERR && !rr_rx_is_reset(sh) && !rr_tx_is_shut(sh) &&
		    !more_to_come(sh))
			look_for_error(sh, fd);
	}
	if (rr_rx_is_hatched(sh))
		look_behind(sh, (unsigned short)p[0].revents, now);
	/* What came before the peer went may not have been taken in: the device tells of the
	 * one and of the other in different places. */
	if (unlikely(rr_link_is_lost(sh)))
		rr_drv_progress(sh);
	outlived(sh, fd, now);
	/* The peer had sent records that have not arrived, and is gone. */
	if (rr_link_is_lost(sh) && (rr_rx_hatch_is_due(sh) || rr_stream_lacks_records(sh)))
		rr_drv_fail(sh, ECONNRESET, RR_R_PEER_DIED);
	if (rr_rx_has_ended(sh))
		rr_hint(sh, RR_HINT_IN);
	hurry(sh);
}

/* Makes the peer look at its anchor. If there is no room for the note, the peer looks anyway
 * once so many messages have come that it may lack one (rr_rx_may_lack_note()). */
void rr_anchor_note(struct rr_share *sh)
{
	if (!rr_link_is_up(sh) || sh->qp->native)	/* RFC 8166 has no such Sends */
		return;
	rr_drv_say(sh, RR_IMM_NOTE);
	rr_drv_kick(sh);
}

/* Tells the peer how many records went by RDMA; the caller's FIN follows. Returns whether an
 * end had to be announced. */
bool rr_anchor_mark(struct rr_share *sh, int fd)
{
	bool early = rr_tx_is_early(sh);
	uint8_t mark[RR_MARK_LEN];

	if (rr_tx_is_shut(sh) || rr_tx_is_tcp(sh) || rr_link_is_dead(sh))
		return false;
	rr_way_out_shut(sh);
	if (early)		/* on TCP a FIN says it all */
		return false;
	if (sh->qp->native)	/* there is nobody who would read it */
		return true;
	rr_nego_put_mark(mark, sh->token, sh->tx.records);
	if (rr_os->send(fd, mark, sizeof(mark), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		rr_who_debug(fd, sh->st, ": end mark not sent");
	rr_anchor_note(sh);
	return true;
}
