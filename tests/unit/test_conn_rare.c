/* SPDX-License-Identifier: BSD-3-Clause */
/* Two things at once, steps that fail half way, numbers that run out: each test is named after what
 * went wrong. */

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/enter.h"
#include "core/conn/native/native.h"
#include "tests/unit/conn_pair.h"

TestSuite(conn_rare, .init = setup, .fini = teardown, .timeout = 60);

/* The table of system calls, with one of them the test's. */
static struct rr_os os;

static struct rr_os *own_os(void)
{
	os = *rr_os;
	rr_os = &os;
	return &os;
}

/* --- threads --- */

static _Atomic bool began;

static void *wakes(void *unused)
{
	(void)unused;
	began = true;
	rr_conn_disarm(p.server.c, p.server.fd);
	return NULL;
}

static pthread_t waking;

/* While a thread goes to sleep the only other one wakes up: it stands before the lock. */
static int arm_meanwhile(struct rr_qp *qp, enum rr_arm what)
{
	cr_assert_eq(pthread_create(&waking, NULL, wakes, NULL), 0);
	while (atomic_load(&p.server.c->sleepers))
		sched_yield();
	return rr_prov_shm.arm(qp, what);
}

Test(conn_rare, who_goes_to_sleep_while_another_wakes_is_woken)
{
	struct rr_prov_ops ops = rr_prov_shm;
	struct pollfd bell;
	size_t n = rr_test_call(out, 2, 10, 1);

	carried();
	cr_assert_eq(rr_conn_arm(p.server.c, p.server.fd, POLLIN), 0);
	ops.arm = arm_meanwhile;
	p.server.c->share->qp->ops = &ops;
	cr_assert_eq(rr_conn_arm(p.server.c, p.server.fd, POLLIN), 0);
	cr_assert(began);
	pthread_join(waking, NULL);
	cr_assert_eq(rr_end_send(&p.client, NULL, out, n), (ssize_t)n);
	bell = (struct pollfd){ rr_conn_wake_fd(p.server.c), POLLIN, 0 };
	cr_assert_eq(poll(&bell, 1, 0), 1);
	rr_conn_disarm(p.server.c, p.server.fd);
	p.server.c->share->qp->ops = &rr_prov_shm;
}

/* --- what cannot be posted --- */

static int refused_send(struct rr_qp *qp, const struct iovec *iov, int n, uint64_t cookie,
			uint32_t inv)
{
	(void)qp, (void)iov, (void)n, (void)cookie, (void)inv;
	return -EIO;
}

/* Does the connection end when a call, written in pieces of so many bytes, cannot be sent? */
static void ends_by_a_call(size_t piece)
{
	struct rr_prov_ops ops = rr_prov_shm;
	struct rr_share *sh = p.client.c->share;
	size_t n = rr_test_call(out, 2, 100, 1);

	ops.send = refused_send;
	sh->qp->ops = &ops;
	for (size_t at = 0; at < n && !rr_link_is_dead(sh); at += piece)
		rr_end_send(&p.client, NULL, out + at, rr_min(piece, n - at));
	sh->qp->ops = &rr_prov_shm;
	cr_assert(rr_link_is_dead(sh));
	cr_assert_eq(sh->err, ECONNRESET);
	cr_assert_lt(rr_end_recv(&p.client, NULL, in, 4), 0);
}

Test(conn_rare, a_call_that_cannot_be_sent_ends_the_connection)
{
	carried();
	ends_by_a_call(4096);
}

/* It lies in a buffer of ours, which the device is to give back. */
Test(conn_rare, a_gathered_call_that_cannot_be_sent_ends_the_connection)
{
	carried();
	ends_by_a_call(20);
}

/* --- native peers that say nothing --- */

/* One that another thread is looking at just now has said nothing either: if it were not counted, one too many would come in,
 * and stay until the next one comes. */
Test(conn_rare, who_is_silent_is_counted_whoever_has_its_lock)
{
	struct rr_share *sh;

	rr_test_params.native_silent = 1;
	carried();
	sh = p.server.c->share;
	cr_assert_eq(rr_guests_full(0, rr_now()), 0, "it is not native");
	sh->qp->native = true;
	sh->heard = false;
	p.server.c->deadline = RR_TIME_NEVER - 1;
	rr_guests_comes(p.server.c);
	cr_assert_neq(rr_guests_full(0, rr_now()), 0);
	cr_assert_eq(rr_lock_take(&sh->lock), 0);
	cr_assert_neq(rr_guests_full(0, rr_now()), 0, "while another thread has its lock");
	sh->heard = true;
	cr_assert_eq(rr_guests_full(0, rr_now()), 0, "it has spoken");
	rr_lock_drop(&sh->lock);
	cr_assert_eq(rr_guests_full(0, rr_now()), 0);
	sh->qp->native = false;
}

