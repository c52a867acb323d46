/* SPDX-License-Identifier: BSD-3-Clause */
/* Evidence of servers, call by call: the names that sockets have, the run directory and the clocks are played. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"
#include "tests/lib/connpair.h"

#define START	(1000 * RR_SEC)
#define TODAY	500000	/* by the calendar's clock */
#define NAME	"rdmarpc-on-2049-0.0.ffff.7f000001"
#define ANY	"rdmarpc-on-2049-0.0.0.0"

enum { SERVER = 20, NAMES = 80, ENTRIES = 1200 };

static struct rr_os os;
static rr_time now = START;
static const char *run_dir;
static struct sockaddr_in6 at;		/* where the app listens */

/* --- what is played (the Makefile wraps these) --- */

struct entry {
	char name[40];
	bool is_file;
	uid_t uid;
	time_t age;		/* seconds */
	ino_t ino, ino_then;	/* … and after it was asked for */
	int connect;		/* what that says: errno or 0 */
};

static struct {
	char names[NAMES][sizeof(struct sockaddr_un)];	/* abstract ones with @ in front; "" for one that is gone */
	int of[NAMES], n;
	int first_fd, next_fd, dir;
	bool no_socket, no_name;
	bool stays;		/* there is no number left above */
	int bind_errno;		/* of files */
	int bind_again;		/* … the second time */
	int connect_errno;	/* of names that nobody has */
	char asked[16][sizeof(struct sockaddr_un)];
	socklen_t asked_len, bound_len;
	int binds, connects, sockets, closes, shuts, raises, own_closes, unlinks, chmods, opens;
	int closed, unlinkats, own_closed[16];
	int floor, dup, moved, unsets;
	char unlinked[sizeof(struct sockaddr_un)], gone[64][40];
	pid_t pid;
	uid_t uid;
	int mode;
	void (*in_bind)(void);
	struct entry entry[ENTRIES];
	int entries, given, stats;
} k;

static bool is_socket(int fd)
{
	return fd >= k.first_fd && fd < k.next_fd;
}

int __wrap_rr_ownfd_floor(int fd);
int __wrap_rr_ownfd_raise(int fd);
void __wrap_rr_ownfd_close(int fd);
int __wrap_rr_ownfd_dup(int fd);
void __wrap_rr_ownfd_set(int fd, bool own);
int __wrap_rr_os_open(const char *path, int flags);
pid_t __wrap_rr_pid(void);
int __wrap_unlink(const char *path);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __wrap_chmod(const char *path, mode_t mode);
int __wrap_fstatat(int dir, const char *name, struct stat *st, int flags);
ssize_t __wrap_getdents64(int dir, void *buf, size_t len);
uid_t __wrap_geteuid(void);

int clock_gettime(clockid_t which, struct timespec *ts)
{
	if (which == CLOCK_REALTIME)
		*ts = (struct timespec){ TODAY, 0 };
	else
		*ts = (struct timespec){ (time_t)(now / RR_SEC), (long)(now % RR_SEC) };
	return 0;
}

int __wrap_rr_ownfd_floor(int fd)
{
	cr_assert_eq(fd, SERVER);
	return k.floor;
}

int __wrap_rr_ownfd_raise(int fd)
{
	cr_assert(is_socket(fd));
	k.raises++;
	return k.stays ? fd : fd + 1000;
}

void __wrap_rr_ownfd_close(int fd)
{
	k.own_closed[k.own_closes++ % 16] = fd;
	for (int i = 0; i < k.n; i++)
		if (k.of[i] + 1000 == fd)
			k.names[i][0] = 0;
}

int __wrap_rr_ownfd_dup(int fd)
{
	k.moved = fd;
	return k.dup;
}

void __wrap_rr_ownfd_set(int fd, bool own)
{
	cr_assert(fd == k.moved && !own);
	k.unsets++;
}

