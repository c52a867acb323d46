/* SPDX-License-Identifier: BSD-3-Clause */
/* The relay of a native connection that has forked, call by call: the app's socket, the queue pair's streams, clock and
 * thread are played. */
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
	bool no_memory, no_thread;
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
	errno = -rc;
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

static void begin(void)
{
	rr_test_setup();
	os = (struct rr_os){ .recv = plays_recv, .send = plays_send, .setsockopt = plays_setsockopt,
			     .shutdown = plays_shutdown, .poll = plays_poll };
	rr_os = &os;
	afresh();
}

TestSuite(relay, .init = begin, .timeout = 60);

#define ROWS(s, ...) do { \
		static const int rows[] = { __VA_ARGS__ }; \
		k.s = (struct stream){ .rc = rows, .n = rr_array_size(rows) }; \
	} while (0)

/* As the thread of a relay; returns when it has ended. */
static void runs(void)
{
	cr_assert(rr_relay_forks(&c));
	cr_assert(k.run && c.refs == 2);
	cr_assert_null(k.run(k.arg));
	cr_assert(k.frees == 1 && k.munmaps == 1 && c.refs == 1 && k.nodelays == 1 && k.lingers == 1);
	cr_assert_eq(sh.lock.word, 0);
}

/* --- whether there is one --- */

Test(relay, native_connections_whose_queue_pair_is_one_process_have_one)
{
	for (int st = 0; st < RR_S_COUNT; st++) {
		c.face.state = (uint32_t)st;
		cr_assert_eq(rr_relay_may(&c), st == RR_S_TAKEN || st == RR_S_CARRIED, "%d", st);
	}
	c.face.state = RR_S_CARRIED;
	ops.caps = RR_PROV_FAMILY;
	cr_assert_not(rr_relay_may(&c));
	ops.caps = 0;
	qp.native = false;
	cr_assert_not(rr_relay_may(&c));
	cr_assert_not(rr_relay_forks(&c));
	cr_assert_not(rr_relay_forked(&c));
	cr_assert_not(rr_relay_take_over(&c));
	cr_assert(!k.run && !c.relay && !k.lingers && c.share && c.refs == 1 && !sh.relayed && !c.face.relayed);
}

Test(relay, of_several_forks_the_first_makes_it)
{
	cr_assert(rr_relay_forks(&c));
	cr_assert(k.run && c.relay && k.lingers == 1 && c.refs == 2);
	k.run = NULL;
	cr_assert(rr_relay_forks(&c));
	cr_assert(!k.run && k.lingers == 1 && c.refs == 2);
}

static int fd_of(const struct rr_conn *it)
{
	cr_assert_eq(it, &c);
	return c.fd = 44;
}

Test(relay, the_descriptor_is_one_that_the_app_has_now)
{
	rr_test_params.fd_of = fd_of;
	cr_assert(rr_relay_forks(&c));
	cr_assert_eq(c.fd, 44);
}

Test(relay, without_memory_there_is_none)
{
	k.no_memory = true;
	cr_assert(rr_relay_forks(&c));
	k.no_memory = false;
	cr_assert(!c.relay && !k.run && c.refs == 1 && !k.lingers);
}

Test(relay, without_a_thread_the_connection_is_reset)
{
	k.no_thread = true;
	cr_assert(rr_relay_forks(&c));
	cr_assert(k.resets == 1 && k.frees == 1 && k.munmaps == 1 && c.refs == 1);
}

/* --- in the child, and in the parent --- */

Test(relay, a_child_has_nothing_of_it_but_the_socket)
{
	c.refs = 5;
	cr_assert(rr_relay_forked(&c));
	cr_assert(c.face.relayed && c.refs == 1 && rr_conn_st(&c) == RR_S_RELAYED && k.carrier_frees == 1 && !c.share);
}

Test(relay, a_child_asks_once)
{
	rr_relay_ask(&c, APP);
	cr_assert(!k.oobs && !c.relay_asked);
	c.face.state = RR_S_RELAYED;
	rr_relay_ask(&c, APP);
	rr_relay_ask(&c, APP);
	cr_assert(k.oobs == 1 && c.relay_asked);
}

Test(relay, who_takes_over_says_so)
{
	cr_assert(rr_relay_take_over(&c));
	cr_assert(sh.relayed && c.face.relayed && c.face.changed);
}

Test(relay, the_parent_takes_over_where_a_child_was_first)
{
	rr_relay_look(&c);
	cr_assert(!sh.relayed && !sh.lock.word);
	k.gone = POLLPRI;
	sh.far = -1;
	rr_relay_look(&c);
	cr_assert_not(sh.relayed);
	sh.far = FAR;
	k.hold_rc = -EDEADLK;
	rr_relay_look(&c);
	cr_assert_not(sh.relayed);
	k.hold_rc = 0;
	c.share = NULL;
	rr_relay_look(&c);
	c.share = &sh;
	rr_relay_look(&c);
	cr_assert(sh.relayed && !sh.lock.word);
	sh.relayed = false;
	rr_relay_look(&c);
	cr_assert_not(sh.relayed, "it is the relay's already");
}

