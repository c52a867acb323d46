/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of the upgrade: makes the offer, hears the answer, joins the provider. How
 * an offer rides along with calls is ride_offer.c's. */

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/who.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"

/* This server gets no offers for a while. */
void rr_offer_negative(struct rr_conn *c)
{
	rr_cache_add(&c->peer, RR_R_NEGATIVE_CACHE, rr_now() + rr_cp->negative_time);
}

/* Connections that went by TCP because the answer took so long may offer again. */
void rr_offer_is_ours(struct rr_conn *c)
{
	rr_learned_ours(&c->peer, true);
	if (rr_cache_look(&c->peer, rr_now()) == RR_R_TIMEOUT)
		rr_cache_drop(&c->peer);
}

static enum rr_reason sniff_reason(enum rr_sniff s)
{
	switch (s) {
	case RR_SNIFF_SHORT: return RR_R_SHORT_WRITE;
	case RR_SNIFF_TLS: return RR_R_TLS;
	case RR_SNIFF_RPC: return RR_R_NONE;
	default: return RR_R_NOT_RPC;
	}
}

bool rr_offer_by_loopback(const struct sockaddr_in6 *peer)
{
	const struct in6_addr *a = &peer->sin6_addr;
	const struct sockaddr_in *in = (const void *)peer;
	uint32_t v4 = peer->sin6_family == AF_INET ? in->sin_addr.s_addr :
		      IN6_IS_ADDR_V4MAPPED(a) ? a->s6_addr32[3] : 0;

	return v4 ? ntohl(v4) >> 24 == IN_LOOPBACKNET : IN6_IS_ADDR_LOOPBACK(a);
}

/* Makes our side of every provider that can be had, in order of preference. Returns the last
 * reason why one could not. */
static enum rr_reason offer_providers(struct rr_conn *c, const struct rr_prov_params *p,
				      struct rr_hello *h)
{
	uint32_t most = rr_offer_by_loopback(&c->peer) ? 1 : RR_NEGO_PROVS;
	enum rr_reason why = RR_R_NO_PROVIDER;
	struct rr_share **at = &c->share;
	const struct rr_prov_ops *ops;

	rr_told_begin(c);
	for (uint32_t i = 0; i < most && (ops = rr_prov_nth(i)); i++) {
		struct rr_share *sh = rr_carrier_offer(ops, p, &h->prov[h->nprov], &why);

		if (!sh) {
			rr_told_here(c, rr_prov_id(ops), why);
			continue;
		}
		rr_told_offered(c, rr_prov_id(ops));
		h->nprov++;
		*at = sh;
		at = &sh->next;
	}
	return why;
}

/* See upgrade.h. */
enum rr_reason rr_offer_make(struct rr_conn *c, int fd, struct rr_hello *h)
{
	struct rr_prov_params p;
	enum rr_reason why;
	uint32_t rnd[1 + RR_TOKEN_LEN / 4];

	rr_report_adopt(c);
	if (!rr_os_random(rnd, sizeof(rnd)))
		return RR_R_NO_MEMORY;
	rr_own_hello(h);
	h->dialects = rr_own_dialects(c);
	h->asks = rr_cp->ask_peer;
	c->xid ^= rnd[0] | 1;	/* must differ from the xid of the app's call */
	memcpy(h->token, rnd + 1, RR_TOKEN_LEN);
	rr_own_place(h, c);
	if (!rr_own_params(&p, c, h->token, fd))
		return RR_R_NO_FDS;
	why = offer_providers(c, &p, h);
	c->lack = why == RR_R_NO_PROVIDER ? RR_R_NONE : (uint8_t)why;
	return h->nprov ? RR_R_NONE : why;
}

/* Sends the offer. 0: all of it went; 1: a part; or -errno. */
static RR_NOINLINE int send_offer(struct rr_conn *c, int fd, const struct rr_hello *h)
{
	uint8_t buf[RR_OFFER_MAX];
	uint32_t len = rr_nego_put_offer(h, rr_cp->program, c->xid, buf, sizeof(buf));
	ssize_t n = rr_os->send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	c->out.ours = len;
	return n < 0 ? -errno : (uint32_t)n < len;
}

/* Makes and sends the offer before the app's first bytes. 0: the state says what has become of
 * it; -EAGAIN: nothing has happened, and the app's write is to be tried again. */
