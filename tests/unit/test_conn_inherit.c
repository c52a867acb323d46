/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection that a forked child has as well, and the end of a process, step by step: kernel, provider, clock, threads
 * and the other process are played. */
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/conn/family/family.h"
#include "core/conn/kinds.h"
#include "tests/unit/conn_played.h"
#include "tests/unit/played_clock.h"

#define IN	(POLLIN | POLLRDNORM)
#define OUT	(POLLOUT | POLLWRNORM)
#define ALL	(IN | OUT | POLLRDHUP | POLLPRI)

static struct rr_share *sh;
static struct rr_conn *c;
static struct rr_handback *h;
static int fd;

int sched_yield(void)
{
	now += now ? 100 * RR_USEC : 0;
	return 0;
}

/* --- what is played (the Makefile wraps these) --- */

static struct {
	bool on;
	int asks, ask_rc, breaks, broken, resets, naps, leaves, threads, thread_rc, closed;
	bool dead;
	uint32_t procs, shown;
	rr_time unread, slept;
	rr_time unread_until;	/* what is under way is over then */
	rr_time back_at;	/* when the owner has done its part; 0: never */
	unsigned poll;
	void *(*run)(void *);
	void *arg;
	int settles, settled_from, arm, arms;
	rr_time settle_most;
} k;

int __real_rr_handback_ask(struct rr_share *s, int at);
int __wrap_rr_handback_ask(struct rr_share *s, int at);
bool __wrap_rr_pid_is_dead(int32_t pid);
uint32_t __real_rr_conn_leave(struct rr_share *s);
uint32_t __wrap_rr_conn_leave(struct rr_share *s);
uint32_t __real_rr_conn_procs(struct rr_share *s);
uint32_t __wrap_rr_conn_procs(struct rr_share *s);
unsigned __real_rr_anchor_poll(int at, unsigned want);
unsigned __wrap_rr_anchor_poll(int at, unsigned want);
void __wrap_rr_anchor_break(int at);
void __wrap_rr_anchor_reset(int at);
void __wrap_rr_os_nap(rr_time t);
int __wrap_rr_thread(void *(*run)(void *), void *arg);
uint32_t __real_rr_eng_shown(const struct rr_eng *e);
uint32_t __wrap_rr_eng_shown(const struct rr_eng *e);
rr_time __real_rr_eng_calls_unread(const struct rr_eng *e);
rr_time __wrap_rr_eng_calls_unread(const struct rr_eng *e);

int __wrap_rr_handback_ask(struct rr_share *s, int at)
{
	cr_assert(s == sh && at == fd);
	k.asks++;
	return k.ask_rc;
}

bool __wrap_rr_pid_is_dead(int32_t pid)
{
	(void)pid;
	return k.dead;
}

uint32_t __wrap_rr_conn_leave(struct rr_share *s)
{
	if (!k.on)
		return __real_rr_conn_leave(s);
	k.leaves++;
	return k.procs;
}

uint32_t __wrap_rr_conn_procs(struct rr_share *s)
{
	return k.on ? k.procs : __real_rr_conn_procs(s);
}

unsigned __wrap_rr_anchor_poll(int at, unsigned want)
{
	return k.on ? k.poll & want : __real_rr_anchor_poll(at, want);
}

void __wrap_rr_anchor_break(int at)
{
	k.breaks += at == fd;
	k.broken = at;
}

void __wrap_rr_anchor_reset(int at)
{
	(void)at;
	k.resets++;
}

void __wrap_rr_os_nap(rr_time t)
{
	cr_assert_eq(rr_lock_try(&sh->lock), 0, "nobody naps with the lock");
	rr_lock_drop(&sh->lock);
	k.naps++;
	k.slept = t;
	now += t;
	if (k.back_at && now >= k.back_at)
		h->tx = h->rx = true;
}

int __wrap_rr_thread(void *(*run)(void *), void *arg)
{
	k.threads++;
	k.run = run;
	k.arg = arg;
	return k.thread_rc;
}

uint32_t __wrap_rr_eng_shown(const struct rr_eng *e)
{
	return k.on ? (now < k.unread_until ? 1 : k.shown) : __real_rr_eng_shown(e);
}

rr_time __wrap_rr_eng_calls_unread(const struct rr_eng *e)
{
	return k.on ? k.unread : __real_rr_eng_calls_unread(e);
}

