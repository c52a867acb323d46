/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses of a connection's two ends, which do not change while it is connected. */

#include <netinet/in.h>

#include "core/base/os.h"
#include "core/conn/base/base.h"

/* As far as the kernel knows them; false: it is not connected. */
static bool ask_ends(int fd, struct sockaddr_in6 out[2])
{
	socklen_t llen = sizeof(out[0]), plen = sizeof(out[1]);
	bool connected;

	out[0].sin6_family = out[1].sin6_family = AF_UNSPEC;
	connected = !rr_os->getpeername(fd, (struct sockaddr *)&out[1], &plen);
	return !rr_os->getsockname(fd, (struct sockaddr *)&out[0], &llen) && connected;
}

bool rr_ends_known(struct rr_conn *c)
{
	if (c->name[0].sin6_family || c->ends)
		return true;
	c->ends = ask_ends(c->fd, c->end);
	return c->ends;
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
	c->ends = false;
}
