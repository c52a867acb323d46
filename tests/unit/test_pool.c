/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "core/conn/base/pool.h"

#define PAGES	64u

static struct rr_pool_tables tables;
static uint8_t mem[PAGES * RR_POOL_PAGE];
static struct rr_pool pool;

/* A buffer of these many extents of a page, each with its number, and after it so many free pages. */
static uint32_t scattered(uint32_t exts, uint32_t room)
{
	uint32_t hole[PAGES], n = PAGES - room, big;
	int64_t b;

	memset(&tables, 0, sizeof(tables));
	rr_pool_init(&pool, &tables, mem, sizeof(mem));
	for (uint32_t i = 0; i < n; i++)
		hole[i] = (uint32_t)rr_pool_alloc(&pool, 1);
	big = room ? (uint32_t)rr_pool_alloc(&pool, room * RR_POOL_PAGE) : 0;
	for (uint32_t i = 0; i < exts; i++)
		rr_pool_free(&pool, hole[2 * i]);
	b = rr_pool_alloc(&pool, exts * RR_POOL_PAGE);
	cr_assert_geq(b, 0);
	if (room)
		rr_pool_free(&pool, big);
	for (uint32_t i = 0; i < exts; i++) {
		size_t len;

		memset(rr_pool_at(&pool, (uint32_t)b, i * RR_POOL_PAGE, &len), (int)i + 1, RR_POOL_PAGE);
	}
	cr_assert_eq(pool.buf[b].nexts, exts);
	return (uint32_t)b;
}

Test(pool, what_is_gathered_lies_together_as_it_was)
{
	uint32_t b = scattered(4, 4), used = pool.used;
	size_t len;
	uint8_t *at;

	cr_assert_eq(rr_pool_gather(&pool, b, SIZE_MAX), 0);
	at = rr_pool_at(&pool, b, 0, &len);
	cr_assert_eq(len, 4 * RR_POOL_PAGE);
	for (uint32_t i = 0; i < len; i++)
		cr_assert_eq(at[i], i / RR_POOL_PAGE + 1, "byte %u", i);
	cr_assert_eq(pool.used, used);
	rr_pool_free(&pool, b);
	cr_assert_eq(pool.used, used - 4);
	cr_assert_geq(rr_pool_alloc(&pool, 4 * RR_POOL_PAGE), 0, "its first pages are free again");
	cr_assert_geq(rr_pool_alloc(&pool, 4 * RR_POOL_PAGE), 0, "and so are the others");
}

Test(pool, without_room_nothing_is_gathered)
{
	uint32_t b = scattered(4, 3);
	size_t len;

	cr_assert_eq(rr_pool_gather(&pool, b, SIZE_MAX), -EAGAIN);
	cr_assert_eq(pool.buf[b].nexts, 4);
	cr_assert_eq(*rr_pool_at(&pool, b, 3 * RR_POOL_PAGE, &len), 4);
}

Test(pool, what_lies_together_stays)
{
	uint32_t b;
	size_t len;
	uint8_t *at;

	memset(&tables, 0, sizeof(tables));
	rr_pool_init(&pool, &tables, mem, sizeof(mem));
	b = (uint32_t)rr_pool_alloc(&pool, 3 * RR_POOL_PAGE);
	at = rr_pool_at(&pool, b, 0, &len);
	cr_assert_eq(rr_pool_gather(&pool, b, SIZE_MAX), 0);
	cr_assert_eq(rr_pool_at(&pool, b, 0, &len), at);
}

/* A buffer alone in the pool, of the most extents there can be, each of a page with its number, in front of
 * every one so many free pages. */
static uint32_t alone(uint32_t before)
{
	uint32_t hole[PAGES], n = (before + 1) * RR_BUF_EXTS;
	size_t len;
	int64_t b;

	memset(&tables, 0, sizeof(tables));
	rr_pool_init(&pool, &tables, mem, (size_t)n * RR_POOL_PAGE);
	for (uint32_t i = 0; i < n; i++)
		hole[i] = (uint32_t)rr_pool_alloc(&pool, 1);
	for (uint32_t i = before; i < n; i += before + 1)
		rr_pool_free(&pool, hole[i]);
	b = rr_pool_alloc(&pool, RR_BUF_EXTS * RR_POOL_PAGE);
	cr_assert_geq(b, 0);
	for (uint32_t i = 0; i < n; i++)
		if (i % (before + 1) != before)
			rr_pool_free(&pool, hole[i]);
	cr_assert_eq(pool.buf[b].nexts, RR_BUF_EXTS);
	cr_assert_eq(pool.used, RR_BUF_EXTS);
	for (uint32_t i = 0; i < RR_BUF_EXTS; i++)
		memset(rr_pool_at(&pool, (uint32_t)b, i * RR_POOL_PAGE, &len), (int)i + 1, RR_POOL_PAGE);
	return (uint32_t)b;
}