static bool settles(struct rr_qp *qp, rr_time most)
{
	(void)qp;
	k.settles++;
	k.settle_most = most;
	return k.settles > k.settled_from;
}

static int arms(struct rr_qp *qp, enum rr_arm what)
{
	(void)qp;
	cr_assert(what & RR_ARM_RECV);
	k.arms++;
	return k.arm;
}

static struct rr_os os;
static int polled, poll_ms;
static nfds_t poll_n;

static int shows(struct pollfd *q, nfds_t n, int timeout)
{
	if (!timeout)		/* only a look */
		return 0;
	polled++;
	poll_ms = timeout;
	poll_n = n;
	now += (rr_time)timeout * RR_MSEC;
	for (nfds_t i = 0; i < n; i++)
		q[i].revents = 0;
	return n && q[n - 1].fd == sh->qp->wake_fd;	/* the bell rings each time */
}

static void afresh(void)
{
	memset(&k, 0, sizeof(k));
	k.on = true;
	k.procs = 1;
	*h = (struct rr_handback){ .door = 3, .ring = h->ring, .owner = getpid() };
	sh->link = RR_LINK_UP;
	sh->rx.end = RR_ENDS_NOT;
	sh->rx.way = RR_WAY_IN_RDMA;
	sh->tx.way = RR_WAY_OUT_RDMA;
	sh->rx.shut = false;
	rr_rx_forget(sh);
	sh->rx.held = 0;
	sh->err = 0;
	sh->tx.flush_off = sh->tx.flush_len = 0;
	pl.says = pl.polls = pl.drains = 0;
	pl.drained = 0;
	pl.on_say.first = 1;
	polled = 0;
	c->face.relayed = false;
	c->face.changed = false;
	c->lingers = false;
	c->then = NULL;
	c->anchor = -1;
	c->refs = 1;
	sh->ep.caps |= RR_CAP_HATCH | RR_CAP_RING_CREDITS;
}

static uint8_t ring[RR_RING];

static void begin(void)
{
	sh = play(true);
	c = p.client.c;
	fd = p.client.fd;
	h = &sh->back;
	h->ring = ring;
	pl.ops.settle = settles;
	pl.ops.arm = arms;
	pl.ops.caps &= ~(uint32_t)RR_PROV_FAMILY;
	os = *rr_os;
	os.poll = shows;
	rr_os = &os;
	now = START;
	afresh();
	rr_share_hold(sh);
}

TestSuite(conn_inherit, .init = begin, .timeout = 60);

/* --- the child ------------------------------------------------------------------------------- */

static uint8_t got[RR_RING + 16];

static ssize_t reads(size_t n, int flags)
{
	return rr_inherited_recv(c, fd, &(struct iovec){ got, n }, 1, flags);
}

static void puts_in(size_t n)
{
	for (size_t i = 0; i < n; i++, h->tail++)
		h->ring[h->tail % RR_RING] = (uint8_t)(h->tail * 7);
}

Test(conn_inherit, a_child_reads_what_the_owner_has_put_there)
{
	struct iovec iov[] = { { got, 3 }, { NULL, 0 }, { got + 3, 30 } };

	h->head = h->tail = RR_RING - 10;
	puts_in(25);
	cr_assert_eq(reads(100, MSG_PEEK), 25);
	cr_assert_eq(h->head, RR_RING - 10);
	cr_assert(k.asks == 0 && h->reads);
	cr_assert_eq(rr_inherited_inq(c, fd), 25);
	cr_assert_eq(rr_inherited_poll(c, fd, ALL), IN);
	cr_assert_eq(rr_inherited_recv(c, fd, iov, 3, 0), 25);
	for (uint32_t i = 0; i < 25; i++)
		cr_assert_eq(got[i], (uint8_t)((RR_RING - 10 + i) * 7));
	cr_assert_eq(rr_handback_bytes(sh), 0);
	puts_in(5);
	cr_assert_eq(reads(2, 0), 2);
	cr_assert_eq(rr_handback_bytes(sh), 3);
	h->head = h->tail;
	puts_in(RR_RING);
	cr_assert_eq(reads(sizeof(got), 0), RR_RING);
	cr_assert_eq(rr_handback_take(sh, iov, 3, 0), 0);
}

