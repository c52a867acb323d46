/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices whose kernel driver says more than the driver's half in user space can, made up
 * here: no windows (bnxt_re), windows of type 1 only (irdma, cxgb4), no Send With Invalidate
 * (bnxt_re, ocrdma), too few of something. A connection does without, the next one knows, and
 * nothing is tried again for ever. */
#include <criterion/criterion.h>

#if __has_include(<rdma/rdma_cma.h>)

#include <stdlib.h>
#include <time.h>

#define SHORT_WAIT	(40 * RR_MSEC)

#include "core/prov/verbs/books.c"
#include "core/prov/verbs/cq.c"
#include "core/prov/verbs/traffic.c"
#include "core/prov/verbs/device.c"
#include "core/prov/verbs/keys.c"
#include "core/prov/verbs/mr.c"
#include "core/prov/verbs/notes.c"
#include "core/prov/verbs/post.c"
#include "core/prov/verbs/prove.c"

#define MEM	((size_t)1 << 20)
#define RECVS	64u

static pid_t self = 1;
pid_t *rr_verbs_process_self = &self;

static void own_fd(int fd, bool own)
{
	(void)fd;
	(void)own;
}
void (*rr_verbs_process_own_fd)(int fd, bool own) = own_fd;

static int raise_fd(int fd)
{
	return fd;
}
int (*rr_verbs_process_raise_fd)(int fd) = raise_fd;

void rr_verbs_cm_events(struct rr_qp *qp, struct rr_vq *v)
{
	(void)qp;
	(void)v;
}

void rr_verbs_cm_struck(struct rr_vq *v)
{
	(void)v;
}

void rr_verbs_events_look(struct ibv_context *dev)
{
	(void)dev;
}

/* --- the device -------------------------------------------------------------------------- */

static struct {
	int alloc_mw;			/* errno; 0 it works */
	uint32_t mws;			/* so many, then ENOMEM; 0 any number */
	int reg;			/* errno */
	uint32_t refuses;		/* 1 << opcode: EINVAL at once */
	bool unrung;			/* all is taken, then the doorbell fails; libsiw names nobody, and its errors are negative */
	uint32_t fails;			/* 1 << opcode: at its completion, with: */
	enum ibv_wc_status how;
} can;

static enum ibv_wr_opcode done[64];
static uint32_t ndone, asked, mws, mrs;
static struct ibv_wc wcs[64];
static int nwcs;
static bool broken;

static struct ibv_mw *make_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw;

	cr_assert_eq(type, IBV_MW_TYPE_2);
	errno = can.alloc_mw ? can.alloc_mw : can.mws && mws == can.mws ? ENOMEM : 0;
	if (errno)
		return NULL;
	mw = calloc(1, sizeof(*mw));
	mw->context = pd->context;
	mw->rkey = 0x100 * ++mws;
	return mw;
}

static int drop_mw(struct ibv_mw *mw)
{
	mws--;
	free(mw);
	return 0;
}

static int take_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	asked++;
	for (; wr; wr = wr->next) {
		enum ibv_wc_status st = broken ? IBV_WC_WR_FLUSH_ERR :
					can.fails & 1u << wr->opcode ? can.how : IBV_WC_SUCCESS;

		if (can.refuses & 1u << wr->opcode) {
			*bad = wr;
			return EINVAL;
		}
		done[ndone++] = wr->opcode;
		broken |= st != IBV_WC_SUCCESS;
		if (wr->send_flags & IBV_SEND_SIGNALED || st)
			wcs[nwcs++] = (struct ibv_wc){ .wr_id = wr->wr_id, .status = st };
	}
	if (can.unrung)
		*bad = NULL;
	return can.unrung ? -ENOTCONN : 0;
}

static int take_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	(void)wr;
	(void)bad;
	return can.unrung ? -ENOMEM : 0;
}

static int look_at(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = rr_min(n, nwcs);

	(void)cq;
	memcpy(wc, wcs, (size_t)got * sizeof(*wc));
	memmove(wcs, wcs + got, (size_t)(nwcs - got) * sizeof(*wc));
	nwcs -= got;
	return got;
}

