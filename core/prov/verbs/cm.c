/* SPDX-License-Identifier: BSD-3-Clause */
/* Set-up and end by RDMA CM. Nothing here waits, but close(): for what was posted to leave. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/verbs_int.h"
#include "core/wire/cmdata.h"
#include "core/wire/cursor.h"

#define RESOLVE_MS	1000
#define LEAVE_WAIT	(2 * RR_SEC)
#define TOKEN_MAGIC	"RRtk"
#define STRANGERS	8	/* connection requests with a wrong token that are refused, not more */

/* An address in an answer: family, port, address, scope. */
#define ADDR_LEN	24u

static int fail(struct rr_vq *v, int err)
{
	if (!v->err)
		v->err = err;
	return v->err;
}

/* --- descriptors ----------------------------------------------------------------------- */

/* One of ours: fd at floor or above if there is room, else where it is. */
static int high(int fd, int floor)
{
	int to = rr_os->fcntl(fd, F_DUPFD_CLOEXEC, floor);

	if (to >= 0)
		rr_os->close(fd);
	else
		to = fd;
	rr_verbs_own_fd(to, true);
	return to;
}

static int quiet(int fd)
{
	int fl = rr_os->fcntl(fd, F_GETFL);

	return fl < 0 || rr_os->fcntl(fd, F_SETFL, fl | O_NONBLOCK) < 0 ? -errno : 0;
}

/* which: 0 the CM's, 1 completions'. */
static int watch(const struct rr_qp *qp, int fd, uint32_t which)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = which };

	return syscall(SYS_epoll_ctl, qp->wake_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int open_cm(struct rr_qp *qp, struct rr_vq *v)
{
	int rc;

	qp->wake_fd = (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
	if (qp->wake_fd < 0)
		return -errno;
	qp->wake_fd = high(qp->wake_fd, v->param.fd_floor);
	v->cm = rdma_create_event_channel();
	if (!v->cm)
		return -errno;
	v->cm->fd = high(v->cm->fd, v->param.fd_floor);
	rc = quiet(v->cm->fd);
	return rc ? rc : watch(qp, v->cm->fd, 0);
}

/* --- making ---------------------------------------------------------------------------- */

static int start(struct rr_qp *qp, const struct rr_prov_params *p)
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
	qp->recv_size = p->recv_size;
	qp->recvs = p->recvs;
	return 0;
}

/* Frees all of it and leaves qp as it was before. */
static int undo(struct rr_qp *qp, int rc)
{
	rr_verbs_close(qp);
	return rc;
}

/* Our end is made when the answer is here: an offer that is declined costs nothing. */
int rr_verbs_prepare(struct rr_qp *qp, const struct rr_prov_params *p, struct rr_prov_addr *offer)
{
	struct ibv_device **list;
	int n = 0;

	list = ibv_get_device_list(&n);
	if (!list)
		return -errno;
	ibv_free_device_list(list);
	if (!n)
		return -ENODEV;
	offer->bytes[0] = 1;	/* version of this address */
	offer->len = 1;
	return start(qp, p);
}

static int address_put(const struct rdma_cm_id *id, struct rr_prov_addr *out)
{
	const struct sockaddr *sa = rdma_get_local_addr((struct rdma_cm_id *)(uintptr_t)id);
	uint16_t port = rdma_get_src_port((struct rdma_cm_id *)(uintptr_t)id);

	memset(out, 0, sizeof(*out));
	out->len = ADDR_LEN;
	memcpy(out->bytes + 2, &port, 2);
	if (sa->sa_family == AF_INET) {
		out->bytes[0] = 4;
		memcpy(out->bytes + 4, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
	} else {
		out->bytes[0] = 6;
		memcpy(out->bytes + 4, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	}
	return 0;
}

/* The peer's word. A scope is the host's own: link-local addresses are not for this. */
static int address_get(const struct rr_prov_addr *in, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (in->len < ADDR_LEN || (in->bytes[0] != 4 && in->bytes[0] != 6))
		return -EPROTO;
	if (in->bytes[0] == 4) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_port, in->bytes + 2, 2);
		memcpy(&v4->sin_addr, in->bytes + 4, 4);
	} else {
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_port, in->bytes + 2, 2);
		memcpy(&v6->sin6_addr, in->bytes + 4, 16);
	}
	return 0;
}

/* The anchor's own address with any port; a v4-mapped one as what it is. */
static int own_address(const struct rr_prov_params *p, struct sockaddr_in6 *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;

	*out = p->local;
	out->sin6_port = 0;
	if (out->sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&p->local.sin6_addr)) {
		memset(out, 0, sizeof(*out));
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, p->local.sin6_addr.s6_addr + 12, 4);
	}
	if (out->sin6_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET ? -EADDRNOTAVAIL : 0;
	if (out->sin6_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&out->sin6_addr) ||
	    IN6_IS_ADDR_LINKLOCAL(&out->sin6_addr))
		return -EADDRNOTAVAIL;
	return 0;
}

