/* SPDX-License-Identifier: BSD-3-Clause */
/* nfs_files STEP ARGUMENT...: file operations on a mounted file system, verified. One line on stdout if all
 * was right, else one on stderr and status 1.
 *
 *	io PATH SIZE BLOCK [direct|synced]	writes in order, reads back from the server, compares
 *	odd PATH			transfers of odd lengths at odd offsets, past the cache
 *	random PATH SIZE OPS [direct]	4 KiB blocks by four threads, each read compared
 *	mmap PATH SIZE			a shared mapping, written, synced, read from the server
 *	model PATH SIZE OPS SEED	any order of reads, writes, lengths and mappings, against a model in memory
 *	names DIR N			the directory has exactly the files f00000...
 *	links DIR			symbolic links of all lengths; readlink
 *	rename DIR			over nothing and over another file
 *	xattr PATH BYTES		an extended attribute of so many bytes; the list; removal
 *	acl PATH NAME USERS		an ACL with so many users, as this attribute, is written and read
 *	hold PATH READY GO		opens, reads, makes file READY, waits for file GO, reads again
 *	locks PATH OTHER TURNS		two clients' paths of one file: a lock of one's is the other's; so many times each
 *					adds to a number in it, which its own cache does not know
 */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PAGE	4096u
#define THREADS 4u

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "nfs_files: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, " (%s)\n", strerror(err));
	exit(1);
}

/* What belongs at an offset: depends on both, so that no shifted or foreign block can pass. */
static uint64_t word_at(uint64_t off, uint64_t seed)
{
	uint64_t z = (off / 8 + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;

	z = (z ^ (z >> 29)) * 0x94d049bb133111ebu;
	return z ^ (z >> 32);
}

static void fill(unsigned char *b, size_t n, uint64_t off, uint64_t seed)
{
	for (size_t i = 0; i < n;) {
		uint64_t w = word_at(off + i, seed), skip = (off + i) % 8;
		size_t part = 8 - skip < n - i ? 8 - skip : n - i;

		memcpy(b + i, (unsigned char *)&w + skip, part);
		i += part;
	}
}

/* Offset of the first byte that is not what belongs there, or -1. */
static long differs(const unsigned char *b, size_t n, uint64_t off, uint64_t seed)
{
	unsigned char want[PAGE];

	for (size_t i = 0; i < n; i += PAGE) {
		size_t part = n - i < PAGE ? n - i : PAGE;

		fill(want, part, off + i, seed);
		if (memcmp(want, b + i, part) == 0)
			continue;
		for (size_t j = 0; j < part; j++)
			if (want[j] != b[i + j])
				return (long)(off + i + j);
	}
	return -1;
}

static void *pages(size_t n)
{
	void *p = mmap(NULL, n + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static int open_file(const char *path, int flags)
{
	int fd = open(path, flags, 0644);

	if (fd < 0)
		die("open %s", path);
	return fd;
}

static void write_at(int fd, const void *b, size_t n, uint64_t off)
{
	if (pwrite(fd, b, n, (off_t)off) != (ssize_t)n)
		die("write of %zu at %llu", n, (unsigned long long)off);
}

static void read_same(int fd, unsigned char *b, size_t n, uint64_t off, uint64_t seed)
{
	ssize_t got;
	long bad;

	memset(b, 0xee, n);
	got = pread(fd, b, n, (off_t)off);
	if (got != (ssize_t)n)
		die("read of %zu at %llu gave %zd", n, (unsigned long long)off, got);
	bad = differs(b, n, off, seed);
	if (bad >= 0)
		die("other data at %ld: %02x", bad, b[(uint64_t)bad - off]);
}

/* What was written is on the server, and no longer in the cache. */
static void forget(int fd)
{
	if (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		die("fsync");
}

static size_t number(const char *s)
{
	char *end;
	size_t n = strtoul(s, &end, 0);

	return *end == 'm' ? n << 20 : *end == 'k' ? n << 10 : n;
}

static int o_direct(char **arg)
{
	return arg[0] && strcmp(arg[0], "direct") == 0 ? O_DIRECT : 0;
}

static void do_io(char **arg)
{
	size_t size = number(arg[1]), block = number(arg[2]);
	unsigned char *b = pages(block);
	int fd = open_file(arg[0], O_RDWR | O_CREAT | O_TRUNC | o_direct(arg + 3));
	bool synced = arg[3] && strcmp(arg[3], "synced") == 0;

	for (size_t off = 0, n; off < size; off += n) {
		n = size - off < block ? size - off : block;
		fill(b, n, off, 1);
		write_at(fd, b, n, off);
		if (synced && fsync(fd))
			die("fsync");
	}
	forget(fd);
	for (size_t off = 0, n; off < size; off += n) {
		n = size - off < block ? size - off : block;
		read_same(fd, b, n, off, 1);
	}
	if (close(fd))
		die("close");
	printf("%zu bytes written and read by %zu", size, block);
}

/* NFS transfers such a request as it is: chunks that need padding, and none at all for the shortest. */
static void do_odd(char **arg)
{
	static const unsigned int lengths[] = { 1,    2,    3,	  511,	 1023,	2047,  3901,   3999,   4095,
						4097, 4098, 4099, 8191, 12289, 65537, 131071, 262147, 999999 };
	unsigned char *b = pages(1u << 20);
	int fd = open_file(arg[0], O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);
	uint64_t off = 0, end;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); off += lengths[i++]) {
		fill(b + 1, lengths[i], off, 2);
		write_at(fd, b + 1, lengths[i], off);
	}
	end = off;
	off = 0;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); off += lengths[i++])
		read_same(fd, b + 3, lengths[i], off, 2);
	if (pread(fd, b, 1u << 20, (off_t)end - 777) != 777 || differs(b, 777, end - 777, 2) >= 0)
		die("a read across the end");
	if (pread(fd, b, 1u << 20, (off_t)end) != 0)
		die("a read at the end");
	close(fd);
	printf("%zu odd lengths", sizeof(lengths) / sizeof(*lengths));
}

