/* SPDX-License-Identifier: BSD-3-Clause */
/* An offer that rides in front of one of the app's calls, and the answer to it. What goes by in
 * the meantime is ride.c's. */

#include <errno.h>
#include <fcntl.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/base/price.h"
#include "core/conn/first.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"

/* The length that the record mark gives; 0: the write is shorter than a mark. */
static uint32_t mark_len(const struct iovec *iov, int n)
{
	uint8_t mark[RR_RM_HDR];

	if (rr_iov_copy(mark, sizeof(mark), iov, n, 0) < sizeof(mark))
		return 0;
	return rr_rm_len(mark);
}

/* The length of the record of which `total` bytes are about to go. Its mark is read only where
 * it may say more than that; 0: it cannot be read. */
static uint32_t record_len(const struct iovec *iov, int n, size_t total)
{
	if (rr_conn_may_be_whole(total))
		return (uint32_t)total;
	return rr_upgrade_readable(iov, n) ? mark_len(iov, n) : 0;
}

static struct rr_when when(uint32_t record, uint32_t len)
{
	return (struct rr_when){ .after = rr_cp->offer_after, .record = record, .len = len,
				 .price = rr_price_sum(), .trip = rr_price_trip() };
}

uint32_t rr_ride_may_pay(const struct sockaddr_in6 *peer)
{
	struct rr_when w = when(1, 0);

	w.usual = rr_learned_most(peer);
	return rr_when_record(&w);
}

/* Does the offer pay with this call? What earlier connections have shown is looked up once. */
static bool pays(struct rr_conn *c, const struct iovec *iov, int n, size_t total)
{
	struct rr_when w = when(c->out.records + 1, record_len(iov, n, total));

	if (!c->learned && w.after == RR_AFTER_AUTO)
		c->usual = rr_learned_usual(&c->peer, c->prog);
	c->learned = true;
	w.usual = c->usual;
	return rr_when_pays(&w);
}

/* Is there a server with the library, as far as that can be known without asking it? A server
 * on another host must have been met before, and there must be a device by which it could be
 * reached. */
static bool is_ours(const struct rr_conn *c)
{
	if (rr_evidence_look(&c->peer))
		return true;
	return !rr_offer_by_loopback(&c->peer) && rr_learned_is_ours(&c->peer) &&
	       rr_cp->verbs && rr_prov_nth(1);
}

/* May the offer go with this call? RR_R_NONE, or why not. */
static RR_NOINLINE enum rr_reason may_offer_now(struct rr_conn *c, int fd)
{
	enum rr_reason why;

	rr_offer_peer(c);
	why = rr_offer_may(c, &c->prog);
	if (!why && rr_anchor_poll(fd, POLLRDHUP))
		why = RR_R_CLOSED;
	if (!why && !is_ours(c)) {
		/* At a loopback address each server with the library is seen. */
		why = rr_offer_by_loopback(&c->peer) ? RR_R_NO_SHIM : RR_R_NOT_ASKED;
		rr_cache_add(&c->peer, why, rr_now() + RR_SEC);
	}
	return why || rr_ride_seen_all(c, fd) ? why : RR_R_KERNEL_ONLY;
}

/* A call may run on a signal handler's stack. Making the offer and encoding it both need much
 * of that, so they are separate functions, and the two buffers never exist at once. */
static RR_NOINLINE ssize_t say_offer(struct rr_conn *c, int fd, const struct rr_hello *h,
				     const struct iovec *iov, int n, int flags)
{
	uint8_t buf[RR_OFFER_MAX];
	uint32_t len = rr_nego_put_offer(h, rr_cp->program, c->xid, buf, sizeof(buf));

	return rr_ride_send_along(c, fd, buf, len, iov, n, flags);
}

