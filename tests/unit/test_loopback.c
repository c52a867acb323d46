/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection to ourselves under a native one: while its port is open anybody on the host may come to it. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/enter.h"
#include "tests/lib/open_fds.h"

static struct rr_os os = {
	.socket = socket, .bind = bind, .listen = listen, .connect = connect, .accept4 = accept4, .close = close,
	.fcntl = fcntl, .getsockopt = getsockopt, .setsockopt = setsockopt, .getsockname = getsockname, .poll = poll,
};
static int first_ms, last_ms, came;

/* A stranger comes, after a while. */
static int poll_late(struct pollfd *p, nfds_t n, int ms)
{
	const struct timespec a_while = { .tv_nsec = 20000000 };

	(void)n;
	nanosleep(&a_while, NULL);
	last_ms = ms;
	first_ms = first_ms ? first_ms : ms;
	p->revents = POLLIN;
	return 1;
}

static int accept_stranger(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct sockaddr_in other = { .sin_family = AF_INET, .sin_port = htons(1) };

	(void)fd;
	(void)flags;
	memcpy(addr, &other, sizeof(other));
	*len = sizeof(other);
	came++;
	return dup(0);
}

static void set_up(void)
{
	rr_os = &os;
}

TestSuite(loopback, .init = set_up);

Test(loopback, strangers_at_its_port_share_the_time_that_one_has)
{
	int far = -1, rc;

	os.poll = poll_late;
	os.accept4 = accept_stranger;
	rc = rr_loopback_new(AF_INET, 0, &far);
	cr_assert_eq(rc, -ECONNABORTED);
	cr_assert_eq(far, -1);
	cr_assert_eq(came, 8, "%d strangers", came);
	cr_assert_leq(first_ms, 1000);
	cr_assert_leq(last_ms, first_ms - 20 * (came - 2), "the last one as long as the first");
}

Test(loopback, its_ends_are_connected)
{
	char byte = 0;
	int far, fd = rr_loopback_new(AF_INET, 0, &far);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(far, "x", 1), 1);
	cr_assert(read(fd, &byte, 1) == 1 && byte == 'x');
	rr_loopback_end(&far, false);
	close(fd);
}

/* An app's socket of IPv6 has an anchor of its own family, by IPv4: IPv6 may be switched off. */
Test(loopback, ends_of_ipv6_are_connected_by_ipv4)
{
	struct sockaddr_in6 at = { 0 };
	socklen_t len = sizeof(at);
	char byte = 0;
	int far, fd = rr_loopback_new(AF_INET6, 0, &far);

	cr_assert_geq(fd, 0);
	for (int i = 0; i < 2; i++) {
		len = sizeof(at);
		cr_assert_eq(getpeername(i ? far : fd, (struct sockaddr *)&at, &len), 0);
		cr_assert(at.sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&at.sin6_addr));
		cr_assert_eq(memcmp(at.sin6_addr.s6_addr + 12, (uint8_t[]){ 127, 0, 0, 1 }, 4), 0);
	}
	cr_assert_eq(write(far, "x", 1), 1);
	cr_assert(read(fd, &byte, 1) == 1 && byte == 'x');
	rr_loopback_end(&far, false);
	close(fd);
}

/* --- step by step ---------------------------------------------------------------------------------------------- */

static int at_call, failing, with;	/* the call of that number fails, of those that count */
static int accept_flags, no_v6only, listened, reset_fd = -1;
static struct sockaddr_in6 bound;	/* the last address that was */

static int fails(void)
{
	if (++at_call != failing)
		return 0;
	errno = with;
	return -1;
}

static int try_socket(int family, int type, int protocol)
{
	return fails() ? -1 : socket(family, type, protocol);
}

static int try_bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	memcpy(&bound, sa, len);
	return fails() ? -1 : bind(fd, sa, len);
}

static int try_listen(int fd, int backlog)
{
	listened = backlog;
	return fails() ? -1 : listen(fd, backlog);
}

static int try_getsockname(int fd, struct sockaddr *sa, socklen_t *len)
{
	return fails() ? -1 : getsockname(fd, sa, len);
}

