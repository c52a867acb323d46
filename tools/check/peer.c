/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds out what would become of connections to a server, step by step: its address, what
 * rpcbind says of it, NULL calls by TCP alone, then the same calls from a program that has the
 * library. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/rundir.h"
#include "core/base/stats.h"
#include "tools/check/check.h"
#include "tools/run/procfs.h"

#define WARM                                                                                   \
	64u /* calls before those that are measured: option offer_after may want as many       \
	     */

static uint16_t socket_port(const struct sockaddr_storage *a)
{
	return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port
					      : ((const struct sockaddr_in *)a)->sin_port);
}

static void set_port(struct sockaddr_storage *a, uint16_t port)
{
	if (a->ss_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)a)->sin_port = htons(port);
}

/* The address as a report shows it, with brackets around IPv6. */
static void set_address(struct rr_check_peer *p, const struct sockaddr_storage *a,
			socklen_t len)
{
	char host[INET6_ADDRSTRLEN + 20] = "?";

	getnameinfo((const struct sockaddr *)a, len, host, sizeof(host), NULL, 0,
		    NI_NUMERICHOST);
	snprintf(p->address, sizeof(p->address), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
		 socket_port(a));
}

/* --- the address --- */

/* Writes the first address of the host to *a, and reports all. Programs may try the others too,
 * but what is told apart here has to be one connection. Returns false if the name has none. */
static bool find_address(struct rr_findings *to, const char *host, struct sockaddr_storage *a,
			 socklen_t *len)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found, *i;
	char text[400] = "", one[INET6_ADDRSTRLEN + 20];
	int rc = getaddrinfo(host, NULL, &hints, &found);

	if (rc) {
		rr_find(to, RR_V_FAIL, "name", "%s: %s", host, gai_strerror(rc));
		return false;
	}
	memcpy(a, found->ai_addr, found->ai_addrlen);
	*len = found->ai_addrlen;
	for (i = found; i; i = i->ai_next)
		if (!getnameinfo(i->ai_addr, i->ai_addrlen, one, sizeof(one), NULL, 0,
				 NI_NUMERICHOST) &&
		    strlen(text) + strlen(one) < sizeof(text) - 3)
			sprintf(text + strlen(text), "%s%s", *text ? ", " : "", one);
	rr_find(to, RR_V_OK, "name", "%s is %s%s", host, text,
		found->ai_next ? "; the first is taken" : "");
	freeaddrinfo(found);
	return true;
}

/* Is it an address of this host? A socket can be bound to it then. A datagram socket is used,
 * so that no listener's port is in the way. */
