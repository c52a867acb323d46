/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_H
#define RR_CONN_H

/* One TCP connection of the app that may be, or is, carried by RPC-over-RDMA: everything that
 * the preload layer knows of what lies below.
 *
 *   NEW ──▶ OFFERED (client) ──▶ CARRIED ──▶ DRAINING ──▶ TCP or DEAD
 *    │  ──▶ ANSWERED (server) ──▶ CARRIED
 *    └──▶ TCP for ever
 *
 * These are the states that statistics show (enum rr_conn_state); face.h has finer ones. The
 * app's fd stays the kernel's TCP socket, the anchor. Functions take the fd that the app used
 * in this call, because a connection may have several.
 *
 * Return values: bytes or 0; -errno (errno itself stays as it is); or RR_CONN_KERNEL: the call
 * is the kernel's, so the wrapper makes the plain one. No function blocks, but some wait for a
 * bounded time: rr_conn_send() up to 300 µs for the answer to an offer or, in a forked child,
 * for the connection's owner; rr_conn_shutdown() in a forked child up to a second for the
 * owner; rr_conn_daemon() up to two seconds. Any number of threads may call at once. A signal
 * handler that interrupted a call on the same connection gets -EDEADLK instead of a deadlock;
 * the wrapper turns that into EINTR or EAGAIN. */

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/base/types.h"
#include "core/engine/params.h"

struct rr_conn;

#include "core/conn/face.h"

#define RR_CONN_KERNEL	(-65536)

struct rr_conn_params {
	uint32_t program;	/* RPC program number of the offer */
	/* The fields that the user chooses are set; all others are zero. */
	struct rr_eng_params eng;
	uint32_t inline_size, device_inline;
	uint8_t ack_timeout;	/* of devices: struct rr_prov_params */
	/* Chunk memory (address space) of each connection on each side, in bytes. */
	uint32_t memory;
	rr_time upgrade_timeout;
	/* RR_AFTER_WAIT, RR_AFTER_AUTO, or the number of a call (core/conn/upgrade/when.h). */
	uint32_t offer_after;
	rr_time negative_time;
	rr_time spin;		/* the longest that a waiting thread spins; 0: never */
	rr_time spin_worth;	/* what a sleep and a wake-up cost the user; at most spin */
	uint32_t native_silent;	/* most native peers that have said nothing yet */
	uint32_t max_stash;	/* bytes received ahead of the app, per connection */
	uint32_t budget;	/* bytes that may wait for the peer, beyond one message … */
	uint32_t process_budget; /* … and for all connections of the process together */
	/* Bytes of chunk memory that a process keeps resident in idle connections. */
	uint32_t warm_memory;
	/* A connection that is idle for so long gives its memory back. If that did not pay
	 * before, it keeps the memory up to eight times as long. */
	rr_time idle_trim;
	uint32_t idle_stay;	/* connections that are left as they are all the same */
	/* Calls in the reverse direction may have chunks, whatever was agreed. */
	bool reverse_chunks;
	bool reliable_replies;
	bool verbs;		/* RDMA devices are offered and accepted, too */
	bool bypass_proxies;	/* accept offers of clients that see other addresses */
	bool ask_peer;		/* clients: ask for the server's release and what it lacks */
	bool tell_peer;		/* servers: tell clients that ask */
	/* The rule for a connection, asked when it is made. Either address may be NULL. */
	enum rr_mode (*mode)(bool server, const struct sockaddr *local,
			     const struct sockaddr *peer);
	bool alike;		/* mode() does not depend on the addresses */
	/* The same on the connecting side, once the program of the first call is known and
	 * before an offer is made: this result counts. May be NULL. */
	enum rr_mode (*mode_call)(const struct sockaddr *local, const struct sockaddr *peer,
				  uint32_t program);
	/* The dialect, by the rule that applies; program is that of the first call, NULL: not
	 * known. May be NULL: RR_DIALECT_V1. */
	enum rr_dialect (*dialect)(bool server, const struct sockaddr *local,
				   const struct sockaddr *peer, const uint32_t *program);
	bool require_call;	/* mode_call() may say RR_MODE_REQUIRE where mode() did not */
	uint32_t dialects;	/* all that it may return, as bits 1 << dialect; 0: any */
	/* The RDMA CM port at which native peers reach this connection's server, or this
	 * listener (peer is NULL then). 0: none. May be NULL. */
	uint16_t (*native)(bool server, const struct sockaddr *local,
			   const struct sockaddr *peer);
	/* Does `rdmarpc-stat --stop` hold back new upgrades on this host? At most two system
	 * calls; asked once for each upgrade. May be NULL. */
	bool (*stopped)(void);
	/* The descriptor that the app has for c at present, any of several; -1: none. May be
	 * NULL. */
	int (*fd_of)(const struct rr_conn *c);
	/* Can these bytes of the app be read? Asked before they are looked at, unless the
	 * kernel has read them already. May be NULL. */
	bool (*readable)(const struct iovec *iov, int n);
	/* c, which the app has as fd, has changed without a call of the app for it. Whatever
	 * waits for it must look again before descriptors of ours are closed. Called without
	 * any lock. May be NULL. */
	void (*turned)(struct rr_conn *c, int fd);
	/* The statistics segment, or NULL. make: makes it if there is none yet. */
	struct rr_stat_seg *(*stats)(bool make);
	/* The directory in which ends in other network namespaces meet, "" for none. Asked when
	 * it is needed. May be NULL. */
	const char *(*run_dir)(void);
};

