/* SPDX-License-Identifier: BSD-3-Clause */
/* A child that behaves as an ordinary program: it connects and makes NULL calls by libc's plain
 * blocking calls, with or without the library preloaded. So times and failures are those that a
 * program would have.
 *
 * Parent and child talk by pipes: the child writes one line to its standard output, then waits
 * for the end of its standard input. The parent meanwhile reads from the child's statistics
 * what became of its connection; then it closes the pipe. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/conf.h"
#include "core/base/types.h"
#include "tools/check/check.h"
#include "tools/places.h"

#define MOST_CALLS 100000u
#define MOST_REPLY 65536u /* bytes of a reply to NULL that are accepted */
#define MOST_TIME (2 * RR_SEC) /* for the calls that are measured */

/* --- the child --- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * RR_SEC + (uint64_t)t.tv_nsec;
}

/* Waits until the parent has looked at the statistics and closes the pipe. */
static void stay(void)
{
	char c;

	while (read(0, &c, 1) < 0 && errno == EINTR)
		;
}

static void end_with(const char *what) __attribute__((noreturn));
/* Says what has failed and why, and ends the child. errno 0 is a connection that was closed;
 * EAGAIN is a timeout of the socket. */
static void end_with(const char *what)
{
	printf("error %s: %s\n", what,
	       errno == EAGAIN || errno == EINPROGRESS ? "no answer in time"
	       : errno                                 ? strerror(errno)
						       : "the connection was closed");
	fflush(stdout);
	stay();
	exit(0);
}

/* Reads n bytes. Returns 0, or -1 with errno, which is 0 if the connection has ended. */
static int recv_bytes(int fd, void *to, size_t n)
{
	for (ssize_t r; n; to = (char *)to + r, n -= (size_t)r) {
		errno = 0;
		r = read(fd, to, n);
		if (r <= 0)
			return -1;
	}
	return 0;
}

/* Reads a record, which may come in fragments (RFC 5531 §11), and its first cap bytes into to.
 * Returns its length, or -1. The length is the server's word and is bounded before memory is
 * allocated for it. */
static long get_record(int fd, void *to, size_t cap)
{
	size_t all = 0, n;
	uint32_t mark;
	char *part;
	int rc;

	do {
		if (recv_bytes(fd, &mark, sizeof(mark)))
			return -1;
		n = ntohl(mark) & 0x7fffffff;
		if (all + n > MOST_REPLY) {
			errno = EMSGSIZE;
			return -1;
		}
		part = malloc(n + 1);
		rc = part ? recv_bytes(fd, part, n) : -1;
		if (!rc && all < cap)
			memcpy((char *)to + all, part, rr_min(n, cap - all));
		free(part);
		all += n;
	} while (!rc && !(ntohl(mark) >> 31));
	return rc ? -1 : (long)all;
}

/* Reads the words of a reply of len bytes. Returns false if it is no reply to this call.
 * *accept is -1 for a denied one. low and high are set for PROG_MISMATCH. The verifier's length
 * is the server's, and is checked before it is skipped. */
static bool read_reply(const uint32_t *w, long len, uint32_t xid, int *accept, uint32_t *low,
		       uint32_t *high)
{
	uint32_t verf, at;

	if (len < 12 || w[0] != xid || w[1] != htonl(1))
		return false;
	*accept = -1;
	if (w[2])
		return true;
	verf = len >= 20 ? ntohl(w[4]) : 0;
	at = 5 + (verf + 3) / 4;
	if (verf > 400 || len < (long)(at + 1) * 4)
		return false;
	*accept = (int)ntohl(w[at]);
	if (*accept == 2 && len >= (long)(at + 3) * 4) {
		*low = ntohl(w[at + 1]);
		*high = ntohl(w[at + 2]);
	}
	return true;
}

/* Makes one call and waits for its reply; n is its XID. Any failure ends the child. */
static void call_null(int fd, uint32_t prog, uint32_t vers, uint32_t n, int *accept,
		      uint32_t *low, uint32_t *high)
{
	uint32_t m[11] = {
		htonl(0x80000000 | 40), htonl(n), 0, htonl(2), htonl(prog), htonl(vers)
	};
	uint32_t reply[128] = { 0 };
	ssize_t sent;
	long len;

	errno = 0;
	sent = write(fd, m, sizeof(m));
	if (sent != (ssize_t)sizeof(m))
		end_with("sending a NULL call");
	len = get_record(fd, reply, sizeof(reply));
	if (len < 0)
		end_with("waiting for the reply to a NULL call");
	if (!read_reply(reply, rr_min(len, (long)sizeof(reply)), htonl(n), accept, low, high)) {
		errno = EPROTO;
		end_with("the reply to a NULL call");
	}
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int connect_peer(const char *host, const char *port, int ms)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV },
			*a;
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	int fd;

	if (getaddrinfo(host, port, &hints, &a))
		end_with("the address");
	errno = 0;
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		end_with("a socket");
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)); /* connect() heeds it, too */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (connect(fd, a->ai_addr, a->ai_addrlen))
		end_with("connecting");
	freeaddrinfo(a);
	return fd;
}