int __wrap_rr_os_open(const char *path, int flags)
{
	cr_assert(!strcmp(path, run_dir) && flags & O_DIRECTORY && flags & O_NOFOLLOW && flags & O_CLOEXEC);
	k.opens++;
	k.given = 0;
	return k.entries ? k.dir : -1;
}

pid_t __wrap_rr_pid(void)
{
	return k.pid;
}

int __wrap_unlink(const char *path)
{
	snprintf(k.unlinked, sizeof(k.unlinked), "%s", path);
	k.unlinks++;
	return 0;
}

int __wrap_unlinkat(int dir, const char *name, int flags)
{
	cr_assert(dir == k.dir && flags == 0);
	snprintf(k.gone[k.unlinkats++ % 64], sizeof(k.gone[0]), "%s", name);
	return 0;
}

int __wrap_chmod(const char *path, mode_t mode)
{
	cr_assert(mode == 0666 && path[0] == '/');
	k.chmods++;
	return 0;
}

static struct entry *find_entry(const char *name)
{
	for (int i = 0; i < k.entries; i++)
		if (!strcmp(k.entry[i].name, name))
			return &k.entry[i];
	return NULL;
}

int __wrap_fstatat(int dir, const char *name, struct stat *st, int flags)
{
	struct entry *e = find_entry(name);

	cr_assert(dir == k.dir && flags == AT_SYMLINK_NOFOLLOW && e);
	k.stats++;
	memset(st, 0, sizeof(*st));
	st->st_mode = e->is_file ? S_IFREG : S_IFSOCK;
	st->st_uid = e->uid;
	st->st_ino = e->ino;
	st->st_mtime = TODAY - e->age;
	return 0;
}

/* A few at a time. */
ssize_t __wrap_getdents64(int dir, void *buf, size_t len)
{
	size_t n = 0;

	cr_assert(dir == k.dir && len == 512);
	while (k.given < k.entries && n + 64 <= len) {
		struct dirent64 *d = (void *)((char *)buf + n);

		d->d_reclen = 64;
		memcpy(d->d_name, k.entry[k.given].name, sizeof(k.entry[0].name));
		k.given++;
		n += 64;
	}
	return (ssize_t)n;
}

uid_t __wrap_geteuid(void)
{
	return k.uid;
}

static int fails(int err)
{
	errno = err;
	return err ? -1 : 0;
}

static void text_of(const struct sockaddr *sa, socklen_t len, char *out)
{
	const struct sockaddr_un *un = (const void *)sa;

	cr_assert(un->sun_family == AF_UNIX && len <= sizeof(*un));
	if (un->sun_path[0]) {
		cr_assert_eq(len, sizeof(*un));
		strcpy(out, un->sun_path);
	} else {
		out[0] = '@';
		memcpy(out + 1, un->sun_path + 1, len - sizeof(sa_family_t) - 1);
		out[len - sizeof(sa_family_t)] = 0;
	}
}

static int plays_socket(int family, int type, int protocol)
{
	cr_assert(family == AF_UNIX && type == (SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC) && protocol == 0);
	k.sockets++;
	return k.no_socket ? fails(EMFILE) : k.next_fd++;
}

static int plays_bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	char name[sizeof(struct sockaddr_un) + 1];
	void (*inside)(void) = k.in_bind;

	k.in_bind = NULL;
	if (inside)
		inside();
	text_of(sa, len, name);
	k.binds++;
	k.bound_len = len;
	if (name[0] == '/' && k.bind_errno) {
		int err = k.bind_errno;

		k.bind_errno = k.bind_again;
		return fails(err);
	}
	for (int i = 0; i < k.n; i++)
		if (!strcmp(k.names[i], name))
			return fails(EADDRINUSE);
	cr_assert_lt(k.n, NAMES);
	strcpy(k.names[k.n], name);
	k.of[k.n++] = fd;
	return 0;
}

