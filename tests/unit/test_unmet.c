/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that a server has not met: what each of the app's calls finds, and when they are met. What clients have
 * not met is test_unmet_client.c's. */
#include <netinet/tcp.h>

#include "tests/unit/unmet_played.h"

static void begin_server(void)
{
	begin(true, RR_SOCK_ACCEPTED);
}

TestSuite(unmet, .init = begin_server, .timeout = 60);

static void one_call(void)
{
	ssize_t rc = -2;

	arrives(call, CALL);
	cr_assert(reads(sizeof(got), &rc));
	cr_assert_eq(rc, CALL);
	cr_assert_eq(memcmp(got, call, CALL), 0);
	cr_assert(writes(reply, REPLY_LEN, &rc));
	cr_assert_eq(rc, REPLY_LEN);
	cr_assert_eq(recv(peer, got, sizeof(got), 0), REPLY_LEN);
	cr_assert(rr_unmet_is(so) && told.made == 0);
}

Test(unmet, a_connection_of_calls_and_replies_in_turn_is_never_met)
{
	ssize_t rc = -2;

	for (int i = 0; i < 5; i++)
		one_call();
	cr_assert(so->unmet.past.nin == 5 && so->unmet.past.nout == 5);
	ends();
	cr_assert(is_told(POLLIN) && !so->unmet.past.alone);
	cr_assert(reads(sizeof(got), &rc) && rc == 0);
	cr_assert(reads(sizeof(got), &rc) && rc == 0);
	rr_file_put(rr_fdt_take(fd, &(bool){ false }));
	cr_assert_eq(told.never, 0, "somebody holds it");
	rr_file_put(&so->f);
	cr_assert(told.never == 1 && told.made == 0 && rr_unmet_n == 0);
}

Test(unmet, who_may_stay_so)
{
	may = false;
	so->flags = RR_SOCK_ACCEPTED;
	cr_assert_not(rr_unmet_begin(so, NULL, 0));
	may = true;
	alone = 0;
	cr_assert_not(rr_unmet_begin(so, NULL, 0));
	cr_assert(so->flags == RR_SOCK_ACCEPTED && rr_unmet_n == 1);
	alone = 1;
	cr_assert(rr_unmet_stays(so));
	now += RR_UNMET_MOST - 1;
	cr_assert(rr_unmet_stays(so));
	alone = 0;
	cr_assert_not(rr_unmet_stays(so));
	alone = 1;
	now++;
	cr_assert_not(rr_unmet_stays(so));
}

Test(unmet, what_was_seen_is_said_again_within_a_tick)
{
	cr_assert_not(is_seen(POLLIN));
	arrives(call, CALL);
	cr_assert_not(is_seen(POLLIN), "nobody has looked");
	cr_assert(is_told(POLLIN | POLLRDNORM));
	cr_assert_eq(told.judged, CALL);
	cr_assert(is_seen(POLLIN) && is_seen(POLLIN | POLLRDNORM) && is_seen(POLLRDNORM));
	cr_assert_not(is_seen(0) || is_seen(POLLIN | POLLOUT) || is_seen(POLLIN | POLLPRI));
	now++;
	cr_assert_not(is_seen(POLLIN));
	cr_assert(is_told(POLLIN) && is_seen(POLLIN));
	so->flags |= RR_SOCK_PLAIN;
	cr_assert_not(is_seen(POLLIN));
	so->flags &= ~(uint32_t)RR_SOCK_PLAIN;
	cr_assert_eq(so->f.refs, 2);
	ends();
	cr_assert(is_told(POLLIN));
	cr_assert(reads(sizeof(got), &(ssize_t){ 0 }));
	cr_assert_not(is_seen(POLLIN), "what it was has been read");
	cr_assert(is_told(POLLIN) && is_seen(POLLIN), "the end");
}

/* One more poll() with a time-out, and what it leaves of that. */
static int polls(int timeout, int *left)
{
	struct pollfd p = { fd, POLLIN, 0 };
	int r;

	kernel.ms = -2;
	*left = timeout;
	r = polled(&p, left);
	cr_assert_eq(so->f.refs, 2);
	return r;
}