/* Nobody would give back what it could wait for. */
Test(pool, a_buffer_alone_in_the_pool_never_waits)
{
	cr_assert_eq(rr_pool_grow(&pool, alone(3), (RR_BUF_EXTS + 1) * RR_POOL_PAGE, SIZE_MAX), -ENOMEM);
	cr_assert_eq(pool.used, RR_BUF_EXTS);
}

Test(pool, a_buffer_of_all_extents_grows_where_there_is_room)
{
	uint32_t b = alone(3), behind = 4 * RR_BUF_EXTS;
	size_t len;

	pool.npages = PAGES;
	tables.map[0] |= UINT64_C(1) << behind;	/* another's */
	pool.used++;
	for (uint32_t want = RR_BUF_EXTS + 1; want < 20; want++)
		if (rr_pool_grow(&pool, b, want * RR_POOL_PAGE, SIZE_MAX))
			cr_assert_fail("%u pages", want);
	for (uint32_t i = 0; i < RR_BUF_EXTS; i++) {
		const uint8_t *at = rr_pool_at(&pool, b, i * RR_POOL_PAGE, &len);

		for (uint32_t k = 0; k < RR_POOL_PAGE; k++)
			cr_assert_eq(at[k], i + 1);
	}
	rr_pool_free(&pool, b);
	cr_assert_eq(pool.used, 1);
	cr_assert_eq(tables.map[0], UINT64_C(1) << behind);
}

/* Nor does it wait for pages that lie where it would have to be moved for them. */
Test(pool, a_buffer_with_keys_stays_where_it_is)
{
	uint32_t b = alone(3), behind = 4 * RR_BUF_EXTS;
	struct rr_ext was[RR_BUF_EXTS];

	pool.npages = PAGES;
	tables.map[0] |= UINT64_C(1) << behind;	/* another's */
	pool.used++;
	memcpy(was, tables.buf[b].ext, sizeof(was));
	tables.buf[b].nkeys = 1;
	cr_assert_eq(rr_pool_grow(&pool, b, (RR_BUF_EXTS + 1) * RR_POOL_PAGE, SIZE_MAX), -ENOMEM);
	cr_assert_eq(rr_pool_gather(&pool, b, SIZE_MAX), -EAGAIN);
	cr_assert_eq(memcmp(was, tables.buf[b].ext, sizeof(was)), 0);
	cr_assert_eq(pool.used, RR_BUF_EXTS + 1);
	tables.buf[b].nkeys = 0;
	cr_assert_eq(rr_pool_grow(&pool, b, (RR_BUF_EXTS + 1) * RR_POOL_PAGE, SIZE_MAX), 0);
	cr_assert_eq(tables.buf[b].nexts, 1);
}

/* Two pages behind it are free, and none is below the end for the third. */
Test(pool, what_was_added_in_place_goes_back_where_that_is_not_enough)
{
	int64_t b, between, other;

	memset(&tables, 0, sizeof(tables));
	rr_pool_init(&pool, &tables, mem, sizeof(mem));
	b = rr_pool_alloc(&pool, RR_POOL_PAGE);
	between = rr_pool_alloc(&pool, 2 * RR_POOL_PAGE);
	other = rr_pool_alloc(&pool, RR_POOL_PAGE);
	cr_assert(b >= 0 && between >= 0 && other >= 0);
	rr_pool_free(&pool, (uint32_t)between);
	cr_assert_eq(rr_pool_grow(&pool, (uint32_t)b, 4 * RR_POOL_PAGE, 4 * RR_POOL_PAGE), -EAGAIN);
	cr_assert_eq(pool.used, 2);
	rr_pool_free(&pool, (uint32_t)b);
	rr_pool_free(&pool, (uint32_t)other);
	cr_assert_eq(pool.used, 0);
}

/* --- which pages --- */

enum { WORDS_OF_MAP = 3, MANY = 64 * WORDS_OF_MAP };

static uint8_t large[MANY * RR_POOL_PAGE];

