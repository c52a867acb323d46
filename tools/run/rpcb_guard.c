/* SPDX-License-Identifier: BSD-3-Clause */
/* The two processes that register a program's native listeners with rpcbind while it runs, and
 * take the registrations back when it has ended. docs/decisions/0010-rpcbind.md says why there
 * are two, and why they are not the program's parents.
 *
 * The worker's loop: who is of the family, where does it listen, what has it registered for
 * TCP, and which RDMA ports are open? From these follows what is wanted (consider()), and
 * reconcile() brings rpcbind to it. All that is known lies in shared memory, so that a new
 * worker goes on where a killed one was. */

#include "tools/run/rpcb_guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/conf.h"
#include "core/base/log.h"
#include "tools/run/doors.h"
#include "tools/run/rpcb.h"

#define PUT_MAX		256u
#define WATCH_MAX	64u
#define SOON_MS		20
#define LATE_MS		2000	/* how late a change may be noticed, after a while without
				 * any */
#define RESTARTS	20

struct watch {
	struct rr_member who;
	int pidfd;
};

/* Lies in memory that keeper and worker share. A worker may be killed at any instruction, so an
 * entry is in `put` before it is registered (put_registration()). */
struct guard {
	struct rr_family family;
	struct rr_guard_set set;
	struct rr_conf conf;
	uint32_t nput, nwant;
	struct rr_rpcb put[PUT_MAX];	/* what we have registered with rpcbind, or may have */
	struct rr_rpcb want[PUT_MAX];
	struct rr_rpcb_list there;
	uint64_t seen;			/* listeners at the last scan … */
	uint64_t seen_there;		/* … and what was registered for them */
	bool wrong, left_out;		/* rpcbind did not answer, or had too much: logged
					 * once */
	struct rr_doors doors;
	uint64_t doors_seen;
	int pause_ms;
	uint32_t nwatch;
	struct watch watch[WATCH_MAX];
	uint32_t nblamed;
	struct rr_rpcb blamed[PUT_MAX];	/* entries of others that have been logged as standing
					 * in the way */
	int log_fd;
};

static struct guard *g;

/* --- what is to be registered --- */

/* The three together are what rpcbind keeps one entry for (RFC 1833 §2.2.1). */
static bool same_name(const struct rr_rpcb *a, const struct rr_rpcb *b)
{
	return a->prog == b->prog && a->vers == b->vers && !strcmp(a->netid, b->netid);
}

static bool same_entry(const struct rr_rpcb *a, const struct rr_rpcb *b)
{
	return same_name(a, b) && !strcmp(a->addr, b->addr);
}

/* The entry of that name among n, whatever its address; NULL if there is none. */
static const struct rr_rpcb *find_entry_of(const struct rr_rpcb *in, uint32_t n,
					   const struct rr_rpcb *e)
{
	for (uint32_t i = 0; i < n; i++)
		if (same_name(&in[i], e))
			return &in[i];
	return NULL;
}

/* Was the program named to --register, or were all meant? */
static bool is_asked(uint32_t program)
{
	for (unsigned i = 0; i < g->set.n; i++)
		if (g->set.program[i] == program)
			return true;
	return !g->set.n;
}

/* The RDMA port of a listener at host and port, as the program's own library reads the rules; 0
 * if it has none. */
static uint16_t native_port(const char *host, bool tcp6, uint16_t port)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(tcp6 ? AF_INET6 : AF_INET, host,
		      tcp6 ? (void *)&in6.sin6_addr : &in.sin_addr) != 1)
		return 0;
	return rr_conf_native(&g->conf, true, tcp6 ? (void *)&in6 : (void *)&in, NULL);
}

/* Logs what stands in the way of entry e, once for each name until forgive(). Beyond PUT_MAX
 * names it is logged each time. */
static void blame(const struct rr_rpcb *e, const char *what)
{
	if (find_entry_of(g->blamed, g->nblamed, e))
		return;
	rr_warn("rpcbind: %u version %u %s %s: %s", e->prog, e->vers, e->netid, e->addr, what);
	if (g->nblamed < PUT_MAX)
		g->blamed[g->nblamed++] = *e;
}

