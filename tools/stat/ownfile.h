/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_OWNFILE_H
#define RR_STAT_OWNFILE_H

/* Files that the user's rdmarpc-stat leaves in a run directory to which others may write. If
 * something fails, the program ends with status 1 and a message. */

#include "config/rundir.h"

/* Makes a new file with a meaningless name, which begins with a dot and stem and is written to
 * name. Returns its descriptor, for writing. */
int rr_ownfile_make(int dir, const char *stem, char name[RR_RUN_NAME]);

/* Gives the file `hidden`, which rr_ownfile_make() has made, its name, in one step. Whatever
 * has the name already is replaced, of any kind and owner; in a sticky directory only root may
 * do that to others' files. path is that of name, for messages. */
void rr_ownfile_put(int dir, const char *hidden, const char *path, const char *name);

#endif
