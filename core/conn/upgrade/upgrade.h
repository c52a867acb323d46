/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_UPGRADE_H
#define RR_CONN_UPGRADE_H

/* From TCP to carried, between two of ours.
 *
 *   new.c        making a connection              upgrade.c    what both sides have in common
 *   offer.c      the client's side                hear.c       what a server hears first
 *   answer.c     the server's side                own.c        what we say of ourselves
 *   ride.c       the same while calls go by TCP   ride_states.c  and what its states differ in
 *   ride_offer.c the client's offer so           ride_answer.c  and the server's answer
 *   along.c      one write with the app's bytes   when.c       when an offer pays, pure
 *   late.c       an answer that comes too late    expire.c     answers that nobody takes up
 *   learned.c    of earlier connections           evidence.c   servers of this host */

#include "core/conn/carried/carried.h"

/* new.c */
struct rr_conn *rr_conn_make(bool server, int fd, const struct sockaddr *peer, socklen_t len);

/* upgrade.c */
/* The provider is connected. */
void rr_upgrade_carry(struct rr_conn *c);
/* Its connection is TCP's from now on. */
void rr_upgrade_fails(struct rr_conn *c, enum rr_reason why);
/* The smaller of both sides' words becomes the connection's. */
void rr_upgrade_agree(struct rr_share *sh, const struct rr_hello *h, enum rr_dialect dialect);
/* Has the user stopped it? */
bool rr_upgrade_stopped(void);
/* Has anything been written to the socket, by calls that nobody sees (stdio, syscall(2))? Then
 * its stream is no longer at its beginning. */
bool rr_upgrade_spoken(int fd);
/* Other threads sleep on the anchor because nothing was there. What came wakes them; it is
 * taken only when they are up, or they would sleep on. True: wait a little. */
bool rr_upgrade_waits(struct rr_conn *c);
/* After that: do some sleep still, for want of a CPU, or since they want something else? They
 * went to sleep when there was nothing but TCP, and what another carrier brings would not wake
 * them. */
bool rr_upgrade_unseen(struct rr_conn *c);

/* offer.c: the client's side. */
/* Afterwards the state says what to do with the write; -EAGAIN: the socket is not connected
 * yet. */
int rr_upgrade_first_write(struct rr_conn *c, int fd, const struct iovec *iov, int n);
ssize_t rr_upgrade_first_read(struct rr_conn *c, int fd);
/* The offer is out: has the server answered? */
void rr_offer_hear(struct rr_conn *c, int fd);
/* It was taken: is the provider connected? */
void rr_offer_join(struct rr_conn *c);

/* Makes the providers' side, and h. RR_R_NONE, or why it cannot be. */
enum rr_reason rr_offer_make(struct rr_conn *c, int fd, struct rr_hello *h);
/* May the connection whose first call was of this program (NULL: not known) be upgraded?
 * RR_R_NONE, or why not. */
enum rr_reason rr_offer_may(struct rr_conn *c, const uint32_t *prog);
/* by a rule, of what is known of its first call */
bool rr_offer_required(struct rr_conn *c);
/* What it begins with: RR_R_NONE a call. */
enum rr_reason rr_offer_sniff(const uint8_t *head, size_t have);
void rr_offer_peer(struct rr_conn *c);	/* learns who it goes to */
bool rr_offer_by_loopback(const struct rr_conn *c);
/* An answer h: joins the provider that was chosen, or why that cannot be. */
enum rr_reason rr_offer_join_chosen(struct rr_conn *c, const struct rr_hello *h);
enum rr_reason rr_offer_declined(const struct rr_conn *c, enum rr_nego what);
void rr_offer_negative(struct rr_conn *c);

/* The client does not wait for the answer any more. */
static inline bool rr_ride_is_late(const struct rr_conn *c)
{
	return rr_conn_st(c) == RR_S_SWALLOW;
}

/* along.c; as ride.c. Has nobody read or written but by us? */
bool rr_ride_seen_all(const struct rr_conn *c, int fd);
/* ours[0..len), and behind it what the app writes. How much of the app's, which may be 0;
 * -EAGAIN nothing went. */
ssize_t rr_ride_send_along(struct rr_conn *c, int fd, const uint8_t *ours, uint32_t len,
			   const struct iovec *iov, int n, int flags);

/* ride_offer.c; as ride.c. 0 nothing of the app's went with it, if it went; else as
 * rr_ride_send(). */
