/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_PRINT_H
#define RR_STAT_PRINT_H

#include <stdio.h>

#include "tools/places.h"

/* Prints one JSON object and a newline. Its names are an interface (rdmarpc-stat(1)). */
void rr_print_json(FILE *to, const struct rr_procs *all, const struct rr_places *places,
		   bool stopped);

/* Prints OpenMetrics text. Its names are an interface, too. */
void rr_print_openmetrics(FILE *to, const struct rr_procs *all, const struct rr_places *places,
			  bool stopped);

/* Prints a table with a line for each process. secs is 0, or with --watch how many seconds ago
 * `before` was read (NULL: nothing was): then the table fits 80 columns and shows rates. list:
 * also prints a line for each connection. */
void rr_print_table(FILE *to, const struct rr_procs *all, const struct rr_procs *before,
		    double secs, bool list, bool stopped);

/* Prints the calls of each process by procedure. */
void rr_print_procedures(FILE *to, const struct rr_procs *all);

#endif
