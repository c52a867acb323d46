/* SPDX-License-Identifier: BSD-3-Clause */
/* Native peers, of any implementation: listens for them and connects to them (RFC 8166, 8797).
 * Between two of ours it is pair.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/rdmacm.h"
#include "core/prov/verbs/connections.h"
#include "core/wire/cmdata.h"

#define RESOLVE_MS	4000	/* neighbour discovery may take some seconds */
/* Requests that nobody has taken yet; the kernel refuses more. */
#define BACKLOG		128

/* Makes qp's state and its channel. Receives are never shorter than 1024 bytes, since a peer
 * that does not know ours may send that much (RFC 8166 §3.3.3). */
static int start_native(struct rr_qp *qp, const struct rr_prov_params *p)
{
	int rc = p->recv_size < RR_CMDATA_DEFAULT ? -EINVAL : rr_verbs_setup_start(qp, p);

	if (rc)
		return rc;
	qp->native = true;
	return rr_verbs_setup_open(qp, rr_verbs_of(qp));
}

/* --- connecting ------------------------------------------------------------------------ */

/* Copies an address of either family into a sockaddr_in6, which has room for both. to may be
 * NULL. */
static void address(struct sockaddr_in6 *to, const struct sockaddr *from)
{
	if (!to)
		return;
	memset(to, 0, sizeof(*to));
	memcpy(to, from, from->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(*to));
}

static bool any_v4(const struct sockaddr_in6 *a)
{
	return a->sin6_family == AF_INET &&
	       ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr == INADDR_ANY;
}

/* If the app has bound to IPv4's any-address, RDMA CM chooses where to come from. -ENODEV and
 * -EADDRNOTAVAIL mean that no device of ours leads to the peer, which callers know as
 * -ENETUNREACH. */
int rr_verbs_native_connect(struct rr_qp *qp, const struct rr_prov_params *p,
			    const struct sockaddr *to, const struct sockaddr *from)
{
	int saved = errno, rc = start_native(qp, p);
	struct sockaddr_in6 there, here;

	address(&there, to);
	rr_verbs_unmap(&there);
	if (from) {
		address(&here, from);
		rr_verbs_unmap(&here);
		from = any_v4(&here) ? NULL : (struct sockaddr *)&here;
	}
	if (!rc)
		rc = rr_verbs_setup_resolve(rr_verbs_of(qp), (struct sockaddr *)&there, from,
					    RESOLVE_MS);
	if (rc)
		rr_verbs_end_undo(qp, rc);
	errno = saved;
	return rc == -ENODEV || rc == -EADDRNOTAVAIL ? -ENETUNREACH : rc;
}

/* --- listening ------------------------------------------------------------------------- */

size_t rr_verbs_native_lst_size(void)
{
	return sizeof(struct rr_verbs_lst);
}

/* Makes one listener of l, at addr. */
static int listen_native(struct rr_verbs_lst *l, struct rdma_cm_id **id,
			 const struct sockaddr_in6 *addr, int v6only)
{
	if (rr_creds_create_id(l->cm, id) ||
	    (addr->sin6_family == AF_INET6 && rr_creds_v6only(*id, &v6only)) ||
	    rr_creds_bind_addr(*id, (struct sockaddr *)(uintptr_t)addr))
		return -errno;
	if ((*id)->verbs)	/* the address is a device's */
		rr_verbs_device((*id)->verbs);
	return rr_creds_listen(*id, BACKLOG) ? -errno : 0;
}

/* IPv6's any-address covers IPv4 as well, except on iWARP, where drivers listen for the family
 * of the address only. So there are always two listeners. */
static int open_at(struct rr_verbs_lst *l, const struct sockaddr *addr)
{
	struct sockaddr_in6 at, at4 = { .sin6_family = AF_INET };
	bool both;
	int rc;

	address(&at, addr);
	rr_verbs_unmap(&at);
	at4.sin6_port = at.sin6_port;	/* where sin_port is */
	both = at.sin6_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&at.sin6_addr) &&
	       !l->lst.v6only;
	l->lst.fd = rr_verbs_channel_epoll();
	rc = l->lst.fd < 0 ? l->lst.fd : rr_verbs_channel(&l->cm);
	if (!rc)
		rc = rr_verbs_channel_watch(l->lst.fd, l->cm->fd, 0);
	if (!rc)
		rc = listen_native(l, &l->id, &at, both || l->lst.v6only);
	if (!rc && both)
		rc = listen_native(l, &l->id4, &at4, 0);
	return rc;
}

int rr_verbs_native_listen(struct rr_lst *lst, const struct sockaddr *addr)
{
	struct rr_verbs_lst *l = container_of(lst, struct rr_verbs_lst, lst);
	int saved = errno, rc;

	lst->fd = -1;
	l->owner = rr_verbs_pid;
	rc = open_at(l, addr);
	if (rc)
		rr_verbs_native_unlisten(lst);
	errno = saved;
	return rc;
}

/* The ids go before the channels that they report to. In a forked child only descriptors are
 * closed: the parent's listener stays. */