/* The entry could be registered: a later failure is news again. */
static void forgive(const struct rr_rpcb *e)
{
	for (uint32_t i = g->nblamed; i-- > 0;)
		if (same_name(&g->blamed[i], e))
			g->blamed[i] = g->blamed[--g->nblamed];
}

/* Does the user who registered tcp speak for listener l on its port? Sockets of the guard's own
 * user may have been registered by anybody. For another user's socket only that user speaks:
 * what root has registered may be left over from a program that is gone. */
static bool is_their_word(const struct rr_rpcb *tcp, const struct rr_listening *l)
{
	int64_t owner = rr_rpcb_user(tcp);

	return l->maker == getuid() || owner < 0 || owner == l->maker || owner == l->owner.user;
}

/* If there is no room for all, entries of root and of the listener's users go before those of
 * others. */
static bool is_first(const struct rr_rpcb *tcp, const struct rr_listening *l)
{
	int64_t owner = rr_rpcb_user(tcp);

	return owner <= 0 || owner == l->maker || owner == l->owner.user;
}

/* The member that listens where tcp says, if tcp is an entry for "tcp" or "tcp6". */
static const struct rr_listening *listener_of(const struct rr_rpcb *tcp, char host[128])
{
	uint16_t port = 0;

	if (!strcmp(tcp->netid, "tcp") || !strcmp(tcp->netid, "tcp6"))
		port = rr_uaddr_port(tcp->addr, host);
	return port ? rr_family_listener(&g->family, tcp->netid, port) : NULL;
}

/* Does e matter: an entry for the family, or under a name that is to be registered? */
static bool matters(const struct rr_rpcb *e)
{
	char host[128];

	return is_asked(e->prog) &&
	       (!strcmp(e->netid, "rdma") || !strcmp(e->netid, "rdma6") ||
		listener_of(e, host));
}

/* Adds to what is wanted the entry that belongs beside tcp: the same program, version and
 * owner, with the RDMA port in place of the TCP port. `first` says which of two passes this is
 * (is_first()). A listener whose door is shut gets none; it is blamed only after things have
 * come to rest, because a door opens some time after its listener. */
static void consider(const struct rr_rpcb *tcp, bool first)
{
	bool tcp6 = !strcmp(tcp->netid, "tcp6");
	const struct rr_listening *l;
	struct rr_rpcb e = *tcp;
	const char *shut;
	char host[128];
	uint16_t port;

	l = listener_of(tcp, host);
	if (!l || !is_their_word(tcp, l) || is_first(tcp, l) != first || g->nwant == PUT_MAX)
		return;
	port = native_port(host, tcp6, l->port);
	if (!port || !rr_uaddr_with_port(tcp->addr, port, e.addr))
		return;
	snprintf(e.netid, sizeof(e.netid), "%s", tcp6 ? "rdma6" : "rdma");
	shut = rr_doors_shut(&g->doors, l);
	if (!shut)
		g->want[g->nwant++] = e;
	else if (g->pause_ms == LATE_MS)	/* it has had its time to begin */
		blame(&e, shut);
}

/* --- registering and taking back --- */

/* Takes entry i of put off the table and, if it is still ours, out of rpcbind. */
static void take_registration_back(uint32_t i)
{
	struct rr_rpcb *e = &g->put[i];
	const struct rr_rpcb *now = find_entry_of(g->there.e, g->there.n, e);

	/* Others may have registered theirs since the program took back all of its own. */
	if (now && same_entry(now, e)) {
		if (rr_rpcb_unset(e))
			rr_info("rpcbind: took back %u version %u %s %s", e->prog, e->vers,
				e->netid, e->addr);
		else
			rr_warn("rpcbind: cannot take back %u version %u %s", e->prog, e->vers,
				e->netid);
	}
	*e = g->put[--g->nput];
}

/* Registers e. It is noted before it is done, since this process may be killed in between; the
 * fence keeps the compiler from changing that order. An entry of others under the same name
 * stays. Returns true if rpcbind has it now. */
