/* SPDX-License-Identifier: BSD-3-Clause */
/* How two processes come to share a shm connection, and how that fails. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/ownfd.h"
#include "core/prov/shm/shm_int.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)

static struct shm_pair p;
static char dir[64];
static int fds, maps;

/* Mappings that could be somebody else's, too. */
static int shared_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], mode[8];
	int n = 0;

	while (fgets(line, sizeof(line), f))
		n += sscanf(line, "%*s %7s", mode) == 1 && mode[3] == 's';
	fclose(f);
	return n;
}

static void init(void)
{
	maps = shared_maps();
	shm_pair_init(&p, 4096, 8);
	strcpy(dir, "/tmp/rr-shm-XXXXXX");
	cr_assert(mkdtemp(dir));
	cr_assert_eq(chmod(dir, 01777), 0);
	fds = open_fds();
}

static int files_in(const char *d)
{
	DIR *h = opendir(d);
	int n = -2;

	while (readdir(h))
		n++;
	closedir(h);
	return n;
}

static void fini(void)
{
	shm_pair_close(&p);
	cr_assert(open_fds_get_to(fds), "a descriptor leaked");
	cr_assert_eq(shared_maps(), maps, "%d mappings leaked", shared_maps() - maps);
	cr_assert_eq(files_in(dir), 0);
	rmdir(dir);
}

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

static void send_msg(int sock, const void *b, size_t n, const int *fd, size_t nfd)
{
	struct iovec iov = { (void *)b, n };
	union { struct cmsghdr a; char room[CMSG_SPACE(64 * sizeof(int))]; } ctl;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (nfd) {
		memset(&ctl, 0, sizeof(ctl));
		m.msg_control = &ctl;
		m.msg_controllen = CMSG_SPACE(nfd * sizeof(int));
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(nfd * sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fd, nfd * sizeof(int));
	}
	cr_assert_eq(sendmsg(sock, &m, 0), (ssize_t)n);
}

/* What join() says to a peer that sends this. */
static int join_with(const struct rr_shm_hello *h, size_t n, const int *fd, size_t nfd)
{
	int sock, rc;

	while ((rc = ops->prepare(p.c, &p.cp, &p.offer)) == -EBUSY)	/* what the last one sent is being closed */
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

Test(shm_setup, one_descriptor_per_connection_remains_high_and_close_on_exec,
     .init = init, .fini = fini)
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

Test(shm_setup, errno_is_left_alone, .init = init, .fini = fini)
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

Test(shm_setup, the_answering_side_waits_for_the_joining_one, .init = init, .fini = fini)
{
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(ops->establish(p.s), -EAGAIN);
	cr_assert_eq(ops->establish(p.s), -EAGAIN);
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(ops->establish(p.s), 0);
	cr_assert_eq(ops->establish(p.s), 0);
}

Test(shm_setup, the_joining_side_may_send_before_the_other_is_established, .init = init,
     .fini = fini)
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

Test(shm_setup, a_client_that_gave_up_is_refused, .init = init, .fini = fini)
{
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	ops->close(p.c);
	memset(p.c, 0, ops->qp_size(&p.cp));
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), -ECONNREFUSED);
}

Test(shm_setup, a_client_that_gives_up_later_is_noticed, .init = init, .fini = fini)
{
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	ops->close(p.c);
	memset(p.c, 0, ops->qp_size(&p.cp));
	cr_assert_eq(ops->establish(p.s), -ECONNRESET);
	cr_assert_eq(ops->establish(p.s), -EINVAL);
}

Test(shm_setup, a_server_that_died_after_its_answer_is_no_connection, .init = init,
     .fini = fini)
{
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	ops->close(p.s);
	memset(p.s, 0, ops->qp_size(&p.sp));
	cr_assert_eq(ops->join(p.c, &p.answer), -ECANCELED);
	cr_assert_eq(p.c->wake_fd, -1);
}

Test(shm_setup, a_server_that_never_came_is_no_connection, .init = init, .fini = fini)
{
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), -ECONNREFUSED);
}

Test(shm_setup, each_side_must_show_its_half_of_the_token, .init = init, .fini = fini)
{
	for (unsigned i = 0; i < RR_TOKEN_LEN; i++) {
		p.sp.token[i] ^= 0x40;
		cr_assert_eq(shm_pair_connect(&p), -EACCES, "%u", i);
		fini();
		init();
	}
}

Test(shm_setup, strangers_do_not_get_in_the_way, .init = init, .fini = fini)
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

