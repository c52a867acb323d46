/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes that are not for the app, what is sent along with its own, and answers that expire: each step with the kernel, the
 * queue of answers and the clock played. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/tcp.h>
#include <string.h>

#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"
#include "tests/lib/connpair.h"
#include "tests/unit/played_clock.h"

enum { FD = 30 };

static struct rr_conn c, others[100];
static struct rr_share sh;
static struct rr_os os;

/* --- what is played (the Makefile wraps these) --- */

static struct {
	/* the socket: bytes in its queue, and what a read finds behind them */
	uint8_t queue[1024];
	size_t n;
	int then;		/* 0: the end; or an errno */
	size_t most;		/* that a read gives at a time */
	unsigned recvs, peeks, polled;
	size_t asked;
	unsigned anchor;	/* what poll() shows */
	bool no_bytes;
	int lowat;
	/* the connection */
	enum rr_conn_st st;
	enum rr_reason why;
	unsigned becomes, breaks, fails;
	/* along.c */
	struct tcp_info info;
	bool no_info;
	int64_t unread;
	ssize_t sends;
	struct iovec sent[RR_IOV_CUT];
	int sent_n, flags;
	size_t passed;
	unsigned passes;
	/* expire.c */
	rr_time due, due_then;
	struct rr_conn *half[100];
	unsigned halves, picked, frees, withdraws, releases;
	rr_time until, now_given;
	int pick_rc;
	bool not_withdrawn;
	unsigned taken_up;	/* so is the how-manieth */
	rr_time idle;
	bool spares;
	unsigned spared;
	int spare_errno;
} k;

unsigned __wrap_rr_anchor_poll(int fd, unsigned want);
void __wrap_rr_anchor_break(int fd);
size_t __wrap_rr_queue_bytes(int fd);
void __wrap_rr_conn_become(struct rr_conn *it, enum rr_conn_st st, enum rr_reason why);
void __wrap_rr_conn_lowat(struct rr_conn *it, int bytes);
bool __wrap_rr_queue_info(int fd, struct tcp_info *i);
int64_t __wrap_rr_queue_unread(const struct tcp_info *i, const struct rr_track *in, int fd);
ssize_t __wrap_rr_queue_send(int fd, const struct iovec *iov, int n, int flags);
void __wrap_rr_upgrade_fails(struct rr_conn *it, enum rr_reason why);
void __wrap_rr_passed_out(struct rr_conn *it, const struct iovec *iov, int n, size_t len);
rr_time __wrap_rr_half_due(void);
int __wrap_rr_half_pick(rr_time until, rr_time at, int (*take)(struct rr_conn *it), struct rr_conn **out);
bool __wrap_rr_answer_withdraw(struct rr_conn *it);
void __wrap_rr_carrier_free(struct rr_share *s);
void __wrap_rr_conn_free(struct rr_conn *it);
rr_time __wrap_rr_idle_look(rr_time at);
bool __wrap_rr_prov_spare(void);

unsigned __wrap_rr_anchor_poll(int fd, unsigned want)
{
	cr_assert(fd == FD && !want);
	k.polled++;
	return k.anchor;
}

void __wrap_rr_anchor_break(int fd)
{
	cr_assert_eq(fd, FD);
	k.breaks++;
}

size_t __wrap_rr_queue_bytes(int fd)
{
	cr_assert_eq(fd, FD);
	return k.no_bytes ? 0 : k.n;
}

void __wrap_rr_conn_become(struct rr_conn *it, enum rr_conn_st st, enum rr_reason why)
{
	k.becomes++;
	k.st = st;
	k.why = why;
	rr_conn_turn(it, st);
}

void __wrap_rr_conn_lowat(struct rr_conn *it, int bytes)
{
	cr_assert_eq(it, &c);
	k.lowat = bytes;
}

bool __wrap_rr_queue_info(int fd, struct tcp_info *i)
{
	cr_assert_eq(fd, FD);
	*i = k.info;
	return !k.no_info;
}

