/* SPDX-License-Identifier: BSD-3-Clause */
/* What a shm connection needs and may not get: file size, address space, descriptors, random
 * numbers, flags that the kernel knows. It is declined then, and nothing of it is left. */
#include "tests/unit/played_random.h"

#define rr_os_random random_played
#include "core/prov/shm/addr.c"
#undef rr_os_random

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "core/prov/shm/shm_int.h"
#include "tests/unit/shm_setup.h"

#define ops (&rr_prov_shm)

TestSuite(shm_limits, .init = init, .fini = fini);

Test(shm_limits, a_file_size_limit_declines_instead_of_killing)
{
	struct rlimit lim = { 65536, 65536 };

	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), -EFBIG);
}

Test(shm_limits, a_file_may_be_as_large_as_the_limit_is)
{
	struct rlimit was, lim;

	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	lim.rlim_cur = container_of(p.s, struct rr_shm, qp)->own.geo.total;
	shm_pair_close(&p);
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
	for (int less = 1; less >= 0; less--) {
		shm_pair_init(&p, 4096, 8);
		cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
		was.rlim_cur = lim.rlim_cur - (rlim_t)less;
		cr_assert_eq(setrlimit(RLIMIT_FSIZE, &was), 0);
		cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), less ? -EFBIG : 0);
		was.rlim_cur = was.rlim_max;
		cr_assert_eq(setrlimit(RLIMIT_FSIZE, &was), 0);
		if (less)
			shm_pair_close(&p);
	}
}

static size_t address_space(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	cr_assert_eq(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return pages * RR_PAGE;
}

/* RLIMIT_AS. */
Test(shm_limits, no_address_space_is_an_error_not_a_leak)
{
	struct rlimit was, lim;
	int rc[2], before;

	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	before = open_fds();
	cr_assert_eq(getrlimit(RLIMIT_AS, &was), 0);
	lim = (struct rlimit){ address_space() + (256 << 10), was.rlim_max };
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(setrlimit(RLIMIT_AS, &lim), 0);
		rc[i] = ops->answer(p.s, &p.sp, &p.offer, &p.answer);
		cr_assert_eq(setrlimit(RLIMIT_AS, &was), 0);
		ops->close(p.s);
		memset(p.s, 0, ops->qp_size(&p.sp));
	}
	cr_assert_eq(rc[0], -ENOMEM);
	cr_assert_eq(rc[1], -ENOMEM);
	cr_assert(open_fds_get_to(before));
}

static bool old_kernel;

/* The library's and the test's calls; an old kernel is Linux 6.2 or before. */
int memfd_create(const char *name, unsigned flags)
{
	if (old_kernel && flags & ~(MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_memfd_create, name, flags);
}

Test(shm_limits, kernels_that_do_not_know_all_flags_of_a_memfd_do)
{
	old_kernel = true;
	cr_assert_eq(shm_pair_connect(&p), 0);
}

/* What it makes has the number 0 for a while. */
Test(shm_limits, a_process_without_standard_input_has_connections_too)
{
	cr_assert_eq(close(0), 0);
	errno = EIO;
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_assert_eq(errno, EIO);
	cr_assert_eq(open("/dev/null", O_RDONLY), 0, "nor is it used up");
}

/* Before close(), which has nothing to do then. */
static void assert_never_begun(struct rr_qp *qp, int open, int mapped)
{
	struct rr_shm *q = rr_shm_of(qp);

	cr_assert(open_fds_get_to(open), "%d, not %d", open_fds(), open);
	cr_assert_eq(shared_maps(), mapped);
	cr_assert_eq(qp->wake_fd, -1);
	cr_assert_null(qp->mem);
	cr_assert_null(q->own.berth.at);
	cr_assert_null(q->peer.berth.at);
	cr_assert_eq(ops->join(qp, &p.answer), -EINVAL);
	ops->close(qp);
	cr_assert_eq(open_fds(), open);
	cr_assert_eq(shared_maps(), mapped);
	memset(qp, 0, ops->qp_size(&p.cp));
}

Test(shm_limits, what_cannot_be_offered_is_as_if_it_had_never_begun)
{
	struct rlimit was, none;
	int open = open_fds(), mapped = shared_maps(), rc;

	p.cp.run_dir = dir;
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ 0, was.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	rc = ops->prepare(p.c, &p.cp, &p.offer);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	cr_assert_eq(rc, -EMFILE);
	assert_never_begun(p.c, open, mapped);
}

/* Soon after the start of the host. A name that is not random somebody else may have. */
Test(shm_limits, where_there_are_no_random_numbers_yet_there_is_no_offer)
{
	int open = open_fds(), mapped = shared_maps();

	no_random = true;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), -EAGAIN);
	assert_never_begun(p.c, open, mapped);
	no_random = false;
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_assert_eq(random_asked, 2);
}

