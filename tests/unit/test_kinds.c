/* SPDX-License-Identifier: BSD-3-Clause */
/* What each call of the app's finds in each state of a connection that was put into it for the test. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/conn/kinds.h"
#include "tests/lib/connpair.h"

#define FD	50
#define WAKE	60
#define ALL	(POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM)
#define BROKEN	(POLLERR | POLLHUP)

static enum rr_arm asked_for;
static uint32_t shows;		/* enum rr_arm bits of which there is something */

static bool fake_peek(const struct rr_qp *qp, enum rr_arm what)
{
	(void)qp;
	asked_for = what;
	return shows & what;
}

static const struct rr_prov_ops ops = { .name = "fake", .id = RR_PROV_ID_SHM, .caps = RR_PROV_FAMILY, .peek = fake_peek };
static struct rr_qp qp = { .ops = &ops, .wake_fd = WAKE };
static struct rr_share sh = { .qp = &qp, .far = -1 };
static struct rr_conn *c;
static char byte;
static struct iovec one = { &byte, 1 };

static void begin(void)
{
	rr_test_setup();
	c = rr_slab_get(false, FD);
	c->share = &sh;
	c->deadline = 12345;
}

TestSuite(kinds, .init = begin, .timeout = 60);

static void is(enum rr_conn_st st)
{
	atomic_store(&c->face.state, st);
}

/* As if another process had begun the upgrade. */
static void is_foreign(enum rr_conn_st st)
{
	is(st);
	c->owner = (int32_t)rr_pid() + 1;
}

/* Is its lock free, whichever thread asks? */
static void *take_it(void *free)
{
	*(bool *)free = !rr_lock_try(&c->lock) && !rr_lock_try(&sh.lock);
	return NULL;
}

static bool is_let_go(void)
{
	bool yes = false;
	pthread_t t;

	pthread_create(&t, NULL, take_it, &yes);
	pthread_join(t, NULL);
	c->lock = sh.lock = (struct rr_lock){ 0 };
	return yes;
}

/* --- states without functions of their own --------------------------------------------------------------------- */

Test(kinds, what_is_on_tcp_is_the_kernels)
{
	struct pollfd out[2];
	rr_time until = 0;

	is(RR_S_TCP);
	cr_assert_eq(rr_conn_poll(c, FD, ALL), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_recv(c, FD, &one, 1, 0), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_send(c, FD, &one, 1, 0), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_inq(c, FD), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_take_error(c, FD), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_shutdown(c, FD, SHUT_RDWR), RR_CONN_KERNEL);
	cr_assert(!c->shut_rd && !c->shut_wr);
	cr_assert(rr_conn_let_go(c));
	cr_assert_eq(rr_conn_fds(c, FD, POLLOUT, out, &until), 1);
	cr_assert(out[0].fd == FD && out[0].events == POLLOUT && out[0].revents == 0 && until == RR_TIME_NEVER);
	cr_assert_eq(rr_conn_wake_fd(c), -1);
	cr_assert_not(rr_conn_peek(c, ALL));
	cr_assert(rr_conn_drain(c));
	cr_assert_eq(rr_conn_came(c), 0);
	cr_assert(is_let_go());
}

/* A signal handler that has interrupted who holds its lock needs none, and a lock that is stuck keeps nobody. */
Test(kinds, what_is_on_tcp_is_the_kernels_without_its_lock)
{
	is(RR_S_TCP);
	cr_assert_eq(rr_lock_take(&c->lock), 0);
	cr_assert_eq(rr_conn_poll(c, FD, ALL), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_recv(c, FD, &one, 1, 0), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_send(c, FD, &one, 1, 0), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_inq(c, FD), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_shutdown(c, FD, SHUT_RDWR), RR_CONN_KERNEL);
	cr_assert_neq(rr_lock_try(&c->lock), 0, "it is held still");
	rr_lock_drop(&c->lock);
}