/* --- what the anchor has to say is said once --- */

static void reset_by(struct rr_end *e)
{
	struct linger now = { 1, 0 };

	setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	rr_end_close(e);
}

Test(conn_rare, a_reset_before_the_first_call_is_no_end)
{
	reset_by(&p.client);
	cr_assert(rr_end_poll(&p.server, POLLIN) & POLLERR);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -ECONNRESET);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), 0);
}

static void impatient(void)
{
	rr_test_params.upgrade_timeout = 1;
	setup();
}

Test(conn_rare, a_reset_instead_of_a_late_answer_is_no_end, .init = impatient)
{
	size_t n = rr_test_call(out, 1, 10, 1);

	cr_assert_eq(rr_end_send(&p.client, NULL, out, n), (ssize_t)n);
	cr_assert_eq(rr_conn_st(p.client.c), RR_S_SWALLOW);
	reset_by(&p.server);
	cr_assert(rr_end_poll(&p.client, POLLIN) & POLLERR);
	cr_assert_eq(rr_end_try_recv(&p.client, in, 1, 0), -ECONNRESET);
}

static int calls;

static ssize_t counted_recv(int fd, void *buf, size_t len, int flags)
{
	calls++;
	return recv(fd, buf, len, flags);
}

/* As long as the peer says: it may go on for ever. */
Test(conn_rare, an_answer_without_end_is_read_away_bit_by_bit, .init = impatient)
{
	size_t n = rr_test_call(out, 1, 10, 1), most = 200000;
	uint32_t head[] = { htonl(0x80000000 | (uint32_t)(most - 4)), 0, htonl(1) };
	int rounds = 0;

	cr_assert_eq(rr_end_send(&p.client, NULL, out, n), (ssize_t)n);
	cr_assert_eq(rr_conn_st(p.client.c), RR_S_SWALLOW);
	head[1] = htonl(p.client.c->xid);
	memset(out, 0, most);
	memcpy(out, head, sizeof(head));
	cr_assert_eq(send(p.server.fd, out, most, 0), (ssize_t)most);
	n = rr_test_reply(out, 1, 10, 1);
	cr_assert_eq(send(p.server.fd, out, n, 0), (ssize_t)n);
	own_os()->recv = counted_recv;
	do {
		calls = 0;
		rr_end_poll(&p.client, POLLIN);
		cr_assert_lt(calls, 100);
	} while (!rr_conn_is_tcp(p.client.c) && ++rounds < 10000);
	cr_assert_gt(rounds, 2);
	cr_assert_eq(recv(p.client.fd, in, n, MSG_WAITALL), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
}

/* --- numbers that are another's by now --- */

static enum rr_mode must(bool server, const struct sockaddr *local, const struct sockaddr *peer)
{
	(void)local;
	(void)peer;
	return server ? RR_MODE_AUTO : RR_MODE_REQUIRE;
}

static void required(void)
{
	rr_test_params.mode = must;
	setup();
}

Test(conn_rare, what_is_refused_is_not_what_has_its_first_number_now, .init = required)
{
	int now = dup(p.client.fd), sv[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	cr_assert_eq(dup2(sv[0], p.client.fd), p.client.fd);
	p.client.fd = now;
	cr_assert_eq(rr_end_try_send(&p.client, out, 10), -ECONNREFUSED);
	cr_assert_eq(write(sv[0], "x", 1), 1);
	cr_assert_eq(send(now, "x", 1, MSG_NOSIGNAL), -1);
}

/* 2 and 3 are also the numbers of carriers, which a connection that is refused does not have. */
Test(conn_rare, what_is_refused_is_told_of_whatever_its_number, .init = setup)
{
	for (int fd = 0; fd < 6; fd++) {
		p.client.c->fd = fd;
		cr_assert_null(p.client.c->share);
		rr_report_ends(p.client.c);
	}
}

Test(conn_rare, what_a_dead_process_had_is_not_what_has_its_first_number_now)
{
	int now, sv[2];
	pid_t pid;

	carried();
	now = dup(p.server.fd);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	cr_assert_eq(dup2(sv[0], p.server.fd), p.server.fd);
	p.server.fd = now;
	pid = fork();
	if (!pid) {
		rr_lock_forked();
		rr_lock_take(&p.server.c->share->lock);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 100, 0), -ECONNRESET);
	cr_assert_eq(write(sv[0], "x", 1), 1);
	cr_assert_eq(send(now, "x", 1, MSG_NOSIGNAL), -1);
}

static int none_left(int fd, struct sockaddr *a, socklen_t *len, int flags)
{
	(void)fd, (void)a, (void)len, (void)flags;
	errno = EMFILE;
	return -1;
}

Test(conn_rare, a_pair_that_was_not_made_has_no_other_end)
{
	int far = -1;

	own_os()->accept4 = none_left;
	cr_assert_eq(rr_loopback_new(AF_INET, 0, &far), -EMFILE);
	cr_assert_lt(far, 0);
}

/* --- processes --- */

/* Killed between two steps of taking up a message that is to be pulled. */
Test(conn_rare, a_pull_that_a_dead_process_began_is_not_gone_on_with)
{
	struct rr_share *sh;
	pid_t pid;

	carried();
	sh = p.server.c->share;
	pid = fork();
	if (!pid) {
		rr_lock_forked();
		rr_lock_take(&sh->lock);
		sh->pulls_short = 1;
		sh->pull[0] = (struct rr_pull){ .used = true, .local = true, .buf = RR_BUF_NONE, .room = 100,
						.turn = sh->pull_turn, .fetch = 100, .nsegs = 1 };
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 100, 0), -ECONNRESET);
	cr_assert_eq(sh->pull[0].buf, RR_BUF_NONE);
}

