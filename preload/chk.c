/* SPDX-License-Identifier: BSD-3-Clause */
/* The names that programs built with -D_FORTIFY_SOURCE call. Each checks the buffer's size and
 * is the ordinary call otherwise. If the buffer is too small, libc's own function is called,
 * which prints the message and aborts. */

#include "preload/real.h"
#include "preload/wrap.h"

ssize_t rr_wrap___read_chk(int fd, void *buf, size_t n, size_t room)
{
	if (unlikely(n > room))
		return rr_real.__read_chk(fd, buf, n, room);
	return rr_wrap_read(fd, buf, n);
}

ssize_t rr_wrap___recv_chk(int fd, void *buf, size_t n, size_t room, int flags)
{
	if (unlikely(n > room))
		return rr_real.__recv_chk(fd, buf, n, room, flags);
	return rr_wrap_recv(fd, buf, n, flags);
}

ssize_t rr_wrap___recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags,
			       struct sockaddr *addr, socklen_t *len)
{
	if (unlikely(n > room))
		return rr_real.__recvfrom_chk(fd, buf, n, room, flags, addr, len);
	return rr_wrap_recvfrom(fd, buf, n, flags, addr, len);
}

int rr_wrap___poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
	if (unlikely(n > room / sizeof(*fds)))
		return rr_real.__poll_chk(fds, n, timeout, room);
	return rr_wrap_poll(fds, n, timeout);
}

int rr_wrap___ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			const sigset_t *mask, size_t room)
{
	if (unlikely(n > room / sizeof(*fds)))
		return rr_real.__ppoll_chk(fds, n, timeout, mask, room);
	return rr_wrap_ppoll(fds, n, timeout, mask);
}
