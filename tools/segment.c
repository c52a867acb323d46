/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads what processes say about themselves in their statistics segments, and what the kernel
 * says about the processes. Segments are in run directories and among the descriptors in
 * /proc. */
#include "tools/segment.h"

#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/rundir.h"
#include "tools/places.h"

#define LAST		(RR_STAT_CONNS - 1)
#define STRANGERS	1024u	/* segments of users other than us and root, at most */
#define STRANGE_CONNS	65536u	/* connections in those, at most */
#define STRANGE_TALLIES	4096u
#define FDS_MAX		16384u	/* descriptors looked at of a process */

void *rr_grow_array(void *p, size_t n, size_t size)
{
	p = reallocarray(p, n, size);
	if (!p)
		err(1, NULL);
	return p;
}

/* Copies a text; bytes that a terminal must not see become '?'. */
static void copy_text(char *to, const char *from, size_t size)
{
	size_t i;

	for (i = 0; i < size - 1 && from[i]; i++)
		to[i] = (unsigned char)from[i] < ' ' ||
			(unsigned char)from[i] >= 0x7f ? '?' : from[i];
	to[i] = '\0';
}

static void copy_address(char to[RR_STAT_ADDR], const char from[RR_STAT_ADDR])
{
	char text[RR_STAT_ADDR];

	rr_stats_addr_read(from, text);
	copy_text(to, text, RR_STAT_ADDR);
}

static bool is_segment(const struct rr_stat_seg *s, size_t size)
{
	return s->magic == RR_STAT_MAGIC && s->version == RR_STAT_VERSION &&
	       s->size == RR_STAT_SIZE && size == RR_STAT_SIZE &&
	       s->nconns == RR_STAT_CONNS && s->nhist == RR_STAT_HIST &&
	       s->conn_size == sizeof(struct rr_stat_conn);
}

/* n is what both sides know: an older library has fewer counters, a newer one more. */
static void add_counts(uint64_t *sum, const struct rr_counters *c, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		sum[i] += c->v[i];
}

/* Appends entry i if it is in use. Its counts also go into those of the process, because the
 * segment only sums up closed connections. */
static void read_conn(struct rr_proc *p, const struct rr_stat_seg *s, uint32_t i,
		      uint32_t ncounters)
{
	const struct rr_stat_conn *e = &s->conn[i];
	struct rr_proc_conn *c;

	if (e->used != 1)
		return;
	p->conns = rr_grow_array(p->conns, p->nconns + 1, sizeof(*p->conns));
	c = &p->conns[p->nconns++];
	*c = (struct rr_proc_conn){ .fd = e->fd, .state = e->state, .carrier = e->carrier,
				    .reason = e->reason, .server = e->server,
				    .since_ns = e->since_ns, .dialect = e->dialect,
				    .version = e->version, .program = e->program,
				    .peer_pid = rr_min(e->peer_pid, (uint32_t)INT32_MAX) };
	c->undecided = rr_stat_is_undecided(s, e, c->state, c->carrier);
	copy_address(c->local, e->local);
	copy_address(c->peer, e->peer);
	add_counts(c->count, &e->count, ncounters);
	add_counts(p->count, &e->count, ncounters);
}

/* --- tallies --- */

static const struct rr_stat_tally *tally_at(const struct rr_stat_seg *s, unsigned i)
{
	return (const struct rr_stat_tally *)&s->conn[RR_STAT_OWN] + i;
}

/* Tallies that can be read. Libraries older than tallies have none. */
static uint64_t ready_tallies(const struct rr_stat_seg *s)
{
	return s->ntallies == RR_STAT_TALLIES && s->tally_size == sizeof(struct rr_stat_tally) ?
		       s->tallies_ready : 0;
}

/* For qsort(). Numbers are compared and not subtracted, since they are of 32 bits without a
 * sign. */
