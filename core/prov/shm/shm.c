/* SPDX-License-Identifier: BSD-3-Clause */
/* The shm provider: RDMA semantics between two processes of one host. This file has the table
 * of operations, the doorbell, and what the two ends tell each other; messages are ring.c's,
 * copies xfer.c's, set-up rendezvous.c's. */

#include "core/prov/shm/pipe.h"

#include <errno.h>
#include <poll.h>

#include "core/base/os.h"
#include "core/prov/shm/foreign.h"

static size_t shm_size(const struct rr_prov_params *p)
{
	(void)p;
	return sizeof(struct rr_shm);
}

static int prepare_offer(struct rr_qp *qp, const struct rr_prov_params *p,
			 struct rr_prov_addr *offer)
{
	qp->ops = &rr_prov_shm;
	return rr_shm_prepare(qp, p, offer);
}

static int answer_peer(struct rr_qp *qp, const struct rr_prov_params *p,
		       const struct rr_prov_addr *offer, struct rr_prov_addr *own)
{
	qp->ops = &rr_prov_shm;
	return rr_shm_answer(qp, p, offer, own);
}

/* --- sleeping --- */

static bool peek_rings(const struct rr_qp *qp, enum rr_arm what)
{
	const struct rr_shm *q = container_of(qp, struct rr_shm, qp);

	if (!rr_shm_ready(q))
		return false;
	if (atomic_load_explicit(&q->err, memory_order_relaxed) ||
	    atomic_load_explicit(&q->lost, memory_order_relaxed))
		return true;
	if (rr_shm_fence_peek(q))
		return true;
	return ((what & RR_ARM_RECV) && rr_shm_rx_peek(q)) ||
		((what & RR_ARM_SEND) && rr_shm_tx_peek(q));
}

/* Does the peer sleep on its pipe? The acquire pairs with the release in pipe_say(). */
static bool sleeps_on_pipe(const struct rr_shm *q)
{
	return q->qp.ring_fd >= 0 &&
	       atomic_load_explicit(&q->peer.ctl->knock, memory_order_acquire) & RR_SHM_BY;
}

/* Rings the doorbell: sends one byte. EAGAIN means that so many are pending that one more would
 * tell nothing. If the peer has died, its end of the socket shows that. */
