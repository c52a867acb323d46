/* SPDX-License-Identifier: BSD-3-Clause */
/* Half-open connections: those whose answer no client has taken up yet. Each holds a descriptor
 * and memory for a client that may never come, and goes back to TCP when its deadline has
 * passed. The connection's own next step would do that, but its app may never touch it again.
 * So these connections are in queues sorted by deadline, which upgrade/expire.c goes through;
 * what happens to them is decided there.
 *
 * There is a queue for each length of time that a client is given, and a connection comes to
 * the end of its own. So entering one costs the same however many offers by a device, which
 * have longer, strangers have made.
 *
 * The lock of the queues is taken before those of connections, which are only tried for while
 * it is held. */

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/conn/base/base.h"

#define BUSY	RR_MSEC		/* when to look again if another thread has the connection */

static struct rr_lock lock;
static struct queue {
	struct rr_conn *oldest, *newest;
} queues[2];			/* those of ordinary patience, and of a device's */
static _Atomic rr_time due;	/* the earliest deadline; 0: the queues are empty */

/* Of two entries, either of which may be NULL, the one with the earlier deadline. */
static struct rr_conn *earlier(struct rr_conn *a, struct rr_conn *b)
{
	return !a || (b && b->deadline < a->deadline) ? b : a;
}

static void set_due(rr_time at_least)
{
	const struct rr_conn *c = earlier(queues[0].oldest, queues[1].oldest);

	atomic_store_explicit(&due, c ? rr_max(c->deadline, at_least) : 0,
			      memory_order_relaxed);
}

/* c->half is the number of its queue, from 1. */
static struct queue *queue_of(const struct rr_conn *c)
{
	return &queues[atomic_load_explicit(&c->half, memory_order_relaxed) - 1];
}

static void link_in(struct queue *q, struct rr_conn *c, struct rr_conn *prev)
{
	struct rr_conn *next = prev ? prev->half_next : q->oldest;

	c->half_prev = prev;
	c->half_next = next;
	*(prev ? &prev->half_next : &q->oldest) = c;
	*(next ? &next->half_prev : &q->newest) = c;
	atomic_store_explicit(&c->half, (uint8_t)(q - queues + 1), memory_order_relaxed);
}

static void take_out(struct rr_conn *c)
{
	struct queue *q = queue_of(c);

	*(c->half_prev ? &c->half_prev->half_next : &q->oldest) = c->half_next;
	*(c->half_next ? &c->half_next->half_prev : &q->newest) = c->half_prev;
	atomic_store_explicit(&c->half, 0, memory_order_relaxed);
}

/* Within a queue only threads that read the clock at the same time can come in another order,
 * so the search from its end is short. */
void rr_half_add(struct rr_conn *c, bool patient)
{
	struct queue *q = &queues[patient];
	struct rr_conn *prev;

	if (rr_lock_take(&lock) == -EDEADLK)
		/* a signal handler that interrupted the holder: without the queue */
		return;
	for (prev = q->newest; prev && prev->deadline > c->deadline; prev = prev->half_prev)
		;
	link_in(q, c, prev);
	set_due(0);
	rr_lock_drop(&lock);
}

void rr_half_leave(struct rr_conn *c)
{
	if (likely(!atomic_load_explicit(&c->half, memory_order_relaxed)) ||
	    rr_lock_take(&lock) == -EDEADLK)
		return;
	if (atomic_load_explicit(&c->half, memory_order_relaxed)) {
		take_out(c);
		set_due(0);
	}
	rr_lock_drop(&lock);
}

rr_time rr_half_due(void)
{
	return atomic_load_explicit(&due, memory_order_relaxed);
}

int rr_half_pick(rr_time until, rr_time now, int (*take)(struct rr_conn *c),
		 struct rr_conn **out)
{
	struct rr_conn *c, *at[2];
	int rc = -ESRCH;

	if (rr_lock_try(&lock))
		return -EAGAIN;
	at[0] = queues[0].oldest;
	at[1] = queues[1].oldest;
	while ((c = earlier(at[0], at[1])) && c->deadline <= until) {
		rc = take(c);
		if (rc != -ESRCH)
			break;
		at[c == at[1]] = c->half_next;
	}
	if (rc == 0)
		take_out(c);
	if (rc != -ESRCH)
		set_due(rc == 0 ? 0 : now + BUSY);
	rr_lock_drop(&lock);
	*out = c;
	return rc;
}

/* In a forked child: the connections in the queues are the parent's to expire. */
void rr_half_forked(void)
{
	lock = (struct rr_lock){ 0 };
	memset(queues, 0, sizeof(queues));
	atomic_store_explicit(&due, 0, memory_order_relaxed);
}
