/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls to RDMA devices by threads that have changed their credentials.
 *
 * The kernel accepts a write() to an RDMA device only from a thread with the very credentials
 * that the descriptor was opened with: not equal ones, but the same object. setfsuid() and
 * setresuid() make new ones, even if they lead back to the old identity, and file servers call
 * them for each request, in any of their threads. librdmacm talks to the kernel by write(), and
 * so do the doorbells of software devices. What the kernel refuses (EACCES) is handled here:
 *
 * - Commands of a verbs device come here by way of the library's write(), and go on by ioctl(),
 *   which has no such check. (libibverbs itself uses ioctl() already; the drivers that it loads
 *   call our write().)
 * - The CM has no such ioctl(). Its channels are opened by a thread of ours that never changes
 *   its credentials, and that calls librdmacm for others. (Not by way of write(): a program
 *   that has loaded librdmacm with RTLD_DEEPBIND, as ganesha does through Ceph's libraries,
 *   calls libc's.)
 *
 * libc's setuid() changes that thread, too. Then the channel is useless, and what is on it
 * moves to a new one when the next event is to be read (rr_verbs_channel_renew()). */
#include "core/prov/verbs/rdmacm.h"

#include <errno.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* librdmacm searches sysfs, loads drivers and opens devices on it. */
#define STACK	(256u * 1024)

/* --- the thread ------------------------------------------------------------------------ */

/* Returns -1 with errno if it fails. */
typedef int job_fn(void *arg);

struct job {
	job_fn *fn;
	void *arg;
	int r, err;
};

static struct {
	pthread_mutex_t lock;	/* one job at a time */
	sem_t asked, done;
	struct job *job;
	pid_t pid;		/* the process whose thread it is */
} agent = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* errno belongs to a thread, so the agent's is carried back in the job. */
static void run_job(struct job *j)
{
	j->r = j->fn(j->arg);
	j->err = errno;
}

static void *agent_main(void *arg)
{
	(void)arg;
	for (;;) {
		if (sem_wait(&agent.asked))
			continue;
		run_job(agent.job);
		sem_post(&agent.done);
	}
	return NULL;
}

/* Starts the thread, once in a process. Called with the agent's lock held. */
static bool agent_start(void)
{
	pthread_attr_t attr;
	sigset_t all, was;
	pthread_t t;
	int rc;

	if (agent.pid == rr_verbs_pid)
		return true;
	sem_init(&agent.asked, 0, 0);
	sem_init(&agent.done, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	rc = pthread_create(&t, &attr, agent_main, NULL);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attr);
	if (!rc)
		agent.pid = rr_verbs_pid;
	return !rc;
}

/* Runs j in the agent's thread. False: there is no such thread, and start does not ask for
 * one. */
static bool by_agent(struct job *j, bool start)
{
	bool there;

	pthread_mutex_lock(&agent.lock);
	there = agent.pid == rr_verbs_pid || (start && agent_start());
	if (there) {
		agent.job = j;
		sem_post(&agent.asked);
		while (sem_wait(&agent.done))
			;
	}
	pthread_mutex_unlock(&agent.lock);
	return there;
}

static int open_channel(void *arg)
{
	struct rdma_event_channel **channel = arg;

	*channel = rdma_create_event_channel();
	return *channel ? 0 : -1;
}

struct rdma_event_channel *rr_verbs_creds_open_channel(void)
{
	struct rdma_event_channel *channel = NULL;
	struct job j = { .fn = open_channel, .arg = &channel };
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (!by_agent(&j, true))
		run_job(&j);
	pthread_setcancelstate(cancel, NULL);
	errno = j.err;
	return channel;
}

/* Another thread may have held the lock at the fork. The agent itself is not in the child:
 * agent.pid says so. */
void rr_verbs_creds_forked(void)
{
	pthread_mutex_init(&agent.lock, NULL);
}

/* --- librdmacm ------------------------------------------------------------------------- */

/* Calls fn here, and again in the agent's thread if the kernel refuses it: a refused call has
 * had no effect. */
static int call_agent(job_fn *fn, void *arg)
{
	struct job j = { .fn = fn, .arg = arg };
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	run_job(&j);
	if (j.r < 0 && j.err == EACCES)
		by_agent(&j, false);
	pthread_setcancelstate(cancel, NULL);
	errno = j.err;
	return j.r;
}

struct cm_args {
	void *a, *b, *c;
	int n;
};

/* Defines rr_creds_NAME PARAMS, which evaluates `what` with the arguments that follow as x->a,
 * x->b, … */
#define CALL(name, params, what, ...)                                           \
	static int do_##name(void *arg)                                         \
	{                                                                       \
		const struct cm_args *x = arg;                                     \
                                                                                \
		return what;                                                    \
	}                                                                       \
	int rr_creds_##name params                                                 \
	{                                                                       \
		return call_agent(do_##name, &(struct cm_args){ .a = __VA_ARGS__ });     \
	}

CALL(create_id, (struct rdma_event_channel *cm, struct rdma_cm_id **id),
     rdma_create_id(x->a, x->b, NULL, RDMA_PS_TCP), cm, id)
CALL(destroy_id, (struct rdma_cm_id *id), rdma_destroy_id(x->a), id)
CALL(v6only, (struct rdma_cm_id *id, int *only),
     rdma_set_option(x->a, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, x->b, sizeof(int)), id, only)
CALL(ack_timeout, (struct rdma_cm_id *id, uint8_t *exponent),
     rdma_set_option(x->a, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, x->b, sizeof(uint8_t)),
     id, exponent)
CALL(bind_addr, (struct rdma_cm_id *id, struct sockaddr *addr), rdma_bind_addr(x->a, x->b), id,
     addr)
CALL(listen, (struct rdma_cm_id *id, int backlog), rdma_listen(x->a, x->n), id, .n = backlog)
CALL(resolve_addr, (struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms),
     rdma_resolve_addr(x->a, x->b, x->c, x->n), id, from, to, ms)
CALL(resolve_route, (struct rdma_cm_id *id, int ms), rdma_resolve_route(x->a, x->n), id,
     .n = ms)
CALL(create_qp, (struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr),
     rdma_create_qp(x->a, x->b, x->c), id, pd, attr)
CALL(connect, (struct rdma_cm_id *id, struct rdma_conn_param *p), rdma_connect(x->a, x->b), id,
     p)
CALL(accept, (struct rdma_cm_id *id, struct rdma_conn_param *p), rdma_accept(x->a, x->b), id, p)
CALL(reject, (struct rdma_cm_id *id), rdma_reject(x->a, NULL, 0), id)
CALL(disconnect, (struct rdma_cm_id *id), rdma_disconnect(x->a), id)
CALL(established, (struct rdma_cm_id *id), rdma_notify(x->a, IBV_EVENT_COMM_EST), id)
CALL(migrate_id, (struct rdma_cm_id *id, struct rdma_event_channel *cm),
     rdma_migrate_id(x->a, x->b), id, cm)
CALL(get_event, (struct rdma_event_channel *cm, struct rdma_cm_event **ev),
     rdma_get_cm_event(x->a, x->b), cm, ev)

/* A thread that may not write zero bytes may not write anything. */
static int probe_channel(void *arg)
{
	const struct rdma_event_channel *cm = arg;

	return (int)syscall(SYS_write, cm->fd, "", 0);
}

bool rr_creds_usable(struct rdma_event_channel *cm)
{
	return !call_agent(probe_channel, cm) || errno != EACCES;
}

/* --- what was refused ------------------------------------------------------------------ */

#define ATTRS	3u
#define DRIVERS	64u	/* enum rdma_driver_id has some 20 */

static struct ib_uverbs_attr attr(uint16_t id, size_t len, uint64_t data)
{
	return (struct ib_uverbs_attr){ .attr_id = id, .flags = UVERBS_ATTR_F_MANDATORY,
					.len = (uint16_t)len, .data = data };
}

/* The kernel checks a command against the driver's number (EINVAL), which libibverbs does not
 * reveal. Few drivers ring doorbells by write(), and a process usually has one kind only. */
static bool invoke(int fd, struct ib_uverbs_ioctl_hdr *cmd)
{
	static _Atomic uint32_t last = RDMA_DRIVER_RXE;

	cmd->driver_id = last;
	if (syscall(SYS_ioctl, fd, RDMA_VERBS_IOCTL, cmd) == 0)
		return true;
	for (uint32_t id = 0; id < DRIVERS && errno == EINVAL; id++) {
		cmd->driver_id = id;
		if (syscall(SYS_ioctl, fd, RDMA_VERBS_IOCTL, cmd) == 0) {
			last = id;
			return true;
		}
	}
	return false;
}

/* Repeats a command that was given to write() as an ioctl(). False: this is no verbs device. */
static bool as_ioctl(int fd, const void *buf, size_t n)
{
	_Alignas(8) char room[sizeof(struct ib_uverbs_ioctl_hdr) + ATTRS *
			      sizeof(struct ib_uverbs_attr)];
	struct ib_uverbs_ioctl_hdr *cmd = (void *)room;
	const struct ib_uverbs_cmd_hdr *hdr = buf;
	uint32_t out[64] = { 0 };

	if (n < sizeof(*hdr) || n != hdr->in_words * 4u || hdr->out_words > rr_array_size(out))
		return false;
	*cmd = (struct ib_uverbs_ioctl_hdr){
		.length = sizeof(room), .object_id = UVERBS_OBJECT_DEVICE,
		.method_id = UVERBS_METHOD_INVOKE_WRITE, .num_attrs = ATTRS,
	};
	cmd->attrs[0] = attr(UVERBS_ATTR_WRITE_CMD, sizeof(uint64_t), hdr->command);
	cmd->attrs[1] = attr(UVERBS_ATTR_CORE_IN, n - sizeof(*hdr), (uintptr_t)(hdr + 1));
	cmd->attrs[2] = attr(UVERBS_ATTR_CORE_OUT, hdr->out_words * 4u, (uintptr_t)out);
	return invoke(fd, cmd);
}

ssize_t rr_verbs_creds_refused(int fd, const void *buf, size_t n)
{
	if (as_ioctl(fd, buf, n))
		return (ssize_t)n;
	errno = EACCES;
	return -1;
}
