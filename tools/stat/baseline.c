/* SPDX-License-Identifier: BSD-3-Clause */
/* The file that rdmarpc-stat --reset leaves, and what to show since then. The file is one
 * user's and has only that user's view: processes count on, and other users and programs see
 * their full counts. docs/decisions/0023-reset.md says why. */
#include "tools/stat/baseline.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/stat/ownfile.h"

#define MAGIC	"rdmarpc-stat reset " RR_VERSION
#define NAME	"reset"
#define PROCS	65536u	/* no more are read */

/* The file: this, then for each process a struct rr_proc without its pointers, and its tallies.
 * It is read by the release that wrote it. */
struct head {
	char magic[48];
	uint32_t proc_size, tally_size, n;
	int32_t pad;
	int64_t when;		/* seconds since 1970 */
};

/* Root's file has no uid behind its name, as with the stop file. */
static void file_name(char name[RR_RUN_NAME])
{
	uid_t me = geteuid();

	if (me)
		snprintf(name, RR_RUN_NAME, NAME ".%u", (unsigned)me);
	else
		snprintf(name, RR_RUN_NAME, NAME);
}

/* --- reading --- */

/* Opens the file for reading if it is our own and has only one name. Otherwise another user
 * could put a file, or a link to one of ours, in its place. Returns NULL if there is none that
 * can be trusted. */
static FILE *open_noted(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	FILE *f = NULL;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    st.st_nlink == 1)
		f = fdopen(fd, "r");
	if (fd >= 0 && !f)
		close(fd);
	return f;
}

/* Reads a process and its tallies. Pointers in the file mean nothing and are replaced. The
 * number of tallies is checked before memory is allocated for them. */
static bool read_proc(FILE *f, struct rr_proc *p)
{
	bool whole = fread(p, sizeof(*p), 1, f) == 1;

	p->conns = NULL;	/* also of half a process: the caller frees it */
	p->nconns = 0;
	p->tallies = NULL;
	if (!whole || p->ntallies > RR_PROC_TALLIES)
		return false;
	p->tallies = rr_grow_array(NULL, p->ntallies + 1, sizeof(*p->tallies));
	return fread(p->tallies, sizeof(*p->tallies), p->ntallies, f) == p->ntallies;
}

/* Reads the file in place of what was read before, unless that is newer. The structures are
 * stored as they are in memory, so a file of another release is refused; a file that ends early
 * gives those processes that are complete. */
static void read_procs(FILE *f, const char *dir, struct rr_procs *was, int64_t *when)
{
	struct head h;

	if (fread(&h, sizeof(h), 1, f) != 1 || strncmp(h.magic, MAGIC, sizeof(h.magic)) ||
	    h.proc_size != sizeof(struct rr_proc) ||
	    h.tally_size != sizeof(struct rr_proc_tally) || h.n > PROCS) {
		warnx("what --reset has left in %s is of another release", dir);
		return;
	}
	if (h.when < *when)
		return;
	*when = h.when;
	rr_procs_fini(was);
	was->p = calloc(h.n + 1, sizeof(*was->p));
	if (!was->p)
		err(1, NULL);
	for (bool ok = true; ok && was->n < h.n; was->n += ok) {
		ok = read_proc(f, &was->p[was->n]);
		if (!ok)
			rr_proc_fini(&was->p[was->n]);
	}
}

/* Reads the newest such file of all places; returns no processes if there is none. The caller
 * frees the result by rr_procs_fini(). */
static struct rr_procs load_noted(const struct rr_places *places)
{
	struct rr_procs was = { 0 };
	char name[RR_RUN_NAME];
	int64_t when = 0;

	file_name(name);
	for (uint32_t i = 0; i < places->n; i++) {
		int dir = rr_rundir_open(places->dir[i], NULL);
		FILE *f = dir < 0 ? NULL : open_noted(dir, name);

		if (f) {
			read_procs(f, places->dir[i], &was, &when);
			fclose(f);
		}
		if (dir >= 0)
			close(dir);
	}
	return was;
}

/* The same process in what was noted, or NULL. Pids are used again: the start time and the
 * segment's age tell processes with the same pid apart. */
static const struct rr_proc *noted(const struct rr_procs *was, const struct rr_proc *p)
{
	for (uint32_t i = 0; i < was->n; i++) {
		const struct rr_proc *w = &was->p[i];

		if (w->pid == p->pid && w->ticks == p->ticks && w->since_ns == p->since_ns &&
		    w->uid == p->uid)
			return w;
	}
	return NULL;
}

/* --- writing --- */

static bool is_to_be_noted(const struct rr_proc *p, const int *pids, uint32_t npids)
{
	for (uint32_t i = 0; i < npids; i++)
		if (p->pid == pids[i])
			return true;
	return !npids;
}

