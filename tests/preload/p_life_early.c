/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls before anybody's constructor, and a malloc that does I/O: as jemalloc, which opens and
 * reads a file when dlsym first allocates. */

#include "tests/preload/rpc.h"

#if P_SANITIZED
int main(void)
{
	puts("a malloc of its own cannot be the sanitizer's");
	return 77;
}
#else

#include <stdatomic.h>

static _Atomic size_t used;
static char arena[32 << 20] __attribute__((aligned(16)));
static _Atomic int in_malloc;

static void do_io(void)
{
	char c;
	int p[2], fd = open("/proc/self/stat", O_RDONLY);

	if (in_malloc++ == 0 && fd >= 0) {
		CHECK_EQ(read(fd, &c, 1), 1);
		CHECK_EQ(pipe(p), 0);
		CHECK_EQ(write(p[1], "x", 1), 1);
		CHECK_EQ(read(p[0], &c, 1), 1);
		CHECK_EQ(fcntl(p[0], F_SETFL, O_NONBLOCK), 0);
		CHECK_ERR(read(p[0], &c, 1), EAGAIN);
		CHECK_EQ(poll(&(struct pollfd){ p[0], POLLIN, 0 }, 1, 0), 0);
		close(p[0]);
		close(p[1]);
	}
	in_malloc--;
	if (fd >= 0)
		CHECK_EQ(close(fd), 0);
}

void *malloc(size_t n)
{
	size_t at;

	do_io();
	n = (n + 31) & ~(size_t)15;
	at = atomic_fetch_add(&used, n);
	if (at + n > sizeof(arena))
		return NULL;
	*(size_t *)(void *)(arena + at) = n;
	return arena + at + 16;
}

void free(void *p P_UNUSED)
{
}

void *calloc(size_t n, size_t size)
{
	return malloc(n * size);	/* the arena is used once, and zero */
}

void *realloc(void *p, size_t n)
{
	void *q = malloc(n);

	if (p && q) {
		size_t had = *(size_t *)(void *)((char *)p - 16) - 16;

		memcpy(q, p, had < n ? had : n);
	}
	return q;
}

static int early = -1;

/* Before the constructors of all libraries. */
static void first_of_all(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_INET, SOCK_DGRAM, 0);

	early = fd >= 0 && u >= 0 && fcntl(fd, F_GETFL) >= 0 && !close(fd) && !close(u) &&
		close(-1) == -1;
}

__attribute__((section(".preinit_array"), used)) static void (*const pre)(void) = first_of_all;

static void sockets_work_before_constructors(void)
{
	CHECK_EQ(early, 1);
}

static void sockets_work_over_a_malloc_that_does_io(void)
{
	int s[2];

	rpc_pair(s);
	close(s[0]);
	close(s[1]);
}

static const struct p_case cases[] = {
	{ "sockets_work_before_constructors", sockets_work_before_constructors },
	{ "sockets_work_over_a_malloc_that_does_io", sockets_work_over_a_malloc_that_does_io },
};

P_MAIN(cases)
#endif
