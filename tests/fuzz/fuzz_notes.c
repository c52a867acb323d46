/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs provider's notes, by a peer that says anything at any time, and by one that is
 * ours: of two ends in turn. The device is made up here. Whatever comes, counts stay within
 * their bounds, and of two honest ends each knows how many receives the other has. */
#include "tests/fuzz/fuzz.h"

#if __has_include(<rdma/rdma_cma.h>)
#include "core/prov/verbs/notes.c"

#define RECVS	16u
#define WIRE	64u

static pid_t self = 1;
pid_t *rr_verbs_process_self = &self;

struct sent {
	uint32_t imm, len;
	uint8_t bytes[4 * RR_VERBS_TELL];
};

/* One end, and what it has sent that the other has not looked at. */
struct end {
	struct rr_verbs q;
	uint32_t nsent, posted;
	struct sent sent[WIRE];
};

static struct end ends[2];
static struct rr_vq *vq[2];
static bool full;		/* the send queue */

static struct end *end_of(struct rr_vq *v)
{
	return &ends[v == vq[1]];
}

/* --- what the other files of the provider do --- */

int rr_verbs_post_send_wr(struct rr_qp *qp, struct rr_vq *v, struct ibv_send_wr *wr, const struct iovec *iov, int niov,
		     uint64_t cookie)
{
	struct end *e = end_of(v);
	struct sent *s = &e->sent[e->nsent];

	(void)qp, (void)cookie;
	if (full || e->nsent == WIRE)
		return -EAGAIN;
	s->imm = be32toh(wr->imm_data);
	s->len = niov ? (uint32_t)iov->iov_len : 0;
	fuzz_check(s->len <= sizeof(s->bytes));
	if (s->len)
		memcpy(s->bytes, iov->iov_base, s->len);
	e->nsent++;
	return 0;
}

bool *rr_verbs_keys_mark(struct rr_vq *v, uint32_t handle)
{
	(void)v;
	(void)handle;
	return NULL;
}

void rr_verbs_keys_read(struct rr_vq *v, uint32_t handle)
{
	(void)v, (void)handle;
}

int rr_verbs_post_recv(struct rr_qp *qp, struct rr_vq *v, uint32_t buf)
{
	(void)qp;
	fuzz_check(buf < RECVS + RR_VERBS_NOTES);
	end_of(v)->posted++;
	return 0;
}

/* --- */

static void open_end(int i)
{
	struct end *e = &ends[i];

	if (!vq[i])
		vq[i] = malloc(sizeof(*vq[i]));
	fuzz_check(vq[i]);
	memset(vq[i], 0, sizeof(*vq[i]));
	vq[i]->state = RR_V_READY;
	vq[i]->window = RECVS;
	e->q = (struct rr_verbs){ .qp = { .recvs = RECVS, .peer_recvs = RECVS, .recv_size = 1024 }, .v = vq[i],
				  .owner = self };
	e->nsent = e->posted = 0;
}

static void hear(int i, const uint8_t *bytes, uint32_t len, uint32_t imm)
{
	uint8_t *copy = tight(bytes, len);
	struct rr_wc wc = { .op = RR_WC_RECV, .cookie = imm % RECVS, .buf = copy, .len = len, .imm = imm, .has_imm = true };

	rr_verbs_notes_is_one(&ends[i].q.qp, vq[i], &wc);
	free(copy);
}

static void check_end(int i)
{
	const struct rr_vq *v = vq[i];

	fuzz_check(v->window <= RECVS && v->nkept <= RR_VERBS_KEPT && v->nchain <= RR_VERBS_CHAIN + 1);
}

/* What a provider does between notes. */
static void act(int i, uint8_t what, uint8_t arg)
{
	struct rr_qp *qp = &ends[i].q.qp;

	switch (what) {
	case 0: vq[i]->untold += vq[i]->untold < RECVS; break;
	case 1: rr_verbs_notes_count(qp, vq[i], arg & 1); break;
	case 2: rr_verbs_notes_chain(qp, vq[i]); break;
	case 3: rr_verbs_notes_ask_read(qp, vq[i]); break;
	case 4: rr_verbs_notes_keep(vq[i], arg); break;
	case 5: rr_verbs_notes_tell_read(qp, vq[i]); break;
	case 6: vq[i]->kept_age += arg; break;
	case 7: vq[i]->nchain = 0; break;	/* posted */
	case 8: full = arg & 1; break;
	}
}

static void carry(int from)
{
	struct end *e = &ends[from];
	struct sent s;

	if (!e->nsent)
		return;
	s = e->sent[0];
	memmove(e->sent, e->sent + 1, --e->nsent * sizeof(s));
	hear(!from, s.bytes, s.len, s.imm);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	full = false;
	open_end(0);
	open_end(1);
	for (size_t at = 0; at + 2 <= len;) {
		uint8_t op = data[at], arg = data[at + 1];
		uint32_t n;

		at += 2;
		if (op & 0x80) {	/* anything, from nobody */
			n = (uint32_t)rr_min(len - at, (size_t)arg * 5);
			hear(op & 1, data + at, n, (n >= 4 ? rr_be32(data + at) & 0xffff : arg) |
			     (op & 2 ? RR_VERBS_NOTE : 0x12340000));
			at += n;
		} else if (op & 0x40) {
			carry(op & 1);
		} else {
			act(op & 1, op >> 1 & 15, arg);
		}
		check_end(0);
		check_end(1);
	}
	return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	(void)data, (void)len;
	return 0;	/* no headers of rdma-core */
}
#endif
