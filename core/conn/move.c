/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves descriptors of the library whose number the app wants for itself. What kinds of
 * descriptors there are is known to their owners only. */

#include <errno.h>
#include <fcntl.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/kinds.h"

/* Gives up c's upgrade if that frees a descriptor. */
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
		const struct rr_kind *k;
		struct rr_lock *l;

		if (rr_kinds[rr_conn_st(c)]->yield && rr_conn_keep(c)) {
			yield(c);
			moved = !rr_ownfd_is(fd);
			rr_conn_free(c);
		}
		if (moved)
			break;
		if (!rr_kinds[rr_conn_st(c)]->move || !rr_slab_hold_ends())
			continue;
		k = rr_kinds[rr_conn_st(c)];
		if (k->move && rr_conn_hold(c, &l) >= 0) {
			moved = k->move(c, fd);
			rr_lock_drop(l);
		}
		rr_slab_let_ends();
	}
	return moved;
}
