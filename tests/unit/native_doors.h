/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NATIVE_DOORS_H
#define NATIVE_DOORS_H

/* Native peers, step by step: provider, clock and the other connections are played (the Makefile wraps these). */

#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/stats.h"
#include "core/conn/native/native.h"
#include "tests/lib/connpair.h"
#include "tests/unit/played_clock.h"

enum { PORT = 20049, SHARES = 40 };

static struct rr_prov_ops ops = { .name = "played" };
static struct rr_lst lst;
static struct rr_share *shares[SHARES];
static struct rr_qp qps[SHARES];

static struct {
	const struct rr_prov_ops *native;
	bool no_params, no_spare, no_shares;
	int listen, listens, unlistens, tend, tends, take[32], takes, news, frees, carries;
	int establish, call, calls, loopback, loops, ends;
	bool end_resets;
	struct sockaddr_in6 at, to, from, peer;
	bool v6only, from_null;
	unsigned knocks;
	rr_time full;
	uint32_t entering, unmet;
	struct rr_share *freed, *failed;
	int fails, progresses;
	bool stays, speaks, busy;
} t;

const struct rr_prov_ops *__wrap_rr_prov_native(void);
bool __wrap_rr_own_params(struct rr_prov_params *p, struct rr_conn *c, const uint8_t *token, int fd);
bool __real_rr_slab_each(enum rr_mark m, void (*fn)(struct rr_conn *, void *), void *ctx);
bool __wrap_rr_slab_each(enum rr_mark m, void (*fn)(struct rr_conn *, void *), void *ctx);
bool __wrap_rr_own_spare(int fd);
int __wrap_rr_carrier_listen(const struct rr_prov_ops *o, const struct sockaddr *a, bool v6only, struct rr_lst **l);
void __wrap_rr_carrier_unlisten(struct rr_lst *l);
int __wrap_rr_carrier_tend(struct rr_lst *l);
struct rr_share *__wrap_rr_carrier_new(const struct rr_prov_ops *o, const struct rr_prov_params *p);
int __wrap_rr_carrier_take(struct rr_lst *l, struct rr_share *s, const struct rr_prov_params *p);
void __wrap_rr_carrier_free(struct rr_share *s);
int __wrap_rr_carrier_establish(struct rr_share *s);
int __wrap_rr_carrier_call(struct rr_share *s, const struct rr_prov_params *p, const struct sockaddr *to,
			   const struct sockaddr *from);
void __wrap_rr_upgrade_carry(struct rr_conn *c);
unsigned __real_rr_anchor_poll(int fd, unsigned want);
unsigned __wrap_rr_anchor_poll(int fd, unsigned want);
uint32_t __wrap_rr_guests_each(void (*fn)(struct rr_conn *));
rr_time __real_rr_guests_full(uint32_t unmet, rr_time at);
rr_time __wrap_rr_guests_full(uint32_t unmet, rr_time at);
int __wrap_rr_loopback_connect(int fd, int *far);
void __wrap_rr_loopback_end(int *far, bool reset);

void __wrap_rr_drv_fail(struct rr_share *s, int err, enum rr_reason why);
rr_time __wrap_rr_drv_progress(struct rr_share *s);

void __wrap_rr_drv_fail(struct rr_share *s, int err, enum rr_reason why)
{
	cr_assert(err == ECONNRESET && why == RR_R_SILENT);
	t.fails++;
	t.failed = s;
	if (!t.stays)
		s->link = RR_LINK_FAILED;
}

rr_time __wrap_rr_drv_progress(struct rr_share *s)
{
	t.progresses++;
	if (t.speaks)
		s->heard = true;
	return 0;
}

const struct rr_prov_ops *__wrap_rr_prov_native(void)
{
	return t.native;
}

bool __wrap_rr_slab_each(enum rr_mark m, void (*fn)(struct rr_conn *, void *), void *ctx)
{
	return !t.busy && __real_rr_slab_each(m, fn, ctx);
}

bool __wrap_rr_own_params(struct rr_prov_params *p, struct rr_conn *c, const uint8_t *token, int fd)
{
	(void)c;
	cr_assert_neq(fd, 0, "a socket, or none: this is standard input");
	cr_assert_null(token);
	memset(p, 0, sizeof(*p));
	return !t.no_params;
}

bool __wrap_rr_own_spare(int fd)
{
	cr_assert_eq(fd, -1);
	return !t.no_spare;
}

int __wrap_rr_carrier_listen(const struct rr_prov_ops *o, const struct sockaddr *a, bool v6only, struct rr_lst **l)
{
	cr_assert_eq(o, &ops);
	t.listens++;
	memcpy(&t.at, a, sizeof(t.at));
	t.v6only = v6only;
	if (!t.listen)
		*l = &lst;
	return t.listen;
}

void __wrap_rr_carrier_unlisten(struct rr_lst *l)
{
	cr_assert_eq(l, &lst);
	t.unlistens++;
}

int __wrap_rr_carrier_tend(struct rr_lst *l)
{
	cr_assert_eq(l, &lst);
	t.tends++;
	return t.tend;
}

struct rr_share *__wrap_rr_carrier_new(const struct rr_prov_ops *o, const struct rr_prov_params *p)
{
	struct rr_share *s;

	cr_assert(o == &ops && p);
	if (t.no_shares)
		return NULL;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	s->size = sizeof(*s);
	s->far = -1;
	s->qp = &qps[t.news];
	s->qp->ops = &ops;
	s->qp->native = true;
	return shares[t.news++] = s;
}

