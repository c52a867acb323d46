/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"
#include "tests/lib/twopeers.h"

#define STEP	RR_USEC

uint64_t tp_random(struct tp *tp)
{
	tp->rng ^= tp->rng << 13;
	tp->rng ^= tp->rng >> 7;
	tp->rng ^= tp->rng << 17;
	return tp->rng;
}

static bool percent(struct tp *tp, uint32_t n)
{
	return n && tp_random(tp) % 100 < n;
}

static void wrong(struct tp *tp, const char *fmt, ...)
{
	va_list ap;

	if (tp->error[0])
		return;
	va_start(ap, fmt);
	vsnprintf(tp->error, sizeof(tp->error), fmt, ap);
	va_end(ap);
}

/* --- messages -------------------------------------------------------------------------- */

static void put32(uint8_t *at, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(at, &v, sizeof(v));
}

static uint64_t word(uint64_t seed, uint32_t i)
{
	uint64_t z = seed + i * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	return z ^ (z >> 31);
}

/* A message's bytes: a window into fixed noise, its place given by the message's number. */
#define NOISE	65536u
#define MSG_MAX	(4u << 20)
static uint8_t noise[NOISE + MSG_MAX];

static void make_noise(void)
{
	uint64_t w;

	for (uint32_t i = 0; i < sizeof(noise) && !noise[sizeof(noise) - 1]; i += 8) {
		w = word(1, i) | UINT64_C(1) << 63;
		memcpy(noise + i, &w, 8);
	}
}

static const uint8_t *pattern(const struct tp_msg *m)
{
	return noise + m->seed % NOISE;
}

#define HEAD_MAX	256u
#define NO_BINDING	0x20005244u

static bool is_nfs(const struct tp_msg *m)
{
	return m->proc >= TP_NFS3;
}

/* Words appended at *n. */
static void add(uint8_t *at, uint32_t *n, uint32_t count, const uint32_t *w)
{
	for (uint32_t i = 0; i < count; i++, *n += 4)
		put32(at + *n, w[i]);
}
#define ADD(at, n, ...) add((at), (n), rr_array_size(((const uint32_t[]){ __VA_ARGS__ })), \
			    (const uint32_t[]){ __VA_ARGS__ })

/* RFC 1813 §3.3.6, §3.3.7, §3.3.16: file handle, offset, and so on, up to the data */
static void nfs_args(const struct tp_msg *m, uint8_t *at, uint32_t *n)
{
	ADD(at, n, 32, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0);
	if (m->proc == TP_WRITE)
		ADD(at, n, m->data, 2, m->data);
	else if (m->proc == TP_READ)
		ADD(at, n, m->data);
	else
		ADD(at, n, 0, 0, m->data);
}

static void nfs_results(const struct tp_msg *m, uint8_t *at, uint32_t *n)
{
	if (m->proc == TP_WRITE) {
		ADD(at, n, 0, 0, 0, m->data, 2, 0, 0);
	} else if (m->proc == TP_READ && m->data == TP_NO_DATA) {
		ADD(at, n, 70, 0);
	} else if (m->proc == TP_READ) {
		ADD(at, n, 0, 1);
		ADD(at, n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21);
		ADD(at, n, m->data, 1, m->data);
	}
}

/* The bytes before the noise. */
static uint32_t header(const struct tp_msg *m, uint8_t at[HEAD_MAX])
{
	uint32_t n = 0;

	ADD(at, &n, m->xid, m->type);
	if (m->type == RR_RPC_REPLY)
		ADD(at, &n, 0, 0, 0, 0);
	else if (is_nfs(m))
		ADD(at, &n, 2, 100003, 3, m->proc - TP_NFS3, 0, 0, 0, 0);
	else
		ADD(at, &n, 2, NO_BINDING, 3, m->proc, 0, 0, 0, 0);
	if (is_nfs(m) && m->type == RR_RPC_CALL)
		nfs_args(m, at, &n);
	else if (is_nfs(m))
		nfs_results(m, at, &n);
	return n;
}

/* The data of an NFS message, which is noise too. */
static bool has_data(const struct tp_msg *m)
{
	return m->data != TP_NO_DATA &&
	       ((m->proc == TP_READ && m->type == RR_RPC_REPLY) ||
		(m->proc == TP_WRITE && m->type == RR_RPC_CALL));
}

