/* SPDX-License-Identifier: BSD-3-Clause */
/* Where connections live, and what concerns all of them: fork, the family of processes that one
 * has, our descriptors' numbers. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/conn_int.h"
#include "core/conn/when.h"

#define SLAB	64u

/* Type-stable: a connection's memory never becomes anything else. */
static struct rr_lock slab_lock;
static struct rr_lock reap_lock;	/* holds off the end of connections */
static struct rr_conn *free_list;
static struct rr_conn *slabs[4096];	/* each of SLAB connections */
static _Atomic uint32_t nslabs;

/* Of each slab, the connections whose memory is in use as far as this process knows: who looks
 * for idle ones passes the others over without touching them. */
static _Atomic uint64_t in_use[4096];
_Static_assert(SLAB == 64, "a bit for each");

static void slab_more(void)
{
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_relaxed);
	struct rr_conn *slab;

	if (n == rr_array_size(slabs))
		return;
	slab = mmap(NULL, SLAB * sizeof(*slab), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slab == MAP_FAILED)
		return;
	for (uint32_t i = 0; i < SLAB; i++) {
		slab[i].index = n * SLAB + i;
		slab[i].next = free_list;
		free_list = &slab[i];
	}
	slabs[n] = slab;
	/* pairs with the acquire in rr_conn_each_carried() */
	atomic_store_explicit(&nslabs, n + 1, memory_order_release);
}

struct rr_conn *rr_slab_get(bool server, int fd)
{
	struct rr_conn *c;
	uint32_t index;

	if (rr_lock_take(&slab_lock) == -EDEADLK)
		return NULL;
	if (!free_list)
		slab_more();
	c = free_list;
	if (c)
		free_list = c->next;
	rr_lock_drop(&slab_lock);
	if (!c)
		return NULL;
	index = c->index;
	memset(c, 0, sizeof(*c));
	c->index = index;
	c->server = server;
	c->fd = fd;
	c->owner = (int32_t)rr_pid();
	c->lowat = 1;
	atomic_store_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

void rr_slab_put(struct rr_conn *c)
{
	atomic_store_explicit(&c->state, RR_S_FREE, memory_order_release);
	if (rr_lock_take(&slab_lock) == -EDEADLK)
		return;		/* lost to this process; a handler that closes mid-call */
	c->next = free_list;
	free_list = c;
	rr_lock_drop(&slab_lock);
}

void rr_slab_end(struct rr_conn *c)
{
	/* rr_conn_each_carried() may be looking at it. */
	if (rr_lock_take(&reap_lock) == -EDEADLK)
		return;
	atomic_store_explicit(&c->state, RR_S_FREE, memory_order_release);
	rr_slab_rests(c);
	rr_lock_drop(&reap_lock);
}

bool rr_conn_each_carried(void (*fn)(struct rr_conn *, void *), void *ctx)
{
	/* pairs with the release in slab_more() */
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_acquire);

	if (rr_lock_try(&reap_lock))
		return false;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < SLAB; j++)
			if (rr_conn_st(&slabs[i][j]) == RR_S_CARRIED)
				fn(&slabs[i][j], ctx);
	rr_lock_drop(&reap_lock);
	return true;
}

void rr_slab_in_use(uint32_t index)
{
	uint64_t bit = UINT64_C(1) << index % SLAB;

	atomic_fetch_or_explicit(&in_use[index / SLAB], bit, memory_order_relaxed);
}

void rr_slab_rests(const struct rr_conn *c)
{
	uint64_t bit = UINT64_C(1) << c->index % SLAB;

	atomic_fetch_and_explicit(&in_use[c->index / SLAB], ~bit, memory_order_relaxed);
}

bool rr_slab_each_in_use(void (*fn)(struct rr_conn *, void *), void *ctx)
{
	/* pairs with the release in slab_more() */
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_acquire);

	if (rr_lock_try(&reap_lock))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t bits = atomic_load_explicit(&in_use[i], memory_order_relaxed);

		for (; bits; bits &= bits - 1) {
			struct rr_conn *c = &slabs[i][__builtin_ctzll(bits)];

			if (rr_conn_st(c) == RR_S_CARRIED)
				fn(c, ctx);
		}
	}
	rr_lock_drop(&reap_lock);
	return true;
}

