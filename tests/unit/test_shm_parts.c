/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the shm provider that connections are set up with, each by itself: what lies in a socket, the listener and
 * the number that are kept, addresses. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/prov/shm/foreign.h"
#include "core/prov/shm/shm_int.h"
#include "tests/lib/no_threads.h"
#include "tests/lib/shm_pair.h"
#include "tests/lib/slowfd.h"
#include "tests/lib/mapped.h"

static int a[2], fds;

static void begin(void)
{
	shm_use_libc();
	fds = open_fds();
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, a), 0);
}

TestSuite(shm_parts, .init = begin, .timeout = 60);

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int memory(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_geq(fd, 0);
	return fd;
}

/* A packet with n descriptors of this kind, which are closed here. */
static void pass(int n, bool of_memory)
{
	int fd[4] = { 0 };

	for (int i = 0; i < n; i++) {
		int ends[2];

		if (of_memory) {
			fd[i] = memory();
			continue;
		}
		cr_assert_eq(pipe(ends), 0);
		close(ends[1]);
		fd[i] = ends[0];
	}
	cr_assert(hand_over(a[0], "x", 1, fd, n));
	for (int i = 0; i < n; i++)
		close(fd[i]);
}

static int queued(void)
{
	char byte;

	return (int)recv(a[1], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}

/* --- what lies in a socket ------------------------------------------------------------------------------------- */

Test(shm_parts, what_comes_next_in_a_socket)
{
	cr_assert(rr_shm_is_empty(a[1]) && !rr_shm_foreign_next(a[1]));
	cr_assert_eq(rr_shm_read_bell(a[1]), -1);
	cr_assert_eq(errno, EAGAIN);
	cr_assert_eq(rr_shm_peek_fd(a[1]), -EAGAIN);
	cr_assert_not(rr_shm_is_empty(-1));
	cr_assert_not(rr_shm_foreign_next(-1));
	cr_assert_eq(rr_shm_peek_fd(-1), -EBADF);
	cr_assert_eq(send(a[0], "xy", 2, 0), 2);
	cr_assert(!rr_shm_is_empty(a[1]) && !rr_shm_foreign_next(a[1]));
	cr_assert_eq(rr_shm_peek_fd(a[1]), -EPROTO);
	cr_assert_eq(rr_shm_read_bell(a[1]), 1);
	cr_assert(rr_shm_is_empty(a[1]));
	pass(1, true);
	cr_assert(!rr_shm_is_empty(a[1]) && rr_shm_foreign_next(a[1]));
	cr_assert_eq(rr_shm_read_bell(a[1]), 0);
	cr_assert_eq(queued(), 1, "it stays where it is");
}

Test(shm_parts, the_one_descriptor_of_a_packet)
{
	int fd;

	pass(1, true);
	fd = rr_shm_peek_fd(a[1]);
	cr_assert_geq(fd, 0);
	cr_assert(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(fd, F_GET_SEALS) >= 0);
	cr_assert_eq(queued(), 1);
	close(fd);
	recv(a[1], &fd, 1, 0);
	pass(2, true);
	cr_assert_eq(rr_shm_peek_fd(a[1]), -EPROTO);
	recv(a[1], &fd, 1, 0);
	cr_assert_eq(open_fds(), fds + 2, "neither is left");
}

/* Who has sent a packet may be told with it, by a number as well. */
Test(shm_parts, another_number_is_no_descriptor)
{
	int yes = 1;

	cr_assert_eq(setsockopt(a[1], SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)), 0);
	cr_assert_eq(send(a[0], "x", 1, 0), 1);
	cr_assert_eq(rr_shm_peek_fd(a[1]), -EMFILE, "there was no room for it");
	cr_assert_eq(queued(), 1);
}

Test(shm_parts, a_descriptor_for_which_there_is_no_number)
{
	struct rlimit old, few;
	int rc;

	pass(1, true);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &few);
	rc = rr_shm_peek_fd(a[1]);
	setrlimit(RLIMIT_NOFILE, &old);
	cr_assert_eq(rc, -EMFILE);
	cr_assert_eq(queued(), 1);
}

