/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FUZZ_CONN_PUPPET_H
#define RR_FUZZ_CONN_PUPPET_H

/* The input as a program, and what a hostile end does with its queue pair and its TCP
 * connection. It knows all that an honest end knows: the token, the keys that were exposed to
 * it, the xid of an offer. */

#include <string.h>
#include <sys/socket.h>

#include "core/base/ident.h"
#include "core/conn/enter.h"
#include "core/prov/fake/fake.h"
#include "core/wire/advance.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/fakenet.h"

/* An op per byte, its operands after it, zeroes past the end. */
struct prog {
	const uint8_t *p;
	size_t len;
};

static inline uint32_t get(struct prog *g, unsigned bytes)
{
	uint32_t v = 0;

	for (; bytes; bytes--) {
		v = v << 8 | (g->len ? *g->p : 0);
		if (g->len) {
			g->p++;
			g->len--;
		}
	}
	return v;
}

/* A number as peers say it: mostly small, at times at the edges. */
static uint32_t odd_number(struct prog *g)
{
	static const uint32_t edges[] = { 0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffc, 65536, 4096 };
	uint32_t v = get(g, 1);

	return v < 240 ? v : v < 248 ? edges[v & 7] : get(g, 4);
}

/* Segments that the victim has exposed, or others. */
static uint32_t puppet_segs(struct prog *g, const struct rr_qp *victim, uint8_t *at, bool reads)
{
	uint32_t how = get(g, 1), len = 0;

	for (uint32_t n = how % 4; n; n--) {
		struct rr_seg s = { .handle = get(g, 1), .length = odd_number(g) * 16, .offset = odd_number(g) };

		if (how & 4)
			rr_fake_key(victim, get(g, 1) % 8, &s);
		if (reads)
			len += WORDS(at + len, 1, how & 8 ? odd_number(g) : 0);
		len += WORDS(at + len, s.handle, how & 16 ? odd_number(g) : s.length, (uint32_t)(s.offset >> 32),
			     (uint32_t)s.offset);
	}
	return len;
}

static uint32_t puppet_counted(struct prog *g, const struct rr_qp *victim, uint8_t *at)
{
	uint32_t len = puppet_segs(g, victim, at + 4, false);

	rr_put_be32(at, get(g, 1) > 250 ? odd_number(g) : len / 16);
	return 4 + len;
}

/* A transport header of version 1 or 2 with chunk lists, and an RPC message of a few words
 * behind it. */
static uint32_t puppet_message(struct prog *g, const struct rr_qp *victim, uint8_t *at)
{
	uint32_t how = get(g, 1), xid = 100 + get(g, 1) % 16, len, list = get(g, 1);

	len = WORDS(at, xid, 1 + (how >> 3 & 1), odd_number(g), how & 16 ? odd_number(g) : how & 7);
	if (how >> 3 & 1)
		len += WORDS(at + len, how >> 7);
	if ((how & 7) == 4)
		return len + WORDS(at + len, odd_number(g), odd_number(g), odd_number(g));
	if (list & 1)
		len += puppet_segs(g, victim, at + len, true);
	len += WORDS(at + len, 0);
	if (list & 2) {
		len += WORDS(at + len, 1);
		len += puppet_counted(g, victim, at + len);
	}
	len += WORDS(at + len, 0, !!(list & 4));
	if (list & 4)
		len += puppet_counted(g, victim, at + len);
	if (how & 128)
		len += WORDS(at + len, xid, 1, 0, 0, 0, 0);
	else if (how & 64)
		len += WORDS(at + len, xid, 0, 2, 0x20005244, 1, 1, 0, 0, 0, 0);
	for (uint32_t n = list >> 3; n; n--)
		at[len++] = (uint8_t)n;
	return len;
}

static void puppet_send(struct prog *g, struct rr_qp *qp, const struct rr_qp *victim)
{
	uint8_t msg[1024] = { 0 };
	uint32_t len, how = get(g, 1), inv = 0;
	struct rr_seg s;

	if (how & 1) {
		len = puppet_message(g, victim, msg);
		for (uint32_t n = how >> 5; n; n--) {
			uint32_t at = get(g, 2);

			msg[at % len] = (uint8_t)get(g, 1);
		}
	} else {
		for (len = 0; len < how >> 1; len++)
			msg[len] = (uint8_t)get(g, 1);
	}
	if ((how & 0x18) == 0x18 && rr_fake_key(victim, get(g, 1) % 4, &s))
		inv = s.handle;
	len = rr_min(len, qp->send_size);
	qp->ops->send(qp, &(struct iovec){ msg, len }, 1, 0, inv);
}

