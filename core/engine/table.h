/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ENGINE_TABLE_H
#define RR_ENGINE_TABLE_H

/* Bounded tables without allocation: entries of equal size, lists through them, and a map by
 * XID. Entries are named by a 16-bit index from 1; 0 is none. So zeroed memory is the empty
 * state, and an entry that was never used is never touched. The contents of an empty table do
 * not matter: its memory may be lost (rr_table_reset()). */

#include "core/base/compiler.h"
#include "core/base/types.h"

#define RR_TABLE_MAX	4095u	/* an index fits 12 bits of an operation's id */

/* First member of every entry. */
struct rr_node {
	uint32_t xid;
	uint16_t idx;		/* its own */
	uint16_t gen;		/* generation, so that stale ids do not match */
	uint16_t hnext;		/* map */
	uint16_t prev, next;	/* list */
	bool live;
	bool mapped;
};

struct rr_table {
	uint8_t *base;
	uint32_t stride;
	uint16_t n;		/* capacity */
	uint16_t fresh;		/* entries ever used: 1..fresh */
	uint16_t free;		/* list of used ones, through next */
	uint16_t used;		/* live now */
	uint16_t gen;		/* generations handed out, for all entries */
};

static inline void *rr_table_at(const struct rr_table *p, uint16_t idx)
{
	return p->base + (size_t)(idx - 1) * p->stride;
}

/* A live entry, whose other fields are as its last use left them; NULL: all are taken. */
static inline void *rr_table_get(struct rr_table *p)
{
	struct rr_node *n;
	uint16_t idx = p->free;

	if (idx) {
		n = rr_table_at(p, idx);
		p->free = n->next;
	} else if (p->fresh < p->n) {
		idx = ++p->fresh;
		n = rr_table_at(p, idx);
		n->idx = idx;
	} else {
		return NULL;
	}
	n->prev = n->next = 0;
	n->gen = p->gen++;
	n->live = true;
	p->used++;
	return n;
}

static inline void rr_table_put(struct rr_table *p, void *entry)
{
	struct rr_node *n = entry;

	n->live = false;
	n->next = p->free;
	p->free = n->idx;
	p->used--;
}

/* Makes an empty table as new, except for the generations. */
static inline void rr_table_reset(struct rr_table *p)
{
	p->fresh = p->free = 0;
}

/* The entry of an operation's id; NULL: that use of it is over. */
static inline void *rr_table_find(const struct rr_table *p, uint16_t idx, uint16_t gen)
{
	struct rr_node *n;

	if (idx == 0 || idx > p->fresh)
		return NULL;
	n = rr_table_at(p, idx);
	return n->live && n->gen == gen ? n : NULL;
}

/* A list in order of arrival. An entry is on one list at most. */
struct rr_list {
	uint16_t head, tail;
};

static inline void rr_list_add(struct rr_list *l, const struct rr_table *p, void *entry)
{
	struct rr_node *n = entry;

	n->next = 0;
	n->prev = l->tail;
	if (l->tail)
		((struct rr_node *)rr_table_at(p, l->tail))->next = n->idx;
	else
		l->head = n->idx;
	l->tail = n->idx;
}

static inline void rr_list_del(struct rr_list *l, const struct rr_table *p, void *entry)
{
	struct rr_node *n = entry;

	if (n->prev)
		((struct rr_node *)rr_table_at(p, n->prev))->next = n->next;
	else
		l->head = n->next;
	if (n->next)
		((struct rr_node *)rr_table_at(p, n->next))->prev = n->prev;
	else
		l->tail = n->prev;
	n->prev = n->next = 0;
}

static inline void *rr_list_head(const struct rr_list *l, const struct rr_table *p)
{
	return l->head ? rr_table_at(p, l->head) : NULL;
}

/* A map by XID, chained. An XID may be in it several times, because an app may reuse one: the
 * oldest is found first. */
struct rr_xmap {
	uint16_t *heads;
	uint32_t bits;
};

static inline uint16_t *rr_xmap_slot(const struct rr_xmap *m, uint32_t xid)
{
	return &m->heads[(xid * 2654435761u) >> (32 - m->bits)];
}

static inline void rr_xmap_add(struct rr_xmap *m, const struct rr_table *p, void *entry)
{
	struct rr_node *n = entry;
	uint16_t *at = rr_xmap_slot(m, n->xid);

	while (*at)
		at = &((struct rr_node *)rr_table_at(p, *at))->hnext;
	n->hnext = 0;
	n->mapped = true;
	*at = n->idx;
}

static inline void *rr_xmap_find(const struct rr_xmap *m, const struct rr_table *p,
				 uint32_t xid)
{
	uint16_t i = *rr_xmap_slot(m, xid);

	while (i) {
		struct rr_node *n = rr_table_at(p, i);

		if (n->xid == xid)
			return n;
		i = n->hnext;
	}
	return NULL;
}

static inline void rr_xmap_del(struct rr_xmap *m, const struct rr_table *p, void *entry)
{
	struct rr_node *n = entry;
	uint16_t *at = rr_xmap_slot(m, n->xid);

	if (!n->mapped)
		return;
	while (*at != n->idx)
		at = &((struct rr_node *)rr_table_at(p, *at))->hnext;
	*at = n->hnext;
	n->mapped = false;
}

#endif
