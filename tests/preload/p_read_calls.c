/* SPDX-License-Identifier: BSD-3-Clause */
/* Every call that reads, by all its names: what it does when there is something, nothing, the
 * end, an error, a signal, a cancellation. */

#include <sys/time.h>

#include "tests/preload/calls.h"

enum { SIZE = RPC_CALL_HEAD + 600 };

static char out[SIZE], in[2 * SIZE];

static void put(int fd, uint32_t xid)
{
	p_write_all(fd, out, rpc_call((unsigned char *)out, xid, SIZE - RPC_CALL_HEAD));
}

/* Asks it of every reader, each with a pair of its own. */
static void each(void (*rule)(int s[2], read_fn *fn))
{
	int s[2];

	for (size_t i = 0; i < P_COUNT(readers); i++) {
		p_what = readers[i].name;
		rpc_pair(s);
		rule(s, readers[i].fn);
		close(s[0]);
		close(s[1]);
	}
}

/* --- one that does not wait --- */

static void reads(int s[2], read_fn *fn)
{
	size_t at = 0;

	put(s[0], 5);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(fn(s[1], in, 10), 10);
	CHECK_EQ(memcmp(in, out, 10), 0);
	CHECK_EQ(fn(s[1], in, sizeof(in)), SIZE - 10);
	CHECK_EQ(memcmp(in, out + 10, SIZE - 10), 0);
	for (uint32_t i = 0; i < 3; i++)
		put(s[0], 5);
	while (at < 3 * SIZE) {
		ssize_t r = fn(s[1], in, 333);

		CHECK(r > 0);
		for (ssize_t i = 0; i < r; i++, at++)
			CHECK_EQ(in[i], out[at % SIZE]);
	}
}

static void what_is_there_is_read(void) { each(reads); }

static void is_eagain(int s[2], read_fn *fn)
{
	p_nonblock(s[1], true);
	CHECK_ERR(fn(s[1], in, 10), EAGAIN);
	put(s[0], 5);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(fn(s[1], in, sizeof(in)), SIZE);
	CHECK_ERR(fn(s[1], in, 10), EAGAIN);
}

static void nothing_is_eagain_without_blocking(void) { each(is_eagain); }

static void is_zero(int s[2], read_fn *fn)
{
	put(s[0], 5);
	CHECK_EQ(close(s[0]), 0);
	CHECK_EQ(fn(s[1], in, SIZE), SIZE);
	CHECK_EQ(fn(s[1], in, SIZE), 0);
	CHECK_EQ(fn(s[1], in, SIZE), 0);
	s[0] = -1;
}

static void the_end_is_zero(void) { each(is_zero); }

static void is_econnreset(int s[2], read_fn *fn)
{
	struct linger l = { 1, 0 };

	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	CHECK_EQ(close(s[0]), 0);
	CHECK_ERR(fn(s[1], in, SIZE), ECONNRESET);
	CHECK_EQ(fn(s[1], in, SIZE), 0);
	s[0] = -1;
}

static void a_reset_is_told_once(void) { each(is_econnreset); }

static void shut(int s[2], read_fn *fn)
{
	put(s[0], 5);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(shutdown(s[1], SHUT_RD), 0);
	CHECK_EQ(fn(s[1], in, SIZE), SIZE);
	CHECK_EQ(fn(s[1], in, SIZE), 0);
}

static void after_shut_rd_what_was_there_and_the_end(void) { each(shut); }

static void times_out(int s[2], read_fn *fn)
{
	struct timeval tv = { 0, 20000 };

	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	errno = EINTR;	/* of an earlier call, which says nothing of this one */
	CHECK_EQ(fn(s[1], in, 10), -1);
	CHECK_EQ(errno, EAGAIN);
	put(s[0], 5);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(fn(s[1], in, SIZE), SIZE);
}

static void rcvtimeo_ends_it(void) { each(times_out); }

