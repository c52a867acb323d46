/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_UPGRADE_H
#define RR_CONN_UPGRADE_H

/* From TCP to carried, between two ends that both have the library.
 *
 *   new.c        making a connection              upgrade.c    common to both sides
 *   offer.c      the client's side                hear.c       a server's first bytes
 *   answer.c     the server's side                own.c        what we tell of ourselves
 *   ride.c       the same while calls go by TCP   ride_states.c  what its states differ in
 *   ride_offer.c the client's offer, riding       ride_answer.c  the server's answer, riding
 *   along.c      one write with the app's bytes   when.c       when an offer pays, pure
 *   late.c       peeking at and discarding bytes  expire.c     answers that nobody takes up
 *   learned.c    what earlier connections showed  evidence.c   servers of this host
 *   pace.c       many upgrades at once, in turns  passed.c     counts and times what goes by
 *   told.c       what rdmarpc-check asks for      first.c      those made late */

#include "core/conn/carried/carried.h"

/* new.c */
/* Is this an address of IPv4 or IPv6? */
static inline bool rr_conn_is_inet(const struct sockaddr *a, socklen_t len)
{
	return a && len >= sizeof(struct sockaddr_in) &&
	       (a->sa_family == AF_INET || a->sa_family == AF_INET6);
}
/* A new connection of this process. NULL: a rule leaves it to TCP, or there is no memory. */
struct rr_conn *rr_conn_make(bool server, int fd, const struct sockaddr *peer, socklen_t len);

/* upgrade.c */
/* The provider is connected: the connection becomes carried. */
void rr_upgrade_carry(struct rr_conn *c);
/* The upgrade has failed: frees the share, and the connection stays on TCP for good. */
void rr_upgrade_fails(struct rr_conn *c, enum rr_reason why);
/* Settles what both ends speak: of each limit the smaller one, of capabilities those of
 * both. */
void rr_upgrade_agree(struct rr_share *sh, const struct rr_hello *h, enum rr_dialect dialect);
/* Has the user stopped upgrades? */
bool rr_upgrade_stopped(void);
/* Has anything been written to the socket, perhaps by calls that we cannot see (stdio,
 * syscall(2))? Then its stream is no longer at its beginning. */
bool rr_upgrade_spoken(int fd);
/* Other threads sleep on the anchor, and what has just arrived wakes them. It must be taken
 * only once they are awake, or they would go back to sleep in the kernel. True: wait a
 * little. */
bool rr_upgrade_waits(struct rr_conn *c);
/* Do some threads still sleep after that, for want of a CPU or because they wait for something
 * else? Asked under the same hold of the lock. They went to sleep when there was only TCP, and
 * what comes by another way would not wake them. */
bool rr_upgrade_unseen(struct rr_conn *c);
/* The same in a state in which threads sleep on the provider's wake-up fd. True: nothing has
 * come there, or they have yet to wake up, so the upgrade is not to go on. */
bool rr_upgrade_leaves_bell(struct rr_conn *c);

/* May the app's bytes be looked at? If not, the call's result is -EFAULT. Not asked of bytes
 * that the kernel has read. */
static inline bool rr_upgrade_readable(const struct iovec *iov, int n)
{
	return !rr_cp->readable || rr_cp->readable(iov, n);
}

/* offer.c: the client's side. */
/* The app's first write. Afterwards the connection's state says how to go on with it. -EAGAIN:
 * the socket is not connected yet. */
int rr_upgrade_first_write(struct rr_conn *c, int fd, const struct iovec *iov, int n);
ssize_t rr_upgrade_first_read(struct rr_conn *c, int fd);
/* The offer is out: looks whether the server has answered. */
void rr_offer_hear(struct rr_conn *c, int fd);
/* The answer was accepted: looks whether the provider is connected. */
void rr_offer_join(struct rr_conn *c);

/* Makes our side of each provider, and the offer in *h. RR_R_NONE, or why there is none. */
enum rr_reason rr_offer_make(struct rr_conn *c, int fd, struct rr_hello *h);
/* May this connection be upgraded, whose first call was of program *prog (NULL: not known)?
 * RR_R_NONE, or why not. */
