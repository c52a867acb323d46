/* SPDX-License-Identifier: BSD-3-Clause */
/* The fd table: which file is at which number, how long it lives, and what is noticed of numbers that have changed. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/os.h"
#include "preload/file.h"
#include "tests/lib/fdtable_fakes.h"
#include "tests/unit/played_clock.h"

static struct rr_conn *const some_conn = (struct rr_conn *)0x1000;

static int tcp(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_geq(fd, 0);
	return fd;
}

/* A tracked socket at fd with a connection, whose inode is known; the table has the only reference. */
static struct rr_sock *tracked(int fd)
{
	struct rr_sock *so = rr_sock_new(fd);

	cr_assert_not_null(so);
	cr_assert(rr_file_is_at(&so->f, fd));
	atomic_store(&so->conn, some_conn);
	rr_fdt_give(fd, &so->f);
	return so;
}

Test(fdtable, an_fd_that_nobody_put_in_is_not_there)
{
	cr_assert_not(rr_fdt_has(3));
	cr_assert_not(rr_fdt_has(-1));
	cr_assert_not(rr_fdt_has(INT_MAX));
	cr_assert_null(rr_fdt_get(3));
	cr_assert_null(rr_fdt_get(-1));
	cr_assert_null(rr_fdt_get(INT_MIN));
}

Test(fdtable, what_is_given_is_found_and_what_is_taken_is_not)
{
	int fd = tcp();
	struct rr_sock *so = tracked(fd);
	bool last = false;

	cr_assert(rr_fdt_has(fd));
	cr_assert_eq(rr_fdt_sock(fd), so);
	rr_file_put(&so->f);
	cr_assert_eq(rr_fdt_take(fd, &last), &so->f);
	cr_assert(last);
	cr_assert_not(rr_fdt_has(fd));
	cr_assert_null(rr_fdt_get(fd));
	cr_assert_eq(freed_conns, 0, "the taker still holds it");
	so->flags = RR_SOCK_UNMET;
	rr_unmet_n = 2;
	rr_file_put(&so->f);
	cr_assert_eq(freed_conns, 1);
	cr_assert(never_met == 1 && rr_unmet_n == 1);
	cr_assert_eq(vanished_conns, 0);
	close(fd);
}

Test(fdtable, taking_from_an_empty_slot_gives_nothing)
{
	bool last = true;

	cr_assert_null(rr_fdt_take(5, &last));
	cr_assert_not(last);
	cr_assert_null(rr_fdt_take(-1, &last));
}

Test(fdtable, a_file_at_two_numbers_is_last_only_at_the_second_close)
{
	int fd = tcp(), fd2 = dup(fd);
	struct rr_sock *so = tracked(fd);
	bool last = true;

	rr_file_hold(&so->f);
	rr_fdt_give(fd2, &so->f);
	rr_file_put(rr_fdt_take(fd, &last));
	cr_assert_not(last);
	cr_assert_eq(freed_conns, 0);
	rr_file_put(rr_fdt_take(fd2, &last));
	cr_assert(last);
	cr_assert_eq(freed_conns, 1);
}

Test(fdtable, a_call_inside_keeps_the_connection_until_it_leaves)
{
	int fd = tcp();
	struct rr_sock *inside;
	bool last;

	tracked(fd);
	inside = rr_fdt_sock(fd);
	rr_file_put(rr_fdt_take(fd, &last));
	cr_assert_eq(freed_conns, 0);
	rr_file_put(&inside->f);
	cr_assert_eq(freed_conns, 1);
}

Test(fdtable, a_number_given_again_was_closed_behind_our_back)
{
	int fd = tcp();

	tracked(fd);
	tracked(fd);
	cr_assert_eq(vanished_conns, 1);
	cr_assert_eq(unwatched, 1);
	cr_assert_eq(freed_conns, 1);
}

Test(fdtable, evicting_tells_the_connection)
{
	int fd = tcp();

	tracked(fd);
	rr_fdt_evict(fd);
	cr_assert_not(rr_fdt_has(fd));
	cr_assert_eq(vanished_conns, 1);
	rr_fdt_evict(fd);
	cr_assert_eq(vanished_conns, 1);
}

