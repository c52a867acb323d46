/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits where of some connections the kernel has the first word: who looks for sleepers finds them, and nobody else. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/conn/conn.h"
#include "core/base/compiler.h"
#include "core/conn/base/base.h"
#include "tests/unit/conn_pair.h"

enum { WAITS = 32 };	/* that are counted at a time */

static struct rr_conn *fresh(void)
{
	struct rr_conn *c = rr_slab_get(true, 3);

	cr_assert_not_null(c);
	rr_conn_turn(c, RR_S_NEW);
	return c;
}

Test(conn_plainwait, who_sleeps_is_found_until_it_leaves)
{
	struct rr_conn *c[200];
	struct rr_plainwait *w = NULL;

	for (int i = 0; i < 200; i++)
		c[i] = fresh();
	for (int i = 0; i < 100; i++)
		cr_assert(rr_plainwait_add(&w, c[i]));
	cr_assert(rr_plainwait_add(&w, c[0]), "twice in an array");
	cr_assert(rr_plainwait_add(&w, c[99]), "in any order");
	cr_assert(rr_plainwait_is_sure(w));
	for (int i = 0; i < 200; i++)
		cr_assert_eq(rr_plainwait_has(c[i]), i < 100);
	for (int i = 0; i < 100; i += 2)
		rr_plainwait_leave(w, c[i]);
	for (int i = 0; i < 200; i++)
		cr_assert_eq(rr_plainwait_has(c[i]), i < 100 && i % 2);
	rr_plainwait_end(w);
	for (int i = 0; i < 200; i++)
		cr_assert(!rr_plainwait_has(c[i]));
}

Test(conn_plainwait, a_connection_that_was_asked_about_is_not_plain_until_it_was_armed, .init = setup, .fini = teardown)
{
	struct rr_conn *c = p.server.c;
	struct rr_plainwait *w = NULL;

	cr_assert(!rr_plainwait_has(c));
	cr_assert(!rr_plainwait_add(&w, c));
	cr_assert_null(w, "no wait is begun for none");
	cr_assert_eq(rr_conn_arm(c, p.server.fd, POLLIN), 0);
	rr_conn_disarm(c, p.server.fd);
	cr_assert(rr_plainwait_add(&w, c));
	rr_plainwait_end(w);
}

Test(conn_plainwait, what_else_may_have_a_word_is_not_plain)
{
	struct rr_plainwait *w = NULL;
	struct rr_conn *c = fresh();
	static const enum rr_conn_st not[] = { RR_S_FREE, RR_S_OFFERED, RR_S_ANSWERED, RR_S_CARRIED, RR_S_ASKED,
					       RR_S_HEARD, RR_S_SAID, RR_S_TCP, RR_S_LISTEN };

	for (unsigned i = 0; i < rr_array_size(not); i++) {
		rr_conn_turn(c, not[i]);
		cr_assert(!rr_plainwait_add(&w, c), "%d", not[i]);
	}
	rr_conn_turn(c, RR_S_WATCH);
	cr_assert(rr_plainwait_add(&w, c));
	rr_plainwait_end(w);
}

Test(conn_plainwait, an_upgrade_that_looks_meanwhile_makes_it_unsure_once)
{
	struct rr_conn *c = fresh(), *d = fresh();
	struct rr_plainwait *w = NULL;

	cr_assert(rr_plainwait_add(&w, c));
	rr_plainwait_has(d);
	cr_assert(rr_plainwait_add(&w, fresh()));
	cr_assert(!rr_plainwait_is_sure(w));
	cr_assert(rr_plainwait_stays(c));
	cr_assert(!rr_plainwait_stays(d));
	cr_assert(rr_plainwait_is_sure(w));
	rr_plainwait_end(w);
	/* What was looked for before a wait began does not matter to it. */
	rr_plainwait_has(d);
	w = NULL;
	cr_assert(rr_plainwait_add(&w, c));
	cr_assert(rr_plainwait_is_sure(w));
	rr_plainwait_end(w);
}

/* --- between two waits --- */

enum { FILES = 7 };	/* how often an fd has lost its file */

/* A wait on c, which is at this fd, is over; what is kept of it may be used again. */
static void waited(const struct rr_conn *c, int fd)
{
	struct rr_plainwait *w = NULL;

	cr_assert(rr_plainwait_add(&w, c));
	rr_plainwait_note(w, fd);
	cr_assert(rr_plainwait_is_sure(w));
	rr_plainwait_pause(w, FILES);
}