static void make(const struct tp_msg *m, uint8_t *at)
{
	uint8_t head[HEAD_MAX];
	uint32_t n = rr_min(header(m, head), m->len);

	memcpy(at, head, n);
	memcpy(at + n, pattern(m), m->len - n);
	if (has_data(m))
		memset(at + n + m->data, 0, rr_ulb_pad(m->data));
}

/* len: of the message, or of an NFS one its data. */
static void measure(struct tp_msg *m, uint32_t len)
{
	uint8_t head[HEAD_MAX];

	m->len = len;
	m->data = is_nfs(m) ? len : 0;
	if (!is_nfs(m) || (m->proc == TP_READDIR && m->type == RR_RPC_REPLY))
		return;
	m->len = header(m, head);
	if (has_data(m))
		m->len += len + rr_ulb_pad(len);
}

static bool same(const struct tp_msg *m, const uint8_t *at)
{
	uint8_t *want = malloc(m->len);
	bool ok;

	make(m, want);
	ok = memcmp(at, want, m->len) == 0;
	free(want);
	return ok;
}

static void push(struct tp *tp, struct tp_queue *q, const struct tp_msg *m)
{
	if (q->tail - q->head == TP_LOG)
		wrong(tp, "test queue full");
	q->msg[q->tail++ % TP_LOG] = *m;
}

bool tp_recv(struct tp *tp, int side, struct tp_msg *out)
{
	struct tp_queue *q = &tp->peer[side].inbox;

	if (q->head == q->tail)
		return false;
	*out = q->msg[q->head++ % TP_LOG];
	return true;
}

uint32_t tp_unread(const struct tp *tp, int side)
{
	const struct tp_queue *in = &tp->peer[side].inbox, *out = &tp->peer[!side].sent;

	return in->tail - in->head + out->tail - out->head + tp->peer[side].npulls;
}

/* --- buffers --------------------------------------------------------------------------- */

static bool blocks_free(const struct tp_peer *p, uint32_t at, uint32_t n)
{
	if (at + n > p->nblocks)
		return false;
	return !memchr(p->blocks + at, 1, n);
}

static uint32_t blocks_of(uint32_t len)
{
	return (len + TP_BLOCK - 1) / TP_BLOCK;
}

static uint32_t buf_new(struct tp_peer *p, uint32_t len)
{
	uint32_t n = blocks_of(len), b = 0, at;

	if (n > p->free_blocks)
		return RR_BUF_NONE;
	while (b < TP_BUFS && p->buf[++p->next_buf % TP_BUFS].used)
		b++;
	b = b < TP_BUFS ? p->next_buf % TP_BUFS : TP_BUFS;
	for (uint32_t i = 0; b < TP_BUFS && i < p->nblocks; i++) {
		at = (p->next_block + i) % p->nblocks;
		if (!blocks_free(p, at, n))
			continue;
		memset(p->blocks + at, 1, n);
		p->next_block = (at + n) % p->nblocks;
		p->free_blocks -= n;
		p->buf[b] = (struct tp_buf){ .used = true, .at = p->qp->mem + at * TP_BLOCK, .len = len };
		return b;
	}
	return RR_BUF_NONE;
}

static void buf_put(struct tp_peer *p, uint32_t b)
{
	struct tp_buf *buf = &p->buf[b];

	if (b >= TP_BUFS || !buf->used) {
		wrong(p->tp, "side %d: buffer %u released twice", p->side, b);
		return;
	}
	memset(buf->at, 0xdd, buf->len);	/* who still reads it will be seen */
	memset(p->blocks + (buf->at - p->qp->mem) / TP_BLOCK, 0, blocks_of(buf->len));
	p->free_blocks += blocks_of(buf->len);
	buf->used = false;
}

/* --- pending operations ---------------------------------------------------------------- */

static struct tp_pend *pend_new(struct tp_peer *p, uint32_t id)
{
	uint32_t i = 0;

