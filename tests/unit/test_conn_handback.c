/* SPDX-License-Identifier: BSD-3-Clause */
/* A forked child has a connection that only its parent can use: it asks for it by a message to the parent's door, and
 * the parent takes it back to TCP. The provider is that of tests/native, whose queue pairs no child can use. */
#include <errno.h>
#include <fcntl.h>

#include "core/base/os.h"
#include "core/conn/enter.h"
#include "tests/lib/no_threads.h"
#include "tests/lib/open_fds.h"
#include "tests/unit/conn_forks.h"

static struct rr_share share;
static int asked, error;

static ssize_t refuses(int fd, const struct msghdr *m, int flags)
{
	cr_assert_eq(fd, share.back.door);
	cr_assert(flags & MSG_DONTWAIT && flags & MSG_NOSIGNAL);
	(void)m;
	asked++;
	errno = error;
	return -1;
}

/* A door that is full has the message of somebody whose asking will be heard: it is asked again. */
Test(conn_handback, a_door_that_is_full_is_no_failure)
{
	struct rr_os os;

	rr_test_setup();
	os = *rr_os;
	os.sendmsg = refuses;
	rr_os = &os;
	share.back.door = 7;
	error = EAGAIN;
	cr_assert_eq(rr_handback_ask(&share, 0), 0);
	error = EPIPE;
	cr_assert_eq(rr_handback_ask(&share, 0), -EPIPE);
	cr_assert_eq(asked, 2);
}

Test(conn_handback, the_door_hears_which_connection_and_gets_the_descriptor)
{
	struct rr_share *which = NULL;
	struct iovec iov = { &which, sizeof(which) };
	union {
		struct cmsghdr hdr;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf) };
	int fd[2], pipe_fd[2], got;

	rr_test_setup();
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	cr_assert_eq(pipe(pipe_fd), 0);
	share.back.door = fd[0];
	cr_assert_eq(rr_handback_ask(&share, pipe_fd[1]), 0);
	cr_assert_eq(recvmsg(fd[1], &m, MSG_DONTWAIT), sizeof(which));
	cr_assert_eq(which, &share);
	cr_assert(CMSG_FIRSTHDR(&m) && ctl.hdr.cmsg_type == SCM_RIGHTS && ctl.hdr.cmsg_level == SOL_SOCKET);
	memcpy(&got, CMSG_DATA(&ctl.hdr), sizeof(got));
	cr_assert_eq(write(got, "x", 1), 1);
	cr_assert_eq(read(pipe_fd[0], &(char){ 0 }, 1), 1);
}

/* --- both ends in this process, the server's in a child as well --- */

static struct rr_pair p;

static bool passes(struct rr_end *from, struct rr_end *to, size_t n)
{
	return rr_end_send(from, to, out, n) == (ssize_t)n && rr_end_recv(to, from, in, n) == (ssize_t)n &&
	       !memcmp(in, out, n);
}

static void carried(void)
{
	rr_test_setup();
	rr_pair_open(&p);
	for (uint32_t i = 1; i < 4; i++) {
		cr_assert(passes(&p.client, &p.server, rr_test_call(out, i, 100, i)));
		cr_assert(passes(&p.server, &p.client, rr_test_reply(out, i, 100, i)));
	}
	cr_assert(rr_conn_is_carried(p.client.c) && rr_conn_is_carried(p.server.c));
}

TestSuite(conn_family, .init = carried, .timeout = 20);

Test(conn_family, a_child_serves_what_its_parent_keeps_too)
{
	pid_t pid = child_serves(&p.client, &p.server, 10, 20);

	calls(&p.client, 10, 20);
	cr_assert_eq(status(pid), 0);
	rr_pair_close(&p);
}

Test(conn_family, a_child_serves_what_its_parent_has_closed)
{
	pid_t pid = child_serves(&p.client, &p.server, 10, 20);

	rr_end_close(&p.server);
	calls(&p.client, 10, 20);
	cr_assert_eq(status(pid), 0);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, 1), 0, "nobody has it any more");
	rr_pair_close(&p);
}

/* Its number has become another file's, and the child goes on. */
Test(conn_family, a_child_serves_what_has_vanished_from_its_parent)
{
	pid_t pid = child_serves(&p.client, &p.server, 10, 20);

	rr_conn_vanished(p.server.c);
	calls(&p.client, 10, 20);
	cr_assert_eq(status(pid), 0);
	rr_pair_close(&p);
}