static void ring_bell(struct rr_shm *q)
{
	int saved = errno;

	atomic_store_explicit(&q->peer.ctl->rung, (uint32_t)rr_now(), memory_order_relaxed);
	if (sleeps_on_pipe(q))
		rr_shm_pipe_ring(q);
	else
		(void)!rr_os->send(rr_shm_sock(q), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	errno = saved;
	if (q->qp.count)
		rr_count(q->qp.count, RR_C_wakeups_sent, 1);
}

static void kick_peer(struct rr_qp *qp)
{
	struct rr_shm *q = rr_shm_of(qp);
	_Atomic uint32_t *armed;
	uint32_t done = q->unkicked;

	if (!done || !rr_shm_ready(q))
		return;
	q->unkicked = 0;
	armed = &q->peer.ctl->armed;
	/* Pairs with the fence in arm_bell(): either we see that the peer has armed, or it sees
	 * what we posted. */
	rr_fence();
	if (likely(!(atomic_load_explicit(armed, memory_order_relaxed) & done)))
		return;
	/* Of several threads that get here at once, only one rings. */
	if (atomic_fetch_and_explicit(armed, ~done, memory_order_acquire) & done)
		ring_bell(q);
}

/* Bits that another sleeper has armed stay set, because it still waits for its bell. */
static int arm_bell(struct rr_qp *qp, enum rr_arm what)
{
	struct rr_shm *q = rr_shm_of(qp);
	uint32_t before;

	if (!rr_shm_ready(q))
		return 0;
	/* Pairs with the acquire in kick_peer(), for what was said of a pipe before. */
	before = atomic_fetch_or_explicit(&q->own.ctl->armed, (uint32_t)what,
					  memory_order_release);
	/* Pairs with the fence in kick_peer(). */
	rr_fence();
	if (!peek_rings(qp, what))
		return 0;
	atomic_fetch_and_explicit(&q->own.ctl->armed, ~((uint32_t)what & ~before),
				  memory_order_relaxed);
	return 1;
}

static void disarm_bell(struct rr_qp *qp)
{
	struct rr_shm *q = rr_shm_of(qp);

	/* No ordering is needed: drain_bell() swallows a bell too many. */
	if (rr_shm_ready(q))
		atomic_store_explicit(&q->own.ctl->armed, 0, memory_order_relaxed);
}

/* --- what each end knows of the other --- */

static _Atomic uint32_t *word_of(struct rr_shm_ctl *ctl, enum rr_tell what)
{
	switch (what) {
	case RR_TELL_CPU:
		return &ctl->cpu;
	case RR_TELL_DOING:
		return &ctl->doing;
	case RR_TELL_WOKE:
		return &ctl->woke;
	case RR_TELL_WORK:
		break;
	}
	return &ctl->work;
}

/* Written only when the value changes. Otherwise the peer would have to fetch the cache line,
 * which it looks at after each message. */
static void tell_peer(struct rr_qp *qp, enum rr_tell what, uint32_t value)
{
	struct rr_shm *q = rr_shm_of(qp);
	_Atomic uint32_t *word;

	if (!rr_shm_ready(q))
		return;
	word = word_of(q->own.ctl, what);
	if (atomic_load_explicit(word, memory_order_relaxed) != value)
		atomic_store_explicit(word, value, memory_order_relaxed);
}

static void observe(struct rr_qp *qp, uint32_t cpu, struct rr_peer_look *out)
{
	struct rr_shm *q = rr_shm_of(qp);
	struct rr_shm_ctl *ctl = q->peer.ctl;

	*out = (struct rr_peer_look){ 0 };
	if (!rr_shm_ready(q))
		return;
	if (cpu && atomic_load_explicit(&q->own.ctl->cpu, memory_order_relaxed) != cpu)
		atomic_store_explicit(&q->own.ctl->cpu, cpu, memory_order_relaxed);
	out->cpu = atomic_load_explicit(&ctl->cpu, memory_order_relaxed);
	out->doing = atomic_load_explicit(&ctl->doing, memory_order_relaxed);
	out->woke = atomic_load_explicit(&ctl->woke, memory_order_relaxed);
	out->work = atomic_load_explicit(&ctl->work, memory_order_relaxed);
}

static bool is_copying(const struct rr_qp *qp)
{
	const struct rr_shm *q = container_of(qp, struct rr_shm, qp);

	return rr_shm_ready(q) &&
	       atomic_load_explicit(&q->own.ctl->accessing, memory_order_relaxed);
}

static uint32_t rung(const struct rr_qp *qp, rr_time now)
{
	const struct rr_shm *q = container_of(qp, struct rr_shm, qp);

	return (uint32_t)now - atomic_load_explicit(&q->own.ctl->rung, memory_order_relaxed);
}

/* Has the peer closed its end? For a socket whose reading half this end has shut itself. */
static bool hung_up(const struct rr_shm *q)
{
	struct pollfd p = { .fd = rr_shm_sock(q) };

	return rr_os->poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

static ssize_t read_bell(struct rr_shm *q)
{
	int sock = rr_shm_sock(q);
	char bell;
	ssize_t n;

	if (likely(q->plain))
		return rr_os->recv(sock, &bell, 1, MSG_DONTWAIT);
	if (q->admits && q->qp.easy)	/* ease() does not take it any more */
		rr_shm_pipe_decline(q);
	if (q->admits && rr_shm_foreign_next(sock)) {
		q->come = true;
		errno = EAGAIN;
		return -1;
	}
	n = rr_shm_read_bell(sock);
	if (q->refusing && !q->admits &&
	    (n > 0 ? rr_shm_is_empty(sock) : n < 0 && errno == EAGAIN))
		q->plain = true;	/* what was sent before it refused is gone now */
	return n;
}

/* Consumes one bell only, because whoever rings has cleared the bit that asked for it. If there
 * is another, the next sleep ends at once; and it notices a peer that is gone a little
 * later. */
static int drain_bell(struct rr_qp *qp)
{
	struct rr_shm *q = rr_shm_of(qp);
	int saved = errno;
	ssize_t n;

	if (!rr_shm_ready(q))
		return 0;
	/* A pipe stays readable once it is roused. A bell through it that brings nothing is for
	 * what the socket has. */
	if (qp->piped && !q->roused && !rr_shm_pipe_drain(q))
		atomic_store_explicit(&q->lost, true, memory_order_relaxed);
	if (qp->piped && peek_rings(qp, RR_ARM_RECV | RR_ARM_SEND))
		goto out;
	do
		n = read_bell(q);
	while (n < 0 && errno == EINTR);
	if ((n == 0 && (!q->roused || hung_up(q))) || (n < 0 && errno != EAGAIN))
		atomic_store_explicit(&q->lost, true, memory_order_relaxed);
out:
	errno = saved;
	return atomic_load_explicit(&q->lost, memory_order_relaxed) ? -ECONNRESET : 0;
}

/* Shuts only the reading half: from now on the peer's bells fail, which it does not take for an
 * end. */
static void rouse(struct rr_qp *qp)
{
	struct rr_shm *q = rr_shm_of(qp);
	int saved = errno;

	if (rr_shm_ready(q) && !q->roused) {
		q->roused = true;
		rr_os->shutdown(rr_shm_sock(q), SHUT_RD);
		rr_shm_pipe_wake(q);
	}
	errno = saved;
}

/* Other processes of the family that sleep on the socket wake up, too. */
static void shut_bell(struct rr_qp *qp)
{
	struct rr_shm *q = rr_shm_of(qp);
	int saved = errno;

	if (rr_shm_ready(q)) {
		rr_os->shutdown(rr_shm_sock(q), SHUT_RDWR);
		rr_shm_pipe_wake(q);
		rr_shm_pipe_ring(q);
		q->ended = true;
	}
	errno = saved;
}

const struct rr_prov_ops rr_prov_shm = {
	.name = "shm",
	.id = RR_PROV_ID_SHM,
	.caps = RR_PROV_DIRECT | RR_PROV_RING | RR_PROV_SURVIVES | RR_PROV_FAMILY |
		RR_PROV_TELLS | RR_PROV_LOCAL,
	.qp_size = shm_size,
	.prepare = prepare_offer,
	.answer = answer_peer,
	.join = rr_shm_join,
	.establish = rr_shm_establish,
	.withdraw = rr_shm_withdraw,
	.disconnect = shut_bell,
	.close = rr_shm_close,
	.send = rr_shm_send,
	.send_imm = rr_shm_send_imm,
	.send_note = rr_shm_send_note,
	.read = rr_shm_read,
	.write = rr_shm_write,
	.expose = rr_shm_expose,
	.invalidate = rr_shm_invalidate,
	.consumed = rr_shm_consumed,
	.consume = rr_shm_consume,
	.poll = rr_shm_poll,
	.repost = rr_shm_repost,
	.window = rr_shm_window,
	.peek = peek_rings,
	.kick = kick_peer,
	.ease = rr_shm_ease,
	.arm = arm_bell,
	.disarm = disarm_bell,
	.tell = tell_peer,
	.observe = observe,
	.is_copying = is_copying,
	.rung = rung,
	.drain = drain_bell,
	.rouse = rouse,
	.trim = rr_shm_trim,
};
