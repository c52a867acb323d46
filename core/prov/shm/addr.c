/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the offering side listens: at an abstract address, which everyone in the same network
 * namespace can reach, and, if there is a run directory, at a socket file in it, which everyone
 * can reach who sees the same directory (other network namespaces, too). Both have the same
 * random name. The offer carries nothing but that name, and each side looks into its own run
 * directory, so an offer cannot make a server connect to other programs' sockets. Who connects
 * is judged in rendezvous.c.
 *
 *   address = version, HAS_..., name [, id of kept regions] */
#include "core/prov/shm/shm_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/prov/shm/foreign.h"

#define ADDR_VERSION	1u
#define ADDR_LEN	(2 + NAME_LEN)
#define HAS_ABSTRACT	1u
#define HAS_FILE	2u
#define KEEPS		4u	/* this side may keep the regions afterwards (reuse.c) */
#define HAS_KEPT	8u	/* … and has some that could be used now */
#define NAME_LEN	RR_SHM_NAME
#define BACKLOG		8
#define STALE_S		60	/* a socket file this old belongs to nobody any more */
#define SWEEP_MAX	512	/* entries looked at in one sweep: others can add names there */

static int new_unix_socket(void)
{
	return rr_ownfd_raise(rr_os->socket(AF_UNIX,
					    SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/* An abstract address begins with a zero byte. Its length counts, because its name is not
 * terminated (unix(7)). */
static socklen_t abstract_addr(struct sockaddr_un *sa, const char name[NAME_LEN])
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	memcpy(sa->sun_path + 1, name, NAME_LEN);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + NAME_LEN);
}

/* dir/name. False: it is too long for a socket address. */
static bool join_path(char out[108], const char *dir, const char name[NAME_LEN])
{
	size_t n = strlen(dir);

	if (n == 0 || n + 1 + NAME_LEN + 1 > 108)
		return false;
	memcpy(out, dir, n);
	out[n] = '/';
	memcpy(out + n + 1, name, NAME_LEN);
	out[n + 1 + NAME_LEN] = '\0';
	return true;
}

/* It belongs to root or to this user, and others either cannot write to it or, as in /tmp,
 * cannot replace what is not theirs. */
static bool dir_is_sound(const struct stat *st)
{
	if (!S_ISDIR(st->st_mode) || (st->st_uid != 0 && st->st_uid != geteuid()))
		return false;
	return !(st->st_mode & (S_IWGRP | S_IWOTH)) || (st->st_mode & S_ISVTX);
}

/* Opens a directory in which nobody but the owner of a file, root and this user can replace
 * that file. Everything done in it then goes by its descriptor, wherever path leads later. -1:
 * it is not such a directory. */
static int open_sound(const char *path)
{
	int fd = path ? rr_os_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) || !dir_is_sound(&st))) {
		rr_os->close(fd);
		return -1;
	}
	return fd;
}

/* The address of dir/name by dir's descriptor; if name is NULL, of the socket file that dir
 * itself is open on. It is short however long the directory's path is, and it leads to the
 * directory that was judged. */
static socklen_t fd_addr(struct sockaddr_un *sa, int dir, const char *name)
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	rr_fmt(sa->sun_path, sizeof(sa->sun_path), "/proc/thread-self/fd/%d%s%.*s", dir,
	       name ? "/" : "", name ? (int)NAME_LEN : 0, name ? name : "");
	return sizeof(*sa);
}

/* --- listening --- */

/* 128 random bits, so that nobody else can be listening at the name first. -EAGAIN: the kernel
 * has none yet. */
static int random_name(char name[NAME_LEN])
{
	static const char hex[] = "0123456789abcdef";
	uint8_t r[16];

	if (!rr_os_random(r, sizeof(r)))
		return -EAGAIN;
	memcpy(name, RR_SHM_PREFIX, sizeof(RR_SHM_PREFIX) - 1);
	name += sizeof(RR_SHM_PREFIX) - 1;
	for (unsigned i = 0; i < sizeof(r); i++) {
		name[2 * i] = hex[r[i] >> 4];
		name[2 * i + 1] = hex[r[i] & 15];
	}
	return 0;
}

