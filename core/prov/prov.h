/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PROV_H
#define RR_PROV_H

/* A provider carries the messages of one connection: a queue pair with posted receives, Sends,
 * RDMA Read and Write, keys, and a way to sleep. shm is built in, verbs is a plugin, fake is
 * for tests.
 *
 * Threads: the caller holds the connection's lock for every call below except those that say
 * that they need none. Memory: a queue pair's state lies where the caller says (in memory that
 * is shared with forked children), so a provider keeps no pointer to process-private memory in
 * it, except into its own text and tables.
 *
 * Return values: 0 or a positive result, or -errno. errno itself stays as it was. */

#include <netinet/in.h>
#include <sys/uio.h>

#include "core/base/compiler.h"
#include "core/base/stats.h"
#include "core/base/types.h"

#define RR_TOKEN_LEN	16u
#define RR_PROV_ADDR	96u
#define RR_PROV_FEW	24u	/* receives that suffice where memory for them is limited */
#define RR_PROV_NOTE	144u	/* payload of a note */
#define RR_PROV_PIECES	24u	/* pieces exposed for one message, at most */

struct rr_prov_params {
	uint32_t recv_size;	/* bytes of one receive buffer: our inline threshold */
	uint32_t recvs;		/* receives to keep posted */
	/* on a device, instead of recvs, for connections beyond some hundred; 0: recvs */
	uint32_t few;
	/* on a device, in place of recv_size if that is less and there is memory */
	uint32_t long_size;
	size_t mem_size;	/* registered memory for chunks, per side */
	uint8_t token[RR_TOKEN_LEN];
	const char *run_dir;	/* may be NULL; must stay valid during set-up only */
	bool near;		/* the peer is in this network namespace */
	/* on a device: it sends again after 4.096 us << this; 0: as it likes */
	uint8_t ack_timeout;
	struct sockaddr_in6 local; /* the anchor's own address, v4 or v6; AF_UNSPEC: unknown */
	/* the other end's; must stay valid during set-up only; NULL: unknown */
	const struct sockaddr_in6 *peer;
};

/* How many receives to have where memory for them is limited: of long ones as many as fit where
 * `usual` ones of the usual size (4 KiB) would. */
static inline uint32_t rr_prov_recvs(uint32_t usual, uint32_t size)
{
	return rr_min(usual, rr_max(usual * 4096u / size, RR_PROV_FEW));
}

/* A provider's address in an offer or answer: opaque bytes. */
struct rr_prov_addr {
	uint16_t len;
	uint8_t bytes[RR_PROV_ADDR];
};

enum rr_wc_op { RR_WC_RECV, RR_WC_SEND, RR_WC_READ, RR_WC_WRITE, RR_WC_INVALIDATE,
		RR_WC_PROBE };

/* A work completion. */
struct rr_wc {
	enum rr_wc_op op;
	/* 0, or -errno: the connection is lost; -ETIMEDOUT of a probe: no answer */
	int status;
	uint64_t cookie;	/* of the post; of a receive: the buffer, for repost() */
	/* RR_WC_RECV */
	const uint8_t *buf;	/* the peer may still write here: copy, then judge */
	uint32_t len;
	uint32_t imm;		/* immediate data, if has_imm */
	bool has_imm;
	bool has_inv;		/* the peer invalidated inv_handle */
	uint32_t inv_handle;
};

/* What ease() may do. */
enum rr_ease {
	RR_EASE_ADD = 1,	/* new descriptors: no other process shares qp */
	RR_EASE_MOVE = 2,	/* another wake_fd: nobody sleeps on it nor watches it */
};

enum rr_arm { RR_ARM_RECV = 1, RR_ARM_SEND = 2 };

/* What one end does, for the other to know. 0: not known. */
enum rr_doing {
	RR_DOES_RUN	= 1,
	RR_DOES_SLEEP	= 2,
	/* when it waits next, it will look at memory for a while before it sleeps */
	RR_DOES_SPIN	= 4,
};

/* What a peer says of itself, true or not. It may influence how long somebody waits, and
 * nothing else. */
