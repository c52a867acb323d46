/* SPDX-License-Identifier: BSD-3-Clause */
/* An upgrade that rides along costs about as much as RDMA saves in three calls. Of a connection
 * of which nothing is known the first call says little: many make one and end. The second says
 * that there will be more of them, as a rule. Where connections to the same place have been
 * seen before, their number of calls says it better: those that make many are offered to at
 * once, and those that end after a few when they have made more than those. */

#include "core/base/compiler.h"
#include "core/conn/upgrade/when.h"

#define LARGE	32768u		/* bytes: what sends those sends more of them */
#define MANY	4u		/* calls */
#define FIRST	2u		/* with this one, where nothing is known */

static uint32_t best(const struct rr_when *w)
{
	if (w->len >= LARGE || w->usual >= MANY)
		return 1;
	return w->usual ? rr_max(w->usual + 1, FIRST) : FIRST;
}

bool rr_when_pays(const struct rr_when *w)
{
	return w->record >= (w->after == RR_AFTER_AUTO ? best(w) : w->after);
}
