/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes results as text, JSON and JUnit XML, in the same order. The text is for people, and
 * leaves out skipped cases unless they are asked for; the others are for programs. */

#include "tools/conform/results.h"

static const char *const verdicts[] = {
	[RR_PASS] = "pass", [RR_FAIL] = "FAIL", [RR_SKIP] = "skip", [RR_DIFFERS] = "differs",
	[RR_UNREACHED] = "UNREACHED",
};

uint32_t rr_results_count(const struct rr_results *r, enum rr_verdict v, int level)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->n; i++)
		n += r->result[i].verdict == v &&
			(level < 0 || (int)r->result[i].c->level == level);
	return n;
}

/* Sections are compared as versions are, so that 4.10 comes after 4.9. A case stands where its
 * first requirement does. */
static int by_section(const void *va, const void *vb)
{
	const struct rr_case *a = ((const struct rr_result *)va)->c,
				  *b = ((const struct rr_result *)vb)->c;
	const struct rr_requirement *x = a->requires, *y = b->requires;
	int d = strcmp(x->document, y->document);

	d = d ? d : strverscmp(x->section, y->section);
	d = d ? d : (int)x->ordinal - (int)y->ordinal;
	return d ? d : strcmp(a->name, b->name);
}

void rr_results_sort(struct rr_results *r)
{
	qsort(r->result, r->n, sizeof(*r->result), by_section);
}

/* --- text --- */

/* Writes a requirement as "4.5.2 #1". */
static void section(const struct rr_requirement *q, char *out, size_t cap)
{
	if (q->ordinal)
		snprintf(out, cap, "%s #%u", q->section, q->ordinal);
	else
		snprintf(out, cap, "%s", q->section);
}

/* A line for the case; if it did not pass, the place in its file, the reason and the
 * messages. */
static void text_result(const struct rr_result *r, FILE *to)
{
	char where[32];

	section(r->c->requires, where, sizeof(where));
	fprintf(to, "  %-9s %-12s %-7s %s\n", verdicts[r->verdict], where,
		rr_level_names[r->c->level], r->c->title);
	if (r->verdict == RR_PASS || r->verdict == RR_SKIP)
		return;
	if (r->line)
		fprintf(to, "            %s:%d: %s\n", r->c->path, r->line, r->why);
	else
		fprintf(to, "            %s: %s\n", r->c->path, r->why);
	if (r->trace)
		fputs(r->trace, to);
}

static void text_sums(const struct rr_results *r, FILE *to)
{
	fputc('\n', to);
	for (int level = RR_MUST; level <= RR_MAY; level++)
		fprintf(to, "%-6s  %3u pass, %u fail, %u differ as expected\n",
			rr_level_names[level],
			rr_results_count(r, RR_PASS, level),
			rr_results_count(r, RR_FAIL, level),
			rr_results_count(r, RR_DIFFERS, level));
	fprintf(to, "%u cases were skipped, in %u the peer was not reached\n",
		rr_results_count(r, RR_SKIP, -1), rr_results_count(r, RR_UNREACHED, -1));
}

static void print_text(const struct rr_results *r, FILE *to)
{
	const char *document = "";

	fprintf(to, "%s, dialect %s\n", r->peer, rr_dialect_names[r->dialect]);
	for (uint32_t i = 0; i < r->n; i++) {
		const struct rr_result *x = &r->result[i];

		if (x->verdict == RR_SKIP && !r->skipped)
			continue;
		if (strcmp(document, x->c->requires->document) != 0) {
			document = x->c->requires->document;
			fprintf(to, "\n%s\n", document);
		}
		text_result(x, to);
	}
	text_sums(r, to);
}

/* --- JSON --- */