static int try_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	if (sa->sa_family == AF_UNSPEC) {
		reset_fd = fd;
		return connect(fd, sa, len);
	}
	return fails() ? -1 : connect(fd, sa, len);
}

static int try_accept(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	accept_flags = flags;
	return fails() ? -1 : accept4(fd, sa, len, flags);
}

static int try_poll(struct pollfd *p, nfds_t n, int ms)
{
	cr_assert_eq(n, 1);
	if (fails())
		return with ? -1 : 0;
	return poll(p, n, ms);
}

static int try_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	int on = 1;

	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) {
		memcpy(&on, val, sizeof(on));
		no_v6only += !on;
	}
	return setsockopt(fd, level, name, val, len);
}

static void counted(void)
{
	os.socket = try_socket;
	os.bind = try_bind;
	os.listen = try_listen;
	os.getsockname = try_getsockname;
	os.connect = try_connect;
	os.accept4 = try_accept;
	os.poll = try_poll;
	os.setsockopt = try_setsockopt;
	rr_os = &os;
}

/* Steps: a socket, bound, listening, named; another, connected, named; a look, and the one that has come. */
Test(loopback, each_step_of_a_pair_may_fail, .init = counted)
{
	int fds = open_fds();

	for (failing = 1; failing <= 9; failing++) {
		int far = -1, rc;

		at_call = 0;
		with = ENOBUFS;
		rc = rr_loopback_new(AF_INET, 0, &far);
		cr_assert_eq(rc, failing == 8 ? -ETIMEDOUT : -ENOBUFS, "step %d: %d", failing, rc);
		cr_assert_lt(far, 0, "step %d", failing);
		cr_assert(open_fds_get_to(fds), "step %d", failing);
	}
	failing = 8;
	with = at_call = 0;
	cr_assert_eq(rr_loopback_new(AF_INET, 0, &(int){ 0 }), -ETIMEDOUT);
	cr_assert(open_fds_get_to(fds));
}

Test(loopback, a_pair_that_is_made, .init = counted)
{
	int far, fds = open_fds(), fd = rr_loopback_new(AF_INET, SOCK_CLOEXEC, &far);
	struct sockaddr_in own, peer;
	socklen_t len = sizeof(own);

	cr_assert(fd >= 0 && far >= 0 && at_call == 9);
	cr_assert_eq(accept_flags, SOCK_CLOEXEC);
	cr_assert(listened > 1 && no_v6only == 0);
	cr_assert(!rr_ownfd_is(fd) && rr_ownfd_is(far));
	cr_assert(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(far, F_GETFD) == FD_CLOEXEC);
	cr_assert(fcntl(far, F_GETFL) & O_NONBLOCK);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&own, &len), 0);
	cr_assert_eq(getpeername(far, (struct sockaddr *)&peer, &len), 0);
	cr_assert(own.sin_port == peer.sin_port && own.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	cr_assert_eq(open_fds(), fds + 2);
	rr_loopback_end(&far, false);
	cr_assert_eq(far, -1);
	rr_loopback_end(&far, false);
	close(fd);
	cr_assert(open_fds_get_to(fds));
	fd = rr_loopback_new(AF_INET6, SOCK_NONBLOCK, &far);
	cr_assert(fd >= 0 && no_v6only == 1 && accept_flags == SOCK_NONBLOCK);
	rr_loopback_end(&far, false);
	close(fd);
}

Test(loopback, its_end_is_a_fin_or_a_reset, .init = counted)
{
	char byte;
	int far, fd = rr_loopback_new(AF_INET, 0, &far);

	rr_loopback_end(&far, false);
	cr_assert_eq(read(fd, &byte, 1), 0);
	close(fd);
	fd = rr_loopback_new(AF_INET, 0, &far);
	rr_loopback_end(&far, true);
	cr_assert_eq(far, -1);
	cr_assert(read(fd, &byte, 1) < 0 && errno == ECONNRESET);
	close(fd);
	fd = rr_loopback_new(AF_INET, 0, &far);
	rr_loopback_reset(fd);
	cr_assert_eq(reset_fd, fd);
	cr_assert(read(far, &byte, 1) < 0 && errno == ECONNRESET);
	rr_loopback_end(&far, false);
	close(fd);
}

