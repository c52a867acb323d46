/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking and arming a carried connection: what is told, and that its lock is let go each time. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/enter.h"
#include "tests/unit/conn_pair.h"

static struct rr_conn *c;
static struct rr_share *sh;
static int fd;

static void begin(void)
{
	setup();
	carried();
	c = p.server.c;
	sh = c->share;
	fd = p.server.fd;
}

TestSuite(conn_poll, .init = begin, .fini = teardown, .timeout = 60);

static void *take_it(void *free)
{
	*(bool *)free = !rr_lock_try(&sh->lock);
	if (*(bool *)free)
		rr_lock_drop(&sh->lock);
	return NULL;
}

static bool is_let_go(void)
{
	bool yes = false;
	pthread_t t;

	pthread_create(&t, NULL, take_it, &yes);
	pthread_join(t, NULL);
	return yes;
}

static void one_call(uint32_t xid)
{
	size_t n = rr_test_call(out, xid, 10, 1);

	cr_assert_eq(rr_end_send(&p.client, NULL, out, n), (ssize_t)n);
}

Test(conn_poll, what_has_come_is_counted)
{
	uint64_t before = rr_conn_came(c);

	one_call(2);
	rr_conn_poll(c, fd, POLLIN);
	cr_assert_eq(rr_conn_came(c), before + 1);
	cr_assert(is_let_go());
	one_call(3);
	one_call(4);
	rr_conn_inq(c, fd);
	cr_assert_eq(rr_conn_came(c), before + 3);
	cr_assert_eq(rr_lock_take(&sh->lock), 0);
	cr_assert_eq(rr_conn_came(c), 0, "a handler inside");
	rr_lock_drop(&sh->lock);
	while (rr_end_try_recv(&p.server, in, sizeof(in), 0) > 0)
		;
	cr_assert_eq(rr_conn_came(c), before + 3, "reads do not lower it");
	rr_end_close(&p.client);
	for (int i = 0; i < 3000 && rr_conn_came(c) == before + 3; i++) {
		rr_os_nap(RR_MSEC);
		rr_conn_poll(c, fd, POLLIN);
	}
	cr_assert_eq(rr_conn_came(c), before + 4, "the end is one more");
}

Test(conn_poll, bells_are_drained_while_there_is_a_link)
{
	cr_assert_not(rr_conn_drain(c));
	cr_assert(is_let_go());
	cr_assert_eq(rr_lock_take(&sh->lock), 0);
	cr_assert(rr_conn_drain(c), "a handler inside");
	rr_lock_drop(&sh->lock);
	rr_link_lose(sh);
	cr_assert(rr_conn_drain(c));
	cr_assert(is_let_go());
}

Test(conn_poll, a_bell_is_read_when_all_that_slept_are_awake)
{
	struct pollfd bell = { sh->qp->wake_fd, POLLIN, 0 };

	cr_assert_eq(rr_conn_arm(c, fd, POLLIN), 0);
	cr_assert(is_let_go());
	cr_assert_eq(rr_conn_arm(c, fd, POLLIN), 0);
	cr_assert_eq(c->sleepers, 2);
	one_call(2);
	cr_assert_eq(poll(&bell, 1, 5000), 1);
	cr_assert_eq(rr_conn_arm(c, fd, POLLIN), 1, "there is something");
	cr_assert_eq(c->sleepers, 2);
	rr_conn_disarm(c, fd);
	cr_assert_eq(poll(&bell, 1, 0), 1, "the other is still asleep");
	rr_conn_drain(c);
	cr_assert_eq(poll(&bell, 1, 0), 1);
	rr_conn_disarm(c, fd);
	cr_assert_eq(c->sleepers, 0);
	cr_assert(is_let_go());
	rr_conn_drain(c);
	cr_assert_eq(poll(&bell, 1, 0), 0);
}

