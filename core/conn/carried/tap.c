/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes what a capture sees of a connection: its records, and the transport messages that they
 * went in. Only while somebody captures, and under the connection's lock. The ring itself is
 * core/base/capture.c. */

#include <string.h>

#include "core/base/capture.h"
#include "core/conn/carried/carried.h"

#define HEADER 2048u /* room for a transport header with as many chunks as most have */

static bool begin_packet(struct rr_cap_pen *p, const struct rr_share *sh, enum rr_cap_kind kind,
			 bool out, size_t len)
{
	p->kind = kind;
	p->flags = (uint8_t)((out ? RR_CAP_OUT : 0) | (sh->ep.connector ? 0 : RR_CAP_SERVER) |
			     (sh->qp->native ? RR_CAP_NATIVE : 0));
	p->dialect = (uint8_t)sh->ep.dialect;
	p->len = (uint32_t)len;
	p->recv_size = sh->ep.inline_recv;
	p->send_size = sh->ep.inline_send;
	p->ends = &sh->ends;
	return rr_cap_begin(p);
}

static void put_iov(struct rr_cap_pen *p, const struct iovec *iov, int n)
{
	for (int i = 0; i < n; i++)
		rr_cap_put(p, iov[i].iov_base, iov[i].iov_len);
}

static void put_buf(struct rr_share *sh, struct rr_cap_pen *p, uint32_t buf, size_t off)
{
	while (p->left) {
		size_t room;
		const uint8_t *from = rr_pool_at(&sh->pool, buf, off, &room);
		size_t take = rr_min(room, (size_t)p->left);

		rr_cap_put(p, from, take);
		off += take;
	}
}

/* Copies a message that is still in the peer's memory. */
static bool put_pull(struct rr_share *sh, struct rr_cap_pen *p, const struct rr_pull *pull,
		     rr_tap_read *read)
{
	for (uint32_t off = 0, n; p->left; off += n) {
		uint8_t *to = rr_cap_room(p, &n);

		if (read(sh, pull, off, to, n))
			return false;
	}
	return true;
}

RR_COLD void rr_tap_sent(struct rr_share *sh, const struct rr_eng_out *out,
			 const struct rr_app_iov *app)
{
	struct rr_cap_pen p = {0};

	if (app && rr_cap_wants_rdma()) /* it goes whole in one Send, which is captured, too */
		return;
	if (!begin_packet(&p, sh, RR_CAP_RECORD, true, out->len))
		return;
	if (app)
		put_iov(&p, app->iov + 1, app->n - 1);
	else
		put_buf(sh, &p, out->buf, 0);
	rr_cap_end(&p, true);
}

RR_COLD void rr_tap_delivered(struct rr_share *sh, const struct rr_rx_ent *e, rr_tap_read *read)
{
	struct rr_cap_pen p = {0};
	bool good = true;

	if (e->from == RR_FROM_RECV && rr_cap_wants_rdma())
		return;
	if (e->from == RR_RX_PART)	/* nobody asked when it came: see rr_pull_begin() */
		return;
	if (!begin_packet(&p, sh, RR_CAP_RECORD, false, e->len))
		return;
	if (e->from == RR_FROM_RECV)
		rr_cap_put(&p, e->ptr, e->len);
	else if (e->from == RR_FROM_BUF)
		put_buf(sh, &p, e->ref, e->off);
	else
		good = put_pull(sh, &p, &sh->pull[e->ref], read);
	rr_cap_end(&p, good);
}

/* Does a header of version 1 have no chunks? Then it tells nothing to a reader who wants
 * records only. The peer may change a received header meanwhile; its packet is then shown with
 * chunks or without. */
static bool is_no_record(const uint8_t *hdr, size_t len)
{
	static const uint8_t none[RR_ENG_PLAIN_HDR - 12];

	return len >= RR_ENG_PLAIN_HDR && !memcmp(hdr + 12, none, sizeof(none));
}

RR_COLD void rr_tap_posted(struct rr_share *sh, const struct iovec *iov, int n)
{
	bool all = rr_cap_wants_rdma();
	struct rr_cap_pen p = {.most = all ? 0 : (uint32_t)iov->iov_len};

	if (!all && is_no_record(iov->iov_base, iov->iov_len))
		return;
	if (!begin_packet(&p, sh, RR_CAP_MESSAGE, true, rr_iov_total(iov, n)))
		return;
	put_iov(&p, iov, n);
	rr_cap_end(&p, true);
}

RR_COLD void rr_tap_received(struct rr_share *sh, const struct rr_wc *wc)
{
	bool all = rr_cap_wants_rdma();
	struct rr_cap_pen p = {.most = all ? 0 : HEADER};

	if (!all && is_no_record(wc->buf, wc->len))
		return;
	if (!begin_packet(&p, sh, RR_CAP_MESSAGE, false, wc->len))
		return;
	rr_cap_put(&p, wc->buf, wc->len);
	rr_cap_end(&p, true);
}
