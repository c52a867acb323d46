/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that make, use or end sockets where something is in the way: memory, another thread, a plugin, a set-up that is
 * not over. */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/single_threaded.h>

#include "preload/epset.h"
#include "preload/guard.h"
#include "preload/init.h"
#include "preload/looks.h"
#include "preload/pollrest.h"
#include "preload/statseg.h"
#include "tests/unit/call.h"

static void begin_rare(void)
{
	rr_init_core();
	begin_call();
	__libc_single_threaded = 0;
}

TestSuite(call_rare, .init = begin_rare, .timeout = 60);

enum { NOTHING = 900 };		/* a number at which nothing is: no entry can be made for it */

static int nothing_made(int domain RR_UNUSED, int type RR_UNUSED, int protocol RR_UNUSED)
{
	return NOTHING;
}

Test(call_rare, a_socket_that_cannot_be_entered_is_the_kernels)
{
	rr_real.socket = nothing_made;
	cr_assert_eq(rr_wrap_socket(AF_INET, SOCK_STREAM, 0), NOTHING);
	cr_assert(!rr_fdt_has(NOTHING) && errno == MINE);
	cr_assert_not(rr_sock_adopt(NOTHING, NULL));
}

static int listens_says(int fd RR_UNUSED, int level RR_UNUSED, int name, void *val, socklen_t *len)
{
	int value = name == SO_PROTOCOL ? IPPROTO_TCP : name == SO_ACCEPTCONN;

	memcpy(val, &value, *len);
	return 0;
}

Test(call_rare, so_is_a_listener_that_was_inherited)
{
	rr_real.getsockopt = listens_says;
	cr_assert_not(rr_sock_inherit(NOTHING));
	cr_assert(!rr_fdt_has(NOTHING) && errno == MINE);
}

static struct rr_conn *others, *late;
static int others_fd;

/* Meanwhile another thread's listen() has made one. */
static struct rr_conn *late_listener(int fd)
{
	struct rr_sock *so = rr_fdt_sock(fd);

	cr_assert_eq(fd, others_fd);
	atomic_store(&so->conn, others);
	rr_file_put(&so->f);
	return late;
}

static struct rr_conn *spare(void)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_NEW);
	struct rr_sock *of = rr_fdt_sock(fd);

	atomic_store(&of->conn, NULL);
	rr_file_put(&of->f);
	return c;
}

static bool is_freed(int wake)
{
	return fcntl(wake, F_GETFD) < 0;
}

Test(call_rare, of_two_threads_that_listen_one_has_the_connection)
{
	int fd = rr_wrap_socket(AF_INET, SOCK_STREAM, 0), wake;

	others_fd = fd;
	others = spare();
	late = spare();
	wake = late->wake;
	rr_fake.listener = late_listener;
	errno = MINE;
	cr_assert_eq(rr_wrap_listen(fd, 1), 0);
	cr_assert_eq(errno, MINE);
	cr_assert(is_freed(wake) && !is_freed(others->wake));
	cr_assert_eq(rr_file_conn(rr_fdt_peek(fd)), others);
}

static int connects(int fd RR_UNUSED, const struct sockaddr *addr RR_UNUSED, socklen_t len RR_UNUSED)
{
	return 0;
}

static int met, clients;

static struct rr_conn *count_client(int fd RR_UNUSED, const struct sockaddr *peer RR_UNUSED, socklen_t len RR_UNUSED)
{
	clients++;
	return NULL;
}

static struct rr_conn *note_meeting(int fd RR_UNUSED, const struct rr_conn_passed *f RR_UNUSED)
{
	met++;
	return others;
}

Test(call_rare, what_is_connected_a_second_time_is_met)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = rr_wrap_socket(AF_INET, SOCK_STREAM, 0);
	struct rr_sock *so = rr_fdt_sock(fd);

	rr_file_put(&so->f);
	others = spare();
	rr_fake.after = note_meeting;
	rr_fake.client = count_client;
	rr_real.connect = connects;
	for (int i = 0; i < 3; i++) {
		errno = MINE;
		cr_assert_eq(rr_wrap_connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
		cr_assert_eq(errno, MINE);
		if (!i) {	/* as in a program of one thread, which this need not be */
			atomic_fetch_or(&so->flags, RR_SOCK_UNMET);
			atomic_fetch_add(&rr_unmet_n, 1);
		}
		cr_assert(met == (i > 0) && rr_unmet_is(so) == !i, "%d", i);
	}
	cr_assert(so->conn == others && so->f.refs == 1 && clients == 1);
}

static int refuses(int fd RR_UNUSED, const struct sockaddr *addr RR_UNUSED, socklen_t len RR_UNUSED)
{
	errno = ECONNREFUSED;
	return -1;
}

