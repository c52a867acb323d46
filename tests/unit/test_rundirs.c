/* SPDX-License-Identifier: BSD-3-Clause */
/* The run directories of a process are looked for when they are first needed, once. */
#include <errno.h>
#include <pthread.h>

#include "config/rundir.h"
#include "core/base/compiler.h"
#include "core/base/log.h"

static bool find_played(const char *configured, const char *xdg, char *out);

#define rr_rundir_find find_played
#include "preload/rundirs.c"
#undef rr_rundir_find

#include "tests/unit/rundir.h"

/* How many more look while the first one does. */
static int others, deepest;
static const char *users;	/* what the user's session has */
static const char *last;

static bool find_played(const char *configured, const char *xdg, char *out)
{
	users = xdg;
	if (others > 0) {
		others--;
		deepest++;
		last = rr_rundirs_own();
	}
	return rr_rundir_find(configured, xdg, out);
}

static char said[500];

static bool keep(enum rr_log_level level RR_UNUSED, const char *text, unsigned len, unsigned at)
{
	size_t have = strlen(said);

	snprintf(said + have, sizeof(said) - have, "%.*s", (int)(len - at), text + at);
	return true;
}

static void begin_dirs(void)
{
	make();
	rr_log_setup(RR_LOG_WARN, keep);
}

TestSuite(rundirs, .init = begin_dirs, .fini = clean);

static bool is_there(void)
{
	return !access(dir, F_OK);
}

Test(rundirs, are_made_when_they_are_asked_for)
{
	rr_rundirs_setup(dir);
	setenv("XDG_RUNTIME_DIR", top, 1);
	cr_assert_not(is_there());
	errno = 77;
	cr_assert_str_eq(rr_rundirs_own(), dir);
	cr_assert(is_there());
	cr_assert_str_eq(users, top);
	cr_assert_str_eq(rr_rundirs_meet(), dir);
	cr_assert_eq(errno, 77);
	rmdir(dir);
	cr_assert_str_eq(rr_rundirs_own(), dir, "found once is found for ever");
	cr_assert_not(is_there());
	cr_assert_str_eq(said, "");
}

Test(rundirs, there_may_be_none)
{
	rr_rundirs_setup("/dev/null");
	errno = 77;
	cr_assert_str_eq(rr_rundirs_own(), "");
	cr_assert_str_eq(rr_rundirs_meet(), "");
	cr_assert_eq(errno, 77);
	cr_assert_str_eq(said, "warn: run directory /dev/null: is a symbolic link, or not a directory; statistics are kept in memory\n");
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

/* The others are signal handlers, say. */
Test(rundirs, each_that_looks_has_room_of_its_own_and_the_last_answer_is_no_other)
{
	const char *own;

	rr_rundirs_setup(dir);
	others = 7;
	own = rr_rundirs_own();
	cr_assert_str_eq(own, dir);
	cr_assert(deepest == 7 && last == own && rr_rundirs_own() == own);
}

Test(rundirs, who_finds_no_room_does_without)
{
	rr_rundirs_setup(dir);
	others = 8;
	errno = 77;
	cr_assert_str_eq(rr_rundirs_own(), dir);
	cr_assert_eq(deepest, 8);
	cr_assert_eq(errno, 77);
	cr_assert_str_eq(rr_rundirs_own(), dir);
}
