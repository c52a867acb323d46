/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_FAMILY_H
#define RR_CONN_FAMILY_H

/* What a process and those that were forked from it do with a connection that they share.
 *
 *   relay.c      native: by the app's socket      handback.c   two of ours: back to TCP
 *   inherited.c  what a child does meanwhile      exit.c       what is under way at exit() */

#include "core/conn/native/native.h"

/* relay.c */
/* Another process has used it, or this one uses it no more: what its far end shows then. */
#define RR_RELAY_WANTED	(POLLIN | POLLPRI | POLLRDHUP)
/* Has it a native peer's queue pair, which is this process's alone, or a process's that it was
 * forked from? */
bool rr_relay_may(const struct rr_conn *c);
/* In a child: what is inside such a connection is the parent's. False: it is none. */
bool rr_relay_forked(struct rr_conn *c);
/* Under its lock. From here on its bytes go over the socket. False: that will not be. */
bool rr_relay_take_over(struct rr_conn *c);
/* The parent's app is about to use it by fd: has another process used it since? */
void rr_relay_look(struct rr_conn *c);
static inline void rr_relay_see(struct rr_conn *c, int fd)
{
	if (unlikely(atomic_load_explicit(&c->relay, memory_order_relaxed)) && fd >= 0)
		rr_relay_look(c);
}
/* The child's app wants to read. */
void rr_relay_ask(struct rr_conn *c, int fd);
/* The parent's closes it: true, it goes on without. */
bool rr_relay_takes(struct rr_conn *c, int fd);

/* handback.c; the owner's. Before it forks; and in the child. */
void rr_handback_forks(struct rr_conn *c);
void rr_handback_forked(void);
/* Under its lock: the app closes it (by fd, or -1), and other processes have it. */
void rr_handback_leave(struct rr_conn *c, int fd);
/* Under its lock: the process ends, and other processes have it. */
void rr_handback_exit(struct rr_conn *c, rr_time end);
/* A child asks the owner for it, by its own descriptor of the anchor: 0 or -errno. */
int rr_handback_ask(struct rr_share *sh, int fd);
/* What the ring has, to whoever reads next. */
ssize_t rr_handback_take(struct rr_share *sh, const struct iovec *iov, int n, int flags);

/* inherited.c. In a child: of a connection that only its parent can use nothing stays but the
 * memory that both have. */
void rr_inherited_begin(struct rr_conn *c);
/* Afterwards, under the lock. */
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