Test(conn_inherit, who_wants_the_connection_asks_now_and_then)
{
	cr_assert_eq(reads(10, 0), -EAGAIN);
	cr_assert(k.asks == 1 && h->since == now && h->again == now + 200 * RR_MSEC && h->reads);
	now += 200 * RR_MSEC - 1;
	cr_assert_eq(reads(10, 0), -EAGAIN);
	cr_assert_eq(k.asks, 1);
	now++;
	cr_assert_eq(reads(10, 0), -EAGAIN);
	cr_assert(k.asks == 2 && h->since == now - 200 * RR_MSEC && h->again == now + 200 * RR_MSEC);
	h->rx = true;
	cr_assert_eq(reads(10, 0), RR_CONN_KERNEL);
	cr_assert(k.asks == 2 && k.leaves == 0, "the other direction is the owner's yet");
	h->tx = true;
	cr_assert_eq(reads(10, 0), RR_CONN_KERNEL);
	cr_assert(k.leaves == 1 && c->face.relayed && c->face.changed, "like any TCP connection");
}

Test(conn_inherit, without_an_owner_it_is_lost)
{
	for (int i = 0; i < 4; i++) {
		afresh();
		if (i == 0)
			h->door = -1;
		if (i == 1)
			k.ask_rc = -EPIPE;
		k.dead = i == 2;
		cr_assert_eq(reads(10, 0), i < 3 ? -ECONNRESET : -EAGAIN, "%d", i);
		cr_assert_eq(rr_link_is_dead(sh), i < 3);
		cr_assert_eq(k.breaks, i < 3);
		if (i < 3) {
			cr_assert_eq(reported(sh), RR_R_FORKED);
			cr_assert_eq(reads(10, 0), 0, "told once");
			cr_assert_eq(rr_inherited_send(c, fd), -EPIPE);
		}
	}
	afresh();
	sh->err = ETIMEDOUT;
	cr_assert_eq(reads(10, 0), -ETIMEDOUT);
	sh->err = ETIMEDOUT;
	k.asks = 0;
	cr_assert_eq(rr_inherited_send(c, fd), -ETIMEDOUT);
}

Test(conn_inherit, what_is_back_for_another_reason_needs_no_owner)
{
	sh->tx.way = RR_WAY_OUT_TCP;
	sh->tx.flush_len = 5;
	now += 1;
	sh->err = 0;
	h->tx = false;
	k.back_at = 0;
	rr_inherited_poll(c, fd, OUT);
	cr_assert_not(h->tx, "what was collected has yet to go");
	sh->tx.flush_off = 5;
	cr_assert_eq(rr_inherited_send(c, fd), RR_CONN_KERNEL);
	cr_assert(h->tx && !h->rx && !h->reads);
	sh->rx.way = RR_WAY_IN_TCP;
	cr_assert_eq(reads(10, 0), RR_CONN_KERNEL);
	cr_assert(h->rx && k.leaves == 1);
}

Test(conn_inherit, poll_says_what_is_back)
{
	k.poll = ALL;
	cr_assert_eq(rr_inherited_poll(c, fd, 0), 0);
	cr_assert(k.asks == 0 && !h->reads);
	cr_assert_eq(rr_inherited_poll(c, fd, OUT), 0);
	cr_assert(k.asks == 1 && !h->reads);
	h->again = 0;
	cr_assert_eq(rr_inherited_poll(c, fd, POLLRDHUP), 0);
	cr_assert(k.asks == 2 && h->reads);
	h->tx = true;
	cr_assert_eq(rr_inherited_poll(c, fd, ALL), OUT);
	h->tx = false;
	h->rx = true;
	cr_assert_eq(rr_inherited_poll(c, fd, ALL), IN | POLLRDHUP | POLLPRI);
	cr_assert_eq(rr_inherited_poll(c, fd, POLLIN), POLLIN);
	puts_in(1);
	cr_assert_eq(rr_inherited_poll(c, fd, ALL), IN);
	h->tx = true;
	cr_assert_eq(rr_inherited_poll(c, fd, ALL), IN | OUT);
	cr_assert_eq(k.leaves, 0);
	h->head = h->tail;
	cr_assert_eq(rr_inherited_poll(c, fd, ALL), RR_CONN_KERNEL);
	cr_assert_eq(k.leaves, 1);
	afresh();
	sh->link = RR_LINK_FAILED;
	cr_assert_eq(rr_inherited_poll(c, fd, ALL), IN | OUT | POLLRDHUP | POLLHUP);
	sh->err = 5;
	cr_assert_eq(rr_inherited_poll(c, fd, 0), POLLHUP | POLLERR);
}