Test(shm_limits, what_cannot_be_answered_is_as_if_it_had_never_begun)
{
	int open, mapped = shared_maps(), rc;
	struct rlimit was, lim;

	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	open = open_fds();
	cr_assert_eq(getrlimit(RLIMIT_AS, &was), 0);
	lim = (struct rlimit){ address_space() + (256 << 10), was.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_AS, &lim), 0);
	rc = ops->answer(p.s, &p.sp, &p.offer, &p.answer);
	cr_assert_eq(setrlimit(RLIMIT_AS, &was), 0);
	cr_assert_eq(rc, -ENOMEM);
	assert_never_begun(p.s, open, mapped);
}

/* So much the server maps, whose own region is small. */
#define BEARABLE ((size_t)160 << 20)

Test(shm_limits, memory_beyond_what_the_server_maps_is_left_out)
{
	p.cp.mem_size = (size_t)512 << 20;
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_assert_leq(container_of(p.c, struct rr_shm, qp)->own.geo.total, BEARABLE);
	cr_assert_gt(container_of(p.c, struct rr_shm, qp)->own.geo.total, BEARABLE - 2 * RR_PAGE);
	cr_assert_gt(p.c->mem_size, BEARABLE / 2);
}

/* A page less of memory than the server has itself, and it is not joined. */
Test(shm_limits, a_ring_beyond_what_the_server_maps_is_too_large)
{
	struct rr_shm_geo g;

	p.cp.recv_size = 65536 - 64;
	p.cp.recvs = 2048;
	cr_assert_eq(rr_shm_geo_init(&g, p.cp.recv_size, p.cp.recvs, 0), 0);
	for (int more = 0; more < 2; more++) {
		p.sp.mem_size = BEARABLE - g.total + (more ? RR_PAGE : 0);
		p.cp.mem_size = p.sp.mem_size + ((size_t)1 << 20);
		cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
		cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
		cr_assert_eq(ops->join(p.c, &p.answer), more ? -EFBIG : 0);
		ops->disconnect(p.c);
		ops->close(p.c);
		ops->close(p.s);
		memset(p.c, 0, ops->qp_size(&p.cp));
		memset(p.s, 0, ops->qp_size(&p.sp));
	}
}

/* The other side has given up after both regions were made. */
Test(shm_limits, what_cannot_be_joined_is_as_if_it_had_never_begun)
{
	int open = open_fds(), mapped = shared_maps();

	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	ops->close(p.s);
	memset(p.s, 0, ops->qp_size(&p.sp));
	cr_assert_eq(ops->join(p.c, &p.answer), -ECANCELED);
	assert_never_begun(p.c, open, mapped);
}

Test(shm_limits, low_numbers_do_where_high_ones_are_not_allowed)
{
	struct rlimit lim = { 64, 64 };

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_assert_geq(p.c->wake_fd, 37);
}

Test(shm_limits, no_descriptors_left_is_an_error_not_a_leak)
{
	for (rlim_t n = 3; n < 40; n++) {
		struct rlimit was, lim;
		int before = open_fds(), rc;

		getrlimit(RLIMIT_NOFILE, &was);
		lim = (struct rlimit){ n, was.rlim_max };
		setrlimit(RLIMIT_NOFILE, &lim);
		rc = shm_pair_connect(&p);
		setrlimit(RLIMIT_NOFILE, &was);
		if (rc == 0)
			cr_assert_eq(open_fds(), before + 2);
		ops->close(p.c);
		ops->close(p.s);
		memset(p.c, 0, ops->qp_size(&p.cp));
		memset(p.s, 0, ops->qp_size(&p.sp));
		cr_assert(open_fds_get_to(before), "limit %d, %d", (int)n, rc);
	}
}

/* Its app may take the last ones while the other side makes up its mind; who is joined by
 * then has no way back. */
Test(shm_limits, descriptors_that_run_out_after_the_answer_do_not_matter)
{
	struct rlimit was, lim;
	int n = 0, fd[64];

	getrlimit(RLIMIT_NOFILE, &was);
	lim = (struct rlimit){ 40, was.rlim_max };
	setrlimit(RLIMIT_NOFILE, &lim);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	while (n < 64 && (fd[n] = dup(0)) >= 0)
		n++;
	cr_assert_eq(ops->establish(p.s), 0);
	while (n)
		close(fd[--n]);
	setrlimit(RLIMIT_NOFILE, &was);
}