/* --- SO_RCVLOWAT, while half an offer is there --- */

static int lowat(int fd)
{
	int n = 0;
	socklen_t len = sizeof(n);

	cr_assert_eq(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &n, &len), 0);
	return n;
}

static void half_an_offer(void)
{
	static const uint8_t mark[4] = { 0x80, 0, 1, 0 };

	cr_assert_eq(send(p.client.fd, mark, 4, 0), 4);
	rr_end_poll(&p.server, POLLIN);
	cr_assert_gt(lowat(p.server.fd), 4);
}

Test(conn_rare, a_server_that_speaks_on_half_an_offer_hears_every_byte)
{
	half_an_offer();
	cr_assert_eq(rr_end_try_send(&p.server, "hello", 5), 5);
	cr_assert_eq(lowat(p.server.fd), 1);
}

Test(conn_rare, a_server_that_shuts_down_on_half_an_offer_hears_every_byte)
{
	half_an_offer();
	cr_assert_eq(rr_conn_shutdown(p.server.c, p.server.fd, SHUT_WR), 0);
	cr_assert_eq(lowat(p.server.fd), 1);
}

Test(conn_rare, what_is_let_go_on_half_an_offer_hears_every_byte)
{
	half_an_offer();
	cr_assert(rr_conn_let_go(p.server.c));
	cr_assert_eq(lowat(p.server.fd), 1);
}

/* Any process of a family may have set it before the connection is carried. */
Test(conn_rare, what_was_set_in_another_process_is_asked_for)
{
	int low = 7;

	for (int forked = 0; forked < 2; forked++) {
		atomic_store(&p.server.c->forked, forked);
		cr_assert_eq(setsockopt(p.server.fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)), 0);
		carried();
		cr_assert_eq(p.server.c->lowat, forked ? 7 : 1);
		cr_assert_eq(rr_rx_lowat(p.server.c->share), forked ? 7 : 1);
		teardown();
		setup();
	}
}

static int refuses_option(int fd RR_UNUSED, int level RR_UNUSED, int name RR_UNUSED, void *val RR_UNUSED,
			  socklen_t *len RR_UNUSED)
{
	errno = EBADF;
	return -1;
}

Test(conn_rare, what_cannot_be_asked_for_stays_and_is_no_error_of_the_apps_call)
{
	struct rr_conn *c = p.server.c;

	carried();
	atomic_store(&c->forked, true);
	c->lowat = 9;
	own_os()->getsockopt = refuses_option;
	errno = 77;
	rr_conn_become(c, RR_S_CARRIED, RR_R_NONE);
	cr_assert_eq(errno, 77);
	cr_assert(c->lowat == 9 && rr_rx_lowat(c->share) == 9 && rr_conn_is_carried(c));
}

/* --- the window --- */

