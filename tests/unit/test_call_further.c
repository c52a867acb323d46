/* SPDX-License-Identifier: BSD-3-Clause */
/* Data calls that one attempt does not finish: they go on, wait, or finish by the kernel. */
#include <sys/ioctl.h>

#include "tests/unit/call_data.h"

TestSuite(call_further, .init = begin_data, .timeout = 60);

Test(call_further, a_send_that_blocks_goes_on_with_the_rest)
{
	struct iovec iov[3] = { { msg, 4 }, { msg, 0 }, { msg + 4, 6 } };

	SAYS(&tx, 3, 2, 5);
	assert_said(rr_wrap_writev(at.fd, iov, 3), 10);
	cr_assert(tx.calls == 3 && tx.first == msg + 5 && tx.bytes == 5);
	SAYS(&tx, 3, -ECONNRESET);
	assert_said(rr_wrap_send(at.fd, msg, 10, MSG_NOSIGNAL), 3);
	assert_asked(&tx, 2, msg + 3, 1, 7, MSG_NOSIGNAL);
	cr_assert_eq(kept, ECONNRESET, "for the next call");
	kept = 0;
	SAYS(&tx, -ECONNRESET);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), -ECONNRESET);
	cr_assert_eq(kept, 0, "it was told");
	do_not_block();
	SAYS(&tx, 3, -EAGAIN);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), 3);
	cr_assert(tx.calls == 2 && !kept);
	SAYS(&tx, -EAGAIN);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), -EAGAIN);
	SAYS(&tx, -EDEADLK);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), -EAGAIN);
	assert_said(rr_wrap_send(at.fd, msg, 10, MSG_DONTWAIT), -EAGAIN);
}

Test(call_further, who_interrupts_a_call_on_the_same_connection_may_not_wait)
{
	char buf[4];

	SAYS(&tx, -EDEADLK);
	SAYS(&rx, -EDEADLK);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), -EINTR);
	assert_said(rr_wrap_send(at.fd, msg, 10, MSG_DONTWAIT), -EAGAIN);
	assert_said(rr_wrap_recv(at.fd, buf, 4, 0), -EINTR);
	assert_said(rr_wrap_recv(at.fd, buf, 4, MSG_DONTWAIT), -EAGAIN);
	SAYS(&tx, 3, -EDEADLK);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), 3);
	cr_assert_eq(kept, 0);
}

Test(call_further, a_send_whose_connection_ends_finishes_by_the_kernel)
{
	char buf[16];
	struct iovec iov[2] = { { msg, 4 }, { msg + 4, 6 } };

	SAYS(&tx, 3, RR_CONN_KERNEL);
	assert_said(rr_wrap_writev(at.fd, iov, 2), 10);
	cr_assert_eq(recv(at.peer, buf, 16, MSG_DONTWAIT), 7);
	cr_assert_eq(memcmp(buf, msg + 3, 7), 0);
	shutdown(at.fd, SHUT_WR);
	signal(SIGPIPE, on_pipe);
	SAYS(&tx, 3, RR_CONN_KERNEL);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), 3);
	cr_assert(!pipes && kept == EPIPE);
	kept = 0;
	shutdown(at.peer, SHUT_WR);
	SAYS(&tx, 3, RR_CONN_KERNEL);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), 3);
	cr_assert(!pipes && kept == EPIPE, "that the peer has hung up is no error");
}

Test(call_further, an_error_of_the_socket_is_left_for_the_next_call)
{
	struct linger reset = { 1, 0 };
	struct pollfd p = { at.fd, 0, 0 };
	int err;
	socklen_t n = sizeof(err);

	cr_assert_eq(setsockopt(at.peer, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	close(at.peer);
	cr_assert(poll(&p, 1, 10000) == 1 && p.revents & POLLERR);
	SAYS(&tx, 3, RR_CONN_KERNEL);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), 3);
	cr_assert_eq(kept, 0);
	cr_assert_eq(getsockopt(at.fd, SOL_SOCKET, SO_ERROR, &err, &n), 0);
	cr_assert_eq(err, ECONNRESET);
}

