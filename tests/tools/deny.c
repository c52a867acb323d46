/* SPDX-License-Identifier: BSD-3-Clause */
/* A sandbox by seccomp, as systemd's SystemCallFilter=, RestrictAddressFamilies= and MemoryDenyWriteExecute= make it:
 *	deny RULE... -- COMMAND...	these system calls fail
 *	deny allow NUMBER... [RULE...] -- COMMAND...	all but these fail with EPERM
 *	deny kill NUMBER... [RULE...] -- COMMAND...	all but these kill the process, systemd's default
 * RULE: NUMBER[,ARGUMENT,MASK,VALUE[,ERRNO]]: where (ARGUMENT & MASK) == VALUE. EPERM, unless it says another. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MOST	4000

static struct sock_filter code[MOST];
static unsigned short n;

static void put(unsigned short what, unsigned char t, unsigned char f, unsigned k)
{
	if (n == MOST)
		exit(99);
	code[n++] = (struct sock_filter){ what, t, f, k };
}

static void load(unsigned at)
{
	put(BPF_LD | BPF_W | BPF_ABS, 0, 0, at);
}

static void put_rule(const char *text)
{
	unsigned nr, arg, mask, value, error = EPERM;
	int got = sscanf(text, "%u,%u,%x,%x,%u", &nr, &arg, &mask, &value, &error);

	if (got == 1) {
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, nr);
	} else if (got >= 4) {
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 5, nr);
		load((unsigned)offsetof(struct seccomp_data, args) + 8 * arg);
		put(BPF_ALU | BPF_AND | BPF_K, 0, 0, mask);
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value);
		put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error);
		load(offsetof(struct seccomp_data, nr));
		return;
	} else {
		fprintf(stderr, "deny: '%s'\n", text);
		exit(98);
	}
	put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error);
}

int main(int argc, char **argv)
{
	struct sock_fprog prog = { .filter = code };
	int i = 1, kill = argc > 1 && !strcmp(argv[1], "kill");
	int allow = kill || (argc > 1 && !strcmp(argv[1], "allow"));
	unsigned rest = kill ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;

	load(offsetof(struct seccomp_data, nr));
	for (int k = 1 + allow; k < argc && strcmp(argv[k], "--"); k++)	/* refusals first */
		if (!allow || strchr(argv[k], ','))
			put_rule(argv[k]);
	for (i = 1 + allow; i < argc && strcmp(argv[i], "--"); i++)
		if (allow && !strchr(argv[i], ',')) {
			put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned)atoi(argv[i]));
			put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
		}
	put(BPF_RET | BPF_K, 0, 0, allow ? rest : SECCOMP_RET_ALLOW);
	prog.len = n;
	if (i + 1 >= argc || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		return 97;
	execvp(argv[i + 1], argv + i + 1);
	return 96;
}
