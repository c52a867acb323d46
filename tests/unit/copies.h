/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COPIES_H
#define COPIES_H

/* For tests of an end that says, by the word in shared memory, that it copies under a key of its peer's. */

#include <criterion/criterion.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/conn/base/base.h"
#include "core/prov/shm/shm_int.h"
#include "tests/unit/conn_pair.h"

static inline struct rr_shm *shm_of(const struct rr_end *e)
{
	return container_of(e->c->share->qp, struct rr_shm, qp);
}

/* e's peer writes it: that it copies under handle, one of e's; 0 that it does no more. */
static inline void copies(const struct rr_end *e, uint32_t handle)
{
	atomic_store(&shm_of(e)->own.ctl->accessing, handle);
}

/* The key to e's message: the last one that was given out. The other was for what could be read of it earlier. */
static inline uint32_t key_of(const struct rr_end *e)
{
	const struct rr_shm *q = shm_of(e);
	uint32_t last = 0;

	cr_assert_eq(q->key_live, 2);
	for (uint32_t i = 0; i < RR_SHM_KEYS; i++)
		if (q->key[i].live && q->key[i].handle >> RR_SHM_KEY_BITS > last >> RR_SHM_KEY_BITS)
			last = q->key[i].handle;
	return last;
}

/* `to` has read the n bytes of a long message in out, and claims that it still copies. */
static inline void is_held(struct rr_end *from, struct rr_end *to, size_t n)
{
	uint32_t key;

	cr_assert_eq(rr_end_send(from, NULL, out, n), (ssize_t)n);
	key = key_of(from);
	cr_assert_eq(rr_end_recv(to, NULL, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	copies(from, key);
}

/* The server has read a long call, with xid 2, and claims that it still copies its arguments. */
static inline void call_is_held(void)
{
	carried();
	is_held(&p.client, &p.server, rr_test_call(out, 2, 100000, 2));
}

#endif