static rr_time until;
static struct pollfd q[2];

static void sleeps_on(unsigned want, short events, rr_time at)
{
	until = RR_TIME_NEVER;
	cr_assert_eq(rr_inherited_fds(c, fd, want, q, &until), 1);
	cr_assert(q[0].fd == fd && q[0].events == events, "%x", q[0].events);
	cr_assert_eq(until, at);
}

Test(conn_inherit, a_child_looks_again_soon_and_then_less_often)
{
	sleeps_on(ALL, 0, now + RR_MSEC);
	h->since = now - 7 * RR_MSEC;
	sleeps_on(ALL, 0, now + 7 * RR_MSEC);
	h->since = now - RR_SEC;
	sleeps_on(ALL, 0, now + 50 * RR_MSEC);
	h->rx = true;
	sleeps_on(ALL, IN | POLLRDHUP | POLLPRI, now + 50 * RR_MSEC);
	h->rx = false;
	h->tx = true;
	sleeps_on(ALL, OUT, now + 50 * RR_MSEC);
	h->rx = true;
	sleeps_on(ALL, ALL, RR_TIME_NEVER);
	puts_in(1);
	sleeps_on(POLLIN, POLLIN, now + RR_MSEC);
	sleeps_on(POLLOUT, POLLOUT, RR_TIME_NEVER);
}

Test(conn_inherit, who_writes_or_shuts_waits_a_little)
{
	rr_time before = now;

	k.back_at = now + 50 * RR_MSEC;
	cr_assert_eq(rr_inherited_shutdown(c, fd, false, true), 0);
	cr_assert(h->tx && k.slept == 100 * RR_USEC && now == k.back_at && k.asks == 1);
	cr_assert_not(sh->rx.shut);
	afresh();
	before = now;
	cr_assert_eq(rr_inherited_shutdown(c, fd, false, true), -ECONNRESET);
	cr_assert(rr_link_is_dead(sh) && now == before + RR_SEC && k.breaks == 1);
	afresh();
	cr_assert_eq(rr_inherited_shutdown(c, fd, true, false), 0);
	cr_assert(sh->rx.shut && k.asks == 0);
	afresh();
	sh->link = RR_LINK_FAILED;
	cr_assert_eq(rr_inherited_shutdown(c, fd, false, true), -ECONNRESET);
	cr_assert_eq(k.breaks, 0);
	cr_assert_eq(rr_lock_try(&sh->lock), -EDEADLK, "the lock is held again");
}

Test(conn_inherit, unread_bytes_make_the_last_close_a_reset)
{
	for (int i = 0; i < 6; i++) {
		afresh();
		k.procs = i == 1 ? 1 : 0;
		puts_in(i == 2 ? 0 : 3);
		sh->rx.shut = i == 3;
		rr_inherited_close(c, i == 4 ? -1 : fd);
		cr_assert(k.leaves == 1 && k.resets == (i == 0 || i == 5), "%d", i);
	}
}

/* One that has vanished has no descriptor of the app's any more. */
Test(conn_inherit, one_that_has_vanished_is_not_reset)
{
	k.procs = 0;
	puts_in(3);
	rr_kinds[RR_S_FORKED]->vanish(c);
	cr_assert(k.leaves == 1 && !k.resets);
}

/* --- the owner --------------------------------------------------------------------------------- */

/* The thread, as far as it gets. */
static void works(void)
{
	rr_lock_drop(&sh->lock);
	k.run(k.arg);
	rr_share_hold(sh);
}

Test(conn_inherit, an_owner_that_closes_takes_the_connection_back_to_tcp)
{
	pl.ops.caps |= RR_PROV_FAMILY;
	rr_handback_leave(c, fd);
	cr_assert(k.threads == 1 && h->busy && h->reads && c->refs == 2 && c->anchor >= 0 && c->anchor != fd);
	rr_handback_leave(c, fd);
	cr_assert_eq(k.threads, 1, "it is at work");
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_RECV, .ptr = pl.peers, .len = 20 });
	sh->rx.way = RR_WAY_IN_HATCHING;
	rr_stream_hatch_in_turn(sh);
	works();
	cr_assert(pl.says == 1 && pl.said[0].imm == RR_IMM_HATCH, "%u", pl.says);
	cr_assert(h->tx && h->rx && !h->busy && h->told && c->refs == 1 && rr_tx_is_tcp(sh));
	cr_assert(rr_handback_bytes(sh) == 24 && !memcmp(h->ring + 4, pl.peers, 20));
	rr_handback_leave(c, fd);
	cr_assert_eq(k.threads, 1, "there is nothing left to do");
}

