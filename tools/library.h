/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_LIBRARY_H
#define RR_LIBRARY_H

/* Where librpcrdma_shim.so is. */

#include <limits.h>
#include <stdbool.h>

#define RR_LIBRARY "librpcrdma_shim.so"

#ifndef RR_LIBDIR
#define RR_LIBDIR "/usr/local/lib"
#endif

/* The absolute name of the library beside this program (the build tree), in ../lib of it, or
 * where it was installed. False: in none of these. */
bool rr_library_find(char out[PATH_MAX]);

/* The directories that were looked at, for a message. */
const char *rr_library_places(void);

#endif
