/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of the upgrade, once an offer was received (hear.c): accepts or declines
 * it, and waits for the client's decision. */

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"

/* Our side of provider i of the offer, with its part of the answer; NULL: it cannot be used. */
static struct rr_share *accept_provider(const struct rr_hello *h, uint32_t i,
					const struct rr_prov_params *p,
					struct rr_nego_prov *answer, enum rr_reason *why)
{
	const struct rr_prov_ops *ops = rr_prov_by_id(h->prov[i].id);

	if (!ops || (rr_prov_is_local(ops) && !rr_own_host(h)))
		return NULL;
	return rr_carrier_answer(ops, p, &h->prov[i], answer, why);
}

/* The client is told only what it has to know: capabilities that it lacks are left out. */
static void answer_hello(struct rr_hello *answer, const struct rr_hello *h)
{
	rr_own_hello(answer);
	memcpy(answer->token, h->token, RR_TOKEN_LEN);
	answer->caps &= h->caps;
	answer->inline_size = answer->recvs = 0;	/* the provider says it */
}

/* A connection between equal addresses does not leave its network namespace. */
static bool within_one_namespace(struct rr_conn *c)
{
	const void *a = rr_ends_own(c), *b = rr_ends_peer(c);
	const struct sockaddr_in6 *a6 = a, *b6 = b;
	const struct sockaddr_in *a4 = a, *b4 = b;

	if (!rr_ends_known(c))
		return true;
	if (a6->sin6_family == AF_INET6)
		return !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr));
	return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}

/* Why provider i of the offer cannot be used here. why: what the attempt has shown;
 * RR_R_NO_ROUTE is nothing in particular. */
static enum rr_reason lack_of(struct rr_conn *c, const struct rr_hello *h, uint32_t i,
			      enum rr_reason why)
{
	const struct rr_prov_ops *ops = rr_prov_by_id(h->prov[i].id);

	if (!ops)
		return rr_cp->verbs ? RR_R_NO_DEVICE : RR_R_DISABLED;
	if (!rr_prov_is_local(ops) || why != RR_R_NO_ROUTE)
		return why;
	if (!rr_own_host(h))
		return RR_R_OTHER_HOST;
	return within_one_namespace(c) ? RR_R_NO_ROUTE : RR_R_ONE_HOST;
}

static void add_lack(struct rr_hello *answer, uint8_t id, enum rr_reason why)
{
	answer->lack[answer->nlack++] = (struct rr_nego_lack){ id, (uint8_t)why };
}

/* See upgrade.h. If no provider was tried, each lacks what the whole offer does. */
void rr_answer_tell(struct rr_hello *answer, const struct rr_hello *h, enum rr_reason why)
{
	bool tried = answer->nlack;

	answer->release[0] = '\0';
	if (!h->asks || !rr_cp->tell_peer)
		return;
	memcpy(answer->token, h->token, RR_TOKEN_LEN);
	memcpy(answer->release, rr_release, sizeof(answer->release));
	for (uint32_t i = 0; why && !tried && i < h->nprov; i++)
		add_lack(answer, h->prov[i].id, why);
}

/* See upgrade.h. Cheap checks come first, so that an offer that fails them costs next to
 * nothing. */
bool rr_answer_accept(struct rr_conn *c, int fd, const struct rr_hello *h,
		      struct rr_hello *answer, enum rr_reason *why)
{
	enum rr_dialect dialect;
	struct rr_prov_params p;

