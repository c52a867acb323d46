/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_INIT_H
#define RR_INIT_H

/* Start-up in stages, each done when it is first needed, so that exec costs next to nothing:
 *   1 at exec (the constructor): fork hooks, a look at inherited sockets;
 *   2 at the first call of each interposed name: its next definition is looked up (real.c);
 *   3 at the first TCP socket: configuration, rr_conn_setup().
 * A wrapper that is called before its stage is over passes the call through. */

#include <stdbool.h>

/* Does stage 3. False: it is not done, and the call must stay plain. Either it is too early for
 * an environment, or this very thread is doing the stage: the configuration is read through our
 * own wrappers, or a signal handler has interrupted it. */
bool rr_init_core(void);
/* In a child of fork(): a stage that another thread of the parent was doing starts anew. */
void rr_init_fork_child(void);
/* The constructor calls this when stage 1 is over. */
void rr_init_started(void);

/* process.c: installs the fork hooks, once, and makes this process the owner of the tables. */
void rr_process_init(void);

#endif
