/* SPDX-License-Identifier: BSD-3-Clause */
/* Zeroes: the descriptor of that number, whatever it is, and the result of a wait whose time is over, whatever errno was
 * before. */

#include "tests/preload/calls.h"

static unsigned char rec[1024], got[1024];

/* --- errno of before --- */

static const int before[] = { EINTR, EAGAIN, EBADF, EINVAL, ENOSYS };

static void a_time_out_is_no_error(void)
{
	int s[2];

	for (size_t i = 0; i < P_COUNT(waiters); i++) {
		p_what = waiters[i].name;
		rpc_pair(s);
		for (size_t k = 0; k < 2 * P_COUNT(before); k++) {
			errno = before[k / 2];
			CHECK_EQ(waiters[i].fn(s[1], POLLIN, k % 2 ? 0 : 15), 0);
			CHECK_EQ(errno, before[k / 2]);
		}
		close(s[0]);
		close(s[1]);
	}
}

static void success_is_no_error(void)
{
	int s[2];

	for (size_t i = 0; i < P_COUNT(readers); i++) {
		const struct writer *w = &writers[i % P_COUNT(writers)];
		size_t n = rpc_call(rec, 7, 100);

		p_what = readers[i].name;
		rpc_pair(s);
		for (size_t k = 0; k < P_COUNT(before); k++) {
			errno = before[k];
			CHECK_EQ(w->fn(s[0], rec, n), n);
			CHECK_EQ(waiters[i % P_COUNT(waiters)].fn(s[1], POLLIN, P_SOON), 1);
			if (!strcmp(w->name, "sendfile") || !strcmp(w->name, "sendfile64"))
				errno = before[k];	/* mkstemp() */
			for (size_t at = 0; at < n;) {
				ssize_t r = readers[i].fn(s[1], got + at, n - at);

				CHECK(r > 0);
				at += (size_t)r;
			}
			CHECK_EQ(errno, before[k]);
			CHECK(!memcmp(rec, got, n));
		}
		close(s[0]);
		close(s[1]);
	}
}

/* --- descriptor 0 --- */

static void becomes_zero(int *fd)
{
	CHECK_EQ(dup2(*fd, 0), 0);
	CHECK_EQ(close(*fd), 0);
	*fd = 0;
}

static void call_and_read(int s[2], read_fn *fn)
{
	size_t n = rpc_call(rec, 5, 100);

	p_write_all(s[0], rec, n);
	for (size_t at = 0; at < n;) {
		ssize_t r = fn(s[1], got + at, n - at);

		CHECK(r > 0);
		at += (size_t)r;
	}
	CHECK(!memcmp(rec, got, n));
}

static void zero_is_a_connection_like_others(void)
{
	size_t n;
	int s[2];

	rpc_pair(s);
	becomes_zero(&s[1]);
	for (size_t i = 0; i < P_COUNT(waiters); i++) {
		p_what = waiters[i].name;
		CHECK_EQ(waiters[i].fn(0, POLLIN, 0), 0);
		CHECK_EQ(waiters[i].fn(0, POLLIN, 5), 0);
		CHECK_EQ(waiters[i].fn(0, POLLOUT, P_SOON), 1);
		n = rpc_call(rec, 6, 100);
		p_write_all(s[0], rec, n);
		CHECK(p_readable(0, P_SOON));
		CHECK_EQ(waiters[i].fn(0, POLLIN, 0), 1);
		CHECK_EQ(waiters[i].fn(0, POLLIN, P_SOON), 1);
		p_read_all(0, got, n);
		CHECK_EQ(waiters[i].fn(0, POLLIN, 0), 0);
	}
	for (size_t i = 0; i < P_COUNT(readers); i++) {
		p_what = readers[i].name;
		call_and_read(s, readers[i].fn);
	}
	for (size_t i = 0; i < P_COUNT(writers); i++) {
		p_what = writers[i].name;
		n = rpc_reply(rec, 5, 100);
		CHECK_EQ(writers[i].fn(0, rec, n), n);
		p_read_all(s[0], got, n);
		CHECK(!memcmp(rec, got, n));
	}
}

/* A thread waits for what comes later. */
struct late {
	int fd;
};

static void *calls_later(void *arg)
{
	unsigned char buf[256];
	size_t n = rpc_call(buf, 8, 100);

	usleep(20000);
	p_write_all(((struct late *)arg)->fd, buf, n);
	return NULL;
}

