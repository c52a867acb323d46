/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_DIAG_H
#define RR_DIAG_H

/* With option diagnostics on, the app's call stack goes to the log when it uses a carried fd in
 * a way that forces TCP or an error. */

#include "core/base/compiler.h"

/* NULL when off. what: what was used and with which result ("splice: EINVAL"). Not
 * async-signal-safe, because the first call loads a plugin. errno stays as it was. */
extern void (*rr_diag_hook)(const char *what, int fd);

static inline void rr_diag(const char *what, int fd)
{
	if (unlikely(rr_diag_hook != NULL))
		rr_diag_hook(what, fd);
}

#endif
