/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONNPAIR_H
#define RR_CONNPAIR_H

/* Two ends of a loopback TCP connection, each with its struct rr_conn, in one process. */

#include <netinet/in.h>

#include "core/conn/conn.h"

struct rr_end {
	int fd;
	struct rr_conn *c;
};

struct rr_pair {
	int listener;
	struct rr_end client, server;
};

/* Parameters that tests may change before the first pair. */
extern struct rr_conn_params rr_test_params;
/* For rr_test_params.stats: a segment, the same for all that ask. */
struct rr_stat_seg *rr_test_segment(bool make);

/* rr_os is libc; rr_conn_setup(&rr_test_params). */
void rr_test_setup(void);

/* A listener on loopback, and where. */
int rr_test_listen(struct sockaddr_in *at);

void rr_pair_open(struct rr_pair *p);
void rr_pair_close(struct rr_pair *p);
void rr_end_close(struct rr_end *e);

/* All of buf, as a blocking app would; each step gives the other end (may be NULL) a chance to
 * bring its side of an upgrade forward. Bytes, or -errno of the first call that failed. */
ssize_t rr_end_send(struct rr_end *e, struct rr_end *other, const void *buf, size_t len);
ssize_t rr_end_recv(struct rr_end *e, struct rr_end *other, void *buf, size_t len);

/* One record, without the marks of its fragments. Its bytes (at most len), or -errno. */
ssize_t rr_end_recv_record(struct rr_end *e, struct rr_end *other, void *buf, size_t len);

/* One call as the wrapper makes it, RR_CONN_KERNEL carried out. */
ssize_t rr_end_try_send(struct rr_end *e, const void *buf, size_t len);
ssize_t rr_end_try_recv(struct rr_end *e, void *buf, size_t len, int flags);
int rr_end_poll(struct rr_end *e, unsigned want);

/* A record-marked call or reply with len payload bytes behind its header; all a function of seed.
 * Returns the bytes written to out (room for len + 64). */
size_t rr_test_call(uint8_t *out, uint32_t xid, size_t len, unsigned seed);
size_t rr_test_reply(uint8_t *out, uint32_t xid, size_t len, unsigned seed);

#endif