/* Connections are not written: counts since a reset are shown for processes only. */
static void write_proc(FILE *f, const struct rr_proc *p)
{
	struct rr_proc plain = *p;

	plain.conns = NULL;
	plain.nconns = 0;
	plain.tallies = NULL;
	fwrite(&plain, sizeof(plain), 1, f);
	if (p->ntallies)	/* without any there is no array */
		fwrite(p->tallies, sizeof(*p->tallies), p->ntallies, f);
}

/* The head is written twice, since the number of processes is known only at the end. Processes
 * that were not asked for keep what was noted of them before. */
static void write_procs(FILE *f, const struct rr_procs *all, const struct rr_procs *was,
			const int *pids, uint32_t npids)
{
	struct head h = { .magic = MAGIC, .proc_size = sizeof(struct rr_proc),
			  .tally_size = sizeof(struct rr_proc_tally), .when = time(NULL) };
	const struct rr_proc *p;

	fwrite(&h, sizeof(h), 1, f);
	for (uint32_t i = 0; i < all->n && h.n < PROCS; i++) {
		p = &all->p[i];
		if (!is_to_be_noted(p, pids, npids))
			p = noted(was, p);
		if (p)
			write_proc(f, p);
		h.n += p != NULL;
	}
	rewind(f);
	fwrite(&h, sizeof(h), 1, f);
}

/* The file is complete before it gets its name, so that a reader never sees half of it. */
void rr_baseline_save(const struct rr_places *places, const char *configured,
		      const struct rr_procs *all, const int *pids, uint32_t npids)
{
	char path[RR_RUN_PATH + RR_RUN_NAME], place[RR_RUN_PATH];
	char name[RR_RUN_NAME], hidden[RR_RUN_NAME];
	struct rr_procs was = { 0 };
	int dir, failed;
	FILE *f;

	if (npids)
		was = load_noted(places);
	if (!rr_rundir_find(configured, getenv("XDG_RUNTIME_DIR"), place) ||
	    (dir = rr_rundir_open(place, NULL)) < 0)
		errx(1, "no run directory that can be used");
	file_name(name);
	snprintf(path, sizeof(path), "%s/%s", place, name);
	f = fdopen(rr_ownfile_make(dir, NAME, hidden), "w");
	if (!f)
		err(1, "%s", path);
	write_procs(f, all, &was, pids, npids);
	failed = ferror(f);
	if (fclose(f) || failed) {
		warn("%s", path);
		unlinkat(dir, hidden, 0);
		exit(1);
	}
	rr_ownfile_put(dir, hidden, path, name);
	close(dir);
	rr_procs_fini(&was);
}

/* --- what is left --- */

/* Subtracts what was noted. A count that is lower than before is not the one that was noted,
 * and stays as it is. */
static void take_off(uint64_t *now, const uint64_t *was, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		now[i] = now[i] < was[i] ? now[i] : now[i] - was[i];
}

static void take_off_tally(struct rr_proc_tally *t, const struct rr_proc_tally *w)
{
	take_off(t->count, w->count, rr_array_size(t->count));
	take_off(t->hist, w->hist, RR_STAT_HIST);
}

/* Has nothing been counted since the reset? Histograms count replies, so a call that was made
 * before and answered after the reset is news, too. */
static bool is_quiet_tally(const struct rr_proc_tally *t)
{
	uint64_t any = t->calls | t->errors;

	for (unsigned i = 0; i < RR_STAT_HIST; i++)
		any |= t->hist[i];
	return !any;
}

/* Subtracts the tallies of w from those of p, and removes tallies without anything new. */
static void take_off_tallies(struct rr_proc *p, const struct rr_proc *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->ntallies; i++) {
		struct rr_proc_tally *t = &p->tallies[i];

		for (uint32_t k = 0; k < w->ntallies; k++)
			if (!rr_proc_tally_order(t, &w->tallies[k]))
				take_off_tally(t, &w->tallies[k]);
		if (!is_quiet_tally(t)) {
			if (n != i)
				p->tallies[n] = *t;
			n++;
		}
	}
	p->ntallies = n;
}

/* Processes that were not there at the reset keep all that they have counted: all of it is
 * new. */
void rr_baseline_apply(const struct rr_places *places, struct rr_procs *all)
{
	struct rr_procs was = load_noted(places);

	for (uint32_t i = 0; i < all->n; i++) {
		struct rr_proc *p = &all->p[i];
		const struct rr_proc *w = noted(&was, p);

		if (!w)
			continue;
		take_off(p->carriers, w->carriers, RR_CARRIER_COUNT);
		take_off(p->reasons, w->reasons, RR_STAT_REASONS);
		take_off(p->count, w->count, RR_C_COUNT);
		take_off(p->hist, w->hist, RR_STAT_HIST);
		take_off_tallies(p, w);
	}
	rr_procs_fini(&was);
}