Test(conn_inherit, the_peer_is_asked_before_the_hatch_opens)
{
	rr_handback_leave(c, fd);
	sh->back.left = true;
	pl.on_say.first = -EAGAIN;
	pl.on_say.i = 2;
	pl.on_say.then = 1;
	k.procs = 0;
	h->left = false;
	/* The end of the stream ends the work. */
	sh->rx.end = RR_ENDS_NOT;
	sh->rx.shut = true;
	works();
	cr_assert(pl.says == 4 && pl.said[1].imm == RR_IMM_BACK && pl.said[2].imm == RR_IMM_BACK &&
		  pl.said[3].imm == RR_IMM_HATCH);
	cr_assert(h->tx && h->rx);
	cr_assert_eq(polled, 2, "%d", polled);
	cr_assert(poll_ms >= 1 && poll_ms <= 50);
}

static int rounds, stops_at;
static struct pollfd slept_on[8][2];
static nfds_t slept_n[8];

/* Notes what is slept on, and ends the connection after so many rounds. */
static int notes(struct pollfd *of, nfds_t n, int timeout)
{
	if (!timeout)
		return 0;
	memcpy(slept_on[rounds], of, n * sizeof(*of));
	slept_n[rounds] = n;
	if (++rounds == stops_at)
		sh->link = RR_LINK_FAILED;
	return rounds == 1;
}

static ssize_t is_full(int at, const void *buf, size_t n, int flags)
{
	(void)at;
	(void)buf;
	(void)n;
	(void)flags;
	errno = EAGAIN;
	return -1;
}

Test(conn_inherit, the_thread_sleeps_on_what_it_waits_for)
{
	int anchor;

	os.poll = notes;
	os.send = is_full;
	stops_at = 2;
	rr_handback_leave(c, fd);
	sh->tx.len = 0;
	sh->tx.rm.left = 40;	/* the rest of a fragment has to be announced */
	anchor = c->anchor;
	works();
	cr_assert_eq(rounds, 2);
	cr_assert(slept_n[0] == 2 && slept_on[0][0].fd == anchor && slept_on[0][0].events == POLLOUT);
	cr_assert(slept_on[0][1].fd == sh->qp->wake_fd && slept_on[0][1].events == POLLIN);
	cr_assert_eq(pl.drains, 1, "the bell rang once");
}

Test(conn_inherit, what_others_listen_to_is_theirs)
{
	for (int i = 0; i < 6; i++) {
		bool alone = i == 0;

		afresh();
		os.poll = notes;
		rounds = 0;
		stops_at = 2;
		pl.on_say.first = -EAGAIN;
		rr_handback_leave(c, -1);
		c->watched = i == 1;
		c->sleepers = i == 2;
		if (i == 3)
			puts_in(RR_RING);
		if (i == 4)
			k.arm = 1;
		if (i == 5)
			sh->link = RR_LINK_MORE;
		sh->rx.end = i == 5 ? RR_ENDS_MARKED : RR_ENDS_NOT;
		sh->rx.promised = sh->rx.records;
		works();
		cr_assert_eq(slept_n[0], alone, "%d: %u", i, (unsigned)slept_n[0]);
		cr_assert_eq(pl.drains, i == 0 || i == 4, "%d: %u", i, pl.drains);
		c->sleepers = 0;
		h->head = h->tail;
	}
}

/* The app has left it, and no child has it either: the thread ends before its work is done. Its descriptor of the anchor is
 * the last one then, and closed as the kernel would close one with unread bytes. */
