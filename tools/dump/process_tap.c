/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the capture desk and the ring of another process by its descriptors, and empties the
 * ring. The protocol between both is in core/base/capture_abi.h; core/base/capture.c is the
 * process's side.
 *
 * Everything that is read from the process is a stranger's word: a file is judged after it was
 * opened, the ring's size must be sealed, and a packet is copied out before its lengths are
 * judged. */
#include "tools/dump/process_tap.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/rundir.h"
#include "core/base/stats_abi.h"

#define FDS_MAX 16384u /* descriptors looked at of a process */
#define DESK(field)                                                                            \
	(offsetof(struct rr_stat_seg, capture) + offsetof(struct rr_cap_desk, field))

/* --- descriptors of another process --- */

/* Opens what the descriptor `name` of dir (/proc/PID/fd) stands for, if it is a regular file
 * with at most one name, such as a memfd. Returns a descriptor or -1. The file is opened twice:
 * the first open has no effect on it (O_PATH), so that what is checked is what is opened,
 * whatever the process puts in its place meanwhile. */
static int open_fd(int dir, const char *name)
{
	int at = openat(dir, name, O_PATH | O_CLOEXEC), fd = -1;
	char path[40];
	struct stat st;

	if (at < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	if (!fstat(at, &st) && S_ISREG(st.st_mode) && st.st_nlink <= 1)
		fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	close(at);
	return fd;
}

/* Can a descriptor with this link target be a statistics segment? The name is only a first
 * sieve; is_own_segment() decides. */
static bool is_segment_name(const char *target)
{
	const char *base = strrchr(target, '/');
	struct rr_segname name;

	if (!strncmp(target, "/memfd:" RR_RUN_MEMFD, strlen("/memfd:" RR_RUN_MEMFD)))
		return true;
	return base && rr_segname_parse(base + 1, &name) && !name.died;
}

static bool read_bytes_at(int fd, void *to, size_t n, size_t at)
{
	return pread(fd, to, n, (off_t)at) == (ssize_t)n;
}

/* Is it the segment that pid itself holds? The lock on the segment tells, since a child may
 * have its parent's descriptor. */
static bool is_own_segment(int fd, int pid)
{
	struct {
		uint64_t magic;
		uint32_t version, size;
	} head;
	struct stat st;

	return !fstat(fd, &st) && st.st_size == RR_STAT_SIZE &&
	       read_bytes_at(fd, &head, sizeof(head), 0) && head.magic == RR_STAT_MAGIC &&
	       head.version == RR_STAT_VERSION && rr_segment_holder(fd) == pid;
}

/* Opens the descriptor if it is the segment of pid. Returns -1 if not. */
static int open_segment(int dir, const char *name, int pid)
{
	char target[RR_RUN_PATH + RR_RUN_NAME + 64];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
	int fd;

	target[n > 0 ? n : 0] = '\0';
	if (!is_segment_name(target))
		return -1;
	fd = open_fd(dir, name);
	if (fd >= 0 && is_own_segment(fd, pid))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Looks through the descriptors of pid for its segment. Returns -1 with errno 0 if it has none,
 * or with opendir()'s reason: ENOENT no such process, EACCES another user's. The number looked
 * at is bounded, because the process decides how many it has. */
static int find_segment(int pid)
{
	uint32_t n = FDS_MAX;
	struct dirent *e;
	char path[32];
	int fd = -1;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	if (!d)
		return -1;
	while (fd < 0 && n-- && (e = readdir(d)))
		fd = open_segment(dirfd(d), e->d_name, pid);
	closedir(d);
	errno = 0;
	return fd;
}

/* --- the desk --- */

/* The desk is read and written by pread() and pwrite(), never mapped: the process could
 * truncate a mapping under this program. */
static uint32_t desk_read(const struct rr_tap *t, size_t at)
{
	uint32_t v = 0;

	return read_bytes_at(t->seg, &v, sizeof(v), at) ? v : 0;
}

static void desk_write(const struct rr_tap *t, size_t at, uint32_t v)
{
	if (pwrite(t->seg, &v, sizeof(v), (off_t)at) != sizeof(v))
		warn("process %d: its segment", t->pid);
}

static void tap_refuse(struct rr_tap *t, enum rr_tap_state state, const char *why)
{
	t->state = state;
	t->why = why;
}

/* Asks for a capture. The number only has to differ from the last one and from zero, which
 * means "none"; so the process sees a new request. `ask` is written last, because the process
 * takes the wishes when it sees that. */
static void ask_at_desk(struct rr_tap *t, const struct rr_tap_wish *w)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	t->ask = ((uint32_t)ts.tv_nsec ^ (uint32_t)getpid() << 16) | 1;
	if (t->ask == desk_read(t, DESK(ask)))
		t->ask += 2;
	desk_write(t, DESK(order), w->order);
	desk_write(t, DESK(snaplen), w->snaplen);
	desk_write(t, DESK(wishes), w->wishes);
	desk_write(t, DESK(ask), t->ask);
	t->state = RR_TAP_WAITS;
}

/* --- the ring --- */

/* Is the file a ring whose size can no longer change? Only then may it be mapped: the seals
 * keep it from being truncated under this program, which would be a SIGBUS. */
static bool is_ring(int fd, uint32_t *size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_GROW) || fstat(fd, &st) ||
	    st.st_size < (off_t)RR_CAP_HEAD + (1 << RR_CAP_ORDER_MIN) ||
	    st.st_size > (off_t)RR_CAP_HEAD + (1 << RR_CAP_ORDER_MAX))
		return false;
	*size = (uint32_t)st.st_size - RR_CAP_HEAD;
	return !(*size & (*size - 1));
}

