/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks the kernel about a socket, and ends one so that the other end sees a reset. It moves no
 * bytes (queue.c). */

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/base/base.h"

unsigned rr_anchor_poll(int fd, unsigned want)
{
	struct pollfd p = { fd, (short)want, 0 };

	return rr_os->poll(&p, 1, 0) > 0 ? (unsigned)(unsigned short)p.revents : 0;
}

void rr_anchor_reset(int fd)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	rr_os->setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

/* Shuts the anchor down in a way that makes its peer see a reset at the close, and wakes
 * whoever sleeps on it in this process. */
void rr_anchor_break(int fd)
{
	rr_anchor_reset(fd);
	rr_os->shutdown(fd, SHUT_RDWR);
}
