/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that come unasked. Whoever may send to a unix socket of ours may send some along, and
 * their end may take its time: that of a TCP socket with SO_LINGER as long as its sender has said, a
 * FUSE file's as long as its file system likes. Who has the last reference waits for it, and that
 * is us: in close(), and in any receive or close of the unix socket that drops what was not taken
 * out. So with each packet everything is taken out, and ended where nobody waits. */
#include "core/prov/shm/shm_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/base/os.h"
#include "core/base/thread.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS	83
#endif

#define PACKETS	1024	/* more than a sender's buffer holds */
#define THREADS	16u

static _Atomic uint32_t ending;

static void *end_it(void *arg)
{
	rr_os->close((int)(intptr_t)arg);
	atomic_fetch_sub_explicit(&ending, 1, memory_order_relaxed);
	return NULL;
}

/* Does its close return at once? That of a unix socket does not, if it has such descriptors on their way. */
static bool ends_now(int fd)
{
	struct linger none = { 0, 0 };
	socklen_t len = sizeof(int);
	int family = 0;

	if (rr_os->fcntl(fd, F_GET_SEALS) >= 0)
		return true;	/* a memfd */
	if (rr_os->getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len))
		return false;
	return (family == AF_INET || family == AF_INET6) &&
	       rr_os->setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) == 0;
}

/* If so many have not come to their end, this one is not even begun. */
void rr_shm_discard(int fd)
{
	if (ends_now(fd)) {
		rr_os->close(fd);
		return;
	}
	if (atomic_fetch_add_explicit(&ending, 1, memory_order_relaxed) < THREADS &&
	    !rr_thread(end_it, (void *)(intptr_t)fd))
		return;
	atomic_fetch_sub_explicit(&ending, 1, memory_order_relaxed);
}

/* The descriptors in m: the only one, or -1; how many there are. */
static int take_out(struct msghdr *m, int *only)
{
	int fd, n = 0;

	*only = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t len = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= len; at += sizeof(int)) {
			memcpy(&fd, CMSG_DATA(c) + at, sizeof(int));
			if (n++ == 0)
				*only = fd;
			else
				rr_shm_discard(fd);
		}
	}
	if (n > 1) {
		rr_shm_discard(*only);
		*only = -1;
	}
	return n;
}

int rr_shm_packet(int sock, int *fd)
{
	char bytes[64];
	struct iovec iov = { bytes, sizeof(bytes) };
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(253 * sizeof(int)) + CMSG_SPACE(64)];	/* SCM_MAX_FD, credentials */
	} ctl;
	struct msghdr m;
	ssize_t n;
	int got;

	do {
		m = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl,
				     .msg_controllen = sizeof(ctl) };
		n = rr_os->recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == 0 && m.msg_controllen == 0)
		return 0;
	got = take_out(&m, fd);
	if (got == 1 && !(m.msg_flags & (MSG_CTRUNC | MSG_TRUNC)))
		return 1;
	if (*fd >= 0)
		rr_shm_discard(*fd);
	*fd = -1;
	return got || m.msg_flags & MSG_CTRUNC ? -EPROTO : 1;
}

int rr_shm_swallow(int sock)
{
	int fd, rc = rr_shm_packet(sock, &fd);

	if (rc != 1 || fd < 0)
		return rc;
	rr_shm_discard(fd);
	return -EPROTO;
}

/* Where the kernel can, the rest of them do not even get here. */
void rr_shm_bar(int sock)
{
	int no = 0;

	rr_os->setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no));
}

/* With credentials a packet of no bytes is told from the end. */
void rr_shm_close_sock(int sock, bool alone)
{
	int rc = 1, yes = 1;

	if (alone) {
		rr_os->setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
		rr_os->shutdown(sock, SHUT_RDWR);
		for (int i = 0; i < PACKETS && (rc == 1 || rc == -EPROTO); i++)
			rc = rr_shm_swallow(sock);
	}
	rr_os->close(sock);
}
