/* SPDX-License-Identifier: BSD-3-Clause */
/* select() and pselect(): which bits show in which set, words and their edges, times, and what is the kernel's to refuse. */
#include <errno.h>
#include <sys/resource.h>
#include <limits.h>

#include "tests/lib/ready_test.h"

TestSuite(ready_select_sets, .timeout = 60);

enum { IN = 1, OUT = 2, EX = 4 };

static void put_in(int fd, unsigned which, fd_set *r, fd_set *w, fd_set *x)
{
	FD_ZERO(r);
	FD_ZERO(w);
	FD_ZERO(x);
	if (which & IN)
		FD_SET(fd, r);
	if (which & OUT)
		FD_SET(fd, w);
	if (which & EX)
		FD_SET(fd, x);
}

Test(ready_select_sets, each_bit_shows_where_it_belongs)
{
	static const struct { unsigned ready, shows; } c[] = {
		{ POLLIN, IN }, { POLLOUT, OUT }, { POLLIN | POLLOUT, IN | OUT }, { POLLHUP, IN }, { POLLERR, IN | OUT },
		{ POLLHUP | POLLOUT, IN | OUT }, { 0, 0 },
	};
	struct timeval none = { 0, 0 };
	int peer, fd = tcp(&peer);
	struct rr_conn *conn = rr_fake_conn(fd, RR_FAKE_CARRIED);
	fd_set r, w, x;

	for (size_t i = 0; i < rr_array_size(c); i++) {
		for (unsigned in = 1; in < 8; in++) {
			unsigned want = c[i].shows & in;

			conn->ready = c[i].ready;
			put_in(fd, in, &r, &w, &x);
			none = (struct timeval){ 0, 0 };
			cr_assert_eq(rr_wrap_select(fd + 1, &r, &w, &x, &none), __builtin_popcount(want), "%zu %u", i, in);
			cr_assert_eq((FD_ISSET(fd, &r) ? IN : 0) | (FD_ISSET(fd, &w) ? OUT : 0) | (FD_ISSET(fd, &x) ? EX : 0),
				     want, "%zu %u", i, in);
			cr_assert(!none.tv_sec && !none.tv_usec);
		}
	}
}

/* Numbers at the edges of words; those that are the kernel's are between. */
Test(ready_select_sets, numbers_at_the_edges_of_words)
{
	static const int at[] = { 63, 64, 65, 127, 128, 191, 500, 1023 };
	int peer, fd = tcp(&peer), p[2];
	struct timeval none = { 0, 0 };
	fd_set r, w, x;

	cr_assert_eq(pipe(p), 0);
	cr_assert_eq(write(p[1], "x", 1), 1);
	for (size_t i = 0; i < rr_array_size(at); i++) {
		struct rr_conn *c;

		cr_assert_eq(dup2(fd, at[i]), at[i]);
		c = rr_fake_conn(at[i], RR_FAKE_CARRIED);
		c->ready = POLLIN;
		put_in(at[i], IN | OUT | EX, &r, &w, &x);
		FD_SET(p[0], &r);
		cr_assert_eq(rr_wrap_select(at[i] + 1, &r, &w, &x, &none), 2, "%d", at[i]);
		for (int k = 0; k < FD_SETSIZE; k++)
			cr_assert(!FD_ISSET(k, &r) == !(k == at[i] || k == p[0]) && !FD_ISSET(k, &w) && !FD_ISSET(k, &x));
		/* One less, and it does not count; its bit is not looked at either. */
		put_in(at[i], IN, &r, &w, &x);
		FD_SET(p[0], &r);
		cr_assert_eq(rr_wrap_select(at[i], &r, NULL, NULL, &none), 1, "%d", at[i]);
		c->ready = 0;
		put_in(at[i], IN, &r, &w, &x);
		cr_assert_eq(rr_wrap_select(at[i] + 1, &r, NULL, NULL, &none), 0);
		cr_assert_not(FD_ISSET(at[i], &r));
	}
}

