/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses of a connection's two ends. They do not change while it is connected, so the
 * kernel is asked for them once; this file does not change them. */

#include <netinet/in.h>
#include <string.h>

#include "core/base/os.h"
#include "core/conn/base/base.h"

static bool is_known(const struct rr_conn *c)
{
	return c->told[0] && c->told[1];
}

/* Asks the kernel for the addresses that are not known yet. Our own counts only once the socket
 * is connected, because connect() may change it. */
static void ask_ends(struct rr_conn *c)
{
	socklen_t llen = sizeof(c->end[0]), plen = sizeof(c->end[1]);
	struct sockaddr *own = (struct sockaddr *)&c->end[0];
	struct sockaddr *peer = (struct sockaddr *)&c->end[1];

	if (!c->told[1]) {
		peer->sa_family = AF_UNSPEC;
		c->told[1] = !rr_os->getpeername(c->fd, peer, &plen);
	}
	if (!c->told[0]) {
		own->sa_family = AF_UNSPEC;
		c->told[0] = !rr_os->getsockname(c->fd, own, &llen) && c->told[1];
	}
}

bool rr_ends_known(struct rr_conn *c)
{
	if (c->name[0].sin6_family || is_known(c))
		return true;
	ask_ends(c);
	return is_known(c);
}

void rr_conn_named(struct rr_conn *c, bool peer, const struct sockaddr *addr, socklen_t len)
{
	if (!rr_conn_is_kernels(c) || len > sizeof(c->end[0]) || rr_lock_try(&c->lock))
		return;
	/* Our own address may still change until the socket is connected. */
	if (rr_conn_is_kernels(c) && !c->told[peer] && (peer || c->face.server || c->told[1])) {
		memcpy(&c->end[peer], addr, len);
		c->told[peer] = true;
	}
	rr_lock_drop(&c->lock);
}

const struct sockaddr *rr_ends_own(struct rr_conn *c)
{
	rr_ends_known(c);
	return (const struct sockaddr *)(c->name[0].sin6_family ? &c->name[0] : &c->end[0]);
}

const struct sockaddr *rr_ends_peer(struct rr_conn *c)
{
	rr_ends_known(c);
	return (const struct sockaddr *)(c->name[0].sin6_family ? &c->name[1] : &c->end[1]);
}

void rr_ends_changed(struct rr_conn *c)
{
	c->told[0] = c->told[1] = false;
}
