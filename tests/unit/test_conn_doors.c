/* SPDX-License-Identifier: BSD-3-Clause */
/* Native peers, step by step: a listener's second door and who comes in by it, how many guests may be silent, and how
 * one is dialled. Provider, clock and the other connections are played. */
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/stats.h"
#include "core/conn/native/native.h"
#include "tests/lib/connpair.h"
#include "tests/unit/log_said.h"
#include "tests/unit/played_clock.h"

enum { PORT = 20049, SHARES = 40 };

/* --- what is played (the Makefile wraps these) --- */

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
bool __real_rr_conn_each_carried(void (*fn)(struct rr_conn *, void *), void *ctx);
bool __wrap_rr_conn_each_carried(void (*fn)(struct rr_conn *, void *), void *ctx);
bool __wrap_rr_own_spare(int fd);
int __wrap_rr_carrier_listen(const struct rr_prov_ops *o, const struct sockaddr *a, bool v6only,
			     const struct rr_prov_params *p, struct rr_lst **l);
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

bool __wrap_rr_conn_each_carried(void (*fn)(struct rr_conn *, void *), void *ctx)
{
	return !t.busy && __real_rr_conn_each_carried(fn, ctx);
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

int __wrap_rr_carrier_listen(const struct rr_prov_ops *o, const struct sockaddr *a, bool v6only,
			     const struct rr_prov_params *p, struct rr_lst **l)
{
	cr_assert(o == &ops && p);
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

TestSuite(conn_doors, .init = begin, .timeout = 60);

static struct rr_conn *l;
static int fd;
static struct sockaddr_in6 own;

static void listens(sa_family_t family)
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

static int fds(unsigned want)
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

static enum rr_reason told(void)
{
	return l->st ? (enum rr_reason)atomic_load(&l->st->reason) : RR_R_NONE;
}

/* --- the door ----------------------------------------------------------------------------- */

Test(conn_doors, the_door_is_at_the_apps_address_and_the_rules_port)
{
	listens(AF_INET);
	cr_assert_eq(t.listens, 0, "not yet");
	cr_assert_eq(fds(POLLIN), 2);
	cr_assert(t.listens == 1 && !t.v6only && t.at.sin6_family == AF_INET && t.at.sin6_port == htons(PORT));
	cr_assert_eq(until, RR_TIME_NEVER);
	cr_assert_eq(fds(POLLIN), 2);
	cr_assert_eq(t.listens, 1);
	cr_assert_eq(fds(POLLRDNORM), 2);
	cr_assert_eq(fds(POLLOUT), 1, "not who does not ask");
	cr_assert_not(rr_conn_any_early());
}

Test(conn_doors, a_v6_listener_may_be_for_v6_alone)
{
	int on = 1;

	listens(AF_INET6);
	cr_assert_eq(fds(POLLIN), 2);
	cr_assert(!t.v6only && t.at.sin6_family == AF_INET6);
	rr_native_close(l);
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	own = (struct sockaddr_in6){ .sin6_family = AF_INET6 };
	bind(fd, (struct sockaddr *)&own, sizeof(own));
	listen(fd, 1);
	l = rr_conn_listener(fd);
	cr_assert_eq(fds(POLLIN), 2);
	cr_assert(t.v6only);
}

Test(conn_doors, a_door_that_does_not_open_is_tried_again)
{
	static const struct { int rc; enum rr_reason why; } of[] = {
		{ -EADDRINUSE, RR_R_PORT_TAKEN }, { -EMFILE, RR_R_NO_FDS }, { -ENFILE, RR_R_NO_FDS },
		{ -ENOMEM, RR_R_NO_MEMORY }, { -ENODEV, RR_R_NO_DEVICE }, { -EADDRNOTAVAIL, RR_R_NO_DEVICE },
	};

	listens(AF_INET);
	for (unsigned i = 0; i < rr_array_size(of); i++) {
		rr_time after = i == 0 ? RR_SEC : 10 * RR_SEC;
		int was = t.listens;

		t.listen = of[i].rc;
		cr_assert_eq(fds(POLLIN), 1);
		cr_assert_eq(t.listens, was + 1);
		cr_assert_eq(told(), of[i].why, "%u: %u", i, told());
		cr_assert_eq(atomic_load(&l->st->state), RR_CS_TCP);
		cr_assert_eq(until, i == 0 ? now + after : RR_TIME_NEVER, "a port that is taken is awaited");
		cr_assert_eq(rr_native_poll(l, fd, POLLIN), RR_CONN_KERNEL);
		now += after - 1;
		cr_assert_eq(fds(POLLIN), 1);
		cr_assert_eq(t.listens, was + 1);
		now++;
	}
	t.native = NULL;
	cr_assert_eq(fds(POLLIN), 1);
	cr_assert_eq(told(), RR_R_NO_DEVICE);
	t.native = &ops;
	t.no_params = true;
	now += 10 * RR_SEC;
	cr_assert_eq(fds(POLLIN), 1);
	cr_assert_eq(told(), RR_R_NO_FDS);
	t.no_params = false;
	t.listen = 0;
	now += 10 * RR_SEC;
	l->face.changed = false;
	cr_assert_eq(fds(POLLIN), 2);
	cr_assert(l->face.changed && told() == RR_R_NONE);
	cr_assert_eq(atomic_load(&l->st->state), RR_CS_LISTENING);
}

Test(conn_doors, only_news_of_the_door_is_told)
{
	listens(AF_INET);
	t.listen = -ENODEV;
	fds(POLLIN);
	cr_assert(l->face.changed);
	l->face.changed = false;
	now += 10 * RR_SEC;
	fds(POLLIN);
	cr_assert(t.listens == 2 && !l->face.changed);
	now += 10 * RR_SEC;
	t.listen = -ENOMEM;
	fds(POLLIN);
	cr_assert(t.listens == 3 && l->face.changed);
}

/* --- who comes in --------------------------------------------------------------------------- */

static int accepts(struct rr_conn **c)
{
	*c = NULL;
	return rr_conn_accept(l, fd, SOCK_NONBLOCK | SOCK_CLOEXEC, c);
}

static void comes(unsigned n)
{
	memset(t.take, 0, sizeof(t.take));
	t.takes = 0;
	t.knocks = n;
}

Test(conn_doors, who_knocks_is_taken_and_waits_for_accept)
{
	struct rr_conn *c;
	int a, b;

	listens(AF_INET);
	cr_assert_eq(rr_native_poll(l, fd, POLLIN), 0);
	cr_assert(t.tends == 1 && t.takes == 0);
	cr_assert_eq(accepts(&c), -EAGAIN);
	comes(2);
	cr_assert_eq(rr_native_poll(l, fd, POLLIN | POLLOUT), POLLIN);
	cr_assert(t.takes == 2 && t.news == 2);
	cr_assert_eq(rr_native_poll(l, fd, POLLOUT), 0);
	a = accepts(&c);
	cr_assert_geq(a, 0);
	cr_assert(c->share == shares[0] && !shares[0]->next && rr_conn_st(c) == RR_S_TAKEN);
	cr_assert_eq(c->deadline, now + 20 * RR_SEC);
	cr_assert_eq(memcmp(c->name, shares[0]->name, sizeof(c->name)), 0);
	cr_assert_eq(atomic_load(&c->st->state), RR_CS_NEW);
	b = accepts(&c);
	cr_assert(b >= 0 && b != a && c->share == shares[1]);
	cr_assert_eq(accepts(&c), -EAGAIN);
	cr_assert_eq(rr_native_poll(l, fd, POLLIN), 0);
}

Test(conn_doors, an_accepted_socket_is_as_its_listener)
{
	struct timeval tv = { .tv_sec = 7 };
	struct linger li = { .l_onoff = 1, .l_linger = 9 };
	struct rr_conn *c;
	socklen_t len = sizeof(tv);
	int on = 1, got = 0, a;

	listens(AF_INET);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	tv.tv_sec = 8;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &li, sizeof(li));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	comes(1);
	a = accepts(&c);
	cr_assert_geq(a, 0);
	getsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &tv, &len);
	cr_assert_eq(tv.tv_sec, 7);
	getsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &tv, &len);
	cr_assert_eq(tv.tv_sec, 8);
	len = sizeof(li);
	li.l_linger = 0;
	getsockopt(a, SOL_SOCKET, SO_LINGER, &li, &len);
	cr_assert(li.l_onoff && li.l_linger == 9);
	len = sizeof(got);
	getsockopt(a, SOL_SOCKET, SO_KEEPALIVE, &got, &len);
	cr_assert(got);
	got = 0;
	getsockopt(a, IPPROTO_TCP, TCP_NODELAY, &got, &len);
	cr_assert(got);
}

