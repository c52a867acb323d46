/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of an upgrade, one function at a time: what each does at both sides of its bounds, and what a connection
 * has become then. The provider and what asks others are played. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/stats.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"
#include "tests/unit/conn_pair.h"

#define FOR_EVER	(3600 * RR_SEC)

static struct rr_conn *c;
static int fd;
static struct rr_share share, offered[4];
static struct rr_qp offered_qp[4];
static struct rr_qp qp;
static struct rr_prov_ops local = { .name = "near", .id = RR_PROV_ID_SHM, .caps = RR_PROV_LOCAL };
static struct rr_prov_ops far = { .name = "far", .id = RR_PROV_ID_VERBS };

/* --- what is played (the Makefile wraps these) --- */

static struct {
	bool withdrawn, evidence;
	int unmaps, answers, offers;
	enum rr_reason offer_why;
	bool no_random, spoken, not_our_turn;
	enum rr_reason answer_why;
	int withdraws, frees, carries, establish, establishes, join, consumed;
	uint32_t consumed_len;
	const struct rr_prov_ops *second;	/* rr_prov_nth(1) */
	bool not_seen_all, not_consumed;
} t;

bool __wrap_rr_carrier_withdraw(struct rr_share *s);
void __wrap_rr_carrier_free(struct rr_share *s);
int __wrap_rr_carrier_establish(struct rr_share *s);
bool __wrap_rr_carrier_choose(struct rr_share **s, uint8_t id);
int __wrap_rr_carrier_join(struct rr_share *s, const struct rr_prov_addr *a);
void __wrap_rr_upgrade_carry(struct rr_conn *x);
bool __wrap_rr_evidence_look(const struct sockaddr_in6 *peer);
bool __wrap_rr_upgrade_consume(int at, uint32_t n);
bool __wrap_rr_ride_seen_all(const struct rr_conn *x, int at);
const struct rr_prov_ops *__wrap_rr_prov_nth(uint32_t i);
void __wrap_rr_share_unmap(struct rr_share *s);
struct rr_share *__wrap_rr_carrier_answer(const struct rr_prov_ops *o, const struct rr_prov_params *w,
					  const struct rr_nego_prov *offer, struct rr_nego_prov *answer,
					  enum rr_reason *why);

void __wrap_rr_share_unmap(struct rr_share *s)
{
	cr_assert_eq(s, &share);
	t.unmaps++;
}

struct rr_share *__wrap_rr_carrier_answer(const struct rr_prov_ops *o, const struct rr_prov_params *w,
					  const struct rr_nego_prov *offer, struct rr_nego_prov *answer,
					  enum rr_reason *why)
{
	cr_assert(o && w && offer->id == o->id);
	answer->id = offer->id;
	*why = t.answer_why ? t.answer_why : *why;
	return t.answers-- > 0 ? &share : NULL;
}

struct rr_share *__wrap_rr_carrier_offer(const struct rr_prov_ops *o, const struct rr_prov_params *w,
					 struct rr_nego_prov *offer, enum rr_reason *why);
bool __wrap_rr_os_random(void *buf, size_t n);
int __real_rr_pace_establish(struct rr_conn *x);
int __wrap_rr_pace_establish(struct rr_conn *x);
bool __wrap_rr_upgrade_spoken(int at);

struct rr_share *__wrap_rr_carrier_offer(const struct rr_prov_ops *o, const struct rr_prov_params *w,
					 struct rr_nego_prov *offer, enum rr_reason *why)
{
	cr_assert(w);
	if (t.offer_why) {
		*why = t.offer_why;
		return NULL;
	}
	offer->id = o->id;
	offer->addr = (struct rr_prov_addr){ .len = 4, .bytes = "abc" };
	offered[t.offers].qp = &offered_qp[t.offers];
	offered_qp[t.offers].ops = o;
	offered[t.offers].next = NULL;
	return &offered[t.offers++];
}

int __wrap_rr_pace_establish(struct rr_conn *x)
{
	return t.not_our_turn ? RR_PACE_TURN : __real_rr_pace_establish(x);
}

bool __wrap_rr_os_random(void *buf, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)buf)[i] = (uint8_t)(i * 2 + 2);
	return !t.no_random;
}

bool __wrap_rr_upgrade_spoken(int at)
{
	cr_assert_eq(at, fd);
	return t.spoken;
}

bool __wrap_rr_carrier_withdraw(struct rr_share *s)
{
	cr_assert_eq(s, &share);
	t.withdraws++;
	return t.withdrawn;
}

void __wrap_rr_carrier_free(struct rr_share *s)
{
	t.frees += s != NULL;
}

int __wrap_rr_carrier_establish(struct rr_share *s)
{
	cr_assert_eq(s, &share);
	t.establishes++;
	return t.establish;
}

bool __wrap_rr_carrier_choose(struct rr_share **s, uint8_t id)
{
	cr_assert_eq(*s, &share);
	return id == qp.ops->id;
}

int __wrap_rr_carrier_join(struct rr_share *s, const struct rr_prov_addr *a)
{
	cr_assert(s == &share && a);
	return t.join;
}

void __wrap_rr_upgrade_carry(struct rr_conn *x)
{
	cr_assert_eq(x, c);
	t.carries++;
}

bool __wrap_rr_evidence_look(const struct sockaddr_in6 *peer)
{
	cr_assert_eq(peer, &c->peer);
	return t.evidence;
}

bool __wrap_rr_upgrade_consume(int at, uint32_t n)
{
	cr_assert_eq(at, fd);
	t.consumed++;
	t.consumed_len = n;
	return !t.not_consumed;
}

bool __wrap_rr_ride_seen_all(const struct rr_conn *x, int at)
{
	cr_assert(x == c && at == fd);
	return !t.not_seen_all;
}

const struct rr_prov_ops *__wrap_rr_prov_nth(uint32_t i)
{
	return i == 0 ? &local : i == 1 ? t.second : NULL;
}

static void begin(void)
{
	rr_test_params.stats = rr_test_segment;
	rr_test_params.negative_time = 100 * RR_SEC;
	setup();
	share.qp = &qp;
	qp.ops = &local;
}

TestSuite(conn_steps, .init = begin, .timeout = 60);

/* A new connection of this process, the server's or the client's, in this state. */
static void begin_in(enum rr_conn_st st, bool server)
{
	c = server ? p.server.c : p.client.c;
	fd = server ? p.server.fd : p.client.fd;
	rr_report_adopt(c);
	memset(&c->in, 0, sizeof(c->in));
	memset(&c->out, 0, sizeof(c->out));
	c->asked_in = c->asked_out = 0;
	c->deadline = rr_now() + FOR_EVER;
	c->lack = 0;
	c->shut_rd = false;
	c->hold_until = 0;
	c->share = &share;
	memset(&t, 0, sizeof(t));
	rr_conn_turn(c, st);
	rr_cache_drop(&c->peer);
	errno = 0;
}

static void is(enum rr_conn_st st, enum rr_reason why)
{
	cr_assert_eq(rr_conn_st(c), st, "%d", rr_conn_st(c));
	if (why != RR_R_NONE)
		cr_assert_eq(atomic_load(&c->st->reason), why, "%u", atomic_load(&c->st->reason));
}

static void failed(enum rr_reason why)
{
	is(RR_S_TCP, why);
	cr_assert(!c->share && t.frees == 1);
}

static uint64_t counted(enum rr_counter which)
{
	return rr_stats_counters(c->st)->v[which];
}

/* --- time and records go by ------------------------------------------------------------------ */

