/* SPDX-License-Identifier: BSD-3-Clause */
/* A socket of the app's, or of ours, as the kernel has it: asking it, and ending it so that the
 * other end sees a reset. */

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

/* Ends the anchor so that its peer sees a reset when it is closed, and this side's sleepers
 * wake. */
void rr_anchor_break(int fd)
{
	rr_anchor_reset(fd);
	rr_os->shutdown(fd, SHUT_RDWR);
}
