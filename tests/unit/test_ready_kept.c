/* SPDX-License-Identifier: BSD-3-Clause */
/* The arrays of a poll(): what becomes of each entry, how much memory they take, and when those of the call before are
 * used again. */
#include "preload/pollrest.h"
#include "preload/restset.h"
#include "preload/scratch.h"
#include "tests/unit/guarded.h"

static struct rr_file *get_played(int fd);
static rr_time show_played(void);

#define rr_scratch_take take_played
#define rr_scratch_give give_played
#define rr_fdt_get get_played
#define rr_ep_show_nested show_played
#include "preload/pollfind.c"
#undef rr_scratch_take
#undef rr_scratch_give
#undef rr_fdt_get
#undef rr_ep_show_nested

#include <sys/epoll.h>

#include "tests/lib/ready_test.h"
#include "tests/unit/played_clock.h"

/* The file is gone between the look at the table and this one. */
static bool gone_meanwhile;
static int got;

static struct rr_file *get_played(int fd)
{
	got++;
	return gone_meanwhile ? NULL : (rr_fdt_get)(fd);
}

static int shown;

static rr_time show_played(void)
{
	shown++;
	return rr_ep_show_nested();
}

/* --- what becomes of each entry --- */

static void assert_entry(struct pollfd p, int fd, short events)
{
	cr_assert(p.fd == fd && p.events == events && p.revents == 0, "%d %x %x", p.fd, p.events, p.revents);
}

static struct rr_sock *sock_of(int fd)
{
	return container_of(rr_fdt_peek(fd), struct rr_sock, f);
}

static void begin_few(void)
{
	now = START;
}

TestSuite(ready_kept_few, .init = begin_few);

/* Looks the array up, of which so many may be ours. */
static struct rr_work look_up(struct pollfd *fds, nfds_t n, nfds_t ours)
{
	struct rr_work w = { .fds = fds, .n = n, .inner = 9, .nk = 77 };
	uint32_t changes = rr_fdt_changes();

	for (nfds_t i = 0; i < n; i++)
		fds[i].revents = 9;
	cr_assert(rr_pollfind(&w, ours, NULL));
	for (nfds_t i = 0; i < n; i++)
		cr_assert_eq(fds[i].revents, 0);
	cr_assert(w.inner == -1 && w.ours == ours && w.found == now && w.changes == changes);
	return w;
}

Test(ready_kept_few, one_that_is_awake_is_held_and_asked)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct pollfd p[2] = { { -1, POLLIN, 9 }, { fd, POLLIN | POLLPRI, 9 } };
	struct rr_work w = look_up(p, 2, 1);
	struct rr_slot *s = w.slots;

	cr_assert(!w.set && w.nslots == 1 && w.nk == 3 && w.others == 0 && w.resting == 0 && w.plain == 0);
	assert_entry(w.kern[0], -1, POLLIN);
	assert_entry(w.kern[1], -1, POLLIN);
	assert_entry(w.kern[2], fd, POLLIN | POLLPRI);
	cr_assert(w.places[1].at == 0 && w.places[1].slot == RR_NO_SLOT && w.places[2].at == 1 && w.places[2].slot == 0);
	cr_assert(s->file == rr_fdt_peek(fd) && s->conn == c && s->at == 1 && s->k == 2 && !s->rests && !s->plain);
	cr_assert_eq(s->file->refs, 2);
	cr_assert_eq((unsigned char *)w.seen, (unsigned char *)w.mem + rr_pollfind_size(2, 1), "memory is neither short nor spare");
	rr_pollfind_end(&w);
	cr_assert(rr_fdt_peek(fd)->refs == 1 && c->sleepers == 0 && pieces == 0);
	w = look_up(p, 2, 1);
	rr_slot_drop(&w, w.slots);	/* it is the kernel's by the end */
	rr_pollfind_end(&w);
	cr_assert(rr_fdt_peek(fd)->refs == 1 && pieces == 0);
}

