/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_CARRIED_H
#define RR_CONN_CARRIED_H

/* A carried connection: two streams over messages, and the loop between engine and provider.
 *
 *   hold.c       its lock                         fate.c       how it is lost
 *   stream.c     record stream <-> messages       driver.c     engine <-> provider
 *   inbox.c      what has arrived                 outroom.c    room for what is written
 *   pull.c       messages in the peer's memory    expose.c     our memory that the peer uses
 *   ready.c      readiness, arming                wait.c       spinning, and what is learned
 *   rest.c       armed across waits               tell.c       what the ends tell of themselves
 *   hatch.c      back to TCP                      cross.c      not crossed from TCP yet
 *   anchor.c     end mark, FIN, loss              keepalive.c  silent peers
 *   settle.c     what is under way at the end     tap.c        what a capture sees */

#include "core/conn/base/base.h"

/* hold.c */
/* Takes the lock that goes with the state: the state, with *l held; or without it -EDEADLK, or
 * -EBUSY: another process of the family has it and does not go on. Nothing is known then, and
 * nothing to be waited for. Whoever does so ends the connection's rest: it may be changed. */
int rr_conn_hold(struct rr_conn *c, struct rr_lock **l);
/* Its lock, wherever the process that had it has died: then it is lost. Not one that this
 * thread has. Waits for one that does not go on: for threads of ours. */
void rr_share_hold(struct rr_share *sh);

/* rest.c; under its lock. Is the wake-up fd all that can tell of news for a reader, and nothing
 * due at any time? */
bool rr_rest_may(const struct rr_share *sh);
/* A thread that waits for want has armed: from now on the connection is at rest, if it can. */
void rr_rest_begin(struct rr_conn *c, unsigned want);
/* The rest is over. */
void rr_rest_end(struct rr_conn *c);
/* The app has done something itself that those of its threads which sleep on the wake-up fd
 * alone have to see. */
void rr_rest_rouse(struct rr_conn *c);

/* The short entrance: of a connection that is carried, by the number that it was last used by,
 * and that no relay serves. Its share, with the lock held; NULL: rr_conn_enter() has to
 * look. */
static inline struct rr_share *rr_conn_enter_carried(struct rr_conn *c, int fd)
{
	if (rr_conn_st(c) != RR_S_CARRIED ||
	    fd != atomic_load_explicit(&c->fd, memory_order_relaxed) ||
	    atomic_load_explicit(&c->relay, memory_order_relaxed) ||
	    atomic_load_explicit(&c->relayed, memory_order_relaxed) ||
	    rr_lock_try(&c->share->lock))
		return NULL;
	if (likely(rr_conn_st(c) == RR_S_CARRIED)) {
		if (unlikely(atomic_load_explicit(&c->rest, memory_order_relaxed)))
			rr_rest_end(c);
		return c->share;
	}
	rr_lock_drop(&c->share->lock);
	return NULL;
}