/* About what a sleep and a wake-up of both ends cost: 10 to 15 us of CPU time, 30 to 50 us of
 * waiting. */
#define RR_SPIN_WORTH	(50 * RR_USEC)

/* Called once, before anything else here. The params must stay in memory. */
void rr_conn_setup(const struct rr_conn_params *p);

/* The connection for a socket that connect() was called on (peer as given to it), or that
 * accept() returned. NULL: plain TCP, because of a rule or lack of memory. The caller holds the
 * one reference until rr_conn_free(). Such as may be made later: first.h. */
struct rr_conn *rr_conn_client(int fd, const struct sockaddr *peer, socklen_t len);
struct rr_conn *rr_conn_server(int fd);

/* The app listens on fd: makes it known to clients of this host that connections there can be
 * carried. Returns a handle for rr_conn_serves_not(), to be called when it no longer listens;
 * 0: there is nothing to undo. */
uint32_t rr_conn_serves(int fd);
void rr_conn_serves_not(uint32_t which);

/* --- native peers have no library and make no TCP connection. The app gets a socket that is
 * connected to ourselves over loopback; questions for its addresses are answered here. --- */

/* A socket that listen() was called on; NULL unless a rule says that native peers may reach it.
 * It is closed and freed like a connection, and asked for readiness like one: POLLIN also says
 * that a native connection has come. Of a family, the process that asks first listens on the
 * RDMA side. */
struct rr_conn *rr_conn_listener(int fd);
/* Has this process, or an ancestor, made a listener that rr_conn_early() is for? */
bool rr_conn_any_early(void);
/* The process may be about to give up its privileges. If c is a listener whose RDMA port is
 * below 1024, it listens from now on. If the process forks before it asks for readiness, it
 * stops listening again, because the child may be the one to serve. */
void rr_conn_early(struct rr_conn *c);

/* The app was refused a descriptor (EMFILE): frees those that are held by answers that nobody
 * has taken up yet. False: there were none. Not to be called from within another call here. */
bool rr_conn_scarce(void);

/* The next native connection: a descriptor for the app, made with flags as for accept4(), and
 * *out. -EAGAIN: there is none now; RR_CONN_KERNEL: none can come to this process; else
 * -errno. */
int rr_conn_accept(struct rr_conn *l, int fd, int flags, struct rr_conn **out);

/* Do other processes share the TCP socket, while native peers reach this process alone? Then
 * accept() here must leave TCP clients to the others and not sleep in the kernel, where it
 * would miss native peers. */
bool rr_conn_defers(struct rr_conn *l);

/* connect() is called on fd. If a rule says that the peer is reached by RDMA, starts that and
 * returns the connection, which may fail at once (see rr_conn_dialed()); else NULL. */
struct rr_conn *rr_conn_dial(int fd, const struct sockaddr *peer, socklen_t len);

/* What connect() has to report: 0: connected, said once; -EALREADY: not yet; -EISCONN; the
 * -errno of a refusal, said once, after which it is tried again; RR_CONN_KERNEL: RDMA is not,
 * or no longer, used: make the plain call. wait: the caller asks again and makes that plain
 * call itself; otherwise it is made in here when the time has come. */
int rr_conn_dialed(struct rr_conn *c, int fd, bool wait);

/* Answers getsockname() or getpeername(). False: the kernel's own answer is right. */
bool rr_conn_name(struct rr_conn *c, bool peer, struct sockaddr *addr, socklen_t *len);

/* The kernel has just told the app one of the two addresses: len bytes at addr. */
void rr_conn_named(struct rr_conn *c, bool peer, const struct sockaddr *addr, socklen_t len);