static struct rr_plainwait *resumed(void)
{
	uint32_t n = 0;
	struct rr_plainwait *w = rr_plainwait_resume(FILES, &n);

	cr_assert(!w || n == 1);
	return w;
}

Test(conn_plainwait, a_paused_wait_goes_on_without_a_look)
{
	struct rr_conn *c = fresh(), *d = fresh();
	struct rr_plainwait *w;

	cr_assert_null(resumed(), "there is none yet");
	waited(c, 130);
	for (int i = 0; i < 3; i++) {
		w = resumed();
		cr_assert_not_null(w);
		cr_assert(rr_plainwait_knows(w, 130));
		cr_assert(!rr_plainwait_knows(w, 129) && !rr_plainwait_knows(w, -1) && !rr_plainwait_knows(w, 1 << 20));
		cr_assert_null(resumed(), "one thread has it");
		cr_assert(rr_plainwait_is_sure(w));
		rr_plainwait_pause(w, FILES);
	}
	w = resumed();
	cr_assert(rr_plainwait_has(c));
	cr_assert(!rr_plainwait_has(d));
	cr_assert(!rr_plainwait_is_sure(w));
	rr_plainwait_end(w);
	cr_assert_null(resumed());
}

Test(conn_plainwait, nobody_sleeps_on_a_paused_one)
{
	struct rr_conn *c = fresh();

	waited(c, 3);
	cr_assert(!rr_plainwait_has(c));
	cr_assert_null(resumed(), "and who has looked may have taken it away");
}

Test(conn_plainwait, who_looks_while_a_wait_goes_on_is_seen)
{
	struct rr_conn *c = fresh();
	struct rr_plainwait *w;

	waited(c, 3);
	w = resumed();
	cr_assert(rr_plainwait_has(c));
	cr_assert(!rr_plainwait_is_sure(w));
	cr_assert(!rr_plainwait_stays(c));
	rr_plainwait_end(w);
}

Test(conn_plainwait, with_a_file_less_it_is_over)
{
	struct rr_conn *c = fresh();
	uint32_t n;

	waited(c, 3);
	cr_assert_null(rr_plainwait_resume(FILES + 1, &n));
	cr_assert_null(resumed());
	cr_assert(!rr_plainwait_has(c));
}

Test(conn_plainwait, with_a_connection_that_is_no_longer_the_kernels_it_is_over)
{
	struct rr_conn *c = fresh(), *d = fresh();

	waited(c, 3);
	rr_conn_turn(d, RR_S_WATCH);
	rr_plainwait_pause(resumed(), FILES);
	rr_conn_turn(d, RR_S_TCP);
	cr_assert_null(resumed());
}

Test(conn_plainwait, and_with_one_that_has_something_to_tell, .init = setup, .fini = teardown)
{
	int low = 2;

	waited(fresh(), 3);
	rr_conn_setopt(p.server.c, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
	cr_assert_null(resumed());
	waited(fresh(), 3);
	rr_conn_keep_error(p.server.c, EPIPE);
	cr_assert_null(resumed());
}

Test(conn_plainwait, what_is_beyond_the_table_is_not_kept)
{
	struct rr_conn *c = fresh();

	waited(c, 1 << 20);
	cr_assert_null(resumed());
	cr_assert(!rr_plainwait_has(c));
}

Test(conn_plainwait, another_wait_begins_anew)
{
	struct rr_conn *c = fresh(), *d = fresh();
	struct rr_plainwait *w = NULL;

	waited(c, 3);
	cr_assert(rr_plainwait_add(&w, d));
	cr_assert(!rr_plainwait_knows(w, 3));
	cr_assert(!rr_plainwait_has(c));
	cr_assert(rr_plainwait_has(d));
	rr_plainwait_end(w);
}

Test(conn_plainwait, each_fd_counts_once)
{
	struct rr_conn *c = fresh();
	struct rr_plainwait *w = NULL;
	uint32_t n;

	for (int i = 0; i < 6; i++) {
		cr_assert(rr_plainwait_add(&w, c));
		rr_plainwait_note(w, 60 + i % 3 * 63);
	}
	rr_plainwait_pause(w, FILES);
	w = rr_plainwait_resume(FILES, &n);
	cr_assert_not_null(w);
	cr_assert_eq(n, 3);
	rr_plainwait_end(w);
}

/* --- threads --- */

static pthread_barrier_t all_wait, all_end;
static struct rr_conn *everybodys, *its_own[WAITS];

static void *wait_with_others(void *arg)
{
	int i = (int)(intptr_t)arg;
	struct rr_plainwait *w = NULL;

	cr_assert(rr_plainwait_add(&w, everybodys));
	cr_assert(rr_plainwait_add(&w, its_own[i]));
	pthread_barrier_wait(&all_wait);
	pthread_barrier_wait(&all_end);
	rr_plainwait_end(w);
	return NULL;
}

Test(conn_plainwait, of_many_threads_some_have_to_be_counted_otherwise)
{
	struct rr_plainwait *w = NULL;
	pthread_t t[WAITS];

	everybodys = fresh();
	pthread_barrier_init(&all_wait, NULL, WAITS + 1);
	pthread_barrier_init(&all_end, NULL, WAITS + 1);
	for (int i = 0; i < WAITS; i++)
		its_own[i] = fresh();
	for (int i = 0; i < WAITS; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, wait_with_others, (void *)(intptr_t)i), 0);
	pthread_barrier_wait(&all_wait);
	cr_assert(!rr_plainwait_add(&w, everybodys));
	cr_assert(rr_plainwait_has(everybodys));
	for (int i = 0; i < WAITS; i++)
		cr_assert(rr_plainwait_has(its_own[i]), "whichever of the waits is this thread's: %d", i);
	pthread_barrier_wait(&all_end);
	for (int i = 0; i < WAITS; i++)
		pthread_join(t[i], NULL);
	cr_assert(!rr_plainwait_has(everybodys));
	for (int i = 0; i < WAITS; i++)
		cr_assert(!rr_plainwait_has(its_own[i]));
	cr_assert(rr_plainwait_add(&w, fresh()));
	rr_plainwait_end(w);
}

