/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of the upgrade. */

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"

/* Our side of one provider that was offered, and what to answer; NULL: not that one. */
static struct rr_share *accept_provider(const struct rr_hello *h, uint32_t i,
					const struct rr_prov_params *p,
					struct rr_nego_prov *answer, enum rr_reason *why)
{
	const struct rr_prov_ops *ops = rr_prov_by_id(h->prov[i].id);

	if (!ops || (rr_prov_is_local(ops) && !rr_own_host(h)))
		return NULL;
	return rr_carrier_answer(ops, p, &h->prov[i], answer, why);
}

/* What the client has to know of us, and no more: what we do not have in common with it is
 * nobody's business. */
static void answer_hello(struct rr_hello *answer, const struct rr_hello *h)
{
	rr_own_hello(answer);
	memcpy(answer->token, h->token, RR_TOKEN_LEN);
	answer->caps &= h->caps;
	answer->inline_size = answer->recvs = 0;	/* the provider says it */
}

/* Can and may we? Makes our side of the first provider that both have, and says so in *answer.
 * The cheap questions come first: whoever fails them has cost us next to nothing. */
bool rr_answer_accept(struct rr_conn *c, int fd, const struct rr_hello *h,
		      struct rr_hello *answer, enum rr_reason *why)
{
	enum rr_dialect dialect;
	struct rr_prov_params p;

	if (h->version != RR_NEGO_VERSION)
		return false;
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
		c->share = accept_provider(h, i, &p, &answer->prov[0], why);
		if (!c->share)
			continue;
		answer->nprov = 1;
		rr_upgrade_agree(c->share, h, dialect);
		return true;
	}
	return false;
}

/* A connection from an address to itself does not leave its network namespace. */
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

/* Why an offer came to nothing. */
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

/* Nobody has come for too long: what we hold ready is not worth it. */
static void look_at_deadline(struct rr_conn *c)
{
	if (rr_now() < c->deadline)
		return;
	if (rr_answer_withdraw(c))
		return rr_upgrade_fails(c, RR_R_ABANDONED);
	/* Somebody comes, and the provider will say when. */
	rr_half_leave(c);
	c->deadline = rr_now() + rr_cp->upgrade_timeout;
}

static void chose_tcp(struct rr_conn *c, int rc)
{
	rr_count(rr_stats_counters(c->st), RR_C_upgrade_failures, 1);
	rr_upgrade_fails(c, rr_carrier_why(c->share, rc, RR_R_PEER_CHOSE_TCP));
}

/* The client decides: it connects the provider, or its bytes come by TCP. */
void rr_answer_wait(struct rr_conn *c, int fd)
{
	uint8_t byte;
	ssize_t n;
	int rc;

	if (rr_upgrade_waits(c))
		return;
	rc = rr_carrier_establish(c->share);
	if (rc == 0)
		return rr_upgrade_carry(c);
	/* A reset is no news for the app: whoever closes has left our answer unread, and that
	 * is all. */
	n = rr_os->recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n == 0 && c->shut_rd)
		return;		/* of the app's doing */
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		return chose_tcp(c, rc);
	look_at_deadline(c);
}

/* The same of an answer that rode along: bytes by TCP say nothing, and who sleeps does so for
 * both. */
void rr_answer_rides(struct rr_conn *c)
{
	int rc = rr_carrier_establish(c->share);

	if (rc == 0)
		rr_upgrade_carry(c);
	else if (rc != -EAGAIN)
		chose_tcp(c, rc);
	else
		look_at_deadline(c);
}
