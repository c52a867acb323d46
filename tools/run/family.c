/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/run/family.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/rundir.h"

#define TCP_LISTEN	0x0a

/* --- one process --- */

struct proc {
	struct rr_member who;
	int parent, session;
	bool member;
};

/* false: gone, or dead and not waited for. A process lives on when its first thread has ended. */
static bool read_stat(int pid, struct proc *p)
{
	char path[40], buf[1024], state;
	unsigned long long ticks;
	const char *end;
	ssize_t n;
	long threads;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, buf, sizeof(buf) - 1);
	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = '\0';
	end = strrchr(buf, ')');	/* the name before it may hold anything */
	if (!end || sscanf(end + 1, " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			   "%ld %*d %llu", &state, &p->parent, &p->session, &threads, &ticks) != 5)
		return false;
	p->who = (struct rr_member){ pid, ticks };
	p->member = false;
	return state != 'X' && (state != 'Z' || threads > 1);
}

/* Has it the family's mark in its environment at exec? */
static bool is_marked(int pid, const char *mark)
{
	char path[40], want[sizeof(RR_FAMILY_VAR) + 64], *text = NULL;
	size_t room = 0;
	bool found = false;
	FILE *f;

	snprintf(want, sizeof(want), RR_FAMILY_VAR "=%s", mark);
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	f = fopen(path, "re");
	while (f && !found && getdelim(&text, &room, '\0', f) > 0)
		found = !strcmp(text, want);
	free(text);
	if (f)
		fclose(f);
	return found;
}

/* --- all processes --- */

struct procs {
	size_t n, room;
	struct proc *p;
};

static void add(struct procs *all, const struct proc *p)
{
	struct proc *more;

	if (all->n == all->room) {
		more = realloc(all->p, (all->room ? 2 * all->room : 256) * sizeof(*more));
		if (!more)
			return;
		all->room = all->room ? 2 * all->room : 256;
		all->p = more;
	}
	all->p[all->n++] = *p;
}

static int by_pid(const void *a, const void *b)
{
	const struct proc *p = a, *q = b;

	return (p->who.pid > q->who.pid) - (p->who.pid < q->who.pid);
}

/* Without the caller's own session: who watches the family was started by it, and is not of it. */
static void list(struct procs *all, uint64_t since)
{
	DIR *d = opendir("/proc");
	int own = getsid(0);
	struct dirent *e;
	struct proc p;

	while (d && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]) && read_stat(atoi(e->d_name), &p) &&
		    p.who.ticks >= since && p.session != own)
			add(all, &p);
	if (d)
		closedir(d);
	if (all->n)
		qsort(all->p, all->n, sizeof(*all->p), by_pid);
}

static bool was_member(const struct rr_family *f, struct rr_member m)
{
	for (uint32_t i = 0; i < f->nmembers; i++)
		if (f->members[i].pid == m.pid && f->members[i].ticks == m.ticks)
			return true;
	return false;
}

static bool has_member(const struct procs *all, int pid)
{
	struct proc key = { .who.pid = pid };
	const struct proc *p = bsearch(&key, all->p, all->n, sizeof(key), by_pid);

	return p && p->member;
}

static void judge(const struct rr_family *f, struct procs *all)
{
	bool more = true;

	for (size_t i = 0; i < all->n; i++)
		all->p[i].member = was_member(f, all->p[i].who) || is_marked(all->p[i].who.pid, f->mark);
	while (more) {
		more = false;
		for (size_t i = 0; i < all->n; i++)
			if (!all->p[i].member && has_member(all, all->p[i].parent))
				more = all->p[i].member = true;
	}
}

/* --- listening sockets --- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	return (h ^ v) * 0x100000001b3u;	/* FNV-1a */
}

static struct rr_member owner_of(const struct rr_listener *l, uint32_t n, uint64_t inode)
{
	for (uint32_t i = 0; i < n; i++)
		if (l[i].inode == inode)
			return l[i].owner;
	return (struct rr_member){ 0 };
}

/* Listening sockets stand first in the kernel's list. */
static uint64_t read_listeners(struct rr_family *f, const char *path, uint8_t family, uint64_t h)
{
	FILE *in = fopen(path, "re");
	char line[512];
	unsigned port, state;
	unsigned long long inode;

	while (in && fgets(line, sizeof(line), in) && f->nlisteners < RR_FAMILY_PORTS) {
		if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*u %*d %llu", &port, &state,
			   &inode) != 3)
			continue;	/* the heading */
		if (state != TCP_LISTEN)
			break;
		f->listeners[f->nlisteners++] =
			(struct rr_listener){ .family = family, .port = (uint16_t)port, .inode = inode };
		h = mix(mix(h, inode), port);
	}
	if (in)
		fclose(in);
	return h;
}