static int plays_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	const char *base;
	char name[sizeof(struct sockaddr_un) + 1];
	struct entry *e;

	cr_assert(is_socket(fd));
	text_of(sa, len, name);
	strcpy(k.asked[k.connects++ % 16], name);
	for (int i = 0; i < k.n; i++)
		if (!strcmp(k.names[i], name))
			return 0;
	base = strrchr(name, '/');
	e = base ? find_entry(base + 1) : NULL;
	if (e) {
		e->ino = e->ino_then;
		return fails(e->connect);
	}
	return fails(k.connect_errno);
}

static int plays_close(int fd)
{
	k.closes++;
	k.closed = fd;
	return 0;
}

static int plays_shutdown(int fd, int how)
{
	cr_assert(is_socket(fd) && how == SHUT_RD);
	k.shuts++;
	return 0;
}

static int plays_getsockname(int fd, struct sockaddr *sa, socklen_t *len)
{
	cr_assert(fd == SERVER && *len == sizeof(at));
	if (k.no_name)
		return fails(ENOBUFS);
	memcpy(sa, &at, sizeof(at));
	return 0;
}

static enum rr_mode the_mode(bool server, const struct sockaddr *local, const struct sockaddr *peer)
{
	cr_assert(server && !peer && local->sa_family == at.sin6_family);
	return (enum rr_mode)k.mode;
}

static const char *the_dir(void)
{
	return run_dir;
}

static struct sockaddr_in6 v4(const char *ip, uint16_t port)
{
	struct sockaddr_in6 a = { 0 };
	struct sockaddr_in *in = (void *)&a;

	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	in->sin_addr.s_addr = inet_addr(ip);
	return a;
}

static void afresh(void)
{
	memset(&k, 0, sizeof(k));
	k.first_fd = k.next_fd = 100;
	k.dir = 900;
	k.connect_errno = ECONNREFUSED;
	k.dup = 555;
	k.pid = 77;
	k.uid = 1000;
	k.mode = RR_MODE_AUTO;
	run_dir = "/run/x";
	at = v4("127.0.0.1", 2049);
}

static void begin(void)
{
	rr_test_params.mode = the_mode;
	rr_test_params.run_dir = the_dir;
	rr_test_params.offer_after = 2;
	rr_test_setup();
	os = (struct rr_os){ .socket = plays_socket, .bind = plays_bind, .connect = plays_connect, .close = plays_close,
			     .shutdown = plays_shutdown, .getsockname = plays_getsockname };
	rr_os = &os;
	afresh();
}

TestSuite(evidence_calls, .init = begin, .timeout = 60);

/* --- a server's names --- */

Test(evidence_calls, a_server_has_two_names)
{
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	cr_assert(k.n == 2 && !strcmp(k.names[0], "@" NAME) && !strcmp(k.names[1], "/run/x/" NAME));
	cr_assert(k.raises == 2 && k.shuts == 2 && k.chmods == 1 && k.closes == 0 && k.connects == 0 && k.unlinks == 0);
	rr_conn_serves_not(1);
	cr_assert(k.own_closes == 2 && k.own_closed[0] == 1100 && k.own_closed[1] == 1101 && k.unlinks == 1);
	cr_assert_str_eq(k.unlinked, "/run/x/" NAME);
}

Test(evidence_calls, names_of_all_addresses_and_of_v6)
{
	at = v4("0.0.0.0", 2049);
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	cr_assert_str_eq(k.names[0], "@" ANY);
	at = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(65535) };
	inet_pton(AF_INET6, "2001:db8::1:2", &at.sin6_addr);
	cr_assert_eq(rr_conn_serves(SERVER), 2);
	cr_assert_str_eq(k.names[2], "@rdmarpc-on-65535-20010db8.0.0.10002");
}

