/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists the run directories, and reads the segments of all of them. Which directories there are
 * follows the rules by which processes choose one (config/rundir.c): a tool that knows fewer
 * would not show every process. */
#include "tools/places.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"

/* A bound, because other users can make directories where an administrator lets them. */
#define PLACES_MAX	4096u

/* Adds dir unless it is there already, too long, or one too many. Whether it exists is not
 * asked here. */
static void add_place(struct rr_places *p, const char *dir)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (!strcmp(p->dir[i], dir))
			return;
	if (p->n == PLACES_MAX || strlen(dir) >= RR_RUN_PATH)
		return;
	p->dir = rr_grow_array(p->dir, p->n + 1, sizeof(*p->dir));
	rr_fmt(p->dir[p->n++], RR_RUN_PATH, "%s", dir);
}

/* Is it a user's directory? The names of segments are two numbers, this is one. */
static bool is_users(const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	return !strchr(name, '.');
}

static void add_matches(struct rr_places *p, const char *pattern)
{
	glob_t g = { 0 };

	if (!glob(pattern, GLOB_NOSORT, NULL, &g))
		for (size_t i = 0; i < g.gl_pathc; i++)
			if (is_users(g.gl_pathv[i]))
				add_place(p, g.gl_pathv[i]);
	globfree(&g);
}

/* The order is: the host's directory first, then those of this user, then for root those of all
 * others. own and nown mark this user's; without a configured directory a plain user has none
 * in the host's. */
void rr_places_find(struct rr_places *p, const char *configured)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	uid_t me = geteuid();
	char dir[RR_RUN_PATH];

	*p = (struct rr_places){ 0 };
	rr_fmt(p->host, sizeof(p->host), "%s", configured[0] ? configured : RR_RUN_DIR);
	add_place(p, p->host);
	p->own = !configured[0] && me;	/* behind the host's, or the host's itself */
	for (unsigned n = 0; rr_rundir_place(configured, xdg, me, n, dir); n++)
		add_place(p, dir);
	p->nown = p->n - p->own;
	if (!configured[0] && me == 0) {
		add_matches(p, RR_RUN_DIR "/[1-9]*[0-9]");
		add_matches(p, RR_RUN_DIR "/[1-9]");
		add_matches(p, "/run/user/*/rdmarpc");
	}
}

/* Of another user's place only its absence is told; its rights are that user's to choose. */
const char *rr_places_fault(const struct rr_places *p, uint32_t i)
{
	const char *fault = rr_rundir_fault(p->dir[i]);

	if (i >= p->own && i < p->own + p->nown)
		return fault;
	return fault && !strcmp(fault, RR_RUNDIR_MISSING) ? fault : NULL;	/* others' */
}

void rr_places_fini(struct rr_places *p)
{
	free(p->dir);
	*p = (struct rr_places){ 0 };
}

void rr_places_read(const struct rr_places *p, struct rr_procs *all, const int *pids,
		    uint32_t npids)
{
	for (uint32_t i = 0; i < p->n; i++)
		rr_procs_read(all, p->dir[i], pids, npids);
	rr_procs_scan(all, p->host, pids, npids);
}
