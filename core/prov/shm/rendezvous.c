/* SPDX-License-Identifier: BSD-3-Clause */
/* req: rfc8166 8.1 #1 */
/* Set-up. The offering side listens, so that the answering side (often a single-threaded server
 * inside some read()) needs no listener of its own and never waits:
 *
 *   client  prepare()    opens a listener; its address goes into the offer
 *   server  answer()     connects, sends hello + memfd; then the answer goes out on TCP
 *   client  join()       finds that hello waiting, checks, maps; sends hello + memfd: ready
 *   server  establish()  takes it, checks, maps: ready
 *
 * If both have kept the regions of an earlier connection, the hellos come without memory
 * (reuse.c).
 *
 * A server that has waited long enough gives up by withdraw(). One compare-exchange in its own
 * region decides between that and join(), of which the exchange is the last step. So an
 * offering side that is ready has a peer that takes its messages.
 *
 * The kernel delivers the server's hello before the answer, so join() never has to wait.
 * Anybody may connect to the listener; what counts is the proof (layout.h). A hello is judged
 * before its descriptor is received at all. A descriptor that is not memory, or that nobody
 * asked for, is not closed here, because closing it could run code of its file system in this
 * thread (foreign.c). */
#include "core/prov/shm/pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/prov/shm/foreign.h"

/* Connections of strangers that join_region() looks at, for each listener. */
#define STRAY_MAX	8

/* Compares in constant time. */
static bool same_bytes(const uint8_t *a, const uint8_t *b, size_t n)
{
	unsigned diff = 0;

	for (size_t i = 0; i < n; i++)
		diff |= (unsigned)(a[i] ^ b[i]);
	return diff == 0;
}

/* The proof is compared first: whoever does not have it gets no further. The sizes are not
 * believed either: the layout is calculated from three numbers, each within its limit, and has
 * to end where the peer says. */
static int judge_hello(const struct rr_shm_hello *h, const uint8_t *proof, struct rr_shm_geo *g)
{
	if (!same_bytes(h->proof, proof, RR_SHM_PROOF))
		return -EACCES;
	if (h->magic != RR_SHM_MAGIC && h->magic != RR_SHM_AGAIN)
		return -EPROTO;
	if (h->version != RR_SHM_VERSION)
		return -EPROTONOSUPPORT;
	if (h->size != sizeof(*h))
		return -EPROTO;
	if (rr_shm_geo_init(g, h->recv_size, h->recvs, h->mem_size) || g->total != h->total)
		return -EPROTO;
	return 0;
}

/* Receives the memfd. The offering side may have joined already and then cannot go back, so a
 * descriptor number is kept in reserve for it. If even that one is taken by another thread, the
 * next attempt has to find one (-EAGAIN). */
static int take_fd(struct rr_shm *q, int sock, bool *lent)
{
	int fd = rr_shm_peek_fd(sock);

	*lent = fd == -EMFILE && q->keeps_place && rr_shm_place_lend();
	if (*lent)
		fd = rr_shm_peek_fd(sock);
	return fd == -EMFILE ? -EAGAIN : fd;
}

static void drop_place(struct rr_shm *q)
{
	if (q->keeps_place)
		rr_shm_place_drop();
	q->keeps_place = false;
}

/* The server does not have the regions that the offer has named. */
static int forgo_kept(struct rr_shm *q)
{
	rr_shm_regions_drop(q);
	q->own.berth.at = q->peer.berth.at = NULL;
	q->again.taken = false;
	return rr_shm_geo_init(&q->own.geo, q->param.recv_size, q->param.recvs,
			       q->param.mem_size);
}

/* The peer's memory comes with its hello. */
static int take_region(struct rr_shm *q, int sock, const struct rr_shm_geo *g)
{
	bool lent;
	int rc = 0, fd;

	if (g->total > rr_shm_geo_bearable(&q->own.geo))
		return -EFBIG;
	if (q->again.taken)
		rc = q->again.called ? forgo_kept(q) : -EPROTO;
	if (rc)
		return rc;
	rc = fd = take_fd(q, sock, &lent);
	if (fd >= 0)
		rc = rr_shm_region_take(q, fd, g);
	if (!rc)	/* from here on only the mapping keeps it alive */
		rr_os->close(fd);
	else if (fd >= 0)
		rr_shm_drop_fd(fd);
	if (lent)
		rr_shm_place_back();
	return rc;
}

