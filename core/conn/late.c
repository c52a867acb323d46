/* SPDX-License-Identifier: BSD-3-Clause */
/* The client went on by TCP before the answer to its offer came: that must not reach the app. It is
 * told by its xid, at a record boundary. */

#include <errno.h>
#include <sys/ioctl.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/conn_int.h"

bool rr_upgrade_consume(int fd, uint32_t n)
{
	uint8_t buf[128];

	while (n) {
		ssize_t got = rr_os->recv(fd, buf, rr_min(n, (uint32_t)sizeof(buf)), MSG_DONTWAIT);

		if (got <= 0)
			return false;
		n -= (uint32_t)got;
	}
	return true;
}

ssize_t rr_upgrade_peek(int fd, void *buf, size_t len)
{
	ssize_t n;

	if (rr_anchor_poll(fd, 0) & POLLERR)
		return -EIO;
	n = rr_os->recv(fd, buf, len, MSG_PEEK | MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

/* Like rr_upgrade_peek(), but bytes that stand before an error are shown: the answer may be among
 * them. Where there are bytes recv() leaves the error alone. */
static ssize_t peek_answer(int fd, void *buf, size_t len)
{
	int bytes = 0;
	ssize_t n;

	if (!(rr_anchor_poll(fd, 0) & POLLERR))
		return rr_upgrade_peek(fd, buf, len);
	if (rr_os->ioctl(fd, FIONREAD, &bytes) || bytes <= 0)
		return -EIO;
	n = rr_os->recv(fd, buf, len, MSG_PEEK | MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

#define PIECES	16	/* of it that one call reads: its end is the peer's to say */

/* Our answer is longer than any of a shim: reads it away as it comes. As below. */
static int skip_answer(struct rr_conn *c, int fd)
{
	uint8_t buf[RR_ANSWER_MAX];

	for (int i = 0; i < PIECES; i++) {
		ssize_t n = peek_answer(fd, buf, sizeof(buf));
		enum rr_rm_what what;
		size_t k;

		if (n <= 0)
			return n == -EAGAIN ? -EAGAIN : 0;
		what = rr_rm_next(&c->in.rm, buf, (size_t)n, &k);
		rr_upgrade_consume(fd, (uint32_t)k);
		if (what == RR_RM_FRAGMENT && c->in.rm.last && !c->in.rm.left)
			what = rr_rm_next(&c->in.rm, NULL, 0, &k);
		if (what == RR_RM_RECORD) {
			rr_conn_become(c, RR_S_TCP, RR_R_NO_SHIM);
			return 1;
		}
	}
	return -EAGAIN;
}

/* Is the answer next? Swallows it. 1 it was, we are on TCP for good; -EAGAIN cannot tell yet;
 * 0 what is there is the app's. */
int rr_upgrade_swallow_next(struct rr_conn *c, int fd)
{
	uint8_t buf[RR_ANSWER_MAX];
	struct rr_hello h;
	uint32_t need = 0;
	ssize_t n;

	if (c->skipping)
		return skip_answer(c, fd);
	if (!rr_rm_at_boundary(&c->in.rm))
		return 0;
	n = peek_answer(fd, buf, sizeof(buf));
	if (n <= 0)
		return n == -EAGAIN ? -EAGAIN : 0;
	switch (rr_nego_get_answer(buf, (size_t)n, c->xid, &h, &need)) {
	case RR_NEGO_PART:
		if (need <= RR_ANSWER_MAX)
			return -EAGAIN;
		c->skipping = true;
		return skip_answer(c, fd);
	case RR_NEGO_OTHER:
		return 0;
	default:
		rr_upgrade_consume(fd, need);
		rr_conn_become(c, RR_S_TCP, RR_R_TIMEOUT);
		return 1;
	}
}

#define LATE	256u	/* records after the offer: behind so many it is not waited for any more */

/* Reads for the app, but never across the end of a record: the answer may be next. */
ssize_t rr_upgrade_swallow_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	struct iovec one;
	size_t most;
	ssize_t got;
	int rc;

	rc = rr_upgrade_swallow_next(c, fd);
	if (rc)
		return rc == 1 ? RR_CONN_KERNEL : rc;
	while (n && !iov->iov_len) {
		iov++;
		n--;
	}
	if (!n)
		return 0;
	most = rr_track_most(&c->in, NULL, 0);
	one = (struct iovec){ iov->iov_base, rr_min(iov->iov_len, most) };
	got = rr_os->recv(fd, one.iov_base, one.iov_len, (flags & MSG_PEEK) | MSG_DONTWAIT);
	if (got < 0)
		return -errno;
	if (!(flags & MSG_PEEK))
		rr_track_over(&c->in, &one, 1, (size_t)got);
	if (c->in.records - c->asked_in >= LATE && rr_track_at_boundary(&c->in))
		rr_conn_become(c, RR_S_TCP, RR_R_TIMEOUT);
	return got;
}