struct worker {
	pthread_t thread;
	const char *path;
	int flags;
	size_t first, blocks, ops;
	uint64_t seed;
};

static size_t next(struct worker *w, size_t below)
{
	w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
	return (size_t)(w->seed >> 33) % below;
}

/* Owns the blocks [first, first + blocks); version[] is what it wrote last to each. */
static void *random_io(void *arg)
{
	struct worker *w = arg;
	uint32_t *version = calloc(w->blocks, sizeof(*version));
	unsigned char *b = pages(PAGE);
	int fd = open_file(w->path, O_RDWR | w->flags);

	if (!version)
		die("calloc");
	for (size_t i = 0; i < w->ops + w->blocks; i++) {
		size_t k = i < w->ops ? next(w, w->blocks) : i - w->ops;
		uint64_t off = (uint64_t)(w->first + k) * PAGE;

		if (i == w->ops)
			forget(fd);
		if (i < w->ops && next(w, 2)) {
			fill(b, PAGE, off, 100 + ++version[k]);
			write_at(fd, b, PAGE, off);
		} else {
			read_same(fd, b, PAGE, off, 100 + version[k]);
		}
	}
	close(fd);
	free(version);
	return NULL;
}

static void do_random(char **arg)
{
	size_t blocks = number(arg[1]) / PAGE / THREADS, ops = number(arg[2]) / THREADS;
	unsigned char *b = pages(PAGE);
	struct worker w[THREADS];
	int fd = open_file(arg[0], O_RDWR | O_CREAT | O_TRUNC);

	for (size_t k = 0; k < blocks * THREADS; k++) {
		fill(b, PAGE, k * PAGE, 100);
		write_at(fd, b, PAGE, k * PAGE);
	}
	forget(fd);
	close(fd);
	for (unsigned int i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .path = arg[0], .flags = o_direct(arg + 3), .first = i * blocks,
					.blocks = blocks, .ops = ops, .seed = i + 1 };
		if (pthread_create(&w[i].thread, NULL, random_io, &w[i]))
			die("pthread_create");
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(w[i].thread, NULL);
	printf("%zu random operations on %zu blocks", ops * THREADS, blocks * THREADS);
}