static bool put_registration(const struct rr_rpcb *e)
{
	const struct rr_rpcb *noted = find_entry_of(g->put, g->nput, e);

	if (!noted && find_entry_of(g->there.e, g->there.n, e)) {
		blame(e, "is registered already, and not by us");
		return false;
	}
	if (!noted) {
		if (g->nput == PUT_MAX)
			return false;
		g->put[g->nput] = *e;
		atomic_signal_fence(memory_order_seq_cst);
		g->nput++;
	}
	if (rr_rpcb_set(e)) {
		rr_info("rpcbind: registered %u version %u %s %s", e->prog, e->vers, e->netid,
			e->addr);
		forgive(e);
		return true;
	}
	blame(e, "cannot be registered");
	if (!noted)
		g->nput--;
	return false;
}

/* Brings rpcbind's entries to what is wanted. What is not wanted any more goes first, so that
 * an entry with another address can take its place. Returns true if something was changed. */
static bool reconcile(void)
{
	bool done = false;

	g->nwant = 0;
	for (uint32_t i = 0; i < 2 * g->there.n; i++)
		consider(&g->there.e[i % g->there.n], i < g->there.n);
	for (uint32_t i = g->nput; i-- > 0;) {
		const struct rr_rpcb *want = find_entry_of(g->want, g->nwant, &g->put[i]);

		if (want && same_entry(want, &g->put[i]))
			continue;
		take_registration_back(i);
		done = true;
	}
	for (uint32_t i = 0; i < g->nwant; i++)
		if (!find_entry_of(g->put, g->nput, &g->want[i]) ||
		    !find_entry_of(g->there.e, g->there.n, &g->want[i]))
			done |= put_registration(&g->want[i]);
	return done;
}

/* --- waiting --- */

static void forget_watched(void)
{
	while (g->nwatch)
		close(g->watch[--g->nwatch].pidfd);
}

/* Opens a descriptor of the process that becomes readable at its end. Without room for it, or a
 * kernel without pidfd_open(), the end is noticed by the next look. */
static void watch_member(struct rr_member who)
{
	for (uint32_t i = 0; i < g->nwatch; i++)
		if (g->watch[i].who.pid == who.pid)
			return;
	if (g->nwatch == WATCH_MAX)
		return;
	g->watch[g->nwatch] = (struct watch){ who, (int)syscall(SYS_pidfd_open, who.pid, 0) };
	if (g->watch[g->nwatch].pidfd >= 0)
		g->nwatch++;
}

/* Watches the processes that listen; all members as long as none listens. */
static void watch_owners(void)
{
	forget_watched();
	for (uint32_t i = 0; i < g->family.nlisteners; i++)
		if (g->family.listeners[i].owner.pid)
			watch_member(g->family.listeners[i].owner);
	for (uint32_t i = 0; !g->nwatch && i < g->family.nmembers; i++)
		watch_member(g->family.members[i]);
}

enum event { NOTHING, SOMEBODY_DIED, STOP };

/* Waits for a signal to this worker, the end of a process that is watched, or the end of the
 * pause. */
static enum event wait_for_event(int signals)
{
	struct pollfd p[WATCH_MAX + 1] = { { .fd = signals, .events = POLLIN } };

	for (uint32_t i = 0; i < g->nwatch; i++)
		p[i + 1] = (struct pollfd){ .fd = g->watch[i].pidfd, .events = POLLIN };
	if (poll(p, g->nwatch + 1, g->pause_ms) <= 0)
		return NOTHING;
	return p[0].revents ? STOP : SOMEBODY_DIED;
}

/* --- the worker --- */

/* A number that changes when the entries do. Entries are compared as bytes, so rpcb.c fills
 * them with zeroes. */
static uint64_t digest(void)
{
	uint64_t h = 0;

	for (uint32_t i = 0; i < g->there.n; i++)
		for (const char *p = (const char *)&g->there.e[i];
		     p < (const char *)&g->there.e[i + 1]; p++)
			h = (h ^ (unsigned char)*p) * 0x100000001b3u;
	return h;
}