Test(conn_steps, an_offer_is_waited_for_until_its_deadline)
{
	begin_in(RR_S_ASKED, false);
	rr_asked_step(c, fd);
	is(RR_S_ASKED, RR_R_NONE);
	c->deadline = 1;
	rr_asked_step(c, fd);
	is(RR_S_SWALLOW, RR_R_TIMEOUT);
	cr_assert(!c->share && t.frees == 1);
	begin_in(RR_S_HEARD, true);
	rr_heard_step(c, fd);
	is(RR_S_HEARD, RR_R_NONE);
	c->deadline = 1;
	rr_heard_step(c, fd);
	failed(RR_R_ABANDONED);
}

Test(conn_steps, so_many_records_may_go_by)
{
	for (int server = 0; server < 2; server++) {
		begin_in(RR_S_WATCH, server);
		c->in.records = server ? 63 : 1000;
		c->out.records = server ? 1000 : 63;
		rr_ride_count(c);
		is(RR_S_WATCH, RR_R_NONE);
		if (server)
			c->in.records = 64;
		else
			c->out.records = 64;
		rr_ride_count(c);
		is(RR_S_TCP, server ? RR_R_NO_OFFER : RR_R_FEW_CALLS);
	}
	for (int i = 0; i < 2; i++) {
		begin_in(RR_S_ASKED, false);
		c->asked_in = 10;
		c->asked_out = 20;
		c->in.records = 10 + 63;
		c->out.records = 20 + 63;
		rr_ride_count(c);
		is(RR_S_ASKED, RR_R_NONE);
		*(i ? &c->in.records : &c->out.records) += 1;
		rr_ride_count(c);
		is(RR_S_SWALLOW, RR_R_NOT_ANSWERED);
		cr_assert(!c->share && t.frees == 1);
	}
	begin_in(RR_S_SWALLOW, false);
	c->asked_in = 10;
	c->in.records = 10 + 255;
	c->out.records = 1000;
	rr_ride_count(c);
	is(RR_S_SWALLOW, RR_R_NONE);
	c->in.records++;
	c->in.rm.in_record = true;
	rr_ride_count(c);
	is(RR_S_SWALLOW, RR_R_NONE);
	c->in.rm.in_record = false;
	rr_ride_count(c);
	is(RR_S_TCP, RR_R_TIMEOUT);
	begin_in(RR_S_SAID, true);
	c->in.records = c->out.records = 100000;
	rr_ride_count(c);
	is(RR_S_SAID, RR_R_NONE);
}

Test(conn_steps, a_second_call_is_reported)
{
	begin_in(RR_S_WATCH, false);
	c->seg = NULL;
	c->out.records = 1;
	rr_ride_count(c);
	cr_assert_null(c->seg);
	c->out.records = 2;
	rr_ride_count(c);
	cr_assert(c->seg);
	is(RR_S_WATCH, RR_R_FEW_CALLS);
	c->face.changed = false;
	c->out.records = 3;
	rr_ride_count(c);
	cr_assert_not(c->face.changed, "once");
}

Test(conn_steps, a_fork_and_a_want_of_numbers_end_what_has_not_been_said)
{
	begin_in(RR_S_WATCH, false);
	c->looked = 5;
	rr_watch_forks(c);
	failed(RR_R_FORKED);
	cr_assert_eq(c->looked, 0);
	begin_in(RR_S_WATCH, true);
	c->looked = 5;
	rr_watch_forks(c);
	is(RR_S_WATCH, RR_R_NONE);
	cr_assert(c->looked == 0 && t.frees == 0);
	begin_in(RR_S_HEARD, true);
	rr_heard_forks(c);
	failed(RR_R_FORKED);
	begin_in(RR_S_HEARD, true);
	rr_heard_yield(c);
	failed(RR_R_NO_FDS);
	begin_in(RR_S_ASKED, false);
	rr_asked_yield(c);
	is(RR_S_SWALLOW, RR_R_NO_FDS);
	cr_assert(!c->share && t.frees == 1);
	for (int i = 0; i < 2; i++) {
		begin_in(RR_S_SAID, true);
		t.withdrawn = true;
		(i ? rr_said_forks : rr_said_yield)(c);
		failed(i ? RR_R_FORKED : RR_R_NO_FDS);
		cr_assert(t.withdraws == 1 && t.establishes == 0);
		begin_in(RR_S_SAID, true);
		(i ? rr_said_forks : rr_said_yield)(c);
		cr_assert(t.withdraws == 1 && t.establishes == 1 && t.carries == 1 && t.frees == 0);
		cr_assert_eq(c->share, &share);
	}
}

Test(conn_steps, only_who_negotiates_looks_whether_the_client_has_joined)
{
	begin_in(RR_S_SAID, true);
	c->owner++;
	cr_assert_not(rr_said_joined(c));
	cr_assert_eq(t.establishes, 0);
	c->owner--;
	t.establish = -EAGAIN;
	cr_assert_not(rr_said_joined(c));
	cr_assert_eq(t.establishes, 1);
	rr_conn_turn(c, RR_S_CARRIED);
	cr_assert(rr_said_joined(c));
	rr_conn_turn(c, RR_S_SAID);
	rr_said_step(c, fd);
	cr_assert(t.establishes == 3 && t.carries == 0);
}

Test(conn_steps, in_a_child_the_upgrade_is_its_parents)
{
	begin_in(RR_S_ASKED, false);
	cr_assert_eq(rr_ride_orphan(c), 0);
	is(RR_S_TCP, RR_R_FORKED);
	cr_assert(!c->share && t.unmaps == 1 && t.frees == 0);
	begin_in(RR_S_MEETING, false);
	rr_meeting_step(c, fd);
	cr_assert(t.establishes == 1 && t.carries == 1);
}

/* --- the server's wait ------------------------------------------------------------------------ */

Test(conn_steps, an_answer_that_rode_along_is_taken_up_or_not)
{
	uint64_t failures;

	begin_in(RR_S_SAID, true);
	failures = counted(RR_C_upgrade_failures);
	rr_answer_rides(c);
	cr_assert_eq(t.carries, 1);
	t.establish = -EAGAIN;
	rr_answer_rides(c);
	cr_assert(t.carries == 1 && t.withdraws == 0);
	is(RR_S_SAID, RR_R_NONE);
	c->deadline = 1;	/* the client is on its way */
	rr_answer_rides(c);
	cr_assert(t.withdraws == 1 && c->deadline > rr_now() && c->deadline <= rr_now() + rr_cp->upgrade_timeout);
	is(RR_S_SAID, RR_R_NONE);
	cr_assert_eq(counted(RR_C_upgrade_failures), failures);
	c->deadline = 1;
	t.withdrawn = true;
	rr_answer_rides(c);
	failed(RR_R_ABANDONED);
	cr_assert_eq(counted(RR_C_upgrade_failures), failures + 1);
	begin_in(RR_S_SAID, true);
	t.establish = -ECONNRESET;
	rr_answer_rides(c);
	failed(RR_R_PEER_CHOSE_TCP);
	cr_assert_eq(counted(RR_C_upgrade_failures), failures + 2);
}

static struct rr_os os;
static ssize_t heard;
static int heard_errno;
static uint8_t heard_bytes[600];

static ssize_t hears(int at, void *buf, size_t len, int flags)
{
	cr_assert(at == fd && flags == (MSG_PEEK | MSG_DONTWAIT));
	if (heard_errno) {
		errno = heard_errno;
		return -1;
	}
	memcpy(buf, heard_bytes, rr_min(len, (size_t)heard));
	errno = EAGAIN;		/* of another call */
	return (ssize_t)rr_min((ssize_t)len, heard);
}

static void play_os(void)
{
	os = *rr_os;
	os.recv = hears;
	rr_os = &os;
	heard = heard_errno = 0;
}

