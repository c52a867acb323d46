/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RESTSET_H
#define RR_RESTSET_H

/* One epoll set of ours that holds the wake-up fds of connections at rest, where a thread
 * waits for many by poll() or select(): the kernel's array then has that in place of all of
 * them. One for the process, and used by one thread, the one that has used it last; others
 * do without. Connections stay in it across waits. */

#include "preload/sock.h"

/* Is it this thread's, from now until rr_restset_give()? */
bool rr_restset_take(void);
void rr_restset_give(void);

/* Between those two: */

/* Its number, to sleep on for POLLIN. */
int rr_restset_fd(void);
/* Does it hold so, whose wake-up fd is wake? */
bool rr_restset_join(struct rr_sock *so, int wake);
/* Members that rang, at most max; their number, or -1: it is another set now, as after
 * rr_restset_reset(). */
int rr_restset_rang(struct rr_sock **who, int max);
/* so is none of those that this thread waits for. False: it could not be taken out, and this
 * is another set now. */
bool rr_restset_leave(struct rr_sock *so);
/* It is not what it should be: from now on another one, which is empty. */
void rr_restset_reset(void);

/* Anywhere: fd is to be another file's. True: it was this set's, and is no longer. */
bool rr_restset_move(int fd);
void rr_restset_fork_child(void);

#endif
