/* SPDX-License-Identifier: BSD-3-Clause */
/* A TCP connection in memory. */
#include "tests/lib/fakenet.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/compiler.h"

struct end {
	uint8_t in[FAKENET_ROOM];
	size_t n;		/* bytes in there */
	bool fin;		/* the peer sends no more */
	bool shut_rd, shut_wr, closed, linger;
	bool reset;
	int err;		/* SO_ERROR */
	uint64_t sent;
};

static struct end ends[2];
static unsigned hindrances;
static bool was_reset;

static struct end *end_of(int fd)
{
	unsigned i = (unsigned)(fd - FAKENET_FD);

	return i < 2 && !ends[i].closed ? &ends[i] : NULL;
}

static struct end *other(struct end *e)
{
	return &ends[e == ends];
}

void fakenet_open(void)
{
	memset(ends, 0, sizeof(ends));
	hindrances = 0;
	was_reset = false;
}

static int fail(int err)
{
	errno = err;
	return -1;
}

static void reset_end(struct end *e, int err)
{
	was_reset = true;
	if (e->reset || e->closed)
		return;
	e->reset = true;
	e->err = err;
}

void fakenet_reset(void)
{
	reset_end(&ends[0], ECONNRESET);
	reset_end(&ends[1], ECONNRESET);
}

void fakenet_hinder(unsigned n)
{
	hindrances = n;
}

bool fakenet_was_reset(void)
{
	return was_reset;
}

static bool hinders(void)
{
	return hindrances && hindrances--;
}

static int take_error(struct end *e)
{
	int err = e->err;

	e->err = 0;
	return err;
}

/* --- rr_os --- */

static ssize_t os_recv(int fd, void *buf, size_t len, int flags)
{
	struct end *e = end_of(fd);
	size_t n;

	if (!e)
		return fail(EBADF);
	if (hinders())
		return fail(hindrances & 1 ? EINTR : EAGAIN);
	n = rr_min(len, e->n);
	if (n) {
		memcpy(buf, e->in, n);
		if (!(flags & MSG_PEEK)) {
			e->n -= n;
			memmove(e->in, e->in + n, e->n);
		}
		return (ssize_t)n;
	}
	if (e->err)
		return fail(take_error(e));
	return e->fin || e->reset || e->shut_rd ? 0 : fail(EAGAIN);
}

static ssize_t os_send(int fd, const void *buf, size_t len, int flags)
{
	struct end *e = end_of(fd), *to;
	size_t n;

	(void)flags;
	if (!e)
		return fail(EBADF);
	if (e->err)
		return fail(take_error(e));
	if (e->shut_wr || e->reset)
		return fail(EPIPE);
	to = other(e);
	n = rr_min(len, FAKENET_ROOM - to->n);
	/* A fresh socket has room for an offer, and for an end mark one that has carried
	 * nothing else. */
	if (e->sent && n > 24 && hinders())
		n /= 2;
	if (!n && len)
		return fail(EAGAIN);
	e->sent += n;
	if (to->closed) {	/* a segment that nobody is there for */
		reset_end(e, EPIPE);
		return (ssize_t)n;
	}
	memcpy(to->in + to->n, buf, n);
	to->n += n;
	return (ssize_t)n;
}

static int os_shutdown(int fd, int how)
{
	struct end *e = end_of(fd);

	if (!e)
		return fail(EBADF);
	e->shut_rd |= how != SHUT_WR;
	e->shut_wr |= how != SHUT_RD;
	if (how != SHUT_RD)
		other(e)->fin = true;
	return 0;
}

static int bits(const struct end *e, int want)
{
	bool in_over = e->fin || e->reset || e->shut_rd, out_over = e->shut_wr || e->reset;
	const struct end *to = &ends[e == ends];
	int got = 0;

	if (e->n || in_over)
		got |= POLLIN | POLLRDNORM;
	if (in_over)
		got |= POLLRDHUP;
	if (in_over && out_over)
		got |= POLLHUP;
	if (e->err)
		got |= POLLERR;
	if (out_over || to->closed || to->n < FAKENET_ROOM)
		got |= POLLOUT | POLLWRNORM;
	return got & (want | POLLHUP | POLLERR);
}

static int os_poll(struct pollfd *p, nfds_t n, int timeout)
{
	int any = 0;

	(void)timeout;
	for (nfds_t i = 0; i < n; i++) {
		const struct end *e = p[i].fd < 0 ? NULL : end_of(p[i].fd);

		p[i].revents = (short)(p[i].fd < 0 ? 0 : e ? bits(e, p[i].events) : POLLNVAL);
		any += p[i].revents != 0;
	}
	return any;
}

static int os_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct end *e = end_of(fd);
	struct tcp_info info = { 0 };
	int v = 0;

	if (!e)
		return fail(EBADF);
	if (level == IPPROTO_TCP && name == TCP_INFO) {
		info.tcpi_bytes_sent = e->sent;
		*len = rr_min(*len, (socklen_t)sizeof(info));
		memcpy(val, &info, *len);
		return 0;
	}
	if (level == SOL_SOCKET && name == SO_ERROR)
		v = take_error(e);
	else if (level == SOL_SOCKET && name == SO_SNDBUF)
		v = 2 * FAKENET_ROOM;
	*len = rr_min(*len, (socklen_t)sizeof(v));
	memcpy(val, &v, *len);
	return 0;
}