enum rr_reason rr_offer_may(struct rr_conn *c, const uint32_t *prog);
/* Does a rule require RDMA for this connection, as far as its first call is known? */
bool rr_offer_required(struct rr_conn *c);
/* Judges the first bytes of the stream: RR_R_NONE if they begin an RPC call, else the
 * reason. */
enum rr_reason rr_offer_sniff(const uint8_t *head, size_t have);
void rr_offer_peer(struct rr_conn *c);	/* learns the address that the offer goes to */
/* Is the server at a loopback address? No device leads there, so only shm is offered. */
bool rr_offer_by_loopback(const struct sockaddr_in6 *peer);
/* Joins the provider that answer h has chosen. RR_R_NONE, or why that is not possible. */
enum rr_reason rr_offer_join_chosen(struct rr_conn *c, const struct rr_hello *h);
enum rr_reason rr_offer_declined(const struct rr_conn *c, enum rr_nego what);
void rr_offer_negative(struct rr_conn *c);
/* The server has answered, perhaps late: it has the library. */
void rr_offer_is_ours(struct rr_conn *c);
/* Calls go on by TCP while the provider that was joined connects. why: the reason if it could
 * not even be joined, else RR_R_NONE. */
void rr_offer_meet(struct rr_conn *c, enum rr_reason why);

/* Has the client stopped waiting for the answer? */
static inline bool rr_ride_is_late(const struct rr_conn *c)
{
	return rr_conn_st(c) == RR_S_SWALLOW;
}

/* passed.c. Bytes of the app have gone: the first len of iov[0..n). */
void rr_passed_out(struct rr_conn *c, const struct iovec *iov, int n, size_t len);
/* The app has read len bytes, into iov[0..n) from byte `done` on. */
void rr_passed_in(struct rr_conn *c, const struct iovec *iov, int n, size_t done, size_t len);

/* What a look at the first bytes of a record has shown (hear.c, ride.c). */
struct rr_front {
	enum rr_nego what;
	uint32_t need, xid;	/* of what is ours, or may be */
	uint8_t head[RR_RM_HDR];
	struct rr_hello h;
};

/* told.c: what a client that asks (option ask_peer) notes for rdmarpc-check. id is a provider's
 * number in offers, or RR_TOLD_NATIVE for a native peer's port. */
void rr_told_begin(struct rr_conn *c);
void rr_told_offered(struct rr_conn *c, uint8_t id);
/* It cannot be used at this end, or reached from here. */
void rr_told_here(struct rr_conn *c, uint8_t id, enum rr_reason why);
/* The server has answered, or declined. */
void rr_told_there(struct rr_conn *c, const struct rr_hello *answer);

/* along.c. Has nobody read from or written to the socket but us? */
bool rr_ride_seen_all(const struct rr_conn *c, int fd);
/* Sends ours[0..len), followed by what the app writes. Returns how many of the app's bytes
 * went, possibly 0; -EAGAIN: nothing went. */
ssize_t rr_ride_send_along(struct rr_conn *c, int fd, const uint8_t *ours, uint32_t len,
			   const struct iovec *iov, int n, int flags);

/* ride_offer.c. Makes an offer and sends it in front of the app's bytes, if it pays. 0: none of
 * the app's bytes went; the state says whether the offer did. Otherwise as rr_ride_send(). */
