/* SPDX-License-Identifier: BSD-3-Clause */
/* MSG_* flags, time-outs, EINTR: what a call does when it cannot do it all at once. */

#include <limits.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "tests/preload/calls.h"

static unsigned char rec[300000], got[300000];

static size_t put_call(int fd, size_t arg)
{
	size_t n = rpc_call(rec, 50, arg);

	p_write_all(fd, rec, n);
	return n;
}

static void peek_leaves_the_bytes(void)
{
	int s[2];
	size_t n;

	rpc_pair(s);
	n = put_call(s[0], 400);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(recv(s[1], got, 10, MSG_PEEK), 10);
	CHECK_EQ(memcmp(got, rec, 10), 0);
	CHECK_EQ(recv(s[1], got, sizeof(got), MSG_PEEK), n);
	CHECK_EQ(recv(s[1], got, sizeof(got), 0), n);
	CHECK_EQ(memcmp(got, rec, n), 0);
	CHECK_ERR(recv(s[1], got, 10, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
}

static void dontwait_and_nonblock_give_eagain(void)
{
	struct iovec v = { got, 10 };
	int s[2];

	rpc_pair(s);
	CHECK_ERR(recv(s[1], got, 10, MSG_DONTWAIT), EAGAIN);
	CHECK_ERR(preadv2(s[1], &v, 1, -1, RWF_NOWAIT), EAGAIN);
	p_nonblock(s[1], true);
	CHECK_ERR(read(s[1], got, 10), EAGAIN);
	CHECK_ERR(recv(s[1], got, 10, MSG_WAITALL), EAGAIN);
	CHECK_ERR(recv(s[1], got, 0, 0), EAGAIN);
	CHECK_EQ(read(s[1], got, 0), 0);
}

/* As ntirpc reads: the mark with MSG_WAITALL, the body with MSG_DONTWAIT. */
static void waitall_waits_for_all(void)
{
	size_t n;
	int s[2];

	rpc_pair(s);
	n = put_call(s[0], 200000);
	CHECK_EQ(recv(s[1], got, 4, MSG_WAITALL), 4);
	CHECK_EQ(rpc_get(got, 0) & 0x7fffffff, n - 4);
	CHECK_EQ(recv(s[1], got + 4, n - 4, MSG_WAITALL), n - 4);
	CHECK_EQ(memcmp(got, rec, n), 0);
}

static void *late_records(void *arg)
{
	int fd = *(int *)arg;
	unsigned char buf[64];

	for (uint32_t i = 0; i < 3; i++) {
		usleep(20000);
		p_write_all(fd, buf, rpc_call(buf, i, 0));
	}
	usleep(20000);
	CHECK_EQ(shutdown(fd, SHUT_WR), 0);
	return NULL;
}

static void waitall_spans_records_and_ends_at_eof(void)
{
	pthread_t t;
	int s[2];

	rpc_pair(s);
	pthread_create(&t, NULL, late_records, &s[0]);
	CHECK_EQ(recv(s[1], got, 2 * RPC_CALL_HEAD, MSG_WAITALL), 2 * RPC_CALL_HEAD);
	CHECK_EQ(recv(s[1], got, 1000, MSG_WAITALL), RPC_CALL_HEAD);
	CHECK_EQ(recv(s[1], got, 1000, MSG_WAITALL), 0);
	pthread_join(t, NULL);
}

static void waitall_fills_a_vector_piece_by_piece(void)
{
	struct iovec v[] = { { got, 30 }, { got, 0 }, { got + 30, 30 }, { got + 60, 50 },
			     { got + 110, 22 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 5 };
	pthread_t t;
	int s[2];

	rpc_pair(s);
	pthread_create(&t, NULL, late_records, &s[0]);
	CHECK_EQ(recvmsg(s[1], &m, MSG_WAITALL), 3 * RPC_CALL_HEAD);
	for (uint32_t i = 0; i < 3; i++) {
		CHECK_EQ(rpc_call(rec, i, 0), RPC_CALL_HEAD);
		CHECK_EQ(memcmp(got + i * RPC_CALL_HEAD, rec, RPC_CALL_HEAD), 0);
	}
	CHECK_EQ(v[0].iov_len, 30);	/* the vector is the program's */
	pthread_join(t, NULL);
}

static void peek_with_waitall_waits_too(void)
{
	pthread_t t;
	int s[2];

	rpc_pair(s);
	pthread_create(&t, NULL, late_records, &s[0]);
	CHECK_EQ(recv(s[1], got, 2 * RPC_CALL_HEAD, MSG_WAITALL | MSG_PEEK), 2 * RPC_CALL_HEAD);
	CHECK_EQ(recv(s[1], got, 3 * RPC_CALL_HEAD, MSG_WAITALL), 3 * RPC_CALL_HEAD);
	pthread_join(t, NULL);
}

/* On a connection whose first call is answered, whatever carries that. */
static void peek_with_waitall_ends_at_eof(void)
{
	enum { HANG = 20 };
	struct timeval tv = { HANG, 0 };
	time_t since;
	int s[2];

	rpc_new_pair(s);
	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	put_call(s[0], 0);
	rpc_serve_null(s[1]);
	CHECK_EQ(close(s[1]), 0);
	since = time(NULL);
	CHECK_EQ(recv(s[0], got, RPC_REPLY_HEAD + 1, MSG_PEEK | MSG_WAITALL), RPC_REPLY_HEAD);
	CHECK(time(NULL) - since < HANG / 2);	/* not by the time-out */
	CHECK_EQ(recv(s[0], got, RPC_REPLY_HEAD + 1, MSG_WAITALL), RPC_REPLY_HEAD);
}

static void trunc_throws_bytes_away(void)
{
	size_t n;
	int s[2];

	rpc_pair(s);
	n = put_call(s[0], 100);
	CHECK(p_readable(s[1], P_SOON));
	memset(got, 0x5a, 64);
	CHECK_EQ(recv(s[1], got, 20, MSG_TRUNC), 20);
	CHECK_EQ(got[0], 0x5a);
	CHECK_EQ(recv(s[1], NULL, 4, MSG_TRUNC), 4);
	CHECK_EQ(recv(s[1], got, sizeof(got), 0), n - 24);
	CHECK_EQ(memcmp(got, rec + 24, n - 24), 0);
}

static void peek_with_trunc_counts_all_that_is_there(void)
{
	size_t n;
	int s[2], there;

	rpc_pair(s);
	n = put_call(s[0], 60000);
	while (ioctl(s[1], FIONREAD, &there) || (size_t)there < n)
		usleep(100);
	CHECK_EQ(recv(s[1], NULL, sizeof(got), MSG_PEEK | MSG_TRUNC), n);
	CHECK_EQ(recv(s[1], NULL, n - 1, MSG_PEEK | MSG_TRUNC), n - 1);
	CHECK_EQ(recv(s[1], got, sizeof(got), 0), n);
}

static void peek_and_waitall_do_not_wait_with_dontwait(void)
{
	size_t n;
	int s[2];

	rpc_pair(s);
	n = put_call(s[0], 0);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(recv(s[1], got, n + 1, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT), n);
}

static void recv_of_nothing_waits_once(void)
{
	struct timeval tv = { 0, 20000 };
	int s[2];

	rpc_pair(s);
	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	CHECK_EQ(recv(s[1], got, 0, 0), 0);
	CHECK_ERR(recv(s[1], got, 1, 0), EAGAIN);
}

/* A page, and no memory behind it: who looks at more than there can be is found out. */
static void too_many_pieces_are_not_looked_at(void)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec *v = (struct iovec *)(void *)(p + 4096) - 2;
	volatile int many = INT_MAX;
	int s[2];

	rpc_pair(s);
	CHECK_EQ(mprotect(p + 4096, 4096, PROT_NONE), 0);
	CHECK_ERR(readv(s[1], v, many), EINVAL);
	CHECK_ERR(writev(s[1], v, many), EINVAL);
	CHECK_EQ(writev(s[1], v, 2), 0);
	CHECK_EQ(shutdown(s[1], SHUT_WR), 0);
	CHECK_EQ(writev(s[1], v, 2), 0);
	CHECK_ERR(send(s[1], got, 0, MSG_NOSIGNAL), EPIPE);
}

static void no_urgent_data_is_einval(void)
{
	int s[2];

	rpc_pair(s);
	CHECK_ERR(recv(s[1], got, 1, MSG_OOB), EINVAL);
	CHECK_ERR(recv(s[1], got, 1, MSG_ERRQUEUE | MSG_DONTWAIT), EAGAIN);
}

static void fionread_counts_what_can_be_read(void)
{
	int s[2], n = -1;
	size_t len;

	rpc_pair(s);
	CHECK_EQ(ioctl(s[1], FIONREAD, &n), 0);
	CHECK_EQ(n, 0);
	len = put_call(s[0], 1000);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(ioctl(s[1], FIONREAD, &n), 0);
	CHECK_EQ(n, len);
	CHECK_EQ(read(s[1], got, 44), 44);
	CHECK_EQ(ioctl(s[1], FIONREAD, &n), 0);
	CHECK_EQ(n, len - 44);
}

/* --- time-outs --- */

static void rcvtimeo_ends_in_eagain(void)
{
	struct timeval tv = { 0, 50000 };
	int s[2];

	rpc_pair(s);
	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	CHECK_ERR(read(s[1], got, 10), EAGAIN);
	CHECK_ERR(recv(s[1], got, 10, MSG_WAITALL), EAGAIN);
	CHECK_EQ(put_call(s[0], 0), RPC_CALL_HEAD);
	CHECK(p_readable(s[1], P_SOON));
	CHECK_EQ(recv(s[1], got, 100, MSG_WAITALL), RPC_CALL_HEAD);
}

/* Nobody reads: sooner or later a write is short, and at last one writes nothing. (The kernel's
 * buffer grows meanwhile, so that a short one need not be the last that writes.) */
static void sndtimeo_ends_in_eagain(void)
{
	struct timeval tv = { 0, 50000 };
	size_t n = rpc_call(rec, 60, 200000), at = 0;
	ssize_t r;
	int s[2];

	rpc_pair(s);
	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)), 0);
	while ((r = write(s[0], rec + at % n, n - at % n)) > 0) {
		at += (size_t)r;
		CHECK(at < 1000 * n);
	}
	CHECK_EQ(r, -1);
	CHECK_EQ(errno, EAGAIN);
}