Test(conn_inherit, what_nobody_has_any_more_ends_and_unread_bytes_reset_it)
{
	static const struct { bool left, child, in_ring, unread, shut, none, ends, resets; } of[] = {
		{ .left = true, .in_ring = true, .ends = true, .resets = true },
		{ .left = true, .unread = true, .ends = true, .resets = true },
		{ .left = true, .ends = true },
		{ .left = true, .in_ring = true, .shut = true, .ends = true },
		{ .left = true, .in_ring = true, .none = true, .ends = true },
		{ .left = true, .child = true, .in_ring = true },
		{ .in_ring = true }, { .unread = true }, { .left = true, .child = true, .unread = true },
	};

	for (unsigned i = 0; i < rr_array_size(of); i++) {
		afresh();
		os.poll = notes;
		rounds = 0;
		stops_at = 1;
		pl.on_say.first = -EAGAIN;
		rr_handback_leave(c, of[i].none ? -1 : fd);
		h->left = of[i].left;
		h->reads = false;
		h->since = h->again = 1;
		k.procs = of[i].child;
		sh->rx.shut = of[i].shut;
		if (of[i].in_ring)
			puts_in(5);
		if (of[i].unread)
			rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_RECV, .ptr = pl.peers, .len = 20 });
		works();
		cr_assert(rounds == !of[i].ends && !h->busy && c->refs == 1, "%u: %d", i, rounds);
		cr_assert_eq(k.resets, of[i].resets, "%u: %d", i, k.resets);
		cr_assert(!h->since && !h->again, "who asks next has not asked");
		cr_assert(!of[i].ends || k.settles == 1, "%u", i);
		h->head = h->tail;
	}
}

Test(conn_inherit, without_a_thread_the_connection_is_lost)
{
	k.thread_rc = -EAGAIN;
	rr_handback_leave(c, fd);
	cr_assert(!h->busy && c->refs == 1 && rr_link_is_dead(sh) && reported(sh) == RR_R_FORKED);
}

Test(conn_inherit, a_lost_connection_is_broken)
{
	rr_handback_leave(c, fd);
	sh->link = RR_LINK_FAILED;
	works();
	cr_assert(!h->busy && !h->tx && pl.says == 0 && c->refs == 1);
}

Test(conn_inherit, an_error_in_between_is_the_next_calls)
{
	rr_handback_leave(c, -1);
	cr_assert_eq(c->anchor, -1);
	sh->pull[1] = (struct rr_pull){ .used = true, .len = 50, .nsegs = 1 };
	sh->pull[1].segs[0].length = 50;
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_PULL, .ref = 1, .len = 50 });
	sh->rx.off = 4;
	pl.on_read.i = 0;
	pl.on_read.then = -EIO;
	works();
	cr_assert(rr_link_is_dead(sh) && sh->err == ECONNRESET && !h->busy);
}

Test(conn_inherit, at_exit_there_is_a_bound)
{
	rr_time before = now;

	pl.on_say.first = -EAGAIN;
	rr_handback_exit(c, now + 2 * RR_MSEC);
	cr_assert(h->reads && now == before + 2 * RR_MSEC && k.slept == RR_MSEC / 4 && k.naps == 8);
	cr_assert_eq(rr_lock_try(&sh->lock), -EDEADLK);
	k.naps = 0;
	k.back_at = now + RR_MSEC;
	h->busy = true;
	pl.says = 0;
	rr_handback_exit(c, now + 200 * RR_MSEC);
	cr_assert(k.naps == 4 && pl.says == 0, "the thread does it");
}

static int fd_played(const struct rr_conn *it)
{
	return it == c ? fd : -2;
}

Test(conn_inherit, at_exit_the_anchor_is_the_apps_descriptor_where_one_is_known)
{
	struct rr_conn_params cp = *rr_cp;

	sh->link = RR_LINK_FAILED;
	k.broken = -2;
	cp.fd_of = NULL;
	rr_cp = &cp;
	rr_handback_exit(c, now);
	cr_assert(k.breaks == 0 && k.broken == -1);
	cp.fd_of = fd_played;
	rr_handback_exit(c, now);
	cr_assert(k.breaks == 1 && k.broken == fd);
}

/* --- what is under way at the end ----------------------------------------------------------------- */

