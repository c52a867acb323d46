/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_WHO_H
#define RR_WHO_H

/* In log lines: which connection it is about, as its entry of the statistics has it:
 * "fd 5 to 10.0.0.1:2049", or on the server "fd 6 from 10.0.0.2:900 at 10.0.0.1:2049".
 *
 *	rr_info(RR_WHO ": lost", RR_WHO_OF(fd, st));
 *
 * st may be NULL. */

#include "core/base/stats_abi.h"

#define RR_WHO	"fd %d %s %.55s%s%.55s"

static inline const char *rr_who_side(const struct rr_stat_conn *st, const char *client,
				      const char *server)
{
	return st && st->server ? server : client;
}

/* Both write to buf. */
static inline const char *rr_who_peer(const struct rr_stat_conn *st, char buf[RR_STAT_ADDR])
{
	if (st)
		rr_stats_addr_read(st->peer, buf);
	return buf[0] ? buf : "?";
}

static inline const char *rr_who_local(const struct rr_stat_conn *st, char buf[RR_STAT_ADDR])
{
	if (st && st->server)
		rr_stats_addr_read(st->local, buf);
	return buf;
}

#define RR_WHO_OF(fd, st)                                                                      \
	(int)(fd), rr_who_side((st), "to", "from"),                                            \
		rr_who_peer((st), (char[RR_STAT_ADDR]){ "" }),                                 \
		rr_who_side((st), "", " at "), rr_who_local((st), (char[RR_STAT_ADDR]){ "" })

#endif
