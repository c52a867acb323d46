/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONN_H
#define RR_CONN_H

/* One TCP connection of the app that may be, or is, carried by RPC-over-RDMA: all that
 * the preload layer knows of the rest.
 *
 *   NEW ──▶ OFFERED (client) ──▶ CARRIED ──▶ DRAINING ──▶ TCP or DEAD
 *    │  ──▶ ANSWERED (server) ──▶ CARRIED
 *    └──▶ TCP for ever
 *
 * The app's fd stays the kernel's TCP socket, the anchor. Calls take the fd number that
 * the app used, since a connection may have several.
 *
 * Returns: bytes or 0, -errno (errno itself is left alone), or RR_CONN_KERNEL: "this is
 * the kernel's: make the plain call". No call here blocks (rr_conn_send and rr_conn_recv
 * may spend 300 µs waiting for a verdict). Any thread, any number at once. Not for use
 * within a signal handler that interrupted a call on the same connection: that gets
 * -EDEADLK instead of a deadlock; the wrapper makes it EINTR or EAGAIN. */

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/base/types.h"

#define RR_CONN_KERNEL	(-65536)

struct rr_conn;
struct rr_counters;

struct rr_conn_params {
	uint32_t program;	/* RPC program number of the offer */
	uint32_t inline_size, device_inline, credits, bc_credits;
	uint8_t ack_timeout;	/* of devices: struct rr_prov_params */
	uint32_t max_msg, reply_chunk, reply_chunk_max;
	/* chunk memory (address space) per connection and side, bytes */
	uint32_t memory;
	uint32_t max_chunks, max_segs, max_exposed;
	rr_time done_timeout;
	rr_time upgrade_timeout;
	/* core/conn/upgrade/when.h: RR_AFTER_WAIT, RR_AFTER_AUTO or with which call */
	uint32_t offer_after;
	rr_time negative_time;
	rr_time spin;		/* most that a waiting thread spins; 0 never */
	rr_time spin_worth;	/* of a sleep and a wake-up, to the user; at most spin */
	uint32_t native_silent;	/* native peers that have come and said nothing, at most */
	uint32_t max_stash;	/* bytes received ahead of the app, per connection */
	uint32_t budget;	/* bytes that may wait for the peer, beyond one message … */
	uint32_t process_budget; /* … and of all connections of the process */
	/* bytes of chunk memory kept resident while idle, per process */
	uint32_t warm_memory;
	/* a connection idle this long gives its memory back; later, up to eight times this, if
	 * that has not paid before */
	rr_time idle_trim;
	enum rr_reply_chunks reply_chunks;
	/* struct rr_eng_params: draft02 */
	uint32_t ccp_program, rdma_reads, msgp_threshold, msgp_align;
	/* calls against the direction may have chunks, whatever is agreed */
	bool reverse_chunks;
	bool reliable_replies;
	bool done_property;	/* v2: they may be agreed on by our private property */
	bool lenient_read_chunks; /* Read chunks at any position are taken */
	bool verbs;		/* RDMA devices are offered and taken, too */
	bool bypass_proxies;	/* offers are taken though the client sees other addresses */
	char run_dir[108];	/* where ends in different network namespaces meet; "" none */
	/* The rule for a connection, when it is made. Either address may be NULL. */
	enum rr_mode (*mode)(bool server, const struct sockaddr *local,
			     const struct sockaddr *peer);
	bool alike;		/* mode() says the same whatever the addresses are */
	/* The same on the connecting side once the program of the first call is known, before
	 * the offer: this answer counts. May be NULL. */
	enum rr_mode (*mode_call)(const struct sockaddr *local, const struct sockaddr *peer,
				  uint32_t program);
	/* What is spoken on it, by the rule that decides; program is that of the first call,
	 * NULL not known. May be NULL: RR_DIALECT_V1. */
	enum rr_dialect (*dialect)(bool server, const struct sockaddr *local,
				   const struct sockaddr *peer, const uint32_t *program);
	bool require_call;	/* mode_call() may say RR_MODE_REQUIRE where mode() did not */
	uint32_t dialects;	/* all that it may answer: bit 1 << dialect; 0 any */
	/* The RDMA CM port at which native peers reach the server's end of such a connection,
	 * or of a listener (peer is NULL then); 0 none. May be NULL. */
	uint16_t (*native)(bool server, const struct sockaddr *local,
			   const struct sockaddr *peer);
	/* Does `rdmarpc-stat --stop` hold back new upgrades on this host? At most one system
	 * call; asked once per upgrade. May be NULL. */
	bool (*stopped)(void);
	/* The number by which the app has c now, of several any; -1 none. May be NULL. */
	int (*fd_of)(const struct rr_conn *c);
	/* c, which the app has by fd, is no longer what it was, by no call of the app's for it:
	 * what waits for it has to look again, before descriptors of ours are closed. Called
	 * without any lock. May be NULL. */
	void (*turned)(struct rr_conn *c, int fd);
	/* The statistics segment, or NULL. make: if there is none yet, makes it. */
	struct rr_stat_seg *(*stats)(bool make);
};

