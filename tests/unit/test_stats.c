/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/compiler.h"
#include "core/base/stats.h"
#include "core/base/stats_abi.h"

static struct rr_stat_seg *seg;

static void make(void)
{
	seg = mmap(NULL, RR_STAT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq((void *)seg, MAP_FAILED);
	rr_stats_init(seg, 77, 1234, "ypserv", "/usr/sbin/ypserv");
}

static uint64_t retired(enum rr_counter c)
{
	return atomic_load(&seg->retired.v[c]);
}

TestSuite(stats, .init = make);

Test(stats, a_new_segment_says_its_layout_and_process)
{
	cr_assert_eq(seg->magic, RR_STAT_MAGIC);
	cr_assert_eq(seg->size, RR_STAT_SIZE);
	cr_assert_eq(seg->ncounters, RR_C_COUNT);
	cr_assert_eq(seg->conn_size, 640);
	cr_assert_eq(seg->pid, 77);
	cr_assert_eq(seg->start_ticks, 1234);
	cr_assert_str_eq(seg->comm, "ypserv");
	cr_assert_gt(seg->created_ns, 0);
	cr_assert_str_eq(seg->release, RR_VERSION);
}

Test(stats, names_too_long_are_cut_and_terminated)
{
	char name[200];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	rr_stats_init(seg, 1, 1, name, NULL);
	cr_assert_eq(strlen(seg->comm), sizeof(seg->comm) - 1);
	cr_assert_str_eq(seg->exe, "");
}

Test(stats, an_entry_is_fresh_and_published)
{
	struct rr_stat_conn *e = rr_stats_claim(seg, 5, true);

	cr_assert_eq(e, &seg->conn[0]);
	cr_assert_eq(e->used, 1);
	cr_assert_eq(e->fd, 5);
	cr_assert_eq(e->server, 1);
	cr_assert_eq(e->state, RR_CS_NEW);
	cr_assert_eq(e->carrier, RR_CARRIER_NONE);
}

Test(stats, an_entry_keeps_the_first_program_until_it_is_freed)
{
	struct rr_stat_conn *e = rr_stats_claim(seg, 5, true);

	rr_stats_program(e, 0);
	cr_assert_eq(e->program, 0);
	rr_stats_program(e, 100003);
	rr_stats_program(e, 100005);
	cr_assert_eq(e->program, 100003);
	rr_stats_release(seg, e);
	cr_assert_eq(rr_stats_claim(seg, 6, false), e);
	cr_assert_eq(e->program, 0);
}

Test(stats, release_folds_counts_and_frees_the_entry)
{
	struct rr_stat_conn *a = rr_stats_claim(seg, 5, false), *b = rr_stats_claim(seg, 6, false);

	cr_assert_neq(a, b);
	rr_count(rr_stats_counters(a), RR_C_calls_sent, 3);
	rr_count(rr_stats_counters(b), RR_C_calls_sent, 4);
	rr_stats_release(seg, a);
	cr_assert_eq(retired(RR_C_calls_sent), 3);
	cr_assert_eq(a->used, 0);
	cr_assert_eq(rr_stats_claim(seg, 7, false), a);
	cr_assert_eq(a->count.v[RR_C_calls_sent], 0);
	cr_assert_str_eq(a->peer, "");
	rr_stats_release(seg, b);
	rr_stats_release(seg, a);
	cr_assert_eq(retired(RR_C_calls_sent), 7);
}

/* A connection by TCP that may still be carried is counted when that is decided, or when it ends. */
Test(stats, an_undecided_connection_counts_once_it_is_decided)
{
	struct rr_stat_conn *e[4];

	for (int i = 0; i < 4; i++) {
		e[i] = rr_stats_claim(seg, 5 + i, true);
		rr_stats_state(seg, e[i], RR_CS_NEW, RR_CARRIER_TCP, RR_R_NO_OFFER);
	}
	cr_assert_eq(seg->carriers[RR_CARRIER_TCP], 0);
	rr_stats_state(seg, e[0], RR_CS_CARRIED, RR_CARRIER_SHM, RR_R_NONE);
	rr_stats_release(seg, e[0]);
	cr_assert_eq(seg->carriers[RR_CARRIER_TCP], 0);
	cr_assert_eq(seg->carriers[RR_CARRIER_SHM], 1);
	rr_stats_state(seg, e[1], RR_CS_TCP, RR_CARRIER_TCP, RR_R_NO_OFFER);
	rr_stats_release(seg, e[1]);
	cr_assert_eq(seg->carriers[RR_CARRIER_TCP], 1);
	rr_stats_release(seg, e[2]);
	cr_assert_eq(seg->carriers[RR_CARRIER_TCP], 2);
	cr_assert_eq(seg->reasons[RR_R_NO_OFFER], 2);
}

Test(stats, each_arrival_at_a_carrier_counts_once)
{
	struct rr_stat_conn *e = rr_stats_claim(seg, 5, false);

	rr_stats_state(seg, e, RR_CS_OFFERED, RR_CARRIER_NONE, RR_R_NONE);
	rr_stats_state(seg, e, RR_CS_CARRIED, RR_CARRIER_SHM, RR_R_NONE);
	rr_stats_state(seg, e, RR_CS_DRAINING, RR_CARRIER_SHM, RR_R_HATCH);
	cr_assert_eq(seg->carriers[RR_CARRIER_SHM], 1);
	cr_assert_eq(seg->reasons[RR_R_HATCH], 0, "only what is on TCP has a reason for it");
	rr_stats_state(seg, e, RR_CS_TCP, RR_CARRIER_TCP, RR_R_HATCH);
	rr_stats_state(seg, e, RR_CS_DEAD, RR_CARRIER_TCP, RR_R_CLOSED);
	cr_assert_eq(seg->carriers[RR_CARRIER_SHM], 1);
	cr_assert_eq(seg->carriers[RR_CARRIER_TCP], 1);
	cr_assert_eq(seg->reasons[RR_R_HATCH], 1);
	cr_assert_eq(seg->reasons[RR_R_CLOSED], 0);
	cr_assert_eq(seg->reasons[RR_R_NONE], 0);
	cr_assert_eq(seg->carriers[RR_CARRIER_NONE], 0);
}

Test(stats, a_connection_without_entry_counts_as_tcp_with_its_reason)
{
	rr_stats_tcp(seg, RR_R_POLICY);
	cr_assert_eq(seg->carriers[RR_CARRIER_TCP], 1);
	cr_assert_eq(seg->reasons[RR_R_POLICY], 1);
	cr_assert_eq(seg->conn[0].used, 0);
}

Test(stats, beyond_the_last_entry_connections_share_it)
{
	struct rr_stat_conn *last = &seg->conn[RR_STAT_CONNS - 1], *e = NULL;
	struct sockaddr_in in = { .sin_family = AF_INET };

	for (unsigned i = 0; i < RR_STAT_OWN + 4; i++) {
		e = rr_stats_claim(seg, (int)i, false);
		rr_count(rr_stats_counters(e), RR_C_calls_sent, 1);
		if (i < RR_STAT_OWN)
			cr_assert_eq(e, &seg->conn[i]);
	}
	cr_assert_eq(e, last);
	rr_stats_release(seg, e);
	cr_assert_eq(last->used, 1, "others are in it");
	cr_assert_eq(retired(RR_C_calls_sent), 4);
	rr_stats_release(seg, &seg->conn[100]);
	e = rr_stats_claim(seg, 9, false);
	cr_assert_eq(e, &seg->conn[100]);
	rr_stats_addr(e, (struct sockaddr *)&in, NULL);
	cr_assert_str_eq(e->local, "0.0.0.0:0");
}

/* Ten thousand were carried, and 4,864 counted: of those whose offers overlapped, one. */
Test(stats, connections_that_share_the_last_entry_are_counted_one_by_one)
{
	struct rr_stat_conn *e[3];

	for (unsigned i = 0; i < RR_STAT_OWN; i++)
		rr_stats_claim(seg, (int)i, false);
	for (unsigned i = 0; i < 3; i++)
		e[i] = rr_stats_claim(seg, 9, false);
	for (unsigned i = 0; i < 3; i++)
		rr_stats_state(seg, e[i], RR_CS_CARRIED, RR_CARRIER_SHM, RR_R_NONE);
	rr_stats_state(seg, e[0], RR_CS_DRAINING, RR_CARRIER_SHM, RR_R_HATCH);
	cr_assert_eq(seg->carriers[RR_CARRIER_SHM], 3);
}

Test(stats, without_a_segment_everything_goes_nowhere)
{
	struct rr_stat_conn *e = rr_stats_claim(NULL, 5, false);
	struct sockaddr_in in = { .sin_family = AF_INET };

	cr_assert(e);
	rr_count(rr_stats_counters(e), RR_C_calls_sent, 1);
	rr_stats_addr(e, (struct sockaddr *)&in, (struct sockaddr *)&in);
	rr_stats_state(NULL, e, RR_CS_TCP, RR_CARRIER_TCP, RR_R_NO_SHIM);
	rr_stats_tcp(NULL, RR_R_POLICY);
	rr_stats_latency(NULL, 1000);
	rr_stats_release(NULL, e);
}

Test(stats, latency_is_counted_in_its_bucket)
{
	rr_stats_latency(seg, 920);
	rr_stats_latency(seg, 920);
	cr_assert_eq(seg->hist[rr_hist_bucket(920)], 2);
}

Test(stats, names_of_numbers_out_of_range_are_a_question_mark)
{
	cr_assert_str_eq(rr_carrier_name(RR_CARRIER_VERBS), "verbs");
	cr_assert_str_eq(rr_state_name(RR_CS_DEAD), "dead");
	cr_assert_str_eq(rr_reason_text(RR_R_NO_SHIM), "peer has no shim");
	cr_assert_str_eq(rr_carrier_name(RR_CARRIER_COUNT), "?");
	cr_assert_str_eq(rr_state_name(UINT32_MAX), "?");
	cr_assert_str_eq(rr_reason_text(RR_R_COUNT), "a reason that only another release knows");
}

static const char *text6(const char *addr)
{
	static char out[RR_STAT_ADDR];
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(2049) };

	cr_assert_eq(inet_pton(AF_INET6, addr, &in6.sin6_addr), 1);
	return rr_addr_text((struct sockaddr *)&in6, out, sizeof(out));
}

