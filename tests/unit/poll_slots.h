/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef POLL_SLOTS_H
#define POLL_SLOTS_H

/* A wait of poll() with four connections, of which the tests put each to rest and wake it; the set of those at rest is
 * played. */

#include "preload/pollrest.h"
#include "preload/restset.h"

static bool join_played(struct rr_sock *so, int wake);
static int rang_played(struct rr_sock **who, int max);
static bool leave_played(struct rr_sock *so);
static void activate_played(struct rr_sock *so);
static bool stands_played(struct rr_conn *of, uint32_t at);

#define rr_restset_join join_played
#define rr_restset_rang rang_played
#define rr_restset_leave leave_played
#define rr_ep_activate activate_played
#define rr_conn_stands stands_played
#include "preload/pollrest.c"
#undef rr_restset_join
#undef rr_restset_rang
#undef rr_restset_leave
#undef rr_ep_activate
#undef rr_conn_stands

#include "tests/lib/ready_test.h"
#include "tests/unit/played_clock.h"

enum { M = 4, ROOM = 700 };
static struct rr_conn *c[M];
static struct rr_file *f[M];
static struct pollfd fds[ROOM + 1];
static struct rr_slot slots[ROOM];
static struct rr_place places[ROOM + 1];
static struct pollfd kern[3 * ROOM + 1];
static struct rr_work w;

/* --- what is played --- */

static bool join_fails;
static int activated;
static struct { struct rr_sock *who[SPREAD]; int n; } rings[4];	/* what is told, one after the other */
static int nrings, rings_max;
static struct rr_sock *left[4];
static int nleft;
static bool leave_fails;

static bool join_played(struct rr_sock *so, int wake)
{
	so->set = rr_restset_life();
	so->set_wake = wake;
	return !join_fails;
}

static int rang_played(struct rr_sock **who, int max)
{
	int n = rings[nrings].n;

	cr_assert_lt(nrings, 3);
	rings_max = max;
	for (int i = 0; i < n; i++)
		who[i] = rings[nrings].who[i];
	nrings++;
	return n;
}

static bool leave_played(struct rr_sock *so)
{
	cr_assert_lt(nleft, 4);
	left[nleft++] = so;
	return !leave_fails;
}

static void activate_played(struct rr_sock *so)
{
	bool known = so == rr_slot_sock(&slots[0]);

	for (int i = 0; i < M; i++)
		known |= so == container_of(f[i], struct rr_sock, f);
	cr_assert(known);
	activated++;
}

static struct rr_conn *turns;	/* what the first socket's connection has become by the time that it stands */

static bool stands_played(struct rr_conn *of, uint32_t at)
{
	if (turns)
		container_of(f[0], struct rr_sock, f)->conn = turns;
	return rr_conn_stands(of, at);
}

/* --- a wait in which the entry i + 1 has the slot i --- */

static inline void begin_slots(void)
{
	now = START;
	for (int i = 0; i < M; i++) {
		int peer, fd = tcp(&peer);

		c[i] = conn_that_rests(fd);
		f[i] = rr_fdt_peek(fd);
		fds[i + 1] = (struct pollfd){ fd, POLLIN, 0 };
		slots[i] = (struct rr_slot){ .file = f[i], .conn = c[i], .at = (uint32_t)i + 1 };
		container_of(f[i], struct rr_sock, f)->verified = now;
	}
	memset(kern, 0xa5, sizeof(kern));
	w = (struct rr_work){ .fds = fds, .n = M + 1, .ours = M, .kern = kern, .places = places, .nk = 1, .slots = slots,
			      .nslots = M, .inner = -1 };
}

static inline void hold(int i)
{
	rr_file_hold(f[i]);
	slots[i].k = rr_work_add(&w, slots[i].at, (uint32_t)i);
}

/* It has an entry of its own and rests, by itself or as one for which the set stands. */
static inline void put_to_rest(int i)
{
	hold(i);
	c[i]->rests = true;
	rr_conn_sleeps(c[i]);
	rr_pollrest_put(&w, &slots[i], c[i]->wake);
}

/* It has never had an entry. */
static inline void stand(int i)
{
	c[i]->rests = true;
	join_played(rr_slot_sock(&slots[i]), c[i]->wake);
	cr_assert(rr_pollrest_stands(&w, &slots[i], now));
}

static inline void assert_entry(uint32_t k, int fd, short events)
{
	cr_assert(k && kern[k].fd == fd && kern[k].events == events && kern[k].revents == 0, "%u: %d %x %x", k, kern[k].fd,
		  kern[k].events, kern[k].revents);
}

static inline void assert_counts(nfds_t resting, nfds_t standing, nfds_t others)
{
	cr_assert(w.resting == resting && w.standing == standing && w.others == others, "%d %d %d", (int)w.resting,
		  (int)w.standing, (int)w.others);
}

/* It is asked from now on, holds its file, and nobody sleeps on its connection. */
static inline void assert_awake(int i)
{
	struct rr_slot *s = &slots[i];

	cr_assert(s->file == f[i] && f[i]->refs == 2 && !s->rests && !s->standing && !s->plain && s->listed, "%d", i);
	cr_assert_eq(c[i]->sleepers, 0);
	cr_assert_eq(rr_standing_at(c[i]), UINT32_MAX);
	assert_entry(s->k, -1, fds[s->at].events);
	cr_assert(places[s->k].at == s->at && places[s->k].slot == (uint32_t)i);
}

/* The kernel alone answers it. */
static inline void assert_dropped(int i, nfds_t others)
{
	struct rr_slot *s = &slots[i];

	cr_assert(!s->file && !s->rests && !s->standing && !s->plain && !s->kernel, "%d", i);
	cr_assert_eq(w.others, others);
	assert_entry(s->k, fds[s->at].fd, fds[s->at].events);
}

/* Another file has the number of entry i + 1. */
static inline struct rr_file *replace(int i)
{
	int peer, fd = tcp(&peer);

	rr_fake_conn(fd, RR_FAKE_CARRIED);
	fds[i + 1].fd = fd;
	return rr_fdt_peek(fd);
}

#endif
