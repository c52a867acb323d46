/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections over a real TCP loopback pair and the shm provider, both ends in this process. */

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/prov/prov.h"
#include "tests/lib/open_fds.h"
#include "tests/unit/conn_pair.h"

TestSuite(conn, .init = setup, .fini = teardown, .timeout = 60);

/* One call and its reply of these sizes, both checked to the byte. */
static void round_trip(uint32_t xid, size_t call, size_t reply)
{
	size_t n = rr_test_call(out, xid, call, xid);

	cr_assert_eq(rr_end_send(&p.client, &p.server, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(&p.server, &p.client, in, n), (ssize_t)n, "call of %zu", call);
	cr_assert_eq(memcmp(in, out, n), 0, "call of %zu", call);
	n = rr_test_reply(out, xid, reply, xid + 1);
	cr_assert_eq(rr_end_send(&p.server, &p.client, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(&p.client, &p.server, in, n), (ssize_t)n, "reply of %zu", reply);
	cr_assert_eq(memcmp(in, out, n), 0, "reply of %zu", reply);
}

Test(conn, a_call_upgrades_the_connection)
{
	round_trip(1, 0, 0);
	cr_assert(rr_conn_is_carried(p.client.c));
	cr_assert(rr_conn_is_carried(p.server.c));
}

Test(conn, both_ends_of_one_may_be_this_process)
{
	cr_assert_not(rr_conn_is_within(p.client.c) || rr_conn_is_within(p.server.c), "it is not carried");
	round_trip(1, 0, 0);
	cr_assert(rr_conn_is_within(p.client.c) && rr_conn_is_within(p.server.c));
}

Test(conn, no_rpc_byte_is_on_the_anchor_once_carried)
{
	uint8_t b;

	round_trip(1, 0, 0);
	round_trip(2, 100000, 100000);
	cr_assert_eq(recv(p.client.fd, &b, 1, MSG_DONTWAIT | MSG_PEEK), -1);
	cr_assert_eq(recv(p.server.fd, &b, 1, MSG_DONTWAIT | MSG_PEEK), -1);
}

Test(conn, records_of_every_size_pass_unaltered)
{
	static const size_t size[] = { 0, 1, 3, 100, 3990, 4020, 4024, 4028, 4032, 4036, 4096,
				       8192, 65535, 65536, 131073, 500000, 1000000 };

	for (size_t i = 0; i < rr_array_size(size); i++)
		for (size_t j = 0; j < rr_array_size(size); j += 3)
			round_trip((uint32_t)(i * 100 + j + 7), size[i], size[j]);
	cr_assert(rr_conn_is_carried(p.client.c));
}

/* A record of several fragments arrives as one record, of as many fragments or fewer. */
Test(conn, fragments_are_joined)
{
	size_t n = rr_test_call(out, 9, 20000, 1), total = 0;
	static uint8_t split[40000];

	for (size_t off = 4; off < n; off += 3996) {
		uint32_t take = (uint32_t)rr_min(n - off, (size_t)3996);
		bool last = off + take == n;

		split[total] = (uint8_t)(last ? 0x80 : 0);
		split[total + 1] = 0;
		split[total + 2] = (uint8_t)(take >> 8);
		split[total + 3] = (uint8_t)take;
		memcpy(split + total + 4, out + off, take);
		total += take + 4;
	}
	cr_assert_eq(rr_end_send(&p.client, &p.server, split, total), (ssize_t)total);
	cr_assert_eq(rr_end_recv_record(&p.server, &p.client, in, sizeof(in)), (ssize_t)n - 4);
	cr_assert_eq(memcmp(in, out + 4, n - 4), 0);
}

Test(conn, a_stream_split_at_random_places_is_the_same_stream)
{
	size_t n = 0;

	srand(7);
	round_trip(1, 0, 0);
	for (uint32_t i = 0; i < 60; i++)
		n += rr_test_call(out + n, 100 + i, (size_t)(rand() % 9000), i);
	for (size_t off = 0, got = 0; got < n;) {
		if (off < n) {
			size_t take = rr_min((size_t)(rand() % 700) + 1, n - off);
			ssize_t k = rr_end_try_send(&p.client, out + off, take);

			cr_assert(k > 0 || k == -EAGAIN);
			off += k > 0 ? (size_t)k : 0;
		}
		ssize_t k = rr_end_try_recv(&p.server, in + got, (size_t)(rand() % 900) + 1, 0);

		cr_assert(k > 0 || k == -EAGAIN);
		got += k > 0 ? (size_t)k : 0;
	}
	cr_assert_eq(memcmp(in, out, n), 0);
}

/* libtirpc batching: many calls before anything is read, then many that never get a reply. */
Test(conn, calls_without_replies_do_not_use_up_anything)
{
	round_trip(1, 0, 0);
	for (uint32_t i = 0; i < 3000; i++) {
		size_t n = rr_test_call(out, 1000 + i, i % 7 ? 10 : 20000, i);

		cr_assert_eq(rr_end_send(&p.client, NULL, out, n), (ssize_t)n, "call %u", i);
		cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n, "call %u", i);
		cr_assert_eq(memcmp(in, out, n), 0);
	}
	round_trip(9999, 100, 50000);
}

Test(conn, peek_leaves_the_bytes)
{
	size_t n = rr_test_call(out, 1, 300, 1);

	cr_assert_eq(rr_end_send(&p.client, &p.server, out, n), (ssize_t)n);
	while (rr_end_try_recv(&p.server, in, 10, MSG_PEEK) != 10)
		;
	cr_assert_eq(rr_conn_inq(p.server.c, p.server.fd), (int)n);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	cr_assert_eq(rr_conn_inq(p.server.c, p.server.fd), 0);
}

/* Its owner took the memory back when it was short of some, and the app found its connection gone. */
Test(conn, a_long_call_that_was_only_peeked_at_is_still_there)
{
	uint32_t sent = 2;
	size_t n;

	round_trip(1, 0, 0);
	for (ssize_t k = 1; k > 0; sent++) {
		n = rr_test_call(out, sent, 100000, sent);
		k = rr_end_try_send(&p.client, out, n);
		cr_assert(k == (ssize_t)n || k == -EAGAIN);
		while (sent == 2 && rr_end_try_recv(&p.server, in, n, MSG_PEEK) != k)
			;
	}
	cr_assert_gt(--sent, 8);
	for (uint32_t xid = 2; xid < sent; xid++) {
		n = rr_test_call(out, xid, 100000, xid);
		cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n, "call %u", xid);
		cr_assert_eq(memcmp(in, out, n), 0);
	}
}