struct rr_peer_look {
	uint32_t cpu;		/* the CPU that it last ran on, from 1; 0: unknown */
	uint32_t doing;		/* enum rr_doing bits, or nonsense */
	uint32_t woke;		/* how long its wake-ups take, in ns */
	uint32_t work;		/* a change means that it moved bytes of this connection */
};

/* Which of these a provider is told about its own end. */
enum rr_tell { RR_TELL_CPU, RR_TELL_DOING, RR_TELL_WOKE, RR_TELL_WORK };

enum rr_prov_cap {
	RR_PROV_DIRECT	= 1,	/* read() and write() finish inside the call */
	RR_PROV_RING	= 2,	/* window() knows the peer's posted receives */
	RR_PROV_SURVIVES = 4,	/* what was posted outlives the process that posted it */
	RR_PROV_FAMILY	= 8,	/* forked children can use it; otherwise only close() it */
	/* wake_fd shows the end of the peer's process, and of its connection */
	RR_PROV_TELLS	= 16,
	RR_PROV_LOCAL	= 32,	/* within one host, by its memory: no network, no device */
};

/* These numbers appear in offers, so they must never change. */
enum { RR_PROV_ID_SHM = 1, RR_PROV_ID_VERBS = 2, RR_PROV_ID_FAKE = 3 };

struct rr_qp;
struct rr_lst;

struct rr_prov_ops {
	const char *name;
	uint8_t id;		/* RR_PROV_ID_... */
	uint32_t caps;		/* for queue pairs between two of ours; see rr_qp_caps() */

	/* Bytes of state that one queue pair needs. */
	size_t (*qp_size)(const struct rr_prov_params *p);

	/* --- set-up; qp is zeroed memory of qp_size() bytes --- */

	/* The offering side, before the offer: makes whatever the offer must name. */
	int (*prepare)(struct rr_qp *qp, const struct rr_prov_params *p,
		       struct rr_prov_addr *offer);
	/* The answering side, given the address from the offer. Never blocks. Fails with -errno
	 * if the address cannot be reached from here (the caller then declines). */
	int (*answer)(struct rr_qp *qp, const struct rr_prov_params *p,
		      const struct rr_prov_addr *offer, struct rr_prov_addr *answer);
	/* The offering side, given the address from the answer. Never blocks. */
	int (*join)(struct rr_qp *qp, const struct rr_prov_addr *answer);
	/* Either side, after join() or answer(). 0: connected and ready for data; -EAGAIN: call
	 * again when wake_fd is readable; else it has failed. Never blocks. */
	int (*establish)(struct rr_qp *qp);
	/* The answering side has waited long enough for establish() to succeed. 0: the answer
	 * is withdrawn, and the offering side finds out in join() or establish(), before it can
	 * send; -EAGAIN: the offering side has joined, or is about to: go on with establish().
	 * close() is still to be called. NULL: answers are valid for as long as it takes. */
	int (*withdraw)(struct rr_qp *qp);

	/* --- set-up without an upgrade: the peer is any RPC-over-RDMA implementation. NULL if
	 * the provider cannot do that. Afterwards establish() and the rest work as above, but
	 * qp->native is set: there is no token and no RR_PROV_RING, window() is UINT32_MAX, and
	 * immediate data does not arrive. Of the params only recv_size (>= 1024), recvs and
	 * mem_size count; recvs receives are posted before the peer can send. RFC
	 * 8797 private data goes both ways; a peer that sends none is taken to have 1024 bytes.
	 * --- */

