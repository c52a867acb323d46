/* SPDX-License-Identifier: BSD-3-Clause */
/* What a capture is told of a message, in each of the places where one may lie: ring and pool are played. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "core/conn/carried/carried.h"

static struct rr_qp qp = { .native = true };
static struct rr_share sh = { .qp = &qp };
static uint8_t bytes[4000];

/* --- what is played (the Makefile wraps these) --- */

static struct {
	bool rdma, full;
	uint32_t wants;		/* at most so many bytes; 0: all */
	struct rr_cap_pen pen;	/* as it began */
	unsigned begins, ends, puts;
	bool good;
	uint8_t put[4000];
	uint32_t n;
	uint32_t room;		/* how much the ring gives at a time */
} k;

bool __wrap_rr_cap_wants_rdma(void);
bool __wrap_rr_cap_begin(struct rr_cap_pen *p);
void __wrap_rr_cap_put(struct rr_cap_pen *p, const void *from, size_t n);
uint8_t *__wrap_rr_cap_room(struct rr_cap_pen *p, uint32_t *n);
void __wrap_rr_cap_end(struct rr_cap_pen *p, bool good);
uint8_t *__wrap_rr_pool_at(const struct rr_pool *p, uint32_t buf, size_t off, size_t *room);

bool __wrap_rr_cap_wants_rdma(void)
{
	return k.rdma;
}

bool __wrap_rr_cap_begin(struct rr_cap_pen *p)
{
	k.pen = *p;
	k.begins++;
	p->left = k.wants ? rr_min(k.wants, p->len) : p->len;
	return !k.full;
}

void __wrap_rr_cap_put(struct rr_cap_pen *p, const void *from, size_t n)
{
	n = rr_min(n, (size_t)p->left);
	memcpy(k.put + k.n, from, n);
	k.n += (uint32_t)n;
	k.puts++;
	p->left -= (uint32_t)n;
}

uint8_t *__wrap_rr_cap_room(struct rr_cap_pen *p, uint32_t *n)
{
	uint8_t *to = k.put + k.n;

	*n = rr_min(p->left, k.room);
	p->left -= *n;
	k.n += *n;
	return to;
}

void __wrap_rr_cap_end(struct rr_cap_pen *p, bool good)
{
	(void)p;
	k.ends++;
	k.good = good;
}

/* Buffer 7: pieces of 100 bytes. */
uint8_t *__wrap_rr_pool_at(const struct rr_pool *p, uint32_t buf, size_t off, size_t *room)
{
	cr_assert(p == &sh.pool && buf == 7);
	*room = 100 - off % 100;
	return bytes + off;
}

static void begin(void)
{
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + (i >> 8) + 1);
	sh.ep.inline_recv = 1111;
	sh.ep.inline_send = 2222;
	sh.ep.dialect = RR_DIALECT_V2;
}

TestSuite(tap, .init = begin, .timeout = 60);

static void afresh(void)
{
	memset(&k, 0, sizeof(k));
}

/* The packet that was written says so, and has n bytes of the message's `len`, from `from` on. */
static void is_written(enum rr_cap_kind kind, unsigned flags, uint32_t len, const uint8_t *from, uint32_t n)
{
	cr_assert(k.begins == 1 && k.ends == 1 && k.good);
	cr_assert(k.pen.kind == kind && k.pen.flags == flags && k.pen.len == len, "%d %d %u", k.pen.kind, k.pen.flags, k.pen.len);
	cr_assert(k.pen.dialect == RR_DIALECT_V2 && k.pen.recv_size == 1111 && k.pen.send_size == 2222);
	cr_assert_eq(k.pen.ends, &sh.ends);
	cr_assert_eq(k.n, n);
	cr_assert_eq(memcmp(k.put, from, n), 0);
	afresh();
}

static void is_not_written(void)
{
	cr_assert(k.begins == 0 && k.puts == 0 && k.ends == 0);
	afresh();
}

