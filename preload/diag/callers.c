/* SPDX-License-Identifier: BSD-3-Clause */
/* librpcrdma_diag.so: names the callers of an interposed call, innermost first. It is a library
 * of its own because libunwind, which also finds functions that are not exported, must not be
 * loaded into every process: the preload library loads it only with option diagnostics on. */

#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <libunwind.h>
#include <string.h>

#include "core/base/compiler.h"
#include "preload/diag_plugin.h"

#define MAX_FRAMES 64u

rr_diag_walk_fn rr_diag_walk;

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Passes the frame at the cursor to line(), unless it is of this plugin or of the module skip.
 * Returns 1 if it did, else 0. */
static int show(unw_cursor_t *c, unsigned n, const char *skip, rr_diag_line *line)
{
	char symbol[128];
	unw_word_t ip = 0, offset = 0;
	Dl_info in;

	/* A return address may lie past the end of its function: look up the byte before. */
	if (unw_get_reg(c, UNW_REG_IP, &ip) || !ip || !dladdr((void *)(ip - 1), &in) ||
	    !in.dli_fname)
		return 0;
	if (!strcmp(in.dli_fname, skip) ||
	    !strcmp(last_part(in.dli_fname), "librpcrdma_diag.so"))
		return 0;
	if (unw_get_proc_name(c, symbol, sizeof(symbol), &offset))
		symbol[0] = '\0';
	line(n, last_part(in.dli_fname), ip - (unw_word_t)in.dli_fbase, symbol, offset);
	return 1;
}

RR_EXPORT void rr_diag_walk(const char *skip, rr_diag_line *line)
{
	unw_context_t here;
	unw_cursor_t c;
	unsigned n = 0;

	if (unw_getcontext(&here) || unw_init_local(&c, &here))
		return;
	for (unsigned i = 0; i < MAX_FRAMES && unw_step(&c) > 0; i++)
		n += (unsigned)show(&c, n, skip, line);
}