/* --- the app's own socket -------------------------------------------------------------------------------------- */

Test(loopback, an_end_that_is_none_is_left_alone)
{
	int far = -5, zero = 0, ends[2];

	rr_loopback_end(&far, true);
	cr_assert_eq(far, -5);
	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(dup2(ends[0], 0), 0);
	rr_loopback_end(&zero, false);
	cr_assert(zero == -1 && fcntl(0, F_GETFD) < 0, "a number like any other");
}

static int app_socket(int family, int type)
{
	int fd = socket(family, SOCK_STREAM | type, 0);

	cr_assert_geq(fd, 0);
	return fd;
}

static struct sockaddr_in6 name_of(int fd, bool peer)
{
	struct sockaddr_in6 sa = { 0 };
	socklen_t len = sizeof(sa);

	cr_assert_eq((peer ? getpeername : getsockname)(fd, (struct sockaddr *)&sa, &len), 0);
	return sa;
}

static uint32_t v4(const struct sockaddr_in6 *sa)
{
	return ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr);
}

static void is_connected(int fd, int far)
{
	struct sockaddr_in6 own = name_of(fd, false), other = name_of(far, true);
	char byte = 0;

	cr_assert(own.sin6_family == other.sin6_family && own.sin6_port == other.sin6_port);
	cr_assert_eq(write(far, "x", 1), 1);
	cr_assert(recv(fd, &byte, 1, MSG_WAITALL) == 1 && byte == 'x');
	cr_assert(rr_ownfd_is(far) && fcntl(far, F_GETFL) & O_NONBLOCK && fcntl(far, F_GETFD) == FD_CLOEXEC);
}

Test(loopback, the_apps_own_socket, .init = counted)
{
	for (int type = 0; type <= SOCK_NONBLOCK; type += SOCK_NONBLOCK) {
		int fds = open_fds(), fd = app_socket(AF_INET, type), far = -1;
		struct sockaddr_in6 peer;

		cr_assert_eq(rr_loopback_connect(fd, &far), 0);
		peer = name_of(fd, true);
		cr_assert(v4(&peer) == INADDR_LOOPBACK && v4(&bound) == INADDR_LOOPBACK);
		is_connected(fd, far);
		cr_assert_eq(open_fds(), fds + 2);
		rr_loopback_end(&far, false);
		close(fd);
	}
}

Test(loopback, one_that_is_bound_is_reached_where_it_is, .init = counted)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1) };
	int fd = app_socket(AF_INET, 0), far = -1;
	struct sockaddr_in6 peer;

	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(rr_loopback_connect(fd, &far), 0);
	peer = name_of(fd, true);
	cr_assert_eq(v4(&peer), INADDR_LOOPBACK + 1);
	peer = name_of(fd, false);
	cr_assert_eq(v4(&peer), INADDR_LOOPBACK + 1);
	is_connected(fd, far);
	rr_loopback_end(&far, false);
	close(fd);
}

Test(loopback, one_of_ipv6_is_reached_by_ipv4_unless_it_may_not, .init = counted)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT }, peer;
	int fd = app_socket(AF_INET6, 0), far = -1, on = 1;

	cr_assert_eq(rr_loopback_connect(fd, &far), 0);
	peer = name_of(fd, true);
	cr_assert(IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr) && no_v6only == 1);
	is_connected(fd, far);
	rr_loopback_end(&far, false);
	close(fd);
	fd = app_socket(AF_INET6, 0);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)))
		cr_skip("there is no IPv6 here");
	cr_assert_eq(rr_loopback_connect(fd, &far), 0);
	peer = name_of(fd, true);
	cr_assert(IN6_IS_ADDR_LOOPBACK(&peer.sin6_addr) && no_v6only == 1);
	is_connected(fd, far);
	rr_loopback_end(&far, false);
	close(fd);
	fd = app_socket(AF_INET6, 0);
	cr_assert_eq(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)), 0);
	cr_assert_eq(rr_loopback_connect(fd, &far), 0);
	peer = name_of(fd, true);
	cr_assert(IN6_IS_ADDR_LOOPBACK(&peer.sin6_addr));
	cr_assert(IN6_IS_ADDR_LOOPBACK(&bound.sin6_addr), "who is not of this host cannot come");
	is_connected(fd, far);
	rr_loopback_end(&far, false);
	close(fd);
}

