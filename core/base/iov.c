/* SPDX-License-Identifier: BSD-3-Clause */
/* Walks over the app's bytes, which lie in an array of iovecs. Changes neither the array nor
 * the bytes. */

#include "core/base/iov.h"

#include <string.h>

#include "core/base/compiler.h"

size_t rr_iov_copy(uint8_t *dst, size_t want, const struct iovec *iov, int n, size_t skip)
{
	size_t got = 0;

	for (int i = 0; i < n && got < want; i++) {
		size_t take;

		if (skip >= iov[i].iov_len) {
			skip -= iov[i].iov_len;
			continue;
		}
		take = rr_min(iov[i].iov_len - skip, want - got);
		memcpy(dst + got, (const uint8_t *)iov[i].iov_base + skip, take);
		got += take;
		skip = 0;
	}
	return got;
}

int rr_iov_cut(const struct iovec *iov, int n, size_t skip, size_t most, struct iovec *out,
	       int max)
{
	int k = 0;

	for (int i = 0; i < n && most && k < max; i++) {
		size_t past = rr_min(iov[i].iov_len, skip),
		       take = rr_min(iov[i].iov_len - past, most);

		skip -= past;
		if (!take)
			continue;
		out[k++] = (struct iovec){ (uint8_t *)iov[i].iov_base + past, take };
		most -= take;
	}
	return k;
}

size_t rr_iov_piece(struct rr_iov *c, const uint8_t **p)
{
	if (!c->left)
		return 0;
	/* terminates: left says that a piece with bytes follows */
	while (c->skip == c->iov->iov_len) {
		c->iov++;
		c->n--;
		c->skip = 0;
	}
	*p = (const uint8_t *)c->iov->iov_base + c->skip;
	return c->iov->iov_len - c->skip;
}

const struct iovec *rr_iov_rest(const struct rr_iov *c, struct iovec *room, int max, int *n)
{
	*n = c->n;
	if (!c->skip)
		return c->iov;
	*n = rr_iov_cut(c->iov, c->n, c->skip, c->left, room, max);
	return room;
}
