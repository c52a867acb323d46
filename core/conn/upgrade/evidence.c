/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows which servers of this host have the library. For each address and port that an app
 * listens on there is a socket with a name: an abstract one for its own network namespace, and
 * a file in the run directory for others. The socket says nothing beyond its name, is never
 * read, and disappears with the last process that has it. It is only a hint: a process that
 * takes another's name gains an offer that the real server does not know and refuses as any
 * server would. It exists as long as the app listens. Servers on other hosts are
 * learned.c's. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"

#define MOST		32u
#define PREFIX		"rdmarpc-on-"
#define STALE_S		60	/* by then a file without an owner is not just being made */
#define SWEEP_SEEN	512u	/* entries of the run directory looked at in one sweep … */
#define SWEEP_ASKED	64u	/* … and how many of those are tested for an owner */

static struct given {
	uint16_t port;
	struct in6_addr addr;
	int fd[2];		/* abstract, in the run directory; -1: none */
	int32_t owner;		/* the process that has made the file */
	uint32_t users;		/* listeners of this process; 0 the entry is free */
} given[MOST];
static struct rr_lock lock;

struct place {
	uint16_t port;
	struct in6_addr addr;	/* IPv4 mapped; zeroes: any */
};

/* Both families in one form: an IPv4 address as IPv6 writes it, and either any-address as
 * zeroes. */
static struct place place_of(const struct sockaddr_in6 *a)
{
	const struct sockaddr_in *in = (const void *)a;
	struct place p = { ntohs(a->sin6_port), a->sin6_addr };

	if (a->sin6_family == AF_INET) {
		memset(&p.addr, 0, sizeof(p.addr));
		if (in->sin_addr.s_addr) {
			p.addr.s6_addr16[5] = 0xffff;
			p.addr.s6_addr32[3] = in->sin_addr.s_addr;
		}
	}
	return p;
}

static bool same_place(const struct place *a, const struct place *b)
{
	return a->port == b->port && !memcmp(&a->addr, &b->addr, sizeof(a->addr));
}

/* Returns the length of the name; 0: it does not fit. */
static socklen_t name_of(const struct place *p, const char *dir, struct sockaddr_un *sa)
{
	const uint32_t *w = p->addr.s6_addr32;
	unsigned n;

	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (dir && (!dir[0] || strlen(dir) > 50))
		return 0;
	n = rr_fmt(sa->sun_path + !dir, sizeof(sa->sun_path) - 1,
		   "%s%s" PREFIX "%u-%x.%x.%x.%x", dir ? dir : "", dir ? "/" : "", p->port,
		   ntohl(w[0]), ntohl(w[1]), ntohl(w[2]), ntohl(w[3]));
	return dir ? (socklen_t)sizeof(*sa)
		   : (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static int new_name_socket(void)
{
	return rr_os->socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Does a socket with this name exist? EPERM: there is one, and the kernel only keeps us from
 * connecting to it. */
static bool answers(int fd, const struct sockaddr_un *sa, socklen_t len)
{
	return len && (rr_os->connect(fd, (const void *)sa, len) == 0 || errno == EPERM);
}

/* A socket with the name of p. -1: the name is taken, or cannot be had. */
static RR_NOINLINE int claim(const struct place *p, const char *dir)
{
	struct sockaddr_un sa;
	socklen_t len = name_of(p, dir, &sa);
	int fd = len ? new_name_socket() : -1, rc;

	if (fd < 0)
		return -1;
	rc = rr_os->bind(fd, (const void *)&sa, len);
	if (rc && dir && errno == EADDRINUSE && !answers(fd, &sa, len)) {
		unlink(sa.sun_path);	/* a dead process has left it */
		rc = rr_os->bind(fd, (const void *)&sa, len);
	}
	if (rc) {
		rr_os->close(fd);
		return -1;
	}
	if (dir)
		chmod(sa.sun_path, 0666);
	/* what others send to it is refused, and takes no memory */
	rr_os->shutdown(fd, SHUT_RD);
	return rr_ownfd_raise(fd);
}

/* --- files of processes that were killed ------------------------------------------------- */

/* Other programs may put files into the directory: only names of our form are looked at. */
static bool is_evidence(const char *name)
{
	size_t n = sizeof(PREFIX) - 1;

	return !strncmp(name, PREFIX, n) && !name[n + strspn(name + n, "0123456789abcdef.-")];
}

/* True for an old socket file that this user may remove. *ino is set even if the file is not
 * old. */
static bool is_old_file(int dir, const char *name, time_t now, ino_t *ino)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISSOCK(st.st_mode) ||
	    (st.st_uid != geteuid() && geteuid() != 0))
		return false;
	*ino = st.st_ino;
	return st.st_mtime < now - STALE_S;
}

/* Removes a file if the kernel says that nobody has its socket. A process that took the name
 * over meanwhile has made another file, with another inode. */
static void sweep_evidence_file(int dir, const char *path, const char *name, time_t now)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	ino_t ino, then;
	int fd;

	if (strlen(path) + 1 + strlen(name) >= sizeof(sa.sun_path) ||
	    !is_old_file(dir, name, now, &then))
		return;
	fd = new_name_socket();
	if (fd < 0)
		return;
	rr_fmt(sa.sun_path, sizeof(sa.sun_path), "%s/%s", path, name);
	if (rr_os->connect(fd, (const void *)&sa, sizeof(sa)) && errno == ECONNREFUSED &&
	    is_old_file(dir, name, now, &ino) && ino == then)
		unlinkat(dir, name, 0);
	rr_os->close(fd);
}

