/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_BASE_H
#define RR_CONN_BASE_H

/* The ground floor of core/conn: a connection, its memory, and whatever can be decided without
 * looking at another connection. It calls nothing on the floors above.
 *
 *   share.c      what a family shares             carrier.c    the queue pair in a share
 *   state.c      a connection's state             socket.c     the kernel's socket
 *   ref.c        references, and the last one     slab.c       where connections live
 *   params.c     options                          report.c     statistics, log
 *   pool.c       chunk memory                     room.c       how chunk memory is divided
 *   budget.c     memory that peers may cost       warm.c       chunk memory that is kept
 *   idle.c       memory of idle connections       half.c       answers not taken up yet
 *   cache.c      peers not worth an offer         ends.c       addresses of both ends
 *   queue.c      the kernel's socket queues       track.c      counts records on TCP
 *   loopback.c   a TCP connection to ourselves    spin.c       how long to spin, pure
 *   spinning.c   the threads that spin            calls.c      calls awaiting a reply
 *   plainwait.c  sleepers on the kernel's connections
 *   standing.c   one sleeper for thousands at rest
 *   ways.c       which way both streams go, and how they end */

#include "core/base/iov.h"
#include "core/base/thread.h"
#include "core/conn/base/idle.h"
#include "core/conn/base/marks.h"
#include "core/conn/base/plainwait.h"
#include "core/conn/base/state.h"
#include "core/conn/base/streams.h"

extern const struct rr_conn_params *rr_cp;
extern struct rr_sizes rr_conn_sizes;

/* The directory in which ends in other network namespaces meet; "": none. */
static inline const char *rr_run_dir(void)
{
	return rr_cp->run_dir ? rr_cp->run_dir() : "";
}

/* Forked children use connections of this process: from now on it only uses providers that
 * children can use, too. */
extern _Atomic bool rr_conn_forks;

/* carrier.c: the queue pair of a share, from creation to destruction. A function that returns
 * int returns what the provider's function of the same meaning returns (core/prov/prov.h). */
/* A share whose queue pair has yet to be set up. The caller owns it. NULL: no memory. */
struct rr_share *rr_carrier_new(const struct rr_prov_ops *ops, const struct rr_prov_params *p);
/* The client's side of an upgrade: makes a share and fills in what its provider offers. NULL
 * with the reason in *why if a forked child could not use the provider, or the provider
 * failed. */
struct rr_share *rr_carrier_offer(const struct rr_prov_ops *ops, const struct rr_prov_params *p,
				  struct rr_nego_prov *offer, enum rr_reason *why);
/* The server's side, likewise; also fills in what to answer. */
struct rr_share *rr_carrier_answer(const struct rr_prov_ops *ops,
				   const struct rr_prov_params *p,
				   const struct rr_nego_prov *offer,
				   struct rr_nego_prov *answer, enum rr_reason *why);
/* Keeps the share of the provider whose id the server has chosen and frees the others that were
 * offered. False, and nothing changed: no such provider was offered. */
bool rr_carrier_choose(struct rr_share **offered, uint8_t id);
int rr_carrier_join(struct rr_share *sh, const struct rr_prov_addr *answer);
/* In all four cases (offered, answered, called, taken): is the connection established now? */
int rr_carrier_establish(struct rr_share *sh);
/* Withdraws an answer. False: the client has already taken it up, or the provider cannot
 * withdraw answers. */
bool rr_carrier_withdraw(struct rr_share *sh);
/* Dials a native peer. */
int rr_carrier_call(struct rr_share *sh, const struct rr_prov_params *p,
		    const struct sockaddr *to, const struct sockaddr *from);
/* A listener for native peers, in memory of its own; rr_carrier_take() gives the next peer that
 * has connected. */
int rr_carrier_listen(const struct rr_prov_ops *ops, const struct sockaddr *addr, bool v6only,
		      struct rr_lst **out);
void rr_carrier_unlisten(struct rr_lst *lst);
int rr_carrier_tend(struct rr_lst *lst);
int rr_carrier_take(struct rr_lst *lst, struct rr_share *sh, const struct rr_prov_params *p);
/* The reason that the provider's error rc stands for; `other` if rc says nothing more
 * specific. */
enum rr_reason rr_carrier_why(const struct rr_share *sh, int rc, enum rr_reason other);
/* The carrier, as the statistics name it. */
enum rr_carrier rr_carrier_kind(const struct rr_share *sh);
/* Gives the pages of chunk memory back that hold nothing at the moment. */
void rr_carrier_trim(struct rr_share *sh);
/* Disconnects from the peer at once. The queue pair must still be closed. */
void rr_carrier_disconnect(struct rr_share *sh);
/* Closes the queue pair for this process; the share stays. */
void rr_carrier_close(struct rr_share *sh);
/* Closes the queue pair and frees the share, along with all shares that were offered beside it.
 * NULL is allowed. */
