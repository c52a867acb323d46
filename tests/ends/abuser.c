/* SPDX-License-Identifier: BSD-3-Clause */
/* abuser ABUSE shm|tcp PORT CONNECTIONS: a client that breaks no rule of the wire, but takes from the
 * server what it can get: time, memory, descriptors. shm: on connections that it has upgraded. tcp: what
 * comes nearest to the same abuse without the library. The table at the end says which there are.
 *
 * Says "ready" on stdout when all connections are there, goes on until its stdin ends, and says last how often it did
 * what it does. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/prov/shm/shm_int.h"
#include "core/wire/codec.h"
#include "tests/lib/bytes.h"
#include "tests/lib/rpc.h"
#include "tests/lib/slowfd.h"
#include "tests/lib/upgrade.h"

#define ops	(&rr_prov_shm)
#define MOST	256
#define PATIENCE	(2 * RR_SEC)	/* for a reply */
enum { NULL_PROC = 0, BIG = 3 };	/* of tests/apps/lab.x */

struct peer {
	bool open;
	struct up u;	/* over TCP nothing but its fd */
	uint32_t xid;
};

static bool tcp;
static unsigned long rounds;

/* --- calls and replies --- */

static uint32_t put_call(uint8_t *p, uint32_t xid, uint32_t proc, uint32_t arg)
{
	return WORDS(p, xid, 0, 2, 0x20005244, 1, proc, 0, 0, 0, 0, arg) - (proc == NULL_PROC ? 4 : 0);
}

