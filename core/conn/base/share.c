/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a connection that a family of processes shares: one mapping, laid out for the
 * most that both sides could agree on; and the list of the processes that have it. The queue
 * pair in it is set up by carrier.c. */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/pages.h"
#include "core/conn/base/base.h"
#include "core/conn/base/spare.h"

/* The room that the engine needs, whatever the two sides will agree on. The dialect makes no
 * difference to it. */
static size_t engine_room(const struct rr_eng_params *most)
{
	struct rr_eng_params ep = *most;
	size_t room = 0;

	for (int i = 0; i < 4; i++) {
		ep.connector = i & 1;
		ep.caps = i & 2 ? most->caps : most->caps & ~(uint32_t)RR_CAP_RING_CREDITS;
		room = rr_max(room, rr_eng_size(&ep));
	}
	return room;
}

/* The queue of messages for the app begins so far behind a page's start that its last entries
 * are in the engine's first page. */
#define RX_SIZE		(RR_RX_ENTS * sizeof(struct rr_rx_ent))
#define RX_NEAR		((RR_RX_ENTS - RR_RX_FIRST) * sizeof(struct rr_rx_ent))
_Static_assert(RX_SIZE % RR_PAGE == 0 && RX_NEAR % RR_CACHELINE == 0, "aligned as the engine");

/* Lays the parts out behind one another; returns the size of all. */
static size_t share_layout(size_t qp_size, const struct rr_eng_params *ep, size_t *qp_at,
			   size_t *eng_at, size_t *tables_at)
{
	*qp_at = rr_align(sizeof(struct rr_share), (size_t)RR_CACHELINE);
	*eng_at = rr_align(*qp_at + qp_size, (size_t)RR_PAGE) + RX_SIZE + RX_NEAR;
	*tables_at = rr_align(*eng_at + engine_room(ep), (size_t)RR_CACHELINE);
	return rr_align(*tables_at + sizeof(struct rr_tables), (size_t)RR_PAGE) + RR_RING;
}

/* The engine's parameters at the most that both sides can agree on. */
static void engine_params(struct rr_eng_params *ep, const struct rr_prov_params *p)
{
	*ep = rr_cp->eng;
	ep->caps = RR_CAP_RELIABLE_REPLY | RR_CAP_RING_CREDITS | RR_CAP_HATCH |
		   RR_CAP_REVERSE_CHUNKS;
	ep->recvs = p->recvs;
	ep->pulls = RR_PULLS;
	ep->inline_send = ep->inline_recv = p->recv_size;
	ep->done_timeout_pressure = ep->done_timeout / 10;
	ep->sizes = &rr_conn_sizes;
}

struct rr_share *rr_share_new(const struct rr_prov_params *p, size_t qp_size)
{
	struct rr_eng_params ep;
	struct rr_share *sh;
	size_t size, qp_at, eng_at, tables_at;

	engine_params(&ep, p);
	size = share_layout(qp_size, &ep, &qp_at, &eng_at, &tables_at);
	sh = rr_spare_take(size);
	if (!sh)
		return NULL;
	sh->qp = (struct rr_qp *)((uint8_t *)sh + qp_at);
	sh->eng = (struct rr_eng *)((uint8_t *)sh + eng_at);
	sh->tables = (struct rr_tables *)((uint8_t *)sh + tables_at);
	sh->back = (struct rr_handback){ .owner = (int32_t)rr_pid(), .door = -1,
					 .ring = (uint8_t *)sh + size - RR_RING };
	rr_rx_init(sh, (void *)((uint8_t *)sh->eng - RX_SIZE));
	sh->pull = sh->tables->pull;
	sh->ep = ep;
	sh->far = -1;
	sh->tx.buf = RR_BUF_NONE;
	sh->patience = rr_cp->idle_trim;
	atomic_store_explicit(&sh->procs, 1, memory_order_relaxed);
	atomic_store_explicit(&sh->family[0], (int32_t)rr_pid(), memory_order_relaxed);
	memcpy(sh->token, p->token, RR_TOKEN_LEN);
	return sh;
}

void rr_share_trim(struct rr_share *sh, size_t keep)
{
	rr_pages_drop((uint8_t *)sh->eng - RX_NEAR - RX_SIZE, sh->eng);
	rr_pages_drop((uint8_t *)sh->eng + keep, (uint8_t *)sh + sh->size);
}

void rr_share_unmap(struct rr_share *sh)
{
	while (sh) {
		struct rr_share *next = sh->next;

		munmap(sh, sh->size);
		sh = next;
	}
}

/* --- the family ------------------------------------------------------------------------ */

void rr_family_swap(struct rr_share *sh, int32_t was, int32_t now)
{
	for (uint32_t i = 0; i < RR_FAMILY; i++) {
		int32_t expect = was;

		if (atomic_compare_exchange_strong_explicit(&sh->family[i], &expect, now,
							    memory_order_relaxed,
							    memory_order_relaxed))
			return;
	}
}

uint32_t rr_conn_procs(struct rr_share *sh)
{
	for (uint32_t i = 0; i < RR_FAMILY; i++) {
		int32_t pid = atomic_load_explicit(&sh->family[i], memory_order_relaxed);

		if (!pid || pid == (int32_t)rr_pid() || rr_lock_is_mixed(&sh->lock) ||
		    !rr_pid_is_dead(pid))
			continue;
		atomic_store_explicit(&sh->family[i], 0, memory_order_relaxed);
		atomic_fetch_sub_explicit(&sh->procs, 1, memory_order_acq_rel);
	}
	return atomic_load_explicit(&sh->procs, memory_order_relaxed);
}

uint32_t rr_conn_leave(struct rr_share *sh)
{
	rr_family_swap(sh, (int32_t)rr_pid(), 0);
	if (atomic_fetch_sub_explicit(&sh->procs, 1, memory_order_acq_rel) == 1)
		return 0;
	return rr_conn_procs(sh);
}

bool rr_conn_shareable(const struct rr_share *sh)
{
	return rr_qp_caps(sh->qp) & RR_PROV_FAMILY;
}
