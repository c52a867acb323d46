/* SPDX-License-Identifier: BSD-3-Clause */
/* greedy HOST-OFFER PORT CONNECTIONS LENGTH: a client that upgrades like any other, with the hello of the largest
 * size, asks for replies of LENGTH bytes for as long as it is let, and reads nothing.
 * HOST-OFFER is an offer made on this host, in hex: who we are is said as there.
 *
 * Says "full N" when none of its connections takes another call, after N of them, and ends when its stdin does. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/conn/conn_int.h"
#include "core/prov/shm/shm_int.h"
#include "core/wire/codec.h"
#include "tests/lib/bytes.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)
#define MOST	64
#define ROUNDS	20	/* without a call taken, 10 ms each: then it is full */

static struct shm_pair pair[MOST];

static uint32_t unhex(const char *s, uint8_t *out, uint32_t cap)
{
	uint32_t n = 0;

	for (; s[0] && s[1] && n < cap; s += 2)
		sscanf(s, "%2hhx", &out[n++]);
	return n;
}

static int heard(int fd, uint8_t *buf, size_t cap)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 100000) == 1 ? (int)recv(fd, buf, cap, 0) : -1;
}

static void upgrade(struct shm_pair *p, const struct sockaddr_in *to, const struct rr_hello *host, int i)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), n;
	struct rr_hello h = *host, answer;
	uint8_t buf[RR_OFFER_MAX];
	uint32_t need;

	shm_pair_init(p, RR_SHM_RECV_MAX, RR_SHM_RECVS);
	p->cp.token[0] = (uint8_t)i;
	h.inline_size = RR_SHM_RECV_MAX;
	h.recvs = RR_SHM_RECVS;
	h.credits = h.bc_credits = UINT32_MAX;
	h.max_msg = UINT32_MAX;
	memcpy(h.token, p->cp.token, RR_TOKEN_LEN);
	h.nprov = 1;
	h.prov[0].id = ops->id;
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) ||
	    ops->prepare(p->c, &p->cp, &h.prov[0].addr))
		exit(2);
	n = (int)rr_nego_put_offer(&h, 0x2052444d, 77, buf, sizeof(buf));
	if (send(fd, buf, (size_t)n, 0) != n || (n = heard(fd, buf, sizeof(buf))) <= 0 ||
	    rr_nego_get_answer(buf, (size_t)n, 77, &answer, &need) != RR_NEGO_OURS ||
	    ops->join(p->c, &answer.prov[0].addr))
		exit(3);
}

/* A call whose arguments are the length of its reply. */
static bool ask(struct rr_qp *qp, uint32_t xid, uint32_t len)
{
	static struct rr_msg m;
	uint8_t buf[256];
	struct iovec iov = { buf, 0 };

	rr_msg_init(&m, RR_MSG, xid, 1, 64);
	iov.iov_len = rr_codec_first(RR_DIALECT_V1)->encode(&m, buf, sizeof(buf));
	iov.iov_len += WORDS(buf + iov.iov_len, xid, 0, 2, 0x20000001, 1, 0, 0, 0, 0, 0, len);
	if (ops->window(qp) == 0 || ops->send(qp, &iov, 1, 0, 0) < 0)
		return false;
	ops->kick(qp);
	return true;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uint8_t offer[RR_OFFER_MAX];
	uint32_t xid, need, asked = 0;
	struct rr_hello host;
	int n, idle = 0;

	if (argc != 5 || (n = atoi(argv[3])) > MOST ||
	    rr_nego_get_offer(offer, unhex(argv[1], offer, sizeof(offer)), 0x2052444d, &xid, &host,
			      &need) != RR_NEGO_OURS)
		return 64;
	to.sin_port = htons((in_port_t)atoi(argv[2]));
	for (int i = 0; i < n; i++)
		upgrade(&pair[i], &to, &host, i);
	while (idle < ROUNDS) {
		uint32_t before = asked;

		for (int i = 0; i < n; i++)
			while (ask(pair[i].c, asked + 1, (uint32_t)atoi(argv[4])))
				asked++;
		idle = asked == before ? idle + 1 : 0;
		usleep(10000);
	}
	printf("full %u\n", asked);
	fflush(stdout);
	while (read(0, offer, sizeof(offer)) > 0)
		;
	return 0;
}
