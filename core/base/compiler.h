/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_COMPILER_H
#define RR_COMPILER_H

/* What the compilers (gcc 12, clang 14) give beyond C11. */

#include <stddef.h>

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

#define RR_EXPORT	__attribute__((visibility("default")))
#define RR_PRINTF(f, a)	__attribute__((format(printf, f, a)))
#define RR_ALIGNED(n)	__attribute__((aligned(n)))
#define RR_MUST_CHECK	__attribute__((warn_unused_result))
#define RR_INLINE	inline __attribute__((always_inline))
#define RR_NOINLINE	__attribute__((noinline))
#define RR_COLD		__attribute__((cold, noinline))
#define RR_UNUSED	__attribute__((unused))

#define RR_CACHELINE	64u
#define RR_PAGE		4096u

#define container_of(p, type, member) \
	((type *)(void *)((char *)(p) - offsetof(type, member)))

#define rr_array_size(a)	(sizeof(a) / sizeof((a)[0]))

/* v rounded up to a multiple of a, which is a power of two. */
#define rr_align(v, a)	(((v) + ((a) - 1)) & ~((__typeof__(v))(a) - 1))

/* Each argument once; names are unique, so that they may be nested. */
#define rr_min(a, b)	rr_pick_(<, a, b, __COUNTER__)
#define rr_max(a, b)	rr_pick_(>, a, b, __COUNTER__)
#define rr_pick_(op, a, b, n)	rr_pick__(op, a, b, n)
#define rr_pick__(op, a, b, n) ({ __typeof__(a) a_##n = (a); __typeof__(b) b_##n = (b); \
	a_##n op b_##n ? a_##n : b_##n; })

/* A full fence: stores before it are seen before loads after it are made. As
 * atomic_thread_fence(memory_order_seq_cst), which gcc refuses under TSan. */
static inline void rr_fence(void)
{
	__sync_synchronize();
}

/* A hint to the CPU that we spin. */
static inline void rr_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
