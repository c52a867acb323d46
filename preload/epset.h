/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_EPSET_H
#define RR_EPSET_H

/* What this process knows of its epoll sets (epset.c, epwatch.c, epnews.c), for epoll_ctl()
 * (ready_epoll.c) and for threads that wait (epwait.c, epnested.c).
 *
 * A watch shadows one registration of a TCP socket in a set of the app's. Its key is (set, fd
 * number, open file), as in the kernel. The kernel holds the registration in one of four forms:
 *
 *   plain    the app's own mask and data. We take no part in it (yet, or any longer).
 *   pass     the app's mask, with the watch's key as data. The kernel says that there is news,
 *            and then the connection is asked before the app is told. For a connection of which
 *            it is not known yet whether it will be carried.
 *   managed  the mask that the connection needs on its anchor, under the watch's key; the
 *            connection's wake-up fd is in the set's inner epoll set. The app's mask, its edges
 *            and ONESHOT are our work.
 *   hushed   no events: a ONESHOT that has fired, and the kernel must stay silent about it.
 *
 * A managed watch is either active or idle. The connections of active watches, which stand on
 * the set's list, are asked by each thread that waits. An idle watch is armed: news rings its
 * doorbell, which makes the inner set readable, and the inner set is registered in the app's
 * set under a cookie. So idle connections cost a wait nothing, and a sleep is one in the
 * kernel.
 *
 * One lock guards all of this. What is done under it is short and never sleeps. */

#include "core/base/lock.h"
#include "preload/ready.h"

enum rr_ep_form { RR_EP_PLAIN, RR_EP_PASS, RR_EP_MANAGED, RR_EP_HUSHED };

struct rr_ep_set {
	struct rr_file f;
	bool foreign;		/* inherited over fork and not used since: it is the parent's */
	bool nested;		/* something other than epoll_wait() waits for it (poll, select,
				 * a set) */
	bool in_set;		/* it may be in another epoll set, whose waiters ask the kernel
				 * alone */
	bool kicked;		/* rr_ep_kick() was called, and nobody has looked since */
	bool kernel_first;	/* our events filled the array last time: the kernel's come
				 * first now */
	int epfd;		/* one of its fd numbers, the one last used */
	_Atomic int inner;	/* the inner set; -1: not made yet */
	uint64_t cookie;
	_Atomic uint32_t sleepers;	/* threads that wait in the kernel */
	_Atomic uint32_t tagged;	/* watches that are not plain */
	_Atomic bool keyed;		/* the kernel may have, or have had, keys of ours in
					 * it */
	uint64_t pass;			/* counts waits, so that one wait reports no watch
					 * twice */
	uint64_t round;			/* counts rounds over the active watches, so that one
					 * round asks none twice */
	struct rr_ep_watch *all;
	struct rr_ep_watch *first, *last;	/* the active watches */
	struct rr_ep_watch *rested;		/* the watch that was active last, or NULL */
	struct rr_ep_set *next;		/* of all sets, or of the free ones */
};

struct rr_ep_watch {
	uint64_t key;
	struct rr_ep_set *set;	/* NULL: this watch is free */
	struct rr_sock *so;
	int fd;
	struct epoll_event app;	/* mask and data as the app gave them */
	enum rr_ep_form form;
	uint32_t kmask;		/* the mask that the kernel has */
	bool exclusive;		/* the kernel has EPOLLEXCLUSIVE, so EPOLL_CTL_MOD fails */
	int wake;		/* the wake-up fd that is in the inner set; -1 none */
	bool fired;		/* ONESHOT: reports nothing until the next EPOLL_CTL_MOD */
	bool active;
	bool news;		/* a doorbell has rung since it was last asked */
	unsigned seen;		/* edge-triggered: bits that were reported and still held when
				 * it was last asked */
	unsigned dry;		/* POLLIN, POLLOUT: bits that the app has used up since */
	int inq;		/* bytes that could be read when last reported … */
	uint64_t came;		/* … and what rr_conn_came() was then */
	unsigned misses;	/* how often in a row it was asked in vain */
	uint64_t told;		/* the pass of its set in which it was reported */
	uint64_t asked;		/* the round of its set in which it was asked */
	struct rr_ep_watch *set_next, *so_next;
	struct rr_ep_watch *next, *prev;	/* in the list of active watches, or of free
						 * ones */
};

/* Takes the lock. False: the caller is a signal handler that has interrupted the holder. */
bool rr_ep_lock(void);
void rr_ep_unlock(void);

/* --- sets; what follows is called under the lock unless it says otherwise --- */
/* Makes a set object for epfd, which the kernel has just returned, and enters it into the fd
 * table. NULL: no memory, and the set is the kernel's alone. Returns no reference. Called
 * without the lock. */
struct rr_ep_set *rr_ep_new(int epfd);
/* The set at epfd, referenced, or NULL. Called without the lock. */
struct rr_ep_set *rr_ep_at(int epfd);

/* The app uses the set by its number epfd. A set that was inherited over fork belongs to this
 * process from here on. */
void rr_ep_use(struct rr_ep_set *set, int epfd);

/* Makes the set's inner set if there is none. False: it could not be made. */
bool rr_ep_need_inner(struct rr_ep_set *set);
/* Makes the set's kernel object readable once, so that one sleeper wakes and looks. */
void rr_ep_kick(struct rr_ep_set *set);
/* Iterates over all sets: returns the first for NULL, NULL after the last. */
struct rr_ep_set *rr_ep_next(struct rr_ep_set *set);
/* The app wants the number fd. True: fd was an inner set or the bell and has moved to another
 * number; fd is now the caller's to close. Called without the lock. */
bool rr_ep_move_fd(int fd);
/* The same for a connection's wake-up fd, which has moved to another number already: the inner
 * sets take the new number while the old one can still be removed. Called without the lock. */