Test(fdtable, one_of_two_numbers_gone_leaves_the_connection)
{
	int fd = tcp(), fd2 = dup(fd);
	struct rr_sock *so = tracked(fd);

	rr_file_hold(&so->f);
	rr_fdt_give(fd2, &so->f);
	rr_fdt_evict(fd);
	cr_assert_eq(vanished_conns, 0);
	cr_assert(rr_fdt_has(fd2));
	cr_assert_eq(so->f.fds, 1);
	rr_fdt_evict(fd2);
	cr_assert(vanished_conns == 1 && !so->f.fds);
}

Test(fdtable, another_kernel_object_at_the_number_is_noticed_and_forgotten)
{
	int fd = tcp(), other = tcp();
	struct rr_sock *so;

	tracked(fd);
	so = rr_fdt_sock(fd);
	cr_assert(rr_file_verify(&so->f, fd));
	cr_assert_eq(dup2(other, fd), fd);
	errno = 77;
	cr_assert_not(rr_file_verify(&so->f, fd));
	cr_assert_eq(errno, 77);
	cr_assert_not(rr_fdt_has(fd));
	cr_assert_eq(vanished_conns, 1);
	rr_file_put(&so->f);
	cr_assert_eq(freed_conns, 1);
}

Test(fdtable, a_socket_closed_by_libc_is_noticed)
{
	int fd = tcp();
	struct rr_sock *so;

	tracked(fd);
	so = rr_fdt_sock(fd);
	close(fd);
	cr_assert_not(rr_file_verify(&so->f, fd));
	cr_assert_not(rr_fdt_has(fd));
}

Test(fdtable, verifying_a_dup_does_not_disturb_another_files_entry)
{
	int fd = tcp(), other = tcp();
	struct rr_sock *so = tracked(fd);

	tracked(other);
	cr_assert_not(rr_file_verify(&so->f, other));
	cr_assert(rr_fdt_has(other), "the entry at that number is not so's");
	cr_assert_eq(vanished_conns, 0);
}

Test(fdtable, a_stdio_socket_is_verified_every_time)
{
	int fd = tcp(), other = tcp();
	struct rr_sock *so;

	tracked(fd);
	so = rr_fdt_sock(fd);
	atomic_store(&so->verified, RR_TIME_NEVER / 2);	/* lately, it says */
	cr_assert_eq(dup2(other, fd), fd);
	atomic_store(&so->flags, RR_SOCK_STDIO);
	cr_assert_not(rr_sock_check(so, fd));
}

Test(fdtable, any_other_socket_is_verified_when_it_is_due)
{
	int fd = tcp(), other = tcp();
	struct rr_sock *so;

	tracked(fd);
	so = rr_fdt_sock(fd);
	cr_assert_eq(dup2(other, fd), fd);
	atomic_store(&so->verified, 0);
	cr_assert_not(rr_sock_check(so, fd));
}

Test(fdtable, a_number_beyond_the_table_stays_untracked)
{
	static const int beyond[] = { 1 << 20, INT_MAX };
	struct rr_sock *so = rr_sock_new(tcp());

	for (size_t i = 0; i < rr_array_size(beyond); i++) {
		rr_file_hold(&so->f);
		rr_fdt_give(beyond[i], &so->f);
		cr_assert_not(rr_fdt_has(beyond[i]));
		cr_assert_null(rr_fdt_get(beyond[i]));
	}
}

Test(fdtable, a_million_fds_have_slots)
{
	int fd = tcp();
	struct rr_sock *so = rr_sock_new(fd);
	bool last;

	for (int i = (1 << 20) - 1; i > 1000; i -= 9973) {
		rr_file_hold(&so->f);
		rr_fdt_give(i, &so->f);
	}
	for (int i = (1 << 20) - 1; i > 1000; i -= 9973) {
		cr_assert_eq(rr_fdt_next(i), i);
		rr_file_put(rr_fdt_take(i, &last));
	}
	cr_assert(last);
	cr_assert_eq(rr_fdt_next(0), -1);
}