/* --- signals --- */

static volatile sig_atomic_t handled;

static void on_signal(int sig P_UNUSED)
{
	handled++;
}

static void handle(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
}

struct poke {
	pthread_t who;
	pid_t tid;	/* the same thread */
	int fd;		/* then written to, unless -1 */
	_Atomic bool over;	/* … and then signals go on until this */
};

/* Who is poked sleeps, and once more, if it is to, before it gets what it waits for. */
static void *poker(void *arg)
{
	struct poke *p = arg;
	unsigned char buf[64];

	p_asleep(p->tid);
	if (p->fd < 0) {
		p_interrupt(p->who, &p->over);
		return NULL;
	}
	pthread_kill(p->who, SIGUSR1);
	while (!P_TSAN && !handled)	/* TSan sees no atomics there */
		usleep(100);
	p_asleep(p->tid);
	p_write_all(p->fd, buf, rpc_call(buf, 3, 0));
	return NULL;
}

static void a_handler_interrupts_a_read(void)
{
	struct poke p = { .who = pthread_self(), .tid = gettid(), .fd = -1 };
	pthread_t t;
	int s[2];

	rpc_pair(s);
	handle(0);
	pthread_create(&t, NULL, poker, &p);
	CHECK_ERR(read(s[1], got, 10), EINTR);
	p.over = true;
	CHECK(handled >= 1);
	pthread_join(t, NULL);
}

