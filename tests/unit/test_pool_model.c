/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunk memory against a model of it that knows pages one by one: what is allocated, grows, moves and is freed in
 * any order lies where the model says, and keeps its contents. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/conn/base/pool.h"

enum { PAGES = 150, BUFS = 24 };	/* more than two words of the map */

static struct rr_pool_tables tables;
static uint8_t mem[PAGES * RR_POOL_PAGE];
static struct rr_pool pool;

static bool taken[PAGES];
static uint32_t used, peak, outbound;
static struct model {
	bool there;
	int64_t id;
	uint32_t n, out, page[PAGES];
	uint8_t fill;
} buf[BUFS];

static uint32_t extents(const struct model *m)
{
	uint32_t n = m->n > 0;

	for (uint32_t i = 1; i < m->n; i++)
		n += m->page[i] != m->page[i - 1] + 1;
	return n;
}

static void give(struct model *m, uint32_t page)
{
	cr_assert_not(taken[page]);
	taken[page] = true;
	m->page[m->n++] = page;
	peak = rr_max(peak, ++used);
}

/* Where the first run of `want` pages begins; of the longest if there is none, of *n pages. */
static uint32_t find_run(uint32_t want, uint32_t end, uint32_t *n)
{
	uint32_t best = 0;

	*n = 0;
	for (uint32_t page = 0; page < end; page++) {
		uint32_t len = 0;

		if (taken[page] || (page && !taken[page - 1]))
			continue;
		while (page + len < end && len < want && !taken[page + len])
			len++;
		if (len > *n) {
			best = page;
			*n = len;
		}
	}
	return best;
}

static bool grow_by(struct model *m, uint32_t want, uint32_t end)
{
	if (want > PAGES - used)
		return false;
	while (m->n && want && m->page[m->n - 1] + 1 < end && !taken[m->page[m->n - 1] + 1]) {
		give(m, m->page[m->n - 1] + 1);
		want--;
	}
	for (uint32_t nexts = extents(m); want; nexts++) {
		uint32_t n, at = find_run(want, end, &n);

		if (!n || nexts == RR_BUF_EXTS)
			return false;
		for (uint32_t i = 0; i < n; i++)
			give(m, at + i);
		want -= n;
	}
	return true;
}

static void shrink_to(struct model *m, uint32_t n)
{
	while (m->n > n) {
		taken[m->page[--m->n]] = false;
		used--;
	}
}

static bool try_by(struct model *m, uint32_t want, uint32_t end)
{
	uint32_t had = m->n;

	if (grow_by(m, want, end))
		return true;
	shrink_to(m, had);
	return false;
}

static bool moves(struct model *m, uint32_t want, uint32_t end)
{
	uint32_t n, at = find_run(want, end, &n), had = m->n;

	if (n < want)
		return false;
	used += want;
	peak = rr_max(peak, used);
	for (uint32_t i = 0; i < had; i++)
		taken[m->page[i]] = false;
	used -= had;
	for (uint32_t i = 0; i < want; i++) {
		taken[at + i] = true;
		m->page[i] = at + i;
	}
	m->n = want;
	return true;
}

static uint32_t pages_of(size_t len)
{
	return (uint32_t)((len + RR_POOL_PAGE - 1) / RR_POOL_PAGE);
}

static uint32_t below(size_t end)
{
	return (uint32_t)rr_min(end / RR_POOL_PAGE, (size_t)PAGES);
}

/* Each page of it holds its own number and its buffer's. */
static void fill(struct model *m, uint32_t from)
{
	for (uint32_t i = from; i < m->n; i++) {
		size_t len;

		memset(rr_pool_at(&pool, (uint32_t)m->id, (size_t)i * RR_POOL_PAGE, &len), m->fill, RR_POOL_PAGE);
		*rr_pool_at(&pool, (uint32_t)m->id, (size_t)i * RR_POOL_PAGE + 5, &len) = (uint8_t)i;
	}
}

static void is_as_the_model(const struct model *m, uint32_t filled)
{
	const struct rr_buf *b = &pool.buf[m->id];

	cr_assert(b->npages == m->n && b->nexts == extents(m) && b->out == m->out);
	cr_assert_eq(rr_pool_room(&pool, (uint32_t)m->id), (size_t)m->n * RR_POOL_PAGE);
	for (uint32_t i = 0; i < m->n; i++) {
		uint32_t together = 1;
		size_t len;
		const uint8_t *at = rr_pool_at(&pool, (uint32_t)m->id, (size_t)i * RR_POOL_PAGE + 5, &len);

		while (i + together < m->n && m->page[i + together] == m->page[i] + together)
			together++;
		cr_assert_eq(at, mem + (size_t)m->page[i] * RR_POOL_PAGE + 5);
		cr_assert_eq(len, (size_t)together * RR_POOL_PAGE - 5);
		cr_assert(i >= filled || (*at == (uint8_t)i && at[-1] == m->fill && at[1] == m->fill));
	}
}

