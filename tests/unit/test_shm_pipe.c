/* SPDX-License-Identifier: BSD-3-Clause */
/* Doorbells through pipes: how both ends come to have them, who rings what, what still shows the end of a peer, and what
 * becomes of a peer that hands over something else. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"
#include "tests/lib/slowfd.h"

#define ops	(&rr_prov_shm)
#define ALL	(RR_EASE_ADD | RR_EASE_MOVE)

static struct shm_pair p;
static int before;
static bool no_proc, other_proc;

/* The Makefile wraps these. */
int __wrap_rr_os_open(const char *path, int flags);
int __real_rr_os_open(const char *path, int flags);

int __wrap_rr_os_open(const char *path, int flags)
{
	if (no_proc) {
		errno = ENOENT;
		return -1;
	}
	return __real_rr_os_open(other_proc ? "/dev/null" : path, flags);
}

static void meet(void)
{
	shm_pair_init(&p, 4096, 8);
	cr_assert_eq(shm_pair_connect(&p), 0);
	p.c->other_fd = p.c->ring_fd = p.s->other_fd = p.s->ring_fd = -1;
}

static void begin(void)
{
	before = open_fds();
	meet();
}

static void end(void)
{
	if (!p.c)
		return;
	shm_pair_close(&p);
	cr_expect(open_fds_get_to(before), "%d descriptors more", open_fds() - before);
}

TestSuite(shm_pipe, .init = begin, .fini = end, .timeout = 60);

static bool readable(int fd)
{
	struct pollfd w = { fd, POLLIN, 0 };

	return poll(&w, 1, 0) > 0;
}

/* It sleeps so often, each time after a message. */
static void ease(struct rr_qp *qp, uint32_t may, int n)
{
	while (n-- > 0) {
		rr_shm_of(qp)->eased_pos--;
		ops->ease(qp, may);
	}
}

/* Both ends sleep so often. */
static void sleep_often(int n, uint32_t cmay, uint32_t smay)
{
	for (int i = 0; i < n; i++) {
		ease(p.c, cmay, 1);
		ease(p.s, smay, 1);
	}
}

static void both_have_pipes(void)
{
	sleep_often(20, ALL, ALL);
	cr_assert(p.c->piped && p.s->piped && p.c->easy && p.s->easy);
}

/* The sleeper arms, and `from` sends it a message. */
static void rings(struct rr_qp *from, struct rr_qp *to)
{
	struct rr_wc wc;

	cr_assert_eq(ops->arm(to, RR_ARM_RECV), 0);
	cr_assert_not(readable(to->wake_fd));
	cr_assert_eq(ops->send_imm(from, 7, 0), 1);
	ops->kick(from);
	cr_assert(readable(to->wake_fd));
	cr_assert_eq(ops->drain(to), 0);
	cr_assert_not(readable(to->wake_fd));
	cr_assert_eq(ops->poll(to, &wc, 1), 1);
	cr_assert_eq(wc.imm, 7);
	ops->repost(to, wc.cookie);
	while (ops->poll(from, &wc, 1) > 0)
		;
}

Test(shm_pipe, ends_that_sleep_often_ring_each_other_by_pipes)
{
	int c = p.c->wake_fd, s = p.s->wake_fd;

	sleep_often(5, ALL, ALL);
	cr_assert(open_fds() == before + 2 && p.c->wake_fd == c, "brief connections have none");
	both_have_pipes();
	cr_assert(p.c->other_fd == c && p.s->other_fd == s && rr_qp_end_fd(p.c) == c);
	cr_assert_eq(open_fds(), before + 6);
	cr_assert(rr_ownfd_is(p.c->wake_fd) && rr_ownfd_is(p.c->ring_fd));
	for (int i = 0; i < 3; i++) {
		rings(p.s, p.c);
		rings(p.c, p.s);
	}
	cr_assert_not(readable(c) || readable(s), "nothing goes by the sockets");
}

/* Others keep their thread awake. */
Test(shm_pipe, who_gets_no_messages_has_none)
{
	for (int i = 0; i < 100; i++) {
		ops->ease(p.c, ALL);
		ops->ease(p.s, ALL);
	}
	cr_assert_not(p.c->piped || p.s->piped || p.c->easy || rr_shm_of(p.c)->asks);
	ease(p.s, ALL, 6);
	ease(p.c, ALL, 1);
	cr_assert(rr_shm_of(p.c)->admits);
	ease(p.s, ALL, 1);
	ops->ease(p.c, ALL);
	cr_assert_lt(p.c->ring_fd, 0, "nothing has been heard of it");
	cr_assert(readable(p.c->wake_fd));
	cr_assert_eq(ops->drain(p.c), 0);
	ops->ease(p.c, ALL);
	cr_assert_geq(p.c->ring_fd, 0);
	cr_assert_not(readable(p.c->wake_fd));
}