Test(ready_kept_few, number_0_is_one_like_another)
{
	int peer;
	struct pollfd p = { 0, POLLIN, 9 };
	struct rr_work w;

	cr_assert_eq(dup2(tcp(&peer), 0), 0);
	rr_fake_conn(0, RR_FAKE_CARRIED);
	w = look_up(&p, 1, 1);
	cr_assert(w.nslots == 1 && w.others == 0 && w.slots->file == rr_fdt_peek(0));
	rr_pollfind_end(&w);
}

Test(ready_kept_few, one_at_rest_lends_its_wake_up_fd)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = conn_that_rests(fd);
	struct pollfd p = { fd, POLLIN, 9 };
	struct rr_work w;

	sock_of(fd)->verified = now;
	c->rests = true;
	w = look_up(&p, 1, 1);
	cr_assert(w.nslots == 1 && w.nk == 2 && w.resting == 1 && w.slots->rests && !w.slots->standing);
	assert_entry(w.kern[1], c->wake, POLLIN);
	cr_assert(c->sleepers == 1 && w.slots->file->refs == 2);
	rr_pollfind_end(&w);
	cr_assert(c->sleepers == 0 && c->rests && rr_fdt_peek(fd)->refs == 1 && pieces == 0);
}

Test(ready_kept_few, of_which_the_kernel_has_the_first_word_is_noted_and_not_held)
{
	int peer[2], fd[2] = { tcp(&peer[0]), tcp(&peer[1]) };
	struct rr_conn *c[2];
	struct pollfd p[2];
	struct rr_work w;

	for (int i = 0; i < 2; i++) {
		c[i] = rr_fake_conn(fd[i], RR_FAKE_NEW);
		c[i]->plain = true;
		p[i] = (struct pollfd){ fd[i], POLLIN, 9 };
	}
	w = look_up(p, 2, 2);
	cr_assert(w.nslots == 2 && w.plain == 2 && w.nk == 3 && w.others == 0);
	for (int i = 0; i < 2; i++) {
		cr_assert(w.slots[i].plain && w.slots[i].conn == c[i] && w.slots[i].file == rr_fdt_peek(fd[i]));
		cr_assert(c[i]->sleepers == 1 && w.slots[i].file->refs == 1);
		assert_entry(w.kern[i + 1], fd[i], POLLIN);
	}
	rr_pollfind_end(&w);
	for (int i = 0; i < 2; i++)
		cr_assert(c[i]->sleepers == 0 && rr_fdt_peek(fd[i])->refs == 1);
}

static void assert_kernels(struct pollfd *p, nfds_t listeners)
{
	struct rr_file *f = rr_fdt_peek(p->fd);
	struct rr_work w = look_up(p, 1, 1);

	cr_assert(w.nslots == 0 && w.nk == 2 && w.others == 1 && w.listeners == listeners && w.plain == 0 && w.resting == 0);
	assert_entry(w.kern[1], p->fd, POLLIN);
	cr_assert_eq(w.places[1].slot, RR_NO_SLOT);
	cr_assert(!f || f->refs == 1 || !rr_fdt_peek(p->fd));
	rr_pollfind_end(&w);
	cr_assert_eq(pieces, 0);
}

Test(ready_kept_few, an_entry_that_is_the_kernels)
{
	int peer, fd = tcp(&peer);
	struct pollfd p = { 0, POLLIN, 9 }, two[2];
	struct rr_work w;

	assert_kernels(&p, 0);
	p.fd = fd;
	rr_fake_conn(fd, RR_FAKE_TCP);
	assert_kernels(&p, 0);
	gone_meanwhile = true;
	assert_kernels(&p, 0);
	gone_meanwhile = false;
	sock_of(fd)->flags |= RR_SOCK_LISTENER;
	assert_kernels(&p, 1);
	two[0] = two[1] = p;
	w = look_up(two, 2, 2);
	cr_assert(w.listeners == 2 && w.others == 2 && w.nslots == 0);
	rr_pollfind_end(&w);
	/* Its number is another's by now. */
	p.fd = tcp(&peer);
	rr_fake_conn(p.fd, RR_FAKE_CARRIED);
	cr_assert_eq(dup2(fd, p.fd), p.fd);
	now += RR_SEC;
	assert_kernels(&p, 0);
	cr_assert_null(rr_fdt_peek(p.fd));
	/* An epoll set without one of ours. */
	p.fd = rr_wrap_epoll_create1(0);
	assert_kernels(&p, 0);
}

