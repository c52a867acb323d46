/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PROV_H
#define RR_PROV_H

/* A provider carries the messages of one connection: a queue pair with posted
 * receives, Sends, RDMA Read and Write, keys, and a way to sleep. shm is built in,
 * verbs is a plugin, fake is for tests.
 *
 * Threads: the caller holds the connection's lock for every call below except
 * peek(). Memory: a queue pair's state lives where the caller says (memory that is
 * shared with forked children), so a provider keeps no pointer to process-private
 * memory in it except into its own text and tables.
 *
 * Returns: 0 or a positive result, or -errno. errno itself is left alone. */

#include <netinet/in.h>
#include <sys/uio.h>

#include "core/base/compiler.h"
#include "core/base/stats.h"
#include "core/base/types.h"

#define RR_TOKEN_LEN	16u
#define RR_PROV_ADDR	96u
#define RR_PROV_FEW	24u	/* receives, where they are counted */
#define RR_PROV_PIECES	24u	/* exposed for one message, at most */

struct rr_prov_params {
	uint32_t recv_size;	/* bytes of one receive buffer: our inline threshold */
	uint32_t recvs;		/* receives to keep posted */
	uint32_t few;		/* the same on a device, of connections beyond some hundred; 0
				 * no fewer */
	uint32_t long_size;	/* on a device, instead of recv_size, if that is less and there
				 * is memory */
	size_t mem_size;	/* registered memory for chunks, per side */
	uint8_t token[RR_TOKEN_LEN];
	const char *run_dir;	/* may be NULL; must stay valid during set-up only */
	bool near;		/* the peer is in this network namespace */
	uint8_t ack_timeout;	/* on a device: 4.096 us << this until it sends again; 0 what it
				 * finds itself */
	int fd_floor;		/* lowest number for descriptors of ours */
	struct sockaddr_in6 local; /* the anchor's own address, v4 or v6; AF_UNSPEC unknown */
};

/* Where receives are counted fewer will do: of long ones as many as fit where usual ones (of 4
 * KiB) would be. */
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
	int status;		/* 0, or -errno: the connection is lost; of a probe -ETIMEDOUT:
				 * there is no answer */
	uint64_t cookie;	/* of the post; of a receive: the buffer, for repost() */
	/* RR_WC_RECV */
	const uint8_t *buf;	/* in memory the peer may still scribble on: copy, then judge */
	uint32_t len;
	uint32_t imm;		/* immediate data, if has_imm */
	bool has_imm;
	bool has_inv;		/* the peer invalidated inv_handle */
	uint32_t inv_handle;
};

enum rr_arm { RR_ARM_RECV = 1, RR_ARM_SEND = 2 };

/* What one end does, for the other; 0 is not known. */
enum rr_doing {
	RR_DOES_RUN	= 1,
	RR_DOES_SLEEP	= 2,
	RR_DOES_SPIN	= 4,	/* when next it waits, it looks at memory for a while before it
				 * sleeps */
};

/* What a peer says of itself, true or not: nothing but how long somebody waits may depend on
 * it. */
struct rr_peer_look {
	uint32_t cpu;		/* on which it last ran, from 1; 0 unknown */
	uint32_t doing;		/* enum rr_doing bits, or nonsense */
	uint32_t woke;		/* ns that its wake-ups take */
	uint32_t work;		/* has changed: it moved bytes of this connection */
};

/* What of this a provider is told of its own end. */
enum rr_tell { RR_TELL_CPU, RR_TELL_DOING, RR_TELL_WOKE, RR_TELL_WORK };

enum rr_prov_cap {
	RR_PROV_DIRECT	= 1,	/* read() and write() finish inside the call */
	RR_PROV_RING	= 2,	/* window() knows the peer's posted receives */
	RR_PROV_SURVIVES = 4,	/* what was posted outlives its poster */
	RR_PROV_FAMILY	= 8,	/* forked children can use it; otherwise only close() it */
	RR_PROV_TELLS	= 16,	/* wake_fd shows the end of the peer's process, and of its
				 * connection */
	RR_PROV_LOCAL	= 32,	/* of one host, by its memory: no network, no device */
};