	/* A listener; lst is zeroed memory of lst_size() bytes and belongs to this process
	 * alone (a forked child can only call unlisten(), which leaves the parent's in place).
	 * addr includes the port; the any-address means all devices (that of IPv6 covers IPv4
	 * too, unless lst->v6only). -EADDRINUSE; -ENODEV: no device; -EADDRNOTAVAIL: no device
	 * with that address; ... */
	size_t (*lst_size)(void);
	int (*listen)(struct rr_lst *lst, const struct sockaddr *addr);
	void (*unlisten)(struct rr_lst *lst);
	/* Called before waiting for a request. 0, or -ESHUTDOWN as below. May be NULL. */
	int (*tend)(struct rr_lst *lst);
	/* Takes the next connect request into qp (zeroed, of qp_size() bytes). 0: it is being
	 * established, go on with establish(); -EAGAIN: there is none; -ESHUTDOWN: the listener
	 * is useless because its device is gone; else this request could not be taken and was
	 * refused, and qp is unchanged. Never blocks. Both addresses may be NULL; their family
	 * says whether they are v4 or v6. */
	int (*take)(struct rr_lst *lst, struct rr_qp *qp, const struct rr_prov_params *p,
		    struct sockaddr_in6 *peer, struct sockaddr_in6 *local);
	/* Begins to connect; from may be NULL. This call or establish() later may return
	 * -ENETUNREACH: no device or route leads there; -ECONNREFUSED: nobody listens, or the
	 * peer refused; -ETIMEDOUT; -ENOMEM: memory cannot be registered (RLIMIT_MEMLOCK); ...
	 * Never blocks. */
	int (*connect)(struct rr_qp *qp, const struct rr_prov_params *p,
		       const struct sockaddr *to, const struct sockaddr *from);

	/* Ends the connection for the peer at once; what was posted may be lost unless it
	 * outlives the process. Nothing is posted afterwards; close() is still to be called. */
	void (*disconnect)(struct rr_qp *qp);
	/* Ends it in any state: closes wake_fd, unmaps. In a forked child that shares qp with
	 * its parent it gives up this process's part only. */
	void (*close)(struct rr_qp *qp);

	/* --- data. Functions that post return 1: done, without a completion; 0: a completion
	 * with this cookie follows; -EAGAIN: no room (RNR, or the queue is full); else the
	 * connection is lost. --- */

	/* A Send of the gathered pieces. The caller may reuse them when this returns, except
	 * pieces in mem, which are in use until the completion. inv_handle != 0: Send With
	 * Invalidate. */
	int (*send)(struct rr_qp *qp, const struct iovec *iov, int niov, uint64_t cookie,
		    uint32_t inv_handle);
	/* A Send without payload, with 32 bits of immediate data for the connection itself. */
	int (*send_imm)(struct rr_qp *qp, uint32_t imm, uint64_t cookie);
	/* The same with a payload of up to RR_PROV_NOTE bytes, which the caller may reuse when
	 * this returns. NULL if read() is not DIRECT: what notes are for gains nothing then. */
	int (*send_note)(struct rr_qp *qp, uint32_t imm, const void *note, uint32_t len);
	/* RDMA Read of len bytes from seg, beginning at its byte off, into local memory. On
	 * DIRECT providers local may be any memory, otherwise it must lie in mem. */
	int (*read)(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg,
		    uint32_t off, uint64_t cookie);
	/* RDMA Write, likewise. */
	int (*write)(struct rr_qp *qp, const void *local, uint32_t len,
		     const struct rr_seg *seg, uint32_t off, uint64_t cookie);
	/* Exposes local[0..len), which lies in mem, with the given rights and a fresh key. 0
	 * and *out, or -errno (-EAGAIN: no key is free now). Up to RR_PROV_PIECES may be
	 * exposed before the Send that tells the peer of them. */
	int (*expose)(struct rr_qp *qp, const void *local, uint32_t len,
		      enum rr_rights rights, struct rr_seg *out);
	/* Posts something that the peer's device has to acknowledge and its program does not
	 * see. The completion is RR_WC_PROBE and has no cookie. NULL if the provider notices by
	 * itself that a peer is gone. */
	int (*probe)(struct rr_qp *qp);
	/* Takes a key back. After its completion (1: at once) no access by the peer succeeds.
	 * On a DIRECT provider nothing rings for that completion: poll() has to be called again
	 * after a while. */
	int (*invalidate)(struct rr_qp *qp, uint32_t handle, uint64_t cookie);
	/* Has the peer said, outside the protocol, that it is done with this exposed segment? A
	 * hint that helps to reclaim the memory of calls that never get a reply. */
	bool (*consumed)(struct rr_qp *qp, uint32_t handle);
	/* DIRECT providers: tells the peer that we are done with a segment of its memory.
	 * read() of the last byte does not imply that, because the same bytes may be read again
	 * (MSG_PEEK). NULL if the completions of reads tell. */
	void (*consume)(struct rr_qp *qp, const struct rr_seg *seg);