Test(ready_kept_few, an_epoll_set_with_one_of_ours_is_held)
{
	int peer, fd = tcp(&peer), set = rr_wrap_epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd p = { set, POLLIN, 9 };
	struct rr_work w;

	rr_fake_conn(fd, RR_FAKE_CARRIED);
	cr_assert_eq(rr_wrap_epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev), 0);
	w = look_up(&p, 1, 1);
	cr_assert_eq(shown, 1, "what stands in sets within it is looked at first");
	cr_assert(w.nslots == 1 && !w.slots->conn && w.slots->file == rr_fdt_peek(set) && w.slots->file->refs == 2);
	rr_pollfind_end(&w);
	cr_assert_eq(rr_fdt_peek(set)->refs, 1);
}

/* Another thread adds some meanwhile: for those there is no room, and the kernel's answer must do. */
Test(ready_kept_few, more_of_ours_than_there_is_room_for)
{
	int peer[3];
	struct pollfd p[3];
	struct rr_work w;

	for (int i = 0; i < 3; i++) {
		p[i] = (struct pollfd){ tcp(&peer[i]), POLLIN, 9 };
		rr_fake_conn(p[i].fd, RR_FAKE_CARRIED);
	}
	w = look_up(p, 3, 1);
	cr_assert(w.nslots == 1 && w.others == 2 && w.nk == 4 && w.slots->at == 0);
	cr_assert(w.places[2].slot == RR_NO_SLOT && w.places[3].slot == RR_NO_SLOT);
	rr_pollfind_end(&w);
	cr_assert_eq(pieces, 0);
}

static int closed = -1;

static int close_played(int fd)
{
	closed = fd;
	return 0;
}

Test(ready_kept_few, what_the_wait_has_made_is_closed_in_the_end)
{
	int peer, fd = tcp(&peer);
	struct pollfd p = { fd, POLLIN, 9 };
	struct rr_work w;

	rr_fake_conn(fd, RR_FAKE_CARRIED);
	rr_real.close = close_played;
	w = look_up(&p, 1, 1);
	rr_pollfind_end(&w);
	cr_assert_eq(closed, -1);
	w = look_up(&p, 1, 1);
	w.inner = 0;
	rr_pollfind_end(&w);
	cr_assert_eq(closed, 0);
}

/* --- so many that the set is used --- */

enum { N = RR_POLL_MANY, KERNELS = 3, OURS = N + 1 };
static struct rr_conn *conns[N];
static struct pollfd many[N + KERNELS + 1];	/* behind ours: none, a pipe, a listener; what follows is not the array's */
static struct rr_work w;

/* All rest, but for the first one, of which more is asked. */
static void begin_many(void)
{
	int peer, sock = tcp(&peer), pipes[2];

	now = START;
	for (int i = 0; i < N; i++) {
		many[i] = (struct pollfd){ dup(sock), POLLIN, 9 };
		conns[i] = conn_that_rests(many[i].fd);
		conns[i]->rests = true;
		sock_of(many[i].fd)->verified = now;
	}
	many[0].events = POLLIN | POLLOUT;
	cr_assert_eq(pipe(pipes), 0);
	many[N] = (struct pollfd){ -1, POLLIN, 9 };
	cr_assert_eq(dup2(pipes[0], 0), 0);
	many[N + 1] = (struct pollfd){ 0, POLLPRI, 9 };
	many[N + 2] = (struct pollfd){ tcp(&peer), POLLIN, 9 };
	rr_fake_conn(many[N + 2].fd, RR_FAKE_TCP);
	sock_of(many[N + 2].fd)->flags |= RR_SOCK_LISTENER;
	many[N + KERNELS] = (struct pollfd){ many[1].fd, POLLIN, 9 };
	w = look_up(many, N + KERNELS, OURS);
}