int64_t __wrap_rr_queue_unread(const struct tcp_info *i, const struct rr_track *in, int fd)
{
	cr_assert(i->tcpi_bytes_sent == k.info.tcpi_bytes_sent && in == &c.in && fd == FD);
	return k.unread;
}

ssize_t __wrap_rr_queue_send(int fd, const struct iovec *iov, int n, int flags)
{
	cr_assert_eq(fd, FD);
	memcpy(k.sent, iov, (size_t)n * sizeof(*iov));
	k.sent_n = n;
	k.flags = flags;
	return k.sends;
}

void __wrap_rr_upgrade_fails(struct rr_conn *it, enum rr_reason why)
{
	cr_assert(it == &c && k.breaks == 1);
	k.fails++;
	k.why = why;
}

void __wrap_rr_passed_out(struct rr_conn *it, const struct iovec *iov, int n, size_t len)
{
	cr_assert(it == &c && iov && n == 2);
	k.passes++;
	k.passed = len;
}

rr_time __wrap_rr_half_due(void)
{
	return k.until ? k.due_then : k.due;
}

int __wrap_rr_half_pick(rr_time until, rr_time at, int (*take)(struct rr_conn *it), struct rr_conn **out)
{
	int rc;

	k.until = until;
	k.now_given = at;
	if (k.pick_rc) {
		*out = &c;
		return k.pick_rc;
	}
	if (k.picked >= k.halves)
		return -ESRCH;
	*out = k.half[k.picked++];
	rc = take(*out);
	cr_assert(rc == 0 || rc == -ESRCH || rc == -EBUSY, "%d", rc);
	return rc;
}

bool __wrap_rr_answer_withdraw(struct rr_conn *it)
{
	(void)it;
	return ++k.withdraws != k.taken_up && !k.not_withdrawn;
}

void __wrap_rr_carrier_free(struct rr_share *s)
{
	k.releases += s == &sh;
}

void __wrap_rr_conn_free(struct rr_conn *it)
{
	k.frees++;
	it->refs--;
}

rr_time __wrap_rr_idle_look(rr_time at)
{
	cr_assert_eq(at, START);
	return k.idle;
}

bool __wrap_rr_prov_spare(void)
{
	k.spared++;
	errno = k.spare_errno;
	return k.spares;
}

static ssize_t plays_recv(int fd, void *buf, size_t len, int flags)
{
	size_t n = rr_min(rr_min(len, k.n), k.most);

	cr_assert(fd == FD && flags & MSG_DONTWAIT && len);
	k.asked = len;
	memcpy(buf, k.queue, n);
	k.peeks += (flags & MSG_PEEK) != 0;
	k.recvs += !(flags & MSG_PEEK);
	if (!n) {
		errno = k.then ? k.then : EBADF;	/* of old */
		return k.then ? -1 : 0;
	}
	if (flags & MSG_PEEK)
		return (ssize_t)n;
	k.n -= n;
	memmove(k.queue, k.queue + n, k.n);
	return (ssize_t)n;
}

static void afresh(void)
{
	memset(&k, 0, sizeof(k));
	memset(&c, 0, sizeof(c));
	k.then = EAGAIN;
	k.most = SIZE_MAX;
	now = START;
	c.fd = FD;
	c.refs = 1;
}

static void begin(void)
{
	rr_test_setup();
	os = (struct rr_os){ .recv = plays_recv };
	rr_os = &os;
	afresh();
}

TestSuite(late, .init = begin, .timeout = 60);

static void puts_bytes(size_t n)
{
	for (size_t i = 0; i < n; i++)
		k.queue[k.n++] = (uint8_t)(i + 1);
}

/* --- taken out of the queue --- */

