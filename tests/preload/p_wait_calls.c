/* SPDX-License-Identifier: BSD-3-Clause */
/* Every call that waits, by all its names: what is ready in which state, and what ends a wait. */

#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/preload/calls.h"

static unsigned char rec[1 << 16];

static void put(int fd, uint32_t xid)
{
	p_write_all(fd, rec, rpc_call(rec, xid, 600));
}

static void fill(int fd)
{
	size_t n = rpc_call(rec, 9, 20000), at = 0;
	int vain = 0;

	p_nonblock(fd, true);
	while (vain < 2) {	/* an acknowledgement may be late */
		ssize_t r = write(fd, rec + at % n, n - at % n);

		if (r > 0)
			at += (size_t)r;
		vain = r > 0 ? 0 : vain + 1;
		if (r < 0)
			rpc_tcp_settles(fd);
	}
	p_nonblock(fd, false);
}

static void reset(int fd)
{
	struct linger l = { 1, 0 };

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	CHECK_EQ(close(fd), 0);
}

static void each(void (*rule)(int s[2], wait_fn *fn))
{
	int s[2];

	for (size_t i = 0; i < P_COUNT(waiters); i++) {
		p_what = waiters[i].name;
		rpc_pair(s);
		rule(s, waiters[i].fn);
		close(s[0]);
		close(s[1]);
	}
}

/* --- states --- */

static void states(int s[2], wait_fn *fn)
{
	CHECK_EQ(fn(s[1], POLLIN, 0), 0);
	CHECK_EQ(fn(s[1], POLLIN, 5), 0);
	CHECK_EQ(fn(s[1], POLLOUT, 0), 1);
	CHECK_EQ(fn(s[1], POLLOUT, -1), 1);
	put(s[0], 5);
	CHECK_EQ(fn(s[1], POLLIN, -1), 1);
	CHECK_EQ(fn(s[1], POLLIN, 0), 1);
	CHECK_EQ(read(s[1], rec, 10), 10);
	CHECK_EQ(fn(s[1], POLLIN, 0), 1);
	CHECK_EQ(read(s[1], rec, sizeof(rec)), RPC_CALL_HEAD + 590);
	CHECK_EQ(fn(s[1], POLLIN, 0), 0);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_EQ(fn(s[1], POLLIN, P_SOON), 1);
	CHECK_EQ(fn(s[1], POLLOUT, 0), 1);
	CHECK_EQ(fn(s[0], POLLOUT, 0), 1);
	CHECK_EQ(fn(s[0], POLLIN, 0), 0);
}

static void readiness_follows_the_state(void) { each(states); }

static void full(int s[2], wait_fn *fn)
{
	fill(s[0]);
	CHECK_EQ(fn(s[0], POLLOUT, 0), 0);
	CHECK_EQ(fn(s[0], POLLOUT, 5), 0);
	CHECK_EQ(fn(s[0], POLLIN, 0), 0);
}

static void a_full_connection_cannot_be_written(void) { each(full); }

static void was_reset(int s[2], wait_fn *fn)
{
	reset(s[0]);
	CHECK_EQ(fn(s[1], POLLIN, P_SOON), 1);
	CHECK_EQ(fn(s[1], POLLOUT, 0), 1);
	s[0] = -1;
}

static void after_a_reset_everything_is_ready(void) { each(was_reset); }

/* --- what wakes --- */

struct sleeper {
	int fd;
	short want;
	int ms;
	wait_fn *fn;
	int r, err;
	_Atomic pid_t tid;
	_Atomic bool done;
	pthread_t thread;
};

static void *sleeper_main(void *arg)
{
	struct sleeper *w = arg;

	w->tid = gettid();
	w->r = w->fn(w->fd, w->want, w->ms);
	w->err = errno;
	w->done = true;
	return NULL;
}

static void send_to_sleep_for(struct sleeper *w, int fd, short want, wait_fn *fn, int ms)
{
	*w = (struct sleeper){ .fd = fd, .want = want, .ms = ms, .fn = fn };
	CHECK_EQ(pthread_create(&w->thread, NULL, sleeper_main, w), 0);
	while (!w->tid)
		usleep(100);
	p_asleep(w->tid);
	CHECK(!w->done);
}

