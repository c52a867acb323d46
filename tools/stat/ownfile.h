/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_OWNFILE_H
#define RR_STAT_OWNFILE_H

/* Files that the user's rdmarpc-stat leaves in a run directory where others may write, too.
 * What fails ends the program with status 1 and a message. */

#include "config/rundir.h"

/* A new file with a name of no meaning, which begins with a dot and stem, into name. Returns
 * its descriptor, for writing. */
int rr_ownfile_make(int dir, const char *stem, char name[RR_RUN_NAME]);

/* Puts it in the place of whatever may have the name, of any kind and owner, in one step. Where
 * the directory is sticky only root may do that to others' files. path: of name, for
 * messages. */
void rr_ownfile_put(int dir, const char *hidden, const char *path, const char *name);

#endif
