/* SPDX-License-Identifier: BSD-3-Clause */
/* A device that behaves like another: to be preloaded behind the library, in the guest, where
 * rxe or siw carries what is left. MASK is one of the profiles below, which are what the
 * drivers of rdma-core 44 and of Linux 6.1 do as their sources read; none of them is the
 * device itself. Each thing that the mask refuses is a line in the file MASK_LOG. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPS(name) (1u << IBV_WR_##name)

static const struct profile {
	const char *name;
	bool type2b;			/* capabilities, as its kernel driver says … */
	bool extensions;
	int alloc_mw;			/* … and what its library makes of them: errno; 0 */
	unsigned refuses;		/* work requests that post_send does not know */
	unsigned fails;			/* those that complete with an error */
	unsigned inline_data, sge;	/* at most */
	int reads;			/* at a time */
	int wr, cqe;
	unsigned mws, mrs, qps;		/* so many there are of them; 0 any number */
	unsigned posts;			/* each one of so many fails (EIO); 0 none */
} profiles[] = {
	/* libbnxt_re has no windows in its table and no such work requests; its kernel half
	 * says 2B */
	{ "bnxt_re", true, true, EOPNOTSUPP, OPS(BIND_MW) | OPS(LOCAL_INV) | OPS(SEND_WITH_INV), 0, 96, 6, 126, 16351, .cqe = 65535 },
	/* windows of type 1 only, whatever is said */
	{ "irdma", true, true, EINVAL, 0, 0, 101, 13, 127, 4063, .cqe = 1048574 },
	{ "irdma-x722", true, true, EINVAL, 0, 0, 48, 3, 63, 2047, .cqe = 65535 },
	{ "cxgb4", true, true, EINVAL, 0, 0, 64, 4, 32, 1023, .cqe = 8191 },
	{ "hns", false, true, EOPNOTSUPP, OPS(BIND_MW), 0, 32, 2, 128, 32767, .cqe = 4194303 },
	{ "ocrdma", false, true, EOPNOTSUPP, OPS(BIND_MW) | OPS(LOCAL_INV) | OPS(SEND_WITH_INV), 0, 64, 4, 16, 8191, .cqe = 32767 },
	{ "mlx4", true, true, 0, 0, 0, 256, 32, 16, 16351, .cqe = 65408 },
	{ "mlx5", true, true, 0, 0, 0, 256, 30, 16, 32767, .cqe = 4194303 },
	/* none that is known: what could be said too late */
	{ "refuses-bind", true, true, 0, OPS(BIND_MW), 0, 256, 32, 16, 16351, .cqe = 65408 },
	{ "fails-bind", true, true, 0, 0, OPS(BIND_MW), 256, 32, 16, 16351, .cqe = 65408 },
	{ "few-windows", true, true, 0, 0, 0, 256, 32, 16, 16351, 65408, .mws = 3 },
	/* faults: objects that run out, a queue that breaks */
	{ "few-regs", false, true, EOPNOTSUPP, OPS(BIND_MW), 0, 256, 32, 16, 16351, 65408, .mrs = 5 },
	{ "few-pairs", true, true, 0, 0, 0, 256, 32, 16, 16351, 65408, .qps = 2 },
	{ "fails-posts", true, true, 0, 0, 0, 256, 32, 16, 16351, 65408, .posts = 40 },
	/* of everything the least that will do */
	{ "least", false, false, EOPNOTSUPP, OPS(BIND_MW) | OPS(LOCAL_INV) | OPS(SEND_WITH_INV), 0, 0, 1, 1, 1023, .cqe = 4095 },
};

static const struct profile *mine(void)
{
	static const struct profile *p;
	const char *name = getenv("MASK");

	for (size_t i = 0; !p && name && i < sizeof(profiles) / sizeof(*profiles); i++)
		if (!strcmp(profiles[i].name, name))
			p = &profiles[i];
	if (!p) {
		fprintf(stderr, "mask: there is no %s\n", name ? name : "MASK");
		abort();
	}
	return p;
}

static void say(const char *what)
{
	const char *file = getenv("MASK_LOG");
	int saved = errno, fd = file ? (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;

	if (fd >= 0) {
		syscall(SYS_write, fd, what, strlen(what));
		syscall(SYS_close, fd);
	}
	errno = saved;
}

/* The plugin that uses the library is loaded where RTLD_NEXT does not look. */
static void *real(const char *name)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD), *fn = lib ? dlsym(lib, name) : NULL;

	if (!fn)
		abort();
	return fn;
}

/* A program may load a library with RTLD_DEEPBIND, as ganesha does its file systems. The
 * libibverbs that comes with it would be found before what is here, and nothing be masked. */
void *dlopen(const char *file, int mode)
{
	void *(*fn)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");

	return fn(file, mode & ~RTLD_DEEPBIND);
}

static struct ibv_context_ops was;	/* of the one kind of device that there is */
static unsigned mws, mrs, qps, posts;

