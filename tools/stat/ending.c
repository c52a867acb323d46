/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks the kernel how processes have ended that did not say so themselves. Two sources: a pidfd
 * that was opened while the process lived (Linux 6.15 tells its exit status), and /proc for a
 * process that nobody has waited for, or that lives on without the library. If neither knows,
 * the end stays RR_END_UNKNOWN. */
#include "tools/stat/ending.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/rundir.h"

#define KEPT	512u	/* descriptors of processes, or what was learned by them */

/* As in linux/pidfd.h, which older systems do not have. */
struct pidfd_exit {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ids[8];
	int32_t code;
};
#define PIDFD_EXIT	(UINT64_C(1) << 3)
#define PIDFD_ASK	_IOWR(0xff, 11, struct pidfd_exit)

_Static_assert(sizeof(struct pidfd_exit) == 64, "the first version of the kernel's");

static struct kept {
	int pid, fd;		/* fd -1: the kernel was asked already */
	uint64_t ticks;
	unsigned uid;
	enum rr_proc_end end;
	int code;
} kept[KEPT];
static uint32_t nkept;

/* Is it a signal for what a program has done wrong itself? Anybody can send these as well, but
 * hardly anybody does. */
static bool is_crash(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
	       signal == SIGABRT || signal == SIGSYS || signal == SIGTRAP;
}

/* Sets the end from a status as waitpid() gives it. */
static void set_end(struct rr_proc *p, int status)
{
	if (WIFSIGNALED(status)) {
		p->end_code = WTERMSIG(status);
		p->end = is_crash(p->end_code) ? RR_END_CRASH : RR_END_SIGNAL;
	} else if (WIFEXITED(status)) {
		p->end_code = WEXITSTATUS(status);
		p->end = RR_END_EXIT;
	}
}

/* --- processes that were seen alive --- */

/* The entry of this very process: its start time tells it from a later one with the same
 * pid. */
static struct kept *kept_of(const struct rr_proc *p)
{
	for (uint32_t i = 0; i < nkept; i++)
		if (kept[i].pid == p->pid && kept[i].ticks == p->ticks && kept[i].uid == p->uid)
			return &kept[i];
	return NULL;
}

/* Keeps a descriptor of p. If there are KEPT already, the oldest gives way. Only pids that the
 * kernel has confirmed are opened; any other may be a process that has nothing to do with the
 * segment. */
static void keep_living(const struct rr_proc *p)
{
	struct kept k = { .pid = p->pid, .ticks = p->ticks, .uid = p->uid };

	if (!p->verified || kept_of(p))
		return;
	k.fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (k.fd < 0)
		return;
	if (nkept == KEPT) {
		if (kept[0].fd >= 0)
			close(kept[0].fd);
		memmove(&kept[0], &kept[1], --nkept * sizeof(kept[0]));
	}
	kept[nkept++] = k;
}

/* Asks by the descriptor that was kept, if there is one. The kernel answers once the process
 * has ended; the answer is noted, so that later calls need no descriptor. An older kernel
 * refuses the request, and nothing is learned. */
static void ask_kept(struct rr_proc *p)
{
	struct pidfd_exit x = { .mask = PIDFD_EXIT };
	struct kept *k = kept_of(p);

	if (!k)
		return;
	if (k->fd >= 0 && !ioctl(k->fd, PIDFD_ASK, &x) && x.mask & PIDFD_EXIT) {
		set_end(p, x.code);
		k->end = p->end;
		k->code = p->end_code;
		close(k->fd);
		k->fd = -1;
	}
	p->end = k->end;
	p->end_code = k->code;
}

/* --- processes that are in /proc --- */

#define EXITING	4u		/* one of its flags: PF_EXITING */

/* Reads the state ('?' if the process is about to end) and the wait status of /proc/PID/stat.
 * Returns false if there is no such process. Field 2, the command's name, is in parentheses and
 * may hold anything, spaces and parentheses too; so fields are counted from the last ')'. */
static bool read_stat(int pid, char *state, int *status)
{
	unsigned flags;
	char path[32], line[1024], *at, *last;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(line, 1, sizeof(line) - 1, f);
	fclose(f);
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	at = strrchr(line, ')');	/* field 2 may hold anything */
	last = strrchr(line, ' ');	/* field 52 */
	if (!at || !last || !at[1] || last < at + 2)
		return false;
	if (sscanf(at + 3, "%*d %*d %*d %*d %*d %u", &flags) != 1)
		return false;
	*state = at[2];
	if (flags & EXITING && *state != 'Z')
		*state = '?';
	*status = atoi(last);
	return true;
}

/* Looks in /proc. The start time is read before and after, because the pid may be given to
 * another process meanwhile. A process that runs on has lost the library: by exec, or because
 * its descriptor was closed. A wait status of 0 is also what the kernel tells those who may not
 * know, so only root believes it. */
static void look_in_proc(struct rr_proc *p)
{
	uint64_t ticks = rr_proc_ticks(p->pid);
	int status = 0;
	char state;

	if (!ticks || ticks != p->ticks || !read_stat(p->pid, &state, &status) ||
	    rr_proc_ticks(p->pid) != ticks)
		return;
	if (state != 'Z' && state != 'X' && state != '?')
		p->end = RR_END_LEFT;
	else if (state == 'Z' && (status || !geteuid()))
		set_end(p, status);
}

/* --- */

/* A process that has said itself that it ended in order (`ended`) needs no question. */
void rr_endings(struct rr_procs *all, bool keep)
{
	for (uint32_t i = 0; i < all->n; i++) {
		struct rr_proc *p = &all->p[i];

		if (p->alive) {
			if (keep)
				keep_living(p);
			continue;
		}
		if (p->ended)
			continue;
		ask_kept(p);
		if (p->end == RR_END_UNKNOWN && p->local)
			look_in_proc(p);
	}
}
