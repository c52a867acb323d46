/* SPDX-License-Identifier: BSD-3-Clause */
/* Watches: how a registration of the app's is shadowed, which form the kernel has it in
 * (epset.h), and when it changes. Reporting events is epnews.c's. */
#include <errno.h>
#include <sys/mman.h>

#include "preload/epset.h"
#include "core/base/os.h"
#include "preload/real.h"

/* A key is a random prefix of the process and the watch's index. The prefix keeps apart keys
 * and data of the app's that look alike. */
enum { CHUNK = 256, CHUNKS = 4096, INDEX_BITS = 20 };

static struct rr_ep_watch *chunks[CHUNKS];
static uint32_t nchunks;
static struct rr_ep_watch *free_watches;
static uint64_t prefix;

/* Adds CHUNK watches to the free list. The memory is never unmapped: keys that the kernel still
 * has may be looked up later. False: no memory, or too many. */
static bool more_watches(void)
{
	struct rr_ep_watch *w;

	if (nchunks == CHUNKS)
		return false;
	if (!prefix && !rr_os_random(&prefix, sizeof(prefix)))
		prefix = rr_now() * UINT64_C(0x9e3779b97f4a7c15);
	prefix |= UINT64_C(1) << 63;
	w = mmap(NULL, CHUNK * sizeof(*w), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		 -1, 0);
	if (w == MAP_FAILED)
		return false;
	for (uint32_t i = CHUNK; i-- > 0;) {
		w[i].key = (prefix & ~((UINT64_C(1) << INDEX_BITS) - 1)) |
			(nchunks * CHUNK + i);
		w[i].next = free_watches;
		free_watches = &w[i];
	}
	chunks[nchunks++] = w;
	return true;
}

/* data comes from the kernel, but it may be the app's own: it counts only if it equals the key
 * of a watch in all its bits. */
struct rr_ep_watch *rr_ep_by_key(uint64_t data, bool *ours)
{
	uint32_t index = data & ((1u << INDEX_BITS) - 1);
	struct rr_ep_watch *w;

	*ours = false;
	if (index >= nchunks * CHUNK)
		return NULL;
	w = &chunks[index / CHUNK][index % CHUNK];
	*ours = w->key == data;
	return *ours && w->set ? w : NULL;
}

/* Called under the lock, as everything that changes a list of watches. The release pairs with
 * the acquires in watched() and rr_ep_activate(), which look without the lock whether there is
 * any watch. */
struct rr_ep_watch *rr_ep_watch_new(struct rr_ep_set *set, struct rr_sock *so, int fd,
				    const struct epoll_event *ev)
{
	struct rr_ep_watch *w;
	uint64_t key;

	if (!free_watches && !more_watches())
		return NULL;
	w = free_watches;
	free_watches = w->next;
	key = w->key;
	*w = (struct rr_ep_watch){ .key = key, .set = set, .so = so, .fd = fd, .app = *ev,
				   .kmask = ev->events, .wake = -1,
				   .exclusive = ev->events & EPOLLEXCLUSIVE };
	if (ev->events & EPOLLET)	/* before the watch can be seen */
		atomic_fetch_or_explicit(&so->flags, RR_SOCK_EDGES, memory_order_relaxed);
	w->set_next = set->all;
	set->all = w;
	w->so_next = atomic_load_explicit(&so->watches, memory_order_relaxed);
	atomic_store_explicit(&so->watches, w, memory_order_release);
	return w;
}

struct rr_ep_watch *rr_ep_find(struct rr_ep_set *set, const struct rr_sock *so, int fd)
{
	struct rr_ep_watch *w = atomic_load_explicit(&so->watches, memory_order_relaxed);

	while (w && (w->set != set || w->fd != fd))
		w = w->so_next;
	return w;
}

/* Changes the form and keeps count of the set's watches that are not plain, which wait_plain()
 * reads. */
static void set_form(struct rr_ep_watch *w, enum rr_ep_form form)
{
	if (w->form == RR_EP_PLAIN && form != RR_EP_PLAIN)
		atomic_fetch_add(&w->set->tagged, 1);
	if (w->form != RR_EP_PLAIN && form == RR_EP_PLAIN)
		atomic_fetch_sub(&w->set->tagged, 1);
	w->form = form;
}

/* --- the wake-up fd, in the inner set --- */

/* Another watch of the same connection in the same set (by a duplicate of the fd), whose
 * wake-up fd is in the inner set too; NULL. The kernel holds that fd once, with the key of one
 * of the watches: a doorbell is for all watches of a connection. */
