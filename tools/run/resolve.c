/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks the rpcbind of each host for netids rdma and rdma6, and makes native rules of the
 * answers. The question is asked by another process of this program (--ask), for two reasons:
 * it can have the library preloaded, to ask over RDMA, and a host that makes it wait can be
 * given up. */

#include "tools/run/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/run/rpcb.h"

#define ANSWER_SIZE	(256u * 1024)
#define PATIENCE_MS	8000
#define RPCBIND_PORT	111

static struct rr_rpcb_list there;

/* --- the one who asks --- */

/* Does the entry say something about TCP or RDMA at an address that can be parsed? */
static bool is_of_use(const struct rr_rpcb *e)
{
	char host[128];
	uint8_t addr[16];

	if (strcmp(e->netid, "tcp") && strcmp(e->netid, "tcp6") && strcmp(e->netid, "rdma") &&
	    strcmp(e->netid, "rdma6"))
		return false;
	return rr_uaddr_port(e->addr, host) &&
	       inet_pton(strchr(host, ':') ? AF_INET6 : AF_INET, host, addr) == 1;
}

/* Prints a line for each entry, or "! REASON". Its reader is ask_resolver(). */
int rr_resolve_ask(const char *address)
{
	static const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST,
					       .ai_socktype = SOCK_STREAM };
	struct addrinfo *ai;
	const char *wrong;

	if (getaddrinfo(address, "111", &hints, &ai)) {
		puts("! not an address");
		return 1;
	}
	there.matters = is_of_use;
	wrong = rr_rpcb_dump_at(ai->ai_addr, &there);
	freeaddrinfo(ai);
	if (wrong) {
		printf("! %s\n", wrong);
		return 1;
	}
	for (uint32_t i = 0; i < there.n; i++)
		printf("%u %u %s %s\n", there.e[i].prog, there.e[i].vers, there.e[i].netid,
		       there.e[i].addr);
	return fflush(stdout) ? 1 : 0;
}

/* --- asking --- */

/* The child: becomes `rdmarpc-run --ask=ADDRESS`, with the answer on descriptor `out`. With a
 * library it gets a rule that sends the call to RDMA port 111 and nowhere else (mode require).
 * The scope of a link-local address (behind '%') is no part of a rule. */
