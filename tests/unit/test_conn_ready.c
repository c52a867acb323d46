/* SPDX-License-Identifier: BSD-3-Clause */
/* What a carried connection is ready for, what a thread that waits for it sleeps on and until when, and what both ends
 * tell each other: kernel, provider and clock are played. */
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/outdated.h"
#include "core/conn/base/spin.h"
#include "tests/unit/conn_played.h"
#include "tests/unit/played_clock.h"

#define IN	(POLLIN | POLLRDNORM)
#define OUT	(POLLOUT | POLLWRNORM)
#define ALL	(IN | OUT | POLLRDHUP | POLLPRI)

static struct rr_share *sh;
static struct rr_conn *c;
static int fd;

/* --- what is played (the Makefile wraps these) --- */

static struct {
	bool on, unwritable;
	rr_time deadline, keep;
	int looks;
	uint32_t procs;
	enum rr_arm armed;
	int arm, arms, disarms;
	bool peek;
} k;

bool __real_rr_eng_writable(const struct rr_eng *e);
bool __wrap_rr_eng_writable(const struct rr_eng *e);
rr_time __real_rr_eng_deadline(const struct rr_eng *e);
rr_time __wrap_rr_eng_deadline(const struct rr_eng *e);
void __real_rr_anchor_check(struct rr_share *s, int at, rr_time t);
void __wrap_rr_anchor_check(struct rr_share *s, int at, rr_time t);
uint32_t __real_rr_conn_procs(struct rr_share *s);
uint32_t __wrap_rr_conn_procs(struct rr_share *s);

bool __wrap_rr_eng_writable(const struct rr_eng *e)
{
	return k.on ? !k.unwritable : __real_rr_eng_writable(e);
}

rr_time __wrap_rr_eng_deadline(const struct rr_eng *e)
{
	return k.on ? k.deadline : __real_rr_eng_deadline(e);
}

void __wrap_rr_anchor_check(struct rr_share *s, int at, rr_time t)
{
	if (!k.on)
		return __real_rr_anchor_check(s, at, t);
	cr_assert(s == sh && at == fd && t == now);
	k.looks++;
	rr_rx_look(s, t);
}

uint32_t __wrap_rr_conn_procs(struct rr_share *s)
{
	return k.on ? k.procs : __real_rr_conn_procs(s);
}

static int played_arm(struct rr_qp *qp, enum rr_arm what)
{
	(void)qp;
	k.arms++;
	k.armed = what;
	return k.arm;
}

static void played_disarm(struct rr_qp *qp)
{
	(void)qp;
	k.disarms++;
}

static bool played_peek(const struct rr_qp *qp, enum rr_arm what)
{
	(void)qp;
	return k.peek && what == RR_ARM_RECV;
}

static struct rr_peer_look peer;

static bool is_only_cpu;	/* of the machine */

bool __wrap_rr_cpu_is_only(void);
bool __wrap_rr_cpu_is_only(void)
{
	return is_only_cpu;
}

static void played_observe(struct rr_qp *qp, uint32_t cpu, struct rr_peer_look *to)
{
	(void)qp;
	(void)cpu;
	*to = peer;
}

static bool copies;

static bool played_copies(const struct rr_qp *qp)
{
	(void)qp;
	return copies;
}

static uint32_t rung;

static uint32_t played_rung(const struct rr_qp *qp, rr_time at)
{
	(void)qp;
	(void)at;
	return rung;
}

static short shown;

static struct rr_os os;

static int shows(struct pollfd *q, nfds_t n, int timeout)
{
	cr_assert(timeout == 0 && n == 1 && q->fd == fd);
	q->revents = shown & (q->events | POLLERR | POLLHUP);
	return q->revents != 0;
}

