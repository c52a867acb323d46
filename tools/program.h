/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PROGRAM_H
#define RR_PROGRAM_H

/* Can a preloaded library get into this program? */

#include <stddef.h>

/* Exit statuses, as env(1) and nohup(1) have them. */
enum { RR_EXIT_OURS = 125, RR_EXIT_CANNOT = 126, RR_EXIT_MISSING = 127 };

/* Finds name as execvp(3) does and writes it to path. Returns 0, or an exit status with *why
 * set. */
int rr_program_find(const char *name, char *path, size_t size, const char **why);

/* Looks at the program, through #! lines, and at the library (NULL: at the program alone).
 * Returns 0, or an exit status with why filled in. With 0, why is "" or a warning. */
int rr_program_check(const char *path, const char *library, char *why, size_t size);

#endif
