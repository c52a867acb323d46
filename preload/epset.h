/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_EPSET_H
#define RR_EPSET_H

/* What we know of the process's epoll sets (epset.c, epwatch.c), for epoll_ctl()
 * (ready_epoll.c) and for who waits (epwait.c).
 *
 * A watch shadows one registration of a TCP socket in an app's set, keyed by (set, fd number,
 * open file). In the kernel it has one of four forms:
 *
 *   plain    the app's own mask and data: nothing of ours is involved (any more, or yet)
 *   pass     the app's mask under our data (its key): the kernel tells when, and the connection
 *            is asked before the app is told. A connection that nothing is known of yet.
 *   managed  what the connection wants to hear of from the anchor, under its key; its wake-up
 *            fd is in the set's inner epoll set. Mask, edges and ONESHOT are ours to do.
 *   hushed   nothing: a fired ONESHOT that the kernel must be quiet about
 *
 * Managed watches are either active (on the set's list: whoever waits asks their connections)
 * or idle (armed; their doorbell rings the inner set, which is in the app's set under a
 * cookie). So idle connections cost a wait nothing, and a sleep is one in the kernel.
 *
 * One lock for all of it: what is done under it is short, and never sleeps. */

#include "core/base/lock.h"
#include "preload/ready.h"

enum rr_ep_form { RR_EP_PLAIN, RR_EP_PASS, RR_EP_MANAGED, RR_EP_HUSHED };

struct rr_ep_set {
	struct rr_file f;
	bool foreign;		/* inherited over fork and not used since: the parent's */
	bool nested;		/* something else than epoll_wait() waits for it */
	bool in_set;		/* that is another epoll set, perhaps: only the kernel is asked
				 * there */
	bool kicked;		/* rr_ep_kick(), and nobody has looked since */
	bool kernel_first;	/* at the next wait: ours filled the array last time */
	int epfd;		/* a number of it, the last that was used */
	_Atomic int inner;	/* -1: none yet */
	uint64_t cookie;
	_Atomic uint32_t sleepers;	/* threads in the kernel's wait */
	_Atomic uint32_t tagged;	/* watches that are not plain */
	_Atomic bool keyed;		/* the kernel may have keys of ours in it, or has had */
	uint64_t pass;			/* counts waits, so that none tells a watch twice */
	uint64_t round;			/* counts rounds through the active watches, so that
					 * none asks one twice */
	struct rr_ep_watch *all;
	struct rr_ep_watch *first, *last;	/* the active ones */
	struct rr_ep_watch *rested;		/* the one that was active last, or NULL */
	struct rr_ep_set *next;		/* of all sets, or of the free ones */
};

struct rr_ep_watch {
	uint64_t key;
	struct rr_ep_set *set;	/* NULL: free */
	struct rr_sock *so;
	int fd;
	struct epoll_event app;	/* as the app gave it */
	enum rr_ep_form form;
	uint32_t kmask;		/* as the kernel has it */
	bool exclusive;		/* the kernel has EPOLLEXCLUSIVE: it cannot be modified */
	int wake;		/* in the inner set; -1 */
	bool fired;		/* ONESHOT: nothing until the next MOD */
	bool active;
	bool news;		/* a doorbell since it was last looked at */
	unsigned seen;		/* edge-triggered: what was reported and still held when last
				 * asked */
	unsigned dry;		/* POLLIN, POLLOUT: the app used it up since */
	int inq;		/* bytes to read when last reported … */
	uint64_t came;		/* … and rr_conn_came() */
	unsigned misses;	/* looks in a row that found nothing */
	uint64_t told;		/* in this pass of its set */
	uint64_t asked;		/* in this round of its set */
	struct rr_ep_watch *set_next, *so_next;
	struct rr_ep_watch *next, *prev;	/* active, or free */
};

/* The lock. False: this is a signal handler that interrupted a holder. */
bool rr_ep_lock(void);
void rr_ep_unlock(void);

/* --- sets; everything below under the lock unless it says otherwise --- */