	/* Returns up to n completions; 0: none; -errno: the connection is lost, and nothing
	 * more comes. Receives are reported in order; each buffer is ours until repost() gives
	 * it back. */
	int (*poll)(struct rr_qp *qp, struct rr_wc *wc, int n);
	void (*repost)(struct rr_qp *qp, uint64_t buf_cookie);

	/* Waits until what was posted has arrived, at most this long (0: not at all). True: it
	 * has, or never will. NULL if it outlives the process anyway. */
	bool (*settle)(struct rr_qp *qp, rr_time most);

	/* How many Sends the peer's posted receives allow now; UINT32_MAX if that cannot be
	 * known. */
	uint32_t (*window)(struct rr_qp *qp);

	/* --- sleeping --- */

	/* Could poll() return something, or (with RR_ARM_SEND) window() more than last time?
	 * Needs no lock and makes no system call: a spinning thread calls it. */
	bool (*peek)(const struct rr_qp *qp, enum rr_arm what);
	/* After a batch of posts and reposts: wakes the peer if it has armed. */
	void (*kick)(struct rr_qp *qp);
	/* Before arm(), while the process does not fork: may make doorbells cheaper for a
	 * connection that sleeps often. may: enum rr_ease bits. Sets easy when there is no more
	 * to do. NULL: easy is set. */
	void (*ease)(struct rr_qp *qp, uint32_t may);
	/* From now on the peer rings wake_fd. 0: armed; 1: there is something already. */
	int (*arm)(struct rr_qp *qp, enum rr_arm what);
	void (*disarm)(struct rr_qp *qp);
	/* tell() lets the other end know something of this one; observe() reads what the other
	 * end says of itself, and tells it our cpu as well unless that is 0. They need no lock,
	 * make no system call, and cost next to nothing if nothing has changed. NULL if neither
	 * can be known. */
	void (*tell)(struct rr_qp *qp, enum rr_tell what, uint32_t value);
	void (*observe)(struct rr_qp *qp, uint32_t cpu, struct rr_peer_look *out);
	/* Is the peer copying from or to our memory at this moment? */
	bool (*is_copying)(const struct rr_qp *qp);
	/* ns since the peer last rang, modulo 2^32, if the peer is truthful. now: rr_now(). */
	uint32_t (*rung)(const struct rr_qp *qp, rr_time now);
	/* Consumes doorbells on wake_fd. -ECONNRESET if the peer's end is gone. */
	int (*drain)(struct rr_qp *qp);
	/* Wakes every thread that sleeps on wake_fd, which stays readable for good; the peer is
	 * not told. For things that this process does itself. NULL if no thread sleeps on
	 * wake_fd alone (RR_PROV_TELLS). */
	void (*rouse)(struct rr_qp *qp);

	/* Gives idle memory back to the system: ranges of mem for which used() returns false,
	 * receive buffers that hold nothing, and whole pages of qp itself that hold nothing. */
	void (*trim)(struct rr_qp *qp, bool (*used)(void *ctx, size_t off, size_t len),
		     void *ctx);
};

