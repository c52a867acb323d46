/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PEERADDR_H
#define RR_PEERADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

/* The same family, address and port? No other field counts. Each is a struct sockaddr_in or
 * sockaddr_in6. */
static inline bool rr_peeraddr_same(const struct sockaddr_in6 *a, const struct sockaddr_in6 *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;

	if (a->sin6_family != b->sin6_family)
		return false;
	if (a->sin6_family == AF_INET)
		return a4->sin_port == b4->sin_port &&
		       a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return a->sin6_port == b->sin6_port && a->sin6_scope_id == b->sin6_scope_id &&
	       !memcmp(&a->sin6_addr, &b->sin6_addr, sizeof(a->sin6_addr));
}

#endif
