/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_LOGSINK_H
#define RR_LOGSINK_H

/* Where log lines go: the file of option log_file, stderr, syslog, or the journal. */

#include <stdbool.h>

#include "core/base/log.h"

/* file is a path, "stderr", or "" (no log, if to is RR_LOG_TO_FILE), and is kept by reference.
 * At level off there is a sink all the same, so that rr_log_follow() can raise the level later;
 * but no file is made. */
void rr_logsink_setup(enum rr_log_to to, const char *file, enum rr_log_level level);

/* The app wants the number fd: if that is the log's descriptor, the log gives it up. Returns
 * whether it was. */
bool rr_logsink_move_fd(int fd);

#endif
