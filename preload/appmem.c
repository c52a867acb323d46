/* SPDX-License-Identifier: BSD-3-Clause */
/* Is that memory? The kernel knows, and need not be let into the data: it copies a signal set
 * in before it finds that there is nothing that could be done with it. It takes part in no
 * signal mask, and every sandbox allows the call. */
#include "preload/appmem.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { SET = 8, NO_WAY = -1 };	/* of the kernel's set; no way to change a mask */

/* The 8 bytes at p, which may begin anywhere. */
static bool is_readable_memory(const char *p)
{
	return !syscall(SYS_rt_sigprocmask, NO_WAY, p, NULL, SET) || errno != EFAULT;
}

static bool is_piece_readable(const char *p, size_t len)
{
	/* Within the piece's pages: 8 bytes that are aligned cross no border. */
	const uintptr_t first = (uintptr_t)p & ~(uintptr_t)(SET - 1);
	const uintptr_t last = ((uintptr_t)p + len - 1) & ~(uintptr_t)(SET - 1);

	return last >= first && is_readable_memory((const char *)first) &&
	       (first / RR_PAGE == last / RR_PAGE || is_readable_memory((const char *)last));
}

bool rr_appmem_readable(const struct iovec *iov, int n)
{
	/* One alone is a buffer of write(), and ours, or was read before. */
	for (int i = 0; i < n; i++)
		if (iov[i].iov_len && !is_piece_readable(iov[i].iov_base, iov[i].iov_len))
			return false;
	return true;
}
