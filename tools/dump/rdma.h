/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_DUMP_RDMA_H
#define RR_DUMP_RDMA_H

/* Shows connections as RoCEv2: the exchange that sets them up, transport messages as Sends, and
 * what their chunks hold as RDMA Reads and Writes. Queue pairs and packet numbers are made up;
 * what a chunk holds is taken from the record to which it belongs. */

#include "tools/dump/show.h"

/* A packet of connection t. True: it was kept, and is freed later. */
bool rr_rdma_take(struct rr_show *s, const struct rr_show_kept *k, struct rr_talk *t);

/* Shows of messages that have waited for their records since before ns what there is, and
 * forgets records whose messages have not come. */
void rr_rdma_expire(struct rr_show *s, uint64_t ns);

#endif
