/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef P_CALLS_H
#define P_CALLS_H

/* Every call that reads, writes or waits, in one form each, so that a rule can be asked of all
 * of them. */

#include <dirent.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <time.h>

#include "tests/preload/rpc.h"

/* Second names that libc exports and no header declares. */
ssize_t __read(int fd, void *buf, size_t n);
ssize_t __write(int fd, const void *buf, size_t n);
ssize_t __send(int fd, const void *buf, size_t n, int flags);
int __poll(struct pollfd *fds, nfds_t n, int timeout);
int __select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *timeout);

/* --- readers: at most n bytes; what the call returns --- */

typedef ssize_t read_fn(int fd, void *buf, size_t n);

struct reader {
	const char *name;
	read_fn *fn;
};

/* Three pieces, one of them empty. */
static inline int p_pieces(struct iovec v[3], const void *buf, size_t n)
{
	char *p = (char *)(uintptr_t)buf;
	size_t first = n / 3;

	v[0] = (struct iovec){ p, first };
	v[1] = (struct iovec){ p, 0 };
	v[2] = (struct iovec){ p + first, n - first };
	return 3;
}

static inline ssize_t r_read(int fd, void *b, size_t n) { return read(fd, b, n); }
static inline ssize_t r___read(int fd, void *b, size_t n) { return __read(fd, b, n); }
static inline ssize_t r_recv(int fd, void *b, size_t n) { return recv(fd, b, n, 0); }

static inline ssize_t r_readv(int fd, void *b, size_t n)
{
	struct iovec v[3];

	return readv(fd, v, p_pieces(v, b, n));
}

static inline ssize_t r_preadv2(int fd, void *b, size_t n)
{
	struct iovec v[3];

	return preadv2(fd, v, p_pieces(v, b, n), -1, 0);
}

static inline ssize_t r_preadv64v2(int fd, void *b, size_t n)
{
	struct iovec v[3];

	return preadv64v2(fd, v, p_pieces(v, b, n), -1, 0);
}

static inline ssize_t r_recvfrom(int fd, void *b, size_t n)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	return recvfrom(fd, b, n, 0, (struct sockaddr *)&from, &len);
}

static inline ssize_t r_recvmsg(int fd, void *b, size_t n)
{
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)p_pieces(v, b, n) };

	return recvmsg(fd, &m, 0);
}

static inline ssize_t r_recvmmsg(int fd, void *b, size_t n)
{
	struct iovec v[3];
	struct mmsghdr m = { .msg_hdr = { .msg_iov = v, .msg_iovlen = (size_t)p_pieces(v, b, n) } };
	int r = recvmmsg(fd, &m, 1, 0, NULL);

	return r == 1 ? (ssize_t)m.msg_len : r;
}

static inline ssize_t r_recvmmsg_timeout(int fd, void *b, size_t n)
{
	struct iovec v[3];
	struct mmsghdr m = { .msg_hdr = { .msg_iov = v, .msg_iovlen = (size_t)p_pieces(v, b, n) } };
	struct timespec ts = { 100, 0 };
	int r = recvmmsg(fd, &m, 1, 0, &ts);

	return r == 1 ? (ssize_t)m.msg_len : r;
}

P_UNUSED static const struct reader readers[] = {
	{ "read", r_read }, { "__read", r___read }, { "readv", r_readv },
	{ "preadv2", r_preadv2 }, { "preadv64v2", r_preadv64v2 }, { "recv", r_recv },
	{ "recvfrom", r_recvfrom }, { "recvmsg", r_recvmsg }, { "recvmmsg", r_recvmmsg },
	{ "recvmmsg with a time-out", r_recvmmsg_timeout },
};

/* --- writers: n bytes --- */

typedef ssize_t write_fn(int fd, const void *buf, size_t n);

struct writer {
	const char *name;
	write_fn *fn;
};

static inline ssize_t w_write(int fd, const void *b, size_t n) { return write(fd, b, n); }
static inline ssize_t w___write(int fd, const void *b, size_t n) { return __write(fd, b, n); }
static inline ssize_t w_send(int fd, const void *b, size_t n) { return send(fd, b, n, 0); }
static inline ssize_t w___send(int fd, const void *b, size_t n) { return __send(fd, b, n, 0); }

