/* SPDX-License-Identifier: BSD-3-Clause */
/* See naps.h. Two threads may count one nap for two: then the next one is shorter. */
#include "preload/naps.h"

#include <stdatomic.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "preload/real.h"

#define VAIN_MOST 7u

static _Atomic uint32_t vain;	/* naps in a row */

rr_time rr_nap_time(void)
{
	return RR_NAP_LEAST << atomic_load_explicit(&vain, memory_order_relaxed);
}

void rr_nap_had_news(rr_time began)
{
	if (unlikely(atomic_load_explicit(&vain, memory_order_relaxed)) &&
	    rr_now() - began < RR_NAP_LEAST)
		atomic_store_explicit(&vain, 0, memory_order_relaxed);
}

bool rr_nap_has_missed(int fd, rr_time slept)
{
	struct pollfd p = { fd, POLLIN | POLLRDHUP, 0 };
	uint32_t n = atomic_load_explicit(&vain, memory_order_relaxed);
	bool missed;

	if (slept < RR_NAP_LEAST)
		return false;
	missed = rr_real.poll(&p, 1, 0) > 0;
	atomic_store_explicit(&vain, missed ? 0 : rr_min(n + 1, VAIN_MOST),
			      memory_order_relaxed);
	return missed;
}
