/* SPDX-License-Identifier: BSD-3-Clause */
/* The app's TCP connection while its bytes go elsewhere: it says when the peer's stream ends
 * (end mark, FIN, reset), and is made to say so to the peer. Under the connection's lock. */

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/who.h"
#include "core/conn/carried/carried.h"

/* The provider's end goes away a little before the anchor's when a process dies; longer than
 * this, and the peer has lost it while its socket lives on (exec). */
#define GRACE	(100 * RR_MSEC)
#define SLOW	(5 * RR_SEC)	/* the same for a FIN behind bytes that there was no room for */

static void was_reset(struct rr_share *sh, int err)
{
	sh->reset = sh->rx.fin = true;
	if (!sh->err)
		sh->err = err;
}

/* The same after the FIN, where recv() does not tell. Not after our own end mark, which may
 * have been what brought it about. */
static void look_for_error(struct rr_share *sh, int fd)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (!rr_os->getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) && err)
		was_reset(sh, err);
}

/* The bytes on the anchor: the end mark, or, behind a hatch, the app's. True: look again. */
static bool take_mark(struct rr_share *sh, int fd)
{
	uint8_t buf[RR_MARK_LEN];
	ssize_t n = rr_os->recv(fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT);

	if (n == 0) {
		sh->rx.fin = true;
		return false;
	}
	if (n < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return false;
		/* The peer's end mark is bytes, and so brings one about where we neither read
		 * nor write. */
		if (sh->rx.shut && sh->tx.shut)
			sh->rx.fin = true;
		else
			was_reset(sh, errno);
		sh->rx.marked = false;
		return false;
	}
	/* A hatch is posted before the first byte that goes by TCP; between two hosts it may
	 * arrive after it. */
	rr_drv_progress(sh);
	if (sh->rx.hatched)
		return false;
	if (memcmp(buf, sh->token, rr_min((size_t)n, (size_t)RR_TOKEN_LEN))) {
		if (rr_drv_direct(sh))
			rr_drv_fail(sh, ECONNRESET, RR_R_PROTOCOL);
		return false;
	}
	if (n < (ssize_t)RR_MARK_LEN)
		return false;	/* the rest is on its way */
	rr_nego_get_mark(buf, sh->token, &sh->rx.end);
	sh->rx.marked = true;
	return rr_os->recv(fd, buf, RR_MARK_LEN, MSG_DONTWAIT) == (ssize_t)RR_MARK_LEN;
}

/* The peer said how many records there are, and not all of them have arrived. */
static bool more_to_come(const struct rr_share *sh)
{
	return sh->rx.fin && !rr_stream_is_over(sh);
}

/* Both ends of the peer: p is the anchor, and what tells that the provider's has gone. Threads
 * may sleep for the doorbells that go with that; it wakes them as well. */
static bool look_at_ends(struct rr_share *sh, struct pollfd p[2])
{
	bool any = rr_os->poll(p, 2, 0) > 0;

	if (any && p[1].revents)
		rr_drv_drain(sh);
	return any && p[0].revents;
}

/* The provider's end is gone, and so far the anchor has not said that the connection is over.
 * Who closes has said that it ends, and may take its time with the FIN. */
static void outlived(struct rr_share *sh, int fd, rr_time now)
{
	if (!sh->prov_lost || sh->rx.fin || sh->rx.marked || !rr_prov_matters(sh) ||
	    now - sh->prov_lost_at <= (sh->rx.more ? SLOW : GRACE))
		return;
	rr_drv_fail(sh, ECONNRESET, RR_R_PEER_DIED);
	rr_anchor_break(fd);
}

/* Behind the hatch bits are of the app's stream: as long as it has bytes to read, a FIN may be
 * on its way. */
static void look_behind(struct rr_share *sh, unsigned bits, rr_time now)
{
	if (!sh->prov_lost || !bits)
		return;
	sh->rx.more = true;
	sh->rx.fin |= (bits & ~(unsigned)POLLIN) != 0;
	sh->prov_lost_at = now;
}

void rr_anchor_check(struct rr_share *sh, int fd, rr_time now)
{
	struct pollfd p[2] = { { fd, POLLIN | POLLRDHUP, 0 },
			       { sh->qp->wake_fd, POLLRDHUP, 0 } };

	sh->rx.checked = now;
	sh->rx.since = 0;
	if (unlikely(sh->rx.early))
		return rr_cross_check(sh, fd, now);
	if (sh->dead || !rr_prov_matters(sh))
		return;
	if (look_at_ends(sh, p) && !sh->rx.hatched) {
		for (int i = 0; i < 3 && take_mark(sh, fd); i++)
			;
		if (sh->rx.fin)
			rr_drv_progress(sh);	/* what was posted before the FIN */
		/* For the app it comes behind all of that. */
		if (p[0].revents & POLLERR && !sh->reset && !sh->tx.shut && !more_to_come(sh))
			look_for_error(sh, fd);
	}
	if (sh->rx.hatched)
		look_behind(sh, (unsigned short)p[0].revents, now);
	outlived(sh, fd, now);
	/* The peer said how many records there were, or had sent some, and is gone without
	 * them. */
	if (sh->prov_lost &&
	    (sh->rx.hatch_due || (sh->rx.marked && sh->rx.records < sh->rx.end)))
		rr_drv_fail(sh, ECONNRESET, RR_R_PEER_DIED);
	if (sh->rx.fin)
		rr_hint(sh, RR_HINT_IN);
}

/* Has the peer look at its anchor. If there is no room for that, it looks when it has read so
 * many messages. */
void rr_anchor_note(struct rr_share *sh)
{
	if (sh->prov_lost || sh->dead)
		return;
	rr_drv_say(sh, RR_IMM_NOTE);
	rr_drv_kick(sh);
}

/* Says how many records went by RDMA; the kernel's FIN follows. Was it to be said? */
bool rr_anchor_mark(struct rr_share *sh, int fd)
{
	uint8_t mark[RR_MARK_LEN];

	if (sh->tx.shut || sh->tx.tcp || sh->dead)
		return false;
	sh->tx.shut = true;
	if (sh->tx.early)	/* a FIN is all, as long as it is TCP's */
		return false;
	if (sh->qp->native)	/* nobody who would read it */
		return true;
	rr_nego_put_mark(mark, sh->token, sh->tx.records);
	if (rr_os->send(fd, mark, sizeof(mark), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		rr_debug(RR_WHO ": end mark not sent", RR_WHO_OF(fd, sh->st));
	rr_anchor_note(sh);
	return true;
}
