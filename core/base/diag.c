/* SPDX-License-Identifier: BSD-3-Clause */
/* The hook of diagnostics. preload/diag_plugin.c sets it; nobody else does. */

#include "core/base/diag.h"

void (*rr_diag_hook)(const char *what, int fd);