/* Opens descriptor `number` of process pid. -1: the process has no such file, or it may not be
 * opened. */
static int open_ring(int pid, int number)
{
	char path[32], name[16];
	int dir, fd;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	snprintf(name, sizeof(name), "%d", number);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	fd = open_fd(dir, name);
	close(dir);
	return fd;
}

/* Takes the lock by which the process sees that its reader lives. False: another reader has
 * it. */
static bool lock_ring(int fd)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	return !fcntl(fd, F_OFD_SETLK, &l);
}

/* Lets go of the ring; closing it also drops the lock. The count of dropped packets goes on
 * with the next ring. */
static void drop_ring(struct rr_tap *t)
{
	if (t->ring)
		munmap(t->ring, (size_t)RR_CAP_HEAD + t->size);
	if (t->fd >= 0)
		close(t->fd);
	t->lost_before = t->dropped;
	t->ring = NULL;
	t->fd = -1;
}

/* The process has answered with a descriptor, or with -errno. Order matters: the lock comes
 * first, so that two readers never empty one ring; then the memory, which the reader pays for;
 * `open` comes last and tells the process that its reader is here and all memory is there. */
static void open_given(struct rr_tap *t, int number)
{
	size_t whole;

	if (number < 0) {
		tap_refuse(t, RR_TAP_REFUSED,
			   number == -EFBIG
			       ? "its limit on the size of files (RLIMIT_FSIZE) forbids it"
			       : "it has no memory for that");
		return;
	}
	t->fd = open_ring(t->pid, number);
	if (t->fd < 0 || !is_ring(t->fd, &t->size))
		return drop_ring(t); /* the process may have let go of it: it is asked again */
	if (!lock_ring(t->fd)) {
		drop_ring(t);
		return tap_refuse(t, RR_TAP_BUSY, "another rdmarpc-dump captures it");
	}
	whole = (size_t)RR_CAP_HEAD + t->size;
	if (fallocate(t->fd, 0, 0, (off_t)whole)) {
		drop_ring(t);
		return tap_refuse(t, RR_TAP_REFUSED, "there is no memory for its packets");
	}
	t->ring = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (t->ring == MAP_FAILED)
		err(1, "process %d: its packets", t->pid);
	t->tail = 0;
	/* Pairs with the release in make_ring(). */
	if (atomic_load_explicit(&t->ring->magic, memory_order_acquire) != RR_CAP_MAGIC ||
	    t->ring->version != RR_CAP_VERSION) {
		drop_ring(t);
		return tap_refuse(t, RR_TAP_REFUSED, "its library is of another version");
	}
	atomic_store(&t->ring->open, 1);
	t->state = RR_TAP_RUNS;
}

/* Does another reader have the capture that the desk says was given? If not, that reader has
 * died. */
static bool is_being_read(const struct rr_tap *t)
{
	uint32_t asked = desk_read(t, DESK(ask)), size;
	int fd = asked && asked == desk_read(t, DESK(given))
		     ? open_ring(t->pid, (int)desk_read(t, DESK(fd)))
		     : -1;
	bool read = fd >= 0 && is_ring(fd, &size) && !lock_ring(fd);

	if (fd >= 0)
		close(fd);
	return read;
}

/* --- */

void rr_tap_open(struct rr_tap *t, int pid, const char *comm, const struct rr_tap_wish *w)
{
	*t = (struct rr_tap){.pid = pid, .fd = -1};
	snprintf(t->comm, sizeof(t->comm), "%s", comm);
	t->seg = find_segment(pid);
	if (t->seg < 0)
		return tap_refuse(
		    t, RR_TAP_REFUSED,
		    errno == EACCES || errno == EPERM ? "permission denied"
		    : errno == ENOENT
			? "no such process"
			: "it has no statistics segment that could be written to");
	if (desk_read(t, DESK(version)) != RR_CAP_VERSION)
		return tap_refuse(t, RR_TAP_REFUSED, "its library is of another version");
	t->own_pid = (int32_t)desk_read(t, offsetof(struct rr_stat_seg, pid));
	if (is_being_read(t))
		return tap_refuse(t, RR_TAP_BUSY, "another rdmarpc-dump captures it");
	ask_at_desk(t, w);
}