Test(shm_pipe, who_pauses_sleeps_often)
{
	for (int i = 0; i < 6; i++) {
		cr_assert(!p.c->piped && !p.s->piped);
		rr_os_nap(20 * RR_MSEC);	/* of a clock that ticks every 10 ms at worst */
		sleep_often(1, ALL, ALL);
		if (p.c->piped && p.s->piped)
			break;
	}
	cr_assert(p.c->piped && p.s->piped);
	cr_assert_eq(open_fds(), before + 6);
}

Test(shm_pipe, who_is_watched_keeps_its_socket_and_rings_by_the_pipe_of_the_other)
{
	int s = p.s->wake_fd;

	sleep_often(20, ALL, RR_EASE_ADD);
	cr_assert(p.c->piped && p.c->ring_fd < 0 && p.s->ring_fd >= 0);
	cr_assert(!p.s->piped && p.s->wake_fd == s);
	rings(p.s, p.c);
	rings(p.c, p.s);
}

/* Each side has taken n steps when its process forks. */
Test(shm_pipe, where_others_share_it_nothing_new_is_begun)
{
	for (int n = 0; n < 16; n++) {
		for (int side = 0; side < 2; side++) {
			struct rr_qp *forked = side ? p.c : p.s, *other = side ? p.s : p.c;
			bool piped;

			ease(p.c, ALL, 5);
			ease(p.s, ALL, 5);
			for (int i = 0; i < n; i++)
				ease(i % 2 ? p.c : p.s, ALL, 1);
			piped = forked->piped;
			ease(forked, 0, 1);
			cr_assert(forked->easy, "%d %d", n, side);
			ease(other, ALL, 80);
			ease(forked, 0, 1);
			cr_assert(forked->easy && other->easy && forked->piped == piped, "%d %d", n, side);
			rings(other, forked);
			rings(forked, other);
			end();
			begin();
		}
	}
}

Test(shm_pipe, the_end_of_a_process_shows_on_the_pipe)
{
	both_have_pipes();
	cr_assert_eq(ops->arm(p.c, RR_ARM_RECV), 0);
	ops->close(p.s);
	cr_assert(readable(p.c->wake_fd));
	cr_assert_eq(ops->drain(p.c), -ECONNRESET);
	ops->close(p.c);
	cr_assert_eq(open_fds(), before);
	shm_qp_free(p.c, &p.cp);
	shm_qp_free(p.s, &p.sp);
	p.c = NULL;
}

Test(shm_pipe, an_end_that_is_told_wakes_both)
{
	both_have_pipes();
	cr_assert_eq(ops->arm(p.c, RR_ARM_RECV), 0);
	cr_assert_eq(ops->arm(p.s, RR_ARM_RECV), 0);
	ops->disconnect(p.s);
	cr_assert(readable(p.c->wake_fd), "the peer");
	cr_assert(readable(p.s->wake_fd), "and other threads of this end");
	cr_assert_eq(ops->drain(p.c), -ECONNRESET);
}

Test(shm_pipe, who_is_roused_stays_awake)
{
	struct rr_wc wc;

	both_have_pipes();
	ops->rouse(p.c);
	for (int i = 0; i < 3; i++) {
		cr_assert(readable(p.c->wake_fd));
		cr_assert_eq(ops->drain(p.c), 0, "nobody has left");
	}
	ops->arm(p.c, RR_ARM_RECV);
	cr_assert_eq(ops->send_imm(p.s, 7, 0), 1);
	ops->kick(p.s);
	cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
	ops->repost(p.c, wc.cookie);
	ops->disconnect(p.s);
	cr_assert_eq(ops->drain(p.c), -ECONNRESET);
}

Test(shm_pipe, back_to_the_socket_for_good)
{
	int c = p.c->wake_fd;

	both_have_pipes();
	rings(p.s, p.c);
	p.c->loud = true;
	p.c->easy = false;
	ops->ease(p.c, RR_EASE_ADD);
	cr_assert(p.c->piped && !p.c->easy, "somebody sleeps on it");
	ops->ease(p.c, ALL);
	cr_assert(!p.c->piped && p.c->wake_fd == c && p.c->easy);
	ease(p.c, ALL, 100);
	cr_assert_not(p.c->piped);
	rings(p.s, p.c);
	rings(p.c, p.s);
	end();
	begin();
	p.c->loud = true;	/* from the beginning */
	sleep_often(20, ALL, ALL);
	cr_assert(!p.c->piped && p.s->piped && p.s->ring_fd < 0);
	rings(p.s, p.c);
	rings(p.c, p.s);
}

