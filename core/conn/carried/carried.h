/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_CARRIED_H
#define RR_CONN_CARRIED_H

/* A carried connection: two byte streams over messages, and the loop between engine and
 * provider.
 *
 *   hold.c       its lock                         fate.c       how it is lost
 *   stream.c     record stream <-> messages       driver.c     engine <-> provider
 *   inbox.c      what has arrived                 outroom.c    room for what is written
 *   pull.c       messages in the peer's memory    expose.c     our memory that the peer uses
 *   ready.c      readiness, arming                wait.c       spinning, and what is learned
 *   rest.c       armed across waits               tell.c       what the ends tell each other
 *   hatch.c      back to TCP                      cross.c      not crossed from TCP yet
 *   anchor.c     end mark, FIN, loss              keepalive.c  probing silent peers
 *   settle.c     what is under way at the end     tap.c        what a capture sees
 *   advance.c    of messages that are not complete */

#include "core/conn/base/base.h"
#include "core/conn/carried/driver.h"

/* hold.c. Takes the lock that goes with the state. Returns the state, with *l held; or, without
 * the lock, -EDEADLK, or -EBUSY if another process of the family holds the lock and does not go
 * on: then the state is unknown, and there is nothing to wait for. Ends the connection's rest,
 * because the caller may change it. */
int rr_conn_hold(struct rr_conn *c, struct rr_lock **l);
/* Takes the share's lock, however long its holder keeps it: for threads of ours that do not
 * hold it. If its holder has died, the connection is failed. */
void rr_share_hold(struct rr_share *sh);

/* May the connection rest: will the wake-up fd report all news for a reader, and is nothing due
 * at any time? Under its lock. */
bool rr_rest_may(const struct rr_share *sh);
/* A thread that waits has armed the connection for `want`: begins its rest, if it may rest. */
void rr_rest_begin(struct rr_conn *c, unsigned want);
/* Ends the rest. */
void rr_rest_end(struct rr_conn *c);
/* Wakes threads that sleep on the wake-up fd alone: the app has done what they must see. */
void rr_rest_rouse(struct rr_conn *c);

/* The short entrance, for a carried connection that is used by the same fd as last time and has
 * no relay. Returns its share with the lock held; NULL: use rr_conn_enter(). */
