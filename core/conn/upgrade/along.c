/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends what rides along, of either side, in one write with the app's bytes, as long as both
 * ends know where records end. What to send is decided by the callers. */

#include <errno.h>
#include <linux/tcp.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"

/* Compares our own counts with the kernel's. A retransmission counts as sent again, and a FIN
 * as one byte received. */
RR_NOINLINE bool rr_ride_seen_all(const struct rr_conn *c, int fd)
{
	struct tcp_info i;
	uint64_t written;

	if (!rr_queue_info(fd, &i))
		return false;
	written = i.tcpi_bytes_sent - i.tcpi_bytes_retrans + i.tcpi_notsent_bytes;
	return c->out.bytes + c->out.ours >= written && rr_queue_unread(&i, &c->in, fd) <= 1;
}

/* See upgrade.h. A short write within our own part cannot be undone: the connection is broken
 * then. */
RR_NOINLINE ssize_t rr_ride_send_along(struct rr_conn *c, int fd, const uint8_t *ours,
				      uint32_t len, const struct iovec *iov, int n, int flags)
{
	struct iovec both[RR_IOV_CUT] = { { (uint8_t *)(uintptr_t)ours, len } };
	int k = 1 + rr_iov_cut(iov, n, 0, SIZE_MAX, both + 1, RR_IOV_CUT - 1);
	ssize_t rc = rr_queue_send(fd, both, k, flags);

	if (rc < 0)
		return rc;
	/* The kernel had no memory, and half of our part cannot be taken back. */
	if (rc < (ssize_t)len) {
		rr_anchor_break(fd);
		rr_upgrade_fails(c, RR_R_INTERNAL);
		return -ECONNRESET;
	}
	rc -= (ssize_t)len;
	c->out.ours += len;
	rr_passed_out(c, iov, n, (size_t)rc);
	return rc;
}
