/* SPDX-License-Identifier: BSD-3-Clause */
/* The constructor: what is done at exec. Every program pays for it. */

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/init.h"
#include "preload/sock.h"

/* A server started by inetd has its connection as 0, 1 and 2. Every exec pays for this look, so
 * it does not bind the next definitions: by system call. */
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

/* One started by systemd has its connection (Accept=yes) or its listeners from 3 on
 * (sd_listen_fds(3)). */
static void inherit_listen_fds(void)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	long n;

	if (!pid || !fds || env_number(pid) != getpid())
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
