/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs provider's posts, on a device that is made up here: what it has taken it keeps as long as the peer likes
 * (no receive there, no answer). None of the provider's calls may wait for that. How often they look at the completion queue
 * says whether they do. */
#include <criterion/criterion.h>

#if __has_include(<rdma/rdma_cma.h>)

#include <stdlib.h>
#include <time.h>

#define FULL_WAIT	(30 * RR_MSEC)

#include "core/prov/verbs/books.c"
#include "core/prov/verbs/cq.c"
#include "core/prov/verbs/traffic.c"
#include "core/prov/verbs/notes.c"
#include "core/prov/verbs/post.c"
#include "core/prov/verbs/rdmacm.h"

#define FEW	1000	/* looks of one call */
#define RECVS	150u

static pid_t self = 1;
pid_t *rr_verbs_process_self = &self;

/* --- the rest of the provider ------------------------------------------------------------ */

static uint32_t keys_looked_for;

static size_t registered;
int rr_verbs_mr_use(struct rr_qp *qp, struct rr_vq *v, const void *local, size_t len)
{
	(void)qp;
	(void)local;
	registered = len;
	v->mr[0].users++;
	return 0;
}

void rr_verbs_mr_unuse(struct rr_vq *v, uint32_t i)
{
	v->mr[i].users--;
}

void rr_verbs_keys_free_window(struct rr_vq *v, uint16_t window)
{
	v->mw[window].live = false;
}

bool rr_verbs_keys_gone(struct rr_vq *v, uint32_t handle)
{
	(void)v;
	(void)handle;
	return false;
}

bool *rr_verbs_keys_mark(struct rr_vq *v, uint32_t handle)
{
	(void)v;
	(void)handle;
	return NULL;
}

void rr_verbs_keys_read(struct rr_vq *v, uint32_t handle)
{
	(void)v;
	(void)handle;
	keys_looked_for++;
}

bool rr_verbs_device_no_inv(const struct ibv_context *dev, bool found)
{
	(void)dev;
	return found;
}

void rr_verbs_prove_result(struct rr_vq *v, const struct ibv_wc *raw)
{
	(void)v;
	(void)raw;
}

/* The peer leaves after its last message has come, while the CQ is not looked at. */
static void leaves_with_a_message(struct rr_vq *v);
static bool peer_leaves;

void rr_verbs_cm_events(struct rr_qp *qp, struct rr_vq *v)
{
	(void)qp;
	if (peer_leaves)
		leaves_with_a_message(v);
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

struct posted {
	uint64_t id;
	enum ibv_wr_opcode op;
	bool signaled, is_inline;
	uint32_t len;
	uint64_t first;		/* byte of the payload */
	uint32_t inv, rkey;	/* as they are in the request, whatever they mean */
};

static struct posted sq[8192];
static uint32_t sq_n, sq_done, looks, recvs_posted;
static struct ibv_wc wcs[64];
static int nwcs;

static int take_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	for (; wr; wr = wr->next) {
		cr_assert_lt(sq_n - sq_done, RR_VERBS_SQ, "the queue's end");
		sq[sq_n++] = (struct posted){
			.id = wr->wr_id, .op = wr->opcode, .signaled = wr->send_flags & IBV_SEND_SIGNALED,
			.is_inline = wr->send_flags & IBV_SEND_INLINE,
			.len = wr->num_sge ? wr->sg_list[0].length : 0,
			.inv = wr->invalidate_rkey, .rkey = wr->wr.rdma.rkey,
			.first = wr->num_sge && wr->sg_list[0].length && wr->opcode != IBV_WR_RDMA_WRITE ? *(uint8_t *)(uintptr_t)wr->sg_list[0].addr : 0,
		};
	}
	return 0;
}

static int take_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	(void)wr;
	(void)bad;
	recvs_posted++;
	return 0;
}

