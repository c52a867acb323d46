/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_GUARD_H
#define RR_GUARD_H

/* Whose call is this? Calls of our own plugins, and of libraries that they link, come back into
 * the wrappers; calls of a vfork() or posix_spawn() child run in the parent's memory. Neither
 * may change our tables.
 *
 * Only wrappers that make or close fds need to ask. An fd that was never put into the table
 * goes the fast way out everywhere else. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* These two stand around each call into a plugin, on the same thread; pairs nest. The first
 * rr_guard_enter() of a thread may allocate, so signal handlers must not call it. */
void rr_guard_enter(void);
void rr_guard_leave(void);
/* How many rr_guard_enter() of this thread still wait for their rr_guard_leave(). */
uintptr_t rr_guard_depth(void);

/* May this call change the table? A system call only where a child may have this memory, or on
 * a process's first calls. Async-signal-safe; errno is left alone. */
bool rr_may_track(void);

/* This thread is about to lend its memory to a child by vfork(): returns the next definition of
 * that. As async-signal-safe as vfork() is. */
pid_t (*rr_lends(void))(void);

#endif
