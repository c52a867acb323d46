/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the processes that a program has become, and the ports on which they listen, in /proc.
 * proc_family.h says which processes count; this file keeps that order: descent first, which
 * the kernel tells, then the mark, and for those without either the sockets.
 *
 * What processes write themselves (environments, names) is read to a bound, and judged by exact
 * comparison. Only rr_family_meet() waits, for some milliseconds. */

#include "tools/run/proc_family.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "config/rundir.h"
#include "core/base/compiler.h"
#include "tools/run/procfs.h"

#define ENVIRON_MAX	(8u << 20)
#define LOOKS		4	/* daemons fork twice */

/* --- one process --- */

struct proc {
	struct rr_member who;
	int parent, session;
	uint64_t stack;
	bool member;
};

/* Reads the start of a file of a process, whose /proc directory is dir; terminated. */
static bool read_text(int dir, const char *name, char *buf, size_t size)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, buf, size - 1);

	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Opens /proc/PID. What is opened below it is of one process, even if the pid is used again. */
static int open_proc(int pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Fills in p and the three user ids from the files of one /proc directory. Returns false if the
 * process is gone, or dead and not waited for. */
static bool read_dir(int dir, int pid, struct proc *p, uid_t uid[3])
{
	char buf[4096];
	struct rr_procfs_stat st;

	if (!read_text(dir, "stat", buf, sizeof(buf)) || !rr_procfs_stat(buf, &st) || st.over ||
	    !read_text(dir, "status", buf, sizeof(buf)) || !rr_procfs_uids(buf, uid))
		return false;
	*p = (struct proc){ .who = { pid, st.ticks, uid[0] }, .parent = st.parent,
			    .session = st.session, .stack = st.stack };
	return true;
}

/* As read_dir(), for a pid. The three users are not needed for descent. */
static bool read_proc_stat(int pid, struct proc *p)
{
	int dir = open_proc(pid);
	uid_t uid[3];
	bool there = dir >= 0 && read_dir(dir, pid, p, uid);

	if (dir >= 0)
		close(dir);
	return there;
}

/* Reads the environment, up to ENVIRON_MAX bytes, which is more than exec takes. The caller
 * frees it; NULL: it cannot be read. */
static char *read_environ(int dir, size_t *len)
{
	int fd = openat(dir, "environ", O_RDONLY | O_CLOEXEC);
	char *buf = fd < 0 ? NULL : malloc(ENVIRON_MAX);
	ssize_t n = 1;

	for (*len = 0; buf && n > 0 && *len < ENVIRON_MAX; *len += n > 0 ? (size_t)n : 0)
		n = read(fd, buf + *len, ENVIRON_MAX - *len);
	if (fd >= 0)
		close(fd);
	return buf;
}

/* Did the environment have the family's mark at exec? */
static bool has_mark(int dir, const char *mark)
{
	char want[sizeof(RR_FAMILY_VAR) + 64], *text;
	size_t len;
	bool found;

	snprintf(want, sizeof(want), RR_FAMILY_VAR "=%s", mark);
	text = read_environ(dir, &len);
	found = text && rr_procfs_environ_has(text, len, want);
	free(text);
	return found;
}

/* Has a member this stack? A zero, of a process whose stack this program may not see, never
 * counts. */
static bool knows_stack(const struct rr_family *f, uint64_t stack)
{
	for (uint32_t i = 0; stack && i < rr_min(f->nstacks, RR_FAMILY_STACKS); i++)
		if (f->stacks[i] == stack)
			return true;
	return false;
}

/* Notes the stack of a member; the oldest of RR_FAMILY_STACKS is replaced. */
static void keep_stack(struct rr_family *f, uint64_t stack)
{
	if (stack && !knows_stack(f, stack))
		f->stacks[f->nstacks++ % RR_FAMILY_STACKS] = stack;
}

/* May the mark count for a process of these users (real, effective, saved)? If they differ, the
 * process has more rights than the one that started it and gave it the environment. A process
 * of another user counts only for root, and only with a member's stack, which fork() keeps and
 * exec changes. */
static bool may_be_marked(const struct rr_family *f, const uid_t uid[3], uint64_t stack)
{
	uid_t own = getuid();

	if (uid[0] == own)
		return own == 0 || (uid[1] == own && uid[2] == own);
	return own == 0 && uid[1] == uid[0] && uid[2] == uid[0] &&
	       (f->missed || knows_stack(f, stack));
}

/* Reads everything below one descriptor of /proc/PID, so that a pid that is used again cannot
 * mix two processes. The users are checked again afterwards, since an exec in between may have
 * changed them and the environment. */
static bool is_marked(const struct rr_family *f, const struct proc *p)
{
	int dir = open_proc(p->who.pid);
	struct proc now;
	uid_t uid[3];
	bool yes;

	yes = dir >= 0 && read_dir(dir, p->who.pid, &now, uid) &&
	      now.who.ticks == p->who.ticks &&
	      may_be_marked(f, uid, now.stack) && has_mark(dir, f->mark) &&
	      read_dir(dir, p->who.pid, &now, uid) && may_be_marked(f, uid, now.stack);
	if (dir >= 0)
		close(dir);
	return yes;
}

/* --- all processes --- */

struct procs {
	size_t n, room;
	struct proc *p;
};

/* Without memory the process is left out, and found by a later scan. */
static void add_proc_seen(struct procs *all, const struct proc *p)
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

/* Lists all processes that are not older than the family, except those of the caller's own
 * session: the processes that watch the family were started by it, and are not members. */
static void list_procs(struct procs *all, uint64_t since)
{
	DIR *d = opendir("/proc");
	int own = getsid(0);
	struct dirent *e;
	struct proc p;

	while (d && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]) &&
		    read_proc_stat(atoi(e->d_name), &p) &&
		    p.who.ticks >= since && p.session != own)
			add_proc_seen(all, &p);
	if (d)
		closedir(d);
	if (all->n)
		qsort(all->p, all->n, sizeof(*all->p), by_pid);
}

