/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that a client has not met: its first call and the reply are the kernel's, and whatever is more is its
 * connection's. */
#include "tests/unit/unmet_played.h"

static struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = 7 };

static void begin_client(void)
{
	dialed = (struct sockaddr *)&to;
	begin(false, RR_SOCK_CONNECTING);
	so->unmet.past.offers = 2;
}

TestSuite(unmet_client, .init = begin_client, .timeout = 60);

static bool calls(void)
{
	ssize_t rc;
	bool is = writes(call, CALL, &rc);

	cr_assert_eq(rc, is ? CALL : -2);
	return is;
}

/* The peer has the call, and nothing else. */
static void has_call(size_t n)
{
	cr_assert_eq(recv(peer, got, sizeof(got), MSG_DONTWAIT), (ssize_t)n);
	errno = ESRCH;
}

static void one_call(void)
{
	ssize_t rc = -2;

	cr_assert(calls());
	has_call(CALL);
	arrives(reply, REPLY_LEN);
	cr_assert(is_told(POLLIN));
	cr_assert_not(is_seen(POLLIN), "it is not known what it is");
	cr_assert(reads(sizeof(got), &rc) && rc == REPLY_LEN);
	cr_assert_eq(memcmp(got, reply, REPLY_LEN), 0);
	cr_assert(rr_unmet_is(so) && told.made == 0);
}

Test(unmet_client, a_connection_of_one_call_is_never_met)
{
	one_call();
	rr_file_put(rr_fdt_take(fd, &(bool){ false }));
	rr_file_put(&so->f);
	cr_assert(told.never == 1 && told.made == 0 && rr_unmet_n == 0);
	cr_assert(passed.out == CALL && passed.in == REPLY_LEN && !passed.server);
}

static void is_met(uint32_t out, uint32_t in)
{
	cr_assert_eq(rr_unmet_meet(so, fd), made);
	cr_assert(told.made == 1 && passed.in == in && passed.out == out);
	cr_assert(passed.nin == !!in && passed.nout == !!out);
	cr_assert(so->conn == made && !rr_unmet_is(so) && rr_unmet_n == 0);
	cr_assert_not(is_told(POLLIN) || reads(sizeof(got), &(ssize_t){ 0 }) || calls());
}

Test(unmet_client, who_may_stay_so)
{
	static struct rr_ep_watch *watch = (struct rr_ep_watch *)8;

	so->flags = 0;
	may = false;
	cr_assert_not(rr_unmet_begin(so, dialed, 16));
	may = true;
	so->watches = watch;
	cr_assert_not(rr_unmet_begin(so, dialed, 16), "its set would not hear of it");
	so->watches = NULL;
	so->flags = RR_SOCK_STDIO;
	cr_assert_not(rr_unmet_begin(so, dialed, 16));
	so->flags = 0;
	alone = 0;
	cr_assert_not(rr_unmet_begin(so, dialed, 16));
	cr_assert(so->flags == 0 && rr_unmet_n == 1);
	alone = 1;
	cr_assert(rr_unmet_begin(so, dialed, 16) && rr_unmet_n == 2);
}

Test(unmet_client, a_call_that_an_offer_may_go_with_is_its_connections)
{
	one_call();
	cr_assert_not(calls());
	is_met(CALL, REPLY_LEN);
}

Test(unmet_client, those_before_are_not)
{
	so->unmet.past.offers = 6;
	for (int i = 0; i < 5; i++)
		one_call();
	cr_assert_not(calls());
	cr_assert_eq(rr_unmet_meet(so, fd), made);
	cr_assert(passed.nout == 5 && passed.nin == 5 && passed.out == 5 * CALL && passed.in == 5 * REPLY_LEN);
}

Test(unmet_client, so_is_one_before_the_reply)
{
	so->unmet.past.offers = 6;
	cr_assert(calls());
	cr_assert_not(calls());
	has_call(CALL);
	is_met(CALL, 0);
}

Test(unmet_client, a_reply_that_nobody_has_waited_for_is_its_connections)
{
	ssize_t rc = -2;

	cr_assert(calls());
	cr_assert_not(reads(sizeof(got), &rc), "it may have to wait");
	arrives(reply, REPLY_LEN);
	cr_assert_not(reads(sizeof(got), &rc));
	cr_assert_eq(queued(), REPLY_LEN);
	is_met(CALL, 0);
}

Test(unmet_client, so_is_what_comes_after_it)
{
	ssize_t rc = -2;

	one_call();
	cr_assert_not(reads(sizeof(got), &rc));
	arrives(reply, REPLY_LEN);
	cr_assert_not(is_told(POLLIN) || reads(sizeof(got), &rc));
	cr_assert_eq(queued(), REPLY_LEN);
	is_met(CALL, REPLY_LEN);
}

