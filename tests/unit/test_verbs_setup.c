/* SPDX-License-Identifier: BSD-3-Clause */
/* What a connection asks of its device and of RDMA CM when it is set up, with devices that
 * have less, made up here; and what RDMA CM's events do to it. */
#include <criterion/criterion.h>

#if __has_include(<rdma/rdma_cma.h>)

#include "core/prov/verbs/channel.c"
#include "core/prov/verbs/cm.c"
#include "core/prov/verbs/end.c"
#include "core/prov/verbs/qp.c"
#include "core/prov/verbs/cm_setup.c"

static pid_t self = 1;
pid_t *rr_verbs_process_self = &self;
bool rr_verbs_process_used, rr_verbs_process_orphan, rr_verbs_process_invite, rr_verbs_process_no_windows;

static void own_fd(int fd, bool own)
{
	(void)fd;
	(void)own;
}
void (*rr_verbs_process_own_fd)(int fd, bool own) = own_fd;

static int raise_fd(int fd)
{
	return fd;
}
int (*rr_verbs_process_raise_fd)(int fd) = raise_fd;

/* --- the rest of the provider ------------------------------------------------------------ */

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOTHING(name, params) void name params { }
#define ZERO(type, name, params) type name params { return (type)0; }

NOTHING(rr_verbs_device, (struct ibv_context *dev))
NOTHING(rr_verbs_device_gone, (const struct ibv_context *dev))
NOTHING(rr_verbs_events_add, (struct rr_qp *qp, struct rr_vq *v))
NOTHING(rr_verbs_events_remove, (struct rr_vq *v))
NOTHING(rr_verbs_events_read, (struct ibv_context *dev))
NOTHING(rr_verbs_keys_free, (struct rr_vq *v))
NOTHING(rr_verbs_mr_free, (struct rr_vq *v))
NOTHING(rr_verbs_mr_unreserve, (struct rr_vq *v))
NOTHING(rr_verbs_prove_alloc, (struct rr_vq *v))
NOTHING(rr_verbs_books_digest, (struct rr_vq *v))
ZERO(bool, rr_verbs_mr_share, (struct rr_vq *v, enum rr_verbs_share which))
ZERO(enum rr_verbs_proof, rr_verbs_device_windows_of, (const struct ibv_context *dev))
ZERO(bool, rr_verbs_device_no_inv, (const struct ibv_context *dev, bool found))
NOTHING(rr_verbs_prove, (struct rr_qp *qp, struct rr_vq *v))
ZERO(int, rr_verbs_post_recv, (struct rr_qp *qp, struct rr_vq *v, uint32_t i))
ZERO(bool, rr_verbs_traffic_settle, (struct rr_qp *qp, rr_time most))
ZERO(uint32_t, rr_verbs_private_put_native, (const struct rr_vq *v, uint8_t out[RR_VERBS_PRIVATE]))
ZERO(uint32_t, rr_verbs_private_put_pair, (const struct rr_vq *v, uint8_t out[RR_VERBS_PRIVATE]))
ZERO(int, rr_creds_destroy_id, (struct rdma_cm_id *id))
ZERO(int, rr_creds_reject, (struct rdma_cm_id *id))
ZERO(int, rr_creds_resolve_route, (struct rdma_cm_id *id, int ms))
ZERO(int, rr_creds_resolve_addr,
     (struct rdma_cm_id *id, struct sockaddr *a, struct sockaddr *b, int ms))
ZERO(int, rr_creds_migrate_id, (struct rdma_cm_id *id, struct rdma_event_channel *cm))
ZERO(int, rr_creds_create_id, (struct rdma_event_channel *cm, struct rdma_cm_id **id))
ZERO(struct rdma_event_channel *, rr_verbs_creds_open_channel, (void))

static size_t reserved;
int rr_verbs_mr_reserve(struct rr_vq *v, size_t need)
{
	reserved = need;
	return 0;
}

static bool has_come;
bool rr_verbs_cq_reap(struct rr_vq *v)
{
	return has_come;
}

