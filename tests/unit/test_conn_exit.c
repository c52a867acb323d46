/* SPDX-License-Identifier: BSD-3-Clause */
/* What exit() and daemon() do with each carried connection, in which order, and for how long: the list of connections,
 * what is waited for, clock and lock are played. */
#include <criterion/criterion.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/family/family.h"
#include "tests/unit/played_clock.h"

#define MOST	(2 * RR_SEC)
#define NAP	(RR_MSEC / 4)

static struct rr_prov_ops ops;
static struct rr_qp qp = { .ops = &ops };
static struct rr_share sh = { .qp = &qp };
static struct rr_conn c = { .share = &sh };

/* --- what is played (the Makefile wraps these) --- */

static struct {
	unsigned busy;		/* so many looks at the list find it in use */
	unsigned lists, naps, tries, frees, settles, handbacks;
	int lock_rc;		/* of another holder's lock … */
	unsigned held;		/* … for so many tries */
	uint32_t procs;
	rr_time until, settled_at, handed_at;
} k;

bool __wrap_rr_conn_each_carried(void (*fn)(struct rr_conn *, void *), void *ctx);
void __wrap_rr_os_nap(rr_time t);
int __wrap_rr_lock_try_held(struct rr_lock *l);
void __wrap_rr_conn_free(struct rr_conn *it);
uint32_t __wrap_rr_conn_procs(struct rr_share *s);
void __wrap_rr_handback_exit(struct rr_conn *it, rr_time end);
void __wrap_rr_conn_settle_until(struct rr_share *s, rr_time end);

bool __wrap_rr_conn_each_carried(void (*fn)(struct rr_conn *, void *), void *ctx)
{
	if (k.lists++ < k.busy)
		return false;
	fn(&c, ctx);
	return true;
}

void __wrap_rr_os_nap(rr_time t)
{
	cr_assert_eq(t, NAP);
	k.naps++;
	now += t;
}

/* Also where the lock is free, and this process has not taken one before. */
int __wrap_rr_lock_try_held(struct rr_lock *l)
{
	cr_assert_eq(l, &sh.lock);
	if (k.tries++ < k.held)
		return k.lock_rc;
	l->word = 1u << 10;
	return 0;
}

void __wrap_rr_conn_free(struct rr_conn *it)
{
	cr_assert_eq(it, &c);
	k.frees++;
	c.refs--;
}

uint32_t __wrap_rr_conn_procs(struct rr_share *s)
{
	cr_assert_eq(s, &sh);
	return k.procs;
}

static bool is_held(void)
{
	return sh.lock.word && c.refs == 2;
}

void __wrap_rr_handback_exit(struct rr_conn *it, rr_time end)
{
	cr_assert(it == &c && is_held() && !k.settles);
	k.handbacks++;
	k.handed_at = end;
}

void __wrap_rr_conn_settle_until(struct rr_share *s, rr_time end)
{
	cr_assert(s == &sh && is_held());
	k.settles++;
	k.settled_at = end;
}

static void afresh(void)
{
	memset(&k, 0, sizeof(k));
	k.procs = 1;
	now = START;
	c.refs = 1;
	c.lingers = false;
	ops.caps = 0;
	qp.native = false;
	sh.lock.word = 0;
	memset(sh.family, 0, sizeof(sh.family));
	sh.family[0] = getpid();
}

TestSuite(conn_exit, .init = afresh, .timeout = 60);

/* Nobody has it any more but the app. */
static bool is_let_go(void)
{
	return !sh.lock.word && c.refs == 1 && k.frees == 1;
}

static void is_settled(void)
{
	cr_assert(k.settles == 1 && k.handbacks == 0 && k.settled_at == START + MOST && is_let_go());
	afresh();
}

static void is_handed_back(unsigned settles)
{
	cr_assert(k.handbacks == 1 && k.settles == settles && k.handed_at == START + MOST && is_let_go());
	afresh();
}

static void is_left_alone(void)
{
	cr_assert(k.handbacks == 0 && k.settles == 0 && !sh.lock.word && c.refs == 1);
	afresh();
}

/* --- exit() --- */