static void afresh(void)
{
	memset(&k, 0, sizeof(k));
	k.on = true;
	k.deadline = RR_TIME_NEVER;
	k.procs = 1;
	shown = 0;
	sh->link = RR_LINK_UP;
	sh->rx.end = RR_ENDS_NOT;
	sh->rx.way = RR_WAY_IN_RDMA;
	sh->tx.way = RR_WAY_OUT_RDMA;
	sh->rx.shut = false;
	rr_rx_forget(sh);
	sh->rx.held = 0;
	sh->rx.lowat = 1;
	sh->rx.checked = now;
	sh->rx.since = 0;
	sh->tx.want = 0;
	sh->err = 0;
	sh->procs = 1;
	sh->keep_idle = 0;
	sh->called_back = false;
	c->dial_wait = c->dial_told = false;
	c->watched = false;
	sh->rung = false;
	sh->look_uses = 0;
	sh->spin = 0;
	memset(pl.tells, 0, sizeof(pl.tells));
	pl.says = pl.polls = pl.drains = 0;
	pl.drained = 0;
	pl.ops.caps |= RR_PROV_TELLS | RR_PROV_DIRECT | RR_PROV_FAMILY;
}

static void begin(void)
{
	rr_test_params.spin = rr_test_params.spin_worth = 10 * RR_USEC;
	sh = play(true);
	c = p.client.c;
	fd = p.client.fd;
	pl.ops.arm = played_arm;
	pl.ops.disarm = played_disarm;
	pl.ops.peek = played_peek;
	pl.ops.observe = played_observe;
	pl.ops.is_copying = played_copies;
	pl.ops.rung = played_rung;
	os = *rr_os;
	os.poll = shows;
	rr_os = &os;
	now = START;
	afresh();
}

TestSuite(conn_ready, .init = begin, .timeout = 60);

static void is(unsigned want, unsigned bits)
{
	unsigned got = rr_ready_poll(c, fd, want);

	cr_assert_eq(got, bits, "%x, not %x", got, bits);
}

static void has(uint32_t len)
{
	rr_stream_push(sh, &(struct rr_rx_ent){ .from = RR_FROM_BUF, .len = len });
}

static int64_t all;

/* All memory is somebody's, and a record waits for some. */
static void lacks_room(bool yes)
{
	if (yes) {
		all = rr_pool_alloc(&sh->pool, (size_t)(sh->pool.npages - sh->pool.used) * RR_POOL_PAGE);
		cr_assert_geq(all, 0);
	} else {
		rr_pool_free(&sh->pool, (uint32_t)all);
	}
	sh->tx.want = yes ? 5000 : 0;
}

/* --- readiness ------------------------------------------------------------------------------- */

Test(conn_ready, a_connection_with_nothing_to_read_is_writable)
{
	is(ALL, OUT);
	is(IN, 0);
	is(POLLOUT, POLLOUT);
	is(0, 0);
	has(10);
	is(ALL, OUT | IN);
	is(POLLIN, POLLIN);
	is(POLLOUT, POLLOUT);
	is(POLLRDHUP, 0);
	k.unwritable = true;
	is(ALL, IN);
	k.unwritable = false;
	lacks_room(true);
	is(OUT, 0);
}

Test(conn_ready, so_much_must_have_come)
{
	sh->rx.lowat = 14;
	has(9);
	is(IN, 0);
	sh->rx.lowat = 13;
	is(IN, IN);
	sh->rx.lowat = UINT32_MAX;
	is(IN, 0);
	sh->rx.held = sh->qp->recvs / 2 + 1;
	is(IN, IN);	/* no more can come */
	rr_rx_forget(sh);
	is(IN, 0);
	sh->rx.held = 0;
	sh->rx.bytes = rr_cp->max_stash;
	is(IN, IN);	/* nor can more than that */
	sh->rx.bytes--;
	is(IN, 0);
	sh->back.tail = sh->back.head + 1;
	is(IN, IN);
	sh->back.tail = sh->back.head;
	sh->rx.bytes = 0;
}