static void all_is_as_the_model(const struct model *grown, uint32_t had)
{
	size_t len;

	cr_assert(pool.used == used && pool.peak == peak && pool.out == outbound);
	for (uint32_t i = 0; i < PAGES; i++) {
		cr_assert_eq(tables.map[i / 64] >> i % 64 & 1, taken[i]);
		cr_assert_eq(rr_pool_in_use(&pool, (size_t)i * RR_POOL_PAGE, RR_POOL_PAGE), taken[i]);
	}
	for (int i = 0; i < BUFS; i++)
		if (buf[i].there) {
			is_as_the_model(&buf[i], &buf[i] == grown ? had : buf[i].n);
			cr_assert_null(rr_pool_at(&pool, (uint32_t)buf[i].id, rr_pool_room(&pool, (uint32_t)buf[i].id), &len));
			cr_assert_eq(len, 0);
		}
}

static void allocate(struct model *m, size_t len, size_t end)
{
	int64_t id = rr_pool_alloc_below(&pool, len, end);

	*m = (struct model){ .fill = (uint8_t)rand() };
	if (pages_of(len) > below(end)) {
		cr_assert_eq(id, -ENOMEM);
	} else if (!grow_by(m, rr_max(pages_of(len), 1u), below(end))) {
		cr_assert_eq(id, -EAGAIN);
		shrink_to(m, 0);
	} else {
		cr_assert_geq(id, 0);
		m->there = true;
		m->id = id;
		fill(m, 0);
	}
}

static void grow(struct model *m, size_t len, size_t end)
{
	uint32_t need = pages_of(len), had = m->n, most = rr_min(had, PAGES - used);
	int rc = rr_pool_grow(&pool, (uint32_t)m->id, len, end);

	if (need <= had) {
		cr_assert_eq(rc, 0);
	} else if (need > below(end)) {
		cr_assert_eq(rc, -ENOMEM);
	} else if (try_by(m, rr_max(need - had, most), below(end)) || try_by(m, need - had, below(end)) ||
		   moves(m, need, below(end))) {
		cr_assert_eq(rc, 0);
		all_is_as_the_model(m, had);
		fill(m, had);
	} else {
		cr_assert_eq(rc, used == had ? -ENOMEM : -EAGAIN);
	}
}

static void gather(struct model *m, size_t end)
{
	int rc = rr_pool_gather(&pool, (uint32_t)m->id, end);

	cr_assert_eq(rc, extents(m) < 2 || moves(m, m->n, below(end)) ? 0 : -EAGAIN);
}

static void release(struct model *m)
{
	rr_pool_free(&pool, (uint32_t)m->id);
	outbound -= m->out;
	shrink_to(m, 0);
	m->there = false;
}

static size_t some_end(void)
{
	return rand() % 3 ? SIZE_MAX : (size_t)rand() % sizeof(mem);
}

Test(pool_model, whatever_happens, .timeout = 60)
{
	srand(5);
	rr_pool_init(&pool, &tables, mem, sizeof(mem));
	for (int step = 0; step < 6000; step++) {
		struct model *m = &buf[rand() % BUFS];
		size_t len = (size_t)rand() % ((rand() & 7 ? 12 : 60) * RR_POOL_PAGE);

		len -= rand() & 1 ? len % RR_POOL_PAGE : 0;
		if (!m->there) {
			allocate(m, len, some_end());
		} else switch (rand() % 8) {
		case 0: case 1: case 2:
			grow(m, len + (size_t)m->n * RR_POOL_PAGE / 2, some_end());
			break;
		case 3:
			rr_pool_outbound(&pool, (uint32_t)m->id);
			outbound += m->n - m->out;
			m->out = m->n;
			break;
		case 4: case 5:
			gather(m, some_end());
			break;
		default:
			release(m);
			if (!used && rr_pool_quiet(&pool))
				cr_assert(pool.free_buf == 0 && pool.fresh_buf == 0);
		}
		if (rand() % 4 == 0)
			all_is_as_the_model(NULL, 0);
		if (rand() % 50 == 0)
			peak = pool.peak = used;
		if (step % 1500 == 1400)
			for (int i = 0; i < BUFS; i++)
				if (buf[i].there)
					release(&buf[i]);
	}
}

