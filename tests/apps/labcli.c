/* SPDX-License-Identifier: BSD-3-Clause */
/* labcli HOST PORT COMMAND [N]: the laboratory program's client; PORT 0 asks rpcbind. LAB_GSS=SERVICE@HOST
 * with LAB_GSS_SERVICE=krb5, krb5i or krb5p: by RPCSEC_GSS. LAB_KEEPALIVE=SECONDS: SO_KEEPALIVE, and that as
 * TCP_KEEPIDLE. Prints what it got on stdout and the number of calls that it made on stderr. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lab.h"

#define LAB_THREADS	64
#define LAB_PER_THREAD	200
#define LAB_BUFFER	65536	/* more than any reply to the pipeline */

/* As <rpc/rpcsec_gss.h> has it, which does not go without GSS-API's headers. */
extern AUTH *rpc_gss_seccreate(CLIENT *, char *principal, char *mechanism, int service, char *qop, void *, void *);

static const char *host;
static int port;
static _Atomic unsigned int ncalls;

static struct sockaddr_in server_address(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((in_port_t)port) };

	inet_pton(AF_INET, host, &a.sin_addr);
	return a;
}

static void set_timeout(CLIENT *c, long ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	clnt_control(c, CLSET_TIMEOUT, (char *)&tv);
}

static void authenticate(CLIENT *c, char *principal)
{
	static const char *const names[] = { "krb5", "krb5i", "krb5p" };
	const char *want = getenv("LAB_GSS_SERVICE");
	int service = 1;	/* 1 none, 2 integrity, 3 privacy */

	for (int i = 0; want && i < 3; i++)
		if (!strcmp(want, names[i]))
			service = 1 + i;
	ncalls++;	/* in which the context is made */
	c->cl_auth = rpc_gss_seccreate(c, principal, (char[]){ "kerberos_v5" }, service, NULL, NULL, NULL);
	if (!c->cl_auth) {
		clnt_pcreateerror("labcli: GSS");
		exit(2);
	}
}

/* After so many seconds without a word, if any. */
static void keep_alive(CLIENT *c, const char *idle)
{
	int fd, on = 1, seconds = idle ? atoi(idle) : 0;

	if (seconds && (!clnt_control(c, CLGET_FD, (char *)&fd) ||
			setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) ||
			setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds)))) {
		perror("labcli: LAB_KEEPALIVE");
		exit(2);
	}
}

static CLIENT *open_version(rpcprog_t prog, rpcvers_t vers)
{
	struct sockaddr_in a = server_address();
	int fd = RPC_ANYSOCK;
	CLIENT *c = port ? clnttcp_create(&a, prog, vers, &fd, 0, 0) :
		clnt_create(host, prog, vers, "tcp");

	if (!c) {
		clnt_pcreateerror("labcli");
		exit(2);
	}
	set_timeout(c, 100000);
	keep_alive(c, getenv("LAB_KEEPALIVE"));
	if (getenv("LAB_GSS"))
		authenticate(c, getenv("LAB_GSS"));
	return c;
}

static CLIENT *open_client(rpcprog_t prog)
{
	return open_version(prog, LABVERS);
}

/* One call; 0 when it was answered. */
static int call(CLIENT *c, rpcproc_t proc, xdrproc_t xarg, void *arg, xdrproc_t xres, void *res)
{
	struct timeval unused = { 100, 0 };	/* CLSET_TIMEOUT decides */
	enum clnt_stat st;

	ncalls++;
	st = clnt_call(c, proc, xarg, arg, xres, res, unused);
	if (st != RPC_SUCCESS)
		clnt_perror(c, "labcli");
	return st != RPC_SUCCESS;
}

#define ASK(c, proc, xarg, arg, xres, res) \
	call(c, proc, (xdrproc_t)(xarg), arg, (xdrproc_t)(xres), res)

static void *pattern(unsigned int n, unsigned int seed)
{
	char *b = malloc(n + 1);

	for (unsigned int i = 0; b && i < n; i++)
		b[i] = (char)(i * 31 + (i >> 9) + seed);
	return b;
}

/* Sends n bytes there and back; 0 when they came back unaltered. */
static int echo(CLIENT *c, unsigned int n, unsigned int seed)
{
	lab_blob arg = { n, pattern(n, seed) }, res = { 0, NULL };
	int bad = ASK(c, LAB_ECHO, xdr_lab_blob, &arg, xdr_lab_blob, &res) ||
		res.lab_blob_len != n || memcmp(res.lab_blob_val, arg.lab_blob_val, n);

	clnt_freeres(c, (xdrproc_t)xdr_lab_blob, &res);
	free(arg.lab_blob_val);
	return bad;
}

