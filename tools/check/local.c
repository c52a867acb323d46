/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks at this host, without a peer: the library, settings, the run directory, the log, limits
 * and devices. Also looks at what a running process has of these.
 *
 * Nothing is changed on the host. Each function adds what it has found as a step of the report,
 * good news as well, so that a reader sees what was looked at. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/conf.h"
#include "config/rundir.h"
#include "tools/check/check.h"
#include "tools/places.h"

#define LIBRARY "librpcrdma_shim.so"
#define PLUGIN "librpcrdma_verbs.so"
#define RDMA_CM "/dev/infiniband/rdma_cm"
#define FEW_FDS 256u

/* --- /proc --- */

/* pid 0 is this process. */
static void proc_path(char *to, size_t size, int pid, const char *file)
{
	if (pid)
		snprintf(to, size, "/proc/%d/%s", pid, file);
	else
		snprintf(to, size, "/proc/self/%s", file);
}

/* Names are compared from the beginning of the line, so "Max open files" needs no colon. The
 * value goes to the end of the line. */
bool rr_check_proc_line(int pid, const char *file, const char *name, char *out, size_t size)
{
	char path[64], line[512];
	size_t n = strlen(name);
	bool found = false;
	FILE *f;

	proc_path(path, sizeof(path), pid, file);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, n)) {
			line[strcspn(line, "\n")] = '\0';
			snprintf(out, size, "%s", line + n + strspn(line + n, " \t:"));
			found = true;
		}
	if (f)
		fclose(f);
	return found;
}

/* Lines of /proc/PID/maps end with the file's name. The first one that is the library suffices:
 * all parts of it are mapped from the same file. */
int rr_check_mapped(int pid, char *out, size_t size)
{
	char path[64], *line = NULL, *name;
	size_t room = 0;
	int rc = 0;
	FILE *f;

	out[0] = '\0';
	proc_path(path, sizeof(path), pid, "maps");
	f = fopen(path, "re");
	if (!f)
		return -1;
	while (!rc && getline(&line, &room, f) > 0)
		if (strstr(line, "/" LIBRARY) && (name = strchr(line, '/'))) {
			name[strcspn(name, "\n")] = '\0';
			snprintf(out, size, "%s", name);
			rc = 1;
		}
	free(line);
	fclose(f);
	return rc;
}

/* --- the library --- */

/* Asks the loader which file a program gets that is started with LD_PRELOAD=librpcrdma_shim.so,
 * and writes it to out; "" if it finds none. Where loaders search depends on ld.so.conf, its
 * cache and the word size: so this program is started that way and prints what it has mapped
 * (main() of rdmarpc-check). */
