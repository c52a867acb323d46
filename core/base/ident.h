/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_IDENT_H
#define RR_IDENT_H

/* What two ends compare to find out where the other one is. Both are digests under the
 * connection's random token: they can only be compared, and mean nothing on another connection.
 * All zeroes: not known. */

#include <sys/socket.h>

#include "core/base/siphash.h"
#include "core/base/types.h"

#define RR_IDENT_LEN	RR_SIPHASH_LEN

/* Identifies this host: the same for all its processes, whatever namespaces they are in. */
void rr_host_id(const uint8_t token[16], uint8_t out[RR_IDENT_LEN]);

/* Identifies a TCP connection by the addresses and ports of the end that called connect() and
 * of the other end. An IPv4 address equals its form mapped into IPv6; scopes are ignored
 * because each host has its own. */
void rr_ends_id(const uint8_t token[16], const struct sockaddr *client,
		const struct sockaddr *server, uint8_t out[RR_IDENT_LEN]);

bool rr_ident_known(const uint8_t id[RR_IDENT_LEN]);

/* Known, and equal. */
bool rr_ident_same(const uint8_t a[RR_IDENT_LEN], const uint8_t b[RR_IDENT_LEN]);

#endif
