/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that changed who they are.
 *
 * The kernel takes a write() to an RDMA device only from a thread with the very credentials
 * that the descriptor was opened with: not equal ones, the same object. setfsuid() and
 * setresuid() make new ones, also when they lead back to the old identity; file servers do that
 * for each request, in any of their threads. librdmacm talks by write(), and so do the
 * doorbells of software devices. What the kernel refuses (EACCES):
 *
 * - Commands of a verbs device come here by way of the library's write(), and go by ioctl(),
 *   which is not held to that. (libibverbs itself talks by ioctl() already; its drivers, which
 *   it loads, have our write().)
 * - The CM has no such call. Its channels are opened by a thread of ours that never changes,
 *   and it calls librdmacm for others. (Not by way of write(): a program that has loaded
 *   librdmacm with RTLD_DEEPBIND, as ganesha does by Ceph's libraries, has it with libc's.)
 *
 * setuid() by libc changes that thread, too. Then a channel is of no use any more, and what is
 * on it moves to another one, when the next event should be read (rr_verbs_renew()). */
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

/* librdmacm looks through sysfs, loads drivers, opens devices */
#define STACK	(256u * 1024)

/* --- the thread ------------------------------------------------------------------------ */

/* -1 and errno, if it fails. */
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
	pid_t pid;		/* of the process that it is a thread of */
} agent = { .lock = PTHREAD_MUTEX_INITIALIZER };

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

/* In the agent's lock. */
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

/* False if there is no such thread and start does not ask for one. */
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

struct rdma_event_channel *rr_verbs_open_channel(void)
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

void rr_verbs_creds_forked(void)
{
	pthread_mutex_init(&agent.lock, NULL);
}

/* --- librdmacm ------------------------------------------------------------------------- */

/* What is refused has done nothing yet. */
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

/* rr_cm_NAME PARAMS: what, of the arguments as they follow. */
#define CALL(name, params, what, ...)                                           \
	static int do_##name(void *arg)                                         \
	{                                                                       \
		const struct cm_args *x = arg;                                     \
                                                                                \
		return what;                                                    \
	}                                                                       \
	int rr_cm_##name params                                                 \
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
CALL(migrate_id, (struct rdma_cm_id *id, struct rdma_event_channel *cm),
     rdma_migrate_id(x->a, x->b), id, cm)
CALL(get_event, (struct rdma_event_channel *cm, struct rdma_cm_event **ev),
     rdma_get_cm_event(x->a, x->b), cm, ev)

/* Who may write nothing may write. */
static int probe_channel(void *arg)
{
	const struct rdma_event_channel *cm = arg;

	return (int)syscall(SYS_write, cm->fd, "", 0);
}

bool rr_cm_usable(struct rdma_event_channel *cm)
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

/* The kernel holds a command against its driver's number (EINVAL), which libibverbs does not
 * tell. Those who have doorbells by write() are few, and a process has one kind as a rule. */
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

/* A write()'s command as an ioctl(); false if this is no verbs device. */
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

ssize_t rr_verbs_refused(int fd, const void *buf, size_t n)
{
	if (as_ioctl(fd, buf, n))
		return (ssize_t)n;
	errno = EACCES;
	return -1;
}
