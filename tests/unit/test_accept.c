/* SPDX-License-Identifier: BSD-3-Clause */
/* accept() at a listener that is known: whatever comes of it, no reference stays, and errno is the app's. */
#include <errno.h>
#include <fcntl.h>

#include "preload/epset.h"
#include "preload/guard.h"
#include "preload/sock.h"
#include "tests/lib/ready_test.h"

#define MINE 12345	/* the app's errno */

static struct rr_sock *so;
static struct rr_conn *door;	/* the listener's, by which native peers come in */
static int listener, client;

static void init(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	listener = socket(AF_INET, SOCK_STREAM, 0);
	client = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
	cr_assert_eq(connect(client, (struct sockaddr *)&a, len), 0);
	door = rr_fake_conn(listener, RR_FAKE_NEW);
	so = rr_fdt_sock(listener);
	so->flags |= RR_SOCK_LISTENER;
	rr_file_put(&so->f);
	cr_assert_eq(so->f.refs, 1);
}

TestSuite(accept, .init = init, .timeout = 60);

static int accept_one(void)
{
	errno = MINE;
	return rr_wrap_accept(listener, NULL, NULL);
}

/* The client's connection, by the kernel. */
static void assert_kernels(int fd)
{
	char c = 0;

	cr_assert_gt(fd, listener);
	cr_assert_eq(errno, MINE);
	cr_assert_eq(so->f.refs, 1);
	cr_assert_eq(write(client, "x", 1), 1);
	cr_assert_eq(read(fd, &c, 1), 1);
	cr_assert_eq(c, 'x');
	cr_assert(rr_fdt_has(fd), "it is known");
}

Test(accept, what_the_kernel_has_where_there_is_no_other_door)
{
	so->flags &= ~(uint32_t)RR_SOCK_LISTENER;
	assert_kernels(accept_one());
}

Test(accept, what_the_kernel_has_where_the_other_door_is_not_open)
{
	assert_kernels(accept_one());
}

Test(accept, what_the_kernel_has_where_nobody_comes_by_the_other_door)
{
	door->accepts = -EAGAIN;
	cr_assert_eq(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	assert_kernels(accept_one());
}

Test(accept, what_the_kernel_has_while_it_waits_at_both_doors)
{
	door->accepts = -EAGAIN;
	assert_kernels(accept_one());
	cr_assert_not(so->flags & RR_SOCK_ACCEPTING);
}

Test(accept, at_what_is_no_socket_of_ours_the_kernel_says)
{
	int ep = rr_wrap_epoll_create1(0);

	cr_assert(rr_fdt_has(ep));
	cr_assert_eq(rr_wrap_accept(ep, NULL, NULL), -1);
	cr_assert_eq(errno, ENOTSOCK);
}

static void assert_native(int fd)
{
	door->accepts = fd;
	cr_assert_eq(accept_one(), fd);
	cr_assert_eq(errno, MINE);
	cr_assert_eq(so->f.refs, 1);
	cr_assert(rr_fdt_has(fd));
}

Test(accept, who_comes_by_the_other_door)
{
	int peer;

	assert_native(tcp(&peer));
}

Test(accept, who_comes_by_the_other_door_has_the_number_0)
{
	int peer, fd = tcp(&peer);

	cr_assert_eq(dup2(fd, 0), 0);
	assert_native(0);
}

Test(accept, an_error_is_the_apps)
{
	door->accepts = -ECONNABORTED;
	cr_assert_eq(accept_one(), -1);
	cr_assert_eq(errno, ECONNABORTED);
	cr_assert_eq(so->f.refs, 1);
}

/* A signal handler has interrupted who has the listener's lock. */
Test(accept, who_may_not_wait_is_told_that_it_was_interrupted)
{
	door->accepts = -EDEADLK;
	cr_assert_eq(accept_one(), -1);
	cr_assert_eq(errno, EINTR);
	cr_assert_eq(so->f.refs, 1);
}

/* --- names --- */

static struct { int calls; bool peer; socklen_t len; uint16_t port; } heard;
static struct rr_conn *accepted_conn;

static void hear_name(struct rr_conn *c, bool peer, const struct sockaddr *addr, socklen_t len)
{
	cr_assert_eq(c, accepted_conn);
	heard.calls++;
	heard.peer = peer;
	heard.len = len;
	heard.port = ((const struct sockaddr_in *)(const void *)addr)->sin_port;
}

static struct rr_conn *server_conn(int fd RR_UNUSED)
{
	return accepted_conn;
}

/* A connection that belongs to no socket yet. */
static struct rr_conn *loose_conn(void)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct rr_sock *of = rr_fdt_sock(fd);

	atomic_store(&of->conn, NULL);
	rr_file_put(&of->f);
	return c;
}

