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

/* Calls of getpid(), and what it says if not the truth. */
static unsigned asked;
static pid_t pid_said;

static pid_t getpid_played(void)
{
	asked++;
	return pid_said ? pid_said : getpid();
}

static pid_t the_next(void)
{
	return 0;
}

#define getpid				getpid_played
#define rr_unmet_meet_all()		note('u')
#define rr_real_bind_twice()		(rr_real.vfork = the_next)
#define rr_cap_forks()			note('c')
#define rr_ep_fork_prepare()		note('e')
#define rr_conn_fork_prepare()		note('k')
#define rr_conn_fork_parent()		note('K')
#define rr_ep_fork_parent()		note('E')
#define rr_init_fork_child()		note('i')
#define rr_statseg_fork_child()		note('s')
#define rr_conn_fork_child()		note('C')
#define rr_ep_fork_child()		note('p')
#define rr_restset_fork_child()		note('t')
#include "preload/process.c"
#undef getpid
#undef rr_unmet_meet_all
#undef rr_real_bind_twice
#undef rr_cap_forks
#undef rr_ep_fork_prepare
#undef rr_conn_fork_prepare
#undef rr_conn_fork_parent
#undef rr_ep_fork_parent
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
	cr_assert_str_eq(done, "isCpt");
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

/* --- memory that is lent --- */

/* Is the pid asked for in a call, and may it? */
static bool asks(bool may)
{
	unsigned was = asked;

	cr_assert_eq(rr_may_track(), may);
	return asked > was;
}

static void *vforks(void *arg)
{
	rr_lends();
	return arg;
}

static void *tracks(void *arg)
{
	cr_assert_not(asks(true), "its own memory is not lent");
	return arg;
}

static void in_thread(void *(*what)(void *))
{
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, what, NULL), 0);
	cr_assert_eq(pthread_join(t, NULL), 0);
}

static void begin_lending(void)
{
	begin_fork();
	for (int i = 0; i < 20; i++)
		cr_assert(rr_may_track());
	cr_assert_not(asks(true), "the pid is kept");
}

TestSuite(call_fork_lent, .init = begin_lending, .timeout = 60);

Test(call_fork_lent, until_its_thread_goes_on_the_pid_is_asked_for)
{
	cr_assert_eq(rr_lends(), the_next);
	pid_said = getppid();
	cr_assert(asks(false), "the child");
	cr_assert(asks(false));
	in_thread(tracks);
	cr_assert_eq(rr_lends(), the_next, "a child of the child");
	cr_assert(asks(false));
	pid_said = 0;
	cr_assert(asks(true), "the parent");
	cr_assert_not(asks(true));
}

Test(call_fork_lent, when_two_threads_have_lent_it_it_is_asked_for_always)
{
	rr_lends();
	in_thread(vforks);
	cr_assert(asks(true) && asks(true));
	rr_lends();
	cr_assert(asks(true) && asks(true));
	after_in_child();
	cr_assert_not(asks(true), "a fork has memory of its own");
	in_thread(vforks);
	cr_assert_not(asks(true));
	rr_lends();
	cr_assert(asks(true) && asks(true));
}

static struct { int (*fn)(void *); void *stack, *arg, *tls; int flags; pid_t *ptid, *ctid; } cloned;

static int clone_played(int (*fn)(void *), void *stack, int flags, void *arg, pid_t *ptid, void *tls, pid_t *ctid)
{
	cloned.fn = fn;
	cloned.stack = stack;
	cloned.arg = arg;
	cloned.tls = tls;
	cloned.flags = flags;
	cloned.ptid = ptid;
	cloned.ctid = ctid;
	return 77;
}

static int in_clone(void *arg RR_UNUSED)
{
	return 0;
}

Test(call_fork_lent, what_clone_makes_in_this_memory_is_asked_for_its_pid)
{
	static const int own[] = { 0, CLONE_VFORK, CLONE_FILES, CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, CLONE_THREAD };
	static const int lent[] = { CLONE_VM, CLONE_VM | CLONE_VFORK | SIGCHLD };
	pid_t one, two;
	char a, b, c;

	rr_real.clone = clone_played;
	for (size_t i = 0; i < rr_array_size(own); i++) {
		cr_assert_eq(rr_wrap_clone(in_clone, &a, own[i], &b, &one, &c, &two), 77);
		cr_assert(cloned.fn == in_clone && cloned.stack == &a && cloned.flags == own[i] && cloned.arg == &b);
		cr_assert(cloned.ptid == &one && cloned.tls == &c && cloned.ctid == &two);
		cr_assert_not(asks(true), "%zu", i);
	}
	for (size_t i = 0; i < rr_array_size(lent); i++) {
		atomic_store(&lender, NOBODY);
		rr_wrap_clone(in_clone, &a, lent[i], &b, &one, &c, &two);
		cr_assert(asks(true) && asks(true), "%zu", i);
	}
}
