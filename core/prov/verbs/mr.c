/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory: as much of mem as is used.
 *
 * The caller uses mem from its beginning on. Registrations grow by doubling and always start
 * there, so any piece lies in one registration, and after a few steps no more are needed.
 * Shorter ones go when nothing uses them, and all of them when the connection is idle. Rights
 * of the peer are not given here (keys.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <linux/capability.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/queue.h"

#define FIRST	((size_t)256 * 1024)

/* --- RLIMIT_MEMLOCK -------------------------------------------------------------------- */

/* Bytes that this process's connections may come to lock. */
static _Atomic size_t reserved;
static _Atomic uint32_t given[RR_V_SHARES];	/* connections that have such receives */

/* Is memory locking unlimited? CAP_IPC_LOCK counts in the initial user namespace only. */
static bool unlimited(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct cap[_LINUX_CAPABILITY_U32S_3] = { { 0 } };
	char map[64] = "";
	ssize_t n;
	int fd;

	if (syscall(SYS_capget, &head, cap) || !(cap[0].effective & 1u << CAP_IPC_LOCK))
		return false;
	fd = rr_os_open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	n = syscall(SYS_read, fd, map, sizeof(map) - 1);
	rr_os->close(fd);
	return n <= 0 || strstr(map, " 4294967295");
}

void rr_verbs_mr_forked(void)
{
	reserved = 0;
	for (int i = 0; i < RR_V_SHARES; i++)
		given[i] = 0;
}

/* The process's limit; SIZE_MAX: none. */
static size_t memlock_limit(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_MEMLOCK, &lim) || lim.rlim_cur == RLIM_INFINITY || unlimited())
		return SIZE_MAX;
	return lim.rlim_cur;
}

/* Reserves enough for whatever the connection may need later, so that one that has begun does
 * not fail for lack of it. */
int rr_verbs_mr_reserve(struct rr_vq *v, size_t need)
{
	size_t most = memlock_limit();

	if (most == SIZE_MAX)
		return 0;
	v->locked = need;
	return atomic_fetch_add(&reserved, need) + need <= most ? 0 : -ENOMEM;
}

/* Memory that is registered twice counts twice. What a connection registers beyond its
 * reservation (shorter registrations that the peer keeps in use, exposures without windows)
 * must not come out of what was reserved for others. */
bool rr_verbs_mr_charge(struct rr_vq *v, size_t len)
{
	size_t over = v->pinned + len > v->param.mem_size ? v->pinned + len -
		      v->param.mem_size : 0;
	size_t more = over > v->over ? over - v->over : 0;

	if (!v->locked)
		return true;
	if (more && atomic_fetch_add(&reserved, more) + more > memlock_limit()) {
		atomic_fetch_sub(&reserved, more);
		errno = ENOMEM;
		return false;
	}
	v->pinned += len;
	v->over += more;
	return true;
}

void rr_verbs_mr_uncharge(struct rr_vq *v, size_t len)
{
	size_t over;

	if (!v->locked)
		return;
	v->pinned -= len;
	over = v->pinned > v->param.mem_size ? v->pinned - v->param.mem_size : 0;
	atomic_fetch_sub(&reserved, v->over - over);
	v->over = over;
}

/* Adds first and looks afterwards, so that two threads cannot both get the last one. */
bool rr_verbs_mr_share(struct rr_vq *v, enum rr_verbs_share which)
{
	static const uint32_t most[RR_V_SHARES] = { [RR_V_LONG] = RR_VERBS_LONG,
						    [RR_V_FULL] = RR_VERBS_FULL };

	v->share[which] = atomic_fetch_add(&given[which], 1) < most[which];
	if (!v->share[which])
		atomic_fetch_sub(&given[which], 1);
	return v->share[which];
}

void rr_verbs_mr_unreserve(struct rr_vq *v)
{
	for (int i = 0; i < RR_V_SHARES; i++) {
		if (v->share[i])
			atomic_fetch_sub(&given[i], 1);
		v->share[i] = false;
	}
	if (v->locked)
		atomic_fetch_sub(&reserved, v->locked + v->over);
	v->locked = v->over = v->pinned = 0;
}

/* --- registering ----------------------------------------------------------------------- */