/* Looks at the packet in front: its length, or -errno. *foreign: descriptors come with it. */
static ssize_t peek_hello(int sock, struct rr_shm_hello *h, bool *foreign)
{
	struct iovec iov = { h, sizeof(*h) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n = rr_os->recvmsg(sock, &m, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);

	*foreign = m.msg_flags & MSG_CTRUNC;
	return n < 0 ? -errno : n;
}

/* Takes the peer's hello from sock, and maps its region unless both have it. -EAGAIN: it is not
 * there yet. */
static int take_hello(struct rr_shm *q, int sock, const uint8_t *proof)
{
	struct rr_shm_hello h;
	struct rr_shm_geo g;
	bool foreign;
	ssize_t n = peek_hello(sock, &h, &foreign);
	int rc;

	if (n < 0)
		return (int)n;
	if (n == 0)
		return -ECONNRESET;
	if (n != (ssize_t)sizeof(h))
		return -EPROTO;
	rc = judge_hello(&h, proof, &g);
	if (rc)
		return rc;
	if (h.magic != RR_SHM_AGAIN)
		rc = take_region(q, sock, &g);
	else if (foreign || !q->again.taken)	/* no memory comes: both sides have it */
		rc = -EPROTO;
	if (!rc)
		rr_os->recv(sock, &h, sizeof(h), MSG_DONTWAIT);
	return rc;
}

/* One packet, and a descriptor with it; memfd -1: none, for the regions that both sides have.
 * The receiver judges the bytes before it lets the descriptor in. */
static int send_hello(struct rr_shm *q, int sock, int memfd, const uint8_t *proof)
{
	struct rr_shm_hello h = {
		.magic = memfd < 0 ? RR_SHM_AGAIN : RR_SHM_MAGIC,
		.version = RR_SHM_VERSION, .size = sizeof(h),
		.recv_size = q->own.geo.recv_size, .recvs = q->param.recvs,
		.mem_size = q->own.geo.mem_size, .total = q->own.geo.total,
	};

	memcpy(h.proof, proof, RR_SHM_PROOF);
	return rr_shm_send_fd(sock, &h, sizeof(h), memfd);
}

/* Makes our region, or makes it as new, and passes it to the peer. */
static int greet(struct rr_shm *q, int sock, const uint8_t *proof)
{
	int memfd = -1, rc;

	if (q->again.taken) {
		rr_shm_region_clear(q);
	} else {
		memfd = rr_shm_region_make(q);
		if (memfd < 0)
			return memfd;
	}
	q->qp.mem = q->own.mem;
	q->qp.mem_size = (size_t)q->own.geo.mem_size;
	rc = send_hello(q, sock, memfd, proof);
	if (memfd >= 0)
		rr_os->close(memfd);
	return rc;
}

/* The process that made the other end, as the kernel noted it then; 0: it does not say, or the
 * process has no number in our PID namespace. */
static uint32_t peer_pid(int sock)
{
	struct ucred who = { .pid = 0 };
	socklen_t len = sizeof(who);

	if (rr_os->getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) || who.pid < 0)
		return 0;
	return (uint32_t)who.pid;
}

/* Settles the sizes: the smaller of what the two sides wish for, because what we send takes up
 * memory, for which the peer's word alone is not enough. */
static void get_ready(struct rr_shm *q)
{
	rr_shm_geo_agree(&q->own.geo, &q->peer.geo);
	q->qp.send_size = q->qp.peer_send = rr_min(q->own.geo.recv_size, q->peer.geo.recv_size);
	q->qp.recvs = q->qp.peer_recvs = q->own.geo.recvs;
	q->refusing = rr_shm_refuse_fds(q->qp.wake_fd);
	q->plain = q->refusing && rr_shm_is_empty(q->qp.wake_fd);
	if (!q->again.taken)
		q->qp.peer_pid = peer_pid(q->qp.wake_fd);
	/* Pairs with the acquire in rr_shm_ready(), for peek() without the lock. */
	atomic_store_explicit(&q->state, RR_SHM_READY, memory_order_release);
}

/* A generation for keys, so that keys of one connection mean nothing on another. */
static uint32_t new_key_gen(void)
{
	static _Atomic uint32_t next;
	uint32_t gen = atomic_fetch_add_explicit(&next, UINT32_C(0x9e3779b9),
						 memory_order_relaxed);

	if (unlikely(!gen) && rr_os_random(&gen, sizeof(gen)))
		atomic_fetch_add_explicit(&next, gen, memory_order_relaxed);
	return gen;
}