/* Logs that rpcbind does not answer, or has too much, once until that changes. */
static void complain(const char *wrong)
{
	bool left_out = !wrong && g->there.left_out;

	if (wrong && !g->wrong)
		rr_warn("rpcbind: %s: nothing is registered or taken back until it answers",
			wrong);
	if (left_out && !g->left_out)
		rr_warn("rpcbind: too many entries: %u of those that matter here are ignored",
			g->there.left_out);
	g->wrong = wrong;
	g->left_out = left_out;
}

/* Reads what rpcbind has for the family, as the last scan has found the family. Without an
 * answer nothing is known, so nothing may be changed. Returns NULL, or why nothing is known. */
static const char *look_there(bool *changed)
{
	const char *wrong = rr_rpcb_dump(&g->there);
	uint64_t now;

	if (wrong)
		g->there.n = 0;
	complain(wrong);
	now = digest();
	*changed |= now != g->seen_there;
	g->seen_there = now;
	return wrong;
}

/* One round of the worker. Looks become rare while nothing changes (pause_ms grows by half each
 * time, up to LATE_MS) and frequent after a change. A process in the middle of exec shows no
 * environment, so all processes are looked at more than once before only changes count. */
static void look_at_family(bool died)
{
	const char *wrong;
	uint64_t now, doors;
	bool changed;

	now = rr_family_listeners(&g->family);
	changed = died || now != g->seen;
	if (changed || g->pause_ms < LATE_MS || !g->nwatch) {
		rr_family_scan(&g->family);
		watch_owners();
	}
	g->seen = now;
	wrong = look_there(&changed);
	doors = rr_doors_read(&g->doors, &g->family, &g->conf);
	changed |= doors != g->doors_seen;
	g->doors_seen = doors;
	if (changed)
		g->pause_ms = SOON_MS;
	if (!wrong && reconcile())
		changed = true;
	g->pause_ms = changed ? SOON_MS : rr_min(g->pause_ms * 3 / 2 + 1, LATE_MS);
}

/* The program has ended. An rpcbind that does not answer is asked again for some seconds; if
 * its socket is gone, so are its entries. */
static void take_all_back(void)
{
	static const struct timespec pause = { 0, 300000000 };

	for (int i = 0; g->nput && i < 10 && !rr_rpcb_missing(); i++) {
		if (i)
			nanosleep(&pause, NULL);
		if (!rr_rpcb_dump(&g->there))
			while (g->nput)
				take_registration_back(g->nput - 1);
	}
}

/* The worker: goes on until no member lives or it is told to stop. Either way what it has
 * registered is taken back. */
static void work(void)
{
	enum event e = NOTHING;
	sigset_t ends;
	int signals;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signals = signalfd(-1, &ends, SFD_CLOEXEC);
	g->nwatch = 0;
	g->there.matters = matters;
	g->pause_ms = SOON_MS;
	do {
		look_at_family(e == SOMEBODY_DIED);
		if (!g->family.nmembers)
			break;
		e = wait_for_event(signals);
	} while (e != STOP);
	take_all_back();
}

/* --- the keeper --- */

/* The sink of the log: one write(), as in the library. */
static bool to_log(enum rr_log_level level, const char *line, unsigned len, unsigned at)
{
	(void)level, (void)at;
	return write(g->log_fd, line, len) >= 0;
}

/* Detaches from the program's terminal, descriptors, directory and signals. Only the log's
 * descriptor stays, at a number that close_range() spares. A limit on the size of files would
 * raise SIGXFSZ when the log grows, so that is ignored. */
static void detach(void)
{
	int null = open("/dev/null", O_RDWR), log = g->log_fd;
	sigset_t none;

	setsid();
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int fd = 0; fd < 3; fd++)
		if (fd != log)
			dup2(null, fd);
	if (log > 3) {
		dup2(log, 3);
		g->log_fd = 3;
	}
	syscall(SYS_close_range, log > 2 ? 4 : 3, ~0u, 0);
	if (chdir("/") < 0)
		return;
	prctl(PR_SET_NAME, "rdmarpc-guard");
}

/* Waits until the program is in exec, which closes the other end of the pipe, or has failed;
 * however long that takes, for the stack that it has before is not its children's. */
static void await_exec(const int started[2])
{
	struct pollfd p = { .fd = started[0], .events = POLLIN };

	setsid();	/* the terminal's signals are for the program */
	close(started[1]);
	poll(&p, 1, -1);
	close(started[0]);
	rr_family_meet(&g->family);
}

