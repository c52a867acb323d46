/* SPDX-License-Identifier: BSD-3-Clause */
/* What a server makes of the first bytes of a connection, branch by branch: what they are, and whether they can be answered,
 * is played. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "core/base/os.h"
#include "core/base/stats.h"
#include "core/conn/upgrade/upgrade.h"
#include "tests/lib/connpair.h"
#include "tests/unit/played_clock.h"

enum { FD = 30, NEED = 100, LEN = 60 };

static struct rr_conn c;
static struct rr_os os;
static struct rr_stat_conn *entry;

/* --- what is played (the Makefile wraps these) --- */

static struct {
	ssize_t there;		/* bytes, or -errno */
	bool gone;
	enum rr_nego what;
	uint32_t caps;
	enum rr_reason sniffed;
	bool waits, stopped, spoken, taken, withholds, unseen, accepts;
	enum rr_reason why, why_not;
	bool short_send;
	/* what was done */
	unsigned looks, peeks, sniffs, consumes, sends, breaks, adopts, paces, withheld;
	enum rr_conn_st st;
	enum rr_reason reason, told, refused;
	unsigned becomes, fails, begins, heards, halves;
	bool patient;
	size_t have;
	struct rr_hello said;
	bool said_yes;
} k;

ssize_t __wrap_rr_upgrade_look(int fd, void *buf, size_t len);
ssize_t __wrap_rr_upgrade_peek(int fd, void *buf, size_t len, bool *gone);
enum rr_nego __wrap_rr_nego_get_offer(const uint8_t *buf, size_t len, uint32_t program, uint32_t *xid, struct rr_hello *h,
				      uint32_t *need);
uint32_t __wrap_rr_nego_put_answer(const struct rr_hello *h, uint32_t xid, uint8_t *buf, uint32_t cap);
uint32_t __wrap_rr_nego_put_refusal(enum rr_nego no, uint32_t xid, const struct rr_hello *tell, uint8_t *buf, uint32_t cap);
enum rr_reason __wrap_rr_offer_sniff(const uint8_t *head, size_t have);
bool __wrap_rr_upgrade_waits(struct rr_conn *it);
bool __wrap_rr_upgrade_stopped(void);
bool __wrap_rr_upgrade_spoken(int fd);
bool __wrap_rr_upgrade_consume(int fd, uint32_t n);
bool __wrap_rr_upgrade_withholds(struct rr_conn *it, uint32_t need, size_t have);
bool __wrap_rr_upgrade_unseen(struct rr_conn *it);
void __wrap_rr_upgrade_fails(struct rr_conn *it, enum rr_reason why);
bool __wrap_rr_answer_accept(struct rr_conn *it, int fd, const struct rr_hello *h, struct rr_hello *answer, enum rr_reason *why);
enum rr_reason __wrap_rr_answer_why_not(struct rr_conn *it, const struct rr_hello *h);
void __wrap_rr_answer_tell(struct rr_hello *answer, const struct rr_hello *h, enum rr_reason why);
enum rr_nego __wrap_rr_answer_refusal(enum rr_reason why);
void __wrap_rr_anchor_break(int fd);
void __wrap_rr_conn_become(struct rr_conn *it, enum rr_conn_st st, enum rr_reason why);
void __wrap_rr_report_adopt(struct rr_conn *it);
void __wrap_rr_pace_expire(struct rr_conn *it);
void __wrap_rr_half_add(struct rr_conn *it, bool patient);
void __wrap_rr_ride_begin(struct rr_conn *it, const uint8_t *head, size_t have);
void __wrap_rr_ride_heard(struct rr_conn *it, const struct rr_hello *h, uint32_t xid);

static ssize_t there(void *buf, size_t len)
{
	cr_assert_eq(len, RR_OFFER_MAX);
	for (ssize_t i = 0; i < k.there; i++)
		((uint8_t *)buf)[i] = (uint8_t)(0x81 + i);
	return k.there;
}

ssize_t __wrap_rr_upgrade_look(int fd, void *buf, size_t len)
{
	cr_assert_eq(fd, FD);
	k.looks++;
	return there(buf, len);
}

ssize_t __wrap_rr_upgrade_peek(int fd, void *buf, size_t len, bool *gone)
{
	cr_assert_eq(fd, FD);
	k.peeks++;
	*gone = k.gone;
	return there(buf, len);
}

