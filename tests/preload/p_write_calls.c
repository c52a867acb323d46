/* SPDX-License-Identifier: BSD-3-Clause */
/* Every call that writes, by all its names: into room, into none, against an end, a reset, a
 * signal, a cancellation. */

#include <sys/time.h>

#include "tests/preload/calls.h"

/* The bytes that are written are always the next ones of an endless row of this record. */
enum { ARG = 9000, SIZE = RPC_CALL_HEAD + ARG, MANY = 40, ROW = MANY * SIZE };

static unsigned char row[ROW + SIZE], in[1 << 16];
static size_t written, seen;

static const void *next_bytes(void)
{
	return row + written % SIZE;
}

/* Or the kernel's buffers grow as long as they are asked to. */
static void small(int s[2])
{
	const int size = 65536;

	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
}

static void each(void (*rule)(int s[2], write_fn *fn))
{
	int s[2];

	for (int i = 0; i <= MANY; i++)
		rpc_call(row + i * SIZE, 9, ARG);
	for (size_t i = 0; i < P_COUNT(writers); i++) {
		p_what = writers[i].name;
		written = seen = 0;
		rpc_pair(s);
		small(s);
		rule(s, writers[i].fn);
		close(s[0]);
		close(s[1]);
	}
}

/* Until there is no room. The kernel's may come back a little later. */
static void fill(int fd)
{
	ssize_t r;

	p_nonblock(fd, true);
	while ((r = write(fd, next_bytes(), SIZE)) > 0)
		written += (size_t)r;
	CHECK_EQ(errno, EAGAIN);
	p_nonblock(fd, false);
}

/* Reads n bytes of the row. */
static void drain(int fd, size_t n)
{
	while (n) {
		ssize_t r = read(fd, in, n < sizeof(in) ? n : sizeof(in));

		CHECK(r > 0);
		for (ssize_t i = 0; i < r; i++, seen++)
			if (in[i] != row[seen % SIZE])
				CHECK_EQ(in[i], row[seen % SIZE]);
		n -= (size_t)r;
	}
}

static void drain_until(int fd, const _Atomic bool *done)
{
	ssize_t r;

	while (!*done)
		for (r = 1; r > 0 && p_readable(fd, 1); )
			r = recv(fd, in, sizeof(in), 0);
}

/* --- without waiting --- */

static void writes(int s[2], write_fn *fn)
{
	static const size_t piece[] = { 1, 3, 40, 5000, SIZE, 2 * SIZE, SIZE - 1, 2, 3 * SIZE };

	for (size_t i = 0; i < P_COUNT(piece); i++) {
		CHECK_EQ(fn(s[0], next_bytes(), piece[i]), piece[i]);
		written += piece[i];
		if (i == 3)	/* the record's rest, so that it arrives */
			p_write_all(s[0], next_bytes(), SIZE - written % SIZE),
			written += SIZE - written % SIZE;
		drain(s[1], written / SIZE * SIZE - seen);
	}
}

static void what_is_written_arrives_however_it_is_cut(void) { each(writes); }

static void is_eagain(int s[2], write_fn *fn)
{
	size_t had;
	ssize_t r;

	fill(s[0]);
	p_nonblock(s[0], true);
	while ((r = fn(s[0], next_bytes(), SIZE)) > 0)
		written += (size_t)r;
	CHECK_EQ(r, -1);
	CHECK_EQ(errno, EAGAIN);
	had = written;
	drain(s[1], had / SIZE * SIZE);
	CHECK_EQ(poll(&(struct pollfd){ s[0], POLLOUT, 0 }, 1, P_SOON), 1);
	r = fn(s[0], next_bytes(), SIZE);
	CHECK(r > 0);
}

static void without_room_it_is_eagain(void) { each(is_eagain); }

static void times_out(int s[2], write_fn *fn)
{
	struct timeval tv = { 0, 20000 };
	ssize_t r;

	fill(s[0]);
	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)), 0);
	while ((r = fn(s[0], next_bytes(), SIZE)) > 0)
		written += (size_t)r;
	CHECK_EQ(r, -1);
	CHECK_EQ(errno, EAGAIN);
}

