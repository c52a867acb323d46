/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ends of a shm connection show each other first: a hello that is not exactly
 * right, from whomever it comes, makes no connection, and an address that is none of ours is
 * not connected to. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/prov/shm/shm_int.h"
#include "tests/lib/slowfd.h"
#include "tests/unit/shm_setup.h"

#define ops (&rr_prov_shm)

TestSuite(shm_hello, .init = init, .fini = fini);

#define NAME_LEN 40	/* of the name that follows version and flags in an address */

static socklen_t abstract(struct sockaddr_un *sa)
{
	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(sa->sun_path + 1, p.offer.bytes + 2, NAME_LEN);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + NAME_LEN);
}

/* The address in the offer, as anyone can see it in /proc/net/unix. */
static int connect_stranger(void)
{
	struct sockaddr_un sa;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	cr_assert_eq(p.offer.len, 2 + NAME_LEN);
	cr_assert_eq(connect(fd, (void *)&sa, abstract(&sa)), 0);
	return fd;
}

static struct rr_shm_hello good_hello(void)
{
	struct rr_shm_hello h = {
		.magic = RR_SHM_MAGIC, .version = RR_SHM_VERSION, .size = sizeof(h),
		.recv_size = 4096, .recvs = 8, .mem_size = 1 << 20,
	};
	struct rr_shm_geo g;

	rr_shm_geo_init(&g, h.recv_size, h.recvs, h.mem_size);
	h.total = g.total;
	memcpy(h.proof, p.cp.token, RR_SHM_PROOF);
	return h;
}

static int memfd(uint64_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(fd, (off_t)size), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static void send_msg(int sock, const void *b, size_t n, const int *fd, int nfd)
{
	cr_assert(nfd ? hand_over(sock, b, n, fd, nfd) : send(sock, b, n, 0) == (ssize_t)n);
}

/* What join() says to a peer that sends this. */
static int join_with(const struct rr_shm_hello *h, size_t n, const int *fd, int nfd)
{
	int sock, rc;

	/* Busy: what the last one sent is still being closed. */
	while ((rc = ops->prepare(p.c, &p.cp, &p.offer)) == -EBUSY)
		usleep(1000);
	cr_assert_eq(rc, 0);
	sock = connect_stranger();
	send_msg(sock, h, n, fd, nfd);
	rc = ops->join(p.c, &p.answer);
	close(sock);
	return rc;
}

static int join_with_fd(int fd)
{
	struct rr_shm_hello h = good_hello();
	int rc = join_with(&h, sizeof(h), &fd, 1);

	close(fd);
	return rc;
}

Test(shm_hello, each_side_must_show_its_half_of_the_token)
{
	for (unsigned i = 0; i < RR_TOKEN_LEN; i++) {
		p.sp.token[i] ^= 0x40;
		cr_assert_eq(shm_pair_connect(&p), -EACCES, "%u", i);
		fini();
		init();
	}
}

Test(shm_hello, strangers_do_not_get_in_the_way)
{
	struct rr_shm_hello h = good_hello();
	int fd = memfd(h.total, SEALS), a, b;

	h.proof[7] ^= 1;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	a = connect_stranger();
	b = connect_stranger();
	send_msg(b, &h, sizeof(h), &fd, 1);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(ops->establish(p.s), 0);
	close(a);
	close(b);
	close(fd);
}

Test(shm_hello, a_hello_is_exactly_one_descriptor)
{
	struct rr_shm_hello h = good_hello();
	int many[60];

	for (int i = 0; i < 60; i++)
		many[i] = memfd(h.total, SEALS);
	cr_assert_eq(join_with(&h, sizeof(h), NULL, 0), -EPROTO);
	cr_assert_eq(join_with(&h, sizeof(h), many, 2), -EPROTO);
	cr_assert_eq(join_with(&h, sizeof(h), many, 60), -EPROTO, "truncated control message");
	for (int i = 0; i < 60; i++)
		close(many[i]);
}

Test(shm_hello, no_regions_are_used_again_that_the_offer_does_not_name)
{
	struct rr_shm_hello h = good_hello();
	int fd = memfd(h.total, SEALS);

	h.magic = RR_SHM_AGAIN;
	cr_assert_eq(join_with(&h, sizeof(h), NULL, 0), -EPROTO);
	cr_assert_eq(join_with(&h, sizeof(h), &fd, 1), -EPROTO);
	close(fd);
}

Test(shm_hello, a_hello_is_exactly_its_size)
{
	struct { struct rr_shm_hello h; char more; } h = { good_hello(), 1 };
	int fd = memfd(h.h.total, SEALS);

	for (size_t n = 1; n < sizeof(h.h); n++)
		cr_assert_eq(join_with(&h.h, n, &fd, 1), -EPROTO);
	cr_assert_eq(join_with(&h.h, sizeof(h.h) + 1, &fd, 1), -EPROTO);
	cr_assert_eq(join_with(&h.h, sizeof(h.h), &fd, 1), 0);
	ops->close(p.c);
	memset(p.c, 0, ops->qp_size(&p.cp));
	close(fd);
}

Test(shm_hello, a_hello_with_wrong_numbers_is_refused)
{
	static const struct { uint32_t recv_size, recvs; uint64_t mem_size; } bad[] = {
		{ 1023, 8, 0 }, { 65537, 8, 0 }, { UINT32_MAX, 8, 0 }, { 4096, 0, 0 },
		{ 4096, 4097, 0 }, { 4096, UINT32_MAX, 0 }, { 4096, 8, 1 },
		{ 4096, 8, (UINT64_C(1) << 30) + 4096 }, { 4096, 8, UINT64_MAX - 4095 },
	};
	struct rr_shm_hello h = good_hello();
	int fd = memfd(h.total, SEALS);

	for (size_t i = 0; i < rr_array_size(bad); i++) {
		h = good_hello();
		h.recv_size = bad[i].recv_size;
		h.recvs = bad[i].recvs;
		h.mem_size = bad[i].mem_size;
		cr_assert_eq(join_with(&h, sizeof(h), &fd, 1), -EPROTO, "%zu", i);
	}
	h = good_hello();
	h.magic++;
	cr_assert_eq(join_with(&h, sizeof(h), &fd, 1), -EPROTO);
	h = good_hello();
	h.size++;
	cr_assert_eq(join_with(&h, sizeof(h), &fd, 1), -EPROTO);
	h = good_hello();
	h.version++;	/* of another release, and no lie */
	cr_assert_eq(join_with(&h, sizeof(h), &fd, 1), -EPROTONOSUPPORT);
	h.proof[0] ^= 1;
	cr_assert_eq(join_with(&h, sizeof(h), &fd, 1), -EACCES);
	h = good_hello();
	h.total -= 4096;
	cr_assert_eq(join_with(&h, sizeof(h), &fd, 1), -EPROTO);
	close(fd);
}

Test(shm_hello, only_a_memfd_of_the_right_size_and_seals_is_mapped)
{
	uint64_t n = good_hello().total;
	int rw, ro;

	cr_assert_eq(join_with_fd(memfd(n, F_SEAL_SHRINK | F_SEAL_GROW)), -EPROTO);
	cr_assert_eq(join_with_fd(memfd(n, F_SEAL_GROW | F_SEAL_SEAL)), -EPROTO);
	cr_assert_eq(join_with_fd(memfd(n, F_SEAL_SHRINK | F_SEAL_SEAL)), -EPROTO);
	cr_assert_eq(join_with_fd(memfd(n - 4096, SEALS)), -EPROTO);
	cr_assert_eq(join_with_fd(memfd(n + 4096, SEALS)), -EPROTO);
	cr_assert_lt(join_with_fd(memfd(n, SEALS | F_SEAL_WRITE)), 0);
	cr_assert_eq(join_with_fd(open("/dev/zero", O_RDWR | O_CLOEXEC)), -EPROTO);
	cr_assert_eq(join_with_fd(open("/tmp", O_RDONLY | O_CLOEXEC)), -EPROTO);
	cr_assert_eq(join_with_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), -EPROTO);
	rw = memfd(n, SEALS);
	{
		char path[64];

		snprintf(path, sizeof(path), "/proc/self/fd/%d", rw);
		ro = open(path, O_RDONLY | O_CLOEXEC);
	}
	cr_assert_lt(join_with_fd(ro), 0);
	cr_assert_eq(join_with_fd(rw), 0);
	ops->close(p.c);
	memset(p.c, 0, ops->qp_size(&p.cp));
}

