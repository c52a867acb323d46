/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the app's bytes that go by on TCP while the connection looks on, and times calls that
 * are alone under way, before there is an offer: what a call takes by TCP is what an upgrade
 * can save. Under the connection's lock; neither reads nor writes the socket. */

#include "core/base/os.h"
#include "core/conn/base/price.h"
#include "core/conn/upgrade/upgrade.h"

void rr_passed_out(struct rr_conn *c, const struct iovec *iov, int n, size_t len)
{
	rr_track_over(&c->out, iov, n, len);
	if (!c->face.server)
		c->alone_since = c->out.records == c->in.records + 1 ? rr_now() : 0;
}

void rr_passed_in(struct rr_conn *c, const struct iovec *iov, int n, size_t done, size_t len)
{
	struct iovec cut[RR_IOV_CUT];

	rr_track_over(&c->in, cut, rr_iov_cut(iov, n, done, len, cut, RR_IOV_CUT), len);
	if (!c->alone_since || c->in.records != c->out.records)
		return;
	/* With an offer under way the peer does more for a call than answer it. */
	if (rr_conn_is_kernels(c))
		rr_price_tripped(rr_now() - c->alone_since);
	c->alone_since = 0;
}