static void send_to_sleep(struct sleeper *w, int fd, short want, wait_fn *fn)
{
	send_to_sleep_for(w, fd, want, fn, -1);
}

static void woke(struct sleeper *w)
{
	CHECK_EQ(pthread_join(w->thread, NULL), 0);
	CHECK_EQ(w->r, 1);
}

static void data_wakes(int s[2], wait_fn *fn)
{
	struct sleeper w;

	for (int i = 0; i < 3; i++) {
		send_to_sleep(&w, s[1], POLLIN, fn);
		put(s[0], 5);
		woke(&w);
		p_read_all(s[1], rec, RPC_CALL_HEAD + 600);
	}
}

static void a_sleeper_wakes_for_data(void) { each(data_wakes); }

/* A time-out that is far away ends no wait, and data does. The first wait is on a connection where nothing was
 * carried yet. */
static void data_wakes_within_a_time_out(int s[2], wait_fn *fn)
{
	struct sleeper w;

	for (int i = 0; i < 3; i++) {
		send_to_sleep_for(&w, s[1], POLLIN, fn, P_SOON);
		put(s[0], 5);
		woke(&w);
		p_read_all(s[1], rec, RPC_CALL_HEAD + 600);
	}
}

static void a_time_out_that_is_far_away_ends_no_wait(void) { each(data_wakes_within_a_time_out); }

/* Reads two messages by recvmmsg(), which looks at its time-out after the first: 1 if it got both. */
static int read_two(int fd, short want, int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };
	static unsigned char b[2][RPC_CALL_HEAD + 600];
	struct iovec v[2] = { { b[0], sizeof(b[0]) }, { b[1], sizeof(b[1]) } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = &v[0], .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = &v[1], .msg_iovlen = 1 } } };

	(void)want;
	return recvmmsg(fd, m, 2, MSG_WAITALL, &ts) == 2 && ts.tv_sec >= 0 && ts.tv_sec < ms / 1000;
}

static void recvmmsg_waits_for_late_data(void)
{
	struct sleeper w;
	int s[2];

	rpc_pair(s);
	for (int i = 0; i < 3; i++) {
		send_to_sleep_for(&w, s[1], POLLIN, read_two, P_SOON);
		put(s[0], 5);
		p_asleep(w.tid);
		put(s[0], 6);
		woke(&w);
	}
}

/* A time-out that passes: no sooner than it should, and nothing is ready. */
static void passes(int s[2], wait_fn *fn)
{
	struct timespec from, to;
	long ms;

	for (int i = 0; i < 2; i++) {
		clock_gettime(CLOCK_MONOTONIC, &from);
		CHECK_EQ(fn(s[1], POLLIN, 50), 0);
		clock_gettime(CLOCK_MONOTONIC, &to);
		ms = (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
		CHECK(ms >= 49);
		put(s[0], 5);
		p_read_all(s[1], rec, RPC_CALL_HEAD + 600);
	}
}

static void no_time_out_is_over_too_soon(void) { each(passes); }

static void end_wakes(int s[2], wait_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[1], POLLIN, fn);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	woke(&w);
}

static void a_sleeper_wakes_for_the_end(void) { each(end_wakes); }

static void reset_wakes(int s[2], wait_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[1], POLLIN, fn);
	reset(s[0]);
	woke(&w);
	s[0] = -1;
}

static void a_sleeper_wakes_for_a_reset(void) { each(reset_wakes); }

static void own_shutdown_wakes(int s[2], wait_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[1], POLLIN, fn);
	CHECK_EQ(shutdown(s[1], SHUT_RD), 0);
	woke(&w);
}

static void a_sleeper_wakes_for_shut_rd(void) { each(own_shutdown_wakes); }

static void room_wakes(int s[2], wait_fn *fn)
{
	struct sleeper w;

	fill(s[0]);
	send_to_sleep(&w, s[0], POLLOUT, fn);
	p_nonblock(s[1], true);
	while (!w.done)
		while (read(s[1], rec, sizeof(rec)) > 0)
			;
	woke(&w);
}