int rr_proc_tally_order(const void *x, const void *y)
{
	const struct rr_proc_tally *a = x, *b = y;

	if (a->server != b->server)
		return a->server - b->server;
	if (a->others != b->others)
		return a->others - b->others;
	if (a->program != b->program)
		return a->program < b->program ? -1 : 1;
	if (a->version != b->version)
		return a->version < b->version ? -1 : 1;
	return a->procedure < b->procedure ? -1 : a->procedure > b->procedure;
}

struct rr_proc_tally *rr_proc_tally_of(struct rr_proc *p, const struct rr_proc_tally *key)
{
	for (uint32_t i = 0; i < p->ntallies; i++)
		if (!rr_proc_tally_order(&p->tallies[i], key))
			return &p->tallies[i];
	p->tallies = rr_grow_array(p->tallies, p->ntallies + 1, sizeof(*p->tallies));
	p->tallies[p->ntallies] = (struct rr_proc_tally){
		.server = key->server, .others = key->others, .program = key->program,
		.version = key->version, .procedure = key->procedure
	};
	return &p->tallies[p->ntallies++];
}

/* Adds to a tally of the same key, if there is one: two threads may each have taken one. */
static void read_tally(struct rr_proc *p, const struct rr_stat_seg *s, unsigned i)
{
	const struct rr_stat_tally *a = tally_at(s, i);
	bool others = i < RR_TALLY_OTHERS;
	struct rr_proc_tally key = { .server = others ? i : s->key[i].server == 1,
				     .others = others }, *t;

	if (!others) {
		key.program = s->key[i].program;
		key.version = s->key[i].version;
		key.procedure = s->key[i].procedure;
	}
	t = rr_proc_tally_of(p, &key);
	t->calls += a->calls;
	t->errors += a->errors;
	t->resent += a->resent;
	t->arguments += a->arguments;
	t->results += a->results;
	t->long_arguments += a->long_arguments;
	t->long_results += a->long_results;
	for (unsigned k = 0; k < RR_STAT_HIST; k++)
		t->hist[k] += a->hist[k];
}

/* Adds received calls that have no reply to those of their procedure. */
static void read_unconfirmed(struct rr_proc *p, const struct rr_stat_seg *s, unsigned i)
{
	const struct rr_stat_unconfirmed *u = &s->unconfirmed[i];
	struct rr_proc_tally key = { .server = true,
				     .others = i == RR_STAT_UNCONFIRMED - 1 }, *t;
	uint64_t calls = u->calls;

	if (!calls)
		return;
	if (!key.others) {
		key.program = u->key.program;
		key.version = u->key.version;
		key.procedure = u->key.procedure;
	}
	t = rr_proc_tally_of(p, &key);
	t->calls += calls;
	t->arguments += u->arguments;
	t->long_arguments += u->long_arguments;
}

/* Sums over all calls; the segment's own histogram covers some of them. */
static void sum_round_trips(struct rr_proc *p)
{
	bool any = false;

	for (uint32_t i = 0; i < p->ntallies; i++)
		any |= !p->tallies[i].server;
	if (any)
		memset(p->hist, 0, sizeof(p->hist));
	for (uint32_t i = 0; i < p->ntallies; i++)
		for (unsigned k = 0; k < RR_STAT_HIST && !p->tallies[i].server; k++)
			p->hist[k] += p->tallies[i].hist[k];
}

/* Reads the tallies that are complete. `ready` is read once: a bit that a process sets
 * meanwhile counts the next time. */
static void read_tallies(struct rr_proc *p, const struct rr_stat_seg *s)
{
	uint64_t ready = ready_tallies(s);

	for (unsigned i = 0; i < RR_STAT_TALLIES; i++)
		if (ready >> i & 1)
			read_tally(p, s, i);
	for (unsigned i = 0; i < RR_STAT_UNCONFIRMED; i++)
		read_unconfirmed(p, s, i);
	if (!p->ntallies)
		return;
	sum_round_trips(p);
	qsort(p->tallies, p->ntallies, sizeof(*p->tallies), rr_proc_tally_order);
}

