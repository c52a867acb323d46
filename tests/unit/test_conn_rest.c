/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections at rest: what begins and what ends it, and that nothing is missed meanwhile. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/conn/enter.h"
#include "tests/unit/conn_pair.h"

TestSuite(conn_rest, .init = setup, .fini = teardown);

static struct rr_conn *c;

/* The server's end waits to read, as a thread in poll() does, and wakes for something else. */
static void rests(void)
{
	int n = 0;

	c = p.server.c;
	while (rr_conn_arm(c, p.server.fd, POLLIN) && n++ < 10)
		cr_assert_eq(rr_conn_poll(c, p.server.fd, POLLIN), 0);
	cr_assert_eq(rr_conn_rests(c), rr_conn_wake_fd(c));
	rr_conn_rested(c);
	cr_assert_eq(rr_conn_rests(c), rr_conn_wake_fd(c));
}

/* The next wait costs one step, which is taken back. */
static void still_rests(bool yes)
{
	int fd = rr_conn_rest(c);

	cr_assert_eq(fd, yes ? rr_conn_wake_fd(c) : -1);
	cr_assert_eq(atomic_load(&c->sleepers), yes);
	if (yes)
		rr_conn_rested(c);
}

static ssize_t read_server(void)
{
	struct iovec iov = { in, sizeof(in) };

	return rr_conn_recv(c, p.server.fd, &iov, 1, 0);
}

Test(conn_rest, a_wait_for_another_connection_leaves_it_armed)
{
	carried();
	rests();
	for (int i = 0; i < 3; i++)
		still_rests(true);
	cr_assert_not(bell_rings(c));
	client_calls();
	cr_assert(bell_rings(c));
	still_rests(true);	/* who begins to wait now wakes at once */
	cr_assert_eq(rr_conn_rest(c), rr_conn_wake_fd(c));
	rr_conn_disarm(c, p.server.fd);
	cr_assert_not(bell_rings(c));
	still_rests(false);
	cr_assert_eq(rr_conn_poll(c, p.server.fd, POLLIN), POLLIN);
}

Test(conn_rest, a_bell_stays_until_all_that_sleep_for_it_are_awake)
{
	carried();
	rests();
	cr_assert_geq(rr_conn_rest(c), 0);
	cr_assert_geq(rr_conn_rest(c), 0);
	client_calls();
	rr_conn_disarm(c, p.server.fd);
	cr_assert(bell_rings(c));
	rr_conn_disarm(c, p.server.fd);
	cr_assert_not(bell_rings(c));
}

Test(conn_rest, whoever_reads_writes_or_asks_ends_it)
{
	struct iovec iov = { out, 0 };

	carried();
	rests();
	cr_assert_eq(read_server(), -EAGAIN);
	still_rests(false);
	rests();
	cr_assert_eq(rr_conn_send(c, p.server.fd, &iov, 1, 0), 0);
	still_rests(false);
	rests();
	cr_assert_eq(rr_conn_poll(c, p.server.fd, POLLIN), 0);
	still_rests(false);
	rests();
	cr_assert_eq(rr_conn_inq(c, p.server.fd), 0);
	still_rests(false);
}

Test(conn_rest, what_has_had_nothing_for_a_while_is_quiet)
{
	struct rr_share *sh;

	carried();
	c = p.server.c;
	sh = c->share;
	atomic_store(&sh->active, rr_now_coarse());
	cr_assert_not(rr_conn_is_quiet(c));
	atomic_store(&sh->active, rr_now_coarse() - 6 * RR_MSEC);
	cr_assert(rr_conn_is_quiet(c));
	atomic_fetch_add(&sh->procs, 1);
	cr_assert_not(rr_conn_is_quiet(c));	/* another process may have some */
	atomic_fetch_sub(&sh->procs, 1);
}

Test(conn_rest, who_waits_to_write_or_for_nothing_does_not_rest)
{
	carried();
	c = p.server.c;
	cr_assert_eq(rr_conn_arm(c, p.server.fd, 0), 0);
	cr_assert_eq(rr_conn_rests(c), -1);
	rr_conn_disarm(c, p.server.fd);
	cr_assert_eq(rr_conn_arm(c, p.server.fd, POLLIN | POLLOUT), 1);
	still_rests(false);
}

/* Its child could swallow the bell. */
Test(conn_rest, a_connection_of_two_processes_does_not_rest)
{
	carried();
	rests();
	rr_conn_fork_prepare();
	rr_conn_forked(c);
	rr_conn_fork_parent();
	still_rests(false);
	cr_assert_eq(rr_conn_arm(c, p.server.fd, POLLIN), 0);
	cr_assert_eq(rr_conn_rests(c), -1);
	rr_conn_disarm(c, p.server.fd);
}