static void sa_restart_restarts_a_read(void)
{
	struct poke p = { .who = pthread_self(), .tid = gettid(), .fd = -1 };
	pthread_t t;
	int s[2];

	rpc_pair(s);
	p.fd = s[0];
	handle(SA_RESTART);
	pthread_create(&t, NULL, poker, &p);
	CHECK_EQ(read(s[1], got, 100), RPC_CALL_HEAD);
	CHECK_EQ(handled, 1);
	pthread_join(t, NULL);
}

/* As crash reporters install it. The kernel decides by the handler that ran, and this never does. */
static void a_handler_for_crashes_interrupts_nothing(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	CHECK_EQ(sigaction(SIGSEGV, &sa, NULL), 0);
	sa_restart_restarts_a_read();
}

static void with_a_timeout_a_read_is_not_restarted(void)
{
	struct poke p = { .who = pthread_self(), .tid = gettid(), .fd = -1 };
	struct timeval tv = { P_SOON / 1000, 0 };
	pthread_t t;
	int s[2];

	rpc_pair(s);
	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	handle(SA_RESTART);
	pthread_create(&t, NULL, poker, &p);
	CHECK_ERR(read(s[1], got, 100), EINTR);
	p.over = true;
	pthread_join(t, NULL);
}

/* SO_RCVLOWAT keeps poll() quiet up to what can lie there, and not for ever. */
static void so_much_shows_in_the_end(int lowat, size_t arg)
{
	size_t n = rpc_call(rec, 60, arg), sent = 0;
	struct pollfd p = { .events = POLLIN };
	int s[2], inq;
	ssize_t r;

	rpc_pair(s);
	p.fd = s[1];
	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)), 0);
	p_nonblock(s[0], true);
	while (poll(&p, 1, 0) == 0) {
		r = write(s[0], rec + sent % n, n - sent % n);
		sent += r > 0 ? (size_t)r : 0;
	}
	CHECK_EQ(ioctl(s[1], FIONREAD, &inq), 0);
	CHECK(inq >= 20000);
}

