/* SPDX-License-Identifier: BSD-3-Clause */
/* Offers and answers that ride along. The app's calls go by TCP meanwhile, as they would
 * without us: each is made here, under the lock, in a way that does not block, so that we know
 * where the records of both directions end and how many there have been.
 *
 * An offer goes in front of one of the app's calls, the answer in front of one of its replies,
 * in the same write; what is ours is taken out again at the end of a record, by who reads. So
 * no call waits, and nobody is woken for what is not the app's. When the provider is connected
 * the connection is carried, and goes on in cross.c. Whoever finds out that bytes went by
 * unseen leaves it to TCP. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <linux/tcp.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/who.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"

#define WATCHED		64u	/* records during which somebody looks out for an offer */
#define PATIENCE	64u	/* records, of either direction, after an unanswered one */
#define LATE		256u	/* the same, until the answer does not count as one any more */
#define PART_WAIT	RR_SEC	/* what may be ours in part is the app's after this */
#define PIECES		16

/* Has nobody read or written but by us? */
static RR_NOINLINE bool seen_all(const struct rr_conn *c, int fd)
{
	struct tcp_info i = { 0 };	/* the kernel's may be shorter */
	socklen_t len = sizeof(i);
	uint64_t written;

	if (rr_os->getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len))
		return false;
	written = i.tcpi_bytes_sent - i.tcpi_bytes_retrans + i.tcpi_notsent_bytes;
	return c->out.bytes + c->out.ours >= written &&
	       c->in.bytes + c->in.ours + rr_ride_queued(fd) + 1 >=	/* a FIN counts, too */
		       i.tcpi_bytes_received;
}

/* ours[0..len), and behind it what the app writes. How much of the app's, which may be 0;
 * -EAGAIN nothing went. */
static RR_NOINLINE ssize_t send_along(struct rr_conn *c, int fd, const uint8_t *ours,
				      uint32_t len, const struct iovec *iov, int n, int flags)
{
	struct iovec both[PIECES] = { { (uint8_t *)(uintptr_t)ours, len } };
	int k = 1 + rr_track_cut(iov, n, 0, SIZE_MAX, both + 1, PIECES - 1);
	ssize_t rc = rr_ride_kernel_send(fd, both, k, flags);

	if (rc < 0)
		return rc;
	/* no memory in the kernel: half of it cannot be taken back */
	if (rc < (ssize_t)len) {
		rr_anchor_break(fd);
		rr_upgrade_fails(c, RR_R_INTERNAL);
		return -ECONNRESET;
	}
	rc -= (ssize_t)len;
	c->out.ours += len;
	rr_track_over(&c->out, iov, n, (size_t)rc);
	return rc;
}

/* --- the end of it ------------------------------------------------------------------------ */

static bool is_too_late(const struct rr_conn *c)
{
	return rr_conn_st(c) == RR_S_SWALLOW;
}

/* Nobody has answered, or it does not count any more: the answer, should it come, is not the
 * app's. */
static void leave(struct rr_conn *c, enum rr_reason why)
{
	rr_share_free(c->share);
	c->share = NULL;
	rr_conn_become(c, RR_S_SWALLOW, why);
}

/* What its child reads and writes nobody here sees. Of what has been said to the peer nothing
 * is taken back: but who has not been told yet need not be. */
void rr_ride_forks(struct rr_conn *c, bool waits)
{
	enum rr_conn_st st;

	if (!rr_conn_rides(rr_conn_st(c)) ||
	    (waits ? rr_lock_take(&c->lock) == -EDEADLK : rr_lock_try(&c->lock)))
		return;
	st = rr_conn_st(c);
	if (st == RR_S_SAID && !rr_answer_withdraw(c))
		rr_answer_rides(c);
	else if (st == RR_S_SAID || st == RR_S_HEARD || (st == RR_S_WATCH && !c->server))
		rr_upgrade_fails(c, RR_R_FORKED);
	rr_lock_drop(&c->lock);
}

bool rr_ride_joined(struct rr_conn *c)
{
	if (c->owner == (int32_t)rr_pid())
		rr_answer_rides(c);
	return rr_conn_is_carried(c);
}

