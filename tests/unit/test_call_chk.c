/* SPDX-License-Identifier: BSD-3-Clause */
/* The names with a buffer's size: what fits is the ordinary call, and what does not is libc's to abort for. */
#include "tests/unit/call_data.h"

static int aborted;
static size_t aborted_room;

static ssize_t abort_read(int fd RR_UNUSED, void *buf RR_UNUSED, size_t n RR_UNUSED, size_t room)
{
	aborted++;
	aborted_room = room;
	return 77;
}

static ssize_t abort_recv(int fd, void *buf, size_t n, size_t room, int flags RR_UNUSED)
{
	return abort_read(fd, buf, n, room);
}

static ssize_t abort_recvfrom(int fd, void *buf, size_t n, size_t room, int flags RR_UNUSED,
			      struct sockaddr *addr RR_UNUSED, socklen_t *len RR_UNUSED)
{
	return abort_read(fd, buf, n, room);
}

static int abort_poll(struct pollfd *fds RR_UNUSED, nfds_t n RR_UNUSED, int timeout RR_UNUSED, size_t room)
{
	return (int)abort_read(0, NULL, 0, room);
}

static int abort_ppoll(struct pollfd *fds RR_UNUSED, nfds_t n RR_UNUSED, const struct timespec *timeout RR_UNUSED,
		       const sigset_t *mask RR_UNUSED, size_t room)
{
	return (int)abort_read(0, NULL, 0, room);
}

static void begin_chk(void)
{
	begin_data();
	rr_real.__read_chk = abort_read;
	rr_real.__recv_chk = abort_recv;
	rr_real.__recvfrom_chk = abort_recvfrom;
	rr_real.__poll_chk = abort_poll;
	rr_real.__ppoll_chk = abort_ppoll;
	SAYS(&rx, 4);
	SAYS(&tx, 4);
}

TestSuite(call_chk, .init = begin_chk, .timeout = 60);

/* The call has not been made with the connection. */
#define assert_aborts(r, room) do {							\
	aborted = rx.calls = 0;								\
	cr_assert_eq((r), 77);								\
	cr_assert(aborted == 1 && aborted_room == (room) && rx.calls == 0);		\
} while (0)

Test(call_chk, what_fits_is_received)
{
	char buf[8];

	for (size_t room = 4; room < 6; room++) {
		assert_said(rr_wrap___read_chk(at.fd, buf, 4, room), 4);
		assert_asked(&rx, 1, buf, 1, 4, 0);
		assert_said(rr_wrap___recv_chk(at.fd, buf, 4, room, MSG_PEEK), 4);
		assert_asked(&rx, 1, buf, 1, 4, MSG_PEEK);
		assert_said(rr_wrap___recvfrom_chk(at.fd, buf, 4, room, MSG_PEEK, NULL, NULL), 4);
		assert_asked(&rx, 1, buf, 1, 4, MSG_PEEK);
	}
	cr_assert_eq(aborted, 0);
	assert_aborts(rr_wrap___read_chk(at.fd, buf, 5, 4), 4);
	assert_aborts(rr_wrap___recv_chk(at.fd, buf, 5, 4, 0), 4);
	assert_aborts(rr_wrap___recvfrom_chk(at.fd, buf, 5, 4, 0, NULL, NULL), 4);
}

Test(call_chk, an_array_that_fits_is_polled)
{
	struct pollfd p[2] = { { at.fd, POLLIN, 0 }, { -1, 0, 0 } };
	struct timespec none = { 0, 0 };

	at.c->ready = POLLIN;
	cr_assert_eq(rr_wrap___poll_chk(p, 2, 0, sizeof(p)), 1);
	cr_assert_eq(p[0].revents, POLLIN);
	p[0].revents = 0;
	cr_assert_eq(rr_wrap___ppoll_chk(p, 2, &none, NULL, sizeof(p) + 7), 1);
	cr_assert_eq(p[0].revents, POLLIN);
	cr_assert_eq(aborted, 0);
	assert_aborts(rr_wrap___poll_chk(p, 2, 0, sizeof(p) - 1), sizeof(p) - 1);
	assert_aborts(rr_wrap___ppoll_chk(p, 2, &none, NULL, sizeof(p) - 1), sizeof(p) - 1);
}
