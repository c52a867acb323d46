/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_LIB_H
#define VERBS_LIB_H

/* For programs that drive the verbs provider through its interface, in a guest with a device: two queue
 * pairs in one process. PROGRAM windows|regions|native|invite ADDRESS [TEST...]: windows and regions are how memory is
 * exposed between two of ours, invite is windows that the peer may invalidate, native is between two that know nothing of each other (with windows). */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/plugin.h"

#define CHECK(x) do { if (!(x)) { printf("%s:%d: %s: not so: %s\n", __FILE__, __LINE__, test, #x); exit(1); } } while (0)
#define PATIENCE	(10 * RR_SEC)
#define PORT		20050	/* of listeners */

struct vt {
	const char *name;
	void (*run)(void);
	bool ours;	/* between two of ours only */
};
#define T(name) { #name, t_##name, false }
#define T_OURS(name) { #name, t_##name, true }

extern struct rr_verbs_env env;
extern const char *test;		/* that runs */
extern const struct rr_prov_ops *ops;
extern struct rr_prov_params par;	/* local is ADDRESS */
extern struct rr_qp *a, *b;		/* offering or connecting; answering or taken */
extern struct rr_lst *lst;
extern bool native;
extern void (*in_child)(void);	/* runs in forked children, before the provider knows that it is in one */

struct rr_qp *new_qp(void);
/* ADDRESS with this port. */
struct sockaddr *at_port(uint16_t port);
void listen_at(const struct sockaddr *addr);
void unlisten(void);
/* take() into q, waited for. */
int take(struct rr_qp *q, struct sockaddr_in6 *peer, struct sockaddr_in6 *local);

void offer_and_answer(const uint8_t *answer_token);
/* Steps q until it is done: what it said. */
int establish_one(struct rr_qp *q);
/* Steps both until both are done or one has failed; 0 connected. */
int establish(void);
void open_pair(void);
void close_pair(void);
/* The next completion of q, slept for; what poll() said. */
int next(struct rr_qp *q, struct rr_wc *wc);
void post(struct rr_qp *q, const void *p, size_t len);
/* Takes a key of q's back. */
void invalidate(struct rr_qp *q, const struct rr_seg *seg);
/* Exposed memory of q, for whoever hears of it by a Send. */
void expose(struct rr_qp *q, struct rr_qp *peer, void *at, uint32_t len, enum rr_rights rights,
	    struct rr_seg *seg);

unsigned count_fds(void);
/* Those below the floor that the provider was told to keep off, and that have to do with RDMA. */
unsigned low_fds(void);
/* Objects of this process, as the kernel counts them for the device. */
unsigned resources(void);

int verbs_main(int argc, char **argv, const struct vt *tests, size_t n);

#endif
