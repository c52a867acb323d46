/* SPDX-License-Identifier: BSD-3-Clause */
/* The epoll sets of the process: how a set is made, woken, taken over after a fork, and freed.
 * The registrations in them are epwatch.c's, waiting is epwait.c's.
 *
 * `lock` guards the list of sets and all watches; fork takes it, so that a child finds both
 * whole. */
#include "preload/epset.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "preload/real.h"

static struct rr_lock lock;
static struct rr_ep_set *sets, *free_sets;
static uint64_t random_state;

/* An eventfd that is always readable. Adding it to an inner set with EPOLLONESHOT makes that
 * set readable once, and nothing has to be read afterwards. All sets share the one bell. */
static int bell = -1;

bool rr_ep_lock(void)
{
	return rr_lock_take(&lock) != -EDEADLK;
}

void rr_ep_unlock(void)
{
	rr_lock_drop(&lock);
}

/* --- sets --- */

/* A number that no app's epoll data is likely to be: splitmix64 from a random seed. */
static uint64_t random64(void)
{
	uint64_t z;

	if (!random_state && !rr_os_random(&random_state, sizeof(random_state)))
		random_state = (uintptr_t)&lock ^ rr_now();
	z = random_state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Sets are type-stable: their memory is never unmapped, so a stale pointer can still be asked
 * for a reference, and refuses. */
static struct rr_ep_set *set_alloc(void)
{
	enum { N = 16 };
	struct rr_ep_set *s = free_sets;

	if (!s) {
		s = mmap(NULL, N * sizeof(*s), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (s == MAP_FAILED)
			return NULL;
		for (int i = 0; i < N; i++) {
			s[i].next = free_sets;
			free_sets = &s[i];
		}
		s = free_sets;
	}
	free_sets = s->next;
	return s;
}

/* See epset.h. Everything else of the set is in place before it has a reference, because
 * whoever finds it in the fd table afterwards uses it. */
struct rr_ep_set *rr_ep_new(int epfd)
{
	struct rr_ep_set *s;
	struct stat st;

	if (fstat(epfd, &st) || !rr_ep_lock())
		return NULL;
	s = set_alloc();
	if (s) {
		if (!s->f.kind)		/* written once: rr_fdt_peek() reads it without a
					 * reference */
			s->f.kind = RR_KIND_EPOLL;
		atomic_store_explicit(&s->f.ino, st.st_ino, memory_order_relaxed);
		atomic_store_explicit(&s->f.fds, 0, memory_order_relaxed);
		s->foreign = s->nested = s->in_set = s->kicked = s->kernel_first = false;
		s->epfd = epfd;
		atomic_store_explicit(&s->inner, -1, memory_order_relaxed);
		s->cookie = random64();
		s->pass = s->round = 0;
		atomic_store(&s->sleepers, 0);
		atomic_store(&s->tagged, 0);
		atomic_store(&s->keyed, false);
		s->all = s->first = s->last = s->rested = NULL;
		s->next = sets;
		sets = s;
		atomic_store_explicit(&s->f.refs, 1, memory_order_release);
	}
	rr_ep_unlock();
	if (s)
		rr_fdt_give(epfd, &s->f);
	return s;
}

struct rr_ep_set *rr_ep_at(int epfd)
{
	struct rr_file *f = rr_fdt_get(epfd);

	if (f && f->kind == RR_KIND_EPOLL)
		return container_of(f, struct rr_ep_set, f);
	if (f)
		rr_file_put(f);
	return NULL;
}

/* Called for the last reference (fdtable.c): no number of this process leads to the set any
 * more, and no call uses it. The watches stand on the lists of sockets as well, and leave those
 * here. */
void rr_ep_gone(struct rr_file *f)
{
	struct rr_ep_set *s = container_of(f, struct rr_ep_set, f), **at = &sets;
	int saved = errno;

	if (!rr_ep_lock())
		return;		/* we interrupted the lock's holder: this set is leaked */
	while (s->all)
		rr_ep_watch_free(s->all, false);
	rr_ownfd_close(s->inner);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	s->next = free_sets;
	free_sets = s;
	rr_ep_unlock();
	errno = saved;
}

/* --- the inner set --- */

/* The bell stands in each inner set from the beginning, silenced: a kick then takes one system
 * call (rr_ep_kick()). */
bool rr_ep_need_inner(struct rr_ep_set *s)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = s->cookie };
	struct epoll_event mute = { .events = EPOLLONESHOT };
	int in;

	if (s->inner >= 0)
		return true;
	if (bell < 0)
		bell = rr_ownfd_raise(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
	in = rr_ownfd_raise(rr_real.epoll_create1(EPOLL_CLOEXEC));
	if (bell < 0 || in < 0 || rr_real.epoll_ctl(in, EPOLL_CTL_ADD, bell, &mute) ||
	    rr_real.epoll_ctl(s->epfd, EPOLL_CTL_ADD, in, &ev)) {
		rr_ownfd_close(in);
		return false;
	}
	s->inner = in;
	return true;
}

/* Gives the bell the number `to` in every inner set. False: some set could not take it, and the
 * bell stays. */
static bool move_bell(int to)
{
	struct epoll_event mute = { .events = EPOLLONESHOT };
	int was = bell;

	for (struct rr_ep_set *s = sets; s; s = s->next) {
		if (s->inner >= 0 && rr_real.epoll_ctl(s->inner, EPOLL_CTL_ADD, to, &mute))
			return false;
	}
	bell = to;
	for (struct rr_ep_set *s = sets; s; s = s->next) {
		if (s->inner < 0)
			continue;
		rr_real.epoll_ctl(s->inner, EPOLL_CTL_DEL, was, &mute);
		rr_ep_kick(s);	/* a kick by the old number may have been under way */
	}
	return true;
}

/* Lets `to` be the number of the inner set or bell that has been fd. The app's set refers to
 * the inner set's open file and never to its number again, so any number will do. */
static bool move_inner(int fd, int to)
{
	for (struct rr_ep_set *s = sets; s; s = s->next) {
		if (s->inner == fd) {
			s->inner = to;
			return true;
		}
	}
	return fd == bell && move_bell(to);
}

bool rr_ep_move_fd(int fd)
{
	bool moved = false;
	int to;

	if (!rr_ep_lock())
		return false;
	to = rr_ownfd_dup(fd);
	if (to >= 0)
		moved = move_inner(fd, to);
	if (moved)
		rr_ownfd_set(fd, false);
	else
		rr_ownfd_close(to);
	rr_ep_unlock();
	return moved;
}

void rr_ep_wake_moved(int fd)
{
	if (!rr_ep_lock())
		return;
	for (struct rr_ep_set *s = sets; s; s = s->next)
		for (struct rr_ep_watch *w = s->all; w; w = w->set_next)
			if (w->wake == fd)
				rr_ep_refresh(w, false);
	rr_ep_unlock();
}

/* The bell is always readable, so arming it makes the inner set readable at once. ONESHOT
 * silences it again when harvest() has taken that in. */
void rr_ep_kick(struct rr_ep_set *s)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT, .data.u64 = 0 };

	if (s->inner >= 0)
		s->kicked = !rr_real.epoll_ctl(s->inner, EPOLL_CTL_MOD, bell, &ev);
}