Test(evidence_calls, without_a_directory_that_fits_there_is_one)
{
	char dir[60];

	run_dir = "";
	rr_conn_serves(SERVER);
	cr_assert(k.n == 1 && k.binds == 1 && k.sockets == 1 && k.chmods == 0);
	rr_conn_serves_not(1);
	cr_assert(k.unlinks == 0 && k.own_closed[0] == 1100 && k.own_closed[1] == -1);
	memset(dir, 'd', sizeof(dir));
	dir[0] = '/';
	dir[51] = 0;
	afresh();
	run_dir = dir;
	rr_conn_serves(SERVER);
	cr_assert_eq(k.n, 1);
	rr_conn_serves_not(1);
	afresh();
	dir[50] = 0;
	run_dir = dir;
	rr_conn_serves(SERVER);
	cr_assert_eq(k.n, 2);
}

Test(evidence_calls, where_no_socket_can_be_had_there_is_none)
{
	k.no_socket = true;
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	rr_conn_serves_not(1);
	cr_assert(k.binds == 0 && k.own_closes == 2 && k.own_closed[0] == -1 && k.own_closed[1] == -1 && k.unlinks == 0);
}

Test(evidence_calls, a_name_that_cannot_be_had_is_given_up)
{
	k.bind_errno = k.bind_again = EACCES;
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	cr_assert(k.binds == 2 && k.closes == 1 && k.closed == 101 && k.raises == 1 && k.connects == 0 && k.unlinks == 0);
	rr_conn_serves_not(1);
	cr_assert(k.own_closed[0] == 1100 && k.own_closed[1] == -1);
}

Test(evidence_calls, a_file_that_a_dead_process_left_is_replaced)
{
	k.bind_errno = EADDRINUSE;
	rr_conn_serves(SERVER);
	cr_assert(k.binds == 3 && k.connects == 1 && k.unlinks == 1 && k.n == 2 && k.closes == 0 && k.chmods == 1);
	cr_assert_str_eq(k.unlinked, "/run/x/" NAME);
	rr_conn_serves_not(1);
	afresh();
	k.bind_errno = EADDRINUSE;
	k.bind_again = EACCES;
	rr_conn_serves(SERVER);
	cr_assert(k.binds == 3 && k.n == 1 && k.closes == 1);
}

Test(evidence_calls, that_of_a_live_one_is_not)
{
	static const int alive[] = { 0, EPERM };

	for (size_t i = 0; i < rr_array_size(alive); i++) {
		afresh();
		k.bind_errno = k.bind_again = EADDRINUSE;
		k.connect_errno = alive[i];
		rr_conn_serves(SERVER);
		cr_assert(k.binds == 2 && k.connects == 1 && k.unlinks == 0 && k.closes == 1 && k.n == 1);
		rr_conn_serves_not(1);
	}
}

/* Nothing can be removed there. */
Test(evidence_calls, an_abstract_name_that_is_taken_is_not_asked_for)
{
	strcpy(k.names[k.n++], "@" NAME);
	rr_conn_serves(SERVER);
	cr_assert(k.connects == 0 && k.unlinks == 0 && k.closes == 1 && k.n == 2 && k.raises == 1);
}

Test(evidence_calls, who_is_not_shown)
{
	k.floor = -1;
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	k.floor = 0;
	k.no_name = true;
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	k.no_name = false;
	k.mode = RR_MODE_TCP;
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	k.mode = RR_MODE_REQUIRE;
	at.sin6_family = AF_UNIX;
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	at.sin6_family = AF_INET;
	rr_test_params.offer_after = RR_AFTER_WAIT;
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	cr_assert(k.n == 0 && k.sockets == 0);
	rr_test_params.offer_after = 2;
	cr_assert_eq(rr_conn_serves(SERVER), 1);
}

Test(evidence_early, before_there_are_options_nobody_is_shown)
{
	cr_assert_eq(rr_conn_serves(SERVER), 0);
}