static int notify(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	(void)solicited;
	return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	struct ibv_mr *m;

	(void)pd;
	(void)access;
	if (can.reg) {
		errno = can.reg;
		return NULL;
	}
	m = calloc(1, sizeof(*m));
	m->addr = addr;
	m->length = len;
	m->rkey = 7 + 0x10000 * ++mrs;
	return m;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned access)
{
	(void)iova;
	return ibv_reg_mr(pd, addr, len, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *m)
{
	free(m);
	return 0;
}

static enum ibv_port_state link_state;
static unsigned port_looks;

#undef ibv_query_port
int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *a)
{
	(void)ctx;
	cr_assert_eq(port, 1);
	port_looks++;
	((struct ibv_port_attr *)(void *)a)->state = link_state;
	return 0;
}

static struct ibv_device dev = { .transport_type = IBV_TRANSPORT_IB };
static struct ibv_context device = {
	.device = &dev, .cmd_fd = 200, .async_fd = 201,
	.ops = { .alloc_mw = make_mw, .dealloc_mw = drop_mw, .poll_cq = look_at, .req_notify_cq = notify,
		 .post_send = take_send, .post_recv = take_recv },
};
static struct ibv_pd pd = { .context = &device };
static struct ibv_cq queue = { .context = &device };
static struct ibv_qp pair = { .context = &device };
static struct rdma_cm_id id = { .verbs = &device, .qp = &pair };
static struct ibv_mr slab_mr = { .lkey = 1 };
static struct rr_verbs q;
static struct rr_vq *v;
static uint8_t mem[MEM];

/* As qp.c, at another connection. */
static void make(void)
{
	v = calloc(1, sizeof(*v) + 1024 * sizeof(v->raw[0]));
	v->raw_cap = 1024;
	v->cq = &queue;
	v->pd = &pd;
	v->id = &id;
	v->slab_mr = &slab_mr;
	v->state = RR_V_ACCEPTING;
	v->sq_cap = RR_VERBS_SQ;
	v->sends = RR_VERBS_SENDS;
	v->max_inline = 64;
	v->max_sge = 4;
	v->window = RECVS;
	v->param.mem_size = MEM;
	v->param.recv_size = 1024;
	q = (struct rr_verbs){ .owner = self, .v = v, .qp = {
		.recv_size = 1024, .send_size = 1024, .recvs = RECVS, .peer_recvs = RECVS,
		.mem = mem, .mem_size = MEM, .peer_inv = true,
	} };
	v->slab = calloc(RECVS + RR_VERBS_NOTES + RR_VERBS_SENDS, 1024);
	ndone = asked = 0;
	nwcs = 0;
	broken = false;
	rr_verbs_device(&device);
	v->windows = rr_verbs_device_windows_of(&device) != RR_V_REFUTED;
	v->can_inv = !rr_verbs_device_no_inv(&device, false);
	rr_verbs_prove_alloc(v);
}

/* As cm.c; true: it is of use, once what was posted has ended. */
static bool establish(void)
{
	v->state = RR_V_READY;
	rr_verbs_prove(&q.qp, v);
	rr_verbs_books_digest(v);
	return !v->err;
}

static void over(void)
{
	rr_verbs_keys_free(v);
	rr_verbs_mr_free(v);
	free(v->slab);
	free(v);
	cr_assert_eq(mws, 0, "%u windows are left", mws);
}

static void another(void)
{
	over();
	make();
}

TestSuite(verbs_able, .init = make, .fini = over, .timeout = 60);

static int send_one(uint32_t inv)
{
	uint8_t bytes[100] = { 0 };

	return rr_verbs_traffic_send(&q.qp, &(struct iovec){ bytes, sizeof(bytes) }, 1, 0, inv);
}

/* Something is exposed and told of and taken back: by a window, or a registration. */
static void exposes(bool window)
{
	struct rr_seg seg;
	struct rr_wc wc[4];
	uint32_t nmrs = mrs;
	int rc;

	ndone = 0;
	cr_assert_eq(rr_verbs_keys_expose(&q.qp, mem, 8192, RR_RIGHT_READ, &seg), 0);
	cr_assert_eq(send_one(0), 1);
	cr_assert_eq(ndone > 1 && done[ndone - 2] == IBV_WR_BIND_MW, window);
	cr_assert_eq(done[ndone - 1], IBV_WR_SEND);
	rc = rr_verbs_keys_invalidate(&q.qp, seg.handle, 5);
	cr_assert_eq(rc, window ? 0 : 1);
	rc = rr_verbs_traffic_poll(&q.qp, wc, 4);
	cr_assert_eq(rc, window);
	if (window)
		cr_assert(wc[0].op == RR_WC_INVALIDATE && wc[0].cookie == 5 && !wc[0].status);
	else
		cr_assert_eq(mrs, nmrs + 1);
	cr_assert_eq(rr_verbs_keys_invalidate(&q.qp, seg.handle, 5), -EINVAL, "it is gone");
}