Test(shm_setup, a_hello_is_exactly_one_descriptor, .init = init, .fini = fini)
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

Test(shm_setup, a_hello_is_exactly_its_size, .init = init, .fini = fini)
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

Test(shm_setup, a_hello_with_wrong_numbers_is_refused, .init = init, .fini = fini)
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
	h.version++;
	cr_assert_eq(join_with(&h, sizeof(h), &fd, 1), -EPROTO);
	h = good_hello();
	h.total -= 4096;
	cr_assert_eq(join_with(&h, sizeof(h), &fd, 1), -EPROTO);
	close(fd);
}

Test(shm_setup, only_a_memfd_of_the_right_size_and_seals_is_mapped, .init = init, .fini = fini)
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

Test(shm_setup, the_answering_side_judges_just_as_strictly, .init = init, .fini = fini)
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

Test(shm_setup, an_address_that_makes_no_sense_is_refused, .init = init, .fini = fini)
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
Test(shm_setup, only_names_of_our_form_are_connected_to, .init = init, .fini = fini)
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

/* req: rfc8166 3.3.3 #3 */
Test(shm_setup, parameters_out_of_range_are_refused, .init = init, .fini = fini)
{
	struct rr_prov_params bad = p.cp;

	bad.recv_size = 512;
	cr_assert_eq(ops->prepare(p.c, &bad, &p.offer), -EINVAL);
	bad = p.cp;
	bad.recvs = 5000;
	cr_assert_eq(ops->prepare(p.c, &bad, &p.offer), -EINVAL);
	cr_assert_eq(ops->answer(p.s, &bad, &p.offer, &p.answer), -EINVAL);
}

/* Drops the abstract name from the offer, as if the peer were in another network namespace. */
static void only_file(void)
{
	cr_assert_eq(p.offer.bytes[1], 3, "no file was offered");
	p.offer.bytes[1] = 2;
}

Test(shm_setup, the_run_directory_reaches_where_the_abstract_name_does_not, .init = init,
     .fini = fini)
{
	mode_t before = umask(077);

	p.cp.run_dir = p.sp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	umask(before);
	cr_assert_eq(files_in(dir), 1);
	only_file();
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(files_in(dir), 0);
	cr_assert_eq(ops->establish(p.s), 0);
	cr_assert_eq(open_fds(), fds + 2);
}

/* The directory of the sockets is number 0 then. */
Test(shm_setup, a_process_without_standard_input_comes_by_the_run_directory_too, .init = init, .fini = fini)
{
	p.cp.run_dir = p.sp.run_dir = dir;
	cr_assert_eq(close(0), 0);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	only_file();
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(ops->establish(p.s), 0);
	cr_assert_eq(open("/dev/null", O_RDONLY), 0, "nor is it used up");
}

/* A socket's path has 107 characters at most. */
Test(shm_setup, a_run_directory_with_a_long_name_is_not_used, .init = init, .fini = fini)
{
	char deep[128];

	snprintf(deep, sizeof(deep), "%s/%049d", dir, 0);
	cr_assert_eq(mkdir(deep, 0755), 0);
	p.cp.run_dir = deep;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(files_in(deep), 0);
	cr_assert_eq(p.offer.bytes[1], 1, "by its abstract name alone");
	ops->close(p.c);
	memset(p.c, 0, ops->qp_size(&p.cp));
	cr_assert_eq(rmdir(deep), 0);
	deep[strlen(deep) - 2] = '\0';	/* and this one just so */
	cr_assert_eq(mkdir(deep, 0755), 0);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(files_in(deep), 1);
	ops->close(p.c);
	memset(p.c, 0, ops->qp_size(&p.cp));
	cr_assert_eq(rmdir(deep), 0);
}

Test(shm_setup, the_file_goes_when_the_attempt_is_over, .init = init, .fini = fini)
{
	p.cp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(files_in(dir), 1);
	cr_assert_eq(ops->join(p.c, &p.answer), -ECONNREFUSED);
	cr_assert_eq(files_in(dir), 0);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(files_in(dir), 1);
}

