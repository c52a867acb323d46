/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes connections, except those that a rule leaves to TCP. It neither sends nor reads
 * anything. */

#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"

/* The mode of the rule for this connection, by the addresses that the kernel has for it. */
static RR_NOINLINE enum rr_mode mode_by_address(bool server, int fd,
						const struct sockaddr *peer)
{
	struct sockaddr_storage local = { 0 }, remote = { 0 };
	socklen_t llen = sizeof(local), rlen = sizeof(remote);

	rr_os->getsockname(fd, (struct sockaddr *)&local, &llen);
	if (server) {
		rr_os->getpeername(fd, (struct sockaddr *)&remote, &rlen);
		peer = (struct sockaddr *)&remote;
	}
	return rr_cp->mode(server, (struct sockaddr *)&local, peer);
}

/* The kernel is asked for addresses only if rules differ by them. */
static enum rr_mode mode_of(bool server, int fd, const struct sockaddr *peer)
{
	return rr_cp->alike ? rr_cp->mode(server, NULL, NULL)
			    : mode_by_address(server, fd, peer);
}

/* See upgrade.h. A server that takes up a new connection first looks after answers that nobody
 * has taken up. The state is set last, because it makes the connection one that others may
 * use. */
struct rr_conn *rr_conn_make(bool server, int fd, const struct sockaddr *peer, socklen_t len)
{
	enum rr_mode mode;
	struct rr_conn *c;

	if (!rr_cp)
		return NULL;
	if (server)
		rr_half_expire(rr_now());
	mode = mode_of(server, fd, peer);
	c = mode == RR_MODE_TCP ? NULL : rr_slab_get(server, fd);
	if (!c) {
		rr_report_none(server, mode == RR_MODE_TCP ? RR_R_POLICY : RR_R_NO_MEMORY);
		return NULL;
	}
	c->require = mode == RR_MODE_REQUIRE;
	if (server) {
		rr_report_open(c, fd);
	} else {
		c->peer_len = rr_min(len, (socklen_t)sizeof(c->peer));
		memcpy(&c->peer, peer, c->peer_len);
		rr_report_client(c, fd);
	}
	atomic_store_explicit(&c->face.state, RR_S_NEW, memory_order_release);
	return c;
}

/* NULL also for an address that is neither of IPv4 nor of IPv6. */
struct rr_conn *rr_conn_client(int fd, const struct sockaddr *peer, socklen_t len)
{
	return rr_conn_is_inet(peer, len) ? rr_conn_make(false, fd, peer, len) : NULL;
}

struct rr_conn *rr_conn_server(int fd)
{
	return rr_conn_make(true, fd, NULL, 0);
}
