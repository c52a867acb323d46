/* SPDX-License-Identifier: BSD-3-Clause */
/* greedy PORT CONNECTIONS LENGTH: a client that upgrades like any other, with the largest hello that is taken, asks for
 * replies of LENGTH bytes for as long as it is let, and reads nothing.
 *
 * Says "full N" when none of its connections takes another call, after N of them, and ends when its stdin does. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/prov/shm/shm_int.h"
#include "core/wire/codec.h"
#include "tests/lib/bytes.h"
#include "tests/lib/rpc.h"
#include "tests/lib/upgrade.h"

#define ops (&rr_prov_shm)
#define MOST	64
#define MANY	512u	/* more, and the server does not map them */
#define ROUNDS	20	/* without a call taken, 10 ms each: then it is full */

static struct up up[MOST];

static void upgrade(struct up *u, const struct sockaddr_in *to, uint8_t i)
{
	const uint8_t token[RR_TOKEN_LEN] = { i, 1 };
	struct rr_hello h;

	up_new(u, rpc_connect(to), token, RR_SHM_RECV_MAX, MANY);
	up_hello(u, &h);
	h.credits = h.bc_credits = h.max_msg = UINT32_MAX;
	if (u->fd < 0 || !up_offer(u, &h))
		exit(2);
	if (!up_join(u))
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
	struct sockaddr_in to;
	uint32_t asked = 0;
	int n, idle = 0;
	char byte;

	if (argc != 4 || (n = atoi(argv[2])) > MOST)
		return 64;
	to = rpc_address("127.0.0.1", atoi(argv[1]));
	for (int i = 0; i < n; i++)
		upgrade(&up[i], &to, (uint8_t)i);
	while (idle < ROUNDS) {
		uint32_t before = asked;

		for (int i = 0; i < n; i++)
			while (ask(up[i].qp, asked + 1, (uint32_t)atoi(argv[3])))
				asked++;
		idle = asked == before ? idle + 1 : 0;
		usleep(10000);
	}
	printf("full %u\n", asked);
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
