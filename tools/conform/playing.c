/* SPDX-License-Identifier: BSD-3-Clause */
/* What all steps of a case need: the connection, the verdict, and which expectations were
 * met. */

#include "tools/conform/run_int.h"

#include <stdarg.h>

/* The first failure counts: what fails afterwards is most often its consequence. */
bool rr_run_fail(struct rr_run *r, int line, const char *fmt, ...)
{
	va_list ap;

	if (r->r->verdict != RR_PASS)
		return false;
	r->r->verdict = RR_FAIL;
	r->r->line = line;
	va_start(ap, fmt);
	vsnprintf(r->r->why, sizeof(r->r->why), fmt, ap);
	va_end(ap);
	return false;
}

/* Where the XIDs of a native connection begin: at random. A server that does not tell clients
 * apart by their ports takes calls with one XID for the same call, even on different
 * connections: the NFS server of Linux answers the second one from its cache. */
static uint32_t other_xids(void)
{
	uint32_t n = (uint32_t)rr_now();

	rr_os_random(&n, sizeof(n));
	return n & 0xffffff00;
}

/* A case without a connection is not failed but RR_UNREACHED: nothing was learned of the peer.
 * `inline` and `ours` are known only now. */
bool rr_run_connected(struct rr_run *r)
{
	struct rr_link_params p = r->o->link;
	const char *why;

	if (r->connected)
		return true;
	p.caps = r->c->caps;
	p.dialect = r->o->dialect;
	p.timeout = r->o->timeout;
	why = r->from ? rr_link_accept(&r->link, r->from, &p) : rr_link_connect(&r->link, &p);
	if (why) {
		rr_run_fail(r, 0, "no connection: %s", why);
		r->r->verdict = RR_UNREACHED;
		return false;
	}
	r->connected = true;
	if (r->o->link.way == RR_WAY_NATIVE)
		r->next_xid = other_xids();
	rr_env_set(&r->env, "inline", r->link.qp->send_size);
	rr_env_set(&r->env, "ours", r->link.qp->recv_size);
	return true;
}

/* Only what comes before the first message of another kind is an opening; after that everything
 * is the case's. */
bool rr_run_opens(struct rr_run *r, const struct rr_step *s, const struct rr_message *m)
{
	r->opened = r->opened || !rr_make_opening(&r->env, s, m->bytes, m->len, &r->out);
	if (!r->opened)
		rr_link_send(&r->link, r->out.p, (uint32_t)r->out.len, 0);
	return !r->opened;
}

/* Beyond RR_MEETINGS an expectation counts as met, so that it is neither probed nor lied to. */
bool rr_run_met(const struct rr_run *r, const struct rr_step *s)
{
	for (uint32_t i = 0; i < r->met; i++)
		if (r->meeting[i] == s)
			return true;
	return r->met == RR_MEETINGS;
}

bool rr_run_meets(struct rr_run *r, const struct rr_step *s, uint32_t lies)
{
	if (rr_run_met(r, s))
		return false;
	r->r->lies[r->met] = (uint16_t)lies;
	r->meeting[r->met++] = s;
	return r->met == r->o->lie_at;
}
