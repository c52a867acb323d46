/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONFORM_LINK_H
#define RR_CONFORM_LINK_H

/* One connection to the peer over a provider, with nothing above it: it sends exactly what it
 * is given and hands on what it receives. */

#include <netinet/in.h>

#include "core/prov/prov.h"
#include "tools/conform/wire.h"

#define RR_LINK_MEM	(4u << 20)	/* memory for a case's chunks */
/* Not fewer than a library posts, because with shm the smaller number of both ends counts. */
#define RR_LINK_RECVS	256u
#define RR_LINK_RECV	4096u

/* How the connection is made. */
enum rr_way {
	RR_WAY_UPGRADE,		/* in the peer's TCP connection, by an offer */
	RR_WAY_NATIVE,		/* RDMA CM */
};

struct rr_link_params {
	enum rr_way way;
	struct sockaddr_storage addr;	/* of the peer, or where to listen */
	uint32_t recv_size, recvs;	/* of this end */
	uint32_t credits;
	uint32_t caps;			/* enum rr_cap, of an upgrade */
	enum rr_dialect dialect;
	uint32_t program;		/* the program number by which upgrades are
					 * negotiated */
	uint32_t timeout;		/* ms, for everything that should happen */
};

struct rr_message {
	struct rr_message *next;
	bool sent;			/* by us */
	uint32_t inv;			/* the handle that it has invalidated; 0: none */
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
	uint64_t cookies, done;		/* of operations that complete later: the last posted,
					 * the last completed */
	int done_status;
	struct rr_message *in, **in_end;	/* received and not yet taken */
	struct rr_message *trace, **trace_end;	/* all messages, in order */
};

/* Connects. Returns NULL, or why it failed. */
const char *rr_link_connect(struct rr_link *l, const struct rr_link_params *p);

/* Listens, and waits for the next connection of a peer. */
const char *rr_link_listen(struct rr_link_listener **out, const struct rr_link_params *p);
const char *rr_link_accept(struct rr_link *l, struct rr_link_listener *from,
			   const struct rr_link_params *p);
void rr_link_unlisten(struct rr_link_listener *l);

void rr_link_close(struct rr_link *l);

/* Sends a message. Returns 0, or -errno if the connection is lost. */
int rr_link_send(struct rr_link *l, const void *p, uint32_t len, uint32_t inv);
/* The next message; NULL: none came within ms, or the connection is closed. The message belongs
 * to l. */
const struct rr_message *rr_link_recv(struct rr_link *l, uint32_t ms);

/* Memory of len bytes, filled with 0xee; NULL: there is not that much left. */
uint8_t *rr_link_memory(struct rr_link *l, uint32_t len);
int rr_link_expose(struct rr_link *l, const void *at, uint32_t len, enum rr_rights rights,
		   struct rr_seg *out);
int rr_link_withdraw(struct rr_link *l, uint32_t handle);
/* RDMA Read or Write of a whole chunk. at lies in memory of rr_link_memory(). */
int rr_link_read(struct rr_link *l, uint8_t *at, const struct rr_chunk *ch);
int rr_link_write(struct rr_link *l, const uint8_t *at, uint32_t len,
		  const struct rr_chunk *ch);
/* Has the peer read all of it? -1: this provider cannot know. */
int rr_link_was_read(struct rr_link *l, uint32_t handle);

/* --- for link_upgrade.c and link_native.c, which make connections --- */

/* Makes the queue pair's state for provider ops. Returns NULL, or why not. */
const char *rr_link_new(struct rr_link *l, const struct rr_link_params *p,
			const struct rr_prov_ops *ops, const struct rr_prov_params *pp);
const char *rr_link_establish(struct rr_link *l);
void rr_link_prov_params(const struct rr_link_params *p, struct rr_prov_params *pp);

struct rr_link_listener {
	int fd;				/* TCP listener; -1 */
	const struct rr_prov_ops *ops;
	struct rr_lst *lst;		/* native; NULL */
};

/* --- link_upgrade.c --- */
const char *rr_link_upgrade_connect(struct rr_link *l, const struct rr_link_params *p);
const char *rr_link_upgrade_listen(struct rr_link_listener *l, const struct rr_link_params *p);
const char *rr_link_upgrade_accept(struct rr_link *l, struct rr_link_listener *from,
				   const struct rr_link_params *p);

/* --- link_native.c --- */
/* Sets the private data that native peers get from now on: c's, or RFC 8797's. False: this
 * provider cannot do that. */
bool rr_link_native_say(const struct rr_case *c);
const char *rr_link_native_connect(struct rr_link *l, const struct rr_link_params *p);
const char *rr_link_native_listen(struct rr_link_listener *l, const struct rr_link_params *p);
const char *rr_link_native_accept(struct rr_link *l, struct rr_link_listener *from,
				  const struct rr_link_params *p);

#endif
