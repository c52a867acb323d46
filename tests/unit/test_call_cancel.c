/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a thread that was cancelled before: those that are cancellation points end it at once, whatever they would
 * find, and leave nothing; others end as if nothing was. And what diagnostics are told of calls. */
#include "core/base/diag.h"
#include "preload/epset.h"
#include "preload/init.h"
#include "tests/unit/call.h"

static struct { int calls; const char *what; int fd; } diag;

static void note_diag(const char *what, int fd)
{
	diag.calls++;
	diag.what = what;
	diag.fd = fd;
}

static ssize_t all(struct rr_conn *c RR_UNUSED, int fd RR_UNUSED, const struct iovec *iov, int n RR_UNUSED, int flags RR_UNUSED)
{
	return (ssize_t)iov->iov_len;
}

static void begin_cancel(void)
{
	rr_init_core();
	begin_call();
	rr_fake.recv = rr_fake.send = all;
	at.c->ready = POLLIN | POLLOUT;
	rr_diag_hook = note_diag;
	errno = MINE;
}

TestSuite(call_cancel, .init = begin_cancel, .timeout = 60);

/* AddressSanitizer does not follow a thread that is cancelled below a frame of the library's. */
#ifndef __SANITIZE_ADDRESS__
static _Atomic int came_back;

static void do_recv(void)
{
	char b[4];

	rr_wrap_recv(at.fd, b, 4, 0);
}

static void do_send(void)
{
	rr_wrap_send(at.fd, "abcd", 4, 0);
}

static void do_poll(void)
{
	struct pollfd p = { at.fd, POLLIN, 0 };

	rr_wrap_poll(&p, 1, 0);
}

static void do_epoll(void)
{
	struct epoll_event ev[2];

	rr_wrap_epoll_wait(at.set, ev, 2, 0);
}

static void do_close_range(void)
{
	rr_wrap_close_range((unsigned)at.fd, (unsigned)at.fd, 0);
}

static void do_getsockopt(void)
{
	int v;
	socklen_t len = sizeof(v);

	rr_wrap_getsockopt(at.fd, SOL_SOCKET, SO_ERROR, &v, &len);
}

static void *run_cancelled(void *arg)
{
	void (*call)(void) = *(void (**)(void))arg;

	pthread_cancel(pthread_self());
	call();
	came_back = 1;
	pthread_testcancel();
	return NULL;
}

/* Does it come back from the call? In the end it is cancelled. */
static bool comes_back(void (*call)(void))
{
	pthread_t t;
	void *how;

	came_back = 0;
	cr_assert_eq(pthread_create(&t, NULL, run_cancelled, &call), 0);
	pthread_join(t, &how);
	cr_assert_eq(how, PTHREAD_CANCELED);
	return came_back;
}

Test(call_cancel, what_is_a_cancellation_point_is_one_though_there_is_no_need_to_wait)
{
	struct rr_ep_watch *w = at.so->watches;

	cr_assert_not(comes_back(do_recv));
	cr_assert_not(comes_back(do_send));
	cr_assert_not(comes_back(do_poll));
	cr_assert_not(comes_back(do_epoll));
	cr_assert(at.so->f.refs == 1 && w->set->f.refs == 1 && !w->told);
}

Test(call_cancel, what_is_none_is_done_whole)
{
	cr_assert(comes_back(do_getsockopt));
	cr_assert(comes_back(do_close_range));
	cr_assert(!rr_fdt_has(at.fd) && fcntl(at.fd, F_GETFD) < 0);
}
#endif

/* --- diagnostics --- */

static bool goes;

static bool may_go(struct rr_conn *c)
{
	cr_assert_eq(c, at.c);
	return goes;
}

static void assert_diag(const char *what)
{
	if (!what)
		cr_assert_eq(diag.calls, 0);
	else
		cr_assert(diag.calls == 1 && !strcmp(diag.what, what) && diag.fd == at.fd, "%s: %d", what, diag.calls);
	diag.calls = 0;
}

static int connects(int fd RR_UNUSED, const struct sockaddr *addr RR_UNUSED, socklen_t len RR_UNUSED)
{
	return 0;
}

Test(call_cancel, what_is_not_carried_is_told)
{
	struct sockaddr_in none = { .sin_family = AF_UNSPEC };
	int p[2];

	rr_fake.let_go = may_go;
	cr_assert_eq(fcntl(at.fd, F_SETFL, O_NONBLOCK), 0);
	cr_assert_eq(pipe(p), 0);
	assert_said(rr_wrap_send(at.fd, "!", 1, MSG_OOB), -EOPNOTSUPP);
	assert_diag("send of urgent data: EOPNOTSUPP");
	assert_said(rr_wrap_splice(p[0], NULL, at.fd, NULL, 1, 0), -EINVAL);
	assert_diag("splice: EINVAL");
	cr_assert_not_null(rr_wrap_fdopen(at.fd, "r"));
	assert_diag("fdopen: what the stream reads and writes is not carried");
	goes = true;
	rr_wrap_splice(at.fd, NULL, p[1], NULL, 1, SPLICE_F_NONBLOCK);
	assert_diag("splice: TCP from here on");
	rr_wrap_send(at.fd, "!", 1, MSG_OOB);
	assert_diag(NULL);
	cr_assert_not_null(rr_wrap_fdopen(at.fd, "r"));
	assert_diag(NULL);
	rr_real.connect = connects;
	cr_assert_eq(rr_wrap_connect(at.fd, (struct sockaddr *)&none, sizeof(none)), 0);
	assert_diag("connect to AF_UNSPEC: TCP from here on");
	cr_assert_eq(at.so->f.refs, 1);
}