Test(relay, the_parents_close_is_told_by_an_urgent_byte)
{
	cr_assert_not(rr_relay_takes(&c, APP));
	c.relay = true;
	c.face.state = RR_S_TCP;
	cr_assert_not(rr_relay_takes(&c, APP));
	cr_assert(!k.oobs && !c.face.relayed);
	c.face.state = RR_S_CARRIED;
	cr_assert(rr_relay_takes(&c, APP));
	cr_assert(k.oobs == 1 && c.face.relayed);
	cr_assert(rr_relay_takes(&c, APP));
	cr_assert_eq(k.oobs, 1);
	c.relay = false;
	cr_assert(rr_relay_takes(&c, APP));
}

/* --- waiting until it is wanted --- */

Test(relay, a_signal_does_not_end_the_wait)
{
	k.waits = 3;
	k.wait_errno = EINTR;
	runs();
	cr_assert(k.polls == 4 && k.sleeps == 1 && sh.relayed && k.resets == 1);
}

Test(relay, an_error_does)
{
	k.waits = 3;
	k.wait_errno = ENOMEM;
	runs();
	cr_assert(k.polls == 1 && sh.relayed);
}

Test(relay, what_is_not_relayed_after_all_is_no_loss)
{
	k.hold_rc = -EDEADLK;
	runs();
	cr_assert(!sh.relayed && k.sleeps == 0 && k.resets == 0);
	afresh();
	cr_assert(rr_relay_forks(&c));
	c.face.state = RR_S_TCP;
	k.run(k.arg);
	cr_assert(!sh.relayed && k.sleeps == 0 && k.resets == 0 && k.frees == 1 && k.munmaps == 1);
}

/* --- the peer's bytes --- */

Test(relay, what_comes_goes_to_the_app_in_its_order)
{
	ROWS(in, 100, CHUNK, 5, -ECONNRESET);
	ROWS(to_app, 60, 40, CHUNK, 5);
	runs();
	cr_assert(k.in.at == 100 + CHUNK + 5 && k.to_app.at == k.in.at && k.in.calls == 4 && k.sleeps == 0);
	cr_assert(k.resets == 1 && k.from_app.calls == 0);
}

Test(relay, a_socket_that_is_full_is_waited_for)
{
	ROWS(in, 100);
	ROWS(to_app, 60, -EAGAIN);
	runs();
	cr_assert(k.sleeps == 1 && k.in.at == 100 && k.want == 0);
	cr_assert(k.slept_n == 2 && k.slept[0].fd == FAR && k.slept[0].events == (POLLIN | POLLOUT) && k.slept_ms == -1);
	cr_assert_eq(k.resets, 1);
}

Test(relay, what_was_left_goes_first_after_a_sleep)
{
	ROWS(in, 100, -EAGAIN);
	ROWS(to_app, 60, -EAGAIN, 40);
	k.at_most = 2;
	runs();
	cr_assert(k.sleeps == 2 && k.to_app.at == 100 && k.in.at == 100 && k.want == POLLIN);
	cr_assert_eq(k.slept[0].events, POLLIN);
}

Test(relay, an_app_that_reads_no_more_is_not_written_to)
{
	ROWS(in, 100);
	ROWS(to_app, -EPIPE);
	k.at_most = 2;
	runs();
	cr_assert(k.sleeps == 2 && k.in.calls == 1 && k.to_app.calls == 1 && k.want == 0);
	cr_assert(k.slept[0].fd == FAR && k.slept[0].events == POLLIN);
	cr_assert_eq(k.resets, 1, "what it writes is still taken");
}

Test(relay, the_peers_end_is_told_once)
{
	ROWS(in, 100, 0);
	ROWS(to_app, 60, -EAGAIN, 40);
	k.at_most = 3;
	runs();
	cr_assert(k.shuts == 1 && k.in.calls == 2 && k.to_app.at == 100);
	cr_assert(k.arms == 1 && k.disarms == 1 && k.fds == 1 && k.sleeps == 3);
	cr_assert(k.slept_n == 1 && k.slept_ms == -1 && k.slept[0].events == POLLIN);
}

/* So that what the app writes is not forgotten over a peer that never stops. */
Test(relay, after_16_pieces_it_is_the_other_directions_turn)
{
	int lots[40], n = 0;

	for (; n < 40; n++)
		lots[n] = 10;
	k.in = k.to_app = (struct stream){ .rc = lots, .n = 40 };
	ROWS(from_app, -ECONNRESET);
	runs();
	cr_assert(k.in.calls == TURNS && k.to_app.calls == TURNS && k.from_app.calls == 1);
	afresh();
	k.from_app = k.out = (struct stream){ .rc = lots, .n = 40 };
	runs();
	cr_assert(k.from_app.at == TURNS * 10 && k.out.at == TURNS * 10 && k.sleeps == 1 && k.quickacks == TURNS);
}

/* --- the app's bytes --- */

