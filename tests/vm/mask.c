/* SPDX-License-Identifier: BSD-3-Clause */
/* A device that behaves like another: to be preloaded behind the library, in the guest, where
 * rxe or siw carries what is left. MASK is one of the profiles below, which are what the
 * drivers of rdma-core 44 and of Linux 6.1 do as their sources read; none of them is the
 * device itself. Each thing that the mask refuses is a line in the file MASK_LOG.
 *
 * MASK_EVENTS: a file whose first line is a number and a word. When the number changes, each
 * process in which the device is open has what the word says happen to it (happens()): an
 * asynchronous event, and what comes with it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
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
	/* events that are asked for, and else as mlx5 */
	{ "events", true, true, 0, 0, 0, 256, 30, 16, 32767, .cqe = 4194303 },
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

/* --- events ------------------------------------------------------------------------------ */

#define MOST	256u		/* queues at once */

static struct queue {
	struct ibv_cq *cq;	/* NULL: free */
	struct ibv_qp *qp;	/* the last that was made for it */
	bool silent;		/* it has overrun: no completion comes out, and nothing rings */
} queues[MOST];
static pthread_mutex_t queues_lock = PTHREAD_MUTEX_INITIALIZER;
static int real_async = -1, to_async = -1;
static volatile bool link_down;

/* Called with the lock held. */
static struct queue *queue_of(const struct ibv_cq *cq)
{
	for (unsigned i = 0; i < MOST; i++)
		if (queues[i].cq == cq)
			return &queues[i];
	return NULL;
}

static bool is_silent(const struct ibv_cq *cq)
{
	struct queue *q;
	bool is;

	pthread_mutex_lock(&queues_lock);
	q = queue_of(cq);
	is = q && q->silent;
	pthread_mutex_unlock(&queues_lock);
	return is;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return is_silent(cq) ? 0 : was.poll_cq(cq, n, wc);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	return is_silent(cq) ? 0 : was.req_notify_cq(cq, solicited);
}

/* As the kernel writes it. */
static void tell(enum ibv_event_type type, uint64_t element)
{
	struct ib_uverbs_async_event_desc ev = { .element = element, .event_type = type };

	if (syscall(SYS_write, to_async, &ev, sizeof(ev)) != sizeof(ev))
		say("not told\n");
}

/* cq: a completion queue has overrun; qp: a queue pair is broken. first: it is the first only.
 * fatal: the device is. down, up: its link is; back: it is, and nobody hears of it. */
static void happens(const char *what)
{
	bool first = !strncmp(what, "first-", 6), cq, all;

	what += first ? 6 : 0;
	cq = !strcmp(what, "cq");
	all = !strcmp(what, "fatal");
	pthread_mutex_lock(&queues_lock);
	for (unsigned i = 0; i < MOST && (cq || all || !strcmp(what, "qp")); i++) {
		struct queue *q = &queues[i];

		if (!q->cq || !q->qp || q->silent)
			continue;
		q->silent = true;
		if (!all)
			tell(cq ? IBV_EVENT_CQ_ERR : IBV_EVENT_QP_FATAL,
			     cq ? (uintptr_t)q->cq : (uintptr_t)q->qp);
		if (first)
			break;
	}
	pthread_mutex_unlock(&queues_lock);
	if (all)
		tell(IBV_EVENT_DEVICE_FATAL, 0);
	if (!strcmp(what, "down") || !strcmp(what, "up") || !strcmp(what, "back"))
		link_down = !strcmp(what, "down");
	if (strcmp(what, "back") && (link_down || !strcmp(what, "up")))
		tell(link_down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE, 1);
}

/* What the device itself reports of its ports is passed on. */
static void pass_on(struct ibv_context *ctx)
{
	int (*get)(struct ibv_context *, struct ibv_async_event *) =
		(int (*)(struct ibv_context *, struct ibv_async_event *))real("ibv_get_async_event");
	void (*ack)(struct ibv_async_event *) = (void (*)(struct ibv_async_event *))real("ibv_ack_async_event");
	struct ibv_context that = *ctx;
	struct ibv_async_event ev;

	that.async_fd = real_async;
	while (!get(&that, &ev)) {
		if (ev.event_type == IBV_EVENT_PORT_ACTIVE || ev.event_type == IBV_EVENT_PORT_ERR)
			tell(ev.event_type, (uint64_t)ev.element.port_num);
		ack(&ev);
	}
}

static int last_wish(char what[16])
{
	char text[64] = "";
	int n = 0, fd = (int)syscall(SYS_openat, AT_FDCWD, getenv("MASK_EVENTS"), O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (syscall(SYS_read, fd, text, sizeof(text) - 1) > 0)
			sscanf(text, "%d %15s", &n, what);
		syscall(SYS_close, fd);
	}
	return n;
}

