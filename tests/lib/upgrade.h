/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_UPGRADE_H
#define RR_TEST_UPGRADE_H

/* One end of a connection that is upgraded to shm by hand, for peers that go on in ways of their own: no
 * engine, no streams, only the TCP connection and the provider's queue pair. */

#include <netinet/in.h>

#include "core/nego/nego.h"
#include "core/prov/prov.h"

struct up {
	int fd;			/* the TCP connection */
	struct rr_qp *qp;	/* zeroes in mem_size: not yet */
	struct rr_prov_params p;
};

/* A socket and a queue pair, which are not connected; the functions of libc become rr_os. Every up_new() needs
 * an up_close(), whatever failed in between. */
void up_new(struct up *u, int fd, const uint8_t token[RR_TOKEN_LEN], uint32_t recv_size, uint32_t recvs);
void up_close(struct up *u);

/* What an end with these parameters says of itself, truly. */
void up_hello(const struct up *u, struct rr_hello *h);

/* The client's side of a connected socket: sends the offer, which says where it comes from; waits for the answer (3 s) and joins. */
bool up_offer(struct up *u, struct rr_hello *h);
bool up_join(struct up *u);

/* The server's side: waits for an offer on fd; connects the provider and says h, then waits for the client. */
bool up_heard(int fd, struct rr_hello *h, uint32_t *xid);
bool up_answer(struct up *u, const struct rr_hello *offer, uint32_t xid, struct rr_hello *h);

#endif
