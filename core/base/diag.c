/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/diag.h"

void (*rr_diag_hook)(const char *what, int fd);
