/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's entry, the provider's table of operations, and what is needed to sleep.
 * Everything else is in the files that the table names. */
#include "core/prov/verbs/plugin.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/prov/verbs/queue.h"
#include "core/prov/verbs/rdmacm.h"
#include "core/prov/verbs/connections.h"

static void (*at_exit)(void);

static size_t verbs_size(const struct rr_prov_params *p)
{
	(void)p;
	return sizeof(struct rr_verbs);
}

static uint32_t verbs_window(struct rr_qp *qp)
{
	const struct rr_vq *v = rr_verbs_of(qp);

	return v && !v->err && !v->lost ? rr_verbs_post_window(v) : 0;
}

/* Called without the connection's lock, by threads that spin. An error counts as news, so that
 * the thread goes and finds it. */
static bool peek_queue(const struct rr_qp *qp, enum rr_arm what)
{
	struct rr_vq *v = rr_verbs_of(qp);

	(void)what;
	if (!v || v->err || v->lost ||
	    atomic_load_explicit(&v->struck, memory_order_relaxed))
		return true;
	return v->state == RR_V_READY && rr_verbs_cq_reap(v);
}

/* Work requests ring the device when they are posted; there is nothing to kick or to disarm. */
static void nothing(struct rr_qp *qp)
{
	(void)qp;
}

/* A peer that waits for receives must hear of them now: this thread is about to sleep. */
static int arm_queue(struct rr_qp *qp, enum rr_arm what)
{
	struct rr_vq *v = rr_verbs_of(qp);

	(void)what;
	if (!v || v->state != RR_V_READY)
		return 0;
	rr_verbs_notes_count(qp, v, false);
	rr_verbs_events_watch(v);
	return rr_verbs_cq_arm(v) || v->err || v->lost ||
	       atomic_load_explicit(&v->struck, memory_order_relaxed);
}

/* Takes one notification off the completion channel, and acknowledges it at once:
 * ibv_destroy_cq() waits for all that were not. */
static bool take_cq_event(struct rr_vq *v)
{
	struct ibv_cq *cq;
	int cancel, rc;
	void *ctx;

	if (!v->comp)
		return false;
	/* it is a read(), and so a cancellation point */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	rc = ibv_get_cq_event(v->comp, &cq, &ctx);
	pthread_setcancelstate(cancel, NULL);
	if (!rc)
		ibv_ack_cq_events(cq, 1);
	return !rc;
}

static void hear(struct rr_qp *qp, struct rr_vq *v, enum rr_verbs_rang what)
{
	switch (what) {
	case RR_VERBS_RANG_CM:
		rr_verbs_cm_events(qp, v);
		break;
	case RR_VERBS_RANG_CQ:
		take_cq_event(v);
		break;
	case RR_VERBS_RANG_DEVICE:
		if (v->id)
			rr_verbs_events_read(v->id->verbs);
		break;
	default:
		break;
	}
}

/* Nearly always the completion queue has rung, so it is asked first, without a look at wake_fd.
 * If the CM or the device has an event, too, wake_fd stays readable for the next call. */
static int drain_events(struct rr_qp *qp)
{
	struct rr_vq *v = rr_verbs_of(qp);
	struct epoll_event ev[RR_VERBS_RANGS];
	int saved = errno, n = 0;

	if (!v)
		return -ECONNRESET;
	if (!take_cq_event(v))
		n = (int)syscall(SYS_epoll_pwait, qp->wake_fd, ev, RR_VERBS_RANGS, 0, NULL, 0);
	for (int i = 0; i < n; i++)
		hear(qp, v, ev[i].data.u32);
	rr_verbs_cm_struck(v);
	errno = saved;
	return v->lost || v->err == -ECONNRESET ? -ECONNRESET : 0;
}

/* Of the capabilities only RR_PROV_RING: nothing finishes inside a call, nothing outlives the
 * process, and forked children can use none of it. */
static const struct rr_prov_ops ops = {
    .name = "verbs",
    .id = RR_PROV_ID_VERBS,
    .caps = RR_PROV_RING,
    .qp_size = verbs_size,
    .prepare = rr_verbs_pair_prepare,
    .answer = rr_verbs_pair_answer,
    .join = rr_verbs_pair_join,
    .lst_size = rr_verbs_native_lst_size,
    .listen = rr_verbs_native_listen,
    .unlisten = rr_verbs_native_unlisten,
    .tend = rr_verbs_native_tend,
    .take = rr_verbs_native_take,
    .connect = rr_verbs_native_connect,
    .establish = rr_verbs_setup_establish,
    .withdraw = rr_verbs_pair_withdraw,
    .disconnect = rr_verbs_cm_disconnect,
    .close = rr_verbs_end_close,
    .send = rr_verbs_traffic_send,
    .send_imm = rr_verbs_traffic_send_imm,
    .read = rr_verbs_traffic_read,
    .write = rr_verbs_traffic_write,
    .probe = rr_verbs_traffic_probe,
    .expose = rr_verbs_keys_expose,
    .invalidate = rr_verbs_keys_invalidate,
    .consumed = rr_verbs_notes_consumed,
    .poll = rr_verbs_traffic_poll,
    .repost = rr_verbs_traffic_repost,
    .settle = rr_verbs_traffic_settle,
    .window = verbs_window,
    .peek = peek_queue,
    .kick = nothing,
    .arm = arm_queue,
    .disarm = nothing,
    .drain = drain_events,
    .trim = rr_verbs_mr_trim,
};

/* Puts the pid into a page that the kernel wipes at fork. Without MADV_WIPEONFORK it stays in
 * globals.c's variable. */
static void make_self(void)
{
	void *page = mmap(NULL, RR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	if (page == MAP_FAILED)
		return;
	if (madvise(page, RR_PAGE, MADV_WIPEONFORK))
		munmap(page, RR_PAGE);
	else
		rr_verbs_process_self = page;
}

/* In a child: what librdmacm has opened is the parent's, so a child of a process that has used
 * it does without RDMA. */
static void forked(void)
{
	rr_verbs_pid = getpid();
	rr_verbs_process_orphan |= rr_verbs_process_used;
	rr_verbs_creds_forked();
	rr_verbs_device_forked();
	rr_verbs_events_forked();
	rr_verbs_mr_forked();
}

/* Runs before librdmacm and libibverbs end. Calls after this only close descriptors. */
__attribute__((destructor)) static void end(void)
{
	if (getpid() != rr_verbs_pid)
		return;		/* a vfork child that calls exit() */
	if (at_exit)
		at_exit();
	rr_verbs_pid = 0;
}

rr_verbs_plugin_fn rr_verbs_plugin;

/* Called by core/prov/prov.c once it has loaded the plugin. If it is called again, the new env
 * counts. */
RR_EXPORT const struct rr_prov_ops *rr_verbs_plugin(uint32_t abi,
						    const struct rr_verbs_env *env)
{
	if (abi != RR_VERBS_ABI)
		return NULL;
	if (!rr_verbs_pid) {
		pthread_atfork(NULL, NULL, forked);
		ibv_fork_init();	/* for kernels that do not copy pinned memory at fork */
		make_self();
	}
	rr_verbs_pid = getpid();
	rr_os = env->os;
	rr_verbs_process_own_fd = env->own_fd;
	rr_verbs_process_raise_fd = env->raise_fd;
	rr_verbs_process_no_windows = env->no_windows;
	rr_verbs_process_invite = env->invite;
	rr_verbs_process_say = env->say;
	rr_verbs_process_on_event = env->on_event;
	at_exit = env->at_exit;
	if (env->on_refused)
		env->on_refused(rr_verbs_creds_refused);
	return &ops;
}
