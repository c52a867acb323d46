/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of devices, which tell of errors that no completion may tell of: a
 * completion queue that has overrun is silent for good.
 *
 * No thread of ours waits for them. The connections that have gone to sleep last watch their
 * device's events: these make wake_fd readable. Any thread that polls reads events as well, at
 * intervals. Whoever reads an event marks the connections that it concerns and rouses those who
 * sleep on them; each then ends its own connection (rr_verbs_cm_struck()).
 *
 * Not every connection watches. The kernel limits the number of ways that lead from one
 * descriptor through several epoll sets (100 through three), and refuses the app's own
 * epoll_ctl() if that is exceeded. */

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/connections.h"
#include "core/prov/verbs/rdmacm.h"

#define WATCHERS	8u		/* connections of one device that watch */
#define PLACES		(4 * WATCHERS)	/* of all devices */
/* Between two changes of who watches, and between two looks without a wake-up. */
#define INTERVAL	(100 * RR_MSEC)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rr_vq *connections;	/* all that have a queue pair */
static struct {
	struct rr_vq *v;		/* NULL: free */
	rr_time since;
} places[PLACES];

/* --- who watches ------------------------------------------------------------------------ */

static struct ibv_context *device_of(const struct rr_vq *v)
{
	return v->id->verbs;
}

static void give_up_place(unsigned place)
{
	struct rr_vq *v = places[place].v;

	places[place].v = NULL;
	atomic_store_explicit(&v->watches, false, memory_order_relaxed);
	syscall(SYS_epoll_ctl, v->qp->wake_fd, EPOLL_CTL_DEL, device_of(v)->async_fd, NULL);
}

/* A place for one more connection of this device: a free one, or that of the device's eldest
 * watcher, unless another one has just begun to watch. -1: none. Called with the lock held. */
static int find_place(const struct ibv_context *dev, rr_time now)
{
	int vacant = -1, eldest = -1;
	rr_time newest = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < PLACES; i++) {
		if (!places[i].v) {
			vacant = vacant < 0 ? (int)i : vacant;
			continue;
		}
		if (device_of(places[i].v) != dev)
			continue;
		n++;
		newest = rr_max(newest, places[i].since);
		if (eldest < 0 || places[i].since < places[eldest].since)
			eldest = (int)i;
	}
	if (n < WATCHERS && vacant >= 0)
		return vacant;
	return now - newest < INTERVAL ? -1 : eldest;
}

/* See connections.h. A thread that finds the lock taken does without: the next time is soon. */
void rr_verbs_events_watch(struct rr_vq *v)
{
	rr_time now;
	int place;

	if (likely(atomic_load_explicit(&v->watches, memory_order_relaxed)) ||
	    pthread_mutex_trylock(&lock))
		return;
	now = rr_now_coarse();
	place = find_place(device_of(v), now);
	if (place >= 0) {
		if (places[place].v)
			give_up_place((unsigned)place);
		if (!rr_verbs_channel_watch(v->qp->wake_fd, device_of(v)->async_fd,
					    RR_VERBS_RANG_DEVICE)) {
			places[place].v = v;
			places[place].since = now;
			atomic_store_explicit(&v->watches, true, memory_order_relaxed);
		}
	}
	pthread_mutex_unlock(&lock);
}

/* --- whom an event concerns ------------------------------------------------------------- */

void rr_verbs_events_add(struct rr_qp *qp, struct rr_vq *v)
{
	v->qp = qp;
	v->bell = -1;
	pthread_mutex_lock(&lock);
	v->next = connections;
	v->prev = &connections;
	if (v->next)
		v->next->prev = &v->next;
	connections = v;
	pthread_mutex_unlock(&lock);
}

/* Takes v out of the list, if it is in there: in a child the list is empty, and what v says of
 * its neighbours is of the parent's list. */
static void unlink_connection(struct rr_vq *v)
{
	if (!v->prev || !connections)
		return;
	*v->prev = v->next;
	if (v->next)
		v->next->prev = v->prev;
	v->prev = NULL;
}

void rr_verbs_events_remove(struct rr_vq *v)
{
	if (!v->qp)
		return;
	pthread_mutex_lock(&lock);
	unlink_connection(v);
	for (unsigned i = 0; i < PLACES; i++)
		if (places[i].v == v)
			give_up_place(i);
	pthread_mutex_unlock(&lock);
	v->qp = NULL;
	rr_verbs_channel_close_fd(v->bell);
	v->bell = -1;
}

