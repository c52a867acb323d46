/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_OS_H
#define RR_OS_H

/* The only system calls that core may make. The preload library fills it with
 * the real libc functions (a plain call from core would bind to our own
 * wrappers); tests fill it with fakes that inject faults.
 *
 * Every entry has the libc function's meaning: -1 and errno. Callers in core
 * turn that into -errno at once, and the wrapper layer restores the app's errno. */

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "core/base/types.h"

struct rr_os {
	int (*socket)(int, int, int);
	int (*bind)(int, const struct sockaddr *, socklen_t);
	int (*listen)(int, int);
	int (*connect)(int, const struct sockaddr *, socklen_t);
	int (*accept4)(int, struct sockaddr *, socklen_t *, int);
	int (*shutdown)(int, int);
	int (*close)(int);
	int (*fcntl)(int, int, ...);
	int (*ioctl)(int, unsigned long, ...);
	int (*getsockopt)(int, int, int, void *, socklen_t *);
	int (*setsockopt)(int, int, int, const void *, socklen_t);
	int (*getsockname)(int, struct sockaddr *, socklen_t *);
	int (*getpeername)(int, struct sockaddr *, socklen_t *);
	ssize_t (*recv)(int, void *, size_t, int);
	ssize_t (*send)(int, const void *, size_t, int);
	ssize_t (*recvmsg)(int, struct msghdr *, int);
	ssize_t (*sendmsg)(int, const struct msghdr *, int);
	int (*poll)(struct pollfd *, nfds_t, int);
};

/* System calls made without libc, whose functions are cancellation points: a thread cancelled
 * in core would leave a lock held, and one that the app has in epoll_ctl(), which is no
 * cancellation point, must not be cancelled at all. Results and errno are libc's. */
int rr_os_open(const char *path, int flags);
int rr_os_openat(int dir, const char *name, int flags);
/* close-on-exec and non-blocking */
int rr_os_pipe(int fds[2]);
ssize_t rr_os_read(int fd, void *buf, size_t n);
ssize_t rr_os_write(int fd, const void *buf, size_t n);
int rr_os_fallocate(int fd, int mode, off_t off, off_t len);
bool rr_os_random(void *buf, size_t n);	/* never waits; false: the kernel has none yet */
void rr_os_nap(rr_time t);

/* getpid(), mostly without a system call, however the process was forked. In a vfork() child it
 * returns the parent's pid. */
pid_t rr_pid(void);

/* The table in force; set once before the first use of core. */
extern const struct rr_os *rr_os;

/* Is it an error by which a filter of system calls (seccomp) refuses a call? Other errors tell
 * nothing of a filter, because emulators of system calls differ. */
static inline bool rr_os_is_filtered(int error)
{
	return error == EPERM || error == EACCES || error == ENOSYS;
}

static inline rr_time rr_clock(clockid_t which)
{
	struct timespec ts;

	clock_gettime(which, &ts);
	return (rr_time)ts.tv_sec * RR_SEC + (rr_time)ts.tv_nsec;
}

/* CLOCK_MONOTONIC, by the vDSO: no system call, async-signal-safe. */
static inline rr_time rr_now(void)
{
	return rr_clock(CLOCK_MONOTONIC);
}

/* The same clock at its last tick: up to some milliseconds behind, several times cheaper. Not
 * to be compared with rr_now(). */
static inline rr_time rr_now_coarse(void)
{
	return rr_clock(CLOCK_MONOTONIC_COARSE);
}

#endif
