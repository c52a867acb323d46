/* SPDX-License-Identifier: BSD-3-Clause */
/* The link between the two ends of the provider for tests: its chances, and how it breaks. */
#include "core/prov/fake/fake_int.h"

/* The next random number of the link (xorshift). Everything that is left to chance is drawn
 * from here, so a seed repeats a run exactly. */
uint64_t rr_fake_chance(struct rr_fake_link *l)
{
	l->rng ^= l->rng << 13;
	l->rng ^= l->rng >> 7;
	l->rng ^= l->rng << 17;
	return l->rng;
}

/* Is the connection over for q: broken, or its peer gone? */
bool rr_fake_lost(const struct rr_fake_qp *q)
{
	return q->link->broken || !q->peer;
}

/* What was posted or has completed is lost, as on a device. Receives that have arrived stay,
 * and are still handed out by poll(). */
void rr_fake_break(struct rr_fake_link *l)
{
	l->broken = true;
	for (int i = 0; i < 2; i++) {
		struct rr_fake_qp *q = l->end[i];

		for (uint32_t k = 0; q && k < q->nsq; k++)
			free(q->sq[k].copy);
		if (q)
			q->nsq = q->ncq = 0;
	}
}

/* Something that no device would let happen: counts it and breaks the link. */
void rr_fake_violate(struct rr_fake_qp *q)
{
	q->link->violations++;
	rr_fake_break(q->link);
}

bool rr_fake_busy(const struct rr_fake_link *l)
{
	for (int i = 0; i < 2; i++)
		if (l->end[i] && (l->end[i]->nsq || l->end[i]->ncq || l->end[i]->nrq))
			return true;
	return false;
}