Test(call_further, a_receive_that_wants_all_goes_on_until_it_has_it)
{
	char buf[16];

	SAYS(&rx, 3, 2, 5);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 10);
	assert_asked(&rx, 3, buf + 5, 1, 5, 0);
	SAYS(&rx, 3);
	assert_said(rr_wrap_recv(at.fd, buf, 10, 0), 3);
	cr_assert_eq(rx.calls, 1);
	kept = 4711;
	SAYS(&rx, 3, 0);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 3);
	cr_assert(rx.calls == 2 && kept == 4711, "the end is no error");
	SAYS(&rx, 3, -ECONNRESET);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 3);
	cr_assert_eq(kept, ECONNRESET);
	kept = 0;
	SAYS(&rx, 3, -EAGAIN);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL | MSG_DONTWAIT), 3);
	cr_assert_eq(kept, 0);
	SAYS(&rx, 3, RR_CONN_KERNEL);
	cr_assert_eq(write(at.peer, "abcdefghi", 9), 9);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 10);
	cr_assert_eq(memcmp(buf + 3, "abcdefg", 7), 0);
	/* What the kernel has is all there is, or it is the end. */
	SAYS(&rx, 3, RR_CONN_KERNEL);
	do_not_block();
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 5);
	cr_assert_eq(memcmp(buf + 3, "hi", 2), 0);
	SAYS(&rx, 3, RR_CONN_KERNEL);
	shutdown(at.peer, SHUT_WR);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 3);
	cr_assert_eq(kept, 0, "the end is no error");
}

/* The bytes come first; then the next call is told of the error. */
Test(call_further, a_receive_that_finishes_by_the_kernel_gets_what_came_before_an_error)
{
	struct linger l = { 1, 0 };
	struct pollfd p = { at.fd, 0, 0 };
	char buf[16];

	SAYS(&rx, 3, RR_CONN_KERNEL);
	cr_assert_eq(write(at.peer, "abcdefg", 7), 7);
	setsockopt(at.peer, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(at.peer);
	cr_assert_eq(poll(&p, 1, 10000), 1);
	cr_assert(p.revents & POLLERR);
	errno = MINE;
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 10);
	cr_assert_eq(memcmp(buf + 3, "abcdefg", 7), 0);
	SAYS(&rx, 3, RR_CONN_KERNEL);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 3);
	cr_assert_eq(recv(at.fd, buf, 10, 0), -1);
	cr_assert_eq(errno, ECONNRESET, "which it has not taken");
}

/* Fewer bytes than SO_RCVLOWAT are nothing that poll() tells of. */
Test(call_further, a_receive_that_finishes_by_the_kernel_gets_what_there_is_at_its_end)
{
	int low = 5;
	char buf[16];

	SAYS(&rx, 3, RR_CONN_KERNEL);
	do_not_block();
	cr_assert_eq(setsockopt(at.fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)), 0);
	cr_assert_eq(write(at.peer, "ab", 2), 2);
	for (int n = 0; n < 2;)
		cr_assert_eq(ioctl(at.fd, FIONREAD, &n), 0);
	errno = MINE;
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 5);
	cr_assert_eq(memcmp(buf + 3, "ab", 2), 0);
}

/* --- bytes that nobody wants to see --- */

Test(call_further, what_is_discarded_needs_no_memory)
{
	SAYS(&rx, 1024, 1024, 500, -EAGAIN);
	assert_said(rr_wrap_recv(at.fd, NULL, 3000, MSG_TRUNC | MSG_DONTWAIT), 2548);
	cr_assert_eq(rx.calls, 4);
	SAYS(&rx, 1024, 1024, 952);
	assert_said(rr_wrap_recv(at.fd, NULL, 3000, MSG_TRUNC | MSG_DONTWAIT), 3000);
	cr_assert_eq(rx.calls, 3);
	cr_assert_eq(rx.bytes, 952);
	cr_assert_eq(rx.flags, MSG_DONTWAIT);
	SAYS(&rx, -EAGAIN);
	assert_said(rr_wrap_recv(at.fd, NULL, 3000, MSG_TRUNC | MSG_DONTWAIT), -EAGAIN);
	SAYS(&rx, 1024, -ECONNRESET);
	assert_said(rr_wrap_recv(at.fd, NULL, 3000, MSG_TRUNC | MSG_DONTWAIT), 1024);
	cr_assert_eq(kept, ECONNRESET);
	SAYS(&rx, RR_CONN_KERNEL);
	assert_said(rr_wrap_recv(at.fd, NULL, 3000, MSG_TRUNC | MSG_DONTWAIT), -EAGAIN);
	SAYS(&rx, 1024, RR_CONN_KERNEL, 0);
	cr_assert_eq(write(at.peer, "abcdefg", 7), 7);
	assert_said(rr_wrap_recv(at.fd, NULL, 1030, MSG_TRUNC | MSG_DONTWAIT), 1030);
	SAYS(&rx, 1024, RR_CONN_KERNEL);
	assert_said(rr_wrap_recv(at.fd, NULL, 1024 + 1, MSG_TRUNC | MSG_DONTWAIT), 1025);
	SAYS(&rx, 1024, RR_CONN_KERNEL);
	assert_said(rr_wrap_recv(at.fd, NULL, 1024 + 1, MSG_TRUNC | MSG_DONTWAIT), 1024);
}

