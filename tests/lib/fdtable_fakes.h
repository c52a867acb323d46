/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_FDTABLE_FAKES_H
#define RR_TEST_FDTABLE_FAKES_H

/* What the fd table tells the rest, counted. A test that includes this links the table without
 * connections and epoll sets. */

#include <errno.h>

#include "core/conn/conn.h"
#include "preload/unmet.h"
#include "preload/wait.h"

static _Atomic uint32_t served_no_more;	/* what */
static _Atomic int vanished_conns, freed_conns, gone_sets, unwatched, never_met;

void rr_conn_vanished(struct rr_conn *c)
{
	(void)c;
	vanished_conns++;
	errno = EBADF;	/* as its system calls may */
}

void rr_conn_free(struct rr_conn *c)
{
	(void)c;
	freed_conns++;
}

void rr_conn_serves_not(uint32_t which)
{
	served_no_more = which;
}

void rr_conn_never(const struct rr_conn_passed *f)
{
	(void)f;
	never_met++;
}

void rr_ep_gone(struct rr_file *ep)
{
	(void)ep;
	gone_sets++;
}

void rr_ep_sock_gone(struct rr_sock *so, int fd)
{
	(void)so;
	(void)fd;
	unwatched++;
	errno = ENOENT;
}

#endif
