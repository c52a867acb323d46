/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RESTSET_H
#define RR_RESTSET_H

/* An epoll set of ours that holds the wake-up fds of connections at rest, for threads that wait
 * for many by poll() or select(): in the kernel's array it stands for all of them. The process
 * has one. It belongs to the thread that used it last, until that thread has not used it for a
 * second; other threads do without. Connections stay in it across waits. */

#include "preload/sock.h"

/* May this thread use the set, from now until rr_restset_give()? */
bool rr_restset_take(void);
void rr_restset_give(void);

/* --- between those two --- */

/* The set's fd, to sleep on for POLLIN. */
int rr_restset_fd(void);
/* Which set it is: a number that no set of this process, nor of the one that forked it, had
 * before. */
uint32_t rr_restset_life(void);
/* Adds so, whose wake-up fd is wake, unless it is in. False: it cannot be added. */
bool rr_restset_join(struct rr_sock *so, int wake);
/* Is so in, by the wake-up fd wake? */
bool rr_restset_has(const struct rr_sock *so, int wake);
/* Puts members that rang into who, at most max. Returns how many, or -1: the set was lost and
 * another one, empty, has its place. */
int rr_restset_rang(struct rr_sock **who, int max);
/* Takes out so, which this thread does not wait for. False: it could not be taken out, and
 * another set, empty, has this one's place. */
bool rr_restset_leave(struct rr_sock *so);
/* The set is not what it should be: makes another one, which is empty. */
void rr_restset_reset(void);

/* May be called anywhere. The app wants the number fd: true if it was this set's, which has
 * another now. */
bool rr_restset_move(int fd);
void rr_restset_fork_child(void);

#endif
