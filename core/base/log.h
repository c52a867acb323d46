/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_LOG_H
#define RR_LOG_H

/* Logging, off unless configured. A line that is not logged costs a load, a test and a branch.
 * The sink formats on the stack and issues one real write(2), without stdio, malloc or lock; it
 * is safe in signal handlers and forked children, and leaves errno alone. */

#include <stdatomic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/compiler.h"

/* Option log_to. */
enum rr_log_to { RR_LOG_TO_FILE, RR_LOG_TO_SYSLOG, RR_LOG_TO_JOURNAL };

enum rr_log_level { RR_LOG_OFF, RR_LOG_ERROR, RR_LOG_WARN, RR_LOG_INFO, RR_LOG_DEBUG };

extern _Atomic int rr_log_level;

/* Where lines go. Called with a whole line, newline included; line + at is the part without
 * time and pid: "COMMAND level: text\n". False: there was no room, and the line counts as left
 * out. */
typedef bool rr_log_sink(enum rr_log_level level, const char *line, unsigned len, unsigned at);

/* level RR_LOG_OFF silences. Lines look like
 *   2026-11-21T11:07:00.123456Z rdmarpc[PID] COMMAND warn: text
 * in UTC; what does not fit in 1 KiB is cut off. */
void rr_log_setup(enum rr_log_level level, rr_log_sink *sink);

/* Sets the level that an operator wants: 1 + it, or 0 for that of rr_log_setup(). A number that
 * is no level is ignored, and without a sink nothing changes. Lock-free; costs a load and a
 * branch if nothing has changed. */
void rr_log_follow(uint32_t want);
/* Is there a sink, so that lines go anywhere? */
bool rr_log_has_sink(void);

/* Sets the name of this process in its lines; before that there is none. To be called before
 * there are threads that log. */
void rr_log_name(const char *command);

/* At level debug all lines are written, otherwise 20 in a second and some hundred at once,
 * because peers must not be able to fill a disk. The next line that is written says how many
 * are missing.
 *
 * Formats %s %d %i %u %x %X %c %p %% with 0-padding, width, l, ll, z, and %.Ns, %.*s; nothing
 * else. Control characters come out as '?': a line stays a line. */
void rr_log_write(enum rr_log_level level, const char *fmt, ...) RR_PRINTF(2, 3) RR_COLD;
/* The same; text begins with about. */
void rr_log_vwrite(enum rr_log_level level, const char *about, const char *fmt, va_list ap)
	RR_PRINTF(3, 0) RR_COLD;

#define rr_log(level, ...) do { \
	if (unlikely(atomic_load_explicit(&rr_log_level, memory_order_relaxed) >= (level))) \
		rr_log_write((level), __VA_ARGS__); \
} while (0)

#define rr_err(...)	rr_log(RR_LOG_ERROR, __VA_ARGS__)
#define rr_warn(...)	rr_log(RR_LOG_WARN, __VA_ARGS__)
#define rr_info(...)	rr_log(RR_LOG_INFO, __VA_ARGS__)
#define rr_debug(...)	rr_log(RR_LOG_DEBUG, __VA_ARGS__)

/* snprintf of the same subset, without locale, malloc or errno: bytes written, always
 * terminated, truncated to size. */
unsigned rr_fmt(char *buf, unsigned size, const char *fmt, ...) RR_PRINTF(3, 4);
unsigned rr_vfmt(char *buf, unsigned size, const char *fmt, va_list ap) RR_PRINTF(3, 0);

#endif
