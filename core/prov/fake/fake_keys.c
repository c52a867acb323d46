/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the peer may read or write, by keys. An access that no key allows breaks the
 * link. */
#include <errno.h>

#include "core/prov/fake/fake_int.h"

/* The live key with this handle. Its low bits are the key's place, the others are random: so a
 * handle of an earlier exposure finds nothing. */
static struct fake_key *find_live_key(struct rr_fake_qp *q, uint32_t handle)
{
	struct fake_key *k = &q->keys[handle % FAKE_KEYS];

	return k->live && k->handle == handle ? k : NULL;
}

uint32_t rr_fake_keys(const struct rr_qp *qp)
{
	const struct rr_fake_qp *q = container_of(qp, struct rr_fake_qp, qp);
	uint32_t n = 0;

	for (uint32_t i = 0; i < FAKE_KEYS; i++)
		n += q->keys[i].live;
	return n;
}

bool rr_fake_key(const struct rr_qp *qp, uint32_t n, struct rr_seg *out)
{
	const struct rr_fake_qp *q = container_of(qp, struct rr_fake_qp, qp);

	for (uint32_t i = 0; i < FAKE_KEYS; i++) {
		const struct fake_key *k = &q->keys[i];

		if (!k->live || n--)
			continue;
		*out = (struct rr_seg){ .handle = k->handle, .length = k->len,
					.offset = k->base };
		return true;
	}
	return false;
}

/* Handle and offset are random, so that an engine that mixes them up, or computes with an
 * address, is caught. */
int rr_fake_expose(struct rr_qp *qp, const void *local, uint32_t len, enum rr_rights rights,
		   struct rr_seg *out)
{
	struct rr_fake_qp *q = rr_fake_of(qp);
	struct fake_key *k = NULL;

	for (uint32_t i = 0; i < FAKE_KEYS && !k; i++)
		if (!q->keys[++q->next_key % FAKE_KEYS].live)
			k = &q->keys[q->next_key % FAKE_KEYS];
	if (!k)
		return -EAGAIN;
	*k = (struct fake_key){
		.handle = (uint32_t)(rr_fake_chance(q->link) >> 20) / FAKE_KEYS * FAKE_KEYS +
			  (uint32_t)(k - q->keys),
		.len = len, .local = local, .rights = rights, .live = true,
		.base = rr_fake_chance(q->link) >> 8,
	};
	*out = (struct rr_seg){ .handle = k->handle, .length = len, .offset = k->base };
	return 0;
}

/* All bytes were read, and the reader knows that. */
bool rr_fake_consumed(struct rr_qp *qp, uint32_t handle)
{
	struct fake_key *k = find_live_key(rr_fake_of(qp), handle);

	return k && k->read >= k->len;
}

/* Only with `direct` the reader says so itself; otherwise rr_fake_has_read() counts bytes as
 * reads complete. */
void rr_fake_consume(struct rr_qp *qp, const struct rr_seg *seg)
{
	struct rr_fake_qp *q = rr_fake_of(qp);
	struct fake_key *k = q->peer ? find_live_key(q->peer, seg->handle) : NULL;

	if (k && q->link->conf.direct)
		k->read = k->len;
}

/* The bytes of the peer's memory that w means; NULL, and the connection is lost, if no key
 * allows it. The right must be exactly the one that the operation needs. The sum of offsets is
 * of 64 bits and is checked by subtraction, so it cannot wrap into the key's range. */
uint8_t *rr_fake_reach(struct rr_fake_qp *q, const struct fake_wqe *w, enum rr_rights right)
{
	struct fake_key *k = find_live_key(q->peer, w->seg.handle);
	uint64_t at = w->seg.offset + w->off;

	if (!k || k->rights != right || at < k->base || at - k->base > k->len ||
	    w->len > k->len - (at - k->base)) {
		rr_fake_violate(q);
		return NULL;
	}
	return (uint8_t *)(uintptr_t)k->local + (at - k->base);
}

/* The completion of a Read has reached its poster: only now the peer may be told that the bytes
 * were read. */
void rr_fake_has_read(struct rr_fake_qp *q, const struct fake_wqe *w)
{
	struct fake_key *k = NULL;

	if (q->peer && w->wc.op == RR_WC_READ)
		k = find_live_key(q->peer, w->seg.handle);
	if (k)
		k->read += w->len;
}

void rr_fake_kill_key(struct rr_fake_qp *q, uint32_t handle)
{
	struct fake_key *k = find_live_key(q, handle);

	if (k)
		k->live = false;
	else
		rr_fake_violate(q);	/* a key twice invalidated is a bug of ours */
}