Test(conn_poll, who_goes_back_to_the_app_may_leave_the_bell_to_the_next_arm)
{
	struct pollfd bell = { sh->qp->wake_fd, POLLIN, 0 };

	for (int watched = 0; watched < 2; watched++) {
		cr_assert_eq(rr_conn_arm(c, fd, POLLIN), 0);
		c->watched = watched;
		one_call(2);
		cr_assert_eq(poll(&bell, 1, 5000), 1);
		rr_conn_disarm_later(c, fd);
		cr_assert_eq(c->sleepers, 0);
		cr_assert_eq(poll(&bell, 1, 0), !watched, "a set would find it again and again");
		while (rr_end_try_recv(&p.server, in, sizeof(in), 0) > 0)
			;
		cr_assert_eq(rr_conn_arm(c, fd, POLLIN), 0);
		cr_assert_eq(poll(&bell, 1, 0), 0);
		rr_conn_disarm(c, fd);
	}
}

/* Messages come, and the thread that slept leaves their bell; then all is read. */
static void leave_a_bell(struct pollfd *bell)
{
	cr_assert_eq(rr_conn_arm(c, fd, POLLIN), 0);
	one_call(2);
	cr_assert_eq(poll(bell, 1, 5000), 1);
	rr_conn_disarm_later(c, fd);
	while (rr_end_try_recv(&p.server, in, sizeof(in), 0) > 0)
		;
}

Test(conn_poll, a_set_finds_no_bell_that_was_left)
{
	struct pollfd bell = { sh->qp->wake_fd, POLLIN, 0 };

	leave_a_bell(&bell);
	cr_assert_eq(poll(&bell, 1, 0), 1);
	rr_conn_in_set(c);
	cr_assert_eq(poll(&bell, 1, 0), 0);
	cr_assert(is_let_go());
	leave_a_bell(&bell);
	cr_assert_eq(poll(&bell, 1, 0), 0, "it has the descriptor now");
}

Test(conn_poll, a_bell_that_nobody_has_left_is_news_to_a_set)
{
	struct pollfd bell = { sh->qp->wake_fd, POLLIN, 0 };

	cr_assert_eq(rr_conn_watch(c, fd, POLLIN), 0);
	one_call(2);
	cr_assert_eq(poll(&bell, 1, 5000), 1);
	rr_conn_in_set(c);
	cr_assert_eq(poll(&bell, 1, 0), 1);
}

Test(conn_poll, another_process_finds_no_bell_that_was_left)
{
	struct pollfd bell = { sh->qp->wake_fd, POLLIN, 0 };

	atomic_store(&sh->procs, 2);
	leave_a_bell(&bell);
	atomic_store(&sh->procs, 1);
	cr_assert_eq(poll(&bell, 1, 0), 0);
}

/* A set keeps it armed. */
Test(conn_poll, a_set_may_leave_the_bell_until_the_watch_is_armed)
{
	struct pollfd bell = { sh->qp->wake_fd, POLLIN, 0 };

	cr_assert_eq(rr_conn_watch(c, fd, POLLIN), 0);
	one_call(2);
	cr_assert_eq(poll(&bell, 1, 5000), 1);
	cr_assert_not(rr_conn_drain_later(c));
	cr_assert_eq(poll(&bell, 1, 0), 1);
	while (rr_end_try_recv(&p.server, in, sizeof(in), 0) > 0)
		;
	cr_assert_eq(rr_conn_watch(c, fd, POLLIN), 0);
	cr_assert_eq(poll(&bell, 1, 0), 0);
	rr_link_lose(sh);
	cr_assert(rr_conn_drain_later(c));
}

Test(conn_poll, a_handler_that_wakes_counts_itself_only)
{
	cr_assert_eq(rr_conn_arm(c, fd, POLLIN), 0);
	cr_assert_eq(rr_lock_take(&sh->lock), 0);
	rr_conn_disarm(c, fd);
	cr_assert_eq(c->sleepers, 0);
	cr_assert_neq(rr_lock_try(&sh->lock), 0, "it is held still");
	rr_lock_drop(&sh->lock);
}