static int look_at(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = rr_min(n, nwcs);

	(void)cq;
	looks++;
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

/* The peer takes so many of them at last. */
static void leaves(uint32_t n)
{
	for (; n && sq_done < sq_n; n--, sq_done++)
		if (sq[sq_done].signaled && nwcs < (int)rr_array_size(wcs))
			wcs[nwcs++] = (struct ibv_wc){ .wr_id = sq[sq_done].id, .status = IBV_WC_SUCCESS };
}

static void leaves_with_a_message(struct rr_vq *v)
{
	v->lost = true;
	peer_leaves = false;
	wcs[nwcs++] = (struct ibv_wc){ .wr_id = RR_VERBS_RECV, .status = IBV_WC_SUCCESS, .wc_flags = IBV_WC_WITH_IMM };
}

static struct ibv_device dev = { .transport_type = IBV_TRANSPORT_IB };
static struct ibv_context device = {
	.device = &dev,
	.ops = { .poll_cq = look_at, .req_notify_cq = notify, .post_send = take_send, .post_recv = take_recv },
};
static struct ibv_cq queue = { .context = &device };
static struct ibv_qp pair = { .context = &device };
static struct rdma_cm_id id = { .qp = &pair, .verbs = &device };
static struct ibv_mr mr = { .lkey = 1 };
static struct rr_verbs q;
static struct rr_vq *v;
static uint8_t mem[65536];

static void set_up(void)
{
	v = calloc(1, sizeof(*v) + 1024 * sizeof(v->raw[0]));
	v->raw_cap = 1024;
	v->cq = &queue;
	v->id = &id;
	v->slab_mr = v->mr[0].mr = &mr;
	v->state = RR_V_READY;
	v->sq_cap = RR_VERBS_SQ;
	v->sends = RR_VERBS_SENDS;
	v->max_inline = 64;
	v->max_sge = 4;
	v->depth = 16;
	q = (struct rr_verbs){ .owner = self, .v = v, .qp = {
		.recv_size = 1024, .send_size = 1024, .recvs = RECVS, .peer_recvs = RECVS,
		.mem = mem, .mem_size = sizeof(mem),
	} };
	v->param.recv_size = 1024;
	v->window = RECVS;
	v->slab = calloc(RECVS + RR_VERBS_NOTES + RR_VERBS_SENDS, 1024);
	sq_n = sq_done = looks = recvs_posted = 0;
	nwcs = 0;
	keys_looked_for = 0;
}

static void tear_down(void)
{
	cr_assert_lt(looks, FEW * 20, "somebody waits: %u looks", looks);
	free(v->slab);
	free(v);
}

TestSuite(verbs_post, .init = set_up, .fini = tear_down, .timeout = 60);

static int send_one(uint8_t first, uint32_t len)
{
	uint8_t bytes[1024] = { first };
	struct iovec iov = { bytes, len };
	uint32_t before = looks;
	int rc = rr_verbs_traffic_send(&q.qp, &iov, 1, 0, 0);

	cr_assert_lt(looks - before, FEW, "it waits for the peer");
	return rc;
}

static uint32_t native_sends(uint32_t len, uint32_t most)
{
	uint32_t n = 0;

	q.qp.native = true;
	v->window = UINT32_MAX;
	while (n < most && rr_verbs_post_window(v) && send_one((uint8_t)n, len) == 1)
		n++;
	return n;
}

static const struct rr_seg seg = { .handle = 7, .length = 1000 };

/* A native peer has no receive for what it asked for. */
Test(verbs_post, sends_stop_where_their_slots_end)
{
	struct rr_wc wc[4];

	cr_assert_eq(native_sends(1000, 100), RR_VERBS_SENDS);
	cr_assert_eq(send_one(0, 1000), -EAGAIN);
	cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), 0);
	cr_assert_eq(rr_verbs_post_window(v), 0);
	cr_assert_eq(v->err, 0, "it may yet have some");
	leaves(RR_VERBS_SENDS);
	cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), 0);
	cr_assert_neq(rr_verbs_post_window(v), 0);
	cr_assert_eq(send_one(9, 1000), 1);
}

static void a_while(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 25000000 }, NULL);
}

/* Nothing comes after the error, so what has come is told first. */
Test(verbs_post, a_message_that_came_before_its_peer_left_is_told_before_that)
{
	struct rr_wc wc[4];

	peer_leaves = true;
	cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), 1);
	cr_assert(wc[0].op == RR_WC_RECV && wc[0].has_imm);
	cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), -ECONNRESET);
}

