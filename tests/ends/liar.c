/* SPDX-License-Identifier: BSD-3-Clause */
/* liar client PORT SEED SECONDS | liar server PORT SEED: a peer that makes the
 * upgrade like any other and then lies in every way: messages that are random, mutated, repeated,
 * or name memory that is not there; words of the shared memory overwritten; nonsense on TCP.
 *
 * The last line on stdout says how much of it there was: "connections N messages N". */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/conn/enter.h"
#include "core/prov/shm/shm_int.h"
#include "core/wire/codec.h"
#include "tests/lib/bytes.h"
#include "tests/lib/msgs.h"
#include "tests/lib/rpc.h"
#include "tests/lib/upgrade.h"

#define ops (&rr_prov_shm)
#define SEEN	16u

static uint64_t seed;
static unsigned long connections, messages;

/* One connection. */
struct lie {
	int fd;
	struct rr_qp *qp;
	uint8_t token[RR_TOKEN_LEN];
	struct { uint8_t bytes[4096]; uint32_t len; } seen[SEEN];
	uint32_t nseen;
	struct rr_seg segs[8];	/* ours, exposed */
	uint32_t nsegs;
};

static uint32_t any(uint32_t n)
{
	return rng_below(&seed, n);
}

static uint32_t word(void)
{
	static const uint32_t edges[] = {
		0, 1, 2, 4, 0x7fffffff, 0x80000000, 0xffffffff, 4096, 65536,
	};

	return any(2) ? edges[any(9)] : any(3) ? any(256) : (uint32_t)rng_next(&seed);
}

/* --- what is said --- */

static uint32_t seen_xid(const struct lie *l)
{
	uint32_t be;

	if (!l->nseen || !any(4))
		return any(64);
	memcpy(&be, l->seen[any(rr_min(l->nseen, SEEN))].bytes, 4);
	return ntohl(be);
}

/* An RPC call or reply with a body, whole and right. */
static uint32_t put_rpc(uint8_t *p, uint32_t xid, bool reply, uint32_t body)
{
	const uint32_t call[10] = { xid, 0, 2, 0x20000001, 1 }, rep[6] = { xid, 1 };
	uint32_t head = reply ? sizeof(rep) : sizeof(call);

	put_words(p, reply ? rep : call, head / 4);
	memset(p + head, (int)any(256), body);
	return head + body;
}

static struct rr_shm_key *key_of(struct lie *l, const struct rr_seg *s)
{
	return &rr_shm_of(l->qp)->own.keys[s->handle % RR_SHM_KEYS];
}

/* Some memory with a message in it, exposed to the peer. Or what looks the same by all words,
 * but is not there. */
static struct rr_seg exposed(struct lie *l, bool reply, uint32_t xid)
{
	uint32_t at = any(64) * 4096, len = put_rpc(l->qp->mem + at, xid, reply, any(100000));
	struct rr_seg *s = &l->segs[l->nsegs++ % 8];

	if (l->nsegs > 8)
		ops->invalidate(l->qp, s->handle, 0);
	if (ops->expose(l->qp, l->qp->mem + at, len, any(8) ? RR_RIGHT_READ : RR_RIGHT_WRITE, s))
		*s = (struct rr_seg){ word(), word(), word() };
	else if (!any(6))
		key_of(l, s)->offset = s->offset = any(2) ? (uint64_t)word() << 12 :
							    l->qp->mem_size - any(100000);
	return *s;
}

static struct rr_seg a_segment(struct lie *l)
{
	struct rr_seg s = l->nsegs ? l->segs[any(rr_min(l->nsegs, 8u))] :
				     (struct rr_seg){ word(), word(), word() };

	switch (any(4)) {
	case 0: s.handle = word(); break;
	case 1: s.length = word(); break;
	case 2: s.offset = word(); break;
	}
	return s;
}

/* A header that decodes: right, or with chunks that lead nowhere. */
static uint32_t put_msg(struct lie *l, uint8_t *buf, uint32_t cap)
{
	static struct rr_msg m;
	bool reply = any(2), right = any(2);
	uint32_t xid = reply ? seen_xid(l) : (uint32_t)rng_next(&seed), len;

	if (right) {
		bool inline_ = any(2);

		rr_msg_init(&m, inline_ ? RR_MSG : RR_NOMSG, xid, 1, 1 + any(64));
		if (!inline_) {
			m.ch.nreads = 1;
			m.ch.reads[0] = (struct rr_read_seg){ 0, exposed(l, reply, xid) };
		}
	} else {
		msg_random(&seed, &m);
		m.xid = xid;
		for (uint32_t i = 0; i < m.ch.nreads; i++) {
			m.ch.reads[i].seg = a_segment(l);
			if (any(2))
				m.ch.reads[i].position = 0;
		}
		for (uint32_t i = 0; i < m.ch.nsegs; i++)
			m.ch.segs[i] = a_segment(l);
	}
	len = rr_codec_first(RR_DIALECT_V1)->encode(&m, buf, cap);
	if (len && m.type == RR_MSG && cap - len > 40)
		len += put_rpc(buf + len, any(8) ? xid : word(), reply, any(cap - len - 40));
	return len;
}

