/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/segment.h"

#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/rundir.h"

#define LAST (RR_STAT_CONNS - 1)

static void *grow(void *p, size_t n, size_t size)
{
	p = reallocarray(p, n, size);
	if (!p)
		err(1, NULL);
	return p;
}

static bool read_at(int fd, void *to, size_t size, size_t at)
{
	return pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

/* What a terminal must not see becomes '?'. */
static void copy_text(char *to, const char *from, size_t size)
{
	size_t i;

	for (i = 0; i < size - 1 && from[i]; i++)
		to[i] = (unsigned char)from[i] < ' ' || (unsigned char)from[i] >= 0x7f ? '?' : from[i];
	to[i] = '\0';
}

static bool is_segment(const struct rr_stat_seg *s, const struct stat *st)
{
	return s->magic == RR_STAT_MAGIC && s->version == RR_STAT_VERSION &&
	       s->size == RR_STAT_SIZE && st->st_size == RR_STAT_SIZE &&
	       s->nconns == RR_STAT_CONNS && s->nhist == RR_STAT_HIST &&
	       s->conn_size == sizeof(struct rr_stat_conn);
}

static void add_counts(uint64_t *sum, const struct rr_counters *c, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		sum[i] += c->v[i];
}

static void read_conn(struct rr_proc *p, int fd, uint32_t i, uint32_t ncounters)
{
	struct rr_stat_conn e;
	struct rr_proc_conn *c;

	if (!read_at(fd, &e, sizeof(e), sizeof(struct rr_stat_seg) + i * sizeof(e)) || e.used != 1)
		return;
	p->conns = grow(p->conns, p->nconns + 1, sizeof(*p->conns));
	c = &p->conns[p->nconns++];
	*c = (struct rr_proc_conn){ .fd = e.fd, .state = e.state, .carrier = e.carrier,
				    .reason = e.reason, .server = e.server, .since_ns = e.since_ns,
				    .dialect = e.dialect, .version = e.version };
	copy_text(c->local, e.local, sizeof(c->local));
	copy_text(c->peer, e.peer, sizeof(c->peer));
	add_counts(c->count, &e.count, ncounters);
	add_counts(p->count, &e.count, ncounters);
}

/* The counts of connections that are gone are read before those of entries, as they move:
 * one that moves meanwhile is missed, never seen twice. */
static void read_body(struct rr_proc *p, int fd, const struct rr_stat_seg *s)
{
	uint32_t ncounters = rr_min(s->ncounters, (uint32_t)RR_C_COUNT);

	for (unsigned i = 0; i < RR_CARRIER_COUNT; i++)
		p->carriers[i] = s->carriers[i];
	for (unsigned i = 0; i < RR_STAT_REASONS; i++)
		p->reasons[i] = s->reasons[i];
	for (unsigned i = 0; i < RR_STAT_HIST; i++)
		p->hist[i] = s->hist[i];
	add_counts(p->count, &s->retired, ncounters);
	for (uint32_t i = 0; i < LAST; i++)
		if (s->taken[i / 64] >> i % 64 & 1)
			read_conn(p, fd, i, ncounters);
	read_conn(p, fd, LAST, ncounters);	/* shared by those beyond */
}

/* May a file of this owner speak for that process? Its own user's, or root's for a daemon
 * that gave its rights up. */
static bool speaks_for(uid_t owner, int pid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return owner == 0 || (!stat(path, &st) && st.st_uid == owner);
}

static bool read_segment(struct rr_proc *p, int fd, const struct rr_segname *name)
{
	static struct rr_stat_seg s;
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !read_at(fd, &s, sizeof(s), 0) ||
	    !is_segment(&s, &st) || s.pid != name->pid || s.start_ticks != name->ticks)
		return false;
	*p = (struct rr_proc){ .pid = s.pid, .uid = st.st_uid, .ticks = s.start_ticks,
			       .since_ns = s.created_ns, .ended = s.ended };
	p->alive = !name->died && rr_proc_ticks(s.pid) == s.start_ticks;
	if (p->alive && !speaks_for(st.st_uid, s.pid))
		return false;
	if (p->alive)
		p->ended = false;	/* it is still exiting */
	copy_text(p->comm, s.comm, sizeof(p->comm));
	copy_text(p->exe, s.exe, sizeof(p->exe));
	if (p->alive) {		/* daemons rename themselves */
		char now[32];

		rr_proc_comm(s.pid, now, sizeof(now));
		if (now[0])
			copy_text(p->comm, now, sizeof(p->comm));
	}
	read_body(p, fd, &s);
	return true;
}

static bool wanted(int pid, const int *pids, uint32_t npids)
{
	for (uint32_t i = 0; i < npids; i++)
		if (pids[i] == pid)
			return true;
	return !npids;
}

static void read_file(struct rr_procs *all, int dir, const char *file, const int *pids,
		      uint32_t npids)
{
	struct rr_segname name;
	struct rr_proc p;
	int fd;

	if (!rr_segname_parse(file, &name) || !wanted(name.pid, pids, npids))
		return;
	fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	if (read_segment(&p, fd, &name)) {
		all->p = grow(all->p, all->n + 1, sizeof(p));
		all->p[all->n++] = p;
	}
	close(fd);
}

void rr_procs_read(struct rr_procs *all, const char *dir, const int *pids, uint32_t npids)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		read_file(all, dirfd(d), e->d_name, pids, npids);
	if (d)
		closedir(d);
}

static int compare(const void *a, const void *b)
{
	const struct rr_proc *x = a, *y = b;

	if (x->alive != y->alive)
		return x->alive ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->since_ns < y->since_ns ? -1 : x->since_ns > y->since_ns;
}

void rr_procs_sort(struct rr_procs *all)
{
	if (all->n)
		qsort(all->p, all->n, sizeof(*all->p), compare);
}

void rr_procs_fini(struct rr_procs *all)
{
	for (uint32_t i = 0; i < all->n; i++)
		free(all->p[i].conns);
	free(all->p);
	*all = (struct rr_procs){ 0 };
}
