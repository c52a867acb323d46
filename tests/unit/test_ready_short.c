/* SPDX-License-Identifier: BSD-3-Clause */
/* A poll() whose array is too long with our entries: they go into a set that has the place of one. */
#include <sys/epoll.h>

#include "preload/pollrest.h"
#include "preload/restset.h"
#include "tests/lib/ready_test.h"

enum { M = 3 };
static struct pollfd fds[M], kern[2 * M + 1];
static struct rr_slot slots[M];
static struct rr_place places[M + 1];
static struct rr_work w;

static int made, made_as, closed;
static struct { int ep, op, fd; uint32_t events; } told[4];
static int ntold;

static int create_played(int flags)
{
	made++;
	cr_assert_eq(flags, EPOLL_CLOEXEC);
	return made_as;
}

static int ctl_played(int ep, int op, int fd, struct epoll_event *ev)
{
	cr_assert_lt(ntold, 4);
	told[ntold].ep = ep;
	told[ntold].op = op;
	told[ntold].fd = fd;
	told[ntold++].events = ev->events;
	return 0;
}

static int close_played(int fd)
{
	closed = fd;
	return 0;
}

/* All three are awake, the first one first; the second and the third have their fds behind the array. */
static void begin_short(void)
{
	w = (struct rr_work){ .fds = fds, .n = M, .ours = M, .kern = kern, .places = places, .slots = slots, .nslots = M, .nk = 1,
			      .inner = -1 };
	for (uint32_t i = 0; i < M; i++) {
		fds[i] = (struct pollfd){ 50 + (int)i, POLLIN | POLLPRI, 0 };
		slots[i].at = i;
		slots[i].k = rr_work_add(&w, i, i);
		kern[slots[i].k].fd = i ? -1 : 0;
	}
	for (int i = M; i-- > 0;)
		rr_slot_wakes(&w, &slots[i]);
	kern[w.nk] = (struct pollfd){ 60, POLLRDHUP, 0 };
	kern[w.nk + 1] = (struct pollfd){ 61, POLLIN, 0 };
	w.extra = 2;
	made_as = 77;
	closed = -1;
	rr_real.epoll_create1 = create_played;
	rr_real.epoll_ctl = ctl_played;
	rr_real.close = close_played;
}

TestSuite(ready_short, .init = begin_short);

static void assert_kern(uint32_t k, int fd, short events)
{
	cr_assert(kern[k].fd == fd && kern[k].events == events && kern[k].revents == 0, "%u: %d %x %x", k, kern[k].fd,
		  kern[k].events, kern[k].revents);
}

/* The first entry is the kernel's for now, and number 0 is one like another. */
Test(ready_short, the_added_entries_go_into_a_set_in_the_first_empty_place)
{
	kern[2].revents = POLLIN;
	cr_assert_eq(rr_pollshort_begin(&w), 0);
	cr_assert(made == 1 && w.inner == 77 && w.extra == 0);
	cr_assert_eq(ntold, 2);
	for (int i = 0; i < 2; i++)
		cr_assert(told[i].ep == 77 && told[i].op == EPOLL_CTL_ADD && told[i].fd == 60 + i &&
			  told[i].events == (i ? (uint32_t)POLLIN : (uint32_t)POLLRDHUP));
	assert_kern(1, 0, POLLIN | POLLPRI);
	assert_kern(2, 77, POLLIN);
	assert_kern(3, -1, POLLIN | POLLPRI);
	kern[2].revents = POLLIN;
	rr_pollshort_end(&w);
	cr_assert(closed == 77 && w.inner == -1);
	assert_kern(1, 0, POLLIN | POLLPRI);
	assert_kern(2, -1, POLLIN | POLLPRI);
	assert_kern(3, -1, POLLIN | POLLPRI);
}

Test(ready_short, where_no_place_is_empty_it_fails)
{
	kern[2].fd = 4;
	kern[3].fd = 5;
	cr_assert_eq(rr_pollshort_begin(&w), -EINVAL);
	cr_assert(w.extra == 2 && ntold == 0);
	rr_pollshort_end(&w);
	assert_kern(1, 0, POLLIN | POLLPRI);
	assert_kern(2, 4, POLLIN | POLLPRI);
	cr_assert(closed == w.inner || (closed == 77 && w.inner == -1));
	w.awake = NULL;
	cr_assert_eq(rr_pollshort_begin(&w), -EINVAL);
}

Test(ready_short, where_no_set_can_be_made_it_fails)
{
	made_as = -1;
	cr_assert_eq(rr_pollshort_begin(&w), -EINVAL);
	cr_assert(w.inner == -1 && w.extra == 2 && ntold == 0);
	assert_kern(2, -1, POLLIN | POLLPRI);
	rr_pollshort_end(&w);
	cr_assert_eq(closed, -1);
}

Test(ready_short, the_set_is_made_once_and_may_have_any_number)
{
	made_as = 0;
	kern[1].fd = 9;
	cr_assert_eq(rr_pollshort_begin(&w), 0);
	cr_assert(made == 1 && w.inner == 0);
	assert_kern(2, 0, POLLIN);
	w.extra = 1;
	cr_assert_eq(rr_pollshort_begin(&w), 0);
	cr_assert(made == 1 && ntold == 3 && w.extra == 0);
	assert_kern(3, 0, POLLIN);
	rr_pollshort_end(&w);
	cr_assert(closed == 0 && w.inner == -1);
	assert_kern(1, 9, POLLIN | POLLPRI);
	assert_kern(2, -1, POLLIN | POLLPRI);
}

/* Where nothing was added it is the set of resting connections that made the array longer. */
Test(ready_short, the_set_of_resting_connections_is_given_up_as_well)
{
	w.extra = 0;
	cr_assert_eq(rr_pollshort_begin(&w), 0);
	cr_assert(made == 0 && w.inner == -1 && ntold == 0);
	rr_pollshort_end(&w);
	cr_assert_eq(closed, -1);
	made_as = dup(0);
	w.nslots = 0;
	cr_assert(rr_pollrest_take(&w));
	cr_assert_eq(rr_pollshort_begin(&w), 0);
	cr_assert_not(w.set);
	cr_assert(rr_restset_take(), "it was given back");
}
