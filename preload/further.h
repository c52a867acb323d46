/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FURTHER_H
#define RR_FURTHER_H

/* What io.c leaves to further.c: reads and writes that the connection could not serve at once.
 * so is referenced by the caller. All of these are cancellation points when they sleep; a
 * cancelled thread gives that reference back. They return what rr_io_recv() and rr_io_send()
 * return. */

#include "core/base/iov.h"
#include "preload/sock.h"

/* Goes on with a call whose first attempt has returned r. at: all of the call's pieces. */
ssize_t rr_further_recv(struct rr_sock *so, struct rr_conn *c, int fd, struct rr_iov at,
			int flags, ssize_t r);
ssize_t rr_further_send(struct rr_sock *so, struct rr_conn *c, int fd, struct rr_iov at,
			int flags, ssize_t r);

/* MSG_TRUNC: throws up to `want` bytes away instead of copying them, as TCP does. Does not
 * wait. */
ssize_t rr_further_discard(struct rr_sock *so, struct rr_conn *c, int fd, size_t want,
			   int flags);

#endif