static void a_sleeper_wakes_for_room(void) { each(room_wakes); }

static void reset_wakes_writer(int s[2], wait_fn *fn)
{
	struct sleeper w;

	fill(s[0]);
	send_to_sleep(&w, s[0], POLLOUT, fn);
	reset(s[1]);
	woke(&w);
	s[1] = -1;
}

static void one_that_waits_for_room_wakes_for_a_reset(void) { each(reset_wakes_writer); }

/* --- what ends it otherwise --- */

static _Atomic int handled;

static void on_signal(int sig P_UNUSED)
{
	handled++;
}

static void interrupted(int s[2], wait_fn *fn)
{
	struct sleeper w;

	send_to_sleep(&w, s[1], POLLIN, fn);
	p_interrupt(w.thread, &w.done);
	CHECK_EQ(pthread_join(w.thread, NULL), 0);
	CHECK_EQ(w.r, -1);
	CHECK_EQ(w.err, EINTR);
}

static void any_handler_interrupts(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	each(interrupted);
	sa.sa_flags = SA_RESTART;	/* no matter: signal(7) */
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	each(interrupted);
}

static void cancelled(int s[2], wait_fn *fn)
{
	struct sleeper w;
	void *r;
	int fds;

	CHECK_EQ(fn(s[1], POLLIN, 0), 0);
	fds = p_open_fds();
	for (int i = 0; i < 4; i++) {
		send_to_sleep(&w, s[1], POLLIN, fn);
		CHECK_EQ(pthread_cancel(w.thread), 0);
		CHECK_EQ(pthread_join(w.thread, &r), 0);
		CHECK(r == PTHREAD_CANCELED);
	}
	put(s[0], 5);
	CHECK_EQ(fn(s[1], POLLIN, -1), 1);
	if (fn == v_poll_with_others)
		fds += 8;	/* its pipes */
	close(s[0]);
	close(s[1]);
	rpc_pair(s);
	CHECK(p_leg("crossing") || p_open_fds() == fds);
}

static void a_sleeper_can_be_cancelled(void) { each(cancelled); }

static void *cancelled_main(void *arg)
{
	struct sleeper *w = arg;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	w->tid = gettid();
	while (!w->done)
		usleep(100);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	w->r = w->fn(w->fd, POLLIN, -1);
	return NULL;
}

static void pending(int s[2], wait_fn *fn)
{
	struct sleeper w = { .fd = s[1], .fn = fn, .r = 77 };
	void *r;

	put(s[0], 5);
	CHECK_EQ(fn(s[1], POLLIN, -1), 1);
	CHECK_EQ(pthread_create(&w.thread, NULL, cancelled_main, &w), 0);
	CHECK_EQ(pthread_cancel(w.thread), 0);
	w.done = true;
	CHECK_EQ(pthread_join(w.thread, &r), 0);
	CHECK(r == PTHREAD_CANCELED);
	CHECK_EQ(w.r, 77);
}

static void a_cancellation_that_waits_comes_first(void) { each(pending); }

/* --- poll's bits, exactly --- */

enum { ALL = POLLIN | POLLPRI | POLLOUT | POLLRDHUP | POLLRDNORM | POLLRDBAND | POLLWRNORM |
	     POLLWRBAND, IN = POLLIN | POLLRDNORM, OUT = POLLOUT | POLLWRNORM };

static int bits(int fd, short ask)
{
	struct pollfd p = { fd, ask, 0x55 };
	int r = poll(&p, 1, 0);

	CHECK_EQ(r, p.revents != 0);
	return p.revents;
}

/* Until something of want shows; then all of it. */
static int bits_after(int fd, short want)
{
	struct pollfd p = { fd, want, 0 };

	CHECK_EQ(poll(&p, 1, P_SOON), 1);
	return bits(fd, ALL);
}