	while (i < TP_PENDS && p->pend[++p->next_pend % TP_PENDS].left)
		i++;
	if (i == TP_PENDS)
		abort();
	i = p->next_pend % TP_PENDS;
	p->pend[i] = (struct tp_pend){ .id = id, .left = 1 };
	return &p->pend[i];
}

static uint64_t cookie_of(const struct tp_peer *p, const struct tp_pend *d)
{
	return (uint64_t)(d - p->pend) + 1;
}

static void pull_progress(struct tp_peer *p, struct tp_pull *u);

static void pend_end(struct tp_peer *p, struct tp_pend *d)
{
	if (--d->left > 0)
		return;
	free(d->hdr);
	d->hdr = NULL;
	if (d->fenced)
		p->buf[d->fenced - 1].nkeys = 0;
	if (d->pull) {
		p->pull[d->pull - 1].reading = false;
		pull_progress(p, &p->pull[d->pull - 1]);
	} else if (d->id) {
		rr_eng_done(p->eng, d->id, d->status, p->tp->now);
	}
}

/* What a post call returned. */
static void posted(struct tp_peer *p, struct tp_pend *d, int rc)
{
	if (rc == -ECONNRESET)
		p->dead = true;
	else if (rc < 0)
		wrong(p->tp, "side %d: post failed: %d", p->side, rc);
	if (rc == 0)
		d->left++;
}

/* --- pulls ----------------------------------------------------------------------------- */

static void pull_read(struct tp_peer *p, struct tp_pull *u, uint32_t from, uint32_t to)
{
	struct tp_pend *d = pend_new(p, 0);
	uint32_t at = 0;

	d->pull = (uint32_t)(u - p->pull) + 1;
	u->reading = true;
	for (uint32_t i = 0; i < u->nsegs && !p->dead; i++) {
		uint32_t lo = rr_max(at, from), hi = rr_min(at + u->segs[i].length, to);

		if (lo < hi)
			posted(p, d, p->qp->ops->read(p->qp, p->buf[u->buf].at + lo, hi - lo,
						      &u->segs[i], lo - at, cookie_of(p, d)));
		at += u->segs[i].length;
	}
	pend_end(p, d);
}

/* Puts the Payload stream around the parts. */
static void compose(struct tp_pull *u, uint8_t *at)
{
	const uint8_t *from = u->recv ? u->recv : at;
	uint8_t *stream = malloc(u->stream);
	uint32_t to = 0, done = 0;

	memcpy(stream, from, u->stream);
	memset(at, 0, u->len);
	for (uint32_t i = 0; i <= u->nparts; i++) {
		uint32_t end = i < u->nparts ? u->parts[i].off : u->len;

		memcpy(at + to, stream + done, end - to);
		done += end - to;
		if (i < u->nparts)
			to = end + u->parts[i].len + rr_ulb_pad(u->parts[i].len);
	}
	free(stream);
}

static void compose_read(struct tp_peer *p, struct tp_pull *u)
{
	struct tp_pend *d = pend_new(p, 0);
	uint32_t seg = 0, off = 0;

	compose(u, p->buf[u->buf].at);
	d->pull = (uint32_t)(u - p->pull) + 1;
	u->reading = true;
	for (uint32_t i = 0; i < u->nparts; i++) {
		uint32_t at = u->parts[i].off, end = at + u->parts[i].len;

		while (at < end && !p->dead) {
			uint32_t n = rr_min(u->segs[seg].length - off, end - at);

			if (n)
				posted(p, d, p->qp->ops->read(p->qp, p->buf[u->buf].at + at, n,
							      &u->segs[seg], off, cookie_of(p, d)));
			at += n;
			off += n;
			if (off == u->segs[seg].length) {
				seg++;
				off = 0;
			}
		}
	}
	pend_end(p, d);
}

static void pull_fetch(struct tp_peer *p, struct tp_pull *u)
{
	if (u->composing)
		compose_read(p, u);
	else
		pull_read(p, u, 0, u->head);
}

/* Memory goes to pulls in the order of their arrival: they are delivered in that order too,
 * and a later one must not keep what an earlier one needs. */
static void pull_start(struct tp_peer *p, struct tp_pull *u)
{
	u->buf = p->nstarved ? RR_BUF_NONE : buf_new(p, u->room);
	u->starved = u->buf == RR_BUF_NONE;
	if (u->starved)
		p->nstarved++;
	else
		pull_fetch(p, u);
}

