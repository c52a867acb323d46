/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EVIDENCE_PLAYED_H
#define EVIDENCE_PLAYED_H

/* For tests of core/conn/upgrade/evidence.c: the names that sockets have, the run directory and the clocks are played. In
 * one file of a program. */

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"
#include "tests/lib/connpair.h"

#define START	(1000 * RR_SEC)
#define TODAY	500000	/* by the calendar's clock */
#define NAME	"rdmarpc-on-2049-0.0.ffff.7f000001"
#define ANY	"rdmarpc-on-2049-0.0.0.0"

enum { SERVER = 20, NAMES = 80, ENTRIES = 1200 };

static struct rr_os os;
static rr_time now = START;
static const char *run_dir;
static struct sockaddr_in6 at;		/* where the app listens */

/* --- what is played (the Makefile wraps these) --- */

struct entry {
	char name[40];
	bool is_file;
	uid_t uid;
	time_t age;		/* seconds */
	ino_t ino, ino_then;	/* … and after it was asked for */
	int connect;		/* what that says: errno or 0 */
};

static struct {
	char names[NAMES][sizeof(struct sockaddr_un)];	/* abstract ones with @ in front; "" for one that is gone */
	int of[NAMES], n;
	int first_fd, next_fd, dir;
	bool no_socket, no_name;
	bool stays;		/* there is no number left above */
	int bind_errno;		/* of files */
	int bind_again;		/* … the second time */
	int connect_errno;	/* of names that nobody has */
	char asked[16][sizeof(struct sockaddr_un)];
	socklen_t asked_len, bound_len;
	int binds, connects, sockets, closes, shuts, raises, own_closes, unlinks, chmods, opens;
	int closed, unlinkats, own_closed[16];
	int floor, dup, moved, unsets;
	char unlinked[sizeof(struct sockaddr_un)], gone[64][40];
	pid_t pid;
	uid_t uid;
	int mode;
	void (*in_bind)(void);
	struct entry entry[ENTRIES];
	int entries, given, stats;
} k;

static bool is_socket(int fd)
{
	return fd >= k.first_fd && fd < k.next_fd;
}

int __wrap_rr_ownfd_floor(int fd);
int __wrap_rr_ownfd_raise(int fd);
void __wrap_rr_ownfd_close(int fd);
int __wrap_rr_ownfd_dup(int fd);
void __wrap_rr_ownfd_set(int fd, bool own);
int __wrap_rr_os_open(const char *path, int flags);
pid_t __wrap_rr_pid(void);
int __wrap_unlink(const char *path);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __wrap_chmod(const char *path, mode_t mode);
int __wrap_fstatat(int dir, const char *name, struct stat *st, int flags);
ssize_t __wrap_getdents64(int dir, void *buf, size_t len);
uid_t __wrap_geteuid(void);

int clock_gettime(clockid_t which, struct timespec *ts)
{
	if (which == CLOCK_REALTIME)
		*ts = (struct timespec){ TODAY, 0 };
	else
		*ts = (struct timespec){ (time_t)(now / RR_SEC), (long)(now % RR_SEC) };
	return 0;
}

int __wrap_rr_ownfd_floor(int fd)
{
	cr_assert_eq(fd, SERVER);
	return k.floor;
}

int __wrap_rr_ownfd_raise(int fd)
{
	cr_assert(is_socket(fd));
	k.raises++;
	return k.stays ? fd : fd + 1000;
}

void __wrap_rr_ownfd_close(int fd)
{
	k.own_closed[k.own_closes++ % 16] = fd;
	for (int i = 0; i < k.n; i++)
		if (k.of[i] + 1000 == fd)
			k.names[i][0] = 0;
}

int __wrap_rr_ownfd_dup(int fd)
{
	k.moved = fd;
	return k.dup;
}

void __wrap_rr_ownfd_set(int fd, bool own)
{
	cr_assert(fd == k.moved && !own);
	k.unsets++;
}

int __wrap_rr_os_open(const char *path, int flags)
{
	cr_assert(!strcmp(path, run_dir) && flags & O_DIRECTORY && flags & O_NOFOLLOW && flags & O_CLOEXEC);
	k.opens++;
	k.given = 0;
	return k.entries ? k.dir : -1;
}

pid_t __wrap_rr_pid(void)
{
	return k.pid;
}

int __wrap_unlink(const char *path)
{
	snprintf(k.unlinked, sizeof(k.unlinked), "%s", path);
	k.unlinks++;
	return 0;
}

int __wrap_unlinkat(int dir, const char *name, int flags)
{
	cr_assert(dir == k.dir && flags == 0);
	snprintf(k.gone[k.unlinkats++ % 64], sizeof(k.gone[0]), "%s", name);
	return 0;
}

int __wrap_chmod(const char *path, mode_t mode)
{
	cr_assert(mode == 0666 && path[0] == '/');
	k.chmods++;
	return 0;
}

static struct entry *find_entry(const char *name)
{
	for (int i = 0; i < k.entries; i++)
		if (!strcmp(k.entry[i].name, name))
			return &k.entry[i];
	return NULL;
}

