/* SPDX-License-Identifier: BSD-3-Clause */
/* What the provider knows about the process, once for all connections. plugin.c sets it. The
 * pid is read through a pointer, because it normally stands in a page that the kernel wipes at
 * fork. */

#include "core/prov/verbs/verbs_int.h"

static pid_t self;		/* fallback for kernels without MADV_WIPEONFORK */
pid_t *rr_verbs_process_self = &self;

void (*rr_verbs_process_own_fd)(int fd, bool own);
int (*rr_verbs_process_raise_fd)(int fd);
bool rr_verbs_process_no_windows, rr_verbs_process_invite;
const struct rr_verbs_say *rr_verbs_process_say;
void (*rr_verbs_process_on_event)(const char *device, const char *event, unsigned port,
				  unsigned ended);
bool rr_verbs_process_used, rr_verbs_process_orphan;
