/* SPDX-License-Identifier: BSD-3-Clause */
/* What statistics and the log are told of a connection, and what else changes with its state. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/conn/conn.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/stats.h"
#include "core/conn/base/base.h"
#include "core/conn/base/who.h"
#include "tests/lib/connpair.h"
#include "tests/unit/log_said.h"

#define FD	50

static struct rr_stat_seg *seg;
static int made, looked;
static bool gives = true;
static struct sockaddr_in own = { .sin_family = AF_INET }, peer = { .sin_family = AF_INET };

static struct rr_stat_seg *stats(bool make)
{
	made += make;
	looked += !make;
	return gives ? seg : NULL;
}

static struct linger lingered;
static int shut, lowat;

static int fake_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	cr_assert_eq(fd, FD);
	cr_assert_eq(level, SOL_SOCKET);
	if (name == SO_LINGER)
		memcpy(&lingered, val, len);
	else if (name == SO_RCVLOWAT && len == sizeof(lowat))
		memcpy(&lowat, val, len);
	return 0;
}

static int fake_shutdown(int fd, int how)
{
	cr_assert(fd == FD && how == SHUT_RDWR);
	shut++;
	return 0;
}

static int no_name(int fd, struct sockaddr *sa, socklen_t *len)
{
	(void)fd;
	(void)sa;
	(void)len;
	errno = ENOTCONN;
	return -1;
}

static const struct rr_os fakes = {
	.setsockopt = fake_setsockopt, .shutdown = fake_shutdown, .getsockname = no_name, .getpeername = no_name,
};
static struct rr_conn *c;

static void begin(void)
{
	rr_test_params.stats = stats;
	rr_test_setup();
	rr_os = &fakes;
	seg = calloc(1, RR_STAT_SIZE);
	rr_stats_init(seg, 1, 1, NULL, NULL);
	c = rr_slab_get(false, FD);
	own.sin_port = htons(700);
	peer.sin_port = htons(2049);
	own.sin_addr.s_addr = peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

TestSuite(report, .init = begin, .timeout = 30);

static void knows_its_ends(void)
{
	memcpy(&c->end[0], &own, sizeof(own));
	memcpy(&c->end[1], &peer, sizeof(peer));
	c->told[0] = c->told[1] = true;
}

static bool shows(enum rr_conn_state st, enum rr_carrier carrier, enum rr_reason why)
{
	return c->st->state == st && c->st->carrier == carrier && c->st->reason == why;
}

Test(report, a_connection_has_an_entry)
{
	rr_report_open(c, FD);
	cr_assert(made == 1 && looked == 0 && c->seg == seg && c->st == &seg->conn[0] && c->st->used);
	cr_assert(c->st->fd == FD && !c->st->server && shows(RR_CS_NEW, RR_CARRIER_NONE, RR_R_NONE));
	rr_report(c, RR_CS_TCP, RR_CARRIER_TCP, RR_R_DECLINED);
	cr_assert(shows(RR_CS_TCP, RR_CARRIER_TCP, RR_R_DECLINED) && c->st->program == 0);
	cr_assert(c->st->peer[0] == '\0' && c->st->local[0] == '\0', "they are not known");
	cr_assert_eq(seg->reasons[RR_R_DECLINED], 1);
	knows_its_ends();
	c->prog = 100003;
	rr_report(c, RR_CS_DEAD, RR_CARRIER_NONE, RR_R_REQUIRED);
	cr_assert(shows(RR_CS_DEAD, RR_CARRIER_NONE, RR_R_REQUIRED) && c->st->program == 100003);
	cr_assert_str_eq(c->st->local, "127.0.0.1:700");
	cr_assert_str_eq(c->st->peer, "127.0.0.1:2049");
	rr_report_close(c);
	cr_assert(!c->st && !seg->conn[0].used);
}

/* The engine (the Makefile wraps this). */
static bool fell_back;

void __wrap_rr_eng_info(const struct rr_eng *e, struct rr_eng_info *i);

void __wrap_rr_eng_info(const struct rr_eng *e, struct rr_eng_info *i)
{
	(void)e;
	*i = (struct rr_eng_info){ .version = 1, .fell_back = fell_back };
}