/* --- what a call can see of the connection without entering it is in face.h --- */

/* --- data. Of the flags MSG_PEEK leaves the bytes in place; MSG_DONTWAIT and MSG_WAITALL are
 * the wrapper's business. -EAGAIN: wait with rr_conn_arm(), then call again. -EPIPE and
 * -ECONNRESET are as the kernel's; the wrapper raises SIGPIPE. --- */
ssize_t rr_conn_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_conn_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);

/* The app uses fd in a way that only the kernel can serve. True: from here on it is the
 * kernel's. False: something was already said to the peer. */
bool rr_conn_let_go(struct rr_conn *c);

/* FIONREAD: the bytes that a read would find; or RR_CONN_KERNEL. */
int rr_conn_inq(struct rr_conn *c, int fd);

/* A counter that grows with each record that comes by RDMA, and once more when the peer's
 * stream is over. Reads do not lower it. 0 while the connection is not carried. */
uint64_t rr_conn_came(struct rr_conn *c);

/* SO_ERROR of a carried connection (cleared by this, as in the kernel), or RR_CONN_KERNEL. fd:
 * its number in this call; the number that was last used may be closed. */
int rr_conn_take_error(struct rr_conn *c, int fd);

/* Keeps an error that was taken but could not be returned, because there were bytes to return:
 * for the next call. */
void rr_conn_keep_error(struct rr_conn *c, int err);

/* Options that we hide or imitate. True: *val was filled in (get) or remembered (set). */
bool rr_conn_getopt(struct rr_conn *c, int level, int name, void *val, socklen_t *len);
bool rr_conn_setopt(struct rr_conn *c, int level, int name, const void *val, socklen_t len);

/* The kernel has accepted an option that the app has set. */
void rr_conn_opt_set(struct rr_conn *c, int fd, int level, int name);

/* --- readiness --- */

/* The poll bits among want|POLLERR|POLLHUP that hold now. Does not sleep, but may poll the
 * anchor and take in an offer or an answer. RR_CONN_KERNEL: ask the kernel. A caller that asks
 * the kernel anyway adds to want: */
/* the kernel will be asked, then this again if it has news */
#define RR_ASK_FIRST	0x10000u
#define RR_ASK_TOLD	0x20000u	/* the kernel reported bytes or an end, and no error */
#define RR_ASK_ALONE	0x40000u	/* no other set watches it: its wake-up fd may change */
int rr_conn_poll(struct rr_conn *c, int fd, unsigned want);

/* Whether the kernel's poll bits justify RR_ASK_TOLD; else 0. */
static inline unsigned rr_ask_told(unsigned told)
{
	return (told & (POLLIN | POLLERR | POLLHUP)) == POLLIN ? RR_ASK_TOLD : 0;
}

/* Would a read find bytes or the end? True: the kernel has said so within a tick of the coarse
 * clock, and nobody has read since, as far as this process sees. Always false for a connection
 * on which the kernel does not have the first word. No system call. */
bool rr_conn_has_seen(struct rr_conn *c);

/* Is it worth calling rr_conn_poll()? No lock and no system call: for spinning. */
bool rr_conn_peek(const struct rr_conn *c, unsigned want);

/* One thread's spin, for one connection or many. Starts out as zeroes, then rr_conn_spin() is
 * called for each connection:
 *
 * 	if (rr_spin_begin(&s, deadline)) {
 * 		while (nothing is there && (rr_spin_on(&s) || longer()))
 * 			;
 * 		rr_spin_end(&s, was there something);
 * 	}
 *
 * where longer() calls rr_conn_spin() for each again and then rr_spin_longer(). */
struct rr_spin {
	rr_time want;		/* the longest spin that a connection asked for */
	rr_time began, now, end;
	/* The clock of statistics, by which now is read where it is the CPU's counter; NULL:
	 * rr_now() alone. stamp and stamp_began: what that clock said when now was read last,
	 * and when the spin began. */
	struct rr_ticks *clock;
	uint64_t stamp, stamp_began;
	struct rr_counters *count;	/* of that connection, which may be gone by the end */
	uint32_t cpu;		/* the CPU that the thread runs on, from 1; 0: unknown */
	uint32_t cpus, spinners;	/* of the process */
	uint32_t yields;	/* how often to yield the CPU first */
	uint32_t seat;		/* see spinning.c */
	bool seated;
	bool enough;		/* no other connection can want more */
	bool crowded, hogged, just_hogged;	/* struct rr_spin_in */
	bool lost;		/* the CPU was given to another thread meanwhile */
};