/* Arguments: NAME --calls-of-a-check HOST PORT PROGRAM VERSION WARM CALLS MS. The calls before
 * those that are measured let an upgrade take place; the measured ones end after MOST_TIME,
 * however slow the server is. */
int rr_probe_main(int argc, char **argv)
{
	unsigned warm, calls, n = 0;
	uint32_t v[6] = { 0 }, low = 0, high = 0, xid = 1;
	uint64_t *took, start;
	int fd, accept = 0;

	if (argc != 9)
		return 2;
	for (int i = 0; i < 5; i++)
		v[i] = (uint32_t)strtoul(argv[4 + i], NULL, 10);
	warm = v[2];
	calls = rr_min(v[3], MOST_CALLS);
	prctl(PR_SET_NAME, argv[0]);
	took = calloc(calls + 1, sizeof(*took));
	fd = connect_peer(argv[2], argv[3], (int)v[4]);
	while (warm-- && xid < MOST_CALLS)
		call_null(fd, v[0], v[1], xid++, &accept, &low, &high);
	for (start = now_ns(); took && n < calls && now_ns() - start < (uint64_t)MOST_TIME;
	     n++) {
		uint64_t before = now_ns();

		call_null(fd, v[0], v[1], xid++, &accept, &low, &high);
		took[n] = now_ns() - before;
	}
	qsort(took, n, sizeof(*took), by_size);
	printf("replies %d %" PRIu32 " %" PRIu32 " %u %" PRIu64 " %" PRIu64 "\n", accept, low,
	       high, n, n ? took[n / 2] : 0, n ? took[(uint64_t)n * 99 / 100] : 0);
	fflush(stdout);
	stay();
	close(fd);
	free(took);
	return 0;
}

/* --- the parent --- */

/* The child becomes this program again, by exec, so that the loader preloads the library into
 * it. argv[0] is the name by which the configuration's rules judge it. The library logs to
 * standard error, which is a file of the parent's. */
