/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue pair, its completion queue and its registered memory, within the device's limits. How
 * they are used is in the files that queue.h names. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/connections.h"
#include "core/prov/verbs/queue.h"
#include "core/prov/verbs/rdmacm.h"

/* Address space only: pages come when they are touched or registered. */
static uint8_t *map_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Is it a driver whose windows of type 2 can be invalidated by the peer safely? */
static bool trusted(const struct ibv_device *dev)
{
	static const char *const driver[] = { "mlx5_core" };
	char path[sizeof(dev->ibdev_path) + 32], to[256];
	const char *name;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/device/driver", dev->ibdev_path);
	n = readlink(path, to, sizeof(to) - 1);
	to[n > 0 ? n : 0] = 0;
	name = strrchr(to, '/');
	for (uint32_t i = 0; i < rr_array_size(driver); i++)
		if (name && !strcmp(name + 1, driver[i]))
			return true;
	return rr_verbs_process_invite;
}

/* rxe carries out a whole Read within its post, on the poster's CPU, and each post is a system
 * call. 128 KiB take a device of 100 Gbit/s 11 us, and the app's copy of them as long. */
#define RXE_VENDOR	0xffffffu
#define READ_PIECE	(128u << 10)

/* Fits what we want to what the device has. -ENOBUFS: it has too little of something that we
 * cannot do without; -EOPNOTSUPP: two of ours need immediate data, and iWARP has none. */
static int limits(struct rr_qp *qp, struct rr_vq *v)
{
	struct ibv_device_attr a;

	if (rr_verbs_iwarp(v->id) && !qp->native)
		return -EOPNOTSUPP;
	if (ibv_query_device(v->id->verbs, &a))
		return -EIO;
	qp->read_piece = a.vendor_id == RXE_VENDOR ? 0 : READ_PIECE;
	v->sq_cap = rr_min(rr_verbs_sq(qp), (uint32_t)a.max_qp_wr);
	v->max_sge = rr_min(RR_VERBS_SGE, (uint32_t)a.max_sge);
	v->windows = a.device_cap_flags &
			 (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B) &&
		     !rr_verbs_process_no_windows &&
		     rr_verbs_device_windows_of(v->id->verbs) != RR_V_REFUTED;
	v->can_inv = a.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS &&
		     !rr_verbs_device_no_inv(v->id->verbs, false);
	v->depth = (uint8_t)rr_min(RR_VERBS_DEPTH, (uint32_t)rr_max(a.max_qp_init_rd_atom, 0));
	v->depth_in = (uint8_t)rr_min(RR_VERBS_DEPTH, (uint32_t)rr_max(a.max_qp_rd_atom, 0));
	if (rr_verbs_recvs(qp) > (uint32_t)a.max_qp_wr || v->sq_cap < 2 * RR_VERBS_SENDS ||
	    rr_verbs_recvs(qp) + v->sq_cap > (uint32_t)a.max_cqe || v->max_sge < 1)
		return -ENOBUFS;
	return 0;
}

/* The slab is registered as a whole, for local use only. mem is registered later, as far as it
 * is used (mr.c). */
static int make_memory(struct rr_qp *qp, struct rr_vq *v)
{
	v->slab_size = rr_verbs_slab(qp, v);
	v->slab = map_memory(v->slab_size);
	qp->mem = map_memory(qp->mem_size);
	if (!v->slab || !qp->mem)
		return -ENOMEM;
	v->pd = ibv_alloc_pd(v->id->verbs);
	if (!v->pd)
		return -errno;
	v->slab_mr = ibv_reg_mr(v->pd, v->slab, v->slab_size, RR_VERBS_LOCAL);
	if (!v->slab_mr)
		return -errno;
	rr_verbs_prove_alloc(v);
	v->invite = v->windows && trusted(v->id->verbs->device);
	return 0;
}

/* Spreads interrupts: each completion queue uses the next vector. */
static _Atomic unsigned vectors;

/* An overrun would break the queue pair, so there is an entry for every receive and every
 * request of the send queue. */
static int make_cq(struct rr_qp *qp, struct rr_vq *v)
{
	unsigned nvectors = rr_max((unsigned)v->id->verbs->num_comp_vectors, 1u);
	int fl;

	v->comp = ibv_create_comp_channel(v->id->verbs);
	if (!v->comp)
		return -errno;
	fl = rr_os->fcntl(v->comp->fd, F_GETFL);
	if (fl < 0 || rr_os->fcntl(v->comp->fd, F_SETFL, fl | O_NONBLOCK) < 0)
		return -errno;
	v->cq = ibv_create_cq(v->id->verbs, (int)(rr_verbs_recvs(qp) + v->sq_cap), NULL,
			      v->comp, (int)(atomic_fetch_add(&vectors, 1) % nvectors));
	return v->cq ? 0 : -errno;
}

