/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_LOGSINK_H
#define RR_LOGSINK_H

/* Where log lines go: the file of option log_file, or stderr. */

#include <stdbool.h>

#include "core/base/log.h"

/* file: a path, "stderr", or "" (no log). It stays. */
void rr_logsink_setup(const char *file, enum rr_log_level level);

/* Makes room at fd if that is the log's descriptor. */
bool rr_logsink_move_fd(int fd);

#endif
