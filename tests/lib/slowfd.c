/* SPDX-License-Identifier: BSD-3-Clause */
/* A socket that lingers, and how it gets into another process. */
#include "tests/lib/slowfd.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int slow_to_close(int *reader)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int l = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	struct linger long_time = { 1, 60 };
	socklen_t len = sizeof(a);
	static char bytes[65536];

	if (bind(l, (struct sockaddr *)&a, len) || listen(l, 1) || getsockname(l, (struct sockaddr *)&a, &len) ||
	    connect(fd, (struct sockaddr *)&a, len))
		exit(2);
	*reader = accept(l, NULL, NULL);
	close(l);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &long_time, sizeof(long_time));
	return fd;
}

bool hand_over(int sock, const void *packet, size_t len, const int *fds, int n)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(HAND_OVER_MAX * sizeof(int))];
	} ctl = { .room = "" };
	struct iovec iov = { (void *)packet, len };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &ctl, .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int)),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
	return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}