Test(call_further, what_is_peeked_at_to_be_discarded_is_counted)
{
	SAYS(&rx, 1);
	at.c->inq = 500;
	assert_said(rr_wrap_recv(at.fd, NULL, 3000, MSG_TRUNC | MSG_PEEK), 500);
	cr_assert(rx.calls == 1 && rx.n == 1 && rx.bytes == 1 && rx.flags == MSG_PEEK);
	assert_said(rr_wrap_recv(at.fd, NULL, 300, MSG_TRUNC | MSG_PEEK), 300);
	at.c->inq = 0;
	assert_said(rr_wrap_recv(at.fd, NULL, 300, MSG_TRUNC | MSG_PEEK), 1);
	at.c->inq = 500;
	SAYS(&rx, 0);
	assert_said(rr_wrap_recv(at.fd, NULL, 300, MSG_TRUNC | MSG_PEEK), 0);
	SAYS(&rx, -EAGAIN);
	assert_said(rr_wrap_recv(at.fd, NULL, 300, MSG_TRUNC | MSG_PEEK | MSG_DONTWAIT), -EAGAIN);
}

Test(call_further, a_peek_that_wants_all_looks_until_it_is_there_or_the_stream_ends)
{
	char buf[10];

	SAYS(&rx, 3, 3, 10);
	at.c->inq = 3;
	at.c->ready = POLLIN;
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK | MSG_WAITALL), 10);
	cr_assert(rx.calls == 3 && rx.bytes == 10 && rx.first == buf && rx.flags == MSG_PEEK);
	at.c->ready = POLLRDHUP;
	SAYS(&rx, 3, 10);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK | MSG_WAITALL), 3);
	cr_assert_eq(rx.calls, 1);
	/* More came before the end, after the look. */
	at.c->inq = 7;
	SAYS(&rx, 3, 7, 10);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK | MSG_WAITALL), 7);
	cr_assert_eq(rx.calls, 2);
	SAYS(&rx, 3, 3, 10);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK | MSG_WAITALL), 3);
	cr_assert_eq(rx.calls, 2, "it is not to be had");
	at.c->inq = 3;
	at.c->ready = 0;
	SAYS(&rx, 3, 10);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT), 3);
	at.c->inq = -EIO;
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK | MSG_WAITALL), 10);
	SAYS(&rx, 3, 10);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK | MSG_WAITALL), 3);
}

Test(call_further, a_peek_that_wants_all_ends_where_there_is_nothing)
{
	char buf[10];

	at.c->ready = POLLIN;
	SAYS(&rx, 0, 10);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK | MSG_WAITALL), 0);
	cr_assert_eq(rx.calls, 1, "that is the end");
}

Test(call_further, whether_more_comes_by_the_kernel_it_says)
{
	char buf[10];

	rr_fake_become(at.c, at.fd, RR_FAKE_NEW);
	at.c->inq = 3;
	SAYS(&rx, 3, 3, 10);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK | MSG_WAITALL), 10);
	shutdown(at.peer, SHUT_WR);
	for (struct pollfd p = { at.fd, POLLRDHUP, 0 }; !poll(&p, 1, 1000);)
		;
	SAYS(&rx, 3, 3, 10);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK | MSG_WAITALL), 3);
	cr_assert_eq(rx.calls, 1);
}

