/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_VERBS_CONNECTIONS_H
#define RR_VERBS_CONNECTIONS_H

/* Connections from private data to their end: the functions that the table in plugin.c
 * names. */

#include "core/prov/verbs/verbs_int.h"

/* --- private.c --- */

uint32_t rr_verbs_private_put_pair(const struct rr_vq *v, uint8_t out[RR_VERBS_PRIVATE]);
/* Takes the peer's private data. False: the peer does not know the token. */
bool rr_verbs_private_get_pair(struct rr_qp *qp, struct rr_vq *v, const uint8_t *buf,
			       uint32_t len);
uint32_t rr_verbs_private_put_native(const struct rr_vq *v, uint8_t out[RR_VERBS_PRIVATE]);
bool rr_verbs_private_get_native(struct rr_qp *qp, struct rr_vq *v, const uint8_t *buf,
				 uint32_t len);

/* --- cm.c --- */

void rr_verbs_cm_disconnect(struct rr_qp *qp);
/* Processes the CM's events for a connected queue pair. */
void rr_verbs_cm_events(struct rr_qp *qp, struct rr_vq *v);

/* An event of the device concerns this connection (v->struck): ends it. */
void rr_verbs_cm_struck(struct rr_vq *v);

/* --- events.c: asynchronous events of devices --- */

/* From now until it is removed, events that concern the connection set v->struck; called once
 * its queue pair is there, and before that is destroyed. */
void rr_verbs_events_add(struct rr_qp *qp, struct rr_vq *v);
void rr_verbs_events_remove(struct rr_vq *v);
/* A thread is about to sleep on the connection: an event of its device is to wake it up, unless
 * others of the same device that have gone to sleep later are enough. */
void rr_verbs_events_watch(struct rr_vq *v);
/* Reads what events there are of this device, and acts on them. */
void rr_verbs_events_read(struct ibv_context *dev);
/* The same for a thread that polls: does nothing if one has looked a moment ago. */
void rr_verbs_events_look(struct ibv_context *dev);
void rr_verbs_events_forked(void);

/* --- traffic.c --- */

int rr_verbs_traffic_send(struct rr_qp *qp, const struct iovec *iov, int niov, uint64_t cookie,
			  uint32_t inv_handle);
int rr_verbs_traffic_send_imm(struct rr_qp *qp, uint32_t imm, uint64_t cookie);
int rr_verbs_traffic_read(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg,
			  uint32_t off, uint64_t cookie);
int rr_verbs_traffic_write(struct rr_qp *qp, const void *local, uint32_t len,
			   const struct rr_seg *seg, uint32_t off, uint64_t cookie);
int rr_verbs_traffic_poll(struct rr_qp *qp, struct rr_wc *wc, int n);
void rr_verbs_traffic_repost(struct rr_qp *qp, uint64_t buf_cookie);
int rr_verbs_traffic_probe(struct rr_qp *qp);
bool rr_verbs_traffic_settle(struct rr_qp *qp, rr_time most);

/* --- end.c --- */

int rr_verbs_end_undo(struct rr_qp *qp, int rc); /* frees everything; returns rc */
void rr_verbs_end_close(struct rr_qp *qp);

/* --- cm_setup.c --- */

/* Makes qp's state … */
int rr_verbs_setup_start(struct rr_qp *qp, const struct rr_prov_params *p);
int rr_verbs_setup_open(struct rr_qp *qp, struct rr_vq *v); /* … and its channel */
/* id has its device, whose descriptors are ours from now on. 0, or -ENETDOWN: the device has
 * failed, or the link of its port is down. */
int rr_verbs_setup_device(struct rdma_cm_id *id);
int rr_verbs_setup_resolve(struct rr_vq *v, const struct sockaddr *to,
			   const struct sockaddr *from, int ms);
/* Accepts the request that v->id stands for. If that fails, refuses it. */
int rr_verbs_setup_accept(struct rr_qp *qp, struct rr_vq *v, const struct rdma_conn_param *req);
int rr_verbs_setup_establish(struct rr_qp *qp);

/* --- pair.c: between two of ours --- */

int rr_verbs_pair_prepare(struct rr_qp *qp, const struct rr_prov_params *p,
			  struct rr_prov_addr *offer);
int rr_verbs_pair_answer(struct rr_qp *qp, const struct rr_prov_params *p,
			 const struct rr_prov_addr *offer, struct rr_prov_addr *answer);
int rr_verbs_pair_join(struct rr_qp *qp, const struct rr_prov_addr *answer);
int rr_verbs_pair_withdraw(struct rr_qp *qp);

/* --- native_cm.c: with native peers --- */

size_t rr_verbs_native_lst_size(void);
int rr_verbs_native_listen(struct rr_lst *lst, const struct sockaddr *addr);
void rr_verbs_native_unlisten(struct rr_lst *lst);
int rr_verbs_native_tend(struct rr_lst *lst);
int rr_verbs_native_take(struct rr_lst *lst, struct rr_qp *qp, const struct rr_prov_params *p,
			 struct sockaddr_in6 *peer, struct sockaddr_in6 *local);
int rr_verbs_native_connect(struct rr_qp *qp, const struct rr_prov_params *p,
			    const struct sockaddr *to, const struct sockaddr *from);

#endif