bool rr_verbs_private_get_native(struct rr_qp *qp, struct rr_vq *v, const uint8_t *buf, uint32_t len)
{
	(void)qp;
	(void)v;
	(void)buf;
	(void)len;
	return true;
}

bool rr_verbs_private_get_pair(struct rr_qp *qp, struct rr_vq *v, const uint8_t *buf, uint32_t len)
{
	return rr_verbs_private_get_native(qp, v, buf, len);
}

/* --- RDMA CM and the device -------------------------------------------------------------- */

static uint32_t max_inline, tries, max_wr, entries;
static int ack, ack_at_start, refusal;
static unsigned disconnects, notices, rights;
static int vector;
static bool armed;
static struct rdma_cm_event event;
static bool has_event;

int rr_creds_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	(void)id;
	(void)pd;
	tries++;
	cr_assert(tries == 1 || a->cap.max_send_wr == entries);
	entries = a->cap.max_send_wr;
	if (refusal || a->cap.max_inline_data > max_inline) {
		a->cap.max_send_wr = 1;		/* a driver may leave anything */
		errno = refusal ? refusal : EINVAL;
		return -1;
	}
	return 0;
}

int rr_creds_ack_timeout(struct rdma_cm_id *id, uint8_t *exponent)
{
	(void)id;
	ack = *exponent;
	return 0;
}

int rr_creds_connect(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	(void)id;
	(void)p;
	ack_at_start = ack;
	return 0;
}

int rr_creds_accept(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	return rr_creds_connect(id, p);
}

int rr_creds_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	disconnects++;
	return 0;
}

int rr_creds_established(struct rdma_cm_id *id)
{
	(void)id;
	notices++;
	return 0;
}

int rr_creds_get_event(struct rdma_event_channel *cm, struct rdma_cm_event **ev)
{
	(void)cm;
	*ev = &event;
	errno = EAGAIN;
	has_event = !has_event;
	return has_event ? -1 : 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *ev)
{
	(void)ev;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	(void)id;
}

void rdma_destroy_event_channel(struct rdma_event_channel *cm)
{
	(void)cm;
}

static struct ibv_device dev = { .transport_type = IBV_TRANSPORT_IB };
static int arm(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	cr_assert_eq(ack_at_start, -1, "before it is accepted");
	armed = !solicited;
	return 0;
}
static struct ibv_context device = { .device = &dev, .num_comp_vectors = 3, .async_fd = -1,
				     .ops.req_notify_cq = arm };
static struct ibv_pd pd = { .context = &device };
static struct ibv_cq queue = { .context = &device };
static struct ibv_comp_channel channel = { .context = &device };
static struct ibv_mr mr;

static uint32_t vendor;
int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *a)
{
	(void)ctx;
	*a = (struct ibv_device_attr){ .max_qp_wr = (int)max_wr, .max_sge = 4, .max_cqe = 65536, .max_qp_rd_atom = 16,
				       .max_qp_init_rd_atom = 16, .vendor_id = vendor };
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	(void)ctx;
	return &pd;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	(void)ctx;
	return &channel;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int n, void *arg, struct ibv_comp_channel *c, int v)
{
	(void)ctx;
	(void)n;
	(void)arg;
	(void)c;
	vector = v;
	return &queue;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *p, void *addr, size_t len, int access)
{
	(void)p;
	(void)addr;
	(void)len;
	rights = (unsigned)access;
	return &mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *p, void *addr, size_t len, uint64_t iova, unsigned access)
{
	(void)iova;
	return ibv_reg_mr(p, addr, len, (int)access);
}

ZERO(int, ibv_dereg_mr, (struct ibv_mr *m))
ZERO(int, ibv_destroy_cq, (struct ibv_cq *c))
ZERO(int, ibv_destroy_comp_channel, (struct ibv_comp_channel *c))
ZERO(int, ibv_dealloc_pd, (struct ibv_pd *p))

static bool out_of_service;
bool rr_verbs_device_serves(struct ibv_context *ctx, uint8_t port)
{
	return !out_of_service;
}

/* ----------------------------------------------------------------------------------------- */

