/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RPCB_H
#define RR_RPCB_H

/* rpcbind as a client sees it (RFC 1833), by libtirpc. What it says is untrusted: bounded, and
 * text that is not parsed is at most compared. Not thread-safe; errno is anybody's. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define RR_RPCB_MAX	2048u
#define RR_RPCB_READ	65536u	/* entries that are looked at: an answer with more is none */
#define RR_RPCB_PROGRAM	100000u

struct rr_rpcb {
	uint32_t prog, vers;
	char netid[32];
	char addr[128];		/* universal address, or a path */
	char owner[32];		/* "superuser", a uid, or "unknown" */
};

/* Any user of a host can register there: entries that do not matter take no room here, and
 * those of users other than root and this process's half of it at most. */
struct rr_rpcb_list {
	bool (*matters)(const struct rr_rpcb *e);	/* set by the caller; NULL: all do */
	uint32_t n, others;
	uint32_t left_out;	/* that matter, and for which there was no room */
	struct rr_rpcb e[RR_RPCB_MAX];
};

/* What this host's rpcbind has, asked over its socket. NULL, or why not. */
const char *rr_rpcb_dump(struct rr_rpcb_list *l);

/* The same of the rpcbind at an address, over TCP. */
const char *rr_rpcb_dump_at(const struct sockaddr *sa, struct rr_rpcb_list *l);

/* Puts e, as e->owner if this process may be that user: rpcbind lets a program take back all
 * that it has registered only if nothing between it has another owner. */
bool rr_rpcb_set(const struct rr_rpcb *e);

/* Whose e is, as its owner says; -1: it does not say. */
int64_t rr_rpcb_user(const struct rr_rpcb *e);

/* Takes back (prog, vers, netid) of e. Only its owner and root can. */
bool rr_rpcb_unset(const struct rr_rpcb *e);

/* NULL, or why this host's rpcbind cannot be reached. */
const char *rr_rpcb_missing(void);

/* --- universal addresses (RFC 5665 §5.2.3): "HOST.P1.P2" --- */

/* The port; 0 if addr is none. host: where the part before it goes (128 bytes), or NULL. */
uint16_t rr_uaddr_port(const char *addr, char *host);
/* addr with another port, into out. */
bool rr_uaddr_with_port(const char *addr, uint16_t port, char out[128]);

#endif
