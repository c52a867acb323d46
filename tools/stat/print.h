/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_PRINT_H
#define RR_STAT_PRINT_H

#include <stdio.h>

#include "tools/places.h"

/* One JSON object and a newline. Its names are an interface (rdmarpc-stat(1)). */
void rr_print_json(FILE *to, const struct rr_procs *all, const struct rr_places *places,
		   bool stopped);

/* OpenMetrics text. Its names are an interface, too. */
void rr_print_openmetrics(FILE *to, const struct rr_procs *all, const struct rr_places *places,
			  bool stopped);

/* A table, a line for each process. secs: 0, or it is watched: drawn within 80 columns and
 * with rates; before is what the same said so many seconds ago, or NULL. list: and a line for
 * each connection. */
void rr_print_table(FILE *to, const struct rr_procs *all, const struct rr_procs *before,
		    double secs, bool list, bool stopped);

/* The calls of each process by procedure. */
void rr_print_procedures(FILE *to, const struct rr_procs *all);

#endif
