/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RPCB_H
#define RR_RPCB_H

/* rpcbind as a client sees it (RFC 1833), by libtirpc. Its answers are untrusted: they are
 * bounded, and text that is not parsed is at most compared. Not thread-safe; errno may
 * change. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define RR_RPCB_MAX	2048u
#define RR_RPCB_READ	65536u	/* entries that are looked at; an answer with more is refused */
#define RR_RPCB_PROGRAM	100000u

struct rr_rpcb {
	uint32_t prog, vers;
	char netid[32];
	char addr[128];		/* universal address, or a path */
	char owner[32];		/* "superuser", a uid, or "unknown" */
};

/* Any user of a host can register there. So entries that do not matter take no room here, and
 * those of users other than root and this process's take half of it at most. */
struct rr_rpcb_list {
	bool (*matters)(const struct rr_rpcb *e);	/* set by the caller; NULL: all do */
	uint32_t n, others;
	uint32_t left_out;	/* that matter and for which there was no room */
	struct rr_rpcb e[RR_RPCB_MAX];
};

/* Asks this host's rpcbind, by its local socket, for its entries. Returns NULL, or why there is
 * no answer. */
const char *rr_rpcb_dump(struct rr_rpcb_list *l);

/* The same of the rpcbind at an address, over TCP. */
const char *rr_rpcb_dump_at(const struct sockaddr *sa, struct rr_rpcb_list *l);

/* Registers e, as e->owner if this process may become that user. rpcbind lets a program take
 * back all of its entries only if none between them has another owner. */
bool rr_rpcb_set(const struct rr_rpcb *e);

/* The user who owns e; -1: rpcbind does not say. */
int64_t rr_rpcb_user(const struct rr_rpcb *e);

/* Takes back (prog, vers, netid) of e, which only its owner and root can do. */
bool rr_rpcb_unset(const struct rr_rpcb *e);

/* Returns NULL, or why this host's rpcbind cannot be reached. */
const char *rr_rpcb_missing(void);

/* --- universal addresses (RFC 5665 §5.2.3): "HOST.P1.P2" --- */

/* The port; 0 if addr has none. host receives the part before it (128 bytes); may be NULL. */
uint16_t rr_uaddr_port(const char *addr, char *host);
/* Writes addr with another port to out. */
bool rr_uaddr_with_port(const char *addr, uint16_t port, char out[128]);

#endif
