/* SPDX-License-Identifier: BSD-3-Clause */
/* Diagnostics: logs where in the app a call came from that takes a connection off RDMA. The
 * plugin that walks the stack is loaded at the first such call; without it only the call is
 * logged. */

#include "preload/diag_plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/base/diag.h"
#include "core/base/log.h"
#include "preload/guard.h"

#define PLUGIN "librpcrdma_diag.so"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static rr_diag_walk_fn *walk;
static const char *self = "";	/* the file name of this library, whose own frames are not
				 * shown */

/* Loads the plugin from the directory of this library. Once a process. */
static void load(void)
{
	char path[512];
	const char *slash;
	void *plugin;
	Dl_info me;

	if (!dladdr((void *)&rr_diag_hook, &me) || !me.dli_fname)
		return;
	self = me.dli_fname;
	slash = strrchr(self, '/');
	rr_fmt(path, sizeof(path), "%.*s" PLUGIN, slash ? (int)(slash + 1 - self) : 0, self);
	plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	*(void **)&walk = plugin ? dlsym(plugin, "rr_diag_walk") : NULL;
	if (!walk)
		rr_err("diagnostics cannot show call stacks: %s", dlerror());
}

/* Logs one stack frame: the plugin calls it for each. */
static void line(unsigned n, const char *module, unsigned long at, const char *symbol,
		 unsigned long offset)
{
	if (symbol[0])
		rr_warn("  #%u %s+0x%lx %s+0x%lx", n, module, at, symbol, offset);
	else
		rr_warn("  #%u %s+0x%lx", n, module, at);
}

/* rr_diag_hook: logs `what` and the stack. The plugin's own calls of libc come back into our
 * wrappers; the guard tells the wrappers that those are not the app's. */
static void hook(const char *what, int fd)
{
	int saved = errno;

	rr_guard_enter();
	pthread_once(&once, load);
	rr_warn("fd %d: %s; called from", fd, what);
	if (walk)
		walk(self, line);
	rr_guard_leave();
	errno = saved;
}

void rr_diag_setup(bool on)
{
	rr_diag_hook = on ? hook : NULL;
}
