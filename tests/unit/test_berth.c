/* SPDX-License-Identifier: BSD-3-Clause */
/* Places for mappings: who gets which, what is in them, and what stays of them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/berth.h"
#include "tests/lib/mapped.h"

#define SIZE	((size_t)3 << 20)
#define ANON	(MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE)
#define KEPT	8
#define FENDER	65536
#define PLACES	1024

/* May it be read? */
static bool readable(const void *p)
{
	int fd[2];
	ssize_t n;

	cr_assert_eq(pipe(fd), 0);
	n = write(fd[1], p, 1);
	cr_assert(n == 1 || errno == EFAULT);
	close(fd[0]);
	close(fd[1]);
	return n == 1;
}

static struct rr_berth map(size_t size)
{
	struct rr_berth b;

	if (sizeof(void *) == 4)
		cr_skip_test("addresses are too few for places to be kept");
	cr_assert_eq(rr_berth_map(&b, size, ANON, -1), 0);
	cr_assert(b.size == size && (uintptr_t)b.at % 4096 == 0);
	return b;
}

Test(berth, the_next_mapping_has_the_place_and_nothing_of_what_was_there)
{
	struct rr_berth b = map(SIZE), c;
	char *p = b.at;

	cr_assert(b.stays);
	memset(p, 'x', SIZE);
	rr_berth_unmap(&b);
	cr_assert(is_mapped(p) && !readable(p), "reserved, and empty");
	cr_assert(is_mapped(p + SIZE - 4096) && !readable(p + SIZE - 1));
	c = map(SIZE);
	cr_assert(c.at == b.at && c.stays);
	for (size_t i = 0; i < SIZE; i += 4096)
		cr_assert(p[i] == 0 && p[i + 4095] == 0);
	rr_berth_unmap(&c);
}

Test(berth, a_file_is_mapped_where_another_was)
{
	int fd = memfd_create("berth", 0);
	struct rr_berth b = map(SIZE);

	cr_assert(!ftruncate(fd, SIZE) && pwrite(fd, "file", 4, 0) == 4);
	rr_berth_unmap(&b);
	cr_assert_eq(rr_berth_map(&b, SIZE, MAP_SHARED, fd), 0);
	cr_assert_eq(memcmp(b.at, "file", 4), 0);
	memcpy((char *)b.at + SIZE - 4, "mapd", 4);
	rr_berth_unmap(&b);
	{
		char end[4];

		cr_assert(pread(fd, end, 4, SIZE - 4) == 4 && !memcmp(end, "mapd", 4));
	}
	close(fd);
}

/* Its page table stays if something in front of it reaches into what the table covers. */
Test(berth, in_front_of_a_place_something_stays)
{
	struct rr_berth b = map(SIZE);
	const char *p = b.at;

	for (int i = 0; i < 2; i++) {
		cr_assert(is_mapped(p - 4096) && !readable(p - 1) && (uintptr_t)p % (2 << 20) == FENDER);
		rr_berth_unmap(&b);
		cr_assert(is_mapped(p - 4096) && !readable(p - 1));
		b = map(SIZE);
	}
}

/* It maps memory of its own beside each mapping, and more than may be allowed. */
static void without_tsan(void)
{
#ifdef __SANITIZE_THREAD__
	cr_skip_test("TSan takes address space");
#endif
}

/* Bytes of address space. */
static size_t in_use(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t pages = 0;

	cr_assert(f && fscanf(f, "%zu", &pages) == 1);
	fclose(f);
	return pages * 4096;
}

Test(berth, a_place_takes_up_no_more_than_that)
{
	struct rr_berth b[2 * KEPT];
	size_t before = in_use();

	without_tsan();
	before = in_use();	/* stdio has its memory now */
	for (int i = 0; i < 2 * KEPT; i++)
		b[i] = map(SIZE);
	cr_assert_eq(in_use() - before, 2 * KEPT * (FENDER + SIZE));
	for (int i = 0; i < 2 * KEPT; i++)
		rr_berth_unmap(&b[i]);
	cr_assert_eq(in_use() - before, KEPT * (FENDER + SIZE));
}

Test(berth, a_mapping_of_another_size_has_a_place_of_its_own)
{
	struct rr_berth b = map(SIZE), c;

	rr_berth_unmap(&b);
	c = map(SIZE / 2);
	cr_assert((char *)c.at + c.size <= (char *)b.at || (char *)c.at >= (char *)b.at + b.size);
	cr_assert(!readable(b.at));
	c = map(SIZE);
	cr_assert_eq(c.at, b.at, "the place is still there");
}

Test(berth, places_of_two_sizes_are_kept_side_by_side)
{
	struct rr_berth a = map(SIZE), b = map(SIZE / 2);

	for (int i = 0; i < 3; i++) {
		const void *at[] = { a.at, b.at };

		rr_berth_unmap(&a);
		rr_berth_unmap(&b);
		a = map(SIZE);
		b = map(SIZE / 2);
		cr_assert(a.at == at[0] && b.at == at[1]);
	}
}

