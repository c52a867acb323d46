/* SPDX-License-Identifier: BSD-3-Clause */
/* d_calls SEED CALLS: makes that many calls, which SEED picks, on two connections whose bytes are RPC
 * records, and prints what each of them did: result, errno, bits, bytes. Run once without the library
 * and once with it, it must say the same twice (tests/preload/differ).
 *
 * A model of both streams keeps to what can be compared. What is written is whole records, few enough to
 * lie unread; a call that would sleep for ever is not made; and after each that has an effect at the other
 * end, that is waited for. What docs/INTERPOSITION.md says is different is left out: urgent data,
 * edge-triggered sets, splice, wrong pointers other than NULL. */

#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "tests/preload/calls.h"

enum {
	CONNS = 2, ENDS = 2 * CONNS, NUMBERS = 6, RECORDS = 8, TODO = 64, SETS = 2,
	ARGUMENT = 20000,	/* of a long call */
	UNREAD = 40000,		/* what may lie unread in one direction: less than any buffer holds */
	ROOM = UNREAD + ARGUMENT + 4096,
	NOBODYS = 60,		/* a number that is never open, and that select() looks at all the same */
};

/* One end of a connection. Its peer is at its index ^ 1. */
struct end {
	int fd[NUMBERS], nfds;	/* none: closed */
	int64_t sent, got;	/* bytes */
	int64_t ends[RECORDS];	/* of the records to it that are not read yet: where in the stream */
	uint32_t xid[RECORDS];	/* of a call; 0: of a reply */
	unsigned first, past;
	uint32_t todo[TODO];	/* calls that it has read, and not answered */
	unsigned ntodo;
	bool shut_rd, shut_wr, nonblock, timeout;
	int lowat;
};

/* Shared with forked children, which go on where the parent stops. */
static struct world {
	uint64_t random;
	uint32_t xid;
	int calls;
	struct end end[ENDS];
} *w;

static int sets[SETS], file = -1;
static unsigned char out[ROOM], in[ROOM];
static volatile sig_atomic_t pipes;
static bool child, ended;

/* --- chance --- */

static uint32_t chance(uint32_t below)
{
	w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(w->random >> 33) % below;
}

static bool one_in(uint32_t n)
{
	return !chance(n);
}

#define ANY_OF(...) ({ \
	const int of_[] = { __VA_ARGS__ }; \
	of_[chance(sizeof(of_) / sizeof(*of_))]; \
})

/* --- telling --- */

static void say(const char *form, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *form, ...)
{
	va_list ap;

	va_start(ap, form);
	vprintf(form, ap);
	va_end(ap);
}

/* Makes the call and tells what it returned, errno if it failed and whether errno was left alone if not. */
#define TRY(call) ({ \
	errno = 4242; \
	long long r_ = (long long)(call); \
	say(" = %lld%s", r_, r_ >= 0 && errno != 4242 ? " and errno" : ""); \
	if (r_ < 0) \
		say(" %s", strerrorname_np(errno)); \
	r_; \
})

static uint32_t sum(const unsigned char *p, size_t n)
{
	uint32_t h = 2166136261u;

	while (n--)
		h = (h ^ *p++) * 16777619u;
	return h;
}

/* --- the model --- */

static int other(int e)
{
	return e ^ 1;
}

static int64_t unread(int e)
{
	return w->end[other(e)].sent - w->end[e].got;
}

static int a_number(int e)
{
	return w->end[e].nfds ? w->end[e].fd[chance((uint32_t)w->end[e].nfds)] : NOBODYS;
}

static int an_end(void)
{
	return (int)chance(ENDS);
}

/* An end that is open, if there is one. */
static int a_live_end(void)
{
	int e = an_end();

	for (int i = 0; i < ENDS && !w->end[e].nfds; i++)
		e = (e + 1) % ENDS;
	return e;
}

/* The peer will write no more. */
static bool over(int e)
{
	return !w->end[other(e)].nfds || w->end[other(e)].shut_wr;
}

/* It reads and writes no more. What the kernel makes of bytes that still come to it is not compared, nor
 * can a reset be told from it: an end mark is such bytes. */
static bool shut(int e)
{
	return w->end[e].shut_rd && w->end[e].shut_wr;
}

