/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONN_STEPS_H
#define CONN_STEPS_H

/* For tests of the steps of an upgrade, one function at a time: the provider and what asks others are played. The
 * Makefile wraps what begins with __wrap_. */

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
static struct rr_share share, offered[8];
static struct rr_qp offered_qp[8];
static struct rr_qp qp;
static struct rr_prov_ops local = { .name = "near", .id = RR_PROV_ID_SHM, .caps = RR_PROV_LOCAL };
static struct rr_prov_ops far = { .name = "far", .id = RR_PROV_ID_VERBS };

/* --- what is played --- */

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
	size_t room_asked;
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
bool __real_rr_queue_has_room(int at, size_t len);
bool __wrap_rr_queue_has_room(int at, size_t len);
int __real_rr_pace_establish(struct rr_conn *x);
int __wrap_rr_pace_establish(struct rr_conn *x);
bool __wrap_rr_upgrade_spoken(int at);

struct rr_share *__wrap_rr_carrier_offer(const struct rr_prov_ops *o, const struct rr_prov_params *w,
					 struct rr_nego_prov *offer, enum rr_reason *why)
{
	cr_assert(w && t.offers < (int)rr_array_size(offered));
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

bool __wrap_rr_queue_has_room(int at, size_t len)
{
	t.room_asked = len;
	return __real_rr_queue_has_room(at, len);
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

static inline void begin(void)
{
	rr_test_params.stats = rr_test_segment;
	rr_test_params.negative_time = 100 * RR_SEC;
	setup();
	share.qp = &qp;
	qp.ops = &local;
}

/* A new connection of this process, the server's or the client's, in this state. */
static inline void begin_in(enum rr_conn_st st, bool server)
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

static inline void is(enum rr_conn_st st, enum rr_reason why)
{
	cr_assert_eq(rr_conn_st(c), st, "%d", rr_conn_st(c));
	if (why != RR_R_NONE)
		cr_assert_eq(atomic_load(&c->st->reason), why, "%u", atomic_load(&c->st->reason));
}

static inline void failed(enum rr_reason why)
{
	is(RR_S_TCP, why);
	cr_assert(!c->share && t.frees == 1);
}

static inline uint64_t counted(enum rr_counter which)
{
	return rr_stats_counters(c->st)->v[which];
}

static struct rr_os os;
static ssize_t heard;
static int heard_errno;
static uint8_t heard_bytes[600];

static inline ssize_t hears(int at, void *buf, size_t len, int flags)
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

static inline void play_os(void)
{
	os = *rr_os;
	os.recv = hears;
	rr_os = &os;
	heard = heard_errno = 0;
}

/* What poll() says of the socket, and how often it was broken. */
static unsigned bits;
static int resets;

static inline int shows(struct pollfd *q, nfds_t n, int timeout)
{
	cr_assert(n == 1 && q->fd == fd && timeout == 0);
	q->revents = (short)bits;
	return bits != 0;
}

static inline int resetting(int at, int how)
{
	resets += at == fd && how == SHUT_RDWR;
	return 0;
}

static inline void play_socket(unsigned shown)
{
	os.poll = shows;
	os.shutdown = resetting;
	bits = shown;
	resets = 0;
}

static bool may_not;
static int stops_asked;

static inline bool stopped(void)
{
	stops_asked++;
	return may_not;
}

static inline void a_tick_passes(void)
{
	for (rr_time tick = rr_now_coarse(); rr_now_coarse() == tick;)
		;
}

static inline struct rr_hello good_answer(void)
{
	struct rr_hello h = { .version = RR_NEGO_VERSION, .nprov = 1, .prov = { { .id = qp.ops->id } }, .credits = 4,
			      .bc_credits = 4, .max_msg = 1 << 20, .caps = RR_CAP_HATCH };

	memcpy(h.token, share.token, sizeof(h.token));
	return h;
}

#endif
