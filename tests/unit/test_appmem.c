/* SPDX-License-Identifier: BSD-3-Clause */
/* Which pointers of the app lead to memory, and that asking changes nothing. */
#include "preload/appmem.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *page;	/* the second of four, of which the first and the last are not there */
static size_t size;

static void setup(void)
{
	size = (size_t)sysconf(_SC_PAGESIZE);
	page = mmap(NULL, 4 * size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(page != MAP_FAILED);
	munmap(page, size);
	munmap(page + 3 * size, size);
	page += size;
}

TestSuite(appmem, .init = setup);

/* How often the kernel is asked (the Makefile wraps this). */
static int asked;

long __real_syscall(long n, ...);
long __wrap_syscall(long n, ...);

long __wrap_syscall(long n, ...)
{
	va_list ap;
	long a[4];

	va_start(ap, n);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	asked += n == SYS_rt_sigprocmask;
	return __real_syscall(n, a[0], a[1], a[2], a[3]);
}

static bool readable(const char *p, size_t len)
{
	struct iovec iov = { (void *)p, len };

	return rr_appmem_readable(&iov, 1);
}

Test(appmem, both_ends_of_a_piece_are_looked_at)
{
	cr_assert(readable(page, 1));
	cr_assert(readable(page, 2 * size));
	cr_assert(readable(page + size - 1, 2), "across pages");
	cr_assert(readable(page + 2 * size - 1, 1), "the last byte");
	cr_assert_not(readable(page + 2 * size - 1, 2));
	cr_assert_not(readable(page, 2 * size + 1));
	cr_assert_not(readable(page - 1, 1));
	cr_assert_not(readable(page - 1, 2));
	cr_assert_not(readable(page - 1, 2 * size));
	cr_assert_not(readable(page + 2 * size, 1));
	cr_assert_not(readable(page, SIZE_MAX), "it goes round");
	cr_assert_not(readable((const char *)64, 1));
}

Test(appmem, one_look_is_enough_within_a_page)
{
	cr_assert(readable(page, 1) && asked == 1);
	cr_assert(readable(page, size) && asked == 2);
	cr_assert(readable(page, size + 1) && asked == 4);
}

Test(appmem, every_piece_counts_but_empty_ones)
{
	struct iovec iov[3] = { { page, 1 }, { (void *)64, 0 }, { page + size, 1 } };

	cr_assert(rr_appmem_readable(iov, 3));
	cr_assert(rr_appmem_readable(iov, 0));
	iov[1].iov_len = 1;
	cr_assert_not(rr_appmem_readable(iov, 3));
	cr_assert(rr_appmem_readable(iov, 1));
	iov[1].iov_base = page;
	iov[2].iov_base = page + 2 * size;
	cr_assert_not(rr_appmem_readable(iov, 3));
}

Test(appmem, pointers_at_the_ends_of_all_memory_are_none)
{
	cr_assert(rr_bad_ptr(NULL) && rr_bad_ptr((void *)(RR_PAGE - 1)) && rr_bad_ptr((void *)(UINTPTR_MAX - RR_PAGE + 1)));
	cr_assert(!rr_bad_ptr((void *)RR_PAGE) && !rr_bad_ptr((void *)(UINTPTR_MAX - RR_PAGE)) && !rr_bad_ptr(page));
}

/* The kernel is asked by a call that could change the mask, for what is there. */
Test(appmem, no_signal_is_blocked_or_let_in_whatever_is_there)
{
	char there[64];
	sigset_t was, is;

	sigemptyset(&was);
	sigaddset(&was, SIGUSR1);
	cr_assert_eq(sigprocmask(SIG_SETMASK, &was, NULL), 0);
	for (int i = 0; i < 2; i++) {
		memset(there, i ? 0xff : 0, sizeof(there));
		errno = EXDEV;
		cr_assert(readable(there, sizeof(there)));
		cr_assert_eq(errno, EXDEV);
		cr_assert_eq(sigprocmask(SIG_BLOCK, NULL, &is), 0);
		for (int sig = 1; sig < 32; sig++)
			cr_assert_eq(sigismember(&is, sig), sig == SIGUSR1, "%d %d", i, sig);
	}
}

/* --- the stack --- */

static char in_data[8];

Test(appmem, what_lies_above_a_frame_is_its_stacks)
{
	char local[8], *end = (char *)getauxval(AT_EXECFN);

	errno = EXDEV;
	cr_assert(rr_appmem_is_on_stack(local, sizeof(local)) && rr_appmem_is_on_stack(local, 0));
	cr_assert(rr_appmem_is_on_stack(end - 1, 1) && rr_appmem_is_on_stack(local, (size_t)(end - local)));
	cr_assert_not(rr_appmem_is_on_stack(end - 1, 2), "beyond the top");
	cr_assert_not(rr_appmem_is_on_stack(end, 0) || rr_appmem_is_on_stack(end, 1));
	cr_assert_not(rr_appmem_is_on_stack(local, SIZE_MAX), "it goes round");
	cr_assert_not(rr_appmem_is_on_stack(local - size, 1) || rr_appmem_is_on_stack(local - 64 * size, 1), "below");
	cr_assert(errno == EXDEV && !asked);
}

Test(appmem, other_memory_is_not_the_stacks)
{
	char *heap = calloc(1, 8);

	cr_assert_not(rr_appmem_is_on_stack(heap, 8) || rr_appmem_is_on_stack(in_data, 8) || rr_appmem_is_on_stack(page, 8));
	cr_assert_not(rr_appmem_is_on_stack(NULL, 8) || rr_appmem_is_on_stack((void *)UINTPTR_MAX, 8));
	free(heap);
}

/* What a thread has is above the frames of others, too. */
static void *on_anothers(void *top)
{
	char local[8] = "";

	cr_assert_not(rr_appmem_is_on_stack(local, 8), "its own");
	cr_assert_not(rr_appmem_is_on_stack(top, 1), "the first thread's");
	return NULL;
}

Test(appmem, another_threads_stack_is_not_known)
{
	char local[8];
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, on_anothers, local), 0);
	pthread_join(t, NULL);
}

static bool deep(size_t room)
{
	char volatile below[room];
	bool known;

	below[0] = 0;
	known = rr_appmem_is_on_stack((const void *)below, 1);
	below[room - 1] = 0;
	return known;
}

Test(appmem, a_frame_far_from_the_top_may_be_anothers)
{
	cr_assert(deep(64 * size));
	cr_assert_not(deep(256 * size));
}
