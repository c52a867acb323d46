/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's own descriptors, one bit for each number, and moving them out of the app's way.
 * Which descriptors there are is known to their owners. */

#include "core/base/ownfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/types.h"

#define FDS	(1 << 20)
#define WORD	64

static _Atomic uint64_t owned[FDS / WORD];	/* pages that were never touched cost nothing */
static _Atomic int top = -1;			/* no number of ours was ever higher */

rr_refused_fn *_Atomic rr_refused;

/* Numbers beyond the table are not tracked; it covers the kernel's default nr_open. */
static bool counts(int fd)
{
	return fd >= 0 && fd < FDS;
}

/* Raises `top`, which never sinks: it only bounds how far others have to look. */
static void raise_top(int fd)
{
	int was = atomic_load_explicit(&top, memory_order_relaxed);

	while (was < fd && !atomic_compare_exchange_weak_explicit(&top, &was, fd,
								  memory_order_relaxed,
								  memory_order_relaxed))
		;
}

void rr_ownfd_set(int fd, bool own)
{
	uint64_t bit;

	if (!counts(fd))
		return;
	bit = UINT64_C(1) << (fd % WORD);
	if (own) {
		raise_top(fd);
		atomic_fetch_or_explicit(&owned[fd / WORD], bit, memory_order_relaxed);
	} else {
		atomic_fetch_and_explicit(&owned[fd / WORD], ~bit, memory_order_relaxed);
	}
}

/* The bits of fd and of the numbers after it in the same word, the lowest first. */
static uint64_t word_from(int fd)
{
	return atomic_load_explicit(&owned[fd / WORD], memory_order_relaxed) >> (fd % WORD);
}

bool rr_ownfd_is(int fd)
{
	return counts(fd) && word_from(fd) & 1;
}

/* Counts by words; `top` ends the walk, which would otherwise go through the whole table. */
int rr_ownfd_above(int fd)
{
	int last = atomic_load_explicit(&top, memory_order_relaxed), n = 0;

	for (fd = rr_max(fd + 1, 0); fd <= last; fd = (fd / WORD + 1) * WORD)
		n += __builtin_popcountll(word_from(fd));
	return n;
}

int rr_ownfd_next(int from)
{
	int last = atomic_load_explicit(&top, memory_order_relaxed);

	for (int fd = rr_max(from, 0); fd <= last; fd = (fd / WORD + 1) * WORD) {
		uint64_t w = word_from(fd);

		if (w)
			return fd + __builtin_ctzll(w);
	}
	return -1;
}

#define BEGIN_MOST	1024	/* FD_SETSIZE: an app that uses select() has these to itself */
#define LIMIT_MIN	64
#define TABLE_MIN	64	/* size of the kernel's table after few opens */
/* larger tables have so many entries, or twice or four times as many, ... */
#define TABLE_STEP	128

/* How many entries the kernel's table has at least if fd is in it. */
static int table_with(int fd)
{
	int n = TABLE_STEP;

	if (fd < TABLE_MIN)
		return TABLE_MIN;
	while (n <= fd)
		n *= 2;
	return n;
}

int rr_ownfd_place(rlim_t limit, bool alone, int fd)
{
	int at = limit > LIMIT_MIN ? (int)rr_min(limit / 2, (rlim_t)BEGIN_MOST) :
		 (int)limit * 3 / 4;

	return alone ? at : rr_min(at, table_with(fd) / 8 * 5);
}

static _Atomic rlim_t limit_then;	/* RLIMIT_NOFILE when it was last read; 0: never */

/* Also notes the limit, for dup_as_then(). */
int rr_ownfd_floor(int fd)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		lim.rlim_cur = 0;
	atomic_store_explicit(&limit_then, lim.rlim_cur, memory_order_relaxed);
	return rr_ownfd_place(lim.rlim_cur, __libc_single_threaded, fd);
}

/* Where our numbers began when that was last read. With threads that may be below `least`: the
 * numbers below are used up then, so that the kernel's table has to grow, and grows once, to
 * where ours leave all that select() can handle to the app. It never shrinks. */
static int place_then(int fd, int least)
{
	rlim_t limit = atomic_load_explicit(&limit_then, memory_order_relaxed);
	int high = rr_ownfd_place(limit, true, fd), low = rr_ownfd_place(limit, false, fd);
	bool grown = atomic_load_explicit(&top, memory_order_relaxed) >= high;

	return __libc_single_threaded || grown || low <= least ? high : low;
}

/* Duplicates fd to there. If the limit was raised since, that does no harm; if it was lowered,
 * or never read, this fails. */
static int dup_as_then(int fd, int least)
{
	int at = place_then(fd, least);

	return at > least ? (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, at) : -1;
}

/* Another number for the file behind fd, above `least`; -1: there is none. Tries ever lower
 * places, because the limit may be so low that the usual one is out of reach. */
static int dup_above(int fd, int least)
{
	int to = dup_as_then(fd, least);

	if (to >= 0)
		return to;
	rr_ownfd_floor(fd);	/* reads the limit */
	for (int at = place_then(fd, least); at > least && to < 0; at /= 2)
		to = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, at);
	return to;
}

int rr_ownfd_dup(int fd)
{
	int to = dup_above(fd, 2);

	rr_ownfd_set(to, true);
	return to;
}

/* At worst fd stays where it is, which is less tidy but works. */
int rr_ownfd_raise(int fd)
{
	int to;

	if (fd < 0)
		return -errno;
	to = dup_above(fd, fd);
	if (to >= 0) {
		syscall(SYS_close, fd);	/* no cancellation point */
		fd = to;
	}
	rr_ownfd_set(fd, true);
	return fd;
}

void rr_ownfd_close(int fd)
{
	if (fd < 0)
		return;
	rr_ownfd_set(fd, false);
	syscall(SYS_close, fd);
}