enum rr_nego __wrap_rr_nego_get_offer(const uint8_t *buf, size_t len, uint32_t program, uint32_t *xid, struct rr_hello *h,
				      uint32_t *need)
{
	cr_assert(buf[0] == 0x81 && len == (size_t)k.there && program == rr_cp->program);
	*xid = 0x1234;
	*need = NEED;
	memset(h, 0, sizeof(*h));
	h->caps = k.caps;
	return k.what;
}

uint32_t __wrap_rr_nego_put_answer(const struct rr_hello *h, uint32_t xid, uint8_t *buf, uint32_t cap)
{
	cr_assert(xid == 0x1234 && cap == RR_ANSWER_MAX);
	k.said = *h;
	k.said_yes = true;
	memset(buf, 'y', LEN);
	return LEN;
}

uint32_t __wrap_rr_nego_put_refusal(enum rr_nego no, uint32_t xid, const struct rr_hello *tell, uint8_t *buf, uint32_t cap)
{
	cr_assert(no == RR_NEGO_ELSEWHERE && xid == 0x1234 && cap == RR_ANSWER_MAX);
	k.said = *tell;
	memset(buf, 'n', LEN);
	return LEN;
}

enum rr_reason __wrap_rr_offer_sniff(const uint8_t *head, size_t have)
{
	cr_assert(head[0] == 0x81 && have == (size_t)k.there);
	k.sniffs++;
	return k.sniffed;
}

bool __wrap_rr_upgrade_waits(struct rr_conn *it)
{
	cr_assert_eq(it, &c);
	return k.waits;
}

bool __wrap_rr_upgrade_stopped(void)
{
	return k.stopped;
}

bool __wrap_rr_upgrade_spoken(int fd)
{
	cr_assert_eq(fd, FD);
	return k.spoken;
}

bool __wrap_rr_upgrade_consume(int fd, uint32_t n)
{
	cr_assert(fd == FD && n == NEED);
	k.consumes++;
	return !k.taken;
}

bool __wrap_rr_upgrade_withholds(struct rr_conn *it, uint32_t need, size_t have)
{
	cr_assert(it == &c && need == NEED && have == (size_t)k.there);
	k.withheld++;
	return k.withholds;
}

bool __wrap_rr_upgrade_unseen(struct rr_conn *it)
{
	cr_assert_eq(it, &c);
	return k.unseen;
}

void __wrap_rr_upgrade_fails(struct rr_conn *it, enum rr_reason why)
{
	cr_assert_eq(it, &c);
	k.fails++;
	k.reason = why;
}

bool __wrap_rr_answer_accept(struct rr_conn *it, int fd, const struct rr_hello *h, struct rr_hello *answer, enum rr_reason *why)
{
	cr_assert(it == &c && fd == FD && h->caps == k.caps && *why == RR_R_NO_ROUTE);
	memset(answer, 0, sizeof(*answer));
	answer->caps = RR_CAP_HATCH;
	if (k.why)
		*why = k.why;
	return k.accepts;
}

enum rr_reason __wrap_rr_answer_why_not(struct rr_conn *it, const struct rr_hello *h)
{
	cr_assert(it == &c && h->caps == k.caps && !k.accepts);
	return k.why_not;
}

void __wrap_rr_answer_tell(struct rr_hello *answer, const struct rr_hello *h, enum rr_reason why)
{
	cr_assert(h->caps == k.caps && answer->nlack == 0);
	k.told = why;
}

enum rr_nego __wrap_rr_answer_refusal(enum rr_reason why)
{
	k.refused = why;
	return RR_NEGO_ELSEWHERE;
}

void __wrap_rr_anchor_break(int fd)
{
	cr_assert(fd == FD && k.fails == 0);
	k.breaks++;
}

void __wrap_rr_conn_become(struct rr_conn *it, enum rr_conn_st st, enum rr_reason why)
{
	cr_assert(it == &c && k.becomes == 0);
	k.becomes++;
	k.st = st;
	k.reason = why;
}

void __wrap_rr_report_adopt(struct rr_conn *it)
{
	cr_assert_eq(it, &c);
	k.adopts++;
	c.st = entry;
}

void __wrap_rr_pace_expire(struct rr_conn *it)
{
	cr_assert(it == &c && k.st == RR_S_SAID);
	k.paces++;
}

void __wrap_rr_half_add(struct rr_conn *it, bool patient)
{
	cr_assert(it == &c && k.st == RR_S_ANSWERED && c.deadline == START + rr_cp->upgrade_timeout);
	k.halves++;
	k.patient = patient;
}