Test(conn_steps, a_client_decides_by_its_first_bytes)
{
	uint64_t failures;

	begin_in(RR_S_ANSWERED, true);
	play_os();
	failures = counted(RR_C_upgrade_failures);
	heard_errno = EAGAIN;
	rr_answer_wait(c, fd);
	cr_assert_eq(t.carries, 1);
	t.establish = -EAGAIN;
	rr_answer_wait(c, fd);
	is(RR_S_ANSWERED, RR_R_NONE);
	heard_errno = EINTR;
	rr_answer_wait(c, fd);
	is(RR_S_ANSWERED, RR_R_NONE);
	heard_errno = 0;
	c->shut_rd = true;
	c->deadline = 1;
	t.withdrawn = true;
	rr_answer_wait(c, fd);
	is(RR_S_ANSWERED, RR_R_NONE);
	cr_assert_eq(t.withdraws, 0);
	heard_errno = EAGAIN;
	rr_answer_wait(c, fd);
	failed(RR_R_ABANDONED);
	for (int i = 0; i < 3; i++) {
		begin_in(RR_S_ANSWERED, true);
		t.establish = -EAGAIN;
		heard = i == 0;
		heard_errno = i == 2 ? ECONNRESET : 0;
		rr_answer_wait(c, fd);
		failed(RR_R_PEER_CHOSE_TCP);
		cr_assert_eq(t.withdraws, 0);
		cr_assert_eq(counted(RR_C_upgrade_failures), failures + 2 + (uint64_t)i);
	}
	begin_in(RR_S_ANSWERED, true);	/* somebody has yet to wake up */
	c->sleepers = 1;
	rr_answer_wait(c, fd);
	cr_assert(t.establishes == 0 && c->hold_until);
	c->hold_until = 1;
	rr_answer_wait(c, fd);
	cr_assert_eq(t.carries, 1);
	c->sleepers = 0;
}

Test(conn_steps, sleepers_have_a_moment_to_wake_up)
{
	rr_time now;

	begin_in(RR_S_ASKED, false);
	c->hold_until = 7;
	cr_assert_not(rr_upgrade_waits(c));
	cr_assert_eq(c->hold_until, 0);
	cr_assert_not(rr_upgrade_unseen(c));
	c->sleepers = 1;
	cr_assert(rr_upgrade_unseen(c));
	now = rr_now();
	cr_assert(rr_upgrade_waits(c));
	cr_assert(c->hold_until >= now + 100 * RR_MSEC && c->hold_until <= rr_now() + 100 * RR_MSEC);
	c->hold_until = now;
	cr_assert_not(rr_upgrade_waits(c));
	cr_assert_eq(c->hold_until, now);
	c->sleepers = 0;
}

static bool may_not;

static bool stopped(void)
{
	return may_not;
}

Test(conn_steps, upgrades_may_be_stopped)
{
	cr_assert_not(rr_upgrade_stopped());
	rr_test_params.stopped = stopped;
	cr_assert_not(rr_upgrade_stopped());
	may_not = true;
	cr_assert(rr_upgrade_stopped());
}

Test(conn_steps, of_each_limit_the_smaller_one_counts)
{
	struct rr_hello h = { .caps = ~0u, .credits = 7, .bc_credits = 3, .max_msg = 5000 };
	struct rr_eng_params *ep = &share.ep;

	begin_in(RR_S_OFFERED, false);
	local.caps |= RR_PROV_RING;
	*ep = (struct rr_eng_params){ .credits = 10, .bc_credits = 10, .max_msg = 10000 };
	rr_upgrade_agree(&share, &h, RR_DIALECT_V2);
	cr_assert(ep->dialect == RR_DIALECT_V2 && ep->credits == 7 && ep->bc_credits == 3 && ep->max_msg == 5000);
	cr_assert_eq(ep->caps, RR_CAP_HATCH | RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY | RR_CAP_REVERSE_CHUNKS);
	cr_assert(ep->no_fallback && ep->patient);
	h = (struct rr_hello){ .caps = RR_CAP_HATCH | RR_CAP_RING_CREDITS, .credits = 100, .bc_credits = 100, .max_msg = 99999 };
	*ep = (struct rr_eng_params){ .credits = 10, .bc_credits = 11, .max_msg = 10000 };
	local.caps &= ~(uint32_t)RR_PROV_RING;
	rr_upgrade_agree(&share, &h, RR_DIALECT_V1);
	cr_assert(ep->credits == 10 && ep->bc_credits == 11 && ep->max_msg == 10000 && ep->caps == RR_CAP_HATCH);
	h = (struct rr_hello){ .caps = 0 };
	rr_upgrade_agree(&share, &h, RR_DIALECT_V1);
	cr_assert(ep->credits == 1 && ep->bc_credits == 1 && ep->max_msg == 1024 && ep->caps == 0 && !ep->patient);
}

/* --- what a client that asks is told ----------------------------------------------------------- */

Test(conn_steps, only_who_asks_is_told_and_only_if_that_is_allowed)
{
	struct rr_hello h = { .asks = 1, .nprov = 2, .prov = { { .id = 9 }, { .id = 4 } } }, a = { .release = "x" };

	h.token[3] = 77;
	rr_test_params.tell_peer = false;
	rr_answer_tell(&a, &h, RR_R_POLICY);
	cr_assert(a.release[0] == 0 && a.nlack == 0);
	rr_test_params.tell_peer = true;
	h.asks = 0;
	rr_answer_tell(&a, &h, RR_R_POLICY);
	cr_assert(a.release[0] == 0 && a.nlack == 0);
	h.asks = 1;
	rr_answer_tell(&a, &h, RR_R_NONE);
	cr_assert(a.nlack == 0 && !memcmp(a.release, rr_release, sizeof(a.release)) && a.token[3] == 77);
	rr_answer_tell(&a, &h, RR_R_POLICY);
	cr_assert(a.nlack == 2 && a.lack[0].id == 9 && a.lack[1].id == 4 && a.lack[0].why == RR_R_POLICY &&
		  a.lack[1].why == RR_R_POLICY);
	a.nlack = 1;
	rr_answer_tell(&a, &h, RR_R_NO_FDS);
	cr_assert(a.nlack == 1 && a.lack[0].why == RR_R_POLICY, "what was tried is said already");
	cr_assert_eq(rr_answer_refusal(RR_R_ADDRESSES), RR_NEGO_ELSEWHERE);
	cr_assert_eq(rr_answer_refusal(RR_R_ONE_HOST), RR_NEGO_ONE_HOST);
	cr_assert_eq(rr_answer_refusal(RR_R_POLICY), RR_NEGO_DECLINED);
}