/* As long as something leaves now and then it is only slow. */
Test(verbs_post, who_never_takes_any_is_given_up_some_time)
{
	struct rr_wc wc[4];

	native_sends(1000, 100);
	for (int i = 0; i < 6; i++) {
		cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), 0);
		a_while();
		leaves(16);
		rr_verbs_traffic_poll(&q.qp, wc, 4);
		cr_assert_gt(native_sends(1000, 16), 0);
	}
	for (int i = 0; i < 4; i++) {
		rr_verbs_traffic_poll(&q.qp, wc, 4);
		a_while();
	}
	cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), -ECONNRESET);
}

Test(verbs_post, who_is_only_quiet_is_not)
{
	struct rr_wc wc[4];

	native_sends(1000, 3);
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), 0);
		a_while();
	}
}

/* Those that need no slot. */
Test(verbs_post, short_sends_stop_where_the_queue_ends)
{
	struct rr_wc wc[4];
	uint32_t n = native_sends(20, 2000);

	cr_assert_eq(n, RR_VERBS_SQ + 1, "and the last one waits here");
	cr_assert_eq(sq_n, RR_VERBS_SQ);
	while (sq_done < n) {
		leaves(32);
		rr_verbs_traffic_poll(&q.qp, wc, 4);
	}
	for (uint32_t i = 0; i < n; i++)
		cr_assert_eq(sq[i].first, (uint8_t)i, "in their order");
	cr_assert_neq(rr_verbs_post_window(v), 0);
}

/* A reply whose chunks have many segments, behind what the peer does not take. */
Test(verbs_post, what_one_message_takes_waits_in_its_order)
{
	struct rr_wc wc[64];
	uint32_t writes = 0;

	native_sends(20, RR_VERBS_SQ - 10);
	for (uint32_t i = 0; i < 200; i++)
		cr_assert_eq(rr_verbs_traffic_write(&q.qp, mem, 100, &seg, 0, i + 1), 0);
	cr_assert_eq(send_one(77, 20), 1, "it belongs to them");
	cr_assert_eq(rr_verbs_post_window(v), 0, "but nothing else is begun");
	cr_assert_eq(rr_verbs_traffic_read(&q.qp, mem, 100, &seg, 0, 1), -EAGAIN);
	cr_assert_eq(rr_verbs_traffic_probe(&q.qp), -EAGAIN);
	cr_assert_lt(looks, FEW);
	while (sq_done < RR_VERBS_SQ - 10 + 201) {
		int n;

		leaves(20);
		n = rr_verbs_traffic_poll(&q.qp, wc, 64);
		for (int i = 0; i < n; i++)
			cr_assert(wc[i].op == RR_WC_WRITE && wc[i].cookie == ++writes);
	}
	cr_assert_eq(writes, 200);
	cr_assert_eq(sq[RR_VERBS_SQ - 10 + 200].first, 77, "last");
	cr_assert_eq(v->mr[0].users, 0);
	cr_assert_neq(rr_verbs_post_window(v), 0);
}

/* Who never takes anything loses the connection some time. */
Test(verbs_post, there_is_an_end_to_what_is_kept)
{
	uint32_t n = 0;

	while (rr_verbs_traffic_write(&q.qp, mem, 1, &seg, 0, 1) == 0)
		cr_assert_lt(n++, 10000);
	cr_assert_eq(v->err, -ECONNRESET);
	cr_assert_lt(looks, FEW);
}

/* --- notes --------------------------------------------------------------------------------- */

static void comes(uint32_t imm, uint32_t len)
{
	wcs[nwcs++] = (struct ibv_wc){ .wr_id = RR_VERBS_RECV, .byte_len = len, .wc_flags = IBV_WC_WITH_IMM,
				       .imm_data = htobe32(imm), .status = IBV_WC_SUCCESS };
}

