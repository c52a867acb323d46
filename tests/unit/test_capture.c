/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "preload/rawos.h"
#include "tests/lib/cap_reader.h"

static struct rr_cap_desk desk;
static struct rr_cap_ends ends = { .port = { 111, 900 } };
static struct cap_reader reader = { .fd = -1 };
static uint8_t bytes[1 << 20], got[1 << 20];

static void set_up(void)
{
	rr_os = &rr_raw_os;
	rr_cap_own(&desk);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
}

TestSuite(capture, .init = set_up);

/* A packet of n bytes; false: it was not taken. */
static bool say(uint32_t n, uint32_t most)
{
	struct rr_cap_pen p = { .kind = RR_CAP_RECORD, .flags = RR_CAP_OUT, .len = n, .most = most, .ends = &ends };

	if (!rr_cap_asked() || !rr_cap_begin(&p))
		return false;
	rr_cap_put(&p, bytes, n / 3);
	rr_cap_put(&p, bytes + n / 3, n - n / 3);
	rr_cap_end(&p, true);
	return true;
}

static bool hears(uint32_t len, uint32_t captured)
{
	struct rr_cap_packet h;

	memset(got, 0, sizeof(got));
	return cap_take(&reader, &h, got, sizeof(got)) && h.kind == RR_CAP_RECORD && h.len == len &&
	       h.captured == captured && !memcmp(got, bytes, captured) && h.port[1] == 900;
}

static uint64_t dropped(void)
{
	return atomic_load(&reader.ring->dropped);
}

Test(capture, nobody_has_asked)
{
	cr_assert_not(rr_cap_asked());
	cr_assert_not(say(100, 0));
	cr_assert_eq(desk.version, RR_CAP_VERSION);
	cr_assert_eq(desk.given, 0);
}

Test(capture, the_message_that_finds_somebody_asking_is_in_the_ring)
{
	cap_ask(&desk, 7, 16);
	cr_assert(say(100, 0));
	cr_assert_eq(desk.given, 7);
	cr_assert(rr_ownfd_is(desk.fd));
	cap_attach(&reader, &desk);
	cr_assert(say(200, 0));
	cr_assert(hears(100, 100));
	cr_assert(hears(200, 200));
	cr_assert_not(hears(0, 0));
	cr_assert_eq(dropped(), 0);
}

Test(capture, before_the_reader_comes_only_some_memory_is_used)
{
	uint32_t n = 0;

	cap_ask(&desk, 7, 22);
	while (say(10000, 0))
		n++;
	cr_assert_eq(n, RR_CAP_FIRST / 10080);
	cap_attach(&reader, &desk);
	cr_assert_eq(dropped(), 1);
	cr_assert(say(1000, 0), "it has all of its memory now");
}

Test(capture, a_full_ring_drops_and_counts_and_goes_on_when_it_was_read)
{
	uint32_t n = 1;

	cap_ask(&desk, 7, 16);
	say(1000, 0);
	cap_attach(&reader, &desk);
	while (say(1000, 0))
		n++;
	cr_assert_eq(n, 65536 / 1080);
	cr_assert_not(say(1000, 0));
	cr_assert_eq(dropped(), 2);
	for (uint32_t i = 0; i < n; i++)
		cr_assert(hears(1000, 1000));
	cr_assert_not(hears(0, 0));
	cr_assert(say(1000, 0));
	cr_assert(hears(1000, 1000));
}

Test(capture, packets_go_round_the_end_whole)
{
	cap_ask(&desk, 7, 16);
	say(1, 0);
	cap_attach(&reader, &desk);
	cr_assert(hears(1, 1));
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t n = i * 37 % 9000;

		cr_assert(say(n, 0));
		cr_assert(say(n / 2, 0));
		cr_assert(hears(n, n));
		cr_assert(hears(n / 2, n / 2));
	}
	cr_assert_eq(dropped(), 0);
}

Test(capture, bytes_can_be_written_in_place_round_the_end)
{
	cap_ask(&desk, 7, 16);
	say(1, 0);
	cap_attach(&reader, &desk);
	cr_assert(hears(1, 1));
	for (uint32_t i = 0; i < 50; i++) {
		struct rr_cap_pen p = { .kind = RR_CAP_RECORD, .len = 5003, .ends = &ends };
		uint32_t n, off = 0;
		uint8_t *to;

		cr_assert(rr_cap_begin(&p));
		for (; (to = rr_cap_room(&p, &n), n); off += n)
			memcpy(to, bytes + off, n);
		cr_assert_eq(off, 5003);
		rr_cap_end(&p, true);
		cr_assert(hears(5003, 5003));
	}
}