int __wrap_fstatat(int dir, const char *name, struct stat *st, int flags)
{
	struct entry *e = find_entry(name);

	cr_assert(dir == k.dir && flags == AT_SYMLINK_NOFOLLOW && e);
	k.stats++;
	memset(st, 0, sizeof(*st));
	st->st_mode = e->is_file ? S_IFREG : S_IFSOCK;
	st->st_uid = e->uid;
	st->st_ino = e->ino;
	st->st_mtime = TODAY - e->age;
	return 0;
}

/* A few at a time. */
ssize_t __wrap_getdents64(int dir, void *buf, size_t len)
{
	size_t n = 0;

	cr_assert(dir == k.dir && len == 512);
	while (k.given < k.entries && n + 64 <= len) {
		struct dirent64 *d = (void *)((char *)buf + n);

		d->d_reclen = 64;
		memcpy(d->d_name, k.entry[k.given].name, sizeof(k.entry[0].name));
		k.given++;
		n += 64;
	}
	return (ssize_t)n;
}

uid_t __wrap_geteuid(void)
{
	return k.uid;
}

static int fails(int err)
{
	errno = err;
	return err ? -1 : 0;
}

static void text_of(const struct sockaddr *sa, socklen_t len, char *out)
{
	const struct sockaddr_un *un = (const void *)sa;

	cr_assert(un->sun_family == AF_UNIX && len <= sizeof(*un));
	if (un->sun_path[0]) {
		cr_assert_eq(len, sizeof(*un));
		strcpy(out, un->sun_path);
	} else {
		out[0] = '@';
		memcpy(out + 1, un->sun_path + 1, len - sizeof(sa_family_t) - 1);
		out[len - sizeof(sa_family_t)] = 0;
		cr_assert_eq(strlen(out), len - sizeof(sa_family_t), "no byte of it is 0");
	}
}

static int plays_socket(int family, int type, int protocol)
{
	cr_assert(family == AF_UNIX && type == (SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC) && protocol == 0);
	k.sockets++;
	return k.no_socket ? fails(EMFILE) : k.next_fd++;
}

static int plays_bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	char name[sizeof(struct sockaddr_un) + 1];
	void (*inside)(void) = k.in_bind;

	k.in_bind = NULL;
	if (inside)
		inside();
	text_of(sa, len, name);
	k.binds++;
	k.bound_len = len;
	if (name[0] == '/' && k.bind_errno) {
		int err = k.bind_errno;

		k.bind_errno = k.bind_again;
		return fails(err);
	}
	for (int i = 0; i < k.n; i++)
		if (!strcmp(k.names[i], name))
			return fails(EADDRINUSE);
	cr_assert_lt(k.n, NAMES);
	strcpy(k.names[k.n], name);
	k.of[k.n++] = fd;
	return 0;
}

static int plays_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	const char *base;
	char name[sizeof(struct sockaddr_un) + 1];
	struct entry *e;

	cr_assert(is_socket(fd));
	text_of(sa, len, name);
	strcpy(k.asked[k.connects++ % 16], name);
	for (int i = 0; i < k.n; i++)
		if (!strcmp(k.names[i], name))
			return 0;
	base = strrchr(name, '/');
	e = base ? find_entry(base + 1) : NULL;
	if (e) {
		e->ino = e->ino_then;
		return fails(e->connect);
	}
	return fails(k.connect_errno);
}

static int plays_close(int fd)
{
	k.closes++;
	k.closed = fd;
	return 0;
}

static int plays_shutdown(int fd, int how)
{
	cr_assert(is_socket(fd) && how == SHUT_RD);
	k.shuts++;
	return 0;
}

static int plays_getsockname(int fd, struct sockaddr *sa, socklen_t *len)
{
	cr_assert(fd == SERVER && *len == sizeof(at));
	if (k.no_name)
		return fails(ENOBUFS);
	memcpy(sa, &at, sizeof(at));
	return 0;
}

static enum rr_mode the_mode(bool server, const struct sockaddr *local, const struct sockaddr *peer)
{
	cr_assert(server && !peer && local->sa_family == at.sin6_family);
	return (enum rr_mode)k.mode;
}

static const char *the_dir(void)
{
	return run_dir;
}

static struct sockaddr_in6 v4(const char *ip, uint16_t port)
{
	struct sockaddr_in6 a = { 0 };
	struct sockaddr_in *in = (void *)&a;

	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	in->sin_addr.s_addr = inet_addr(ip);
	return a;
}

static void afresh(void)
{
	memset(&k, 0, sizeof(k));
	k.first_fd = k.next_fd = 100;
	k.dir = 900;
	k.connect_errno = ECONNREFUSED;
	k.dup = 555;
	k.pid = 77;
	k.uid = 1000;
	k.mode = RR_MODE_AUTO;
	run_dir = "/run/x";
	at = v4("127.0.0.1", 2049);
}

static inline void begin(void)
{
	rr_test_params.mode = the_mode;
	rr_test_params.run_dir = the_dir;
	rr_test_params.offer_after = 2;
	rr_test_setup();
	os = (struct rr_os){ .socket = plays_socket, .bind = plays_bind, .connect = plays_connect, .close = plays_close,
			     .shutdown = plays_shutdown, .getsockname = plays_getsockname };
	rr_os = &os;
	afresh();
}

#endif