void rr_ride_yield(struct rr_conn *c)
{
	enum rr_conn_st st;

	if (rr_lock_take(&c->lock) == -EDEADLK)
		return;
	st = rr_conn_st(c);
	if (c->owner == (int32_t)rr_pid()) {
		if (st == RR_S_ASKED)
			leave(c, RR_R_NO_FDS);
		else if (st == RR_S_HEARD || (st == RR_S_SAID && rr_answer_withdraw(c)))
			rr_upgrade_fails(c, RR_R_NO_FDS);
		else if (st == RR_S_SAID)
			rr_answer_rides(c);	/* and then it can be moved */
	}
	rr_lock_drop(&c->lock);
}

void rr_ride_orphan(struct rr_conn *c)
{
	if (rr_conn_st(c) == RR_S_WATCH)
		return;
	rr_share_unmap(c->share);
	c->share = NULL;
	rr_conn_become(c, RR_S_TCP, RR_R_FORKED);
}

bool rr_ride_let_go(struct rr_conn *c)
{
	if (rr_conn_st(c) != RR_S_WATCH)
		return false;
	rr_conn_become(c, RR_S_TCP, RR_R_KERNEL_ONLY);
	return true;
}

void rr_ride_end(struct rr_conn *c)
{
	const struct rr_share *sh = rr_conn_st(c) == RR_S_CARRIED ? c->share : NULL;

	if (c->called)
		rr_learned_end(&c->peer, c->prog,
			       sh ? sh->tx.before.records + (uint32_t)sh->tx.records
				  : c->out.records);
	c->called = false;
}

/* How many records may go by before we stop looking. */
static void look_at_count(struct rr_conn *c)
{
	switch (rr_conn_st(c)) {
	case RR_S_WATCH:
		if ((c->server ? c->in.records : c->out.records) >= WATCHED)
			rr_conn_become(c, RR_S_TCP, c->server ? RR_R_NO_OFFER : RR_R_FEW_CALLS);
		break;
	case RR_S_SWALLOW:
		if (c->in.records - c->asked_in >= LATE && rr_track_at_boundary(&c->in))
			rr_conn_become(c, RR_S_TCP, RR_R_TIMEOUT);
		break;
	case RR_S_ASKED:
		if (c->in.records - c->asked_in >= PATIENCE ||
		    c->out.records - c->asked_out >= PATIENCE)
			leave(c, RR_R_NOT_ANSWERED);
		break;
	default:
		break;
	}
}

/* --- the client's offer ------------------------------------------------------------------- */

static uint32_t mark_len(const struct iovec *iov, int n)
{
	uint8_t mark[RR_RM_HDR];

	if (rr_iov_copy_out(mark, sizeof(mark), iov, n, 0) < sizeof(mark))
		return 0;
	return rr_rm_len(mark);
}

static bool pays(struct rr_conn *c, const struct iovec *iov, int n)
{
	struct rr_when w = { rr_cp->offer_after, c->out.records + 1, mark_len(iov, n), 0 };

	if (!c->learned && w.after == RR_AFTER_AUTO)
		c->usual = rr_learned_usual(&c->peer, c->prog);
	c->learned = true;
	w.usual = c->usual;
	return rr_when_pays(&w);
}

/* Is there one of ours, as far as one can know without asking? */
static bool is_ours(const struct rr_conn *c)
{
	if (rr_evidence_look(&c->peer))
		return true;
	return !rr_offer_by_loopback(c) && rr_learned_is_ours(&c->peer) && rr_cp->verbs &&
	       rr_prov_nth(1);
}

static RR_NOINLINE enum rr_reason may_offer(struct rr_conn *c, int fd)
{
	enum rr_reason why;

	rr_offer_peer(c);
	why = rr_offer_may(c, &c->prog);
	if (!why && rr_anchor_poll(fd, POLLRDHUP))
		why = RR_R_CLOSED;
	if (!why && !is_ours(c)) {
		why = RR_R_NO_SHIM;
		rr_cache_add(&c->peer, why, rr_now() + RR_SEC);
	}
	return why || seen_all(c, fd) ? why : RR_R_KERNEL_ONLY;
}