Test(berth, some_empty_places_are_kept_and_no_more)
{
	struct rr_berth b[3 * KEPT];
	int kept = 0;

	for (int i = 0; i < 3 * KEPT; i++)
		b[i] = map(SIZE);
	for (int i = 0; i < 3 * KEPT; i++)
		rr_berth_unmap(&b[i]);
	for (int i = 0; i < 3 * KEPT; i++)
		kept += is_mapped(b[i].at);
	cr_assert_eq(kept, KEPT);
}

/* Otherwise places of a size that nobody has any more would be all that is kept. */
Test(berth, a_place_is_kept_rather_than_one_of_another_size)
{
	struct rr_berth b[KEPT], c;

	for (int i = 0; i < KEPT; i++)
		b[i] = map(SIZE);
	for (int i = 0; i < KEPT; i++)
		rr_berth_unmap(&b[i]);
	c = map(SIZE / 2);
	rr_berth_unmap(&c);
	cr_assert(is_mapped(c.at));
	cr_assert_eq(map(SIZE / 2).at, c.at);
}

Test(berth, beyond_so_many_mappings_are_anywhere)
{
	static struct rr_berth b[PLACES + 10];
	int places = 0;

	for (int i = 0; i < PLACES + 10; i++) {
		b[i] = map(65536);
		*(char *)b[i].at = 1;
		places += b[i].stays;
	}
	cr_assert_eq(places, PLACES);
	for (int i = 0; i < PLACES + 10; i++)
		rr_berth_unmap(&b[i]);
	cr_assert(!is_mapped(b[PLACES].at) && !is_mapped(b[PLACES + 9].at));
	b[0] = map(4096);
	cr_assert(b[0].stays, "those that were given up count no more");
}

Test(berth, a_mapping_that_fails_leaves_nothing)
{
	struct rr_berth b, ok;

	for (int i = 0; i < PLACES + 10; i++)
		cr_assert_eq(rr_berth_map(&b, SIZE, MAP_SHARED, -1), -EBADF);
	cr_assert_null(b.at);
	ok = map(SIZE);
	cr_assert(ok.stays);
	rr_berth_unmap(&ok);
	cr_assert_eq(rr_berth_map(&b, SIZE, MAP_SHARED, -1), -EBADF);
	cr_assert(!is_mapped(ok.at), "nor the place that it had");
}

Test(berth, errno_stays_when_a_mapping_goes)
{
	struct rr_berth nowhere = { .at = (void *)1, .size = 4096, .stays = false };

	errno = EXDEV;
	rr_berth_unmap(&nowhere);
	cr_assert_eq(errno, EXDEV);
}

/* In a child: nothing is reserved where the address space is limited. */
static void limited(void)
{
	struct rlimit lim = { (rlim_t)1 << 46, (rlim_t)1 << 46 };
	struct rr_berth b;

	if (setrlimit(RLIMIT_AS, &lim) || rr_berth_map(&b, SIZE, ANON, -1) || b.stays)
		_exit(1);
	*(char *)b.at = 1;
	rr_berth_unmap(&b);
	_exit(is_mapped(b.at));
}

static int status_of(void (*in_child)(void))
{
	pid_t pid = fork();
	int st = -1;

	if (!pid)
		in_child();
	cr_assert(waitpid(pid, &st, 0) == pid);
	return st;
}

Test(berth, where_the_address_space_is_limited_no_place_stays)
{
	without_tsan();
	cr_assert_eq(status_of(limited), 0);
}

static struct rr_berth inherited;

static void in_child(void)
{
	struct rr_berth b;

	if (rr_berth_map(&b, SIZE, ANON, -1) || b.at != inherited.at)
		_exit(1);
	*(char *)b.at = 'c';
	_exit(0);
}

Test(berth, a_forked_child_has_the_places_for_itself)
{
	struct rr_berth b;

	inherited = map(SIZE);
	rr_berth_unmap(&inherited);
	cr_assert_eq(status_of(in_child), 0);
	b = map(SIZE);
	cr_assert(b.at == inherited.at && *(char *)b.at == 0);
}

static _Atomic int wrong;

static void *comes_and_goes(void *arg)
{
	char mine = *(char *)arg;

	for (int i = 0; i < 3000; i++) {
		size_t size = (size_t)(1 + i % 3) << 16;
		struct rr_berth b;
		char *p;

		if (rr_berth_map(&b, size, ANON, -1)) {
			wrong++;
			break;
		}
		p = b.at;
		wrong += p[0] != 0 || p[size - 1] != 0;
		p[0] = p[size - 1] = mine;
		for (int k = 0; k < i % 50; k++)
			__asm__ volatile("" ::: "memory");
		wrong += p[0] != mine || p[size - 1] != mine;
		rr_berth_unmap(&b);
	}
	return NULL;
}

Test(berth, of_several_threads_each_has_places_of_its_own)
{
	char name[] = "abcd";
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, comes_and_goes, &name[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	cr_assert_eq(wrong, 0);
}