/* The peer does not sleep, or is an older one. */
Test(shm_pipe, who_gets_no_answer_gives_up)
{
	ease(p.c, ALL, 63);
	cr_assert_not(p.c->easy);
	ease(p.c, ALL, 1);
	cr_assert(p.c->easy && !p.c->piped);
	ease(p.s, ALL, 64);
	cr_assert(p.s->easy && !p.s->piped, "it does not wait for one that is not coming");
	cr_assert_eq(open_fds(), before + 2);
	rings(p.s, p.c);
	rings(p.c, p.s);
}

static struct rr_os old_os;

static int old_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	(void)fd, (void)level, (void)name, (void)val, (void)len;
	errno = ENOPROTOOPT;
	return -1;
}

/* The kernel cannot refuse descriptors. */
static void begin_anew_on_old_kernel(void)
{
	ops->close(p.c);
	ops->close(p.s);
	old_os = *rr_os;
	old_os.setsockopt = old_setsockopt;
	rr_os = &old_os;
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_assert_not(rr_shm_of(p.c)->refusing || rr_shm_of(p.s)->refusing);
}

Test(shm_pipe, where_the_kernel_cannot_refuse_descriptors)
{
	begin_anew_on_old_kernel();
	both_have_pipes();
	rings(p.s, p.c);
	rings(p.c, p.s);
}

Test(shm_pipe, without_proc_the_socket_rings)
{
	for (int i = 0; i < 2; i++) {
		no_proc = i == 0;
		other_proc = i == 1;
		sleep_often(70, ALL, ALL);
		cr_assert(p.c->easy && p.s->easy && !p.c->piped && !p.s->piped);
		cr_assert(p.c->ring_fd < 0 && p.s->ring_fd < 0);
		rings(p.s, p.c);
		rings(p.c, p.s);
		no_proc = other_proc = false;
		end();
		begin();
	}
}

/* A process may have two more descriptors, by its limit. */
Test(shm_pipe, a_process_has_only_so_many)
{
	struct rlimit was, few = { 64, 64 };

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	few.rlim_max = was.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	sleep_often(70, ALL, ALL);
	cr_assert(p.c->easy && p.s->easy);
	cr_assert(p.c->piped && p.s->ring_fd >= 0, "the client asked first");
	cr_assert(!p.s->piped && p.c->ring_fd < 0);
	rings(p.s, p.c);
	rings(p.c, p.s);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	end();
	begin();
	both_have_pipes();	/* what was counted is given back */
}

/* Of those that the process may have some are in use, here by other connections of it: it takes one sleep more for each. */
Test(shm_pipe, the_more_there_are_the_more_often_one_has_to_sleep_for_the_next)
{
	struct shm_pair first;

	both_have_pipes();
	first = p;
	meet();
	ease(p.c, ALL, 9);
	cr_assert_not(rr_shm_of(p.c)->asks, "four are in use");
	ease(p.c, ALL, 1);
	cr_assert(rr_shm_of(p.c)->asks);
	ease(p.s, ALL, 4);
	cr_assert_not(rr_shm_of(p.s)->admits, "five are in use");
	ease(p.s, ALL, 1);
	cr_assert(rr_shm_of(p.s)->admits);
	shm_pair_close(&p);
	p = first;
}

/* Sleeps that are seconds apart are not often, however many they are. */
Test(shm_pipe, after_a_long_pause_they_are_counted_anew)
{
	for (int i = 0; i < 20; i++) {
		sleep_often(3, ALL, ALL);	/* of which the first counts for three */
		rr_shm_of(p.c)->eased_at -= RR_SEC;
		rr_shm_of(p.s)->eased_at -= RR_SEC;
	}
	cr_assert_not(rr_shm_of(p.c)->asks || rr_shm_of(p.s)->asks || p.c->easy || p.s->easy);
	cr_assert_eq(open_fds(), before + 2);
	rr_shm_of(p.c)->eased_at += RR_MSEC;	/* a little less */
	ease(p.c, ALL, 1);
	cr_assert(rr_shm_of(p.c)->asks);
}

/* The client has said that its socket lets a descriptor in; the server sends this one. */
static void hands_over(int fd)
{
	ease(p.s, ALL, 6);
	ease(p.c, ALL, 1);
	cr_assert(rr_shm_of(p.c)->admits);
	cr_assert(hand_over(p.s->wake_fd, "", 1, &fd, 1));
	close(fd);
	ease(p.c, ALL, 1);
	cr_assert(!rr_shm_of(p.c)->admits && p.c->ring_fd < 0);
	cr_assert_eq(ops->drain(p.c), 0, "the connection goes on");
	rings(p.s, p.c);
}

