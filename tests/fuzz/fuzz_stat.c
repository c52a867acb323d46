/* SPDX-License-Identifier: BSD-3-Clause */
/* A statistics segment of any owner's, which changes while it is read: every read of the file
 * is answered by bytes that the input says, over those of a correct segment. What comes out is
 * within its bounds, and text is fit for a terminal.
 *
 * The input is edits: offset (3 bytes), how many bytes, and these; 0 bytes ends what one read
 * of the file sees. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/stats.h"
#include "core/base/tally.h"
#include "tests/fuzz/fuzz.h"
#include "tools/segment.h"

#define PID	0x3ffffff	/* nobody's */
#define TICKS	77
#define NAME	"67108863.77"

static uint8_t *segment;
static char dir[] = "/tmp/fuzz_stat.XXXXXX";
static const uint8_t *edit, *edit_end;

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at);

static uint32_t next(void)
{
	return edit < edit_end ? *edit++ : 0;
}

/* One read: the edits up to an empty one, where they are within it. */
ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at)
{
	(void)fd;
	fuzz_check(at >= 0 && (size_t)at + n <= RR_STAT_SIZE);
	memcpy(buf, segment + at, n);
	while (edit < edit_end) {
		uint32_t off = next() << 16 | next() << 8, len;

		off |= next();
		len = next();
		if (!len)
			break;
		for (; len; len--, off++) {
			uint8_t byte = (uint8_t)next();

			if (off >= (uint64_t)at && off < (uint64_t)at + n)
				((uint8_t *)buf)[off - (uint64_t)at] = byte;
		}
	}
	return (ssize_t)n;
}

static void remove_dir(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/" NAME, dir);
	unlink(path);
	rmdir(dir);
}

static void set_up(void)
{
	char path[PATH_MAX];
	struct rr_stat_seg *s;
	struct rr_stat_conn *c;
	int fd;

	segment = aligned_alloc(4096, RR_STAT_SIZE + 4096 - RR_STAT_SIZE % 4096);
	fuzz_check(segment && mkdtemp(dir));
	memset(segment, 0, RR_STAT_SIZE);
	s = (void *)segment;
	rr_stats_init(s, PID, TICKS, "name", "/a/program");
	for (int i = 0; i < 3; i++) {
		c = rr_stats_claim(s, 3 + i, i & 1);
		rr_stats_state(s, c, RR_CS_CARRIED, RR_CARRIER_SHM, RR_R_NONE);
	}
	for (uint32_t i = 0; i < 3; i++)
		rr_tally_find(s, i & 1, 100003, 3, i, true);
	rr_tally_others(s, true);
	snprintf(path, sizeof(path), "%s/" NAME, dir);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	fuzz_check(fd >= 0 && !ftruncate(fd, RR_STAT_SIZE));
	close(fd);
	atexit(remove_dir);
}

static void check_text(const char *text, size_t size)
{
	size_t len = strnlen(text, size);

	fuzz_check(len < size);
	for (size_t i = 0; i < len; i++)
		fuzz_check(text[i] >= ' ' && text[i] < 0x7f);
}

static void check_proc(const struct rr_proc *p)
{
	fuzz_check(!p->alive && p->nconns <= RR_STAT_CONNS && p->ntallies <= RR_PROC_TALLIES);
	check_text(p->comm, sizeof(p->comm));
	check_text(p->exe, sizeof(p->exe));
	for (uint32_t i = 0; i < p->nconns; i++) {
		const struct rr_proc_conn *c = &p->conns[i];

		check_text(c->local, sizeof(c->local));
		check_text(c->peer, sizeof(c->peer));
		fuzz_check(rr_state_name(c->state) && rr_carrier_name(c->carrier) && rr_reason_text(c->reason));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct rr_procs all = { 0 };

	if (!segment)
		set_up();
	edit = data;
	edit_end = data + len;
	rr_procs_read(&all, dir, NULL, 0);
	fuzz_check(all.n <= 1);
	rr_procs_sort(&all);
	for (uint32_t i = 0; i < all.n; i++)
		check_proc(&all.p[i]);
	rr_procs_fini(&all);
	return 0;
}