static void wrong_numbers_are_told(void)
{
	int p[2];

	CHECK_EQ(pipe(p), 0);
	for (size_t i = 0; i < P_COUNT(readers); i++) {
		p_what = readers[i].name;
		CHECK_ERR(readers[i].fn(-1, in, 10), EBADF);
		CHECK_ERR(readers[i].fn(900, in, 10), EBADF);
		if (strncmp(p_what, "recv", 4) == 0)
			CHECK_ERR(readers[i].fn(p[0], in, 10), ENOTSOCK);
	}
}

static void is_enotconn(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	for (size_t i = 0; i < P_COUNT(readers); i++) {
		p_what = readers[i].name;
		CHECK_ERR(readers[i].fn(fd, in, 10), ENOTCONN);
	}
}

/* --- one that waits, in a thread --- */

struct sleeper {
	int fd;
	read_fn *fn;
	char buf[2 * SIZE];
	ssize_t r;
	int err;
	_Atomic pid_t tid;
	_Atomic bool done;
	pthread_t thread;
};

static void *sleeper_main(void *arg)
{
	struct sleeper *w = arg;

	w->tid = gettid();
	w->r = w->fn(w->fd, w->buf, sizeof(w->buf));
	w->err = errno;
	w->done = true;
	return NULL;
}

static void send_to_sleep(struct sleeper *w, int fd, read_fn *fn)
{
	*w = (struct sleeper){ .fd = fd, .fn = fn };
	CHECK_EQ(pthread_create(&w->thread, NULL, sleeper_main, w), 0);
	while (!w->tid)
		usleep(100);
	p_asleep(w->tid);
	CHECK(!w->done);
}

static void woken(int s[2], read_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[1], fn);
	put(s[0], 5);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK_EQ(w.r, SIZE);
	CHECK_EQ(memcmp(w.buf, out, SIZE), 0);
}

static void a_blocked_one_wakes_for_data(void) { each(woken); }

static void ended(int s[2], read_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[1], fn);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK_EQ(w.r, 0);
}

static void a_blocked_one_wakes_for_the_end(void) { each(ended); }

static void shut_asleep(int s[2], read_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[1], fn);
	CHECK_EQ(shutdown(s[1], SHUT_RD), 0);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK_EQ(w.r, 0);
}

static void a_blocked_one_wakes_for_shut_rd(void) { each(shut_asleep); }

static void reset_asleep(int s[2], read_fn *fn)
{
	struct linger l = { 1, 0 };
	struct sleeper w;

	send_to_sleep(&w, s[1], fn);
	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	CHECK_EQ(close(s[0]), 0);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK_EQ(w.r, -1);
	CHECK_EQ(w.err, ECONNRESET);
	s[0] = -1;
}

static void a_blocked_one_wakes_for_a_reset(void) { each(reset_asleep); }

/* --- signals --- */

static _Atomic int handled;

static void on_signal(int sig P_UNUSED)
{
	handled++;
}

static void handle(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
}

static void interrupted(int s[2], read_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[1], fn);
	p_interrupt(w.thread, &w.done);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK_EQ(w.r, -1);
	CHECK_EQ(w.err, EINTR);
	put(s[0], 5);
	CHECK_EQ(fn(s[1], in, SIZE), SIZE);
}

static void a_handler_interrupts(void)
{
	handle(0);
	each(interrupted);
}

static void restarted(int s[2], read_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[1], fn);
	for (int i = 0; i < 3; i++) {
		int before = handled;

		pthread_kill(w.thread, SIGUSR1);
		while (handled == before)
			usleep(100);
		p_asleep(w.tid);
		CHECK(!w.done);
	}
	put(s[0], 5);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK_EQ(w.r, SIZE);
}

static void sa_restart_restarts(void)
{
	if (P_TSAN)
		return;
	handle(SA_RESTART);
	each(restarted);
}

/* With both kinds in one process. (The library cannot tell which one ran, and a read on a carried
 * connection ends with EINTR then; it must not be the other way round.) */
static void one_that_restarts_too(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	handle(0);
	CHECK_EQ(sigaction(SIGUSR2, &sa, NULL), 0);
	each(interrupted);
}

static void not_restarted(int s[2], read_fn *fn)
{
	struct timeval tv = { P_SOON / 1000, 0 };

	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	interrupted(s, fn);
}