TestSuite(ready_kept, .init = begin_many);

/* The arrays are as they should be, whichever way they came. */
static void assert_many(void)
{
	cr_assert(w.set && w.mem && w.n == N + KERNELS && w.nslots == N && w.ours == OURS && w.inner == -1);
	cr_assert_eq(many[N + KERNELS].revents, 9);
	cr_assert(w.resting == N - 1 && w.standing == N - 1 && w.others == 2 && w.listeners == 1 && w.plain == 0, "%d", (int)w.standing);
	cr_assert_eq(w.nk, 4);
	assert_entry(w.kern[0], rr_restset_fd(), POLLIN);
	assert_entry(w.kern[1], many[0].fd, POLLIN | POLLOUT);
	assert_entry(w.kern[2], many[N + 1].fd, POLLPRI);
	assert_entry(w.kern[3], many[N + 2].fd, POLLIN);
	cr_assert(w.places[1].at == 0 && w.places[1].slot == 0 && w.places[2].at == N + 1 && w.places[2].slot == RR_NO_SLOT);
	for (int i = 0; i < N + KERNELS; i++)
		assert_entry(w.seen[i], many[i].fd, many[i].events);
	for (uint32_t i = 0; i < N; i++) {
		struct rr_slot *s = &w.slots[i];

		cr_assert(s->file == rr_fdt_peek(many[i].fd) && s->conn == conns[i] && s->at == i && s->k == !i, "%u", i);
		cr_assert(s->standing == !!i && s->rests == !!i && s->file->refs == 1u + !i && !conns[i]->sleepers, "%u", i);
		cr_assert_eq(rr_standing_at(conns[i]), i ? i : UINT32_MAX);
	}
}

static bool again(void)
{
	const struct rr_work call = { .fds = many, .n = w.n, .mask = (void *)8, .deadline = 77, .cancel = 5 };

	w = call;
	if (!rr_pollfind_again(&w))
		return false;
	cr_assert(w.fds == many && w.mask == call.mask && w.deadline == 77 && w.cancel == 5);
	return true;
}

/* The set can be had again. */
static void assert_set_is_free(void)
{
	cr_assert(rr_restset_take());
	rr_restset_give();
}

Test(ready_kept, those_at_rest_stand_and_take_no_entry)
{
	assert_many();
	cr_assert_eq((unsigned char *)(w.seen + w.n), (unsigned char *)w.mem + rr_pollfind_size(w.n, OURS));
	cr_assert_eq((void *)w.places, w.kern + w.n + 1 + 2 * OURS);
	cr_assert(rr_standing_sleeps(conns[1]));
	rr_pollfind_end(&w);
	cr_assert(!rr_standing_sleeps(conns[1]) && rr_standing_at(conns[1]) == 1);
	cr_assert_eq(pieces, 1, "the arrays are kept");
	assert_set_is_free();
	got = 0;
	rr_fdt_change();
	w = look_up(many, N + KERNELS, OURS);
	assert_many();
	cr_assert_eq(got, 2, "who is in the set is not referenced for it to stand");
}

Test(ready_kept, the_same_array_is_found_again)
{
	w.verified = 7;
	for (int i = 0; i < 3; i++) {
		rr_pollfind_end(&w);
		for (int k = 0; k < N + KERNELS; k++)
			many[k].revents = i ? 9 : 0;
		now++;
		cr_assert(again(), "%d", i);
		assert_many();
		cr_assert(w.found == START && w.verified == 7);
		for (int k = 0; k < N + KERNELS; k++)
			cr_assert_eq(many[k].revents, 0);
		assert_within(w.mem);
		cr_assert_eq(pieces, 1);
	}
	struct rr_work other = { .fds = many, .n = w.n };

	cr_assert_not(rr_pollfind_again(&other), "they are in use");
	rr_pollfind_end(&w);
}

/* Revents of one entry alone is cleared, wherever it stands. */
Test(ready_kept, what_the_app_has_left_in_an_array_is_cleared)
{
	static const int at[] = { 0, 1, N - 1, N, N + KERNELS - 1 };

	for (size_t i = 0; i < rr_array_size(at); i++) {
		rr_pollfind_end(&w);
		many[at[i]].revents = 9;
		cr_assert(again());
		cr_assert_eq(many[at[i]].revents, 0);
	}
}

