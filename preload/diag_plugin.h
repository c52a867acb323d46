/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PRELOAD_DIAG_H
#define RR_PRELOAD_DIAG_H

/* Diagnostics: the plugin librpcrdma_diag.so, which lies beside this library, walks the stack
 * with libunwind. It is loaded when it is first needed. */

#include <stdbool.h>

/* on: installs the hook of core/base/diag.h; else removes it. */
void rr_diag_setup(bool on);

/* What the plugin exports as rr_diag_walk: calls line() for each frame outside the module
 * `skip`, innermost first. at is the offset in the module, for addr2line(1). symbol is the
 * nearest one before it, "" if there is none; in a stripped program it may be far away. */
typedef void rr_diag_line(unsigned n, const char *module, unsigned long at, const char *symbol,
			  unsigned long offset);
typedef void rr_diag_walk_fn(const char *skip, rr_diag_line *line);

#endif