Test(conn_doors, the_queue_has_its_length_and_a_look_its_end)
{
	struct rr_conn *c;

	listens(AF_INET);
	comes(20);
	rr_native_look(l, fd);
	cr_assert(t.takes == 8 && t.news == 8 && t.knocks == 12);
	rr_native_look(l, fd);
	cr_assert_eq(t.takes, 8, "the queue is full");
	cr_assert_eq(fds(POLLIN), 1, "the door is not watched");
	l->face.changed = false;
	cr_assert_geq(accepts(&c), 0);
	cr_assert(l->face.changed && c->share == shares[0]);
	cr_assert_eq(fds(POLLIN), 2);
	l->face.changed = false;
	t.knocks = 0;
	cr_assert_geq(accepts(&c), 0);
	cr_assert_not(l->face.changed);
	for (int i = 0; i < 6; i++) {
		cr_assert_geq(accepts(&c), 0);
		cr_assert_eq(c->share, shares[2 + i]);
	}
	comes(20);
	for (int i = 0; i < 20; i++)
		t.take[i] = -EPROTO;	/* is refused */
	rr_native_look(l, fd);
	cr_assert_eq(t.takes, 8);
	cr_assert_eq(t.knocks, 12);
	cr_assert_eq(accepts(&c), -EAGAIN);
}

