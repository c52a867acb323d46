/* SPDX-License-Identifier: BSD-3-Clause */
/* rdmarpc-conform's list of cases where memory is scarce. What plays a case stands below, and calloc() and
 * reallocarray() fail on demand: the linker wraps them (Makefile). */
#include "tools/conform/suite.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

void *__real_calloc(size_t n, size_t size);
void *__real_reallocarray(void *p, size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);

static bool scarce;
static int listeners;

void *__wrap_calloc(size_t n, size_t size)
{
	return scarce ? NULL : __real_calloc(n, size);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	return scarce ? NULL : __real_reallocarray(p, n, size);
}

struct rr_case *rr_case_parse(const char *path, const char *text, size_t len, char *err, size_t cap)
{
	(void)path, (void)text, (void)len, (void)err, (void)cap;
	return __real_calloc(1, sizeof(struct rr_case));
}

void rr_case_free(struct rr_case *c)
{
	free(c);
}

const char *rr_link_listen(struct rr_link_listener **out, const struct rr_link_params *p)
{
	(void)p;
	*out = __real_calloc(1, sizeof(**out));
	listeners++;
	return NULL;
}

void rr_link_unlisten(struct rr_link_listener *l)
{
	listeners--;
	free(l);
}

void rr_run_case(const struct rr_options *o, const struct rr_case *c, struct rr_link_listener *from, struct rr_result *out)
{
	(void)o, (void)c;
	cr_assert_not_null(from);
	out->verdict = RR_PASS;
}

void rr_results_sort(struct rr_results *r)
{
	(void)r;
}

/* A file of the text, gone with the test's process. */
static const char *a_file(const char *text)
{
	static char path[40];
	FILE *f = tmpfile();

	cr_assert_not_null(f);
	fputs(text, f);
	fflush(f);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(f));
	return path;
}

Test(conform_suite, a_case_for_which_there_is_no_memory_is_an_error_with_a_reason)
{
	const char *path = a_file("");
	struct rr_suite s = { 0 };
	char why[200] = "";

	cr_assert(rr_suite_add(&s, path, why, sizeof(why)), "%s", why);
	scarce = true;
	cr_assert_not(rr_suite_add(&s, path, why, sizeof(why)));
	scarce = false;
	cr_assert(strstr(why, "out of memory"), "'%s'", why);
	cr_assert_eq(s.n, 1, "and those before are still there");
	cr_assert(rr_suite_add(&s, path, why, sizeof(why)), "%s", why);
	cr_assert_eq(s.n, 2);
	rr_suite_free(&s);
}

Test(conform_suite, results_for_which_there_is_no_memory_leave_no_listener)
{
	struct rr_options o = { .role = RR_REQUESTER };
	struct rr_results r = { 0 };
	struct rr_suite s = { 0 };
	const char *why;
	char text[200];

	cr_assert(rr_suite_add(&s, a_file(""), text, sizeof(text)), "%s", text);
	scarce = true;
	why = rr_suite_run(&s, &o, NULL, &r);
	scarce = false;
	cr_assert_str_eq(why, "out of memory");
	cr_assert_eq(listeners, 0);
	cr_assert_null(rr_suite_run(&s, &o, NULL, &r));
	cr_assert_eq(listeners, 0);
	cr_assert_eq(r.n, 1);
	free(r.result);
	rr_suite_free(&s);
}

Test(conform_suite, known_differences_for_which_there_is_no_memory_are_not_called_malformed)
{
	const char *path = a_file("# none\ncase: reason\n");
	struct rr_known *k = NULL;
	char why[200] = "";

	scarce = true;
	cr_assert_not(rr_known_read(&k, path, why, sizeof(why)));
	scarce = false;
	cr_assert(strstr(why, "out of memory"), "'%s'", why);
	cr_assert(rr_known_read(&k, path, why, sizeof(why)), "%s", why);
	cr_assert_str_eq(k->reason, "reason");
	rr_known_free(k);
}