/* Both counts are limited, because others can add files and this thread is the app's. */
static RR_NOINLINE void sweep_evidence(const char *path)
{
	int dir = path[0] ? rr_os_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
			  : -1;
	unsigned seen = 0, asked = 0;
	struct timespec now;
	char buf[512] RR_ALIGNED(8);
	ssize_t n;

	if (dir < 0)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	while (seen < SWEEP_SEEN && (n = getdents64(dir, buf, sizeof(buf))) > 0)
		for (ssize_t at = 0; at < n; seen++) {
			const struct dirent64 *d = (const void *)(buf + at);

			if (asked < SWEEP_ASKED && is_evidence(d->d_name)) {
				sweep_evidence_file(dir, path, d->d_name, now.tv_sec);
				asked++;
			}
			at += d->d_reclen;
		}
	rr_os->close(dir);
}

/* At most once every STALE_S seconds in a process. */
static void sweep_evidence_sometimes(void)
{
	static _Atomic rr_time next;
	rr_time now = rr_now(), due = atomic_load_explicit(&next, memory_order_relaxed);

	if (now >= due &&
	    atomic_compare_exchange_strong_explicit(&next, &due, now + STALE_S * RR_SEC,
						    memory_order_relaxed, memory_order_relaxed))
		sweep_evidence(rr_run_dir());
}

/* --- ours --------------------------------------------------------------------------------- */

/* The entry for p, or a free one; NULL: all are in use. */
static struct given *entry(const struct place *p)
{
	struct given *none = NULL;

	for (struct given *g = given; g < given + MOST; g++) {
		if (g->users && same_place(&(struct place){ g->port, g->addr }, p))
			return g;
		if (!g->users && !none)
			none = g;
	}
	return none;
}

/* Several listeners at one place share an entry, which counts them. Returns its number from 1
 * on; 0: there is no evidence of this one, for which a rule, a lack of descriptors or a full
 * table is reason enough. */