Test(conn_poll, a_plain_watch_is_one_of_a_bell_and_a_socket)
{
	int wake = sh->qp->wake_fd;

	cr_assert_eq(rr_conn_wake_fd(c), wake);
	cr_assert_eq(rr_conn_watch_plain(c, fd, POLLIN, wake + 1), -EAGAIN);
	cr_assert(!c->watched && is_let_go());
	atomic_store(&sh->procs, 2);
	cr_assert_eq(rr_conn_watch_plain(c, fd, POLLIN, wake), -EAGAIN);
	cr_assert_not(c->watched);
	atomic_store(&sh->procs, 1);
	sh->err = EIO;
	cr_assert_eq(rr_conn_watch_plain(c, fd, POLLIN, wake), -EAGAIN);
	cr_assert_not(c->watched);
	sh->err = 0;
	cr_assert_eq(rr_lock_take(&sh->lock), 0);
	cr_assert_eq(rr_conn_watch_plain(c, fd, POLLIN, wake), -EAGAIN);
	rr_lock_drop(&sh->lock);
	cr_assert_eq(rr_conn_watch_plain(c, fd, POLLIN, wake), 0);
	cr_assert(c->watched && c->sleepers == 0 && is_let_go());
	c->watched = false;
	one_call(2);
	cr_assert_neq(rr_conn_watch_plain(c, fd, POLLIN, wake), 0, "there is something");
	cr_assert(!c->watched && is_let_go());
	c->watched = true;
	cr_assert_neq(rr_conn_watch_plain(c, fd, POLLIN, wake), 0);
	cr_assert(c->watched, "it may have been armed before");
}

/* Arming it is what finds the note, after which the end itself comes by the socket. */
Test(conn_poll, a_watch_that_finds_the_peers_note_is_not_plain)
{
	int wake = sh->qp->wake_fd;

	cr_assert_eq(rr_conn_shutdown(p.client.c, p.client.fd, SHUT_WR), 1);
	cr_assert_eq(rr_conn_watch_plain(c, fd, POLLIN, wake), -EAGAIN);
	cr_assert(rr_rx_is_marked(sh) && !c->watched && is_let_go());
	cr_assert_eq(rr_conn_watch(c, fd, POLLIN), 0);
	cr_assert(c->watched && is_let_go());
}

Test(conn_poll, what_there_is_to_sleep_on)
{
	struct pollfd fds[2];
	rr_time until = 0;

	cr_assert_eq(rr_conn_fds(c, fd, POLLIN, fds, &until), 2);
	cr_assert(is_let_go());
	cr_assert_eq(rr_conn_watch(c, fd, POLLIN), 0);
	cr_assert(c->watched && c->sleepers == 0 && is_let_go());
}

Test(conn_poll, a_carried_connection_has_bytes)
{
	size_t n = rr_test_call(out, 2, 10, 1);

	cr_assert_eq(rr_conn_inq(c, fd), 0);
	one_call(2);
	cr_assert_eq(rr_conn_inq(c, fd), (int)n);
	cr_assert(is_let_go());
	cr_assert_eq(rr_end_try_recv(&p.server, in, 4, 0), 4);
	cr_assert_eq(rr_conn_inq(c, fd), (int)n - 4);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN | POLLOUT), POLLIN | POLLOUT);
	cr_assert_not(rr_conn_let_go(c));
	cr_assert(is_let_go());
	cr_assert_eq(rr_conn_take_error(c, fd), RR_CONN_KERNEL);
	sh->err = EIO;
	cr_assert_eq(rr_conn_take_error(c, fd), EIO);
	cr_assert_eq(rr_conn_take_error(c, fd), RR_CONN_KERNEL);
	cr_assert(is_let_go());
}

