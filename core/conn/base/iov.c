/* SPDX-License-Identifier: BSD-3-Clause */
/* The app's bytes, as an array of iovecs. */

#include <string.h>

#include "core/base/compiler.h"
#include "core/conn/base/base.h"

size_t rr_iov_total(const struct iovec *iov, int n)
{
	size_t total = 0;

	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	return total;
}

/* Up to want bytes from off on, copied out; how many. */
size_t rr_iov_copy_out(uint8_t *dst, size_t want, const struct iovec *iov, int n, size_t off)
{
	size_t got = 0;

	for (int i = 0; i < n && got < want; i++) {
		size_t take;

		if (off >= iov[i].iov_len) {
			off -= iov[i].iov_len;
			continue;
		}
		take = rr_min(iov[i].iov_len - off, want - got);
		memcpy(dst + got, (const uint8_t *)iov[i].iov_base + off, take);
		got += take;
		off = 0;
	}
	return got;
}
