/* SPDX-License-Identifier: BSD-3-Clause */
/* What the provider shm keeps for connections to come: a listener, a place. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"

static struct shm_pair a, b;

/* One that has come to its end: its listener is free. */
static void used(bool near)
{
	shm_pair_init(&a, 4096, 8);
	a.cp.near = near;
	cr_assert_eq(shm_pair_connect(&a), 0);
}

static void offered(bool near)
{
	shm_pair_init(&b, 4096, 8);
	b.cp.near = near;
	cr_assert_eq(rr_prov_shm.prepare(b.c, &b.cp, &b.offer), 0);
}

static bool same_name(void)
{
	return !memcmp(a.offer.bytes + 2, b.offer.bytes + 2, RR_SHM_NAME);
}

/* Somebody connects to the listener of an offer. */
static int stranger(const struct rr_prov_addr *offer)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

	memcpy(sa.sun_path + 1, offer->bytes + 2, RR_SHM_NAME);
	if (connect(fd, (void *)&sa, offsetof(struct sockaddr_un, sun_path) + 1 + RR_SHM_NAME)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void goes_on(void)
{
	cr_assert_eq(rr_prov_shm.answer(b.s, &b.sp, &b.offer, &b.answer), 0);
	cr_assert_eq(rr_prov_shm.join(b.c, &b.answer), 0);
	cr_assert_eq(rr_prov_shm.establish(b.s), 0);
}

Test(shm_kept, a_listener_that_has_served_an_offer_serves_the_next)
{
	used(true);
	offered(true);
	cr_assert(same_name());
	goes_on();
}

Test(shm_kept, two_offers_at_a_time_have_one_each)
{
	struct shm_pair c;

	used(true);
	offered(true);
	shm_pair_init(&c, 4096, 8);
	c.cp.near = true;
	cr_assert_eq(shm_pair_connect(&c), 0);
	cr_assert(memcmp(c.offer.bytes, b.offer.bytes, b.offer.len));
	goes_on();
}

Test(shm_kept, offers_that_may_leave_the_host_have_names_of_their_own)
{
	used(true);
	offered(false);
	cr_assert_not(same_name());
	goes_on();
}

Test(shm_kept, the_name_of_an_offer_that_may_have_left_the_host_does_not_come_again)
{
	int fd;

	used(false);
	offered(true);
	cr_assert_not(same_name());
	fd = stranger(&a.offer);
	cr_assert_eq(fd, -1, "nobody listens there");
	goes_on();
}

Test(shm_kept, one_at_which_somebody_waits_is_not_used_again)
{
	int fd;

	used(true);
	fd = stranger(&a.offer);
	cr_assert_geq(fd, 0);
	offered(true);
	cr_assert_not(same_name());
	close(fd);
	goes_on();
}

Test(shm_kept, one_to_which_a_stranger_came_is_not_used_again)
{
	int fd;

	offered(true);
	fd = stranger(&b.offer);
	goes_on();
	close(fd);
	memcpy(&a.offer, &b.offer, sizeof(a.offer));
	offered(true);
	cr_assert_not(same_name());
}

Test(shm_kept, an_offer_that_came_to_nothing_leaves_no_listener)
{
	int fd;

	offered(true);
	rr_prov_shm.close(b.c);
	fd = stranger(&b.offer);
	cr_assert_eq(fd, -1);
}

/* The number of the one that is kept. */
static int kept_fd(void)
{
	struct sockaddr_un sa;
	socklen_t len;

	for (int fd = 0; fd < 2000; fd++) {
		len = sizeof(sa);
		if (!getsockname(fd, (void *)&sa, &len) && len > 2 && sa.sun_family == AF_UNIX &&
		    !sa.sun_path[0] && rr_shm_listener_forget(fd)) {
			rr_shm_listener_keep(fd);
			return fd;
		}
	}
	return -1;
}

Test(shm_kept, a_number_that_has_become_another_files_is_left_alone)
{
	int fd, other;

	used(true);
	fd = kept_fd();
	cr_assert_geq(fd, 0);
	other = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(listen(other, 1), 0);
	cr_assert_eq(dup2(other, fd), fd);	/* unseen */
	offered(true);
	cr_assert_not(same_name());
	cr_assert_eq(listen(fd, 2), 0, "it is still there");
	cr_assert_not(rr_ownfd_is(fd));
	goes_on();
}

Test(shm_kept, a_forked_child_has_its_own)
{
	int status;
	pid_t pid;

	used(true);
	pid = fork();
	if (!pid) {
		offered(true);
		_exit(same_name() || kept_fd() >= 0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	offered(true);
	cr_assert(same_name(), "and its parent's is as it was");
	goes_on();
}

Test(shm_kept, what_is_kept_is_given_back_to_who_needs_it)
{
	int fds;

	shm_pair_init(&a, 4096, 8);
	fds = open_fds();
	a.cp.near = true;
	cr_assert_eq(shm_pair_connect(&a), 0);
	cr_assert(rr_prov_spare());
	cr_assert_not(rr_prov_spare());
	cr_assert_eq(open_fds(), fds + 2);
}

Test(shm_kept, the_place_stays_as_long_as_an_answer_may_be_taken_up)
{
	offered(true);
	cr_assert_eq(rr_prov_shm.answer(b.s, &b.sp, &b.offer, &b.answer), 0);
	cr_assert_not(rr_prov_spare());
	cr_assert_eq(rr_prov_shm.join(b.c, &b.answer), 0);
	cr_assert_eq(rr_prov_shm.establish(b.s), 0);
	cr_assert(rr_prov_spare());
}

/* --- what accept() says of it --- */

static struct rr_os os;

static int out_of_descriptors(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	(void)fd, (void)sa, (void)len, (void)flags;
	errno = EMFILE;
	return -1;
}

/* errno means nothing after success. */
static int with_errno(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	int got = accept4(fd, sa, len, flags);

	errno = EINVAL;
	return got;
}

/* By accept4() that takes the kernel a socket. */
Test(shm_kept, that_nobody_waits_is_seen_without_it)
{
	used(true);
	shm_pair_init(&b, 4096, 8);
	b.cp.near = true;
	os = *rr_os;
	os.accept4 = out_of_descriptors;
	rr_os = &os;
	cr_assert_eq(rr_prov_shm.prepare(b.c, &b.cp, &b.offer), 0);
	os.accept4 = accept4;
	cr_assert(same_name());
	goes_on();
}

Test(shm_kept, one_that_is_not_used_again_listens_no_more)
{
	int fd = -1;

	for (int i = 0; i < 2; i++) {
		used(true);
		if (fd >= 0)
			close(fd);
		fd = stranger(&a.offer);
		shm_pair_init(&b, 4096, 8);
		b.cp.near = true;
		os = *rr_os;
		os.accept4 = i ? with_errno : out_of_descriptors;
		rr_os = &os;
		cr_assert_eq(rr_prov_shm.prepare(b.c, &b.cp, &b.offer), 0);
		os.accept4 = accept4;
		cr_assert_not(same_name(), "%d", i);
		cr_assert_eq(stranger(&a.offer), -1, "%d", i);
		goes_on();
		cr_assert(rr_prov_spare());
	}
	close(fd);
}