/* More than are put on the stack, twice, and fewer again. */
Test(ready_select_sets, many_and_few)
{
	int peer, fd = tcp(&peer), n = 0;
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct timeval none = { 0, 0 };
	fd_set r;

	c->ready = POLLIN;
	for (int round = 0; round < 4; round++) {
		int most = round == 2 ? 0 : 300;

		FD_ZERO(&r);
		FD_SET(fd, &r);
		for (n = 0; n < most; n++)
			FD_SET(dup2(peer, 400 + n), &r);
		cr_assert_eq(rr_wrap_select(400 + 300, &r, NULL, NULL, &none), 1);
		cr_assert(FD_ISSET(fd, &r) && !FD_ISSET(400, &r) && !FD_ISSET(699, &r));
	}
}

Test(ready_select_sets, one_that_hangs_up_unasked_is_left_out_until_another_has_something)
{
	int peer, fd = tcp(&peer), other = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED), *d = rr_fake_conn(other, RR_FAKE_CARRIED);
	struct later l = { .c = d, .add = POLLOUT, .what = make_ready };
	fd_set w;

	c->ready = POLLHUP;
	FD_ZERO(&w);
	FD_SET(fd, &w);
	FD_SET(other, &w);
	start(&l);
	cr_assert_eq(rr_wrap_select(64, NULL, &w, NULL, NULL), 1);
	finish(&l);
	cr_assert(!FD_ISSET(fd, &w) && FD_ISSET(other, &w));
}

Test(ready_select_sets, times)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct timeval tv = { (time_t)UINT32_MAX, 5 };
	struct timespec ts = { 0, 0 };
	rr_time from = rr_now();
	fd_set r;

	c->ready = POLLIN;
	FD_ZERO(&r);
	FD_SET(fd, &r);
	cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, &tv), 1);
	cr_assert(tv.tv_sec == (time_t)UINT32_MAX && tv.tv_usec == 5, "it is never over");
	tv = (struct timeval){ (time_t)UINT32_MAX - 1, 5 };
	cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, &tv), 1);
	cr_assert(tv.tv_sec == (time_t)UINT32_MAX - 2 || tv.tv_sec == (time_t)UINT32_MAX - 1);
	tv = (struct timeval){ 100, 0 };
	cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, &tv), 1);
	cr_assert(tv.tv_sec == 99 && tv.tv_usec > 0 && tv.tv_usec < 1000000, "%ld", (long)tv.tv_usec);
	/* Microseconds may be more than a second. */
	tv = (struct timeval){ 0, 100000000 };
	cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, &tv), 1);
	cr_assert(tv.tv_sec == 99 && tv.tv_usec < 1000000);
	c->ready = 0;
	errno = 4711;
	cr_assert_eq(rr_wrap_pselect(fd + 1, &r, NULL, NULL, &ts, NULL), 0);
	cr_assert_not(FD_ISSET(fd, &r));
	FD_SET(fd, &r);
	ts.tv_nsec = 20000000;
	cr_assert_eq(rr_wrap_pselect(fd + 1, &r, NULL, NULL, &ts, NULL), 0);
	cr_assert_geq(rr_now() - from, 20 * RR_MSEC);
	cr_assert_eq(ts.tv_nsec, 20000000, "pselect() does not say what is left");
	FD_SET(fd, &r);
	tv = (struct timeval){ 0, 1 };
	cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, &tv), 0);
	cr_assert(!tv.tv_sec && !tv.tv_usec);
	cr_assert_eq(errno, 4711);
}

static void assert_refused(int rc, int error)
{
	cr_assert_eq(rc, -1);
	cr_assert_eq(errno, error, "%d", errno);
}

