/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FILE_H
#define RR_FILE_H

/* What we know of the open file behind an fd. Only TCP sockets and epoll sets that the process
 * has made or accepted itself are in the table; for every other fd a lookup is one array load
 * and a branch.
 *
 * The objects live in type-stable slabs: a stale pointer can be asked for a reference, and
 * refuses. */

#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/base/types.h"
#include "core/conn/first.h"

struct rr_conn;
struct rr_ep_watch;

enum rr_file_kind { RR_KIND_SOCK = 1, RR_KIND_EPOLL };

struct rr_file {
	_Atomic uint32_t refs;	/* table slots, and calls under way; 0: free in its slab */
	_Atomic uint32_t fds;	/* table slots, that is fd numbers of this process;
				 * rr_fdt_give() counts them */
	enum rr_file_kind kind;
	_Atomic uint64_t ino;	/* inode of the kernel object that it was made for (fstat); 0: a
				 * socket's that nobody has asked for */
};

enum {
	RR_SOCK_LISTENER	= 1 << 0,
	RR_SOCK_STDIO		= 1 << 1, /* fdopen()ed: libc may close it unseen, so it is
					   * verified at each use */
	RR_SOCK_ACCEPTED	= 1 << 2,
	RR_SOCK_CONNECTING	= 1 << 3, /* connect() has begun: its connection is made only
					   * once */
	RR_SOCK_ACCEPTING	= 1 << 5, /* a thread is taking a connection that it saw pending
					   * in the kernel (accept.c) */
	RR_SOCK_PLAIN		= 1 << 4, /* the kernel's for ever, whatever conn says */
	RR_SOCK_EDGES		= 1 << 6, /* an epoll set watches it for edges, or has done */
	RR_SOCK_UNMET		= 1 << 7, /* connected, and the kernel's alone so far; see
					   * unmet.h … */
};

/* A connection that has not been met (unmet.c). */
struct rr_unmet {
	rr_time since;		/* when accept() or connect() returned it … */
	rr_time looked;		/* … and when its queue was last looked at; both by the coarse
				 * clock */
	bool ended;		/* server: the peer's end is all that the queue holds */
	bool ready;		/* client: the kernel has said that something is there */
	_Atomic uintptr_t worker;	/* the thread whose call works on it; 0: none */
	struct rr_conn_passed past;
};

struct rr_sock {
	struct rr_file f;
	/* NULL: not connected, plain TCP, or a listener that no native rule is for */
	struct rr_conn *_Atomic conn;
	_Atomic uint32_t flags;
	_Atomic rr_time verified;	/* when the inode was last compared */
	/* Belong to the thread that holds the set of resting connections (restset.h): */
	_Atomic uint32_t set;		/* the life of that set in which it was added; 0: it is
					 * not in the set … */
	int set_wake;			/* … and the wake-up fd by which it was added */
	struct rr_unmet unmet;
	_Atomic uint32_t serves;	/* of a listener: what rr_conn_serves() returned */
	_Atomic uint32_t next;		/* while it is free: 1 + the next one; 0: none */
	struct rr_ep_watch *_Atomic watches;	/* watches in epoll sets; written under
						 * epset.c's lock */
};

/* --- the table (fdtable.c). Lock-free, no system call, async-signal-safe: --- */

/* The file behind fd, referenced, or NULL. Drop the reference with rr_file_put(); the last one
 * frees the connection (rr_conn_free()) or lets the epoll set go (rr_ep_gone()). */
struct rr_file *rr_fdt_get(int fd);
/* The same, if it is a socket / an epoll set. */
static inline struct rr_sock *rr_fdt_sock(int fd);
void rr_file_put(struct rr_file *f);
void rr_file_hold(struct rr_file *f);	/* one more reference; the caller has one */
/* Takes a reference for a caller that has none, by a pointer that may be stale. False: the
 * socket is gone. */
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

/* One more reference, unless the last one is going. */
static inline bool rr_file_hold_live(struct rr_file *f)
{
	uint32_t n = atomic_load_explicit(&f->refs, memory_order_relaxed);

	while (n)
		if (atomic_compare_exchange_weak_explicit(&f->refs, &n, n + 1,
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

static inline struct rr_sock *rr_fdt_sock(int fd)
{
	struct rr_file *f = rr_fdt_get(fd);

	if (!f || f->kind == RR_KIND_SOCK)
		return f ? container_of(f, struct rr_sock, f) : NULL;
	rr_file_put(f);
	return NULL;
}

/* The file behind fd, without a reference: the object may stand for another file by now. */
static inline struct rr_file *rr_fdt_peek(int fd)
{
	rr_fdt_slot *slot = rr_fdt_slot_of(fd);

	/* pairs with the release in rr_fdt_give() */
	return slot ? atomic_load_explicit(slot, memory_order_acquire) : NULL;
}

/* How often the table has changed, or a file in a way that a wait must know of: as long as this
 * stays the same, an fd has the file that it had. */
uint32_t rr_fdt_changes(void);

/* How often an fd has lost the file that it had. */
uint32_t rr_fdt_losses(void);

/* --- writers (serialized inside) --- */

/* Counts a change that rr_fdt_changes() tells of. The functions below count their own. */
void rr_fdt_change(void);

/* A new object with one reference, the caller's; NULL when there is no memory. */
struct rr_sock *rr_sock_new(int fd);

/* Puts f at fd and takes over the caller's reference. A file that was there has been closed
 * behind our back, and is let go. */
void rr_fdt_give(int fd, struct rr_file *f);

/* Empties fd and hands the table's reference to the caller; NULL if it was empty. Must come
 * before the kernel's close(fd), which lets another thread get the number. *last: fd was the
 * process's last number of that file. */
struct rr_file *rr_fdt_take(int fd, bool *last);

/* The kernel has just handed out fd: a file that the table has there was closed behind our
 * back, and is let go. */
void rr_fdt_evict(int fd);

/* Calls fn for every fd in the table, with a reference that is dropped again afterwards. */
void rr_fdt_each(void (*fn)(int fd, struct rr_file *f, void *arg), void *arg);

/* The lowest fd >= from that is in the table; -1. */
int rr_fdt_next(int from);

/* Is any fd below end in the table? */
bool rr_fdt_any(int end);

/* The lowest fd of a connection's socket, verified by a system call; -1. */
int rr_fdt_fd_of(const struct rr_conn *c);

/* --- identity --- */

/* Is the kernel object behind fd still the one that f was made for? A system call; errno is
 * left alone. The first of these about a socket notes which that is. */
bool rr_file_is_at(struct rr_file *f, int fd);
/* The same, and if it is not, the entry is removed and its connection told. */
bool rr_file_verify(struct rr_file *f, int fd);

/* Is so still in the table at fd? Another thread may have closed fd while this one slept. */
bool rr_sock_at(struct rr_sock *so, int fd);

/* rr_file_verify() if it is due: at each use for a socket that stdio has, else once in a tick
 * of the coarse clock. */
bool rr_sock_check(struct rr_sock *so, int fd);

#endif