static void do_mmap(char **arg)
{
	size_t size = number(arg[1]);
	int fd = open_file(arg[0], O_RDWR | O_CREAT | O_TRUNC);
	unsigned char *m;

	if (ftruncate(fd, (off_t)size))
		die("ftruncate");
	m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED)
		die("mmap");
	fill(m, size, 0, 3);
	if (msync(m, size, MS_SYNC) || munmap(m, size))
		die("msync");
	forget(fd);
	m = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED || differs(m, size, 0, 3) >= 0)
		die("other data in the mapping");
	munmap(m, size);
	close(fd);
	printf("%zu bytes mapped", size);
}

/* A file, and what it must hold: behind its end is zero, which is what a hole is read as. */
struct model {
	const char *path;
	int fd;
	size_t most, size, op;
	unsigned char *have, *b;
	struct worker random;
};

static void same(struct model *m, const unsigned char *b, size_t off, size_t n, const char *how)
{
	for (size_t i = 0; i < n; i++)
		if (b[i] != m->have[off + i])
			die("operation %zu: %s of %zu at %zu: at %zu there is %02x for %02x, of %zu", m->op, how, n, off,
			    off + i, b[i], m->have[off + i], m->size);
}

static void model_truncate(struct model *m, size_t size)
{
	if (ftruncate(m->fd, (off_t)size))
		die("operation %zu: ftruncate to %zu", m->op, size);
	if (size < m->size)
		memset(m->have + size, 0, m->size - size);
	m->size = size;
}

static void model_change(struct model *m, size_t off, size_t n)
{
	fill(m->have + off, n, off, 1000 + m->op);
	if (off + n > m->size)
		m->size = off + n;
}

static void model_write(struct model *m, size_t off, size_t n)
{
	model_change(m, off, n);
	write_at(m->fd, m->have + off, n, off);
}

static void model_read(struct model *m, size_t off, size_t n)
{
	size_t want = off >= m->size ? 0 : n < m->size - off ? n : m->size - off;
	ssize_t got = pread(m->fd, m->b, n, (off_t)off);

	if (got != (ssize_t)want)
		die("operation %zu: read of %zu at %zu gave %zd, of %zu", m->op, n, off, got, m->size);
	same(m, m->b, off, want, "read");
}

/* Of a mapping the rest of the last page is looked at, too. */
static void model_map(struct model *m, size_t off, size_t n, bool change)
{
	size_t first = off & ~(size_t)(PAGE - 1), all = ((off + n + PAGE - 1) & ~(size_t)(PAGE - 1)) - first;
	unsigned char *p;

	if (off + n > m->size)
		model_truncate(m, off + n);
	p = mmap(NULL, all, PROT_READ | (change ? PROT_WRITE : 0), MAP_SHARED, m->fd, (off_t)first);
	if (p == MAP_FAILED)
		die("operation %zu: mmap", m->op);
	if (change) {
		model_change(m, off, n);
		memcpy(p + (off - first), m->have + off, n);
		if (msync(p, all, MS_SYNC))
			die("operation %zu: msync", m->op);
	}
	same(m, p, first, all, change ? "changed mapping" : "mapping");
	munmap(p, all);
}

static void model_anew(struct model *m)
{
	forget(m->fd);
	if (next(&m->random, 4))
		return;
	if (close(m->fd))
		die("operation %zu: close", m->op);
	m->fd = open_file(m->path, O_RDWR);
}

