/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_THREAD_H
#define RR_THREAD_H

/* Starts a detached thread in which no signal of the app is handled. 0 or -errno. */
int rr_thread(void *(*run)(void *), void *arg);

#endif