ssize_t rr_ride_offer(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
/* Who is not known, on another host, may close on an offer: such a connection waits for its
 * first call, as long as that may wait. */
bool rr_ride_must_ask(struct rr_conn *c, int fd, int flags);
/* An answer of need bytes is there: RR_RIDE_OVER, or -EAGAIN wait a little. */
int rr_ride_take_answer(struct rr_conn *c, int fd, enum rr_nego what, const struct rr_hello *h,
			uint32_t need);

/* ride_answer.c; as rr_ride_offer() … */
ssize_t rr_ride_answer(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
/* … and as rr_ride_take_answer() */
int rr_ride_take_offer(struct rr_conn *c, int fd, const struct rr_hello *h, uint32_t xid,
		       uint32_t need);

/* ride.c; under the connection's lock. What is neither bytes nor -errno is RR_CONN_KERNEL, or
 * RR_RIDE_OVER: the state is another now, ask again. */
#define RR_RIDE_OVER	(-65537)
/* The app's first write on a connection that may be offered on later; 0: it is TCP's, for it is
 * none. */
ssize_t rr_ride_first(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
/* The first have bytes of what is queued begin the app's next record. */
void rr_ride_next(struct rr_conn *c, const uint8_t *head, size_t have);
/* server: the first bytes, which are no offer */
void rr_ride_begin(struct rr_conn *c, const uint8_t *head, size_t have);
void rr_ride_heard(struct rr_conn *c, const struct rr_hello *h, uint32_t xid);
/* The app's next write; in the states of the latter two an offer or an answer may go in front
 * of it. */
ssize_t rr_ride_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_watch_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_heard_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
/* *done: what was read, also if the rest is not to be had here. */
ssize_t rr_ride_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags,
		     size_t *done);
int rr_ride_poll(struct rr_conn *c, int fd, unsigned want);
int rr_ride_inq(struct rr_conn *c, int fd);
/* The error that the app has yet to be told, once; 0 none. */
int rr_ride_error(struct rr_conn *c);
void rr_ride_end(struct rr_conn *c);		/* the app closes it: what there is to learn */

/* ride_states.c; under the connection's lock. */
/* The client does not wait for the answer any more: its connection is TCP's, but for that. */
void rr_ride_leave(struct rr_conn *c, enum rr_reason why);
/* Called after the app's records have gone by TCP: gives up looking when there were many. */
void rr_ride_count(struct rr_conn *c);
/* In a forked child: what the parent has under way is not ours. Returns 0. */
int rr_ride_orphan(struct rr_conn *c);
/* As step, joined, forks and yield in core/conn/kinds.h, of the state in the name. */
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

/* evidence.c */
bool rr_evidence_look(const struct sockaddr_in6 *peer);
bool rr_evidence_move(int fd);	/* as rr_conn_move_fd() */
void rr_evidence_forked(void);

/* answer.c: the server's side. */
/* Can and may we? Makes our side of the first provider that both have, and says so in
 * *answer. */
bool rr_answer_accept(struct rr_conn *c, int fd, const struct rr_hello *h,
		      struct rr_hello *answer, enum rr_reason *why);
enum rr_reason rr_answer_why_not(struct rr_conn *c, const struct rr_hello *h);
/* What a client is told of that. */
enum rr_nego rr_answer_refusal(enum rr_reason why);
/* Nothing was said. told: RR_ASK_TOLD. */
void rr_answer_step(struct rr_conn *c, int fd, bool told);
void rr_answer_wait(struct rr_conn *c, int fd);	/* the answer is out */
void rr_answer_rides(struct rr_conn *c);	/* and rode along */
/* It has not been taken up, and from now on cannot be: the client will hear so before it sends
 * a message. False: it has been. The provider's part is still to be freed. */
bool rr_answer_withdraw(struct rr_conn *c);

/* expire.c */
rr_time rr_half_expire(rr_time now);	/* when to look again; RR_TIME_NEVER */

/* own.c */
uint32_t rr_own_caps(void);		/* enum rr_cap */
void rr_own_hello(struct rr_hello *h);
/* What c's rule wants spoken. program: of the first call, or NULL. */
enum rr_dialect rr_own_dialect(struct rr_conn *c, const uint32_t *program);
/* What may be spoken on c, as an offer has it. */
uint32_t rr_own_dialects(const struct rr_conn *c);
/* Is the peer that says this on our host? */
bool rr_own_host(const struct rr_hello *h);
/* Does it see the same two addresses as c, the server's end of its connection, has? */
bool rr_own_ends(const struct rr_hello *h, struct rr_conn *c);
/* Both, into what the client says by fd; after the token. */
void rr_own_place(struct rr_hello *h, struct rr_conn *c);
/* Would the app still have its reserve of descriptors if its connection fd (-1: it has none
 * yet) got one of ours? */
bool rr_own_spare(int fd);
/* What we want of a provider for the app's socket fd (-1: it is not there yet) and its
 * connection (NULL: any that a listener gets), with an upgrade's token or none; false:
 * descriptors are scarce. */
bool rr_own_params(struct rr_prov_params *p, struct rr_conn *c, const uint8_t *token,
		   int fd);

/* late.c */
/* What is there for the app, and stays there. -errno; -EAGAIN nothing; -EIO nothing but an
 * error, which is the app's too. *gone: the peer has reset the connection. Bytes that stand
 * before that are shown, for they may be ours; and where there are bytes recv() leaves the
 * error alone. */
ssize_t rr_upgrade_peek(int fd, void *buf, size_t len, bool *gone);
/* The same, where there is no error. */
ssize_t rr_upgrade_look(int fd, void *buf, size_t len);
/* Reads away n bytes that were peeked at. */
bool rr_upgrade_consume(int fd, uint32_t n);
/* The answer is longer than any of a shim: reads away what is there of it. RR_RIDE_OVER that
 * was all; -EAGAIN; 0 the kernel has an end or an error for the app. */
int rr_upgrade_skip(struct rr_conn *c, int fd);

#endif