Test(shm_setup, a_run_directory_that_others_could_tamper_with_is_not_used, .init = init,
     .fini = fini)
{
	chmod(dir, 0777);
	p.cp.run_dir = p.sp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(p.offer.bytes[1], 1);
	cr_assert_eq(files_in(dir), 0);
	chmod(dir, 01777);
	ops->close(p.c);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	only_file();
	chmod(dir, 0777);
	cr_assert_lt(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
}

Test(shm_setup, files_of_killed_processes_are_swept, .init = init, .fini = fini)
{
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	char path[256];
	pid_t pid = fork();
	int st;

	p.cp.run_dir = dir;
	if (pid == 0) {
		ops->prepare(p.c, &p.cp, &p.offer);
		kill(getpid(), SIGKILL);
	}
	waitpid(pid, &st, 0);
	cr_assert_eq(files_in(dir), 1);
	snprintf(path, sizeof(path), "%s", container_of(p.c, struct rr_shm, qp)->path);
	cr_assert_eq(utimensat(AT_FDCWD, path, old, 0), 0);
	memset(p.c, 0, ops->qp_size(&p.cp));
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(files_in(dir), 1);
	cr_assert_eq(access(path, F_OK), -1);
}

Test(shm_setup, young_and_foreign_files_are_not_swept, .init = init, .fini = fini)
{
	static const char *const names[] = { "rdmarpc-0123456789abcdef0123456789abcdef",
					     "other",
					     "rdmarpc-conf-of-somebody-else-that-is-40" };
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	for (int i = 0; i < 3; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", dir, names[i]);
		cr_assert_eq(bind(fd, (void *)&sa, sizeof(sa)), 0);
		close(fd);
		if (i)
			cr_assert_eq(utimensat(AT_FDCWD, sa.sun_path, old, 0), 0);
	}
	p.cp.run_dir = dir;
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(files_in(dir), 4);
	for (int i = 0; i < 3; i++) {
		snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", dir, names[i]);
		unlink(sa.sun_path);
	}
}

/* A file in dir of a name that ours have, so many seconds old: a socket, or an ordinary file. */
static void a_file(char digit, mode_t type, time_t age, uid_t owner)
{
	struct timespec ts[2];
	char path[128];

	snprintf(path, sizeof(path), "%s/rdmarpc-%c123456789abcdef0123456789abcdef", dir, digit);
	cr_assert_eq(mknod(path, type | 0600, 0), 0);
	cr_assert_eq(lchown(path, owner, owner), 0);
	clock_gettime(CLOCK_REALTIME, &ts[0]);
	ts[0].tv_sec -= age;
	ts[1] = ts[0];
	cr_assert_eq(utimensat(AT_FDCWD, path, ts, AT_SYMLINK_NOFOLLOW), 0);
}

static bool is_there(char digit)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/rdmarpc-%c123456789abcdef0123456789abcdef", dir, digit);
	return access(path, F_OK) == 0;
}

/* Who is not root and may remove what lies in the directory, since it is its own, removes of that no more than old sockets of its own. */
Test(shm_setup, only_old_sockets_of_ones_own_are_swept, .init = init, .fini = fini)
{
	const uid_t me = 12345;
	char path[128];
	int st;

	if (geteuid() != 0)
		cr_skip("needs root");
	a_file('0', S_IFSOCK, 1000, me);
	a_file('1', S_IFSOCK, 1000, 0);
	a_file('2', S_IFREG, 1000, me);
	a_file('3', S_IFSOCK, 40, me);	/* a minute makes it old */
	a_file('4', S_IFSOCK, 62, me);
	cr_assert_eq(chown(dir, me, me), 0);
	cr_assert_eq(chmod(dir, 0755), 0);
	p.cp.run_dir = dir;
	if (fork() == 0) {
		if (setgid(me) || setuid(me))
			_exit(1);
		_exit(ops->prepare(p.c, &p.cp, &p.offer) ? 2 : (ops->close(p.c), 0));
	}
	wait(&st);
	cr_assert_eq(st, 0, "%x", st);
	cr_assert_not(is_there('0'));
	cr_assert(is_there('1'), "another's");
	cr_assert(is_there('2'), "no socket");
	cr_assert(is_there('3'), "young");
	cr_assert_not(is_there('4'));
	for (char d = '1'; d <= '3'; d++) {
		snprintf(path, sizeof(path), "%s/rdmarpc-%c123456789abcdef0123456789abcdef", dir, d);
		cr_assert_eq(unlink(path), 0);
	}
}

Test(shm_setup, a_file_size_limit_declines_instead_of_killing, .init = init, .fini = fini)
{
	struct rlimit lim = { 65536, 65536 };

	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), -EFBIG);
}

