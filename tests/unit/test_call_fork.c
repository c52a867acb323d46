/* SPDX-License-Identifier: BSD-3-Clause */
/* What is done around a fork, in which order, with errno as it was. All that is told of it is played. */
#include "core/base/capture.h"
#include "preload/epset.h"
#include "preload/guard.h"
#include "preload/init.h"
#include "preload/restset.h"
#include "preload/statseg.h"
#include "tests/unit/call.h"

static char done[20];

static RR_UNUSED void note(char what)
{
	size_t n = strlen(done);

	cr_assert_lt(n, sizeof(done) - 1);
	done[n] = what;
	errno = ESTALE;
}

#define rr_unmet_meet_all()		note('u')
#define rr_cap_forks()			note('c')
#define rr_ep_fork_prepare()		note('e')
#define rr_conn_fork_prepare()		note('k')
#define rr_conn_fork_parent()		note('K')
#define rr_ep_fork_parent()		note('E')
#define rr_real_fork_child()		note('r')
#define rr_init_fork_child()		note('i')
#define rr_statseg_fork_child()		note('s')
#define rr_conn_fork_child()		note('C')
#define rr_ep_fork_child()		note('p')
#define rr_restset_fork_child()		note('t')
#include "preload/process.c"
#undef rr_unmet_meet_all
#undef rr_cap_forks
#undef rr_ep_fork_prepare
#undef rr_conn_fork_prepare
#undef rr_conn_fork_parent
#undef rr_ep_fork_parent
#undef rr_real_fork_child
#undef rr_init_fork_child
#undef rr_statseg_fork_child
#undef rr_conn_fork_child
#undef rr_ep_fork_child
#undef rr_restset_fork_child

static void tell_of_fork(struct rr_conn *c, const char *when)
{
	cr_assert_eq(c, at.c);
	note(when[0]);
}

static void begin_fork(void)
{
	rr_real_bind();
	rr_process_init();
	begin_call();
	rr_fake.fork = tell_of_fork;
}

TestSuite(call_fork, .init = begin_fork, .timeout = 60);

/* Connections hear of it before the locks are taken, and again when they are. */
Test(call_fork, before_it_all_locks_are_taken_in_order)
{
	before_fork();
	cr_assert_str_eq(done, "ucnekf");
	cr_assert_eq(errno, MINE);
}

Test(call_fork, the_parent_lets_go_of_them_in_the_opposite_order)
{
	after_in_parent();
	cr_assert_str_eq(done, "KE");
	cr_assert_eq(errno, MINE);
}

/* What another thread of the parent's was doing nobody does any more. */
Test(call_fork, the_child_begins_anew)
{
	int peer, fd = tcp(&peer), ep = rr_wrap_epoll_create1(0);
	struct rr_sock *so;

	rr_fake_conn(fd, RR_FAKE_NEW);
	so = rr_fdt_sock(fd);
	rr_file_put(&so->f);
	cr_assert(rr_fdt_has(ep));
	atomic_store(&so->flags, RR_SOCK_LISTENER | RR_SOCK_ACCEPTING);
	atomic_store(&at.so->flags, RR_SOCK_ACCEPTING | RR_SOCK_EDGES);
	atomic_store(&owner, 1);
	errno = MINE;
	after_in_child();
	cr_assert_str_eq(done, "risCpt");
	cr_assert_eq(errno, MINE);
	cr_assert(so->flags == RR_SOCK_LISTENER && at.so->flags == RR_SOCK_EDGES);
	cr_assert(owner == getpid() && rr_may_track());
}

Test(call_fork, whose_call_it_is)
{
	cr_assert(rr_may_track());
	rr_guard_enter();
	cr_assert_not(rr_may_track());
	rr_guard_leave();
	/* A vfork() child has its parent's memory, but another pid. */
	atomic_store(&owner, getppid());
	cr_assert_not(rr_may_track());
	rr_process_init();
	cr_assert_eq(owner, getppid(), "they have an owner already");
	/* A constructor of another library comes before ours. */
	atomic_store(&owner, 0);
	rr_guard_enter();
	cr_assert_not(rr_may_track());
	rr_guard_leave();
	cr_assert_eq(owner, getpid());
	atomic_store(&owner, 0);
	cr_assert(rr_may_track());
	cr_assert_eq(owner, getpid());
}
