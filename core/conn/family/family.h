/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_FAMILY_H
#define RR_CONN_FAMILY_H

/* A connection that is shared by a process and those that were forked from it.
 *
 *   relay.c      native: by the app's socket      handback.c   two of ours: back to TCP
 *   inherited.c  what a child does meanwhile      exit.c       what is under way at exit() */

#include "core/conn/native/native.h"

/* relay.c */
/* What poll() of the far end reports when another process has used the connection, or this one
 * no longer does. */
#define RR_RELAY_WANTED	(POLLIN | POLLPRI | POLLRDHUP)
/* Does c have a native peer's queue pair, which cannot be shared with forked processes? */
bool rr_relay_may(const struct rr_conn *c);
/* In a child: what is inside such a connection is the parent's. False: c is not one. */
bool rr_relay_forked(struct rr_conn *c);
/* From here on the connection's bytes go over the app's socket. False: they cannot. Under its
 * lock. */
bool rr_relay_take_over(struct rr_conn *c);
/* The parent's app is about to use it: takes over if another process has used it since the
 * fork. */
void rr_relay_look(struct rr_conn *c);
static inline void rr_relay_see(struct rr_conn *c, int fd)
{
	if (unlikely(atomic_load_explicit(&c->relay, memory_order_relaxed)) && fd >= 0)
		rr_relay_look(c);
}
/* The child's app wants to read: asks the parent to begin. */
void rr_relay_ask(struct rr_conn *c, int fd);
/* The app closes the connection. True: a relay goes on without the app, or did so already. */
bool rr_relay_takes(struct rr_conn *c, int fd);

/* Asked before entering: does the call go to the kernel anyway? reads: the call wants incoming
 * bytes. */
static inline bool rr_conn_passes(struct rr_conn *c, int fd, bool reads)
{
	bool relayed;

	rr_relay_see(c, fd);
	relayed = rr_conn_relayed(c, fd);
	if (reads && relayed)
		rr_relay_ask(c, fd);
	return relayed || rr_conn_is_tcp(c);
}

/* As rr_conn_hold(), for a call of the app's that brings no upgrade forward. RR_CONN_KERNEL,
 * without the lock: a relay uses the connection. */
static inline int rr_conn_hold_apps(struct rr_conn *c, int fd, struct rr_lock **l)
{
	int st = rr_conn_relayed(c, fd) ? RR_CONN_KERNEL : rr_conn_hold(c, l);

	if (st >= 0 && rr_conn_relayed(c, fd)) {	/* since a moment ago */
		rr_lock_drop(*l);
		st = RR_CONN_KERNEL;
	}
	return st;
}

/* handback.c, for the owner: before it forks; and in the child. */
void rr_handback_forks(struct rr_conn *c);
void rr_handback_forked(void);
/* The app closes the connection (by fd, or -1) while other processes have it. Under its
 * lock. */
void rr_handback_leave(struct rr_conn *c, int fd);
/* The process ends while other processes have the connection. Under its lock. */
void rr_handback_exit(struct rr_conn *c, rr_time end);
/* A child asks the owner to hand the connection back, passing its own descriptor of the anchor.
 * 0 or -errno. */
int rr_handback_ask(struct rr_share *sh, int fd);
/* Reads from the ring, for whichever process reads next. */
ssize_t rr_handback_take(struct rr_share *sh, const struct iovec *iov, int n, int flags);

/* inherited.c. In a child, for a connection that only its parent can use: drops everything but
 * the memory that both share. */
void rr_inherited_begin(struct rr_conn *c);
/* Everything below is called afterwards, under the lock. */
ssize_t rr_inherited_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_inherited_send(struct rr_conn *c, int fd);
int rr_inherited_poll(struct rr_conn *c, int fd, unsigned want);
int rr_inherited_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2],
		     rr_time *until);
int rr_inherited_inq(struct rr_conn *c, int fd);
int rr_inherited_shutdown(struct rr_conn *c, int fd, bool rd, bool wr);
void rr_inherited_close(struct rr_conn *c, int fd);

/* exit.c */
void rr_conn_exit(void);

#endif
