/* SPDX-License-Identifier: BSD-3-Clause */
/* req: rfc8166 5 #1 */
/* Makes a connection by RDMA CM, from its state to the event that says it is established.
 * Nothing here waits. Which address to use is decided by pair.c and native_cm.c. */

#include <errno.h>
#include <stdlib.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/queue.h"
#include "core/prov/verbs/rdmacm.h"
#include "core/prov/verbs/connections.h"

/* Connection requests with a wrong token that are refused before the port is closed. */
#define STRANGERS	8

/* --- its state -------------------------------------------------------------------------- */

/* Sets the sizes and reserves the locked memory that they need, with that of the queues.
 * -ENOMEM: too much; the reservation is still to be given back. */
static int sized(struct rr_qp *qp, struct rr_vq *v, uint32_t size, uint32_t recvs)
{
	v->param.recv_size = qp->recv_size = size;
	v->param.recvs = qp->recvs = recvs;
	v->sends = rr_verbs_sends(qp);
	return rr_verbs_mr_reserve(v, rr_verbs_slab(qp, v) + rr_verbs_queues(qp) +
				   qp->mem_size);
}

/* Chooses long receives if this connection may have them, otherwise as many usual ones as are
 * asked for. */
static int size_up(struct rr_qp *qp, struct rr_vq *v, const struct rr_prov_params *p)
{
	bool full;

	if (p->long_size > p->recv_size && rr_verbs_mr_share(v, RR_V_LONG)) {
		if (!sized(qp, v, p->long_size, rr_prov_recvs(p->recvs, p->long_size)))
			return 0;
		rr_verbs_mr_unreserve(v);
	}
	full = rr_verbs_mr_share(v, RR_V_FULL) || !p->few;
	return sized(qp, v, p->recv_size, full ? p->recvs : rr_min(p->recvs, p->few));
}

/* Makes the state, and nothing that the kernel knows of, so that an offer which is declined has
 * cost little. raw has a power of two entries, because its indices run freely. */
int rr_verbs_setup_start(struct rr_qp *qp, const struct rr_prov_params *p)
{
	struct rr_verbs *q = container_of(qp, struct rr_verbs, qp);
	uint32_t cap = 1;
	struct rr_vq *v;

	while (cap < p->recvs + RR_VERBS_SQ)
		cap *= 2;
	v = calloc(1, sizeof(*v) + cap * sizeof(v->raw[0]));
	if (!v)
		return -ENOMEM;
	v->raw_cap = cap;
	v->param = *p;
	v->param.run_dir = NULL;
	q->v = v;
	q->owner = rr_verbs_pid;
	qp->wake_fd = -1;
	qp->mem_size = p->mem_size;
	return size_up(qp, v, p);
}

/* --- connecting ------------------------------------------------------------------------ */

/* wake_fd is an epoll set of two: the CM's channel now, the completions later
 * (make_and_watch()). */
int rr_verbs_setup_open(struct rr_qp *qp, struct rr_vq *v)
{
	int rc;

	qp->wake_fd = rr_verbs_channel_epoll();
	if (qp->wake_fd < 0)
		return qp->wake_fd;
	rc = rr_verbs_channel(&v->cm);
	return rc ? rc : rr_verbs_channel_watch(qp->wake_fd, v->cm->fd, 0);
}

/* Should our private data announce remote invalidation (RFC 8797 §4.1)? Yes if our keys may be
 * invalidated, and if we would invalidate the peer's. An end that accepts a native peer exposes
 * nothing to it, so there it only means the latter.
 *
 * req: rfc8797 4.1 #2 */
static bool says_inv(const struct rr_qp *qp, const struct rr_vq *v)
{
	return v->invite || (qp->native && v->state == RR_V_ACCEPTING && v->can_inv &&
			     v->remote_inv);
}

static void conn_param(struct rr_qp *qp, struct rr_vq *v, uint8_t data[RR_VERBS_PRIVATE],
		       struct rdma_conn_param *p)
{
	uint32_t len;

	v->said_inv = says_inv(qp, v);
	len = qp->native ? rr_verbs_private_put_native(v, data)
			 : rr_verbs_private_put_pair(v, data);

