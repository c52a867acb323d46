/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunk memory: pages of one region, the lowest free ones first, and the buffers made of them.
 * It neither registers memory nor gives pages back to the system (warm.c, idle.c). */

#include "core/conn/base/pool.h"

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"

void rr_pool_init(struct rr_pool *p, struct rr_pool_tables *t, void *mem, size_t size)
{
	p->map = t->map;
	p->buf = t->buf;
	p->mem = mem;
	p->npages = (uint32_t)rr_min(size / RR_POOL_PAGE, (size_t)RR_POOL_PAGES);
	p->used = p->out = p->peak = 0;
	p->free_buf = p->fresh_buf = 0;
}

static bool page_used(const struct rr_pool *p, uint32_t page)
{
	return p->map[page / 64] >> (page % 64) & 1;
}

/* Sets or clears n bits of the map, a word at a time. */
static void mark(struct rr_pool *p, uint32_t page, uint32_t n, bool used)
{
	while (n) {
		uint32_t bit = page % 64, take = rr_min(n, 64 - bit);
		uint64_t mask = (take == 64 ? ~UINT64_C(0) : (UINT64_C(1) << take) - 1) << bit;

		if (used)
			p->map[page / 64] |= mask;
		else
			p->map[page / 64] &= ~mask;
		page += take;
		n -= take;
	}
}

/* The length of the free run that begins at page, up to want pages and below end. */
static uint32_t run_at(const struct rr_pool *p, uint32_t page, uint32_t want, uint32_t end)
{
	uint32_t n = 0;

	while (n < want && page + n < end && !page_used(p, page + n))
		n++;
	return n;
}

/* The first free run of want pages below end; if there is none, the longest run. */
static struct rr_ext find_pages(const struct rr_pool *p, uint32_t want, uint32_t end)
{
	struct rr_ext best = { 0, 0 };

	for (uint32_t page = 0; page < end;) {
		uint32_t n;

		if (page % 64 == 0 && p->map[page / 64] == ~UINT64_C(0)) {
			page += 64;
			continue;
		}
		n = run_at(p, page, want, end);
		if (n > best.npages) {
			best = (struct rr_ext){ page, n };
			if (n == want)
				break;
		}
		page += n + 1;
	}
	return best;
}

static void take_pages(struct rr_pool *p, struct rr_buf *b, uint32_t page, uint32_t n)
{
	mark(p, page, n, true);
	p->used += n;
	p->peak = rr_max(p->peak, p->used);
	b->npages += n;
}

static void give_pages_back(struct rr_pool *p, const struct rr_ext *e)
{
	mark(p, e->page, e->npages, false);
	p->used -= e->npages;
}

/* Adds want pages to b: in place if the pages after its last extent are free, else as new
 * extents. On -EAGAIN b keeps the pages that it got so far: see try_pages(). */
static int add_pages(struct rr_pool *p, struct rr_buf *b, uint32_t want, uint32_t end)
{
	if (want > p->npages - p->used)
		return -EAGAIN;
	if (b->nexts) {
		struct rr_ext *last = &b->ext[b->nexts - 1];
		uint32_t n = run_at(p, last->page + last->npages, want, end);

		if (n) {
			take_pages(p, b, last->page + last->npages, n);
			last->npages += n;
			want -= n;
		}
	}
	while (want) {
		struct rr_ext e = find_pages(p, want, end);

		if (!e.npages || b->nexts == RR_BUF_EXTS)
			return -EAGAIN;
		take_pages(p, b, e.page, e.npages);
		b->ext[b->nexts++] = e;
		want -= e.npages;
	}
	return 0;
}

static uint32_t pages(size_t len)
{
	return (uint32_t)((len + RR_POOL_PAGE - 1) / RR_POOL_PAGE);
}

static uint32_t end_page(const struct rr_pool *p, size_t end)
{
	return (uint32_t)rr_min(end / RR_POOL_PAGE, (size_t)p->npages);
}

int64_t rr_pool_alloc_below(struct rr_pool *p, size_t len, size_t end)
{
	uint32_t last = end_page(p, end);
	struct rr_buf *b;
	uint32_t id;

	if (len > (size_t)last * RR_POOL_PAGE)
		return -ENOMEM;
	if (p->free_buf) {
		id = p->free_buf - 1;
		p->free_buf = p->buf[id].next_free;
	} else if (p->fresh_buf < RR_POOL_BUFS) {
		id = p->fresh_buf++;
	} else {
		return -EAGAIN;
	}
	b = &p->buf[id];
	b->nexts = b->npages = b->out = b->nkeys = b->early = 0;
	if (add_pages(p, b, rr_max(pages(len), 1u), last)) {
		rr_pool_free(p, id);
		return -EAGAIN;
	}
	return id;
}

