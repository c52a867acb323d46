/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_BASE_H
#define RR_CONN_BASE_H

/* The ground floor of core/conn: connections and their memory, and what knows of no other
 * connection's doings. It calls nothing above.
 *
 *   share.c      what a family shares             carrier.c    the queue pair in that
 *   state.c      its state                        socket.c     the kernel's socket
 *   ref.c        references, and the last one     slab.c       where connections live
 *   params.c     options                          report.c     statistics, log
 *   pool.c       chunk memory                     room.c       how that is shared out
 *   budget.c     memory that peers may cost       warm.c       memory that is kept
 *   idle.c       memory of idle connections       half.c       answers not taken up yet
 *   cache.c      peers without shim               ends.c       addresses of both ends
 *   queue.c      what the kernel has queued       track.c      records that go by on TCP
 *   pair.c       a TCP connection to ourselves    spin.c       how long to spin, pure
 *   spinning.c   the threads that spin            calls.c      calls without reply, counted
 *   plainwait.c  waits of the kernel's connections */

#include "core/base/iov.h"
#include "core/base/thread.h"
#include "core/conn/base/plainwait.h"
#include "core/conn/base/state.h"
#include "core/conn/base/streams.h"

extern const struct rr_conn_params *rr_cp;
extern struct rr_sizes rr_conn_sizes;

/* May connections of this process still be carried by what its children could not use? */
extern _Atomic bool rr_conn_forks;

/* carrier.c: the queue pair of a share, from its making to its end. What returns int returns
 * what the provider's function of that meaning does (core/prov/prov.h). */
/* A share whose queue pair is yet to be set up; NULL: no memory. */
struct rr_share *rr_carrier_new(const struct rr_prov_ops *ops, const struct rr_prov_params *p);
/* The client's side of an upgrade: what a provider offers. NULL, and *why: a child could not
 * use it, or the provider cannot be had. */
struct rr_share *rr_carrier_offer(const struct rr_prov_ops *ops, const struct rr_prov_params *p,
				  struct rr_nego_prov *offer, enum rr_reason *why);
/* The server's side, likewise, and what to answer. */
struct rr_share *rr_carrier_answer(const struct rr_prov_ops *ops,
				   const struct rr_prov_params *p,
				   const struct rr_nego_prov *offer,
				   struct rr_nego_prov *answer, enum rr_reason *why);
/* Of what was offered only what this provider made stays; false: it has offered nothing. */
bool rr_carrier_choose(struct rr_share **offered, uint8_t id);
int rr_carrier_join(struct rr_share *sh, const struct rr_prov_addr *answer);
/* In all four cases (offered, answered, called, taken): is it connected now? */
int rr_carrier_establish(struct rr_share *sh);
/* The answer is not valid any more; false: it has been taken up, or is for good. */
bool rr_carrier_withdraw(struct rr_share *sh);
/* Calls a native peer. */
int rr_carrier_call(struct rr_share *sh, const struct rr_prov_params *p,
		    const struct sockaddr *to, const struct sockaddr *from);
/* A listener for native peers, in memory of its own; and the next one who has called. */
int rr_carrier_listen(const struct rr_prov_ops *ops, const struct sockaddr *addr, bool v6only,
		      const struct rr_prov_params *p, struct rr_lst **out);
void rr_carrier_unlisten(struct rr_lst *lst);
int rr_carrier_tend(struct rr_lst *lst);
int rr_carrier_take(struct rr_lst *lst, struct rr_share *sh, const struct rr_prov_params *p);
/* What the provider's error rc says, if it says more than other does. */
enum rr_reason rr_carrier_why(const struct rr_share *sh, int rc, enum rr_reason other);
/* As statistics know it. */
enum rr_carrier rr_carrier_kind(const struct rr_share *sh);
/* Gives memory back that holds nothing now. */
void rr_carrier_trim(struct rr_share *sh);
/* Ends it for the peer, at once; it is still to be closed, … */
void rr_carrier_disconnect(struct rr_share *sh);
/* … which ends it for this process; the share stays. */
void rr_carrier_close(struct rr_share *sh);
/* Ends it and the share, and all that were offered beside it; NULL is none. */
void rr_carrier_free(struct rr_share *sh);

/* slab.c */
struct rr_conn *rr_slab_get(bool server, int fd);	/* NULL: no memory */
void rr_slab_carried(struct rr_conn *c);	/* its state becomes RR_S_CARRIED */
void rr_slab_end(struct rr_conn *c);		/* its share is about to go … */
void rr_slab_put(struct rr_conn *c);		/* … and has gone */
/* This process is one that has the connection (0, its pid) or no longer (its pid, 0): a slot of
 * its own, if one is free. */
