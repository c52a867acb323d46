/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects findings, and prints them as text or JSON. The order in which they are found is the
 * order of the report. Texts are bounded and cleaned when they are added, so that what comes
 * from a peer, a log or a file name cannot disturb a terminal. */
#include <err.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check/check.h"

static const char *const verdicts[] = { "ok", "note", "warning", "problem" };

/* Replaces everything but printable ASCII, in place. */
static void clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || (unsigned char)*text >= 0x7f)
			*text = '?';
}

/* A text that is too long is cut. Ends the program with status 2 if there is no memory. */
void rr_find(struct rr_findings *to, enum rr_finding_kind v, const char *what, const char *fmt,
	     ...)
{
	struct rr_finding *f;
	va_list ap;

	to->f = reallocarray(to->f, to->n + 1, sizeof(*to->f));
	if (!to->f)
		err(2, NULL);
	f = &to->f[to->n++];
	*f = (struct rr_finding){ .verdict = v };
	snprintf(f->what, sizeof(f->what), "%s", what);
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	clean(f->text);
}

/* There must be a finding already; its advice is replaced. */
void rr_advise(struct rr_findings *to, const char *fmt, ...)
{
	struct rr_finding *f = &to->f[to->n - 1];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->advice, sizeof(f->advice), fmt, ap);
	va_end(ap);
	clean(f->advice);
}

bool rr_any(const struct rr_findings *all, enum rr_finding_kind v)
{
	for (unsigned i = 0; i < all->n; i++)
		if (all->f[i].verdict >= v)
			return true;
	return false;
}

/* Writes the words of text in lines of up to 96 columns; all lines but the first are
 * indented. */
static void put_wrapped(FILE *to, const char *text, unsigned indent)
{
	unsigned at = indent;

	while (*text) {
		unsigned n = (unsigned)strcspn(text, " ");

		if (at > indent && at + 1 + n > 96) {
			fprintf(to, "\n%*s", (int)indent, "");
			at = indent;
		}
		at += (unsigned)fprintf(to, "%s%.*s", at > indent ? " " : "", (int)n, text);
		text += n;
		text += strspn(text, " ");
	}
	fputc('\n', to);
}

/* Verdict and step are columns; text and advice are wrapped beside them. */
void rr_findings_print(FILE *to, const char *title, const struct rr_findings *all)
{
	fprintf(to, "%s\n", title);
	for (unsigned i = 0; i < all->n; i++) {
		const struct rr_finding *f = &all->f[i];

		fprintf(to, "  %-8s%-15s ", verdicts[f->verdict], f->what);
		put_wrapped(to, f->text, 26);
		if (*f->advice) {
			fprintf(to, "%24s> ", "");
			put_wrapped(to, f->advice, 26);
		}
	}
}

/* Escapes quotes and backslashes only: the text has to be clean otherwise. */
void rr_check_json_text(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', to);
		fputc(*text, to);
	}
	fputc('"', to);
}

void rr_findings_json(FILE *to, const struct rr_findings *all)
{
	fputc('[', to);
	for (unsigned i = 0; i < all->n; i++) {
		const struct rr_finding *f = &all->f[i];

		fprintf(to, "%s{\"step\":", i ? "," : "");
		rr_check_json_text(to, f->what);
		fprintf(to, ",\"verdict\":\"%s\",\"text\":", verdicts[f->verdict]);
		rr_check_json_text(to, f->text);
		fputs(",\"advice\":", to);
		rr_check_json_text(to, f->advice);
		fputc('}', to);
	}
	fputc(']', to);
}