static void by_bare_name(char *out, size_t size)
{
	char line[PATH_MAX] = "";
	int fd[2], status, pid;
	ssize_t n;

	out[0] = '\0';
	if (pipe(fd))
		return;
	pid = fork();
	if (pid == 0) {
		dup2(fd[1], 1);
		close(2); /* the loader complains on standard error */
		close(fd[0]);
		setenv("LD_PRELOAD", LIBRARY, 1);
		execl("/proc/self/exe", "rdmarpc-check", RR_PROBE_ARG, (char *)NULL);
		_exit(2);
	}
	close(fd[1]);
	n = pid > 0 ? read(fd[0], line, sizeof(line) - 1) : 0;
	line[n > 0 ? n : 0] = '\0';
	snprintf(out, size, "%s", line);
	close(fd[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
}

/* On a 64-bit host that has a loader for 32-bit programs, looks for a library for those. Byte 4
 * of an ELF file says its class; 1 is 32-bit, so a library of the other kind in /usr/lib does
 * not count. */
static void check_32(struct rr_findings *to)
{
	static const char *const dirs[] = { "/usr/lib/i386-linux-gnu", "/lib/i386-linux-gnu",
					    "/usr/lib32", "/usr/lib" };
	unsigned char ident[5];
	char path[64];
	FILE *f;

	if (sizeof(void *) != 8 || access("/lib/ld-linux.so.2", X_OK))
		return;
	for (size_t i = 0; i < rr_array_size(dirs); i++) {
		snprintf(path, sizeof(path), "%s/" LIBRARY, dirs[i]);
		f = fopen(path, "re");
		if (f && fread(ident, 1, 5, f) == 5 && ident[4] == 1) {
			fclose(f);
			rr_find(to, RR_V_OK, "32-bit", "%s", path);
			return;
		}
		if (f)
			fclose(f);
	}
	rr_find(to, RR_V_NOTE, "32-bit",
		"there is a loader for 32-bit programs, and no 32-bit %s: they stay on TCP",
		LIBRARY);
}

/* library is the file that was found, or "". The plugin for RDMA devices has to lie beside the
 * library, which loads it from there. */
static void check_library(struct rr_findings *to, const char *library)
{
	char found[PATH_MAX], plugin[PATH_MAX + 32];
	const char *slash = strrchr(library, '/');

	if (!*library) {
		rr_find(to, RR_V_FAIL, "library",
			"%s is neither beside this program nor where it was installed",
			LIBRARY);
		rr_advise(to, "install it (package librpcrdma-shim), or make install");
		return;
	}
	rr_find(to, RR_V_OK, "library", "%s", library);
	by_bare_name(found, sizeof(found));
	if (*found)
		rr_find(to, RR_V_OK, "loader", "LD_PRELOAD=%s is %s", LIBRARY, found);
	else {
		rr_find(to, RR_V_NOTE, "loader",
			"LD_PRELOAD=%s finds nothing; rdmarpc-run and units use the full path",
			LIBRARY);
		rr_advise(to, "for the bare name it must be in a directory of ld.so.conf: then "
			      "ldconfig");
	}
	check_32(to);
	snprintf(plugin, sizeof(plugin), "%.*s/" PLUGIN, slash ? (int)(slash - library) : 0,
		 library);
	if (access(plugin, R_OK))
		rr_find(to, RR_V_NOTE, "plugin",
			"no %s beside it: RDMA devices are not used, only shm on this host",
			PLUGIN);
	else
		rr_find(to, RR_V_OK, "plugin", "%s", plugin);
}

/* --- settings --- */

/* Reports which file was read, what it says in general, and each problem that the library would
 * log. */
static void check_settings(struct rr_findings *to, const struct rr_conf *c)
{
	static const char *const modes[] = { "auto", "tcp", "require" };
	const char *file = getenv("RDMARPC_CONF");
	const char *line = c->problems, *end;

	file = file && *file ? file : RR_CONF_FILE;
	rr_find(to, c->enabled && c->mode != RR_MODE_TCP ? RR_V_OK : RR_V_WARN, "settings",
		"%s%s; %u rules; mode %s%s", file,
		access(file, F_OK) ? " (there is none, defaults count)" : "", c->nrules,
		modes[c->mode], c->enabled ? "" : "; enabled is off");
	if (!c->enabled || c->mode == RR_MODE_TCP)
		rr_advise(to, "rdmarpc-run --print-config shows where each setting comes from");
	for (; (end = strchr(line, '\n')); line = end + 1)
		rr_find(to, RR_V_WARN, "settings", "%.*s", (int)(end - line), line);
}

/* --- directories --- */

/* Will the first process that needs the directory be able to make it? */
static bool is_made_on_demand(const char *dir)
{
	char above[RR_RUN_PATH];

	snprintf(above, sizeof(above), "%s", dir);
	if (!strrchr(above, '/'))
		return false;
	*strrchr(above, '/') = '\0';
	return !access(*above ? above : "/", W_OK | X_OK);
}

/* Goes through the places in the order in which a process tries them, and stops at the first
 * that can be used. Also says if upgrades are stopped by root or this user. */
static void check_rundir(struct rr_findings *to, const struct rr_conf *c)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR"), *fault;
	uid_t me = geteuid();
	char dir[RR_RUN_PATH];
	unsigned n;

	for (n = 0; rr_rundir_place(c->run_dir, xdg, me, n, dir); n++) {
		fault = rr_rundir_fault(dir);
		bool made =
			fault && !strcmp(fault, RR_RUNDIR_MISSING) && is_made_on_demand(dir);

		if (!fault || made) {
			rr_find(to, RR_V_OK, "run directory", "%s%s", dir,
				made ? ", made by the first program that needs it" : "");
			break;
		}
		rr_find(to, RR_V_NOTE, "run directory", "%s: %s", dir, fault);
	}
	if (!rr_rundir_place(c->run_dir, xdg, me, n, dir)) {
		rr_find(to, RR_V_WARN, "run directory",
			"none can be used: statistics are in memory, and ends in different "
			"network "
			"namespaces do not find each other");
		rr_advise(to,
			  "as root: install -d -o %u -g %u -m 700 " RR_RUN_DIR
			  "/%u, or a line in tmpfiles.d(5)",
			  (unsigned)me, (unsigned)getegid(), (unsigned)me);
	}
	if (rr_rundir_stopped(c->run_dir[0] ? c->run_dir : RR_RUN_DIR, 0) ||
	    (me && rr_rundir_stopped(dir, me))) {
		rr_find(to, RR_V_WARN, "upgrades", "are stopped on this host");
		rr_advise(to, "rdmarpc-stat --start");
	}
}

/* The log goes to a daemon: is its socket there? */
static void check_log_daemon(struct rr_findings *to, const char *what, const char *path)
{
	if (!access(path, F_OK))
		return rr_find(to, RR_V_OK, "log", "%s", what);
	rr_find(to, RR_V_WARN, "log", "%s: %s: %s", what, path, strerror(errno));
	rr_advise(to, "nobody takes lines there: set log_to and log_file otherwise");
}

/* The log goes to a file. The library makes the file when it logs something, but not its
 * directory. */
static void check_log_file(struct rr_findings *to, const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	struct stat st;

	if (*path == '/' && stat(path, &st)) {
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
		if (errno != ENOENT || stat(slash == path ? "/" : dir, &st)) {
			rr_find(to, RR_V_WARN, "log", "%s: %s", path, strerror(errno));
			rr_advise(to, "its directory must be there for those who write to it");
			return;
		}
	}
	rr_find(to, RR_V_OK, "log", "%s", path);
}

static void check_log(struct rr_findings *to, const struct rr_conf *c)
{
	if (c->log_to == RR_LOG_TO_JOURNAL)
		check_log_daemon(to, "the journal", "/run/systemd/journal/socket");
	else if (c->log_to == RR_LOG_TO_SYSLOG)
		check_log_daemon(to, "syslog", "/dev/log");
	else if (!c->log_file[0])
		rr_find(to, RR_V_OK, "log", "none is configured (log_file)");
	else
		check_log_file(to, c->log_file);
}

/* --- limits and devices --- */

/* Judges one limit by what the library needs of it. devices: locked memory matters only where
 * there is an RDMA device. */
static void check_limit(struct rr_findings *to, bool devices, const char *name, rlim_t is,
			int which)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)is);
	if (is == RLIM_INFINITY)
		snprintf(text, sizeof(text), "unlimited");
	if (which == RLIMIT_FSIZE && is < RR_STAT_SIZE) {
		rr_find(to, RR_V_WARN, name,
			"%s: neither a segment of statistics nor shared memory may be made",
			text);
		rr_advise(to, "at least some megabytes (ulimit -f, LimitFSIZE=)");
	} else if (which == RLIMIT_NOFILE && is < FEW_FDS) {
		rr_find(to, RR_V_WARN, name,
			"%s: each carried connection needs a descriptor of its own; servers "
			"decline when few are left",
			text);
		rr_advise(to, "ulimit -n, LimitNOFILE=");
	} else if (which == RLIMIT_MEMLOCK && devices && is < (64u << 20)) {
		rr_find(to, RR_V_WARN, name,
			"%s: memory that a device uses is locked, some megabytes for each "
			"connection",
			text);
		rr_advise(to, "ulimit -l unlimited, LimitMEMLOCK=infinity");
	} else {
		rr_find(to, RR_V_OK, name, "%s", text);
	}
}

