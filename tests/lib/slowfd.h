/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_SLOWFD_H
#define RR_TEST_SLOWFD_H

/* Descriptors whose last close() takes time, which a hostile peer hands over. */

#include <stdbool.h>
#include <stddef.h>

/* A TCP socket that waits in close() for a reader who does not read: for a minute, or until *reader, a socket of this
 * process's, is closed. Exits where there is no network. */
int slow_to_close(int *reader);

/* Sends a packet with n descriptors (HAND_OVER_MAX at most; the same one may be there several times). */
#define HAND_OVER_MAX	253	/* SCM_MAX_FD */
bool hand_over(int sock, const void *packet, size_t len, const int *fds, int n);

#endif