Test(shm_hello, the_answering_side_judges_just_as_strictly)
{
	struct rr_shm_hello h = good_hello();
	int ls = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), sock, fd;
	struct sockaddr_un sa;

	/* a client whose place we take */
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	ops->close(p.c);
	memset(p.c, 0, ops->qp_size(&p.cp));
	cr_assert_eq(bind(ls, (void *)&sa, abstract(&sa)), 0);
	listen(ls, 4);
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
		sock = accept(ls, NULL, NULL);
		fd = memfd(h.total - (i == 2 ? 4096 : 0), SEALS);
		/* 0: what it heard from the other side proves nothing */
		memcpy(h.proof, p.sp.token + (i == 0 ? 0 : RR_SHM_PROOF), RR_SHM_PROOF);
		send_msg(sock, &h, sizeof(h), &fd, i == 1 ? 0 : 1);
		cr_assert_eq(ops->establish(p.s), i == 0 ? -EACCES : i == 3 ? 0 : -EPROTO,
			     "%d", i);
		close(sock);
		close(fd);
	}
	close(ls);
}

Test(shm_hello, an_address_that_makes_no_sense_is_refused)
{
	struct rr_prov_addr bad;

	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	for (unsigned len = 0; len < p.offer.len; len++) {
		bad = p.offer;
		bad.len = (uint16_t)len;
		cr_assert_eq(ops->answer(p.s, &p.sp, &bad, &p.answer), -EINVAL);
	}
	bad = p.offer;
	bad.len++;
	cr_assert_eq(ops->answer(p.s, &p.sp, &bad, &p.answer), -EINVAL);
	bad = p.offer;
	bad.bytes[0]++;
	cr_assert_eq(ops->answer(p.s, &p.sp, &bad, &p.answer), -EINVAL);
	bad = p.offer;
	bad.bytes[1] = 0;
	cr_assert_eq(ops->answer(p.s, &p.sp, &bad, &p.answer), -ECONNREFUSED);
}

/* Else an offer could make a server connect to just any program's socket, or file. */
Test(shm_hello, only_names_of_our_form_are_connected_to)
{
	static const char evil[] = "/\0.Gg";
	struct rr_prov_addr bad;

	p.sp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	p.offer.bytes[1] = 3;
	for (unsigned at = 0; at < NAME_LEN; at++)
		for (size_t i = 0; i < sizeof(evil) - 1; i++) {
			bad = p.offer;
			bad.bytes[2 + at] = (uint8_t)evil[i];
			cr_assert_eq(ops->answer(p.s, &p.sp, &bad, &p.answer), -EINVAL);
		}
}