static bool is_of_this_host(const struct sockaddr_storage *peer, socklen_t len)
{
	struct sockaddr_storage a = *peer;
	int fd = socket(a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ours;

	set_port(&a, 0);
	ours = fd >= 0 && !bind(fd, (struct sockaddr *)&a, len);
	if (fd >= 0)
		close(fd);
	return ours;
}

/* --- rpcbind --- */

static bool netid_is_tcp(const char *netid)
{
	return !strcmp(netid, "tcp") || !strcmp(netid, "tcp6");
}

/* Is it a registration for TCP, and does it not contradict what is known? */
static bool fits(const struct rr_check_peer *p, const struct rr_binding *b)
{
	return netid_is_tcp(b->netid) && b->port && (!p->prog || b->prog == p->prog) &&
	       (!p->port || b->port == p->port);
}

/* Fills in what the user has left out, from rpcbind's registrations for TCP: the port of the
 * program, or the program of the port, and the highest version below 1000. A program may have
 * another port for each version: that of the version asked for comes before the first. */
static void fill_in(struct rr_check_peer *p, const struct rr_binding *b, int n)
{
	const struct rr_binding *found = NULL;
	uint32_t asked = p->vers;

	for (int i = 0; i < n; i++)
		if (fits(p, &b[i]) &&
		    (!found || (asked && b[i].vers == asked && found->vers != asked)))
			found = &b[i];
	if (!found)
		return;
	p->prog = found->prog;
	p->port = found->port;
	for (int i = 0; i < n && !asked; i++)
		if (fits(p, &b[i]) && b[i].vers > p->vers && b[i].vers < 1000)
			p->vers = b[i].vers;
}

/* Is the program registered at the port: for TCP, or with rdma at any port for RDMA? */
static bool knows(const struct rr_check_peer *p, const struct rr_binding *b, int n, bool rdma)
{
	for (int i = 0; i < n; i++)
		if (b[i].prog == p->prog &&
		    (rdma ? !strncmp(b[i].netid, "rdma", 4)
			  : netid_is_tcp(b[i].netid) && b[i].port == p->port))
			return true;
	return false;
}

static void set_rdma_port(struct rr_check_peer *p, const struct rr_binding *b, int n)
{
	for (int i = 0; i < n && !p->rdma_port; i++)
		if (b[i].prog == p->prog && !strncmp(b[i].netid, "rdma", 4))
			p->rdma_port = b[i].port;
}

/* rpcbind does not know the port: assumes the program that has it by tradition. */
static void guess(struct rr_check_peer *p)
{
	if (p->prog)
		return;
	if (p->port == 2049)
		p->prog = 100003;
	else if (p->port == 111)
		p->prog = 100000;
}

/* Without an answer the user's words count alone, since rpcbind may be closed off by a firewall
 * while the service is not. */
static void ask_rpcbind(struct rr_findings *to, struct rr_check_peer *p,
			const struct sockaddr_storage *a)
{
	struct rr_binding *b;
	uint16_t asked = p->port;
	bool given = p->prog != 0;
	char why[128];
	int n = rr_check_rpcbind((const struct sockaddr *)a, p->timeout_ms, &b, why,
				 sizeof(why));

	if (n < 0) {
		rr_find(to, RR_V_NOTE, "rpcbind", "port 111: %s", why);
		guess(p);
		return;
	}
	fill_in(p, b, n);
	guess(p);
	set_rdma_port(p, b, n);
	if (!p->prog)
		rr_find(to, RR_V_NOTE, "rpcbind", "%d registrations, none for TCP port %u", n,
			p->port);
	else if (!p->port)
		rr_find(to, RR_V_FAIL, "rpcbind", "program %u is not registered for TCP",
			p->prog);
	else if (knows(p, b, n, false))
		rr_find(to, RR_V_OK, "rpcbind", "program %u %s registered at TCP port %u%s",
			p->prog, given || asked ? "is" : "is first,", p->port,
			knows(p, b, n, true)
				? ", and for RDMA (rdmarpc-run --resolve uses that)"
				: "");
	else
		rr_find(to, RR_V_NOTE, "rpcbind", "program %u is not registered at TCP port %u",
			p->prog, p->port);
	free(b);
}

/* --- which process listens, on this host --- */

/* Writes to inode the inodes of at most cap sockets that listen on the port, of any address;
 * returns how many. */
static unsigned listeners(uint16_t port, uint64_t *inode, unsigned cap)
{
	static const char *const files[] = { "/proc/net/tcp", "/proc/net/tcp6" };
	struct rr_procfs_tcp t;
	char line[512];
	unsigned n = 0;

	for (size_t i = 0; i < rr_array_size(files); i++) {
		FILE *f = fopen(files[i], "re");

		while (f && n < cap && fgets(line, sizeof(line), f))
			if (rr_procfs_tcp(line, &t) && t.listening && t.port == port)
				inode[n++] = t.inode;
		if (f)
			fclose(f);
	}
	return n;
}

/* Has the process one of these sockets? Of another user's process nothing can be seen, and the
 * answer is no. */
static bool has_socket(int pid, const uint64_t *inode, unsigned n)
{
	char path[64], target[64], want[64];
	struct dirent *e;
	bool found = false;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		ssize_t len = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);

		target[len > 0 ? len : 0] = '\0';
		for (unsigned i = 0; i < n && !found; i++) {
			snprintf(want, sizeof(want), "socket:[%" PRIu64 "]", inode[i]);
			found = !strcmp(target, want);
		}
	}
	if (d)
		closedir(d);
	return found;
}