/* What a sleep and a wake-up of both ends cost, about: 10 to 15 us of CPU time, 30 to 50 us of
 * waiting. */
#define RR_SPIN_WORTH	(50 * RR_USEC)

/* Once, before anything else here, with params that stay. */
void rr_conn_setup(const struct rr_conn_params *p);

/* A connection for a socket that connect() was called on (peer as given to it), or that
 * accept() returned. NULL: not for us (policy, memory): plain TCP. The caller holds the
 * one reference to it until rr_conn_free(). */
struct rr_conn *rr_conn_client(int fd, const struct sockaddr *peer, socklen_t len);
struct rr_conn *rr_conn_server(int fd);

/* The app listens on fd: clients of this host may know that its connections can be carried.
 * What rr_conn_serves_not() wants when it does so no longer; 0 nothing. */
uint32_t rr_conn_serves(int fd);
void rr_conn_serves_not(uint32_t which);

/* --- native peers: no library of ours at the other end, and no TCP connection. The app has a
 * socket that is connected to us, over loopback; what it would say of names is answered
 * here. --- */

/* A socket that listen() was called on: NULL unless a rule says that native peers reach it. It
 * is closed and freed as a connection is, and asked for readiness: POLLIN also says that a
 * native connection has come. Which process of a family listens on the RDMA side is decided at
 * the first such question. */
struct rr_conn *rr_conn_listener(int fd);
/* Has this process, or one that it was forked from, made one that rr_conn_early() is for? */
bool rr_conn_any_early(void);
/* The process may give up its privileges: below port 1024, if c is a listener, it listens from
 * now on. If it forks before the first question, it does so no more: that may be the
 * child's. */
void rr_conn_early(struct rr_conn *c);

/* The app was refused a descriptor (EMFILE): gives back what answers that nobody has taken up
 * yet hold of them. False: nothing. Not within a call here. */
bool rr_conn_scarce(void);

/* The next native connection: an fd for the app, made with flags as of accept4(), and *out;
 * -EAGAIN there is none; RR_CONN_KERNEL none comes in by this process; else -errno. */
int rr_conn_accept(struct rr_conn *l, int fd, int flags, struct rr_conn **out);

/* Do other processes share the TCP socket, and native peers reach this one alone? Then it
 * leaves them what the kernel has: who waits in the kernel's accept() for what another got is
 * not there for those. */
bool rr_conn_defers(struct rr_conn *l);

/* connect() is called on fd. A rule says that peer is reached by RDMA: the connection, which is
 * being made (or has failed, see rr_conn_dialed()); else NULL. */
struct rr_conn *rr_conn_dial(int fd, const struct sockaddr *peer, socklen_t len);