void rr_verbs_native_unlisten(struct rr_lst *lst)
{
	struct rr_verbs_lst *l = container_of(lst, struct rr_verbs_lst, lst);
	int saved = errno;

	if (l->owner != rr_verbs_pid) {
		rr_verbs_channel_forked(l->cm);
		rr_verbs_channel_forked(l->old);
	} else {
		if (l->id)
			rr_creds_destroy_id(l->id);
		if (l->id4)
			rr_creds_destroy_id(l->id4);
		rr_verbs_channel_free(l->cm);
		rr_verbs_channel_free(l->old);
	}
	rr_verbs_channel_close_fd(lst->fd);
	l->id = l->id4 = NULL;
	l->cm = l->old = NULL;
	lst->fd = -1;
	errno = saved;
}

/* Gives the request a channel of its own, and accepts it. id belongs to qp from the moment it
 * has moved there; before that a failure refuses and destroys it here. */
static int take_request(struct rr_qp *qp, const struct rr_prov_params *p, struct rdma_cm_id *id,
			const struct rdma_conn_param *req)
{
	int rc = start_native(qp, p);
	struct rr_vq *v = rr_verbs_of(qp);

	if (!rc && (!v || rr_creds_migrate_id(id, v->cm)))
		rc = -errno;
	if (rc || !v) {
		rr_creds_reject(id);
		rr_creds_destroy_id(id);
		return rc;
	}
	v->id = id;
	return rr_verbs_setup_accept(qp, v, req);
}

/* The process has changed its credentials: the listener gets another channel and keeps its
 * port. Pending requests move with it, but their events stay on the old channel, where
 * librdmacm drops them: they are refused when that channel is closed, which must not happen
 * before they have been read. */
static int renew_listener(struct rr_verbs_lst *l)
{
	if (l->old || !(l->old = rr_verbs_channel_renew(&l->cm, l->id, l->lst.fd)))
		return -ESHUTDOWN;
	return l->id4 && rr_creds_migrate_id(l->id4, l->cm) ? -ESHUTDOWN : 0;
}

/* Closes the channel from before the credentials changed, if there is one. */
static void drop_old(struct rr_verbs_lst *l)
{
	rr_verbs_channel_free(l->old);
	l->old = NULL;
}

/* The old channel is closed only while no request is pending: closing it would refuse the
 * pending ones (see renew_listener()). */
int rr_verbs_native_tend(struct rr_lst *lst)
{
	struct rr_verbs_lst *l = container_of(lst, struct rr_verbs_lst, lst);
	struct pollfd p = { lst->fd, POLLIN, 0 };
	int saved = errno, rc = 0;

	if (l->owner == rr_verbs_pid && l->id && !rr_creds_usable(l->cm)) {
		rc = renew_listener(l);
		if (rr_os->poll(&p, 1, 0) == 0)
			drop_old(l);
	}
	errno = saved;
	return rc;
}

/* 0; -EAGAIN: no request; -ESHUTDOWN: there will never be one. */
static int next_request(struct rr_verbs_lst *l, struct rdma_cm_event *ev,
			uint8_t data[UINT8_MAX])
{
	if (rr_verbs_channel_event(l->cm, ev, data))
		return 0;
	if (unlikely(errno == EACCES)) {
		if (renew_listener(l))
			return -ESHUTDOWN;
		if (rr_verbs_channel_event(l->cm, ev, data))
			return 0;
	}
	drop_old(l);
	return -EAGAIN;
}

/* Is the listener useless because its device is gone, or because its address has moved to
 * another link (bonding), so that a new listener is needed? */
static bool listener_is_over(const struct rr_verbs_lst *l, const struct rdma_cm_event *ev)
{
	if (ev->id != l->id && ev->id != l->id4)
		return false;
	if (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL && ev->id->verbs)
		rr_verbs_device_gone(ev->id->verbs);
	return ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL ||
	       ev->event == RDMA_CM_EVENT_ADDR_CHANGE;
}

/* See prov.h. At most RR_VERBS_EVENTS events are looked at in one call, because anybody can
 * cause them. -EAGAIN of a request that failed would read as "there is none", so it becomes
 * -ENOBUFS. */
int rr_verbs_native_take(struct rr_lst *lst, struct rr_qp *qp, const struct rr_prov_params *p,
			 struct sockaddr_in6 *peer, struct sockaddr_in6 *local)
{
	struct rr_verbs_lst *l = container_of(lst, struct rr_verbs_lst, lst);
	struct rdma_cm_event ev;
	uint8_t data[UINT8_MAX];
	int saved = errno, rc = -EAGAIN;

	if (l->owner != rr_verbs_pid || !l->id)
		return -ESHUTDOWN;
	for (uint32_t i = 0; i < RR_VERBS_EVENTS && !(rc = next_request(l, &ev, data)); i++,
	     rc = -EAGAIN) {
		if (listener_is_over(l, &ev)) {
			rc = -ESHUTDOWN;
			break;
		}
		if (ev.event != RDMA_CM_EVENT_CONNECT_REQUEST)
			continue;
		address(peer, rdma_get_peer_addr(ev.id));
		address(local, rdma_get_local_addr(ev.id));
		rc = take_request(qp, p, ev.id, &ev.param.conn);
		if (rc) {
			rr_verbs_end_undo(qp, rc);
			rc = rc == -EAGAIN ? -ENOBUFS : rc;
		}
		break;
	}
	errno = saved;
	return rc;
}
