/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory of a connection: makes and seals our region, judges and maps the peer's,
 * and trims both when idle. The messages in the rings are not looked at here. */

#include "core/prov/shm/shm_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/pages.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define SEALS	(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static uint32_t pow2_above(uint32_t v)
{
	uint32_t p = 1;

	while (p < v)
		p <<= 1;
	return p;
}

/* Calculates where everything in a region lies. The numbers may be the peer's, so each is held
 * against its limit before anything is calculated from it.
 *
 * req: rfc8166 3.3.3 #3 */
int rr_shm_geo_init(struct rr_shm_geo *g, uint32_t recv_size, uint32_t recvs, uint64_t mem_size)
{
	if (recv_size < RR_SHM_RECV_MIN || recv_size > RR_SHM_RECV_MAX)
		return -EINVAL;
	if (recvs < 1 || recvs > RR_SHM_RECVS)
		return -EINVAL;
	if (mem_size > RR_SHM_MEM_MAX || mem_size % RR_PAGE)
		return -EINVAL;
	g->recv_size = recv_size;
	g->recvs = recvs;
	g->mem_size = mem_size;
	g->slots = pow2_above(recvs);
	g->stride = rr_align(recv_size, RR_CACHELINE) | RR_CACHELINE;
	g->ring_off = rr_align(sizeof(struct rr_shm_ctl) + g->slots * sizeof(uint32_t), 64u);
	g->keys_off = rr_align(g->ring_off + g->slots * sizeof(struct rr_shm_slot), RR_PAGE);
	g->long_off = rr_align(g->keys_off + RR_SHM_KEYS * sizeof(struct rr_shm_key), RR_PAGE);
	g->long_len = rr_align((size_t)g->slots * g->stride, RR_PAGE);
	g->mem_off = g->long_off + g->long_len;
	g->total = g->mem_off + (size_t)mem_size;
	return 0;
}

/* How large a region of the peer's is mapped, whatever its owner asks for: so much, or four
 * times our own if that is more. */
#define BEARABLE	((size_t)160 << 20)

size_t rr_shm_geo_bearable(const struct rr_shm_geo *other)
{
	return rr_max(BEARABLE, 4 * other->total);
}

/* Both sides use as many receives as the side with fewer receives has. In the longer ring the
 * other slots stay unused. */
void rr_shm_geo_agree(struct rr_shm_geo *a, struct rr_shm_geo *b)
{
	a->recvs = b->recvs = rr_min(a->recvs, b->recvs);
	a->slots = b->slots = rr_min(a->slots, b->slots);
}

/* Regions may use a quarter of the address space. On 32 bits that is 26 connections with
 * default options; the app's own memory comes first. */
#define MAPPED_MAX	(SIZE_MAX / 4)
static _Atomic size_t mapped;

static void unmapped(size_t n)
{
	atomic_fetch_sub_explicit(&mapped, n, memory_order_relaxed);
}

static bool may_map(size_t n)
{
	if (n > MAPPED_MAX)
		return false;
	if (atomic_fetch_add_explicit(&mapped, n, memory_order_relaxed) <= MAPPED_MAX - n)
		return true;
	unmapped(n);
	return false;
}

/* Maps a region whose size has been judged, and finds its parts. MAP_NORESERVE: most of it is
 * never touched. */
static int map_view(struct rr_shm_view *v, int memfd, const struct rr_shm_geo *g)
{
	uint8_t *base;
	int rc;

	if (!may_map(g->total))
		return -ENOMEM;
	rc = rr_berth_map(&v->berth, g->total, MAP_SHARED | MAP_NORESERVE, memfd);
	if (rc) {
		unmapped(g->total);
		return rc;
	}
	base = v->berth.at;
	v->geo = *g;
	v->ctl = v->berth.at;
	v->freed = (void *)(base + sizeof(struct rr_shm_ctl));
	v->keys = (void *)(base + g->keys_off);
	v->ring = (void *)(base + g->ring_off);
	v->longs = base + g->long_off;
	v->mem = base + g->mem_off;
	return 0;
}

/* With vm.memfd_noexec=2 only memfds with this flag may be made; older kernels do not know the
 * flag. */
static int new_memfd(void)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create("rdmarpc", flags | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("rdmarpc", flags);
	return fd < 0 ? -errno : fd;
}