/* One line at first, and another one after a while that has the number of those in between. */
Test(conn_doors, a_refused_peer_is_logged_now_and_then)
{
	rr_log_setup(RR_LOG_INFO, hear);
	listens(AF_INET);
	for (int i = 0; i < 4; i++) {
		comes(1);
		t.take[0] = -EPROTO;
		now += i == 3 ? 10 * RR_SEC : 0;
		said[0] = '\0';
		rr_native_look(l, fd);
		cr_assert_eq(t.takes, 1);
		cr_assert_eq(!!strstr(said, "refused a native peer: error 71 "), i == 0 || i == 3, "%d: %s", i, said);
		cr_assert(i < 3 || strstr(said, "(2 more since"), "%s", said);
	}
	comes(1);
	admits = false;
	now += 10 * RR_SEC;
	rr_native_look(l, fd);
	cr_assert(strstr(said, "refused a native peer by a rule (0 more since"), "%s", said);
}

/* Memory for the next one is made once. */
Test(conn_doors, without_a_request_there_is_a_share_to_spare)
{
	struct rr_conn *c;

	listens(AF_INET);
	comes(1);
	t.take[0] = t.take[1] = -EAGAIN;
	rr_native_look(l, fd);
	t.knocks = 1;
	rr_native_look(l, fd);
	cr_assert(t.takes == 2 && t.news == 1 && t.frees == 0);
	comes(1);
	cr_assert_geq(accepts(&c), 0);
	cr_assert(c->share == shares[0] && t.news == 1);
	comes(1);
	t.no_shares = true;
	rr_native_look(l, fd);
	cr_assert_eq(t.takes, 0);
	t.no_shares = false;
	t.no_params = true;
	t.knocks = 1;
	rr_native_look(l, fd);
	cr_assert(t.takes == 0 && t.news == 1);
	t.no_params = false;
	t.tend = -EIO;
	t.knocks = 1;
	rr_native_look(l, fd);
	cr_assert_eq(t.takes, 0);
	cr_assert_eq(t.unlistens, 0);
}

Test(conn_doors, a_device_that_goes_shuts_the_door)
{
	struct rr_conn *c;

	for (int i = 0; i < 2; i++) {
		listens(AF_INET);
		cr_assert_eq(fds(POLLIN), 2);
		t.unlistens = 0;
		comes(i);
		t.take[0] = -ESHUTDOWN;
		t.tend = i ? 0 : -ESHUTDOWN;
		l->face.changed = false;
		rr_native_look(l, fd);
		t.tend = 0;
		cr_assert(t.unlistens == 1 && told() == RR_R_NO_DEVICE && l->face.changed);
		t.listen = -ENODEV;
		cr_assert_eq(fds(POLLIN), 1);
		cr_assert_eq(until, now + RR_SEC, "it may come back");
		cr_assert_eq(accepts(&c), -EAGAIN);
		now += RR_SEC;
		cr_assert_eq(fds(POLLIN), 1);
		cr_assert_eq(until, now + 10 * RR_SEC);
		now += 10 * RR_SEC;
		t.listen = 0;
		cr_assert_eq(fds(POLLIN), 2);
		/* Where there never was one nobody waits for it. */
		rr_native_close(l);
	}
	listens(AF_INET);
	t.listen = -ENODEV;
	cr_assert_eq(accepts(&c), RR_CONN_KERNEL);
}

Test(conn_doors, rules_say_who_comes_in)
{
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = htons(700) };
	struct rr_conn *c;

	cr_assert_eq(inet_pton(AF_INET6, "::ffff:10.0.0.2", &mapped.sin6_addr), 1);
	listens(AF_INET6);
	comes(1);
	cr_assert_geq(accepts(&c), 0);
	cr_assert_eq(memcmp(&c->name[1], &mapped, sizeof(mapped)), 0);
	cr_assert(c->name[0].sin6_family == AF_INET6 && c->name[0].sin6_port == own.sin6_port);
	cr_assert_eq(c->name[0].sin6_addr.s6_addr[15], 1);
	cr_assert_eq(memcmp(&asked_peer, &mapped, sizeof(mapped)), 0);
	for (int i = 0; i < 3; i++) {
		admits = i != 0;
		mode = i == 1 ? RR_MODE_TCP : RR_MODE_AUTO;
		stopped = i == 2;
		comes(1);
		t.frees = 0;
		cr_assert_eq(accepts(&c), -EAGAIN);
		cr_assert(t.takes == 1 && t.frees == 1, "%d", i);
	}
	stopped = false;
	mode = RR_MODE_REQUIRE;
	comes(1);
	cr_assert_geq(accepts(&c), 0);
	rr_native_close(l);
	mode = RR_MODE_AUTO;
	listens(AF_INET);
	comes(1);
	cr_assert_geq(accepts(&c), 0);
	cr_assert_eq(memcmp(&c->name[1], &t.peer, sizeof(t.peer)), 0, "as they are");
	cr_assert_eq(c->name[0].sin6_port, own.sin6_port);
}

