/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SETTINGS_H
#define RR_SETTINGS_H

/* What the configuration says, and what is wrong with it. */

#include "config/conf.h"

/* Prints, as a configuration file, what is in force for a program of that name started with
 * this environment; each line says where it comes from. name NULL: rules on commands are all
 * included. Returns how many problems there are; they are printed first, as comments. */
uint32_t rr_settings_print(const char *name, char **envp);

/* The same for the running process pid, as far as its environment and today's files tell. -1: a
 * message is on standard error. */
int rr_settings_print_pid(int pid);

/* Prints all problems of a file, as lines "FILE:LINE:COLUMN: text", and returns how many there
 * are. */
uint32_t rr_settings_check(const char *file);

#endif
