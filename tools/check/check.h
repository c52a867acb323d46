/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CHECK_H
#define RR_CHECK_H

/* rdmarpc-check: what would become of a program's calls to a server, judged from this host, and
 * why. */

#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>

#include "core/base/compiler.h"
#include "core/base/stats_abi.h"
#include "tools/segment.h"

/* --- findings: what is reported, step by step --- */

enum rr_finding_kind { RR_V_OK, RR_V_NOTE, RR_V_WARN, RR_V_FAIL };

struct rr_finding {
	enum rr_finding_kind verdict;
	char what[24]; /* the step */
	char text[512]; /* what was found */
	char advice[512]; /* what to change; "" nothing */
};

struct rr_findings {
	struct rr_finding *f;
	unsigned n;
};

/* Appends a finding; unprintable characters in it become '?'. */
void rr_find(struct rr_findings *to, enum rr_finding_kind v, const char *what, const char *fmt,
	     ...) RR_PRINTF(4, 5);
/* Says what to change about the last finding. */
void rr_advise(struct rr_findings *to, const char *fmt, ...) RR_PRINTF(2, 3);
/* Is any finding at least as bad as v? */
bool rr_any(const struct rr_findings *all, enum rr_finding_kind v);

void rr_findings_print(FILE *to, const char *title, const struct rr_findings *all);
void rr_findings_json(FILE *to, const struct rr_findings *all);
void rr_check_json_text(FILE *to, const char *text);

/* --- this host --- */

/* Looks at this host and, unless pid is 0, at process pid. library is the file that was found,
 * or "". */
void rr_check_local(struct rr_findings *to, const char *library, int pid);

/* Writes the value of a line "Name: value" of /proc/PID/FILE (pid 0: this process) to out.
 * False: there is no such line. */
bool rr_check_proc_line(int pid, const char *file, const char *name, char *out, size_t size);
/* Has process pid mapped the library? Writes the file's name to out, with " (deleted)" behind
 * it if the file was replaced. Returns 1 if it has, 0 if not, and -1 if its mappings may not be
 * read. */
int rr_check_mapped(int pid, char *out, size_t size);
/* Writes " (release X)" to out if the statistics of process pid can be seen and say which
 * release of the library it has, else "". */
void rr_check_release(int pid, char *out, size_t size);

/* --- rpcbind --- */

struct rr_binding {
	uint32_t prog, vers;
	uint16_t port;
	char netid[12];
};

/* Reads all that the rpcbind at peer's address (any port) has registered into *out, which the
 * caller frees. Returns how many entries there are, or -1 and the reason in why. */
int rr_check_rpcbind(const struct sockaddr *peer, int timeout_ms, struct rr_binding **out,
		     char *why, size_t size);

/* --- calls --- */

/* What a run of NULL calls has come to. */
struct rr_probe {
	char error[160]; /* "": the calls were answered */
	int accept; /* accept_stat of the replies; -1: denied */
	uint32_t low, high; /* versions, if accept is 2 */
	unsigned calls; /* how many were measured */
	uint64_t p50, p99; /* ns */
	bool seen; /* the process's statistics were found: conn counts */
	struct rr_proc_conn_brief {
		uint32_t carrier, state, reason, dialect, version;
	} conn;
	struct rr_proc_told told; /* of each carrier */
	char log[4096]; /* what the library logged */
};

struct rr_probe_spec {
	const struct sockaddr *peer;
	socklen_t len;
	uint32_t prog, vers;
	unsigned calls, warm; /* how many are measured, and how many come before */
	int timeout_ms; /* for each step */
	const char *library; /* is preloaded; NULL: none */
	const char *command; /* name of the process, for rules; NULL: ours */
	bool ask_all; /* also a server that would not be asked: offer_after = 0 */
};

/* Runs a child that connects and makes the calls. */
void rr_probe_run(const struct rr_probe_spec *spec, struct rr_probe *out);
/* The child. Its argv is what rr_probe_run() made. */
#define RR_PROBE_ARG "--calls-of-a-check"
int rr_probe_main(int argc, char **argv);

/* --- carriers --- */

enum rr_by { RR_BY_SHM, RR_BY_DEVICE, RR_BY_NATIVE, RR_BY_COUNT };

/* What became of one carrier. */
struct rr_check_carrier {
	enum rr_by_state { RR_BY_UNTRIED, RR_BY_FAILED, RR_BY_USED } state;
	char here[384]; /* why it was not used, as this end sees it; "" */
	char there[160]; /* as the server says of its end; "" */
};

/* --- the peer --- */

struct rr_check_peer {
	const char *host;
	uint16_t port; /* 0: rpcbind knows */
	uint32_t prog, vers; /* both 0: the program of that port; vers 0: any version */
	const char *library, *command;
	int timeout_ms;
	unsigned calls;
	/* found: */
	char address[80];
	int server; /* a process of this host that listens there and has the library; or 0 */
	struct rr_probe tcp, carried;
	uint16_t rdma_port; /* at which rpcbind has the program for RDMA; 0: not known */
	char release[16]; /* of the server's library; "": it does not tell */
	struct rr_check_carrier by[RR_BY_COUNT];
	enum { RR_PEER_UNREACHED, RR_PEER_TCP, RR_PEER_CARRIED } end;
};

extern const char *const rr_by_names[RR_BY_COUNT]; /* in JSON */

/* Fills in p->by from what the probe shows, and reports it. peer is the server's address. If
 * no program with the library has called, probe is NULL and why says why. Otherwise why says
 * why the program's own call, without what the probe has asked, stayed on TCP; or NULL. */
void rr_check_carriers(struct rr_findings *to, struct rr_check_peer *p,
		       const struct sockaddr *peer, socklen_t len, const struct rr_probe *probe,
		       const char *why);

/* Writes to out which port of an RDMA device belongs to the address from which this host
 * reaches peer: its state, GID and P_Keys, or that there is none. "": no device at all. */
void rr_check_device_for(const struct sockaddr *peer, socklen_t len, char *out, size_t size);

void rr_check_peer(struct rr_findings *to, struct rr_check_peer *p);

/* What to change, by the reason why a connection is on TCP; "": nothing. */
const char *rr_check_advice(enum rr_reason why);

#endif