/* The limits of this process; a program that is started from the same shell has them too. */
static void check_limits(struct rr_findings *to, bool devices)
{
	static const struct {
		const char *name;
		int which;
	} limits[] = {
		{ "RLIMIT_NOFILE", RLIMIT_NOFILE },
		{ "RLIMIT_FSIZE", RLIMIT_FSIZE },
		{ "RLIMIT_MEMLOCK", RLIMIT_MEMLOCK },
	};
	struct rlimit lim;

	for (size_t i = 0; i < rr_array_size(limits); i++)
		if (!getrlimit((__rlimit_resource_t)limits[i].which, &lim))
			check_limit(to, devices, limits[i].name, lim.rlim_cur, limits[i].which);
}

/* Looks for RDMA devices that this user may use. Returns whether there is one. RDMA CM may be
 * there although no device has a name in /sys. */
static bool check_devices(struct rr_findings *to)
{
	DIR *d = opendir("/sys/class/infiniband");
	char names[256] = "";
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' &&
		    strlen(names) + strlen(e->d_name) < sizeof(names) - 2) {
			strcat(names, " ");
			strcat(names, e->d_name);
		}
	if (d)
		closedir(d);
	if (!*names && access(RDMA_CM, F_OK)) {
		rr_find(to, RR_V_NOTE, "devices",
			"no RDMA device: connections to other hosts stay on TCP");
		return false;
	}
	if (access(RDMA_CM, R_OK | W_OK)) {
		rr_find(to, RR_V_WARN, "devices", "%s, but %s: %s",
			*names ? names + 1 : "a device", RDMA_CM, strerror(errno));
		rr_advise(to, errno == ENOENT
				      ? "modprobe rdma_ucm; containers need /dev/infiniband"
				      : "permission for /dev/infiniband/*");
		return false;
	}
	rr_find(to, RR_V_OK, "devices", "%s",
		*names ? names + 1 : "none in /sys, but " RDMA_CM);
	return true;
}