Test(late, exactly_so_many_bytes_are_taken_out)
{
	puts_bytes(300);
	cr_assert(rr_upgrade_consume(FD, 290));
	cr_assert(k.n == 10 && k.recvs == 3 && k.asked == 290 - 2 * 128);
	puts_bytes(200);
	k.most = 50;
	cr_assert(rr_upgrade_consume(FD, 200));
	cr_assert(k.n == 10 && k.recvs == 3 + 4);
	cr_assert(rr_upgrade_consume(FD, 0));
	cr_assert_eq(k.recvs, 7);
	k.most = 1;
	cr_assert(rr_upgrade_consume(FD, 3));
	cr_assert_eq(k.n, 7);
}

Test(late, what_another_reader_has_taken_is_not_there)
{
	puts_bytes(10);
	cr_assert_not(rr_upgrade_consume(FD, 11));
	k.then = 0;
	cr_assert_not(rr_upgrade_consume(FD, 1));
	puts_bytes(11);
	cr_assert(rr_upgrade_consume(FD, 11));
}

Test(late, a_look_leaves_everything_in_its_place)
{
	uint8_t buf[20];

	puts_bytes(30);
	cr_assert(rr_upgrade_look(FD, buf, sizeof(buf)) == 20 && buf[19] == 20 && k.n == 30 && k.peeks == 1);
	k.n = 0;
	cr_assert_eq(rr_upgrade_look(FD, buf, sizeof(buf)), -EAGAIN);
	k.then = 0;
	cr_assert_eq(rr_upgrade_look(FD, buf, sizeof(buf)), 0);
}

/* recv() would take it. */
Test(late, an_error_stays_pending)
{
	uint8_t buf[20];
	bool gone = true;

	cr_assert_eq(rr_upgrade_peek(FD, buf, sizeof(buf), &gone), -EAGAIN);
	cr_assert(!gone && k.peeks == 1);
	k.anchor = POLLHUP;
	puts_bytes(5);
	cr_assert_eq(rr_upgrade_peek(FD, buf, sizeof(buf), &gone), 5);
	cr_assert_not(gone);
	k.anchor = POLLERR | POLLHUP;
	cr_assert_eq(rr_upgrade_peek(FD, buf, sizeof(buf), &gone), 5);
	cr_assert(gone && k.peeks == 3);
	k.n = 0;
	cr_assert_eq(rr_upgrade_peek(FD, buf, sizeof(buf), &gone), -EIO);
	cr_assert(gone && k.peeks == 3, "it is not read");
}

/* --- half of it --- */

Test(late, half_an_offer_is_kept_from_the_app_for_a_second)
{
	cr_assert(rr_upgrade_withholds(&c, 100, 20));
	cr_assert(c.part_since == START && c.own_word && k.lowat == 100);
	now += RR_SEC - 1;
	c.own_word = false;
	cr_assert(rr_upgrade_withholds(&c, 40, 40));
	cr_assert(k.lowat == 41 && c.part_since == START && !c.own_word, "more than there is");
	cr_assert(rr_upgrade_withholds(&c, 43, 41));
	cr_assert_eq(k.lowat, 43);
	cr_assert(rr_upgrade_withholds(&c, 42, 41));
	cr_assert_eq(k.lowat, 42);
	now++;
	k.lowat = 0;
	cr_assert_not(rr_upgrade_withholds(&c, 100, 50));
	cr_assert_eq(k.lowat, 0);
}

/* --- a reply that is no answer --- */

static void puts_fragment(size_t n, bool last)
{
	rr_rm_put(k.queue + k.n, (uint32_t)n, last);
	k.n += RR_RM_HDR;
	puts_bytes(n);
}

static void is_skipped(void)
{
	cr_assert_eq(rr_upgrade_skip(&c, FD), RR_RIDE_OVER);
	cr_assert(k.becomes == 1 && k.st == RR_S_TCP && k.why == RR_R_NO_SHIM);
}

Test(late, a_reply_to_the_offer_is_read_away)
{
	puts_fragment(100, false);
	puts_fragment(600, true);
	puts_fragment(20, true);	/* the app's */
	is_skipped();
	cr_assert_eq(k.n, 24);
}