/* Steps: it is named; a socket, bound, listening, named; it is connected, named; a look, and the one that has come. */
Test(loopback, each_step_of_the_apps_socket_may_fail, .init = counted)
{
	int fds = open_fds();

	for (failing = 1; failing <= 9; failing++) {
		int fd = app_socket(AF_INET, 0), far = 77, rc;

		at_call = 0;
		with = ENOBUFS;
		reset_fd = -1;
		rc = rr_loopback_connect(fd, &far);
		cr_assert_eq(rc, failing == 1 ? -EBADF : failing == 8 ? -ETIMEDOUT : -ENOBUFS, "step %d: %d", failing, rc);
		cr_assert_eq(far, 77);
		cr_assert_eq(reset_fd, failing >= 6 ? fd : -1, "step %d", failing);
		cr_assert(getpeername(fd, &(struct sockaddr){ 0 }, &(socklen_t){ 0 }) && errno == ENOTCONN);
		close(fd);
		cr_assert(open_fds_get_to(fds), "step %d", failing);
	}
}

static int so_error, so_error_rc, first_poll, slow_error = EINPROGRESS, waited_for;

/* As connect() of a socket that does not block, over a slow loopback. */
static int slow_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	if (connect(fd, sa, len) || sa->sa_family == AF_UNSPEC)
		return 0;
	errno = slow_error;
	return -1;
}

static int slow_poll(struct pollfd *p, nfds_t n, int ms)
{
	if (p->events != POLLOUT)
		return poll(p, n, ms);
	waited_for = ms;
	return first_poll;
}

static int slow_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	if (name != SO_ERROR)
		return getsockopt(fd, level, name, val, len);
	memcpy(val, &so_error, sizeof(so_error));
	return so_error_rc;
}

static int connects_slowly(void)
{
	int fd = app_socket(AF_INET, 0), far = -1, rc = rr_loopback_connect(fd, &far);

	rr_loopback_end(&far, false);
	close(fd);
	return rc;
}

Test(loopback, a_connect_that_does_not_block_is_waited_for)
{
	os.connect = slow_connect;
	os.poll = slow_poll;
	os.getsockopt = slow_getsockopt;
	first_poll = 1;
	cr_assert_eq(connects_slowly(), 0);
	cr_assert_eq(waited_for, 1000);
	slow_error = EINTR;
	cr_assert_eq(connects_slowly(), 0);
	slow_error = EINPROGRESS;
	so_error = ECONNREFUSED;
	cr_assert_eq(connects_slowly(), -ECONNREFUSED);
	so_error = 0;
	so_error_rc = -1;
	cr_assert_eq(connects_slowly(), -ETIMEDOUT);
	so_error_rc = 0;
	first_poll = 0;
	cr_assert_eq(connects_slowly(), -ETIMEDOUT);
	first_poll = -1;
	cr_assert_eq(connects_slowly(), -ETIMEDOUT);
	first_poll = 1;
	slow_error = ENETUNREACH;
	waited_for = 0;
	cr_assert_eq(connects_slowly(), -ENETUNREACH);
	cr_assert_eq(waited_for, 0);
}

/* --- ports ----------------------------------------------------------------------------------------------------- */

static uint32_t in_use[80], nused;	/* loopback addresses that have no port left */
static bool only_first;			/* and there is no other than 127.0.0.1 */