/* A call may be on a signal handler's stack: what making an offer takes of it, and what the
 * bytes of one take, is not held at once. */
static RR_NOINLINE ssize_t say_offer(struct rr_conn *c, int fd, const struct rr_hello *h,
				     const struct iovec *iov, int n, int flags)
{
	uint8_t buf[RR_OFFER_MAX];
	uint32_t len = rr_nego_put_offer(h, rr_cp->program, c->xid, buf, sizeof(buf));

	return send_along(c, fd, buf, len, iov, n, flags);
}

/* Made, and said in one. As offer_along(). */
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

/* 0 it went by TCP alone, or is yet to; else as rr_ride_send(). */
static ssize_t offer_along(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	size_t total = rr_iov_total(iov, n);
	enum rr_reason why;
	ssize_t rc;

	if (total < RR_RM_HDR || !pays(c, iov, n) || !rr_ride_is_room(fd, RR_OFFER_MAX + total))
		return 0;
	why = may_offer(c, fd);
	if (why) {
		rr_upgrade_fails(c, why);
		return RR_CONN_KERNEL;
	}
	rc = make_offer(c, fd, iov, n, flags);
	if (rc == RR_CONN_KERNEL)
		return rc;
	if (rc < 0) {
		rr_share_free(c->share);
		c->share = NULL;
		return rc == -EAGAIN ? 0 : rc;
	}
	rr_count(rr_stats_counters(c->st), RR_C_offers_sent, 1);
	c->asked_in = c->in.records;
	c->asked_out = c->out.records;
	c->deadline = rr_now() + rr_cp->upgrade_timeout;
	c->most = 0;
	rr_conn_become(c, RR_S_ASKED, RR_R_NONE);
	return rc ? rc : rr_ride_send(c, fd, iov, n, flags);
}

/* Who is not known, on another host, may close on an offer: such a connection waits for its
 * first call, as long as that may wait. */
static bool must_ask_first(struct rr_conn *c, int fd, int flags)
{
	int fl;

	if (rr_offer_by_loopback(c) || !rr_cp->verbs || !rr_prov_nth(1) ||
	    flags & MSG_DONTWAIT || rr_learned_is_ours(&c->peer) || rr_evidence_look(&c->peer))
		return false;
	fl = rr_os->fcntl(fd, F_GETFL);
	return fl >= 0 && !(fl & O_NONBLOCK);
}

ssize_t rr_ride_first(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	uint8_t head[64];
	size_t have = rr_iov_copy_out(head, sizeof(head), iov, n, 0);
	enum rr_reason why = have ? rr_offer_sniff(head, have) : RR_R_NONE;
	struct rr_rpc rpc;
	ssize_t rc;

	if (why) {
		rr_conn_become(c, RR_S_TCP, why);
		return RR_CONN_KERNEL;
	}
	if (!have)
		return RR_CONN_KERNEL;
	c->called = rr_rpc_peek(head + RR_RM_HDR, (uint32_t)have - RR_RM_HDR, &rpc);
	c->prog = c->called ? rpc.prog : 0;
	memcpy(&c->xid, head + RR_RM_HDR, sizeof(c->xid));
	c->xid = ntohl(c->xid);
	if (rr_offer_required(c) || must_ask_first(c, fd, flags))
		return RR_RIDE_OVER;
	rc = offer_along(c, fd, iov, n, flags);
	if (rc)
		return rc;
	rc = rr_ride_kernel_send(fd, iov, n, flags);
	if (rc > 0) {
		rr_conn_become(c, RR_S_WATCH, RR_R_FEW_CALLS);
		rr_track_over(&c->out, iov, n, (size_t)rc);
	}
	return rc;
}

/* --- the client hears the answer ---------------------------------------------------------- */

