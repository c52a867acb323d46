/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the way in which a connection is made: by an upgrade, or by RDMA CM. Also gives
 * the library's code its table of system calls: here that is libc's own, as nothing is
 * interposed. */

#include "tools/conform/link.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/os.h"

static const struct rr_os libc_os = {
	.socket = socket, .bind = bind, .listen = listen, .connect = connect,
		  .accept4 = accept4,
	.shutdown = shutdown, .close = close, .fcntl = fcntl, .ioctl = ioctl,
		    .getsockopt = getsockopt,
	.setsockopt = setsockopt, .getsockname = getsockname, .getpeername = getpeername,
		      .recv = recv,
	.send = send, .recvmsg = recvmsg, .sendmsg = sendmsg, .poll = poll,
};

/* What was made in part is closed if the connection fails, so the caller never has to. */
const char *rr_link_connect(struct rr_link *l, const struct rr_link_params *p)
{
	const char *why;

	rr_os = &libc_os;
	*l = (struct rr_link){ .anchor = -1 };
	why = p->way == RR_WAY_UPGRADE ? rr_link_upgrade_connect(l, p) :
	      rr_link_native_connect(l, p);
	if (why)
		rr_link_close(l);
	return why;
}

/* On failure *out is still the caller's, to be freed by rr_link_unlisten(). */
const char *rr_link_listen(struct rr_link_listener **out, const struct rr_link_params *p)
{
	struct rr_link_listener *l = calloc(1, sizeof(*l));
	const char *why;

	if (!l)
		return "out of memory";
	rr_os = &libc_os;
	l->fd = -1;
	*out = l;
	why = p->way == RR_WAY_UPGRADE ? rr_link_upgrade_listen(l, p) :
	      rr_link_native_listen(l, p);
	return why;
}

const char *rr_link_accept(struct rr_link *l, struct rr_link_listener *from,
			   const struct rr_link_params *p)
{
	const char *why;

	*l = (struct rr_link){ .anchor = -1 };
	why = from->lst ? rr_link_native_accept(l, from, p) :
	      rr_link_upgrade_accept(l, from, p);
	if (why)
		rr_link_close(l);
	return why;
}
