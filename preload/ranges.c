/* SPDX-License-Identifier: BSD-3-Clause */
/* close_range() and closefrom(): the app's tracked fds within the range are closed one by one,
 * and ours stay open. */

#include "preload/wrap.h"

#include <pthread.h>
#include <sys/resource.h>

#include "core/base/ownfd.h"
#include "preload/guard.h"
#include "preload/real.h"
#include "preload/sock.h"

/* Closes the tracked fds in [first, last] as rr_wrap_close() does. */
static void close_tracked(unsigned first, unsigned last)
{
	for (int fd = rr_fdt_next((int)first); fd >= 0 && (unsigned)fd <= last;
	     fd = rr_fdt_next(fd + 1))
		rr_wrap_close(fd);
}

/* The kernel's close_range() on all of [first, last] but our own fds. */
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

	/* With flags the call only marks fds, or fails, or makes an fd table for this thread
	 * alone, which is not the process's and so not ours. */
	if (flags || first > last || !rr_may_track())
		return rr_real.close_range(first, last, flags);
	/* unlike close(), it is no cancellation point */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (first <= INT32_MAX)
		close_tracked(first, last);
	rc = close_others(first, last, flags);
	pthread_setcancelstate(cancel, NULL);
	if (!rc)
		errno = saved;
	return rc;
}

/* One more than the highest number that an fd can have. */
static int fd_limit(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0 || lim.rlim_max > 1u << 20)
		return 1 << 20;
	return (int)lim.rlim_max;
}

/* Where there is no close_range() (before Linux 5.9, or in a sandbox) each number is closed. */
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
