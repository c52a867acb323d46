/* SPDX-License-Identifier: BSD-3-Clause */

/* The direction of a message, as a dialect's headers express it. The headers themselves are
 * core/wire's. */

#include "core/engine/queues.h"

/* Calls go from the connector to the acceptor, unless they are reverse calls. */
static bool is_reverse(const struct rr_eng *e, bool call, bool ours)
{
	return (call == ours) != e->p.connector;
}

static bool is_dir(const struct rr_msg *m, bool call)
{
	return m->dir == (call ? RR_DIR_CALL : RR_DIR_REPLY);
}

/* req: slides - #2; version-two-08 3.2 #2 */
bool rr_dialect_agrees(const struct rr_eng *e, const struct rr_msg *m, uint32_t type)
{
	bool call = type == RR_RPC_CALL;

	if (likely(!e->traits->reverse_types))
		return !e->traits->directed || is_dir(m, call);
	return m->reverse == is_reverse(e, call, false) && (!m->reverse || is_dir(m, call));
}

/* req: slides - #1; version-two-08 3.2 #2 */
void rr_dialect_mark(const struct rr_eng *e, struct rr_msg *m, bool call)
{
	if (unlikely(e->traits->reverse_types)) {
		if (!is_reverse(e, call, true))
			return;
		m->reverse = true;
	}
	m->dir = call ? RR_DIR_CALL : RR_DIR_REPLY;
}