/* One Read list of more segments than anybody takes; each is right. */
static uint32_t put_many(struct lie *l, uint8_t *buf, uint32_t cap)
{
	uint32_t xid = (uint32_t)rng_next(&seed), n = 1 + any((cap - 28) / 24), at = 16;
	struct rr_seg s = exposed(l, false, xid);

	put_words(buf, (uint32_t[]){ xid, 1, 32, 1 }, 4);
	s.length = rr_min(s.length, 1 + any(4000));
	for (uint32_t i = 0; i < n; i++)
		at += WORDS(buf + at, 1, 0, s.handle, s.length, (uint32_t)(s.offset >> 32),
			    (uint32_t)s.offset);
	return at + WORDS(buf + at, 0, 0, 0);
}

static void mutate(uint8_t *buf, uint32_t len)
{
	for (uint32_t i = 1 + any(4); len >= 4 && i; i--) {
		uint32_t w = htonl(word()), at = any(len / 4) * 4;

		if (any(2))
			memcpy(buf + at, &w, 4);
		else
			buf[any(len)] ^= (uint8_t)(1u << any(8));
	}
}

static uint32_t make_message(struct lie *l, uint8_t *buf, uint32_t cap)
{
	uint32_t len, i;

	switch (any(8)) {
	case 0:
		for (i = 0, len = any(cap + 1); i < len; i++)
			buf[i] = (uint8_t)any(256);
		return len;
	case 1:
		if (!l->nseen)
			return 0;
		i = any(rr_min(l->nseen, SEEN));
		len = rr_min(l->seen[i].len, cap);
		memcpy(buf, l->seen[i].bytes, len);
		mutate(buf, any(2) ? len : 0);
		return len;
	case 2:
		len = put_msg(l, buf, cap);
		mutate(buf, len);
		return len;
	case 3:
		return any(put_msg(l, buf, cap) + 1);
	case 4:
		return put_many(l, buf, cap);
	default:
		return put_msg(l, buf, cap);
	}
}

static void say_something(struct lie *l)
{
	static uint8_t buf[65536];
	uint32_t cap = rr_min(l->qp->send_size, (uint32_t)sizeof(buf)), len;
	struct iovec iov = { buf, 0 };
	int rc = -EAGAIN;

	for (int i = 0; i < 20 && rc == -EAGAIN; i++) {
		if (i)
			usleep(200);
		if (!any(40)) {
			static const uint32_t imm[] = { RR_IMM_NOTE, 0, 0xffffffff, RR_IMM_HATCH };

			rc = ops->send_imm(l->qp, imm[any(any(4) ? 3 : 4)], 0);
			continue;
		}
		len = make_message(l, buf, cap);
		iov.iov_len = len;
		rc = ops->send(l->qp, &iov, 1, 0, any(8) ? 0 : word());
	}
	messages += rc >= 0;
	ops->kick(l->qp);
}

/* --- what else is done --- */

static void listen_to_it(struct lie *l)
{
	struct rr_wc wc[8];
	int n = ops->poll(l->qp, wc, 8);

	for (int i = 0; i < n; i++) {
		if (wc[i].op != RR_WC_RECV)
			continue;
		if (wc[i].len && wc[i].len <= sizeof(l->seen[0].bytes)) {
			memcpy(l->seen[l->nseen % SEEN].bytes, wc[i].buf, wc[i].len);
			l->seen[l->nseen++ % SEEN].len = wc[i].len;
		}
		if (any(16))
			ops->repost(l->qp, wc[i].cookie);
	}
	ops->kick(l->qp);
}