Test(capture, of_each_packet_as_much_as_is_wanted)
{
	desk.snaplen = 100;
	cap_ask(&desk, 7, 16);
	say(99, 0);
	cap_attach(&reader, &desk);
	say(101, 0);
	say(101, 50);
	cr_assert(hears(99, 99));
	cr_assert(hears(101, 100));
	cr_assert(hears(101, 50));
}

Test(capture, a_packet_leaves_room_for_another_like_it)
{
	uint32_t most = 32768 - sizeof(struct rr_cap_packet);

	cap_ask(&desk, 7, 16);
	say(1, 0);
	cap_attach(&reader, &desk);
	cr_assert(hears(1, 1));
	cr_assert(say(1 << 20, 0));
	cr_assert(say(1 << 20, 0));
	cr_assert_not(say(1, 0));
	cr_assert(hears(1 << 20, most));
	cr_assert(hears(1 << 20, most));
}

Test(capture, what_is_not_good_is_marked)
{
	struct rr_cap_pen p = { .kind = RR_CAP_RECORD, .len = 10, .ends = &ends };
	struct rr_cap_packet h;

	cap_ask(&desk, 7, 16);
	cr_assert(rr_cap_begin(&p));
	rr_cap_end(&p, false);
	cap_attach(&reader, &desk);
	cr_assert(cap_take(&reader, &h, NULL, 0) & RR_CAP_VOID);
}

Test(capture, a_packet_that_is_not_complete_hides_what_comes_after_it)
{
	struct rr_cap_pen p = { .kind = RR_CAP_RECORD, .len = 10, .ends = &ends };

	cap_ask(&desk, 7, 16);
	cr_assert(rr_cap_begin(&p));
	cr_assert(say(20, 0));
	cap_attach(&reader, &desk);
	cr_assert_not(hears(0, 0));
	rr_cap_put(&p, bytes, 10);
	rr_cap_end(&p, true);
	cr_assert(hears(10, 10));
	cr_assert(hears(20, 20));
}

Test(capture, it_ends_when_the_reader_says_that_it_leaves)
{
	int fd;

	cap_ask(&desk, 7, 16);
	say(1, 0);
	fd = desk.fd;
	cap_attach(&reader, &desk);
	atomic_store(&reader.ring->open, 2);
	cr_assert_not(say(1, 0));
	cr_assert_not(rr_cap_asked());
	cr_assert_eq(reader.ring->ended, 1);
	cr_assert_eq(fcntl(fd, F_GETFD), -1);
	cr_assert_not(rr_ownfd_is(fd));
}

Test(capture, it_ends_when_the_reader_dies)
{
	cap_ask(&desk, 7, 16);
	say(1, 0);
	cap_attach(&reader, &desk);
	cap_die(&reader);
	while (rr_cap_asked()) {
		say(1, 0);
		usleep(1000);
	}
	cr_assert_eq(reader.ring->ended, 1);
}

Test(capture, it_ends_when_no_reader_comes)
{
	cap_ask(&desk, 7, 16);
	while (rr_cap_asked()) {
		say(1, 0);
		usleep(1000);
	}
	cr_assert_eq(desk.given, 7);
}

Test(capture, a_reader_that_comes_when_another_has_left_gets_a_ring_of_its_own)
{
	struct rr_cap_ring *was;

	cap_ask(&desk, 7, 16);
	say(1, 0);
	cap_attach(&reader, &desk);
	was = reader.ring;
	atomic_store(&was->open, 2);
	cap_die(&reader);
	cap_ask(&desk, 9, 17);
	cr_assert(say(30, 0));
	cr_assert_eq(was->ended, 1);
	cr_assert_eq(desk.given, 9);
	cap_attach(&reader, &desk);
	cr_assert_eq(reader.ring->size, 1 << 17);
	cr_assert(hears(30, 30));
}

Test(capture, a_reader_that_lies_about_its_place_loses_packets)
{
	static const uint64_t lies[] = { 1, 8, 1 << 16, UINT64_MAX, UINT64_MAX / 2, (UINT64_C(1) << 32) + 8 };

	cap_ask(&desk, 7, 16);
	say(1, 0);
	cap_attach(&reader, &desk);
	for (size_t i = 0; i < rr_array_size(lies); i++) {
		atomic_store(&reader.ring->tail, lies[i]);
		atomic_store(&reader.ring->head, lies[rr_array_size(lies) - 1 - i] & ~UINT64_C(7));
		reader.ring->size = (uint32_t)lies[i];
		for (int n = 0; n < 200; n++)
			say(1000, 0);
	}
}

Test(capture, a_limit_on_files_forbids_it_without_a_signal)
{
	struct rlimit lim = { 4096, RLIM_INFINITY };

	setrlimit(RLIMIT_FSIZE, &lim);
	cap_ask(&desk, 7, 16);
	cr_assert_not(say(1, 0));
	cr_assert_eq(desk.given, 7);
	cr_assert_eq(desk.fd, -EFBIG);
	cr_assert_not(rr_cap_asked());
}