/* --- records --- */

Test(tap, a_record_from_the_apps_memory_goes_without_its_mark)
{
	struct iovec iov[] = { { bytes, 4 }, { bytes + 4, 10 }, { bytes + 14, 20 } };
	struct rr_app_iov app = { .iov = iov, .n = 3 };
	struct rr_eng_out o = { .len = 30, .buf = RR_BUF_APP };

	rr_tap_sent(&sh, &o, &app);
	cr_assert_eq(k.puts, 2);
	is_written(RR_CAP_RECORD, RR_CAP_OUT | RR_CAP_SERVER | RR_CAP_NATIVE, 30, bytes + 4, 30);
	k.rdma = true;
	rr_tap_sent(&sh, &o, &app);
	is_not_written();
}

Test(tap, a_record_from_a_buffer_is_put_together)
{
	struct rr_eng_out o = { .len = 333, .buf = 7 };

	k.rdma = true;	/* it goes in chunks, which are not captured */
	sh.ep.connector = true;
	qp.native = false;
	rr_tap_sent(&sh, &o, NULL);
	cr_assert_eq(k.puts, 4);
	is_written(RR_CAP_RECORD, RR_CAP_OUT, 333, bytes, 333);
	k.wants = 150;
	rr_tap_sent(&sh, &o, NULL);
	cr_assert_eq(k.puts, 2, "no more than is wanted");
	is_written(RR_CAP_RECORD, RR_CAP_OUT, 333, bytes, 150);
}

Test(tap, a_record_in_a_receive)
{
	struct rr_rx_ent e = { .from = RR_FROM_RECV, .ptr = bytes + 28, .len = 60 };

	rr_tap_delivered(&sh, &e, NULL);
	is_written(RR_CAP_RECORD, RR_CAP_SERVER | RR_CAP_NATIVE, 60, bytes + 28, 60);
	k.rdma = true;
	rr_tap_delivered(&sh, &e, NULL);
	is_not_written();
}

Test(tap, each_flag_says_one_thing)
{
	struct rr_rx_ent e = { .from = RR_FROM_RECV, .ptr = bytes, .len = 60 };

	for (int i = 0; i < 4; i++) {
		sh.ep.connector = i & 1;
		qp.native = i & 2;
		rr_tap_delivered(&sh, &e, NULL);
		is_written(RR_CAP_RECORD, (i & 1 ? 0 : RR_CAP_SERVER) | (i & 2 ? RR_CAP_NATIVE : 0), 60, bytes, 60);
	}
}

Test(tap, a_record_in_a_buffer)
{
	struct rr_rx_ent e = { .from = RR_FROM_BUF, .ref = 7, .off = 30, .len = 150 };

	k.rdma = true;
	rr_tap_delivered(&sh, &e, NULL);
	cr_assert_eq(k.puts, 2);
	is_written(RR_CAP_RECORD, RR_CAP_SERVER | RR_CAP_NATIVE, 150, bytes + 30, 150);
}

/* One that is here in part was not asked for when it came. */
Test(tap, a_record_of_which_bytes_are_missing_is_not_written)
{
	struct rr_rx_ent e = { .from = RR_RX_PART, .ref = 7, .off = 30, .len = 150 };

	rr_tap_delivered(&sh, &e, NULL);
	is_not_written();
}

static struct rr_pull pulls[3];
static unsigned reads, bad;	/* the bad-th fails */

static int reads_it(struct rr_share *s, const struct rr_pull *p, uint32_t off, void *dst, uint32_t n)
{
	cr_assert(s == &sh && p == &pulls[2]);
	memcpy(dst, bytes + off, n);
	return ++reads == bad ? -EIO : 0;
}