Test(kinds, what_another_process_uses_has_nothing_to_say)
{
	struct pollfd out[2];
	rr_time until = 0;

	for (int i = 0; i < 2; i++) {
		is(i ? RR_S_RELAYED : RR_S_FREE);
		cr_assert_eq(rr_conn_poll(c, FD, ALL), 0);
		cr_assert_eq(rr_conn_recv(c, FD, &one, 1, 0), -EAGAIN);
		cr_assert_eq(rr_conn_send(c, FD, &one, 1, 0), -EAGAIN);
		cr_assert_eq(rr_conn_inq(c, FD), 0);
		cr_assert_eq(rr_conn_take_error(c, FD), RR_CONN_KERNEL);
		cr_assert_not(rr_conn_let_go(c));
		cr_assert_eq(rr_conn_fds(c, FD, POLLIN, out, &until), 1);
		cr_assert(out[0].fd == FD && out[0].events == POLLIN && until == RR_TIME_NEVER);
		cr_assert_eq(rr_conn_shutdown(c, FD, SHUT_RD), 0);
		cr_assert(c->shut_rd && !c->shut_wr);
		c->dial = true;
		cr_assert_eq(rr_conn_dialed(c, FD, true), RR_CONN_KERNEL);
		cr_assert(c->dial_wait);
		cr_assert(is_let_go());
	}
}

Test(kinds, a_shutdown_is_remembered)
{
	static const struct {
		int how;
		bool rd, wr;
	} rows[] = { { SHUT_RD, true, false }, { SHUT_WR, false, true }, { SHUT_RDWR, true, true }, { 77, false, false } };

	is(RR_S_REFUSED);
	for (size_t i = 0; i < rr_array_size(rows); i++) {
		c->shut_rd = c->shut_wr = false;
		cr_assert_eq(rr_conn_shutdown(c, FD, rows[i].how), 0);
		cr_assert(c->shut_rd == rows[i].rd && c->shut_wr == rows[i].wr);
	}
	c->shut_rd = c->shut_wr = true;
	rr_conn_shutdown(c, FD, 77);
	cr_assert(c->shut_rd && c->shut_wr);
}

/* --- refused --------------------------------------------------------------------------------------------------- */

Test(kinds, what_is_refused_fails)
{
	is(RR_S_REFUSED);
	cr_assert_eq(rr_conn_recv(c, FD, &one, 1, 0), -ECONNREFUSED);
	cr_assert_eq(rr_conn_send(c, FD, &one, 1, 0), -ECONNREFUSED);
	c->face.server = true;
	cr_assert_eq(rr_conn_recv(c, FD, &one, 1, 0), -ECONNABORTED);
	cr_assert_eq(rr_conn_send(c, FD, &one, 1, 0), -ECONNABORTED);
	cr_assert_eq(rr_conn_poll(c, FD, ALL), ALL | BROKEN);
	cr_assert_eq(rr_conn_poll(c, FD, POLLIN), POLLIN | BROKEN);
	cr_assert_eq(rr_conn_poll(c, FD, POLLOUT), POLLOUT | BROKEN);
	cr_assert_eq(rr_conn_poll(c, FD, POLLPRI), BROKEN);
	cr_assert_eq(rr_conn_inq(c, FD), 0);
	cr_assert_eq(rr_conn_arm(c, FD, POLLIN), 1);
	cr_assert_eq(rr_conn_watch(c, FD, POLLIN), 1);
	cr_assert(c->sleepers == 0 && !c->watched);
	cr_assert_eq(rr_conn_take_error(c, FD), RR_CONN_KERNEL);
	c->dial_err = ETIMEDOUT;
	errno = 77;
	cr_assert_eq(rr_conn_take_error(c, FD), ETIMEDOUT);
	cr_assert_eq(errno, 77);
	cr_assert_eq(rr_conn_take_error(c, FD), RR_CONN_KERNEL);
	c->dial_err = ENETUNREACH;
	cr_assert_eq(rr_conn_dialed(c, FD, false), RR_CONN_KERNEL, "it was not dialed");
	c->dial = true;
	cr_assert_eq(rr_conn_dialed(c, FD, false), -ENETUNREACH);
	cr_assert(c->dial_err == 0 && !c->dial_wait);
	cr_assert(is_let_go());
}

/* --- an upgrade of another process's --------------------------------------------------------------------------- */