	*p = (struct rdma_conn_param){
		.private_data = data, .private_data_len = (uint8_t)len,
		.responder_resources = v->depth_in, .initiator_depth = v->depth,
		/* The second count is how long the peer tries if it finds no receive of ours:
		 * for ever. How long we try is for the peer to say (Linux: not at all, the
		 * connection ends). */
		.retry_count = 7, .rnr_retry_count = 7,
	};
}

/* Takes the peer's private data. False: a peer of ours does not know the token. */
static bool private_get(struct rr_qp *qp, struct rr_vq *v, const struct rdma_conn_param *p)
{
	uint32_t len = p->private_data ? p->private_data_len : 0;

	return qp->native ? rr_verbs_private_get_native(qp, v, p->private_data, len)
			  : rr_verbs_private_get_pair(qp, v, p->private_data, len);
}

/* The peer's limits for RDMA Reads, in our terms: how many each end may have in progress. */
static void depths(struct rr_qp *qp, struct rr_vq *v, const struct rdma_conn_param *p)
{
	v->depth = rr_min(v->depth, p->initiator_depth);
	v->depth_in = rr_min(v->depth_in, p->responder_resources);
	qp->reads = v->depth > 0;
	qp->peer_reads = v->depth_in > 0;
}

/* See connections.h. Events that nobody has read yet come first: they may say that the device
 * serves, or that it does not. */
int rr_verbs_setup_device(struct rdma_cm_id *id)
{
	rr_verbs_device(id->verbs);
	if (!rr_verbs_channel_quiet(id->verbs->async_fd))
		rr_verbs_events_read(id->verbs);
	return rr_verbs_device_serves(id->verbs, id->port_num) ? 0 : -ENETDOWN;
}

/* Makes the queue pair and has its completions ring wake_fd. */
static int make_and_watch(struct rr_qp *qp, struct rr_vq *v)
{
	int rc = rr_verbs_setup_device(v->id);

	if (!rc)
		rc = rr_verbs_qp_make(qp, v);
	if (rc)
		return rc;
	rr_verbs_events_add(qp, v);
	v->comp->fd = rr_verbs_process_raise_fd(v->comp->fd);
	rc = rr_verbs_channel_quiet(v->comp->fd);
	return rc ? rc : rr_verbs_channel_watch(qp->wake_fd, v->comp->fd,
						RR_VERBS_RANG_CQ);
}

/* Sets how soon lost packets are sent again from our side, because RDMA CM derives seconds from
 * the path's lifetime. Kernels without the option, and iWARP, go on without it. */
static void soon_again(struct rr_vq *v)
{
	if (v->param.ack_timeout)
		rr_creds_ack_timeout(v->id, &v->param.ack_timeout);
}

static int connect_resolved(struct rr_qp *qp, struct rr_vq *v)
{
	uint8_t data[RR_VERBS_PRIVATE];
	struct rdma_conn_param p;

	v->state = RR_V_CONNECTING;
	conn_param(qp, v, data, &p);
	soon_again(v);
	return rr_creds_connect(v->id, &p) ? -errno : 0;
}

/* See connections.h. Private data is judged first: a stranger without the token costs no queue
 * pair. */
int rr_verbs_setup_accept(struct rr_qp *qp, struct rr_vq *v, const struct rdma_conn_param *req)
{
	uint8_t data[RR_VERBS_PRIVATE];
	struct rdma_conn_param p;
	int rc = -ECONNREFUSED;

	if (private_get(qp, v, req))
		rc = make_and_watch(qp, v);
	if (rc) {
		rr_creds_reject(v->id);
		return rc;
	}
	depths(qp, v, req);
	v->state = RR_V_ACCEPTING;
	conn_param(qp, v, data, &p);
	soon_again(v);
	if (ibv_req_notify_cq(v->cq, 0))	/* for hear_message() */
		return -EIO;
	return rr_creds_accept(v->id, &p) ? -errno : 0;
}

int rr_verbs_setup_resolve(struct rr_vq *v, const struct sockaddr *to,
			   const struct sockaddr *from, int ms)
{
	v->state = RR_V_ADDR;
	v->resolve_ms = ms;
	return rr_creds_create_id(v->cm, &v->id) ||
	       rr_creds_resolve_addr(v->id, (struct sockaddr *)(uintptr_t)from,
				     (struct sockaddr *)(uintptr_t)to, ms) ? -errno : 0;
}

