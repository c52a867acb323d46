/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes and replaces files of the user's in a run directory. Other users may put names into
 * such a directory: so a file is made under a new name, and moved into place in one step. */
#include "tools/stat/ownfile.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* O_EXCL makes sure that the file is new; the name only has to be one that is rarely taken, so
 * random() will do. */
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

/* RENAME_EXCHANGE works for whatever has the name, even a directory, which a plain rename could
 * not replace. The old file then has the hidden name and is removed as far as possible. If even
 * that fails, the directory is sticky and the file is another user's. */
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
