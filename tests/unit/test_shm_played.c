/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the shm provider beside a host that is larger than the one that the test runs on, or smaller, or refuses
 * what this one grants: memory of half a gigabyte, a socket with thousands of packets, an address space that is used
 * up, pages that are made in advance, each step of making a region. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "core/base/os.h"
#include "core/base/pages.h"

static int fstat_played(int fd, struct stat *st);
static bool made_played(void *from, void *to);
static int ftruncate_played(int fd, off_t size);
static int fallocate_played(int fd, int mode, off_t off, off_t len);
static int fstatfs_played(int fd, struct statfs *fs);

#define fstat fstat_played
#include "core/prov/shm/foreign.c"
#undef fstat
#define rr_pages_make made_played
#include "core/prov/shm/ring.c"
#undef rr_pages_make
#define ftruncate ftruncate_played
#define rr_os_fallocate fallocate_played
#define fstatfs fstatfs_played
#include "core/prov/shm/region.c"
#undef ftruncate
#undef rr_os_fallocate
#undef fstatfs

#include "tests/lib/no_threads.h"
#include "tests/lib/shm_pair.h"

/* --- memory that is left for the thread ------------------------------------------------------------------------ */

static blkcnt_t blocks;

static int fstat_played(int fd, struct stat *st)
{
	int rc = fstat(fd, st);

	st->st_blocks = blocks;
	return rc;
}

Test(shm_played, memory_of_half_a_gigabyte_is_not_freed_in_the_apps_thread)
{
	shm_use_libc();
	no_threads = true;
	for (int less = 1; less >= 0; less--) {
		int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

		blocks = (512 << 20) / 512 - less;
		rr_shm_drop_fd(fd);
		cr_assert_eq(fcntl(fd, F_GETFD) < 0, less);
	}
	cr_assert_eq(threads_asked_for, 1);
}

static int reads;

static ssize_t recv_endless(int fd, void *buf, size_t n, int flags)
{
	(void)fd, (void)buf, (void)n, (void)flags;
	reads++;
	return 1;
}

/* Where more may be queued than here (net.unix.max_dgram_qlen). */
Test(shm_played, a_socket_that_does_not_end_is_left_for_the_thread)
{
	struct rr_os os;
	int ends[2];

	shm_use_libc();
	os = *rr_os;
	os.recv = recv_endless;
	rr_os = &os;
	no_threads = true;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	rr_shm_drop_sock(ends[0]);
	cr_assert(reads == 1024 && threads_asked_for == 1);
	cr_assert_eq(fcntl(ends[0], F_GETFD), 0);
	shm_use_libc();
}

/* --- the address space ----------------------------------------------------------------------------------------- */

Test(shm_played, what_is_unmapped_counts_no_more)
{
	struct shm_pair p;
	size_t both;

	shm_pair_open(&p, 8);
	both = rr_shm_of(p.c)->own.geo.total + rr_shm_of(p.c)->peer.geo.total;
	cr_assert_eq(mapped, 2 * both, "the other side's are this process's, too");
	shm_pair_close(&p);
	cr_assert_eq(mapped, 0);
}

Test(shm_played, regions_take_up_a_quarter_of_the_address_space_at_most)
{
	cr_assert_not(may_map(SIZE_MAX / 4 + 1));
	cr_assert_eq(mapped, 0);
	cr_assert(may_map(SIZE_MAX / 4 - RR_PAGE));
	cr_assert_not(may_map(RR_PAGE + 1));
	cr_assert_eq(mapped, SIZE_MAX / 4 - RR_PAGE);
	cr_assert(may_map(RR_PAGE));
	cr_assert_not(may_map(1));
	cr_assert_eq(mapped, SIZE_MAX / 4);
}

/* --- what is refused ------------------------------------------------------------------------------------------- */

enum { NOTHING, TRUNCATE, ALLOCATE, SEAL, RECEIVE, KIND, SPACE, STEPS };
static int refused = NOTHING;

static int unless(int step, int err)
{
	errno = err;
	return refused == step ? -1 : 0;
}

static int ftruncate_played(int fd, off_t size)
{
	return unless(TRUNCATE, EIO) ? -1 : ftruncate(fd, size);
}

static int fallocate_played(int fd, int mode, off_t off, off_t len)
{
	return unless(ALLOCATE, ENOSPC) ? -1 : rr_os_fallocate(fd, mode, off, len);
}

static int fcntl_played(int fd, int what, ...)
{
	va_list ap;
	int arg;

	va_start(ap, what);
	arg = va_arg(ap, int);
	va_end(ap);
	return what == F_ADD_SEALS && unless(SEAL, EPERM) ? -1 : fcntl(fd, what, arg);
}

/* As a filter of system calls may. */
static ssize_t recvmsg_played(int fd, struct msghdr *m, int flags)
{
	return unless(RECEIVE, EACCES) ? -1 : recvmsg(fd, m, flags);
}

/* Huge pages, for all memory files of the host. */
static int fstatfs_played(int fd, struct statfs *fs)
{
	int rc = fstatfs(fd, fs);

	if (refused == KIND)
		fs->f_type = 0x958458f6;
	return rc;
}

