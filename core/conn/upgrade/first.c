/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that are made when their first calls have gone by, or never. What is noted of
 * these until then is what others note in their struct rr_conn. */

#include "core/conn/first.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/price.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"

static bool client_may_wait(struct rr_conn_passed *f)
{
	if (rr_cp->offer_after == RR_AFTER_WAIT || !f->len[1])
		return false;
	f->offers = rr_ride_looks_with(&f->end[1]);
	return f->offers > 1;
}

bool rr_conn_may_wait(struct rr_conn_passed *f, bool server, const struct sockaddr *peer,
		      socklen_t len)
{
	*f = (struct rr_conn_passed){ .server = server, .given = !server };
	if (!rr_cp || !rr_cp->alike || rr_cp->mode(server, NULL, NULL) != RR_MODE_AUTO ||
	    atomic_load_explicit(&rr_log_level, memory_order_relaxed) >= RR_LOG_INFO)
		return false;
	if (!server && rr_conn_is_inet(peer, len)) {
		f->len[1] = (uint8_t)rr_min(len, (socklen_t)sizeof(f->end[1]));
		memcpy(&f->end[1], peer, f->len[1]);
	}
	return server || client_may_wait(f);
}

size_t rr_conn_first_call(struct rr_conn_passed *f, const uint8_t *head, size_t have)
{
	enum rr_reason why;
	uint32_t xid, need;
	struct rr_hello h;
	size_t len;

	_Static_assert(RR_CONN_FIRST >= RR_OFFER_MAX, "a whole offer is seen");
	if (rr_nego_get_offer(head, have, rr_cp->program, &xid, &h, &need) != RR_NEGO_OTHER)
		return 0;
	why = rr_offer_sniff(head, have);
	if (why) {
		f->why = f->nin ? RR_R_NONE : (uint8_t)why;
		return 0;
	}
	len = RR_RM_HDR + rr_rm_len(head);
	return len <= have && rr_conn_is_record(head, len) ? len : 0;
}

/* A client's first record says what is called. */
bool rr_conn_first_went(struct rr_conn_passed *f, const uint8_t *p, size_t len)
{
	if (!rr_conn_is_record(p, len) ||
	    (!f->server && !f->nout && rr_ride_note(p, len, &f->called, &f->prog, &f->xid)))
		return false;
	rr_conn_note_out(f, len);
	f->asked = f->server ? 0 : rr_now();
	return true;
}

bool rr_conn_first_came(struct rr_conn_passed *f, const uint8_t *p, size_t len)
{
	if (!rr_conn_is_record(p, len))
		return false;
	rr_conn_note_in(f, len);
	if (f->asked)
		rr_price_tripped(rr_now() - f->asked);
	f->asked = 0;
	return true;
}

static void server_goes_on(struct rr_conn *c, const struct rr_conn_passed *f)
{
	c->kept = f->err;
	if (f->why)
		return rr_conn_become(c, RR_S_TCP, (enum rr_reason)f->why);
	if (!f->nin)
		return;
	c->most = f->next;
	c->whole = f->alone;
	rr_conn_become(c, RR_S_WATCH, RR_R_NO_OFFER);
}

static void client_goes_on(struct rr_conn *c, const struct rr_conn_passed *f)
{
	if (!f->nout)
		return;
	c->called = f->called;
	c->prog = f->prog;
	c->xid = f->xid;
	c->alone_since = f->asked;
	rr_ride_watches(c);
}

static void name_end(struct rr_conn *c, const struct rr_conn_passed *f, int end)
{
	if (f->len[end])
		rr_conn_named(c, end, (const struct sockaddr *)&f->end[end], f->len[end]);
}

struct rr_conn *rr_conn_after(int fd, const struct rr_conn_passed *f)
{
	struct rr_conn *c = rr_conn_make(f->server, fd, (const struct sockaddr *)&f->end[1],
					 f->len[1]);

	if (!c)
		return NULL;
	if (!f->given)
		name_end(c, f, 1);
	name_end(c, f, 0);
	c->in.records = f->nin;
	c->in.bytes = f->in;
	c->out.records = f->nout;
	c->out.bytes = f->out;
	(f->server ? server_goes_on : client_goes_on)(c, f);
	return c;
}

void rr_conn_went_out(struct rr_conn *c, const struct iovec *iov, int n, size_t len)
{
	if (c->face.server || c->out.records)
		rr_passed_out(c, iov, n, len);
	else
		rr_ride_first_went(c, iov, n, len, false);
}

void rr_conn_came_in(struct rr_conn *c, const struct iovec *iov, int n, size_t len)
{
	rr_passed_in(c, iov, n, 0, len);
}

void rr_conn_never(const struct rr_conn_passed *f)
{
	if (f->called)
		rr_learned_end(&f->end[1], f->prog, f->nout);
	rr_report_none(f->server, f->server ? RR_R_NO_OFFER : RR_R_FEW_CALLS);
}