static void zero_is_woken_for(void)
{
	pthread_t t;
	int s[2];

	rpc_pair(s);
	becomes_zero(&s[1]);
	for (size_t i = 0; i < P_COUNT(waiters); i++) {
		struct late l = { s[0] };

		p_what = waiters[i].name;
		CHECK_EQ(pthread_create(&t, NULL, calls_later, &l), 0);
		CHECK_EQ(waiters[i].fn(0, POLLIN, P_SOON), 1);
		CHECK_EQ(pthread_join(t, NULL), 0);
		p_read_all(0, got, rpc_call(rec, 8, 100));
	}
}

/* In one array, or set, with a connection that has nothing. */
static void zero_may_be_another_file(void)
{
	struct timespec ts = { 100, 0 };
	struct pollfd p[2];
	fd_set in;
	int s[2], two[2];

	rpc_pair(s);
	CHECK_EQ(pipe(two), 0);
	becomes_zero(&two[0]);
	for (int k = 0; k < 4; k++) {	/* at rest after the first */
		p[0] = (struct pollfd){ s[1], POLLIN, -1 };
		p[1] = (struct pollfd){ 0, POLLIN, -1 };
		CHECK_EQ(k % 2 ? ppoll(p, 2, &(struct timespec){ 0, 5000000 }, NULL) : poll(p, 2, 5), 0);
		CHECK(!p[0].revents && !p[1].revents);
		CHECK_EQ(write(two[1], "x", 1), 1);
		CHECK_EQ(poll(p, 2, 0), 1);
		CHECK(!p[0].revents && p[1].revents == POLLIN);
		p[1].revents = -1;
		CHECK_EQ(k % 2 ? ppoll(p, 2, &ts, NULL) : poll(p, 2, P_SOON), 1);
		CHECK(!p[0].revents && p[1].revents == POLLIN);
		FD_ZERO(&in);
		FD_SET(0, &in);
		FD_SET(s[1], &in);
		CHECK_EQ(pselect(s[1] + 1, &in, NULL, NULL, &ts, NULL), 1);
		CHECK(FD_ISSET(0, &in) && !FD_ISSET(s[1], &in));
		p_write_all(s[0], rec, rpc_call(rec, 5, 0));
		CHECK_EQ(poll(p, 2, P_SOON) > 0 && p_readable(s[1], P_SOON) ? poll(p, 2, 0) : -1, 2);
		CHECK(p[0].revents == POLLIN && p[1].revents == POLLIN);
		rpc_serve_null(s[1]);
		CHECK_EQ(rpc_read(s[0], got, sizeof(got)), RPC_REPLY_HEAD);
		CHECK_EQ(read(0, got, sizeof(got)), 1);
	}
}

/* select() has no place for a hang-up among the exceptions: it waits on without that connection, and not for another. */
static void nobody_waits_for_zero_in_place_of_another(void)
{
	struct timespec ts = { 0, 20000000 };
	struct timeval tv = { 0, 20000 };
	fd_set ex;
	int s[2];

	rpc_pair(s);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(shutdown(s[i], SHUT_WR), 0);
	CHECK_EQ(read(s[0], got, sizeof(got)), 0);
	CHECK_EQ(read(s[1], got, sizeof(got)), 0);
	close(0);
	for (int k = 0; k < 2; k++) {
		FD_ZERO(&ex);
		FD_SET(s[k], &ex);
		CHECK_EQ(k ? pselect(s[k] + 1, NULL, NULL, &ex, &ts, NULL) : select(s[k] + 1, NULL, NULL, &ex, &tv), 0);
		CHECK(!FD_ISSET(s[k], &ex) && !FD_ISSET(0, &ex));
	}
}

static const struct p_case cases[] = {
	{ "a_time_out_is_no_error", a_time_out_is_no_error },
	{ "success_is_no_error", success_is_no_error },
	{ "zero_is_a_connection_like_others", zero_is_a_connection_like_others },
	{ "zero_may_be_another_file", zero_may_be_another_file },
	{ "nobody_waits_for_zero_in_place_of_another", nobody_waits_for_zero_in_place_of_another },
	{ "zero_is_woken_for", zero_is_woken_for },
};

P_MAIN(cases)