static void with_a_timeout_nothing_is_restarted(void)
{
	handle(SA_RESTART);
	each(not_restarted);
}

static void ignored(int s[2], read_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[1], fn);
	for (int i = 0; i < 3; i++)
		pthread_kill(w.thread, SIGUSR1);
	pthread_kill(w.thread, SIGCONT);
	p_asleep(w.tid);
	CHECK(!w.done);
	put(s[0], 5);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK_EQ(w.r, SIZE);
}

static void ignored_signals_do_not_interrupt(void)
{
	signal(SIGUSR1, SIG_IGN);
	each(ignored);
}

/* --- cancellation --- */

static void cancel_asleep(int s[2], read_fn *fn)
{
	int fds = p_open_fds();
	struct sleeper w;
	void *r;

	for (int i = 0; i < 4; i++) {
		send_to_sleep(&w, s[1], fn);
		CHECK_EQ(pthread_cancel(w.thread), 0);
		CHECK_EQ(pthread_join(w.thread, &r), 0);
		CHECK(r == PTHREAD_CANCELED);
		CHECK(!w.done);
	}
	put(s[0], 5);
	CHECK_EQ(fn(s[1], in, SIZE), SIZE);
	close(s[0]);
	close(s[1]);
	rpc_pair(s);
	CHECK_EQ(p_open_fds(), fds);
}

static void a_blocked_one_can_be_cancelled(void) { each(cancel_asleep); }

static void *cancelled_main(void *arg)
{
	struct sleeper *w = arg;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	w->tid = gettid();
	while (!w->done)
		usleep(100);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	w->r = w->fn(w->fd, w->buf, sizeof(w->buf));
	return NULL;
}

/* A thread that always finds something to read must be heard to end all the same. */
static void pending(int s[2], read_fn *fn)
{
	struct sleeper w = { .fd = s[1], .fn = fn, .r = 77 };
	void *r;

	put(s[0], 5);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(pthread_create(&w.thread, NULL, cancelled_main, &w), 0);
	CHECK_EQ(pthread_cancel(w.thread), 0);
	w.done = true;
	CHECK_EQ(pthread_join(w.thread, &r), 0);
	CHECK(r == PTHREAD_CANCELED);
	CHECK_EQ(w.r, 77);
	CHECK_EQ(fn(s[1], in, SIZE), SIZE);
}

static void a_cancellation_that_waits_comes_before_the_data(void) { each(pending); }

static const struct p_case cases[] = {
	{ "what_is_there_is_read", what_is_there_is_read },
	{ "nothing_is_eagain_without_blocking", nothing_is_eagain_without_blocking },
	{ "the_end_is_zero", the_end_is_zero },
	{ "a_reset_is_told_once", a_reset_is_told_once },
	{ "after_shut_rd_what_was_there_and_the_end", after_shut_rd_what_was_there_and_the_end },
	{ "rcvtimeo_ends_it", rcvtimeo_ends_it },
	{ "wrong_numbers_are_told", wrong_numbers_are_told },
	{ "an_unconnected_socket_is_enotconn", is_enotconn },
	{ "a_blocked_one_wakes_for_data", a_blocked_one_wakes_for_data },
	{ "a_blocked_one_wakes_for_the_end", a_blocked_one_wakes_for_the_end },
	{ "a_blocked_one_wakes_for_shut_rd", a_blocked_one_wakes_for_shut_rd },
	{ "a_blocked_one_wakes_for_a_reset", a_blocked_one_wakes_for_a_reset },
	{ "a_handler_interrupts", a_handler_interrupts },
	{ "sa_restart_restarts", sa_restart_restarts },
	{ "a_handler_interrupts_whatever_others_do", one_that_restarts_too },
	{ "with_a_timeout_nothing_is_restarted", with_a_timeout_nothing_is_restarted },
	{ "ignored_signals_do_not_interrupt", ignored_signals_do_not_interrupt },
	{ "a_blocked_one_can_be_cancelled", a_blocked_one_can_be_cancelled },
	{ "a_cancellation_that_waits_comes_before_the_data",
	  a_cancellation_that_waits_comes_before_the_data },
};

P_MAIN(cases)