static struct rr_ep_watch *sharer(const struct rr_ep_watch *w)
{
	struct rr_ep_watch *o = w->so->watches;

	while (o && (o == w || o->set != w->set || o->wake != w->wake))
		o = o->so_next;
	return o;
}

/* Takes the wake-up fd out of the inner set, or leaves it there under another watch's key. */
static void drop_wake(struct rr_ep_watch *w)
{
	struct rr_ep_watch *heir = sharer(w);
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = heir ? heir->key : 0 };

	rr_real.epoll_ctl(w->set->inner, heir ? EPOLL_CTL_MOD : EPOLL_CTL_DEL, w->wake, &ev);
	w->wake = -1;
}

/* Makes wake (-1: none) the fd that is in the inner set for w. */
static void set_wake(struct rr_ep_watch *w, int wake)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = w->key };
	struct rr_conn *c;

	if (wake == w->wake || w->set->foreign)
		return;
	if (w->wake >= 0)
		drop_wake(w);
	if (wake < 0 || !rr_ep_need_inner(w->set))
		return;
	c = rr_sock_conn(w->so);
	if (c)
		rr_conn_in_set(c);
	if (!rr_real.epoll_ctl(w->set->inner, EPOLL_CTL_ADD, wake, &ev) || errno == EEXIST)
		w->wake = wake;
}

/* --- the app's fd, in the app's set --- */

int rr_ep_other_fd(const struct rr_ep_watch *w)
{
	for (int fd = rr_fdt_next(0); fd >= 0; fd = rr_fdt_next(fd + 1))
		if (rr_sock_at(w->so, fd))
			return fd;
	return -1;
}

/* EPOLL_CTL_MOD of the registration. The kernel does not modify one that has EPOLLEXCLUSIVE or
 * is to have it, so that is replaced. Registrations in our forms go without it: the kernel may
 * wake more than one sleeper. */
static int modify(struct rr_ep_watch *w, struct epoll_event *ev)
{
	bool was = w->exclusive;

	w->exclusive = ev->events & EPOLLEXCLUSIVE;
	if (!was && !w->exclusive)
		return rr_real.epoll_ctl(w->set->epfd, EPOLL_CTL_MOD, w->fd, ev);
	rr_real.epoll_ctl(w->set->epfd, EPOLL_CTL_DEL, w->fd, NULL);
	return rr_real.epoll_ctl(w->set->epfd, EPOLL_CTL_ADD, w->fd, ev);
}

/* Gives the kernel's registration a form and a mask. force: even if both are the same as
 * before. */
static void register_as(struct rr_ep_watch *w, enum rr_ep_form form, uint32_t mask, bool force)
{
	struct epoll_event ev = { .events = mask, .data.u64 = w->key };

	if (form == w->form && mask == w->kmask && !force)
		return;
	if (form == RR_EP_PLAIN)
		ev.data = w->app.data;
	else
		atomic_store(&w->set->keyed, true);	/* before the kernel can return it */
	/* A registration by a number that was closed (while a duplicate is left) is out of
	 * reach, and so is the parent's for a forked child. It stays as it is, under our
	 * key. */
	if (w->set->foreign || !rr_sock_at(w->so, w->fd) || modify(w, &ev)) {
		if (form != RR_EP_PLAIN)
			set_form(w, form);
		else if (w->form == RR_EP_MANAGED)
			set_form(w, RR_EP_PASS);
		return;
	}
	set_form(w, form);
	w->kmask = mask;
}

/* Is there still a number by which this process reaches the set? The one in s->epfd may have
 * been closed; then another is sought. */
static bool have_epfd(struct rr_ep_set *s)
{
	struct rr_ep_set *at = rr_ep_at(s->epfd);

	for (int fd = 0; at != s; fd++) {
		if (at)
			rr_file_put(&at->f);
		fd = rr_fdt_next(fd);
		if (fd < 0)
			return false;
		at = rr_ep_at(fd);
		if (at == s)
			s->epfd = fd;
	}
	rr_file_put(&at->f);
	return true;
}

/* Gives w the managed form, for what rr_conn_fds() has returned: n fds in p and the time of the
 * next look. */
