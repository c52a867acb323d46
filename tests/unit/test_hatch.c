/* SPDX-License-Identifier: BSD-3-Clause */
/* When this end follows a peer that goes back to TCP, and what it sends by TCP first. */
#include <errno.h>

#include "tests/unit/conn_played.h"

TestSuite(hatch, .timeout = 60);

static struct rr_share *sh;

/* The client's end, whose peer has called it back. */
static void called_back(uint32_t caps)
{
	sh = play(true);
	sh->ep.caps = caps;
	sh->called_back = true;
	pl.on_say.first = 1;
}

static void ends(void)
{
	rr_pair_close(&p);
	memset(&pl, 0, sizeof(pl));
}

static void follows(bool does)
{
	uint64_t hatches = sh->qp->count->v[RR_C_hatches];

	rr_hatch_follow(sh);
	cr_assert_not(sh->called_back);
	cr_assert_eq(pl.says, does);
	cr_assert_eq(sh->qp->count->v[RR_C_hatches], hatches + does);
	if (does) {
		cr_assert_eq(pl.said[0].imm, RR_IMM_HATCH);
		cr_assert(rr_tx_is_tcp(sh) && pl.kicks == 1);
	}
	cr_assert(rr_link_is_up(sh) || !does);
	ends();
}

Test(hatch, who_is_called_back_follows_if_it_can)
{
	called_back(RR_CAP_HATCH);
	follows(true);
	called_back(0);
	rr_hatch_follow(sh);
	cr_assert(rr_link_is_up(sh), "one without a hatch is not ended by it");
	sh->called_back = true;
	follows(false);
	called_back(RR_CAP_HATCH);
	sh->tx.way = RR_WAY_OUT_TCP;
	follows(false);
	called_back(RR_CAP_HATCH);
	sh->tx.way = RR_WAY_OUT_RDMA_SHUT;
	follows(false);
	called_back(RR_CAP_HATCH);
	sh->link = RR_LINK_LOST;
	follows(false);
}

Test(hatch, where_there_is_no_room_for_it_it_follows_later)
{
	called_back(RR_CAP_HATCH);
	pl.on_say.first = -EAGAIN;
	rr_hatch_follow(sh);
	cr_assert(sh->called_back && rr_tx_is_rdma(sh) && pl.says == 1 && rr_link_is_up(sh));
	pl.says = 0;
	pl.on_say.first = 1;
	follows(true);
}

Test(hatch, a_hatch_that_cannot_be_said_ends_the_connection)
{
	called_back(0);
	cr_assert_eq(rr_hatch_open(sh, RR_R_FORKED), -ECONNRESET);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_FORKED && pl.says == 0);
	cr_assert_eq(sh->qp->count->v[RR_C_hatches], 0);
	ends();
	called_back(RR_CAP_HATCH);
	pl.on_say.first = -EIO;
	cr_assert_eq(rr_hatch_open(sh, RR_R_FORKED), -ECONNRESET);
	cr_assert(rr_link_is_dead(sh) && reported(sh) == RR_R_DEVICE && rr_tx_is_rdma(sh));
}

/* --- what goes by TCP first --- */

static struct rr_os os;
static uint8_t went[200];
static size_t went_len, takes;
static int send_errno;

static ssize_t sending(int fd, const void *from, size_t len, int flags)
{
	size_t n = rr_min(len, takes);

	cr_assert(fd == p.client.fd && flags == (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE));
	if (send_errno) {
		errno = send_errno;
		return -1;
	}
	memcpy(went + went_len, from, n);
	went_len += n;
	return (ssize_t)n;
}

/* What was collected of a record goes as a fragment of its own, and the header of the app's fragment goes on behind it. */
Test(hatch, what_was_collected_goes_out_first_however_little_the_kernel_takes)
{
	static const uint8_t head[] = { 0, 0, 0, 10 }, tail[] = { 0x80, 0, 0, 77 };
	const struct rr_os *real;
	int64_t buf;
	uint32_t used;

	for (takes = 1; takes < 20; takes++) {
		called_back(RR_CAP_HATCH);
		real = rr_os;
		os = *rr_os;
		os.send = sending;
		rr_os = &os;
		went_len = 0;
		used = sh->pool.used;
		buf = rr_pool_alloc(&sh->pool, 10);
		cr_assert_geq(buf, 0);
		sh->tx.buf = (uint32_t)buf;
		sh->tx.len = 10;
		for (uint32_t i = 0; i < 10; i++)
			*rr_pool_at(&sh->pool, sh->tx.buf, i, &(size_t){ 0 }) = (uint8_t)(i + 50);
		sh->tx.rm.left = 77;
		sh->tx.rm.last = true;
		cr_assert_eq(rr_hatch_open(sh, RR_R_HATCH), 0);
		send_errno = EAGAIN;
		cr_assert_eq(rr_hatch_flush(sh, p.client.fd), -EAGAIN);
		send_errno = EPIPE;
		cr_assert_eq(rr_hatch_flush(sh, p.client.fd), -EPIPE);
		cr_assert(went_len == 0 && sh->tx.buf == (uint32_t)buf);
		send_errno = 0;
		cr_assert_eq(rr_hatch_flush(sh, p.client.fd), RR_CONN_KERNEL);
		cr_assert_eq(went_len, 18);
		cr_assert(!memcmp(went, head, 4) && !memcmp(went + 14, tail, 4));
		for (int i = 0; i < 10; i++)
			cr_assert_eq(went[4 + i], i + 50);
		cr_assert(sh->tx.buf == RR_BUF_NONE && sh->tx.len == 0 && sh->pool.used == used);
		cr_assert_eq(rr_hatch_flush(sh, p.client.fd), RR_CONN_KERNEL);
		cr_assert_eq(went_len, 18, "once");
		rr_os = real;
		ends();
	}
}