Test(relay, what_the_app_writes_goes_to_the_peer_in_its_order)
{
	ROWS(from_app, 100, CHUNK, 5);
	ROWS(out, 60, 0, 40, CHUNK, 5);
	runs();
	cr_assert(k.from_app.at == 100 + CHUNK + 5 && k.out.at == k.from_app.at && k.quickacks == 3);
	cr_assert(k.sleeps == 1 && k.want == POLLIN && k.slept[0].events == POLLIN && k.slept[0].fd == FAR && k.slept_ms == -1);
}

/* The app may have gone meanwhile, which does not matter before its bytes have gone. */
Test(relay, a_peer_that_takes_no_more_is_waited_for)
{
	ROWS(from_app, 100);
	ROWS(out, 60, -EAGAIN);
	runs();
	cr_assert(k.sleeps == 1 && k.want == (POLLIN | POLLOUT) && k.slept_ms == 50);
	cr_assert(k.slept_n == 2 && k.slept[0].fd == -1 && k.slept[0].events == 0 && k.slept[1].fd == WAKE);
	cr_assert(k.arms == 1 && k.disarms == 1 && k.resets == 1);
}

Test(relay, what_was_held_goes_first_after_a_sleep)
{
	ROWS(from_app, 100);
	ROWS(out, 60, -EAGAIN, 40);
	k.at_most = 2;
	runs();
	cr_assert(k.out.at == 100 && k.want == POLLIN && k.sleeps == 2);
}

Test(relay, where_both_are_full_both_are_waited_for)
{
	ROWS(in, 100);
	ROWS(to_app, -EAGAIN);
	ROWS(from_app, 100);
	ROWS(out, -EAGAIN);
	runs();
	cr_assert(k.want == POLLOUT && k.slept[0].fd == FAR && k.slept[0].events == POLLOUT && k.slept_ms == 50);
}

Test(relay, an_app_that_writes_no_more_is_told_to_nobody_before_it_has_gone)
{
	ROWS(from_app, 100, 0);
	ROWS(out, 100);
	k.at_most = 2;
	runs();
	cr_assert(k.from_app.calls == 2 && k.sleeps == 2 && k.quickacks == 1);
	cr_assert(k.slept[0].fd == FAR && k.slept[0].events == 0 && k.slept_ms == -1);
}

Test(relay, when_it_has_gone_it_is_over)
{
	ROWS(from_app, 100, 0);
	ROWS(out, 100);
	k.gone = POLLHUP;
	runs();
	cr_assert(k.out.at == 100 && k.sleeps == 0 && k.resets == 0);
}

Test(relay, an_error_of_either_socket_is_a_loss)
{
	ROWS(from_app, -EPIPE);
	runs();
	cr_assert(k.sleeps == 0 && k.resets == 1);
	afresh();
	ROWS(from_app, 10);
	ROWS(out, -EPIPE);
	runs();
	cr_assert(k.sleeps == 0 && k.resets == 1);
}

Test(relay, behind_the_peers_end_the_apps_bytes_are_dropped)
{
	ROWS(in, 0);
	ROWS(from_app, 100, 200);
	runs();
	cr_assert(k.out.calls == 0 && k.from_app.at == 300 && k.arms == 0 && k.disarms == 0 && k.slept_n == 1 && k.sleeps == 1);
}

/* --- how long it sleeps --- */

static int sleeps_until(rr_time until, bool held)
{
	afresh();
	k.until = until;
	if (held) {
		ROWS(from_app, 100);
		ROWS(out, -EAGAIN);
	}
	runs();
	cr_assert(k.sleeps == 1 && k.slept_n == 2);
	return k.slept_ms;
}

Test(relay, it_sleeps_until_there_is_something_to_do)
{
	cr_assert_eq(sleeps_until(RR_TIME_NEVER, false), -1);
	cr_assert_eq(sleeps_until(START - 1, false), 0);
	cr_assert_eq(sleeps_until(START, false), 0);
	cr_assert_eq(sleeps_until(START + 1, false), 1);
	cr_assert_eq(sleeps_until(START + 7 * RR_MSEC, false), 8);
	cr_assert_eq(sleeps_until(START + 59998 * RR_MSEC, false), 59999);
	cr_assert_eq(sleeps_until(START + 100 * RR_SEC, false), 60000);
	cr_assert_eq(sleeps_until(START + 30 * RR_MSEC, true), 31);
	cr_assert_eq(sleeps_until(START + 49 * RR_MSEC, true), 50);
	cr_assert_eq(sleeps_until(START + 80 * RR_MSEC, true), 50);
	cr_assert_eq(sleeps_until(START, true), 0);
}

Test(relay, both_of_its_descriptors_are_slept_on)
{
	k.nfds = 2;
	runs();
	cr_assert(k.slept_n == 3 && k.slept[1].fd == WAKE && k.slept[2].fd == WAKE + 1);
}

Test(relay, where_there_is_something_already_it_does_not_sleep)
{
	k.arm_rc = 1;
	ROWS(in, -EAGAIN, -ECONNRESET);
	runs();
	cr_assert(k.sleeps == 0 && k.arms == 1 && k.disarms == 0 && k.fds == 0 && k.in.calls == 2);
}
