/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening for native peers and calling them, by an RDMA CM that is made up here: which
 * addresses it is given. */
#include <criterion/criterion.h>

#if __has_include(<rdma/rdma_cma.h>)

#include <arpa/inet.h>

#include "core/prov/verbs/native_cm.c"

static pid_t self = 1;
pid_t *rr_verbs_process_self = &self;
const struct rr_verbs_say *rr_verbs_process_say;

/* --- RDMA CM ----------------------------------------------------------------------------- */

static struct rdma_cm_id ids[4];
static struct {
	struct sockaddr_in6 at;
	int v6only;		/* -1 not said */
	bool listens, there;
} door[4];
static unsigned nids;
static struct sockaddr_in6 called, from_there;
static bool has_from;
static struct rdma_cm_event event;
static bool has_event;
static struct rdma_event_channel channel = { .fd = 200 };

static int which(const struct rdma_cm_id *id)
{
	return (int)(id - ids);
}

int rr_creds_create_id(struct rdma_event_channel *cm, struct rdma_cm_id **id)
{
	cr_assert_eq(cm, &channel);
	cr_assert_lt(nids, 4);
	door[nids].v6only = -1;
	door[nids].there = true;
	*id = &ids[nids++];
	return 0;
}

int rr_creds_destroy_id(struct rdma_cm_id *id)
{
	cr_assert(door[which(id)].there);
	door[which(id)].there = false;
	return 0;
}

int rr_creds_v6only(struct rdma_cm_id *id, int *only)
{
	door[which(id)].v6only = *only;
	return 0;
}

/* As the kernel's. */
int rr_creds_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct sockaddr_in6 a;

	address(&a, addr);
	if (a.sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a.sin6_addr)) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	door[which(id)].at = a;
	return 0;
}

int rr_creds_listen(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	door[which(id)].listens = true;
	return 0;
}

int rr_creds_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *cm)
{
	(void)id;
	(void)cm;
	return 0;
}

