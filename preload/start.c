/* SPDX-License-Identifier: BSD-3-Clause */
/* The constructor: what is done at exec (stage 1 of init.h), which every program pays for. */

#include <errno.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/init.h"
#include "preload/sock.h"

/* A server started by inetd has its connection as fds 0, 1 and 2. Every exec pays for this
 * look, so it is a plain system call that does not bind the next definitions. */
static void inherit_stdio(void)
{
	socklen_t len = sizeof(int);
	int proto = 0;

	if (syscall(SYS_getsockopt, 0, SOL_SOCKET, SO_PROTOCOL, &proto, &len) < 0 ||
	    proto != IPPROTO_TCP || !rr_sock_inherit(0))
		return;
	rr_sock_dup(0, 1);
	rr_sock_dup(0, 2);
}

/* atol() without a locale. */
static long env_number(const char *s)
{
	long n = 0;

	while (*s >= '0' && *s <= '9' && n < INT32_MAX)
		n = n * 10 + (*s++ - '0');
	return n;
}

/* getenv(), but without its code and without a constant: each would be a page fault of every
 * program. name ends with '='. */
static const char *env_value(const char *name)
{
	size_t n;

	for (char **e = environ; e && *e; e++) {
		for (n = 0; name[n] && (*e)[n] == name[n]; n++)
			;
		if (!name[n])
			return *e + n;
	}
	return NULL;
}

/* A server started by systemd has its connection (Accept=yes) or its listeners from fd 3 on
 * (sd_listen_fds(3)). */
static void inherit_listen_fds(void)
{
	const char pid_name[] = "LISTEN_PID=", fds_name[] = "LISTEN_FDS=";
	const char *pid = env_value(pid_name), *fds = pid ? env_value(fds_name) : NULL;
	long n;

	if (!fds || env_number(pid) != getpid())
		return;
	n = env_number(fds);
	for (int fd = 3; fd < 3 + n && fd < 1024; fd++)
		rr_sock_inherit(fd);
}

__attribute__((constructor)) static void rr_init(void)
{
	int saved = errno;

	rr_init_started();
	rr_process_init();
	inherit_stdio();
	inherit_listen_fds();
	errno = saved;
}
