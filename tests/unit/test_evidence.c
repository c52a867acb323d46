/* SPDX-License-Identifier: BSD-3-Clause */
/* By what clients of this host find out that a server has the library: names in the network namespace, and in the run
 * directory. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"
#include "tests/lib/connpair.h"

static struct sockaddr_in at;
static int listener;
static unsigned sockets;

static int counted_socket(int family, int type, int protocol)
{
	sockets++;
	return socket(family, type, protocol);
}

static char run_dir[32];

static const char *our_run_dir(void)
{
	return run_dir;
}

static void begin(void)
{
	static struct rr_os os;

	strcpy(run_dir, "/tmp/rdmarpc-evidence.XXXXXX");
	cr_assert(mkdtemp(run_dir));
	rr_test_params.run_dir = our_run_dir;
	rr_test_params.offer_after = 1;
	rr_test_setup();
	os = *rr_os;
	os.socket = counted_socket;
	rr_os = &os;
	listener = rr_test_listen(&at);
}

static void end(void)
{
	char command[160];

	snprintf(command, sizeof(command), "rm -rf '%s'", run_dir);
	cr_assert_eq(system(command), 0);
}

TestSuite(evidence, .init = begin, .fini = end, .timeout = 60);

static struct sockaddr_in6 peer_of(const struct sockaddr_in *a)
{
	struct sockaddr_in6 p = { 0 };

	memcpy(&p, a, sizeof(*a));
	return p;
}

static bool seen_at(const struct sockaddr_in *a)
{
	struct sockaddr_in6 p = peer_of(a);

	return rr_evidence_look(&p);
}

/* Who was seen is believed to be there for a while. */
static bool goes_out_of_sight(const struct sockaddr_in *a)
{
	for (int i = 0; i < 2000 && seen_at(a); i++)
		rr_os_nap(5 * RR_MSEC);
	return !seen_at(a);
}

static int listen_at(struct sockaddr_in *a, uint32_t addr)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*a);

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(addr) };
	cr_assert_eq(bind(fd, (struct sockaddr *)a, sizeof(*a)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)a, &len), 0);
	return fd;
}

/* The name in the run directory of whoever serves at a; any: at all addresses. */
static struct sockaddr_un file_of(const struct sockaddr_in *a)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	uint32_t addr = ntohl(a->sin_addr.s_addr);

	rr_fmt(sa.sun_path, sizeof(sa.sun_path), "%s/rdmarpc-on-%u-0.0.%x.%x", run_dir, ntohs(a->sin_port),
		 addr ? 0xffffu : 0u, addr);
	return sa;
}

static bool is_file(const struct sockaddr_un *sa)
{
	struct stat st;

	return !lstat(sa->sun_path, &st);
}

static int unix_socket(void)
{
	return socket(AF_UNIX, SOCK_DGRAM, 0);
}

static bool hears(const struct sockaddr_un *sa)
{
	int fd = unix_socket();
	bool yes = !connect(fd, (const struct sockaddr *)sa, sizeof(*sa));

	close(fd);
	return yes;
}

/* Somebody's file; alive: who still has it. */
static int make_file(const char *path, bool alive)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = unix_socket();

	strcpy(sa.sun_path, path);
	cr_assert_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	if (!alive)
		close(fd);
	return alive ? fd : -1;
}

Test(evidence, a_server_is_seen_as_long_as_its_app_listens)
{
	struct sockaddr_un file = file_of(&at);
	struct stat st;
	uint32_t which;

	cr_assert_not(seen_at(&at));
	which = rr_conn_serves(listener);
	cr_assert(which);
	cr_assert(seen_at(&at));
	cr_assert(hears(&file));
	cr_assert_eq(stat(file.sun_path, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0666);
	rr_conn_serves_not(which);
	cr_assert_not(is_file(&file));
	cr_assert(goes_out_of_sight(&at));
}

Test(evidence, without_a_run_directory_the_namespace_has_the_name)
{
	rr_test_params.run_dir = NULL;
	rr_test_setup();
	cr_assert(rr_conn_serves(listener));
	cr_assert(seen_at(&at));
}

/* Another network namespace sees only the file. */
Test(evidence, the_file_alone_is_enough)
{
	struct sockaddr_un file = file_of(&at);

	make_file(file.sun_path, true);
	cr_assert(seen_at(&at));
}

Test(evidence, a_name_that_is_taken_is_enough)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = unix_socket(), n;

	n = snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "rdmarpc-on-%u-0.0.ffff.%x", ntohs(at.sin_port),
		     INADDR_LOOPBACK);
	cr_assert_eq(bind(fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)), 0);
	cr_assert(seen_at(&at));
}