/* add_pages(), but on failure b is as it was. */
static int try_pages(struct rr_pool *p, struct rr_buf *b, uint32_t want, uint32_t end)
{
	uint32_t nexts = b->nexts, last = nexts ? b->ext[nexts - 1].npages : 0;

	if (add_pages(p, b, want, end) == 0)
		return 0;
	while (b->nexts > nexts) {
		give_pages_back(p, &b->ext[--b->nexts]);
		b->npages -= b->ext[b->nexts].npages;
	}
	if (nexts && b->ext[nexts - 1].npages > last) {
		struct rr_ext *e = &b->ext[nexts - 1];
		struct rr_ext more = { e->page + last, e->npages - last };

		give_pages_back(p, &more);
		b->npages -= more.npages;
		e->npages = last;
	}
	return -EAGAIN;
}

/* Moves b into one extent of `want` pages below end. -EAGAIN: no free run is that long, or the
 * peer may be reading b. */
static int move(struct rr_pool *p, struct rr_buf *b, uint32_t want, uint32_t end)
{
	struct rr_ext to = find_pages(p, want, end);
	uint32_t page = to.page;

	if (to.npages < want || b->nkeys)
		return -EAGAIN;
	mark(p, to.page, to.npages, true);
	p->used += to.npages;
	p->peak = rr_max(p->peak, p->used);
	for (uint32_t i = 0; i < b->nexts; i++) {
		const struct rr_ext *e = &b->ext[i];

		memcpy(p->mem + (size_t)page * RR_POOL_PAGE,
		       p->mem + (size_t)e->page * RR_POOL_PAGE,
		       (size_t)e->npages * RR_POOL_PAGE);
		page += e->npages;
		give_pages_back(p, e);
	}
	b->ext[0] = to;
	b->npages = want;
	b->nexts = 1;
	return 0;
}

int rr_pool_grow(struct rr_pool *p, uint32_t buf, size_t len, size_t end)
{
	struct rr_buf *b = &p->buf[buf];
	uint32_t need = pages(len), had = b->npages, last = end_page(p, end);

	if (need <= had)
		return 0;
	if (len > (size_t)last * RR_POOL_PAGE)
		return -ENOMEM;
	/* Doubling makes a record of many small fragments grow only a few times. */
	if (try_pages(p, b, rr_max(need - had, rr_min(had, p->npages - p->used)), last) == 0 ||
	    try_pages(p, b, need - had, last) == 0 || move(p, b, need, last) == 0)
		return 0;
	/* Alone it would wait for ever; and so it might where it cannot be moved, and its pages
	 * are apart. */
	if (p->used == had || (b->nkeys && b->nexts >= RR_BUF_EXTS - 1))
		return -ENOMEM;
	return -EAGAIN;
}

void rr_pool_outbound(struct rr_pool *p, uint32_t buf)
{
	struct rr_buf *b = &p->buf[buf];

	p->out += b->npages - b->out;
	b->out = b->npages;
}

int rr_pool_gather(struct rr_pool *p, uint32_t buf, size_t end)
{
	struct rr_buf *b = &p->buf[buf];

	return b->nexts < 2 ? 0 : move(p, b, b->npages, end_page(p, end));
}

void rr_pool_free(struct rr_pool *p, uint32_t buf)
{
	struct rr_buf *b = &p->buf[buf];

	for (uint32_t i = 0; i < b->nexts; i++)
		give_pages_back(p, &b->ext[i]);
	p->out -= b->out;
	b->nexts = b->npages = b->out = b->nkeys = 0;
	b->next_free = p->free_buf;
	p->free_buf = buf + 1;
}

uint8_t *rr_pool_at(const struct rr_pool *p, uint32_t buf, size_t off, size_t *len)
{
	const struct rr_buf *b = &p->buf[buf];

	for (uint32_t i = 0; i < b->nexts; i++) {
		size_t n = (size_t)b->ext[i].npages * RR_POOL_PAGE;

		if (off < n) {
			*len = n - off;
			return p->mem + (size_t)b->ext[i].page * RR_POOL_PAGE + off;
		}
		off -= n;
	}
	*len = 0;
	return NULL;
}

void rr_pool_fill(const struct rr_pool *p, uint32_t buf, size_t off, const uint8_t *src,
		  size_t n)
{
	uint8_t *to;
	size_t room;

	while (n && (to = rr_pool_at(p, buf, off, &room))) {
		size_t take = rr_min(room, n);

		if (src)
			memcpy(to, src, take);
		else
			memset(to, 0, take);
		src += src ? take : 0;
		off += take;
		n -= take;
	}
}

bool rr_pool_quiet(struct rr_pool *p)
{
	if (p->used)
		return false;
	p->free_buf = p->fresh_buf = 0;
	return true;
}

bool rr_pool_in_use(const struct rr_pool *p, size_t off, size_t len)
{
	uint32_t first = (uint32_t)(off / RR_POOL_PAGE);
	uint32_t n = pages(off % RR_POOL_PAGE + len);

	if (!p->used)
		return false;
	return run_at(p, first, n, p->npages) < rr_min(n, p->npages - rr_min(first, p->npages));
}
