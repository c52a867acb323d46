/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_LIBC_H
#define RR_LIBC_H

/* The headers that declare the types in calls.def. They must not bring along the fortified and
 * redirected inline variants of the functions that we define ourselves. __off_t is the offset
 * type of the names without 64, whatever _FILE_OFFSET_BITS is; off_t is not. */

#undef _FORTIFY_SOURCE

#include <poll.h>
#include <stdio.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* 32-bit machines have some system calls twice. There the plain name is the old one, with
 * 16-bit user ids or 32-bit offsets. */
#ifdef SYS_setuid32
#define RR_SYS(name)	SYS_##name##32
#else
#define RR_SYS(name)	SYS_##name
#endif
#ifdef SYS_fcntl64
#define RR_SYS_FCNTL	SYS_fcntl64
#else
#define RR_SYS_FCNTL	SYS_fcntl
#endif
#ifdef SYS_sendfile64
#define RR_SYS_SENDFILE64 SYS_sendfile64
#else
#define RR_SYS_SENDFILE64 SYS_sendfile
#endif

/* In a variadic function: the one argument that comes after last, which has the size of a
 * pointer, or nothing. */
#define RR_LAST_ARG(arg, last) \
	__builtin_va_list ap; \
	void *arg; \
	__builtin_va_start(ap, last); \
	arg = __builtin_va_arg(ap, void *); \
	__builtin_va_end(ap)

#endif