/* In offers, hence for good. */
enum { RR_PROV_ID_SHM = 1, RR_PROV_ID_VERBS = 2, RR_PROV_ID_FAKE = 3 };

struct rr_qp;
struct rr_lst;

struct rr_prov_ops {
	const char *name;
	uint8_t id;		/* RR_PROV_ID_... */
	uint32_t caps;		/* of queue pairs between two of ours; see rr_qp_caps() */

	/* Bytes of state that one queue pair needs. */
	size_t (*qp_size)(const struct rr_prov_params *p);

	/* --- set-up; qp is zeroed memory of qp_size() bytes --- */

	/* The offering side, before its offer: makes what the offer must name. */
	int (*prepare)(struct rr_qp *qp, const struct rr_prov_params *p,
		       struct rr_prov_addr *offer);
	/* The answering side, with the offer's address. Never blocks. Fails with -errno
	 * if it cannot be reached from here (the caller then declines). */
	int (*answer)(struct rr_qp *qp, const struct rr_prov_params *p,
		      const struct rr_prov_addr *offer, struct rr_prov_addr *answer);
	/* The offering side, with the answer's address. Never blocks. */
	int (*join)(struct rr_qp *qp, const struct rr_prov_addr *answer);
	/* Either side, after join() or answer(): 0 connected and ready for data, -EAGAIN
	 * call again when wake_fd is readable, else it failed. Never blocks. */
	int (*establish)(struct rr_qp *qp);
	/* The answering side, before that has come about, has waited for long enough: 0 it will
	 * not, and the offering side finds out in join() or establish(), before it can send;
	 * -EAGAIN that has joined, or is about to: go on with establish(). close() is still
	 * due. NULL: it waits for as long as it takes. */
	int (*withdraw)(struct rr_qp *qp);

	/* --- set-up without an upgrade: the peer is any RPC-over-RDMA implementation. NULL
	 * where the provider has none. Afterwards establish() and the rest as above, but
	 * qp->native: no token, no RR_PROV_RING, window() is UINT32_MAX, immediate data does
	 * not arrive. Of params, recv_size (>= 1024), recvs, mem_size and fd_floor count; recvs
	 * receives are posted before the peer can send. RFC 8797 private data goes both ways; a
	 * peer without is one of 1024 bytes. --- */

	/* A listener; lst is zeroed memory of lst_size() bytes, of this process alone (a forked
	 * child can only unlisten(), which leaves the parent's alone). The address as given:
	 * its port, and the any-address means all devices (that of IPv6: of IPv4 too, unless
	 * lst->v6only). -EADDRINUSE, -ENODEV no device, -EADDRNOTAVAIL none with that address,
	 * ... */
	size_t (*lst_size)(void);
	int (*listen)(struct rr_lst *lst, const struct sockaddr *addr,
		      const struct rr_prov_params *p);
	void (*unlisten)(struct rr_lst *lst);
	/* Before waiting for one: 0, or -ESHUTDOWN as below. May be NULL. */
	int (*tend)(struct rr_lst *lst);
	/* The next connect request, into qp (zeroed, of qp_size() bytes): 0 it is being
	 * established, go on with establish(); -EAGAIN there is none; -ESHUTDOWN the listener
	 * is of no use any more (its device is gone); else that request could not be taken and
	 * was refused, qp is as before. Never blocks. Either address may be NULL; v4 or v6 by
	 * its family. */
	int (*take)(struct rr_lst *lst, struct rr_qp *qp, const struct rr_prov_params *p,
		    struct sockaddr_in6 *peer, struct sockaddr_in6 *local);
	/* Begins to connect; from may be NULL. It, or establish() later: -ENETUNREACH no device
	 * or no route leads there; -ECONNREFUSED nobody listens, or the peer refused;
	 * -ETIMEDOUT; -ENOMEM no memory to register (RLIMIT_MEMLOCK); ... Never blocks. */
	int (*connect)(struct rr_qp *qp, const struct rr_prov_params *p,
		       const struct sockaddr *to, const struct sockaddr *from);