Test(unmet, the_kernel_sleeps_for_as_long_as_it_may_stay_so)
{
	static const struct { int timeout, ms, left, rc; } t[] = {
		{ -1, 20, -1, RR_POLL_ON }, { 35000, 20, 34980, RR_POLL_ON }, { 21, 20, 1, RR_POLL_ON }, { 20, 20, 20, 0 },
		{ 7, 7, 7, 0 }, { 0, 0, 0, 0 },
	};
	int left;

	for (size_t i = 0; i < rr_array_size(t); i++) {
		cr_assert_eq(polls(t[i].timeout, &left), t[i].rc, "%zu", i);
		cr_assert(kernel.ms == t[i].ms && left == t[i].left && kernel.calls == (int)i + 1, "%zu", i);
	}
	now += RR_UNMET_MOST - 1;
	cr_assert_eq(polls(5, &left), 0);
	now++;
	cr_assert_eq(polls(5, &left), RR_POLL_ON, "its time is over");
	cr_assert(kernel.ms == -2 && left == 5);
}

Test(unmet, what_the_kernel_says_is_the_apps_if_it_is_known)
{
	int left;

	kernel.says = -1;
	cr_assert_eq(polls(50, &left), -1);
	cr_assert_eq(errno, EINTR);
	errno = ESRCH;
	arrives(call, CALL);
	kernel.says = 1;
	cr_assert_eq(polls(50, &left), 1);
	cr_assert(kernel.calls == 2 && so->unmet.past.next == CALL);
	cr_assert_eq(polls(50, &left), 1, "seen");
	cr_assert_eq(kernel.calls, 2);
}

/* An offer has come: its connection goes on, for what is left of the time. */
Test(unmet, what_is_no_call_is_polled_on_by_its_connection)
{
	int left;

	first = 0;
	arrives(call, CALL);
	kernel.says = 1;
	kernel.takes = 3 * RR_MSEC + 5;
	cr_assert_eq(polls(50, &left), RR_POLL_ON);
	cr_assert(kernel.calls == 1 && left == 47);
	kernel.takes = 8 * RR_MSEC;	/* the kernel was late */
	cr_assert_eq(polls(2, &left), RR_POLL_ON);
	cr_assert_eq(left, 0);
	kernel.takes = 0;
	cr_assert_eq(polls(-1, &left), RR_POLL_ON);
	cr_assert_eq(left, -1);
}

Test(unmet, who_has_idle_connections_wakes_for_them)
{
	int left;

	idle = now + 20 * RR_MSEC;
	cr_assert_eq(polls(50, &left), RR_POLL_ON);
	cr_assert(kernel.ms == 20 && left == 30 && idle_asked == now);
	idle--;
	cr_assert_eq(polls(50, &left), RR_POLL_ON);
	cr_assert(kernel.ms == -2 && left == 50);
	cr_assert_eq(polls(19, &left), 0);
}

Test(unmet, a_poll_that_is_not_for_it_is_left_alone)
{
	struct pollfd p = { fd, POLLIN, 0 };
	int t = 5;

	alone = 0;
	cr_assert_eq(polled(&p, &t), RR_POLL_ON);
	alone = 1;
	p.events = POLLIN | POLLOUT;
	cr_assert_eq(polled(&p, &t), RR_POLL_ON);
	p.events = 0;
	cr_assert_eq(polled(&p, &t), RR_POLL_ON);
	p.events = POLLRDNORM;
	so->flags &= ~(uint32_t)RR_SOCK_UNMET;
	cr_assert_eq(polled(&p, &t), RR_POLL_ON);
	so->flags |= RR_SOCK_UNMET;
	p.fd = peer;
	cr_assert_eq(polled(&p, &t), RR_POLL_ON);
	cr_assert(kernel.calls == 0 && t == 5);
	p.fd = fd;
	cr_assert_eq(polled(&p, &t), 0);
}

Test(unmet, more_than_that_something_can_be_read_is_asked_of_its_connection)
{
	arrives(call, CALL);
	cr_assert_not(is_told(POLLIN | POLLERR) || is_told(POLLIN | POLLHUP) || is_told(POLLOUT) || is_told(POLLPRI));
	cr_assert_eq(told.judged, 0);
}