/* Puts into s how long to spin for c (or how much longer, if the spin has begun). 0 where
 * spinning does not pay, for example if the peer runs on this thread's CPU. Once s has enough,
 * the other connections need not be asked. */
void rr_conn_spin(const struct rr_conn *c, struct rr_spin *s);

/* rr_conn_peek() has found something on c. When s last read its clock there was nothing yet, so
 * statistics take that reading as the time at which the message came. The message is about to
 * be taken in. No lock. */
void rr_conn_seen(const struct rr_conn *c, const struct rr_spin *s);
/* The spin is over. paid: what was waited for has come. */
void rr_conn_spun(const struct rr_spin *s, bool paid);

/* Collects what the first connection needs to know of this process and its CPUs. */
void rr_spin_look_around(struct rr_spin *s);
/* False: spinning is not worth it, or enough threads of this process spin already. */
bool rr_spin_begin(struct rr_spin *s, rr_time deadline);
/* Lets a moment pass. False: the time is over. */
bool rr_spin_on(struct rr_spin *s);
bool rr_spin_longer(struct rr_spin *s, rr_time deadline);
void rr_spin_end(struct rr_spin *s, bool paid);

/* A thread is about to sleep until `want` holds. 0: armed, so sleep on rr_conn_fds(); 1: there
 * is something already, look again. After 0 there must be exactly one rr_conn_disarm() when the
 * thread has woken for whatever reason: a doorbell is consumed only when all threads that slept
 * for it have woken. */
int rr_conn_arm(struct rr_conn *c, int fd, unsigned want);
void rr_conn_disarm(struct rr_conn *c, int fd);
/* The same by a thread that goes back to the app with what it was woken for, and no epoll set
 * has the wake-up fd: the doorbell may be consumed by the next rr_conn_arm(), when nobody waits
 * for this thread. Until then the wake-up fd is readable. */
void rr_conn_disarm_later(struct rr_conn *c, int fd);

/* A thread's wait on connections that have nothing to tell beyond what the kernel will say of
 * the app's fds; only when it does, rr_conn_poll() is asked. Lock-free and without system calls
 * (plainwait.c). */
struct rr_plainwait;
/* Adds c to the wait *w, which is NULL before the first. False: c has more to tell, or the wait
 * has no room for it: use rr_conn_arm(). c need not be referenced, and may even have been
 * freed. */
bool rr_plainwait_add(struct rr_plainwait **w, const struct rr_conn *c);
/* Asked before the thread sleeps, when all are added. False: ask rr_plainwait_stays() for each,
 * and remove those for which it returns false. */
bool rr_plainwait_is_sure(struct rr_plainwait *w);
bool rr_plainwait_stays(const struct rr_conn *c);
/* A wait of this thread, or another's, that was paused, with all that it covers: the
 * connections at n fds. NULL: there is none, or it no longer holds good. files: see
 * rr_plainwait_pause(). */
struct rr_plainwait *rr_plainwait_resume(uint32_t files, uint32_t *n);
/* The connection at fd, which is covered, need not be added again after a pause; and is that
 * so? */
void rr_plainwait_note(struct rr_plainwait *w, int fd);
bool rr_plainwait_knows(const struct rr_plainwait *w, int fd);
/* In place of rr_plainwait_end(), if all connections were noted: the thread has woken, and will
 * perhaps wait for the same again. files changes whenever an fd may stand for another file than
 * before; it was read before the connections were added. */
void rr_plainwait_pause(struct rr_plainwait *w, uint32_t files);
/* Removes c, because the kernel has reported something and c is about to be asked. */
void rr_plainwait_leave(struct rr_plainwait *w, const struct rr_conn *c);
/* The thread has woken. NULL: no wait was begun. */
void rr_plainwait_end(struct rr_plainwait *w);

/* At rest, a connection is armed, there is nothing to read, and whatever comes (the peer's
 * death included) makes its wake-up fd readable. A thread that waits to read need not call
 * anything for it: it sleeps on the fd that this returns, for POLLIN, in place of the app's.
 * -1: the connection is not at rest. rr_conn_arm() puts it to rest and any other call ends
 * that, without harm to threads that are asleep already. Lock-free, no system call. A thread
 * that was given a descriptor counts as after rr_conn_arm(): afterwards it calls
 * rr_conn_disarm() if the descriptor became readable, else rr_conn_rested(). */
int rr_conn_rest(struct rr_conn *c);
void rr_conn_rested(struct rr_conn *c);
/* c rests, and becomes the member `at` of the standing wait (standing.h). False: it no longer
 * rests, or is a member already. c need not be referenced, and may be another connection by
 * now. */
