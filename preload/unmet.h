/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_UNMET_H
#define RR_UNMET_H

/* Connections that have not been met: they are the kernel's alone, and have no struct rr_conn,
 * until they prove to be more than a few calls. See unmet.c.
 *
 * While there is none, rr_unmet_any() is all that a call pays. The functions that take fd say
 * false for any other, and leave errno alone. */

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/base/compiler.h"
#include "core/conn/first.h"
#include "preload/file.h"

extern _Atomic uint32_t rr_unmet_n;	/* how many there are */

static inline bool rr_unmet_any(void)
{
	return unlikely(atomic_load_explicit(&rr_unmet_n, memory_order_relaxed) != 0);
}

/* If not, it has its connection, if it ever gets one. */
static inline bool rr_unmet_is(struct rr_sock *so)
{
	return unlikely((atomic_load_explicit(&so->flags, memory_order_acquire) &
			 (RR_SOCK_UNMET | RR_SOCK_PLAIN)) == RR_SOCK_UNMET);
}

/* The same for a file of any kind. */
static inline bool rr_unmet_file(struct rr_file *f)
{
	return f->kind == RR_KIND_SOCK && rr_unmet_is(container_of(f, struct rr_sock, f));
}

/* accept() has returned so, or it was connected to peer (else NULL): may it stay unmet? */
bool rr_unmet_begin(struct rr_sock *so, const struct sockaddr *peer, socklen_t len);
/* Makes its connection, unless somebody has. Returns it, or NULL. */
struct rr_conn *rr_unmet_meet(struct rr_sock *so, int fd);
/* Takes the mark away. False: another call has, or there was none. */
static inline bool rr_unmet_unmark(struct rr_sock *so)
{
	/* Pairs with the acquire in rr_unmet_is(). */
	if (!(atomic_fetch_and_explicit(&so->flags, ~(uint32_t)RR_SOCK_UNMET,
					memory_order_acq_rel) & RR_SOCK_UNMET))
		return false;
	atomic_fetch_sub_explicit(&rr_unmet_n, 1, memory_order_relaxed);
	return true;
}

/* The last reference of so goes. */
static inline void rr_unmet_gone(struct rr_sock *so)
{
	if (unlikely(atomic_load_explicit(&so->flags, memory_order_relaxed) & RR_SOCK_UNMET) &&
	    rr_unmet_unmark(so))
		rr_conn_never(&so->unmet.past);
}

/* The kernel has told the app an address of it. */
void rr_unmet_hears(struct rr_sock *so, bool peer, const struct sockaddr *addr, socklen_t len);
/* Our own address, if it is a server's and has been told. Returns its length, or 0. */
socklen_t rr_unmet_name(struct rr_sock *so, struct sockaddr_in6 *own);
/* Meets each that there is: the process forks. */
void rr_unmet_meet_all(void);

/* The app reads or writes. True: *rc is the result, as rr_io_recv()'s and rr_io_send()'s.
 * False: its connection goes on, if it has one by now; where a part has been written, *rc is
 * set to its bytes. */
bool rr_unmet_recv(int fd, const struct iovec *iov, int n, int flags, ssize_t *rc);
bool rr_unmet_send(int fd, const struct iovec *iov, int n, int flags, ssize_t *rc);

/* A wait by poll(): may so stay unmet while the kernel sleeps on it? */
bool rr_unmet_stays(struct rr_sock *so);
#define RR_UNMET_MOST	(20 * RR_MSEC)	/* how long it may be so */
/* The kernel has reported p: true: as it says, for the app. */
bool rr_unmet_told(const struct pollfd *p);
/* poll() for p alone, *timeout as poll()'s. RR_POLL_ON: it is no unmet connection's to answer,
 * or no longer, and *timeout is what is left. A cancellation point. */
int rr_unmet_poll(struct pollfd *p, int *timeout);

#endif