void rr_carrier_free(struct rr_share *sh);

/* slab.c */
struct rr_conn *rr_slab_get(bool server, int fd);	/* NULL: no memory */
void rr_slab_carried(struct rr_conn *c);	/* its state becomes RR_S_CARRIED */
void rr_slab_end(struct rr_conn *c);		/* before its share is freed */
void rr_slab_put(struct rr_conn *c);		/* after its share was freed */
/* Enters this process into the family (was = 0, now = its pid) or removes it (its pid, 0). If
 * all slots are taken, the process goes unlisted. */
void rr_family_swap(struct rr_share *sh, int32_t was, int32_t now);
/* This process gives the connection up. Returns how many processes still have it. Under its
 * lock. */
uint32_t rr_conn_leave(struct rr_share *sh);
/* Can forked children use the queue pair as well as we do? */
bool rr_conn_shareable(const struct rr_share *sh);
/* The number of processes that have the connection, after removing those that have died. Under
 * its lock. Costs some system calls for each other process. */
uint32_t rr_conn_procs(struct rr_share *sh);
/* Calls fn for each carried connection; none of them can end meanwhile. Returns false if
 * another thread holds the lock: try again later. */
bool rr_conn_each_carried(void (*fn)(struct rr_conn *, void *), void *ctx);
/* Connection i of all that this process has ever had, in whatever state; NULL: there are no
 * more. */
struct rr_conn *rr_slab_at(uint32_t i);
/* Holds the lock of the slabs, so that no connection is made or becomes carried. False if this
 * is a signal handler that interrupted the holder. */
bool rr_slab_hold(void);
bool rr_slab_try(void);			/* also false if another thread holds it */
void rr_slab_let(void);
/* The same for the lock that keeps connections from ending. */
bool rr_slab_hold_ends(void);
void rr_slab_let_ends(void);
void rr_slab_forked(void);		/* in a child, before all else */

/* ends.c; under the connection's lock. The addresses of its own end and of the peer's. The
 * kernel is asked once; AF_UNSPEC means that the address is not known. */
const struct sockaddr *rr_ends_own(struct rr_conn *c);
const struct sockaddr *rr_ends_peer(struct rr_conn *c);
bool rr_ends_known(struct rr_conn *c);		/* both of them? */
void rr_ends_changed(struct rr_conn *c);	/* the socket was connected anew */

/* half.c */
/* Enters a connection whose answer is out and valid until c->deadline. Under its lock. patient:
 * the client is given as long as a device takes, which no app waits for. */
void rr_half_add(struct rr_conn *c, bool patient);
void rr_half_leave(struct rr_conn *c);
/* The earliest deadline, or when to try again; 0: there is none. */
rr_time rr_half_due(void);
/* Calls take() for the entries whose deadline is at or before `until`, earliest first, until it
 * returns something other than -ESRCH. If that is 0 the connection leaves its queue and is put
 * into *out. Returns what take() returned last; -ESRCH: no entry was due; -EAGAIN: another
 * thread holds the queues. */
int rr_half_pick(rr_time until, rr_time now, int (*take)(struct rr_conn *c),
		 struct rr_conn **out);
void rr_half_forked(void);

/* socket.c */
/* What the kernel's poll() reports now for the app's socket, or for another socket of ours. */
unsigned rr_anchor_poll(int fd, unsigned want);
void rr_anchor_break(int fd);
/* Makes the close of this socket send a reset, whichever process closes it. */
void rr_anchor_reset(int fd);