Test(conn_doors, where_there_is_no_room_it_is_looked_at_later)
{
	listens(AF_INET);
	comes(3);
	t.entering = 4;
	t.full = now + 5;
	l->face.changed = false;
	fds(POLLIN);
	l->face.changed = false;
	rr_native_look(l, fd);
	cr_assert(t.takes == 0 && t.knocks == 2 && t.unmet == 4 && l->face.changed);
	cr_assert_eq(fds(POLLIN), 1);
	cr_assert_eq(until, now + 5);
	l->face.changed = false;
	now += 4;
	rr_native_look(l, fd);
	cr_assert(t.knocks == 2 && !l->face.changed, "not before");
	now++;
	t.full = now + 7;
	rr_native_look(l, fd);
	cr_assert(t.takes == 0 && t.knocks == 1 && !l->face.changed, "as before");
	now += 7;
	t.full = 0;
	rr_native_look(l, fd);
	cr_assert(t.takes == 1 && l->face.changed);
	cr_assert_eq(fds(POLLIN), 2);
	t.knocks = 1;
	rr_native_look(l, fd);
	cr_assert_eq(t.unmet, 5, "who waits for accept() counts");
}

Test(conn_doors, who_cannot_be_accepted_stays_first)
{
	struct rr_conn *c;

	listens(AF_INET);
	comes(2);
	t.no_spare = true;
	cr_assert_eq(accepts(&c), -EMFILE);
	cr_assert_eq(rr_native_poll(l, fd, POLLIN), POLLIN);
	t.no_spare = false;
	cr_assert_geq(accepts(&c), 0);
	cr_assert_eq(c->share, shares[0]);
	cr_assert_geq(accepts(&c), 0);
	cr_assert_eq(c->share, shares[1]);
	cr_assert_eq(accepts(&c), -EAGAIN);
}

/* --- families and the end --------------------------------------------------------------------- */

Test(conn_doors, after_a_fork_tcp_clients_are_left_to_others)
{
	struct rr_conn *c;

	listens(AF_INET);
	fds(POLLIN);
	cr_assert_not(rr_conn_defers(l));
	rr_native_forks(l);
	cr_assert(rr_conn_defers(l) && t.unlistens == 0);
	comes(2);
	rr_native_look(l, fd);
	rr_native_forked(l);
	cr_assert(t.unlistens == 1 && t.frees == 2);
	cr_assert_not(rr_conn_defers(l), "its own door is not open yet");
	t.knocks = 0;
	cr_assert_eq(fds(POLLIN), 2);
	cr_assert(rr_conn_defers(l) && t.listens == 2);
	cr_assert_eq(accepts(&c), -EAGAIN);
	rr_native_close(l);
	cr_assert_eq(fds(POLLIN), 1);
	now += 1000 * RR_SEC;
	cr_assert_eq(fds(POLLIN), 1);
	cr_assert_eq(t.listens, 2, "never again");
	rr_native_close(l);
	cr_assert_eq(t.unlistens, 2);
}

Test(conn_doors, a_child_knows_nothing_of_its_parents_device)
{
	listens(AF_INET);
	fds(POLLIN);
	t.tend = -ESHUTDOWN;
	rr_native_look(l, fd);
	t.tend = 0;
	rr_native_forked(l);
	t.listen = -ENODEV;
	cr_assert_eq(fds(POLLIN), 1);
	cr_assert_eq(t.listens, 2, "it tries at once");
	cr_assert_eq(until, RR_TIME_NEVER);
}

Test(conn_doors, a_reserved_port_is_opened_early_for_who_drops_privileges)
{
	listens(AF_INET);
	rr_conn_early(l);
	cr_assert_eq(t.listens, 0, "this port is not reserved");
	listens_at = 1023;
	listens(AF_INET);
	cr_assert(rr_conn_any_early());
	rr_conn_early(l);
	cr_assert_eq(t.listens, 1);
	rr_native_forks(l);
	cr_assert_eq(t.unlistens, 1, "perhaps the child accepts");
	cr_assert_eq(fds(POLLIN), 1);
	now += 10 * RR_SEC;
	rr_conn_early(l);
	rr_native_look(l, fd);
	rr_native_forks(l);
	cr_assert(t.listens == 2 && t.unlistens == 1, "this process has asked");
	rr_conn_early(l);
	rr_native_forks(l);
	cr_assert(t.listens == 2 && t.unlistens == 1);
	listens_at = 1024;
	listens(AF_INET);
	rr_conn_early(l);
	cr_assert_eq(t.listens, 2);
}

/* --- its connections --------------------------------------------------------------------------- */

static uint64_t counted(const struct rr_conn *c, enum rr_counter which)
{
	return rr_stats_counters(c->st)->v[which];
}