void __wrap_rr_ride_begin(struct rr_conn *it, const uint8_t *head, size_t have)
{
	cr_assert(it == &c && have == (size_t)k.there);
	for (size_t i = 0; i < rr_min(have, (size_t)RR_RM_HDR); i++)
		cr_assert_eq(head[i], 0x81 + i);
	k.begins++;
	k.have = have;
}

void __wrap_rr_ride_heard(struct rr_conn *it, const struct rr_hello *h, uint32_t xid)
{
	cr_assert(it == &c && h->caps == k.caps && xid == 0x1234 && c.in.ours == NEED);
	k.heards++;
}

static ssize_t plays_send(int fd, const void *buf, size_t len, int flags)
{
	cr_assert(fd == FD && len == LEN && flags == (MSG_DONTWAIT | MSG_NOSIGNAL));
	cr_assert_eq(*(const char *)buf, k.said_yes ? 'y' : 'n');
	k.sends++;
	return k.short_send ? LEN - 1 : LEN;
}

/* A whole offer. */
static void afresh(void)
{
	memset(&k, 0, sizeof(k));
	memset(&c, 0, sizeof(c));
	now = START;
	k.there = 200;
	k.what = RR_NEGO_OURS;
	k.accepts = true;
}

static void begin(void)
{
	struct rr_stat_seg *seg = rr_test_segment(true);

	rr_test_setup();
	os = (struct rr_os){ .send = plays_send };
	rr_os = &os;
	entry = rr_stats_claim(seg, FD, true);
	afresh();
}

TestSuite(hear, .init = begin, .timeout = 60);

static void looks(void)
{
	rr_answer_step(&c, FD, false);
	cr_assert(k.peeks == 1 && k.looks == 0);
}

static void is_tcp(enum rr_reason why)
{
	cr_assert(k.becomes == 1 && k.st == RR_S_TCP && k.reason == why && k.sends == 0 && k.fails == 0, "%d", k.reason);
	cr_assert(k.begins == 0 && k.heards == 0 && k.adopts == 0);
}

static void is_undecided(void)
{
	cr_assert(k.becomes == 0 && k.sends == 0 && k.fails == 0 && k.begins == 0 && k.heards == 0 && k.consumes == 0);
}

/* --- not an offer --- */

Test(hear, what_has_not_come_is_not_judged)
{
	k.there = -EAGAIN;
	looks();
	is_undecided();
	cr_assert_eq(k.sniffs, 0);
}

Test(hear, an_end_or_an_error_is_the_apps)
{
	static const ssize_t some[] = { 0, -EIO, -ECONNRESET };

	for (size_t i = 0; i < rr_array_size(some); i++) {
		afresh();
		k.waits = true;
		looks();	/* at an offer, which is on the stack then */
		afresh();
		k.there = some[i];
		looks();
		is_tcp(RR_R_NO_OFFER);
		cr_assert_eq(k.sniffs, 0);
	}
}

Test(hear, who_is_told_does_not_ask_for_an_error)
{
	k.what = RR_NEGO_OTHER;
	rr_answer_step(&c, FD, true);
	cr_assert(k.looks == 1 && k.peeks == 0 && k.begins == 1);
}

Test(hear, a_call_of_the_apps_is_looked_on)
{
	static const ssize_t some[] = { 1, 3, 4, 200 };

	for (size_t i = 0; i < rr_array_size(some); i++) {
		afresh();
		k.there = some[i];
		k.what = RR_NEGO_OTHER;
		looks();
		cr_assert(k.begins == 1 && k.have == (size_t)some[i] && k.becomes == 0 && k.consumes == 0);
	}
}

Test(hear, what_is_not_rpc_is_not)
{
	k.what = RR_NEGO_OTHER;
	k.sniffed = RR_R_NOT_RPC;
	looks();
	is_tcp(RR_R_NOT_RPC);
}

Test(hear, half_an_offer_is_waited_for_and_then_the_apps)
{
	for (int i = 0; i < 2; i++) {
		afresh();
		k.what = RR_NEGO_PART;
		k.there = i ? 50 : 1;
		k.withholds = true;
		looks();
		is_undecided();
		cr_assert_eq(k.withheld, 1);
	}
	afresh();
	k.what = RR_NEGO_PART;
	k.there = 50;
	looks();
	is_tcp(RR_R_NO_OFFER);
	cr_assert_eq(k.consumes, 0);
}

