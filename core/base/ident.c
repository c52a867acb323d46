/* SPDX-License-Identifier: BSD-3-Clause */
/* Digests that identify hosts by their boot id, and TCP connections by their addresses. The
 * first byte that is hashed tells the two kinds apart. */

#include "core/base/ident.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/os.h"

#define BOOT_ID	36u	/* characters */
#define ADDRESS	18u	/* IPv6, port */

enum { OF_HOST = 'h', OF_ENDS = 'e' };

/* The text of the boot id; false: it cannot be read. It is kept after the first read; threads
 * that come before that read it themselves. */
static bool boot_id(uint8_t out[BOOT_ID])
{
	static uint8_t kept[BOOT_ID];
	static _Atomic int stage;	/* 0 nothing, 1 being written, 2 there */
	char text[64];
	int none = 0, fd;
	ssize_t n;

	/* Pairs with the release in this function, below. */
	if (atomic_load_explicit(&stage, memory_order_acquire) == 2)
		return memcpy(out, kept, BOOT_ID), true;
	fd = rr_os_open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : syscall(SYS_read, fd, text, sizeof(text));
	if (fd >= 0)
		rr_os->close(fd);
	if (n < (ssize_t)BOOT_ID)
		return false;
	memcpy(out, text, BOOT_ID);
	if (atomic_compare_exchange_strong_explicit(&stage, &none, 1, memory_order_relaxed,
						    memory_order_relaxed)) {
		memcpy(kept, text, BOOT_ID);
		atomic_store_explicit(&stage, 2, memory_order_release);
	}
	return true;
}

void rr_host_id(const uint8_t token[16], uint8_t out[RR_IDENT_LEN])
{
	uint8_t what[1 + BOOT_ID] = { OF_HOST };

	memset(out, 0, RR_IDENT_LEN);
	if (boot_id(what + 1))
		rr_siphash(out, token, what, sizeof(what));
}

/* Writes address and port as 18 bytes; IPv4 is mapped into IPv6, so that both ends write the
 * same whatever socket they have. False: it is another family. */
static bool pack_address(uint8_t out[ADDRESS], const struct sockaddr *sa)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	const struct sockaddr_in *v4 = (const void *)sa;
	const struct sockaddr_in6 *v6 = (const void *)sa;

	if (sa->sa_family == AF_INET) {
		memcpy(out, mapped, 12);
		memcpy(out + 12, &v4->sin_addr, 4);
		memcpy(out + 16, &v4->sin_port, 2);
	} else if (sa->sa_family == AF_INET6) {
		memcpy(out, &v6->sin6_addr, 16);
		memcpy(out + 16, &v6->sin6_port, 2);
	} else {
		return false;
	}
	return true;
}

void rr_ends_id(const uint8_t token[16], const struct sockaddr *client,
		const struct sockaddr *server, uint8_t out[RR_IDENT_LEN])
{
	uint8_t what[1 + 2 * ADDRESS] = { OF_ENDS };

	memset(out, 0, RR_IDENT_LEN);
	if (pack_address(what + 1, client) && pack_address(what + 1 + ADDRESS, server))
		rr_siphash(out, token, what, sizeof(what));
}

bool rr_ident_known(const uint8_t id[RR_IDENT_LEN])
{
	static const uint8_t unknown[RR_IDENT_LEN];

	return memcmp(id, unknown, RR_IDENT_LEN) != 0;
}

bool rr_ident_same(const uint8_t a[RR_IDENT_LEN], const uint8_t b[RR_IDENT_LEN])
{
	return rr_ident_known(a) && memcmp(a, b, RR_IDENT_LEN) == 0;
}