/* Makes the offer and sends it. Returns as rr_ride_offer(). */
static RR_NOINLINE ssize_t make_offer(struct rr_conn *c, int fd, const struct iovec *iov, int n,
				      int flags)
{
	struct rr_hello h;
	enum rr_reason why = rr_offer_make(c, fd, &h);

	if (why) {
		rr_upgrade_fails(c, why);
		return RR_CONN_KERNEL;
	}
	h.caps |= RR_CAP_CROSSING;
	return say_offer(c, fd, &h, iov, n, flags);
}

/* See upgrade.h. */
ssize_t rr_ride_offer(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	size_t total = rr_iov_total(iov, n);
	enum rr_reason why;
	ssize_t rc;

	if (total < RR_RM_HDR || !pays(c, iov, n, total) ||
	    !rr_queue_has_room(fd, RR_OFFER_MAX + total))
		return 0;
	why = may_offer_now(c, fd);
	if (why == RR_R_TIMEOUT)
		return 0;	/* another connection has asked, and the answer is late */
	if (why) {
		rr_upgrade_fails(c, why);
		return RR_CONN_KERNEL;
	}
	rc = make_offer(c, fd, iov, n, flags);
	if (rc == RR_CONN_KERNEL)
		return rc;
	/* -EAGAIN: nothing went, and a later call may carry an offer */
	if (rc < 0) {
		rr_carrier_free(c->share);
		c->share = NULL;
		return rc == -EAGAIN ? 0 : rc;
	}
	rr_count(rr_stats_counters(c->st), RR_C_offers_sent, 1);
	c->asked_in = c->in.records;
	c->asked_out = c->out.records;
	c->deadline = rr_now() + rr_pace_patience(c);
	c->most = 0;
	rr_conn_become(c, RR_S_ASKED, RR_R_NONE);
	return rc;
}

/* See upgrade.h. Only a blocking write can be made to wait. A server that is known to have the
 * library need not be asked first, and one that took too long to answer is not made to delay
 * every connection. */
bool rr_ride_must_ask(struct rr_conn *c, int fd, int flags)
{
	int fl;

	if (rr_offer_by_loopback(&c->peer) || !rr_cp->verbs || !rr_prov_nth(1) ||
	    flags & MSG_DONTWAIT || rr_learned_is_ours(&c->peer) ||
	    rr_evidence_look(&c->peer) || rr_cache_look(&c->peer, rr_now()) == RR_R_TIMEOUT)
		return false;
	fl = rr_os->fcntl(fd, F_GETFL);
	return fl >= 0 && !(fl & O_NONBLOCK);
}

/* See upgrade.h. */
int rr_ride_take_answer(struct rr_conn *c, int fd, enum rr_nego what, const struct rr_hello *h,
		       uint32_t need)
{
	enum rr_reason why = RR_R_NONE;

	if (rr_upgrade_waits(c))
		return -EAGAIN;
	if (!rr_upgrade_consume(fd, need)) {
		rr_upgrade_fails(c, RR_R_INTERNAL);
		return RR_RIDE_OVER;
	}
	c->in.ours += need;
	if (what != RR_NEGO_NO)
		rr_told_there(c, h);
	/* too late to be used, but it shows that the server has the library */
	if (rr_ride_is_late(c)) {
		if (what != RR_NEGO_NO)
			rr_offer_is_ours(c);
		rr_conn_become(c, RR_S_TCP, RR_R_TIMEOUT);
		return RR_RIDE_OVER;
	}
	if (what != RR_NEGO_OURS) {
		rr_learned_ours(&c->peer, what != RR_NEGO_NO);
		rr_offer_negative(c);
		rr_upgrade_fails(c, rr_offer_declined(c, what));
		return RR_RIDE_OVER;
	}
	rr_offer_is_ours(c);
	if (!(h->caps & (c->meanwhile ? RR_CAP_MEANWHILE : RR_CAP_CROSSING)))
		why = RR_R_DECLINED;
	else if (rr_upgrade_unseen(c) || !rr_ride_seen_all(c, fd))
		why = RR_R_KERNEL_ONLY;
	else
		why = rr_offer_join_chosen(c, h);
	rr_offer_meet(c, why);
	return RR_RIDE_OVER;
}