Test(evidence_calls, listeners_at_one_place_share_its_names)
{
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	at = v4("127.0.0.2", 2049);
	cr_assert_eq(rr_conn_serves(SERVER), 2);
	at = v4("127.0.0.2", 2050);
	cr_assert_eq(rr_conn_serves(SERVER), 3);
	at = v4("127.0.0.1", 2049);
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	cr_assert_eq(k.n, 6);
	rr_conn_serves_not(1);
	cr_assert_eq(k.own_closes, 0);
	rr_conn_serves_not(1);
	cr_assert_eq(k.own_closes, 2);
	rr_conn_serves_not(1);
	cr_assert_eq(k.own_closes, 2);
	at = v4("127.0.0.3", 2049);
	cr_assert_eq(rr_conn_serves(SERVER), 1, "the first that is free");
}

Test(evidence_calls, there_is_room_for_32)
{
	for (uint16_t i = 0; i < 32; i++) {
		at = v4("127.0.0.1", (uint16_t)(3000 + i));
		cr_assert_eq(rr_conn_serves(SERVER), 1u + i);
	}
	at = v4("127.0.0.1", 2049);
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	cr_assert_eq(k.n, 64);
	cr_assert(rr_evidence_move(1100 + 63));
	rr_conn_serves_not(32);
	cr_assert_eq(rr_conn_serves(SERVER), 32);
}

Test(evidence_calls, a_child_leaves_the_file)
{
	rr_conn_serves(SERVER);
	k.pid++;
	rr_conn_serves_not(1);
	cr_assert(k.unlinks == 0 && k.own_closes == 2);
}

Test(evidence_calls, a_name_goes_on_under_another_number)
{
	rr_conn_serves(SERVER);
	cr_assert_not(rr_evidence_move(1099));
	cr_assert_not(rr_evidence_move(0));
	cr_assert(rr_evidence_move(1100));
	cr_assert(k.moved == 1100 && k.unsets == 1);
	cr_assert_not(rr_evidence_move(1100));
	k.dup = -1;
	cr_assert(rr_evidence_move(1101));
	rr_conn_serves_not(1);
	cr_assert(k.own_closed[0] == 555 && k.own_closed[1] == -1 && k.unlinks == 0, "the other was given up");
	cr_assert_not(rr_evidence_move(555));
}

/* As where the app has closed its standard input. */
Test(evidence_calls, a_socket_may_have_number_0)
{
	struct sockaddr_in6 a = v4("127.0.0.1", 2050);

	k.first_fd = k.next_fd = 0;
	rr_conn_serves(SERVER);
	cr_assert(k.n == 2 && k.raises == 2);
	k.next_fd = 0;
	k.connect_errno = 0;
	cr_assert(rr_evidence_look(&a));
	cr_assert(k.closes == 1 && k.closed == 0);
	rr_conn_serves_not(1);
	afresh();
	k.first_fd = 0;
	k.next_fd = -1;		/* the first name has none */
	k.stays = true;
	rr_conn_serves_not(rr_conn_serves(SERVER));
	cr_assert(k.unlinks == 1 && k.own_closed[1] == 0);
}

/* --- who is there --- */

static bool looks(const char *ip, uint16_t port)
{
	struct sockaddr_in6 a = v4(ip, port);

	k.connects = k.sockets = k.closes = 0;
	return rr_evidence_look(&a);
}

Test(evidence_calls, each_place_is_looked_for_under_four_names)
{
	static const char *const name[] = { "@" ANY, "@" NAME, "/run/x/" ANY, "/run/x/" NAME };

	cr_assert_not(looks("127.0.0.1", 2049));
	cr_assert(k.connects == 4 && k.sockets == 1 && k.closes == 1 && k.closed == 100);
	for (int i = 0; i < 4; i++)
		cr_assert_str_eq(k.asked[i], name[i]);
	for (int i = 0; i < 4; i++) {
		afresh();
		now += RR_SEC;
		strcpy(k.names[k.n++], name[i]);
		cr_assert(looks("127.0.0.1", 2049));
		cr_assert(k.connects == i + 1 && k.closes == 1);
	}
	now += RR_SEC;
	afresh();
	run_dir = "";
	cr_assert_not(looks("127.0.0.1", 2049));
	cr_assert_eq(k.connects, 2);
	k.connect_errno = EPERM;
	cr_assert(looks("127.0.0.1", 2049));
	now += RR_SEC;
	k.no_socket = true;
	cr_assert_not(looks("127.0.0.1", 2049));
	cr_assert_eq(k.closes, 0);
}

