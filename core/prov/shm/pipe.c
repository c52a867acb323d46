/* SPDX-License-Identifier: BSD-3-Clause */
/* A doorbell that costs less. The socket between the two ends shows when the peer is gone, and
 * passes descriptors, but a byte through a pipe costs a good deal less
 * (docs/decisions/0030-pipes.md). So an end that has slept a number of times makes a pipe,
 * passes its writing end to the peer, and from then on sleeps on the reading end. Brief
 * connections, and those that never sleep, have none.
 *
 * Each end says in its control words how far it is (enum rr_shm_knock):
 *
 *   the sleeper asks
 *   the peer    admits    its socket lets a descriptor in
 *   the sleeper sends the writing end
 *   the peer    has it
 *   the sleeper says that it sleeps on the pipe: whoever rings reads that
 *
 * All of it happens in ease(), before a thread sleeps, and each step waits for the other end to
 * sleep as well. Both ends may do it, each for its own bell.
 *
 * The peer opens the pipe anew, for reading and writing: then nobody else can make its writes
 * block, and they never raise SIGPIPE. When the last descriptor for writing is closed, the
 * sleeper finds the end of the file, as on the socket. An end that is told while the process
 * lives (disconnect()) is shown by the socket, and a byte through the pipe makes the sleeper
 * look there. */
#include "core/prov/shm/pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/prov/shm/foreign.h"

#define SLEEPS	6u	/* after so many a cheaper bell is worth its set-up, … */
#define LONG	3u	/* … of which one after a pause counts for so many */
#define PAUSE	(5 * RR_MSEC)
#define RARE	RR_SEC	/* … and after such a pause they are counted anew */
#define PATIENT	64u	/* … and after so many the peer is not waited for any longer */
/* Further descriptors of this process: at most so many, and at most this part of its limit. */
#define PIPES	64u
#define PART	32u

static _Atomic uint32_t pipes;

/* Has it slept so often, and once more for each descriptor that is in use? There are few of
 * them: the connections that sleep most often should have them, and not those that came
 * first. */
static bool earns_one(const struct rr_shm *q, uint32_t sleeps)
{
	return q->eased >= sleeps + atomic_load_explicit(&pipes, memory_order_relaxed);
}

static bool may_have_one(struct rr_shm *q)
{
	struct rlimit lim;
	uint32_t was = atomic_load_explicit(&pipes, memory_order_relaxed);

	if (was >= PIPES || getrlimit(RLIMIT_NOFILE, &lim) || was >= lim.rlim_cur / PART)
		return false;
	atomic_fetch_add_explicit(&pipes, 1, memory_order_relaxed);
	q->pipes++;
	return true;
}

static void pipe_say(struct rr_shm *q, enum rr_shm_knock what)
{
	atomic_fetch_or_explicit(&q->own.ctl->knock, (uint32_t)what, memory_order_release);
}

static bool has_said(const struct rr_shm_view *v, enum rr_shm_knock what)
{
	return atomic_load_explicit(&v->ctl->knock, memory_order_acquire) & (uint32_t)what;
}

/* --- the sleeper -------------------------------------------------------------------------- */

/* It will not send one. */
static void take_back(struct rr_shm *q)
{
	q->asks = false;
	atomic_fetch_and_explicit(&q->own.ctl->knock, ~(uint32_t)RR_SHM_ASKS,
				  memory_order_release);
}

/* The peer's socket lets it in: makes the pipe. It has one page, which is all that counts of
 * its user's share, and whoever has a descriptor of it may open it. */
static void make_pipe(struct rr_shm *q)
{
	int p[2];
	bool passed;

	if (rr_os_pipe(p))
		return take_back(q);
	rr_os->fcntl(p[1], F_SETPIPE_SZ, RR_PAGE);
	passed = !fchmod(p[1], 0666) && !rr_shm_send_fd(rr_shm_sock(q), "", 1, p[1]);
	rr_os->close(p[1]);
	if (!passed) {
		rr_os->close(p[0]);
		return take_back(q);
	}
	q->asks = false;
	q->qp.other_fd = rr_ownfd_raise(p[0]);
}