Test(fdtable, sockets_of_earlier_lives_are_used_again)
{
	int fd = tcp();
	struct rr_sock *first = tracked(fd), *so;
	bool last, again = false;

	for (int i = 0; i < 1000; i++) {
		rr_file_put(rr_fdt_take(fd, &last));
		so = tracked(fd);
		again |= so == first;
	}
	cr_assert(again);
}

Test(fdtable, more_sockets_than_a_slab_holds_are_all_different)
{
	enum { N = 700 };
	static struct rr_sock *so[N];
	int fd = tcp();

	for (int i = 0; i < N; i++) {
		so[i] = rr_sock_new(fd);
		cr_assert_not_null(so[i]);
		atomic_store(&so[i]->flags, (uint32_t)i);
	}
	for (int i = 0; i < N; i++) {
		cr_assert_eq(atomic_load(&so[i]->flags), (uint32_t)i);
		rr_file_put(&so[i]->f);
	}
}

static int visited;

static void visit(int fd, struct rr_file *f, void *arg)
{
	cr_assert_geq(fd, 0);
	cr_assert_eq(f, arg);
	cr_assert_geq(atomic_load(&f->refs), 2);
	visited++;
}

Test(fdtable, each_visits_every_number)
{
	int fd = tcp(), fd2 = dup(fd);
	struct rr_sock *so = tracked(fd);

	rr_file_hold(&so->f);
	rr_fdt_give(fd2, &so->f);
	rr_fdt_each(visit, &so->f);
	cr_assert_eq(visited, 2);
}

Test(fdtable, the_last_reference_to_an_epoll_set_lets_it_go)
{
	struct rr_file ep = { .refs = 1, .kind = RR_KIND_EPOLL };
	bool last;

	rr_fdt_give(9, &ep);
	cr_assert_null(rr_fdt_sock(9), "it is no socket");
	cr_assert_eq(rr_fdt_take(9, &last), &ep);
	cr_assert(last);
	cr_assert_eq(gone_sets, 0);
	rr_file_put(&ep);
	cr_assert_eq(gone_sets, 1);
}

/* Who has it from a list of his own may come too late. */
Test(fdtable, a_socket_that_is_gone_is_not_held)
{
	int fd = tcp();
	struct rr_sock *so = tracked(fd);
	bool last;

	cr_assert(rr_sock_hold(so));
	cr_assert_eq(so->f.refs, 2);
	rr_file_put(rr_fdt_take(fd, &last));
	rr_file_put(&so->f);
	cr_assert_not(rr_sock_hold(so));
	cr_assert_eq(so->f.refs, 0);
}

/* As in a process of one thread. The test harness may have more, and libc takes no locks meanwhile. */
static struct rr_sock *new_alone(int fd)
{
	char was = __libc_single_threaded;
	struct rr_sock *so;

	__libc_single_threaded = 1;
	so = rr_sock_new(fd);
	__libc_single_threaded = was;
	return so;
}

/* Another thread may have closed it. */
Test(fdtable, an_fd_that_is_not_open_makes_no_socket)
{
	__libc_single_threaded = 0;
	errno = 77;
	cr_assert_null(rr_sock_new(999));
	cr_assert_eq(errno, 77);
}

/* The first comparison notes the inode, and is none before there is a socket. */
Test(fdtable, one_thread_asks_for_an_inode_when_it_is_compared)
{
	int fd = tcp(), other = tcp(), was = dup(fd), two[2];
	struct rr_sock *so;
	struct stat st;

	now = START;
	so = new_alone(fd);
	rr_fdt_give(fd, &so->f);
	cr_assert(rr_sock_check(so, fd) && so->f.ino == 0, "within a tick");
	cr_assert_eq(pipe(two), 0);
	errno = 77;
	cr_assert_not(rr_file_is_at(&so->f, two[0]) || rr_file_is_at(&so->f, 999));
	cr_assert(so->f.ino == 0 && errno == 77);
	now++;
	cr_assert(rr_sock_check(so, fd));
	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(so->f.ino, st.st_ino);
	cr_assert_not(rr_file_is_at(&so->f, other));
	cr_assert(rr_file_is_at(&so->f, was));
	cr_assert_eq(dup2(other, fd), fd);
	now++;
	cr_assert_not(rr_sock_check(so, fd) || rr_fdt_has(fd));
}

