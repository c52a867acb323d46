/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that nobody asked for. Whoever can send to an AF_UNIX socket of ours can put
 * descriptors into it: the peer at any time, and before the proof every user of the host. The
 * last close() of a file runs code of that file in the closing thread, for as long as the
 * file's maker likes: a TCP socket with SO_LINGER whose reader does not read, or a file of a
 * file system in user space. A file is also closed when recv() has no room for it, or together
 * with the socket that it lies in.
 *
 * So no such file is closed in a thread of the app. A socket is looked into before it is read
 * or closed. If it holds descriptors that nobody is waiting for, the connection has failed, and
 * a thread of our own closes the socket with everything in it. That thread is started when this
 * happens for the first time, which no honest peer causes. Where the kernel can refuse
 * descriptors (Linux 6.16) it is told to, as soon as none is expected any more. */
#include "core/prov/shm/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/base/thread.h"

/* Only on architectures that use the common numbers. */
#if !defined(SO_PASSRIGHTS) && SO_PASSCRED == 16
#define SO_PASSRIGHTS	83
#endif

#define GRAVES		32u
/* With so many there are no new connections by shm, so GRAVES is enough. */
#define TOO_MANY	8u
#define MANY_BLOCKS	(512 << 11)	/* 512 MiB, in the units of stat() */
#define PACKETS		1024	/* more than a socket holds (net.unix.max_dgram_qlen) */

static _Atomic int grave[GRAVES];	/* descriptors + 1, each until it is closed; 0: free */
/* the process whose thread closes them; a forked child has none */
static _Atomic pid_t digger;

static uint32_t buried(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < GRAVES; i++)
		n += atomic_load(&grave[i]) != 0;
	return n;
}

/* True if this process had no such thread: the caller now is it, or has to start it. */
static bool become_digger(void)
{
	pid_t was = atomic_load(&digger), me = rr_pid();

	return was != me && atomic_compare_exchange_strong(&digger, &was, me);
}

static void *dig(void *unused)
{
	(void)unused;
	/* A descriptor may be buried after the last look and before digger is 0. Whoever buried
	 * it then has started no thread, so this one looks again. */
	do {
		while (buried()) {
			for (uint32_t i = 0; i < GRAVES; i++) {
				int fd = atomic_load(&grave[i]) - 1;

				if (fd < 0)
					continue;
				rr_ownfd_close(fd);
				atomic_store(&grave[i], 0);
			}
		}
		atomic_store(&digger, 0);
	} while (buried() && become_digger());
	return NULL;
}

static void start_digging(void)
{
	if (become_digger() && rr_thread(dig, NULL))
		atomic_store(&digger, 0);	/* tried again next time */
}

bool rr_shm_burdened(void)
{
	if (likely(!buried()))
		return false;
	start_digging();	/* a forked child has inherited them */
	return buried() >= TOO_MANY;
}

/* Is it a pipe, or memory, and so little that freeing it is quick? */
static bool is_harmless(int fd)
{
	struct stat st;

	if (rr_os->fcntl(fd, F_GETPIPE_SZ) >= 0)
		return true;
	return rr_os->fcntl(fd, F_GET_SEALS) >= 0 && !fstat(fd, &st) &&
	       st.st_blocks < MANY_BLOCKS;
}

/* Leaves fd to the thread. If there is no room for it, it stays open: that can only be one for
 * each connection that existed before. */
static void bury_fd(int fd)
{
	rr_ownfd_set(fd, true);
	for (uint32_t i = 0; i < GRAVES; i++) {
		int none = 0;

		if (atomic_compare_exchange_strong(&grave[i], &none, fd + 1))
			return start_digging();
	}
}

void rr_shm_drop_fd(int fd)
{
	if (!is_harmless(fd))
		return bury_fd(fd);
	rr_ownfd_close(fd);
}

static bool let_in(int sock, int yes)
{
#ifdef SO_PASSRIGHTS
	static _Atomic bool unknown;	/* to this kernel */

	if (atomic_load_explicit(&unknown, memory_order_relaxed))
		return false;
	if (!rr_os->setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &yes, sizeof(yes)))
		return true;
	if (errno == ENOPROTOOPT)
		atomic_store_explicit(&unknown, true, memory_order_relaxed);
	return false;
#else
	(void)sock, (void)yes;
	return false;
#endif
}