Test(verbs_able, a_device_that_can_is_asked_once)
{
	struct rr_wc wc[4];

	cr_assert(establish());
	cr_assert_eq(ndone, 2);
	cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), 0, "nobody hears of it");
	exposes(true);
	another();
	cr_assert(establish());
	cr_assert_eq(ndone, 0);
	exposes(true);
}

/* Nobody waits for the trial, and the queue is never fuller than it may be. */
Test(verbs_able, until_it_is_known_it_registers)
{
	struct rr_seg seg[2];

	v->state = RR_V_READY;
	rr_verbs_prove(&q.qp, v);
	cr_assert_eq(sq_room(v), RR_VERBS_SQ - 2);
	cr_assert_eq(rr_verbs_keys_expose(&q.qp, mem, 8192, RR_RIGHT_READ, &seg[0]), 0);
	cr_assert_eq(v->nkeys, 1);
	rr_verbs_books_digest(v);
	cr_assert_eq(sq_room(v), RR_VERBS_SQ);
	cr_assert_eq(rr_verbs_keys_expose(&q.qp, mem + 8192, 8192, RR_RIGHT_READ, &seg[1]), 0);
	cr_assert_eq(v->nkeys, 1);
	cr_assert_eq(send_one(0), 1);
	cr_assert_eq(rr_verbs_keys_invalidate(&q.qp, seg[0].handle, 0), 1);
	cr_assert_eq(rr_verbs_keys_invalidate(&q.qp, seg[1].handle, 0), 0);
}

/* bnxt_re: EOPNOTSUPP; irdma, cxgb4: EINVAL. */
Test(verbs_able, where_no_window_can_be_had_it_registers)
{
	can.alloc_mw = EOPNOTSUPP;
	another();
	cr_assert(establish());
	cr_assert_eq(ndone, 0);
	exposes(false);
	can.alloc_mw = 0;
	another();
	cr_assert(!v->windows, "it is remembered");
}

/* The kernel frees the newest first, and rxe cannot destroy what a window is bound by. */
Test(verbs_able, no_window_is_older_than_the_queue_pair)
{
	cr_assert(v->windows);
	cr_assert_eq(mws, 0);
	can.alloc_mw = ENOMEM;
	cr_assert(establish());
	exposes(false);
	can.alloc_mw = 0;
	another();
	cr_assert(establish());
	exposes(true);
}

Test(verbs_able, where_none_is_free_now_it_registers_now)
{
	can.alloc_mw = ENOMEM;
	another();
	cr_assert(establish());
	exposes(false);
	can.alloc_mw = 0;
	another();
	cr_assert(v->windows, "but not for ever");
	cr_assert(establish());
	exposes(true);
}

Test(verbs_able, where_a_bind_is_refused_it_registers)
{
	can.refuses = 1u << IBV_WR_BIND_MW;
	cr_assert(establish());
	exposes(false);
	another();
	cr_assert(establish());
	cr_assert_eq(asked, 0, "it is remembered");
}

Test(verbs_able, where_a_window_cannot_be_taken_back_it_registers)
{
	can.refuses = 1u << IBV_WR_LOCAL_INV;
	cr_assert(establish());
	exposes(false);
}

Test(verbs_able, where_a_bind_fails_later_the_next_connection_registers)
{
	can.fails = 1u << IBV_WR_BIND_MW;
	can.how = IBV_WC_MW_BIND_ERR;
	cr_assert(!establish());
	cr_assert_lt(v->err, 0);
	another();
	cr_assert(establish());
	exposes(false);
}