static int init_shm(struct rr_shm *q, const struct rr_prov_params *p, enum rr_shm_state state)
{
	int rc = rr_shm_geo_init(&q->own.geo, p->recv_size, p->recvs, p->mem_size);

	if (rc)
		return rc;
	if (rr_shm_burdened())
		return -EBUSY;
	q->key_gen = new_key_gen();
	q->param.recv_size = p->recv_size;
	q->param.recvs = p->recvs;
	q->param.mem_size = p->mem_size;
	memcpy(q->param.token, p->token, RR_TOKEN_LEN);
	q->param.peer = p->peer ? *p->peer : (struct sockaddr_in6){ 0 };
	q->param.near = p->near;
	q->qp.recv_size = p->recv_size;
	q->qp.recvs = p->recvs;
	q->qp.wake_fd = q->qp.other_fd = q->qp.ring_fd = -1;
	q->listener[0] = q->listener[1] = -1;
	q->path[0] = '\0';
	q->creator = rr_pid();
	rr_shm_again_init(q, state == RR_SHM_LISTENING);
	atomic_store_explicit(&q->state, state, memory_order_relaxed);
	return 0;
}

/* A set-up step has failed: returns q to the state before, in which close() finds nothing to
 * do. */
static int undo(struct rr_shm *q, int rc)
{
	rr_shm_close(&q->qp);
	atomic_store_explicit(&q->state, RR_SHM_NONE, memory_order_relaxed);
	q->qp.mem = q->own.berth.at = q->peer.berth.at = NULL;
	q->qp.wake_fd = -1;
	return rc;
}

/* See prov.h. The region is made in join() only, so an offer that is declined costs no
 * memory. */
int rr_shm_prepare(struct rr_qp *qp, const struct rr_prov_params *p, struct rr_prov_addr *offer)
{
	struct rr_shm *q = rr_shm_of(qp);
	int saved = errno, rc = init_shm(q, p, RR_SHM_LISTENING);

	if (!rc) {
		rc = rr_shm_listen(q, p->run_dir, offer);
		if (rc)
			undo(q, rc);
	}
	errno = saved;
	return rc;
}

/* See prov.h. The number for the client's memfd is taken before the hello goes out, because
 * from the hello on the client may join, and a joined client cannot go back. */
int rr_shm_answer(struct rr_qp *qp, const struct rr_prov_params *p,
		  const struct rr_prov_addr *offer, struct rr_prov_addr *answer)
{
	struct rr_shm *q = rr_shm_of(qp);
	int saved = errno, rc = init_shm(q, p, RR_SHM_ANSWERED);

	answer->len = 0;	/* everything there is to say is in the hello */
	if (!rc) {
		rc = rr_shm_connect(offer, p->run_dir);
		if (rc >= 0) {
			qp->wake_fd = rc;
			rr_shm_offered_again(q, offer);
			rc = q->again.taken ? 0 : rr_shm_place_keep();
			q->keeps_place = rc == 0 && !q->again.taken;
			if (!rc)
				rc = greet(q, qp->wake_fd, q->param.token);
		}
		if (rc)
			undo(q, rc);
	}
	errno = saved;
	return rc;
}

/* Accepts connections waiting at listener until one has a valid hello, and maps its peer's
 * region. *alone: it was the first one. */
static int find_peer(struct rr_shm *q, int listener, bool *alone)
{
	int rc = -ECONNREFUSED;

	for (int i = 0; listener >= 0 && i < STRAY_MAX; i++) {
		int fd = rr_os->accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			return errno == EAGAIN ? rc : -errno;
		rc = take_hello(q, fd, q->param.token);
		*alone = i == 0;
		if (!rc)
			return fd;
		rr_shm_drop_sock(fd);
		if (rc == -EAGAIN)	/* a stranger that has sent no hello */
			rc = -ECONNREFUSED;
	}
	return rc;
}

/* The last step, after which messages may be sent. -ECANCELED: the answering side has given up
 * before. */
static int join_last(struct rr_shm *q)
{
	uint32_t none = 0;

	return atomic_compare_exchange_strong_explicit(&q->peer.ctl->joined, &none,
						       RR_SHM_JOINED, memory_order_acq_rel,
						       memory_order_relaxed) ? 0 : -ECANCELED;
}

/* Reduces our memory to what the server will map, but not below what it has itself. False: that
 * is not possible. */
static bool fit_memory(struct rr_shm *q)
{
	size_t most = rr_shm_geo_bearable(&q->peer.geo), total = q->own.geo.total;
	uint64_t least = rr_min(q->param.mem_size, (size_t)q->peer.geo.mem_size);

	if (total <= most)
		return true;
	total = rr_align(total - most, (size_t)RR_PAGE);
	if (total > q->param.mem_size - least)
		return false;
	q->param.mem_size -= total;
	return true;
}

