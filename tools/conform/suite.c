/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds case files, reads them, and plays them one after the other, for a report or for a
 * self-test. */

#include "tools/conform/suite.h"

#include <err.h>
#include <errno.h>
#include <fts.h>
#include <sys/stat.h>

#define CASE_MAX	(1u << 20)	/* bytes of a file */

/* --- cases --- */

/* Reads a file into memory that the caller frees, with a NUL behind it. A file that is longer
 * than CASE_MAX is cut there, and its last line will hardly parse. NULL: err says why. */
static char *read_case_file(const char *path, size_t *len, char *err, size_t cap)
{
	FILE *f = fopen(path, "re");
	char *text = malloc(CASE_MAX + 1);

	if (!f || !text) {
		snprintf(err, cap, "%s: %s", path, strerror(errno));
		free(text);
		text = NULL;
	} else {
		*len = fread(text, 1, CASE_MAX, f);
		text[*len] = '\0';
	}
	if (f)
		fclose(f);
	return text;
}

static bool add_file(struct rr_suite *s, const char *path, char *err, size_t cap)
{
	size_t len = 0;
	char *text = read_case_file(path, &len, err, cap);
	struct rr_case *c = text ? rr_case_parse(path, text, len, err, cap) : NULL;
	struct rr_case **grown;

	free(text);
	if (!c)
		return false;
	grown = reallocarray(s->c, s->n + 1, sizeof(*s->c));
	if (!grown) {
		snprintf(err, cap, "%s: out of memory", path);
		rr_case_free(c);
		return false;
	}
	s->c = grown;
	s->c[s->n++] = c;
	return true;
}

/* The order of cases must not depend on the file system. */
static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool is_case(const FTSENT *e)
{
	return e->fts_info == FTS_F && e->fts_namelen > 5 &&
	       !strcmp(e->fts_name + e->fts_namelen - 5, ".case");
}

/* The first case that cannot be parsed ends the search: a suite with a gap would judge less
 * than it says. Links are not followed. */
bool rr_suite_add(struct rr_suite *s, const char *path, char *err, size_t cap)
{
	char *roots[] = { (char *)(uintptr_t)path, NULL };
	uint32_t before = s->n;
	bool ok = true;
	struct stat st;
	FTS *fts;

	if (!stat(path, &st) && S_ISREG(st.st_mode))
		return add_file(s, path, err, cap);
	fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
	for (FTSENT *e; ok && fts && (e = fts_read(fts));)
		if (is_case(e))
			ok = add_file(s, e->fts_path, err, cap);
	if (fts)
		fts_close(fts);
	if (ok && s->n == before)
		snprintf(err, cap, "%s: no cases there", path);
	return ok && s->n > before;
}

void rr_suite_free(struct rr_suite *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		rr_case_free(s->c[i]);
	free(s->c);
	*s = (struct rr_suite){ 0 };
}

/* --- known differences --- */

/* Splits the line at its first ": ". NULL: *why says why. */
static struct rr_known *known_line(char *line, const char **why)
{
	char *colon = strstr(line, ": ");
	struct rr_known *k = colon ? calloc(1, sizeof(*k)) : NULL;

	*why = colon ? "out of memory" : "should be 'CASE: REASON'";
	if (!k)
		return NULL;
	*colon = '\0';
	k->name = strdup(line);
	k->reason = strdup(colon + 2);
	if (k->name && k->reason)
		return k;
	rr_known_free(k);
	return NULL;
}

bool rr_known_read(struct rr_known **list, const char *path, char *err, size_t cap)
{
	size_t len = 0;
	char *text = read_case_file(path, &len, err, cap), *rest = text, *line;
	bool ok = text != NULL;
	const char *why;
	int n = 0;

	while ((line = strsep(&rest, "\n"))) {
		n++;
		if (!*line || *line == '#')
			continue;
		*list = known_line(line, &why);
		if (!*list) {
			snprintf(err, cap, "%s:%d: %s", path, n, why);
			free(text);
			return false;
		}
		list = &(*list)->next;
	}
	free(text);
	return ok;
}

void rr_known_apply(const struct rr_known *k, struct rr_result *r)
{
	while (k && strcmp(k->name, r->c->name) != 0)
		k = k->next;
	if (!k)
		return;
	if (r->verdict == RR_FAIL) {
		r->verdict = RR_DIFFERS;
		snprintf(r->why, sizeof(r->why), "%s", k->reason);
	} else if (r->verdict == RR_PASS) {
		r->verdict = RR_FAIL;
		snprintf(r->why, sizeof(r->why),
			 "is listed as a known difference, and is none");
	}
}