static rr_time manage(struct rr_ep_watch *w, const struct rr_conn *c, const struct pollfd *p,
		      int n, rr_time until)
{
	uint32_t anchor = 0;
	int wake = -1;

	for (int i = 0; i < n; i++) {
		if (p[i].fd == w->fd)
			anchor = (unsigned short)p[i].events;
		else
			wake = p[i].fd;
	}
	/* The kernel reports a hang-up for a socket that is not connected yet, all the time: as
	 * an edge that is once. */
	if (!anchor && !rr_conn_is_carried(c))
		anchor = EPOLLET;
	/* Both directions are still TCP, so the kernel knows the edges. */
	if (anchor & EPOLLOUT)
		anchor |= w->app.events & EPOLLET;
	set_wake(w, wake);
	if (w->fired)
		register_as(w, RR_EP_HUSHED, EPOLLET | EPOLLONESHOT, false);
	else
		register_as(w, RR_EP_MANAGED, anchor, false);
	return w->fired ? RR_TIME_NEVER : until;
}

/* Three cases: the connection is TCP's, or none of ours any more (plain); the kernel alone can
 * tell news of it for now (pass); or it has other ways to be told (managed). */
rr_time rr_ep_refresh(struct rr_ep_watch *w, bool force)
{
	struct rr_conn *c = rr_sock_conn(w->so);
	unsigned want = rr_ev_want(w->app.events);
	rr_time until = RR_TIME_NEVER;
	struct pollfd p[2];
	int n, fd;

	if (!have_epfd(w->set))
		return RR_TIME_NEVER;
	fd = c ? rr_ep_watch_fd(w) : -1;
	if (fd < 0) {
		set_wake(w, -1);
		rr_ep_deactivate(w);
		if (w->fired)
			register_as(w, RR_EP_HUSHED, EPOLLET | EPOLLONESHOT, false);
		else
			register_as(w, RR_EP_PLAIN, w->app.events, force);
		return RR_TIME_NEVER;
	}
	n = rr_conn_fds(c, fd, want, p, &until);
	if (n && p[0].fd == fd)
		p[0].fd = w->fd;
	if (!rr_conn_is_carried(c) && n == 1 && p[0].fd == w->fd && until == RR_TIME_NEVER &&
	    (unsigned)(unsigned short)p[0].events == want) {
		set_wake(w, -1);
		rr_ep_deactivate(w);
		if (w->fired)
			register_as(w, RR_EP_HUSHED, EPOLLET | EPOLLONESHOT, false);
		else
			register_as(w, RR_EP_PASS, w->app.events & ~(uint32_t)EPOLLEXCLUSIVE,
				    force);
		return RR_TIME_NEVER;
	}
	return manage(w, c, p, n, until);
}

/* --- active and idle --- */

/* Is it the only watch of its socket? */
static unsigned watches_alone(const struct rr_ep_watch *w)
{
	return w->so->watches == w && !w->so_next ? RR_ASK_ALONE : 0;
}

int rr_ep_arm_again(struct rr_ep_watch *w)
{
	struct rr_conn *c = rr_sock_conn(w->so);

	if (!c || w->wake < 0 || w->form != RR_EP_MANAGED ||
	    w->kmask != (EPOLLIN | EPOLLRDHUP) ||
	    w->fired || w->set->foreign || w->app.events & EPOLLET || !rr_sock_at(w->so, w->fd))
		return -EAGAIN;
	return rr_conn_watch_plain(c, w->fd, rr_ev_want(w->app.events) | watches_alone(w),
				   w->wake);
}

bool rr_ep_more(const struct rr_ep_watch *w, struct rr_conn *c, int fd)
{
	return rr_conn_inq(c, fd) > w->inq || rr_conn_came(c) != w->came;
}

bool rr_ep_arm(struct rr_ep_watch *w)
{
	struct rr_conn *c = rr_sock_conn(w->so);
	unsigned ev = w->app.events, want = rr_ev_want(ev);
	int fd = rr_ep_watch_fd(w);

	if (!c || fd < 0)
		return true;
	/* Armed for the edges that have not been reported, and for more of what has. */
	if (ev & EPOLLET)
		want &= ~w->seen | w->dry;
	if (rr_conn_watch(c, fd, want))
		return false;
	return !(ev & EPOLLET) || !(w->seen & POLLIN) || !rr_ep_more(w, c, fd);
}

void rr_ep_place(struct rr_ep_watch *w)
{
	struct rr_ep_set *s = w->set;

	if (w->form != RR_EP_MANAGED || w->fired)
		return;
	/* A sleeper would not see the list: then the watch is armed, and rings. */
	if (rr_ep_asleep(s) && rr_ep_refresh(w, false) == RR_TIME_NEVER &&
	    (w->form != RR_EP_MANAGED || rr_ep_arm(w)))
		return;
	rr_ep_activate_one(w, false);
	if (rr_ep_asleep(s))
		rr_ep_kick(s);
}