void rr_proc_fini(struct rr_proc *p)
{
	free(p->conns);
	free(p->tallies);
}

/* --- */

static bool is_taken(const struct rr_stat_seg *s, uint32_t i)
{
	return s->taken[i / 64] >> i % 64 & 1;
}

/* How many entries connections may have for themselves. */
static uint32_t own_entries(const struct rr_stat_seg *s)
{
	return s->ntallies ? RR_STAT_OWN : LAST;
}

/* Adds up the whole segment, from the bytes that read_bytes() has taken. */
static void read_body(struct rr_proc *p, const struct rr_stat_seg *s)
{
	uint32_t ncounters = rr_min(s->ncounters, (uint32_t)RR_C_COUNT);

	for (unsigned i = 0; i < RR_CARRIER_COUNT; i++)
		p->carriers[i] = s->carriers[i];
	for (unsigned i = 0; i < RR_STAT_REASONS; i++)
		p->reasons[i] = s->reasons[i];
	for (unsigned i = 0; i < RR_STAT_HIST; i++)
		p->hist[i] = s->hist[i];
	add_counts(p->count, &s->retired, ncounters);
	for (uint32_t i = 0; i < own_entries(s); i++)
		if (is_taken(s, i))
			read_conn(p, s, i, ncounters);
	read_conn(p, s, LAST, ncounters);	/* shared by those beyond */
	read_tallies(p, s);
}

static void read_told(struct rr_proc_told *to, const struct rr_stat_told *t)
{
	copy_text(to->release, t->release, sizeof(to->release));
	for (unsigned i = 0; i < RR_STAT_PROVS; i++) {
		to->offered[i] = t->offered[i];
		to->here[i] = t->here[i];
		to->there[i] = t->there[i];
	}
}

/* Only the head is judged as a whole: size, versions and the sizes of its parts have to be
 * those that this release knows. All other numbers are used as they are or bounded where they
 * are used. */
bool rr_segment_parse(struct rr_proc *p, const void *bytes, size_t size)
{
	const struct rr_stat_seg *s = bytes;

	if (size != RR_STAT_SIZE || !is_segment(s, size))
		return false;
	p->pid = s->pid;
	p->ticks = s->start_ticks;
	p->since_ns = s->created_ns;
	p->ended = s->ended;
	p->has_log = s->has_log == 1;
	copy_text(p->comm, s->comm, sizeof(p->comm));
	copy_text(p->exe, s->exe, sizeof(p->exe));
	copy_text(p->release, s->release, sizeof(p->release));
	read_told(&p->told, &s->told);
	read_body(p, s);
	return true;
}

/* --- the bytes of a file --- */

/* Reads size bytes at position `at` of the file to the same position in memory. A short read,
 * of a file that was truncated, fails. */
static bool read_at(int fd, uint8_t *to, size_t size, size_t at)
{
	return pread(fd, to + at, size, (off_t)at) == (ssize_t)size;
}

/* Reads the memory of tallies that are ready. The others may never have got any. */
static bool read_tally_bytes(int fd, uint8_t *to)
{
	const struct rr_stat_seg *s = (const void *)to;
	uint64_t ready = ready_tallies(s);

	for (unsigned i = 0; i < RR_STAT_TALLIES; i++)
		if (ready >> i & 1 &&
		    !read_at(fd, to, sizeof(struct rr_stat_tally),
			     (size_t)((const uint8_t *)tally_at(s, i) - to)))
			return false;
	return true;
}

/* Reads the bytes that are looked at: up to the last entry in use, and the shared entry. The
 * counts of closed connections are read before those of entries, which are added to them at the
 * end: a count that moves meanwhile is missed but never seen twice. */