static void is_met(uint32_t in, uint32_t out, int err)
{
	cr_assert_eq(rr_unmet_meet(so, fd), made);
	cr_assert_eq(errno, ESRCH);
	cr_assert(told.made == 1 && passed.in == in && passed.out == out && passed.err == err);
	cr_assert(passed.nin == !!in && passed.nout == !!out);
	cr_assert(so->conn == made && !rr_unmet_is(so) && rr_unmet_n == 0);
	cr_assert_eq(rr_unmet_meet(so, fd), made, "once");
	cr_assert(told.made == 1 && rr_unmet_n == 0 && !so->unmet.worker);
	cr_assert_not(is_told(POLLIN) || is_seen(POLLIN));
	cr_assert_not(reads(sizeof(got), &(ssize_t){ 0 }) || writes(reply, REPLY_LEN, &(ssize_t){ 0 }));
}

Test(unmet, a_second_call_before_the_reply_is_its_connections)
{
	ssize_t rc = -2;

	arrives(call, CALL);
	cr_assert(reads(sizeof(got), &rc));
	told.judged = 0;
	arrives(call, CALL);
	cr_assert_not(is_told(POLLIN) || reads(sizeof(got), &rc));
	cr_assert(queued() == CALL && told.judged == CALL && so->unmet.past.next == CALL);
	told.judged = 0;
	cr_assert_not(is_told(POLLIN) || writes(reply, REPLY_LEN, &rc));
	cr_assert_eq(told.judged, 0, "it is known");
	is_met(CALL, 0, 0);
	cr_assert_eq(passed.next, CALL);
}

Test(unmet, a_second_record_that_is_no_call_is_its_connections)
{
	ssize_t rc = -2;

	one_call();
	first = 0;
	arrives(call, CALL);
	cr_assert_not(is_told(POLLIN) || reads(sizeof(got), &rc));
	cr_assert_eq(queued(), CALL);
	is_met(CALL, REPLY_LEN, 0);
}

Test(unmet, what_else_the_queue_held)
{
	arrives(call, CALL);
	cr_assert(is_told(POLLIN) && so->unmet.past.alone);
	so->unmet.past.next = 0;
	arrives(call, 1);
	cr_assert(is_told(POLLIN) && so->unmet.past.next == CALL && !so->unmet.past.alone);
	cr_assert_eq(rr_unmet_meet(so, fd), made);
	cr_assert(passed.next == CALL && !passed.alone);
}

Test(unmet, a_queue_of_more_than_a_look_is_not_known_to_hold_one_call)
{
	static uint8_t big[512] = { 0x80, 0, 0, CALL - 4 };

	first = sizeof(big);
	arrives(big, sizeof(big));
	cr_assert(is_told(POLLIN) && so->unmet.past.next == sizeof(big) && !so->unmet.past.alone);
}

Test(unmet, the_addresses_that_were_told_are_its_connections)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = 7 }, b = { .sin6_family = AF_INET6, .sin6_port = 8 };

	rr_unmet_hears(so, true, (struct sockaddr *)&a, sizeof(a) + 1);
	cr_assert(!so->unmet.past.len[0] && !so->unmet.past.len[1]);
	rr_unmet_hears(so, true, (struct sockaddr *)&a, sizeof(a));
	rr_unmet_hears(so, false, (struct sockaddr *)&b, sizeof(struct sockaddr_in));
	cr_assert_eq(so->f.refs, 2);
	cr_assert_eq(rr_unmet_meet(so, fd), made);
	cr_assert(passed.len[1] == sizeof(a) && passed.len[0] == sizeof(struct sockaddr_in));
	cr_assert_eq(memcmp(&passed.end[1], &a, sizeof(a)), 0);
	cr_assert_eq(memcmp(&passed.end[0], &b, sizeof(struct sockaddr_in)), 0);
}

Test(unmet, so_is_a_second_reply)
{
	ssize_t rc = -2;

	one_call();
	cr_assert_not(writes(reply, REPLY_LEN, &rc));
	is_met(CALL, REPLY_LEN, 0);
}

/* What has been seen since is for its connection to know of. */
static void reply_is_its_connections(void (*then)(void), bool known)
{
	ssize_t rc = -2;

	arrives(call, CALL);
	cr_assert(reads(sizeof(got), &rc));
	then();
	cr_assert_eq(is_told(POLLIN), known);
	cr_assert_not(writes(reply, REPLY_LEN, &rc));
	cr_assert_eq(told.made, 0);
}

static void calls_again(void)
{
	arrives(call, CALL);
}

static void is_reset(void);

