/* SPDX-License-Identifier: BSD-3-Clause */
/* The system calls of core (struct rr_os), made directly. libc's functions are cancellation
 * points: a thread cancelled inside core would leave a lock held. And they may be another
 * interposer's, which core has nothing to do with. */

#include "preload/rawos.h"

#include "preload/libc.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int raw_socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}

static int raw_bind(int fd, const struct sockaddr *a, socklen_t len)
{
	return (int)syscall(SYS_bind, fd, a, len);
}

static int raw_listen(int fd, int backlog)
{
	return (int)syscall(SYS_listen, fd, backlog);
}

static int raw_connect(int fd, const struct sockaddr *a, socklen_t len)
{
	return (int)syscall(SYS_connect, fd, a, len);
}

static int raw_accept4(int fd, struct sockaddr *a, socklen_t *len, int flags)
{
	return (int)syscall(SYS_accept4, fd, a, len, flags);
}

static int raw_shutdown(int fd, int how)
{
	return (int)syscall(SYS_shutdown, fd, how);
}

static int raw_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

static int raw_fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	return (int)syscall(RR_SYS_FCNTL, fd, cmd, arg);
}

static int raw_ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	long arg;

	va_start(ap, request);
	arg = va_arg(ap, long);
	va_end(ap);
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

static int raw_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	return (int)syscall(SYS_getsockopt, fd, level, name, val, len);
}

static int raw_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	return (int)syscall(SYS_setsockopt, fd, level, name, val, len);
}

static int raw_getsockname(int fd, struct sockaddr *a, socklen_t *len)
{
	return (int)syscall(SYS_getsockname, fd, a, len);
}

static int raw_getpeername(int fd, struct sockaddr *a, socklen_t *len)
{
	return (int)syscall(SYS_getpeername, fd, a, len);
}

static ssize_t raw_recv(int fd, void *buf, size_t len, int flags)
{
	return syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL);
}

static ssize_t raw_send(int fd, const void *buf, size_t len, int flags)
{
	return syscall(SYS_sendto, fd, buf, len, flags, NULL, 0);
}

static ssize_t raw_recvmsg(int fd, struct msghdr *m, int flags)
{
	return syscall(SYS_recvmsg, fd, m, flags);
}

static ssize_t raw_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return syscall(SYS_sendmsg, fd, m, flags);
}

static int raw_poll(struct pollfd *p, nfds_t n, int ms)
{
	struct timespec ts = { ms / 1000, (long)(ms % 1000) * 1000000 };

	return (int)syscall(SYS_ppoll, p, n, ms < 0 ? NULL : &ts, NULL, 8);
}

const struct rr_os rr_raw_os = {
	.socket = raw_socket, .bind = raw_bind, .listen = raw_listen, .connect = raw_connect,
	.accept4 = raw_accept4, .shutdown = raw_shutdown, .close = raw_close,
	.fcntl = raw_fcntl, .ioctl = raw_ioctl, .getsockopt = raw_getsockopt,
	.setsockopt = raw_setsockopt, .getsockname = raw_getsockname,
	.getpeername = raw_getpeername, .recv = raw_recv, .send = raw_send,
	.recvmsg = raw_recvmsg, .sendmsg = raw_sendmsg, .poll = raw_poll,
};