/* --- going --- */

/* The watch goes back to the free list with its key, because the kernel may still return the
 * key for an event that is on its way: rr_ep_by_key() then finds no set. */
void rr_ep_watch_free(struct rr_ep_watch *w, bool del)
{
	struct rr_ep_watch **at = &w->set->all, *o, *before = NULL;

	rr_ep_deactivate(w);
	if (w->set->rested == w)
		w->set->rested = NULL;
	set_wake(w, -1);
	if (del && !w->set->foreign)
		rr_real.epoll_ctl(w->set->epfd, EPOLL_CTL_DEL, w->fd, NULL);
	set_form(w, RR_EP_PLAIN);
	while (*at != w)
		at = &(*at)->set_next;
	*at = w->set_next;
	for (o = w->so->watches; o != w; o = o->so_next)
		before = o;
	if (before)
		before->so_next = w->so_next;
	else
		atomic_store_explicit(&w->so->watches, w->so_next, memory_order_relaxed);
	w->set = NULL;
	w->next = free_watches;
	free_watches = w;
}

/* --- what happens to sockets --- */

void rr_ep_sync(struct rr_sock *so)
{
	for (struct rr_ep_watch *w = so->watches; w; w = w->so_next) {
		rr_ep_refresh(w, false);
		rr_ep_place(w);
	}
}

/* Has so any watches? Then the lock is taken. */
static bool watched(struct rr_sock *so)
{
	return atomic_load_explicit(&so->watches, memory_order_acquire) && rr_ep_lock();
}

void rr_sock_sync(struct rr_sock *so)
{
	int saved = errno;

	if (!watched(so))
		return;
	rr_ep_sync(so);
	rr_ep_unlock();
	errno = saved;
}

/* The app may have put another file at fd meanwhile; only if that is still this connection's
 * socket is it told. */
void rr_sock_turned(struct rr_conn *c, int fd)
{
	struct rr_sock *so = fd >= 0 ? rr_fdt_sock(fd) : NULL;

	if (!so)
		return;
	if (rr_sock_conn(so) == c)
		rr_sock_after(so, c);
	rr_file_put(&so->f);
}

void rr_ep_sock_conn(struct rr_sock *so)
{
	rr_sock_sync(so);
}

void rr_sock_is_dry(struct rr_sock *so, unsigned want)
{
	int saved = errno;

	if (!watched(so))
		return;
	for (struct rr_ep_watch *w = so->watches; w; w = w->so_next) {
		struct rr_conn *c = rr_sock_conn(so);

		w->dry |= want;
		/* A send was held back: there is a deadline now, and other fds to wait for. */
		if (c && !rr_conn_is_carried(c)) {
			rr_ep_refresh(w, false);
			rr_ep_place(w);
		}
		/* The watch was armed for messages only, since the app had been told that there
		 * is room. */
		if (want & w->app.events & POLLOUT && !w->active)
			rr_ep_place(w);
	}
	rr_ep_unlock();
	errno = saved;
}

/* Another thread has woken from this socket, and may have swallowed the doorbell that an idle
 * watch was waiting for: all its watches are asked again. */
void rr_ep_activate(struct rr_sock *so)
{
	int saved = errno;

	if (likely(!atomic_load_explicit(&so->watches, memory_order_acquire)) || !rr_ep_lock())
		return;
	for (struct rr_ep_watch *w = so->watches; w; w = w->so_next) {
		w->news = true;
		if (!w->active)
			rr_ep_place(w);
	}
	rr_ep_unlock();
	errno = saved;
}

void rr_ep_sock_gone(struct rr_sock *so, int fd)
{
	int saved = errno;
	bool mine;

	/* watched() does not do here: a thread that is about to add a watch may hold the lock,
	 * having found so at fd. */
	if (!rr_ep_lock())
		return;
	/* A forked child may keep the file open, and with it the kernel's registration. One
	 * that bears our key must be removed while fd still reaches it. */
	mine = so->watches && rr_file_is_at(&so->f, fd);
	while (so->watches) {
		struct rr_ep_watch *w = so->watches;

		rr_ep_watch_free(w, mine && w->fd == fd && w->form != RR_EP_PLAIN &&
				 have_epfd(w->set));
	}
	rr_ep_unlock();
	errno = saved;
}