Test(unmet, a_reply_after_the_next_call_was_seen) { reply_is_its_connections(calls_again, false); }
Test(unmet, a_reply_after_the_end_was_seen) { reply_is_its_connections(ends, true); }
Test(unmet, a_reply_after_a_reset_was_seen) { reply_is_its_connections(is_reset, true); }

Test(unmet, what_is_no_call_is_its_connections)
{
	ssize_t rc = -2;

	first = 0;
	arrives(call, CALL);
	cr_assert_not(is_told(POLLIN) || reads(sizeof(got), &rc));
	cr_assert_eq(queued(), CALL);
	is_met(0, 0, 0);
}

Test(unmet, so_is_a_call_that_does_not_fit_or_is_read_in_another_way)
{
	struct iovec two[2] = { { got, 100 }, { got + 100, 100 } };
	ssize_t rc = -2;

	arrives(call, CALL);
	cr_assert_not(reads(CALL - 1, &rc));
	cr_assert_not(rr_unmet_recv(fd, two, 2, 0, &rc) || rr_unmet_recv(fd, two, 1, MSG_PEEK, &rc) ||
		      rr_unmet_recv(fd, two, 1, MSG_DONTWAIT, &rc) || rr_unmet_recv(peer, two, 1, 0, &rc));
	cr_assert_eq(queued(), CALL);
	cr_assert(reads(CALL, &rc) && rc == CALL, "just enough");
	cr_assert_eq(so->unmet.past.in, CALL);
}

Test(unmet, what_is_no_memory_is_refused)
{
	static const struct iovec *const bad = (struct iovec *)8;
	ssize_t rc = -2;

	arrives(call, CALL);
	cr_assert_not(rr_unmet_recv(fd, bad, 1, 0, &rc) || rr_unmet_recv(fd, NULL, 1, 0, &rc));
	cr_assert(rr_unmet_recv(fd, &(struct iovec){ (void *)8, CALL }, 1, 0, &rc) && rc == -EFAULT);
	cr_assert(queued() == CALL && rr_unmet_is(so));
	cr_assert(reads(sizeof(got), &rc) && rc == CALL);
	cr_assert_not(rr_unmet_send(fd, bad, 1, 0, &rc) || rr_unmet_send(fd, NULL, 1, 0, &rc));
	cr_assert(rr_unmet_send(fd, &(struct iovec){ (void *)8, CALL }, 1, 0, &rc) && rc == -EFAULT);
	cr_assert(writes(reply, REPLY_LEN, &rc) && rc == REPLY_LEN && told.made == 0);
}

Test(unmet, so_is_a_read_that_would_wait)
{
	ssize_t rc = -2;

	cr_assert_not(reads(sizeof(got), &rc) || is_told(POLLIN));
	is_met(0, 0, 0);
}

Test(unmet, so_is_a_write_before_there_was_a_call)
{
	ssize_t rc = -2;
	struct iovec two[2] = { { reply, 20 }, { reply + 20, REPLY_LEN - 20 } };

	cr_assert_not(writes(reply, REPLY_LEN, &rc));
	arrives(call, CALL);
	cr_assert_not(writes(reply, REPLY_LEN, &rc));
	cr_assert(is_told(POLLIN));
	cr_assert_not(writes(reply, REPLY_LEN, &rc));
	cr_assert(reads(sizeof(got), &rc));
	cr_assert_not(rr_unmet_send(fd, two, 2, 0, &rc) || rr_unmet_send(fd, two, 1, MSG_OOB, &rc) ||
		      rr_unmet_send(peer, two, 1, 0, &rc));
	cr_assert_eq(recv(peer, got, 1, MSG_DONTWAIT), -1);
	errno = ESRCH;
	cr_assert(rr_unmet_send(fd, two, 1, MSG_NOSIGNAL, &rc) && rc == 20);
}

Test(unmet, a_long_reply_is_its_connections)
{
	static uint8_t big[4096] = { 0x80, 0, 0x0f, 0xfb };
	ssize_t rc = -2;

	arrives(call, CALL);
	cr_assert(reads(sizeof(got), &rc));
	cr_assert_not(writes(big, 4096, &rc));
	cr_assert(writes(big, 4095, &rc) && rc == 4095 && so->unmet.past.out == 4095 && told.made == 0);
}