/* Whether it is the end cannot be told then, so it is not. */
Test(call_further, while_a_handler_has_interrupted_its_holder_a_peek_looks_again)
{
	char buf[10];

	at.c->inq = 3;
	at.c->busy_from = 1;
	SAYS(&rx, 3, 3, 10);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK | MSG_WAITALL), 10);
	cr_assert_eq(rx.calls, 3);
}

/* --- waiting --- */

static void set_timeout(int option)
{
	struct timeval tv = { 0, 30000 };

	cr_assert_eq(setsockopt(at.fd, SOL_SOCKET, option, &tv, sizeof(tv)), 0);
	errno = MINE;
}

Test(call_further, a_call_that_blocks_waits_for_news)
{
	struct later l = { .c = at.c, .add = POLLIN, .what = make_ready }, m = { .c = at.c, .add = POLLOUT, .what = make_ready };
	char buf[10];

	SAYS(&rx, -EAGAIN, 7);
	start(&l);
	assert_said(rr_wrap_recv(at.fd, buf, 10, 0), 7);
	finish(&l);
	cr_assert(rx.calls == 2 && at.c->sleepers == 0);
	at.c->ready = 0;
	SAYS(&tx, 4, -EAGAIN, 6);
	start(&m);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), 10);
	finish(&m);
	cr_assert(tx.calls == 3 && tx.first == msg + 4 && at.c->sleepers == 0);
}

Test(call_further, a_call_that_blocks_ends_with_its_time)
{
	rr_time from = rr_now();
	char buf[10];

	set_timeout(SO_RCVTIMEO);
	SAYS(&rx, -EAGAIN);
	assert_said(rr_wrap_recv(at.fd, buf, 10, 0), -EAGAIN);
	cr_assert_geq(rr_now() - from, 30 * RR_MSEC);
	/* Who wants nothing gets it, however the wait ends. */
	assert_said(rr_wrap_recv(at.fd, buf, 0, 0), 0);
	assert_said(rr_wrap_recv(at.fd, buf, 0, MSG_DONTWAIT), -EAGAIN);
	from = rr_now();
	SAYS(&rx, 3);
	at.c->inq = 3;
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK | MSG_WAITALL), 3);
	cr_assert_geq(rr_now() - from, 30 * RR_MSEC);
	SAYS(&rx, 3, -EAGAIN);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 3);
	SAYS(&rx, 3, RR_CONN_KERNEL);
	from = rr_now();
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 3);
	cr_assert_geq(rr_now() - from, 30 * RR_MSEC);
	set_timeout(SO_SNDTIMEO);
	from = rr_now();
	SAYS(&tx, -EAGAIN);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), -EAGAIN);
	cr_assert_geq(rr_now() - from, 30 * RR_MSEC);
	assert_said(rr_wrap_send(at.fd, msg, 0, 0), -EAGAIN);
	SAYS(&tx, 3, -EAGAIN);
	assert_said(rr_wrap_send(at.fd, msg, 10, 0), 3);
}

static ssize_t replaced_recv(struct rr_conn *c RR_UNUSED, int fd, const struct iovec *iov RR_UNUSED, int n RR_UNUSED,
			     int flags RR_UNUSED)
{
	if (!rx.calls++)
		return 3;
	dup2(open("/dev/null", O_RDONLY), fd);
	return -EAGAIN;
}

Test(call_further, what_was_received_counts_where_the_number_is_another_files_by_now)
{
	char buf[10];

	rr_fake.recv = replaced_recv;
	rx.calls = 0;
	cr_assert_eq(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 3);
	cr_assert_eq(errno, MINE);
	cr_assert_eq(kept, 0);
}

static _Atomic pid_t sleeper_tid;

static void *recv_all(void *flags)
{
	char buf[10];

	sleeper_tid = gettid();
	rr_wrap_recv(at.fd, buf, 10, (int)(intptr_t)flags);
	return NULL;
}

static void *send_all(void *flags)
{
	static char much[8 << 20];

	sleeper_tid = gettid();
	rr_wrap_send(at.fd, much, sizeof(much), (int)(intptr_t)flags);
	return NULL;
}