/* Puts a set object at epfd, which was just made. NULL: no memory, the kernel's alone. Without
 * the lock. Returns no reference. */
struct rr_ep_set *rr_ep_new(int epfd);
/* The set at epfd, referenced; NULL. Without the lock. */
struct rr_ep_set *rr_ep_at(int epfd);

/* epfd is a number of it, by which the app uses it now. A set that was inherited over fork is
 * from here on this process's. */
void rr_ep_use(struct rr_ep_set *set, int epfd);

/* Makes the inner set if there is none. */
bool rr_ep_need_inner(struct rr_ep_set *set);
/* Makes the set's kernel object readable for a moment: one sleeper wakes and looks. */
void rr_ep_kick(struct rr_ep_set *set);
/* All sets, in turn: the first one behind NULL. */
struct rr_ep_set *rr_ep_next(struct rr_ep_set *set);
/* fd is to be another file's. True: it was a set's, and is no longer. Without the lock. */
bool rr_ep_move_fd(int fd);
/* The same of a connection's wake-up fd, which has another number already: inner sets take that
 * one, as long as the old one can still be taken out. Without the lock. */
void rr_ep_wake_moved(int fd);
/* Is anybody asleep who would not see a change of the active list? */
static inline bool rr_ep_asleep(const struct rr_ep_set *set)
{
	return atomic_load(&set->sleepers) || set->nested;
}

/* --- watches --- */

struct rr_ep_watch *rr_ep_watch_new(struct rr_ep_set *set, struct rr_sock *so, int fd,
				    const struct epoll_event *ev);
/* Forgets it. del: the kernel's registration goes as well. */
void rr_ep_watch_free(struct rr_ep_watch *w, bool del);
struct rr_ep_watch *rr_ep_find(struct rr_ep_set *set, const struct rr_sock *so, int fd);
/* The watch that this data belongs to; NULL. *ours: it is a key of ours, if a stale one. */
struct rr_ep_watch *rr_ep_by_key(uint64_t data, bool *ours);

/* Brings the kernel's registration up to what the connection is now. force: even if it looks
 * the same (that starts edges and ONESHOT anew). When to look again, or RR_TIME_NEVER. */
rr_time rr_ep_refresh(struct rr_ep_watch *w, bool force);
/* A managed watch may have something: onto the active list, or armed if nobody would look. */
void rr_ep_place(struct rr_ep_watch *w);
void rr_ep_activate_one(struct rr_ep_watch *w, bool news);
void rr_ep_deactivate(struct rr_ep_watch *w);
/* Is the watch armed now, so that it may be idle? False: look at it again. */
bool rr_ep_arm(struct rr_ep_watch *w);
/* Is there more to read than when it was last reported, or has more come since? */
bool rr_ep_more(const struct rr_ep_watch *w, struct rr_conn *c, int fd);
/* The same, and rr_ep_refresh(), for one about which nothing is unusual: 0 armed, 1 look at it
 * again, -EAGAIN: it takes both. */
int rr_ep_arm_again(struct rr_ep_watch *w);
/* The number to ask its connection by: fd, or if that was closed another one of so. */
int rr_ep_watch_fd(const struct rr_ep_watch *w);
/* All watches of so, after its carrier changed. */
void rr_ep_sync(struct rr_sock *so);

/* The set at epfd is in another set of the app's from now on, whose waiters ask the kernel
 * alone (epwait.c). */
void rr_ep_nest(struct rr_ep_set *set, int epfd);

/* --- waiting (epwait.c); without the lock --- */

/* epoll_pwait2() on s, which epfd is a number of; takes over the caller's reference. deadline
 * 0: does not wait. fine: the deadline is the app's in nanoseconds, not in milliseconds. The
 * number of events, or -errno; errno is as it was. A cancellation point. */
int rr_ep_wait(struct rr_ep_set *s, int epfd, struct epoll_event *evs, int max,
	       rr_time deadline, const sigset_t *mask, bool fine);

#endif