/* A listener of this process has it in a moment, so the next poll() looks. */
Test(call_rare, what_is_connected_makes_looks_at_listeners_old)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct pollfd fds[2] = { { 0 } };
	struct rr_work w = { .fds = fds, .n = 2, .others = 1, .listeners = 1 };
	int peer, other = tcp(&peer), fd = rr_wrap_socket(AF_INET, SOCK_STREAM, 0);

	rr_looks_note(&w);
	cr_assert_gt(rr_looks_last(&w), 0);
	rr_real.connect = refuses;
	cr_assert_eq(rr_wrap_connect(fd, (struct sockaddr *)&a, sizeof(a)), -1);
	cr_assert_gt(rr_looks_last(&w), 0, "nobody has come");
	rr_real.connect = connects;
	cr_assert_eq(rr_wrap_connect(other, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_gt(rr_looks_last(&w), 0, "it is not known");
	cr_assert_eq(rr_wrap_connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(rr_looks_last(&w), 0);
}

/* --- a plugin --- */

Test(call_rare, what_a_plugin_duplicates_and_closes_is_its_own)
{
	int fd, ep;

	rr_guard_enter();
	fd = rr_wrap_dup(at.fd);
	cr_assert_geq(fd, 0);
	cr_assert(!rr_fdt_has(fd) && at.so->f.refs == 1 && errno == MINE);
	ep = rr_wrap_epoll_create1(0);
	cr_assert(ep >= 0 && !rr_fdt_has(ep));
	cr_assert_null(rr_sock_closing(at.fd));
	cr_assert(rr_fdt_has(at.fd) && at.so->watches);
	rr_guard_leave();
	cr_assert(rr_fdt_has(rr_wrap_epoll_create1(0)));
	cr_assert_eq(rr_wrap_epoll_create(0), -1);
	cr_assert_eq(errno, EINVAL);
}

/* --- the number 0 --- */

static void leave_0(void)
{
	cr_assert(rr_fdt_has(0) && at.so->f.refs == 2 && errno == MINE);
	cr_assert_eq(rr_wrap_close(0), 0);
	cr_assert_not(rr_fdt_has(0));
	errno = MINE;
}

Test(call_rare, a_duplicate_may_have_the_number_0)
{
	close(0);
	errno = MINE;
	cr_assert_eq(rr_wrap_dup(at.fd), 0);
	leave_0();
	cr_assert_eq(rr_wrap_fcntl(at.fd, F_DUPFD, NULL), 0);
	leave_0();
	cr_assert_eq(rr_wrap_fcntl(at.fd, F_DUPFD_CLOEXEC, NULL), 0);
	leave_0();
	cr_assert_eq(rr_wrap_dup2(at.fd, 0), 0);
	leave_0();
	cr_assert_eq(rr_wrap_dup3(at.fd, 0, O_CLOEXEC), 0);
	leave_0();
	/* And so may what is closed by one. */
	cr_assert_eq(rr_wrap_dup2(at.fd, 0), 0);
	cr_assert_eq(rr_wrap_dup2(at.peer, 0), 0);
	cr_assert(!rr_fdt_has(0) && at.so->f.refs == 1);
}

/* --- daemon() --- */

static int daemons, real_daemons;

static void note_daemon(void)
{
	cr_assert_not(real_daemons, "before the parent ends");
	daemons++;
}

static int note_real_daemon(int nochdir, int noclose)
{
	cr_assert(nochdir == 1 && noclose == 0 && errno == MINE);
	real_daemons++;
	return 7;
}

Test(call_rare, connections_are_told_of_a_daemon_first)
{
	rr_fake.daemon = note_daemon;
	rr_real.daemon = note_real_daemon;
	cr_assert_eq(rr_wrap_daemon(1, 0), 7);
	cr_assert(daemons == 1 && real_daemons == 1 && errno == MINE);
	rr_guard_enter();
	cr_assert_eq(rr_wrap_daemon(1, 0), 7);
	rr_guard_leave();
	cr_assert(daemons == 1 && real_daemons == 2);
}

/* --- sockets that are the kernel's, and in a set --- */

Test(call_rare, a_listener_that_is_in_a_set_already_is_changed_there)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 4711 };
	struct rr_ep_watch *w = at.so->watches;

	rr_fake_become(at.c, at.fd, RR_FAKE_TCP);
	atomic_fetch_or(&at.so->flags, RR_SOCK_LISTENER);
	cr_assert_eq(rr_wrap_epoll_ctl(at.set, EPOLL_CTL_MOD, at.fd, &ev), 0);
	cr_assert(w->app.events == EPOLLIN && w->app.data.u64 == 4711);
	cr_assert_eq(rr_wrap_epoll_ctl(at.set, EPOLL_CTL_DEL, at.fd, NULL), 0);
	cr_assert_null(at.so->watches);
	/* A new registration gets no watch. */
	cr_assert_eq(rr_wrap_epoll_ctl(at.set, EPOLL_CTL_ADD, at.fd, &ev), 0);
	cr_assert_null(at.so->watches);
	atomic_fetch_and(&at.so->flags, ~(uint32_t)RR_SOCK_LISTENER);
	atomic_fetch_or(&at.so->flags, RR_SOCK_PLAIN);
	cr_assert_eq(rr_wrap_epoll_ctl(at.set, EPOLL_CTL_DEL, at.fd, NULL), 0);
	cr_assert_eq(rr_wrap_epoll_ctl(at.set, EPOLL_CTL_ADD, at.fd, &ev), 0);
	cr_assert_null(at.so->watches);
	cr_assert_eq(at.so->f.refs, 1);
}

