/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of a capture: made, filled and ended by the writers, which never wait for anybody.
 * What is captured is decided in core/conn/carried/tap.c; the reader is
 * tools/dump/process_tap.c.
 *
 * A writer claims room by moving `head` (claim_room()), copies its packet and then stores the
 * commit word (rr_cap_end()), so a reader sees whole packets only. A ring that was given up may
 * be unmapped only when no thread writes any more: `writers` counts those, and `gone` keeps the
 * ring until then. */
#include "core/base/capture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define LOOK_AGAIN (200 * RR_MSEC) /* interval for checking whether the reader lives */
#define PATIENCE (5 * RR_SEC)      /* for a reader that has asked and not come yet */

static struct rr_cap_desk nobody; /* the desk if nobody can ask */
struct rr_cap_desk *_Atomic rr_cap_desk = &nobody;

static struct rr_cap_desk *_Atomic own; /* this process's desk; NULL: none */

/* The capture. A ring that was given up stays mapped while a thread may be writing to it. */
static struct rr_cap_ring *_Atomic the_ring;
static uint32_t ring_size;
/* address of the ring given up, its log2 size in the low bits; 0: none */
static _Atomic uintptr_t gone;
static _Atomic uint32_t writers; /* threads of this process between begin and end */
static _Atomic uint32_t changing; /* 1: a thread is making or ending the capture */
static _Atomic uint64_t look_at; /* rr_now_coarse() when to check the reader next */
static rr_time made_at;
static uint32_t made_for; /* the `ask` that the ring answers */
static _Atomic int ring_fd = -1;
static dev_t ring_dev;
static ino_t ring_ino;

void rr_cap_end_set(struct rr_cap_ends *e, unsigned which, const struct sockaddr *sa)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	uint8_t *a = e->addr[which];

	memset(a, 0, 16);
	e->port[which] = 0;
	if (sa && sa->sa_family == AF_INET) {
		memcpy(&in, sa, sizeof(in));
		a[10] = a[11] = 0xff;
		memcpy(a + 12, &in.sin_addr, 4);
		e->port[which] = ntohs(in.sin_port);
	} else if (sa && sa->sa_family == AF_INET6) {
		memcpy(&in6, sa, sizeof(in6));
		memcpy(a, &in6.sin6_addr, 16);
		e->port[which] = ntohs(in6.sin6_port);
	}
}

/* --- making and ending --- */

static size_t mapped(uint32_t size)
{
	return (size_t)RR_CAP_HEAD + size;
}

/* Unmaps the ring that was given up, once no thread can be using it. */
static void free_gone(void)
{
	uintptr_t r;

	if (atomic_load(&writers)) /* pairs with enter_ring() */
		return;
	r = atomic_exchange(&gone, 0);
	if (r)
		munmap((void *)(r & ~(uintptr_t)(RR_PAGE - 1)),
		       mapped(1u << (r & (RR_PAGE - 1))));
}

/* The ring, if there is one: it stays mapped until leave_ring(). A thread that comes after it
 * was given up does not see it. */
static struct rr_cap_ring *enter_ring(void)
{
	atomic_fetch_add(&writers, 1);
	rr_fence(); /* pairs with free_gone() */
	return atomic_load(&the_ring);
}

/* The last writer unmaps a ring that was given up meanwhile. */
static void leave_ring(void)
{
	if (atomic_fetch_sub(&writers, 1) == 1 && unlikely(atomic_load(&gone)))
		free_gone();
}

/* Is the file behind fd still the ring? The app may have closed our number and opened something
 * else there. */
static bool is_ring_fd(int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && st.st_dev == ring_dev && st.st_ino == ring_ino;
}

/* Closes the ring's descriptor if it is still ours; otherwise only forgets the number. */
static void close_ring_fd(void)
{
	int fd = atomic_exchange(&ring_fd, -1);

	if (fd < 0)
		return;
	if (is_ring_fd(fd))
		rr_ownfd_close(fd);
	else
		rr_ownfd_set(fd, false);
}

/* Ends the capture. A child that writes to its parent's ring uses a desk that is not its own:
 * then the capture ends for this process only. Under `changing`. */