enum listener { UNKNOWN, WITHOUT, WITH };

/* Has one of the processes that listen on the port loaded the library? pid 1 is skipped, since
 * it only holds sockets for others. */
static enum listener look_at_listener(uint16_t port, int *pid, char file[PATH_MAX])
{
	enum listener what = UNKNOWN;
	uint64_t inode[16];
	unsigned n = listeners(port, inode, rr_array_size(inode));
	DIR *d = n ? opendir("/proc") : NULL;
	struct dirent *e;

	while (d && what != WITH && (e = readdir(d))) {
		int i = atoi(e->d_name), has;

		if (i <= 1 || !has_socket(i, inode, n))
			continue;
		has = rr_check_mapped(i, file, PATH_MAX);
		if (has < 0)
			continue;
		*pid = i;
		what = has ? WITH : WITHOUT;
	}
	if (d)
		closedir(d);
	return what;
}

/* Reports which process of this host listens, and whether it has the library. Returns false if
 * it surely has none: then no offer is made to it. If nobody can be seen (another user's
 * process), nothing is reported. */
static bool check_listener(struct rr_findings *to, struct rr_check_peer *p)
{
	char file[PATH_MAX], comm[32], release[40];
	int pid = 0;

	switch (look_at_listener(p->port, &pid, file)) {
	case WITHOUT:
		rr_proc_comm(pid, comm, sizeof(comm));
		rr_find(to, RR_V_FAIL, "server",
			"process %d, %s, of this host: has not loaded the library", pid, comm);
		rr_advise(to, "%s", rr_check_advice(RR_R_NO_SHIM));
		return false;
	case WITH:
		rr_proc_comm(pid, comm, sizeof(comm));
		p->server = pid;
		rr_check_release(pid, release, sizeof(release));
		rr_find(to, RR_V_OK, "server", "process %d, %s, of this host: has loaded %s%s",
			pid, comm, file, release);
		if (strstr(file, " (deleted)"))
			rr_advise(to, "the file was replaced since: the process has the old "
				      "one until it is restarted");
		break;
	default: break;
	}
	return true;
}

/* --- calls --- */

/* The accept_stat of RFC 5531 §9 in words; negative: the call was denied. Zero, success, needs
 * none. */
static const char *answer_text(int how)
{
	static const char *const text[] = { "",
					    ", answered by: no such program",
					    ", answered by: no such version",
					    ", answered by: no such procedure",
					    ", answered by: bad arguments",
					    ", answered by: system error" };

	return how < 0 ? ", answered by: denied" : how < 6 ? text[how] : ", answered strangely";
}

/* Makes NULL calls by TCP. If the server does not have the version, its answer names those that
 * it has (PROG_MISMATCH), and the highest is tried. Returns false if no call was answered. */
static bool call_by_tcp(struct rr_findings *to, struct rr_check_peer *p,
			struct rr_probe_spec *s)
{
	rr_probe_run(s, &p->tcp);
	if (!*p->tcp.error && p->tcp.accept == 2 && p->tcp.high != s->vers) {
		p->vers = s->vers = p->tcp.high;
		rr_probe_run(s, &p->tcp);
	}
	if (*p->tcp.error) {
		rr_find(to, RR_V_FAIL, "TCP", "%s", p->tcp.error);
		rr_advise(to, "without TCP there is no RDMA: is the server running, is a "
			      "firewall between?");
		return false;
	}
	rr_find(to, p->tcp.accept ? RR_V_WARN : RR_V_OK, "TCP",
		"NULL of program %u, version %u%s: p50 %.1f us, p99 %.1f us (%u calls)",
		s->prog, s->vers, answer_text(p->tcp.accept), (double)p->tcp.p50 / 1e3,
		(double)p->tcp.p99 / 1e3, p->tcp.calls);
	if (p->tcp.accept == 1)
		rr_advise(to, "another program is at this port: see rpcinfo -p");
	return true;
}