/* Sizes of inline data to try, one after the other, because devices only tell whether they
 * would accept one. hfi1 and mlx: all of it; irdma: 101 or 48; bnxt_re: 96; hns: 32; some:
 * none. */
static const uint32_t inlines[] = { RR_VERBS_INLINE, 128, 96, 64, 48, 32, 0 };

static int make_qp(const struct rr_qp *qp, struct rr_vq *v)
{
	struct ibv_qp_init_attr a = {
		.send_cq = v->cq, .recv_cq = v->cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = v->sq_cap, .max_recv_wr = rr_verbs_recvs(qp),
			 .max_send_sge = v->max_sge, .max_recv_sge = 1 },
	};
	const struct ibv_qp_cap wished = a.cap;
	int rc = -1;

	for (uint32_t i = 0; rc && i < rr_array_size(inlines); i++) {
		a.cap = wished;
		a.cap.max_inline_data = inlines[i];
		rc = rr_creds_create_qp(v->id, v->pd, &a);
		if (rc && errno != EINVAL && errno != EOPNOTSUPP && inlines[i])
			/* the size is not the reason: try once more without */
			i = rr_array_size(inlines) - 2;
	}
	if (rc)
		return -errno;
	v->max_inline = a.cap.max_inline_data;
	v->max_sge = rr_min(v->max_sge, a.cap.max_send_sge);
	return 0;
}

/* See queue.h. Receives are posted here, before the connection is established, because the peer
 * may send as soon as it is. */
int rr_verbs_qp_make(struct rr_qp *qp, struct rr_vq *v)
{
	int rc;

	rc = limits(qp, v);
	if (!rc)
		rc = make_memory(qp, v);
	if (!rc)
		rc = make_cq(qp, v);
	if (!rc)
		rc = make_qp(qp, v);
	for (uint32_t i = 0; !rc && i < rr_verbs_recvs(qp); i++)
		rc = rr_verbs_post_recv(qp, v, i);
	return rc == -EAGAIN ? -EDQUOT : rc;	/* rr_verbs_scarce() */
}

/* Other threads may be polling the CQ without the caller's lock. Taking cq_busy for good (pairs
 * with the release in rr_verbs_cq_pull()) keeps them away from here on. */
static void cq_free(struct rr_vq *v)
{
	uint32_t not_busy = 0;

	while (!atomic_compare_exchange_weak_explicit(&v->cq_busy, &not_busy, true,
						      memory_order_acquire,
						      memory_order_relaxed)) {
		not_busy = false;
		sched_yield();
	}
	ibv_destroy_cq(v->cq);
	v->cq = NULL;
}

static void cm_free(struct rr_vq *v)
{
	if (v->id)
		rr_creds_destroy_id(v->id);
	if (v->listener)
		rr_creds_destroy_id(v->listener);
	v->id = v->listener = NULL;
}

/* The kernel destroys nothing that something else still uses: windows are taken back first,
 * then the queue pair, then registrations and the CQ, then the channel of the CQ and the PD.
 * The ids are last, because their device's context is used until then. */
void rr_verbs_qp_free_objects(struct rr_vq *v)
{
	rr_verbs_events_remove(v);
	rr_verbs_keys_free(v);
	if (v->id && v->id->qp)
		rdma_destroy_qp(v->id);
	rr_verbs_mr_free(v);
	if (v->slab_mr)
		ibv_dereg_mr(v->slab_mr);
	if (v->cq)
		cq_free(v);
	if (v->comp) {
		rr_verbs_process_own_fd(v->comp->fd, false);
		ibv_destroy_comp_channel(v->comp);
	}
	if (v->pd)
		ibv_dealloc_pd(v->pd);
	cm_free(v);
	v->slab_mr = NULL;
	v->comp = NULL;
	v->pd = NULL;
}

/* Memory is unmapped after the objects in which it is registered. */
void rr_verbs_qp_free(struct rr_qp *qp, struct rr_vq *v)
{
	rr_verbs_qp_free_objects(v);
	if (v->slab)
		munmap(v->slab, v->slab_size);
	if (qp->mem)
		munmap(qp->mem, qp->mem_size);
	if (v->late)
		munmap(v->late, RR_VERBS_LATE * sizeof(*v->late));
	v->late = NULL;
	qp->mem = NULL;
}
