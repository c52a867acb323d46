/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/engine/engine_int.h"

static const struct rr_traits traits[] = {
	[RR_DIALECT_V1] = { .reliable = true },
	[RR_DIALECT_V2] = { .reliable = true },
	[RR_DIALECT_DRAFT02] = { .reliable = true },
	[RR_DIALECT_SLIDES] = { .reverse_types = true },
};

const struct rr_traits *rr_traits_of(enum rr_dialect dialect)
{
	return &traits[dialect];
}

/* Calls go from the connector to the acceptor, unless they are reverse ones. */
static bool is_reverse(const struct rr_eng *e, bool call, bool ours)
{
	return (call == ours) != e->p.connector;
}

static bool is_dir(const struct rr_msg *m, bool call)
{
	return m->dir == (call ? RR_DIR_CALL : RR_DIR_REPLY);
}

/* req: slides - #2 */
bool rr_dialect_agrees(const struct rr_eng *e, const struct rr_msg *m, uint32_t type)
{
	bool call = type == RR_RPC_CALL;

	if (likely(!e->traits->reverse_types))
		return true;
	return m->reverse == is_reverse(e, call, false) && (!m->reverse || is_dir(m, call));
}

/* req: slides - #1 */
void rr_dialect_mark(const struct rr_eng *e, struct rr_msg *m, bool call)
{
	if (likely(!e->traits->reverse_types) || !is_reverse(e, call, true))
		return;
	m->reverse = true;
	m->dir = call ? RR_DIR_CALL : RR_DIR_REPLY;
}
