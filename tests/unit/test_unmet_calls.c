/* SPDX-License-Identifier: BSD-3-Clause */
/* What the calls by their names do with a connection that has not been met, or that nobody could meet. */
#include "tests/unit/unmet_played.h"

static int pipes;

static void on_pipe(int sig RR_UNUSED)
{
	pipes++;
}

static void begin_server(void)
{
	begin(true, RR_SOCK_ACCEPTED);
}

TestSuite(unmet_calls, .init = begin_server, .timeout = 60);

static void assert_unmet(void)
{
	cr_assert(rr_unmet_is(so) && !told.made && so->f.refs == 2 && errno == ESRCH);
}

Test(unmet_calls, a_call_and_its_reply)
{
	struct iovec iov = { got, sizeof(got) };

	arrives(call, CALL);
	cr_assert_eq(rr_wrap_recv(fd, got, sizeof(got), 0), CALL);
	assert_unmet();
	cr_assert_eq(memcmp(got, call, CALL), 0);
	cr_assert_eq(rr_wrap_send(fd, reply, REPLY_LEN, 0), REPLY_LEN);
	assert_unmet();
	arrives(call, CALL);
	cr_assert_eq(rr_wrap_readv(fd, &iov, 1), CALL);
	cr_assert_eq(rr_wrap_write(fd, reply, REPLY_LEN), REPLY_LEN);
	assert_unmet();
	cr_assert(so->unmet.past.nin == 2 && so->unmet.past.nout == 2);
}

Test(unmet_calls, who_replies_to_nobody_is_told_by_a_signal_unless_it_wants_none)
{
	signal(SIGPIPE, on_pipe);
	arrives(call, CALL);
	cr_assert_eq(rr_wrap_read(fd, got, sizeof(got)), CALL);
	refusal = EPIPE;
	cr_assert_eq(rr_wrap_send(fd, reply, REPLY_LEN, MSG_NOSIGNAL), -1);
	cr_assert(errno == EPIPE && !pipes);
	cr_assert_eq(rr_wrap_send(fd, reply, REPLY_LEN, 0), -1);
	cr_assert(errno == EPIPE && pipes == 1);
	refusal = ECONNRESET;
	cr_assert_eq(rr_wrap_send(fd, reply, REPLY_LEN, 0), -1);
	cr_assert(errno == ECONNRESET && pipes == 1);
	cr_assert(rr_unmet_is(so) && so->f.refs == 2);
}

/* There is no memory for a connection. */
Test(unmet_calls, of_a_reply_that_went_in_part_it_is_told_how_much)
{
	arrives(call, CALL);
	cr_assert_eq(rr_wrap_read(fd, got, sizeof(got)), CALL);
	made = NULL;
	most = 10;
	cr_assert_eq(rr_wrap_send(fd, reply, REPLY_LEN, 0), 10);
	cr_assert(errno == ESRCH && told.made == 1 && !rr_unmet_is(so) && so->f.refs == 2);
	cr_assert_eq(recv(peer, got, sizeof(got), MSG_DONTWAIT), 10);
	/* From here on it is the kernel's. */
	most = 0;
	cr_assert_eq(rr_wrap_send(fd, reply + 10, REPLY_LEN - 10, 0), REPLY_LEN - 10);
	arrives(call, CALL);
	cr_assert_eq(rr_wrap_recv(fd, got, 4, MSG_PEEK), 4);
	cr_assert_eq(rr_wrap_recv(fd, got, sizeof(got), 0), CALL);
	cr_assert(told.made == 1 && so->f.refs == 2);
}

Test(unmet_calls, of_one_that_nobody_could_meet_all_is_the_kernels)
{
	struct iovec iov[2] = { { reply, 4 }, { reply + 4, REPLY_LEN - 4 } };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = iov, .msg_iovlen = 2 } };

	made = NULL;
	cr_assert_eq(rr_wrap_sendmmsg(fd, &m, 1, 0), 1);
	cr_assert(m.msg_len == REPLY_LEN && told.made == 1 && so->f.refs == 2);
	cr_assert_eq(recv(peer, got, sizeof(got), MSG_DONTWAIT), REPLY_LEN);
	cr_assert_eq(memcmp(got, reply, REPLY_LEN), 0);
}

