/* SPDX-License-Identifier: BSD-3-Clause */
/* Offers and answers that ride along. The app's calls go on by TCP, as they would without the
 * library. Each call of the app is made here, under the lock and without blocking, so that we
 * know where the records of both directions end and how many have gone by.
 *
 * An offer goes in front of one of the app's calls and the answer in front of one of its
 * replies, in the same write. The reader takes them out again at the end of a record. So no
 * call waits, and no thread is woken for bytes that are not the app's. When the provider is
 * connected the connection becomes carried, and goes on in cross.c. If it turns out that bytes
 * went by unseen, the connection is left to TCP. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/who.h"
#include "core/conn/first.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"

/* --- the end of it ------------------------------------------------------------------------ */

/* The kernel has refused a call of ours. If nothing was said to the peer yet, the connection is
 * turned over to TCP and the app makes the call itself: true. */
static bool lets_go(struct rr_conn *c)
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

/* Was the call refused by a filter that may allow the app's own call? */
static bool is_forbidden(ssize_t rc)
{
	return unlikely(rc < 0 && rr_os_is_filtered((int)-rc));
}

/* --- the client's offer ------------------------------------------------------------------- */

#define HEAD	64u		/* bytes that say what a call is */

/* See upgrade.h. */
enum rr_reason rr_ride_note(const uint8_t *head, size_t have, bool *called, uint32_t *prog,
			    uint32_t *xid)
{
	enum rr_reason why;
	struct rr_rpc rpc;

	have = rr_min(have, (size_t)HEAD);
	why = rr_offer_sniff(head, have);
	if (why)
		return why;
	*called = rr_rpc_peek(head + RR_RM_HDR, (uint32_t)have - RR_RM_HDR, &rpc);
	*prog = *called ? rpc.prog : 0;
	memcpy(xid, head + RR_RM_HDR, sizeof(*xid));
	*xid = ntohl(*xid);
	return RR_R_NONE;
}

/* Notes what the first `have` bytes of these say, with which the stream begins. */
static enum rr_reason note_first(struct rr_conn *c, const struct iovec *iov, int n, size_t have)
{
	uint8_t head[HEAD];

	have = rr_iov_copy(head, rr_min(sizeof(head), have), iov, n, 0);
	return rr_ride_note(head, have, &c->called, &c->prog, &c->xid);
}

/* See upgrade.h. */
void rr_ride_watches(struct rr_conn *c)
{
	if (c->seg)
		rr_conn_become(c, RR_S_WATCH, RR_R_FEW_CALLS);
	else
		rr_conn_turn(c, RR_S_WATCH);	/* reported with its second call */
}

/* Unless they are noted already they are looked at when the kernel has read them: then they are
 * known to be readable. */
void rr_ride_first_went(struct rr_conn *c, const struct iovec *iov, int n, size_t len,
			bool noted)
{
	enum rr_reason why = noted ? RR_R_NONE : note_first(c, iov, n, len);

	if (why)
		return rr_conn_become(c, RR_S_TCP, why);
	rr_ride_watches(c);
	rr_passed_out(c, iov, n, len);
}

/* The app's first bytes go without an offer. */
static ssize_t send_first(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags,
			  bool noted)
{
	ssize_t rc = rr_queue_send(fd, iov, n, flags);

	if (is_forbidden(rc)) {
		rr_conn_become(c, RR_S_TCP, RR_R_KERNEL_ONLY);
		return RR_CONN_KERNEL;
	}
	if (rc > 0)
		rr_ride_first_went(c, iov, n, (size_t)rc, noted);
	return rc;
}

uint32_t rr_ride_looks_with(const struct sockaddr_in6 *peer)
{
	if (rr_cp->require_call ||
	    (rr_cp->verbs && !rr_offer_by_loopback(peer) && rr_prov_nth(1)))
		return 1;
	return rr_ride_may_pay(peer);
}