Test(conn_steps, an_offer_is_accepted_or_there_is_a_reason)
{
	struct rr_hello h = { .version = RR_NEGO_VERSION, .nprov = 1, .prov = { { .id = RR_PROV_ID_SHM } } }, a;
	enum rr_reason why = RR_R_NO_ROUTE;

	begin_in(RR_S_NEW, true);
	rr_own_place(&h, p.client.c);
	t.answers = 9;
	h.version++;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert(why == RR_R_RELEASES && a.nlack == 0);
	h.version--;
	h.ends[0] ^= 1;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert_eq(why, RR_R_ADDRESSES);
	h.ends[0] ^= 1;
	h.dialects = rr_dialects_add(0, RR_DIALECT_V2);
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert_eq(why, RR_R_DIALECT);
	cr_assert_eq(t.answers, 9, "nobody was asked");
	t.answers = 0;
	h.prov[0].id = 200;
	h.dialects = 0;
	h.caps = RR_CAP_HATCH | RR_CAP_CROSSING;
	h.token[1] = 9;
	rr_own_place(&h, p.client.c);
	why = RR_R_NO_ROUTE;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert(why == RR_R_NO_ROUTE && a.nlack == 1 && a.lack[0].id == 200 && a.lack[0].why == RR_R_DISABLED);
	cr_assert(a.caps == RR_CAP_HATCH && a.token[1] == 9 && a.inline_size == 0 && a.recvs == 0 && a.nprov == 0);
	cr_assert_eq(a.dialects, rr_dialects_add(0, RR_DIALECT_V1));
	rr_test_params.verbs = true;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert(a.nlack == 1 && a.lack[0].why == RR_R_NO_DEVICE);
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_DEVICE);
	h.nprov = 2;
	h.prov[1].id = RR_PROV_ID_SHM;
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_DEVICE);
	h.nprov = 1;
	h.prov[0].id = RR_PROV_ID_SHM;
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_ROUTE, "there was none to be needed");
	h.prov[0].id = 200;
	t.second = &far;
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_ROUTE);
	rr_test_params.verbs = false;
	t.second = NULL;
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_ROUTE);
	/* By memory of another host. */
	h.prov[0].id = RR_PROV_ID_SHM;
	h.host[0] ^= 1;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert(a.nlack == 1 && a.lack[0].why == RR_R_OTHER_HOST);
	h.host[0] ^= 1;
	cr_assert_eq(rr_answer_why_not(c, &h), RR_R_NO_ROUTE, "within one namespace");
	h.nprov = 0;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert_eq(a.nlack, 0);
	/* Each of several has its own. */
	h.nprov = 2;
	h.prov[1].id = 200;
	t.answer_why = RR_R_NO_MEMORY;
	why = RR_R_NO_ROUTE;
	cr_assert_not(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert(a.nlack == 2 && a.lack[0].id == RR_PROV_ID_SHM && a.lack[0].why == RR_R_NO_MEMORY && a.lack[1].id == 200);
	cr_assert(a.lack[1].why == RR_R_DISABLED && why == RR_R_NO_MEMORY);
	t.answers = 1;
	t.answer_why = RR_R_NONE;
	h.credits = 2;
	share.ep.credits = 9;
	h.prov[0].id = 200;
	h.prov[1].id = RR_PROV_ID_SHM;
	cr_assert(rr_answer_accept(c, fd, &h, &a, &why));
	cr_assert(c->share == &share && a.nprov == 1 && a.prov[0].id == RR_PROV_ID_SHM && share.ep.credits == 2);
}

Test(conn_steps, what_was_shown_of_each_provider_is_noted_for_who_asked)
{
	struct rr_hello a = { .release = "9.9", .nlack = 3,
			      .lack = { { 255, RR_R_POLICY }, { 2, RR_R_NO_DEVICE }, { 1, RR_R_ONE_HOST }, { 3, RR_R_POLICY } } };
	struct rr_stat_told *told;

	begin_in(RR_S_OFFERED, false);
	told = &c->seg->told;
	rr_told_begin(c);
	rr_told_offered(c, 1);
	rr_told_here(c, 2, RR_R_NO_FDS);
	rr_told_there(c, &a);
	cr_assert(!told->offered[1] && !told->here[2] && !told->there[2] && !told->release[0], "nobody has asked");
	rr_test_params.ask_peer = true;
	rr_told_offered(c, 1);
	rr_told_offered(c, RR_TOLD_NATIVE);
	rr_told_offered(c, 200);
	rr_told_here(c, 2, RR_R_NO_FDS);
	rr_told_here(c, RR_STAT_PROVS - 1, RR_R_POLICY);
	rr_told_there(c, &a);
	cr_assert(told->offered[1] == 1 && told->offered[2] == 0 && told->here[2] == RR_R_NO_FDS && told->here[1] == 0);
	cr_assert(told->here[RR_STAT_PROVS - 1] == RR_R_POLICY);
	cr_assert(told->there[1] == RR_R_ONE_HOST && told->there[3] == 0);
	rr_told_offered(c, RR_STAT_PROVS);
	cr_assert_eq(told->here[0], 0);
	cr_assert(told->there[2] == RR_R_NO_DEVICE && !strcmp(told->release, "9.9"));
	rr_told_begin(c);
	cr_assert(told->offered[RR_TOLD_NATIVE] == 1, "a native peer is dialled before");
	for (int i = 0; i < (int)RR_STAT_PROVS; i++)
		cr_assert(i == RR_TOLD_NATIVE || (!told->offered[i] && !told->here[i] && !told->there[i]), "%d", i);
	for (size_t i = 0; i < sizeof(told->release); i++)
		cr_assert_eq(told->release[i], 0);
	c->seg = NULL;
	rr_told_begin(c);
	rr_told_offered(c, 1);
	rr_told_here(c, 1, RR_R_POLICY);
	rr_told_there(c, &a);
	cr_assert(told->offered[1] == 0 && told->here[1] == 0 && told->there[2] == 0);
}

/* --- the client's decisions --------------------------------------------------------------------- */

Test(conn_steps, loopback_is_where_it_is)
{
	struct sockaddr_in *v4;
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	begin_in(RR_S_NEW, false);
	v4 = (void *)&c->peer;
	v4->sin_family = AF_INET;
	v4->sin_addr.s_addr = htonl(0x7f010203);
	cr_assert(rr_offer_by_loopback(&c->peer));
	v4->sin_addr.s_addr = htonl(0x7e010203);
	cr_assert_not(rr_offer_by_loopback(&c->peer));
	v4->sin_addr.s_addr = htonl(0x80010203);
	cr_assert_not(rr_offer_by_loopback(&c->peer));
	c->peer = v6;
	cr_assert_not(rr_offer_by_loopback(&c->peer));
	c->peer.sin6_addr = in6addr_loopback;
	cr_assert(rr_offer_by_loopback(&c->peer));
	c->peer.sin6_addr.s6_addr[15] = 2;
	cr_assert_not(rr_offer_by_loopback(&c->peer));
	c->peer.sin6_addr = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } };
	cr_assert(rr_offer_by_loopback(&c->peer));
	c->peer.sin6_addr.s6_addr[12] = 10;
	cr_assert_not(rr_offer_by_loopback(&c->peer));
}

Test(conn_steps, a_refusal_has_the_reason_that_says_most)
{
	begin_in(RR_S_OFFERED, false);
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_NO), RR_R_NO_SHIM);
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_ELSEWHERE), RR_R_ADDRESSES);
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_ONE_HOST), RR_R_ONE_HOST);
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_DECLINED);
	c->lack = RR_R_NO_FDS;
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_ONE_HOST), RR_R_NO_FDS);
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_ELSEWHERE), RR_R_ADDRESSES);
	c->lack = 0;
	rr_test_params.verbs = true;
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_DECLINED, "no device leads to loopback");
	((struct sockaddr_in *)(void *)&c->peer)->sin_addr.s_addr = htonl(0x0a000001);
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_NO_DEVICE);
	qp.ops = &far;
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_DECLINED, "there is one");
	qp.ops = &local;
	share.next = &(struct rr_share){ .qp = &(struct rr_qp){ .ops = &far } };
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_DECLINED);
	share.next = NULL;
	c->share = NULL;
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_NO_DEVICE);
	rr_test_params.verbs = false;
	cr_assert_eq(rr_offer_declined(c, RR_NEGO_DECLINED), RR_R_DECLINED);
}

static enum rr_mode says_mode;
static uint32_t asked_prog;

static enum rr_mode mode_call(const struct sockaddr *own, const struct sockaddr *peer, uint32_t prog)
{
	cr_assert(own && peer == (struct sockaddr *)&c->peer);
	asked_prog = prog;
	return says_mode;
}