static void change_over(struct rr_shm *q)
{
	int was = q->qp.wake_fd;

	q->qp.wake_fd = q->qp.other_fd;
	q->qp.other_fd = was;
	q->qp.piped = !q->qp.piped;
}

/* Goes back to the socket. Whoever has read what was said before has posted what it rings for,
 * and arm() finds that. */
static void go_back_to_socket(struct rr_shm *q)
{
	change_over(q);
	atomic_fetch_and_explicit(&q->own.ctl->knock, ~(uint32_t)RR_SHM_BY,
				  memory_order_release);
}

/* One step. */
static void go_on_as_sleeper(struct rr_shm *q)
{
	if (q->asks && has_said(&q->peer, RR_SHM_ADMITS))
		make_pipe(q);
	if (q->qp.piped || q->qp.other_fd < 0 || !has_said(&q->peer, RR_SHM_HAS))
		return;
	change_over(q);
	pipe_say(q, RR_SHM_BY);
}

enum { LINK = 32 };

static void put_path(int fd, char path[LINK])
{
	snprintf(path, LINK, "/proc/self/fd/%d", fd);
}

void rr_shm_pipe_wake(const struct rr_shm *q)
{
	char path[LINK];
	int fd;

	if (!q->qp.piped)
		return;
	put_path(q->qp.wake_fd, path);
	fd = rr_os_open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!rr_os_write(fd, "", 1);
	rr_os->close(fd);
}

/* --- the peer, who rings ------------------------------------------------------------------ */

static void admit_pipe(struct rr_shm *q)
{
	if (q->refusing && !rr_shm_admit_fds(rr_shm_sock(q)))
		return;
	q->plain = false;
	q->admits = true;
	pipe_say(q, RR_SHM_ADMITS);
}

/* What the kernel calls the file: "pipe:[number]", or a path if somebody gave it one. Asking
 * runs no code of the file's. False: there is no /proc. */
static bool calls_it(int fd, char path[LINK], char name[LINK])
{
	ssize_t n;

	put_path(fd, path);
	n = readlink(path, name, LINK - 1);
	name[rr_max(n, (ssize_t)0)] = '\0';
	return n > 0;
}

/* The same pipe, opened anew; -1. */
static int open_anew(int fd)
{
	char path[LINK], name[LINK], again[LINK];
	int to;

	if (!calls_it(fd, path, name) || strncmp(name, "pipe:[", 6) != 0)
		return -1;
	to = rr_os_open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (to >= 0 && calls_it(to, path, again) && !strcmp(name, again))
		return to;
	if (to >= 0)
		rr_os->close(to);	/* whatever /proc is, it is not the kernel's */
	return -1;
}

/* Takes fd, which has come, for the bell of the peer, unless it is not wanted any more. */
static void adopt(struct rr_shm *q, int fd, bool wanted)
{
	int to;

	if (rr_os->fcntl(fd, F_GETPIPE_SZ) < 0)
		return rr_shm_drop_fd(fd);
	to = wanted ? open_anew(fd) : -1;
	rr_os->close(fd);
	if (to < 0)
		return;
	q->qp.ring_fd = rr_ownfd_raise(to);
	pipe_say(q, RR_SHM_HAS);
}

/* Takes what the sleeper has sent, if it has come; or else waits for it, unless the sleeper
 * takes its question back, which it does where the kernel refuses it. If we have changed our
 * mind, it may have been sent before, and lie behind a bell. */
