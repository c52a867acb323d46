/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/mman.h>

#include "core/base/tally.h"

static struct rr_stat_seg *seg;

static void make(void)
{
	seg = mmap(NULL, RR_STAT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	cr_assert_neq((void *)seg, MAP_FAILED);
	rr_stats_init(seg, 1, 1, NULL, NULL);
}

TestSuite(tally, .init = make);

static int find(bool server, uint32_t program, uint32_t version, uint32_t procedure)
{
	return rr_tally_find(seg, server, program, version, procedure, true);
}

Test(tally, a_segment_says_how_many_there_are)
{
	cr_assert_eq(seg->ntallies, RR_STAT_TALLIES);
	cr_assert_eq(seg->tally_size, sizeof(struct rr_stat_tally));
	cr_assert_eq(seg->tallies_ready, 0);
}

Test(tally, a_key_has_one_entry_which_says_it)
{
	int i = find(true, 100003, 3, 6);

	cr_assert_geq(i, (int)RR_TALLY_OTHERS);
	cr_assert_eq(find(true, 100003, 3, 6), i);
	cr_assert_eq(rr_tally_find(seg, true, 100003, 3, 6, false), i);
	cr_assert_eq(seg->key[i].program, 100003);
	cr_assert_eq(seg->key[i].version, 3);
	cr_assert_eq(seg->key[i].procedure, 6);
	cr_assert_eq(seg->key[i].server, 1);
	cr_assert_eq(seg->tallies_ready, UINT64_C(1) << i);
}

Test(tally, keys_that_differ_in_anything_have_entries_of_their_own)
{
	int i[] = { find(false, 100003, 3, 6), find(true, 100003, 3, 6),
		    find(false, 100003, 4, 6), find(false, 100003, 3, 7),
		    find(false, 100004, 3, 6) };

	for (unsigned a = 0; a < 5; a++)
		for (unsigned b = 0; b < a; b++)
			cr_assert_neq(i[a], i[b]);
}

Test(tally, looking_takes_nothing)
{
	cr_assert_eq(rr_tally_find(seg, true, 100003, 3, 6, false), -1);
	cr_assert_eq(seg->tallies_taken, 0);
}

Test(tally, procedures_of_one_program_all_find_room)
{
	for (uint32_t p = 0; p < 22; p++)
		cr_assert_geq(find(true, 100003, 3, p), (int)RR_TALLY_OTHERS);
}

/* However many keys there are. */
Test(tally, what_finds_no_room_is_the_others)
{
	unsigned others = 0;

	for (uint32_t p = 0; p < 10000; p++) {
		int i = find(p & 1, 200000 + p, p % 7, p);

		cr_assert(i >= 0 && i < (int)RR_STAT_TALLIES);
		if (i < (int)RR_TALLY_OTHERS) {
			cr_assert_eq(i, p & 1);
			others++;
		}
	}
	cr_assert_geq(others, 10000 - (RR_STAT_TALLIES - RR_TALLY_OTHERS));
	cr_assert_eq(seg->tallies_ready, UINT64_MAX);
	cr_assert_eq(find(false, 200000, 0, 0), find(false, 200000, 0, 0));
}

/* A full file system: the first write to a page would be a SIGBUS. */
Test(tally, without_memory_there_are_none)
{
	atomic_store(&seg->backed, sizeof(*seg));
	cr_assert_eq(mprotect(&seg->conn[RR_STAT_OWN], RR_STAT_TALLIES * sizeof(struct rr_stat_tally),
			      PROT_READ), 0);
	errno = EPERM;
	cr_assert_eq(find(true, 100003, 3, 6), -1);
	cr_assert_eq(find(true, 100003, 3, 6), -1);
	cr_assert_eq(rr_tally_others(seg, false), -1);
	cr_assert_eq(seg->tallies_ready, 0);
	cr_assert_eq(errno, EPERM);
}

/* Another thread, or a signal handler, needs the others' tally while one is at it: it is asked for
 * from within the request for its memory, which madvise() refuses to a segment in the middle of a
 * page. */
static unsigned asked;

static bool ask_again(size_t off, size_t len)
{
	(void)off, (void)len;
	if (asked++ == 0)
		cr_assert_eq(rr_tally_others(seg, true), 1);
	return true;
}

Test(tally, the_others_are_there_for_whoever_comes_in_between)
{
	void *mem = mmap(NULL, RR_STAT_SIZE + 64, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(mem, MAP_FAILED);
	seg = (struct rr_stat_seg *)((char *)mem + 64);
	rr_stats_init(seg, 1, 1, NULL, NULL);
	atomic_store(&seg->backed, sizeof(*seg));
	atomic_store(&rr_stats_room, ask_again);
	cr_assert_eq(rr_tally_others(seg, true), 1);
	cr_assert_eq(asked, 2);
	cr_assert_eq(seg->tallies_ready, 1 << 1);
}

static size_t given_off, given_len;

static bool give(size_t off, size_t len)
{
	given_off = off;
	given_len = len;
	return false;
}

Test(tally, memory_is_asked_for_by_pages_before_the_first_write)
{
	int i;

	atomic_store(&seg->backed, sizeof(*seg));
	atomic_store(&rr_stats_room, give);
	i = find(true, 100003, 3, 6);
	if (given_len) {	/* a kernel without MADV_POPULATE_WRITE */
		cr_assert_eq(i, -1);
		cr_assert_eq(given_off % 4096 + given_len % 4096, 0);
	} else {
		cr_assert_geq(i, (int)RR_TALLY_OTHERS);
	}
}
