/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_UNIT_H
#define RR_UNIT_H

/* Drop-ins of systemd that give a service the library, and leave the rest of its unit alone. */

#include <stdbool.h>

/* A variable that the service gets, as Environment=. Both are kept. */
void rr_unit_variable(const char *name, const char *value);

enum rr_unit_what { RR_UNIT_PRINT, RR_UNIT_INSTALL, RR_UNIT_REMOVE };

/* Does what is asked for with the drop-in of service name ("ypserv", "ypserv.service", "a@b"),
 * below directory root ("" the real one). preload: the value of LD_PRELOAD; library: the file,
 * by which the service's programs are judged. An exit status, with messages on standard error;
 * warnings are told and nothing else. */
int rr_unit(enum rr_unit_what what, const char *name, const char *root, const char *preload,
	    const char *library);

#endif