/* cross.c; carried, under the share's lock */
void rr_cross_begin(struct rr_share *sh, const struct rr_conn *c);
#define RR_CROSSED	(-65538)	/* this direction goes by RDMA: go on there */
ssize_t rr_cross_send(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_cross_recv(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags,
		      size_t *done);
unsigned rr_cross_in_bits(struct rr_share *sh, int fd);
int rr_cross_inq(struct rr_share *sh, int fd);
void rr_cross_check(struct rr_share *sh, int fd, rr_time now);
/* Has TCP an error? Then it is the connection's, for its app's next call: who writes by RDMA
 * has to hear of it, too. */
void rr_cross_error(struct rr_share *sh, int fd);
/* Before the inbound direction has crossed: has an end mark brought TCP's error about? TCP
 * alone would have had none. Our own does where the peer is gone; but a peer that resets the
 * connection sends no FIN before. The peer's does where we take nothing in any more. */
bool rr_cross_is_ours(const struct rr_share *sh, int fd);
/* Crosses at once, to go back: 0; -EAGAIN not now. */
int rr_cross_now(struct rr_share *sh);
/* May it stay TCP for good, the peer being none the wiser? Then it is. */
bool rr_cross_never(struct rr_share *sh);

/* ready.c; under the lock. As rr_conn_poll(), rr_conn_arm() (thread) or rr_conn_watch(), and
 * rr_conn_fds(). */
unsigned rr_ready_poll(struct rr_conn *c, int fd, unsigned want);
int rr_ready_arm(struct rr_conn *c, int fd, unsigned want, bool thread);
int rr_ready_fds(struct rr_share *sh, int fd, unsigned want, struct pollfd out[2],
		 rr_time *until);
/* No thread sleeps any more for what was armed. */
void rr_ready_disarm(struct rr_conn *c);

/* wait.c: a thread woke after sleeping. */
void rr_wait_learn(struct rr_share *sh, rr_time now);

/* tell.c */
/* A piece of a large message was copied. */
#define RR_LARGE	16384u
void rr_tell_moved(struct rr_share *sh);
/* This end does not sleep any more. */
void rr_tell_runs(struct rr_share *sh);
/* What it does now: enum rr_doing. */
void rr_tell_doing(struct rr_share *sh, uint32_t doing);
void rr_tell_cpu(struct rr_share *sh, rr_time now);	/* once in a tick of the clock */
/* What is known of the peer now, and so what it is worth to spin for it, into in, of which cpu
 * and spun are there. Without the lock. */
struct rr_spin_in;
void rr_tell_look(struct rr_share *sh, struct rr_spin_in *in);
/* What of a sleep until now were wake-ups, of this end and the peer; 0 is not known. */
rr_time rr_tell_wakes(struct rr_share *sh, rr_time now, rr_time slept);

/* What a work request was for: a kind, and which. 0: nobody waits for it. */
enum { RR_FOR_ENGINE = 1, RR_FOR_PULL, RR_FOR_FENCE };
static inline uint64_t rr_drv_cookie(uint32_t kind, uint32_t which)
{
	return (uint64_t)kind << 32 | which;
}

/* pull.c */
void rr_pull_begin(struct rr_share *sh, const struct rr_op *op, rr_time now);
/* recv: the bytes of op's receive, if that is where its stream is. */
void rr_pull_compose(struct rr_share *sh, const struct rr_op *op, const uint8_t *recv,
		     rr_time now);
void rr_pull_deliver(struct rr_share *sh, uint32_t id, struct rr_rx_ent *e, rr_time now);
void rr_pull_drop(struct rr_share *sh, uint32_t id);
void rr_pull_read(struct rr_share *sh, uint32_t pull, int status, rr_time now);
void rr_pull_again(struct rr_share *sh, rr_time now);
int rr_drv_read_pull(struct rr_share *sh, const struct rr_pull *p, uint32_t off, void *dst,
		     uint32_t len);
/* It has been read where it lies, or -errno. */
void rr_pull_done(struct rr_share *sh, uint32_t pull, int status, rr_time now);

/* fate.c */
/* The provider's peer is gone; what it sent can still be read. */
void rr_drv_lost(struct rr_share *sh);
void rr_drv_fail(struct rr_share *sh, int err, enum rr_reason why);
/* By the provider's error rc, which is not that the peer is gone. */
void rr_drv_broken(struct rr_share *sh, int rc);
/* A post call's verdict, told to the engine if it is final. What goes to a peer that is gone
 * goes nowhere, as on TCP: what it sent before can still be read. */
void rr_drv_posted(struct rr_share *sh, uint32_t id, int rc, rr_time now);
/* For the app's next connection to the same peer. */
void rr_drv_remember(const struct rr_share *sh, enum rr_reason why);

/* expose.c */
/* RR_OP_EXPOSE: the peer gets keys, and the engine is told. */
void rr_expose(struct rr_share *sh, const struct rr_op *op, rr_time now);
/* RR_OP_INVALIDATE: takes all keys of a buffer back, and tells the engine when that is done. */
void rr_expose_fence(struct rr_share *sh, const struct rr_op *op, rr_time now);
/* One of a buffer's keys has been taken back … */
void rr_expose_fenced(struct rr_share *sh, uint32_t buf, rr_time now);
/* … or by the peer: it is not to be done again. */
void rr_expose_key_gone(struct rr_share *sh, uint32_t handle);
/* The connection is gone, and every key with it, whether or not completions still come. */
void rr_expose_all_fenced(struct rr_share *sh, rr_time now);
/* The buffer is nobody's any more: free once the peer cannot reach it. */
void rr_expose_drop(struct rr_share *sh, uint32_t buf);
/* Has the peer read all of it? */
bool rr_expose_consumed(struct rr_share *sh, const struct rr_buf *b);
/* When to look whether the peer has ended its access to what is being taken back, if nothing
 * tells us; RR_TIME_NEVER. */
rr_time rr_drv_fence_due(const struct rr_share *sh);

/* driver.c */
struct rr_app_iov {		/* RR_BUF_APP: */
	struct iovec *iov;	/* the first of them is for the transport header … */
	int n;			/* … and the others are the message */
};
/* The connection is carried from now on: what its dialect has to say first goes out. */
void rr_drv_begin(struct rr_share *sh, rr_time now);
/* Carries out what the engine wants. True: there was something; whoever calls this makes sure
 * of a kick(). */
bool rr_drv_run(struct rr_share *sh, rr_time now);
/* The same when it has just taken a message whose buffer is RR_BUF_APP. */
void rr_drv_run_app(struct rr_share *sh, const struct rr_app_iov *app, rr_time now);
/* Posts a short message from the app's memory at once, if it is plain (rr_eng_send_plain()). */
bool rr_drv_send_plain(struct rr_share *sh, const struct rr_eng_out *out,
		       const struct rr_app_iov *app, rr_time now);
/* Takes in what has come. The time, if anything has; else perhaps 0. */
rr_time rr_drv_progress(struct rr_share *sh);
/* The peer is to take notice of what was posted. */
void rr_drv_kick(struct rr_share *sh);
/* Gives a receive back whose bytes are not needed any more. */
void rr_drv_repost(struct rr_share *sh, uint32_t token);
/* Asks a native peer for a sign of life; rr_keep_asked() is told how that went. */
void rr_drv_probe(struct rr_share *sh);

/* The wake-up fd. May there be something? Without the lock, and without a system call. */
bool rr_drv_peek(const struct rr_share *sh, enum rr_arm what);
/* It rings from now on: 0; 1 there is something already. */
int rr_drv_arm(struct rr_share *sh, enum rr_arm what);
/* The same is not wanted any more. */
void rr_drv_disarm(struct rr_share *sh);
/* It rings no more until it is armed again; and is the provider's peer still there? */
void rr_drv_drain(struct rr_share *sh);
/* Wakes the threads that sleep on it alone, for what this process does itself. */
void rr_drv_rouse(struct rr_share *sh);

/* Does what was posted outlive this process? If not, … */
bool rr_drv_outlives(const struct rr_share *sh);
/* … this waits, no longer than most, until it has arrived: has it, or is there no hope? */
bool rr_drv_settle(struct rr_share *sh, rr_time most);
/* A Send of the connection's own, RR_IMM_..., as send_imm(). */
int rr_drv_say(struct rr_share *sh, uint32_t imm);
/* As rr_pull_done(), and what the engine wants then. */
void rr_drv_pull_done(struct rr_share *sh, uint32_t pull, int status);
void rr_drv_stash(struct rr_share *sh, rr_time now);
void rr_drv_reclaim(struct rr_share *sh);

/* stream.c */
ssize_t rr_stream_send(struct rr_share *sh, int fd, const struct iovec *iov, int n);
ssize_t rr_stream_recv(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags);

/* outroom.c */
/* May the write that had no room now have it? */
bool rr_stream_room(struct rr_share *sh);
/* May another record be begun that has to be collected? One that has been goes on. */
bool rr_stream_may_begin(struct rr_share *sh);
/* So many bytes for the record that is collected; 0; -EAGAIN none now, -ENOMEM never. */
int rr_stream_try_room(struct rr_share *sh, size_t need);
/* Was it asked, or a write, and there was none? */
static inline bool rr_stream_waits(const struct rr_share *sh)
{
	return sh->tx.want || sh->tx.full;
}

/* inbox.c */
/* A message has come, for the app: behind those that have come before. */
void rr_stream_push(struct rr_share *sh, const struct rr_rx_ent *e);
/* It lies in this buffer of ours from now on, and holds no receive. */
void rr_stream_moved(struct rr_share *sh, struct rr_rx_ent *e, uint32_t buf);
/* The peer opens its hatch; false: it has done so before. It takes its place behind all that
 * the peer has sent before, as soon as that has been fetched: called when it may have been. */
bool rr_stream_hatch(struct rr_share *sh);
void rr_stream_hatch_in_turn(struct rr_share *sh);
bool rr_stream_is_over(const struct rr_share *sh);
/* The error that the app has yet to be told, once; 0 none. */
int rr_stream_error(struct rr_share *sh);
bool rr_stream_next_is_tcp(struct rr_share *sh);
/* The peer's other direction crosses, as it says by RR_IMM_CROSS. */
void rr_cross_told(struct rr_share *sh, uint32_t imm);

/* settle.c: has the peer memory of ours to read, calls or replies? Under its lock. And what
 * waits for that: at close, under its lock; and at exit. */
bool rr_conn_unread(struct rr_share *sh);
/* then(): under its lock, now or when it has settled. May be NULL. */
void rr_conn_settle(struct rr_conn *c, void (*then)(struct rr_share *sh));
void rr_conn_settle_until(struct rr_share *sh, rr_time end);
#define RR_SETTLE_MOST	(2 * RR_SEC)

/* hatch.c */
/* 0 open; -EAGAIN not now, nothing has changed; -ECONNRESET the connection is over: with a peer
 * that has no hatch for the reason that would have opened it. */
int rr_hatch_open(struct rr_share *sh, enum rr_reason why);
int rr_hatch_flush(struct rr_share *sh, int fd);
/* Opens it, where that can be, because the peer has asked for that, or has gone back itself
 * where one process has the connection. Called before a record is begun, and when there is
 * none. */
void rr_hatch_follow(struct rr_share *sh);
static inline void rr_hatch_answer(struct rr_share *sh)
{
	if (unlikely(sh->called_back))
		rr_hatch_follow(sh);
}

/* anchor.c */
void rr_anchor_check(struct rr_share *sh, int fd, rr_time now);
bool rr_anchor_mark(struct rr_share *sh, int fd);
void rr_anchor_note(struct rr_share *sh);

/* keepalive.c; under its lock. Carried from now on, by the anchor fd; its bytes may be TCP's
 * again; does the app have another value of this option than the kernel says? */
void rr_keep_anchor(struct rr_share *sh, int fd);
void rr_keep_leave(struct rr_share *sh, int fd);
bool rr_keep_hides(const struct rr_share *sh, int level, int name, int *val);
/* Is it one of those that matter here? And the app has set it, on the anchor fd. */
bool rr_keep_cares(int level, int name);
void rr_keep_set(struct rr_share *sh, int fd, int level, int name);
/* What the app has said of fd, of which a native peer is at the other end. */
void rr_keep_learn(struct rr_share *sh, int fd);
/* When to look again; RR_TIME_NEVER. */
rr_time rr_keep_due(const struct rr_share *sh);
bool rr_keep_is_due(struct rr_share *sh, rr_time now);
/* A probe was posted, or rc says why not. */
void rr_keep_asked(struct rr_share *sh, int rc);
/* What has become of a probe: as a completion's status. */
void rr_keep_answer(struct rr_share *sh, int status);

/* tap.c: packets for a capture, if rr_cap_asked(); under its lock. A record that the engine has
 * just taken, from the app's memory or (app NULL) out->buf; one that is delivered, with what
 * reads the peer's memory; a transport message either way. */
struct rr_app_iov;
typedef int rr_tap_read(struct rr_share *sh, const struct rr_pull *p, uint32_t off, void *dst,
			uint32_t len);
void rr_tap_sent(struct rr_share *sh, const struct rr_eng_out *out,
		 const struct rr_app_iov *app);
void rr_tap_delivered(struct rr_share *sh, const struct rr_rx_ent *e, rr_tap_read *read);
void rr_tap_posted(struct rr_share *sh, const struct iovec *iov, int n);
void rr_tap_received(struct rr_share *sh, const struct rr_wc *wc);

#endif
