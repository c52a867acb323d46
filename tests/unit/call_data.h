/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CALL_DATA_H
#define CALL_DATA_H

/* For tests of the data calls: what the connection says to each attempt, and what it was asked. */

#include "preload/epset.h"
#include "tests/unit/call.h"

/* What the connection was asked, and what it says: the answers in order, the last one again and again. */
static struct script {
	ssize_t says[8];
	int answers, calls;
	int n, flags;		/* of the last call */
	size_t bytes;		/* of all its pieces */
	const void *first;
} rx, tx;
static char msg[] RR_UNUSED = "0123456789";

static inline void set_script(struct script *s, const ssize_t *says, int n)
{
	*s = (struct script){ .answers = n };
	cr_assert_leq(n, (int)rr_array_size(s->says));
	memcpy(s->says, says, (size_t)n * sizeof(*says));
	errno = MINE;
}
#define SAYS(s, ...) set_script(s, (const ssize_t[]){ __VA_ARGS__ }, (int)rr_array_size(((ssize_t[]){ __VA_ARGS__ })))

static inline ssize_t by_script(struct script *s, const struct iovec *iov, int n, int flags)
{
	ssize_t r = s->says[rr_min(s->calls, s->answers - 1)];

	s->calls++;
	s->n = n;
	s->flags = flags;
	s->first = n ? iov->iov_base : NULL;
	s->bytes = 0;
	for (int i = 0; i < n; i++)
		s->bytes += iov[i].iov_len;
	return r;
}

static inline ssize_t recv_script(struct rr_conn *c RR_UNUSED, int fd, const struct iovec *iov, int n, int flags)
{
	cr_assert_eq(fd, at.fd);
	return by_script(&rx, iov, n, flags);
}

static inline ssize_t send_script(struct rr_conn *c RR_UNUSED, int fd, const struct iovec *iov, int n, int flags)
{
	cr_assert_eq(fd, at.fd);
	return by_script(&tx, iov, n, flags);
}

static int kept;

static inline void keep_it(struct rr_conn *c RR_UNUSED, int err)
{
	kept = err;
}

static inline void begin_data(void)
{
	begin_call();
	rr_fake.recv = recv_script;
	rr_fake.send = send_script;
	rr_fake.keep_error = keep_it;
	SAYS(&rx, -EIO);
	SAYS(&tx, -EIO);
}

static inline unsigned used_up_bits(void)
{
	unsigned dry = ((struct rr_ep_watch *)at.so->watches)->dry;

	((struct rr_ep_watch *)at.so->watches)->dry = 0;
	return dry;
}

static inline void assert_asked(struct script *s, int calls, const void *first, int n, size_t bytes, int flags)
{
	cr_assert_eq(s->calls, calls, "%d", s->calls);
	cr_assert(s->first == first && s->n == n && s->bytes == bytes && s->flags == flags, "%d %zu %x", s->n, s->bytes,
		  s->flags);
	s->calls = 0;
}

static inline void do_not_block(void)
{
	cr_assert_eq(fcntl(at.fd, F_SETFL, O_NONBLOCK), 0);
}

static _Atomic int pipes;

static inline void on_pipe(int sig RR_UNUSED)
{
	pipes++;
}

#endif