bool rr_shm_refuse_fds(int sock)
{
	return let_in(sock, 0);
}

bool rr_shm_admit_fds(int sock)
{
	return let_in(sock, 1);
}

/* Peeks at the next packet, with room for `size` bytes of control messages. False: there is
 * none. */
static bool look_at_packet(int sock, struct msghdr *m, void *room, size_t size)
{
	char byte;
	struct iovec iov = { &byte, 1 };

	*m = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room,
			      .msg_controllen = size };
	return rr_os->recvmsg(sock, m, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) >= 0;
}

bool rr_shm_foreign_next(int sock)
{
	struct msghdr m;

	return look_at_packet(sock, &m, NULL, 0) && m.msg_flags & MSG_CTRUNC;
}

ssize_t rr_shm_read_bell(int sock)
{
	struct msghdr m;
	char bell;

	if (!look_at_packet(sock, &m, NULL, 0))
		return -1;	/* a packet that comes only now has not been looked at */
	if (m.msg_flags & MSG_CTRUNC)
		return 0;
	return rr_os->recv(sock, &bell, 1, MSG_DONTWAIT);
}

bool rr_shm_is_empty(int sock)
{
	struct msghdr m;

	return !look_at_packet(sock, &m, NULL, 0) && errno == EAGAIN;
}

int rr_shm_send_fd(int sock, const void *packet, size_t len, int fd)
{
	struct iovec iov = { (void *)(uintptr_t)packet, len };
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} ctl = { .room = "" };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &ctl, .msg_controllen = sizeof(ctl),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	if (fd < 0)
		m.msg_controllen = 0;
	return rr_os->sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int rr_shm_peek_fd(int sock)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} ctl;
	struct msghdr m;
	struct cmsghdr *c;
	int fd;

	/* There is no room for a second one. */
	if (!look_at_packet(sock, &m, &ctl, CMSG_LEN(sizeof(int))))
		return -errno;
	c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(sizeof(int)))
		return m.msg_flags & MSG_CTRUNC ? -EMFILE : -EPROTO;
	memcpy(&fd, CMSG_DATA(c), sizeof(int));
	if (!(m.msg_flags & MSG_CTRUNC))
		return fd;
	rr_shm_drop_fd(fd);
	return -EPROTO;
}

/* recv() has returned 0. Is that the end, or was it an empty packet, which others may follow?
 * With credentials asked for, each packet has a control message. */
static bool at_end(int sock)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(3 * sizeof(int))];		/* struct ucred */
	} ctl;
	struct msghdr m;
	int yes = 1;

	return rr_os->setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) == 0 &&
		look_at_packet(sock, &m, &ctl, sizeof(ctl)) && !m.msg_controllen &&
			!(m.msg_flags & MSG_CTRUNC);
}

/* Closes the descriptors of the next packet if that is harmless; false: it is not. The packet
 * may be a hello of an honest peer with its memory, which we did not wait for. */
static bool has_no_fds(int sock)
{
	int fd = rr_shm_peek_fd(sock);
	bool yes = fd >= 0 && is_harmless(fd);
	char byte;

	if (yes)
		rr_os->recv(sock, &byte, 1, MSG_DONTWAIT);
	if (fd >= 0)
		rr_shm_drop_fd(fd);
	return yes;
}

/* Reads everything that is there. False: it holds descriptors, or does not end. */
static bool read_away(int sock)
{
	char byte;

	for (int i = 0; i < PACKETS; i++) {
		ssize_t n;

		if (rr_shm_foreign_next(sock)) {
			if (!has_no_fds(sock))
				return false;
			continue;
		}
		n = rr_os->recv(sock, &byte, 1, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n == 0)
			return at_end(sock);
	}
	return false;
}

void rr_shm_drop_shut(int sock)
{
	if (!read_away(sock))
		return bury_fd(sock);
	rr_ownfd_close(sock);
}

void rr_shm_drop_sock(int sock)
{
	rr_os->shutdown(sock, SHUT_RDWR);	/* anything sent from here on is refused */
	rr_shm_drop_shut(sock);
}

void rr_shm_drop_listener(int sock, bool alone)
{
	int fd;

	if (alone) {
		rr_os->shutdown(sock, SHUT_RDWR);
		while ((fd = rr_os->accept4(sock, NULL, NULL,
					    SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
			rr_shm_drop_sock(fd);
	}
	rr_ownfd_close(sock);
}