int rr_creds_reject(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

bool rr_creds_usable(struct rdma_event_channel *cm)
{
	(void)cm;
	return true;
}

/* --- the rest of the provider ------------------------------------------------------------ */

int rr_verbs_channel_epoll(void)
{
	return 100;
}

int rr_verbs_channel(struct rdma_event_channel **cm)
{
	*cm = &channel;
	return 0;
}

int rr_verbs_channel_watch(int set, int fd, uint32_t what)
{
	(void)set;
	(void)fd;
	(void)what;
	return 0;
}

struct rdma_event_channel *rr_verbs_channel_renew(struct rdma_event_channel **cm, struct rdma_cm_id *id, int set)
{
	(void)cm;
	(void)id;
	(void)set;
	return NULL;
}

bool rr_verbs_channel_event(struct rdma_event_channel *cm, struct rdma_cm_event *out, uint8_t data[UINT8_MAX])
{
	bool was = has_event;

	(void)cm;
	(void)data;
	*out = event;
	has_event = false;
	errno = EAGAIN;
	return was;
}

int rr_verbs_setup_start(struct rr_qp *qp, const struct rr_prov_params *p)
{
	static struct rr_vq v;
	struct rr_verbs *q = container_of(qp, struct rr_verbs, qp);

	(void)p;
	q->v = &v;
	q->owner = self;
	return 0;
}

int rr_verbs_setup_open(struct rr_qp *qp, struct rr_vq *v)
{
	(void)qp;
	(void)v;
	return 0;
}

int rr_verbs_setup_resolve(struct rr_vq *v, const struct sockaddr *to, const struct sockaddr *from, int ms)
{
	(void)v;
	(void)ms;
	address(&called, to);
	has_from = from;
	if (from)
		address(&from_there, from);
	return 0;
}

int rr_verbs_end_undo(struct rr_qp *qp, int rc)
{
	(void)qp;
	return rc;
}

int rr_verbs_setup_accept(struct rr_qp *qp, struct rr_vq *v, const struct rdma_conn_param *req)
{
	(void)qp;
	(void)v;
	(void)req;
	return 0;
}

void rr_verbs_channel_close_fd(int fd)
{
	(void)fd;
}

void rr_verbs_channel_free(struct rdma_event_channel *cm)
{
	(void)cm;
}

void rr_verbs_channel_forked(const struct rdma_event_channel *cm)
{
	(void)cm;
}

void rr_verbs_device(struct ibv_context *dev)
{
	(void)dev;
}

void rr_verbs_device_gone(const struct ibv_context *dev)
{
	(void)dev;
}

/* ----------------------------------------------------------------------------------------- */

static const struct rr_prov_params par = { .recv_size = 4096 };

static struct sockaddr_in6 v6(const char *text, uint16_t port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	cr_assert_eq(inet_pton(AF_INET6, text, &a.sin6_addr), 1);
	return a;
}

/* Is it this address of IPv4? */
static bool is_v4(const struct sockaddr_in6 *a, const char *text, uint16_t port)
{
	const struct sockaddr_in *in = (const void *)a;
	struct in_addr want;

	return inet_pton(AF_INET, text, &want) == 1 && in->sin_family == AF_INET && in->sin_port == htons(port) &&
	       in->sin_addr.s_addr == want.s_addr;
}

static struct rr_verbs_lst listener;

static void listen_on(const char *text, bool v6only)
{
	struct sockaddr_in6 a = v6(text, 20049);

	listener.lst.v6only = v6only;
	cr_assert_eq(rr_verbs_native_listen(&listener.lst, (struct sockaddr *)&a), 0);
}

/* ganesha with Bind_addr: its socket is one of IPv6. */
Test(verbs_native, a_mapped_address_is_one_of_ipv4)
{
	listen_on("::ffff:10.9.0.1", false);
	cr_assert_eq(nids, 1);
	cr_assert(is_v4(&door[0].at, "10.9.0.1", 20049) && door[0].listens);
}

Test(verbs_native, so_is_the_mapped_any_address)
{
	listen_on("::ffff:0.0.0.0", false);
	cr_assert_eq(nids, 1);
	cr_assert(is_v4(&door[0].at, "0.0.0.0", 20049));
}

/* On iWARP a listener hears one family. */
Test(verbs_native, the_any_address_is_one_of_each_family)
{
	listen_on("::", false);
	cr_assert_eq(nids, 2);
	cr_assert(door[0].at.sin6_family == AF_INET6 && door[0].v6only == 1 && door[0].listens);
	cr_assert(is_v4(&door[1].at, "0.0.0.0", 20049) && door[1].listens);
	rr_verbs_native_unlisten(&listener.lst);
	cr_assert(!door[0].there && !door[1].there);
}

Test(verbs_native, unless_ipv4_is_anothers)
{
	listen_on("::", true);
	cr_assert_eq(nids, 1);
	cr_assert_eq(door[0].v6only, 1);
}

Test(verbs_native, an_address_of_ipv6_is_one)
{
	listen_on("2001:db8::1", false);
	cr_assert_eq(nids, 1);
	cr_assert_eq(door[0].at.sin6_family, AF_INET6);
}

static int hears(enum rdma_cm_event_type what, struct rdma_cm_id *id)
{
	struct rr_verbs q = { .owner = self };

	event = (struct rdma_cm_event){ .event = what, .id = id };
	has_event = true;
	return rr_verbs_native_take(&listener.lst, &q.qp, &par, NULL, NULL);
}

/* Bonding: the listener is made anew. */
Test(verbs_native, where_the_address_moves_to_another_link_it_ends)
{
	listen_on("::", false);
	cr_assert_eq(hears(RDMA_CM_EVENT_ADDR_CHANGE, &ids[3]), -EAGAIN, "not ours");
	cr_assert_eq(hears(RDMA_CM_EVENT_ADDR_CHANGE, listener.id4), -ESHUTDOWN);
	cr_assert_eq(hears(RDMA_CM_EVENT_ADDR_CHANGE, listener.id), -ESHUTDOWN);
	cr_assert_eq(hears(RDMA_CM_EVENT_DEVICE_REMOVAL, listener.id4), -ESHUTDOWN);
}

/* Java's sockets are of IPv6, whatever they connect to. */
Test(verbs_native, a_mapped_address_is_called_as_one_of_ipv4)
{
	struct sockaddr_in6 to = v6("::ffff:10.9.0.2", 20049), from = v6("::ffff:10.9.0.1", 0);
	struct rr_verbs q = { .owner = self };

	cr_assert_eq(rr_verbs_native_connect(&q.qp, &par, (struct sockaddr *)&to, (struct sockaddr *)&from), 0);
	cr_assert(is_v4(&called, "10.9.0.2", 20049));
	cr_assert(has_from && is_v4(&from_there, "10.9.0.1", 0));
	from = v6("::ffff:0.0.0.0", 0);
	cr_assert_eq(rr_verbs_native_connect(&q.qp, &par, (struct sockaddr *)&to, (struct sockaddr *)&from), 0);
	cr_assert(!has_from, "it may come from anywhere");
	to = v6("2001:db8::1", 20049);
	cr_assert_eq(rr_verbs_native_connect(&q.qp, &par, (struct sockaddr *)&to, NULL), 0);
	cr_assert(called.sin6_family == AF_INET6 && !has_from);
}

#else

Test(verbs_native, needs_the_headers_of_rdma_core, .disabled = true)
{
}

#endif