Test(conn, close_is_eof_after_everything_was_read)
{
	size_t n;

	round_trip(1, 0, 0);
	n = rr_test_reply(out, 1, 200000, 1);
	cr_assert_eq(rr_end_send(&p.server, &p.client, out, n), (ssize_t)n);
	rr_end_close(&p.server);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	cr_assert(rr_end_poll(&p.client, POLLIN) & POLLIN);
	cr_assert_eq(rr_end_try_recv(&p.client, in, 1, 0), 0);
}

Test(conn, half_close_lets_the_other_direction_go_on)
{
	size_t n;

	round_trip(1, 0, 0);
	cr_assert_eq(rr_conn_shutdown(p.client.c, p.client.fd, SHUT_WR), 1);
	shutdown(p.client.fd, SHUT_WR);
	while (rr_end_try_recv(&p.server, in, 1, 0) == -EAGAIN)
		;
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), 0);
	n = rr_test_reply(out, 1, 5000, 1);
	cr_assert_eq(rr_end_send(&p.server, NULL, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, n), (ssize_t)n);
	cr_assert_eq(rr_end_try_send(&p.client, out, 50), -EPIPE);
}

Test(conn, close_with_unread_bytes_is_a_reset)
{
	size_t n;
	ssize_t got;

	round_trip(1, 0, 0);
	n = rr_test_call(out, 2, 50, 1);
	cr_assert_eq(rr_end_send(&p.client, NULL, out, n), (ssize_t)n);
	rr_end_close(&p.server);
	while ((got = rr_end_try_recv(&p.client, in, 1, 0)) == -EAGAIN)
		;
	cr_assert_eq(got, -ECONNRESET);
}