Test(conn_steps, rules_come_first_and_then_what_is_known)
{
	uint32_t prog = 77;

	begin_in(RR_S_NEW, false);
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_NONE);
	cr_assert_not(c->require);
	c->require = true;
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_NONE);
	cr_assert(c->require && rr_offer_required(c));
	c->require = false;
	cr_assert_not(rr_offer_required(c));
	rr_test_params.mode_call = mode_call;
	says_mode = RR_MODE_TCP;
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_POLICY);
	cr_assert_eq(asked_prog, 77);
	cr_assert_eq(rr_offer_may(c, NULL), RR_R_NONE, "no program, no rule");
	says_mode = RR_MODE_REQUIRE;
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_NONE);
	cr_assert(c->require);
	c->require = false;
	c->prog = 78;
	c->called = true;
	cr_assert_not(rr_offer_required(c), "not by the program");
	rr_test_params.require_call = true;
	cr_assert(rr_offer_required(c));
	cr_assert_eq(asked_prog, 78);
	c->called = false;
	cr_assert_not(rr_offer_required(c));
	c->called = true;
	says_mode = RR_MODE_AUTO;
	cr_assert_not(rr_offer_required(c));
	rr_cache_add(&c->peer, RR_R_NO_NATIVE, rr_now() + RR_SEC);
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_NONE);
	rr_cache_add(&c->peer, RR_R_NO_SHIM, rr_now() + 100 * RR_SEC);
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_NO_SHIM);
	rr_cache_drop(&c->peer);
	rr_test_params.stopped = stopped;
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_NONE);
	may_not = true;
	cr_assert_eq(rr_offer_may(c, &prog), RR_R_STOPPED);
}

Test(conn_steps, what_does_not_begin_a_call_gets_no_offer)
{
	static const uint8_t tls[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a client hello";
	size_t n = rr_test_call(out, 1, 10, 1);

	cr_assert_eq(rr_offer_sniff(out, n), RR_R_NONE);
	cr_assert_eq(rr_offer_sniff(out, 15), RR_R_SHORT_WRITE);
	cr_assert_eq(rr_offer_sniff(tls, sizeof(tls)), RR_R_NOT_RPC);
	out[31] = 7;	/* flavour AUTH_TLS */
	out[4 + 27] = 7;
	cr_assert_eq(rr_offer_sniff(out, n), RR_R_TLS);
}

static struct rr_hello good_answer(void)
{
	struct rr_hello h = { .version = RR_NEGO_VERSION, .nprov = 1, .prov = { { .id = qp.ops->id } }, .credits = 4,
			      .bc_credits = 4, .max_msg = 1 << 20, .caps = RR_CAP_HATCH };

	memcpy(h.token, share.token, sizeof(h.token));
	return h;
}

Test(conn_steps, a_provider_is_joined_or_there_is_a_reason)
{
	struct rr_hello h;

	begin_in(RR_S_OFFERED, false);
	share.token[0] = 5;
	share.ep.credits = 9;
	h = good_answer();
	cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_NONE);
	cr_assert(share.ep.credits == 4 && share.ep.dialect == RR_DIALECT_V1 && share.ep.no_fallback);
	h.version--;
	cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_RELEASES);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_RELEASES);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now() + rr_cp->negative_time + 1), RR_R_NONE);
	rr_cache_drop(&c->peer);
	for (int i = 0; i < 4; i++) {
		h = good_answer();
		if (i == 0)
			h.nprov = 0;
		else if (i == 1)
			h.nprov = 2;
		else if (i == 2)
			h.prov[0].id++;
		else
			h.token[RR_TOKEN_LEN - 1] ^= 1;
		cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_NO_PROVIDER, "%d", i);
	}
	h = good_answer();
	h.dialects = rr_dialects_add(0, RR_DIALECT_V2);
	cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_DIALECT);
	h = good_answer();
	t.join = -ECANCELED;
	cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_ABANDONED);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NONE);
	t.join = -EIO;
	cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_NO_PROVIDER);
	t.join = -EPROTONOSUPPORT;
	rr_test_params.ask_peer = true;
	cr_assert_eq(rr_offer_join_chosen(c, &h), RR_R_RELEASES);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_RELEASES);
	cr_assert_eq(c->seg->told.here[RR_PROV_ID_SHM], RR_R_RELEASES);
}

Test(conn_steps, a_provider_connects_or_does_not)
{
	uint64_t failures;

	begin_in(RR_S_JOINING, false);
	failures = counted(RR_C_upgrade_failures);
	rr_offer_join(c);
	cr_assert_eq(t.carries, 1);
	t.establish = -EAGAIN;
	rr_offer_join(c);
	is(RR_S_JOINING, RR_R_NONE);
	c->deadline = 1;
	rr_test_params.ask_peer = true;
	rr_offer_join(c);
	failed(RR_R_TIMEOUT);
	cr_assert_eq(c->seg->told.here[RR_PROV_ID_SHM], RR_R_TIMEOUT);
	cr_assert_eq(counted(RR_C_upgrade_failures), failures + 1);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NONE, "of this host nothing is remembered");
	begin_in(RR_S_JOINING, false);
	qp.ops = &far;
	t.establish = -EHOSTUNREACH;
	rr_offer_join(c);
	failed(RR_R_NO_ROUTE);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NO_ROUTE);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now() + rr_cp->negative_time + 1), RR_R_NONE);
	qp.ops = &local;
	/* Other connections come first, however late it is. */
	begin_in(RR_S_MEETING, false);
	t.not_our_turn = true;
	c->deadline = 1;
	rr_offer_join(c);
	is(RR_S_MEETING, RR_R_NONE);
	begin_in(RR_S_SAID, true);
	t.not_our_turn = true;
	c->deadline = 1;
	rr_answer_rides(c);
	is(RR_S_SAID, RR_R_NONE);
	cr_assert_eq(t.withdraws, 0);
	begin_in(RR_S_JOINING, false);
	t.not_our_turn = true;
	rr_offer_join(c);
	cr_assert_eq(t.carries, 1, "who is waited for has no turn");
}

/* --- the answer to an offer that went alone -------------------------------------------------------- */

static void answered(enum rr_nego how, uint32_t caps)
{
	struct rr_hello h = good_answer();

	h.caps |= caps;
	c->xid = 5;
	heard = how == RR_NEGO_OURS ? rr_nego_put_answer(&h, 5, heard_bytes, sizeof(heard_bytes))
				    : rr_nego_put_refusal(how, 5, NULL, heard_bytes, sizeof(heard_bytes));
	heard_errno = 0;
}

Test(conn_steps, an_answer_is_waited_for_and_what_comes_instead_is_the_end_of_it)
{
	begin_in(RR_S_OFFERED, false);
	play_os();
	heard_errno = EAGAIN;
	rr_offer_hear(c, fd);
	is(RR_S_OFFERED, RR_R_NONE);
	heard_errno = EINTR;
	rr_offer_hear(c, fd);
	is(RR_S_OFFERED, RR_R_NONE);
	answered(RR_NEGO_OURS, 0);
	heard = 10;		/* of it */
	rr_offer_hear(c, fd);
	is(RR_S_OFFERED, RR_R_NONE);
	c->deadline = 1;
	c->meanwhile = false;
	c->in.records = 9;
	rr_offer_hear(c, fd);
	is(RR_S_SWALLOW, RR_R_TIMEOUT);
	cr_assert(!c->share && t.frees == 1 && c->in.records == 0);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NEGATIVE_CACHE);
	cr_assert_eq(rr_cache_look(&c->peer, rr_now() + rr_cp->negative_time + 1), RR_R_NONE);
	begin_in(RR_S_OFFERED, false);
	c->deadline = 1;
	c->meanwhile = true;
	rr_offer_hear(c, fd);
	is(RR_S_ASKED, RR_R_NONE);
	cr_assert(c->share && c->deadline > rr_now());
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_TIMEOUT);
	/* The app itself has shut it. */
	begin_in(RR_S_OFFERED, false);
	heard = 0;
	c->shut_rd = true;
	rr_offer_hear(c, fd);
	is(RR_S_SWALLOW, RR_R_CLOSED);
	/* Bytes that are no answer. */
	begin_in(RR_S_OFFERED, false);
	heard = 40;
	memset(heard_bytes, 0x33, 40);
	rr_offer_hear(c, fd);
	is(RR_S_SWALLOW, RR_R_NO_SHIM);
	cr_assert_eq(t.consumed, 0);
}

