/* SPDX-License-Identifier: BSD-3-Clause */
/* The fd table: two levels, grown on demand, never shrunk; no lock anywhere, so that a signal
 * handler may do anything at any point and a fork finds nothing held.
 *
 * A lookup loads the slot, takes a reference unless there is none left, and looks at the slot
 * again: a file that was closed in between is either refused or was right when we took it.
 * Sockets live in slabs that are never unmapped, so asking a stale pointer is harmless. */

#include "preload/file.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/conn.h"
#include "preload/unmet.h"
#include "preload/wait.h"

/* --- slots --- */

rr_fdt_slot *_Atomic rr_fdt_leaves[RR_FDT_LEAVES];

/* The first leaf takes no system call: most processes need no other. */
static rr_fdt_slot first_leaf[RR_FDT_LEAF];

static void *map_pages(size_t size)
{
	int saved = errno;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = saved;
	return p == MAP_FAILED ? NULL : p;
}

/* The slot for fd, made if need be; NULL: no memory, or a number beyond the table. */
static rr_fdt_slot *grow_table(int fd)
{
	rr_fdt_slot *slot = rr_fdt_slot_of(fd), *leaf, *none = NULL;

	if (slot || (unsigned)fd >= (unsigned)RR_FDT_LEAVES * RR_FDT_LEAF)
		return slot;
	leaf = fd < RR_FDT_LEAF ? first_leaf : map_pages(RR_FDT_LEAF * sizeof(rr_fdt_slot));
	if (!leaf)
		return NULL;
	if (!atomic_compare_exchange_strong_explicit(&rr_fdt_leaves[fd >> RR_FDT_SHIFT], &none,
						     leaf, memory_order_release,
						     memory_order_relaxed) &&
	    leaf != first_leaf)
		/* another thread was first */
		munmap(leaf, RR_FDT_LEAF * sizeof(rr_fdt_slot));
	return rr_fdt_slot_of(fd);
}

/* --- slabs --- */

/* Each slab has twice as many sockets as the one before, so a few are enough for any number,
 * and a process with few sockets touches little. */
enum { FIRST = 8, SLABS = 18, SOCKS = FIRST * ((1 << SLABS) - 1) };

static struct rr_sock *_Atomic socks[SLABS];
/* At the beginning of a page, in which first_leaf begins, too (mk/large.list). */
static struct rr_sock first_socks[FIRST] __attribute__((aligned(RR_PAGE)));

static _Atomic uint32_t nsocks;	/* those behind have never been used */

static _Atomic uint32_t changes;	/* see rr_fdt_changes() … */
static _Atomic uint32_t losses;		/* … and rr_fdt_losses() */
_Atomic uint32_t rr_unmet_n;

/* Free list head: 1 + index in the low half; a count of changes in the high half, so that a
 * pop that slept through a pop and a push of the same socket fails. */
static _Atomic uint64_t free_head;

static unsigned slab_of(uint32_t index)
{
	return 31 - (unsigned)__builtin_clz(index / FIRST + 1);
}

/* The index of a slab's first socket. */
static uint32_t base_of(unsigned slab)
{
	return FIRST * ((1u << slab) - 1);
}

static struct rr_sock *sock_at(uint32_t index)
{
	unsigned k = slab_of(index);

	return atomic_load_explicit(&socks[k], memory_order_acquire) + (index - base_of(k));
}

static void push(uint32_t index, struct rr_sock *so)
{
	uint64_t head = atomic_load_explicit(&free_head, memory_order_relaxed);
	uint64_t mine;

	do {
		atomic_store_explicit(&so->next, (uint32_t)head, memory_order_relaxed);
		mine = ((head >> 32) + 1) << 32 | (index + 1);
		/* release: what was done to the socket happens before its next life */
	} while (!atomic_compare_exchange_weak_explicit(&free_head, &head, mine,
							memory_order_release,
							memory_order_relaxed));
}

/* Is there memory for the sockets of slab k? Makes it if need be. */
static bool has_slab(unsigned k)
{
	size_t size = (sizeof(struct rr_sock) * FIRST) << k;
	struct rr_sock *s, *none = NULL;

	if (atomic_load_explicit(&socks[k], memory_order_relaxed))
		return true;
	s = k ? map_pages(size) : first_socks;
	if (!s)
		return false;
	/* Pairs with the acquire in sock_at(). */
	if (!atomic_compare_exchange_strong_explicit(&socks[k], &none, s, memory_order_release,
						     memory_order_relaxed) && k)
		munmap(s, size);	/* another thread was first */
	return true;
}

/* A socket that was never used. */
static struct rr_sock *next_sock(void)
{
	uint32_t index = atomic_load_explicit(&nsocks, memory_order_relaxed);