Test(kinds, an_upgrade_that_another_process_has_begun_is_lost)
{
	static const enum rr_conn_st all[] = { RR_S_OFFERED, RR_S_JOINING, RR_S_ANSWERED, RR_S_TAKEN, RR_S_DIALING };

	for (size_t i = 0; i < rr_array_size(all); i++) {
		is_foreign(all[i]);
		cr_assert_eq(rr_conn_poll(c, FD, ALL), ALL | BROKEN);
		cr_assert_eq(rr_conn_poll(c, FD, POLLIN), POLLIN | BROKEN);
		cr_assert_eq(rr_conn_poll(c, FD, POLLOUT | POLLPRI), POLLOUT | BROKEN);
		cr_assert_eq(rr_conn_recv(c, FD, &one, 1, 0), -ECONNRESET);
		cr_assert_eq(rr_conn_send(c, FD, &one, 1, 0), -ECONNRESET);
		cr_assert_eq(rr_conn_inq(c, FD), -ECONNRESET);
		cr_assert_eq(rr_conn_arm(c, FD, POLLIN), 1);
		cr_assert_eq(rr_conn_watch(c, FD, POLLIN), 1);
		cr_assert_eq(rr_conn_shutdown(c, FD, SHUT_RD), -ECONNRESET);
		c->dial = true;
		cr_assert_eq(rr_conn_dialed(c, FD, true), -ECONNRESET);
		cr_assert(!c->dial_wait && !c->shut_rd && c->sleepers == 0 && !c->watched);
		cr_assert_not(rr_conn_let_go(c));
		cr_assert(is_let_go());
	}
}

Test(kinds, the_descriptor_that_was_used_last_is_known)
{
	is_foreign(RR_S_OFFERED);
	rr_conn_poll(c, 77, POLLIN);
	cr_assert_eq(c->fd, 77);
	rr_conn_poll(c, -1, POLLIN);
	cr_assert_eq(c->fd, 77);
	rr_conn_poll(c, 0, POLLIN);
	cr_assert_eq(c->fd, 0);
}

/* --- what to sleep on ------------------------------------------------------------------------------------------ */

static int fds(enum rr_conn_st st, unsigned want, struct pollfd out[2], rr_time *until)
{
	memset(out, 0xff, 2 * sizeof(out[0]));
	*until = 99;
	is(st);
	return rr_conn_fds(c, FD, want, out, until);
}

static bool is_fd(const struct pollfd *p, int fd, short events)
{
	return p->fd == fd && p->events == events && p->revents == 0;
}

Test(kinds, who_waits_for_an_answer_sleeps_until_its_time_is_over)
{
	struct pollfd out[2];
	rr_time until;

	cr_assert_eq(fds(RR_S_OFFERED, POLLOUT, out, &until), 1);
	cr_assert(is_fd(out, FD, POLLIN | POLLRDHUP) && until == 12345);
	cr_assert_eq(fds(RR_S_ANSWERED, POLLOUT, out, &until), 2);
	cr_assert(is_fd(out, FD, POLLIN | POLLRDHUP) && is_fd(out + 1, WAKE, POLLIN) && until == 12345);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(fds(i == 0 ? RR_S_JOINING : i == 1 ? RR_S_TAKEN : RR_S_DIALING, POLLOUT, out, &until), 1);
		cr_assert(is_fd(out, WAKE, POLLIN) && until == 12345);
	}
	cr_assert(is_let_go());
}

Test(kinds, half_an_offer_is_waited_for_a_second)
{
	static const enum rr_conn_st all[] = { RR_S_NEW, RR_S_WATCH, RR_S_ASKED };
	struct pollfd out[2];
	rr_time until;

	for (size_t i = 0; i < rr_array_size(all); i++) {
		c->part_since = 0;
		cr_assert_eq(fds(all[i], POLLIN, out, &until), 1);
		cr_assert(is_fd(out, FD, POLLIN) && until == RR_TIME_NEVER);
		c->part_since = 1000;
		cr_assert_eq(fds(all[i], POLLOUT, out, &until), 1);
		cr_assert(is_fd(out, FD, POLLOUT) && until == 1000 + RR_SEC);
	}
}

