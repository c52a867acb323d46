/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef D_DATA_H
#define D_DATA_H

/* Of d_calls: what writes and reads. */

#include <limits.h>

#include "tests/preload/d_model.h"

/* --- writing --- */

static const int send_flags[] = { 0, 0, MSG_NOSIGNAL, MSG_DONTWAIT, MSG_CONFIRM, MSG_MORE };	/* the last: not at the end */

/* The same bytes in n pieces, some of them empty. */
static int cut(struct iovec *v, int n, unsigned char *p, size_t len)
{
	for (int i = 0; i < n; i++) {
		size_t take = i == n - 1 ? len : one_in(4) ? 0 : chance((uint32_t)len + 1);

		v[i] = (struct iovec){ take || one_in(2) ? p : NULL, take };
		p += take;
		len -= take;
	}
	return n;
}

static ssize_t by_sendfile(int fd, const unsigned char *p, size_t n)
{
	bool own = one_in(2);
	int f = p_file(p, n);
	off_t at = 0;
	ssize_t r;

	CHECK_EQ(lseek(f, 0, SEEK_SET), 0);
	r = TRY(sendfile(fd, f, own ? NULL : &at, n));
	say(" at %lld", (long long)(own ? lseek(f, 0, SEEK_CUR) : at));
	CHECK_EQ(close(f), 0);
	return r;
}

static ssize_t write_call(int fd, unsigned char *p, size_t n, bool last)
{
	int flags = send_flags[chance(P_COUNT(send_flags) - last)], pieces = 1 + (int)chance(20);
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct iovec v[20];
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = v, .msg_iovlen = (size_t)pieces } } };
	long long r;

	cut(v, pieces, p, n);
	switch (chance(8)) {
	case 0: say("write"); return TRY(write(fd, p, n));
	case 1: say("send %x", flags); return TRY(send(fd, p, n, flags));
	case 2: say("sendto %x", flags);
		return TRY(sendto(fd, p, n, flags, (struct sockaddr *)&to, sizeof(to)));
	case 3: say("writev %d", pieces); return TRY(writev(fd, v, pieces));
	case 4: say("pwritev2 %d", pieces); return TRY(pwritev2(fd, v, pieces, -1, 0));
	case 5: say("sendmsg %d %x", pieces, flags); return TRY(sendmsg(fd, &m[0].msg_hdr, flags));
	case 6: say("sendfile"); return by_sendfile(fd, p, n);
	default: say("sendmmsg %d %x", pieces, flags);
		m[1].msg_hdr.msg_iov = &v[pieces / 2];
		m[1].msg_hdr.msg_iovlen = (size_t)(pieces - pieces / 2);
		m[0].msg_hdr.msg_iovlen = (size_t)(pieces / 2);
		r = TRY(sendmmsg(fd, m, 2, flags));
		say(" %u %u", r > 0 ? m[0].msg_len : 0, r > 1 ? m[1].msg_len : 0);
		return r < 0 ? r : (ssize_t)((r > 0 ? m[0].msg_len : 0) + (r > 1 ? m[1].msg_len : 0));
	}
}

/* A call, or the reply to one that e has read. */
static size_t a_record(struct end *x, uint32_t *xid)
{
	size_t len = one_in(10) ? ARGUMENT : 4 * (size_t)chance(100);
	unsigned which;

	*xid = 0;
	if (x->ntodo && !one_in(4)) {
		which = chance(x->ntodo);
		len = rpc_reply(out, x->todo[which], len);
		x->todo[which] = x->todo[--x->ntodo];
		return len;
	}
	*xid = ++w->xid;
	return rpc_call(out, *xid, len);
}

/* To a peer that is gone some writes still succeed; how many is not compared. */
static bool has_room(int e)
{
	struct end *to = &w->end[other(e)];

	return to->nfds && !shut(other(e)) && unread(other(e)) < UNREAD && to->past - to->first < RECORDS;
}

static void do_write(void)
{
	int e = a_live_end();
	struct end *x = &w->end[e], *to = &w->end[other(e)];
	size_t len, done = 0, part;
	uint32_t xid;
	ssize_t r = 0;

	if (!has_room(e)) {
		say("no room");
		return;
	}
	for (len = a_record(x, &xid); done < len && r >= 0; done += r > 0 ? (size_t)r : 0) {
		int fd = a_number(e);

		part = one_in(3) ? 1 + chance((uint32_t)(len - done)) : len - done;
		say("%s%d: %zu by ", done ? "; " : "", fd, part);
		r = write_call(fd, out + done, part, done + part == len);
	}
	x->sent += (int64_t)done;
	if (done == len) {
		to->ends[to->past % RECORDS] = x->sent;
		to->xid[to->past++ % RECORDS] = xid;
	}
}

static void do_write_nothing(void)
{
	int fd = a_number(an_end());
	struct msghdr m = { 0 };
	struct iovec v[2] = { { NULL, 0 }, { out, 0 } };

	say("%d: nothing by ", fd);
	switch (chance(7)) {
	case 0: say("write"); TRY(write(fd, out, 0)); break;
	case 1: say("write of NULL"); TRY(write(fd, NULL, 0)); break;
	case 2: say("send"); TRY(send(fd, out, 0, MSG_NOSIGNAL)); break;
	case 3: say("writev 2"); TRY(writev(fd, v, 2)); break;
	case 4: say("writev 0"); TRY(writev(fd, v, 0)); break;
	case 5: say("sendmsg"); TRY(sendmsg(fd, &m, MSG_NOSIGNAL)); break;
	default: say("sendmmsg"); TRY(sendmmsg(fd, NULL, 0, 0)); break;
	}
}

