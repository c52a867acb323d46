/* SPDX-License-Identifier: BSD-3-Clause */
/* How a carried connection is lost: it fails, or the provider's peer is gone. When that is the
 * case is decided by the callers. Under the connection's lock. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/who.h"
#include "core/conn/carried/carried.h"

/* The app's fd, for the log. */
static int number(const struct rr_share *sh)
{
	return atomic_load_explicit(&sh->st->fd, memory_order_relaxed);
}

/* Disconnects at once: the peer must not have to wait for our app to notice, because some apps
 * never close what has failed (ntirpc, with calls under way). */
void rr_drv_fail(struct rr_share *sh, int err, enum rr_reason why)
{
	if (!rr_link_fail(sh))
		return;
	sh->err = err;
	rr_carrier_disconnect(sh);
	rr_hint(sh, RR_HINT_IN | RR_HINT_OVER);
	rr_count(sh->qp->count, RR_C_lost, 1);
	rr_report_share(sh, RR_CS_DEAD, why);
	rr_who_info(number(sh), sh->st, ": lost: %s", rr_reason_text(why));
}

void rr_drv_remember(const struct rr_share *sh, enum rr_reason why)
{
	if (sh->peer.sin6_family)
		rr_cache_add(&sh->peer, why, rr_now() + 10 * rr_cp->negative_time);
}

/* A native peer ends its stream by disconnecting, as TCP does by its FIN. (A relay shuts the
 * far end down itself, after passing on what came before.) */
static void end_native(struct rr_share *sh)
{
	if (!sh->qp->native)
		return;
	rr_way_in_fin(sh);
	if (sh->far >= 0 && !sh->relayed)
		rr_os->shutdown(sh->far, SHUT_WR);
}

void rr_drv_lost(struct rr_share *sh)
{
	struct rr_eng_info i;

	if (!rr_link_lose(sh))
		return;
	rr_eng_info(sh->eng, &i);
	if (i.fell_back)
		rr_drv_remember(sh, RR_R_NO_DIALECT);
	sh->lost_at = rr_now_coarse();
	rr_rx_look_again(sh);
	rr_hint(sh, RR_HINT_IN | RR_HINT_OVER | RR_HINT_LOST);
	rr_who_info(number(sh), sh->st,
		    ": the peer has left; calls without reply: %u of ours, %u of its own",
		    i.inflight, i.serving);
	end_native(sh);
}

void rr_drv_broken(struct rr_share *sh, int rc)
{
	rr_drv_fail(sh, ECONNRESET, rc == -EIO ? RR_R_DEVICE :
		    rc == -ECONNRESET ? RR_R_PEER_DIED : RR_R_PROTOCOL);
}

void rr_drv_posted(struct rr_share *sh, uint32_t id, int rc, rr_time now)
{
	if (rc == -ECONNRESET) {
		rr_drv_lost(sh);
		rc = 1;
	}
	if (rc && id)
		rr_eng_done(sh->eng, id, rc == 1 ? 0 : rc, now);
	else if (rc < 0)
		rr_drv_broken(sh, rc);
}
