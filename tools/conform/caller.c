/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts, awaits and stops the program that makes a requester call. Its command is the user's
 * own (--requester), and is run by a shell. */

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/conform/run.h"

/* The child leads a process group of its own, so that rr_caller_stop() also ends what the
 * command has started. Its output is thrown away: what it did is judged by its messages and its
 * exit status. Returns false if there is no process. */
bool rr_caller_start(struct rr_caller *c, const char *command, const char *verb, uint64_t n)
{
	char line[4096];
	int null;

	rr_caller_stop(c);
	snprintf(line, sizeof(line), "exec %s %s %llu", command, verb, (unsigned long long)n);
	c->status = -1;
	c->pid = fork();
	if (c->pid)
		return c->pid > 0;
	setpgid(0, 0);
	null = open("/dev/null", O_RDWR);
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	execl("/bin/sh", "sh", "-c", line, (char *)NULL);
	_exit(127);
}

bool rr_caller_ended(struct rr_caller *c)
{
	int status;

	if (!c->pid || c->status >= 0)
		return true;
	if (waitpid(c->pid, &status, WNOHANG) != c->pid)
		return false;
	c->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return true;
}

/* The group is killed first; the pid is killed as well, in case the child has not come to
 * setpgid() yet. Does nothing if there is no caller, or it has ended. */
void rr_caller_stop(struct rr_caller *c)
{
	if (c->pid && !rr_caller_ended(c)) {
		kill(-c->pid, SIGKILL);
		kill(c->pid, SIGKILL);
		waitpid(c->pid, NULL, 0);
	}
	c->pid = 0;
}
