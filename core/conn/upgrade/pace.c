/* SPDX-License-Identifier: BSD-3-Clause */
/* Lets connections set up their devices in turns. Setting up what a device needs takes some 100
 * us to many ms out of a call of the app, and when a crowd of clients arrives at once, the app
 * would do nothing else. So after a step of a set-up that took long, the app gets as much time
 * for itself. Since nobody waits for an upgrade that rides along, it may take its time: the
 * other end may have a crowd, too. */

#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"

#define PATIENCE	60	/* times as long as if somebody waited */

static _Atomic rr_time turn;	/* when the next step may begin in this process */

/* Does any of the providers in c's share use a device? */
static bool by_device(const struct rr_conn *c)
{
	const struct rr_share *sh = c->share;

	while (sh && rr_prov_is_local(sh->qp->ops))
		sh = sh->next;
	return sh;
}

rr_time rr_pace_patience(const struct rr_conn *c)
{
	return rr_cp->upgrade_timeout * (by_device(c) ? PATIENCE : 1);
}

void rr_pace_expire(struct rr_conn *c)
{
	c->deadline = rr_now() + rr_pace_patience(c);
	rr_half_add(c, by_device(c));
}

rr_time rr_pace_turn(const struct rr_conn *c)
{
	rr_time at = atomic_load_explicit(&turn, memory_order_relaxed);

	return likely(!at) || !c->share || !by_device(c) || rr_now() >= at ? 0 : at;
}

/* See upgrade.h. Two threads may begin a step at the same time; that does no harm, since the
 * turn is only about the app's time. */
int rr_pace_establish(struct rr_conn *c)
{
	rr_time began;
	int rc;

	if (!by_device(c))
		return rr_carrier_establish(c->share);
	began = rr_now();
	if (began < atomic_load_explicit(&turn, memory_order_relaxed))
		return RR_PACE_TURN;
	rc = rr_carrier_establish(c->share);
	atomic_store_explicit(&turn, rr_when_next(began, rr_now()), memory_order_relaxed);
	return rc;
}