static int null_call(CLIENT *c)
{
	return ASK(c, LAB_NULL, xdr_void, NULL, xdr_void, NULL);
}

/* --- commands: each returns the exit status --- */

static int cmd_null(unsigned int n)
{
	CLIENT *c = open_client(LABPROG);
	unsigned int bad = 0;

	n = n ? n : 1;
	for (unsigned int i = 0; i < n; i++)
		bad += null_call(c) != 0;
	printf("null %s %u\n", bad ? "BAD" : "ok", n);
	clnt_destroy(c);
	return bad != 0;
}

static int cmd_echo(unsigned int n)
{
	CLIENT *c = open_client(LABPROG);
	int bad = echo(c, n, 1);

	printf("echo %u %s\n", n, bad ? "BAD" : "ok");
	clnt_destroy(c);
	return bad;
}

/* Around every border: inline threshold, libtirpc's buffers, fragments, chunk sizes. */
static int cmd_sizes(unsigned int unused)
{
	static const unsigned int sizes[] = {
		0, 1, 3, 4, 100, 900, 1000, 1024, 3900, 3996, 4000, 4040, 4096, 8191, 8192, 8900,
		9000, 9001, 16384, 32768, 65500, 65535, 65536, 65537,
		67400, 67500, 67540, 67584, 131072, 262144, 1048576, 4194304,
	};
	CLIENT *c = open_client(LABPROG);
	int bad = 0;

	(void)unused;
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes) && !bad; i++) {
		bad = echo(c, sizes[i], i);
		if (bad)
			printf("echo %u BAD\n", sizes[i]);
	}
	if (!bad)
		printf("sizes ok\n");
	clnt_destroy(c);
	return bad;
}

static int cmd_sum(unsigned int n)
{
	CLIENT *c = open_client(LABPROG);
	lab_ints arg = { n, malloc(4 * (size_t)n + 4) };
	quad_t want = 0, got = -1;
	int bad;

	for (unsigned int i = 0; i < n; i++)
		want += arg.lab_ints_val[i] = (int)(i * 2654435761u);
	bad = ASK(c, LAB_SUM, xdr_lab_ints, &arg, xdr_quad_t, &got) || got != want;
	printf("sum %u %s\n", n, bad ? "BAD" : "ok");
	free(arg.lab_ints_val);
	clnt_destroy(c);
	return bad;
}

static int cmd_big(unsigned int n)
{
	CLIENT *c = open_client(LABPROG);
	lab_blob res = { 0, NULL };
	int bad = ASK(c, LAB_BIG, xdr_u_int, &n, xdr_lab_blob, &res) || res.lab_blob_len != n;

	for (unsigned int i = 0; !bad && i < n; i++)
		bad = res.lab_blob_val[i] != (char)(i * 7 + (i >> 8));
	printf("big %u %s\n", n, bad ? "BAD" : "ok");
	clnt_freeres(c, (xdrproc_t)xdr_lab_blob, &res);
	clnt_destroy(c);
	return bad;
}

static void *thread_main(void *arg)
{
	unsigned int id = (unsigned int)(uintptr_t)arg;
	CLIENT *c = open_client(LABPROG);
	uintptr_t bad = 0;

	for (unsigned int i = 0; i < LAB_PER_THREAD; i++)
		bad += echo(c, (id * 977 + i * 131) % 20000, id + i) != 0;
	clnt_destroy(c);
	return (void *)bad;
}

static int cmd_threads(unsigned int n)
{
	pthread_t t[LAB_THREADS];
	uintptr_t bad = 0;

	n = n < LAB_THREADS ? n : LAB_THREADS;
	for (uintptr_t i = 0; i < n; i++)
		pthread_create(&t[i], NULL, thread_main, (void *)i);
	for (unsigned int i = 0; i < n; i++) {
		void *r;

		pthread_join(t[i], &r);
		bad += (uintptr_t)r;
	}
	printf("threads %u calls %u bad %lu\n", n, n * LAB_PER_THREAD, (unsigned long)bad);
	return bad != 0;
}

static _Atomic int crowd_ends;