/* The bytes have gone, and its connection is told so. */
static void is_part(const void *p, size_t n)
{
	ssize_t rc = -2;

	arrives(call, CALL);
	cr_assert(reads(sizeof(got), &rc));
	cr_assert(writes(p, n, &rc));
	cr_assert_eq(rc, (ssize_t)n);
	cr_assert(told.made == 1 && passed.in == CALL && passed.out == 0);
	cr_assert(told.from == p && told.sent == n && so->conn == made && !rr_unmet_is(so) && rr_unmet_n == 0);
	cr_assert_eq(recv(peer, got, sizeof(got), 0), (ssize_t)n);
}

Test(unmet, half_a_reply_is_its_connections_and_has_gone) { is_part(reply, REPLY_LEN - 1); }

Test(unmet, less_than_a_reply_can_be_is_its_connections)
{
	ssize_t rc;

	arrives(call, CALL);
	cr_assert(reads(sizeof(got), &rc));
	cr_assert_not(writes(reply, 0, &rc) || writes(reply, 4, &rc) || writes(reply, 15, &rc));
	cr_assert(rc == -2 && told.made == 0);
	cr_assert_eq(recv(peer, got, 1, MSG_DONTWAIT), -1);
	errno = ESRCH;
	cr_assert(writes(reply, 16, &rc) && rc == 16 && told.made == 1);
}

Test(unmet, so_is_a_reply_with_another_behind_it)
{
	uint8_t two[REPLY_LEN + 4];

	memcpy(two, reply, REPLY_LEN);
	memset(two + REPLY_LEN, 0, 4);
	is_part(two, sizeof(two));
}

Test(unmet, so_is_a_fragment_that_is_not_the_last)
{
	reply[0] = 0;
	is_part(reply, REPLY_LEN);
}

/* A mark says more than a byte can hold. */
Test(unmet, each_byte_of_a_mark_counts)
{
	for (int i = 0; i < 3; i++) {
		uint8_t p[REPLY_LEN] = { 0x80, 0, 0, REPLY_LEN - 4 };

		cr_assert(rr_conn_is_record(p, sizeof(p)));
		p[i] |= 1;
		cr_assert_not(rr_conn_is_record(p, sizeof(p)), "%d", i);
	}
	cr_assert_not(rr_conn_is_record((uint8_t[]){ 0x80, 0, 0, 0 }, 4), "an empty one is nobody's reply");
	cr_assert(rr_conn_is_record((uint8_t[]){ 0x80, 0, 0, 1, 9 }, 5));
	cr_assert(rr_conn_is_record((uint8_t[]){ 0x85, 3, 7, 1 }, 4 + 0x05030701));
	cr_assert_not(rr_conn_is_record((uint8_t[]){ 5, 3, 7, 1 }, 4 + 0x05030701));
}

