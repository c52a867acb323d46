/* SPDX-License-Identifier: BSD-3-Clause */
/* d_calls SEED CALLS: makes that many calls, which SEED picks, on two connections whose bytes are RPC
 * records, and prints what each of them did: result, errno, bits, bytes. Run once without the library
 * and once with it, it must say the same twice (tests/preload/differ).
 *
 * A model of both streams keeps to what can be compared. What is written is whole records, few enough to
 * lie unread; a call that would sleep for ever is not made; and after each that has an effect at the other
 * end, that is waited for. What docs/INTERPOSITION.md says is different is left out: urgent data,
 * edge-triggered sets, splice, wrong pointers other than NULL. */

#include <inttypes.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "tests/preload/d_data.h"
#include "tests/preload/d_wait.h"

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

/* For tests/preload/shrink: which calls are to be made, and chance as it stood before each of
 * them (D_LIST); where that is to be told (D_TRACE). So a call can be left out, and the others
 * stay what they are. */
static struct listed {
	int number;
	uint64_t random;
} *list;
static int listed;
static FILE *trace;

static void open_lists(void)
{
	const char *from = getenv("D_LIST"), *to = getenv("D_TRACE");
	struct listed l;
	FILE *f;

	trace = to ? fopen(to, "a") : NULL;
	f = from ? fopen(from, "r") : NULL;
	CHECK(!from == !f && !to == !trace);
	while (f && fscanf(f, "%d %" SCNu64, &l.number, &l.random) == 2) {
		list = realloc(list, sizeof(l) * (size_t)(listed + 1));
		CHECK(list);
		list[listed++] = l;
	}
	if (f)
		fclose(f);
}

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

/* Makes ready for the next call, if there is one up to number last. */
static bool next_call(int last)
{
	if (list) {
		const struct listed *l = &list[w->listed];

		if (w->listed == listed || l->number > last)
			return false;
		w->calls = l->number - 1;
		w->random = l->random;
		w->listed++;
		return true;
	}
	if (w->calls >= last)
		return false;
	if (trace) {
		fprintf(trace, "%d %" PRIu64 "\n", w->calls + 1, w->random);
		fflush(trace);
	}
	return true;
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
	int status, last;
	pid_t pid;

	if (half_way)	/* half way across is one process's matter */
		return;
	say("fork\n");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		child = true;
		last = w->calls + 1 + (int)chance(6);
		while (next_call(last))
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

	half_way = getenv("P_HALF_WAY");
	open_lists();
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
	while (next_call(calls))
		one_call();
	return fflush(stdout) ? 1 : 0;
}
