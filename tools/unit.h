/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_UNIT_H
#define RR_UNIT_H

/* Systemd drop-ins that give a service the library and leave the rest of its unit alone. */

#include <stdbool.h>

/* Adds a variable that the service gets by Environment=. Both strings are kept by reference. */
void rr_unit_variable(const char *name, const char *value);

enum rr_unit_what { RR_UNIT_PRINT, RR_UNIT_INSTALL, RR_UNIT_REMOVE };

/* Does what is asked for with the drop-in of service name ("ypserv", "ypserv.service", "a@b"),
 * below directory root ("": the real one). preload is the value of LD_PRELOAD; library is the
 * file, by which the service's programs are judged. Returns an exit status, with messages on
 * standard error; warnings only print. */
int rr_unit(enum rr_unit_what what, const char *name, const char *root, const char *preload,
	    const char *library);

#endif
