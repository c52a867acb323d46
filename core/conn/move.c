/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors of ours whose number the app wants: another one does as well. */

#include <errno.h>
#include <fcntl.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/kinds.h"

/* One of ours, which is not shared with other processes of the family: they use it under the
 * same number. */
static bool move_one(struct rr_share *sh, int *own, int fd)
{
	int to;

	if (*own != fd || rr_conn_procs(sh) > 1)
		return false;
	to = rr_os->fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
	if (to < 0)
		return false;
	rr_ownfd_set(fd, false);
	rr_ownfd_set(to, true);
	*own = to;
	return true;
}

static bool move_wake_fd(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;

	/* Ends of pairs are not waited for; and who sleeps on the old number of a wake-up fd
	 * sleeps on the same socket. */
	if (!c->relay && move_one(sh, &sh->far, fd))
		return true;
	if (!move_one(sh, &sh->qp->wake_fd, fd))
		return false;
	atomic_store_explicit(&c->changed, true, memory_order_release);
	return true;
}

static void yield(struct rr_conn *c)
{
	const struct rr_kind *k;

	if (rr_lock_take(&c->lock) == -EDEADLK)
		return;
	k = rr_kinds[rr_conn_st(c)];
	if (k->yield && c->owner == (int32_t)rr_pid())
		k->yield(c);
	rr_lock_drop(&c->lock);
}

bool rr_conn_move_fd(int fd)
{
	bool moved = rr_prov_forget(fd) || rr_evidence_move(fd);
	struct rr_conn *c;

	for (uint32_t i = 0; !moved && (c = rr_slab_at(i)); i++) {
		struct rr_lock *l;

		if (rr_kinds[rr_conn_st(c)]->yield && rr_conn_keep(c)) {
			yield(c);
			moved = !rr_ownfd_is(fd);
			rr_conn_free(c);
		}
		if (moved)
			break;
		if (rr_conn_st(c) != RR_S_CARRIED || !rr_slab_hold_ends())
			continue;
		if (rr_conn_st(c) == RR_S_CARRIED && rr_conn_hold(c, &l) >= 0) {
			moved = move_wake_fd(c, fd);
			rr_lock_drop(l);
		}
		rr_slab_let_ends();
	}
	return moved;
}
