/* SPDX-License-Identifier: BSD-3-Clause */
/* Who waits until the peer has what was sent, for what, and for how long: engine, provider, threads and clock are played. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "core/base/os.h"
#include "core/base/thread.h"
#include "core/conn/carried/carried.h"
#include "tests/unit/played_clock.h"

#define BELL	77

static struct rr_prov_ops ops;
static struct rr_qp qp = { .ops = &ops, .wake_fd = BELL };
static struct rr_share sh = { .qp = &qp };
static struct rr_conn c = { .share = &sh };
static struct rr_os os;

/* --- what is played (the Makefile wraps what begins with __wrap_) --- */

static struct {
	bool shown;		/* messages in our memory have not been read */
	rr_time since;		/* since when calls have not */
	bool reclaims;		/* … of which some turn out to have been */
	bool settles;		/* what was posted has arrived */
	unsigned upto;		/* after so many looks by the driver all is read; 0: never */
	bool loses;		/* and then the link is lost */
	bool bell;
	bool fails_asleep;	/* another thread finds the connection dead during a sleep */
	bool unarmed;
	int no_thread;
	unsigned looks, reclaimed, arms, polls, drains, frees, threads, thens, settled;
	rr_time settled_for;
	int timeout;
	nfds_t asked;
	void *(*run)(void *);
} k;

bool __wrap_rr_eng_shown(const struct rr_eng *e);
rr_time __wrap_rr_eng_calls_unread(const struct rr_eng *e);
rr_time __wrap_rr_drv_progress(struct rr_share *s);
void __wrap_rr_drv_reclaim(struct rr_share *s);
void __wrap_rr_drv_drain(struct rr_share *s);
int __wrap_rr_thread(void *(*run)(void *), void *arg);
void __wrap_rr_conn_free(struct rr_conn *it);

bool __wrap_rr_eng_shown(const struct rr_eng *e)
{
	(void)e;
	return k.shown;
}

rr_time __wrap_rr_eng_calls_unread(const struct rr_eng *e)
{
	(void)e;
	return k.since;
}

rr_time __wrap_rr_drv_progress(struct rr_share *s)
{
	cr_assert_eq(s, &sh);
	now += RR_MSEC;
	if (++k.looks == k.upto) {
		k.shown = false;
		k.settles = true;
		if (k.loses)
			sh.link = RR_LINK_LOST;
	}
	return 0;
}

void __wrap_rr_drv_reclaim(struct rr_share *s)
{
	cr_assert_eq(s, &sh);
	k.reclaimed++;
	if (k.reclaims)
		k.since = 0;
}

void __wrap_rr_drv_drain(struct rr_share *s)
{
	cr_assert(s == &sh && sh.lock.word);
	k.drains++;
}

int __wrap_rr_thread(void *(*run)(void *), void *arg)
{
	cr_assert(arg == &c && c.lingers);
	if (k.no_thread)
		return k.no_thread;
	k.threads++;
	k.run = run;
	return 0;
}

void __wrap_rr_conn_free(struct rr_conn *it)
{
	cr_assert(it == &c && !sh.lock.word);
	k.frees++;
	c.refs--;
}

static bool settles(struct rr_qp *q, rr_time most)
{
	cr_assert_eq(q, &qp);
	k.settled++;
	k.settled_for = most;
	return k.settles;
}

static int arms(struct rr_qp *q, enum rr_arm what)
{
	cr_assert(q == &qp && what == RR_ARM_RECV);
	k.arms++;
	return k.unarmed ? 1 : 0;
}

static int polls(struct pollfd *p, nfds_t n, int timeout)
{
	cr_assert(p->fd == BELL && p->events == POLLIN);
	k.polls++;
	k.asked = n;
	k.timeout = timeout;
	if (k.fails_asleep)
		sh.link = RR_LINK_FAILED;
	return n && k.bell;
}

static void then(struct rr_share *s)
{
	cr_assert_eq(s, &sh);
	k.thens++;
}

static void begin(void)
{
	memset(&k, 0, sizeof(k));
	ops = (struct rr_prov_ops){ .settle = settles, .arm = arms };
	os = (struct rr_os){ .poll = polls };
	rr_os = &os;
	sh.link = RR_LINK_UP;
	sh.ep.caps = RR_CAP_RING_CREDITS;
	c.refs = 1;
	c.lingers = false;
	now = START;
}

TestSuite(settle, .init = begin, .timeout = 60);

Test(settle, what_the_peer_has_yet_to_read)
{
	cr_assert_not(rr_conn_unread(&sh));
	cr_assert_eq(k.reclaimed, 0);
	k.shown = true;
	cr_assert(rr_conn_unread(&sh));
	k.shown = false;
	k.since = now - RR_SETTLE_MOST + 1;
	cr_assert(rr_conn_unread(&sh));
	cr_assert_eq(k.reclaimed, 1);
	now++;
	cr_assert_not(rr_conn_unread(&sh), "it will not read them now");
	k.since = now;
	sh.ep.caps = 0;
	cr_assert_not(rr_conn_unread(&sh), "who shows it by a reply only is not waited for");
	cr_assert_eq(k.reclaimed, 2);
	sh.ep.caps = RR_CAP_RING_CREDITS;
	k.reclaims = true;
	cr_assert_not(rr_conn_unread(&sh));
	cr_assert_eq(k.reclaimed, 3);
}

