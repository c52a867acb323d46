/* SPDX-License-Identifier: BSD-3-Clause */
/* Socket options of the app that mean something here, and the error that SO_ERROR returns. The
 * kernel has all other options. */

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/kinds.h"

int rr_conn_take_error(struct rr_conn *c, int fd)
{
	int rc = RR_CONN_KERNEL, saved = errno, st;
	struct rr_lock *l;

	if (!rr_kinds[rr_conn_st(c)]->take_error)
		return RR_CONN_KERNEL;
	st = rr_conn_hold_apps(c, 0, &l);
	if (st < 0)
		return RR_CONN_KERNEL;
	if (rr_kinds[st]->take_error)
		rc = rr_kinds[st]->take_error(c, fd);
	rr_lock_drop(l);
	errno = saved;
	return rc;
}

void rr_conn_keep_error(struct rr_conn *c, int err)
{
	struct rr_lock *l;
	int st = rr_conn_hold(c, &l);

	if (st < 0)
		return;
	if (rr_conn_is_shared(st))
		c->share->err = err;
	else if (rr_conn_looks_on((enum rr_conn_st)st))
		c->kept = err;
	rr_conn_has_word(c);
	rr_lock_drop(l);
}

bool rr_conn_getopt(struct rr_conn *c, int level, int name, void *val, socklen_t *len)
{
	enum rr_conn_st st = rr_conn_st(c);
	bool hides = level == SOL_SOCKET && name == SO_RCVLOWAT && c->lowat_set;
	int own = c->lowat;

	if (!val || !len)
		return false;
	if (rr_conn_is_shared(st))
		hides |= rr_keep_hides(c->share, level, name, &own);
	if (!hides)
		return false;
	*len = rr_min(*len, (socklen_t)sizeof(own));
	memcpy(val, &own, *len);
	return true;
}

bool rr_conn_setopt(struct rr_conn *c, int level, int name, const void *val, socklen_t len)
{
	struct rr_lock *l;
	bool ours;
	int low;

	if (level != SOL_SOCKET || name != SO_RCVLOWAT || len < sizeof(low))
		return false;
	memcpy(&low, val, sizeof(low));
	if (rr_conn_hold(c, &l) < 0)
		return false;
	c->lowat = low < 0 ? INT_MAX : rr_max(low, 1);	/* as the kernel understands it */
	if (rr_conn_is_shared(rr_conn_st(c)))
		rr_rx_set_lowat(c->share, c->lowat);
	rr_conn_has_word(c);
	ours = c->lowat_set;
	rr_lock_drop(l);
	return ours;
}

void rr_conn_opt_set(struct rr_conn *c, int fd, int level, int name)
{
	struct rr_lock *l;

	if (!rr_keep_cares(level, name))
		return;
	if (!rr_conn_is_shared(rr_conn_st(c)) ||
	    rr_conn_hold(c, &l) < 0)
		return;
	if (rr_conn_is_shared(rr_conn_st(c))) {
		rr_keep_learn(c->share, fd);	/* a native one has not learned them yet */
		rr_keep_set(c->share, fd, level, name);
	}
	rr_lock_drop(l);
}