/* --- a process --- */

/* Which of the namespaces that decide whether two ends can meet are the process's own. */
static void check_namespaces(struct rr_findings *to, int pid)
{
	static const char *const names[] = { "net", "mnt", "pid", "user" };
	char path[64], ours[64], its[64], differ[64] = "";
	ssize_t a, b;

	for (size_t i = 0; i < rr_array_size(names); i++) {
		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		a = readlink(path, ours, sizeof(ours) - 1);
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, names[i]);
		b = readlink(path, its, sizeof(its) - 1);
		if (a <= 0 || b <= 0) {
			rr_find(to, RR_V_NOTE, "namespaces", "may not be seen");
			return;
		}
		ours[a] = its[b] = '\0';
		if (strcmp(ours, its))
			snprintf(differ + strlen(differ), sizeof(differ) - strlen(differ),
				 " %s", names[i]);
	}
	rr_find(to, *differ ? RR_V_NOTE : RR_V_OK, "namespaces",
		*differ ? "of its own:%s" : "those of this one%s", differ);
	if (strstr(differ, " net") && strstr(differ, " mnt"))
		rr_advise(to, "ends in different network namespaces of one host need a run "
			      "directory in common: mount " RR_RUN_DIR " into both");
}

/* As check_limits(), by what /proc says of the process: its limits may have been set by a unit
 * or a shell that this program does not know. */