Test(late, its_last_fragment_may_be_empty)
{
	puts_fragment(100, false);
	puts_fragment(0, true);
	puts_bytes(7);
	is_skipped();
	cr_assert_eq(k.n, 7);
	afresh();
	puts_fragment(100, false);
	puts_fragment(0, true);
	is_skipped();
	cr_assert_eq(k.n, 0, "nothing needs to come behind it");
}

Test(late, as_much_of_it_as_there_is)
{
	puts_fragment(100, true);
	k.n -= 50;
	cr_assert_eq(rr_upgrade_skip(&c, FD), -EAGAIN);
	cr_assert(k.n == 0 && k.becomes == 0);
	puts_bytes(51);
	is_skipped();
	cr_assert_eq(k.n, 1);
}

Test(late, an_end_or_an_error_is_the_apps)
{
	k.then = 0;
	cr_assert_eq(rr_upgrade_skip(&c, FD), 0);
	k.then = ECONNRESET;
	cr_assert_eq(rr_upgrade_skip(&c, FD), 0);
	k.anchor = POLLERR;
	k.no_bytes = true;
	cr_assert_eq(rr_upgrade_skip(&c, FD), 0);
	cr_assert_eq(k.becomes, 0);
}

Test(late, a_reply_of_many_fragments_is_not_read_in_one_call)
{
	for (int i = 0; i < 20; i++)
		puts_fragment(1, false);
	cr_assert_eq(rr_upgrade_skip(&c, FD), -EAGAIN);
	cr_assert_eq(k.n, 20 * 5 - 8 * 5, "16 reads: 8 headers, 8 bytes");
	cr_assert_eq(rr_upgrade_skip(&c, FD), -EAGAIN);
	cr_assert_eq(rr_upgrade_skip(&c, FD), -EAGAIN);
	cr_assert_eq(k.n, 0);
}

/* --- sent along --- */

static uint8_t ours[50], apps[2][100];
static struct iovec iov[2] = { { apps[0], 100 }, { apps[1], 60 } };

static ssize_t goes_along(ssize_t sends)
{
	afresh();
	k.sends = sends;
	c.out.ours = 1000;
	return rr_ride_send_along(&c, FD, ours, 50, iov, 2, 0x77);
}

Test(late, ours_goes_in_front_of_the_apps)
{
	cr_assert_eq(goes_along(210), 160);
	cr_assert(k.sent_n == 3 && k.flags == 0x77 && k.sent[0].iov_base == ours && k.sent[0].iov_len == 50);
	cr_assert(k.sent[1].iov_base == apps[0] && k.sent[1].iov_len == 100 && k.sent[2].iov_base == apps[1] && k.sent[2].iov_len == 60);
	cr_assert(c.out.ours == 1050 && k.passes == 1 && k.passed == 160 && k.fails == 0 && k.breaks == 0);
	cr_assert_eq(goes_along(51), 1);
	cr_assert(c.out.ours == 1050 && k.passed == 1);
	cr_assert_eq(goes_along(50), 0);
	cr_assert(c.out.ours == 1050 && k.passes == 1 && k.passed == 0 && k.fails == 0);
}

Test(late, where_nothing_goes_nothing_has_gone)
{
	cr_assert_eq(goes_along(-EAGAIN), -EAGAIN);
	cr_assert(c.out.ours == 1000 && k.passes == 0 && k.fails == 0 && k.breaks == 0);
}

Test(late, half_of_ours_breaks_the_connection)
{
	static const ssize_t some[] = { 0, 1, 49 };

	for (size_t i = 0; i < rr_array_size(some); i++) {
		cr_assert_eq(goes_along(some[i]), -ECONNRESET);
		cr_assert(k.breaks == 1 && k.fails == 1 && k.why == RR_R_INTERNAL && k.passes == 0 && c.out.ours == 1000);
	}
}

Test(late, many_pieces_are_cut)
{
	struct iovec many[RR_IOV_CUT + 5];

	for (int i = 0; i < RR_IOV_CUT + 5; i++)
		many[i] = (struct iovec){ apps[0] + i % 90, 1 };
	k.sends = -EAGAIN;
	rr_ride_send_along(&c, FD, ours, 50, many, RR_IOV_CUT + 5, 0);
	cr_assert(k.sent_n == RR_IOV_CUT && k.sent[0].iov_base == ours && k.sent[RR_IOV_CUT - 1].iov_base == many[RR_IOV_CUT - 2].iov_base);
}