/* A listener where TCP has led the peer: if that address is no device's, there is no route. */
static int listen_at(struct rr_qp *qp, struct rr_vq *v, struct rr_prov_addr *answer)
{
	struct sockaddr_in6 a;
	int rc = own_address(&v->param, &a);

	if (!rc)
		rc = open_cm(qp, v);
	if (rc)
		return rc;
	if (rdma_create_id(v->cm, &v->listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(v->listener, (struct sockaddr *)&a) || rdma_listen(v->listener, 2))
		return -errno;
	if (!v->listener->verbs)
		return -ENODEV;
	return address_put(v->listener, answer);
}

int rr_verbs_answer(struct rr_qp *qp, const struct rr_prov_params *p,
		    const struct rr_prov_addr *offer, struct rr_prov_addr *answer)
{
	int saved = errno, rc;

	if (offer->len < 1 || offer->bytes[0] != 1)
		return -EPROTO;
	rc = start(qp, p);
	if (!rc)
		rc = listen_at(qp, rr_verbs_of(qp), answer);
	if (rc)
		undo(qp, rc);
	errno = saved;
	return rc;
}

int rr_verbs_join(struct rr_qp *qp, const struct rr_prov_addr *answer)
{
	struct rr_vq *v = rr_verbs_of(qp);
	struct sockaddr_storage to;
	int saved = errno, rc;

	if (!v)
		return -ECONNRESET;
	rc = address_get(answer, &to);
	if (!rc)
		rc = open_cm(qp, v);
	if (!rc && (rdma_create_id(v->cm, &v->id, NULL, RDMA_PS_TCP) ||
		    rdma_resolve_addr(v->id, NULL, (struct sockaddr *)&to, RESOLVE_MS)))
		rc = -errno;
	v->state = RR_V_ADDR;
	errno = saved;
	return rc;
}

/* --- private data ---------------------------------------------------------------------- */

static void private_put(const struct rr_vq *v, uint8_t out[RR_VERBS_PRIVATE])
{
	struct rr_cmdata d = { .remote_inv = false, .send_size = v->param.recv_size,
			       .recv_size = v->param.recv_size };

	rr_cmdata_put(&d, out);
	memcpy(out + 8, TOKEN_MAGIC, 4);
	memcpy(out + 12, v->param.token, RR_TOKEN_LEN);
	rr_put_be32(out + 12 + RR_TOKEN_LEN, v->param.recvs);
}

/* The peer's private data; false if it does not know the token. */
static bool private_get(struct rr_qp *qp, struct rr_vq *v, const struct rdma_conn_param *p)
{
	const uint8_t *buf = p->private_data;
	uint32_t len = buf ? p->private_data_len : 0, at;
	struct rr_cmdata d;

	at = rr_cmdata_get(buf, len, &d);
	if (!at || len - at < RR_VERBS_PRIVATE - RR_CMDATA_LEN || memcmp(buf + at, TOKEN_MAGIC, 4) ||
	    memcmp(buf + at + 4, v->param.token, RR_TOKEN_LEN))
		return false;
	qp->peer_recvs = rr_be32(buf + at + 4 + RR_TOKEN_LEN);
	v->window = qp->peer_recvs;
	/* What we send is gathered in slots of our own size. */
	qp->send_size = rr_min(d.recv_size, v->param.recv_size);
	v->remote_inv = d.remote_inv;
	return true;
}

/* --- connecting ------------------------------------------------------------------------ */

static void conn_param(struct rr_vq *v, uint8_t data[RR_VERBS_PRIVATE], struct rdma_conn_param *p)
{
	private_put(v, data);
	*p = (struct rdma_conn_param){
		.private_data = data, .private_data_len = RR_VERBS_PRIVATE,
		.responder_resources = v->depth, .initiator_depth = v->depth,
		.retry_count = 7, .rnr_retry_count = 7,	/* as often as it takes */
	};
}

static int make_and_watch(struct rr_qp *qp, struct rr_vq *v)
{
	int rc = rr_verbs_qp_make(qp, v);

	if (rc)
		return rc;
	v->comp->fd = high(v->comp->fd, v->param.fd_floor);
	rc = quiet(v->comp->fd);
	return rc ? rc : watch(qp, v->comp->fd, 1);
}

static int connect_now(struct rr_vq *v)
{
	uint8_t data[RR_VERBS_PRIVATE];
	struct rdma_conn_param p;

	conn_param(v, data, &p);
	v->state = RR_V_CONNECTING;
	return rdma_connect(v->id, &p) ? -errno : 0;
}

/* Somebody has come to our port. The one who knows the token gets the connection. */
static int requested(struct rr_qp *qp, struct rr_vq *v, struct rdma_cm_id *id,
		     const struct rdma_conn_param *req)
{
	uint8_t data[RR_VERBS_PRIVATE];
	struct rdma_conn_param p;
	int rc;

	if (v->state != RR_V_LISTENING || !private_get(qp, v, req)) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return ++v->strangers > STRANGERS ? -ECONNREFUSED : 0;
	}
	v->id = id;
	rc = make_and_watch(qp, v);
	if (rc) {
		rdma_reject(id, NULL, 0);
		return rc;
	}
	conn_param(v, data, &p);
	p.responder_resources = rr_min(v->depth, req->initiator_depth);
	p.initiator_depth = v->depth = rr_min(v->depth, req->responder_resources);
	v->state = RR_V_ACCEPTING;
	return rdma_accept(id, &p) ? -errno : 0;
}

