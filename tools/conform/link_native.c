/* SPDX-License-Identifier: BSD-3-Clause */
/* Native connections, by RDMA CM. The provider is the plugin that the library uses, too; it is
 * loaded from beside this program, or from where libraries are installed. So the tool itself
 * needs no rdma-core, and judges peers over shared memory where there is none. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/plugin.h"
#include "tools/conform/link.h"

#ifndef RR_LIBDIR
#define RR_LIBDIR "/usr/local/lib"
#endif

static char why_not[256];

/* The directory of this program comes first, so that a build is tested with its own plugin.
 * Returns NULL if neither place has one; dlerror() then tells of the second. */
static void *open_plugin(void)
{
	char path[4096 + sizeof(RR_VERBS_PLUGIN)];
	ssize_t n = readlink("/proc/self/exe", path, 4096);
	void *so;

	while (n > 0 && path[n - 1] != '/')
		n--;
	strcpy(path + rr_max(n, 0), RR_VERBS_PLUGIN);
	so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	return so ? so : dlopen(RR_LIBDIR "/" RR_VERBS_PLUGIN, RTLD_NOW | RTLD_LOCAL);
}

static struct rr_verbs_say say;

/* Returns the provider, or NULL and the reason in why_not. A build for tests has its only
 * provider linked in. */
static const struct rr_prov_ops *provider(void)
{
	static const struct rr_prov_ops *found;
	static const struct rr_verbs_env zero;
	static struct rr_verbs_env env;
	rr_verbs_plugin_fn *entry;
	void *so;

	if (!found && rr_prov_nth(0) != &rr_prov_shm)
		found = rr_prov_nth(0);
	if (found)
		return found;
	env = zero;
	env.os = rr_os;
	env.own_fd = rr_ownfd_set;
	env.raise_fd = rr_ownfd_raise;
	env.say = &say;
	so = open_plugin();
	*(void **)&entry = so ? dlsym(so, RR_VERBS_ENTRY) : NULL;
	found = entry ? entry(RR_VERBS_ABI, &env) : NULL;
	if (!found)
		snprintf(why_not, sizeof(why_not), "no RDMA: %s",
			 so ? RR_VERBS_PLUGIN " is of another version"
								     : dlerror());
	return found;
}

/* The plugin looks at `say` whenever it connects or accepts, so it must be set anew for each
 * case. A provider that is linked in for tests has no private data. */
bool rr_link_native_say(const struct rr_case *c)
{
	_Static_assert(RR_PRIVATE_MAX <= RR_VERBS_SAY, "what a case says has room");
	if (c->says && rr_prov_nth(0) != &rr_prov_shm)
		return false;
	say.instead = c->says;
	say.len = (uint8_t)c->private_len;
	if (c->private_len)
		memcpy(say.bytes, c->private_data, c->private_len);
	return true;
}

/* establish() goes on with what connect() has only begun. */
const char *rr_link_native_connect(struct rr_link *l, const struct rr_link_params *p)
{
	const struct rr_prov_ops *ops = provider();
	struct rr_prov_params pp;
	const char *why;
	int rc;

	if (!ops)
		return why_not;
	rr_link_prov_params(p, &pp);
	why = rr_link_new(l, p, ops, &pp);
	if (why)
		return why;
	rc = ops->connect(l->qp, &pp, (const struct sockaddr *)&p->addr, NULL);
	return rc ? strerror(-rc) : rr_link_establish(l);
}

const char *rr_link_native_listen(struct rr_link_listener *l, const struct rr_link_params *p)
{
	int rc;

	l->ops = provider();
	if (!l->ops)
		return why_not;
	l->lst = calloc(1, l->ops->lst_size());
	if (!l->lst)
		return "out of memory";
	rc = l->ops->listen(l->lst, (const struct sockaddr *)&p->addr);
	return rc ? strerror(-rc) : NULL;
}

/* Waits until a peer connects, at most for the timeout. A request that the provider itself
 * refuses fails the accept. */
const char *rr_link_native_accept(struct rr_link *l, struct rr_link_listener *from,
				  const struct rr_link_params *p)
{
	rr_time until = rr_now() + p->timeout * RR_MSEC;
	struct sockaddr_in6 peer, local;
	struct rr_prov_params pp;
	const char *why;
	int rc;

	rr_link_prov_params(p, &pp);
	why = rr_link_new(l, p, from->ops, &pp);
	if (why)
		return why;
	while ((rc = from->ops->take(from->lst, l->qp, &pp, &peer, &local)) == -EAGAIN &&
	       rr_now() < until)
		poll(&(struct pollfd){ from->lst->fd, POLLIN, 0 }, 1, 20);
	if (rc)
		return rc == -EAGAIN ? "nobody connects" : strerror(-rc);
	return rr_link_establish(l);
}
