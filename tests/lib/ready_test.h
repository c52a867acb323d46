/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_READY_TEST_H
#define RR_READY_TEST_H

/* For the tests of the waiting calls: a TCP pair, and things that happen while a call sleeps. */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "preload/real.h"
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

/* Does the kernel have a thread of this process asleep? */
static inline bool is_asleep(pid_t tid)
{
	char path[48], stat[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	n = read(fd, stat, sizeof(stat) - 1);
	close(fd);
	cr_assert_gt(n, 0);
	stat[n] = '\0';
	return !strncmp(strrchr(stat, ')'), ") S", 3);
}

/* The fewer looks the better: each takes processor time from the thread that is to go to sleep. */
static inline void await_asleep(pid_t tid)
{
	while (!is_asleep(tid))
		usleep(1000);
}

static inline struct rr_conn *conn_that_rests(int fd)
{
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);

	c->can_rest = true;
	return c;
}

/* Something that happens once the thread that has called start() is asleep (or has looked at c again, if
 * it spins). A thread that waits for it in finish() is asleep, too, so that it always happens. */
struct later {
	struct rr_conn *c;
	unsigned add;
	int fd;
	bool spins;
	unsigned peeks;		/* of c, when it was started */
	pid_t waiter;
	pthread_t thread;
	void (*what)(struct later *);
};

static inline void *run_later(void *arg)
{
	struct later *l = arg;

	if (l->spins)
		while (l->c->peeks == l->peeks && !is_asleep(l->waiter))
			usleep(1000);
	else
		await_asleep(l->waiter);
	l->what(l);
	return NULL;
}

static inline void start(struct later *l)
{
	l->waiter = gettid();
	l->peeks = l->spins ? l->c->peeks : 0;
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

/* A message that is none of the app's, and then one that is. */
static inline void ring_twice(struct later *l)
{
	rr_fake_ready(l->c, 0, 0);
	await_asleep(l->waiter);
	rr_fake_ready(l->c, POLLIN, 0);
}

/* After a spin of a millisecond is over. */
static inline void make_ready_late(struct later *l)
{
	usleep(20000);
	make_ready(l);
}

static inline void write_pipe(struct later *l)
{
	cr_assert_eq(write(l->fd, "x", 1), 1);
}

/* A signal that the thread alone takes, so that it is that one's sleep that ends. */
static inline void interrupt(struct later *l)
{
	cr_assert_eq(tgkill(getpid(), l->waiter, SIGUSR1), 0);
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