void rr_family_swap(struct rr_share *sh, int32_t was, int32_t now);
/* This process has it no longer: how many still do. Under its lock. */
uint32_t rr_conn_leave(struct rr_share *sh);
/* Can forked children use it as we do? */
bool rr_conn_shareable(const struct rr_share *sh);
/* How many processes have the connection, but for those that have ended. Under its lock. Some
 * system calls for each other one. */
uint32_t rr_conn_procs(struct rr_share *sh);
/* fn sees connections that do not end meanwhile. False: another thread is at it, try later. */
bool rr_conn_each_carried(void (*fn)(struct rr_conn *, void *), void *ctx);
/* The same with those that are in use, or have been since they were last found trimmed. */
bool rr_slab_each_in_use(void (*fn)(struct rr_conn *, void *), void *ctx);
/* The connection at this index is in use from now on, or rests: under its lock, or before
 * anybody can have it. */
void rr_slab_in_use(uint32_t index);
void rr_slab_rests(const struct rr_conn *c);
/* Connection i of those that this process has had at one time, in whatever state; NULL: there
 * are no more. */
struct rr_conn *rr_slab_at(uint32_t i);
/* The lock of the slabs: no connection is made, or becomes carried. False: a signal handler's,
 * that interrupted who has it. */
bool rr_slab_hold(void);
void rr_slab_let(void);
/* The same with the one that holds off the end of connections. */
bool rr_slab_hold_ends(void);
void rr_slab_let_ends(void);
void rr_slab_forked(void);		/* in a child, before all else */

/* ends.c; under its lock. The addresses of its own end, and of the peer's: the kernel is asked
 * once. Of a family AF_UNSPEC: not known. */
const struct sockaddr *rr_ends_own(struct rr_conn *c);
const struct sockaddr *rr_ends_peer(struct rr_conn *c);
bool rr_ends_known(struct rr_conn *c);		/* both of them? */
void rr_ends_changed(struct rr_conn *c);	/* its socket was connected anew */

/* half.c */
/* the answer is out, until c->deadline; under its lock */
void rr_half_add(struct rr_conn *c);
void rr_half_leave(struct rr_conn *c);
/* the oldest's deadline, or when to try again; 0 there is none */
rr_time rr_half_due(void);
/* The oldest that was answered before until and that take() does not pass over by -ESRCH: out
 * of the list if that gives 0. What take() has said; -ESRCH none, -EAGAIN another thread is at
 * it. */
int rr_half_pick(rr_time until, rr_time now, int (*take)(struct rr_conn *c),
		 struct rr_conn **out);
void rr_half_forked(void);

/* socket.c */
/* What the kernel's poll() says now of the app's socket, or of another of ours. */
unsigned rr_anchor_poll(int fd, unsigned want);
void rr_anchor_break(int fd);
/* Its close, whose ever it is, will be a reset. */
void rr_anchor_reset(int fd);

