/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_LOGSINK_H
#define RR_LOGSINK_H

/* Where log lines go: the file of option log_file, stderr, syslog or the journal. */

#include <stdbool.h>

#include "core/base/log.h"

/* file: a path, "stderr", or "" (no log, if to is RR_LOG_TO_FILE). It stays. At level off there
 * is a sink all the same, so that rr_log_follow() can begin; but no file is made. */
void rr_logsink_setup(enum rr_log_to to, const char *file, enum rr_log_level level);

/* Makes room at fd if that is the log's descriptor. */
bool rr_logsink_move_fd(int fd);

#endif