	do {
		if (index >= SOCKS || !has_slab(slab_of(index)))
			return NULL;
	} while (!atomic_compare_exchange_weak_explicit(&nsocks, &index, index + 1,
							memory_order_relaxed,
							memory_order_relaxed));
	return sock_at(index);
}

static struct rr_sock *pop(void)
{
	/* acquire: pairs with the release in push() */
	uint64_t head = atomic_load_explicit(&free_head, memory_order_acquire), mine;
	struct rr_sock *so;

	do {
		if (!(uint32_t)head)
			return next_sock();
		so = sock_at((uint32_t)head - 1);
		mine = ((head >> 32) + 1) << 32 |
		       atomic_load_explicit(&so->next, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(&free_head, &head, mine,
							memory_order_acquire,
							memory_order_acquire));
	return so;
}

static void release_sock(struct rr_sock *so)
{
	struct rr_conn *c = atomic_exchange_explicit(&so->conn, NULL, memory_order_acq_rel);

	uint32_t serves = atomic_exchange_explicit(&so->serves, 0, memory_order_relaxed);

	if (c)
		rr_conn_free(c);
	rr_unmet_gone(so);
	if (serves)
		rr_conn_serves_not(serves);
	for (unsigned k = 0; k < SLABS; k++) {
		struct rr_sock *s = atomic_load_explicit(&socks[k], memory_order_acquire);

		if (s && so >= s && so < s + (FIRST << k))
			return push(base_of(k) + (uint32_t)(so - s), so);
	}
}

/* --- references --- */

void rr_file_hold(struct rr_file *f)
{
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
}

bool rr_sock_hold(struct rr_sock *so)
{
	return rr_file_hold_live(&so->f);
}

void rr_file_put(struct rr_file *f)
{
	if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (f->kind == RR_KIND_EPOLL)
		rr_ep_gone(f);
	else
		release_sock(container_of(f, struct rr_sock, f));
}

struct rr_file *rr_fdt_get(int fd)
{
	rr_fdt_slot *slot = rr_fdt_slot_of(fd);
	struct rr_file *f;

	if (!slot)
		return NULL;
	for (;;) {
		/* pairs with the release in rr_fdt_give() */
		f = atomic_load_explicit(slot, memory_order_acquire);
		if (!f)
			return NULL;
		if (!rr_file_hold_live(f))
			continue;	/* its last reference went: the slot has changed */
		if (likely(atomic_load_explicit(slot, memory_order_acquire) == f))
			return f;
		rr_file_put(f);
	}
}

/* --- writers --- */

void rr_fdt_change(void)
{
	/* release: whoever sees the count sees what was changed before */
	atomic_fetch_add_explicit(&changes, 1, memory_order_release);
}

uint32_t rr_fdt_changes(void)
{
	return atomic_load_explicit(&changes, memory_order_acquire);
}

uint32_t rr_fdt_losses(void)
{
	return atomic_load_explicit(&losses, memory_order_acquire);
}

/* The file of an fd is gone, or another one's. */
static void lose(void)
{
	atomic_fetch_add_explicit(&losses, 1, memory_order_release);
	rr_fdt_change();
}

enum { UNKNOWN };	/* no file has this inode */

struct rr_sock *rr_sock_new(int fd)
{
	struct rr_sock *so = pop();

	if (!so)
		return NULL;
	if (!so->f.kind)	/* else it is, and may be looked at (rr_fdt_peek()) */
		so->f.kind = RR_KIND_SOCK;
	atomic_store_explicit(&so->f.ino, UNKNOWN, memory_order_relaxed);
	atomic_store_explicit(&so->watches, NULL, memory_order_relaxed);
	atomic_store_explicit(&so->f.fds, 0, memory_order_relaxed);
	atomic_store_explicit(&so->conn, NULL, memory_order_relaxed);
	atomic_store_explicit(&so->set, 0, memory_order_relaxed);
	atomic_store_explicit(&so->flags, 0, memory_order_relaxed);
	atomic_store_explicit(&so->verified, rr_now_coarse(), memory_order_relaxed);
	/* Last: from here on a stale pointer to an earlier life finds it alive, and lets go. */
	atomic_store_explicit(&so->f.refs, 1, memory_order_release);
	/* With one thread nobody else closes fd now, and a connection of one call has ended
	 * before somebody asks for its inode. */
	if (__libc_single_threaded || rr_file_is_at(&so->f, fd))
		return so;
	rr_file_put(&so->f);
	return NULL;
}

/* A table slot no longer has f, whose fd was closed behind our back. errno is left alone. */
static void vanished(struct rr_file *f, int fd)
{
	int saved = errno;

	if (atomic_fetch_sub_explicit(&f->fds, 1, memory_order_acq_rel) == 1 &&
	    f->kind == RR_KIND_SOCK) {
		struct rr_sock *so = container_of(f, struct rr_sock, f);
		struct rr_conn *c = atomic_load_explicit(&so->conn, memory_order_acquire);

		rr_ep_sock_gone(so, fd);
		if (c)
			rr_conn_vanished(c);
	}
	rr_file_put(f);
	errno = saved;
}

void rr_fdt_give(int fd, struct rr_file *f)
{
	rr_fdt_slot *slot = grow_table(fd);
	struct rr_file *was;

	if (!slot) {
		rr_file_put(f);		/* untracked, hence plain TCP */
		return;
	}
	atomic_fetch_add_explicit(&f->fds, 1, memory_order_relaxed);
	was = atomic_exchange_explicit(slot, f, memory_order_acq_rel);
	if (!was)
		return rr_fdt_change();
	lose();
	vanished(was, fd);
}

/* Empties fd; what was there. */
static struct rr_file *empty_slot(int fd)
{
	rr_fdt_slot *slot = rr_fdt_slot_of(fd);
	struct rr_file *f = slot ? atomic_exchange_explicit(slot, NULL, memory_order_acq_rel) :
			    NULL;