Test(ready_select_sets, what_is_wrong_is_the_kernels_to_refuse)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct timeval minus = { -1, 0 }, minus_us = { 0, -1 }, none = { 0, 0 };
	struct timespec bad = { 0, -1 }, zero = { 0, 0 };
	sigset_t mask;
	fd_set r, *bad_set = (fd_set *)8;

	sigemptyset(&mask);
	c->ready = POLLIN;
	FD_ZERO(&r);
	FD_SET(fd, &r);
	assert_refused(rr_wrap_select(fd + 1, bad_set, NULL, NULL, &none), EFAULT);
	assert_refused(rr_wrap_select(fd + 1, &r, bad_set, NULL, &none), EFAULT);
	assert_refused(rr_wrap_select(fd + 1, &r, NULL, bad_set, &none), EFAULT);
	assert_refused(rr_wrap_select(fd + 1, &r, NULL, NULL, &minus), EINVAL);
	assert_refused(rr_wrap_select(fd + 1, &r, NULL, NULL, &minus_us), EINVAL);
	assert_refused(rr_wrap_select(-1, &r, NULL, NULL, &none), EINVAL);
	assert_refused(rr_wrap_pselect(fd + 1, &r, NULL, NULL, &bad, NULL), EINVAL);
	assert_refused(rr_wrap_pselect(fd + 1, &r, NULL, NULL, &zero, (sigset_t *)8), EFAULT);
	assert_refused(rr_wrap_pselect(fd + 1, bad_set, NULL, NULL, &zero, &mask), EFAULT);
	cr_assert_eq(c->polls, 0, "the connection was not asked");
	cr_assert(FD_ISSET(fd, &r));
	cr_assert_eq(rr_wrap_select(0, &r, NULL, NULL, &none), 0);
	cr_assert_eq(c->polls, 0);
	cr_assert_eq(rr_wrap_pselect(fd + 1, &r, NULL, NULL, &zero, &mask), 1);
	cr_assert_eq(rr_wrap_pselect(fd + 1, &r, NULL, NULL, NULL, NULL), 1);
}

/* Without a fd of ours the kernel answers, whatever the table has elsewhere. */
static int kernel_selects;

static int count_select(int n RR_UNUSED, fd_set *r RR_UNUSED, fd_set *w RR_UNUSED, fd_set *x RR_UNUSED,
			struct timeval *t RR_UNUSED)
{
	kernel_selects++;
	return 0;
}

static int count_pselect(int n RR_UNUSED, fd_set *r RR_UNUSED, fd_set *w RR_UNUSED, fd_set *x RR_UNUSED,
			 const struct timespec *t RR_UNUSED, const sigset_t *mask RR_UNUSED)
{
	kernel_selects++;
	return 0;
}

Test(ready_select_sets, a_time_that_cannot_be_read_is_the_kernels_to_refuse)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	fd_set r;

	rr_real.select = count_select;
	rr_real.pselect = count_pselect;
	c->ready = POLLIN;
	FD_ZERO(&r);
	FD_SET(fd, &r);
	cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, (struct timeval *)8), 0);
	cr_assert_eq(rr_wrap_pselect(fd + 1, &r, NULL, NULL, (struct timespec *)8, NULL), 0);
	cr_assert(kernel_selects == 2 && c->polls == 0);
}

Test(ready_select_sets, without_one_of_ours_it_is_the_kernels)
{
	int peer, fd = tcp(&peer), p[2];
	struct timeval none = { 0, 0 };
	fd_set r, w, x;

	cr_assert_eq(pipe(p), 0);
	rr_fake_conn(fd, RR_FAKE_CARRIED)->ready = POLLIN;
	rr_real.select = count_select;
	put_in(p[0], IN, &r, &w, &x);
	cr_assert_eq(rr_wrap_select(64, &r, &w, &x, &none), 0);
	cr_assert_eq(rr_wrap_select(64, NULL, NULL, NULL, &none), 0);
	cr_assert_eq(rr_wrap_select(fd, &r, NULL, NULL, &none), 0);
	cr_assert_eq(kernel_selects, 3);
	FD_SET(fd, &x);
	cr_assert_eq(rr_wrap_select(64, &r, &w, &x, &none), 0);
	cr_assert_eq(kernel_selects, 3);
}

/* --- beside the kernel's --- */

/* More entries than the stack is used for. */
Test(ready_select, select_over_many_descriptors)
{
	int peer, fd = tcp(&peer), two[2], n = 1, most = 0;
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct timeval none = { 0, 0 };
	fd_set r;

	cr_assert_eq(pipe(two), 0);
	cr_assert_eq(write(two[1], "x", 1), 1);
	c->ready = POLLIN;
	FD_ZERO(&r);
	FD_SET(fd, &r);
	for (; n < 900; n++) {
		most = dup(two[0]);
		cr_assert(most >= 0 && most < FD_SETSIZE);
		FD_SET(most, &r);
	}
	cr_assert_eq(rr_wrap_select(most + 1, &r, NULL, NULL, &none), n);
	cr_assert(FD_ISSET(fd, &r) && FD_ISSET(most, &r));
}