Test(conn_ready, ends_are_readable_and_no_more_writes_are_writable)
{
	sh->rx.shut = true;
	is(ALL, IN | POLLRDHUP | OUT);
	afresh();
	sh->rx.end = RR_ENDS_FIN;
	is(ALL, IN | POLLRDHUP | OUT);
	sh->tx.way = RR_WAY_OUT_RDMA_SHUT;
	is(ALL, IN | POLLRDHUP | OUT | POLLHUP);
	sh->rx.end = RR_ENDS_NOT;
	is(ALL, OUT);
	sh->rx.shut = true;
	is(0, POLLHUP);
	afresh();
	sh->rx.end = RR_ENDS_FIN_MARKED;
	sh->rx.promised = sh->rx.records + 1;
	is(ALL, OUT);
	afresh();
	sh->rx.end = RR_ENDS_RESET;
	is(ALL, IN | POLLRDHUP | OUT | POLLHUP);
	is(0, POLLHUP);
	afresh();
	sh->link = RR_LINK_FAILED;
	sh->err = ECONNRESET;
	is(ALL, IN | POLLRDHUP | OUT | POLLHUP | POLLERR);
	is(POLLPRI, POLLHUP | POLLERR);
	afresh();
	sh->err = ECONNRESET;
	is(0, POLLERR);
	/* The anchor has yet to tell how. */
	afresh();
	sh->link = RR_LINK_LOST;
	is(OUT, 0);
	sh->rx.end = RR_ENDS_FIN;
	is(OUT, OUT);
	sh->rx.end = RR_ENDS_NOT;
	sh->link = RR_LINK_VOID;
	is(OUT, OUT);
}

Test(conn_ready, behind_the_hatch_the_kernel_says_it)
{
	sh->rx.way = RR_WAY_IN_TCP;
	is(IN | POLLRDHUP, 0);
	shown = IN | POLLRDHUP | POLLPRI;
	is(ALL, IN | POLLRDHUP | POLLPRI | OUT);
	has(4);
	sh->rx.way = RR_WAY_IN_HATCHED;
	is(IN | POLLRDHUP, IN);
	afresh();
	sh->tx.way = RR_WAY_OUT_TCP;
	is(ALL, 0);
	shown = OUT | POLLHUP | POLLERR;
	is(OUT, OUT | POLLERR);
	shown = OUT;
	os.send = NULL;
	is(OUT, OUT);
	/* How both have ended is to be seen. */
	sh->rx.way = RR_WAY_IN_TCP;
	shown = OUT | POLLHUP;
	is(OUT, OUT | POLLHUP);
	shown = POLLERR;
	is(0, POLLERR);
}

Test(conn_ready, before_the_crossing_the_kernel_says_it)
{
	sh->tx.way = RR_WAY_OUT_EARLY;
	is(OUT, 0);
	shown = OUT;
	is(OUT, OUT);
	shown = POLLHUP;
	is(OUT, 0);	/* of a connection whose inbound way is RDMA the end mark and FIN tell */
	sh->rx.end = RR_ENDS_FIN;
	is(OUT, POLLHUP);
	sh->rx.end = RR_ENDS_NOT;
	sh->rx.way = RR_WAY_IN_EARLY;
	is(OUT, POLLHUP);
	shown = 0;
	is(IN | POLLRDHUP, 0);
	sh->link = RR_LINK_FAILED;
	is(IN | POLLRDHUP, IN | POLLRDHUP | POLLHUP);	/* the next read says so */
	sh->link = RR_LINK_UP;
	shown = POLLERR | OUT;
	is(OUT, OUT | POLLERR);
	shown = IN;
	is(IN | OUT, 0);	/* the kernel's queue holds nothing of the app's */
	/* An error that our own end mark has caused is none. */
	sh->rx.way = RR_WAY_IN_CROSSING;
	sh->rx.shut = true;
	sh->tx.way = RR_WAY_OUT_EARLY_SHUT;
	shown = POLLERR | POLLHUP;
	is(0, POLLHUP);
	shown = POLLHUP;
	is(0, POLLHUP);
}

Test(conn_ready, while_one_direction_goes_by_rdma_the_anchor_is_hidden)
{
	shown = POLLHUP | POLLERR;
	is(0, 0);
	sh->tx.way = RR_WAY_OUT_TCP;
	is(IN, 0);	/* who does not write is not told of that half */
	sh->tx.way = RR_WAY_OUT_EARLY;
	is(0, 0);
	sh->rx.end = RR_ENDS_FIN;
	is(0, POLLHUP);
	sh->rx.end = RR_ENDS_NOT;
	sh->rx.way = RR_WAY_IN_TCP;
	is(0, 0);
	sh->tx.way = RR_WAY_OUT_RDMA;
	is(OUT, OUT);	/* who does not read is not told of that half */
	sh->tx.way = RR_WAY_OUT_TCP;
	is(0, POLLHUP | POLLERR);
}