static void pull_end(struct tp_peer *p, struct tp_pull *u)
{
	buf_put(p, u->buf);
	u->used = false;
	p->npulls--;
}

static void feed_starved(struct tp_peer *p)
{
	struct tp_pull *first = NULL;

	for (uint32_t i = 0; i < TP_PULLS; i++)
		if (p->pull[i].used && p->pull[i].starved && (!first || p->pull[i].seq < first->seq))
			first = &p->pull[i];
	first->buf = buf_new(p, first->room);
	if (first->buf == RR_BUF_NONE)
		return;
	first->starved = false;
	p->nstarved--;
	pull_fetch(p, first);
}

static void pull_finish(struct tp_peer *p, struct tp_pull *u)
{
	if (!same(&u->msg, p->buf[u->buf].at))
		wrong(p->tp, "side %d: pulled bytes differ, xid %x", p->side, u->msg.xid);
	push(p->tp, &p->inbox, &u->msg);
	pull_end(p, u);
}

static void pull_progress(struct tp_peer *p, struct tp_pull *u)
{
	if (!u->used || u->reading || u->starved || p->dead)
		return;
	if (u->composing) {
		u->composing = false;
		u->pulled = true;
		rr_eng_pulled(p->eng, u->id, 0, p->tp->now);
		return;
	}
	if (!u->headed) {
		u->headed = true;
		rr_eng_head(p->eng, u->id, 0, p->buf[u->buf].at, u->head, p->tp->now);
		if (u->head == u->len) {
			u->pulled = true;
			rr_eng_pulled(p->eng, u->id, 0, p->tp->now);
		}
		return;
	}
	if (!u->delivered)
		return;
	if (u->pulled) {
		pull_finish(p, u);
	} else if (u->head < u->len) {
		if (percent(p->tp, p->tp->conf.slow))
			return;
		uint32_t from = u->head;

		u->head = u->len;
		pull_read(p, u, from, u->len);
	} else {
		u->pulled = true;
		rr_eng_pulled(p->eng, u->id, 0, p->tp->now);
		pull_finish(p, u);
	}
}

static struct tp_pull *pull_find(struct tp_peer *p, uint32_t id)
{
	for (uint32_t i = 0; i < TP_PULLS; i++)
		if (p->pull[i].used && p->pull[i].id == id)
			return &p->pull[i];
	return NULL;
}

static struct tp_pull *pull_new(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_pull *u = p->pull;

	while (u < p->pull + TP_PULLS && u->used)
		u++;
	if (u == p->pull + TP_PULLS)
		abort();
	*u = (struct tp_pull){ .used = true, .id = op->id, .len = op->len, .nsegs = op->nsegs };
	memcpy(u->segs, op->segs, op->nsegs * sizeof(*op->segs));
	u->room = rr_max(op->len, op->room);
	u->seq = ++p->pull_seq;
	p->npulls++;
	return u;
}

static void do_pull(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_pull *u = pull_new(p, op);

	u->head = op->room || tp_random(p->tp) % 2 ? op->len : rr_min(op->len, op->head);
	pull_start(p, u);
}

static void do_compose(struct tp_peer *p, const struct rr_op *op)
{
	bool fresh = op->from == RR_FROM_RECV;
	struct tp_pull *u = fresh ? pull_new(p, op) : pull_find(p, op->id);

	u->composing = true;
	u->headed = true;
	u->recv = fresh ? p->recv[op->token] + op->off : NULL;
	u->len = op->len;
	u->stream = op->stream;
	u->nparts = op->nparts;
	memcpy(u->parts, op->parts, op->nparts * sizeof(*op->parts));
	u->nsegs = op->nsegs;
	memcpy(u->segs, op->segs, op->nsegs * sizeof(*op->segs));
	if (fresh)
		pull_start(p, u);
	else
		pull_fetch(p, u);
}

/* --- operations ------------------------------------------------------------------------ */

static bool lost_done(struct tp_peer *p, const struct rr_op *op)
{
	return op->id == 0 && op->hdr_len >= 16 && op->hdr[15] == 3 &&
	       percent(p->tp, p->tp->conf.lose_done);
}