/* After the greeting, EPIPE and ECONNRESET mean that the server has withdrawn and shut the
 * socket down. The client then stays on TCP; nothing has been sent. */
static int join_region(struct rr_shm *q)
{
	bool alone = false;
	int rc, fd = find_peer(q, q->listener[0], &alone);

	if (fd < 0 && q->listener[1] >= 0)
		fd = find_peer(q, q->listener[1], &(bool){ false });
	if (fd < 0)
		return fd;
	q->qp.wake_fd = rr_ownfd_raise(fd);
	rr_shm_unlisten_joined(q, alone);
	q->listener[0] = q->listener[1] = -1;
	if (!fit_memory(q))
		return -EFBIG;
	rc = greet(q, q->qp.wake_fd, q->param.token + RR_SHM_PROOF);
	if (rc == -EPIPE || rc == -ECONNRESET)
		return -ECANCELED;
	return rc ? rc : join_last(q);
}

int rr_shm_join(struct rr_qp *qp, const struct rr_prov_addr *answer)
{
	struct rr_shm *q = rr_shm_of(qp);
	int saved = errno, rc = -EINVAL;

	(void)answer;
	if (atomic_load_explicit(&q->state, memory_order_relaxed) == RR_SHM_LISTENING) {
		rc = join_region(q);
		if (rc)
			undo(q, rc);
		else
			get_ready(q);
	}
	errno = saved;
	return rc;
}

/* See prov.h. -EAGAIN: the client has not joined yet. After any other error nothing is left of
 * the connection. */
int rr_shm_establish(struct rr_qp *qp)
{
	struct rr_shm *q = rr_shm_of(qp);
	int saved = errno, rc;

	switch (atomic_load_explicit(&q->state, memory_order_relaxed)) {
	case RR_SHM_READY:
		return 0;
	case RR_SHM_ANSWERED:
		break;
	default:
		return -EINVAL;
	}
	rc = take_hello(q, qp->wake_fd, q->param.token + RR_SHM_PROOF);
	if (!rc) {
		drop_place(q);
		get_ready(q);
	} else if (rc != -EAGAIN) {
		undo(q, rc);
	}
	errno = saved;
	return rc;
}

/* The other side says that it has joined: then its hello has come, or the peer lies. */
static bool is_coming(struct rr_shm *q)
{
	uint8_t byte;

	return rr_os->recv(q->qp.wake_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* See prov.h. If the client was faster, its hello was sent before it set the word: so either
 * the hello is there, or the peer lies and gets no connection. */
int rr_shm_withdraw(struct rr_qp *qp)
{
	struct rr_shm *q = rr_shm_of(qp);
	uint32_t none = 0;
	int saved = errno, rc = 0;

	if (atomic_load_explicit(&q->state, memory_order_relaxed) != RR_SHM_ANSWERED)
		return -EAGAIN;
	if (!atomic_compare_exchange_strong_explicit(&q->own.ctl->joined, &none,
						     RR_SHM_WITHDRAWN, memory_order_acq_rel,
						     memory_order_relaxed) &&
	    none != RR_SHM_WITHDRAWN && is_coming(q))
		rc = -EAGAIN;
	if (!rc)	/* also wakes threads, and a forked child, that sleep on it */
		rr_os->shutdown(qp->wake_fd, SHUT_RDWR);
	errno = saved;
	return rc;
}

/* Leaves qp as it is: other processes of the family may still use it, and the numbers and
 * addresses in it are theirs as well, unless one of them has called disconnect(). */
void rr_shm_close(struct rr_qp *qp)
{
	struct rr_shm *q = rr_shm_of(qp);
	int saved = errno, sock = rr_shm_sock(q);
	bool early = !rr_shm_ready(q), last = early ? q->creator == rr_pid() : q->ended;

	switch (atomic_load_explicit(&q->state, memory_order_relaxed)) {
	case RR_SHM_NONE:
		return;
	case RR_SHM_LISTENING:
		rr_shm_unlisten(q);
		break;
	case RR_SHM_ANSWERED:
		drop_place(q);
		break;
	}
	if (early || !last || !rr_shm_again_keep(q))
		rr_shm_regions_drop(q);
	rr_shm_pipe_close(q);
	/* The socket has to be searched only if descriptors may be in it, and if nobody else
	 * will close it later. */
	if (sock < 0 || !last || q->plain)
		rr_ownfd_close(sock);
	else if (early)
		rr_shm_drop_sock(sock);
	else
		rr_shm_drop_shut(sock);
	errno = saved;
}