/* What is written after the app's own shutdown() fails at once. */
Test(conn_ready, who_has_shut_need_not_wait_to_be_told)
{
	k.unwritable = true;
	is(ALL, 0);
	sh->tx.way = RR_WAY_OUT_RDMA_SHUT;
	is(OUT, OUT);
	sh->tx.way = RR_WAY_OUT_RDMA;
	sh->rx.end = RR_ENDS_RESET;
	is(OUT, OUT | POLLHUP);
	sh->rx.end = RR_ENDS_NOT;
	sh->link = RR_LINK_FAILED;
	is(OUT, OUT | POLLHUP);
}

Test(conn_ready, connect_does_not_wait_for_the_peers_app)
{
	k.unwritable = true;
	is(OUT, 0);
	c->dial_wait = true;
	is(OUT, OUT);
	c->dial_told = true;
	is(OUT, 0);
}

Test(conn_ready, the_anchor_is_looked_at_as_often_as_it_may_have_news)
{
	struct { unsigned want; rr_time every; } of[] = {
		{ IN, RR_STALE - 1 }, { IN | POLLRDHUP, 20 * RR_MSEC }, { IN, RR_MSEC }, { IN, RR_MSEC }, { IN, RR_MSEC }, { IN, RR_MSEC },
	};

	for (unsigned i = 0; i < rr_array_size(of); i++) {
		afresh();
		if (i == 2)
			pl.ops.caps &= ~(uint32_t)RR_PROV_TELLS;
		if (i == 3)
			sh->link = RR_LINK_LOST;
		if (i == 4)
			sh->rx.end = RR_ENDS_MARKED;
		if (i == 5)
			sh->rx.way = RR_WAY_IN_HATCHED;
		sh->rx.checked = now - of[i].every;
		rr_ready_poll(c, fd, of[i].want);
		cr_assert_eq(k.looks, 0, "%u", i);
		sh->rx.checked = now - of[i].every - 1;
		rr_ready_poll(c, fd, of[i].want);
		cr_assert_eq(k.looks, 1, "%u", i);
	}
}

/* Where calls come every few seconds each would look, and nothing reports that it had to. */
Test(conn_ready, a_look_at_the_anchor_serves_some_more_calls_than_those_of_a_second)
{
	for (unsigned int round = 1; round < 4; round++) {
		sh->rx.checked = now - RR_SEC + 1;
		for (unsigned int i = 0; i < 3 * RR_STALE_USES; i++)
			rr_ready_poll(c, fd, IN);
		cr_assert_eq(k.looks, round - 1);
		sh->rx.checked = now - RR_SEC;
		for (unsigned int i = 0; i < RR_STALE_USES; i++)
			rr_ready_poll(c, fd, IN);
		cr_assert_eq(k.looks, round - 1);
		rr_ready_poll(c, fd, IN);
		cr_assert_eq(k.looks, round);
	}
	now = RR_SEC;
	rr_rx_look_again(sh);
	rr_ready_poll(c, fd, IN);
	cr_assert_eq(k.looks, 4, "also on a machine that has just started");
}

Test(conn_ready, what_has_come_is_taken_in_if_it_may_matter)
{
	pl.polls = 0;
	rr_ready_poll(c, fd, IN);
	cr_assert_eq(pl.polls, 1);
	has(4);
	rr_ready_poll(c, fd, IN);
	cr_assert_eq(pl.polls, 1, "there is something to read");
	rr_ready_poll(c, fd, OUT);
	cr_assert_eq(pl.polls, 2);
	sh->rx.lowat = 9;
	rr_ready_poll(c, fd, IN);
	cr_assert_eq(pl.polls, 3);
	sh->hint = RR_HINT_IN | RR_HINT_LOST;
	rr_ready_poll(c, fd, OUT);
	cr_assert_eq(sh->hint, RR_HINT_IN | RR_HINT_LOST);
	rr_ready_poll(c, fd, IN);
	cr_assert_eq(sh->hint, RR_HINT_LOST, "it was told that there is nothing");
	sh->called_back = true;
	rr_ready_poll(c, fd, 0);
	cr_assert(!sh->called_back && rr_tx_is_tcp(sh));
}

/* --- sleeping ------------------------------------------------------------------------------------ */

