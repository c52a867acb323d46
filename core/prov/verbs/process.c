/* SPDX-License-Identifier: BSD-3-Clause */
/* What the provider knows of the process that it is in, once for all connections. plugin.c sets
 * it. */

#include "core/prov/verbs/verbs_int.h"

static pid_t self;		/* where the kernel cannot wipe it */
pid_t *rr_verbs_self = &self;

void (*rr_verbs_own_fd)(int fd, bool own);
bool rr_verbs_no_windows, rr_verbs_invite;
const struct rr_verbs_say *rr_verbs_say;
bool rr_verbs_used, rr_verbs_orphan;