Test(conn_doors, a_peer_has_some_time_to_be_established)
{
	struct rr_conn *c;
	uint64_t failures;
	int a;

	listens(AF_INET);
	for (int i = 0; i < 4; i++) {
		comes(1);
		a = accepts(&c);
		cr_assert_geq(a, 0);
		failures = counted(c, RR_C_upgrade_failures);
		t.carries = t.frees = t.ends = 0;
		t.establish = i == 0 ? 0 : i == 3 ? -ECONNREFUSED : -EAGAIN;
		now = c->deadline - (i < 2);
		rr_native_step(c);
		cr_assert_eq(t.carries, i == 0);
		if (i < 2) {
			cr_assert(rr_conn_st(c) == (i ? RR_S_TAKEN : RR_S_CARRIED) && t.frees == 0);
			continue;
		}
		cr_assert(rr_conn_st(c) == RR_S_TCP && !c->share && t.frees == 1 && t.ends == 1 && t.end_resets);
		cr_assert_eq(atomic_load(&c->st->reason), i == 2 ? RR_R_TIMEOUT : RR_R_PEER_DIED);
		cr_assert_eq(atomic_load(&c->st->state), RR_CS_DEAD);
		cr_assert_eq(counted(c, RR_C_upgrade_failures), failures + 1);
	}
}

static enum rr_dialect dialect;

static enum rr_dialect says_dialect(bool server, const struct sockaddr *o, const struct sockaddr *p, const uint32_t *prog)
{
	(void)server;
	(void)o;
	(void)p;
	cr_assert_null(prog);
	return dialect;
}

Test(conn_doors, the_rules_dialect_is_spoken_unless_it_is_known_not_to_be)
{
	struct rr_eng_params *ep;
	struct rr_conn *c;

	rr_test_params.dialect = says_dialect;
	dialect = RR_DIALECT_V2;
	listens(AF_INET);
	comes(1);
	cr_assert_geq(accepts(&c), 0);
	ep = &c->share->ep;
	c->peer = t.peer;
	rr_cache_add(&c->peer, RR_R_NO_DIALECT, now + RR_SEC);
	rr_native_carry(c);
	cr_assert(ep->dialect == RR_DIALECT_V2 && ep->caps == rr_eng_native_caps(RR_DIALECT_V2, rr_own_caps()));
	c->face.server = false;
	rr_native_carry(c);
	cr_assert(ep->dialect == RR_DIALECT_V1 && ep->caps == rr_eng_native_caps(RR_DIALECT_V1, rr_own_caps()));
	rr_cache_drop(&c->peer);
	rr_native_carry(c);
	cr_assert_eq(ep->dialect, RR_DIALECT_V2);
	cr_assert_eq(t.carries, 3);
}

Test(conn_doors, the_app_sees_the_addresses_of_the_peer)
{
	struct sockaddr_in6 got;
	struct rr_conn *c;
	socklen_t len;

	listens(AF_INET);
	comes(1);
	cr_assert_geq(accepts(&c), 0);
	for (int peer = 0; peer < 2; peer++)
		for (socklen_t room = 0; room <= sizeof(got); room++) {
			memset(&got, 0x55, sizeof(got));
			len = room;
			cr_assert(rr_conn_name(c, peer, (struct sockaddr *)&got, &len));
			cr_assert_eq(len, sizeof(struct sockaddr_in));
			cr_assert_eq(memcmp(&got, &c->name[peer], rr_min((size_t)room, sizeof(struct sockaddr_in))), 0);
			if (room < sizeof(struct sockaddr_in))
				cr_assert_eq(((uint8_t *)&got)[room], 0x55);
		}
	len = (socklen_t)-1;
	cr_assert_not(rr_conn_name(c, true, (struct sockaddr *)&got, &len));
	c->name[1].sin6_family = AF_INET6;
	len = 0;
	cr_assert(rr_conn_name(c, true, (struct sockaddr *)&got, &len));
	cr_assert_eq(len, sizeof(struct sockaddr_in6));
	c->name[1].sin6_family = 0;
	cr_assert_not(rr_conn_name(c, true, (struct sockaddr *)&got, &len));
	rr_conn_turn(c, RR_S_TCP);
	cr_assert_not(rr_conn_name(c, false, (struct sockaddr *)&got, &len));
}

/* --- dialling ---------------------------------------------------------------------------------- */

static struct sockaddr_in to;
static int s;

static struct rr_conn *dials(void)
{
	s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(2049), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return rr_conn_dial(s, (struct sockaddr *)&to, sizeof(to));
}

