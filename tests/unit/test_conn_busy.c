/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that never leave us alone: a call of the app's ends all the same, after so much work, not so much time. */

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/enter.h"
#include "tests/unit/conn_pair.h"

TestSuite(conn_busy, .init = setup, .fini = teardown, .timeout = 60);

#define ENOUGH	20000u

static const struct rr_prov_ops *honest;
static struct rr_prov_ops tireless;
static uint32_t said;

/* A peer that is as fast as we are. RDMA_DONE for nothing: it is dropped. */
static int say_and_poll(struct rr_qp *qp, struct rr_wc *wc, int n)
{
	static const uint8_t done[] = { 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 32, 0, 0, 0, 3 };
	struct iovec iov = { (void *)(uintptr_t)done, sizeof(done) };
	struct rr_qp *peer = p.client.c->share->qp;

	for (; said < ENOUGH && honest->send(peer, &iov, 1, 0, 0) == 1; said++)
		;
	return honest->poll(qp, wc, n);
}

static void becomes_silent(void)
{
	p.server.c->share->qp->ops = honest;
}

static void never_silent(void)
{
	struct rr_qp *qp = p.server.c->share->qp;

	honest = qp->ops;
	tireless = *honest;
	tireless.poll = say_and_poll;
	qp->ops = &tireless;
	said = 0;
}

Test(conn_busy, messages_without_end_end_a_call)
{
	carried();
	never_silent();
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	cr_assert_lt(said, ENOUGH);
	cr_assert_gt(said, 0);
	said = 0;
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -EAGAIN);
	cr_assert_lt(said, ENOUGH);
	cr_assert_eq(rr_conn_arm(p.server.c, p.server.fd, POLLIN), 1, "nobody sleeps over it");
	becomes_silent();
}

Test(conn_busy, what_comes_among_them_is_delivered)
{
	size_t n;

	carried();
	never_silent();
	n = rr_test_call(out, 5, 100, 1);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	for (ssize_t rc = -EAGAIN; rc == -EAGAIN; rr_end_poll(&p.server, POLLIN))
		rc = rr_end_try_send(&p.client, out, n);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	becomes_silent();
}

/* --- a process of the family that does not go on ------------------------------------------ */

static long sleeps(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nvcsw;
}

/* Another process that has the server's end is stopped in the middle of a call. */
static pid_t stopped_inside(void)
{
	struct rr_share *sh = p.server.c->share;
	pid_t pid;

	rr_conn_fork_prepare();
	rr_conn_forked(p.server.c);
	pid = fork();
	if (!pid) {
		rr_conn_fork_child();
		rr_lock_take(&sh->lock);
		raise(SIGSTOP);
		rr_lock_drop(&sh->lock);
		_exit(0);
	}
	rr_conn_fork_parent();
	cr_assert_eq(waitpid(pid, NULL, WUNTRACED), pid);
	return pid;
}

static void goes_on(pid_t pid)
{
	kill(pid, SIGCONT);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

Test(conn_busy, who_is_stopped_inside_costs_others_one_look_and_no_connection)
{
	struct pollfd fds[2];
	rr_time until;
	size_t n;
	long before;
	pid_t pid;

	carried();
	pid = stopped_inside();
	n = rr_test_call(out, 5, 100, 1);
	cr_assert_eq(rr_end_send(&p.client, NULL, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_try_recv(&p.server, in, n, 0), -EAGAIN);
	before = sleeps();
	for (int i = 0; i < 50; i++) {
		cr_assert_eq(rr_end_try_recv(&p.server, in, n, 0), -EAGAIN);
		cr_assert_eq(rr_end_try_send(&p.server, in, 10), -EAGAIN);
		cr_assert_eq(rr_end_poll(&p.server, POLLIN | POLLOUT), 0);
		cr_assert_eq(rr_conn_inq(p.server.c, p.server.fd), 0);
		cr_assert(!rr_conn_peek(p.server.c, POLLIN));
		cr_assert_eq(rr_conn_arm(p.server.c, p.server.fd, POLLIN), 0);
		cr_assert_eq(rr_conn_fds(p.server.c, p.server.fd, POLLIN, fds, &until), 1);
		cr_assert_eq(fds[0].events, 0);
		cr_assert_leq(until, rr_now() + 50 * RR_MSEC);
		rr_conn_disarm(p.server.c, p.server.fd);
	}
	cr_assert_eq(sleeps(), before);
	cr_assert_eq(rr_conn_take_error(p.server.c, p.server.fd), RR_CONN_KERNEL);
	goes_on(pid);
	cr_assert_eq(rr_end_try_recv(&p.server, in, n, 0), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	one_way(&p.server, &p.client, rr_test_reply(out, 5, 100, 1));
}

Test(conn_busy, what_a_stopped_process_is_inside_of_can_be_closed)
{
	pid_t pid;
	size_t n;

	carried();
	pid = stopped_inside();
	cr_assert_eq(atomic_load(&p.server.c->share->procs), 2);
	rr_end_close(&p.server);
	n = rr_test_call(out, 5, 100, 1);
	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n, "the other process still has it");
	goes_on(pid);
}

/* Whoever finds out first leaves it to the other process, and only once. */
Test(conn_busy, what_a_stopped_process_is_inside_of_is_left_once)
{
	struct rr_conn *c;
	struct rr_share *sh;
	pid_t pid;

	carried();
	c = p.server.c;
	sh = c->share;
	pid = stopped_inside();
	cr_assert_eq(rr_conn_shutdown(c, p.server.fd, SHUT_WR), RR_CONN_KERNEL, "a bare FIN");
	cr_assert(!c->shut_wr && atomic_load(&sh->procs) == 2);
	rr_conn_close(c, p.server.fd);
	cr_assert(c->left && atomic_load(&sh->procs) == 1);
	rr_conn_close(c, p.server.fd);
	rr_conn_vanished(c);
	cr_assert_eq(atomic_load(&sh->procs), 1);
	goes_on(pid);
}

Test(conn_busy, what_vanishes_inside_of_a_stopped_process_is_left_once)
{
	struct rr_conn *c;
	struct rr_share *sh;
	pid_t pid;

	carried();
	c = p.server.c;
	sh = c->share;
	pid = stopped_inside();
	rr_conn_vanished(c);
	cr_assert(c->left && c->fd == -1 && atomic_load(&sh->procs) == 1);
	rr_conn_vanished(c);
	rr_conn_close(c, p.server.fd);
	cr_assert_eq(atomic_load(&sh->procs), 1);
	goes_on(pid);
}
