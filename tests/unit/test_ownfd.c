/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>

#include "core/base/ownfd.h"

Test(ownfd, the_next_one_is_found_across_words)
{
	static const int fd[] = { 0, 63, 64, 700, 65535, (1 << 20) - 1 };

	cr_assert_eq(rr_ownfd_next(0), -1);
	for (unsigned i = 0; i < 6; i++)
		rr_ownfd_set(fd[i], true);
	for (unsigned i = 0; i < 6; i++) {
		cr_assert_eq(rr_ownfd_next(i ? fd[i - 1] + 1 : -5), fd[i]);
		cr_assert(rr_ownfd_is(fd[i]));
	}
	cr_assert_eq(rr_ownfd_next(1 << 20), -1);
	rr_ownfd_set(64, false);
	cr_assert_eq(rr_ownfd_next(64), 700);
	cr_assert(!rr_ownfd_is(64));
}

Test(ownfd, numbers_out_of_range_are_nobodys)
{
	rr_ownfd_set(-1, true);
	rr_ownfd_set(1 << 20, true);
	cr_assert(!rr_ownfd_is(-1));
	cr_assert(!rr_ownfd_is(1 << 20));
	cr_assert_eq(rr_ownfd_next(0), -1);
}
