/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONFORM_LINK_H
#define RR_CONFORM_LINK_H

/* One connection to the peer, over a provider, and nothing above it: what is sent is what is
 * given, what is received is handed on as it is. */

#include <netinet/in.h>

#include "core/prov/prov.h"
#include "tools/conform/wire.h"

#define RR_LINK_MEM	(4u << 20)	/* for memory of cases */
/* by shm the smaller number of both sides counts: not fewer than a library posts */
#define RR_LINK_RECVS	256u
#define RR_LINK_RECV	4096u

/* How the connection comes about. */
enum rr_way {
	RR_WAY_UPGRADE,		/* in the peer's TCP connection, by an offer */
	RR_WAY_NATIVE,		/* RDMA CM */
};

struct rr_link_params {
	enum rr_way way;
	struct sockaddr_storage addr;	/* the peer's, or where to listen */
	uint32_t recv_size, recvs;	/* ours */
	uint32_t credits;
	uint32_t caps;			/* enum rr_cap, of an upgrade */
	enum rr_dialect dialect;
	uint32_t program;		/* that upgrades are negotiated by */
	uint32_t timeout;		/* ms, for everything that should happen */
};

struct rr_message {
	struct rr_message *next;
	bool sent;			/* by us */
	uint32_t inv;			/* the handle that it invalidated; 0 none */
	uint32_t len;
	uint8_t bytes[];
};

struct rr_link_listener;

struct rr_link {
	struct rr_link_params p;
	const struct rr_prov_ops *ops;
	struct rr_qp *qp;
	size_t qp_size, used;		/* of qp->mem */
	struct rr_counters count;
	int anchor;			/* the TCP connection; -1 */
	bool closed;			/* by the peer */
	uint64_t cookies, done;		/* of operations that complete later */
	int done_status;
	struct rr_message *in, **in_end;	/* received, not yet taken */
	struct rr_message *trace, **trace_end;	/* all, in their order */
};

/* Connects. NULL, or why not. */
const char *rr_link_connect(struct rr_link *l, const struct rr_link_params *p);

/* Listens; then the next connection of a peer, waited for. */
const char *rr_link_listen(struct rr_link_listener **out, const struct rr_link_params *p);
const char *rr_link_accept(struct rr_link *l, struct rr_link_listener *from,
			   const struct rr_link_params *p);
void rr_link_unlisten(struct rr_link_listener *l);

void rr_link_close(struct rr_link *l);

/* 0, or -errno: the connection is lost. */
int rr_link_send(struct rr_link *l, const void *p, uint32_t len, uint32_t inv);
/* The next message, or NULL: nothing within ms, or the connection is closed. It stays l's. */
const struct rr_message *rr_link_recv(struct rr_link *l, uint32_t ms);

/* Memory of len bytes, filled with 0xee; NULL: there is not so much. */
uint8_t *rr_link_memory(struct rr_link *l, uint32_t len);
int rr_link_expose(struct rr_link *l, const void *at, uint32_t len, enum rr_rights rights,
		   struct rr_seg *out);
int rr_link_withdraw(struct rr_link *l, uint32_t handle);
/* RDMA Read and Write of a whole chunk; at lies in memory. */
int rr_link_read(struct rr_link *l, uint8_t *at, const struct rr_chunk *ch);
int rr_link_write(struct rr_link *l, const uint8_t *at, uint32_t len,
		  const struct rr_chunk *ch);
/* Has the peer read all of it? -1 where nobody can know. */
int rr_link_was_read(struct rr_link *l, uint32_t handle);

/* --- for those that make connections --- */

/* The state of a queue pair of ops; NULL, or why there is none. */
const char *rr_link_new(struct rr_link *l, const struct rr_link_params *p,
			const struct rr_prov_ops *ops, const struct rr_prov_params *pp);
const char *rr_link_establish(struct rr_link *l);
void rr_link_prov_params(const struct rr_link_params *p, struct rr_prov_params *pp);

struct rr_link_listener {
	int fd;				/* of TCP; -1 */
	const struct rr_prov_ops *ops;
	struct rr_lst *lst;		/* native; NULL */
};

/* --- upgrade.c --- */
const char *rr_link_upgrade_connect(struct rr_link *l, const struct rr_link_params *p);
const char *rr_link_upgrade_listen(struct rr_link_listener *l, const struct rr_link_params *p);
const char *rr_link_upgrade_accept(struct rr_link *l, struct rr_link_listener *from,
				   const struct rr_link_params *p);

/* --- native.c --- */
/* What native peers are told from now on: c's private data, or RFC 8797's. False: this provider
 * cannot. */
bool rr_link_native_say(const struct rr_case *c);
const char *rr_link_native_connect(struct rr_link *l, const struct rr_link_params *p);
const char *rr_link_native_listen(struct rr_link_listener *l, const struct rr_link_params *p);
const char *rr_link_native_accept(struct rr_link *l, struct rr_link_listener *from,
				  const struct rr_link_params *p);

#endif
