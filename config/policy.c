/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides which rule a connection falls under: the first one that matches. Also which mode,
 * dialect and RDMA port that rule gives it. */

#include <string.h>

#include "config/internal.h"

/* One end of a connection as rules see it. An IPv4 address mapped into IPv6 counts as IPv4. */
struct end {
	uint8_t family;		/* 0 unknown, 4, 6 */
	uint16_t port;
	uint8_t address[16];
};

static struct end end_of_address(const struct sockaddr *sa)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff };
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct end e = { 0 };

	if (sa && sa->sa_family == AF_INET) {
		memcpy(&in, sa, sizeof(in));
		e.family = 4;
		e.port = ntohs(in.sin_port);
		memcpy(e.address, &in.sin_addr, 4);
	} else if (sa && sa->sa_family == AF_INET6) {
		memcpy(&in6, sa, sizeof(in6));
		e.family = 6;
		e.port = ntohs(in6.sin6_port);
		memcpy(e.address, &in6.sin6_addr, 16);
		if (!memcmp(e.address, mapped, sizeof(mapped))) {
			e.family = 4;
			memcpy(e.address, e.address + 12, 4);
		}
	}
	return e;
}

/* Are the first `bits` bits of both addresses the same? */
static bool same_net(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned rest = bits % 8;

	if (memcmp(a, b, bits / 8))
		return false;
	return !rest || !((a[bits / 8] ^ b[bits / 8]) >> (8 - rest));
}

/* Do all keys of the rule match, 'program' aside? */
static bool matches(const struct rr_rule *r, bool server, const struct end *local,
		    const struct end *peer)
{
	const struct end *service = server ? local : peer;

	if (r->other || (r->role && r->role != (server ? 's' : 'c')))
		return false;
	if (r->has_port &&	/* of an address that is not known the port is 0 */
	    (service->port < r->port_lo || service->port > r->port_hi))
		return false;
	return !r->family || (r->family == peer->family &&
			      same_net(r->address, peer->address, r->prefix));
}

/* Each key of a that is set has to be at least as wide as the same key of b. */
bool rr_rule_covers(const struct rr_rule *a, const struct rr_rule *b)
{
	if (a->role && a->role != b->role)
		return false;
	if (a->has_port && (!b->has_port || b->port_lo < a->port_lo || b->port_hi > a->port_hi))
		return false;
	if (a->has_program && (!b->has_program || a->program != b->program))
		return false;
	return !a->family || (a->family == b->family && a->prefix <= b->prefix &&
			      same_net(a->address, b->address, a->prefix));
}

/* The rule that decides, or NULL. *may: on the client, while the program is not known, a rule
 * on the program might come before that rule; then the answer is not final. */
static const struct rr_rule *find_rule(const struct rr_conf *c, bool server,
				       const struct sockaddr *local,
				       const struct sockaddr *peer, const uint32_t *program,
				       bool *may)
{
	struct end l = end_of_address(local), p = end_of_address(peer);

	*may = false;
	for (uint32_t i = 0; i < c->nrules; i++) {
		const struct rr_rule *r = &c->rules[i];

		if (!matches(r, server, &l, &p))
			continue;
		if (!r->has_program)
			return r;
		if (server)	/* a server never knows the program in time */
			continue;
		*may |= !program;
		if (program && *program == r->program)
			return r;
	}
	return NULL;
}

/* While the program may still decide, AUTO keeps both ways open: rr_conf_mode_call() is asked
 * again at the first call. */
static enum rr_mode judge_rules(const struct rr_conf *c, bool server,
				const struct sockaddr *local,
				const struct sockaddr *peer, const uint32_t *program)
{
	const struct rr_rule *r;
	bool may;

	if (!c->enabled)
		return RR_MODE_TCP;
	r = find_rule(c, server, local, peer, program, &may);
	return may ? RR_MODE_AUTO : r ? r->mode : c->mode;
}

enum rr_mode rr_conf_mode(const struct rr_conf *c, bool server, const struct sockaddr *local,
			  const struct sockaddr *peer)
{
	return judge_rules(c, server, local, peer, NULL);
}

enum rr_mode rr_conf_mode_call(const struct rr_conf *c, const struct sockaddr *local,
			       const struct sockaddr *peer, uint32_t program)
{
	return judge_rules(c, false, local, peer, &program);
}

enum rr_dialect rr_conf_dialect(const struct rr_conf *c, bool server,
				const struct sockaddr *local,
				const struct sockaddr *peer, const uint32_t *program)
{
	bool may;
	const struct rr_rule *r = find_rule(c, server, local, peer, program, &may);

	return r && r->has_dialect ? (enum rr_dialect)r->dialect : c->dialect;
}

/* Rules of other commands are counted as well, though none of them matches here. */
uint32_t rr_conf_dialects(const struct rr_conf *c)
{
	uint32_t all = 1u << c->dialect;

	for (uint32_t i = 0; i < c->nrules; i++)
		if (c->rules[i].has_dialect)
			all |= 1u << c->rules[i].dialect;
	return all;
}

/* The RDMA port for a service's TCP port. NFS has one of its own, 20049 (RFC 8267 §6.3 and §9);
 * for other services it is the same number. */
static uint16_t usual_port(uint16_t port)
{
	return port == RR_CONF_NFS ? RR_CONF_NFS_RDMA : port;
}

uint16_t rr_conf_native(const struct rr_conf *c, bool server, const struct sockaddr *local,
			const struct sockaddr *peer)
{
	struct end l = end_of_address(local), p = end_of_address(peer);

	for (uint32_t i = 0; c->enabled && i < c->nrules; i++) {
		struct rr_rule r = c->rules[i];

		if (!peer && r.has_native)
			r.family = 0;	/* some peers may be let in: the address decides
					 * later */
		/* The program of the first call is not known at this time. */
		if (r.has_program || !matches(&r, server, &l, &p))
			continue;
		if (!r.has_native)
			return 0;
		return r.native ? r.native : usual_port(server ? l.port : p.port);
	}
	return 0;
}
