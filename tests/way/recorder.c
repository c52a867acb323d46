/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded behind a library that was built with -finstrument-functions: notes each function that the
 * thread enters between way_begin() and way_end(), as an offset into the library, and writes the list
 * to standard output. Nothing of it is thread-safe: one thread walks the way. */

#include <dlfcn.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST	65536

void __cyg_profile_func_enter(void *fn, void *site);
void __cyg_profile_func_exit(void *fn, void *site);
void way_begin(void);
void way_end(const char *name);

static void *way[MOST];
static int steps;
static int open_; /* between way_begin() and way_end() */

void __cyg_profile_func_enter(void *fn, void *site)
{
	(void)site;
	if (open_ && steps < MOST)
		way[steps++] = fn;
}

void __cyg_profile_func_exit(void *fn, void *site)
{
	(void)fn;
	(void)site;
}

void way_begin(void)
{
	steps = 0;
	open_ = 1;
}

/* A line for the way, then one for each function, in the order of the calls. */
void way_end(const char *name)
{
	Dl_info i;

	open_ = 0;
	printf("way %s %d\n", name, steps);
	for (int k = 0; k < steps; k++) {
		if (dladdr(way[k], &i))
			printf("%zx\n", (size_t)((char *)way[k] - (char *)i.dli_fbase));
	}
	fflush(stdout);
}