Test(settle, at_exit_what_is_unread_is_waited_for)
{
	k.shown = true;
	k.upto = 5;
	k.bell = true;
	sh.lock.word = 1;
	rr_conn_settle_until(&sh, START + RR_SEC);
	cr_assert(k.looks == 5 && k.arms == 5 && k.polls == 5 && k.drains == 5);
	cr_assert(k.timeout == 10 && k.asked == 1);
	cr_assert(k.settled == 1 && k.settled_for == RR_SEC - 5 * RR_MSEC, "and then what was posted");
	begin();
	k.shown = k.unarmed = k.bell = true;
	rr_conn_settle_until(&sh, START + 20 * RR_MSEC);
	cr_assert(k.looks == 20 && k.arms == 20 && k.polls == 0 && k.drains == 0);
	cr_assert_eq(k.settled, 0, "the time is up");
	begin();
	k.shown = true;
	rr_conn_settle_until(&sh, START + 20 * RR_MSEC);
	cr_assert(k.polls == 20 && k.drains == 0);
	begin();
	k.shown = k.loses = true;
	k.upto = 3;
	rr_conn_settle_until(&sh, START + RR_SEC);
	cr_assert(k.looks == 3 && k.settled == 0);
	begin();
	k.shown = true;
	ops.settle = NULL;
	rr_conn_settle_until(&sh, START + RR_SEC);
	cr_assert_eq(k.looks, 0, "it outlives this process");
	sh.lock.word = 0;
}

/* It is over when the call returns, after so many looks. */
static void closes_at_once(unsigned looks)
{
	rr_conn_settle(&c, then);
	cr_assert(k.thens == 1 && k.threads == 0 && !c.lingers && c.refs == 1 && k.looks == looks, "%u", k.looks);
	begin();
}

Test(settle, close_looks_a_while_itself)
{
	k.settles = true;
	closes_at_once(1);
	k.upto = 150;
	closes_at_once(150);
	k.shown = k.settles = true;
	k.upto = 200;
	closes_at_once(200);
	/* Of a link that is gone nothing is waited for, read or not. */
	k.shown = true;
	sh.link = RR_LINK_LOST;
	closes_at_once(1);
	k.shown = k.loses = true;
	k.upto = 9;
	closes_at_once(9);
	ops.settle = NULL;
	closes_at_once(0);
	k.settles = true;
	rr_conn_settle(&c, NULL);
	cr_assert(k.thens == 0 && k.looks == 1 && k.threads == 0);
}

static void goes_on(void)
{
	rr_conn_settle(&c, then);
	cr_assert(k.threads == 1 && k.thens == 0 && k.looks == 200 && c.lingers && c.refs == 2, "a thread has it");
	k.looks = 0;
}

Test(settle, behind_close_a_thread_waits)
{
	k.bell = true;
	goes_on();
	k.upto = 4;
	k.run(&c);
	cr_assert(k.looks == 4 && k.thens == 1 && k.frees == 1 && !c.lingers && c.refs == 1);
	cr_assert(k.arms == 3 && k.polls == 3 && k.drains == 3 && k.asked == 1 && k.timeout == 10);
	begin();
	k.unarmed = true;	/* there is something already, which may be for nobody */
	goes_on();
	k.upto = 2;
	k.run(&c);
	cr_assert(k.looks == 2 && k.polls == 1 && k.asked == 0 && k.timeout == 1 && k.drains == 0 && k.frees == 1);
	begin();
	goes_on();
	now = START;
	k.run(&c);		/* the peer never reads */
	cr_assert(k.thens == 1 && k.frees == 1 && k.drains == 0);
	cr_assert_eq(now, START + RR_SETTLE_MOST);
	begin();
	k.bell = true;
	goes_on();
	sh.link = RR_LINK_FAILED;
	k.run(&c);
	cr_assert(k.looks == 1 && k.polls == 0 && k.frees == 1);
	begin();
	k.bell = k.fails_asleep = true;
	goes_on();
	k.run(&c);
	cr_assert(k.looks == 2 && k.polls == 1 && k.drains == 0, "of the dead no bell is answered");
	begin();
	rr_conn_settle(&c, NULL);
	k.upto = k.looks + 1;
	k.run(&c);
	cr_assert(k.thens == 0 && k.frees == 1);
}

Test(settle, without_a_thread_it_ends_as_it_is)
{
	k.no_thread = -EAGAIN;
	for (int i = 0; i < 100; i++) {
		closes_at_once(200);
		k.no_thread = -EAGAIN;
	}
	c.refs = 0;		/* it is being freed */
	k.no_thread = 0;
	rr_conn_settle(&c, then);
	cr_assert(k.thens == 1 && k.threads == 0 && !c.lingers && c.refs == 0);
	begin();
	goes_on();
}

Test(settle, so_many_threads_there_are_at_most)
{
	void *(*run)(void *) = NULL;

	for (int i = 0; i < 64; i++) {
		begin();
		goes_on();
		run = k.run;
	}
	begin();
	closes_at_once(200);
	k.settles = true;
	c.refs = 2;
	run(&c);
	begin();
	goes_on();
	begin();
	closes_at_once(200);
}
