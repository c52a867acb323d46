/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_DUMP_RDMA_H
#define RR_DUMP_RDMA_H

/* Shows connections as RoCEv2: the exchange that sets them up, transport messages as Sends, and
 * what their chunks hold as RDMA Reads and Writes. Queue pairs and packet numbers are invented;
 * what a chunk holds is taken from its record. */

#include "tools/dump/show.h"

/* Takes a packet of connection t. True: it is kept, and freed later. */
bool rr_rdma_take(struct rr_show *s, const struct rr_show_kept *k, struct rr_talk *t);

/* Shows what there is of messages that have waited for their records since before ns, and
 * forgets records whose messages have not come. */
void rr_rdma_expire(struct rr_show *s, uint64_t ns);

#endif