static int offer(struct rr_conn *c, int fd)
{
	struct rr_hello h;
	enum rr_reason why = rr_offer_make(c, fd, &h);
	int rc;

	if (why)
		return rr_upgrade_fails(c, why), 0;
	c->meanwhile = rr_cp->offer_after != RR_AFTER_WAIT && !c->require;
	if (c->meanwhile)
		h.caps |= RR_CAP_MEANWHILE;
	rc = send_offer(c, fd, &h);
	if (rc < 0) {
		rr_carrier_free(c->share);
		c->share = NULL;
		if (rc == -EAGAIN)
			return rc;
		/* the kernel tells the app why */
		rr_conn_become(c, RR_S_TCP, RR_R_CLOSED);
		return 0;
	}
	rr_count(rr_stats_counters(c->st), RR_C_offers_sent, 1);
	c->deadline = rr_now() + rr_cp->upgrade_timeout;
	if (rc) {
		/* A fresh socket without 512 bytes of room. Half an offer cannot be taken
		 * back. */
		rr_anchor_break(fd);
		return rr_upgrade_fails(c, RR_R_INTERNAL), 0;
	}
	rr_conn_become(c, RR_S_OFFERED, RR_R_NONE);
	return 0;
}

/* The rule's mode for this connection, now that its first call is known. */
static enum rr_mode call_mode(struct rr_conn *c, const uint32_t *prog)
{
	if (!rr_cp->mode_call || !prog)
		return c->require ? RR_MODE_REQUIRE : RR_MODE_AUTO;
	return rr_cp->mode_call(rr_ends_own(c), (struct sockaddr *)&c->peer, *prog);
}

bool rr_offer_required(struct rr_conn *c)
{
	return c->require || (rr_cp->require_call &&
			      call_mode(c, c->called ? &c->prog : NULL) == RR_MODE_REQUIRE);
}

/* The app reads before it has written anything: what is there was not meant for us. */
ssize_t rr_upgrade_first_read(struct rr_conn *c, int fd)
{
	if (c->face.server || !(rr_anchor_poll(fd, POLLIN | POLLOUT) & ~(unsigned)POLLOUT))
		return -EAGAIN;
	rr_conn_become(c, RR_S_TCP, RR_R_SERVER_SPOKE_FIRST);
	return RR_CONN_KERNEL;
}

/* Learns the address that the offer goes to, because connect() may have been called more than
 * once. */
void rr_offer_peer(struct rr_conn *c)
{
	const struct sockaddr *a = rr_ends_peer(c);

	if (!rr_ends_known(c))
		return;
	memcpy(&c->peer, a, sizeof(c->peer));
	c->peer_len = a->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(c->peer);
}

enum rr_reason rr_offer_sniff(const uint8_t *head, size_t have)
{
	return sniff_reason(rr_sniff(head, have));
}

/* The rules decide first, then what earlier connections to this server have shown, then whether
 * the user has stopped upgrades. */
enum rr_reason rr_offer_may(struct rr_conn *c, const uint32_t *prog)
{
	enum rr_mode mode = call_mode(c, prog);
	enum rr_reason known;

	if (mode == RR_MODE_TCP)
		return RR_R_POLICY;
	c->require = mode == RR_MODE_REQUIRE;
	c->dialect = (uint8_t)rr_own_dialect(c, prog);
	known = rr_cache_look(&c->peer, rr_now());
	if (known == RR_R_NO_NATIVE)	/* that is about its RDMA port */
		known = RR_R_NONE;
	return known ? known : rr_upgrade_stopped() ? RR_R_STOPPED : RR_R_NONE;
}

/* The same for a connection whose stream begins with head. */
static enum rr_reason may_offer_on(struct rr_conn *c, const uint8_t *head, size_t have)
{
	enum rr_reason why = rr_offer_sniff(head, have);
	struct rr_rpc rpc;
	bool known = have >= RR_RM_HDR &&
		     rr_rpc_peek(head + RR_RM_HDR, (uint32_t)have - RR_RM_HDR, &rpc);

	c->prog = known ? rpc.prog : 0;
	return why ? why : rr_offer_may(c, known ? &rpc.prog : NULL);
}

/* Everything that could make an offer harmful is checked before anything is sent: is this RPC,
 * may the server be offered to, has it said nothing yet, has nobody else written to the socket?
 * In case of doubt the connection is left to TCP. */
int rr_upgrade_first_write(struct rr_conn *c, int fd, const struct iovec *iov, int n)
{
	enum rr_reason why;
	uint8_t head[64];
	unsigned bits;
	size_t have;

	if (c->face.server)
		return rr_conn_become(c, RR_S_TCP, RR_R_SERVER_SPOKE_FIRST), 0;
	if (!rr_upgrade_readable(iov, n))
		return -EFAULT;
	have = rr_iov_copy(head, sizeof(head), iov, n, 0);
	if (!have)
		return 0;
	bits = rr_anchor_poll(fd, POLLIN | POLLOUT);
	/* connecting; if the kernel handled this write, the next could offer in mid-stream */
	if (!bits)
		return -EAGAIN;
	rr_offer_peer(c);
	why = may_offer_on(c, head, have);
	if (!why && bits & ~(unsigned)POLLOUT)
		why = bits & (POLLHUP | POLLERR) ? RR_R_CLOSED : RR_R_SERVER_SPOKE_FIRST;
	if (!why && rr_upgrade_spoken(fd))
		why = RR_R_KERNEL_ONLY;
	if (why)
		return rr_conn_become(c, RR_S_TCP, why), 0;
	memcpy(&c->xid, head + RR_RM_HDR, sizeof(c->xid));
	c->xid = ntohl(c->xid);
	return offer(c, fd);
}