static void *crowd_main(void *arg)
{
	unsigned int id = (unsigned int)(uintptr_t)arg;
	CLIENT *c = open_client(LABPROG);
	uintptr_t bad = 0;

	for (unsigned int i = 0; !crowd_ends || !i; i++) {
		bad += echo(c, (id * 977 + i * 131) % 20000, id + i) != 0;
		usleep(1000000);
	}
	clnt_destroy(c);
	return (void *)bad;
}

/* n connections at once, each of a thread, on which calls are made until our input ends. */
static int cmd_crowd(unsigned int n)
{
	pthread_t *t = calloc(n, sizeof(*t));
	uintptr_t bad = 0;
	char byte;

	for (uintptr_t i = 0; i < n; i++)
		pthread_create(&t[i], NULL, crowd_main, (void *)i);
	while (read(0, &byte, 1) > 0)
		;
	crowd_ends = 1;
	for (unsigned int i = 0; i < n; i++) {
		void *r;

		pthread_join(t[i], &r);
		bad += (uintptr_t)r;
	}
	free(t);
	printf("crowd %u bad %lu\n", n, (unsigned long)bad);
	return bad != 0;
}

/* One connection used by the parent, then by a child, then by the parent again. */
static int cmd_fork(unsigned int unused)
{
	CLIENT *c = open_client(LABPROG);
	int first = echo(c, 50, 1), then, status = 0;
	pid_t pid = fork();

	(void)unused;
	if (pid == 0)
		_exit(echo(c, 60, 2));
	waitpid(pid, &status, 0);
	ncalls++;	/* the child's */
	then = echo(c, 70, 3);
	printf("parent %s child %s parent %s\n", first ? "BAD" : "ok", status ? "BAD" : "ok",
	       then ? "BAD" : "ok");
	clnt_destroy(c);
	return first || status || then;
}

/* A call that times out; its late reply must not be taken for the next one's. */
static int cmd_timeout(unsigned int unused)
{
	CLIENT *c = open_client(LABPROG);
	u_int ms = 1000, res = 0;
	int answered, bad;

	(void)unused;
	set_timeout(c, 300);
	/* Who gets no CPU for so long finds an answer all the same. */
	while ((answered = !ASK(c, LAB_SLEEP, xdr_u_int, &ms, xdr_u_int, &res)) && ms < 60000)
		ms *= 2;
	set_timeout(c, 100000);
	bad = answered || echo(c, 100, 1);
	printf("timeout then echo %s\n", bad ? "BAD" : "ok");
	clnt_destroy(c);
	return bad;
}

static int cmd_noservice(unsigned int unused)
{
	CLIENT *c = open_client(LABPROG + 1);
	struct timeval tv = { 100, 0 };

	(void)unused;
	ncalls++;
	printf("wrong program: %s\n", clnt_sperrno(clnt_call(c, 0, (xdrproc_t)xdr_void, NULL,
							     (xdrproc_t)xdr_void, NULL, tv)));
	clnt_destroy(c);
	return 0;
}

static int cmd_pid(unsigned int unused)
{
	CLIENT *c = open_client(LABPROG);
	lab_stat s = { 0, 0, 0 };
	int bad = ASK(c, LAB_STAT, xdr_void, NULL, xdr_lab_stat, &s);

	(void)unused;
	printf("pid %u\n", s.pid);
	clnt_destroy(c);
	return bad;
}

/* libtirpc's batching: n calls that are never answered, sent in buffer-fulls, then one that is. */
static int cmd_batch(unsigned int n)
{
	CLIENT *c = open_client(LABPROG);
	lab_stat before = { 0, 0, 0 }, after = { 0, 0, 0 };
	unsigned int want;
	int bad = ASK(c, LAB_STAT, xdr_void, NULL, xdr_lab_stat, &before);

	want = before.digest;
	set_timeout(c, 0);
	for (unsigned int i = 0; i < n; i++) {
		struct timeval none = { 0, 0 };
		u_int v = i * 2654435761u;

		want = want * 31 + v;
		ncalls++;
		bad |= clnt_call(c, LAB_NOTE, (xdrproc_t)xdr_u_int, (char *)&v, NULL, NULL, none) !=
			RPC_SUCCESS;
	}
	set_timeout(c, 100000);
	bad |= ASK(c, LAB_STAT, xdr_void, NULL, xdr_lab_stat, &after) || after.digest != want;
	printf("batch %u %s\n", n, bad ? "BAD" : "ok");
	clnt_destroy(c);
	return bad;
}