/* In a child no thread holds the lock, and all connections are the parent's. */
void rr_verbs_events_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	connections = NULL;
	memset(places, 0, sizeof(places));
}

/* What an event means for the connections that it concerns: -errno, or 0 if they go on. The
 * peer has done what a QP_REQ_ERR or QP_ACCESS_ERR tells of. While a port is down, connections
 * last for as long as the device tries again. Queue pairs here have no SRQ and no other path,
 * so the events of those are nobody's. */
static int meaning(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return -EPROTO;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_QP_FATAL:
		return -EIO;
	case IBV_EVENT_DEVICE_FATAL:
		return -ENODEV;
	default:
		return 0;
	}
}

static bool concerns(const struct ibv_async_event *ev, const struct ibv_context *dev,
		     const struct rr_vq *v)
{
	if (device_of(v) != dev)
		return false;
	switch (ev->event_type) {
	case IBV_EVENT_CQ_ERR:
		return ev->element.cq == v->cq;
	case IBV_EVENT_DEVICE_FATAL:
		return true;
	default:
		return ev->element.qp == v->id->qp;
	}
}

/* Makes v's wake_fd readable until somebody has looked there, by an eventfd that is always
 * readable. Without a descriptor for that, v is found by a thread that polls. */
static void ring_its_bell(struct rr_vq *v)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT,
				  .data.u32 = RR_VERBS_RANG_BELL };
	int fd = v->bell < 0 ? (int)syscall(SYS_eventfd2, 1, EFD_CLOEXEC | EFD_NONBLOCK) : -1;

	if (fd < 0)
		return;
	v->bell = rr_verbs_process_raise_fd(fd);
	syscall(SYS_epoll_ctl, v->qp->wake_fd, EPOLL_CTL_ADD, v->bell, &ev);
}

/* Marks all connections that the event concerns; returns how many there are. The first event
 * counts. */
static unsigned strike(const struct ibv_async_event *ev, const struct ibv_context *dev, int err)
{
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	for (struct rr_vq *v = connections; v; v = v->next) {
		int none = 0;

		if (!concerns(ev, dev, v) ||
		    !atomic_compare_exchange_strong_explicit(&v->struck, &none, err,
							     memory_order_release,
							     memory_order_relaxed))
			continue;
		ring_its_bell(v);
		n++;
	}
	pthread_mutex_unlock(&lock);
	return n;
}

/* --- reading them ----------------------------------------------------------------------- */

/* Acts on one event, before it is acknowledged: until then neither its queue pair nor its CQ
 * can be destroyed, so that the pointer in it is no other's. */
static void take(struct ibv_context *dev, const struct ibv_async_event *ev)
{
	bool port = ev->event_type == IBV_EVENT_PORT_ERR ||
		    ev->event_type == IBV_EVENT_PORT_ACTIVE;
	int err = meaning(ev->event_type);
	unsigned n = err ? strike(ev, dev, err) : 0;

	if (err == -ENODEV)
		rr_verbs_device_failed(dev);
	if (port)
		rr_verbs_device_port(dev, (unsigned)ev->element.port_num,
				     ev->event_type == IBV_EVENT_PORT_ACTIVE);
	if ((err || port) && rr_verbs_process_on_event)
		rr_verbs_process_on_event(dev->device->name, ibv_event_type_str(ev->event_type),
					  port ? (unsigned)ev->element.port_num : 0, n);
}

/* See connections.h. A limited number at a time. Reading is a cancellation point. */
void rr_verbs_events_read(struct ibv_context *dev)
{
	struct ibv_async_event ev;
	int cancel, saved = errno;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	for (unsigned i = 0; i < RR_VERBS_EVENTS && !ibv_get_async_event(dev, &ev); i++) {
		take(dev, &ev);
		ibv_ack_async_event(&ev);
	}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

/* Devices are told apart by their addresses: two that share an entry take turns. */
void rr_verbs_events_look(struct ibv_context *dev)
{
	enum { N = 16 };
	static _Atomic rr_time looked[N];
	_Atomic rr_time *last = &looked[(uintptr_t)dev / 64 % N];
	rr_time now = rr_now_coarse();

	if (now - atomic_load_explicit(last, memory_order_relaxed) < INTERVAL)
		return;
	atomic_store_explicit(last, now, memory_order_relaxed);
	rr_verbs_events_read(dev);
}