static void do_model(char **arg)
{
	struct model m = { .path = arg[0], .most = number(arg[1]), .random.seed = number(arg[3]) };
	size_t ops = number(arg[2]), off, n;

	m.have = pages(m.most);
	m.b = pages(m.most);
	m.fd = open_file(arg[0], O_RDWR | O_CREAT | O_TRUNC);
	for (; m.op < ops; m.op++) {
		off = next(&m.random, m.most);
		n = 1 + next(&m.random, m.most - off < 65536 ? m.most - off : 65536);
		switch (next(&m.random, 16)) {
		case 0: model_truncate(&m, off); break;
		case 1: model_anew(&m); break;
		case 2: model_map(&m, off, n, true); break;
		case 3: case 4: case 5: model_map(&m, off, n, false); break;
		case 6: case 7: case 8: case 9: case 10: model_write(&m, off, n); break;
		default: model_read(&m, off, n); break;
		}
	}
	forget(m.fd);
	model_read(&m, 0, m.most);
	close(m.fd);
	printf("%zu operations as the model's, %zu bytes at last", ops, m.size);
}

static bool lock(int fd, short type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET };

	if (!fcntl(fd, F_SETLK, &l))
		return true;
	if (errno != EAGAIN && errno != EACCES)
		die("lock");
	return false;
}

/* Whoever waits asks again and again: how soon a server tells it is not what is looked at. */
static void take_turns(const char *path, size_t turns)
{
	int fd = open_file(path, O_RDWR);
	uint64_t n;

	for (size_t i = 0; i < turns; i++) {
		while (!lock(fd, F_WRLCK))
			usleep(1000);
		if (pread(fd, &n, sizeof(n), 0) != sizeof(n))
			die("no number");
		n++;
		write_at(fd, &n, sizeof(n), 0);
		if (!lock(fd, F_UNLCK))
			die("unlock");
	}
	close(fd);
}

static void do_locks(char **arg)
{
	size_t turns = number(arg[2]);
	uint64_t n = 0;
	int mine = open_file(arg[0], O_RDWR | O_CREAT | O_TRUNC), theirs, status[2];
	pid_t child[2];

	write_at(mine, &n, sizeof(n), 0);
	forget(mine);
	theirs = open_file(arg[1], O_RDWR);
	if (!lock(mine, F_WRLCK) || lock(theirs, F_RDLCK) || !lock(mine, F_UNLCK) || !lock(theirs, F_RDLCK) ||
	    lock(mine, F_WRLCK) || !lock(mine, F_RDLCK))
		die("a lock of one client's is none for the other");
	close(mine);
	close(theirs);
	for (int i = 0; i < 2; i++) {
		child[i] = fork();
		if (child[i] < 0)
			die("fork");
		if (!child[i]) {
			take_turns(arg[i], turns);
			exit(0);
		}
	}
	for (int i = 0; i < 2; i++)
		if (waitpid(child[i], &status[i], 0) != child[i])
			die("waitpid");
	mine = open_file(arg[0], O_RDWR);
	if (!lock(mine, F_RDLCK) || pread(mine, &n, sizeof(n), 0) != sizeof(n) || n != 2 * turns || status[0] || status[1])
		die("%zu turns each gave %llu", turns, (unsigned long long)n);
	printf("%zu turns of each client", turns);
}

static void do_names(char **arg)
{
	size_t n = number(arg[1]), seen = 0;
	bool *have = calloc(n, 1);
	DIR *d = opendir(arg[0]);
	struct dirent *e;

	if (!d || !have)
		die("opendir %s", arg[0]);
	while ((e = readdir(d))) {
		char *end;
		size_t i = strtoul(e->d_name + 1, &end, 10);

		if (e->d_name[0] == '.')
			continue;
		if (e->d_name[0] != 'f' || *end || i >= n || have[i])
			die("the name %s", e->d_name);
		have[i] = true;
		seen++;
	}
	closedir(d);
	free(have);
	if (seen != n)
		die("%zu names of %zu", seen, n);
	printf("%zu names", n);
}

