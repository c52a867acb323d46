/* SPDX-License-Identifier: BSD-3-Clause */
/* What we tell of ourselves, to the other end in an offer or an answer, and to a provider; and
 * which dialects we speak. What the peer tells is judged in answer.c and offer.c. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/ident.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/upgrade/upgrade.h"

#define FEW_CREDITS	16u	/* of each one, when there are many native connections */
#define FEW_BC_CREDITS	4u
#define OWN_RECVS	4u		/* hatch, note: messages that are not the engine's */
#define LIMIT_MIN	64u	/* of RLIMIT_NOFILE: with fewer we use none */
#define RESERVE_MIN	32u	/* descriptors left to the app: a quarter, but at least … */
#define RESERVE_MAX	1024u	/* … and at most so many */

bool rr_own_host(const struct rr_hello *h)
{
	uint8_t own[RR_IDENT];

	rr_host_id(h->token, own);
	return rr_ident_same(own, h->host);
}

/* The identity of the two addresses under this token; zeroes if they are not known. */
static void own_ends(struct rr_conn *c, bool server, const uint8_t *token,
		     uint8_t out[RR_IDENT])
{
	const struct sockaddr *l = rr_ends_own(c), *p = rr_ends_peer(c);

	memset(out, 0, RR_IDENT);
	if (rr_ends_known(c))
		rr_ends_id(token, server ? p : l, server ? l : p, out);
}

bool rr_own_ends(const struct rr_hello *h, struct rr_conn *c)
{
	uint8_t own[RR_IDENT];

	own_ends(c, true, h->token, own);
	return rr_ident_same(own, h->ends);
}

void rr_own_place(struct rr_hello *h, struct rr_conn *c)
{
	rr_host_id(h->token, h->host);
	own_ends(c, false, h->token, h->ends);
}

/* How many receives we need at most: the dialect has yet to be agreed on. */
static uint32_t own_recvs(bool native, uint32_t credits, uint32_t bc_credits)
{
	struct rr_eng_params ep = {
		.credits = rr_min(credits, rr_cp->eng.credits),
		.bc_credits = rr_min(bc_credits, rr_cp->eng.bc_credits),
		.caps = RR_CAP_RELIABLE_REPLY,
	};
	uint32_t most = 0;

	for (int d = 0; rr_dialect_names[d]; d++) {
		if (native && rr_cp->dialects && !(rr_cp->dialects & 1u << d) &&
		    d != RR_DIALECT_V1)
			continue;
		ep.dialect = (enum rr_dialect)d;
		if (native)
			ep.caps = rr_eng_native_caps(ep.dialect, rr_own_caps());
		most = rr_max(most, rr_eng_recvs(&ep));
	}
	return native ? most : most + OWN_RECVS;
}

/* As many as the options ask for, with nothing reduced yet by what the peer says. */
static uint32_t all_recvs(bool native)
{
	return own_recvs(native, rr_cp->eng.credits, rr_cp->eng.bc_credits);
}

/* What room.c will set aside if messages may have to be fetched while calls offer memory for
 * their replies. c: NULL if the connection is not known yet. */
static size_t set_aside(const struct rr_conn *c)
{
	size_t longest = rr_align((size_t)rr_cp->eng.max_msg, (size_t)RR_POOL_PAGE);

	if (!rr_cp->reverse_chunks && rr_cp->eng.reply_chunks != RR_REPLY_CHUNKS_BOUNDED &&
	    !(c && c->dialect != RR_DIALECT_V1))
		return 0;
	return 2 * longest;
}

uint32_t rr_own_caps(void)
{
	return RR_CAP_HATCH | RR_CAP_RING_CREDITS | RR_CAP_ADVANCES |
	       (rr_cp->reliable_replies ? RR_CAP_RELIABLE_REPLY : 0) |
	       (rr_cp->reverse_chunks ? RR_CAP_REVERSE_CHUNKS : 0);
}

/* What offers and answers have in common. The token, the dialects and the providers are the
 * caller's to add. */