ssize_t rr_ride_first(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	size_t total = rr_iov_total(iov, n);
	enum rr_reason why;
	ssize_t rc;

	if (!total)
		return RR_CONN_KERNEL;
	if (!c->require && rr_conn_may_be_whole(total) && rr_ride_looks_with(&c->peer) > 1)
		return send_first(c, fd, iov, n, flags, false);
	if (!rr_upgrade_readable(iov, n))
		return -EFAULT;
	why = note_first(c, iov, n, total);
	if (why) {
		rr_conn_become(c, RR_S_TCP, why);
		return RR_CONN_KERNEL;
	}
	if (rr_offer_required(c) || rr_ride_must_ask(c, fd, flags))
		return RR_RIDE_OVER;
	rc = rr_ride_offer(c, fd, iov, n, flags);
	if (rc)
		return rc;
	if (rr_conn_st(c) == RR_S_ASKED) /* the offer went, and nothing of the app's with it */
		return rr_ride_send(c, fd, iov, n, flags);
	return send_first(c, fd, iov, n, flags, true);
}

/* --- looking out -------------------------------------------------------------------------- */

/* Must records from the peer be checked for an offer or an answer? */
static bool looks_out(const struct rr_conn *c)
{
	enum rr_conn_st st = rr_conn_st(c);

	return rr_ride_is_late(c) || st == (c->face.server ? RR_S_WATCH : RR_S_ASKED);
}

/* Is the part of something of ours that has arrived kept from the app? */
static bool withheld(struct rr_conn *c, uint32_t need, size_t have)
{
	if (rr_ride_is_late(c))
		return true;
	if (!c->part_since && !rr_ride_seen_all(c, c->fd))
		return false;
	return rr_upgrade_withholds(c, need, have);
}

/* What stands at the boundary is not ours: the app may read it. */
static void none_of_ours(struct rr_conn *c, const uint8_t *head, size_t have)
{
	if (c->lowat_set)
		rr_conn_lowat(c, c->lowat);
	c->part_since = 0;
	rr_ride_next(c, head, have);
}

/* What the first n bytes at a record boundary are. */
static enum rr_nego what_is(const struct rr_conn *c, const uint8_t *p, size_t n, uint32_t *xid,
			    struct rr_hello *h, uint32_t *need)
{
	*need = 0;
	*xid = c->xid;
	return c->face.server ? rr_nego_get_offer(p, n, rr_cp->program, xid, h, need) :
			   rr_nego_get_answer(p, n, c->xid, h, need);
}

/* Peeks at the queue. Returns how many bytes are there, as recv() does. */
static RR_NOINLINE ssize_t hear_peer(const struct rr_conn *c, int fd, struct rr_front *s)
{
	uint8_t buf[rr_max(RR_OFFER_MAX, RR_ANSWER_MAX)];
	ssize_t n = rr_os->recv(fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT);

	if (n > 0) {
		s->what = what_is(c, buf, (size_t)n, &s->xid, &s->h, &s->need);
		memcpy(s->head, buf, rr_min((size_t)n, sizeof(s->head)));
	}
	return n;
}

/* The peer ended the connection instead of answering: it may be another server by now, one that
 * closes on an offer. The next connection asks first, and so loses no call. */
static void ends_unanswered(const struct rr_conn *c)
{
	if (!c->face.server && !c->shut_rd)
		rr_learned_ours(&c->peer, false);
}

/* Returns as look_out(). */
static RR_NOINLINE int judge(struct rr_conn *c, int fd)
{
	struct rr_front s;
	ssize_t n = hear_peer(c, fd, &s);
	int err = n < 0 ? errno : 0;
	bool fits;

	if (!n || err == ECONNRESET)
		ends_unanswered(c);
	if (err)
		return -err;
	if (!n) {
		c->ended = !c->shut_rd;
		c->most = c->ended;	/* nothing of ours comes after the peer's end */
		return 0;
	}
	fits = s.need <= rr_max(RR_OFFER_MAX, RR_ANSWER_MAX);
	if (s.what == RR_NEGO_PART && fits && withheld(c, s.need, (size_t)n))
		return -EAGAIN;
	/* too long for an answer of the library */
	if (s.what == RR_NEGO_PART && !c->face.server && !fits) {
		c->skipping = true;
		rr_ride_leave(c, RR_R_NO_SHIM);
		return RR_RIDE_OVER;
	}
	if (s.what != RR_NEGO_OTHER && s.what != RR_NEGO_PART) {
		if (!c->face.server)
			return rr_ride_take_answer(c, fd, s.what, &s.h, s.need);
		if (s.h.caps & RR_CAP_CROSSING && !rr_upgrade_stopped() &&
		    rr_ride_seen_all(c, fd))
			return rr_ride_take_offer(c, fd, &s.h, s.xid, s.need);
		rr_who_debug(fd, c->st, ": an offer is left to the app");
	}
	none_of_ours(c, s.head, (size_t)n);
	return 0;
}