Test(evidence_calls, who_was_found_is_there_for_100_ms)
{
	k.connect_errno = 0;
	cr_assert(looks("127.0.0.1", 2049));
	k.connect_errno = ECONNREFUSED;
	cr_assert_not(looks("127.0.0.1", 2050));
	cr_assert_not(looks("127.0.0.2", 2049));
	now += 100 * RR_MSEC - 1;
	cr_assert(looks("127.0.0.1", 2049));
	cr_assert_eq(k.sockets, 0);
	now++;
	cr_assert_not(looks("127.0.0.1", 2049));
	cr_assert_eq(k.sockets, 1);
}

Test(evidence_calls, eight_are_kept_in_mind)
{
	k.connect_errno = 0;
	for (uint16_t i = 0; i < 8; i++)
		cr_assert(looks("127.0.0.1", 10 + i));
	for (uint16_t i = 0; i < 8; i++) {
		looks("127.0.0.1", 10 + i);
		cr_assert_eq(k.sockets, 0);
	}
	looks("127.0.0.1", 18);
	cr_assert_eq(k.sockets, 1);
	k.connect_errno = ECONNREFUSED;
	cr_assert_not(looks("127.0.0.1", 10), "in the place of the first");
	for (uint16_t i = 1; i < 9; i++)
		cr_assert(looks("127.0.0.1", 10 + i));
}

/* --- a signal handler inside, and a fork --- */

static int inside;

static void all_calls(void)
{
	inside++;
	at = v4("127.0.0.1", 2050);
	cr_assert_eq(rr_conn_serves(SERVER), 0);
	rr_conn_serves_not(1);
	k.connect_errno = 0;
	cr_assert(looks("127.0.0.1", 2050));
	cr_assert(looks("127.0.0.1", 2050));
	cr_assert_eq(k.sockets, 1, "it asks each time");
	cr_assert(looks("127.0.0.1", 2050));
	k.connect_errno = ECONNREFUSED;
}

Test(evidence_calls, a_handler_inside_changes_nothing)
{
	k.in_bind = all_calls;
	cr_assert_eq(rr_conn_serves(SERVER), 1);
	cr_assert(inside == 1 && k.n == 2 && k.own_closes == 0);
	cr_assert_not(looks("127.0.0.1", 2050), "it is not kept in mind");
	at = v4("127.0.0.1", 2049);
	cr_assert_eq(rr_conn_serves(SERVER), 1);
}

static void in_child(void)
{
	inside++;
	rr_evidence_forked();
	k.connect_errno = 0;
	cr_assert(looks("127.0.0.1", 2050));
	k.connect_errno = ECONNREFUSED;
	cr_assert(looks("127.0.0.1", 2050));
	cr_assert_eq(k.sockets, 0);
}

Test(evidence_calls, in_a_child_nobody_is_inside)
{
	k.in_bind = in_child;
	rr_conn_serves(SERVER);
	cr_assert_eq(inside, 1);
}

/* --- files that were left --- */

static struct entry *left(const char *name)
{
	struct entry *e = &k.entry[k.entries++];

	cr_assert_lt(k.entries, ENTRIES);
	*e = (struct entry){ .uid = 1000, .age = 61, .ino = 5, .ino_then = 5, .connect = ECONNREFUSED };
	snprintf(e->name, sizeof(e->name), "%s", name);
	return e;
}

static void sweeps(void)
{
	now += 100 * RR_SEC;
	k.opens = 0;
	rr_conn_serves_not(rr_conn_serves(SERVER));
	cr_assert_eq(k.opens, 1);
}