static int kernel_polls;

static int counted_poll(struct pollfd *p, nfds_t n, int timeout)
{
	kernel_polls++;
	return poll(p, n, timeout);
}

static int counted_ppoll(struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *mask)
{
	kernel_polls++;
	return ppoll(p, n, ts, mask);
}

/* What the kernel reports is looked at once in a tick. */
Test(unmet_calls, a_poll_finds_what_is_there)
{
	struct pollfd p = { fd, POLLIN, 0 };

	rr_real.poll = counted_poll;
	rr_real.ppoll = counted_ppoll;
	arrives(call, CALL);
	cr_assert_eq(rr_wrap_poll(&p, 1, 1000), 1);
	cr_assert(p.revents == POLLIN && told.judged == CALL && kernel_polls > 0);
	assert_unmet();
	kernel_polls = 0;
	p.events = POLLIN | POLLRDNORM;
	p.revents = 0;
	cr_assert_eq(rr_wrap_poll(&p, 1, 1000), 1);
	cr_assert(p.revents == (POLLIN | POLLRDNORM) && !kernel_polls);
	assert_unmet();
	now++;
	p.events = POLLIN;
	cr_assert_eq(rr_wrap_poll(&p, 1, 1000), 1);
	cr_assert(p.revents == POLLIN && kernel_polls > 0);
	assert_unmet();
}

Test(unmet_calls, what_is_no_call_is_met_in_a_poll)
{
	struct pollfd p = { fd, POLLIN, 0 };

	first = 0;
	arrives(call, CALL);
	made->ready = POLLIN;
	cr_assert_eq(rr_wrap_poll(&p, 1, 1000), 1);
	cr_assert(p.revents == POLLIN && told.made == 1 && !rr_unmet_is(so) && so->f.refs == 2);
}

/* The kernel has nothing of what is carried. */
Test(unmet_calls, beside_one_that_is_carried_it_is_met_in_a_poll)
{
	int other_peer, other = tcp(&other_peer);
	struct rr_conn *c = rr_fake_conn(other, RR_FAKE_CARRIED);
	struct pollfd p[3] = { { -1, POLLIN, 0 }, { fd, POLLIN, 0 }, { other, POLLIN, 0 } };

	c->ready = POLLIN;
	cr_assert_eq(rr_wrap_poll(p, 3, 1000), 1);
	cr_assert(!p[1].revents && p[2].revents == POLLIN);
	cr_assert(told.made == 1 && !rr_unmet_is(so) && so->f.refs == 2);
	cr_assert_eq(rr_fdt_peek(other)->refs, 1);
}

Test(unmet_calls, so_is_one_at_the_number_0)
{
	int other_peer, other = tcp(&other_peer);
	struct rr_conn *c = rr_fake_conn(other, RR_FAKE_CARRIED);
	struct pollfd p[2] = { { 0, POLLIN, 0 }, { other, POLLIN, 0 } };

	cr_assert_eq(dup2(fd, 0), 0);
	rr_sock_dup(fd, 0);
	fd = 0;
	c->ready = POLLIN;
	cr_assert_eq(rr_wrap_poll(p, 2, 1000), 1);
	cr_assert(!p[0].revents && told.made == 1 && !rr_unmet_is(so) && so->f.refs == 3);
}

Test(unmet_calls, among_many_it_is_met_in_a_poll)
{
	int other_peer, other = tcp(&other_peer);
	struct rr_conn *c = rr_fake_conn(other, RR_FAKE_CARRIED);
	struct pollfd p[80];

	for (int i = 0; i < 80; i++)
		p[i] = (struct pollfd){ i == 3 ? fd : other, POLLIN, 0 };
	c->ready = POLLIN;
	cr_assert_eq(rr_wrap_poll(p, 80, 1000), 79);
	cr_assert(!p[3].revents && told.made == 1 && !rr_unmet_is(so) && so->f.refs == 2);
}