Test(shm_parts, memory_is_closed_at_once_and_others_by_a_thread)
{
	int fd = memory(), ends[2];

	rr_shm_drop_fd(fd);
	cr_assert_not(is_open(fd));
	cr_assert_eq(pipe(ends), 0);
	rr_shm_drop_fd(ends[0]);
	close(ends[1]);
	cr_assert(open_fds_get_to(fds + 2));
	cr_assert_not(rr_shm_burdened());
}

/* What is in a socket goes with it. What is closed by a thread is not closed yet, or the thread was quick. */
Test(shm_parts, a_socket_is_emptied_before_it_is_closed)
{
	for (int i = 0; i < 3; i++)
		cr_assert_eq(send(a[0], "x", 1, 0), 1);
	pass(1, true);
	cr_assert_eq(send(a[0], "x", 1, 0), 1);
	rr_shm_drop_sock(a[1]);
	cr_assert_not(is_open(a[1]));
	cr_assert(send(a[0], "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
	cr_assert_eq(open_fds(), fds + 1);
	cr_assert_not(rr_shm_burdened());
}

Test(shm_parts, a_socket_whose_peer_is_gone)
{
	cr_assert_eq(send(a[0], "x", 1, 0), 1);
	close(a[0]);
	rr_shm_drop_shut(a[1]);
	cr_assert_not(is_open(a[1]));
	cr_assert_eq(open_fds(), fds);
}

static int slow[16];

static bool goes_slowly(int sock, int n)
{
	int fd = slow_to_close(&slow[n]);
	bool rc = hand_over(sock, "x", 1, &fd, 1);

	close(fd);
	return rc;
}

/* An empty packet is not the end of what there is, which this thread would close for a minute. */
Test(shm_parts, behind_an_empty_packet_there_may_be_more, .timeout = 20)
{
	cr_assert_eq(send(a[0], "", 0, 0), 0);
	cr_assert(goes_slowly(a[0], 0));
	rr_shm_drop_sock(a[1]);
	close(slow[0]);
	cr_assert(open_fds_get_to(fds + 1));
}

/* One by one they would have no room with the thread, which takes the socket instead. */
Test(shm_parts, a_socket_with_many_of_them_goes_as_a_whole, .timeout = 20)
{
	int reader[40];

	for (size_t i = 0; i < rr_array_size(reader); i++) {
		int fd = slow_to_close(&reader[i]);

		cr_assert(hand_over(a[0], "x", 1, &fd, 1));
		close(fd);
	}
	rr_shm_drop_sock(a[1]);
	for (size_t i = 0; i < rr_array_size(reader); i++)
		close(reader[i]);
	cr_assert(open_fds_get_to(fds + 1));
}

Test(shm_parts, there_is_no_thread_where_nothing_is_to_be_closed)
{
	cr_assert_not(rr_shm_burdened());
	rr_shm_drop_fd(memory());
	cr_assert_not(rr_shm_burdened());
	cr_assert_eq(threads_asked_for, 0);
}

Test(shm_parts, without_a_thread_they_stay_until_there_is_one)
{
	no_threads = true;
	rr_shm_drop_fd(slow_to_close(&slow[0]));
	close(slow[0]);
	cr_assert_not(rr_shm_burdened());
	rr_os_nap(10 * RR_MSEC);
	cr_assert_eq(open_fds(), fds + 3);
	no_threads = false;
	rr_shm_burdened();
	cr_assert(open_fds_get_to(fds + 2));
}

Test(shm_parts, as_many_as_there_are_room_for_are_a_burden)
{
	for (int i = 0; i < 9; i++) {
		cr_assert_eq(rr_shm_burdened(), i >= 8, "%d", i);
		rr_shm_drop_fd(slow_to_close(&slow[i]));
	}
	cr_assert(rr_shm_burdened());
	for (int i = 0; i < 9; i++)
		close(slow[i]);
	cr_assert(open_fds_get_to(fds + 2));
	for (int i = 0; i < 10000 && rr_shm_burdened(); i++)
		rr_os_nap(RR_MSEC);
	cr_assert_not(rr_shm_burdened());
}

/* --- names, and the listener that is kept ---------------------------------------------------------------------- */

#define NAME	"rdmarpc-0123456789abcdef0123456789abcdef"

Test(shm_parts, a_name_has_our_form_or_is_none)
{
	char name[] = NAME;

	cr_assert(rr_shm_is_name(name));
	for (size_t i = 0; i < sizeof(name) - 1; i++) {
		static const char wrong[] = { 'g', 'A', '/', '.', '\0', '-', '`', ':' };
		char was = name[i];

		for (size_t k = 0; k < sizeof(wrong); k++) {
			name[i] = wrong[k];
			cr_assert_eq(rr_shm_is_name(name), wrong[k] == was, "%zu %d", i, wrong[k]);
		}
		name[i] = was;
	}
}

static socklen_t abstract(struct sockaddr_un *sa, const char *name, size_t len)
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	memcpy(sa->sun_path + 1, name, len);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static int bound(const char *name, size_t len, bool listens)
{
	struct sockaddr_un sa;
	int fd = rr_ownfd_raise(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	socklen_t n = abstract(&sa, name, len);

	/* another case of this file, at the same time, may have that name */
	for (int i = 0; i < 10000 && bind(fd, (void *)&sa, n); i++) {
		cr_assert_eq(errno, EADDRINUSE);
		usleep(1000);
	}
	cr_assert(!listens || listen(fd, 8) == 0);
	return fd;
}

static int visitor(const char *name)
{
	struct sockaddr_un sa;
	socklen_t n = abstract(&sa, name, RR_SHM_NAME);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

	if (connect(fd, (void *)&sa, n) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Tests run at the same time, each in a process of its own, and abstract names are for all of them. */
static const char *own_name(unsigned nth)
{
	static char name[2][RR_SHM_NAME + 1];

	snprintf(name[nth], sizeof(name[nth]), "rdmarpc-%032x", (unsigned)getpid() * 2 + nth);
	return name[nth];
}

Test(shm_parts, a_listener_is_kept_for_one)
{
	int fd = bound(own_name(0), RR_SHM_NAME, true);
	char name[RR_SHM_NAME];

	cr_assert_eq(rr_shm_listener_take(name), -1);
	cr_assert_not(rr_shm_listener_spare());
	cr_assert_not(rr_shm_listener_forget(fd));
	rr_shm_listener_keep(fd);
	cr_assert_eq(rr_shm_listener_take(name), fd);
	cr_assert_eq(memcmp(name, own_name(0), RR_SHM_NAME), 0);
	cr_assert_eq(rr_shm_listener_take(name), -1);
	rr_shm_listener_keep(fd);
	cr_assert_not(rr_shm_listener_forget(fd + 1));
	cr_assert(rr_shm_listener_forget(fd));
	cr_assert(is_open(fd) && rr_shm_listener_take(name) == -1);
	rr_shm_listener_keep(fd);
	cr_assert(rr_shm_listener_spare());
	cr_assert(!is_open(fd) && !rr_ownfd_is(fd) && !rr_shm_listener_spare());
	cr_assert_eq(visitor(own_name(0)), -1);
}

Test(shm_parts, of_two_listeners_one_is_kept)
{
	int one = bound(own_name(0), RR_SHM_NAME, true), two = bound(own_name(1), RR_SHM_NAME, true);
	char name[RR_SHM_NAME];

	rr_shm_listener_keep(one);
	rr_shm_listener_keep(two);
	cr_assert(!is_open(one) && rr_shm_listener_take(name) == two);
	cr_assert_eq(memcmp(name, own_name(1), RR_SHM_NAME), 0);
}

Test(shm_parts, a_listener_at_which_somebody_waits_is_not_used)
{
	int fd = bound(own_name(0), RR_SHM_NAME, true), one, two;
	char name[RR_SHM_NAME], byte;

	rr_shm_listener_keep(fd);
	one = visitor(own_name(0));
	two = visitor(own_name(0));
	cr_assert(one >= 0 && two >= 0);
	cr_assert_eq(rr_shm_listener_take(name), -1);
	cr_assert(!is_open(fd) && !rr_ownfd_is(fd));
	cr_assert_leq(recv(one, &byte, 1, 0), 0);
	cr_assert_leq(recv(two, &byte, 1, 0), 0);
	cr_assert_neq(errno, EAGAIN);
}

/* Whoever waits may get number 0, and an error of before says nothing of the listener. */
Test(shm_parts, a_listener_that_does_not_listen_is_told_from_one_at_which_somebody_waits)
{
	int fd = bound(own_name(0), RR_SHM_NAME, true), one;
	char name[RR_SHM_NAME], byte;

	rr_shm_listener_keep(fd);
	one = visitor(own_name(0));
	cr_assert_geq(one, 0);
	close(0);
	errno = EINVAL;
	cr_assert_eq(rr_shm_listener_take(name), -1);
	cr_assert(!is_open(fd) && !is_open(0));
	cr_assert_eq(recv(one, &byte, 1, 0), 0);
}

/* Nobody is known to wait at it, and nobody shall. */
Test(shm_parts, a_listener_that_cannot_be_looked_at_is_closed)
{
	int fd = bound(own_name(0), RR_SHM_NAME, true);
	char name[RR_SHM_NAME];
	struct rlimit was, none;

	rr_shm_listener_keep(fd);
	cr_assert_geq(visitor(own_name(0)), 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ 0, was.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	cr_assert_eq(rr_shm_listener_take(name), -1);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	cr_assert(!is_open(fd) && !rr_ownfd_is(fd));
}

/* The app may have closed the number, and have something else there now: that is left alone. */
Test(shm_parts, what_has_another_name_is_not_the_listener)
{
	static const char *const other[] = { "rdmarpc-0123456789abcdef0123456789abcdeg", NAME "0", "rdmarpc-01" };
	char name[RR_SHM_NAME];
	int fd;

	for (size_t i = 0; i < rr_array_size(other); i++) {
		fd = bound(other[i], strlen(other[i]), true);
		rr_shm_listener_keep(fd);
		cr_assert_eq(rr_shm_listener_take(name), -1);
		cr_assert(is_open(fd) && !rr_ownfd_is(fd), "%s", other[i]);
		close(fd);
	}
	fd = bound(own_name(0), RR_SHM_NAME, false);
	rr_shm_listener_keep(fd);
	cr_assert_eq(rr_shm_listener_take(name), -1);
	cr_assert(is_open(fd) && !rr_ownfd_is(fd), "it does not listen");
	close(fd);
	fd = rr_ownfd_raise(socket(AF_INET, SOCK_STREAM, 0));
	rr_shm_listener_keep(fd);
	cr_assert_not(rr_shm_listener_spare());
	cr_assert(is_open(fd) && !rr_ownfd_is(fd));
	close(fd);
	fd = rr_ownfd_raise(memory());
	rr_shm_listener_keep(fd);
	cr_assert_not(rr_shm_listener_spare());
	cr_assert(is_open(fd) && !rr_ownfd_is(fd));
}

Test(shm_parts, a_childs_copy_of_the_listener_is_closed)
{
	int fd = bound(own_name(0), RR_SHM_NAME, true), st, one;
	char name[RR_SHM_NAME];

	rr_shm_listener_keep(fd);
	if (!fork())
		_exit(rr_shm_listener_forget(fd) ? 1 : rr_shm_listener_take(name) != -1 ? 2 : is_open(fd) ? 3 : 0);
	wait(&st);
	cr_assert_eq(st, 0, "%x", (unsigned)st);
	one = visitor(own_name(0));
	cr_assert_geq(one, 0, "the parent listens still");
	close(one);
}

/* --- the number that is kept ----------------------------------------------------------------------------------- */

static int the_place(void)
{
	return rr_ownfd_next(0);
}

Test(shm_parts, a_number_is_kept_while_answers_are_out)
{
	int at;

	cr_assert(!rr_prov_spare() && !rr_shm_place_lend());
	cr_assert_eq(rr_shm_place_keep(), 0);
	at = the_place();
	cr_assert(at >= 0 && fcntl(at, F_GETFD) == FD_CLOEXEC && open_fds() == fds + 3);
	cr_assert_eq(rr_shm_place_keep(), 0);
	cr_assert_eq(open_fds(), fds + 3, "one is enough");
	cr_assert_not(rr_prov_spare());
	rr_shm_place_drop();
	cr_assert_not(rr_prov_spare());
	rr_shm_place_drop();
	errno = 77;
	cr_assert(rr_prov_spare());
	cr_assert(errno == 77 && !is_open(at) && !rr_ownfd_is(at) && !rr_prov_spare());
}

Test(shm_parts, the_number_is_lent_and_taken_back)
{
	int at;

	rr_shm_place_keep();
	at = the_place();
	cr_assert(rr_shm_place_lend());
	cr_assert(!is_open(at) && !rr_ownfd_is(at) && the_place() == -1);
	cr_assert_not(rr_shm_place_lend(), "it is lent");
	rr_shm_place_back();
	cr_assert(the_place() >= 0 && is_open(the_place()));
	cr_assert_eq(open_fds(), fds + 3);
}

Test(shm_parts, the_number_may_be_the_apps_by_now)
{
	int at, fd;

	rr_shm_place_keep();
	at = the_place();
	fd = memory();
	cr_assert_eq(dup2(fd, at), at);
	cr_assert_not(rr_shm_place_lend());
	cr_assert(is_open(at) && !rr_ownfd_is(at));
	close(at);
	rr_shm_place_back();
	at = the_place();
	close(at);
	cr_assert_not(rr_shm_place_lend());
	cr_assert_not(rr_ownfd_is(at));
	close(fd);
}

Test(shm_parts, the_app_may_have_the_number)
{
	int at;

	cr_assert(!rr_prov_forget(-1) && !rr_prov_forget(5));
	rr_shm_place_keep();
	at = the_place();
	cr_assert(!rr_prov_forget(at + 1) && !rr_prov_forget(-1));
	cr_assert(rr_prov_forget(at));
	cr_assert(is_open(at) && !rr_ownfd_is(at) && !rr_prov_forget(at));
	rr_shm_place_keep();
	cr_assert(rr_shm_place_lend(), "there is another");
	cr_assert_not(rr_shm_place_lend());
	at = bound(own_name(0), RR_SHM_NAME, true);
	rr_shm_listener_keep(at);
	cr_assert_not(rr_prov_forget(at + 1));
	cr_assert(rr_prov_forget(at));
	cr_assert(is_open(at) && !rr_ownfd_is(at) && !rr_prov_forget(at) && !rr_shm_listener_spare());
}

Test(shm_parts, answers_of_a_parents_do_not_count_in_its_child)
{
	int st;

	rr_shm_place_keep();
	if (!fork()) {
		rr_shm_place_drop();	/* the parent's */
		if (!rr_prov_spare())
			_exit(1);
		rr_shm_place_keep();
		if (rr_prov_spare())
			_exit(2);
		rr_shm_place_drop();
		_exit(rr_prov_spare() ? 0 : 3);
	}
	wait(&st);
	cr_assert_eq(st, 0, "%x", (unsigned)st);
	cr_assert_not(rr_prov_spare());
}

static int no_socket(int family, int type, int protocol)
{
	(void)family;
	(void)type;
	(void)protocol;
	errno = EMFILE;
	return -1;
}

Test(shm_parts, where_no_number_is_left_no_answer_is_counted)
{
	struct rr_os os = *rr_os;

	os.socket = no_socket;
	rr_os = &os;
	cr_assert_eq(rr_shm_place_keep(), -EMFILE);
	shm_use_libc();
	rr_shm_place_back();
	cr_assert(rr_prov_spare(), "no answer is out");
}

/* --- addresses ------------------------------------------------------------------------------------------------- */

static int backlog, binds;

static int note_listen(int fd, int n)
{
	backlog = n;
	return listen(fd, n);
}

static int no_bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	(void)fd;
	(void)sa;
	(void)len;
	binds++;
	errno = EACCES;
	return -1;
}

Test(shm_parts, an_offer_names_its_listener)
{
	static struct rr_shm q;
	struct rr_prov_addr offer = { 0 };
	struct rr_os os = *rr_os;
	int fd;

	q.listener[0] = q.listener[1] = -1;
	q.creator = rr_pid();
	os.listen = note_listen;
	rr_os = &os;
	cr_assert_eq(rr_shm_listen(&q, NULL, &offer), 0);
	cr_assert(backlog == 8 && q.listener[0] >= 0 && q.listener[1] == -1 && q.path[0] == '\0');
	cr_assert(rr_ownfd_is(q.listener[0]) && fcntl(q.listener[0], F_GETFD) == FD_CLOEXEC);
	cr_assert(offer.len == 42 && offer.bytes[0] == 1 && offer.bytes[1] == 1 && rr_shm_is_name((char *)offer.bytes + 2));
	fd = rr_shm_connect(&offer, NULL);
	cr_assert(fd >= 0 && rr_ownfd_is(fd) && fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	rr_ownfd_close(fd);
	offer.bytes[1] = 0;
	cr_assert_eq(rr_shm_connect(&offer, NULL), -ECONNREFUSED);
	offer.bytes[1] = 2;
	cr_assert_eq(rr_shm_connect(&offer, NULL), -EACCES);
	offer.bytes[1] = 1;
	offer.bytes[0] = 2;
	cr_assert_eq(rr_shm_connect(&offer, NULL), -EINVAL);
	offer.bytes[0] = 1;
	offer.len = 41;
	cr_assert_eq(rr_shm_connect(&offer, NULL), -EINVAL);
	offer.len = 42;
	rr_shm_unlisten(&q);
	cr_assert_eq(rr_shm_connect(&offer, NULL), -ECONNREFUSED);
	cr_assert_eq(open_fds(), fds + 2);
	os.bind = no_bind;
	q.listener[0] = q.listener[1] = -1;
	cr_assert_eq(rr_shm_listen(&q, NULL, &offer), -EACCES);
	cr_assert_eq(open_fds(), fds + 2);
	os.socket = no_socket;
	cr_assert_eq(rr_shm_listen(&q, NULL, &offer), -EMFILE);
	offer.bytes[1] = 1;
	cr_assert_eq(rr_shm_connect(&offer, NULL), -EMFILE);
	shm_use_libc();
}

Test(shm_parts, where_there_is_no_other_number_a_socket_keeps_0)
{
	static struct rr_shm q;
	struct rr_prov_addr offer = { 0 };
	struct rlimit was, none;
	int got;

	q.listener[0] = q.listener[1] = -1;
	q.creator = rr_pid();
	cr_assert_eq(rr_shm_listen(&q, NULL, &offer), 0);
	offer.bytes[1] |= 2;	/* a file, too, if that fails */
	close(0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 1;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	got = rr_shm_connect(&offer, NULL);
	setrlimit(RLIMIT_NOFILE, &was);
	cr_assert_eq(got, 0);
	rr_ownfd_close(got);
	rr_shm_unlisten(&q);
}

/* --- the regions' end --- */

static void have(struct rr_shm_view *v, size_t size)
{
	v->geo.total = size;
	cr_assert_eq(rr_berth_map(&v->berth, size, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1), 0);
	v->berth.stays = false;		/* so that one can see whether it goes */
}

/* Whether there is one or both. */
Test(shm_parts, both_regions_are_unmapped)
{
	for (int which = 0; which < 4; which++) {
		static struct rr_shm q;
		const uint8_t *own, *peer;

		memset(&q, 0, sizeof(q));
		have(&q.own, 3 * RR_PAGE);
		have(&q.peer, 5 * RR_PAGE);
		own = q.own.berth.at;
		peer = q.peer.berth.at;
		if (!(which & 1))
			q.own.berth.at = NULL;
		if (!(which & 2))
			q.peer.berth.at = NULL;
		rr_shm_regions_drop(&q);
		for (int page = 0; page < 5; page++) {
			cr_assert(page >= 3 || is_mapped(own + page * RR_PAGE) == !(which & 1), "%d, page %d", which, page);
			cr_assert_eq(is_mapped(peer + page * RR_PAGE), !(which & 2), "%d, page %d", which, page);
		}
	}
}