static void take_pipe(struct rr_shm *q, bool wanted)
{
	bool comes = has_said(&q->peer, RR_SHM_ASKS);
	int sock = rr_shm_sock(q), fd = -EPROTO;
	char byte;

	if (rr_shm_foreign_next(sock))
		fd = rr_shm_peek_fd(sock);
	else if (comes)
		return;
	if (fd == -EMFILE)
		return;
	q->admits = q->come = false;
	q->took = true;
	if (wanted && q->refusing)
		rr_shm_refuse_fds(sock);
	if (fd >= 0) {
		rr_os->recv(sock, &byte, 1, MSG_DONTWAIT);
		adopt(q, fd, wanted);
	}
	q->plain = q->refusing && rr_shm_is_empty(sock);
}

void rr_shm_pipe_decline(struct rr_shm *q)
{
	take_pipe(q, false);
}

/* --- both --------------------------------------------------------------------------------- */

static void go_on_as_peer(struct rr_shm *q)
{
	if (q->admits)
		take_pipe(q, true);
	else if (!q->took && has_said(&q->peer, RR_SHM_ASKS) && earns_one(q, 0) &&
		 may_have_one(q))
		admit_pipe(q);
}

static void ask_for_pipe(struct rr_shm *q)
{
	q->asked = true;
	if (!may_have_one(q))
		return;
	q->asks = true;
	pipe_say(q, RR_SHM_ASKS);
}

/* It has taken too long, or other processes have the connection, too. */
static void give_up_pipes(struct rr_shm *q)
{
	if (q->asks)
		take_back(q);
	if (q->admits) {
		if (q->refusing)
			rr_shm_refuse_fds(rr_shm_sock(q));
		take_pipe(q, false);
	}
	q->asked = q->took = true;
	q->qp.easy = !(q->qp.loud && q->qp.piped);
}

/* Counts a sleep, if a message has come since the last one: a connection that others keep awake
 * has no use for a bell. Whoever pauses between its calls is likely to go on so. */
static bool count_sleep(struct rr_shm *q)
{
	uint32_t pos = atomic_load_explicit(&q->rx_pos, memory_order_relaxed);
	rr_time now, pause;
	uint32_t n;

	if (pos == q->eased_pos)
		return false;
	now = rr_now_coarse();
	pause = q->eased_at ? now - q->eased_at : 0;
	if (pause >= RARE && q->eased < PATIENT)
		q->eased = 0;
	n = pause >= PAUSE ? LONG : 1;
	q->eased_pos = pos;
	q->eased_at = now;
	q->eased = (uint8_t)rr_min(q->eased + n, PATIENT);
	return true;
}

void rr_shm_ease(struct rr_qp *qp, uint32_t may)
{
	struct rr_shm *q = rr_shm_of(qp);
	bool moves = may & RR_EASE_MOVE, adds = may & RR_EASE_ADD;
	int saved = errno;

	if (!rr_shm_ready(q) || atomic_load_explicit(&q->lost, memory_order_relaxed))
		return;
	if (!count_sleep(q) && adds && !q->come && !qp->loud)
		return;
	if (moves && qp->loud && qp->piped)
		go_back_to_socket(q);
	if (adds && q->eased < PATIENT) {
		if (moves && !q->asked && !qp->loud && earns_one(q, SLEEPS))
			ask_for_pipe(q);
		go_on_as_peer(q);
		if (moves && !qp->loud)
			go_on_as_sleeper(q);
		qp->easy = q->took && qp->piped != qp->loud;
	} else {
		give_up_pipes(q);
	}
	errno = saved;
}

bool rr_shm_pipe_drain(const struct rr_shm *q)
{
	char bells[64];
	ssize_t n;

	do
		n = rr_os_read(q->qp.wake_fd, bells, sizeof(bells));
	while (n < 0 && errno == EINTR);
	return n > 0 || (n < 0 && errno == EAGAIN);
}

void rr_shm_pipe_close(struct rr_shm *q)
{
	rr_ownfd_close(q->qp.piped ? q->qp.wake_fd : q->qp.other_fd);
	rr_ownfd_close(q->qp.ring_fd);
	atomic_fetch_sub_explicit(&pipes, q->pipes, memory_order_relaxed);
	q->pipes = 0;
}