/* What the connection says for itself takes of it, too. */
Test(conn_rare, after_the_hatch_no_more_is_said_than_there_is_room_for)
{
	enum { LONG = RR_ENG_CONTROL + 2 };
	struct rr_wc wc;
	struct rr_qp *qp;
	size_t n, all = 0;

	carried();
	qp = p.server.c->share->qp;
	for (uint32_t i = 0; i < LONG; i++)
		one_way(&p.client, &p.server, rr_test_call(out, 10 + i, 10, 1));
	for (uint32_t i = 0; i < LONG; i++) {
		n = rr_test_reply(out, 10 + i, 20000, i);
		cr_assert_eq(rr_end_send(&p.server, NULL, out, n), (ssize_t)n);
		all += n;
	}
	cr_assert_eq(rr_end_poll(&p.client, POLLIN), POLLIN);
	/* the server does nothing any more but give back one receive: its room goes to the hatch */
	n = rr_test_call(out, 100, 10, 1);
	while (rr_end_try_send(&p.client, out, n) == (ssize_t)n)
		;
	cr_assert_eq(qp->ops->poll(qp, &wc, 1), 1);
	qp->ops->repost(qp, wc.cookie);
	n = rr_test_call(out, 200, 2 << 20, 1);
	cr_assert_gt(rr_end_try_send(&p.client, out, n), 0);
	cr_assert(rr_tx_is_tcp(p.client.c->share));
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, all), (ssize_t)all);
	cr_assert(!rr_link_is_dead(p.client.c->share));
}

/* --- tables --- */

static void many_credits(void)
{
	rr_test_params.eng.credits = 1024;
	rr_test_params.memory = 64 << 20;
	setup();
}

/* More than can be pulled at a time: the others wait. */
Test(conn_rare, long_messages_that_nobody_reads_are_only_that, .init = many_credits)
{
	size_t n = 0;
	uint32_t sent = 0;

	carried();
	while (sent < 2 * RR_PULLS) {
		n = rr_test_call(out, 100 + sent, 10000, sent);
		if (rr_end_try_send(&p.client, out, n) != (ssize_t)n)
			break;
		sent++;
		rr_end_poll(&p.server, POLLOUT);
	}
	cr_assert_gt(sent, RR_PULLS);
	for (uint32_t i = 0; i < sent; i++) {
		n = rr_test_call(out, 100 + i, 10000, i);
		cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n, "call %u of %u", i, sent);
		cr_assert_eq(memcmp(in, out, n), 0);
	}
}

static void most_credits(void)
{
	rr_test_params.eng.bc_credits = 1024;
	rr_test_params.budget = 16 << 20;
	rr_test_params.process_budget = 1 << 30;
	many_credits();
}

/* However many messages wait for the app: the hatch behind them is seen before what comes by TCP. */
Test(conn_rare, the_hatch_is_seen_behind_all_that_can_wait, .init = most_credits)
{
	size_t n = 0, all = 0;
	uint32_t sent = 0;
	ssize_t k;

	carried();
	for (; sent < 2500; sent++) {
		n = rr_test_call(out, 100 + sent, 4, 1);
		if (rr_end_try_send(&p.client, out, n) != (ssize_t)n)
			break;
		all += n;
		rr_end_poll(&p.server, POLLOUT);
	}
	cr_assert_gt(sent, 2100);
	n = rr_test_call(out, 99, 2 << 20, 1);
	k = rr_end_try_send(&p.client, out, n);
	cr_assert_gt(k, 0);
	usleep(20000);
	cr_assert(rr_end_poll(&p.server, POLLIN | POLLOUT) & POLLOUT);
	usleep(20000);
	rr_conn_arm(p.server.c, p.server.fd, 0);
	rr_conn_disarm(p.server.c, p.server.fd);
	cr_assert(!rr_link_is_dead(p.server.c->share));
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, all), (ssize_t)all);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, (size_t)k), k);
	cr_assert_eq(memcmp(in, out, (size_t)k), 0);
}

/* Its number is another file's now: whoever still waits in it hears that it is no more. */
Test(conn_rare, what_has_vanished_has_failed)
{
	struct rr_share *sh;

	carried();
	sh = p.client.c->share;
	atomic_fetch_add(&p.client.c->refs, 1);
	rr_conn_vanished(p.client.c);
	cr_assert(rr_link_is_dead(sh) && sh->err == EBADF);
	cr_assert_eq(atomic_load(&sh->st->reason), RR_R_REUSED);
	rr_conn_free(p.client.c);
}

/* connect() to AF_UNSPEC, then close(): it was left already. */
Test(conn_rare, what_was_taken_apart_is_not_left_twice)
{
	struct rr_share *sh;

	carried();
	sh = p.client.c->share;
	rr_conn_vanished(p.client.c);
	rr_conn_close(p.client.c, p.client.fd);
	cr_assert_eq(sh->procs, 0);
}