Test(conn_doors, who_is_dialled_and_who_is_not)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(2049), .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in6 rdma = { 0 };
	struct rr_conn *c = dials();

	cr_assert(c && t.calls == 1 && rr_conn_st(c) == RR_S_DIALING && c->dial && c->dial_wait);
	cr_assert_eq(c->deadline, now + 20 * RR_SEC);
	cr_assert(t.to.sin6_port == htons(PORT) && t.to.sin6_family == AF_INET && t.from_null);
	cr_assert_eq(((struct sockaddr_in *)(void *)&t.to)->sin_addr.s_addr, to.sin_addr.s_addr);
	cr_assert_null(rr_conn_dial(s, NULL, sizeof(to)));
	cr_assert_null(rr_conn_dial(s, (struct sockaddr *)&to, sizeof(to) - 1));
	cr_assert_null(rr_conn_dial(s, (struct sockaddr *)&v6, sizeof(v6) - 1));
	cr_assert_null(rr_conn_dial(s, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_UNIX }, sizeof(to)));
	s = socket(AF_INET6, SOCK_STREAM, 0);
	cr_assert(rr_conn_dial(s, (struct sockaddr *)&v6, sizeof(v6)));
	cr_assert(t.to.sin6_family == AF_INET6 && t.from_null && t.to.sin6_port == htons(PORT));
	v6.sin6_port = 0;
	bind(s, (struct sockaddr *)&v6, sizeof(v6));
	v6.sin6_port = htons(2049);
	cr_assert(rr_conn_dial(s, (struct sockaddr *)&v6, sizeof(v6)));
	cr_assert(!t.from_null && t.from.sin6_port == 0 && IN6_IS_ADDR_LOOPBACK(&t.from.sin6_addr));
	dials_at = 0;
	cr_assert_null(dials());
	dials_at = PORT;
	/* What is known of this peer. */
	memcpy(&rdma, &to, sizeof(to));
	rdma.sin6_port = htons(PORT);
	rr_cache_add(&rdma, RR_R_NO_NATIVE, now + RR_SEC);
	cr_assert_null(dials());
	mode = RR_MODE_REQUIRE;
	cr_assert(dials());
	mode = RR_MODE_AUTO;
	rr_cache_add(&rdma, RR_R_NO_SHIM, now + RR_SEC);
	cr_assert(dials());
	rr_cache_drop(&rdma);
	rdma.sin6_port = htons(2049);
	rr_cache_add(&rdma, RR_R_SIZE_KNOWN, now + RR_SEC);
	cr_assert_null(dials());
	rr_cache_add(&rdma, RR_R_NO_SHIM, now + RR_SEC);
	cr_assert(dials());
	stopped = true;
	cr_assert_null(dials());
	rr_test_params.native = NULL;
	stopped = false;
	cr_assert_null(dials());
}

/* The kernel's connect(), or its failure where TCP is forbidden. */
Test(conn_doors, a_call_that_fails_goes_on_by_tcp)
{
	static const struct { int rc; enum rr_reason why; bool kept; int err; } of[] = {
		{ -ENODEV, RR_R_NO_DEVICE, true, ECONNREFUSED }, { -EDQUOT, RR_R_CGROUP, false, ECONNREFUSED },
		{ -ENOMEM, RR_R_MEMLOCK, false, ECONNREFUSED }, { -EMFILE, RR_R_NO_FDS, false, ECONNREFUSED },
		{ -ENFILE, RR_R_NO_FDS, true, ECONNREFUSED }, { -ENETUNREACH, RR_R_NO_ROUTE, true, ENETUNREACH },
		{ -EHOSTUNREACH, RR_R_NO_ROUTE, true, EHOSTUNREACH }, { -ETIMEDOUT, RR_R_NO_ROUTE, true, ETIMEDOUT },
		{ -ENETDOWN, RR_R_DEVICE, false, ECONNREFUSED }, { -EIO, RR_R_DEVICE, true, ECONNREFUSED },
		{ -ECONNREFUSED, RR_R_NO_NATIVE, true, ECONNREFUSED }, { -EPROTO, RR_R_NO_NATIVE, true, ECONNREFUSED },
	};
	struct sockaddr_in6 rdma = { 0 };

	rr_test_params.ask_peer = true;
	dials();
	memcpy(&rdma, &to, sizeof(to));
	rdma.sin6_port = htons(PORT);
	for (unsigned i = 0; i < rr_array_size(of); i++)
		for (int required = 0; required < 2; required++) {
			struct rr_conn *c;
			uint64_t failures;

			rr_cache_drop(&rdma);
			t.call = 0;
			t.frees = 0;
			t.establish = of[i].rc;
			c = dials();
			cr_assert(c);
			c->require = required;
			failures = counted(c, RR_C_upgrade_failures);
			rr_dial_step(c, s);
			cr_assert(!c->share && t.frees == 1);
			cr_assert_eq(counted(c, RR_C_upgrade_failures), failures + 1);
			cr_assert_eq(c->seg->told.here[RR_TOLD_NATIVE], of[i].why, "%u", i);
			cr_assert_eq(c->seg->told.offered[RR_TOLD_NATIVE], 1);
			if (required) {
				cr_assert(rr_conn_st(c) == RR_S_REFUSED && c->dial_err == of[i].err, "%u: %d", i, c->dial_err);
				cr_assert_eq(atomic_load(&c->st->reason), of[i].why);
				cr_assert_eq(atomic_load(&c->st->state), RR_CS_DEAD);
				cr_assert_eq(rr_dial_again(c, s), -of[i].err);
				cr_assert_eq(c->dial_err, 0);
				cr_assert_eq(rr_cache_look(&rdma, now), RR_R_NONE);
				continue;
			}
			cr_assert(rr_conn_st(c) == RR_S_NEW && c->dial_err == 0);
			cr_assert_eq(rr_cache_look(&rdma, now), of[i].kept ? RR_R_NO_NATIVE : RR_R_NONE, "%u", i);
			if (of[i].kept) {
				cr_assert_eq(rr_cache_look(&rdma, now + 100 * RR_SEC - 1), RR_R_NO_NATIVE);
				cr_assert_eq(rr_cache_look(&rdma, now + 100 * RR_SEC + 1), RR_R_NONE);
			}
		}
}

