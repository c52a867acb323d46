/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_WRAP_H
#define RR_WRAP_H

/* The logic behind the exported names. Each function returns exactly what libc's function of
 * that name returns. A failure is -1 with errno; a success leaves errno alone. */

#include <errno.h>

#include "core/base/compiler.h"
#include "preload/libc.h"

#define RR_CALL(ret, name, params, args, fallback) ret rr_wrap_##name params;
#define RR_VCALL(ret, name, vparams, params, args, last, fallback) ret rr_wrap_##name params;
#include "preload/calls.def"

/* The one place where a result of ours (>= 0 or -errno) becomes libc's. */
static inline ssize_t rr_ret(ssize_t r)
{
	if (likely(r >= 0))
		return r;
	errno = (int)-r;
	return -1;
}

#endif
