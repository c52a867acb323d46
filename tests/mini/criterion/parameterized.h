/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that run once for each of a table's entries. */
#ifndef MINI_PARAMETERIZED_H
#define MINI_PARAMETERIZED_H

#include <criterion/criterion.h>

#define cr_make_param_array(type, array, n) ((struct mini_params){ sizeof(type), array, n })

#define ParameterizedTestParameters(s, n) static struct mini_params mini_params_##s##_##n(void)

#define ParameterizedTest(param, s, n, ...) \
	static void mini_run_##s##_##n(param); \
	static struct mini_test mini_test_##s##_##n = { .suite = #s, .name = #n, .params = mini_params_##s##_##n, \
							.run_with = (void (*)(void *))mini_run_##s##_##n, \
							.own = { __VA_ARGS__ } }; \
	MINI_ADD(test, mini_test_##s##_##n) \
	static void mini_run_##s##_##n(param)

#endif
