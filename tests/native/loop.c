/* SPDX-License-Identifier: BSD-3-Clause */
/* A provider for tests of native mode where there is no RDMA: shm, with the rendezvous of RDMA CM in the
 * form of AF_UNIX sockets, one for each port, in the abstract namespace. In a library of its own for tests,
 * whose only provider it is; upgrades go by it too.
 *
 *   listen()   a socket named by the port, and for IPv6 only by that, too
 *   connect()  shm's offer goes there, and the address that is called
 *   take()     accepts, answers as to an upgrade's offer, and says so with one byte; one byte in place of an offer
 *              is the device that goes
 *   establish()  waits for that byte, then joins; no byte, and it is refused
 *
 * Segments, receives and keys are shm's. What has no counterpart there is private data: both sides have
 * RR_TEST_INLINE bytes if the environment has that, as if it had said so. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/enter.h"
#include "core/prov/shm/shm_int.h"

#define WAIT_MS	5000	/* between a connect() and the bytes that follow it */

struct request {
	struct rr_prov_addr offer;
	uint8_t token[RR_TOKEN_LEN];
	struct sockaddr_in6 to;
	struct sockaddr_in6 from;
};

static struct rr_prov_ops loop;

static struct rr_qp *ours(struct rr_qp *qp, bool native)
{
	qp->ops = &loop;
	qp->native = native;
	qp->peer_reads = qp->reads = native;
	return qp;
}

static uint16_t port_of(const struct sockaddr *a)
{
	return ntohs(((const struct sockaddr_in *)(const void *)a)->sin_port);
}

static socklen_t name_of_port(struct sockaddr_un *un, uint16_t port, bool v6only)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(un->sun_path + 1, 40, "rdmarpc-test-%u%s", port,
					    v6only ? "-v6" : ""));
}