/* --- numbers and what is there --- */

Test(fdtable, number_0_is_one_as_any_other)
{
	int fd = tcp();
	struct rr_sock *so;

	cr_assert_eq(dup2(fd, 0), 0);
	so = tracked(0);
	cr_assert_eq(rr_fdt_next(INT_MIN), 0);
	cr_assert_eq(rr_fdt_next(1), -1);
	cr_assert(rr_fdt_any(1));
	cr_assert_not(rr_fdt_any(0));
	cr_assert_eq(rr_fdt_fd_of(some_conn), 0);
	cr_assert_eq(rr_fdt_fd_of((struct rr_conn *)0x2000), -1);
	rr_fdt_each(visit, &so->f);
	cr_assert_eq(visited, 1);
	cr_assert_eq(so->f.refs, 1);
	close(0);
	cr_assert_eq(rr_fdt_fd_of(some_conn), -1, "the kernel has closed it");
}

Test(fdtable, any_looks_below_its_end_alone)
{
	int fd = tcp();

	tracked(fd);
	cr_assert_not(rr_fdt_any(fd));
	cr_assert(rr_fdt_any(fd + 1));
	cr_assert(rr_fdt_any(INT_MAX));
	cr_assert_eq(rr_fdt_next(fd), fd);
	cr_assert_eq(rr_fdt_next(fd + 1), -1);
}

Test(fdtable, a_socket_is_at_its_own_numbers)
{
	int fd = tcp(), other = tcp();
	struct rr_sock *so = tracked(fd);

	tracked(other);
	cr_assert(rr_sock_at(so, fd));
	cr_assert_not(rr_sock_at(so, other));
	cr_assert_not(rr_sock_at(so, other + 1));
	cr_assert_not(rr_sock_at(so, 1 << 19));
}

Test(fdtable, a_stdio_socket_is_verified_within_the_tick_too)
{
	int fd = tcp(), other = tcp();
	struct rr_sock *so = tracked(fd);

	rr_file_hold(&so->f);
	cr_assert_eq(dup2(other, fd), fd);
	atomic_store(&so->flags, RR_SOCK_STDIO);
	atomic_store(&so->verified, rr_now_coarse());
	cr_assert_not(rr_sock_check(so, fd));
	cr_assert_not(rr_fdt_has(fd));
}

/* Inodes are counted for each file system. */
Test(fdtable, a_pipe_of_the_same_inode_is_no_socket)
{
	int fd = tcp(), p[2];
	struct rr_sock *so = tracked(fd);
	struct rr_file ep = { .refs = 1, .kind = RR_KIND_EPOLL };
	struct stat st;

	cr_assert_eq(pipe(p), 0);
	cr_assert_eq(fstat(p[0], &st), 0);
	so->f.ino = ep.ino = st.st_ino;
	cr_assert(rr_file_verify(&ep, p[0]), "of a set only the inode is known");
	rr_file_hold(&so->f);
	cr_assert_eq(dup2(p[0], fd), fd);
	cr_assert_not(rr_file_verify(&so->f, fd));
	cr_assert_not(rr_fdt_has(fd));
}

/* Who keeps what it has found must learn of each change, and of nothing else. */
Test(fdtable, each_change_of_the_table_is_counted)
{
	int fd = tcp(), other = dup(fd), p[2];
	uint32_t n = rr_fdt_changes();
	struct rr_sock *so = rr_sock_new(fd);
	bool last;

	cr_assert_eq(rr_fdt_changes(), n);
	rr_file_hold(&so->f);
	rr_fdt_give(fd, &so->f);
	cr_assert_eq(rr_fdt_changes(), ++n);
	rr_file_hold(&so->f);
	rr_fdt_give(other, &so->f);
	cr_assert_eq(rr_fdt_changes(), ++n);
	cr_assert(rr_file_verify(&so->f, fd));
	cr_assert_eq(rr_fdt_get(fd), &so->f);
	rr_file_put(&so->f);
	cr_assert_eq(rr_fdt_changes(), n);
	cr_assert_eq(rr_fdt_take(other, &last), &so->f);
	rr_file_put(&so->f);
	cr_assert_eq(rr_fdt_changes(), ++n);
	cr_assert_null(rr_fdt_take(other, &last));
	rr_fdt_evict(other);
	cr_assert_eq(rr_fdt_changes(), n);
	cr_assert_eq(pipe(p), 0);
	cr_assert_eq(dup2(p[0], fd), fd);
	cr_assert_not(rr_file_verify(&so->f, fd));
	cr_assert_eq(rr_fdt_changes(), ++n);
	rr_file_hold(&so->f);
	rr_fdt_give(fd, &so->f);
	rr_fdt_evict(fd);
	cr_assert_eq(rr_fdt_changes(), n += 2);
	rr_fdt_change();
	cr_assert_eq(rr_fdt_changes(), n + 1);
}