static void do_links(char **arg)
{
	static const unsigned int lengths[] = { 1, 59, 60, 61, 1000, 1023, 3000, 3901, 4000, 4095 };
	char path[PATH_MAX], target[PATH_MAX], got[PATH_MAX];

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		snprintf(path, sizeof(path), "%s/link%zu", arg[0], i);
		for (unsigned int j = 0; j < lengths[i]; j++)
			target[j] = (char)('a' + (j * 7 + i) % 26);
		target[lengths[i]] = 0;
		unlink(path);
		if (symlink(target, path))
			die("a symbolic link of %u", lengths[i]);
	}
	sync();
	if (access("/proc/sys/vm/drop_caches", W_OK) == 0) {
		int fd = open_file("/proc/sys/vm/drop_caches", O_WRONLY);

		if (write(fd, "3", 1) != 1)
			die("drop_caches");
		close(fd);
	}
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		ssize_t n;

		snprintf(path, sizeof(path), "%s/link%zu", arg[0], i);
		n = readlink(path, got, sizeof(got));
		if (n != (ssize_t)lengths[i])
			die("readlink of %u gave %zd", lengths[i], n);
		for (unsigned int j = 0; j < lengths[i]; j++)
			if (got[j] != (char)('a' + (j * 7 + i) % 26))
				die("a link of %u: other text at %u", lengths[i], j);
	}
	printf("%zu links", sizeof(lengths) / sizeof(*lengths));
}

static void put(const char *path, const char *text)
{
	int fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);

	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd))
		die("write %s", path);
}

static void do_rename(char **arg)
{
	char a[PATH_MAX], b[PATH_MAX], text[8] = "";
	struct stat st;
	int fd;

	snprintf(a, sizeof(a), "%s/old", arg[0]);
	snprintf(b, sizeof(b), "%s/new", arg[0]);
	put(a, "first");
	if (rename(a, b) || stat(b, &st) || stat(a, &st) == 0)
		die("rename");
	put(a, "second");
	if (rename(a, b) || stat(a, &st) == 0)
		die("rename over another");
	fd = open_file(b, O_RDONLY);
	if (read(fd, text, sizeof(text)) != 6 || memcmp(text, "second", 6))
		die("the other file was not replaced");
	close(fd);
	if (unlink(b) || stat(b, &st) == 0)
		die("unlink");
	printf("renames");
}

static void do_xattr(char **arg)
{
	static const char *const name = "user.rdmarpc";
	size_t size = number(arg[1]);
	unsigned char *b = pages(65536);
	char list[4096];
	ssize_t n;

	put(arg[0], "x");
	fill(b, size, 0, 4);
	if (setxattr(arg[0], name, b, size, 0))
		die("setxattr of %zu", size);
	memset(b, 0, size);
	n = getxattr(arg[0], name, b, 65536);
	if (n != (ssize_t)size || differs(b, size, 0, 4) >= 0)
		die("getxattr of %zu gave %zd", size, n);
	n = listxattr(arg[0], list, sizeof(list));
	if (n <= 0 || !memmem(list, (size_t)n, name, strlen(name) + 1))
		die("listxattr gave %zd", n);
	if (removexattr(arg[0], name) || getxattr(arg[0], name, b, 65536) >= 0)
		die("removexattr");
	printf("an attribute of %zu", size);
}

/* ACLs by which the owner and so many users, 1000 and on, may read and write, others read. */

/* As the kernel has POSIX's in an attribute: version, then tag, permissions and id of each entry. */
static size_t posix_acl(unsigned char *b, uint32_t users)
{
	struct {
		uint16_t tag, perm;
		uint32_t id;
	} *e = (void *)(b + 4);

	memcpy(b, &(uint32_t){ 2 }, 4);
	*e++ = (typeof(*e)){ 0x01, 6, -1u };
	for (uint32_t i = 0; i < users; i++)
		*e++ = (typeof(*e)){ 0x02, 6, 1000 + i };
	*e++ = (typeof(*e)){ 0x04, 4, -1u };
	*e++ = (typeof(*e)){ 0x10, 6, -1u };
	*e++ = (typeof(*e)){ 0x20, 4, -1u };
	return (size_t)((unsigned char *)e - b);
}