/* What rdmarpc-stat makes of the entry's two addresses. */
static void expect_ends(const struct rr_stat_conn *e, const char *local, const char *peer)
{
	char text[RR_STAT_ADDR];

	rr_stats_addr_read(e->local, text);
	cr_assert_str_eq(text, local);
	rr_stats_addr_read(e->peer, text);
	cr_assert_str_eq(text, peer);
}

Test(stats, an_address_is_read_in_whichever_way_it_was_written)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(111) };
	struct sockaddr_in6 b = { .sin6_family = AF_INET6, .sin6_port = htons(65535) };
	const struct sockaddr *in = (struct sockaddr *)&a, *in6 = (struct sockaddr *)&b;
	struct rr_stat_conn *e = rr_stats_claim(seg, 3, false);

	inet_pton(AF_INET, "192.0.2.255", &a.sin_addr);
	memset(&b.sin6_addr, 0xff, 16);
	expect_ends(e, "", "");
	rr_stats_addr_raw(e, NULL, in);
	expect_ends(e, "", "192.0.2.255:111");
	cr_assert_str_eq(e->peer, "", "to a reader that knows text alone");
	rr_stats_addr_raw(e, in6, NULL);
	expect_ends(e, "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535", "192.0.2.255:111");
	rr_stats_addr(e, in, in6);
	expect_ends(e, "192.0.2.255:111", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
	cr_assert_str_eq(e->local, "192.0.2.255:111");
	rr_stats_addr_raw(e, NULL, NULL);
	expect_ends(e, "192.0.2.255:111", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
	rr_stats_addr_raw(e, in6, in);
	rr_stats_release(seg, e);
	cr_assert_eq(rr_stats_claim(seg, 3, false), e);
	expect_ends(e, "", "");
	memset(e->peer, 'x', sizeof(e->peer));	/* a writer that is no friend */
	rr_stats_addr_raw(e, in, NULL);
	e->local[8] = 77;
	expect_ends(e, "", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	/* Without a segment nothing is written. */
	e = rr_stats_claim(NULL, 3, false);
	rr_stats_addr_raw(e, in, in);
	rr_stats_addr(e, in, in);
	expect_ends(e, "", "");
}

Test(stats, addresses_are_written_as_people_write_them)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(111) };
	struct sockaddr un = { .sa_family = AF_UNIX };
	char out[RR_STAT_ADDR];

	inet_pton(AF_INET, "192.0.2.255", &in.sin_addr);
	cr_assert_str_eq(rr_addr_text((struct sockaddr *)&in, out, sizeof(out)), "192.0.2.255:111");
	cr_assert_str_eq(rr_addr_text(&un, out, sizeof(out)), "");
	cr_assert_str_eq(text6("::"), "[::]:2049");
	cr_assert_str_eq(text6("::1"), "[::1]:2049");
	cr_assert_str_eq(text6("fe80::"), "[fe80::]:2049");
	cr_assert_str_eq(text6("2001:db8:0:1:0:0:0:1"), "[2001:db8:0:1::1]:2049");
	cr_assert_str_eq(text6("1:0:3:4:5:6:7:8"), "[1:0:3:4:5:6:7:8]:2049");
	cr_assert_str_eq(text6("::ffff:192.0.2.1"), "192.0.2.1:2049");
	cr_assert_str_eq(text6("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
			 "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:2049");
}

static size_t asked_off, asked_len;

static bool give_room(size_t off, size_t len)
{
	asked_off = off;
	asked_len = len;
	return true;
}

/* In whole pages, and not of what has memory already. To a segment in the middle of a page the kernel itself gives none. */
Test(stats, the_file_is_asked_for_the_pages_of_an_entry)
{
	size_t page = RR_PAGE, end = sizeof(*seg) + sizeof(struct rr_stat_conn);
	char *mem = mmap(NULL, RR_STAT_SIZE + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq((void *)mem, MAP_FAILED);
	seg = (struct rr_stat_seg *)(mem + 64);
	rr_stats_init(seg, 1, 1, NULL, NULL);
	atomic_store(&seg->backed, sizeof(*seg));
	atomic_store(&rr_stats_room, give_room);
	cr_assert_eq(rr_stats_claim(seg, 5, true), &seg->conn[0]);
	cr_assert_eq(asked_off, sizeof(*seg) / page * page);
	cr_assert_eq(asked_off + asked_len, (end + page - 1) / page * page);
	cr_assert_eq(seg->backed, asked_off + asked_len);
}