/* --- signal handlers --- */

static sigjmp_buf back;
static struct rr_conn *handlers;
static bool leaves;

static void on_signal(int sig RR_UNUSED)
{
	struct rr_plainwait *w = NULL;

	if (leaves)
		siglongjmp(back, 1);
	cr_assert(rr_plainwait_add(&w, handlers));
	cr_assert(rr_plainwait_has(handlers));
	rr_plainwait_end(w);
}

static void handle(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	cr_assert_eq(sigaction(SIGUSR1, &sa, NULL), 0);
}

/* Deeper than the caller, whatever is inlined. */
static RR_NOINLINE void wait_and_be_interrupted(struct rr_conn *c)
{
	struct rr_plainwait *w = NULL;
	volatile char deep[4096];

	deep[0] = 0;
	cr_assert(rr_plainwait_add(&w, c));
	raise(SIGUSR1);
	cr_assert(rr_plainwait_has(c), "%d", deep[0]);
	rr_plainwait_end(w);
}

Test(conn_plainwait, a_handlers_wait_leaves_the_one_that_it_interrupted)
{
	stack_t alt = { .ss_sp = malloc(SIGSTKSZ * 4), .ss_size = SIGSTKSZ * 4 }, none = { .ss_flags = SS_DISABLE };

	handlers = fresh();
	handle(0);
	wait_and_be_interrupted(fresh());
	handlers = fresh();
	cr_assert_eq(sigaltstack(&alt, NULL), 0);
	handle(SA_ONSTACK);
	wait_and_be_interrupted(fresh());
	cr_assert_eq(sigaltstack(&none, NULL), 0);
	free(alt.ss_sp);
}

Test(conn_plainwait, what_a_handler_left_by_siglongjmp_is_over_with_the_next_wait)
{
	struct rr_conn *volatile left = fresh();
	struct rr_plainwait *w = NULL;

	handle(0);
	leaves = true;
	for (volatile int i = 0; i < 2 * WAITS; i++)
		if (!sigsetjmp(back, 1))
			wait_and_be_interrupted(left);
		else
			atomic_store(&left->own_word, false);
	cr_assert(rr_plainwait_add(&w, fresh()));
	cr_assert(!rr_plainwait_has(left));
	rr_plainwait_end(w);
}

Test(conn_plainwait, a_forked_child_sleeps_nowhere)
{
	struct rr_conn *c = fresh();
	struct rr_plainwait *w = NULL;
	int status;
	pid_t pid;

	cr_assert(rr_plainwait_add(&w, c));
	pid = fork();
	if (pid == 0) {
		rr_conn_fork_child();
		_exit(rr_plainwait_has(c) || resumed());
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert(rr_plainwait_has(c));
	rr_plainwait_end(w);
}
