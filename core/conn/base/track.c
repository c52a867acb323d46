/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the records of a TCP stream at their marks. It does not look at payload, and neither
 * reads nor writes the socket. */

#include "core/base/compiler.h"
#include "core/conn/base/track.h"

static void count_over(struct rr_track *t, const uint8_t *p, size_t left)
{
	while (left) {
		size_t k;
		enum rr_rm_what what = rr_rm_next(&t->rm, p, left, &k);

		/* An empty last fragment ends the record, too. */
		if (what == RR_RM_FRAGMENT && t->rm.last && !t->rm.left)
			what = rr_rm_next(&t->rm, p, 0, &(size_t){ 0 });
		t->records += what == RR_RM_RECORD;
		p += k;
		left -= k;
	}
}

void rr_track_over(struct rr_track *t, const struct iovec *iov, int n, size_t len)
{
	t->bytes += len;
	for (int i = 0; i < n && len; i++) {
		size_t take = rr_min(iov[i].iov_len, len);

		count_over(t, iov[i].iov_base, take);
		len -= take;
	}
}

size_t rr_track_most(const struct rr_track *t, const uint8_t *head, size_t have)
{
	if (t->rm.left)
		return t->rm.left;
	if (t->rm.have || have < RR_RM_HDR)
		return have && have < RR_RM_HDR - t->rm.have ? have : RR_RM_HDR - t->rm.have;
	return RR_RM_HDR + rr_rm_len(head);
}
