/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RAWOS_H
#define RR_RAWOS_H

#include "core/base/os.h"

/* struct rr_os of the preload library: system calls that are not cancellation points. */
extern const struct rr_os rr_raw_os;

#endif
