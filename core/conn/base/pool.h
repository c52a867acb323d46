/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_POOL_H
#define RR_POOL_H

/* The chunk memory of one connection: registered memory, handed out as buffers for whole RPC
 * messages. A buffer grows while its record arrives, because the length of a record of several
 * fragments is not known at its start. A buffer is a list of extents, usually one, since
 * growing in place is tried first. The lowest free pages are taken first, because they are the
 * warm ones.
 *
 * Under the connection's lock; the state lies in memory that is shared with forked children. */

#include "core/base/types.h"

#define RR_POOL_PAGE	4096u
#define RR_POOL_PAGES	65536u		/* at most: 256 MiB */
#define RR_POOL_BUFS	1024u
#define RR_BUF_EXTS	8u		/* as many segments as the engine takes */
#define RR_BUF_EARLY	8u		/* keys to a buffer that is still being filled */

struct rr_ext {
	uint32_t page, npages;
};

struct rr_buf {
	uint32_t nexts;
	uint32_t npages;		/* in all extents … */
	uint32_t out;			/* … and how many of them the pool counts as `out` */
	/* Keys while exposed, 0: it is not; the first `early` ones are of when it was being
	 * filled, and of the others there is one for each extent. */
	uint32_t nkeys, early;
	/* keys being taken back; the other fields below are the driver's */
	uint16_t fencing;
	bool dying;			/* free the buffer once they are taken back */
	/* … or tell the engine by this id; 0: it has not asked */
	uint32_t fence_id;
	uint32_t next_free;
	struct rr_ext ext[RR_BUF_EXTS];
	uint32_t key[RR_BUF_EARLY + RR_BUF_EXTS];
};

/* All zero at first. May be lost, and read as zero again, when rr_pool_quiet() returns true. */
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
	uint32_t out;			/* … and how many belong to messages on their way out */
	uint32_t peak;			/* highest used since the last trim */
	uint32_t free_buf;		/* list of free ones: 1 + index; 0: empty */
	uint32_t fresh_buf;		/* buffers from this index on were never used */
};

void rr_pool_init(struct rr_pool *p, struct rr_pool_tables *t, void *mem, size_t size);

/* A new buffer of at least len bytes, within the first `end` bytes of mem (SIZE_MAX: anywhere).
 * -EAGAIN: there is no room now; -ENOMEM: there never will be. */
int64_t rr_pool_alloc_below(struct rr_pool *p, size_t len, size_t end);

static inline int64_t rr_pool_alloc(struct rr_pool *p, size_t len)
{
	return rr_pool_alloc_below(p, len, SIZE_MAX);
}

/* Makes a buffer at least len bytes large; new pages come from the first `end` bytes. Its
 * contents stay, and if it has keys, where they are. 0, -EAGAIN or -ENOMEM as above. */
int rr_pool_grow(struct rr_pool *p, uint32_t buf, size_t len, size_t end);

/* Counts what buf holds as outbound until it is freed. To be called again after it has
 * grown. */
void rr_pool_outbound(struct rr_pool *p, uint32_t buf);

/* Moves a buffer's contents into one extent below `end`. 0, or -EAGAIN if there is no room, and
 * then nothing has changed. Nobody else may be using the buffer's memory meanwhile. */
int rr_pool_gather(struct rr_pool *p, uint32_t buf, size_t end);

void rr_pool_free(struct rr_pool *p, uint32_t buf);

static inline size_t rr_pool_room(const struct rr_pool *p, uint32_t buf)
{
	return (size_t)p->buf[buf].npages * RR_POOL_PAGE;
}

/* The address of byte `off`, and in *len how many bytes follow contiguously. NULL: beyond the
 * end. */
uint8_t *rr_pool_at(const struct rr_pool *p, uint32_t buf, size_t off, size_t *len);

/* Fills n bytes from offset off: with those at src, or with zeroes if src is NULL. */
void rr_pool_fill(const struct rr_pool *p, uint32_t buf, size_t off, const uint8_t *src,
		  size_t n);

/* Returns true if no buffer is in use: then the tables may be dropped, wholly or in part. */
bool rr_pool_quiet(struct rr_pool *p);

/* Is any page of mem[off..off+len) in use? A provider's trim() asks this. */
bool rr_pool_in_use(const struct rr_pool *p, size_t off, size_t len);

#endif