Test(unmet_client, so_is_what_comes_before_the_call)
{
	ssize_t rc = -2;

	arrives(reply, REPLY_LEN);
	cr_assert_not(is_told(POLLIN) || reads(sizeof(got), &rc));
	cr_assert_eq(queued(), REPLY_LEN);
	is_met(0, 0);
}

/* What is told once is read once. */
Test(unmet_client, a_wait_that_was_wrong_is_no_harm)
{
	ssize_t rc = -2;

	cr_assert(calls());
	cr_assert(is_told(POLLIN));
	cr_assert_not(reads(sizeof(got), &rc));
	cr_assert(rr_unmet_is(so) && !so->unmet.ready);
	arrives(reply, REPLY_LEN);
	cr_assert(is_told(POLLIN | POLLRDNORM));
	cr_assert(reads(sizeof(got), &rc) && rc == REPLY_LEN);
}

Test(unmet_client, more_than_that_something_can_be_read_is_asked_of_its_connection)
{
	cr_assert(calls());
	arrives(reply, REPLY_LEN);
	cr_assert_not(is_told(POLLIN | POLLERR) || is_told(POLLIN | POLLHUP) || is_told(POLLOUT) || is_told(POLLIN | POLLOUT));
	cr_assert_not(so->unmet.ready);
}

/* The bytes have been read, and its connection is told so. */
static void comes_so(const void *p, size_t n, size_t room)
{
	size_t gets = n < room ? n : room;
	ssize_t rc = -2;

	cr_assert(calls());
	arrives(p, n);
	cr_assert(is_told(POLLIN));
	cr_assert(reads(room, &rc) && rc == (ssize_t)gets);
	cr_assert(told.made == 1 && passed.out == CALL && passed.in == 0);
	cr_assert(told.to == got && told.came == gets && told.sent == 0 && so->conn == made && !rr_unmet_is(so));
}

Test(unmet_client, half_a_reply_is_its_connections) { comes_so(reply, REPLY_LEN - 1, sizeof(got)); }
Test(unmet_client, so_is_a_mark_alone) { comes_so(reply, 4, sizeof(got)); }
Test(unmet_client, so_is_a_byte) { comes_so(reply, 1, sizeof(got)); }
Test(unmet_client, so_is_one_that_is_read_in_parts) { comes_so(reply, REPLY_LEN, 4); }

Test(unmet_client, so_are_two)
{
	uint8_t two[2 * REPLY_LEN];

	memcpy(two, reply, REPLY_LEN);
	memcpy(two + REPLY_LEN, reply, REPLY_LEN);
	comes_so(two, sizeof(two), sizeof(got));
}

Test(unmet_client, an_end_in_place_of_a_reply)
{
	ssize_t rc = -2;

	cr_assert(calls());
	ends();
	cr_assert(is_told(POLLIN));
	cr_assert(reads(sizeof(got), &rc) && rc == 0);
	cr_assert(rr_unmet_is(so) && told.made == 0);
	cr_assert_not(reads(sizeof(got), &rc));
	is_met(CALL, 0);
}