static struct rr_os os;
static int connects, connect_errno;

static int connecting(int at, const struct sockaddr *a, socklen_t len)
{
	cr_assert(at == s && len == sizeof(to) && !memcmp(a, &to, sizeof(to)));
	connects++;
	errno = connect_errno;
	return connect_errno ? -1 : 0;
}

Test(conn_doors, the_kernels_connect_follows_for_who_does_not_wait)
{
	struct rr_conn *c;

	os = *rr_os;
	os.connect = connecting;
	rr_os = &os;
	for (int i = 0; i < 4; i++) {
		now += 200 * RR_SEC;
		c = dials();
		c->dial_wait = i == 3;
		connect_errno = i == 1 ? EINPROGRESS : i >= 2 ? EACCES : 0;
		connects = 0;
		t.establish = -ECONNREFUSED;
		rr_dial_step(c, s);
		cr_assert_eq(connects, i < 3);
		cr_assert_eq(rr_conn_st(c), i == 2 ? RR_S_REFUSED : RR_S_NEW);
		cr_assert_eq(c->dial_err, i == 2 ? EACCES : 0);
		if (i == 2)
			cr_assert_eq(atomic_load(&c->st->reason), RR_R_NO_ROUTE);
	}
}

Test(conn_doors, what_cannot_even_be_called)
{
	struct sockaddr_in6 rdma = { 0 };

	for (int i = 0; i < 4; i++) {
		struct rr_conn *c;

		t.native = i == 0 ? NULL : &ops;
		t.no_params = i == 1;
		t.no_shares = i == 2;
		t.call = i == 3 ? -ECONNREFUSED : 0;
		rr_test_params.ask_peer = true;
		c = dials();
		memcpy(&rdma, &to, sizeof(to));
		rdma.sin6_port = htons(PORT);
		rr_cache_drop(&rdma);
		cr_assert(c && rr_conn_st(c) == RR_S_NEW && t.calls == (i == 3) && c->dial_wait);
		cr_assert_eq(c->seg->told.here[RR_TOLD_NATIVE], i == 0 ? RR_R_NO_DEVICE : i == 1 ? RR_R_NO_FDS :
			     i == 2 ? RR_R_MEMLOCK : RR_R_NO_NATIVE);
	}
}

Test(conn_doors, a_call_has_its_deadline_and_then_its_addresses)
{
	struct rr_conn *c = dials();
	struct sockaddr_in *name = (void *)&c->name[0], bound = { 0 };
	socklen_t len;

	t.establish = -EAGAIN;
	now = c->deadline - 1;
	rr_dial_step(c, s);
	cr_assert(rr_conn_st(c) == RR_S_DIALING && t.loops == 0);
	now++;
	rr_dial_step(c, s);
	cr_assert_eq(rr_conn_st(c), RR_S_NEW);
	now += 200 * RR_SEC;
	c = dials();
	name = (void *)&c->name[0];
	t.establish = 0;
	rr_dial_step(c, s);
	cr_assert(t.loops == 1 && t.carries == 1 && c->share->far == 77);
	cr_assert_eq(memcmp(&c->name[1], &to, sizeof(to)), 0);
	cr_assert(name->sin_family == AF_INET && name->sin_addr.s_addr == htonl(INADDR_LOOPBACK), "as TCP would come from");
	len = sizeof(bound);
	getsockname(s, (struct sockaddr *)&bound, &len);
	cr_assert_eq(name->sin_port, bound.sin_port, "that of the kernel's connection");
	c = dials();
	((struct sockaddr_in *)(void *)&to)->sin_port = 0;
	bind(s, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000005) }, sizeof(to));
	rr_dial_step(c, s);
	cr_assert_eq(((struct sockaddr_in *)(void *)&c->name[0])->sin_addr.s_addr, htonl(0x7f000005), "as it is bound");
	cr_assert_neq(((struct sockaddr_in *)(void *)&c->name[0])->sin_port, 0);
	for (int i = 0; i < 2; i++) {
		now += 200 * RR_SEC;
		c = dials();
		t.no_spare = i == 0;
		t.loopback = -ENOBUFS;
		t.loops = t.carries = 0;
		rr_dial_step(c, s);
		cr_assert(t.loops == i && t.carries == 0 && rr_conn_st(c) == RR_S_NEW);
		t.no_spare = false;
	}
}

Test(conn_doors, who_was_told_of_a_failure_may_call_again)
{
	struct rr_conn *c = dials();

	rr_conn_turn(c, RR_S_REFUSED);
	c->dial_err = 0;
	t.calls = 0;
	cr_assert_eq(rr_dial_again(c, s), RR_RIDE_OVER);
	cr_assert(t.calls == 1 && rr_conn_st(c) == RR_S_DIALING);
	rr_conn_turn(c, RR_S_REFUSED);
	dials_at = 0;
	cr_assert_eq(rr_dial_again(c, s), RR_RIDE_OVER);
	cr_assert(t.calls == 1 && rr_conn_st(c) == RR_S_REFUSED);
}