static void a_low_water_mark_is_heeded_and_no_trap(void)
{
	so_much_shows_in_the_end(100000, 200);
	so_much_shows_in_the_end(200000, 20000);
	so_much_shows_in_the_end(1 << 30, 0);
	so_much_shows_in_the_end(1 << 30, 20000);
}

struct late {
	int fd;
	useconds_t by;
};

static void *reads_late(void *arg)
{
	static unsigned char buf[65536];
	const struct late *l = arg;

	usleep(l->by);
	while (read(l->fd, buf, sizeof(buf)) > 0)
		;
	return NULL;
}

/*
 * Two messages, of which the first is more than fits, to a reader who begins to read `late`
 * microseconds from now. True when the first was cut; a reader who was there before the writer's
 * time was up took all of it.
 */
static bool cut(useconds_t late)
{
	size_t n = rpc_call(rec, 60, 200000), m = rpc_call(got, 61, 0);
	struct timeval tv = { 0, 100000 };
	struct iovec v[1000], after = { got, m };
	struct mmsghdr msgs[2] = { { .msg_hdr = { .msg_iov = v, .msg_iovlen = 1000 } },
				   { .msg_hdr = { .msg_iov = &after, .msg_iovlen = 1 } } };
	struct late l = { .by = late };
	pthread_t t;
	int s[2], r;
	bool is;

	for (int i = 0; i < 1000; i++)
		v[i] = (struct iovec){ rec, n };
	rpc_pair(s);
	l.fd = s[1];
	CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)), 0);
	CHECK_EQ(pthread_create(&t, NULL, reads_late, &l), 0);
	r = sendmmsg(s[0], msgs, 2, 0);
	is = msgs[0].msg_len < 1000 * n;
	CHECK_EQ(r, is ? 1 : 2);
	CHECK_EQ(close(s[0]), 0);
	pthread_join(t, NULL);
	close(s[1]);
	return is;
}

/* There is room again after the cut: what comes next is the rest of it, not the next message. */
static void sendmmsg_ends_with_a_message_that_is_cut(void)
{
	useconds_t late = 150000;

	while (!cut(late))
		late *= 2;
}

static _Atomic bool poked_enough;

/* A signal before the write sleeps says nothing about sleeping. */
static void *poke_on(void *arg)
{
	struct poke *p = arg;

	do {
		usleep(50000);
		pthread_kill(p->who, SIGUSR1);
	} while (!poked_enough);
	return NULL;
}

static void a_handler_after_some_bytes_makes_a_write_short(void)
{
	size_t n = rpc_call(rec, 60, 200000);
	struct poke p = { .who = pthread_self(), .tid = gettid(), .fd = -1 };
	pthread_t t;
	ssize_t r;
	int s[2];

	rpc_pair(s);
	handle(0);
	pthread_create(&t, NULL, poke_on, &p);
	do {
		r = write(s[0], rec, n);
	} while (r == (ssize_t)n);
	CHECK(r > 0 || (r < 0 && errno == EINTR));
	CHECK(handled > 0);
	poked_enough = true;
	pthread_join(t, NULL);
}

/* --- a blocking write of more than fits --- */

static void *slow_reader(void *arg)
{
	int fd = *(int *)arg;
	static unsigned char buf[300000];

	for (int i = 0; i < 40; i++) {
		CHECK_EQ(rpc_read(fd, buf, sizeof(buf)), RPC_CALL_HEAD + 200000);
		if (i < 5)
			usleep(5000);
	}
	return NULL;
}

static void a_blocking_write_writes_everything(void)
{
	size_t n = rpc_call(rec, 60, 200000);
	pthread_t t;
	int s[2];

	rpc_pair(s);
	pthread_create(&t, NULL, slow_reader, &s[1]);
	for (int i = 0; i < 40; i++)
		CHECK_EQ(write(s[0], rec, n), n);
	pthread_join(t, NULL);
}

