/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_POOL_H
#define RR_POOL_H

/* Registered memory of one connection, handed out as buffers for whole RPC messages. A
 * buffer grows while its record arrives (the length of a record of several fragments is not
 * known at its start); it is a list of extents, usually one, since growing in place is tried
 * first. Lowest pages first: the warm ones.
 *
 * Under the connection's lock; state lives in memory shared with forked children. */

#include "core/base/types.h"

#define RR_POOL_PAGE	4096u
#define RR_POOL_PAGES	65536u		/* at most: 256 MiB */
#define RR_POOL_BUFS	1024u
#define RR_BUF_EXTS	8u		/* what the engine takes of segments */

struct rr_ext {
	uint32_t page, npages;
};

struct rr_buf {
	uint32_t nexts;
	uint32_t npages;		/* in all extents … */
	uint32_t out;			/* … and of them counted in the pool's */
	uint32_t nkeys;			/* exposed: one key per extent; 0 not exposed */
	uint16_t fencing;		/* keys being taken back; the rest of the driver's */
	bool dying;			/* free it when they are */
	uint32_t fence_id;		/* or tell the engine; 0 it has not asked */
	uint32_t next_free;
	struct rr_ext ext[RR_BUF_EXTS];
	uint32_t key[RR_BUF_EXTS];
};

/* Zeroed at first; lost, and zeroed again, when rr_pool_quiet() says so. */
struct rr_pool_tables {
	uint64_t map[RR_POOL_PAGES / 64]; /* 1: in use */
	struct rr_buf buf[RR_POOL_BUFS];
};

struct rr_pool {
	uint8_t *mem;
	uint64_t *map;
	struct rr_buf *buf;
	uint32_t npages;
	uint32_t used;			/* pages … */
	uint32_t out;			/* … and those of messages on their way to the peer */
	uint32_t peak;			/* highest used since the last trim */
	uint32_t free_buf;		/* list head + 1; 0 none */
	uint32_t fresh_buf;		/* never used from here on */
};

void rr_pool_init(struct rr_pool *p, struct rr_pool_tables *t, void *mem, size_t size);

/* A buffer of at least len bytes among the first end bytes of mem (SIZE_MAX: all), or -EAGAIN:
 * none now; -ENOMEM: never. */
int64_t rr_pool_alloc_below(struct rr_pool *p, size_t len, size_t end);

static inline int64_t rr_pool_alloc(struct rr_pool *p, size_t len)
{
	return rr_pool_alloc_below(p, len, SIZE_MAX);
}

/* Makes room for len bytes in all, new ones among the first end; 0, -EAGAIN, -ENOMEM. What it
 * holds stays. */
int rr_pool_grow(struct rr_pool *p, uint32_t buf, size_t len, size_t end);

/* What buf holds is on its way to the peer until it is freed. Again when it has grown. */
void rr_pool_outbound(struct rr_pool *p, uint32_t buf);

/* Moves what a buffer holds into one extent below end, where there is room for that: 0, or
 * -EAGAIN and nothing happened. Nobody but us may use its memory meanwhile. */
int rr_pool_gather(struct rr_pool *p, uint32_t buf, size_t end);

void rr_pool_free(struct rr_pool *p, uint32_t buf);

static inline size_t rr_pool_room(const struct rr_pool *p, uint32_t buf)
{
	return (size_t)p->buf[buf].npages * RR_POOL_PAGE;
}

/* The contiguous piece that holds byte off: its address, and in *len how far it goes. */
uint8_t *rr_pool_at(const struct rr_pool *p, uint32_t buf, size_t off, size_t *len);

/* n bytes at off: those at src, or zeroes. */
void rr_pool_fill(const struct rr_pool *p, uint32_t buf, size_t off, const uint8_t *src,
		  size_t n);

/* Is nothing in use? Then the tables may be lost, any part of them. */
bool rr_pool_quiet(struct rr_pool *p);

/* Is any page of mem[off..off+len) in use? (What a provider's trim() asks.) */
bool rr_pool_in_use(const struct rr_pool *p, size_t off, size_t len);

#endif