/* Do the next bytes begin a record that has not been looked at? */
static bool may_be_ours(const struct rr_conn *c)
{
	return looks_out(c) && !c->most && rr_track_at_boundary(&c->in);
}

/* Looks for something of ours at the front of the queue and takes it out. 0: at most most()
 * bytes are the app's; RR_RIDE_OVER; -EAGAIN: there is nothing for the app; or another -errno
 * of the kernel, which the app has to be told, since it is no longer pending. */
static int look_out(struct rr_conn *c, int fd)
{
	if (unlikely(c->skipping))
		return rr_upgrade_skip(c, fd);
	return may_be_ours(c) ? judge(c, fd) : 0;
}

/* The same for a caller that does not read, so a pending error must stay pending. told: none
 * is. */
static int look_only(struct rr_conn *c, int fd, bool told)
{
	if (!c->skipping && !may_be_ours(c))
		return 0;
	return told || rr_queue_bytes(fd) ? look_out(c, fd) : 0;
}

/* How many bytes may be read without reading something of ours. */
static size_t most(const struct rr_conn *c)
{
	if (!looks_out(c))
		return SIZE_MAX;
	return c->most ? c->most : rr_track_most(&c->in, NULL, 0);
}

#define STEPS		128	/* marks examined in a search for ours */

/* Moves *at past one element of the queue: the rest of a fragment, or a mark. False: it is not
 * all there. */
static bool walk_records(struct rr_rm *rm, int fd, size_t queued, size_t *at)
{
	uint8_t mark[RR_RM_HDR];
	size_t n = rm->left ? queued - *at : rr_queue_peek_at(fd, *at, mark, sizeof(mark));

	if (!n)
		return false;
	if (rr_rm_next(rm, mark, n, &n) == RR_RM_FRAGMENT && rm->last && !rm->left)
		rr_rm_next(rm, mark, 0, &(size_t){ 0 });
	*at += n;
	return true;
}

/* Is there something of ours among the queued bytes, behind records of the app's? *at: where;
 * *len: its length, 0 if it is not complete. */
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
	for (int i = 0; i < STEPS && *at < queued && *at < RR_QUEUE_REACH; i++) {
		/* The record at the boundary is the app's if it was looked at before. */
		if (rr_rm_at_boundary(&rm) && (*at || !c->most)) {
			n = rr_queue_peek_at(fd, *at, buf, sizeof(buf));
			if (n && what_is(c, buf, n, &xid, &h, &need) != RR_NEGO_OTHER) {
				*len = n >= need ? need : 0;
				return true;
			}
		}
		if (!walk_records(&rm, fd, queued, at))
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
	ssize_t rc;

	if (unlikely(c->kept))
		return -rr_ride_error(c);
	rc = rr_queue_send(fd, iov, n, flags);
	if (rc > 0) {
		rr_passed_out(c, iov, n, (size_t)rc);
		rr_ride_count(c);
	}
	return is_forbidden(rc) && lets_go(c) ? RR_CONN_KERNEL : rc;
}

/* May something of ours go in front of what the app writes? */
static bool goes_ahead(const struct rr_conn *c)
{
	return !c->kept && rr_track_at_boundary(&c->out);
}

ssize_t rr_watch_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	ssize_t rc = 0;

	if (!c->face.server && goes_ahead(c))
		rc = rr_ride_offer(c, fd, iov, n, flags);
	return rc ? rc : rr_ride_send(c, fd, iov, n, flags);
}

ssize_t rr_heard_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	ssize_t rc = goes_ahead(c) ? rr_ride_answer(c, fd, iov, n, flags) : 0;

	return rc ? rc : rr_ride_send(c, fd, iov, n, flags);
}

/* The app has read `got` bytes, into iov from byte `done` on. */
static void count_read(struct rr_conn *c, const struct iovec *iov, int n, size_t done,
		       size_t got)
{
	rr_passed_in(c, iov, n, done, got);
	c->most = 0;
	c->whole = false;
	rr_ride_count(c);
}

