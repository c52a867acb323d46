/* SPDX-License-Identifier: BSD-3-Clause */
/* A native peer of ill will, of librdmacm alone. greedy ADDRESS PORT CALLS: connects, sends so many calls, and has
 * no receive for any of the replies, now or ever; its device says "not ready" for as long as the server's asks.
 * CALLS 0: it says nothing. Ends when it is killed, or its input ends. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH	64u
#define LEN	68u
#define BURST	32u	/* not more than it has credits for: the server has answered when the next ones come */

static int fail(const char *what)
{
	perror(what);
	return 1;
}

/* RPC-over-RDMA and RPC: a NULL call to a program that nobody has. */
static void build(uint32_t *msg, uint32_t xid)
{
	const uint32_t words[LEN / 4] = { xid, 1, 64, 0, 0, 0, 0, xid, 0, 2, 0x20000001, 1, 0, 0, 0, 0, 0 };

	for (uint32_t i = 0; i < LEN / 4; i++)
		msg[i] = htonl(words[i]);
}

static int send_all(struct rdma_cm_id *id, struct ibv_mr *mr, uint32_t *msg, uint32_t n)
{
	struct ibv_sge sge = { .addr = (uintptr_t)msg, .length = LEN, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;

	for (uint32_t i = 0; i < n; i++) {
		int got;

		build(msg, i + 1);
		if (ibv_post_send(id->qp, &wr, &bad))
			return -1;
		for (int looks = 0; !(got = ibv_poll_cq(id->qp->send_cq, 1, &wc)) && looks < 5000; looks++)
			usleep(1000);
		if (got <= 0 || wc.status) {
			printf("after %u calls: %s\n", i, got > 0 ? ibv_wc_status_str(wc.status) : "nothing");
			return 0;
		}
		if (i % BURST == BURST - 1)
			usleep(200000);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct rdma_conn_param p = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct sockaddr_in to = { .sin_family = AF_INET };
	static uint32_t msg[LEN / 4];
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	char byte;

	if (argc < 4 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1)
		return 64;
	to.sin_port = htons((uint16_t)atoi(argv[2]));
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* without a channel every step waits until it is done */
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) || rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 5000) ||
	    rdma_resolve_route(id, 5000))
		return fail("resolve");
	pd = ibv_alloc_pd(id->verbs);
	attr.send_cq = attr.recv_cq = ibv_create_cq(id->verbs, DEPTH + 1, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, msg, sizeof(msg), IBV_ACCESS_LOCAL_WRITE);
	if (!attr.send_cq || !mr || rdma_create_qp(id, pd, &attr) || rdma_connect(id, &p))
		return fail("connect");
	printf("connected\n");
	if (send_all(id, mr, msg, (uint32_t)atoi(argv[3])))
		return fail("send");
	printf("sent\n");
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
