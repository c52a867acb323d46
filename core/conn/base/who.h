/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_WHO_H
#define RR_WHO_H

/* Lines of the log about a connection, which begin with who it is, as its entry of the
 * statistics has it: "fd 5 to 10.0.0.1:2049", or on the server "fd 6 from 10.0.0.2:900 at
 * 10.0.0.1:2049". The text follows at once:
 *
 *	rr_who_info(fd, st, ": lost: %s", rr_reason_text(why));
 *
 * st may be NULL. What such a line takes of the stack, it takes only if it is logged. */

#include "core/base/log.h"
#include "core/base/stats_abi.h"

void rr_who_write(enum rr_log_level level, int fd, const struct rr_stat_conn *st,
		  const char *fmt, ...) RR_PRINTF(4, 5) RR_COLD;

#define rr_who_log(level, fd, st, ...) do { \
	if (unlikely(atomic_load_explicit(&rr_log_level, memory_order_relaxed) >= (level))) \
		rr_who_write((level), (fd), (st), __VA_ARGS__); \
} while (0)

#define rr_who_err(...)		rr_who_log(RR_LOG_ERROR, __VA_ARGS__)
#define rr_who_warn(...)	rr_who_log(RR_LOG_WARN, __VA_ARGS__)
#define rr_who_info(...)	rr_who_log(RR_LOG_INFO, __VA_ARGS__)
#define rr_who_debug(...)	rr_who_log(RR_LOG_DEBUG, __VA_ARGS__)

#endif
