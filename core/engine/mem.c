/* SPDX-License-Identifier: BSD-3-Clause */

/* Memory of ours that the peer can access, from its exposure to its fence. Which memory that
 * is, is decided in requester.c and reliable_reply.c. */

#include "core/engine/queues.h"

/* The segments go into a header as they are, so they must hold the message exactly and fit into
 * the arrays that a header is built from. */
bool rr_mem_set(struct rr_mem *m, uint32_t buf, uint32_t len, const struct rr_seg *segs,
		uint32_t n)
{
	uint64_t sum = 0;

	if (n == 0 || n > RR_ENG_SEGS)
		return false;
	for (uint32_t i = 0; i < n; i++)
		sum += segs[i].length;
	if (sum != len)
		return false;
	memcpy(m->segs, segs, n * sizeof(*segs));
	m->nsegs = n;
	m->buf = buf;
	m->len = len;
	m->gone = 0;
	m->state = RR_MEM_LIVE;
	return true;
}

/* A Send invalidates one key. If that was the only one, the memory is fenced; if not,
 * rr_mem_fence() still has to take back the others. A second invalidation is not believed. */
bool rr_mem_key_gone(struct rr_mem *m, uint32_t handle)
{
	uint32_t i = 0;

	if (m->state != RR_MEM_LIVE || m->gone)
		return false;
	while (i < m->nsegs && m->segs[i].handle != handle)
		i++;
	if (i == m->nsegs)
		return false;
	m->gone = handle;
	if (m->nsegs == 1)
		m->state = RR_MEM_FENCED;
	return true;
}

bool rr_mem_fence(struct rr_eng *e, struct rr_mem *m, uint32_t id)
{
	if (m->state != RR_MEM_LIVE)
		return m->state != RR_MEM_FENCING;
	m->state = RR_MEM_FENCING;
	rr_eng_push(e, RR_OP_INVALIDATE, id, m->buf, m->gone, 0);
	return false;
}
