/* SPDX-License-Identifier: BSD-3-Clause */
/* Who a line of the log is about. Out of line, and with it the room for two addresses: those
 * who log may be deep in a signal handler. */

#include "core/conn/base/who.h"

#define WHO	(2 * RR_STAT_ADDR + 32)

static const char *or_unknown(const char *addr)
{
	return addr[0] ? addr : "?";
}

/* buf: WHO bytes. Returns it. */
static const char *who(char *buf, int fd, const struct rr_stat_conn *st)
{
	char peer[RR_STAT_ADDR] = "", local[RR_STAT_ADDR] = "";

	if (st)
		rr_stats_addr_read(st->peer, peer);
	if (st && st->server) {
		rr_stats_addr_read(st->local, local);
		rr_fmt(buf, WHO, "fd %d from %s at %s", fd, or_unknown(peer), local);
	} else {
		rr_fmt(buf, WHO, "fd %d to %s", fd, or_unknown(peer));
	}
	return buf;
}

void rr_who_write(enum rr_log_level level, int fd, const struct rr_stat_conn *st,
		  const char *fmt, ...)
{
	char buf[WHO];
	va_list ap;

	va_start(ap, fmt);
	rr_log_vwrite(level, who(buf, fd, st), fmt, ap);
	va_end(ap);
}
