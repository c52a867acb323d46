/* SPDX-License-Identifier: BSD-3-Clause */
/* rpcreg WORD...: an ordinary server of libtirpc that does what the words say, in their order:
 *	tcp PROG, tcp6 PROG	a transport of its own, registered; "port N" before it: on that port
 *	both PROG	one socket of IPv6 for both, registered for both, as nfs-ganesha does
 *	unreg PROG	takes back all of PROG
 *	raw NETID UADDR PROG	registers that, by rpcbind's own word and without a socket
 *	fill N NETID UADDR PROG	the same for N programs from PROG on
 *	close		closes the last listening socket, and says nothing to rpcbind
 *	sleep MS	waits, with an eye on the last listening socket
 *	until FILE	the same, until there is such a file; "blind FILE": without that eye
 *	daemon		daemon(); "lost": the same, and overwrites its environment, as setproctitle() does
 *	child		forks; the parent goes on with the next words, the child serves
 *	user UID	becomes that user
 *	exit N, abort	ends
 *	serve		svc_run()
 * "ready" is printed before it serves or waits for input ("wait"). */

#include <netconfig.h>
#include <netinet/in.h>
#include <poll.h>
#include <rpc/rpc.h>
#include <rpc/rpcb_clnt.h>
#include <rpc/rpcb_prot.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int port, last = -1;

static void dispatch(struct svc_req *req, SVCXPRT *xprt)
{
	(void)req;
	svc_sendreply(xprt, (xdrproc_t)(void *)xdr_void, NULL);
}

static void die(const char *what)
{
	perror(what);
	exit(3);
}

/* family 0: of IPv6, for both */
static SVCXPRT *make_transport(int family)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	bool v4 = family == AF_INET;
	int on = 1, off = 0;

	last = socket(v4 ? AF_INET : AF_INET6, SOCK_STREAM, 0);
	setsockopt(last, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (!v4)
		setsockopt(last, IPPROTO_IPV6, IPV6_V6ONLY, family ? &on : &off, sizeof(on));
	if (bind(last, v4 ? (void *)&in : (void *)&in6, v4 ? sizeof(in) : sizeof(in6)) || listen(last, 9))
		die("listen");
	return svc_vc_create(last, 0, 0);
}

static void offer(const char *netid, int family, u_long prog)
{
	static SVCXPRT *shared;
	SVCXPRT *x = family || !shared ? make_transport(family) : shared;
	struct netconfig *nc = getnetconfigent(netid);

	shared = family ? NULL : x;
	if (!x || !nc || !svc_reg(x, prog, 1, dispatch, nc))
		die("svc_reg");
}

static void set(CLIENT *c, char *netid, char *addr, u_long prog)
{
	struct rpcb arg = { prog, 1, netid, addr, (char[]){ "" } };
	bool_t done = FALSE;

	if (!c || clnt_call(c, RPCBPROC_SET, (xdrproc_t)(void *)xdr_rpcb, &arg,
			    (xdrproc_t)(void *)xdr_bool, &done, ((struct timeval){ 100, 0 })) != RPC_SUCCESS || !done)
		die("RPCBPROC_SET");
}

static void raw(char *netid, char *addr, u_long prog)
{
	CLIENT *c = clnt_create("127.0.0.1", RPCBPROG, RPCBVERS4, "tcp");

	set(c, netid, addr, prog);
	clnt_destroy(c);
}

/* Over the socket that is there for programs of this host: as who we are. */
static void fill(u_long n, char *netid, char *addr, u_long prog)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = _PATH_RPCBINDSOCK };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	CLIENT *c;

	if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
		die("rpcbind");
	c = clnt_vc_create(fd, &(struct netbuf){ sizeof(at), sizeof(at), &at }, RPCBPROG, RPCBVERS4, 0, 0);
	while (n--)
		set(c, netid, addr, prog++);
	clnt_destroy(c);
}

/* A child that serves, until its parent's end has nothing to do with it. */
static void serve(void)
{
	puts("ready");
	fflush(stdout);
	svc_run();
	exit(4);
}

static void wait_for(const char *file, int looking_at)
{
	while (access(file, F_OK)) {
		poll(&(struct pollfd){ looking_at, POLLIN, 0 }, 1, 50);
		usleep(1000);
	}
}

static void lose_environment(char **argv)
{
	char *end = argv[0];

	for (char **e = environ; *e; e++)
		end = *e + strlen(*e);
	if (daemon(1, 1))
		die("daemon");
	memset(argv[0], 'x', (size_t)(end - argv[0]));
}

int main(int argc, char **argv)
{
	char **words = calloc((size_t)argc + 1, sizeof(*words));

	for (int i = 1; i < argc; i++)
		words[i] = strdup(argv[i]);
	for (int i = 1; i < argc; i++) {
		const char *w = words[i], *arg = words[i + 1] ? words[i + 1] : "";

		if (!strcmp(w, "tcp"))
			offer("tcp", AF_INET, strtoul(arg, NULL, 0)), i++;
		else if (!strcmp(w, "tcp6"))
			offer("tcp6", AF_INET6, strtoul(arg, NULL, 0)), i++;
		else if (!strcmp(w, "both"))
			offer("tcp", 0, strtoul(arg, NULL, 0)), offer("tcp6", 0, strtoul(arg, NULL, 0)), i++;
		else if (!strcmp(w, "raw") && i + 3 < argc)
			raw(words[i + 1], words[i + 2], strtoul(words[i + 3], NULL, 0)), i += 3;
		else if (!strcmp(w, "fill") && i + 4 < argc)
			fill(strtoul(arg, NULL, 0), words[i + 2], words[i + 3], strtoul(words[i + 4], NULL, 0)), i += 4;
		else if (!strcmp(w, "port"))
			port = atoi(arg), i++;
		else if (!strcmp(w, "unreg"))
			rpcb_unset(strtoul(arg, NULL, 0), 1, NULL), i++;
		else if (!strcmp(w, "close"))
			close(last), last = -1;
		else if (!strcmp(w, "sleep"))
			poll(&(struct pollfd){ last, POLLIN, 0 }, 1, atoi(arg)), i++;
		else if (!strcmp(w, "until"))
			wait_for(arg, last), i++;
		else if (!strcmp(w, "blind"))
			wait_for(arg, -1), i++;
		else if (!strcmp(w, "daemon")) {
			if (daemon(1, 1))
				die("daemon");
		} else if (!strcmp(w, "lost"))
			lose_environment(argv);
		else if (!strcmp(w, "child")) {
			if (!fork())
				serve();
		} else if (!strcmp(w, "user")) {
			if (setresuid((uid_t)atoi(arg), (uid_t)atoi(arg), (uid_t)atoi(arg)))
				die("setresuid");
			i++;
		} else if (!strcmp(w, "wait")) {
			puts("ready");
			fflush(stdout);
			while (read(0, &(char){ 0 }, 1) > 0)
				;
		} else if (!strcmp(w, "exit"))
			exit(atoi(arg));
		else if (!strcmp(w, "abort"))
			abort();
		else if (!strcmp(w, "serve"))
			serve();
		else
			return 2;
	}
	return 0;
}