static void puppet_imm(struct prog *g, struct rr_qp *qp)
{
	static const uint32_t known[] = { RR_IMM_HATCH, RR_IMM_NOTE, RR_IMM_BACK };
	uint32_t how = get(g, 1);

	qp->ops->send_imm(qp, how < 240 ? known[how % 3] : get(g, 4), 0);
}

/* A note of a piece of a message, in memory of its own or in none. */
static void puppet_note(struct prog *g, struct rr_qp *qp)
{
	uint32_t how = get(g, 1), len = how & 1 ? RR_ADVANCE_LEN : get(g, 1) % RR_PROV_NOTE;
	struct rr_advance a = { .xid = get(g, 1), .at = odd_number(g), .mark = odd_number(g) };
	uint8_t note[RR_PROV_NOTE] = { 0 };

	if (how & 2)
		a.mark |= how & 4 ? RR_RM_LAST : 0x10000;
	a.seg = (struct rr_seg){ .handle = get(g, 1), .length = odd_number(g), .offset = odd_number(g) };
	if (how & 8)
		qp->ops->expose(qp, qp->mem, (uint32_t)rr_min(qp->mem_size, (size_t)65536), RR_RIGHT_READ, &a.seg);
	if (how & 16)
		a.seg.length = odd_number(g) * 64;
	rr_advance_put(&a, note);
	qp->ops->send_note(qp, how < 240 ? RR_IMM_ADVANCE : get(g, 4), note, len);
}

/* The hatch, with what it says that it has told of a message. */
static void puppet_hatch(struct prog *g, struct rr_qp *qp)
{
	uint32_t how = get(g, 1), len;
	struct rr_advances all = { .xid = get(g, 1), .mark = odd_number(g), .nsegs = how & 3 };
	uint8_t note[RR_ADVANCES_MAX];

	for (uint32_t i = 0; i < all.nsegs; i++) {
		all.seg[i] = (struct rr_seg){ .handle = get(g, 1), .length = odd_number(g), .offset = odd_number(g) };
		all.len += all.seg[i].length;
	}
	if (how & 4)
		all.len = odd_number(g);
	len = rr_advances_put(&all, note);
	qp->ops->send_note(qp, RR_IMM_HATCH, note, how & 8 ? get(g, 1) % RR_ADVANCES_MAX : len);
}

/* RDMA Reads and Writes of what it was given keys for. */
static void puppet_rdma(struct prog *g, struct rr_qp *qp, const struct rr_qp *victim)
{
	uint32_t how = get(g, 1), len;
	struct rr_seg s;

	if (!qp->mem || !rr_fake_key(victim, how >> 1 & 7, &s))
		return;
	len = rr_min(get(g, 1) * 16, rr_min(s.length, (uint32_t)qp->mem_size));
	memset(qp->mem, (int)how, len);
	if (how & 1)
		qp->ops->write(qp, qp->mem, len, &s, 0, 0);
	else
		qp->ops->read(qp, qp->mem, len, &s, 0, 0);
}

/* Takes what came, and gives the buffers back or not. */
static void puppet_receive(struct prog *g, struct rr_qp *qp)
{
	uint32_t how = get(g, 1);
	struct rr_wc wc[4];
	int n = qp->ops->poll(qp, wc, 1 + (int)(how & 3));

	for (int i = 0; i < n; i++)
		if (wc[i].op == RR_WC_RECV && !(how & 4))
			qp->ops->repost(qp, wc[i].cookie);
}

/* --- the TCP connection ----------------------------------------------------------------------- */

static void puppet_mark(struct prog *g, const uint8_t *token, int fd)
{
	uint8_t mark[RR_MARK_LEN];
	uint32_t how = get(g, 1);

	rr_nego_put_mark(mark, token, how & 1 ? odd_number(g) : get(g, 1) % 8);
	if (how & 2)
		mark[get(g, 1) % RR_MARK_LEN] ^= (uint8_t)(1 + get(g, 1));
	fakenet_send(fd, mark, how & 4 ? get(g, 1) % RR_MARK_LEN : RR_MARK_LEN);
}

