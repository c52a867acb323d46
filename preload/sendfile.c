/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls for files that an app may make with a connection: sendfile() becomes a copy loop,
 * splice() is refused, and lseek() stays the kernel's. */

#include "preload/io.h"

#include <errno.h>
#include <unistd.h>

#include "core/base/diag.h"
#include "preload/appmem.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/sock.h"
#include "preload/wrap.h"

enum { COPY = 4096, COPY_LITTLE = 512 };	/* of the caller's stack, which may be
						 * PTHREAD_STACK_MIN */

/* Consumes only as much of the file as was sent. */
static ssize_t copy_file(int out, int in, off64_t *off, size_t n)
{
	off64_t at = off ? *off : rr_real.lseek64(in, 0, SEEK_CUR);
	size_t room = rr_fits_stack(COPY) ? COPY : COPY_LITTLE, done = 0;
	ssize_t r = 0, want;
	char buf[room];

	if (at < 0)
		return -EINVAL;		/* not a file */
	do {
		want = pread64(in, buf, rr_min(n - done, room), at);
		if (want <= 0) {
			r = want < 0 ? -errno : 0;
			break;
		}
		r = rr_io_send(out, RR_PIECE(buf, (size_t)want), 1, 0);
		if (r <= 0)
			break;
		done += (size_t)r;
		at += r;
	} while (r == want && done < n);
	if (!done)
		return r;
	if (off)
		*off = at;
	else
		rr_real.lseek64(in, at, SEEK_SET);
	return (ssize_t)done;
}

/* Is out a connection of ours, and off, if the app has one, memory? If it is not, the kernel
 * says what is wrong with it. */
static bool may_copy(int out, const void *off, size_t size)
{
	struct rr_sock *so;

	if (likely(!rr_conn_at(out, &so)))
		return false;
	rr_file_put(&so->f);
	return !off || rr_appmem_readable(RR_PIECE(off, size), 1);
}

/* RR_CONN_KERNEL: out is no connection of ours any more. */
static ssize_t send_file(int out, int in, off64_t *off, size_t n)
{
	int saved = errno;
	ssize_t r = copy_file(out, in, off, n);

	errno = saved;
	return r;
}

ssize_t rr_wrap_sendfile64(int out, int in, off64_t *off, size_t n)
{
	ssize_t r = RR_CONN_KERNEL;

	if (unlikely(may_copy(out, off, sizeof(*off))))
		r = send_file(out, in, off, n);
	return r == RR_CONN_KERNEL ? rr_real.sendfile64(out, in, off, n) : rr_ret(r);
}

ssize_t rr_wrap_sendfile(int out, int in, __off_t *off, size_t n)
{
	ssize_t r = RR_CONN_KERNEL;
	off64_t wide = 0;

	if (unlikely(may_copy(out, off, sizeof(*off)))) {
		wide = off ? *off : 0;
		r = send_file(out, in, off ? &wide : NULL, n);
	}
	if (r == RR_CONN_KERNEL)
		return rr_real.sendfile(out, in, off, n);
	if (off)
		*off = (__off_t)wide;
	return rr_ret(r);
}

/* A connection that is carried, or whose upgrade is under way, cannot be spliced: the result is
 * EINVAL, as for many files, and callers copy instead. If nothing was said to the peer yet, the
 * connection becomes TCP for good. True: make the plain call. */
static bool may_splice(int fd)
{
	struct rr_sock *so;
	struct rr_conn *c = rr_conn_at(fd, &so);
	int saved = errno;
	bool free;

	if (likely(!c))
		return true;
	free = rr_conn_let_go(c);
	rr_sock_after(so, c);
	rr_diag(free ? "splice: TCP from here on" : "splice: EINVAL", fd);
	rr_file_put(&so->f);
	errno = saved;
	return free;
}

ssize_t rr_wrap_splice(int in, off64_t *in_off, int out, off64_t *out_off, size_t n,
		       unsigned flags)
{
	if (!may_splice(in) || !may_splice(out))
		return rr_ret(-EINVAL);
	return rr_real.splice(in, in_off, out, out_off, n, flags);
}

/* A socket has ESPIPE, carried or not. */
__off_t rr_wrap_lseek(int fd, __off_t off, int whence)
{
	return rr_real.lseek(fd, off, whence);
}

off64_t rr_wrap_lseek64(int fd, off64_t off, int whence)
{
	return rr_real.lseek64(fd, off, whence);
}
