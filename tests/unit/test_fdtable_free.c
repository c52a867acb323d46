/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of free sockets: its head counts, so that who has slept between a look and its change does not take another
 * list for the one that it saw. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "preload/fdtable.c"
#include "tests/lib/fdtable_fakes.h"

enum { COUNT = 3 };
#define MUCH	(UINT64_C(3) << 30)	/* the head's count may become large */

static struct rr_sock *so[COUNT];

static void begin_free(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	for (int i = 0; i < COUNT; i++) {
		so[i] = rr_sock_new(fd);
		cr_assert_eq(so[i], sock_at((uint32_t)i));
	}
	close(fd);
	cr_assert_eq(free_head, 0);
}

TestSuite(fdtable_free, .init = begin_free);

static uint64_t count(void)
{
	return free_head >> 32;
}

Test(fdtable_free, who_comes_last_goes_first_and_each_round_counts)
{
	free_head = MUCH << 32;
	for (uint32_t i = 0; i < COUNT; i++) {
		push(i, so[i]);
		cr_assert_eq((uint32_t)free_head, i + 1);
		cr_assert_eq(so[i]->next, i);
		cr_assert(count() >= MUCH && count() <= MUCH + i + 1);
	}
	for (uint32_t i = COUNT; i-- > 0;) {
		uint64_t was = count();

		cr_assert_eq(pop(), so[i]);
		cr_assert_eq((uint32_t)free_head, i);
		cr_assert(count() > MUCH && count() >= was && count() <= was + 1);
	}
}

Test(fdtable_free, the_same_list_has_another_head_each_time)
{
	uint64_t was;

	free_head = MUCH << 32;
	push(1, so[1]);
	for (int i = 0; i < 3; i++) {
		was = free_head;
		cr_assert_eq(pop(), so[1]);
		push(1, so[1]);
		cr_assert_eq((uint32_t)free_head, (uint32_t)was);
		cr_assert_neq(free_head, was);
	}
}

Test(fdtable_free, where_none_is_free_one_is_that_was_never_used)
{
	cr_assert_eq(pop(), sock_at(COUNT));
	cr_assert_eq(nsocks, COUNT + 1);
	push(0, so[0]);
	cr_assert_eq(pop(), so[0]);
	cr_assert_eq(nsocks, COUNT + 1);
}

Test(fdtable_free, each_index_has_its_slab)
{
	static const struct { uint32_t index; unsigned slab; } c[] = {
		{ 0, 0 }, { 7, 0 }, { 8, 1 }, { 23, 1 }, { 24, 2 }, { 55, 2 }, { 56, 3 }, { SOCKS - 1, SLABS - 1 },
	};

	for (size_t i = 0; i < rr_array_size(c); i++)
		cr_assert_eq(slab_of(c[i].index), c[i].slab, "%zu", i);
	cr_assert(base_of(0) == 0 && base_of(1) == 8 && base_of(2) == 24 && base_of(SLABS) == SOCKS);
	nsocks = SOCKS;
	cr_assert_null(next_sock());
	cr_assert_eq(nsocks, SOCKS);
}