static void odd_hello(struct prog *g, struct rr_hello *h, const uint8_t *token)
{
	uint32_t how = get(g, 1);

	*h = (struct rr_hello){
		.version = how & 64 ? get(g, 1) : RR_NEGO_VERSION, .caps = get(g, 1), .inline_size = odd_number(g) * 64, .recvs = odd_number(g),
		.credits = odd_number(g), .bc_credits = odd_number(g), .max_msg = odd_number(g) * 1024,
		.dialects = how & 1 ? get(g, 4) : 0, .nprov = how >> 1 & 3,
	};
	memcpy(h->token, token, RR_TOKEN_LEN);
	if (how & 8)
		h->token[0] ^= 1;
	for (uint32_t i = 0; i < h->nprov; i++) {
		h->prov[i].id = how & 16 ? (uint8_t)get(g, 1) : 3;
		h->prov[i].addr.len = (uint16_t)(how & 32 ? get(g, 1) % RR_PROV_ADDR : 0);
	}
}

/* Where the puppet is, truly, without which no server listens to the rest. */
static void true_place(struct rr_hello *h, int fd)
{
	struct sockaddr_in6 local = { 0 }, peer = { 0 };
	socklen_t llen = sizeof(local), plen = sizeof(peer);

	rr_os->getsockname(fd, (struct sockaddr *)&local, &llen);
	rr_os->getpeername(fd, (struct sockaddr *)&peer, &plen);
	rr_host_id(h->token, h->host);
	rr_ends_id(h->token, (struct sockaddr *)&local, (struct sockaddr *)&peer, h->ends);
}

/* An offer, or the answer to the victim's. */
static void puppet_hello(struct prog *g, const struct rr_conn *victim, const uint8_t *token, int fd)
{
	uint8_t buf[RR_OFFER_MAX];
	struct rr_hello h;
	uint32_t len;

	odd_hello(g, &h, token);
	if (victim->face.server) {
		if (get(g, 1) & 7)
			true_place(&h, fd);
		len = rr_nego_put_offer(&h, rr_cp->program, 77, buf, sizeof(buf));
	} else if (h.nprov) {
		h.nprov = 1;
		len = rr_nego_put_answer(&h, victim->xid, buf, sizeof(buf));
	} else {
		len = rr_nego_put_refusal(h.caps & 1 ? RR_NEGO_ELSEWHERE : RR_NEGO_DECLINED, victim->xid, NULL, buf, sizeof(buf));
	}
	len -= rr_min(len, get(g, 1) / 16);
	fakenet_send(fd, buf, len);
}

static void puppet_tcp(struct prog *g, const struct rr_conn *victim, const uint8_t *token, int fd)
{
	uint32_t how = get(g, 1);
	uint8_t b[64];

	switch (how & 7) {
	case 0:
		puppet_mark(g, token, fd);
		break;
	case 1:
		fakenet_shutdown(fd, SHUT_WR);
		break;
	case 2:
		fakenet_reset();
		break;
	case 3: case 4:
		puppet_hello(g, victim, token, fd);
		break;
	case 5:
		fakenet_recv(fd, b, sizeof(b), 0);
		break;
	default:
		for (uint32_t i = 0; i < how >> 3; i++)
			b[i] = (uint8_t)get(g, 1);
		fakenet_send(fd, b, how >> 3);
	}
}

/* own: the hostile end, whose queue pair it uses if there is one. victim: the other end, or
 * NULL when it is closed. */
static void puppet_act(struct prog *g, struct rr_conn *own, struct rr_conn *victim, int fd)
{
	static const uint8_t nobody[RR_TOKEN_LEN];
	uint32_t what = get(g, 1);
	bool carried = rr_conn_is_carried(own) && victim && rr_conn_is_carried(victim);
	struct rr_qp *qp = carried ? own->share->qp : NULL;

	if (!victim)
		return;
#ifdef FUZZ_ANCHOR
	if (carried && what & 8)
		return what & 16 ? puppet_imm(g, qp) : puppet_tcp(g, victim, victim->share->token, fd);
#endif
	if (!carried)
		return puppet_tcp(g, victim, victim->share ? victim->share->token : nobody, fd);
	switch (what & 7) {
	case 0: case 1: case 2: return puppet_send(g, qp, victim->share->qp);
	case 3:
		return what & 8 ? puppet_note(g, qp) : what & 16 ? puppet_hatch(g, qp) : puppet_imm(g, qp);
	case 4: return puppet_rdma(g, qp, victim->share->qp);
	case 5: return puppet_receive(g, qp);
	default: return puppet_tcp(g, victim, victim->share->token, fd);
	}
}

#endif