/* Is there none left of something, of which there are `most` and `n` are in use? */
static bool none_left(unsigned most, unsigned n, const char *what)
{
	if (!most || n < most)
		return false;
	say(what);
	errno = ENOMEM;
	return true;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	const struct profile *p = mine();
	struct ibv_mw *mw;

	if (p->alloc_mw) {
		say("alloc_mw\n");
		errno = p->alloc_mw;
		return NULL;
	}
	if (none_left(p->mws, mws, "alloc_mw\n"))
		return NULL;
	mw = was.alloc_mw(pd, type);
	mws += !!mw;
	return mw;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	mws--;
	return was.dealloc_mw(mw);
}

/* One by one, as a driver goes through them. A bind that is to fail is one beyond the end of
 * its region. */
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	const struct profile *p = mine();
	int rc = 0;

	for (; wr && !rc; wr = wr->next) {
		struct ibv_send_wr one = *wr, *which = &one;

		if (p->posts && ++posts % p->posts == 0) {
			say("broken\n");
			*bad = wr;
			return EIO;
		}

		one.next = NULL;
		if (p->refuses & 1u << wr->opcode) {
			say("refused\n");
			rc = EINVAL;
		} else if (p->fails & 1u << wr->opcode) {
			say("failed\n");
			one.bind_mw.bind_info.length = UINT64_C(1) << 40;
			rc = was.post_send(qp, &one, &which);
		} else {
			rc = was.post_send(qp, &one, &which);
		}
		if (rc)
			*bad = wr;
	}
	return rc;
}

struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	struct ibv_context *(*fn)(struct ibv_device *) = (struct ibv_context * (*)(struct ibv_device *))real("ibv_open_device");
	struct ibv_context *ctx = fn(dev);

	if (!ctx)
		return NULL;
	say("opened\n");
	was = ctx->ops;
	ctx->ops.alloc_mw = alloc_mw;
	ctx->ops.dealloc_mw = dealloc_mw;
	ctx->ops.post_send = post_send;
	return ctx;
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *a)
{
	int (*fn)(struct ibv_context *, struct ibv_device_attr *) =
		(int (*)(struct ibv_context *, struct ibv_device_attr *))real("ibv_query_device");
	const struct profile *p = mine();
	int rc = fn(ctx, a);

	if (rc)
		return rc;
	a->device_cap_flags &= ~(unsigned)(IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
					   IBV_DEVICE_MEM_MGT_EXTENSIONS);
	a->device_cap_flags |= (p->type2b ? IBV_DEVICE_MEM_WINDOW_TYPE_2B : 0) |
			       (p->extensions ? IBV_DEVICE_MEM_MGT_EXTENSIONS : 0);
	a->max_sge = least(a->max_sge, (int)p->sge);
	a->max_qp_rd_atom = least(a->max_qp_rd_atom, p->reads);
	a->max_qp_init_rd_atom = least(a->max_qp_init_rd_atom, p->reads);
	a->max_qp_wr = least(a->max_qp_wr, p->wr);
	a->max_cqe = least(a->max_cqe, p->cqe);
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *(*fn)(struct ibv_pd *, struct ibv_qp_init_attr *) =
		(struct ibv_qp * (*)(struct ibv_pd *, struct ibv_qp_init_attr *))real("ibv_create_qp");
	const struct profile *p = mine();
	struct ibv_qp *qp;

	if (attr->cap.max_inline_data > p->inline_data || attr->cap.max_send_sge > p->sge ||
	    attr->cap.max_send_wr > (unsigned)p->wr || attr->cap.max_recv_wr > (unsigned)p->wr) {
		say("create_qp\n");
		errno = EINVAL;
		return NULL;
	}
	if (none_left(p->qps, qps, "create_qp\n"))
		return NULL;
	qp = fn(pd, attr);
	qps += !!qp;
	if (qp && attr->cap.max_inline_data > p->inline_data)
		attr->cap.max_inline_data = p->inline_data;
	return qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	int (*fn)(struct ibv_qp *) = (int (*)(struct ibv_qp *))real("ibv_destroy_qp");

	qps--;
	return fn(qp);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t n, uint64_t iova, unsigned access)
{
	struct ibv_mr *(*fn)(struct ibv_pd *, void *, size_t, uint64_t, unsigned) =
		(struct ibv_mr * (*)(struct ibv_pd *, void *, size_t, uint64_t, unsigned))real("ibv_reg_mr_iova2");
	struct ibv_mr *mr;

	if (none_left(mine()->mrs, mrs, "reg_mr\n"))
		return NULL;
	mr = fn(pd, addr, n, iova, access);
	mrs += !!mr;
	return mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t n, int access)
{
	return ibv_reg_mr_iova2(pd, addr, n, (uintptr_t)addr, (unsigned)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int (*fn)(struct ibv_mr *) = (int (*)(struct ibv_mr *))real("ibv_dereg_mr");

	mrs--;
	return fn(mr);
}
