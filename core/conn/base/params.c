/* SPDX-License-Identifier: BSD-3-Clause */
/* What holds for all connections of this process: the options, and what was learned of replies'
 * sizes. */

#include "core/conn/base/base.h"

/* The owner's next connections are such that children can use them. */
_Atomic bool rr_conn_forks;

const struct rr_conn_params *rr_cp;
struct rr_sizes rr_conn_sizes;