static void *look_for_wishes(void *arg)
{
	char what[16] = "";
	int done = last_wish(what);

	for (;;) {
		struct timespec t = { 0, 20000000 };
		int n;

		nanosleep(&t, NULL);
		pass_on(arg);
		n = last_wish(what);
		if (n == done)
			continue;
		done = n;
		happens(what);
	}
	return NULL;
}

static int (*was_query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *, size_t);

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *a, size_t n)
{
	int rc = was_query_port(ctx, port, a, n);

	if (!rc && link_down)
		a->state = IBV_PORT_DOWN;
	return rc;
}

static void make_eventful(struct ibv_context *ctx)
{
	struct verbs_context *v = verbs_get_ctx(ctx);
	pthread_t t;
	int p[2];

	if (!getenv("MASK_EVENTS") || to_async >= 0 || pipe2(p, O_CLOEXEC | O_NONBLOCK))
		return;
	real_async = ctx->async_fd;
	fcntl(real_async, F_SETFL, O_NONBLOCK);
	ctx->async_fd = p[0];
	to_async = p[1];
	ctx->ops.poll_cq = poll_cq;
	ctx->ops.req_notify_cq = req_notify_cq;
	was_query_port = v->query_port;
	v->query_port = query_port;
	if (!pthread_create(&t, NULL, look_for_wishes, ctx))
		pthread_detach(t);
}

/* The kernel is told by which descriptor a queue's events are to be read, which must be the device's own. Sets that (-1), or
 * ours again; returns what it was. */
static int its_own(struct ibv_context *ctx, int ours)
{
	int was_fd = ctx->async_fd;

	if (to_async >= 0)
		ctx->async_fd = ours < 0 ? real_async : ours;
	return was_fd;
}

/* The real one would count it, and the end of the queue pair wait for it. */
void ibv_ack_async_event(struct ibv_async_event *ev)
{
	void (*fn)(struct ibv_async_event *) = (void (*)(struct ibv_async_event *))real("ibv_ack_async_event");

	say("acked\n");
	if (to_async < 0)
		fn(ev);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int n, void *arg, struct ibv_comp_channel *c, int vector)
{
	struct ibv_cq *(*fn)(struct ibv_context *, int, void *, struct ibv_comp_channel *, int) =
		(struct ibv_cq * (*)(struct ibv_context *, int, void *, struct ibv_comp_channel *, int))real("ibv_create_cq");
	int ours = its_own(ctx, -1);
	struct ibv_cq *cq = fn(ctx, n, arg, c, vector);
	struct queue *q;

	its_own(ctx, ours);
	pthread_mutex_lock(&queues_lock);
	q = queue_of(NULL);
	if (cq && q)
		*q = (struct queue){ .cq = cq };
	pthread_mutex_unlock(&queues_lock);
	return cq;
}

static void queue_qp(const struct ibv_cq *cq, struct ibv_qp *qp)
{
	struct queue *q;

	pthread_mutex_lock(&queues_lock);
	q = queue_of(cq);
	if (q)
		q->qp = qp;
	pthread_mutex_unlock(&queues_lock);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	int (*fn)(struct ibv_cq *) = (int (*)(struct ibv_cq *))real("ibv_destroy_cq");
	struct queue *q;

	pthread_mutex_lock(&queues_lock);
	q = queue_of(cq);
	if (q)
		q->cq = NULL;
	pthread_mutex_unlock(&queues_lock);
	return fn(cq);
}

/* ----------------------------------------------------------------------------------------- */

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
	make_eventful(ctx);
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
	int ours;

	if (attr->cap.max_inline_data > p->inline_data || attr->cap.max_send_sge > p->sge ||
	    attr->cap.max_send_wr > (unsigned)p->wr || attr->cap.max_recv_wr > (unsigned)p->wr) {
		say("create_qp\n");
		errno = EINVAL;
		return NULL;
	}
	if (none_left(p->qps, qps, "create_qp\n"))
		return NULL;
	ours = its_own(pd->context, -1);
	qp = fn(pd, attr);
	its_own(pd->context, ours);
	qps += !!qp;
	if (qp)
		queue_qp(attr->recv_cq, qp);
	if (qp && attr->cap.max_inline_data > p->inline_data)
		attr->cap.max_inline_data = p->inline_data;
	return qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	int (*fn)(struct ibv_qp *) = (int (*)(struct ibv_qp *))real("ibv_destroy_qp");

	qps--;
	queue_qp(qp->recv_cq, NULL);
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
