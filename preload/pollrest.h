/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_POLLREST_H
#define RR_POLLREST_H

/* One poll() or select() under way: its arrays (pollfind.c), and which entries are at rest
 * (pollrest.c). The rest of it is ready_poll.c's. */

#include "core/conn/standing.h"
#include "preload/ready.h"

/* One entry of the app's array that the kernel alone cannot answer. */
struct rr_slot {
	/* Referenced unless plain or standing; NULL: the entry is the kernel's from now on. */
	struct rr_file *file;
	struct rr_conn *conn;	/* NULL: an epoll set */
	struct rr_slot *next;	/* in the list of slots that are awake … */
	bool listed;		/* … if this one is */
	uint32_t at;		/* index in the app's array */
	uint32_t k;		/* index in the kernel's; 0: it has none there */
	bool kernel;		/* for now the kernel's answer about the fd is the right one */
	bool rests;		/* its wake-up fd stands in the app's place, and the rest is
				 * counted, or … */
	bool standing;		/* … it is a member of the standing wait (standing.h), and the
				 * set of resting connections tells of it */
	bool plain;		/* the kernel has the first word about it (struct
				 * rr_plainwait) */
	bool armed;		/* it is armed: the fds it sleeps on are behind the array */
	bool deadlk;		/* we are a signal handler that interrupted a call on it */
};

enum { RR_POLL_MANY = 24 };	/* from here on an array is long: the set of resting
				 * connections is used */
#define RR_NO_SLOT	UINT32_MAX

/* What an entry of the kernel's array stands for. */
struct rr_place {
	uint32_t at;		/* index in the app's array */
	uint32_t slot;		/* index of its slot; RR_NO_SLOT: the kernel alone answers it */
};

struct rr_work {
	struct pollfd *fds;	/* the app's */
	nfds_t n;
	nfds_t ours;		/* so many slots there is room for */
	/* The kernel's: entry 0 is the set's, then one for each of the app's that does not
	 * stand, with its place; behind those up to 2 more for each slot. */
	struct pollfd *kern;
	struct rr_place *places;
	nfds_t nk, extra;
	struct rr_slot *slots;
	nfds_t nslots;
	struct rr_slot *awake;	/* the slots that do not rest */
	nfds_t resting, plain;
	nfds_t standing;	/* how many of those at rest stand */
	struct rr_plainwait *plainwait;	/* of slots that are or were plain */
	bool set;		/* this thread holds the set of resting connections, and is the
				 * thread of the standing wait */
	struct pollfd *seen;	/* with the set: the app's array as it was, revents 0 */
	/* rr_fdt_changes() and rr_standing_begin() when the slots were found, and when: */
	uint32_t changes, ceased;
	rr_time found;
	uint32_t life;		/* rr_restset_life() when the arrays were kept */
	uint32_t rechecked;	/* rr_fdt_changes() when those that stand were last looked up */
	nfds_t others;		/* entries of the app's array that are the kernel's alone … */
	nfds_t listeners;	/* … and how many of these are TCP listeners of this process */
	const sigset_t *mask;
	rr_time deadline;
	rr_time until;		/* when to look again for the connections' sake */
	rr_time verify;		/* when to verify those at rest; 0: not known yet */
	nfds_t verified;	/* … and from which slot on */
	struct rr_fruitless fruitless;
	int cancel;
	int inner;		/* a private epoll set in place of the extra entries; -1 */
	void *mem;
};

static inline struct rr_sock *rr_slot_sock(const struct rr_slot *s)
{
	return container_of(s->file, struct rr_sock, f);
}

static inline unsigned rr_slot_want(const struct rr_work *w, const struct rr_slot *s)
{
	return rr_ev_want((unsigned short)w->fds[s->at].events);
}

/* What the kernel is asked with: from here, so many entries and w->extra. */
static inline struct pollfd *rr_work_kern(const struct rr_work *w)
{
	return w->kern + !w->set;
}

static inline nfds_t rr_work_count(const struct rr_work *w)
{
	return w->nk - !w->set;
}

/* The slot of the kernel's entry k; NULL: it has none. */
static inline struct rr_slot *rr_work_slot(const struct rr_work *w, nfds_t k)
{
	return w->places[k].slot == RR_NO_SLOT ? NULL : &w->slots[w->places[k].slot];
}

