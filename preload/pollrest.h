/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_POLLREST_H
#define RR_POLLREST_H

/* One poll() or select(): its arrays, and what of them is at rest (pollrest.c); the rest of
 * it is ready_poll.c's. */

#include "preload/ready.h"

/* One entry of the app's array that the kernel alone cannot answer. */
struct rr_slot {
	/* referenced, but if plain; NULL: left to the kernel from now on */
	struct rr_file *file;
	struct rr_conn *conn;	/* NULL: an epoll set */
	struct rr_slot *next;	/* of those awake … */
	bool listed;		/* … where it is */
	uint32_t at;
	bool kernel;		/* for now the kernel's answer is the right one */
	bool rests;		/* its wake-up fd is in its place, and counted */
	bool plain;		/* the kernel has the first word of it */
	bool armed;		/* … or what it sleeps on is behind the array */
	bool deadlk;		/* this is a signal handler that interrupted a call on it */
};

struct rr_work {
	struct pollfd *fds;	/* the app's */
	nfds_t n;
	struct pollfd *kern;	/* n, 1 for the set, and up to 2 more for each slot */
	nfds_t extra;
	struct rr_slot *slots;
	nfds_t nslots;
	struct rr_slot *awake;	/* those that do not rest */
	nfds_t resting, plain;
	struct rr_plainwait *plainwait;	/* of those that are or were plain */
	bool set;		/* this thread has the set of resting connections: it is behind
				 * the array */
	nfds_t others;		/* entries of the app's array that are the kernel's alone */
	const sigset_t *mask;
	rr_time deadline;
	rr_time until;
	rr_time verify;		/* when those at rest are to be looked at; 0 not yet known */
	struct rr_fruitless fruitless;
	int cancel;
	int inner;		/* a private epoll set instead of the extra entries; -1 */
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

/* Begins: the set of those at rest, if there are so many that the kernel would be asked
 * about each at each wait. */
void rr_pollrest_start(struct rr_work *w, nfds_t ours);
/* Was the connection at rest before this call? Then its wake-up fd is in its place now. */
bool rr_pollrest_finds(struct rr_work *w, struct rr_slot *s, rr_time now);
/* It has been armed, and is at rest with wake to sleep on. */
void rr_pollrest_put(struct rr_work *w, struct rr_slot *s, int wake);
/* Nothing has happened on it for a while: puts it to rest. */
void rr_pollrest_tires(struct rr_work *w, struct rr_slot *s);
/* For this thread it rests no more: it has rung, or is to be asked. */
void rr_pollrest_leaves(struct rr_work *w, struct rr_slot *s, bool rang);
/* The kernel has spoken of one that is plain. False: another has its number, and the kernel's
 * word is right. */
bool rr_plain_leaves(struct rr_work *w, struct rr_slot *s);
/* The kernel's answer for the set becomes one for those that rang. */
void rr_pollrest_spread(struct rr_work *w);
/* From now on it does without the set. */
void rr_pollrest_without(struct rr_work *w);
/* All are asked: a number may be another file's by now, closed where nobody can see it, and
 * an anchor may have ended while the peer lives. */
void rr_pollrest_verify(struct rr_work *w);
/* It does not rest: it is asked, and armed before the next sleep. */
void rr_slot_wakes(struct rr_work *w, struct rr_slot *s);
/* The slot is left to the kernel from now on. */
void rr_slot_drop(struct rr_work *w, struct rr_slot *s);

/* Looks at the kernel's part of the array, while some connection always has news: at least
 * so much time between two; when the last one was, where the array is long enough to
 * remember that (else 0); this is one; was it just now? */
rr_time rr_look_gap(const struct rr_work *w);
rr_time rr_looked_at(const struct rr_work *w);
void rr_look_note(const struct rr_work *w);
bool rr_looked_just_now(const struct rr_work *w);

#define RR_REST_LOOK	RR_SEC	/* a wait that lasts so long looks once at what rests */

#endif