Test(tap, a_record_in_the_peers_memory)
{
	struct rr_rx_ent e = { .from = RR_FROM_PULL, .ref = 2, .len = 500 };

	sh.pull = pulls;
	k.rdma = true;
	k.room = 200;
	rr_tap_delivered(&sh, &e, reads_it);
	cr_assert_eq(reads, 3);
	is_written(RR_CAP_RECORD, RR_CAP_SERVER | RR_CAP_NATIVE, 500, bytes, 500);
	k.room = 200;
	reads = 0;
	bad = 2;
	rr_tap_delivered(&sh, &e, reads_it);
	cr_assert(reads == 2 && k.begins == 1 && k.ends == 1 && !k.good, "it is void");
}

/* --- transport messages --- */

/* 28 bytes of a header without chunks. */
static void plain(void)
{
	memset(bytes + 12, 0, 16);
}

Test(tap, messages_without_chunks_say_nothing_to_who_wants_records)
{
	struct iovec iov[] = { { bytes, 28 }, { bytes + 28, 40 } };

	plain();
	rr_tap_posted(&sh, iov, 2);
	is_not_written();
	rr_tap_received(&sh, &(struct rr_wc){ .buf = bytes, .len = 68 });
	is_not_written();
	k.rdma = true;
	rr_tap_posted(&sh, iov, 2);
	cr_assert_eq(k.pen.most, 0);
	is_written(RR_CAP_MESSAGE, RR_CAP_OUT | RR_CAP_SERVER | RR_CAP_NATIVE, 68, bytes, 68);
	k.rdma = true;
	rr_tap_received(&sh, &(struct rr_wc){ .buf = bytes, .len = 68 });
	cr_assert_eq(k.pen.most, 0);
	is_written(RR_CAP_MESSAGE, RR_CAP_SERVER | RR_CAP_NATIVE, 68, bytes, 68);
}

Test(tap, of_messages_with_chunks_they_get_the_header)
{
	struct iovec iov[] = { { bytes, 28 }, { bytes + 28, 40 } };

	plain();
	for (int at = 12; at < 28; at++) {
		bytes[at] = 1;
		rr_tap_posted(&sh, iov, 2);
		cr_assert_eq(k.pen.most, 28);
		is_written(RR_CAP_MESSAGE, RR_CAP_OUT | RR_CAP_SERVER | RR_CAP_NATIVE, 68, bytes, 68);
		rr_tap_received(&sh, &(struct rr_wc){ .buf = bytes, .len = 68 });
		cr_assert_eq(k.pen.most, 2048);
		is_written(RR_CAP_MESSAGE, RR_CAP_SERVER | RR_CAP_NATIVE, 68, bytes, 68);
		bytes[at] = 0;
	}
}

Test(tap, what_is_shorter_than_a_header_is_shown)
{
	struct iovec iov = { bytes, 27 };

	plain();
	rr_tap_posted(&sh, &iov, 1);
	is_written(RR_CAP_MESSAGE, RR_CAP_OUT | RR_CAP_SERVER | RR_CAP_NATIVE, 27, bytes, 27);
	rr_tap_received(&sh, &(struct rr_wc){ .buf = bytes, .len = 27 });
	is_written(RR_CAP_MESSAGE, RR_CAP_SERVER | RR_CAP_NATIVE, 27, bytes, 27);
	iov.iov_len = 28;
	rr_tap_posted(&sh, &iov, 1);
	is_not_written();
}

/* Where there is no room, or nobody reads any more. */
Test(tap, where_no_packet_begins_none_is_written)
{
	struct rr_rx_ent e = { .from = RR_FROM_RECV, .ptr = bytes, .len = 60 };
	struct rr_eng_out o = { .len = 30, .buf = 7 };
	struct iovec iov = { bytes, 60 };

	k.full = true;
	rr_tap_sent(&sh, &o, NULL);
	rr_tap_delivered(&sh, &e, NULL);
	rr_tap_posted(&sh, &iov, 1);
	rr_tap_received(&sh, &(struct rr_wc){ .buf = bytes, .len = 60 });
	cr_assert(k.begins == 4 && k.puts == 0 && k.ends == 0);
}