/* … though the child does not ask yet. */
Test(conn_family, what_has_vanished_goes_back_unasked)
{
	struct rr_conn *c = p.server.c;
	int fd[2], i;
	pid_t pid;

	cr_assert_eq(pipe(fd), 0);
	pid = forks(&p.client, &p.server);
	if (!pid) {
		close(fd[1]);	/* so that it ends with its parent */
		_exit(read(fd[0], &pid, 1) != 1);
	}
	atomic_fetch_add(&c->refs, 1);
	rr_conn_vanished(c);
	for (i = 0; i < 5000 && !atomic_load((_Atomic bool *)&c->share->back.tx); i++)
		rr_os_nap(RR_MSEC);
	cr_assert_lt(i, 5000);
	rr_conn_free(c);
	cr_assert_eq(write(fd[1], "x", 1), 1);
	cr_assert_eq(status(pid), 0);
	rr_pair_close(&p);
}

/* Whatever the parent's threads were doing with it: they are not there. */
Test(conn_family, a_child_has_the_connection_as_if_nobody_was_in_it)
{
	struct rr_conn *c = p.server.c;
	pid_t pid = -1;

	rr_conn_fork_prepare();
	cr_assert_eq(rr_lock_try(&c->lock), 0);
	c->half = 1;
	atomic_store(&c->sleepers, 3);
	atomic_store(&c->rest, 7);
	c->lingers = true;
	pid = fork();
	if (!pid) {
		rr_conn_fork_child();
		holds(rr_lock_try(&c->lock) == 0);
		holds(c->half == 0 && c->sleepers == 0 && c->rest == 0 && !c->lingers);
		_exit(0);
	}
	rr_conn_fork_parent();
	rr_lock_drop(&c->lock);
	c->half = 0;
	atomic_store(&c->sleepers, 0);
	atomic_store(&c->rest, 0);
	c->lingers = false;
	cr_assert_eq(status(pid), 0);
	rr_pair_close(&p);
}

/* It is known by its pid, since most processes end without closing anything. */
Test(conn_family, a_child_that_has_died_is_one_process_less)
{
	struct rr_share *sh = p.server.c->share;
	uint32_t before = rr_conn_procs(sh);
	int go[2];
	pid_t pid;

	cr_assert_eq(pipe(go), 0);
	pid = forks(&p.client, &p.server);
	if (!pid) {
		close(go[1]);
		_exit(read(go[0], &pid, 1) != 0);
	}
	cr_assert_eq(rr_conn_procs(sh), before + 1);
	close(go[1]);
	cr_assert_eq(status(pid), 0);
	cr_assert_eq(rr_conn_procs(sh), before);
	rr_pair_close(&p);
}

/* Asked for by a descriptor, which is closed when the door's thread is done with it. */
static void is_asked_for(struct rr_share *sh)
{
	struct pollfd closed;
	int fd[2];

	cr_assert_eq(pipe(fd), 0);
	cr_assert_eq(rr_handback_ask(sh, fd[1]), 0);
	close(fd[1]);
	closed = (struct pollfd){ fd[0], POLLIN, 0 };
	cr_assert_eq(poll(&closed, 1, 10000), 1);
	cr_assert_eq(closed.revents, POLLHUP);
	close(fd[0]);
}

Test(conn_family, what_goes_back_or_is_not_there_any_more_is_not_begun)
{
	struct rr_conn *c = p.server.c;
	struct rr_share *sh = c->share;
	struct rr_handback *h = &sh->back;
	uint32_t refs = atomic_load(&c->refs);
	int anchor = c->anchor;

	rr_handback_forks(c);
	share.back.door = h->door;
	rr_share_hold(sh);
	h->busy = true;
	rr_lock_drop(&sh->lock);
	is_asked_for(sh);
	cr_assert_eq(atomic_load(&c->refs), refs, "a thread is at work already");
	rr_share_hold(sh);
	h->busy = false;
	h->tx = true;
	rr_lock_drop(&sh->lock);
	is_asked_for(sh);
	cr_assert_eq(atomic_load(&c->refs), refs, "it is back");
	is_asked_for(&share);
	cr_assert_eq(atomic_load(&c->refs), refs, "nobody has that one");
	rr_share_hold(sh);
	cr_assert(!h->busy && c->anchor == anchor && rr_link_is_up(sh));
	h->tx = false;
	rr_lock_drop(&sh->lock);
	cr_assert(passes(&p.client, &p.server, rr_test_call(out, 9, 100, 1)), "it goes on");
	rr_pair_close(&p);
}