/* Of need bytes. As look(). */
static int take_answer(struct rr_conn *c, int fd, enum rr_nego what, const struct rr_hello *h,
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
	if (is_too_late(c)) {
		rr_conn_become(c, RR_S_TCP, RR_R_TIMEOUT);
		return RR_RIDE_OVER;
	}
	if (what != RR_NEGO_OURS) {
		rr_learned_ours(&c->peer, what != RR_NEGO_NO);
		rr_offer_negative(c);
		rr_upgrade_fails(c, rr_offer_declined(c, what));
		return RR_RIDE_OVER;
	}
	rr_learned_ours(&c->peer, true);
	if (!(h->caps & RR_CAP_CROSSING))
		why = RR_R_DECLINED;
	else if (!seen_all(c, fd))
		why = RR_R_KERNEL_ONLY;
	else
		why = rr_offer_join_chosen(c, h);
	if (why) {
		rr_count(rr_stats_counters(c->st), RR_C_upgrade_failures, 1);
		rr_upgrade_fails(c, why);
		return RR_RIDE_OVER;
	}
	c->deadline = rr_now() + rr_cp->upgrade_timeout;
	rr_conn_become(c, RR_S_MEETING, RR_R_NONE);
	rr_offer_join(c);
	return RR_RIDE_OVER;
}

/* --- the server --------------------------------------------------------------------------- */

void rr_ride_begin(struct rr_conn *c, const uint8_t *head, size_t have)
{
	c->part_since = 0;
	rr_conn_become(c, RR_S_WATCH, RR_R_NO_OFFER);
	c->most = rr_track_most(&c->in, head, have);
}

/* What it takes is made now, before anybody goes to sleep again for what is there already. */
void rr_ride_heard(struct rr_conn *c, const struct rr_hello *h, uint32_t xid)
{
	enum rr_reason why = RR_R_NO_ROUTE;
	int fd = c->fd;

	rr_report_adopt(c);
	rr_count(rr_stats_counters(c->st), RR_C_offers_received, 1);
	c->xid = xid;
	c->lack = RR_R_NONE;
	if (!rr_answer_accept(c, fd, h, &c->heard, &why))
		c->lack = (uint8_t)(why == RR_R_NO_ROUTE ? rr_answer_why_not(c, h) : why);
	c->heard.caps |= RR_CAP_CROSSING;
	c->deadline = rr_now() + rr_cp->upgrade_timeout;
	c->most = 0;
	rr_conn_become(c, RR_S_HEARD, RR_R_NONE);
	if (c->share)
		rr_half_add(c);
}

/* no: why it is a refusal. */
static RR_NOINLINE ssize_t say_answer(struct rr_conn *c, int fd, enum rr_reason no,
				      const struct iovec *iov, int n, int flags)
{
	uint8_t buf[RR_ANSWER_MAX];
	uint32_t len = no ? rr_nego_put_refusal(rr_answer_refusal(no), c->xid, buf, sizeof(buf))
			  : rr_nego_put_answer(&c->heard, c->xid, buf, sizeof(buf));

	return send_along(c, fd, buf, len, iov, n, flags);
}

/* 0 not with this one; else as rr_ride_send(). */
static ssize_t answer_along(struct rr_conn *c, int fd, const struct iovec *iov, int n,
			    int flags)
{
	enum rr_reason no = (enum rr_reason)c->lack;
	ssize_t rc;

	if (!rr_iov_total(iov, n) || !rr_ride_is_room(fd, RR_ANSWER_MAX + rr_iov_total(iov, n)))
		return 0;
	if (!no && !seen_all(c, fd))
		no = RR_R_KERNEL_ONLY;
	rc = say_answer(c, fd, no, iov, n, flags);
	if (rc < 0)
		return rc == -EAGAIN ? 0 : rc;
	if (no) {
		rr_upgrade_fails(c, no);
		return rc ? rc : RR_CONN_KERNEL;
	}
	c->deadline = rr_now() + rr_cp->upgrade_timeout;
	rr_conn_become(c, RR_S_SAID, RR_R_NONE);
	rr_half_add(c);
	return rc ? rc : rr_ride_send(c, fd, iov, n, flags);
}

