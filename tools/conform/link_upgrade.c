/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections by the upgrade that docs/PROTOCOL.md describes: a TCP connection, an offer and
 * its answer on it, then the provider shm. Only this is taken from the library (core/nego,
 * core/prov/shm): it is how a peer with the library is reached, and is not what is judged. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/ident.h"
#include "core/base/os.h"
#include "core/nego/nego.h"
#include "tools/conform/link.h"

#define ops (&rr_prov_shm)

/* What this end says of itself in an offer or an answer. It speaks one dialect only, so that
 * the peer cannot choose another. */
static void hello_of(const struct rr_link_params *p, struct rr_hello *h)
{
	*h = (struct rr_hello){
		.version = RR_NEGO_VERSION, .caps = p->caps, .inline_size = p->recv_size,
			   .recvs = p->recvs,
		.credits = p->credits, .bc_credits = p->credits, .max_msg = RR_LINK_MEM,
	};
	h->dialects = rr_dialects_add(0, p->dialect);
}

/* Writes the host and the connection's addresses into the offer, as hashes with the token. The
 * peer compares them with its own and sees whether a proxy stands between. */
static void put_ends(struct rr_hello *h, int fd)
{
	struct sockaddr_storage local = { 0 }, peer = { 0 };
	socklen_t llen = sizeof(local), plen = sizeof(peer);

	getsockname(fd, (struct sockaddr *)&local, &llen);
	getpeername(fd, (struct sockaddr *)&peer, &plen);
	rr_host_id(h->token, h->host);
	rr_ends_id(h->token, (struct sockaddr *)&local, (struct sockaddr *)&peer, h->ends);
}

/* Do both ends speak the dialect? */
static bool dialect_agreed(const struct rr_link_params *p, uint32_t dialects)
{
	enum rr_dialect d;

	return rr_dialects_choose(dialects, rr_dialects_add(0, p->dialect), &d);
}

/* Receives what TCP has within ms, at most cap bytes. Returns how many, 0 at the end, or -1. An
 * offer or answer is short, and is expected to come in one piece. */
static int hear_tcp(int fd, uint8_t *buf, size_t cap, uint32_t ms)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, (int)ms) == 1 ? (int)recv(fd, buf, cap, 0) : -1;
}

/* Sends the offer h and goes on by the answer. Returns NULL once the connection is established,
 * or why there is none, in words for the user: most reasons are about the set-up and not about
 * the peer. */
static const char *ask_upgrade(struct rr_link *l, const struct rr_link_params *p,
			       struct rr_hello *h)
{
	uint8_t buf[RR_OFFER_MAX];
	uint32_t xid = 77, need;
	struct rr_hello answer;
	int n = (int)rr_nego_put_offer(h, p->program, xid, buf, sizeof(buf));

	if (send(l->anchor, buf, (size_t)n, MSG_NOSIGNAL) != n)
		return strerror(errno);
	n = hear_tcp(l->anchor, buf, sizeof(buf), p->timeout);
	if (n <= 0)
		return "no answer to the offer";
	switch (rr_nego_get_answer(buf, (size_t)n, xid, &answer, &need)) {
	case RR_NEGO_OURS:
		break;
	case RR_NEGO_ELSEWHERE:
		return "the peer sees other addresses: a proxy or NAT stands between";
	case RR_NEGO_ONE_HOST:
		return "the peer is on this host, and has no run directory in common with us";
	case RR_NEGO_DECLINED:
		return "the peer declines the upgrade";
	default:
		return "the peer knows of no upgrade";
	}
	if (!dialect_agreed(p, answer.dialects))
		return "the peer does not speak this dialect";
	return ops->join(l->qp, &answer.prov[0].addr) ? "the shared memory cannot be joined" :
	       rr_link_establish(l);
}