/* Both regions are mapped writable here: nothing can keep a peer from this. */
static void scribble(struct lie *l)
{
	struct rr_shm *q = rr_shm_of(l->qp);
	struct rr_shm_view *v = any(2) ? &q->own : &q->peer;
	struct rr_shm_slot *s = rr_shm_slot(v, any(any(2) ? v->geo.slots : rr_min(v->geo.slots, 8u)));

	switch (any(5)) {
	case 4:	/* where memory is that the next message may name */
		if (l->nsegs) {
			struct rr_shm_key *k = key_of(l, &l->segs[any(rr_min(l->nsegs, 8u))]);

			k->offset = any(2) ? word() : (uint64_t)word() << 24;
			k->length = word();
		}
		break;
	case 0:	/* the control page and the keys */
		((_Atomic uint32_t *)v->berth.at)[any((uint32_t)v->geo.ring_off / 4)] = word();
		break;
	case 1:
		s->len = word();
		s->arg = word();
		s->seq = any(2) ? rr_shm_seq(any(256)) : word();
		break;
	case 2:	/* messages that are there */
		for (uint32_t i = 0, n = any(64); i < n; i++)
			if (any(2))
				s->data[any(RR_SHM_SHORT)] ^= (uint8_t)any(256);
			else
				rr_shm_long(v, (uint32_t)(s - v->ring))[any(v->geo.recv_size)] ^= (uint8_t)any(256);
		break;
	default:
		for (uint32_t i = 0, n = any(64); i < n; i++)
			v->mem[any(1u << 19)] = (uint8_t)any(256);
	}
}

static void nonsense_on_tcp(struct lie *l)
{
	uint8_t b[64];
	uint32_t n = any(2) ? RR_MARK_LEN : 1 + any(64);

	for (uint32_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)any(256);
	if (any(2))
		rr_nego_put_mark(b, l->token, any(2) ? any(100) : rng_next(&seed));
	send(l->fd, b, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void lie(struct lie *l)
{
	bool scribbles = any(2);
	uint32_t n = 1 + any(150);

	connections++;
	for (uint32_t i = 0; i < n && !rr_shm_of(l->qp)->err && !rr_shm_of(l->qp)->lost; i++) {
		listen_to_it(l);
		say_something(l);
		if (scribbles && !any(3))
			scribble(l);
		if (!any(100))
			nonsense_on_tcp(l);
		if (!any(8))
			usleep(any(500));
	}
	if (!any(3))
		nonsense_on_tcp(l);
	if (!any(3)) {
		struct linger now = { 1, 0 };

		setsockopt(l->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	}
	if (any(2))
		shutdown(l->fd, SHUT_RDWR);
}

/* --- coming together --- */

static struct lie *new_lie(struct up *u, int fd, const uint8_t *token)
{
	static struct lie l;

	memset(&l, 0, sizeof(l));
	up_new(u, fd, token, 4096, 80);
	memcpy(l.token, token, RR_TOKEN_LEN);
	l.fd = fd;
	l.qp = u->qp;
	return &l;
}

static void random_token(uint8_t *t)
{
	for (uint32_t i = 0; i < RR_TOKEN_LEN; i++)
		t[i] = (uint8_t)any(256);
}

/* True numbers, or such as nobody would say. */
static void numbers(const struct up *u, struct rr_hello *h)
{
	up_hello(u, h);
	if (!any(4))
		h->caps = word();
	if (any(4))
		return;
	h->credits = word();
	h->bc_credits = word();
	h->max_msg = word();
}

static void as_client(const struct sockaddr_in *to)
{
	int fd = rpc_connect(to);
	uint8_t token[RR_TOKEN_LEN];
	struct rr_hello h;
	struct lie *l;
	struct up u;

	if (fd < 0)
		exit(2);
	random_token(token);
	l = new_lie(&u, fd, token);
	numbers(&u, &h);
	if (up_offer(&u, &h) && up_join(&u))
		lie(l);
	up_close(&u);
}

static void as_server(int listener)
{
	int fd = accept(listener, NULL, NULL);
	struct rr_hello offer, h;
	struct lie *l;
	struct up u;
	uint32_t xid;

	if (!up_heard(fd, &offer, &xid)) {
		close(fd);
		return;
	}
	l = new_lie(&u, fd, offer.token);
	numbers(&u, &h);
	if (up_answer(&u, &offer, xid, &h))
		lie(l);
	up_close(&u);
}

int main(int argc, char **argv)
{
	struct sockaddr_in a;
	bool client = argc == 5 && !strcmp(argv[1], "client");
	int fd;

	if (client) {
		time_t end = time(NULL) + atoi(argv[4]);

		seed = strtoull(argv[3], NULL, 0);
		a = rpc_address("127.0.0.1", atoi(argv[2]));
		while (time(NULL) < end)
			as_client(&a);
		printf("connections %lu messages %lu\n", connections, messages);
		return 0;
	}
	if (argc != 4)
		return 64;
	seed = strtoull(argv[3], NULL, 0);
	a = rpc_address("127.0.0.1", atoi(argv[2]));
	fd = rpc_listen(&a);
	if (fd < 0)
		return 2;
	for (;;)
		as_server(fd);
}
