/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts threads of the library's own. There are none unless the process forks while it has a
 * connection by RDMA, closes one from which the peer has yet to fetch something, or is sent a
 * descriptor whose close may take long. What they do is in the files that start them. */
#include "core/base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#define STACK	(256u * 1024)

/* All signals are blocked before the thread begins, because it inherits the mask: none of the
 * app's handlers ever runs on its small stack. */
int rr_thread(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, was;
	pthread_t t;
	int rc;

	if (pthread_attr_init(&attr))
		return -ENOMEM;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	rc = -pthread_create(&t, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}
