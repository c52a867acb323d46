/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_OPEN_FDS_H
#define RR_TEST_OPEN_FDS_H

#include <stdbool.h>

/* How many names a directory has, for example one of /proc/self. */
int dir_entries(const char *of);
/* Open descriptors of this process. */
int open_fds(void);
/* Waits until there are so many: what a peer has sent is closed by a thread. */
bool open_fds_get_to(int n);

#endif