static void run_ask(int out, const char *address, const char *library)
{
	char rules[128], arg[INET6_ADDRSTRLEN + 32],
		*argv[] = { (char[]){ "rdmarpc-run" }, arg, NULL };

	dup2(out, STDOUT_FILENO);
	unsetenv("LD_PRELOAD");
	if (library) {
		snprintf(rules, sizeof(rules),
			 "role=client port=%d address=%.*s native=%d mode=require",
			 RPCBIND_PORT, (int)strcspn(address, "%"), address, RPCBIND_PORT);
		setenv("LD_PRELOAD", library, 1);
		setenv("RDMARPC_RULES", rules, 1);
	}
	snprintf(arg, sizeof(arg), "--ask=%s", address);
	execv("/proc/self/exe", argv);
	_exit(1);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads all that comes within PATIENCE_MS, as text; "" if nothing does. An answer that is
 * longer than size is cut. */
static void read_answer(int fd, char *buf, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t until = now_ms() + PATIENCE_MS, left;
	size_t n = 0;
	ssize_t r;

	while (n < size - 1 && (left = until - now_ms()) > 0 && poll(&p, 1, (int)left) > 0) {
		r = read(fd, buf + n, size - 1 - n);
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	buf[n] = '\0';
}

/* Asks over TCP (library NULL) or over RDMA. Returns NULL, or why there is no answer, which may
 * point into answer. */
static const char *ask_resolver(const char *address, const char *library,
				char answer[ANSWER_SIZE])
{
	int p[2], status = 0;
	pid_t pid;

	if (pipe(p))
		return strerror(errno);
	pid = fork();
	if (!pid)
		run_ask(p[1], address, library);
	close(p[1]);
	answer[0] = '\0';
	if (pid > 0) {
		read_answer(p[0], answer, ANSWER_SIZE);
		kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(p[0]);
	if (answer[0] == '!' && answer[1] == ' ') {
		answer[strcspn(answer, "\n")] = '\0';
		return answer + 2;
	}
	return pid < 0 ? "no process" : WIFEXITED(status) &&
	       !WEXITSTATUS(status) ? NULL : "no answer in time";
}

/* Fields are bounded by their widths; a line that is not an entry is ignored. */
static void parse_answer(const char *answer)
{
	const char *line = answer, *end;

	for (there.n = 0; (end = strchr(line, '\n')) && there.n < RR_RPCB_MAX; line = end + 1) {
		struct rr_rpcb *e = &there.e[there.n];

		if (sscanf(line, "%u %u %31s %127s", &e->prog, &e->vers, e->netid,
			   e->addr) == 4)
			there.n++;
	}
}

/* --- rules --- */

/* Is the service with that universal address at the host's own address, or at all of its
 * addresses? A host must not send its clients to another host. */
static bool is_service_at(const char *uaddr, const char *address)
{
	uint8_t a[16], b[16];
	int family = strchr(address, ':') ? AF_INET6 : AF_INET;
	char host[128];

	if (!rr_uaddr_port(uaddr, host))
		return false;
	if (!strcmp(host, "0.0.0.0") || !strcmp(host, "::"))
		return true;
	return inet_pton(family, host, a) == 1 && inet_pton(family, address, b) == 1 &&
	       !memcmp(a, b, family == AF_INET6 ? 16 : 4);
}

/* Adds a rule for connections to port `from` of the address, unless there is one. There is room
 * for more rules than RR_CONF_RULES, so that the configuration notices and reports too many. */
static void add_rule_for(struct rr_rules *r, const char *address, uint16_t from, uint16_t to,
			 const char *mode)
{
	char head[128], rule[192];
	int n;

	n = snprintf(head, sizeof(head), "role=client address=%s port=%u ", address, from);
	if (n < 0 || strstr(r->text, head))
		return;		/* another version, or program, on the same port */
	n = snprintf(rule, sizeof(rule), "%s%snative=%u%s%s", r->n ? "; " : "", head, to,
		     mode ? " mode=" : "", mode ? mode : "");
	if (n < 0 || (size_t)n >= sizeof(r->text) - r->len)
		return;
	memcpy(r->text + r->len, rule, (size_t)n + 1);
	r->len += (size_t)n;
	r->n++;
}

/* A rule for each pair of entries with the same program and version, one for TCP and one for
 * RDMA, in the address's family. */
static void add_both_rules(struct rr_rules *r, const char *address, const char *mode)
{
	const char *tcp = strchr(address, ':') ? "tcp6" : "tcp",
			  *rdma = tcp[3] ? "rdma6" : "rdma";

	for (uint32_t i = 0; i < there.n; i++)
		for (uint32_t k = 0; k < there.n; k++) {
			const struct rr_rpcb *t = &there.e[i], *n = &there.e[k];

			if (!strcmp(t->netid, tcp) && !strcmp(n->netid, rdma) &&
			    t->prog == n->prog &&
			    t->vers == n->vers && is_service_at(t->addr, address) &&
			    is_service_at(n->addr, address))
				add_rule_for(r, address, rr_uaddr_port(t->addr, NULL),
					 rr_uaddr_port(n->addr, NULL), mode);
		}
}

/* Resolves one address: asks over TCP, and if that fails over RDMA, since a host may serve
 * nothing else. Returns NULL, or why it has given no rules. A scope is cut off the address. */
static const char *resolve_address(char *address, const char *library, const char *mode,
				   struct rr_rules *out)
{
	static char answer[ANSWER_SIZE], why[512];
	const char *wrong = ask_resolver(address, NULL, answer);
	unsigned before = out->n;

	if (wrong) {
		snprintf(why, sizeof(why), "%s: %.100s", address, wrong);
		wrong = ask_resolver(address, library, answer);
		if (wrong) {
			snprintf(why + strlen(why), sizeof(why) - strlen(why),
				 " (over RDMA: %.100s)", wrong);
			return why;
		}
	}
	parse_answer(answer);
	address[strcspn(address, "%")] = '\0';
	add_both_rules(out, address, mode);
	if (out->n > before)
		return NULL;
	snprintf(why, sizeof(why), "%s: nothing is registered for RDMA", address);
	return why;
}

/* All addresses of the host are asked. The first failure is reported, and only if no address
 * has given a rule. */
const char *rr_resolve(const char *host, const char *library, const char *mode,
		       struct rr_rules *out)
{
	static const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	static char first[512];
	const char *wrong;
	char address[INET6_ADDRSTRLEN + 32];
	unsigned before = out->n;
	struct addrinfo *all;
	int rc = getaddrinfo(host, "111", &hints, &all);

	if (rc)
		return gai_strerror(rc);
	first[0] = '\0';
	for (struct addrinfo *ai = all; ai; ai = ai->ai_next) {
		if (getnameinfo(ai->ai_addr, ai->ai_addrlen, address, sizeof(address), NULL, 0,
				NI_NUMERICHOST))
			continue;
		wrong = resolve_address(address, library, mode, out);
		if (wrong && !first[0])
			snprintf(first, sizeof(first), "%s", wrong);
	}
	freeaddrinfo(all);
	return out->n > before ? NULL : first;
}