static inline struct rr_share *rr_conn_enter_carried(struct rr_conn *c, int fd)
{
	if (!rr_conn_is_carried(c) ||
	    fd != atomic_load_explicit(&c->fd, memory_order_relaxed) ||
	    atomic_load_explicit(&c->relay, memory_order_relaxed) ||
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

/* cross.c; carried, under the share's lock. */
void rr_cross_begin(struct rr_share *sh, const struct rr_conn *c);
#define RR_CROSSED	(-65538)	/* this direction goes by RDMA: use the stream */
ssize_t rr_cross_send(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_cross_recv(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags,
		      size_t *done);
/* The kernel's poll bits for the inbound direction, without what is not the app's. told: what
 * the kernel has just said of these on the anchor, and of its end. POLLERR is the caller's. */
unsigned rr_cross_in_bits(struct rr_share *sh, int fd, unsigned told);
int rr_cross_inq(struct rr_share *sh, int fd);
void rr_cross_check(struct rr_share *sh, int fd, rr_time now);
/* If TCP has an error, keeps it for the app's next call, which may be a write by RDMA. */
void rr_cross_error(struct rr_share *sh, int fd);
/* Before the inbound direction has crossed: has an end mark caused TCP's error, which without
 * the library would not have occurred? Our own end mark causes a reset if the peer has closed;
 * but a peer that itself resets the connection sends no FIN first. The peer's end mark causes
 * one if we no longer read. */
bool rr_cross_is_ours(const struct rr_share *sh, int fd);
/* Crosses at once, in order to open the hatch. 0; -EAGAIN: not now; or the provider's error. */
int rr_cross_now(struct rr_share *sh);
/* Stays on TCP for good; false: that is not possible without the peer's help. */
bool rr_cross_never(struct rr_share *sh);

/* ready.c; under the lock. Is the anchor to be looked at again for an app that asks for `want`,
 * although nothing reports that it has news? now: rr_now_coarse(). */
bool rr_anchor_is_due(struct rr_share *sh, unsigned want, rr_time now);
/* As rr_conn_poll(), rr_conn_arm() (thread) or rr_conn_watch(), and rr_conn_fds(). */
unsigned rr_ready_poll(struct rr_conn *c, int fd, unsigned want);
int rr_ready_arm(struct rr_conn *c, int fd, unsigned want, bool thread);
int rr_ready_fds(struct rr_share *sh, int fd, unsigned want, struct pollfd out[2],
		 rr_time *until);
/* The last thread that slept has woken: disarms. */
void rr_ready_disarm(struct rr_conn *c, bool later);
/* Consumes the doorbell; later: may leave that to the next rr_ready_arm(), because memory shows
 * what it has rung for. */
void rr_ready_drain(struct rr_share *sh, bool later);

/* wait.c: a thread has woken after a sleep. */
void rr_wait_learn(struct rr_share *sh, rr_time now);

/* tell.c */
/* A piece of a large message was copied. */
#define RR_LARGE	16384u
void rr_tell_moved(struct rr_share *sh);
/* Will the peer soon look at what is sent, while this thread goes on: does it run, on another
 * CPU, and spin when it waits? Yes, if nothing is known of it. */
bool rr_tell_peer_looks(const struct rr_share *sh);
/* This end no longer sleeps. */
void rr_tell_runs(struct rr_share *sh);
/* What this end does now: enum rr_doing. */
void rr_tell_doing(struct rr_share *sh, uint32_t doing);
/* at most once in a tick of the clock */
void rr_tell_cpu(struct rr_share *sh, rr_time now);
/* Fills into `in`, whose cpu and spun are set, what is known of the peer and what spinning for
 * it is worth. Without the lock. */
struct rr_spin_in;
void rr_tell_look(struct rr_share *sh, struct rr_spin_in *in);
/* How much of a sleep that ends now both ends' wake-ups have taken; 0: not known. */
rr_time rr_tell_wakes(struct rr_share *sh, rr_time now, rr_time slept);

/* The cookie of a work request: what kind it is for, and which. 0: nobody waits for it. */
enum { RR_FOR_ENGINE = 1, RR_FOR_PULL, RR_FOR_FENCE };
static inline uint64_t rr_drv_cookie(uint32_t kind, uint32_t which)
{
	return (uint64_t)kind << 32 | which;
}

/* pull.c */
void rr_pull_begin(struct rr_share *sh, const struct rr_op *op, rr_time now);
/* recv: the bytes of op's receive, if its payload stream lies there. */
void rr_pull_compose(struct rr_share *sh, const struct rr_op *op, const uint8_t *recv,
		     rr_time now);
/* The engine accepts the message: fills into e where the app finds it. Returns how many of its
 * last bytes are still being fetched. */
uint32_t rr_pull_deliver(struct rr_share *sh, uint32_t id, struct rr_rx_ent *e, rr_time now);
void rr_pull_drop(struct rr_share *sh, uint32_t id);
/* which: the cookie's lower half. */
void rr_pull_read(struct rr_share *sh, uint32_t which, int status, rr_time now);
void rr_pull_again(struct rr_share *sh, rr_time now);
int rr_drv_read_pull(struct rr_share *sh, const struct rr_pull *p, uint32_t off, void *dst,
		     uint32_t len);
/* The same of an entry that lies in the peer's memory, RR_FROM_PULL or RR_RX_ADVANCE. */
int rr_pull_entry(struct rr_share *sh, const struct rr_rx_ent *e, uint32_t off, void *dst,
		  uint32_t len);
/* A pull was read where it lies, or failed with -errno. */
void rr_pull_done(struct rr_share *sh, uint32_t pull, int status, rr_time now);

/* fate.c */
/* The provider's peer is gone. What it has sent can still be read. */
void rr_drv_lost(struct rr_share *sh);
void rr_drv_fail(struct rr_share *sh, int err, enum rr_reason why);
/* Fails the connection by the provider's error rc. */
void rr_drv_broken(struct rr_share *sh, int rc);
/* Handles the result rc of posting the engine's operation id, and tells the engine if it is
 * final. A message for a peer that is gone counts as sent, as on TCP, because what the peer
 * sent before can still be read. */
void rr_drv_posted(struct rr_share *sh, uint32_t id, int rc, rr_time now);
/* Notes `why` for the app's next connection to the same peer. */
void rr_drv_remember(const struct rr_share *sh, enum rr_reason why);

/* expose.c */
/* RR_OP_EXPOSE: gives the peer keys to a buffer, and tells the engine. */
void rr_expose(struct rr_share *sh, const struct rr_op *op, rr_time now);
/* RR_OP_INVALIDATE: takes all keys of a buffer back, and tells the engine when that is done. */
void rr_expose_fence(struct rr_share *sh, const struct rr_op *op, rr_time now);
/* One of a buffer's keys has been taken back. */
void rr_expose_fenced(struct rr_share *sh, uint32_t buf, rr_time now);
/* The peer has invalidated this key: it must not be taken back again. */
void rr_expose_key_gone(struct rr_share *sh, uint32_t handle);
/* The connection is gone and every key with it, whether or not completions still come. */
void rr_expose_all_fenced(struct rr_share *sh, rr_time now);
/* The buffer is not needed any more: frees it once the peer cannot reach it. */
void rr_expose_drop(struct rr_share *sh, uint32_t buf);
/* Has the peer read all of b? */
bool rr_expose_consumed(struct rr_share *sh, const struct rr_buf *b);
/* When to look again whether the peer has finished using keys that are being taken back, if no
 * completion reports it; RR_TIME_NEVER. */
rr_time rr_drv_fence_due(const struct rr_share *sh);

/* Gives the peer a key to bytes of a buffer that is still being filled. False: there is
 * none. */
bool rr_expose_early(struct rr_share *sh, uint32_t buf, void *from, uint32_t len,
		     struct rr_seg *seg);

/* advance.c. More of the current record has been collected: tells the peer where it can read
 * that, if this is of use. True: it knows of more of it than before, so what has been collected
 * cannot go back to the app. */
bool rr_advance_tell(struct rr_share *sh);

/* stream.c */
ssize_t rr_stream_send(struct rr_share *sh, int fd, const struct iovec *iov, int n);
ssize_t rr_stream_recv(struct rr_share *sh, int fd, const struct iovec *iov, int n, int flags);

/* outroom.c */
/* Is there room now for the write that had none? */
bool rr_stream_room(struct rr_share *sh);
/* May a record be begun that has to be collected? One that has been begun goes on. */
bool rr_stream_may_begin(struct rr_share *sh);
/* Makes room for `need` bytes of the record that is being collected. 0; -EAGAIN: not now;
 * -ENOMEM: never. */
int rr_stream_try_room(struct rr_share *sh, size_t need);
/* Was there no room when it was last needed? */
static inline bool rr_stream_waits(const struct rr_share *sh)
{
	return sh->tx.want || sh->tx.full;
}

/* advance.c; the hatch is said, and with it what was told of a message that is not complete. As
 * rr_drv_say(). */
int rr_advance_hatch(struct rr_share *sh);

/* inbox.c */
/* Queues a message for the app, behind those that came before. */
void rr_stream_push(struct rr_share *sh, const struct rr_rx_ent *e);
/* A piece of a message that is not complete: queues it, or passes it over if there is no place
 * for it; then all others of its message are passed over as well. False: it makes no sense. */
struct rr_advance;
bool rr_stream_advance(struct rr_share *sh, const struct rr_advance *a, rr_time now);
/* While pieces of a message are queued (rr_rx_is_ahead()), a message has come: what they hold
 * of it is left out of e. False: it is another one. */
bool rr_stream_rest(struct rr_share *sh, uint32_t xid, struct rr_rx_ent *e);
/* Of the message that was queued last, RR_RX_PART, so many bytes are still being fetched. Then
 * the next n of them are here. */
void rr_stream_lacks(struct rr_share *sh, uint32_t missing);
void rr_stream_more(struct rr_share *sh, uint32_t n);
/* The message now lies in this buffer of ours, and no longer holds a receive. */
void rr_stream_moved(struct rr_share *sh, struct rr_rx_ent *e, uint32_t buf);
/* The peer opens its hatch; false: it may not. That counts behind everything the peer sent
 * before: rr_stream_hatch_in_turn() is called whenever all of that may have been fetched. */
bool rr_stream_hatch(struct rr_share *sh);
void rr_stream_hatch_in_turn(struct rr_share *sh);
bool rr_stream_is_over(const struct rr_share *sh);
/* Are records still to come that the peer has promised, or is one, promised or not, here in
 * part only? */
bool rr_stream_lacks_records(const struct rr_share *sh);
/* Returns the error that the app has yet to be told, and forgets it; 0: none. */
int rr_stream_error(struct rr_share *sh);
bool rr_stream_next_is_tcp(struct rr_share *sh);
/* The peer's direction crosses, as its RR_IMM_CROSS says. */
void rr_cross_told(struct rr_share *sh, uint32_t imm);

/* settle.c. Does the peer have calls or replies in our memory to read? Under its lock. The
 * other two wait for that, at close and at exit. */
bool rr_conn_unread(struct rr_share *sh);
/* then() is called under the lock, now or when everything has settled. May be NULL. */
void rr_conn_settle(struct rr_conn *c, void (*then)(struct rr_share *sh));
void rr_conn_settle_until(struct rr_share *sh, rr_time end);
#define RR_SETTLE_MOST	(2 * RR_SEC)

/* hatch.c */
/* Opens our hatch. 0: open; -EAGAIN: not now, and nothing has changed; -ECONNRESET: the
 * connection is over. If the peer has no hatch it ends for the reason given in `why`. */
int rr_hatch_open(struct rr_share *sh, enum rr_reason why);
int rr_hatch_flush(struct rr_share *sh, int fd);
/* Opens our hatch if the peer asked for that, or has gone back to TCP itself on a connection
 * that one process alone can use. To be called at a record boundary or when idle. */
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

/* keepalive.c; under its lock. The connection is carried now, with anchor fd; its bytes may be
 * TCP's again; does the app have another value of this option than the kernel returns? */
void rr_keep_anchor(struct rr_share *sh, int fd);
void rr_keep_leave(struct rr_share *sh, int fd);
bool rr_keep_hides(const struct rr_share *sh, int level, int name, int *val);
/* Is this an option that matters here? And: the app has set it on the anchor fd. */
bool rr_keep_cares(int level, int name);
void rr_keep_set(struct rr_share *sh, int fd, int level, int name);
/* Learns the app's settings from fd, whose other end is a native peer. */
void rr_keep_learn(struct rr_share *sh, int fd);
/* When to probe next; RR_TIME_NEVER. */
rr_time rr_keep_due(const struct rr_share *sh);
bool rr_keep_is_due(struct rr_share *sh, rr_time now);
/* A probe was posted, or rc says why not. */
void rr_keep_asked(struct rr_share *sh, int rc);
/* A probe has ended with the status of its completion. */
void rr_keep_answer(struct rr_share *sh, int status);

/* tap.c: packets for a capture, if rr_cap_asked(); under its lock. Of a record that the engine
 * has just taken, from the app's memory or (app NULL) out->buf; of one that is delivered, read
 * from the peer's memory by a function; and of a transport message in either direction. */
typedef int rr_tap_read(struct rr_share *sh, const struct rr_pull *p, uint32_t off, void *dst,
			uint32_t len);
void rr_tap_sent(struct rr_share *sh, const struct rr_eng_out *out,
		 const struct rr_app_iov *app);
void rr_tap_delivered(struct rr_share *sh, const struct rr_rx_ent *e, rr_tap_read *read);
void rr_tap_posted(struct rr_share *sh, const struct iovec *iov, int n);
void rr_tap_received(struct rr_share *sh, const struct rr_wc *wc);

#endif
