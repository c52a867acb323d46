/* SPDX-License-Identifier: BSD-3-Clause */
/* An answering side that has waited for long enough, and an offering side that comes late: either both have a connection,
 * or neither has, at whatever step the one meets the other. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)

static struct shm_pair p;
static struct rr_os os;
static int fds;

/* So few that a test can use them up, ours among them, which lie in the upper half. */
static void limit_descriptors(void)
{
	struct rlimit rl;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &rl), 0);
	rl.rlim_cur = 512;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &rl), 0);
}

static void init(void)
{
	limit_descriptors();
	shm_pair_init(&p, 4096, 8);
	os = *rr_os;
	rr_os = &os;
	fds = open_fds();
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
}

static void fini(void)
{
	shm_pair_close(&p);
	cr_assert_eq(open_fds(), fds, "a descriptor leaked");
}

TestSuite(shm_withdraw, .init = init, .fini = fini);

/* As core/conn does: what was withdrawn is closed. */
static int withdraws(void)
{
	int rc = ops->withdraw(p.s);

	if (!rc) {
		ops->close(p.s);
		memset(p.s, 0, ops->qp_size(&p.sp));
	}
	return rc;
}

static void delivers(struct rr_qp *from, struct rr_qp *to)
{
	struct iovec iov = { (void *)(uintptr_t)"0123456789abcdef", 16 };
	struct rr_wc wc;

	cr_assert_eq(ops->send(from, &iov, 1, 0, 0), 1);
	cr_assert_eq(ops->poll(to, &wc, 1), 1);
	cr_assert_eq(wc.len, 16);
	ops->repost(to, wc.cookie);
}

Test(shm_withdraw, before_anybody_has_come_ends_it)
{
	cr_assert_eq(withdraws(), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), -ECANCELED);
	cr_assert_eq(p.c->wake_fd, -1);
}

Test(shm_withdraw, after_the_other_has_joined_comes_too_late)
{
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(withdraws(), -EAGAIN);
	cr_assert_eq(ops->establish(p.s), 0);
	delivers(p.c, p.s);
	delivers(p.s, p.c);
	cr_assert_eq(withdraws(), -EAGAIN, "it is established");
}

static int (*after_hello)(void);
static int withdrawn;

/* The first packet of the offering side is out; it has yet to say that it has joined. */
static ssize_t send_and(int fd, const struct msghdr *m, int flags)
{
	ssize_t n = sendmsg(fd, m, flags);

	withdrawn = after_hello();
	return n;
}

Test(shm_withdraw, between_the_others_hello_and_its_last_step_ends_it)
{
	after_hello = withdraws;
	os.sendmsg = send_and;
	cr_assert_eq(ops->join(p.c, &p.answer), -ECANCELED);
	cr_assert_eq(withdrawn, 0);
	cr_assert_eq(p.c->wake_fd, -1);
}

static int establishes(void)
{
	return ops->establish(p.s);
}

Test(shm_withdraw, is_not_for_what_was_established_before_the_others_last_step)
{
	after_hello = establishes;
	os.sendmsg = send_and;
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(withdrawn, 0);
	delivers(p.c, p.s);
	cr_assert_eq(withdraws(), -EAGAIN);
}

/* The word is one that the peer can write: it harms itself. */
Test(shm_withdraw, does_not_wait_for_who_only_says_that_it_has_joined)
{
	struct rr_shm *q = rr_shm_of(p.s);

	atomic_store(&q->own.ctl->joined, RR_SHM_JOINED);
	cr_assert_eq(withdraws(), 0);
}

Test(shm_withdraw, does_not_wait_for_nonsense)
{
	struct rr_shm *q = rr_shm_of(p.s);

	atomic_store(&q->own.ctl->joined, 0xdeadbeef);
	cr_assert_eq(withdraws(), 0);
}

/* A forked child, or a thread that sleeps for it, has the socket too. */
Test(shm_withdraw, is_heard_though_another_has_the_socket)
{
	int other = dup(p.s->wake_fd);
	char byte;

	cr_assert_eq(withdraws(), 0);
	cr_assert_eq(recv(other, &byte, 1, MSG_DONTWAIT), 0, "it is an end for who sleeps there");
	cr_assert_eq(ops->join(p.c, &p.answer), -ECANCELED);
	close(other);
}

/* --- descriptors --- */

/* Answers to many, none of whom comes: the answering process has one for each of them, and one place. */
Test(shm_withdraw, an_answer_costs_one_descriptor)
{
	enum { N = 20 };
	struct rr_qp *c[N], *s[N];
	struct rr_prov_addr offer[N];
	int before;

	for (int i = 0; i < N; i++) {
		c[i] = shm_qp_new(&p.cp);
		s[i] = shm_qp_new(&p.sp);
		cr_assert_eq(ops->prepare(c[i], &p.cp, &offer[i]), 0);
	}
	before = open_fds();
	for (int i = 0; i < N; i++)
		cr_assert_eq(ops->answer(s[i], &p.sp, &offer[i], &p.answer), 0);
	cr_assert_eq(open_fds(), before + N);	/* the place is there already, for p */
	for (int i = 0; i < N; i++) {
		cr_assert_eq(ops->join(c[i], &p.answer), 0);
		cr_assert_eq(ops->establish(s[i]), 0);
		ops->close(c[i]);
		ops->close(s[i]);
		shm_qp_free(c[i], &p.cp);
		shm_qp_free(s[i], &p.sp);
	}
	cr_assert_eq(withdraws(), 0);
	cr_assert_eq(open_fds(), fds + 1, "the offering side's listener");
}

/* The one place serves all that come, though the app has used up everything else. */
Test(shm_withdraw, descriptors_that_run_out_after_many_answers_do_not_matter)
{
	enum { N = 8 };
	struct shm_pair q[N];
	int n = 0, taken[512];

	for (int i = 0; i < N; i++) {
		shm_pair_init(&q[i], 4096, 8);
		rr_os = &os;
		cr_assert_eq(ops->prepare(q[i].c, &q[i].cp, &q[i].offer), 0);
		cr_assert_eq(ops->answer(q[i].s, &q[i].sp, &q[i].offer, &q[i].answer), 0);
		cr_assert_eq(ops->join(q[i].c, &q[i].answer), 0);
	}
	while (n < 512 && (taken[n] = dup(0)) >= 0)
		n++;
	cr_assert_eq(dup(0), -1);
	for (int i = 0; i < N; i++)
		cr_assert_eq(ops->establish(q[i].s), 0, "%d", i);
	for (int i = 0; i < n; i++)
		close(taken[i]);
	for (int i = 0; i < N; i++)
		shm_pair_close(&q[i]);
}