static void the_bits_are_the_kernels(void)
{
	int s[2];

	rpc_pair(s);
	CHECK_EQ(bits(s[0], ALL), OUT);
	CHECK_EQ(bits(s[0], POLLIN | POLLOUT), POLLOUT);
	CHECK_EQ(bits(s[0], POLLWRNORM), POLLWRNORM);
	CHECK_EQ(bits(s[0], POLLWRBAND | POLLRDBAND | POLLPRI), 0);
	CHECK_EQ(bits(s[0], 0), 0);
	put(s[0], 5);
	CHECK_EQ(bits_after(s[1], POLLRDNORM), IN | OUT);
	CHECK_EQ(bits(s[1], POLLIN), POLLIN);
	CHECK_EQ(bits(s[1], POLLRDNORM), POLLRDNORM);
	CHECK_EQ(bits(s[1], POLLRDHUP), 0);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_EQ(bits(s[0], ALL), OUT);
	p_read_all(s[1], rec, RPC_CALL_HEAD + 600);
	CHECK_EQ(bits_after(s[1], POLLRDHUP), IN | OUT | POLLRDHUP);
	CHECK_EQ(bits(s[1], POLLRDHUP), POLLRDHUP);
	CHECK_EQ(shutdown(s[1], SHUT_WR), 0);
	CHECK_EQ(bits_after(s[1], POLLIN), IN | OUT | POLLRDHUP | POLLHUP);
	CHECK_EQ(bits(s[1], 0), POLLHUP);
	CHECK_EQ(bits_after(s[0], POLLIN), IN | OUT | POLLRDHUP | POLLHUP);
}

static void the_bits_of_a_reset(void)
{
	int s[2];

	rpc_pair(s);
	reset(s[0]);
	CHECK_EQ(bits_after(s[1], POLLIN), IN | OUT | POLLRDHUP | POLLHUP | POLLERR);
	CHECK_EQ(bits(s[1], 0), POLLHUP | POLLERR);
	CHECK_ERR(read(s[1], rec, 10), ECONNRESET);
	CHECK_EQ(bits(s[1], ALL), IN | OUT | POLLRDHUP | POLLHUP);
}

static void the_bits_of_one_that_is_shut(void)
{
	int s[2];

	rpc_pair(s);
	CHECK_EQ(shutdown(s[0], SHUT_RD), 0);
	CHECK_EQ(bits(s[0], ALL), IN | OUT | POLLRDHUP);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_EQ(bits(s[0], ALL), IN | OUT | POLLRDHUP | POLLHUP);
	CHECK_EQ(close(s[0]), 0);
	CHECK_EQ(bits(s[0], ALL), POLLNVAL);
}

static void rcvlowat_withholds_readiness(void)
{
	int s[2], low = RPC_CALL_HEAD + 601;

	rpc_pair(s);
	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)), 0);
	put(s[0], 5);
	CHECK(!p_readable(s[1], 30));
	put(s[0], 6);
	CHECK(p_readable(s[1], P_SOON));
	low = -1;	/* as much as there can be */
	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)), 0);
	CHECK(!p_readable(s[1], 30));
	low = 0;
	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)), 0);
	CHECK(p_readable(s[1], P_SOON));
}

/* --- poll's and select's arguments --- */

static void an_array_may_have_everything_in_it(void)
{
	int s[2], t[2], p[2];

	rpc_pair(s);
	rpc_pair(t);
	CHECK_EQ(pipe(p), 0);
	put(s[0], 5);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(write(p[1], "x", 1), 1);
	struct pollfd fds[] = {
		{ t[1], POLLIN, 9 }, { -1, POLLIN, 9 }, { s[1], POLLIN, 9 }, { p[0], POLLIN, 9 },
		{ 900, POLLIN, 9 }, { s[1], POLLOUT, 9 }, { -s[1], POLLIN, 9 },
		{ s[1], POLLIN | POLLOUT, 9 }, { t[0], POLLPRI, 9 },
	};
	static const short got[] = { 0, 0, POLLIN, POLLIN, POLLNVAL, POLLOUT, 0, POLLIN | POLLOUT, 0 };

	CHECK_EQ(poll(fds, 9, -1), 5);
	for (int i = 0; i < 9; i++)
		CHECK_EQ(fds[i].revents, got[i]);
	CHECK_EQ(poll(NULL, 0, 1), 0);
	CHECK_ERR(ppoll(fds, 9, &(struct timespec){ 0, -1 }, NULL), EINVAL);
	CHECK_ERR(ppoll(fds, 9, &(struct timespec){ -1, 0 }, NULL), EINVAL);
}