Test(verbs_post, notes_that_are_never_taken_are_not_waited_for)
{
	struct rr_wc wc[4];

	for (int i = 0; i < 5000 && !v->err; i++) {
		uint32_t before = looks;

		comes(RR_VERBS_NOTE | RR_VERBS_READ | RR_VERBS_ASK, 0);
		rr_verbs_traffic_poll(&q.qp, wc, 4);
		cr_assert_lt(looks - before, FEW);
		looks = before;
	}
	cr_assert_eq(v->err, -ECONNRESET, "nobody honest has so many of ours unheard");
}

/* To look for one takes some time. */
Test(verbs_post, no_more_keys_are_looked_for_than_were_shown)
{
	struct rr_wc wc[4];

	v->shown = 5;
	for (int i = 0; i < 40; i++) {
		comes(RR_VERBS_NOTE | RR_VERBS_READ, 1024);
		rr_verbs_traffic_poll(&q.qp, wc, 4);
		leaves(10);
	}
	cr_assert_eq(keys_looked_for, 5);
	cr_assert_eq(v->err, 0);
}

Test(verbs_post, receives_that_were_never_used_do_not_come_back)
{
	struct rr_wc wc[4];

	comes(RR_VERBS_NOTE | 1, 0);
	cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), -EPROTO);
}

/* The last slot is for a message: one was promised. */
Test(verbs_post, a_note_leaves_the_message_its_slot)
{
	struct rr_wc wc[4];

	for (uint32_t i = 0; i < RR_VERBS_SENDS - 1; i++)
		cr_assert_eq(send_one(1, 1000), 1);
	for (uint32_t i = 0; i < 100; i++)
		rr_verbs_notes_keep(v, i);
	v->asked = true;
	rr_verbs_traffic_poll(&q.qp, wc, 4);
	cr_assert_neq(rr_verbs_post_window(v), 0);
	cr_assert_eq(send_one(2, 1000), 1);
	leaves(RR_VERBS_SENDS);
	rr_verbs_traffic_poll(&q.qp, wc, 4);
	cr_assert(v->told, "then it is told");
}

/* --- asking whether it is there ------------------------------------------------------------ */

Test(verbs_post, a_probe_is_what_the_peers_device_answers)
{
	struct rr_wc wc[4];

	cr_assert_eq(rr_verbs_traffic_probe(&q.qp), 0);
	cr_assert_eq(sq[0].op, IBV_WR_RDMA_WRITE);
	dev.transport_type = IBV_TRANSPORT_IWARP;	/* a Write ends there when TCP has it */
	cr_assert_eq(rr_verbs_traffic_probe(&q.qp), 0);
	dev.transport_type = IBV_TRANSPORT_IB;
	cr_assert(sq[1].op == IBV_WR_RDMA_READ && sq[1].signaled && !sq[1].len);
	leaves(2);
	cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), 2);
	cr_assert(wc[1].op == RR_WC_PROBE && !wc[1].status);
}

/* libsiw has the key of a Send With Invalidate where that of an RDMA Read is. */
Test(verbs_post, a_key_to_be_invalidated_is_where_every_driver_looks)
{
	q.qp.peer_inv = v->can_inv = true;
	cr_assert_eq(rr_verbs_traffic_send(&q.qp, &(struct iovec){ mem, 20 }, 1, 0, 0x4711), 1);
	cr_assert_eq(sq[0].op, IBV_WR_SEND_WITH_INV);
	cr_assert(sq[0].inv == 0x4711 && sq[0].rkey == 0x4711);
}

Test(verbs_post, what_invalidates_is_not_inline_on_iwarp)
{
	q.qp.native = q.qp.peer_inv = v->can_inv = true;
	for (int i = 0; i < 2; i++) {
		dev.transport_type = i ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
		cr_assert_eq(rr_verbs_traffic_send(&q.qp, &(struct iovec){ mem, 20 }, 1, 0, 0x4711), 1);
		cr_assert_eq(send_one(5, 20), 1);
	}
	cr_assert(sq[0].is_inline && sq[1].is_inline);
	cr_assert(!sq[2].is_inline && sq[2].op == IBV_WR_SEND_WITH_INV && sq[2].len == 20);
	cr_assert(sq[3].is_inline, "what does not may be");
}