Test(verbs_able, a_peer_that_leaves_proves_nothing)
{
	can.fails = 1u << IBV_WR_BIND_MW;
	can.how = IBV_WC_WR_FLUSH_ERR;
	cr_assert(!establish());
	can.fails = 0;
	another();
	cr_assert(establish());
	exposes(true);
}

/* Another thread had pulled the completion when the device went. */
Test(verbs_able, what_fails_after_the_device_has_gone_is_no_result)
{
	struct ibv_wc late = { .wr_id = RR_VERBS_PROOF, .status = IBV_WC_MW_BIND_ERR };

	cr_assert(establish());
	v->on_trial = false;
	v->id = NULL;
	rr_verbs_prove_result(v, &late);
	v->id = &id;
	exposes(true);
}

/* A Linux server that was told that it may, on bnxt_re or ocrdma. */
Test(verbs_able, where_send_with_invalidate_is_refused_it_sends)
{
	struct rr_seg seg;

	can.refuses = 1u << IBV_WR_SEND_WITH_INV;
	cr_assert(establish());
	ndone = asked = 0;
	cr_assert_eq(rr_verbs_keys_expose(&q.qp, mem, 8192, RR_RIGHT_READ, &seg), 0);
	cr_assert_eq(send_one(77), 1);
	cr_assert_eq(v->err, 0);
	cr_assert_eq(ndone, 2, "the bind once");
	cr_assert(done[0] == IBV_WR_BIND_MW && done[1] == IBV_WR_SEND);
	cr_assert_eq(asked, 2);
	cr_assert_eq(send_one(78), 1);
	cr_assert_eq(asked, 3, "it is not tried again");
	another();
	cr_assert(!v->can_inv, "nor by others");
}

Test(verbs_able, what_else_is_refused_ends_the_connection)
{
	cr_assert(establish());
	can.refuses = 1u << IBV_WR_SEND;
	cr_assert_lt(send_one(0), 0);
	cr_assert_lt(v->err, 0);
}

/* siw crashed the server there. */
Test(verbs_able, a_doorbell_that_fails_ends_the_connection)
{
	struct rr_wc wc;

	cr_assert(establish());
	can.unrung = true;
	cr_assert_lt(send_one(77), 0);
	cr_assert_lt(v->err, 0);
	cr_assert(v->can_inv, "nothing was refused");
	cr_assert_lt(rr_verbs_traffic_poll(&q.qp, &wc, 1), 0);
}

Test(verbs_able, a_receive_that_is_refused_ends_the_connection)
{
	struct rr_wc wc;

	cr_assert(establish());
	can.unrung = true;
	rr_verbs_traffic_repost(&q.qp, 0);
	cr_assert_lt(v->err, 0);
	cr_assert_lt(rr_verbs_traffic_poll(&q.qp, &wc, 1), 0);
}

Test(verbs_able, beyond_the_windows_it_registers)
{
	struct rr_seg seg[4];

	cr_assert(establish());
	can.mws = 2;
	for (int i = 0; i < 4; i++)
		cr_assert_eq(rr_verbs_keys_expose(&q.qp, mem + 8192 * i, 8192, RR_RIGHT_READ, &seg[i]), 0);
	cr_assert_eq(send_one(0), 1);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(rr_verbs_keys_invalidate(&q.qp, seg[i].handle, 0), i >= 2);
}

/* Its peer would invalidate a registration, which nobody survives. */
Test(verbs_able, who_is_invited_finds_windows_only)
{
	struct rr_seg seg[2];

	cr_assert(establish());
	v->invite = true;
	can.mws = 1;
	cr_assert_eq(rr_verbs_keys_expose(&q.qp, mem, 8192, RR_RIGHT_READ, &seg[0]), 0);
	cr_assert_eq(send_one(0), 1);
	cr_assert_eq(rr_verbs_keys_expose(&q.qp, mem, 8192, RR_RIGHT_READ, &seg[1]), -EAGAIN);
	cr_assert_eq(rr_verbs_keys_invalidate(&q.qp, seg[0].handle, 0), 0);
	rr_verbs_traffic_poll(&q.qp, (struct rr_wc[4]){ { 0 } }, 4);
	cr_assert_eq(rr_verbs_keys_expose(&q.qp, mem, 8192, RR_RIGHT_READ, &seg[1]), 0);
}