bool rr_tap_retry(struct rr_tap *t, const struct rr_tap_wish *w)
{
	if (t->state == RR_TAP_BUSY && !is_being_read(t))
		ask_at_desk(t, w);
	return t->state == RR_TAP_WAITS;
}

void rr_tap_step(struct rr_tap *t, const struct rr_tap_wish *w)
{
	if (t->state != RR_TAP_WAITS && t->state != RR_TAP_RUNS)
		return;
	if (t->state == RR_TAP_WAITS) {
		uint32_t asked = desk_read(t, DESK(ask));

		if (desk_read(t, DESK(given)) == t->ask)
			open_given(t, (int)desk_read(t, DESK(fd)));
		else if (!asked)
			ask_at_desk(t, w);
	}
	if (t->state == RR_TAP_RUNS)
		t->dropped = t->lost_before +
			     atomic_load_explicit(&t->ring->dropped, memory_order_relaxed);
	if (rr_segment_holder(t->seg) != t->pid)
		t->state = RR_TAP_ENDED;
}

/* Copies n bytes from position `at` of the ring to `to` (NULL: nowhere) and zeroes them in the
 * ring, because a zero is how the reader sees that a packet is not complete yet. */
static void copy_out(struct rr_tap *t, uint64_t at, uint8_t *to, uint32_t n)
{
	uint8_t *bytes = (uint8_t *)t->ring + RR_CAP_HEAD;

	while (n) {
		uint32_t off = (uint32_t)(at & (t->size - 1)), take = rr_min(n, t->size - off);

		if (to) {
			memcpy(to, bytes + off, take);
			to += take;
		}
		memset(bytes + off, 0, take);
		at += take;
		n -= take;
	}
}

/* Copies the packet of `size` bytes at the tail. The caller has checked that size is at least
 * that of the header. Returns NULL if the header, now that the process cannot change it any
 * more, claims more payload than there is. */
static struct rr_tap_packet *copy_packet(struct rr_tap *t, uint32_t size)
{
	struct rr_tap_packet *p = malloc(sizeof(*p) + RR_TAP_MARK + size);
	uint32_t rest = size - (uint32_t)sizeof(p->h);

	if (!p)
		err(1, NULL);
	copy_out(t, t->tail, (uint8_t *)&p->h, sizeof(p->h));
	copy_out(t, t->tail + sizeof(p->h), rr_tap_data(p), rest);
	if (p->h.captured <= rest && p->h.captured <= p->h.len)
		return p;
	free(p);
	return NULL;
}

/* Gives the ring up, because the process has written what no library writes, or has let go of
 * it. rr_tap_step() then asks for a new one. */
static void ask_for_another(struct rr_tap *t)
{
	atomic_store(&t->ring->open, 2);
	drop_ring(t);
	t->state = RR_TAP_WAITS;
}

/* `ended` is read before the commit word: if the word is zero even then, no packet was written
 * before the end. A commit word that is larger than the ring or smaller than a header is no
 * library's, and the ring is given up; so copy_out() stays within the ring. */
struct rr_tap_packet *rr_tap_take(struct rr_tap *t)
{
	while (t->ring) {
		_Atomic uint64_t *commit =
		    (void *)((uint8_t *)t->ring + RR_CAP_HEAD + (t->tail & (t->size - 1)));
		bool ended = atomic_load(&t->ring->ended);
		/* Pairs with the release in rr_cap_end(). */
		uint64_t word = atomic_load_explicit(commit, memory_order_acquire);
		uint32_t size = (uint32_t)word & ~7u;
		struct rr_tap_packet *p = NULL;

		if (!word) {
			if (ended && t->state == RR_TAP_RUNS)
				ask_for_another(t);
			return NULL;
		}
		if (word > t->size || size < sizeof(struct rr_cap_packet)) {
			ask_for_another(t);
			return NULL;
		}
		if (word & RR_CAP_VOID)
			copy_out(t, t->tail, NULL, size);
		else
			p = copy_packet(t, size);
		t->tail += size;
		/* Pairs with the acquire in claim_room(): the room is zeroed by then. */
		atomic_store_explicit(&t->ring->tail, t->tail, memory_order_release);
		if (p) {
			t->packets++;
			return p;
		}
	}
	return NULL;
}

/* Gives the memory back now: an idle process lets go of the ring only at its next message. */
void rr_tap_close(struct rr_tap *t)
{
	if (t->ring) {
		atomic_store(&t->ring->open, 2);
		fallocate(t->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, RR_CAP_HEAD,
			  t->size);
	} else if (t->state == RR_TAP_WAITS && desk_read(t, DESK(ask)) == t->ask &&
		   desk_read(t, DESK(given)) != t->ask) {
		desk_write(t, DESK(ask), 0);
	}
	drop_ring(t);
	if (t->seg >= 0)
		close(t->seg);
	t->seg = -1;
}