/* --- its events ------------------------------------------------------------------------ */

/* On the connecting side the accepting side's private data counts only now. */
static int note_established(struct rr_qp *qp, struct rr_vq *v, const struct rdma_conn_param *p)
{
	if (v->state == RR_V_CONNECTING) {
		if (!private_get(qp, v, p))
			return -ECONNREFUSED;
		depths(qp, v, p);
	}
	v->state = RR_V_READY;
	rr_verbs_prove(qp, v);
	qp->peer_inv = v->said_inv && v->can_inv && v->remote_inv;
	qp->own_inv = v->invite;
	return 0;
}

/* The -errno for a set-up that failed. */
static int failure_of(enum rdma_cm_event_type what)
{
	switch (what) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return -ENETUNREACH;
	case RDMA_CM_EVENT_UNREACHABLE:
		return -ETIMEDOUT;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return -ENODEV;
	case RDMA_CM_EVENT_REJECTED:
		return -ECONNREFUSED;
	default:
		return -ECONNRESET;
	}
}

/* Somebody has connected to our port. The peer that knows the token gets the connection, and
 * the port is closed. Strangers that come only to be refused could otherwise keep coming, and
 * each refusal takes time out of the app's calls; so after some of them the port is closed as
 * well. */
static int requested(struct rr_qp *qp, struct rr_vq *v, struct rdma_cm_id *id,
		     const struct rdma_conn_param *req)
{
	if (v->state != RR_V_LISTENING ||
	    !rr_verbs_private_get_pair(qp, v, req->private_data,
				       req->private_data ? req->private_data_len : 0)) {
		rr_creds_reject(id);
		rr_creds_destroy_id(id);
		return ++v->strangers > STRANGERS ? -ECONNREFUSED : 0;
	}
	v->id = id;
	rr_creds_destroy_id(v->listener);
	v->listener = NULL;
	return rr_verbs_setup_accept(qp, v, req);
}

/* The connecting side hears of the address, then of the route, then that the connection is
 * established; the answering side hears of a request first. The queue pair is made as soon as
 * the device is known. 0, or the -errno that ends the set-up. */
static int set_up_event(struct rr_qp *qp, struct rr_vq *v, enum rdma_cm_event_type what,
			struct rdma_cm_id *id, const struct rdma_conn_param *p)
{
	int rc;

	switch (what) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		rc = make_and_watch(qp, v);
		if (rc)
			return rc;
		v->state = RR_V_ROUTE;
		return rr_creds_resolve_route(v->id, v->resolve_ms) ? -errno : 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return connect_resolved(qp, v);
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return requested(qp, v, id, p);
	case RDMA_CM_EVENT_ESTABLISHED:
		return note_established(qp, v, p);
	default:
		return failure_of(what);
	}
}

/* A message may come before the CM's last packet (RTU), which may be lost. Then the CM is told
 * that the peer has sent something, and reports that the connection is established. Otherwise
 * the CM would wait some seconds, and send its reply again for the peer to repeat the RTU. */
static void hear_message(struct rr_vq *v)
{
	if (v->state == RR_V_ACCEPTING && rr_verbs_cq_reap(v))
		rr_creds_established(v->id);
}

/* See prov.h. A limited number of events in one call, because strangers can cause some. */
int rr_verbs_setup_establish(struct rr_qp *qp)
{
	struct rr_vq *v = rr_verbs_of(qp);
	uint8_t data[UINT8_MAX];
	struct rdma_cm_event ev;
	int saved = errno;

	if (!v)
		return -ECONNRESET;
	for (uint32_t i = 0; i < RR_VERBS_EVENTS && v->state != RR_V_READY && !v->err &&
	     rr_verbs_channel_event(v->cm, &ev, data); i++) {
		int rc = set_up_event(qp, v, ev.event, ev.id, &ev.param.conn);

		if (rc)
			rr_verbs_fail(v, rc);
	}
	hear_message(v);
	rr_verbs_cm_struck(v);
	errno = saved;
	if (v->err)
		return v->err;
	return v->state == RR_V_READY ? 0 : -EAGAIN;
}