Test(conn_ready, who_arms_is_rung_for_what_it_waits_for)
{
	uint64_t sleeps = sh->qp->count->v[RR_C_sleeps];

	sh->spin = 0;
	cr_assert_eq(rr_ready_arm(c, fd, IN, true), 0);
	cr_assert(k.arms == 1 && k.armed == RR_ARM_RECV && sh->armed_at == now && pl.polls == 1);
	cr_assert(pl.tells[RR_TELL_DOING] == 1 && pl.told[RR_TELL_DOING] == RR_DOES_SLEEP);
	cr_assert_eq(sh->qp->count->v[RR_C_sleeps], sleeps + 1);
	sh->spin = 5;
	cr_assert_eq(rr_ready_arm(c, fd, IN, true), 0);
	cr_assert_eq(pl.told[RR_TELL_DOING], RR_DOES_SLEEP | RR_DOES_SPIN);
	cr_assert_eq(rr_ready_arm(c, fd, IN | OUT, true), 1);
	cr_assert_eq(k.arms, 2);
	k.unwritable = true;
	cr_assert_eq(rr_ready_arm(c, fd, OUT, true), 0);
	cr_assert_eq(k.armed, RR_ARM_RECV | RR_ARM_SEND);
	cr_assert_eq(rr_ready_arm(c, fd, IN, true), 0);
	cr_assert_eq(k.armed, RR_ARM_RECV);
	/* Neither way out is to be waited for by who could write: it waits for something else. */
	k.unwritable = false;
	sh->link = RR_LINK_LOST;
	cr_assert_eq(rr_ready_arm(c, fd, OUT, true), 0);
	sh->link = RR_LINK_UP;
	lacks_room(true);
	cr_assert_eq(rr_ready_arm(c, fd, OUT, true), 0);
	cr_assert_eq(k.armed, RR_ARM_RECV | RR_ARM_SEND);
	lacks_room(false);
	sh->called_back = true;
	pl.on_say.first = -EAGAIN;
	cr_assert_eq(rr_ready_arm(c, fd, IN, true), 0);
	cr_assert_eq(k.armed, RR_ARM_RECV | RR_ARM_SEND);
	sh->called_back = false;
	k.arm = 1;
	sh->armed_at = 0;
	cr_assert_eq(rr_ready_arm(c, fd, IN, true), 1, "there is something");
	cr_assert_eq(sh->armed_at, 0);
	sh->link = RR_LINK_LOST;
	k.arms = 0;
	pl.tells[RR_TELL_DOING] = 0;
	cr_assert_eq(rr_ready_arm(c, fd, IN, true), 0);
	cr_assert(k.arms == 0 && sh->armed_at == now && pl.tells[RR_TELL_DOING] == 0);
}

static int probes;

static int probed(struct rr_qp *qp)
{
	(void)qp;
	probes++;
	return 0;
}

Test(conn_ready, who_goes_to_sleep_probes_a_silent_peer)
{
	pl.ops.probe = probed;
	sh->keep_idle = 5;
	sh->probed = 0;
	sh->active = now - 4;
	rr_ready_arm(c, fd, IN, true);
	cr_assert_eq(probes, 0);
	sh->active = now - 5;
	rr_ready_arm(c, fd, IN, true);
	cr_assert_eq(probes, 1);
}

Test(conn_ready, before_a_sleep_the_anchor_is_looked_at_if_nothing_will_tell)
{
	rr_ready_arm(c, fd, IN, true);
	cr_assert_eq(k.looks, 0);
	sh->rx.checked = 0;
	rr_ready_arm(c, fd, IN, true);
	cr_assert_eq(k.looks, 1, "it may have news");
	sh->rx.since = sh->qp->recvs / 2 - 1;
	rr_ready_arm(c, fd, IN, true);
	cr_assert_eq(k.looks, 1);
	sh->rx.since++;
	rr_ready_arm(c, fd, IN, true);
	cr_assert_eq(k.looks, 2, "so many messages that a note may be lacking");
	sh->rx.checked = now - RR_STALE + 1;
	rr_ready_arm(c, fd, IN, false);
	cr_assert_eq(k.looks, 2);
	sh->rx.checked--;
	rr_ready_arm(c, fd, IN, true);
	cr_assert_eq(k.looks, 2);
	rr_ready_arm(c, fd, IN, false);
	cr_assert_eq(k.looks, 3, "a set does not sleep on the anchor");
	sh->link = RR_LINK_LOST;
	rr_ready_arm(c, fd, IN, true);
	cr_assert_eq(k.looks, 4);
	afresh();
	sh->rx.way = RR_WAY_IN_HATCHED;
	rr_ready_arm(c, fd, IN, true);
	cr_assert_eq(k.looks, 1);
	afresh();
	pl.ops.caps &= ~(uint32_t)RR_PROV_TELLS;
	sh->rx.since = 10000;
	rr_ready_arm(c, fd, IN, true);
	cr_assert_eq(k.looks, 0, "a thread sleeps on the anchor");
	rr_ready_arm(c, fd, IN, false);
	cr_assert_eq(k.looks, 0);
	sh->rx.checked--;
	rr_ready_arm(c, fd, IN, false);
	cr_assert_eq(k.looks, 1);
}