Test(kinds, who_looks_on_sleeps_on_both)
{
	static const enum rr_conn_st all[] = { RR_S_MEETING, RR_S_HEARD, RR_S_SAID };
	struct pollfd out[2];
	rr_time until;

	for (size_t i = 0; i < rr_array_size(all); i++) {
		qp.wake_fd = WAKE;
		c->share = &sh;
		cr_assert_eq(fds(all[i], POLLOUT, out, &until), 2);
		cr_assert(is_fd(out, FD, POLLOUT) && is_fd(out + 1, WAKE, POLLIN) && until == 12345);
		qp.wake_fd = 0;
		cr_assert_eq(fds(all[i], POLLOUT, out, &until), 2);
		qp.wake_fd = -1;
		cr_assert_eq(fds(all[i], POLLOUT, out, &until), 1);
		cr_assert(is_fd(out, FD, POLLOUT) && until == 12345);
		c->share = NULL;
		cr_assert_eq(fds(all[i], POLLOUT, out, &until), 1);
	}
}

Test(kinds, a_late_answer_is_looked_for_again_and_again)
{
	rr_time until, before = rr_now();
	struct pollfd out[2];

	cr_assert_eq(fds(RR_S_SWALLOW, POLLIN, out, &until), 1);
	cr_assert(is_fd(out, FD, POLLIN));
	cr_assert(until > before && until < rr_now() + RR_SEC);
}

/* --- sleeping -------------------------------------------------------------------------------------------------- */

Test(kinds, threads_that_sleep_are_counted)
{
	is(RR_S_WATCH);
	rr_conn_has_word(c);
	cr_assert_eq(rr_conn_watch(c, FD, POLLIN), 0);
	cr_assert(c->watched && c->sleepers == 0 && c->own_word);
	c->watched = false;
	cr_assert_eq(rr_conn_arm(c, FD, POLLIN), 0);
	cr_assert(c->sleepers == 1 && !c->watched);
	cr_assert_not(c->own_word, "it has nothing to tell");
	rr_conn_has_word(c);
	c->kept = EPIPE;
	cr_assert_eq(rr_conn_arm(c, FD, POLLIN), 0);
	cr_assert(c->sleepers == 2 && c->own_word);
	rr_conn_disarm(c, FD);
	cr_assert_eq(c->sleepers, 1);
	rr_conn_disarm(c, FD);
	cr_assert_eq(c->sleepers, 0);
	cr_assert(is_let_go());
}

Test(kinds, a_verdict_that_waits_lets_nobody_sleep)
{
	is(RR_S_WATCH);
	c->hold_until = rr_now() + 100 * RR_SEC;
	cr_assert_eq(rr_conn_arm(c, FD, POLLIN), 1);
	cr_assert_eq(rr_conn_watch(c, FD, POLLIN), 1);
	cr_assert(c->sleepers == 0 && !c->watched);
	c->hold_until = 1;
	cr_assert_eq(rr_conn_arm(c, FD, POLLIN), 0);
	cr_assert_eq(rr_conn_watch(c, FD, POLLIN), 0);
	cr_assert(c->sleepers == 1 && c->watched);
	cr_assert(is_let_go());
}

/* What a relay uses is the kernel's, to be slept on as such. */
Test(kinds, a_relayed_connection_is_the_kernels)
{
	struct pollfd out[2];
	rr_time until;

	is(RR_S_CARRIED);
	atomic_store(&c->face.relayed, true);
	cr_assert_eq(rr_conn_arm(c, FD, POLLIN), 0);
	cr_assert(c->sleepers == 1 && !c->watched);
	cr_assert_eq(rr_conn_watch(c, FD, POLLIN), 0);
	cr_assert(c->sleepers == 1);
	rr_conn_disarm(c, FD);
	cr_assert_eq(c->sleepers, 0);
	cr_assert_eq(rr_conn_fds(c, FD, POLLIN, out, &until), 1);
	cr_assert(is_fd(out, FD, POLLIN) && until == RR_TIME_NEVER);
	cr_assert(rr_conn_let_go(c));
	cr_assert_eq(rr_conn_send(c, FD, &one, 1, 0), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_inq(c, FD), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_shutdown(c, FD, SHUT_RD), RR_CONN_KERNEL);
	cr_assert_eq(rr_conn_take_error(c, 0), RR_CONN_KERNEL);
	cr_assert(rr_conn_drain(c));
	cr_assert_eq(rr_conn_wake_fd(c), -1);
	cr_assert_not(rr_conn_peek(c, ALL));
	cr_assert(is_let_go());
}

/* --- in a signal handler that interrupted a call on the same connection ------------------------------------------ */