static RR_NOINLINE uint32_t serve(int fd)
{
	struct sockaddr_in6 a = { 0 };
	socklen_t len = sizeof(a);
	int floor = rr_ownfd_floor(fd);
	struct given *g;
	struct place p;

	if (floor < 0 || rr_os->getsockname(fd, (struct sockaddr *)&a, &len) ||
	    (a.sin6_family != AF_INET && a.sin6_family != AF_INET6) ||
	    rr_cp->mode(true, (struct sockaddr *)&a, NULL) == RR_MODE_TCP)
		return 0;
	p = place_of(&a);
	if (rr_lock_take(&lock) == -EDEADLK)
		return 0;
	g = entry(&p);
	if (g && !g->users++) {
		g->port = p.port;
		g->addr = p.addr;
		g->owner = (int32_t)rr_pid();
		g->fd[0] = claim(&p, NULL);
		g->fd[1] = claim(&p, rr_run_dir());
	}
	rr_lock_drop(&lock);
	sweep_evidence_sometimes();
	return g ? (uint32_t)(g - given) + 1 : 0;
}

uint32_t rr_conn_serves(int fd)
{
	return rr_cp && rr_cp->offer_after != RR_AFTER_WAIT ? serve(fd) : 0;
}

/* A child that inherited the socket leaves the file alone: it may still be its parent's. */
static void take_name_back(struct given *g)
{
	struct place p = { g->port, g->addr };
	struct sockaddr_un sa;

	if (g->fd[1] >= 0 && g->owner == (int32_t)rr_pid() && name_of(&p, rr_run_dir(), &sa))
		unlink(sa.sun_path);
	for (int i = 0; i < 2; i++)
		rr_ownfd_close(g->fd[i]);
}

void rr_conn_serves_not(uint32_t which)
{
	struct given *g = &given[which - 1];

	if (rr_lock_take(&lock) == -EDEADLK)
		return;
	if (g->users && !--g->users)
		take_name_back(g);
	rr_lock_drop(&lock);
}

/* The app wants the number fd. The socket goes on under another number, or is gone if there is
 * none. */
bool rr_evidence_move(int fd)
{
	int to;

	for (struct given *g = given; g < given + MOST; g++)
		for (int i = 0; g->users && i < 2; i++) {
			if (g->fd[i] != fd)
				continue;
			to = rr_ownfd_dup(fd);
			rr_ownfd_set(fd, false);
			g->fd[i] = to;
			return true;
		}
	return false;
}

/* --- a server's ------------------------------------------------------------------------- */

#define FRESH		(100 * RR_MSEC)	/* a name that was found counts for so long */

static struct {
	struct place at;
	rr_time until;
} fresh[8];	/* a ring */
static uint32_t next_fresh;

/* A thread that finds the lock taken does not wait: it asks the kernel instead. */
static bool was_there(const struct place *p, rr_time now)
{
	bool found = false;

	if (rr_lock_try(&lock))
		return false;
	for (uint32_t i = 0; i < rr_array_size(fresh); i++)
		found |= now < fresh[i].until && same_place(&fresh[i].at, p);
	rr_lock_drop(&lock);
	return found;
}

static void is_there(const struct place *p, rr_time now)
{
	if (rr_lock_try(&lock))
		return;
	fresh[next_fresh].at = *p;
	fresh[next_fresh].until = now + FRESH;
	next_fresh = (next_fresh + 1) % rr_array_size(fresh);
	rr_lock_drop(&lock);
}

/* A server at the any-address serves this one too, so each place is looked for under two names,
 * and in the namespace before the directory. */
bool rr_evidence_look(const struct sockaddr_in6 *peer)
{
	struct place p = place_of(peer), any = { p.port, IN6ADDR_ANY_INIT };
	const char *const dirs[] = { NULL, rr_run_dir() };
	rr_time now = rr_now_coarse();
	struct sockaddr_un sa;
	bool found = false;
	int fd;

	if (was_there(&p, now))
		return true;
	fd = new_name_socket();
	if (fd < 0)
		return false;
	for (int i = 0; i < 2 && !found; i++)
		found = answers(fd, &sa, name_of(&any, dirs[i], &sa)) ||
			answers(fd, &sa, name_of(&p, dirs[i], &sa));
	rr_os->close(fd);
	if (found)
		is_there(&p, now);
	return found;
}

/* The parent's thread that may have held the lock is not in the child. */
void rr_evidence_forked(void)
{
	lock = (struct rr_lock){ 0 };
}
