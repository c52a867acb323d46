/* SPDX-License-Identifier: BSD-3-Clause */
/* The macros of Criterion that tests/unit uses, for where Criterion cannot go: under TSan, and on a machine that has no package of
 * it. "make unit HARNESS=mini" puts this in the place of Criterion's headers. Each test runs in a process of its own, one after
 * the other; main.c has the rest. What of Criterion is not here does not compile. */
#ifndef MINI_CRITERION_H
#define MINI_CRITERION_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mini_options {
	void (*init)(void), (*fini)(void);
	double timeout; /* seconds; 0: main.c's */
	bool disabled;
};

struct mini_params {
	size_t size; /* of one parameter */
	void *params;
	size_t length;
};

struct mini_test {
	const char *suite, *name;
	void (*run)(void);                   /* or, for each parameter: */
	void (*run_with)(void *);
	struct mini_params (*params)(void);
	struct mini_options own;
	struct mini_test *next;
};

struct mini_suite {
	const char *name;
	struct mini_options own;
	struct mini_suite *next;
};

/* Called before main(), in the order in which a file has them. */
void mini_add_test(struct mini_test *t);
void mini_add_suite(struct mini_suite *s);

/* A check that does not hold: says so and counts it. Ends the test, after its .fini, if FATAL. */
void mini_failed(bool fatal, const char *file, int line, const char *what, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
_Noreturn void mini_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define MINI_ADD(kind, object) \
	__attribute__((constructor)) static void object##_add(void) { mini_add_##kind(&object); }

#define TestSuite(s, ...) \
	static struct mini_suite mini_suite_##s = { .name = #s, .own = { __VA_ARGS__ } }; \
	MINI_ADD(suite, mini_suite_##s) \
	struct mini_suite /* takes the semicolon */

#define Test(s, n, ...) \
	static void mini_run_##s##_##n(void); \
	static struct mini_test mini_test_##s##_##n = { .suite = #s, .name = #n, .run = mini_run_##s##_##n, \
							.own = { __VA_ARGS__ } }; \
	MINI_ADD(test, mini_test_##s##_##n) \
	static void mini_run_##s##_##n(void)

#define MINI_CHECK(fatal, holds, what, ...) \
	((holds) ? (void)0 : mini_failed(fatal, __FILE__, __LINE__, what, " " __VA_ARGS__))
#define MINI_COMPARE(fatal, a, op, b, ...) MINI_CHECK(fatal, (a)op(b), #a " " #op " " #b, __VA_ARGS__)

#define cr_assert(a, ...) MINI_CHECK(true, a, #a, __VA_ARGS__)
#define cr_assert_not(a, ...) MINI_CHECK(true, !(a), "not " #a, __VA_ARGS__)
#define cr_assert_fail(...) MINI_CHECK(true, false, "not to be here", __VA_ARGS__)
#define cr_assert_null(a, ...) MINI_COMPARE(true, a, ==, NULL, __VA_ARGS__)
#define cr_assert_not_null(a, ...) MINI_COMPARE(true, a, !=, NULL, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) MINI_COMPARE(true, a, ==, b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) MINI_COMPARE(true, a, !=, b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) MINI_COMPARE(true, a, <, b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) MINI_COMPARE(true, a, <=, b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) MINI_COMPARE(true, a, >, b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) MINI_COMPARE(true, a, >=, b, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) MINI_CHECK(true, strcmp(a, b) == 0, #a " is " #b, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) MINI_CHECK(true, memcmp(a, b, n) == 0, #a " is " #b, __VA_ARGS__)

#define cr_expect(a, ...) MINI_CHECK(false, a, #a, __VA_ARGS__)
#define cr_expect_not(a, ...) MINI_CHECK(false, !(a), "not " #a, __VA_ARGS__)
#define cr_expect_null(a, ...) MINI_COMPARE(false, a, ==, NULL, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) MINI_COMPARE(false, a, ==, b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) MINI_COMPARE(false, a, <, b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) MINI_COMPARE(false, a, <=, b, __VA_ARGS__)

#define cr_skip(...) mini_skip(" " __VA_ARGS__)
#define cr_skip_test(...) mini_skip(" " __VA_ARGS__)

#endif