void rr_ep_wake_moved(int fd);
/* Does a thread sleep that would not notice a change of the active list? */
static inline bool rr_ep_asleep(const struct rr_ep_set *set)
{
	return atomic_load(&set->sleepers) || set->nested;
}

/* --- watches --- */

struct rr_ep_watch *rr_ep_watch_new(struct rr_ep_set *set, struct rr_sock *so, int fd,
				    const struct epoll_event *ev);
/* Forgets the watch. del: removes the kernel's registration too. */
void rr_ep_watch_free(struct rr_ep_watch *w, bool del);
struct rr_ep_watch *rr_ep_find(struct rr_ep_set *set, const struct rr_sock *so, int fd);
/* The watch whose key data is, or NULL. *ours: data is a key of ours, possibly of a watch that
 * has been freed. */
struct rr_ep_watch *rr_ep_by_key(uint64_t data, bool *ours);

/* Makes the kernel's registration what the connection needs now. force: registers even if
 * nothing seems to change, which starts edges and ONESHOT anew. Returns when to refresh again,
 * or RR_TIME_NEVER. */
rr_time rr_ep_refresh(struct rr_ep_watch *w, bool force);
/* A managed watch may have news: makes it active, or arms it if nobody would ask it. */
void rr_ep_place(struct rr_ep_watch *w);
/* Puts it on the active list, unless it is there; news: a doorbell has rung. */
static inline void rr_ep_activate_one(struct rr_ep_watch *w, bool news)
{
	struct rr_ep_set *s = w->set;

	w->news |= news;
	if (w->active || w->fired || w->form != RR_EP_MANAGED)
		return;
	w->active = true;
	w->next = NULL;
	w->prev = s->last;
	*(s->last ? &s->last->next : &s->first) = w;
	s->last = w;
}

/* Takes it from the active list, if it is there. */
static inline void rr_ep_deactivate(struct rr_ep_watch *w)
{
	struct rr_ep_set *s = w->set;

	if (!w->active)
		return;
	w->active = false;
	*(w->prev ? &w->prev->next : &s->first) = w->next;
	*(w->next ? &w->next->prev : &s->last) = w->prev;
}

/* Arms the watch, so that it may be idle. False: it has something to report already. */
bool rr_ep_arm(struct rr_ep_watch *w);
/* Are there more bytes than when it was last reported, or has a record come since? */
bool rr_ep_more(const struct rr_ep_watch *w, struct rr_conn *c, int fd);
/* rr_ep_refresh() and rr_ep_arm() in one cheap step, for a carried connection about which
 * nothing is unusual. 0: armed; 1: there is news, ask it; -EAGAIN: the two calls are needed. */
int rr_ep_arm_again(struct rr_ep_watch *w);
/* Any number by which w's socket is open; -1 none. */
int rr_ep_other_fd(const struct rr_ep_watch *w);
/* The fd number by which to ask the watch's connection: w->fd, or another number of the same
 * socket if the app has closed that one; -1 none. */
static inline int rr_ep_watch_fd(const struct rr_ep_watch *w)
{
	return likely(rr_sock_at(w->so, w->fd)) ? w->fd : rr_ep_other_fd(w);
}

/* Refreshes all watches of so. Called after its connection changed between TCP and RDMA. */
void rr_ep_sync(struct rr_sock *so);

/* --- what they have to report (epnews.c) --- */

/* The bits among those the app waits for that hold now, or RR_CONN_KERNEL. */
int rr_ep_ask(struct rr_ep_watch *w);
/* Does memory show that w, whose connection is c, may have something to report? */
bool rr_ep_peek(const struct rr_ep_watch *w, const struct rr_conn *c);
/* Asks the active watches, each once, and puts what they report into evs; looks: this call does
 * not wait. Returns the number of events, at most max. */
int rr_ep_collect(struct rr_ep_set *set, struct epoll_event *evs, int max, bool looks);
/* Takes in doorbells, a handful: the connections that rang become active. */
void rr_ep_harvest(struct rr_ep_set *set);
/* Of n events that the kernel returned, keeps those for the app; returns how many. Events of
 * the inner set and of watches in other forms than pass only make watches active. slept: how
 * long the caller has slept for these events, 0 if it has not. */
int rr_ep_sift(struct rr_ep_set *set, struct epoll_event *evs, int n, rr_time slept);
/* Arms all active watches. False: one of them has something to report already. *until is
 * lowered to when one must be looked at again. */
bool rr_ep_arm_all(struct rr_ep_set *set, rr_time *until);
/* Has one of the active watches something to report? Reports nothing. */
bool rr_ep_any_due(struct rr_ep_set *set);

/* --- sets within sets (epnested.c) --- */

/* The set at epfd is about to be put into another one, or asked for other events there: makes
 * it readable for the kernel if it has something. The kernel looks once then, and later wakes
 * by EPOLLIN alone, which who has asked for EPOLLRDNORM does not hear. */
void rr_ep_show(struct rr_ep_set *set, int epfd);
/* The set at epfd has been put into another set of the app's, whose waiters ask the kernel
 * alone (rr_ep_show_nested()). */
void rr_ep_nest(struct rr_ep_set *set, int epfd);

/* --- waiting (epwait.c); without the lock --- */

/* epoll_pwait2() on s, by its number epfd. Takes over the caller's reference. deadline 0: does
 * not wait. fine: the app gave its deadline in nanoseconds rather than milliseconds. Returns
 * the number of events, or -errno; errno is left alone. A cancellation point. */
int rr_ep_wait(struct rr_ep_set *s, int epfd, struct epoll_event *evs, int max,
	       rr_time deadline, const sigset_t *mask, bool fine);

#endif
