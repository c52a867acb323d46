/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of devices: which connections they end, who is roused, who watches. */
#include <criterion/criterion.h>

#if __has_include(<rdma/rdma_cma.h>)

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include "core/prov/verbs/events.c"

static pid_t self = 1;
pid_t *rr_verbs_process_self = &self;

/* --- the rest of the provider ------------------------------------------------------------ */

static const struct ibv_context *failed;
static unsigned down_port, up_port;

void rr_verbs_device_failed(const struct ibv_context *dev)
{
	failed = dev;
}

void rr_verbs_device_port(const struct ibv_context *dev, unsigned port, bool up)
{
	(void)dev;
	if (up)
		up_port = port;
	else
		down_port = port;
}

static int raise_fd(int fd)
{
	return fd;
}
int (*rr_verbs_process_raise_fd)(int fd) = raise_fd;

void rr_verbs_channel_close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static unsigned watches;

int rr_verbs_channel_watch(int set, int fd, uint32_t which)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = which };

	watches++;
	return syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static unsigned told, ended;
static void on_event(const char *device, const char *event, unsigned port, unsigned n)
{
	cr_assert_str_eq(device, "toy0");
	cr_assert(event && *event);
	(void)port;
	told++;
	ended = n;
}
void (*rr_verbs_process_on_event)(const char *, const char *, unsigned, unsigned) = on_event;

/* --- devices ----------------------------------------------------------------------------- */

static struct ibv_async_event queued[64];
static unsigned nqueued, nread, acks;

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	(void)ctx;
	errno = EAGAIN;
	if (nread == nqueued)
		return -1;
	*ev = queued[nread++];
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *ev)
{
	(void)ev;
	acks++;
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
	return type == IBV_EVENT_CQ_ERR ? "CQ error" : "another event";
}

static struct ibv_device toy = { .name = "toy0" };
static struct ibv_context devices[2];
static int news[2];	/* what to write to for a device's events to be readable */

static struct conn {
	struct rr_qp qp;
	struct ibv_qp pair;
	struct ibv_cq cq;
	struct rdma_cm_id id;
	struct rr_vq v;
} conns[40];

static void a_while(void)
{
	const struct timespec t = { .tv_nsec = (long)(INTERVAL + 20 * RR_MSEC) };

	nanosleep(&t, NULL);
}

static void connect_on(struct conn *c, unsigned dev)
{
	c->qp.wake_fd = epoll_create1(EPOLL_CLOEXEC);
	cr_assert_geq(c->qp.wake_fd, 0);
	c->id = (struct rdma_cm_id){ .verbs = &devices[dev], .qp = &c->pair };
	c->v.id = &c->id;
	c->v.cq = &c->cq;
	c->v.state = RR_V_READY;
	rr_verbs_events_add(&c->qp, &c->v);
}

static void set_up(void)
{
	for (int i = 0; i < 2; i++) {
		int p[2];

		cr_assert_eq(pipe2(p, O_CLOEXEC), 0);
		devices[i] = (struct ibv_context){ .device = &toy, .async_fd = p[0] };
		news[i] = p[1];
	}
	for (int i = 0; i < 3; i++)
		connect_on(&conns[i], i == 2);
}

TestSuite(verbs_events, .init = set_up, .timeout = 60);

static void report_event(unsigned dev, const struct ibv_async_event *ev)
{
	queued[nqueued++] = *ev;
	rr_verbs_events_read(&devices[dev]);
	cr_assert_eq(acks, nqueued, "each is acknowledged");
}

static void report(unsigned dev, enum ibv_event_type type, void *element)
{
	report_event(dev, &(struct ibv_async_event){ .event_type = type, .element.cq = element });
}

static void report_port(unsigned dev, enum ibv_event_type type, int port)
{
	report_event(dev, &(struct ibv_async_event){ .event_type = type, .element.port_num = port });
}

static bool rings(const struct conn *c)
{
	struct pollfd p = { c->qp.wake_fd, POLLIN, 0 };

	return poll(&p, 1, 0) > 0;
}

static int struck(const struct conn *c)
{
	return atomic_load(&c->v.struck);
}

