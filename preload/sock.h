/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SOCK_H
#define RR_SOCK_H

/* What the wrappers do to sockets (lifecycle.c). */

#include "core/base/compiler.h"
#include "core/conn/conn.h"
#include "preload/file.h"
#include "preload/logsink.h"
#include "preload/wait.h"

/* The connection of so while it may concern us; NULL: everything is the kernel's. */
static inline struct rr_conn *rr_sock_conn(struct rr_sock *so)
{
	struct rr_conn *c = atomic_load_explicit(&so->conn, memory_order_acquire);

	if (!c || rr_conn_is_tcp(c) ||
	    unlikely(atomic_load_explicit(&so->flags, memory_order_relaxed) & RR_SOCK_PLAIN))
		return NULL;
	return c;
}

/* The same of a file that need not be referenced: then the connection may be another by now. */
static inline struct rr_conn *rr_file_conn(struct rr_file *f)
{
	return f && f->kind == RR_KIND_SOCK ? rr_sock_conn(container_of(f, struct rr_sock, f))
					    : NULL;
}

/* The same by fd, *so referenced; NULL (and no reference): the kernel's. errno is left
 * alone. */
static inline struct rr_conn *rr_conn_at(int fd, struct rr_sock **so)
{
	struct rr_conn *c;

	*so = rr_fdt_sock(fd);
	if (likely(!*so))
		return NULL;
	c = rr_sock_conn(*so);
	if (c && rr_sock_check(*so, fd))
		return c;
	rr_file_put(&(*so)->f);
	return NULL;
}

/* c, at fd, has changed by no call for it; fd -1: the app has it by no number. */
void rr_sock_turned(struct rr_conn *c, int fd);

/* A result of rr_conn_*: brings epoll up to date if the carrier changed. */
static inline void rr_sock_after(struct rr_sock *so, struct rr_conn *c)
{
	if (unlikely(rr_conn_changed(c)))
		rr_sock_sync(so);
}

/* The kernel's for ever: disconnected, or used in a way that only the kernel can serve. */
void rr_sock_plain(struct rr_sock *so);

/* A connected TCP socket of which we are the accepting side. */
void rr_sock_accepted(int fd);
/* The same with its connection; NULL: that is to be made. False: no memory, c is the
 * caller's. */
bool rr_sock_adopt(int fd, struct rr_conn *c);
bool rr_speaks_tcp(int fd);
/* fd, inherited across exec: if it is a TCP socket, as if it had been accepted, or listen()
 * called on it. Is it? */
bool rr_sock_inherit(int fd);
/* fd is a new number for the open file behind of. */
void rr_sock_dup(int of, int fd);
/* Before the kernel closes fd, in our sense; what it returns (or NULL) is put afterwards. */
struct rr_file *rr_sock_closing(int fd);

#endif