static int take_offer(struct rr_conn *c, int fd, const struct rr_hello *h, uint32_t xid,
		      uint32_t need)
{
	if (rr_upgrade_waits(c))
		return -EAGAIN;
	if (!rr_upgrade_consume(fd, need)) {
		rr_conn_become(c, RR_S_TCP, RR_R_INTERNAL);
		return RR_RIDE_OVER;
	}
	c->in.ours += need;
	rr_ride_heard(c, h, xid);
	return RR_RIDE_OVER;
}

/* --- looking out -------------------------------------------------------------------------- */

static bool looks_out(const struct rr_conn *c)
{
	enum rr_conn_st st = rr_conn_st(c);

	return is_too_late(c) || st == (c->server ? RR_S_WATCH : RR_S_ASKED);
}

/* Half of what may be ours is there: nobody hears of it until the rest is, but not for ever. */
static bool withheld(struct rr_conn *c, uint32_t need, size_t have)
{
	rr_time now = rr_now();

	if (is_too_late(c))
		return true;
	if (!c->part_since) {
		if (!seen_all(c, c->fd))
			return false;
		c->part_since = now;
	}
	if (now - c->part_since >= PART_WAIT)
		return false;
	rr_conn_lowat(c, (int)rr_max(need, (uint32_t)have + 1));
	return true;
}

static void none_of_ours(struct rr_conn *c, const uint8_t *head, size_t have)
{
	if (c->lowat_set)
		rr_conn_lowat(c, c->lowat);
	c->part_since = 0;
	c->most = rr_track_most(&c->in, head, have);
}

/* What the first n bytes at a boundary are. */
static enum rr_nego what_is(const struct rr_conn *c, const uint8_t *p, size_t n, uint32_t *xid,
			    struct rr_hello *h, uint32_t *need)
{
	*need = 0;
	*xid = c->xid;
	return c->server ? rr_nego_get_offer(p, n, rr_cp->program, xid, h, need) :
			   rr_nego_get_answer(p, n, c->xid, h, need);
}

/* What stands at a boundary, and its first bytes. */
struct seen {
	enum rr_nego what;
	uint32_t need, xid;
	uint8_t head[RR_RM_HDR];
	struct rr_hello h;
};

/* How much is there, or -errno. */
static RR_NOINLINE ssize_t hear(const struct rr_conn *c, int fd, struct seen *s)
{
	uint8_t buf[rr_max(RR_OFFER_MAX, RR_ANSWER_MAX)];
	ssize_t n = rr_os->recv(fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT);

	if (n < 0)
		return -errno;
	if (n > 0) {
		s->what = what_is(c, buf, (size_t)n, &s->xid, &s->h, &s->need);
		memcpy(s->head, buf, rr_min((size_t)n, sizeof(s->head)));
	}
	return n;
}

/* As look(). */
static RR_NOINLINE int judge(struct rr_conn *c, int fd)
{
	struct seen s;
	ssize_t n = hear(c, fd, &s);
	bool fits;

	if (n <= 0)
		return (int)n;
	fits = s.need <= rr_max(RR_OFFER_MAX, RR_ANSWER_MAX);
	if (s.what == RR_NEGO_PART && fits && withheld(c, s.need, (size_t)n))
		return -EAGAIN;
	if (s.what == RR_NEGO_PART && !c->server && !fits) {	/* no shim's */
		c->skipping = true;
		leave(c, RR_R_NO_SHIM);
		return RR_RIDE_OVER;
	}
	if (s.what != RR_NEGO_OTHER && s.what != RR_NEGO_PART) {
		if (!c->server)
			return take_answer(c, fd, s.what, &s.h, s.need);
		if (s.h.caps & RR_CAP_CROSSING && !rr_upgrade_stopped() && seen_all(c, fd))
			return take_offer(c, fd, &s.h, s.xid, s.need);
		rr_debug(RR_WHO ": an offer is left to the app", RR_WHO_OF(fd, c->st));
	}
	none_of_ours(c, s.head, (size_t)n);
	return 0;
}

/* Do the next bytes begin what nobody has looked at? */
static bool may_be_ours(const struct rr_conn *c)
{
	return looks_out(c) && !c->most && rr_track_at_boundary(&c->in);
}

/* 0: at most most() bytes are the app's; RR_RIDE_OVER; -EAGAIN there are none, or another
 * -errno of the kernel's, which is the app's, once. */
