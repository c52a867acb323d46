/* SPDX-License-Identifier: BSD-3-Clause */
/* read() and write() of what is no connection. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>

#include "core/base/ownfd.h"
#include "preload/real.h"
#include "preload/wrap.h"

static void *is_to_end(void *fds)
{
	const int *p = fds;
	char c;

	pthread_cancel(pthread_self());
	rr_wrap_write(p[1], "x", 1);
	rr_wrap_read(p[0], &c, 1);
	return NULL;
}

/* What a thread returns that was told to end before it wrote and read. */
static void *end_of(int p[2])
{
	pthread_t t;
	void *r;

	cr_assert_eq(pthread_create(&t, NULL, is_to_end, p), 0);
	cr_assert_eq(pthread_join(t, &r), 0);
	return r;
}

Test(io, a_thread_is_cancelled_at_descriptors_of_the_app_and_not_at_ours)
{
	int p[2];

	cr_assert_eq(pipe(p), 0);
	cr_assert_eq(end_of(p), PTHREAD_CANCELED);
	rr_ownfd_set(p[0], true);
	rr_ownfd_set(p[1], true);
	cr_assert_null(end_of(p));
}