static inline ssize_t w_sendto(int fd, const void *b, size_t n)
{
	return sendto(fd, b, n, 0, NULL, 0);
}

static inline ssize_t w_writev(int fd, const void *b, size_t n)
{
	struct iovec v[3];

	return writev(fd, v, p_pieces(v, b, n));
}

static inline ssize_t w_pwritev2(int fd, const void *b, size_t n)
{
	struct iovec v[3];

	return pwritev2(fd, v, p_pieces(v, b, n), -1, 0);
}

static inline ssize_t w_pwritev64v2(int fd, const void *b, size_t n)
{
	struct iovec v[3];

	return pwritev64v2(fd, v, p_pieces(v, b, n), -1, 0);
}

static inline ssize_t w_sendmsg(int fd, const void *b, size_t n)
{
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)p_pieces(v, b, n) };

	return sendmsg(fd, &m, 0);
}

static inline ssize_t w_sendmmsg(int fd, const void *b, size_t n)
{
	struct iovec v[3];
	struct mmsghdr m = { .msg_hdr = { .msg_iov = v, .msg_iovlen = (size_t)p_pieces(v, b, n) } };
	int r = sendmmsg(fd, &m, 1, 0);

	return r == 1 ? (ssize_t)m.msg_len : r;
}

/* A file with those bytes, another one each time: the kernel sends its pages, not copies. */
static inline int p_file(const void *b, size_t n)
{
	char name[] = "/tmp/p_calls.XXXXXX";
	int f = mkstemp(name);

	CHECK(f >= 0);
	unlink(name);
	p_write_all(f, b, n);
	return f;
}

static inline ssize_t w_sendfile(int fd, const void *b, size_t n)
{
	int f = p_file(b, n), saved;
	off_t off = 0;
	ssize_t r = sendfile(fd, f, &off, n);

	saved = errno;
	close(f);
	errno = saved;
	return r;
}

static inline ssize_t w_sendfile64(int fd, const void *b, size_t n)
{
	int f = p_file(b, n), saved;
	off64_t off = 0;
	ssize_t r = sendfile64(fd, f, &off, n);

	saved = errno;
	close(f);
	errno = saved;
	return r;
}

P_UNUSED static const struct writer writers[] = {
	{ "write", w_write }, { "__write", w___write }, { "writev", w_writev },
	{ "pwritev2", w_pwritev2 }, { "pwritev64v2", w_pwritev64v2 }, { "send", w_send },
	{ "__send", w___send }, { "sendto", w_sendto }, { "sendmsg", w_sendmsg },
	{ "sendmmsg", w_sendmmsg }, { "sendfile", w_sendfile }, { "sendfile64", w_sendfile64 },
};

/* --- waiters: 1 fd may be read (POLLIN) or written (POLLOUT); 0 not within ms; -1 --- */

typedef int wait_fn(int fd, short want, int ms);

struct waiter {
	const char *name;
	wait_fn *fn;
};

static inline struct timespec *p_timespec(struct timespec *ts, int ms)
{
	*ts = (struct timespec){ ms / 1000, ms % 1000 * 1000000L };
	return ms < 0 ? NULL : ts;
}

static inline int v_poll(int fd, short want, int ms)
{
	struct pollfd p = { fd, want, 0 };

	return poll(&p, 1, ms);
}

static inline int v___poll(int fd, short want, int ms)
{
	struct pollfd p = { fd, want, 0 };

	return __poll(&p, 1, ms);
}

static inline int v_ppoll(int fd, short want, int ms)
{
	struct pollfd p = { fd, want, 0 };
	struct timespec ts;

	return ppoll(&p, 1, p_timespec(&ts, ms), NULL);
}

/* One of other numbers beside the one that counts: nobody writes into this pipe. */
static inline int v_poll_with_others(int fd, short want, int ms)
{
	int p[2], r;

	CHECK_EQ(pipe(p), 0);
	struct pollfd fds[] = { { p[0], POLLIN, 0 }, { -1, POLLIN, 0 }, { fd, want, 0 } };

	r = poll(fds, 3, ms);
	close(p[0]);
	close(p[1]);
	return r;
}