/* MSG_PEEK: shows what is there, perhaps several records, without what is ours in between. */
static ssize_t peek(struct rr_conn *c, int fd, const struct iovec *iov, int n)
{
	struct iovec around[2 * RR_IOV_CUT];
	struct msghdr m = { .msg_iov = around };
	int rc = look_out(c, fd), k;
	size_t at, len;
	ssize_t got;

	c->whole = false;
	if (rc)
		return rc;
	if (!find_ours(c, fd, rr_queue_bytes(fd), &at, &len) || at >= rr_iov_total(iov, n))
		return rr_queue_recv(fd, iov, n, 0, SIZE_MAX, MSG_PEEK);
	k = rr_iov_cut(iov, n, 0, at, around, RR_IOV_CUT);
	/* A look that ends before ours, for want of pieces, is a short one. */
	if (len && rr_iov_total(around, k) == at) {
		k += rr_queue_nowhere(around + k, 1, len);
		k += rr_iov_cut(iov, n, at, SIZE_MAX, around + k, 2 * RR_IOV_CUT - k);
	}
	m.msg_iovlen = (size_t)k;
	got = rr_os->recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT);
	return got < 0 ? -errno
		       : got - (ssize_t)rr_min(len, (size_t)got - rr_min((size_t)got, at));
}

/* Reads from one record to the next, as long as there is room and something to read. */
static ssize_t ride_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags,
			 size_t *done)
{
	size_t total = rr_iov_total(iov, n), asked;
	ssize_t got;
	bool whole;
	int rc;

	*done = 0;
	if (unlikely(c->kept))
		return -rr_ride_error(c);
	if (flags & MSG_PEEK)
		return peek(c, fd, iov, n);
	do {
		rc = look_out(c, fd);
		if (rc)
			return *done && rc != RR_RIDE_OVER ? (ssize_t)*done : rc;
		if (c->ended)
			return (ssize_t)*done;
		asked = rr_min(most(c), total - *done);
		whole = c->whole;
		got = rr_queue_recv(fd, iov, n, *done, asked, 0);
		if (got <= 0)
			return *done ? (ssize_t)*done : got;
		count_read(c, iov, n, *done, (size_t)got);
		*done += (size_t)got;
	} while (*done < total && (size_t)got == asked && looks_out(c) && !whole &&
		 rr_queue_bytes(fd));
	return (ssize_t)*done;
}

ssize_t rr_ride_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags,
		     size_t *done)
{
	ssize_t rc = ride_recv(c, fd, iov, n, flags, done);

	return is_forbidden(rc) && lets_go(c) ? RR_CONN_KERNEL : rc;
}

/* Are there too few bytes for the app's SO_RCVLOWAT, ours not counted? */
static bool is_too_little(struct rr_conn *c, int fd)
{
	size_t queued, at, len;

	if (likely(c->lowat <= 1) || !looks_out(c))
		return false;
	queued = rr_queue_bytes(fd);
	if (find_ours(c, fd, queued, &at, &len))
		queued = len ? queued - len : at;
	return queued < (size_t)c->lowat &&
	       !(rr_anchor_poll(fd, POLLRDHUP) & (POLLRDHUP | POLLHUP | POLLERR));
}

int rr_ride_poll(struct rr_conn *c, int fd, unsigned want)
{
	int rc;

	if (want & RR_ASK_FIRST && rr_conn_is_plain(c))
		return RR_CONN_KERNEL;
	/* A caller that is told of an edge reads everything there is, and must not stop at a
	 * record. */
	c->whole = c->whole && want & (RR_ASK_FIRST | RR_ASK_TOLD);
	rc = want & RR_IN_BITS ? look_only(c, fd, want & RR_ASK_TOLD) : 0;
	if (want & RR_ASK_TOLD && c->most)
		c->looked = rr_now_coarse();
	if (unlikely(c->kept))
		return (int)(rr_anchor_poll(fd, want) | POLLERR);
	if (rc == RR_RIDE_OVER)
		return rc;
	if (rc == -EAGAIN || (want & RR_IN_BITS && is_too_little(c, fd)))
		return (int)(rr_anchor_poll(fd, want) & ~(unsigned)RR_IN_BITS);
	return RR_CONN_KERNEL;
}

int rr_ride_inq(struct rr_conn *c, int fd)
{
	int rc = look_only(c, fd, false);
	size_t queued, at, len;

	c->whole = false;
	if (rc == RR_RIDE_OVER)
		return rc;
	if (rc == -EAGAIN)
		return 0;
	queued = rr_queue_bytes(fd);
	if (find_ours(c, fd, queued, &at, &len))
		queued = len ? queued - len : at;
	return (int)queued;
}