static const struct rr_prov_ops *provider;
static _Atomic unsigned settles, ended_after;

/* What the parent has posted takes its time. */
static bool takes_long(struct rr_qp *qp, rr_time most)
{
	(void)qp, (void)most;
	return ++settles > 250;
}

static void ended(struct rr_qp *qp)
{
	ended_after = settles;
	provider->close(qp);
}

/* Who waits for that lets others have the connection meanwhile: those that go through all of a process. */
static struct rr_lock *lock;
static _Atomic unsigned naps, naps_with_lock;

static int naps_here(struct pollfd *q, nfds_t n, int ms)
{
	if (ms == 10 || ms == 1) {
		int rc = rr_lock_try(lock);

		naps++;
		naps_with_lock += rc == -EDEADLK;	/* the child takes it now and then */
		if (rc == 0)
			rr_lock_drop(lock);
	}
	return poll(q, n, ms);
}

/* The peer hears from the parent by the queue pair that all that follows comes by TCP. If that is lost with the queue
 * pair, then so is the connection. */
Test(conn_family, a_parent_that_has_closed_it_stays_until_the_peer_has_been_told)
{
	static struct rr_prov_ops slow;
	static struct rr_os os;
	pid_t pid;

	provider = p.server.c->share->qp->ops;
	slow = *provider;
	slow.settle = takes_long;
	slow.close = ended;
	p.server.c->share->qp->ops = &slow;
	lock = &p.server.c->share->lock;
	pid = child_serves(&p.client, &p.server, 10, 20);
	os = *rr_os;
	os.poll = naps_here;
	rr_os = &os;
	rr_end_close(&p.server);
	calls(&p.client, 10, 20);
	cr_assert_eq(status(pid), 0);
	while (!ended_after)
		usleep(1000);
	cr_assert_gt(ended_after, 250);
	cr_assert(naps && !naps_with_lock, "%u, %u", naps, naps_with_lock);
	rr_pair_close(&p);
}

/* A child reads what its parent got: `times` the record in `out`. */
static void reads(size_t n, int times)
{
	for (int i = 0; i < times; i++) {
		memset(in, 0, n);
		holds(rr_end_recv(&p.server, NULL, in, n) == (ssize_t)n && !memcmp(in, out, n));
	}
}