void rr_own_hello(struct rr_hello *h)
{
	memset(h, 0, sizeof(*h));
	h->version = RR_NEGO_VERSION;
	h->caps = rr_own_caps();
	h->inline_size = rr_cp->inline_size;
	h->recvs = rr_prov_recvs(all_recvs(false), rr_cp->inline_size);
	h->credits = rr_cp->eng.credits;
	h->bc_credits = rr_cp->eng.bc_credits;
	h->max_msg = rr_cp->eng.max_msg;
}

enum rr_dialect rr_own_dialect(struct rr_conn *c, const uint32_t *program)
{
	if (!rr_cp->dialect)
		return RR_DIALECT_V1;
	return rr_cp->dialect(c->face.server, rr_ends_own(c), rr_ends_peer(c), program);
}

/* A rule that requires RDMA requires its dialect as well. */
uint32_t rr_own_dialects(const struct rr_conn *c)
{
	uint32_t d = rr_dialects_add(0, (enum rr_dialect)c->dialect);

	if (c->require || c->dialect == RR_DIALECT_V1)
		return d;
	return rr_dialects_add(d, RR_DIALECT_V1);
}

/* The kernel hands out the lowest free number: all below fd are in use, or were a moment ago,
 * by the app or by us. */
static bool is_spare(rlim_t limit, int fd)
{
	rlim_t reserve = rr_min(rr_max(limit / 4, (rlim_t)RESERVE_MIN), (rlim_t)RESERVE_MAX);

	if (limit <= LIMIT_MIN || fd < 0)
		return limit > LIMIT_MIN;
	return (rlim_t)fd + 1 + (rlim_t)rr_ownfd_above(fd) + reserve < limit;
}

/* The soft limit of RLIMIT_NOFILE. */
static rlim_t limit(void)
{
	struct rlimit rl;

	return getrlimit(RLIMIT_NOFILE, &rl) ? RLIM_INFINITY : rl.rlim_cur;
}

/* Asked before descriptors are made: the app's own open() must not fail because of ours. */
bool rr_own_spare(int fd)
{
	return is_spare(limit(), fd);
}

/* Can one address be reached from the other without leaving the network namespace? True if they
 * are equal, or both are loopback addresses. With option bypass_proxies something may translate
 * addresses in between, so they prove nothing. */
static bool is_near(const struct sockaddr_in6 *a, const struct sockaddr *to)
{
	const struct sockaddr_in6 *b = (const void *)to;
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;

	if (a->sin6_family != b->sin6_family || rr_cp->bypass_proxies)
		return false;
	if (a->sin6_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr ||
			(ntohl(a4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET &&
			 ntohl(b4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET);
	return a->sin6_family == AF_INET6 &&
	       !memcmp(&a->sin6_addr, &b->sin6_addr, sizeof(a->sin6_addr));
}

bool rr_own_params(struct rr_prov_params *p, struct rr_conn *c, const uint8_t *token,
		   int fd)
{
	socklen_t len = sizeof(p->local);
	const char *dir = "";

	*p = (struct rr_prov_params){
		.recv_size = rr_cp->inline_size,
		.recvs = all_recvs(!token),
		.few = token ? RR_PROV_FEW : own_recvs(true, FEW_CREDITS, FEW_BC_CREDITS),
		.mem_size = rr_own_memory() + set_aside(c),
		.ack_timeout = rr_cp->ack_timeout,
	};
	/* between two of ours the process's budget decides how many receives there may be */
	if (token) {
		p->recvs = rr_budget_recvs(rr_prov_recvs(p->recvs, p->recv_size), p->recv_size);
		p->long_size = rr_cp->device_inline;
		memcpy(p->token, token, RR_TOKEN_LEN);
	}
	if (token) {
		memcpy(&p->local, rr_ends_own(c), sizeof(p->local));
		p->peer = (const void *)rr_ends_peer(c);
	} else if (rr_os->getsockname(fd, (struct sockaddr *)&p->local, &len))
		p->local.sin6_family = AF_UNSPEC;
	/* A socket file is only needed for peers in other network namespaces. */
	p->near = token && is_near(&p->local, rr_ends_peer(c));
	if (token && !p->near)
		dir = rr_run_dir();
	p->run_dir = dir[0] ? dir : NULL;
	return rr_own_spare(token ? fd : -1);
}