static void be_child(const struct rr_probe_spec *s, int in, int out, int log)
{
	char host[INET6_ADDRSTRLEN + 20], port[8], arg[5][16], preload[4200];
	const char *old = getenv("LD_PRELOAD");
	unsigned v[5] = { s->prog, s->vers, s->warm, s->calls, (unsigned)s->timeout_ms };
	char *argv[10] = { (char *)(uintptr_t)(s->command ? s->command : "rdmarpc-check"),
			   (char *)(uintptr_t)RR_PROBE_ARG, host, port };

	if (getnameinfo(s->peer, s->len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		_exit(2);
	for (int i = 0; i < 5; i++) {
		snprintf(arg[i], sizeof(arg[i]), "%u", v[i]);
		argv[4 + i] = arg[i];
	}
	dup2(in, 0);
	dup2(out, 1);
	dup2(log, 2);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (s->library) {
		snprintf(preload, sizeof(preload), "%s%s%s", s->library, old && *old ? ":" : "",
			 old ? old : "");
		setenv("LD_PRELOAD", preload, 1);
		setenv("RDMARPC_LOG_FILE", "stderr", 1);
		setenv("RDMARPC_LOG_LEVEL", "debug", 1);
		setenv("RDMARPC_ASK_PEER", "on", 1);
		if (s->ask_all)
			setenv("RDMARPC_OFFER_AFTER", "0", 1);
	} else {
		setenv("RDMARPC_ENABLED", "off", 1); /* in case it is preloaded all the same */
	}
	execv("/proc/self/exe", argv);
	_exit(2);
}

/* Reads a line from fd within ms. Returns false if fd ended or it took too long; line has what
 * came until then. Reads byte by byte, since there is only one line. */
static bool get_line(int fd, char *line, size_t size, int ms)
{
	uint64_t end = now_ns() + (uint64_t)ms * 1000000;
	struct pollfd p = { fd, POLLIN, 0 };
	size_t n = 0;
	ssize_t r;

	line[0] = '\0';
	while (n < size - 1 && now_ns() < end &&
	       poll(&p, 1, (int)((end - now_ns()) / 1000000) + 1) == 1) {
		r = read(fd, line + n, 1);
		if (r <= 0)
			return false;
		if (line[n] == '\n') {
			line[n] = '\0';
			return true;
		}
		line[++n] = '\0';
	}
	return false;
}

/* Takes what the statistics say of the child's one connection. If TCP has kept the connection
 * from the start, it has no entry, and only its reason was counted. */
static void take_state(const struct rr_proc *p, struct rr_probe *out)
{
	const struct rr_proc_conn *c = p->conns;

	out->seen = true;
	out->told = p->told;
	if (p->nconns) {
		out->conn = (struct rr_proc_conn_brief){ c->carrier, c->state, c->reason,
							 c->dialect, c->version };
		return;
	}
	out->conn =
		(struct rr_proc_conn_brief){ .carrier = RR_CARRIER_TCP, .state = RR_CS_TCP };
	for (uint32_t i = 1; i < RR_R_COUNT; i++)
		if (p->reasons[i])
			out->conn.reason = i;
}

/* A segment counts only if its process still lives. So the child waits in stay() until this is
 * done. */
static void look_at_child(int pid, struct rr_probe *out)
{
	static struct rr_conf conf;
	struct rr_places places;
	struct rr_procs all = { 0 };

	rr_conf_load(&conf, environ);
	rr_places_find(&places, conf.run_dir);
	rr_places_read(&places, &all, &pid, 1);
	for (uint32_t i = 0; i < all.n; i++)
		if (all.p[i].pid == pid && all.p[i].alive)
			take_state(&all.p[i], out);
	rr_procs_fini(&all);
	rr_places_fini(&places);
}

static void get_log(FILE *log, struct rr_probe *out)
{
	size_t n;

	rewind(log);
	n = fread(out->log, 1, sizeof(out->log) - 1, log);
	out->log[n] = '\0';
}

/* Takes the child's one line. It has four timeouts and ten seconds more: it connects, makes
 * calls, and may wait for an upgrade. */
static void hear_child(const struct rr_probe_spec *s, int pid, int from, struct rr_probe *out)
{
	char line[256];

	if (!get_line(from, line, sizeof(line), 4 * s->timeout_ms + 10000)) {
		snprintf(out->error, sizeof(out->error),
			 "the program that makes the calls ended without a word");
		kill(pid, SIGKILL);
		return;
	}
	if (!strncmp(line, "error ", 6))
		snprintf(out->error, sizeof(out->error), "%.150s", line + 6);
	else if (sscanf(line, "replies %d %" SCNu32 " %" SCNu32 " %u %" SCNu64 " %" SCNu64,
			&out->accept, &out->low, &out->high, &out->calls, &out->p50,
			&out->p99) != 6)
		snprintf(out->error, sizeof(out->error),
			 "the program that makes the calls said: %.100s", line);
	if (s->library)
		look_at_child(pid, out);
}

static void say_errno(struct rr_probe *out, const char *what)
{
	snprintf(out->error, sizeof(out->error), "%s: %s", what, strerror(errno));
}

/* Starts the child, listens to it and waits for its end. Closes the pipes, the child's input
 * first, since that is what the child waits for. */
static void run_child(const struct rr_probe_spec *s, const int to[2], const int from[2],
		      FILE *log, struct rr_probe *out)
{
	int pid, status;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		be_child(s, to[0], from[1], fileno(log));
	close(to[0]);
	close(from[1]);
	if (pid > 0)
		hear_child(s, pid, from[0], out);
	else
		say_errno(out, "fork");
	close(to[1]);
	close(from[0]);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && !*out->error)
		snprintf(out->error, sizeof(out->error),
			 "the program that makes the calls was killed by signal %d",
			 WTERMSIG(status));
}

/* The log is a temporary file and not a pipe, because the child would be stopped by a pipe that
 * nobody reads. */
void rr_probe_run(const struct rr_probe_spec *s, struct rr_probe *out)
{
	FILE *log = tmpfile();
	int to[2], from[2];

	*out = (struct rr_probe){ 0 };
	if (!log) {
		say_errno(out, "a temporary file");
		return;
	}
	if (pipe2(to, O_CLOEXEC)) {
		say_errno(out, "a pipe");
	} else if (pipe2(from, O_CLOEXEC)) {
		say_errno(out, "a pipe");
		close(to[0]);
		close(to[1]);
	} else {
		run_child(s, to, from, log, out);
	}
	get_log(log, out);
	fclose(log);
}
