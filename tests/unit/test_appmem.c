/* SPDX-License-Identifier: BSD-3-Clause */
#include "preload/appmem.h"

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

static char *page;	/* the second of four, of which the first and the last are not there */
static size_t size;

static void setup(void)
{
	size = (size_t)sysconf(_SC_PAGESIZE);
	page = mmap(NULL, 4 * size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(page != MAP_FAILED);
	munmap(page, size);
	munmap(page + 3 * size, size);
	page += size;
}

TestSuite(appmem, .init = setup);

static bool readable(const char *p, size_t len)
{
	struct iovec iov = { (void *)p, len };

	return rr_appmem_readable(&iov, 1);
}

Test(appmem, both_ends_of_a_piece_are_looked_at)
{
	cr_assert(readable(page, 1));
	cr_assert(readable(page, 2 * size));
	cr_assert(readable(page + size - 1, 2), "across pages");
	cr_assert(readable(page + 2 * size - 1, 1), "the last byte");
	cr_assert_not(readable(page + 2 * size - 1, 2));
	cr_assert_not(readable(page, 2 * size + 1));
	cr_assert_not(readable(page - 1, 1));
	cr_assert_not(readable(page - 1, 2));
	cr_assert_not(readable(page - 1, 2 * size));
	cr_assert_not(readable(page + 2 * size, 1));
	cr_assert_not(readable(page, SIZE_MAX), "it goes round");
	cr_assert_not(readable((const char *)64, 1));
}

Test(appmem, every_piece_counts_but_empty_ones)
{
	struct iovec iov[3] = { { page, 1 }, { (void *)64, 0 }, { page + size, 1 } };

	cr_assert(rr_appmem_readable(iov, 3));
	cr_assert(rr_appmem_readable(iov, 0));
	iov[1].iov_len = 1;
	cr_assert_not(rr_appmem_readable(iov, 3));
	cr_assert(rr_appmem_readable(iov, 1));
	iov[1].iov_base = page;
	iov[2].iov_base = page + 2 * size;
	cr_assert_not(rr_appmem_readable(iov, 3));
}

Test(appmem, pointers_at_the_ends_of_all_memory_are_none)
{
	cr_assert(rr_bad_ptr(NULL) && rr_bad_ptr((void *)(RR_PAGE - 1)) && rr_bad_ptr((void *)(UINTPTR_MAX - RR_PAGE + 1)));
	cr_assert(!rr_bad_ptr((void *)RR_PAGE) && !rr_bad_ptr((void *)(UINTPTR_MAX - RR_PAGE)) && !rr_bad_ptr(page));
}
