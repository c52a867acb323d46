/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_VERBS_RDMACM_H
#define RR_VERBS_RDMACM_H

/* How librdmacm and the devices are reached: descriptors, event channels, and calls that any
 * thread may make. */

#include "core/prov/verbs/verbs_int.h"

/* RDMA CM accepts no v4-mapped addresses: turns one into the address of IPv4. */
static inline void rr_verbs_unmap(struct sockaddr_in6 *a)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = a->sin6_port };

	if (a->sin6_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->sin6_addr))
		return;
	memcpy(&v4.sin_addr, a->sin6_addr.s6_addr + 12, 4);
	memset(a, 0, sizeof(*a));
	memcpy(a, &v4, sizeof(v4));
}

/* --- creds.c --- */

/* rdma_create_event_channel(), made so that any thread of this process can use the channel
 * later. */
struct rdma_event_channel *rr_verbs_creds_open_channel(void);
/* librdmacm's functions of the same names, usable by any thread of this process. -1 and errno.
 * They are no cancellation points. */
int rr_creds_create_id(struct rdma_event_channel *cm, struct rdma_cm_id **id);
int rr_creds_destroy_id(struct rdma_cm_id *id);
int rr_creds_v6only(struct rdma_cm_id *id, int *only);
int rr_creds_ack_timeout(struct rdma_cm_id *id, uint8_t *exponent);
int rr_creds_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int rr_creds_listen(struct rdma_cm_id *id, int backlog);
int rr_creds_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
			  int ms);
int rr_creds_resolve_route(struct rdma_cm_id *id, int ms);
int rr_creds_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int rr_creds_connect(struct rdma_cm_id *id, struct rdma_conn_param *p);
int rr_creds_accept(struct rdma_cm_id *id, struct rdma_conn_param *p);
int rr_creds_reject(struct rdma_cm_id *id);
int rr_creds_disconnect(struct rdma_cm_id *id);
/* rdma_notify(): the peer has sent something on the queue pair, so it is established. */
int rr_creds_established(struct rdma_cm_id *id);
int rr_creds_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *cm);
int rr_creds_get_event(struct rdma_event_channel *cm, struct rdma_cm_event **ev);
/* Can any thread of this process still use this channel? */
bool rr_creds_usable(struct rdma_event_channel *cm);
/* See rr_refused. */
ssize_t rr_verbs_creds_refused(int fd, const void *buf, size_t n);
void rr_verbs_creds_forked(void);

/* --- channel.c --- */

/* What makes wake_fd, an epoll set, readable: the data of its entries. */
enum rr_verbs_rang {
	RR_VERBS_RANG_CM, RR_VERBS_RANG_CQ, RR_VERBS_RANG_DEVICE, RR_VERBS_RANG_BELL,
	RR_VERBS_RANGS
};

void rr_verbs_channel_close_fd(int fd); /* closes one; -1: does nothing */
int rr_verbs_channel_quiet(int fd);     /* makes it non-blocking; 0 or -errno */
int rr_verbs_channel_epoll(void);       /* an epoll set, or -errno */
/* Adds fd to an epoll set of ours; which: enum rr_verbs_rang, in the set of a connection. */
int rr_verbs_channel_watch(int set, int fd, uint32_t which);
int rr_verbs_channel(struct rdma_event_channel **cm);
/* NULL: does nothing. In a forked child use rr_verbs_channel_forked(): only the descriptor is
 * the child's. */
void rr_verbs_channel_free(struct rdma_event_channel *cm);
void rr_verbs_channel_forked(const struct rdma_event_channel *cm);
/* For a process that has changed its credentials: replaces *cm, which is watched in set, by a
 * new channel and moves id to it. Returns the old channel; NULL and errno: nothing has
 * changed. */
struct rdma_event_channel *rr_verbs_channel_renew(struct rdma_event_channel **cm,
						  struct rdma_cm_id *id, int set);
/* The next event, already acknowledged (before that an id can be neither destroyed nor moved),
 * with its private data copied to data. False: there is none; or errno is EACCES, see
 * rr_verbs_channel_renew(). */
bool rr_verbs_channel_event(struct rdma_event_channel *cm, struct rdma_cm_event *out,
			    uint8_t data[UINT8_MAX]);

/* --- device.c --- */

/* Makes the device's descriptors ours, out of the app's way, unless that was done.
 * To be called before each first use of a device that the CM gives us. */
void rr_verbs_device(struct ibv_context *dev);
/* The device was removed: librdmacm may close its descriptors. */
void rr_verbs_device_gone(const struct ibv_context *dev);
void rr_verbs_device_forked(void);	/* a child has no use for them */
/* What this process has found out about the device's windows; and sets that. */
enum rr_verbs_proof rr_verbs_device_windows_of(const struct ibv_context *dev);
void rr_verbs_device_windows_are(const struct ibv_context *dev, enum rr_verbs_proof is);
/* The device has failed as a whole; the link of one of its ports is up or down. */
void rr_verbs_device_failed(const struct ibv_context *dev);
void rr_verbs_device_port(const struct ibv_context *dev, unsigned port, bool up);
/* Can a new connection be made by this port, as far as the device's events say? */
bool rr_verbs_device_serves(struct ibv_context *dev, uint8_t port);
/* Has the device refused to post a Send With Invalidate, now (found) or before? */
bool rr_verbs_device_no_inv(const struct ibv_context *dev, bool found);

#endif
