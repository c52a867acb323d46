/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef P_H
#define P_H

/* For the programs in tests/preload: ordinary programs with their own assertions, run first on
 * the kernel, then with the library (tests/preload/run). Exit status 0, 1 or 77.
 *
 * Each case runs in a child process of its own with a time limit, so that cases cannot spoil
 * each other's fds; a case that crashes or hangs is named. */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define P_UNUSED __attribute__((unused))

/* TSan holds signals back until a call returns, which is too late for who waits for a handler. */
#ifdef __has_feature
#define P_TSAN __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define P_TSAN 1
#else
#define P_TSAN 0
#endif

/* What the checks are about, for cases that ask the same of many; "" for others. */
P_UNUSED static const char *p_what = "";

#define CHECK(what) do { \
	if (!(what)) { \
		fprintf(stderr, "%s:%d: %s not so: %s (errno %d)\n", __FILE__, __LINE__, p_what, #what, \
			errno); \
		_exit(1); \
	} \
} while (0)

#define CHECK_EQ(a, b) do { \
	long long a_ = (long long)(a), b_ = (long long)(b); \
	if (a_ != b_) { \
		fprintf(stderr, "%s:%d: %s %s is %lld, not %lld (errno %d)\n", __FILE__, __LINE__, p_what, \
			#a, a_, b_, errno); \
		_exit(1); \
	} \
} while (0)

/* The call fails with that errno. */
#define CHECK_ERR(call, err) do { \
	errno = 0; \
	long long r_ = (long long)(call); \
	if (r_ != -1 || errno != (err)) { \
		fprintf(stderr, "%s:%d: %s %s gave %lld, errno %d, not -1, %s\n", __FILE__, __LINE__, \
			p_what, #call, r_, errno, #err); \
		_exit(1); \
	} \
} while (0)

struct p_case {
	const char *name;
	void (*run)(void);
};

/* The library's sanitizers are in the program as well. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define P_SANITIZED 1
#else
#define P_SANITIZED 0
#endif

/* What takes as long as these hangs, however slow and busy the machine is. */
enum {
	P_LIMIT = P_SANITIZED ? 300 : 150,	/* seconds for a case */
	P_SOON = 100000,			/* ms for what is on its way */
};

P_UNUSED static int p_run(const struct p_case *cases, size_t n)
{
	int failed = 0, status;

	for (size_t i = 0; i < n; i++) {
		pid_t pid = fork();

		if (!pid) {
			alarm(P_LIMIT);
			cases[i].run();
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			fprintf(stderr, "FAIL %s (status 0x%x)\n", cases[i].name, (unsigned)status);
			failed++;
		}
	}
	return failed ? 1 : 0;
}

#define P_MAIN(cases) int main(void) { return p_run(cases, sizeof(cases) / sizeof((cases)[0])); }

/* Is this the leg of that name? Without P_LEG it is the plain one. */
P_UNUSED static bool p_leg(const char *name)
{
	const char *leg = getenv("P_LEG");

	return !strcmp(leg ? leg : "plain", name);
}

/* Is it one in which the library carries, or is about to? */
P_UNUSED static bool p_carries(void)
{
	return p_leg("carried") || p_leg("crossing");
}

/* --- TCP over loopback --- */

static inline int p_listen(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*at = (struct sockaddr_in){ .sin_family = AF_INET };
	at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(fd >= 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	CHECK_EQ(listen(fd, 16), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

static inline int p_connect(const struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (const struct sockaddr *)at, sizeof(*at)), 0);
	return fd;
}

/* Of this process: where a server does not listen any more nothing is offered, and these offer later. */
static inline int p_listens_on(struct sockaddr_in *at)
{
	static struct sockaddr_in kept_at;
	static pid_t of;
	static int kept;
	int l;

	if (of != getpid()) {
		l = p_listen(&kept_at);
		kept = fcntl(l, F_DUPFD, 850);
		CHECK(kept >= 0);
		of = getpid();
	} else {
		l = fcntl(kept, F_DUPFD, 0);
		CHECK(l >= 0);
	}
	*at = kept_at;
	return l;
}

/* s[0] the connecting, s[1] the accepting end. */
P_UNUSED static void p_pair(int s[2])
{
	struct sockaddr_in at;
	int l = p_leg("crossing") ? p_listens_on(&at) : p_listen(&at);

	s[0] = p_connect(&at);
	s[1] = accept(l, NULL, NULL);
	CHECK(s[1] >= 0);
	CHECK_EQ(close(l), 0);
}

P_UNUSED static void p_write_all(int fd, const void *buf, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t r = write(fd, (const char *)buf + at, n - at);

		CHECK(r > 0);
		at += (size_t)r;
	}
}

P_UNUSED static void p_read_all(int fd, void *buf, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t r = read(fd, (char *)buf + at, n - at);

		CHECK(r > 0);
		at += (size_t)r;
	}
}

P_UNUSED static bool p_readable(int fd, int ms)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, ms) == 1;
}

P_UNUSED static void p_nonblock(int fd, bool on)
{
	int fl = fcntl(fd, F_GETFL);

	CHECK(fl >= 0);
	CHECK_EQ(fcntl(fd, F_SETFL, on ? fl | O_NONBLOCK : fl & ~O_NONBLOCK), 0);
}

#endif
