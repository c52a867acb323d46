/* SPDX-License-Identifier: BSD-3-Clause */
/* The syntax of a format (binding.h): where its parts begin and end. What the letters mean is
 * for walk.c and bound.c. Formats are constants of ours, so nothing here checks them. */

#include "core/ulb/walk.h"

static bool opens(char c)
{
	return c == '[' || c == '(' || c == '<' || c == '{';
}

bool rr_format_closes(char c)
{
	return c == ']' || c == ')' || c == '>' || c == '}';
}

/* f must stand at an opening bracket. All kinds of brackets count alike, because formats nest
 * properly. */
const char *rr_format_close(const char *f)
{
	for (uint32_t depth = 0;; f++) {
		depth += opens(*f);
		depth -= rr_format_closes(*f);
		if (depth == 0)
			return f;
	}
}

/* Unions within the arm are skipped as a whole, with their own '|'. */
const char *rr_format_arm_end(const char *f)
{
	for (; *f != '|' && *f != '}'; f++) {
		if (opens(*f))
			f = rr_format_close(f);
	}
	return f;
}

uint64_t rr_format_number(const char **f, uint64_t absent)
{
	uint64_t n = 0;

	if (**f < '0' || **f > '9')
		return absent;
	for (; **f >= '0' && **f <= '9'; (*f)++)
		n = n * 10 + (uint64_t)(**f - '0');
	return n;
}
