/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SHM_FOREIGN_H
#define RR_SHM_FOREIGN_H

/* Descriptors that a peer sends without being asked. errno may change. */

#include <sys/types.h>

#include "core/base/types.h"

/* Receives the one descriptor that comes with the next packet, and leaves the packet in place.
 * -EPROTO: there is none, or more than one; -EMFILE: no descriptor number is left for it. */
int rr_shm_peek_fd(int sock);
/* Sends a packet, and with it fd unless that is -1. 0 or -errno. */
int rr_shm_send_fd(int sock, const void *packet, size_t len, int fd);
/* Closes a received descriptor that is not what it should be. */
void rr_shm_drop_fd(int fd);
/* Shuts down a socket that others can send to, and closes it. */
void rr_shm_drop_sock(int sock);
void rr_shm_drop_shut(int sock);	/* the same after it was shut down */
/* Closes a socket that others can connect to. alone: no other process of the family has it. */
void rr_shm_drop_listener(int sock, bool alone);
/* From here on no descriptor comes in by this socket. False: the kernel cannot do that. */
bool rr_shm_refuse_fds(int sock);
/* Lets them in again. */
bool rr_shm_admit_fds(int sock);
/* Does the next packet hold descriptors? */
bool rr_shm_foreign_next(int sock);
/* As recv() of one byte. Descriptors in a packet end the connection; the packet then stays
 * where it is, for rr_shm_drop_sock(). */
ssize_t rr_shm_read_bell(int sock);
/* Is there no packet at present? */
bool rr_shm_is_empty(int sock);
/* Are so many such descriptors pending that there should be no new connections? */
bool rr_shm_burdened(void);

#endif