static uint16_t client_port(void)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	cr_assert_eq(getsockname(client, (struct sockaddr *)&a, &len), 0);
	return a.sin_port;
}

Test(accept, the_name_that_the_kernel_tells_is_the_connections_too)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int fd;

	so->flags &= ~(uint32_t)RR_SOCK_LISTENER;
	accepted_conn = loose_conn();
	rr_fake.server = server_conn;
	rr_fake.named = hear_name;
	errno = MINE;
	fd = rr_wrap_accept(listener, (struct sockaddr *)&a, &len);
	cr_assert_geq(fd, 0);
	cr_assert_eq(errno, MINE);
	cr_assert(heard.calls == 1 && heard.peer && heard.len == sizeof(a) && heard.port == client_port());
	cr_assert_eq(a.sin_port, heard.port);
	cr_assert_eq(so->f.refs, 1);
	cr_assert_eq(rr_fdt_peek(fd)->refs, 1);
}

Test(accept, a_name_that_was_cut_is_not_told)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a) - 1;
	int fd;

	so->flags &= ~(uint32_t)RR_SOCK_LISTENER;
	accepted_conn = loose_conn();
	rr_fake.server = server_conn;
	rr_fake.named = hear_name;
	fd = rr_wrap_accept4(listener, (struct sockaddr *)&a, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert(len == sizeof(a) && heard.calls == 0);
	cr_assert(fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

static int accept_flags;

static int native_accept(struct rr_conn *l, int fd, int flags, struct rr_conn **out)
{
	cr_assert(l == door && fd == listener);
	accept_flags = flags;
	*out = accepted_conn;
	return l->accepts;
}

static bool native_name(struct rr_conn *c, bool peer, struct sockaddr *addr, socklen_t *len)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = 77 };

	cr_assert(c == accepted_conn && peer && *len >= sizeof(a));
	memcpy(addr, &a, sizeof(a));
	*len = sizeof(a);
	return true;
}

Test(accept, who_comes_by_the_other_door_has_a_name)
{
	struct sockaddr_in a = { 0 };
	socklen_t len = sizeof(a);
	int peer, fd = tcp(&peer);
	struct rr_sock *of;

	accepted_conn = loose_conn();
	rr_fake.accept = native_accept;
	rr_fake.name = native_name;
	door->accepts = fd;
	errno = MINE;
	cr_assert_eq(rr_wrap_accept4(listener, (struct sockaddr *)&a, &len, SOCK_CLOEXEC), fd);
	cr_assert_eq(errno, MINE);
	cr_assert(a.sin_port == 77 && accept_flags == SOCK_CLOEXEC);
	of = rr_fdt_sock(fd);
	cr_assert(of->conn == accepted_conn && of->flags == RR_SOCK_ACCEPTED && of->f.refs == 2);
	rr_file_put(&of->f);
	/* Flags that do not exist are the kernel's to refuse. */
	accept_flags = 0;
	cr_assert_eq(rr_wrap_accept4(listener, NULL, NULL, 1 << 30), -1);
	cr_assert_eq(errno, EINVAL);
	cr_assert_eq(accept_flags, 0);
}

Test(accept, who_wants_no_name_is_told_none)
{
	socklen_t len = 1;
	struct sockaddr_in a;
	int peer, fd = tcp(&peer);

	accepted_conn = loose_conn();
	rr_fake.accept = native_accept;
	rr_fake.name = native_name;
	door->accepts = fd;
	cr_assert_eq(rr_wrap_accept(listener, NULL, &len), fd);
	fd = tcp(&peer);
	accepted_conn = loose_conn();
	door->accepts = fd;
	cr_assert_eq(rr_wrap_accept(listener, (struct sockaddr *)&a, NULL), fd);
}