/* Takes the release that the server has told. A peer's text is made printable. */
static void take_release(struct rr_check_peer *p, const struct rr_probe *probe)
{
	snprintf(p->release, sizeof(p->release), "%s", probe->told.release);
	for (char *c = p->release; *c; c++)
		if (*c <= ' ' || *c >= 0x7f)
			*c = '?';
}

/* Which release of the library the server has, as far as it tells. */
static const char *release_text(const struct rr_check_peer *p, char buf[64])
{
	if (*p->release)
		snprintf(buf, 64, ", release %s", p->release);
	else
		snprintf(buf, 64, " (it does not tell its release)");
	return buf;
}

/* Reports a connection that was carried, and its times beside those of TCP. */
static void tell_carried(struct rr_findings *to, struct rr_check_peer *p)
{
	const struct rr_probe *c = &p->carried;
	char release[64];

	p->end = RR_PEER_CARRIED;
	if (c->conn.state == RR_CS_NATIVE)
		rr_find(to, RR_V_OK, "library",
			"the server needs none: a rule reaches it as a native peer");
	else
		rr_find(to, RR_V_OK, "library",
			"the server has it%s; offer and answer came through",
			release_text(p, release));
	rr_find(to, RR_V_OK, "carrier", "%s, dialect %s", rr_carrier_name(c->conn.carrier),
		rr_dialect_name(c->conn.dialect));
	rr_find(to, RR_V_OK, "calls",
		"NULL: p50 %.1f us, p99 %.1f us (%u calls), where TCP takes %.1f and %.1f us",
		(double)c->p50 / 1e3, (double)c->p99 / 1e3, c->calls, (double)p->tcp.p50 / 1e3,
		(double)p->tcp.p99 / 1e3);
}

/* Has a server of this host the library, and has not been asked all the same? */
static bool takes_no_offers(const struct rr_check_peer *p)
{
	return p->server && p->carried.conn.reason == RR_R_NO_SHIM;
}

/* Has the server said of itself that it has the library? */
static bool has_answered(enum rr_reason why)
{
	return why == RR_R_DECLINED || why == RR_R_ADDRESSES || why == RR_R_ONE_HOST ||
	       why == RR_R_NO_DEVICE || why == RR_R_NO_ROUTE || why == RR_R_DIALECT ||
	       why == RR_R_RELEASES;
}

/* Reports the server's release where it has declined. */
static void tell_release(struct rr_findings *to, const struct rr_check_peer *p,
			 const struct rr_probe *c)
{
	char release[64];

	if (*p->release || (has_answered((enum rr_reason)c->conn.reason) &&
			    c->told.offered[RR_TOLD_SHM]))
		rr_find(to, RR_V_NOTE, "release", "the server has the library%s",
			release_text(p, release));
}

/* Reports why the connection stayed on TCP, and what can be done about it. */
static void tell_tcp(struct rr_findings *to, struct rr_check_peer *p)
{
	const struct rr_probe *c = &p->carried;
	const char *advice = rr_check_advice((enum rr_reason)c->conn.reason);

	rr_find(to, RR_V_FAIL, "library", "calls stay on TCP: %s",
		*rr_reason_text(c->conn.reason) ? rr_reason_text(c->conn.reason)
						: rr_state_name(c->conn.state));
	if (takes_no_offers(p))
		rr_advise(to,
			  "the server has it and takes no offers: see its enabled, mode, rules "
			  "and offer_after (0 is for clients) by rdmarpc-run --print-config "
			  "--pid=%d",
			  p->server);
	else if (*advice)
		rr_advise(to, "%s", advice);
	tell_release(to, p, c);
	if (!*c->error)
		rr_find(to, RR_V_NOTE, "calls",
			"NULL by TCP with the library: p50 %.1f us, p99 %.1f us (%u calls)",
			(double)c->p50 / 1e3, (double)c->p99 / 1e3, c->calls);
}

/* Asks a server that the library would not ask, and reports what came of it. Returns whether
 * anything did. */
