/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for the length of one call: what is kept of it, and how much is asked for. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/scratch.h"
#include "tests/lib/mapped.h"

/* The Makefile wraps mmap() and munmap(). */
static size_t mapped, unmapped;		/* the last one's length; 0: none */

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
int __real_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n);

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
	mapped = n;
	return __real_mmap(at, n, prot, flags, fd, off);
}

int __wrap_munmap(void *at, size_t n)
{
	unmapped = n;
	errno = ENOMEM;		/* as where two maps would be too many */
	return __real_munmap(at, n);
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

Test(scratch, what_is_no_size_at_all_has_no_memory)
{
	mapped = 0;
	cr_assert_null(rr_scratch_take(SIZE_MAX - 8), "with the head it would be next to nothing");
	cr_assert_eq(mapped, 0);
}

enum { LEAST_PIECE = 16384, PIECE_HEAD = 16 };

Test(scratch, what_fits_with_its_head_needs_no_more)
{
	char *mem = rr_scratch_take(LEAST_PIECE - PIECE_HEAD);

	cr_assert_not_null(mem);
	cr_assert_eq(mapped, LEAST_PIECE);
	mem[LEAST_PIECE - PIECE_HEAD - 1] = 1;
	cr_assert_not_null(rr_scratch_take(LEAST_PIECE - PIECE_HEAD + 1));
	cr_assert_gt(mapped, LEAST_PIECE);
}

Test(scratch, what_fits_is_taken_again)
{
	void *mem = rr_scratch_take(1);

	rr_scratch_give(mem);
	mapped = 0;
	cr_assert_eq(rr_scratch_take(LEAST_PIECE - PIECE_HEAD), mem);
	cr_assert(!mapped && !unmapped);
}

Test(scratch, what_is_too_small_goes_and_errno_is_left_alone)
{
	void *mem = rr_scratch_take(1);

	rr_scratch_give(mem);
	mapped = 0;
	errno = EXDEV;
	cr_assert_not_null(rr_scratch_take(LEAST_PIECE - PIECE_HEAD + 1));
	cr_assert_gt(mapped, LEAST_PIECE);
	cr_assert_eq(unmapped, LEAST_PIECE);
	cr_assert_eq(errno, EXDEV);
}