Test(accept, who_wants_no_name_of_the_kernels_is_told_none)
{
	socklen_t len = sizeof(struct sockaddr_in);

	so->flags &= ~(uint32_t)RR_SOCK_LISTENER;
	accepted_conn = loose_conn();
	rr_fake.server = server_conn;
	rr_fake.named = hear_name;
	cr_assert_geq(rr_wrap_accept(listener, NULL, &len), 0);
	cr_assert_eq(heard.calls, 0);
}

static int closed_conns, closed_fd = -1;

static void note_conns_end(struct rr_conn *c, int fd RR_UNUSED)
{
	closed_conns += c == accepted_conn;
}

static int note_close(int fd)
{
	closed_fd = fd;
	return 0;
}

/* A number at which nothing is gets no entry. What has been there was closed unseen. */
Test(accept, who_comes_by_the_other_door_and_cannot_be_entered_is_let_go)
{
	int peer, fd = tcp(&peer), wake;

	rr_fake_conn(fd, RR_FAKE_CARRIED);
	accepted_conn = loose_conn();
	wake = accepted_conn->wake;
	close(fd);
	rr_fake.accept = native_accept;
	rr_fake.close = note_conns_end;
	rr_real.close = note_close;
	door->accepts = fd;
	cr_assert_eq(accept_one(), -1);
	cr_assert_eq(errno, ENOMEM);
	cr_assert(closed_conns == 1 && closed_fd == fd && !rr_fdt_has(fd));
	cr_assert_eq(fcntl(wake, F_GETFD), -1, "the connection is freed");
}

static int accept_turned(struct rr_conn *l, int fd RR_UNUSED, int flags RR_UNUSED, struct rr_conn **out)
{
	l->face.state = RR_FAKE_TCP;
	l->face.changed = true;
	*out = accepted_conn;
	return l->accepts;
}

/* The next to come by the other door is a new edge. */
Test(accept, sets_learn_that_one_was_accepted_and_what_has_become_of_the_door)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int peer, set = rr_wrap_epoll_create1(0);
	struct rr_ep_watch *w;

	cr_assert_eq(rr_wrap_epoll_ctl(set, EPOLL_CTL_ADD, listener, &ev), 0);
	w = so->watches;
	cr_assert(w && !w->dry && w->form != RR_EP_PLAIN);
	door->accepts = -ECONNABORTED;
	cr_assert_eq(accept_one(), -1);
	cr_assert_eq(w->dry, POLLIN);
	accepted_conn = loose_conn();
	rr_fake.accept = accept_turned;
	door->accepts = tcp(&peer);
	cr_assert_eq(accept_one(), door->accepts);
	cr_assert_eq(w->form, RR_EP_PLAIN);
}

/* --- waiting --- */

static int looks_at_door, comes_at, comes_as;

static int later_accept(struct rr_conn *l RR_UNUSED, int fd RR_UNUSED, int flags RR_UNUSED, struct rr_conn **out)
{
	*out = accepted_conn;
	return ++looks_at_door < comes_at ? -EAGAIN : comes_as;
}

static void take_client(void)
{
	close(accept(listener, NULL, NULL));
}

Test(accept, who_waits_is_let_in_by_the_door_that_opens)
{
	struct later l = { .c = door, .add = POLLIN, .what = make_ready };
	int peer;

	take_client();
	accepted_conn = loose_conn();
	rr_fake.accept = later_accept;
	comes_at = 2;
	comes_as = tcp(&peer);
	door->face.state = RR_FAKE_WAITING;
	start(&l);
	cr_assert_eq(accept_one(), comes_as);
	finish(&l);
	cr_assert(errno == MINE && so->f.refs == 1 && looks_at_door == 2 && !(so->flags & RR_SOCK_ACCEPTING));
}