/* As many entries as may be: what is added to them inside must not count. */
static void an_array_may_be_as_long_as_the_limit(void)
{
	static struct pollfd fds[1024];
	struct rlimit lim;
	int s[2];

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &lim), 0);
	lim.rlim_cur = 64;
	rpc_pair(s);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &lim), 0);
	for (int i = 0; i < 64; i++)
		fds[i] = (struct pollfd){ s[1], POLLIN, 0 };
	CHECK_EQ(poll(fds, 64, 20), 0);
	put(s[0], 5);
	CHECK_EQ(poll(fds, 64, -1), 64);
	CHECK_ERR(poll(fds, 65, 0), EINVAL);
	lim.rlim_cur = lim.rlim_max < 2048 ? lim.rlim_max : 2048;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &lim), 0);
	for (int i = 0; i < 1024; i++)
		fds[i] = (struct pollfd){ i & 1 ? s[1] : -1, POLLIN, 0 };
	CHECK_EQ(poll(fds, 1024, -1), 512);
}

static void ppolls_mask_lets_a_signal_in(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct timespec ts = { 5, 0 };
	sigset_t block, none;
	struct pollfd p = { .events = POLLIN };
	fd_set r;
	int s[2];

	if (P_TSAN)
		return;
	rpc_pair(s);
	p.fd = s[1];
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	sigemptyset(&none);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &block, NULL), 0);
	raise(SIGUSR1);
	CHECK_EQ(poll(&p, 1, 5), 0);
	CHECK_EQ(handled, 0);
	CHECK_ERR(ppoll(&p, 1, &ts, &none), EINTR);
	CHECK_EQ(handled, 1);
	CHECK_EQ(ts.tv_sec, 5);
	raise(SIGUSR1);
	FD_ZERO(&r);
	FD_SET(s[1], &r);
	CHECK_ERR(pselect(s[1] + 1, &r, NULL, NULL, &ts, &none), EINTR);
	CHECK_EQ(handled, 2);
	CHECK(FD_ISSET(s[1], &r));
	CHECK_EQ(ts.tv_sec, 5);
	/* With something there the mask is not looked at. */
	raise(SIGUSR1);
	put(s[0], 5);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(ppoll(&p, 1, &ts, &block), 1);
}

static void select_says_it_in_sets(void)
{
	struct timeval tv = { 3, 0 };
	fd_set r, w, x;
	int s[2], t[2];

	rpc_pair(s);
	rpc_pair(t);
	put(s[0], 5);
	FD_ZERO(&r);
	FD_SET(s[1], &r);
	FD_SET(t[1], &r);
	w = x = r;
	CHECK_EQ(select(t[1] + 1, &r, &w, &x, &tv), 3);
	CHECK(FD_ISSET(s[1], &r) && !FD_ISSET(t[1], &r));
	CHECK(FD_ISSET(s[1], &w) && FD_ISSET(t[1], &w));
	CHECK(!FD_ISSET(s[1], &x) && !FD_ISSET(t[1], &x));
	CHECK(tv.tv_sec == 2 || (tv.tv_sec == 3 && !tv.tv_usec));
	FD_ZERO(&r);
	FD_SET(t[1], &r);
	tv = (struct timeval){ 0, 20000 };
	CHECK_EQ(select(t[1] + 1, &r, NULL, NULL, &tv), 0);
	CHECK(!FD_ISSET(t[1], &r));
	CHECK(!tv.tv_sec && !tv.tv_usec);
	/* Only the first n numbers count. */
	FD_SET(s[1], &r);
	tv = (struct timeval){ 0, 0 };
	CHECK_EQ(select(s[1], &r, NULL, NULL, &tv), 0);
	close(t[1]);
	FD_SET(t[1], &r);
	FD_SET(s[1], &r);
	CHECK_ERR(select(t[1] + 1, &r, NULL, NULL, &tv), EBADF);
	CHECK(FD_ISSET(s[1], &r));
	CHECK_ERR(select(-1, &r, NULL, NULL, &tv), EINVAL);
	tv.tv_usec = -1;
	CHECK_ERR(select(s[1] + 1, &r, NULL, NULL, &tv), EINVAL);
}

