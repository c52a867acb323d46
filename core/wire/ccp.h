/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CCP_H
#define RR_CCP_H

/* The Connection Configuration Protocol of dialect draft02 (draft-02 §6): an RPC program of
 * one procedure, by which a client says what it wants of the connection and the server what
 * it has. These are whole RPC messages, without transport header or record mark. */

#include "core/base/types.h"

#define RR_CCP_PROG	100417u	/* the number that RFC 5666 §6.2 has */
#define RR_CCP_MAX	256u	/* bytes that hold any message encoded here */

struct rr_ccp_req {
	uint32_t maxcall;	/* bytes: inline calls that the client would send */
	uint32_t maxreply;	/* bytes: inline replies that it accepts */
	uint32_t maxrdmaread;	/* RDMA Reads at a time that it can serve */
};

struct rr_ccp_res {
	uint32_t maxcall;	/* bytes: inline calls that the server accepts */
	uint32_t align;		/* what its receive buffers are aligned to */
	uint32_t maxrdmaread;	/* RDMA Reads at a time that it can serve; 0 = none at all */
};

enum rr_ccp {
	RR_CCP_OTHER,		/* no call of this program: the app's */
	RR_CCP_CONF,		/* procedure 1: *req is valid */
	RR_CCP_NULL,		/* procedure 0 */
	RR_CCP_BAD_VERS,
	RR_CCP_BAD_PROC,
	RR_CCP_GARBAGE,		/* arguments, credential or verifier are cut off or too long */
};

/* Judges an RPC message. *xid is valid unless the result is RR_CCP_OTHER. Any credential is
 * accepted. */
enum rr_ccp rr_ccp_get_call(const uint8_t *buf, uint32_t len, uint32_t program, uint32_t *xid,
			    struct rr_ccp_req *req);

/* Encodes the reply to a call that was judged to be `what`, which is not RR_CCP_OTHER. Only
 * RR_CCP_CONF uses res. Returns the reply's length, or 0 if cap is too small. */
uint32_t rr_ccp_put_reply(enum rr_ccp what, uint32_t xid, const struct rr_ccp_res *res,
			  uint8_t *buf, uint32_t cap);

/* Encodes a call of procedure 1 with AUTH_NONE. Returns its length, or 0 if cap is too
 * small. */
uint32_t rr_ccp_put_call(uint32_t program, uint32_t xid, const struct rr_ccp_req *req,
			 uint8_t *buf, uint32_t cap);

enum rr_ccp_verdict {
	RR_CCP_NOT_OURS,	/* not the reply to xid */
	RR_CCP_AGREED,		/* *res is valid */
	RR_CCP_REFUSED,		/* any other reply to xid: the server has no such program */
};

/* Judges what came after rr_ccp_put_call(). */
enum rr_ccp_verdict rr_ccp_get_reply(const uint8_t *buf, uint32_t len, uint32_t xid,
				     struct rr_ccp_res *res);

#endif
