/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds librpcrdma_shim.so for the tools, and the library of the other word size. Only files
 * that can be read count; whether one is the right library for a program is judged in
 * program.c. */
#include "tools/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/compiler.h"

/* Is the library in directory dir/sub? out receives its name without symbolic links, so that a
 * replaced link does not change what is preloaded later. */
static bool is_in(const char *dir, const char *sub, char out[PATH_MAX])
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s%s/" RR_LIBRARY, dir, sub) >= PATH_MAX)
		return false;
	return realpath(path, out) && !access(out, R_OK);
}

/* The directory of this program's file; "" if /proc does not say. */
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

/* --- two word sizes --- */

/* What the loader of one kind of programs has for $LIB, and that of the other kind. */
static const struct { const char *own, *other; } libs[] = {
	{ "lib/x86_64-linux-gnu", "lib/i386-linux-gnu" },
	{ "lib/i386-linux-gnu", "lib/x86_64-linux-gnu" },
	{ "lib64", "lib" },
	{ "lib", "lib64" },
};

/* The directory from which our loader has libc: /$LIB, perhaps with /usr before it. */
static bool directory_of_libc(char out[PATH_MAX])
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	struct link_map *map;
	char *slash;
	bool is;

	if (!libc)
		return false;
	is = !dlinfo(libc, RTLD_DI_LINKMAP, &map);
	if (is)
		snprintf(out, PATH_MAX, "%s",
			 map->l_name + (strncmp(map->l_name, "/usr/", 5) ? 0 : 4));
	dlclose(libc);
	slash = is ? strrchr(out, '/') : NULL;
	if (slash)
		*slash = '\0';
	return slash;
}

/* Debian's directories (lib/x86_64-linux-gnu) and those of others (lib64) are told apart by
 * where this program's own libc is, because only the loader knows what it puts for $LIB. The
 * library has to lie in that directory below some prefix; the other one lies in the other
 * directory below the same prefix. */
bool rr_library_pair(const char *library, char both[PATH_MAX], char other[PATH_MAX])
{
	size_t n, i = 0, end = strlen(library) - strlen("/" RR_LIBRARY);
	char dir[PATH_MAX];

	if (!directory_of_libc(dir) || *dir != '/')
		return false;
	while (strcmp(dir + 1, libs[i].own))
		if (++i == rr_array_size(libs))
			return false;
	n = strlen(dir);
	if (end < n || strncmp(library + end - n, dir, n))
		return false;
	end -= n - 1;	/* after the slash */
	if (snprintf(other, PATH_MAX, "%.*s%s/" RR_LIBRARY, (int)end, library, libs[i].other) >=
		PATH_MAX ||
	    snprintf(both, PATH_MAX, "%.*s$LIB/" RR_LIBRARY, (int)end, library) >= PATH_MAX)
		return false;
	return !access(other, R_OK);
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