/* Without waiting: is it on its way? */
static bool call(struct peer *p, uint32_t proc, uint32_t arg)
{
	static struct rr_msg m;
	uint8_t buf[128];
	struct iovec iov = { buf, 0 };
	uint32_t n;
	int rc;

	if (tcp) {
		n = put_call(buf + 4, ++p->xid, proc, arg);
		rr_put_be32(buf, 0x80000000u | n);
		return send(p->u.fd, buf, n + 4, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n + 4;
	}
	rr_msg_init(&m, RR_MSG, ++p->xid, 1, 64);
	n = rr_codec_first(RR_DIALECT_V1)->encode(&m, buf, sizeof(buf));
	iov.iov_len = n + put_call(buf + n, p->xid, proc, arg);
	rc = ops->send(p->u.qp, &iov, 1, 0, 0);
	ops->kick(p->u.qp);
	return rc == 1;
}

static void done(struct peer *p, uint32_t xid)
{
	static struct rr_msg m;
	uint8_t buf[64];
	struct iovec iov = { buf, 0 };

	rr_msg_init(&m, RR_DONE, xid, 1, 64);
	iov.iov_len = rr_codec_first(RR_DIALECT_V1)->encode(&m, buf, sizeof(buf));
	ops->send(p->u.qp, &iov, 1, 0, 0);
	ops->kick(p->u.qp);
}

/* The header of the next message into *m; false: none came. */
static bool hear(struct peer *p, struct rr_msg *m)
{
	rr_time end = rr_now() + PATIENCE;
	struct rr_wc wc;

	while (rr_now() < end) {
		int n = ops->poll(p->u.qp, &wc, 1);

		if (n < 0)
			return false;
		if (n == 0) {
			ops->drain(p->u.qp);	/* which tells whether the server is still there */
			usleep(50);
			continue;
		}
		n = wc.has_imm || rr_codec_first(RR_DIALECT_V1)->decode(wc.buf, wc.len, m);
		ops->repost(p->u.qp, wc.cookie);
		ops->kick(p->u.qp);
		if (n == RR_WIRE_OK)
			return true;
	}
	return false;
}

/* Some of a record by TCP. */
static bool hear_tcp(struct peer *p, size_t most)
{
	static uint8_t buf[1 << 16];
	struct timeval tv = { PATIENCE / RR_SEC, 0 };
	ssize_t n = 1;

	setsockopt(p->u.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	for (size_t at = 0; at < most && n > 0; at += (size_t)n)
		n = recv(p->u.fd, buf, rr_min(sizeof(buf), most - at), 0);
	return n > 0;
}

/* --- abuses: again() is called for each connection in turn; false closes it and makes a new one --- */

/* The reply is exposed, for it is longer than our receives. We seem to be reading it, and say that we have. */
static bool keep_accessing(struct peer *p)
{
	static struct rr_msg m;

	if (!call(p, BIG, 3000))
		return false;
	if (tcp) {
		struct linger now = { 1, 0 };

		hear_tcp(p, 100);
		setsockopt(p->u.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		return false;
	}
	if (!hear(p, &m) || m.type != RR_NOMSG || !m.ch.nreads)
		return false;
	atomic_store(&rr_shm_of(p->u.qp)->peer.ctl->accessing, m.ch.reads[0].seg.handle);
	done(p, m.xid);
	if (call(p, NULL_PROC, 0))
		hear(p, &m);	/* not gone before the server has noticed */
	return false;
}

static bool hold(struct peer *p)
{
	(void)p;
	usleep(10000);
	return true;
}

static bool begin_short_calls(struct peer *p)
{
	for (int i = 0; i < 60; i++)
		call(p, NULL_PROC, 0);
	return true;
}

static bool begin_long_replies(struct peer *p)
{
	for (int i = 0; i < 60; i++)
		call(p, BIG, 100000);
	return true;
}

static bool pull_only(struct peer *p)
{
	static uint8_t bytes[1 << 20];
	static struct rr_msg m;

	if (!call(p, BIG, 100000))
		return hold(p);
	if (tcp)
		return hear_tcp(p, 100000);
	if (hear(p, &m) && m.type == RR_NOMSG && m.ch.nreads)
		ops->read(p->u.qp, bytes, rr_min(m.ch.reads[0].seg.length, (uint32_t)sizeof(bytes)),
			  &m.ch.reads[0].seg, 0, 0);
	return true;
}

static bool ring(struct peer *p)
{
	if (tcp)
		return call(p, NULL_PROC, 0) && hear_tcp(p, 28);
	for (int i = 0; i < 256; i++)
		if (send(p->u.qp->wake_fd, "", 1, MSG_NOSIGNAL) < 0 && errno != EAGAIN)
			return false;
	return true;
}

static bool demand(struct peer *p)
{
	for (int i = 0; i < 16; i++)
		if (!call(p, BIG, 120000))
			return hold(p);
	return true;
}

/* --- descriptors whose last close() takes time, which we hand over --- */

/* In a thread, since it may be the last reference, if the server was quick. */
static void *close_it(void *fd)
{
	close((int)(intptr_t)fd);
	return NULL;
}

static void close_aside(int fd)
{
	pthread_t t;

	if (!pthread_create(&t, NULL, close_it, (void *)(intptr_t)fd))
		pthread_detach(t);
}

/* A packet with n of them. They are as slow as that for as long as this process lives, which has the readers. */
static bool hand_over_slow(int sock, const void *packet, size_t len, int n)
{
	int fd[8] = { 0 }, reader;
	bool rc;

	for (int i = 0; i < n; i++)
		fd[i] = slow_to_close(&reader);
	rc = hand_over(sock, packet, len, fd, n);
	for (int i = 0; i < n; i++)
		close_aside(fd[i]);
	return rc;
}

static bool begin_slow_bell(struct peer *p)
{
	if (!tcp)
		hand_over_slow(p->u.qp->wake_fd, "", 1, 1);
	return true;
}

/* It is among the last bytes of the connection, which the server may never read. */
static bool begin_slow_end(struct peer *p)
{
	if (tcp)
		return true;
	send(p->u.qp->wake_fd, "", 1, MSG_NOSIGNAL);
	hand_over_slow(p->u.qp->wake_fd, "", 1, 1);
	shutdown(p->u.fd, SHUT_RDWR);
	return true;
}

/* A packet with as many as go into it, of which nobody need wait for any. */
static bool hand_over_many(int sock, const void *packet, size_t len)
{
	int fds[HAND_OVER_MAX], two[2];
	bool rc;

	if (pipe(two))
		exit(2);
	for (int i = 0; i < HAND_OVER_MAX; i++)
		fds[i] = two[0];
	rc = hand_over(sock, packet, len, fds, HAND_OVER_MAX);
	close(two[0]);
	close(two[1]);
	return rc;
}

/* In the place of join(): the proof is right, and all numbers are, but what comes with them is n others (0: many). */
static void bad_hello(struct peer *p, int n)
{
	struct rr_shm *q = rr_shm_of(p->u.qp);
	struct rr_shm_hello h = {
		.magic = RR_SHM_MAGIC, .version = RR_SHM_VERSION, .size = sizeof(h), .recv_size = 4096,
		.recvs = 80, .mem_size = p->u.p.mem_size,
	};
	struct rr_shm_geo g;
	struct timeval tv = { PATIENCE / RR_SEC, 0 };
	uint8_t answer[RR_ANSWER_MAX];
	int sock;

	setsockopt(p->u.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	rr_shm_geo_init(&g, h.recv_size, h.recvs, h.mem_size);
	h.total = g.total;
	memcpy(h.proof, p->u.p.token + RR_SHM_PROOF, RR_SHM_PROOF);
	if (recv(p->u.fd, answer, sizeof(answer), 0) <= 0)
		return;
	sock = accept(q->listener[0], NULL, NULL);
	if (n)
		hand_over_slow(sock, &h, sizeof(h), n);
	else
		hand_over_many(sock, &h, sizeof(h));
	/* It stays open: with its end the server would see a reset first. */
}

static bool begin_slow_hello(struct peer *p)
{
	if (!tcp)
		bad_hello(p, 1);
	return true;
}

static bool begin_slow_hellos(struct peer *p)
{
	if (!tcp)
		bad_hello(p, 6);
	return true;
}

static bool begin_many_fds(struct peer *p)
{
	if (!tcp)
		bad_hello(p, 0);
	return true;
}

struct abuse {
	const char *name;
	uint32_t recv_size, recvs;
	bool (*begin)(struct peer *p);	/* NULL: nothing but the upgrade */
	bool (*again)(struct peer *p);
	bool half;			/* offers, and never joins */
};

static const struct abuse abuses[] = {
	{ "accessing", 1024, 16, NULL, keep_accessing, false },
	{ "credits", 4096, 16, begin_short_calls, hold, false },
	{ "unpulled", 1024, 80, begin_long_replies, hold, false },
	{ "undone", 1024, 80, NULL, pull_only, false },
	{ "half-open", 4096, 80, NULL, hold, true },
	{ "bells", 4096, 80, NULL, ring, false },
	{ "greedy", 262144, 512, NULL, demand, false },
	{ "large-region", 262144, 4096, NULL, hold, false },
	{ "slow-bell", 4096, 80, begin_slow_bell, hold, false },
	{ "slow-end", 4096, 80, begin_slow_end, hold, false },
	{ "slow-hello", 4096, 80, begin_slow_hello, hold, true },
	{ "slow-hellos", 4096, 80, begin_slow_hellos, hold, true },
	{ "many-fds", 4096, 80, begin_many_fds, hold, true },
};

/* --- connections --- */

static bool open_peer(struct peer *p, const struct abuse *a, const struct sockaddr_in *to)
{
	uint8_t token[RR_TOKEN_LEN];
	struct rr_hello h;
	int fd = rpc_connect(to);

	if (fd < 0)
		return false;
	*p = (struct peer){ .open = true, .u.fd = fd };
	if (tcp)
		return true;
	if (!rr_os_random(token, sizeof(token)))
		return false;
	up_new(&p->u, fd, token, a->recv_size, a->recvs);
	up_hello(&p->u, &h);
	return up_offer(&p->u, &h) && (a->half || up_join(&p->u));
}

static void close_peer(struct peer *p)
{
	if (p->open && tcp)
		close(p->u.fd);
	else if (p->open)
		up_close(&p->u);
	p->open = false;
}

static void reopen(struct peer *p, const struct abuse *a, const struct sockaddr_in *to)
{
	close_peer(p);
	if (open_peer(p, a, to) && (!a->begin || a->begin(p)))
		return;
	close_peer(p);
	usleep(1000);
}

/* Whoever has started it has closed the pipe. */
static bool is_over(void)
{
	struct pollfd in = { STDIN_FILENO, POLLIN, 0 };

	return poll(&in, 1, 0) != 0;
}

static const struct abuse *find(const char *name)
{
	for (size_t i = 0; i < sizeof(abuses) / sizeof(abuses[0]); i++)
		if (!strcmp(abuses[i].name, name))
			return &abuses[i];
	exit(64);
}

int main(int argc, char **argv)
{
	static struct peer peers[MOST];
	struct sockaddr_in to;
	const struct abuse *a;
	int n;

	if (argc != 5)
		return 64;
	a = find(argv[1]);
	tcp = !strcmp(argv[2], "tcp");
	to = rpc_address("127.0.0.1", atoi(argv[3]));
	n = rr_min(atoi(argv[4]), MOST);
	for (int i = 0; i < n; i++)
		reopen(&peers[i], a, &to);
	puts("ready");
	fflush(stdout);
	while (!is_over()) {
		for (int i = 0; i < n; i++) {
			if (!peers[i].open || !a->again(&peers[i]))
				reopen(&peers[i], a, &to);
			rounds++;
		}
	}
	printf("rounds %lu\n", rounds);
	for (int i = 0; i < n; i++)
		close_peer(&peers[i]);
	return 0;
}