static void is_reset(void)
{
	struct linger l = { 1, 0 };
	struct pollfd p = { fd, 0, 0 };

	setsockopt(peer, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(peer);
	cr_assert_eq(poll(&p, 1, 10000), 1);
}

Test(unmet, an_error_is_told_once)
{
	ssize_t rc = -2;

	is_reset();
	cr_assert(reads(sizeof(got), &rc));
	cr_assert_eq(rc, -ECONNRESET);
	cr_assert(reads(sizeof(got), &rc) && rc == 0);
}

Test(unmet, an_error_that_a_look_has_taken_is_its_connections)
{
	is_reset();
	cr_assert(is_told(POLLIN), "it came after the kernel's report");
	is_met(0, 0, ECONNRESET);
}

Test(unmet, or_the_next_reads)
{
	ssize_t rc = -2;

	is_reset();
	cr_assert(is_told(POLLIN) && is_told(POLLIN));
	cr_assert(reads(sizeof(got), &rc));
	cr_assert_eq(rc, -ECONNRESET);
}

Test(unmet, an_end_is_no_error)
{
	ends();
	cr_assert(is_told(POLLIN));
	is_met(0, 0, 0);
}

Test(unmet, a_write_to_who_has_gone)
{
	ssize_t rc = -2;

	arrives(call, CALL);
	cr_assert(reads(sizeof(got), &rc));
	is_reset();
	cr_assert(writes(reply, REPLY_LEN, &rc));
	cr_assert_eq(rc, -ECONNRESET);
	cr_assert(writes(reply, REPLY_LEN, &rc));
	cr_assert_eq(rc, -EPIPE);
	cr_assert(rr_unmet_is(so) && told.made == 0);
}

Test(unmet, a_handler_leaves_it_to_tcp)
{
	struct iovec iov = { got, sizeof(got) };
	struct pollfd p = { fd, POLLIN, POLLIN };
	ssize_t rc = -2;

	arrives(call, CALL);
	so->unmet.worker = (uintptr_t)pthread_self();
	cr_assert_not(rr_unmet_recv(fd, &iov, 1, 0, &rc));
	cr_assert(so->flags & RR_SOCK_PLAIN && so->unmet.worker && queued() == CALL);
	so->flags &= ~(uint32_t)RR_SOCK_PLAIN;
	cr_assert_null(rr_unmet_meet(so, fd));
	cr_assert(so->flags & RR_SOCK_PLAIN && told.made == 0 && so->f.refs == 2);
	cr_assert(so->unmet.worker, "that is for whom it has interrupted to end");
	so->unmet.worker = 0;
	cr_assert_not(rr_unmet_told(&p) || rr_unmet_is(so));
	cr_assert_null(rr_unmet_meet(so, fd), "nor is it met later");
	cr_assert_eq(told.made, 0);
}

Test(unmet, with_a_second_thread_it_is_met)
{
	ssize_t rc = -2;

	arrives(call, CALL);
	alone = 0;
	cr_assert_not(reads(sizeof(got), &rc) || is_told(POLLIN));
	is_met(0, 0, 0);
}

Test(unmet, what_somebody_else_has_read_is_tcps_for_good)
{
	ssize_t rc = -2;

	first = CALL + 1;
	arrives(call, CALL);
	cr_assert(reads(sizeof(got), &rc) && rc == CALL);
	cr_assert(so->flags & RR_SOCK_PLAIN && !rr_unmet_is(so));
	cr_assert_null(rr_unmet_meet(so, fd));
	cr_assert_eq(told.made, 0);
}

Test(unmet, without_memory_it_stays_the_kernels)
{
	made = NULL;
	cr_assert_null(rr_unmet_meet(so, fd));
	cr_assert(told.made == 1 && !so->conn && !rr_unmet_is(so) && rr_unmet_n == 0);
	cr_assert_null(rr_unmet_meet(so, fd));
	cr_assert_eq(told.made, 1);
}

Test(unmet, each_is_met_before_a_fork)
{
	rr_unmet_meet_all();
	cr_assert(told.made == 1 && rr_unmet_n == 0 && so->conn == made && so->f.refs == 2);
	rr_unmet_meet_all();
	cr_assert_eq(told.made, 1);
}

Test(unmet, a_number_that_is_another_files_is_not_asked)
{
	int other, was = tcp(&other);
	ssize_t rc = -2;

	arrives(call, CALL);
	cr_assert_eq(dup3(was, fd, O_CLOEXEC), fd);
	errno = ESRCH;
	now += RR_SEC;	/* a tick */
	so->verified = START;
	cr_assert_not(rr_unmet_recv(fd, &(struct iovec){ got, sizeof(got) }, 1, 0, &rc));
	cr_assert_not(rr_fdt_has(fd));
}

/* An option that its connection has to know of must find one; what TCP alone knows of does not. */
Test(unmet, an_option_of_sockets_is_its_connections)
{
	int one = 1;

	cr_assert_eq(rr_wrap_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
	cr_assert(rr_unmet_is(so) && told.made == 0);
	cr_assert_eq(rr_wrap_setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one)), 0);
	is_met(0, 0, 0);
	cr_assert_eq(so->f.refs, 2);
}

static pthread_t other;

static void *comes_too(void *arg)
{
	struct rr_sock *at;

	(void)arg;
	return rr_conn_at(fd, &at);
}

static void another_thread_comes(void)
{
	cr_assert_eq(pthread_create(&other, NULL, comes_too, NULL), 0);
	usleep(50000);	/* it is here by now, and waits */
}

/* It might read while the other one's first write upgrades the connection: the kernel's is not its word then. */
Test(unmet, a_thread_that_comes_meanwhile_gets_the_connection)
{
	void *its = NULL;

	meanwhile = another_thread_comes;
	cr_assert_eq(rr_unmet_meet(so, fd), made);
	pthread_join(other, &its);
	cr_assert_eq(its, made);
	cr_assert(!(so->flags & RR_SOCK_PLAIN) && told.made == 1 && rr_unmet_n == 0 && !so->unmet.worker);
}
