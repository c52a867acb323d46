/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_LIBC_H
#define RR_LIBC_H

/* The types in calls.def. The fortified and redirected inline variants of what we define
 * ourselves must not come with them. */

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
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == sizeof(off64_t), "the *64 names are aliases");

#endif