static void do_send(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_pend *d;
	struct iovec iov[1 + RR_OP_MAX_PARTS] = { 0 };
	int n = 1;

	if (lost_done(p, op))
		return;
	if (op->hdr_len + op->len > p->qp->send_size)
		wrong(p->tp, "side %d: Send of %u bytes", p->side, op->hdr_len + op->len);
	d = pend_new(p, op->id);
	d->hdr = malloc(op->hdr_len);
	memcpy(d->hdr, op->hdr, op->hdr_len);
	iov[0] = (struct iovec){ d->hdr, op->hdr_len };
	for (uint32_t i = 0; i < op->nparts; i++)
		iov[n++] = (struct iovec){ p->buf[op->buf].at + op->parts[i].off, op->parts[i].len };
	if (op->len && !op->nparts)
		iov[n++] = (struct iovec){ p->buf[op->buf].at, op->len };
	posted(p, d, p->qp->ops->send(p->qp, iov, n, cookie_of(p, d), op->inv_handle));
	pend_end(p, d);
}

static void do_expose(struct tp_peer *p, const struct rr_op *op)
{
	uint32_t b = op->buf, n = 1, at = op->off, end = op->off + op->len;
	struct rr_seg segs[4];
	struct tp_buf *buf;

	if (percent(p->tp, p->tp->conf.scarce) ||
	    (b == RR_BUF_NEW && (b = buf_new(p, op->room)) == RR_BUF_NONE)) {
		rr_eng_exposed(p->eng, op->id, -EAGAIN, 0, NULL, 0, p->tp->now);
		return;
	}
	buf = &p->buf[b];
	if (op->len > 8)
		n += tp_random(p->tp) % 4;
	buf->nkeys = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = i + 1 < n ? op->len / n : end - at;

		if (p->qp->ops->expose(p->qp, buf->at + at, len, op->rights, &segs[i]))
			wrong(p->tp, "side %d: no key", p->side);
		buf->keys[buf->nkeys++] = segs[i].handle;
		at += len;
	}
	rr_eng_exposed(p->eng, op->id, 0, b, segs, n, p->tp->now);
}

static void do_write(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_pend *d = pend_new(p, op->id);
	uint32_t at = op->off;

	for (uint32_t i = 0; i < op->nsegs && !p->dead; i++) {
		posted(p, d, p->qp->ops->write(p->qp, p->buf[op->buf].at + at, op->segs[i].length,
					       &op->segs[i], 0, cookie_of(p, d)));
		at += op->segs[i].length;
	}
	if (at - op->off != op->len)
		wrong(p->tp, "side %d: Write of %u bytes into %u", p->side, op->len, at);
	pend_end(p, d);
}

/* What the peer has written stays; the rest goes around it. */
static void do_place(struct tp_peer *p, const struct rr_op *op)
{
	const uint8_t *stream = p->recv[op->token] + op->off;
	uint8_t *at = p->buf[op->buf].at + op->at;
	uint32_t end = op->parts[0].off + op->parts[0].len, pad = rr_ulb_pad(op->parts[0].len);

	if (p->buf[op->buf].nkeys)
		wrong(p->tp, "side %d: placed before it was fenced", p->side);
	if (op->at + op->len > p->buf[op->buf].len)
		wrong(p->tp, "side %d: placed beyond the buffer", p->side);
	memcpy(at, stream, op->parts[0].off);
	memset(at + end, 0, pad);
	memcpy(at + end + pad, stream + op->parts[0].off, op->stream - op->parts[0].off);
}

static void do_invalidate(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_pend *d = pend_new(p, op->id);
	struct tp_buf *buf = &p->buf[op->buf];

	for (uint32_t i = 0; i < buf->nkeys && !p->dead; i++)
		if (buf->keys[i] != op->inv_handle)
			posted(p, d, p->qp->ops->invalidate(p->qp, buf->keys[i], cookie_of(p, d)));
	d->fenced = op->buf + 1;
	pend_end(p, d);
}