Test(report, who_falls_back_is_told_of)
{
	static struct rr_share sh;

	rr_report_open(c, FD);
	sh.st = c->st;
	rr_log_setup(RR_LOG_INFO, hear);
	rr_report_dialect(&sh);
	cr_assert_str_eq(said, "");
	fell_back = true;
	rr_report_dialect(&sh);
	cr_assert_not_null(strstr(said, ": falls back to version 1"), "%s", said);
}

Test(report, a_servers_entry_says_so)
{
	c->face.server = true;
	rr_report_open(c, FD);
	cr_assert(c->st->server);
}

Test(report, addresses_that_are_found_out_later_are_told)
{
	rr_report_open(c, FD);
	knows_its_ends();
	rr_report_ends(c);
	cr_assert_str_eq(c->st->peer, "127.0.0.1:2049");
	cr_assert_eq(c->st->state, RR_CS_NEW);
}

static const char *said_of(const char *rest)
{
	static char line[400];

	snprintf(line, sizeof(line), "fd %d to 127.0.0.1:2049%s", FD, rest);
	return line;
}

Test(report, the_log_has_a_line_for_each_state)
{
	char rest[200];

	rr_report_open(c, FD);
	knows_its_ends();
	rr_log_setup(RR_LOG_WARN, hear);
	rr_report(c, RR_CS_TCP, RR_CARRIER_TCP, RR_R_NONE);
	cr_assert_str_eq(said, "");
	rr_log_setup(RR_LOG_INFO, hear);
	rr_report(c, RR_CS_TCP, RR_CARRIER_TCP, RR_R_NONE);
	snprintf(rest, sizeof(rest), ": %s, %s\n", rr_state_name(RR_CS_TCP), rr_carrier_name(RR_CARRIER_TCP));
	cr_assert(strstr(said, said_of(rest)), "%s", said);
	said[0] = '\0';
	c->prog = 7;
	rr_report(c, RR_CS_TCP, RR_CARRIER_TCP, RR_R_DECLINED);
	snprintf(rest, sizeof(rest), ", program 7: %s, %s: %s\n", rr_state_name(RR_CS_TCP), rr_carrier_name(RR_CARRIER_TCP),
		 rr_reason_text(RR_R_DECLINED));
	cr_assert(strstr(said, said_of(rest)), "%s", said);
}

/* Its addresses are no text yet. */
Test(report, the_log_names_the_peer_of_an_undecided_connection)
{
	char rest[200];

	rr_report_open(c, FD);
	knows_its_ends();
	rr_log_setup(RR_LOG_INFO, hear);
	rr_report(c, RR_CS_NEW, RR_CARRIER_TCP, RR_R_NONE);
	cr_assert_str_eq(c->st->peer, "");
	snprintf(rest, sizeof(rest), ": %s, %s\n", rr_state_name(RR_CS_NEW), rr_carrier_name(RR_CARRIER_TCP));
	cr_assert(strstr(said, said_of(rest)), "%s", said);
}

/* As far as it is known. */
Test(report, the_log_says_who_a_line_is_about)
{
	struct rr_stat_conn e = { .server = 0 };

	rr_log_setup(RR_LOG_INFO, hear);
	rr_who_write(RR_LOG_INFO, 7, NULL, ": %d", 11);
	cr_assert(strstr(said, "fd 7 to ?: 11\n"), "%s", said);
	said[0] = '\0';
	rr_who_write(RR_LOG_INFO, 7, &e, ": %d", 12);
	cr_assert(strstr(said, "fd 7 to ?: 12\n"), "%s", said);
	said[0] = '\0';
	strcpy(e.peer, "192.0.2.1:700");
	strcpy(e.local, "192.0.2.2:2049");
	rr_who_write(RR_LOG_INFO, 7, &e, ": %d", 13);
	cr_assert(strstr(said, "fd 7 to 192.0.2.1:700: 13\n"), "%s", said);
	said[0] = '\0';
	e.server = 1;
	rr_who_write(RR_LOG_INFO, 8, &e, ": %d", 14);
	cr_assert(strstr(said, "fd 8 from 192.0.2.1:700 at 192.0.2.2:2049: 14\n"), "%s", said);
	said[0] = e.peer[0] = '\0';
	rr_who_write(RR_LOG_INFO, 8, &e, ": %d", 15);
	cr_assert(strstr(said, "fd 8 from ? at 192.0.2.2:2049: 15\n"), "%s", said);
}

