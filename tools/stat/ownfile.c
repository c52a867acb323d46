/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes and replaces files of the user's in a run directory. */
#include "tools/stat/ownfile.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Makes a new file with a meaningless name, to be put in place at once. */
int rr_ownfile_make(int dir, const char *stem, char name[RR_RUN_NAME])
{
	int fd = -1;

	srandom((unsigned)getpid() ^ (unsigned)time(NULL));
	for (unsigned i = 0; fd < 0 && i < 100; i++) {
		snprintf(name, RR_RUN_NAME, ".%s.%08lx", stem, random());
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0644);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0)
		err(1, "%s", name);
	return fd;
}

/* Puts our file in place of whatever has the name, of any kind, in one step. In a sticky
 * directory only root may replace others' files. What was there is removed as far as
 * possible. */
void rr_ownfile_put(int dir, const char *hidden, const char *path, const char *name)
{
	if (!renameat2(dir, hidden, dir, name, RENAME_NOREPLACE))
		return;
	if (errno == EEXIST && !renameat2(dir, hidden, dir, name, RENAME_EXCHANGE)) {
		if (unlinkat(dir, hidden, 0))
			unlinkat(dir, hidden, AT_REMOVEDIR);
		return;
	}
	warn("%s", path);
	unlinkat(dir, hidden, 0);
	errx(1, "%s belongs to somebody else", path);
}