static void sndtimeo_ends_it(void) { each(times_out); }

static _Atomic int handled, pipes;

static void on_signal(int sig)
{
	if (sig == SIGPIPE)
		pipes++;
	else
		handled++;
}

static void is_epipe(int s[2], write_fn *fn)
{
	pipes = 0;
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_ERR(fn(s[0], next_bytes(), SIZE), EPIPE);
	CHECK_EQ(pipes, 1);
	CHECK_ERR(fn(s[0], next_bytes(), SIZE), EPIPE);
	CHECK_EQ(pipes, 2);
}

static void after_shut_wr_it_is_epipe_and_sigpipe(void)
{
	signal(SIGPIPE, on_signal);
	each(is_epipe);
}

static void is_reset(int s[2], write_fn *fn)
{
	struct linger l = { 1, 0 };

	pipes = 0;
	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	CHECK_EQ(close(s[1]), 0);
	s[1] = -1;
	CHECK(p_readable(s[0], P_SOON));
	CHECK_ERR(fn(s[0], next_bytes(), SIZE), ECONNRESET);
	CHECK_EQ(pipes, 0);
	CHECK_ERR(fn(s[0], next_bytes(), SIZE), EPIPE);
	CHECK_EQ(pipes, 1);
}

static void a_reset_is_told_once_and_then_epipe(void)
{
	signal(SIGPIPE, on_signal);
	each(is_reset);
}

static void wrong_numbers_are_told(void)
{
	for (size_t i = 0; i < P_COUNT(writers); i++) {
		p_what = writers[i].name;
		CHECK_ERR(writers[i].fn(-1, row, 10), EBADF);
		CHECK_ERR(writers[i].fn(900, row, 10), EBADF);
	}
}

/* --- in a thread --- */

struct sleeper {
	int fd;
	write_fn *fn;
	size_t n;
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
	w->r = w->fn(w->fd, next_bytes(), w->n);
	w->err = errno;
	w->done = true;
	return NULL;
}

static void send_to_sleep(struct sleeper *w, int fd, write_fn *fn)
{
	*w = (struct sleeper){ .fd = fd, .fn = fn, .n = ROW };
	fill(fd);
	CHECK_EQ(pthread_create(&w->thread, NULL, sleeper_main, w), 0);
	while (!w->tid)
		usleep(100);
	p_asleep(w->tid);
	CHECK(!w->done);
}

/* Ended by err; or some bytes found room that the kernel found meanwhile. */
static bool cut_off(const struct sleeper *w, int err)
{
	if (w->r > 0 && w->r < (ssize_t)w->n)
		return !p_leg("carried");
	return w->r == -1 && w->err == err;
}

static void woken(int s[2], write_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[0], fn);
	drain(s[1], (written + ROW) / SIZE * SIZE);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK_EQ(w.r, ROW);
}

static void a_blocked_one_goes_on_when_there_is_room(void) { each(woken); }

/* A sendfile() of the kernel's that has sent a part already returns its length, and raises SIGPIPE as well. */
static bool may_signal(const struct sleeper *w)
{
	return w->r < 0 || (strstr(p_what, "file") && !p_leg("carried"));
}

static void shut_asleep(int s[2], write_fn *fn)
{
	struct sleeper w;

	pipes = 0;
	send_to_sleep(&w, s[0], fn);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK(cut_off(&w, EPIPE));
	CHECK(w.r < 0 ? pipes == 1 : pipes <= may_signal(&w));
}

static void a_blocked_one_wakes_for_shut_wr(void)
{
	signal(SIGPIPE, on_signal);
	each(shut_asleep);
}

static void reset_asleep(int s[2], write_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[0], fn);
	CHECK_EQ(close(s[1]), 0);	/* with all that unread */
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK(cut_off(&w, ECONNRESET));
	s[1] = -1;
}

static void a_blocked_one_wakes_for_a_reset(void) { each(reset_asleep); }

static void handle(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
}

