/* SPDX-License-Identifier: BSD-3-Clause */
/* close_range() and closefrom(): what of a range is the app's is closed one by one, what is
 * ours stays open. */

#include "preload/wrap.h"

#include <pthread.h>
#include <sys/resource.h>

#include "core/base/ownfd.h"
#include "preload/guard.h"
#include "preload/real.h"
#include "preload/sock.h"

/* The tracked fds of [first, last], in our sense. */
static void close_tracked(unsigned first, unsigned last)
{
	for (int fd = rr_fdt_next((int)first); fd >= 0 && (unsigned)fd <= last;
	     fd = rr_fdt_next(fd + 1))
		rr_wrap_close(fd);
}

/* The kernel's close_range() on all of [first, last] that is not ours. */
static int close_others(unsigned first, unsigned last, int flags)
{
	int fd = first <= INT32_MAX ? rr_ownfd_next((int)first) : -1;

	for (; fd >= 0 && (unsigned)fd <= last; fd = rr_ownfd_next(fd + 1)) {
		if ((unsigned)fd > first &&
		    rr_real.close_range(first, (unsigned)fd - 1, flags) < 0)
			return -1;
		first = (unsigned)fd + 1;
	}
	return first > last ? 0 : rr_real.close_range(first, last, flags);
}

int rr_wrap_close_range(unsigned first, unsigned last, int flags)
{
	int saved = errno, rc, cancel;

	/* Only marks them, or fails; or makes an fd table for this thread alone, of which our
	 * table of the process's fds should not hear. */
	if (flags || first > last || !rr_may_track())
		return rr_real.close_range(first, last, flags);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);	/* unlike in close() */
	if (first <= INT32_MAX)
		close_tracked(first, last);
	rc = close_others(first, last, flags);
	pthread_setcancelstate(cancel, NULL);
	if (!rc)
		errno = saved;
	return rc;
}

/* One past the highest number that an fd can have. */
static int fd_limit(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0 || lim.rlim_max > 1u << 20)
		return 1 << 20;
	return (int)lim.rlim_max;
}

/* Before Linux 5.9, and where a sandbox knows no close_range(): one by one. */
void rr_wrap_closefrom(int low)
{
	int saved = errno;

	if (low < 0)
		low = 0;
	if (rr_wrap_close_range((unsigned)low, ~0U, 0) < 0)
		for (int fd = low, limit = fd_limit(); fd < limit; fd++)
			rr_wrap_close(fd);
	errno = saved;
}