Test(kinds, a_handler_inside_another_call_does_not_wait)
{
	uint64_t big = 5;
	struct pollfd out[2];
	rr_time until = 0;
	int low = 7;

	is(RR_S_NEW);
	c->most = 5;
	cr_assert_eq(rr_lock_take(&c->lock), 0);
	cr_assert_eq(rr_conn_poll(c, FD, ALL), 0);
	cr_assert_eq(rr_conn_recv(c, FD, &one, 1, 0), -EDEADLK);
	cr_assert_eq(rr_conn_send(c, FD, &one, 1, 0), -EDEADLK);
	cr_assert_eq(rr_conn_inq(c, FD), -EDEADLK);
	cr_assert_eq(rr_conn_shutdown(c, FD, SHUT_RD), -EDEADLK);
	cr_assert_eq(rr_conn_arm(c, FD, POLLIN), 1);
	cr_assert_not(rr_conn_let_go(c));
	cr_assert_not(rr_conn_has_seen(c));
	cr_assert_not(rr_conn_setopt(c, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
	cr_assert_eq(c->lowat, 1);
	cr_assert_eq(rr_conn_fds(c, FD, POLLIN, out, &until), 1);
	cr_assert(is_fd(out, FD, POLLIN) && until == RR_TIME_NEVER);
	is(RR_S_WATCH);
	cr_assert_eq(rr_conn_take_error(c, FD), RR_CONN_KERNEL);
	rr_conn_keep_error(c, EIO);
	cr_assert(c->kept == 0 && !c->own_word);
	rr_conn_close(c, FD);
	cr_assert_not(c->left);
	rr_conn_vanished(c);
	cr_assert_not(c->left);
	(void)big;
}

/* --- options --------------------------------------------------------------------------------------------------- */

Test(kinds, what_the_app_has_set_it_reads)
{
	uint8_t val[8] = { 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee };
	socklen_t len = 8;
	int got;

	is(RR_S_WATCH);
	c->lowat = 0x01020304;
	cr_assert_not(rr_conn_getopt(c, SOL_SOCKET, SO_RCVLOWAT, val, &len));
	c->lowat_set = true;
	cr_assert_not(rr_conn_getopt(c, SOL_SOCKET, SO_RCVLOWAT, NULL, &len));
	cr_assert_not(rr_conn_getopt(c, SOL_SOCKET, SO_RCVLOWAT, val, NULL));
	cr_assert_not(rr_conn_getopt(c, SOL_SOCKET, SO_SNDLOWAT, val, &len));
	cr_assert_not(rr_conn_getopt(c, IPPROTO_TCP, SO_RCVLOWAT, val, &len));
	cr_assert(rr_conn_getopt(c, SOL_SOCKET, SO_RCVLOWAT, val, &len));
	memcpy(&got, val, sizeof(got));
	cr_assert(got == 0x01020304 && len == 4 && val[4] == 0xee);
	len = 3;
	memset(val, 0xee, sizeof(val));
	cr_assert(rr_conn_getopt(c, SOL_SOCKET, SO_RCVLOWAT, val, &len));
	cr_assert(len == 3 && !memcmp(val, &got, 3) && val[3] == 0xee);
	sh.anchor.ours = true;
	for (uint32_t i = 0; i < RR_KEEP_OPTS; i++)
		sh.anchor.app[i] = 55;
	len = 4;
	cr_assert_not(rr_conn_getopt(c, SOL_SOCKET, SO_KEEPALIVE, val, &len), "not before it is carried");
	is(RR_S_CARRIED);
	cr_assert(rr_conn_getopt(c, SOL_SOCKET, SO_KEEPALIVE, val, &len));
	memcpy(&got, val, sizeof(got));
	cr_assert(got == 55 && len == 4);
	cr_assert_not(rr_conn_getopt(c, SOL_SOCKET, SO_SNDBUF, val, &len));
	cr_assert(rr_conn_getopt(c, SOL_SOCKET, SO_RCVLOWAT, val, &len));
	memcpy(&got, val, sizeof(got));
	cr_assert_eq(got, 0x01020304);
	sh.anchor.ours = false;
	cr_assert_not(rr_conn_getopt(c, SOL_SOCKET, SO_KEEPALIVE, val, &len));
}

static bool sets_low(int low)
{
	atomic_store(&c->own_word, false);
	return rr_conn_setopt(c, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
}

Test(kinds, how_many_bytes_a_read_waits_for)
{
	int low = 9;

	is(RR_S_WATCH);
	cr_assert_not(rr_conn_setopt(c, SOL_SOCKET, SO_SNDLOWAT, &low, sizeof(low)));
	cr_assert_not(rr_conn_setopt(c, IPPROTO_TCP, SO_RCVLOWAT, &low, sizeof(low)));
	cr_assert_not(rr_conn_setopt(c, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low) - 1));
	cr_assert(c->lowat == 1 && !c->own_word);
	cr_assert_not(sets_low(9));
	cr_assert(c->lowat == 9 && c->own_word && rr_rx_lowat(&sh) != 9);
	c->lowat_set = true;
	cr_assert(sets_low(0));
	cr_assert(c->lowat == 1 && c->own_word);
	cr_assert(sets_low(-1));
	cr_assert_eq(c->lowat, INT_MAX);
	cr_assert(sets_low(2));
	cr_assert_eq(c->lowat, 2);
	is(RR_S_CARRIED);
	cr_assert(sets_low(11));
	cr_assert(c->lowat == 11 && rr_rx_lowat(&sh) == 11);
	cr_assert(is_let_go());
}

Test(kinds, an_error_that_could_not_be_returned_is_kept)
{
	is(RR_S_NEW);
	rr_conn_keep_error(c, EIO);
	cr_assert(c->kept == 0 && sh.err == 0 && c->own_word);
	atomic_store(&c->own_word, false);
	is(RR_S_WATCH);
	rr_conn_keep_error(c, EIO);
	cr_assert(c->kept == EIO && sh.err == 0 && c->own_word);
	errno = 77;
	cr_assert_eq(rr_conn_take_error(c, FD), EIO);
	cr_assert_eq(rr_conn_take_error(c, FD), RR_CONN_KERNEL, "the number is no socket's");
	cr_assert_eq(errno, 77);
	is(RR_S_SWALLOW);
	rr_conn_keep_error(c, EPIPE);
	cr_assert_eq(c->kept, EPIPE);
	is(RR_S_CARRIED);
	atomic_store(&c->own_word, false);
	rr_conn_keep_error(c, ETIMEDOUT);
	cr_assert(c->kept == EPIPE && sh.err == ETIMEDOUT && c->own_word);
	cr_assert(is_let_go());
}

/* --- a look without the lock ----------------------------------------------------------------------------------- */

static bool peeks(uint32_t hint, unsigned want, uint32_t there)
{
	atomic_store(&sh.hint, hint);
	shows = there;
	asked_for = 0;
	return rr_conn_peek(c, want);
}

Test(kinds, what_a_spinning_thread_sees)
{
	const uint32_t both = RR_ARM_RECV | RR_ARM_SEND;

	is(RR_S_CARRIED);
	cr_assert_not(peeks(0, POLLIN, 0));
	cr_assert_eq(asked_for, RR_ARM_RECV);
	cr_assert_not(peeks(0, POLLOUT, 0));
	cr_assert_eq(asked_for, both);
	cr_assert(peeks(0, POLLIN, RR_ARM_RECV) && peeks(0, POLLOUT, RR_ARM_SEND) && !peeks(0, POLLIN, RR_ARM_SEND));
	cr_assert(peeks(0, POLLWRNORM, RR_ARM_SEND));
	cr_assert(peeks(RR_HINT_IN, POLLIN, 0) && peeks(RR_HINT_BYTES, POLLIN, 0) && peeks(RR_HINT_OVER, POLLIN, 0));
	cr_assert(peeks(RR_HINT_IN, POLLRDNORM, 0) && peeks(RR_HINT_IN, POLLRDHUP, 0));
	cr_assert(!peeks(RR_HINT_IN, POLLOUT, 0) && !peeks(RR_HINT_BYTES, POLLOUT, 0) && peeks(RR_HINT_OVER, POLLOUT, 0));
	cr_assert_not(peeks(RR_HINT_LOST, POLLIN, both));
	cr_assert_eq(asked_for, 0, "the provider is done");
	cr_assert(peeks(RR_HINT_LOST | RR_HINT_IN, POLLIN, 0));
	cr_assert_not(peeks(RR_HINT_EARLY, POLLIN, both));
	cr_assert_not(peeks(RR_HINT_EARLY | RR_HINT_IN | RR_HINT_OVER, POLLIN, 0));
	cr_assert(peeks(RR_HINT_EARLY | RR_HINT_AHEAD, POLLIN, RR_ARM_RECV));
	cr_assert_not(peeks(RR_HINT_EARLY | RR_HINT_AHEAD, POLLIN, 0));
	cr_assert_not(peeks(RR_HINT_EARLY | RR_HINT_AHEAD, POLLOUT, both));
	cr_assert_not(peeks(RR_HINT_EARLY | RR_HINT_AHEAD, POLLRDHUP, both));
	cr_assert_eq(rr_conn_wake_fd(c), WAKE);
	is(RR_S_NEW);
	cr_assert_not(peeks(RR_HINT_IN, POLLIN, both));
	cr_assert_eq(rr_conn_wake_fd(c), -1);
}

/* What the kernel has said counts for a tick of the clock. */
static bool has_seen_now(void)
{
	for (int i = 0; i < 1000; i++) {
		rr_time tick = rr_now_coarse();
		bool yes;

		c->looked = tick;
		yes = rr_conn_has_seen(c);
		if (rr_now_coarse() == tick)
			return yes;
	}
	cr_assert_fail("no tick is long enough");
	return false;
}

Test(kinds, what_the_kernel_has_just_said_is_not_asked_again)
{
	is(RR_S_WATCH);
	cr_assert_not(has_seen_now());
	c->most = 4;
	cr_assert(has_seen_now());
	c->looked = rr_now_coarse() - RR_SEC;
	cr_assert_not(rr_conn_has_seen(c));
	c->kept = EIO;
	cr_assert_not(has_seen_now(), "it has more to tell");
	c->kept = 0;
	is(RR_S_SWALLOW);
	cr_assert_not(has_seen_now(), "the kernel has not the first word");
	cr_assert(is_let_go());
}

/* --- fork() ---------------------------------------------------------------------------------------------------- */

Test(kinds, a_child_has_what_was_counted_for_it)
{
	is(RR_S_CARRIED);
	atomic_store(&sh.procs, 1);
	atomic_store(&sh.family[0], (int32_t)rr_pid());
	c->rest = 5;
	rr_conn_fork_prepare();
	cr_assert_not(rr_slab_hold(), "no connection is made meanwhile");
	rr_conn_forked(c);
	cr_assert(sh.procs == 2 && c->forked && c->rest == 0 && c->fork_round != 0);
	rr_conn_fork_parent();
	cr_assert(rr_slab_hold());
	rr_slab_let();
	rr_conn_fork_failed(c);
	cr_assert(sh.procs == 1 && c->fork_round == 0);
	rr_conn_fork_failed(c);
	cr_assert_eq(sh.procs, 1);
}

static void *hold_it(void *step)
{
	rr_lock_take(&c->lock);
	pthread_barrier_wait(step);
	pthread_barrier_wait(step);
	rr_lock_drop(&c->lock);
	return NULL;
}

/* A server's connection forgets what it has seen: the child may read that. */
Test(kinds, what_is_not_carried_is_not_counted)
{
	pthread_barrier_t step;
	pthread_t t;

	is(RR_S_WATCH);
	c->face.server = true;
	c->looked = 5;
	atomic_store(&sh.procs, 1);
	rr_conn_fork_nears(c);
	cr_assert_eq(c->looked, 0);
	c->looked = 5;
	rr_conn_fork_prepare();
	rr_conn_forked(c);
	rr_conn_fork_parent();
	cr_assert(c->looked == 0 && c->forked && sh.procs == 1 && c->fork_round == 0);
	rr_conn_fork_failed(c);
	cr_assert_eq(sh.procs, 1);
	cr_assert(is_let_go());
	pthread_barrier_init(&step, NULL, 2);
	pthread_create(&t, NULL, hold_it, &step);
	pthread_barrier_wait(&step);
	c->looked = 5;
	rr_conn_forked(c);
	cr_assert_eq(c->looked, 5, "who holds all the slabs waits for nobody");
	pthread_barrier_wait(&step);
	pthread_join(t, NULL);
	is(RR_S_OFFERED);
	rr_conn_fork_nears(c);
	rr_conn_forked(c);
	cr_assert(c->looked == 5 && is_let_go());
}

Test(kinds, in_the_child_nobody_else_is_inside)
{
	struct rr_conn *other = rr_slab_get(false, 9);

	is(RR_S_CARRIED);
	atomic_store(&sh.procs, 1);
	atomic_store(&sh.family[0], (int32_t)rr_pid());
	rr_conn_fork_prepare();
	rr_conn_forked(c);
	c->half = 1;
	c->sleepers = 3;
	c->lingers = true;
	c->charged = 100;
	c->ring = 1 << 20;
	other->sleepers = 4;
	other->half = 2;
	atomic_store(&other->face.state, RR_S_TCP);
	cr_assert_eq(rr_lock_take(&other->lock), 0);
	if (!fork()) {
		rr_conn_fork_child();
		if (c->half || c->sleepers || c->lingers || c->rest || other->sleepers || other->half)
			_exit(1);
		if (sh.family[0] != (int32_t)getppid() || sh.family[1] != (int32_t)rr_pid() || sh.procs != 2)
			_exit(2);
		if (rr_lock_try(&other->lock) || !rr_slab_hold() || !rr_slab_hold_ends())
			_exit(3);
		_exit(0);
	}
	rr_conn_fork_parent();
	for (int st; wait(&st) > 0;)
		cr_assert_eq(st, 0, "%x", (unsigned)st);
	cr_assert(c->sleepers == 3 && c->half == 1);
}

/* --- the end --------------------------------------------------------------------------------------------------- */

Test(kinds, a_connection_is_closed_once)
{
	is(RR_S_REFUSED);
	rr_conn_close(c, FD);
	cr_assert(c->left && c->fd == FD);
	rr_conn_close(c, FD);
	cr_assert(c->left);
	cr_assert(is_let_go());
	c->left = false;
	rr_conn_vanished(c);
	cr_assert(c->left && c->fd == -1);
	cr_assert(is_let_go());
}

Test(kinds, what_was_dialed_and_is_gone_is_on_tcp)
{
	is(RR_S_DIALING);
	c->share = NULL;
	rr_conn_vanished(c);
	cr_assert(c->left && rr_conn_is_tcp(c) && !c->share);
	is(RR_S_DIALING);
	rr_conn_vanished(c);
	cr_assert_eq(c->face.state, RR_S_DIALING, "only the first time");
}

Test(kinds, what_is_shut_down_before_its_first_call_stays_on_tcp)
{
	is(RR_S_NEW);
	cr_assert_eq(rr_conn_shutdown(c, FD, SHUT_WR), 0);
	cr_assert(rr_conn_is_tcp(c) && c->shut_wr && !c->shut_rd);
	is(RR_S_NEW);
	cr_assert(rr_conn_let_go(c));
	cr_assert(rr_conn_is_tcp(c));
	is(RR_S_WATCH);
	cr_assert(rr_conn_let_go(c));
	cr_assert(rr_conn_is_tcp(c));
	is(RR_S_LISTEN);
	cr_assert(rr_conn_let_go(c));
	cr_assert_eq(c->face.state, RR_S_LISTEN);
	is(RR_S_NEW);
	c->require = true;
	cr_assert_not(rr_conn_let_go(c));
	cr_assert_eq(c->face.state, RR_S_REFUSED);
	for (int i = 0; i < RR_S_COUNT; i++) {
		bool kernels = i == RR_S_TCP || i == RR_S_NEW || i == RR_S_WATCH || i == RR_S_LISTEN;

		cr_assert_eq(!!rr_kinds[i]->let_go, kernels, "%d", i);
	}
}

Test(kinds, a_dialed_connection_is_reported_once)
{
	is(RR_S_CARRIED);
	c->dial = true;
	cr_assert_eq(rr_kinds[RR_S_CARRIED]->dialed(c, FD), 0);
	cr_assert(c->dial_told);
	cr_assert_eq(rr_kinds[RR_S_CARRIED]->dialed(c, FD), -EISCONN);
	cr_assert_eq(rr_kinds[RR_S_DIALING]->dialed(c, FD), -EALREADY);
}
