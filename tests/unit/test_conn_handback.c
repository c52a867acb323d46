/* SPDX-License-Identifier: BSD-3-Clause */
/* A forked child asks its parent for a connection: by a message to the door, with a descriptor. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/conn/family/family.h"
#include "tests/lib/connpair.h"

static struct rr_share share;
static int asked, error;

static ssize_t refuses(int fd, const struct msghdr *m, int flags)
{
	cr_assert_eq(fd, share.back.door);
	cr_assert(flags & MSG_DONTWAIT && flags & MSG_NOSIGNAL);
	(void)m;
	asked++;
	errno = error;
	return -1;
}

/* A door that is full has the message of somebody whose asking will be heard: it is asked again. */
Test(conn_handback, a_door_that_is_full_is_no_failure)
{
	struct rr_os os;

	rr_test_setup();
	os = *rr_os;
	os.sendmsg = refuses;
	rr_os = &os;
	share.back.door = 7;
	error = EAGAIN;
	cr_assert_eq(rr_handback_ask(&share, 0), 0);
	error = EPIPE;
	cr_assert_eq(rr_handback_ask(&share, 0), -EPIPE);
	cr_assert_eq(asked, 2);
}

Test(conn_handback, the_door_hears_which_connection_and_gets_the_descriptor)
{
	struct rr_share *which = NULL;
	struct iovec iov = { &which, sizeof(which) };
	union {
		struct cmsghdr hdr;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf) };
	int fd[2], pipe_fd[2], got;

	rr_test_setup();
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	cr_assert_eq(pipe(pipe_fd), 0);
	share.back.door = fd[0];
	cr_assert_eq(rr_handback_ask(&share, pipe_fd[1]), 0);
	cr_assert_eq(recvmsg(fd[1], &m, MSG_DONTWAIT), sizeof(which));
	cr_assert_eq(which, &share);
	cr_assert(CMSG_FIRSTHDR(&m) && ctl.hdr.cmsg_type == SCM_RIGHTS && ctl.hdr.cmsg_level == SOL_SOCKET);
	memcpy(&got, CMSG_DATA(&ctl.hdr), sizeof(got));
	cr_assert_eq(write(got, "x", 1), 1);
	cr_assert_eq(read(pipe_fd[0], &(char){ 0 }, 1), 1);
}