/* Above max_msg: the hatch, in both directions, and what follows it. */
Test(conn, a_record_above_the_limit_goes_back_to_tcp)
{
	size_t n;

	round_trip(1, 0, 0);
	n = rr_test_call(out, 5, (2 << 20) + 13, 3);
	cr_assert_eq(rr_end_send(&p.client, NULL, out, 1000), 1000);
	for (size_t off = 1000, got = 0; got < n;) {
		ssize_t k = off < n ? rr_end_try_send(&p.client, out + off, n - off) : 0;

		cr_assert(k >= 0 || k == -EAGAIN);
		off += k > 0 ? (size_t)k : 0;
		k = rr_end_try_recv(&p.server, in + got, sizeof(in) - got, 0);
		cr_assert(k > 0 || k == -EAGAIN);
		got += k > 0 ? (size_t)k : 0;
	}
	cr_assert_eq(memcmp(in, out, n), 0);
	round_trip(6, 100, 100);
	round_trip(7, 10000, 300000);
}

Test(conn, bytes_that_are_not_rpc_stay_on_tcp)
{
	cr_assert_eq(rr_end_send(&p.client, &p.server, "GET / HTTP/1.0\r\n\r\n", 18), 18);
	cr_assert(rr_conn_is_tcp(p.client.c));
	cr_assert_eq(rr_end_recv(&p.server, &p.client, in, 18), 18);
	cr_assert(rr_conn_is_tcp(p.server.c));
}

Test(conn, a_first_write_under_16_bytes_stays_on_tcp)
{
	cr_assert_eq(rr_end_send(&p.client, &p.server, "\x80\0\0\x28\0\0\0\1\0\0\0\0\0\0\0", 15), 15);
	cr_assert(rr_conn_is_tcp(p.client.c));
}

Test(conn, a_connection_costs_one_descriptor_and_leaves_none)
{
	int before = open_fds();

	round_trip(1, 0, 0);
	cr_assert_eq(open_fds(), before + 2, "one for each end");
	for (int i = 0; i < 20; i++) {
		struct rr_pair q = p;

		rr_pair_open(&p);
		round_trip(1, 10, 70000);
		rr_pair_close(&p);
		p = q;
	}
	cr_assert_eq(open_fds(), before + 2);
}

Test(conn, a_number_that_was_closed_since_leaves_no_error)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	int fd;

	round_trip(1, 0, 0);
	fd = dup(p.client.fd);
	cr_assert_eq(rr_conn_recv(p.client.c, fd, &iov, 1, MSG_PEEK), -EAGAIN);
	close(fd);
	cr_assert_neq(rr_conn_take_error(p.client.c, p.client.fd), EBADF);
}

Test(conn, pipelined_calls_and_replies_out_of_order)
{
	enum { N = 200 };
	static uint8_t want[N][4096];
	size_t len[N], off = 0;

	round_trip(1, 0, 0);
	for (uint32_t i = 0; i < N; i++) {
		size_t n = rr_test_call(out, 100 + i, 30, i);

		cr_assert_eq(rr_end_send(&p.client, &p.server, out, n), (ssize_t)n);
	}
	for (uint32_t i = 0; i < N; i++)
		cr_assert_eq(rr_end_recv(&p.server, &p.client, in, 74), 74);
	for (uint32_t i = 0; i < N; i++) {
		len[i] = rr_test_reply(want[i], 100 + (N - 1 - i), i * 20, i);
		cr_assert_eq(rr_end_send(&p.server, &p.client, want[i], len[i]), (ssize_t)len[i]);
	}
	for (uint32_t i = 0; i < N; i++, off = 0) {
		cr_assert_eq(rr_end_recv(&p.client, &p.server, in + off, len[i]), (ssize_t)len[i]);
		cr_assert_eq(memcmp(in, want[i], len[i]), 0);
	}
}
