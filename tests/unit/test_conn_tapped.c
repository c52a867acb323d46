/* SPDX-License-Identifier: BSD-3-Clause */
/* A capture is told of each record that is sent or delivered, and of each message that is posted or has come, while
 * somebody asks for it, and of nothing else. */
#include "core/base/capture.h"
#include "core/base/iov.h"
#include "core/conn/carried/carried.h"
#include "tests/unit/conn_pair.h"

TestSuite(conn_tapped, .timeout = 60);

static struct rr_cap_desk desk;

/* --- who is told (the Makefile wraps these) --- */

static struct {
	unsigned sent, delivered, posted, received;
	uint32_t sent_len, delivered_len, received_len;
	size_t posted_len;
	bool from_app;
	const struct rr_share *of;
} k;

void __wrap_rr_tap_sent(struct rr_share *sh, const struct rr_eng_out *o, const struct rr_app_iov *app);
void __wrap_rr_tap_delivered(struct rr_share *sh, const struct rr_rx_ent *e, rr_tap_read *read);
void __wrap_rr_tap_posted(struct rr_share *sh, const struct iovec *iov, int n);
void __wrap_rr_tap_received(struct rr_share *sh, const struct rr_wc *wc);

void __wrap_rr_tap_sent(struct rr_share *sh, const struct rr_eng_out *o, const struct rr_app_iov *app)
{
	k.sent++;
	k.sent_len = o->len;
	k.from_app = app;
	k.of = sh;
}

void __wrap_rr_tap_delivered(struct rr_share *sh, const struct rr_rx_ent *e, rr_tap_read *read)
{
	cr_assert_eq(sh, p.server.c->share);
	cr_assert_eq(read, rr_drv_read_pull);
	k.delivered++;
	k.delivered_len = e->len;
}

/* An acknowledgement may go the other way. */
void __wrap_rr_tap_posted(struct rr_share *sh, const struct iovec *iov, int n)
{
	if (sh != p.client.c->share)
		return;
	k.posted++;
	k.posted_len = rr_iov_total(iov, n);
}

void __wrap_rr_tap_received(struct rr_share *sh, const struct rr_wc *wc)
{
	if (sh != p.server.c->share)
		return;
	k.received++;
	k.received_len = wc->len;
}

static void passes(size_t n)
{
	memset(&k, 0, sizeof(k));
	one_way(&p.client, &p.server, n);
}

Test(conn_tapped, each_message_and_each_record_is_told_of_once_while_somebody_asks)
{
	size_t n;

	rr_cap_own(&desk);
	setup();
	carried();
	passes(rr_test_call(out, 2, 10, 1));
	cr_assert(!k.sent && !k.delivered && !k.posted && !k.received, "nobody has asked");
	desk.ask = 1;
	n = rr_test_call(out, 3, 20, 1);
	passes(n);
	cr_assert(k.sent == 1 && k.from_app && k.of == p.client.c->share && k.sent_len == n - 4);
	cr_assert(k.delivered == 1 && k.delivered_len == n - 4);
	cr_assert(k.posted == 1 && k.posted_len == 28 + n - 4);
	cr_assert(k.received == 1 && k.received_len == 28 + n - 4);
	/* One that the peer fetches: a header goes, and the record is delivered. */
	n = rr_test_call(out, 4, 300000, 1);
	passes(n);
	cr_assert(k.sent == 1 && !k.from_app && k.sent_len == n - 4);
	cr_assert(k.delivered == 1 && k.delivered_len == n - 4);
	cr_assert(k.posted == 1 && k.posted_len < 1000 && k.received == 1 && k.received_len == k.posted_len);
	/* What the connection says of its own is no message. */
	memset(&k, 0, sizeof(k));
	cr_assert_geq(rr_drv_say(p.client.c->share, RR_IMM_NOTE), 0);
	rr_drv_progress(p.server.c->share);
	cr_assert(!k.sent && !k.delivered && !k.posted && !k.received);
	desk.ask = 0;
	for (int i = 0; i < 2; i++) {
		passes(rr_test_call(out, 5, i ? 300000 : 20, 1));
		cr_assert(!k.sent && !k.delivered && !k.posted && !k.received);
	}
	teardown();
}