static short bits_of(int fd, short want)
{
	struct pollfd p = { fd, want, 0 };

	return poll(&p, 1, 0) > 0 ? p.revents : 0;
}

/* What e's peer did has arrived: its bytes, and its end. */
static void settle(int e)
{
	int fd = w->end[e].nfds ? w->end[e].fd[0] : -1, n = -1;

	for (int i = 0; fd >= 0 && i < 40000; i++) {
		short bits = bits_of(fd, POLLRDHUP);

		if (over(e) ? bits : bits & (POLLERR | POLLHUP) ||
				     (!ioctl(fd, FIONREAD, &n) && n == unread(e)))
			return;
		usleep(500);
	}
}

/* A reset after an end shows on nothing that could be waited for. But what this process has sent goes one
 * after another through the queue of its one CPU, and so do the answers to that: they are there
 * when a datagram that was sent behind them is. The library looks at the socket some milliseconds later. */
static void all_arrives(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof(at);
	char c;

	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&at, len));
	CHECK(!getsockname(fd, (struct sockaddr *)&at, &len));
	CHECK(!connect(fd, (struct sockaddr *)&at, len));
	for (int i = 0; i < 3; i++)
		CHECK(send(fd, "", 1, 0) == 1 && recv(fd, &c, 1, 0) == 1);
	close(fd);
	usleep(20000);
}

static void on_one_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one));
}

static void settle_all(void)
{
	if (ended)
		all_arrives();
	ended = false;
	for (int e = 0; e < ENDS; e++)
		settle(e);
}

/* e has read n bytes: calls that are whole now want an answer. */
static void has_read(int e, int64_t n)
{
	struct end *x = &w->end[e];

	for (x->got += n; x->first != x->past && x->ends[x->first % RECORDS] <= x->got; x->first++) {
		uint32_t xid = x->xid[x->first % RECORDS];

		if (xid && x->ntodo < TODO)
			x->todo[x->ntodo++] = xid;
	}
}

/* The number is no longer what it was. */
static void forget(int fd)
{
	for (int e = 0; e < ENDS; e++) {
		struct end *x = &w->end[e];

		for (int i = 0; i < x->nfds; i++)
			if (x->fd[i] == fd)
				x->fd[i--] = x->fd[--x->nfds];
		ended |= !x->nfds;
	}
}

static void add_number(int e, int fd)
{
	if (w->end[e].nfds < NUMBERS)
		w->end[e].fd[w->end[e].nfds++] = fd;
	else
		CHECK_EQ(close(fd), 0);
}

static void connect_pair(int c)
{
	int s[2], at_once = 1;

	rpc_pair(s);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(setsockopt(s[i], IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once)), 0);
		w->end[2 * c + i] = (struct end){ .fd = { s[i] }, .nfds = 1, .lowat = 1 };
	}
	say("connected: %d %d", s[0], s[1]);
}

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

/* --- waiting --- */

static const int poll_bits[] = { POLLIN, POLLOUT, POLLRDHUP, POLLPRI, POLLRDNORM, POLLWRNORM, POLLRDBAND,
				 POLLWRBAND, POLLHUP, POLLERR, POLLNVAL };

static int some_bits(void)
{
	int bits = 0;

	for (unsigned i = 0; i < P_COUNT(poll_bits); i++)
		bits |= one_in(3) ? poll_bits[i] : 0;
	return bits;
}

static void do_poll(void)
{
	struct pollfd p[12];
	struct timespec now = { 0, 0 };
	nfds_t n = 1 + chance(P_COUNT(p));

	for (nfds_t i = 0; i < n; i++) {
		int fd = one_in(8) ? (child ? -1 : ANY_OF(-1, NOBODYS, sets[1])) : a_number(an_end());

		p[i] = (struct pollfd){ fd, (short)some_bits(), -1 };
		say("%d/%x ", p[i].fd, (unsigned)p[i].events);
	}
	if (one_in(2)) {
		say("poll");
		TRY(poll(p, n, 0));
	} else {
		say("ppoll");
		TRY(ppoll(p, n, &now, NULL));
	}
	for (nfds_t i = 0; i < n; i++)
		say(" %x", (unsigned)(unsigned short)p[i].revents);
}