Test(accept, who_waits_too_long_is_told_so)
{
	struct timeval tv = { 0, 30000 };
	rr_time from = rr_now();

	take_client();
	door->accepts = -EAGAIN;
	door->face.state = RR_FAKE_WAITING;
	cr_assert_eq(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	cr_assert_eq(accept_one(), -1);
	cr_assert_eq(errno, EAGAIN);
	cr_assert_geq(rr_now() - from, 30 * RR_MSEC);
	cr_assert(so->f.refs == 1 && !(so->flags & RR_SOCK_ACCEPTING));
}

/* Another thread is at what the kernel has: this one leaves it to that. */
Test(accept, one_thread_at_a_time_takes_what_the_kernel_has)
{
	struct timeval tv = { 0, 30000 };

	door->accepts = -EAGAIN;
	door->face.state = RR_FAKE_WAITING;
	cr_assert_eq(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	atomic_fetch_or(&so->flags, RR_SOCK_ACCEPTING);
	cr_assert_eq(accept_one(), -1);
	cr_assert_eq(errno, EAGAIN);
	cr_assert(so->flags & RR_SOCK_ACCEPTING, "it is the other's to take back");
	atomic_fetch_and(&so->flags, ~(uint32_t)RR_SOCK_ACCEPTING);
	assert_kernels(accept_one());
}

static int defer_calls;

/* In the meantime another process of the family takes it. */
static bool family_takes(struct rr_conn *l)
{
	cr_assert_eq(l, door);
	defer_calls++;
	return true;
}

Test(accept, a_process_that_defers_gives_the_family_a_moment)
{
	rr_time from = rr_now();

	door->accepts = -EAGAIN;
	rr_fake.defers = family_takes;
	assert_kernels(accept_one());
	cr_assert_eq(defer_calls, 1);
	cr_assert_geq(rr_now() - from, 5 * RR_MSEC);
}

/* The Makefile wraps it. */
static int defer_naps;

void __real_rr_os_nap(rr_time t);
void __wrap_rr_os_nap(rr_time t);

void __wrap_rr_os_nap(rr_time t)
{
	defer_naps += t == 5 * RR_MSEC;
	__real_rr_os_nap(t);
}

Test(accept, who_does_not_defer_and_who_has_nothing_to_leave_to_others_does_not_nap)
{
	struct timeval tv = { 0, 1000 };

	door->accepts = -EAGAIN;
	assert_kernels(accept_one());
	cr_assert_eq(defer_naps, 0);
	door->face.state = RR_FAKE_WAITING;
	rr_fake.defers = family_takes;
	cr_assert_eq(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	cr_assert_eq(accept_one(), -1);
	cr_assert(errno == EAGAIN && defer_calls > 0 && !defer_naps);
}

Test(accept, a_connection_of_the_kernels_gets_the_number_0_while_it_waits_at_both_doors)
{
	door->accepts = -EAGAIN;
	close(0);
	cr_assert_eq(accept_one(), 0);
	cr_assert(rr_fdt_has(0));
}

/* --- too many files --- */

static int full_calls, scarce_calls;
static bool gives_back;

static int full_accept(int fd RR_UNUSED, struct sockaddr *addr RR_UNUSED, socklen_t *len RR_UNUSED)
{
	errno = full_calls++ ? ECONNABORTED : EMFILE;
	return -1;
}

static int full_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags RR_UNUSED)
{
	return full_accept(fd, addr, len);
}

static bool gives_one_back(void)
{
	scarce_calls++;
	return gives_back;
}

Test(accept, where_there_are_too_many_files_one_of_ours_is_given_back)
{
	so->flags &= ~(uint32_t)RR_SOCK_LISTENER;
	rr_fake.scarce = gives_one_back;
	rr_real.accept = full_accept;
	rr_real.accept4 = full_accept4;
	for (int four = 0; four < 2; four++) {
		gives_back = false;
		full_calls = scarce_calls = 0;
		cr_assert_eq(four ? rr_wrap_accept4(listener, NULL, NULL, 0) : accept_one(), -1);
		cr_assert(errno == EMFILE && full_calls == 1 && scarce_calls == 1);
		gives_back = true;
		full_calls = 0;
		cr_assert_eq(four ? rr_wrap_accept4(listener, NULL, NULL, 0) : accept_one(), -1);
		cr_assert(errno == ECONNABORTED && full_calls == 2 && scarce_calls == 2);
		/* Any other error has nothing to do with it. */
		cr_assert_eq(four ? rr_wrap_accept4(listener, NULL, NULL, 0) : accept_one(), -1);
		cr_assert(full_calls == 3 && scarce_calls == 2);
	}
}

/* Its listener does not block: no time-out counts, and the kernel says that there is nothing. */
Test(accept, who_does_not_wait_is_told_by_the_kernel)
{
	struct timeval tv = { 0, 1000 };

	take_client();
	door->accepts = -EAGAIN;
	door->face.state = RR_FAKE_WAITING;
	cr_assert_eq(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	cr_assert_eq(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	rr_real.accept = full_accept;
	full_calls = 1;
	cr_assert_eq(accept_one(), -1);
	cr_assert(errno == ECONNABORTED && full_calls == 2);
}

/* --- listeners that are unknown --- */

Test(accept, at_an_unknown_listener_the_kernel_says_whether_it_is_tcp)
{
	int unix_listener = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0), fd;
	struct sockaddr_un { sa_family_t family; char path[12]; } a = { AF_UNIX, "\0accepttest" };

	rr_file_put(rr_fdt_take(listener, &(bool){ false }));
	errno = MINE;
	fd = rr_wrap_accept(listener, NULL, NULL);
	cr_assert(fd >= 0 && errno == MINE && rr_fdt_has(fd));
	cr_assert_eq(bind(unix_listener, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(listen(unix_listener, 1), 0);
	cr_assert_eq(connect(c, (struct sockaddr *)&a, sizeof(a)), 0);
	fd = rr_wrap_accept(unix_listener, NULL, NULL);
	cr_assert(fd >= 0 && !rr_fdt_has(fd));
}

static int accept_unix(int fd RR_UNUSED, struct sockaddr *addr RR_UNUSED, socklen_t *len RR_UNUSED)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static int protocol_asked;

static int ask_option(int fd, int level, int name, void *val, socklen_t *len)
{
	protocol_asked += name == SO_PROTOCOL;
	return getsockopt(fd, level, name, val, len);
}

Test(accept, at_a_known_listener_nobody_is_asked_whether_it_is_tcp)
{
	so->flags &= ~(uint32_t)RR_SOCK_LISTENER;
	rr_real.getsockopt = ask_option;
	assert_kernels(accept_one());
	cr_assert_eq(protocol_asked, 0);
}

/* What had its number was closed unseen. */
Test(accept, what_is_not_tcp_is_not_what_had_its_number_before)
{
	int peer, fd, unknown = socket(AF_UNIX, SOCK_STREAM, 0);

	fd = tcp(&peer);
	rr_fake_conn(fd, RR_FAKE_CARRIED);
	close(fd);
	cr_assert(rr_fdt_has(fd));
	rr_real.accept = accept_unix;
	cr_assert_eq(rr_wrap_accept(unknown, NULL, NULL), fd);
	cr_assert_not(rr_fdt_has(fd));
}

Test(accept, a_connection_that_gets_the_number_0_has_its_name_too)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	so->flags &= ~(uint32_t)RR_SOCK_LISTENER;
	accepted_conn = loose_conn();
	rr_fake.server = server_conn;
	rr_fake.named = hear_name;
	close(0);
	cr_assert_eq(rr_wrap_accept(listener, (struct sockaddr *)&a, &len), 0);
	cr_assert(rr_fdt_has(0) && heard.calls == 1);
}

Test(accept, a_plugin_that_has_too_many_files_gets_none_of_ours)
{
	so->flags &= ~(uint32_t)RR_SOCK_LISTENER;
	rr_fake.scarce = gives_one_back;
	rr_real.accept = full_accept;
	gives_back = true;
	rr_guard_enter();
	cr_assert_eq(accept_one(), -1);
	rr_guard_leave();
	cr_assert(errno == EMFILE && scarce_calls == 0 && full_calls == 1);
}

Test(accept, what_a_plugin_accepts_is_its_own)
{
	int fd;

	so->flags &= ~(uint32_t)RR_SOCK_LISTENER;
	rr_guard_enter();
	fd = accept_one();
	rr_guard_leave();
	cr_assert_gt(fd, listener);
	cr_assert_not(rr_fdt_has(fd));
}

Test(accept, an_error_of_the_kernels_while_it_waits_at_both_doors)
{
	socklen_t len = sizeof(struct sockaddr_in);

	door->accepts = -EAGAIN;
	cr_assert_eq(rr_wrap_accept(listener, (struct sockaddr *)8, &len), -1);
	cr_assert_eq(errno, EFAULT);
	cr_assert(so->f.refs == 1 && !(so->flags & RR_SOCK_ACCEPTING));
}