Test(verbs_events, a_queue_s_end_is_its_connection_s_alone)
{
	report(0, IBV_EVENT_CQ_ERR, &conns[1].cq);
	cr_assert_eq(struck(&conns[1]), -EIO);
	cr_assert(rings(&conns[1]), "who sleeps there is roused, though another has read the event");
	cr_assert(!struck(&conns[0]) && !struck(&conns[2]) && !rings(&conns[0]));
	cr_assert_eq(told, 1);
	cr_assert_eq(ended, 1);
	report(0, IBV_EVENT_QP_FATAL, &conns[0].pair);
	cr_assert_eq(struck(&conns[0]), -EIO);
	cr_assert_eq(told, 2);
}

/* The queue pair does not say so by a completion on every device. */
Test(verbs_events, what_the_peer_has_done_is_its_fault)
{
	report(0, IBV_EVENT_QP_ACCESS_ERR, &conns[0].pair);
	report(0, IBV_EVENT_QP_REQ_ERR, &conns[1].pair);
	cr_assert_eq(struck(&conns[0]), -EPROTO);
	cr_assert_eq(struck(&conns[1]), -EPROTO);
	report(0, IBV_EVENT_QP_FATAL, &conns[0].pair);
	cr_assert_eq(struck(&conns[0]), -EPROTO, "the first one counts");
	cr_assert_eq(ended, 0);
}

Test(verbs_events, a_device_that_fails_takes_its_connections_along)
{
	report(0, IBV_EVENT_DEVICE_FATAL, NULL);
	cr_assert(struck(&conns[0]) == -ENODEV && struck(&conns[1]) == -ENODEV);
	cr_assert(!struck(&conns[2]), "another device's");
	cr_assert_eq(ended, 2);
	cr_assert_eq(failed, &devices[0]);
}

Test(verbs_events, a_link_that_is_down_ends_nothing)
{
	report_port(0, IBV_EVENT_PORT_ERR, 2);
	report_port(0, IBV_EVENT_PORT_ACTIVE, 1);
	cr_assert(!struck(&conns[0]) && !struck(&conns[1]) && !rings(&conns[0]));
	cr_assert_eq(down_port, 2);
	cr_assert_eq(up_port, 1);
	cr_assert_eq(told, 2);
	report(0, IBV_EVENT_SRQ_LIMIT_REACHED, NULL);
	report(0, IBV_EVENT_QP_LAST_WQE_REACHED, &conns[0].pair);
	report(0, IBV_EVENT_COMM_EST, &conns[0].pair);
	report_port(0, IBV_EVENT_GID_CHANGE, 1);
	cr_assert(!struck(&conns[0]) && told == 2, "nor do these, and nobody is told");
}

Test(verbs_events, what_is_not_ours_or_has_ended_is_nobody_s)
{
	struct ibv_cq cq;

	report(0, IBV_EVENT_CQ_ERR, &cq);
	rr_verbs_events_remove(&conns[1].v);
	report(0, IBV_EVENT_CQ_ERR, &conns[1].cq);
	cr_assert(!struck(&conns[0]) && !struck(&conns[1]));
	cr_assert_eq(ended, 0);
	rr_verbs_events_remove(&conns[1].v);	/* once more */
	rr_verbs_events_remove(&conns[0].v);
	report(0, IBV_EVENT_DEVICE_FATAL, NULL);
	cr_assert_eq(ended, 0);
}

