/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of a share that was freed, for the next one. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/conn/base/base.h"
#include "core/conn/base/spare.h"
#include "tests/lib/mapped.h"

#define SIZE	((size_t)1 << 20)
#define SECOND	((size_t)300 << 10)	/* where the engine begins, in a page */

/* Is page i of it in memory? */
static bool has_page(const struct rr_share *sh, size_t i)
{
	unsigned char vec[SIZE / RR_PAGE];

	cr_assert_eq(mincore((void *)(uintptr_t)sh, SIZE, vec), 0);
	return vec[i];
}

/* A share of which all was used. */
static struct rr_share *used(size_t size)
{
	struct rr_share *sh = rr_spare_take(size);
	uint32_t forks = sh->forks;

	memset(sh, 0xa5, size);
	sh->size = size;
	sh->forks = forks;
	sh->eng = (void *)((uint8_t *)sh + SECOND + 200);
	return sh;
}

static bool is_as_new(const struct rr_share *sh, size_t size)
{
	const uint8_t *p = (const uint8_t *)sh;

	for (size_t i = 0; i < size; i++)
		if (p[i] && (i < offsetof(struct rr_share, size) || i >= offsetof(struct rr_share, forks) + 4))
			return false;
	return sh->size == size;
}

Test(spare, the_next_share_has_the_memory_and_nothing_of_what_was_there)
{
	struct rr_share *sh = used(SIZE);

	rr_spare_leave(sh);
	cr_assert(is_mapped(sh));
	cr_assert(has_page(sh, 0) && has_page(sh, SECOND / RR_PAGE));
	for (size_t i = 1; i < SIZE / RR_PAGE; i++)
		cr_assert(i == SECOND / RR_PAGE || !has_page(sh, i), "page %zu was given back", i);
	cr_assert_eq(rr_spare_take(SIZE), sh);
	cr_assert(is_as_new(sh, SIZE));
	cr_assert_neq(rr_spare_take(SIZE), sh);
}

Test(spare, of_two_one_is_kept)
{
	struct rr_share *a = used(SIZE), *b = used(SIZE);

	rr_spare_leave(a);
	rr_spare_leave(b);
	cr_assert(is_mapped(a) && !is_mapped(b));
}

Test(spare, one_of_another_size_makes_room)
{
	struct rr_share *a = used(SIZE), *b;

	rr_spare_leave(a);
	b = rr_spare_take(SIZE / 2);
	cr_assert(b != a && is_as_new(b, SIZE / 2));
	munmap(b, SIZE / 2);
	cr_assert(!is_mapped((uint8_t *)a + SIZE - RR_PAGE));
}

Test(spare, what_a_child_may_have_is_not_kept)
{
	struct rr_share *a = used(SIZE), *b;

	rr_spare_forks();	/* before the fork */
	b = used(SIZE);		/* by another thread, just before the child is made */
	rr_spare_forks();	/* after it */
	rr_spare_leave(a);
	rr_spare_leave(b);
	cr_assert(!is_mapped(a) && !is_mapped(b));
	a = used(SIZE);
	rr_spare_leave(a);
	cr_assert(is_mapped(a), "what is made later is");
}

Test(spare, a_child_does_not_get_what_is_kept)
{
	struct rr_share *sh = used(SIZE);

	rr_spare_leave(sh);
	rr_spare_forks();
	cr_assert(!is_mapped(sh));
	sh = used(SIZE);	/* and left by another thread, just before the child is made */
	rr_spare_leave(sh);
	cr_assert(is_mapped(sh));
	rr_spare_forks();	/* in the child */
	cr_assert(!is_mapped(sh));
}

/* Not as mlock(), which sanitizers do without. */
static int lock_page(void *page)
{
	return (int)syscall(SYS_mlock, page, (size_t)RR_PAGE);
}

/* Pages that cannot be given back still hold what was in them. */
Test(spare, memory_that_cannot_be_made_zeroes_is_not_kept)
{
	struct rr_share *sh = used(SIZE);

	if (lock_page((uint8_t *)sh + SIZE - RR_PAGE))
		cr_skip_test("no memory may be locked");
	rr_spare_leave(sh);
	cr_assert(!is_mapped(sh));
	sh = used(SIZE);
	cr_assert_eq(lock_page((uint8_t *)sh + RR_PAGE), 0);
	rr_spare_leave(sh);
	cr_assert(!is_mapped(sh));
}

Test(spare, where_there_is_no_memory_there_is_no_share)
{
	cr_assert_null(rr_spare_take(SIZE_MAX / 2 & ~(size_t)(RR_PAGE - 1)));
}

static bool goes_by(void (*handler)(void))
{
	struct rr_share *sh = used(SIZE);

	rr_spare_leave(sh);
	cr_assert(is_mapped(sh));
	handler();
	return !is_mapped(sh);
}

Test(spare, a_fork_is_told_of)
{
	cr_assert(goes_by(rr_conn_fork_prepare));
	cr_assert(goes_by(rr_conn_fork_parent));
	cr_assert(goes_by(rr_conn_fork_child));
}