/* The server closed the connection on the offer: connects the same socket again, without an
 * offer this time. Connecting a TCP socket to AF_UNSPEC dissolves what it was connected to
 * (connect(2)). */
static void reconnect(struct rr_conn *c, int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	bool ok;

	rr_cache_add(&c->peer, RR_R_NEGATIVE_CACHE, rr_now() + rr_cp->negative_time * 10);
	ok = rr_os->connect(fd, &none, sizeof(none)) == 0 &&
	     (rr_os->connect(fd, (struct sockaddr *)&c->peer, c->peer_len) == 0 ||
	      errno == EINPROGRESS);
	if (!ok)
		rr_who_info(fd, c->st,
			    ": the peer closed on the offer, and connecting again failed");
	rr_ends_changed(c);
	rr_upgrade_fails(c, RR_R_CLOSED_ON_OFFER);
}

/* Joins the provider that the answer has chosen. RR_R_NONE, or why that is not possible. */
static enum rr_reason join_provider(struct rr_conn *c, const struct rr_hello *h)
{
	int rc;

	if (h->version != RR_NEGO_VERSION)
		return RR_R_RELEASES;
	if (h->nprov != 1 || !rr_carrier_choose(&c->share, h->prov[0].id) ||
	    memcmp(h->token, c->share->token, RR_TOKEN_LEN))
		return RR_R_NO_PROVIDER;
	rc = rr_carrier_join(c->share, &h->prov[0].addr);
	switch (rc) {
	case 0: return RR_R_NONE;
	case -ECANCELED: return RR_R_ABANDONED;
	case -EPROTONOSUPPORT: return RR_R_RELEASES;
	default: return RR_R_NO_PROVIDER;
	}
}

enum rr_reason rr_offer_join_chosen(struct rr_conn *c, const struct rr_hello *h)
{
	enum rr_dialect dialect;
	enum rr_reason why;

	if (!rr_dialects_choose(h->dialects, rr_own_dialects(c), &dialect))
		return RR_R_DIALECT;
	why = join_provider(c, h);
	if (!why)
		rr_upgrade_agree(c->share, h, dialect);
	else
		rr_told_here(c, h->prov[0].id, why);
	if (why == RR_R_RELEASES)	/* the next connection would fail in the same way */
		rr_cache_add(&c->peer, why, rr_now() + rr_cp->negative_time);
	return why;
}

/* The provider did not connect. Between two hosts it will not soon, because of a firewall or
 * another network: the server gets no offers for a while. */
static void not_joined(struct rr_conn *c, int rc)
{
	enum rr_reason why = rr_carrier_why(c->share, rc, RR_R_NO_ROUTE);

	rr_count(rr_stats_counters(c->st), RR_C_upgrade_failures, 1);
	if (!rr_prov_is_local(c->share->qp->ops))
		rr_cache_add(&c->peer, why, rr_now() + rr_cp->negative_time);
	why = rc == -EAGAIN ? RR_R_TIMEOUT : why;
	rr_told_here(c, rr_prov_id(c->share->qp->ops), why);
	rr_upgrade_fails(c, why);
}

/* RR_PACE_TURN: other connections set up their devices first, which is no failure however late
 * it is. */
void rr_offer_join(struct rr_conn *c)
{
	int rc = rr_conn_rides(rr_conn_st(c)) ? rr_pace_establish(c)
					      : rr_carrier_establish(c->share);

	if (rc == 0)
		return rr_upgrade_carry(c);
	if (rc != RR_PACE_TURN && (rc != -EAGAIN || rr_now() >= c->deadline))
		not_joined(c, rc);
}

/* The app's calls wait while the provider connects, until the deadline of the offer. */
static void join(struct rr_conn *c, const struct rr_hello *h)
{
	enum rr_reason why = rr_offer_join_chosen(c, h);

	if (why) {
		rr_count(rr_stats_counters(c->st), RR_C_upgrade_failures, 1);
		return rr_upgrade_fails(c, why);
	}
	rr_conn_become(c, RR_S_JOINING, RR_R_NONE);
	rr_offer_join(c);
}

