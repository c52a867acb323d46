/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_STOP_H
#define RR_STAT_STOP_H

#include "tools/places.h"

/* Puts the user's stop file into the run directory, or takes it away. configured is option
 * run_dir. Ends the program with status 1 and a message if it cannot. */
void rr_stop_set(const char *configured, bool on);

/* Are new upgrades of the user's processes stopped at any of the places? */
bool rr_stop_any(const struct rr_places *places);

#endif
