/* SPDX-License-Identifier: BSD-3-Clause */
/* labsvc MODE [PORT [PIDFILE]]: the laboratory program's server, in each of the shapes that
 * libtirpc servers have in the field.
 *
 *	svcrun		own socket, svctcp_create(), svc_run()
 *	tli		svc_tli_create() makes and binds the socket
 *	register	as svcrun, registered with rpcbind
 *	daemon		as svcrun, but daemon() after the transport was made
 *	poll, select, epoll	own loop around svc_getreq_*()
 *	fsuid		as svcrun; each call takes on another identity for a while, as file servers do
 *	fsuid-own	the same, and librdmacm is loaded, with libc's functions before all others'
 *	drop		as svcrun, and gives up its privileges when it listens
 *	drop-late	the same, in its first call
 *	fork		own accept() loop, one child per connection
 *	inetd		fd 0 is a connection (inetd nowait)
 *	wait		fd 0 is a listening socket (inetd wait), or fd 3 (LISTEN_FDS)
 *
 * LAB_GSS=SERVICE@HOST: only by RPCSEC_GSS.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netconfig.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/fsuid.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab.h"

#define LAB_POLLFDS	64
#define LAB_EPOLLFDS	65536

/* As <rpc/rpcsec_gss.h> has it, which does not go without GSS-API's headers. */
extern bool_t rpc_gss_set_svc_name(char *principal, char *mechanism, u_int req_time, u_int prog, u_int vers);
extern void labprog_1(struct svc_req *req, SVCXPRT *xprt);	/* rpcgen's dispatcher */

static unsigned int ncalls, digest;

static void die(const char *what)
{
	fprintf(stderr, "labsvc: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* LAB_ADDRESS, or the loopback. */
static in_addr_t own_address(void)
{
	const char *text = getenv("LAB_ADDRESS");

	return text ? inet_addr(text) : htonl(INADDR_LOOPBACK);
}

/* setfsuid() there and back: the credentials are then others, though they say the same. */
static int switches, drops;

static void count_call(void)
{
	ncalls++;
	if (drops && geteuid() == 0 && setuid(65534))
		die("setuid");
	if (switches) {
		setfsuid(65534);
		setfsuid(geteuid());
	}
}

/* --- procedures --- */

void *lab_null_1_svc(void *arg, struct svc_req *req)
{
	static char nothing;

	(void)arg, (void)req;
	count_call();
	return &nothing;
}

lab_blob *lab_echo_1_svc(lab_blob *arg, struct svc_req *req)
{
	(void)req;
	count_call();
	return arg;
}

quad_t *lab_sum_1_svc(lab_ints *arg, struct svc_req *req)
{
	static quad_t sum;

	(void)req;
	count_call();
	sum = 0;
	for (unsigned int i = 0; i < arg->lab_ints_len; i++)
		sum += arg->lab_ints_val[i];
	return &sum;
}

lab_blob *lab_big_1_svc(u_int *len, struct svc_req *req)
{
	static lab_blob b;

	(void)req;
	count_call();
	free(b.lab_blob_val);
	b.lab_blob_val = malloc(*len ? *len : 1);
	b.lab_blob_len = *len;
	if (!b.lab_blob_val)
		return NULL;
	for (u_int i = 0; i < *len; i++)
		b.lab_blob_val[i] = (char)(i * 7 + (i >> 8));
	return &b;
}

u_int *lab_sleep_1_svc(u_int *ms, struct svc_req *req)
{
	(void)req;
	count_call();
	usleep(*ms * 1000);
	return ms;
}

lab_stat *lab_stat_1_svc(void *arg, struct svc_req *req)
{
	static lab_stat s;

	(void)arg, (void)req;
	s = (lab_stat){ .calls = ++ncalls, .pid = (u_int)getpid(), .digest = digest };
	return &s;
}

void *lab_note_1_svc(u_int *v, struct svc_req *req)
{
	(void)req;
	count_call();
	digest = digest * 31 + *v;
	return NULL;	/* no reply */
}

/* --- shapes --- */

static int make_listener(int port)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons((in_port_t)port),
		.sin_addr.s_addr = own_address(),
	};
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 128))
		die("listen");
	return fd;
}

static void dispatch(struct svc_req *req, SVCXPRT *xprt)
{
	if (getenv("LAB_GSS") && req->rq_cred.oa_flavor != RPCSEC_GSS)
		svcerr_weakauth(xprt);
	else
		labprog_1(req, xprt);
}

static void offer(SVCXPRT *xprt, int proto)
{
	if (!xprt || !svc_register(xprt, LABPROG, LABVERS, dispatch, proto))
		die("svc_register");
}

static void offer_by_tli(int port)
{
	struct netconfig *nc = getnetconfigent("tcp");
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons((in_port_t)port),
		.sin_addr.s_addr = own_address(),
	};
	struct t_bind tb = {
		.addr = { .maxlen = sizeof(a), .len = sizeof(a), .buf = &a }, .qlen = 8,
	};
	SVCXPRT *x = nc ? svc_tli_create(RPC_ANYFD, nc, &tb, 0, 0) : NULL;

	if (!x || !svc_reg(x, LABPROG, LABVERS, dispatch, NULL))
		die("svc_tli_create");
}

