/* SPDX-License-Identifier: BSD-3-Clause */
/* The run directories of a process are looked for when they are first needed, once. */
#include <errno.h>
#include <pthread.h>

#include "core/base/compiler.h"
#include "preload/rundirs.h"
#include "tests/unit/rundir.h"

TestSuite(rundirs, .init = make, .fini = clean);

static bool is_there(void)
{
	return !access(dir, F_OK);
}

Test(rundirs, are_made_when_they_are_asked_for)
{
	rr_rundirs_setup(dir);
	cr_assert_not(is_there());
	errno = 77;
	cr_assert_str_eq(rr_rundirs_own(), dir);
	cr_assert(is_there());
	cr_assert_str_eq(rr_rundirs_meet(), dir);
	cr_assert_eq(errno, 77);
	rmdir(dir);
	cr_assert_str_eq(rr_rundirs_own(), dir, "found once is found for ever");
	cr_assert_not(is_there());
}

Test(rundirs, there_may_be_none)
{
	rr_rundirs_setup("/dev/null");
	errno = 77;
	cr_assert_str_eq(rr_rundirs_own(), "");
	cr_assert_str_eq(rr_rundirs_meet(), "");
	cr_assert_eq(errno, 77);
}

static pthread_barrier_t together;

static void *ask(void *arg)
{
	pthread_barrier_wait(&together);
	*(const char **)arg = rr_rundirs_own();
	return NULL;
}

Test(rundirs, threads_that_ask_at_once_get_one_answer)
{
	pthread_t t[6];
	const char *got[6];

	rr_rundirs_setup(dir);
	pthread_barrier_init(&together, NULL, 6);
	for (int i = 0; i < 6; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, ask, &got[i]), 0);
	for (int i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < 6; i++)
		cr_assert_eq(got[i], got[0]);
	cr_assert_str_eq(got[0], dir);
}