	/* Ends it for the peer, at once: where what was posted does not outlive its poster, it
	 * may be lost. Nothing is posted afterwards; close() is still due. */
	void (*disconnect)(struct rr_qp *qp);
	/* Ends it in any state: closes wake_fd, unmaps. In a forked child that shares qp
	 * with its parent it lets go of this process's part only. */
	void (*close)(struct rr_qp *qp);

	/* --- data. Post calls: 1 done, no completion follows; 0 a completion with
	 * cookie follows; -EAGAIN no room (RNR, queue full); else the connection is lost --- */

	/* A Send of the gathered pieces, which are the caller's again when this returns, but
	 * for those in mem: they are when it completes. inv_handle != 0: Send With
	 * Invalidate. */
	int (*send)(struct rr_qp *qp, const struct iovec *iov, int niov, uint64_t cookie,
		    uint32_t inv_handle);
	/* A Send without payload that carries 32 bits for the connection itself. */
	int (*send_imm)(struct rr_qp *qp, uint32_t imm, uint64_t cookie);
	/* RDMA Read of len bytes from seg (from byte off of it on) into local memory. On
	 * DIRECT providers local may be any memory, otherwise it is in mem. */
	int (*read)(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg,
		    uint32_t off, uint64_t cookie);
	/* RDMA Write, likewise. */
	int (*write)(struct rr_qp *qp, const void *local, uint32_t len,
		     const struct rr_seg *seg, uint32_t off, uint64_t cookie);
	/* Exposes local[0..len), which lies in mem, with the least rights and a fresh key.
	 * 0 and *out, or -errno (-EAGAIN: no key free now). As many as RR_PROV_PIECES may come
	 * before the Send that tells of them. */
	int (*expose)(struct rr_qp *qp, const void *local, uint32_t len,
		      enum rr_rights rights, struct rr_seg *out);
	/* Posts what the peer has to acknowledge and does not see; the completion, of
	 * RR_WC_PROBE, has no cookie. NULL where a peer that is gone shows by itself. */
	int (*probe)(struct rr_qp *qp);
	/* Takes a key back: from its completion on (1: now) no access by the peer succeeds. On
	 * a DIRECT provider nothing rings for that completion: poll() is asked again after a
	 * while. */
	int (*invalidate)(struct rr_qp *qp, uint32_t handle, uint64_t cookie);
	/* Has the peer told, outside the protocol, that it is done with this exposed
	 * segment? A hint, to reclaim the memory of calls that never get a reply. */
	bool (*consumed)(struct rr_qp *qp, uint32_t handle);
	/* DIRECT providers: tells the peer so of a segment of its. A read() of the last byte
	 * does not, because the same bytes may be read again (MSG_PEEK). NULL where the
	 * completions of reads tell. */
	void (*consume)(struct rr_qp *qp, const struct rr_seg *seg);

	/* Up to n completions; 0 none; -errno the connection is lost and drained. Receives
	 * are reported in order, each until repost() gives its buffer back. */
	int (*poll)(struct rr_qp *qp, struct rr_wc *wc, int n);
	void (*repost)(struct rr_qp *qp, uint64_t buf_cookie);

	/* Waits, at most so long (0: not at all), until what was posted has arrived: has it, or
	 * is there no hope? NULL where it outlives its poster. */
	bool (*settle)(struct rr_qp *qp, rr_time most);

	/* Sends that the peer's posted receives allow now; UINT32_MAX if nobody knows. */
	uint32_t (*window)(struct rr_qp *qp);

	/* --- sleeping --- */