/* --- an offer that goes alone --------------------------------------------------------------------- */

static unsigned bits;
static uint8_t sent[600];
static ssize_t sent_len;
static int send_errno, sends, resets;

static int shows(struct pollfd *q, nfds_t n, int timeout)
{
	cr_assert(n == 1 && q->fd == fd && timeout == 0);
	q->revents = (short)bits;
	return bits != 0;
}

static ssize_t sending(int at, const void *buf, size_t len, int flags)
{
	cr_assert(at == fd && flags == (MSG_DONTWAIT | MSG_NOSIGNAL) && len <= sizeof(sent));
	sends++;
	errno = send_errno;
	if (send_errno)
		return -1;
	memcpy(sent, buf, len);
	if (!sent_len)
		sent_len = (ssize_t)len;
	return sent_len;
}

static int resetting(int at, int how)
{
	resets += at == fd && how == SHUT_RDWR;
	return 0;
}

static void begin_new(void)
{
	begin_in(RR_S_NEW, false);
	c->share = NULL;
	c->require = false;
	c->meanwhile = false;
	play_os();
	os.poll = shows;
	os.send = sending;
	os.shutdown = resetting;
	bits = POLLOUT;
	sent_len = 0;
	send_errno = sends = resets = 0;
}

static int first(size_t n)
{
	return rr_upgrade_first_write(c, fd, &(struct iovec){ out, n }, 1);
}

static bool unreadable(const struct iovec *iov, int n)
{
	return !iov || !n;
}

Test(conn_steps, everything_is_looked_at_before_an_offer_goes)
{
	size_t n = rr_test_call(out, 7, 10, 1);

	begin_new();
	bits = 0;
	cr_assert_eq(first(n), -EAGAIN);
	is(RR_S_NEW, RR_R_NONE);
	cr_assert_eq(first(0), 0);
	is(RR_S_NEW, RR_R_NONE);
	rr_test_params.readable = unreadable;
	cr_assert_eq(first(n), -EFAULT);
	rr_test_params.readable = NULL;
	bits = POLLOUT | POLLIN;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_SERVER_SPOKE_FIRST);
	begin_new();
	bits = POLLOUT | POLLIN | POLLHUP;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_CLOSED);
	begin_new();
	bits = POLLOUT | POLLERR;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_CLOSED);
	cr_assert_eq(c->prog, 0x20005244);
	begin_new();
	bits = POLLOUT | POLLERR;
	cr_assert_eq(first(10), 0);
	is(RR_S_TCP, RR_R_SHORT_WRITE);
	cr_assert_eq(c->prog, 0);
	begin_new();
	t.spoken = true;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_KERNEL_ONLY);
	cr_assert_eq(sends, 0);
	begin_new();
	rr_test_params.mode_call = mode_call;
	says_mode = RR_MODE_TCP;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_POLICY);
	cr_assert_eq(asked_prog, 0x20005244);
	rr_test_params.mode_call = NULL;
	begin_in(RR_S_NEW, true);
	cr_assert_eq(rr_upgrade_first_write(c, fd, &(struct iovec){ out, n }, 1), 0);
	is(RR_S_TCP, RR_R_SERVER_SPOKE_FIRST);
}

Test(conn_steps, an_offer_says_who_makes_it)
{
	size_t n = rr_test_call(out, 7, 10, 1);
	struct rr_hello h;
	uint32_t xid = 0, need;
	uint64_t before;
	rr_time now;

	begin_new();
	before = counted(RR_C_offers_sent);
	rr_test_params.offer_after = RR_AFTER_WAIT;
	rr_test_params.ask_peer = true;
	c->seg->told.here[3] = 9;
	t.second = &far;
	now = rr_now();
	cr_assert_eq(first(n), 0);
	is(RR_S_OFFERED, RR_R_NONE);
	cr_assert_eq(counted(RR_C_offers_sent), before + 1);
	cr_assert(c->deadline >= now + rr_cp->upgrade_timeout && c->deadline <= rr_now() + rr_cp->upgrade_timeout);
	cr_assert_eq(c->out.ours, (uint32_t)sent_len);
	cr_assert_eq(rr_nego_get_offer(sent, (size_t)sent_len, rr_cp->program, &xid, &h, &need), RR_NEGO_OURS);
	cr_assert(xid == c->xid && xid == (7 ^ (0x08060402 | 1)), "%x", xid);
	cr_assert(h.nprov == 1 && h.prov[0].id == RR_PROV_ID_SHM && t.offers == 1, "no device leads to loopback");
	cr_assert(c->share == &offered[0] && c->lack == RR_R_NONE);
	cr_assert_eq(h.caps, rr_own_caps());
	cr_assert(!c->meanwhile && h.asks);
	cr_assert(h.token[0] == 10 && h.token[15] == 40 && rr_own_host(&h) && rr_own_ends(&h, p.server.c));
	cr_assert(c->seg->told.here[3] == 0 && c->seg->told.offered[RR_PROV_ID_SHM] == 1);
	begin_new();
	rr_test_params.offer_after = 1;
	cr_assert_eq(first(n), 0);
	rr_nego_get_offer(sent, (size_t)sent_len, rr_cp->program, &xid, &h, &need);
	cr_assert(h.caps == (rr_own_caps() | RR_CAP_MEANWHILE) && c->meanwhile);
	begin_new();
	c->require = true;
	cr_assert_eq(first(n), 0);
	rr_nego_get_offer(sent, (size_t)sent_len, rr_cp->program, &xid, &h, &need);
	cr_assert(h.caps == rr_own_caps() && !c->meanwhile);
	c->require = false;
}

Test(conn_steps, all_providers_are_offered_to_another_host)
{
	struct rr_hello h = { .nprov = 0 };

	begin_new();
	((struct sockaddr_in *)(void *)&c->peer)->sin_addr.s_addr = htonl(0x0a000001);
	t.second = &far;
	cr_assert_eq(rr_offer_make(c, fd, &h), RR_R_NONE);
	cr_assert(h.nprov == 2 && h.prov[0].id == RR_PROV_ID_SHM && h.prov[1].id == RR_PROV_ID_VERBS);
	cr_assert(c->share == &offered[0] && offered[0].next == &offered[1] && !offered[1].next);
	c->share = NULL;
	t.offer_why = RR_R_NO_MEMORY;
	rr_test_params.ask_peer = true;
	cr_assert_eq(rr_offer_make(c, fd, &h), RR_R_NO_MEMORY);
	cr_assert(h.nprov == 0 && !c->share && c->lack == RR_R_NO_MEMORY);
	cr_assert(c->seg->told.here[RR_PROV_ID_SHM] == RR_R_NO_MEMORY && c->seg->told.here[RR_PROV_ID_VERBS] == RR_R_NO_MEMORY);
	t.no_random = true;
	t.offer_why = RR_R_NONE;
	cr_assert_eq(rr_offer_make(c, fd, &h), RR_R_NO_MEMORY);
	cr_assert_eq(t.offers, 2);
}