static void interrupted(int s[2], write_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[0], fn);
	p_interrupt(w.thread, &w.done);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK(cut_off(&w, EINTR));
	drain(s[1], written / SIZE * SIZE);
}

static void a_handler_interrupts(void)
{
	handle(0);
	each(interrupted);
}

static void restarted(int s[2], write_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[0], fn);
	for (int i = 0; i < 3; i++) {
		int before = handled;

		pthread_kill(w.thread, SIGUSR1);
		while (handled == before)
			usleep(100);
		if (!p_carries())
			break;	/* some bytes may have gone: then it ends */
		p_asleep(w.tid);
		CHECK(!w.done);
	}
	drain_until(s[1], &w.done);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK(w.r == ROW || (!p_carries() && w.r > 0));
}

static void sa_restart_restarts(void)
{
	if (P_TSAN)
		return;
	handle(SA_RESTART);
	each(restarted);
}

static void not_restarted(int s[2], write_fn *fn)
{
	struct timeval tv = { P_SOON / 1000, 0 };

	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)), 0);
	interrupted(s, fn);
}

static void with_a_timeout_nothing_is_restarted(void)
{
	handle(SA_RESTART);
	each(not_restarted);
}

/* libc's sendfile() is no cancellation point. */
static bool cancellable(write_fn *fn)
{
	return fn != w_sendfile && fn != w_sendfile64;
}

static void cancel_asleep(int s[2], write_fn *fn)
{
	int fds = p_open_fds();
	struct sleeper w;
	void *r;

	if (!cancellable(fn))
		return;
	for (int i = 0; i < 3; i++) {
		send_to_sleep(&w, s[0], fn);
		CHECK_EQ(pthread_cancel(w.thread), 0);
		CHECK_EQ(pthread_join(w.thread, &r), 0);
		CHECK(r == PTHREAD_CANCELED);
	}
	drain(s[1], written / SIZE * SIZE);
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
	w->r = w->fn(w->fd, next_bytes(), w->n);
	return NULL;
}

static void pending(int s[2], write_fn *fn)
{
	struct sleeper w = { .fd = s[0], .fn = fn, .n = SIZE, .r = 77 };
	void *r;

	if (!cancellable(fn))
		return;
	CHECK_EQ(pthread_create(&w.thread, NULL, cancelled_main, &w), 0);
	CHECK_EQ(pthread_cancel(w.thread), 0);
	w.done = true;
	CHECK_EQ(pthread_join(w.thread, &r), 0);
	CHECK(r == PTHREAD_CANCELED);
	CHECK_EQ(w.r, 77);
	CHECK(!p_readable(s[1], 20));
}

static void a_cancellation_that_waits_comes_before_the_write(void) { each(pending); }

static const struct p_case cases[] = {
	{ "what_is_written_arrives_however_it_is_cut", what_is_written_arrives_however_it_is_cut },
	{ "without_room_it_is_eagain", without_room_it_is_eagain },
	{ "sndtimeo_ends_it", sndtimeo_ends_it },
	{ "after_shut_wr_it_is_epipe_and_sigpipe", after_shut_wr_it_is_epipe_and_sigpipe },
	{ "a_reset_is_told_once_and_then_epipe", a_reset_is_told_once_and_then_epipe },
	{ "wrong_numbers_are_told", wrong_numbers_are_told },
	{ "a_blocked_one_goes_on_when_there_is_room", a_blocked_one_goes_on_when_there_is_room },
	{ "a_blocked_one_wakes_for_shut_wr", a_blocked_one_wakes_for_shut_wr },
	{ "a_blocked_one_wakes_for_a_reset", a_blocked_one_wakes_for_a_reset },
	{ "a_handler_interrupts", a_handler_interrupts },
	{ "sa_restart_restarts", sa_restart_restarts },
	{ "with_a_timeout_nothing_is_restarted", with_a_timeout_nothing_is_restarted },
	{ "a_blocked_one_can_be_cancelled", a_blocked_one_can_be_cancelled },
	{ "a_cancellation_that_waits_comes_before_the_write",
	  a_cancellation_that_waits_comes_before_the_write },
};

P_MAIN(cases)
