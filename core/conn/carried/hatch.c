/* SPDX-License-Identifier: BSD-3-Clause */
/* The escape hatch: at the end of a record a direction says, as its last RDMA message, that
 * everything after it comes by TCP. It is used for records above the size limit, for whatever
 * turns out not to be ONC RPC, and after fork(). There is no way back to RDMA. */

#include <errno.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/who.h"
#include "core/conn/carried/carried.h"

/* See carried.h. What was collected of the current record, and the peer was not told of, goes
 * first by TCP, as one fragment that is not the last; then, if the app is within a fragment, a
 * header for the rest of it. A fragment of which the peer has a part goes on as it is. */
int rr_hatch_open(struct rr_share *sh, enum rr_reason why)
{
	const struct rr_told *told = &sh->tables->told;
	struct rr_tx *tx = &sh->tx;
	uint32_t more;
	int rc = -EMSGSIZE;

	if (sh->ep.caps & RR_CAP_HATCH)
		rc = unlikely(rr_tx_is_early(sh)) ? rr_cross_now(sh) : 0;
	if (rc == 0)
		rc = rr_advance_hatch(sh);
	if (rc == -EAGAIN)
		return rc;
	if (rc < 0) {
		if (rc == -EMSGSIZE)
			rr_drv_fail(sh, ECONNRESET, why);
		else
			rr_drv_broken(sh, rc);
		return -ECONNRESET;
	}
	rr_drv_kick(sh);
	rr_way_out_hatched(sh);
	tx->flush_off = 0;
	tx->flush_ntail = 0;
	more = tx->len - told->len;
	tx->flush_rest = tx->flush_len = rr_min(more, told->left);
	more -= tx->flush_rest;
	if (more) {
		rr_rm_put(tx->flush_hdr, more, false);
		tx->flush_len += RR_RM_HDR + more;
	}
	if (told->left > tx->flush_rest) {
		/* The app goes on with a fragment that the peer has in part. */
	} else if (tx->rm.left) {
		rr_rm_put(tx->flush_tail, tx->rm.left, tx->rm.last);
		tx->flush_ntail = RR_RM_HDR;
	} else {
		for (uint32_t i = 0; i < tx->rm.have; i++)
			tx->flush_tail[i] = tx->rm.hdr[i];
		tx->flush_ntail = tx->rm.have;
	}
	tx->flush_len += tx->flush_ntail;
	rr_count(sh->qp->count, RR_C_hatches, 1);
	rr_report_share(sh, RR_CS_DRAINING, why == RR_R_FORKED ? why : RR_R_HATCH);
	rr_who_info(atomic_load_explicit(&sh->st->fd, memory_order_relaxed), sh->st,
		    ": the outbound direction goes back to TCP: %s", rr_reason_text(why));
	return 0;
}

/* The piece of the flush that begins at byte off: of the rest of a fragment, of a header, of
 * the other data, or of the tail. */
static const uint8_t *flush_at(struct rr_share *sh, uint32_t off, size_t *len)
{
	struct rr_tx *tx = &sh->tx;
	uint32_t tail = tx->flush_len - tx->flush_ntail, at = sh->tables->told.len;
	const uint8_t *p;

	if (off >= tail) {
		*len = tx->flush_len - off;
		return tx->flush_tail + (off - tail);
	}
	if (off < tx->flush_rest) {
		p = rr_pool_at(&sh->pool, tx->buf, at + off, len);
		*len = rr_min(*len, (size_t)(tx->flush_rest - off));
		return p;
	}
	if (off - tx->flush_rest < RR_RM_HDR) {
		*len = RR_RM_HDR - (off - tx->flush_rest);
		return tx->flush_hdr + (off - tx->flush_rest);
	}
	p = rr_pool_at(&sh->pool, tx->buf, at + off - RR_RM_HDR, len);
	*len = rr_min(*len, (size_t)(tail - off));
	return p;
}

/* Sends what has to go by TCP before the app's bytes. RR_CONN_KERNEL when all of it is out,
 * else -EAGAIN or the kernel's error. */
int rr_hatch_flush(struct rr_share *sh, int fd)
{
	struct rr_tx *tx = &sh->tx;

	while (tx->flush_off < tx->flush_len) {
		size_t len;
		const uint8_t *p = flush_at(sh, tx->flush_off, &len);
		/* The app's own bytes follow at once. */
		ssize_t n = rr_os->send(fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE);

		if (n < 0)
			return errno == EWOULDBLOCK ? -EAGAIN : -errno;
		tx->flush_off += (uint32_t)n;
	}
	if (tx->buf != RR_BUF_NONE) {
		/* What the peer was told of it may have yet to read: it stays until the end. */
		if (!sh->tables->told.len)
			rr_expose_drop(sh, tx->buf);
		tx->buf = RR_BUF_NONE;
		tx->len = 0;
	}
	rr_keep_leave(sh, fd);
	return RR_CONN_KERNEL;
}

void rr_hatch_follow(struct rr_share *sh)
{
	if (!(sh->ep.caps & RR_CAP_HATCH) || rr_tx_is_tcp(sh) || rr_tx_is_shut(sh) ||
	    !rr_link_is_up(sh) || rr_hatch_open(sh, RR_R_HATCH) != -EAGAIN)
		sh->called_back = false;
}