/* Thousands may end one after the other. Each is on a page of its own here. */
Test(verbs_events, who_ends_looks_at_its_neighbours_only)
{
	enum { N = 6, SIZE = (sizeof(struct conn) + 4095) / 4096 * 4096 };
	char *room = mmap(NULL, N * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct conn *c[N];

	for (int i = 0; i < N; i++) {
		c[i] = (void *)(room + i * SIZE);
		connect_on(c[i], 1);
	}
	cr_assert_eq(mprotect(c[4], 2 * SIZE, PROT_NONE), 0);
	rr_verbs_events_remove(&c[2]->v);
	rr_verbs_events_remove(&c[1]->v);
	rr_verbs_events_remove(&c[0]->v);
	cr_assert_eq(mprotect(c[4], 2 * SIZE, PROT_READ | PROT_WRITE), 0);
	report(1, IBV_EVENT_DEVICE_FATAL, NULL);
	cr_assert_eq(ended, 4, "three of these, and the one that was there before");
	cr_assert(struck(c[3]) && struck(c[4]) && struck(c[5]) && struck(&conns[2]));
	cr_assert(!struck(c[0]) && !struck(c[1]) && !struck(c[2]));
}

Test(verbs_events, who_has_looked_sleeps_again)
{
	struct epoll_event ev[RR_VERBS_RANGS];

	report(0, IBV_EVENT_CQ_ERR, &conns[1].cq);
	cr_assert_eq(epoll_wait(conns[1].qp.wake_fd, ev, RR_VERBS_RANGS, 0), 1);
	cr_assert_eq(ev[0].data.u32, RR_VERBS_RANG_BELL);
	cr_assert(!rings(&conns[1]));
}

/* An event of the device wakes a thread that sleeps on a connection. */
Test(verbs_events, a_sleeper_watches_its_device)
{
	struct epoll_event ev[RR_VERBS_RANGS];

	rr_verbs_events_watch(&conns[0].v);
	rr_verbs_events_watch(&conns[0].v);
	cr_assert_eq(watches, 1);
	cr_assert(!rings(&conns[0]));
	cr_assert_eq(write(news[1], "", 1), 1);
	cr_assert(!rings(&conns[0]), "another device's");
	cr_assert_eq(write(news[0], "", 1), 1);
	cr_assert_eq(epoll_wait(conns[0].qp.wake_fd, ev, RR_VERBS_RANGS, 0), 1);
	cr_assert_eq(ev[0].data.u32, RR_VERBS_RANG_DEVICE);
	rr_verbs_events_remove(&conns[0].v);
	cr_assert(!rings(&conns[0]));
}

static unsigned nrings(unsigned from, unsigned to)
{
	unsigned n = 0;

	for (; from < to; from++)
		n += rings(&conns[from]);
	return n;
}

/* The kernel permits a hundred ways from one descriptor through three sets, of all connections together. */
Test(verbs_events, of_many_that_sleep_the_last_ones_watch)
{
	enum { N = 3 + WATCHERS + 4 };

	for (unsigned i = 3; i < N; i++) {
		connect_on(&conns[i], 0);
		if (i >= 3 + WATCHERS)
			a_while();
		rr_verbs_events_watch(&conns[i].v);
	}
	rr_verbs_events_watch(&conns[2].v);
	cr_assert_eq(write(news[0], "", 1), 1);
	cr_assert_eq(nrings(3, N), WATCHERS);
	cr_assert_eq(nrings(N - WATCHERS, N), WATCHERS);
	cr_assert(!rings(&conns[2]));
	cr_assert_eq(write(news[1], "", 1), 1);
	cr_assert(rings(&conns[2]), "those of another device have places of their own");
}

/* Taking each other's places all the time would cost two system calls for each sleep. */
Test(verbs_events, places_are_not_taken_all_the_time)
{
	for (unsigned i = 3; i < 40; i++) {
		connect_on(&conns[i], 0);
		rr_verbs_events_watch(&conns[i].v);
	}
	cr_assert_eq(watches, WATCHERS);
	rr_verbs_events_remove(&conns[3].v);
	rr_verbs_events_watch(&conns[39].v);
	cr_assert_eq(watches, WATCHERS + 1, "a free one is taken at once");
}

Test(verbs_events, who_polls_looks_now_and_then)
{
	nqueued = 1;
	queued[0] = (struct ibv_async_event){ .event_type = IBV_EVENT_CQ_ERR, .element.cq = &conns[0].cq };
	rr_verbs_events_look(&devices[0]);
	cr_assert_eq(struck(&conns[0]), -EIO);
	queued[nqueued++] = (struct ibv_async_event){ .event_type = IBV_EVENT_CQ_ERR, .element.cq = &conns[1].cq };
	rr_verbs_events_look(&devices[0]);
	cr_assert_eq(struck(&conns[1]), 0);
	a_while();
	rr_verbs_events_look(&devices[0]);
	cr_assert_eq(struck(&conns[1]), -EIO);
}

#else

Test(verbs_events, needs_the_headers_of_rdma_core, .disabled = true)
{
}

#endif