Test(conn_steps, an_offer_that_does_not_go_is_none)
{
	size_t n = rr_test_call(out, 7, 10, 1);

	begin_new();
	send_errno = EAGAIN;
	cr_assert_eq(first(n), -EAGAIN);
	is(RR_S_NEW, RR_R_NONE);
	cr_assert(!c->share && t.frees == 1);
	send_errno = EPIPE;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_CLOSED);
	cr_assert(!c->share && t.frees == 2 && resets == 0);
	begin_new();
	sent_len = 5;	/* half an offer cannot be taken back */
	cr_assert_eq(first(n), 0);
	failed(RR_R_INTERNAL);
	cr_assert_eq(resets, 1);
	begin_new();
	t.no_random = true;
	cr_assert_eq(first(n), 0);
	is(RR_S_TCP, RR_R_NO_MEMORY);
	cr_assert_eq(sends, 0);
}

Test(conn_steps, who_reads_first_may_find_what_is_not_for_us)
{
	begin_new();
	cr_assert_eq(rr_upgrade_first_read(c, fd), -EAGAIN);
	bits = 0;
	cr_assert_eq(rr_upgrade_first_read(c, fd), -EAGAIN);
	is(RR_S_NEW, RR_R_NONE);
	bits = POLLIN;
	cr_assert_eq(rr_upgrade_first_read(c, fd), RR_CONN_KERNEL);
	is(RR_S_TCP, RR_R_SERVER_SPOKE_FIRST);
	begin_new();
	bits = POLLHUP | POLLOUT;
	cr_assert_eq(rr_upgrade_first_read(c, fd), RR_CONN_KERNEL);
	begin_in(RR_S_NEW, true);
	cr_assert_eq(rr_upgrade_first_read(c, fd), -EAGAIN);
}

static int connects, connect_fails;
static struct sockaddr_in connected[2];

static int connecting(int at, const struct sockaddr *a, socklen_t len)
{
	cr_assert_eq(at, fd);
	memcpy(&connected[connects], a, rr_min((size_t)len, sizeof(connected[0])));
	errno = EINPROGRESS;
	return connects++ == connect_fails ? -1 : 0;
}

Test(conn_steps, a_server_that_closes_on_the_offer_is_connected_to_again)
{
	for (int i = 0; i < 3; i++) {
		begin_in(RR_S_OFFERED, false);
		play_os();
		os.connect = connecting;
		connects = 0;
		connect_fails = i == 2 ? 1 : -1;
		heard_errno = i ? ECONNRESET : 0;
		c->told[0] = c->told[1] = true;
		c->end[0].sin6_port = 1;
		rr_offer_hear(c, fd);
		cr_assert(!c->told[0] || c->end[0].sin6_port != 1, "its address may be another");
		cr_assert(connects == 2 && connected[0].sin_family == AF_UNSPEC);
		cr_assert_eq(memcmp(&connected[1], &c->peer, sizeof(connected[1])), 0);
		failed(RR_R_CLOSED_ON_OFFER);
		cr_assert_eq(rr_cache_look(&c->peer, rr_now() + 10 * rr_cp->negative_time - RR_SEC), RR_R_NEGATIVE_CACHE);
		cr_assert_eq(rr_cache_look(&c->peer, rr_now() + 10 * rr_cp->negative_time + 1), RR_R_NONE);
	}
	begin_in(RR_S_OFFERED, false);
	connects = connect_fails = 0;
	rr_offer_hear(c, fd);
	cr_assert_eq(connects, 1, "what is connected still is not connected again");
	failed(RR_R_CLOSED_ON_OFFER);
}

Test(conn_steps, an_answer_leads_to_the_provider)
{
	uint64_t failures;

	begin_in(RR_S_OFFERED, false);
	play_os();
	c->meanwhile = false;
	answered(RR_NEGO_OURS, RR_CAP_MEANWHILE);
	t.establish = -EAGAIN;
	rr_offer_hear(c, fd);
	is(RR_S_JOINING, RR_R_NONE);
	cr_assert(t.consumed == 1 && t.consumed_len == (uint32_t)heard && c->in.ours == (uint32_t)heard);
	cr_assert(rr_learned_is_ours(&c->peer));
	begin_in(RR_S_OFFERED, false);
	c->meanwhile = true;
	t.establish = -EAGAIN;
	rr_offer_hear(c, fd);
	is(RR_S_MEETING, RR_R_NONE);
	begin_in(RR_S_OFFERED, false);
	c->meanwhile = true;
	answered(RR_NEGO_OURS, 0);
	t.establish = -EAGAIN;
	rr_offer_hear(c, fd);
	is(RR_S_JOINING, RR_R_NONE);
	begin_in(RR_S_OFFERED, false);
	t.not_consumed = true;
	rr_offer_hear(c, fd);
	failed(RR_R_INTERNAL);
	begin_in(RR_S_OFFERED, false);
	t.join = -EIO;
	failures = counted(RR_C_upgrade_failures);
	rr_offer_hear(c, fd);
	failed(RR_R_NO_PROVIDER);
	cr_assert_eq(counted(RR_C_upgrade_failures), failures + 1);
	begin_in(RR_S_OFFERED, false);
	c->meanwhile = true;
	answered(RR_NEGO_OURS, RR_CAP_MEANWHILE);
	t.join = -EIO;
	rr_offer_hear(c, fd);
	failed(RR_R_NO_PROVIDER);
	cr_assert_eq(counted(RR_C_upgrade_failures), failures + 2);
	/* Somebody sleeps who does not wake. */
	begin_in(RR_S_OFFERED, false);
	c->meanwhile = false;
	c->sleepers = 1;
	rr_offer_hear(c, fd);
	is(RR_S_OFFERED, RR_R_NONE);
	c->hold_until = 1;
	rr_offer_hear(c, fd);
	failed(RR_R_KERNEL_ONLY);
	c->sleepers = 0;
}

Test(conn_steps, a_refusal_is_remembered)
{
	static const struct { enum rr_nego how; enum rr_reason why; } of[] = {
		{ RR_NEGO_DECLINED, RR_R_DECLINED }, { RR_NEGO_ELSEWHERE, RR_R_ADDRESSES }, { RR_NEGO_ONE_HOST, RR_R_ONE_HOST },
	};

	for (unsigned i = 0; i < rr_array_size(of); i++) {
		begin_in(RR_S_OFFERED, false);
		play_os();
		rr_learned_ours(&c->peer, false);
		answered(of[i].how, 0);
		rr_offer_hear(c, fd);
		failed(of[i].why);
		cr_assert(t.consumed == 1 && t.consumed_len == (uint32_t)heard);
		cr_assert(rr_learned_is_ours(&c->peer));
		cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NEGATIVE_CACHE);
	}
	begin_in(RR_S_OFFERED, false);	/* PROG_UNAVAIL */
	c->xid = 5;
	heard = (ssize_t)rr_test_reply(heard_bytes, 5, 0, 1);
	heard_bytes[27] = 1;
	rr_offer_hear(c, fd);
	failed(RR_R_NO_SHIM);
	cr_assert_eq(t.consumed, 1);
	cr_assert_not(rr_learned_is_ours(&c->peer));
}

/* --- ... and to one that rode along ------------------------------------------------------------------ */

