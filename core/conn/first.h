/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FIRST_H
#define RR_FIRST_H

/* Many connections are a call or two, each with its reply. The app's side may leave such a
 * connection to the kernel, and make it (rr_conn_after()) once it proves to be more
 * (preload/unmet.c). Until then it keeps here what has gone by: whole records only, and calls
 * and replies in turn. */

#include <netinet/in.h>
#include <sys/uio.h>

#include "core/base/types.h"
#include "core/wire/recmark.h"

struct rr_conn;

struct rr_conn_passed {
	bool server;
	uint32_t nin, nout;	/* records that were read, and that were written … */
	uint64_t in, out;	/* … and their bytes */
	/* Of a server: */
	uint32_t next;		/* rr_conn_first_call() of what is in the queue; 0: unknown */
	bool alone;		/* … and nothing else is */
	int err;		/* an error of the socket that the app has yet to be told */
	uint8_t why;		/* enum rr_reason: what has come first is no call; or 0 */
	/* Of a client: */
	uint32_t offers;	/* the number of the call that an offer may go with */
	bool called;		/* the program of its first call is known */
	uint32_t prog, xid;	/* … of that call */
	rr_time asked;		/* when its last call went; 0 once its reply is there */
	/* Our own address and the peer's, and their lengths; 0: not known. */
	struct sockaddr_in6 end[2];
	uint8_t len[2];
	bool given;		/* the peer's is what connect() was given */
};

/* May a connection be left to the kernel at first? Begins *f. Not where a rule or a log wants
 * to know of it at once; nor a client's, if an offer may go with its first call. peer: what
 * connect() was given; of a server, NULL. */
bool rr_conn_may_wait(struct rr_conn_passed *f, bool server, const struct sockaddr *peer,
		      socklen_t len);

/* head[0..have) stands at the front of a server's queue, where a record begins. The length of
 * the call there, if it is whole, in one fragment, and certainly the app's; or 0. Of head it
 * wants as much as there is, RR_CONN_FIRST bytes at most. */
size_t rr_conn_first_call(struct rr_conn_passed *f, const uint8_t *head, size_t have);
#define RR_CONN_FIRST	512u

/* Are these len bytes one record in one fragment, and not an empty one? */
static inline bool rr_conn_is_record(const uint8_t *p, size_t len)
{
	return len > RR_RM_HDR && p[0] & 0x80 && rr_rm_len(p) == len - RR_RM_HDR;
}

/* A write of so many bytes may be a whole record; apps that write it in pieces begin with its
 * mark, or fill a buffer of a page or more. */
static inline bool rr_conn_may_be_whole(size_t len)
{
	return len >= 16 && len <= 4095;
}

/* One more record has come in, or gone out. */
static inline void rr_conn_note_in(struct rr_conn_passed *f, size_t len)
{
	f->nin++;
	f->in += len;
}

static inline void rr_conn_note_out(struct rr_conn_passed *f, size_t len)
{
	f->nout++;
	f->out += len;
}

/* The app has written p, or has read it. False: it is not the record that goes in its turn, and
 * not noted: it is time to make the connection, and to tell it. */
bool rr_conn_first_went(struct rr_conn_passed *f, const uint8_t *p, size_t len);
bool rr_conn_first_came(struct rr_conn_passed *f, const uint8_t *p, size_t len);

/* As rr_conn_client() or rr_conn_server(), when so much has gone by. */
struct rr_conn *rr_conn_after(int fd, const struct rr_conn_passed *f);
/* More went out or came in, by the kernel before anybody else had the connection: the first len
 * bytes of iov. */
void rr_conn_went_out(struct rr_conn *c, const struct iovec *iov, int n, size_t len);
void rr_conn_came_in(struct rr_conn *c, const struct iovec *iov, int n, size_t len);

/* A connection is over that was never made: counts it, and learns from it. */
void rr_conn_never(const struct rr_conn_passed *f);

#endif