/* queue.c. The bytes of iov that the kernel takes, or has, now: how many, or -errno. */
ssize_t rr_ride_kernel_send(int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_ride_kernel_recv(int fd, const struct iovec *iov, int n, size_t skip, size_t most,
			    int flags);
/* Bytes in the kernel's queue. What is pending of an error stays so, unlike where one reads. */
size_t rr_ride_queued(int fd);
/* TCP_INFO, of which the kernel's may be shorter: zeroes then. */
struct tcp_info;
bool rr_ride_info(int fd, struct tcp_info *i);
/* Bytes that the kernel has received beyond those in its queue and those counted in, ours
 * included. A FIN is one; who finds more has not read them. May be less than 0, by what comes
 * meanwhile. */
int64_t rr_ride_unread(const struct tcp_info *i, const struct rr_track *in, int fd);
/* Is there room for len more bytes, so that all of them are taken? */
bool rr_ride_is_room(int fd, size_t len);
#define RR_RIDE_REACH	65536u	/* bytes of the queue that are looked at */
/* The bytes from at on, which stay there: how many. */
size_t rr_ride_peek_at(int fd, size_t at, uint8_t *buf, size_t len);
/* What of the queue goes to nowhere: iovecs for n bytes, at most max. */
int rr_ride_nowhere(struct iovec *iov, int max, size_t n);

/* pair.c: a TCP connection of this process to itself, over loopback. One end is the app's: a
 * new number, made with flags as of accept4(); the other is ours. -errno. */
int rr_pair_new(sa_family_t family, int flags, int *far);
/* The same for the app's own socket fd, which is not connected. 0 or -errno; then it is as
 * before. */
int rr_pair_connect(int fd, int *far);
/* Takes our end away: the app's has the peer's FIN then, or its reset. */
void rr_pair_end(int *far, bool reset);
/* The other end of fd has a reset; nothing more goes by fd. */
void rr_pair_reset(int fd);

/* idle.c */
/* when to look; 0 nothing to do, or somebody is looking */
extern _Atomic rr_time rr_idle_next;

/* The connection is carried from now on, or in use again. Under its lock. */
void rr_idle_wake(struct rr_share *sh, rr_time now);

/* A message has come or gone. That this process has no look before it although the connection
 * was not trimmed means that another of its family woke it, and may be gone by now. */
static inline void rr_idle_used(struct rr_share *sh, rr_time now)
{
	if (unlikely(sh->trimmed || !atomic_load_explicit(&rr_idle_next, memory_order_relaxed)))
		rr_idle_wake(sh, now);
}

/* Looks at connections that may be idle, if it is time to: when to do so again.
 * RR_TIME_NEVER */
rr_time rr_idle_look(rr_time now);

/* warm.c */
/* A buffer may just have been freed: is it the last, then the pages that are kept are counted,
 * and given back where the process has too many. */
void rr_idle_count_warm(struct rr_share *sh);
static inline void rr_idle_warm(struct rr_share *sh)
{
	if (unlikely(!sh->pool.used && sh->pool.peak > sh->warm))
		rr_idle_count_warm(sh);
}

/* Chunk memory that is not in use goes back; not the connection's own tables, which one that is
 * at work would have again at once. */
void rr_idle_trim(struct rr_share *sh);

/* calls.c: the statistics of procedures, under its lock. A message that the engine has taken,
 * its head still there, and one that is delivered. */
void rr_calls_sent(struct rr_share *sh, const struct rr_eng_out *out);
void rr_calls_delivered(struct rr_share *sh, const struct rr_rpc *rpc,
			const struct rr_rx_ent *e);
/* The tables are about to go: keeps what lies in the head. */
void rr_calls_idle(struct rr_share *sh);

/* report.c */
void rr_report_open(struct rr_conn *c, int fd);
void rr_report_client(struct rr_conn *c, int fd);	/* … which is not seen yet, perhaps */
void rr_report_forked(void);			/* in the child */
void rr_report(struct rr_conn *c, enum rr_conn_state st, enum rr_carrier carrier,
	       enum rr_reason why);
/* What the engine speaks. */
void rr_report_dialect(struct rr_share *sh);
/* The same, and what the first message that has come says. */
void rr_report_first(struct rr_share *sh, const struct rr_rpc *rpc);
/* Both ends' addresses, into its entry. */
void rr_report_ends(struct rr_conn *c);
void rr_report_share(struct rr_share *sh, enum rr_conn_state st, enum rr_reason why);
void rr_report_adopt(struct rr_conn *c);
void rr_report_close(struct rr_conn *c);

/* room.c */
size_t rr_own_memory(void);	/* for chunks, that each connection has */
/* Bytes of it that messages may take which the app has yet to read. */
size_t rr_own_ahead(void);
/* So many of the first bytes of a connection's memory are for … */
size_t rr_room_out(const struct rr_share *sh);	/* … what the app sends */
size_t rr_room_reply(const struct rr_share *sh); /* … what calls offer for their replies */

/* budget.c; those that take a connection: under its lock, or when nobody has it any more */
void rr_budget_carry(struct rr_conn *c);	/* it is carried … */
void rr_budget_recount(struct rr_conn *c);	/* … what it uses may have changed … */
void rr_budget_end(struct rr_conn *c);		/* … and this process has it no longer */
/* rr_budget_recount(), where that finds anything: short messages use no memory that counts. */
static inline void rr_budget_count(struct rr_conn *c)
{
	if (unlikely(c->share->pool.used || c->charged))
		rr_budget_recount(c);
}
/* In a forked child: what another thread had half counted begins again from the connections'
 * parts. */
void rr_budget_forked(void);
void rr_budget_inherit(const struct rr_conn *c);
/* Has this process nothing left but what each connection has in any case? */
bool rr_budget_all_used(void);
/* May it take another message that needs memory? */
bool rr_budget_room(const struct rr_share *sh);
/* And receive one ahead of the app? */
bool rr_budget_stash(const struct rr_share *sh, uint32_t len);
/* How many receives of this size, of those that one would like. */
uint32_t rr_budget_recvs(uint32_t recvs, uint32_t size);

/* cache.c */
/* Why this peer is not asked now; RR_R_NONE: it may be. */
enum rr_reason rr_cache_look(const struct sockaddr_in6 *peer, rr_time now);
void rr_cache_add(const struct sockaddr_in6 *peer, enum rr_reason why, rr_time until);
void rr_cache_forked(void);
/* The same family, address and port? */
bool rr_cache_same(const struct sockaddr_in6 *a, const struct sockaddr_in6 *b);

#endif