bool rr_conn_stands(struct rr_conn *c, uint32_t at);
/* A member, about to part from the standing wait, counts as after rr_conn_rest() from now
 * on. */
void rr_conn_sleeps(struct rr_conn *c);
/* The same for a connection that the caller has just armed, and is counted for already. */
int rr_conn_rests(const struct rr_conn *c);

/* Is the connection of a kind that may rest? Lock-free. */
bool rr_conn_may_rest(const struct rr_conn *c);

/* Has no message come or gone for a while, and may the connection rest? Then its memory need
 * not be looked at again and again. Lock-free. */
bool rr_conn_is_quiet(const struct rr_conn *c);

/* The same as rr_conn_arm() for an epoll set, which stays armed without any thread: there is no
 * rr_conn_disarm(), and it is called again after each event that the set has reported. */
int rr_conn_watch(struct rr_conn *c, int fd, unsigned want);
/* The same if the connection is carried and all it takes is to sleep on `wake` and on the
 * anchor for POLLIN and POLLRDHUP, without a time limit. -EAGAIN: that is not so, or no longer,
 * and the set has to ask rr_conn_fds() again; it may be armed or not. want: also
 * RR_ASK_ALONE. */
int rr_conn_watch_plain(struct rr_conn *c, int fd, unsigned want, int wake);

/* What to sleep on while waiting for `want`: fills in up to 2 entries and returns how many. The
 * anchor is polled for POLLRDHUP only, unless its bytes are the app's. *until: when to look
 * again at the latest, whatever happens (a deadline of the upgrade), or RR_TIME_NEVER. */
int rr_conn_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2], rr_time *until);

/* The wake-up fd of a carried connection, for an inner epoll set; -1: none. rr_conn_drain()
 * consumes its doorbells and must come before rr_conn_poll(). It returns true if what
 * rr_conn_fds() says may have changed. */
int rr_conn_wake_fd(const struct rr_conn *c);
/* Can a thread sleep on that in recv()? */
bool rr_conn_wakes_by_socket(const struct rr_conn *c);
/* From the next time that a thread goes to sleep while no other does, it can. */
void rr_conn_wake_by_socket(struct rr_conn *c);
bool rr_conn_drain(struct rr_conn *c);
/* The same, but as rr_conn_disarm_later(): by rr_conn_watch() then. */
bool rr_conn_drain_later(struct rr_conn *c);
/* An epoll set is about to have the wake-up fd, or to report edges of it: what was left to be
 * consumed later is consumed, and is no news to the set. */
void rr_conn_in_set(struct rr_conn *c);

/* A thread with nothing to do is about to sleep: gives the memory of idle connections back.
 * Returns when to call again, or RR_TIME_NEVER. */
rr_time rr_conn_idle(rr_time now);

/* --- end --- */

/* Called before the kernel's shutdown(fd, how). The caller makes that call after 0, 1 and
 * RR_CONN_KERNEL; -errno is the app's result, and no call is made. After 1 the app is told
 * success even if the kernel's call fails, because a peer that has closed answers our end mark
 * with a reset. */
int rr_conn_shutdown(struct rr_conn *c, int fd, int how);

/* Called before the kernel closes this process's last fd of the connection. */
void rr_conn_close(struct rr_conn *c, int fd);

/* The app's fd has gone away without a call that we saw: its number belongs to another file
 * now. */
void rr_conn_vanished(struct rr_conn *c);

/* Gives the reference back, after rr_conn_close(), when no call is inside any more. */
void rr_conn_free(struct rr_conn *c);

/* --- fork, from pthread_atfork. Functions that take a connection are called for every one that
 * the wrapper's table has. --- */
/* For each, before rr_conn_fork_prepare(), because it takes the connection's lock. */
void rr_conn_fork_nears(struct rr_conn *c);
void rr_conn_fork_prepare(void);
void rr_conn_fork_parent(void);
void rr_conn_fork_child(void);
void rr_conn_forked(struct rr_conn *c);	/* parent, before the fork: one more process has it */
/* The process is about to go on as its own child: what only this process can use goes back to
 * TCP, within two seconds. */
void rr_conn_daemon(void);
/* Parent, for each: the fork has failed. */
void rr_conn_fork_failed(struct rr_conn *c);

/* Moves the descriptor fd of ours (core/base/ownfd.h) to another number, because the app wants
 * to put a file there. False: it has to stay. The caller closes the old number or replaces
 * it. */
bool rr_conn_move_fd(int fd);

#endif
