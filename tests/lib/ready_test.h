/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_READY_TEST_H
#define RR_READY_TEST_H

/* For the tests of the waiting calls: a TCP pair, and things that happen while a call sleeps. */

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "preload/wrap.h"
#include "tests/lib/fakeconn.h"

static inline int tcp(int *peer)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), s = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(l, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(l, 1), 0);
	cr_assert_eq(getsockname(l, (struct sockaddr *)&a, &len), 0);
	cr_assert_eq(connect(s, (struct sockaddr *)&a, len), 0);
	*peer = accept(l, NULL, NULL);
	close(l);
	return s;
}

struct later {
	struct rr_conn *c;
	unsigned add;
	int fd;
	pthread_t thread;
	void (*what)(struct later *);
};

static inline void *run_later(void *arg)
{
	struct later *l = arg;

	usleep(20000);
	l->what(l);
	return NULL;
}

static inline void start(struct later *l)
{
	cr_assert_eq(pthread_create(&l->thread, NULL, run_later, l), 0);
}

static inline void finish(struct later *l)
{
	pthread_join(l->thread, NULL);
}

static inline void make_ready(struct later *l)
{
	rr_fake_ready(l->c, l->add, 0);
}

static inline void write_pipe(struct later *l)
{
	cr_assert_eq(write(l->fd, "x", 1), 1);
}

/* Cancels t when it sleeps. */
static inline void cancel_asleep(pthread_t t, const _Atomic int *sleepers)
{
	void *how;

	while (!*sleepers)
		usleep(1000);
	pthread_cancel(t);
	pthread_join(t, &how);
	cr_assert_eq(how, PTHREAD_CANCELED);
	cr_assert_eq(*sleepers, 0);
}

#endif
