/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into ganesha for tests of its callbacks. A delegation of FSAL_GLUSTER is a lease that GlusterFS gives
 * under the client's identity; ganesha 4.3 asks for it under none and is refused. Here it gets its leases, and
 * does itself what is left to do: it knows who else opens the file. */
#include <stdbool.h>

struct xlator;
struct location;
struct gf_lease;
struct dict;

bool is_valid_lease_id(const char *id);
int syncop_lease(struct xlator *subvolume, struct location *loc, struct gf_lease *lease, struct dict *in,
		 struct dict **out);

bool is_valid_lease_id(const char *id)
{
	(void)id;
	return true;
}

int syncop_lease(struct xlator *subvolume, struct location *loc, struct gf_lease *lease, struct dict *in,
		 struct dict **out)
{
	(void)subvolume;
	(void)loc;
	(void)lease;
	(void)in;
	(void)out;
	return 0;
}