/* --- an offer that is not answered --- */

Test(hear, an_offer_waits_for_those_who_sleep)
{
	k.waits = true;
	k.stopped = k.spoken = k.gone = true;
	looks();
	is_undecided();
}

Test(hear, where_upgrades_are_stopped_it_is_the_apps)
{
	k.stopped = k.spoken = k.gone = true;
	looks();
	is_tcp(RR_R_STOPPED);
	cr_assert_eq(k.consumes, 0);
}

Test(hear, where_the_app_has_spoken_it_is_the_apps)
{
	k.spoken = k.gone = true;
	looks();
	is_tcp(RR_R_NO_OFFER);
	cr_assert_eq(k.consumes, 0);
}

Test(hear, what_another_reader_has_taken_is_not_answered)
{
	k.taken = k.gone = true;
	looks();
	is_tcp(RR_R_NO_OFFER);
	cr_assert_eq(k.consumes, 1);
}

Test(hear, a_client_that_is_gone_is_not_answered)
{
	k.gone = true;
	k.caps = RR_CAP_CROSSING;
	looks();
	is_tcp(RR_R_CLOSED);
	cr_assert_eq(k.consumes, 1);
}

/* --- an offer that is --- */

static uint64_t offers(void)
{
	return rr_stats_counters(entry)->v[RR_C_offers_received];
}

Test(hear, an_offer_that_rides_along_is_answered_along)
{
	k.caps = RR_CAP_CROSSING | RR_CAP_MEANWHILE;
	looks();
	cr_assert(k.heards == 1 && k.consumes == 1 && k.sends == 0 && k.adopts == 0 && k.becomes == 0);
}

Test(hear, a_client_that_waits_is_answered_at_once)
{
	uint64_t before = offers();

	looks();
	cr_assert(k.said_yes && k.sends == 1 && k.adopts == 1 && k.told == RR_R_NONE && k.said.caps == RR_CAP_HATCH);
	cr_assert(k.becomes == 1 && k.st == RR_S_ANSWERED && k.reason == RR_R_NONE && k.halves == 1 && !k.patient);
	cr_assert(k.paces == 0 && k.fails == 0 && k.heards == 0 && c.in.ours == 0 && c.out.ours == 0);
	cr_assert_eq(offers(), before + 1);
}

Test(hear, one_that_goes_on_meanwhile_too)
{
	k.caps = RR_CAP_MEANWHILE;
	looks();
	cr_assert(k.said_yes && k.said.caps == (RR_CAP_HATCH | RR_CAP_MEANWHILE) && k.told == RR_R_NONE);
	cr_assert(k.st == RR_S_SAID && k.reason == RR_R_NONE && k.paces == 1 && k.halves == 0);
	cr_assert(c.in.ours == NEED && c.out.ours == LEN);
}

static void is_refused(enum rr_reason why)
{
	cr_assert(!k.said_yes && k.sends == 1 && k.told == why && k.refused == why && k.fails == 1 && k.reason == why);
	cr_assert(k.becomes == 0 && k.breaks == 0 && k.halves == 0 && k.paces == 0 && c.in.ours == 0);
}

Test(hear, a_refusal_has_its_reason)
{
	k.accepts = false;
	k.caps = RR_CAP_MEANWHILE;
	k.why = RR_R_NO_FDS;
	k.why_not = RR_R_ADDRESSES;
	looks();
	is_refused(RR_R_NO_FDS);
	afresh();
	k.accepts = false;
	k.why_not = RR_R_ADDRESSES;
	looks();
	is_refused(RR_R_ADDRESSES);
}

Test(hear, where_somebody_sleeps_on_tcp_it_is_refused)
{
	k.unseen = true;
	k.why = RR_R_NO_FDS;
	k.why_not = RR_R_ADDRESSES;
	looks();
	is_refused(RR_R_KERNEL_ONLY);
}

Test(hear, an_answer_that_goes_in_part_breaks_the_connection)
{
	for (int yes = 0; yes < 2; yes++) {
		afresh();
		k.accepts = yes;
		k.why_not = RR_R_ADDRESSES;
		k.short_send = true;
		looks();
		cr_assert(k.breaks == 1 && k.fails == 1 && k.reason == RR_R_INTERNAL && k.becomes == 0 && k.halves == 0);
	}
}