static bool ask_anyway(struct rr_findings *to, struct rr_check_peer *p,
		       struct rr_probe_spec *s, struct rr_probe *asked)
{
	const char *advice;

	s->calls = s->warm = 1;
	s->ask_all = true;
	rr_probe_run(s, asked);
	if (!asked->seen)
		return false;
	take_release(p, asked);
	if (asked->conn.carrier > RR_CARRIER_TCP) {
		rr_find(to, RR_V_NOTE, "asked", "with offer_after = 0 it is carried: %s",
			rr_carrier_name(asked->conn.carrier));
	} else {
		rr_find(to, RR_V_NOTE, "asked", "with offer_after = 0: %s",
			rr_reason_text(asked->conn.reason));
		advice = rr_check_advice((enum rr_reason)asked->conn.reason);
		if (*advice)
			rr_advise(to, "%s", advice);
	}
	tell_release(to, p, asked);
	return true;
}

static bool was_asked(const struct rr_check_peer *p)
{
	return p->carried.conn.reason != RR_R_NOT_ASKED && !takes_no_offers(p);
}

/* The program that calls has the library preloaded. What became of its connection is read from
 * its statistics: the calls themselves look the same either way. */
static void call_with_library(struct rr_findings *to, struct rr_check_peer *p,
			      struct rr_probe_spec *s)
{
	const struct rr_probe *shown = &p->carried;
	static struct rr_probe asked;

	if (!*p->library) {
		rr_find(to, RR_V_FAIL, "library", "there is none on this host to try with");
		rr_check_carriers(to, p, s->peer, s->len, NULL, "no library on this host");
		return;
	}
	s->library = p->library;
	rr_probe_run(s, &p->carried);
	if (*p->carried.error)
		rr_find(to, RR_V_FAIL, "calls", "with the library: %s", p->carried.error);
	if (!p->carried.seen) {
		rr_find(to, RR_V_WARN, "library",
			"what became of the connection cannot be seen: no statistics of the "
			"process that made it");
		return;
	}
	take_release(p, &p->carried);
	if (p->carried.conn.carrier > RR_CARRIER_TCP) {
		tell_carried(to, p);
	} else {
		tell_tcp(to, p);
		if (!was_asked(p) && ask_anyway(to, p, s, &asked))
			shown = &asked;
	}
	rr_check_carriers(to, p, s->peer, s->len, shown,
			  shown == &asked ? rr_reason_text(p->carried.conn.reason) : NULL);
}

/* Each step needs the one before; the first that fails ends the walk. `end` says how far it
 * came. */
void rr_check_peer(struct rr_findings *to, struct rr_check_peer *p)
{
	struct sockaddr_storage a = { 0 };
	struct rr_probe_spec s = { .peer = (struct sockaddr *)&a,
				   .calls = p->calls,
				   .warm = WARM,
				   .timeout_ms = p->timeout_ms,
				   .command = p->command };

	p->end = RR_PEER_UNREACHED;
	snprintf(p->address, sizeof(p->address), "%.70s", p->host);
	if (!find_address(to, p->host, &a, &s.len))
		return;
	if (!p->prog || !p->port || !p->vers)
		ask_rpcbind(to, p, &a);
	if (!p->port)
		return;
	set_port(&a, p->port);
	set_address(p, &a, s.len);
	if (!p->prog) {
		rr_find(to, RR_V_FAIL, "program",
			"which program is at port %u is not known, so that nothing can be "
			"called there",
			p->port);
		rr_advise(to, "name it: rdmarpc-check HOST:PORT PROGRAM, a name of /etc/rpc or "
			      "a number");
		return;
	}
	s.prog = p->prog;
	s.vers = p->vers ? p->vers : 1;
	if (!call_by_tcp(to, p, &s))
		return;
	p->end = RR_PEER_TCP;
	if (!is_of_this_host(&a, s.len) || check_listener(to, p))
		call_with_library(to, p, &s);
	else
		rr_check_carriers(to, p, s.peer, s.len, NULL, "the server has no library");
}