static int os_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	struct end *e = end_of(fd);

	(void)val;
	(void)len;
	if (!e)
		return fail(EBADF);
	e->linger |= level == SOL_SOCKET && name == SO_LINGER;
	return 0;
}

static int name_of(int i, struct sockaddr *sa, socklen_t *len)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)(2000 + i)),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	memcpy(sa, &in, rr_min(*len, (socklen_t)sizeof(in)));
	*len = sizeof(in);
	return 0;
}

static int os_getsockname(int fd, struct sockaddr *sa, socklen_t *len)
{
	return end_of(fd) ? name_of(fd - FAKENET_FD, sa, len) : fail(EBADF);
}

static int os_getpeername(int fd, struct sockaddr *sa, socklen_t *len)
{
	return end_of(fd) ? name_of(!(fd - FAKENET_FD), sa, len) : fail(EBADF);
}

/* What would make descriptors: there are none to be had. */
static int os_socket(int domain, int type, int protocol)
{
	(void)domain, (void)type, (void)protocol;
	return fail(EMFILE);
}

static int os_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	(void)fd, (void)sa, (void)len, (void)flags;
	return fail(EMFILE);
}

static int os_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	(void)fd, (void)sa, (void)len;
	return fail(ECONNREFUSED);
}

static int os_listen(int fd, int n)
{
	(void)fd, (void)n;
	return fail(EINVAL);
}

static int os_close(int fd)
{
	if (end_of(fd))
		abort();	/* the app's descriptors are the app's */
	return close(fd);
}

static int os_fcntl(int fd, int cmd, ...)
{
	(void)fd, (void)cmd;
	return fail(EMFILE);
}

static int os_ioctl(int fd, unsigned long what, ...)
{
	struct end *e = end_of(fd);
	va_list ap;

	if (!e || (what != FIONREAD && what != SIOCOUTQ))
		return fail(EINVAL);
	va_start(ap, what);
	*va_arg(ap, int *) = (int)(what == FIONREAD ? e->n : other(e)->n);
	va_end(ap);
	return 0;
}

/* Each message in one piece, as one recv() or send(): a hindrance is one for all of it. */
static ssize_t os_recvmsg(int fd, struct msghdr *m, int flags)
{
	static uint8_t buf[FAKENET_ROOM];
	size_t total = 0, at = 0;
	ssize_t n;

	for (size_t i = 0; i < m->msg_iovlen; i++)
		total += m->msg_iov[i].iov_len;
	n = os_recv(fd, buf, rr_min(total, sizeof(buf)), flags);
	for (size_t i = 0; n > 0 && at < (size_t)n; i++) {
		size_t k = rr_min(m->msg_iov[i].iov_len, (size_t)n - at);

		memcpy(m->msg_iov[i].iov_base, buf + at, k);
		at += k;
	}
	m->msg_controllen = 0;
	return n;
}

static ssize_t os_sendmsg(int fd, const struct msghdr *m, int flags)
{
	static uint8_t buf[FAKENET_ROOM];
	size_t n = 0;

	for (size_t i = 0; i < m->msg_iovlen && n < sizeof(buf); i++) {
		size_t k = rr_min(m->msg_iov[i].iov_len, sizeof(buf) - n);

		memcpy(buf + n, m->msg_iov[i].iov_base, k);
		n += k;
	}
	return os_send(fd, buf, n, flags);
}

const struct rr_os fakenet_os = {
	.socket = os_socket, .bind = os_connect, .listen = os_listen, .connect = os_connect,
	.accept4 = os_accept4, .shutdown = os_shutdown, .close = os_close, .fcntl = os_fcntl,
	.ioctl = os_ioctl, .getsockopt = os_getsockopt, .setsockopt = os_setsockopt,
	.getsockname = os_getsockname, .getpeername = os_getpeername,
	.recv = os_recv, .send = os_send,
	.recvmsg = os_recvmsg, .sendmsg = os_sendmsg, .poll = os_poll,
};

/* --- the app's own calls --- */

ssize_t fakenet_send(int fd, const void *buf, size_t len)
{
	ssize_t n = os_send(fd, buf, len, 0);

	return n < 0 ? -errno : n;
}

ssize_t fakenet_recv(int fd, void *buf, size_t len, int flags)
{
	ssize_t n = os_recv(fd, buf, len, flags);

	return n < 0 ? -errno : n;
}

int fakenet_poll(int fd, int want)
{
	struct pollfd p = { fd, (short)want, 0 };

	os_poll(&p, 1, 0);
	return (unsigned short)p.revents;
}

void fakenet_shutdown(int fd, int how)
{
	os_shutdown(fd, how);
}

void fakenet_close(int fd)
{
	struct end *e = end_of(fd);

	if (!e)
		return;
	if (e->linger || e->n)
		reset_end(other(e), ECONNRESET);
	else
		other(e)->fin = true;
	was_reset |= e->linger || e->n;
	e->closed = true;
}