Test(fdtable, sockets_of_several_slabs_are_apart_and_are_used_again)
{
	enum { N = 300 };	/* five slabs */
	struct rr_sock *so[N];
	int fd = tcp();

	for (int i = 0; i < N; i++) {
		so[i] = rr_sock_new(fd);
		cr_assert_not_null(so[i]);
		so[i]->set_wake = i;
	}
	for (int i = 0; i < N; i++)
		cr_assert_eq(so[i]->set_wake, i);
	for (int i = 0; i < N; i++)
		rr_file_put(&so[i]->f);
	for (int i = N; i-- > 0;)
		cr_assert_eq(rr_sock_new(fd), so[i], "%d", i);
	cr_assert_neq(rr_sock_new(fd), so[0]);
	close(fd);
}

Test(fdtable, a_socket_begins_anew_in_each_life)
{
	int fd = tcp();
	struct rr_sock *so = rr_sock_new(fd);
	struct stat st;

	__libc_single_threaded = 0;
	rr_file_put(&so->f);
	so->f.fds = 3;
	so->f.ino = 1;
	so->conn = some_conn;
	so->set = 4;
	so->flags = RR_SOCK_PLAIN;
	so->watches = (struct rr_ep_watch *)0x1000;
	now = START;
	cr_assert_eq(rr_sock_new(fd), so);
	cr_assert(so->f.refs == 1 && !so->f.fds && !so->conn && !so->set && !so->flags && !so->watches);
	cr_assert_eq(so->verified, START);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert(so->f.ino == st.st_ino && so->f.kind == RR_KIND_SOCK);
	rr_file_put(&so->f);
	cr_assert_eq(new_alone(fd), so);
	cr_assert_eq(so->f.ino, 0);
}

Test(fdtable, what_a_listener_serves_is_taken_back_with_it)
{
	struct rr_sock *so = rr_sock_new(tcp());

	so->serves = 7;
	rr_file_put(&so->f);
	cr_assert(served_no_more == 7 && !so->serves);
}

Test(fdtable, a_set_whose_number_was_closed_unseen_has_no_connection)
{
	struct rr_file ep = { .refs = 1, .kind = RR_KIND_EPOLL };

	rr_fdt_give(9, &ep);
	rr_fdt_evict(9);
	cr_assert(gone_sets == 1 && !unwatched && !vanished_conns);
}

Test(fdtable, a_socket_without_a_connection_vanishes_too)
{
	int fd = tcp();
	struct rr_sock *so = rr_sock_new(fd);

	rr_fdt_give(fd, &so->f);
	errno = 77;
	rr_fdt_evict(fd);
	cr_assert(errno == 77 && unwatched == 1 && !vanished_conns && !so->f.refs);
	tracked(fd);
	rr_fdt_evict(fd);
	cr_assert(errno == 77 && unwatched == 2 && vanished_conns == 1);
}

Test(fdtable, a_number_is_verified_once_in_a_tick)
{
	int fd = tcp(), other = tcp();
	struct rr_sock *so;

	now = START;
	so = tracked(fd);
	rr_file_hold(&so->f);
	now += 4 * RR_MSEC;
	cr_assert(rr_sock_check(so, fd));
	cr_assert_eq(so->verified, now);
	cr_assert_eq(dup2(other, fd), fd);
	cr_assert(rr_sock_check(so, fd), "it was looked at in this tick");
	now += 4 * RR_MSEC;
	cr_assert_not(rr_sock_check(so, fd));
	cr_assert_not(rr_fdt_has(fd));
}

