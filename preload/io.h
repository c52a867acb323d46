/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_IO_H
#define RR_IO_H

/* One read or write of a TCP connection, as libc's call with these iovecs and flags would do it
 * on a socket of this blocking mode and these time-outs. Returns bytes or 0, -errno (errno
 * itself is left alone), or RR_CONN_KERNEL: make the plain call. There are 0 to IOV_MAX pieces.
 * Cancellation points when they sleep. */

#include "core/conn/conn.h"

ssize_t rr_io_recv(int fd, const struct iovec *iov, int n, int flags);

/* Raises SIGPIPE with -EPIPE unless MSG_NOSIGNAL. */
ssize_t rr_io_send(int fd, const struct iovec *iov, int n, int flags);

/* One buffer, as the pieces of a call. */
#define RR_PIECE(buf, n)	(&(struct iovec){ (void *)(uintptr_t)(buf), (n) })

#endif