struct rr_ep_set *rr_ep_next(struct rr_ep_set *s)
{
	return s ? s->next : sets;
}

/* All watches are asked when a set is taken over, because doorbells that rang meanwhile may
 * have been taken in by another process. */
void rr_ep_use(struct rr_ep_set *s, int epfd)
{
	s->epfd = epfd;
	if (likely(!s->foreign))
		return;
	s->foreign = false;
	for (struct rr_ep_watch *w = s->all; w; w = w->set_next) {
		rr_ep_refresh(w, false);
		rr_ep_activate_one(w, true);
	}
}

/* --- what a fork does --- */

static bool fork_holds;		/* false: a signal handler forked while its thread held the
				 * lock */

void rr_ep_fork_prepare(void)
{
	fork_holds = rr_ep_lock();
}

void rr_ep_fork_parent(void)
{
	if (fork_holds)
		rr_ep_unlock();
}

/* Parent and child share the kernel's sets. A child that only closes what it inherited changes
 * nothing there. A child that uses a set (a daemon, whose parent exits) takes it over by
 * rr_ep_use(). Parent and child using one set at the same time is not supported: each would see
 * the other's doorbells. */
void rr_ep_fork_child(void)
{
	lock = (struct rr_lock){ 0 };
	for (struct rr_ep_set *s = sets; s; s = s->next) {
		s->foreign = true;
		rr_ownfd_close(s->inner);
		s->inner = -1;
		for (struct rr_ep_watch *w = s->all; w; w = w->set_next)
			w->wake = -1;
		atomic_store(&s->sleepers, 0);
	}
}