/* The message that must come now: the next of what the other side wrote. */
static bool expected(struct tp_peer *p, const struct rr_op *op, struct tp_msg *m)
{
	struct tp_queue *q = &p->tp->peer[!p->side].sent;

	if (q->head == q->tail) {
		wrong(p->tp, "side %d: a message that nobody sent, xid %x", p->side, op->rpc.xid);
		return false;
	}
	*m = q->msg[q->head++ % TP_LOG];
	if (m->xid != op->rpc.xid || m->type != op->rpc.type || m->len != op->len) {
		wrong(p->tp, "side %d: xid %x type %u len %u where xid %x type %u len %u was due",
		      p->side, op->rpc.xid, op->rpc.type, op->len, m->xid, m->type, m->len);
		return false;
	}
	return true;
}

static void give_back(struct tp_peer *p, uint32_t token)
{
	if (p->tp->conf.link.ring && p->tp->conf.slow && p->nheld < TP_BUFS)
		p->held[p->nheld++] = token;
	else
		p->qp->ops->repost(p->qp, token);
}

static void do_deliver(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_msg m;
	struct tp_pull *u;
	const uint8_t *at;

	if (!expected(p, op, &m))
		return;
	if (op->from == RR_FROM_PULL) {
		u = pull_find(p, op->id);
		u->delivered = true;
		u->msg = m;
		pull_progress(p, u);
		return;
	}
	at = (op->from == RR_FROM_RECV ? p->recv[op->token] : p->buf[op->buf].at) + op->off;
	if (op->from == RR_FROM_BUF && p->buf[op->buf].nkeys)
		wrong(p->tp, "side %d: delivered before it was fenced", p->side);
	if (!same(&m, at))
		wrong(p->tp, "side %d: bytes differ, xid %x len %u", p->side, m.xid, m.len);
	push(p->tp, &p->inbox, &m);
	if (op->from == RR_FROM_RECV)
		give_back(p, op->token);
	else
		buf_put(p, op->buf);
}

static void do_release(struct tp_peer *p, const struct rr_op *op)
{
	struct tp_pull *u;

	if (op->buf != RR_BUF_NONE) {
		if (p->buf[op->buf].nkeys)
			wrong(p->tp, "side %d: released before it was fenced", p->side);
		buf_put(p, op->buf);
		return;
	}
	u = pull_find(p, op->id);
	if (u->reading)
		wrong(p->tp, "side %d: a pull refused before its head", p->side);
	pull_end(p, u);
}

static void do_op(struct tp_peer *p, const struct rr_op *op)
{
	switch (op->code) {
	case RR_OP_SEND:
		do_send(p, op);
		break;
	case RR_OP_EXPOSE:
		do_expose(p, op);
		break;
	case RR_OP_WRITE:
		do_write(p, op);
		break;
	case RR_OP_PULL:
		do_pull(p, op);
		break;
	case RR_OP_COMPOSE:
		do_compose(p, op);
		break;
	case RR_OP_PLACE:
		do_place(p, op);
		break;
	case RR_OP_INVALIDATE:
		do_invalidate(p, op);
		break;
	case RR_OP_DELIVER:
		do_deliver(p, op);
		break;
	case RR_OP_RELEASE:
		do_release(p, op);
		break;
	case RR_OP_REPOST:
		p->qp->ops->repost(p->qp, op->token);
		break;
	case RR_OP_FAIL:
		p->failed = op->why;
		p->dead = true;
		break;
	case RR_OP_NONE:
		wrong(p->tp, "an operation without a code");
		break;
	}
}

static void run(struct tp_peer *p)
{
	struct rr_op op;

	for (int i = 0; !p->dead && rr_eng_next_op(p->eng, &op); i++) {
		do_op(p, &op);
		if (i > 100000) {
			wrong(p->tp, "side %d: operations without end", p->side);
			return;
		}
	}
}

/* --- events ---------------------------------------------------------------------------- */

static void take_wc(struct tp_peer *p, const struct rr_wc *wc)
{
	if (wc->op == RR_WC_RECV) {
		p->recv[wc->cookie] = wc->buf;
		rr_eng_recv(p->eng, (uint32_t)wc->cookie, wc->buf, wc->len,
			    wc->has_inv ? wc->inv_handle : 0, p->tp->now);
	} else {
		pend_end(p, &p->pend[wc->cookie - 1]);
	}
	run(p);
}