/* A retransmission is no new byte, and a FIN counts as one that was received. */
Test(late, who_counts_as_the_kernel_does_has_seen_all)
{
	c.out.bytes = 100;
	c.out.ours = 20;
	k.info.tcpi_bytes_sent = 90;
	k.info.tcpi_bytes_retrans = 5;
	k.info.tcpi_notsent_bytes = 35;
	k.unread = 1;
	cr_assert(rr_ride_seen_all(&c, FD));
	k.unread = 2;
	cr_assert_not(rr_ride_seen_all(&c, FD));
	k.unread = -3;
	cr_assert(rr_ride_seen_all(&c, FD));
	k.info.tcpi_notsent_bytes = 36;
	cr_assert_not(rr_ride_seen_all(&c, FD));
	k.info.tcpi_bytes_retrans = 6;
	cr_assert(rr_ride_seen_all(&c, FD));
	k.no_info = true;
	cr_assert_not(rr_ride_seen_all(&c, FD));
}

/* --- answers that expire --- */

static int turns, turned_fd;

static void turned(struct rr_conn *it, int fd)
{
	turns++;
	turned_fd = fd;
	cr_assert(it->share == &sh && !it->lock.word && k.releases == 0, "it may still be slept on");
}

static int fd_of(const struct rr_conn *it)
{
	(void)it;
	return FD + 7;
}

static void waits_in(enum rr_conn_st st)
{
	afresh();
	rr_conn_turn(&c, st);
	c.share = &sh;
	k.half[0] = &c;
	k.halves = 1;
	k.due = START;
	turns = 0;
}

static void is_turned_over(int fd)
{
	cr_assert(rr_conn_st(&c) == RR_S_TCP && k.why == RR_R_ABANDONED && !c.share && !c.lock.word);
	cr_assert(k.withdraws == 1 && k.releases == 1 && k.frees == 1 && c.refs == 1 && c.fd == fd && c.half == 0);
}

Test(late, an_answer_that_is_due_is_withdrawn)
{
	static const enum rr_conn_st some[] = { RR_S_ANSWERED, RR_S_HEARD, RR_S_SAID };

	rr_test_params.turned = turned;
	for (size_t i = 0; i < rr_array_size(some); i++) {
		waits_in(some[i]);
		cr_assert_eq(rr_half_expire(START), RR_TIME_NEVER);
		is_turned_over(FD);
		cr_assert(turns == 1 && turned_fd == FD && k.until == START && k.now_given == START);
	}
	rr_test_params.fd_of = fd_of;
	waits_in(RR_S_ANSWERED);
	rr_half_expire(START);
	is_turned_over(FD + 7);
	cr_assert_eq(turned_fd, FD + 7);
	rr_test_params.turned = NULL;
	waits_in(RR_S_ANSWERED);
	rr_half_expire(START);
	is_turned_over(FD + 7);
}

static void takes_lock(struct rr_conn *it, int fd)
{
	(void)fd;
	cr_assert_eq(rr_lock_take(&it->lock), 0);
}

/* As where a handler interrupts who has the connection. */
Test(late, what_this_thread_has_is_freed_with_the_connection)
{
	rr_test_params.turned = takes_lock;
	waits_in(RR_S_ANSWERED);
	rr_half_expire(START);
	cr_assert(rr_conn_st(&c) == RR_S_TCP && c.share == &sh && k.releases == 0 && c.lock.word && k.frees == 1);
}