uint32_t rr_conn_each_taken(void (*fn)(struct rr_conn *))
{
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_acquire), left = 0;

	for (uint32_t i = 0; i < n * SLAB; i++) {
		struct rr_conn *c = &slabs[i / SLAB][i % SLAB];

		if (rr_conn_st(c) != RR_S_TAKEN || !rr_conn_keep(c))
			continue;
		if (rr_lock_try(&c->lock) == 0) {
			if (rr_conn_st(c) == RR_S_TAKEN && c->owner == (int32_t)rr_pid())
				fn(c);
			rr_lock_drop(&c->lock);
		}
		left += rr_conn_st(c) == RR_S_TAKEN;
		rr_conn_free(c);
	}
	return left;
}

/* Not while another thread forks: a connection that it did not count for the child, but which
 * the child finds carried, would end when the child closes it. */
void rr_slab_carried(struct rr_conn *c)
{
	bool held = rr_lock_take(&slab_lock) != -EDEADLK;

	rr_slab_in_use(c->index);
	rr_conn_turn(c, RR_S_CARRIED);
	if (held)
		rr_lock_drop(&slab_lock);
}

/* --- the family ------------------------------------------------------------------------ */

/* This process is one that has the connection (or no longer): a slot of its own, if one is free. */
static void family_swap(struct rr_share *sh, int32_t was, int32_t now)
{
	for (uint32_t i = 0; i < RR_FAMILY; i++) {
		int32_t expect = was;

		if (atomic_compare_exchange_strong_explicit(&sh->family[i], &expect, now,
							    memory_order_relaxed,
							    memory_order_relaxed))
			return;
	}
}

uint32_t rr_conn_procs(struct rr_share *sh)
{
	for (uint32_t i = 0; i < RR_FAMILY; i++) {
		int32_t pid = atomic_load_explicit(&sh->family[i], memory_order_relaxed);

		if (!pid || pid == (int32_t)rr_pid() || rr_lock_is_mixed(&sh->lock) || !rr_pid_is_dead(pid))
			continue;
		atomic_store_explicit(&sh->family[i], 0, memory_order_relaxed);
		atomic_fetch_sub_explicit(&sh->procs, 1, memory_order_acq_rel);
	}
	return atomic_load_explicit(&sh->procs, memory_order_relaxed);
}

uint32_t rr_conn_leave(struct rr_share *sh)
{
	family_swap(sh, (int32_t)rr_pid(), 0);
	if (atomic_fetch_sub_explicit(&sh->procs, 1, memory_order_acq_rel) == 1)
		return 0;
	return rr_conn_procs(sh);
}

/* --- fork ----------------------------------------------------------------------------- */

static bool fork_holds;		/* false: fork() by a handler that interrupted us inside */
static uint32_t fork_round;	/* under slab_lock */

void rr_conn_fork_prepare(void)
{
	fork_holds = rr_lock_take(&slab_lock) != -EDEADLK;
	if (++fork_round == 0)
		fork_round = 1;
}

void rr_conn_fork_parent(void)
{
	if (fork_holds)
		rr_lock_drop(&slab_lock);
}

bool rr_conn_shareable(const struct rr_share *sh)
{
	return rr_qp_caps(sh->qp) & RR_PROV_FAMILY;
}

/* Was it counted for the child that this fork makes? */
static bool counted(const struct rr_conn *c)
{
	return c->fork_round == fork_round &&
	       (rr_conn_st(c) == RR_S_CARRIED || rr_conn_st(c) == RR_S_FORKED);
}

/* What only the parent can use: nothing of it stays here but memory that both have. */
static void inherit(struct rr_conn *c)
{
	c->share->qp->ops->close(c->share->qp);
	atomic_store_explicit(&c->refs, 1, memory_order_relaxed);
	atomic_store_explicit(&c->state, RR_S_FORKED, memory_order_relaxed);
	atomic_store_explicit(&c->changed, true, memory_order_relaxed);
}