/* The start time tells a process from a later one with the same pid. */
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

/* Adds the children of members, and their children, until nothing changes. A child's pid may be
 * smaller than its parent's, so one pass is not enough. */
static void add_children(struct procs *all)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < all->n; i++)
			if (!all->p[i].member && has_member(all, all->p[i].parent))
				more = all->p[i].member = true;
	}
}

static void keep_stacks(struct rr_family *f, const struct procs *all)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->p[i].member)
			keep_stack(f, all->p[i].stack);
}

/* Marks members in `all`, by descent first. Stacks are noted in between: those of members by
 * descent are sure, while those of members by the mark count only in the first scan of a family
 * whose first process was missed. */
static void judge_procs(struct rr_family *f, struct procs *all)
{
	for (size_t i = 0; i < all->n; i++)
		all->p[i].member = was_member(f, all->p[i].who);
	add_children(all);
	keep_stacks(f, all);
	for (size_t i = 0; i < all->n; i++)
		if (!all->p[i].member)
			all->p[i].member = is_marked(f, &all->p[i]);
	add_children(all);
	if (f->missed)
		keep_stacks(f, all);
}

/* --- listening sockets --- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	return (h ^ v) * 0x100000001b3u;	/* FNV-1a */
}

/* The owner that the socket had before; pid 0 if it is new. A scan is needed to know the owners
 * of new ones. */
static struct rr_member owner_of(const struct rr_listening *l, uint32_t n, uint64_t inode)
{
	for (uint32_t i = 0; i < n; i++)
		if (l[i].inode == inode)
			return l[i].owner;
	return (struct rr_member){ 0 };
}

/* Is a socket likely to be the family's, because the watcher's user or a member's user has made
 * it? */
static bool is_likely(const struct rr_family *f, uid_t maker)
{
	if (maker == getuid())
		return true;
	for (uint32_t i = 0; i < f->nmembers; i++)
		if (f->members[i].user == maker)
			return true;
	return false;
}

/* Appends listening sockets: those likely to be the family's, or the others; returns the digest
 * h continued by them. Listening sockets come first in the kernel's list, so the first that
 * does not listen ends it, however many connections there are. */
static uint64_t read_listeners(struct rr_family *f, const char *path, uint8_t family,
			       bool likely, uint64_t h)
{
	FILE *in = fopen(path, "re");
	struct rr_procfs_tcp t;
	char line[512];

	while (in && fgets(line, sizeof(line), in) && f->nlisteners < RR_FAMILY_PORTS) {
		if (!rr_procfs_tcp(line, &t))
			continue;	/* the heading */
		if (!t.listening)
			break;
		if (is_likely(f, t.maker) != likely)
			continue;
		f->listeners[f->nlisteners++] = (struct rr_listening){
			.family = family, .port = t.port, .maker = t.maker, .inode = t.inode };
		h = mix(mix(h, t.inode), t.port);
	}
	if (in)
		fclose(in);
	return h;
}

/* Any user can have more sockets than there is room for here, so sockets of other users come
 * last. */
uint64_t rr_family_listeners(struct rr_family *f)
{
	struct rr_listening before[RR_FAMILY_PORTS];
	uint64_t h = 0xcbf29ce484222325u;
	uint32_t n = f->nlisteners;

	memcpy(before, f->listeners, n * sizeof(*before));
	f->nlisteners = 0;
	for (int likely = 1; likely >= 0; likely--) {
		h = read_listeners(f, "/proc/self/net/tcp", 4, likely, h);
		h = read_listeners(f, "/proc/self/net/tcp6", 6, likely, h);
	}
	for (uint32_t i = 0; i < f->nlisteners; i++)
		f->listeners[i].owner = owner_of(before, n, f->listeners[i].inode);
	return h;
}

/* Makes `who` the owner of the socket with this inode, unless an elder member is: that one is
 * watched, while children come and go. Returns false if the inode is none of those in l. */
