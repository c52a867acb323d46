/* SPDX-License-Identifier: BSD-3-Clause */
/* Affinity and cgroup quota: how many CPUs this process may use, whatever the machine has. How
 * much to spin is decided in core/conn/base/spin.c. */
#include "core/base/cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/outdated.h"

#define SELDOM	16u	/* looks for a quota only every so often: that opens files */
#define MOUNT	"/sys/fs/cgroup"

/* Static, because the app's stack may be a signal handler's. Only the thread that has set busy
 * uses them. */
static _Atomic uint32_t busy;
static char words[64], path[512], groups[1024];

uint32_t rr_cpu_here(void)
{
	int saved = errno, cpu = sched_getcpu();

	errno = saved;
	return cpu < 0 ? 0 : (uint32_t)cpu + 1;
}

/* --- quotas --- */

static const char *skip_number(const char *p, uint64_t *v)
{
	*v = 0;
	while (*p == ' ' || *p == '\n')
		p++;
	if (*p < '0' || *p > '9')
		return NULL;
	for (; *p >= '0' && *p <= '9'; p++)
		*v = rr_min(*v * 10 + (uint64_t)(*p - '0'), UINT64_C(1) << 50);
	return p;
}

uint32_t rr_cpus_of_quota(const char *text)
{
	uint64_t quota, period;
	const char *p = skip_number(text, &quota);

	if (!p || !skip_number(p, &period) || !period)
		return UINT32_MAX;
	return (uint32_t)rr_min(quota / period, (uint64_t)UINT32_MAX);
}

/* Reads a small file and appends its contents to buf, terminated. False: it is empty or cannot
 * be read. */
static bool read_small_file(const char *name, char *buf, size_t size)
{
	size_t len = strlen(buf);
	int fd = rr_os_open(name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : syscall(SYS_read, fd, buf + len, size - 1 - len);

	if (fd >= 0)
		syscall(SYS_close, fd);
	buf[len + (n > 0 ? (size_t)n : 0)] = 0;
	return n > 0;
}

/* A name that is too long is cut off, and then cannot be opened. */
static void append_path(char *to, size_t size, const char *more)
{
	size_t len = strlen(to), n = rr_min(strlen(more), size - 1 - len);

	memcpy(to + len, more, n);
	to[len + n] = 0;
}

/* The quota of a single group at path below the mount, in whole CPUs; UINT32_MAX: none can be
 * read. Version one has two files for what version two has in one, and both are read into
 * `words`. */
static uint32_t quota_at(const char *mount, const char *group, bool v1)
{
	static const char *const files[2][2] = {
		{ "/cpu.max", NULL }, { "/cpu.cfs_quota_us", "/cpu.cfs_period_us" },
	};
	words[0] = 0;
	for (int i = 0; i < 2 && files[v1][i]; i++) {
		path[0] = 0;
		append_path(path, sizeof(path), mount);
		append_path(path, sizeof(path), group);
		append_path(path, sizeof(path), files[v1][i]);
		if (!read_small_file(path, words, sizeof(words)))
			return UINT32_MAX;
	}
	return rr_cpus_of_quota(words);
}

/* The smallest quota of a group and all groups around it. If the group cannot be seen (in a
 * container whose mount begins below it), the mount's own quota counts. */
static uint32_t quota_up(const char *mount, char *group, bool v1)
{
	uint32_t least = quota_at(mount, "", v1);
	char *slash;

	while (group[0] && group[1]) {
		least = rr_min(least, quota_at(mount, group, v1));
		slash = strrchr(group, '/');
		if (!slash)
			break;
		*slash = 0;
	}
	return least;
}

/* Is "cpu" among the controllers, which are separated by commas? */
static bool has_cpu(const char *list)
{
	for (const char *p = list; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (!strncmp(p, "cpu", 3) && (p[3] == ',' || !p[3]))
			return true;
	}
	return false;
}

/* Lines of /proc/self/cgroup are number:controllers:path; with version two there are no
 * controllers. */
static uint32_t quota(void)
{
	uint32_t least = UINT32_MAX;
	char *line, *save;

	groups[0] = 0;
	if (!read_small_file("/proc/self/cgroup", groups, sizeof(groups)))
		return least;
	for (line = strtok_r(groups, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;

		if (!group)
			continue;
		list++;
		*group++ = 0;
		if (!*list)
			least = rr_min(least, quota_up(MOUNT, group, false));
		else if (has_cpu(list))
			least = rr_min(least, quota_up(MOUNT "/cpu", group, true));
	}
	return least;
}

/* --- affinity --- */

/* The larger affinity of the calling thread and of the process's first thread: programs that
 * give each thread a CPU of its own leave all CPUs to the first one, or have one thread. If
 * there are more CPUs than the set has room for, that is enough anyway. */
static uint32_t affinity(void)
{
	cpu_set_t mine, first;
	int n = CPU_SETSIZE;

	if (!sched_getaffinity(0, sizeof(mine), &mine))
		n = CPU_COUNT(&mine);
	if (!sched_getaffinity(getpid(), sizeof(first), &first))
		n = rr_max(n, CPU_COUNT(&first));
	return (uint32_t)n;
}

/* --- the machine --- */

static _Atomic bool only;

bool rr_cpus_are_one(const char *online)
{
	return online[0] >= '0' && online[0] <= '9' && !strpbrk(online, "-,");
}

static bool machine_has_one(void)
{
	words[0] = 0;
	return read_small_file("/sys/devices/system/cpu/online", words, sizeof(words)) &&
	       rr_cpus_are_one(words);
}

bool rr_cpu_is_only(void)
{
	return atomic_load_explicit(&only, memory_order_relaxed);
}

uint32_t rr_cpus(rr_time now)
{
	static _Atomic uint64_t asked;
	static _Atomic uint32_t kept = 1, limit = UINT32_MAX, times, uses;
	uint64_t then = atomic_load_explicit(&asked, memory_order_relaxed);
	uint32_t cpus;
	int saved = errno;

	if (likely(then && !rr_is_outdated(now - then, &uses)))
		return atomic_load_explicit(&kept, memory_order_relaxed);
	/* One of the threads that find the value outdated. */
	if (!atomic_compare_exchange_strong_explicit(&asked, &then, now | 1,
						     memory_order_relaxed,
						     memory_order_relaxed))
		return atomic_load_explicit(&kept, memory_order_relaxed);
	cpus = affinity();
	if (atomic_fetch_add_explicit(&times, 1, memory_order_relaxed) % SELDOM == 0 &&
	    !atomic_exchange_explicit(&busy, true, memory_order_acquire)) {
		atomic_store_explicit(&limit, quota(), memory_order_relaxed);
		atomic_store_explicit(&only, cpus == 1 && machine_has_one(),
				      memory_order_relaxed);
		atomic_store_explicit(&busy, false, memory_order_release);
	}
	cpus = rr_min(cpus, atomic_load_explicit(&limit, memory_order_relaxed));
	atomic_store_explicit(&kept, cpus, memory_order_relaxed);
	errno = saved;
	return cpus;
}