static struct rdma_cm_id id = { .verbs = &device };
static struct rr_verbs q;
static struct rr_vq *v;

static void set_up_with(uint32_t recvs)
{
	static const struct rr_os os = { .fcntl = fcntl, .close = close };
	const struct rr_prov_params par = { .recv_size = 4096, .recvs = recvs, .mem_size = 1 << 20, .ack_timeout = 16 };

	rr_os = &os;
	free(v);
	q = (struct rr_verbs){ .owner = self };
	cr_assert_eq(rr_verbs_setup_start(&q.qp, &par), 0);
	v = q.v;
	v->id = &id;
	channel.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	max_inline = 256;
	max_wr = 4096;
	refusal = 0;
	tries = disconnects = notices = 0;
	armed = has_come = out_of_service = false;
	ack = ack_at_start = -1;
}

static void set_up(void)
{
	set_up_with(32);
}

TestSuite(verbs_setup, .init = set_up, .timeout = 60);

static uint32_t inline_of(uint32_t device_has)
{
	set_up();
	max_inline = device_has;
	cr_assert_eq(rr_verbs_qp_make(&q.qp, v), 0);
	cr_assert_eq(v->sq_cap, entries);
	return v->max_inline;
}

/* With receives for its notes, 8. */
static uint32_t queue_of(uint32_t recvs)
{
	set_up_with(recvs);
	cr_assert_eq(rr_verbs_qp_make(&q.qp, v), 0);
	cr_assert_eq(v->sq_cap, entries);
	return entries;
}

Test(verbs_setup, the_send_queue_is_as_long_as_its_receives_need)
{
	cr_assert_eq(queue_of(1), 128);
	cr_assert_eq(queue_of(34), 128);
	cr_assert_eq(queue_of(35), 256);
	cr_assert_eq(queue_of(100), 512);
	cr_assert_eq(queue_of(1000), 512, "and not longer");
}

/* mlx5: entries of 448 bytes, and a number of bytes that is a power of two. */
Test(verbs_setup, queues_count_as_locked_memory)
{
	set_up_with(24);
	cr_assert_geq(reserved, (1u << 20) + (32 + 8) * 4096 + 128 * 512 + 256 * 64);
	cr_assert_leq(reserved, (1u << 20) + (32 + 8) * 4096 + 128 * 512 + 2 * 256 * 64);
}