Test(evidence, who_listens_at_all_addresses_is_seen_at_each)
{
	struct sockaddr_in any, one;
	struct sockaddr_un file;

	listen_at(&any, INADDR_ANY);
	one = any;
	one.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 7);
	cr_assert_not(seen_at(&one));
	make_file(file_of(&any).sun_path, true);
	cr_assert(seen_at(&one));
	file = file_of(&at);
	make_file(file.sun_path, true);
	one = at;
	one.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 7);
	cr_assert_not(seen_at(&one), "it listens at one");
	one = at;
	one.sin_port = htons((uint16_t)(ntohs(at.sin_port) ^ 1));
	cr_assert_not(seen_at(&one));
}

Test(evidence, an_ipv4_address_in_ipv6_is_the_same_place)
{
	struct sockaddr_in6 p = { .sin6_family = AF_INET6, .sin6_port = at.sin_port };

	p.sin6_addr.s6_addr16[5] = 0xffff;
	p.sin6_addr.s6_addr32[3] = at.sin_addr.s_addr;
	cr_assert(rr_conn_serves(listener));
	cr_assert(rr_evidence_look(&p));
}

Test(evidence, listeners_at_the_same_place_have_one_name)
{
	struct sockaddr_un file = file_of(&at);
	struct sockaddr_in elsewhere;
	uint32_t which = rr_conn_serves(listener), other = rr_conn_serves(listen_at(&elsewhere, INADDR_LOOPBACK));

	cr_assert_neq(other, which);
	cr_assert_eq(rr_conn_serves(listener), which);
	rr_conn_serves_not(which);
	cr_assert(hears(&file));
	rr_conn_serves_not(other);
	cr_assert(hears(&file));
	rr_conn_serves_not(which);
	cr_assert_not(is_file(&file));
	cr_assert_eq(rr_conn_serves(listener), 1, "the entry is free again");
}

static enum rr_mode never(bool server, const struct sockaddr *local, const struct sockaddr *peer)
{
	cr_assert(server && local && !peer);
	return RR_MODE_TCP;
}

Test(evidence, what_a_rule_leaves_to_tcp_is_not_shown)
{
	rr_test_params.mode = never;
	cr_assert_eq(rr_conn_serves(listener), 0);
	cr_assert_eq(rr_ownfd_next(0), -1);
}

Test(evidence, only_what_the_internet_can_reach_is_shown)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/door", run_dir);
	cr_assert_eq(rr_conn_serves(make_file(path, true)), 0);
	rr_test_params.offer_after = RR_AFTER_WAIT;
	cr_assert_eq(rr_conn_serves(listener), 0);
}

Test(evidence, there_is_room_for_32_places)
{
	struct sockaddr_in a;

	for (uint32_t i = 0; i < 32; i++)
		cr_assert_eq(rr_conn_serves(listen_at(&a, INADDR_LOOPBACK)), i + 1);
	cr_assert_eq(rr_conn_serves(listener), 0);
	cr_assert_eq(rr_conn_serves(listen_at(&a, INADDR_LOOPBACK)), 0);
	rr_conn_serves_not(7);
	cr_assert_eq(rr_conn_serves(listener), 7);
}

Test(evidence, the_file_of_a_dead_process_is_replaced_and_that_of_a_live_one_is_not)
{
	struct sockaddr_un file = file_of(&at), other;
	struct sockaddr_in elsewhere;
	struct stat was, now;
	int fd = listen_at(&elsewhere, INADDR_LOOPBACK);

	make_file(file.sun_path, false);
	cr_assert_not(hears(&file));
	cr_assert(rr_conn_serves(listener));
	cr_assert(hears(&file));
	other = file_of(&elsewhere);
	make_file(other.sun_path, true);
	stat(other.sun_path, &was);
	cr_assert(rr_conn_serves(fd));
	cr_assert_eq(stat(other.sun_path, &now), 0);
	cr_assert_eq(now.st_ino, was.st_ino);
}