/* `rdmarpc-stat --log-level` writes the level into the segment. */
Test(report, the_log_follows_the_segment)
{
	rr_log_setup(RR_LOG_WARN, hear);
	seg->log_level = RR_LOG_INFO + 1;
	rr_report_open(c, FD);
	cr_assert_eq(rr_log_level, RR_LOG_INFO);
	seg->log_level = RR_LOG_ERROR + 1;
	rr_report(c, RR_CS_TCP, RR_CARRIER_TCP, RR_R_NONE);
	cr_assert_eq(rr_log_level, RR_LOG_ERROR);
}

Test(report, a_child_reports_in_its_own_name)
{
	struct rr_stat_conn *st;

	rr_report_open(c, FD);
	st = c->st;
	rr_report_adopt(c);
	cr_assert(c->st == st && made == 1);
	c->owner++;
	rr_report_adopt(c);
	cr_assert(c->st != st && made == 2 && c->owner == (int32_t)rr_pid());
	c->seg = NULL;
	rr_report_adopt(c);
	cr_assert(c->seg == seg && made == 3);
}

Test(report, the_first_clients_of_a_process_are_counted_later)
{
	gives = false;
	for (int i = 0; i < 3; i++) {
		rr_report_client(c, FD);
		cr_assert(looked == i + 1 && made == 0 && !c->seg);
		rr_report_close(c);
	}
	rr_report_client(c, FD);
	cr_assert(looked == 3 && made == 1);
	rr_report_close(c);
	gives = true;
	rr_report_client(c, FD);
	cr_assert_eq(seg->reasons[RR_R_FEW_CALLS], 4);
	rr_report_client(c, FD);
	cr_assert_eq(seg->reasons[RR_R_FEW_CALLS], 4, "once");
	rr_report_close(c);
	cr_assert(seg->reasons[RR_R_FEW_CALLS] == 4 && seg->reasons[RR_R_POLICY] == 0);
}

Test(report, clients_that_a_rule_leaves_to_tcp_are_counted_later_too)
{
	gives = false;
	rr_report_none(false, RR_R_POLICY);
	rr_report_none(false, RR_R_POLICY);
	cr_assert(looked == 2 && made == 0);
	rr_report_none(false, RR_R_DECLINED);
	cr_assert(made == 1, "of others the segment is made");
	rr_report_none(true, RR_R_POLICY);
	cr_assert(made == 2, "and of servers");
	rr_report_none(false, RR_R_POLICY);
	rr_report_none(false, RR_R_POLICY);
	cr_assert(looked == 3 && made == 3, "and once there are three");
	gives = true;
	rr_report_none(true, RR_R_DECLINED);
	cr_assert(seg->reasons[RR_R_POLICY] == 3 && seg->reasons[RR_R_DECLINED] == 1 && seg->reasons[RR_R_FEW_CALLS] == 0);
	rr_report_none(false, RR_R_POLICY);
	cr_assert(seg->reasons[RR_R_POLICY] == 4);
}

Test(report, so_are_clients_that_made_few_calls)
{
	gives = false;
	for (int i = 0; i < 3; i++)
		rr_report_none(false, RR_R_FEW_CALLS);
	cr_assert(looked == 3 && made == 0);
	rr_report_none(false, RR_R_FEW_CALLS);
	cr_assert(made == 1, "once there are three");
	gives = true;
	rr_report_none(false, RR_R_POLICY);
	cr_assert(seg->reasons[RR_R_POLICY] == 1 && seg->reasons[RR_R_FEW_CALLS] == 3);
}

Test(report, who_logs_sees_its_first_client)
{
	gives = false;
	rr_log_setup(RR_LOG_INFO, hear);
	rr_report_client(c, FD);
	cr_assert(made == 1 && looked == 0);
}

Test(report, a_childs_count_begins_anew)
{
	gives = false;
	rr_report_none(false, RR_R_POLICY);
	for (int i = 0; i < 3; i++)
		rr_report_close(c);
	rr_conn_fork_child();
	rr_report_client(c, FD);
	cr_assert(made == 0 && looked == 2, "it has made none");
	gives = true;
	rr_report_client(c, FD);
	cr_assert(seg->reasons[RR_R_FEW_CALLS] == 0 && seg->reasons[RR_R_POLICY] == 0);
}