/* On PCI Express; whoever looks before the completion has itself to blame. */
Test(verbs_setup, receives_may_be_written_in_any_order)
{
	cr_assert_eq(rr_verbs_qp_make(&q.qp, v), 0);
	cr_assert_eq(rights, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
}

/* irdma has 101 or 48, bnxt_re 96, hns 32. */
Test(verbs_setup, as_much_inline_as_the_device_has)
{
	cr_assert_eq(inline_of(1024), 256);
	cr_assert_eq(inline_of(101), 96);
	cr_assert_eq(inline_of(96), 96);
	cr_assert_eq(inline_of(48), 48);
	cr_assert_eq(inline_of(32), 32);
	cr_assert_eq(inline_of(0), 0);
}

/* rxe carries a Read out within its post. */
Test(verbs_setup, long_reads_are_cut_where_their_bytes_come_later)
{
	cr_assert_eq(rr_verbs_qp_make(&q.qp, v), 0);
	cr_assert_eq(q.qp.read_piece, 128u << 10);
	set_up();
	vendor = 0xffffff;
	cr_assert_eq(rr_verbs_qp_make(&q.qp, v), 0);
	cr_assert_eq(q.qp.read_piece, 0);
}

Test(verbs_setup, where_it_is_not_that_it_ends_soon)
{
	refusal = ENOMEM;
	cr_assert_eq(rr_verbs_qp_make(&q.qp, v), -ENOMEM);
	cr_assert_leq(tries, 2);
}

/* EAGAIN would mean "not yet" to who waits for the connection. */
Test(verbs_setup, the_limit_of_the_rdma_cgroup_is_an_end)
{
	refusal = EAGAIN;
	cr_assert_eq(rr_verbs_qp_make(&q.qp, v), -EDQUOT);
}

Test(verbs_setup, completions_interrupt_every_processor)
{
	unsigned seen = 0;

	for (int i = 0; i < 3; i++) {
		inline_of(0);
		cr_assert(vector >= 0 && vector < 3);
		seen |= 1u << vector;
	}
	cr_assert_eq(seen, 7);
}

Test(verbs_setup, both_sides_say_when_to_send_again)
{
	cr_assert_eq(connect_resolved(&q.qp, v), 0);
	cr_assert_eq(ack_at_start, 16);
	set_up();
	q.qp.wake_fd = rr_verbs_channel_epoll();
	channel.fd = rr_verbs_channel_epoll();	/* can be watched */
	cr_assert_eq(rr_verbs_setup_accept(&q.qp, v, &(struct rdma_conn_param){ 0 }), 0);
	cr_assert_eq(ack_at_start, 16);
	set_up();
	v->param.ack_timeout = 0;
	cr_assert_eq(connect_resolved(&q.qp, v), 0);
	cr_assert_eq(ack_at_start, -1, "what RDMA CM finds");
}

static struct rdma_event_channel cm_channel;

/* The last packet of the CM's exchange may be lost; the peer's first message says as much. */
Test(verbs_setup, a_message_says_that_the_connection_is_established)
{
	q.qp.wake_fd = rr_verbs_channel_epoll();
	channel.fd = rr_verbs_channel_epoll();
	cr_assert_eq(rr_verbs_setup_accept(&q.qp, v, &(struct rdma_conn_param){ 0 }), 0);
	cr_assert(armed, "so that it is heard of");
	v->cm = &cm_channel;
	cr_assert_eq(rr_verbs_setup_establish(&q.qp), -EAGAIN);
	cr_assert_eq(notices, 0);
	has_come = true;
	has_event = false;
	cr_assert_eq(rr_verbs_setup_establish(&q.qp), -EAGAIN);
	cr_assert_eq(notices, 1);
	has_event = true;
	event = (struct rdma_cm_event){ .event = RDMA_CM_EVENT_ESTABLISHED, .id = &id };
	cr_assert_eq(rr_verbs_setup_establish(&q.qp), 0);
	cr_assert_eq(notices, 1);
}

/* So it stays on TCP at once, and the reason says why. */
Test(verbs_setup, no_connection_is_made_by_a_device_that_does_not_serve)
{
	out_of_service = true;
	cr_assert_eq(rr_verbs_setup_accept(&q.qp, v, &(struct rdma_conn_param){ 0 }), -ENETDOWN);
	cr_assert_eq(tries, 0);
}

/* A queue's end or the peer's fault leaves the objects, for what is still to be read. */
Test(verbs_setup, an_event_ends_its_connection_and_a_failed_device_gets_everything_back)
{
	v->state = RR_V_READY;
	rr_verbs_cm_struck(v);
	cr_assert(!v->err && v->state == RR_V_READY);
	v->struck = -EIO;
	rr_verbs_cm_struck(v);
	cr_assert_eq(v->err, -EIO);
	cr_assert_eq(v->state, RR_V_READY);
	set_up();
	v->state = RR_V_READY;
	v->struck = -ENODEV;
	rr_verbs_cm_struck(v);
	cr_assert_eq(v->err, -EIO);
	cr_assert_eq(v->state, RR_V_GONE);
	cr_assert_eq(disconnects, 1, "the peer is told");
	cr_assert_null(v->id);
}

/* As the kernel's own client does: nothing gets through from here. */
Test(verbs_setup, where_the_address_moves_the_connection_is_lost)
{
	v->cm = &cm_channel;
	v->state = RR_V_READY;
	has_event = true;
	event = (struct rdma_cm_event){ .event = RDMA_CM_EVENT_ADDR_CHANGE, .id = &id };
	rr_verbs_cm_events(&q.qp, v);
	cr_assert(v->lost);
	cr_assert_eq(disconnects, 1);
}

#else

Test(verbs_setup, needs_the_headers_of_rdma_core, .disabled = true)
{
}

#endif