static void a_nonblocking_write_stops_and_goes_on(void)
{
	size_t n = rpc_call(rec, 60, 200000), at = 0;
	struct pollfd p = { .events = POLLOUT };
	pthread_t t;
	int s[2];
	ssize_t r;

	rpc_pair(s);
	p_nonblock(s[0], true);
	pthread_create(&t, NULL, slow_reader, &s[1]);
	p.fd = s[0];
	while (at < 40 * n) {
		r = write(s[0], rec + at % n, n - at % n);
		if (r < 0) {
			CHECK_EQ(errno, EAGAIN);
			CHECK_EQ(poll(&p, 1, P_SOON), 1);
			continue;
		}
		at += (size_t)r;
	}
	pthread_join(t, NULL);
}

/* Flags that are for files mean nothing to a socket, and bytes with them are bytes. */
static void write_flags_for_files_mean_nothing(void)
{
	static const int flag[] = { RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_APPEND };
	unsigned char buf[256];
	int s[2];

	rpc_pair(s);
	for (uint32_t i = 0; i < 4; i++) {
		struct iovec v = { buf, rpc_call(buf, i + 10, 0) };

		CHECK_EQ(pwritev2(s[0], &v, 1, -1, flag[i]), v.iov_len);
		rpc_serve_null(s[1]);
		CHECK_EQ(rpc_read(s[0], buf, sizeof(buf)), RPC_REPLY_HEAD);
	}
}

/* Urgent data is the kernel's, and so is everything after it. */
static void urgent_data_before_the_first_call_is_urgent(void)
{
	unsigned char c = 0;
	int s[2], one = 1;

	p_pair(s);
	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one)), 0);
	CHECK_EQ(send(s[0], "!", 1, MSG_OOB), 1);
	CHECK_EQ(recv(s[1], &c, 1, 0), 1);
	CHECK_EQ(c, '!');
	for (uint32_t i = 1; i < 4; i++) {
		unsigned char buf[256];

		p_write_all(s[0], buf, rpc_call(buf, i, 0));
		CHECK_EQ(rpc_read(s[1], buf, sizeof(buf)), RPC_CALL_HEAD);
	}
}

static const struct p_case cases[] = {
	{ "write_flags_for_files_mean_nothing", write_flags_for_files_mean_nothing },
	{ "urgent_data_before_the_first_call_is_urgent",
	  urgent_data_before_the_first_call_is_urgent },
	{ "peek_leaves_the_bytes", peek_leaves_the_bytes },
	{ "dontwait_and_nonblock_give_eagain", dontwait_and_nonblock_give_eagain },
	{ "waitall_waits_for_all", waitall_waits_for_all },
	{ "waitall_spans_records_and_ends_at_eof", waitall_spans_records_and_ends_at_eof },
	{ "waitall_fills_a_vector_piece_by_piece", waitall_fills_a_vector_piece_by_piece },
	{ "peek_with_waitall_waits_too", peek_with_waitall_waits_too },
	{ "peek_with_waitall_ends_at_eof", peek_with_waitall_ends_at_eof },
	{ "trunc_throws_bytes_away", trunc_throws_bytes_away },
	{ "peek_with_trunc_counts_all_that_is_there", peek_with_trunc_counts_all_that_is_there },
	{ "peek_and_waitall_do_not_wait_with_dontwait", peek_and_waitall_do_not_wait_with_dontwait },
	{ "recv_of_nothing_waits_once", recv_of_nothing_waits_once },
	{ "too_many_pieces_are_not_looked_at", too_many_pieces_are_not_looked_at },
	{ "no_urgent_data_is_einval", no_urgent_data_is_einval },
	{ "fionread_counts_what_can_be_read", fionread_counts_what_can_be_read },
	{ "rcvtimeo_ends_in_eagain", rcvtimeo_ends_in_eagain },
	{ "sndtimeo_ends_in_eagain", sndtimeo_ends_in_eagain },
	{ "a_low_water_mark_is_heeded_and_no_trap", a_low_water_mark_is_heeded_and_no_trap },
	{ "sendmmsg_ends_with_a_message_that_is_cut", sendmmsg_ends_with_a_message_that_is_cut },
	{ "a_handler_interrupts_a_read", a_handler_interrupts_a_read },
	{ "sa_restart_restarts_a_read", sa_restart_restarts_a_read },
	{ "a_handler_for_crashes_interrupts_nothing", a_handler_for_crashes_interrupts_nothing },
	{ "with_a_timeout_a_read_is_not_restarted", with_a_timeout_a_read_is_not_restarted },
	{ "a_handler_after_some_bytes_makes_a_write_short",
	  a_handler_after_some_bytes_makes_a_write_short },
	{ "a_blocking_write_writes_everything", a_blocking_write_writes_everything },
	{ "a_nonblocking_write_stops_and_goes_on", a_nonblocking_write_stops_and_goes_on },
};

P_MAIN(cases)