/* Growing a file beyond RLIMIT_FSIZE would raise SIGXFSZ, which kills the app. */
static bool size_allowed(size_t size)
{
	struct rlimit lim;

	return getrlimit(RLIMIT_FSIZE, &lim) == 0 && lim.rlim_cur >= size;
}

/* A memfd of huge pages is refused, because those may run out, which raises SIGBUS. The file
 * system of ordinary memfds is looked up once: it is the kernel's own, and stays mounted. */
static RR_NOINLINE bool is_tmpfs(int memfd, dev_t dev)
{
	static _Atomic uint64_t known;	/* 0 none: no file system has that number */
	struct statfs fs;

	if (atomic_load_explicit(&known, memory_order_relaxed) == (uint64_t)dev)
		return true;
	if (fstatfs(memfd, &fs) || fs.f_type != TMPFS_MAGIC)
		return false;
	atomic_store_explicit(&known, (uint64_t)dev, memory_order_relaxed);
	return true;
}

/* Is the file of that size? Puts its file system's number into *dev. */
static RR_NOINLINE bool has_size(int memfd, uint64_t size, dev_t *dev)
{
	struct stat st;

	if (fstat(memfd, &st) || st.st_size < 0 || (uint64_t)st.st_size != size)
		return false;
	*dev = st.st_dev;
	return true;
}

/* Any kind of file may have been passed. The seals are checked first: that involves no code of
 * its file system, and only memfds (of tmpfs or hugetlbfs) can have them.
 * What the kernel fills in for the other two checks lies on the stack during that check alone:
 * this may run in a signal handler, at the bottom of the call that upgrades a connection. */
static int judge_memfd(int memfd, const struct rr_shm_geo *g)
{
	int seals = rr_os->fcntl(memfd, F_GET_SEALS);
	dev_t dev;

	if (seals < 0 || (seals & SEALS) != SEALS || !has_size(memfd, g->total, &dev))
		return -EPROTO;
	return is_tmpfs(memfd, dev) ? 0 : -EPROTO;
}

/* Can this process take a peer's memfd in and judge it? A filter of system calls (seccomp) may
 * forbid that, and a server must know it before it answers: the client makes its first call as
 * soon as it has the answer and the server's region. A memfd of our own shows it; once it has
 * succeeded it is not tried again. */
static int try_judging(int memfd, const struct rr_shm_geo *g)
{
	static _Atomic bool known;
	struct msghdr none = { 0 };
	int rc;

	if (atomic_load_explicit(&known, memory_order_relaxed))
		return 0;
	if (rr_os->recvmsg(memfd, &none, MSG_DONTWAIT) < 0 && errno != ENOTSOCK)
		return -errno;
	rc = judge_memfd(memfd, g);
	if (!rc)
		atomic_store_explicit(&known, true, memory_order_relaxed);
	return rc;
}

/* See shm_int.h, which also says why the control page is allocated here (SIGBUS). The size is
 * sealed before the peer gets the file. */
int rr_shm_region_make(struct rr_shm *q)
{
	struct rr_shm_geo g;
	int rc = rr_shm_geo_init(&g, q->param.recv_size, q->param.recvs, q->param.mem_size);
	int fd;

	if (rc)
		return rc;
	if (!size_allowed(g.total))
		return -EFBIG;
	fd = new_memfd();
	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)g.total) || rr_os_fallocate(fd, 0, 0, RR_PAGE) ||
	    rr_os->fcntl(fd, F_ADD_SEALS, SEALS)) {
		rc = -errno;
		goto close_fd;
	}
	rc = try_judging(fd, &g);
	if (!rc)
		rc = map_view(&q->own, fd, &g);
	if (rc)
		goto close_fd;
	return fd;
close_fd:
	rr_os->close(fd);
	return rc;
}

int rr_shm_region_take(struct rr_shm *q, int memfd, const struct rr_shm_geo *g)
{
	int rc = judge_memfd(memfd, g);

	return rc ? rc : map_view(&q->peer, memfd, g);
}

static void drop_view(const struct rr_shm_view *v)
{
	if (!v->berth.at)
		return;
	rr_berth_unmap(&v->berth);
	unmapped(v->geo.total);
}

void rr_shm_views_drop(const struct rr_shm_view *own, const struct rr_shm_view *peer)
{
	drop_view(own);
	drop_view(peer);
}

void rr_shm_regions_drop(struct rr_shm *q)
{
	rr_shm_views_drop(&q->own, &q->peer);
}