static bool claim_listener(struct rr_listening *l, uint32_t n, uint64_t inode,
			   struct rr_member who)
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

/* Marks sockets that process `who` has as its own, unless an elder one has them. Returns
 * whether it has any. */
static bool claim_dir(struct rr_listening *l, uint32_t n, const char *dir, struct rr_member who)
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
			any |= claim_listener(l, n, inode, who);
	}
	if (d)
		closedir(d);
	return any;
}

/* If the first thread of a process has ended, only its other threads show descriptors. */
static bool claim_all(struct rr_listening *l, uint32_t n, struct rr_member who)
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

/* Writes to out the inodes of sockets that had an owner before and have none now; returns how
 * many. */
static uint32_t orphans(const struct rr_family *f, const struct rr_listening *before,
			struct rr_listening *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->nlisteners; i++)
		if (before[i].owner.pid && !f->listeners[i].owner.pid)
			out[n++].inode = f->listeners[i].inode;
	return n;
}

/* --- */

int rr_family_init(struct rr_family *f)
{
	uint8_t secret[16];

	memset(f, 0, sizeof(*f));
	f->since = rr_proc_ticks(0);
	if (!f->since)
		return -ENOENT;		/* no /proc */
	if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		return -EIO;
	for (unsigned i = 0; i < sizeof(secret); i++)
		snprintf(f->mark + 2 * i, 3, "%02x", secret[i]);
	f->nmembers = 1;
	f->members[0] = (struct rr_member){ getpid(), f->since, getuid() };
	return 0;
}

/* During exec the kernel closes descriptors shortly before it shows where the new stack is; so
 * this waits, up to 10 ms. A stack that was not seen then is missed, and the first scan trusts
 * the mark alone. */
void rr_family_meet(struct rr_family *f)
{
	static const struct timespec pause = { 0, 200000 };
	struct proc p;

	for (int i = 0; i < 50 && read_proc_stat(f->members[0].pid, &p); i++) {
		if (p.who.ticks != f->members[0].ticks)
			break;
		if (p.stack) {
			keep_stack(f, p.stack);
			return;
		}
		nanosleep(&pause, NULL);
	}
	f->missed = true;
}

/* Adds a member and claims its sockets. Beyond RR_FAMILY_MEMBERS a process is not followed. */
static void take_member_in(struct rr_family *f, struct rr_member who)
{
	if (f->nmembers == RR_FAMILY_MEMBERS)
		return;
	f->members[f->nmembers++] = who;
	claim_all(f->listeners, f->nlisteners, who);
}

/* Reads /proc once; `before` are the listeners with the owners that they had. Returns false if
 * somebody may have been missed: there is no member, or a member's socket has no owner now. */
static bool read_family(struct rr_family *f, const struct rr_listening *before)
{
	struct rr_listening orphan[RR_FAMILY_PORTS] = { 0 };
	struct procs all = { 0 };
	uint32_t norphans;

	for (uint32_t i = 0; i < f->nlisteners; i++)
		f->listeners[i].owner = (struct rr_member){ 0 };
	list_procs(&all, f->since);
	judge_procs(f, &all);
	f->nmembers = 0;
	for (size_t i = 0; i < all.n; i++)
		if (all.p[i].member)
			take_member_in(f, all.p[i].who);
	/* A process that is no member by now, but has a socket that belonged to a member which
	 * is gone, is taken for that member's child. */
	norphans = orphans(f, before, orphan);
	for (size_t i = 0; norphans && i < all.n; i++)
		if (!all.p[i].member && claim_all(orphan, norphans, all.p[i].who))
			take_member_in(f, all.p[i].who);
	free(all.p);
	return f->nmembers && !orphans(f, before, orphan);
}

/* Everything is judged anew from /proc; only the last members, their stacks and their sockets
 * are carried over. A scan reads some files of each process of the host, so the guard makes one
 * only while something changes.
 *
 * A member that forks and ends while the list is read is missed with its child: the child is
 * younger than the list, and the parent is gone when its turn comes. So there is another look
 * before a family is said to be over, or a socket nobody's. */
void rr_family_scan(struct rr_family *f)
{
	struct rr_listening before[RR_FAMILY_PORTS];

	memcpy(before, f->listeners, f->nlisteners * sizeof(*before));
	for (int i = 0; i < LOOKS && !read_family(f, before); i++)
		;
	f->missed = false;
}

const struct rr_listening *rr_family_listener(const struct rr_family *f, const char *netid,
					      uint16_t port)
{
	bool tcp6 = !strcmp(netid, "tcp6");

	/* An IPv6 socket may serve IPv4, too: nfs-ganesha has one for both. */
	for (uint32_t i = 0; i < f->nlisteners; i++)
		if (f->listeners[i].port == port && f->listeners[i].owner.pid &&
		    (f->listeners[i].family == 6 || !tcp6))
			return &f->listeners[i];
	return NULL;
}