/* After each thousand connections: how many there are, and how many milliseconds that took. */
static void tell(unsigned int n, const struct timespec *start)
{
	struct timespec t;

	if (n % 1000)
		return;
	clock_gettime(CLOCK_MONOTONIC, &t);
	printf("%u after %ld\n", n, (t.tv_sec - start->tv_sec) * 1000 + (t.tv_nsec - start->tv_nsec) / 1000000);
	fflush(stdout);
}

/* n connections at once, each used, then all used again, for messages that need no memory besides what each
 * connection always has. */
static int cmd_conns(unsigned int n)
{
	struct timespec start;
	CLIENT **c = calloc(n, sizeof(*c));
	unsigned int bad = 0;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (unsigned int i = 0; i < n; i++) {
		c[i] = open_client(LABPROG);
		bad += echo(c[i], i % 2000, i) != 0;
		tell(i + 1, &start);
	}
	for (unsigned int i = 0; i < n; i++)
		bad += echo(c[i], (n + i) % 2000, i) != 0;
	for (unsigned int i = 0; i < n; i++)
		clnt_destroy(c[i]);
	free(c);
	printf("conns %u bad %u\n", n, bad);
	return bad != 0;
}

/* Calls there and back of n bytes, until the connection is lost; says how the client sees that. */
static int cmd_stream(unsigned int n)
{
	CLIENT *c = open_client(LABPROG);
	lab_blob arg = { n, pattern(n, 1) }, res = { 0, NULL };
	struct timeval unused = { 100, 0 };
	enum clnt_stat st;

	set_timeout(c, 300000);
	do {
		st = clnt_call(c, LAB_ECHO, (xdrproc_t)xdr_lab_blob, &arg, (xdrproc_t)xdr_lab_blob, &res,
			       unused);
		clnt_freeres(c, (xdrproc_t)xdr_lab_blob, &res);
		if (ncalls++ == 0)
			printf("streaming\n"), fflush(stdout);
	} while (st == RPC_SUCCESS);
	printf("ended%s\n", clnt_sperror(c, ""));
	free(arg.lab_blob_val);
	clnt_destroy(c);
	return 0;
}

/* n connections, one after the other, each used; then it waits for the end of its input, so that one can
 * look at what is left of them. With LAB_NULL=PROGRAM:VERSION they call that program's procedure 0, which
 * each program has. */
static int cmd_cycle(unsigned int n)
{
	const char *null = getenv("LAB_NULL");
	unsigned int bad = 0, prog = LABPROG, vers = LABVERS;
	char end;

	if (null && sscanf(null, "%u:%u", &prog, &vers) != 2) {
		fprintf(stderr, "labcli: LAB_NULL=%s is not PROGRAM:VERSION\n", null);
		return 64;
	}
	for (unsigned int i = 0; i < n; i++) {
		CLIENT *c = open_version(prog, vers);

		bad += (null ? null_call(c) : echo(c, i % 8 ? 100 : 20000, i)) != 0;
		clnt_destroy(c);
	}
	printf("cycle %u bad %u\n", n, bad);
	fflush(stdout);
	while (read(0, &end, 1) > 0)
		continue;
	return bad != 0;
}

/* --- many calls outstanding: below libtirpc, which cannot do that --- */

struct pipeline {
	char *out, *in, *msg;		/* all calls; bytes that arrived; fragments put together */
	size_t out_len, sent, in_len, msg_len;
	unsigned int want, got, bad;
	char *seen;			/* by number of the call */
};

static unsigned int pipeline_size(unsigned int i)
{
	return i * 397 % 30000;
}

static size_t encode_call(char *to, size_t room, unsigned int i)
{
	unsigned int n = pipeline_size(i);
	lab_blob b = { n, pattern(n, i) };
	struct rpc_msg m = { .rm_xid = 1000 + i, .rm_direction = CALL };
	XDR x;
	size_t len;

	m.rm_call.cb_rpcvers = RPC_MSG_VERSION;
	m.rm_call.cb_prog = LABPROG;
	m.rm_call.cb_vers = LABVERS;
	m.rm_call.cb_proc = LAB_ECHO;
	m.rm_call.cb_cred = m.rm_call.cb_verf = _null_auth;
	xdrmem_create(&x, to + 4, (u_int)room - 4, XDR_ENCODE);
	if (!xdr_callmsg(&x, &m) || !xdr_lab_blob(&x, &b))
		exit(2);
	len = xdr_getpos(&x);
	*(uint32_t *)(void *)to = htonl(0x80000000u | (uint32_t)len);
	free(b.lab_blob_val);
	return len + 4;
}