/* The shared memory is made before the offer, because the offer has to name it. */
const char *rr_link_upgrade_connect(struct rr_link *l, const struct rr_link_params *p)
{
	socklen_t len = p->addr.ss_family == AF_INET ? sizeof(struct sockaddr_in) :
			sizeof(struct sockaddr_in6);
	struct rr_prov_params pp;
	struct rr_hello h;
	const char *why;

	l->anchor = socket(p->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (l->anchor < 0 || connect(l->anchor, (const struct sockaddr *)&p->addr, len))
		return strerror(errno);
	hello_of(p, &h);
	rr_link_prov_params(p, &pp);
	if (!rr_os_random(h.token, sizeof(h.token)))
		return "no random numbers";
	memcpy(pp.token, h.token, sizeof(pp.token));
	put_ends(&h, l->anchor);
	why = rr_link_new(l, p, ops, &pp);
	if (why)
		return why;
	h.nprov = 1;
	h.prov[0].id = ops->id;
	if (ops->prepare(l->qp, &pp, &h.prov[0].addr))
		return "no shared memory";
	return ask_upgrade(l, p, &h);
}

/* The listener is an ordinary TCP socket; the address may be one that a case used just
 * before. */
const char *rr_link_upgrade_listen(struct rr_link_listener *l, const struct rr_link_params *p)
{
	socklen_t len = p->addr.ss_family == AF_INET ? sizeof(struct sockaddr_in) :
			sizeof(struct sockaddr_in6);
	int on = 1;

	l->fd = socket(p->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return strerror(errno);
	setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(l->fd, (const struct sockaddr *)&p->addr, len) || listen(l->fd, 8))
		return strerror(errno);
	return NULL;
}

/* The provider reaches the peer's memory before the answer is sent: an answer promises that it
 * works. */
static const char *answer_upgrade(struct rr_link *l, const struct rr_link_params *p,
				  const struct rr_hello *offer, uint32_t xid)
{
	struct rr_prov_params pp;
	struct rr_prov_addr unused;
	uint8_t buf[RR_ANSWER_MAX];
	struct rr_hello h;
	const char *why;
	int n;

	hello_of(p, &h);
	h.caps &= offer->caps;
	h.nprov = 1;
	h.prov[0].id = ops->id;
	memcpy(h.token, offer->token, sizeof(h.token));
	rr_link_prov_params(p, &pp);
	memcpy(pp.token, offer->token, sizeof(pp.token));
	why = rr_link_new(l, p, ops, &pp);
	if (why)
		return why;
	if (!dialect_agreed(p, offer->dialects))
		return "the peer does not offer this dialect";
	if (!offer->nprov || ops->answer(l->qp, &pp, &offer->prov[0].addr, &unused))
		return "the peer's shared memory cannot be reached";
	n = (int)rr_nego_put_answer(&h, xid, buf, sizeof(buf));
	if (send(l->anchor, buf, (size_t)n, MSG_NOSIGNAL) != n)
		return strerror(errno);
	return rr_link_establish(l);
}

/* Judges the first bytes of the connection only. A requester without the library makes no
 * offer, and cannot be judged this way. */
const char *rr_link_upgrade_accept(struct rr_link *l, struct rr_link_listener *from,
				   const struct rr_link_params *p)
{
	struct pollfd in = { from->fd, POLLIN, 0 };
	uint8_t buf[RR_OFFER_MAX];
	struct rr_hello offer;
	uint32_t xid, need;
	int n;

	if (poll(&in, 1, (int)p->timeout) != 1)
		return "nobody connects";
	l->anchor = accept4(from->fd, NULL, NULL, SOCK_CLOEXEC);
	if (l->anchor < 0)
		return strerror(errno);
	n = hear_tcp(l->anchor, buf, sizeof(buf), p->timeout);
	if (n <= 0 || rr_nego_get_offer(buf, (size_t)n, p->program, &xid, &offer,
					&need) != RR_NEGO_OURS)
		return "the peer makes no offer of an upgrade";
	return answer_upgrade(l, p, &offer, xid);
}
