/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs provider's completion queue, on a device that is made up here. */
#include <criterion/criterion.h>

#if __has_include(<rdma/rdma_cma.h>)

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "core/prov/verbs/cq.c"

static _Atomic int completions;	/* in the queue */
static _Atomic bool other_looks, notified;

/* As ibv_poll_cq(): less than was asked for is all there was. */
static int poll_some(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int i = 0;

	(void)cq;
	for (; i < n && completions; i++, completions--)
		wc[i].wr_id = 7;
	return i;
}

static int notify(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	(void)solicited;
	notified = true;
	return 0;
}

static struct ibv_context device = { .ops = { .poll_cq = poll_some, .req_notify_cq = notify } };
static struct ibv_cq queue = { .context = &device };
static struct rr_vq *vq;

static void set_up(void)
{
	vq = calloc(1, sizeof(*vq) + 4 * sizeof(vq->raw[0]));
	vq->cq = &queue;
	vq->raw_cap = 4;
}

static void tear_down(void)
{
	free(vq);
}

/* A thread that spins: it found the queue empty, and is about to say so. */
static void *other(void *arg)
{
	const struct timespec a_while = { .tv_nsec = 20000000 };

	(void)arg;
	vq->cq_busy = true;
	other_looks = true;
	while (!notified)
		sched_yield();
	nanosleep(&a_while, NULL);
	vq->cq_busy = false;
	return NULL;
}

TestSuite(verbs_cq, .init = set_up, .fini = tear_down);

Test(verbs_cq, a_completion_before_arming_is_seen_though_another_thread_looks)
{
	pthread_t t;

	pthread_create(&t, NULL, other, NULL);
	while (!other_looks)
		sched_yield();
	completions = 1;	/* neither does it see this one, nor will it ring */
	cr_assert(rr_verbs_cq_arm(vq), "nobody would wake up for it");
	pthread_join(t, NULL);
	cr_assert_eq(vq->raw[0].wr_id, 7);
}

Test(verbs_cq, arming_an_empty_queue_finds_nothing)
{
	cr_assert_not(rr_verbs_cq_arm(vq));
	cr_assert(notified);
	completions = 1;
	cr_assert(rr_verbs_cq_reap(vq));
	cr_assert_eq(completions, 0);
}

Test(verbs_cq, a_full_ring_leaves_the_rest_in_the_queue)
{
	completions = 6;
	cr_assert(rr_verbs_cq_pull(vq));
	cr_assert_eq(completions, 2);
	vq->raw_tail = 3;
	cr_assert(rr_verbs_cq_pull(vq));
	cr_assert_eq(completions, 0);
	cr_assert_eq(vq->raw_head, 6);
}

/* The ring's end is in the midst of what is taken. */
Test(verbs_cq, what_is_taken_goes_round_the_end_of_the_ring)
{
	vq->raw_head = vq->raw_tail = 3;
	completions = 3;
	cr_assert(rr_verbs_cq_pull(vq));
	cr_assert_eq(completions, 0);
	cr_assert_eq(vq->raw_head, 6);
	cr_assert_eq(vq->raw[1].wr_id, 7);
	cr_assert_eq(vq->raw[2].wr_id, 0);
}

#else

Test(verbs_cq, needs_the_headers_of_rdma_core, .disabled = true)
{
}

#endif
