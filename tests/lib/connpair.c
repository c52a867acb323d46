/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/connpair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/stats_abi.h"
#include "core/wire/recmark.h"
#include "tests/lib/rpc.h"

static const struct rr_os libc_os = {
	.socket = socket, .bind = bind, .listen = listen, .connect = connect,
	.accept4 = accept4, .shutdown = shutdown, .close = close, .fcntl = fcntl,
	.ioctl = ioctl, .getsockopt = getsockopt, .setsockopt = setsockopt,
	.getsockname = getsockname, .getpeername = getpeername, .recv = recv, .send = send,
	.recvmsg = recvmsg, .sendmsg = sendmsg, .poll = poll,
};

static enum rr_mode always(bool server, const struct sockaddr *local, const struct sockaddr *peer)
{
	(void)server;
	(void)local;
	(void)peer;
	return RR_MODE_AUTO;
}

struct rr_conn_params rr_test_params = {
	.program = 0x52444d41,
	.eng = {
		.credits = 32, .bc_credits = 8,
		.max_msg = 1 << 20, .reply_chunk = 65536, .reply_chunk_max = 1 << 20,
		.max_chunks = 16, .max_segs = 16, .max_exposed = 8 << 20,
		.done_timeout = 30 * RR_SEC,
	},
	.inline_size = 4096, .upgrade_timeout = 50 * RR_SEC, .negative_time = RR_SEC,
	.spin = 20 * RR_USEC, .max_stash = 1 << 20, .budget = 4 << 20,
	.process_budget = 256 << 20, .warm_memory = 16 << 20,
	.idle_trim = 2 * RR_SEC, .reliable_replies = true,
	.mode = always,
};

struct rr_stat_seg *rr_test_segment(bool make RR_UNUSED)
{
	static struct rr_stat_seg *made;

	if (!made) {
		made = calloc(1, RR_STAT_SIZE);
		rr_stats_init(made, 1, 1, NULL, NULL);
	}
	return made;
}

void rr_test_setup(void)
{
	rr_os = &libc_os;
	rr_conn_setup(&rr_test_params);
}

static void die(const char *what)
{
	perror(what);
	abort();
}

int rr_test_listen(struct sockaddr_in *a)
{
	int fd;

	*a = rpc_address("127.0.0.1", 0);
	fd = rpc_listen(a);
	if (fd < 0)
		die("listener");
	return fd;
}

void rr_pair_open(struct rr_pair *p)
{
	struct sockaddr_in a;

	p->listener = rr_test_listen(&a);
	p->client.fd = rpc_connect(&a);
	if (p->client.fd < 0)
		die("connect");
	p->server.fd = accept(p->listener, NULL, NULL);
	p->client.c = rr_conn_client(p->client.fd, (struct sockaddr *)&a, sizeof(a));
	p->server.c = rr_conn_server(p->server.fd);
}

void rr_end_close(struct rr_end *e)
{
	if (e->fd < 0)
		return;
	if (e->c)
		rr_conn_close(e->c, e->fd);
	close(e->fd);
	if (e->c)
		rr_conn_free(e->c);
	e->fd = -1;
	e->c = NULL;
}

void rr_pair_close(struct rr_pair *p)
{
	rr_end_close(&p->client);
	rr_end_close(&p->server);
	close(p->listener);
}

ssize_t rr_end_try_send(struct rr_end *e, const void *buf, size_t len)
{
	struct iovec iov = { (void *)buf, len };
	ssize_t n = e->c ? rr_conn_send(e->c, e->fd, &iov, 1, 0) : RR_CONN_KERNEL;

	if (n == RR_CONN_KERNEL) {
		n = send(e->fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		n = n < 0 ? -errno : n;
	}
	return n;
}

ssize_t rr_end_try_recv(struct rr_end *e, void *buf, size_t len, int flags)
{
	struct iovec iov = { buf, len };
	ssize_t n = e->c ? rr_conn_recv(e->c, e->fd, &iov, 1, flags) : RR_CONN_KERNEL;

	if (n == RR_CONN_KERNEL) {
		n = recv(e->fd, buf, len, flags | MSG_DONTWAIT);
		n = n < 0 ? -errno : n;
	}
	return n;
}

int rr_end_poll(struct rr_end *e, unsigned want)
{
	int got = e->c ? rr_conn_poll(e->c, e->fd, want) : RR_CONN_KERNEL;

	if (got == RR_CONN_KERNEL) {
		struct pollfd p = { e->fd, (short)want, 0 };

		got = poll(&p, 1, 0) > 0 ? p.revents : 0;
	}
	return got;
}

static void chance(struct rr_end *other)
{
	if (other && other->fd >= 0)
		rr_end_poll(other, POLLIN | POLLOUT);
}

#define TRIES	20000000

ssize_t rr_end_send(struct rr_end *e, struct rr_end *other, const void *buf, size_t len)
{
	size_t done = 0;

	for (int i = 0; done < len; i++) {
		ssize_t n = rr_end_try_send(e, (const uint8_t *)buf + done, len - done);

		if (n < 0 && n != -EAGAIN)
			return n;
		if (i == TRIES)
			return -ETIMEDOUT;
		if (n > 0)
			done += (size_t)n;
		else
			chance(other);
	}
	return (ssize_t)done;
}

ssize_t rr_end_recv(struct rr_end *e, struct rr_end *other, void *buf, size_t len)
{
	size_t done = 0;

	for (int i = 0; done < len; i++) {
		ssize_t n = rr_end_try_recv(e, (uint8_t *)buf + done, len - done, 0);

		if (n < 0 && n != -EAGAIN)
			return n;
		if (n == 0)
			break;
		if (i == TRIES)
			return -ETIMEDOUT;
		if (n > 0)
			done += (size_t)n;
		else
			chance(other);
	}
	return (ssize_t)done;
}

ssize_t rr_end_recv_record(struct rr_end *e, struct rr_end *other, void *buf, size_t len)
{
	size_t done = 0;
	uint8_t mark[RR_RM_HDR] = { 0 };

	while (!(mark[0] & 0x80)) {
		ssize_t n = rr_end_recv(e, other, mark, sizeof(mark));

		if (n != sizeof(mark))
			return n < 0 ? n : -EPROTO;
		if (rr_rm_len(mark) > len - done)
			return -EMSGSIZE;
		n = rr_end_recv(e, other, (uint8_t *)buf + done, rr_rm_len(mark));
		if (n != (ssize_t)rr_rm_len(mark))
			return n < 0 ? n : -EPROTO;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static size_t words(uint8_t *out, const uint32_t *w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t be = htonl(w[i]);

		memcpy(out + 4 * i, &be, 4);
	}
	return 4 * n;
}

static size_t body(uint8_t *out, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1103515245u + 12345u;
		out[i] = (uint8_t)(seed >> 16);
	}
	return len;
}

size_t rr_test_call(uint8_t *out, uint32_t xid, size_t len, unsigned seed)
{
	const uint32_t w[] = { xid, 0, 2, 0x20005244, 1, 1, 0, 0, 0, 0 };
	size_t n = words(out + 4, w, rr_array_size(w));

	n += body(out + 4 + n, len, seed);
	rr_rm_put(out, (uint32_t)n, true);
	return n + 4;
}

size_t rr_test_reply(uint8_t *out, uint32_t xid, size_t len, unsigned seed)
{
	const uint32_t w[] = { xid, 1, 0, 0, 0, 0 };
	size_t n = words(out + 4, w, rr_array_size(w));

	n += body(out + 4 + n, len, seed);
	rr_rm_put(out, (uint32_t)n, true);
	return n + 4;
}