/* An array of the same length that is none of these is looked up anew, and its memory is the only one. */
static void assert_anew(void)
{
	rr_time was = now;

	cr_assert_not(again());
	assert_set_is_free();
	cr_assert(!rr_standing_sleeps(conns[5]));
	now = was;
	w = look_up(many, N + KERNELS, OURS);
	cr_assert_eq(pieces, 1);
}

Test(ready_kept, other_entries_are_another_array)
{
	static const int at[] = { 0, 1, N / 2, N - 1, N, N + 1, N + KERNELS - 1 };

	for (size_t i = 0; i < rr_array_size(at); i++) {
		struct pollfd was = many[at[i]];

		const struct pollfd others[] = { { was.fd, was.events ^ POLLIN, 0 }, { was.fd, was.events ^ POLLPRI, 0 },
			{ was.fd ^ 1, was.events, 0 }, { was.fd == many[2].fd ? many[3].fd : many[2].fd, was.events, 0 } };

		for (size_t k = 0; k < rr_array_size(others); k++) {
			rr_pollfind_end(&w);
			many[at[i]] = others[k];
			assert_anew();
			rr_pollfind_end(&w);
			many[at[i]] = was;
			assert_anew();
		}
	}
	rr_pollfind_end(&w);
	w.n--;
	cr_assert_not(again());
	w.n += 2;
	cr_assert_not(again());
	w.n--;
	cr_assert(again());
	assert_many();
}

Test(ready_kept, the_same_entries_mean_something_else_after_any_change)
{
	rr_pollfind_end(&w);
	rr_fdt_change();
	assert_anew();
	assert_many();
	rr_pollfind_end(&w);
	rr_standing_ceased(conns[9]);
	assert_anew();
	assert_many();
	rr_pollfind_end(&w);
	rr_restset_reset();
	assert_anew();
	assert_many();
}

Test(ready_kept, for_a_minute_and_no_longer)
{
	rr_pollfind_end(&w);
	now = START + KEEP_MOST - 1;
	cr_assert(again());
	rr_pollfind_end(&w);
	now++;
	cr_assert_not(again());
	assert_set_is_free();
}

/* They were let go, or others were kept, between the look at their length and the set's being taken. */
Test(ready_kept, what_is_kept_no_longer_is_not_used)
{
	rr_pollfind_end(&w);
	kept.n--;
	cr_assert_not(again());
	assert_set_is_free();
	kept.n++;
	kept.mem = NULL;
	cr_assert_not(again());
	assert_set_is_free();
}

static void *takes_set(void *arg)
{
	now += 2 * RR_SEC;
	*(bool *)arg = rr_restset_take();
	rr_restset_give();
	return NULL;
}

Test(ready_kept, of_another_threads_set_nothing_is_used)
{
	pthread_t t;
	bool took = false;

	rr_pollfind_end(&w);
	cr_assert_eq(pthread_create(&t, NULL, takes_set, &took), 0);
	pthread_join(t, NULL);
	cr_assert(took);
	cr_assert_not(again());
	w = (struct rr_work){ .fds = many, .n = N + KERNELS };
	cr_assert(rr_pollfind(&w, N, NULL));
	cr_assert(!w.set && w.standing == 0 && w.resting == N - 1);
	cr_assert_eq(pieces, 2, "the other thread may use them");
	for (int i = 1; i < N; i++)
		cr_assert(conns[i]->sleepers == 1 && w.slots[i].k == (uint32_t)i + 1);
	rr_pollfind_end(&w);
	for (int i = 0; i < N; i++)
		cr_assert(conns[i]->sleepers == 0 && rr_fdt_peek(many[i].fd)->refs == 1);
	cr_assert_eq(pieces, 1);
}

