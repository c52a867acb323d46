/* SPDX-License-Identifier: BSD-3-Clause */
/* What all connections of this process share: the options, and the sizes of replies that were
 * learned. How the options are read is no matter of this file (config/). */

#include "core/conn/base/base.h"

/* See base.h. */
_Atomic bool rr_conn_forks;

const struct rr_conn_params *rr_cp;
struct rr_sizes rr_conn_sizes;