/* The peer's device, in whatever order. */
static void tells(uint32_t i)
{
	wcs[nwcs++] = (struct ibv_wc){ .wr_id = sq[i].id, .status = IBV_WC_SUCCESS };
}

/* siw: NFS writes were never read to their end, and the server stood still. */
Test(verbs_post, a_read_ends_by_its_own_completion_only)
{
	struct rr_wc wc[4];

	q.qp.native = true;
	cr_assert_eq(rr_verbs_traffic_read(&q.qp, mem, 100, &seg, 0, 11), 0);
	cr_assert_eq(rr_verbs_traffic_read(&q.qp, mem, 100, &seg, 0, 12), 0);
	cr_assert_eq(rr_verbs_traffic_write(&q.qp, mem, 100, &seg, 0, 13), 0);
	cr_assert_eq(send_one(5, 1000), 1);
	tells(2);
	cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), 1);
	cr_assert(wc[0].op == RR_WC_WRITE && wc[0].cookie == 13);
	cr_assert_eq(v->reads, 2);
	cr_assert_eq(v->mr[0].users, 3, "its memory is needed yet");
	tells(0);
	cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), 1);
	cr_assert(wc[0].op == RR_WC_READ && wc[0].cookie == 11);
	cr_assert_eq(v->reads, 1);
	tells(1);
	cr_assert_eq(rr_verbs_traffic_poll(&q.qp, wc, 4), 1);
	cr_assert(wc[0].op == RR_WC_READ && wc[0].cookie == 12);
	cr_assert_eq(v->reads, 0);
	cr_assert_eq(v->mr[0].users, 0);
	cr_assert_eq(v->sq_tail, 3, "what was told before is over, too");
}

/* Its other bytes are read next. To register them one piece after the other would take several registrations. */
Test(verbs_post, a_read_registers_the_rest_of_its_segment)
{
	static const struct rr_seg of = { .handle = 0x500, .length = 9000, .offset = 0x1000 };

	cr_assert_eq(rr_verbs_traffic_read(&q.qp, mem, 100, &of, 0, 11), 0);
	cr_assert_eq(registered, 9000);
	cr_assert_eq(rr_verbs_traffic_read(&q.qp, mem + 100, 4000, &of, 100, 12), 0);
	cr_assert_eq(registered, 8900);
	cr_assert_eq(rr_verbs_traffic_read(&q.qp, mem + sizeof(mem) - 500, 500, &of, 4100, 13), 0);
	cr_assert_eq(registered, 500, "no more than there is");
	cr_assert_eq(rr_verbs_traffic_read(&q.qp, mem, 100, &of, 8950, 14), 0);
	cr_assert_eq(registered, 100, "the peer's device says what it thinks of that");
	cr_assert_eq(rr_verbs_traffic_write(&q.qp, mem, 100, &of, 0, 15), 0);
	cr_assert_eq(registered, 100);
}

/* --- the end ------------------------------------------------------------------------------- */

Test(verbs_post, the_end_waits_for_no_peer)
{
	native_sends(1000, 5);
	cr_assert(!rr_verbs_traffic_settle(&q.qp, 0));
	cr_assert_lt(looks, FEW);
	cr_assert(rr_verbs_post_unsettled(v));
}

Test(verbs_post, the_end_sees_what_has_left)
{
	native_sends(1000, 5);
	leaves(5);
	q.qp.native = true;
	rr_verbs_traffic_settle(&q.qp, 0);
	leaves(1);
	cr_assert(rr_verbs_traffic_settle(&q.qp, 0), "the mark behind it");
}

Test(verbs_post, a_process_that_ends_waits_for_a_while)
{
	rr_time end = rr_now() + 20 * RR_MSEC;

	native_sends(1000, 5);
	cr_assert(!rr_verbs_traffic_settle(&q.qp, 20 * RR_MSEC));
	cr_assert_geq(rr_now(), end);
	looks = 0;	/* it may wait, so tear_down() has nothing to say: how many fit is the machine's */
}

#else

Test(verbs_post, needs_the_headers_of_rdma_core, .disabled = true)
{
}

#endif
