/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef D_WAIT_H
#define D_WAIT_H

/* Of d_calls: what waits. */

#include <sys/time.h>

#include "tests/preload/d_model.h"

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
		int fd = one_in(8) ? (child ? -1 : ANY_OF(-1, NOBODYS, half_way ? file : sets[1])) : a_number(an_end());

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
	int set = (int)chance(SETS), fd = one_in(20) ? ANY_OF(NOBODYS, file, half_way ? file : sets[1]) : a_number(a_live_end());
	int op = ANY_OF(EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, 9);

	for (unsigned i = 0; i < P_COUNT(epoll_bits); i++)
		ev.events |= one_in(2) ? epoll_bits[i] : 0;
	if (set == 0 && one_in(2))
		ev.events |= EPOLLONESHOT;	/* which sets[1] has none of, since it is polled, and put into
						 * sets[0]: where a ONESHOT event was told of a connection that
						 * has ended, its set is readable once more (INTERPOSITION.md) */
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

#endif