static int new_socket(void)
{
	return rr_ownfd_raise(rr_os->socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

static void drop(int *fd)
{
	if (*fd < 0)
		return;
	rr_ownfd_set(*fd, false);
	rr_os->close(*fd);
	*fd = -1;
}

/* --- listening --- */

static size_t lst_size(void)
{
	return sizeof(struct rr_lst);
}

static int loop_listen(struct rr_lst *lst, const struct sockaddr *addr)
{
	struct sockaddr_un un;
	socklen_t len = name_of_port(&un, port_of(addr), lst->v6only);
	int rc;

	if (getenv("RDMARPC_TEST_NO_DEVICE"))
		return -ENODEV;
	lst->fd = new_socket();
	if (lst->fd < 0)
		return lst->fd;
	if (!rr_os->bind(lst->fd, (void *)&un, len) && !rr_os->listen(lst->fd, 16))
		return 0;
	rc = -errno;
	drop(&lst->fd);
	return rc;
}

static void unlisten(struct rr_lst *lst)
{
	drop(&lst->fd);
}

static int take(struct rr_lst *lst, struct rr_qp *qp, const struct rr_prov_params *p,
		struct sockaddr_in6 *peer, struct sockaddr_in6 *local)
{
	struct rr_prov_params mine = *p;
	struct rr_prov_addr none;
	struct pollfd in = { .events = POLLIN };
	struct request r;
	ssize_t n;
	int rc;

	in.fd = rr_os->accept4(lst->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (in.fd < 0)
		return errno == EAGAIN ? -EAGAIN : -errno;
	rr_os->poll(&in, 1, WAIT_MS);
	n = rr_os->recv(in.fd, &r, sizeof(r), 0);
	rc = n == (ssize_t)sizeof(r) ? 0 : n == 1 ? -ESHUTDOWN : -EPROTO;
	if (!rc) {
		memcpy(mine.token, r.token, RR_TOKEN_LEN);
		rc = rr_prov_shm.answer(qp, &mine, &r.offer, &none);
		ours(qp, true);
	}
	if (!rc) {
		rr_os->send(in.fd, "", 1, MSG_NOSIGNAL);
		*peer = r.from;
		*local = r.to;
	}
	rr_os->close(in.fd);
	return rc == -EAGAIN ? -EIO : rc;
}

/* --- connecting --- */

static int call_by(int fd, uint16_t port, bool v6only)
{
	struct sockaddr_un un;
	socklen_t len = name_of_port(&un, port, v6only);

	return rr_os->connect(fd, (void *)&un, len);
}

/* Where a v6 address leads there may be one that is for IPv6 only. */
static int call(int fd, const struct request *r, const struct sockaddr *to)
{
	bool v6 = to->sa_family == AF_INET6;

	if ((!v6 || call_by(fd, port_of(to), true)) && call_by(fd, port_of(to), false))
		return errno == EAGAIN ? -ECONNREFUSED : -errno;
	return rr_os->send(fd, r, sizeof(*r), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int loop_connect(struct rr_qp *qp, const struct rr_prov_params *p, const struct sockaddr *to,
			const struct sockaddr *from)
{
	struct rr_prov_params mine = *p;
	struct request r = { .to.sin6_family = 0 };
	int rc;

	(void)from;
	memcpy(&r.to, to, to->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(r.to));
	r.from = r.to;
	r.from.sin6_port = htons(700);
	if (!rr_os_random(mine.token, sizeof(mine.token)))
		return -EAGAIN;
	memcpy(r.token, mine.token, sizeof(r.token));
	rc = rr_prov_shm.prepare(qp, &mine, &r.offer);
	ours(qp, true);
	if (rc)
		return rc;
	qp->wake_fd = new_socket();
	return qp->wake_fd < 0 ? qp->wake_fd : call(qp->wake_fd, &r, to);
}

static int establish(struct rr_qp *qp)
{
	struct rr_shm *q = rr_shm_of(qp);
	struct rr_prov_addr none = { 0 };
	char byte;
	ssize_t n;
	int rc;

	if (!qp->native && getenv("RDMARPC_TEST_NO_ROUTE"))
		return -EAGAIN;
	if (!qp->native || atomic_load(&q->state) != RR_SHM_LISTENING) {
		rc = rr_prov_shm.establish(qp);
		ours(qp, qp->native);
		return rc;
	}
	n = rr_os->recv(qp->wake_fd, &byte, 1, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return -EAGAIN;
	if (n != 1)
		return -ECONNREFUSED;
	drop(&qp->wake_fd);
	rc = rr_prov_shm.join(qp, &none);
	ours(qp, true);
	return rc;
}

/* --- what is not quite shm's --- */

/* The link is down while there is a file of that name. */
static int probe(struct rr_qp *qp)
{
	const char *down = getenv("RDMARPC_TEST_LINK_DOWN");

	(void)qp;
	return down && !access(down, F_OK) ? -ETIMEDOUT : 1;
}

static int prepare(struct rr_qp *qp, const struct rr_prov_params *p, struct rr_prov_addr *offer)
{
	int rc = rr_prov_shm.prepare(qp, p, offer);

	ours(qp, false);
	return rc;
}

static int answer(struct rr_qp *qp, const struct rr_prov_params *p, const struct rr_prov_addr *offer,
		  struct rr_prov_addr *out)
{
	int rc = rr_prov_shm.answer(qp, p, offer, out);

	ours(qp, false);
	return rc;
}

static int join(struct rr_qp *qp, const struct rr_prov_addr *out)
{
	int rc = rr_prov_shm.join(qp, out);

	ours(qp, false);
	return rc;
}

static uint32_t window(struct rr_qp *qp)
{
	return qp->native ? UINT32_MAX : rr_prov_shm.window(qp);
}

/* Nor does anybody hear when a receive of the peer's is free. */
static enum rr_arm heard(const struct rr_qp *qp, enum rr_arm what)
{
	return qp->native ? RR_ARM_RECV : what;
}

static bool peek(const struct rr_qp *qp, enum rr_arm what)
{
	return rr_prov_shm.peek(qp, heard(qp, what));
}

static int arm(struct rr_qp *qp, enum rr_arm what)
{
	return rr_prov_shm.arm(qp, heard(qp, what));
}

/* What a peer of another make would not understand. */
static int send_imm(struct rr_qp *qp, uint32_t imm, uint64_t cookie)
{
	if (qp->native)
		abort();
	return rr_prov_shm.send_imm(qp, imm, cookie);
}

__attribute__((constructor)) static void only_this(void)
{
	loop = rr_prov_shm;
	loop.name = "loop";
	/* nor can a child use a queue pair of RDMA */
	loop.caps &= ~(uint32_t)(RR_PROV_FAMILY | RR_PROV_LOCAL);
	loop.id = RR_PROV_ID_VERBS;	/* shown as what it stands for */
	loop.prepare = prepare;
	loop.answer = answer;
	loop.join = join;
	loop.establish = establish;
	loop.lst_size = lst_size;
	loop.listen = loop_listen;
	loop.unlisten = unlisten;
	loop.take = take;
	loop.connect = loop_connect;
	loop.window = window;
	loop.peek = peek;
	loop.probe = probe;
	loop.arm = arm;
	loop.send_imm = send_imm;
	rr_prov_only(&loop);
}

/* What the plugin does when the process ends. */
__attribute__((destructor)) static void end(void)
{
	rr_conn_exit();
}