Test(conn_rest, the_peers_note_and_its_going_ring)
{
	carried();
	rests();
	cr_assert_geq(rr_conn_rest(c), 0);
	cr_assert_eq(rr_conn_shutdown(p.client.c, p.client.fd, SHUT_WR), 1);
	cr_assert(bell_rings(c));
	rr_conn_disarm(c, p.server.fd);
	/* The FIN is still to come, and by the anchor alone. */
	cr_assert_eq(rr_conn_poll(c, p.server.fd, POLLIN), 0);
	cr_assert_eq(rr_conn_arm(c, p.server.fd, POLLIN), 0);
	cr_assert_eq(rr_conn_rests(c), -1);
	rr_conn_disarm(c, p.server.fd);
	shutdown(p.client.fd, SHUT_WR);
	usleep(5000);
	cr_assert_eq(rr_conn_poll(c, p.server.fd, POLLIN), POLLIN);
	cr_assert_eq(read_server(), 0);
}

/* A ring that is full leaves no room for the note. */
Test(conn_rest, an_end_without_a_note_is_found_behind_many_messages)
{
	struct pollfd w;

	carried();
	c = p.server.c;		/* awake: no bell */
	cr_assert_eq(rr_conn_poll(c, p.server.fd, POLLIN), 0);
	while (rr_drv_say(p.client.c->share, 1) >= 0)	/* which says nothing */
		;
	cr_assert_eq(rr_conn_shutdown(p.client.c, p.client.fd, SHUT_WR), 1);
	shutdown(p.client.fd, SHUT_WR);
	for (int i = 0; i < 1000; i++) {
		if (rr_conn_arm(c, p.server.fd, POLLIN))
			continue;
		w = (struct pollfd){ rr_conn_wake_fd(c), POLLIN, 0 };
		cr_assert(rr_conn_rests(c) < 0 || poll(&w, 1, 0) > 0);
		rr_conn_disarm(c, p.server.fd);
	}
	cr_assert_eq(read_server(), 0);
}

/* Another thread of this process shuts it: who sleeps on the wake-up fd alone has to see
 * that. */
Test(conn_rest, what_the_app_shuts_itself_rings_where_somebody_sleeps)
{
	struct iovec iov = { out, 0 };

	carried();
	rests();
	cr_assert_eq(rr_conn_shutdown(c, p.server.fd, SHUT_RD), 0);
	cr_assert_not(bell_rings(c));
	cr_assert_eq(rr_conn_poll(c, p.server.fd, POLLIN), POLLIN);
	cr_assert_eq(rr_conn_arm(p.client.c, p.client.fd, POLLIN), 0);
	c = p.client.c;
	cr_assert_eq(rr_conn_shutdown(c, p.client.fd, SHUT_RD), 0);
	cr_assert(bell_rings(c));
	rr_conn_disarm(c, p.client.fd);
	cr_assert_eq(rr_conn_poll(c, p.client.fd, POLLIN), POLLIN);
	/* The peer is none the worse for it, and can be written to. */
	iov.iov_len = rr_test_call(out, 3, 10, 1);
	cr_assert_eq(rr_conn_send(c, p.client.fd, &iov, 1, 0), (ssize_t)iov.iov_len);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, iov.iov_len), (ssize_t)iov.iov_len);
	cr_assert_eq(rr_conn_poll(p.server.c, p.server.fd, POLLIN | POLLOUT) & POLLHUP, 0);
}

/* A watch that is reported as it is stays in the inner set with its wake-up fd: that one, and of this process alone. */
Test(conn_rest, a_plain_watch_is_armed_at_the_fd_that_is_in_the_set)
{
	int wake;

	carried();
	rests();
	wake = rr_conn_wake_fd(c);
	cr_assert_eq(rr_conn_watch_plain(c, p.server.fd, POLLIN, -1), -EAGAIN);
	cr_assert_eq(rr_conn_watch_plain(c, p.server.fd, POLLIN, wake + 1), -EAGAIN);
	cr_assert_not(c->watched);
	cr_assert_eq(rr_conn_watch_plain(c, p.server.fd, POLLIN, wake), 0);
	cr_assert(c->watched);
	c->share->procs = 2;
	cr_assert_eq(rr_conn_watch_plain(c, p.server.fd, POLLIN, wake), -EAGAIN);
	c->share->procs = 1;
	cr_assert_eq(rr_conn_watch_plain(c, p.server.fd, POLLIN, wake), 0);
	client_calls();
	cr_assert_neq(rr_conn_watch_plain(c, p.server.fd, POLLIN, wake), 0, "it has something");
	cr_assert_eq(read_server(), (ssize_t)rr_test_call(out, 2, 10, 1));
}
