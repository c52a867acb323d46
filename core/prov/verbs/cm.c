/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles what RDMA CM reports about an established connection, and disconnects it. Making one
 * is cm_setup.c's. */

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/queue.h"
#include "core/prov/verbs/rdmacm.h"
#include "core/prov/verbs/connections.h"

/* The device is being removed, and the kernel waits until we have freed everything of it. What
 * has been received stays ours. */
static void free_on_device(struct rr_vq *v)
{
	rr_verbs_books_digest(v);
	rr_verbs_qp_free_objects(v);
	rr_verbs_books_digest(v); /* completions that another thread has just taken */
	v->state = RR_V_GONE;
}

/* The channel cannot be read any more. If it cannot be replaced, an unread event most likely
 * means that the peer has left. */
static void renew_channel(struct rr_qp *qp, struct rr_vq *v)
{
	struct pollfd p = { v->cm->fd, POLLIN, 0 };
	struct rdma_event_channel *old =
	    rr_verbs_channel_renew(&v->cm, v->id, qp->wake_fd);

	if (!old) {
		v->lost |= rr_os->poll(&p, 1, 0) > 0;
		return;
	}
	if (v->listener && !rr_creds_migrate_id(v->listener, v->cm))
		rr_creds_destroy_id(v->listener);
	v->listener = NULL;
	rr_verbs_channel_free(old);
}

/* The next event, after the channel was renewed if this process has changed its identity
 * (EACCES, see creds.c). False: there is none. */
static bool next_cm_event(struct rr_qp *qp, struct rr_vq *v, struct rdma_cm_event *ev,
			  uint8_t data[UINT8_MAX])
{
	if (rr_verbs_channel_event(v->cm, ev, data))
		return true;
	if (likely(errno != EACCES))
		return false;
	renew_channel(qp, v);
	return !v->lost && rr_verbs_channel_event(v->cm, ev, data);
}

void rr_verbs_cm_events(struct rr_qp *qp, struct rr_vq *v)
{
	uint8_t data[UINT8_MAX];
	struct rdma_cm_event ev;
	bool gone = false;

	for (uint32_t i = 0; i < RR_VERBS_EVENTS && v->state == RR_V_READY &&
	     next_cm_event(qp, v, &ev, data); i++) {
		/* somebody who has come to our port too late */
		if (ev.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			rr_creds_reject(ev.id);
			rr_creds_destroy_id(ev.id);
		} else if (ev.id == v->id && ev.event != RDMA_CM_EVENT_ESTABLISHED) {
			/* ADDR_CHANGE: the address has moved to another link (bonding), and no
			 * packet gets through from here. */
			v->lost = true;
			gone |= ev.event == RDMA_CM_EVENT_DEVICE_REMOVAL;
			/* the peer cannot reach our memory any more, either */
			rr_creds_disconnect(v->id);
		}
	}
	if (gone) {
		rr_verbs_device_gone(v->id->verbs);
		free_on_device(v);
	}
}

/* See connections.h. Of a device that has failed everything is given back, as of one that is
 * removed: the kernel may want to do that next, and would wait for an app that never closes
 * what has failed. */
void rr_verbs_cm_struck(struct rr_vq *v)
{
	int err = atomic_load_explicit(&v->struck, memory_order_acquire);

	if (likely(!err) || v->err || v->state == RR_V_GONE)
		return;
	rr_verbs_fail(v, err == -ENODEV ? -EIO : err);
	if (err != -ENODEV || v->state != RR_V_READY)
		return;
	rr_creds_disconnect(v->id);
	free_on_device(v);
}

void rr_verbs_cm_disconnect(struct rr_qp *qp)
{
	struct rr_vq *v = rr_verbs_of(qp);
	int saved = errno;

	if (v && v->state == RR_V_READY)
		rr_creds_disconnect(v->id);
	errno = saved;
}