static bool read_bytes(int fd, uint8_t *to)
{
	const struct rr_stat_seg *s = (const void *)to;
	uint32_t n;

	if (!read_at(fd, to, sizeof(*s), 0))
		return false;
	n = own_entries(s);
	while (n && !is_taken(s, n - 1))
		n--;
	return read_at(fd, to, n * sizeof(s->conn[0]), sizeof(*s)) &&
	       read_tally_bytes(fd, to) &&
	       read_at(fd, to, sizeof(s->conn[0]), sizeof(*s) + LAST * sizeof(s->conn[0]));
}

/* --- what the kernel says --- */

/* Does /proc number processes as we do? Otherwise it is that of another PID namespace. */
static bool proc_is_ours(void)
{
	char buf[16];
	ssize_t n = readlink("/proc/self", buf, sizeof(buf) - 1);

	buf[n > 0 ? n : 0] = '\0';
	return atoi(buf) == getpid();
}

/* May a segment of this owner speak for that process? It may if the owner is the process's
 * user, or root, for a daemon that has given up its rights. */
static bool speaks_for(uid_t owner, int pid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return owner == 0 || (!stat(path, &st) && st.st_uid == owner);
}

/* Asks the kernel for a living process's names: daemons rename themselves, and a segment says
 * what its owner wants. */
static void ask_names(struct rr_proc *p)
{
	char path[32], buf[sizeof(p->exe)];
	ssize_t n;

	rr_proc_comm(p->pid, buf, sizeof(p->comm));
	copy_text(p->comm, buf, sizeof(p->comm));
	snprintf(path, sizeof(path), "/proc/%d/exe", p->pid);
	n = readlink(path, buf, sizeof(buf) - 1);
	buf[n > 0 ? n : 0] = '\0';
	copy_text(p->exe, buf, sizeof(p->exe));
	p->ticks = rr_proc_ticks(p->pid);
}

/* holder is what rr_segment_holder() has returned. False: there is nothing to show. */
static bool judge_proc(struct rr_proc *p, int holder)
{
	p->alive = holder >= 0;
	if (!p->alive) {
		p->local = proc_is_ours() && speaks_for(p->uid, p->pid);
		return true;
	}
	p->ended = false;	/* it is still exiting */
	if (holder == 0 || !proc_is_ours())
		return true;
	p->same_pids = p->pid == holder;	/* in two namespaces: only by chance */
	p->pid = holder;
	p->verified = true;
	ask_names(p);
	return speaks_for(p->uid, holder);
}

/* Reads the segment at fd into p. The memory is static, because a segment has some megabytes; p
 * keeps nothing that points into it. Returns false if there is nothing to show; p may then have
 * something to free. */
static bool read_segment(struct rr_proc *p, int fd, int holder)
{
	static struct { alignas(8) uint8_t b[RR_STAT_SIZE]; } seg;
	struct stat st;

	*p = (struct rr_proc){ 0 };
	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size == RR_STAT_SIZE &&
	       read_bytes(fd, seg.b) && rr_segment_parse(p, seg.b, sizeof(seg.b)) &&
	       (p->uid = st.st_uid, judge_proc(p, holder));
}

/* --- all of them --- */

/* Other users may make more segments than anybody wants to see: is this one too many? */
static bool is_too_much(struct rr_procs *all, struct rr_proc *p)
{
	if (p->uid == 0 || p->uid == geteuid())
		return false;
	if (all->strangers == STRANGERS || p->nconns > STRANGE_CONNS - all->strange_conns)
		return true;
	all->strangers++;
	all->strange_conns += p->nconns;
	if (p->ntallies > STRANGE_TALLIES - all->strange_tallies)
		p->ntallies = 0;
	all->strange_tallies += p->ntallies;
	return false;
}

/* Takes over p. */
static void add_proc(struct rr_procs *all, struct rr_proc *p, bool ok)
{
	if (!ok || is_too_much(all, p)) {
		rr_proc_fini(p);
		return;
	}
	all->p = rr_grow_array(all->p, all->n + 1, sizeof(*p));
	all->p[all->n++] = *p;
}

static bool is_wanted_pid(int pid, const int *pids, uint32_t npids)
{
	for (uint32_t i = 0; i < npids; i++)
		if (pids[i] == pid)
			return true;
	return !npids;
}

