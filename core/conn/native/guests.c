/* SPDX-License-Identifier: BSD-3-Clause */
/* Native peers that have connected and said nothing yet. Each costs some descriptors and pinned
 * memory here, but costs the peer next to nothing, because RDMA CM does not authenticate. So
 * their number is limited. Beyond that, the one that has been silent longest makes room for the
 * next, if it has had time for a first message; otherwise the next one waits at the door. Some
 * of all descriptors are always left to TCP and the app, however many peers are native.
 *
 * They are counted for each peer that comes. So that this takes no longer the more guests there
 * are, only those are looked at that had said nothing when they were last looked at. */

#include <errno.h>
#include <sys/resource.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/native/native.h"

#define FDS	5u	/* that a native connection takes, the app's included */
#define LATER	RR_SEC
#define TRIES	8

struct census {
	uint32_t silent;
	struct rr_conn *oldest;	/* of the silent ones … */
	rr_time until;		/* … and how long it may stay silent */
};

static bool is_guest(const struct rr_conn *c)
{
	return c->face.server && c->share->qp->native;
}

static bool has_spoken(const struct rr_share *sh)
{
	return atomic_load_explicit(&sh->heard, memory_order_relaxed);
}

/* Has the peer said nothing yet? Under its lock. */
static bool is_silent(const struct rr_share *sh)
{
	return !has_spoken(sh) && rr_link_is_up(sh);
}

/* Counts c. A connection whose lock another thread has may be about to hear its first message,
 * so it is not the one to go; but it is counted, or one too many would come in and stay. */
static bool count_guest(struct rr_conn *c, void *ctx)
{
	struct census *n = ctx;

	if (!is_guest(c))
		return true;
	if (rr_lock_try(&c->share->lock)) {
		n->silent += !has_spoken(c->share);
		return true;
	}
	if (is_silent(c->share)) {
		n->silent++;
		if (c->deadline < n->until) {
			n->until = c->deadline;
			n->oldest = c;
		}
	} else if (has_spoken(c->share)) {
		rr_slab_unmark(c->index, RR_MARK_SILENT);
	}
	rr_lock_drop(&c->share->lock);
	return true;
}

/* Ends the guest that has been silent longest, unless it has spoken and nobody has listened
 * yet. */
static bool show_out(struct rr_conn *c, void *ctx)
{
	struct census *n = ctx;
	struct rr_share *sh = c->share;

	if (c != n->oldest)
		return true;
	if (!is_guest(c) || rr_lock_try(&sh->lock))
		return false;
	rr_drv_progress(sh);
	if (is_silent(sh)) {
		rr_drv_fail(sh, ECONNRESET, RR_R_SILENT);
		if (sh->far >= 0)	/* wakes the app or its relay, which may sleep on it */
			rr_os->shutdown(sh->far, SHUT_RDWR);
	}
	rr_lock_drop(&sh->lock);
	return false;
}

/* How many native connections RLIMIT_NOFILE has room for. */
static uint32_t most_of_all(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_cur > UINT32_MAX)
		return UINT32_MAX;
	return (uint32_t)rl.rlim_cur / 4 * 3 / FDS;
}

/* Counts the guests. Returns 0 if there is room for one more, else when to ask again. */
static rr_time take_census(struct census *n, uint32_t unmet, rr_time now)
{
	if (!rr_slab_each(RR_MARK_SILENT, count_guest, n))
		return now + LATER / 10;
	if (rr_slab_count(RR_MARK_GUEST) + unmet >= most_of_all())
		return now + LATER;
	if (n->silent + unmet < rr_cp->native_silent)
		return 0;
	return n->oldest ? n->until : now + LATER;
}

/* Has the peer connected, but the connection not become carried yet? */
static bool is_entering(const struct rr_conn *c)
{
	return rr_conn_st(c) == RR_S_TAKEN;
}

void rr_guests_enters(const struct rr_conn *c)
{
	rr_slab_mark(c->index, RR_MARK_ENTERS);
}

void rr_guests_comes(const struct rr_conn *c)
{
	rr_slab_mark(c->index, RR_MARK_GUEST);
	rr_slab_mark(c->index, RR_MARK_SILENT);
}

/* Is it entering? If not, the mark is removed. It is removed before the connection is looked
 * at: another connection that begins in this memory is marked after its state was set, so that
 * either we see that state or the mark comes after we have removed it. */
static bool enters(const struct rr_conn *c)
{
	rr_slab_unmark(c->index, RR_MARK_ENTERS);
	if (!is_entering(c))
		return false;
	rr_slab_mark(c->index, RR_MARK_ENTERS);
	return true;
}

uint32_t rr_guests_each(void (*fn)(struct rr_conn *))
{
	struct rr_conn *c;
	uint32_t left = 0;

	for (uint32_t i = 0; (c = rr_slab_next(i, RR_MARK_ENTERS)); i = c->index + 1) {
		if (!enters(c) || !rr_conn_keep(c))
			continue;
		if (rr_lock_try(&c->lock) == 0) {
			if (is_entering(c) && c->owner == (int32_t)rr_pid())
				fn(c);
			rr_lock_drop(&c->lock);
		}
		left += is_entering(c);
		rr_conn_free(c);
	}
	return left;
}

/* The guest that was found silent may speak before it is ended, so guests are counted again,
 * but not for ever. */
rr_time rr_guests_full(uint32_t unmet, rr_time now)
{
	for (int i = 0; i < TRIES; i++) {
		struct census n = { .until = RR_TIME_NEVER };
		rr_time until = take_census(&n, unmet, now);

		if (!until || until > now)
			return until;
		rr_slab_each(RR_MARK_SILENT, show_out, &n);
	}
	return now + LATER / 10;
}
