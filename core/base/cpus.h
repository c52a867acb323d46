/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CPUS_H
#define RR_CPUS_H

/* Which CPUs this process has. */

#include "core/base/types.h"

/* The CPU that the calling thread runs on, from 1; 0: unknown. Uses rseq or the vDSO, so it
 * makes no system call where the C library supports either. */
uint32_t rr_cpu_here(void);

/* How many whole CPUs this process may use, by its affinity and its cgroups' quotas; 0: less
 * than one. Asks the system at most once a second. */
uint32_t rr_cpus(rr_time now);

/* Has the machine no other CPU? As of the last rr_cpus(), which looks every 16 s. */
bool rr_cpu_is_only(void);

/* The same, given the text of /sys/devices/system/cpu/online ("0-3,5"); "": unknown, no. */
bool rr_cpus_are_one(const char *online);

/* What a quota allows, given the text of cpu.max ("max 100000", "150000 100000"), or of
 * cpu.cfs_quota_us followed by that of cpu.cfs_period_us. UINT32_MAX: no limit, or nonsense. */
uint32_t rr_cpus_of_quota(const char *text);

#endif