/* Adds the app's entry `at`, as it is, to the kernel's array. Returns its index there. */
static inline uint32_t rr_work_add(struct rr_work *w, uint32_t at, uint32_t slot)
{
	w->kern[w->nk] = (struct pollfd){ w->fds[at].fd, w->fds[at].events, 0 };
	w->places[w->nk] = (struct rr_place){ at, slot };
	return (uint32_t)w->nk++;
}

/* The slot's entry in the kernel's array, which gets one if it has none. */
static inline struct pollfd *rr_slot_kern(struct rr_work *w, struct rr_slot *s)
{
	if (!s->k) {
		s->k = rr_work_add(w, s->at, (uint32_t)(s - w->slots));
		w->kern[s->k].fd = -1;
	}
	return &w->kern[s->k];
}

/* --- pollfind.c: the arrays, and which entries are ours --- */

/* Begins a wait on w->fds as one went on before, if the app passes the same array and nothing
 * that was found then has changed. False: nothing is begun. */
bool rr_pollfind_again(struct rr_work *w);
/* Begins a wait on w->fds, of which about `ours` entries are ours. From RR_POLL_MANY on it
 * takes the set of resting connections, so that neither the kernel nor the library need look at
 * each of them at each wait. `stack` has room for rr_pollfind_size() bytes, or is NULL. False:
 * no memory. */
bool rr_pollfind(struct rr_work *w, nfds_t ours, void *stack);
size_t rr_pollfind_size(nfds_t n, nfds_t ours);
/* Lets go of everything that the wait holds. */
void rr_pollfind_end(struct rr_work *w);

/* --- pollrest.c --- */

/* Takes the set of resting connections, if this thread may have it, and begins the standing
 * wait; and gives it back. */
bool rr_pollrest_take(struct rr_work *w);
void rr_pollrest_give(struct rr_work *w);
/* Was the connection at rest before this call? Then its wake-up fd stands in the app's place
 * now. */
bool rr_pollrest_finds(struct rr_work *w, struct rr_slot *s, rr_time now);
/* The same for a slot whose file is not referenced: it is a member of the standing wait now. */
bool rr_pollrest_stands(struct rr_work *w, struct rr_slot *s, rr_time now);
/* The connection has been armed and is at rest: the thread sleeps on wake. */
void rr_pollrest_put(struct rr_work *w, struct rr_slot *s, int wake);
/* Nothing has happened on the connection for a while: puts it to rest. */
void rr_pollrest_tires(struct rr_work *w, struct rr_slot *s);
/* The connection no longer rests, for this thread: it has rung, or is to be asked. It may turn
 * out to be the kernel's (s->file). */
void rr_pollrest_leaves(struct rr_work *w, struct rr_slot *s, bool rang);
/* The kernel has spoken of a plain slot. False: another file has its number, and the kernel's
 * word stands. */
bool rr_plain_leaves(struct rr_work *w, struct rr_slot *s);
/* Turns the kernel's answer for the set into answers for the members that rang. */
void rr_pollrest_spread(struct rr_work *w);
/* Goes on without the set. */
void rr_pollrest_without(struct rr_work *w);
/* When a wait that sleeps now, and of which some rest, is to verify them for the first time. */
rr_time rr_pollrest_look(const struct rr_work *w, rr_time now);
/* Verifies the next of the connections at rest, and says when to go on (w->verify). */
void rr_pollrest_verify(struct rr_work *w);
/* The lengthened array exceeds RLIMIT_NOFILE. The added entries go into an epoll set that takes
 * the place of an entry of ours, and the wait goes on without the set of resting connections.
 * Returns 0 or -EINVAL (pollshort.c). */
int rr_pollshort_begin(struct rr_work *w);
/* After the sleep: removes that epoll set, so that the array is the app's again. */
void rr_pollshort_end(struct rr_work *w);
/* The slot does not rest: it is asked, and armed before the next sleep. */
void rr_slot_wakes(struct rr_work *w, struct rr_slot *s);
/* The slot is the kernel's from now on. */
void rr_slot_drop(struct rr_work *w, struct rr_slot *s);

#endif