static int look(struct rr_conn *c, int fd)
{
	if (unlikely(c->skipping))
		return rr_upgrade_skip(c, fd);
	return may_be_ours(c) ? judge(c, fd) : 0;
}

/* The same where nobody reads: whatever is pending stays so. */
static int look_only(struct rr_conn *c, int fd)
{
	return (c->skipping || may_be_ours(c)) && rr_ride_queued(fd) ? look(c, fd) : 0;
}

static size_t most(const struct rr_conn *c)
{
	if (!looks_out(c))
		return SIZE_MAX;
	return c->most ? c->most : rr_track_most(&c->in, NULL, 0);
}

#define STEPS		128	/* in which the queue is looked through for ours */

/* Past what stands at *at of the queue: the rest of a fragment, or a mark. False: not all of it
 * is there. */
static bool walk(struct rr_rm *rm, int fd, size_t queued, size_t *at)
{
	uint8_t mark[RR_RM_HDR];
	size_t n = rm->left ? queued - *at : rr_ride_peek_at(fd, *at, mark, sizeof(mark));

	if (!n)
		return false;
	if (rr_rm_next(rm, mark, n, &n) == RR_RM_FRAGMENT && rm->last && !rm->left)
		rr_rm_next(rm, mark, 0, &(size_t){ 0 });
	*at += n;
	return true;
}

/* Is something of ours in the queue, of so many bytes, behind records of the app's? *at: where;
 * *len: how long it is, 0 if it is not whole. */
static RR_NOINLINE bool find_ours(const struct rr_conn *c, int fd, size_t queued, size_t *at,
				  size_t *len)
{
	uint8_t buf[rr_max(RR_OFFER_MAX, RR_ANSWER_MAX)];
	struct rr_rm rm = c->in.rm;
	uint32_t need, xid;
	struct rr_hello h;
	size_t n;

	if (!looks_out(c) || queued <= most(c))
		return false;
	*at = 0;
	for (int i = 0; i < STEPS && *at < queued && *at < RR_RIDE_REACH; i++) {
		/* One that was looked at is the app's. */
		if (rr_rm_at_boundary(&rm) && (*at || !c->most)) {
			n = rr_ride_peek_at(fd, *at, buf, sizeof(buf));
			if (n && what_is(c, buf, n, &xid, &h, &need) != RR_NEGO_OTHER) {
				*len = n >= need ? need : 0;
				return true;
			}
		}
		if (!walk(&rm, fd, queued, at))
			break;
	}
	return false;
}

/* --- the app's calls ---------------------------------------------------------------------- */

int rr_ride_error(struct rr_conn *c)
{
	int err = c->kept;

	c->kept = 0;
	return err;
}

ssize_t rr_ride_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	enum rr_conn_st st = rr_conn_st(c);
	ssize_t rc = 0;

	if (unlikely(c->kept))
		return -rr_ride_error(c);
	if (rr_track_at_boundary(&c->out)) {
		if (st == RR_S_WATCH && !c->server)
			rc = offer_along(c, fd, iov, n, flags);
		else if (st == RR_S_HEARD)
			rc = answer_along(c, fd, iov, n, flags);
		if (rc)
			return rc;
	}
	rc = rr_ride_kernel_send(fd, iov, n, flags);
	if (rc > 0) {
		rr_track_over(&c->out, iov, n, (size_t)rc);
		look_at_count(c);
	}
	return rc;
}

/* The app has read so many more, from byte done of iov on. */
static void over(struct rr_conn *c, const struct iovec *iov, int n, size_t done, size_t got)
{
	struct iovec cut[PIECES];

	rr_track_over(&c->in, cut, rr_track_cut(iov, n, done, got, cut, PIECES), got);
	c->most = 0;
	look_at_count(c);
}

