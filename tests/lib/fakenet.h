/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FAKENET_H
#define RR_FAKENET_H

/* One TCP connection in memory, for code that makes its system calls by rr_os: no descriptors,
 * no time, no chance. It does what Linux does with a FIN, a reset, half a close and a full
 * buffer. Its ends are FAKENET_FD and FAKENET_FD + 1. */

#include "core/base/os.h"

#define FAKENET_FD	1000
#define FAKENET_ROOM	4096u	/* bytes under way in each direction */

extern const struct rr_os fakenet_os;

/* Connects both ends anew. */
void fakenet_open(void);

/* The app's own calls at an end: results as from rr_os, -errno instead of errno. */
ssize_t fakenet_send(int fd, const void *buf, size_t len);
ssize_t fakenet_recv(int fd, void *buf, size_t len, int flags);
int fakenet_poll(int fd, int want);
void fakenet_shutdown(int fd, int how);

/* close(): a reset where bytes were not read or SO_LINGER says so, else a FIN. */
void fakenet_close(int fd);

/* The network ends the connection for both. */
void fakenet_reset(void);

/* The next n calls that may, of either end, fail for once: EAGAIN, EINTR, or half of the
 * bytes. */
void fakenet_hinder(unsigned n);

/* Has either end had a reset, or data that was thrown away? */
bool fakenet_was_reset(void);

#endif
