/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_INIT_H
#define RR_INIT_H

/* Start-up in stages, each when it is first needed, so that exec costs next to nothing:
 *   1 at exec (the constructor): fork hooks, a look at inherited sockets;
 *   2 at the first call of each kind: the next definitions are bound (real.c);
 *   3 at the first TCP socket: configuration, rr_conn_setup().
 * A wrapper that is called before its stage is over passes through. */

#include <stdbool.h>

/* Stage 3. False: not done, and this thread is the one that is doing it (configuration reads
 * files through our own wrappers; a signal handler interrupted it), or it is too early for an
 * environment: stay plain. */
bool rr_init_core(void);
void rr_init_fork_child(void);
/* Stage 1 is over. */
void rr_init_started(void);

/* process.c: the fork hooks, once; the owner of the tables is this process. */
void rr_process_init(void);

#endif