/* The part of a queue pair that every provider has; providers embed it first. */
struct rr_qp {
	const struct rr_prov_ops *ops;
	struct rr_counters *count;	/* the connection's counters; set by the caller */
	uint8_t *mem;		/* registered memory for chunks; valid once established */
	size_t mem_size;
	uint32_t send_size;	/* longest Send: the peer's receive size; once established */
	uint32_t recv_size;	/* longest receive */
	uint32_t peer_send;	/* longest Send of the peer, if it has said so; 0: recv_size */
	uint32_t recvs;		/* receives we keep posted */
	uint32_t peer_recvs;	/* receives that the peer keeps posted */
	/* A longer Read is better posted in pieces of this length, because the first bytes can
	 * be used while the others come; 0: it is not, since all come within the post. */
	uint32_t read_piece;
	bool bulky;		/* trim() has more to give back than short messages need */
	/* For close(), set by the caller: nothing of mem has been used lately. */
	bool mem_unused;
	int wake_fd;		/* POLLIN: doorbell or death; -1 before set-up */
	int other_fd, ring_fd;	/* further descriptors of the provider; -1: none */
	bool piped;		/* wake_fd is a pipe, and other_fd the socket */
	bool easy;		/* ease() has nothing to do */
	bool loud;		/* wake_fd has to be a socket; set by the caller */
	/* Once established: the process at the other end by its number in our PID namespace, if
	 * the kernel says so; 0: not known. */
	uint32_t peer_pid;
	/* Once established: */
	bool native;		/* by take() or connect() */
	/* both sides have agreed on Send With Invalidate: send() does it */
	bool peer_inv;
	/* a key of ours covers one exposure only: the peer may invalidate it */
	bool own_inv;
	bool peer_reads;	/* the peer can issue RDMA Reads; and we can: */
	bool reads;
};

/* The descriptor that shows the end of the peer, apart from doorbells. */
static inline int rr_qp_end_fd(const struct rr_qp *qp)
{
	return qp->piped ? qp->other_fd : qp->wake_fd;
}

/* The part of a listener that every provider has. */
struct rr_lst {
	const struct rr_prov_ops *ops;
	bool v6only;		/* for listen(): IPv4 is not ours (IPV6_V6ONLY) */
	int fd;			/* POLLIN: call take() */
};

/* The capabilities of this queue pair: enum rr_prov_cap. */
static inline uint32_t rr_qp_caps(const struct rr_qp *qp)
{
	return qp->native ? qp->ops->caps & ~(uint32_t)RR_PROV_RING : qp->ops->caps;
}

/* RR_PROV_LOCAL? Not known, and so false, for a provider that this process does not have
 * (NULL). */
static inline bool rr_prov_is_local(const struct rr_prov_ops *ops)
{
	return ops && ops->caps & RR_PROV_LOCAL;
}

/* Its number in offers. */
static inline uint8_t rr_prov_id(const struct rr_prov_ops *ops)
{
	return ops->id;
}

extern const struct rr_prov_ops rr_prov_shm;

/* Provider number i of this process, in order of preference, or NULL. The first request for
 * verbs loads it, if there is a device at all and the plugin lies beside this library. */
#define RR_PROVS	2u
const struct rr_prov_ops *rr_prov_nth(uint32_t i);

/* Allows providers that are not built in to be loaded. Called once, at set-up; the default is
 * no. */
void rr_prov_plugins(bool use);

/* The provider for native peers, which has listen() and connect(). Loaded if need be, whatever
 * rr_prov_plugins() was told. NULL: no device, no permission or no plugin. */
const struct rr_prov_ops *rr_prov_native(void);

/* fn is called when the process exits, while providers that were loaded can still be used. */
void rr_prov_at_exit(void (*fn)(void));

/* The app wants the number fd, which is ours, for a file of its own. True: fd can be done
 * without and was given up; the caller closes it. */
bool rr_prov_forget(int fd);

/* The app needs descriptors: closes those that are kept for connections to come. False: there
 * were none. */
bool rr_prov_spare(void);

/* Before and after a fork, and in the child, which has what was mapped before: none of that
 * memory is used for connections to come. */
void rr_prov_forks(void);

/* For tests: the only provider; NULL: all. */
void rr_prov_only(const struct rr_prov_ops *ops);

/* A provider of this process, by its number in an offer or by its name; NULL. */
const struct rr_prov_ops *rr_prov_by_id(uint8_t id);
const struct rr_prov_ops *rr_prov_by_name(const char *name);

#endif
