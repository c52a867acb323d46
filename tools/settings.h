/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SETTINGS_H
#define RR_SETTINGS_H

/* What the configuration says, and what is wrong with it. */

#include "config/conf.h"

/* Prints to standard output, as a configuration file, what is in force for a program of that
 * name which is started with this environment, each line with where it comes from. name NULL:
 * no rule's command is left out. Returns how many problems there are, printed first as
 * comments. */
uint32_t rr_settings_print(const char *name, char **envp);

/* The same for the running process pid, as far as its environment and the files of today tell.
 * -1: message on standard error. */
int rr_settings_print_pid(int pid);

/* Prints all that is wrong with a file, "FILE:LINE:COLUMN: text" a line, and returns how much
 * that is. */
uint32_t rr_settings_check(const char *file);

#endif
