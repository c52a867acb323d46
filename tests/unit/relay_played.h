/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RELAY_PLAYED_H
#define RELAY_PLAYED_H

/* For tests of the relay of a native connection that has forked: the app's socket, the queue pair's streams, clock and
 * thread are played. In one file of a program. */

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/enter.h"
#include "tests/lib/connpair.h"
#include "tests/unit/played_clock.h"

enum { FAR = 40, APP = 41, WAKE = 42, CHUNK = 65536, TURNS = 16 };

static struct rr_prov_ops ops;
static struct rr_qp qp = { .ops = &ops, .native = true };
static struct rr_share sh = { .qp = &qp, .far = FAR };
static struct rr_conn c = { .share = &sh, .fd = APP };
static struct rr_os os;

/* --- what is played (the Makefile wraps these) --- */

struct stream {
	const int *rc;		/* what each call returns: bytes or -errno; behind these -EAGAIN */
	unsigned n, i;
	unsigned calls;		/* so far */
	uint64_t at;		/* bytes that have gone so far */
};

static struct {
	struct stream in, to_app, from_app, out;
	unsigned waits;		/* until the relay is wanted */
	int wait_errno, hold_rc;
	unsigned polls, arms, disarms, fds;
	int arm_rc, nfds, slept_ms;
	unsigned want;
	rr_time until;
	struct pollfd slept[3];
	nfds_t slept_n;
	unsigned sleeps, at_most;	/* sleeps; after so many the connection is lost */
	unsigned gone;		/* what the far end shows */
	unsigned quickacks, nodelays, lingers, shuts, resets, frees, munmaps, carrier_frees;
	unsigned oobs;
	bool no_memory, no_thread, share_goes;
	void *(*run)(void *);
	void *arg;
} k;

ssize_t __wrap_rr_conn_recv(struct rr_conn *it, int fd, const struct iovec *iov, int n, int flags);
ssize_t __wrap_rr_conn_send(struct rr_conn *it, int fd, const struct iovec *iov, int n, int flags);
int __wrap_rr_conn_arm(struct rr_conn *it, int fd, unsigned want);
void __wrap_rr_conn_disarm(struct rr_conn *it, int fd);
int __wrap_rr_conn_fds(struct rr_conn *it, int fd, unsigned want, struct pollfd out[2], rr_time *until);
int __wrap_rr_conn_hold(struct rr_conn *it, struct rr_lock **l);
void __wrap_rr_conn_free(struct rr_conn *it);
void __wrap_rr_carrier_free(struct rr_share *s);
void __wrap_rr_loopback_reset(int fd);
unsigned __wrap_rr_anchor_poll(int fd, unsigned want);
int __wrap_rr_thread(void *(*run)(void *), void *arg);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
int __real_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len);

/* What comes in each direction: the bytes at these places of the stream. */
static uint8_t byte_at(uint64_t at)
{
	return (uint8_t)(at * 7 + (at >> 8) + 1);
}

/* The next result, of a call that may move `most` bytes. */
static int next(struct stream *s, size_t most)
{
	int rc = s->i < s->n ? s->rc[s->i++] : -EAGAIN;

	s->calls++;
	if (rc > 0) {
		cr_assert_leq((size_t)rc, most);
		s->at += (uint64_t)rc;
	}
	return rc;
}

static void gives(struct stream *s, uint8_t *to, int n)
{
	for (int i = 0; i < n; i++)
		to[i] = byte_at(s->at - (uint64_t)n + (uint64_t)i);
}

static void takes(struct stream *s, const uint8_t *from, int n)
{
	for (int i = 0; i < n; i++)
		cr_assert_eq(from[i], byte_at(s->at - (uint64_t)n + (uint64_t)i));
}

ssize_t __wrap_rr_conn_recv(struct rr_conn *it, int fd, const struct iovec *iov, int n, int flags)
{
	int rc;

	cr_assert(it == &c && fd == -1 && n == 1 && flags == 0 && iov->iov_len == CHUNK);
	rc = next(&k.in, iov->iov_len);
	gives(&k.in, iov->iov_base, rc);
	return rc;
}

ssize_t __wrap_rr_conn_send(struct rr_conn *it, int fd, const struct iovec *iov, int n, int flags)
{
	int rc;

	cr_assert(it == &c && fd == -1 && n == 1 && flags == 0 && iov->iov_len);
	cr_assert_eq(iov->iov_len, k.from_app.at - k.out.at);
	rc = next(&k.out, iov->iov_len);
	takes(&k.out, iov->iov_base, rc);
	return rc;
}

int __wrap_rr_conn_arm(struct rr_conn *it, int fd, unsigned want)
{
	cr_assert(it == &c && fd == -1);
	k.arms++;
	k.want = want;
	return k.arm_rc;
}

void __wrap_rr_conn_disarm(struct rr_conn *it, int fd)
{
	cr_assert(it == &c && fd == -1);
	k.disarms++;
}

int __wrap_rr_conn_fds(struct rr_conn *it, int fd, unsigned want, struct pollfd out[2], rr_time *until)
{
	cr_assert(it == &c && fd == -1 && want == k.want);
	k.fds++;
	for (int i = 0; i < k.nfds; i++)
		out[i] = (struct pollfd){ WAKE + i, POLLIN, 0 };
	*until = k.until;
	return k.nfds;
}