/* How it goes, for connect(): 0 it has come about, said once; -EALREADY it has not yet;
 * -EISCONN; a refusal's -errno, said once, after which it is tried again; RR_CONN_KERNEL: it is
 * not, or no longer, made by RDMA: make the plain call. wait: the caller will ask again, and
 * make that call if need be; else it is made here when the time has come. */
int rr_conn_dialed(struct rr_conn *c, int fd, bool wait);

/* getsockname() and getpeername(), if the kernel's answer is not the right one. */
bool rr_conn_name(struct rr_conn *c, bool peer, struct sockaddr *addr, socklen_t *len);

/* What the kernel has just told the app of one that it is asked of: len bytes of addr. */
void rr_conn_named(struct rr_conn *c, bool peer, const struct sockaddr *addr, socklen_t len);

/* TCP for ever (or NULL)? Lock-free: then nothing below needs to be called any more, but
 * rr_conn_close() and rr_conn_free(). */
bool rr_conn_is_tcp(const struct rr_conn *c);

/* Is it carried, that is, does rr_conn_wake_fd() count? Lock-free. */
bool rr_conn_is_carried(const struct rr_conn *c);
/* Is nothing of ours under way on it, so that its end is a matter of the kernel's alone? */
bool rr_conn_is_kernels(const struct rr_conn *c);

/* Did is_tcp or is_carried change since this was last asked? (Test and clear; the wrapper
 * then brings its epoll registrations up to date.) */
bool rr_conn_changed(struct rr_conn *c);

/* --- data; flags: MSG_PEEK, MSG_DONTWAIT and MSG_WAITALL are the wrapper's business
 * except that MSG_PEEK leaves the bytes. -EAGAIN: wait with rr_conn_arm(), call again.
 * -EPIPE and -ECONNRESET as the kernel would; the wrapper raises SIGPIPE. --- */
ssize_t rr_conn_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
ssize_t rr_conn_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);

/* Does that look at the app's bytes before the kernel has taken them, and found memory there,
 * since they may begin a call that an offer pays for? A carried one's are never the kernel's.
 * Lock-free. */
bool rr_conn_sniffs(const struct rr_conn *c);

/* The app uses fd in a way that only the kernel can serve. True: from here on it is the
 * kernel's; false: something has been said to the peer already. */
bool rr_conn_let_go(struct rr_conn *c);

/* FIONREAD: bytes that a read would find; or RR_CONN_KERNEL. */
int rr_conn_inq(struct rr_conn *c, int fd);

/* Grows with each record that comes by RDMA, and once when the peer's stream is over; the app's
 * reads do not lessen it. 0 while it is not carried. */
uint64_t rr_conn_came(struct rr_conn *c);

/* SO_ERROR of a carried connection (taken, as the kernel does), or RR_CONN_KERNEL. fd: its
 * number in this call; the one it was last used by may have been closed. */
int rr_conn_take_error(struct rr_conn *c, int fd);

/* An error that was taken and could not be told, since there were bytes to tell of: for the
 * next call. */
void rr_conn_keep_error(struct rr_conn *c, int err);

/* Options that we hide or imitate: true if *val was answered (get) or kept (set). */
bool rr_conn_getopt(struct rr_conn *c, int level, int name, void *val, socklen_t *len);
bool rr_conn_setopt(struct rr_conn *c, int level, int name, const void *val, socklen_t len);

/* The kernel has taken an option that the app set. */
void rr_conn_opt_set(struct rr_conn *c, int fd, int level, int name);

/* --- readiness --- */

/* Poll bits among want|POLLERR|POLLHUP that hold now, computed without sleeping (it may
 * poll the anchor, take in an offer or an answer). RR_CONN_KERNEL: ask the kernel.
 * With want, of who asks the kernel anyway: */
#define RR_ASK_FIRST	0x10000u	/* it will be, and then this again if it has news */
#define RR_ASK_TOLD	0x20000u	/* it was: there are bytes or an end, and no error */
int rr_conn_poll(struct rr_conn *c, int fd, unsigned want);

