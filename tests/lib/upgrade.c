/* SPDX-License-Identifier: BSD-3-Clause */
/* The upgrade of a connection by hand: nego's bytes on a socket, and the shm provider's steps. */
#include "tests/lib/upgrade.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/ident.h"
#include "core/engine/engine.h"
#include "tests/lib/shm_pair.h"

#define ops	(&rr_prov_shm)
#define PROGRAM	0x2052444du	/* the default of option program */
#define XID	77u		/* of our offers */
#define PATIENCE_MS	3000

void up_new(struct up *u, int fd, const uint8_t token[RR_TOKEN_LEN], uint32_t recv_size, uint32_t recvs)
{
	shm_use_libc();
	*u = (struct up){
		.fd = fd,
		.p = { .recv_size = recv_size, .recvs = recvs, .mem_size = 1 << 20 },
	};
	memcpy(u->p.token, token, RR_TOKEN_LEN);
	u->qp = shm_qp_new(&u->p);
}

void up_close(struct up *u)
{
	ops->close(u->qp);
	close(u->fd);
	shm_qp_free(u->qp, &u->p);
}

void up_hello(const struct up *u, struct rr_hello *h)
{
	*h = (struct rr_hello){
		.version = RR_NEGO_VERSION, .caps = RR_CAP_HATCH | RR_CAP_RING_CREDITS | RR_CAP_RELIABLE_REPLY,
		.inline_size = u->p.recv_size, .recvs = u->p.recvs, .credits = 64, .bc_credits = 8,
		.max_msg = (uint32_t)u->p.mem_size / 2, .nprov = 1,
	};
	memcpy(h->token, u->p.token, RR_TOKEN_LEN);
	h->prov[0].id = ops->id;
}

static int hear(int fd, uint8_t *buf, size_t cap)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, PATIENCE_MS) == 1 ? (int)recv(fd, buf, cap, 0) : -1;
}

static bool say(int fd, const uint8_t *buf, uint32_t len)
{
	return len && send(fd, buf, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* True identities, without which no server of this host would listen to the rest. */
static bool say_where(const struct up *u, struct rr_hello *h)
{
	struct sockaddr_in6 local, peer;
	socklen_t llen = sizeof(local), plen = sizeof(peer);

	if (getsockname(u->fd, (struct sockaddr *)&local, &llen) ||
	    getpeername(u->fd, (struct sockaddr *)&peer, &plen))
		return false;
	rr_host_id(h->token, h->host);
	rr_ends_id(h->token, (struct sockaddr *)&local, (struct sockaddr *)&peer, h->ends);
	return true;
}

bool up_offer(struct up *u, struct rr_hello *h)
{
	uint8_t buf[RR_OFFER_MAX];

	return say_where(u, h) && !ops->prepare(u->qp, &u->p, &h->prov[0].addr) &&
		say(u->fd, buf, rr_nego_put_offer(h, PROGRAM, XID, buf, sizeof(buf)));
}

bool up_join(struct up *u)
{
	uint8_t buf[RR_ANSWER_MAX];
	struct rr_hello answer;
	uint32_t need;
	int n = hear(u->fd, buf, sizeof(buf));

	return n > 0 && rr_nego_get_answer(buf, (size_t)n, XID, &answer, &need) == RR_NEGO_OURS &&
		!ops->join(u->qp, &answer.prov[0].addr);
}

bool up_heard(int fd, struct rr_hello *h, uint32_t *xid)
{
	uint8_t buf[RR_OFFER_MAX];
	uint32_t need;
	int n = hear(fd, buf, sizeof(buf));

	return n > 0 && rr_nego_get_offer(buf, (size_t)n, PROGRAM, xid, h, &need) == RR_NEGO_OURS;
}

static bool wait_established(struct rr_qp *qp)
{
	for (int i = 0; i < PATIENCE_MS; i++) {
		int rc = ops->establish(qp);

		if (rc != -EAGAIN)
			return rc == 0;
		usleep(1000);
	}
	return false;
}

bool up_answer(struct up *u, const struct rr_hello *offer, uint32_t xid, struct rr_hello *h)
{
	struct rr_prov_addr unused;
	uint8_t buf[RR_ANSWER_MAX];

	if (ops->answer(u->qp, &u->p, &offer->prov[0].addr, &unused))
		return false;
	h->prov[0].addr.len = 0;
	return say(u->fd, buf, rr_nego_put_answer(h, xid, buf, sizeof(buf))) && wait_established(u->qp);
}