static bool is_written(const struct rr_shm_view *v, uint32_t pos)
{
	return atomic_load_explicit(&rr_shm_slot(v, pos)->seq, memory_order_relaxed);
}

/* What the peer has sent beyond what we have taken follows that: a slot is passed over only if
 * it has been used. */
void rr_shm_region_clear(struct rr_shm *q)
{
	const struct rr_shm_view *v = &q->own;
	uint32_t n = q->again.slots;

	while (n < v->geo.slots && is_written(v, n))
		n++;
	memset(v->berth.at, 0, v->geo.ring_off + n * sizeof(struct rr_shm_slot));
}

struct trim {
	uint8_t *mem;
	bool (*used)(void *ctx, size_t off, size_t len);
	void *ctx;
};

/* Bisects down to pages, so that an idle connection costs one question and one call. */
static void trim_range(const struct trim *t, size_t off, size_t len)
{
	size_t half = rr_align(len / 2, RR_PAGE);

	if (!t->used(t->ctx, off, len)) {
		madvise(t->mem + off, len, MADV_REMOVE);
	} else if (len > RR_PAGE) {
		trim_range(t, off, half);
		trim_range(t, off + half, len - half);
	}
}

/* Called when the peer's ring is empty (rr_shm_tx_idle()). If no receive is held and no key is
 * out, the tables contain nothing that matters: all slots of the peer's are free, and handles
 * do not repeat because key_gen goes on counting. */
static void trim_own_tables(struct rr_shm *q)
{
	if (q->rx_held || q->key_live || q->fence_list)
		return;
	if (q->key_fresh)
		madvise(q->own.keys, rr_align(q->key_fresh * sizeof(*q->own.keys), RR_PAGE),
			MADV_REMOVE);
	q->key_fresh = q->key_free = 0;
	rr_pages_drop(q->slot, q->fence_cookie + RR_SHM_KEYS);
}

/* Frees the pages that our long Sends have touched, but not those that the peer itself has
 * filled around them, because freeing those would take our time. If a receive is longer than
 * our Sends by whole pages, each slot's pages are freed separately. */
static void trim_longs(struct rr_shm *q)
{
	const struct rr_shm_geo *g = &q->peer.geo;
	size_t used = q->qp.send_size;
	size_t all = rr_align((size_t)g->slots * g->stride, RR_PAGE);

	q->tx_made = 0;
	q->qp.bulky = false;
	if (g->stride - used < 2 * RR_PAGE) {
		madvise(q->peer.longs, all, MADV_REMOVE);
		return;
	}
	for (uint32_t i = 0; i < g->slots; i++) {
		size_t at = (size_t)i * g->stride & ~((size_t)RR_PAGE - 1);
		size_t end = rr_align((size_t)i * g->stride + used, RR_PAGE);

		madvise(q->peer.longs + at, end - at, MADV_REMOVE);
	}
}

/* Frees the slots of the peer's ring, which is empty, but for those beside its control words,
 * and of its long areas what our long Sends have touched, if there were any. */
static void trim_ring(struct rr_shm *q)
{
	const struct rr_shm_geo *g = &q->peer.geo;
	size_t at = rr_align(g->ring_off, RR_PAGE);
	size_t len = g->slots * sizeof(struct rr_shm_slot);

	if (g->ring_off + len > at)
		madvise((uint8_t *)q->peer.berth.at + at,
			rr_align(g->ring_off + len, RR_PAGE) - at, MADV_REMOVE);
	if (q->tx_made)
		trim_longs(q);
}

/* Free chunk memory can be freed by its owner, because no key covers it. A receive slot cannot,
 * because the peer may be writing to any slot that is posted. So each side frees the other's
 * ring: it alone writes those slots and knows that none is being written; and when everything
 * that it has sent was given back, none is being read. A freed slot reads as empty. What
 * remains of an idle connection in each region are the control page, the page of the slot that
 * peek() looks at, and those of keys in use. */
void rr_shm_trim(struct rr_qp *qp, bool (*used)(void *ctx, size_t off, size_t len), void *ctx)
{
	struct rr_shm *q = rr_shm_of(qp);
	struct trim t = { q->own.mem, used, ctx };
	int saved = errno;

	if (!rr_shm_ready(q))
		return;
	if (q->own.geo.mem_size)
		trim_range(&t, 0, (size_t)q->own.geo.mem_size);
	if (rr_shm_tx_idle(q)) {
		trim_ring(q);
		trim_own_tables(q);
	}
	errno = saved;
}