Test(conn_steps, an_answer_that_rode_along_leads_to_the_provider_or_nowhere)
{
	struct rr_hello h;

	begin_in(RR_S_ASKED, false);
	h = good_answer();
	h.caps |= RR_CAP_CROSSING;
	t.establish = -EAGAIN;
	c->in.ours = 3;
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_OURS, &h, 60), RR_RIDE_OVER);
	is(RR_S_MEETING, RR_R_NONE);
	cr_assert(t.consumed_len == 60 && c->in.ours == 63 && rr_learned_is_ours(&c->peer));
	for (int i = 0; i < 5; i++) {
		begin_in(RR_S_ASKED, false);
		c->meanwhile = i == 1;
		t.not_seen_all = i == 2;
		t.join = i == 3 ? -EIO : 0;
		t.not_consumed = i == 4;
		h = good_answer();
		h.caps |= i ? RR_CAP_CROSSING : RR_CAP_MEANWHILE;
		cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_OURS, &h, 60), RR_RIDE_OVER);
		failed(i < 2 ? RR_R_DECLINED : i == 2 ? RR_R_KERNEL_ONLY : i == 3 ? RR_R_NO_PROVIDER : RR_R_INTERNAL);
	}
	c->meanwhile = false;
	begin_in(RR_S_ASKED, false);
	c->meanwhile = true;
	h = good_answer();
	h.caps |= RR_CAP_MEANWHILE;
	t.establish = -EAGAIN;
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_OURS, &h, 60), RR_RIDE_OVER);
	is(RR_S_MEETING, RR_R_NONE);
	begin_in(RR_S_ASKED, false);
	c->sleepers = 1;
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_OURS, &h, 60), -EAGAIN);
	cr_assert_eq(t.consumed, 0);
	c->sleepers = 0;
}

Test(conn_steps, a_refusal_that_rode_along_is_one)
{
	struct rr_hello h = { .nlack = 0 };

	begin_in(RR_S_ASKED, false);
	rr_learned_ours(&c->peer, false);
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_DECLINED, &h, 60), RR_RIDE_OVER);
	failed(RR_R_DECLINED);
	cr_assert(rr_learned_is_ours(&c->peer));
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NEGATIVE_CACHE);
	begin_in(RR_S_ASKED, false);
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_NO, &h, 60), RR_RIDE_OVER);
	failed(RR_R_NO_SHIM);
	cr_assert_not(rr_learned_is_ours(&c->peer));
	/* Too late to be used. */
	begin_in(RR_S_SWALLOW, false);
	rr_cache_add(&c->peer, RR_R_TIMEOUT, rr_now() + RR_SEC * 100);
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_NO, &h, 60), RR_RIDE_OVER);
	is(RR_S_TCP, RR_R_TIMEOUT);
	cr_assert_not(rr_learned_is_ours(&c->peer));
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_TIMEOUT);
	rr_conn_turn(c, RR_S_SWALLOW);
	cr_assert_eq(rr_ride_take_answer(c, fd, RR_NEGO_OURS, &h, 60), RR_RIDE_OVER);
	is(RR_S_TCP, RR_R_TIMEOUT);
	cr_assert(rr_learned_is_ours(&c->peer));
	cr_assert_eq(rr_cache_look(&c->peer, rr_now()), RR_R_NONE, "it may be offered to again");
}

Test(conn_steps, who_must_be_asked_first)
{
	begin_in(RR_S_NEW, false);
	rr_test_params.verbs = true;
	t.second = &far;
	rr_learned_ours(&c->peer, false);
	cr_assert_not(rr_ride_must_ask(c, fd, 0), "by loopback");
	((struct sockaddr_in *)(void *)&c->peer)->sin_addr.s_addr = htonl(0x0a000001);
	cr_assert(rr_ride_must_ask(c, fd, 0));
	cr_assert_not(rr_ride_must_ask(c, fd, MSG_DONTWAIT));
	t.evidence = true;
	cr_assert_not(rr_ride_must_ask(c, fd, 0));
	t.evidence = false;
	t.second = NULL;
	cr_assert_not(rr_ride_must_ask(c, fd, 0));
	t.second = &far;
	rr_test_params.verbs = false;
	cr_assert_not(rr_ride_must_ask(c, fd, 0));
	rr_test_params.verbs = true;
	rr_cache_add(&c->peer, RR_R_NO_SHIM, rr_now() + RR_SEC * 100);
	cr_assert(rr_ride_must_ask(c, fd, 0));
	rr_cache_add(&c->peer, RR_R_TIMEOUT, rr_now() + RR_SEC * 100);
	cr_assert_not(rr_ride_must_ask(c, fd, 0));
	rr_cache_drop(&c->peer);
	rr_learned_ours(&c->peer, true);
	cr_assert_not(rr_ride_must_ask(c, fd, 0));
	rr_learned_ours(&c->peer, false);
	cr_assert(rr_ride_must_ask(c, fd, 0));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	cr_assert_not(rr_ride_must_ask(c, fd, 0));
	cr_assert_not(rr_ride_must_ask(c, -1, 0));
}

/* --- what was learned --------------------------------------------------------------------------------- */

static struct sockaddr_in6 place(uint32_t i)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = 7 };

	a.sin6_addr.s6_addr32[3] = i;
	return a;
}

Test(conn_steps, the_mean_of_calls_is_learned)
{
	struct sockaddr_in6 a = place(1);

	cr_assert_eq(rr_learned_usual(&a, 5).calls, 0);
	rr_learned_end(&a, 5, 0);
	rr_learned_end(&a, 0, 100);
	cr_assert(rr_learned_usual(&a, 5).calls == 0 && rr_learned_usual(&a, 0).calls == 0 && !rr_learned_is_ours(&a));
	rr_learned_end(&a, 5, 100);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 100);
	rr_learned_end(&a, 5, 100);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 100, "it stays there");
	rr_learned_end(&a, 5, 20);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 80);
	rr_learned_end(&a, 6, 90);
	rr_learned_ours(&a, true);
	cr_assert(rr_learned_is_ours(&a));
	cr_assert(rr_learned_usual(&a, 5).calls == 80 && rr_learned_usual(&a, 6).calls == 90 && rr_learned_most(&a).calls == 90);
	rr_learned_end(&a, 6, 70);
	cr_assert_eq(rr_learned_most(&a).calls, 85);
	a.sin6_port = 8;
	cr_assert(rr_learned_usual(&a, 5).calls == 0 && rr_learned_most(&a).calls == 0 && !rr_learned_is_ours(&a));
	rr_learned_end(&a, 5, 1 << 20);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 1 << 16, "at most");
	a = place(1);
	rr_learned_ours(&a, false);
	cr_assert(!rr_learned_is_ours(&a) && rr_learned_usual(&a, 5).calls == 80);
	a = place(2);
	rr_learned_ours(&a, true);
	cr_assert(rr_learned_is_ours(&a) && rr_learned_most(&a).calls == 0);
}

Test(conn_steps, a_mean_never_becomes_none)
{
	struct sockaddr_in6 a = place(1);

	rr_learned_end(&a, 5, 1);
	for (int i = 0; i < 50; i++)
		rr_learned_end(&a, 5, 1);
	cr_assert_eq(rr_learned_usual(&a, 5).calls, 1);
}

Test(conn_steps, the_place_that_was_not_used_longest_is_forgotten)
{
	struct sockaddr_in6 a;

	for (uint32_t i = 0; i < 64; i++) {
		a = place(i);
		rr_learned_end(&a, 5, i + 1);
	}
	for (uint32_t i = 0; i < 64; i++) {
		a = place(i);
		if (i != 3 && i != 60)
			cr_assert_eq(rr_learned_usual(&a, 5).calls, i + 1);
	}
	a = place(100);
	rr_learned_end(&a, 5, 1000);
	for (uint32_t i = 0; i < 64; i++) {
		a = place(i);
		cr_assert_eq(rr_learned_most(&a).calls, i == 3 ? 0 : i + 1, "%u", i);
	}
	a = place(101);
	rr_learned_end(&a, 5, 1000);
	a = place(60);
	cr_assert_eq(rr_learned_most(&a).calls, 0);
	a = place(100);
	cr_assert_eq(rr_learned_most(&a).calls, 1000);
	a = place(63);
	cr_assert_eq(rr_learned_most(&a).calls, 64);
	a = place(0);
	cr_assert_eq(rr_learned_most(&a).calls, 1);
}