Test(unmet_client, an_error_is_the_results)
{
	struct linger l = { 1, 0 };
	struct pollfd p = { fd, 0, 0 };
	ssize_t rc = -2;

	cr_assert(calls() && is_told(POLLIN));
	setsockopt(peer, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(peer);
	cr_assert_eq(poll(&p, 1, 10000), 1);
	errno = ESRCH;
	cr_assert(reads(sizeof(got), &rc));
	cr_assert_eq(rc, -ECONNRESET);
	so->unmet.past.nout = 0;
	cr_assert(writes(call, CALL, &rc));
	cr_assert_eq(rc, -EPIPE);
}

/* The bytes have gone, and its connection is told so. */
static void goes_so(const void *p, size_t n, size_t gets)
{
	ssize_t rc;

	cr_assert_eq(writes(p, n, &rc), gets == n);
	cr_assert_eq(rc, (ssize_t)gets);
	cr_assert(told.made == 1 && passed.out == 0 && passed.in == 0);
	cr_assert(told.from == p && told.sent == gets && told.came == 0 && so->conn == made && !rr_unmet_is(so));
	has_call(gets);
}

Test(unmet_client, what_is_no_record_is_its_connections_and_has_gone) { goes_so(call, CALL - 1, CALL - 1); }

static bool no_call(struct rr_conn_passed *f, const uint8_t *p, size_t len)
{
	cr_assert(f == &so->unmet.past && p == call && len == CALL);
	return false;
}

Test(unmet_client, so_is_what_is_no_call)
{
	rr_fake.first_went = no_call;
	goes_so(call, CALL, CALL);
}

Test(unmet_client, of_a_write_for_which_there_is_little_room_the_rest_is_its_connections)
{
	most = CALL - 10;
	goes_so(call, CALL, CALL - 10);
}

Test(unmet_client, what_is_too_short_or_too_long_for_a_first_call_is_its_connections)
{
	static uint8_t big[4096] = { 0x80, 0, 0x0f, 0xfb };
	ssize_t rc;

	cr_assert_not(writes(call, 15, &rc) || writes(big, 4096, &rc) || writes(call, 0, &rc));
	cr_assert_eq(recv(peer, got, 1, MSG_DONTWAIT), -1);
	errno = ESRCH;
	cr_assert(writes(big, 4095, &rc) && rc == 4095 && so->unmet.past.out == 4095);
}

Test(unmet_client, so_is_a_write_for_which_there_is_no_room)
{
	static uint8_t some[1 << 16];

	while (send(fd, some, sizeof(some), MSG_DONTWAIT) > 0)
		;
	errno = ESRCH;
	cr_assert_not(calls());
	is_met(0, 0);
}

Test(unmet_client, so_is_what_is_read_or_written_in_another_way)
{
	struct iovec two[2] = { { call, 20 }, { call + 20, CALL - 20 } }, in = { got, sizeof(got) };
	ssize_t rc = -2;

	cr_assert_not(rr_unmet_send(fd, two, 2, 0, &rc) || rr_unmet_send(fd, two, 1, MSG_OOB, &rc) ||
		      rr_unmet_send(fd, (struct iovec *)8, 1, 0, &rc));
	cr_assert(calls());
	arrives(reply, REPLY_LEN);
	cr_assert(is_told(POLLIN));
	cr_assert_not(rr_unmet_recv(fd, &in, 1, MSG_PEEK, &rc) || rr_unmet_recv(fd, two, 2, 0, &rc));
	cr_assert_eq(queued(), REPLY_LEN);
	cr_assert(reads(sizeof(got), &rc) && rc == REPLY_LEN);
}

Test(unmet_client, what_is_no_memory_is_refused)
{
	ssize_t rc = -2;

	cr_assert(rr_unmet_send(fd, &(struct iovec){ (void *)8, CALL }, 1, 0, &rc) && rc == -EFAULT);
	cr_assert(calls());
	arrives(reply, REPLY_LEN);
	cr_assert(is_told(POLLIN));
	cr_assert(rr_unmet_recv(fd, &(struct iovec){ (void *)8, CALL }, 1, 0, &rc) && rc == -EFAULT);
	cr_assert(is_told(POLLIN) && reads(sizeof(got), &rc) && rc == REPLY_LEN);
}

/* A filter of system calls may allow write() and read(), and nothing else. */
Test(unmet_client, what_a_filter_refuses_is_the_kernels)
{
	refusal = EPERM;
	cr_assert_not(calls());
	cr_assert(so->flags & RR_SOCK_PLAIN && told.made == 0);
	so->flags &= ~(uint32_t)RR_SOCK_PLAIN;
	refusal = 0;
	cr_assert(calls());
	arrives(reply, REPLY_LEN);
	cr_assert(is_told(POLLIN));
	refusal = ENOSYS;
	cr_assert_not(reads(sizeof(got), &(ssize_t){ 0 }));
	cr_assert(so->flags & RR_SOCK_PLAIN && told.made == 0);
	cr_assert_eq(queued(), REPLY_LEN);
}

Test(unmet_client, an_address_that_the_kernel_has_told_counts)
{
	struct sockaddr_in other = { .sin_family = AF_INET, .sin_port = 8 };

	so->unmet.past.given = true;
	rr_sock_hears(so, false, (struct sockaddr *)&other, sizeof(other));
	cr_assert(so->unmet.past.given && so->unmet.past.len[0] == sizeof(other));
	rr_sock_hears(so, true, (struct sockaddr *)&other, sizeof(other));
	cr_assert(!so->unmet.past.given && so->unmet.past.len[1] == sizeof(other));
	cr_assert_eq(memcmp(&so->unmet.past.end[1], &other, sizeof(other)), 0);
	so->flags |= RR_SOCK_PLAIN;
	rr_sock_hears(so, true, (struct sockaddr *)&to, sizeof(to));
	cr_assert_eq(memcmp(&so->unmet.past.end[1], &other, sizeof(other)), 0, "the kernel's alone");
}

Test(unmet_client, one_that_is_disconnected_is_the_kernels)
{
	rr_sock_plain(so);
	cr_assert(so->flags & RR_SOCK_PLAIN && !rr_unmet_is(so) && told.made == 0);
	cr_assert_not(calls());
	cr_assert_null(rr_conn_at(fd, &(struct rr_sock *){ NULL }));
	rr_file_put(rr_fdt_take(fd, &(bool){ false }));
	rr_file_put(&so->f);
	cr_assert(told.never == 1 && rr_unmet_n == 0);
}

/* It may be connected to another address one day. */
Test(unmet_client, its_own_name_is_the_kernels)
{
	struct sockaddr_in6 own;
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	cr_assert_eq(rr_wrap_getsockname(fd, (struct sockaddr *)&a, &len), 0);
	cr_assert(so->unmet.past.len[0] == len && rr_unmet_name(so, &own) == 0);
}
