/* SPDX-License-Identifier: BSD-3-Clause */
/* Marks calls that our own plugins make, by thread, so that wrappers pass them through. Whether
 * a call is this process's own is process.c's to say (rr_may_track()). */

#include "preload/guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "core/base/compiler.h"

/* How deep this thread is in rr_guard_enter(). A pthread key rather than __thread:
 * general-dynamic TLS needs ld.so's __tls_get_addr (one more NEEDED), and initial-exec marks
 * the library STATIC_TLS. */
static pthread_key_t guard_key;
static _Atomic bool guard_used;
static pthread_once_t guard_once = PTHREAD_ONCE_INIT;

static void make_guard(void)
{
	if (!pthread_key_create(&guard_key, NULL))
		atomic_store_explicit(&guard_used, true, memory_order_release);
}

uintptr_t rr_guard_depth(void)
{
	if (likely(!atomic_load_explicit(&guard_used, memory_order_acquire)))
		return 0;
	return (uintptr_t)pthread_getspecific(guard_key);
}

void rr_guard_enter(void)
{
	pthread_once(&guard_once, make_guard);
	pthread_setspecific(guard_key, (void *)(rr_guard_depth() + 1));
}

void rr_guard_leave(void)
{
	pthread_setspecific(guard_key, (void *)(rr_guard_depth() - 1));
}
