/* SPDX-License-Identifier: BSD-3-Clause */
/* idlesvc PORT|PATH: an RPC server on epoll that answers every call with an empty result. Not libtirpc,
 * whose servers use poll(). Says "ready" when it listens. */
#include <sys/epoll.h>

#include "common.h"
#include "tests/lib/rpc.h"

#define MAXFD	65536

static struct { uint32_t have, left; unsigned char head[8]; } in[MAXFD]; /* per connection */

static int reply(int fd, uint32_t xid)
{
	unsigned char w[RPC_REPLY_HEAD];

	return write(fd, w, rpc_put_reply(w, xid, 0)) == sizeof(w);
}

/* Reads what is there of records, each of one fragment, and answers. False: the connection ended. */
static int take(int fd)
{
	static unsigned char buf[1 << 16];
	ssize_t n = read(fd, buf, sizeof(buf));

	if (n <= 0)
		return 0;
	for (ssize_t at = 0; at < n;) {
		if (in[fd].have < 8) {
			in[fd].head[in[fd].have++] = buf[at++];
			if (in[fd].have < 8)
				continue;
			in[fd].left = (rpc_get(in[fd].head, 0) & ~RPC_LAST) - 4;
		} else {
			uint32_t k = (uint32_t)(n - at) < in[fd].left ? (uint32_t)(n - at) : in[fd].left;

			at += k;
			in[fd].left -= k;
		}
		if (in[fd].left == 0) {
			in[fd].have = 0;
			if (!reply(fd, rpc_get(in[fd].head, RPC_XID)))
				return 0;
		}
	}
	return 1;
}

static void watch(int ep, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
}

static void serve(int lfd)
{
	int ep = epoll_create1(0);

	watch(ep, lfd);
	say_ready();
	for (;;) {
		struct epoll_event ev[64];
		int n = epoll_wait(ep, ev, 64, -1);

		for (int i = 0; i < n; i++) {
			int fd = ev[i].data.fd;

			if (fd == lfd) {
				fd = accept(lfd, NULL, NULL);
				if (fd >= 0 && fd < MAXFD)
					watch(ep, fd);
			} else if (!take(fd)) {
				memset(&in[fd], 0, sizeof(in[fd]));
				close(fd);
			}
		}
	}
}

int main(int argc, char **argv)
{
	struct address a;

	if (argc != 2)
		return 64;
	a = address_of(argv[1]);
	serve(listen_at(&a));
	return 0;
}