/* Fewer are not worth the set. */
Test(ready_kept, fewer_are_found_without_the_set)
{
	struct rr_work few;

	rr_pollfind_end(&w);
	few = look_up(many, N - 1, N - 1);
	cr_assert(!few.set && few.standing == 0 && few.resting == N - 2);
	cr_assert_eq(pieces, 2);
	cr_assert_eq((void *)few.seen, (unsigned char *)few.mem + rr_pollfind_size(N - 1, N - 1));
	rr_pollfind_end(&few);
	cr_assert_eq(pieces, 1);
	cr_assert(again());
	assert_many();
	rr_pollfind_end(&w);
	few = look_up(many, N, N);
	cr_assert(few.set && few.standing == N - 1);
	cr_assert_eq((void *)(few.seen + N), (unsigned char *)few.mem + rr_pollfind_size(N, N));
	rr_pollfind_end(&few);
}

Test(ready_kept, without_memory_the_set_is_given_back)
{
	struct rr_work other = { .fds = many, .n = N + KERNELS };

	rr_pollfind_end(&w);
	no_memory = true;
	cr_assert_not(rr_pollfind(&other, N, NULL));
	cr_assert(!rr_standing_sleeps(conns[1]));
	assert_set_is_free();
	cr_assert_not(rr_pollfind(&other, N - 1, NULL));
	assert_set_is_free();
	cr_assert_eq(pieces, 0, "what was kept is given back first");
	no_memory = false;
	w = look_up(many, N + KERNELS, OURS);
	assert_many();
	cr_assert_eq(pieces, 1);
}

/* The set was given up in the wait: the memory is another's next. */
Test(ready_kept, arrays_of_a_wait_that_went_on_without_the_set_are_not_kept)
{
	rr_pollfind_end(&w);
	cr_assert(again());
	rr_pollrest_without(&w);
	rr_pollfind_end(&w);
	cr_assert_eq(pieces, 0);
	cr_assert_not(again());
	assert_set_is_free();
	for (int i = 0; i < N; i++)
		cr_assert(conns[i]->sleepers == 0 && rr_fdt_peek(many[i].fd)->refs == 1);
	w = look_up(many, N + KERNELS, OURS);
	assert_many();
	cr_assert_eq(pieces, 1);
}

/* One that came to stand while it had an entry has none in the next call. */
Test(ready_kept, one_that_came_to_rest_in_the_wait_stands_in_the_next)
{
	struct rr_slot *s = w.slots;

	many[0].events = POLLIN;
	rr_pollfind_end(&w);
	conns[0]->rests = false;
	w = look_up(many, N + KERNELS, OURS);
	s = w.slots;
	cr_assert(w.nk == 4 && !s->standing && s->k == 1);
	conns[0]->rests = true;
	rr_conn_sleeps(conns[0]);
	rr_pollrest_put(&w, s, conns[0]->wake);
	cr_assert(s->standing && s->k == 1 && w.kern[1].fd == -1);
	rr_pollfind_end(&w);
	cr_assert(conns[0]->sleepers == 0 && rr_fdt_peek(many[0].fd)->refs == 1);
	many[0].revents = 9;
	cr_assert(again());
	cr_assert_eq(many[0].revents, 0);
	cr_assert(w.nk == 3 && w.standing == N && w.slots->k == 0 && w.others == 2);
	assert_entry(w.kern[1], many[N + 1].fd, POLLPRI);
	assert_entry(w.kern[2], many[N + 2].fd, POLLIN);
	cr_assert(w.places[1].at == N + 1 && w.places[2].at == N + 2);
}

/* The place of an entry whose file has gone is the kernel's. */
Test(ready_kept, an_entry_whose_file_goes_while_it_is_looked_up_again)
{
	nfds_t others = w.others, nk = w.nk;

	rr_file_put(w.slots->file);
	cr_assert_eq(rr_wrap_close(many[0].fd), 0);
	look_up_entry(&w, 0, 0, now);
	cr_assert(!w.slots->file && w.others == others + 1 && w.nk == nk + 1 && w.nslots == N);
	assert_entry(w.kern[nk], many[0].fd, POLLIN | POLLOUT);
	cr_assert(w.places[nk].at == 0 && w.places[nk].slot == 0);
}