/* From here on the app's bytes go by TCP. If the answer still comes, it is swallowed. */
static void give_up(struct rr_conn *c, enum rr_reason why)
{
	rr_carrier_free(c->share);
	c->share = NULL;
	c->in = (struct rr_track){ 0 };
	rr_offer_negative(c);
	rr_conn_become(c, RR_S_SWALLOW, why);
}

void rr_offer_meet(struct rr_conn *c, enum rr_reason why)
{
	if (why) {
		rr_count(rr_stats_counters(c->st), RR_C_upgrade_failures, 1);
		return rr_upgrade_fails(c, why);
	}
	c->deadline = rr_now() + rr_pace_patience(c);
	rr_conn_become(c, RR_S_MEETING, RR_R_NONE);
	rr_offer_join(c);
}

/* The wait for the answer is over. The call goes by TCP, and so do those of other connections
 * that would have to ask this server first. Whether the server has the library is not known
 * yet: its answer still counts. */
static void wait_no_more(struct rr_conn *c)
{
	rr_cache_add(&c->peer, RR_R_TIMEOUT, rr_now() + rr_cp->negative_time);
	c->deadline = rr_now() + rr_pace_patience(c);
	rr_conn_become(c, RR_S_ASKED, RR_R_NONE);
}

/* Was an RDMA device needed that we did not have? */
static bool lacks_device(const struct rr_conn *c)
{
	const struct rr_share *s = c->share;

	while (s && rr_prov_is_local(s->qp->ops))
		s = s->next;
	return rr_cp->verbs && !s && !rr_offer_by_loopback(&c->peer);
}

/* What we lack ourselves says more than the server's refusal. */
enum rr_reason rr_offer_declined(const struct rr_conn *c, enum rr_nego what)
{
	if (what == RR_NEGO_NO)
		return RR_R_NO_SHIM;
	if (what == RR_NEGO_ELSEWHERE)
		return RR_R_ADDRESSES;
	if (c->lack)
		return (enum rr_reason)c->lack;
	if (what == RR_NEGO_ONE_HOST)
		return RR_R_ONE_HOST;
	return lacks_device(c) ? RR_R_NO_DEVICE : RR_R_DECLINED;
}

/* Peeks at what the server has said so far, and says in *what what it is. Returns the number of
 * bytes, or as recv(). */
static RR_NOINLINE ssize_t hear_server(const struct rr_conn *c, int fd, struct rr_hello *h,
				uint32_t *need, enum rr_nego *what)
{
	uint8_t buf[RR_ANSWER_MAX];
	ssize_t n = rr_os->recv(fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT);

	if (n > 0)
		*what = rr_nego_get_answer(buf, (size_t)n, c->xid, h, need);
	return n;
}

/* An end or an error instead of an answer most likely means that the server did not accept the
 * offer as a call: it gets the connection again without one (reconnect()). If the app has shut
 * reading itself, an end means nothing. */
void rr_offer_hear(struct rr_conn *c, int fd)
{
	struct rr_hello h;
	uint32_t need = 0;
	enum rr_nego what = RR_NEGO_PART;
	ssize_t n = hear_server(c, fd, &h, &need, &what);

	if (n == 0 && c->shut_rd)
		return give_up(c, RR_R_CLOSED);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return reconnect(c, fd);
	if (what == RR_NEGO_PART && need <= RR_ANSWER_MAX) {
		if (rr_now() < c->deadline)
			return;
		return c->meanwhile ? wait_no_more(c) : give_up(c, RR_R_TIMEOUT);
	}
	if (n > 0 && rr_upgrade_waits(c))
		return;
	switch (what) {
	case RR_NEGO_OURS:
		if (!rr_upgrade_consume(fd, need))
			return rr_upgrade_fails(c, RR_R_INTERNAL);
		rr_told_there(c, &h);
		rr_offer_is_ours(c);
		c->in.ours = need;
		if (c->meanwhile && h.caps & RR_CAP_MEANWHILE)
			return rr_offer_meet(c, rr_offer_join_chosen(c, &h));
		if (rr_upgrade_unseen(c))
			return rr_upgrade_fails(c, RR_R_KERNEL_ONLY);
		return join(c, &h);
	case RR_NEGO_DECLINED:
	case RR_NEGO_ELSEWHERE:
	case RR_NEGO_ONE_HOST:
	case RR_NEGO_NO:
		rr_upgrade_consume(fd, need);
		if (what != RR_NEGO_NO)
			rr_told_there(c, &h);
		rr_learned_ours(&c->peer, what != RR_NEGO_NO);
		rr_offer_negative(c);
		return rr_upgrade_fails(c, rr_offer_declined(c, what));
	default:
		return give_up(c, RR_R_NO_SHIM);
	}
}