void rr_known_free(struct rr_known *k)
{
	while (k) {
		struct rr_known *next = k->next;

		free(k->name);
		free(k->reason);
		free(k);
		k = next;
	}
}

/* --- playing --- */

/* One listener serves all cases of a requester; *from stays NULL for a responder. */
static const char *listen_for(const struct rr_options *o, struct rr_link_listener **from)
{
	const char *why;

	*from = NULL;
	if (o->role != RR_REQUESTER)
		return NULL;
	why = rr_link_listen(from, &o->link);
	if (why) {
		rr_link_unlisten(*from);
		*from = NULL;
	}
	return why;
}

/* On success r->result belongs to the caller. */
const char *rr_suite_run(const struct rr_suite *s, const struct rr_options *o,
			 const struct rr_known *k, struct rr_results *r)
{
	struct rr_link_listener *from;
	const char *why;

	r->result = calloc(s->n, sizeof(*r->result));
	if (!r->result)
		return "out of memory";
	why = listen_for(o, &from);
	if (why) {
		free(r->result);
		return why;
	}
	for (r->n = 0; r->n < s->n; r->n++) {
		rr_run_case(o, s->c[r->n], from, &r->result[r->n]);
		rr_known_apply(k, &r->result[r->n]);
	}
	if (from)
		rr_link_unlisten(from);
	rr_results_sort(r);
	return NULL;
}

/* Plays one case and tells one lie to one of its expectations. A verdict other than RR_FAIL
 * means that the lie was believed, unless it could not be told at all. */
static void lie_to(const struct rr_options *o, const struct rr_case *c,
		   struct rr_link_listener *from, FILE *log, struct rr_tested *t)
{
	static const char *const told[RR_LIES] = {
		[RR_LIE_XID] = "another XID", [RR_LIE_VERSION] = "another version",
		[RR_LIE_CREDIT] = "a credit of zero", [RR_LIE_KIND] = "another type",
		[RR_LIE_NEXT] = "another error, or chunk lists that cannot be decoded",
		[RR_LIE_HANDLE] = "a chunk with another handle",
		[RR_LIE_LENGTH] = "a chunk of one byte",
		[RR_LIE_OFFSET] = "a chunk at another offset",
	};
	struct rr_result r;

	rr_run_case(o, c, from, &r);
	free(r.trace);
	t->lies += r.lied;
	if (!r.lied || r.verdict == RR_FAIL)
		return;
	t->believed++;
	fprintf(log, "%s: expectation %u: not noticed: %s\n", c->path, o->lie_at, told[o->lie]);
}

/* Plays the case honestly, with probes. Returns true if it passes: only then can it be seen to
 * fail. `honest` is the result, which says how many expectations there are and which lies can
 * be told. */
static bool passes(const struct rr_options *o, const struct rr_case *c,
		   struct rr_link_listener *from,
		   const struct rr_known *k, FILE *log, struct rr_tested *t,
		   struct rr_result *honest)
{
	struct rr_options probing = *o;
	struct rr_result r;

	probing.probe = true;
	rr_run_case(&probing, c, from, &r);
	rr_known_apply(k, &r);
	free(r.trace);
	t->changes += r.probed;
	*honest = r;
	if (r.verdict != RR_PASS && r.verdict != RR_SKIP && r.verdict != RR_DIFFERS) {
		t->failed++;
		fprintf(log, "%s:%d: fails though nobody lies: %s\n", c->path, r.line, r.why);
	}
	return r.verdict == RR_PASS;
}

/* Each lie is a run of its own, because the case is over once it has failed. */
const char *rr_suite_self_test(const struct rr_suite *s, const struct rr_options *o,
			       const struct rr_known *k, FILE *log, struct rr_tested *t)
{
	struct rr_options liar = *o;
	struct rr_link_listener *from;
	const char *why = listen_for(o, &from);

	if (why)
		return why;
	for (uint32_t i = 0; i < s->n; i++) {
		struct rr_result honest;

		if (!passes(o, s->c[i], from, k, log, t, &honest))
			continue;
		for (liar.lie_at = 1; liar.lie_at <= honest.expectations; liar.lie_at++)
			for (liar.lie = RR_LIE_XID; liar.lie < RR_LIES; liar.lie++)
				if (honest.lies[liar.lie_at - 1] & 1u << liar.lie)
					lie_to(&liar, s->c[i], from, log, t);
	}
	if (from)
		rr_link_unlisten(from);
	return NULL;
}