int __wrap_rr_conn_hold(struct rr_conn *it, struct rr_lock **l)
{
	cr_assert_eq(it, &c);
	if (k.hold_rc < 0)
		return k.hold_rc;
	*l = &sh.lock;
	sh.lock.word = 1u << 10;
	return (int)rr_conn_st(it);
}

void __wrap_rr_conn_free(struct rr_conn *it)
{
	cr_assert_eq(it, &c);
	k.frees++;
	c.refs--;
}

void __wrap_rr_carrier_free(struct rr_share *s)
{
	cr_assert_eq(s, &sh);
	k.carrier_frees++;
}

void __wrap_rr_loopback_reset(int fd)
{
	cr_assert(fd == FAR && k.frees == 0);
	k.resets++;
}

unsigned __wrap_rr_anchor_poll(int fd, unsigned want)
{
	cr_assert_eq(fd, FAR);
	return k.gone & (want | POLLHUP | POLLERR);
}

int __wrap_rr_thread(void *(*run)(void *), void *arg)
{
	k.run = run;
	k.arg = arg;
	return k.no_thread ? -EAGAIN : 0;
}

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	if (k.no_memory)
		return errno = ENOMEM, MAP_FAILED;
	return __real_mmap(at, len, prot, flags, fd, off);
}

int __wrap_munmap(void *at, size_t len)
{
	k.munmaps += k.arg && at == k.arg;
	return __real_munmap(at, len);
}

static int fails(int rc)
{
	errno = rc < 0 ? -rc : EAGAIN;	/* of old */
	return rc < 0 ? -1 : rc;
}

static ssize_t plays_recv(int fd, void *buf, size_t len, int flags)
{
	int rc;

	cr_assert(fd == FAR && len == CHUNK && flags == MSG_DONTWAIT);
	rc = next(&k.from_app, len);
	gives(&k.from_app, buf, rc);
	return fails(rc);
}

static ssize_t plays_send(int fd, const void *buf, size_t len, int flags)
{
	int rc;

	if (fd == APP) {
		cr_assert(len == 1 && flags == (MSG_OOB | MSG_DONTWAIT | MSG_NOSIGNAL));
		k.oobs++;
		return 1;
	}
	cr_assert(fd == FAR && flags == (MSG_DONTWAIT | MSG_NOSIGNAL) && len);
	cr_assert_eq(len, k.in.at - k.to_app.at);
	rc = next(&k.to_app, len);
	takes(&k.to_app, buf, rc);
	return fails(rc);
}

static int plays_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	int v = *(const int *)val;

	cr_assert(level == IPPROTO_TCP && len == sizeof(int));
	if (name == TCP_LINGER2) {
		cr_assert(fd == c.fd && v == -1);
		k.lingers++;
		return 0;
	}
	cr_assert(fd == FAR && v == 1);
	*(name == TCP_NODELAY ? &k.nodelays : &k.quickacks) += 1;
	cr_assert(name == TCP_NODELAY || name == TCP_QUICKACK);
	return 0;
}

static int plays_shutdown(int fd, int how)
{
	cr_assert(fd == FAR && how == SHUT_WR);
	k.shuts++;
	return 0;
}

static void is_lost(struct stream *s)
{
	static const int lost = -ECONNRESET;

	s->rc = &lost;
	s->n = 1;
	s->i = 0;
}

/* The wait until the relay is wanted; then its sleeps, the last of which ends in a loss. */
static int plays_poll(struct pollfd *p, nfds_t n, int ms)
{
	if (!c.face.relayed) {
		cr_assert(n == 1 && ms == -1 && p->fd == FAR && p->events == RR_RELAY_WANTED);
		if (k.polls++ < k.waits)
			return fails(-k.wait_errno);
		return 1;
	}
	k.sleeps++;
	k.slept_n = n;
	k.slept_ms = ms;
	memcpy(k.slept, p, n * sizeof(*p));
	if (k.sleeps >= k.at_most) {
		is_lost(&k.in);
		is_lost(&k.to_app);
		is_lost(&k.from_app);
		is_lost(&k.out);
		if (k.share_goes)
			c.share = NULL;
	}
	return 0;
}

static void afresh(void)
{
	memset(&k, 0, sizeof(k));
	k.until = RR_TIME_NEVER;
	k.nfds = 1;
	k.at_most = 1;
	now = START;
	ops.caps = 0;
	qp.native = true;
	sh.relayed = false;
	sh.lock = (struct rr_lock){ 0 };
	c.face = (struct rr_conn_face){ .state = RR_S_CARRIED };
	c.share = &sh;
	c.relay = c.relay_asked = false;
	c.refs = 1;
	c.fd = APP;
}

static inline void begin(void)
{
	rr_test_setup();
	os = (struct rr_os){ .recv = plays_recv, .send = plays_send, .setsockopt = plays_setsockopt,
			     .shutdown = plays_shutdown, .poll = plays_poll };
	rr_os = &os;
	afresh();
}

#define ROWS(s, ...) do { \
		static const int rows[] = { __VA_ARGS__ }; \
		k.s = (struct stream){ .rc = rows, .n = rr_array_size(rows) }; \
	} while (0)

/* As the thread of a relay; returns when it has ended. */
static inline void runs(void)
{
	cr_assert(rr_relay_forks(&c));
	cr_assert(k.run && c.refs == 2);
	cr_assert_null(k.run(k.arg));
	cr_assert(k.frees == 1 && k.munmaps == 1 && c.refs == 1 && k.nodelays == 1 && k.lingers == 1);
	cr_assert_eq(sh.lock.word, 0);
}

#endif