Test(fdtable, leaves_are_apart)
{
	struct rr_sock *so = rr_sock_new(tcp());

	rr_fdt_give(RR_FDT_LEAF, &so->f);
	cr_assert(rr_fdt_has(RR_FDT_LEAF) && !rr_fdt_has(0) && !rr_fdt_has(2 * RR_FDT_LEAF));
	cr_assert_eq(rr_fdt_next(0), RR_FDT_LEAF);
}

Test(fdtable, a_server_may_have_many_sockets)
{
	int fd = tcp();

	for (int i = 0; i < 140000; i++)
		cr_assert_not_null(rr_sock_new(fd));
}

/* (Sanitizers have an mmap() of their own.) */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static int meanwhile = -1, meanwhile_new = -1, mapped, unmapped;
static struct rr_file *meanwhiles;
static size_t last_unmapped;
static bool no_memory;

/* The first time, another thread needs the same leaf, or slab, just then. */
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
	int number = meanwhile, new_of = meanwhile_new;

	mapped++;
	meanwhile = meanwhile_new = -1;
	if (number >= 0)
		rr_fdt_give(number, meanwhiles);
	if (new_of >= 0)
		meanwhiles = &rr_sock_new(new_of)->f;
	if (no_memory) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
#ifdef SYS_mmap2
	return (void *)syscall(SYS_mmap2, at, n, prot, flags, fd, off >> 12);
#else
	return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, off);
#endif
}

int munmap(void *at, size_t n)
{
	unmapped += n == RR_FDT_LEAF * sizeof(rr_fdt_slot);
	last_unmapped = n;
	return (int)syscall(SYS_munmap, at, n);
}

Test(fdtable, a_leaf_that_another_thread_has_made_meanwhile_is_used_and_ours_goes)
{
	struct rr_sock *a = rr_sock_new(tcp()), *b = rr_sock_new(tcp());
	int fd = 700 * RR_FDT_LEAF;

	meanwhile = fd + 1;
	meanwhiles = &a->f;
	rr_fdt_give(fd, &b->f);
	cr_assert_eq(meanwhile, -1);
	cr_assert_eq(unmapped, 1);
	cr_assert_eq(rr_fdt_sock(fd), b);
	cr_assert_eq(rr_fdt_sock(fd + 1), a);
}

/* The first slab has 8, and no system call; the next one has 16. */
static void use_up_first_slab(int fd)
{
	for (int i = 0; i < 8; i++)
		cr_assert_not_null(rr_sock_new(fd));
}

Test(fdtable, a_slab_that_another_thread_has_made_meanwhile_is_used_and_ours_goes)
{
	int fd = tcp();
	struct rr_sock *so;

	use_up_first_slab(fd);
	meanwhile_new = fd;
	so = rr_sock_new(fd);
	cr_assert(so && &so->f != meanwhiles && so->f.refs == 1 && meanwhiles->refs == 1);
	mapped = 0;
	cr_assert_not_null(rr_sock_new(fd));
	cr_assert_eq(mapped, 0, "it is there");
	cr_assert_eq(last_unmapped, 16 * sizeof(*so));
}

Test(fdtable, without_memory_it_is_untracked)
{
	int fd = tcp();
	struct rr_sock *so = rr_sock_new(fd);

	no_memory = true;
	errno = 77;
	rr_fdt_give(700 * RR_FDT_LEAF, &so->f);
	cr_assert(!rr_fdt_has(700 * RR_FDT_LEAF) && !so->f.refs);
	cr_assert_eq(errno, 77);
	use_up_first_slab(fd);
	errno = 77;
	cr_assert_null(rr_sock_new(fd));
	cr_assert_eq(errno, 77);
	no_memory = false;
	cr_assert_not_null(rr_sock_new(fd));
}

Test(fdtable, for_a_number_beyond_the_table_nothing_is_mapped)
{
	int fd = tcp(), was = mapped;
	struct rr_sock *so = rr_sock_new(fd);

	rr_fdt_give(1 << 20, &so->f);
	cr_assert(mapped == was && !so->f.refs);
}
#endif
