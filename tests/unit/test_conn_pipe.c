/* SPDX-License-Identifier: BSD-3-Clause */
/* A carried connection that sleeps often gets a cheaper doorbell: when that may be, and what it changes for whoever sleeps
 * on the connection, looks for its peer's end or wants the numbers of its descriptors. */
#include <errno.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/base/base.h"
#include "core/conn/base/state.h"
#include "core/prov/shm/shm_int.h"
#include "tests/unit/conn_pair.h"

static void begin(void)
{
	setup();
	carried();
}

TestSuite(conn_pipe, .init = begin, .fini = teardown, .timeout = 60);

static struct rr_qp *qp(const struct rr_end *e)
{
	return e->c->share->qp;
}

/* After a message. */
static void sleep_once(struct rr_end *e)
{
	rr_shm_of(qp(e))->eased_pos--;
	cr_assert_eq(rr_conn_arm(e->c, e->fd, POLLIN), 0);
	rr_conn_disarm(e->c, e->fd);
}

static void sleep_often(void)
{
	for (int i = 0; i < 20; i++) {
		sleep_once(&p.client);
		sleep_once(&p.server);
	}
}

/* A call and its reply; each end sleeps meanwhile and wakes. */
static void calls(uint32_t xid)
{
	struct rr_end *const end[] = { &p.client, &p.server };

	for (int i = 0; i < 2; i++) {
		size_t n = i ? rr_test_reply(out, xid, 100, 1) : rr_test_call(out, xid, 100, 1);

		cr_assert_eq(rr_conn_arm(end[!i]->c, end[!i]->fd, POLLIN), 0);
		cr_assert_not(bell_rings(end[!i]->c));
		cr_assert_eq(rr_end_try_send(end[i], out, n), (ssize_t)n);
		cr_assert(bell_rings(end[!i]->c));
		rr_conn_disarm(end[!i]->c, end[!i]->fd);
		cr_assert_eq(rr_end_recv(end[!i], end[i], in, n), (ssize_t)n);
	}
}

Test(conn_pipe, who_sleeps_often_has_one)
{
	cr_assert_not(qp(&p.client)->piped || qp(&p.server)->piped);
	cr_assert(rr_conn_wakes_by_socket(p.client.c));
	sleep_often();
	cr_assert(qp(&p.client)->piped && qp(&p.server)->piped);
	cr_assert_not(rr_conn_wakes_by_socket(p.client.c));
	for (uint32_t i = 0; i < 5; i++)
		calls(100 + i);
}

Test(conn_pipe, another_sleeper_an_epoll_set_or_a_fork_leaves_the_socket)
{
	atomic_fetch_add(&p.client.c->sleepers, 1);
	p.server.c->watched = true;
	sleep_often();
	cr_assert_not(qp(&p.client)->piped || qp(&p.server)->piped);
	atomic_fetch_sub(&p.client.c->sleepers, 1);
	p.server.c->watched = false;
	atomic_store(&p.client.c->share->procs, 2);
	sleep_often();
	cr_assert_not(qp(&p.client)->piped || qp(&p.server)->piped);
	cr_assert(qp(&p.client)->easy);
	atomic_store(&p.client.c->share->procs, 1);
	calls(100);
}

/* It arms all the time; no thread is counted. */
Test(conn_pipe, the_only_set_that_watches_is_told_to_ask_again)
{
	struct rr_conn *c = p.server.c;
	int wake = rr_conn_wake_fd(c), told = 0;

	rr_conn_watch(c, p.server.fd, POLLIN);
	for (int i = 0; i < 20; i++) {
		sleep_once(&p.client);
		rr_shm_of(qp(&p.server))->eased_pos--;
		cr_assert_eq(rr_conn_watch_plain(c, p.server.fd, POLLIN, wake), 0);
	}
	cr_assert(!qp(&p.server)->piped && qp(&p.server)->ring_fd >= 0);
	for (int i = 0; i < 20; i++) {
		int rc;

		rr_shm_of(qp(&p.server))->eased_pos--;
		rc = rr_conn_watch_plain(c, p.server.fd, POLLIN | RR_ASK_ALONE, wake);

		sleep_once(&p.client);
		if (rc)
			cr_assert_eq(rc, -EAGAIN);
		told += rc != 0;
		wake = rr_conn_wake_fd(c);
	}
	cr_assert(qp(&p.server)->piped && told == 1);
	for (uint32_t i = 0; i < 3; i++)
		calls(100 + i);
}

Test(conn_pipe, while_somebody_forks_it_is_left_for_later)
{
	cr_assert(rr_slab_hold());
	sleep_often();
	cr_assert_not(qp(&p.client)->piped || qp(&p.client)->easy);
	rr_slab_let();
	sleep_often();
	cr_assert(qp(&p.client)->piped);
}

Test(conn_pipe, a_socket_again_for_who_has_to_sleep_in_recv)
{
	int fd = rr_conn_wake_fd(p.client.c);

	rr_conn_wake_by_socket(p.client.c);
	sleep_often();
	cr_assert_not(qp(&p.client)->piped);
	teardown();
	begin();
	fd = rr_conn_wake_fd(p.client.c);
	sleep_often();
	cr_assert_neq(rr_conn_wake_fd(p.client.c), fd);
	rr_conn_wake_by_socket(p.client.c);
	cr_assert_not(rr_conn_wakes_by_socket(p.client.c), "not before the next sleep");
	sleep_once(&p.client);
	cr_assert(rr_conn_wakes_by_socket(p.client.c) && rr_conn_wake_fd(p.client.c) == fd);
	calls(100);
}

Test(conn_pipe, the_app_may_have_any_of_their_numbers)
{
	for (int i = 0; i < 3; i++) {
		int *at, fd;

		sleep_often();
		at = i == 0 ? &qp(&p.client)->wake_fd : i == 1 ? &qp(&p.client)->other_fd : &qp(&p.client)->ring_fd;
		fd = *at;
		cr_assert(rr_ownfd_is(fd));
		cr_assert(rr_conn_move_fd(fd));
		cr_assert(*at != fd && rr_ownfd_is(*at) && !rr_ownfd_is(fd));
		calls(100);
	}
}

/* It does not sleep, but looks from time to time. */
Test(conn_pipe, the_peers_end_is_seen_without_a_sleep)
{
	sleep_often();
	cr_assert(qp(&p.client)->piped);
	rr_end_close(&p.server);
	for (int i = 0; i < 1000 && !(rr_end_poll(&p.client, POLLIN | POLLRDHUP) & POLLRDHUP); i++)
		rr_os_nap(5 * RR_MSEC);
	cr_assert(rr_end_poll(&p.client, POLLIN | POLLRDHUP) & POLLRDHUP);
	cr_assert_eq(rr_end_try_recv(&p.client, in, 1, 0), 0);
}
