/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FILE_H
#define RR_FILE_H

/* fd -> what we know of the open file behind it. Only TCP sockets and epoll sets that the
 * process made itself (or accepted) are here; for every other fd a lookup is one array load
 * and a branch. Objects live in type-stable slabs: a stale pointer can be asked, and
 * refuses. */

#include <stdatomic.h>

#include "core/base/types.h"

struct rr_conn;
struct rr_ep_watch;

enum rr_file_kind { RR_KIND_SOCK = 1, RR_KIND_EPOLL };

struct rr_file {
	_Atomic uint32_t refs;	/* table slots and calls inside; 0: free in its slab */
	_Atomic uint32_t fds;	/* table slots: fd numbers of this process; rr_fdt_give()
				 * counts */
	enum rr_file_kind kind;
	uint64_t ino;		/* of the kernel object that it was made for (fstat) */
};

enum {
	RR_SOCK_LISTENER	= 1 << 0,
	RR_SOCK_STDIO		= 1 << 1, /* fdopen()ed: libc may close it unseen; verify
					   * always */
	RR_SOCK_ACCEPTED	= 1 << 2,
	RR_SOCK_CONNECTING	= 1 << 3, /* connect() has begun: its connection is made,
					   * once */
	RR_SOCK_ACCEPTING	= 1 << 5, /* a thread is within the kernel's accept(), which has
					   * one */
	RR_SOCK_PLAIN		= 1 << 4, /* the kernel's for ever, whatever conn says */
};

struct rr_sock {
	struct rr_file f;
	struct rr_conn *_Atomic conn;	/* NULL: not connected, a listener, or plain TCP */
	_Atomic uint32_t flags;
	_Atomic rr_time verified;	/* when the inode was last compared */
	/* Of whoever has the set of resting connections (restset.h): */
	_Atomic uint32_t set;		/* in which life of that it was put there; 0 it is
					 * not … */
	int set_wake;			/* … by this number */
	uint32_t slot;			/* where it was in the last array */
	_Atomic uint32_t serves;	/* a listener: rr_conn_serves() */
	struct rr_ep_watch *_Atomic watches;	/* epoll sets that watch it; epset.c's, its
						 * lock */
};

/* --- the table (fdtable.c). Lock-free, no system call, async-signal-safe: --- */

/* The file behind fd, referenced, or NULL. Drop with rr_file_put(), which at the last one gives
 * the connection back (rr_conn_free) or lets the epoll set go (rr_ep_gone). */
struct rr_file *rr_fdt_get(int fd);
/* The same, if it is a socket / an epoll set. */
struct rr_sock *rr_fdt_sock(int fd);
void rr_file_put(struct rr_file *f);
void rr_file_hold(struct rr_file *f);	/* one more reference; the caller has one */
/* One for a caller that has none, by a pointer that may be stale; false: the socket is gone. */
bool rr_sock_hold(struct rr_sock *so);

/* Two levels: leaves of RR_FDT_LEAF slots, made when they are needed and never freed. */
enum {
	RR_FDT_SHIFT = 9,
	RR_FDT_LEAF = 1 << RR_FDT_SHIFT,
	RR_FDT_LEAVES = 2048,	/* 1,048,576 fds: the kernel's default nr_open */
};
typedef struct rr_file *_Atomic rr_fdt_slot;
extern rr_fdt_slot *_Atomic rr_fdt_leaves[RR_FDT_LEAVES];

/* The slot for fd; NULL: there is none, and so nothing of ours. */
static inline rr_fdt_slot *rr_fdt_slot_of(int fd)
{
	rr_fdt_slot *leaf;

	if ((unsigned)fd >= (unsigned)RR_FDT_LEAVES * RR_FDT_LEAF)
		return NULL;
	/* pairs with the release in grow_table() */
	leaf = atomic_load_explicit(&rr_fdt_leaves[(unsigned)fd >> RR_FDT_SHIFT],
				    memory_order_acquire);
	return leaf ? &leaf[fd & (RR_FDT_LEAF - 1)] : NULL;
}

/* Is there anything of ours at fd? Two loads and a branch: for the fast way out. */
static inline bool rr_fdt_has(int fd)
{
	rr_fdt_slot *slot = rr_fdt_slot_of(fd);

	return slot && atomic_load_explicit(slot, memory_order_relaxed);
}

/* The file behind fd, without a reference: it may be another's by now. */
static inline struct rr_file *rr_fdt_peek(int fd)
{
	rr_fdt_slot *slot = rr_fdt_slot_of(fd);

	/* pairs with the release in rr_fdt_give() */
	return slot ? atomic_load_explicit(slot, memory_order_acquire) : NULL;
}

/* --- writers (serialized inside) --- */

/* A new object with one reference, the caller's; NULL when there is no memory. */
struct rr_sock *rr_sock_new(int fd);

/* Puts f at fd, taking over the caller's reference; what was there (closed behind our back)
 * goes. */
void rr_fdt_give(int fd, struct rr_file *f);

/* Empties fd and hands the table's reference to the caller; NULL if it was empty. Comes
 * before the kernel's close(fd), which makes fd reusable. *last: it was the process's last. */
struct rr_file *rr_fdt_take(int fd, bool *last);

/* fd has just been handed out by the kernel: what we have there was closed behind our back. */
void rr_fdt_evict(int fd);

/* Calls fn for every fd in the table, with a reference that is dropped again afterwards. */
void rr_fdt_each(void (*fn)(int fd, struct rr_file *f, void *arg), void *arg);

/* The lowest fd >= from that is in the table; -1. */
int rr_fdt_next(int from);

/* Is any fd below end in the table? */
bool rr_fdt_any(int end);

/* The lowest fd of a connection's socket, looked at (a system call); -1. */
int rr_fdt_fd_of(const struct rr_conn *c);

/* --- identity --- */

/* Is the kernel object behind fd still the one that f was made for? A system call. If not,
 * the entry is removed and its connection told; errno is left alone. */
bool rr_file_verify(struct rr_file *f, int fd);

/* Is the same object still in the table at fd? (Another thread may have closed it while we
 * slept.) */
bool rr_sock_at(struct rr_sock *so, int fd);

/* Verifies if it is due: always for stdio sockets, else once in a tick of the coarse clock. */
bool rr_sock_check(struct rr_sock *so, int fd);

#endif