/* No reference of the cancelled thread's stays. */
static void assert_cancelled(void *(*what)(void *), int flags)
{
	pthread_t t;
	void *how;

	sleeper_tid = 0;
	cr_assert_eq(pthread_create(&t, NULL, what, (void *)(intptr_t)flags), 0);
	while (!sleeper_tid)
		usleep(1000);
	await_asleep(sleeper_tid);
	pthread_cancel(t);
	pthread_join(t, &how);
	cr_assert_eq(how, PTHREAD_CANCELED);
	cr_assert(at.so->f.refs == 1 && at.c->sleepers == 0);
}

Test(call_further, a_thread_that_is_cancelled_while_it_goes_on_leaves_nothing)
{
	at.c->inq = 3;
	SAYS(&rx, 3);
	assert_cancelled(recv_all, MSG_PEEK | MSG_WAITALL);
	SAYS(&rx, -EAGAIN);
	assert_cancelled(recv_all, 0);
	SAYS(&rx, 3, RR_CONN_KERNEL);
	assert_cancelled(recv_all, MSG_WAITALL);
	SAYS(&tx, -EAGAIN);
	assert_cancelled(send_all, 0);
	SAYS(&tx, 3, RR_CONN_KERNEL);
	assert_cancelled(send_all, 0);
}

static int timeout_says(int fd, int level, int name, void *val, socklen_t *len)
{
	struct timeval tv = { 0, 1 };

	if (name != SO_RCVTIMEO && name != SO_SNDTIMEO)
		return getsockopt(fd, level, name, val, len);
	memcpy(val, &tv, sizeof(tv));
	return 0;
}

/* A nap comes first, which is longer than that. */
Test(call_further, a_time_that_is_over_after_a_nap_is_over)
{
	char buf[10];

	rr_real.getsockopt = timeout_says;
	SAYS(&rx, -EAGAIN);
	at.c->arms = 0;
	assert_said(rr_wrap_recv(at.fd, buf, 10, 0), -EAGAIN);
	cr_assert_eq(at.c->arms, 1);
}

/* Seven bytes that are not carried. */
static void comes_by_the_kernel(void)
{
	struct pollfd p = { at.fd, POLLIN, 0 };

	cr_assert_eq(write(at.peer, msg, 7), 7);
	cr_assert_eq(poll(&p, 1, 10000), 1);
}

static int interrupted_sleep(struct pollfd *p RR_UNUSED, nfds_t n RR_UNUSED, const struct timespec *left RR_UNUSED,
			     const sigset_t *mask RR_UNUSED)
{
	errno = EINTR;
	return -1;
}

Test(call_further, a_signal_while_the_kernel_finishes_leaves_what_it_has)
{
	char buf[10];

	comes_by_the_kernel();
	rr_real.ppoll = interrupted_sleep;
	SAYS(&rx, 3, RR_CONN_KERNEL);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL), 3);
	cr_assert_eq(kept, 0);
	cr_assert_eq(recv(at.fd, buf, 10, MSG_DONTWAIT), 7);
}

Test(call_further, what_is_discarded_goes_on_without_the_apps_memory)
{
	char buf[10] = "untouched";

	SAYS(&rx, 3, -EAGAIN, 4, 3);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL | MSG_TRUNC), 10);
	cr_assert(rx.calls == 4 && rx.first != buf && !(rx.flags & MSG_TRUNC) && rx.bytes == 3);
	/* Without MSG_WAITALL it is content. */
	SAYS(&rx, 3, -EAGAIN);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_TRUNC), 3);
	cr_assert_str_eq(buf, "untouched");
}

static int refusing_ioctl(int fd RR_UNUSED, unsigned long cmd, ...)
{
	cr_assert_eq(cmd, FIONREAD);
	errno = EINVAL;
	return -1;
}

Test(call_further, who_cannot_know_what_the_kernel_has_leaves_it_there)
{
	char buf[10];

	cr_assert_eq(write(at.peer, msg, 7), 7);
	rr_real.ioctl = refusing_ioctl;
	SAYS(&rx, 3, RR_CONN_KERNEL);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_TRUNC | MSG_DONTWAIT), 3);
	cr_assert_eq(recv(at.fd, buf, 10, MSG_WAITALL | MSG_DONTWAIT), 7);
}

static int nap_sleeps;

