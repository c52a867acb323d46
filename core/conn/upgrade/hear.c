/* SPDX-License-Identifier: BSD-3-Clause */
/* Judges the first bytes that a server receives on a connection: an offer, half of one, or the
 * app's own. Offers that come later are ride.c's. */

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"

/* Sends the answer, or a refusal for that reason. A client is told why only if it asks, sees
 * other addresses of the connection than we do, or runs on this host. Returns the length; 0: it
 * could not be sent. */
static RR_NOINLINE uint32_t say_verdict(int fd, uint32_t xid, const struct rr_hello *answer,
					bool yes, enum rr_reason why)
{
	uint8_t buf[RR_ANSWER_MAX];
	uint32_t len = yes ? rr_nego_put_answer(answer, xid, buf, sizeof(buf))
			   : rr_nego_put_refusal(rr_answer_refusal(why), xid, answer, buf,
						 sizeof(buf));

	return rr_os->send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len ? len : 0;
}

/* Answers an offer of need bytes, which have been read. */
static void answer_offer(struct rr_conn *c, int fd, uint32_t xid, const struct rr_hello *h,
			 uint32_t need)
{
	enum rr_reason why = RR_R_KERNEL_ONLY;
	struct rr_hello answer;
	bool yes = false;
	uint32_t len;

	rr_report_adopt(c);
	rr_count(rr_stats_counters(c->st), RR_C_offers_received, 1);
	answer.nlack = 0;
	if (!rr_upgrade_unseen(c)) {
		why = RR_R_NO_ROUTE;
		yes = rr_answer_accept(c, fd, h, &answer, &why);
		if (!yes && why == RR_R_NO_ROUTE)
			why = rr_answer_why_not(c, h);
	}
	if (yes)
		answer.caps |= h->caps & RR_CAP_MEANWHILE;
	rr_answer_tell(&answer, h, yes ? RR_R_NONE : why);
	len = say_verdict(fd, xid, &answer, yes, why);
	if (!len) {
		rr_anchor_break(fd);
		return rr_upgrade_fails(c, RR_R_INTERNAL);
	}
	if (!yes)
		return rr_upgrade_fails(c, why);
	if (h->caps & RR_CAP_MEANWHILE) {
		c->in.ours = need;
		c->out.ours = len;
		rr_conn_become(c, RR_S_SAID, RR_R_NONE);
		rr_pace_expire(c);
	} else {
		rr_conn_become(c, RR_S_ANSWERED, RR_R_NONE);
		c->deadline = rr_now() + rr_cp->upgrade_timeout;
		rr_half_add(c, false);
	}
}

/* Peeks at the first bytes and says in *s what they are, and in *why whether a client with the
 * library would never make an offer on such a stream (rr_offer_sniff()). Returns their number
 * or -errno. *gone: the client has reset the connection; only set if !told. */
static RR_NOINLINE ssize_t hear_client(int fd, bool told, struct rr_front *s,
				       enum rr_reason *why, bool *gone)
{
	uint8_t buf[RR_OFFER_MAX];
	ssize_t n = told ? rr_upgrade_look(fd, buf, sizeof(buf))
			 : rr_upgrade_peek(fd, buf, sizeof(buf), gone);

	if (n > 0) {
		s->what = rr_nego_get_offer(buf, (size_t)n, rr_cp->program, &s->xid, &s->h,
					    &s->need);
		*why = rr_offer_sniff(buf, (size_t)n);
		memcpy(s->head, buf, rr_min((size_t)n, sizeof(s->head)));
	}
	return n;
}

/* The bytes are peeked at and stay where they are until they are known to be an offer. In any
 * other case the app reads them as if we had not been here. */
void rr_answer_step(struct rr_conn *c, int fd, bool told)
{
	enum rr_reason why = RR_R_NONE;
	bool gone = false;
	struct rr_front s;
	ssize_t n = hear_client(fd, told, &s, &why, &gone);

	if (n == -EAGAIN)
		return;
	switch (n > 0 ? s.what : RR_NEGO_OTHER) {
	case RR_NEGO_PART:
		if (rr_upgrade_withholds(c, s.need, (size_t)n))
			return;
		break;
	case RR_NEGO_OURS:
		if (rr_upgrade_waits(c))
			return;
		/* Upgrades are stopped: the app declines the offer itself, as a server without
		 * the library does. */
		if (rr_upgrade_stopped()) {
			rr_conn_become(c, RR_S_TCP, RR_R_STOPPED);
			return;
		}
		/* No answer may go if the app may have written half a record. */
		if (rr_upgrade_spoken(fd))
			break;
		if (!rr_upgrade_consume(fd, s.need))
			break;
		/* A send to a client that is gone would consume the error that the app has yet
		 * to see. */
		if (gone)
			return rr_conn_become(c, RR_S_TCP, RR_R_CLOSED);
		if (!(s.h.caps & RR_CAP_CROSSING))
			return answer_offer(c, fd, s.xid, &s.h, s.need);
		c->in.ours = s.need;
		return rr_ride_heard(c, &s.h, s.xid);
	default:
		/* What is not RPC is not looked at again, which would cost each read of it. */
		if (why)
			return rr_conn_become(c, RR_S_TCP, why);
		if (n > 0)
			return rr_ride_begin(c, s.head, (size_t)n);
		break;
	}
	rr_conn_become(c, RR_S_TCP, RR_R_NO_OFFER);
}