static void do_select(void)
{
	struct timeval tv = { 0, 0 };
	struct timespec ts = { 0, 0 };
	fd_set s[3];
	bool none[3];

	for (int i = 0; i < 3; i++) {
		FD_ZERO(&s[i]);
		none[i] = one_in(6);
		for (int k = 0; k < 4; k++) {
			int fd = one_in(20) ? NOBODYS : a_number(a_live_end());

			FD_SET(fd, &s[i]);
		}
	}
	say("select");
	if (one_in(2))
		TRY(select(NOBODYS + 1, none[0] ? NULL : &s[0], none[1] ? NULL : &s[1],
			   none[2] ? NULL : &s[2], &tv));
	else
		TRY(pselect(NOBODYS + 1, none[0] ? NULL : &s[0], none[1] ? NULL : &s[1],
			    none[2] ? NULL : &s[2], &ts, NULL));
	say(" left %ld.%06ld", (long)tv.tv_sec, (long)tv.tv_usec);
	for (int i = 0; i < 3; i++)
		for (int fd = 0; fd <= NOBODYS; fd++)
			if (FD_ISSET(fd, &s[i]))
				say(" %c%d", "rwx"[i], fd);
}

static const uint32_t epoll_bits[] = { EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLPRI, EPOLLRDNORM, EPOLLWRNORM };

static void do_epoll_ctl(void)
{
	struct epoll_event ev = { .events = one_in(20) ? EPOLLEXCLUSIVE : 0, .data.u64 = chance(1000) };
	int set = (int)chance(SETS), fd = one_in(20) ? ANY_OF(NOBODYS, file, sets[0]) : a_number(a_live_end());
	int op = ANY_OF(EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, 9);

	for (unsigned i = 0; i < P_COUNT(epoll_bits); i++)
		ev.events |= one_in(2) ? epoll_bits[i] : 0;
	if (set == 0 && one_in(2))
		ev.events |= EPOLLONESHOT;	/* which sets[1] has none of, since it is polled itself */
	if (op == 9 && !one_in(10))
		op = EPOLL_CTL_MOD;
	say("set %d: ctl %d %d %x %llu", set, op, fd, ev.events, (unsigned long long)ev.data.u64);
	TRY(epoll_ctl(one_in(30) ? NOBODYS : sets[set], op, fd, &ev));
}

static int by_data(const void *a, const void *b)
{
	const struct epoll_event *x = a, *y = b;

	if (x->data.u64 != y->data.u64)
		return x->data.u64 < y->data.u64 ? -1 : 1;
	return (x->events > y->events) - (x->events < y->events);
}

static void do_epoll_wait(void)
{
	struct epoll_event ev[64];
	struct timespec now = { 0, 0 };
	int set = (int)chance(SETS), kind = (int)chance(4), n;

	say("set %d: epoll wait %d", set, kind);
	memset(ev, 0, sizeof(ev));
	if (kind == 0)
		n = (int)TRY(epoll_wait(sets[set], ev, 64, 0));
	else if (kind == 1)
		n = (int)TRY(epoll_pwait(sets[set], ev, 64, 0, NULL));
	else if (kind == 2)
		n = (int)TRY(epoll_pwait2(sets[set], ev, 64, &now, NULL));
	else
		n = (int)TRY(epoll_wait(sets[set], ev, ANY_OF(0, -1), 0));
	if (n > 0)
		qsort(ev, (size_t)n, sizeof(*ev), by_data);
	for (int i = 0; i < n; i++)
		say(" %llu/%x", (unsigned long long)ev[i].data.u64, ev[i].events);
}

/* --- numbers --- */

static void do_dup(void)
{
	int e = one_in(8) ? an_end() : a_live_end(), fd = a_number(e), to = 40 + (int)chance(8), r;
	bool onto = false;

	switch (chance(6)) {
	case 0: say("dup %d", fd); r = (int)TRY(dup(fd)); break;
	case 1: say("dup2 %d %d", fd, to); r = (int)TRY(dup2(fd, to)); onto = true; break;
	case 2: say("dup3 %d %d", fd, to); r = (int)TRY(dup3(fd, to, O_CLOEXEC)); onto = true; break;
	case 3: say("dup3 %d badly", fd);
		r = (int)(one_in(2) ? TRY(dup3(fd, fd, 0)) : TRY(dup3(fd, a_number(an_end()), 1)));
		break;
	case 4: say("F_DUPFD %d", fd); r = (int)TRY(fcntl(fd, F_DUPFD, 30)); break;
	default: say("dup2 %d onto itself", fd); r = (int)TRY(dup2(fd, fd)); onto = r == fd; to = fd; break;
	}
	if (r < 0 || (onto && to == fd))
		return;
	if (onto)
		forget(r);
	add_number(e, r);
}