void rr_conn_fork_child(void)
{
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_relaxed);
	bool apart = rr_lock_forked();

	slab_lock = reap_lock = (struct rr_lock){ 0 };
	rr_cache_forked();
	rr_learned_forked();
	rr_evidence_forked();
	rr_budget_forked();
	rr_handback_forked();
	rr_half_forked();
	/* Threads of the parent that were inside do not exist here. Locks in shared memory are
	 * another matter: they are held by the parent, which goes on. */
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < SLAB; j++) {
			struct rr_conn *c = &slabs[i][j];

			rr_budget_inherit(c);
			c->lock = (struct rr_lock){ 0 };
			atomic_store_explicit(&c->half, false, memory_order_relaxed);
			atomic_store_explicit(&c->sleepers, 0, memory_order_relaxed);
			atomic_store_explicit(&c->rest, 0, memory_order_relaxed);
			c->lingers = false;
			if (counted(c)) {
				family_swap(c->share, 0, (int32_t)rr_pid());
				if (apart)
					rr_lock_mix(&c->share->lock);
			}
			if (rr_conn_st(c) == RR_S_LISTEN)
				rr_native_forked(c);
			rr_relay_forked(c);
			if (rr_conn_st(c) == RR_S_CARRIED && !rr_conn_shareable(c->share))
				inherit(c);
		}
	}
}

void rr_conn_fork_nears(struct rr_conn *c)
{
	rr_ride_forks(c, true);
}

void rr_conn_forked(struct rr_conn *c)
{
	enum rr_conn_st st;

	rr_native_forks(c);
	rr_ride_forks(c, false);	/* what has begun to since */
	if (rr_relay_forks(c))
		return;
	st = rr_conn_st(c);
	if ((st != RR_S_CARRIED && st != RR_S_FORKED) || rr_conn_relayed(c, 0))
		return;
	if (st == RR_S_CARRIED && !rr_conn_shareable(c->share))
		rr_handback_forks(c);
	/* Before the rest's end, as rr_rest_may() sees it. */
	atomic_fetch_add(&c->share->procs, 1);
	rr_slab_in_use(c->index);	/* the child may wake it, and die */
	atomic_store(&c->rest, 0);
	c->fork_round = fork_round;
}

void rr_conn_fork_failed(struct rr_conn *c)
{
	if (!counted(c))
		return;
	c->fork_round = 0;
	atomic_fetch_sub_explicit(&c->share->procs, 1, memory_order_relaxed);
}

/* --- descriptors of ours ---------------------------------------------------------------- */

/* Ends of pairs are not waited for: any number will do. */
static bool move_far(struct rr_share *sh, int fd)
{
	int to;

	if (sh->far != fd || rr_conn_procs(sh) > 1)
		return false;
	to = rr_os->fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
	if (to < 0)
		return false;
	rr_ownfd_set(fd, false);
	rr_ownfd_set(to, true);
	sh->far = to;
	return true;
}

/* One that other processes of the family use under the same number stays. */
static bool move_wake_fd(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;
	int to;

	if (!c->relay && move_far(sh, fd))
		return true;
	if (sh->qp->wake_fd != fd || rr_conn_procs(sh) > 1)
		return false;
	to = rr_os->fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
	if (to < 0)
		return false;
	rr_ownfd_set(fd, false);
	rr_ownfd_set(to, true);
	sh->qp->wake_fd = to;	/* who sleeps on the old number sleeps on the same socket */
	atomic_store_explicit(&c->changed, true, memory_order_release);
	return true;
}

bool rr_conn_move_fd(int fd)
{
	uint32_t n = atomic_load_explicit(&nslabs, memory_order_acquire);
	bool moved = rr_prov_forget(fd) || rr_evidence_move(fd);

	for (uint32_t i = 0; i < n * SLAB && !moved; i++) {
		struct rr_conn *c = &slabs[i / SLAB][i % SLAB];
		struct rr_lock *l;

		if (rr_conn_rides(rr_conn_st(c)) && rr_conn_keep(c)) {
			rr_ride_yield(c);
			moved = !rr_ownfd_is(fd);
			rr_conn_free(c);
		}
		if (moved)
			break;
		if (rr_conn_st(c) != RR_S_CARRIED || rr_lock_take(&reap_lock) == -EDEADLK)
			continue;
		if (rr_conn_st(c) == RR_S_CARRIED && rr_conn_hold(c, &l) >= 0) {
			moved = move_wake_fd(c, fd);
			rr_lock_drop(l);
		}
		rr_lock_drop(&reap_lock);
	}
	return moved;
}
