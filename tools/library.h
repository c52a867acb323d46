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

/* Finds the absolute name of the library: beside this program (the build tree), in ../lib, or
 * where it was installed. False: it is in none of these. */
bool rr_library_find(char out[PATH_MAX]);

/* Is the library also installed for programs of the other word size, where their loader finds
 * it by $LIB? Then `both` is a name with $LIB in it, which each loader resolves to its own
 * library, and `other` is the name of the other library. library is what rr_library_find() has
 * found. */
bool rr_library_pair(const char *library, char both[PATH_MAX], char other[PATH_MAX]);

/* The directories that were searched, for a message. */
const char *rr_library_places(void);

#endif