Test(capture, no_descriptor_is_to_be_had)
{
	struct rlimit was, lim;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	lim = was;
	lim.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &lim);
	cap_ask(&desk, 7, 16);
	cr_assert_not(say(1, 0));
	setrlimit(RLIMIT_NOFILE, &was);	/* a sanitizer looks for leaks with it */
	cr_assert_lt(desk.fd, 0);
	cr_assert_not(rr_cap_asked());
}

Test(capture, the_app_may_have_the_number)
{
	int fd;

	cap_ask(&desk, 7, 16);
	say(1, 0);
	fd = desk.fd;
	cr_assert_not(rr_cap_move_fd(fd + 1));
	cr_assert(rr_cap_move_fd(fd));
	cr_assert_eq(fcntl(fd, F_GETFD), -1);
	cr_assert_not(rr_cap_asked());
}

Test(capture, an_app_that_has_closed_the_number_unseen_keeps_what_it_opened_there)
{
	int fd;

	cap_ask(&desk, 7, 16);
	say(1, 0);
	fd = desk.fd;
	cr_assert_eq(dup2(2, fd), fd);
	cr_assert(rr_cap_move_fd(fd));
	cr_assert_neq(fcntl(fd, F_GETFD), -1);
}

/* What a child of ours finds out. */
static int in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		rr_cap_forked();
		_exit(fn());
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int child_says(void)
{
	static struct rr_cap_desk own;

	rr_cap_own(&own);
	return say(40, 0) && !own.ask ? 0 : 1;
}

Test(capture, a_forked_child_writes_to_its_parents_ring)
{
	struct rr_cap_packet h;

	cap_ask(&desk, 7, 16);
	say(30, 0);
	cap_attach(&reader, &desk);
	cr_assert_eq(in_child(child_says), 0);
	say(50, 0);
	cr_assert(hears(30, 30));
	cr_assert(cap_take(&reader, &h, got, sizeof(got)));
	cr_assert_eq(h.len, 40);
	cr_assert_neq(h.pid, getpid());
	cr_assert(hears(50, 50));
}

Test(capture, a_process_that_has_said_nothing_yet_gives_its_child_a_ring)
{
	struct rr_cap_packet h;

	cap_ask(&desk, 7, 16);
	rr_cap_forks();
	cr_assert_eq(desk.given, 7);
	cr_assert_eq(in_child(child_says), 0);
	cap_attach(&reader, &desk);
	cr_assert(cap_take(&reader, &h, got, sizeof(got)));
	cr_assert_eq(h.len, 40);
}

static int child_ends(void)
{
	static struct rr_cap_desk own;

	rr_cap_own(&own);
	if (say(40, 0) || rr_cap_asked() || !desk.ask)
		return 1;
	cap_ask(&own, 3, 16);
	return say(40, 0) && own.given == 3 ? 0 : 2;
}

Test(capture, a_child_that_ends_its_part_leaves_the_parents_alone)
{
	cap_ask(&desk, 7, 16);
	say(30, 0);
	cap_attach(&reader, &desk);
	atomic_store(&reader.ring->open, 2);
	cr_assert_eq(in_child(child_ends), 0);
	cr_assert_eq(desk.ask, 7);
	cr_assert_eq(reader.ring->ended, 0);
	cr_assert_neq(fcntl(desk.fd, F_GETFD), -1);
	atomic_store(&reader.ring->open, 1);
	cr_assert(say(30, 0));
}

static int child_without(void)
{
	cap_ask(&desk, 8, 16);
	return say(40, 0);
}

Test(capture, a_child_of_a_process_that_is_not_captured_has_nowhere_to_be_asked)
{
	cr_assert_eq(in_child(child_without), 0);
}

Test(capture, addresses)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(2049) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(111), .sin6_addr = in6addr_loopback };
	struct rr_cap_ends e;
	char text[INET6_ADDRSTRLEN];

	inet_pton(AF_INET, "10.9.0.1", &in.sin_addr);
	rr_cap_end_set(&e, 0, (struct sockaddr *)&in);
	rr_cap_end_set(&e, 1, (struct sockaddr *)&in6);
	cr_assert_str_eq(inet_ntop(AF_INET6, e.addr[0], text, sizeof(text)), "::ffff:10.9.0.1");
	cr_assert_eq(e.port[0], 2049);
	cr_assert_str_eq(inet_ntop(AF_INET6, e.addr[1], text, sizeof(text)), "::1");
	cr_assert_eq(e.port[1], 111);
	rr_cap_end_set(&e, 1, NULL);
	cr_assert_eq(e.port[1], 0);
}