static inline int p_by_select(int fd, short want, int ms, int kind)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	struct timespec ts;
	fd_set set;
	fd_set *r = want == POLLIN ? &set : NULL, *w = want == POLLOUT ? &set : NULL;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	if (kind == 0)
		return select(fd + 1, r, w, NULL, ms < 0 ? NULL : &tv);
	if (kind == 1)
		return __select(fd + 1, r, w, NULL, ms < 0 ? NULL : &tv);
	return pselect(fd + 1, r, w, NULL, p_timespec(&ts, ms), NULL);
}

static inline int v_select(int fd, short want, int ms) { return p_by_select(fd, want, ms, 0); }
static inline int v___select(int fd, short want, int ms) { return p_by_select(fd, want, ms, 1); }
static inline int v_pselect(int fd, short want, int ms) { return p_by_select(fd, want, ms, 2); }

static inline int p_ep_set(int fd, short want)
{
	struct epoll_event ev = { .events = want == POLLIN ? EPOLLIN : EPOLLOUT, .data.fd = fd };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	CHECK(ep >= 0);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), 0);
	return ep;
}

static void p_close_fd(void *fd)
{
	close(*(int *)fd);
}

static inline int p_by_epoll(int fd, short want, int ms, int kind)
{
	struct epoll_event ev[2];
	struct timespec ts;
	int ep = p_ep_set(fd, want), r, saved;

	pthread_cleanup_push(p_close_fd, &ep);
	if (kind == 0)
		r = epoll_wait(ep, ev, 2, ms);
	else if (kind == 1)
		r = epoll_pwait(ep, ev, 2, ms, NULL);
	else
		r = epoll_pwait2(ep, ev, 2, p_timespec(&ts, ms), NULL);
	pthread_cleanup_pop(0);
	saved = errno;
	close(ep);
	errno = saved;
	return r;
}

static inline int v_epoll_wait(int fd, short want, int ms) { return p_by_epoll(fd, want, ms, 0); }
static inline int v_epoll_pwait(int fd, short want, int ms) { return p_by_epoll(fd, want, ms, 1); }
static inline int v_epoll_pwait2(int fd, short want, int ms) { return p_by_epoll(fd, want, ms, 2); }

P_UNUSED static const struct waiter waiters[] = {
	{ "poll", v_poll }, { "__poll", v___poll }, { "ppoll", v_ppoll },
	{ "poll with others", v_poll_with_others }, { "select", v_select },
	{ "__select", v___select }, { "pselect", v_pselect }, { "epoll_wait", v_epoll_wait },
	{ "epoll_pwait", v_epoll_pwait }, { "epoll_pwait2", v_epoll_pwait2 },
};

#define P_COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* --- threads --- */

/* Until that thread of this process sleeps in the kernel, and for longer than a nap: on a busy machine one of
 * the library's may be seen, and who woke it then would have woken it too early. */
P_UNUSED static void p_asleep(pid_t tid)
{
	char path[64], line[256], was[256] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	for (int in_a_row = 0; in_a_row < 5;) {
		FILE *f = fopen(path, "r");
		bool asleep = false, same = false;

		CHECK(f);
		while (fgets(line, sizeof(line), f)) {
			asleep |= !strncmp(line, "State:\tS", 8);
			if (!strncmp(line, "voluntary_ctxt_switches", 23)) {
				same = !strcmp(line, was);
				strcpy(was, line);
			}
		}
		fclose(f);
		in_a_row = asleep && same ? in_a_row + 1 : 0;
		usleep(1000);
	}
}

/* Signals a thread that sleeps in a call until that has ended. The library may sleep several times in one
 * call: a handler that runs between two of them ends none. */
P_UNUSED static void p_interrupt(pthread_t who, const _Atomic bool *done)
{
	for (int i = 0; !*done; i++) {
		if (i % 5000 == 0)
			pthread_kill(who, SIGUSR1);
		usleep(200);
	}
}

/* How many fds this process has, those included that it does not know of. When they come and go is not asked of a connection
 * that is half way: 0. */
P_UNUSED static int p_open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	if (p_leg("crossing"))
		return closedir(d);
	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

#endif