static void make_old(const char *path)
{
	struct timespec t[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } };

	clock_gettime(CLOCK_REALTIME, &t[1]);
	t[1].tv_sec -= 120;
	cr_assert_eq(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* What processes have left that were killed goes when the next server comes: sockets of ours by name, old ones, that
 * nobody has. */
Test(evidence, files_that_nobody_has_are_swept)
{
	static const struct {
		const char *name;
		bool alive, old, stays;
	} files[] = {
		{ "rdmarpc-on-2049-0.0.ffff.1", false, true, false },
		{ "rdmarpc-on-2050-0.0.ffff.1", false, false, true },
		{ "rdmarpc-on-2051-0.0.ffff.1", true, true, true },
		{ "rdmarpc-on-2052-x", false, true, true },
		{ "rdmarpc-or-2053-0.0.ffff.1", false, true, true },
	};
	char path[160];

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), "%s/%s", run_dir, files[i].name);
		make_file(path, files[i].alive);
		if (files[i].old)
			make_old(path);
	}
	snprintf(path, sizeof(path), "%s/rdmarpc-on-1-0", run_dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	make_old(path);
	cr_assert(rr_conn_serves(listener));
	cr_assert_eq(access(path, F_OK), 0, "it is no socket");
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), "%s/%s", run_dir, files[i].name);
		cr_assert_eq(!access(path, F_OK), files[i].stays, "%s", files[i].name);
	}
}

/* The kernel does not say that nobody has it, only that it is none of ours. */
Test(evidence, an_old_socket_of_another_kind_is_left_alone)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	rr_fmt(sa.sun_path, sizeof(sa.sun_path), "%s/rdmarpc-on-2049-0.0.ffff.1", run_dir);
	cr_assert_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	make_old(sa.sun_path);
	cr_assert(rr_conn_serves(listener));
	cr_assert_eq(access(sa.sun_path, F_OK), 0);
	close(fd);
}

/* A server does not begin by asking for all that are there. */
Test(evidence, of_many_files_some_are_left_to_the_next_sweep)
{
	char path[160];
	int left = 0, fd = dup(listener);

	close(fd);
	for (int i = 0; i < 70; i++) {
		snprintf(path, sizeof(path), "%s/rdmarpc-on-%d-0", run_dir, i);
		make_file(path, false);
		make_old(path);
	}
	cr_assert(rr_conn_serves(listener));
	for (int i = 0; i < 70; i++) {
		snprintf(path, sizeof(path), "%s/rdmarpc-on-%d-0", run_dir, i);
		left += !access(path, F_OK);
	}
	/* It may have asked for the one that has just been made. */
	cr_assert(left == 70 - 64 || left == 71 - 64, "%d", left);
	cr_assert_eq(dup(listener), fd, "nothing of the sweep is open");
}

/* The app wants a number that a name has. */
Test(evidence, the_names_are_out_of_the_apps_way_and_go_further)
{
	struct sockaddr_un file = file_of(&at);
	uint32_t which = rr_conn_serves(listener);
	int first = rr_ownfd_next(0), second = rr_ownfd_next(first + 1);

	cr_assert(first > listener && second > first);
	cr_assert_eq(rr_ownfd_next(second + 1), -1);
	cr_assert_not(rr_evidence_move(listener));
	for (int fd = first; fd >= 0; fd = fd == first ? second : -1) {
		cr_assert(rr_evidence_move(fd));
		cr_assert_not(rr_ownfd_is(fd));
		close(fd);
	}
	cr_assert(seen_at(&at));
	cr_assert(hears(&file));
	rr_conn_serves_not(which);
	cr_assert_eq(rr_ownfd_next(0), -1);
	cr_assert(goes_out_of_sight(&at));
	cr_assert_not(rr_evidence_move(first));
}

/* Makes no system call for a server that was there a moment ago, of which there are several. */
Test(evidence, who_was_seen_is_not_asked_for_at_each_call)
{
	struct sockaddr_in a[2];
	bool known = false;
	unsigned before;

	for (int i = 0; i < 2; i++)
		cr_assert(rr_conn_serves(listen_at(&a[i], INADDR_LOOPBACK)));
	/* Anything else that runs on this CPU may use up what one look is good for. */
	for (int i = 0; i < 1000 && !known; i++) {
		cr_assert(seen_at(&a[0]) && seen_at(&a[1]));
		before = sockets;
		cr_assert(seen_at(&a[0]) && seen_at(&a[1]));
		known = sockets == before;
	}
	cr_assert(known);
	cr_assert_not(seen_at(&at), "it is not one of them");
}

Test(evidence, a_childs_end_leaves_the_parents_file)
{
	struct sockaddr_un file = file_of(&at);
	uint32_t which = rr_conn_serves(listener);
	pid_t pid = fork();

	if (!pid) {
		rr_conn_fork_child();
		rr_conn_serves_not(which);
		_exit(rr_ownfd_next(0) != -1);
	}
	cr_assert_eq(waitpid(pid, &(int){ 0 }, 0), pid);
	cr_assert(hears(&file));
	cr_assert(seen_at(&at));
}
