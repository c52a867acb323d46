/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps both regions of a connection that has ended, at both ends, for the next connection
 * between the same two processes: making, mapping and unmapping them is most of what the
 * set-up of a short connection costs.
 *
 * Such a pair of regions is known by half of the token of the connection that used it last.
 * A client that has one from the same server names it in its offer. A server that has it, too,
 * is done with it as well, and says so in its hello, with which it passes no descriptor then.
 * Each side clears its own region before it sends its hello, and writes to the peer's only
 * after it has had the peer's. If the server does not have it, regions are made as ever.
 *
 * Only the memory stays. No descriptor does, and the socket, by whose end each side sees that
 * the other is gone, is a new one for each connection. Regions are kept that a few short
 * messages have gone through: few of their pages are there, and a longer connection does not
 * notice what its set-up has cost.
 *
 * A forked child has all that was mapped before, so whatever a fork has seen is not kept. */
#include "core/prov/shm/shm_int.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/os.h"
#include "core/base/peeraddr.h"

#define KEPT	8u	/* pairs of regions in a process */
#define FEW	64u	/* slots in each direction */
#define FRESH	(10 * RR_SEC)	/* afterwards they go when next one is kept */

/* Whoever changes an id to OWNED may do with the entry what it likes, until it stores another
 * one. */
static struct kept_regions {
	_Atomic uint64_t id;	/* 0: none */
	int32_t pid;
	bool called;		/* the offering side's */
	uint32_t recvs;		/* as this side has asked for */
	uint32_t slots;		/* of ours, that had a message */
	uint32_t peer_pid;
	rr_time since;
	struct sockaddr_in6 to;	/* called: the server's address */
	struct rr_shm_view own, peer;
} pairs[KEPT];
#define OWNED	UINT64_C(1)

static _Atomic uint32_t turn;	/* which one gives way when all are taken */
static _Atomic uint32_t forks;

/* Both sides know a connection, and what it leaves, by its token. */
static uint64_t id_of(const struct rr_shm *q)
{
	uint64_t id;

	memcpy(&id, q->param.token, sizeof(id));
	return id;
}

static bool own_entry(struct kept_regions *k, uint64_t id)
{
	return atomic_compare_exchange_strong_explicit(&k->id, &id, OWNED, memory_order_acquire,
						       memory_order_relaxed);
}

static void disown_entry(struct kept_regions *k, uint64_t id)
{
	atomic_store_explicit(&k->id, id, memory_order_release);
}

static uint32_t forks_so_far(void)
{
	return atomic_load_explicit(&forks, memory_order_relaxed);
}

void rr_shm_again_init(struct rr_shm *q, bool called)
{
	q->again.era = forks_so_far();
	q->again.called = called;
	q->again.taken = false;
}

/* --- an end ------------------------------------------------------------------------------- */

/* Has no child of this process them mapped? */
static bool is_private(const struct rr_shm *q)
{
	return q->creator == rr_pid() && q->again.era == forks_so_far();
}

/* Has it come to its end, and not failed? */
static bool ended_well(const struct rr_shm *q)
{
	int err = atomic_load_explicit(&q->err, memory_order_relaxed);

	return !err || err == -ECONNRESET;
}

static bool was_brief(const struct rr_shm *q)
{
	return q->qp.mem_unused && !q->busy && !q->tx_made && !q->key_fresh &&
	       q->rx_slots <= FEW && q->tx_slots <= FEW;
}

/* The app may have locked its memory, and then all of a region is there. The kernel frees no
 * page of such memory, not even one that nobody has touched. */
static bool is_locked(const struct rr_shm *q)
{
	return madvise(q->own.keys, RR_PAGE, MADV_REMOVE);
}

static bool is_worth(const struct rr_shm *q)
{
	return q->again.stays && id_of(q) > OWNED && is_private(q) && ended_well(q) &&
	       was_brief(q) && q->own.berth.stays && q->peer.berth.stays && !is_locked(q);
}

static void keep_in(struct kept_regions *k, const struct rr_shm *q)
{
	k->pid = (int32_t)rr_pid();
	k->called = q->again.called;
	k->recvs = q->param.recvs;
	k->slots = q->rx_slots;
	k->peer_pid = q->qp.peer_pid;
	k->since = rr_now_coarse();
	k->to = q->param.peer;
	k->own = q->own;
	k->peer = q->peer;
}

static bool keep_at(struct kept_regions *k, const struct rr_shm *q, uint64_t was)
{
	struct rr_shm_view own, peer;

	if (was == OWNED || !own_entry(k, was))
		return false;
	own = k->own;
	peer = k->peer;
	keep_in(k, q);
	disown_entry(k, id_of(q));
	if (was)
		rr_shm_views_drop(&own, &peer);
	return true;
}

static void drop_entry(struct kept_regions *k, bool all)
{
	uint64_t id = atomic_load_explicit(&k->id, memory_order_relaxed);
	bool old;

	if (id <= OWNED || !own_entry(k, id))
		return;
	old = all || rr_now_coarse() - k->since > FRESH;
	if (old)
		rr_shm_views_drop(&k->own, &k->peer);
	disown_entry(k, old ? 0 : id);
}

static void drop_entries(bool all)
{
	for (struct kept_regions *k = pairs; k < pairs + KEPT; k++)
		drop_entry(k, all);
}

bool rr_shm_again_keep(const struct rr_shm *q)
{
	uint32_t i;

	if (!is_worth(q))
		return false;
	drop_entries(false);
	for (i = 0; i < KEPT; i++)
		if (!atomic_load_explicit(&pairs[i].id, memory_order_relaxed) &&
		    keep_at(&pairs[i], q, 0))
			return true;
	i = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) % KEPT;
	return keep_at(&pairs[i], q, atomic_load_explicit(&pairs[i].id, memory_order_relaxed));
}

/* --- a beginning -------------------------------------------------------------------------- */

/* Of the sizes that q would give its own region. */
static bool has_sizes(const struct kept_regions *k, const struct rr_shm *q)
{
	return k->recvs == q->param.recvs &&
	       k->own.geo.recv_size == q->own.geo.recv_size &&
	       k->own.geo.mem_size == q->own.geo.mem_size;
}

/* The entry with that id, for the side that q is: its regions become q's. */
static bool take_pair(struct kept_regions *k, struct rr_shm *q, uint64_t id)
{
	bool ok;

	if (id <= OWNED || !own_entry(k, id))
		return false;
	ok = k->pid == (int32_t)rr_pid() && has_sizes(k, q) && k->called == q->again.called &&
	     (!k->called || rr_peeraddr_same(&k->to, &q->param.peer));
	if (ok) {
		q->own = k->own;
		q->peer = k->peer;
		q->qp.peer_pid = k->peer_pid;
		q->again.slots = k->slots;
		q->again.taken = true;
	}
	disown_entry(k, ok ? 0 : id);
	return ok;
}

bool rr_shm_again_offer(struct rr_shm *q, uint64_t *id)
{
	for (uint32_t i = 0; i < KEPT; i++) {
		*id = atomic_load_explicit(&pairs[i].id, memory_order_relaxed);
		if (take_pair(&pairs[i], q, *id))
			return true;
	}
	return false;
}

bool rr_shm_again_find(struct rr_shm *q, uint64_t id)
{
	for (uint32_t i = 0; i < KEPT; i++)
		if (atomic_load_explicit(&pairs[i].id, memory_order_relaxed) == id &&
		    take_pair(&pairs[i], q, id))
			return true;
	return false;
}

/* --- fork --------------------------------------------------------------------------------- */

void rr_prov_forks(void)
{
	atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
	drop_entries(true);
}