static void do_close(void)
{
	int fd = one_in(10) ? NOBODYS : a_number(an_end());

	if (one_in(4)) {
		say("close_range %d", fd);
		TRY(close_range((unsigned)fd, (unsigned)fd, 0));
	} else {
		say("close %d", fd);
		TRY(close(fd));
	}
	forget(fd);
}

static void do_close_abruptly(void)
{
	struct linger now = { 1, 0 };
	int e = an_end();

	say("reset");
	while (w->end[e].nfds && !shut(other(e))) {
		int fd = w->end[e].fd[0];

		say(" %d", fd);
		TRY(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
		TRY(close(fd));
		forget(fd);
	}
}

static void do_shutdown(void)
{
	int e = an_end(), fd = a_number(e);
	int how = ANY_OF(SHUT_WR, SHUT_WR, SHUT_RD, SHUT_RDWR, 3, -1);

	say("shutdown %d %d", fd, how);
	if (TRY(shutdown(fd, how)) == 0) {
		w->end[e].shut_rd |= how != SHUT_WR;
		w->end[e].shut_wr |= how != SHUT_RD;
		ended = true;
		if (shut(e))	/* and so its peer closes without a reset */
			read_up(other(e));
	}
}

/* --- asking and setting --- */

static void do_modes(void)
{
	int e = a_live_end(), fd = a_number(e), on = one_in(3), n = -1;

	say("%d: ", fd);
	switch (chance(7)) {
	case 0: say("O_NONBLOCK %d", on);
		if (TRY(fcntl(fd, F_SETFL, on ? O_RDWR | O_NONBLOCK : O_RDWR)) == 0)
			w->end[e].nonblock = on;
		break;
	case 1: say("FIONBIO %d", on);
		if (TRY(ioctl(fd, FIONBIO, &on)) == 0)
			w->end[e].nonblock = on;
		break;
	case 2: say("F_GETFL"); TRY(fcntl(fd, F_GETFL)); break;
	case 3: say("F_GETFD"); TRY(fcntl(fd, F_GETFD)); break;
	case 4: say("F_SETFD"); TRY(fcntl(fd, F_SETFD, FD_CLOEXEC)); break;
	case 5: say("lseek"); TRY(lseek(fd, 0, SEEK_CUR)); break;
	default: say("FIONREAD"); TRY(ioctl(fd, FIONREAD, &n)); say(" %d", n); break;
	}
}

static void do_getsockopt(void)
{
	int fd = a_number(an_end()), v[4] = { -1, -1, -1, -1 };
	int name = ANY_OF(SO_ERROR, SO_ERROR, SO_TYPE, SO_RCVLOWAT, SO_RCVTIMEO, SO_LINGER, SO_ACCEPTCONN,
			  SO_PROTOCOL, SO_KEEPALIVE, SO_OOBINLINE, 9999);
	socklen_t len = (socklen_t)ANY_OF(4, 4, 4, 16, 2, 0, -1);

	say("%d: getsockopt %d len %d", fd, name, (int)len);
	TRY(getsockopt(fd, SOL_SOCKET, name, v, &len));
	say(" len %d: %x %x %x %x", (int)len, (unsigned)v[0], (unsigned)v[1], (unsigned)v[2], (unsigned)v[3]);
}

static void do_setsockopt(void)
{
	int e = a_live_end(), fd = a_number(e), v;
	struct timeval tv = { 0, one_in(2) ? 0 : 2000 };

	say("%d: ", fd);
	switch (chance(3)) {
	case 0: say("SO_RCVTIMEO %d", (int)tv.tv_usec);
		if (TRY(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv))) == 0)
			w->end[e].timeout = tv.tv_usec != 0;
		break;
	case 1: v = ANY_OF(0, 1, 1, 1, 10, 100, 1000);
		say("SO_RCVLOWAT %d", v);
		if (TRY(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &v, sizeof(v))) == 0)
			w->end[e].lowat = v ? v : 1;
		break;
	default: v = 1; say("too short");
		TRY(setsockopt(fd, SOL_SOCKET, ANY_OF(SO_RCVLOWAT, SO_KEEPALIVE), &v, 1)); break;
	}
}

