/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pair that carries a connection: how it is set up, from either side and with either
 * kind of peer, and how it ends. The messages that pass through it in between are the matter of
 * carried/driver.c.
 *
 * Whoever sets up a queue pair gets a share around it, or the reason why there is none. */

#include <errno.h>
#include <sys/mman.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/base.h"
#include "core/conn/base/price.h"
#include "core/conn/base/spare.h"

struct rr_share *rr_carrier_new(const struct rr_prov_ops *ops, const struct rr_prov_params *p)
{
	struct rr_share *sh = rr_share_new(p, ops->qp_size(p));

	if (!sh)
		return NULL;
	sh->qp->ops = ops;
	sh->qp->wake_fd = sh->qp->other_fd = sh->qp->ring_fd = -1;
	sh->qp->easy = !ops->ease;
	atomic_store_explicit(&sh->spin, ops->observe ? rr_cp->spin_worth : rr_cp->spin,
			      memory_order_relaxed);
	return sh;
}

/* --- between two of ours ------------------------------------------------------------------ */

/* False if a forked child could not use this provider in a process whose children do use
 * connections. */
static bool is_usable(const struct rr_prov_ops *ops)
{
	return ops->caps & RR_PROV_FAMILY ||
	       !atomic_load_explicit(&rr_conn_forks, memory_order_relaxed);
}

/* The reason for the provider's error rc; `other` if rc says nothing more specific. */
static enum rr_reason reason_of(const struct rr_prov_ops *ops, int rc, enum rr_reason other)
{
	static _Atomic uint32_t told;

	if (rc == -ECHILD)
		return RR_R_FORKED;
	if (rc == -EDQUOT)
		return RR_R_CGROUP;
	if (rc == -ENETDOWN || (rc == -EIO && !rr_prov_is_local(ops)))
		return RR_R_DEVICE;
	if (rc != -ENOMEM)
		return other;
	if (rr_prov_is_local(ops))	/* a local provider locks no memory */
		return RR_R_NO_MEMORY;
	if (!atomic_exchange(&told, true))
		rr_warn("%s: such connections stay on TCP; raise LimitMEMLOCK= or ulimit -l, "
			"or lower option 'memory'",
			rr_reason_text(RR_R_MEMLOCK));
	return RR_R_MEMLOCK;
}

enum rr_reason rr_carrier_why(const struct rr_share *sh, int rc, enum rr_reason other)
{
	return reason_of(sh->qp->ops, rc, other);
}

/* The part was begun then, and returned rc. Returns rc. */
static int paid(enum rr_price part, rr_time begun, int rc)
{
	if (!rc)
		rr_price_paid(part, rr_now() - begun);
	return rc;
}

/* A share whose queue pair is untouched; NULL, and the reason in *why. */
static struct rr_share *new_usable(const struct rr_prov_ops *ops,
				   const struct rr_prov_params *p, enum rr_reason *why)
{
	struct rr_share *sh = NULL;

	if (!is_usable(ops)) {
		*why = RR_R_FORKED;
	} else {
		sh = rr_carrier_new(ops, p);
		*why = sh ? *why : RR_R_NO_MEMORY;
	}
	return sh;
}

/* The making of sh was begun then, and has returned rc. Returns sh if rc is 0; otherwise frees
 * it, sets *why and returns NULL. */
static struct rr_share *if_made(struct rr_share *sh, rr_time begun, int rc, enum rr_reason *why)
{
	if (!paid(RR_PRICE_MAKE, begun, rc))
		return sh;
	*why = rr_carrier_why(sh, rc, *why);
	rr_carrier_free(sh);
	return NULL;
}

struct rr_share *rr_carrier_offer(const struct rr_prov_ops *ops, const struct rr_prov_params *p,
				  struct rr_nego_prov *offer, enum rr_reason *why)
{
	rr_time begun = rr_now();
	struct rr_share *sh = new_usable(ops, p, why);

	if (!sh)
		return NULL;
	offer->id = ops->id;
	return if_made(sh, begun, ops->prepare(sh->qp, p, &offer->addr), why);
}

struct rr_share *rr_carrier_answer(const struct rr_prov_ops *ops,
				   const struct rr_prov_params *p,
				   const struct rr_nego_prov *offer,
				   struct rr_nego_prov *answer, enum rr_reason *why)
{
	rr_time begun = rr_now();
	struct rr_share *sh = new_usable(ops, p, why);

