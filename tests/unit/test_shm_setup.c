/* SPDX-License-Identifier: BSD-3-Clause */
/* How two processes come to share a shm connection: the steps in their order, and an end
 * that gives up between them. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/prov/shm/shm_int.h"
#include "tests/unit/shm_setup.h"

#define ops (&rr_prov_shm)

TestSuite(shm_setup, .init = init, .fini = fini);

Test(shm_setup, one_descriptor_per_connection_remains_high_and_close_on_exec)
{
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_assert_eq(open_fds(), fds + 2);
	for (int i = 0; i < 2; i++) {
		int fd = i ? p.c->wake_fd : p.s->wake_fd;

		cr_assert_geq(fd, rr_ownfd_floor(fd));
		cr_assert(rr_ownfd_is(fd), "the app's close loops spare it");
		cr_assert_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		cr_assert_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	}
	cr_assert_eq(p.c->mem_size, 1 << 20);
	cr_assert_eq(p.s->recvs, 8);
}

Test(shm_setup, each_end_knows_the_process_at_the_other)
{
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_assert_eq(p.c->peer_pid, (uint32_t)getpid());
	cr_assert_eq(p.s->peer_pid, (uint32_t)getpid());
}

Test(shm_setup, errno_is_left_alone)
{
	struct rr_wc wc;

	errno = 4711;
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_assert_eq(ops->drain(p.c), 0);
	ops->arm(p.c, RR_ARM_RECV);
	ops->send_imm(p.s, 1, 0);
	ops->kick(p.s);
	cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
	cr_assert_eq(errno, 4711);
}

Test(shm_setup, the_answering_side_waits_for_the_joining_one)
{
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(ops->establish(p.s), -EAGAIN);
	cr_assert_eq(ops->establish(p.s), -EAGAIN);
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(ops->establish(p.s), 0);
	cr_assert_eq(ops->establish(p.s), 0);
}

Test(shm_setup, the_joining_side_may_send_before_the_other_is_established)
{
	struct rr_wc wc;

	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(ops->send_imm(p.c, 5, 0), 1);
	ops->kick(p.c);
	cr_assert_eq(ops->establish(p.s), 0);
	cr_assert_eq(ops->poll(p.s, &wc, 1), 1);
	cr_assert_eq(wc.imm, 5);
}

/* Random ones would meet again after some 65,000 connections. */
Test(shm_setup, generations_of_keys_go_on_from_a_random_one)
{
	uint32_t first;

	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	first = rr_shm_of(p.c)->key_gen;
	cr_assert_neq(first, 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(rr_shm_of(p.s)->key_gen - first, UINT32_C(0x9e3779b9));
}

Test(shm_setup, a_client_that_gave_up_is_refused)
{
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	ops->close(p.c);
	memset(p.c, 0, ops->qp_size(&p.cp));
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), -ECONNREFUSED);
}

Test(shm_setup, a_client_that_gives_up_later_is_noticed)
{
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	ops->close(p.c);
	memset(p.c, 0, ops->qp_size(&p.cp));
	cr_assert_eq(ops->establish(p.s), -ECONNRESET);
	cr_assert_eq(ops->establish(p.s), -EINVAL);
}

Test(shm_setup, a_server_that_died_after_its_answer_is_no_connection)
{
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	ops->close(p.s);
	memset(p.s, 0, ops->qp_size(&p.sp));
	cr_assert_eq(ops->join(p.c, &p.answer), -ECANCELED);
	cr_assert_eq(p.c->wake_fd, -1);
}

Test(shm_setup, a_server_that_never_came_is_no_connection)
{
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), -ECONNREFUSED);
}

Test(shm_setup, a_stranger_that_says_nothing_is_no_server)
{
	int stranger;

	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	stranger = rr_shm_connect(&p.offer, NULL);
	cr_assert_geq(stranger, 0);
	cr_assert_eq(ops->join(p.c, &p.answer), -ECONNREFUSED);
	rr_ownfd_close(stranger);
}

static struct rr_os counting;
static int strangers_fds;

/* Of a number that is free, or is another file's by now. */
static int counting_shutdown(int fd, int how)
{
	strangers_fds += !rr_ownfd_is(fd);
	return shutdown(fd, how);
}

/* By then its listeners' numbers may be the app's. */
Test(shm_setup, a_join_that_fails_late_does_not_close_its_listeners_twice)
{
	counting = *rr_os;
	counting.shutdown = counting_shutdown;
	rr_os = &counting;
	p.cp.run_dir = p.sp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(p.offer.bytes[1], 3, "both");
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	ops->close(p.s);
	memset(p.s, 0, ops->qp_size(&p.sp));
	strangers_fds = 0;
	cr_assert_eq(ops->join(p.c, &p.answer), -ECANCELED);
	cr_assert_eq(strangers_fds, 0);
}

/* req: rfc8166 3.3.3 #3 */
Test(shm_setup, parameters_out_of_range_are_refused)
{
	struct rr_prov_params bad = p.cp;

	bad.recv_size = 512;
	cr_assert_eq(ops->prepare(p.c, &bad, &p.offer), -EINVAL);
	bad = p.cp;
	bad.recvs = 5000;
	cr_assert_eq(ops->prepare(p.c, &bad, &p.offer), -EINVAL);
	cr_assert_eq(ops->answer(p.s, &bad, &p.offer, &p.answer), -EINVAL);
}