static void check_process_limits(struct rr_findings *to, int pid)
{
	static const struct {
		const char *line, *name;
		int which;
	} limits[] = {
		{ "Max open files", "RLIMIT_NOFILE", RLIMIT_NOFILE },
		{ "Max file size", "RLIMIT_FSIZE", RLIMIT_FSIZE },
		{ "Max locked memory", "RLIMIT_MEMLOCK", RLIMIT_MEMLOCK },
	};
	char v[128];

	for (size_t i = 0; i < rr_array_size(limits); i++)
		if (rr_check_proc_line(pid, "limits", limits[i].line, v, sizeof(v)))
			check_limit(to, !access(RDMA_CM, F_OK), limits[i].name,
				    !strncmp(v, "unlimited", 9) ? RLIM_INFINITY
								: (rlim_t)strtoull(v, NULL, 10),
				    limits[i].which);
}

/* What a filter allows cannot be read; the report says where the library's calls are listed. */
static void check_seccomp(struct rr_findings *to, int pid)
{
	char v[64];

	if (!rr_check_proc_line(pid, "status", "Seccomp:", v, sizeof(v)))
		return;
	if (v[0] == '0') {
		rr_find(to, RR_V_OK, "seccomp", "no filter");
		return;
	}
	rr_find(to, RR_V_NOTE, "seccomp",
		v[0] == '1' ? "strict: no socket can be made" : "a filter is in force");
	rr_advise(to, "the library's system calls are all in systemd's @system-service; "
		      "docs/OPERATIONS.md lists them");
}

/* Of a dead process that had the same pid nothing counts. */
void rr_check_release(int pid, char *out, size_t size)
{
	static struct rr_conf conf;
	struct rr_places places;
	struct rr_procs all = { 0 };

	out[0] = '\0';
	rr_conf_load(&conf, environ);
	rr_places_find(&places, conf.run_dir);
	rr_places_read(&places, &all, &pid, 1);
	for (uint32_t i = 0; i < all.n; i++)
		if (all.p[i].pid == pid && all.p[i].alive && all.p[i].release[0])
			snprintf(out, size, " (release %s)", all.p[i].release);
	rr_procs_fini(&all);
	rr_places_fini(&places);
}

/* A library that was replaced on disk since it was loaded is named "(deleted)" by the
 * kernel. */
static void check_process(struct rr_findings *to, int pid)
{
	char comm[32], file[PATH_MAX], release[40];
	int has = rr_check_mapped(pid, file, sizeof(file));

	rr_proc_comm(pid, comm, sizeof(comm));
	if (!*comm) {
		rr_find(to, RR_V_FAIL, "process", "there is no process %d", pid);
		return;
	}
	rr_check_release(pid, release, sizeof(release));
	rr_find(to,
		has > 0 ? RR_V_OK
		: has   ? RR_V_NOTE
			: RR_V_FAIL,
		"process", "%d, %s: %s%s%s", pid, comm,
		has > 0 ? "has loaded "
		: has   ? "its mappings may not be read"
			: "has not loaded the library",
		file, release);
	if (!has)
		rr_advise(to, "start it by rdmarpc-run, or its unit with rdmarpc-run --unit "
			      "NAME --install; set-user-ID and statically linked "
			      "programs cannot load it");
	if (strstr(file, " (deleted)"))
		rr_advise(to, "the file was replaced since: the process has the old one until "
			      "it is restarted");
	check_seccomp(to, pid);
	check_namespaces(to, pid);
	check_process_limits(to, pid);
}

/* The limits come after the devices, because some count only if there is one. */
void rr_check_local(struct rr_findings *to, const char *library, int pid)
{
	static struct rr_conf conf;
	struct utsname u;
	bool devices;

	uname(&u);
	rr_find(to, RR_V_OK, "release", "rdmarpc " RR_VERSION ", %s, Linux %s", u.machine,
		u.release);
	rr_conf_load(&conf, environ);
	check_library(to, library);
	check_settings(to, &conf);
	check_rundir(to, &conf);
	check_log(to, &conf);
	devices = check_devices(to);
	check_limits(to, devices);
	if (pid)
		check_process(to, pid);
}