static int interrupted_once(struct pollfd *p RR_UNUSED, nfds_t n RR_UNUSED, const struct timespec *left RR_UNUSED,
			    const sigset_t *mask RR_UNUSED)
{
	if (!nap_sleeps++) {
		errno = EINTR;
		return -1;
	}
	at.c->ready = POLLIN;
	return 1;
}

Test(call_further, a_signal_in_a_nap_ends_the_call)
{
	struct sigaction sa = { .sa_handler = on_pipe };
	char buf[10];

	cr_assert_eq(sigaction(SIGUSR1, &sa, NULL), 0);
	rr_real.ppoll = interrupted_once;
	SAYS(&rx, -EAGAIN, 5);
	assert_said(rr_wrap_recv(at.fd, buf, 10, 0), -EINTR);
	cr_assert(nap_sleeps == 1 && rx.calls == 1);
	/* One whose handlers let the kernel's go on does so, too. */
	nap_sleeps = 0;
	sa.sa_flags = SA_RESTART;
	cr_assert_eq(sigaction(SIGUSR1, &sa, NULL), 0);
	SAYS(&rx, -EAGAIN, 5);
	assert_said(rr_wrap_recv(at.fd, buf, 10, 0), 5);
	cr_assert(nap_sleeps >= 1 && rx.calls == 2);
}

/* All pieces of a message are its length. */
Test(call_further, behind_a_message_that_was_sent_in_part_none_is_sent)
{
	struct iovec iov[2] = { { msg, 4 }, { msg + 4, 6 } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = iov, .msg_iovlen = 2 } }, { .msg_hdr = { .msg_iov = iov, .msg_iovlen = 2 } } };

	do_not_block();
	SAYS(&tx, 6, -EAGAIN, 10);
	assert_said(rr_wrap_sendmmsg(at.fd, m, 2, 0), 1);
	cr_assert(m[0].msg_len == 6 && tx.calls == 2);
}

/* --- what is asked, and how often --- */

static int asked_mode, asked_time;

static int counted_fcntl(int fd, int cmd, ...)
{
	asked_mode += cmd == F_GETFL;
	return fcntl(fd, cmd);
}

static int counted_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	asked_time += name == SO_RCVTIMEO;
	return getsockopt(fd, level, name, val, len);
}

Test(call_further, whether_it_may_wait_and_for_how_long_is_asked_once)
{
	char buf[10];

	set_timeout(SO_RCVTIMEO);
	rr_real.fcntl = counted_fcntl;
	rr_real.getsockopt = counted_getsockopt;
	at.c->ready = POLLIN;
	SAYS(&rx, -EAGAIN, -EAGAIN, -EAGAIN, 5);
	assert_said(rr_wrap_recv(at.fd, buf, 10, 0), 5);
	cr_assert(rx.calls == 4 && asked_mode == 1 && asked_time == 1, "%d %d", asked_mode, asked_time);
}

Test(call_further, a_peek_is_content_with_what_it_has_waited_for)
{
	char buf[10];

	at.c->ready = POLLIN;
	at.c->inq = 5;
	SAYS(&rx, -EAGAIN, 3, 10);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_PEEK), 3);
	cr_assert_eq(rx.calls, 2);
}

Test(call_further, what_is_discarded_by_the_kernel_needs_no_memory_either)
{
	char buf[10] = "untouched";

	comes_by_the_kernel();
	SAYS(&rx, 3, -EAGAIN, RR_CONN_KERNEL);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_WAITALL | MSG_TRUNC), 10);
	cr_assert_str_eq(buf, "untouched");
	cr_assert_eq(recv(at.fd, buf, 10, MSG_DONTWAIT), -1);
}

/* Another thread was faster. */
static ssize_t late_recv(int fd, void *buf, size_t n, int flags)
{
	char gone[10];

	cr_assert_eq(recv(fd, gone, 10, MSG_DONTWAIT), 7);
	cr_assert(flags & MSG_DONTWAIT);
	return recv(fd, buf, n, flags);
}

Test(call_further, what_another_has_read_meanwhile_is_not_waited_for)
{
	char buf[10];

	comes_by_the_kernel();
	rr_real.recv = late_recv;
	SAYS(&rx, 3, RR_CONN_KERNEL);
	assert_said(rr_wrap_recv(at.fd, buf, 10, MSG_TRUNC), 3);
	cr_assert_eq(kept, 0);
}
