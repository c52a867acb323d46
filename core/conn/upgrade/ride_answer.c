/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's counterpart of ride_offer.c: an offer that was found in front of a call, and the
 * answer that rides in front of one of the app's replies. */

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"

void rr_ride_next(struct rr_conn *c, const uint8_t *head, size_t have)
{
	c->most = rr_track_most(&c->in, head, have);
	c->whole = have == c->most && have < RR_OFFER_MAX && c->lowat <= 1;
}

/* The server looks on from now: an offer may still come in front of a later call. */
void rr_ride_begin(struct rr_conn *c, const uint8_t *head, size_t have)
{
	c->part_since = 0;
	rr_conn_become(c, RR_S_WATCH, RR_R_NO_OFFER);
	rr_ride_next(c, head, have);
}

/* The provider's side is made now, before any thread can go to sleep again on what has arrived
 * already. */
void rr_ride_heard(struct rr_conn *c, const struct rr_hello *h, uint32_t xid)
{
	enum rr_reason why = RR_R_KERNEL_ONLY;
	bool yes = false;
	int fd = c->fd;

	rr_report_adopt(c);
	rr_count(rr_stats_counters(c->st), RR_C_offers_received, 1);
	c->xid = xid;
	c->lack = RR_R_NONE;
	memset(&c->heard, 0, sizeof(c->heard));
	if (!rr_upgrade_unseen(c)) {
		why = RR_R_NO_ROUTE;
		yes = rr_answer_accept(c, fd, h, &c->heard, &why);
	}
	if (!yes)
		c->lack = (uint8_t)(why == RR_R_NO_ROUTE ? rr_answer_why_not(c, h) : why);
	rr_answer_tell(&c->heard, h, (enum rr_reason)c->lack);
	c->heard.caps |= RR_CAP_CROSSING;
	c->most = 0;
	rr_conn_become(c, RR_S_HEARD, RR_R_NONE);
	if (c->share)
		rr_pace_expire(c);
	else
		c->deadline = rr_now() + rr_pace_patience(c);
}

/* no: the reason for a refusal, or RR_R_NONE. */
static RR_NOINLINE ssize_t say_answer(struct rr_conn *c, int fd, enum rr_reason no,
				      const struct iovec *iov, int n, int flags)
{
	uint8_t buf[RR_ANSWER_MAX];
	uint32_t len = no ? rr_nego_put_refusal(rr_answer_refusal(no), c->xid, &c->heard, buf,
					     sizeof(buf))
			  : rr_nego_put_answer(&c->heard, c->xid, buf, sizeof(buf));

	return rr_ride_send_along(c, fd, buf, len, iov, n, flags);
}

/* 0: the answer does not go with this write; otherwise as rr_ride_send(). */
ssize_t rr_ride_answer(struct rr_conn *c, int fd, const struct iovec *iov, int n,
			    int flags)
{
	enum rr_reason no = (enum rr_reason)c->lack;
	ssize_t rc;

	if (!rr_iov_total(iov, n) ||
	    !rr_queue_has_room(fd, RR_ANSWER_MAX + rr_iov_total(iov, n)))
		return 0;
	if (!no && !rr_ride_seen_all(c, fd))
		no = RR_R_KERNEL_ONLY;
	rc = say_answer(c, fd, no, iov, n, flags);
	if (rc < 0)
		return rc == -EAGAIN ? 0 : rc;
	if (no) {
		rr_upgrade_fails(c, no);
		return rc ? rc : RR_CONN_KERNEL;
	}
	rr_conn_become(c, RR_S_SAID, RR_R_NONE);	/* leaves its queue of half.c, too */
	rr_pace_expire(c);
	return rc;
}

/* The offer is out of the stream from here on, so the app never sees it; the call behind it is
 * its next. */
int rr_ride_take_offer(struct rr_conn *c, int fd, const struct rr_hello *h, uint32_t xid,
		      uint32_t need)
{
	if (rr_upgrade_waits(c))
		return -EAGAIN;
	if (!rr_upgrade_consume(fd, need)) {
		rr_conn_become(c, RR_S_TCP, RR_R_INTERNAL);
		return RR_RIDE_OVER;
	}
	c->in.ours = need;	/* a stream has one offer */
	rr_ride_heard(c, h, xid);
	return RR_RIDE_OVER;
}