Test(ready_select, sets_show_ours_and_the_kernels_and_the_sum_is_right)
{
	int peer, fd = tcp(&peer), pp[2];
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	fd_set r, w, x;

	cr_assert_eq(pipe(pp), 0);
	cr_assert_eq(write(pp[1], "x", 1), 1);
	c->ready = POLLIN | POLLOUT;
	FD_ZERO(&r);
	FD_SET(fd, &r);
	FD_SET(pp[0], &r);
	FD_ZERO(&x);
	FD_SET(fd, &x);
	w = x;
	cr_assert_eq(rr_wrap_select(64, &r, &w, &x, NULL), 3);
	cr_assert(FD_ISSET(fd, &r) && FD_ISSET(pp[0], &r) && FD_ISSET(fd, &w));
	cr_assert(!FD_ISSET(fd, &x));
}

Test(ready_select, a_time_out_empties_the_sets_and_tells_the_time_left)
{
	int peer, fd = tcp(&peer);
	struct timeval tv = { 0, 20000 };
	fd_set r;

	rr_fake_conn(fd, RR_FAKE_CARRIED);
	FD_ZERO(&r);
	FD_SET(fd, &r);
	cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, &tv), 0);
	cr_assert(!FD_ISSET(fd, &r));
	cr_assert(tv.tv_sec == 0 && tv.tv_usec == 0);
}

Test(ready_select, time_that_is_left_is_told)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct timeval tv = { 100, 0 };
	fd_set r;

	c->ready = POLLIN;
	FD_ZERO(&r);
	FD_SET(fd, &r);
	cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, &tv), 1);
	cr_assert(tv.tv_sec == 99 && tv.tv_usec > 0);
}

Test(ready_select, a_closed_fd_is_ebadf_and_the_sets_stay)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	fd_set r;

	c->ready = POLLIN;
	FD_ZERO(&r);
	FD_SET(fd, &r);
	FD_SET(777, &r);
	cr_assert_eq(rr_wrap_select(1000, &r, NULL, NULL, NULL), -1);
	cr_assert_eq(errno, EBADF);
	cr_assert(FD_ISSET(fd, &r) && FD_ISSET(777, &r));
	cr_assert_eq(rr_wrap_select(-1, &r, NULL, NULL, NULL), -1);
	cr_assert_eq(errno, EINVAL);
}

Test(ready_select, hang_up_is_readable_error_is_writable_neither_is_exceptional)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct timeval tv = { 0, 10000 };
	fd_set r, w, x;

	FD_ZERO(&r);
	FD_SET(fd, &r);
	w = x = r;
	c->ready = POLLHUP;
	cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, NULL), 1);
	c->ready = POLLERR;
	cr_assert_eq(rr_wrap_select(fd + 1, NULL, &w, NULL, NULL), 1);
	cr_assert_eq(rr_wrap_select(fd + 1, NULL, NULL, &x, &tv), 0);
}

Test(ready_select, bits_beyond_n_do_not_count)
{
	int peer, fd = tcp(&peer), pp[2];
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	fd_set r;

	cr_assert_eq(pipe(pp), 0);
	c->ready = POLLIN;
	FD_ZERO(&r);
	FD_SET(fd, &r);
	FD_SET(fd + 1, &r);
	FD_SET(63, &r);
	cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, NULL), 1);
	cr_assert(FD_ISSET(fd, &r));
}

Test(ready_select, a_wake_up_for_something_no_set_asks_for_does_not_end_pselect)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct timespec ts = { 0, 40000000 };
	struct later l = { .c = c, .add = POLLHUP, .what = make_ready };
	rr_time from = rr_now();
	fd_set w;

	FD_ZERO(&w);
	FD_SET(fd, &w);
	start(&l);
	cr_assert_eq(rr_wrap_pselect(fd + 1, NULL, &w, NULL, &ts, NULL), 0);
	cr_assert_geq(rr_now() - from, 40 * RR_MSEC);
	finish(&l);
}

