/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds out whether pointers of the app lead to memory, without touching it.
 *
 * Of any memory the kernel is asked by rt_sigprocmask() with an operation that does not exist:
 * it copies the signal set in (EFAULT if it cannot) before it refuses the operation (EINVAL).
 * So nothing changes and no byte leaves the process; a sandbox that lets a libc program run at
 * all allows this call.
 *
 * Of the first thread's stack it is known: everything between a frame that runs and what the
 * kernel has put above the first one is there, and is the process's to write. */
#include "preload/appmem.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { SET = 8, NO_WAY = -1 };	/* bytes of the kernel's signal set; an operation that
				 * sigprocmask() does not have */

/* Can 8 bytes be read at p? p need not be aligned. May change errno. */
static bool is_readable_memory(const char *p)
{
	return !syscall(SYS_rt_sigprocmask, NO_WAY, p, NULL, SET) || errno != EFAULT;
}

/* Can the first and the last byte of the piece be read? len is not 0. */
static bool is_piece_readable(const char *p, size_t len)
{
		/* Rounded down to 8 bytes, a look stays within the page of the byte it is
		 * for. */
	const uintptr_t first = (uintptr_t)p & ~(uintptr_t)(SET - 1);
	const uintptr_t last = ((uintptr_t)p + len - 1) & ~(uintptr_t)(SET - 1);

	return last >= first && is_readable_memory((const char *)first) &&
	       (first / RR_PAGE == last / RR_PAGE || is_readable_memory((const char *)last));
}

/* A single piece is checked too: it may be write()'s buffer, which nobody has read. */
bool rr_appmem_readable(const struct iovec *iov, int n)
{
	int saved = errno, i = 0;

	while (i < n && (!iov[i].iov_len ||
			 is_piece_readable(iov[i].iov_base, iov[i].iov_len)))
		i++;
	errno = saved;
	return i >= n;
}

/* How far a frame may be from the top to be one of this stack for certain. The kernel leaves
 * more room than this below the stack before anything else is mapped. */
#define DEEPEST	((uintptr_t)1 << 20)

/* The kernel puts the name of the program above all frames. 0: unknown. */
static uintptr_t stack_top(void)
{
	static _Atomic uintptr_t known;
	uintptr_t top = atomic_load_explicit(&known, memory_order_relaxed);

	if (unlikely(!top)) {
		top = (uintptr_t)getauxval(AT_EXECFN);
		atomic_store_explicit(&known, top, memory_order_relaxed);
	}
	return top;
}

bool rr_appmem_is_on_stack(const void *p, size_t len)
{
	const uintptr_t at = (uintptr_t)p, frame = (uintptr_t)__builtin_frame_address(0);
	const uintptr_t top = stack_top();

	return at > frame && at < top && top - frame <= DEEPEST && len <= top - at;
}