	if (f)
		lose();
	return f;
}

struct rr_file *rr_fdt_take(int fd, bool *last)
{
	struct rr_file *f = empty_slot(fd);

	*last = f && atomic_fetch_sub_explicit(&f->fds, 1, memory_order_acq_rel) == 1;
	return f;
}

void rr_fdt_evict(int fd)
{
	struct rr_file *f = empty_slot(fd);

	if (f)
		vanished(f, fd);
}

static int next_below(int from, int end)
{
	for (int fd = from < 0 ? 0 : from; fd < end;) {
		if (!rr_fdt_slot_of(fd))
			fd = (fd | (RR_FDT_LEAF - 1)) + 1;
		else if (rr_fdt_has(fd))
			return fd;
		else
			fd++;
	}
	return -1;
}

int rr_fdt_next(int from)
{
	return next_below(from, RR_FDT_LEAVES * RR_FDT_LEAF);
}

bool rr_fdt_any(int end)
{
	return next_below(0, rr_min(end, RR_FDT_LEAVES * RR_FDT_LEAF)) >= 0;
}

void rr_fdt_each(void (*fn)(int fd, struct rr_file *f, void *arg), void *arg)
{
	for (int fd = rr_fdt_next(0); fd >= 0; fd = rr_fdt_next(fd + 1)) {
		struct rr_file *f = rr_fdt_get(fd);

		if (!f)
			continue;
		fn(fd, f, arg);
		rr_file_put(f);
	}
}

/* --- identity --- */

bool rr_file_is_at(struct rr_file *f, int fd)
{
	uint64_t was = UNKNOWN;
	int saved = errno;
	struct stat st;
	bool same = !fstat(fd, &st) && (f->kind != RR_KIND_SOCK || S_ISSOCK(st.st_mode)) &&
	       (atomic_compare_exchange_strong_explicit(&f->ino, &was, st.st_ino,
							memory_order_relaxed,
							memory_order_relaxed) ||
		was == st.st_ino);
	errno = saved;
	return same;
}

bool rr_file_verify(struct rr_file *f, int fd)
{
	rr_fdt_slot *slot = rr_fdt_slot_of(fd);
	struct rr_file *mine = f;
	bool same = rr_file_is_at(f, fd);

	if (!same && slot && atomic_compare_exchange_strong(slot, &mine, NULL)) {
		lose();
		vanished(f, fd);
	}
	return same;
}

int rr_fdt_fd_of(const struct rr_conn *c)
{
	for (int fd = rr_fdt_next(0); fd >= 0; fd = rr_fdt_next(fd + 1)) {
		struct rr_sock *so = rr_fdt_sock(fd);
		bool found = so && atomic_load_explicit(&so->conn, memory_order_acquire) == c &&
			     rr_file_is_at(&so->f, fd);

		if (so)
			rr_file_put(&so->f);
		if (found)
			return fd;
	}
	return -1;
}

bool rr_sock_check(struct rr_sock *so, int fd)
{
	rr_time now, last = atomic_load_explicit(&so->verified, memory_order_relaxed);

	if (!(atomic_load_explicit(&so->flags, memory_order_relaxed) & RR_SOCK_STDIO)) {
		now = rr_now_coarse();
		if (now == last)	/* within a tick: some milliseconds at most */
			return true;
		atomic_store_explicit(&so->verified, now, memory_order_relaxed);
	}
	return likely(rr_file_is_at(&so->f, fd)) || rr_file_verify(&so->f, fd);
}

bool rr_sock_at(struct rr_sock *so, int fd)
{
	rr_fdt_slot *slot = rr_fdt_slot_of(fd);

	return slot && atomic_load_explicit(slot, memory_order_relaxed) == &so->f;
}