/* Each attempt changes it. */
static ssize_t some(struct rr_conn *c, int fd RR_UNUSED, const struct iovec *iov RR_UNUSED, int n RR_UNUSED,
		    int flags RR_UNUSED)
{
	c->face.changed = true;
	return 1;
}

/* The last of three does, and the second finds nothing. */
static ssize_t some_later(struct rr_conn *c, int fd RR_UNUSED, const struct iovec *iov RR_UNUSED, int n RR_UNUSED,
			  int flags RR_UNUSED)
{
	static int attempts;

	attempts++;
	c->face.changed = attempts == 3;
	return attempts == 2 ? -EAGAIN : 1;
}

static int is_dialed(struct rr_conn *c RR_UNUSED, int fd RR_UNUSED, bool wait RR_UNUSED)
{
	return 0;
}

static bool goes(struct rr_conn *c RR_UNUSED)
{
	return true;
}

static int shuts(struct rr_conn *c RR_UNUSED, int fd RR_UNUSED, int how RR_UNUSED)
{
	return 1;
}

/* Has the call seen that the connection has changed? */
static bool has_seen(void)
{
	return !atomic_exchange(&at.c->face.changed, true);
}

Test(call_rare, sets_learn_of_what_has_changed_in_any_call)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int n = 1, peer, p[2];
	char c, two[2] = "";

	rr_fake.recv = rr_fake.send = some;
	rr_fake.dialed = is_dialed;
	rr_fake.let_go = goes;
	rr_fake.shutdown = shuts;
	cr_assert_eq(pipe(p), 0);
	cr_assert_eq(write(p[1], "xyz", 3), 3);
	at.c->face.changed = true;
	cr_assert_not(has_seen(), "until there is a call");
	cr_assert_eq(rr_wrap_recv(at.fd, &c, 1, 0), 1);
	cr_assert(has_seen());
	cr_assert_eq(rr_wrap_recv(at.fd, &c, 1, MSG_TRUNC), 1);
	cr_assert(has_seen());
	cr_assert_eq(rr_wrap_recv(at.fd, &c, 1, MSG_TRUNC | MSG_PEEK), 1);
	cr_assert(has_seen());
	cr_assert_eq(rr_wrap_send(at.fd, &c, 1, 0), 1);
	cr_assert(has_seen());
	cr_assert_eq(rr_wrap_recv(at.fd, two, 2, MSG_WAITALL), 2);
	cr_assert(has_seen());
	cr_assert_eq(rr_wrap_recv(at.fd, two, 2, MSG_WAITALL | MSG_TRUNC), 2);
	cr_assert(has_seen());
	rr_fake.recv = some_later;
	cr_assert_eq(rr_wrap_recv(at.fd, two, 2, MSG_WAITALL | MSG_TRUNC), 2);
	cr_assert(has_seen());
	rr_fake.recv = some;
	cr_assert_eq(rr_wrap_send(at.fd, two, 2, 0), 2);
	cr_assert(has_seen());
	cr_assert_eq(rr_wrap_ioctl(at.fd, FIONREAD, &n), 0);
	cr_assert(has_seen());
	n = 1;
	cr_assert_eq(rr_wrap_setsockopt(at.fd, SOL_SOCKET, SO_KEEPALIVE, &n, sizeof(n)), 0);
	cr_assert(has_seen());
	rr_wrap_splice(p[0], NULL, at.fd, NULL, 1, SPLICE_F_NONBLOCK);
	cr_assert(has_seen());
	cr_assert_eq(rr_wrap_connect(at.fd, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert(has_seen());
	cr_assert_not_null(rr_wrap_fdopen(at.fd, "r"));
	cr_assert(has_seen());
	cr_assert_eq(rr_wrap_shutdown(at.fd, SHUT_WR), 0);
	cr_assert(has_seen());
	/* A call that is another connection's sees nothing. */
	at.c->face.changed = true;
	rr_wrap_recv(tcp(&peer), &c, 1, MSG_DONTWAIT);
	cr_assert_not(has_seen());
	cr_assert_eq(at.so->f.refs, 1);
}

/* --- sockets that are in a set before they have a connection --- */

static struct rr_conn *gives_late(int fd RR_UNUSED)
{
	return late;
}

static struct rr_conn *dials_late(int fd RR_UNUSED, const struct sockaddr *peer RR_UNUSED, socklen_t len RR_UNUSED)
{
	return late;
}

static struct rr_ep_watch *watched_socket(int *fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct rr_sock *so;

	*fd = rr_wrap_socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(rr_wrap_epoll_ctl(at.set, EPOLL_CTL_ADD, *fd, &ev), 0);
	so = rr_fdt_sock(*fd);
	rr_file_put(&so->f);
	cr_assert_eq(((struct rr_ep_watch *)so->watches)->form, RR_EP_PLAIN);
	return so->watches;
}

Test(call_rare, sets_learn_of_the_door_of_a_listener)
{
	int fd;
	struct rr_ep_watch *w = watched_socket(&fd);

	late = spare();
	rr_fake.listener = gives_late;
	cr_assert_null(rr_statseg_get(false));
	errno = MINE;
	cr_assert_eq(rr_wrap_listen(fd, 1), 0);
	cr_assert_eq(errno, MINE);
	cr_assert(w->form == RR_EP_PASS && w->so->conn == late && w->so->flags & RR_SOCK_LISTENER);
	cr_assert_not_null(rr_statseg_get(false), "a server is seen while it waits");
	cr_assert_eq(w->so->f.refs, 1);
}

Test(call_rare, sets_learn_of_a_native_peer_that_is_dialed)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd;
	struct rr_ep_watch *w = watched_socket(&fd);

	late = spare();
	rr_fake.dial = dials_late;
	rr_fake.dialed = is_dialed;
	errno = MINE;
	cr_assert_eq(rr_wrap_connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(errno, MINE);
	cr_assert(w->form == RR_EP_PASS && w->so->conn == late && w->so->flags & RR_SOCK_CONNECTING);
}

/* Who keeps what was found must look again. */
Test(call_rare, a_stream_is_a_change_of_the_table)
{
	uint32_t n = rr_fdt_changes();

	cr_assert_not_null(rr_wrap_fdopen(at.fd, "r"));
	cr_assert(rr_fdt_changes() != n && at.so->flags & RR_SOCK_STDIO);
}

/* --- while the set-up is under way --- */

static struct sockaddr_in nobody = { .sin_family = AF_INET };
static struct { int calls, fd, accepted; } in_setup;

static struct rr_conn *no_client(int fd RR_UNUSED, const struct sockaddr *peer RR_UNUSED, socklen_t len RR_UNUSED)
{
	in_setup.calls++;
	return NULL;
}

static struct rr_conn *no_server(int fd RR_UNUSED)
{
	in_setup.calls++;
	return NULL;
}

/* As a signal handler that has interrupted it. */
static void use_sockets(const struct rr_conn_params *p RR_UNUSED)
{
	int peer, listener = socket(AF_INET, SOCK_STREAM, 0);

	in_setup.fd = tcp(&peer);
	rr_fdt_give(in_setup.fd, &rr_sock_new(in_setup.fd)->f);
	cr_assert_eq(rr_wrap_connect(in_setup.fd, (struct sockaddr *)&nobody, sizeof(nobody)), 0);
	in_setup.accepted = peer;
	rr_sock_accepted(peer);
	rr_fdt_give(listener, &rr_sock_new(listener)->f);
	cr_assert_eq(rr_wrap_listen(listener, 1), 0);
}

Test(call_rare_setup, who_interrupts_the_set_up_gets_no_connections)
{
	clearenv();
	setenv("RDMARPC_CONF", "/dev/null", 1);
	rr_fake.setup = use_sockets;
	rr_fake.client = no_client;
	rr_fake.server = no_server;
	rr_fake.listener = no_server;
	rr_init_started();
	rr_real.connect = connects;
	cr_assert(rr_init_core());
	cr_assert_gt(in_setup.fd, 0);
	cr_assert_eq(in_setup.calls, 0);
	cr_assert_not(rr_fdt_has(in_setup.accepted));
	/* Behind it the same socket makes one. */
	rr_real.connect = connects;
	cr_assert_eq(rr_wrap_connect(in_setup.fd, (struct sockaddr *)&nobody, sizeof(nobody)), 0);
	cr_assert_eq(in_setup.calls, 1);
}