Test(report, without_statistics_nothing_is_asked)
{
	rr_test_params.stats = NULL;
	rr_report_open(c, FD);
	cr_assert(!c->seg && made == 0 && looked == 0);
	rr_report(c, RR_CS_TCP, RR_CARRIER_TCP, RR_R_DECLINED);
	rr_report_none(true, RR_R_DECLINED);
	rr_report_close(c);
}

/* --- state.c --------------------------------------------------------------------------------------------------- */

static void becomes(enum rr_conn_st st, enum rr_reason why)
{
	c->face.changed = false;
	rr_conn_become(c, st, why);
	cr_assert(c->face.changed);
}

Test(report, states_are_shown)
{
	rr_report_open(c, FD);
	becomes(RR_S_OFFERED, RR_R_NONE);
	cr_assert(c->face.state == RR_S_OFFERED && shows(RR_CS_NEW, RR_CARRIER_NONE, RR_R_NONE), "it has no row");
	becomes(RR_S_WATCH, RR_R_NONE);
	cr_assert(c->face.state == RR_S_WATCH && shows(RR_CS_NEW, RR_CARRIER_TCP, RR_R_NONE));
	becomes(RR_S_SWALLOW, RR_R_TIMEOUT);
	cr_assert(c->face.state == RR_S_SWALLOW && shows(RR_CS_TCP, RR_CARRIER_TCP, RR_R_TIMEOUT));
	becomes(RR_S_TCP, RR_R_DECLINED);
	cr_assert(c->face.state == RR_S_TCP && shows(RR_CS_TCP, RR_CARRIER_TCP, RR_R_DECLINED));
	becomes(RR_S_REFUSED, RR_R_PROTOCOL);
	cr_assert(c->face.state == RR_S_REFUSED && shows(RR_CS_DEAD, RR_CARRIER_NONE, RR_R_PROTOCOL));
	cr_assert(shut == 0 && lowat == 0);
}

Test(report, what_may_not_be_tcp_is_refused)
{
	char want[300];

	rr_log_setup(RR_LOG_ERROR, hear);
	rr_report_open(c, FD);
	knows_its_ends();
	c->require = true;
	becomes(RR_S_WATCH, RR_R_NONE);
	cr_assert(c->face.state == RR_S_WATCH && shut == 0);
	becomes(RR_S_SWALLOW, RR_R_TIMEOUT);
	cr_assert(c->face.state == RR_S_REFUSED && shows(RR_CS_DEAD, RR_CARRIER_NONE, RR_R_REQUIRED));
	cr_assert(shut == 1 && lingered.l_onoff == 1 && lingered.l_linger == 0);
	snprintf(want, sizeof(want), ": refused: %s, and its rule is 'require'\n", rr_reason_text(RR_R_TIMEOUT));
	cr_assert(strstr(said, said_of(want)), "%s", said);
	becomes(RR_S_TCP, RR_R_DECLINED);
	cr_assert(c->face.state == RR_S_REFUSED && shut == 2);
}

Test(report, how_much_a_read_waits_for_is_the_apps_again)
{
	rr_report_open(c, FD);
	c->lowat = 5;
	rr_conn_lowat(c, 40);
	cr_assert(lowat == 40 && c->lowat_set);
	rr_conn_lowat(c, 5);
	cr_assert(lowat == 5 && !c->lowat_set);
	rr_conn_lowat(c, 40);
	becomes(RR_S_TCP, RR_R_DECLINED);
	cr_assert(lowat == 5 && !c->lowat_set);
	lowat = 0;
	becomes(RR_S_TCP, RR_R_DECLINED);
	cr_assert_eq(lowat, 0);
}

Test(report, what_has_an_answer_out_has_none_in_another_state)
{
	rr_report_open(c, FD);
	c->deadline = 1000;
	rr_half_add(c, false);
	cr_assert_eq(rr_half_due(), 1000);
	becomes(RR_S_TCP, RR_R_DECLINED);
	cr_assert(rr_half_due() == 0 && !c->half);
}
