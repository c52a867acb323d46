/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NO_THREADS_H
#define NO_THREADS_H

/* For a test program that is to see what becomes of who gets no thread. */

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

/* As long as this is set, no thread can be made. */
static _Atomic bool no_threads;
static _Atomic unsigned threads_asked_for;

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	threads_asked_for++;
	if (no_threads)
		return EAGAIN;
	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return real(t, attr, run, arg);
}

#endif
