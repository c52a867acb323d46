/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LATE_PLAYED_H
#define LATE_PLAYED_H

/* For tests of bytes that are not for the app, of what is sent along with its own, and of answers that expire: the kernel, the
 * queue of answers and the clock are played. In one file of a program. */

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/tcp.h>
#include <string.h>

#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"
#include "tests/lib/connpair.h"
#include "tests/unit/played_clock.h"

enum { FD = 30 };

static struct rr_conn c;
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

static inline void begin(void)
{
	rr_test_setup();
	os = (struct rr_os){ .recv = plays_recv };
	rr_os = &os;
	afresh();
}

#endif