Test(conn_ready, the_last_one_that_wakes_disarms)
{
	sh->rx.checked = 5;
	k.peek = true;
	rr_ready_disarm(c, false);
	cr_assert(k.disarms == 1 && pl.drains == 1 && sh->rx.checked == 5);
	k.peek = false;
	c->watched = true;
	rr_ready_disarm(c, false);
	cr_assert(k.disarms == 1 && sh->rx.checked == 0, "the anchor had something to say");
	c->watched = false;
	sh->rx.checked = 5;
	pl.drained = -ECONNRESET;
	rr_ready_disarm(c, false);
	cr_assert(k.disarms == 1 && rr_link_is_lost(sh));
}

/* It is consumed once, by the next arm or by whoever must. */
Test(conn_ready, a_doorbell_may_wait_for_the_next_arm_if_memory_shows_what_it_was_for)
{
	k.peek = true;
	rr_ready_disarm(c, true);
	cr_assert(pl.drains == 0 && k.disarms == 1 && sh->rung);
	cr_assert_eq(rr_ready_arm(c, fd, IN, true), 0);
	cr_assert(pl.drains == 1 && !sh->rung);
	rr_ready_arm(c, fd, IN, true);
	cr_assert_eq(pl.drains, 1);
	rr_ready_drain(sh, true);
	rr_ready_drain(sh, false);
	cr_assert(pl.drains == 2 && !sh->rung);
	k.peek = false;
	rr_ready_disarm(c, true);
	cr_assert(pl.drains == 3 && !sh->rung, "there may be no message, but an end");
	k.peek = true;
	pl.ops.caps &= ~(uint32_t)RR_PROV_TELLS;
	rr_ready_disarm(c, true);
	cr_assert(pl.drains == 4 && !sh->rung);
}

Test(conn_ready, a_lost_link_is_found_when_the_doorbell_is_consumed)
{
	k.peek = true;
	rr_ready_drain(sh, true);
	pl.drained = -ECONNRESET;
	cr_assert(rr_link_is_up(sh));
	rr_ready_arm(c, fd, IN, true);
	cr_assert(rr_link_is_lost(sh) && k.arms == 0);
}

static rr_time until;
static struct pollfd q[2];

static int fds(unsigned want)
{
	until = 0;
	return rr_ready_fds(sh, fd, want, q, &until);
}