Test(conn_inherit, what_the_peer_may_yet_read)
{
	cr_assert_not(rr_conn_unread(sh));
	k.shown = 1;
	cr_assert(rr_conn_unread(sh));
	k.shown = 0;
	k.unread = now;
	cr_assert(rr_conn_unread(sh));
	k.unread = now - 2 * RR_SEC + 1;
	cr_assert(rr_conn_unread(sh));
	k.unread--;
	cr_assert_not(rr_conn_unread(sh), "it will not read them now");
	k.unread = now;
	sh->ep.caps &= ~(uint32_t)RR_CAP_RING_CREDITS;
	cr_assert_not(rr_conn_unread(sh));
}

Test(conn_inherit, a_wait_for_it_is_bounded)
{
	rr_time before = now;

	k.unread_until = now + 35 * RR_MSEC;
	rr_conn_settle_until(sh, now + RR_SEC);
	cr_assert(polled == 4 && poll_ms == 10 && k.arms == 4 && pl.drains == 4 && pl.polls == 4);
	cr_assert(k.settles == 1 && k.settle_most == RR_SEC - 40 * RR_MSEC);
	polled = k.settles = 0;
	before = now;
	k.unread_until = now + RR_SEC;
	rr_conn_settle_until(sh, now + 30 * RR_MSEC);
	cr_assert(polled == 3 && k.settles == 0 && now == before + 30 * RR_MSEC);
	polled = 0;
	k.arm = 1;
	k.unread_until = 0;
	k.shown = 0;
	rr_conn_settle_until(sh, now);
	cr_assert(polled == 0 && k.settles == 0);
	sh->link = RR_LINK_LOST;
	k.shown = 1;
	rr_conn_settle_until(sh, now + RR_SEC);
	cr_assert(polled == 0 && k.settles == 0, "there is nobody");
	sh->link = RR_LINK_UP;
	pl.ops.settle = NULL;
	rr_conn_settle_until(sh, now + RR_SEC);
	cr_assert(polled == 0, "it outlives this process");
}

static int thens;

static void then(struct rr_share *s)
{
	cr_assert_eq(s, sh);
	thens++;
}

Test(conn_inherit, what_has_settled_is_closed_at_once)
{
	rr_conn_settle(c, then);
	cr_assert(thens == 1 && k.threads == 0 && k.settles == 1 && k.settle_most == 0);
	k.settles = 0;
	k.settled_from = 150;
	rr_conn_settle(c, then);
	cr_assert(thens == 2 && k.threads == 0 && k.settles == 151);
	rr_conn_settle(c, NULL);
	cr_assert_eq(thens, 2);
	pl.ops.settle = NULL;
	k.shown = 1;
	rr_conn_settle(c, then);
	cr_assert(thens == 3 && k.threads == 0);
}

Test(conn_inherit, what_has_not_has_a_thread_that_waits)
{
	rr_time before;

	k.shown = 1;
	k.unread_until = now + 25 * RR_MSEC;
	pl.polls = 0;
	rr_conn_settle(c, then);
	cr_assert(thens == 0 && k.threads == 1 && c->lingers && c->then == then && c->refs == 2 && pl.polls == 200);
	k.shown = 0;
	k.arms = polled = 0;
	works();
	cr_assert(thens == 1 && !c->lingers && c->refs == 1 && k.arms == 3 && polled == 3 && poll_ms == 10 && pl.drains == 3);
	/* The wake-up fd is not to be slept on. */
	k.shown = 1;
	rr_conn_settle(c, then);
	k.arm = 1;
	before = now;
	polled = pl.drains = 0;
	works();
	cr_assert(thens == 2 && now == before + 2 * RR_SEC && polled == 2000 && poll_n == 0 && pl.drains == 0);
	rr_conn_settle(c, NULL);
	sh->link = RR_LINK_LOST;
	works();
	cr_assert_eq(thens, 2);
	sh->link = RR_LINK_UP;
	k.thread_rc = -EAGAIN;
	rr_conn_settle(c, then);
	cr_assert(thens == 3 && !c->lingers && c->refs == 1, "without a thread nobody waits");
}

Test(conn_inherit, so_many_threads_may_wait_and_no_more)
{
	k.shown = 1;
	for (int i = 0; i < 64; i++)
		rr_conn_settle(c, then);
	cr_assert(k.threads == 64 && thens == 0);
	rr_conn_settle(c, then);
	cr_assert(k.threads == 64 && thens == 1);
	k.shown = 0;
	works();
	cr_assert_eq(thens, 2);
	k.shown = 1;
	rr_conn_settle(c, then);
	cr_assert_eq(k.threads, 65, "one has ended");
}