/* libevent and others make sets longer than fd_set. */
/* The sets of those that are none of ours are the kernel's alone to look at. */
static void select_of_sets_that_are_no_memory(void)
{
	struct timeval tv = { 0, 0 };
	fd_set *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int p[2];

	CHECK(none != MAP_FAILED && !pipe(p));
	CHECK_ERR(select(p[1] + 1, none, NULL, NULL, &tv), EFAULT);
	CHECK_ERR(select(p[1] + 1, NULL, none, NULL, NULL), EFAULT);
	CHECK_ERR(pselect(p[1] + 1, NULL, NULL, none, NULL, NULL), EFAULT);
}

static void select_knows_numbers_beyond_1024(void)
{
	static uint64_t set[64];
	struct rlimit lim;
	int s[2], hi = 3000;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &lim), 0);
	if (lim.rlim_max < 4096)
		return;
	lim.rlim_cur = 4096;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &lim), 0);
	rpc_pair(s);
	CHECK_EQ(dup2(s[1], hi), hi);
	close(s[1]);
	set[hi / 64] |= UINT64_C(1) << hi % 64;
	put(s[0], 5);
	CHECK_EQ(select(hi + 1, (fd_set *)(void *)set, NULL, NULL, NULL), 1);
	CHECK_EQ(set[hi / 64], UINT64_C(1) << hi % 64);
}

static const struct p_case cases[] = {
	{ "readiness_follows_the_state", readiness_follows_the_state },
	{ "a_full_connection_cannot_be_written", a_full_connection_cannot_be_written },
	{ "after_a_reset_everything_is_ready", after_a_reset_everything_is_ready },
	{ "a_sleeper_wakes_for_data", a_sleeper_wakes_for_data },
	{ "a_time_out_that_is_far_away_ends_no_wait", a_time_out_that_is_far_away_ends_no_wait },
	{ "recvmmsg_waits_for_late_data", recvmmsg_waits_for_late_data },
	{ "no_time_out_is_over_too_soon", no_time_out_is_over_too_soon },
	{ "a_sleeper_wakes_for_the_end", a_sleeper_wakes_for_the_end },
	{ "a_sleeper_wakes_for_a_reset", a_sleeper_wakes_for_a_reset },
	{ "a_sleeper_wakes_for_shut_rd", a_sleeper_wakes_for_shut_rd },
	{ "a_sleeper_wakes_for_room", a_sleeper_wakes_for_room },
	{ "one_that_waits_for_room_wakes_for_a_reset", one_that_waits_for_room_wakes_for_a_reset },
	{ "any_handler_interrupts", any_handler_interrupts },
	{ "a_sleeper_can_be_cancelled", a_sleeper_can_be_cancelled },
	{ "a_cancellation_that_waits_comes_first", a_cancellation_that_waits_comes_first },
	{ "the_bits_are_the_kernels", the_bits_are_the_kernels },
	{ "the_bits_of_a_reset", the_bits_of_a_reset },
	{ "the_bits_of_one_that_is_shut", the_bits_of_one_that_is_shut },
	{ "rcvlowat_withholds_readiness", rcvlowat_withholds_readiness },
	{ "an_array_may_have_everything_in_it", an_array_may_have_everything_in_it },
	{ "an_array_may_be_as_long_as_the_limit", an_array_may_be_as_long_as_the_limit },
	{ "ppolls_mask_lets_a_signal_in", ppolls_mask_lets_a_signal_in },
	{ "select_says_it_in_sets", select_says_it_in_sets },
	{ "select_of_sets_that_are_no_memory", select_of_sets_that_are_no_memory },
	{ "select_knows_numbers_beyond_1024", select_knows_numbers_beyond_1024 },
};

P_MAIN(cases)