Test(conn_ready, a_thread_sleeps_on_both_ends)
{
	cr_assert_eq(fds(ALL), 2);
	cr_assert(q[0].fd == fd && q[0].events == (POLLIN | POLLRDHUP));
	cr_assert(q[1].fd == sh->qp->wake_fd && q[1].events == POLLIN);
	cr_assert_eq(until, RR_TIME_NEVER);
	sh->rx.end = RR_ENDS_FIN;
	cr_assert_eq(fds(ALL), 2);
	cr_assert_eq(q[0].events, 0);
	sh->rx.end = RR_ENDS_NOT;
	sh->rx.way = RR_WAY_IN_HATCHED;
	fds(ALL);
	cr_assert_eq(q[0].events, 0);
	sh->rx.way = RR_WAY_IN_TCP;
	fds(ALL);
	cr_assert_eq(q[0].events, IN | POLLRDHUP | POLLPRI);
	fds(POLLIN);
	cr_assert_eq(q[0].events, POLLIN);
	sh->rx.way = RR_WAY_IN_EARLY;
	fds(ALL);
	cr_assert_eq(q[0].events, IN | POLLRDHUP | POLLPRI);
	fds(0);
	cr_assert_eq(q[0].events, 0);
	sh->rx.way = RR_WAY_IN_RDMA;
	sh->tx.way = RR_WAY_OUT_TCP;
	fds(ALL);
	cr_assert_eq(q[0].events, OUT | POLLIN | POLLRDHUP);
	sh->tx.way = RR_WAY_OUT_EARLY;
	fds(POLLOUT);
	cr_assert_eq(q[0].events, POLLOUT | POLLIN | POLLRDHUP);
	sh->tx.way = RR_WAY_OUT_RDMA;
	sh->link = RR_LINK_FAILED;
	cr_assert_eq(fds(ALL), 1);
	cr_assert_eq(until, RR_TIME_NEVER);
	sh->link = RR_LINK_LOST;
	cr_assert_eq(fds(ALL), 1);
	cr_assert_eq(until, now + 50 * RR_MSEC);
	sh->rx.way = RR_WAY_IN_TCP;
	sh->tx.way = RR_WAY_OUT_TCP;
	cr_assert_eq(fds(ALL), 1);
	cr_assert_eq(until, RR_TIME_NEVER, "the kernel says it");
}

Test(conn_ready, and_no_longer_than_until_something_is_due)
{
	k.deadline = now + 9;
	fds(IN);
	cr_assert_eq(until, now + 9);
	sh->keep_idle = 5;
	sh->active = now;
	fds(IN);
	cr_assert_eq(until, now + 5);
	sh->fences = 1;
	sh->fences_since = now;
	k.deadline = RR_TIME_NEVER;
	sh->keep_idle = 0;
	fds(IN);
	cr_assert_eq(until, now + RR_MSEC);
	sh->fences = 0;
	k.unwritable = true;
	fds(IN);
	cr_assert_eq(until, RR_TIME_NEVER);
	pl.ops.caps &= ~(uint32_t)RR_PROV_DIRECT;
	fds(IN);
	cr_assert_eq(until, now + RR_SEC);
	k.unwritable = false;
	fds(IN);
	cr_assert_eq(until, RR_TIME_NEVER);
	k.procs = 2;
	fds(IN);
	cr_assert_eq(until, RR_TIME_NEVER);
	sh->procs = 2;
	fds(IN);
	cr_assert_eq(until, now + 50 * RR_MSEC, "a process of the family may take it");
	k.procs = 1;
	fds(IN);
	cr_assert_eq(until, RR_TIME_NEVER, "it has died");
}

/* --- what the ends tell each other --------------------------------------------------------------- */

Test(conn_ready, the_peer_is_told_what_this_end_does)
{
	sh->spin = 0;
	rr_tell_runs(sh);
	cr_assert(pl.tells[RR_TELL_DOING] == 1 && pl.told[RR_TELL_DOING] == RR_DOES_RUN);
	sh->spin = 1;
	rr_tell_runs(sh);
	cr_assert_eq(pl.told[RR_TELL_DOING], RR_DOES_RUN | RR_DOES_SPIN);
	sh->moved = 6;
	rr_tell_moved(sh);
	cr_assert(sh->moved == 7 && pl.tells[RR_TELL_WORK] == 1 && pl.told[RR_TELL_WORK] == 7);
	rr_tell_cpu(sh, 33);
	cr_assert(sh->cpu_told == 33 && pl.tells[RR_TELL_CPU] == 1 && pl.told[RR_TELL_CPU] > 0);
	memset(pl.tells, 0, sizeof(pl.tells));
	for (int i = 0; i < 2; i++) {
		if (i)
			pl.ops.tell = NULL;
		else
			sh->link = RR_LINK_LOST;
		rr_tell_runs(sh);
		rr_tell_moved(sh);
		rr_tell_cpu(sh, 40 + (rr_time)i);
		cr_assert(sh->cpu_told == 40 + (rr_time)i && sh->moved == 8 + (uint32_t)i);
		cr_assert(!pl.tells[RR_TELL_DOING] && !pl.tells[RR_TELL_WORK] && !pl.tells[RR_TELL_CPU]);
		sh->link = RR_LINK_UP;
	}
}