static int bind_where_there_is_room(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct sockaddr_in6 at = { 0 };
	uint32_t to;

	memcpy(&at, sa, len);
	memcpy(&to, at.sin6_family == AF_INET ? (void *)&((struct sockaddr_in *)(void *)&at)->sin_addr :
	       at.sin6_addr.s6_addr + 12, sizeof(to));
	to = ntohl(to);
	at_call++;
	errno = only_first && to != INADDR_LOOPBACK ? EADDRNOTAVAIL : EADDRINUSE;
	if (errno == EADDRNOTAVAIL)
		return -1;
	for (uint32_t i = 0; i < nused; i++)
		if (in_use[i] == to)
			return -1;
	return bind(fd, sa, len);
}

/* Where the accepted end of a new pair is: the last number of 127.0.0.x; or -errno. */
static int place_of_pair(sa_family_t family)
{
	int far = -1, fd = rr_loopback_new(family, 0, &far);
	struct sockaddr_in6 at;
	uint32_t v;

	if (fd < 0)
		return fd;
	at = name_of(fd, false);
	if (family == AF_INET)
		v = v4(&at);
	else
		memcpy(&v, at.sin6_addr.s6_addr + 12, sizeof(v)), v = ntohl(v);
	cr_assert_eq(v >> 8, INADDR_LOOPBACK >> 8);
	rr_loopback_end(&far, false);
	close(fd);
	return (int)(v & 0xff);
}

/* An address has as many as ip_local_port_range says; each pair keeps one. */
Test(loopback, where_an_address_has_no_port_left_there_is_another)
{
	os.bind = bind_where_there_is_room;
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(place_of_pair(AF_INET), 1 + i);
		in_use[nused++] = INADDR_LOOPBACK + (uint32_t)i;
	}
	cr_assert_eq(place_of_pair(AF_INET6), 4);
	at_call = 0;
	cr_assert_eq(place_of_pair(AF_INET6), 4);
	cr_assert_eq(at_call, 1, "the full ones are not tried each time");
	while (nused < 64)
		in_use[nused] = INADDR_LOOPBACK + nused, nused++;
	at_call = 0;
	cr_assert_eq(place_of_pair(AF_INET), -EADDRINUSE);
	cr_assert_eq(at_call, 64, "and that is all");
}

Test(loopback, where_there_is_one_address_it_is_used)
{
	os.bind = bind_where_there_is_room;
	in_use[nused++] = INADDR_LOOPBACK;
	only_first = true;
	cr_assert_eq(place_of_pair(AF_INET), -EADDRINUSE);
	nused = 0;
	cr_assert_eq(place_of_pair(AF_INET), 1);
}

/* Long before it has none left, they take the kernel long to find. */
Test(loopback, addresses_take_turns, .timeout = 120)
{
	int seen[3] = { 0 };

	for (int i = 0; i < 8193; i++)
		seen[place_of_pair(AF_INET) - 1]++;
	cr_assert(seen[0] == 4096 && seen[1] == 4096 && seen[2] == 1);
}

/* --- strangers ------------------------------------------------------------------------------------------------- */

static int strangers;

/* So many that are not the one come first: another port, another address, another family. */
static int accept_among_strangers(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	struct sockaddr_in *in = (void *)sa;
	int mine[2];

	if (strangers-- <= 0)
		return accept4(fd, sa, len, flags);
	cr_assert_eq(pipe(mine), 0);
	close(mine[1]);
	memset(sa, 0, *len);
	in->sin_family = strangers % 3 ? AF_INET : AF_INET6;
	in->sin_port = htons(7);
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return mine[0];
}

static int poll_at_once(struct pollfd *p, nfds_t n, int ms)
{
	(void)n;
	cr_assert(ms >= 0 && ms <= 1000);
	p->revents = POLLIN;
	return 1;
}

Test(loopback, the_one_among_strangers_is_found)
{
	int fds = open_fds();

	os.poll = poll_at_once;
	os.accept4 = accept_among_strangers;
	for (int n = 0; n < 3; n++) {
		int far, fd;

		strangers = n;
		fd = rr_loopback_new(AF_INET, 0, &far);
		cr_assert_geq(fd, 0, "%d: %d", n, fd);
		is_connected(fd, far);
		rr_loopback_end(&far, false);
		close(fd);
		cr_assert(open_fds_get_to(fds));
	}
}