static void read_slowly(struct tp_peer *p)
{
	while (p->nheld && !percent(p->tp, p->tp->conf.slow))
		p->qp->ops->repost(p->qp, p->held[--p->nheld]);
}

static bool all_consumed(struct tp_peer *p, const struct tp_buf *b)
{
	for (uint32_t i = 0; i < b->nkeys; i++)
		if (!p->qp->ops->consumed(p->qp, b->keys[i]))
			return false;
	return b->nkeys > 0;
}

static void reclaim(struct tp_peer *p)
{
	p->starved = false;
	for (uint32_t i = 0; i < TP_BUFS && !p->dead; i++) {
		if (!p->buf[i].used || !all_consumed(p, &p->buf[i]))
			continue;
		rr_eng_consumed(p->eng, i, p->tp->now);
		run(p);
	}
}

static void advance_pulls(struct tp_peer *p)
{
	if (p->nstarved)
		feed_starved(p);
	for (uint32_t i = 0; i < TP_PULLS && p->npulls && !p->dead; i++) {
		if (!p->pull[i].used)
			continue;
		pull_progress(p, &p->pull[i]);
		run(p);
	}
}

static void step_peer(struct tp_peer *p)
{
	struct rr_wc wc[4];
	int n;

	if (p->dead)
		return;
	while ((n = p->qp->ops->poll(p->qp, wc, 1)) > 0 && !p->dead)
		take_wc(p, &wc[0]);
	if (n < 0)
		p->dead = true;
	read_slowly(p);
	advance_pulls(p);
	if (p->starved)
		reclaim(p);
	if (p->dead)
		return;
	if (p->tp->now >= rr_eng_deadline(p->eng))
		rr_eng_tick(p->eng, p->tp->now);
	if (p->tp->conf.link.ring)
		rr_eng_window(p->eng, p->qp->ops->window(p->qp));
	run(p);
}

/* Some pages of what an idle engine can do without are lost, others are not. */
static void lose_tables(struct tp_peer *p)
{
	size_t keep = rr_eng_quiet(p->eng), end = rr_eng_size(&p->tp->conf.eng[p->side]);

	if (!keep)
		return;
	p->nquiet++;
	for (size_t at = keep, n; at < end; at += n) {
		n = rr_min(end - at, (size_t)(64 + tp_random(p->tp) % 4096));
		if (tp_random(p->tp) % 4)
			memset((uint8_t *)p->eng + at, 0, n);
	}
}

void tp_step(struct tp *tp)
{
	int first = tp_random(tp) % 2;

	tp->now += STEP;
	for (int i = 0; i < 2; i++)
		if (percent(tp, tp->conf.quiet))
			lose_tables(&tp->peer[i]);
	rr_fake_step(&tp->link);
	step_peer(&tp->peer[first]);
	step_peer(&tp->peer[!first]);
	if (tp->link.rnr)
		wrong(tp, "a Send found no receive");
	if (tp->link.violations)
		wrong(tp, "access without key");
}

static bool quiet(const struct tp_peer *p)
{
	return p->npulls == 0 && p->sent.head == p->sent.tail && p->nheld == 0;
}

bool tp_settle(struct tp *tp, uint32_t n)
{
	while (n-- && !tp->error[0]) {
		tp_step(tp);
		if (tp->peer[0].dead && tp->peer[1].dead)
			return true;
		if (!rr_fake_busy(&tp->link) && quiet(&tp->peer[0]) && quiet(&tp->peer[1]))
			return true;
	}
	return false;
}

/* --- the app --------------------------------------------------------------------------- */

static void check_credits(struct tp_peer *p)
{
	const struct rr_eng_params *us = &p->tp->conf.eng[p->side], *peer = &p->tp->conf.eng[!p->side];
	uint32_t max = p->side == 0 ? rr_min(us->credits, peer->credits)
				    : rr_min(us->bc_credits, peer->bc_credits);

	if (us->caps & RR_CAP_RING_CREDITS)
		return;
	if (p->outstanding > rr_max(max, 1u) || (!p->answered && p->outstanding > 1))
		wrong(p->tp, "side %d: %u calls in flight", p->side, p->outstanding);
}