/* All pages are used but these, of which the map says so itself. */
static void all_but(const uint32_t *page, uint32_t n)
{
	memset(&tables, 0, sizeof(tables));
	rr_pool_init(&pool, &tables, large, sizeof(large));
	for (uint32_t w = 0; w < WORDS_OF_MAP; w++)
		tables.map[w] = ~UINT64_C(0);
	for (uint32_t i = 0; i < n; i++)
		tables.map[page[i] / 64] &= ~(UINT64_C(1) << page[i] % 64);
	pool.used = MANY - n;
}

static uint32_t page_of(int64_t b, uint32_t at)
{
	size_t len;

	cr_assert_geq(b, 0);
	return (uint32_t)(rr_pool_at(&pool, (uint32_t)b, (size_t)at * RR_POOL_PAGE, &len) - large) / RR_POOL_PAGE;
}

Test(pool, the_only_free_page_is_found_wherever_it_is)
{
	for (uint32_t page = 0; page < MANY; page++) {
		int64_t b;

		all_but(&page, 1);
		b = rr_pool_alloc(&pool, RR_POOL_PAGE);
		cr_assert_eq(page_of(b, 0), page);
		cr_assert_eq(pool.used, MANY);
		cr_assert_eq(rr_pool_alloc(&pool, 1), -EAGAIN);
		rr_pool_free(&pool, (uint32_t)b);
		cr_assert_eq(tables.map[page / 64], ~(UINT64_C(1) << page % 64));
	}
}

Test(pool, the_first_run_that_is_long_enough_is_taken)
{
	static const uint32_t free_pages[] = { 3, 62, 63, 64, 65, 100, 127, 128, 129, 130, 131, 191 };
	static const uint32_t want[] = { 3, 62, 62, 62, 127 };
	int64_t b;

	for (uint32_t n = 1; n <= 5; n++) {
		all_but(free_pages, sizeof(free_pages) / sizeof(free_pages[0]));
		b = rr_pool_alloc(&pool, n * RR_POOL_PAGE);
		cr_assert_eq(page_of(b, 0), want[n - 1], "%u pages at %u", n, page_of(b, 0));
		cr_assert_eq(pool.buf[b].nexts, 1);
	}
}

/* Who comes into a full word not at its first page does not pass over the first of the next. */
Test(pool, a_run_behind_a_full_word_is_found_from_the_last_page_before_it)
{
	static const uint32_t free_pages[] = { 63, 128, 129 };

	all_but(free_pages, 3);
	cr_assert_eq(page_of(rr_pool_alloc(&pool, 2 * RR_POOL_PAGE), 0), 128);
}

Test(pool, where_no_run_is_long_enough_the_longest_comes_first)
{
	static const uint32_t free_pages[] = { 3, 62, 63, 64, 100, 127, 128, 191 };
	static const uint32_t want[] = { 62, 63, 64, 127, 128, 3 };
	int64_t b;

	all_but(free_pages, 8);
	b = rr_pool_alloc(&pool, 6 * RR_POOL_PAGE);
	for (uint32_t i = 0; i < 6; i++)
		cr_assert_eq(page_of(b, i), want[i], "page %u at %u", i, page_of(b, i));
	cr_assert_eq(pool.buf[b].nexts, 3);
	cr_assert_eq(pool.used, MANY - 2);
	rr_pool_free(&pool, (uint32_t)b);
	cr_assert_eq(pool.used, MANY - 8);
}

/* Each buffer is given out once, whatever the free list said before. */
Test(pool, a_quiet_pool_begins_with_all_its_buffers)
{
	uint32_t b[3], seen = 0;

	memset(&tables, 0, sizeof(tables));
	rr_pool_init(&pool, &tables, mem, sizeof(mem));
	for (int i = 0; i < 3; i++)
		b[i] = (uint32_t)rr_pool_alloc(&pool, 1);
	cr_assert_not(rr_pool_quiet(&pool));
	for (int i = 2; i >= 0; i--)
		rr_pool_free(&pool, b[i]);
	cr_assert(rr_pool_quiet(&pool));
	for (int i = 0; i < 6; i++) {
		int64_t got = rr_pool_alloc(&pool, 1);

		cr_assert(got >= 0 && got < 32 && !(seen & 1u << got), "%d", i);
		seen |= 1u << got;
	}
	cr_assert_eq(seen, 0x3f, "from the first on");
}

/* The memory of a pool may have been another's. */
Test(pool, a_new_pool_begins_with_its_first_buffer)
{
	memset(&pool, 0xff, sizeof(pool));
	rr_pool_init(&pool, &tables, mem, sizeof(mem));
	for (int i = 0; i < 3; i++)
		cr_assert_eq(rr_pool_alloc(&pool, 1), i);
	cr_assert_eq(pool.used, 3);
}
