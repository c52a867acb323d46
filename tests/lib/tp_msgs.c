/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages whose bytes follow from their number. */

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"
#include "tests/lib/twopeers_int.h"

static void put32(uint8_t *at, uint32_t v)
{
	v = htobe32(v);
	memcpy(at, &v, sizeof(v));
}

uint64_t tp_word(uint64_t seed, uint32_t i)
{
	uint64_t z = seed + i * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	return z ^ (z >> 31);
}

/* A message's bytes: a window into fixed noise, its place given by the message's number. */
#define NOISE	65536u
#define MSG_MAX	(4u << 20)
static uint8_t noise[NOISE + MSG_MAX];

void tp_noise(void)
{
	uint64_t w;

	for (uint32_t i = 0; i < sizeof(noise) && !noise[sizeof(noise) - 1]; i += 8) {
		w = tp_word(1, i) | UINT64_C(1) << 63;
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

void tp_make(const struct tp_msg *m, uint8_t *at)
{
	uint8_t head[HEAD_MAX];
	uint32_t n = rr_min(header(m, head), m->len);

	memcpy(at, head, n);
	memcpy(at + n, pattern(m), m->len - n);
	if (has_data(m))
		memset(at + n + m->data, 0, rr_ulb_pad(m->data));
}

/* len: of the message, or of an NFS one its data. */
void tp_measure(struct tp_msg *m, uint32_t len)
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

bool tp_same(const struct tp_msg *m, const uint8_t *at)
{
	uint8_t *want = malloc(m->len);
	bool ok;

	tp_make(m, want);
	ok = memcmp(at, want, m->len) == 0;
	free(want);
	return ok;
}

void tp_push(struct tp *tp, struct tp_queue *q, const struct tp_msg *m)
{
	if (q->tail - q->head == TP_LOG)
		tp_wrong(tp, "test queue full");
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