int __wrap_rr_carrier_take(struct rr_lst *l, struct rr_share *s, const struct rr_prov_params *p)
{
	struct sockaddr_in *local = (void *)&s->name[0];

	cr_assert(l == &lst && s && p);
	if (t.take[t.takes] == 0) {
		local->sin_family = AF_INET;
		local->sin_port = htons(PORT);
		local->sin_addr.s_addr = htonl(0x0a000001);
		s->name[1] = t.peer;
	}
	return t.take[t.takes++];
}

void __wrap_rr_carrier_free(struct rr_share *s)
{
	for (; s; s = s->next) {
		t.frees++;
		t.freed = s;
	}
}

int __wrap_rr_carrier_establish(struct rr_share *s)
{
	cr_assert(s);
	return t.establish;
}

int __wrap_rr_carrier_call(struct rr_share *s, const struct rr_prov_params *p, const struct sockaddr *to,
			   const struct sockaddr *from)
{
	cr_assert(s && p);
	t.calls++;
	memcpy(&t.to, to, sizeof(t.to));
	t.from_null = !from;
	if (from)
		memcpy(&t.from, from, sizeof(t.from));
	return t.call;
}

void __wrap_rr_upgrade_carry(struct rr_conn *c)
{
	t.carries++;
	rr_conn_turn(c, RR_S_CARRIED);
}

unsigned __wrap_rr_anchor_poll(int fd, unsigned want)
{
	if (fd != lst.fd)
		return __real_rr_anchor_poll(fd, want);
	return t.knocks ? (t.knocks--, POLLIN) : 0;
}

static bool real_guests;

uint32_t __wrap_rr_guests_each(void (*fn)(struct rr_conn *))
{
	cr_assert_eq(fn, rr_native_step);
	return t.entering;
}

rr_time __wrap_rr_guests_full(uint32_t unmet, rr_time at)
{
	if (real_guests)
		return __real_rr_guests_full(unmet, at);
	cr_assert_eq(at, now);
	t.unmet = unmet;
	return t.full;
}

/* The kernel gives it a port, unless it has one. */
int __wrap_rr_loopback_connect(int fd, int *far)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	cr_assert_geq(fd, 0);
	bind(fd, (struct sockaddr *)&any, sizeof(any));
	t.loops++;
	if (!t.loopback)
		*far = 77;
	return t.loopback;
}

void __wrap_rr_loopback_end(int *far, bool reset)
{
	t.ends++;
	t.end_resets = reset;
	if (*far >= 0)
		close(*far);
	*far = -1;
}

/* --- rules --- */

static uint16_t listens_at, dials_at;
static bool admits, stopped;
static enum rr_mode mode;
static struct sockaddr_in6 asked_local, asked_peer;

static uint16_t rule(bool server, const struct sockaddr *local, const struct sockaddr *peer)
{
	if (local)
		memcpy(&asked_local, local, local->sa_family == AF_INET6 ? sizeof(asked_local) : sizeof(struct sockaddr_in));
	if (peer)
		memcpy(&asked_peer, peer, peer->sa_family == AF_INET6 ? sizeof(asked_peer) : sizeof(struct sockaddr_in));
	return !server ? dials_at : peer && !admits ? 0 : listens_at;
}

static enum rr_mode how(bool server, const struct sockaddr *local, const struct sockaddr *peer)
{
	(void)server;
	(void)local;
	(void)peer;
	return mode;
}

static bool is_stopped(void)
{
	return stopped;
}

static void begin(void)
{
	int fd[2];

	rr_test_params.native = rule;
	rr_test_params.mode = how;
	rr_test_params.stopped = is_stopped;
	rr_test_params.stats = rr_test_segment;
	rr_test_params.native_silent = 3;
	rr_test_params.upgrade_timeout = 20 * RR_SEC;
	rr_test_params.negative_time = 100 * RR_SEC;
	listens_at = dials_at = PORT;
	admits = true;
	mode = RR_MODE_AUTO;
	rr_test_setup();
	t.native = &ops;
	now = START;
	cr_assert_eq(pipe(fd), 0);
	lst.fd = fd[0];
	lst.ops = &ops;
	((struct sockaddr_in *)(void *)&t.peer)->sin_family = AF_INET;
	((struct sockaddr_in *)(void *)&t.peer)->sin_port = htons(700);
	((struct sockaddr_in *)(void *)&t.peer)->sin_addr.s_addr = htonl(0x0a000002);
}

static struct rr_conn *l;
static int fd;
static struct sockaddr_in6 own;

static inline void listens(sa_family_t family)
{
	socklen_t len = sizeof(own);

	fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	own = (struct sockaddr_in6){ .sin6_family = family };
	cr_assert_eq(bind(fd, (struct sockaddr *)&own, family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(own)), 0);
	cr_assert_eq(listen(fd, 8), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&own, &len), 0);
	l = rr_conn_listener(fd);
	cr_assert(l);
}

static rr_time until;

static inline int fds(unsigned want)
{
	struct pollfd p[2] = { { -1, 0, 0 }, { -1, 0, 0 } };
	int n;

	until = RR_TIME_NEVER;
	n = rr_native_fds(l, fd, want, p, &until);
	cr_assert(p[0].fd == fd && p[0].events == (short)want);
	if (n == 2)
		cr_assert(p[1].fd == lst.fd && p[1].events == POLLIN);
	return n;
}

static inline enum rr_reason told(void)
{
	return l->st ? (enum rr_reason)atomic_load(&l->st->reason) : RR_R_NONE;
}

static inline int accepts(struct rr_conn **c)
{
	*c = NULL;
	return rr_conn_accept(l, fd, SOCK_NONBLOCK | SOCK_CLOEXEC, c);
}

static inline void comes(unsigned n)
{
	memset(t.take, 0, sizeof(t.take));
	t.takes = 0;
	t.knocks = n;
}

static inline uint64_t counted(const struct rr_conn *c, enum rr_counter which)
{
	return rr_stats_counters(c->st)->v[which];
}

#endif