int tp_send(struct tp *tp, int side, uint32_t type, uint32_t xid, uint32_t proc, uint32_t len)
{
	struct tp_peer *p = &tp->peer[side];
	struct tp_msg m = { .xid = xid, .type = type, .proc = proc };
	struct rr_eng_out out = { 0 };
	int rc;

	if (p->dead)
		return -ECONNRESET;
	measure(&m, len);
	out.len = len = m.len;
	/* half of the memory is for pulls and Reply chunks */
	out.buf = p->free_blocks - blocks_of(len) < p->nblocks / 2 || p->free_blocks < blocks_of(len)
		? RR_BUF_NONE : buf_new(p, len);
	p->starved |= out.buf == RR_BUF_NONE;
	if (out.buf == RR_BUF_NONE)
		return -ENOBUFS;
	m.seed = word(tp->conf.seed * 2 + (uint64_t)side, (uint32_t)p->nsent);
	make(&m, p->buf[out.buf].at);
	out.head = p->buf[out.buf].at;
	out.have = len;
	if (!rr_rpc_peek(out.head, out.have, &out.rpc))
		abort();
	rc = rr_eng_send(p->eng, &out, tp->now);
	if (rc) {
		buf_put(p, out.buf);
		p->starved = true;
		return rc;
	}
	p->nsent++;
	push(tp, &p->sent, &m);
	if (type == RR_RPC_CALL) {
		p->outstanding++;
		check_credits(p);
	} else {
		tp->peer[!side].outstanding--;
		tp->peer[!side].answered = true;
	}
	run(p);
	return 0;
}

/* --- set-up ---------------------------------------------------------------------------- */

static void set_up(struct tp *tp, int side, struct rr_prov_addr *addr)
{
	struct tp_peer *p = &tp->peer[side];
	struct rr_eng_params *e = &tp->conf.eng[side];
	struct rr_prov_params params = {
		.recv_size = e->inline_recv,
		.recvs = e->recvs ? e->recvs : rr_eng_recvs(e),
		.mem_size = tp->conf.mem_size,
	};
	struct rr_prov_addr none;

	p->tp = tp;
	p->side = side;
	e->connector = side == 0;
	e->count = &p->count;
	p->eng = rr_eng_init(calloc(1, rr_eng_size(e)), e, tp->now);
	p->qp = calloc(1, tp->link.ops.qp_size(&params));
	if (side == 0)
		tp->link.ops.prepare(p->qp, &params, addr);
	else if (tp->link.ops.answer(p->qp, &params, addr, &none))
		abort();
	p->nblocks = tp->conf.mem_size / TP_BLOCK;
	p->free_blocks = p->nblocks;
	p->blocks = calloc(p->nblocks, 1);
}

struct tp *tp_new(const struct tp_conf *conf)
{
	struct tp *tp = calloc(1, sizeof(*tp));
	struct rr_prov_addr addr;

	make_noise();
	tp->conf = *conf;
	tp->now = RR_SEC;
	tp->rng = conf->seed * 2 + 1;
	rr_fake_link_init(&tp->link, &conf->link, conf->seed + 77);
	set_up(tp, 0, &addr);
	set_up(tp, 1, &addr);
	for (int i = 0; i < 2; i++)
		if (conf->link.ring)
			rr_eng_window(tp->peer[i].eng, tp->peer[i].qp->ops->window(tp->peer[i].qp));
	return tp;
}

void tp_free(struct tp *tp)
{
	for (int i = 0; i < 2; i++) {
		struct tp_peer *p = &tp->peer[i];

		for (uint32_t d = 0; d < TP_PENDS; d++)
			if (p->pend[d].left)
				free(p->pend[d].hdr);
		p->qp->ops->close(p->qp);
		free(p->qp);
		free(p->eng);
		free(p->blocks);
	}
	free(tp);
}

bool tp_all_released(const struct tp *tp)
{
	for (int i = 0; i < 2; i++) {
		const struct tp_peer *p = &tp->peer[i];

		for (uint32_t b = 0; b < TP_BUFS; b++)
			if (p->buf[b].used)
				return false;
		if (rr_fake_keys(p->qp))
			return false;
	}
	return true;
}