Test(pool_model, there_are_so_many_buffers)
{
	static uint8_t large[(RR_POOL_BUFS + 2) * RR_POOL_PAGE];

	rr_pool_init(&pool, &tables, large, sizeof(large));
	for (uint32_t i = 0; i < RR_POOL_BUFS; i++)
		cr_assert_eq(rr_pool_alloc(&pool, i & 1), i);
	cr_assert_eq(rr_pool_alloc(&pool, 1), -EAGAIN);
	cr_assert_eq(pool.used, RR_POOL_BUFS);
	rr_pool_free(&pool, 7);
	rr_pool_free(&pool, 9);
	cr_assert_eq(rr_pool_alloc(&pool, 1), 9);
	cr_assert_eq(rr_pool_alloc(&pool, 1), 7);
	cr_assert_eq(rr_pool_alloc(&pool, 1), -EAGAIN);
}

Test(pool_model, sizes_of_a_pool)
{
	rr_pool_init(&pool, &tables, mem, 2 * RR_POOL_PAGE - 1);
	cr_assert_eq(pool.npages, 1);
	cr_assert_eq(rr_pool_alloc(&pool, RR_POOL_PAGE + 1), -ENOMEM);
	cr_assert_eq(rr_pool_alloc(&pool, RR_POOL_PAGE), 0);
	rr_pool_init(&pool, &tables, mem, (size_t)(RR_POOL_PAGES + 1) * RR_POOL_PAGE);
	cr_assert_eq(pool.npages, RR_POOL_PAGES);
	cr_assert(pool.mem == mem && pool.map == tables.map && pool.buf == tables.buf);
}

Test(pool_model, what_is_in_use_where)
{
	const size_t page = RR_POOL_PAGE;

	rr_pool_init(&pool, &tables, mem, 10 * page);
	cr_assert_not(rr_pool_in_use(&pool, 0, 10 * page));
	tables.map[0] = 1 << 4;
	pool.used = 1;
	cr_assert(rr_pool_in_use(&pool, 0, 10 * page) && !rr_pool_in_use(&pool, 0, 4 * page));
	cr_assert(rr_pool_in_use(&pool, 0, 4 * page + 1) && rr_pool_in_use(&pool, 4 * page, 1));
	cr_assert(rr_pool_in_use(&pool, 5 * page - 1, 1) && !rr_pool_in_use(&pool, 5 * page, 1));
	cr_assert(rr_pool_in_use(&pool, 3 * page + 10, page) && !rr_pool_in_use(&pool, 3 * page + 10, page - 10));
	cr_assert_not(rr_pool_in_use(&pool, 5 * page, 5 * page));
	cr_assert_not(rr_pool_in_use(&pool, 5 * page, 7 * page), "beyond its end there is nothing");
	cr_assert_not(rr_pool_in_use(&pool, 12 * page, page));
}

Test(pool_model, bytes_are_put_where_they_belong)
{
	static uint8_t src[4 * RR_POOL_PAGE];
	uint32_t b;
	size_t len;

	rr_pool_init(&pool, &tables, mem, sizeof(mem));
	memset(mem, 0xee, sizeof(mem));
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i % 251);
	for (int i = 0; i < 6; i++)
		rr_pool_alloc(&pool, 1);
	rr_pool_free(&pool, 1);
	rr_pool_free(&pool, 3);
	rr_pool_free(&pool, 5);
	b = (uint32_t)rr_pool_alloc(&pool, RR_POOL_PAGE);
	cr_assert_eq(rr_pool_grow(&pool, b, RR_POOL_PAGE + 1, 6 * RR_POOL_PAGE), 0);
	cr_assert_eq(pool.buf[b].nexts, 2);
	rr_pool_fill(&pool, b, 10, src, RR_POOL_PAGE + 20);
	for (size_t i = 0; i < RR_POOL_PAGE + 20; i++)
		cr_assert_eq(*rr_pool_at(&pool, b, 10 + i, &len), src[i]);
	cr_assert_eq(*rr_pool_at(&pool, b, 9, &len), 0xee);
	cr_assert_eq(*rr_pool_at(&pool, b, RR_POOL_PAGE + 30, &len), 0xee);
	rr_pool_fill(&pool, b, RR_POOL_PAGE - 1, NULL, 2);
	cr_assert_eq(*rr_pool_at(&pool, b, RR_POOL_PAGE - 2, &len), src[RR_POOL_PAGE - 12]);
	cr_assert_eq(*rr_pool_at(&pool, b, RR_POOL_PAGE - 1, &len), 0);
	cr_assert_eq(*rr_pool_at(&pool, b, RR_POOL_PAGE, &len), 0);
	cr_assert_eq(*rr_pool_at(&pool, b, RR_POOL_PAGE + 1, &len), src[RR_POOL_PAGE - 9]);
	rr_pool_fill(&pool, b, 2 * RR_POOL_PAGE - 1, src + 5, 100);
	cr_assert_eq(*rr_pool_at(&pool, b, 2 * RR_POOL_PAGE - 1, &len), 5);
	cr_assert_eq(mem[4 * RR_POOL_PAGE], 0xee, "none goes beyond its end");
}