/* --- guests -------------------------------------------------------------------------------------- */

static struct rr_conn *guest[4];

static void with_guests(int n)
{
	real_guests = true;
	listens(AF_INET);
	for (int i = 0; i < n; i++) {
		comes(1);
		cr_assert_geq(accepts(&guest[i]), 0);
		guest[i]->share->st = guest[i]->st;
		guest[i]->share->seg = guest[i]->seg;
		guest[i]->deadline = now + RR_SEC * (rr_time)(i + 1);
		rr_slab_carried(guest[i]);
	}
}

Test(conn_doors, guests_are_silent_up_to_a_number)
{
	rr_test_params.native_silent = 3;
	with_guests(2);
	cr_assert_eq(rr_guests_full(0, now), 0);
	cr_assert_eq(rr_guests_full(1, now), guest[0]->deadline, "the one that is silent longest has some time yet");
	guest[0]->share->heard = true;
	cr_assert_eq(rr_guests_full(1, now), 0);
	cr_assert_eq(rr_guests_full(2, now), guest[1]->deadline);
	guest[1]->share->heard = true;
	cr_assert_eq(rr_guests_full(2, now), 0);
	cr_assert_eq(rr_guests_full(3, now), now + RR_SEC, "there is nobody to show out");
	guest[0]->share->heard = guest[1]->share->heard = false;
	guest[0]->share->link = RR_LINK_LOST;
	cr_assert_eq(rr_guests_full(1, now), 0, "who is gone is no guest that is silent");
	guest[0]->share->link = RR_LINK_UP;
	guest[0]->face.server = false;
	cr_assert_eq(rr_guests_full(1, now), 0, "who was dialled is no guest");
	guest[0]->face.server = true;
	guest[0]->share->qp->native = false;
	cr_assert_eq(rr_guests_full(1, now), 0);
}

Test(conn_doors, a_guest_that_another_thread_has_is_counted_and_stays)
{
	with_guests(2);
	guest[0]->share->lock.word = 12345;
	cr_assert_eq(rr_guests_full(1, now), guest[1]->deadline);
	guest[1]->share->lock.word = 12345;
	cr_assert_eq(rr_guests_full(1, now), now + RR_SEC, "nobody can go");
	guest[1]->share->lock.word = 0;
	guest[0]->share->heard = true;
	cr_assert_eq(rr_guests_full(1, now), 0);
	guest[0]->share->lock.word = 0;
	cr_assert_eq(rr_lock_try(&guest[0]->share->lock), 0, "nobody else's was dropped, and none is kept");
	cr_assert_eq(rr_lock_try(&guest[1]->share->lock), 0);
}

Test(conn_doors, the_guest_that_is_silent_longest_makes_room)
{
	int far[2];

	with_guests(3);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, far), 0);
	guest[0]->share->far = far[0];
	now = guest[0]->deadline;
	cr_assert_eq(rr_guests_full(0, now), 0);
	cr_assert(t.fails == 1 && t.failed == guest[0]->share && t.progresses == 1);
	cr_assert_eq(recv(far[1], &(char){ 0 }, 1, MSG_DONTWAIT), 0, "and who sleeps on it wakes");
	cr_assert_eq(rr_lock_try(&guest[0]->share->lock), 0);
	rr_lock_drop(&guest[0]->share->lock);
	/* It speaks just then. */
	guest[0]->share->link = RR_LINK_UP;
	guest[0]->share->far = -1;
	t.speaks = true;
	cr_assert_eq(rr_guests_full(0, now), 0);
	cr_assert(t.fails == 1 && t.progresses == 2 && guest[0]->share->heard);
	guest[0]->share->heard = false;
	/* It does not go, and is not asked for ever. */
	t.speaks = false;
	t.stays = true;
	t.fails = 0;
	cr_assert_eq(rr_guests_full(0, now), now + RR_SEC / 10);
	cr_assert(t.fails == 8 && t.failed == guest[0]->share);
	t.busy = true;
	cr_assert_eq(rr_guests_full(0, now), now + RR_SEC / 10, "who cannot be counted now is counted soon");
	cr_assert_eq(t.fails, 8);
}

Test(conn_doors, descriptors_are_left_to_others)
{
	struct rlimit rl = { 0, 0 };

	with_guests(2);
	guest[0]->share->heard = guest[1]->share->heard = true;
	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = 27;	/* 27 / 4 * 3 / 5 is 3 */
	setrlimit(RLIMIT_NOFILE, &rl);
	cr_assert_eq(rr_guests_full(0, now), 0);
	cr_assert_eq(rr_guests_full(1, now), now + RR_SEC);
	rl.rlim_cur = 28;	/* ... and 4 */
	setrlimit(RLIMIT_NOFILE, &rl);
	cr_assert_eq(rr_guests_full(1, now), 0);
	cr_assert_eq(rr_guests_full(2, now), now + RR_SEC);
}