Test(unmet_calls, before_a_fork_each_is_met_and_nothing_else)
{
	int other_peer, other = tcp(&other_peer), ep = rr_wrap_epoll_create1(0);
	struct rr_conn *c = rr_fake_conn(other, RR_FAKE_CARRIED);

	cr_assert(rr_fdt_has(ep));
	rr_unmet_meet_all();
	cr_assert(told.made == 1 && rr_unmet_n == 0 && rr_file_conn(rr_fdt_peek(other)) == c);
	cr_assert(so->f.refs == 2 && rr_fdt_peek(ep)->refs == 1);
}

/* A filter allows the app's own calls alone. */
Test(unmet_calls, what_may_not_be_looked_at_is_the_kernels)
{
	arrives(call, CALL);
	refusal = EPERM;
	cr_assert_not(is_told(POLLIN));
	cr_assert(!rr_unmet_is(so) && !so->unmet.past.err && !told.made);
	refusal = 0;
	cr_assert_eq(rr_wrap_recv(fd, got, sizeof(got), 0), CALL);
	cr_assert_eq(so->f.refs, 2);
}

Test(unmet_calls, an_error_of_a_look_is_no_refusal)
{
	refusal = ECONNRESET;
	cr_assert(is_told(POLLIN));
	cr_assert(rr_unmet_is(so) && so->unmet.past.err == ECONNRESET);
	refusal = 0;
	cr_assert_eq(rr_wrap_recv(fd, got, sizeof(got), 0), -1);
	cr_assert(errno == ECONNRESET && !so->unmet.past.err && rr_unmet_is(so));
}

/* Each look says so. */
Test(unmet_calls, an_end_before_the_reply_is_known_as_often_as_it_is_told)
{
	arrives(call, CALL);
	cr_assert_eq(rr_wrap_recv(fd, got, sizeof(got), 0), CALL);
	ends();
	errno = ESRCH;
	for (int i = 0; i < 3; i++)
		cr_assert(is_told(POLLIN), "%d", i);
	cr_assert(so->unmet.ended && rr_unmet_is(so) && !told.made);
}

static int names_asked;

static int counted_getsockname(int of, struct sockaddr *addr, socklen_t *len)
{
	names_asked++;
	return getsockname(of, addr, len);
}

static int counted_getpeername(int of, struct sockaddr *addr, socklen_t *len)
{
	names_asked++;
	return getpeername(of, addr, len);
}

/* Says our own name into as much room, or the peer's. How often the kernel was asked for it. */
static int asks_name(bool of_peer, struct sockaddr_in *a, socklen_t *len)
{
	names_asked = 0;
	memset(a, 0, sizeof(*a));
	cr_assert_eq((of_peer ? rr_wrap_getpeername : rr_wrap_getsockname)(fd, (struct sockaddr *)a, len), 0);
	cr_assert_eq(*len, sizeof(*a));
	assert_unmet();
	return names_asked;
}

Test(unmet_calls, its_own_name_is_asked_for_once)
{
	struct sockaddr_in mine, a;
	static struct sockaddr_in elsewhere;
	socklen_t len = sizeof(mine), room = 8;

	rr_real.getsockname = counted_getsockname;
	rr_real.getpeername = counted_getpeername;
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&mine, &len), 0);
	for (int i = 0; i < 3; i++) {
		len = i ? 100 : sizeof(a);
		cr_assert_eq(asks_name(false, &a, &len), i == 0);
		cr_assert_eq(memcmp(&a, &mine, sizeof(a)), 0);
	}
	cr_assert_eq(asks_name(false, &a, &room), 1, "it is cut");
	cr_assert(memcmp(&a, &mine, 8) == 0 && a.sin_zero[0] == 0);
	cr_assert_eq(asks_name(false, &elsewhere, &len), 1, "the kernel knows whether it is memory");
	cr_assert_eq(asks_name(true, &a, &len), 1);
	cr_assert_eq(asks_name(true, &a, &len), 1, "the peer may be gone by now");
	len = (socklen_t)-1;
	cr_assert_eq(rr_wrap_getsockname(fd, (struct sockaddr *)&a, &len), -1, "no length");
	cr_assert_eq(errno, EINVAL);
	len = sizeof(a);
	names_asked = 1;
	so->flags |= RR_SOCK_PLAIN;
	cr_assert_eq(rr_wrap_getsockname(fd, (struct sockaddr *)&a, &len), 0);
	cr_assert_eq(names_asked, 2, "it has been disconnected");
}
