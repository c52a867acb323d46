/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes from the peer that are not for the app: peeks at them, withholds and discards them.
 * What they mean is decided by the callers (ride.c, hear.c, offer.c). */

#include <errno.h>
#include <sys/ioctl.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"

/* See upgrade.h. The bytes have been peeked at, so they are there; false: another reader has
 * taken them, and the stream is not ours to judge any more. */
bool rr_upgrade_consume(int fd, uint32_t n)
{
	uint8_t trash[128];	/* small: a signal handler's stack may be short */

	while (n) {
		ssize_t got = rr_os->recv(fd, trash, rr_min(n, (uint32_t)sizeof(trash)),
					  MSG_DONTWAIT);

		if (got <= 0)
			return false;
		n -= (uint32_t)got;
	}
	return true;
}

/* MSG_DONTWAIT: the app's socket may be a blocking one. */
ssize_t rr_upgrade_look(int fd, void *buf, size_t len)
{
	ssize_t n = rr_os->recv(fd, buf, len, MSG_PEEK | MSG_DONTWAIT);

	return n < 0 ? -errno : n;
}

/* poll() shows a pending error without consuming it, as recv() would if no bytes are there. */
ssize_t rr_upgrade_peek(int fd, void *buf, size_t len, bool *gone)
{
	*gone = rr_anchor_poll(fd, 0) & POLLERR;
	if (*gone && !rr_queue_bytes(fd))
		return -EIO;
	return rr_upgrade_look(fd, buf, len);
}

#define PART_WAIT	RR_SEC

bool rr_upgrade_withholds(struct rr_conn *c, uint32_t need, size_t have)
{
	rr_time now = rr_now();

	if (!c->part_since) {
		c->part_since = now;
		rr_conn_has_word(c);
	}
	if (now - c->part_since >= PART_WAIT)
		return false;
	rr_conn_lowat(c, (int)rr_max(need, (uint32_t)have + 1));
	return true;
}

#define SKIPS	16	/* reads in one call, because the peer decides how long its answer is */

int rr_upgrade_skip(struct rr_conn *c, int fd)
{
	uint8_t buf[RR_ANSWER_MAX];

	for (int i = 0; i < SKIPS; i++) {
		bool gone;
		ssize_t n = rr_upgrade_peek(fd, buf, sizeof(buf), &gone);
		enum rr_rm_what what;
		size_t k;

		if (n <= 0)
			return n == -EAGAIN ? -EAGAIN : 0;
		what = rr_rm_next(&c->in.rm, buf, (size_t)n, &k);
		rr_upgrade_consume(fd, (uint32_t)k);
		/* an empty last fragment: its end needs no further byte */
		if (what == RR_RM_FRAGMENT && c->in.rm.last && !c->in.rm.left)
			what = rr_rm_next(&c->in.rm, NULL, 0, &k);
		if (what == RR_RM_RECORD) {
			rr_conn_become(c, RR_S_TCP, RR_R_NO_SHIM);
			return RR_RIDE_OVER;
		}
	}
	return -EAGAIN;
}