	answer->nlack = 0;
	if (h->version != RR_NEGO_VERSION) {
		*why = RR_R_RELEASES;
		return false;
	}
	if (!rr_cp->bypass_proxies && !rr_own_ends(h, c)) {
		*why = RR_R_ADDRESSES;
		return false;
	}
	answer_hello(answer, h);
	c->dialect = (uint8_t)rr_own_dialect(c, NULL);
	if (!rr_dialects_choose(h->dialects, rr_own_dialects(c), &dialect)) {
		*why = RR_R_DIALECT;
		return false;
	}
	answer->dialects = rr_dialects_add(0, dialect);
	if (!rr_own_params(&p, c, h->token, fd)) {
		*why = RR_R_NO_FDS;
		return false;
	}
	for (uint32_t i = 0; i < h->nprov; i++) {
		enum rr_reason one = RR_R_NO_ROUTE;

		c->share = accept_provider(h, i, &p, &answer->prov[0], &one);
		if (!c->share) {
			*why = one == RR_R_NO_ROUTE ? *why : one;
			add_lack(answer, h->prov[i].id, lack_of(c, h, i, one));
			continue;
		}
		answer->nprov = 1;
		rr_upgrade_agree(c->share, h, dialect);
		return true;
	}
	return false;
}

/* Returns why no provider of an acceptable offer could be used. */
enum rr_reason rr_answer_why_not(struct rr_conn *c, const struct rr_hello *h)
{
	bool rdma = false;

	for (uint32_t i = 0; i < h->nprov; i++)
		rdma |= !rr_prov_is_local(rr_prov_by_id(h->prov[i].id));
	if (rdma && rr_cp->verbs && !rr_prov_nth(1))
		return RR_R_NO_DEVICE;
	return h->nprov && !rdma && rr_own_host(h) && !within_one_namespace(c) ? RR_R_ONE_HOST
									       : RR_R_NO_ROUTE;
}

/* Two reasons have a verdict of their own in the answer. All others are told as a plain
 * refusal. */
enum rr_nego rr_answer_refusal(enum rr_reason why)
{
	return why == RR_R_ADDRESSES ? RR_NEGO_ELSEWHERE :
	       why == RR_R_ONE_HOST ? RR_NEGO_ONE_HOST : RR_NEGO_DECLINED;
}

bool rr_answer_withdraw(struct rr_conn *c)
{
	if (!rr_carrier_withdraw(c->share))
		return false;
	rr_count(rr_stats_counters(c->st), RR_C_upgrade_failures, 1);
	return true;
}

/* Withdraws the answer if the client has not come for too long: what is held ready for it costs
 * memory and a descriptor. */
static void look_at_deadline(struct rr_conn *c)
{
	if (rr_now() < c->deadline)
		return;
	if (rr_answer_withdraw(c))
		return rr_upgrade_fails(c, RR_R_ABANDONED);
	/* The client is on its way, and the provider will say when it has arrived. */
	rr_half_leave(c);
	c->deadline = rr_now() + rr_pace_patience(c);
}

/* The client's bytes have come by TCP, or it is gone, or the provider has failed with rc: what
 * was held ready for it is freed. */
static void chose_tcp(struct rr_conn *c, int rc)
{
	rr_count(rr_stats_counters(c->st), RR_C_upgrade_failures, 1);
	rr_upgrade_fails(c, rr_carrier_why(c->share, rc, RR_R_PEER_CHOSE_TCP));
}

/* Waits for the client's decision: either it connects the provider, or its bytes come by
 * TCP. */
void rr_answer_wait(struct rr_conn *c, int fd)
{
	uint8_t byte;
	ssize_t n;
	int rc;

	rc = rr_carrier_establish(c->share);
	if (rc == 0)
		return rr_upgrade_carry(c);
	/* A reset is not reported to the app: a client that closes with our answer unread
	 * causes one, and means nothing by it. */
	n = rr_os->recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n == 0 && c->shut_rd)
		return;		/* the app itself has shut the socket */
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		return chose_tcp(c, rc);
	look_at_deadline(c);
}

/* The same for an answer that rode along. Here bytes that come by TCP decide nothing. */
void rr_answer_rides(struct rr_conn *c)
{
	int rc = rr_pace_establish(c);

	if (rc == 0)
		rr_upgrade_carry(c);
	else if (rc == -EAGAIN)
		look_at_deadline(c);
	else if (rc != RR_PACE_TURN)
		chose_tcp(c, rc);
}
