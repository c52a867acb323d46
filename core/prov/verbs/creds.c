/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that changed who they are.
 *
 * The kernel takes a write() to an RDMA device only from a thread with the very credentials that the
 * descriptor was opened with: not equal ones, the same object. setfsuid() and setresuid() make new ones, also
 * when they lead back to the old identity; file servers do that for each request, in any of their
 * threads. librdmacm talks by write(), and so do the doorbells of software devices. What the kernel refuses
 * (EACCES) comes here, by way of the library's write():
 *
 * - Commands of a verbs device go by ioctl(), which is not held to that.
 * - The CM has no such call. Its channels are opened by a thread of ours that never changes, and it
 *   writes what others may not. (setuid() by libc changes all threads. Then CM events
 *   are not heard of any more; the queue pairs work on.) */
#include "core/prov/verbs/verbs_int.h"

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

#define STACK	(128u * 1024)	/* rdma_create_event_channel() looks through sysfs */

/* --- the thread ------------------------------------------------------------------------ */

struct job {
	struct rdma_event_channel *channel;	/* to be made, where buf is NULL */
	const void *buf;
	size_t n;
	int fd;
	ssize_t r;
	int err;
};

static struct {
	pthread_mutex_t lock;	/* one job at a time */
	sem_t asked, done;
	struct job *job;
	pid_t pid;		/* of the process that it is a thread of */
} agent = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void run(struct job *j)
{
	if (j->buf) {
		j->r = syscall(SYS_write, j->fd, j->buf, j->n);
		j->err = errno;
	} else {
		j->channel = rdma_create_event_channel();
		j->err = errno;
	}
}

static void *agent_main(void *arg)
{
	(void)arg;
	for (;;) {
		if (sem_wait(&agent.asked))
			continue;
		run(agent.job);
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

struct rdma_event_channel *rr_verbs_open_channel(void)
{
	struct job j = { 0 };

	if (!by_agent(&j, true))
		return rdma_create_event_channel();
	errno = j.err;
	return j.channel;
}

void rr_verbs_creds_forked(void)
{
	pthread_mutex_init(&agent.lock, NULL);
}

/* --- what was refused ------------------------------------------------------------------ */

#define ATTRS	3u
#define DRIVERS	64u	/* enum rdma_driver_id has some 20 */

static struct ib_uverbs_attr attr(uint16_t id, size_t len, uint64_t data)
{
	return (struct ib_uverbs_attr){ .attr_id = id, .flags = UVERBS_ATTR_F_MANDATORY,
					.len = (uint16_t)len, .data = data };
}

/* The kernel holds a command against its driver's number (EINVAL), which libibverbs does not tell. Those who have
 * doorbells by write() are few, and a process has one kind as a rule. */
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
	_Alignas(8) char room[sizeof(struct ib_uverbs_ioctl_hdr) + ATTRS * sizeof(struct ib_uverbs_attr)];
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
	struct job j = { .fd = fd, .buf = buf, .n = n };

	if (as_ioctl(fd, buf, n))
		return (ssize_t)n;
	if (!by_agent(&j, false) || (j.r < 0 && j.err == EACCES)) {
		errno = EACCES;
		return -1;
	}
	errno = j.err;
	return j.r;
}
