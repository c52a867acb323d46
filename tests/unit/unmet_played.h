/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_UNMET_PLAYED_H
#define RR_TEST_UNMET_PLAYED_H

/* A socket that has not been met, with a played connection for when it is. The number of threads is played, too; the
 * socket is the kernel's. For one test program alone. */
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "core/conn/conn.h"

static char alone = 1;

/* Another error of the system calls that are made here, and how much is sent at most. */
static int refusal;
static size_t most = (size_t)-1;

static long played_syscall(long nr, int at, void *p, size_t n, int flags, void *addr, void *len)
{
	errno = refusal ? refusal : EXDEV;	/* of old */
	return refusal ? -1 : syscall(nr, at, p, nr == SYS_sendto && n > most ? most : n, flags, addr, len);
}

/* When idle connections want the process awake, and when that was asked. */
static rr_time idle = RR_TIME_NEVER, idle_asked;

static rr_time idle_played(rr_time when)
{
	idle_asked = when;
	return idle;
}

#define syscall(nr, at, p, ...) played_syscall(nr, at, (void *)(uintptr_t)(p), __VA_ARGS__)
#define __libc_single_threaded alone
#include <sys/single_threaded.h>
#define rr_conn_idle idle_played
#include "preload/unmet.c"
#undef rr_conn_idle
#undef __libc_single_threaded
#undef syscall

#include "tests/lib/ready_test.h"
#include "tests/unit/played_clock.h"

#define CALL	40
#define REPLY_LEN	28

static struct rr_sock *so;
static int fd, peer;
static uint8_t call[CALL] = { 0x80, 0, 0, CALL - 4 }, reply[REPLY_LEN] = { 0x80, 0, 0, REPLY_LEN - 4 }, got[600];
static struct rr_conn *made;
static struct rr_conn_passed passed;
static struct { int made, never; size_t sent, came, judged; const void *from, *to; } told;
static size_t first;	/* what the first bytes are said to be */
static bool may, serves;
static const struct sockaddr *dialed;	/* a client's: what connect() was given */

static bool may_played(bool server, const struct sockaddr *to, socklen_t len)
{
	cr_assert(server == serves && to == dialed && len == (dialed ? 16 : 0));
	return may;
}

static size_t first_played(struct rr_conn_passed *f, const uint8_t *head, size_t have)
{
	cr_assert_eq(f, &so->unmet.past);
	cr_assert_eq(memcmp(head, call, 4), 0);
	told.judged = have;
	return first;
}

static void (*meanwhile)(void);	/* while its connection is made */

static struct rr_conn *after_played(int of, const struct rr_conn_passed *p)
{
	cr_assert_eq(of, fd);
	cr_assert(rr_unmet_is(so) && !rr_sock_conn(so) && so->unmet.worker == (uintptr_t)pthread_self());
	if (meanwhile)
		meanwhile();
	passed = *p;
	told.made++;
	return made;
}

static void out_played(struct rr_conn *c, const struct iovec *iov, int n, size_t len)
{
	cr_assert(c == made && n == 1);
	told.from = iov->iov_base;
	told.sent = len;
}

static void in_played(struct rr_conn *c, const struct iovec *iov, int n, size_t len)
{
	cr_assert(c == made && n == 1);
	told.to = iov->iov_base;
	told.came = len;
}

static void never_played(const struct rr_conn_passed *f)
{
	passed = *f;
	told.never++;
}

static struct rr_conn *a_conn(void)
{
	int other;
	struct rr_conn *c = rr_fake_conn(tcp(&other), RR_FAKE_NEW);

	return c;
}

/* The kernel's poll() for rr_unmet_poll(): how often it was called and for how long last, what it says, and how long it
 * takes for that. */
static struct { int calls, ms, says; rr_time takes; } kernel;

static int poll_played(struct pollfd *p, nfds_t n, int ms)
{
	cr_assert(n == 1 && p->fd == fd && so->f.refs == 2);
	kernel.calls++;
	kernel.ms = ms;
	now += kernel.takes;
	p->revents = kernel.says > 0 ? POLLIN : 0;
	if (kernel.says < 0)
		errno = EINTR;
	return kernel.says;
}

static void begin(bool server, uint32_t flags)
{
	now = START;
	may = true;
	serves = server;
	first = CALL;
	rr_fake.may_wait = may_played;
	rr_fake.first_call = first_played;
	rr_fake.after = after_played;
	rr_fake.went_out = out_played;
	rr_fake.came_in = in_played;
	rr_fake.never = never_played;
	fd = tcp(&peer);
	made = a_conn();
	so = rr_sock_new(fd);
	so->flags = flags;
	cr_assert(rr_file_is_at(&so->f, fd));
	rr_fdt_give(fd, &so->f);
	rr_file_hold(&so->f);
	cr_assert(rr_unmet_begin(so, dialed, dialed ? 16 : 0));
	cr_assert(rr_unmet_is(so) && rr_unmet_n == 1);
	errno = ESRCH;
}

static inline void arrives(const void *p, size_t n)
{
	int have = 0, had = 0;

	ioctl(fd, FIONREAD, &had);
	cr_assert_eq(send(peer, p, n, 0), (ssize_t)n);
	while (have < had + (int)n)
		cr_assert_eq(ioctl(fd, FIONREAD, &have), 0);
}

static inline void ends(void)
{
	struct pollfd p = { peer, 0, 0 };

	shutdown(peer, SHUT_WR);
	p.fd = fd;
	p.events = POLLRDHUP;
	cr_assert_eq(poll(&p, 1, 10000), 1);
}

static inline bool reads(size_t room, ssize_t *rc)
{
	struct iovec iov = { got, room };
	bool is = rr_unmet_recv(fd, &iov, 1, 0, rc);

	cr_assert_eq(errno, ESRCH);
	cr_assert_eq(so->f.refs, 2);
	cr_assert_eq(so->unmet.worker, 0);
	return is;
}

static inline bool writes(const void *p, size_t n, ssize_t *rc)
{
	struct iovec iov = { (void *)(uintptr_t)p, n };
	bool is;

	*rc = -2;
	is = rr_unmet_send(fd, &iov, 1, 0, rc);

	cr_assert_eq(errno, ESRCH);
	cr_assert_eq(so->f.refs, 2);
	cr_assert_eq(so->unmet.worker, 0);
	return is;
}

static inline bool is_told(short revents)
{
	struct pollfd p = { fd, POLLIN, revents };
	bool is = rr_unmet_told(&p);

	cr_assert_eq(errno, ESRCH);
	return is;
}

static inline int polled(struct pollfd *p, int *timeout)
{
	rr_real.poll = poll_played;
	return rr_unmet_poll(p, timeout);
}

/* Is it known without the kernel? */
static inline bool is_seen(short events)
{
	struct pollfd p = { fd, events, 0 };
	int calls = kernel.calls, none = 0;
	bool is = polled(&p, &none) == 1 && kernel.calls == calls;

	cr_assert(!is || p.revents == events);
	cr_assert_eq(so->f.refs, 2);
	return is;
}

static inline int queued(void)
{
	int n = -1;

	cr_assert_eq(ioctl(fd, FIONREAD, &n), 0);
	return n;
}

#endif
