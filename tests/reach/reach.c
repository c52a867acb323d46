/* SPDX-License-Identifier: BSD-3-Clause */
/* For scripts/conformance --reach: which functions does a test enter? Linked into unit tests whose sources are compiled by
 * -finstrument-functions. Each function entered leaves a byte in the file RR_REACH, at its distance from the program's
 * beginning, which nm knows. The file is shared memory: it has what was entered however the test's process ends. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define QUIET	__attribute__((no_instrument_function))

extern const char __executable_start[], etext[];

void __cyg_profile_func_enter(void *fn, void *from) QUIET;
void __cyg_profile_func_exit(void *fn, void *from) QUIET;

static unsigned char *reached;

static QUIET __attribute__((constructor(101))) void open_map(void)
{
	const char *path = getenv("RR_REACH");
	size_t len = (size_t)(etext - __executable_start);
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
	void *at;

	if (fd < 0)
		return;
	if (!ftruncate(fd, (off_t)len)) {
		at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		reached = at == MAP_FAILED ? NULL : at;
	}
	close(fd);
}

void __cyg_profile_func_enter(void *fn, void *from)
{
	size_t at = (size_t)((const char *)fn - __executable_start);

	(void)from;
	if (reached && at < (size_t)(etext - __executable_start))
		reached[at] = 1;
}

void __cyg_profile_func_exit(void *fn, void *from)
{
	(void)fn;
	(void)from;
}