/* A handler that has interrupted whoever goes over the connections does not do so as well, and does not let others in. */
Test(conn_poll, a_bell_stays_while_this_thread_goes_over_the_connections)
{
	int wake = sh->qp->wake_fd;

	cr_assert(rr_slab_hold_ends());
	cr_assert_not(rr_conn_move_fd(wake));
	cr_assert(sh->qp->wake_fd == wake && is_let_go());
	cr_assert_not(rr_slab_hold_ends(), "it is held as before");
	rr_slab_let_ends();
	cr_assert(rr_conn_move_fd(wake));
	close(wake);
	cr_assert(rr_slab_hold_ends(), "it is not held any more");
	rr_slab_let_ends();
}

/* The number of a bell is given up for another; the app's own is none of ours. */
Test(conn_poll, a_bell_in_the_way_moves)
{
	int wake = sh->qp->wake_fd;

	c->face.changed = false;
	cr_assert_not(rr_conn_move_fd(fd));
	cr_assert(sh->qp->wake_fd == wake && !c->face.changed);
	atomic_store(&sh->procs, 2);
	atomic_store(&sh->family[1], (int32_t)getppid());
	cr_assert_not(rr_conn_move_fd(wake), "the family has it by that number");
	atomic_store(&sh->family[1], 0);
	atomic_store(&sh->procs, 1);
	cr_assert(rr_conn_move_fd(wake));
	cr_assert(sh->qp->wake_fd > wake && c->face.changed && is_let_go());
	close(wake);
	one_call(2);
	cr_assert_gt(rr_conn_inq(c, fd), 0);
}

/* The far end of a socket that is connected to ourselves is ours as well, and nobody sleeps on it. */
Test(conn_poll, a_far_end_in_the_way_moves)
{
	int wake = sh->qp->wake_fd, far = rr_ownfd_dup(p.client.fd), was = far;

	sh->far = far;
	c->relay = true;
	cr_assert_not(rr_conn_move_fd(far), "the other thread sleeps on it");
	cr_assert_eq(sh->far, far);
	c->relay = false;
	c->face.changed = false;
	cr_assert(rr_conn_move_fd(far));
	cr_assert(sh->far > was && !rr_ownfd_is(was) && rr_ownfd_is(sh->far));
	cr_assert(fcntl(sh->far, F_GETFD) == FD_CLOEXEC && fcntl(was, F_GETFD) >= 0, "the caller closes the old one");
	cr_assert(sh->qp->wake_fd == wake && !c->face.changed && is_let_go());
	close(was);
	rr_ownfd_close(sh->far);
	sh->far = -1;
}

/* --- its end --- */

/* 0: an end; else the errno. What there is is read. */
static int peer_sees(void)
{
	struct pollfd w = { p.client.fd, POLLIN, 0 };
	ssize_t n;

	while ((n = poll(&w, 1, 5000) == 1 ? recv(p.client.fd, in, sizeof(in), 0) : 1) > 0)
		cr_assert(w.revents, "neither an end nor a reset");
	return n ? errno : 0;
}

Test(conn_poll, what_was_read_to_its_end_is_closed_by_a_fin)
{
	one_call(2);
	cr_assert_gt(rr_end_recv(&p.server, NULL, in, rr_test_call(out, 2, 10, 1)), 0);
	rr_end_close(&p.server);
	cr_assert_eq(peer_sees(), 0);
}

Test(conn_poll, what_has_bytes_that_nobody_read_is_closed_by_a_reset)
{
	one_call(2);
	rr_end_close(&p.server);
	cr_assert_eq(peer_sees(), ECONNRESET);
}

/* They were taken out of memory for a child, which has gone without them. */
Test(conn_poll, what_is_left_of_a_way_back_is_closed_by_a_reset)
{
	sh->back.tail = sh->back.head + 3;
	rr_end_close(&p.server);
	cr_assert_eq(peer_sees(), ECONNRESET);
}

Test(conn_poll, what_has_failed_is_closed_by_a_reset)
{
	cr_assert_eq(rr_lock_take(&sh->lock), 0);
	rr_drv_fail(sh, EPIPE, RR_R_PROTOCOL);
	rr_lock_drop(&sh->lock);
	rr_end_close(&p.server);
	cr_assert_eq(peer_sees(), ECONNRESET);
}