Test(evidence_calls, once_a_minute_somebody_sweeps)
{
	now = 7 * RR_SEC;
	rr_conn_serves(SERVER);
	cr_assert_eq(k.opens, 1);
	now += 60 * RR_SEC - 1;
	rr_conn_serves(SERVER);
	cr_assert_eq(k.opens, 1);
	now++;
	rr_conn_serves(SERVER);
	cr_assert_eq(k.opens, 2);
	now += 60 * RR_SEC;
	run_dir = "";
	rr_conn_serves(SERVER);
	cr_assert_eq(k.opens, 2);
	run_dir = "/run/x";
	rr_conn_serves(SERVER);
	cr_assert_eq(k.opens, 2, "it is done");
}

Test(evidence_calls, a_file_without_an_owner_is_removed)
{
	left(".");
	left("rdmarpc-on-1-0.0.0.0");
	sweeps();
	cr_assert(k.unlinkats == 1 && !strcmp(k.gone[0], "rdmarpc-on-1-0.0.0.0"));
	cr_assert_eq(k.closed, k.dir);
	cr_assert_eq(k.closes, 2);
	cr_assert_str_eq(k.asked[0], "/run/x/rdmarpc-on-1-0.0.0.0");
	k.no_socket = true;
	sweeps();
	cr_assert(k.unlinkats == 1 && k.closes == 3, "without a socket nobody can be asked");
	k.no_socket = false;
	k.first_fd = 0;
	k.next_fd = -2;		/* the names', and then 0 */
	sweeps();
	cr_assert(k.unlinkats == 2 && k.closes == 5);
	k.dir = 0;
	sweeps();
	cr_assert(k.unlinkats == 3 && k.closed == 0);
}

static void is_kept(struct entry e)
{
	afresh();
	*left("rdmarpc-on-1-0.0.0.0") = e;
	sweeps();
	cr_assert_eq(k.unlinkats, 0);
}

Test(evidence_calls, any_other_is_left_alone)
{
	struct entry good = *left("rdmarpc-on-1-0.0.0.0"), e;

	e = good, e.is_file = true, is_kept(e);
	e = good, e.uid = 1001, is_kept(e);
	e = good, e.age = 60, is_kept(e);
	e = good, e.ino_then = 6, is_kept(e);
	e = good, e.connect = 0, is_kept(e);
	e = good, e.connect = EACCES, is_kept(e);
	e = good, strcpy(e.name, "rdmarpc-ox-1-0.0.0.0"), is_kept(e);
	e = good, strcpy(e.name, "rdmarpc-on-1-0.0.0.g"), is_kept(e);
	e = good, strcpy(e.name, "rdmarpc-on"), is_kept(e);
	cr_assert_eq(k.stats, 0);
	afresh();
	left("rdmarpc-on-1-0.0.0.0")->uid = 1001;
	k.uid = 0;
	sweeps();
	cr_assert_eq(k.unlinkats, 1, "root may");
}

Test(evidence_calls, a_path_that_is_too_long_is_none)
{
	char dir[200];

	memset(dir, 'd', sizeof(dir));
	dir[0] = '/';
	for (size_t len = 86; len < 90; len++) {
		dir[len] = 0;
		afresh();
		run_dir = dir;
		left("rdmarpc-on-1-0.0.0.0");
		sweeps();
		cr_assert_eq(k.unlinkats, len + 1 + 20 < 108, "%zu", len);
		dir[len] = 'd';
	}
}

/* So that others cannot keep this thread busy. */
Test(evidence_calls, no_more_than_64_are_asked_for_in_a_sweep)
{
	char name[40];

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "rdmarpc-on-%d-0.0.0.0", i);
		left(name);
	}
	sweeps();
	cr_assert_eq(k.unlinkats, 64);
}

Test(evidence_calls, nor_are_more_than_512_looked_at)
{
	for (int i = 0; i < 1100; i++)
		left("other");
	sweeps();
	cr_assert_eq(k.given, 512);
}
