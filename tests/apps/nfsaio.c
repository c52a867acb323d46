/* SPDX-License-Identifier: BSD-3-Clause */
/* nfsaio URL N SIZE [read]: writes N blocks of SIZE bytes (or finds them there), then reads them with N READs
 * outstanding on one libnfs connection, and compares. */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <nfsc/libnfs.h>

static unsigned int size;
static int done, bad;

static unsigned char byte_at(uint64_t off)
{
	return (unsigned char)(off * 31 + (off >> 10));
}

static _Noreturn void fail(struct nfs_context *nfs, const char *what)
{
	fprintf(stderr, "nfsaio: %s: %s\n", what, nfs_get_error(nfs));
	exit(2);
}

static void on_read(int status, struct nfs_context *nfs, void *data, void *private_data)
{
	const unsigned char *b = data;
	uint64_t off = *(uint64_t *)private_data;

	(void)nfs;
	done++;
	if (status != (int)size) {
		bad++;
		return;
	}
	for (unsigned int i = 0; i < size; i++)
		if (b[i] != byte_at(off + i)) {
			bad++;
			return;
		}
}

static void write_file(struct nfs_context *nfs, struct nfsfh *fh, int n)
{
	unsigned char *b = malloc(size);

	for (int i = 0; i < n; i++) {
		uint64_t off = (uint64_t)i * size;

		for (unsigned int j = 0; j < size; j++)
			b[j] = byte_at(off + j);
		if (nfs_pwrite(nfs, fh, off, size, b) != (int)size)
			fail(nfs, "write");
	}
	free(b);
}

static void read_all_at_once(struct nfs_context *nfs, struct nfsfh *fh, int n)
{
	uint64_t *offs = calloc((unsigned int)n, sizeof(*offs));

	for (int i = 0; i < n; i++) {
		offs[i] = (uint64_t)i * size;
		if (nfs_pread_async(nfs, fh, offs[i], size, on_read, &offs[i]))
			fail(nfs, "read");
	}
	while (done < n) {
		struct pollfd p = { .fd = nfs_get_fd(nfs), .events = (short)nfs_which_events(nfs) };

		if (poll(&p, 1, 100000) <= 0)
			fail(nfs, "poll");
		if (nfs_service(nfs, p.revents) < 0)
			fail(nfs, "service");
	}
	free(offs);
}

int main(int argc, char **argv)
{
	struct nfs_context *nfs = nfs_init_context();
	int n = argc > 3 ? atoi(argv[2]) : 1;
	int reads_only = argc == 5 && strcmp(argv[4], "read") == 0;
	struct nfs_url *u;
	struct nfsfh *fh;

	if (argc != 4 && !reads_only)
		return 64;
	size = (unsigned int)atoi(argv[3]);
	u = nfs_parse_url_full(nfs, argv[1]);
	if (!u || nfs_mount(nfs, u->server, u->path) ||
	    (reads_only ? nfs_open(nfs, u->file, O_RDONLY, &fh) : nfs_creat(nfs, u->file, 0644, &fh)))
		fail(nfs, "open");
	if (!reads_only)
		write_file(nfs, fh, n);
	read_all_at_once(nfs, fh, n);
	nfs_close(nfs, fh);
	printf("nfsaio reads %d bad %d\n", done, bad);
	return bad != 0;
}
