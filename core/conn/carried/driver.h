/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_DRIVER_H
#define RR_CONN_DRIVER_H

/* The driver: the loop between engine and provider (driver.c), and what the other files of
 * core/conn ask of a connection's provider, inline where that is nothing but the call. Under
 * the connection's lock. */

#include "core/conn/base/base.h"

/* --- the loop --- */

struct rr_app_iov {		/* RR_BUF_APP: a message in the app's memory */
	struct iovec *iov;	/* the first entry is for the transport header … */
	int n;			/* … and the others hold the message */
};

/* The connection has become carried: sends what its dialect has to say first. */
void rr_drv_begin(struct rr_share *sh, rr_time now);
/* Carries out the operations that the engine wants. True: there were some. The caller sees to a
 * kick. */
bool rr_drv_run(struct rr_share *sh, rr_time now);
/* The same after the engine has taken a message whose buffer is RR_BUF_APP. */
void rr_drv_run_app(struct rr_share *sh, const struct rr_app_iov *app, rr_time now);
/* Posts a short message from the app's memory at once, if it is plain (rr_eng_send_plain()).
 * False: it is not, and nothing has happened. */
bool rr_drv_send_plain(struct rr_share *sh, const struct rr_eng_out *out,
		       const struct rr_app_iov *app, rr_time now);
/* Processes everything that has arrived. Returns the time if anything has; else perhaps 0. */
rr_time rr_drv_progress(struct rr_share *sh);
/* As rr_pull_done(), and carries out what the engine wants then. */
void rr_drv_pull_done(struct rr_share *sh, uint32_t pull, int status);
/* Moves messages that the app has yet to read into our own memory, so that they hold no receive
 * and no memory of the peer's. */
void rr_drv_stash(struct rr_share *sh, rr_time now);
/* The same for the first one, with its pieces, as far as it lies in the peer's memory and there
 * is room for it. */
void rr_drv_stash_first(struct rr_share *sh);
/* Frees the memory of calls that the peer has read, and may never answer. */
void rr_drv_reclaim(struct rr_share *sh);

/* --- messages of the connection itself --- */

/* Posts a Send that is not the engine's, RR_IMM_...; returns as send_imm() of the provider. */
int rr_drv_say(struct rr_share *sh, uint32_t imm);
/* Does the provider have what rr_drv_say_more() needs? */
static inline bool rr_drv_has_notes(const struct rr_share *sh)
{
	return sh->qp->ops->send_note;
}
/* The same with a payload of up to RR_PROV_NOTE bytes. */
int rr_drv_say_more(struct rr_share *sh, uint32_t imm, const void *note, uint32_t len);
/* The same for a hint that may be left out. -EAGAIN: the peer has not taken in what it got;
 * hints hold few of its receives. */
int rr_drv_hint(struct rr_share *sh, uint32_t imm, const void *note, uint32_t len);
/* Asks a native peer for a sign of life; rr_keep_asked() hears how that went. */
void rr_drv_probe(struct rr_share *sh);

/* --- posts and receives --- */

/* Makes the peer take notice of what was posted. */
static inline void rr_drv_kick(struct rr_share *sh)
{
	sh->qp->ops->kick(sh->qp);
}

/* Gives back a receive whose bytes are not needed any more. */
static inline void rr_drv_repost(struct rr_share *sh, uint32_t token)
{
	sh->qp->ops->repost(sh->qp, token);
}

/* Does what was posted outlive this process? If not, … */
static inline bool rr_drv_outlives(const struct rr_share *sh)
{
	return !sh->qp->ops->settle;
}

/* … this waits, for `most` at the longest, until it has arrived. True: it has, or never
 * will. */
static inline bool rr_drv_settle(struct rr_share *sh, rr_time most)
{
	return !rr_link_is_up(sh) || sh->qp->ops->settle(sh->qp, most);
}

/* --- memory of this side and the peer's --- */

/* These return as the operations of prov.h do. */
static inline int rr_drv_expose(struct rr_share *sh, void *p, uint32_t len,
				enum rr_rights rights, struct rr_seg *seg)
{
	return sh->qp->ops->expose(sh->qp, p, len, rights, seg);
}

static inline int rr_drv_invalidate(struct rr_share *sh, uint32_t key, uint64_t cookie)
{
	return sh->qp->ops->invalidate(sh->qp, key, cookie);
}

/* Has the peer read all of the memory that the key stands for? */
static inline bool rr_drv_consumed(const struct rr_share *sh, uint32_t key)
{
	return sh->qp->ops->consumed(sh->qp, key);
}

static inline int rr_drv_read(struct rr_share *sh, void *dst, uint32_t len,
			      const struct rr_seg *seg, uint32_t off, uint64_t cookie)
{
	return sh->qp->ops->read(sh->qp, dst, len, seg, off, cookie);
}

/* Tells the peer that its memory was read, if the provider can. */
static inline void rr_drv_consume(struct rr_share *sh, const struct rr_seg *seg)
{
	if (sh->qp->ops->consume)
		sh->qp->ops->consume(sh->qp, seg);
}

/* --- the wake-up fd --- */

/* Without lock and system calls: may there be something to process? */
static inline bool rr_drv_peek(const struct rr_share *sh, enum rr_arm what)
{
	return sh->qp->ops->peek(sh->qp, what);
}

/* Goes on with making doorbells cheaper, unless qp->easy. may: enum rr_ease bits. */
static inline void rr_drv_ease(struct rr_share *sh, uint32_t may)
{
	sh->qp->ops->ease(sh->qp, may);
}

/* Makes the wake-up fd ring from now on: 0; 1: there is something already. */
static inline int rr_drv_arm(struct rr_share *sh, enum rr_arm what)
{
	return sh->qp->ops->arm(sh->qp, what);
}

/* Undoes that. */
static inline void rr_drv_disarm(struct rr_share *sh)
{
	sh->qp->ops->disarm(sh->qp);
}

/* Consumes the bell, which is silent until armed again; notices if the provider's peer is
 * gone. */
void rr_drv_drain(struct rr_share *sh);

/* Rings the wake-up fd for this process's own threads, which may sleep on it alone. */
static inline void rr_drv_rouse(struct rr_share *sh)
{
	if (sh->qp->ops->rouse)
		sh->qp->ops->rouse(sh->qp);
}

#endif