Test(shm_setup, a_file_may_be_as_large_as_the_limit_is, .init = init, .fini = fini)
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
Test(shm_setup, no_address_space_is_an_error_not_a_leak, .init = init, .fini = fini)
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

Test(shm_setup, kernels_that_do_not_know_all_flags_of_a_memfd_do, .init = init, .fini = fini)
{
	old_kernel = true;
	cr_assert_eq(shm_pair_connect(&p), 0);
}

/* What it makes has the number 0 for a while. */
Test(shm_setup, a_process_without_standard_input_has_connections_too, .init = init, .fini = fini)
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
	cr_assert_null(q->own.base);
	cr_assert_null(q->peer.base);
	cr_assert_eq(ops->join(qp, &p.answer), -EINVAL);
	ops->close(qp);
	cr_assert_eq(open_fds(), open);
	cr_assert_eq(shared_maps(), mapped);
	memset(qp, 0, ops->qp_size(&p.cp));
}

Test(shm_setup, what_cannot_be_offered_is_as_if_it_had_never_begun, .init = init, .fini = fini)
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

Test(shm_setup, what_cannot_be_answered_is_as_if_it_had_never_begun, .init = init, .fini = fini)
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

/* The other side has given up after both regions were made. */
Test(shm_setup, what_cannot_be_joined_is_as_if_it_had_never_begun, .init = init, .fini = fini)
{
	int open = open_fds(), mapped = shared_maps();

	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	ops->close(p.s);
	memset(p.s, 0, ops->qp_size(&p.sp));
	cr_assert_eq(ops->join(p.c, &p.answer), -ECANCELED);
	assert_never_begun(p.c, open, mapped);
}

Test(shm_setup, low_numbers_do_where_high_ones_are_not_allowed, .init = init, .fini = fini)
{
	struct rlimit lim = { 64, 64 };

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	cr_assert_eq(shm_pair_connect(&p), 0);
	cr_assert_geq(p.c->wake_fd, 37);
}

Test(shm_setup, no_descriptors_left_is_an_error_not_a_leak, .init = init, .fini = fini)
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

/* Its app may take the last ones while the other side makes up its mind; who is joined by then has no way
 * back. */
Test(shm_setup, descriptors_that_run_out_after_the_answer_do_not_matter, .init = init, .fini = fini)
{
	struct rlimit was, lim;
	int n = 0, fd[64];

	getrlimit(RLIMIT_NOFILE, &was);
	lim = (struct rlimit){ 40, was.rlim_max };
	setrlimit(RLIMIT_NOFILE, &lim);
	p.cp.fd_floor = p.sp.fd_floor = 20;
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

static int other_user(void)
{
	return setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534);
}

static int other_netns(void)
{
	return unshare(CLONE_NEWNET);
}

/* A child that changes itself, then answers p.offer by the file alone and sends 42. */
static void answered_by_a_child(int (*change)(void))
{
	struct rr_wc wc;
	pid_t pid;
	int st, answered[2];
	char c;

	if (geteuid() != 0)
		cr_skip("needs root");
	cr_assert_eq(pipe(answered), 0);
	p.cp.run_dir = p.sp.run_dir = dir;
	umask(077);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	only_file();
	pid = fork();
	if (pid == 0) {
		if (change())
			_exit(77);
		if (ops->answer(p.s, &p.sp, &p.offer, &p.answer) ||
		    write(answered[1], "", 1) != 1)
			_exit(2);
		for (int i = 0; ops->establish(p.s) == -EAGAIN && i < 1000; i++)
			usleep(10000);
		_exit(ops->send_imm(p.s, 42, 0) == 1 ? 0 : 3);
	}
	close(answered[1]);
	if (read(answered[0], &c, 1) == 1)
		cr_assert_eq(ops->join(p.c, &p.answer), 0);
	close(answered[0]);
	waitpid(pid, &st, 0);
	memset(p.s, 0, ops->qp_size(&p.sp));	/* the child's */
	if (WIFEXITED(st) && WEXITSTATUS(st) == 77)
		cr_skip("not possible here");
	cr_assert_eq(st, 0, "%x", st);
	cr_assert_eq(ops->poll(p.c, &wc, 1), 1);
	cr_assert_eq(wc.imm, 42);
}

Test(shm_setup, users_need_no_permission_on_each_others_things, .init = init, .fini = fini)
{
	answered_by_a_child(other_user);
}

Test(shm_setup, another_network_namespace_is_reached_through_the_run_directory, .init = init,
     .fini = fini)
{
	answered_by_a_child(other_netns);
}