static void put_json_text(const char *s, FILE *to)
{
	fputc('"', to);
	for (; *s; s++)
		if (*s == '"' || *s == '\\')
			fprintf(to, "\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			fprintf(to, "\\u%04x", *s);
		else
			fputc(*s, to);
	fputc('"', to);
}

static void json_member(const char *name, const char *value, FILE *to)
{
	put_json_text(name, to);
	fputc(':', to);
	put_json_text(value, to);
}

/* A case has at least one requirement (head()), so the last one closes the list. */
static void json_requirements(const struct rr_requirement *q, FILE *to)
{
	fputs(",\"requires\":[", to);
	for (; q; q = q->next) {
		fputc('{', to);
		json_member("document", q->document, to);
		fputc(',', to);
		json_member("section", q->section, to);
		fprintf(to, ",\"ordinal\":%u}%s", q->ordinal, q->next ? "," : "]");
	}
}

static void json_result(const struct rr_result *r, FILE *to)
{
	fputc('{', to);
	json_member("case", r->c->name, to);
	fputc(',', to);
	json_member("title", r->c->title, to);
	fputc(',', to);
	json_member("level", rr_level_names[r->c->level], to);
	fputc(',', to);
	json_member("verdict",
		    r->verdict == RR_FAIL ? "fail" : r->verdict == RR_UNREACHED ? "unreached" :
		    verdicts[r->verdict], to);
	json_requirements(r->c->requires, to);
	if (*r->why) {
		fputc(',', to);
		json_member("why", r->why, to);
		fprintf(to, ",\"line\":%d", r->line);
	}
	fprintf(to, ",\"seconds\":%.3f}", r->seconds);
}

static void print_json(const struct rr_results *r, FILE *to)
{
	fputc('{', to);
	json_member("peer", r->peer, to);
	fputc(',', to);
	json_member("dialect", rr_dialect_names[r->dialect], to);
	fputs(",\"cases\":[", to);
	for (uint32_t i = 0; i < r->n; i++) {
		json_result(&r->result[i], to);
		fputs(i + 1 < r->n ? ",\n" : "", to);
	}
	fputs("]}\n", to);
}

/* --- JUnit --- */

/* Escapes what XML gives a meaning, for text and for attributes alike. */
static void xml_text(const char *s, FILE *to)
{
	for (; *s; s++)
		switch (*s) {
		case '<': fputs("&lt;", to); break;
		case '>': fputs("&gt;", to); break;
		case '&': fputs("&amp;", to); break;
		case '"': fputs("&quot;", to); break;
		default: fputc(*s, to);
		}
}

/* Only a failed MUST is a failure in JUnit; what else has failed is reported as output. */
static void junit_result(const struct rr_result *r, FILE *to)
{
	const char *element = r->verdict == RR_SKIP || r->verdict == RR_DIFFERS ? "skipped" :
			      r->verdict == RR_UNREACHED ? "error" :
			      r->verdict == RR_FAIL &&
				      r->c->level == RR_MUST ? "failure" : NULL;

	fprintf(to, "<testcase classname=\"%s.%s\" name=\"", r->c->requires->document,
		r->c->requires->section);
	xml_text(r->c->title, to);
	fprintf(to, "\" time=\"%.3f\">", r->seconds);
	if (element) {
		fprintf(to, "<%s message=\"", element);
		xml_text(r->why, to);
		fputs("\"/>", to);
	}
	if (r->trace) {
		fputs("<system-out>", to);
		xml_text(r->trace, to);
		fputs("</system-out>", to);
	}
	fputs("</testcase>\n", to);
}

static void print_junit(const struct rr_results *r, FILE *to)
{
	fprintf(to,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"rdmarpc-conform "
		"%s\" tests=\"%u\" "
		"failures=\"%u\" errors=\"%u\" skipped=\"%u\">\n", rr_dialect_names[r->dialect],
		r->n,
		rr_results_count(r, RR_FAIL, RR_MUST), rr_results_count(r, RR_UNREACHED, -1),
		rr_results_count(r, RR_SKIP, -1) + rr_results_count(r, RR_DIFFERS, -1));
	for (uint32_t i = 0; i < r->n; i++)
		junit_result(&r->result[i], to);
	fputs("</testsuite>\n", to);
}

void rr_results_print(const struct rr_results *r, enum rr_format format, FILE *to)
{
	static void (*const print[])(const struct rr_results *r, FILE *to) = {
		[RR_TEXT] = print_text, [RR_JSON] = print_json, [RR_JUNIT] = print_junit,
	};

	print[format](r, to);
}