uint64_t rr_family_listeners(struct rr_family *f)
{
	struct rr_listener before[RR_FAMILY_PORTS];
	uint32_t n = f->nlisteners;
	uint64_t h;

	memcpy(before, f->listeners, n * sizeof(*before));
	f->nlisteners = 0;
	h = read_listeners(f, "/proc/self/net/tcp", 4, 0xcbf29ce484222325u);
	h = read_listeners(f, "/proc/self/net/tcp6", 6, h);
	for (uint32_t i = 0; i < f->nlisteners; i++)
		f->listeners[i].owner = owner_of(before, n, f->listeners[i].inode);
	return h;
}

/* The eldest counts: it is watched, and children come and go. */
static bool claim(struct rr_listener *l, uint32_t n, uint64_t inode, struct rr_member who)
{
	for (uint32_t i = 0; i < n; i++) {
		if (l[i].inode != inode)
			continue;
		if (!l[i].owner.pid || l[i].owner.ticks > who.ticks)
			l[i].owner = who;
		return true;
	}
	return false;
}

/* The sockets l that who has become his, if they are not an elder's. Has he any? */
static bool claim_dir(struct rr_listener *l, uint32_t n, const char *dir, struct rr_member who)
{
	char path[80], target[64];
	unsigned long long inode;
	struct dirent *e;
	DIR *d = opendir(dir);
	bool any = false;
	ssize_t len;

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%.16s", dir, e->d_name);
		len = readlink(path, target, sizeof(target) - 1);
		target[len > 0 ? len : 0] = '\0';
		if (sscanf(target, "socket:[%llu]", &inode) == 1)
			any |= claim(l, n, inode, who);
	}
	if (d)
		closedir(d);
	return any;
}

/* Of a process whose first thread has ended, only the other threads have descriptors. */
static bool claim_all(struct rr_listener *l, uint32_t n, struct rr_member who)
{
	char path[48], task[64];
	struct dirent *e;
	bool any = false;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", who.pid);
	if (!access(path, R_OK | X_OK))
		return claim_dir(l, n, path, who);
	snprintf(path, sizeof(path), "/proc/%d/task", who.pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(task, sizeof(task), "%s/%.10s/fd", path, e->d_name);
		any |= claim_dir(l, n, task, who);
	}
	if (d)
		closedir(d);
	return any;
}

/* Those of before that have no owner now: their inodes to out. */
static uint32_t orphans(const struct rr_family *f, const struct rr_listener *before,
			struct rr_listener *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->nlisteners; i++)
		if (before[i].owner.pid && !f->listeners[i].owner.pid)
			out[n++].inode = f->listeners[i].inode;
	return n;
}

/* --- */

void rr_family_init(struct rr_family *f)
{
	memset(f, 0, sizeof(*f));
	f->since = rr_proc_ticks(0);
	f->nmembers = 1;
	f->members[0] = (struct rr_member){ getpid(), f->since };
	snprintf(f->mark, sizeof(f->mark), "%d.%llu", getpid(), (unsigned long long)f->since);
}

static void take_in(struct rr_family *f, struct rr_member who)
{
	if (f->nmembers == RR_FAMILY_MEMBERS)
		return;
	f->members[f->nmembers++] = who;
	claim_all(f->listeners, f->nlisteners, who);
}

void rr_family_scan(struct rr_family *f)
{
	struct rr_listener before[RR_FAMILY_PORTS], orphan[RR_FAMILY_PORTS] = { 0 };
	struct procs all = { 0 };
	uint32_t norphans;

	memcpy(before, f->listeners, f->nlisteners * sizeof(*before));
	for (uint32_t i = 0; i < f->nlisteners; i++)
		f->listeners[i].owner = (struct rr_member){ 0 };
	list(&all, f->since);
	judge(f, &all);
	f->nmembers = 0;
	for (size_t i = 0; i < all.n; i++)
		if (all.p[i].member)
			take_in(f, all.p[i].who);
	/* Who has a socket of a member that is no more is its child, if nothing else tells. */
	norphans = orphans(f, before, orphan);
	for (size_t i = 0; norphans && i < all.n; i++)
		if (!all.p[i].member && claim_all(orphan, norphans, all.p[i].who))
			take_in(f, all.p[i].who);
	free(all.p);
}

const struct rr_listener *rr_family_listener(const struct rr_family *f, const char *netid, uint16_t port)
{
	bool tcp6 = !strcmp(netid, "tcp6");

	/* A socket of IPv6 may serve IPv4 too: nfs-ganesha has one for both. */
	for (uint32_t i = 0; i < f->nlisteners; i++)
		if (f->listeners[i].port == port && f->listeners[i].owner.pid &&
		    (f->listeners[i].family == 6 || !tcp6))
			return &f->listeners[i];
	return NULL;
}