/* --- reading --- */

/* Would the kernel let a call sleep for ever that wants n bytes, with these flags? */
static bool would_sleep(int e, size_t n, int flags)
{
	const struct end *x = &w->end[e];
	int64_t need = flags & MSG_WAITALL || x->lowat > (int64_t)n ? (int64_t)n : x->lowat;

	return !(flags & MSG_DONTWAIT) && !x->nonblock && !x->timeout && !over(e) &&
	       unread(e) < (need ? need : 1);
}

static ssize_t read_call(int fd, unsigned char *p, size_t n, int flags, bool plain)
{
	int pieces = 1 + (int)chance(20);
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	struct iovec v[20];
	struct mmsghdr m = { .msg_hdr = { .msg_iov = v, .msg_iovlen = (size_t)pieces, .msg_name = &from,
					  .msg_namelen = sizeof(from), .msg_flags = -1 } };
	long long r;

	cut(v, pieces, p, n);
	switch (plain ? chance(3) : 3 + chance(4)) {
	case 0: say("read"); return TRY(read(fd, p, n));
	case 1: say("readv %d", pieces); return TRY(readv(fd, v, pieces));
	case 2: say("preadv2 %d", pieces); return TRY(preadv2(fd, v, pieces, -1, 0));
	case 3: say("recv %x", flags); return TRY(recv(fd, p, n, flags));
	case 4: say("recvfrom %x", flags);
		r = TRY(recvfrom(fd, p, n, flags, (struct sockaddr *)&from, &len));
		say(" from %u", len);
		return r;
	case 5: say("recvmsg %d %x", pieces, flags);
		r = TRY(recvmsg(fd, &m.msg_hdr, flags));
		break;
	default: say("recvmmsg %d %x", pieces, flags);
		r = TRY(recvmmsg(fd, &m, 1, flags, NULL));
		r = r > 0 ? m.msg_len : r;
		say(" %lld", r);
	}
	say(" from %u flags %x", m.msg_hdr.msg_namelen, (unsigned)m.msg_hdr.msg_flags);
	return r;
}

static size_t how_much(int e)
{
	switch (chance(6)) {
	case 0: return 0;
	case 1: return 4;
	case 2: return 1 + chance(100);
	case 3: return 1 + chance(UNREAD + ARGUMENT);
	case 4: return (size_t)unread(e);
	default: return 1 + chance((uint32_t)unread(e) + 1);
	}
}

static void do_read(void)
{
	int e = a_live_end(), fd = a_number(e), flags = 0;
	bool plain = one_in(2);
	size_t n = how_much(e);
	ssize_t r;

	if (!plain)
		flags = (one_in(3) ? MSG_DONTWAIT : 0) | (one_in(4) ? MSG_PEEK : 0) |
			(one_in(4) ? MSG_WAITALL : 0) | (one_in(6) ? MSG_TRUNC : 0) |
			(one_in(9) ? MSG_CMSG_CLOEXEC : 0) | (one_in(9) ? MSG_NOSIGNAL : 0);
	say("%d: %zu by ", fd, n);
	if (would_sleep(e, n, flags)) {
		say("nothing: it would sleep");
		return;
	}
	memset(in, 0x5a, sizeof(in));
	r = read_call(fd, in, n, flags, plain);
	say(" %08x", sum(in, sizeof(in)));
	if (r > 0 && !(flags & MSG_PEEK))
		has_read(e, r);
}

static void read_up(int e)
{
	int64_t n = unread(e), r;

	if (!w->end[e].nfds || !n)
		return;
	say("; %d: the rest", w->end[e].fd[0]);
	r = TRY(recv(w->end[e].fd[0], in, sizeof(in), MSG_DONTWAIT));
	has_read(e, r > 0 ? r : 0);
}

/* What the kernel looks at before it looks at the data. */
static void do_odd_read(void)
{
	int e = a_live_end(), fd = one_in(5) ? NOBODYS : a_number(e);
	struct iovec v[2] = { { in, SIZE_MAX }, { in, 1 } }, *volatile nothing = NULL;
	struct msghdr m = { .msg_iov = v, .msg_iovlen = IOV_MAX + 1 };
	volatile int few = -1, many = IOV_MAX + 1;

	say("%d: odd ", fd);
	switch (chance(7)) {
	case 0: say("readv -1"); TRY(readv(fd, v, few)); break;
	case 1: say("readv too many"); TRY(readv(fd, v, many)); break;
	case 2: say("readv too long"); TRY(readv(fd, v, 2)); break;
	case 3: say("recvmsg too many"); TRY(recvmsg(fd, &m, MSG_DONTWAIT)); break;
	case 4: say("readv of NULL"); TRY(readv(fd, nothing, 1)); break;
	case 5: say("preadv2 at 0"); TRY(preadv2(fd, v + 1, 1, 0, 0)); break;
	default: say("preadv2 with what is no flag"); TRY(preadv2(fd, v + 1, 1, -1, 1 << 20)); break;
	}
}

#endif