static unsigned char *ace(unsigned char *b, uint32_t mask, const char *who)
{
	uint32_t n = (uint32_t)strlen(who);
	uint32_t head[] = { 0, 0, htobe32(mask), htobe32(n) }; /* ALLOW, no flags */

	memcpy(b, head, sizeof(head));
	memcpy(b + sizeof(head), who, n);
	memset(b + sizeof(head) + n, 0, -n % 4);
	return b + sizeof(head) + n + -n % 4;
}

/* As version 4 has them on the wire (RFC 8881 section 6.2.1). */
static size_t nfs4_acl(unsigned char *b, uint32_t users)
{
	enum { READ = 0x120081, WRITE = 0x106 };
	unsigned char *e = b + 4;
	char who[16];

	memcpy(b, &(uint32_t){ htobe32(users + 3) }, 4);
	e = ace(e, READ | WRITE, "OWNER@");
	for (uint32_t i = 0; i < users; i++) {
		snprintf(who, sizeof(who), "%u", 1000 + i);
		e = ace(e, READ | WRITE, who);
	}
	e = ace(e, READ, "GROUP@");
	return (size_t)(ace(e, READ, "EVERYONE@") - b);
}

/* A server may keep an ACL of version 4 as POSIX's, and give more for it than was set; it has the users. */
static void do_acl(char **arg)
{
	bool posix = strstr(arg[1], "posix");
	uint32_t users = (uint32_t)number(arg[2]);
	unsigned char a[65536], b[65536];
	size_t n = posix ? posix_acl(a, users) : nfs4_acl(a, users);
	char who[16];
	ssize_t m;

	put(arg[0], "x");
	if (setxattr(arg[0], arg[1], a, n, 0))
		die("setxattr %s", arg[1]);
	m = getxattr(arg[0], arg[1], b, sizeof(b));
	if (m < (ssize_t)n || (posix && memcmp(a, b, n)))
		die("%s is another: %zd bytes, was %zu", arg[1], m, n);
	for (uint32_t i = 0; !posix && i < users; i++) {
		int k = snprintf(who, sizeof(who), "%c%c%c%c%u", 0, 0, 0, 4, 1000 + i);

		if (!memmem(b, (size_t)m, who, (size_t)k))
			die("user %u is not in the ACL", 1000 + i);
	}
	printf("an ACL of %zu, read as %zd", n, m);
}

static void do_hold(char **arg)
{
	int fd = open_file(arg[0], O_RDONLY), other;
	char b[256], c[256];
	ssize_t n = read(fd, b, sizeof(b)), m;

	put(arg[1], "");
	for (int i = 0; i < 600 && access(arg[2], F_OK); i++)
		usleep(100000);
	other = open_file(arg[0], O_RDONLY);
	m = read(other, c, sizeof(c));
	if (n <= 0 || m <= 0)
		die("read %s", arg[0]);
	if (n == m && memcmp(b, c, (size_t)n) == 0)
		die("what the other client wrote is not seen");
	printf("another's write seen");
}

static const struct step {
	const char *name;
	int args;
	void (*run)(char **arg);
} steps[] = {
	{ "io", 3, do_io },	    { "odd", 1, do_odd },	{ "random", 3, do_random }, { "mmap", 2, do_mmap },
	{ "names", 2, do_names },   { "links", 1, do_links },	{ "rename", 1, do_rename }, { "xattr", 2, do_xattr },
	{ "acl", 3, do_acl },	    { "hold", 3, do_hold },	{ "model", 4, do_model },   { "locks", 3, do_locks },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(steps) / sizeof(*steps); i++)
		if (strcmp(argv[1], steps[i].name) == 0 && argc - 2 >= steps[i].args) {
			steps[i].run(argv + 2);
			printf("\n");
			return 0;
		}
	return 64;
}
