/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds librpcrdma_shim.so for the tools. */
#include "tools/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_in(const char *dir, const char *sub, char out[PATH_MAX])
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s%s/" RR_LIBRARY, dir, sub) >= PATH_MAX)
		return false;
	return realpath(path, out) && !access(out, R_OK);
}

static void own_directory(char self[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);

	self[n < 0 ? 0 : n] = '\0';
	if (strrchr(self, '/'))
		*strrchr(self, '/') = '\0';
}

bool rr_library_find(char out[PATH_MAX])
{
	char self[PATH_MAX];

	own_directory(self);
	return is_in(self, "", out) || is_in(self, "/../lib", out) || is_in(RR_LIBDIR, "", out);
}

const char *rr_library_places(void)
{
	static char text[2 * PATH_MAX + 64];
	char self[PATH_MAX];

	own_directory(self);
	snprintf(text, sizeof(text), "neither in %s nor in %s/../lib nor in " RR_LIBDIR, self,
		 self);
	return text;
}
