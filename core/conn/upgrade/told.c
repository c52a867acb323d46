/* SPDX-License-Identifier: BSD-3-Clause */
/* What an upgrade has shown of each provider, for rdmarpc-check to read from the segment: which
 * were offered, why one could not be used at this end, and what the server says of the other
 * end. Only a client with option ask_peer notes it. */

#include <string.h>

#include "core/base/compiler.h"
#include "core/conn/upgrade/upgrade.h"

_Static_assert((int)RR_TOLD_SHM == (int)RR_PROV_ID_SHM &&
		   (int)RR_TOLD_VERBS == (int)RR_PROV_ID_VERBS,
	       "a provider's number in offers");

/* NULL: nothing is noted. */
static struct rr_stat_told *notes_of(struct rr_conn *c)
{
	return unlikely(rr_cp->ask_peer) && c->seg ? &c->seg->told : NULL;
}

/* The number may come from a peer. */
static void set_by_id(_Atomic uint8_t *all, uint8_t id, uint8_t to)
{
	if (id < RR_STAT_PROVS)
		atomic_store_explicit(&all[id], to, memory_order_relaxed);
}

/* Forgets what an earlier upgrade has shown. A native peer is dialled before that. */
void rr_told_begin(struct rr_conn *c)
{
	struct rr_stat_told *t = notes_of(c);

	if (!t)
		return;
	memset(t->release, 0, sizeof(t->release));
	for (uint8_t id = RR_TOLD_NATIVE + 1; id < RR_STAT_PROVS; id++) {
		set_by_id(t->offered, id, 0);
		set_by_id(t->here, id, 0);
		set_by_id(t->there, id, 0);
	}
}

void rr_told_offered(struct rr_conn *c, uint8_t id)
{
	struct rr_stat_told *t = notes_of(c);

	if (t)
		set_by_id(t->offered, id, 1);
}

void rr_told_here(struct rr_conn *c, uint8_t id, enum rr_reason why)
{
	struct rr_stat_told *t = notes_of(c);

	if (t)
		set_by_id(t->here, id, (uint8_t)why);
}

void rr_told_there(struct rr_conn *c, const struct rr_hello *answer)
{
	struct rr_stat_told *t = notes_of(c);

	_Static_assert(sizeof(t->release) == sizeof(answer->release), "copied as it is");
	if (!t)
		return;
	memcpy(t->release, answer->release, sizeof(t->release));
	for (uint32_t i = 0; i < answer->nlack; i++)
		set_by_id(t->there, answer->lack[i].id, answer->lack[i].why);
}