Test(ready_select, the_number_0_is_one_as_any_other)
{
	int peer, fd = tcp(&peer), pp[2];
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct timeval tv = { 0, 0 };
	fd_set r;

	cr_assert_eq(pipe(pp), 0);
	cr_assert_eq(dup2(pp[0], 0), 0);
	cr_assert_eq(write(pp[1], "x", 1), 1);
	for (int ready = 0; ready < 2; ready++) {
		c->ready = ready ? POLLIN : 0;
		FD_ZERO(&r);
		FD_SET(0, &r);
		FD_SET(fd, &r);
		cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, &tv), 1 + ready);
		cr_assert(FD_ISSET(0, &r) && !!FD_ISSET(fd, &r) == ready);
	}
	/* One of ours may have it. */
	cr_assert_eq(dup2(fd, 0), 0);
	c = rr_fake_conn(0, RR_FAKE_CARRIED);
	c->ready = POLLIN;
	FD_ZERO(&r);
	FD_SET(0, &r);
	cr_assert_eq(rr_wrap_select(1, &r, NULL, NULL, &tv), 1);
	cr_assert(FD_ISSET(0, &r));
}

/* Both lie in one word of the set. */
Test(ready_select, urgent_data_is_exceptional)
{
	int peer, fd = tcp(&peer), p[2], u[2] = { tcp(&p[0]), tcp(&p[1]) };
	struct pollfd told[2] = { { u[0], POLLPRI, 0 }, { u[1], POLLPRI, 0 } };
	fd_set r, x;

	rr_fake_conn(fd, RR_FAKE_CARRIED)->ready = POLLIN;
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(send(p[i], "!", 1, MSG_OOB), 1);
		cr_assert_eq(poll(&told[i], 1, 10000), 1);
	}
	FD_ZERO(&r);
	FD_ZERO(&x);
	FD_SET(fd, &r);
	for (int i = 0; i < 2; i++)
		FD_SET(u[i], &x);
	FD_SET(fd, &x);
	cr_assert_eq(rr_wrap_select(64, &r, NULL, &x, NULL), 3);
	cr_assert(FD_ISSET(fd, &r) && FD_ISSET(u[0], &x) && FD_ISSET(u[1], &x) && !FD_ISSET(fd, &x));
}

static void on_signal(int sig RR_UNUSED)
{
}

Test(ready_select, a_signal_leaves_the_sets_and_tells_the_time_left)
{
	struct sigaction sa = { .sa_handler = on_signal };
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct later l = { .c = c, .what = interrupt };
	struct timeval tv = { 100, 0 };
	fd_set r, was;

	sigaction(SIGUSR1, &sa, NULL);
	FD_ZERO(&r);
	FD_SET(fd, &r);
	was = r;
	start(&l);
	cr_assert_eq(rr_wrap_select(fd + 1, &r, NULL, NULL, &tv), -1);
	cr_assert_eq(errno, EINTR);
	finish(&l);
	cr_assert_eq(memcmp(&r, &was, sizeof(r)), 0);
	cr_assert(tv.tv_sec > 50 && tv.tv_sec < 100);
}

Test(ready_select, without_memory_many_cannot_be_waited_for)
{
	int peer, fd = tcp(&peer), rc, err;
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct timeval tv = { 0, 0 };
	struct rlimit was, none;
	fd_set r, before;

	c->ready = POLLIN;
	memset(&r, 0xff, sizeof(r));
	before = r;
	cr_assert_eq(getrlimit(RLIMIT_AS, &was), 0);
	none = (struct rlimit){ 4096, was.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
	rc = rr_wrap_select(FD_SETSIZE, &r, NULL, NULL, &tv);
	err = errno;
	setrlimit(RLIMIT_AS, &was);
	cr_assert(rc == -1 && err == ENOMEM, "%d %d", rc, err);
	cr_assert_eq(memcmp(&r, &before, sizeof(r)), 0);
}