	if (!sh)
		return NULL;
	answer->id = ops->id;
	return if_made(sh, begun, ops->answer(sh->qp, p, &offer->addr, &answer->addr), why);
}

bool rr_carrier_choose(struct rr_share **offered, uint8_t id)
{
	struct rr_share **at = offered, *sh;

	while (*at && (*at)->qp->ops->id != id)
		at = &(*at)->next;
	sh = *at;
	if (!sh)
		return false;
	*at = sh->next;
	sh->next = NULL;
	rr_carrier_free(*offered);
	*offered = sh;
	return true;
}

int rr_carrier_join(struct rr_share *sh, const struct rr_prov_addr *answer)
{
	rr_time begun = rr_now();

	return paid(RR_PRICE_JOIN, begun, sh->qp->ops->join(sh->qp, answer));
}

int rr_carrier_establish(struct rr_share *sh)
{
	rr_time begun = rr_now();

	return paid(RR_PRICE_ESTABLISH, begun, sh->qp->ops->establish(sh->qp));
}

bool rr_carrier_withdraw(struct rr_share *sh)
{
	const struct rr_prov_ops *ops = sh->qp->ops;

	return ops->withdraw && ops->withdraw(sh->qp) != -EAGAIN;
}

/* --- with a native peer ------------------------------------------------------------------- */

int rr_carrier_call(struct rr_share *sh, const struct rr_prov_params *p,
		    const struct sockaddr *to, const struct sockaddr *from)
{
	return sh->qp->ops->connect(sh->qp, p, to, from);
}

static size_t listener_size(const struct rr_prov_ops *ops)
{
	return rr_align(ops->lst_size(), (size_t)RR_PAGE);
}

int rr_carrier_listen(const struct rr_prov_ops *ops, const struct sockaddr *addr, bool v6only,
		      struct rr_lst **out)
{
	size_t size = listener_size(ops);
	struct rr_lst *lst;
	int rc;

	lst = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (lst == MAP_FAILED)
		return -ENOMEM;
	lst->ops = ops;
	lst->v6only = v6only;
	lst->fd = -1;
	rc = ops->listen(lst, addr);
	if (rc)
		munmap(lst, size);
	else
		*out = lst;
	return rc;
}

void rr_carrier_unlisten(struct rr_lst *lst)
{
	size_t size = listener_size(lst->ops);

	lst->ops->unlisten(lst);
	munmap(lst, size);
}

int rr_carrier_tend(struct rr_lst *lst)
{
	return lst->ops->tend ? lst->ops->tend(lst) : 0;
}

int rr_carrier_take(struct rr_lst *lst, struct rr_share *sh, const struct rr_prov_params *p)
{
	return lst->ops->take(lst, sh->qp, p, &sh->name[1], &sh->name[0]);
}

/* --- its life ----------------------------------------------------------------------------- */

enum rr_carrier rr_carrier_kind(const struct rr_share *sh)
{
	return sh->qp->ops->id == RR_PROV_ID_VERBS ? RR_CARRIER_VERBS : RR_CARRIER_SHM;
}

static bool page_in_use(void *pool, size_t off, size_t len)
{
	return rr_pool_in_use(pool, off, len);
}

void rr_carrier_trim(struct rr_share *sh)
{
	sh->qp->ops->trim(sh->qp, page_in_use, &sh->pool);
}

void rr_carrier_disconnect(struct rr_share *sh)
{
	sh->qp->ops->disconnect(sh->qp);
}

void rr_carrier_close(struct rr_share *sh)
{
	sh->qp->mem_unused = !sh->pool.fresh_buf;
	sh->qp->ops->close(sh->qp);
}

void rr_carrier_free(struct rr_share *sh)
{
	while (sh) {
		struct rr_share *next = sh->next;
		rr_time begun = rr_now();
		int far = sh->far;	/* a copy: the rest of the family keeps using sh->far */

		rr_carrier_close(sh);
		rr_loopback_end(&far, false);
		rr_spare_leave(sh);
		rr_price_paid(RR_PRICE_FREE, rr_now() - begun);
		sh = next;
	}
}