/* Reads one file of a run directory. If the kernel has confirmed who holds the lock, it does
 * not matter what the file is called. Otherwise the name has to agree with what the segment
 * says of itself. */
static void read_segment_file(struct rr_procs *all, int dir, const char *file, const int *pids,
			      uint32_t npids)
{
	struct rr_segname name;
	struct rr_proc p;
	int fd, holder;

	if (!rr_segname_parse(file, &name))
		return;
	fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return;
	holder = rr_segment_holder(fd);
	if (is_wanted_pid(holder > 0 ? holder : name.pid, pids, npids)) {
		bool ok = read_segment(&p, fd, holder);

		add_proc(all, &p, ok &&
			 (p.verified || (p.pid == name.pid && p.ticks == name.ticks)));
	}
	close(fd);
}

/* A directory that cannot be opened has no processes for this user. */
void rr_procs_read(struct rr_procs *all, const char *dir, const int *pids, uint32_t npids)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d)))
		read_segment_file(all, dirfd(d), e->d_name, pids, npids);
	if (d)
		closedir(d);
}

/* --- those without a file --- */

/* Opens the descriptor that entry name of dir (/proc/PID/fd) stands for, if its target is
 * `want`. The first open has no effect (O_PATH), since the process may put something else in
 * its place meanwhile. -1: it is something else. */
static int open_link(int dir, const char *name, const char *want, int flags)
{
	char target[sizeof(RR_RUN_MEMFD) + RR_RUN_PATH + 32], path[40];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
	struct stat st;
	int at, fd = -1;

	target[n > 0 ? n : 0] = '\0';
	if (strcmp(target, want))
		return -1;
	at = openat(dir, name, O_PATH | O_CLOEXEC);
	if (at < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	if (!fstat(at, &st) && S_ISREG(st.st_mode))
		fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	close(at);
	return fd;
}

/* Appends the process if this descriptor is the segment that it holds. A child without a
 * segment of its own may have its parent's descriptor, which the lock tells apart. Returns true
 * if the segment was found, so that the search ends. */
static bool scan_link(struct rr_procs *all, int dir, const char *name, const char *want,
		      int pid)
{
	int fd = open_link(dir, name, want, O_RDONLY);
	struct rr_proc p;
	bool ok;

	if (fd < 0)
		return false;
	ok = rr_segment_holder(fd) == pid;
	if (ok)
		add_proc(all, &p, read_segment(&p, fd, pid));
	close(fd);
	return ok;
}

/* Looks through the descriptors of a process. Their number is bounded, because the process
 * decides how many it has. */
static void scan_process(struct rr_procs *all, const char *want, int pid)
{
	uint32_t n = FDS_MAX;
	struct dirent *e;
	char path[32];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && n-- && (e = readdir(d)) && !scan_link(all, dirfd(d), e->d_name, want, pid))
		;
	if (d)
		closedir(d);
}

static bool is_known_proc(const struct rr_procs *all, int pid)
{
	for (uint32_t i = 0; i < all->n; i++)
		if (all->p[i].verified && all->p[i].pid == pid)
			return true;
	return false;
}

/* Processes that were found by a file are not searched again: a walk through /proc costs the
 * most. */
void rr_procs_scan(struct rr_procs *all, const char *host, const int *pids, uint32_t npids)
{
	DIR *d = npids || !proc_is_ours() ? NULL : opendir("/proc");
	char want[sizeof(RR_RUN_MEMFD) + RR_RUN_PATH + 32];
	struct dirent *e;

	snprintf(want, sizeof(want), "/memfd:" RR_RUN_MEMFD "%s (deleted)", host);
	for (uint32_t i = 0; i < npids && proc_is_ours(); i++)
		if (!is_known_proc(all, pids[i]))
			scan_process(all, want, pids[i]);
	while (d && (e = readdir(d)))
		if (atoi(e->d_name) > 0 && !is_known_proc(all, atoi(e->d_name)))
			scan_process(all, want, atoi(e->d_name));
	if (d)
		closedir(d);
}

