/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_VERBS_RDMACM_H
#define RR_VERBS_RDMACM_H

/* What librdmacm and the devices are reached by: descriptors, event channels, calls for any
 * thread. */

#include "core/prov/verbs/verbs_int.h"

/* --- creds.c --- */

/* rdma_create_event_channel(), so that any thread of this process can use it later. */
struct rdma_event_channel *rr_verbs_open_channel(void);
/* librdmacm's functions of these names, for any thread of this process: -1 and errno. No
 * cancellation points. */
int rr_cm_create_id(struct rdma_event_channel *cm, struct rdma_cm_id **id);
int rr_cm_destroy_id(struct rdma_cm_id *id);
int rr_cm_v6only(struct rdma_cm_id *id, int *only);
int rr_cm_ack_timeout(struct rdma_cm_id *id, uint8_t *exponent);
int rr_cm_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int rr_cm_listen(struct rdma_cm_id *id, int backlog);
int rr_cm_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
		       int ms);
int rr_cm_resolve_route(struct rdma_cm_id *id, int ms);
int rr_cm_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int rr_cm_connect(struct rdma_cm_id *id, struct rdma_conn_param *p);
int rr_cm_accept(struct rdma_cm_id *id, struct rdma_conn_param *p);
int rr_cm_reject(struct rdma_cm_id *id);
int rr_cm_disconnect(struct rdma_cm_id *id);
int rr_cm_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *cm);
int rr_cm_get_event(struct rdma_event_channel *cm, struct rdma_cm_event **ev);
/* Is it of use to any thread of this process? */
bool rr_cm_usable(struct rdma_event_channel *cm);
/* See rr_refused. */
ssize_t rr_verbs_refused(int fd, const void *buf, size_t n);
void rr_verbs_creds_forked(void);

/* --- channel.c --- */

/* A descriptor of ours: moved to floor or above if there is room. */
int rr_verbs_high(int fd, int floor);
void rr_verbs_close_fd(int fd);	/* the end of one; -1: nothing */
int rr_verbs_quiet(int fd);	/* non-blocking; 0 or -errno */
int rr_verbs_epoll(int floor);	/* a set, or -errno */
int rr_verbs_watch(int set, int fd, uint32_t which);
int rr_verbs_channel(struct rdma_event_channel **cm, int floor);
/* NULL: nothing. In a forked child its descriptor is all that is the child's. */
void rr_verbs_channel_free(struct rdma_event_channel *cm);
void rr_verbs_channel_forked(const struct rdma_event_channel *cm);
/* For a process that has become somebody else: *cm, which is watched in set, is another channel
 * then, with id on it. Returns the old one; NULL and errno: nothing has changed. */
struct rdma_event_channel *rr_verbs_renew(struct rdma_event_channel **cm, struct rdma_cm_id *id,
					  int set, int floor);
/* The next event, acknowledged (an id cannot be destroyed or moved before that), its private
 * data in data. False: none, or errno is EACCES: see rr_verbs_renew(). */
bool rr_verbs_event(struct rdma_event_channel *cm, struct rdma_cm_event *out,
		    uint8_t data[UINT8_MAX]);

/* --- device.c --- */

/* Moves the device's descriptors to floor or above and makes them ours, unless that was done.
 * Before each first use of a device that the CM gives us. */
void rr_verbs_device(struct ibv_context *dev, int floor);
/* It was taken away: librdmacm may close them. */
void rr_verbs_device_gone(const struct ibv_context *dev);
void rr_verbs_device_forked(void);	/* a child has no use for them */
/* What was found out about the device's windows in this process; and that. */
enum rr_verbs_proof rr_verbs_windows_of(const struct ibv_context *dev);
void rr_verbs_windows_are(const struct ibv_context *dev, enum rr_verbs_proof is);
/* Has the device refused to post a Send With Invalidate, now (found) or before? */
bool rr_verbs_no_inv(const struct ibv_context *dev, bool found);

#endif