static int expose_until(rr_time most)
{
	rr_time end_at = rr_now() + most;
	struct rr_seg seg;
	int rc;

	while ((rc = rr_verbs_keys_expose(&q.qp, mem, 8192, RR_RIGHT_READ, &seg)) == -EAGAIN && rr_now() < end_at)
		nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
	return rc;
}

Test(verbs_able, nothing_is_tried_for_ever)
{
	can.alloc_mw = EOPNOTSUPP;
	another();
	cr_assert(establish());
	can.reg = EINVAL;
	cr_assert_eq(expose_until(10 * RR_SEC), -EINVAL);
	can.reg = ENOMEM;
	cr_assert_eq(expose_until(10 * RR_SEC), -ENOMEM);
	can.reg = 0;
	cr_assert_eq(expose_until(0), 0);
}

/* At the limit of the rdma cgroup the kernel says EAGAIN. */
Test(verbs_able, at_the_limit_of_the_cgroup_it_registers_or_waits_as_long)
{
	can.alloc_mw = EAGAIN;
	another();
	cr_assert(establish());
	exposes(false);
	can.reg = EAGAIN;
	cr_assert_eq(expose_until(10 * RR_SEC), -ENOMEM);
	can.alloc_mw = can.reg = 0;
	another();
	cr_assert(v->windows, "the device has them");
	cr_assert(establish());
	exposes(true);
	can.alloc_mw = EAGAIN;
	cr_assert_eq(expose_until(0), 0, "by the window that there is");
	cr_assert_eq(expose_until(0), 0, "and by a registration");
	cr_assert_eq(v->nkeys, 1);
}

Test(verbs_able, at_that_limit_memory_for_the_first_window_is_not_waited_for)
{
	cr_assert(establish());
	rr_verbs_mr_free(v);
	can.reg = EAGAIN;
	cr_assert_eq(expose_until(10 * RR_SEC), -ENOMEM);
}

/* What comes back when a call ends is waited for. */
Test(verbs_able, what_the_connection_itself_has_in_use_is_waited_for)
{
	struct rr_seg seg;

	can.alloc_mw = EOPNOTSUPP;
	another();
	cr_assert(establish());
	cr_assert_eq(rr_verbs_keys_expose(&q.qp, mem, 8192, RR_RIGHT_READ, &seg), 0);
	can.reg = ENOMEM;
	cr_assert_eq(expose_until(4 * SHORT_WAIT), -EAGAIN);
	cr_assert_eq(rr_verbs_keys_invalidate(&q.qp, seg.handle, 0), 1);
	can.reg = 0;
	cr_assert_eq(expose_until(0), 0);
}

/* --- how it is --------------------------------------------------------------------------- */

Test(verbs_able, a_device_that_has_failed_serves_again_when_its_link_is_back)
{
	cr_assert(rr_verbs_device_serves(&device, 1));
	rr_verbs_device_failed(&device);
	cr_assert(!rr_verbs_device_serves(&device, 1));
	rr_verbs_device_port(&device, 1, false);
	cr_assert(!rr_verbs_device_serves(&device, 1));
	rr_verbs_device_port(&device, 1, true);
	cr_assert(rr_verbs_device_serves(&device, 1));
	cr_assert_eq(port_looks, 0, "what is not in doubt costs nothing");
}

Test(verbs_able, a_failed_device_that_was_replaced_is_another)
{
	rr_verbs_device_failed(&device);
	rr_verbs_device_gone(&device);
	rr_verbs_device(&device);
	cr_assert(rr_verbs_device_serves(&device, 1));
}

/* Somebody else may have read that it is up again. */
Test(verbs_able, a_link_that_was_down_is_asked_whether_it_still_is)
{
	link_state = IBV_PORT_DOWN;
	rr_verbs_device_port(&device, 1, false);
	cr_assert(rr_verbs_device_serves(&device, 2), "that is another one");
	cr_assert(!rr_verbs_device_serves(&device, 1));
	link_state = IBV_PORT_ACTIVE;
	cr_assert(rr_verbs_device_serves(&device, 1));
	cr_assert(rr_verbs_device_serves(&device, 1));
	cr_assert_eq(port_looks, 2);
}

#else

Test(verbs_able, needs_the_headers_of_rdma_core, .disabled = true)
{
}

#endif