/* What is there, of several records perhaps, but for what of ours is in between. */
static ssize_t peek(struct rr_conn *c, int fd, const struct iovec *iov, int n)
{
	struct iovec around[2 * PIECES];
	struct msghdr m = { .msg_iov = around };
	int rc = look(c, fd), k;
	size_t at, len;
	ssize_t got;

	if (rc)
		return rc;
	if (!find_ours(c, fd, rr_ride_queued(fd), &at, &len) || at >= rr_iov_total(iov, n))
		return rr_ride_kernel_recv(fd, iov, n, 0, SIZE_MAX, MSG_PEEK);
	k = rr_track_cut(iov, n, 0, at, around, PIECES);
	if (len) {
		k += rr_ride_nowhere(around + k, 1, len);
		k += rr_track_cut(iov, n, at, SIZE_MAX, around + k, 2 * PIECES - k);
	}
	m.msg_iovlen = (size_t)k;
	got = rr_os->recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT);
	return got < 0 ? -errno
		       : got - (ssize_t)rr_min(len, (size_t)got - rr_min((size_t)got, at));
}

/* From one record to the next, as long as there is room and something there. */
ssize_t rr_ride_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags,
		     size_t *done)
{
	size_t total = rr_iov_total(iov, n), asked;
	ssize_t got;
	int rc;

	*done = 0;
	if (unlikely(c->kept))
		return -rr_ride_error(c);
	if (flags & MSG_PEEK)
		return peek(c, fd, iov, n);
	do {
		rc = look(c, fd);
		if (rc)
			return *done && rc != RR_RIDE_OVER ? (ssize_t)*done : rc;
		asked = rr_min(most(c), total - *done);
		got = rr_ride_kernel_recv(fd, iov, n, *done, asked, 0);
		if (got <= 0)
			return *done ? (ssize_t)*done : got;
		over(c, iov, n, *done, (size_t)got);
		*done += (size_t)got;
	} while (*done < total && (size_t)got == asked && looks_out(c) && rr_ride_queued(fd));
	return (ssize_t)*done;
}

/* Of bytes that the app wants so many of at once (SO_RCVLOWAT) ours do not count. */
static bool is_too_little(struct rr_conn *c, int fd)
{
	size_t queued, at, len;

	if (likely(c->lowat <= 1) || !looks_out(c))
		return false;
	queued = rr_ride_queued(fd);
	if (find_ours(c, fd, queued, &at, &len))
		queued = len ? queued - len : at;
	return queued < (size_t)c->lowat &&
	       !(rr_anchor_poll(fd, POLLRDHUP) & (POLLRDHUP | POLLHUP | POLLERR));
}

int rr_ride_poll(struct rr_conn *c, int fd, unsigned want)
{
	int rc = want & RR_IN_BITS ? look_only(c, fd) : 0;

	if (unlikely(c->kept))
		return (int)(rr_anchor_poll(fd, want) | POLLERR);
	if (rc == RR_RIDE_OVER)
		return rc;
	if (rc == -EAGAIN || (want & RR_IN_BITS && is_too_little(c, fd)))
		return (int)(rr_anchor_poll(fd, want) & ~(unsigned)RR_IN_BITS);
	if (rr_conn_st(c) == RR_S_WATCH || rr_conn_st(c) == RR_S_ASKED)
		return RR_CONN_KERNEL;
	return (int)rr_anchor_poll(fd, want);	/* more than the anchor is slept on */
}

int rr_ride_inq(struct rr_conn *c, int fd)
{
	int rc = look_only(c, fd);
	size_t queued, at, len;

	if (rc == RR_RIDE_OVER)
		return rc;
	if (rc == -EAGAIN)
		return 0;
	queued = rr_ride_queued(fd);
	if (find_ours(c, fd, queued, &at, &len))
		queued = len ? queued - len : at;
	return (int)queued;
}

void rr_ride_step(struct rr_conn *c)
{
	switch (rr_conn_st(c)) {
	case RR_S_ASKED:
		if (rr_now() >= c->deadline)
			leave(c, RR_R_TIMEOUT);
		break;
	case RR_S_MEETING:
		rr_offer_join(c);
		break;
	case RR_S_HEARD:
		if (rr_now() >= c->deadline)
			rr_upgrade_fails(c, RR_R_ABANDONED);
		break;
	case RR_S_SAID:
		rr_answer_rides(c);
		break;
	default:
		break;
	}
}