	/* Might poll() return something, or (with RR_ARM_SEND) window() more than it last did?
	 * No lock needed, no system call: what a spinning thread asks. */
	bool (*peek)(const struct rr_qp *qp, enum rr_arm what);
	/* After a batch of posts and reposts: wakes the peer if it armed. */
	void (*kick)(struct rr_qp *qp);
	/* From now on the peer rings wake_fd. 0 armed, 1 there is something already. */
	int (*arm)(struct rr_qp *qp, enum rr_arm what);
	void (*disarm)(struct rr_qp *qp);
	/* What the other end is to know of this one, and what it says of itself; cpu is told
	 * with that, unless it is 0. No lock needed, no system call, next to nothing if nothing
	 * has changed. NULL where neither can be known. */
	void (*tell)(struct rr_qp *qp, enum rr_tell what, uint32_t value);
	void (*observe)(struct rr_qp *qp, uint32_t cpu, struct rr_peer_look *out);
	/* Does it copy from or to our memory at this moment? */
	bool (*is_copying)(const struct rr_qp *qp);
	/* ns since the peer last rang, modulo 2^32, if it says the truth; now is rr_now(). */
	uint32_t (*rung)(const struct rr_qp *qp, rr_time now);
	/* Swallows doorbells on wake_fd. -ECONNRESET when the peer's end is gone. */
	int (*drain)(struct rr_qp *qp);
	/* Wakes every thread that sleeps on wake_fd, which is readable for good from now on;
	 * the peer is not told. For what this process does itself. NULL where nobody sleeps on
	 * wake_fd alone (RR_PROV_TELLS). */
	void (*rouse)(struct rr_qp *qp);

	/* Gives idle memory back to the system: of mem, the ranges for which used() is
	 * false; receive buffers that hold nothing; and what of qp itself, whole pages of
	 * it, holds nothing. */
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
	uint32_t peer_send;	/* longest Send of the peer's, where it has said so; 0
				 * recv_size */
	uint32_t recvs;		/* receives we keep posted */
	uint32_t peer_recvs;	/* receives that the peer keeps posted */
	int wake_fd;		/* POLLIN: doorbell or death; -1 before set-up */
	/* Once established: */
	bool native;		/* by take() or connect() */
	bool peer_inv;		/* both sides have agreed on Send With Invalidate: send() does
				 * it */
	bool own_inv;		/* each key of ours is of one exposure: the peer may take it
				 * back */
	bool peer_reads;	/* the peer can issue RDMA Reads; so can we: */
	bool reads;
};

/* The part of a listener that every provider has. */
struct rr_lst {
	const struct rr_prov_ops *ops;
	bool v6only;		/* for listen(): IPv4 is another's (IPV6_V6ONLY) */
	int fd;			/* POLLIN: take() has something to say */
};

/* What holds for this queue pair: enum rr_prov_cap. */
static inline uint32_t rr_qp_caps(const struct rr_qp *qp)
{
	return qp->native ? qp->ops->caps & ~(uint32_t)RR_PROV_RING : qp->ops->caps;
}

/* RR_PROV_LOCAL? Of a provider that this process does not have (NULL) that is not known. */
static inline bool rr_prov_is_local(const struct rr_prov_ops *ops)
{
	return ops && ops->caps & RR_PROV_LOCAL;
}

extern const struct rr_prov_ops rr_prov_shm;

/* The i-th provider of this process in order of preference, or NULL. The first call for the
 * verbs provider loads it, if there is a device at all and the plugin stands beside this
 * library. */
#define RR_PROVS	2u
const struct rr_prov_ops *rr_prov_nth(uint32_t i);

/* May providers be loaded that are not built in? No, unless this says so; once, at set-up. */
void rr_prov_plugins(bool use);

/* The provider for native peers: it has listen() and connect(). Loaded if need be, whatever
 * rr_prov_plugins() has said. NULL: no device, no permission or no plugin. */
const struct rr_prov_ops *rr_prov_native(void);

/* What to do when the process exits, before a provider that was loaded is of no use any
 * more. */
void rr_prov_at_exit(void (*fn)(void));

/* fd, which is ours, is to be another file's: true if it is one that can be done without. The
 * caller closes it. */
bool rr_prov_forget(int fd);

/* The app needs numbers: gives back what is kept for connections to come. False: nothing. */
bool rr_prov_spare(void);

/* For tests: the only provider; NULL: all. */
void rr_prov_only(const struct rr_prov_ops *ops);

/* A provider of this process, by its number in an offer or its name; NULL. */
const struct rr_prov_ops *rr_prov_by_id(uint8_t id);
const struct rr_prov_ops *rr_prov_by_name(const char *name);

#endif
