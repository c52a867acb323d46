/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef P_RPC_H
#define P_RPC_H

/* ONC RPC records (RFC 5531): what makes a connection of two programs with the library a carried
 * one. To the kernel they are bytes like others, so the same program is its own oracle. With the
 * library idle (P_LEG, see tests/preload/run) the records are of another RPC version, which it
 * does not know: what it must leave alone. */

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "tests/lib/rpc.h"
#include "tests/preload/p.h"

static inline void rpc_fill(unsigned char *p, size_t n, uint32_t xid)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(xid * 31 + i * 7 + (i >> 8));
}

/* A call in one fragment with n bytes of argument: the record's length, mark included. n is a
 * multiple of four. Program 0x20000099, AUTH_NONE. */
P_UNUSED static size_t rpc_call(unsigned char *p, uint32_t xid, size_t n)
{
	rpc_put_call(p, xid, 0x20000099, 1, n ? 1 : 0, n);
	if (p_leg("idle"))
		rpc_put(p, RPC_VERSION, 3);
	rpc_fill(p + RPC_CALL_HEAD, n, xid);
	return RPC_CALL_HEAD + n;
}

/* The same for an accepted, successful reply. */
P_UNUSED static size_t rpc_reply(unsigned char *p, uint32_t xid, size_t n)
{
	rpc_put_reply(p, xid, n);
	rpc_fill(p + RPC_REPLY_HEAD, n, xid);
	return RPC_REPLY_HEAD + n;
}

/* Reads one record of one fragment with read(): its length, mark included. */
P_UNUSED static size_t rpc_read(int fd, unsigned char *p, size_t room)
{
	size_t n = rpc_read_record(fd, p, room);

	CHECK(n);
	return n;
}

/* Serves one call that has no argument. */
P_UNUSED static void rpc_serve_null(int fd)
{
	unsigned char buf[256];

	rpc_read(fd, buf, sizeof(buf));
	p_write_all(fd, buf, rpc_reply(buf, rpc_get(buf, 1), 0));
}

P_UNUSED static void *rpc_null_server(void *arg)
{
	rpc_serve_null(*(int *)arg);
	return NULL;
}

P_UNUSED static void rpc_null(int fd, uint32_t xid)
{
	unsigned char buf[256];

	p_write_all(fd, buf, rpc_call(buf, xid, 0));
	CHECK_EQ(rpc_read(fd, buf, sizeof(buf)), RPC_REPLY_HEAD);
	CHECK_EQ(rpc_get(buf, 1), xid);
}

/* Bytes that TCP has brought to fd, or -1 where the kernel does not say: tcpi_bytes_received,
 * which is not in the struct tcp_info of libc. */
static inline int64_t rpc_tcp_received(int fd)
{
	enum { AT = 128 };
	unsigned char info[256];
	socklen_t len = sizeof(info);
	int64_t n;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len) || len < AT + sizeof(n))
		return -1;
	memcpy(&n, info + AT, sizeof(n));
	return n;
}

/* Nothing that was written to fd is on its way any more: it has arrived, or there is no room for it. (What was
 * thrown away for lack of room stays on its way.) */
P_UNUSED static void rpc_tcp_settles(int fd)
{
	int all = 0, unsent = 0;

	for (int i = 0; i < 200; i++) {
		CHECK(!ioctl(fd, SIOCOUTQ, &all) && !ioctl(fd, SIOCOUTQNSD, &unsent));
		if (all == unsent)
			return;
		usleep(1000);
	}
}

/* A call over the pair: if the leg is to be a carried one its bytes do not come by TCP, else
 * they do; in one that crosses, either. Both ends are here, and one thread is enough: a call fits. */
P_UNUSED static void rpc_check_leg(int s[2], uint32_t xid)
{
	int64_t before = rpc_tcp_received(s[1]);
	unsigned char buf[256];

	p_write_all(s[0], buf, rpc_call(buf, xid, 0));
	rpc_serve_null(s[1]);
	CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
	if (before >= 0 && !p_leg("crossing"))
		CHECK_EQ(rpc_tcp_received(s[1]) - before, p_leg("carried") ? 0 : RPC_CALL_HEAD);
}

/* A pair on which calls have been answered: in the carried leg it is carried now. Two threads,
 * since the first call waits for the other end's answer to the offer. */
P_UNUSED static void rpc_pair(int s[2])
{
	pthread_t server;

	p_pair(s);
	CHECK_EQ(pthread_create(&server, NULL, rpc_null_server, &s[1]), 0);
	rpc_null(s[0], 1);
	CHECK_EQ(pthread_join(server, NULL), 0);
	if (!p_leg("crossing"))	/* what comes now is to find it half way */
		rpc_check_leg(s, 2);
}

/* A pair on which no call was made. Not in the carried leg: one thread alone could make none there,
 * which would wait for the other end's answer to the offer. */
P_UNUSED static void rpc_new_pair(int s[2])
{
	if (p_leg("carried"))
		rpc_pair(s);
	else
		p_pair(s);
}

#endif