/* Which of the two the kernel's bits are a reason for: RR_ASK_TOLD or 0. */
static inline unsigned rr_ask_told(unsigned told)
{
	return (told & (POLLIN | POLLERR | POLLHUP)) == POLLIN ? RR_ASK_TOLD : 0;
}

/* Cheap, no lock, no system call: is it worth calling rr_conn_poll()? For spinning. */
bool rr_conn_peek(const struct rr_conn *c, unsigned want);

/* One thread's spin, for one connection or many; zeroes, and then rr_conn_spin() for each:
 *
 *	if (rr_spin_begin(&s, deadline)) {
 *		while (nothing is there && (rr_spin_on(&s) || longer()))
 *			;
 *		rr_spin_end(&s, was there something);
 *	}
 *
 * where longer() calls rr_conn_spin() for each again and then rr_spin_longer(). */
struct rr_spin {
	rr_time want;		/* the longest of those asked for */
	rr_time began, now, end;
	struct rr_counters *count;	/* of who wants that, who may be gone by its end */
	uint32_t cpu;		/* where the thread is, from 1; 0 unknown */
	uint32_t cpus, spinners;	/* of the process */
	uint32_t yields;	/* times to give way before anything else */
	uint32_t seat;		/* of those that spin at once */
	bool seated;
	bool enough;		/* no other connection can want more */
	bool crowded, hogged, just_hogged;	/* struct rr_spin_in */
	bool lost;		/* meanwhile the CPU was somebody else's */
};

/* How long to spin for it (on, if s has begun), into s: 0 where it does not pay, such as
 * against a peer on this thread's CPU. Once s has enough, no others need be asked. */
void rr_conn_spin(const struct rr_conn *c, struct rr_spin *s);

/* A spin is over: did it bring what was waited for? */
void rr_conn_spun(const struct rr_spin *s, bool paid);

/* What the first of them needs to know of this process and its CPUs. */
void rr_spin_look_around(struct rr_spin *s);
/* False: there is nothing to look for, or others of this process look already. */
bool rr_spin_begin(struct rr_spin *s, rr_time deadline);
/* A moment passes. False: the time is over. */
bool rr_spin_on(struct rr_spin *s);
bool rr_spin_longer(struct rr_spin *s, rr_time deadline);
void rr_spin_end(struct rr_spin *s, bool paid);

/* A thread is about to sleep for want: 0 armed, sleep on rr_conn_fds(); 1 look again, there
 * is something. After 0, exactly one rr_conn_disarm() when the thread is awake again (however):
 * a doorbell is swallowed only when every thread that slept for it has woken. */
int rr_conn_arm(struct rr_conn *c, int fd, unsigned want);
void rr_conn_disarm(struct rr_conn *c, int fd);

/* A thread's wait where of some connections nothing is to be known but what the kernel will say
 * of the app's fds, which is then asked of rr_conn_poll(). Lock-free, and no system
 * call (plainwait.c). */
struct rr_plainwait;
/* c is one of them. False: it has more to tell, or is one of too many: rr_conn_arm(). c need
 * not be referenced, and may have been freed. *w: the wait; NULL before the first. */
bool rr_plainwait_add(struct rr_plainwait **w, const struct rr_conn *c);
/* Before it sleeps, when all are added. False: rr_plainwait_stays() is to be asked of each, and
 * those that it denies leave. */
bool rr_plainwait_is_sure(struct rr_plainwait *w);
bool rr_plainwait_stays(const struct rr_conn *c);
/* The kernel has spoken of it: it is about to be asked. */
void rr_plainwait_leave(struct rr_plainwait *w, const struct rr_conn *c);
/* The thread is awake. NULL: none was begun. */
void rr_plainwait_end(struct rr_plainwait *w);