Test(conn_exit, what_this_process_carries_is_waited_for)
{
	rr_conn_exit();
	is_settled();
	sh.family[0] = 0;
	sh.family[RR_FAMILY - 1] = getpid();
	rr_conn_exit();
	is_settled();
}

Test(conn_exit, what_another_process_carries_is_not)
{
	sh.family[0] = getpid() + 1;
	sh.hint = (uint32_t)getpid();	/* what lies behind them is no process */
	rr_conn_exit();
	cr_assert(is_let_go());
	is_left_alone();
	sh.family[0] = getpid() + 1;
	k.procs = 2;
	rr_conn_exit();
	cr_assert(is_let_go());
	is_left_alone();
}

Test(conn_exit, what_was_closed_and_lingers_is)
{
	sh.family[0] = 0;
	c.lingers = true;
	k.procs = 2;
	rr_conn_exit();
	is_settled();
}

Test(conn_exit, what_a_child_still_has_goes_back_to_tcp_first)
{
	k.procs = 2;
	rr_conn_exit();
	is_handed_back(1);
	k.procs = 2;
	ops.caps = RR_PROV_FAMILY;
	rr_conn_exit();
	is_settled();
}

/* --- daemon() --- */

Test(conn_exit, at_daemon_what_the_child_cannot_use_goes_back)
{
	rr_conn_daemon();
	is_handed_back(1);
	sh.family[0] = 0;
	rr_conn_daemon();
	cr_assert(is_let_go());
	is_left_alone();
}

Test(conn_exit, at_daemon_what_the_child_can_use_stays)
{
	ops.caps = RR_PROV_FAMILY;
	rr_conn_daemon();
	cr_assert_eq(k.tries, 0);
	is_left_alone();
	ops.caps = RR_PROV_FAMILY;
	c.lingers = true;
	rr_conn_daemon();
	is_left_alone();
}

Test(conn_exit, at_daemon_a_native_peers_is_relayed)
{
	qp.native = true;
	rr_conn_daemon();
	cr_assert_eq(k.tries, 0);
	is_left_alone();
}

Test(conn_exit, at_daemon_what_lingers_is_waited_for)
{
	for (int native = 0; native < 2; native++) {
		c.lingers = true;
		qp.native = native;
		rr_conn_daemon();
		is_settled();
		c.lingers = true;
		qp.native = native;
		sh.family[0] = 0;	/* as when it was closed */
		rr_conn_daemon();
		is_settled();
	}
}

/* --- a list or a connection that others have --- */

Test(conn_exit, a_list_in_use_is_tried_until_the_time_is_up)
{
	k.busy = 3;
	rr_conn_exit();
	cr_assert(k.lists == 4 && k.naps == 3);
	is_settled();
	k.busy = UINT32_MAX;
	rr_conn_exit();
	cr_assert(k.naps == MOST / NAP && k.lists == k.naps + 1 && now == START + MOST);
	is_left_alone();
	k.busy = 1;
	rr_conn_daemon();
	cr_assert_eq(k.naps, 1);
	is_handed_back(1);
}

Test(conn_exit, a_lock_in_use_is_tried_until_the_time_is_up)
{
	k.held = 5;
	k.lock_rc = -EBUSY;
	rr_conn_exit();
	cr_assert_eq(k.naps, 5);
	is_settled();
	k.held = UINT32_MAX;
	k.lock_rc = -EBUSY;
	rr_conn_exit();
	cr_assert(k.naps == MOST / NAP && now == START + MOST && k.frees == 1);
	is_left_alone();
	k.held = UINT32_MAX;
	k.lock_rc = -EBUSY;
	rr_conn_daemon();
	cr_assert(k.naps == MOST / NAP && k.frees == 1);
	is_left_alone();
}

Test(conn_exit, a_lock_that_this_thread_holds_is_not_waited_for)
{
	k.held = 1;
	k.lock_rc = -EDEADLK;
	rr_conn_exit();
	cr_assert(k.naps == 0 && k.tries == 1 && k.frees == 1);
	is_left_alone();
}

Test(conn_exit, one_that_is_being_freed_is_not_touched)
{
	c.refs = 0;
	rr_conn_exit();
	rr_conn_daemon();
	cr_assert(k.tries == 0 && k.frees == 0 && k.settles == 0 && k.handbacks == 0 && c.refs == 0);
}