/* --- writing --- */

/* Is it the segment of p, and not another file that somebody has linked to that name? */
static bool is_its(int fd, const struct rr_proc *p)
{
	uint64_t magic;
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_nlink <= 1 &&
	       st.st_uid == p->uid && st.st_size == RR_STAT_SIZE &&
	       rr_segment_holder(fd) == p->pid &&
	       pread(fd, &magic, sizeof(magic), 0) == sizeof(magic) && magic == RR_STAT_MAGIC;
}

/* Writes the level into the segment at fd and closes that. Returns false if fd is -1, is not
 * p's segment, or cannot be written to. */
static bool write_level(int fd, const struct rr_proc *p, uint32_t level)
{
	bool ok = fd >= 0 && is_its(fd, p) &&
		  pwrite(fd, &level, sizeof(level), offsetof(struct rr_stat_seg, log_level)) ==
			  sizeof(level);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* The name of the file says when its process started; is_its() then makes sure that it is the
 * right process. */
static bool set_level_file(const char *dir, const struct rr_proc *p, uint32_t level)
{
	int at = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = at < 0 ? NULL : fdopendir(at);
	struct rr_segname name;
	struct dirent *e;
	bool done = false;

	while (d && !done && (e = readdir(d)))
		if (rr_segname_parse(e->d_name, &name) && !name.died && name.ticks == p->ticks)
			done = write_level(
				openat(dirfd(d), e->d_name,
				       O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC),
				p, level);
	if (d)
		closedir(d);
	return done;
}

static bool set_level_memfd(const char *host, const struct rr_proc *p, uint32_t level)
{
	char want[sizeof(RR_RUN_MEMFD) + RR_RUN_PATH + 32], path[32];
	uint32_t n = FDS_MAX;
	struct dirent *e;
	bool done = false;
	DIR *d;

	snprintf(want, sizeof(want), "/memfd:" RR_RUN_MEMFD "%s (deleted)", host);
	snprintf(path, sizeof(path), "/proc/%d/fd", p->pid);
	d = opendir(path);
	while (d && !done && n-- && (e = readdir(d)))
		done = write_level(open_link(dirfd(d), e->d_name, want, O_RDWR), p, level);
	if (d)
		closedir(d);
	return done;
}

bool rr_segment_set_level(const struct rr_places *places, const struct rr_proc *p,
			  uint32_t level)
{
	bool done = false;

	for (uint32_t i = 0; i < places->n && !done; i++)
		done = set_level_file(places->dir[i], p, level);
	return done || set_level_memfd(places->host, p, level);
}

/* --- */

/* Equal pids are told apart by age: a dead process may have had the pid before. */
static int compare(const void *a, const void *b)
{
	const struct rr_proc *x = a, *y = b;

	if (x->alive != y->alive)
		return x->alive ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->since_ns < y->since_ns ? -1 : x->since_ns > y->since_ns;
}

void rr_procs_add_undecided(struct rr_procs *all, bool living)
{
	for (uint32_t i = 0; i < all->n; i++) {
		struct rr_proc *p = &all->p[i];

		for (uint32_t k = 0; (living || !p->alive) && k < p->nconns; k++) {
			const struct rr_proc_conn *c = &p->conns[k];

			if (!c->undecided)
				continue;
			p->carriers[RR_CARRIER_TCP]++;
			p->reasons[rr_min(c->reason, RR_STAT_REASONS - 1)]++;
		}
	}
}

void rr_procs_sort(struct rr_procs *all)
{
	if (all->n)
		qsort(all->p, all->n, sizeof(*all->p), compare);
}

void rr_procs_fini(struct rr_procs *all)
{
	for (uint32_t i = 0; i < all->n; i++)
		rr_proc_fini(&all->p[i]);
	free(all->p);
	*all = (struct rr_procs){ 0 };
}