/* On the connecting side the accepting side's word counts now. */
static int established(struct rr_qp *qp, struct rr_vq *v, const struct rdma_conn_param *p)
{
	if (v->state == RR_V_CONNECTING) {
		if (!private_get(qp, v, p))
			return -ECONNREFUSED;
		v->depth = rr_min(v->depth, p->responder_resources);
	}
	v->state = RR_V_READY;
	return 0;
}

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
		return rdma_resolve_route(v->id, RESOLVE_MS) ? -errno : 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return connect_now(v);
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return requested(qp, v, id, p);
	case RDMA_CM_EVENT_ESTABLISHED:
		return established(qp, v, p);
	default:
		return -ECONNREFUSED;
	}
}

int rr_verbs_establish(struct rr_qp *qp)
{
	struct rr_vq *v = rr_verbs_of(qp);
	uint8_t data[UINT8_MAX];
	struct rdma_cm_event *ev;
	int saved = errno;

	if (!v)
		return -ECONNRESET;
	while (v->state != RR_V_READY && !v->err && !rdma_get_cm_event(v->cm, &ev)) {
		struct rdma_conn_param p = ev->param.conn;
		enum rdma_cm_event_type what = ev->event;
		struct rdma_cm_id *id = ev->id;
		int rc;

		/* An id cannot be destroyed before its event is acknowledged. */
		memcpy(data, p.private_data ? p.private_data : data, p.private_data_len);
		p.private_data = p.private_data ? data : NULL;
		rdma_ack_cm_event(ev);
		rc = set_up_event(qp, v, what, id, &p);
		if (rc)
			fail(v, rc);
	}
	errno = saved;
	if (v->err)
		return v->err;
	return v->state == RR_V_READY ? 0 : -EAGAIN;
}

void rr_verbs_cm_events(struct rr_vq *v)
{
	struct rdma_cm_event *ev;

	while (v->state == RR_V_READY && !rdma_get_cm_event(v->cm, &ev)) {
		enum rdma_cm_event_type what = ev->event;
		struct rdma_cm_id *id = ev->id;

		rdma_ack_cm_event(ev);
		if (what == RDMA_CM_EVENT_CONNECT_REQUEST) {
			rdma_reject(id, NULL, 0);
			rdma_destroy_id(id);
		} else if (id == v->id && what != RDMA_CM_EVENT_ESTABLISHED &&
			   what != RDMA_CM_EVENT_ADDR_CHANGE) {
			v->lost = true;
			rdma_disconnect(v->id);	/* nor does the peer reach our memory any more */
		}
	}
}

/* --- end ------------------------------------------------------------------------------- */

static void disown(const struct rr_qp *qp, const struct rr_vq *v)
{
	if (v->cm)
		rr_verbs_own_fd(v->cm->fd, false);
	if (v->comp)
		rr_verbs_own_fd(v->comp->fd, false);
	rr_verbs_own_fd(qp->wake_fd, false);
}

/* In a forked child the descriptors are all that is the child's. */
static void let_go(struct rr_qp *qp, struct rr_vq *v)
{
	if (!v)
		return;
	if (v->cm)
		rr_os->close(v->cm->fd);
	if (v->comp)
		rr_os->close(v->comp->fd);
	if (qp->wake_fd >= 0)
		rr_os->close(qp->wake_fd);
	disown(qp, v);
}

void rr_verbs_close(struct rr_qp *qp)
{
	struct rr_verbs *q = container_of(qp, struct rr_verbs, qp);
	struct rr_vq *v = rr_verbs_of(qp);
	int saved = errno;

	if (!v) {
		let_go(qp, q->v);
		errno = saved;
		return;
	}
	if (v->state == RR_V_READY && !v->err && !v->lost)
		rr_verbs_flush(qp, v, LEAVE_WAIT);
	if (v->state == RR_V_READY)
		rdma_disconnect(v->id);
	disown(qp, v);
	rr_verbs_qp_free(qp, v);
	if (v->id)
		rdma_destroy_id(v->id);
	if (v->listener)
		rdma_destroy_id(v->listener);
	if (v->cm)
		rdma_destroy_event_channel(v->cm);
	if (qp->wake_fd >= 0)
		rr_os->close(qp->wake_fd);
	qp->wake_fd = -1;
	free(v);
	q->v = NULL;
	errno = saved;
}