/* At rest a connection is armed, nothing is there to be read, and whatever comes, the peer's
 * death too, shows on its wake-up fd: a thread that waits to read need not call anything for
 * it, but sleeps on the fd that this returns, for POLLIN, in place of the app's. -1: it is not
 * at rest. rr_conn_arm() puts it there, any other call for it takes it away; whoever sleeps
 * already sleeps well. Lock-free, no system call. What rr_conn_rest() has returned a descriptor
 * for is counted as rr_conn_arm() does: afterwards rr_conn_disarm() if that showed anything,
 * else rr_conn_rested(). */
int rr_conn_rest(struct rr_conn *c);
void rr_conn_rested(struct rr_conn *c);
/* The same for one that the caller has just armed, and so counted already. */
int rr_conn_rests(const struct rr_conn *c);

/* Has no message come or gone for a while, and may it rest? Then it is not worth looking at its
 * memory again and again. Lock-free. */
bool rr_conn_is_quiet(const struct rr_conn *c);

/* The same for an epoll set, which stays armed without any thread: no rr_conn_disarm(); called
 * again after each event that it has seen. */
int rr_conn_watch(struct rr_conn *c, int fd, unsigned want);
/* The same, if it is carried, sleepers wait for wake and for the anchor's POLLIN and POLLRDHUP,
 * and for no time; -EAGAIN: that is not so, and it may be armed or not. */
int rr_conn_watch_plain(struct rr_conn *c, int fd, unsigned want, int wake);

/* What to sleep on while waiting for want: up to 2 entries; how many. The anchor is asked for
 * POLLRDHUP unless that is wanted of it and its bytes are the app's. *until: when to look again
 * at the latest, whatever happens (a negotiation's deadline), or RR_TIME_NEVER. */
int rr_conn_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2], rr_time *until);

/* The wake-up fd of a carried connection, for an inner epoll set; -1. Swallow its doorbells
 * with rr_conn_drain() before rr_conn_poll(); true: what rr_conn_fds() says may have
 * changed. */
int rr_conn_wake_fd(const struct rr_conn *c);
bool rr_conn_drain(struct rr_conn *c);

/* A thread with nothing to do sleeps: gives the memory of idle connections back. Returns
 * when to call again; RR_TIME_NEVER. */
rr_time rr_conn_idle(rr_time now);

/* --- end --- */

/* Before the kernel's shutdown(fd, how), which the caller makes after any return of 0, 1 or
 * RR_CONN_KERNEL; -errno: do not make it, that is the answer. After 1 it has succeeded for the
 * app even if that fails: a peer that has closed answers our end mark with a reset. */
int rr_conn_shutdown(struct rr_conn *c, int fd, int how);

/* Before the kernel closes the process's last fd of this connection. */
void rr_conn_close(struct rr_conn *c, int fd);

/* The app's fd number went away behind our back (its inode is another's now). */
void rr_conn_vanished(struct rr_conn *c);

/* Gives the reference back, after rr_conn_close(), when no call is inside any more. */
void rr_conn_free(struct rr_conn *c);

/* --- fork: from pthread_atfork; the wrapper calls each() in the child for every connection
 * that its table still has --- */
/* each, before rr_conn_fork_prepare(): takes its lock */
void rr_conn_fork_nears(struct rr_conn *c);
void rr_conn_fork_prepare(void);
void rr_conn_fork_parent(void);
void rr_conn_fork_child(void);
void rr_conn_forked(struct rr_conn *c);	/* parent, before fork: one more process has it */
/* The process is about to go on as a child of itself: what only this one can use goes back to
 * TCP, in two seconds at most. */
void rr_conn_daemon(void);
/* parent, for each: there is no child after all */
void rr_conn_fork_failed(struct rr_conn *c);

/* Makes room at fd, which is ours (core/base/ownfd.h), for a file of the app's: false if it has
 * to stay where it is. The old number is the caller's to close or to put something over. */
bool rr_conn_move_fd(int fd);

#endif