static int listen_unix(const struct sockaddr_un *sa, socklen_t len)
{
	int fd = new_unix_socket();

	if (fd < 0)
		return fd;
	if (rr_os->bind(fd, (const void *)sa, len) || rr_os->listen(fd, BACKLOG)) {
		int rc = -errno;

		rr_ownfd_close(fd);
		return rc;
	}
	return fd;
}

/* The app's umask determines the file's mode, but other users must be able to connect. */
static int listen_file(struct rr_shm *q, int dir, const char *run_dir,
		       const char name[NAME_LEN])
{
	char file[NAME_LEN + 1] = "";
	struct sockaddr_un sa;
	int fd;

	if (!join_path(q->path, run_dir, name))
		return -EACCES;
	memcpy(file, name, NAME_LEN);
	fd = listen_unix(&sa, fd_addr(&sa, dir, name));
	if (fd >= 0 && fchmodat(dir, file, 0666, 0) == 0)
		return fd;
	q->path[0] = '\0';
	if (fd >= 0) {
		unlinkat(dir, file, 0);
		rr_ownfd_close(fd);
	}
	return -EACCES;
}

/* Others may put names into the directory. Only a socket with a name of our form goes, and only
 * one of this user's unless we are root. */
static void sweep_file(int dir, const char *name, time_t now)
{
	struct stat st;

	if (strlen(name) != NAME_LEN || !rr_shm_is_name(name))
		return;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISSOCK(st.st_mode))
		return;
	if ((st.st_uid == geteuid() || geteuid() == 0) && st.st_mtime < now - STALE_S)
		unlinkat(dir, name, 0);
}

/* Removes files of processes that were killed in the middle of a handshake. */
static void sweep(int dir)
{
	struct timespec now;
	char buf[512] RR_ALIGNED(8);
	unsigned seen = 0;
	ssize_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	while (seen < SWEEP_MAX && (n = getdents64(dir, buf, sizeof(buf))) > 0)
		for (ssize_t at = 0; at < n; seen++) {
			const struct dirent64 *d = (const void *)(buf + at);

			sweep_file(dir, d->d_name, now.tv_sec);
			at += d->d_reclen;
		}
}

/* At most once every STALE_S seconds in a process. */
static RR_NOINLINE void sweep_sometimes(int dir)
{
	static _Atomic rr_time next;
	rr_time now = rr_now(), due = atomic_load_explicit(&next, memory_order_relaxed);

	if (now >= due && atomic_compare_exchange_strong_explicit(&next, &due,
			now + STALE_S * RR_SEC, memory_order_relaxed, memory_order_relaxed))
		sweep(dir);
}

static void listen_in(struct rr_shm *q, const char *run_dir, const char name[NAME_LEN])
{
	int dir = open_sound(run_dir);

	if (dir < 0)
		return;
	sweep_sometimes(dir);
	q->listener[1] = listen_file(q, dir, run_dir, name);
	rr_os->close(dir);
}

/* A process's first connection may be its only one: its server keeps nothing for it. */
static void offer_again(struct rr_shm *q, struct rr_prov_addr *offer)
{
	uint64_t id;

	if (!q->again.stays)
		return;
	offer->bytes[1] |= KEEPS;
	if (!rr_shm_again_offer(q, &id))
		return;
	offer->bytes[1] |= HAS_KEPT;
	memcpy(offer->bytes + offer->len, &id, sizeof(id));
	offer->len += sizeof(id);
}

void rr_shm_offered_again(struct rr_shm *q, const struct rr_prov_addr *offer)
{
	uint64_t id;

	q->again.stays = offer->bytes[1] & KEEPS;
	if (!(offer->bytes[1] & HAS_KEPT))
		return;
	memcpy(&id, offer->bytes + ADDR_LEN, sizeof(id));
	rr_shm_again_find(q, id);
}

/* See shm_int.h. One of the two listeners is enough. An offer to a peer on this host that needs
 * no file may name the listener of an earlier offer (kept.c). */