Test(shm_pipe, what_is_no_pipe_is_not_taken)
{
	char name[] = "/tmp/rr-pipe-XXXXXX";
	int s[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	hands_over(s[0]);
	close(s[1]);
	end();
	begin();
	hands_over(open("/dev/null", O_RDWR));
	end();
	begin();
	cr_assert(mkdtemp(name));
	cr_assert_eq(chdir(name), 0);
	cr_assert_eq(mkfifo("fifo", 0666), 0);
	hands_over(open("fifo", O_RDWR));	/* its opening could wait for a file system */
	unlink("fifo");
	rmdir(name);
}

/* It has let one in, and then its process forked; or the peer took too long. */
Test(shm_pipe, what_is_not_wanted_any_more_is_not_taken)
{
	for (int i = 0; i < 8; i++) {
		bool old = i & 1, sent = i & 2;
		int more;

		if (old)
			begin_anew_on_old_kernel();
		ease(p.s, ALL, 6);
		ease(p.c, ALL, 1);
		cr_assert(rr_shm_of(p.c)->admits);
		ease(p.s, ALL, sent);
		more = open_fds();
		ease(p.c, i & 4 ? ALL : 0, i & 4 ? (sent ? 1 : 80) : 1);
		if (i == 6 || i == 7) {		/* it came in time */
			cr_assert(p.c->ring_fd >= 0, "%d", i);
			end();
			begin();
			continue;
		}
		cr_assert(p.c->easy && p.c->ring_fd < 0, "%d", i);
		cr_assert_eq(open_fds(), more);
		ease(p.s, ALL, 80);	/* where it cannot be refused, it comes now */
		cr_assert(p.s->easy && !p.s->piped, "%d", i);
		cr_assert_eq(ops->drain(p.c), 0, "the connection goes on: %d", i);
		rings(p.s, p.c);
		rings(p.c, p.s);
		end();
		begin();
	}
}

/* A bell was rung before it was sent. */
Test(shm_pipe, a_bell_may_lie_before_what_is_not_wanted_any_more)
{
	for (int i = 0; i < 4; i++) {
		struct rr_wc wc;
		int more;

		if (i & 1)
			begin_anew_on_old_kernel();
		ease(p.s, ALL, 6);
		ease(p.c, ALL, 1);
		more = open_fds();
		cr_assert_eq(ops->arm(p.c, RR_ARM_RECV), 0);
		cr_assert_eq(ops->send_imm(p.s, 7, 0), 1);
		ops->kick(p.s);
		ease(p.s, ALL, 1);
		cr_assert_eq(open_fds(), more + 1, "%d", i);
		ease(p.c, i & 2 ? ALL : 0, i & 2 ? 80 : 1);
		cr_assert(p.c->easy && p.c->ring_fd < 0, "%d", i);
		for (int n = 0; n < 3; n++)
			cr_assert_eq(ops->drain(p.c), 0, "the connection goes on: %d", i);
		cr_assert_not(readable(p.c->wake_fd) || rr_shm_of(p.c)->admits, "%d", i);
		cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
		ops->repost(p.c, wc.cookie);
		ease(p.s, ALL, 80);
		cr_assert(p.s->easy && !p.s->piped, "%d", i);
		rings(p.s, p.c);
		rings(p.c, p.s);
		end();
		begin();
	}
}

Test(shm_pipe, two_descriptors_end_the_connection)
{
	int fd[2];

	ease(p.s, ALL, 6);
	ease(p.c, ALL, 1);
	cr_assert_eq(pipe(fd), 0);
	cr_assert(hand_over(p.s->wake_fd, "", 1, fd, 2));
	close(fd[0]);
	close(fd[1]);
	ease(p.c, ALL, 1);
	cr_assert_eq(ops->drain(p.c), -ECONNRESET);
	ops->disconnect(p.c);
	ops->disconnect(p.s);
}

/* Nobody reads it. */
Test(shm_pipe, a_full_pipe_makes_nobody_wait)
{
	struct rr_wc wc;

	both_have_pipes();
	for (int i = 0; i < 6000; i++) {
		cr_assert_eq(ops->arm(p.c, RR_ARM_RECV), 0);
		cr_assert_eq(ops->send_imm(p.s, 7, 0), 1);
		ops->kick(p.s);
		cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
		ops->repost(p.c, wc.cookie);
		while (ops->poll(p.s, &wc, 1) > 0)
			;
	}
	cr_assert_eq(ops->drain(p.c), 0);
}
