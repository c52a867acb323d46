/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_RPC_H
#define RR_TEST_RPC_H

/* ONC RPC (RFC 5531) over TCP by hand, for clients and servers of the tests and the benchmark that
 * are ordinary programs: record marking, the headers of calls and replies with AUTH_NONE,
 * connections. Needs libc alone, and knows nothing of the library.
 *
 * A record has one fragment. It lies in a buffer with its mark first, so a length of a record is
 * that of a message and four bytes. Words are counted in it from the mark, which is word 0. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RPC_LAST	0x80000000u	/* of a mark */

enum { RPC_MARK = 4, RPC_CALL_HEAD = 44, RPC_REPLY_HEAD = 28 };	/* with the mark */
/* The words behind the mark. */
enum { RPC_XID = 1, RPC_TYPE, RPC_VERSION, RPC_PROG, RPC_VERS, RPC_PROC, RPC_ACCEPT = 6 };

static inline void rpc_put(void *record, unsigned at, uint32_t v)
{
	v = htonl(v);
	memcpy((char *)record + 4 * (size_t)at, &v, 4);
}

static inline uint32_t rpc_get(const void *record, unsigned at)
{
	uint32_t v;

	memcpy(&v, (const char *)record + 4 * (size_t)at, 4);
	return ntohl(v);
}

/* For a message of n bytes. Returns the length of the record. */
static inline size_t rpc_put_mark(void *record, size_t n)
{
	rpc_put(record, 0, RPC_LAST | (uint32_t)n);
	return RPC_MARK + n;
}

/* Mark and head of a call whose arguments, n bytes, the caller puts behind them. Returns the
 * length of the record. */
static inline size_t rpc_put_call(void *record, uint32_t xid, uint32_t prog, uint32_t vers,
				  uint32_t proc, size_t n)
{
	const uint32_t head[] = { xid, 0, 2, prog, vers, proc, 0, 0, 0, 0 };

	for (unsigned i = 0; i < sizeof(head) / 4; i++)
		rpc_put(record, 1 + i, head[i]);
	return rpc_put_mark(record, sizeof(head) + n);
}

/* The same for a reply that is accepted, without error, and its results. */
static inline size_t rpc_put_reply(void *record, uint32_t xid, size_t n)
{
	const uint32_t head[] = { xid, 1, 0, 0, 0, 0 };

	for (unsigned i = 0; i < sizeof(head) / 4; i++)
		rpc_put(record, 1 + i, head[i]);
	return rpc_put_mark(record, sizeof(head) + n);
}

/* Is it such a reply, to this call? */
static inline bool rpc_is_success(const void *record, size_t len, uint32_t xid)
{
	return len >= RPC_REPLY_HEAD && rpc_get(record, RPC_XID) == xid &&
	       rpc_get(record, RPC_TYPE) == 1 && rpc_get(record, 3) == 0 &&
	       rpc_get(record, RPC_ACCEPT) == 0;
}

/* --- bytes; false: the connection has ended before all of them --- */

static inline bool rpc_write_all(int fd, const void *p, size_t n)
{
	for (ssize_t k; n > 0; p = (const char *)p + k, n -= (size_t)k) {
		k = write(fd, p, n);
		if (k <= 0)
			return false;
	}
	return true;
}

static inline bool rpc_read_all(int fd, void *p, size_t n)
{
	for (ssize_t k; n > 0; p = (char *)p + k, n -= (size_t)k) {
		k = read(fd, p, n);
		if (k <= 0)
			return false;
	}
	return true;
}

/* Reads one record. Returns its length; 0: the connection has ended, or the record has more
 * fragments than one, or does not fit into room bytes. */
static inline size_t rpc_read_record(int fd, void *record, size_t room)
{
	size_t n;

	if (room < RPC_MARK || !rpc_read_all(fd, record, RPC_MARK))
		return 0;
	n = rpc_get(record, 0) & ~RPC_LAST;
	if (!(rpc_get(record, 0) & RPC_LAST) || n > room - RPC_MARK ||
	    !rpc_read_all(fd, (char *)record + RPC_MARK, n))
		return 0;
	return RPC_MARK + n;
}

/* --- connections; -1: not made --- */

/* An IPv4 address in digits, a port in host order. Port 0 if the address is none. */
static inline struct sockaddr_in rpc_address(const char *host, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((in_port_t)port) };

	if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
		a.sin_port = 0;
	return a;
}

/* Where port is 0, *at gets the one that the kernel has chosen. */
static inline int rpc_listen(struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	socklen_t len = sizeof(*at);

	if (fd < 0 || (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
		       !bind(fd, (struct sockaddr *)at, len) && !listen(fd, 16) &&
		       !getsockname(fd, (struct sockaddr *)at, &len)))
		return fd;
	close(fd);
	return -1;
}

static inline int rpc_connect(const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || !connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		return fd;
	close(fd);
	return -1;
}

#endif
