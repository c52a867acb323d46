/* SPDX-License-Identifier: BSD-3-Clause */
/* The providers of this process: shm, which is built in, and verbs, which is loaded when a
 * second provider is asked for and there is a device. What a provider does is not known
 * here. */

#include "core/prov/prov.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/prov/verbs/plugin.h"

/* Checked before the plugin is loaded, because most machines have no device. */
#define DEVICE		"/dev/infiniband/rdma_cm"

static const struct rr_prov_ops *only, *verbs;
static bool plugins;
static void (*exiting)(void);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void on_refused(rr_refused_fn *fn)
{
	rr_refused = fn;
}

/* The plugin gets this function when it is loaded; what it is to call can be set later. */
static void call_exiting(void)
{
	if (exiting)
		exiting();
}

void rr_prov_at_exit(void (*fn)(void))
{
	exiting = fn;
}

static void log_event(const char *device, const char *event, unsigned port, unsigned ended)
{
	if (port)
		rr_warn("RDMA device %s, port %u: %s", device, port, event);
	else
		rr_warn("RDMA device %s: %s; connections that end: %u", device, event, ended);
}

/* Loads the plugin that lies beside this library, which dladdr() finds by a symbol of ours.
 * RTLD_LOCAL keeps rdma-core's names away from the app; RTLD_NOW makes a missing symbol fail
 * here, and not within a call of the app's. Runs once; if it fails, verbs stays NULL and a
 * warning says why. */
static void load_verbs(void)
{
	struct rr_verbs_env env = { .os = rr_os, .own_fd = rr_ownfd_set,
				    .raise_fd = rr_ownfd_raise,
				    .on_refused = on_refused, .at_exit = call_exiting,
				    .on_event = log_event };
	rr_verbs_plugin_fn *entry;
	char path[512];
	const char *slash;
	void *plugin;
	Dl_info me;

	if (syscall(SYS_faccessat, AT_FDCWD, DEVICE, R_OK | W_OK) ||
	    !dladdr((void *)&rr_prov_shm, &me) || !me.dli_fname)
		return;
	slash = strrchr(me.dli_fname, '/');
	rr_fmt(path, sizeof(path), "%.*s" RR_VERBS_PLUGIN,
	       slash ? (int)(slash + 1 - me.dli_fname) : 0, me.dli_fname);
	plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	*(void **)&entry = plugin ? dlsym(plugin, RR_VERBS_ENTRY) : NULL;
	if (entry)
		verbs = entry(RR_VERBS_ABI, &env);
	if (!verbs)
		rr_warn("RDMA devices are not used: %s",
			plugin ? RR_VERBS_PLUGIN " is of another version" : dlerror());
}

/* Looking for verbs may load it, which opens files and devices; the app's errno is kept.
 * pthread_once() lets other threads wait until that is over. */
const struct rr_prov_ops *rr_prov_nth(uint32_t i)
{
	int saved = errno;

	if (unlikely(only != NULL))
		return i == 0 ? only : NULL;
	if (i == 0)
		return &rr_prov_shm;
	if (i > 1 || !plugins)
		return NULL;
	pthread_once(&once, load_verbs);
	errno = saved;
	return verbs;
}

const struct rr_prov_ops *rr_prov_native(void)
{
	int saved = errno;

	if (unlikely(only != NULL))
		return only->listen ? only : NULL;
	pthread_once(&once, load_verbs);
	errno = saved;
	return verbs && verbs->listen ? verbs : NULL;
}

void rr_prov_plugins(bool use)
{
	plugins = use;
}

void rr_prov_only(const struct rr_prov_ops *ops)
{
	only = ops;
}

/* The number may come from a peer: an unknown one gives NULL. */
const struct rr_prov_ops *rr_prov_by_id(uint8_t id)
{
	const struct rr_prov_ops *ops;

	for (uint32_t i = 0; (ops = rr_prov_nth(i)); i++)
		if (ops->id == id)
			return ops;
	return NULL;
}

const struct rr_prov_ops *rr_prov_by_name(const char *name)
{
	const struct rr_prov_ops *ops;

	for (uint32_t i = 0; (ops = rr_prov_nth(i)); i++)
		if (strcmp(ops->name, name) == 0)
			return ops;
	return NULL;
}