Test(conn_ready, whose_rest_is_over_runs)
{
	p.client.c->rest = 8;
	rr_rest_end(p.client.c);
	cr_assert_eq(atomic_load(&p.client.c->rest), 0);
	cr_assert(pl.tells[RR_TELL_DOING] == 1 && pl.told[RR_TELL_DOING] & RR_DOES_RUN);
}

Test(conn_ready, what_the_peer_does_is_seen)
{
	struct rr_spin_in i = { .cpu = 3 };

	peer = (struct rr_peer_look){ .cpu = 4, .doing = RR_DOES_RUN, .work = 9 };
	sh->peer_work = 9;
	rr_tell_look(sh, &i);
	cr_assert(i.worth == 10 * RR_USEC && i.peer_cpu == 4 && i.peer == RR_PEER_RUNS && !i.peer_spins && !i.at_work);
	cr_assert(!sh->peer_slept && sh->peer_work == 9);
	peer.doing = RR_DOES_SLEEP | RR_DOES_SPIN;
	peer.work = 10;
	rr_tell_look(sh, &i);
	cr_assert(i.peer == RR_PEER_SLEEPS && i.peer_spins && !i.at_work && sh->peer_slept && sh->peer_work == 10);
	i.spun = 1;
	peer.doing = RR_DOES_RUN;
	rr_tell_look(sh, &i);
	cr_assert(i.peer == RR_PEER_RUNS && !i.at_work && sh->peer_slept, "as it was when the wait began");
	peer.work = 11;
	rr_tell_look(sh, &i);
	cr_assert(i.at_work && sh->peer_work == 11);
	rr_tell_look(sh, &i);
	cr_assert_not(i.at_work);
	copies = true;
	rr_tell_look(sh, &i);
	cr_assert(i.at_work);
	i = (struct rr_spin_in){ .cpu = 3 };
	rr_tell_look(sh, &i);
	cr_assert(!i.at_work && !sh->peer_slept);
	peer.doing = 0;
	i = (struct rr_spin_in){ .cpu = 3 };
	rr_tell_look(sh, &i);
	cr_assert_eq(i.peer, RR_PEER_UNKNOWN);
	pl.ops.observe = NULL;
	i = (struct rr_spin_in){ .cpu = 3 };
	rr_test_params.spin_worth = 7;
	rr_tell_look(sh, &i);
	cr_assert(i.worth == 10 * RR_USEC && i.peer_cpu == 0);
	is_only_cpu = true;
	rr_tell_look(sh, &i);
	cr_assert_eq(i.peer_cpu, 3, "it is on this host's, if it is on this host");
	is_only_cpu = false;
	rr_test_params.spin_worth = 0;
	rr_tell_look(sh, &i);
	cr_assert_eq(i.worth, 0);
}

Test(conn_ready, how_long_wake_ups_take_is_learned_and_told)
{
	rung = 100;
	sh->woke = 0;
	sh->peer_slept = false;
	peer = (struct rr_peer_look){ .woke = 40 };
	cr_assert_eq(rr_tell_wakes(sh, now, 101), 100);
	cr_assert(sh->woke == 100 && pl.tells[RR_TELL_WOKE] == 1 && pl.told[RR_TELL_WOKE] == 100);
	cr_assert_eq(rr_tell_wakes(sh, now, 100), 0, "that bell was for another sleep");
	cr_assert_eq(pl.tells[RR_TELL_WOKE], 1);
	sh->peer_slept = true;
	cr_assert_eq(rr_tell_wakes(sh, now, 100), 40);
	cr_assert_eq(rr_tell_wakes(sh, now, 1000), 140);
	rung = 500;
	cr_assert_eq(rr_tell_wakes(sh, now, 1000), 540);
	cr_assert(sh->woke == 113 && pl.told[RR_TELL_WOKE] == 113, "%u", sh->woke);
	rung = 50;
	rr_tell_wakes(sh, now, 1000);
	cr_assert_eq(sh->woke, 50);
	sh->link = RR_LINK_LOST;
	cr_assert_eq(rr_tell_wakes(sh, now, 1000), 0);
	sh->link = RR_LINK_UP;
	pl.ops.observe = NULL;
	cr_assert_eq(rr_tell_wakes(sh, now, 1000), 0);
}
