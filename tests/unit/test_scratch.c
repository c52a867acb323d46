/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/scratch.h"

/* Is there memory where the piece was? */
static bool is_mapped(void *mem)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	return !msync((void *)((uintptr_t)mem & ~(page - 1)), page, MS_ASYNC);
}

Test(scratch, what_was_given_back_is_taken_again)
{
	void *first = rr_scratch_take(100);

	rr_scratch_give(first);
	cr_assert_eq(rr_scratch_take(200), first);
	cr_assert_neq(rr_scratch_take(100), first, "it is in use");
}

Test(scratch, a_large_piece_is_not_kept)
{
	void *large = rr_scratch_take(2 << 20);

	rr_scratch_give(large);
	cr_assert_not(is_mapped(large));
}

Test(scratch, a_few_pieces_are_kept)
{
	void *mem[6];
	int kept = 0;

	for (int i = 0; i < 6; i++)
		mem[i] = rr_scratch_take(100);
	for (int i = 0; i < 6; i++)
		rr_scratch_give(mem[i]);
	for (int i = 0; i < 6; i++)
		kept += is_mapped(mem[i]);
	cr_assert_eq(kept, 4);
}

Test(scratch, no_memory_for_it_is_no_error_of_the_apps)
{
	errno = EXDEV;
	cr_assert_null(rr_scratch_take(SIZE_MAX / 5), "larger than any address space");
	cr_assert_eq(errno, EXDEV);
	cr_assert_null(rr_scratch_take(SIZE_MAX / 3), "the next power of two would go round");
	cr_assert_eq(errno, EXDEV);
}