static void do_names(void)
{
	int fd = a_number(an_end());
	struct sockaddr_in a = { 0 };
	socklen_t len = (socklen_t)ANY_OF(sizeof(a), sizeof(a), 4, 0, -1);

	say("%d: getpeername len %d", fd, (int)len);
	TRY(getpeername(fd, (struct sockaddr *)&a, &len));
	say(" len %d family %d", (int)len, a.sin_family);
	len = sizeof(a);
	say("; getsockname");
	TRY(getsockname(fd, (struct sockaddr *)&a, &len));
	say(" len %d family %d %x", (int)len, a.sin_family, ntohl(a.sin_addr.s_addr));
}

static void do_again(void)
{
	int c = (int)chance(CONNS);

	if (w->end[2 * c].nfds + w->end[2 * c + 1].nfds > (one_in(4) ? NUMBERS : 1)) {
		say("still open");
		return;
	}
	for (int e = 2 * c; e < 2 * c + 2; e++)
		while (w->end[e].nfds) {
			int fd = w->end[e].fd[0];

			CHECK_EQ(close(fd), 0);
			forget(fd);
		}
	connect_pair(c);
}

/* --- all of them --- */

struct op {
	unsigned weight;
	void (*run)(void);
	bool in_child;	/* what a forked child may do as well: its numbers are its own */
};

static void do_fork(void);

static const struct op ops[] = {
	{ 30, do_write, true }, { 30, do_read, true }, { 12, do_poll, true }, { 6, do_select, true },
	{ 12, do_epoll_ctl, false }, { 12, do_epoll_wait, false }, { 4, do_write_nothing, true },
	{ 4, do_odd_read, true }, { 5, do_dup, false }, { 3, do_close, false },
	{ 1, do_close_abruptly, false }, { 2, do_shutdown, true }, { 6, do_modes, true },
	{ 6, do_getsockopt, true }, { 4, do_setsockopt, true }, { 2, do_names, true }, { 3, do_again, false },
	{ 1, do_fork, false },
};

static const struct op *pick(void)
{
	const struct op *o = ops;
	uint32_t at = 0;

	for (unsigned i = 0; i < P_COUNT(ops); i++)
		at += ops[i].weight;
	for (at = chance(at); at >= o->weight; o++)
		at -= o->weight;
	return o;
}

static void one_call(void)
{
	const struct op *o;

	do
		o = pick();
	while (child && !o->in_child);
	say("%s%d ", child ? "child " : "", ++w->calls);
	o->run();
	if (pipes)
		say(" SIGPIPE %d", (int)pipes);
	pipes = 0;
	say("\n");
	settle_all();
}

static void do_fork(void)
{
	int status;
	pid_t pid;

	say("fork\n");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		child = true;
		for (unsigned n = 1 + chance(6); n; n--)
			one_call();
		fflush(stdout);
		_exit(0);
	}
	CHECK(pid > 0);
	while (waitpid(pid, &status, 0) != pid)
		;
	say("child ends %x", (unsigned)status);
}

static void on_pipe(int sig)
{
	(void)sig;
	pipes = pipes + 1;
}

int main(int argc, char **argv)
{
	int calls = argc > 2 ? atoi(argv[2]) : 300;
	struct sigaction sa = { .sa_handler = on_pipe };

	alarm(280);
	sigaction(SIGPIPE, &sa, NULL);
	on_one_cpu();
	w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(w != MAP_FAILED);
	w->random = (uint64_t)atoll(argc > 1 ? argv[1] : "1") * 2654435761u;
	w->xid = 1000;
	file = memfd_create("d_calls", MFD_CLOEXEC);
	for (int i = 0; i < SETS; i++)
		sets[i] = epoll_create1(EPOLL_CLOEXEC);
	for (int c = 0; c < CONNS; c++) {
		connect_pair(c);
		say("\n");
	}
	while (w->calls < calls)
		one_call();
	return fflush(stdout) ? 1 : 0;
}
