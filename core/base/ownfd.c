/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/ownfd.h"

#include <stdatomic.h>
#include <sys/resource.h>

#include "core/base/compiler.h"
#include "core/base/types.h"

#define FDS	(1 << 20)
#define WORD	64

static _Atomic uint64_t owned[FDS / WORD];	/* pages that were never touched cost nothing */
static _Atomic int top = -1;			/* none of ours was ever higher */
static _Atomic int count;

rr_refused_fn *_Atomic rr_refused;

static bool counts(int fd)
{
	return fd >= 0 && fd < FDS;
}

static void raise_top(int fd)
{
	int was = atomic_load_explicit(&top, memory_order_relaxed);

	while (was < fd && !atomic_compare_exchange_weak_explicit(&top, &was, fd,
								  memory_order_relaxed,
								  memory_order_relaxed))
		;
}

int rr_ownfd_count(void)
{
	return atomic_load_explicit(&count, memory_order_relaxed);
}

void rr_ownfd_set(int fd, bool own)
{
	uint64_t bit, was;

	if (!counts(fd))
		return;
	bit = UINT64_C(1) << (fd % WORD);
	if (own) {
		raise_top(fd);
		was = atomic_fetch_or_explicit(&owned[fd / WORD], bit, memory_order_relaxed);
	} else {
		was = atomic_fetch_and_explicit(&owned[fd / WORD], ~bit, memory_order_relaxed);
	}
	if (own != !!(was & bit))
		atomic_fetch_add_explicit(&count, own ? 1 : -1, memory_order_relaxed);
}

static uint64_t word_from(int fd)
{
	return atomic_load_explicit(&owned[fd / WORD], memory_order_relaxed) >> (fd % WORD);
}

bool rr_ownfd_is(int fd)
{
	return counts(fd) && word_from(fd) & 1;
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

int rr_ownfd_floor(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur > 4096)
		return 4000;
	return (int)(lim.rlim_cur > 64 ? lim.rlim_cur - 24 : lim.rlim_cur * 3 / 4);
}