/* Deregisters m, which has no users. */
static void retire(struct rr_vq *v, struct rr_verbs_mr *m)
{
	ibv_dereg_mr(m->mr);
	rr_verbs_mr_uncharge(v, m->len);
	*m = (struct rr_verbs_mr){ 0 };
}

/* The longest registration; NULL: there is none. */
static struct rr_verbs_mr *longest(struct rr_vq *v)
{
	struct rr_verbs_mr *best = NULL;

	for (uint32_t i = 0; i < RR_VERBS_MRS; i++)
		if (v->mr[i].mr && (!best || v->mr[i].len > best->len))
			best = &v->mr[i];
	return best;
}

/* Frees registrations that are shorter than the longest one and have no users. */
static void retire_unused(struct rr_vq *v)
{
	const struct rr_verbs_mr *keep = longest(v);

	for (uint32_t i = 0; i < RR_VERBS_MRS; i++)
		if (v->mr[i].mr && &v->mr[i] != keep && !v->mr[i].users)
			retire(v, &v->mr[i]);
}

/* A new registration of at least the first `end` bytes. NULL with errno. */
static struct rr_verbs_mr *grow_mr(struct rr_qp *qp, struct rr_vq *v, size_t end)
{
	int access = RR_VERBS_LOCAL | (v->windows || v->on_trial ? IBV_ACCESS_MW_BIND : 0) |
		     (rr_verbs_iwarp(v->id) ? IBV_ACCESS_REMOTE_WRITE : 0);
	/* mem is at most 2^(RR_VERBS_MRS - 2) times as long as the first registration, so there
	 * is always a free entry. */
	size_t len = rr_max(FIRST,
			    rr_align(qp->mem_size >> (RR_VERBS_MRS - 2), (size_t)RR_PAGE));
	struct rr_verbs_mr *m = v->mr;

	while (len < end)
		len *= 2;
	len = rr_min(len, qp->mem_size);
	while (m->mr)
		m++;
	if (!rr_verbs_mr_charge(v, len))
		return NULL;
	m->mr = ibv_reg_mr(v->pd, qp->mem, len, access);
	if (!m->mr) {
		rr_verbs_mr_uncharge(v, len);
		return NULL;
	}
	m->len = len;
	retire_unused(v);
	return m;
}

/* If a limit is reached while shorter registrations are in use, there will be room once they
 * are gone: -EAGAIN. */
static int mr_error(const struct rr_vq *v)
{
	int err = rr_verbs_scarce(errno) ? ENOMEM : errno;

	for (uint32_t i = 0; i < RR_VERBS_MRS; i++)
		if (v->mr[i].users && err == ENOMEM)
			return -EAGAIN;
	return -err;
}

/* See queue.h. The longest registration has whatever a shorter one has, so only that one gets
 * new users, and the others run out of them. */
int rr_verbs_mr_use(struct rr_qp *qp, struct rr_vq *v, const void *local, size_t len)
{
	size_t end = (size_t)((const uint8_t *)local - qp->mem) + len;
	struct rr_verbs_mr *m = longest(v);

	if (!m || m->len < end)
		m = grow_mr(qp, v, end);
	if (!m)
		return mr_error(v);
	m->users++;
	return (int)(m - v->mr);
}

void rr_verbs_mr_unuse(struct rr_vq *v, uint32_t i)
{
	if (--v->mr[i].users == 0)
		retire_unused(v);
}

void rr_verbs_mr_free(struct rr_vq *v)
{
	for (uint32_t i = 0; i < RR_VERBS_MRS; i++)
		if (v->mr[i].mr)
			retire(v, &v->mr[i]);
}

/* Gives all of mem back while the connection is idle. A registration pins its pages, so it has
 * to go first, and it cannot go while a work request or a window uses it. */
void rr_verbs_mr_trim(struct rr_qp *qp, bool (*used)(void *ctx, size_t off, size_t len),
		       void *ctx)
{
	struct rr_vq *v = rr_verbs_of(qp);
	struct rr_verbs_mr *m = v ? longest(v) : NULL;
	int saved = errno;
	size_t len;

	if (!m)
		return;
	len = m->len;
	for (uint32_t i = 0; i < RR_VERBS_MRS; i++)
		if (v->mr[i].users || used(ctx, 0, len))
			return;
	retire(v, m);
	madvise(qp->mem, len, MADV_DONTNEED);
	errno = saved;
}