ssize_t rr_ride_offer(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
/* The number of the call to peer that an offer may go with first, from 1; what the calls are
 * has not been looked at. */
uint32_t rr_ride_may_pay(const struct sockaddr_in6 *peer);
/* A server on another host that is not known may close the connection on an offer. Must this
 * connection therefore offer before its first call, which then waits for the answer? */
bool rr_ride_must_ask(struct rr_conn *c, int fd, int flags);
/* An answer of need bytes is in the queue. Returns RR_RIDE_OVER, or -EAGAIN: wait a little. */
int rr_ride_take_answer(struct rr_conn *c, int fd, enum rr_nego what, const struct rr_hello *h,
			uint32_t need);

/* ride_answer.c. The server's counterpart of rr_ride_offer() … */
ssize_t rr_ride_answer(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
/* … and of rr_ride_take_answer(). */
int rr_ride_take_offer(struct rr_conn *c, int fd, const struct rr_hello *h, uint32_t xid,
		       uint32_t need);

/* ride.c; under the connection's lock. A result that is neither a number of bytes nor -errno is
 * RR_CONN_KERNEL, or RR_RIDE_OVER: the state has changed, ask again. */
#define RR_RIDE_OVER	(-65537)
/* The app's first write on a connection that may make its offer later. RR_CONN_KERNEL: there
 * were no bytes, or the connection is TCP's because this is not RPC. */
ssize_t rr_ride_first(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
/* The number of the first call to peer that must be looked at before it goes, because of a rule
 * for its program, or since an offer may go with it or before it. */
uint32_t rr_ride_looks_with(const struct sockaddr_in6 *peer);
/* What do the `have` first bytes of the stream say? RR_R_NONE: they begin a call; whether its
 * program is known, which that is, and its XID. */
enum rr_reason rr_ride_note(const uint8_t *head, size_t have, bool *called, uint32_t *prog,
			    uint32_t *xid);
/* The app's first bytes have gone, and no offer with them: the first len of iov. noted: what
 * they are is. */
void rr_ride_first_went(struct rr_conn *c, const struct iovec *iov, int n, size_t len,
			bool noted);
/* The first call has gone, and the connection looks on. */
void rr_ride_watches(struct rr_conn *c);
/* Notes that the first `have` bytes in the queue begin the app's next record. */
void rr_ride_next(struct rr_conn *c, const uint8_t *head, size_t have);
/* Server: the first bytes have come, and are not an offer. */
void rr_ride_begin(struct rr_conn *c, const uint8_t *head, size_t have);
/* Server: an offer was read from the queue. Prepares the answer. */
void rr_ride_heard(struct rr_conn *c, const struct rr_hello *h, uint32_t xid);
/* The app's next write. In the states that the latter two are named after, an offer or an
 * answer may go in front of it. */
ssize_t rr_ride_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_watch_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_heard_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
/* *done: how many bytes were read, even if the return value says to go on elsewhere. */
ssize_t rr_ride_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags,
		     size_t *done);
int rr_ride_poll(struct rr_conn *c, int fd, unsigned want);
int rr_ride_inq(struct rr_conn *c, int fd);
/* Returns the socket error that the app has yet to be told, and forgets it; 0: none. */
int rr_ride_error(struct rr_conn *c);
/* the app closes it: notes what there is to learn */
void rr_ride_end(struct rr_conn *c);

/* ride_states.c; under the connection's lock. */
/* The client no longer waits for the answer: but for swallowing it, its connection is TCP's. */
void rr_ride_leave(struct rr_conn *c, enum rr_reason why);
/* Called after records of the app's have gone by TCP: stops looking on after too many. */
void rr_ride_count(struct rr_conn *c);
/* In a forked child: the upgrade under way is the parent's. Returns 0. */
int rr_ride_orphan(struct rr_conn *c);
/* The operations step, joined, forks and yield of core/conn/kinds.h, for the state in the
 * name. */
void rr_asked_step(struct rr_conn *c, int fd);
void rr_meeting_step(struct rr_conn *c, int fd);
void rr_heard_step(struct rr_conn *c, int fd);
void rr_said_step(struct rr_conn *c, int fd);
bool rr_said_joined(struct rr_conn *c);
void rr_watch_forks(struct rr_conn *c);
void rr_heard_forks(struct rr_conn *c);
void rr_said_forks(struct rr_conn *c);
void rr_asked_yield(struct rr_conn *c);
void rr_heard_yield(struct rr_conn *c);
void rr_said_yield(struct rr_conn *c);

/* pace.c; under the connection's lock. */
/* How long this upgrade, which nobody waits for, may take. */
rr_time rr_pace_patience(const struct rr_conn *c);
/* Gives the client that long to take up the answer: enters the connection in half.c. */
void rr_pace_expire(struct rr_conn *c);
/* As rr_carrier_establish(), or RR_PACE_TURN: it is another connection's turn. */
#define RR_PACE_TURN	(-65538)
int rr_pace_establish(struct rr_conn *c);
/* When it will be this connection's turn; 0: now. */
rr_time rr_pace_turn(const struct rr_conn *c);

/* evidence.c: is there a server with the library at this address of this host? */
bool rr_evidence_look(const struct sockaddr_in6 *peer);
bool rr_evidence_move(int fd);	/* as rr_conn_move_fd() */
void rr_evidence_forked(void);

/* answer.c: the server's side. */
/* Can and may this offer be accepted? Makes our side of the first provider that both ends have,
 * and describes it in *answer. False: *why may have the reason. */
bool rr_answer_accept(struct rr_conn *c, int fd, const struct rr_hello *h,
		      struct rr_hello *answer, enum rr_reason *why);
/* Adds what a client that asks is told, after rr_answer_accept() or with nlack 0: the release,
 * and what was lacking. why: the reason for a refusal, or RR_R_NONE. */
void rr_answer_tell(struct rr_hello *answer, const struct rr_hello *h, enum rr_reason why);
/* Why no provider of the offer could be used. */
enum rr_reason rr_answer_why_not(struct rr_conn *c, const struct rr_hello *h);
/* What the client is told about that. */
enum rr_nego rr_answer_refusal(enum rr_reason why);
/* The first step of a server's connection. told: RR_ASK_TOLD, so no error is pending. */
void rr_answer_step(struct rr_conn *c, int fd, bool told);
void rr_answer_wait(struct rr_conn *c, int fd);	/* the answer is out, and the client decides */
void rr_answer_rides(struct rr_conn *c);	/* the same, for an answer that rode along */
/* Withdraws an answer, and lets the client know before it sends a message. False: the client
 * has taken it up. The share still has to be freed. */
bool rr_answer_withdraw(struct rr_conn *c);

/* expire.c */
rr_time rr_half_expire(rr_time now);	/* when to look again; RR_TIME_NEVER */

/* own.c */
uint32_t rr_own_caps(void);		/* enum rr_cap */
void rr_own_hello(struct rr_hello *h);
/* The dialect that c's rule wants. program: that of the first call, or NULL. */
enum rr_dialect rr_own_dialect(struct rr_conn *c, const uint32_t *program);
/* The dialects that may be spoken on c, as an offer lists them. */
uint32_t rr_own_dialects(const struct rr_conn *c);
/* Does the peer that sent h run on our host? */
bool rr_own_host(const struct rr_hello *h);
/* Does the peer see the same two addresses of the connection as c, the server's end? */
bool rr_own_ends(const struct rr_hello *h, struct rr_conn *c);
/* Client: puts our host and the addresses of both ends into h, whose token must be set. */
void rr_own_place(struct rr_hello *h, struct rr_conn *c);
/* Would the app still have its reserve of descriptors if its connection fd (-1: it has none
 * yet) got one more of ours? */
bool rr_own_spare(int fd);
/* Fills in what we want of a provider, for the app's socket fd (-1: not made yet) and its
 * connection (NULL: any that a listener gets), with the token of an upgrade or NULL. False:
 * descriptors are scarce. */
bool rr_own_params(struct rr_prov_params *p, struct rr_conn *c, const uint8_t *token,
		   int fd);

/* late.c */
/* Copies what there is for the app without consuming it. Returns the number of bytes, 0 at the
 * end, -EAGAIN: nothing, or -EIO: nothing but a pending error, which stays pending for the app.
 * *gone: the peer has reset the connection. Bytes that came before that are still shown,
 * because they may be ours, and recv() leaves the error alone while there are bytes. */
ssize_t rr_upgrade_peek(int fd, void *buf, size_t len, bool *gone);
/* The same for a socket that is known to have no pending error. */
ssize_t rr_upgrade_look(int fd, void *buf, size_t len);
/* `have` bytes, of `need`, of what may be ours have arrived: the app does not hear of them
 * until the rest is here. False after a second, because they may be the app's. */
bool rr_upgrade_withholds(struct rr_conn *c, uint32_t need, size_t have);
/* Discards n bytes that were peeked at. */
bool rr_upgrade_consume(int fd, uint32_t n);
/* The reply to our offer is longer than any answer of the library: discards as much of it as is
 * there. RR_RIDE_OVER: that was all; -EAGAIN: more will come; 0: the kernel has an end or an
 * error for the app. */
int rr_upgrade_skip(struct rr_conn *c, int fd);

#endif
