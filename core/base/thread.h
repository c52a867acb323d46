/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_THREAD_H
#define RR_THREAD_H

/* A detached thread, with no signal of the app's in it. 0 or -errno. */
int rr_thread(void *(*run)(void *), void *arg);

#endif
