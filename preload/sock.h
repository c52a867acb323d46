/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SOCK_H
#define RR_SOCK_H

/* Sockets in the fd table: what the wrappers ask of them and do to them (lifecycle.c). */

#include "core/base/compiler.h"
#include "core/conn/conn.h"
#include "preload/file.h"
#include "preload/logsink.h"
#include "preload/unmet.h"
#include "preload/wait.h"

static inline bool rr_sock_listens(struct rr_sock *so)
{
	return atomic_load_explicit(&so->flags, memory_order_relaxed) & RR_SOCK_LISTENER;
}

static inline bool rr_file_listens(struct rr_file *f)
{
	return f->kind == RR_KIND_SOCK && rr_sock_listens(container_of(f, struct rr_sock, f));
}

/* The connection of so as long as we have a part in it; NULL: everything is the kernel's. */
static inline struct rr_conn *rr_sock_conn(struct rr_sock *so)
{
	struct rr_conn *c = atomic_load_explicit(&so->conn, memory_order_acquire);

	if (!c || rr_conn_is_tcp(c) ||
	    unlikely(atomic_load_explicit(&so->flags, memory_order_relaxed) & RR_SOCK_PLAIN))
		return NULL;
	return c;
}

/* The same for a file that need not be referenced; the connection may then belong to another
 * socket by now. */
static inline struct rr_conn *rr_file_conn(struct rr_file *f)
{
	return f && f->kind == RR_KIND_SOCK ? rr_sock_conn(container_of(f, struct rr_sock, f))
					    : NULL;
}

/* The same by fd, with a reference to *so; NULL, and no reference: the kernel's. meets: if it
 * has not been met, it is now. errno is left alone. */
static inline struct rr_conn *rr_conn_at_if(int fd, struct rr_sock **so, bool meets)
{
	struct rr_conn *c;

	*so = rr_fdt_sock(fd);
	if (likely(!*so))
		return NULL;
	c = rr_sock_conn(*so);
	if (unlikely(!c && meets))	/* another thread may have met it since */
		c = rr_unmet_is(*so) ? rr_unmet_meet(*so, fd) : rr_sock_conn(*so);
	if (c && rr_sock_check(*so, fd))
		return c;
	rr_file_put(&(*so)->f);
	return NULL;
}

static inline struct rr_conn *rr_conn_at(int fd, struct rr_sock **so)
{
	return rr_conn_at_if(fd, so, true);
}

/* NULL also for a connection that has not been met. */
static inline struct rr_conn *rr_conn_met(int fd, struct rr_sock **so)
{
	return rr_conn_at_if(fd, so, false);
}

/* Connection c at fd has changed without a call for it; fd -1: the app has no number for it. */
void rr_sock_turned(struct rr_conn *c, int fd);

/* Called after each rr_conn_* call: brings epoll up to date if the carrier has changed. */
static inline void rr_sock_after(struct rr_sock *so, struct rr_conn *c)
{
	if (unlikely(rr_conn_changed(c)))
		rr_sock_sync(so);
}

/* The kernel has told the app an address of so, our own or the peer's: core/conn need not ask
 * for it. */
void rr_sock_hears(struct rr_sock *so, bool peer, const struct sockaddr *addr, socklen_t len);

/* so is the kernel's for ever: it was disconnected, or used in a way that only the kernel can
 * serve. */
void rr_sock_plain(struct rr_sock *so);

/* fd is a connected TCP socket, and we are the accepting side: enters it. */
void rr_sock_accepted(int fd);
/* The same with its connection c; NULL: one is made. False: no memory, and c stays the
 * caller's. */
bool rr_sock_adopt(int fd, struct rr_conn *c);
/* Is fd a TCP socket? One system call. */
bool rr_speaks_tcp(int fd);
/* fd was inherited across exec. If it is a TCP socket it is entered as accepted, or as a
 * listener. Returns whether it was entered. */
bool rr_sock_inherit(int fd);
/* fd is a new number for the open file behind `of`. */
void rr_sock_dup(int of, int fd);
/* Does our part of closing fd, before the kernel's. The caller puts the returned file (if any)
 * afterwards. */
struct rr_file *rr_sock_closing(int fd);

#endif
