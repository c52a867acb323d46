/* SPDX-License-Identifier: BSD-3-Clause */
/* nfsload URL getattr|read|create SECONDS [DEPTH]: makes operations on one libnfs connection
 * (NFSv3), back to back: GETATTR; READ of 4 KiB, with DEPTH (1) of them outstanding; or CREATE
 * of files that were not there. Prints "OPERATIONS SECONDS". */
#include <fcntl.h>
#include <poll.h>
#include <sys/time.h>

#include <nfsc/libnfs.h>

#include "common.h"

#define BLOCK	4096u
#define BLOCKS	256u

static struct nfs_context *nfs;
static struct nfsfh *fh;
static uint64_t end;
static unsigned int done, outstanding;

static void fail(const char *what)
{
	fprintf(stderr, "nfsload: %s: %s\n", what, nfs_get_error(nfs));
	exit(1);
}

static void getattr(void)
{
	struct nfs_stat_64 st;

	for (; now() < end; done++)
		if (nfs_fstat64(nfs, fh, &st))
			fail("getattr");
}

/* Names are new even if an earlier run has been here. */
static void create(void)
{
	char name[64];

	for (; now() < end; done++) {
		struct nfsfh *made;

		snprintf(name, sizeof(name), "/%lx.%u", (unsigned long)end, done);
		if (nfs_creat(nfs, name, 0644, &made))
			fail("create");
		nfs_close(nfs, made);
	}
}

static void read_more(void);

static void on_read(int status, struct nfs_context *ctx, void *data, void *arg)
{
	(void)ctx, (void)data, (void)arg;
	if (status != (int)BLOCK)
		fail("read");
	done++;
	outstanding--;
	if (now() < end)
		read_more();
}

static void read_more(void)
{
	static unsigned int at;

	if (nfs_pread_async(nfs, fh, (uint64_t)(at++ % BLOCKS) * BLOCK, BLOCK, on_read, NULL))
		fail("read");
	outstanding++;
}

static void read_at_depth(unsigned int depth)
{
	while (depth--)
		read_more();
	while (outstanding) {
		struct pollfd p = { .fd = nfs_get_fd(nfs), .events = (short)nfs_which_events(nfs) };

		if (poll(&p, 1, 10000) <= 0 || nfs_service(nfs, p.revents) < 0)
			fail("service");
	}
}

static void open_file(struct nfs_url *u)
{
	static char zeroes[BLOCK * BLOCKS];

	if (nfs_mount(nfs, u->server, u->path) || nfs_creat(nfs, u->file, 0644, &fh) ||
	    nfs_pwrite(nfs, fh, 0, sizeof(zeroes), zeroes) != (int)sizeof(zeroes) || nfs_close(nfs, fh) ||
	    nfs_open(nfs, u->file, O_RDONLY, &fh))
		fail(u->file);
}

int main(int argc, char **argv)
{
	uint64_t start;

	if (argc < 4)
		return 64;
	nfs = nfs_init_context();
	open_file(nfs_parse_url_full(nfs, argv[1]));
	start = now();
	end = start + (uint64_t)(atof(argv[3]) * 1e9);
	if (!strcmp(argv[2], "getattr"))
		getattr();
	else if (!strcmp(argv[2], "create"))
		create();
	else
		read_at_depth(argc > 4 ? (unsigned int)atoi(argv[4]) : 1);
	printf("%u %.3f\n", done, (double)(now() - start) / 1e9);
	return 0;
}