static void end_capture(void)
{
	struct rr_cap_desk *d = atomic_load(&rr_cap_desk), *mine = atomic_load(&own);
	struct rr_cap_ring *r = atomic_load(&the_ring);

	atomic_store(&the_ring, NULL);
	if (d == mine) {
		uint32_t ask = made_for;

		if (r)
			atomic_store(&r->ended, 1);
		/* Another reader's `ask` may be there already. */
		atomic_compare_exchange_strong(&d->ask, &ask, 0);
	}
	atomic_store(&rr_cap_desk, mine ? mine : &nobody);
	if (r)
		atomic_store(&gone, (uintptr_t)r | (uintptr_t)__builtin_ctz(ring_size));
	close_ring_fd();
	free_gone();
}

/* Growing a file beyond RLIMIT_FSIZE raises SIGXFSZ, even for a memfd. */
static bool may_file_be(size_t size)
{
	struct rlimit lim;

	return !getrlimit(RLIMIT_FSIZE, &lim) && lim.rlim_cur >= size;
}

/* Makes the ring's file and seals its size, which the reader insists on. Returns the
 * descriptor, or -errno, which the desk tells the reader. */
static int ring_file(uint32_t size)
{
	int fd;

	if (!may_file_be(mapped(size)))
		return -EFBIG;
	fd = memfd_create(RR_CAP_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(RR_CAP_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fd = rr_ownfd_raise(fd);
	if (fd < 0)
		return fd;
	/* Allocates memory for the first packets now: if memory cannot be overcommitted, a
	 * later write would raise SIGBUS. Memory for the others is allocated by the reader. */
	if (!ftruncate(fd, (off_t)mapped(size)) &&
	    !rr_os_fallocate(fd, 0, 0, (off_t)mapped(rr_min(size, RR_CAP_FIRST))) &&
	    !rr_os->fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	rr_ownfd_close(fd);
	return -ENOMEM;
}

/* Makes and maps a ring of 2^order bytes, within bounds, since the reader's wish is not
 * trusted. Returns its descriptor or -errno. The ring is complete before the_ring shows it to
 * writers. */
static int make_ring(uint32_t order)
{
	struct rr_cap_ring *r;
	struct stat st;
	uint32_t size;
	int fd;

	size = 1u << rr_min(rr_max(order, RR_CAP_ORDER_MIN), RR_CAP_ORDER_MAX);
	fd = ring_file(size);
	if (fd < 0)
		return fd;
	r = mmap(NULL, mapped(size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (r == MAP_FAILED || fstat(fd, &st)) {
		if (r != MAP_FAILED)
			munmap(r, mapped(size));
		rr_ownfd_close(fd);
		return -ENOMEM;
	}
	r->version = RR_CAP_VERSION;
	r->size = size;
	/* Pairs with the reader's acquire. */
	atomic_store_explicit(&r->magic, RR_CAP_MAGIC, memory_order_release);
	ring_size = size;
	ring_dev = st.st_dev;
	ring_ino = st.st_ino;
	made_at = rr_now_coarse();
	atomic_store(&look_at, made_at + LOOK_AGAIN);
	atomic_store(&ring_fd, fd);
	atomic_store(&the_ring, r);
	return fd;
}

/* Answers a reader that has no ring: the first one, or one that came when the last had left. */
static void answer_ask(struct rr_cap_desk *d, uint32_t ask)
{
	int fd;

	if (atomic_load(&gone))
		free_gone();
	if (atomic_load(&the_ring) || atomic_load(&gone))
		return;
	made_for = ask;
	fd = make_ring(atomic_load(&d->order));
	atomic_store(&d->fd, fd);
	/* After fd: the reader reads this first, and fd by another system call. */
	atomic_store_explicit(&d->given, ask, memory_order_release);
	if (fd < 0)
		end_capture();
}

/* The reader's lock says so once it has come (`open` 1); before that it is given PATIENCE.
 * `open` 2: it has left. Only F_GETLK is used, which never waits. */
static bool reader_lives(const struct rr_cap_ring *r, rr_time now)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	uint32_t open = atomic_load_explicit(&r->open, memory_order_relaxed);
	int fd = atomic_load(&ring_fd);

	if (!open)
		return now - made_at < PATIENCE;
	return open == 1 && is_ring_fd(fd) && !rr_os->fcntl(fd, F_GETLK, &l) &&
	       l.l_type != F_UNLCK;
}

/* Only the process whose desk it is answers; a child may be looking at its parent's. */
static void answer_new(struct rr_cap_desk *d)
{
	uint32_t ask = atomic_load_explicit(&d->ask, memory_order_acquire);

	if (ask && d == atomic_load(&own))
		answer_ask(d, ask);
}

/* Is it time to make a ring that was asked for, or to check whether the ring is still read? */
static bool is_due(void)
{
	struct rr_cap_ring *r = enter_ring();
	bool due;

	if (r)
		due = atomic_load_explicit(&r->open, memory_order_relaxed) > 1 ||
		      rr_now_coarse() >= atomic_load_explicit(&look_at, memory_order_relaxed);
	else
		due = atomic_load(&rr_cap_desk) == atomic_load(&own);
	leave_ring();
	return due;
}

/* Makes the ring that was asked for, or ends a capture that nobody reads any more. One thread
 * at a time does this; nobody waits for it, and it alone takes the ring away. */
static void look_after(void)
{
	struct rr_cap_ring *r;
	rr_time now;

	if (likely(!is_due()) || atomic_exchange(&changing, 1))
		return;
	r = atomic_load(&the_ring);
	now = rr_now_coarse();
	if (r && reader_lives(r, now)) {
		atomic_store_explicit(&look_at, now + LOOK_AGAIN, memory_order_relaxed);
	} else {
		if (r)
			end_capture();
		answer_new(atomic_load(&rr_cap_desk));
	}
	atomic_store(&changing, 0);
}

/* A child that writes to its parent's ring gets its own desk when that capture ends
 * (end_capture()). */
void rr_cap_own(struct rr_cap_desk *desk)
{
	atomic_store(&desk->version, RR_CAP_VERSION);
	atomic_store(&own, desk);
	if (!atomic_load(&the_ring))
		atomic_store(&rr_cap_desk, desk);
}

void rr_cap_forks(void)
{
	if (rr_cap_asked())
		look_after();
}

/* Threads of the parent that were between begin and end are not in the child, nor is one that
 * was making a ring. */
void rr_cap_forked(void)
{
	atomic_store(&own, NULL);
	atomic_store(&writers, 0);
	atomic_store(&changing, 0);
	if (!atomic_load(&the_ring))
		atomic_store(&rr_cap_desk, &nobody);
}

bool rr_cap_move_fd(int fd)
{
	bool ours = fd >= 0 && fd == atomic_load(&ring_fd);

	if (!ours || atomic_exchange(&changing, 1))
		return false;
	end_capture();
	atomic_store(&changing, 0);
	return true;
}

/* --- packets --- */

bool rr_cap_wants_rdma(void)
{
	struct rr_cap_desk *d = atomic_load_explicit(&rr_cap_desk, memory_order_relaxed);

	return atomic_load_explicit(&d->wishes, memory_order_relaxed) & RR_CAP_RDMA;
}

/* How many bytes of the payload go in: no more than the reader wants, and few enough to leave
 * room for another packet. */
static uint32_t captured(const struct rr_cap_pen *p, uint32_t size)
{
	struct rr_cap_desk *d = atomic_load_explicit(&rr_cap_desk, memory_order_relaxed);
	uint32_t snaplen = atomic_load_explicit(&d->snaplen, memory_order_relaxed), n = p->len;

	if (!atomic_load_explicit(&p->ring->open, memory_order_relaxed))
		size = rr_min(size, RR_CAP_FIRST);
	n = rr_min(n, size / 2 - (uint32_t)sizeof(struct rr_cap_packet));
	if (snaplen)
		n = rr_min(n, snaplen);
	return p->most ? rr_min(n, p->most) : n;
}

/* Takes p->size bytes of the ring. The reader's position is read once; a wrong one can only
 * cause packets to be dropped or overwritten. */
static bool claim_room(struct rr_cap_pen *p, uint32_t size)
{
	struct rr_cap_ring *r = p->ring;
	uint32_t room = size;
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed), used;

	if (!atomic_load_explicit(&r->open, memory_order_relaxed))
		room = rr_min(size, RR_CAP_FIRST);
	do {
		/* Pairs with the reader's release: what it has read is zeroed. */
		used = head - atomic_load_explicit(&r->tail, memory_order_acquire);
		if (used > room || p->size > room - used) {
			atomic_fetch_add_explicit(&r->dropped, 1, memory_order_relaxed);
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(
	    &r->head, &head, head + p->size, memory_order_relaxed, memory_order_relaxed));
	p->begin = p->at = head;
	return true;
}

/* The place of a free-running position; the size is a power of two. */
static uint8_t *ring_at(const struct rr_cap_pen *p, uint64_t at)
{
	return (uint8_t *)p->ring + RR_CAP_HEAD + (at & (ring_size - 1));
}

static uint32_t to_end(uint64_t at)
{
	return ring_size - (uint32_t)(at & (ring_size - 1));
}

/* Copies n bytes to p->at, in two parts if they wrap around the ring's end. */
static void ring_put(struct rr_cap_pen *p, const uint8_t *from, uint32_t n)
{
	uint32_t first = rr_min(n, to_end(p->at));

	memcpy(ring_at(p, p->at), from, first);
	p->at += first;
	if (first == n)
		return;
	memcpy(ring_at(p, p->at), from + first, n - first);
	p->at += n - first;
}

/* Writes the packet's head, except for the commit word: that stays zero until rr_cap_end(). */
static void put_head(struct rr_cap_pen *p)
{
	struct rr_cap_packet h = {
	    .len = p->len,
	    .captured = p->left,
	    .pid = (int32_t)rr_pid(),
	    .recv_size = p->recv_size,
	    .send_size = p->send_size,
	    .kind = (uint8_t)p->kind,
	    .flags = p->flags,
	    .carrier = p->ends->carrier,
	    .dialect = p->dialect,
	    .port = {p->ends->port[0], p->ends->port[1]},
	};
	struct timespec ts;

	memcpy(h.addr, p->ends->addr, sizeof(h.addr));
	clock_gettime(CLOCK_REALTIME, &ts);
	h.ns = (uint64_t)ts.tv_sec * RR_SEC + (uint64_t)ts.tv_nsec;
	p->at += sizeof(h.commit);
	ring_put(p, (const uint8_t *)&h + sizeof(h.commit), sizeof(h) - sizeof(h.commit));
}

/* The size is fixed here, so the packet has room in the ring whatever is put later. */
bool rr_cap_begin(struct rr_cap_pen *p)
{
	look_after();
	p->ring = enter_ring();
	if (!p->ring || atomic_load_explicit(&p->ring->open, memory_order_relaxed) > 1) {
		leave_ring();
		return false;
	}
	p->left = captured(p, ring_size);
	p->size = (uint32_t)rr_align(sizeof(struct rr_cap_packet) + p->left, 8u);
	if (!claim_room(p, ring_size)) {
		leave_ring();
		return false;
	}
	put_head(p);
	return true;
}

void rr_cap_put(struct rr_cap_pen *p, const void *from, size_t n)
{
	uint32_t take = (uint32_t)rr_min(n, (size_t)p->left);

	if (!take)
		return;
	ring_put(p, from, take);
	p->left -= take;
}

uint8_t *rr_cap_room(struct rr_cap_pen *p, uint32_t *n)
{
	uint8_t *at = ring_at(p, p->at);

	*n = rr_min(p->left, to_end(p->at));
	p->at += *n;
	p->left -= *n;
	return at;
}

void rr_cap_end(struct rr_cap_pen *p, bool good)
{
	_Atomic uint64_t *commit = (void *)ring_at(p, p->begin);

	/* Pairs with the reader's acquire. */
	atomic_store_explicit(commit, p->size | (good ? 0 : RR_CAP_VOID), memory_order_release);
	leave_ring();
}
