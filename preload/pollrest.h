/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_POLLREST_H
#define RR_POLLREST_H

/* One poll() or select() under way: its arrays, and which entries are at rest (pollrest.c). The
 * rest of it is ready_poll.c's. */

#include "preload/ready.h"

/* One entry of the app's array that the kernel alone cannot answer. */
struct rr_slot {
	/* Referenced unless plain; NULL: the entry is the kernel's from now on. */
	struct rr_file *file;
	struct rr_conn *conn;	/* NULL: an epoll set */
	struct rr_slot *next;	/* in the list of slots that are awake … */
	bool listed;		/* … if this one is */
	uint32_t at;
	bool kernel;		/* for now the kernel's answer about the fd is the right one */
	bool rests;		/* its wake-up fd stands in the app's place, and the rest is
				 * counted */
	bool plain;		/* the kernel has the first word about it (struct
				 * rr_plainwait) */
	bool armed;		/* it is armed: the fds it sleeps on are behind the array */
	bool deadlk;		/* we are a signal handler that interrupted a call on it */
};

enum { RR_POLL_MANY = 64 };	/* from here on an array is long: the set of resting
				 * connections is used */

struct rr_work {
	struct pollfd *fds;	/* the app's */
	nfds_t n;
	struct pollfd *kern;	/* n entries, 1 for the set, and up to 2 more for each slot */
	nfds_t extra;
	struct rr_slot *slots;
	nfds_t nslots;
	struct rr_slot *awake;	/* the slots that do not rest */
	nfds_t resting, plain;
	struct rr_plainwait *plainwait;	/* of slots that are or were plain */
	bool set;		/* this thread holds the set of resting connections; its entry
				 * is behind the array */
	nfds_t others;		/* entries of the app's array that are the kernel's alone … */
	nfds_t listeners;	/* … and how many of these are TCP listeners of this process */
	const sigset_t *mask;
	rr_time deadline;
	rr_time until;		/* when to look again for the connections' sake */
	rr_time verify;		/* when to verify those at rest; 0: not known yet */
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

/* Begins a wait on an array of which `ours` entries are ours. From RR_POLL_MANY on it takes the
 * set of resting connections, so that the kernel need not look at each of them at each wait. */
void rr_pollrest_start(struct rr_work *w, nfds_t ours);
/* Was the connection at rest before this call? Then its wake-up fd stands in the app's place
 * now. */
bool rr_pollrest_finds(struct rr_work *w, struct rr_slot *s, rr_time now);
/* The connection has been armed and is at rest: the thread sleeps on wake. */
void rr_pollrest_put(struct rr_work *w, struct rr_slot *s, int wake);
/* Nothing has happened on the connection for a while: puts it to rest. */
void rr_pollrest_tires(struct rr_work *w, struct rr_slot *s);
/* The connection no longer rests, for this thread: it has rung, or is to be asked. */
void rr_pollrest_leaves(struct rr_work *w, struct rr_slot *s, bool rang);
/* The kernel has spoken of a plain slot. False: another file has its number, and the kernel's
 * word stands. */
bool rr_plain_leaves(struct rr_work *w, struct rr_slot *s);
/* Turns the kernel's answer for the set into answers for the members that rang. */
void rr_pollrest_spread(struct rr_work *w);
/* Goes on without the set. */
void rr_pollrest_without(struct rr_work *w);
/* All connections at rest are asked, and their numbers verified. */
void rr_pollrest_verify(struct rr_work *w);
/* The lengthened array exceeds RLIMIT_NOFILE. The added entries go into an epoll set that takes
 * the place of an entry of ours; if only the set of resting connections was added, the wait
 * goes on without it. Returns 0 or -EINVAL (pollshort.c). */
int rr_pollshort_begin(struct rr_work *w);
/* After the sleep: removes that epoll set, so that the array is the app's again. */
void rr_pollshort_end(struct rr_work *w);
/* The slot does not rest: it is asked, and armed before the next sleep. */
void rr_slot_wakes(struct rr_work *w, struct rr_slot *s);
/* The slot is the kernel's from now on. */
void rr_slot_drop(struct rr_work *w, struct rr_slot *s);

#define RR_REST_LOOK	RR_SEC	/* a wait that lasts this long looks once at what rests */

#endif