Test(late, before_it_is_due_nothing_happens)
{
	waits_in(RR_S_ANSWERED);
	k.due = START + 1;
	cr_assert_eq(rr_half_expire(START), START + 1);
	cr_assert_eq(k.picked, 0);
	k.due = 0;
	cr_assert_eq(rr_half_expire(START), RR_TIME_NEVER);
	cr_assert_eq(k.picked, 0);
	k.due = START;
	k.due_then = START + 55;
	cr_assert_eq(rr_half_expire(START), START + 55);
	cr_assert_eq(k.picked, 1);
}

static void is_left_alone(void)
{
	cr_assert(k.becomes == 0 && c.share == &sh && k.releases == 0 && turns == 0 && c.refs == 1 && !c.lock.word);
}

Test(late, what_has_been_taken_up_or_is_something_else_is_left_alone)
{
	rr_test_params.turned = turned;
	waits_in(RR_S_ANSWERED);
	k.not_withdrawn = true;
	rr_half_expire(START);
	is_left_alone();
	cr_assert(k.withdraws == 1 && k.frees == 1);
	for (int st = 0; st < RR_S_COUNT; st++) {
		if (st == RR_S_ANSWERED || st == RR_S_HEARD || st == RR_S_SAID)
			continue;
		waits_in((enum rr_conn_st)st);
		rr_half_expire(START);
		is_left_alone();
		cr_assert(k.withdraws == 0 && k.frees == 1);
	}
}

Test(late, one_that_is_ending_is_passed_over)
{
	waits_in(RR_S_ANSWERED);
	c.refs = 0;
	rr_half_expire(START);
	cr_assert(c.refs == 0 && k.frees == 0 && k.becomes == 0 && !c.lock.word);
}

/* The reference that was taken for a look at it is given back. */
Test(late, one_that_another_thread_has_is_let_go)
{
	waits_in(RR_S_ANSWERED);
	c.lock.word = 12345u << 10;
	k.due_then = START + 5;
	cr_assert_eq(rr_half_expire(START), START + 5);
	c.lock.word = 0;
	is_left_alone();
	cr_assert(k.frees == 1 && k.withdraws == 0);
	waits_in(RR_S_ANSWERED);
	k.pick_rc = -EAGAIN;
	rr_half_expire(START);
	is_left_alone();
	cr_assert_eq(k.frees, 0);
}

static void many(void)
{
	afresh();
	memset(others, 0, sizeof(others));
	for (int i = 0; i < 100; i++) {
		others[i].refs = 1;
		rr_conn_turn(&others[i], RR_S_ANSWERED);
		k.half[i] = &others[i];
	}
	k.halves = 100;
	k.due = k.due_then = START;
}

Test(late, no_more_than_64_in_one_look)
{
	many();
	rr_half_expire(START);
	cr_assert(k.becomes == 64 && k.frees == 64);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(rr_conn_st(&others[i]), i < 64 ? RR_S_TCP : RR_S_ANSWERED);
}

Test(late, one_that_has_been_taken_up_is_none_of_those_that_were_had)
{
	many();
	k.taken_up = 5;
	k.halves = 5;
	cr_assert(rr_conn_scarce());
	cr_assert(k.becomes == 4 && k.frees == 5);
}

Test(late, an_app_that_is_short_of_descriptors_gets_them_all)
{
	waits_in(RR_S_ANSWERED);
	errno = 77;
	k.spare_errno = 3;
	cr_assert(rr_conn_scarce());
	cr_assert(k.until == RR_TIME_NEVER - 1 && k.now_given == START && k.spared == 1 && errno == 77);
	is_turned_over(FD);
	cr_assert_not(rr_conn_scarce());
	k.spares = true;
	cr_assert(rr_conn_scarce());
	waits_in(RR_S_ANSWERED);
	k.not_withdrawn = true;
	cr_assert_not(rr_conn_scarce());
}

Test(late, who_sleeps_wakes_for_the_first_of_both)
{
	k.idle = START + 7;
	k.due = START + 9;
	cr_assert_eq(rr_conn_idle(START), START + 7);
	k.idle = START + 11;
	cr_assert_eq(rr_conn_idle(START), START + 9);
	k.due = 0;
	cr_assert_eq(rr_conn_idle(START), START + 11);
}