/* What the parent has been sent and has not read, the child finds. */
Test(conn_family, a_child_reads_what_was_there_before)
{
	size_t n = rr_test_call(out, 10, 1000, 10);
	struct pollfd fds[2];
	rr_time until;
	pid_t pid;

	cr_assert_eq(rr_end_send(&p.client, &p.server, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_send(&p.client, &p.server, out, n), (ssize_t)n);
	for (int i = 0; i < 20000 && !(rr_end_poll(&p.server, POLLIN) & POLLIN); i++)
		;
	pid = forks(&p.client, &p.server);
	if (!pid) {
		while (!(rr_end_poll(&p.server, POLLIN) & POLLIN))
			rr_os_nap(RR_MSEC);
		until = RR_TIME_NEVER;
		holds(rr_conn_fds(p.server.c, p.server.fd, POLLIN, fds, &until) >= 1 && fds[0].fd == p.server.fd);
		holds(rr_end_try_recv(&p.server, in, 100, MSG_PEEK) == 100 && !memcmp(in, out, 100));
		holds(rr_conn_inq(p.server.c, p.server.fd) == RR_CONN_KERNEL || rr_conn_inq(p.server.c, p.server.fd) > 0);
		reads(n, 2);
		serves(&p.server, 20, 25);
		holds(rr_conn_relayed(p.server.c, p.server.fd));	/* from here on it is the kernel's */
		_exit(0);
	}
	rr_end_close(&p.server);
	calls(&p.client, 20, 25);
	cr_assert_eq(status(pid), 0);
	rr_pair_close(&p);
}

/* … though that is more than their common memory has room for: what is left follows when the child has read. */
Test(conn_family, a_child_reads_more_than_there_is_room_for)
{
	size_t n = rr_test_call(out, 10, 3 * RR_RING / 4, 10);
	pid_t pid;

	for (int i = 0; i < 3; i++)
		cr_assert_eq(rr_end_send(&p.client, &p.server, out, n), (ssize_t)n);
	while (p.server.c->share->rx.bytes < 3 * n)
		rr_end_poll(&p.server, POLLIN);
	pid = forks(&p.client, &p.server);
	if (!pid) {
		alarm(10);
		while (!(rr_end_poll(&p.server, POLLIN) & POLLIN) || rr_handback_bytes(p.server.c->share) < RR_RING)
			rr_os_nap(RR_MSEC);
		reads(n, 3);
		serves(&p.server, 20, 21);
		_exit(0);
	}
	rr_end_close(&p.server);
	calls(&p.client, 20, 21);
	cr_assert_eq(status(pid), 0);
	rr_pair_close(&p);
}

/* What it carries itself it takes back for children of its own, who ask at another door. */
Test(conn_family, a_child_has_a_door_of_its_own)
{
	pid_t pid = forks(&p.client, &p.server);
	size_t n;

	if (!pid) {
		alarm(10);
		rr_end_close(&p.server);
		rr_pair_open(&p);
		n = rr_test_call(out, 1, 10, 1);
		holds(passes(&p.client, &p.server, n));
		n = rr_test_reply(out, 1, 10, 1);
		holds(passes(&p.server, &p.client, n) && rr_conn_is_carried(p.server.c));
		pid = child_serves(&p.client, &p.server, 10, 12);
		for (uint32_t i = 10; i <= 12; i++) {
			n = rr_test_call(out, i, 100 * i, i);
			holds(rr_end_send(&p.client, NULL, out, n) == (ssize_t)n);
			n = rr_test_reply(out, i, 200 * i, i);
			holds(rr_end_recv(&p.client, NULL, in, n) == (ssize_t)n && !memcmp(in, out, n));
		}
		holds(status(pid) == 0);
		_exit(0);
	}
	cr_assert_eq(status(pid), 0);
	rr_pair_close(&p);
}

Test(conn_family, a_child_ends_its_directions)
{
	pid_t pid = forks(&p.client, &p.server);

	if (!pid) {
		holds(rr_conn_shutdown(p.server.c, p.server.fd, SHUT_RD) == 0);
		shutdown(p.server.fd, SHUT_RD);
		holds(rr_end_recv(&p.server, NULL, in, 1) == 0);
		holds(rr_conn_shutdown(p.server.c, p.server.fd, SHUT_WR) >= RR_CONN_KERNEL);
		shutdown(p.server.fd, SHUT_WR);
		_exit(0);
	}
	rr_end_close(&p.server);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, 1), 0);
	cr_assert_eq(status(pid), 0);
	rr_pair_close(&p);
}

/* What the child has passed is closed again. */
Test(conn_family, without_a_thread_the_connection_is_lost)
{
	int before, rc;
	pid_t pid;

	pid = forks(&p.client, &p.server);	/* the door has its keeper from here on */
	if (!pid)
		_exit(0);
	cr_assert_eq(status(pid), 0);
	no_threads = true;
	before = open_fds();
	pid = forks(&p.client, &p.server);
	if (!pid) {
		do
			rc = (int)rr_end_try_recv(&p.server, in, 1, 0);
		while (rc == -EAGAIN);
		_exit(-rc);
	}
	cr_assert_eq(status(pid), ECONNRESET);
	/* by the keeper, in its own time */
	for (int i = 0; i < 20000 && open_fds() > before; i++)
		usleep(1000);
	cr_assert_leq(open_fds(), before);
	rr_pair_close(&p);
}

/* An app may shut down what it does not know. */
Test(conn_family, the_thread_at_the_door_ends_with_the_door)
{
	int type, threads, i;
	socklen_t len;
	pid_t pid = forks(&p.client, &p.server);

	if (!pid)
		_exit(0);
	cr_assert_eq(status(pid), 0);
	threads = dir_entries("/proc/self/task");
	for (int fd = 3; fd < 2000; fd++) {
		len = sizeof(type);
		if (!getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_SEQPACKET)
			shutdown(fd, SHUT_RDWR);
	}
	for (i = 0; i < 5000 && dir_entries("/proc/self/task") >= threads; i++)
		rr_os_nap(RR_MSEC);
	cr_assert_lt(i, 5000, "it runs on");
	rr_pair_close(&p);
}