Test(shm_played, each_step_of_a_region_may_be_refused)
{
	static const int says[STEPS] = { 0, -EIO, -ENOSPC, -EPERM, -EACCES, -EPROTO, -ENOMEM };
	struct rr_os os;
	struct shm_pair p;
	int fds, before = open_fds();

	for (int n = 1; n <= STEPS; n++) {
		int step = n % STEPS;

		shm_pair_init(&p, 4096, 8);
		os = *rr_os;
		os.fcntl = fcntl_played;
		os.recvmsg = recvmsg_played;
		rr_os = &os;
		cr_assert_eq(rr_prov_shm.prepare(p.c, &p.cp, &p.offer), 0);
		fds = open_fds();
		refused = step;
		mapped = step == SPACE ? MAPPED_MAX : 0;
		cr_assert_eq(rr_prov_shm.answer(p.s, &p.sp, &p.offer, &p.answer), says[step], "%d", step);
		cr_assert(open_fds_get_to(fds + 2 * !step), "%d: the socket, and a number for the peer's memory", step);
		cr_assert_eq(mapped, step == SPACE ? MAPPED_MAX : step ? 0 : rr_shm_of(p.s)->own.geo.total, "%d", step);
		refused = NOTHING;
		shm_pair_close(&p);
		cr_assert(open_fds_get_to(before), "%d", step);
	}
}

static struct { pid_t pid; int rc; } cred;

static int getsockopt_played(int fd, int level, int what, void *val, socklen_t *len)
{
	int rc = getsockopt(fd, level, what, val, len);

	if (what != SO_PEERCRED)
		return rc;
	((struct ucred *)val)->pid = cred.pid;
	return cred.rc;
}

Test(shm_played, the_number_of_the_peers_process_may_not_be_told)
{
	static const struct { pid_t pid; int rc; uint32_t says; } c[] = { { 7, 0, 7 }, { 7, -1, 0 }, { -1, 0, 0 } };
	struct rr_os os;
	struct shm_pair p;

	for (size_t i = 0; i < rr_array_size(c); i++) {
		shm_pair_init(&p, 4096, 8);
		os = *rr_os;
		os.getsockopt = getsockopt_played;
		rr_os = &os;
		cred.pid = c[i].pid;
		cred.rc = c[i].rc;
		cr_assert_eq(shm_pair_connect(&p), 0);
		cr_assert(p.c->peer_pid == c[i].says && p.s->peer_pid == c[i].says, "%zu", i);
		shm_pair_close(&p);
	}
}

/* Another thread has made one meanwhile. */
static int socket_played(int family, int type, int protocol)
{
	static bool within;

	if (!within) {
		within = true;
		cr_assert_eq(rr_shm_place_keep(), 0);
	}
	return socket(family, type, protocol);
}

Test(shm_played, of_two_numbers_that_are_kept_at_once_one_is_given_back)
{
	struct rr_os os;
	int fds;

	shm_use_libc();
	os = *rr_os;
	os.socket = socket_played;
	rr_os = &os;
	fds = open_fds();
	cr_assert_eq(rr_shm_place_keep(), 0);
	cr_assert_eq(open_fds(), fds + 1);
	shm_use_libc();
}

/* --- pages that are made in advance ---------------------------------------------------------------------------- */

static const uint8_t *made_from, *made_to;
static bool made;

static bool made_played(void *from, void *to)
{
	made_from = from;
	made_to = to;
	return made;
}

/* As many as have been used, 16 at most, and none behind the ring's end: up to the line with which the last one
 * begins. Where that cannot be it is not tried again. */
Test(shm_played, pages_are_made_for_slots_to_come)
{
	static const struct { uint32_t pos, used, next; } c[] = {
		{ 2, 2, 2 }, { 4, 4, 4 }, { 40, 16, 16 }, { 40, 17, 16 }, { 57, 16, 7 }, { 256 + 57, 30, 7 }, { 62, 2, 2 },
		{ 63, 9, 1 },
	};
	static uint8_t ring[64 * 4160];
	static struct rr_shm q;

	q.peer.geo = (struct rr_shm_geo){ .slots = 64, .stride = 4160 };
	q.peer.longs = ring;
	for (size_t i = 0; i < 2 * rr_array_size(c); i++) {
		uint32_t n = c[i / 2].next, at = c[i / 2].pos % 64;

		q.tx_pos = c[i / 2].pos;
		q.tx_made = c[i / 2].used;
		made = i % 2;
		made_from = made_to = NULL;
		make_pages(&q);
		cr_assert_eq(made_from - ring, at * 4160, "%zu", i);
		cr_assert_eq(made_to - ring, (at + n - 1) * 4160 + 64, "%zu", i);
		n = made ? rr_max(n, 2u) : 64;
		cr_assert_eq(q.tx_made, at + n, "%zu", i);
	}
	/* At first there is nothing to judge by; and slots of several pages are not made. */
	q.tx_pos = 1;
	q.tx_made = 0;
	made_from = NULL;
	make_pages(&q);
	cr_assert(!made_from && q.tx_made == 3);
	q.peer.geo.stride = 2 * RR_PAGE + 64;
	make_pages(&q);
	cr_assert(!made_from && q.tx_made == 1 + 64);
}
