/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's socket queues of a connection whose calls go by TCP while we look on (ride.c,
 * cross.c). Every call of the app is made without blocking, and bytes are looked at where they
 * lie in the queue. What the bytes mean is not decided here. */

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/base/base.h"

#define TRASH		8192u

/* Most calls have one piece, which costs the kernel less by send() and recv(): it copies no
 * struct msghdr and no vector. Where a filter of system calls forbids sendmsg() or recvmsg()
 * alone, the first piece of several goes or comes by itself, as a short write or read does. */

static const struct iovec *first_piece(const struct iovec *iov, size_t n)
{
	while (n > 1 && !iov->iov_len) {
		iov++;
		n--;
	}
	return iov;
}

ssize_t rr_queue_send(int fd, const struct iovec *iov, int n, int flags)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov,
			    .msg_iovlen = (size_t)n };
	ssize_t rc = -1;

	flags |= MSG_DONTWAIT | MSG_NOSIGNAL;
	if (n != 1)
		rc = rr_os->sendmsg(fd, &m, flags);
	if (n == 1 || (n && rc < 0 && rr_os_is_filtered(errno))) {
		iov = first_piece(iov, (size_t)n);
		rc = rr_os->send(fd, iov->iov_base, iov->iov_len, flags);
	}
	return rc < 0 ? -errno : rc;
}

ssize_t rr_queue_recv(int fd, const struct iovec *iov, int n, size_t skip, size_t most,
		      int flags)
{
	struct iovec cut[RR_IOV_CUT];
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov,
			    .msg_iovlen = (size_t)n };
	ssize_t rc = -1;

	if (skip || n > RR_IOV_CUT || most != SIZE_MAX) {
		m.msg_iov = cut;
		m.msg_iovlen = (size_t)rr_iov_cut(iov, n, skip, most, cut, RR_IOV_CUT);
	}
	flags = (flags & MSG_PEEK) | MSG_DONTWAIT;
	if (m.msg_iovlen != 1)
		rc = rr_os->recvmsg(fd, &m, flags);
	if (m.msg_iovlen == 1 || (m.msg_iovlen && rc < 0 && rr_os_is_filtered(errno))) {
		iov = first_piece(m.msg_iov, m.msg_iovlen);
		rc = rr_os->recv(fd, iov->iov_base, iov->iov_len, flags);
	}
	return rc < 0 ? -errno : rc;
}

size_t rr_queue_bytes(int fd)
{
	int n = 0;

	return rr_os->ioctl(fd, FIONREAD, &n) || n < 0 ? 0 : (size_t)n;
}

bool rr_queue_info(int fd, struct tcp_info *i)
{
	socklen_t len = sizeof(*i);

	memset(i, 0, sizeof(*i));
	return !rr_os->getsockopt(fd, IPPROTO_TCP, TCP_INFO, i, &len);
}

int64_t rr_queue_unread(const struct tcp_info *i, const struct rr_track *in, int fd)
{
	int64_t n = (int64_t)(i->tcpi_bytes_received - in->bytes - in->ours);

	return n > 0 ? n - (int64_t)rr_queue_bytes(fd) : n;
}

/* The kernel accounts for about twice the bytes that it holds. */
bool rr_queue_has_room(int fd, size_t len)
{
	int queued = 0, room = 0;
	socklen_t n = sizeof(room);

	if (rr_os->ioctl(fd, SIOCOUTQ, &queued))
		return false;
	return !queued || (!rr_os->getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, &n) &&
			   2 * ((size_t)queued + len) + RR_PAGE < (size_t)room);
}

int rr_queue_nowhere(struct iovec *iov, int max, size_t n)
{
	static uint8_t trash[TRASH];	/* never read */
	int k = 0;

	for (; n && k < max; n -= iov[k++].iov_len)
		iov[k] = (struct iovec){ trash, rr_min(n, sizeof(trash)) };
	return k;
}

size_t rr_queue_peek_at(int fd, size_t at, uint8_t *buf, size_t len)
{
	struct iovec iov[RR_QUEUE_REACH / TRASH + 1];
	struct msghdr m = { .msg_iov = iov };
	ssize_t n;

	if (at > RR_QUEUE_REACH)
		return 0;
	m.msg_iovlen = (size_t)rr_queue_nowhere(iov, RR_QUEUE_REACH / TRASH, at);
	iov[m.msg_iovlen++] = (struct iovec){ buf, len };
	n = rr_os->recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT);
	return n > (ssize_t)at ? (size_t)n - at : 0;
}