static int open_transports(void)
{
	int n = 0;

	for (int i = 0; i < svc_max_pollfd; i++)
		n += svc_pollfd[i].fd >= 0;
	return n;
}

/* Serves the one connection on fd until it ends. */
static void serve_connection(int fd)
{
	offer(svc_fd_create(fd, 0, 0), 0);
	while (open_transports() > 0) {
		int n = poll(svc_pollfd, (nfds_t)svc_max_pollfd, -1);

		if (n >= 0)
			svc_getreq_poll(svc_pollfd, n);
		else if (errno != EINTR)
			die("poll");
	}
}

static void reap(int sig)
{
	int e = errno;

	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	errno = e;
}

static void run_fork(int port)
{
	struct sigaction sa = { .sa_handler = reap };	/* no SA_RESTART: accept() sees EINTR */
	int lfd = make_listener(port);

	sigaction(SIGCHLD, &sa, NULL);
	for (;;) {
		int fd = accept(lfd, NULL, NULL);

		if (fd < 0 && errno == EINTR)
			continue;
		if (fd < 0)
			die("accept");
		if (fork() == 0) {
			signal(SIGCHLD, SIG_DFL);
			close(lfd);
			if (dup2(fd, 7) < 0)
				die("dup2");
			if (fd != 7)
				close(fd);
			serve_connection(7);
			_exit(0);
		}
		close(fd);
	}
}

static void run_poll(void)
{
	for (;;) {
		struct pollfd p[LAB_POLLFDS];
		int n = svc_max_pollfd < LAB_POLLFDS ? svc_max_pollfd : LAB_POLLFDS;

		memcpy(p, svc_pollfd, (size_t)n * sizeof(*p));
		n = poll(p, (nfds_t)n, 1000);
		if (n > 0)
			svc_getreq_poll(p, n);
	}
}

static void run_select(void)
{
	for (;;) {
		fd_set fds = svc_fdset;

		if (select(FD_SETSIZE, &fds, NULL, NULL, NULL) > 0)
			svc_getreqset(&fds);
	}
}

static bool_t is_transport(int fd)
{
	for (int i = 0; i < svc_max_pollfd; i++)
		if (svc_pollfd[i].fd == fd)
			return TRUE;
	return FALSE;
}

static void run_epoll(void)
{
	static char known[LAB_EPOLLFDS];
	int ep = epoll_create1(EPOLL_CLOEXEC);

	for (;;) {
		struct epoll_event ev[16];
		int n;

		for (int i = 0; i < svc_max_pollfd; i++) {
			int fd = svc_pollfd[i].fd;

			if (fd < 0 || fd >= LAB_EPOLLFDS || known[fd])
				continue;
			ev[0] = (struct epoll_event){ .events = EPOLLIN, .data.fd = fd };
			known[fd] = epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev[0]) == 0;
		}
		n = epoll_wait(ep, ev, 16, -1);
		for (int i = 0; i < n; i++) {
			svc_getreq_common(ev[i].data.fd);
			if (!is_transport(ev[i].data.fd))
				known[ev[i].data.fd] = 0;
		}
	}
}

static void become_daemon(const char *pidfile)
{
	FILE *f;

	if (daemon(0, 1))
		die("daemon");
	f = pidfile ? fopen(pidfile, "w") : NULL;
	if (f) {
		fprintf(f, "%d\n", getpid());
		fclose(f);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "svcrun";
	int port = argc > 2 ? atoi(argv[2]) : 0;

	if (getenv("LAB_GSS") && !rpc_gss_set_svc_name(getenv("LAB_GSS"), (char[]){ "kerberos_v5" }, 0, LABPROG, LABVERS))
		die("rpc_gss_set_svc_name");
	if (!strcmp(mode, "fork"))
		run_fork(port);
	if (!strcmp(mode, "inetd")) {
		serve_connection(0);
		return 0;
	}
	if (!strcmp(mode, "wait")) {
		offer(svctcp_create(getenv("LISTEN_FDS") ? 3 : 0, 0, 0), 0);
	} else if (!strcmp(mode, "tli")) {
		offer_by_tli(port);
	} else if (!strcmp(mode, "register")) {
		svc_unregister(LABPROG, LABVERS);
		offer(svctcp_create(make_listener(port), 0, 0), IPPROTO_TCP);
	} else {
		offer(svctcp_create(make_listener(port), 0, 0), 0);
	}
	if (!strcmp(mode, "drop") && setuid(65534))
		die("setuid");
	drops = !strcmp(mode, "drop-late");
	switches = !strncmp(mode, "fsuid", 5);
	if (!strcmp(mode, "fsuid-own") && !dlopen("librdmacm.so.1", RTLD_NOW | RTLD_DEEPBIND))
		die(dlerror());
	if (!strcmp(mode, "daemon"))
		become_daemon(argc > 3 ? argv[3] : NULL);
	if (!strcmp(mode, "poll"))
		run_poll();
	if (!strcmp(mode, "select"))
		run_select();
	if (!strcmp(mode, "epoll"))
		run_epoll();
	svc_run();
	return 1;
}