int rr_shm_listen(struct rr_shm *q, const char *run_dir, struct rr_prov_addr *offer)
{
	char name[NAME_LEN];
	struct sockaddr_un sa;
	int rc;

	q->listener[0] = q->param.near && !run_dir ? rr_shm_listener_take(name) : -1;
	q->again.stays = q->listener[0] >= 0;
	if (q->listener[0] < 0) {
		rc = random_name(name);
		if (rc)
			return rc;
		q->listener[0] = listen_unix(&sa, abstract_addr(&sa, name));
		listen_in(q, run_dir, name);
	}
	if (q->listener[0] < 0 && q->listener[1] < 0)
		return q->listener[0];
	offer->len = ADDR_LEN;
	offer->bytes[0] = ADDR_VERSION;
	offer->bytes[1] = (q->listener[0] >= 0 ? HAS_ABSTRACT : 0) |
		(q->listener[1] >= 0 ? HAS_FILE : 0);
	memcpy(offer->bytes + 2, name, NAME_LEN);
	offer_again(q, offer);
	return 0;
}
_Static_assert(sizeof(RR_SHM_PREFIX) - 1 + 32 == NAME_LEN, "a name is random");
_Static_assert(ADDR_LEN <= RR_PROV_ADDR, "an address fits");

/* A forked child closes its copies only: the listeners and the file are its parent's. */
void rr_shm_unlisten(struct rr_shm *q)
{
	for (int i = 0; i < 2; i++)
		if (q->listener[i] >= 0)
			rr_shm_drop_listener(q->listener[i], q->creator == rr_pid());
	if (q->path[0] && q->creator == rr_pid())
		unlink(q->path);
}

void rr_shm_unlisten_joined(struct rr_shm *q, bool alone)
{
	if (!alone || !q->param.near || q->listener[0] < 0 || q->creator != rr_pid())
		return rr_shm_unlisten(q);
	rr_shm_listener_keep(q->listener[0]);
	q->listener[0] = -1;
	rr_shm_unlisten(q);
}

/* --- connecting --- */

static int connect_unix(const struct sockaddr_un *sa, socklen_t len)
{
	int fd = new_unix_socket();

	if (fd < 0)
		return fd;
	if (rr_os->connect(fd, (const void *)sa, len)) {
		int rc = -errno;

		rr_ownfd_close(fd);
		return rc;
	}
	return fd;
}

/* The file is opened first, and connected to by that descriptor, so that no link that somebody
 * has put there is followed. What is no socket the kernel refuses. */
static int connect_file(const char *run_dir, const char name[NAME_LEN])
{
	int dir = open_sound(run_dir), file, rc = -ECONNREFUSED;
	char path[NAME_LEN + 1] = "";
	struct sockaddr_un sa;

	if (dir < 0)
		return -EACCES;
	memcpy(path, name, NAME_LEN);
	file = rr_os_openat(dir, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	rr_os->close(dir);
	if (file < 0)
		return rc;
	rc = connect_unix(&sa, fd_addr(&sa, file, NULL));
	rr_os->close(file);
	return rc;
}

/* The offer comes from the peer: nothing but a name of our form is accepted, and such a name
 * leads nowhere but to a listener in the namespace or in our own run directory. */
int rr_shm_connect(const struct rr_prov_addr *offer, const char *run_dir)
{
	char name[NAME_LEN];
	struct sockaddr_un sa;
	int rc = -ECONNREFUSED;

	if (offer->len < ADDR_LEN || offer->bytes[0] != ADDR_VERSION)
		return -EINVAL;
	if (offer->len != ADDR_LEN + (offer->bytes[1] & HAS_KEPT ? sizeof(uint64_t) : 0))
		return -EINVAL;
	memcpy(name, offer->bytes + 2, NAME_LEN);
	if (!rr_shm_is_name(name))
		return -EINVAL;
	if (offer->bytes[1] & HAS_ABSTRACT)
		rc = connect_unix(&sa, abstract_addr(&sa, name));
	if (rc < 0 && (offer->bytes[1] & HAS_FILE))
		rc = connect_file(run_dir, name);
	return rc;
}
