/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping, dying, forking and being idle with the shm provider. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define ops (&rr_prov_shm)

static struct shm_pair p;

static void init(void)
{
	shm_pair_open(&p, 8);
}

static void fini(void)
{
	shm_pair_close(&p);
}

static bool rung(const struct rr_qp *qp)
{
	struct pollfd pfd = { .fd = qp->wake_fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

static uint64_t take(struct rr_qp *qp, uint32_t imm)
{
	struct rr_wc wc;

	cr_assert_eq(ops->poll(qp, &wc, 1), 1);
	cr_assert_eq(wc.has_imm, true);
	cr_assert_eq(wc.imm, imm);
	return wc.cookie;
}

Test(shm_wake, nobody_rings_for_a_peer_that_did_not_arm, .init = init, .fini = fini)
{
	ops->send_imm(p.c, 1, 0);
	ops->kick(p.c);
	cr_assert_eq(rung(p.s), false);
	cr_assert_eq(p.counts.v[RR_C_wakeups_sent], 0);
}

Test(shm_wake, a_send_rings_once_for_an_armed_peer, .init = init, .fini = fini)
{
	cr_assert_eq(ops->arm(p.s, RR_ARM_RECV), 0);
	ops->send_imm(p.c, 1, 0);
	cr_assert_eq(rung(p.s), false, "before kick()");
	ops->kick(p.c);
	cr_assert_eq(rung(p.s), true);
	ops->send_imm(p.c, 2, 0);
	ops->kick(p.c);
	cr_assert_eq(p.counts.v[RR_C_wakeups_sent], 1);
	cr_assert_eq(ops->drain(p.s), 0);
	cr_assert_eq(rung(p.s), false);
}

Test(shm_wake, kick_without_anything_new_is_silent, .init = init, .fini = fini)
{
	ops->send_imm(p.c, 1, 0);
	ops->kick(p.c);
	ops->repost(p.s, take(p.s, 1));
	cr_assert_eq(ops->arm(p.s, RR_ARM_RECV), 0);
	ops->kick(p.c);
	cr_assert_eq(rung(p.s), false);
}

Test(shm_wake, arming_finds_what_is_there_already, .init = init, .fini = fini)
{
	ops->send_imm(p.c, 1, 0);
	ops->kick(p.c);
	cr_assert_eq(ops->arm(p.s, RR_ARM_RECV), 1);
	ops->send_imm(p.c, 2, 0);
	ops->kick(p.c);
	cr_assert_eq(rung(p.s), false, "it is not armed");
}

Test(shm_wake, arming_in_vain_does_not_disarm_another_sleeper, .init = init, .fini = fini)
{
	for (uint32_t i = 0; i < 8; i++)
		ops->send_imm(p.s, i, 0);
	cr_assert_eq(ops->arm(p.s, RR_ARM_SEND), 0);
	ops->send_imm(p.c, 1, 0);
	cr_assert_eq(ops->arm(p.s, RR_ARM_RECV | RR_ARM_SEND), 1);
	ops->repost(p.c, take(p.c, 0));
	ops->kick(p.c);
	cr_assert_eq(rung(p.s), true);
}

Test(shm_wake, a_receive_given_back_rings_for_who_waits_to_send, .init = init, .fini = fini)
{
	cr_assert_eq(ops->arm(p.c, RR_ARM_SEND), 0, "room that is known is no news");
	ops->disarm(p.c);
	for (uint32_t i = 0; i < 8; i++)
		ops->send_imm(p.c, i, 0);
	cr_assert_eq(ops->peek(p.c, RR_ARM_SEND), false);
	cr_assert_eq(ops->arm(p.c, RR_ARM_SEND), 0);
	ops->send_imm(p.s, 1, 0);
	ops->kick(p.s);
	cr_assert_eq(rung(p.c), false, "it waits for something else");
	ops->repost(p.s, take(p.s, 0));
	ops->kick(p.s);
	cr_assert_eq(rung(p.c), true);
	cr_assert_eq(ops->peek(p.c, RR_ARM_SEND), true);
}

Test(shm_wake, after_disarm_nobody_rings, .init = init, .fini = fini)
{
	cr_assert_eq(ops->arm(p.s, RR_ARM_RECV), 0);
	ops->disarm(p.s);
	ops->send_imm(p.c, 1, 0);
	ops->kick(p.c);
	cr_assert_eq(rung(p.s), false);
}

Test(shm_wake, a_full_socket_blocks_nobody, .init = init, .fini = fini)
{
	for (int i = 0; i < 5000; i++) {
		cr_assert_eq(ops->arm(p.s, RR_ARM_RECV), 0);
		ops->send_imm(p.c, 1, 0);
		ops->kick(p.c);
		ops->repost(p.s, take(p.s, 1));
	}
	for (int i = 0; i < 1000 && rung(p.s); i++)
		cr_assert_eq(ops->drain(p.s), 0);
	cr_assert_eq(rung(p.s), false);
}

Test(shm_wake, descriptors_sent_with_a_bell_are_not_taken, .init = init, .fini = fini)
{
	union { struct cmsghdr a; char room[CMSG_SPACE(sizeof(int))]; } ctl = { .room = "" };
	struct iovec iov = { "", 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = &ctl, .msg_controllen = sizeof(ctl) };
	int fds = open_fds(), yes = 1;

	/* Else the kernel may see to it. */
	setsockopt(p.s->wake_fd, SOL_SOCKET, SO_PASSRIGHTS, &yes, sizeof(yes));
	rr_shm_of(p.s)->refusing = rr_shm_of(p.s)->plain = false;
	CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
	CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
	CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
	cr_assert_eq(sendmsg(p.c->wake_fd, &m, 0), 1);
	cr_assert_eq(ops->drain(p.s), -ECONNRESET);
	for (int i = 0; i < 2000 && open_fds() != fds; i++)
		usleep(1000);
	cr_assert_eq(open_fds(), fds);
}

/* --- death --- */

/* Runs body in a child that alone has the server's end. */
static pid_t serve(void (*body)(void))
{
	int fd = p.s->wake_fd;
	pid_t pid = fork();

	if (pid == 0) {
		close(p.c->wake_fd);
		body();
		_exit(0);
	}
	close(fd);
	return pid;
}

static void wait_gone(void)
{
	struct pollfd pfd = { .fd = p.c->wake_fd, .events = POLLIN };

	cr_assert_eq(poll(&pfd, 1, 50000), 1);
	cr_assert_eq(ops->drain(p.c), -ECONNRESET);
}

static void end_client(void)
{
	ops->close(p.c);
}

static void send_three_and_die(void)
{
	struct rr_seg seg;
	struct iovec iov = { &seg, sizeof(seg) };

	memcpy(p.s->mem + 100, "left behind", 12);
	ops->expose(p.s, p.s->mem + 100, 12, RR_RIGHT_READ, &seg);
	ops->send_imm(p.s, 1, 0);
	ops->send(p.s, &iov, 1, 0, 0);
	ops->send_imm(p.s, 3, 0);
	kill(getpid(), SIGKILL);
}

Test(shm_death, what_was_posted_outlives_its_poster, .init = init, .fini = end_client)
{
	struct rr_wc wc[3];
	struct rr_seg seg;
	char got[12];

	waitpid(serve(send_three_and_die), NULL, 0);
	wait_gone();
	cr_assert_eq(ops->peek(p.c, RR_ARM_RECV), true);
	cr_assert_eq(ops->poll(p.c, wc, 2), 2);
	memcpy(&seg, wc[1].buf, sizeof(seg));
	cr_assert_eq(ops->read(p.c, got, 12, &seg, 0, 0), 1);
	cr_assert_str_eq(got, "left behind");
	cr_assert_eq(ops->poll(p.c, wc, 2), 1);
	cr_assert_eq(wc[0].imm, 3);
	cr_assert_eq(ops->poll(p.c, wc, 2), -ECONNRESET);
	cr_assert_eq(ops->poll(p.c, wc, 2), -ECONNRESET);
	cr_assert_eq(ops->read(p.c, got, 12, &seg, 0, 0), 1, "even now");
}

static void die(void)
{
	kill(getpid(), SIGKILL);
}

Test(shm_death, sends_to_the_dead_fail, .init = init, .fini = end_client)
{
	struct rr_wc wc;

	waitpid(serve(die), NULL, 0);
	cr_assert_eq(ops->send_imm(p.c, 1, 0), 1, "nobody knows yet");
	ops->kick(p.c);
	wait_gone();
	cr_assert_eq(ops->send_imm(p.c, 1, 0), -ECONNRESET);
	cr_assert_eq(ops->window(p.c), 0);
	cr_assert_eq(ops->arm(p.c, RR_ARM_RECV), 1);
	cr_assert_eq(ops->poll(p.c, &wc, 1), -ECONNRESET);
}

static void chatter(void)
{
	struct rr_wc wc;

	for (;;) {
		ops->send_imm(p.s, 7, 0);
		ops->kick(p.s);
		if (ops->poll(p.s, &wc, 1) == 1)
			ops->repost(p.s, wc.cookie);
		ops->kick(p.s);
	}
}

Test(shm_death, a_peer_killed_at_any_moment_is_seen_as_reset, .timeout = 60)
{
	int fds = open_fds();

	srand(7);
	for (int round = 0; round < 40; round++) {
		struct rr_wc wc;
		pid_t pid;
		int rc;

		shm_pair_open(&p, 8);
		pid = serve(chatter);
		for (int i = rand() % 3000; i > 0; i--) {
			ops->send_imm(p.c, 9, 0);
			if (ops->poll(p.c, &wc, 1) == 1)
				ops->repost(p.c, wc.cookie);
			ops->kick(p.c);
		}
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		wait_gone();
		while ((rc = ops->poll(p.c, &wc, 1)) == 1) {
			cr_assert_eq(wc.imm, 7);
			ops->repost(p.c, wc.cookie);
		}
		cr_assert_eq(rc, -ECONNRESET);
		ops->close(p.c);
		p.s->wake_fd = -1;	/* closed by serve() */
		ops->close(p.s);
		cr_assert_eq(open_fds(), fds);
	}
}

/* --- fork --- */

Test(shm_fork, a_connection_is_used_by_the_parent_then_by_its_child, .init = init,
     .fini = fini)
{
	int st;

	ops->send_imm(p.c, 1, 0);
	ops->send_imm(p.c, 2, 0);
	ops->repost(p.s, take(p.s, 1));
	cr_assert_eq(ops->arm(p.c, RR_ARM_RECV), 0);
	if (fork() == 0) {
		ops->repost(p.s, take(p.s, 2));
		ops->send_imm(p.s, 20, 0);
		ops->kick(p.s);
		ops->close(p.s);
		ops->close(p.c);
		_exit(0);
	}
	wait(&st);
	cr_assert_eq(st, 0);
	cr_assert_eq(rung(p.c), true);
	cr_assert_eq(ops->drain(p.c), 0, "the child's close ended nothing");
	ops->repost(p.c, take(p.c, 20));
	ops->send_imm(p.s, 21, 0);
	ops->repost(p.c, take(p.c, 21));
	ops->send_imm(p.c, 3, 0);
	ops->repost(p.s, take(p.s, 3));
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(ops->send_imm(p.c, i, 0), 1);
	cr_assert_eq(ops->window(p.c), 0);
}

Test(shm_fork, a_child_that_gives_up_an_attempt_leaves_the_parents_alone)
{
	char dir[] = "/tmp/rr-shm-XXXXXX";
	int st;

	cr_assert(mkdtemp(dir));
	shm_pair_init(&p, 4096, 8);
	p.cp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	if (fork() == 0) {
		ops->close(p.c);
		_exit(0);
	}
	wait(&st);
	cr_assert_eq(rmdir(dir), -1, "the file is still there");
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(ops->establish(p.s), 0);
	shm_pair_close(&p);
	cr_assert_eq(rmdir(dir), 0);
}

/* --- idle --- */

static size_t resident(const struct rr_qp *qp)
{
	static unsigned char page[1 << 16];
	const struct rr_shm *q = container_of(qp, struct rr_shm, qp);
	size_t n = 0, pages = q->own.geo.total / RR_PAGE;

	cr_assert_leq(pages, sizeof(page));
	cr_assert_eq(mincore(q->own.berth.at, q->own.geo.total, page), 0);
	for (size_t i = 0; i < pages; i++)
		n += page[i] & 1;
	return n * RR_PAGE;
}

static bool none_used(void *ctx, size_t off, size_t len)
{
	(void)ctx;
	(void)off;
	(void)len;
	return false;
}

static bool one_page_used(void *ctx, size_t off, size_t len)
{
	(void)ctx;
	return off <= 200 * RR_PAGE && 200 * RR_PAGE < off + len;
}

static void traffic(int n)
{
	static uint8_t big[4096];
	struct iovec iov = { big, sizeof(big) };
	struct rr_seg seg;
	struct rr_wc wc;

	for (int i = 0; i < n; i++) {
		struct rr_qp *a = i & 1 ? p.c : p.s, *b = i & 1 ? p.s : p.c;

		cr_assert_eq(ops->expose(a, a->mem, 1 << 20, RR_RIGHT_WRITE, &seg), 0);
		cr_assert_eq(ops->write(b, big, 4096, &seg, (uint32_t)(i % 200) * 4096, 0), 1);
		cr_assert_eq(ops->invalidate(a, seg.handle, 0), 1);
		cr_assert_eq(ops->send(a, &iov, 1, 0, 0), 1);
		cr_assert_eq(ops->poll(b, &wc, 1), 1);
		ops->repost(b, wc.cookie);
	}
}

Test(shm_trim, untouched_memory_costs_nothing, .init = init, .fini = fini)
{
	cr_assert_leq(resident(p.c) + resident(p.s), 2 * RR_PAGE);
}

/* Most connections are short: each page that is touched costs them a fault. */
Test(shm_trim, the_first_short_messages_lie_beside_the_control_words, .init = init, .fini = fini)
{
	struct iovec iov = { "short", 5 };
	struct rr_wc wc;

	for (int i = 0; i < 8; i++) {
		struct rr_qp *a = i & 1 ? p.c : p.s, *b = i & 1 ? p.s : p.c;

		cr_assert_eq(ops->send(a, &iov, 1, 0, 0), 1);
		cr_assert_eq(ops->poll(b, &wc, 1), 1);
		ops->repost(b, wc.cookie);
	}
	cr_assert_eq(resident(p.c), RR_PAGE);
	cr_assert_eq(resident(p.s), RR_PAGE);
	ops->trim(p.c, none_used, NULL);
	ops->trim(p.s, none_used, NULL);
	cr_assert_eq(resident(p.c) + resident(p.s), 2 * RR_PAGE);
	cr_assert_eq(ops->send(p.c, &iov, 1, 0, 0), 1);
	cr_assert(ops->poll(p.s, &wc, 1) == 1 && !memcmp(wc.buf, "short", 5));
}

/* Keys that were in use and are no more. */
Test(shm_trim, the_tables_of_keys_are_freed, .init = init, .fini = fini)
{
	struct rr_seg seg[200];

	for (int i = 0; i < 200; i++)
		cr_assert_eq(ops->expose(p.c, p.c->mem, 64, RR_RIGHT_READ, &seg[i]), 0);
	for (int i = 1; i < 200; i++)
		cr_assert_eq(ops->invalidate(p.c, seg[i].handle, 0), 1);
	cr_assert_eq(resident(p.c), 3 * RR_PAGE);
	ops->trim(p.c, none_used, NULL);
	cr_assert_eq(resident(p.c), 3 * RR_PAGE, "one is out");
	cr_assert_eq(ops->invalidate(p.c, seg[0].handle, 0), 1);
	ops->trim(p.c, none_used, NULL);
	cr_assert_eq(resident(p.c), RR_PAGE);
}

Test(shm_trim, an_idle_connection_keeps_two_pages_per_side, .init = init, .fini = fini)
{
	struct rr_wc wc;

	for (int round = 0; round < 3; round++) {
		traffic(500);
		cr_assert_geq(resident(p.c), 400000);
		ops->trim(p.c, none_used, NULL);
		ops->trim(p.s, none_used, NULL);
		cr_assert_eq(ops->poll(p.c, &wc, 1), 0);
		cr_assert_eq(ops->poll(p.s, &wc, 1), 0);
		cr_assert_leq(resident(p.c), 2 * RR_PAGE);
		cr_assert_leq(resident(p.s), 2 * RR_PAGE);
		cr_assert_eq(ops->window(p.c), 8);
	}
}

Test(shm_trim, memory_in_use_stays, .init = init, .fini = fini)
{
	memset(p.c->mem, 0x55, p.c->mem_size);
	ops->trim(p.c, one_page_used, NULL);
	for (size_t i = 0; i < RR_PAGE; i++)
		cr_assert_eq(p.c->mem[200 * RR_PAGE + i], 0x55);
	cr_assert_eq(p.c->mem[199 * RR_PAGE], 0);
	cr_assert_eq(p.c->mem[201 * RR_PAGE], 0);
	cr_assert_eq(p.c->mem[0], 0);
}

Test(shm_trim, messages_under_way_or_held_survive, .init = init, .fini = fini)
{
	struct rr_wc wc;

	traffic(100);
	ops->send(p.c, &(struct iovec){ "under way", 10 }, 1, 0, 0);
	ops->trim(p.c, none_used, NULL);
	ops->trim(p.s, none_used, NULL);
	cr_assert_eq(ops->poll(p.s, &wc, 1), 1);
	ops->trim(p.c, none_used, NULL);
	cr_assert_str_eq((const char *)wc.buf, "under way");
	ops->repost(p.s, wc.cookie);
	traffic(100);
}
