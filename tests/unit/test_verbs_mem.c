/* SPDX-License-Identifier: BSD-3-Clause */
/* Locked memory of the verbs provider, where the process has a limit: what one connection's peer has it pin is never what
 * another was promised. The kernel counts each registration, also of what is registered already. */
#include <criterion/criterion.h>

#if __has_include(<rdma/rdma_cma.h>)

#include <stdlib.h>

#include "core/prov/verbs/keys.c"
#include "core/prov/verbs/mr.c"

#define MIB	((size_t)1 << 20)
#define LIMIT	(5 * MIB)
#define MEM	(2 * MIB)
#define SLAB	((size_t)RR_PAGE * 16)

static pid_t self = 1;
pid_t *rr_verbs_process_self = &self;

int rr_verbs_post(struct rr_vq *v, struct ibv_send_wr *wr, struct rr_verbs_wqe w)
{
	(void)v;
	(void)wr;
	return w.op == RR_WC_SEND;
}

void rr_verbs_notes_ask_read(struct rr_qp *qp, struct rr_vq *v)
{
	(void)qp;
	(void)v;
}

/* --- the kernel -------------------------------------------------------------------------- */

static size_t counted;		/* locked, of all connections */

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	struct ibv_mr *m;

	(void)pd;
	(void)access;
	if (counted + len > LIMIT) {
		errno = ENOMEM;
		return NULL;
	}
	counted += len;
	m = calloc(1, sizeof(*m));
	m->addr = addr;
	m->length = len;
	m->rkey = (uint32_t)(uintptr_t)m;
	return m;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned access)
{
	(void)iova;
	return ibv_reg_mr(pd, addr, len, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *m)
{
	counted -= m->length;
	free(m);
	return 0;
}

/* --- two connections --------------------------------------------------------------------- */

static struct ibv_device dev = { .transport_type = IBV_TRANSPORT_IB };
static struct ibv_context device = { .device = &dev };
static struct rdma_cm_id id = { .verbs = &device };
static struct rr_verbs q[2];
static struct rr_vq *v[2];
static uint8_t mem[2][MEM];

/* As long as it may: -ENOMEM else. */
static int start(int i)
{
	free(v[i]);
	v[i] = calloc(1, sizeof(**v));
	v[i]->id = &id;
	v[i]->state = RR_V_READY;
	v[i]->param.mem_size = MEM;
	q[i] = (struct rr_verbs){ .owner = self, .v = v[i], .qp = { .mem = mem[i], .mem_size = MEM } };
	counted += SLAB;
	return rr_verbs_mr_reserve(v[i], SLAB + MEM);
}

static void set_up(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };
	struct rlimit lim = { LIMIT, LIMIT };

	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &lim), 0);
	cr_assert_eq(syscall(SYS_capset, &head, none), 0);
	cr_assert_eq(start(0), 0);
	cr_assert_eq(start(1), 0);
}

TestSuite(verbs_mem, .init = set_up);

/* Its peer keeps something short in use, while something long is needed, again and again. */
static void be_greedy(int i)
{
	for (size_t len = FIRST; len <= MEM; len *= 2)
		rr_verbs_mr_use(&q[i].qp, v[i], mem[i], len);
}

Test(verbs_mem, who_is_promised_memory_has_it_whatever_the_other_pins)
{
	int mr;

	be_greedy(0);
	mr = rr_verbs_mr_use(&q[1].qp, v[1], mem[1], MEM);
	cr_assert_geq(mr, 0, "error %d", mr);
}

Test(verbs_mem, so_it_is_without_windows)
{
	struct rr_seg seg;
	int mr;

	rr_verbs_mr_use(&q[0].qp, v[0], mem[0], MEM);
	for (size_t at = 0; at < MEM; at += FIRST)
		rr_verbs_keys_expose(&q[0].qp, mem[0] + at, FIRST, RR_RIGHT_READ, &seg);
	mr = rr_verbs_mr_use(&q[1].qp, v[1], mem[1], MEM);
	cr_assert_geq(mr, 0, "error %d", mr);
}

Test(verbs_mem, what_nobody_was_promised_is_for_who_comes_first)
{
	struct rr_seg seg;

	for (size_t at = 0; at < MEM; at += FIRST)
		cr_assert_eq(rr_verbs_keys_expose(&q[0].qp, mem[0] + at, FIRST, RR_RIGHT_READ, &seg), 0);
	cr_assert_geq(rr_verbs_mr_use(&q[0].qp, v[0], mem[0], FIRST), 0, "there is some");
	cr_assert_eq(rr_verbs_keys_invalidate(&q[0].qp, seg.handle, 0), 1);
	cr_assert_eq(rr_verbs_mr_use(&q[0].qp, v[0], mem[0], MEM), -EAGAIN, "but not so much");
}

Test(verbs_mem, what_is_given_back_can_be_had)
{
	struct rr_vq *old = v[0];

	be_greedy(0);
	rr_verbs_mr_free(old);
	rr_verbs_mr_unreserve(old);
	counted -= SLAB;
	cr_assert_eq(start(0), 0);
	be_greedy(0);
	rr_verbs_mr_unreserve(v[0]);
	rr_verbs_mr_unreserve(v[1]);
	cr_assert_eq(reserved, 0);
}

Test(verbs_mem, a_forked_child_has_promised_nothing)
{
	cr_assert(rr_verbs_mr_share(v[0], RR_V_LONG));
	rr_verbs_mr_forked();
	cr_assert_eq(reserved, 0);
	cr_assert_eq(given[RR_V_LONG], 0);
}

#else

Test(verbs_mem, needs_the_headers_of_rdma_core, .disabled = true)
{
}

#endif