/* queue.c. Send or receive without blocking. Both return the number of bytes, or -errno. */
ssize_t rr_queue_send(int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_queue_recv(int fd, const struct iovec *iov, int n, size_t skip, size_t most,
		      int flags);
/* Bytes in the kernel's receive queue. Unlike a read, this does not consume a pending error. */
size_t rr_queue_bytes(int fd);
/* TCP_INFO. An older kernel's structure is shorter: the fields that it lacks are zero. */
struct tcp_info;
bool rr_queue_info(int fd, struct tcp_info *i);
/* Bytes that the kernel has received beyond those counted in `in` (ours included) and those in
 * its queue. A FIN counts as one; more than one means that another process has read from the
 * socket. Bytes that arrive between the two questions may make it negative. */
int64_t rr_queue_unread(const struct tcp_info *i, const struct rr_track *in, int fd);
/* Would the kernel take len more bytes at once, all of them? */
bool rr_queue_has_room(int fd, size_t len);
#define RR_QUEUE_REACH	65536u	/* bytes of the queue that are looked at */
/* Copies the bytes of the queue from offset `at` on without consuming them; returns how
 * many. */
size_t rr_queue_peek_at(int fd, size_t at, uint8_t *buf, size_t len);
/* Fills in iovecs for n bytes to be thrown away, at most max of them; returns how many
 * iovecs. */
int rr_queue_nowhere(struct iovec *iov, int max, size_t n);

/* loopback.c: a TCP connection of this process to itself, over loopback. Returns the app's end,
 * a new descriptor made with flags as for accept4(), and our end in *far; or -errno. */
int rr_loopback_new(sa_family_t family, int flags, int *far);
/* The same for the app's own socket fd, which is not connected. Returns 0 or -errno; on error
 * the socket is as it was. */
int rr_loopback_connect(int fd, int *far);
/* Closes our end: the app's end sees a FIN, or a reset. */
void rr_loopback_end(int *far, bool reset);
/* Resets the connection from the app's end: our end sees a reset, and fd is no longer
 * connected. */
void rr_loopback_reset(int fd);

/* calls.c: statistics of procedures, under the connection's lock. For a message that the engine
 * has accepted, while its head is still there, and for one that is delivered to the app. */
void rr_calls_sent(struct rr_share *sh, const struct rr_eng_out *out);
void rr_calls_delivered(struct rr_share *sh, const struct rr_rpc *rpc,
			const struct rr_rx_ent *e);
/* The tables are about to be dropped: keeps the entries that lie in the head. */
void rr_calls_idle(struct rr_share *sh);
/* What a spin has seen (share.h) is taken in: what comes next is another message. */
static inline void rr_calls_unsee(struct rr_share *sh)
{
	if (unlikely(atomic_load_explicit(&sh->seen_at, memory_order_relaxed)))
		atomic_store_explicit(&sh->seen_at, 0, memory_order_relaxed);
}

/* report.c */
void rr_report_open(struct rr_conn *c, int fd);
void rr_report_client(struct rr_conn *c, int fd);	/* may postpone making a segment */
/* Of a connection that was never ours. The same for clients that a rule leaves to TCP. */
void rr_report_none(bool server, enum rr_reason why);
void rr_report_forked(void);			/* in the child */
void rr_report(struct rr_conn *c, enum rr_conn_state st, enum rr_carrier carrier,
	       enum rr_reason why);
/* Records the dialect and the version that the engine speaks. */
void rr_report_dialect(struct rr_share *sh);
/* The same, and the program of the first message that has come, if it is a call. */
void rr_report_first(struct rr_share *sh, const struct rr_rpc *rpc);
/* Records both ends' addresses in the connection's entry. */
void rr_report_ends(struct rr_conn *c);
void rr_report_share(struct rr_share *sh, enum rr_conn_state st, enum rr_reason why);
void rr_report_adopt(struct rr_conn *c);
void rr_report_close(struct rr_conn *c);

/* room.c */
size_t rr_own_memory(void);	/* chunk memory of each connection */
/* How much of it messages may take that the app has yet to read. */
size_t rr_own_ahead(void);
/* How many of the first bytes of a connection's chunk memory may hold … */
size_t rr_room_out(const struct rr_share *sh);	/* … what the app sends */
size_t rr_room_reply(const struct rr_share *sh); /* … what calls offer for their replies */

/* budget.c; functions that take a connection need its lock, or that nobody else has it */
void rr_budget_carry(struct rr_conn *c);	/* it has become carried */
void rr_budget_recount(struct rr_conn *c);	/* the memory that it uses may have changed */
void rr_budget_end(struct rr_conn *c);		/* this process has it no longer */
/* Calls rr_budget_recount() only where it could find a change: short messages use no memory
 * that counts. */
static inline void rr_budget_count(struct rr_conn *c)
{
	if (unlikely(c->share->pool.used || c->charged))
		rr_budget_recount(c);
}
/* In a forked child, where another thread of the parent may have been in the middle of
 * counting: the accounts start at zero, and rr_budget_inherit() adds each connection's part. */
void rr_budget_forked(void);
void rr_budget_inherit(const struct rr_conn *c);
/* Has this process used up its budget? Then each connection has only its guaranteed minimum. */
bool rr_budget_all_used(void);
/* May this connection send another message that needs memory? */
bool rr_budget_room(const struct rr_share *sh);
/* May it hold len more bytes that have been received ahead of the app? */
bool rr_budget_stash(const struct rr_share *sh, uint32_t len);
/* How many receives of this size the connection may have, out of `recvs` that are wanted. */
uint32_t rr_budget_recvs(uint32_t recvs, uint32_t size);

/* cache.c */
/* Why this peer gets no offer at present; RR_R_NONE: it may get one. */
enum rr_reason rr_cache_look(const struct sockaddr_in6 *peer, rr_time now);
void rr_cache_add(const struct sockaddr_in6 *peer, enum rr_reason why, rr_time until);
void rr_cache_drop(const struct sockaddr_in6 *peer);	/* it may get offers again */
void rr_cache_forked(void);

#endif