/* The keeper: starts a worker, and another if that one was killed, up to RESTARTS times.
 * Signals that end a service are left to the worker, which takes everything back first. If
 * fork() fails, the keeper does the work itself. */
static void keep_running(const int started[2])
{
	static const struct timespec pause = { 0, 100000000 };
	int status = 0;
	pid_t pid;

	await_exec(started);
	detach();
	for (int i = 0; i < RESTARTS; i++) {
		pid = fork();
		if (pid <= 0) {		/* the worker, or the keeper if fork() failed */
			work();
			_exit(0);
		}
		signal(SIGTERM, SIG_IGN);	/* the worker ends by it, and then the keeper */
		signal(SIGINT, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (WIFEXITED(status))
			break;
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

/* --- for rdmarpc-run --- */

const char *rr_guard_programs(struct rr_guard_set *set, const char *text)
{
	static char word[64];

	for (const char *end; *text; text = *end ? end + 1 : end) {
		struct rpcent *known;
		char *rest;
		unsigned long v;

		end = text + strcspn(text, ",");
		snprintf(word, sizeof(word), "%.*s", (int)(end - text), text);
		v = strtoul(word, &rest, 0);
		if (*word < '0' || *word > '9' || *rest) {
			known = getrpcbyname(word);
			v = known ? (unsigned long)known->r_number : 0;
		}
		if (!v || v > UINT32_MAX || set->n == RR_GUARD_PROGRAMS)
			return word;
		set->program[set->n++] = (uint32_t)v;
	}
	return set->n ? NULL : "";
}

/* Opens the log file as the program's library does (preload/logsink.c): no pipe, and no
 * symbolic link. */
static int open_log_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK |
		      O_NOFOLLOW, 0644);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) || !(S_ISREG(st.st_mode) || S_ISCHR(st.st_mode)))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Reads the configuration as the program will: rules on a command mean the program's name, so
 * this process takes that name meanwhile. */
static void load_conf(const char *name)
{
	char *own = program_invocation_short_name;

	program_invocation_short_name = (char *)(uintptr_t)name;
	prctl(PR_SET_NAME, name);
	rr_conf_load(&g->conf, environ);
	prctl(PR_SET_NAME, own);
	program_invocation_short_name = own;
	g->log_fd = !strcmp(g->conf.log_file, "stderr") ? 2 : !*g->conf.log_file ? -1 :
		    open_log_file(g->conf.log_file);
	rr_log_setup(g->log_fd < 0 ? RR_LOG_OFF : g->conf.log_level, to_log);
}

/* The keeper is forked twice, so that it is nobody's child: the program must not find a child
 * that it did not make. `started` is a pipe whose other end exec closes; by that the keeper
 * knows when the program has begun. Returns 0 or -errno. */
static int start_keeper(void)
{
	int status = 0;		/* stays 0 where SIGCHLD is ignored */
	int started[2], rc = 0;
	pid_t pid;

	if (pipe2(started, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid) {	/* ends at once, so that its child, the keeper, is nobody's */
		pid = fork();
		if (!pid)
			keep_running(started);
		_exit(pid < 0);
	}
	if (pid < 0)
		rc = -errno;
	close(started[0]);
	while (!rc && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		rc = -EAGAIN;
	if (rc)
		close(started[1]);	/* otherwise exec closes it */
	return rc;
}

/* The mark is in the environment before exec, which is when the keeper looks for it. */
int rr_guard_start(const struct rr_guard_set *set, const char *name)
{
	int log, rc;

	g = mmap(NULL, sizeof(*g), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (g == MAP_FAILED)
		return -errno;
	g->set = *set;
	rc = rr_family_init(&g->family);
	if (!rc) {
		load_conf(name);
		log = g->log_fd;	/* g is the keeper's as soon as there is one */
		rc = start_keeper();
		if (!rc)
			setenv(RR_FAMILY_VAR, g->family.mark, 1);
		if (log > 2)
			close(log);
	}
	munmap(g, sizeof(*g));
	return rc;
}