static void judge_reply(struct pipeline *p)
{
	lab_blob b = { 0, NULL };
	struct rpc_msg m = { .acpted_rply.ar_results = { .where = (caddr_t)&b,
							 .proc = (xdrproc_t)xdr_lab_blob } };
	XDR x;
	unsigned int i;

	xdrmem_create(&x, p->msg, (u_int)p->msg_len, XDR_DECODE);
	if (!xdr_replymsg(&x, &m))
		m.rm_xid = 0;
	i = (unsigned int)m.rm_xid - 1000;
	if (i < p->want && !p->seen[i] && b.lab_blob_len == pipeline_size(i)) {
		char *w = pattern(b.lab_blob_len, i);

		p->seen[i] = 1;
		p->bad += memcmp(w, b.lab_blob_val, b.lab_blob_len) != 0;
		free(w);
	} else {
		p->bad++;
	}
	free(b.lab_blob_val);
	p->got++;
}

static void take_replies(struct pipeline *p)
{
	while (p->in_len >= 4) {
		uint32_t mark = ntohl(*(uint32_t *)(void *)p->in), len = mark & 0x7fffffff;

		if (p->msg_len + len > LAB_BUFFER - 4)
			exit(3);
		if (p->in_len < 4 + len)
			return;
		memcpy(p->msg + p->msg_len, p->in + 4, len);
		p->msg_len += len;
		p->in_len -= 4 + len;
		memmove(p->in, p->in + 4 + len, p->in_len);
		if (mark >> 31) {
			judge_reply(p);
			p->msg_len = 0;
		}
	}
}

static void pump(struct pipeline *p, int fd)
{
	struct pollfd f = { .fd = fd, .events = POLLIN };
	ssize_t n;

	if (p->sent < p->out_len)
		f.events |= POLLOUT;
	if (poll(&f, 1, 100000) <= 0)
		exit(4);
	if (f.revents & POLLOUT) {
		n = send(fd, p->out + p->sent, p->out_len - p->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0)
			p->sent += (size_t)n;
		else if (errno != EAGAIN)
			exit(5);
	}
	if (f.revents & POLLIN) {
		n = recv(fd, p->in + p->in_len, LAB_BUFFER - p->in_len, MSG_DONTWAIT);
		if (n > 0)
			p->in_len += (size_t)n;
		else if (n == 0 || errno != EAGAIN)
			exit(6);
		take_replies(p);
	}
}

static int cmd_pipeline(unsigned int n)
{
	struct sockaddr_in a = server_address();
	size_t room = (size_t)n * 31000 + 4096;
	struct pipeline p = { .out = malloc(room), .in = malloc(LAB_BUFFER),
			      .msg = malloc(LAB_BUFFER), .want = n,
			      .seen = calloc(n + 1, 1) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return 2;
	for (unsigned int i = 0; i < n; i++)
		p.out_len += encode_call(p.out + p.out_len, room - p.out_len, i);
	ncalls += n;
	while (p.got < n)
		pump(&p, fd);
	close(fd);
	printf("pipeline %u bad %u\n", n, p.bad);
	free(p.out), free(p.in), free(p.msg), free(p.seen);
	return p.bad != 0;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; int (*run)(unsigned int n); } cmds[] = {
		{ "null", cmd_null }, { "echo", cmd_echo }, { "sizes", cmd_sizes }, { "sum", cmd_sum },
		{ "big", cmd_big }, { "threads", cmd_threads }, { "fork", cmd_fork },
		{ "timeout", cmd_timeout }, { "noservice", cmd_noservice }, { "pid", cmd_pid },
		{ "batch", cmd_batch }, { "conns", cmd_conns }, { "crowd", cmd_crowd }, { "pipeline", cmd_pipeline },
		{ "stream", cmd_stream }, { "cycle", cmd_cycle },
	};

	host = argc > 3 ? argv[1] : "";
	port = argc > 3 ? atoi(argv[2]) : 0;
	for (size_t i = 0; argc > 3 && i < sizeof(cmds) / sizeof(*cmds); i++)
		if (!strcmp(argv[3], cmds[i].name)) {
			int rc = cmds[i].run(argc > 4 ? (unsigned int)strtoul(argv[4], NULL, 0) : 0);

			fprintf(stderr, "calls %u\n", ncalls);
			return rc;
		}
	fprintf(stderr, "usage: labcli HOST PORT COMMAND [N]\n");
	return 64;
}
